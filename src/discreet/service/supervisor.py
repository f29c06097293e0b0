"""The supervisor: checks the configuration, listens, and keeps worker processes running.

A child that dies is started again, after a pause that grows while it dies early. A child that hangs is killed: each
sends a heartbeat every second. All stop when the supervisor says so or dies: each holds one end of a pipe that is
closed then. They are forked from a process that only imports: what all of them need is loaded once, and a worker that
is started again answers at once.
"""

from __future__ import annotations

import errno
import math
import multiprocessing
import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import FrameType

from discreet.client.transport import format_url
from discreet.custodian import Custodian
from discreet.datasets.dataset_dir import generate_identifier, open_bound_ledger
from discreet.datasets.integrity import Progress, find_current_snapshot, ignore_stage
from discreet.errors import DiscreetError, InvalidInput, Unavailable
from discreet.service import monitoring, worker
from discreet.service.config import TLS, Config
from discreet.service.dataset_registry import ServedDataset, Service, get_rehearsal_folder
from discreet.service.health import is_healthy
from discreet.service.store.tokens import require_distinct_name

BACKLOG = 1024
MIN_PAUSE, MAX_PAUSE = 0.1, 5.0
STABLE_AFTER = 60.0
"""Seconds after which a process that dies did not die early."""
MAX_EARLY_DEATHS = 3
"""Deaths of one process before the service was ever ready, after which it is given up."""
HEARTBEAT_POLL = 1.0
HEALTH_POLL = 0.1
PROCESS_CONTEXT = multiprocessing.get_context("forkserver")
"""A fork of this process would copy the locks of its threads."""
STOP, INTERRUPT, READY = b"s", b"i", b"r"
SAFE_PATH_VARIABLE = "PYTHONSAFEPATH"
SIGNAL_MESSAGES = {signal.SIGTERM: STOP, signal.SIGHUP: STOP, signal.SIGINT: INTERRUPT}
"""What a signal sends to the loop; a second interrupt, by a person who will not wait, ends everything at once."""


def bind_socket(config: Config) -> socket.socket:
    """Bind a socket to the service's address; nobody can connect to it yet."""
    try:
        addresses = socket.getaddrinfo(config.address, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise InvalidInput(_format_wrong_address(config)) from None
    family, kind, protocol, _, address = addresses[0]
    server_socket = socket.socket(family, kind, protocol)
    try:
        server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server_socket.bind(address)
    except OSError as error:
        server_socket.close()
        raise _explain_bind_error(config, error) from None
    return server_socket


def listen(server_socket: socket.socket, config: Config) -> None:
    """Let clients connect; another process that took the port since it was bound is noticed only now."""
    try:
        server_socket.listen(BACKLOG)
    except OSError as error:
        raise _explain_bind_error(config, error) from None


def _explain_bind_error(config: Config, error: OSError) -> DiscreetError:
    if error.errno == errno.EADDRINUSE:
        return Unavailable(f"port {config.port} is taken; stop what listens there, or choose another with --port")
    if error.errno == errno.EACCES:
        return Unavailable(f"port {config.port} is not for this user; choose one above 1023, or allow it this one")
    return InvalidInput(_format_wrong_address(config))


def _format_wrong_address(config: Config) -> str:
    return f"{config.address[:40]!r} is no address of this machine; serve on 127.0.0.1, or on one of its own"


def format_service_url(config: Config, server_socket: socket.socket) -> str:
    """Build the URL of the service, with the port that was bound."""
    return format_url(config.tls is not None, config.address, server_socket.getsockname()[1])


def check_tls(tls: TLS) -> None:
    """Check that the certificate and its key can be read and belong together; no password is asked for."""

    def refuse_password() -> str:
        raise ValueError("no password")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key, password=refuse_password)
    except (OSError, ValueError):
        raise InvalidInput(
            "the certificate and the key of tls cannot be read, or do not belong together; give two PEM files that "
            "this user may read, the key without a password"
        ) from None


def try_startup(config: Config, progress: Progress) -> Mapping[str, str]:
    """Open and close the certificate, the store and the data sets, and register those that never were.

    Returns the identity of each data set's ledger, which all processes of this run must find again.
    """
    if config.tls is not None:
        check_tls(config.tls)
    with closing(Service.open(config)) as service:
        for name in service.registry.names:
            require_distinct_name(name, service.registry.names, "the data set")
            progress(f"opening {name}")
            dataset = service.registry.find_dataset(name)
            if dataset is not None:
                _open_dataset(service, dataset, progress)
        return service.registry.ledgers


