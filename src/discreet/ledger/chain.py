"""Entries as they are written and chained: hash = sha256(previous hash, body), so none can be changed unseen.

A body is canonical JSON (sorted names, no spaces, ASCII). Whoever can rewrite the whole database can write a whole new
chain; the last hash, kept elsewhere, shows that too.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from discreet.errors import InvalidInput, Unavailable
from discreet.ledger.amounts import fraction, plain, stored, units, unplain
from discreet.ledger.charge import Charge
from discreet.ledger.terms import Terms
from discreet.spend import Kind, Part, Spend

START = "0" * 64
HASH = re.compile("[0-9a-f]{64}")
Body = dict[str, Any]
AMOUNTS = ("epsilon", "rho", "other", "delta")
"""The components of a spend, as bodies name them."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where a data set's chain ends, and what follows from its entries."""

    dataset: str
    identity: str
    snapshot: str
    epoch: int = 0
    seq: int = 0
    hash: str = START
    partition_reach: int = 0
    individual_reach: int = 0
    weaker: bool = False

    @property
    def reach(self) -> dict[Kind, int]:
        """How many parts of each kind one unit touches; 0 where there are none."""
        return {"partition": self.partition_reach, "individual": self.individual_reach}

    def raised(self, part: Part | None) -> bool:
        """Whether a charge on the part says that one unit touches more parts of its kind than was said before."""
        return part is not None and 0 < self.reach[part.kind] < part.reach

    def _reached(self, part: Part | None) -> Head:
        """The largest reach ever named counts."""
        if part is None or part.reach <= self.reach[part.kind]:
            return self
        if part.kind == "partition":
            return replace(self, partition_reach=part.reach)
        return replace(self, individual_reach=part.reach)

    def refreshed(self, snapshot: str) -> Head:
        """The head under a new snapshot, in a new epoch: who was in which part may have changed."""
        return replace(self, snapshot=snapshot, epoch=self.epoch + 1, partition_reach=0, individual_reach=0)

    def drawn(self, model: str, part: Part | None) -> Head:
        """The head once an answer is drawn in a model, on a part."""
        return replace(self._reached(part), weaker=self.weaker or model != "dp")

    def released(self) -> Head:
        """The head once a file was released under a promise that no account counts."""
        return replace(self, weaker=True)

    def followed(self, body: str) -> Head:
        """The head after one more entry."""
        return replace(self, seq=self.seq + 1, hash=link(self.hash, body))


def link(previous: str, body: str) -> str:
    """The hash of an entry."""
    return _sha256(previous + body)


def digest(*texts: str) -> str:
    """One name for several texts; no two lists of texts share it."""
    return _sha256(json.dumps(texts))


def hash_of(said: str) -> str:
    """A hash as somebody kept it."""
    kept = said.strip().lower()
    if not HASH.fullmatch(kept):
        raise InvalidInput(
            f"a head is 64 digits and letters a to f, as discreet ledger verify prints it, got {said[:40]!r}"
        )
    return kept


def _sha256(text: str) -> str:
    # What was damaged may be no text at all; its hash must still be taken.
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


RELEASED = digest("release")
"""What every release is found by."""
VOIDING = digest("void")
"""What every entry that voids others is found by."""
RESTORER = "custodian"
FORGOTTEN = "spend since the back-up that was restored"
"""In whose name a restored ledger is charged what it may have forgotten, and as which query."""
VOIDED = "charges without an answer in the back-up that was restored are void"
UNRECORDED: Body = {"unrecorded": True}
"""What the entry of a loss has that was admitted under caps that the ledger does not know."""


def written(body: Mapping[str, Any]) -> str:
    """A body as it is kept."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"))


def read(body: str) -> Body:
    """A body as it was meant."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Unavailable("the ledger is damaged: an entry cannot be read; verify it, and restore a copy")
    return found


def columns(body: Body) -> dict[str, Any]:
    """What is copied out of a body, to be found by."""
    names = ("dataset", "seq", "kind", "analyst", "key", "finds", "source")
    epsilon = body.get("stored_epsilon")
    return {name: body.get(name) for name in names} | {"epsilon": None if epsilon is None else stored(unplain(epsilon))}


def registration(head: Head, ledger: str, disjoint: bool) -> Body:
    """The body of a registration, under its new head."""
    return _body("register", head) | {
        "ledger": ledger,
        "identity": head.identity,
        "disjoint": disjoint,
        "finds": digest("snapshot", head.snapshot),
    }


def released(head: Head, what: str, manifest: str) -> Body:
    """The body of a release that no account pays for: what it is in words, and the hash of its manifest."""
    return _body("release", head) | {"query": what, "sha256": _sha256(manifest), "finds": RELEASED}


def voided(head: Head) -> Body:
    """The body that says that no charge before it which has no answer is answered any more."""
    return _body("void", head) | {"query": VOIDED, "finds": VOIDING}


def capped(head: Head, owner: str, before: Terms, after: Terms) -> Body:
    """The body that says under which cap an account goes on; the data set's own has no analyst."""
    told = {"analyst": owner or None, "before": before.to_json(), "terms": after.to_json()}
    return _body("cap", head) | told


