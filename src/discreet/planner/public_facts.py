"""What is public besides the schema's bounds: published counts, structural zeros, public marginals.

Whoever knows a published count can refine the noisy counts it is the sum of, and what is refined is no longer protected
by the noise as the answer is: every label says by how much. All together have no bound. A number apart is protected as
far as one row can be exchanged for another that every published count counts alike, and that the number does not count.
Proof: estimation/refinement_cost.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported, restate_error
from discreet.formatting import format_cost
from discreet.measurements.base import Measurement
from discreet.numeric import parse_rational
from discreet.planner.domain_partition import Codes, CountQuery, DomainGrid, Labels, lay_out_atoms
from discreet.planner.session_budget import build_count_query
from discreet.query.predicates import FALSE, TRUE, AllOf, InRanges, InTexts, Predicate, simplify_predicate
from discreet.query.query import Aggregate, Query
from discreet.query.resolve import parse_sql
from discreet.query.scan import MISSING_CODE
from discreet.schema import PublishedStatistic, Schema

KindMask = NDArray[np.bool_]
MAX_KINDS = 2**20
"""Kinds of rows that declared conditions may tell apart."""
MAX_PUBLISHED_CELLS = 100_000
"""Of a grid, so that a plan takes hardly longer for what is published."""
MAX_PAIRED_KINDS = 200
"""Kinds of rows that are looked at in pairs."""
MAX_PUBLISHED_COUNTS = 38
"""Published counts, so that what they say of a row fits into 64 bits, three values each, with one for all rows."""
UNKNOWN_EFFECT = "what it adds to this answer cannot be told"


@dataclass(frozen=True, slots=True)
class StructuralZeros:
    """Predicates that hold of no row; the code of a missing value is MISSING_CODE."""

    predicates: tuple[Predicate, ...] = ()

    def restrict_to(self, names: Sequence[str]) -> StructuralZeros:
        """Keep those that are about these columns alone."""
        known = [predicate for predicate in self.predicates if {*list_predicate_columns(predicate)} <= {*names}]
        return StructuralZeros(tuple(known))

    def find_impossible_rows(self, codes: Mapping[str, Codes]) -> KindMask:
        """Find the rows that cannot be, by their codes in each column."""
        is_impossible = np.zeros(len(next(iter(codes.values()))), dtype=np.bool_)
        for predicate in self.restrict_to(tuple(codes)).predicates:
            is_impossible |= _evaluate_on_codes(predicate, codes)
        return is_impossible

    def find_change_points(self, name: str) -> tuple[int, ...]:
        """List the codes of a column at which what is possible may change."""
        conditions = _list_column_conditions(self.predicates, name)
        ranges = chain.from_iterable(item.ranges for item in conditions if isinstance(item, InRanges))
        return tuple(sorted({code for low, high in ranges for code in (low, high + 1)}))

    def find_possible_row(self, domains: Mapping[str, Codes]) -> dict[str, int]:
        """Find one code of each column, of those given, that can all be together; refused where there are none.

        Codes that no condition tells apart are alike, so that one of each kind is looked at.
        """
        names = {column for predicate in self.predicates for column in list_predicate_columns(predicate)}
        kinds = {name: _select_kinds(self.predicates, name, domains[name]) for name in domains if name in names}
        if math.prod(map(len, kinds.values())) > MAX_KINDS:
            raise Unsupported(
                "what is declared impossible tells too many kinds of rows apart; declare fewer conditions"
            )
        row = {name: int(codes[0]) for name, codes in domains.items()}
        if not kinds:
            return row
        grids = np.meshgrid(*kinds.values(), indexing="ij")
        combinations = {name: grid.ravel() for name, grid in zip(kinds, grids, strict=True)}
        is_possible = ~self.find_impossible_rows(combinations)
        if not is_possible.any():
            raise InvalidInput("what is declared impossible leaves no row that can be; correct it in the schema")
        first = int(is_possible.argmax())
        return row | {name: int(codes[first]) for name, codes in combinations.items()}

    def find_empty_cells(self, first: tuple[str, Sequence[Codes]], second: tuple[str, Sequence[Codes]]) -> KindMask:
        """Find the empty cells of a table of two columns, each given by its name and the codes of each of its bins.

        A cell is empty where no two codes of its bins can be together. Codes that no condition tells apart are alike,
        so that one of each kind is looked at.
        """
        (first_name, first_bins), (second_name, second_bins) = first, second
        predicates = self.restrict_to((first_name, second_name)).predicates
        is_empty = np.zeros((len(first_bins), len(second_bins)), dtype=np.bool_)
        if not predicates:
            return is_empty
        second_kinds = [_select_kinds(predicates, second_name, codes) for codes in second_bins]
        for i, codes in enumerate(first_bins):
            first_codes = _select_kinds(predicates, first_name, codes)
            for j, second_codes in enumerate(second_kinds):
                repeated = np.repeat(first_codes, len(second_codes))
                pairs = {first_name: repeated, second_name: np.tile(second_codes, len(first_codes))}
                is_empty[i, j] = bool(self.find_impossible_rows(pairs).all())
        return is_empty


def read_structural_zeros(schema: Schema) -> StructuralZeros:
    """Read what the schema declares impossible, and check it against its columns."""
    predicates = []
    for text in schema.impossible:
        try:
            query = parse_sql(f"SELECT COUNT(*) FROM {schema.name} WHERE {text}", schema)
        except (InvalidInput, Unsupported) as error:
            raise restate_error(error, f"what is declared impossible, {text[:60]!r}, cannot be read: {error}") from None
        if query.keys or any(schema.column(name).private_keys for name in list_predicate_columns(query.where)):
            raise InvalidInput(
                f"what is declared impossible, {text[:60]!r}, must be a condition on columns with public domains"
            )
        predicates.append(query.where)
    return StructuralZeros(tuple(predicates))


def list_predicate_columns(predicate: Predicate) -> tuple[str, ...]:
    """List the columns that a predicate is about."""
    return tuple(dict.fromkeys(condition.column for condition in _list_conditions(predicate)))


def _list_conditions(predicate: Predicate) -> Iterator[InRanges | InTexts]:
    if isinstance(predicate, InRanges | InTexts):
        return iter((predicate,))
    return chain.from_iterable(map(_list_conditions, predicate.parts))


def _list_column_conditions(predicates: Sequence[Predicate], name: str) -> list[InRanges | InTexts]:
    conditions = chain.from_iterable(map(_list_conditions, predicates))
    return [condition for condition in conditions if condition.column == name]


def _select_kinds(predicates: Sequence[Predicate], name: str, codes: Codes) -> Codes:
    """One code of each kind that the conditions on a column tell apart."""
    conditions = _list_column_conditions(predicates, name)
    outcomes = [_evaluate_on_codes(condition, {name: codes}) for condition in conditions]
    distinct = np.unique(np.stack(outcomes or [np.zeros(len(codes), dtype=np.bool_)]), axis=1, return_index=True)
    return codes[distinct[1]]


def _evaluate_on_codes(predicate: Predicate, codes: Mapping[str, Codes]) -> KindMask:
    """Which rows, by their codes in each column, a predicate holds of."""
    if isinstance(predicate, InRanges):
        column_codes = codes[predicate.column]
        is_inside = np.zeros(len(column_codes), dtype=np.bool_)
        for low, high in predicate.ranges:
            is_inside |= (column_codes >= low) & (column_codes <= high)
        return np.where(column_codes == MISSING_CODE, predicate.null, is_inside)
    if isinstance(predicate, InTexts):
        raise InvalidInput("a condition on texts cannot be declared impossible")
    combine = np.logical_and if isinstance(predicate, AllOf) else np.logical_or
    holds = np.full(len(next(iter(codes.values()))), isinstance(predicate, AllOf))
    for part in predicate.parts:
        holds = combine(holds, _evaluate_on_codes(part, codes))
    return holds


@dataclass(frozen=True, eq=False, slots=True)
class PublishedOverlap:
    """What the noisy counts of an answer, and the published ones, say of each kind of row.

    Where `has_public_rows`, the number of all rows is public too: a row can only be exchanged, not left out.
    """

    counts: tuple[Labels, ...]
    published: tuple[KindMask, ...]
    has_public_rows: bool

    def is_refined_by(self, place: int) -> bool:
        """Whether a published count, or what it leaves of a public total, is the sum of cells of one of the counts."""
        inside = self.published[place]
        regions = (inside, ~inside) if self.has_public_rows else (inside,)
        return any(_is_sum(region, labels) for region in regions for labels in self.counts)

    def count_exchanged_rows(self, places: Sequence[int]) -> int | None:
        """Count the rows that must come or go, at most, so that one number changes by a row and no published one does.

        1 where none counts some row of every number; 2 where another row is counted alike, and not by the number; 4
        where three others make up for it; None where no such are found.
        """
        if len(places) > MAX_PUBLISHED_COUNTS:
            return None
        regions = [self.published[place] for place in places] + [np.ones_like(self.published[0])] * self.has_public_rows
        codes: Codes = np.zeros(len(self.published[0]), dtype=np.int64)
        for place, region in enumerate(regions):
            codes += 3**place * region
        is_uncounted = codes == 0
        if all(_covers_all_cells(labels, is_uncounted) for labels in self.counts):
            return 1
        if all(_covers_all_cells(labels, is_uncounted | _find_matched_kinds(labels, codes)) for labels in self.counts):
            return 2
        return 4 if len(self.counts) == 1 and _has_compensating_cells(self.counts[0], codes) else None


def check_published(schema: Schema) -> None:
    """Refuse a schema with a published question that is not one count of its table, or with a value it cannot have."""
    values: dict[Predicate, tuple[int, str]] = {}
    for statistic in schema.published:
        count = read_published_count(statistic, schema)
        if count is None:
            continue
        predicate, value = count
        _check_public_value(statistic, predicate, value, schema)
        first_value, name = values.setdefault(predicate, (value, statistic.statistic))
        if value != first_value:
            raise InvalidInput(
                f"what is published as {name[:40]!r} and as {statistic.statistic[:40]!r} is one question with "
                "two values; "
                "keep the right one"
            )


def read_published_count(statistic: PublishedStatistic, schema: Schema) -> tuple[Predicate, int] | None:
    """Read which rows a published count is of, and how many there are; None where it is no count of rows."""
    count = _parse_published(statistic, schema)
    if count is None:
        return None
    return simplify_predicate(count.predicate, schema), _parse_published_value(statistic, schema)


def describe_published(
    schema: Schema, query: Query, measurements: Sequence[Measurement], epsilon: Fraction | None
) -> tuple[str, ...]:
    """State what each published statistic adds to an answer of this epsilon, and all counts among them together."""
    published_counts = [_parse_published(statistic, schema) for statistic in schema.published]
    overlap = None
    if any(published_counts) and epsilon is not None:
        overlap = _find_overlap(schema, query, measurements, published_counts)
    sentences, useful = [], []
    for place, (statistic, count) in enumerate(zip(schema.published, published_counts, strict=True)):
        effect = UNKNOWN_EFFECT
        if count is not None and count.predicate == TRUE and _has_public_rows(schema):
            effect = "it is the same for all neighbours, so it adds nothing"
        elif count is not None and overlap is not None and epsilon is not None:
            useful.append(place)
            effect = _describe_effect(overlap, place, schema, epsilon)
        sentences.append(f"published exactly before: {statistic.statistic} = {statistic.value}; {effect}")
    if len(useful) > 1 and overlap is not None and epsilon is not None:
        bound = _format_rho_bound(overlap, useful, schema, epsilon)
        sentences.append(f"whoever refines this answer by all these counts linearly: {bound}")
    return tuple(sentences)


def _parse_published(statistic: PublishedStatistic, schema: Schema) -> CountQuery | None:
    """The published count as a count of this table; None where it has no question."""
    if statistic.question is None:
        return None
    name = f"the question of what is published as {statistic.statistic[:40]!r}"
    try:
        query = parse_sql(statistic.question, schema)
    except (InvalidInput, Unsupported) as error:
        raise restate_error(error, f"{name} cannot be read: {error}") from None
    kinds = [aggregate.function for aggregate in query.aggregates]
    if kinds != ["count"] or query.keys or query.presentation.having:
        raise InvalidInput(f"{name} must be one count of rows, such as SELECT COUNT(*) FROM {schema.name}")
    return build_count_query(query.aggregates[0], query, schema, Fraction(1))


def _parse_published_value(statistic: PublishedStatistic, schema: Schema) -> int:
    """A published count as a number that the table can have."""
    max_rows = None if schema.units is None else schema.units * schema.rows
    try:
        value = parse_rational(statistic.value)
    except InvalidInput:
        value = Fraction(-1)
    if value.denominator > 1 or value < 0 or (max_rows is not None and value > max_rows):
        allowed = "of at least 0" if max_rows is None else f"from 0 to {max_rows}, the most rows there can be"
        raise InvalidInput(
            f"what is published as {statistic.statistic[:40]!r} has a question, a count, so its value must be a "
            f"whole number {allowed}, got {statistic.value[:40]!r}"
        )
    return int(value)


def _check_public_value(statistic: PublishedStatistic, predicate: Predicate, value: int, schema: Schema) -> None:
    """A count of no row is 0, and one of all is the number of units where each is a row."""
    public = 0 if predicate == FALSE else None
    if predicate == TRUE and _has_public_rows(schema):
        public = schema.units
    if public is not None and value != public:
        raise InvalidInput(
            f"what is published as {statistic.statistic[:40]!r} is {public} by the schema, "
            f"got {value}; mend one of them"
        )


def _has_public_rows(schema: Schema) -> bool:
    return schema.units is not None and schema.rows == 1


def _find_overlap(
    schema: Schema, query: Query, measurements: Sequence[Measurement], published_counts: Sequence[CountQuery | None]
) -> PublishedOverlap | None:
    """The overlap, None where a number is not a count with noise added, or there are too many kinds of rows."""
    pairs = ((index, item) for item in measurements for index in item.aggregates if not item.is_public)
    noisy = [(query.aggregates[index], item) for index, item in pairs if index < len(query.aggregates)]
    functions = {"count", "count_distinct"} if schema.rows == 1 else {"count"}  # then a count of units is one of rows
    are_noisy_counts = all(aggregate.function in functions and item.independent_noises for aggregate, item in noisy)
    if not noisy or not are_noisy_counts:
        return None
    counts = [part for aggregate, item in noisy for part in _list_level_counts(aggregate, item, query, schema)]
    regions = [count or CountQuery(TRUE, Fraction(1)) for count in published_counts]
    grid = DomainGrid(schema, [*counts, *regions])
    if grid.cells is None or grid.cells > MAX_PUBLISHED_CELLS:
        return None
    with lay_out_atoms(grid) as atoms:
        labels = [atoms.get_labels(place) for place in range(len(counts) + len(regions))]
    inside = tuple(label > 0 for label in labels[len(counts) :])
    return PublishedOverlap(tuple(labels[: len(counts)]), inside, _has_public_rows(schema))


def _list_level_counts(
    aggregate: Aggregate, measurement: Measurement, query: Query, schema: Schema
) -> list[CountQuery]:
    """The counts of a reply: of a ROLLUP those of every level but a public one, else those of the cells."""
    count = build_count_query(aggregate, query, schema, Fraction(1))
    if query.nesting != "rollup" or measurement.hierarchy is None:
        return [count]
    first = 0 if measurement.hierarchy.public_total is None else 1
    return [replace(count, keys=query.keys[:keys]) for keys in range(first, len(query.keys) + 1)]


def _describe_effect(overlap: PublishedOverlap, place: int, schema: Schema, epsilon: Fraction) -> str:
    if overlap.is_refined_by(place):
        return f"whoever refines this answer by it linearly: {_format_rho_bound(overlap, [place], schema, epsilon)}"
    several = len(overlap.counts) > 1  # then it may be a sum of cells of several of them
    return UNKNOWN_EFFECT if several else "it is no sum of the counts of this answer, together with others it may be"


def _format_rho_bound(overlap: PublishedOverlap, places: Sequence[int], schema: Schema, epsilon: Fraction) -> str:
    rows = overlap.count_exchanged_rows(places)
    if rows is None:
        return "no bound for each number apart, nor for all together"
    steps = rows if schema.neighbors == "add-remove" else -(-rows // 2)
    return f"rho {format_cost(steps * epsilon)} for each number apart, no bound for all together or if cut at 0 as well"


def _is_sum(region: KindMask, labels: Labels) -> bool:
    """Whether a region is made of cells, some at least."""
    sizes = np.bincount(labels)
    region_sizes = np.bincount(labels[region], minlength=len(sizes))
    has_whole_cells = ((region_sizes == 0) | (region_sizes == sizes)).all()
    return bool(region_sizes.any() and not region_sizes[0] and has_whole_cells)


def _covers_all_cells(labels: Labels, kinds: KindMask) -> bool:
    """Whether every cell counts some of these kinds of rows."""
    sizes = np.bincount(labels)
    return bool((sizes > 0)[1:].sum() == (np.bincount(labels[kinds], minlength=len(sizes)) > 0)[1:].sum())


def _find_matched_kinds(labels: Labels, codes: Codes) -> KindMask:
    """The kinds of rows that have another, outside their cell, that is published alike."""
    _, code, alike = np.unique(codes, return_inverse=True, return_counts=True)
    cell_code = labels.astype(np.int64) * len(alike) + code
    _, cell_codes, cell_counts = np.unique(cell_code, return_inverse=True, return_counts=True)
    return np.asarray(cell_counts[cell_codes] < alike[code])


def _has_compensating_cells(labels: Labels, codes: Codes) -> bool:
    """Whether, for each cell without a match, it and some other cell are together published as two further ones are.

    A cell that nothing published counts is among them, there or not; cells that are cut have no such.
    """
    cells, first = np.unique(labels, return_index=True)
    cell_codes = codes[first][cells > 0]
    is_uncut = (codes == codes[first][np.searchsorted(cells, labels)])[labels > 0].all()
    if not is_uncut or len(cell_codes) > MAX_PAIRED_KINDS:
        return False
    kinds = np.append(cell_codes, 0)
    sums = kinds[:, None] + kinds[None, :]
    pairs, counts = np.unique(sums[np.triu_indices(len(kinds))], return_counts=True)
    alike = (kinds[:, None] == kinds[None, :]).sum(axis=0)
    others = counts[np.searchsorted(pairs, sums)] > alike[None, :]
    np.fill_diagonal(others, val=False)
    single = (alike == 1)[:-1] & (cell_codes > 0)
    return bool(others.any(axis=1)[:-1][single].all())


@dataclass(frozen=True, slots=True)
class PublicMarginal:
    """The number of rows that satisfy a condition on one column."""

    column: str
    where: Predicate
    rows: int


def list_public_marginals(schema: Schema) -> tuple[PublicMarginal, ...]:
    """List the published counts of rows that are about one column."""
    counts = filter(None, (read_published_count(statistic, schema) for statistic in schema.published))
    by_columns = [(list_predicate_columns(where), where, rows) for where, rows in counts]
    return tuple(PublicMarginal(columns[0], where, rows) for columns, where, rows in by_columns if len(columns) == 1)
