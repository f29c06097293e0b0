"""How private records are laid out and what error to expect, from public facts alone.

The fewer blocks there are, the farther their records are apart; the more there are, the more noise each centroid has.
Both are worked out for rows spread evenly over the domain, and the layout with the least error is taken.
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
from discreet.microdata.private.axes import Axis
from discreet.microdata.private.chains import joint_bound, squared_bound
from discreet.microdata.private.hilbert import MOST_BITS, curve_cells
from discreet.microdata.private.loss import Loss
from discreet.microdata.private.records import RecordsPlan
from discreet.schema import Column

MOST_COLUMNS = 12
"""One half of each column's domain against the other is then 4,096 cells, the most whose chains are known exactly."""
MOST_BLOCKS = 4096
MOST_SIDE_BITS = 10
"""No side of the cube has more cells: a thousandth of a width is far below what a block loses."""
EVEN_BITS = 16
"""The curve is sampled at so many points, as a power of 2, to see how far records of a block are apart."""
PATIENCE = 2
"""After so many layouts in turn that are no better, more blocks will not be better."""
SPARED = 1.1
"""A finer cube may have an expected error so many times the least."""
MILLION = 10**6


def records_plan(columns: Sequence[Column], rows: int, loss: Loss, k: int | None = None) -> RecordsPlan:
    """The layout with the least expected error: how many records a block has, how fine the cube is, which noise."""
    if not 1 <= len(columns) <= MOST_COLUMNS:
        raise InvalidInput(
            f"private records take 1 to {MOST_COLUMNS} columns, got {len(columns)}; leave some out, "
            "or release them as private columns"
        )
    if k is not None and not 1 <= k <= rows:
        raise InvalidInput(f"k must be between 1 and the {rows} rows, got {k}")
    best, worse = None, 0
    for size in _sizes(rows) if k is None else (k,):
        plan = _with_block_size(columns, rows, loss, size)
        if best is None or plan.error < best.error:
            best, worse = plan, 0
        else:
            worse += 1
        if worse == PATIENCE:
            break
    if best is None:
        raise InvalidInput(f"there must be at least one row, got {rows}")
    return best


def _with_block_size(columns: Sequence[Column], rows: int, loss: Loss, k: int) -> RecordsPlan:
    """The finest cube that evenly spread rows lose little by: rows that are not are told apart better."""
    plans = [_planned(columns, bits, rows, k, loss) for bits in _sides(len(columns))]
    enough = SPARED * min(plan.error for plan in plans)
    return max((plan for plan in plans if plan.error <= enough), key=lambda plan: plan.bits)


