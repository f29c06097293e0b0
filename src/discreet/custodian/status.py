"""The status of a data set, without opening its rows: budgets, history, previews and snapshots, also as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from discreet.answers.answer import Answer
from discreet.custodian.validation import list_balances
from discreet.datasets.dataset_dir import DatasetDir, FolderHeads, Snapshot, get_ledger_address
from discreet.errors import InvalidInput
from discreet.ledger import Balance, Entry, Ledger
from discreet.ledger.charge import LedgerRestore, LedgerVerification
from discreet.planner.options import QueryOptions, parse_range
from discreet.privacy.cost import compute_pld_epsilon
from discreet.schema import Schema

ALL_ENTRIES = 2**62
"""More entries than a ledger has."""


def additions_to_json(answer: Answer, options: QueryOptions) -> dict[str, object]:
    """Return, as JSON, the ranges and the population of an answer that were asked for with the question."""
    payload: dict[str, object] = {}
    if options.ranges:
        payload["ranges"] = [answer.range(*parse_range(ends)).to_json() for ends in options.ranges]
    if options.wants_population:
        population = answer.population(size=options.population_size)
        payload["population"] = [{name: estimate.to_json() for name, estimate in row.items()} for row in population]
    return payload


def snapshot_to_json(snapshot: Snapshot, schema: Schema) -> dict[str, object]:
    """Return a snapshot and what was seen when it was made, as JSON: for the custodian alone."""
    payload: dict[str, object] = {"dataset": schema.name, "snapshot": snapshot.name, "engine": snapshot.engine}
    payload |= {"made": snapshot.made, "disjoint": snapshot.disjoint, "units_declared": schema.units}
    return payload | {"report": dict(snapshot.report)}


def ledger_to_json(verified: LedgerVerification) -> dict[str, object]:
    """Return the verification of a whole ledger as JSON: `head` is its own, `heads` are those of the data sets."""
    return verified.to_json() | {"heads": dict(verified.heads)}


def restored_to_json(restored: LedgerRestore) -> dict[str, object]:
    """Return a backup as it was, and the ledger that was restored from it, as JSON."""
    return {"backup": ledger_to_json(restored.backup), "ledger": ledger_to_json(restored.ledger)}


def _format_fraction(number: Fraction | None) -> str | None:
    return None if number is None else str(number)


def get_balances(schema: Schema, where: str | Path | None = None, analyst: str | None = None) -> tuple[Balance, ...]:
    """Return what is spent and left, of the data set and of one analyst; all is left before the first question."""
    with open_own_ledger(schema, where) as ledger:
        return list_balances(schema, analyst, ledger)


def list_history(
    schema: Schema, where: str | Path | None = None, analyst: str | None = None, limit: int = 100
) -> list[Entry]:
    """Return the entries of the ledger, the latest first."""
    with open_own_ledger(schema, where) as ledger:
        return [] if ledger is None else ledger.history(schema.name, analyst, limit)


def compute_tighter_epsilon(schema: Schema, where: str | Path | None = None, analyst: str | None = None) -> float:
    """Compute a tighter epsilon of all that was spent in approx-dp, at the cap's delta; for display alone.

    It adds up what was spent in parallel and on snapshots without a unit in common too, so it may be the greater one.
    """
    if "approx-dp" not in schema.models:
        raise InvalidInput(f"a tighter total is of approx-dp, which {schema.name} does not allow; leave it out")
    entries = list_history(schema, where, analyst, ALL_ENTRIES)
    costs = (entry.spend for entry in entries if (analyst or entry.kind == "charge") and entry.model != "individual-dp")
    cap = schema.budget if analyst is None else schema.analyst_budget
    return compute_pld_epsilon((cost for cost in costs if cost is not None), cap.delta)


@contextmanager
def open_own_ledger(schema: Schema, where: str | Path | None) -> Iterator[Ledger | None]:
    """Open the ledger that keeps the spend of a data set; None as long as none does."""
    dataset_dir = DatasetDir(schema)
    manifest = dataset_dir.read_manifest()
    if manifest is None or manifest.ledger is None:
        yield None
        return
    with Ledger.existing(get_ledger_address(schema, where)) as ledger:
        if ledger.id != manifest.ledger:
            raise InvalidInput(f"the spend of {schema.name} is kept in another ledger than this one; name that one")
        ledger.compare(schema.name, FolderHeads(dataset_dir))
        yield ledger
