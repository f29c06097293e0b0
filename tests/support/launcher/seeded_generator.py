"""Seeded bytes in the place of the system's generator, in the process of the tests and in all that they start.

`os.urandom` is the one way from Python to the system's generator: that of `discreet.mechanisms.entropy`, of
`secrets`, of `uuid`, and of numpy where it is given no seed. Here it is replaced. The process that runs the tests owns
a board, a page of memory that all processes below it share, and writes the seed of the test on it; whoever draws looks
there, and begins a new stream where the seed has changed. So a server that outlives a test follows the next one too.

No two processes share a stream: each takes a number from the board as it first draws, and again after it was forked.
Numbers are given in the order of first draws, so where processes or threads draw at the same time, who draws what is
up to the machine. Next to nothing is imported before the first draw, so that a test can see what a program imports.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from mmap import mmap
    from random import Random

BOARD = "DISCREET_TEST_ENTROPY"
"""The variable of the environment that names the file of the board."""
FOLDER = os.path.dirname(os.path.abspath(__file__))
SYSTEM = os.urandom
"""The system's generator itself."""
NO_SEED = b"-" * 64
"""On the board while no test runs yet, or one that is allowed the system's generator."""
TURN, NUMBER, SAMPLED, SEED = slice(0, 8), slice(8, 16), slice(16, 17), slice(17, 81)
"""Places on the board: how often the seed changed, how many processes drew since, whether any sampled, the seed."""
SIZE = 4096
LONG = 4096
"""From so many bytes on, numpy is faster than `random`."""
BETWEEN = {"discreet.mechanisms.entropy", "random", "secrets"}
"""Modules that draw for others."""
LIBRARIES = (os.path.dirname(os.__file__), "<frozen ")
"""Where Python and what is installed are: what they draw for themselves, for a name or as they are imported."""
NAMES = {
    "discreet.client.encode_requests",
    "discreet.datasets.dataset_dir",
    "discreet.mechanisms.entropy",
    "discreet.custodian.session",
    "discreet.ledger.connect",
}
"""Who draws names and tokens, which are only to differ from all others: a test that draws no more does not sample."""


class Stream:
    """Reproducible bytes, all different for another seed."""

    def __init__(self, seed: str) -> None:
        import random

        random._urandom = followed.take_for  # type: ignore[attr-defined]
        self._few: Random = random.Random(seed)
        self._many: Any = None
        self.imported = random.Random(f"{seed} imported")

    def take(self, count: int) -> bytes:
        if count < LONG:
            return self._few.randbytes(count)
        if self._many is None:
            from numpy.random import PCG64, Generator

            self._many = Generator(PCG64(self._few.getrandbits(128)))
        taken: bytes = self._many.bytes(count)
        return taken


class Followed:
    """What takes the place of `os.urandom`."""

    def __init__(self) -> None:
        self._path, self._turn = "", b""
        self._board: Any = None
        self._stream: Stream | None = None
        self._sampled = False
        self.sampler = ""

    def begin(self, path: str) -> None:
        """Look at this board from now on."""
        from mmap import mmap

        with open(path, "r+b") as file:
            self._path, self._board = path, mmap(file.fileno(), SIZE)
        self.forget()

    def forget(self) -> None:
        """Begin a stream of its own with the next draw: whoever was forked must not go on with its parent's."""
        self._turn = b""

    def switch(self, stream: Stream | None) -> None:
        """Draw from this stream until the seed on the board changes: for the process that changes it."""
        self._turn, self._stream, self._sampled = self._board[TURN], stream, False

    @property
    def stream(self) -> Stream | None:
        """What is drawn from now."""
        return self._stream

    def take(self, count: int) -> bytes:
        """Fresh bytes of the stream, or the system's where there is no seed."""
        if self._board[TURN] != self._turn:
            self._begin_stream()
        if not self._sampled and (sampler := _sampler(sys._getframe(1))):
            self._sampled, self.sampler = True, sampler
            self._board[SAMPLED] = b"\1"
        return SYSTEM(count) if self._stream is None else self._stream.take(count)

    def take_for(self, count: int) -> bytes:
        """The same for `secrets`, and for generators of numpy without a seed.

        Some libraries make one as they are imported. Which test imports them first must change nothing else.
        """
        if self._board[TURN] != self._turn:
            self._begin_stream()
        if self._stream is not None and _imports(sys._getframe(1)):
            return self._stream.imported.randbytes(count)
        return self.take(count)

    def _begin_stream(self) -> None:
        number, seed = taken_number(self._path, self._board)
        self.switch(stream_of(seed, number))


def stream_of(seed: bytes, number: int) -> Stream | None:
    """That of a process; none where the system's generator is allowed."""
    return None if seed == NO_SEED else Stream(f"{seed.decode()} {number}")


def taken_number(path: str, board: mmap) -> tuple[int, bytes]:
    """The next number on a board, and its seed; where the tests are over and the board is gone, a process's own."""
    from fcntl import LOCK_EX, flock

    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return os.getpid(), board[SEED]
    try:
        flock(file, LOCK_EX)
        number = int.from_bytes(board[NUMBER], "big")
        board[NUMBER] = (number + 1).to_bytes(8, "big")
        return number, board[SEED]
    finally:
        os.close(file)


def _sampler(frame: Any) -> str:
    """Who draws more than a name, if that is what is drawn."""
    while frame.f_globals.get("__name__") in BETWEEN:
        frame = frame.f_back
    file = frame.f_code.co_filename
    library = file.startswith(LIBRARIES) or "site-packages" in file
    return "" if library or frame.f_globals.get("__name__") in NAMES else f"{file}:{frame.f_lineno}"


def _imports(frame: Any) -> bool:
    """Whether a library is being imported that draws."""
    return _sampler(frame) == "" and any("importlib" in one.f_code.co_filename for one in _from(frame))


def _from(frame: Any) -> Iterator[Any]:
    while frame is not None:
        yield frame
        frame = frame.f_back


followed = Followed()


def install(path: str) -> None:
    """Follow a board, for good."""
    followed.begin(path)
    if os.urandom is SYSTEM:
        os.urandom = followed.take
        os.register_at_fork(after_in_child=followed.forget)
        if "random" in sys.modules:
            sys.modules["random"]._urandom = followed.take_for  # type: ignore[attr-defined]


def follow() -> None:
    """Follow the board that the environment names, if it does."""
    if path := os.environ.get(BOARD):
        install(path)
