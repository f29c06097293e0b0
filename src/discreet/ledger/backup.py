"""Back up and restore a ledger, and enter what a restored one has forgotten.

Answers that were given after a back-up are with the analysts, and not in the ledger that is restored from it. The bound
is charged to the data set, and to every analyst who has an account, since nobody knows whose answers they were. Of an
account that is opened later nobody knows that either: its terms have the bound (accounts.md).

Rows are read in one transaction that sees one moment, so that others go on charging. A copy is made in a folder of its
own and recomputed there; only what holds gets a name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Connection, Row, Table, func, insert, inspect, select

from discreet.errors import ClaimFailed, DiscreetError, InvalidInput
from discreet.ledger import chain, connect, storage, verify
from discreet.ledger.accounts import compute_debit
from discreet.ledger.budget_check import DATASET_OWNER
from discreet.ledger.chain import FORGOTTEN_QUERY, RESTORER, Body, Head
from discreet.ledger.charge import Charge, LedgerRestore, LedgerVerification
from discreet.ledger.sqlite import SQLite, open_immutable, sync_to_disk
from discreet.ledger.storage import (
    FIRST_FORMATS,
    METADATA,
    MIGRATIONS_DIR,
    VERSION_TABLE,
    Database,
    entries,
    heads,
    translate_database_errors,
)
from discreet.mechanisms.entropy import SYSTEM
from discreet.privacy.cost import PrivacyCost, require_amount

LOCK_TIMEOUT = 10.0
COPY_BATCH = 1000
LEFTOVER_SUFFIXES = ("-wal", "-journal")
"""What SQLite keeps beside a file while it is open, and would take for the newest part of another file put there."""
StageCallback = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ForgottenSpend:
    """The most that may have been spent on any one data set; all of it together was (epsilon, delta)-private."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Both are amounts; a delta has its epsilon."""
        PrivacyCost(require_amount(self.epsilon, "what was forgotten"), delta=self.delta)
        if self.delta and not self.epsilon:
            raise InvalidInput("a forgotten delta goes with a forgotten epsilon; say the most that was spent of both")


@dataclass(frozen=True, slots=True)
class NewDataSet:
    """A data set that was registered after the back-up: its identity, and its snapshots with whether each is disjoint.

    The back-up knows nothing of it, and it would begin with a whole budget.
    """

    name: str
    identity: str
    snapshots: tuple[tuple[str, bool], ...]


def charge_all_forgotten(connection: Connection, forgotten: ForgottenSpend) -> bool:
    """Charge what was forgotten to every data set, also beyond a cap; whether anything was entered.

    Where nothing was spent since, a charge without an answer may still have been answered since: it is void from now
    on, at no cost.
    """
    has_entries = False
    for dataset in sorted(connection.execute(select(heads.c.dataset)).scalars()):
        if forgotten.epsilon:
            charge_forgotten(connection, dataset, forgotten)
        elif storage.find_unanswered(connection, dataset):
            head = storage.require_head(storage.lock_head(connection, dataset), dataset)
            storage.append_entry(connection, head, chain.build_void(head))
        else:
            continue
        has_entries = True
    return has_entries


def charge_forgotten(connection: Connection, dataset: str, forgotten: ForgottenSpend) -> None:
    """Charge what was forgotten to one data set, as it is registered now."""
    head = storage.require_head(storage.lock_head(connection, dataset), dataset)
    for charge in _build_charges(head, forgotten):
        head = _append_charge(connection, head, charge)


def _build_charges(head: Head, forgotten: ForgottenSpend) -> Iterator[Charge]:
    """A pure loss of epsilon, which every model counts, and a chance of delta that it was none.

    Whatever is (epsilon, delta)-private can be drawn from those two (Kairouz, Oh and Viswanath 2015).
    """
    epsilon, request = forgotten.epsilon, (head.dataset, head.snapshot, RESTORER, FORGOTTEN_QUERY, FORGOTTEN_QUERY)
    yield Charge(*request, "dp", PrivacyCost(epsilon, epsilon**2 / 2), epsilon)
    if forgotten.delta:
        yield Charge(*request, "approx-dp", PrivacyCost(delta=forgotten.delta), epsilon)


