"""The demo's questions: what is asked, what was answered, what it cost, and what is true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import mean, median_low
from typing import Any

from demo.registry import Row
from discreet import Answer, BudgetExceeded, Custodian, DiscreetError

ANALYST = "ann"
PERSON = "p3"
YOUNG = "SELECT COUNT(*) FROM registry WHERE smoker AND age < 30"
NURSES = "SELECT AVG(income) FROM registry WHERE occupation = 'nurse'"
Rows = list[Row]


def count_young_smokers(rows: Rows) -> int:
    """As the question counts them."""
    return sum(row["smoker"] == "true" and row["age"] != "" and int(row["age"]) < 30 for row in rows)


def average_nurses_income(rows: Rows) -> float:
    """Of those whose income is known."""
    return mean(float(row["income"]) for row in rows if row["occupation"] == "nurse" and row["income"])


def find_median_circulatory_age(rows: Rows) -> int:
    """Of all six diagnoses of that chapter."""
    ills = {"myocardial infarction", "heart failure", "atrial fibrillation", "stroke", "hypertension", "varicose veins"}
    return median_low(int(row["age"]) for row in rows if row["diagnosis"] in ills and row["age"])


def count_smokers_by_hospital(rows: Rows) -> Counter[str]:
    """How many smokers each hospital has."""
    return Counter(row["hospital"] for row in rows if row["smoker"] == "true")


def find_age_of_person(rows: Rows) -> int | str:
    """One person's."""
    return next((int(row["age"]) for row in rows if row["person_id"] == PERSON and row["age"]), "missing")


@dataclass(frozen=True)
class Question:
    """What is asked of the registry, and how the custodian would find out the truth."""

    title: str
    sql: str
    epsilon: Fraction
    exact: Callable[[Rows], Any]
    prior: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


QUESTIONS = (
    Question("A count", YOUNG, Fraction(2, 100), count_young_smokers),
    Question(
        "The same count, by someone who has an idea", YOUNG, Fraction(2, 100), count_young_smokers, "normal(1400, 100)"
    ),
    Question("A mean of few people", NURSES, Fraction(15, 100), average_nurses_income, more={"rows": 2000}),
    Question(
        "The same mean, with an idea",
        NURSES,
        Fraction(15, 100),
        average_nurses_income,
        "normal(40000, 4000)",
        {"rows": 2000},
    ),
    Question(
        "A median, of a chapter of the taxonomy",
        "SELECT MEDIAN(age) FROM registry WHERE diagnosis = 'circulatory'",
        Fraction(1, 10),
        find_median_circulatory_age,
        more={"interval": True},
    ),
    Question(
        "Groups",
        "SELECT hospital, COUNT(*) FROM registry WHERE smoker GROUP BY hospital",
        Fraction(1, 10),
        count_smokers_by_hospital,
    ),
    Question(
        "One person's age",
        f"SELECT age FROM registry FOR UNIT '{PERSON}'",
        Fraction(3, 10),
        find_age_of_person,
        "normal(45, 12)",
    ),
)

REFUSED_QUESTIONS = (
    ("SELECT AVG(bmi) FROM registry", Fraction(1, 2)),
    ("SELECT AVG(income) FROM registry WHERE person_id = 'p3'", Fraction(1, 100)),
)
"""Too dear for what is left; and about a column that no question may name."""


@dataclass(frozen=True)
class AnsweredQuestion:
    """One question, its answer and the truth."""

    question: Question
    answer: Answer
    price: Fraction
    """What it cost when it was first asked; 0 where it reads an answer that was there."""
    exact: Any

    @property
    def cost_paid(self) -> Fraction:
        """What it cost in this run."""
        return self.answer.cost.epsilon or Fraction(0)


@dataclass(frozen=True)
class Refusal:
    """A question that was not answered, and why, in the product's own words."""

    sql: str
    epsilon: Fraction
    words: str
    code: int
    over: bool
    """Whether it was for the budget."""


@dataclass(frozen=True)
class Step:
    """One line of an analyst's account."""

    sql: str
    cost: Fraction
    left: Fraction


def ask(custodian: Custodian, rows: Rows) -> Iterator[AnsweredQuestion]:
    """Every question in turn."""
    entries: set[int | None] = set()
    for question in QUESTIONS:
        answer = custodian.answer(
            question.sql, question.epsilon, prior=question.prior, analyst=ANALYST, **question.more
        )
        price = Fraction(0) if answer.entry in entries else answer.guarantee.epsilon or Fraction(0)
        entries.add(answer.entry)
        yield AnsweredQuestion(question, answer, price, question.exact(rows))


def refuse(custodian: Custodian) -> Iterator[Refusal]:
    """What is refused, before anything is charged or read."""
    for sql, epsilon in REFUSED_QUESTIONS:
        try:
            custodian.answer(sql, epsilon, analyst=ANALYST)
        except DiscreetError as refusal:
            yield Refusal(sql, epsilon, str(refusal), refusal.exit_code, isinstance(refusal, BudgetExceeded))


def list_account_steps(custodian: Custodian) -> list[Step]:
    """The analyst's account from its opening, as the ledger has it."""
    left = custodian.budget(ANALYST)[-1].cap.epsilon
    steps = []
    for entry in reversed(custodian.history(ANALYST, limit=1000)):
        left -= entry.epsilon or 0
        steps.append(Step(entry.query or "", entry.epsilon or Fraction(0), left))
    return steps
