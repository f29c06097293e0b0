"""What must be true of counts whatever the data: never more than is true, and all that the schema makes so."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.planner.planner import plan
from discreet.planner.structural_constraints import (
    CountLimits,
    StructuralConstraints,
    find_structural_constraints,
    select_counts,
)
from discreet.query import parse_sql
from discreet.query.predicates import AllOf
from discreet.query.scan import ScanMeasure, TotalsScan
from discreet.schema import Column, Schema, schema_from_text, schema_to_public_json
from discreet.schema.schema import DerivedCodes
from discreet.sources.memory import MemorySource
from support import small_tables

VISIT = Column("visit", "integer", lower=1, upper=7, counts="falling")
AREA = Column("areas.area", "nominal", 0, 1, categories=("flat", "hilly"), derived=DerivedCodes("grade", (0, 1, 0)))
QUESTIONS = (
    "SELECT COUNT(*) FROM t",
    "SELECT sex, COUNT(*) FROM t GROUP BY sex",
    "SELECT sex, COUNT(*) FROM t WHERE sex = 'F' GROUP BY sex",
    "SELECT sex, COUNT(*), COUNT(age), COUNT(DISTINCT pid) FROM t WHERE age > 0 GROUP BY sex",
    "SELECT grade, COUNT(*), COUNT(score), COUNT(day) FROM t GROUP BY grade",
    "SELECT grade, sex, COUNT(DISTINCT pid) FROM t WHERE grade <> 'low' OR sex = 'M' GROUP BY grade, sex",
    "SELECT smoker, COUNT(day), SUM(score) FROM t WHERE day IS NOT NULL GROUP BY smoker",
    "SELECT age, COUNT(*), COUNT(city) FROM t WHERE city = 'Oslo' GROUP BY age",
    "SELECT sex, COUNT(*) FILTER (WHERE age > 0), COUNT(*) FILTER (WHERE age > 1 OR smoker) FROM t GROUP BY sex",
)


def add_columns(schema: Schema, *columns: Column) -> Schema:
    return replace(schema, columns={**schema.columns, **{column.name: column for column in columns}})


def find_constraints(question: str, schema: Schema) -> StructuralConstraints:
    query = parse_sql(question, schema)
    return find_structural_constraints(schema, query, len(plan(schema, query, 1).list_cells()))


def count_exactly(question: str, schema: Schema, units: small_tables.Units) -> NDArray[np.int64]:
    """The exact counts of a table, by count and cell."""
    query_plan, source = plan(schema, parse_sql(question, schema), 1), MemorySource(schema, small_tables.rows_of(units))
    counts = []
    for count_query in select_counts(query_plan.query):
        what = ScanMeasure("units") if count_query.function == "count_distinct" else ScanMeasure("rows")
        what = ScanMeasure("present", count_query.column) if count_query.column else what
        totals = source.totals(TotalsScan((what,), query_plan.keys, AllOf((query_plan.query.where, count_query.where))))
        counts.append([totals.get(cell, (0,))[0] for cell in query_plan.list_cells()])
    return np.array(counts, dtype=np.int64)


def assert_holds(structure: StructuralConstraints, counts: NDArray[np.int64]) -> None:
    assert (counts >= 0).all()
    assert not counts[~structure.possible].any()
    for counts_of_cell, ends in zip(counts, structure.limits, strict=True):
        assert (
            ends.min_total
            <= counts_of_cell.sum()
            <= (counts_of_cell.sum() if ends.max_total is None else ends.max_total)
        )
        assert counts_of_cell.max() <= (counts_of_cell.max() if ends.max_cell is None else ends.max_cell)
    for index in structure.rising_counts:
        assert (np.diff(counts[index][list(structure.rising_cells)]) >= 0).all()
    assert all((counts[i] <= counts[j]).all() for i, j in structure.ordered_pairs)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("count", [15, pytest.param(40, marks=pytest.mark.soak)])
def test_what_is_said_holds_of_every_table(question: str, relation: str, rows: int, count: int) -> None:
    """Random tables, with values at the ends of their domains and missing ones: nothing said is ever untrue."""
    chance = random.Random(f"{question}{relation}{rows}")
    schema = small_tables.schema(relation, rows, units=12)
    structure = find_constraints(question, schema)
    for _ in range(count):
        units = {f"p{number}": small_tables.random_unit(chance, rows) for number in range(12)}
        assert_holds(structure, count_exactly(question, schema, units))


def test_the_public_number_of_units_is_the_total_where_each_is_one_row_and_all_count() -> None:
    one, three = small_tables.schema("replace-one", 1, 1080), small_tables.schema("replace-one", 3, 1080)
    grouped = "SELECT sex, COUNT(*) FROM t GROUP BY sex"
    assert find_constraints(grouped, one).limits == (CountLimits(1080, 1080, 1080),)
    assert "all counts add up to the public number of units, 1,080" in find_constraints(grouped, one).words
    assert find_constraints(grouped, three).limits == (CountLimits(1080, 3240, 3240),)
    assert find_constraints("SELECT sex, COUNT(*) FROM t WHERE age > 0 GROUP BY sex", one).limits == (
        CountLimits(0, 1080, 1080),
    )
    assert find_constraints("SELECT sex, COUNT(DISTINCT pid) FROM t GROUP BY sex", three).limits == (
        CountLimits(1080, 3240, 1080),
    )
    assert find_constraints(grouped, small_tables.schema("add-remove", 1, 0)).limits == (CountLimits(),)


def test_a_count_of_a_column_that_is_never_missing_is_of_every_row() -> None:
    structure = find_constraints(
        "SELECT sex, COUNT(score), COUNT(day) FROM t GROUP BY sex", small_tables.schema("replace-one", 1, 50)
    )
    least = dict(zip(structure.names, (ends.min_total for ends in structure.limits), strict=True))
    assert least == {"COUNT(score)": 50, "COUNT(day)": 0}


def test_cells_that_the_condition_contradicts_are_empty() -> None:
    structure = find_constraints(
        "SELECT sex, COUNT(*) FROM t WHERE sex = 'F' GROUP BY sex", small_tables.schema("add-remove", 1, 0)
    )
    assert structure.possible.tolist() == [[True, False, False]]
    assert "2 of the 3 cells of COUNT(*) cannot have a row, so they are 0" in structure.words


def test_cells_that_a_lookup_contradicts_are_empty() -> None:
    """Each value of the key has one derived value, so that only such pairs can occur."""
    schema = replace(add_columns(small_tables.schema("add-remove", 1, 0), AREA), lookups={"areas": "grade"})
    structure = find_constraints(
        "SELECT grade, area, COUNT(*) FROM t JOIN areas ON grade = areas.key GROUP BY grade, area", schema
    )
    assert int(structure.possible.sum()) == 3
    assert structure.possible[0].reshape(3, 3).argmax(axis=1).tolist() == [0, 1, 0]


DECLARED = """
name: t
source: t.csv
neighbours: add-remove
budget: {epsilon: 1}
columns: {visit: {kind: integer, lower: 1, upper: 7, counts: falling}}
"""


def test_a_schema_declares_that_counts_rise_or_fall() -> None:
    """Analysts may see it; what has no order has none."""
    schema = schema_from_text(DECLARED, Path())
    assert schema.column("visit") == VISIT
    assert schema_to_public_json(schema)["columns"]["visit"]["counts"] == "falling"  # type: ignore[index]
    with pytest.raises(InvalidInput, match="counts of visit must be one of rising, falling, got 'down'"):
        schema_from_text(DECLARED.replace("falling", "down"), Path())
    with pytest.raises(InvalidInput, match="unknown key 'counts' of column visit of kind nominal"):
        schema_from_text(DECLARED.replace("integer, lower: 1, upper: 7", "nominal, keys: private"), Path())
    with pytest.raises(InvalidInput, match="the values of sex have no order"):
        Column("sex", "nominal", 0, 1, categories=("F", "M"), counts="rising")


def test_a_declared_order_holds_of_single_values_and_of_bins() -> None:
    """Counts that fall do so in a last bin of fewer values too; counts that rise need not."""
    falling = add_columns(small_tables.schema("add-remove", 3, 0), VISIT)
    rising = add_columns(falling, replace(VISIT, counts="rising"))
    question = "SELECT visit, COUNT(*) FROM t GROUP BY visit"
    assert find_constraints(question, falling).rising_cells == (6, 5, 4, 3, 2, 1, 0)
    assert find_constraints(question, rising).rising_cells == (0, 1, 2, 3, 4, 5, 6)
    assert "the counts are falling with visit, as the schema declares" in find_constraints(question, falling).words
    binned = "SELECT BIN(visit, 3), COUNT(*) FROM t GROUP BY BIN(visit, 3)"
    assert find_constraints(binned, falling).rising_cells == (2, 1, 0)
    assert find_constraints(binned, rising).rising_cells == (0, 1)


def test_bins_keep_a_declared_order_whatever_the_counts() -> None:
    """The proof beside the code, tried: random falling and rising counts, every width."""
    chance = random.Random(5)
    for width, order in product(range(1, 8), ("falling", "rising")):
        schema = add_columns(small_tables.schema("add-remove", 1, 0), replace(VISIT, counts=order))
        key = "visit" if width == 1 else f"BIN(visit, {width})"
        chain = find_constraints(f"SELECT {key}, COUNT(*) FROM t GROUP BY {key}", schema).rising_cells
        for _ in range(100):
            counts = sorted((chance.randrange(9) for _ in range(7)), reverse=order == "falling")
            bins = [sum(counts[index : index + width]) for index in range(0, 7, width)]
            assert all(bins[one] <= bins[two] for one, two in pairwise(chain))


def test_a_declared_order_is_used_only_where_it_was_declared_to_hold() -> None:
    """Not under a condition, not beside another key, not of units that may have several rows."""
    schema = add_columns(small_tables.schema("add-remove", 3, 0), VISIT)
    for question in (
        "SELECT visit, COUNT(*) FROM t WHERE age > 0 GROUP BY visit",
        "SELECT visit, sex, COUNT(*) FROM t GROUP BY visit, sex",
        "SELECT visit, COUNT(DISTINCT pid) FROM t GROUP BY visit",
        "SELECT visit, COUNT(age) FROM t GROUP BY visit",
        "SELECT sex, COUNT(*) FROM t GROUP BY sex",
    ):
        assert find_constraints(question, schema).rising_cells == ()


def test_counts_of_fewer_rows_are_no_more() -> None:
    schema = small_tables.schema("add-remove", 3, 0)
    structure = find_constraints("SELECT COUNT(*), COUNT(age), COUNT(DISTINCT pid) FROM t", schema)
    pairs = {(structure.names[i], structure.names[j]) for i, j in structure.ordered_pairs}
    assert pairs == {("COUNT(age)", "COUNT(*)"), ("COUNT(DISTINCT pid)", "COUNT(*)")}
    assert "COUNT(age) is at most COUNT(*) in every row" in structure.words


def test_filters_that_follow_from_one_another_are_ordered() -> None:
    question = "SELECT COUNT(*) FILTER (WHERE age > 2) AS a, COUNT(*) FILTER (WHERE age > 0) AS b, COUNT(*) AS c FROM t"
    structure = find_constraints(question, small_tables.schema("add-remove", 1, 0))
    assert {(structure.names[i], structure.names[j]) for i, j in structure.ordered_pairs} == {("a", "b"), ("b", "c")}


def test_several_counts_of_rows_are_sums_of_parts() -> None:
    """Every set of counts that a row can be in, by cell; all rows together are the public units."""
    select = "SELECT sex, COUNT(*) FILTER (WHERE age < 0) AS y, COUNT(*) FILTER (WHERE age >= 0) AS o, COUNT(age) AS b"
    structure = find_constraints(f"{select} FROM t GROUP BY sex", small_tables.schema("replace-one", 1, 50)).parts
    assert structure is not None
    assert sorted(map(tuple, structure.labels.T.tolist())) == sorted(
        (cell * first, cell * (1 - first), cell) for cell in (1, 2, 3) for first in (0, 1)
    )
    assert structure.limits == CountLimits(0, 50, 50)
    everyone = find_constraints(
        f"{select}, COUNT(*) AS n FROM t GROUP BY sex", small_tables.schema("replace-one", 3, 50)
    )
    assert everyone.parts is not None
    assert everyone.parts.limits == CountLimits(50, 150, 150)
    assert everyone.words[-1] == "the counts are made of the same parts, none of which is below 0"


@pytest.mark.parametrize(
    "question",
    [
        "SELECT sex, COUNT(*) FROM t GROUP BY sex",
        "SELECT sex, COUNT(*), COUNT(DISTINCT pid) FROM t GROUP BY sex",
        "SELECT visit, COUNT(*), COUNT(age) FROM t GROUP BY visit",
        "SELECT city, COUNT(*), COUNT(age) FROM t GROUP BY city",
    ],
)
def test_parts_are_of_several_counts_of_rows_over_public_keys(question: str) -> None:
    """Not of units that may have several rows, nor beside a declared order."""
    schema = add_columns(small_tables.schema("add-remove", 3, 0), VISIT)
    query = parse_sql(question, schema)
    assert find_structural_constraints(schema, query, 9).parts is None


def test_too_many_atoms_leave_out_what_they_would_tell() -> None:
    """A condition on many columns at once: nothing is claimed of cells, and nothing goes wrong."""
    wide = [Column(f"x{number}", "integer", 0, 1) for number in range(20)]
    schema = add_columns(small_tables.schema("replace-one", 1, 9), *wide)
    where = " OR ".join(f"{column.name} = 1" for column in wide)
    structure = find_constraints(f"SELECT sex, COUNT(*), COUNT(age) FROM t WHERE {where} GROUP BY sex", schema)
    assert structure.possible.all()
    assert structure.ordered_pairs == ()
    assert structure.limits == (CountLimits(0, 9, 9),) * 2
