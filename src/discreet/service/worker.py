"""What runs in the processes of a service: one worker of several, or the one that runs jobs.

Each holds one end of a line to its supervisor, and sends a sign of life on it every second; a worker only while its
event loop turns. When the line is cut, because the supervisor says stop or is gone, the process ends what it has begun
and leaves.
"""

from __future__ import annotations

import asyncio
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
from typing import Protocol

from discreet.errors import DiscreetError, Internal
from discreet.service import logs, memory
from discreet.service.config import Config


class Turning(Protocol):
    """A server that is run, told to stop, and asked whether its event loop turns."""

    should_exit: bool

    def run(self, sockets: list[socket.socket] | None = None) -> None: ...

    def turns(self) -> bool: ...


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BEAT = 1.0
"""Seconds between two signs of life."""
STILL = 5.0
"""Seconds after which an event loop that did not turn gives no sign of life."""
GRACE = 20.0
"""Seconds, besides the deadlines, that requests under way and a job's last step are given."""
MARGIN = 5.0
PIECE = 4_096
"""Bytes that are parsed at once, so that a head which is too long is refused before all of it was read."""


def grace(config: Config) -> float:
    """How long a process may take to stop: a late reply leaves at the second doubling of its deadline."""
    return GRACE + 4 * max(config.deadline, *(one.deadline for one in config.datasets))


TICKS = 100
"""Ten seconds, of the ten ticks a second that a server has."""
Ledgers = Mapping[str, str]
"""The identity of each data set's ledger, as the supervisor opened it: a process started again opens no other."""


def answer_requests(config: Config, listening: socket.socket, life: str, ledgers: Ledgers, line: Connection) -> None:
    """Answer requests until the line is cut; those under way are answered first."""
    _prepare("worker")
    try:
        _answer_requests(config, listening, life, ledgers, line)
    except Exception as error:  # the outermost boundary of a process: what is not ours is told without its text
        sys.exit(_failed(error))


def run_jobs(config: Config, ledgers: Ledgers, line: Connection) -> None:
    """Run jobs until the line is cut."""
    _prepare("runner")
    try:
        _run_jobs(config, ledgers, line)
    except Exception as error:  # as above
        sys.exit(_failed(error))


def _answer_requests(config: Config, listening: socket.socket, life: str, ledgers: Ledgers, line: Connection) -> None:
    server = _server(config, life, ledgers)

    def stop() -> None:
        server.should_exit = True

    _watch(line, stop, grace(config) + MARGIN)
    _beat(line, server.turns)
    server.run(sockets=[listening])


def _server(config: Config, life: str, ledgers: Ledgers) -> Turning:
    import uvicorn
    from anyio import to_thread

    from discreet.service.app import make_app
    from discreet.service.gate import LONGEST_HEAD

    class Ticking(uvicorn.Server):
        ticked = time.monotonic()
        pruning: asyncio.Task[None] | None = None

        async def on_tick(self, counter: int) -> bool:
            self.ticked = time.monotonic()
            if counter % TICKS == 0 and (self.pruning is None or self.pruning.done()):
                # Threads that are idle end when the next one is wanted, and their memory is given back then.
                self.pruning = asyncio.create_task(to_thread.run_sync(_nothing))
            return await super().on_tick(counter)

        def turns(self) -> bool:
            return time.monotonic() - self.ticked < STILL

    return Ticking(
        uvicorn.Config(
            make_app(config, life, ledgers),
            http=_in_pieces(),
            h11_max_incomplete_event_size=LONGEST_HEAD,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            workers=1,  # else read from the environment
            proxy_headers=False,  # nothing depends on who says to have sent a request on
            server_header=False,
            timeout_graceful_shutdown=round(grace(config)),
            ssl_certfile=None if config.tls is None else config.tls.certificate,
            ssl_keyfile=None if config.tls is None else config.tls.key,
        )
    )


def _nothing() -> None:
    """Work for a thread that leaves at once."""


def _in_pieces() -> type[asyncio.Protocol]:
    """The protocol that bounds a request's head, which it does only where a head does not come in one piece."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class InPieces(H11Protocol):
        def data_received(self, data: bytes) -> None:
            for start in range(0, len(data), PIECE):
                if self.transport.is_closing():
                    return  # the request was refused: nothing that follows is read
                super().data_received(data[start : start + PIECE])

    return InPieces


def _run_jobs(config: Config, ledgers: Ledgers, line: Connection) -> None:
    from discreet.service import jobs

    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    _watch(line, stopping.set, grace(config))
    _beat(line, lambda: True)
    jobs.run_jobs(config, stopping.is_set, ledgers)


def _beat(line: Connection, lives: Callable[[], bool]) -> None:
    """Send a sign of life every second, from a thread that may wait, as long as the process lives."""

    def beat() -> None:
        with suppress(OSError):  # the line is cut
            while True:
                time.sleep(BEAT)
                if lives():
                    line.send_bytes(b".")

    threading.Thread(target=beat, daemon=True).start()


def _prepare(name: str) -> None:
    """Take signals as a child should, and let no library write what may hold a value."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # a terminal sends them to all; the supervisor says when to stop
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    warnings.simplefilter("ignore")
    logging.getLogger().handlers = [_Wordless()]
    threading.excepthook = lambda told: _log(told.exc_value)
    sys.unraisablehook = lambda told: _log(told.exc_value)
    memory.keep_small()
    logs.write("started", where=name)


class _Wordless(logging.Handler):
    """Of what libraries log, writes only that something failed, and where."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the place, without the words."""
        error = None if record.exc_info is None else record.exc_info[1]
        if error is None:
            logs.write("failed", where=f"{record.name} at {record.filename}:{record.lineno}")
        else:
            _log(error)


def _log(error: BaseException | None) -> None:
    if error is not None:
        logs.write("failed", where=logs.where(error))


def _failed(error: Exception) -> int:
    _log(error)
    return error.exit_code if isinstance(error, DiscreetError) else Internal.exit_code


def _watch(line: Connection, stop: Callable[[], None], limit: float) -> None:
    """Stop once the line is cut, and leave in any case after the limit."""

    def watch() -> None:
        line.poll(None)
        stop()
        time.sleep(limit)
        os._exit(Internal.exit_code)

    threading.Thread(target=watch, daemon=True).start()
