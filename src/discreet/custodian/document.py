"""The JSON of what a custodian tells, the same on every face; exact numbers as text, as in a guarantee."""

from __future__ import annotations

from fractions import Fraction

from discreet.custodian.accuracy import AccuracyForRows
from discreet.custodian.place import Snapshot
from discreet.custodian.previewing import Preview
from discreet.ledger import Balance, Entry
from discreet.ledger.charge import LedgerRestore, LedgerVerification
from discreet.planner.compared import DpComparison
from discreet.schema import Schema
from discreet.spend import PrivacyCost, SubAccount


def preview_to_json(preview: Preview) -> dict[str, object]:
    """A preview."""
    payload: dict[str, object] = {"question": preview.question, "mechanism": preview.mechanism}
    payload |= {
        "expected_error": preview.expected_error,
        "prior_error": preview.prior_error,
        "reason": preview.reason,
        "accuracy": preview.accuracy,
        "accuracy_by_rows": [_by_rows(item) for item in preview.accuracy_by_rows],
    }
    payload["candidates"] = [
        {
            "aggregate": item.aggregate,
            "mechanism": item.mechanism,
            "expected_error": item.expected_error,
            "cost": item.cost.to_json(),
            "chosen": item.chosen,
        }
        for item in preview.candidates
    ]
    payload |= {"guarantee": preview.guarantee.to_json(), "cost": preview.cost.to_json(), "times": preview.times}
    payload["warnings"] = list(preview.warnings)
    payload |= {"stored_epsilon": _format_fraction(preview.stored), "reuse": preview.reuse}
    payload |= {"pictured": preview.pictured, "error_of": preview.error_of}
    payload["prior_use"] = preview.prior_use
    payload["compared_with_dp"] = (
        None if preview.compared_with_dp is None else _build_dp_comparison(preview.compared_with_dp)
    )
    return payload | {"budget": [balance_to_json(balance) for balance in preview.balances]}


def balance_to_json(balance: Balance) -> dict[str, object]:
    """What is spent and left of one account; without an analyst it is the data set's."""
    spent = {"epsilon": _format_fraction(balance.epsilon), "delta": str(balance.delta)}
    cap = {name: str(value) for name, value in balance.cap.list_amounts().items()}
    payload: dict[str, object] = {"model": balance.model, "analyst": balance.analyst, "spent": spent, "cap": cap}
    return payload | {"left": str(balance.left), "flags": list(balance.flags), "promise": balance.promise}


def entry_to_json(entry: Entry) -> dict[str, object]:
    """One line of the history."""
    payload: dict[str, object] = {"entry": entry.entry, "kind": entry.kind, "at": entry.at, "snapshot": entry.snapshot}
    payload |= {
        "analyst": entry.analyst,
        "query": entry.query,
        "model": entry.model,
        "epsilon": _format_fraction(entry.epsilon),
    }
    cost = None if entry.spend is None else _spend(entry.spend)
    return payload | {"spend": cost, "part": None if entry.part is None else _part(entry.part)}


def _by_rows(accuracy: AccuracyForRows) -> dict[str, object]:
    return {"name": accuracy.name, "rows": accuracy.rows, "within": accuracy.within}


def _build_dp_comparison(comparison: DpComparison) -> dict[str, object]:
    document: dict[str, object] = {"mechanism": comparison.mechanism, "accuracy": comparison.accuracy}
    document |= {"expected_error": comparison.expected_error, "own_error": comparison.own_error}
    return document | {"prefer": comparison.prefer, "words": comparison.words}


def _spend(spend: PrivacyCost) -> dict[str, str]:
    amounts = {"epsilon": spend.epsilon, "rho": spend.rho, "other": spend.gaussian_rho, "delta": spend.delta}
    return {name: str(amount) for name, amount in amounts.items()}


def _part(part: SubAccount) -> dict[str, object]:
    return {"kind": part.kind, "name": part.name, "reach": part.max_accounts}


def snapshot_to_json(snapshot: Snapshot, schema: Schema) -> dict[str, object]:
    """A snapshot and what was seen when it was made: for the custodian alone."""
    payload: dict[str, object] = {"dataset": schema.name, "snapshot": snapshot.name, "engine": snapshot.engine}
    payload |= {"made": snapshot.made, "disjoint": snapshot.disjoint, "units_declared": schema.units}
    return payload | {"report": dict(snapshot.report)}


def verified_to_json(verified: LedgerVerification) -> dict[str, object]:
    """A data set's chain that holds."""
    return {"entries": verified.entries, "head": verified.head}


def ledger_to_json(verified: LedgerVerification) -> dict[str, object]:
    """A whole ledger that holds: `head` is its own, `heads` are those of the data sets."""
    return verified_to_json(verified) | {"heads": dict(verified.heads)}


def restored_to_json(restored: LedgerRestore) -> dict[str, object]:
    """A back-up as it was, and the ledger that was made of it."""
    return {"backup": ledger_to_json(restored.backup), "ledger": ledger_to_json(restored.ledger)}


def _format_fraction(number: Fraction | None) -> str | None:
    return None if number is None else str(number)
