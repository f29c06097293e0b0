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

from discreet.audit.draws import Columns, Draws, Told
from discreet.audit.moments import (
    MONTHS,
    Ticks,
    coarsest,
    coarsest_of,
    column_in_unit,
    has_plain_unit,
    in_unit,
)
from discreet.audit.values import (
    MOST_EXACT,
    NAN,
    Number,
    characters,
    entries_of,
    frozen,
    is_number,
    kind_of,
    nearest,
    number_of,
    plain_value,
)
from discreet.errors import InvalidInput
from discreet.exact import hashable

TRAINING, SHAPE = slice(0, None, 2), slice(0, None, 4)
MOST_ENTRIES = 256
ELSE = -(2**63)
"""In a column of whole numbers: what is none, or has more than 62 binary digits."""
SEEN_ELSEWHERE = -1

Pair = Sequence[list[object]]


def read_pair(one: object, two: object, count: int) -> tuple[Draws, Draws]:
    """The draws with both data sets, read alike.

    An array has one type for all its draws, and one draw can change it: so in arrays a number is its value, whatever
    its type. In lists each draw has a type of its own, which is looked at, and whole numbers of any size are exact.
    """
    pair = [_returned(raw, count) for raw in (one, two)]
    if all(map(_keeps_types, (one, two), pair)):
        pair = list(map(_as_list, pair))
    arrays = [raw for raw in pair if isinstance(raw, np.ndarray)]
    if not arrays:
        lists = cast("Pair", pair)
        plain = _plain(lists)
        return _of_columns(*plain) if plain else _of_lists(list(map(_listed, lists)))
    if len(arrays) == 2 and arrays[0].shape[1:] == arrays[1].shape[1:] and not any(map(_is_masked, arrays)):
        kinds = {raw.dtype.kind for raw in arrays}
        if kinds <= set("biufc") and arrays[0].size:
            return _of_columns(*_by_value([_as_floats(raw) for raw in arrays]))
        if kinds in ({"m"}, {"M"}) and _has_plain_moments(arrays):
            return _of_columns(*_moments(arrays))
    values = [_hashable(list(map(plain_value, _as_list(raw)))) for raw in pair]
    columns = _all_of_numbers(values) or _all_of_moments(values)
    return _of_columns(*columns) if columns else _of_lists(values)


def _returned(raw: object, count: int) -> NDArray[Any] | list[object]:
    """An array as such, all else as a list."""
    if not isinstance(raw, np.ndarray):
        raw = np.asarray(raw) if hasattr(raw, "__array__") else _gathered(raw)
    raw = raw if isinstance(raw, list) else np.atleast_1d(raw)
    if len(raw) != count:
        raise InvalidInput(f"mechanism(D, n) returns n draws; asked for {count:,}, it returned {len(raw):,}")
    return raw


def _keeps_types(given: object, raw: NDArray[Any] | list[object]) -> bool:
    """Whether every draw has its own type, whatever the test draws are: in a list, or by training draws alone.

    pandas and others change draws for the sake of others even among objects: None is NaN beside texts.
    """
    if isinstance(raw, list):
        return True
    if raw.dtype != object or not isinstance(given, np.ndarray) or _is_masked(raw):
        return False
    try:
        return np.array(raw[TRAINING].tolist()).dtype == object
    except ValueError:
        return True


def _is_masked(raw: NDArray[Any]) -> bool:
    return isinstance(raw, np.ma.MaskedArray)


def _as_list(raw: NDArray[Any] | list[object]) -> list[object]:
    """The single draws; moments as numpy has them, since what Python makes of them depends on their unit."""
    if isinstance(raw, np.ndarray) and raw.dtype.kind not in "mMV":
        return cast("list[object]", raw.tolist())
    return list(raw)


def _gathered(raw: object) -> list[object]:
    try:
        return list(cast("Sequence[object]", raw))
    except TypeError:
        raise InvalidInput(
            f"mechanism(D, n) returns n draws, as an array or a list; got {type(raw).__name__}"
        ) from None


def _plain(pair: Pair) -> list[NDArray[Any]]:
    """Lists whose training draws are all floats, or all whole numbers of 62 binary digits, as arrays; else nothing."""
    training = [value for own in pair for value in own[TRAINING]]
    kinds = set(map(type, training))
    if kinds == {float}:
        return [np.array([value if type(value) is float else NAN for value in own]) for own in pair]
    if kinds == {int} and all(map(_whole, training)):
        return [np.array([value if _whole(value) else ELSE for value in own], dtype=np.int64) for own in pair]
    return []


def _as_floats(raw: NDArray[Any]) -> NDArray[Any]:
    return raw.astype(np.complex128 if raw.dtype.kind == "c" else np.float64)


