"""Compiled: sums over the records that are left, exact however many come and go, and their average record.

A sum is a row of whole numbers, its digits to the base 2^32; digits may stand above the base or below 0 until the sum
is read. There are enough for every float, so that nothing is ever rounded but what is read.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.microdata.table import Floats, Places
from discreet.microdata.tree import Tree, inner

LOWEST = -1158
"""The last digit counts 2^LOWEST: 32 places below the last bit of the least float's 53."""

DIGITS = 72
MASK = 2**32 - 1


@inner
def nothing(count: int) -> Places:
    """So many sums of no numbers."""
    return np.zeros((count, DIGITS), np.int64)


@inner
def add(sums: Places, which: int, value: float) -> None:
    """Add a number to a sum."""
    fraction, exponent = math.frexp(value)
    whole, place = int(fraction * 2.0**53), exponent - 53 - LOWEST
    digit, up = place >> 5, place & 31
    low, high = (whole & MASK) << up, (whole >> 32) << up
    sums[which, digit] += low & MASK
    sums[which, digit + 1] += (low >> 32) + (high & MASK)
    sums[which, digit + 2] += high >> 32


@inner
def _carry(digits: Places) -> None:
    """Bring all digits but the first between 0 and the base."""
    for i in range(DIGITS - 1):
        digits[i + 1] += digits[i] >> 32
        digits[i] &= MASK


@inner
def rounded(sums: Places, which: int) -> float:
    """The nearest float to a sum, halves to even: what `math.fsum` gives."""
    digits, sign = sums[which], 1.0
    _carry(digits)
    if digits[DIGITS - 1] < 0:
        for i in range(DIGITS):
            digits[i] = -digits[i]
        _carry(digits)
        sign = -1.0
    top = DIGITS - 1
    while top > 1 and digits[top] == 0:
        top -= 1
    bits = math.frexp(float(digits[top]))[1]
    rest = (digits[top - 1] & 3) << 32 | digits[top - 2]
    leading = ((digits[top] << 30 | digits[top - 1] >> 2) << (32 - bits)) | rest >> (2 + bits)
    lost = rest & ((1 << (2 + bits)) - 1)
    for i in range(top - 2):
        lost |= digits[i]
    value = math.ldexp(float(leading | (lost != 0)), 32 * top + bits - 62 + LOWEST)  # 62 bits, the last for all below
    if sign < 0:
        for i in range(DIGITS):
            digits[i] = -digits[i]
    return sign * value


@inner
def weigh(sums: Places, tree: Tree, position: int, weight: float) -> None:
    """Add a record to the sums, or with a negative weight take it away."""
    codes = tree.squares.shape[1]
    for j in range(tree.plain):
        add(sums, j, weight * tree.points[position, j])
    for j in range(tree.plain, tree.points.shape[1]):
        add(sums, tree.plain + (j - tree.plain) * codes + int(tree.points[position, j]), weight)
    add(sums, len(sums) - 1, weight)


@inner
def average(sums: Places, tree: Tree, roots: Floats) -> Floats:
    """The average record: means, and of codes the one with the least sum of distances to all, the first of several."""
    place = np.empty(tree.points.shape[1])
    total, codes = rounded(sums, len(sums) - 1), tree.squares.shape[1]
    for j in range(tree.plain):
        place[j] = rounded(sums, j) / total
    for c in range(len(tree.squares)):
        away = np.zeros(codes)
        for held in range(codes):
            weight = rounded(sums, tree.plain + c * codes + held)
            if weight > 0:
                for code in range(codes):
                    away[code] += weight * roots[c, held, code]
        place[tree.plain + c] = np.argmin(away)
    return place
