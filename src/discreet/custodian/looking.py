"""What is known of a data set without opening its rows: its snapshot, what was spent, what was asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from discreet.custodian.binding import get_ledger_address, open_existing_ledger
from discreet.custodian.heads import FolderHeads
from discreet.custodian.place import DatasetDir, Snapshot
from discreet.custodian.previewing import (
    Preview,
    apply_offer,
    build_plan_charge,
    build_preview,
    count_affordable_answers,
    get_min_left,
    is_any_price,
    plan_or_find_stored,
)
from discreet.custodian.question import Question, parse_question
from discreet.custodian.registering import require_layout
from discreet.errors import InvalidInput
from discreet.ledger import Balance, Caps, Entry, Ledger
from discreet.ledger.refusal import build_unspent_owners, count_affordable_charges
from discreet.ledger.stored import Offer
from discreet.ledger.terms import Terms, qualify_promise
from discreet.planner.asked import build_query_options
from discreet.planner.plan import Plan
from discreet.query import to_sql
from discreet.schema import Schema

if TYPE_CHECKING:
    from discreet.ledger.charge import Model

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
    from discreet.ledger import pld

    if "approx-dp" not in schema.models:
        raise InvalidInput(f"a tighter total is of approx-dp, which {schema.name} does not allow; leave it out")
    entries = [
        entry for entry in list_history(schema, where, analyst, ALL_ENTRIES) if analyst or entry.kind == "charge"
    ]
    entries = [entry for entry in entries if entry.model != "individual-dp"]
    cap = schema.budget if analyst is None else schema.analyst_budget
    return pld.compute_pld_epsilon((entry.spend for entry in entries if entry.spend is not None), cap.delta)


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
