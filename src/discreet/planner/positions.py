"""The public candidates of a column as positions, and a refinement among them with what it means. No row is seen here.

Numbers and dates are refined by position, categories by name.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.distance import Distance, Ordinal, Semantic
from discreet.errors import Unsupported
from discreet.exact import shown
from discreet.inference.drawn import MOST_VALUES, best_up, posterior_of_draw, root_mean_square
from discreet.kernel.refinement import Refinement
from discreet.planner.given import Placed
from discreet.posterior import Posterior, law_of_runs
from discreet.prior import Grid, Prior
from discreet.query.totals import Bins
from discreet.schema import Column
from discreet.schema.column import Value

MOST_CANDIDATES = 2**16
"""Enough that a candidate's width is not what limits the answer, few enough to count in one scan."""
Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Equal bins of a column's codes from its lowest; each stands for the code in its middle, or for that of `codes`.

    A prior with ends may hold the code in the middle impossible: then one that is possible stands for the bin. `lows`
    are then the lowest possible codes of the bins, and `spans` how many codes there are up to the highest.
    """

    column: Column
    width: int
    count: int
    codes: Integers | None = field(default=None, compare=False, repr=False)
    lows: Integers | None = field(default=None, compare=False, repr=False)
    spans: Integers | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def of(column: Column, most: int) -> Candidates:
        """Every code, or as many equal bins as are allowed."""
        width = -(-column.size // most)
        return Candidates(column, width, -(-column.size // width))

    def under(self, placed: Placed) -> Candidates:
        """The same, each standing for a code that a prior holds possible; as they are where it holds all possible."""
        first = np.arange(self.count) * self.width
        sizes = np.minimum(self.width, self.column.size - first)
        codes = self.column.lower + np.minimum(first + (self.width - 1) // 2, self.column.size - 1)
        at = placed.used.index
        if (placed.spans == sizes[at]).all() and (placed.codes == codes[at]).all():
            return self
        codes[at] = placed.codes
        lows = self.column.lower + first
        lows[at], sizes[at] = placed.lows, placed.spans
        return replace(self, codes=codes, lows=lows, spans=sizes)

    @property
    def bins(self) -> Bins:
        """How a source counts them."""
        return Bins(self.column.name, self.column.lower, self.width)

    def ends(self, position: int) -> tuple[int, int]:
        """The lowest and the highest code of a bin."""
        first = self.column.lower + position * self.width
        return first, min(first + self.width - 1, self.column.upper)

    def value(self, position: int) -> Value:
        """What a position stands for."""
        middle = self.column.lower + position * self.width + (self.width - 1) // 2
        return self.column.value(min(middle, self.column.upper) if self.codes is None else int(self.codes[position]))

    @property
    def told_width(self) -> str:
        """The width of a bin as people read it."""
        return f"{self.width} days" if self.column.kind == "date" else shown(self.width * self.column.step)

    def law(self, positions: Integers, mass: Array) -> Posterior:
        """Probabilities of rising positions as a law over values: categories by name, dates as days since 1970."""
        whole = mass / mass.sum()
        if self.column.categories:
            first_codes = positions * self.width if self.codes is None else self.codes[positions]
            names = tuple(self.column.categories[code] for code in first_codes)
            return Posterior(whole, None, names)
        grid = Grid(Fraction(0), self.column.step)
        if self.lows is not None and self.spans is not None:
            return law_of_runs(self.lows[positions], self.spans[positions], whole, grid)
        first, last = int(positions[0]), int(positions[-1])
        cells = np.zeros(last - first + 1)
        cells[positions - first] = whole
        codes = self.column.lower + np.arange(first, last + 2, dtype=np.float64) * self.width
        edges = (np.minimum(codes, self.column.upper + 1) - 0.5) * float(grid.step)
        return Posterior(cells, edges, None, None, grid)


@dataclass(frozen=True, eq=False, slots=True)
class Refined:
    """A draw among candidates, moved from a prior towards the truth; `positions` are those of the prior's support."""

    candidates: Candidates
    refinement: Refinement
    positions: Integers
    stated: Array
    blur: float

    @staticmethod
    def of(
        candidates: Candidates,
        placed: Placed,
        epsilon: Fraction,
        about: str,
        neighbours: str,
        distance: Distance,
    ) -> Refined:
        """From a prior over positions, as stated and as used."""
        column, prior = candidates.column, placed.used
        own, stated = prior, placed.stated.mass / placed.stated.total
        if column.categories:
            if candidates.width > 1:
                raise Unsupported(f"{column.name} has too many categories to refine a prior over them; ask without one")
            names = tuple(column.categories[at] for at in prior.index)
            own = Prior(prior.mass, np.arange(len(names)), None, names)
        plain = Refinement.of(own, epsilon, about, neighbours, distance)
        up = None if column.categories else best_up(plain, stated)
        refinement = plain if up is None else Refinement.of(own, epsilon, about, neighbours, distance, up=up)
        return Refined(candidates.under(placed), refinement, prior.index, stated, placed.blur)

    @property
    def distance_name(self) -> str:
        """What names the distance in a stored question, the same in every process."""
        match self.refinement.distance:
            case Ordinal(categories=categories):
                return "ordinal " + json.dumps(categories)
            case Semantic(taxonomy=taxonomy):
                above = {concept: sorted(ups) for concept, ups in taxonomy.ancestors.items()}
                return "semantic " + hashlib.sha256(json.dumps(above, sort_keys=True).encode()).hexdigest()
        return self.refinement.distance.stored_name

    def draw(self, position: int | None) -> int:
        """The position of one draw, given that of the truth; None where there is no truth."""
        if self.refinement.prior.numeric:
            return int(cast(int, self.refinement.answer(position)))
        categories = self.candidates.column.categories
        drawn = self.refinement.answer(None if position is None else categories[position])
        return categories.index(str(drawn))

    def expected_error(self) -> float | None:
        """The root mean square error of the refined value, the prior being right; None for very many categories."""
        error = root_mean_square(self.refinement, None if self.candidates.column.categories else self.stated)
        if error is None or self.candidates.column.categories:
            return error
        return float(self.candidates.column.step) * math.sqrt((error * self.candidates.width) ** 2 + self.blur)

    def before(self) -> Posterior:
        """The prior as it was stated."""
        return self.candidates.law(self.positions, self.stated)

    def posterior(self, position: int) -> Posterior | None:
        """What is known after a draw; None for very many categories."""
        prior = self.refinement.prior
        if not prior.numeric and len(prior.mass) > MOST_VALUES:
            return None
        at = int(np.searchsorted(self.positions, position))
        return self.candidates.law(self.positions, posterior_of_draw(self.refinement, at))
