"""How nested counts are measured: which levels, with which shares of what may be lost. Proof: nested.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import compress
from typing import Literal

import numpy as np

from discreet.errors import Internal, InvalidInput, Unsupported
from discreet.guarantee import Guarantee
from discreet.inference.nested import Strategy, rollup_weights, strategies
from discreet.kernel.discrete_gaussian import WIDEST, DiscreteGaussian
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.kernel.noise import Noise
from discreet.planner.asked import Asked
from discreet.planner.facts import Facts
from discreet.planner.nested import Level, Nested, Starts
from discreet.planner.noisy import Form
from discreet.planner.plan import cells_of
from discreet.planner.sharing import form_of, known_number, rho_within
from discreet.planner.structure import structure
from discreet.query.query import Query
from discreet.query.totals import Cell
from discreet.schema import Schema

Law = Literal["laplace", "gaussian"]
FINEST = 10**6
"""Shares of epsilon are told in millionths, so that they add up exactly."""


@dataclass(frozen=True, slots=True)
class Noises:
    """The noise of a level by its share of epsilon, or of rho, which is not 0 for Gaussian noise."""

    facts: Facts
    form: Form
    epsilon: Fraction
    rho: Fraction = Fraction(0)

    @property
    def law(self) -> Law:
        return "gaussian" if self.rho else "laplace"

    def of(self, share: Fraction, blocks: int) -> Noise | None:
        """One block of all cells is a count without groups: a unit that is replaced moves it half as far."""
        part, sides = self.form.components[0], self.facts.sides if blocks == 1 else 1
        if not share:
            return None
        if self.rho:
            return DiscreteGaussian(part.square / sides / (2 * self.rho * share), 1, Fraction(1))
        return DiscreteLaplace(self.epsilon * share, part.scale // sides)

    def shares(self, weights: Sequence[float]) -> list[Fraction]:
        """Weights, or for Gaussian noise their squares, as fractions that add up to 1."""
        told = [Fraction(round(weight ** (2 if self.rho else 1) * FINEST), FINEST) for weight in weights[:-1]]
        return [*told, 1 - sum(told, Fraction(0))]

    @property
    def variance(self) -> float:
        """At a share of 1."""
        part = self.form.components[0]
        if self.rho:
            return float(part.square / (2 * self.rho))
        return DiscreteLaplace(self.epsilon, part.scale).variance()

    def cost(self) -> Guarantee:
        schema = self.facts.schema
        if self.rho:
            return Guarantee.zcdp(self.rho, schema.neighbours, schema.unit_name)
        return Guarantee.dp(self.epsilon, schema.neighbours, schema.unit_name)


@dataclass(frozen=True, eq=False, slots=True)
class Way:
    """One way to measure, and the root mean square error of what was asked: of a range, or of a count of a ROLLUP."""

    name: str
    noises: Noises
    expected_error: float
    measurement: Nested | None = None
    """None for what is told for comparison, and never the best."""


def ways(query: Query, facts: Facts, epsilon: Fraction, delta: Fraction | None) -> list[Way]:
    """All that are weighed, from public facts alone; of one count of rows, which is all that the levels protect."""
    if [one.function for one in query.aggregates] != ["count"]:
        raise Internal("nested cells are those of one count of rows")
    aggregate, schema = query.aggregates[0], facts.schema
    form, alone = form_of(aggregate, schema, facts), known_number(aggregate, schema, replace(facts, cells=None))
    known = None if alone is None else alone.value
    laws = [Noises(facts, form, epsilon)]
    rho = Fraction(0) if delta is None else rho_within(epsilon, delta)
    if rho and form.components[0].square / (2 * rho) * FINEST < Fraction(WIDEST) ** 2:
        laws.append(Noises(facts, form, epsilon, rho))
    if query.nesting == "rollup":
        cells = possible_cells(schema, query)
        return [way for noises in laws for way in _rollups(noises, cells, known)]
    column, width = schema.column(query.keys[0].column), query.keys[0].width
    bins = -(-column.size // width)
    return [way for noises in laws for way in _histograms(noises, bins, column.nullable, known)]


def possible_cells(schema: Schema, query: Query) -> tuple[Cell, ...]:
    """The cells that can have a row; all of them where that is too much to tell."""
    cells = cells_of(schema, query)
    possible = structure(schema, query, len(cells)).possible[0]
    return tuple(compress(cells, possible)) if possible.any() else tuple(cells)


def check_nested(schema: Schema, query: Query, request: Asked) -> None:
    """A ROLLUP is of public keys, and asked by epsilon alone; a histogram tells more than a public number."""
    if query.nesting == "ranges":
        facts = Facts(schema, query.where)
        if len(cells_of(schema, query)) == 1 and known_number(query.aggregates[0], schema, facts) is not None:
            raise InvalidInput("a HISTOGRAM of one bin is the number of rows, which is public; ask for more bins")
        return
    if query.nesting != "rollup":
        return
    if any(schema.column(key.column).private_keys for key in query.keys):
        raise Unsupported("ROLLUP takes keys whose values are public; group by this one alone, with GROUP BY")
    others = (request.prior, request.accuracy, request.noise_scale, request.rho, request.distance)
    if any(one is not None for one in others) or request.asked_model == "individual-dp":
        raise Unsupported("a ROLLUP is asked with an epsilon, and a delta if you like; leave the rest out")


def _histograms(noises: Noises, bins: int, missing: bool, known: int | None) -> list[Way]:
    """Flat, the best tree, and from three bins on the wavelet, which is never better than both: nested.md."""
    found = [one for one in strategies(bins, noises.law, known is not None) if one.kind != "wavelet" or bins > 2]
    return [_histogram(noises, strategy, bins, missing, known) for strategy in found]


def _histogram(noises: Noises, strategy: Strategy, bins: int, missing: bool, known: int | None) -> Way:
    error = math.sqrt(strategy.error * noises.variance)
    if strategy.kind == "wavelet":
        return Way(strategy.name, noises, error)
    cells = bins + missing
    shares = noises.shares(strategy.weights)
    blocks = [_blocks(size, bins, cells) for size in strategy.sizes]
    pairs = zip(blocks, shares, strict=True)
    levels = (Level(starts, share, noises.of(share, len(starts))) for starts, share in pairs)
    made = Nested(noises.form, tuple(levels), strategy.name, known)
    return Way(made.name, noises, error, made)


def _blocks(size: int, bins: int, cells: int) -> Starts:
    """Blocks of so many bins; that of missing values is one of its own at every level."""
    return np.unique(np.append(np.arange(0, bins, size), np.arange(bins, cells)))


def _rollups(noises: Noises, cells: tuple[Cell, ...], known: int | None) -> list[Way]:
    """The best weights of the levels, and an even share for each."""
    starts = [_starts(cells, keys) for keys in range(len(cells[0]) + 1)]
    measured = [0.0 if known is not None and not keys else 1.0 for keys in range(len(starts))]
    even = [one / (math.sqrt(sum(measured)) if noises.rho else sum(measured)) for one in measured]
    best = rollup_weights(tuple(map(len, starts)), noises.law, known is not None)
    named = ("levels weighted for the least error", best), ("levels alike", even)
    return [_rollup(noises, name, starts, weights, cells, known) for name, weights in named]


def _starts(cells: Sequence[Cell], keys: int) -> Starts:
    """Where cells begin that differ from those before in one of the first keys."""
    return np.flatnonzero([at == 0 or cells[at][:keys] != cells[at - 1][:keys] for at in range(len(cells))])


def _rollup(
    noises: Noises,
    name: str,
    starts: Sequence[Starts],
    weights: Sequence[float],
    cells: tuple[Cell, ...],
    known: int | None,
) -> Way:
    pairs = enumerate(zip(starts, noises.shares(weights), strict=True))
    levels = tuple(Level(own, share, noises.of(share, len(own)), keys) for keys, (own, share) in pairs)
    made = Nested(noises.form, levels, name, known, cells)
    variances = np.concatenate(made.nest().node_variances()[-len(levels) :])
    return Way(made.name, noises, math.sqrt(float(variances.mean())), made)
