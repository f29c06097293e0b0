"""Questions from SQL: what is read, what is refused and how, and that no text does anything else."""

from __future__ import annotations

import logging
import random
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from sqlglot import Tokenizer

from discreet.errors import ErrorCode, InvalidInput, Unsupported
from discreet.priors.taxonomy import Taxonomy
from discreet.query import parse_sql, to_sql
from discreet.query.predicates import FALSE, TRUE, AllOf, InRanges, InTexts
from discreet.query.query import (
    Aggregate,
    GroupKey,
    HavingCondition,
    OutputColumn,
    Presentation,
    Query,
    format_canonical_query,
)
from discreet.schema import Budget, Column, DerivedCodes, Schema

PARENTS = {"A00": "A", "A01": "A", "B10": "B", "B11": "B", "C50": "C", "A": "any", "B": "any", "C": "any"}
COLUMNS = (
    Column("age", "integer", lower=17, upper=90),
    Column("income", "number", lower=0, upper=50_000_000, step=Fraction(1, 100), missing=0),
    Column("admitted", "date", lower=16436, upper=20453),
    Column("smoker", "boolean", upper=1, categories=("false", "true")),
    Column("sex", "nominal", upper=1, categories=("F", "M")),
    Column("education", "ordinal", upper=2, categories=("none", "school", "degree")),
    Column("diagnosis", "nominal", upper=4, categories=tuple(PARENTS)[:5], taxonomy=Taxonomy.of(PARENTS)),
    Column("city", "nominal", private_keys=True),
    Column("date", "integer", upper=9),
    Column("window", "boolean", upper=1, categories=("false", "true")),
    Column(
        "icd.chapter", "nominal", upper=1, categories=("a", "b"), derived=DerivedCodes("diagnosis", (0, 0, None, 0, 1))
    ),
    Column("icd.weight", "integer", lower=1, upper=9, derived=DerivedCodes("diagnosis", (1, None, None, 9, None))),
)
REGISTRY = Schema(
    name="registry",
    source="registry.csv",
    folder=Path(),
    neighbors="add-remove",
    columns={column.name: column for column in COLUMNS},
    budget=Budget(Fraction(1)),
    analyst_budget=Budget(Fraction(1)),
    unit="person_id",
    individual_queries=True,
    lookups={"icd": "diagnosis"},
)
MANY_ROWS = replace(REGISTRY, rows=3, individual_queries=False)
ROWS = replace(REGISTRY, unit=None, individual_queries=False)


SMOKERS = Aggregate("count", where=InRanges("smoker", ((1, 1),)))


def read_question(text: str, schema: Schema = REGISTRY) -> Query:
    """The question; and it must read back from its own text."""
    query = parse_sql(text, schema)
    assert parse_sql(to_sql(query, schema), schema) == query
    return query


def parse_where(condition: str) -> object:
    return read_question(f"SELECT COUNT(*) FROM registry WHERE {condition}").where


def test_a_whole_question() -> None:
    """Aggregates sorted, quantiles of one column together, keys as the schema has them; the layout as it was asked."""
    query = read_question(
        "SELECT sex, BIN(age, 10) AS band, QUANTILE(income, 0.9, 0.25), avg(income) mean, COUNT(*) FROM registry AS r "
        "WHERE r.age >= 18 AND sex = 'F' GROUP BY sex, band HAVING mean > 1000.5 AND 5 <= COUNT(*) "
        "ORDER BY QUANTILE(income, 0.9) DESC, 2, sex ASC LIMIT 10;"
    )
    outputs = (
        OutputColumn("sex", key=1),
        OutputColumn("band", key=0),
        OutputColumn("QUANTILE(income, 0.9)", aggregate=2, order=1),
        OutputColumn("QUANTILE(income, 0.25)", aggregate=2, order=0),
        OutputColumn("mean", aggregate=0),
        OutputColumn("COUNT(*)", aggregate=1),
    )
    having = (HavingCondition(4, ">", Fraction(2001, 2)), HavingCondition(5, ">=", Fraction(5)))
    assert query == Query(
        table="registry",
        aggregates=(
            Aggregate("avg", "income"),
            Aggregate("count"),
            Aggregate("quantile", "income", (Fraction(1, 4), Fraction(9, 10))),
        ),
        presentation=Presentation(outputs, having, ((2, True), (1, False), (0, False)), 10),
        where=AllOf((InRanges("age", ((18, 90),)), InRanges("sex", ((0, 0),)))),
        keys=(GroupKey("age", 10), GroupKey("sex")),
    )


@pytest.mark.parametrize(
    ("written", "aggregate", "label"),
    [
        ("COUNT(*)", Aggregate("count"), "COUNT(*)"),
        ("count(AGE)", Aggregate("count", "age"), "COUNT(age)"),
        ("COUNT(city)", Aggregate("count", "city"), "COUNT(city)"),
        ("COUNT(income)", Aggregate("count"), "COUNT(income)"),
        ("COUNT(DISTINCT Person_ID)", Aggregate("count"), "COUNT(DISTINCT person_id)"),
        ("SUM(age)", Aggregate("sum", "age"), "SUM(age)"),
        ("AVG(registry.income)", Aggregate("avg", "income"), "AVG(income)"),
        ("VARIANCE(income)", Aggregate("var", "income"), "VARIANCE(income)"),
        ("STDDEV_SAMP(income)", Aggregate("stddev", "income"), "STDDEV_SAMP(income)"),
        ("MEDIAN(age)", Aggregate("quantile", "age", (Fraction(1, 2),)), "MEDIAN(age)"),
        ("QUANTILE(age, .250)", Aggregate("quantile", "age", (Fraction(1, 4),)), "QUANTILE(age, 0.25)"),
        ("MIN(admitted)", Aggregate("min", "admitted"), "MIN(admitted)"),
        ("SECOND_MAX(income)", Aggregate("second_max", "income"), "SECOND_MAX(income)"),
        ("MODE(sex)", Aggregate("mode", "sex"), "MODE(sex)"),
        ('SUM("date")', Aggregate("sum", "date"), "SUM(date)"),
        ("(SUM(age))", Aggregate("sum", "age"), "SUM(age)"),
        ("COUNT(*) FILTER (WHERE smoker)", SMOKERS, "COUNT(*) FILTER (WHERE smoker = TRUE)"),
        ("count(income) filter (where smoker)", SMOKERS, "COUNT(income) FILTER (WHERE smoker = TRUE)"),
        (
            "COUNT(DISTINCT person_id) FILTER (WHERE smoker)",
            SMOKERS,
            "COUNT(DISTINCT person_id) FILTER (WHERE smoker = TRUE)",
        ),
        ("COUNT(*) FILTER (WHERE TRUE)", Aggregate("count"), "COUNT(*)"),
        ("COUNT(*) FILTER (WHERE age IS NOT NULL)", Aggregate("count", "age"), "COUNT(age)"),
        ("COUNT(age) FILTER (WHERE age > 0)", Aggregate("count", "age"), "COUNT(age)"),
        ("COUNT(city) FILTER (WHERE TRUE)", Aggregate("count", "city"), "COUNT(city)"),
        ("COUNT(*) FILTER (WHERE age > 999)", Aggregate("count", where=FALSE), "COUNT(*) FILTER (WHERE FALSE)"),
        (
            "COUNT(age) FILTER (WHERE smoker)",
            Aggregate("count", where=AllOf((InRanges("age", ((17, 90),)), InRanges("smoker", ((1, 1),))))),
            "COUNT(*) FILTER (WHERE age IS NOT NULL AND smoker = TRUE)",
        ),
    ],
)
def test_aggregates(written: str, aggregate: Aggregate, label: str) -> None:
    """Where every unit has one row, units are rows; where nothing is missing, values are rows."""
    query = read_question(f"SELECT {written} FROM registry")
    assert query.aggregates == (aggregate,)
    assert query.presentation == Presentation((OutputColumn(label, aggregate=0),))


