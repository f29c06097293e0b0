"""A ledger copied whole: into a back-up, which is a ledger in one file, and from a back-up to an empty place.

Rows are read in one transaction that sees one moment, so that others go on charging. A copy is made in a folder of its
own and recomputed there; only what holds gets a name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Connection, Row, Table, func, insert, inspect, select

from discreet.errors import ClaimFailed, DiscreetError, InvalidInput
from discreet.ledger import forgetting, opening, upgrading, verifying
from discreet.ledger.charge import Restored, Verified
from discreet.ledger.database import Database, plainly
from discreet.ledger.forgetting import Forgotten, NewDataSet
from discreet.ledger.sqlite import SQLite, looking, sync
from discreet.ledger.tables import METADATA, SINCE, VERSION_TABLE, VERSIONS, entries, heads

WAIT = 10.0
BATCH = 1000
LEFT_OVER = ("-wal", "-journal")
"""What SQLite keeps beside a file while it is open, and would take for the newest part of another file put there."""
Stage = Callable[[str], None]


def backup(where: str | Path, file: str | Path, force: bool, stage: Stage) -> Verified:
    """Write a copy of a ledger to a file: whole, recomputed and durable, or not at all."""
    target = opening.path_of(file)
    if target is None:
        raise InvalidInput("a back-up goes to a file, not to a database; restore it to one from there")
    target = _in_folder(target)
    replaces = os.path.lexists(target)
    if not replaces:
        _require_nothing_left(target)
    with closing(opening.existing_database(where, WAIT)) as source:
        if replaces:
            _require_replaceable(target, force, where, source)
        with _copied(source.reading(), target.parent, stage) as copy:
            verified = _verified(copy, stage)
            _put(copy, target, os.replace if replaces else _link)
    return verified


def restore(
    file: str | Path, where: str | Path, forgotten: Forgotten, stage: Stage, new: Sequence[NewDataSet] = ()
) -> Restored:
    """Write the ledger of a back-up to where there is none, with what was forgotten: at once, or not at all."""
    source, target = _backup_at(file), opening.path_of(where)
    if target is None:
        return _restore_to_database(source, where, forgotten, stage, new)
    target = _require_nothing(_in_folder(target))
    with _restored(source, target.parent, forgotten, stage, new) as (copy, told):
        _put(copy, target, _link)
    return told


def _restore_to_database(
    source: Path, where: str | Path, forgotten: Forgotten, stage: Stage, new: Sequence[NewDataSet]
) -> Restored:
    with closing(opening.database_at(where, WAIT)) as database:
        with database.reading() as connection:
            _require_no_ledger(connection)
        with _restored(source, source.parent, forgotten, stage, new) as (copy, told), copy.reading() as rows:
            _fill(database, rows, stage)
    return told


@contextmanager
def _restored(
    source: Path, folder: Path, forgotten: Forgotten, stage: Stage, new: Sequence[NewDataSet]
) -> Iterator[tuple[SQLite, Restored]]:
    """A copy of a back-up that holds and is of the present format, with what was forgotten."""
    with opening.naming(source), looking(source, WAIT) as connection:
        opening.require_format(opening.about_in(connection))
    with _copied(looking(source, WAIT), folder, stage) as copy:
        before = after = _verified(copy, stage)
        if new and not forgotten.epsilon:
            raise InvalidInput(
                "a data set that is not in the back-up is charged what was forgotten, so that must be above 0"
            )
        with copy.writing() as connection:
            changed = forgetting.enter(connection, forgotten)
        for one in new:
            _add_new(copy, one, forgotten, before)
        if changed or new:
            after = _verified(copy, stage)
        yield copy, Restored(before, after)


def _add_new(copy: SQLite, one: NewDataSet, forgotten: Forgotten, before: Verified) -> None:
    """Register a data set that the back-up does not know, and charge it what was forgotten on each of its snapshots.

    What carries over to the next snapshot is not charged again.
    """
    from discreet.ledger.ledger import Ledger

    if one.name in before.heads:
        raise InvalidInput(f"{one.name[:40]!r} is in the back-up and is charged anyway; leave it out")
    ledger = Ledger(copy, opening.existing_ledger_in)
    for number, (snapshot, disjoint) in enumerate(one.snapshots):
        ledger.register(one.name, one.identity, snapshot, disjoint)
        if disjoint or number == 0:
            with copy.writing() as connection:
                forgetting.enter_for(connection, one.name, forgotten)


@contextmanager
def _copied(source: AbstractContextManager[Connection], folder: Path, stage: Stage) -> Iterator[SQLite]:
    """The same ledger in the same format, in a folder of its own that is gone afterwards."""
    with (
        plainly(),
        TemporaryDirectory(prefix=".discreet-", dir=folder) as own,
        closing(SQLite(Path(own) / "ledger.db", WAIT)) as copy,
    ):
        with source as connection, copy.writing() as target:
            _copy(connection, target, stage)
        yield copy


def _fill(database: Database, source: Connection, stage: Stage) -> None:
    """Copy a ledger into a database, in one transaction."""
    with database.writing() as target:
        opening.alone(target)
        _require_no_ledger(target)
        _copy(source, target, stage)


def _copy(source: Connection, target: Connection, stage: Stage) -> None:
    """Make the tables as the source has them, and copy every row."""
    about = opening.about_in(source)
    upgrading.upgrade(target, VERSIONS, VERSION_TABLE, str(about.format))
    tables = [table for table in METADATA.sorted_tables if SINCE.get(table.name, 1) <= about.format]
    total = sum(source.execute(select(func.count()).select_from(table)).scalar_one() for table in tables)
    done = 0
    for table in tables:
        with source.execute(select(table), execution_options={"yield_per": BATCH}) as found:
            for batch in found.mappings().partitions():
                _add(target, table, [dict(row) for row in batch])
                done += len(batch)
                stage(f"copying: {done} of {total}")


def _add(target: Connection, table: Table, batch: list[dict[str, Any]]) -> None:
    try:
        target.execute(insert(table), batch)
    except UnicodeEncodeError:
        raise ClaimFailed("the ledger holds damaged text; verify it, and restore a copy that holds") from None


def _verified(copy: SQLite, stage: Stage) -> Verified:
    with copy.reading() as connection:
        about = opening.about_in(connection)
    return verifying.verify(copy, about.id, None, lambda done, total: stage(f"verifying: {done} of {total}"))


def _put(copy: SQLite, target: Path, move: Callable[[Path, Path], None]) -> None:
    """Give a copy its name, once it is on the disk."""
    copy.settle()
    copy.close()
    sync(copy.path)
    move(copy.path, target)
    sync(target.parent)


def _link(made: Path, target: Path) -> None:
    """Never over a file that is there."""
    try:
        os.link(made, target)
    except FileExistsError:
        raise _there_already(target) from None
    except OSError:  # a disk without links
        if os.path.lexists(target):
            raise _there_already(target) from None
        os.replace(made, target)


def _in_folder(path: Path) -> Path:
    """A path whose folder is there."""
    if not path.absolute().parent.is_dir():
        raise InvalidInput(f"the folder for {path.name[:40]!r} does not exist; make it first")
    return path.absolute()


def _left_over(path: Path) -> str | None:
    return next((suffix for suffix in LEFT_OVER if os.path.lexists(f"{path}{suffix}")), None)


def _closed(path: Path) -> Path:
    """A file that is there and that nobody has open: what is beside it may be its newest part, and must stay."""
    suffix = _left_over(path)
    if suffix is not None:
        raise InvalidInput(
            f"beside {path.name[:40]!r} is its {suffix} file, which may have its newest entries; stop what has it "
            "open, or copy both by discreet ledger backup first"
        )
    return path


def _require_nothing_left(target: Path) -> None:
    """Nothing that SQLite would take for the newest part of what is put there."""
    suffix = _left_over(target)
    if suffix is not None:
        raise InvalidInput(
            f"{target.name[:40]!r} is not there, but beside it is a {suffix} file of a ledger that was; stop the "
            "service that has it open, then move that file to where the ledger went"
        )


def _require_nothing(target: Path) -> Path:
    if os.path.lexists(target):
        raise InvalidInput(
            f"{target.name[:40]!r} is there already; a ledger is restored only to where there is none: stop the "
            "service that has it open, then move it to another folder with all files whose names begin with its own"
        )
    _require_nothing_left(target)
    return target


def _require_replaceable(target: Path, force: bool, where: str | Path, source: Database) -> None:
    """Only a back-up that the ledger goes on from is replaced: one with other entries is worth more than a new one."""
    if not force:
        raise _there_already(target)
    ledger = opening.path_of(where)
    if ledger is not None and target.exists() and target.samefile(ledger):
        raise InvalidInput("the back-up would replace the ledger itself; name another file")
    _closed(target)
    with source.reading() as connection:
        about = opening.about_in(connection)
        for head in _heads_of(target, about.id):
            at = select(entries.c.hash).where(entries.c.dataset == head.dataset, entries.c.seq == head.seq)
            if connection.execute(at).scalar_one_or_none() != head.hash:
                raise ClaimFailed(
                    f"the back-up {target.name[:40]!r} has entries that the ledger lacks: the ledger was changed, or "
                    "is an older copy; keep that back-up, and write this one to another file"
                )


def _heads_of(target: Path, ledger: str) -> list[Row[Any]]:
    with suppress(DiscreetError), looking(target, WAIT) as connection:
        if opening.about_in(connection).id == ledger:
            return list(connection.execute(select(heads)))
    raise InvalidInput(f"{target.name[:40]!r} is there and is no back-up of this ledger; name another file")


def _require_no_ledger(connection: Connection) -> None:
    if {VERSION_TABLE, *METADATA.tables} & set(inspect(connection).get_table_names()):
        raise InvalidInput(
            "that database has a ledger already, or tables of one; a ledger is restored only to where there is none"
        )


def _backup_at(file: str | Path) -> Path:
    path = opening.path_of(file)
    if path is None or not path.is_file():
        raise InvalidInput("there is no back-up of that name; a back-up is a file that discreet ledger backup wrote")
    return _closed(path).absolute()


def _there_already(target: Path) -> InvalidInput:
    return InvalidInput(
        f"{target.name[:40]!r} is there already; name another, or replace an earlier back-up by --force"
    )
