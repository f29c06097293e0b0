"""The atoms of a table's domain: rows that no count of a session tells apart, each named by what every count says.

A column is cut into pieces that no condition tells apart; the atoms are the cells of the grid of pieces. A count labels
a row 0 where it does not count it, else by the number, from 1, of the cell of its group keys.

The memory of a grid is bounded before any of it is allocated: by the sizes of its axes, which follow from the question.
Labels have the smallest type that holds them, and those of a count without keys are kept as bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.planner.memory import LARGE_GRID, one_at_a_time
from discreet.query.predicate import All, OneOf, Predicate, Some, Within
from discreet.query.query import Key
from discreet.query.sets import Condition
from discreet.schema import Column, Schema

MOST_CELLS = 1_000_000
MOST_LABELS = 2**28
"""Cells times counts: a million cells for some hundred counts, fewer for more."""
MOST_BYTES = 2**25
"""Memory for the labels of all counts of a grid, and for those of the conditions on one column."""
WORD = 64
"""Bits."""
MISSING = -(2**62)
"""Stands for a missing value; codes are within 2^44 of 0."""
TYPES: tuple[type[np.unsignedinteger[Any]], ...] = (np.uint8, np.uint16, np.uint32)
Codes = NDArray[np.int64]
Labels = NDArray[np.integer[Any]]
Part = Condition | Key


@dataclass(frozen=True, slots=True)
class Count:
    """A count of the rows that satisfy a predicate, in each cell of its public keys, with noise of this scale."""

    predicate: Predicate
    scale: Fraction
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class _Kept:
    """The labels of one count on a grid, as wide as the axes it depends on; those of 0 and 1 packed into bits."""

    values: Labels
    shape: tuple[int, ...]
    packed: bool

    @staticmethod
    def of(labels: Labels, keyed: bool) -> _Kept:
        """Pack the labels of a count without keys."""
        return _Kept(labels if keyed else np.packbits(labels), labels.shape, not keyed)

    def labels(self) -> Labels:
        """The labels as numbers."""
        if not self.packed:
            return self.values
        return np.unpackbits(self.values.astype(np.uint8, copy=False), count=math.prod(self.shape)).reshape(self.shape)


@dataclass(frozen=True, eq=False, slots=True)
class Atoms:
    """The different rows of labels that a row of the table can have; those of one count at a time."""

    kept: tuple[_Kept, ...]
    shape: tuple[int, ...]
    places: NDArray[np.intp]
    nothing: bool = False

    def __len__(self) -> int:
        return len(self.places) + self.nothing

    def with_nothing(self) -> Atoms:
        """The same, and a row that nothing counts."""
        return replace(self, nothing=True)

    def labels(self, count: int) -> Labels:
        """What one count says of every atom, in the smallest type that holds it: widen it before arithmetic."""
        own = np.broadcast_to(self.kept[count].labels(), self.shape).ravel()[self.places]
        return np.append(own, own.dtype.type(0)) if self.nothing else own

    def row(self, atom: int) -> list[int]:
        """What every count says of one atom."""
        if self.nothing and atom == len(self) - 1:
            return [0] * len(self.kept)
        at = np.unravel_index(int(self.places[atom]), self.shape)
        return [int(one.labels()[tuple(np.minimum(at, np.array(one.shape) - 1))]) for one in self.kept]


class Grid:
    """The pieces of every column that occurs, and which conditions hold on them."""

    def __init__(self, schema: Schema, counts: Sequence[Count]) -> None:
        self._schema, self._counts = schema, counts
        self._on: dict[Part, Labels] = {}
        self.cells: int | None = None
        """How many cells there are; None where they are too many."""
        sizes = self._sizes()
        if sizes is None:
            return
        cells = math.prod(sizes.values())
        self._wide = [axis for axis, size in sizes.items() if size > 1]
        self._shape = tuple(sizes[axis] for axis in self._wide) or (1,)
        if cells <= MOST_CELLS and cells * len(counts) <= MOST_LABELS and self._bytes(sizes) <= MOST_BYTES:
            self.cells = cells

    def atoms(self) -> Atoms:
        """All atoms, each once."""
        kept = tuple(_Kept.of(self._label(count), bool(count.keys)) for count in self._counts)
        return Atoms(kept, self._shape, distinct((one.labels() for one in kept), self._shape))

    def _sizes(self) -> dict[str, int] | None:
        """How many pieces each column has; None where their labels would take too much memory."""
        sizes: dict[str, int] = {}
        for axis, parts in self._axes().items():
            points = _points_of(self._schema.column(axis), parts)
            if sum(len(points) * _type_of(_most(part, self._schema)).itemsize for part in parts) > MOST_BYTES:
                return None
            labels = _cut(self._schema, self._schema.column(axis), parts, points)
            kept = distinct(labels, labels[0].shape)
            sizes[axis] = len(kept)
            self._on.update((part, label[kept]) for part, label in zip(parts, labels, strict=True))
        return sizes

    def _bytes(self, sizes: Mapping[str, int]) -> int:
        """The memory of the labels that `atoms` keeps, from the sizes of the axes alone."""
        total = 0
        for count in self._counts:
            axes = {_axis(self._schema.column(part.column)) for part in (*_conditions(count.predicate), *count.keys)}
            cells = math.prod(sizes[axis] for axis in axes)
            total += cells * self._label_type(count).itemsize if count.keys else -(-cells // 8)
        return total

    def _label_type(self, count: Count) -> np.dtype[Any]:
        return _type_of(math.prod(places_of(self._schema.column(key.column), key.width) for key in count.keys))

    def _axes(self) -> dict[str, list[Part]]:
        """The conditions and keys on each column; those on a derived column with its key's, whose code decides them."""
        found: dict[str, dict[Part, None]] = {}
        for count in self._counts:
            for part in (*_conditions(count.predicate), *count.keys):
                found.setdefault(_axis(self._schema.column(part.column)), {})[part] = None
        return {axis: list(parts) for axis, parts in found.items()}

    def _label(self, count: Count) -> Labels:
        """What a count says of each cell, as wide as the axes it depends on."""
        kind = self._label_type(count)
        label: Labels = np.zeros((1,) * len(self._shape), dtype=kind)
        for key in count.keys:
            size = places_of(self._schema.column(key.column), key.width)
            label = label * kind.type(size) + self._along(key).astype(kind)
        return np.asarray(np.where(self._holds(count.predicate), label + kind.type(1), kind.type(0)))

    def _holds(self, predicate: Predicate) -> NDArray[np.bool_]:
        none: NDArray[np.bool_] = np.zeros((1,) * len(self._shape), dtype=np.bool_)
        match predicate:
            case All(parts):
                held = ~none
                for part in parts:
                    held = held & self._holds(part)
                return held
            case Some(parts):
                held = none
                for part in parts:
                    held = held | self._holds(part)
                return held
            case _:
                return self._along(predicate) > 0

    def _along(self, part: Part) -> Labels:
        axis = _axis(self._schema.column(part.column))
        return self._on[part].reshape([-1 if axis == wide else 1 for wide in self._wide] or [1])


