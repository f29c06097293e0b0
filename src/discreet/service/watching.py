"""What a custodian looks at: the chain, snapshots, warnings, counts. Nothing here is for analysts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from sqlalchemy import select

from discreet.custodian import Custodian
from discreet.custodian.binding import ledger_address
from discreet.custodian.document import snapshot_to_json, verified_to_json
from discreet.custodian.place import Place
from discreet.errors import DiscreetError, Unavailable
from discreet.formatting import format_cost, format_decimals
from discreet.ledger import Entry
from discreet.ledger.opening import path_of
from discreet.schema import Schema
from discreet.service.state import Service
from discreet.service.store.counters import all_counts
from discreet.service.store.jobs import count_states
from discreet.service.store.tables import tokens

HELP = {
    "requests": "Replies by method, route and status.",
    "seconds": "Seconds until replies left, padded.",
    "overruns": "Replies that were not ready at their deadline, by data set.",
    "late": "Replies that left more than a twentieth of the deadline after their moment, by data set.",
}
TOO_LATE = {
    "overrun": "{} {} not ready at the deadline: raise it, or ask for less at once",
    "late": "{} left late: the machine was busy, so give it fewer or smaller questions at once",
}
ALERTS = ("ledger", "disk")
"""Kinds of warnings that come first: nothing is answered until they are mended."""
ROOM = 2**20
"""Bytes that must be free in every folder that is written to: those of a few charges."""
LABELS = {"requests": ("method", "route", "status"), "seconds": ("method", "route")}
LABELS |= {"overruns": ("dataset",), "late": ("dataset",)}


def failing(service: Service) -> tuple[str, ...]:
    """Which checks fail: store, ledger, disk. Nothing is told of any one data set, since anyone may ask."""
    checks = {"store": _check_store, "ledger": _check_ledgers, "disk": _check_disks}
    found = []
    for name, check in checks.items():
        try:
            check(service)
        except DiscreetError:
            found.append(name)
    return tuple(found)


def _check_store(service: Service) -> None:
    with service.store.database.reading() as connection:
        connection.execute(select(tokens.c.id).limit(1))


def _check_ledgers(service: Service) -> None:
    for name in service.holdings.names:
        service.holdings.check_ledger(name)


def _check_disks(service: Service) -> None:
    for folder in _folders(service):
        require_room(folder)


def _folders(service: Service) -> list[Path]:
    """Every folder of this machine that the service writes to, once."""
    config, held = service.config, [service.holdings.held(name) for name in service.holdings.names]
    schemas = [one.schema for one in held if one is not None]
    files = [path_of(config.store), *(path_of(ledger_address(schema, config.ledger)) for schema in schemas)]
    folders = [config.folder, *(Place(schema).folder for schema in schemas)]
    folders += [file.absolute().parent for file in files if file is not None]
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def require_room(folder: Path) -> None:
    """Refuse a folder in which no file can be made, or on whose disk there is no room for one."""
    try:
        with TemporaryFile(dir=folder, buffering=0) as file:
            _reserve(file.fileno())
    except OSError:
        raise Unavailable(
            f"the folder {folder.name} cannot be written: look at its rights and the room on its disk, at least "
            f"{ROOM // 2**20} MB"
        ) from None


def _reserve(file: int) -> None:
    """Take the room of a few charges; macOS has no other way than to write."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, ROOM)
    else:
        os.write(file, bytes(ROOM))


def chain(custodian: Custodian) -> dict[str, object]:
    """The chain of a data set, recomputed; ClaimFailed where it is not what was written."""
    return verified_to_json(custodian.verify()) | {"verified": True}


def snapshots(schema: Schema) -> list[dict[str, object]]:
    """Every registration of a data set, the latest first."""
    manifest = Place(schema).read()
    found = () if manifest is None else manifest.snapshots
    return [snapshot_to_json(one, schema) for one in reversed(found)]


