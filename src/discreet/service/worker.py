"""A worker process: answers requests or runs jobs, and returns freed memory to the system.

Each has a pipe to its supervisor, and sends a heartbeat on it every second; one that answers requests does so only
while its event loop turns. When the pipe is closed, because the supervisor says stop or is gone, the process finishes
what it has begun and ends.

The C library keeps freed memory for the next request, in as many pools as threads wanted one. With few pools and large
blocks apart from them, freed memory can be returned; a thread does so while the process works, and once after. This is
done on Linux with glibc alone.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

from discreet.errors import DiscreetError, Internal
from discreet.service import monitoring
from discreet.service.config import Config

TRIM_INTERVAL = 5.0
"""Seconds after which freed memory is returned to the system."""
MIN_WORK_SECONDS = 0.05
"""Processor time since then without which nothing is done; an idle process has nothing to return."""
MALLOC_ARENAS = 2
MMAP_THRESHOLD = 2**20
"""Bytes from which a block is mapped by itself, and so returned when it is freed."""
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
"""The names that glibc's malloc.h gives these settings."""
STATM = Path("/proc/self/statm")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HEARTBEAT_INTERVAL = 1.0
RESPONSIVE_SECONDS = 5.0
"""Seconds after which an event loop that did not turn sends no heartbeats."""
GRACE_SECONDS = 20.0
"""Seconds, besides the deadlines, that requests under way and a job's last step are given."""
MARGIN = 5.0
PARSE_CHUNK = 4_096
"""Bytes that are parsed at once, so that a head which is too long is refused before all of it was read."""
TICKS_PER_PRUNE = 100
"""Ten seconds, of the ten ticks a second that a server has."""
LedgerIdentities = Mapping[str, str]
"""The identity of each data set's ledger, as the supervisor opened it: a process started again opens no other."""


def enable_memory_trimming() -> None:
    """Return freed memory to the system from now on, in a thread."""
    library = ctypes.CDLL(None)
    has_functions = all(hasattr(library, name) for name in ("mallopt", "malloc_trim"))
    if not has_functions or not STATM.exists():
        return
    library.mallopt(M_ARENA_MAX, MALLOC_ARENAS)
    library.mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD)

    def trim_periodically() -> None:
        last_cpu_time = 0.0
        while True:
            time.sleep(TRIM_INTERVAL)
            if time.process_time() > last_cpu_time + MIN_WORK_SECONDS:
                library.malloc_trim(0)
                last_cpu_time = time.process_time()

    threading.Thread(target=trim_periodically, daemon=True).start()


def compute_grace(config: Config) -> float:
    """Compute how long a process may take to stop: a late reply leaves at the second doubling of its deadline."""
    return GRACE_SECONDS + 4 * max(config.deadline, *(dataset.deadline for dataset in config.datasets))


class StoppableServer(Protocol):
    """A server that can be stopped, and that knows whether its event loop turns."""

    should_exit: bool

    def run(self, sockets: list[socket.socket] | None = None) -> None: ...

    def is_responsive(self) -> bool: ...


def answer_requests(
    config: Config, server_socket: socket.socket, run_id: str, ledgers: LedgerIdentities, pipe: Connection
) -> None:
    """Answer requests until the pipe is closed; those under way are answered first."""
    with _run_as_process("worker"):
        server = _build_server(config, run_id, ledgers)

        def stop() -> None:
            server.should_exit = True

        _watch_pipe(pipe, stop, compute_grace(config) + MARGIN)
        _start_heartbeat(pipe, server.is_responsive)
        server.run(sockets=[server_socket])


def run_jobs(config: Config, ledgers: LedgerIdentities, pipe: Connection) -> None:
    """Run jobs until the pipe is closed."""
    with _run_as_process("runner"):
        from discreet.service import jobs

        stop_event = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop_event.set())
        _watch_pipe(pipe, stop_event.set, compute_grace(config))
        _start_heartbeat(pipe, lambda: True)
        jobs.run_job_loop(config, stop_event.is_set, ledgers)


@contextmanager
def _run_as_process(name: str) -> Iterator[None]:
    """The outermost boundary of a process: an error that is not ours is logged without its text."""
    _prepare_process(name)
    try:
        yield
    except Exception as error:
        _log_failure(error)
        sys.exit(error.exit_code if isinstance(error, DiscreetError) else Internal.exit_code)


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
                # Threads that are idle end when the next one is wanted, and their memory is returned then.
                self.prune_task = asyncio.create_task(to_thread.run_sync(lambda: None))
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


def _build_chunked_protocol() -> type[asyncio.Protocol]:
    """Build a protocol that bounds a request's head also where it comes in one piece."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class ChunkedProtocol(H11Protocol):
        def data_received(self, data: bytes) -> None:
            for start in range(0, len(data), PARSE_CHUNK):
                if self.transport.is_closing():
                    return  # the request was refused: nothing that follows is read
                super().data_received(data[start : start + PARSE_CHUNK])

    return ChunkedProtocol


def _start_heartbeat(pipe: Connection, is_alive: Callable[[], bool]) -> None:
    """Send heartbeats from a thread that may wait, as long as the process lives."""

    def send_beats() -> None:
        with suppress(OSError):  # the pipe is closed
            while True:
                time.sleep(HEARTBEAT_INTERVAL)
                if is_alive():
                    pipe.send_bytes(b".")

    threading.Thread(target=send_beats, daemon=True).start()


def _prepare_process(name: str) -> None:
    """Ignore signals that the supervisor handles, and let no library write what may hold a value."""
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
    """Writes of what libraries log only that something failed, and where."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the location of a failure, without its message."""
        error = None if record.exc_info is None else record.exc_info[1]
        if error is None:
            monitoring.write_event("failed", where=f"{record.name} at {record.filename}:{record.lineno}")
        else:
            _log_failure(error)


def _log_failure(error: BaseException | None) -> None:
    if error is not None:
        monitoring.write_event("failed", where=monitoring.format_error_location(error))


def _watch_pipe(pipe: Connection, stop: Callable[[], None], limit: float) -> None:
    """Stop once the pipe is closed, and exit in any case after the limit."""

    def watch() -> None:
        pipe.poll(None)
        stop()
        time.sleep(limit)
        os._exit(Internal.exit_code)

    threading.Thread(target=watch, daemon=True).start()