def _open_dataset(service: Service, dataset: ServedDataset, progress: Progress) -> None:
    schema, config = dataset.schema, service.config
    if dataset.engine == "spark":  # opened by the one process that runs jobs: each Spark has a Java of its own
        if find_current_snapshot(schema) is None:
            raise InvalidInput(f"{schema.name} is not registered; run: discreet check {dataset.config.schema.name}")
        with open_bound_ledger(schema, config.ledger) as ledger:
            service.registry.watch_ledger(schema.name, ledger)
    else:
        with Custodian.open(dataset.config.schema, config.ledger, progress=progress) as custodian:
            service.registry.watch_ledger(schema.name, custodian._ledger)
    progress(f"making up a table to rehearse {schema.name} with")
    Custodian.rehearse(dataset.config.schema, get_rehearsal_folder(config, schema.name)).close()


@dataclass(slots=True, eq=False)
class SupervisedProcess:
    """A process that is kept running: its work, the process that does it now, and when another may be started."""

    name: str
    work: Callable[..., None]
    arguments: tuple[object, ...]
    process: BaseProcess | None = None
    pipe: Connection | None = None
    started_at: float = 0.0
    pause: float = 0.0
    restart_at: float = 0.0
    deaths: int = 0
    hang_timeout: float = math.inf
    last_beat: float | None = None
    last_poll: float = 0.0

    def keep_running(self, now: float) -> None:
        """Kill the process if it hangs, note its death, and start another once the pause is over."""
        self._read_heartbeats(now)
        if self.process is not None and self.last_beat is not None and now - self.last_beat > self.hang_timeout:
            monitoring.write_event("hung", process=self.process.pid, where=self.name)
            self.process.kill()
            self.process.join()
        if self.process is not None and not self.process.is_alive():
            monitoring.write_event("died", process=self.process.pid, status=self.process.exitcode, where=self.name)
            self.process, self.deaths = None, self.deaths + 1
            self._schedule_restart(now)
        if self.process is None and now >= self.restart_at:
            self._start(now)

    def close_pipe(self) -> None:
        """Tell the process to stop."""
        if self.pipe is not None:
            self.pipe.close()
            self.pipe = None

    def _read_heartbeats(self, now: float) -> None:
        """Read heartbeats. After a time in which the supervisor itself stood still, counting begins anew."""
        was_suspended, self.last_poll = now - self.last_poll > self.hang_timeout / 2, now
        try:
            while self.pipe is not None and self.pipe.poll():
                self.pipe.recv_bytes()
                self.last_beat = now
        except (EOFError, OSError):  # the process is gone
            return
        self.last_beat = now if was_suspended and self.last_beat is not None else self.last_beat

    def _start(self, now: float) -> None:
        child_end, parent_end = PROCESS_CONTEXT.Pipe()
        process = PROCESS_CONTEXT.Process(target=self.work, args=(*self.arguments, child_end), daemon=True)
        self.pipe, self.started_at, self.last_beat = parent_end, now, None
        try:
            with child_end, _block_signals():
                process.start()
        except (OSError, EOFError) as error:  # no memory or no more processes: there may be, later
            monitoring.write_event("failed", where=monitoring.format_error_location(error))
            self.deaths += isinstance(error, EOFError | ConnectionError)  # of the process that forks
            self._schedule_restart(now)
        else:
            self.process = process

    def _schedule_restart(self, now: float) -> None:
        self.close_pipe()
        self.pause = compute_next_pause(self.pause, now - self.started_at)
        self.restart_at = now + self.pause


def compute_next_pause(previous: float, lifetime: float) -> float:
    """Compute the pause before a restart: the shortest after a long life, else twice the previous one."""
    return MIN_PAUSE if lifetime >= STABLE_AFTER else min(MAX_PAUSE, max(MIN_PAUSE, 2 * previous))