def _sizes(rows: int) -> Iterator[int]:
    """Sizes of blocks for one block, two, three, four, six, eight, and so on."""
    for power in range(MOST_BLOCKS.bit_length()):
        for blocks in sorted({2**power, 3 * 2**power // 2}):
            if blocks <= min(rows, MOST_BLOCKS):
                yield rows // blocks


def _sides(dimensions: int) -> tuple[int, ...]:
    """How fine the cube may be: from what is known exactly on, as far as places fit a word."""
    exact = MOST_COLUMNS // dimensions
    finest = min(MOST_SIDE_BITS, MOST_BITS // dimensions)
    return tuple(sorted({min(bits, finest) for bits in (exact, exact + 1, exact + 2, exact + 4)}))


def _planned(columns: Sequence[Column], bits: int, rows: int, k: int, loss: Loss) -> RecordsPlan:
    """The best plan with this layout: how the loss is shared, and the noise."""
    axes = tuple(_axis(column, bits) for column in columns)
    names = sum(axis.named for axis in axes)
    whole = RecordsPlan(axes, bits, rows, k, loss, _even(len(axes) - names, names))
    plan = replace(whole, shares=_shared(whole)) if names else whole
    plan = replace(plan, box=True) if _better_boxed(plan) else plan
    return replace(plan, errors=tuple(_errors(plan)))


@lru_cache(maxsize=256)
def _axis(column: Column, bits: int) -> Axis:
    return Axis.of(column, bits)


def _even(numbers: int, names: int) -> tuple[Fraction, ...]:
    """Equal shares, one for all ordered columns."""
    parts = names + (numbers > 0)
    return (Fraction(int(numbers > 0), parts), *(Fraction(1, parts),) * names)


def _shared(plan: RecordsPlan) -> tuple[Fraction, ...]:
    """Shares in millionths for which the sum of errors is least: errors fall as 1/share, of zCDP as its root.

    The sum of c / s^p is least where s is as c^(1/(1+p)).
    """
    power = Fraction(1) if plan.loss.pure else Fraction(1, 2)
    at_one = [share**power for share in map(float, plan.shares)]
    costs = [_noise(plan) * len(plan.numbers) * at_one[0] if plan.numbers else 0.0]
    costs += [_choosing(plan, place) * factor for place, factor in zip(plan.selections, at_one[1:], strict=True)]
    wanted = [cost ** float(1 / (1 + power)) for cost in costs]
    total = sum(wanted) or 1.0
    parts = [max(1, math.floor(MILLION * each / total)) for each in wanted]
    parts[0] *= bool(plan.numbers)
    parts[parts.index(max(parts))] += MILLION - sum(parts)
    return tuple(Fraction(part, MILLION) for part in parts)


def _noise(plan: RecordsPlan) -> float:
    """The mean noise of a centroid, in widths, as on a fine grid."""
    part = plan.loss.part(plan.shares[0])
    facts = len(plan.axes), plan.bits, plan.blocks, plan.numbers
    if plan.box:
        mean = _boxed(plan) / float(part.epsilon)
    elif part.pure:
        mean = joint_bound(*facts) / float(part.epsilon)
    else:
        mean = math.sqrt(squared_bound(*facts) / float(math.pi * part.rho))
    return mean / plan.k / (2.0**plan.bits - 1)


def _boxed(plan: RecordsPlan) -> float:
    """The mean of each number times epsilon, in places, where noise is as e^(-epsilon |x|_max / width) in each block.

    |x|_max has mean d width / epsilon; one of the d numbers has that size, the others are even between its signs.
    """
    return plan.blocks * (len(plan.numbers) + 1) / 2 * (2.0**plan.bits - 1)


def _better_boxed(plan: RecordsPlan) -> bool:
    if not plan.loss.pure or len(plan.numbers) < 2:
        return False
    return _boxed(plan) < joint_bound(len(plan.axes), plan.bits, plan.blocks, plan.numbers)


def _choosing(plan: RecordsPlan, place: int) -> float:
    """How much farther than need be the chosen name is from a record, in widths: at most ln(names) / rate in all."""
    axis, rate = plan.axes[place], plan.selections[place].loss
    widest = max(max(row) for row in axis.apart)
    return math.log(axis.grid.cells) / rate / plan.k / widest if rate and widest else float(widest > 0)


def _errors(plan: RecordsPlan) -> Iterator[float]:
    """Of each column: how far records are from their centroid, its noise included; of numbers half a width at most."""
    points, blocks = _even_points(len(plan.axes), plan.bits, plan.blocks)
    for place, axis in enumerate(plan.axes):
        if axis.named:
            yield _names_apart(axis, points[:, place], blocks, plan.selections[place].loss * plan.k)
        else:
            both = _both(_numbers_apart(points[:, place], blocks), _noise(plan))
            yield min(both, 0.5) if axis.grid.cells > 1 else 0.0


def _both(apart: float, noise: float) -> float:
    """The mean size of two errors together of these mean sizes, the first even about 0 and the second Laplace.

    E|u + L| = |u| + b e^(-|u|/b), and |u| is even from 0 to 2 `apart`.
    """
    part = 2 * apart / noise
    return apart - noise * math.expm1(-part) / part


@lru_cache(maxsize=64)
def _even_points(dimensions: int, bits: int, blocks: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Points spread evenly over a cube of side 1, in the order of the curve, and the block of each."""
    order = max(1, min(bits, EVEN_BITS // dimensions))
    count = 2 ** (order * dimensions)
    points = (curve_cells(np.arange(count), dimensions, order) + 0.5) / 2**order
    return points, np.arange(count) * blocks // count


def _numbers_apart(points: NDArray[np.float64], blocks: NDArray[np.int64]) -> float:
    """The mean distance from the centroid: that of an even spread with the same variance, the cell's own added."""
    held = np.maximum(np.bincount(blocks), 1)
    means = np.bincount(blocks, points) / held
    inside = float(((points - means[blocks]) ** 2).mean())
    cell = 2 * float(points.min())
    return math.sqrt(3 * (inside + cell**2 / 12)) / 2


def _names_apart(axis: Axis, points: NDArray[np.float64], blocks: NDArray[np.int64], rate: float) -> float:
    """The mean distance in widths to the name chosen in each block, `rate` that of its mean distance."""
    apart = np.array(axis.apart, dtype=np.float64)
    names = np.argsort(axis.line)[(points * axis.grid.cells).astype(np.int64)]
    shape = (int(blocks.max()) + 1, len(apart))
    held = np.bincount(blocks * len(apart) + names, minlength=math.prod(shape)).reshape(shape)
    held = held[held.any(axis=1)]
    means = held @ apart / held.sum(axis=1, keepdims=True)
    chances = np.exp(-rate * (means - means.min(axis=1, keepdims=True)))
    chosen = (means * chances).sum(axis=1) / chances.sum(axis=1)
    return float(chosen.mean()) / (float(apart.max()) or 1.0)
