"""A prior as the planner reads it for a question: a law over what the answer can be. From public facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.question import Question, read
from discreet.custodian.reader import Reader
from discreet.custodian.telling import believed, is_date
from discreet.errors import InvalidInput
from discreet.formatting import format_day, format_day_ends
from discreet.planner.asked import Given
from discreet.planner.choose import plan
from discreet.posterior import Posterior
from discreet.schema import Schema
from discreet.schema.column import day

MOST_CELLS = 512
TAIL = 0.0005
"""On either side: so much of a law of more cells is put into the outermost ones, or they would be nearly all empty."""
NO_PRIOR = "a prior is of one number, or of one person's value; this question has none that a prior could be about"
Array = NDArray[np.float64]
Cells = tuple[Array, Array]
"""Values, and their probabilities."""


@dataclass(frozen=True, slots=True)
class StatedPrior:
    """A prior over numbers, or over names: `points` are the middles of even cells, or the values there are.

    Dates are text such as 2024-02-29. `text` says in words what is believed.
    """

    points: tuple[float, ...] | tuple[str, ...]
    probabilities: tuple[float, ...]
    names: tuple[str, ...] | None
    mean: float | str | None
    interval_95: tuple[float, float] | tuple[str, str] | None
    text: str

    @property
    def numeric(self) -> bool:
        """Whether it is over numbers, or over dates."""
        return self.names is None

    def to_json(self) -> dict[str, object]:
        """Machine-readable."""
        ends = None if self.interval_95 is None else list(self.interval_95)
        told: dict[str, object] = {"numeric": self.numeric, "points": list(self.points)}
        told |= {"probabilities": list(self.probabilities), "names": None if self.names is None else list(self.names)}
        return told | {"mean": self.mean, "interval_95": ends, "text": self.text}


def prior_law(schema: Schema, question: Question, prior: Given) -> StatedPrior:
    """What someone who states this prior believes of the answer; refused from the prior alone, as in planning.

    In groups it is believed of each of them. It does not depend on how much noise there will be.
    """
    if prior is None:
        raise InvalidInput("a prior is wanted, such as normal(500, 20)")
    planned = plan(schema, read(question, schema), epsilon=1, prior=prior)
    reader = Reader(planned)
    law = reader.before(0)
    if law is None:
        raise InvalidInput(NO_PRIOR)
    said = believed(law, reader, 0)
    return _named(law, said) if law.names is not None else _of_numbers(law, said, is_date(reader, 0))


def _named(law: Posterior, said: str) -> StatedPrior:
    """The likeliest in their order, and all others together where there are too many."""
    names, mass = list(law.names or ()), law.mass.tolist()
    if len(names) > MOST_CELLS:
        kept = sorted(np.argsort(-law.mass, kind="stable")[: MOST_CELLS - 1].tolist())
        left = 1 - float(law.mass[kept].sum())
        names = [names[at] for at in kept] + [f"{len(names) - len(kept):,} others"]
        mass = [mass[at] for at in kept] + [max(left, 0.0)]
    return StatedPrior((), tuple(mass), tuple(names), None, None, said)


def _of_numbers(law: Posterior, said: str, dates: bool) -> StatedPrior:
    values, mass = _cells(law)
    low, high = law.interval(0.95)
    chances = tuple(mass.tolist())
    if dates:
        days = tuple(day(value).isoformat() for value in values.tolist())
        return StatedPrior(days, chances, None, *_days(law.mean(), low, high), said)
    return StatedPrior(tuple(values.tolist()), chances, None, law.mean(), (low, high), said)


def _days(mean: float, low: float, high: float) -> tuple[str, tuple[str, str]]:
    return format_day(mean), format_day_ends(low, high)


def _cells(law: Posterior) -> Cells:
    """The values of a law that has few; even cells over nearly all of one that has many, or has cells of its own."""
    if law.points is not None:
        return (law.points, law.mass) if len(law.points) <= MOST_CELLS else _gathered(*_within(law))
    return _even(law)


def _within(law: Posterior) -> Cells:
    """The values between the tails, which go into the outermost of them."""
    first, last = (int(np.searchsorted(law.centres, law.quantile(order))) for order in (TAIL, 1 - TAIL))
    mass = law.mass[first : last + 1].copy()
    mass[0] += law.mass[:first].sum()
    mass[-1] += law.mass[last + 1 :].sum()
    return law.centres[first : last + 1], mass


def _gathered(values: Array, mass: Array) -> Cells:
    """Neighbours together, each group at its mean."""
    firsts = np.arange(0, len(values), math.ceil(len(values) / MOST_CELLS))
    shares, moments = np.add.reduceat(mass, firsts), np.add.reduceat(mass * values, firsts)
    held = np.where(shares > 0, shares, 1.0)
    return np.where(shares > 0, moments / held, values[firsts]), shares


def _even(law: Posterior) -> Cells:
    """Cells of one width, no narrower than the law's own, so that a taller one is a likelier value."""
    edges = np.asarray(law.edges)
    narrowest = float(np.diff(edges).min())
    low, high = float(edges[0]), float(edges[-1])
    if round((high - low) / narrowest) > MOST_CELLS:
        low, high = _busy(law, edges)
    count = min(max(round((high - low) / narrowest), 1), MOST_CELLS)
    cuts = np.linspace(low, high, count + 1)
    sums = np.interp(cuts, edges, np.concatenate(([0.0], np.cumsum(law.mass))))
    sums[0], sums[-1] = 0.0, 1.0
    return (cuts[1:] + cuts[:-1]) / 2, np.diff(sums)


def _busy(law: Posterior, edges: Array) -> tuple[float, float]:
    """The edges between which a law lies, but for its tails."""
    first = int(np.searchsorted(edges, law.quantile(TAIL), side="right")) - 1
    last = int(np.searchsorted(edges, law.quantile(1 - TAIL), side="left"))
    return float(edges[max(first, 0)]), float(edges[min(last, len(edges) - 1)])
