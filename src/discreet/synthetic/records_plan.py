"""Plan DP records from public facts alone, on model rows.

The fewer blocks there are, the farther their records are apart; the more there are, the more noise each centroid has.
Both are measured on rows that are made of public facts, and the layout that leaves records nearest is taken. Model rows
are spread evenly over the domain, or crowd at its low end, each column by itself. Which columns the curve tells apart
best depends on the rows, so that each column takes the places of others in turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.schema import Column
from discreet.synthetic.columns import PrivacyBudget
from discreet.synthetic.hilbert import MAX_BITS, bound_joint_chain, bound_squared_chain, compute_curve_places
from discreet.synthetic.records import CurveAxis, RecordsPlan

MIN_MODEL_ROWS, MIN_BLOCK_ROWS = 4096, 8
"""The number of model rows, and of those of each block, where the file has as many."""
MAX_TURNS = 4
CROWDING_RATES = (2, 12)
"""Rows that crowd are fewer by a factor e for each half, or twelfth, of the domain."""

IntArray = NDArray[np.int64]
Floats = NDArray[np.float64]


def estimate_record_distance(plan: RecordsPlan, noise: float) -> float:
    """The mean distance in widths of a record from the centroid that stands for it, `noise` the mean of its noise."""
    distances: list[float] = []
    rates = _list_selection_rates(plan)
    for codes, blocks, _ in _generate_files(plan):
        for place, axis in enumerate(plan.axes):
            column = codes[:, place]
            if axis.is_nominal:
                means, chances = _compute_name_chances(*rates[place], column, blocks)
                block_shares = np.bincount(blocks)[:, None] / len(blocks)
                distances.append(float((block_shares * means * chances).sum()))
            elif axis.grid.cell_count > 1:
                offsets = np.abs(column - _round_means(axis, _compute_block_means(axis, column, blocks))[blocks])
                distances.append(_add_noise_error(offsets / _get_width(axis), noise))
            else:
                distances.append(0.0)
    return sum(distances) / len(distances)


def estimate_distribution_errors(plan: RecordsPlan, noise: float) -> tuple[float, ...]:
    """The expected error of each column's distribution: W1 in widths, of names the total variation."""
    rates = _list_selection_rates(plan)
    errors = []
    for codes, blocks, chance in _generate_files(plan):
        for place, axis in enumerate(plan.axes):
            column = codes[:, place]
            if axis.is_nominal:
                chances = _compute_name_chances(*rates[place], column, blocks)[1]
                errors.append(_compute_name_error(chances, column, blocks, chance[place]))
            else:
                # Laplace noise of mean size 1 at these quantiles.
                sides = np.minimum(2 * np.abs(chance[place] - 0.5), 1 - 2**-40)
                block_noise = noise * (np.sign(chance[place] - 0.5) * -np.log1p(-sides))
                errors.append(_compute_number_error(axis, column, blocks, block_noise))
    columns = [errors[place :: len(plan.axes)] for place in range(len(plan.axes))]
    return tuple(sum(column) / len(column) for column in columns)