def _all_of_numbers(pair: Pair) -> list[NDArray[Any]]:
    """Arrays, where all training draws are numbers, or tables of them of one shape; what is no such is NaN."""
    shape = _common_shape(pair, _is_plain_number)
    if shape is None:
        return []
    rest = np.full(shape, complex(NAN, NAN))
    fits = [[value if _shape(value, _is_plain_number) == shape else rest for value in own] for own in pair]
    return _by_value([np.array(own, np.complex128) for own in fits])


def _all_of_moments(pair: Pair) -> list[NDArray[Any]]:
    """The same for moments or durations, with NaN between them, in the coarsest unit that holds all training draws."""
    shape = _common_shape(pair, _is_moment)
    if shape is None:
        return []
    known = {entry for own in pair for value in own[TRAINING] for entry in entries_of(value)} - {NAN}
    ticks = cast("set[Ticks]", known)
    kinds = {each.kind for each in ticks}
    if len(kinds) != 1:
        return []
    (kind,) = kinds
    unit = "" if kind == MONTHS else coarsest({each.count for each in ticks})
    rest = np.full(shape, ELSE)

    def told(value: object) -> object:
        if _shape(value, _is_moment) != shape:
            return rest
        return np.array([in_unit(entry, kind, unit, ELSE) for entry in entries_of(value)], np.int64).reshape(shape)

    return [np.array(list(map(told, own)), np.int64) for own in pair]


def _common_shape(pair: Pair, fits: Callable[[object], bool]) -> tuple[int, ...] | None:
    """That of all training draws, where it is one, of such entries, and not empty."""
    shapes = {_shape(value, fits) for own in pair for value in own[TRAINING]}
    shape = shapes.pop() if len(shapes) == 1 else None
    return None if shape is None or 0 in shape else shape


def _shape(value: object, fits: Callable[[object], bool]) -> tuple[int, ...] | None:
    """That of one entry, of a row of them, and so on; None where there is anything that does not fit."""
    if not isinstance(value, tuple):
        return () if fits(value) else None
    shapes = {_shape(entry, fits) for entry in value}
    inner = shapes.pop() if len(shapes) == 1 else None
    return (0,) if not value else None if inner is None else (len(value), *inner)


def _is_plain_number(value: object) -> bool:
    return isinstance(value, int | float | complex)


def _is_moment(value: object) -> bool:
    return isinstance(value, Ticks) or value is NAN


