"""How far one unit moves many counts together: against every row, and every pair of units, of small domains."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import lcm
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.planner.domain_partition import CountQuery, DomainGrid
from discreet.planner.session_budget import (
    LABEL_COST,
    compute_atom_distances,
    find_farthest_changes,
    find_worst_case,
)
from discreet.privacy.guarantee import NeighborRelation
from discreet.query import parse_sql
from discreet.query.predicates import (
    FALSE,
    TRUE,
    AllOf,
    AnyOf,
    InRanges,
    InTexts,
    Predicate,
    build_ranges,
    is_satisfied,
)
from discreet.query.query import GroupKey
from discreet.schema import Budget, Column, Schema
from discreet.schema.schema import DerivedCodes
from support.small_tables import schema as of_all_kinds

Row = dict[str, int | str | None]
Vector = tuple[int, ...]

COLUMNS = (
    Column("age", "integer", lower=-1, upper=2),
    Column("sex", "nominal", upper=2, categories=("F", "M", "X"), missing=0),
    Column("sex.rank", "integer", lower=5, upper=7, derived=DerivedCodes("sex", (7, None, 5))),
    Column("city", "nominal", private_keys=True),
)
SMALL = Schema(
    name="t",
    source="t.csv",
    folder=Path(),
    neighbors="add-remove",
    columns={column.name: column for column in COLUMNS},
    budget=Budget(Fraction(1)),
    analyst_budget=Budget(Fraction(1)),
)
EVERY_ROW: list[Row] = [
    {"age": age, "sex": sex, "sex.rank": (7, None, 5)[sex], "city": city}
    for age, sex, city in product((None, -1, 0, 1, 2), range(3), (None, "Oslo", "Rome", "any other"))
]
SCALES = [Fraction(1), Fraction(2), Fraction(3, 2), Fraction(20), Fraction(7, 3)]
RELATIONS: list[tuple[NeighborRelation, int]] = [
    ("add-remove", 1),
    ("add-remove", 2),
    ("replace-one", 1),
    ("replace-one", 2),
]

st_conditions = st.one_of(
    st.builds(InRanges, st.just("age"), st.sets(st.integers(-3, 4)).map(build_ranges), st.booleans()),
    st.builds(InRanges, st.just("sex"), st.sets(st.integers(0, 2)).map(build_ranges)),
    st.builds(InRanges, st.just("sex.rank"), st.sets(st.integers(5, 7)).map(build_ranges), st.booleans()),
    st.builds(
        InTexts, st.just("city"), st.sampled_from([(), ("Oslo",), ("Oslo", "Rome")]), st.booleans(), st.booleans()
    ),
)
st_predicates = st.recursive(
    st_conditions,
    lambda inner: (
        st.builds(AllOf, st.lists(inner, max_size=3).map(tuple))
        | st.builds(AnyOf, st.lists(inner, max_size=3).map(tuple))
    ),
    max_leaves=6,
)
st_keys = st.sampled_from(
    [
        (),
        (),
        (),
        (GroupKey("age"),),
        (GroupKey("age", 3),),
        (GroupKey("sex"), GroupKey("age", 2)),
        (GroupKey("sex.rank"),),
        (GroupKey("sex", 2),),
    ]
)
st_counts = st.lists(st.builds(CountQuery, st_predicates, st.sampled_from(SCALES), st_keys), min_size=1, max_size=5)


def find_cell(key: GroupKey, row: Row) -> int | None:
    value = row[key.column]
    return (value - SMALL.column(key.column).lower) // key.width if isinstance(value, int) else None


def list_vectors(counts: Sequence[CountQuery], rows: Sequence[Row] = EVERY_ROW) -> dict[Vector, None]:
    """What each row adds to every count in every cell, written out; the plain definition, in no clever way."""
    cells = [sorted({tuple(find_cell(key, row) for key in count.keys) for row in rows}, key=str) for count in counts]
    return dict.fromkeys(
        tuple(
            int(is_satisfied(count.predicate, row) and tuple(find_cell(key, row) for key in count.keys) == cell)
            for count, cells_of_count in zip(counts, cells, strict=True)
            for cell in cells_of_count
        )
        for row in rows
    )


def list_weights(counts: Sequence[CountQuery]) -> list[Fraction]:
    """1 / scale for each place of a vector."""
    sizes = [len({tuple(find_cell(key, row) for key in count.keys) for row in EVERY_ROW}) for count in counts]
    return [1 / count.scale for count, size in zip(counts, sizes, strict=True) for _ in range(size)]


def add_rows(rows: Sequence[Vector], size: int) -> Vector:
    return tuple(sum(row[place] for row in rows) for place in range(size))


def compute_by_definition(counts: Sequence[CountQuery], neighbors: NeighborRelation, rows: int) -> Fraction:
    """The largest sum of |change| / scale over all units of up to r rows, come, gone or replaced."""
    each, size = list(list_vectors(counts)), len(list_weights(counts))
    least = 1 if neighbors == "replace-one" and rows == 1 else 0
    units = {
        add_rows(cells, size)
        for count in range(least, rows + 1)
        for cells in combinations_with_replacement(each, count)
    }
    before = [(0,) * size] if neighbors == "add-remove" else list(units)
    common = lcm(*(w.denominator for w in list_weights(counts)))
    scaled, after = np.array([int(w * common) for w in list_weights(counts)]), np.array(list(units))
    return Fraction(max(int((abs(after - np.array(change_before)) @ scaled).max()) for change_before in before), common)


@pytest.mark.parametrize(("neighbors", "rows"), RELATIONS)
@settings(max_examples=40)
@given(counts=st_counts)
def test_it_is_the_largest_change_of_any_unit(neighbors: NeighborRelation, rows: int, counts: list[CountQuery]) -> None:
    """Exactly, with several rows to a unit too: r times the worst row, or the worst pair of rows."""
    few = counts if len(list_vectors(counts)) <= 10 or rows == 1 else counts[:1]
    few = few if len(list_vectors(few)) <= 16 or rows == 1 else [replace(few[0], keys=())]
    assert find_worst_case(SMALL, few, neighbors, rows).value == compute_by_definition(few, neighbors, rows)


@pytest.mark.parametrize(("neighbors", "rows"), RELATIONS)
@settings(max_examples=30)
@given(counts=st_counts)
def test_the_changes_told_are_those_of_the_worst_unit(
    neighbors: NeighborRelation, rows: int, counts: list[CountQuery]
) -> None:
    worst_case = find_worst_case(SMALL, counts, neighbors, rows)
    assert worst_case.value == sum(
        change / count.scale for change, count in zip(worst_case.changes, counts, strict=True)
    )


@settings(max_examples=60)
@given(counts=st_counts, rows=st.sampled_from([1, 2]), work=st.sampled_from([0, 10**9]) | st.integers(0, 20_000))
def test_a_search_cut_short_is_never_below_the_truth(counts: list[CountQuery], rows: int, work: int) -> None:
    """With too much to compare a bound is given, at most the sum of what each count changes alone."""
    atoms = DomainGrid(SMALL, counts).build_atoms()
    atoms = atoms.add_uncounted() if rows > 1 else atoms
    whole = [int(42 / count.scale * 10) for count in counts]
    most = max(int(compute_atom_distances(atoms, atoms.get_row(index), whole).max()) for index in range(len(atoms)))
    bound = sum(w * change for w, change in zip(whole, find_farthest_changes(atoms, whole, work), strict=True))
    alone = sum(w * (2 if count.keys else 1) for w, count in zip(whole, counts, strict=True))
    assert most <= bound <= alone
    if work == 10**9:
        assert bound == most


def draw_boxes(chance: random.Random, declared_schema: Schema, count: int) -> list[CountQuery]:
    """Random rectangles in the plane of two columns."""
    ends = [[sorted(chance.choices(range(10), k=2)) for _ in declared_schema.columns] for _ in range(count)]
    sides = [
        [InRanges(x, ((low, high),)) for x, (low, high) in zip(declared_schema.columns, corner, strict=True)]
        for corner in ends
    ]
    return [CountQuery(AllOf(tuple(ranges)), Fraction(chance.randint(1, 3))) for ranges in sides]


def test_a_far_pair_is_not_taken_for_the_farthest() -> None:
    """Where going from far to farther stops too early: the whole search finds the farthest, a cut one is above it."""
    chance, early = random.Random(4), 0
    for _ in range(60):
        counts = draw_boxes(chance, build_wide_schema(2), 14)
        atoms, whole = (
            DomainGrid(build_wide_schema(2), counts).build_atoms(),
            [int(6 / count.scale) for count in counts],
        )
        most = max(int(compute_atom_distances(atoms, atoms.get_row(index), whole).max()) for index in range(len(atoms)))
        totals = [
            sum(w * change for w, change in zip(whole, find_farthest_changes(atoms, whole, work), strict=True))
            for work in (10**9, 0, LABEL_COST * len(atoms) * len(counts))
        ]
        assert totals[0] == most
        assert min(totals) == most
        early += max(totals) > most
    assert early > 10


@pytest.mark.parametrize(
    ("text", "add", "replace_one"),
    [
        (["age < 0", "age >= 0"], 1, 2),
        (["age < 0", "age < 1", "age < 2"], 3, 3),
        (["age < 0", "age < 0"], 2, 2),
        (["age < 0", "sex = 'F'", "age >= 0 AND sex = 'M'"], 2, 3),
        (["age IS NULL", "age IS NOT NULL AND age < 100", "age > 100"], 1, 2),
        (["city = 'Oslo'", "city <> 'Oslo'", "city IS NULL"], 1, 2),
        (["smoker", "NOT smoker", "smoker OR NOT smoker"], 2, 2),
    ],
)
def test_known_cases(text: list[str], add: int, replace_one: int) -> None:
    """Disjoint conditions cost one, or two where a row may move; nested and equal ones add up."""
    for relation, expected in (("add-remove", add), ("replace-one", replace_one)):
        declared_schema = of_all_kinds(relation, 1, units=9)
        counts = [
            CountQuery(parse_sql(f"SELECT COUNT(*) FROM t WHERE {condition}", declared_schema).where, Fraction(1))
            for condition in text
        ]
        assert find_worst_case(declared_schema, counts, declared_schema.neighbors, 1).value == expected


def test_nothing_changes_nothing() -> None:
    """No counts, counts of no row, and under replace-one the count of every row; not where a unit may have fewer."""
    every = [CountQuery(TRUE, Fraction(1))]
    assert find_worst_case(SMALL, [], "add-remove", 1).value == 0
    assert find_worst_case(SMALL, [CountQuery(FALSE, Fraction(1))], "replace-one", 3).value == 0
    assert find_worst_case(SMALL, every, "replace-one", 1).value == 0
    assert find_worst_case(SMALL, every, "replace-one", 3).value == 3
    assert find_worst_case(SMALL, every, "add-remove", 3).value == 3


def test_a_derived_column_moves_with_its_key() -> None:
    """No row is F with another rank than 7: told apart from two columns that vary freely."""
    female, last = InRanges("sex", ((0, 0),)), InRanges("sex.rank", ((5, 5),))
    counts = [CountQuery(female, Fraction(1)), CountQuery(last, Fraction(1))]
    assert find_worst_case(SMALL, counts, "add-remove", 1).value == 1


def build_wide_schema(places: int) -> Schema:
    """A schema of many columns with ten codes each."""
    columns = {f"x{place}": Column(f"x{place}", "integer", lower=0, upper=9, missing=0) for place in range(places)}
    return replace(SMALL, columns=columns)


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_beyond_a_million_cells_parts_are_added_up(neighbors: NeighborRelation) -> None:
    """Eight columns cut into ten pieces each: halves that are exact, so still far below the sum of all counts."""
    declared_schema = build_wide_schema(8)
    counts = [CountQuery(InRanges(f"x{x}", ((index, index),)), Fraction(1)) for x in range(8) for index in range(10)]
    assert DomainGrid(declared_schema, counts).cells is None
    assert DomainGrid(declared_schema, counts[:40]).cells == 10**4
    each = 8 if neighbors == "add-remove" else 16
    assert find_worst_case(declared_schema, counts, neighbors, 1).value == each
    both = [CountQuery(AllOf((counts[0].predicate, count.predicate)), Fraction(1)) for count in counts[::10]]
    assert each <= find_worst_case(declared_schema, [*counts, *both], neighbors, 1).value <= each + 2 * len(both)


def test_one_count_with_too_many_cells_is_bounded_by_its_own_sensitivity() -> None:
    declared_schema = build_wide_schema(8)
    keys = tuple(GroupKey(f"x{x}") for x in range(8))
    assert find_worst_case(declared_schema, [CountQuery(TRUE, Fraction(2), keys)], "add-remove", 3).value == Fraction(
        3, 2
    )
    assert find_worst_case(declared_schema, [CountQuery(TRUE, Fraction(2), keys)], "replace-one", 3).value == 3


@settings(max_examples=20)
@given(st.lists(st_predicates, min_size=4, max_size=4))
def test_scales_without_a_short_common_denominator_round_up(some: list[Predicate]) -> None:
    """The sum is then above the exact one by less than anyone can see, and never below."""
    long = [Fraction(10**12 + prime, 10**12) for prime in (39, 61, 63, 91)]
    counts = [CountQuery(one, scale) for one, scale in zip(some, long, strict=True)]
    for neighbors in ("add-remove", "replace-one"):
        exact = compute_by_definition(counts, neighbors, 1)  # type: ignore[arg-type]
        sensitivity = find_worst_case(SMALL, counts, neighbors, 1).value  # type: ignore[arg-type]
        assert exact <= sensitivity <= exact * (1 + Fraction(1, 2**40))


def test_a_session_of_fifty_questions_stays_interactive() -> None:
    """The median of the last ten is far below what anyone notices, on a grid of some thousand cells."""
    declared_schema = of_all_kinds("replace-one", 1, units=9)
    texts = [
        f"age <= {i % 7 - 3} AND score > {i % 5}" if i % 2 else f"sex = 'F' OR age > {i % 6 - 3}" for i in range(50)
    ]
    counts = [
        CountQuery(parse_sql(f"SELECT COUNT(*) FROM t WHERE {text}", declared_schema).where, Fraction(20))
        for text in texts
    ]
    taken = []
    for number in range(41, 51):
        start = time.perf_counter()
        find_worst_case(declared_schema, counts[:number], "replace-one", 1)
        taken.append(time.perf_counter() - start)
    assert sorted(taken)[5] < 0.25
