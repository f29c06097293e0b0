"""Printed numbers: what a sentence says is implied by what was computed."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

from discreet.answer import Answer
from discreet.custodian.draw import Released
from discreet.custodian.reply import answer
from discreet.kernel.entropy import KeyedEntropy
from discreet.planner.choose import plan
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Plan
from discreet.query import parse_sql, to_sql
from discreet.schema import Column, Schema
from tables import schema

INCOME = Column("income", "number", lower=0, upper=10_000_000, step=Fraction(1, 100), missing=0)
DECLARED: Schema = replace(schema("replace-one", 1, 10_000), columns={"income": INCOME})
QUESTION = "SELECT AVG(income) FROM t"
BETWEEN = re.compile(r"between (\S+) and (\S+) with a probability of at least 95 %")


def mean_of(total: int, entropy: KeyedEntropy, planned: Plan) -> Answer:
    """The reply to a mean of 10,000 incomes whose sum is so many hundredths."""
    one = planned.measurements[0]
    assert isinstance(one, Noisy)
    drawn = (total + one.single.draw(entropy),)
    question = to_sql(planned.query, planned.schema)
    return answer(planned, Released(((),), ((drawn,),)), question, Fraction(1), 1, {"dp": Fraction(1)})


def number(text: str) -> Fraction:
    """A printed number as a value."""
    return Fraction(text.replace(",", ""))


def test_the_sentence_of_a_narrow_answer_is_true_as_often_as_its_interval() -> None:
    """2,000 seeded answers: whenever the computed interval holds the truth, the printed one does, and 95 % do."""
    planned = plan(DECLARED, parse_sql(QUESTION, DECLARED), 20)
    entropy = KeyedEntropy(b"narrow", "answers")
    truth = Fraction(49_961_86, 100)
    computed = printed = 0
    for _ in range(2000):
        made = mean_of(49_961_86 * 10_000, entropy, planned)
        low, high = made.intervals(0.95)[0][made.numbers[0]]
        found = BETWEEN.search(made.meaning)
        assert found is not None, made.meaning
        holds = low <= truth <= high
        said = number(found[1]) <= truth <= number(found[2])
        computed, printed = computed + holds, printed + said
    assert printed >= computed >= 1900
