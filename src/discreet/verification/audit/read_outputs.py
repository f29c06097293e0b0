"""Read what a mechanism returned as samples: columns of numbers, and attributes for values that are no numbers.

How draws are read follows from the training draws alone, which are every second one. A test draw that does not fit is
read as one fixed value, since the event must be fixed before a test draw is seen. Proof: confidence_bound.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from statistics import median_low
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.numeric import is_hashable
from discreet.verification.audit.output_values import (
    MAX_EXACT_INTEGER,
    MONTHS,
    NAN,
    Columns,
    Draws,
    OutputAttribute,
    OutputSample,
    RealNumber,
    Ticks,
    convert_column,
    convert_to_float,
    convert_to_number,
    convert_to_unit,
    count_characters,
    describe_kind,
    find_coarsest_unit,
    find_common_unit,
    flatten_entries,
    freeze_value,
    has_plain_unit,
    is_number,
    normalize_value,
)

TRAINING, SHAPE = slice(0, None, 2), slice(0, None, 4)
MAX_ENTRIES = 256
OTHER_VALUE = -(2**63)
"""In a column of whole numbers: whatever is none, or has more than 62 binary digits."""
UNKNOWN_CODE = -1

ListPair = Sequence[list[object]]
Value = TypeVar("Value")


def read_output_pair(outputs: object, outputs2: object, count: int) -> tuple[OutputSample, OutputSample]:
    """Read the draws with both data sets in the same way.

    An array has one type for all its draws, and one draw can change it: so in arrays a number is its value, whatever
    its type. In lists each draw has a type of its own, which is looked at, and whole numbers of any size are exact.
    """
    pair = [_check_outputs(raw, count) for raw in (outputs, outputs2)]
    if all(map(_keeps_types, (outputs, outputs2), pair)):
        pair = list(map(_convert_to_list, pair))
    arrays = [raw for raw in pair if isinstance(raw, np.ndarray)]
    if not arrays:
        lists = cast("ListPair", pair)
        plain = _read_plain_lists(lists)
        if plain:
            return _build_from_columns(*plain)
        return _build_from_lists([_require_hashable(list(map(freeze_value, outputs))) for outputs in lists])
    if len(arrays) == 2 and arrays[0].shape[1:] == arrays[1].shape[1:] and not any(map(_is_masked, arrays)):
        kinds = {raw.dtype.kind for raw in arrays}
        if kinds <= set("biufc") and arrays[0].size:
            floats = [raw.astype(np.complex128 if raw.dtype.kind == "c" else np.float64) for raw in arrays]
            return _build_from_columns(*_narrow_arrays(floats))
        has_moments = not all(bool(np.isnat(raw[TRAINING]).all()) for raw in arrays) if kinds <= set("mM") else False
        if len(kinds) == 1 and has_moments and all(map(has_plain_unit, arrays)):
            unit = find_common_unit([raw[TRAINING] for raw in arrays])
            return _build_from_columns(*(convert_column(raw, unit, OTHER_VALUE) for raw in arrays))
    values = [_require_hashable(list(map(normalize_value, _convert_to_list(raw)))) for raw in pair]
    columns = _read_number_arrays(values) or _read_moment_arrays(values)
    return _build_from_columns(*columns) if columns else _build_from_lists(values)


def _check_outputs(raw: object, count: int) -> Draws | list[object]:
    """The draws as an array if they are one, else as a list."""
    draws: Draws | list[object]
    if isinstance(raw, np.ndarray) or hasattr(raw, "__array__"):
        draws = np.atleast_1d(raw if isinstance(raw, np.ndarray) else np.asarray(raw))
    else:
        try:
            draws = list(cast("Sequence[object]", raw))
        except TypeError:
            raise InvalidInput(
                f"mechanism(D, n) returns n draws, as an array or a list; got {type(raw).__name__}"
            ) from None
    if len(draws) != count:
        raise InvalidInput(f"mechanism(D, n) returns n draws; asked for {count:,}, it returned {len(draws):,}")
    return draws


def _keeps_types(outputs: object, raw: Draws | list[object]) -> bool:
    """Whether every draw has its own type, whatever the test draws are: in a list, or by training draws alone.

    pandas and others change draws because of other draws even among objects: None is NaN beside texts.
    """
    if isinstance(raw, list):
        return True
    if raw.dtype != object or not isinstance(outputs, np.ndarray) or _is_masked(raw):
        return False
    try:
        return np.array(raw[TRAINING].tolist()).dtype == object
    except ValueError:
        return True


def _is_masked(raw: Draws) -> bool:
    return isinstance(raw, np.ma.MaskedArray)


def _convert_to_list(raw: Draws | list[object]) -> list[object]:
    """The single draws; moments as numpy's, since their Python types depend on the unit."""
    if isinstance(raw, np.ndarray) and raw.dtype.kind not in "mMV":
        return cast("list[object]", raw.tolist())
    return list(raw)


