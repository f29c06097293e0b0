"""One form for all ways to write a question, and SQL's logic of missing values, tried on all rows of small tables."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from itertools import product
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidInput
from discreet.query import parse_sql, to_sql
from discreet.query.predicates import (
    FALSE,
    TRUE,
    AllOf,
    AnyOf,
    InRanges,
    InTexts,
    Predicate,
    build_ranges,
    build_whole_domain,
    complement_condition,
    intersect_conditions,
    is_empty_condition,
    is_satisfied,
    simplify_predicate,
    simplify_within,
    unite_conditions,
)
from discreet.query.query import format_canonical_query
from discreet.schema import Budget, Column, Schema
from support.sized_properties import run_at_two_sizes

Row = Mapping[str, int | str | None]

TINY = Schema(
    name="tiny",
    source="tiny.csv",
    folder=Path(),
    neighbors="add-remove",
    columns={
        column.name: column
        for column in (
            Column("a", "integer", lower=-1, upper=2),
            Column("n", "number", lower=0, upper=2, step=Fraction(1, 2), missing=0),
            Column("b", "boolean", upper=1, categories=("false", "true")),
            Column("g", "ordinal", upper=2, categories=("low", "middle", "high")),
            Column("s", "nominal", upper=2, categories=("F", "M", "X")),
            Column("d", "date", lower=18262, upper=18264),
            Column("t", "nominal", private_keys=True),
        )
    },
    budget=Budget(Fraction(1)),
    analyst_budget=Budget(Fraction(1)),
)
TEXTS = ("u", "v", "it's")


def list_values(column: Column) -> list[int | str | None]:
    column_values: list[int | str | None] = list(
        TEXTS if column.private_keys else range(column.lower, column.upper + 1)
    )
    return [*column_values, None] if column.is_nullable else column_values


def list_rows(*names: str) -> list[dict[str, int | str | None]]:
    """Every row there can be, with these columns."""
    column_values = (list_values(TINY.column(name)) for name in names)
    return [dict(zip(names, row, strict=True)) for row in product(*column_values)]


FEW = ("a", "n", "b", "t")
ROWS = list_rows(*FEW)
SOME_ROWS = random.Random(1).sample(list_rows(*TINY.columns), 300)


def st_ranges(column: Column) -> st.SearchStrategy[tuple[tuple[int, int], ...]]:
    """Any codes, some of them beyond the bounds."""
    return st.sets(st.integers(column.lower - 2, column.upper + 2)).map(build_ranges)


def st_conditions(column: Column) -> st.SearchStrategy[Predicate]:
    if column.private_keys:
        texts = st.sets(st.sampled_from(TEXTS)).map(sorted).map(tuple)
        return st.builds(InTexts, st.just(column.name), texts, st.booleans(), st.booleans())
    return st.builds(InRanges, st.just(column.name), st_ranges(column), st.booleans())


def st_tiny_predicates(*names: str) -> st.SearchStrategy[Predicate]:
    single = st.one_of(*(st_conditions(TINY.column(name)) for name in names))

    def join_parts(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        parts = st.lists(inner, max_size=4).map(tuple)
        return st.one_of(parts.map(AllOf), parts.map(AnyOf))

    return st.recursive(single, join_parts, max_leaves=12)


def shuffle_predicate(predicate: Predicate, chance: random.Random) -> Predicate:
    """The same with its parts in another order, some of them twice, some within brackets."""
    if not isinstance(predicate, AllOf | AnyOf):
        return predicate
    parts = [shuffle_predicate(part, chance) for part in predicate.parts]
    parts += [part for part in parts if chance.random() < 0.3]
    chance.shuffle(parts)
    cut = chance.randint(0, len(parts))
    kind = type(predicate)
    return kind((*parts[:cut], kind(tuple(parts[cut:]))))


@given(st_tiny_predicates(*FEW))
@settings(max_examples=200)
def test_simplifying_keeps_the_rows(predicate: Predicate) -> None:
    """Every row, and no other."""
    simple = simplify_predicate(predicate, TINY)
    assert [is_satisfied(simple, row) for row in ROWS] == [is_satisfied(predicate, row) for row in ROWS]


@given(st_tiny_predicates(*FEW), st.integers())
@settings(max_examples=200)
def test_order_and_repetition_do_not_matter(predicate: Predicate, seed: int) -> None:
    """Simplifying twice changes nothing either."""
    simple = simplify_predicate(predicate, TINY)
    assert simplify_predicate(shuffle_predicate(predicate, random.Random(seed)), TINY) == simple
    assert simplify_predicate(simple, TINY) == simple


@pytest.mark.parametrize("name", TINY.columns)
def test_on_one_column_equal_rows_give_equal_forms(name: str) -> None:
    """Whatever is said of a single column has exactly one form; no condition at all is exactly TRUE."""
    forms: dict[tuple[bool, ...], Predicate] = {}
    rows: list[Row] = [
        {name: value} for value in (*list_values(TINY.column(name)), *([] if name != "t" else ["another"]))
    ]

    @given(st_tiny_predicates(name))
    @settings(max_examples=200)
    def assert_same_rows(predicate: Predicate) -> None:
        simple = simplify_predicate(predicate, TINY)
        true_of = tuple(is_satisfied(predicate, row) for row in rows)
        assert forms.setdefault(true_of, simple) == simple
        if name != "t":
            assert (simple == TRUE) == all(true_of)
            assert (simple == FALSE) == (not any(true_of))

    assert_same_rows()
    assert len(forms) > 4


@given(st.sampled_from(list(TINY.columns.values())), st.data())
def test_sets_of_values_are_sets(column: Column, data: st.DataObject) -> None:
    one, two = (data.draw(st_conditions(column)) for _ in range(2))
    assert isinstance(one, InRanges | InTexts)
    assert isinstance(two, InRanges | InTexts)
    both, either, other = (
        intersect_conditions(one, two),
        unite_conditions(one, two, TINY),
        complement_condition(one, column),
    )
    for value in list_values(column):
        row = {column.name: value}
        assert is_satisfied(both, row) == (is_satisfied(one, row) and is_satisfied(two, row))
        assert is_satisfied(either, row) == (is_satisfied(one, row) or is_satisfied(two, row))
        assert is_satisfied(other, row) == (not is_satisfied(one, row))
    assert is_empty_condition(intersect_conditions(intersect_conditions(one, build_whole_domain(column)), other))
    assert column.is_nullable or not (either.null or other.null)


@run_at_two_sizes(100, 300, st_tiny_predicates(*FEW), st_tiny_predicates(*FEW))
def test_a_filter_keeps_its_rows_and_rests(predicate: Predicate, where: Predicate) -> None:
    """Of the rows of the condition it is true of the same ones; written again it is the same; TRUE where it is all."""
    outer = simplify_predicate(where, TINY)
    simplified = simplify_within(predicate, outer, TINY)
    rows = [row for row in list_rows(*FEW) if is_satisfied(outer, row)]
    assert [is_satisfied(simplified, row) for row in rows] == [is_satisfied(predicate, row) for row in rows]
    assert simplify_within(simplified, outer, TINY) == simplified
    assert simplify_within(outer, outer, TINY) == TRUE


def test_what_stored_answers_are_found_by_stays() -> None:
    """The text of a question without filters, to the letter."""
    query = parse_sql("SELECT COUNT(a), MEDIAN(n) FROM tiny WHERE b GROUP BY s", TINY)
    assert format_canonical_query(query) == (
        '{"aggregates":[["count","a",[]],["quantile","n",["1/2"]]],"column":null,"keys":[["s",1]],"table":"tiny",'
        '"unit":null,"where":["within","b",[[1,1]],false]}'
    )
    filtered = parse_sql("SELECT COUNT(*) FILTER (WHERE b) FROM tiny", TINY)
    assert json.loads(format_canonical_query(filtered))["aggregates"] == [
        ["count", None, [], ["within", "b", [[1, 1]], False]]
    ]


def test_what_follows_from_the_rest_is_left_out() -> None:
    """Absorption, both ways; and a part that only repeats another with more."""
    one, two, three = InRanges("a", ((0, 0),)), InRanges("b", ((1, 1),)), InRanges("g", ((0, 1),))
    assert simplify_predicate(AllOf((one, AnyOf((one, two)))), TINY) == one
    assert simplify_predicate(AnyOf((one, AllOf((one, two)))), TINY) == one
    assert simplify_predicate(AllOf((AnyOf((one, two)), AnyOf((one, two, three)))), TINY) == AnyOf((one, two))
    assert simplify_predicate(AllOf((one, AnyOf((InRanges("a", ((1, 2),)), two)))), TINY) == AllOf((one, two))


def test_a_missing_value_that_cannot_be_is_not_mentioned() -> None:
    assert simplify_predicate(InRanges("n", ((0, 1),), null=True), TINY) == InRanges("n", ((0, 1),))
    assert simplify_predicate(InRanges("n", ((0, 2),)), TINY) == TRUE
    assert simplify_predicate(InRanges("a", ((-1, 2),)), TINY) != TRUE
    assert simplify_predicate(InRanges("a", ((-1, 2),), null=True), TINY) == TRUE


def format_question(condition: str, select: str = "COUNT(*)") -> str:
    return format_canonical_query(parse_sql(f"SELECT {select} FROM tiny WHERE {condition}", TINY))


@pytest.mark.parametrize(
    "ways",
    [
        ("a >= 1", "a > 0", "NOT a < 1", "0 < a", "a > 0.5", "a IN (1, 2)", "a BETWEEN 1 AND 7", "NOT (a <= 0)"),
        ("a = 1 AND b", "b AND a = 1", "b AND a = 1 AND b", "(b) AND (NOT (a <> 1))", "NOT (NOT b OR a <> 1)"),
        (
            "a BETWEEN 0 AND 1",
            "a >= 0 AND a <= 1",
            "a IN (1, 0)",
            "a IN (0, 1, 1)",
            "a = 0 OR a = 1",
            "a >= 0 AND a < 2",
        ),
        ("s IN ('F', 'M')", "s = 'M' OR s = 'F'", "s <> 'X'", "s NOT IN ('X')", "NOT s = 'X'"),
        ("t NOT IN ('u', 'v')", "t <> 'v' AND t <> 'u'", "NOT (t = 'u' OR t IN ('v'))"),
        ("TRUE", "n >= 0", "n IS NOT NULL", "NOT FALSE", "a IS NULL OR a IS NOT NULL", "b IS TRUE OR b IS NOT TRUE"),
        (
            "FALSE",
            "NULL",
            "a = NULL",
            "NOT a = NULL",
            "a > 5",
            "a = 0.5",
            "a NOT IN (1, NULL)",
            "b AND NOT b",
            "n IS NULL",
        ),
        ("d > '2020-01-01'", "d >= DATE '2020-01-02'", "NOT d <= '2020-01-01'", "'2020-01-01' < d"),
        ("b", "b = TRUE", "b IS TRUE", "b > FALSE", "b <> FALSE", "NOT NOT b", "b IN (TRUE)"),
        ("b IS NOT TRUE", "b = FALSE OR b IS NULL", "NOT (b IS TRUE)", "NOT b OR b IS NULL"),
        ("a > 0 OR b", "a > 0 OR (b AND (a <= 0 OR a IS NULL))", "b OR a > 0 OR b OR a = 2"),
    ],
)
def test_ways_to_write_one_condition_have_one_form(ways: tuple[str, ...]) -> None:
    """Three-valued throughout: NOT a < 1 leaves out the rows without a, and so does a >= 1."""
    assert len({format_question(condition) for condition in ways}) == 1


@pytest.mark.parametrize(
    "ways",
    [
        ("MEDIAN(a)", "QUANTILE(a, 0.5)", "quantile(A, .50)", "MEDIAN(a) AS m, QUANTILE(a, 0.5) AS q"),
        ("QUANTILE(a, 0.25, 0.75)", "QUANTILE(a, 0.75), QUANTILE(a, 0.25)"),
        ("AVG(a), COUNT(*)", "COUNT(*), AVG(a)", "COUNT(*) AS x, AVG(a) AS y, COUNT(*) AS z"),
        ("VAR(a)", "VARIANCE(a)", "VAR_SAMP(a)"),
        ("STDDEV(a)", "STDDEV_SAMP(a)"),
        ("COUNT(*)", "COUNT(n)"),
        ("COUNT(*)", "COUNT(*) FILTER (WHERE b)", "COUNT(n) FILTER (WHERE b OR a = 1)"),
        ("COUNT(a)", "COUNT(a) FILTER (WHERE b)", "COUNT(*) FILTER (WHERE a IS NOT NULL)"),
        ("COUNT(*) FILTER (WHERE a >= 0)", "COUNT(a) FILTER (WHERE b AND NOT a < 0)"),
        (
            "COUNT(*) FILTER (WHERE a = 1), COUNT(*) FILTER (WHERE s = 'F')",
            "COUNT(*) FILTER (WHERE s = 'F') AS x, COUNT(*) FILTER (WHERE a = 1) AS y, COUNT(a) FILTER (WHERE a = 1)",
        ),
    ],
)
def test_ways_to_write_the_aggregates_have_one_form(ways: tuple[str, ...]) -> None:
    assert len({format_question("b", select) for select in ways}) == 1


def test_ways_to_write_the_keys_have_one_form() -> None:
    ways = ["a, b, COUNT(*) FROM tiny GROUP BY a, b", "b, COUNT(*), a FROM tiny GROUP BY 3, b"]
    ways += [
        "COUNT(*) FROM tiny GROUP BY b, BIN(a, 1), a",
        "COUNT(*) AS c FROM tiny GROUP BY b, a HAVING c > 3 LIMIT 1",
    ]
    assert len({format_canonical_query(parse_sql(f"SELECT {way}", TINY)) for way in ways}) == 1
    wide = ["BIN(a, 4)", "BIN(a, 100)"]
    assert (
        len({format_canonical_query(parse_sql(f"SELECT COUNT(*) FROM tiny GROUP BY {key}", TINY)) for key in wide}) == 1
    )


def test_different_questions_have_different_forms() -> None:
    """One for each thing that may differ."""
    tails = ["", "WHERE b", "WHERE a = 1", "WHERE a <> 1", "WHERE a IS NULL", "WHERE t = 'u'", "WHERE t <> 'u'"]
    tails += [
        "WHERE a = 1 AND b",
        "WHERE a = 1 OR b",
        "GROUP BY a",
        "GROUP BY BIN(a, 2)",
        "GROUP BY b",
        "GROUP BY a, b",
    ]
    texts = [f"SELECT COUNT(*) FROM tiny {tail}" for tail in tails]
    selects = [
        "COUNT(a)",
        "SUM(a)",
        "AVG(a)",
        "AVG(n)",
        "MEDIAN(a)",
        "QUANTILE(a, 0.4)",
        "QUANTILE(a, 0.4, 0.5)",
        "MIN(a)",
        "COUNT(*) FILTER (WHERE b)",
        "COUNT(a) FILTER (WHERE b)",
        "COUNT(*), COUNT(*) FILTER (WHERE b)",
    ]
    texts += [f"SELECT {select} FROM tiny" for select in selects]
    forms = [format_canonical_query(parse_sql(text, TINY)) for text in texts]
    assert len(set(forms)) == len(forms)
    assert all(json.loads(form)["table"] == "tiny" for form in forms)


Truth = bool | None
COMPARE = {
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    "=": lambda x, y: x == y,
    "<>": lambda x, y: x != y,
    ">=": lambda x, y: x >= y,
    ">": lambda x, y: x > y,
}
CONSTANTS = {
    "a": ["-9", "-1", "0", "0.5", "1", "2", "1e2"],
    "n": ["0", "0.5", "0.75", "1.0", "3", "-1"],
    "b": ["TRUE", "FALSE"],
    "g": ["'low'", "'middle'", "'high'"],
    "s": ["'F'", "'M'"],
    "d": ["'2019-12-31'", "'2020-01-01'", "DATE '2020-01-02'", "'2020-01-03'"],
    "t": ["'u'", "'v'", "'w'", "'it''s'"],
}


def write_condition(chance: random.Random, depth: int) -> str:
    """A random condition in SQL."""
    if depth and chance.random() < 0.6:
        parts = [write_condition(chance, depth - 1) for _ in range(chance.randint(2, 3))]
        word = chance.choice([" AND ", " OR "])
        return chance.choice(
            [word.join(parts), f"({word.join(parts)})", f"NOT ({word.join(parts)})", f"NOT {parts[0]}"]
        )
    name = chance.choice(list(CONSTANTS))
    constants = [*CONSTANTS[name], "NULL"]
    one, two = chance.choice(constants), chance.choice(constants)
    sign = chance.choice(list(COMPARE) if name not in "st" else ["=", "<>"])
    forms = [f"{name} {sign} {one}", f"{one} {sign} {name}", f"{name} IS NULL", f"{name} IS NOT NULL"]
    forms += [f"{name} {chance.choice(['IN', 'NOT IN'])} ({one}, {two})"]
    if name not in "st":
        forms += [f"{name} {chance.choice(['BETWEEN', 'NOT BETWEEN'])} {one} AND {two}"]
    if name == "b":
        forms += ["b", "NOT b", "b IS TRUE", "b IS NOT FALSE", "b IS NOT TRUE", "TRUE", "FALSE", "NULL"]
    return chance.choice(forms)


def store_rows(connection: duckdb.DuckDBPyConnection) -> None:
    """The sample of rows as DuckDB keeps them, with their places."""
    connection.execute("CREATE TYPE grade AS ENUM ('low', 'middle', 'high')")
    types = "a INTEGER, n DECIMAL(9, 1), b BOOLEAN, g grade, s VARCHAR, d DATE, t VARCHAR"
    connection.execute(f"CREATE TABLE tiny (place INTEGER, {types})")
    for place, row in enumerate(SOME_ROWS):
        cells = [str(to_duckdb_value(row, name)) if row[name] is not None else None for name in TINY.columns]
        connection.execute("INSERT INTO tiny VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [place, *cells])


def to_duckdb_value(row: Row, name: str) -> object:
    code = row[name]
    value = TINY.column(name).decode(code) if isinstance(code, int) else code
    return float(value) if isinstance(value, Fraction) else value


def assert_agrees_with_duckdb(count: int, seed: int) -> None:
    """Random conditions select the same rows here and in DuckDB."""
    chance = random.Random(seed)
    with duckdb.connect() as connection:
        store_rows(connection)
        for _ in range(count):
            condition = write_condition(chance, 3)
            query = parse_sql(f"SELECT COUNT(*) FROM tiny WHERE {condition}", TINY)
            ours = [place for place, row in enumerate(SOME_ROWS) if is_satisfied(query.where, row)]
            # As text, grades would be in the order of the alphabet.
            graded = condition
            for grade in CONSTANTS["g"]:
                graded = graded.replace(grade, f"CAST({grade} AS grade)")
            theirs = connection.execute(f"SELECT place FROM tiny WHERE {graded} ORDER BY place").fetchall()
            assert ours == [place for (place,) in theirs], condition
            assert parse_sql(to_sql(query, TINY), TINY) == query, condition


def test_conditions_mean_what_duckdb_says_they_mean() -> None:
    """Missing values, NOT, BETWEEN, IN with NULL, constants on the left; and each reads back from its own text."""
    assert_agrees_with_duckdb(200, 1)


@pytest.mark.soak
def test_thousands_of_conditions_mean_what_duckdb_says_they_mean() -> None:
    """Small version: 200 conditions."""
    assert_agrees_with_duckdb(20_000, 2)


Tree = tuple[str, tuple["Tree", ...]]


def st_trees(depth: int) -> st.SearchStrategy[Tree]:
    """AND, OR and NOT over comparisons."""
    atoms = st.sampled_from(
        ["a > 0", "a = NULL", "b", "NULL", "TRUE", "g IN ('low', NULL)", "b IS NOT TRUE", "s <> 'F'"]
    )
    leaf: st.SearchStrategy[Tree] = atoms.map(lambda text: (text, ()))
    if not depth:
        return leaf
    inner = st_trees(depth - 1)
    pairs = st.tuples(st.sampled_from(["AND", "OR"]), st.tuples(inner, inner))
    return st.one_of(leaf, st.tuples(st.just("NOT"), st.tuples(inner)), pairs)


def format_tree(tree: Tree) -> str:
    word, parts = tree
    inside = [f"({format_tree(part)})" for part in parts]
    return f"NOT {inside[0]}" if word == "NOT" else f" {word} ".join(inside) or word


def evaluate_kleene(tree: Tree, row: Row) -> Truth:
    """SQL's logic, directly: None is unknown."""
    word, parts = tree
    truths = [evaluate_kleene(part, row) for part in parts]
    if word == "NOT":
        return None if truths[0] is None else not truths[0]
    if word in {"AND", "OR"}:
        decides = word == "OR"
        return decides if decides in truths else None if None in truths else not decides
    a, b, g, s = row["a"], row["b"], row["g"], row["s"]
    atoms: dict[str, Truth] = {
        "a > 0": None if a is None else int(a) > 0,
        "a = NULL": None,
        "b": None if b is None else b == 1,
        "NULL": None,
        "TRUE": True,
        "g IN ('low', NULL)": True if g == 0 else None,
        "b IS NOT TRUE": b != 1,
        "s <> 'F'": None if s is None else s != 0,
    }
    return atoms[word]


