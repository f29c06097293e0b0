"""A prior that an answer is drawn from is used as stated: what lies beyond its ends is never returned."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from discreet.custodian.draw import exact, release
from discreet.custodian.reader import Reader
from discreet.planner.choose import plan
from discreet.planner.plan import Plan
from discreet.query import parse_sql
from discreet.schema import Column, Schema
from discreet.schema.column import Value
from discreet.sources.memory import UNIT, MemorySource
from tables import schema

AGE = Column("age", "integer", lower=17, upper=90, missing=17)
SEX = Column("sex", "nominal", upper=1, categories=("F", "M"), missing=0)


def declared(number: int, **more: object) -> Schema:
    columns = {column.name: column for column in (AGE, SEX)}
    return replace(schema("replace-one", 1, number, columns=columns, individual_queries=True), **more)  # type: ignore[arg-type]


def draws(planned: Plan, source: MemorySource, count: int) -> list[Value]:
    """What so many replies to one question would tell, as they are read from what is released."""
    secret = exact(planned, source, planned.cells(), planned.query.where)
    reader = Reader(planned)
    return [reader.values(0, release(planned, secret, [0]).numbers[0][0])[0] for _ in range(count)]


def test_answers_about_one_person_stay_within_a_uniform_prior() -> None:
    own = declared(10)
    query = parse_sql("SELECT age FROM t FOR UNIT 'p1'", own)
    planned = plan(own, query, 1, None, "uniform(20, 30)")
    for age in (18, 25, 90, None):
        source = MemorySource(own, [] if age is None else [{UNIT: "p1", "age": age, "sex": 0}])
        assert all(20 <= value <= 30 for value in draws(planned, source, 150))


def test_a_refined_trimmed_mean_stays_within_a_uniform_prior() -> None:
    own = declared(10)
    query = parse_sql("SELECT TRIMMED_MEAN(age, 0.1) FROM t", own)
    planned = plan(own, query, 1, None, "uniform(20, 30)", distance="continuous")
    source = MemorySource(own, [{"age": code, "sex": 0} for code in (17, 20, 20, 21, 22, 23, 24, 25, 26, 90)])
    assert all(Fraction(20) <= value <= 30 for value in draws(planned, source, 1000))
