"""What a mechanism returned, as draws: columns of numbers where there are numbers, and values that recur by themselves.

How draws are read follows from the training draws alone, which are every second one. What does not fit among the
others is read as one value that stands for all else: the event must be fixed before a test draw is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from statistics import median_low
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.numeric import is_hashable
from discreet.verification.audit.output_values import (
    MAX_EXACT_INTEGER,
    MONTHS,
    NAN,
    Columns,
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
"""In a column of whole numbers: what is none, or has more than 62 binary digits."""
UNKNOWN_CODE = -1

ListPair = Sequence[list[object]]


def read_output_pair(outputs: object, outputs2: object, count: int) -> tuple[OutputSample, OutputSample]:
    """The draws with both data sets, read alike.

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
        return _build_from_columns(*plain) if plain else _build_from_lists(list(map(_freeze_values, lists)))
    if len(arrays) == 2 and arrays[0].shape[1:] == arrays[1].shape[1:] and not any(map(_is_masked, arrays)):
        kinds = {raw.dtype.kind for raw in arrays}
        if kinds <= set("biufc") and arrays[0].size:
            return _build_from_columns(*_narrow_arrays([_convert_to_floats(raw) for raw in arrays]))
        if kinds in ({"m"}, {"M"}) and _has_plain_moments(arrays):
            return _build_from_columns(*_convert_moments(arrays))
    values = [_require_hashable(list(map(normalize_value, _convert_to_list(raw)))) for raw in pair]
    columns = _read_number_arrays(values) or _read_moment_arrays(values)
    return _build_from_columns(*columns) if columns else _build_from_lists(values)


def _check_outputs(raw: object, count: int) -> NDArray[Any] | list[object]:
    """An array as such, all else as a list."""
    if not isinstance(raw, np.ndarray):
        raw = np.asarray(raw) if hasattr(raw, "__array__") else _collect_list(raw)
    raw = raw if isinstance(raw, list) else np.atleast_1d(raw)
    if len(raw) != count:
        raise InvalidInput(f"mechanism(D, n) returns n draws; asked for {count:,}, it returned {len(raw):,}")
    return raw


def _keeps_types(outputs: object, raw: NDArray[Any] | list[object]) -> bool:
    """Whether every draw has its own type, whatever the test draws are: in a list, or by training draws alone.

    pandas and others change draws for the sake of others even among objects: None is NaN beside texts.
    """
    if isinstance(raw, list):
        return True
    if raw.dtype != object or not isinstance(outputs, np.ndarray) or _is_masked(raw):
        return False
    try:
        return np.array(raw[TRAINING].tolist()).dtype == object
    except ValueError:
        return True


def _is_masked(raw: NDArray[Any]) -> bool:
    return isinstance(raw, np.ma.MaskedArray)


def _convert_to_list(raw: NDArray[Any] | list[object]) -> list[object]:
    """The single draws; moments as numpy has them, since what Python makes of them depends on their unit."""
    if isinstance(raw, np.ndarray) and raw.dtype.kind not in "mMV":
        return cast("list[object]", raw.tolist())
    return list(raw)


def _collect_list(raw: object) -> list[object]:
    try:
        return list(cast("Sequence[object]", raw))
    except TypeError:
        raise InvalidInput(
            f"mechanism(D, n) returns n draws, as an array or a list; got {type(raw).__name__}"
        ) from None


def _read_plain_lists(pair: ListPair) -> list[NDArray[Any]]:
    """Lists whose training draws are all floats, or all whole numbers of 62 binary digits, as arrays; else nothing."""
    training = [value for outputs in pair for value in outputs[TRAINING]]
    kinds = set(map(type, training))
    if kinds == {float}:
        return [np.array([value if type(value) is float else NAN for value in outputs]) for outputs in pair]
    if kinds == {int} and all(map(_is_whole, training)):
        return [
            np.array([value if _is_whole(value) else OTHER_VALUE for value in outputs], dtype=np.int64)
            for outputs in pair
        ]
    return []


def _convert_to_floats(raw: NDArray[Any]) -> NDArray[Any]:
    return raw.astype(np.complex128 if raw.dtype.kind == "c" else np.float64)


def _read_number_arrays(pair: ListPair) -> list[NDArray[Any]]:
    """Arrays, where all training draws are numbers, or tables of them of one shape; what is no such is NaN."""
    shape = _find_common_shape(pair, _is_plain_number)
    if shape is None:
        return []
    fallback = np.full(shape, complex(NAN, NAN))
    fits = [
        [value if _find_shape(value, _is_plain_number) == shape else fallback for value in outputs] for outputs in pair
    ]
    return _narrow_arrays([np.array(outputs, np.complex128) for outputs in fits])


