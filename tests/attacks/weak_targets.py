"""Stand-ins that are weak on purpose: each does what an obvious first version would do. Never used but by attacks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from target_faces import WITH_AND_WITHOUT, NothingLeft, Refused, Rows, Send, write

Table = Sequence[Mapping[str, Any]]
CHANCE = np.random.default_rng(2)
"""One for all stand-ins that follow, so that no two calls draw the same."""


class Naive:
    """Questions go to the engine as they are, and every number that comes back gets float noise from a seed.

    The budget is a float for each analyst. What was paid for is free from then on, what fails costs nothing, and a
    prior is checked against the rows, so that nobody is misled by it.
    """

    def __init__(self, table: Path, budget: float = 1000.0) -> None:
        self._engine = duckdb.connect()
        self._engine.execute("CREATE TABLE t AS SELECT * FROM read_csv(?)", [str(table)])
        self._chance = np.random.default_rng(1)
        self._budget = budget
        self._paid: dict[str, float] = {}
        self._questions: set[tuple[str, str]] = set()

    def ask(self, question: str, epsilon: Any, analyst: str = "eve", prior: str | None = None) -> Rows:
        rows = self._exact(question)
        if prior is not None and prior != f"point({rows[0]['n']})":
            raise Refused("this prior does not fit the data")
        if (analyst, question) not in self._questions:
            self._pay(analyst, epsilon)
            self._questions.add((analyst, question))
        return [{name: self._noisy(value, epsilon) for name, value in row.items()} for row in rows]

    def deliver(self, question: str, epsilon: float, send: Send) -> None:
        """Send an answer; who did not get it gets the money back."""
        answer = self.ask(question, epsilon)
        try:
            send(str(answer))
        except OSError:
            self._paid["eve"] -= epsilon

    def about(self, person: str) -> Rows:
        reply = self._engine.execute("SELECT ill FROM t WHERE person = ?", [person])
        return [{"ill": ill} for (ill,) in reply.fetchall()]

    def describe(self) -> str:
        """What an analyst may want to know of the table."""
        return str(self._engine.execute("SUMMARIZE t").fetchall())

    def spent(self) -> float:
        return sum(self._paid.values())

    def _exact(self, question: str) -> list[dict[str, Any]]:
        try:
            reply = self._engine.execute(question)
            names = [column[0] for column in reply.description or ()]
            return [dict(zip(names, row, strict=True)) for row in reply.fetchall()]
        except duckdb.Error as error:
            raise Refused(str(error)) from None

    def _pay(self, analyst: str, epsilon: float) -> None:
        if self._paid.get(analyst, 0.0) + epsilon > self._budget:
            raise NothingLeft("no budget is left")
        self._paid[analyst] = self._paid.get(analyst, 0.0) + epsilon

    def _noisy(self, value: Any, epsilon: float) -> Any:
        return value if isinstance(value, str) else float(value or 0) + self._chance.laplace(scale=1 / epsilon)


def both(folder: Path, tables: Sequence[Sequence[str]] = WITH_AND_WITHOUT) -> list[Naive]:
    """The obvious first version with each of two tables."""
    return [Naive(write(folder / str(at), people).with_suffix(".csv")) for at, people in enumerate(tables)]


class SmallCountsSuppressed:
    """No noise: a number is told as it is, unless it is below 5."""

    def __init__(self, table: Path) -> None:
        self._engine = duckdb.connect()
        self._engine.execute("CREATE TABLE t AS SELECT * FROM read_csv(?)", [str(table)])

    def ask(self, question: str, _: object) -> Rows:
        """The counts by room that are not suppressed."""
        counts = self._engine.execute(question).fetchall()
        return [{"room": room, "n": count} for room, count in counts if count >= 5]


def float_laplace(exact: float, scale: float, draws: int) -> NDArray[np.float64]:
    """The textbook: a float answer plus float noise."""
    return exact + CHANCE.laplace(scale=scale, size=draws)


def noise_on_a_grid(exact: float, step: float, draws: int) -> NDArray[np.float64]:
    """Exact noise on a grid, on an answer that is not on it."""
    size = CHANCE.geometric(1 - np.exp(-step), size=(2, draws))
    shift: NDArray[np.float64] = step * (size[0] - size[1])
    return exact + shift


def half_the_scale(exact: int, epsilon: float, draws: int) -> NDArray[np.int64]:
    """Two-sided geometric noise that protects half as well as it says."""
    size = CHANCE.geometric(1 - np.exp(-2 * epsilon), size=(2, draws))
    shift: NDArray[np.int64] = size[0] - size[1]
    return exact + shift


def float_total(cells: Sequence[str]) -> float:
    """A sum as numpy's float64 would have it, one row after the other."""
    total = np.float64(0)
    for cell in cells:
        total = total + np.float64(cell)
    return float(total)


def total_in_32_bits(cells: Sequence[str]) -> int:
    """A sum in the type of its column."""
    return int(np.sum(np.array([int(cell) for cell in cells], dtype=np.int32), dtype=np.int32))


def total_in_64_bits(cells: Sequence[str]) -> int:
    """A sum in the widest type that machines have."""
    return int(np.sum(np.array([int(cell) for cell in cells], dtype=np.int64)))


def one_row_for_all(one: Table, other: Table) -> Fraction:
    """How far a sum of ages from -3 to 4 moves, declared for one row, although a unit has two or is replaced."""
    return Fraction(abs(_total(one) - _total(other)), 4)


def bound_from_data(one: Table, other: Table) -> Fraction:
    """The same, where the largest age that is there is taken for the largest there can be."""
    return Fraction(abs(_total(one) - _total(other)), max([1, *(abs(row["age"] or 0) for row in one)]))


def _total(table: Table) -> int:
    return sum(row["age"] or 0 for row in table)


def geometric_by_trials(rate: float, coin: Callable[[], float]) -> int:
    """How many coins fall the wrong way: as much work as the number is large."""
    count = 0
    while coin() < np.exp(-rate):
        count += 1
    return count


class FloatLedger:
    """One float, compared with a cap."""

    def __init__(self, cap: float) -> None:
        self._cap, self._spent = cap, 0.0

    def pay(self, amount: Any) -> bool:
        """Whether it was paid."""
        if self._spent + float(amount) > self._cap:
            return False
        self._spent += float(amount)
        return True


def noisy_count(table: Path) -> float:
    """How many rows there are, and noise."""
    return len(table.read_text().splitlines()) - 1 + float(CHANCE.laplace())


def draws_then_pays(table: Path, account: Path) -> float:
    """First the answer, then the charge."""
    answer = noisy_count(table)
    account.write_text("charged")
    return answer


class LooksThenWrites:
    """A file with what is spent: it is read, compared, and a little later written."""

    def __init__(self, file: Path, room: int) -> None:
        self._file, self._room = file, room
        file.write_text("0")
        self._lock = threading.Lock()

    def charge(self, _: int) -> bool:
        """Whether there was room."""
        with self._lock:
            spent = int(self._file.read_text())
        if spent >= self._room:
            return False
        time.sleep(0.2)  # a commit takes a while
        with self._lock:
            self._file.write_text(str(spent + 1))
        return True


class NoteBook:
    """Answers by number; whoever knows the number reads them."""

    def __init__(self) -> None:
        self._kept: list[str] = []

    def keep(self, answer: str) -> str:
        """The number of what is kept."""
        self._kept.append(answer)
        return str(len(self._kept) - 1)

    def read(self, number: str) -> str:
        """What is kept there; who asks does not matter."""
        if number not in {str(at) for at in range(len(self._kept))}:
            raise Refused("404 no such answer")
        return self._kept[int(number)]
