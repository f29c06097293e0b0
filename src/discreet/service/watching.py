"""What a custodian looks at: the chain, snapshots, warnings, counts. Nothing here is for analysts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from sqlalchemy import select

from discreet.custodian import Custodian
from discreet.custodian.document import snapshot_to_json, verified_to_json
from discreet.custodian.place import Place
from discreet.errors import DiscreetError, Unavailable
from discreet.formatting import format_cost, format_decimals
from discreet.ledger import Entry
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
LABELS = {"requests": ("method", "route", "status"), "seconds": ("method", "route")}
LABELS |= {"overruns": ("dataset",), "late": ("dataset",)}


def healthy(service: Service) -> bool:
    """Whether the store is reached."""
    try:
        with service.store.database.reading() as connection:
            connection.execute(select(tokens.c.id).limit(1))
    except Unavailable:
        return False
    return True


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
    found = [] if service.config.padding else [_warning("padding", None, "padding is off: times tell about the rows")]
    counts = all_counts(service.store)
    for name in service.holdings.names:
        found += [*_of_dataset(service, name), *_of_time(counts, name)]
    return [*found, *_of_time(counts, None)]


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