def _read_moment_arrays(pair: ListPair) -> list[NDArray[Any]]:
    """The same for moments or durations, with NaN between them, in the coarsest unit that holds all training draws."""
    shape = _find_common_shape(pair, _is_moment)
    if shape is None:
        return []
    known = {entry for outputs in pair for value in outputs[TRAINING] for entry in flatten_entries(value)} - {NAN}
    ticks = cast("set[Ticks]", known)
    kinds = {tick.kind for tick in ticks}
    if len(kinds) != 1:
        return []
    (kind,) = kinds
    unit = "" if kind == MONTHS else find_coarsest_unit({tick.count for tick in ticks})
    fallback = np.full(shape, OTHER_VALUE)

    def convert(value: object) -> object:
        if _find_shape(value, _is_moment) != shape:
            return fallback
        return np.array(
            [convert_to_unit(entry, kind, unit, OTHER_VALUE) for entry in flatten_entries(value)], np.int64
        ).reshape(shape)

    return [np.array(list(map(convert, outputs)), np.int64) for outputs in pair]


def _find_common_shape(pair: ListPair, fits: Callable[[object], bool]) -> tuple[int, ...] | None:
    """That of all training draws, where it is one, of such entries, and not empty."""
    shapes = {_find_shape(value, fits) for outputs in pair for value in outputs[TRAINING]}
    shape = shapes.pop() if len(shapes) == 1 else None
    return None if shape is None or 0 in shape else shape


def _find_shape(value: object, fits: Callable[[object], bool]) -> tuple[int, ...] | None:
    """That of one entry, of a row of them, and so on; None where there is anything that does not fit."""
    if not isinstance(value, tuple):
        return () if fits(value) else None
    shapes = {_find_shape(entry, fits) for entry in value}
    inner = shapes.pop() if len(shapes) == 1 else None
    return (0,) if not value else None if inner is None else (len(value), *inner)


def _is_plain_number(value: object) -> bool:
    return isinstance(value, int | float | complex)


def _is_moment(value: object) -> bool:
    return isinstance(value, Ticks) or value is NAN


