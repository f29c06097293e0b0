"""Protocol 1 of document 000: a session that is paid for on opening, and answers counting questions while they fit.

Every answer has independent discrete Laplace noise of the session's scale, or of its own. Whether a question fits is
decided from its predicates and scales alone, so a refusal tells nothing about the rows. Proof: planner/joint.md.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from fractions import Fraction
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Self

from discreet.answer import Answer
from discreet.custodian.draw import Released, draw
from discreet.custodian.question import Question, read
from discreet.custodian.reply import FREE, answer, public_answer
from discreet.errors import InvalidInput, Unavailable, Unsupported
from discreet.exact import positive, shown
from discreet.kernel.entropy import SYSTEM, bits
from discreet.ledger import Caps, Charge, Ledger
from discreet.planner.asked import LEAST, MOST
from discreet.planner.choose import counted_plan
from discreet.planner.plan import Plan
from discreet.planner.tally import Tally, counts_of
from discreet.query import to_sql
from discreet.query.canonical import canonical
from discreet.query.predicate import FALSE
from discreet.query.query import Query
from discreet.schema import Schema
from discreet.spend import Spend

if TYPE_CHECKING:
    from discreet.sources.plan import Source

TOGETHER = "the promise is for all answers of the session together"


@dataclass(frozen=True, slots=True)
class Paid:
    """The charge of one session. Of all who hold it, the first to answer claims it, and no other answers."""

    ledger: Ledger
    caps: Caps
    dataset: str
    entry: int
    mark: str

    def claim(self) -> None:
        """Durable before the first answer, so that a key which is used again pays for one session and opens one."""
        if self.ledger.store(self.dataset, self.entry, self.mark) != self.mark:
            raise InvalidInput("this session was opened before with the same key, and answers there; use a new key")

    def spent(self) -> dict[str, Fraction | None]:
        """What all answers of the data set have cost so far, in each model."""
        return {one.model: one.epsilon for one in self.ledger.balance(self.dataset, self.caps)}


@dataclass(eq=False, slots=True)
class Session:
    """Make one with `Custodian.session`, and use it in a `with`; threads may share it."""

    noise_scale: Fraction
    _tally: Tally
    _paid: Paid
    _source: Source = field(repr=False)
    _admitted: dict[tuple[str, Fraction], Released | None] = field(default_factory=dict, repr=False)
    _process: int = field(default_factory=os.getpid, repr=False)
    _open: bool = True
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def epsilon(self) -> Fraction:
        """What all answers together cost; it was paid on opening."""
        return self._tally.epsilon

    @property
    def left(self) -> Fraction:
        """How much of epsilon no answer uses yet. A question about rows that few others are about may cost nothing."""
        return self._tally.left

    def answer(self, question: Question, noise_scale: object = None) -> Answer:
        """Answer, or refuse before a row is read; after a refusal the session goes on.

        The same question at the same noise scale gives the same answer for nothing.
        """
        scale = self.noise_scale if noise_scale is None else scale_of(noise_scale)
        if self._process != os.getpid():  # a copy does not know what the other answers
            raise InvalidInput("a session answers in the process that opened it; open another here")
        with self._lock:
            if not self._open:
                raise InvalidInput("the session is closed; open another")
            return self._answered(_counting(question, self._tally.schema), scale)

    def close(self) -> None:
        """No more answers; what is left is lost, since there are no refunds."""
        with self._lock:
            self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _answered(self, query: Query, scale: Fraction) -> Answer:
        planned = counted_plan(self._tally.schema, query, scale, self.epsilon)
        label, told = planned.guarantee, to_sql(query, planned.schema)
        if planned.free:
            public = replace(planned, guarantee=replace(label, epsilon=FREE))
            return public_answer(public, told, self._paid.spent())
        planned = replace(planned, guarantee=replace(label, assumptions=(TOGETHER, *label.assumptions)))
        stored = self._admitted.get((canonical(query), scale))
        released = stored or self._drawn(planned, scale)
        reply = answer(planned, released, told, FREE, self._paid.entry, self._paid.spent())
        return replace(reply, stored=stored is not None)

    def _drawn(self, planned: Plan, scale: Fraction) -> Released:
        """Admit the question, then read and draw; where reading fails it stays admitted, to be drawn another time."""
        name = canonical(planned.query), scale
        if name not in self._admitted:
            after = self._tally.plus(counts_of(planned, scale))
            self._paid.claim()
            self._tally, self._admitted[name] = after, None
        try:
            released = draw(planned, self._source)
        except Unavailable as failure:
            raise Unavailable(f"{failure}; asked again in this session the question costs nothing more") from None
        self._admitted[name] = released
        return released


def open_session(
    schema: Schema,
    source: Source,
    ledger: Ledger,
    caps: Caps,
    snapshot_name: str,
    noise_scale: object,
    epsilon: object,
    analyst: str,
    key: str | None,
) -> Session:
    """Charge the whole epsilon durably, and open; nothing is read. The same key never pays twice."""
    scale, loss = scale_of(noise_scale), positive(epsilon, "epsilon")
    if not LEAST <= loss <= MOST:
        raise InvalidInput("epsilon must be between 1e-9 and 10000")
    if schema.rows > loss * scale:
        raise InvalidInput(
            f"with epsilon {shown(loss)} a session needs a noise scale of at least {shown(schema.rows / loss)} to "
            f"answer one question, got {shown(scale)}"
        )
    question = json.dumps({"session": {"noise_scale": str(scale)}})
    said = f"a session of counting questions with noise scale {shown(scale)}"
    spend = Spend(loss, loss**2 / 2)
    names = schema.name, snapshot_name, analyst
    receipt = ledger.charge(Charge(*names, question, said, "dp", spend, loss, key=key, fresh=True), caps)
    paid = Paid(ledger, caps, schema.name, receipt.entry, f"session {bits(128, SYSTEM):032x}")
    return Session(scale, Tally(schema, loss), paid, source)


def scale_of(noise_scale: object) -> Fraction:
    """A noise scale that can be drawn, and be of use to anyone."""
    scale = positive(noise_scale, "noise_scale")
    if not 1 / MOST <= scale <= 1 / LEAST:
        raise InvalidInput("noise_scale must be between 0.0001 and 1e9")
    return scale


def _counting(question: Question, schema: Schema) -> Query:
    """A question that a session can answer, from public facts alone."""
    query = read(question, schema)
    if query.unit is not None:
        raise Unsupported("a session answers counting questions; ask about one person outside it")
    if FALSE in {query.where, *(one.where for one in query.aggregates)}:
        raise InvalidInput("no row can satisfy this condition, whatever the table; for missing values write IS NULL")
    private = [key.column for key in query.keys if schema.column(key.column).private_keys]
    if private:
        raise Unsupported(f"the values of {private[0]} are not public, so a session cannot group by it; ask outside it")
    return query
