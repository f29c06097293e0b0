"""A query that was not read from text, but made or changed by hand, is planned only if some text means it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from test_custodian import write_people

from discreet import Custodian, InvalidInput
from discreet.custodian import preview_question
from discreet.custodian.measure import read_exact_inputs
from discreet.errors import Internal
from discreet.measurements.contribution_bounds import ContributionBounds
from discreet.measurements.hierarchical import HierarchicalHistogram
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.planner.hierarchy_plan import list_hierarchies
from discreet.planner.options import build_query_options
from discreet.planner.planner import plan, plan_session_counts
from discreet.query import parse_question, parse_sql, to_sql
from discreet.query.predicates import TRUE, AllOf, AnyOf, InRanges, InTexts
from discreet.query.query import Aggregate, GroupKey, HavingCondition, OutputColumn, Presentation, Query
from discreet.query.validate import validate_query
from discreet.sources.memory import MemorySource
from support import small_tables, temporary_folders

SCHEMA = small_tables.schema("add-remove", 1, 0)
SEVERAL = small_tables.schema("replace-one", 3, 50)
HISTOGRAM = "SELECT HISTOGRAM(age, 3) FROM t"
TEXTS = (
    HISTOGRAM,
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(*), COUNT(age), AVG(score) AS mean, VAR(age) FROM t WHERE sex = 'F' AND (age > 0 OR city = 'Oslo')",
    "SELECT sex, grade, COUNT(*) AS n FROM t GROUP BY sex, grade HAVING n > 3 ORDER BY 3 DESC LIMIT 2",
    "SELECT sex, smoker, COUNT(*) FROM t WHERE day IS NOT NULL GROUP BY ROLLUP (smoker, sex)",
    "SELECT QUANTILE(age, 0.25, 0.5), MEDIAN(score), TRIMMED_MEAN(debt, 0.1), MODE(grade), SECOND_MAX(age) FROM t",
    "SELECT BIN(score, 1) AS bin, SUM(debt) FROM t WHERE NOT (grade = 'low' OR age BETWEEN -1 AND 2) GROUP BY bin",
    "SELECT COUNT(*) FILTER (WHERE age < 2) AS few, COUNT(*) FILTER (WHERE sex = 'F' OR city <> 'Rome') FROM t",
    "SELECT city, COUNT(*) FROM t GROUP BY city",
    "SELECT COUNT(DISTINCT pid), MIN(day), MAX(day) FROM t WHERE smoker",
)


def forge_value(value: Any, **changes: object) -> Any:
    """The same frozen value with other fields, past all that its class checks."""
    copy = object.__new__(type(value))
    for field in fields(value):
        object.__setattr__(copy, field.name, changes.get(field.name, getattr(value, field.name)))
    return copy


def forge_variance_histogram(text: str = HISTOGRAM, column: str = "age") -> Query:
    return forge_value(parse_sql(text, SCHEMA), aggregates=(Aggregate("var", column),))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def validating_custodian() -> Custodian:
    return Custodian.open(write_people(temporary_folders.lasting(), rows=40))


def test_a_histogram_is_of_one_count_and_of_nothing_else(validating_custodian: Custodian) -> None:
    """Of a variance, the noise would be that of a count: 3,367 times too little for values up to 100."""
    read_first = parse_question("SELECT HISTOGRAM(age, 3) FROM people", validating_custodian.schema)
    with pytest.raises(InvalidInput, match="one count"):
        replace(read_first, aggregates=(Aggregate("var", "age"),))
    bad = forge_value(read_first, aggregates=(Aggregate("var", "age"),))
    before = validating_custodian.budget()
    with validating_custodian.session(10, 1) as session:
        doors: list[Callable[[], object]] = [
            lambda: validating_custodian.answer(bad, epsilon=1),
            lambda: validating_custodian.preview(bad, epsilon=1),
            lambda: preview_question(validating_custodian.schema, bad, build_query_options(epsilon=1)),
            lambda: session.answer(bad),
            lambda: plan(validating_custodian.schema, bad, epsilon=1),
            lambda: plan_session_counts(validating_custodian.schema, bad, Fraction(10), Fraction(1)),
        ]
        for door in doors:
            with pytest.raises(InvalidInput, match="one count"):
                door()
    spent = [one.epsilon - two.epsilon for one, two in zip(validating_custodian.budget(), before, strict=True)]  # type: ignore[operator]
    assert set(spent) == {1}  # the session alone, no answer in it


class EqualsAll(type):
    """A metaclass whose classes equal any other."""

    def __eq__(cls, other: object) -> bool:
        return True

    def __hash__(cls) -> int:
        return 1


class ChangingCondition(InRanges, metaclass=EqualsAll):
    """A condition that is of no class of ours, though its class equals every one."""


def test_a_class_that_equals_ours_is_not_ours() -> None:
    query = parse_sql("SELECT COUNT(*) FROM t WHERE age <= 30", SCHEMA)
    foreign = ChangingCondition("age", ((0, 3),))
    for bad in (
        forge_value(query, where=foreign),
        forge_value(query, where=forge_value(AllOf((TRUE, TRUE)), parts=(foreign, TRUE))),
    ):
        with pytest.raises(InvalidInput):
            validate_query(bad, SCHEMA)
    with pytest.raises(InvalidInput):
        replace(query, where=foreign)
    with pytest.raises(InvalidInput):
        AllOf((foreign,))


def test_a_session_keeps_its_own_log(validating_custodian: Custodian) -> None:
    """A caller's log could forget what was answered, and have it drawn again for nothing."""
    with pytest.raises(TypeError, match="log"):
        validating_custodian.session(10, 1, log=object())  # type: ignore[call-arg]


