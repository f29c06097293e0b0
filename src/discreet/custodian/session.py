"""Protocol 1 of document 000: a session that is paid for on opening, and answers counting questions while they fit.

Every answer has independent discrete Laplace noise of the session's scale, or of its own. Whether a question fits is
decided from its predicates and scales alone, so a refusal tells nothing about the rows. Proof:
planner/session_budget.md.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from discreet.answers.answer import Answer
from discreet.answers.decode import parse_result, serialize_result
from discreet.answers.explain import FREE, build_answer, build_public_answer
from discreet.custodian.measure import do_nothing, measure_plan
from discreet.errors import InvalidInput, Unavailable, Unsupported
from discreet.formatting import format_cost
from discreet.ledger import Caps, Charge, Ledger
from discreet.mechanisms.entropy import SYSTEM, sample_bits
from discreet.numeric import as_positive, format_exact
from discreet.planner.domain_partition import CountQuery
from discreet.planner.options import MAX_QUERY_EPSILON, MIN_QUERY_EPSILON, check_epsilon
from discreet.planner.plan import Plan
from discreet.planner.planner import plan_session_counts
from discreet.planner.session_budget import SessionBudget, list_noisy_counts
from discreet.privacy.cost import PrivacyCost
from discreet.query import Question, parse_question, to_sql
from discreet.query.predicates import FALSE
from discreet.query.query import Query, format_canonical_query
from discreet.schema import Schema
from discreet.untrusted import require_exact_class

if TYPE_CHECKING:
    from discreet.sources.protocol import Source

SERVICE_LOGS = "discreet.service.store.stored_answers"
"""The module of the only class that keeps what a session admitted for several processes."""
JOINT_PROMISE = "the promise is for all answers of the session together"


@dataclass(frozen=True, slots=True)
class AdmittedQuestion:
    """A question that a session has let in, in SQL, with its noise scale; and its numbers once they are drawn."""

    question: str
    scale: Fraction
    released: str | None = None


class SessionLog(Protocol):
    """The questions that a session has admitted, shared by all processes that answer in it; every call is durable."""

    mark: str
    """Names the session: of all that hold the same charge, this one answers."""

    def read_since(self, place: int) -> list[AdmittedQuestion]:
        """Return what was admitted from a place on, in order."""
        ...

    def admit(self, place: int, question: AdmittedQuestion) -> bool:
        """Admit a question at a place; False where another has it already."""
        ...

    def store_outputs(self, place: int, released: str) -> str:
        """Keep the numbers of a place; the first ones win, and are returned."""
        ...


class MemoryLog:
    """The log of a session that one process answers in."""

    def __init__(self) -> None:
        self.mark = f"session {sample_bits(128, SYSTEM):032x}"
        self._questions: list[AdmittedQuestion] = []
        self._process = os.getpid()

    def read_since(self, place: int) -> list[AdmittedQuestion]:
        """Refused in another process, whose copy does not know what the first one answers."""
        if self._process != os.getpid():
            raise InvalidInput("a session answers in the process that opened it; open another here")
        return self._questions[place:]

    def admit(self, place: int, question: AdmittedQuestion) -> bool:
        """Only one thread at a time gets here."""
        self._questions.insert(place, question)
        return True

    def store_outputs(self, place: int, released: str) -> str:
        """The first numbers, or these."""
        first_outputs = self._questions[place].released
        if first_outputs is None:
            self._questions[place] = replace(self._questions[place], released=released)
        return released if first_outputs is None else first_outputs


@dataclass(frozen=True, slots=True)
class SessionCharge:
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

    def get_spent_epsilon(self) -> dict[str, Fraction | None]:
        """Return what all answers of the data set have cost so far, in each model."""
        return {balance.model: balance.epsilon for balance in self.ledger.balance(self.dataset, self.caps)}


@dataclass(eq=False, slots=True)
class CountingSession(AbstractContextManager["CountingSession"]):
    """Make one with `Custodian.session`, and use it in a `with`; threads may share it."""

    noise_scale: Fraction
    _tally: SessionBudget
    _charge: SessionCharge
    _source: Source = field(repr=False)
    _log: SessionLog = field(repr=False)
    _positions: dict[tuple[str, Fraction], int] = field(default_factory=dict, repr=False)
    _outputs: dict[int, str] = field(default_factory=dict, repr=False)
    note: str | None = None
    """A warning of all its answers."""
    _release_barrier: Callable[[], None] = do_nothing
    """Called between a draw and all that shows that it was made."""
    _open: bool = True
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def epsilon(self) -> Fraction:
        """The cost of all answers together, paid on opening."""
        return self._tally.epsilon

    @property
    def left(self) -> Fraction:
        """The part of epsilon that no answer uses yet. A question about rows that few others use may cost nothing."""
        return self._tally.remaining

    def answer(self, question: Question, noise_scale: object = None) -> Answer:
        """Answer, or refuse before a row is read; after a refusal the session goes on.

        The same question at the same noise scale gives the same answer for nothing.
        """
        scale = self.noise_scale if noise_scale is None else parse_noise_scale(noise_scale)
        with self._lock:
            if not self._open:
                raise InvalidInput("the session is closed; open another")
            self.catch_up()
            return self._answer_query(_parse_counting_query(question, self._tally.schema), scale).with_note(self.note)

    def catch_up(self) -> None:
        """Learn what others have admitted in this session since: it fitted when it was let in."""
        counts: list[CountQuery] = []
        for admitted_question in self._log.read_since(len(self._positions)):
            scale = admitted_question.scale
            planned = self._plan(parse_question(admitted_question.question, self._tally.schema), scale)
            counts += list_noisy_counts(planned, scale)
            self._positions[format_canonical_query(planned.query), scale] = len(self._positions)
        if counts:
            self._tally = self._tally.add_counts(counts)

    def close(self) -> None:
        """No more answers; what is left is lost, since there are no refunds."""
        with self._lock:
            self._open = False

    def __exit__(self, *_: object) -> None:
        self.close()

    def _plan(self, query: Query, scale: Fraction) -> Plan:
        return plan_session_counts(self._tally.schema, query, scale, self.epsilon)

    def _answer_query(self, query: Query, scale: Fraction) -> Answer:
        planned = self._plan(query, scale)
        guarantee, sql = planned.guarantee, to_sql(query, planned.schema)
        if planned.is_free:
            public_plan = replace(planned, guarantee=replace(guarantee, epsilon=FREE))
            return build_public_answer(public_plan, sql, self._charge.get_spent_epsilon())
        place = self._admit_query(planned, sql, scale)
        planned = replace(planned, guarantee=replace(guarantee, assumptions=(JOINT_PROMISE, *guarantee.assumptions)))
        stored_outputs = self._outputs.get(place) or next(iter(self._log.read_since(place))).released
        try:
            outputs = stored_outputs or self._measure_query(planned)
        finally:
            self._release_barrier()
        text = stored_outputs or self._log.store_outputs(place, outputs)
        self._outputs[place] = text
        spent_epsilon = self._charge.get_spent_epsilon()
        answer = build_answer(planned, parse_result(text)[2], sql, FREE, self._charge.entry, spent_epsilon)
        return replace(answer, stored=stored_outputs is not None)

    def _admit_query(self, planned: Plan, sql: str, scale: Fraction) -> int:
        """Where the question is in the log: as it was, or let in now, unless that would break the promise."""
        name = format_canonical_query(planned.query), scale
        if name not in self._positions:
            parse_question(sql, self._tally.schema)  # as whoever goes on with the session will have to
        while name not in self._positions:
            new_tally, place = self._tally.add_counts(list_noisy_counts(planned, scale)), len(self._positions)
            self._charge.claim()
            if self._log.admit(place, AdmittedQuestion(sql, scale)):
                self._tally, self._positions[name] = new_tally, place
            else:
                self.catch_up()
        return self._positions[name]

    def _measure_query(self, planned: Plan) -> str:
        """Read and draw; where reading fails the question stays admitted, to be drawn another time."""
        self._charge.claim()
        try:
            return serialize_result(planned, measure_plan(planned, self._source))
        except Unavailable as failure:
            raise Unavailable(f"{failure}; asked again in this session the question costs nothing more") from None


def start_counting_session(
    schema: Schema,
    source: Source,
    ledger: Ledger,
    caps: Caps,
    snapshot_name: str,
    noise_scale: object,
    epsilon: object,
    analyst: str,
    key: str | None,
    log: SessionLog | None = None,
) -> CountingSession:
    """Charge the whole epsilon durably, and open; nothing is read. The same key never pays twice."""
    scale, session_epsilon = parse_noise_scale(noise_scale), as_positive(epsilon, "epsilon")
    check_epsilon(session_epsilon)
    session_log = MemoryLog() if log is None else _require_own_log(log)
    if schema.rows > session_epsilon * scale:
        raise InvalidInput(
            f"with epsilon {format_exact(session_epsilon)} a session needs a noise scale of at least "
            f"{format_cost(schema.rows / session_epsilon)} to answer one question, got {format_exact(scale)}"
        )
    question = json.dumps({"session": {"noise_scale": str(scale)}})
    description = f"a session of counting questions with noise scale {format_exact(scale)}"
    cost = PrivacyCost(session_epsilon, session_epsilon**2 / 2)
    names = schema.name, snapshot_name, analyst, question, description
    receipt = ledger.charge(Charge(*names, "dp", cost, session_epsilon, key=key, fresh=True), caps)
    charge = SessionCharge(ledger, caps, schema.name, receipt.entry, session_log.mark)
    return CountingSession(scale, SessionBudget(schema, session_epsilon), charge, source, session_log)


def _require_own_log(log: SessionLog) -> SessionLog:
    """The service's own log: one of another class may forget, and everything it forgot would be drawn again."""
    service = sys.modules.get(SERVICE_LOGS)  # looked up, since imports point inwards; whoever has such a log loaded it
    kinds: tuple[type[SessionLog], ...] = () if service is None else (service.StoredLog,)
    return require_exact_class(log, kinds, "the log of a session must be the one that the service keeps")


def parse_noise_scale(noise_scale: object) -> Fraction:
    """A noise scale that can be drawn, and be of use to anyone."""
    scale = as_positive(noise_scale, "noise_scale")
    if not 1 / MAX_QUERY_EPSILON <= scale <= 1 / MIN_QUERY_EPSILON:
        raise InvalidInput("noise_scale must be between 0.0001 and 1e9")
    return scale


def _parse_counting_query(question: Question, schema: Schema) -> Query:
    """A question that a session can answer, from public facts alone."""
    query = parse_question(question, schema)
    if query.unit is not None:
        raise Unsupported("a session answers counting questions; ask about one person outside it")
    if FALSE in {query.where, *(aggregate.where for aggregate in query.aggregates)}:
        raise InvalidInput("no row can satisfy this condition, whatever the table; for missing values write IS NULL")
    private_columns = [key.column for key in query.keys if schema.column(key.column).private_keys]
    if private_columns:
        raise Unsupported(
            f"the values of {private_columns[0]} are not public, so a session cannot group by it; ask outside it"
        )
    return query
