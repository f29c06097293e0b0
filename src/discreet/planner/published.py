"""What exact counts that were published before tell together with an answer. Proof: inference/rho.md.

Whoever knows a published count can refine the noisy counts it is the sum of, and what is refined is no longer protected
by the noise as the answer is: every label says by how much. All together have no bound. A number apart is protected as
far as one row can be exchanged for another that every published count counts alike, and that the number does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.exact import rational_text
from discreet.formatting import format_cost
from discreet.planner.atoms import Codes, Count, Grid, Labels, laid_out
from discreet.planner.nested import Nested
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Known, Measurement
from discreet.planner.tally import count_of
from discreet.query import parse_sql
from discreet.query.canonical import simplify
from discreet.query.predicate import FALSE, TRUE, Predicate
from discreet.query.query import Aggregate, Query
from discreet.schema import Published, Schema

MOST_CELLS = 100_000
"""Of a grid, so that a plan takes hardly longer for what is published."""
MOST_PAIRED = 200
"""Kinds of rows that are looked at in pairs."""
MOST_TOGETHER = 38
"""Published counts, so that what they say of a row fits into 64 bits, three values each, with one for all rows."""
UNTOLD = "what it adds to this answer cannot be told"
Truths = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class Told:
    """What the noisy counts of an answer, and the published ones, say of each kind of row.

    `known`: the number of all rows is public too, so that a row can only be exchanged, not left out.
    """

    counts: tuple[Labels, ...]
    published: tuple[Truths, ...]
    known: bool

    def refined_by(self, place: int) -> bool:
        """Whether a published count, or what it leaves of a public total, is the sum of cells of one of the counts."""
        inside = self.published[place]
        regions = (inside, ~inside) if self.known else (inside,)
        return any(_is_sum(region, labels) for region in regions for labels in self.counts)

    def exchanged(self, places: Sequence[int]) -> int | None:
        """How many rows must come or go, at most, so that one number changes by one row and no published count does.

        1 where none counts some row of every number; 2 where another row is counted alike, and not by the number; 4
        where three others make up for it; None where no such are found.
        """
        if len(places) > MOST_TOGETHER:
            return None
        regions = [self.published[place] for place in places] + [np.ones_like(self.published[0])] * self.known
        codes: Codes = np.zeros(len(self.published[0]), dtype=np.int64)
        for place, region in enumerate(regions):
            codes += 3**place * region
        free = all(_all_cells(labels, codes == 0) for labels in self.counts)
        if free or all(_all_cells(labels, (codes == 0) | _matched(labels, codes)) for labels in self.counts):
            return 1 if free else 2
        return 4 if len(self.counts) == 1 and _made_up(self.counts[0], codes) else None


def check_published(schema: Schema) -> None:
    """Refuse a schema with a published question that is not one count of its table, or with a value it cannot have."""
    values: dict[Predicate, tuple[int, str]] = {}
    for one in schema.published:
        count = _counted(one, schema)
        if count is None:
            continue
        predicate, value = simplify(count.predicate, schema), _value(one, schema)
        _check_public(one, predicate, value, schema)
        first, name = values.setdefault(predicate, (value, one.statistic))
        if value != first:
            raise InvalidInput(
                f"what is published as {name[:40]!r} and as {one.statistic[:40]!r} is one question with two values; "
                "keep the right one"
            )


def published_count(one: Published, schema: Schema) -> tuple[Predicate, int] | None:
    """Which rows a published count is of, and how many there are; None where it is no count of rows."""
    count = _counted(one, schema)
    return None if count is None else (simplify(count.predicate, schema), _value(one, schema))


def beside(schema: Schema, query: Query, measurements: Sequence[Measurement], loss: Fraction | None) -> tuple[str, ...]:
    """What a label says of each published statistic, and of all counts among them; `loss` is the answer's epsilon."""
    counted = [_counted(one, schema) for one in schema.published]
    told = _told(schema, query, measurements, counted) if any(counted) and loss is not None else None
    said, useful = [], []
    for place, (one, count) in enumerate(zip(schema.published, counted, strict=True)):
        meaning = UNTOLD
        if count is not None and count.predicate == TRUE and _rows_are_public(schema):
            meaning = "it is the same for all neighbours, so it adds nothing"
        elif count is not None and told is not None and loss is not None:
            useful.append(place)
            meaning = _meaning(told, place, schema, loss)
        said.append(f"published exactly before: {one.statistic} = {one.value}; {meaning}")
    if len(useful) > 1 and told is not None and loss is not None:
        said.append(f"whoever refines this answer by all these counts linearly: {_bound(told, useful, schema, loss)}")
    return tuple(said)


def _counted(one: Published, schema: Schema) -> Count | None:
    """The published count as a count of this table; None where it has no question."""
    if one.question is None:
        return None
    name = f"the question of what is published as {one.statistic[:40]!r}"
    try:
        query = parse_sql(one.question, schema)
    except (InvalidInput, Unsupported) as refused:
        raise InvalidInput(f"{name} cannot be read: {refused}") from None
    kinds = [aggregate.function for aggregate in query.aggregates]
    if kinds != ["count"] or query.keys or query.presentation.having:
        raise InvalidInput(f"{name} must be one count of rows, such as SELECT COUNT(*) FROM {schema.name}")
    return count_of(query.aggregates[0], query, schema, Fraction(1))