def _by_value(pair: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Complex numbers, floats, or whole numbers up to 2^53: the narrowest that holds all training draws.

    A number that does not fit is one value, ELSE or NaN. -0 is no whole number.
    """
    if any(raw.dtype.kind == "c" for raw in pair):
        pair = [np.where(np.isnan(raw), NAN, raw.astype(np.complex128)) for raw in pair]
        real = [(raw.imag == 0) & ~np.signbit(raw.imag) for raw in pair]
        if not all(bool(own[TRAINING].all()) for own in real):
            return pair
        pair = [np.where(own, raw.real, NAN) for own, raw in zip(real, pair, strict=True)]
    whole = [(np.abs(raw) <= MOST_EXACT) & (raw == np.floor(raw)) & ~((raw == 0) & np.signbit(raw)) for raw in pair]
    if not all(bool(own[TRAINING].all()) for own in whole):
        return pair
    return [np.where(own, np.where(own, raw, 0).astype(np.int64), ELSE) for own, raw in zip(whole, pair, strict=True)]


def _has_plain_moments(pair: list[NDArray[Any]]) -> bool:
    """Whether there are any among the training draws, in units of one length."""
    return all(map(has_plain_unit, pair)) and not all(bool(np.isnat(raw[TRAINING]).all()) for raw in pair)


def _moments(pair: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Moments in the coarsest unit that holds all training draws; what does not fit is ELSE, as no moment is."""
    unit = coarsest_of([raw[TRAINING] for raw in pair])
    return [column_in_unit(raw, unit, ELSE) for raw in pair]


def _of_columns(one: NDArray[Any], two: NDArray[Any]) -> tuple[Draws, Draws]:
    """Draws that are all numbers, or tables of one shape."""
    shape = (*one.shape[1:], 2) if one.dtype.kind == "c" else one.shape[1:]
    columns = [_columns(raw) for raw in (one, two)]
    titles = _titles(columns[0].shape[1])
    first, second = (Draws(len(own), own, titles, shape=shape) for own in columns)
    return first, second


def _columns(raw: NDArray[Any]) -> Columns:
    """A row of 64-bit numbers for each draw; a complex number is two."""
    if raw.dtype.kind == "c":
        raw = np.ascontiguousarray(raw)[..., None].view(np.float64)
    return cast("Columns", raw.reshape(len(raw), -1))


def _titles(width: int) -> tuple[str, ...]:
    return ("the answer",) if width == 1 else tuple(f"number {at + 1} of the answer" for at in range(width))


def _listed(raw: list[object]) -> list[object]:
    return _hashable([frozen(each) for each in raw])


def _hashable(listed: list[object]) -> list[object]:
    if not all(map(hashable, listed)):
        raise InvalidInput("a draw is a number, a row of numbers, or what can be hashed such as a string or a tuple")
    return listed


def _of_lists(pair: Pair) -> tuple[Draws, Draws]:
    """Numbers wherever there are some, and which value, which kind and which length it is."""
    rows = [list(map(entries_of, values)) for values in pair]
    width = min(max(len(row) for own in rows for row in own[TRAINING]), MOST_ENTRIES)
    columns, titles = _numbers([[row[:width] for row in own] for own in rows], width)
    kinds: Pair = [list(map(kind_of, values)) for values in pair]
    told = [
        _coded("the answer", [list(zip(*own, strict=True)) for own in zip(kinds, pair, strict=True)], _second),
        _coded("the kind of the answer", kinds, str),
        *_lengths("the number of entries", [list(map(len, own)) for own in rows], True),
        *_lengths("the number of characters", [list(map(characters, values)) for values in pair]),
        *_ends(pair),
        *(_entry(rows, at) for at in range(width) if width > 1 and not _all_numbers(rows, at)),
    ]
    shape = () if width == 1 else (width,)
    first, second = (
        Draws(len(values), own, titles if own is not None else (), tuple(each[at] for each in told), shape)
        for at, (values, own) in enumerate(zip(pair, columns, strict=True))
    )
    return first, second


def _second(pair: object) -> str:
    return repr(cast("tuple[object, object]", pair)[1])


def _coded(name: str, pair: Sequence[Sequence[object]], words: Callable[[object], str]) -> tuple[Told, Told]:
    """A number for each value, from those draws alone that make the candidates; all other values share one number."""
    known = {value: at for at, value in enumerate(dict.fromkeys(value for own in pair for value in own[SHAPE]))}
    names = tuple(words(value)[:60] for value in known)
    one, two = (np.array([known.get(value, SEEN_ELSEWHERE) for value in own], dtype=np.int64) for own in pair)
    return Told(name, one, names), Told(name, two, names)


def _lengths(name: str, pair: Sequence[list[int]], first: bool = False) -> list[tuple[Told, Told]]:
    """How long the answers are, where that is not the same for all."""
    if len({length for own in pair for length in own[TRAINING]}) == 1:
        return []
    one, two = (Told(name, np.array(own, dtype=np.int64), first=first) for own in pair)
    return [(one, two)]


def _ends(pair: Pair) -> list[tuple[Told, Told]]:
    """The first and the last character of texts."""
    if not any(isinstance(value, str) for own in pair for value in own[TRAINING]):
        return []
    ends = {"first": slice(0, 1), "last": slice(-1, None)}
    return [
        _coded(
            f"the {name} character",
            [[value[end] if isinstance(value, str) else "" for value in own] for own in pair],
            repr,
        )
        for name, end in ends.items()
    ]


def _entry(rows: Sequence[list[list[object]]], at: int) -> tuple[Told, Told]:
    """Which value one entry of a row has."""
    own = [[row[at] if at < len(row) else None for row in each] for each in rows]
    return _coded(f"entry {at + 1} of the answer", own, repr)


def _all_numbers(rows: Sequence[list[list[object]]], at: int) -> bool:
    return all(at >= len(row) or is_number(row[at]) for own in rows for row in own[TRAINING])


def _numbers(rows: Sequence[list[list[object]]], width: int) -> tuple[Sequence[Columns | None], tuple[str, ...]]:
    """The numbers of both data sets, a column for each entry: whole ones where all are, else floats."""
    found = [[[number_of(entry) for entry in row] + [None] * (width - len(row)) for row in own] for own in rows]
    training = [row for own in found for row in own[TRAINING]]
    if all(number is None for row in training for number in row):
        return [None, None], ()
    if all(_whole(number) for row in training for number in row):
        return [np.array([_whole_row(row) for row in own], dtype=np.int64) for own in found], _titles(width)
    origins = [_origin([row[at] for row in training]) for at in range(width)]
    columns = [np.array([_float_row(row, origins) for row in own], dtype=np.float64) for own in found]
    return columns, tuple(map(_with_origin, _titles(width), origins))


def _whole(number: object) -> bool:
    return type(number) is int and abs(number) < 2**62


def _whole_row(row: list[Number | None]) -> list[int]:
    return [cast("int", number) if _whole(number) else ELSE for number in row]


def _float_row(row: list[Number | None], origins: list[float]) -> list[float]:
    return [NAN if number is None else nearest(number, origin) for number, origin in zip(row, origins, strict=True)]


def _origin(column: list[Number | None]) -> float:
    """Numbers that no float holds are told by how far they are from the middle: 2^70 and 2^70 + 1 are one float."""
    exact = [number for number in column if isinstance(number, int | Fraction)]
    return nearest(median_low(exact)) if any(number != nearest(number) for number in exact) else 0.0


def _with_origin(title: str, origin: float) -> str:
    return f"{title} less {origin!r}" if origin else title
