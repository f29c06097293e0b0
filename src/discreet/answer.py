"""What leaves: values, their guarantee, and how far off they may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction

from discreet.errors import InvalidInput
from discreet.exact import between
from discreet.guarantee import Guarantee

Reply = int | float | bool | str | date | None
Interval = tuple[float, float] | None
Intervals = Callable[[float], tuple[Mapping[str, Interval], ...]]


@dataclass(frozen=True, slots=True)
class Answer:
    """The reply to one question. `cost` is what it spent now: nothing for an answer that was stored.

    `spent` is the epsilon that all answers of the data set have cost so far, in each model.
    """

    question: str
    columns: tuple[str, ...]
    numbers: tuple[str, ...]
    rows: tuple[Mapping[str, Reply], ...]
    mechanism: str
    accuracy: str
    guarantee: Guarantee
    cost: Guarantee
    spent: Mapping[str, Fraction | None]
    stored: bool
    entry: int | None
    intervals: Intervals = field(repr=False, compare=False)

    @property
    def value(self) -> Reply:
        """The one number that was asked for."""
        if len(self.rows) != 1 or len(self.numbers) != 1:
            raise InvalidInput("this answer has several numbers; they are in rows")
        return self.rows[0][self.numbers[0]]

    def interval(self, confidence: float = 0.95) -> Interval | tuple[Mapping[str, Interval], ...]:
        """Where the exact number lies with at least this probability; for several, a mapping for each row.

        None where nothing can be said in values without looking at the rows: see `accuracy`.
        """
        found = self.intervals(float(between(confidence, 0, 1, "confidence")))
        if len(self.rows) == 1 and len(self.numbers) == 1:
            return found[0][self.numbers[0]]
        return found

    def to_json(self) -> dict[str, object]:
        """Machine-readable: the same on the command line, over HTTP and on a page."""
        told: dict[str, object] = {"question": self.question, "columns": list(self.columns)}
        told["rows"] = [{name: _plain(value) for name, value in row.items()} for row in self.rows]
        if len(self.rows) == 1 and len(self.numbers) == 1:
            told["value"] = _plain(self.value)
        spans = self.intervals(0.95)
        told["intervals_95"] = [{name: list(span) if span else None for name, span in row.items()} for row in spans]
        told |= {"mechanism": self.mechanism, "accuracy": self.accuracy, "stored": self.stored, "entry": self.entry}
        told["spent_so_far"] = {model: None if total is None else str(total) for model, total in self.spent.items()}
        return told | {"guarantee": self.guarantee.to_json(), "cost": self.cost.to_json()}


def _plain(value: Reply) -> int | float | bool | str | None:
    return value.isoformat() if isinstance(value, date) else value
