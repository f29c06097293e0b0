"""The Hilbert curve, and how far a replaced record moves sums along it.

The cube has 2^bits cells per side. The curve is nested: the first d q bits of a cell's place on the curve of order p
are the place, on the curve of order q, of the larger cell that holds it (J. Skilling, Programming the Hilbert curve,
2004).

Replacing a record makes every block give one record to its neighbour: what moves is a chain of at most one step per
block, monotone in the order (records.md). All lengths are whole numbers of cells, exact for cubes of up to 4,096 cells
and proven upper bounds beyond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput

MAX_BITS = 62
"""Places on the curve are held in 64-bit words."""

Cells = NDArray[np.int64]
Lengths = NDArray[np.integer]


def compute_curve_places(cells: Cells, bits: int) -> NDArray[np.int64]:
    """The place on the curve of every cell, a row of d coordinates from 0 to 2^bits - 1 each."""
    axes = _check_axes(cells.T.copy(), bits)
    for bit in range(bits - 1, 0, -1):
        for axis in range(len(axes)):
            _rotate_axes(axes, axis, bit)
    for axis in range(1, len(axes)):
        axes[axis] ^= axes[axis - 1]
    axes ^= _compute_parities(axes[-1], bits)
    return _interleave_bits(axes, bits)


def compute_curve_cells(places: NDArray[np.int64], dimensions: int, bits: int) -> Cells:
    """The cell at every place of the curve, a row of d coordinates each: the inverse."""
    axes = _check_axes(_deinterleave_bits(places, dimensions, bits), bits)
    last = axes[-1] >> 1
    for axis in range(dimensions - 1, 0, -1):
        axes[axis] ^= axes[axis - 1]
    axes[0] ^= last
    for bit in range(1, bits):
        for axis in range(dimensions - 1, -1, -1):
            _rotate_axes(axes, axis, bit)
    return np.ascontiguousarray(axes.T)


def _check_axes(axes: Cells, bits: int) -> Cells:
    if not len(axes) or bits < 1 or bits * len(axes) > MAX_BITS:
        raise InvalidInput(
            f"a curve has at least one dimension and one bit, and at most {MAX_BITS} bits over all dimensions; "
            f"got {len(axes)} of {bits}"
        )
    return axes


def _rotate_axes(axes: Cells, axis: int, bit: int) -> None:
    """Where the bit of this axis is set turn the lower bits of the first over, else exchange the two axes' lower bits.

    Its own inverse, and it never touches a bit from this one up: that is why the curve is nested.
    """
    low = (1 << bit) - 1
    is_set = -((axes[axis] >> bit) & 1)  # all ones where it is set
    difference = (axes[0] ^ axes[axis]) & low & ~is_set
    axes[0] ^= (low & is_set) | difference
    if axis:
        axes[axis] ^= difference


def _compute_parities(last: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """For every bit the parity of the higher bits: the running exclusive or, without the bit itself."""
    running = np.zeros_like(last)
    for bit in range(bits - 1, 0, -1):
        running ^= -((last >> bit) & 1) & ((1 << bit) - 1)
    return running


def _interleave_bits(axes: Cells, bits: int) -> NDArray[np.int64]:
    """One number of the axes' bits in turn, the highest first."""
    place = np.zeros(axes.shape[1], dtype=np.int64)
    for bit in range(bits - 1, -1, -1):
        for axis in axes:
            place = (place << 1) | ((axis >> bit) & 1)
    return place


def _deinterleave_bits(places: NDArray[np.int64], dimensions: int, bits: int) -> Cells:
    axes = np.zeros((dimensions, len(places)), dtype=np.int64)
    for bit in range(bits):
        for axis in range(dimensions):
            axes[axis] |= ((places >> (bit * dimensions + dimensions - 1 - axis)) & 1) << bit
    return axes


MAX_CELLS = 4096
"""Chains of larger cubes are bounded by those of a coarser curve that has no more cells."""
MAX_SQUARED_CELLS = 1024
"""Squares do not part into signs, so every pair of cells is compared."""
MAX_SIGNED_AXES = 6
"""With more attributes there are too many signs, and their longest chains are added up."""
FORBIDDEN_LENGTH = -(2**40)
"""Longer than any chain, and against it."""


def bound_chain(dimensions: int, bits: int, steps: int, axis: int) -> int:
    """The longest chain in one attribute: the most that the sums of `steps` blocks move in it, added up."""
    return _bound_weighted_chain(dimensions, bits, steps, _build_axis_weights(dimensions, axis))


def bound_joint_chain(dimensions: int, bits: int, steps: int, axes: Sequence[int]) -> int:
    """The longest chain in several attributes together: the most that all their sums move, added up."""
    separate_bound = sum(bound_chain(dimensions, bits, steps, axis) for axis in axes)
    if not 1 < len(axes) <= MAX_SIGNED_AXES:
        return separate_bound
    return min(separate_bound, _bound_weighted_chain(dimensions, bits, steps, _build_axis_weights(dimensions, *axes)))