def warnings(service: Service) -> list[dict[str, Any]]:
    """Everything that a custodian should look at."""
    found = list(_of_disks(service))
    if not service.config.padding:
        found.append(_warning("padding", None, "padding is off: times tell about the rows"))
    counts = all_counts(service.store)
    for name in service.holdings.names:
        found += [*(_of_ledger(service, name) or _of_dataset(service, name)), *_of_time(counts, name)]
    found += _of_time(counts, None)
    return sorted(found, key=lambda one: one["kind"] not in ALERTS)


def _of_disks(service: Service) -> Iterator[dict[str, Any]]:
    for folder in _folders(service):
        try:
            require_room(folder)
        except Unavailable as refusal:
            yield _warning("disk", None, str(refusal))


def _of_ledger(service: Service, name: str) -> list[dict[str, Any]]:
    """A ledger that is gone, replaced or set back: nothing of the data set is answered until that is mended."""
    try:
        service.holdings.check_ledger(name)
    except DiscreetError as refusal:
        return [_warning("ledger", name, str(refusal))]
    return []


def _of_time(
    counts: Mapping[tuple[str, str], tuple[float, float | None]], name: str | None
) -> Iterator[dict[str, Any]]:
    """Replies about a data set that came too late; without a name, those about no one data set."""
    about = "" if name is not None else " about no one data set"
    for kind, counted in (("overrun", "overruns"), ("late", "late")):
        many, last = counts.get((counted, name or ""), (0.0, None))
        if many:
            replies = f"{format_decimals(many, 0)} {'reply' if many == 1 else 'replies'}{about}"
            yield _warning(kind, name, TOO_LATE[kind].format(replies, "was" if many == 1 else "were"), last)


def _of_dataset(service: Service, name: str) -> Iterator[dict[str, Any]]:
    try:
        with service.holdings.custodian(name) as custodian:
            balances, entries = custodian.budget(), custodian.notable()
    except DiscreetError as refusal:
        held = service.holdings.held(name)
        cause = None if held is None else held.cause
        yield _warning("unavailable", name, str(cause or refusal))
        return
    yield from (_warning("weaker", name, flag) for flag in dict.fromkeys(f for one in balances for f in one.flags))
    for entry in entries:
        yield from (_warning(kind, name, said, entry.at) for kind, said in _of_entry(entry))


def _of_entry(entry: Entry) -> Iterator[tuple[str, str]]:
    if entry.kind == "release":
        yield "weaker", f"entry {entry.entry}: {entry.query}"
    else:
        told = format_cost(entry.epsilon or Fraction(0))
        yield "epsilon", f"entry {entry.entry} has epsilon {told}: weak formal protection"


def _warning(kind: str, dataset: str | None, text: str, at: str | float | None = None) -> dict[str, Any]:
    return {"kind": kind, "dataset": dataset, "text": text, "at": at}


def metrics(service: Service) -> str:
    """What was counted, as Prometheus reads it."""
    service.counts.write()
    counts = all_counts(service.store)
    lines: list[str] = []
    for name, about_it in HELP.items():
        full = f"discreet_{name}_total"
        lines += [f"# HELP {full} {about_it}", f"# TYPE {full} counter"]
        own = sorted((label, value) for (kind, label), (value, _) in counts.items() if kind == name)
        lines += [f"{full}{_labels(LABELS[name], label)} {value:.15g}" for label, value in own]
    lines += ["# HELP discreet_jobs Jobs by state.", "# TYPE discreet_jobs gauge"]
    lines += [
        f'discreet_jobs{{state="{state}"}} {count}' for state, count in sorted(count_states(service.store).items())
    ]
    lines += ["# HELP discreet_padding Whether replies are padded.", "# TYPE discreet_padding gauge"]
    return "\n".join([*lines, f"discreet_padding {int(service.config.padding)}", ""])


def _labels(names: tuple[str, ...], label: str) -> str:
    values = (
        label.split(" ", len(names) - 1)
        if len(names) < 3
        else [*label.split(" ", 1)[:1], *label.split(" ", 1)[1].rsplit(" ", 1)]
    )
    pairs: Mapping[str, str] = dict(zip(names, values, strict=True))
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