def test_a_filter_says_what_the_condition_does_not() -> None:
    """What the WHERE implies of a FILTER is left out of it, and what is left can be named, compared and sorted by."""
    query = read_question(
        "SELECT COUNT(*) FILTER (WHERE age < 65 AND sex = 'F') AS a, COUNT(*) FILTER (WHERE age >= 18), "
        "COUNT(*) FILTER (WHERE (sex = 'F' OR smoker) AND city = 'Oslo') FROM registry "
        "WHERE age >= 30 AND (sex = 'F' OR smoker) "
        "HAVING COUNT(*) FILTER (WHERE age < 65 AND sex = 'F') > 5 ORDER BY a"
    )
    wheres = [aggregate.where for aggregate in query.aggregates]
    assert wheres == [
        TRUE,
        AllOf((InRanges("age", ((30, 64),)), InRanges("sex", ((0, 0),)))),
        InTexts("city", ("Oslo",)),
    ]
    assert query.presentation.having == (HavingCondition(0, ">", Fraction(5)),)
    assert query.presentation.order == ((0, False),)


def test_filters_are_read_within_limits() -> None:
    """Hundreds of filters on a condition of many ranges would be slow, so such a condition is refused with a filter."""
    listed = f"income IN ({', '.join(map(str, range(1000)))})"
    with pytest.raises(InvalidInput, match="1000 ranges"):
        read_question(f"SELECT COUNT(*) FILTER (WHERE smoker) FROM registry WHERE {listed}")
    with pytest.raises(InvalidInput, match="1000 ranges"):
        read_question(f"SELECT COUNT(*) FILTER (WHERE {listed} AND smoker) FROM registry")
    assert read_question(f"SELECT COUNT(*) FROM registry WHERE {listed}").where != TRUE


def test_units_are_counted_apart_where_they_have_several_rows() -> None:
    assert read_question("SELECT COUNT(DISTINCT person_id) FROM registry", MANY_ROWS).aggregates == (
        Aggregate("count_distinct"),
    )


@pytest.mark.parametrize(
    ("written", "key", "label"),
    [
        ("age", GroupKey("age"), "age"),
        ("Sex", GroupKey("sex"), "sex"),
        ("BIN(age, 10.0)", GroupKey("age", 10), "BIN(age, 10)"),
        ("BIN(income, 1000.00)", GroupKey("income", 100_000), "BIN(income, 1000)"),
        ("BIN(income, 250.5)", GroupKey("income", 25_050), "BIN(income, 250.5)"),
        ("BIN(admitted, 30)", GroupKey("admitted", 30), "BIN(admitted, 30)"),
        ("BIN(age, 1)", GroupKey("age"), "age"),
        ("BIN(age, 1e9)", GroupKey("age", 74), "BIN(age, 74)"),
        ("city", GroupKey("city"), "city"),
        ("window", GroupKey("window"), "window"),
    ],
)
@pytest.mark.parametrize("by", ["1", "the key", "its name"])
def test_group_keys(written: str, key: GroupKey, label: str, by: str) -> None:
    """By expression, place or alias, in the column's units."""
    alias = " AS named" if by == "its name" else ""
    group = {"1": "1", "the key": written, "its name": "named"}[by]
    query = read_question(f"SELECT {written}{alias}, COUNT(*) FROM registry GROUP BY {group}")
    assert query.keys == (key,)
    assert query.presentation.outputs[0] == OutputColumn("named" if alias else label, key=0)


def test_keys_need_not_be_selected() -> None:
    assert read_question("SELECT COUNT(*) FROM registry GROUP BY sex, age").keys == (GroupKey("age"), GroupKey("sex"))


def test_a_missing_value_has_a_cell_too() -> None:
    """A hundred thousand cells are the most there may be."""
    text = "SELECT COUNT(*) FROM registry GROUP BY wide"
    wide = Column("wide", "integer", upper=99_999, missing=0)
    assert read_question(text, replace(REGISTRY, columns={"wide": wide}, lookups={})).keys == (GroupKey("wide"),)
    with pytest.raises(InvalidInput, match="100000 cells"):
        parse_sql(text, replace(REGISTRY, columns={"wide": replace(wide, missing=None)}, lookups={}))


