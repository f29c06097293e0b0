"""Generated tables: they fit their schema, they are neighbours, the extremes are among them, and no file is opened."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from discreet import InvalidInput
from discreet.mechanisms.entropy import KeyedEntropy
from discreet.query import parse_sql
from discreet.schema import Column, DerivedCodes, Schema
from discreet.verification import generated_pairs, limit_units, neighbor_rows, replay, snapshot
from discreet.verification.replays.assertions import find_boundary_values
from discreet.verification.replays.neighbors import (
    MAX_UNITS,
    UNIT_FIELD,
    Pair,
    PairGenerator,
    build_source_rows,
    find_differing_rows,
    require_snapshot,
)
from support.small_tables import COLUMNS, schema

RELATIONS = [("add-remove", 1), ("add-remove", 3), ("replace-one", 1), ("replace-one", 2)]


def remove_units(declared_schema: Schema) -> Schema:
    return replace(declared_schema, unit=None, rows=1)


def assert_fits_schema(declared_schema: Schema, rows: list) -> None:
    for row in rows:
        assert set(row) == {*declared_schema.columns, *([] if declared_schema.unit is None else [UNIT_FIELD])}
        for name, column in declared_schema.columns.items():
            code = row[name]
            if code is None:
                assert column.is_nullable
            elif column.private_keys:
                assert isinstance(code, str)
            else:
                assert column.lower <= code <= column.upper


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
def test_pairs_fit_the_schema_and_differ_in_one_unit(relation: str, rows: int) -> None:
    """Whether units have names or every row is one."""
    for declared_schema in (schema(relation, rows, units=5), remove_units(schema(relation, 1, units=5))):
        pairs = neighbor_rows(declared_schema, 150)
        assert len(pairs) == 150
        for one, two in pairs:
            assert_fits_schema(declared_schema, [*one, *two])
            assert find_differing_rows(declared_schema, one, two) or sorted(map(str, one)) == sorted(map(str, two))
            if relation == "replace-one":
                assert all(
                    len({row.get(UNIT_FIELD, index) for index, row in enumerate(table)}) == 5 for table in (one, two)
                )
        assert sum(bool(find_differing_rows(declared_schema, *pair)) for pair in pairs) > 110


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
def test_the_extremes_come_first(relation: str, rows: int) -> None:
    """Nothing, one unit alone, all at a bound, all missing; of the one, as many rows as there can be."""
    declared_schema = schema(relation, rows, units=5)
    tables = [table for pair in neighbor_rows(declared_schema, 24) for table in pair]
    ages = {tuple(sorted({str(row["age"]) for row in table})) for table in tables}
    assert ages >= {("-3",), ("4",), ("None",), ("-3", "4")}
    assert max(map(len, tables)) == rows * (6 if relation == "add-remove" else 5)
    if relation == "add-remove":
        assert [] in tables
        assert any(len(table) == rows for table in tables)


def test_pairs_are_the_same_every_time_unless_entropy_is_given() -> None:
    declared_schema = schema("add-remove", 2, units=5)
    assert neighbor_rows(declared_schema, 60) == neighbor_rows(declared_schema, 60)
    one, two = (neighbor_rows(declared_schema, 60, KeyedEntropy(key, "a test")) for key in (b"one", b"two"))
    assert one != two
    assert one == neighbor_rows(declared_schema, 60, KeyedEntropy(b"one", "a test"))
    with pytest.raises(InvalidInput, match="how many pairs"):
        neighbor_rows(declared_schema, -1)
    with pytest.raises(InvalidInput, match="take"):
        neighbor_rows(declared_schema, 1, 17)  # type: ignore[arg-type]


def test_derived_columns_follow_their_keys() -> None:
    """Also where a unit is changed in one column alone."""
    band = Column(
        "band", "ordinal", 0, 1, categories=("low", "high"), derived=DerivedCodes("age", (0, 0, 0, 0, 1, 1, 1, None))
    )
    declared_schema = replace(schema("replace-one", 2, units=4), columns={c.name: c for c in (*COLUMNS, band)})
    for one, two in neighbor_rows(declared_schema, 200):
        for row in (*one, *two):
            assert row["band"] == (None if row["age"] is None else (0, 0, 0, 0, 1, 1, 1, None)[row["age"] + 3])


def test_a_large_table_is_replayed_as_a_small_one() -> None:
    """What is declared and what is made agree."""
    small = limit_units(schema("replace-one", 1, units=30_000))
    assert small.units == MAX_UNITS
    assert {len(table) for pair in neighbor_rows(small, 30) for table in pair} == {MAX_UNITS}
    few = schema("replace-one", 1, units=3)
    assert limit_units(few) == few
    open_number = schema("add-remove", 1, units=5)
    assert limit_units(open_number) == open_number


def test_values_near_a_question_are_tried() -> None:
    """One value of a million is hit, since the question names it."""
    wide = Column("wide", "integer", 0, 10**6)
    declared_schema = replace(schema("add-remove", 1, units=5), columns={c.name: c for c in (*COLUMNS, wide)})
    query = parse_sql("SELECT COUNT(*) FROM t WHERE wide BETWEEN 4711 AND 4712 OR city = 'Oslo'", declared_schema)
    boundary_values = find_boundary_values(query)
    assert boundary_values == {"wide": [4711, 4712], "city": ["Oslo"]}
    generator = PairGenerator(declared_schema, boundary_values, KeyedEntropy(b"a key", "a test"))
    rows = [generator.sample_row() for _ in range(60)]
    assert {4711, 4712, 0, 10**6} <= {row["wide"] for row in rows}
    assert "Oslo" in {row["city"] for row in rows}


@settings(max_examples=40)
@given(st.data())
def test_the_strategy_draws_neighbours(data: st.DataObject) -> None:
    declared_schema = schema(*data.draw(st.sampled_from(RELATIONS)), units=4)
    one, two = data.draw(generated_pairs(declared_schema))
    assert_fits_schema(declared_schema, [*one, *two])
    find_differing_rows(declared_schema, one, two)


def test_the_strategy_shrinks_to_an_extreme() -> None:
    def has_both(pair: Pair) -> bool:
        return all(pair)

    smallest_pair = find(generated_pairs(schema("add-remove", 1, units=4)), has_both, settings=settings(database=None))
    assert {row["age"] for table in smallest_pair for row in table} == {-3}


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
def test_what_a_source_may_hold_is_read_as_neighbours(relation: str, rows: int) -> None:
    """Values lie beyond every bound, units have too many rows; registration makes neighbours of them all the same."""
    declared_schema = schema(relation, rows, units=5)
    beyond, too_many = set(), 0
    for one, two in neighbor_rows(declared_schema, 60):
        if one and two:
            source_rows = [build_source_rows(declared_schema, table) for table in (one, two)]
            read = [snapshot(declared_schema, table) for table in source_rows]
            assert_fits_schema(declared_schema, [*read[0], *read[1]])
            find_differing_rows(declared_schema, *read)
            beyond |= {row["age"] for row in source_rows[0] if row["age"] is not None and not -3 <= row["age"] <= 4}
            too_many += len(source_rows[0]) > len(read[0])
    assert {-4.0, 5.0} < beyond
    assert max(map(abs, beyond)) > 1e29
    assert too_many > 10


def test_what_is_no_neighbour_is_refused() -> None:
    declared_schema = schema("add-remove", 1, units=5)
    row = {"age": 1, "score": 0, "debt": -1, "sex": 0, "grade": 0, "smoker": 0, "day": 10, "city": None}
    one, other = row | {UNIT_FIELD: "a"}, row | {UNIT_FIELD: "b", "age": 2}
    assert find_differing_rows(declared_schema, [one], []) == [one]
    for pair in ([one, other], []), ([one], [other]), ([one], [one | {"age": 3}]):
        with pytest.raises(InvalidInput, match="no neighbours: add-remove means that one unit differs"):
            find_differing_rows(declared_schema, *pair)
    replacing = schema("replace-one", 1, units=5)
    assert (
        len(find_differing_rows(replacing, [one], [other]))
        == len(find_differing_rows(replacing, [one], [one | {"age": 3}]))
        == 2
    )
    for pair in ([one], []), ([one, other], [one | {"age": 3}, other | {"age": 4}]):
        with pytest.raises(InvalidInput, match="no neighbours: replace-one"):
            find_differing_rows(replacing, *pair)


def test_rows_that_no_snapshot_has_are_refused() -> None:
    """Plain values are not codes; and a unit has no more rows than are kept."""
    declared_schema = schema("add-remove", 1, units=5)
    row = {
        "age": 1,
        "score": 0,
        "debt": -1,
        "sex": 0,
        "grade": 0,
        "smoker": 0,
        "day": 10,
        "city": None,
        UNIT_FIELD: "a",
    }
    require_snapshot(declared_schema, [row], [])
    for rows, refusal in [
        ([row, row], "a unit has at most 1 rows here"),
        ([{"score": 0}], "a row needs #unit, age"),
        ([row | {"age": 34}], "codes, each within the bounds"),
        ([row | {"sex": "F"}], "codes, each within the bounds"),
        ([row | {"score": None}], "codes, each within the bounds"),
        ([row | {"city": 7}], "codes, each within the bounds"),
    ]:
        with pytest.raises(InvalidInput, match=f"{refusal}.*snapshot"):
            require_snapshot(declared_schema, [], rows)
        with pytest.raises(InvalidInput, match=refusal):
            replay(declared_schema, "SELECT COUNT(*) FROM t", rows, [], epsilon=1)


def test_rows_alike_are_units_of_their_own_where_none_has_a_name() -> None:
    declared_schema = remove_units(schema("add-remove", 1, units=5))
    row = {"age": 1, "score": 0, "debt": -1, "sex": 0, "grade": 0, "smoker": 0, "day": 10, "city": None}
    assert find_differing_rows(declared_schema, [row, row], [row]) == [row]
    with pytest.raises(InvalidInput, match="no neighbours"):
        find_differing_rows(declared_schema, [row, row, row], [row])
    assert Fraction(snapshot(declared_schema, [dict.fromkeys(declared_schema.columns) | {"age": 99}])[0]["age"]) == 4