def _append_charge(connection: Connection, head: Head, charge: Charge) -> Head:
    """One charge to the data set, with an answer, so that the analysts can be charged as for that answer again.

    The caps that it was admitted under are not known, and its entries say so. The charge names the restore, so that two
    restores of one back-up differ.
    """
    others = sorted(set(storage.list_owners(connection, head)) - {DATASET_OWNER, RESTORER})
    head = head.with_charge(charge.model, charge.part)
    body = chain.build_charge_entry(head, charge) | chain.UNRECORDED_MARK | {"restore": SYSTEM.take(16).hex()}
    head = _append_entry(connection, head, body, DATASET_OWNER, RESTORER)
    storage.add_answer(connection, head.dataset, head.seq, FORGOTTEN_QUERY)
    head = storage.append_entry(connection, head, chain.build_answer_entry(head, body, FORGOTTEN_QUERY))
    for analyst in others:
        reuse = chain.build_reuse(head, replace(charge, analyst=analyst), body) | chain.UNRECORDED_MARK
        head = _append_entry(connection, head, reuse, analyst)
    return head


def _append_entry(connection: Connection, head: Head, body: Body, *owners: str) -> Head:
    debit = compute_debit(body["model"], chain.parse_spend(body))
    for owner in owners:
        before = storage.read_position(connection, head, owner, None, ()).root
        storage.save_account(connection, head, owner, None, before.plus(debit))
        terms = storage.find_terms(connection, head.dataset, owner)
        if terms is not None:
            storage.save_terms(connection, head.dataset, owner, replace(terms, has_unrecorded_caps=True))
    return storage.append_entry(connection, head, body)


def write_backup(where: str | Path, file: str | Path, force: bool, stage: StageCallback) -> LedgerVerification:
    """Write a copy of a ledger to a file: whole, recomputed and durable, or not at all."""
    target = connect.parse_ledger_path(file)
    if target is None:
        raise InvalidInput("a back-up goes to a file, not to a database; restore it to one from there")
    target = _require_folder(target)
    replaces = os.path.lexists(target)
    if not replaces:
        _require_no_leftover(target)
    with closing(connect.open_existing_database(where, LOCK_TIMEOUT)) as source:
        if replaces:
            _require_replaceable(target, force, where, source)
        with _open_copy(source.begin_read(), target.parent, stage) as copy:
            verified = _verify_copy(copy, stage)
            _move_into_place(copy, target, os.replace if replaces else _link_new_file)
    return verified


def restore_backup(
    file: str | Path, where: str | Path, forgotten: ForgottenSpend, stage: StageCallback, new: Sequence[NewDataSet] = ()
) -> LedgerRestore:
    """Write the ledger of a back-up to where there is none, with what was forgotten: at once, or not at all."""
    source, target = _find_backup(file), connect.parse_ledger_path(where)
    if target is None:
        return _restore_to_database(source, where, forgotten, stage, new)
    target = _require_free_path(_require_folder(target))
    with _open_restored_copy(source, target.parent, forgotten, stage, new) as (copy, result):
        _move_into_place(copy, target, _link_new_file)
    return result


def _restore_to_database(
    source: Path, where: str | Path, forgotten: ForgottenSpend, stage: StageCallback, new: Sequence[NewDataSet]
) -> LedgerRestore:
    with closing(connect.open_database(where, LOCK_TIMEOUT)) as database:
        with database.begin_read() as connection:
            _require_no_ledger(connection)
        with (
            _open_restored_copy(source, source.parent, forgotten, stage, new) as (copy, result),
            copy.begin_read() as copy_connection,
            database.begin_write() as target,
        ):
            connect.lock_ledger_creation(target)
            _require_no_ledger(target)
            _copy_tables(copy_connection, target, stage)
    return result


