"""How private records are laid out and what error to expect, from public facts alone.

The fewer blocks there are, the farther their records are apart; the more there are, the more noise each centroid has.
Both are seen on rows that are made of public facts, and the layout that leaves records nearest is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from discreet.errors import InvalidInput
from discreet.microdata.private.axes import CurveAxis
from discreet.microdata.private.chains import bound_joint_chain, bound_squared_chain
from discreet.microdata.private.hilbert import MAX_BITS
from discreet.microdata.private.loss import PrivacyBudget
from discreet.microdata.private.records import RecordsPlan
from discreet.planner.model_rows import estimate_distribution_errors, estimate_record_distance
from discreet.schema import Column

MAX_COLUMNS = 12
"""One half of each column's domain against the other is then 4,096 cells, the most whose chains are known exactly."""
MAX_BLOCKS = 4096
MAX_SIDE_BITS = 10
"""No side of the cube has more cells: a thousandth of a width is far below what a block loses."""
PATIENCE = 2
"""After so many layouts in turn that are no better, more blocks will not be better."""
MAX_TIE_RATIO = 1.02
"""More blocks are taken where records are so many times as far from their centroids, as distributions are nearer."""
MAX_FINER_RATIO = 1.1
"""Of a finer cube records may be so many times as far from their centroids as at least."""
SHARE_UNITS = 10**6


def plan_records(columns: Sequence[Column], rows: int, budget: PrivacyBudget, k: int | None = None) -> RecordsPlan:
    """The layout that leaves records nearest, how many a block has and how fine the cube is, and its error."""
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
    plans = [_build_layout(columns, bits, rows, k, budget) for bits in _list_side_bits(len(columns))]
    distances = [estimate_record_distance(plan, _compute_mean_noise(plan)) for plan in plans]
    near_best = [pair for pair in zip(distances, plans, strict=True) if pair[0] <= MAX_FINER_RATIO * min(distances)]
    return max(near_best, key=lambda pair: pair[1].bits)


def _list_block_sizes(rows: int) -> Iterator[int]:
    """Sizes of blocks for one block, two, three, four, six, eight, and so on."""
    for power in range(MAX_BLOCKS.bit_length()):
        for blocks in sorted({2**power, 3 * 2**power // 2}):
            if blocks <= min(rows, MAX_BLOCKS):
                yield rows // blocks


def _list_side_bits(dimensions: int) -> tuple[int, ...]:
    """How fine the cube may be: from what is known exactly on, as far as places fit a word."""
    exact = MAX_COLUMNS // dimensions
    finest = min(MAX_SIDE_BITS, MAX_BITS // dimensions)
    return tuple(sorted({min(bits, finest) for bits in (exact, exact + 1, exact + 2, exact + 4)}))


def _build_layout(columns: Sequence[Column], bits: int, rows: int, k: int, budget: PrivacyBudget) -> RecordsPlan:
    """The best plan with this layout: how the loss is shared, and the noise."""
    axes = tuple(_build_axis(column, bits) for column in columns)
    names = sum(axis.is_nominal for axis in axes)
    even_plan = RecordsPlan(axes, bits, rows, k, budget, _split_evenly(len(axes) - names, names))
    plan = replace(even_plan, shares=_split_by_error(even_plan)) if names else even_plan
    return replace(plan, uses_box_staircase=True) if _is_box_better(plan) else plan


@lru_cache(maxsize=256)
def _build_axis(column: Column, bits: int) -> CurveAxis:
    return CurveAxis.of(column, bits)


def _split_evenly(numbers: int, names: int) -> tuple[Fraction, ...]:
    """Equal shares, one for all ordered columns."""
    parts = names + (numbers > 0)
    return (Fraction(int(numbers > 0), parts), *(Fraction(1, parts),) * names)


def _split_by_error(plan: RecordsPlan) -> tuple[Fraction, ...]:
    """Shares in millionths for which the sum of errors is least: errors fall as 1/share, of zCDP as its root.

    The sum of c / s^p is least where s is as c^(1/(1+p)).
    """
    power = Fraction(1) if plan.budget.is_pure else Fraction(1, 2)
    at_one = [share**power for share in map(float, plan.shares)]
    costs = [_compute_mean_noise(plan) * len(plan.ordered_axes) * at_one[0] if plan.ordered_axes else 0.0]
    costs += [
        _estimate_selection_error(plan, place) * factor
        for place, factor in zip(plan.selections, at_one[1:], strict=True)
    ]
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
    part = plan.budget.take_share(plan.shares[0])
    layout = len(plan.axes), plan.bits, plan.block_count, plan.ordered_axes
    if plan.uses_box_staircase:
        mean = _compute_box_noise(plan) / float(part.epsilon)
    elif part.is_pure:
        mean = bound_joint_chain(*layout) / float(part.epsilon)
    else:
        mean = math.sqrt(bound_squared_chain(*layout) / float(math.pi * part.rho))
    return mean / plan.k / (2.0**plan.bits - 1)


def _compute_box_noise(plan: RecordsPlan) -> float:
    """The mean of each number times epsilon, in places, where noise is as e^(-epsilon |x|_max / width) in each block.

    |x|_max has mean d width / epsilon; one of the d numbers has that size, the others are even between its signs.
    """
    return plan.block_count * (len(plan.ordered_axes) + 1) / 2 * (2.0**plan.bits - 1)


def _is_box_better(plan: RecordsPlan) -> bool:
    if not plan.budget.is_pure or len(plan.ordered_axes) < 2:
        return False
    return _compute_box_noise(plan) < bound_joint_chain(len(plan.axes), plan.bits, plan.block_count, plan.ordered_axes)


def _estimate_selection_error(plan: RecordsPlan, place: int) -> float:
    """How much farther than need be the chosen name is from a record, in widths: at most ln(names) / rate in all."""
    axis, rate = plan.axes[place], plan.selections[place].rate
    widest = max(max(row) for row in axis.distances)
    return math.log(axis.grid.cell_count) / rate / plan.k / widest if rate and widest else float(widest > 0)