def _narrow_arrays(pair: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Complex numbers, floats, or whole numbers up to 2^53: the narrowest that holds all training draws.

    A number that does not fit is one value, ELSE or NaN. -0 is no whole number.
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
    return [
        np.where(mask, np.where(mask, raw, 0).astype(np.int64), OTHER_VALUE)
        for mask, raw in zip(is_integer, pair, strict=True)
    ]


def _has_plain_moments(pair: list[NDArray[Any]]) -> bool:
    """Whether there are any among the training draws, in units of one length."""
    return all(map(has_plain_unit, pair)) and not all(bool(np.isnat(raw[TRAINING]).all()) for raw in pair)


def _convert_moments(pair: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Moments in the coarsest unit that holds all training draws; what does not fit is ELSE, as no moment is."""
    unit = find_common_unit([raw[TRAINING] for raw in pair])
    return [convert_column(raw, unit, OTHER_VALUE) for raw in pair]


def _build_from_columns(array: NDArray[Any], array2: NDArray[Any]) -> tuple[OutputSample, OutputSample]:
    """Draws that are all numbers, or tables of one shape."""
    shape = (*array.shape[1:], 2) if array.dtype.kind == "c" else array.shape[1:]
    columns = [_convert_to_columns(raw) for raw in (array, array2)]
    titles = _list_titles(columns[0].shape[1])
    first, second = (OutputSample(len(table), table, titles, shape=shape) for table in columns)
    return first, second


def _convert_to_columns(raw: NDArray[Any]) -> Columns:
    """A row of 64-bit numbers for each draw; a complex number is two."""
    if raw.dtype.kind == "c":
        raw = np.ascontiguousarray(raw)[..., None].view(np.float64)
    return cast("Columns", raw.reshape(len(raw), -1))


def _list_titles(width: int) -> tuple[str, ...]:
    return ("the answer",) if width == 1 else tuple(f"number {index + 1} of the answer" for index in range(width))


def _freeze_values(raw: list[object]) -> list[object]:
    return _require_hashable([freeze_value(value) for value in raw])


def _require_hashable(values: list[object]) -> list[object]:
    if not all(map(is_hashable, values)):
        raise InvalidInput("a draw is a number, a row of numbers, or what can be hashed such as a string or a tuple")
    return values


def _build_from_lists(pair: ListPair) -> tuple[OutputSample, OutputSample]:
    """Numbers wherever there are some, and which value, which kind and which length it is."""
    rows = [list(map(flatten_entries, values)) for values in pair]
    width = min(max(len(row) for outputs in rows for row in outputs[TRAINING]), MAX_ENTRIES)
    columns, titles = _read_numbers([[row[:width] for row in outputs] for outputs in rows], width)
    kinds: ListPair = [list(map(describe_kind, values)) for values in pair]
    attribute_pairs = [
        _build_code_attributes(
            "the answer",
            [list(zip(*outputs, strict=True)) for outputs in zip(kinds, pair, strict=True)],
            _format_second,
        ),
        _build_code_attributes("the kind of the answer", kinds, str),
        *_build_length_attributes("the number of entries", [list(map(len, outputs)) for outputs in rows], True),
        *_build_length_attributes("the number of characters", [list(map(count_characters, values)) for values in pair]),
        *_build_end_attributes(pair),
        *(
            _build_entry_attributes(rows, index)
            for index in range(width)
            if width > 1 and not _are_all_numbers(rows, index)
        ),
    ]
    shape = () if width == 1 else (width,)
    first, second = (
        OutputSample(
            len(values),
            outputs,
            titles if outputs is not None else (),
            tuple(attribute_pair[index] for attribute_pair in attribute_pairs),
            shape,
        )
        for index, (values, outputs) in enumerate(zip(pair, columns, strict=True))
    )
    return first, second


def _format_second(pair: object) -> str:
    return repr(cast("tuple[object, object]", pair)[1])


def _build_code_attributes(
    name: str, pair: Sequence[Sequence[object]], describe: Callable[[object], str]
) -> tuple[OutputAttribute, OutputAttribute]:
    """A number for each value, from those draws alone that make the candidates; all other values share one number."""
    known = {
        value: code for code, value in enumerate(dict.fromkeys(value for outputs in pair for value in outputs[SHAPE]))
    }
    names = tuple(describe(value)[:60] for value in known)
    codes, codes2 = (
        np.array([known.get(value, UNKNOWN_CODE) for value in outputs], dtype=np.int64) for outputs in pair
    )
    return OutputAttribute(name, codes, names), OutputAttribute(name, codes2, names)


def _build_length_attributes(
    name: str, pair: Sequence[list[int]], is_first: bool = False
) -> list[tuple[OutputAttribute, OutputAttribute]]:
    """How long the answers are, where that is not the same for all."""
    if len({length for lengths in pair for length in lengths[TRAINING]}) == 1:
        return []
    attribute, attribute2 = (
        OutputAttribute(name, np.array(lengths, dtype=np.int64), is_first=is_first) for lengths in pair
    )
    return [(attribute, attribute2)]


def _build_end_attributes(pair: ListPair) -> list[tuple[OutputAttribute, OutputAttribute]]:
    """The first and the last character of texts."""
    if not any(isinstance(value, str) for outputs in pair for value in outputs[TRAINING]):
        return []
    ends = {"first": slice(0, 1), "last": slice(-1, None)}
    return [
        _build_code_attributes(
            f"the {name} character",
            [[value[end] if isinstance(value, str) else "" for value in outputs] for outputs in pair],
            repr,
        )
        for name, end in ends.items()
    ]


def _build_entry_attributes(rows: Sequence[list[list[object]]], index: int) -> tuple[OutputAttribute, OutputAttribute]:
    """Which value one entry of a row has."""
    entries = [[row[index] if index < len(row) else None for row in outputs] for outputs in rows]
    return _build_code_attributes(f"entry {index + 1} of the answer", entries, repr)


def _are_all_numbers(rows: Sequence[list[list[object]]], index: int) -> bool:
    return all(index >= len(row) or is_number(row[index]) for outputs in rows for row in outputs[TRAINING])


def _read_numbers(rows: Sequence[list[list[object]]], width: int) -> tuple[Sequence[Columns | None], tuple[str, ...]]:
    """The numbers of both data sets, a column for each entry: whole ones where all are, else floats."""
    numbers = [
        [[convert_to_number(entry) for entry in row] + [None] * (width - len(row)) for row in outputs]
        for outputs in rows
    ]
    training = [row for outputs in numbers for row in outputs[TRAINING]]
    if all(number is None for row in training for number in row):
        return [None, None], ()
    if all(_is_whole(number) for row in training for number in row):
        return [
            np.array([_convert_whole_row(row) for row in outputs], dtype=np.int64) for outputs in numbers
        ], _list_titles(width)
    origins = [_find_origin([row[index] for row in training]) for index in range(width)]
    columns = [np.array([_convert_float_row(row, origins) for row in outputs], dtype=np.float64) for outputs in numbers]
    return columns, tuple(map(_add_origin, _list_titles(width), origins))


def _is_whole(number: object) -> bool:
    return type(number) is int and abs(number) < 2**62


def _convert_whole_row(row: list[RealNumber | None]) -> list[int]:
    return [cast("int", number) if _is_whole(number) else OTHER_VALUE for number in row]


def _convert_float_row(row: list[RealNumber | None], origins: list[float]) -> list[float]:
    return [
        NAN if number is None else convert_to_float(number, origin) for number, origin in zip(row, origins, strict=True)
    ]


def _find_origin(column: list[RealNumber | None]) -> float:
    """Numbers that no float holds are told by how far they are from the middle: 2^70 and 2^70 + 1 are one float."""
    exact = [number for number in column if isinstance(number, int | Fraction)]
    return convert_to_float(median_low(exact)) if any(number != convert_to_float(number) for number in exact) else 0.0


def _add_origin(title: str, origin: float) -> str:
    return f"{title} less {origin!r}" if origin else title
