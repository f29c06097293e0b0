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
from discreet.audit.values import NAN, Number, characters, entries_of, frozen, is_number, kind_of, nearest, number_of
from discreet.errors import InvalidInput
from discreet.exact import hashable

TRAINING, SHAPE = slice(0, None, 2), slice(0, None, 4)
MOST_ENTRIES = 256
ELSE = -(2**63)
"""In a column of whole numbers: what is none, or has more than 62 binary digits."""
SEEN_ELSEWHERE = -1
KINDS = {"b": "truth values", "i": "whole numbers", "u": "whole numbers without a sign", "f": "floats"}

Pair = Sequence[list[object]]


def read_pair(one: object, two: object, count: int) -> tuple[Draws, Draws]:
    """The draws with both data sets, read alike."""
    pair = [_array(raw, count) for raw in (one, two)]
    arrays = [raw for raw in pair if isinstance(raw, np.ndarray)]
    if len(arrays) == 2 and all(raw.dtype.kind == "u" for raw in arrays):
        arrays = _without_sign(arrays)
    if len(arrays) == 2:
        return _of_arrays(*arrays)
    lists = [raw.tolist() if isinstance(raw, np.ndarray) else raw for raw in pair]
    plain = _plain(lists)
    return _of_arrays(*plain) if plain else _of_lists(list(map(_listed, lists)))


def _array(raw: object, count: int) -> NDArray[Any] | list[object]:
    """An array of numbers as such, all else as a list."""
    if not isinstance(raw, np.ndarray):
        raw = np.asarray(raw) if hasattr(raw, "__array__") else _gathered(raw)
    returned = len(raw if isinstance(raw, list) else np.atleast_1d(raw))
    if returned != count:
        raise InvalidInput(f"mechanism(D, n) returns n draws; asked for {count:,}, it returned {returned:,}")
    if isinstance(raw, list):
        return raw
    plain = raw.dtype.kind in "biufcmM" and raw.size and not isinstance(raw, np.ma.MaskedArray)
    return raw if plain else cast("list[object]", raw.tolist())


def _gathered(raw: object) -> list[object]:
    try:
        return list(cast("Sequence[object]", raw))
    except TypeError:
        raise InvalidInput(
            f"mechanism(D, n) returns n draws, as an array or a list; got {type(raw).__name__}"
        ) from None


def _without_sign(arrays: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """As numbers with a sign, unless a training draw is too large for that."""
    if any(bool((raw[TRAINING] > -ELSE - 1).any()) for raw in arrays):
        return []
    return [np.where(raw > -ELSE - 1, ELSE, raw.astype(np.int64)) for raw in arrays]


def _plain(pair: Pair) -> list[NDArray[Any]]:
    """Lists whose training draws are all floats, or all whole numbers of 62 binary digits, as arrays; else nothing."""
    training = [value for own in pair for value in own[TRAINING]]
    kinds = set(map(type, training))
    if kinds == {float}:
        return [np.array([value if type(value) is float else NAN for value in own]) for own in pair]
    if kinds == {int} and all(map(_whole, training)):
        return [np.array([value if _whole(value) else ELSE for value in own], dtype=np.int64) for own in pair]
    return []


def _of_arrays(one: NDArray[Any], two: NDArray[Any]) -> tuple[Draws, Draws]:
    """Columns where both have one form; where they have not, the form tells them apart and nothing else matters."""
    forms = [f"{'x'.join(map(str, raw.shape[1:]))} {_type(raw)}".strip() for raw in (one, two)]
    if forms[0] != forms[1]:
        first, second = (
            Draws(len(raw), told=(Told("the kind of the answer", np.full(len(raw), at), tuple(forms)),))
            for at, raw in enumerate((one, two))
        )
        return first, second
    shape = (*one.shape[1:], 2) if one.dtype.kind == "c" else one.shape[1:]
    columns = [_columns(raw) for raw in (one, two)]
    titles = _titles(columns[0].shape[1])
    first, second = (Draws(len(own), own, titles, shape=shape) for own in columns)
    return first, second


def _type(raw: NDArray[Any]) -> str:
    """Widths of one type are one: numpy chooses them."""
    return KINDS.get(raw.dtype.kind) or ("complex numbers" if raw.dtype.kind == "c" else str(raw.dtype))


def _columns(raw: NDArray[Any]) -> Columns:
    """A row of 64-bit numbers for each draw; a complex number is two, a moment is a whole number."""
    if raw.dtype.kind == "c":
        raw = np.ascontiguousarray(raw, dtype=np.complex128)[..., None].view(np.float64)
    flat = raw.reshape(len(raw), -1)
    return flat.astype(np.float64) if raw.dtype.kind == "f" else flat.astype(np.int64)


def _titles(width: int) -> tuple[str, ...]:
    return ("the answer",) if width == 1 else tuple(f"number {at + 1} of the answer" for at in range(width))


def _listed(raw: list[object]) -> list[object]:
    listed = [frozen(each) for each in raw]
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
