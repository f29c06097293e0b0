"""Features of draws that events are about: values, digits, equal entries, residues and steps.

A feature, fixed before it is used, maps every draw to an integer key; events are sets of keys.

`D + 2 * noise` is even if and only if D is. No interval of values shows that; the remainder after division by 2 does.
Moduli are found from the shape draws: small ones by comparing the residues of both data sets, large ones as the
greatest common divisor of differences between draws with one data set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.formatting import format_number, format_value
from discreet.verification.audit.output_values import (
    Columns,
    Keys,
    OutputAttribute,
    OutputSample,
    compute_ordered_keys,
    decode_key,
    decode_keys,
)

Numbers = NDArray[np.float64]
Span = tuple[int | None, int | None]
"""Keys from the first up to, but without, the second; None where there is no end."""

MAX_PATTERN_WIDTH = 8
EXPONENT_MASK, FRACTION_MASK = 0x7FF, 2**52 - 1
NO_DIGIT = 3000
"""In place of the last binary digit of 0, which is a multiple of everything, and of what is not finite."""
HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
RESIDUE_TABLES = (
    *(2**4 * 3**2 * 5 * 7, 11 * 13 * 17, 19 * 23 * 29, 31 * 37 * 41, 43 * 47 * 53, 59 * 61),
    *(2**6 * 3 * 5 * 7, 2**3 * 3**3 * 5 * 7, 2**4 * 3 * 5**2 * 7, 2**3 * 3**3 * 5**2, 2**10, 10**3),
)
"""A table of counts modulo each of these gives the counts modulo its divisors, by adding up."""
MAX_MODULUS, MAX_SCREENED_MODULUS = 1000, 32
"""The largest divisors that are tried; the second for screening many numbers."""
MIN_PER_CLASS = 8
"""Average draws per residue class, of each data set, that a modulus needs."""
MAX_TELLING_MODULI, MAX_COMMON_STEPS = 3, 2
NOTABLE_DEVIATIONS = 4.0
"""A modulus becomes a feature if its residues differ by more standard deviations of chi-square."""
MAX_QUADRUPLES, MAX_TURNS, MIN_ALIKE = 8192, 8, 8
MAX_COMPARED = 65_536
"""The most draws of each data set whose residues are compared."""
MAX_DECIMALS, DECIMALS_CHECKED = 6, 1000
MAX_WHOLE_FLOAT = 2.0**51
NO_NUMBER, NO_RESIDUE = -(2**63), -1
"""In place of a float that is no whole number, and of its remainder."""
MIN_RELATIVE_STEP = 2.0**-40
"""A step between floats is at least 4,096 times this share of the largest difference; finer ones are rounding."""


@dataclass(frozen=True, slots=True)
class OutputNumber:
    """A number that each draw has: one of its columns, or computed from several of them."""

    name: str
    compute: Callable[[OutputSample], Columns]
    is_floating: bool


@dataclass(frozen=True, slots=True)
class Feature:
    """An integer key for each draw; `describe` says that it lies in a span; `axis` maps keys to an axis, if ordered."""

    name: str
    keys: Callable[[OutputSample], Keys]
    describe: Callable[[Span], str]
    axis: Callable[[Keys], Numbers] | None = None

    @property
    def is_ordered(self) -> bool:
        """Whether the keys have an order, and thus half-lines and tails."""
        return self.axis is not None


def build_simple_features(sample: OutputSample, columns: Sequence[int]) -> list[Feature]:
    """Build the features that need no learning, the simplest first, for the columns at these indices."""
    attributes = [(build_attribute_feature(*item), item[1].is_first) for item in enumerate(sample.attributes)]
    features = [feature for feature, is_first in attributes if is_first]
    if sample.columns is not None:
        width = sample.columns.shape[1]
        features += [build_value_feature(build_column_number(sample, index)) for index in columns]
        for index in columns if sample.columns.dtype.kind == "f" else ():
            title = sample.titles[index]
            features += [build_last_digit_feature(index, title), build_digits_feature(index, title)]
        features += [build_row_feature(), build_distinct_feature(sample.shape)] if width > 1 else []
        features += [build_equal_entries_feature()] if 1 < width <= MAX_PATTERN_WIDTH else []
    return features + [feature for feature, is_first in attributes if not is_first]


def build_column_number(sample: OutputSample, index: int) -> OutputNumber:
    """Build the number that is one of the columns."""
    floating = cast("Columns", sample.columns).dtype.kind == "f"
    return OutputNumber(sample.titles[index], lambda outputs: _get_column(outputs, index), floating)


def build_value_feature(number: OutputNumber) -> Feature:
    """Build the feature of the number itself."""

    def describe(span: Span) -> str:
        return f"{number.name} {format_span(span, number.is_floating)}"

    axis = decode_keys if number.is_floating else cast_keys
    return Feature(number.name, lambda sample: compute_ordered_keys(number.compute(sample)), describe, axis)


def build_last_digit_feature(index: int, name: str) -> Feature:
    """Build the position of the last binary digit that is 1: added numbers show in the last digits (Mironov)."""

    def describe(span: Span) -> str:
        low, high = span
        if low is None:
            return f"{name} is anything" if high is None else f"{name} is not a multiple of 2^{high}"
        if high is None or high > NO_DIGIT:
            return f"{name} is a multiple of 2^{low}"
        return f"the last binary digit of {name} is 2^{low}" + (f" to 2^{high - 1}" if high - 1 != low else "")

    title = f"the last binary digit of {name}, as a power of 2"
    return Feature(title, lambda sample: _find_digits(_get_column(sample, index))[1], describe, cast_keys)


def build_digits_feature(index: int, name: str) -> Feature:
    """Build the feature of both the first and the last binary digit."""

    def keys(sample: OutputSample) -> Keys:
        first, last = _find_digits(_get_column(sample, index))
        return cast("Keys", (first << 14) + last + 2 * NO_DIGIT)

    def describe(span: Span) -> str:
        if span[0] is None or span[1] != span[0] + 1:
            return f"the first and last binary digits of {name} are others"
        first, last = span[0] >> 14, (span[0] & (2**14 - 1)) - 2 * NO_DIGIT
        if last == NO_DIGIT:
            return f"{name} is 0 or not finite"
        return f"{name} is from 2^{first} to 2^{first + 1} in size with 2^{last} as its last binary digit"

    return Feature(f"the first and last binary digits of {name}", keys, describe)


def build_attribute_feature(index: int, attribute: OutputAttribute) -> Feature:
    """Build the feature of an attribute: which value a draw is, or how long."""

    def describe(span: Span) -> str:
        if attribute.values is None:
            return f"{attribute.name} {format_span(span, False)}"
        if span[0] is None or span[0] < 0 or span[1] != span[0] + 1 or span[0] >= len(attribute.values):
            return f"{attribute.name} is one of those seldom seen"
        return f"{attribute.name} is {attribute.values[span[0]]}"

    axis = cast_keys if attribute.values is None else None
    return Feature(attribute.name, lambda sample: sample.attributes[index].keys, describe, axis)


def build_row_feature() -> Feature:
    """Build the feature of the whole row, by a hash."""
    text = "the answer is one of certain rows"
    return Feature("the row", lambda sample: _hash_rows(cast("Columns", sample.columns)), lambda _: text)


def build_distinct_feature(shape: tuple[int, ...]) -> Feature:
    """Build the feature of how many different numbers a row has, or different rows a table."""
    what = "numbers" if len(shape) < 2 else "rows"

    def keys(sample: OutputSample) -> Keys:
        columns = cast("Columns", sample.columns)
        entries = columns.reshape(len(columns), shape[0], -1)
        hashes = np.sort(_hash_rows(entries.reshape(len(columns) * shape[0], -1)).reshape(len(columns), -1), axis=1)
        differ: Keys = np.count_nonzero(np.diff(hashes, axis=1), axis=1)
        return differ + 1

    name = f"the number of different {what} in the answer"
    return Feature(name, keys, lambda span: f"{name} {format_span(span, False)}", cast_keys)


def build_equal_entries_feature() -> Feature:
    """Build the feature of which numbers of a row are equal."""

    def keys(sample: OutputSample) -> Keys:
        columns = compute_ordered_keys(cast("Columns", sample.columns))
        patterns = np.zeros(len(columns), dtype=np.int64)
        for index in range(1, columns.shape[1]):
            patterns = patterns * (index + 1) + np.argmax(
                columns[:, : index + 1] == columns[:, index : index + 1], axis=1
            )
        return patterns

    return Feature("which numbers are equal", keys, lambda _: "certain numbers of the answer are equal, and no others")


def format_span(span: Span, is_floating: bool) -> str:
    """Format a span of numbers in words."""
    if span == (None, None):
        return "is anything"
    low, high = (None if key is None else decode_key(key, is_floating) for key in span)
    if span[0] is not None and span[1] == span[0] + 1:
        return f"is {low!r}"
    least, most = ("" if limit is None else format_value(limit) for limit in (low, high))
    if low is None:
        return f"is below {most}"
    return f"is at least {least}" if high is None else f"is from {least} to below {most}"


def _get_column(sample: OutputSample, index: int) -> Columns:
    return cast("Columns", sample.columns)[:, index]


def _find_digits(column: Columns) -> tuple[Keys, Keys]:
    """The positions of the first and the last binary digit that is 1."""
    bits = np.ascontiguousarray(column, dtype=np.float64).view(np.int64)
    exponent, fraction = (bits >> 52) & EXPONENT_MASK, bits & FRACTION_MASK
    significands = np.where(exponent > 0, fraction | (FRACTION_MASK + 1), fraction)
    first = np.maximum(exponent, 1) - 1075
    lowest = ((significands & -significands).astype(np.float64).view(np.int64) >> 52) - 1023
    has_no_digit = (significands == 0) | (exponent == EXPONENT_MASK)
    return np.where(has_no_digit, 0, first + 52), np.where(has_no_digit, NO_DIGIT, first + lowest)


def _hash_rows(columns: Columns) -> Keys:
    """A 64-bit hash of each row."""
    hashes = np.zeros(len(columns), dtype=np.uint64)
    for index in range(columns.shape[1]):
        mixed = (hashes ^ compute_ordered_keys(columns[:, index]).view(np.uint64)) * HASH_MULTIPLIER
        hashes = mixed ^ (mixed >> np.uint64(29))
    return cast("Keys", hashes.view(np.int64))


def build_score_feature(compute: Callable[[Columns], Numbers], name: str) -> Feature:
    """Build the feature of a score that was learned from other draws."""

    def keys(sample: OutputSample) -> Keys:
        return compute_ordered_keys(compute(cast("Columns", sample.columns)))

    return Feature(name, keys, lambda span: f"{name} {format_span(span, True)}", decode_keys)


def cast_keys(keys: Keys) -> Numbers:
    """Return the positions of keys that are the numbers themselves."""
    return keys.astype(np.float64)


def _list_moduli() -> dict[int, list[int]]:
    moduli: dict[int, list[int]] = {}
    for modulus in range(2, MAX_MODULUS + 1):
        size = next((size for size in RESIDUE_TABLES if size % modulus == 0), None)
        if size is not None:
            moduli.setdefault(size, []).append(modulus)
    return {size: moduli.get(size, []) for size in RESIDUE_TABLES}


MODULI = _list_moduli()
"""The moduli that are tried, 120 of them, by the first table that has them; others only as common divisors."""


def build_lattice_features(number: OutputNumber, sample: OutputSample, sample2: OutputSample) -> list[Feature]:
    """Build the remainders of a number that differ between the data sets, or steps that one of them has."""
    raw = number.compute(sample), number.compute(sample2)
    decimals = count_decimals(*raw) if number.is_floating else 0
    if decimals is None:
        steps = {step for column in raw for step in _find_float_steps(column)}
        return [build_phase_feature(number, step) for step in sorted(steps)]
    scaled = number if not number.is_floating else _scale_by_power_of_ten(number, decimals)
    scaled_columns = scaled.compute(sample), scaled.compute(sample2)
    fitting = tuple(column[column != NO_NUMBER] for column in scaled_columns)
    moduli = [*select_telling_moduli(*fitting), *(step for column in fitting for step in find_common_steps(column))]
    return [build_residue_feature(scaled, modulus) for modulus in dict.fromkeys(moduli)]


def build_residue_feature(number: OutputNumber, modulus: int) -> Feature:
    """Build the feature of the remainder of a whole number."""

    def keys(sample: OutputSample) -> Keys:
        column = number.compute(sample)
        return cast("Keys", np.where(column == NO_NUMBER, NO_RESIDUE, column % modulus))

    def describe(span: Span) -> str:
        low, high = max(span[0] or 0, 0), modulus if span[1] is None else min(span[1], modulus)
        if span[0] is None and high <= 0:
            return f"{number.name} is no whole number"
        if high <= low:
            return f"{number.name} modulo {modulus} is one of those seldom seen"
        if modulus == 2 and high == low + 1:
            return f"{number.name} is {('even', 'odd')[low]}"
        if high == low + 1:
            return f"{number.name} modulo {modulus} is {low}" if low else f"{number.name} is a multiple of {modulus}"
        return f"{number.name} modulo {modulus} is from {low} to {high - 1}"

    return Feature(f"{number.name} modulo {modulus}", keys, describe)


def build_phase_feature(number: OutputNumber, step: float) -> Feature:
    """Build the feature of how far a float is from the nearest multiple of a step."""

    def keys(sample: OutputSample) -> Keys:
        column = number.compute(sample)
        with np.errstate(invalid="ignore"):
            return compute_ordered_keys(cast("Columns", column - step * np.rint(column / step)))

    name = f"{number.name} less the nearest multiple of {format_number(step, 9)}"
    return Feature(name, keys, lambda span: f"{name} {format_span(span, True)}", decode_keys)


def select_telling_moduli(values: Columns, values2: Columns) -> list[int]:
    """Return the moduli whose residues differ most between the data sets, the most telling first."""
    differences = compare_residues(values, values2)
    moduli = sorted(differences, key=lambda modulus: -differences[modulus])[:MAX_TELLING_MODULI]
    return [modulus for modulus in moduli if differences[modulus] > NOTABLE_DEVIATIONS]


def compare_residues(values: Columns, values2: Columns, largest: int = MAX_MODULUS) -> dict[int, float]:
    """Return how much residues differ, for each modulus: chi-square less its mean, in standard deviations."""
    thinned_columns = [column[:: max(len(column) // MAX_COMPARED, 1)] for column in (values, values2)]
    shortest = min(map(len, thinned_columns))
    max_modulus, differences = min(largest, shortest // MIN_PER_CLASS), dict[int, float]()
    for size, moduli in MODULI.items():
        if wanted := [modulus for modulus in moduli if modulus <= max_modulus]:
            tables = np.stack([np.bincount(column[:shortest] % size, minlength=size) for column in thinned_columns])
            for modulus in wanted:
                differences[modulus] = _standardize_chi_square(tables.reshape(2, -1, modulus).sum(axis=1))
    return differences


def _standardize_chi_square(counts: Keys) -> float:
    """The chi-square of two rows of counts with one sum."""
    total, gaps = counts[0] + counts[1], counts[0] - counts[1]
    freedom = max(int(np.count_nonzero(total)) - 1, 1)
    chi_square = float(((gaps * gaps) / np.maximum(total, 1)).sum())
    return (chi_square - freedom) / math.sqrt(2 * freedom)


def find_common_steps(column: Keys) -> list[int]:
    """Return the common divisors of differences that occur more often than among random whole numbers.

    Two random multiples of s have s as their greatest common divisor with probability 0.61. So s stands out even if a
    part of the draws is off the lattice, where one greatest common divisor of all differences would be 1.
    """
    first, second = _collect_differences(column)
    divisors, counts = np.unique(np.gcd(first, second), return_counts=True)
    usual = 0.61 * len(first) / divisors.astype(np.float64) ** 2
    surprise = (counts - usual) / np.sqrt(usual + 1)
    order = np.argsort(-surprise, kind="stable")[:MAX_COMMON_STEPS]
    return [
        int(divisors[index])
        for index in order
        if divisors[index] > 1 and counts[index] >= MIN_ALIKE and surprise[index] > 4
    ]


def _find_float_steps(column: Columns) -> list[float]:
    """The same for floats, up to rounding: at most one step."""
    first, second = (np.abs(difference) for difference in _collect_differences(column[np.isfinite(column)]))
    if not len(first):
        return []
    tiny = MIN_RELATIVE_STEP * float(max(first.max(), second.max()))
    divisors = _find_approximate_divisors(first, second, tiny)
    places, inverse, counts = np.unique(np.rint(np.log(divisors) * 1e4), return_inverse=True, return_counts=True)
    often = int(np.argmax(counts)) if len(places) else 0
    if not len(places) or counts[often] < max(MIN_ALIKE, len(first) // 20):
        return []
    step = float(np.median(divisors[inverse == often]))
    if step <= 4096 * tiny:
        return []
    for difference in np.sort(first)[:: max(len(first) // 64, 1)].tolist():  # ever larger multiples give more digits
        times = round(difference / step)
        if times and abs(difference / step - times) < 0.02:
            step = difference / times
    return [step]


def _find_approximate_divisors(first: Numbers, second: Numbers, tiny: float) -> Numbers:
    """Euclid's algorithm with least absolute remainders, which ends when the remainder is rounding."""
    larger, smaller = np.maximum(first, second), np.minimum(first, second)
    for _ in range(64):
        is_active = smaller > tiny
        if not is_active.any():
            break
        divisors = np.where(is_active, smaller, 1.0)
        remainders = np.abs(larger - divisors * np.rint(larger / divisors))
        larger, smaller = np.where(is_active, smaller, larger), np.where(is_active, remainders, smaller)
    return cast("Numbers", larger[larger > tiny])


