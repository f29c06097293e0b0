"""Monitoring for custodians and operators, never for analysts: failing checks, warnings, metrics, and the request log.

The log has the sender of a request, its route, status and padded time; never a question or a value.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from sqlalchemy import select

from discreet.custodian import Custodian
from discreet.custodian.status import snapshot_to_json
from discreet.datasets.dataset_dir import DatasetDir, get_ledger_address
from discreet.errors import DiscreetError, Unavailable
from discreet.formatting import format_cost, format_decimals
from discreet.ledger.connect import parse_ledger_path
from discreet.schema import Schema
from discreet.service.store.job_queue import count_job_states
from discreet.service.store.store import read_counters, tokens

if TYPE_CHECKING:
    from discreet.service.dataset_registry import Service

METRIC_HELP = {
    "requests": "Replies by method, route and status.",
    "seconds": "Seconds until replies left, padded.",
    "overruns": "Replies that were not ready at their deadline, by data set.",
    "late": "Replies that left more than a twentieth of the deadline after their moment, by data set.",
}
LATE_MESSAGES = {
    "overrun": "{} {} not ready at the deadline: raise it, or ask for less at once",
    "late": "{} left late: the machine was busy, so give it fewer or smaller questions at once",
}
ALERT_KINDS = ("ledger", "disk")
"""Kinds of warnings that come first: nothing is answered until they are resolved."""
MIN_FREE_BYTES = 2**20
"""Bytes that must be free in every folder that is written to: those of a few charges."""
METRIC_LABELS = {"requests": ("method", "route", "status"), "seconds": ("method", "route")}
METRIC_LABELS |= {"overruns": ("dataset",), "late": ("dataset",)}
LOG_FIELDS = ("at", "event", "process", "id", "method", "route", "status", "analyst", "dataset", "seconds", "where")


def list_failing_checks(service: Service) -> tuple[str, ...]:
    """List the checks that fail: store, ledger, disk; no data set is named, since anyone may ask."""
    checks = {"store": _check_store, "ledger": _check_ledgers, "disk": _check_disks}
    failing = []
    for name, check in checks.items():
        try:
            check(service)
        except DiscreetError:
            failing.append(name)
    return tuple(failing)


def _check_store(service: Service) -> None:
    with service.store.database.begin_read() as connection:
        connection.execute(select(tokens.c.id).limit(1))


def _check_ledgers(service: Service) -> None:
    for name in service.registry.names:
        service.registry.check_ledger(name)


def _check_disks(service: Service) -> None:
    for folder in _list_folders(service):
        require_room(folder)


def _list_folders(service: Service) -> list[Path]:
    config, datasets = service.config, [service.registry.find_dataset(name) for name in service.registry.names]
    schemas = [dataset.schema for dataset in datasets if dataset is not None]
    addresses = [config.store, *(get_ledger_address(schema, config.ledger) for schema in schemas)]
    files = map(parse_ledger_path, addresses)
    folders = [config.folder, *(DatasetDir(schema).folder for schema in schemas)]
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
            f"{MIN_FREE_BYTES // 2**20} MB"
        ) from None


def _reserve(file: int) -> None:
    """Take the room of a few charges; macOS has no other way than to write."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, MIN_FREE_BYTES)
    else:
        os.write(file, bytes(MIN_FREE_BYTES))


WarningLine = dict[str, str | float | None]


def verify_dataset_chain(custodian: Custodian) -> dict[str, object]:
    """Recompute the chain of a data set; ClaimFailed where it was changed."""
    return custodian.verify().to_json() | {"verified": True}


def snapshots_to_json(schema: Schema) -> list[dict[str, object]]:
    """List every registration of a data set, the latest first."""
    manifest = DatasetDir(schema).read_manifest()
    registrations = () if manifest is None else manifest.snapshots
    return [snapshot_to_json(snapshot, schema) for snapshot in reversed(registrations)]


def list_warnings(service: Service) -> list[WarningLine]:
    """List everything that a custodian should look at."""
    warnings: list[WarningLine] = []
    for folder in _list_folders(service):
        try:
            require_room(folder)
        except Unavailable as refusal:
            warnings.append(_build_warning("disk", None, str(refusal)))
    if not service.config.padding:
        warnings.append(_build_warning("padding", None, "padding is off: times tell about the rows"))
    counts = read_counters(service.store)
    for name in service.registry.names:
        try:
            service.registry.check_ledger(name)
        except DiscreetError as refusal:
            warnings.append(_build_warning("ledger", name, str(refusal)))
        else:
            warnings += _warn_of_dataset(service, name)
        warnings += _warn_of_late_replies(counts, name)
    warnings += _warn_of_late_replies(counts, None)
    return sorted(warnings, key=lambda warning: warning["kind"] not in ALERT_KINDS)