@pytest.mark.parametrize(("bins", "width"), [(1, 74), (2, 37), (10, 8), (73, 2), (74, 1), (1000, 1)])
def test_a_histogram_has_at_most_so_many_bins(bins: int, width: int) -> None:
    """Each a whole number of codes: the cells are those of COUNT(*) by BIN, and all ranges of them are asked for."""
    query = read_question(f"SELECT HISTOGRAM(age, {bins}) FROM registry WHERE smoker ORDER BY 2 DESC")
    key = f"BIN(age, {width})"
    plain = read_question(f"SELECT {key}, COUNT(*) FROM registry WHERE smoker GROUP BY {key} ORDER BY 2 DESC")
    assert query == replace(plain, nesting="ranges")
    assert format_canonical_query(query) != format_canonical_query(plain)
    assert -(-74 // width) <= bins


def test_a_rollup_keeps_the_order_of_its_keys() -> None:
    """The totals are over the last keys first, so the order says what is asked; a plain GROUP BY has none."""
    keys = "sex, BIN(age, 10)", "BIN(age, 10), sex"
    ways = [f"SELECT sex, BIN(age, 10) AS band, COUNT(*) FROM registry GROUP BY {by}" for by in keys]
    assert format_canonical_query(read_question(ways[0])) == format_canonical_query(read_question(ways[1]))
    first, second = (read_question(way.replace("GROUP BY ", "GROUP BY ROLLUP (") + ")") for way in ways)
    assert first.keys == (GroupKey("sex"), GroupKey("age", 10))
    assert second.keys == (GroupKey("age", 10), GroupKey("sex"))
    assert first.nesting == second.nesting == "rollup"
    assert len({format_canonical_query(query) for query in (first, second, read_question(ways[0]))}) == 3


@pytest.mark.parametrize(
    ("condition", "predicate"),
    [
        ("age > 89.5", InRanges("age", ((90, 90),))),
        ("income = 0.01", InRanges("income", ((1, 1),))),
        ("income > .015 AND income < 4e-2", InRanges("income", ((2, 3),))),
        ("income = 0.015", FALSE),
        ("age > -5", InRanges("age", ((17, 90),))),
        ("age > - -89", InRanges("age", ((90, 90),))),
        ("age >= 91", FALSE),
        ("income >= -1e30", TRUE),
        ("admitted < DATE '2015-01-02'", InRanges("admitted", ((16436, 16436),))),
        ("admitted BETWEEN '2000-01-01' AND '2015-01-01'", InRanges("admitted", ((16436, 16436),))),
        ("education > 'none'", InRanges("education", ((1, 2),))),
        ("smoker >= TRUE", InRanges("smoker", ((1, 1),))),
        ("NOT window", InRanges("window", ((0, 0),))),
        ("date > 8", InRanges("date", ((9, 9),))),
        ("diagnosis = 'A'", InRanges("diagnosis", ((0, 1),))),
        ("diagnosis IN ('A', 'C50')", InRanges("diagnosis", ((0, 1), (4, 4)))),
        ("diagnosis <> 'any'", FALSE),
        ("city = 'it''s' OR city IS NULL", InTexts("city", ("it's",), null=True)),
        ("city NOT IN ('Rome', 'Oslo')", InTexts("city", ("Oslo", "Rome"), outside=True)),
        ("'Oslo' <> city", InTexts("city", ("Oslo",), outside=True)),
        ("city IS NOT NULL", InTexts("city", (), outside=True)),
        ("city = ''", InTexts("city", ("",))),
    ],
)
def test_constants_compare_exactly(condition: str, predicate: object) -> None:
    """Between two codes, beyond the bounds, as concepts of a taxonomy, as dates."""
    assert parse_where(condition) == predicate


def test_a_chain_of_two_thousand_conditions_is_one_condition() -> None:
    """A chain is walked, not descended; the parser's tree is as deep as the chain is long."""
    assert parse_where(" OR ".join(["age = 20"] * 990)) == InRanges("age", ((20, 20),))
    assert parse_where(" AND ".join(f"city <> '{name}'" for name in range(990))) == InTexts(
        "city", tuple(sorted(str(name) for name in range(990))), outside=True
    )


def test_thirty_two_brackets_are_read_and_thirty_three_are_not() -> None:
    text = "SELECT COUNT(*) FROM registry WHERE "
    assert read_question(f"{text}{'(' * 32}age = 20{')' * 32}").where == InRanges("age", ((20, 20),))
    assert read_question(f"{text}{'(smoker AND ' * 30}age = 20{')' * 30}").where != FALSE
    assert read_question(f"{text}{'NOT ' * 32}smoker").where == InRanges("smoker", ((1, 1),))
    for deep in (f"{'(' * 33}age = 20{')' * 33}", f"{'NOT ' * 33}smoker", f"age > {'- ' * 33}1", "NOT (" * 17 + "age"):
        with pytest.raises(InvalidInput, match="at most 32 deep"):
            parse_sql(text + deep, REGISTRY)


LOOKED_UP = "SELECT icd.chapter, COUNT(*) FROM registry {} GROUP BY icd.chapter"


@pytest.mark.parametrize(
    "join",
    [
        "LEFT JOIN icd ON registry.diagnosis = icd.code",
        "LEFT OUTER JOIN icd ON icd.diagnosis = diagnosis",
        "LEFT JOIN ICD ON diagnosis = code",
        "LEFT JOIN icd USING (Diagnosis)",
    ],
)
def test_a_lookup_is_joined_by_its_key(join: str) -> None:
    """Its columns are columns of the table already, so a left join changes nothing."""
    query = read_question(LOOKED_UP.format(join))
    assert (query.keys, query.where) == ((GroupKey("icd.chapter"),), TRUE)


def test_an_inner_join_keeps_the_rows_whose_key_has_an_entry() -> None:
    """An entry is known by a value in any of its columns; one of them alone may be an empty cell."""
    query = read_question("SELECT AVG(i.weight) FROM registry r JOIN icd i ON r.diagnosis = i.code WHERE r.age > 80")
    assert query.where == AllOf((InRanges("age", ((81, 90),)), InRanges("diagnosis", ((0, 1), (3, 4)))))
    assert query.aggregates == (Aggregate("avg", "icd.weight"),)
    shared = read_question(
        "SELECT COUNT(*) FROM registry INNER JOIN icd USING (diagnosis) WHERE weight > 8 AND chapter = 'a'"
    )
    weighed = (InRanges("icd.chapter", ((0, 0),)), InRanges("icd.weight", ((9, 9),)))
    assert shared.where == AllOf((InRanges("diagnosis", ((0, 1), (3, 4))), *weighed))


def test_one_unit() -> None:
    query = read_question("SELECT Income AS hers FROM registry FOR UNIT 'p''17'")
    assert query == Query("registry", (), Presentation((OutputColumn("hers"),)), unit="p'17", column="income")


@pytest.mark.parametrize(
    "tail", ["WHERE age > 3", "GROUP BY income", "LIMIT 1", "ORDER BY 1", "LEFT JOIN icd USING (diagnosis)"]
)
def test_one_unit_is_asked_for_plainly(tail: str) -> None:
    with pytest.raises(InvalidInput, match="no more"):
        parse_sql(f"SELECT income FROM registry {tail} FOR UNIT 'p17'", REGISTRY)


@pytest.mark.parametrize("item", ["COUNT(*)", "income, age", "BIN(age, 10)"])
def test_one_unit_is_asked_for_one_column(item: str) -> None:
    with pytest.raises(InvalidInput, match="FOR UNIT"):
        parse_sql(f"SELECT {item} FROM registry FOR UNIT 'p17'", REGISTRY)


def test_one_unit_is_asked_for_only_where_that_is_allowed() -> None:
    for schema, column, words, marked in (
        (MANY_ROWS, "income", "has not allowed", "                            ^^^^^^^^^^^^^^"),
        (REGISTRY, "city", "not public", "       ^^^^"),
        (REGISTRY, "COUNT(*)", "no more", "       ^^^^^^^^"),
    ):
        with pytest.raises(InvalidInput, match=words) as refusal:
            parse_sql(f"SELECT {column} FROM registry FOR UNIT 'p17'", schema)
        assert refusal.value.__notes__[0].split("\n")[1] == marked


ROLLUP_GIVES = r"gives one count of rows, COUNT\(\*\) or COUNT\(x\), and its totals"
REFUSALS: dict[str, tuple[ErrorCode, str, str]] = {
    # other statements, other clauses
    "": ("syntax", "", "question is empty"),
    "-- nothing": ("syntax", "-- nothing", "question is empty"),
    "DROP TABLE registry": ("syntax", "DROP", "begins with SELECT"),
    "INSERT INTO registry VALUES (1)": ("syntax", "INSERT", "begins with SELECT"),
    "EXPLAIN SELECT COUNT(*) FROM registry": ("syntax", "EXPLAIN", "begins with SELECT"),
    "WITH t AS (SELECT 1) SELECT COUNT(*) FROM t": ("syntax", "WITH", "begins with SELECT"),
    "(SELECT COUNT(*) FROM registry)": ("syntax", "(", "begins with SELECT"),
    "SELECT COUNT(*) FROM registry; DROP TABLE registry": ("syntax", ";", "two statements"),
    "SELECT COUNT(*)": ("syntax", "COUNT(*)", "no FROM"),
    "SELECT FROM registry": ("syntax", "SELECT", "SELECT list is empty"),
    "SELECT COUNT(*) FROM registry UNION SELECT COUNT(*) FROM registry": (
        "unsupported-sql",
        "UNION",
        "UNION is not supported here",
    ),
    "SELECT COUNT(*) FROM registry LIMIT 5 OFFSET 2": ("unsupported-sql", "OFFSET", "OFFSET is not supported here"),
    "SELECT COUNT(*) FROM registry LIMIT 5, 2": ("unsupported-sql", "5", "OFFSET is not supported here"),
    "SELECT COUNT(*) FROM registry LIMIT 0": ("invalid-input", "0", "LIMIT must be a whole number"),
    "SELECT COUNT(*) FROM registry LIMIT 2.5": ("invalid-input", "2.5", "LIMIT must be a whole number"),
    "SELECT COUNT(*) FROM registry LIMIT age": ("unsupported-sql", "age", "a number is allowed here, not a column"),
    "SELECT COUNT(*) FROM registry FOR UPDATE": ("unsupported-sql", "FOR", "FOR is not supported here"),
    "SELECT COUNT(*) FROM registry FOR UNIT 17": ("unsupported-sql", "FOR", "FOR is not supported here"),
    "SELECT COUNT(*) FROM registry QUALIFY 1": ("unsupported-sql", "QUALIFY", "QUALIFY is not supported here"),
    "SELECT COUNT(*) FROM registry TABLESAMPLE (10)": (
        "unsupported-sql",
        "TABLESAMPLE",
        "TABLESAMPLE is not supported here",
    ),
    "SELECT COUNT(*) FROM registry |> WHERE age > 3": ("unsupported-sql", "|>", r"\|> is not supported here"),
    "SELECT /*+ hint */ COUNT(*) FROM registry": (
        "unsupported-sql",
        "/*+ hint */",
        r"/\*\+ HINT \*/ is not supported here",
    ),
    "SELECT DISTINCT sex FROM registry": ("unsupported-sql", "DISTINCT", "DISTINCT is not supported here"),
    "SELECT COUNT(*) FROM registry WHERE 'a": ("syntax", "'a", "not closed"),
    "SELECT COUNT(*) /* FROM registry": ("syntax", "/* FROM registry", "not closed"),
    "SELECT COUNT(*) FROM registry WHERE": ("syntax", "WHERE", "ends too early"),
    "SELECT COUNT(*), FROM registry": ("syntax", ",", "comma"),
    "SELECT COUNT(*) FROM registry WHERE age IN (1, , 2)": ("syntax", ",", "comma"),
    "SELECT QUANTILE(age, 0.5,) FROM registry": ("syntax", ",", "comma"),
    "SELECT COUNT(*) FROM registry GROUP BY sex,": ("syntax", ",", "comma"),
    # tables
    "SELECT COUNT(*) FROM other": ("unknown-table", "other", "unknown table 'other'"),
    "SELECT COUNT(*) FROM main.registry": ("unsupported-sql", "main", "write the table's name alone"),
    "SELECT COUNT(*) FROM (SELECT * FROM registry)": ("unsupported-sql", "SELECT", "a subquery is not supported"),
    "SELECT COUNT(*) FROM registry, icd": ("unsupported-sql", "icd", "JOIN or LEFT JOIN"),
    "SELECT COUNT(*) FROM registry FULL JOIN icd USING (diagnosis)": (
        "unsupported-sql",
        "FULL",
        "FULL is not supported here",
    ),
    "SELECT COUNT(*) FROM registry CROSS JOIN icd": ("unsupported-sql", "CROSS", "CROSS is not supported here"),
    "SELECT COUNT(*) FROM registry NATURAL JOIN icd": ("unsupported-sql", "NATURAL", "NATURAL is not supported here"),
    "SELECT COUNT(*) FROM registry JOIN icd": ("unsupported-sql", "icd", "JOIN or LEFT JOIN"),
    "SELECT COUNT(*) FROM registry JOIN registry USING (age)": ("unknown-table", "registry", "only lookups"),
    "SELECT COUNT(*) FROM registry JOIN icd ON diagnosis > icd.code": (
        "unsupported-sql",
        "diagnosis > icd.code",
        "one equality",
    ),
    "SELECT COUNT(*) FROM registry JOIN icd ON age = icd.code": (
        "invalid-input",
        "age = icd.code",
        "joined by its key",
    ),
    "SELECT COUNT(*) FROM registry JOIN icd ON diagnosis = icd.chapter": (
        "invalid-input",
        "diagnosis = icd.chapter",
        "joined by its key",
    ),
    "SELECT COUNT(*) FROM registry JOIN icd ON diagnosis = registry.code": (
        "invalid-input",
        "diagnosis = registry.code",
        "joined by its key",
    ),
    "SELECT COUNT(*) FROM registry JOIN icd ON diagnosis = diagnosis": (
        "invalid-input",
        "diagnosis = diagnosis",
        "joined by its key",
    ),
    "SELECT COUNT(*) FROM registry JOIN icd USING (age)": ("invalid-input", "age", "joined by its key"),
    "SELECT COUNT(*) FROM registry JOIN icd USING (diagnosis) JOIN icd i USING (diagnosis)": (
        "invalid-input",
        "icd i",
        "joined twice",
    ),
    "SELECT COUNT(*) FROM registry r JOIN icd r USING (diagnosis)": ("invalid-input", "icd r", "joined twice"),
    "SELECT COUNT(*) FROM registry" + " JOIN icd" * 9: ("invalid-input", "JOIN", "at most 8"),
    # outputs
    "SELECT * FROM registry": ("unsupported-sql", "*", r"not \*"),
    "SELECT age + 1 FROM registry": ("unsupported-sql", "age + 1", "not arithmetic"),
    "SELECT AVG(age + 1) FROM registry": ("unsupported-sql", "age + 1", "not arithmetic"),
    "SELECT AVG(age) - 1 FROM registry": ("unsupported-sql", "AVG(age) - 1", "not arithmetic"),
    "SELECT AVG(MAX(age)) FROM registry": ("unsupported-sql", "MAX(", "cannot contain parentheses"),
    "SELECT COUNT(*) OVER () FROM registry": ("unsupported-sql", "OVER", "OVER is not supported here"),
    "SELECT COUNT(*) FILTER (age > 30) FROM registry": ("syntax", "FILTER", "FILTER is written"),
    "SELECT COUNT(*) FILTER WHERE age < 40 FROM registry": ("syntax", "FILTER", "FILTER is written"),
    "SELECT COUNT(*) FILTER FROM registry": ("syntax", "FILTER", "FILTER is written"),
    "SELECT age FILTER (WHERE age > 30) FROM registry": ("syntax", "FILTER", "FILTER is written"),
    "SELECT SUM(age) FILTER (WHERE age > 30) FROM registry": (
        "unsupported-sql",
        "SUM(age) FILTER (WHERE age > 30)",
        "FILTER stands after counts",
    ),
    "SELECT BIN(age, 5) FILTER (WHERE age > 30) FROM registry": (
        "unsupported-sql",
        "BIN(age, 5) FILTER (WHERE age > 30)",
        "FILTER stands after counts",
    ),
    "SELECT COUNT(*) FILTER (WHERE COUNT(*) FILTER (WHERE age > 30) > 1) FROM registry": (
        "syntax",
        "FILTER",
        "right after a count",
    ),
    "SELECT COUNT(*) FILTER (WHERE AVG(age) > 1) FROM registry": (
        "unsupported-sql",
        "AVG(age)",
        "a column is allowed here",
    ),
    "SELECT COUNT(*) FILTER (WHERE age > 30) FILTER (WHERE smoker) FROM registry": ("syntax", "(", "cannot be read"),
    "SELECT COUNT(*) FILTER (WHERE nobody > 30) FROM registry": ("unknown-column", "nobody", "unknown column 'nobody'"),
    "SELECT COUNT(*) FILTER (WHERE smoker) FROM registry GROUP BY COUNT(*) FILTER (WHERE smoker)": (
        "unsupported-sql",
        "COUNT(*) FILTER (WHERE smoker)",
        "not aggregates",
    ),
    "SELECT COUNT(*) FILTER (WHERE smoker), COUNT(*) FILTER (WHERE smoker = TRUE) FROM registry": (
        "invalid-input",
        "COUNT(*) FILTER (WHERE smoker = TRUE)",
        "name one with AS",
    ),
    "SELECT COUNT(*) FROM registry HAVING COUNT(*) FILTER (WHERE smoker) > 5": (
        "invalid-input",
        "COUNT(*) FILTER (WHERE smoker)",
        "use what is selected",
    ),
    "SELECT CASE WHEN age > 3 THEN 1 END FROM registry": ("unsupported-sql", "CASE WHEN", "CASE is not supported here"),
    "SELECT age FROM registry": ("unsupported-sql", "age", "counted or measured"),
    "SELECT sex, COUNT(*) FROM registry": ("invalid-input", "sex", "add it to GROUP BY"),
    "SELECT sex, COUNT(*) FROM registry GROUP BY age": ("invalid-input", "sex", "add it to GROUP BY"),
    "SELECT COUNT(*), COUNT(*) FROM registry": ("invalid-input", "COUNT(*)", "are called"),
    "SELECT SUM(age) AS x, AVG(age) AS X FROM registry": ("invalid-input", "AVG(age) AS X", "are called"),
    "SELECT QUANTILE(age, 0.2, 0.4) AS q FROM registry": (
        "invalid-input",
        "QUANTILE(age, 0.2, 0.4) AS q",
        "AS names one column",
    ),
    'SELECT COUNT(*) AS "\x1b[31m" FROM registry': ("invalid-input", '"\x1b[31m"', "printable"),
    "SELECT LENGTH(sex) FROM registry": ("unknown-function", "LENGTH", "unknown function 'LENGTH'"),
    "SELECT PERCENTILE_CONT(age, 0.5) FROM registry": (
        "unknown-function",
        "PERCENTILE_CONT",
        r"write QUANTILE\(x, 0.5\)",
    ),
    "SELECT COUNT() FROM registry": ("syntax", "COUNT()", "needs a column"),
    "SELECT SUM(*) FROM registry": ("syntax", "SUM(*)", "needs a column"),
    "SELECT COUNT(*, 5) FROM registry": ("syntax", "5", "takes no number"),
    "SELECT SUM(age, 5) FROM registry": ("syntax", "5", "takes no number"),
    "SELECT SUM(DISTINCT age) FROM registry": ("unsupported-sql", "SUM(DISTINCT age)", r"COUNT\(DISTINCT unit\) only"),
    "SELECT COUNT(DISTINCT age) FROM registry": ("unsupported-sql", "age", r"ask COUNT\(DISTINCT person_id\)"),
    "SELECT COUNT(DISTINCT person_id, age) FROM registry": (
        "unsupported-sql",
        "COUNT(DISTINCT person_id, age)",
        r"COUNT\(DISTINCT unit\) only",
    ),
    "SELECT COUNT(person_id) FROM registry": ("invalid-input", "person_id", "names the units"),
    "SELECT AVG(sex) FROM registry": ("wrong-type", "sex", "takes a column of numbers"),
    "SELECT SUM(admitted) FROM registry": ("wrong-type", "admitted", "takes a column of numbers"),
    "SELECT MEDIAN(education) FROM registry": ("wrong-type", "education", "takes a column of numbers or dates"),
    "SELECT MAX(smoker) FROM registry": ("wrong-type", "smoker", "takes a column of numbers or dates"),
    "SELECT MODE(city) FROM registry": ("unsupported-sql", "city", "public list"),
    "SELECT QUANTILE(age) FROM registry": ("syntax", "QUANTILE(age)", "needs an order"),
    "SELECT QUANTILE(age, 1) FROM registry": ("invalid-input", "1", "between 0 and 1"),
    "SELECT QUANTILE(age, 0.1234567) FROM registry": ("invalid-input", "0.1234567", "six digits"),
    "SELECT QUANTILE(age, income) FROM registry": (
        "unsupported-sql",
        "income",
        "a number is allowed here, not a column",
    ),
    "SELECT HISTOGRAM(age, 10), COUNT(*) FROM registry": (
        "unsupported-sql",
        "HISTOGRAM(age, 10), COUNT(*)",
        "stands alone",
    ),
    "SELECT HISTOGRAM(age, 10) FROM registry GROUP BY sex": ("unsupported-sql", "HISTOGRAM(age, 10)", "stands alone"),
    "SELECT HISTOGRAM(age, 10) AS h FROM registry": ("invalid-input", "HISTOGRAM(age, 10) AS h", "AS names one column"),
    "SELECT HISTOGRAM(age, 0) FROM registry": ("invalid-input", "0", "number of bins"),
    "SELECT HISTOGRAM(income, 'a') FROM registry": ("unsupported-sql", "'a'", "a number is allowed here, not a text"),
    "SELECT HISTOGRAM(income, 100000000) FROM registry": (
        "invalid-input",
        "HISTOGRAM(income, 100000000)",
        "too many bins; ask for at most 100,000 bins of income",
    ),
    "SELECT HISTOGRAM(sex, 2) FROM registry": ("wrong-type", "sex", "takes a column of numbers or dates"),
    "SELECT HISTOGRAM(age) FROM registry": ("syntax", "HISTOGRAM(age)", "takes a column and a number"),
    # keys
    "SELECT COUNT(*) FROM registry GROUP BY income": ("invalid-input", "income", r"BIN\(x, width\)"),
    "SELECT COUNT(*) FROM registry GROUP BY age, admitted": ("invalid-input", "age, admitted", "100000 cells"),
    "SELECT COUNT(*) FROM registry GROUP BY city, sex": ("invalid-input", "city, sex", "only group key"),
    "SELECT COUNT(*) FROM registry GROUP BY age, BIN(age, 10)": ("invalid-input", "age, BIN(age, 10)", "in two ways"),
    "SELECT COUNT(*) FROM registry GROUP BY BIN(income, 0.005)": ("invalid-input", "0.005", "multiple of 0.01"),
    "SELECT COUNT(*) FROM registry GROUP BY BIN(admitted, 0.5)": ("invalid-input", "0.5", "whole number of days"),
    "SELECT COUNT(*) FROM registry GROUP BY BIN(age, -1)": ("invalid-input", "-1", "above 0"),
    "SELECT COUNT(*) FROM registry GROUP BY BIN(city, 1)": ("wrong-type", "city", "takes a column of numbers or dates"),
    "SELECT COUNT(*) FROM registry GROUP BY COUNT(*)": ("unsupported-sql", "COUNT(*)", "not aggregates"),
    "SELECT COUNT(*) FROM registry GROUP BY 1": ("unsupported-sql", "1", "not aggregates"),
    "SELECT COUNT(*) FROM registry GROUP BY 2": ("invalid-input", "2", "place 1 only"),
    "SELECT COUNT(*) FROM registry GROUP BY HISTOGRAM(age, 5)": (
        "unsupported-sql",
        "HISTOGRAM(age, 5)",
        "not aggregates",
    ),
    "SELECT sex, AVG(income) FROM registry GROUP BY ROLLUP (sex)": (
        "unsupported-sql",
        "sex, AVG(income)",
        r"gives one count of rows, COUNT\(\*\) or COUNT\(x\), and its totals",
    ),
    "SELECT sex, COUNT(*), COUNT(city) FROM registry GROUP BY ROLLUP (sex)": (
        "unsupported-sql",
        "sex, COUNT(*), COUNT(city)",
        r"gives one count of rows, COUNT\(\*\) or COUNT\(x\), and its totals",
    ),
    "SELECT sex, COUNT(*) FROM registry GROUP BY ROLLUP (sex), smoker": ("unknown-function", "ROLLUP", "ROLLUP"),
    "SELECT sex, COUNT(*) FROM registry GROUP BY ROLLUP (sex), ROLLUP (smoker)": (
        "unknown-function",
        "ROLLUP",
        "ROLLUP",
    ),
    "SELECT sex, COUNT(*) FROM registry GROUP BY CUBE (sex)": ("unsupported-sql", "CUBE", "CUBE is not supported here"),
    "SELECT sex, COUNT(*) FROM registry GROUP BY CUBE (sex, smoker)": (
        "unsupported-sql",
        "CUBE",
        "CUBE is not supported here",
    ),
    "SELECT sex, COUNT(*) FROM registry GROUP BY ROLLUP (sex, smoker), city": (
        "unknown-function",
        "ROLLUP",
        "alone there",
    ),
    "SELECT sex, COUNT(*) FROM registry GROUP BY ROLLUP (sex, sex)": ("invalid-input", "sex, sex", "names a key twice"),
    "SELECT sex, smoker, COUNT(*) FROM registry GROUP BY ROLLUP (sex)": (
        "invalid-input",
        "smoker",
        "add it to GROUP BY",
    ),
    "SELECT COUNT(*) FROM registry GROUP BY ALL": ("unknown-column", "ALL", "unknown column 'ALL'"),
    "SELECT COUNT(*) FROM registry GROUP BY person_id": ("invalid-input", "person_id", "names the units"),
    # conditions
    "SELECT COUNT(*) FROM registry WHERE person_id = 'p17'": ("invalid-input", "person_id", "names the units"),
    "SELECT COUNT(*) FROM registry WHERE ages > 3": ("unknown-column", "ages", r"did you mean 'age'\?"),
    "SELECT COUNT(*) FROM registry WHERE r.age > 3": ("unknown-table", "r", "unknown table 'r'"),
    "SELECT COUNT(*) FROM registry WHERE icd.weight > 3": ("unknown-table", "icd", "icd can be joined"),
    "SELECT COUNT(*) FROM registry WHERE weight > 3": ("unknown-column", "weight", "unknown column 'weight'"),
    "SELECT COUNT(*) FROM registry WHERE age > income": (
        "unsupported-sql",
        "income",
        "a constant is allowed here, not a column",
    ),
    "SELECT COUNT(*) FROM registry WHERE 1 = 1": ("unsupported-sql", "1", "a column is allowed here, not a constant"),
    "SELECT COUNT(*) FROM registry WHERE age > 3 + 4": ("unsupported-sql", "3 + 4", "not arithmetic"),
    "SELECT COUNT(*) FROM registry WHERE -age > 3": ("unsupported-sql", "age", "not arithmetic"),
    "SELECT COUNT(*) FROM registry WHERE 1 < age < 5": ("unsupported-sql", "1 < age", "allowed here"),
    "SELECT COUNT(*) FROM registry WHERE age IN (SELECT 1)": (
        "unsupported-sql",
        "SELECT",
        "a subquery is not supported",
    ),
    "SELECT COUNT(*) FROM registry WHERE age IN ()": ("syntax", "()", "at least one constant"),
    "SELECT COUNT(*) FROM registry WHERE age BETWEEN SYMMETRIC 2 AND 1": (
        "unsupported-sql",
        "age BETWEEN SYMMETRIC 2 AND 1",
        "SYMMETRIC is not supported here",
    ),
    "SELECT COUNT(*) FROM registry WHERE age > ?": ("unsupported-sql", "?", r"\? is not supported here"),
    "SELECT COUNT(*) FROM registry WHERE age > :age": ("unsupported-sql", ":", ": is not supported here"),
    "SELECT COUNT(*) FROM registry WHERE age::text = 'a'": ("unsupported-sql", "::", ":: is not supported here"),
    "SELECT COUNT(*) FROM registry WHERE city LIKE 'O%'": ("unsupported-sql", "LIKE", "LIKE is not supported here"),
    "SELECT COUNT(*) FROM registry WHERE city = 'a' || 'b'": ("unsupported-sql", "||", r"\|\| is not supported here"),
    "SELECT COUNT(*) FROM registry WHERE city = 'a' 'b'": ("unsupported-sql", "'a'", "allowed here"),
    "SELECT COUNT(*) FROM registry WHERE LOWER(city) = 'a'": ("unknown-function", "LOWER", "unknown function 'LOWER'"),
    "SELECT COUNT(*) FROM registry WHERE age IS 5": ("invalid-input", "5", "IS takes NULL, TRUE or FALSE"),
    "SELECT COUNT(*) FROM registry WHERE age IS TRUE": ("wrong-type", "age", "take a boolean column"),
    "SELECT COUNT(*) FROM registry WHERE age": ("wrong-type", "age", "compared with a number"),
    "SELECT COUNT(*) FROM registry WHERE age = '30'": ("wrong-type", "'30'", "without quotes"),
    "SELECT COUNT(*) FROM registry WHERE age = 1e400": ("invalid-input", "1e400", "plain number"),
    "SELECT COUNT(*) FROM registry WHERE age > NaN": ("unsupported-sql", "NaN", "a constant is allowed here"),
    "SELECT COUNT(*) FROM registry WHERE age > 'NaN'": ("wrong-type", "'NaN'", "without quotes"),
    "SELECT COUNT(*) FROM registry WHERE sex = 1": ("wrong-type", "1", "text in quotes"),
    "SELECT COUNT(*) FROM registry WHERE sex = 'X'": ("unknown-category", "'X'", "unknown category 'X'"),
    "SELECT COUNT(*) FROM registry WHERE sex > 'F'": ("wrong-type", "sex", "have no order"),
    "SELECT COUNT(*) FROM registry WHERE city > 'F'": ("wrong-type", "city", "have no order"),
    "SELECT COUNT(*) FROM registry WHERE city = 5": ("wrong-type", "5", "text in quotes"),
    "SELECT COUNT(*) FROM registry WHERE smoker = 'true'": ("wrong-type", "'true'", "TRUE or FALSE"),
    "SELECT COUNT(*) FROM registry WHERE smoker = 1": ("wrong-type", "1", "TRUE or FALSE"),
    "SELECT COUNT(*) FROM registry WHERE admitted > '2020-02-30'": ("invalid-input", "'2020-02-30'", "a date such as"),
    "SELECT COUNT(*) FROM registry WHERE admitted > DATE '20200203'": ("invalid-input", "'20200203'", "a date such as"),
    "SELECT income FROM registry 'for' UNIT 'p17'": ("syntax", "UNIT", "cannot be read"),
    "SELECT income FROM registry \"for\" UNIT 'p17'": ("syntax", "UNIT", "cannot be read"),
    "SELECT COUNT(DISTINCT icd.person_id) FROM registry": (
        "unsupported-sql",
        "icd.person_id",
        "counts units and nothing else",
    ),
    "SELECT COUNT(*) FROM registry WHERE admitted > 5": ("wrong-type", "5", "a date in quotes"),
    "SELECT COUNT(*) FROM registry WHERE sex = DATE '2020-01-01'": ("wrong-type", "'2020-01-01'", "text in quotes"),
    # layout
    "SELECT COUNT(*) FROM registry HAVING AVG(age) > 5": ("invalid-input", "AVG(age)", "add it to the SELECT list"),
    "SELECT COUNT(*) FROM registry ORDER BY AVG(age)": ("invalid-input", "AVG(age)", "add it to the SELECT list"),
    "SELECT sex, COUNT(*) FROM registry GROUP BY sex HAVING sex > 5": (
        "unsupported-sql",
        "sex",
        "put a condition on a column into WHERE",
    ),
    "SELECT COUNT(*) FROM registry HAVING COUNT(*) > 5 OR COUNT(*) < 3": (
        "unsupported-sql",
        "COUNT(*) > 5 OR COUNT(*) < 3",
        "and AND between several",
    ),
    "SELECT COUNT(*) FROM registry HAVING NOT COUNT(*) > 5": (
        "unsupported-sql",
        "COUNT(*) > 5",
        "and AND between several",
    ),
    "SELECT COUNT(*) FROM registry HAVING COUNT(*) > 'a'": (
        "unsupported-sql",
        "'a'",
        "a number is allowed here, not a text",
    ),
    "SELECT MIN(admitted) FROM registry HAVING MIN(admitted) > 5": ("wrong-type", "MIN(admitted)", "not numbers"),
    "SELECT COUNT(*) FROM registry ORDER BY 2": ("invalid-input", "2", "place 1 only"),
    "SELECT COUNT(*) FROM registry ORDER BY 1 NULLS LAST": ("unsupported-sql", "NULLS LAST", "NULLS"),
    "SELECT COUNT(*) FROM registry ORDER BY n": ("unknown-column", "n", "unknown column 'n'"),
    # frequent mistakes
    "SELECT AVG(agee) FROM registry": ("unknown-column", "agee", r"did you mean 'age'\?"),
    "SELECT AVERAGE(age) FROM registry": ("unknown-function", "AVERAGE", "unknown function 'AVERAGE'"),
    "SELECT AGV(age) FROM registry": ("unknown-function", "AGV", r"did you mean 'AVG'\?"),
    "SELECT COUNT(*) FROM registy": ("unknown-table", "registy", r"did you mean 'registry'\?"),
    "SELECT COUNT(*) FROM registry WHERE diagnosis = 'A0O'": (
        "unknown-category",
        "'A0O'",
        r"did you mean 'A00' or 'A01'\?",
    ),
    "SELECT COUNT(*) FROM registry WHERE education IN ('none', 'scholl')": (
        "unknown-category",
        "'scholl'",
        r"did you mean 'school'\?",
    ),
    'SELECT COUNT(*) FROM registry WHERE sex = "F"': ("unsupported-sql", '"F"', "in single quotes"),
    "SELECT COUNT(*) FROM registry GROUP sex": ("syntax", "GROUP", "GROUP is written GROUP BY"),
    "SELECT COUNT(*) registry": ("syntax", "registry", "write FROM"),
    "SELECT SUM(income) / COUNT(*) FROM registry": ("unsupported-sql", "/", "/ is not supported here"),
    "SELECT SUM(CASE WHEN age > 3 THEN 1 ELSE 0 END) FROM registry": (
        "unsupported-sql",
        "CASE WHEN",
        "CASE is not supported here",
    ),
    "SELECT COUNT(*) FROM registry WHERE age > (SELECT AVG(age) FROM registry)": (
        "unsupported-sql",
        "SELECT",
        "a subquery is not supported here",
    ),
    "SELECT COUNT(*) FROM registry WHERE EXISTS (SELECT 1)": (
        "unsupported-sql",
        "SELECT",
        "a subquery is not supported here",
    ),
    "SELECT COUNT(* FROM registry": ("syntax", "(", "parenthesis is not closed"),
    "SELECT COUNT(*)) FROM registry": ("syntax", ")", "parenthesis closes none"),
    "SELECT COUNT(*) FROM registry WHERE age = 30 OR (sex = 'F'": ("syntax", "(", "parenthesis is not closed"),
    "SELECT COUNT(*) FILTER (WHERE age > 30 FROM registry": ("syntax", "(", "parenthesis is not closed"),
    "SELECT COUNT(*) FROM registry WHERE YEAR(admitted) = 2020": (
        "unsupported-sql",
        "YEAR",
        "YEAR is not supported here",
    ),
    "SELECT COUNT(*) FROM registry WHERE age BETWEEN 10": ("syntax", "10", "BETWEEN takes two"),
    "SELECT COUNT(*) FROM registry WHERE NOT": ("syntax", "NOT", "ends too early"),
    "SELECT COUNT(*) FROM registry WHERE age > 10 AND": ("syntax", "AND", "ends too early"),
    "SELECT COUNT(*) FROM registry WHERE age <> 3 && smoker": ("unsupported-sql", "&&", "&& is not supported here"),
    "SELECT COUNT(*) FROM registry WHERE age > 1e3x": ("syntax", "1e3x", "not a number"),
    "SELECT COUNT(age, sex) FROM registry": ("unsupported-sql", "sex", "not a column"),
    "SELECT TOP 5 COUNT(*) FROM registry": ("unsupported-sql", "TOP", "TOP is not supported here"),
    "SELECT COUNT(*) FROM registry LIMIT ALL": ("unsupported-sql", "ALL", "not a column"),
    "SELECT COUNT(*) FROM registry GROUP BY GROUPING SETS ((sex), ())": (
        "unsupported-sql",
        "GROUPING SETS",
        "GROUPING SETS is not supported here",
    ),
    "SELECT COUNT(*)::int FROM registry": ("unsupported-sql", "::", ":: is not supported here"),
    "SELECT CAST(COUNT(*) AS int) FROM registry": ("unsupported-sql", "CAST", "CAST is not supported here"),
    "SELECT TRIMMED_MEAN(age) FROM registry": ("syntax", "TRIMMED_MEAN(age)", "needs the share"),
    "SELECT TRIMMED_MEAN(age, 0.7) FROM registry": ("invalid-input", "0.7", "above 0 and below 0.5"),
    "SELECT STRING_AGG(sex) FROM registry": ("unknown-function", "STRING_AGG", "unknown function 'STRING_AGG'"),
    "SELECT CORR(age, income) FROM registry": ("unknown-function", "CORR", "unknown function 'CORR'"),
    "SELECT COUNT(*) AS number FROM registry ORDER BY numbr": ("unknown-column", "numbr", r"did you mean 'number'\?"),
    "SELECT AVG(r.agee) FROM registry r": ("unknown-column", "r.agee", r"did you mean 'age'\?"),
    "SELECT AVG(q.age) FROM registry r": ("unknown-table", "q", "unknown table 'q'"),
    "SELECT COUNT(*) FROM registry JOIN icdd USING (diagnosis)": ("unknown-table", "icdd", "unknown lookup 'icdd'"),
    "SELECT AVG(icd.wieght) FROM registry JOIN icd USING (diagnosis)": (
        "unknown-column",
        "icd.wieght",
        r"did you mean 'weight'\?",
    ),
    "SELECT sum(incme) FROM registry WHERE smokr": ("unknown-column", "smokr", r"did you mean 'smoker'\?"),
    "SELECT COUNT(*)\nFROM registry\n\tWHERE agee > 3\nGROUP BY sex": (
        "unknown-column",
        "agee",
        r"did you mean 'age'\?",
    ),
    "SELECT COUNT(*) FROM registry WHERE city = '漢字' AND sex = 'Ｆ' AND age > 3": (
        "unknown-category",
        "'Ｆ'",
        "unknown category 'Ｆ'",
    ),
    "SELECT income FROM regstry FOR UNIT 'p17'": ("unknown-table", "regstry", r"did you mean 'registry'\?"),
    "SELECT incom FROM registry FOR UNIT 'p17'": ("unknown-column", "incom", r"did you mean 'income'\?"),
}


@pytest.mark.parametrize("text", REFUSALS)
def test_all_else_is_refused_in_a_sentence(text: str) -> None:
    """It marks the mistake and says what is allowed, in our words: none of the parser's, and few of the question's."""
    code, marked, fragment = REFUSALS[text]
    with pytest.raises(InvalidInput, match=fragment) as refusal:
        parse_sql(text, REGISTRY)
    error = refusal.value
    assert error.code == code
    assert error.position is not None
    line = text.split("\n")[error.position.line - 1]
    assert line[error.position.column - 1 :][: error.position.length] == marked
    assert error.__notes__ == [error.position.mark()]
    message = str(error)
    assert "\n" not in message
    assert "\x1b" not in message
    assert "sqlglot" not in message
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None


def test_totals_are_of_rows_not_of_units() -> None:
    with pytest.raises(InvalidInput, match=ROLLUP_GIVES):
        parse_sql("SELECT sex, COUNT(DISTINCT person_id) FROM registry GROUP BY ROLLUP (sex)", MANY_ROWS)


def test_a_histogram_of_the_most_bins_is_read() -> None:
    """As many as a refusal tells, one fewer where a value can be missing."""
    missing = replace(REGISTRY.columns["income"], missing=None)
    for column, most in ((REGISTRY.columns["income"], 100_000), (missing, 99_999)):
        declared_schema = replace(REGISTRY, columns={**REGISTRY.columns, "income": column})
        assert read_question(f"SELECT HISTOGRAM(income, {most}) FROM registry", declared_schema).nesting == "ranges"
        with pytest.raises(InvalidInput, match=f"ask for at most {most:,} bins of income"):
            parse_sql("SELECT HISTOGRAM(income, 100001) FROM registry", declared_schema)


def test_a_table_without_units_counts_rows() -> None:
    with pytest.raises(InvalidInput, match=r"every row is a unit, so ask COUNT\(\*\)"):
        parse_sql("SELECT COUNT(DISTINCT age) FROM registry", ROWS)


def test_an_identifier_is_never_asked_about() -> None:
    with_name = replace(REGISTRY, columns={**REGISTRY.columns, "name": Column("name", "nominal", role="identifier")})
    with pytest.raises(InvalidInput, match="identifies people"):
        parse_sql("SELECT COUNT(name) FROM registry", with_name)


def test_a_name_in_two_tables_needs_its_table() -> None:
    twice = replace(REGISTRY, columns={**REGISTRY.columns, "weight": Column("weight", "integer", upper=9)})
    text = "SELECT AVG({}) FROM registry LEFT JOIN icd USING (diagnosis)"
    with pytest.raises(InvalidInput, match=r"could be weight or icd.weight"):
        parse_sql(text.format("weight"), twice)
    for name, column in (("registry.weight", "weight"), ("icd.weight", "icd.weight")):
        assert read_question(text.format(name), twice).aggregates == (Aggregate("avg", column),)
    question = "SELECT AVG(registry.weight), AVG(icd.weight) AS other FROM registry JOIN icd USING (diagnosis)"
    assert len(read_question(question, twice).aggregates) == 2


def test_names_match_in_any_case_unless_two_do() -> None:
    """A schema cannot have two such names; were there two, the exact one is meant."""
    twice = replace(REGISTRY, columns={**REGISTRY.columns, "AGE": Column("AGE", "integer", upper=9)})
    assert parse_sql("SELECT SUM(AGE) FROM registry", twice).aggregates == (Aggregate("sum", "AGE"),)
    with pytest.raises(InvalidInput, match="could be age or AGE"):
        parse_sql("SELECT SUM(Age) FROM registry", twice)


def test_sqlglot_is_loaded_by_the_first_question_only() -> None:
    command = [sys.executable, "-c", "import discreet.query, sys; print(*sys.modules)"]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert "discreet.query" in loaded
    assert "sqlglot" not in loaded


LONG_TEXTS = {
    "text": ("SELECT COUNT(*) FROM registry WHERE age = 1" + " " * 20_000, "20000 characters"),
    "tokens": ("SELECT COUNT(*) FROM registry WHERE " + "1=1+" * 1200, "4000 words"),
    "NUL": ("SELECT COUNT(*) FROM registry WHERE city = 'a\0'", "NUL"),
    "surrogate": ("SELECT COUNT(*) FROM registry WHERE city = '\ud800'", "halves of characters"),
    "not text": (b"SELECT COUNT(*) FROM registry", "must be text, got bytes"),
}


@pytest.mark.parametrize("name", LONG_TEXTS)
def test_limits(name: str) -> None:
    """Before the parser sees anything."""
    text, message = LONG_TEXTS[name]
    with pytest.raises(InvalidInput, match=message):
        parse_sql(text, REGISTRY)  # type: ignore[arg-type]


HOSTILE = {
    "brackets": "(" * 3000,
    "calls": "date(" * 30 + "1" + ")" * 30,
    "calls in brackets": "(date (" * 16 + "1" + "))" * 16,
    "types": "struct<a " * 30 + "1" + ">" * 30,
    "minus": "age > " + "- " * 3000 + "1",
    "not": "NOT " * 3000 + "smoker",
    "not in brackets": "NOT(" * 900 + "smoker",
    "case": "CASE WHEN " * 900 + "1" + " END" * 900,
    "interval": "INTERVAL " * 3000,
    "select": "age IN (SELECT " * 900,
    "between": "age BETWEEN " * 1500,
    "equalities": " = ".join(["age"] * 1900),
    "dots": ".".join(["age"] * 1900),
    "aliases": "age AS " * 1900,
    "is": "age IS " * 1900,
    "time zone": "age AT TIME ZONE " * 900,
    "chain": "age < 9 AND " + " AND ".join(f"(age > {90 - i} OR date <= {90 - i})" for i in range(70)),
    "wide": " OR ".join(f"(income = {i} AND age = {17 + i % 70})" for i in range(380)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_answered_quickly(name: str) -> None:
    """No recursion, and no time that grows with the power of the depth: unguarded, nested calls take minutes."""
    start = time.process_time()
    try_to_read(f"SELECT COUNT(*) FROM registry WHERE {HOSTILE[name]}")
    assert time.process_time() - start < 5


def test_many_joins_are_answered_quickly() -> None:
    """Unguarded, each join without ON doubles the parser's time."""
    start = time.process_time()
    assert try_to_read("SELECT COUNT(*) FROM registry" + " LEFT JOIN icd" * 40) is None
    assert time.process_time() - start < 5


def try_to_read(text: str) -> Query | None:
    """A question that reads back from its own text, or nothing; never an error of another kind."""
    try:
        query = parse_sql(text, REGISTRY)
    except (InvalidInput, Unsupported):
        return None
    assert parse_sql(to_sql(query, REGISTRY), REGISTRY) == query, text
    return query


VALID = (
    "SELECT COUNT(*) FROM registry WHERE age >= 18 AND (sex = 'F' OR NOT smoker)",
    "SELECT sex, BIN(age, 10) AS b, AVG(income) x FROM registry r GROUP BY 1, b HAVING x > 9 ORDER BY 3 DESC LIMIT 2",
    "SELECT chapter, COUNT(*) FROM registry JOIN icd ON diagnosis = code WHERE admitted > DATE '2020-01-01' GROUP BY 1",
    "SELECT income FROM registry FOR UNIT 'p17'",
    "SELECT QUANTILE(age, 0.25, 0.5), MIN(income) FROM registry WHERE city NOT IN ('Oslo', 'it''s') OR smoker IS TRUE",
)
VALID += ("SELECT COUNT(*) FILTER (WHERE age < 30 OR sex = 'F') x, COUNT(city) FILTER (WHERE smoker) FROM registry",)
WORDS = tuple(word for word in Tokenizer.KEYWORDS if word.strip())
FREQUENT_WORDS = (
    "SELECT",
    "FROM",
    "registry",
    "icd",
    "age",
    "sex",
    "city",
    "COUNT",
    "FILTER (WHERE",
    "(",
    ")",
    ",",
    ".",
    "*",
    "-",
    "'F'",
    "1",
    "NOT",
)


def mutate_question(chance: random.Random) -> str:
    """A valid question with a few words replaced, added, dropped or repeated; or with other letters."""
    text = chance.choice(VALID)
    if chance.random() < 0.2:
        letters = list(text)
        for _ in range(chance.randint(1, 4)):
            letters[chance.randrange(len(letters))] = chr(
                chance.choice([chance.randrange(128), chance.randrange(0x3000)])
            )
        return "".join(letters)
    words = [text[token.start : token.end + 1] for token in Tokenizer().tokenize(text)]
    for _ in range(chance.randint(1, 3)):
        position, other = chance.randrange(len(words)), chance.randrange(len(words))
        piece = chance.choice([[], [chance.choice(FREQUENT_WORDS)], [chance.choice(WORDS)], words[other : other + 9]])
        words[position : position + chance.randint(0, 1)] = piece
        words = words or ["SELECT"]
    return " ".join(words)


def mix_words(chance: random.Random) -> str:
    return "SELECT " + " ".join(
        chance.choice(chance.choice([FREQUENT_WORDS, WORDS])) for _ in range(chance.randint(1, 40))
    )


def count_questions_in_noise(count: int, seed: int) -> int:
    """How many of so many texts were questions; each took less than five seconds."""
    chance = random.Random(seed)
    read_well = 0
    for _ in range(count):
        text = chance.choice([mutate_question, mutate_question, mix_words])(chance)
        start = time.process_time()
        read_well += try_to_read(text) is not None
        assert time.process_time() - start < 5, text
    return read_well


def test_broken_text_is_refused_and_nothing_worse(caplog: pytest.LogCaptureFixture) -> None:
    """Some mutants are questions; nothing is logged of those that are not."""
    with caplog.at_level(logging.DEBUG):
        assert count_questions_in_noise(3000, 1) > 30
    assert caplog.records == []


@pytest.mark.soak
def test_much_broken_text_is_refused_and_nothing_worse() -> None:
    """Small version: 3,000 texts."""
    assert count_questions_in_noise(300_000, 2) > 3000
