"""What must be true of the counts of a reply whatever the data: from schema and question alone.

Nothing here is taken from rows, so whatever is made to fit it stays as private as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.planner.domain_partition import Atoms, CountQuery, DomainGrid, lay_out_atoms
from discreet.query.predicates import AllOf, Predicate, build_whole_domain
from discreet.query.query import Aggregate, GroupKey, Query
from discreet.schema import Schema

COUNT_FUNCTIONS = frozenset({"count", "count_distinct"})
UNIT_SCALE = Fraction(1)
NONNEGATIVE_WORDS = "no count is below 0"
SHARED_PARTS_WORDS = "the counts are made of the same parts, none of which is below 0"
MAX_PARTS = 2**17
MAX_COUNTED = 2**19
"""Counts times cells, and counts times parts, beyond which the parts are left out."""
CountPairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class CountLimits:
    """The least and the most that the cells of one count add up to, and the most of one cell; None for no most."""

    min_total: int = 0
    max_total: int | None = None
    max_cell: int | None = None


@dataclass(frozen=True, eq=False, slots=True)
class CountParts:
    """Rows that no count tells apart: every count of rows is, in each cell, the sum of its parts there.

    `labels`: by count and part, the number of the cell, from 1, in which the part is counted, or 0. All that are not 0
    of one part are the same, and each part has one. `limits` are of the sum of all parts.
    """

    labels: NDArray[np.int64]
    limits: CountLimits


@dataclass(frozen=True, eq=False, slots=True)
class StructuralConstraints:
    """What holds of some counts, each in the same cells. No cell is below 0; `words` say that and all the rest.

    `possible`: by count and cell, whether a row can be counted there. `rising_cells`: cells in the order in which the
    `rising_counts` rise. `ordered_pairs`: the first count is at most the second in every cell. `parts`: what several
    counts of rows are made of, from which all but the order follows; None where it is not known, or too much to solve.
    """

    names: tuple[str, ...]
    possible: NDArray[np.bool_]
    limits: tuple[CountLimits, ...]
    rising_cells: tuple[int, ...] = ()
    rising_counts: tuple[int, ...] = ()
    ordered_pairs: CountPairs = ()
    parts: CountParts | None = None
    words: tuple[str, ...] = (NONNEGATIVE_WORDS,)


def select_counts(query: Query) -> tuple[Aggregate, ...]:
    """Select the aggregates of a question that count, in its order."""
    return tuple(aggregate for aggregate in query.aggregates if aggregate.function in COUNT_FUNCTIONS)


def find_structural_constraints(schema: Schema, query: Query, cells: int) -> StructuralConstraints:
    """Find what holds of the counts that a question asks for, over so many cells."""
    counts, names = select_counts(query), _list_labels(query)
    private = any(schema.column(key.column).private_keys for key in query.keys)
    keys = () if private else query.keys
    atom_facts = _find_atom_facts(schema, query, keys, cells)
    covering = [*zip(counts, atom_facts.every_row, strict=True)]
    # Of private keys only some are shown, and of rows without a key none.
    limits = tuple(_find_limits(schema, count, covers and not private, bool(query.keys)) for count, covers in covering)
    rising_cells = _find_rising_cells(schema, keys)
    rising_counts = tuple(
        index for index, (count, covers) in enumerate(covering) if covers and _is_row_count(schema, count)
    )
    if not rising_cells or not rising_counts:
        rising_cells, rising_counts = (), ()
    parts = None if rising_counts or private else atom_facts.parts
    order = rising_cells, rising_counts, atom_facts.ordered_pairs
    constraints = StructuralConstraints(names, atom_facts.possible, limits, *order, parts)
    return replace(constraints, words=(*constraints.words, *_iterate_descriptions(schema, query, constraints)))


@dataclass(frozen=True, eq=False, slots=True)
class _AtomFacts:
    """What follows from the rows that no count tells apart: which counts are of every row, and what can be."""

    every_row: list[bool]
    possible: NDArray[np.bool_]
    ordered_pairs: CountPairs = ()
    parts: CountParts | None = None


def _find_atom_facts(schema: Schema, query: Query, keys: tuple[GroupKey, ...], cells: int) -> _AtomFacts:
    """By key where that is not too many rows to tell apart, else without; nothing where it is too many without."""
    counts = select_counts(query)
    predicates = [_build_predicate(schema, query, aggregate) for aggregate in counts]
    anywhere = np.ones((len(counts), cells), dtype=np.bool_)
    for by in (keys, ()):
        grid = DomainGrid(schema, [CountQuery(predicate, UNIT_SCALE, by) for predicate in predicates])
        if grid.cells is not None:
            with lay_out_atoms(grid) as atoms:
                return _read_atom_facts(schema, counts, atoms, anywhere, keyed=by == keys, grouped=bool(by))
    return _AtomFacts([False] * len(counts), anywhere)


def _read_atom_facts(
    schema: Schema, counts: Sequence[Aggregate], atoms: Atoms, possible: NDArray[np.bool_], keyed: bool, grouped: bool
) -> _AtomFacts:
    """The facts, one count at a time: all labels at once are many times as large as the bits that are stored."""
    membership: NDArray[np.uint8] = np.zeros((len(counts), -(-len(atoms) // 8)), dtype=np.uint8)
    every_row = []
    for index in range(len(counts)):
        label = atoms.get_labels(index)
        membership[index] = np.packbits(label > 0)
        every_row.append(bool(label.all()))
        if grouped:
            possible[index] = np.isin(np.arange(1, possible.shape[1] + 1), label)
    lacks_parts = not keyed or len(counts) < 2 or not all(_is_row_count(schema, aggregate) for aggregate in counts)
    parts = None if lacks_parts else _find_parts(schema, counts, atoms, membership, possible.shape[1])
    return _AtomFacts(every_row, possible, _find_ordered_pairs(schema, counts, membership), parts)


def _list_labels(query: Query) -> tuple[str, ...]:
    labels = {output.aggregate: output.label for output in reversed(query.presentation.outputs)}
    aggregates = enumerate(query.aggregates)
    return tuple(labels.get(index, item.function) for index, item in aggregates if item.function in COUNT_FUNCTIONS)


def _build_predicate(schema: Schema, query: Query, aggregate: Aggregate) -> Predicate:
    if aggregate.column is None:
        return AllOf((query.where, aggregate.where))
    present = replace(build_whole_domain(schema.column(aggregate.column)), null=False)
    return AllOf((query.where, aggregate.where, present))


def _is_row_count(schema: Schema, aggregate: Aggregate) -> bool:
    """Whether it counts rows; units are rows where each has one."""
    return aggregate.function == "count" or schema.rows == 1


def _find_limits(schema: Schema, aggregate: Aggregate, every_row: bool, grouped: bool) -> CountLimits:
    """The limits that a public number of units sets, each of which has a row and at most `schema.rows` of them."""
    if schema.units is None:
        return CountLimits()
    min_total, rows = schema.units if every_row else 0, schema.units * schema.rows
    if _is_row_count(schema, aggregate):
        return CountLimits(min_total, rows, rows)
    return CountLimits(min_total, rows if grouped else schema.units, schema.units)


def _find_parts(
    schema: Schema, counts: Sequence[Aggregate], atoms: Atoms, membership: NDArray[np.uint8], cells: int
) -> CountParts | None:
    """The atoms that are counted at all; None where there are none, or too many."""
    counted = np.unpackbits(np.bitwise_or.reduce(membership), count=len(atoms)).astype(np.bool_)
    part_count = int(counted.sum())
    if not 0 < part_count <= MAX_PARTS or len(counts) * max(part_count, cells) > MAX_COUNTED:
        return None
    labels = np.stack([atoms.get_labels(index)[counted].astype(np.int64) for index in range(len(counts))])
    return CountParts(labels, _find_limits(schema, counts[0], bool(counted.all()), grouped=True))


def _find_rising_cells(schema: Schema, keys: tuple[GroupKey, ...]) -> tuple[int, ...]:
    """The cells of the one key in the order in which its counts rise by declaration; that of missing values apart.

    True of single values it is true of bins of w of them: the i-th value of a bin and the i-th of the next are w apart,
    and compare in the same way; so do their sums. A last bin of fewer values is less still, so it fits where counts
    fall, and is left out where they rise.
    """
    if len(keys) != 1 or schema.column(keys[0].column).counts is None:
        return ()
    column, width = schema.column(keys[0].column), keys[0].width
    full, remainder = divmod(column.size, width)
    if column.counts == "rising":
        return tuple(range(full))
    return tuple(reversed(range(full + bool(remainder))))


def _find_ordered_pairs(schema: Schema, counts: Sequence[Aggregate], membership: NDArray[np.uint8]) -> CountPairs:
    """Which count is at most which other in every cell, those that follow from others left out.

    `membership`: by count, in bits, the atoms that it counts.
    """
    many = range(len(membership))
    rows = [_is_row_count(schema, aggregate) for aggregate in counts]
    below = np.array(
        [[(rows[j] or not rows[i]) and not np.any(membership[i] & ~membership[j]) for j in many] for i in many],
        dtype=np.bool_,
    )
    proper = below & ~below.T
    through = proper.astype(np.int64) @ proper.astype(np.int64) > 0
    return tuple((int(i), int(j)) for i, j in np.argwhere(proper & ~through))


def _iterate_descriptions(schema: Schema, query: Query, constraints: StructuralConstraints) -> Iterator[str]:
    smaller = {index for index, _ in constraints.ordered_pairs}
    entries = zip(constraints.names, constraints.limits, constraints.possible, strict=True)
    for index, (name, limits, possible) in enumerate(entries):
        all_of = "all counts" if len(constraints.names) == 1 else f"all of {name}"
        subject = f"{all_of} add up to" if query.keys else f"{name} is"
        if index not in smaller and limits.max_total is not None and (constraints.parts is None or limits.min_total):
            yield _format_sum(schema, subject, limits.min_total, limits.max_total)
        if not possible.all():
            count = int((~possible).sum())
            yield f"{count:,} of the {len(possible):,} cells of {name} cannot have a row, so they are 0"
    if constraints.rising_cells:
        name = query.keys[0].column
        yield f"the counts are {schema.column(name).counts} with {name}, as the schema declares"
    if constraints.parts is None:
        for i, j in constraints.ordered_pairs:
            yield f"{constraints.names[i]} is at most {constraints.names[j]} in every row"
        return
    yield SHARED_PARTS_WORDS
    whole_sum = constraints.parts.limits
    if whole_sum.max_total is not None and not any(limits.min_total for limits in constraints.limits):
        yield _format_sum(schema, "the parts add up to", whole_sum.min_total, whole_sum.max_total)


def _format_sum(schema: Schema, subject: str, min_total: int, max_total: int) -> str:
    if min_total == max_total:
        return f"{subject} the public number of units, {max_total:,}"
    above = f"at least {min_total:,} and " if min_total else ""
    rows = "" if schema.rows == 1 else f", {schema.rows} rows of each"
    return f"{subject} {above}at most {max_total:,}: there are {schema.units:,} units{rows}"
