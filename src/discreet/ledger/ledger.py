"""Every promise already spent: a charge is durable before it is answered, and nobody can spend what is not left.

A charge is one transaction that holds its data set's head, so that charges on a data set come one after another. There
are no refunds. Entries only ever grow, chained by their hashes; accounts follow from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, or_, select

from discreet.errors import ClaimFailed, DiscreetError, InvalidInput, Unavailable
from discreet.ledger import accounts, budget_check, chain, connect, storage, verify
from discreet.ledger.accounts import EMPTY_ACCOUNT, WEAKER_ANSWERS, Account, Terms
from discreet.ledger.budget_check import DATASET_OWNER, Offer
from discreet.ledger.chain import Body, Head
from discreet.ledger.charge import (
    MAX_QUERY_LENGTH,
    MODELS,
    Balance,
    Caps,
    Charge,
    Entry,
    HeadEntry,
    LedgerRestore,
    LedgerVerification,
    Model,
    Receipt,
    format_stored_amount,
    round_up_to_units,
)
from discreet.ledger.connect import HeadRecord, RecordedHead
from discreet.ledger.storage import IS_NOT_ANSWER, Database, about, entries
from discreet.numeric import as_int, as_positive, as_rational
from discreet.privacy.cost import PrivacyCost, require_storable_text
from discreet.schema import Budget

if TYPE_CHECKING:
    from discreet.ledger.backup import NewDataSet

WEAKER_FLAG = "the DP total no longer describes all disclosure"
LARGE_EPSILON = Fraction(5)
"""Above it, an epsilon is weak formal protection."""


class Ledger(AbstractContextManager["Ledger"]):
    """Every charge, answer and release of data sets, in a hash chain: on SQLite or PostgreSQL, for threads and
    processes.

    Open it with `Ledger.open`. A `Custodian` opens and charges its own.

    Args:
        database: The open database.
        find: Returns the identity of the ledger in it, or makes one.

    Attributes:
        id: The identity, made with the ledger.

    Raises:
        DiscreetError: The database is not a ledger of this version, or cannot be reached.

    Example:
        >>> from pathlib import Path
        >>> from discreet import Custodian, Ledger
        >>> from discreet.sample import write_registry
        >>> with Custodian.open(write_registry(Path("."), patients=100), ledger="ledger.db") as custodian:
        ...     answer = custodian.answer("SELECT COUNT(*) FROM registry WHERE smoker", epsilon=0.5)
        >>> with Ledger.existing("ledger.db") as ledger:
        ...     [entry.kind for entry in ledger.history("registry")]
        ['charge', 'register']
    """

    def __init__(self, database: Database, find: Callable[[Database], str]) -> None:
        self._database = database
        self._last_heads: dict[str, RecordedHead] = {}
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
        database = connect.open_ledger_database(where, float(as_positive(timeout, "the timeout")))
        return Ledger(database, connect.find_or_create_ledger)

    @staticmethod
    def existing(where: str | Path, timeout: float = 10) -> Ledger:
        """Open a ledger that is there; none is made."""
        database = connect.open_existing_database(where, float(as_positive(timeout, "the timeout")))
        return Ledger(database, connect.find_existing_ledger)

    @staticmethod
    def upgrade(where: str | Path, timeout: float = 10) -> int:
        """Give a ledger that an older discreet made the present format; the format it had. No entry changes."""
        with closing(connect.open_existing_database(where, float(as_positive(timeout, "the timeout")))) as database:
            return connect.upgrade_format(database)

    @staticmethod
    def backup(
        where: str | Path, file: str | Path, *, force: bool = False, progress: Callable[[str], None] | None = None
    ) -> LedgerVerification:
        """Copy a ledger as it is at one moment into a file of its own, which is a ledger too; others go on charging.

        `force` replaces an earlier back-up of the same ledger.
        """
        from discreet.ledger import backup

        return backup.write_backup(where, file, force, progress or _ignore_progress)

    @staticmethod
    def restore(
        file: str | Path,
        where: str | Path,
        *,
        forgotten: object,
        forgotten_delta: object = 0,
        progress: Callable[[str], None] | None = None,
        new: Sequence[NewDataSet] = (),
    ) -> LedgerRestore:
        """Copy a back-up to where there is no ledger, after it was recomputed.

        What was charged since the back-up is not in it. `forgotten` is the most epsilon that may have been, 0 where
        nothing was; it is entered as spent for every data set, and for every analyst who has an account. Data sets
        that were registered since are entered too if they are named as `new`.
        """
        from discreet.ledger import backup
        from discreet.ledger.backup import ForgottenSpend

        epsilon, delta = as_rational(forgotten, "forgotten"), as_rational(forgotten_delta, "forgotten_delta")
        return backup.restore_backup(file, where, ForgottenSpend(epsilon, delta), progress or _ignore_progress, new)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def get_identity(self) -> str:
        """Name the file or the database that is open; one that is put in its place has another name."""
        return self._database.get_identity()

    def compare(self, dataset: str, *records: HeadRecord) -> None:
        """Refuse a ledger that is behind what was recorded of a data set, without recording anything.

        One that was restored with what was spent since is not refused, and one that was put in the place of the open
        one is.
        """
        known = self._read_known_heads(dataset, records)
        with self._database.begin_read() as connection:
            for record, head in known:
                check = connect.require_recorded_head if record is None else connect.compare_heads
                check(connection, self.id, dataset, head)

    def record_heads(self, dataset: str, record: HeadRecord) -> None:
        """Compare a data set's heads with a record, before each charge from now on, and keep the record up to date.

        A ledger that lacks the recorded head is refused, unless it was restored with what was spent since.
        """
        known = record.read(dataset)
        with self._database.begin_read() as connection:
            compared = connect.compare_heads(connection, self.id, dataset, known)
        if compared.head is not None and compared.head != known:
            if known is not None and known.restores == compared.head.restores and compared.restored_at is None:
                record.advance(dataset, compared.head)
            else:
                record.accept(dataset, compared.head, compared.restored_at)
        self._records[dataset] = (*self._records.get(dataset, ()), record)

    @contextmanager
    def _begin_write(self, dataset: str) -> Iterator[Connection]:
        """Change a data set in one transaction, after the ledger was found to have all that was recorded of it.

        What was recorded is read first: whoever recorded it had written it to the ledger before. The head that follows
        is recorded once it is durable, and before anybody is told what was paid for.
        """
        known_heads = self._read_known_heads(dataset, self._records.get(dataset, ()))
        with self._database.begin_write() as connection:
            for _, head in known_heads:
                connect.require_recorded_head(connection, self.id, dataset, head)
            yield connection
            after = storage.find_head(connection, dataset)
            recorded_heads = [head for record, head in known_heads if record is not None]
            is_record_lost = any(head is None or head.ledger is None for head in recorded_heads)
            restore_hashes = connect.list_restore_hashes(connection, dataset) if is_record_lost else ()
        if after is not None:
            self._last_heads[dataset] = RecordedHead(self.id, after.seq, after.hash)
            for record, head in known_heads:
                if record is not None and (head is None or head.entry < after.seq):
                    restores = restore_hashes if head is None or head.ledger is None else head.restores
                    record.advance(dataset, RecordedHead(self.id, after.seq, after.hash, restores))

    def _read_known_heads(
        self, dataset: str, records: tuple[HeadRecord, ...]
    ) -> list[tuple[HeadRecord | None, RecordedHead | None]]:
        """The last heads of a data set that are known: by this process, and by each record."""
        return [(None, self._last_heads.get(dataset)), *((record, record.read(dataset)) for record in records)]

    def __exit__(self, *_: object) -> None:
        self.close()

    def register(self, dataset: str, identity: str, snapshot: str, disjoint: bool) -> None:
        """Enter a data set, or a new snapshot of it.

        What was spent carries over, on parts too, unless `disjoint` says that no unit is in the new snapshot and in any
        before it: then accounts start anew. To enter one again changes nothing, also when another has come after it.
        """
        for value, name in ((dataset, "dataset"), (identity, "identity"), (snapshot, "snapshot")):
            require_storable_text(value, name)
        with self._database.begin_read() as connection:  # once entered it stays, and nobody need be waited for
            head = storage.find_head(connection, dataset)
            if head is not None and head.identity == identity and _is_registered(connection, dataset, snapshot):
                return
        with self._begin_write(dataset) as connection:
            connection.execute(select(about).with_for_update())  # one registration at a time
            head = storage.lock_head(connection, dataset)
            if head is None:
                head = Head(dataset, identity, snapshot)
                storage.add_head(connection, head)
                storage.append_entry(connection, head, chain.build_registration(head, self.id, disjoint=False))
            elif head.identity != identity:
                raise InvalidInput(
                    f"this ledger has another data set of the name {dataset[:40]!r}; open its own ledger"
                )
            elif not _is_registered(connection, dataset, snapshot):
                fresh = head.with_snapshot(snapshot)
                storage.carry_over(connection, head, fresh, disjoint)
                storage.append_entry(connection, fresh, chain.build_registration(fresh, self.id, disjoint))

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
        with self._begin_write(charge.dataset) as connection:
            outcome = budget_check.pay_charge(connection, charge, caps)
        if isinstance(outcome, Receipt):
            return outcome
        raise outcome.build_error()

    def store(self, dataset: str, entry: int, answer: str) -> str:
        """Keep the answer of a charge; the first one wins, and is returned to all who come later with another."""
        require_storable_text(answer, "the answer", max_length=None)
        with self._begin_write(dataset) as connection:
            head = storage.require_head(storage.lock_head(connection, dataset), dataset)
            body = storage.find_body(connection, dataset, entry)
            if body is None or body["kind"] not in {"charge", "degrade"}:
                raise InvalidInput("an answer is stored for the entry of a charge; this entry is none")
            first = storage.read_answer_text(connection, dataset, entry)
            if first is None:
                budget_check.require_not_void(connection, body)
                storage.add_answer(connection, dataset, entry, answer)
                storage.append_entry(connection, head, chain.build_answer_entry(head, body, answer))
        return answer if first is None else first

    def release(self, dataset: str, snapshot: str, what: str, manifest: str) -> int:
        """Enter a file released under a promise that is not differential privacy; the data set is flagged for good."""
        require_storable_text(what, "what was released", max_length=MAX_QUERY_LENGTH)
        with self._begin_write(dataset) as connection:
            head = storage.require_head(storage.lock_head(connection, dataset), dataset)
            if snapshot != head.snapshot:
                raise Unavailable(f"{dataset[:40]!r} has another snapshot by now; release again")
            head = head.with_release()
            return storage.append_entry(connection, head, chain.build_release(head, what, manifest)).seq

    def balance(self, dataset: str, caps: Caps, analyst: str | None = None) -> tuple[Balance, ...]:
        """Return what the data set, or one analyst on it, has spent in each allowed model and has left."""
        cap = caps.dataset if analyst is None else caps.analyst
        with self._database.begin_read() as connection:
            head = storage.require_head(storage.find_head(connection, dataset), dataset)
            owner = DATASET_OWNER if analyst is None else require_storable_text(analyst, "analyst")
            total = storage.read_position(connection, head, owner, None, caps.models).compute_total(EMPTY_ACCOUNT)
            uncounted = _find_uncounted_models(connection, head)
            largest = storage.compute_largest_totals(connection, head, owner)
            recorded_terms = storage.find_terms(connection, dataset, owner)
            opened_terms = Terms.from_first_cap(cap, caps.models) if recorded_terms is None else recorded_terms
            is_new = recorded_terms is None
            opened_terms = budget_check.complete_terms(connection, head, owner, opened_terms, opening=is_new)
            terms, refusal_flags = _apply_cap(opened_terms, cap, owner, caps.models)
            above = "approx-dp" in terms.enforced_models and accounts.exceeds_highest_cap(largest, "approx-dp", terms)
            raised = above and storage.has_raised_max_accounts(connection, dataset)
        models = [model for model in MODELS if model in caps.models]
        flags = {model: ((WEAKER_FLAG,) if model in uncounted else ()) + refusal_flags for model in models}
        promises = {model: accounts.describe_account_promise(largest, model, terms, raised) for model in models}
        return tuple(_build_balance(total, model, analyst, terms, flags[model], promises[model]) for model in models)

    def find_offer(self, charge: Charge) -> Offer | None:
        """Find the answer that the charge would get without a new draw: under its key, or stored; else None."""
        with self._database.begin_read() as connection:
            if budget_check.find_retry_receipt(connection, charge) is not None:
                return Offer(charge.epsilon, PrivacyCost())
            return None if charge.fresh else budget_check.find_stored_offer(connection, charge)

    def count_affordable(self, charge: Charge, caps: Caps, analyst_only: bool = False) -> int:
        """Count the answers of this cost that fit now, up to a million; it reserves nothing.

        For an answer that is stored already the analyst alone pays: `analyst_only`.
        """
        with self._database.begin_read() as connection:
            head = storage.require_head(storage.find_head(connection, charge.dataset), charge.dataset)
            payers = budget_check.find_payers(connection, head, charge, caps)
            return budget_check.count_affordable_charges(charge, payers[1:] if analyst_only else payers)

    def history(
        self, dataset: str, analyst: str | None = None, limit: int = 100, before: int | None = None
    ) -> list[Entry]:
        """The last registrations, charges, reuses, releases and changed caps, newest first; or those of one analyst.

        With `before`, those that are older than this entry.
        """
        statement = select(entries.c.body).where(entries.c.dataset == dataset, IS_NOT_ANSWER)
        if before is not None:
            statement = statement.where(entries.c.seq < as_int(before, "before"))
        if analyst is not None:
            statement = statement.where(entries.c.analyst == analyst)
        statement = statement.order_by(entries.c.seq.desc()).limit(as_int(limit, "the limit"))
        with self._database.begin_read() as connection:
            storage.require_head(storage.find_head(connection, dataset), dataset)
            bodies = connection.execute(statement).scalars().all()
        return [_parse_entry(chain.parse_body(body)) for body in bodies]

    def find_by_key(self, dataset: str, analyst: str, key: str) -> Entry | None:
        """Find the entry that an analyst's key was used for."""
        with self._database.begin_read() as connection:
            parameters = {"dataset": dataset, "analyst": analyst, "key": key}
            body = connection.execute(budget_check.SELECT_BY_KEY, parameters).scalar_one_or_none()
        return None if body is None else _parse_entry(chain.parse_body(body))

    def notable_entries(self, dataset: str) -> list[Entry]:
        """List every release, and every charge answered with epsilon above 5, however long ago; newest first."""
        large = select(entries.c.source).where(
            entries.c.dataset == dataset,
            entries.c.kind == "answer",
            entries.c.epsilon > format_stored_amount(round_up_to_units(LARGE_EPSILON)),
        )
        statement = select(entries.c.body).where(
            entries.c.dataset == dataset, or_(entries.c.finds == chain.RELEASE_KEY, entries.c.seq.in_(large))
        )
        with self._database.begin_read() as connection:
            bodies = connection.execute(statement.order_by(entries.c.seq.desc())).scalars().all()
        return [_parse_entry(chain.parse_body(body)) for body in bodies]

    def verify(
        self, dataset: str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> LedgerVerification:
        """Recompute the chain, and all that must follow from it, of one data set or of all.

        ClaimFailed names the first entry that is not what was written. `progress` is told entries done and in all.
        """
        return verify.verify_ledger(self._database, self.id, dataset, progress or _ignore_progress)

    def find_head_entry(self, head: str) -> HeadEntry:
        """Find the entry that the head of a data set was kept at; ClaimFailed where there is none. Verify first."""
        head_hash = chain.parse_hash(head)
        with self._database.begin_read() as connection:
            statement = select(entries.c.dataset, entries.c.seq).where(entries.c.hash == head_hash).limit(1)
            row = connection.execute(statement).one_or_none()
        if row is None:
            raise ClaimFailed(
                f"no entry has the head {head_hash[:40]!r}: it is of another ledger, or this one was replaced or set "
                "back since; the head of a data set is found for good, that of the whole ledger until the next entry"
            )
        return HeadEntry(row.dataset, row.seq)


def _ignore_progress(*values: object) -> None:
    """Progress that nobody watches."""


def _is_registered(connection: Connection, dataset: str, snapshot: str) -> bool:
    return _has_entry(connection, dataset, chain.hash_texts("snapshot", snapshot))


def _has_entry(connection: Connection, dataset: str, finds: str) -> bool:
    statement = select(entries.c.seq).where(entries.c.dataset == dataset, entries.c.finds == finds)
    return connection.execute(statement.limit(1)).one_or_none() is not None


def _find_uncounted_models(connection: Connection, head: Head) -> set[Model]:
    """The models whose accounts do not count all that was answered or released."""
    if not head.weaker:
        return set()
    if _has_entry(connection, head.dataset, chain.RELEASE_KEY):
        return set(MODELS)
    other_models = storage.find_models_beside_dp(connection, head.dataset)
    return {model for model in MODELS if model == "dp" or other_models - {model}}


def _apply_cap(recorded: Terms, cap: Budget, owner: str, models: tuple[str, ...]) -> tuple[Terms, tuple[str, ...]]:
    """The terms under a cap, for display; a delta that was raised is not used, and a flag says so."""
    try:
        return recorded.with_cap(cap, owner, models), ()
    except InvalidInput as refusal:
        return recorded.with_cap(replace(cap, delta=recorded.delta), owner, models), (str(refusal),)


def _build_balance(
    total: Account, model: Model, analyst: str | None, terms: Terms, flags: tuple[str, ...], promise: str
) -> Balance:
    epsilon = accounts.compute_spent_epsilon(total, model, terms)
    delta = accounts.compute_spent_delta(total, model, terms)
    left = Fraction(0) if epsilon is None else max(Fraction(0), terms.cap.epsilon - epsilon)
    addition = f"; {WEAKER_ANSWERS}" if WEAKER_FLAG in flags else ""
    qualified_promise = accounts.qualify_promise(analyst, promise + addition)
    return Balance(model, analyst, epsilon, delta, terms.cap, left, flags, qualified_promise)


def _parse_entry(body: Body) -> Entry:
    entry = Entry(body["seq"], body["kind"], body["at"], body["snapshot"])
    if body["kind"] == "cap":
        before, after = (Terms.from_json(body[name]) for name in ("before", "terms"))
        change = accounts.describe_cap_change(body["analyst"] or "", before, after)
        return replace(entry, analyst=body["analyst"], query=change)
    if body["kind"] in {"register", "release", "void"}:
        return replace(entry, query=body.get("query"))
    return replace(
        entry,
        analyst=body["analyst"],
        query=body["query"],
        model=body["model"],
        spend=chain.parse_spend(body),
        epsilon=chain.parse_asked_epsilon(body),
        part=chain.parse_part(body),
    )
