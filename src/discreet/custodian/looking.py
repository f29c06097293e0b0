"""What is known of a data set without opening its rows: its snapshot, what was spent, what was asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from discreet.custodian.binding import existing_ledger, ledger_address
from discreet.custodian.heads import FolderHeads
from discreet.custodian.place import Place, Snapshot
from discreet.custodian.previewing import (
    Preview,
    charge_of,
    count_more,
    is_any_price,
    least_left,
    plan_or_stored,
    previewed,
    with_offer,
)
from discreet.custodian.question import Question, read
from discreet.custodian.registering import require_layout
from discreet.errors import InvalidInput
from discreet.ledger import Balance, Caps, Entry, Ledger
from discreet.ledger.refusal import times, untouched
from discreet.ledger.stored import Offer
from discreet.ledger.terms import Terms, promise_to
from discreet.planner.asked import asked
from discreet.planner.plan import Plan
from discreet.query import to_sql
from discreet.schema import Schema

if TYPE_CHECKING:
    from discreet.ledger.charge import Model

NOTHING = Fraction(0)
EVERYTHING = 2**62
"""More entries than a ledger has."""


def current_snapshot(schema: Schema) -> Snapshot | None:
    """The snapshot that answers come from; None where there is none yet."""
    manifest = Place(schema).read()
    if manifest is None or not manifest.snapshots:
        return None
    require_layout(schema, manifest.snapshots[-1])
    return manifest.snapshots[-1]


def budget(schema: Schema, where: str | Path | None = None, analyst: str | None = None) -> tuple[Balance, ...]:
    """What is spent and left, of the data set and of one analyst; all is left where no question was asked yet."""
    caps = Caps(schema.budget, schema.analyst_budget, schema.models)
    owners = (None,) if analyst is None else (None, analyst)
    with own_ledger(schema, where) as ledger:
        if ledger is None:
            return tuple(_untouched(caps, model, owner) for owner in owners for model in schema.models)
        return tuple(balance for owner in owners for balance in ledger.balance(schema.name, caps, owner))


def preview(
    schema: Schema,
    where: str | Path | None,
    analyst: str,
    question: Question,
    *numbers: Any,
    reuse: str | None = None,
    **more: Any,
) -> Preview:
    """What a question would cost and be good for, what is left, and how many more such questions that holds."""
    any_price = is_any_price(reuse)
    caps = Caps(schema.budget, schema.analyst_budget, schema.models)
    balances = budget(schema, where, analyst)
    model = "dp" if len(numbers) < 3 or numbers[2] is None else "approx-dp"
    epsilon, prior, delta, named = (*numbers, None, None, None, None)[:4]
    request = asked(epsilon, delta, prior, named, most=least_left(balances, model), **more)
    snapshot = current_snapshot(schema)
    at = "none yet" if snapshot is None else snapshot.name
    with own_ledger(schema, where) as ledger:

        def offer(planned: Plan) -> Offer | None:
            charge = charge_of(planned, "a question", at, analyst, any_price=any_price)
            return None if ledger is None else ledger.offered(charge)

        planned = plan_or_stored(schema, read(question, schema), request, offer)
        told = previewed(planned, to_sql(planned.query, schema))
        found = None if planned.free else offer(planned)
        charge = charge_of(planned, told.question, at, analyst)
        count = times(charge, untouched(charge, caps)) if ledger is None else count_more(charge, caps, found, ledger)
        told = with_offer(told, found)
    return replace(told, balances=balances, times=count)


def history(
    schema: Schema, where: str | Path | None = None, analyst: str | None = None, limit: int = 100
) -> list[Entry]:
    """What was asked, the latest first."""
    with own_ledger(schema, where) as ledger:
        return [] if ledger is None else ledger.history(schema.name, analyst, limit)


def tighter_epsilon(schema: Schema, where: str | Path | None = None, analyst: str | None = None) -> float:
    """A tighter epsilon of all that was spent in approx-dp, at the cap's delta; for display alone.

    It adds up what was spent in parallel and on snapshots without a unit in common too, so it may be the greater one.
    """
    from discreet.ledger import pld

    if "approx-dp" not in schema.models:
        raise InvalidInput(f"a tighter total is of approx-dp, which {schema.name} does not allow; leave it out")
    paid = [entry for entry in history(schema, where, analyst, EVERYTHING) if analyst or entry.kind == "charge"]
    paid = [entry for entry in paid if entry.model != "individual-dp"]
    cap = schema.budget if analyst is None else schema.analyst_budget
    return pld.tighter_epsilon((entry.spend for entry in paid if entry.spend is not None), cap.delta)


@contextmanager
def own_ledger(schema: Schema, where: str | Path | None) -> Iterator[Ledger | None]:
    """The ledger that keeps the spend of a data set; None as long as none does."""
    place = Place(schema)
    manifest = place.read()
    if manifest is None or manifest.ledger is None:
        yield None
        return
    with existing_ledger(ledger_address(schema, where)) as ledger:
        if ledger.id != manifest.ledger:
            raise InvalidInput(f"the spend of {schema.name} is kept in another ledger than this one; name that one")
        ledger.compare(schema.name, FolderHeads(place))
        yield ledger


def _untouched(caps: Caps, model: str, analyst: str | None) -> Balance:
    cap = caps.dataset if analyst is None else caps.analyst
    promise = promise_to(analyst, Terms.opened(cap, caps.models).promise(model))
    return Balance(cast("Model", model), analyst, NOTHING, NOTHING, cap, cap.epsilon, (), promise)
