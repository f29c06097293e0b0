"""A worker process: answers requests or runs jobs, and gives memory back.

The C library keeps freed memory for the next request, in as many pools as threads wanted one. With few pools and large
blocks apart from them, what is freed can be given back; a thread does so while the process works, and once after.
Elsewhere than on Linux with glibc nothing is done here.

Each holds one end of a line to its supervisor, and sends a sign of life on it every second; a worker only while its
event loop turns. When the line is cut, because the supervisor says stop or is gone, the process ends what it has begun
and leaves.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

from discreet.errors import DiscreetError, Internal
from discreet.service import monitoring
from discreet.service.config import Config

TRIM_INTERVAL = 5.0
"""Seconds between two times that memory is given back."""
MIN_WORK_SECONDS = 0.05
"""Seconds of processor time since the last time; an idle process has nothing to give back."""
MALLOC_ARENAS = 2
MMAP_THRESHOLD = 2**20
"""Bytes from which a block is mapped by itself, and so given back when it is freed."""
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
"""The names that glibc's malloc.h gives these settings."""
STATM = Path("/proc/self/statm")


def enable_memory_trimming() -> None:
    """Set up this process so that it gives memory back, and let a thread do it from now on."""
    library = _load_libc()
    if library is None:
        return
    library.mallopt(M_ARENA_MAX, MALLOC_ARENAS)
    library.mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD)
    threading.Thread(target=_trim_periodically, args=(library,), daemon=True).start()


def get_process_memory() -> int:
    """The memory of this process, in bytes."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _trim_periodically(library: ctypes.CDLL) -> None:
    last_cpu_time = 0.0
    while True:
        time.sleep(TRIM_INTERVAL)
        if time.process_time() > last_cpu_time + MIN_WORK_SECONDS:
            library.malloc_trim(0)
            last_cpu_time = time.process_time()


def _load_libc() -> ctypes.CDLL | None:
    """The C library, where it is one that can be told so."""
    library = ctypes.CDLL(None)
    has_functions = all(hasattr(library, name) for name in ("mallopt", "malloc_trim"))
    return library if has_functions and STATM.exists() else None


class StoppableServer(Protocol):
    """A server that is run, told to stop, and asked whether its event loop turns."""

    should_exit: bool

    def run(self, sockets: list[socket.socket] | None = None) -> None: ...

    def is_responsive(self) -> bool: ...


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HEARTBEAT_INTERVAL = 1.0
"""Seconds between two signs of life."""
RESPONSIVE_SECONDS = 5.0
"""Seconds after which an event loop that did not turn gives no sign of life."""
GRACE_SECONDS = 20.0
"""Seconds, besides the deadlines, that requests under way and a job's last step are given."""
MARGIN = 5.0
PARSE_CHUNK = 4_096
"""Bytes that are parsed at once, so that a head which is too long is refused before all of it was read."""


def compute_grace(config: Config) -> float:
    """How long a process may take to stop: a late reply leaves at the second doubling of its deadline."""
    return GRACE_SECONDS + 4 * max(config.deadline, *(dataset.deadline for dataset in config.datasets))


TICKS_PER_PRUNE = 100
"""Ten seconds, of the ten ticks a second that a server has."""
LedgerIdentities = Mapping[str, str]
"""The identity of each data set's ledger, as the supervisor opened it: a process started again opens no other."""


def answer_requests(
    config: Config, server_socket: socket.socket, run_id: str, ledgers: LedgerIdentities, pipe: Connection
) -> None:
    """Answer requests until the line is cut; those under way are answered first."""
    _prepare_process("worker")
    try:
        _answer_requests(config, server_socket, run_id, ledgers, pipe)
    except Exception as error:  # the outermost boundary of a process: what is not ours is told without its text
        sys.exit(_report_failure(error))


def run_jobs(config: Config, ledgers: LedgerIdentities, pipe: Connection) -> None:
    """Run jobs until the line is cut."""
    _prepare_process("runner")
    try:
        _run_jobs(config, ledgers, pipe)
    except Exception as error:  # as above
        sys.exit(_report_failure(error))


def _answer_requests(
    config: Config, server_socket: socket.socket, run_id: str, ledgers: LedgerIdentities, pipe: Connection
) -> None:
    server = _build_server(config, run_id, ledgers)

    def stop() -> None:
        server.should_exit = True

    _watch_pipe(pipe, stop, compute_grace(config) + MARGIN)
    _start_heartbeat(pipe, server.is_responsive)
    server.run(sockets=[server_socket])


