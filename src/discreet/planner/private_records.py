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
from discreet.microdata.private.axes import Axis
from discreet.microdata.private.chains import joint_bound, squared_bound
from discreet.microdata.private.hilbert import MOST_BITS
from discreet.microdata.private.loss import Loss
from discreet.microdata.private.records import RecordsPlan
from discreet.planner.model_rows import distributions_apart, records_apart
from discreet.schema import Column

MOST_COLUMNS = 12
"""One half of each column's domain against the other is then 4,096 cells, the most whose chains are known exactly."""
MOST_BLOCKS = 4096
MOST_SIDE_BITS = 10
"""No side of the cube has more cells: a thousandth of a width is far below what a block loses."""
PATIENCE = 2
"""After so many layouts in turn that are no better, more blocks will not be better."""
ALIKE = 1.02
"""More blocks are taken where records are so many times as far from their centroids, as distributions are nearer."""
SPARED = 1.1
"""Of a finer cube records may be so many times as far from their centroids as at least."""
MILLION = 10**6


def records_plan(columns: Sequence[Column], rows: int, loss: Loss, k: int | None = None) -> RecordsPlan:
    """The layout that leaves records nearest, how many a block has and how fine the cube is, and its error."""
    if not 1 <= len(columns) <= MOST_COLUMNS:
        raise InvalidInput(
            f"private records take 1 to {MOST_COLUMNS} columns, got {len(columns)}; leave some out, "
            "or release them as private columns"
        )
    if k is not None and not 1 <= k <= rows:
        raise InvalidInput(f"k must be between 1 and the {rows} rows, got {k}")
    if rows < 1:
        raise InvalidInput(f"there must be at least one row, got {rows}")
    found: list[tuple[float, RecordsPlan]] = []
    for size in _sizes(rows) if k is None else (k,):
        found.append(_with_block_size(columns, rows, loss, size))
        nearest = min(apart for apart, _ in found)
        if all(apart > nearest for apart, _ in found[-PATIENCE:]):
            break
    best = [plan for apart, plan in found if apart <= ALIKE * nearest][-1]
    return replace(best, errors=distributions_apart(best, _noise(best)))


def _with_block_size(columns: Sequence[Column], rows: int, loss: Loss, k: int) -> tuple[float, RecordsPlan]:
    """The finest cube that model rows lose little by: rows that crowd more are told apart better."""
    plans = [_planned(columns, bits, rows, k, loss) for bits in _sides(len(columns))]
    apart = [records_apart(plan, _noise(plan)) for plan in plans]
    near = [pair for pair in zip(apart, plans, strict=True) if pair[0] <= SPARED * min(apart)]
    return max(near, key=lambda pair: pair[1].bits)


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
    return replace(plan, box=True) if _better_boxed(plan) else plan


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
    if not plan.numbers:
        return 0.0
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
