"""The table's domain partitioned into atoms, the cells that no count of a session tells apart.

A column is cut into pieces that no condition tells apart; the atoms are the cells of the grid of pieces. A count labels
a row 0 where it does not count it, else by the number, from 1, of the cell of its group keys.

All of it follows from the question and the schema, never from the rows. The memory of a grid is bounded before any of
it is allocated, by the sizes of its axes. Labels have the smallest type that holds them, and those of a count without
keys are stored as bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from discreet.query.predicates import AllOf, AnyOf, ColumnCondition, InRanges, InTexts, Predicate
from discreet.query.query import GroupKey
from discreet.schema import Column, Schema

LARGE_GRID_CELLS = 2**16
"""Cells of a grid of conditions, or labels of the parts that counts are made of."""
LARGE_REPLY_NUMBERS = 512
"""Numbers of a reply."""
MAX_LARGE_ANSWERS = 4
"""Large answers of one data set that are read and drawn at once; reading may wait for a database, so one is too few."""
MAX_GRID_CELLS = 1_000_000
MAX_LABELS = 2**28
"""Cells times counts: a million cells for some hundred counts, fewer for more."""
MAX_LABEL_BYTES = 2**25
"""Memory for the labels of all counts of a grid, and for those of the conditions on one column."""
WORD_BITS = 64
MISSING_CODE = -(2**62)
"""Stands for a missing value; codes are within 2^44 of 0."""
Label = np.uint8 | np.uint16 | np.uint32 | np.int64
LABEL_TYPES: tuple[type[np.uint8] | type[np.uint16] | type[np.uint32], ...] = (np.uint8, np.uint16, np.uint32)
Codes = NDArray[np.int64]
Labels = NDArray[Label]
ConditionOrKey = ColumnCondition | GroupKey
_large_step_lock = RLock()


@contextmanager
def serialize_large_steps(is_large: bool) -> Iterator[None]:
    """Wait, before a large step, until no other thread of this process is at one; small steps do not wait."""
    with _large_step_lock if is_large else nullcontext():
        yield


@dataclass(frozen=True, slots=True)
class CountQuery:
    """A count of the rows that satisfy a predicate, in each cell of its public keys, with noise of this scale."""

    predicate: Predicate
    scale: Fraction
    keys: tuple[GroupKey, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class _PackedLabels:
    """The labels of one count on a grid, as wide as the axes it depends on; those of 0 and 1 packed into bits."""

    values: Labels
    shape: tuple[int, ...]
    packed: bool

    @staticmethod
    def of(labels: Labels, has_keys: bool) -> _PackedLabels:
        """Pack the labels of a count without keys."""
        return _PackedLabels(labels if has_keys else np.packbits(labels), labels.shape, not has_keys)

    def unpack(self) -> Labels:
        """The labels as numbers."""
        if not self.packed:
            return self.values
        return np.unpackbits(self.values.astype(np.uint8, copy=False), count=math.prod(self.shape)).reshape(self.shape)


@dataclass(frozen=True, eq=False, slots=True)
class Atoms:
    """The different rows of labels that a row of the table can have; those of one count at a time."""

    packed_labels: tuple[_PackedLabels, ...]
    shape: tuple[int, ...]
    cell_indices: NDArray[np.intp]
    has_uncounted: bool = False

    def __len__(self) -> int:
        return len(self.cell_indices) + self.has_uncounted

    def add_uncounted(self) -> Atoms:
        """Add a row that nothing counts."""
        return replace(self, has_uncounted=True)

    def get_labels(self, count: int) -> Labels:
        """Return what one count says of every atom, in the smallest type that holds it: widen it before arithmetic."""
        count_labels = np.broadcast_to(self.packed_labels[count].unpack(), self.shape).ravel()[self.cell_indices]
        return np.append(count_labels, count_labels.dtype.type(0)) if self.has_uncounted else count_labels

    def get_row(self, atom: int) -> list[int]:
        """Return what every count says of one atom."""
        if self.has_uncounted and atom == len(self) - 1:
            return [0] * len(self.packed_labels)
        cell = np.unravel_index(int(self.cell_indices[atom]), self.shape)
        return [
            int(packed.unpack()[tuple(np.minimum(cell, np.array(packed.shape) - 1))]) for packed in self.packed_labels
        ]


class DomainGrid:
    """The pieces of every column that occurs, and which conditions hold on them."""

    def __init__(self, schema: Schema, counts: Sequence[CountQuery]) -> None:
        self._schema, self._counts = schema, counts
        self._part_labels: dict[ConditionOrKey, Labels] = {}
        self.cells: int | None = None
        """How many cells there are; None where they are too many."""
        sizes = self._count_pieces()
        if sizes is None:
            return
        cells = math.prod(sizes.values())
        self._wide_axes = [axis for axis, size in sizes.items() if size > 1]
        self._shape = tuple(sizes[axis] for axis in self._wide_axes) or (1,)
        if (
            cells <= MAX_GRID_CELLS
            and cells * len(counts) <= MAX_LABELS
            and self._count_bytes(sizes) <= MAX_LABEL_BYTES
        ):
            self.cells = cells

    def build_atoms(self) -> Atoms:
        """Build all atoms, each once."""
        packed_labels = tuple(_PackedLabels.of(self._label_cells(count), bool(count.keys)) for count in self._counts)
        distinct = find_distinct_cells((packed.unpack() for packed in packed_labels), self._shape)
        return Atoms(packed_labels, self._shape, distinct)

    def _count_pieces(self) -> dict[str, int] | None:
        """How many pieces each column has; None where their labels would take too much memory."""
        sizes: dict[str, int] = {}
        for axis, parts in self._group_by_axis().items():
            points = _find_points(self._schema.column(axis), parts)
            if (
                sum(len(points) * _select_label_type(_find_max_label(part, self._schema)).itemsize for part in parts)
                > MAX_LABEL_BYTES
            ):
                return None
            labels = _label_points(self._schema, self._schema.column(axis), parts, points)
            pieces = find_distinct_cells(labels, labels[0].shape)
            sizes[axis] = len(pieces)
            self._part_labels.update((part, label[pieces]) for part, label in zip(parts, labels, strict=True))
        return sizes

    def _count_bytes(self, sizes: Mapping[str, int]) -> int:
        """The memory that the labels of `build_atoms` take, from the sizes of the axes alone."""
        total = 0
        for count in self._counts:
            parts = (*_iterate_conditions(count.predicate), *count.keys)
            cells = math.prod(sizes[axis] for axis in {_get_axis(self._schema.column(part.column)) for part in parts})
            total += cells * self._get_label_type(count).itemsize if count.keys else -(-cells // 8)
        return total

    def _get_label_type(self, count: CountQuery) -> np.dtype[Label]:
        key_cells = (count_axis_cells(self._schema.column(key.column), key.width) for key in count.keys)
        return _select_label_type(math.prod(key_cells))

    def _group_by_axis(self) -> dict[str, list[ConditionOrKey]]:
        """The conditions and keys on each column; those on a derived column with its key's, whose code decides them."""
        by_axis: dict[str, dict[ConditionOrKey, None]] = {}
        for count in self._counts:
            for part in (*_iterate_conditions(count.predicate), *count.keys):
                by_axis.setdefault(_get_axis(self._schema.column(part.column)), {})[part] = None
        return {axis: list(parts) for axis, parts in by_axis.items()}

    def _label_cells(self, count: CountQuery) -> Labels:
        """What a count says of each cell, as wide as the axes it depends on."""
        kind = self._get_label_type(count)
        label: Labels = np.zeros((1,) * len(self._shape), dtype=kind)
        for key in count.keys:
            size = count_axis_cells(self._schema.column(key.column), key.width)
            label = label * kind.type(size) + self._broadcast_labels(key).astype(kind)
        return np.asarray(np.where(self._evaluate_predicate(count.predicate), label + kind.type(1), kind.type(0)))

    def _evaluate_predicate(self, predicate: Predicate) -> NDArray[np.bool_]:
        none: NDArray[np.bool_] = np.zeros((1,) * len(self._shape), dtype=np.bool_)
        match predicate:
            case AllOf(parts):
                mask = ~none
                for part in parts:
                    mask = mask & self._evaluate_predicate(part)
                return mask
            case AnyOf(parts):
                mask = none
                for part in parts:
                    mask = mask | self._evaluate_predicate(part)
                return mask
            case _:
                return self._broadcast_labels(predicate) > 0

    def _broadcast_labels(self, part: ConditionOrKey) -> Labels:
        axis = _get_axis(self._schema.column(part.column))
        return self._part_labels[part].reshape([-1 if axis == wide else 1 for wide in self._wide_axes] or [1])


