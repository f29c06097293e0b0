"""The process that keeps a service up: one listening socket, workers that share it, one runner of jobs.

Whichever of them dies is started again, after a pause that grows while it dies young. So is one that is hung: each
child sends a sign of life every second, and is killed where none comes for long. All stop when the supervisor is told
to, and when it dies: each child holds one end of a line that is cut then. They are forked from one process more,
that only imports: what all of them need is loaded once, and a worker that is started again answers at once.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import FrameType

from discreet.custodian.registering import Progress, silent
from discreet.custodian.secrets import identifier
from discreet.errors import Unavailable
from discreet.service import logs, worker
from discreet.service.config import Config
from discreet.service.health import answers
from discreet.service.listening import address_of, bound, listen
from discreet.service.trial import try_out

SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
STABLE = 60.0
"""Seconds after which a process that dies did not die young."""
MOST_DEATHS = 3
"""Of one process before the service was ever ready: it never will be."""
LISTEN = 1.0
"""Seconds between two times that signs of life are heard."""
LOOK = 0.1
"""Seconds between two looks at the health of a service that starts."""
PROCESSES = multiprocessing.get_context("forkserver")  # a fork of this process would copy the locks of its threads

STOP, INTERRUPT, READY = b"s", b"i", b"r"
SAFE_PATH = "PYTHONSAFEPATH"
SAYS = {signal.SIGTERM: STOP, signal.SIGHUP: STOP, signal.SIGINT: INTERRUPT}
"""What a signal says to the loop; a second interrupt, by a person who will not wait, ends everything at once."""


@dataclass(slots=True, eq=False)
class Post:
    """A process that is kept running: what it does, the one that does it now, and when another may be started."""

    name: str
    work: Callable[..., None]
    given: tuple[object, ...]
    process: BaseProcess | None = None
    line: Connection | None = None
    since: float = 0.0
    pause: float = 0.0
    due: float = 0.0
    deaths: int = 0
    hung: float = math.inf
    beat: float | None = None
    looked: float = 0.0

    def keep(self, now: float) -> None:
        """Bury the dead, kill what is hung, and start another once the pause is over."""
        self._listen(now)
        if self.process is not None and self.beat is not None and now - self.beat > self.hung:
            logs.write("hung", process=self.process.pid, where=self.name)
            self.process.kill()
            self.process.join()
        if self.process is not None and not self.process.is_alive():
            self._bury(self.process, now)
        if self.process is None and now >= self.due:
            self._start(now)

    def cut(self) -> None:
        """Tell the process to stop."""
        if self.line is not None:
            self.line.close()
            self.line = None

    def _listen(self, now: float) -> None:
        """Hear signs of life. Where the supervisor itself stood still, as on a machine that slept, it begins anew."""
        still, self.looked = now - self.looked > self.hung / 2, now
        try:
            while self.line is not None and self.line.poll():
                self.line.recv_bytes()
                self.beat = now
        except (EOFError, OSError):  # the process is gone
            return
        self.beat = now if still and self.beat is not None else self.beat

    def _start(self, now: float) -> None:
        far, near = PROCESSES.Pipe()
        started = PROCESSES.Process(target=self.work, args=(*self.given, far), daemon=True)
        self.line, self.since, self.beat = near, now, None
        try:
            with far, _starting():
                started.start()
        except (OSError, EOFError) as error:  # no memory or no more processes: there may be, later
            logs.write("failed", where=logs.where(error))
            self.deaths += isinstance(error, EOFError | ConnectionError)  # of the process that forks
            self._rest(now)
        else:
            self.process = started

    def _bury(self, dead: BaseProcess, now: float) -> None:
        logs.write("died", process=dead.pid, status=dead.exitcode, where=self.name)
        self.process, self.deaths = None, self.deaths + 1
        self._rest(now)

    def _rest(self, now: float) -> None:
        self.cut()
        self.pause = next_pause(self.pause, now - self.since)
        self.due = now + self.pause


def next_pause(before: float, lived: float) -> float:
    """How long to wait before what lived so long is started again: twice as long as before where it died young."""
    return SHORTEST_PAUSE if lived >= STABLE else min(LONGEST_PAUSE, max(SHORTEST_PAUSE, 2 * before))


def run(config: Config, announce: Callable[[str], None], progress: Progress = silent) -> None:
    """Serve until a signal says stop. `announce` is told the address once the service answers there."""
    with closing(bound(config)) as listening:
        _import_ahead()
        ledgers = try_out(config, progress)
        listen(listening, config)
        progress("starting")
        given = config, listening, identifier(), ledgers  # a worker that is started again is of the same life
        posts = [Post("worker", worker.answer_requests, given, hung=config.hung) for _ in range(config.workers)]
        posts.append(Post("runner", worker.run_jobs, (config, ledgers), hung=config.hung))
        with _news() as (told, tell):
            try:
                _look_out(config, listening, tell)
                keep(posts, told, lambda: announce(address_of(config, listening)))
            finally:
                logs.write("stopping")
                listening.close()
                stop(posts, told, worker.grace(config) + 2 * worker.MARGIN)


def keep(posts: Sequence[Post], told: socket.socket, announce: Callable[[], None]) -> None:
    """Keep every post filled until a signal comes."""
    ready = False
    while True:
        now = time.monotonic()
        for post in posts:
            post.keep(now)
        if not ready and max(post.deaths for post in posts) >= MOST_DEATHS:
            raise Unavailable("the workers end as soon as they start; what failed is in the lines above")
        dues = [max(0.0, post.due - now) for post in posts if post.process is None]
        ends = [post.process.sentinel for post in posts if post.process is not None]
        if told in connection.wait([told, *ends], min([*dues, LISTEN])):
            if told.recv(1) != READY:
                return
            ready = True
            announce()


def stop(posts: Sequence[Post], told: socket.socket, limit: float) -> None:
    """Tell all to stop, wait for them, and end those that do not."""
    for post in posts:
        post.cut()
    ends = time.monotonic() + limit
    waiting = True
    while waiting and (alive := _alive(posts)) and (left := ends - time.monotonic()) > 0:
        waiting = not (told in connection.wait([told, *alive], left) and told.recv(1) == INTERRUPT)
    for post in posts:
        if post.process is not None:
            post.process.kill()
            post.process.join()


def _alive(posts: Sequence[Post]) -> list[int]:
    return [post.process.sentinel for post in posts if post.process is not None and post.process.is_alive()]


def _import_ahead() -> None:
    """Begin to import what the processes will need, in the one that they are forked from."""
    PROCESSES.set_forkserver_preload(["discreet.service.imported"])
    try:
        with _starting():
            forkserver.ensure_running()
    except OSError:
        raise Unavailable(
            "the process that the others are forked from cannot be started; it needs memory, and a folder for "
            "temporary files that can be written and has a short name: set TMPDIR"
        ) from None


def _look_out(config: Config, listening: socket.socket, tell: socket.socket) -> None:
    """Tell the loop, from a thread, once the service answers."""
    host, port = listening.getsockname()[:2]

    def look() -> None:
        while not answers(host, port, config.tls is not None):
            time.sleep(LOOK)
        with suppress(OSError):  # it was stopped before it was ready
            tell.send(READY)

    threading.Thread(target=look, daemon=True).start()


@contextmanager
def _news() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a line that wakes the loop: what is said into it, by signals too, is told at the other."""
    told, tell = socket.socketpair()

    def say(number: int, _: FrameType | None) -> None:
        tell.send(SAYS[signal.Signals(number)])

    heard = [number for number in SAYS if signal.getsignal(number) is not signal.SIG_IGN]  # nohup means it
    with told, tell:
        before = {number: signal.signal(number, say) for number in heard}
        try:
            yield told, tell
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _starting() -> Iterator[None]:
    """Signals wait meanwhile, here and in what is started, which lets them in once it knows what to do with them.

    And Python does not look for modules in the folder that it is started in, which may be that of the data.
    """
    path = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        resource_tracker.ensure_running()  # its own start would let signals in
        before = signal.pthread_sigmask(signal.SIG_BLOCK, worker.SIGNALS)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    finally:
        os.environ.pop(SAFE_PATH)
        os.environ.update({} if path is None else {SAFE_PATH: path})