def _read_plain_lists(pair: ListPair) -> list[Draws]:
    """Lists whose training draws are all floats, or all whole numbers of 62 binary digits, as arrays; else empty."""
    training = [value for outputs in pair for value in outputs[TRAINING]]
    kinds = set(map(type, training))
    if kinds == {float}:
        return [np.array([value if type(value) is float else NAN for value in outputs]) for outputs in pair]
    if kinds == {int} and all(map(_is_whole, training)):
        whole = [[value if _is_whole(value) else OTHER_VALUE for value in outputs] for outputs in pair]
        return [np.array(values, dtype=np.int64) for values in whole]
    return []


def _read_number_arrays(pair: ListPair) -> Sequence[Draws]:
    """Arrays, if all training draws are numbers, or tables of them of one shape; a draw that is no such is NaN."""
    shape = _find_common_shape(pair, _is_plain_number)
    if shape is None:
        return []
    fallback = np.full(shape, complex(NAN, NAN))

    def convert(value: object) -> object:
        return value if _find_shape(value, _is_plain_number) == shape else fallback

    return _narrow_arrays([np.array(list(map(convert, outputs)), np.complex128) for outputs in pair])


def _read_moment_arrays(pair: ListPair) -> Sequence[Draws]:
    """The same for moments or durations, also with NaN, in the coarsest unit that holds all training draws."""
    shape = _find_common_shape(pair, _is_moment)
    if shape is None:
        return []
    entries = {entry for outputs in pair for value in outputs[TRAINING] for entry in flatten_entries(value)}
    ticks = cast("set[Ticks]", entries - {NAN})
    kinds = {tick.kind for tick in ticks}
    if len(kinds) != 1:
        return []
    (kind,) = kinds
    unit = "" if kind == MONTHS else find_coarsest_unit({tick.count for tick in ticks})
    fallback = np.full(shape, OTHER_VALUE)

    def convert(value: object) -> object:
        if _find_shape(value, _is_moment) != shape:
            return fallback
        counts = [convert_to_unit(entry, kind, unit, OTHER_VALUE) for entry in flatten_entries(value)]
        return np.array(counts, np.int64).reshape(shape)

    return [np.array(list(map(convert, outputs)), np.int64) for outputs in pair]


def _find_common_shape(pair: ListPair, fits: Callable[[object], bool]) -> tuple[int, ...] | None:
    """The shape of all training draws, if they have one, with only such entries, and are not empty."""
    shapes = {_find_shape(value, fits) for outputs in pair for value in outputs[TRAINING]}
    shape = shapes.pop() if len(shapes) == 1 else None
    return None if shape is None or 0 in shape else shape


def _find_shape(value: object, fits: Callable[[object], bool]) -> tuple[int, ...] | None:
    """The shape of one entry, of a row of them, and so on; None if any entry does not fit."""
    if not isinstance(value, tuple):
        return () if fits(value) else None
    shapes = {_find_shape(entry, fits) for entry in value}
    inner = shapes.pop() if len(shapes) == 1 else None
    return (0,) if not value else None if inner is None else (len(value), *inner)