def count_axis_cells(column: Column, width: int) -> int:
    """Count the cells of a public key, that of missing values included."""
    return math.ceil(column.size / width) + column.is_nullable


def _get_axis(column: Column) -> str:
    return column.name if column.derived is None else column.derived.key


def _iterate_conditions(predicate: Predicate) -> Iterator[ColumnCondition]:
    if isinstance(predicate, AllOf | AnyOf):
        for part in predicate.parts:
            yield from _iterate_conditions(part)
    else:
        yield predicate


@contextmanager
def lay_out_atoms(grid: DomainGrid) -> Iterator[Atoms]:
    """Lay out the atoms of a grid for as long as they are needed; a process lays out large grids one at a time."""
    with serialize_large_steps((grid.cells or 0) > LARGE_GRID_CELLS):
        yield grid.build_atoms()


def _select_label_type(max_label: int) -> np.dtype[Label]:
    return np.dtype(next((kind for kind in LABEL_TYPES if max_label <= np.iinfo(kind).max), np.int64))


def _find_max_label(part: ConditionOrKey, schema: Schema) -> int:
    return count_axis_cells(schema.column(part.column), part.width) if isinstance(part, GroupKey) else 1


def _find_points(axis: Column, parts: Sequence[ConditionOrKey]) -> Codes:
    """Points of an axis, of which there is one in every piece at least."""
    if axis.private_keys:
        points = np.arange(len(_collect_texts(parts)) + 1)
    elif any(part.column != axis.name for part in parts):  # derived columns may change at every code
        points = np.arange(axis.lower, axis.upper + 1)
    else:
        points = np.array(_find_piece_starts(axis, parts))
    return np.append(points, MISSING_CODE) if axis.is_nullable else points