@contextmanager
def _open_restored_copy(
    source: Path, folder: Path, forgotten: ForgottenSpend, stage: StageCallback, new: Sequence[NewDataSet]
) -> Iterator[tuple[SQLite, LedgerRestore]]:
    """A copy of a back-up that holds and is of the present format, with what was forgotten."""
    with connect.name_damaged_file(source), open_immutable(source, LOCK_TIMEOUT) as connection:
        connect.require_format(connect.read_ledger_info(connection))
    with _open_copy(open_immutable(source, LOCK_TIMEOUT), folder, stage) as copy:
        before = after = _verify_copy(copy, stage)
        if new and not forgotten.epsilon:
            raise InvalidInput(
                "a data set that is not in the back-up is charged what was forgotten, so that must be above 0"
            )
        with copy.begin_write() as connection:
            changed = charge_all_forgotten(connection, forgotten)
        for dataset in new:
            _register_new_dataset(copy, dataset, forgotten, before)
        if changed or new:
            after = _verify_copy(copy, stage)
        yield copy, LedgerRestore(before, after)


def _register_new_dataset(
    copy: SQLite, dataset: NewDataSet, forgotten: ForgottenSpend, before: LedgerVerification
) -> None:
    """Register a data set that the back-up does not know, and charge it what was forgotten on each of its snapshots.

    What carries over to the next snapshot is not charged again.
    """
    from discreet.ledger.ledger import Ledger

    if dataset.name in before.heads:
        raise InvalidInput(f"{dataset.name[:40]!r} is in the back-up and is charged anyway; leave it out")
    ledger = Ledger(copy, connect.find_existing_ledger)
    for number, (snapshot, disjoint) in enumerate(dataset.snapshots):
        ledger.register(dataset.name, dataset.identity, snapshot, disjoint)
        if disjoint or number == 0:
            with copy.begin_write() as connection:
                charge_forgotten(connection, dataset.name, forgotten)


@contextmanager
def _open_copy(source: AbstractContextManager[Connection], folder: Path, stage: StageCallback) -> Iterator[SQLite]:
    """The same ledger in the same format, in a folder of its own that is gone afterwards."""
    with (
        translate_database_errors(),
        TemporaryDirectory(prefix=".discreet-", dir=folder) as copy_folder,
        closing(SQLite(Path(copy_folder) / "ledger.db", LOCK_TIMEOUT)) as copy,
    ):
        with source as connection, copy.begin_write() as target:
            _copy_tables(connection, target, stage)
        yield copy


def _copy_tables(source: Connection, target: Connection, stage: StageCallback) -> None:
    """Make the tables as the source has them, and copy every row."""
    info = connect.read_ledger_info(source)
    connect.run_migrations(target, MIGRATIONS_DIR, VERSION_TABLE, str(info.format))
    tables = [table for table in METADATA.sorted_tables if FIRST_FORMATS.get(table.name, 1) <= info.format]
    total = sum(source.execute(select(func.count()).select_from(table)).scalar_one() for table in tables)
    done = 0
    for table in tables:
        with source.execute(select(table), execution_options={"yield_per": COPY_BATCH}) as result:
            for batch in result.mappings().partitions():
                _insert_rows(target, table, [dict(row) for row in batch])
                done += len(batch)
                stage(f"copying: {done} of {total}")


def _insert_rows(target: Connection, table: Table, batch: list[dict[str, object]]) -> None:
    try:
        target.execute(insert(table), batch)
    except UnicodeEncodeError:
        raise ClaimFailed("the ledger holds damaged text; verify it, and restore a copy that holds") from None


def _verify_copy(copy: SQLite, stage: StageCallback) -> LedgerVerification:
    with copy.begin_read() as connection:
        info = connect.read_ledger_info(connection)
    return verify.verify_ledger(copy, info.id, None, lambda done, total: stage(f"verifying: {done} of {total}"))


def _move_into_place(copy: SQLite, target: Path, move: Callable[[Path, Path], None]) -> None:
    """Give a copy its name, once it is on the disk."""
    copy.checkpoint()
    copy.close()
    sync_to_disk(copy.path)
    move(copy.path, target)
    sync_to_disk(target.parent)


