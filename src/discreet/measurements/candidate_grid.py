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

from discreet.errors import Unsupported
from discreet.estimation.refinement_posterior import (
    MAX_VALUES,
    compute_refinement_posterior,
    estimate_refinement_error,
    find_best_alpha_up,
)
from discreet.measurements.prior_on_grid import PositionPrior
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.refinement import Refinement
from discreet.numeric import format_exact
from discreet.priors.distance import Distance, OrdinalDistance, SemanticDistance
from discreet.priors.posterior import Posterior, distribution_from_runs
from discreet.priors.prior import Grid, Prior
from discreet.query.scan import BinKey
from discreet.schema import Column
from discreet.schema.schema import Value

MAX_CANDIDATES = 2**16
"""Enough that a candidate's width is not what limits the answer, few enough to count in one scan."""
Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CandidateGrid:
    """Equal bins of a column's codes from its lowest; each stands for the code in its middle, or for that of `codes`.

    A prior with ends may hold the code in the middle impossible: then one that is possible stands for the bin, and the
    bin goes from its lowest possible code over so many as `code_counts` says.
    """

    column: Column
    width: int
    count: int
    codes: Integers | None = field(default=None, compare=False, repr=False)
    lowest_codes: Integers | None = field(default=None, compare=False, repr=False)
    code_counts: Integers | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def of(column: Column, max_count: int) -> CandidateGrid:
        """Every code, or as many equal bins as are allowed."""
        width = -(-column.size // max_count)
        return CandidateGrid(column, width, -(-column.size // width))

    def restrict_to_prior(self, position_prior: PositionPrior) -> CandidateGrid:
        """The same, each standing for a code that a prior holds possible; as they are where it holds all possible."""
        first = np.arange(self.count) * self.width
        sizes = np.minimum(self.width, self.column.size - first)
        codes = self.column.lower + np.minimum(first + (self.width - 1) // 2, self.column.size - 1)
        positions = position_prior.used_prior.index
        if (position_prior.code_counts == sizes[positions]).all() and (position_prior.codes == codes[positions]).all():
            return self
        codes[positions] = position_prior.codes
        lowest_codes = self.column.lower + first
        lowest_codes[positions], sizes[positions] = position_prior.lowest_codes, position_prior.code_counts
        return replace(self, codes=codes, lowest_codes=lowest_codes, code_counts=sizes)

    @property
    def bins(self) -> BinKey:
        """How a source counts them."""
        return BinKey(self.column.name, self.column.lower, self.width)

    def get_code_range(self, position: int) -> tuple[int, int]:
        """The lowest and the highest code of a bin."""
        first = self.column.lower + position * self.width
        return first, min(first + self.width - 1, self.column.upper)

    def get_value(self, position: int) -> Value:
        """What a position stands for."""
        middle = self.column.lower + position * self.width + (self.width - 1) // 2
        return self.column.decode(min(middle, self.column.upper) if self.codes is None else int(self.codes[position]))

    @property
    def width_text(self) -> str:
        """The width of a bin as people read it."""
        return f"{self.width} days" if self.column.kind == "date" else format_exact(self.width * self.column.step)

    def build_distribution(self, positions: Integers, mass: Array) -> Posterior:
        """Probabilities of rising positions as a law over values: categories by name, dates as days since 1970."""
        probabilities = mass / mass.sum()
        if self.column.categories:
            first_codes = positions * self.width if self.codes is None else self.codes[positions]
            names = tuple(self.column.categories[code] for code in first_codes)
            return Posterior(probabilities, None, names)
        grid = Grid(Fraction(0), self.column.step)
        if self.lowest_codes is not None and self.code_counts is not None:
            lows, spans = self.lowest_codes[positions], self.code_counts[positions]
            return distribution_from_runs(lows, spans, probabilities, grid)
        first, last = int(positions[0]), int(positions[-1])
        cells = np.zeros(last - first + 1)
        cells[positions - first] = probabilities
        codes = self.column.lower + np.arange(first, last + 2, dtype=np.float64) * self.width
        edges = (np.minimum(codes, self.column.upper + 1) - 0.5) * float(grid.step)
        return Posterior(cells, edges, None, None, grid)


@dataclass(frozen=True, eq=False, slots=True)
class PositionRefinement:
    """A draw among candidates, moved from a prior towards the truth; `positions` are those of the prior's support."""

    candidates: CandidateGrid
    refinement: Refinement
    positions: Integers
    stated_mass: Array
    bin_variance: float

    @staticmethod
    def of(
        candidates: CandidateGrid,
        position_prior: PositionPrior,
        epsilon: Fraction,
        about: str,
        neighbors: str,
        distance: Distance,
    ) -> PositionRefinement:
        """From a prior over positions, as stated and as used."""
        column, prior, stated_prior = candidates.column, position_prior.used_prior, position_prior.stated_prior
        refinement_prior, stated_mass = prior, stated_prior.mass / stated_prior.total
        if column.categories:
            if candidates.width > 1:
                raise Unsupported(f"{column.name} has too many categories to refine a prior over them; ask without one")
            names = tuple(column.categories[code] for code in prior.index)
            refinement_prior = Prior(prior.mass, np.arange(len(names)), None, names)
        refinement = Refinement.of(refinement_prior, epsilon, about, neighbors, distance)
        up = None if column.categories else find_best_alpha_up(refinement, stated_mass)
        if up is not None:
            refinement = Refinement.of(refinement_prior, epsilon, about, neighbors, distance, up=up)
        possible_candidates = candidates.restrict_to_prior(position_prior)
        return PositionRefinement(
            possible_candidates, refinement, prior.index, stated_mass, position_prior.bin_variance
        )

    @property
    def distance_name(self) -> str:
        """What names the distance in a stored question, the same in every process."""
        match self.refinement.distance:
            case OrdinalDistance(categories=categories):
                return "ordinal " + json.dumps(categories)
            case SemanticDistance(taxonomy=taxonomy):
                above = {concept: sorted(ups) for concept, ups in taxonomy.ancestors.items()}
                return "semantic " + hashlib.sha256(json.dumps(above, sort_keys=True).encode()).hexdigest()
        return self.refinement.distance.stored_name

    def sample(self, position: int | None, entropy: Entropy | None = None) -> int:
        """The position of one draw, given that of the truth; None where there is no truth."""
        if self.refinement.prior.numeric:
            return int(cast(int, self.refinement.answer(position, entropy)))
        categories = self.candidates.column.categories
        category = self.refinement.answer(None if position is None else categories[position], entropy)
        return categories.index(str(category))

    def expected_error(self) -> float | None:
        """The root mean square error of the refined value, the prior being right; None for very many categories."""
        column, width = self.candidates.column, self.candidates.width
        error = estimate_refinement_error(self.refinement, None if column.categories else self.stated_mass)
        if error is None or column.categories:
            return error
        return float(column.step) * math.sqrt((error * width) ** 2 + self.bin_variance)

    def get_stated_distribution(self) -> Posterior:
        """The prior as it was stated."""
        return self.candidates.build_distribution(self.positions, self.stated_mass)

    def posterior(self, position: int) -> Posterior | None:
        """What is known after a draw; None for very many categories."""
        prior = self.refinement.prior
        if not prior.numeric and len(prior.mass) > MAX_VALUES:
            return None
        index = int(np.searchsorted(self.positions, position))
        return self.candidates.build_distribution(self.positions, compute_refinement_posterior(self.refinement, index))
