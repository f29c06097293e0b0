"""discreet's side: tables registered as users do, questions planned as the custodian plans them, drawn many times.

What is left out is what does not touch the number: the charge, the stored answer, and reading the same rows again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.error.jobs import (
    GREATEST_AGE,
    GREATEST_INCOME,
    LEAST_AGE,
    NEIGHBOURS,
    REGIONS,
    REPLACE,
    ROWS,
    STEP,
    TABLE,
)
from benchmarks.error.table import People
from discreet import Custodian
from discreet.answers.answer import Answer
from discreet.answers.explain import build_answer
from discreet.custodian.measure import ExactInputs, read_exact_inputs, sample_noisy_outputs
from discreet.planner.plan import NoisyResult, Plan
from discreet.planner.planner import plan
from discreet.priors.prior import Prior
from discreet.query import parse_sql
from discreet.sources.protocol import Source


def format_schema(neighbors: str, budget: str = "budget: {epsilon: 1000000}") -> str:
    """The text of a schema under one relation; where a row is replaced, the number of rows is public."""
    units = f"units: {ROWS}\n" if neighbors == REPLACE else ""
    return f"""\
name: {TABLE}
source: {TABLE}.parquet
neighbours: {neighbors}
{units}{budget}
columns:
  age: {{kind: integer, lower: {LEAST_AGE}, upper: {GREATEST_AGE}, missing: {LEAST_AGE}}}
  income: {{kind: number, lower: 0, upper: {GREATEST_INCOME}, step: {STEP}, missing: 0}}
  region: {{kind: nominal, categories: [{", ".join(REGIONS)}], missing: {REGIONS[0]}}}
"""


def register_people(people: People, folder: Path, text: str) -> Custodian:
    """The table in a folder of its own, opened."""
    folder.mkdir(parents=True)
    regions = pa.array(REGIONS).take(pa.array(people.region))
    table = pa.table({"age": people.age, "income": people.income, "region": regions})
    pq.write_table(table, folder / f"{TABLE}.parquet")
    (folder / f"{TABLE}.yaml").write_text(text)
    return Custodian.open(folder / f"{TABLE}.yaml")


@dataclass(frozen=True)
class PlannedQuestion:
    """One question, planned, with the rows it needs read: only the noise is left to draw."""

    plan: Plan
    question: str
    exact_inputs: ExactInputs

    def over_source(self, source: Source) -> PlannedQuestion:
        """The same question of other rows."""
        return replace(
            self, exact_inputs=read_exact_inputs(self.plan, source, self.plan.list_cells(), self.plan.query.where)
        )

    def sample_outputs(self) -> NoisyResult:
        """New draws."""
        return sample_noisy_outputs(self.plan, self.exact_inputs)

    def draw_answer(self) -> Answer:
        """A new answer, as the custodian would reply."""
        return build_answer(self.plan, self.sample_outputs(), self.question, self.plan.epsilon, None, {})

    def answer_numbers(self) -> list[float]:
        """The numbers of a new answer."""
        new = self.draw_answer()
        return [float(row[name]) for row in new.rows for name in new.numbers]


class Tables:
    """The same table under either relation."""

    def __init__(self, people: People, folder: Path) -> None:
        self.custodians = {name: register_people(people, folder / name, format_schema(name)) for name in NEIGHBOURS}

    def plan_question(
        self, sql: str, neighbors: str, epsilon: float, prior: str | Prior | None = None
    ) -> PlannedQuestion:
        """A question, ready to be drawn."""
        custodian = self.custodians[neighbors]
        query_plan = plan(custodian.schema, parse_sql(sql, custodian.schema), epsilon, prior=prior)
        return PlannedQuestion(
            query_plan,
            sql,
            read_exact_inputs(query_plan, custodian._source, query_plan.list_cells(), query_plan.query.where),
        )

    def build_draw(self, sql: str, neighbors: str) -> Callable[[float], Callable[[], list[float]]]:
        """As a contestant's job: from epsilon to a draw."""
        return lambda epsilon: self.plan_question(sql, neighbors, epsilon).answer_numbers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for custodian in self.custodians.values():
            custodian.close()