def _link_new_file(source: Path, target: Path) -> None:
    """Never over a file that is there."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise _build_exists_error(target) from None
    except OSError:  # a disk without links
        if os.path.lexists(target):
            raise _build_exists_error(target) from None
        os.replace(source, target)


def _require_folder(path: Path) -> Path:
    if not path.absolute().parent.is_dir():
        raise InvalidInput(f"the folder for {path.name[:40]!r} does not exist; make it first")
    return path.absolute()


def _find_leftover(path: Path) -> str | None:
    return next((suffix for suffix in LEFTOVER_SUFFIXES if os.path.lexists(f"{path}{suffix}")), None)


def _require_closed(path: Path) -> Path:
    """A file that is there and that nobody has open: what is beside it may be its newest part, and must stay."""
    suffix = _find_leftover(path)
    if suffix is not None:
        raise InvalidInput(
            f"beside {path.name[:40]!r} is its {suffix} file, which may have its newest entries; stop what has it "
            "open, or copy both by discreet ledger backup first"
        )
    return path


def _require_no_leftover(target: Path) -> None:
    """Nothing that SQLite would take for the newest part of what is put there."""
    suffix = _find_leftover(target)
    if suffix is not None:
        raise InvalidInput(
            f"{target.name[:40]!r} is not there, but beside it is a {suffix} file of a ledger that was; stop the "
            "service that has it open, then move that file to where the ledger went"
        )


def _require_free_path(target: Path) -> Path:
    if os.path.lexists(target):
        raise InvalidInput(
            f"{target.name[:40]!r} is there already; a ledger is restored only to where there is none: stop the "
            "service that has it open, then move it to another folder with all files whose names begin with its own"
        )
    _require_no_leftover(target)
    return target


def _require_replaceable(target: Path, force: bool, where: str | Path, source: Database) -> None:
    """Only a back-up that the ledger goes on from is replaced: one with other entries is worth more than a new one."""
    if not force:
        raise _build_exists_error(target)
    ledger = connect.parse_ledger_path(where)
    if ledger is not None and target.exists() and target.samefile(ledger):
        raise InvalidInput("the back-up would replace the ledger itself; name another file")
    _require_closed(target)
    with source.begin_read() as connection:
        info = connect.read_ledger_info(connection)
        for head in _read_heads(target, info.id):
            statement = select(entries.c.hash).where(entries.c.dataset == head.dataset, entries.c.seq == head.seq)
            if connection.execute(statement).scalar_one_or_none() != head.hash:
                raise ClaimFailed(
                    f"the back-up {target.name[:40]!r} has entries that the ledger lacks: the ledger was changed, or "
                    "is an older copy; keep that back-up, and write this one to another file"
                )


def _read_heads(target: Path, ledger: str) -> list[Row[*tuple[object, ...]]]:
    with suppress(DiscreetError), open_immutable(target, LOCK_TIMEOUT) as connection:
        if connect.read_ledger_info(connection).id == ledger:
            return list(connection.execute(select(heads)))
    raise InvalidInput(f"{target.name[:40]!r} is there and is no back-up of this ledger; name another file")


def _require_no_ledger(connection: Connection) -> None:
    if {VERSION_TABLE, *METADATA.tables} & set(inspect(connection).get_table_names()):
        raise InvalidInput(
            "that database has a ledger already, or tables of one; a ledger is restored only to where there is none"
        )


def _find_backup(file: str | Path) -> Path:
    path = connect.parse_ledger_path(file)
    if path is None or not path.is_file():
        raise InvalidInput("there is no back-up of that name; a back-up is a file that discreet ledger backup wrote")
    return _require_closed(path).absolute()


def _build_exists_error(target: Path) -> InvalidInput:
    advice = "name another, or replace an earlier back-up by --force"
    return InvalidInput(f"{target.name[:40]!r} is there already; {advice}")