def test_nested_cells_are_planned_for_counts_alone() -> None:
    """Also where a query comes past every other check."""
    for bad in (forge_variance_histogram(), forge_value(parse_sql(HISTOGRAM, SCHEMA), aggregates=())):
        with pytest.raises(Internal, match="one count"):
            list_hierarchies(bad, ContributionBounds(SCHEMA, TRUE, 4), Fraction(1), None)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("schema", [SCHEMA, SEVERAL], ids=["one row", "three rows"])
def test_what_is_read_from_text_passes_as_it_is(text: str, schema: Any) -> None:
    query = parse_sql(text, schema)
    assert validate_query(query, schema) == query
    assert parse_question(query, schema) == query


def test_a_question_about_one_unit_passes_where_it_is_allowed() -> None:
    asking = small_tables.schema("add-remove", 1, 0, individual_queries=True)
    query = parse_sql("SELECT age AS years FROM t FOR UNIT 'p17'", asking)
    assert parse_question(query, asking) == query
    with pytest.raises(InvalidInput, match="not allowed"):
        parse_question(query, SCHEMA)
    with pytest.raises(InvalidInput, match="no question"):
        parse_question(forge_value(query, where=InRanges("age", ((0, 0),))), asking)


PLAIN_QUERY = parse_sql(TEXTS[3], SCHEMA)
COUNT_OF_AGES = parse_sql("SELECT COUNT(*) FROM t WHERE age IN (0, 2)", SCHEMA)
OUTPUT = PLAIN_QUERY.presentation.outputs[2]
WRONG_QUERIES: dict[str, Callable[[], Query]] = {
    "another table": lambda: replace(PLAIN_QUERY, table="people"),
    "a column that is not there": lambda: replace(PLAIN_QUERY, keys=(GroupKey("height"), PLAIN_QUERY.keys[1])),
    "the unit as a column": lambda: replace(PLAIN_QUERY, keys=(GroupKey("pid"), PLAIN_QUERY.keys[1])),
    "keys out of order": lambda: replace(PLAIN_QUERY, keys=PLAIN_QUERY.keys[::-1]),
    "a key twice": lambda: replace(PLAIN_QUERY, keys=(PLAIN_QUERY.keys[0],) * 2),
    "bins of what has no order": lambda: replace(PLAIN_QUERY, keys=(GroupKey("sex", 2), PLAIN_QUERY.keys[1])),
    "bins wider than all": lambda: replace(COUNT_OF_AGES, keys=(GroupKey("age", 99),)),
    "private keys beside others": lambda: replace(PLAIN_QUERY, keys=(PLAIN_QUERY.keys[0], GroupKey("city"))),
    "an aggregate twice": lambda: replace(COUNT_OF_AGES, aggregates=COUNT_OF_AGES.aggregates * 2),
    "aggregates out of order": lambda: replace(
        COUNT_OF_AGES, aggregates=(Aggregate("sum", "age"), Aggregate("avg", "age"))
    ),
    "a sum of names": lambda: replace(PLAIN_QUERY, aggregates=(Aggregate("sum", "sex"),)),
    "a quantile of truth values": lambda: replace(
        PLAIN_QUERY, aggregates=(Aggregate("quantile", "smoker", (Fraction(1, 2),)),)
    ),
    "the mode of private keys": lambda: replace(PLAIN_QUERY, aggregates=(Aggregate("mode", "city"),)),
    "units where each has one row": lambda: replace(PLAIN_QUERY, aggregates=(Aggregate("count_distinct"),)),
    "a count of a column that is always there": lambda: replace(PLAIN_QUERY, aggregates=(Aggregate("count", "score"),)),
    "an order with too many digits": lambda: replace(
        COUNT_OF_AGES, aggregates=(Aggregate("quantile", "age", (Fraction(1, 3),)),)
    ),
    "an output of no aggregate": lambda: replace(
        PLAIN_QUERY, presentation=Presentation((replace(OUTPUT, aggregate=9),))
    ),
    "an output of an order that is not there": lambda: replace(
        PLAIN_QUERY, presentation=Presentation((replace(OUTPUT, order=3),))
    ),
    "two outputs of one name": lambda: replace(
        PLAIN_QUERY, presentation=Presentation((OUTPUT, replace(OUTPUT, key=0, aggregate=None)))
    ),
    "a name that cannot be printed": lambda: replace(
        PLAIN_QUERY, presentation=Presentation((OutputColumn("a\x07b", aggregate=0),))
    ),
    "no output": lambda: replace(PLAIN_QUERY, presentation=Presentation(())),
    "a comparison with a key": lambda: replace(
        PLAIN_QUERY, presentation=replace(PLAIN_QUERY.presentation, having=(HavingCondition(0, ">", Fraction(1)),))
    ),
    "sorted by what is not there": lambda: replace(
        PLAIN_QUERY, presentation=replace(PLAIN_QUERY.presentation, order=((9, True),))
    ),
    "ranges out of order": lambda: replace(COUNT_OF_AGES, where=InRanges("age", ((2, 2), (0, 0)))),
    "ranges that overlap": lambda: replace(COUNT_OF_AGES, where=InRanges("age", ((0, 2), (1, 3)))),
    "ranges that touch": lambda: replace(COUNT_OF_AGES, where=InRanges("age", ((0, 1), (2, 2)))),
    "a range that ends before it begins": lambda: replace(COUNT_OF_AGES, where=InRanges("age", ((2, 0),))),
    "codes beyond the column's": lambda: replace(COUNT_OF_AGES, where=InRanges("age", ((0, 99),))),
    "codes that are not whole": lambda: replace(COUNT_OF_AGES, where=InRanges("age", ((0.5, 2),))),  # type: ignore[arg-type]
    "codes that are truth values": lambda: replace(COUNT_OF_AGES, where=InRanges("age", ((False, True),))),
    "a missing value where there is none": lambda: replace(
        COUNT_OF_AGES, where=InRanges("score", ((0, 1),), null=True)
    ),
    "all of a column": lambda: replace(COUNT_OF_AGES, where=InRanges("age", ((-3, 4),), null=True)),
    "texts of a column with codes": lambda: replace(COUNT_OF_AGES, where=InTexts("sex", ("F",))),
    "codes of a column with texts": lambda: replace(COUNT_OF_AGES, where=InRanges("city", ((0, 1),))),
    "texts out of order": lambda: replace(COUNT_OF_AGES, where=InTexts("city", ("b", "a"))),
    "a text twice": lambda: replace(COUNT_OF_AGES, where=InTexts("city", ("a", "a"))),
    "half of a character": lambda: replace(COUNT_OF_AGES, where=InTexts("city", ("\ud800",))),
    "one part alone": lambda: replace(COUNT_OF_AGES, where=AllOf((InRanges("age", ((0, 0),)),))),
    "parts that one column's conditions make": lambda: replace(
        COUNT_OF_AGES, where=AllOf((InRanges("age", ((0, 2),)), InRanges("age", ((1, 3),))))
    ),
    "a filter that the condition implies": lambda: replace(
        COUNT_OF_AGES, aggregates=(Aggregate("count", where=InRanges("age", ((0, 4),))),)
    ),
    "very many parts": lambda: replace(
        COUNT_OF_AGES, where=AnyOf(tuple(InRanges("age", ((index % 5, index % 5),)) for index in range(9_000)))
    ),
    "parts very deep": lambda: replace(COUNT_OF_AGES, where=_nest_deeply(400)),
    "a histogram of two keys": lambda: forge_value(
        parse_sql(HISTOGRAM, SCHEMA), keys=(GroupKey("age"), GroupKey("sex"))
    ),
    "a rollup of an average": lambda: forge_value(PLAIN_QUERY, nesting="rollup", aggregates=(Aggregate("avg", "age"),)),
    "a filter on a sum": lambda: forge_value(
        PLAIN_QUERY, aggregates=(forge_value(Aggregate("sum", "age"), where=COUNT_OF_AGES.where),)
    ),
    "a sum of nothing": lambda: forge_value(
        PLAIN_QUERY, aggregates=(forge_value(Aggregate("sum", "age"), column=None),)
    ),
    "no such function": lambda: forge_value(
        PLAIN_QUERY, aggregates=(forge_value(Aggregate("sum", "age"), function="exact"),)
    ),
    "no predicate": lambda: forge_value(PLAIN_QUERY, where="age > 0"),
    "a list of keys": lambda: forge_value(PLAIN_QUERY, keys=list(PLAIN_QUERY.keys)),
    "a width of a half": lambda: forge_value(
        PLAIN_QUERY, keys=(forge_value(PLAIN_QUERY.keys[0], width=0.5), PLAIN_QUERY.keys[1])
    ),
}


