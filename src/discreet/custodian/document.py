"""The JSON of what a custodian tells, the same on every face; exact numbers as text, as in a guarantee."""

from __future__ import annotations

from fractions import Fraction

from discreet.custodian.accuracy import AccuracyForRows
from discreet.custodian.place import Snapshot
from discreet.custodian.previewing import Preview
from discreet.ledger import Balance, Entry
from discreet.ledger.charge import Restored, Verified
from discreet.planner.compared import ComparedWithDp
from discreet.schema import Schema
from discreet.spend import Part, Spend


def preview_to_json(preview: Preview) -> dict[str, object]:
    """A preview."""
    told: dict[str, object] = {"question": preview.question, "mechanism": preview.mechanism}
    told |= {
        "expected_error": preview.expected_error,
        "prior_error": preview.prior_error,
        "reason": preview.reason,
        "accuracy": preview.accuracy,
        "accuracy_by_rows": [_by_rows(one) for one in preview.accuracy_by_rows],
    }
    told["candidates"] = [
        {
            "aggregate": one.aggregate,
            "mechanism": one.mechanism,
            "expected_error": one.expected_error,
            "cost": one.cost.to_json(),
            "chosen": one.chosen,
        }
        for one in preview.candidates
    ]
    told |= {"guarantee": preview.guarantee.to_json(), "cost": preview.cost.to_json(), "times": preview.times}
    told["warnings"] = list(preview.warnings)
    told |= {"stored_epsilon": _exact(preview.stored), "reuse": preview.reuse}
    told |= {"pictured": preview.pictured, "error_of": preview.error_of}
    told["prior_use"] = preview.prior_use
    told["compared_with_dp"] = None if preview.compared_with_dp is None else _compared(preview.compared_with_dp)
    return told | {"budget": [balance_to_json(balance) for balance in preview.balances]}


def balance_to_json(balance: Balance) -> dict[str, object]:
    """What is spent and left of one account; without an analyst it is the data set's."""
    spent = {"epsilon": _exact(balance.epsilon), "delta": str(balance.delta)}
    cap = {name: str(value) for name, value in balance.cap.declared().items()}
    told: dict[str, object] = {"model": balance.model, "analyst": balance.analyst, "spent": spent, "cap": cap}
    return told | {"left": str(balance.left), "flags": list(balance.flags), "promise": balance.promise}


def entry_to_json(entry: Entry) -> dict[str, object]:
    """One line of the history."""
    told: dict[str, object] = {"entry": entry.entry, "kind": entry.kind, "at": entry.at, "snapshot": entry.snapshot}
    told |= {"analyst": entry.analyst, "query": entry.query, "model": entry.model, "epsilon": _exact(entry.epsilon)}
    spend = None if entry.spend is None else _spend(entry.spend)
    return told | {"spend": spend, "part": None if entry.part is None else _part(entry.part)}


def _by_rows(one: AccuracyForRows) -> dict[str, object]:
    return {"name": one.name, "rows": one.rows, "within": one.within}


def _compared(one: ComparedWithDp) -> dict[str, object]:
    told: dict[str, object] = {"mechanism": one.mechanism, "accuracy": one.accuracy}
    told |= {"expected_error": one.expected_error, "own_error": one.own_error}
    return told | {"prefer": one.prefer, "words": one.words}


def _spend(spend: Spend) -> dict[str, str]:
    amounts = {"epsilon": spend.epsilon, "rho": spend.rho, "other": spend.other, "delta": spend.delta}
    return {name: str(amount) for name, amount in amounts.items()}


def _part(part: Part) -> dict[str, object]:
    return {"kind": part.kind, "name": part.name, "reach": part.reach}


def snapshot_to_json(snapshot: Snapshot, schema: Schema) -> dict[str, object]:
    """A snapshot and what was seen when it was made: for the custodian alone."""
    told: dict[str, object] = {"dataset": schema.name, "snapshot": snapshot.name, "engine": snapshot.engine}
    told |= {"made": snapshot.made, "disjoint": snapshot.disjoint, "units_declared": schema.units}
    return told | {"report": dict(snapshot.report)}


def verified_to_json(verified: Verified) -> dict[str, object]:
    """A data set's chain that holds."""
    return {"entries": verified.entries, "head": verified.head}


def ledger_to_json(verified: Verified) -> dict[str, object]:
    """A whole ledger that holds: `head` is its own, `heads` are those of the data sets."""
    return verified_to_json(verified) | {"heads": dict(verified.heads)}


def restored_to_json(restored: Restored) -> dict[str, object]:
    """A back-up as it was, and the ledger that was made of it."""
    return {"backup": ledger_to_json(restored.backup), "ledger": ledger_to_json(restored.ledger)}


def _exact(number: Fraction | None) -> str | None:
    return None if number is None else str(number)
