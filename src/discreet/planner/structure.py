"""What must be true of the counts of a reply whatever the data: from schema and question alone.

Nothing here is taken from rows, so whatever is made to fit it stays as private as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.planner.atoms import Atoms, Count, Grid, laid_out
from discreet.query.predicate import All, Predicate
from discreet.query.query import Aggregate, Key, Query
from discreet.query.sets import whole
from discreet.schema import Schema

COUNTS = frozenset({"count", "count_distinct"})
ONE = Fraction(1)
NO_LESS_THAN_NONE = "no count is below 0"
OF_PARTS = "the counts are made of the same parts, none of which is below 0"
MOST_PARTS = 2**17
MOST_COUNTED = 2**19
"""Counts times cells, and counts times parts, beyond which the parts are left out."""
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Ends:
    """The least and the most that the cells of one count add up to, and the most of one cell; None for no most."""

    least: int = 0
    most: int | None = None
    each: int | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Parts:
    """Rows that no count tells apart: every count of rows is, in each cell, the sum of its parts there.

    `labels`: by count and part, the number of the cell, from 1, in which the part is counted, or 0. All that are not 0
    of one part are the same, and each part has one. `ends` are of the sum of all parts.
    """

    labels: NDArray[np.int64]
    ends: Ends


@dataclass(frozen=True, eq=False, slots=True)
class Structure:
    """What holds of some counts, each in the same cells. No cell is below 0; `words` say that and all the rest.

    `possible`: by count and cell, whether a row can be counted there. `chain`: cells in the order in which the counts
    of `chained` rise. `pairs`: the first count is at most the second in every cell. `parts`: what several counts of
    rows are made of, from which all but the order follows; None where that is not known, or too much to solve for.
    """

    names: tuple[str, ...]
    possible: NDArray[np.bool_]
    ends: tuple[Ends, ...]
    chain: tuple[int, ...] = ()
    chained: tuple[int, ...] = ()
    pairs: Pairs = ()
    parts: Parts | None = None
    words: tuple[str, ...] = (NO_LESS_THAN_NONE,)


def counts_of(query: Query) -> tuple[Aggregate, ...]:
    """The aggregates of a question that count, in its order."""
    return tuple(one for one in query.aggregates if one.function in COUNTS)


def structure(schema: Schema, query: Query, cells: int) -> Structure:
    """What holds of the counts that a question asks for, over so many cells."""
    counts, names = counts_of(query), _names(query)
    private = any(schema.column(key.column).private_keys for key in query.keys)
    keys = () if private else query.keys
    seen = _seen(schema, query, keys, cells)
    # Of private keys only some are shown, and of rows without a key none.
    each = zip(counts, seen.every_row, strict=True)
    ends = tuple(_ends(schema, one, covers and not private, bool(query.keys)) for one, covers in each)
    chain = _chain(schema, keys)
    chained = tuple(at for at, one in enumerate(counts) if chain and seen.every_row[at] and _of_rows(schema, one))
    parts = None if chained or private else seen.parts
    made = Structure(names, seen.possible, ends, chain if chained else (), chained, seen.pairs, parts)
    return replace(made, words=(*made.words, *_words(schema, query, made)))


@dataclass(frozen=True, eq=False, slots=True)
class _Seen:
    """What follows from the rows that no count tells apart: which counts are of every row, and the rest as above."""

    every_row: list[bool]
    possible: NDArray[np.bool_]
    pairs: Pairs = ()
    parts: Parts | None = None


def _seen(schema: Schema, query: Query, keys: tuple[Key, ...], cells: int) -> _Seen:
    """By key where that is not too many rows to tell apart, else without; nothing where it is too many without."""
    counts = counts_of(query)
    asked = [_predicate(schema, query, one) for one in counts]
    anywhere = np.ones((len(counts), cells), dtype=np.bool_)
    for by in (keys, ()):
        grid = Grid(schema, [Count(predicate, ONE, by) for predicate in asked])
        if grid.cells is not None:
            with laid_out(grid) as atoms:
                return _seen_in(schema, counts, atoms, anywhere, keyed=by == keys, grouped=bool(by))
    return _Seen([False] * len(counts), anywhere)


def _seen_in(
    schema: Schema,
    counts: Sequence[Aggregate],
    atoms: Atoms,
    possible: NDArray[np.bool_],
    *,
    keyed: bool,
    grouped: bool,
) -> _Seen:
    """One count at a time: all labels at once are many times as large as the bits that are kept of them."""
    held: NDArray[np.uint8] = np.zeros((len(counts), -(-len(atoms) // 8)), dtype=np.uint8)
    every_row = []
    for at in range(len(counts)):
        label = atoms.labels(at)
        held[at] = np.packbits(label > 0)
        every_row.append(bool(label.all()))
        if grouped:
            possible[at] = np.isin(np.arange(1, possible.shape[1] + 1), label)
    apart = not keyed or len(counts) < 2 or not all(_of_rows(schema, one) for one in counts)
    parts = None if apart else _parts(schema, counts, atoms, held, possible.shape[1])
    return _Seen(every_row, possible, _included(schema, counts, held), parts)


def _names(query: Query) -> tuple[str, ...]:
    """What the counts are called in the reply."""
    told = {output.aggregate: output.label for output in reversed(query.presentation.outputs)}
    places = [at for at, one in enumerate(query.aggregates) if one.function in COUNTS]
    return tuple(told.get(at, query.aggregates[at].function) for at in places)


def _predicate(schema: Schema, query: Query, one: Aggregate) -> Predicate:
    """The rows that a count counts."""
    if one.column is None:
        return All((query.where, one.where))
    return All((query.where, one.where, replace(whole(schema.column(one.column)), null=False)))


def _of_rows(schema: Schema, one: Aggregate) -> bool:
    """Whether it counts rows; units are rows where each has one."""
    return one.function == "count" or schema.rows == 1


def _ends(schema: Schema, one: Aggregate, every_row: bool, grouped: bool) -> Ends:
    """Of a public number of units, each of which has a row and at most `rows` of them."""
    if schema.units is None:
        return Ends()
    least, rows = schema.units if every_row else 0, schema.units * schema.rows
    if _of_rows(schema, one):
        return Ends(least, rows, rows)
    return Ends(least, rows if grouped else schema.units, schema.units)


def _parts(
    schema: Schema, counts: Sequence[Aggregate], atoms: Atoms, held: NDArray[np.uint8], cells: int
) -> Parts | None:
    """The atoms that are counted at all; None where there are none, or too many."""
    counted = np.unpackbits(np.bitwise_or.reduce(held), count=len(atoms)).astype(np.bool_)
    many = int(counted.sum())
    if not 0 < many <= MOST_PARTS or len(counts) * max(many, cells) > MOST_COUNTED:
        return None
    labels = np.stack([atoms.labels(at)[counted].astype(np.int64) for at in range(len(counts))])
    return Parts(labels, _ends(schema, counts[0], bool(counted.all()), grouped=True))


def _chain(schema: Schema, keys: tuple[Key, ...]) -> tuple[int, ...]:
    """The cells of the one key in the order in which its counts rise by declaration; that of missing values apart.

    True of single values it is true of bins of w of them: the i-th value of a bin and the i-th of the next are w apart,
    and compare in the same way; so do their sums. A last bin of fewer values is less still, so it fits where counts
    fall, and is left out where they rise.
    """
    if len(keys) != 1 or schema.column(keys[0].column).counts is None:
        return ()
    column, width = schema.column(keys[0].column), keys[0].width
    full, rest = divmod(column.size, width)
    if column.counts == "rising":
        return tuple(range(full))
    return tuple(reversed(range(full + bool(rest))))


def _included(schema: Schema, counts: Sequence[Aggregate], held: NDArray[np.uint8]) -> Pairs:
    """Which count is at most which other in every cell, those that follow from others left out.

    `held`: by count, in bits, the atoms that it counts.
    """
    many = range(len(held))
    rows = [_of_rows(schema, one) for one in counts]
    below = np.array(
        [[(rows[j] or not rows[i]) and not np.any(held[i] & ~held[j]) for j in many] for i in many], dtype=np.bool_
    )
    proper = below & ~below.T
    through = proper.astype(np.int64) @ proper.astype(np.int64) > 0
    return tuple((int(i), int(j)) for i, j in np.argwhere(proper & ~through))


def _words(schema: Schema, query: Query, made: Structure) -> Iterator[str]:
    """What else holds, for people."""
    smaller = {at for at, _ in made.pairs}
    for at, (name, ends, possible) in enumerate(zip(made.names, made.ends, made.possible, strict=True)):
        all_of = "all counts" if len(made.names) == 1 else f"all of {name}"
        what = f"{all_of} add up to" if query.keys else f"{name} is"
        if at not in smaller and ends.most is not None and (made.parts is None or ends.least):
            yield _sum_words(schema, what, ends.least, ends.most)
        if not possible.all():
            count = int((~possible).sum())
            yield f"{count:,} of the {len(possible):,} cells of {name} cannot have a row, so they are 0"
    if made.chain:
        name = query.keys[0].column
        yield f"the counts are {schema.column(name).counts} with {name}, as the schema declares"
    if made.parts is None:
        yield from (f"{made.names[i]} is at most {made.names[j]} in every row" for i, j in made.pairs)
        return
    yield OF_PARTS
    whole_sum = made.parts.ends
    if whole_sum.most is not None and not any(ends.least for ends in made.ends):
        yield _sum_words(schema, "the parts add up to", whole_sum.least, whole_sum.most)


def _sum_words(schema: Schema, what: str, least: int, most: int) -> str:
    if least == most:
        return f"{what} the public number of units, {most:,}"
    above = f"at least {least:,} and " if least else ""
    rows = "" if schema.rows == 1 else f", {schema.rows} rows of each"
    return f"{what} {above}at most {most:,}: there are {schema.units:,} units{rows}"