def _generate_files(plan: RecordsPlan) -> Iterator[tuple[IntArray, IntArray, Floats]]:
    """Rows in the curve's order, the block of each, and for each block and column a number that stands for chance."""
    count = min(plan.rows, max(MIN_MODEL_ROWS, MIN_BLOCK_ROWS * plan.block_count))
    blocks = np.minimum(np.arange(count) * plan.rows // count // plan.k, plan.block_count - 1)
    files = _build_model_rows(plan.axes, plan.bits, count)
    chance = _spread_points(len(files) * plan.block_count, len(plan.axes)).T
    for place, codes in enumerate(files):
        yield codes, blocks, chance[:, place * plan.block_count : (place + 1) * plan.block_count]


@lru_cache(maxsize=16)
def _build_model_rows(axes: Sequence[CurveAxis], bits: int, count: int) -> tuple[IntArray, ...]:
    """The codes, from 0 on, of rows of each shape and turn, in the order of the curve."""
    points = _spread_points(count, len(axes))
    shapes = points, *(np.log1p(points * math.expm1(-crowd)) / -crowd for crowd in CROWDING_RATES)
    turns = sorted({turn * len(axes) // MAX_TURNS for turn in range(MAX_TURNS)})
    return tuple(_order_rows(axes, bits, shape, turn) for shape in shapes for turn in turns)


def _order_rows(axes: Sequence[CurveAxis], bits: int, points: Floats, turn: int) -> IntArray:
    columns = []
    for place, axis in enumerate(axes):  # names in their order on the line
        size = axis.grid.upper - axis.grid.lower + 1
        column = np.minimum((points[:, place] * size).astype(np.int64), size - 1)
        columns.append(np.argsort(axis.name_ranks)[column] if axis.is_nominal else column)
    codes = np.stack(columns, axis=1)
    cells = [codes[:, place] // axis.grid.width for place, axis in enumerate(axes)]
    axis_cells = list(zip(axes, cells, strict=True))
    places = np.stack([axis.compute_places(bits)[column] for axis, column in axis_cells], axis=1)
    tie_cells = [column for axis, column in axis_cells if axis.grid.cell_count > 2**bits]
    return codes[np.lexsort((*tie_cells, compute_curve_places(np.roll(places, turn, axis=1), bits)))]


def _spread_points(count: int, dimensions: int) -> Floats:
    """Points that fill a cube of side 1 evenly without lying on a lattice along its sides: Roberts' sequence."""
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    return (0.5 + np.outer(np.arange(1, count + 1), steps)) % 1


def _compute_block_means(axis: CurveAxis, codes: IntArray, blocks: IntArray) -> Floats:
    """The mean of each block, in cells."""
    return np.bincount(blocks, codes // axis.grid.width) / np.bincount(blocks)


def _round_means(axis: CurveAxis, means: Floats) -> Floats:
    """The codes that the plan makes of means in cells."""
    return np.minimum(np.floor((means + 0.5) * axis.grid.width), axis.grid.upper - axis.grid.lower)


def _get_width(axis: CurveAxis) -> int:
    return max(axis.grid.upper - axis.grid.lower, 1)


def _add_noise_error(offsets: Floats, noise: float) -> float:
    """The mean size of errors with Laplace noise of this mean size, E|u + L| = |u| + b e^(-|u|/b); at most a half.

    Centroids are clipped to the domain, so that noise of any size is hardly worse than not to know where a value is.
    """
    return min(float((offsets + noise * np.exp(-offsets / noise)).mean()), 0.5)


def _compute_number_error(axis: CurveAxis, codes: IntArray, blocks: IntArray, noise: Floats) -> float:
    last_cell = axis.grid.cell_count - 1
    means = np.clip(_compute_block_means(axis, codes, blocks) + noise * last_cell, 0, last_cell)
    released_codes = np.sort(_round_means(axis, means)[blocks])
    return float(np.abs(released_codes - np.sort(codes)).mean()) / _get_width(axis)


def _list_selection_rates(plan: RecordsPlan) -> dict[int, tuple[Floats, float]]:
    """The distances of each column of names, and the rate at which a name's chance falls with its mean distance."""
    return {
        place: (np.array(plan.axes[place].distances, dtype=np.float64), selection.rate * plan.k)
        for place, selection in plan.selections.items()
    }


def _compute_name_chances(distances: Floats, rate: float, codes: IntArray, blocks: IntArray) -> tuple[Floats, Floats]:
    """For each block and name the mean distance in widths, and the chance that the name is chosen."""
    shape = (int(blocks[-1]) + 1, len(distances))
    name_counts = np.bincount(blocks * len(distances) + codes, minlength=math.prod(shape)).reshape(shape)
    means = name_counts @ distances / name_counts.sum(axis=1, keepdims=True)
    weights = np.exp(-rate * (means - means.min(axis=1, keepdims=True)))
    return means / (float(distances.max()) or 1.0), weights / weights.sum(axis=1, keepdims=True)


def _compute_name_error(chances: Floats, codes: IntArray, blocks: IntArray, chance: Floats) -> float:
    below = (np.cumsum(chances, axis=1) < chance[:, None]).sum(axis=1)
    chosen_names = np.minimum(below, chances.shape[1] - 1)[blocks]
    counts = [np.bincount(names, minlength=chances.shape[1]) for names in (codes, chosen_names)]
    return float(np.abs(counts[0] - counts[1]).sum()) / (2 * len(codes))


MAX_COLUMNS = 12
"""One half of each column's domain against the other is then 4,096 cells, the most whose chains are known exactly."""
MAX_BLOCKS = 4096
MAX_SIDE_BITS = 10
"""No side of the cube has more cells: a thousandth of a width is far below what a block loses."""
PATIENCE = 2
"""After this many layouts in turn that are no better, more blocks will not be better."""
MAX_TIE_RATIO = 1.02
"""More blocks are taken where records are at most this many times as far from their centroids: distributions gain."""
MAX_FINER_RATIO = 1.1
"""A finer cube is taken where records are at most this many times as far from their centroids as in the best."""
SHARE_UNITS = 10**6


def plan_records(columns: Sequence[Column], rows: int, budget: PrivacyBudget, k: int | None = None) -> RecordsPlan:
    """The layout that leaves records nearest: the size of a block, the fineness of the cube, and its error."""
    if not 1 <= len(columns) <= MAX_COLUMNS:
        raise InvalidInput(
            f"private records take 1 to {MAX_COLUMNS} columns, got {len(columns)}; leave some out, "
            "or release them as private columns"
        )
    if k is not None and not 1 <= k <= rows:
        raise InvalidInput(f"k must be between 1 and the {rows} rows, got {k}")
    if rows < 1:
        raise InvalidInput(f"there must be at least one row, got {rows}")
    layouts: list[tuple[float, RecordsPlan]] = []
    for size in _list_block_sizes(rows) if k is None else (k,):
        layouts.append(_plan_block_size(columns, rows, budget, size))
        nearest = min(distance for distance, _ in layouts)
        if all(distance > nearest for distance, _ in layouts[-PATIENCE:]):
            break
    best = [plan for distance, plan in layouts if distance <= MAX_TIE_RATIO * nearest][-1]
    return replace(best, errors=estimate_distribution_errors(best, _compute_mean_noise(best)))


def _plan_block_size(columns: Sequence[Column], rows: int, budget: PrivacyBudget, k: int) -> tuple[float, RecordsPlan]:
    """The finest cube that model rows lose little by: rows that crowd more are told apart better."""
    # How fine the cube may be: from what is known exactly on, as far as places fit a word.
    exact, finest = MAX_COLUMNS // len(columns), min(MAX_SIDE_BITS, MAX_BITS // len(columns))
    side_bits = sorted({min(bits, finest) for bits in (exact, exact + 1, exact + 2, exact + 4)})
    plans = [_build_layout(columns, bits, rows, k, budget) for bits in side_bits]
    distances = [estimate_record_distance(plan, _compute_mean_noise(plan)) for plan in plans]
    near_best = [pair for pair in zip(distances, plans, strict=True) if pair[0] <= MAX_FINER_RATIO * min(distances)]
    return max(near_best, key=lambda pair: pair[1].bits)


def _list_block_sizes(rows: int) -> Iterator[int]:
    """Sizes of blocks for one block, two, three, four, six, eight, and so on."""
    for power in range(MAX_BLOCKS.bit_length()):
        for blocks in sorted({2**power, 3 * 2**power // 2}):
            if blocks <= min(rows, MAX_BLOCKS):
                yield rows // blocks


def _build_layout(columns: Sequence[Column], bits: int, rows: int, k: int, budget: PrivacyBudget) -> RecordsPlan:
    """The best plan with this layout: the shares of the budget, and the noise."""
    axes = tuple(_build_axis(column, bits) for column in columns)
    names = sum(axis.is_nominal for axis in axes)
    has_numbers = names < len(axes)
    parts = names + has_numbers
    even_shares = (Fraction(int(has_numbers), parts), *(Fraction(1, parts),) * names)
    plan = RecordsPlan(axes, bits, rows, k, budget, even_shares)
    if names:
        plan = replace(plan, shares=_split_by_error(plan))
    if not budget.is_pure or len(plan.ordered_axes) < 2:
        return plan
    independent_noise = bound_joint_chain(len(axes), bits, plan.block_count, plan.ordered_axes)
    return replace(plan, uses_box_staircase=True) if _compute_box_noise(plan) < independent_noise else plan


@lru_cache(maxsize=256)
def _build_axis(column: Column, bits: int) -> CurveAxis:
    return CurveAxis.of(column, bits)


def _split_by_error(plan: RecordsPlan) -> tuple[Fraction, ...]:
    """Shares in millionths for which the sum of errors is least: errors fall as 1/share, of zCDP as its root.

    The sum of c / s^p is least where s is as c^(1/(1+p)).
    """
    power = Fraction(1) if plan.budget.is_pure else Fraction(1, 2)
    at_one = [share**power for share in map(float, plan.shares)]
    costs = [_compute_mean_noise(plan) * len(plan.ordered_axes) * at_one[0] if plan.ordered_axes else 0.0]
    columns = zip(plan.selections, at_one[1:], strict=True)
    costs += [_estimate_selection_error(plan, place) * factor for place, factor in columns]
    targets = [cost ** float(1 / (1 + power)) for cost in costs]
    total = sum(targets) or 1.0
    parts = [max(1, math.floor(SHARE_UNITS * target / total)) for target in targets]
    parts[0] *= bool(plan.ordered_axes)
    parts[parts.index(max(parts))] += SHARE_UNITS - sum(parts)
    return tuple(Fraction(part, SHARE_UNITS) for part in parts)


def _compute_mean_noise(plan: RecordsPlan) -> float:
    """The mean noise of a centroid, in widths, as on a fine grid."""
    if not plan.ordered_axes:
        return 0.0
    sums_budget = plan.budget.take_share(plan.shares[0])
    layout = len(plan.axes), plan.bits, plan.block_count, plan.ordered_axes
    if plan.uses_box_staircase:
        mean = _compute_box_noise(plan) / float(sums_budget.epsilon)
    elif sums_budget.is_pure:
        mean = bound_joint_chain(*layout) / float(sums_budget.epsilon)
    else:
        mean = math.sqrt(bound_squared_chain(*layout) / float(math.pi * sums_budget.rho))
    return mean / plan.k / (2.0**plan.bits - 1)


def _compute_box_noise(plan: RecordsPlan) -> float:
    """The mean of each number times epsilon, in places, where noise is as e^(-epsilon |x|_max / width) in each block.

    |x|_max has mean d width / epsilon; one of the d numbers has that size, the others are even between its signs.
    """
    return plan.block_count * (len(plan.ordered_axes) + 1) / 2 * (2.0**plan.bits - 1)


def _estimate_selection_error(plan: RecordsPlan, place: int) -> float:
    """How much farther than need be the chosen name is from a record, in widths: at most ln(names) / rate in all."""
    axis, rate = plan.axes[place], plan.selections[place].rate
    widest = max(max(row) for row in axis.distances)
    return math.log(axis.grid.cell_count) / rate / plan.k / widest if rate and widest else float(widest > 0)
