"""The Hilbert curve through the cells of a cube: neighbours on the curve are neighbours in the cube.

The cube has 2^bits cells per side. The curve is nested: the first d q bits of a cell's place on the curve of order p
are the place, on the curve of order q, of the larger cell that holds it (J. Skilling, Programming the Hilbert curve,
2004).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput

MAX_BITS = 62
"""Places on the curve are held in 64-bit words."""

Cells = NDArray[np.int64]


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
