"""Compiled: sums over the records that are left, exact however many come and go, and their average record.

A sum is a row of whole numbers, its digits to the base 2^32; digits may stand above the base or below 0 until the sum
is read. There are enough for every float, so that nothing is ever rounded but what is read. After the digits stand the
first and the last that was ever touched.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.microdata.table import Floats, Integers
from discreet.microdata.tree import compile_internal

LOWEST_EXPONENT = -1138
"""The last digit counts 2^LOWEST: two digits below the least float."""

DIGIT_COUNT = 72
BOTTOM_SLOT, TOP_SLOT = DIGIT_COUNT, DIGIT_COUNT + 1
DIGIT_MASK = 2**32 - 1


@compile_internal
def create_sums(count: int) -> Integers:
    """So many sums of no numbers."""
    sums = np.zeros((count, DIGIT_COUNT + 2), np.int64)
    sums[:, BOTTOM_SLOT], sums[:, TOP_SLOT] = DIGIT_COUNT, 2
    return sums


@compile_internal
def add_to_sum(sums: Integers, which: int, value: float) -> None:
    """Add a number to a sum."""
    bits = int(np.float64(value).view(np.int64))
    biased_exponent = (bits >> 52) & 2047
    exponent, mantissa = max(biased_exponent, 1), (bits & (2**52 - 1)) | (2**52 if biased_exponent else 0)
    if bits < 0:
        mantissa = -mantissa
    place = exponent - 1075 - LOWEST_EXPONENT
    digit, shift = place >> 5, place & 31
    low, high = (mantissa & DIGIT_MASK) << shift, (mantissa >> 32) << shift
    sums[which, digit] += low & DIGIT_MASK
    sums[which, digit + 1] += (low >> 32) + (high & DIGIT_MASK)
    sums[which, digit + 2] += high >> 32
    sums[which, BOTTOM_SLOT] = min(sums[which, BOTTOM_SLOT], digit)
    sums[which, TOP_SLOT] = max(sums[which, TOP_SLOT], digit + 3)


@compile_internal
def _carry(digits: Integers) -> None:
    """Bring all digits but the first between 0 and the base."""
    for i in range(digits[BOTTOM_SLOT], digits[TOP_SLOT]):
        digits[i + 1] += digits[i] >> 32
        digits[i] &= DIGIT_MASK


@compile_internal
def _negate(digits: Integers) -> None:
    for i in range(digits[BOTTOM_SLOT], digits[TOP_SLOT] + 1):
        digits[i] = -digits[i]


@compile_internal
def round_sum(sums: Integers, which: int) -> float:
    """The nearest float to a sum, halves to even: what `math.fsum` gives."""
    digits, sign = sums[which], 1.0
    _carry(digits)
    if digits[digits[TOP_SLOT]] < 0:
        _negate(digits)
        _carry(digits)
        sign = -1.0
    top = digits[TOP_SLOT]
    while top > 2 and digits[top] == 0:
        top -= 1
    bits = math.frexp(float(digits[top]))[1]
    trailing = (digits[top - 1] & 3) << 32 | digits[top - 2]
    leading = ((digits[top] << 30 | digits[top - 1] >> 2) << (32 - bits)) | trailing >> (2 + bits)
    sticky = trailing & ((1 << (2 + bits)) - 1)
    for i in range(digits[BOTTOM_SLOT], top - 2):
        sticky |= digits[i]
    value = math.ldexp(
        float(leading | (sticky != 0)), 32 * top + bits - 62 + LOWEST_EXPONENT
    )  # 62 bits, the last for all below
    if sign < 0:
        _negate(digits)
    return sign * value


@compile_internal
def add_record(sums: Integers, points: Floats, which: int, numeric_count: int, codes: int, weight: float) -> None:
    """Add a record to the sums, or with a negative weight take it away."""
    for j in range(numeric_count):
        add_to_sum(sums, j, weight * points[which, j])
    for j in range(numeric_count, points.shape[1]):
        add_to_sum(sums, numeric_count + (j - numeric_count) * codes + int(points[which, j]), weight)
    add_to_sum(sums, len(sums) - 1, weight)


@compile_internal
def compute_average_from_sums(sums: Integers, numeric_count: int, roots: Floats, place: Floats) -> None:
    """The average record: means, and of codes the one with the least sum of distances to all, the first of several."""
    total, codes = round_sum(sums, len(sums) - 1), roots.shape[1]
    for j in range(numeric_count):
        place[j] = round_sum(sums, j) / total
    for c in range(len(roots)):
        distances = np.zeros(codes)
        for present_code in range(codes):
            weight = round_sum(sums, numeric_count + c * codes + present_code)
            if weight > 0:
                for code in range(codes):
                    distances[code] += weight * roots[c, present_code, code]
        place[numeric_count + c] = np.argmin(distances)
