"""What is known of a data set without opening its rows, and its JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from discreet.answers.explain import AccuracyForRows
from discreet.custodian.preview import (
    Preview,
    apply_offer,
    build_plan_charge,
    build_preview,
    count_affordable_answers,
    get_min_left,
    is_any_price,
    plan_or_find_stored,
)
from discreet.datasets.dataset_dir import DatasetDir, FolderHeads, Snapshot, get_ledger_address, open_existing_ledger
from discreet.datasets.registration import require_layout
from discreet.errors import InvalidInput
from discreet.ledger import Balance, Caps, Entry, Ledger
from discreet.ledger.accounts import Terms, qualify_promise
from discreet.ledger.budget_check import Offer, build_unspent_owners, count_affordable_charges
from discreet.ledger.charge import LedgerRestore, LedgerVerification
from discreet.planner.dp_comparison import DpComparison
from discreet.planner.options import build_query_options
from discreet.planner.plan import Plan
from discreet.privacy.cost import PrivacyCost, SubAccount, compute_pld_epsilon
from discreet.query import to_sql
from discreet.query.validate import Question, parse_question
from discreet.schema import Schema

if TYPE_CHECKING:
    from discreet.ledger.charge import Model


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


ZERO = Fraction(0)
ALL_ENTRIES = 2**62
"""More entries than a ledger has."""


def find_current_snapshot(schema: Schema) -> Snapshot | None:
    """The snapshot that answers come from; None where there is none yet."""
    manifest = DatasetDir(schema).read_manifest()
    if manifest is None or not manifest.snapshots:
        return None
    require_layout(schema, manifest.snapshots[-1])
    return manifest.snapshots[-1]


def get_balances(schema: Schema, where: str | Path | None = None, analyst: str | None = None) -> tuple[Balance, ...]:
    """What is spent and left, of the data set and of one analyst; all is left where no question was asked yet."""
    caps = Caps(schema.budget, schema.analyst_budget, schema.models)
    owners = (None,) if analyst is None else (None, analyst)
    with open_own_ledger(schema, where) as ledger:
        if ledger is None:
            return tuple(_build_full_balance(caps, model, owner) for owner in owners for model in schema.models)
        return tuple(balance for owner in owners for balance in ledger.balance(schema.name, caps, owner))


def preview_with_ledger(
    schema: Schema,
    where: str | Path | None,
    analyst: str,
    question: Question,
    *arguments: Any,
    reuse: str | None = None,
    **options: Any,
) -> Preview:
    """What a question would cost and be good for, what is left, and how many more such questions that holds."""
    any_price = is_any_price(reuse)
    caps = Caps(schema.budget, schema.analyst_budget, schema.models)
    balances = get_balances(schema, where, analyst)
    model = "dp" if len(arguments) < 3 or arguments[2] is None else "approx-dp"
    epsilon, prior, delta, model_name = (*arguments, None, None, None, None)[:4]
    request = build_query_options(
        epsilon, delta, prior, model_name, max_epsilon=get_min_left(balances, model), **options
    )
    snapshot = find_current_snapshot(schema)
    snapshot_name = "none yet" if snapshot is None else snapshot.name
    with open_own_ledger(schema, where) as ledger:

        def find_offer(planned: Plan) -> Offer | None:
            charge = build_plan_charge(planned, "a question", snapshot_name, analyst, any_price=any_price)
            return None if ledger is None else ledger.find_offer(charge)

        planned = plan_or_find_stored(schema, parse_question(question, schema), request, find_offer)
        result = build_preview(planned, to_sql(planned.query, schema))
        stored_offer = None if planned.is_free else find_offer(planned)
        charge = build_plan_charge(planned, result.question, snapshot_name, analyst)
        times_left = (
            count_affordable_charges(charge, build_unspent_owners(charge, caps))
            if ledger is None
            else count_affordable_answers(charge, caps, stored_offer, ledger)
        )
        result = apply_offer(result, stored_offer)
    return replace(result, balances=balances, times=times_left)


def list_history(
    schema: Schema, where: str | Path | None = None, analyst: str | None = None, limit: int = 100
) -> list[Entry]:
    """What was asked, the latest first."""
    with open_own_ledger(schema, where) as ledger:
        return [] if ledger is None else ledger.history(schema.name, analyst, limit)


def compute_tighter_epsilon(schema: Schema, where: str | Path | None = None, analyst: str | None = None) -> float:
    """A tighter epsilon of all that was spent in approx-dp, at the cap's delta; for display alone.

    It adds up what was spent in parallel and on snapshots without a unit in common too, so it may be the greater one.
    """
    if "approx-dp" not in schema.models:
        raise InvalidInput(f"a tighter total is of approx-dp, which {schema.name} does not allow; leave it out")
    entries = [
        entry for entry in list_history(schema, where, analyst, ALL_ENTRIES) if analyst or entry.kind == "charge"
    ]
    entries = [entry for entry in entries if entry.model != "individual-dp"]
    cap = schema.budget if analyst is None else schema.analyst_budget
    return compute_pld_epsilon((entry.spend for entry in entries if entry.spend is not None), cap.delta)


@contextmanager
def open_own_ledger(schema: Schema, where: str | Path | None) -> Iterator[Ledger | None]:
    """The ledger that keeps the spend of a data set; None as long as none does."""
    dataset_dir = DatasetDir(schema)
    manifest = dataset_dir.read_manifest()
    if manifest is None or manifest.ledger is None:
        yield None
        return
    with open_existing_ledger(get_ledger_address(schema, where)) as ledger:
        if ledger.id != manifest.ledger:
            raise InvalidInput(f"the spend of {schema.name} is kept in another ledger than this one; name that one")
        ledger.compare(schema.name, FolderHeads(dataset_dir))
        yield ledger


def _build_full_balance(caps: Caps, model: str, analyst: str | None) -> Balance:
    cap = caps.dataset if analyst is None else caps.analyst
    promise = qualify_promise(analyst, Terms.from_first_cap(cap, caps.models).describe_promise(model))
    return Balance(cast("Model", model), analyst, ZERO, ZERO, cap, cap.epsilon, (), promise)
