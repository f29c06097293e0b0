"""Questions from JSON: the same as from SQL, and as closed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

import pytest

from discreet.errors import InvalidInput, Unsupported
from discreet.query import parse_json, parse_sql, to_sql
from discreet.query.predicate import TRUE, Within
from discreet.query.query import Query
from test_query_sql import MANY, REGISTRY

COUNT: dict[str, object] = {"from": "registry", "select": [{"count": "*"}]}

SAME: list[tuple[str, dict[str, object]]] = [
    ("SELECT COUNT(*) FROM registry", COUNT),
    ("SELECT COUNT(*) FROM registry", {"from": "Registry", "select": {"count": "*"}}),
    (
        "SELECT COUNT(DISTINCT person_id) FROM registry",
        {"from": "registry", "select": [{"count_distinct": "person_id"}]},
    ),
    (
        "SELECT sex, COUNT(*), AVG(income) AS mean, QUANTILE(age, 0.25, 0.5), BIN(age, 10) FROM registry "
        "WHERE age >= 30 AND sex IN ('F') AND NOT income IS NULL GROUP BY sex, BIN(age, 10) "
        "HAVING mean > 1000 AND mean < 2000.5 AND COUNT(*) >= 5 ORDER BY mean DESC, 1, COUNT(*) LIMIT 10",
        {
            "from": "registry",
            "select": [
                "sex",
                {"count": "*"},
                {"avg": "income", "as": "mean"},
                {"quantile": "age", "orders": ["0.25", "0.5"]},
                {"bin": "age", "width": 10},
            ],
            "where": {
                "and": [{"age": {">=": 30}}, {"sex": {"in": ["F"]}}, {"not": {"income": {"is": None}}}],
            },
            "group_by": ["sex", {"bin": "age", "width": 10}],
            "having": [{"of": "mean", ">": 1000, "<": 2000.5}, {"of": {"count": "*"}, ">=": 5}],
            "order_by": [{"by": "mean", "descending": True}, 1, {"count": "*"}],
            "limit": 10,
        },
    ),
    (
        "SELECT icd.chapter c, MEDIAN(age), MODE(sex) FROM registry JOIN icd USING (diagnosis) GROUP BY c ORDER BY 2",
        {
            "from": "registry",
            "join": ["icd"],
            "select": [{"column": "icd.chapter", "as": "c"}, {"median": "age"}, {"MODE": "sex"}],
            "group_by": ["c"],
            "order_by": [{"by": 2}],
        },
    ),
    (
        "SELECT chapter, QUANTILE(age, 0.5) FROM registry LEFT JOIN icd USING (diagnosis) GROUP BY 1 "
        "ORDER BY QUANTILE(age, 0.5)",
        {
            "from": "registry",
            "left_join": ["icd"],
            "select": ["chapter", {"quantile": "age", "orders": 0.5}],
            "group_by": [1],
            "order_by": ["QUANTILE(age, 0.5)"],
        },
    ),
    (
        "SELECT HISTOGRAM(admitted, 12) FROM registry",
        {"from": "registry", "select": [{"histogram": "admitted", "bins": 12}]},
    ),
    (
        "SELECT smoker, sex, COUNT(*) FROM registry GROUP BY ROLLUP (smoker, sex)",
        {"from": "registry", "select": ["smoker", "sex", {"count": "*"}], "rollup": ["smoker", "sex"]},
    ),
    (
        "SELECT COUNT(*) FILTER (WHERE age < 30) AS young, COUNT(city) FILTER (WHERE smoker OR age IS NULL) "
        "FROM registry WHERE sex = 'F' HAVING COUNT(*) FILTER (WHERE age < 30) > 5",
        {
            "from": "registry",
            "select": [
                {"count": "*", "where": {"age": {"<": 30}}, "as": "young"},
                {"count": "city", "where": {"or": [{"smoker": {"=": True}}, {"age": {"is": None}}]}},
            ],
            "where": {"sex": {"=": "F"}},
            "having": [{"of": {"count": "*", "where": {"age": {"<": 30}}}, ">": 5}],
        },
    ),
    ("SELECT income FROM registry FOR UNIT 'p17'", {"from": "registry", "select": "income", "unit": "p17"}),
    (
        "SELECT income AS x FROM registry FOR UNIT 'p17'",
        {"from": "registry", "select": [{"column": "income", "as": "x"}], "unit": "p17"},
    ),
]


@pytest.mark.parametrize(("text", "document"), SAME)
def test_json_asks_what_sql_asks(text: str, document: dict[str, object]) -> None:
    """As a mapping and as text."""
    expected = parse_sql(text, REGISTRY)
    assert parse_json(document, REGISTRY) == expected
    assert parse_json(json.dumps(document), REGISTRY) == expected


CONDITIONS: list[tuple[str, object]] = [
    ("TRUE", True),
    ("FALSE", False),
    ("NULL", None),
    ("age < 30", {"age": {"<": 30}}),
    ("age <= 30.5", {"age": {"<=": 30.5}}),
    ("age <> 30", {"age": {"<>": 30}}),
    ("age > 20 AND age < 30", {"age": {">": 20, "<": 30}}),
    ("age BETWEEN 20 AND 30", {"age": {"between": [20, 30]}}),
    ("age IN (20, 30, NULL)", {"age": {"in": [20, 30, None]}}),
    ("NOT (age IN (20, NULL))", {"not": {"age": {"in": [20, None]}}}),
    ("age = NULL", {"age": {"=": None}}),
    ("age IS NULL", {"age": {"is": None}}),
    ("age IS NOT NULL", {"age": {"is_not": None}}),
    ("smoker = TRUE", {"smoker": {"=": True}}),
    ("smoker IS TRUE", {"smoker": {"is": True}}),
    ("smoker IS NOT FALSE", {"smoker": {"is_not": False}}),
    ("admitted > '2020-01-01'", {"admitted": {">": "2020-01-01"}}),
    ("diagnosis = 'A'", {"registry.diagnosis": {"=": "A"}}),
    ("city = 'it''s' OR sex = 'F'", {"or": [{"city": {"=": "it's"}}, {"sex": {"=": "F"}}]}),
    ("NOT (smoker AND age > 30)", {"not": {"and": [{"smoker": {"=": True}}, {"age": {">": 30}}]}}),
]


@pytest.mark.parametrize(("text", "condition"), CONDITIONS)
def test_conditions_say_what_sql_says(text: str, condition: object) -> None:
    expected = parse_sql(f"SELECT COUNT(*) FROM registry WHERE {text}", REGISTRY)
    assert parse_json({**COUNT, "where": condition}, REGISTRY) == expected
    assert parse_json(json.dumps({**COUNT, "where": condition}), REGISTRY) == expected


def test_numbers_are_read_by_their_digits() -> None:
    """As floats, 0.1 and 4503599627370497.5 would be other numbers."""
    text = '{"from": "registry", "select": [{"count": "*"}], "where": {"income": {"=": %s}}}'
    assert parse_json(text % "0.29", REGISTRY).where == Within("income", ((29, 29),))
    assert parse_json(text % "29e-2", REGISTRY).where == Within("income", ((29, 29),))
    assert parse_json(text % "0.29000000000000000000001", REGISTRY).where != Within("income", ((29, 29),))
    bound = '{"from": "registry", "select": [{"count": "*"}], "having": [{"of": 1, ">": 4503599627370497.55}]}'
    with pytest.raises(InvalidInput, match="a column must be a text"):
        parse_json(bound, REGISTRY)
    having = parse_json(bound.replace('"of": 1', '"of": "COUNT(*)"'), REGISTRY).presentation.having
    assert having[0].constant == Fraction("4503599627370497.55")


def test_python_values_are_read_too() -> None:
    where = parse_json(
        {**COUNT, "where": {"income": {"in": [0.29, Decimal("0.30"), Fraction(31, 100)]}}}, REGISTRY
    ).where
    assert where == Within("income", ((29, 31),))
    after = parse_json({**COUNT, "where": {"admitted": {">=": date(2015, 1, 2)}}}, REGISTRY).where
    assert after == Within("admitted", ((16437, 20453),))
    assert parse_json({**COUNT, "where": {"income": {">": Decimal("-1e200")}}}, REGISTRY).where == TRUE


def nested(depth: int) -> dict[str, object]:
    condition: object = {"smoker": {"=": True}}
    for _ in range(depth):
        condition = {"not": condition}
    return {**COUNT, "where": condition}


def itself() -> dict[str, object]:
    circle: dict[str, object] = {}
    circle["not"] = circle
    return {**COUNT, "where": circle}


REFUSED: list[tuple[object, str]] = [
    ([], "is an object with the keys from"),
    (5, "is an object"),
    ("[]", "is an object"),
    ("", "line 1, column 1"),
    ('{"from": "registry",}', "cannot be read at line 1"),
    ('{"from": "registry", "from": "registry", "select": []}', "a key twice"),
    ('{"from": "registry", "select": [], "limit": NaN}', "NaN is not a number"),
    ('{"from": "registry", "select": [], "limit": -Infinity}', "finite"),
    ("[" * 10_000, "deep"),
    ('{"a":' * 3_000, "deep|cannot be read"),
    ("{" + " " * 20_001, "20000 characters"),
    ({**COUNT, 5: 6}, "keys of a question are texts"),
    ({"select": [{"count": "*"}]}, 'needs "from" and "select"'),
    ({**COUNT, "wehre": True}, "has no key 'wehre'; it may have from, select"),
    ({**COUNT, "from": 5}, "from must be a text"),
    ({**COUNT, "select": []}, "SELECT list is empty"),
    ({**COUNT, "select": [5]}, "a column must be a text"),
    ({**COUNT, "select": [{}]}, "one function"),
    ({**COUNT, "select": [{"count": "*", "sum": "age"}]}, "one function"),
    (
        {**COUNT, "select": [{"count": "*", "filter": {"age": {"<": 9}}}]},
        'may stand "where" for a count, .* select "as"',
    ),
    ({**COUNT, "select": [{"count": "*", "orders": [1]}]}, "has no key 'orders'"),
    ({**COUNT, "select": [{"percentile_cont": "age"}]}, r"write QUANTILE\(x, 0.5\)"),
    ({**COUNT, "select": [{"quantile": "age", "orders": ["half"]}]}, "plain number"),
    ({**COUNT, "select": [{"quantile": "age", "orders": [float("nan")]}]}, "finite"),
    ({**COUNT, "select": [{"avg": ["age"]}]}, "a column must be a text"),
    ({**COUNT, "select": [{"avg": "age", "as": 5}]}, "as must be a text"),
    ({**COUNT, "select": [{"avg": "age", "as": "\x07"}]}, "printable"),
    ({**COUNT, "select": [{"avg": "age", "where": {"smoker": {"=": True}}}]}, "FILTER is for counts, not for 'AVG'"),
    ({**COUNT, "select": [{"count": "*", "where": "smoker"}]}, "a condition is an object"),
    ({**COUNT, "select": [{"where": {"smoker": {"=": True}}}]}, "one function"),
    ({**COUNT, "join": "icd"}, "join must be a list"),
    ({**COUNT, "join": ["other"]}, "only lookups"),
    ({**COUNT, "join": ["icd"], "left_join": ["ICD"]}, "each lookup once"),
    ({**COUNT, "where": "age > 5"}, "a condition is an object"),
    ({**COUNT, "where": {}}, "about one column"),
    ({**COUNT, "where": {"age": {">": 5}, "sex": {"=": "F"}}}, "join several with"),
    ({**COUNT, "where": {"age": 5}}, "tested by an object"),
    ({**COUNT, "where": {"age": {}}}, "has no test"),
    ({**COUNT, "where": {"age": {"like": 5}}}, "has no key 'like'"),
    ({**COUNT, "where": {"age": {">": [5]}}}, "a constant is a number"),
    ({**COUNT, "where": {"age": {">": datetime(2020, 1, 1)}}}, "a constant is a number"),
    ({**COUNT, "where": {"age": {">": {1, 2}}}}, "must be .*a number.*, got set"),
    ({**COUNT, "where": {"age": {">": "5"}}}, "without quotes"),
    ({**COUNT, "where": {"age": {">": 10**400}}}, "10\\^300"),
    ({**COUNT, "where": {"age": {"in": []}}}, "at least one"),
    ({**COUNT, "where": {"age": {"between": [1]}}}, "two constants"),
    ({**COUNT, "where": {"age": {"is": 1}}}, "null, true or false"),
    ({**COUNT, "where": {"and": []}}, "at least one condition"),
    ({**COUNT, "where": {"and": {"age": {">": 5}}}}, "and must be a list"),
    ({**COUNT, "where": {"person_id": {"=": "p17"}}}, "names the units"),
    ({**COUNT, "where": {"city": {"=": "a\0"}}}, "NUL"),
    ({**COUNT, "where": {"city": {"=": "\ud800"}}}, "halves of characters"),
    ('{"from": "registry", "select": [{"count": "*"}], "where": {"city": {"=": "\\ud800"}}}', "halves of characters"),
    ({**COUNT, "having": [{">": 5}]}, 'needs "of"'),
    ({**COUNT, "having": [{"of": {"count": "*"}}]}, 'needs "of" and a comparison'),
    ({**COUNT, "having": {"of": 1}}, "having must be a list"),
    ({**COUNT, "having": ["n > 5"]}, "an entry of having"),
    ({**COUNT, "order_by": [{"by": 1, "descending": "yes"}]}, "true or false"),
    ({**COUNT, "order_by": [True]}, "a column must be a text"),
    ({**COUNT, "limit": -1}, "at least 1"),
    ({**COUNT, "limit": [1]}, "must be a number"),
    ({"from": "registry", "select": "income", "unit": 17}, "unit must be a text"),
    ({"from": "registry", "select": "income", "unit": "p17", "where": {"age": {">": 5}}}, "no more"),
    (nested(40), "at most 32 deep"),
    (itself(), "at most 32 deep"),
    ({**COUNT, "where": {"age": {"in": [1] * 5000}}}, "4000 values"),
    ({**COUNT, "where": {"city": {"in": ["x" * 15_000, "y" * 15_000]}}}, "20000 characters"),
]


@pytest.mark.parametrize(("document", "said"), REFUSED)
def test_all_else_is_refused_in_a_sentence(document: object, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refusal:
        parse_json(document, REGISTRY)  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_deep_enough_is_read() -> None:
    assert parse_json(nested(26), REGISTRY) == parse_sql("SELECT COUNT(*) FROM registry WHERE smoker", REGISTRY)


def test_one_unit_is_asked_for_only_where_that_is_allowed() -> None:
    with pytest.raises(InvalidInput, match="has not allowed"):
        parse_json({"from": "registry", "select": "income", "unit": "p17"}, MANY)


PIECES: tuple[object, ...] = (None, True, 5, -0.5, "age", "*", "F", "icd.chapter", [], {}, ["sex"], {"count": "*"})
KEYS = ("and", "or", "not", "age", "city", "in", "is", ">", "count", "quantile", "orders", "as", "by", "of", "where")


def mutated(value: object, chance: random.Random) -> object:
    """The same document with a few values and keys replaced, dropped or nested."""
    if chance.random() < 0.06:
        return chance.choice([chance.choice(PIECES), {chance.choice(KEYS): value}, [value, value]])
    if isinstance(value, Mapping):
        renamed = {chance.choice(KEYS) if chance.random() < 0.03 else key: part for key, part in value.items()}
        return {key: mutated(part, chance) for key, part in renamed.items() if chance.random() > 0.03}
    return [mutated(part, chance) for part in value] if isinstance(value, list) else value


def outcome(document: object) -> Query | None:
    try:
        query = parse_json(document, REGISTRY)  # type: ignore[arg-type]
    except (InvalidInput, Unsupported):
        return None
    assert parse_sql(to_sql(query, REGISTRY), REGISTRY) == query, document
    return query


def fuzz(count: int, seed: int) -> int:
    """How many of so many documents were questions; each took less than five seconds."""
    chance = random.Random(seed)
    documents = [document for _, document in SAME] + [{**COUNT, "where": condition} for _, condition in CONDITIONS]
    read_well = 0
    for _ in range(count):
        document = mutated(chance.choice(documents), chance)
        text = list(json.dumps(document))
        text[chance.randrange(len(text))] = chance.choice('{}[]",:0e.-')
        start = time.process_time()
        read_well += outcome(document) is not None
        outcome("".join(text))
        assert time.process_time() - start < 5, document
    return read_well


def test_broken_documents_are_refused_and_nothing_worse() -> None:
    assert fuzz(2000, 1) > 200


@pytest.mark.soak
def test_many_broken_documents_are_refused_and_nothing_worse() -> None:
    """Small version: 2,000 documents."""
    assert fuzz(200_000, 2) > 20_000
