"""Compiled: sums over the records that are left, exact however many come and go, and their average record.

A sum is a row of whole numbers, its digits to the base 2^32; digits may stand above the base or below 0 until the sum
is read. There are enough for every float, so that nothing is ever rounded but what is read. After the digits stand the
first and the last that was ever touched.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.microdata.table import Floats, Places
from discreet.microdata.tree import inner

LOWEST = -1138
"""The last digit counts 2^LOWEST: two digits below the least float."""

DIGITS = 72
BOTTOM, TOP = DIGITS, DIGITS + 1
MASK = 2**32 - 1


@inner
def nothing(count: int) -> Places:
    """So many sums of no numbers."""
    sums = np.zeros((count, DIGITS + 2), np.int64)
    sums[:, BOTTOM], sums[:, TOP] = DIGITS, 2
    return sums


@inner
def add(sums: Places, which: int, value: float) -> None:
    """Add a number to a sum."""
    bits = int(np.float64(value).view(np.int64))
    held = (bits >> 52) & 2047
    exponent, whole = max(held, 1), (bits & (2**52 - 1)) | (2**52 if held else 0)
    if bits < 0:
        whole = -whole
    place = exponent - 1075 - LOWEST
    digit, up = place >> 5, place & 31
    low, high = (whole & MASK) << up, (whole >> 32) << up
    sums[which, digit] += low & MASK
    sums[which, digit + 1] += (low >> 32) + (high & MASK)
    sums[which, digit + 2] += high >> 32
    sums[which, BOTTOM] = min(sums[which, BOTTOM], digit)
    sums[which, TOP] = max(sums[which, TOP], digit + 3)


@inner
def _carry(digits: Places) -> None:
    """Bring all digits but the first between 0 and the base."""
    for i in range(digits[BOTTOM], digits[TOP]):
        digits[i + 1] += digits[i] >> 32
        digits[i] &= MASK


@inner
def _negate(digits: Places) -> None:
    for i in range(digits[BOTTOM], digits[TOP] + 1):
        digits[i] = -digits[i]


@inner
def rounded(sums: Places, which: int) -> float:
    """The nearest float to a sum, halves to even: what `math.fsum` gives."""
    digits, sign = sums[which], 1.0
    _carry(digits)
    if digits[digits[TOP]] < 0:
        _negate(digits)
        _carry(digits)
        sign = -1.0
    top = digits[TOP]
    while top > 2 and digits[top] == 0:
        top -= 1
    bits = math.frexp(float(digits[top]))[1]
    rest = (digits[top - 1] & 3) << 32 | digits[top - 2]
    leading = ((digits[top] << 30 | digits[top - 1] >> 2) << (32 - bits)) | rest >> (2 + bits)
    lost = rest & ((1 << (2 + bits)) - 1)
    for i in range(digits[BOTTOM], top - 2):
        lost |= digits[i]
    value = math.ldexp(float(leading | (lost != 0)), 32 * top + bits - 62 + LOWEST)  # 62 bits, the last for all below
    if sign < 0:
        _negate(digits)
    return sign * value


@inner
def weigh(sums: Places, points: Floats, which: int, plain: int, codes: int, weight: float) -> None:
    """Add a record to the sums, or with a negative weight take it away."""
    for j in range(plain):
        add(sums, j, weight * points[which, j])
    for j in range(plain, points.shape[1]):
        add(sums, plain + (j - plain) * codes + int(points[which, j]), weight)
    add(sums, len(sums) - 1, weight)


@inner
def average(sums: Places, plain: int, roots: Floats, place: Floats) -> None:
    """The average record: means, and of codes the one with the least sum of distances to all, the first of several."""
    total, codes = rounded(sums, len(sums) - 1), roots.shape[1]
    for j in range(plain):
        place[j] = rounded(sums, j) / total
    for c in range(len(roots)):
        away = np.zeros(codes)
        for held in range(codes):
            weight = rounded(sums, plain + c * codes + held)
            if weight > 0:
                for code in range(codes):
                    away[code] += weight * roots[c, held, code]
        place[plain + c] = np.argmin(away)
