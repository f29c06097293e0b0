"""Every promise already spent: a charge is durable before it is answered, and nobody can spend what is not left.

A charge is one transaction that holds its data set's head, so that charges on a data set come one after another. There
are no refunds. Entries only ever grow, chained by their hashes; accounts follow from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sqlalchemy import Connection, or_, select

from discreet.errors import ClaimFailed, DiscreetError, InvalidInput, Unavailable
from discreet.exact import positive, rational, whole
from discreet.ledger import chain, recorded, rows, verifying
from discreet.ledger.accounts import NOTHING, Account, delta, exceeds, promise, spent
from discreet.ledger.amounts import stored, units
from discreet.ledger.chain import Body, Head
from discreet.ledger.charge import (
    LONGEST_QUERY,
    MODELS,
    Balance,
    Caps,
    Charge,
    Entry,
    Found,
    Model,
    Receipt,
    Restored,
    Verified,
)
from discreet.ledger.database import Database
from discreet.ledger.opening import existing_database, existing_ledger_in, ledger_at, ledger_in, upgrade
from discreet.ledger.paying import DATASET, pay, payers, recall
from discreet.ledger.recorded import HeadRecord, RecordedHead
from discreet.ledger.refusal import times
from discreet.ledger.stored import KEYED, Offer, offered, replayed, require_not_void
from discreet.ledger.tables import ASKED, about, entries
from discreet.ledger.terms import WEAKER_ANSWERS, Terms, change_in_words, promise_to
from discreet.schema import Budget
from discreet.spend import Spend, text

if TYPE_CHECKING:
    from discreet.ledger.forgetting import NewDataSet

WEAKER = "the DP total no longer describes all disclosure"
LARGE = Fraction(5)
"""Above it, an epsilon is weak formal protection."""


class Ledger:
    """Every promise already spent, one entry after another.

    A ledger on SQLite or PostgreSQL, for threads and processes alike; `id` was made with it.
    """

    def __init__(self, database: Database, find: Callable[[Database], str]) -> None:
        self._database = database
        self._seen: dict[str, RecordedHead] = {}
        self._records: dict[str, tuple[HeadRecord, ...]] = {}
        try:
            self.id = find(database)
        except DiscreetError:
            database.close()
            raise

    @staticmethod
    def open(where: str | Path, timeout: float = 10) -> Ledger:
        """Open a ledger, or make it: at a path such as ledger.db, at sqlite:///path or at postgresql://...

        Who has not got through to it after `timeout` seconds is told that it is unavailable.
        """
        return Ledger(ledger_at(where, float(positive(timeout, "the timeout"))), ledger_in)

    @staticmethod
    def existing(where: str | Path, timeout: float = 10) -> Ledger:
        """Open a ledger that is there; none is made."""
        return Ledger(existing_database(where, float(positive(timeout, "the timeout"))), existing_ledger_in)

    @staticmethod
    def upgrade(where: str | Path, timeout: float = 10) -> int:
        """Give a ledger that an older discreet made the present format; the format it had. No entry changes."""
        with closing(existing_database(where, float(positive(timeout, "the timeout")))) as database:
            return upgrade(database)

    @staticmethod
    def backup(
        where: str | Path, file: str | Path, *, force: bool = False, progress: Callable[[str], None] | None = None
    ) -> Verified:
        """Copy a ledger as it is at one moment into a file of its own, which is a ledger too; others go on charging.

        `force` replaces an earlier back-up of the same ledger.
        """
        from discreet.ledger import copying

        return copying.backup(where, file, force, progress or silent)

    @staticmethod
    def restore(
        file: str | Path,
        where: str | Path,
        *,
        forgotten: object,
        forgotten_delta: object = 0,
        progress: Callable[[str], None] | None = None,
        new: Sequence[NewDataSet] = (),
    ) -> Restored:
        """Copy a back-up to where there is no ledger, after it was recomputed.

        What was charged since the back-up is not in it. `forgotten` is the most epsilon that may have been, 0 where
        nothing was; it is entered as spent for every data set, and for every analyst who has an account. Data sets
        that were registered since are entered too if they are named as `new`.
        """
        from discreet.ledger import copying
        from discreet.ledger.forgetting import Forgotten

        since = Forgotten(rational(forgotten, "forgotten"), rational(forgotten_delta, "forgotten_delta"))
        return copying.restore(file, where, since, progress or silent, new)

    def close(self) -> None:
        """Let go of connections."""
        self._database.close()

    def identity(self) -> str:
        """Name the file or the database that is open; one that is put in its place has another name."""
        return self._database.identity()

    def compare(self, dataset: str, *records: HeadRecord) -> None:
        """Refuse a ledger that is behind what was recorded of a data set, without recording anything.

        One that was restored with what was spent since is not refused, and one that was put in the place of the open
        one is.
        """
        known = self._known(dataset, records)
        with self._database.reading() as connection:
            for record, head in known:
                check = recorded.require if record is None else recorded.compare
                check(connection, self.id, dataset, head)

    def record_heads(self, dataset: str, record: HeadRecord) -> None:
        """Compare a data set's heads with a record, before each charge from now on, and keep the record up to date.

        A ledger that lacks the recorded head is refused, unless it was restored with what was spent since.
        """
        known = record.read(dataset)
        with self._database.reading() as connection:
            compared = recorded.compare(connection, self.id, dataset, known)
        if compared.head is not None and compared.head != known:
            if known is not None and known.restores == compared.head.restores and compared.restored_at is None:
                record.advance(dataset, compared.head)
            else:
                record.accept(dataset, compared.head, compared.restored_at)
        self._records[dataset] = (*self._records.get(dataset, ()), record)

    @contextmanager
    def _writing(self, dataset: str) -> Iterator[Connection]:
        """Change a data set in one transaction, after the ledger was found to have all that was recorded of it.

        What was recorded is read first: whoever recorded it had written it to the ledger before. The head that follows
        is recorded once it is durable, and before anybody is told what was paid for.
        """
        known = self._known(dataset, self._records.get(dataset, ()))
        with self._database.writing() as connection:
            for _, head in known:
                recorded.require(connection, self.id, dataset, head)
            yield connection
            after = rows.find_head(connection, dataset)
            lost = any(record is not None and (head is None or head.ledger is None) for record, head in known)
            seen = recorded.restores_of(connection, dataset) if lost else ()
        if after is not None:
            self._seen[dataset] = RecordedHead(self.id, after.seq, after.hash)
            for record, head in known:
                if record is not None and (head is None or head.entry < after.seq):
                    restores = seen if head is None or head.ledger is None else head.restores
                    record.advance(dataset, RecordedHead(self.id, after.seq, after.hash, restores))

    def _known(
        self, dataset: str, records: tuple[HeadRecord, ...]
    ) -> list[tuple[HeadRecord | None, RecordedHead | None]]:
        """The last heads of a data set that are known: by this process, and by each record."""
        return [(None, self._seen.get(dataset)), *((record, record.read(dataset)) for record in records)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def register(self, dataset: str, identity: str, snapshot: str, disjoint: bool) -> None:
        """Enter a data set, or a new snapshot of it.

        What was spent carries over, on parts too, unless `disjoint` says that no unit is in the new snapshot and in any
        before it: then accounts start anew. To enter one again changes nothing, also when another has come after it.
        """
        for value, name in ((dataset, "dataset"), (identity, "identity"), (snapshot, "snapshot")):
            text(value, name)
        with self._database.reading() as connection:  # once entered it stays, and nobody need be waited for
            head = rows.find_head(connection, dataset)
            if head is not None and head.identity == identity and _registered(connection, dataset, snapshot):
                return
        with self._writing(dataset) as connection:
            connection.execute(select(about).with_for_update())  # one registration at a time
            head = rows.hold_head(connection, dataset)
            if head is None:
                head = Head(dataset, identity, snapshot)
                rows.add_head(connection, head)
                rows.append(connection, head, chain.registration(head, self.id, disjoint=False))
            elif head.identity != identity:
                raise InvalidInput(
                    f"this ledger has another data set of the name {dataset[:40]!r}; open its own ledger"
                )
            elif not _registered(connection, dataset, snapshot):
                fresh = head.refreshed(snapshot)
                rows.carry_over(connection, head, fresh, disjoint)
                rows.append(connection, fresh, chain.registration(fresh, self.id, disjoint))

    def charge(self, charge: Charge, caps: Caps) -> Receipt:
        """Pay for an answer, or find one that is paid for; durable when it returns, and nothing changed if it raises.

        A receipt without an answer is the right to draw one, once: `store` it before anyone sees it.
        """
        if charge.model not in {"dp", *caps.models}:  # a pure promise keeps every other
            instead = "leave the delta out" if charge.model == "approx-dp" else "ask for dp"
            raise InvalidInput(
                f"{charge.model} is not allowed on this data set; allowed are {', '.join(caps.models)}; "
                f"{instead}, or add {charge.model} to the models of the schema"
            )
        with self._writing(charge.dataset) as connection:
            outcome = pay(connection, charge, caps)
        if isinstance(outcome, Receipt):
            return outcome
        raise outcome.error()

    def store(self, dataset: str, entry: int, answer: str) -> str:
        """Keep the answer of a charge; the first one wins, and is returned to all who come later with another."""
        text(answer, "the answer", longest=None)
        with self._writing(dataset) as connection:
            head = rows.registered(rows.hold_head(connection, dataset), dataset)
            body = rows.body_of(connection, dataset, entry)
            if body is None or body["kind"] not in {"charge", "degrade"}:
                raise InvalidInput("an answer is stored for the entry of a charge; this entry is none")
            first = rows.answer_of(connection, dataset, entry)
            if first is None:
                require_not_void(connection, body)
                rows.add_answer(connection, dataset, entry, answer)
                rows.append(connection, head, chain.answered(head, body, answer))
        return answer if first is None else first

    def release(self, dataset: str, snapshot: str, what: str, manifest: str) -> int:
        """Enter a file released under a promise that is not differential privacy; the data set is flagged for good."""
        text(what, "what was released", longest=LONGEST_QUERY)
        with self._writing(dataset) as connection:
            head = rows.registered(rows.hold_head(connection, dataset), dataset)
            if snapshot != head.snapshot:
                raise Unavailable(f"{dataset[:40]!r} has another snapshot by now; release again")
            head = head.released()
            return rows.append(connection, head, chain.released(head, what, manifest)).seq

    def balance(self, dataset: str, caps: Caps, analyst: str | None = None) -> tuple[Balance, ...]:
        """What the data set, or one analyst on it, has spent of each allowed model and has left."""
        cap = caps.dataset if analyst is None else caps.analyst
        with self._database.reading() as connection:
            head = rows.registered(rows.find_head(connection, dataset), dataset)
            owner = DATASET if analyst is None else text(analyst, "analyst")
            total = rows.position(connection, head, owner, None, caps.models).total(NOTHING)
            uncounted = _uncounted(connection, head)
            largest = rows.largest_totals(connection, head, owner)
            recorded = rows.find_terms(connection, dataset, owner)
            opened = Terms.opened(cap, caps.models) if recorded is None else recorded
            opened = recall(connection, head, owner, opened, opening=recorded is None)
            terms, refused = _terms(opened, cap, owner, caps.models)
            above = "approx-dp" in terms.held and exceeds(largest, "approx-dp", terms)
            raised = above and rows.reach_was_raised(connection, dataset)
        models = [model for model in MODELS if model in caps.models]
        flags = {model: ((WEAKER,) if model in uncounted else ()) + refused for model in models}
        promises = {model: promise(largest, model, terms, raised) for model in models}
        return tuple(_balance(total, model, analyst, terms, flags[model], promises[model]) for model in models)

    def offered(self, charge: Charge) -> Offer | None:
        """What the charge would get without paying for a draw: under its key, or stored; else None."""
        with self._database.reading() as connection:
            if replayed(connection, charge) is not None:
                return Offer(charge.epsilon, Spend())
            return None if charge.fresh else offered(connection, charge)

    def times(self, charge: Charge, caps: Caps, alone: bool = False) -> int:
        """How many more answers of this cost fit now; it reserves nothing. At most a million are told.

        For an answer that is stored already the analyst pays `alone`.
        """
        with self._database.reading() as connection:
            head = rows.registered(rows.find_head(connection, charge.dataset), charge.dataset)
            whole, own = payers(connection, head, charge, caps)
            return times(charge, (own,) if alone else (whole, own))

    def history(
        self, dataset: str, analyst: str | None = None, limit: int = 100, before: int | None = None
    ) -> list[Entry]:
        """The last registrations, charges, reuses, releases and changed caps, newest first; or those of one analyst.

        With `before`, those that are older than this entry.
        """
        wanted = select(entries.c.body).where(entries.c.dataset == dataset, ASKED)
        if before is not None:
            wanted = wanted.where(entries.c.seq < whole(before, "before"))
        if analyst is not None:
            wanted = wanted.where(entries.c.analyst == analyst)
        wanted = wanted.order_by(entries.c.seq.desc()).limit(whole(limit, "the limit"))
        with self._database.reading() as connection:
            rows.registered(rows.find_head(connection, dataset), dataset)
            bodies = connection.execute(wanted).scalars().all()
        return [_line(chain.read(body)) for body in bodies]

    def keyed(self, dataset: str, analyst: str, key: str) -> Entry | None:
        """The entry that an analyst's key was used for."""
        with self._database.reading() as connection:
            by = {"dataset": dataset, "analyst": analyst, "key": key}
            body = connection.execute(KEYED, by).scalar_one_or_none()
        return None if body is None else _line(chain.read(body))

    def notable(self, dataset: str) -> list[Entry]:
        """Every release, and every charge that was answered with epsilon above 5, however long ago; newest first."""
        large = select(entries.c.source).where(
            entries.c.dataset == dataset, entries.c.kind == "answer", entries.c.epsilon > stored(units(LARGE))
        )
        wanted = select(entries.c.body).where(
            entries.c.dataset == dataset, or_(entries.c.finds == chain.RELEASED, entries.c.seq.in_(large))
        )
        with self._database.reading() as connection:
            bodies = connection.execute(wanted.order_by(entries.c.seq.desc())).scalars().all()
        return [_line(chain.read(body)) for body in bodies]

    def verify(self, dataset: str | None = None, progress: Callable[[int, int], None] | None = None) -> Verified:
        """Recompute the chain, and all that must follow from it, of one data set or of all.

        ClaimFailed names the first entry that is not what was written. `progress` is told entries done and in all.
        """
        return verifying.verify(self._database, self.id, dataset, progress or silent)

    def find(self, head: str) -> Found:
        """The entry that the head of a data set was kept at; ClaimFailed where there is none. Verify first."""
        wanted = chain.hash_of(head)
        with self._database.reading() as connection:
            at = select(entries.c.dataset, entries.c.seq).where(entries.c.hash == wanted).limit(1)
            found = connection.execute(at).one_or_none()
        if found is None:
            raise ClaimFailed(
                f"no entry has the head {wanted[:40]!r}: it is of another ledger, or this one was replaced or set back "
                "since; the head of a data set is found for good, that of the whole ledger until the next entry"
            )
        return Found(found.dataset, found.seq)