def _label_points(schema: Schema, axis: Column, parts: Sequence[ConditionOrKey], points: Codes) -> list[Labels]:
    """What each condition or key says at points of the axis."""
    if axis.private_keys:
        texts = {text: place for place, text in enumerate(_collect_texts(parts), 1)}
        text_parts = [part for part in parts if isinstance(part, InTexts)]
        # Point 0 is any text that no condition names.
        listed = [np.isin(points, [texts[text] for text in part.texts]) != part.outside for part in text_parts]
        is_missing = points == MISSING_CODE
        pairs = zip(text_parts, listed, strict=True)
        return [np.where(is_missing, part.null, is_listed).astype(np.uint8) for part, is_listed in pairs]
    columns = {name: _look_up_codes(schema.column(name), axis, points) for name in {part.column for part in parts}}
    return [_label_part(part, schema.column(part.column), columns[part.column]) for part in parts]


def _collect_texts(parts: Iterable[ConditionOrKey]) -> dict[str, None]:
    return dict.fromkeys(text for part in parts if isinstance(part, InTexts) for text in part.texts)


def _find_piece_starts(column: Column, parts: Iterable[ConditionOrKey]) -> list[int]:
    """The first code of each piece: between two of these no condition or key changes."""
    starts = {column.lower}
    for part in parts:
        if isinstance(part, InRanges):
            starts.update(end for low, high in part.ranges for end in (low, high + 1))
        elif isinstance(part, GroupKey):
            starts.update(range(column.lower, column.upper + 1, part.width))
    return sorted(start for start in starts if column.lower <= start <= column.upper)


def _look_up_codes(column: Column, axis: Column, points: Codes) -> Codes:
    """The codes of a column at points of its axis: the column's own, or those looked up for the key's codes."""
    if column.derived is None:
        return points
    missing = MISSING_CODE if column.missing is None else column.missing
    lookup_codes = [missing if code is None else code for code in column.derived.codes]
    table = np.array([*lookup_codes, missing], dtype=np.int64)
    return np.asarray(table[np.where(points == MISSING_CODE, len(lookup_codes), points - axis.lower)])


def _label_part(part: ConditionOrKey, column: Column, codes: Codes) -> Labels:
    """Whether a condition holds, or which bin of a key it is."""
    if isinstance(part, GroupKey):
        last = count_axis_cells(column, part.width) - 1
        bins = np.where(codes == MISSING_CODE, last, (codes - column.lower) // part.width)
        return bins.astype(_select_label_type(last + 1))
    ranges = np.array(part.ranges if isinstance(part, InRanges) else (), dtype=np.int64).reshape(-1, 2)
    ends = np.concatenate((ranges[:, 1], [MISSING_CODE]))  # the last for codes before the first range
    within = codes <= ends[np.searchsorted(ranges[:, 0], codes, side="right") - 1]
    return np.where(codes == MISSING_CODE, part.null, within).astype(np.uint8)


def find_distinct_cells(labels: Iterable[Labels], shape: tuple[int, ...]) -> NDArray[np.intp]:
    """Find one place, in a flat array of that shape, of each different row of labels, in the order of the last label.

    Labels are packed into one word of 64 bits for each cell. A word that is full is replaced by its rank among the
    different ones, which keeps their order, so that the memory does not grow with the number of labels.
    """
    words = np.zeros(shape, dtype=np.uint64)
    used = 0
    for label in labels:
        bits = int(label.max()).bit_length()
        if used + bits > WORD_BITS:
            used = _rank_words(words.reshape(-1))
        if bits:
            words |= label.astype(np.uint64) << np.uint64(used)
        used += bits
    order, first = _sort_words(words.reshape(-1))
    return np.asarray(order[first])


def _sort_words(words: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The order of words, and where in it a word differs from the one before."""
    order = np.argsort(words, kind="stable")
    ranked = words[order]
    first = np.ones(len(order), dtype=np.bool_)
    np.not_equal(ranked[1:], ranked[:-1], out=first[1:])
    return order, first


def _rank_words(words: NDArray[np.uint64]) -> int:
    """Replace words by their rank among the different ones, in place; how many bits that takes."""
    order, first = _sort_words(words)
    words[order] = np.cumsum(first, dtype=np.uint64) - np.uint64(1)
    return (int(first.sum()) - 1).bit_length()