def _collect_differences(column: Columns) -> tuple[Columns, Columns]:
    """Two differences from each of some thousand groups of four draws that are far apart in their order."""
    quarter = len(column) // 4
    places = np.arange(0, quarter, max(quarter // MAX_QUADRUPLES, 1))
    parts = [column[places + index * quarter] for index in range(4)]
    turns = range(min(-(-MAX_QUADRUPLES // max(quarter, 1)), MAX_TURNS))
    first = np.concatenate([parts[0] - np.roll(parts[2], turn) for turn in turns])
    second = np.concatenate([parts[1] - np.roll(parts[3], 3 * turn) for turn in turns])
    is_nonzero = (first != 0) & (second != 0)
    return first[is_nonzero], second[is_nonzero]


def count_decimals(*columns: Columns) -> int | None:
    """Return with how many decimals most of these floats are whole numbers; None if not with six."""
    finite = np.concatenate([column[np.isfinite(column)][:DECIMALS_CHECKED] for column in columns])
    finite = finite[np.abs(finite) < MAX_WHOLE_FLOAT]
    for decimals in range(MAX_DECIMALS + 1):
        if len(finite) and 2 * np.count_nonzero(_are_whole(finite * 10.0**decimals)) > len(finite):
            return decimals
    return None


def _are_whole(column: NDArray[np.floating]) -> NDArray[np.bool_]:
    near: NDArray[np.bool_] = np.abs(column - np.rint(column)) <= 1e-6
    small: NDArray[np.bool_] = np.abs(column) < MAX_WHOLE_FLOAT
    return near & small


def _scale_by_power_of_ten(number: OutputNumber, decimals: int) -> OutputNumber:
    """A float with some decimals, as a whole number."""

    def compute(sample: OutputSample) -> Columns:
        with np.errstate(invalid="ignore", over="ignore"):
            column = number.compute(sample) * 10.0**decimals
            fits = _are_whole(column)
        return cast("Columns", np.where(fits, np.rint(np.where(fits, column, 0)).astype(np.int64), NO_NUMBER))

    return OutputNumber(f"{10**decimals} times {number.name}" if decimals else number.name, compute, False)