def _is_plain_number(value: object) -> bool:
    return isinstance(value, int | float | complex)


def _is_moment(value: object) -> bool:
    return isinstance(value, Ticks) or value is NAN


def _narrow_arrays(pair: Sequence[NDArray[np.inexact]]) -> Sequence[Draws]:
    """Complex numbers, floats, or whole numbers up to 2^53: the narrowest type that holds all training draws.

    A number that does not fit becomes OTHER_VALUE or NaN. -0 is no whole number.
    """
    if any(raw.dtype.kind == "c" for raw in pair):
        pair = [np.where(np.isnan(raw), NAN, raw.astype(np.complex128)) for raw in pair]
        real = [(raw.imag == 0) & ~np.signbit(raw.imag) for raw in pair]
        if not all(bool(mask[TRAINING].all()) for mask in real):
            return pair
        pair = [np.where(mask, raw.real, NAN) for mask, raw in zip(real, pair, strict=True)]
    is_integer = [
        (np.abs(raw) <= MAX_EXACT_INTEGER) & (raw == np.floor(raw)) & ~((raw == 0) & np.signbit(raw)) for raw in pair
    ]
    if not all(bool(mask[TRAINING].all()) for mask in is_integer):
        return pair
    integers = (np.where(mask, raw, 0).astype(np.int64) for mask, raw in zip(is_integer, pair, strict=True))
    return [np.where(mask, values, OTHER_VALUE) for mask, values in zip(is_integer, integers, strict=True)]


def _build_from_columns(array: Draws, array2: Draws) -> tuple[OutputSample, OutputSample]:
    """Samples of draws that are all numbers, or tables of one shape; a complex number is two 64-bit numbers."""
    pair = [array, array2]
    if array.dtype.kind == "c":
        pair = [np.ascontiguousarray(raw)[..., None].view(np.float64) for raw in pair]
    columns = [cast("Columns", raw.reshape(len(raw), -1)) for raw in pair]
    titles, shape = _list_titles(columns[0].shape[1]), pair[0].shape[1:]
    first, second = (OutputSample(len(table), table, titles, shape=shape) for table in columns)
    return first, second


def _list_titles(width: int) -> tuple[str, ...]:
    return ("the answer",) if width == 1 else tuple(f"number {index + 1} of the answer" for index in range(width))


def _require_hashable(values: list[object]) -> list[object]:
    if not all(map(is_hashable, values)):
        raise InvalidInput("a draw is a number, a row of numbers, or what can be hashed such as a string or a tuple")
    return values


def _build_from_lists(pair: ListPair) -> tuple[OutputSample, OutputSample]:
    """Samples with columns for all numbers, and as attributes the value, the kind, the lengths and single entries."""
    rows = [list(map(flatten_entries, values)) for values in pair]
    width = min(max(len(row) for outputs in rows for row in outputs[TRAINING]), MAX_ENTRIES)
    columns, titles = _read_numbers([[row[:width] for row in outputs] for outputs in rows], width)
    kinds: ListPair = [list(map(describe_kind, values)) for values in pair]
    typed_values = [list(zip(*outputs, strict=True)) for outputs in zip(kinds, pair, strict=True)]
    lengths = [list(map(len, outputs)) for outputs in rows]
    attribute_pairs = [
        _build_code_attributes("the answer", typed_values, lambda typed_value: repr(typed_value[1])),
        _build_code_attributes("the kind of the answer", kinds, str),
        *_build_length_attributes("the number of entries", lengths, True),
        *_build_length_attributes("the number of characters", [list(map(count_characters, values)) for values in pair]),
        *_build_end_attributes(pair),
    ]
    for index in range(width) if width > 1 else ():
        present = (row[index] for outputs in rows for row in outputs[TRAINING] if index < len(row))
        if not all(map(is_number, present)):
            entries = [[row[index] if index < len(row) else None for row in outputs] for outputs in rows]
            attribute_pairs.append(_build_code_attributes(f"entry {index + 1} of the answer", entries, repr))
    shape = () if width == 1 else (width,)
    first, second = (
        OutputSample(len(values), table, titles, attributes, shape)
        for values, table, attributes in zip(pair, columns, zip(*attribute_pairs, strict=True), strict=True)
    )
    return first, second