def _warn_of_late_replies(
    counts: Mapping[tuple[str, str], tuple[float, float | None]], name: str | None
) -> Iterator[WarningLine]:
    """Late replies about a data set; without a name, those about no one data set."""
    about = "" if name is not None else " about no one data set"
    for kind, counter in (("overrun", "overruns"), ("late", "late")):
        reply_count, last = counts.get((counter, name or ""), (0.0, None))
        if reply_count:
            nouns = ("reply", "was") if reply_count == 1 else ("replies", "were")
            replies = f"{format_decimals(reply_count, 0)} {nouns[0]}{about}"
            yield _build_warning(kind, name, LATE_MESSAGES[kind].format(replies, nouns[1]), last)


def _warn_of_dataset(service: Service, name: str) -> Iterator[WarningLine]:
    try:
        with service.registry.lease_custodian(name) as custodian:
            balances, entries = custodian.budget(), custodian.notable_entries()
    except DiscreetError as refusal:
        dataset = service.registry.find_dataset(name)
        cause = None if dataset is None else dataset.cause
        yield _build_warning("unavailable", name, str(cause or refusal))
        return
    for flag in dict.fromkeys(flag for balance in balances for flag in balance.flags):
        yield _build_warning("weaker", name, flag)
    for entry in entries:
        if entry.kind == "release":
            yield _build_warning("weaker", name, f"entry {entry.entry}: {entry.query}", entry.at)
        else:
            epsilon = format_cost(entry.epsilon or Fraction(0))
            text = f"entry {entry.entry} has epsilon {epsilon}: weak formal protection"
            yield _build_warning("epsilon", name, text, entry.at)


def _build_warning(kind: str, dataset: str | None, text: str, seen_at: str | float | None = None) -> WarningLine:
    return {"kind": kind, "dataset": dataset, "text": text, "at": seen_at}


def format_metrics(service: Service) -> str:
    """Write the counts as Prometheus reads them."""
    service.counters.write()
    counts = read_counters(service.store)
    lines: list[str] = []
    for name, help_text in METRIC_HELP.items():
        metric = f"discreet_{name}_total"
        lines += [f"# HELP {metric} {help_text}", f"# TYPE {metric} counter"]
        samples = sorted((label, value) for (kind, label), (value, _) in counts.items() if kind == name)
        lines += [f"{metric}{_format_labels(METRIC_LABELS[name], label)} {value:.15g}" for label, value in samples]
    lines += ["# HELP discreet_jobs Jobs by state.", "# TYPE discreet_jobs gauge"]
    job_counts = sorted(count_job_states(service.store).items())
    lines += [f'discreet_jobs{{state="{state}"}} {count}' for state, count in job_counts]
    lines += ["# HELP discreet_padding Whether replies are padded.", "# TYPE discreet_padding gauge"]
    return "\n".join([*lines, f"discreet_padding {int(service.config.padding)}", ""])


def _format_labels(names: tuple[str, ...], label: str) -> str:
    escaped_label = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    first, *rest = escaped_label.split(" ", 1) if len(names) > 1 else [escaped_label]
    values = [first, *(rest[0].rsplit(" ", 1) if len(names) > 2 else rest)]  # a route may hold spaces
    return "{" + ",".join(f'{name}="{value}"' for name, value in zip(names, values, strict=True)) + "}"


def write_event(event: str, **fields: object) -> None:
    """Write one line of JSON to stderr, with only the fields that a log may hold."""
    line: dict[str, object] = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event}
    line["process"] = os.getpid()
    line |= {name: fields[name] for name in LOG_FIELDS if fields.get(name) is not None}
    with suppress(OSError):  # a log that cannot be written, as on a full disk, costs no reply
        sys.stderr.write(json.dumps(line) + "\n")  # at once: other processes write there too
        sys.stderr.flush()


def format_error_location(error: BaseException) -> str:
    """Format the class of an error and the lines it passed, without its words, which may hold anything."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    lines = [f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in frames]
    return f"{type(error).__name__} at {' > '.join(lines)}"
