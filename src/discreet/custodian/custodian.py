"""The only place where rows, plan and ledger meet.

Plan from public facts, charge durably, then read rows, draw, store durably, then reply. No refunds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from discreet.answer import Answer
from discreet.custodian.binding import bound_ledger
from discreet.custodian.draw import degrade, draw
from discreet.custodian.identity import Files, require_current, seen
from discreet.custodian.later import Later
from discreet.custodian.place import Snapshot
from discreet.custodian.previewing import (
    ANALYST,
    Preview,
    charge_of,
    count_more,
    is_any_price,
    least_left,
    plan_or_stored,
    previewed,
    with_offer,
)
from discreet.custodian.private import expected, publish_private
from discreet.custodian.private_recipe import METHODS as PRIVATE
from discreet.custodian.private_recipe import private_recipe_of, recipes_of, said_of
from discreet.custodian.publishing import Holding, publish
from discreet.custodian.question import Question, numbers_told, read
from discreet.custodian.recipe import plain_said, recipe_of
from discreet.custodian.reconciling import check_stated
from discreet.custodian.registering import Progress, first_use, open_source, register, silent
from discreet.custodian.reply import FREE, answer, from_text, public_answer, to_text
from discreet.custodian.session import Log, Session, open_session
from discreet.custodian.stating import Stated, plain_stated
from discreet.custodian.sweeping import swept
from discreet.custodian.writing import Targets
from discreet.distance import Distance
from discreet.errors import DiscreetError, Internal, InvalidInput, Unavailable
from discreet.ledger import Balance, Caps, Entry, Ledger
from discreet.ledger.charge import Receipt, Verified
from discreet.ledger.stored import Offer
from discreet.plain import plain_text
from discreet.planner.asked import Asked, Given, asked
from discreet.planner.choose import plan_like
from discreet.planner.memory import LARGE_DRAWS, LARGE_REPLY
from discreet.planner.plan import Plan
from discreet.query import to_sql
from discreet.release import Release
from discreet.schema import Budget, Schema, load_schema

if TYPE_CHECKING:
    from discreet.assess.sweep import Sweep
    from discreet.planner.private_release import PrivatePlan
    from discreet.sources.plan import Source


class Custodian:
    """Holds one data set and its ledger. Make one with `Custodian.open`; close it, or use it in a `with`."""

    def __init__(
        self,
        schema: Schema,
        snapshot: Snapshot,
        source: Source,
        ledger: Ledger,
        note: str | None = None,
        written: Files | None = None,
    ) -> None:
        self.schema = schema
        self._note = note
        self._written = written
        self._snapshot = snapshot
        self._source = source
        self._ledger = ledger
        self._caps = Caps(schema.budget, schema.analyst_budget, schema.models)
        self._payable = self._caps
        self._draws = True
        self._settle: Callable[[], None] = _at_once
        self._few_at_once = BoundedSemaphore(LARGE_DRAWS)

    @staticmethod
    def open(
        schema: str | Path,
        ledger: str | Path | None = None,
        source: object = None,
        progress: Progress = silent,
        wait: float = 10,
        reading: bool = True,
    ) -> Custodian:
        """Open a data set by its schema file; it is registered on first use.

        `ledger` is a file or a database address; without it, a file in the data set's own folder. `source` stands in
        for the schema's at registration: a path, an address, or a pandas, Polars or Arrow table. `wait` is for how many
        seconds a ledger that others hold is waited for. Without `reading` the rows are opened once a question needs
        them, if one ever does.
        """
        written = _written(schema)
        declared = load_schema(schema)
        snapshot = first_use(declared, source, progress)
        rows = partial(open_source, declared, snapshot, source if isinstance(source, str) else None)
        opened = rows() if reading else Later(rows)
        try:
            return Custodian(declared, snapshot, opened, bound_ledger(declared, ledger, wait), written=written)
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

    @staticmethod
    def rehearse(schema: str | Path, folder: str | Path | None = None) -> Custodian:
        """The same calls on a made-up table of the same schema: nothing is charged, and nothing of the rows is opened.

        What is asked of one person is asked of the units "1", "2", ... The table and its ledger are kept in `folder`,
        for as many processes as like; without one, in a folder that goes on closing.
        """
        from discreet.custodian.rehearsing import REHEARSAL, rehearsed

        written = _written(schema)
        made = rehearsed(load_schema(schema), folder)
        return Custodian(made.schema, made.snapshot, made.source, made.ledger, REHEARSAL, written)

    def answer(
        self,
        question: Question,
        epsilon: object = None,
        prior: Given = None,
        analyst: str = ANALYST,
        key: str | None = None,
        delta: object = None,
        model: str | None = None,
        fresh: bool = False,
        *,
        distance: Distance | str | None = None,
        accuracy: object = None,
        noise_scale: object = None,
        interval: bool = False,
        rows: object = None,
        tail: bool | None = None,
        constraints: Sequence[Stated] = (),
        reuse: str | None = None,
    ) -> Answer:
        """Answer, or refuse before anything is charged or read.

        How much noise there is follows from one of `epsilon`, `accuracy` such as "±50 at 95%" (the smallest epsilon
        that reaches it) and `noise_scale`. With a `prior` the answer tells what it means to someone who holds it;
        `distance` asks for a refinement of the prior by it; `interval` spends half of epsilon on two values around a
        quantile; `rows`, about how many rows are expected, helps to choose a mechanism. `tail` mixes a tenth of a heavy
        tail into the prior, so that a wrong prior cannot hide the truth: left out, where the prior only weighs noise,
        and into shapes without ends, but not where the answer is drawn from a prior with ends. `constraints`, such as
        "total = 1000", are public facts of yours that the count's `reconciled` rows are made to fit. The same question
        again returns the stored answer and costs nothing; `fresh` pays for a new draw. `key` makes a retry safe.

        No answer costs more than what was offered. Where another analyst's answer to the same question is stored, it is
        returned as it is if it costs no more, or with noise added to your epsilon where its noise is discrete Laplace,
        once for each draw; else a new one is drawn. `reuse="any"` takes it as it is, for what it cost.
        """
        noise = {"epsilon": epsilon, "delta": delta, "accuracy": accuracy, "noise_scale": noise_scale}
        more = {"prior": prior, "model": model, "distance": distance, "interval": interval, "rows": rows, "tail": tail}
        build_answer = self._release(question, analyst, key, fresh, reuse, constraints, **noise, **more)
        return build_answer()

    def _release(
        self,
        question: Question,
        analyst: str,
        key: str | None,
        fresh: bool,
        reuse: str | None,
        constraints: Sequence[Stated],
        **options: Any,
    ) -> Callable[[], Answer]:
        """Do all that `answer` does but build the `Answer`, which takes most memory and can wait for its turn."""
        query, fresh, any_price = read(question, self.schema), bool(fresh), is_any_price(reuse)
        analyst, key = _names(analyst, key)
        request = self._asked(analyst, **options)
        offer = self._offer(analyst, key, fresh=fresh, any_price=any_price)
        planned = plan_or_stored(self.schema, query, request, offer)
        stated = plain_stated(constraints)
        check_stated(planned, stated)
        told = to_sql(query, self.schema)
        if planned.free:
            return lambda: public_answer(planned, told, self._spent()).noted(self._note)
        self._ready()
        charge = charge_of(planned, told, self._snapshot.name, analyst, key, fresh, any_price)
        receipt = self._ledger.charge(charge, self._payable)
        try:
            large = receipt.answer is None and numbers_told(query, self.schema) > LARGE_REPLY
            with self._few_at_once if large else nullcontext():
                drawn = receipt.answer or self._make_answer(planned, receipt)
        finally:
            self._settle()
        stored = receipt.answer or self._ledger.store(self.schema.name, receipt.entry, drawn)
        spent = self._spent()
        return lambda: self._build_answer(planned, request, told, stored, receipt, stated, spent)

    def preview(
        self,
        question: Question,
        epsilon: object = None,
        prior: Given = None,
        analyst: str = ANALYST,
        delta: object = None,
        model: str | None = None,
        *,
        distance: Distance | str | None = None,
        accuracy: object = None,
        noise_scale: object = None,
        interval: bool = False,
        rows: object = None,
        tail: bool | None = None,
        reuse: str | None = None,
    ) -> Preview:
        """What the question would cost and be good for, what is left, and how many more such questions that holds."""
        any_price = is_any_price(reuse)
        query, analyst = read(question, self.schema), _names(analyst, None)[0]
        more = {"noise_scale": noise_scale, "accuracy": accuracy, "distance": distance, "interval": interval}
        request = self._asked(analyst, epsilon, delta, prior, model, **more, rows=rows, tail=tail)
        offer = self._offer(analyst, any_price=any_price)
        planned = plan_or_stored(self.schema, query, request, offer)
        found = None if planned.free else offer(planned)
        told = with_offer(previewed(planned, to_sql(query, self.schema)), found)
        charge = charge_of(planned, told.question, self._snapshot.name, analyst)
        told = told if self._note is None else replace(told, warnings=(self._note, *told.warnings))
        return replace(told, balances=self.budget(analyst), times=count_more(charge, self._caps, found, self._ledger))

    def session(
        self,
        noise_scale: object,
        epsilon: object,
        analyst: str = ANALYST,
        key: str | None = None,
    ) -> Session:
        """Protocol 1: pay epsilon at once, then count with noise of this scale as long as joint sensitivity allows."""
        return self._shared_session(noise_scale, epsilon, analyst, key, None)

    def _shared_session(
        self, noise_scale: object, epsilon: object, analyst: str, key: str | None, log: Log | None
    ) -> Session:
        """Open a session that several processes answer in under the same key: for the service alone.

        The log decides what was admitted and drawn before: whoever chooses it has answers drawn again for one charge.
        """
        analyst, key = _names(analyst, key)
        self._require_current()
        names = self.schema, self._source, self._ledger, self._caps, self._snapshot.name
        opened = open_session(*names, noise_scale, epsilon, analyst, key, log)
        opened.note, opened._settle = self._note, self._settle
        return opened

    def publish(
        self,
        method: str,
        out: str | Path,
        k: object = None,
        t: object = None,
        epsilon: object = None,
        report: str | Path | None = None,
        *,
        force: bool = False,
        progress: Progress = silent,
        key: str | None = None,
        **more: Any,
    ) -> Release:
        """Protect the table by a method and write it to a .csv or .parquet file, its manifest beside it.

        private-columns, private-records and private-linked are differential privacy and are charged `epsilon`, as much
        as a question would be, in the custodian's name. The other methods promise less: they may be refused for what is
        in the rows, the release is entered in the ledger, and every total is flagged from then on. `report`, an .html
        or .json file, is for the custodian alone. A `key` that has paid for a private file is refused, so that a retry
        cannot pay again. `more` is what the method takes besides: `discreet publish --help`.
        """
        method, key = plain_text(method, "a method"), None if key is None else plain_text(key, "key")
        more = {name: plain_said(value) for name, value in more.items()}
        if method in PRIVATE:
            private = private_recipe_of(self.schema, method, epsilon, k=k, **said_of(method, {"t": t} | more))
            targets = Targets.folder(out, report, force) if private.apart else Targets.of(out, report, force)
            self._require_current()
            return publish_private(self._holding(), private, targets, progress, key)
        recipe = recipe_of(self.schema, method, k, epsilon, t=t, **more)
        two = recipe.method == "anatomy" or recipe.form == "anatomy"
        targets = Targets.of(out, report, force, two)
        self._require_current()
        return publish(self._holding(), recipe, targets, progress)

    def expected(
        self, method: str | None = None, k: object = None, epsilon: object = None, **more: Any
    ) -> tuple[PrivatePlan, ...]:
        """What a private file would promise, how it would be made, and how far off every column would be: for nothing.

        Without a method, of every one that can be made of these columns.
        """
        return expected(self.schema, recipes_of(self.schema, method, epsilon, k, more))

    def sweep(
        self,
        ks: str | Sequence[int] = "k=3..300",
        methods: str | Sequence[str] = (),
        report: str | Path | None = None,
        *,
        t: object = None,
        force: bool = False,
        progress: Progress = silent,
    ) -> Sweep:
        """Risk and utility of methods over k, and which to choose; nothing is released. For the custodian alone.

        t-closeness, if it is among the methods, is tried at `t`, which is 2 unless it is said.
        """
        self._require_current()
        return swept(self._holding(), ks, methods, 2 if t is None else t, report, force, progress)

    def budget(self, analyst: str | None = None) -> tuple[Balance, ...]:
        """What is spent and left, of the data set and of one analyst, in every model."""
        whole = self._ledger.balance(self.schema.name, self._caps)
        return whole if analyst is None else (*whole, *self._ledger.balance(self.schema.name, self._caps, analyst))

    def history(self, analyst: str | None = None, limit: int = 100, before: int | None = None) -> list[Entry]:
        """What was asked, the latest first; with `before`, what was asked before this entry."""
        return self._ledger.history(self.schema.name, analyst, limit, before)

    def notable(self) -> list[Entry]:
        """Every release, and every answer with an epsilon above 5, the latest first: for the custodian's eyes."""
        return self._ledger.notable(self.schema.name)

    def stale(self) -> bool:
        """Whether to open the data set again: it has a newer snapshot, or a file of this one or its schema changed."""
        if self._written is not None and not self._written.same:
            return True
        source = self._source.source if isinstance(self._source, Later) else self._source
        try:
            require_current(self.schema, self._snapshot, source)
        except Unavailable:
            return True
        return False

    def unpaid(self) -> Custodian:
        """The same, open as long as this is: answers that were paid for are told again, and no other can be paid."""
        made = copy(self)
        made._payable = Caps(Budget(Fraction(0)), Budget(Fraction(0)), self._caps.models)
        made._draws = False
        return made

    def _settling(self, wait: Callable[[], None]) -> Custodian:
        """The same, open as long as this is: `wait` is called between a draw and all that shows that it was made.

        How long reading took is then told by nothing that others can see, if `wait` ends at a moment that does not
        depend on it.
        """
        made = copy(self)
        made._settle = wait
        return made

    def verify(self) -> Verified:
        """Recompute the ledger's chain of this data set; ClaimFailed names the first entry that is not as written."""
        return self._ledger.verify(self.schema.name)

    def close(self) -> None:
        """Let go of source and ledger."""
        self._ledger.close()
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _ready(self) -> None:
        if self._draws:
            self._require_current()

    def _require_current(self) -> None:
        """Refuse before anything is charged; rows that were to be opened later are opened now, or refused."""
        source = self._source.opened() if isinstance(self._source, Later) else self._source
        require_current(self.schema, self._snapshot, source)

    def _holding(self) -> Holding:
        return Holding(self.schema, self._snapshot, self._source, self._ledger, self._note)

    def _spent(self) -> dict[str, Fraction | None]:
        return {one.model: one.epsilon for one in self._ledger.balance(self.schema.name, self._caps)}

    def _offer(
        self, analyst: str, key: str | None = None, *, fresh: bool = False, any_price: bool = False
    ) -> Callable[[Plan], Offer | None]:
        """What is stored for a plan already, or paid for under a key."""
        return lambda planned: self._ledger.offered(
            charge_of(planned, "a question", self._snapshot.name, analyst, key, fresh, any_price)
        )

    def _asked(self, analyst: str, epsilon: object, delta: object, *given: Any, **more: Any) -> Asked:
        """What was asked; an accuracy may cost what is left to both payers in the model it is asked in."""
        model = "dp" if delta is None else "approx-dp"
        most = None if more["accuracy"] is None else least_left(self.budget(analyst), model)
        return asked(epsilon, delta, *given, **more, most=most)

    def _planned_at(self, planned: Plan, request: Asked, epsilon: Fraction, rho: Fraction | None) -> Plan:
        """The plan that a stored answer to the same question was drawn by."""
        size = None if rho is not None else epsilon
        drawn = replace(request, accuracy=None, noise_scale=None, near=None, epsilon=size, rho=rho)
        stored = plan_like(planned, drawn)
        if stored.question() != planned.question():
            raise Internal("a stored answer was drawn by another plan")
        return replace(stored, requested=planned.requested)

    def _build_answer(
        self,
        planned: Plan,
        request: Asked,
        question: str,
        stored: str,
        receipt: Receipt,
        constraints: tuple[Stated, ...],
        spent: dict[str, Fraction | None],
    ) -> Answer:
        """The answer from what is stored of it; nothing is charged or read."""
        epsilon_drawn, rho, released = from_text(stored)
        if (epsilon_drawn, rho) != (planned.epsilon, planned.rho):
            planned = self._planned_at(planned, request, epsilon_drawn, rho)
        paid = planned.epsilon if receipt.charged else FREE
        return answer(planned, released, question, paid, receipt.entry, spent, constraints).noted(self._note)

    def _make_answer(self, planned: Plan, receipt: Receipt) -> str:
        """Make what was paid for, after the charge: whatever happens here the charge stands."""
        if not self._draws:
            raise InvalidInput("this question has no stored answer; ask it without saying that it must have one")
        if receipt.degrades is None:
            return self._draw(planned)
        epsilon, _, released = from_text(receipt.degrades)
        return to_text(planned, degrade(released, epsilon, planned))

    def _draw(self, planned: Plan) -> str:
        """Read rows and draw."""
        try:
            return to_text(planned, draw(planned, self._source))
        except Unavailable as failure:
            raise Unavailable(
                f"{failure}; what was charged stays charged, and a retry with the same key is free"
            ) from None


def _written(schema: str | Path) -> Files:
    """The schema's file as it is before it is read."""
    path = Path(schema).absolute()
    return Files("the schema", path, seen(path))


def _names(analyst: object, key: object) -> tuple[str, str | None]:
    """The analyst and the key of a request, as plain text."""
    return plain_text(analyst, "analyst"), None if key is None else plain_text(key, "key")


def _at_once() -> None:
    """Wait for nothing."""