def _build_server(config: Config, run_id: str, ledgers: LedgerIdentities) -> StoppableServer:
    import uvicorn
    from anyio import to_thread

    from discreet.service.app import make_app
    from discreet.service.middleware.auth import MAX_HEAD_BYTES

    class ResponsiveServer(uvicorn.Server):
        last_tick = time.monotonic()
        prune_task: asyncio.Task[None] | None = None

        async def on_tick(self, counter: int) -> bool:
            self.last_tick = time.monotonic()
            if counter % TICKS_PER_PRUNE == 0 and (self.prune_task is None or self.prune_task.done()):
                # Threads that are idle end when the next one is wanted, and their memory is given back then.
                self.prune_task = asyncio.create_task(to_thread.run_sync(_do_nothing))
            return await super().on_tick(counter)

        def is_responsive(self) -> bool:
            return time.monotonic() - self.last_tick < RESPONSIVE_SECONDS

    return ResponsiveServer(
        uvicorn.Config(
            make_app(config, run_id, ledgers),
            http=_build_chunked_protocol(),
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            workers=1,  # else read from the environment
            proxy_headers=False,  # nothing depends on who says to have sent a request on
            server_header=False,
            timeout_graceful_shutdown=round(compute_grace(config)),
            ssl_certfile=None if config.tls is None else config.tls.certificate,
            ssl_keyfile=None if config.tls is None else config.tls.key,
        )
    )


def _do_nothing() -> None:
    """Work for a thread that leaves at once."""


def _build_chunked_protocol() -> type[asyncio.Protocol]:
    """The protocol that bounds a request's head, which it does only where a head does not come in one piece."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class ChunkedProtocol(H11Protocol):
        def data_received(self, data: bytes) -> None:
            for start in range(0, len(data), PARSE_CHUNK):
                if self.transport.is_closing():
                    return  # the request was refused: nothing that follows is read
                super().data_received(data[start : start + PARSE_CHUNK])

    return ChunkedProtocol


def _run_jobs(config: Config, ledgers: LedgerIdentities, pipe: Connection) -> None:
    from discreet.service import jobs

    stop_event = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop_event.set())
    _watch_pipe(pipe, stop_event.set, compute_grace(config))
    _start_heartbeat(pipe, lambda: True)
    jobs.run_job_loop(config, stop_event.is_set, ledgers)


def _start_heartbeat(pipe: Connection, is_alive: Callable[[], bool]) -> None:
    """Send a sign of life every second, from a thread that may wait, as long as the process lives."""

    def send_beats() -> None:
        with suppress(OSError):  # the line is cut
            while True:
                time.sleep(HEARTBEAT_INTERVAL)
                if is_alive():
                    pipe.send_bytes(b".")

    threading.Thread(target=send_beats, daemon=True).start()


def _prepare_process(name: str) -> None:
    """Take signals as a child should, and let no library write what may hold a value."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # a terminal sends them to all; the supervisor says when to stop
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    warnings.simplefilter("ignore")
    logging.getLogger().handlers = [_LocationHandler()]
    threading.excepthook = lambda failure: _log_failure(failure.exc_value)
    sys.unraisablehook = lambda failure: _log_failure(failure.exc_value)
    enable_memory_trimming()
    monitoring.write_event("started", where=name)


class _LocationHandler(logging.Handler):
    """Of what libraries log, writes only that something failed, and where."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the place, without the words."""
        error = None if record.exc_info is None else record.exc_info[1]
        if error is None:
            monitoring.write_event("failed", where=f"{record.name} at {record.filename}:{record.lineno}")
        else:
            _log_failure(error)


def _log_failure(error: BaseException | None) -> None:
    if error is not None:
        monitoring.write_event("failed", where=monitoring.format_error_location(error))


def _report_failure(error: Exception) -> int:
    _log_failure(error)
    return error.exit_code if isinstance(error, DiscreetError) else Internal.exit_code


def _watch_pipe(pipe: Connection, stop: Callable[[], None], limit: float) -> None:
    """Stop once the line is cut, and leave in any case after the limit."""

    def watch() -> None:
        pipe.poll(None)
        stop()
        time.sleep(limit)
        os._exit(Internal.exit_code)

    threading.Thread(target=watch, daemon=True).start()