def _nest_deeply(depth: int) -> InRanges | InTexts | AllOf | AnyOf:
    inner: InRanges | InTexts | AllOf | AnyOf = InRanges("age", ((0, 0),))
    for index in range(depth):
        inner = (AllOf, AnyOf)[index % 2]((inner, InRanges("score", ((index % 5, index % 5),))))
    return inner


@pytest.mark.parametrize("build", WRONG_QUERIES.values(), ids=WRONG_QUERIES)
def test_what_no_text_means_is_refused_at_every_door(build: Callable[[], Query]) -> None:
    for door in (
        lambda: parse_question(build(), SCHEMA),
        lambda: plan(SCHEMA, build(), 1),
        lambda: plan_session_counts(SCHEMA, build(), Fraction(10), Fraction(1)),
    ):
        with pytest.raises(InvalidInput) as refusal:
            door()
        assert "\n" not in str(refusal.value)


def test_a_subclass_of_a_query_is_refused() -> None:
    class Mine(Query):
        pass

    mine = object.__new__(Mine)
    for field in fields(Query):
        object.__setattr__(mine, field.name, getattr(PLAIN_QUERY, field.name))
    with pytest.raises(InvalidInput, match="a subclass"):
        parse_question(mine, SCHEMA)


def _change_field(chance: random.Random, query: Query, other: Query) -> Query:
    """One field of one part of a query is another's, or a little different; past all checks of its class."""
    name = chance.choice(["aggregates", "keys", "where", "nesting", "presentation", "inside"])
    if name != "inside":
        return forge_value(query, **{name: getattr(other, name)})  # type: ignore[no-any-return]
    parts: tuple[Any, ...] = query.keys or query.aggregates
    position = chance.randrange(len(parts))
    field = chance.choice(fields(parts[position])).name
    columns = [
        *SCHEMA.columns,
        None,
        "pid",
        1,
        -1,
        3,
        True,
        (),
        (Fraction(1, 4),),
        InRanges("age", ((0, 1),)),
        "var",
        "count",
    ]
    part = forge_value(parts[position], **{field: chance.choice(columns)})
    changed = (*parts[:position], part, *parts[position + 1 :])
    return forge_value(query, **{"keys" if query.keys else "aggregates": changed})  # type: ignore[no-any-return]


