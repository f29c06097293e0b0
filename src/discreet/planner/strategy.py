"""What to measure so as to know several counts: as asked, or the atoms of their filters. Proof: strategy.md.

Chosen from the questions alone. Everything is in whole numbers and fractions, but for the search for good weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.planner.atoms import Count, Grid, laid_out
from discreet.planner.facts import Facts
from discreet.planner.rational import Matrix, independent, inverse, product, unit
from discreet.query.predicate import All, Predicate

MOST_CELLS = 2**16
MOST_ATOMS = 64
"""With more atoms, or more cells of the grid they are found on, the counts are measured as asked."""
MOST_SOLVED = 16
"""For so many counts equations are solved exactly."""
FINEST = 16
"""Weights are ratios of whole numbers, the smaller at most this."""
RATIOS = tuple(2.0 ** (half / 2) for half in range(-8, 9))
JOINTLY, ATOMS, ATOMS_AND_TOTAL, ASKED_AND_ATOMS = "as asked, jointly", "atoms", "atoms and total", "as asked and atoms"
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Workload:
    """Which counts hold on which atoms, one row for each count, and whether a row of the table may be in no count."""

    held: Whole
    nothing: bool

    @staticmethod
    def of(facts: Facts, filters: Sequence[Predicate]) -> Workload | None:
        """From the filters of the counts; None where there are too many atoms, or a count can hold no row."""
        grid = Grid(facts.schema, [Count(All((facts.where, own)), Fraction(1)) for own in filters])
        if grid.cells is None or grid.cells > MOST_CELLS:
            return None
        with laid_out(grid) as atoms:
            if len(atoms) > MOST_ATOMS + 1:
                return None
            held = np.stack([atoms.labels(place).astype(np.int64) for place in range(len(filters))])
        some = held.any(axis=0)
        if some.sum() > MOST_ATOMS or not held.any(axis=1).all():
            return None
        return Workload(held[:, some], bool((~some).any()))

    def moved(self, rows: Whole, facts: Facts) -> Whole:
        """How far the totals of atoms in `rows` are moved: by a row of the table, or by one that takes its place."""
        if not facts.replaces or facts.grouped:
            return rows
        nowhere = np.zeros((len(rows), int(self.nothing or facts.rows > 1)), dtype=np.int64)
        columns = np.hstack((rows, nowhere))
        one, two = np.triu_indices(columns.shape[1], 1)
        return np.asarray(np.abs(columns[:, one] - columns[:, two]))


@dataclass(frozen=True, eq=False, slots=True)
class Strategy:
    """Totals of atoms, or of the counts themselves, with weights; and each count as a combination of what is told.

    The noise of a total has the scale rows * most / weight. One row of the table, or a pair where one takes another's
    place, moves the totals, each times its weight, by at most `most` in all; the squares of that come to `square`.
    """

    name: str
    totals: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]
    estimates: Matrix
    most: int
    square: int
    of_atoms: bool

    def scales(self, facts: Facts) -> tuple[Fraction, ...]:
        """Over all cells and totals |change| / scale adds up to at most 1."""
        return tuple(Fraction(facts.rows * self.most, weight) for weight in self.weights)

    def rho(self, epsilon: Fraction) -> Fraction:
        """The zCDP of all of it at this epsilon: at most epsilon^2 / 2."""
        return epsilon**2 / 2 * Fraction(self.square, self.most**2)


def strategies(work: Workload, facts: Facts) -> list[Strategy]:
    """All that are weighed besides the counts one by one; of two alike the simpler first."""
    counts, atoms = work.held.shape
    found = [_asked(work, facts), _atoms(work, facts)]
    total = np.ones((1, atoms), dtype=np.int64)
    if work.moved(total, facts).any():
        ratio = _best_ratio(work, facts, total, lambda ratio: _total_spread(work.held, ratio))
        found.append(_atoms_and_total(work, facts, *ratio))
    if counts <= MOST_SOLVED:
        common = (work.held @ work.held.T).astype(np.float64)
        ratio = _best_ratio(work, facts, work.held, lambda ratio: _asked_spread(common, ratio))
        found.append(_asked_and_atoms(work, facts, *ratio))
    return found


def _asked(work: Workload, facts: Facts) -> Strategy:
    """The counts, each with the same noise; where some follow from others, fitted to that."""
    counts = len(work.held)
    fitted = unit(counts)
    basis = independent(_rows(work.held.T)) if counts <= MOST_SOLVED else ()
    if basis and len(basis) < counts:
        across = tuple(zip(*basis, strict=True))
        fitted = product(product(across, inverse(product(basis, across))), basis)
    totals = _rows(np.eye(counts, dtype=np.int64))
    return _strategy(JOINTLY, work, facts, totals, (1,) * counts, fitted, of_atoms=False)


def _atoms(work: Workload, facts: Facts) -> Strategy:
    """Every atom; a count is the sum of its own."""
    atoms = work.held.shape[1]
    estimates = tuple(tuple(map(Fraction, row)) for row in _rows(work.held))
    return _strategy(ATOMS, work, facts, _rows(np.eye(atoms, dtype=np.int64)), (1,) * atoms, estimates)


def _atoms_and_total(work: Workload, facts: Facts, own: int, more: int) -> Strategy:
    """Every atom with one weight and their sum with another, by least squares."""
    atoms = work.held.shape[1]
    pull = Fraction(more**2, own**2 + atoms * more**2)
    estimates = tuple(
        (*(Fraction(held) - pull * sum(row) for held in row), pull * sum(row)) for row in _rows(work.held)
    )
    totals = (*_rows(np.eye(atoms, dtype=np.int64)), (1,) * atoms)
    return _strategy(ATOMS_AND_TOTAL, work, facts, totals, (own,) * atoms + (more,), estimates)


def _asked_and_atoms(work: Workload, facts: Facts, own: int, more: int) -> Strategy:
    """Every atom with one weight and every count with another, by least squares."""
    counts, atoms = work.held.shape
    held = _rows(work.held)
    common = product(held, tuple(zip(*held, strict=True)))
    mixed = tuple(
        tuple(more**2 * value + own**2 * (at == to) for to, value in enumerate(row)) for at, row in enumerate(common)
    )
    left = tuple(tuple(own**2 * value for value in row) for row in inverse(mixed))
    asked = tuple(tuple((at == to) - value for to, value in enumerate(row)) for at, row in enumerate(left))
    estimates = tuple(one + two for one, two in zip(product(left, held), asked, strict=True))
    totals = (*_rows(np.eye(atoms, dtype=np.int64)), *held)
    return _strategy(ASKED_AND_ATOMS, work, facts, totals, (own,) * atoms + (more,) * counts, estimates)


def _strategy(
    name: str,
    work: Workload,
    facts: Facts,
    totals: tuple[tuple[int, ...], ...],
    weights: tuple[int, ...],
    estimates: Matrix,
    of_atoms: bool = True,
) -> Strategy:
    """With what its totals move by: those of atoms as they are told, the counts by the atoms they hold on."""
    moved = work.moved(np.array(totals, dtype=np.int64) if of_atoms else work.held, facts)
    weighed = moved * np.array(weights, dtype=np.int64)[:, None]
    most = facts.sides * int(weighed.sum(axis=0).max(initial=0))
    square = facts.sides * int((weighed**2).sum(axis=0).max(initial=0))
    return Strategy(name, totals, weights, estimates, max(most, 1), max(square, 1), of_atoms)


def _best_ratio(work: Workload, facts: Facts, beside: Whole, spread: Callable[[float], float]) -> tuple[int, int]:
    """Whole weights of the atoms and of the totals beside them, near the ratio of the least mean variance."""
    atoms = work.moved(np.eye(work.held.shape[1], dtype=np.int64), facts).sum(axis=0)
    more = work.moved(beside, facts).sum(axis=0)

    def error(ratio: float) -> float:
        return float((atoms + ratio * more).max(initial=1)) ** 2 * spread(ratio)

    best = min(range(len(RATIOS)), key=lambda at: error(RATIOS[at]))
    low, high = RATIOS[max(best - 1, 0)], RATIOS[min(best + 1, len(RATIOS) - 1)]
    for _ in range(16):
        one, two = low * (high / low) ** (1 / 3), low * (high / low) ** (2 / 3)
        low, high = (low, two) if error(one) <= error(two) else (one, high)
    told = Fraction(math.sqrt(low * high)).limit_denominator(FINEST)
    return told.denominator, told.numerator


def _total_spread(held: Whole, ratio: float) -> float:
    """The mean variance of the counts from atoms of variance 1 and their total of variance 1 / ratio^2."""
    sizes = held.sum(axis=1)
    return float((sizes - sizes**2 * ratio**2 / (1 + held.shape[1] * ratio**2)).mean())


def _asked_spread(common: NDArray[np.float64], ratio: float) -> float:
    """The same from atoms of variance 1 and the counts themselves of variance 1 / ratio^2, by the atoms they share."""
    counts = len(common)
    return float(np.trace(np.linalg.solve(ratio**2 * common + np.eye(counts), common)) / counts)


def _rows(matrix: Whole) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, matrix.tolist()))
