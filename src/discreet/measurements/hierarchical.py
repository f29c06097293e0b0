"""Counts of nested blocks of cells, measured at several levels: histograms for ranges, and ROLLUP.

Proof: hierarchical.md.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Internal
from discreet.estimation.hierarchical_counts import BlockHierarchy
from discreet.estimation.linear_refinement import INTEGER_NOISE_VARIANCE, compute_worst_quantile
from discreet.estimation.noise_distributions import NoiseParts, compute_parts_half_width
from discreet.formatting import format_confidence, format_upper
from discreet.measurements.additive import NOISE_NAMES
from discreet.measurements.base import NoiseSampler, NoisyOutputs, ScanRequest, SelfReading
from discreet.measurements.observed_loss import InputChange, Inputs, ObservedLoss, compute_noise_loss
from discreet.measurements.total_sensitivity import LinearQuery
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.noise import Noise
from discreet.query.scan import Amounts, Cell
from discreet.schema import Schema
from discreet.schema.schema import Value

Starts = NDArray[np.intp]
MIN_VARIANCE = 1e-12
MIN_COMPUTED_MISS = 1e-8
"""A smaller chance to miss is not left to a law whose transform was inverted in floats."""
MIN_LARGEST_WEIGHT = 0.25
"""The least that the largest weight of a sum must be, for its law to be computed from rounded weights."""
MAX_PARTS = 32
"""Rates and weights of a sum whose law is computed."""
WEIGHT_STEPS, MIN_WEIGHT = 4096.0, 1e-12
"""Weights of noises are rounded up to one in so many, and left out below that: they are 0 but for rounding."""
NoiseArray = NDArray[np.int64] | NDArray[np.object_]
LEVEL_NOTE = "each level has noise of its own"
LevelValue = TypeVar("LevelValue")


@dataclass(frozen=True, eq=False, slots=True)
class Level:
    """A partition of the cells into blocks of neighbours, by the first cell of each; not measured without noise."""

    starts: Starts
    share: Fraction
    noise: Noise | None
    keys: int = 0
    """How many of the group keys a block of a ROLLUP has."""

    @property
    def variance(self) -> float:
        """Of one count; infinite where it is not measured, never so small that it cannot be divided by."""
        return math.inf if self.noise is None else max(self.noise.variance(), MIN_VARIANCE)


@dataclass(frozen=True, eq=False, slots=True)
class BlockCounts:
    """Levels of blocks, coarse to fine, the last of single cells; `public_total` is the number of rows in all cells."""

    levels: tuple[Level, ...]
    public_total: int | None = None
    cells: tuple[Cell, ...] | None = None
    """Those that can have a row, where that is not all of them."""

    def count_blocks(self, counts: Sequence[int]) -> list[tuple[int, ...]]:
        """The exact counts of the measured blocks, each with the cell it starts at. Secret."""
        cells = np.array(counts, dtype=np.int64)
        sums = [np.add.reduceat(cells, level.starts) for level in self.measured_levels]
        return self.group_by_cell(sums, len(counts))

    @property
    def measured_levels(self) -> list[Level]:
        """Those with noise, coarse to fine."""
        return [level for level in self.levels if level.noise is not None]

    def group_by_cell(self, numbers: Sequence[NoiseArray], cells: int) -> list[tuple[int, ...]]:
        """A number for every measured block, level by level, put with the cells the blocks start at."""
        cell_numbers: list[list[int]] = [[] for _ in range(cells)]
        for level, block_numbers in zip(self.measured_levels, numbers, strict=True):
            for start, number in zip(level.starts.tolist(), block_numbers.tolist(), strict=True):
                cell_numbers[start].append(number)
        return [tuple(block_numbers) for block_numbers in cell_numbers]

    def split_levels(self, outputs: Sequence[Sequence[int]]) -> list[NDArray[np.float64] | None]:
        """What was released, level by level; None for a level that was not measured."""
        used = np.zeros(len(outputs), dtype=np.intp)
        by_level: list[NDArray[np.float64] | None] = []
        for level in self.levels:
            if level.noise is None:
                by_level.append(None)
                continue
            by_level.append(np.array([outputs[start][used[start]] for start in level.starts], dtype=np.float64))
            used[level.starts] += 1
        return by_level

    @property
    def bounding_variances(self) -> list[float]:
        """The variance of each level of the nest that intervals are made from, a little more than its own.

        Where noise is hardly one step wide, its tail is heavier than its variance says. Proof:
        estimation/linear_refinement.md.
        """
        noises = [level.noise for level in self.levels]
        variances = [0.0 if noise is None else _compute_bounding_variance(noise) for noise in noises]
        return self._prepend_total(variances, 0.0)

    def _prepend_total(self, levels: Sequence[LevelValue], total: LevelValue) -> list[LevelValue]:
        """Values of the levels as the nest has them: first that of the public total, where there is one.

        It stands for the coarsest level where that has one block, and before it elsewhere.
        """
        if self.public_total is None:
            return [*levels]
        return [total, *levels[len(self.levels[0].starts) == 1 :]]

    def range_half_width(self, first: int, last: int, confidence: float, nest: BlockHierarchy | None = None) -> float:
        """Half of an interval of the count of the cells first to last.

        Where few rates and weights are in it, the law of the sum is known, and is taken where it is narrower.
        """
        weights = (nest or self.build_nest()).compute_range_weights(first, last)
        squares = [float((level_weights**2).sum()) for level_weights in weights]
        half_width = compute_half_width(sum(map(operator.mul, squares, self.bounding_variances)), confidence)
        parts = self._collect_parts(weights) if half_width and 1 - confidence > MIN_COMPUTED_MISS else None
        return half_width if parts is None else min(half_width, compute_parts_half_width(parts, confidence))

    def _collect_parts(self, weights: Sequence[NDArray[np.float64]]) -> NoiseParts | None:
        """The rates and weights of the noises in a sum, weights rounded up; None where there are many, or other noises.

        Larger weights make sums lie farther from 0, up to steps far below the resolution of the distribution. That is
        checked by tests/unit/estimation/test_hierarchical_counts.py, not proved. Where all weights are small it need
        not hold, and the result is None.
        """
        noises = self._prepend_total([level.noise for level in self.levels], None)
        part_counts: Counter[tuple[float, float]] = Counter()
        for noise, level_weights in zip(noises, weights, strict=True):
            if noise is None:
                continue
            if not isinstance(noise, DiscreteLaplace):
                return None
            magnitudes = np.abs(level_weights)
            sizes, counts = np.unique(np.ceil(magnitudes[magnitudes > MIN_WEIGHT] * WEIGHT_STEPS), return_counts=True)
            for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
                part_counts[float(noise.rate), size / WEIGHT_STEPS] += count
        if not 0 < len(part_counts) <= MAX_PARTS or max(weight for _, weight in part_counts) < MIN_LARGEST_WEIGHT:
            return None
        return tuple((rate, weight, count) for (rate, weight), count in sorted(part_counts.items()))

    def build_nest(self) -> BlockHierarchy:
        """The blocks with the variance of their noise; the public total as one block more, exactly known."""
        starts = self._prepend_total([level.starts for level in self.levels], np.zeros(1, dtype=np.intp))
        variances = self._prepend_total([level.variance for level in self.levels], 0.0)
        return BlockHierarchy(tuple(starts), tuple(variances))

    def estimate(self, outputs: Sequence[Sequence[int]]) -> tuple[NDArray[np.float64], ...]:
        """The best linear unbiased count of every block, consistent, level by level."""
        pairs = zip(self.levels, self.split_levels(outputs), strict=True)
        level_counts = [np.zeros(len(level.starts)) if counts is None else counts for level, counts in pairs]
        total = np.array([float(self.public_total or 0)])
        return self.build_nest().estimate(self._prepend_total(level_counts, total))[-len(self.levels) :]


@dataclass(frozen=True, eq=False, slots=True)
class HierarchicalHistogram(SelfReading):
    """One count of rows, measured in nested blocks of cells; what it says is read of all blocks together."""

    linear_query: LinearQuery
    blocks: BlockCounts
    strategy: str

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{NOISE_NAMES[type(self.independent_noises[0])]}, {self.strategy}"

    @property
    def hierarchy(self) -> BlockCounts:
        return self.blocks

    @property
    def independent_noises(self) -> tuple[Noise, ...]:
        return tuple(level.noise for level in self.blocks.levels if level.noise is not None)

    def scan(self) -> ScanRequest:
        """The rows of each cell."""
        return self.linear_query.scan()

    def compute_inputs(self, scanned: Sequence[Amounts]) -> list[tuple[int, ...]]:
        """The exact counts of the measured blocks, from those of the cells. Secret."""
        return self.blocks.count_blocks([sum(amounts) for amounts in scanned])

    def measure(self, inputs: Sequence[tuple[int, ...]], entropy: Entropy) -> list[NoisyOutputs]:
        noises = self._draw_noises([noise.sample_units for noise in self.independent_noises], inputs, entropy)
        return [tuple(map(operator.add, *pair)) for pair in zip(inputs, noises, strict=True)]

    def _draw_noises(
        self, samplers: Sequence[NoiseSampler], cells: Sequence[object], entropy: Entropy
    ) -> list[tuple[int, ...]]:
        """The noise of every block, with the cell it starts at."""
        blocks = zip(samplers, self.blocks.measured_levels, strict=True)
        return self.blocks.group_by_cell([sample(len(level.starts), entropy) for sample, level in blocks], len(cells))

    def cache_key(self) -> list[object]:
        levels = [[len(level.starts), str(level.share)] for level in self.blocks.levels]
        return [self.name, levels, self.blocks.public_total, self.linear_query.components[0].l1_sensitivity]

    def compare_inputs(self, inputs: Inputs, other_inputs: Inputs, schema: Schema) -> InputChange:  # noqa: ARG002
        """What one unit moves is declared of each level; the losses of all levels add up."""
        moves: list[list[int]] = [[] for _ in self.blocks.measured_levels]
        levels_of_cell: dict[int, list[int]] = {}
        for number, level in enumerate(self.blocks.measured_levels):
            for start in level.starts.tolist():
                levels_of_cell.setdefault(start, []).append(number)
        cells, other_cells = [*inputs.values()], [*other_inputs.values()]
        for cell, numbers in levels_of_cell.items():
            for number, count, other_count in zip(numbers, cells[cell], other_cells[cell], strict=True):
                moves[number].append(count - other_count)
        return InputChange({}, ObservedLoss.total(map(compute_noise_loss, self.independent_noises, moves)), LEVEL_NOTE)

    def values(self, outputs: NoisyOutputs) -> tuple[Value, ...]:  # noqa: ARG002
        raise Internal("nested counts are read together, not one by one")

    def describe_accuracy(self, confidence: float, likely: str = "") -> str:
        """What may be said of its error before it is drawn, and with which probability."""
        if len(self.blocks.measured_levels) == 1:
            half_width = self.blocks.range_half_width(0, 0, confidence)
        else:
            cell_variances = self.blocks.build_nest().propagate_node_variances(self.blocks.bounding_variances)[-1]
            half_width = compute_half_width(float(np.max(cell_variances)), confidence)
        likely = likely or format_confidence(confidence)
        return f"single cells within {format_upper(half_width)} {likely}; ranges and totals have intervals of their own"


def _compute_bounding_variance(noise: Noise) -> float:
    """The variance of Laplace noise of the same rate, above that of the discrete one; of others a little more."""
    return (
        2 / float(noise.rate) ** 2 if isinstance(noise, DiscreteLaplace) else noise.variance() + INTEGER_NOISE_VARIANCE
    )


def compute_half_width(variance: float, confidence: float) -> float:
    """Half of an interval from a bounding variance; half a unit is added since the noise is of whole numbers."""
    return compute_worst_quantile(confidence) * math.sqrt(variance) + 0.5 if variance > MIN_VARIANCE else 0.0