def bound_squared_chain(dimensions: int, bits: int, steps: int, axes: Sequence[int]) -> int:
    """The most that the squared moves of these attributes' sums add up to.

    With cells of side s a move is at most s c + s - 1 where c is that of the larger cells, so that squares add up to at
    most s^2 sum c^2 + 2 s (s - 1) sum c + steps (s - 1)^2 for each attribute; and no move is longer than the cube.
    """
    simple_bound = _compute_side_length(bits) * bound_joint_chain(dimensions, bits, steps, axes)
    if 2**dimensions > MAX_SQUARED_CELLS:
        return simple_bound
    coarse = min(bits, _find_finest_order(dimensions, MAX_SQUARED_CELLS))
    side = 1 << (bits - coarse)
    weights = _build_axis_weights(dimensions, *axes)
    squares = _cache_squared_lengths(dimensions, coarse, _round_up_to_power(steps), weights)[steps - 1]
    straight = bound_joint_chain(dimensions, coarse, steps, axes)
    coarse_bound = side**2 * squares + 2 * side * (side - 1) * straight + steps * len(axes) * (side - 1) ** 2
    return min(coarse_bound, simple_bound)


def compute_chain_lengths(cells: NDArray[np.int64], steps: int, weights: Sequence[int]) -> tuple[int, ...]:
    """The longest chains of at most 1, 2, ..., `steps` steps through cells in their order, by weighted steps; exact.

    Best to every cell after one more step = max over signs s of s.y + the best so far of (before - s.y'): the greatest
    s.(y - y') over signs is the weighted length of the step, and lesser ones only add chains that are shorter.
    """
    signs = product(*((-1, 1) if weight else (0,) for weight in weights))
    signed = np.array([np.multiply(sign, weights) for sign in signs], dtype=np.int64)
    longest = steps * int(np.ptp(cells, axis=0) @ np.array(weights, dtype=np.int64))
    heights: Lengths = (signed @ cells.T).astype(np.int32 if longest < 2**30 else np.int64)
    return _grow_chains(
        cells, steps, lambda best: (heights + np.maximum.accumulate(best - heights, axis=1)).max(axis=0)
    )


def compute_squared_chain_lengths(cells: NDArray[np.int64], steps: int, weights: Sequence[int]) -> tuple[int, ...]:
    """The lengths where a step counts as the sum of its weighted squares: every pair of cells is compared."""
    differences = cells[:, None, :] - cells[None, :, :]
    squares = (differences * differences) @ np.array(weights, dtype=np.int64)
    squares[np.tril_indices(len(cells), -1)] = FORBIDDEN_LENGTH
    return _grow_chains(cells, steps, lambda best: (best[:, None] + squares).max(axis=0))


def _grow_chains(cells: NDArray[np.int64], steps: int, extend: Callable[[Lengths], Lengths]) -> tuple[int, ...]:
    """The longest of all after every step; once a step adds nothing none will."""
    lengths = [0]
    best: Lengths = np.zeros(len(cells), dtype=np.int32)
    while len(lengths) <= steps:
        before, best = best, extend(best)
        if (best == before).all():
            break
        lengths.append(int(best.max()))
    return tuple(lengths[1:] + [lengths[-1]] * (steps + 1 - len(lengths)))


def _bound_weighted_chain(dimensions: int, bits: int, steps: int, weights: tuple[int, ...]) -> int:
    """The longest chain, or where the cube has too many cells one that no chain exceeds.

    Two fine cells are at most side - 1 further apart than side times the larger cells that hold them; and along the
    whole curve every step is to a neighbouring cell, so no chain is longer than the number of cells less 1.
    """
    coarse = min(bits, _find_finest_order(dimensions, MAX_CELLS))
    side, axes = 1 << (bits - coarse), sum(weights)
    nested = side * _find_longest_chain(dimensions, coarse, steps, weights) + steps * axes * (side - 1)
    return min(nested, steps * axes * _compute_side_length(bits), _compute_side_length(bits * dimensions))


def _compute_side_length(bits: int) -> int:
    """From the first of 2^bits cells to the last."""
    return (1 << bits) - 1


def _find_finest_order(dimensions: int, max_cells: int) -> int:
    """The order of the finest curve with at most so many cells."""
    order = (max_cells.bit_length() - 1) // dimensions
    if not order:
        raise InvalidInput(
            f"a curve goes through at most {MAX_CELLS.bit_length() - 1} attributes, got {dimensions}; leave some out"
        )
    return order


def _build_axis_weights(dimensions: int, *axes: int) -> tuple[int, ...]:
    return tuple(int(axis in axes) for axis in range(dimensions))


def _find_longest_chain(dimensions: int, bits: int, steps: int, weights: tuple[int, ...]) -> int:
    return _cache_chain_lengths(dimensions, bits, _round_up_to_power(steps), weights)[steps - 1]


def _round_up_to_power(steps: int) -> int:
    """The next power of 2, so that what is worked out serves many questions."""
    return 1 << (steps - 1).bit_length()


@lru_cache(maxsize=256)
def _cache_chain_lengths(dimensions: int, bits: int, steps: int, weights: tuple[int, ...]) -> tuple[int, ...]:
    return compute_chain_lengths(_build_curve(dimensions, bits), steps, weights)


@lru_cache(maxsize=256)
def _cache_squared_lengths(dimensions: int, bits: int, steps: int, weights: tuple[int, ...]) -> tuple[int, ...]:
    return compute_squared_chain_lengths(_build_curve(dimensions, bits), steps, weights)


@lru_cache(maxsize=32)
def _build_curve(dimensions: int, bits: int) -> NDArray[np.int64]:
    return compute_curve_cells(np.arange(2 ** (dimensions * bits), dtype=np.int64), dimensions, bits)
