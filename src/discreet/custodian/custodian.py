"""The only place where rows, plan and ledger meet.

Plan from public facts, charge durably, then read rows, draw, store durably, then reply. No refunds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from discreet.answer import Answer
from discreet.custodian.binding import bound_ledger
from discreet.custodian.draw import draw
from discreet.custodian.place import Snapshot
from discreet.custodian.registering import Progress, first_use, open_source, register, silent
from discreet.custodian.reply import FREE, accuracy, answer, from_text, public_answer, to_text
from discreet.errors import DiscreetError, Internal, InvalidInput, Unavailable
from discreet.guarantee import Guarantee
from discreet.ledger import Balance, Caps, Charge, Entry, Ledger, Part, Spend
from discreet.planner.choose import plan
from discreet.planner.plan import Plan
from discreet.prior import Prior
from discreet.query import parse_json, parse_sql, to_sql
from discreet.query.query import Query
from discreet.schema import Schema, load_schema

if TYPE_CHECKING:
    from discreet.ledger.charge import Kind, Model
    from discreet.sources.plan import Source

ANALYST = "analyst"
Question = str | Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Preview:
    """What a question would cost and be good for. It reads no row and charges nothing."""

    question: str
    mechanism: str
    accuracy: str
    guarantee: Guarantee
    balances: tuple[Balance, ...] = ()


class Custodian:
    """Holds one data set and its ledger. Make one with `Custodian.open`; close it, or use it in a `with`."""

    def __init__(self, schema: Schema, snapshot: Snapshot, source: Source, ledger: Ledger) -> None:
        self.schema = schema
        self._snapshot = snapshot
        self._source = source
        self._ledger = ledger
        self._caps = Caps(schema.budget, schema.analyst_budget, schema.models)

    @staticmethod
    def open(
        schema: str | Path,
        ledger: str | Path | None = None,
        source: object = None,
        progress: Progress = silent,
        wait: float = 10,
    ) -> Custodian:
        """Open a data set by its schema file; it is registered on first use.

        `ledger` is a file or a database address; without it, a file in the data set's own folder. `source` stands in
        for the schema's at registration: a path, an address, or a pandas, Polars or Arrow table. `wait` is for how many
        seconds a ledger that others hold is waited for.
        """
        declared = load_schema(schema)
        snapshot = first_use(declared, source, progress)
        opened = open_source(declared, snapshot, source if isinstance(source, str) else None)
        try:
            return Custodian(declared, snapshot, opened, bound_ledger(declared, ledger, wait))
        except DiscreetError:
            opened.close()
            raise

    @staticmethod
    def check(
        schema: str | Path,
        source: object = None,
        name: str | None = None,
        disjoint: bool = False,
        progress: Progress = silent,
    ) -> Snapshot:
        """Register a new snapshot; spend carries over unless no unit is in both (`disjoint`)."""
        return register(load_schema(schema), source, name, disjoint, progress)

    def answer(
        self,
        question: Question,
        epsilon: object,
        prior: str | Prior | None = None,
        analyst: str = ANALYST,
        key: str | None = None,
        delta: object = None,
        model: str | None = None,
        fresh: bool = False,
    ) -> Answer:
        """Answer, or refuse before anything is charged or read.

        The same question again returns the stored answer and costs nothing; `fresh` pays for a new draw. `key` makes a
        retry safe: the same key never pays twice.
        """
        query = read(question, self.schema)
        planned = plan(self.schema, query, epsilon, delta, prior, model)
        told = to_sql(query, self.schema)
        if planned.free:
            return public_answer(planned, told, self._spent())
        receipt = self._ledger.charge(self._charge(planned, told, analyst, key, fresh), self._caps)
        stored = receipt.answer
        if stored is None:
            stored = self._ledger.store(self.schema.name, receipt.entry, self._draw(planned))
        drawn_with, released = from_text(stored)
        if drawn_with != planned.epsilon:
            planned = self._planned_at(planned, drawn_with)
        paid = planned.epsilon if receipt.charged else FREE
        return answer(planned, released, told, paid, receipt.entry, self._spent())

    def preview(
        self,
        question: Question,
        epsilon: object,
        prior: str | Prior | None = None,
        analyst: str = ANALYST,
        delta: object = None,
        model: str | None = None,
    ) -> Preview:
        """What the question would cost and be good for, and what is left."""
        return replace(preview(self.schema, question, epsilon, prior, delta, model), balances=self.budget(analyst))

    def budget(self, analyst: str | None = None) -> tuple[Balance, ...]:
        """What is spent and left, of the data set and of one analyst, in every model."""
        whole = self._ledger.balance(self.schema.name, self._caps)
        return whole if analyst is None else (*whole, *self._ledger.balance(self.schema.name, self._caps, analyst))

    def history(self, analyst: str | None = None, limit: int = 100) -> list[Entry]:
        """What was asked, the latest first."""
        return self._ledger.history(self.schema.name, analyst, limit)

    def close(self) -> None:
        """Let go of source and ledger."""
        self._source.close()
        self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _spent(self) -> dict[str, Fraction | None]:
        return {one.model: one.epsilon for one in self._ledger.balance(self.schema.name, self._caps)}

    def _planned_at(self, planned: Plan, epsilon: Fraction) -> Plan:
        """The plan that a stored answer to the same question was drawn by."""
        own = planned.guarantee.model
        model = own if own == "individual-dp" else None
        stored = plan(self.schema, planned.query, epsilon, planned.guarantee.delta, planned.prior, model)
        if stored.question() != planned.question():
            raise Internal("a stored answer was drawn by another plan")
        return stored

    def _charge(self, planned: Plan, told: str, analyst: str, key: str | None, fresh: bool) -> Charge:
        cost, region = planned.cost, planned.region()
        part = None if region is None else Part(cast("Kind", region.kind), region.name, region.reach)
        spend = Spend(cost.epsilon, cost.rho, cost.other, cost.delta)
        model = cast("Model", planned.guarantee.model)
        names = (self.schema.name, self._snapshot.name, analyst)
        return Charge(*names, planned.question(), told, model, spend, planned.epsilon, part, key, fresh)

    def _draw(self, planned: Plan) -> str:
        """Read rows and draw: after the charge, so whatever happens here the charge stands."""
        try:
            return to_text(planned, draw(planned, self._source))
        except Unavailable as failure:
            raise Unavailable(
                f"{failure}; what was charged stays charged, and a retry with the same key is free"
            ) from None


def preview(
    schema: Schema,
    question: Question,
    epsilon: object,
    prior: str | Prior | None = None,
    delta: object = None,
    model: str | None = None,
) -> Preview:
    """What a question would cost and be good for, from the schema alone."""
    query = read(question, schema)
    planned = plan(schema, query, epsilon, delta, prior, model)
    return Preview(to_sql(query, schema), planned.mechanism, accuracy(planned, 0.95), planned.guarantee)


def read(question: Question, schema: Schema) -> Query:
    """A question from SQL text, JSON text or a mapping."""
    if isinstance(question, str) and not question.lstrip().startswith("{"):
        return parse_sql(question, schema)
    if not isinstance(question, str | Mapping):
        raise InvalidInput(f"a question is SQL text or JSON, got {type(question).__name__}")
    return parse_json(question, schema)