def run_service(config: Config, announce: Callable[[str], None], progress: Progress = ignore_stage) -> None:
    """Serve until a signal says stop; `announce` is called with the address once the service answers there."""
    with closing(bind_socket(config)) as server_socket:
        _import_ahead()
        ledgers = try_startup(config, progress)
        listen(server_socket, config)
        progress("starting")
        # A worker that is started again belongs to the same run.
        arguments = (config, server_socket, generate_identifier(), ledgers)
        children = [
            SupervisedProcess("worker", worker.answer_requests, arguments, hang_timeout=config.hung)
            for _ in range(config.workers)
        ]
        children.append(SupervisedProcess("runner", worker.run_jobs, (config, ledgers), hang_timeout=config.hung))
        with _open_wakeup_pair() as (receiver, sender):
            try:
                _watch_startup(config, server_socket, sender)
                supervise_processes(children, receiver, lambda: announce(format_service_url(config, server_socket)))
            finally:
                monitoring.write_event("stopping")
                server_socket.close()
                stop_processes(children, receiver, worker.compute_grace(config) + 2 * worker.MARGIN)


def supervise_processes(
    children: Sequence[SupervisedProcess], receiver: socket.socket, announce: Callable[[], None]
) -> None:
    """Keep every process running until a signal comes."""
    is_ready = False
    while True:
        now = time.monotonic()
        for child in children:
            child.keep_running(now)
        if not is_ready and max(child.deaths for child in children) >= MAX_EARLY_DEATHS:
            raise Unavailable("the workers end as soon as they start; what failed is in the lines above")
        waits = [max(0.0, child.restart_at - now) for child in children if child.process is None]
        sentinels = [child.process.sentinel for child in children if child.process is not None]
        if receiver in connection.wait([receiver, *sentinels], min([*waits, HEARTBEAT_POLL])):
            if receiver.recv(1) != READY:
                return
            is_ready = True
            announce()


def stop_processes(children: Sequence[SupervisedProcess], receiver: socket.socket, limit: float) -> None:
    """Tell all processes to stop, wait for them, and kill those that do not."""
    for child in children:
        child.close_pipe()
    stop_at = time.monotonic() + limit
    processes = [child.process for child in children if child.process is not None]
    while alive := [process.sentinel for process in processes if process.is_alive()]:
        remaining = stop_at - time.monotonic()
        if remaining <= 0:
            break
        if receiver in connection.wait([receiver, *alive], remaining) and receiver.recv(1) == INTERRUPT:
            break
    for process in processes:
        process.kill()
        process.join()


def _import_ahead() -> None:
    PROCESS_CONTEXT.set_forkserver_preload(["discreet.service.preload"])
    try:
        with _block_signals():
            forkserver.ensure_running()
    except OSError:
        raise Unavailable(
            "the process that the others are forked from cannot be started; it needs memory, and a folder for "
            "temporary files that can be written and has a short name: set TMPDIR"
        ) from None


def _watch_startup(config: Config, server_socket: socket.socket, sender: socket.socket) -> None:
    host, port = server_socket.getsockname()[:2]

    def poll_health() -> None:
        while not is_healthy(host, port, config.tls is not None):
            time.sleep(HEALTH_POLL)
        with suppress(OSError):  # it was stopped before it was ready
            sender.send(READY)

    threading.Thread(target=poll_health, daemon=True).start()


@contextmanager
def _open_wakeup_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected sockets that wake the loop: signals, too, are sent into one of them."""
    receiver, sender = socket.socketpair()

    def send_signal(number: int, _: FrameType | None) -> None:
        sender.send(SIGNAL_MESSAGES[signal.Signals(number)])

    signals = [number for number in SIGNAL_MESSAGES if signal.getsignal(number) is not signal.SIG_IGN]  # nohup means it
    with receiver, sender:
        previous_handlers = {number: signal.signal(number, send_signal) for number in signals}
        try:
            yield receiver, sender
        finally:
            for number, handler in previous_handlers.items():
                signal.signal(number, handler)


@contextmanager
def _block_signals() -> Iterator[None]:
    """Block signals here and in the processes that are started, which unblock them once they have handlers.

    And Python does not look for modules in the folder that it is started in, which may be that of the data.
    """
    previous_path = os.environ.get(SAFE_PATH_VARIABLE)
    os.environ[SAFE_PATH_VARIABLE] = "1"
    try:
        resource_tracker.ensure_running()  # its own start would let signals in
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, worker.SIGNALS)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
    finally:
        os.environ.pop(SAFE_PATH_VARIABLE)
        os.environ.update({} if previous_path is None else {SAFE_PATH_VARIABLE: previous_path})