@given(st_trees(4))
def test_negation_goes_down_as_kleene_says(tree: Tree) -> None:
    """A row counts where the condition is true: neither false nor unknown."""
    where = parse_sql(f"SELECT COUNT(*) FROM tiny WHERE {format_tree(tree)}", TINY).where
    rows = list_rows("a", "b", "g", "s")
    assert [is_satisfied(where, row) for row in rows] == [evaluate_kleene(tree, row) is True for row in rows]


def test_the_check_against_duckdb_can_fail() -> None:
    """A reading that lets NOT a > 0 keep the rows without a is caught by the sample."""
    wrong = InRanges("a", ((-1, 0),), null=True)
    right = parse_sql("SELECT COUNT(*) FROM tiny WHERE NOT a > 0", TINY).where
    assert [is_satisfied(wrong, row) for row in SOME_ROWS] != [is_satisfied(right, row) for row in SOME_ROWS]


def test_many_ranges_are_refused_before_they_cost() -> None:
    """A condition can stand for more ranges of codes than its text has words."""
    from discreet.priors.taxonomy import Taxonomy

    leaves = [f"{place:05d}" for place in range(20_000)]
    parents = {leaf: "even" if place % 2 else "odd" for place, leaf in enumerate(leaves)}
    taxonomy = Taxonomy.of({**parents, "even": "all", "odd": "all"})
    column = Column("c", "nominal", upper=len(leaves) - 1, categories=tuple(leaves), taxonomy=taxonomy)
    schema = Schema("t", "t.csv", Path(), "add-remove", {"c": column}, Budget(Fraction(1)), Budget(Fraction(1)))
    where = parse_sql("SELECT COUNT(*) FROM t WHERE c = 'even' OR c = '00000'", schema).where
    assert isinstance(where, InRanges)
    assert len(where.ranges) == 10_000
    for many in (" OR ".join(["c = 'even'"] * 990), "c IN (" + "'even', " * 1900 + "'odd')"):
        with pytest.raises(InvalidInput, match="more than 100000 ranges"):
            parse_sql(f"SELECT COUNT(*) FROM t WHERE {many}", schema)


def test_a_date_is_a_day() -> None:
    where = parse_sql("SELECT COUNT(*) FROM tiny WHERE d = '2020-01-02'", TINY).where
    assert where == InRanges("d", ((18263, 18263),))
    assert TINY.column("d").decode(18263) == date(2020, 1, 2)