def silent(*told: object) -> None:
    """Progress that nobody watches."""


def _registered(connection: Connection, dataset: str, snapshot: str) -> bool:
    return _found(connection, dataset, chain.digest("snapshot", snapshot))


def _found(connection: Connection, dataset: str, finds: str) -> bool:
    before = select(entries.c.seq).where(entries.c.dataset == dataset, entries.c.finds == finds)
    return connection.execute(before.limit(1)).one_or_none() is not None


def _uncounted(connection: Connection, head: Head) -> set[Model]:
    """The models whose accounts do not count all that was answered or released."""
    if not head.weaker:
        return set()
    if _found(connection, head.dataset, chain.RELEASED):
        return set(MODELS)
    drawn = rows.drawn_beside_dp(connection, head.dataset)
    return {model for model in MODELS if model == "dp" or drawn - {model}}


def _terms(recorded: Terms, cap: Budget, owner: str, models: tuple[str, ...]) -> tuple[Terms, tuple[str, ...]]:
    """The terms under a cap, for display; a delta that was raised is not used, and a flag says so."""
    try:
        return recorded.under(cap, owner, models), ()
    except InvalidInput as refusal:
        return recorded.under(replace(cap, delta=recorded.delta), owner, models), (str(refusal),)


def _balance(
    total: Account, model: Model, analyst: str | None, terms: Terms, flags: tuple[str, ...], promised: str
) -> Balance:
    epsilon, cap = spent(total, model, terms), terms.cap
    left = Fraction(0) if epsilon is None else max(Fraction(0), cap.epsilon - epsilon)
    told = promised + (f"; {WEAKER_ANSWERS}" if WEAKER in flags else "")
    return Balance(model, analyst, epsilon, delta(total, model, terms), cap, left, flags, promise_to(analyst, told))


def _line(body: Body) -> Entry:
    told = Entry(body["seq"], body["kind"], body["at"], body["snapshot"])
    if body["kind"] == "cap":
        before, after = (Terms.from_json(body[name]) for name in ("before", "terms"))
        return replace(told, analyst=body["analyst"], query=change_in_words(body["analyst"] or "", before, after))
    if body["kind"] in {"register", "release", "void"}:
        return replace(told, query=body.get("query"))
    return replace(
        told,
        analyst=body["analyst"],
        query=body["query"],
        model=body["model"],
        spend=chain.spend_of(body),
        epsilon=chain.asked_epsilon(body),
        part=chain.part_of(body),
    )