def places_of(column: Column, width: int) -> int:
    """How many cells a public key has, that of missing values included."""
    return math.ceil(column.size / width) + column.nullable


def _axis(column: Column) -> str:
    return column.name if column.derived is None else column.derived.key


def _conditions(predicate: Predicate) -> Iterator[Condition]:
    if isinstance(predicate, All | Some):
        for part in predicate.parts:
            yield from _conditions(part)
    else:
        yield predicate


@contextmanager
def laid_out(grid: Grid) -> Iterator[Atoms]:
    """The atoms of a grid, for as long as they are needed; of large grids a process lays out one at a time."""
    with one_at_a_time((grid.cells or 0) > LARGE_GRID):
        yield grid.atoms()


def _type_of(most: int) -> np.dtype[Any]:
    """The smallest type for labels from 0 to `most`."""
    return np.dtype(next((kind for kind in TYPES if most <= np.iinfo(kind).max), np.int64))


def _most(part: Part, schema: Schema) -> int:
    """The largest label of a condition or key on its own."""
    return places_of(schema.column(part.column), part.width) if isinstance(part, Key) else 1


def _points_of(axis: Column, parts: Sequence[Part]) -> Codes:
    """Points of an axis, of which there is one in every piece at least."""
    if axis.private_keys:
        return _points(np.arange(len(_texts(parts)) + 1), axis)
    derived = any(part.column != axis.name for part in parts)
    return _points(np.arange(axis.lower, axis.upper + 1) if derived else np.array(_starts(axis, parts)), axis)


