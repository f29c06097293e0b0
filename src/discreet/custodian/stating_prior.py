"""A prior as the planner reads it for a question: a law over what the answer can be. From public facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.question import Question, parse_question
from discreet.custodian.reader import Decoder
from discreet.custodian.telling import describe_prior_distribution, is_date
from discreet.errors import InvalidInput
from discreet.exact import date_from_days
from discreet.formatting import format_day, format_day_ends
from discreet.planner.asked import PriorInput
from discreet.planner.choose import plan
from discreet.posterior import Posterior
from discreet.schema import Schema

MAX_CELLS = 512
TAIL_MASS = 0.0005
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
        payload: dict[str, object] = {"numeric": self.numeric, "points": list(self.points)}
        payload |= {
            "probabilities": list(self.probabilities),
            "names": None if self.names is None else list(self.names),
        }
        return payload | {"mean": self.mean, "interval_95": ends, "text": self.text}


def build_stated_prior(schema: Schema, question: Question, prior: PriorInput) -> StatedPrior:
    """What someone who states this prior believes of the answer; refused from the prior alone, as in planning.

    In groups it is believed of each of them. It does not depend on how much noise there will be.
    """
    if prior is None:
        raise InvalidInput("a prior is wanted, such as normal(500, 20)")
    planned = plan(schema, parse_question(question, schema), epsilon=1, prior=prior)
    decoder = Decoder(planned)
    distribution = decoder.get_prior(0)
    if distribution is None:
        raise InvalidInput(NO_PRIOR)
    description = describe_prior_distribution(distribution, decoder, 0)
    return (
        _build_category_prior(distribution, description)
        if distribution.names is not None
        else _build_numeric_prior(distribution, description, is_date(decoder, 0))
    )


def _build_category_prior(distribution: Posterior, description: str) -> StatedPrior:
    """The likeliest in their order, and all others together where there are too many."""
    names, mass = list(distribution.names or ()), distribution.mass.tolist()
    if len(names) > MAX_CELLS:
        indices = sorted(np.argsort(-distribution.mass, kind="stable")[: MAX_CELLS - 1].tolist())
        other_mass = 1 - float(distribution.mass[indices].sum())
        names = [names[index] for index in indices] + [f"{len(names) - len(indices):,} others"]
        mass = [mass[index] for index in indices] + [max(other_mass, 0.0)]
    return StatedPrior((), tuple(mass), tuple(names), None, None, description)


def _build_numeric_prior(distribution: Posterior, description: str, dates: bool) -> StatedPrior:
    values, mass = _summarize_cells(distribution)
    low, high = distribution.interval(0.95)
    probabilities = tuple(mass.tolist())
    if dates:
        days = tuple(date_from_days(value).isoformat() for value in values.tolist())
        return StatedPrior(days, probabilities, None, *_format_days(distribution.mean(), low, high), description)
    return StatedPrior(tuple(values.tolist()), probabilities, None, distribution.mean(), (low, high), description)


def _format_days(mean: float, low: float, high: float) -> tuple[str, tuple[str, str]]:
    return format_day(mean), format_day_ends(low, high)


def _summarize_cells(distribution: Posterior) -> Cells:
    """The values of a law that has few; even cells over nearly all of one that has many, or has cells of its own."""
    if distribution.points is not None:
        return (
            (distribution.points, distribution.mass)
            if len(distribution.points) <= MAX_CELLS
            else _group_neighbors(*_clip_tails(distribution))
        )
    return _regrid_evenly(distribution)


def _clip_tails(distribution: Posterior) -> Cells:
    """The values between the tails, which go into the outermost of them."""
    first, last = (
        int(np.searchsorted(distribution.centers, distribution.quantile(order))) for order in (TAIL_MASS, 1 - TAIL_MASS)
    )
    mass = distribution.mass[first : last + 1].copy()
    mass[0] += distribution.mass[:first].sum()
    mass[-1] += distribution.mass[last + 1 :].sum()
    return distribution.centers[first : last + 1], mass


def _group_neighbors(values: Array, mass: Array) -> Cells:
    """Neighbours together, each group at its mean."""
    firsts = np.arange(0, len(values), math.ceil(len(values) / MAX_CELLS))
    shares, moments = np.add.reduceat(mass, firsts), np.add.reduceat(mass * values, firsts)
    divisors = np.where(shares > 0, shares, 1.0)
    return np.where(shares > 0, moments / divisors, values[firsts]), shares


def _regrid_evenly(distribution: Posterior) -> Cells:
    """Cells of one width, no narrower than the law's own, so that a taller one is a likelier value."""
    edges = np.asarray(distribution.edges)
    narrowest = float(np.diff(edges).min())
    low, high = float(edges[0]), float(edges[-1])
    if round((high - low) / narrowest) > MAX_CELLS:
        low, high = _find_central_range(distribution, edges)
    count = min(max(round((high - low) / narrowest), 1), MAX_CELLS)
    cuts = np.linspace(low, high, count + 1)
    sums = np.interp(cuts, edges, np.concatenate(([0.0], np.cumsum(distribution.mass))))
    sums[0], sums[-1] = 0.0, 1.0
    return (cuts[1:] + cuts[:-1]) / 2, np.diff(sums)


def _find_central_range(distribution: Posterior, edges: Array) -> tuple[float, float]:
    """The edges between which a law lies, but for its tails."""
    first = int(np.searchsorted(edges, distribution.quantile(TAIL_MASS), side="right")) - 1
    last = int(np.searchsorted(edges, distribution.quantile(1 - TAIL_MASS), side="left"))
    return float(edges[max(first, 0)]), float(edges[min(last, len(edges) - 1)])
