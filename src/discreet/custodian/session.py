"""Protocol 1 of document 000: a session that is paid for on opening, and answers counting questions while they fit.

Every answer has independent discrete Laplace noise of the session's scale, or of its own. Whether a question fits is
decided from its predicates and scales alone, so a refusal tells nothing about the rows. Proof: planner/joint.md.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from discreet.answer import Answer
from discreet.custodian.draw import draw
from discreet.custodian.question import Question, read
from discreet.custodian.reply import FREE, answer, from_text, public_answer, to_text
from discreet.errors import InvalidInput, Unavailable, Unsupported
from discreet.exact import positive, shown
from discreet.formatting import format_cost
from discreet.kernel.entropy import SYSTEM, bits
from discreet.ledger import Caps, Charge, Ledger
from discreet.plain import require_own
from discreet.planner.asked import LEAST, MOST, check_epsilon
from discreet.planner.atoms import Count
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

SERVICE_LOGS = "discreet.service.store.counting"
"""The module of the only class that keeps what a session admitted for several processes."""
TOGETHER = "the promise is for all answers of the session together"


@dataclass(frozen=True, slots=True)
class Admitted:
    """A question that a session has let in, in SQL, with its noise scale; and its numbers once they are drawn."""

    question: str
    scale: Fraction
    released: str | None = None


class Log(Protocol):
    """What a session has admitted, kept where all who answer in it look; durable before it returns."""

    mark: str
    """Names the session: of all that hold the same charge, this one answers."""

    def since(self, place: int) -> list[Admitted]:
        """What was admitted from a place on, in order."""
        ...

    def admit(self, place: int, one: Admitted) -> bool:
        """Admit a question at a place; False where another has it already."""
        ...

    def keep(self, place: int, released: str) -> str:
        """Keep the numbers of a place; the first ones win, and are returned."""
        ...


class Memory:
    """The log of a session that one process answers in."""

    def __init__(self) -> None:
        self.mark = f"session {bits(128, SYSTEM):032x}"
        self._all: list[Admitted] = []
        self._process = os.getpid()

    def since(self, place: int) -> list[Admitted]:
        """A copy of it in another process does not know what the first one answers."""
        if self._process != os.getpid():
            raise InvalidInput("a session answers in the process that opened it; open another here")
        return self._all[place:]

    def admit(self, place: int, one: Admitted) -> bool:
        """Only one thread at a time gets here."""
        self._all.insert(place, one)
        return True

    def keep(self, place: int, released: str) -> str:
        """The first numbers, or these."""
        first = self._all[place].released
        if first is None:
            self._all[place] = replace(self._all[place], released=released)
        return released if first is None else first


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


def _at_once() -> None:
    """Wait for nothing."""


@dataclass(eq=False, slots=True)
class Session:
    """Make one with `Custodian.session`, and use it in a `with`; threads may share it."""

    noise_scale: Fraction
    _tally: Tally
    _paid: Paid
    _source: Source = field(repr=False)
    _log: Log = field(repr=False)
    _places: dict[tuple[str, Fraction], int] = field(default_factory=dict, repr=False)
    _drawn: dict[int, str] = field(default_factory=dict, repr=False)
    note: str | None = None
    """What all its answers are warned of."""
    _settle: Callable[[], None] = _at_once
    """Called between a draw and all that shows that it was made."""
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
        with self._lock:
            if not self._open:
                raise InvalidInput("the session is closed; open another")
            self.catch_up()
            return self._answered(_counting(question, self._tally.schema), scale).noted(self.note)

    def catch_up(self) -> None:
        """Learn what others have admitted in this session since: it fitted when it was let in."""
        counts: list[Count] = []
        for one in self._log.since(len(self._places)):
            planned = self._plan(read(one.question, self._tally.schema), one.scale)
            counts += counts_of(planned, one.scale)
            self._places[canonical(planned.query), one.scale] = len(self._places)
        if counts:
            self._tally = self._tally.plus(counts)

    def close(self) -> None:
        """No more answers; what is left is lost, since there are no refunds."""
        with self._lock:
            self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _plan(self, query: Query, scale: Fraction) -> Plan:
        return counted_plan(self._tally.schema, query, scale, self.epsilon)

    def _answered(self, query: Query, scale: Fraction) -> Answer:
        planned = self._plan(query, scale)
        label, told = planned.guarantee, to_sql(query, planned.schema)
        if planned.free:
            public = replace(planned, guarantee=replace(label, epsilon=FREE))
            return public_answer(public, told, self._paid.spent())
        place = self._admitted(planned, told, scale)
        planned = replace(planned, guarantee=replace(label, assumptions=(TOGETHER, *label.assumptions)))
        before = self._drawn.get(place) or next(iter(self._log.since(place))).released
        try:
            drawn = before or self._read(planned)
        finally:
            self._settle()
        text = before or self._log.keep(place, drawn)
        self._drawn[place] = text
        reply = answer(planned, from_text(text)[2], told, FREE, self._paid.entry, self._paid.spent())
        return replace(reply, stored=before is not None)

    def _admitted(self, planned: Plan, told: str, scale: Fraction) -> int:
        """Where the question is in the log: as it was, or let in now, unless that would break the promise."""
        name = canonical(planned.query), scale
        if name not in self._places:
            read(told, self._tally.schema)  # as whoever goes on with the session will have to
        while name not in self._places:
            after, place = self._tally.plus(counts_of(planned, scale)), len(self._places)
            self._paid.claim()
            if self._log.admit(place, Admitted(told, scale)):
                self._tally, self._places[name] = after, place
            else:
                self.catch_up()
        return self._places[name]

    def _read(self, planned: Plan) -> str:
        """Read and draw; where reading fails the question stays admitted, to be drawn another time."""
        self._paid.claim()
        try:
            return to_text(planned, draw(planned, self._source))
        except Unavailable as failure:
            raise Unavailable(f"{failure}; asked again in this session the question costs nothing more") from None


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
    log: Log | None = None,
) -> Session:
    """Charge the whole epsilon durably, and open; nothing is read. The same key never pays twice."""
    scale, loss = scale_of(noise_scale), positive(epsilon, "epsilon")
    check_epsilon(loss)
    own = Memory() if log is None else _require_own_log(log)
    if schema.rows > loss * scale:
        raise InvalidInput(
            f"with epsilon {shown(loss)} a session needs a noise scale of at least {format_cost(schema.rows / loss)} "
            f"to answer one question, got {shown(scale)}"
        )
    question = json.dumps({"session": {"noise_scale": str(scale)}})
    said = f"a session of counting questions with noise scale {shown(scale)}"
    spend = Spend(loss, loss**2 / 2)
    names = schema.name, snapshot_name, analyst
    receipt = ledger.charge(Charge(*names, question, said, "dp", spend, loss, key=key, fresh=True), caps)
    return Session(scale, Tally(schema, loss), Paid(ledger, caps, schema.name, receipt.entry, own.mark), source, own)


def _require_own_log(log: Log) -> Log:
    """The service's own log: one of another class may forget, and everything it forgot would be drawn again."""
    service = sys.modules.get(SERVICE_LOGS)  # looked up, since imports point inwards; whoever has such a log loaded it
    kinds: tuple[type[Log], ...] = () if service is None else (service.StoredLog,)
    return require_own(log, kinds, "the log of a session must be the one that the service keeps")


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