def _cut(schema: Schema, axis: Column, parts: Sequence[Part], points: Codes) -> list[Labels]:
    """What each condition or key says at points of the axis."""
    if axis.private_keys:
        texts = {text: place for place, text in enumerate(_texts(parts), 1)}
        return [_one_of(part, points, texts) for part in parts if isinstance(part, OneOf)]
    columns = {name: _codes(schema.column(name), axis, points) for name in {part.column for part in parts}}
    return [_said(part, schema.column(part.column), columns[part.column]) for part in parts]


def _points(codes: Codes, axis: Column) -> Codes:
    return np.append(codes, MISSING) if axis.nullable else codes


def _texts(parts: Iterable[Part]) -> dict[str, None]:
    return dict.fromkeys(text for part in parts if isinstance(part, OneOf) for text in part.texts)


def _starts(column: Column, parts: Iterable[Part]) -> list[int]:
    """The first code of each piece: between two of these no condition or key changes."""
    starts = {column.lower}
    for part in parts:
        if isinstance(part, Within):
            starts.update(end for low, high in part.ranges for end in (low, high + 1))
        elif isinstance(part, Key):
            starts.update(range(column.lower, column.upper + 1, part.width))
    return sorted(start for start in starts if column.lower <= start <= column.upper)


def _codes(column: Column, axis: Column, points: Codes) -> Codes:
    """The codes of a column at points of its axis: the column's own, or those looked up for the key's codes."""
    if column.derived is None:
        return points
    missing = MISSING if column.missing is None else column.missing
    looked_up = [missing if code is None else code for code in column.derived.codes]
    table = np.array([*looked_up, missing], dtype=np.int64)
    return np.asarray(table[np.where(points == MISSING, len(looked_up), points - axis.lower)])


def _said(part: Part, column: Column, codes: Codes) -> Labels:
    """Whether a condition holds, or which bin of a key it is."""
    if isinstance(part, Key):
        last = places_of(column, part.width) - 1
        bins = np.where(codes == MISSING, last, (codes - column.lower) // part.width)
        return bins.astype(_type_of(last + 1))
    ranges = np.array(part.ranges if isinstance(part, Within) else (), dtype=np.int64).reshape(-1, 2)
    ends = np.concatenate((ranges[:, 1], [MISSING]))  # the last for codes before the first range
    within = codes <= ends[np.searchsorted(ranges[:, 0], codes, side="right") - 1]
    return np.where(codes == MISSING, part.null, within).astype(np.uint8)


def _one_of(part: OneOf, points: Codes, texts: Mapping[str, int]) -> Labels:
    """Whether a condition on texts holds: point 0 is any text that none of them names."""
    named = np.isin(points, [texts[text] for text in part.texts])
    return np.where(points == MISSING, part.null, named != part.outside).astype(np.uint8)


def distinct(labels: Iterable[Labels], shape: tuple[int, ...]) -> NDArray[np.intp]:
    """Places, in a flat array of that shape, of one of each different row of labels, in the order of the last label.

    Labels are packed into one word of 64 bits for each cell. A word that is full is replaced by its rank among the
    different ones, which keeps their order, so that the memory does not grow with the number of labels.
    """
    words = np.zeros(shape, dtype=np.uint64)
    used = 0
    for label in labels:
        bits = int(label.max()).bit_length()
        if used + bits > WORD:
            used = _rank(words.reshape(-1))
        if bits:
            words |= label.astype(np.uint64) << np.uint64(used)
        used += bits
    order, first = _sorted(words.reshape(-1))
    return np.asarray(order[first])


def _sorted(words: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The order of words, and where in it a word differs from the one before."""
    order = np.argsort(words, kind="stable")
    ranked = words[order]
    first = np.ones(len(order), dtype=np.bool_)
    np.not_equal(ranked[1:], ranked[:-1], out=first[1:])
    return order, first


def _rank(words: NDArray[np.uint64]) -> int:
    """Replace words by their rank among the different ones, in place; how many bits that takes."""
    order, first = _sorted(words)
    words[order] = np.cumsum(first, dtype=np.uint64) - np.uint64(1)
    return (int(first.sum()) - 1).bit_length()