def _value(one: Published, schema: Schema) -> int:
    """A published count as a number that the table can have."""
    most = None if schema.units is None else schema.units * schema.rows
    try:
        value = rational_text(one.value)
    except InvalidInput:
        value = Fraction(-1)
    if value.denominator > 1 or value < 0 or (most is not None and value > most):
        allowed = "of at least 0" if most is None else f"from 0 to {most}, the most rows there can be"
        raise InvalidInput(
            f"what is published as {one.statistic[:40]!r} has a question, a count, so its value must be a whole number "
            f"{allowed}, got {one.value[:40]!r}"
        )
    return int(value)


def _check_public(one: Published, predicate: Predicate, value: int, schema: Schema) -> None:
    """A count of no row is 0, and one of all is the number of units where each is a row."""
    public = 0 if predicate == FALSE else None
    if predicate == TRUE and _rows_are_public(schema):
        public = schema.units
    if public is not None and value != public:
        raise InvalidInput(
            f"what is published as {one.statistic[:40]!r} is {public} by the schema, got {value}; mend one of them"
        )


def _rows_are_public(schema: Schema) -> bool:
    return schema.units is not None and schema.rows == 1


def _told(
    schema: Schema, query: Query, measurements: Sequence[Measurement], published: Sequence[Count | None]
) -> Told | None:
    """None where a number is not a count with noise added, or there are too many kinds of rows."""
    pairs = zip(query.aggregates, measurements, strict=False)
    noisy = [(one, measured) for one, measured in pairs if not isinstance(measured, Known)]
    units = schema.rows == 1  # a count of units is one of rows
    functions = {"count", "count_distinct"} if units else {"count"}
    plain = (one.function in functions and isinstance(measured, Noisy | Nested) for one, measured in noisy)
    if not noisy or not all(plain):
        return None
    counts = [part for one, measured in noisy for part in _levels(one, measured, query, schema)]
    regions = [Count(TRUE, Fraction(1)) if one is None else one for one in published]
    grid = Grid(schema, [*counts, *regions])
    if grid.cells is None or grid.cells > MOST_CELLS:
        return None
    with laid_out(grid) as atoms:
        labels = [atoms.labels(place) for place in range(len(counts) + len(regions))]
    inside = tuple(label > 0 for label in labels[len(counts) :])
    return Told(tuple(labels[: len(counts)]), inside, _rows_are_public(schema))


def _levels(one: Aggregate, measured: Measurement, query: Query, schema: Schema) -> list[Count]:
    """The counts that are told: of a ROLLUP those of every level but a public one, else those of the cells."""
    count = count_of(one, query, schema, Fraction(1))
    if query.nesting != "rollup" or not isinstance(measured, Nested):
        return [count]
    first = 0 if measured.known is None else 1
    return [replace(count, keys=query.keys[:keys]) for keys in range(first, len(query.keys) + 1)]


def _meaning(told: Told, place: int, schema: Schema, loss: Fraction) -> str:
    if told.refined_by(place):
        return f"whoever refines this answer by it linearly: {_bound(told, [place], schema, loss)}"
    several = len(told.counts) > 1  # then it may be a sum of cells of several of them
    return UNTOLD if several else "it is no sum of the counts of this answer, together with others it may be"


def _bound(told: Told, places: Sequence[int], schema: Schema, loss: Fraction) -> str:
    rows = told.exchanged(places)
    if rows is None:
        return "no bound for each number apart, nor for all together"
    steps = rows if schema.neighbours == "add-remove" else -(-rows // 2)
    return f"rho {format_cost(steps * loss)} for each number apart, no bound for all together or if cut at 0 as well"


def _is_sum(region: Truths, labels: Labels) -> bool:
    """Whether a region is made of cells, some at least."""
    sizes = np.bincount(labels)
    held = np.bincount(labels[region], minlength=len(sizes))
    return bool(held.any()) and not held[0] and bool(((held == 0) | (held == sizes)).all())


def _all_cells(labels: Labels, kinds: Truths) -> bool:
    """Whether every cell counts some of these kinds of rows."""
    sizes = np.bincount(labels)
    return bool((sizes > 0)[1:].sum() == (np.bincount(labels[kinds], minlength=len(sizes)) > 0)[1:].sum())


def _matched(labels: Labels, codes: Codes) -> Truths:
    """The kinds of rows that have another, outside their cell, that is published alike."""
    _, code, alike = np.unique(codes, return_inverse=True, return_counts=True)
    _, both, here = np.unique(labels.astype(np.int64) * len(alike) + code, return_inverse=True, return_counts=True)
    return np.asarray(here[both] < alike[code])


def _made_up(labels: Labels, codes: Codes) -> bool:
    """Whether, for each cell without a match, it and some other cell are together published as two further ones are.

    A cell that nothing published counts is among them, there or not; cells that are cut have no such.
    """
    cells, first = np.unique(labels, return_index=True)
    own = codes[first][cells > 0]
    whole = (codes == codes[first][np.searchsorted(cells, labels)])[labels > 0].all()
    if not whole or len(own) > MOST_PAIRED:
        return False
    kinds = np.append(own, 0)
    sums = kinds[:, None] + kinds[None, :]
    pairs, counts = np.unique(sums[np.triu_indices(len(kinds))], return_counts=True)
    alike = (kinds[:, None] == kinds[None, :]).sum(axis=0)
    others = counts[np.searchsorted(pairs, sums)] > alike[None, :]
    np.fill_diagonal(others, val=False)
    single = (alike == 1)[:-1] & (own > 0)
    return bool(others.any(axis=1)[:-1][single].all())