def opening(accounts: Mapping[str, Terms]) -> Body:
    """The part of a charge's body that fixes the terms of the accounts that it is the first to debit, by owner."""
    return {"opens": {owner: terms.to_json() for owner, terms in accounts.items()}} if accounts else {}


def charged(head: Head, charge: Charge) -> Body:
    """The body of a charge; it can be found once it has an answer."""
    return _body("charge", head) | _asked(charge) | _paid(charge.spend, charge.part)


def reused(head: Head, charge: Charge, source: Body) -> Body:
    """The body of a charge that another analyst's answer serves."""
    paid = {name: source[name] for name in ("spend", "part")}
    found = {"source": source["seq"], "finds": finds(charge), "stored_epsilon": source["asked_epsilon"]}
    return _body("reuse", head) | _asked(charge) | paid | found


def degraded(head: Head, charge: Charge, source: Body) -> Body:
    """The body of a charge that another analyst's answer serves once noise is added; found once that has an answer."""
    return _body("degrade", head) | _asked(charge) | _paid(charge.spend, charge.part) | {"source": source["seq"]}


def answered(head: Head, source: Body, answer: str) -> Body:
    """The body that says which answer a charge got."""
    own = source["question"] if source["kind"] == "charge" else degraded_name(source["question"])
    return _body("answer", head) | {
        "analyst": source["analyst"],
        "source": source["seq"],
        "finds": own,
        "stored_epsilon": source["asked_epsilon"],
        "sha256": _sha256(answer),
    }


def finds(charge: Charge) -> str:
    """What the same question about the same snapshot is found by."""
    return digest(charge.snapshot, charge.model, charge.question)


def degraded_name(question: str) -> str:
    """What a degraded answer to a question is found by: by its own analyst alone."""
    return digest("degraded", question)


def request(charge: Charge) -> str:
    """One name for all that a retry must repeat."""
    part = ("", "", "") if charge.part is None else (charge.part.kind, charge.part.name, str(charge.part.reach))
    spend = [plain(count) for count in _units(charge.spend)]
    consent = ("any price",) if charge.any_price else ()
    return digest(finds(charge), plain(units(charge.epsilon)), *spend, *part, str(charge.fresh), *consent)


def spend_of(body: Body) -> Spend:
    """What an entry paid."""
    amounts = {name: fraction(unplain(text)) for name, text in body["spend"].items()}
    if not set(amounts) <= set(AMOUNTS):
        raise ValueError
    epsilon, rho, other, delta = (amounts.get(name, Fraction(0)) for name in AMOUNTS)
    return Spend(epsilon=epsilon, rho=rho, other=other, delta=delta)


def costs_at_most(body: Body, offer: Spend) -> bool:
    """Whether what an entry paid is within an offer, component by component, as they are written."""
    paid = (unplain(body["spend"][name]) for name in AMOUNTS)
    return all(amount <= most for amount, most in zip(paid, _units(offer), strict=True))


def part_of(body: Body) -> Part | None:
    """The part that an entry is on."""
    told = body["part"]
    if told is None:
        return None
    if set(told) != {"kind", "name", "reach"}:
        raise ValueError
    return Part(kind=told["kind"], name=told["name"], reach=told["reach"])


def is_forgotten(body: Body) -> bool:
    """Whether an entry charges the data set what a restored ledger may have forgotten."""
    return (body["kind"], body["analyst"], body["query"]) == ("charge", RESTORER, FORGOTTEN)


def sum_forgotten(bodies: Iterable[Body]) -> Spend:
    """What several such entries charge together."""
    return sum(map(spend_of, filter(is_forgotten, bodies)), Spend())


def asked_epsilon(body: Body) -> Fraction:
    """The epsilon that an entry asked for."""
    return fraction(unplain(body["asked_epsilon"]))


def stored_epsilon(body: Body) -> Fraction:
    """The epsilon of the answer that an entry paid for: another analyst's may have a larger one than was asked for."""
    return fraction(unplain(body.get("stored_epsilon") or body["asked_epsilon"]))


def _body(kind: str, head: Head) -> Body:
    at = datetime.now(UTC).isoformat(timespec="seconds")
    told = {"kind": kind, "at": at, "dataset": head.dataset, "seq": head.seq + 1}
    return told | {"snapshot": head.snapshot, "epoch": head.epoch}


def _asked(charge: Charge) -> Body:
    return {
        "analyst": charge.analyst,
        "key": charge.key,
        "question": finds(charge),
        "query": charge.query,
        "model": charge.model,
        "asked_epsilon": plain(units(charge.epsilon)),
        "request": request(charge),
    }


def _paid(spend: Spend, part: Part | None) -> Body:
    amounts = dict(zip(AMOUNTS, map(plain, _units(spend)), strict=True))
    told = None if part is None else {"kind": part.kind, "name": part.name, "reach": part.reach}
    return {"spend": amounts, "part": told}


def _units(spend: Spend) -> tuple[int, ...]:
    return tuple(map(units, (spend.epsilon, spend.rho, spend.other, spend.delta)))