def _build_code_attributes(
    name: str, pair: Sequence[Sequence[Value]], describe: Callable[[Value], str]
) -> tuple[OutputAttribute, OutputAttribute]:
    """A code for each value among the shape draws, which make the candidates; all other values share one code."""
    shape_values = dict.fromkeys(value for outputs in pair for value in outputs[SHAPE])
    code_of = {value: code for code, value in enumerate(shape_values)}
    names = tuple(describe(value)[:60] for value in shape_values)
    codes, codes2 = (np.array([code_of.get(value, UNKNOWN_CODE) for value in outputs], np.int64) for outputs in pair)
    return OutputAttribute(name, codes, names), OutputAttribute(name, codes2, names)


def _build_length_attributes(
    name: str, pair: Sequence[list[int]], is_first: bool = False
) -> list[tuple[OutputAttribute, OutputAttribute]]:
    """The lengths of the answers, if they differ."""
    if len({length for lengths in pair for length in lengths[TRAINING]}) == 1:
        return []
    keys, keys2 = (np.array(lengths, dtype=np.int64) for lengths in pair)
    return [(OutputAttribute(name, keys, is_first=is_first), OutputAttribute(name, keys2, is_first=is_first))]


def _build_end_attributes(pair: ListPair) -> list[tuple[OutputAttribute, OutputAttribute]]:
    """The first and the last character of texts."""
    if not any(isinstance(value, str) for outputs in pair for value in outputs[TRAINING]):
        return []
    attributes = []
    for name, end in (("first", slice(0, 1)), ("last", slice(-1, None))):
        characters = [[value[end] if isinstance(value, str) else "" for value in outputs] for outputs in pair]
        attributes.append(_build_code_attributes(f"the {name} character", characters, repr))
    return attributes


def _read_numbers(rows: Sequence[list[list[object]]], width: int) -> tuple[Sequence[Columns | None], tuple[str, ...]]:
    """The numbers of both data sets, a column for each entry: whole numbers if all are, else floats.

    Numbers that no float holds are read as the distance from the middle one: 2^70 and 2^70 + 1 are one float.
    """
    numbers = [
        [[convert_to_number(entry) for entry in row] + [None] * (width - len(row)) for row in outputs]
        for outputs in rows
    ]
    training = [row for outputs in numbers for row in outputs[TRAINING]]
    if all(number is None for row in training for number in row):
        return [None, None], ()
    titles = _list_titles(width)
    if all(_is_whole(number) for row in training for number in row):
        whole = [[[n if _is_whole(n) else OTHER_VALUE for n in row] for row in outputs] for outputs in numbers]
        return [np.array(table, dtype=np.int64) for table in whole], titles
    origins = [_find_origin([row[index] for row in training]) for index in range(width)]

    def convert(row: list[RealNumber | None]) -> list[float]:
        entries = zip(row, origins, strict=True)
        return [NAN if number is None else convert_to_float(number, origin) for number, origin in entries]

    columns = [np.array(list(map(convert, outputs)), dtype=np.float64) for outputs in numbers]
    return columns, tuple(
        f"{title} less {origin!r}" if origin else title for title, origin in zip(titles, origins, strict=True)
    )


def _is_whole(number: object) -> bool:
    return type(number) is int and abs(number) < 2**62


def _find_origin(column: list[RealNumber | None]) -> float:
    exact = [number for number in column if isinstance(number, int | Fraction)]
    return convert_to_float(median_low(exact)) if any(number != convert_to_float(number) for number in exact) else 0.0
