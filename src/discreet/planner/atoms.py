"""The atoms of a table's domain: rows that no count of a session tells apart, each named by what every count says.

A column is cut into pieces that no condition tells apart; the atoms are the cells of the grid of pieces. A count labels
a row 0 where it does not count it, else by the number, from 1, of the cell of its group keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.query.predicate import All, OneOf, Predicate, Some, Within
from discreet.query.query import Key
from discreet.query.sets import Condition
from discreet.schema import Column, Schema

MOST_CELLS = 1_000_000
MOST_LABELS = 2**28
"""Cells times counts: a million cells for some hundred counts, fewer for more."""
MISSING = -(2**62)
"""Stands for a missing value; codes are within 2^44 of 0."""
Labels = NDArray[np.int64]
Part = Condition | Key


@dataclass(frozen=True, slots=True)
class Count:
    """A count of the rows that satisfy a predicate, in each cell of its public keys, with noise of this scale."""

    predicate: Predicate
    scale: Fraction
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Atoms:
    """The different rows of labels that a row of the table can have; those of one count at a time."""

    grids: tuple[Labels, ...]
    places: tuple[NDArray[np.intp], ...]
    nothing: bool = False

    def __len__(self) -> int:
        return len(self.places[0]) + self.nothing

    def with_nothing(self) -> Atoms:
        """The same, and a row that nothing counts."""
        return replace(self, nothing=True)

    def labels(self, count: int) -> Labels:
        """What one count says of every atom."""
        grid = self.grids[count]
        own = grid[tuple(place if size > 1 else 0 for place, size in zip(self.places, grid.shape, strict=True))]
        found = np.broadcast_to(own, self.places[0].shape)
        return np.append(found, 0) if self.nothing else found

    def row(self, atom: int) -> list[int]:
        """What every count says of one atom."""
        if self.nothing and atom == len(self) - 1:
            return [0] * len(self.grids)
        at = [int(place[atom]) for place in self.places]
        return [int(grid[tuple(np.minimum(at, np.array(grid.shape) - 1))]) for grid in self.grids]


class Grid:
    """The pieces of every column that occurs, and which conditions hold on them."""

    def __init__(self, schema: Schema, counts: Sequence[Count]) -> None:
        self._schema, self._counts = schema, counts
        self._on: dict[Part, Labels] = {}
        sizes: dict[str, int] = {}
        for axis, parts in self._axes().items():
            labels = _cut(schema, schema.column(axis), parts)
            kept = distinct(labels, labels[0].shape)
            sizes[axis] = len(kept)
            self._on.update((part, label[kept]) for part, label in zip(parts, labels, strict=True))
        cells = math.prod(sizes.values())
        self.cells = cells if cells <= MOST_CELLS and cells * len(counts) <= MOST_LABELS else None
        """How many cells there are; None where they are too many."""
        self._wide = [axis for axis, size in sizes.items() if size > 1]
        self._shape = tuple(sizes[axis] for axis in self._wide) or (1,)

    def atoms(self) -> Atoms:
        """All atoms, each once."""
        grids = tuple(map(self._label, self._counts))
        return Atoms(grids, np.unravel_index(distinct(grids, self._shape), self._shape))

    def _axes(self) -> dict[str, list[Part]]:
        """The conditions and keys on each column; those on a derived column with its key's, whose code decides them."""
        found: dict[str, dict[Part, None]] = {}
        for count in self._counts:
            for part in (*_conditions(count.predicate), *count.keys):
                found.setdefault(_axis(self._schema.column(part.column)), {})[part] = None
        return {axis: list(parts) for axis, parts in found.items()}

    def _label(self, count: Count) -> Labels:
        """What a count says of each cell, as wide as the axes it depends on."""
        label = np.ones((1,) * len(self._shape), dtype=np.int64)
        for key in count.keys:
            size = places_of(self._schema.column(key.column), key.width)
            label = (label - 1) * size + self._along(key) + 1
        return np.asarray(np.where(self._holds(count.predicate), label, 0))

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


def _cut(schema: Schema, axis: Column, parts: Sequence[Part]) -> list[Labels]:
    """What each condition or key says at points of the axis, of which there is one in every piece at least."""
    if axis.private_keys:
        texts = {text: place for place, text in enumerate(_texts(parts), 1)}
        points = _points(np.arange(len(texts) + 1), axis)
        return [_one_of(part, points, texts) for part in parts if isinstance(part, OneOf)]
    derived = any(part.column != axis.name for part in parts)
    codes = np.arange(axis.lower, axis.upper + 1) if derived else np.array(_starts(axis, parts))
    points = _points(codes, axis)
    columns = {name: _codes(schema.column(name), axis, points) for name in {part.column for part in parts}}
    return [_said(part, schema.column(part.column), columns[part.column]) for part in parts]


def _points(codes: Labels, axis: Column) -> Labels:
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


def _codes(column: Column, axis: Column, points: Labels) -> Labels:
    """The codes of a column at points of its axis: the column's own, or those looked up for the key's codes."""
    if column.derived is None:
        return points
    missing = MISSING if column.missing is None else column.missing
    looked_up = [missing if code is None else code for code in column.derived.codes]
    table = np.array([*looked_up, missing], dtype=np.int64)
    return np.asarray(table[np.where(points == MISSING, len(looked_up), points - axis.lower)])


def _said(part: Part, column: Column, codes: Labels) -> Labels:
    """Whether a condition holds, or which bin of a key it is."""
    if isinstance(part, Key):
        last = places_of(column, part.width) - 1
        return np.where(codes == MISSING, last, (codes - column.lower) // part.width)
    ranges = np.array(part.ranges if isinstance(part, Within) else (), dtype=np.int64).reshape(-1, 2)
    ends = np.concatenate((ranges[:, 1], [MISSING]))  # the last for codes before the first range
    within = codes <= ends[np.searchsorted(ranges[:, 0], codes, side="right") - 1]
    return np.where(codes == MISSING, part.null, within).astype(np.int64)


def _one_of(part: OneOf, points: Labels, texts: Mapping[str, int]) -> Labels:
    """Whether a condition on texts holds: point 0 is any text that none of them names."""
    named = np.isin(points, [texts[text] for text in part.texts])
    return np.where(points == MISSING, part.null, named != part.outside).astype(np.int64)


def distinct(labels: Sequence[Labels], shape: tuple[int, ...]) -> NDArray[np.intp]:
    """Places, in a flat array of that shape, of one of each different row of labels."""
    words = [word.ravel() for word in _packed(labels, shape)]
    if not words:
        return np.zeros(1, dtype=np.intp)
    order = np.lexsort(words)
    first = np.zeros(len(order), dtype=np.bool_)
    first[0] = True
    for word in words:
        ranked = word[order]
        first[1:] |= ranked[1:] != ranked[:-1]
    return order[first]


def _packed(labels: Sequence[Labels], shape: tuple[int, ...]) -> list[NDArray[np.uint64]]:
    """The labels side by side in words of 64 bits, so that a million cells with many counts fit."""
    words: list[NDArray[np.uint64]] = []
    used = 64
    for label in labels:
        bits = int(label.max()).bit_length()
        if used + bits > 64:
            words.append(np.zeros(shape, dtype=np.uint64))
            used = 0
        if bits:
            words[-1] |= label.astype(np.uint64) << np.uint64(used)
        used += bits
    return words