def count_passing_changes(tries: int, seed: int) -> int:
    """How many changed queries pass; each of these is what its own text is read as."""
    chance, passed = random.Random(seed), 0
    read_from = [parse_sql(text, SCHEMA) for text in TEXTS]
    for _ in range(tries):
        query = _change_field(chance, chance.choice(read_from), chance.choice(read_from))
        try:
            parsed = parse_question(query, SCHEMA)
        except InvalidInput:
            continue
        assert parse_sql(to_sql(parsed, SCHEMA), SCHEMA) == parsed
        passed += 1
    return passed


def test_a_changed_query_is_refused_or_is_what_its_text_means() -> None:
    assert count_passing_changes(600, 1) > 60


@pytest.mark.soak
def test_a_changed_query_is_refused_or_is_what_its_text_means_very_often() -> None:
    assert count_passing_changes(50_000, 2) > 5_000


def test_the_law_of_what_is_planned_keeps_its_promise_on_neighbours() -> None:
    """By exact inputs of pairs of tables and the scales of the noises alone: |change| / scale adds up to at most 1."""
    chance = random.Random(3)
    for text in (HISTOGRAM, TEXTS[4], "SELECT HISTOGRAM(score, 5) FROM t WHERE sex = 'F'"):
        query_plan = plan(SCHEMA, parse_sql(text, SCHEMA), 1)
        (nested,) = query_plan.measurements
        assert isinstance(nested, HierarchicalHistogram)
        for _ in range(20):
            rows = {f"p{index}": [small_tables.random_row(chance)] for index in range(6)}
            pair = [_read_inputs(query_plan, rows), _read_inputs(query_plan, dict(list(rows.items())[1:]))]
            assert _compute_loss(nested, *pair) <= 1


def _read_inputs(query_plan: Any, units: small_tables.Units) -> list[Any]:
    source = MemorySource(SCHEMA, small_tables.rows_of(units))
    return list(read_exact_inputs(query_plan, source, query_plan.list_cells(), query_plan.query.where).inputs[0])


def _compute_loss(nested: HierarchicalHistogram, one: list[Any], two: list[Any]) -> Fraction:
    total = Fraction(0)
    for level, ours, theirs in zip(
        nested.hierarchy.measured_levels, _list_levels(nested, one), _list_levels(nested, two), strict=True
    ):
        assert isinstance(level.noise, DiscreteLaplace)
        total += level.noise.rate * int(np.abs(ours - theirs).sum())
    return total


def _list_levels(nested: HierarchicalHistogram, inputs: list[Any]) -> list[Any]:
    return [level for level in nested.hierarchy.split_levels(inputs) if level is not None]
