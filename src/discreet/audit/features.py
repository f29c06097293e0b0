"""What an event may be about: the answer itself, its last binary digit, equal entries, and so on.

A feature turns every draw into one whole number; events are sets of these numbers. It is fixed before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.audit.draws import (
    Columns,
    Keys,
    OutputAttribute,
    OutputSample,
    compute_ordered_keys,
    decode_key,
    decode_keys,
)
from discreet.formatting import format_value

Numbers = NDArray[np.float64]
Span = tuple[int | None, int | None]
"""Keys from the first up to, but without, the second; None where there is no end."""

MAX_PATTERN_WIDTH = 8
EXPONENT_MASK, FRACTION_MASK = 0x7FF, 2**52 - 1
NO_DIGIT = 3000
"""In place of the last binary digit of 0, which is a multiple of everything, and of what is not finite."""
HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class OutputNumber:
    """A number that each draw has: one of its columns, or computed from several of them."""

    name: str
    compute: Callable[[OutputSample], Columns]
    is_floating: bool


@dataclass(frozen=True, slots=True)
class Feature:
    """A whole number for each draw; `tell` says in words that it lies in a span; `axis` says where to draw it."""

    name: str
    keys: Callable[[OutputSample], Keys]
    describe: Callable[[Span], str]
    axis: Callable[[Keys], Numbers] | None = None

    @property
    def is_ordered(self) -> bool:
        """Whether the keys have an order, and so half-lines and tails."""
        return self.axis is not None


def build_simple_features(sample: OutputSample, columns: Sequence[int]) -> list[Feature]:
    """The features that need not be learned, the simplest first; of the columns, those at these places."""
    simple_features = [
        build_attribute_feature(index, attribute)
        for index, attribute in enumerate(sample.attributes)
        if attribute.is_first
    ]
    if sample.columns is not None:
        width, floating = sample.columns.shape[1], sample.columns.dtype.kind == "f"
        named_columns = [(index, sample.titles[index]) for index in columns]
        simple_features += [build_value_feature(build_column_number(sample, index)) for index in columns]
        if floating:
            simple_features += [
                make(index, name)
                for index, name in named_columns
                for make in (build_last_digit_feature, build_digits_feature)
            ]
        if width > 1:
            simple_features += _build_row_features(sample.shape, width)
    return [
        *simple_features,
        *(
            build_attribute_feature(index, attribute)
            for index, attribute in enumerate(sample.attributes)
            if not attribute.is_first
        ),
    ]


def build_column_number(sample: OutputSample, index: int) -> OutputNumber:
    """One of the columns."""
    floating = cast("Columns", sample.columns).dtype.kind == "f"
    return OutputNumber(sample.titles[index], lambda outputs: _get_column(outputs, index), floating)


def _build_row_features(shape: tuple[int, ...], width: int) -> list[Feature]:
    row_features = [build_row_feature(), build_distinct_feature(shape)]
    return [*row_features, build_equal_entries_feature()] if width <= MAX_PATTERN_WIDTH else row_features


def build_value_feature(number: OutputNumber) -> Feature:
    """The number itself."""

    def describe(span: Span) -> str:
        return f"{number.name} {format_span(span, number.is_floating)}"

    axis = decode_keys if number.is_floating else cast_keys
    return Feature(number.name, lambda sample: compute_ordered_keys(number.compute(sample)), describe, axis)


def build_last_digit_feature(index: int, name: str) -> Feature:
    """The place of the lowest binary digit that is 1: what a float was added to shows in its last digits (Mironov)."""

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
    """Both the first and the last binary digit."""

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
    """What is told of a draw besides its numbers: which value it is, or how long."""

    def keys(sample: OutputSample) -> Keys:
        return sample.attributes[index].keys

    def describe(span: Span) -> str:
        if attribute.values is None:
            return f"{attribute.name} {format_span(span, False)}"
        if span[0] is None or span[0] < 0 or span[1] != span[0] + 1 or span[0] >= len(attribute.values):
            return f"{attribute.name} is one of those seldom seen"
        return f"{attribute.name} is {attribute.values[span[0]]}"

    return Feature(attribute.name, keys, describe, cast_keys if attribute.values is None else None)


def build_row_feature() -> Feature:
    """Which row it is, by a hash."""

    def keys(sample: OutputSample) -> Keys:
        return _hash_rows(cast("Columns", sample.columns))

    return Feature("the row", keys, lambda _: "the answer is one of certain rows")


def build_distinct_feature(shape: tuple[int, ...]) -> Feature:
    """How many of the numbers of a row differ, or of the rows of a table."""
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
    """Which numbers of a row are equal."""

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
    """A span of numbers in words."""
    if span == (None, None):
        return "is anything"
    low, high = (None if key is None else decode_key(key, is_floating) for key in span)
    if span[0] is not None and span[1] == span[0] + 1:
        return f"is {low!r}"
    least, most = "" if low is None else _format_limit(low), "" if high is None else _format_limit(high)
    if low is None:
        return f"is below {most}"
    return f"is at least {least}" if high is None else f"is from {least} to below {most}"


def _format_limit(number: float) -> str:
    return format_value(number)


def _get_column(sample: OutputSample, index: int) -> Columns:
    return cast("Columns", sample.columns)[:, index]


def _find_digits(column: Columns) -> tuple[Keys, Keys]:
    """The places of the first and the last binary digit that is 1."""
    bits = np.ascontiguousarray(column, dtype=np.float64).view(np.int64)
    exponent, fraction = (bits >> 52) & EXPONENT_MASK, bits & FRACTION_MASK
    significands = np.where(exponent > 0, fraction | (FRACTION_MASK + 1), fraction)
    first = np.maximum(exponent, 1) - 1075
    lowest = ((significands & -significands).astype(np.float64).view(np.int64) >> 52) - 1023
    has_no_digit = (significands == 0) | (exponent == EXPONENT_MASK)
    return np.where(has_no_digit, 0, first + 52), np.where(has_no_digit, NO_DIGIT, first + lowest)


def _hash_rows(columns: Columns) -> Keys:
    """One number for each row; two different rows share one with probability about 2^-64."""
    hashes = np.zeros(len(columns), dtype=np.uint64)
    for index in range(columns.shape[1]):
        mixed = (hashes ^ compute_ordered_keys(columns[:, index]).view(np.uint64)) * HASH_MULTIPLIER
        hashes = mixed ^ (mixed >> np.uint64(29))
    return cast("Keys", hashes.view(np.int64))


def build_score_feature(compute: Callable[[Columns], Numbers], name: str) -> Feature:
    """A number that was learned from other draws."""

    def keys(sample: OutputSample) -> Keys:
        return compute_ordered_keys(compute(cast("Columns", sample.columns)))

    return Feature(name, keys, lambda span: f"{name} {format_span(span, True)}", decode_keys)


def cast_keys(keys: Keys) -> Numbers:
    """Keys that are the numbers themselves."""
    return keys.astype(np.float64)
