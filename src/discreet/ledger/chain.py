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
from discreet.ledger.accounts import Terms
from discreet.ledger.charge import (
    Charge,
    format_amount,
    format_stored_amount,
    parse_amount,
    round_up_to_units,
    units_to_fraction,
)
from discreet.privacy.cost import AccountKind, PrivacyCost, SubAccount

GENESIS_HASH = "0" * 64
HASH_PATTERN = re.compile("[0-9a-f]{64}")
Body = dict[str, Any]
SPEND_COMPONENTS = ("epsilon", "rho", "other", "delta")
"""The components of a spend, as bodies name them."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where a data set's chain ends, and what follows from its entries."""

    dataset: str
    identity: str
    snapshot: str
    epoch: int = 0
    seq: int = 0
    hash: str = GENESIS_HASH
    partition_reach: int = 0
    individual_reach: int = 0
    weaker: bool = False

    @property
    def max_accounts(self) -> dict[AccountKind, int]:
        """How many parts of each kind one unit touches; 0 where there are none."""
        return {"partition": self.partition_reach, "individual": self.individual_reach}

    def raises_max_accounts(self, part: SubAccount | None) -> bool:
        """Whether a charge on the part says that one unit touches more parts of its kind than was said before."""
        return part is not None and 0 < self.max_accounts[part.kind] < part.max_accounts

    def with_snapshot(self, snapshot: str) -> Head:
        """The head under a new snapshot, in a new epoch: who was in which part may have changed."""
        return replace(self, snapshot=snapshot, epoch=self.epoch + 1, partition_reach=0, individual_reach=0)

    def with_charge(self, model: str, part: SubAccount | None) -> Head:
        """The head once an answer is drawn in a model, on a part: the most parts of one unit ever named count."""
        head = replace(self, weaker=self.weaker or model != "dp")
        if part is None or part.max_accounts <= self.max_accounts[part.kind]:
            return head
        if part.kind == "partition":
            return replace(head, partition_reach=part.max_accounts)
        return replace(head, individual_reach=part.max_accounts)

    def with_release(self) -> Head:
        """The head once a file was released under a promise that no account counts."""
        return replace(self, weaker=True)

    def with_entry(self, body: str) -> Head:
        """The head after one more entry."""
        return replace(self, seq=self.seq + 1, hash=hash_entry(self.hash, body))


def hash_entry(previous: str, body: str) -> str:
    """Hash an entry, with the hash before it."""
    return _sha256(previous + body)


def hash_texts(*texts: str) -> str:
    """Hash a list of texts; no two lists share a hash."""
    return _sha256(json.dumps(texts))


def parse_hash(text: str) -> str:
    """Parse a hash as people keep it."""
    hex_digits = text.strip().lower()
    if not HASH_PATTERN.fullmatch(hex_digits):
        expected = "64 digits and letters a to f, as discreet ledger verify prints it"
        raise InvalidInput(f"a head is {expected}, got {text[:40]!r}")
    return hex_digits


def _sha256(text: str) -> str:
    # What was damaged may be no text at all; its hash must still be taken.
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


RELEASE_KEY = hash_texts("release")
"""The lookup key of every release."""
VOID_KEY = hash_texts("void")
"""The lookup key of every entry that voids others."""
RESTORER = "custodian"
FORGOTTEN_QUERY = "spend since the back-up that was restored"
"""In whose name a restored ledger is charged what it may have forgotten, and as which query."""
VOID_QUERY = "charges without an answer in the back-up that was restored are void"
UNRECORDED_MARK: Body = {"unrecorded": True}
"""Marks the entry of a loss that was admitted under caps that the ledger does not know."""


def encode_canonical(body: Mapping[str, object]) -> str:
    """Encode a body as it is stored."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"))


def parse_body(body: str) -> Body:
    """Parse a stored body; refuse one that is damaged."""
    try:
        parsed_body = json.loads(body)
    except ValueError:
        parsed_body = None
    if not isinstance(parsed_body, dict):
        raise Unavailable("the ledger is damaged: an entry cannot be read; verify it, and restore a copy")
    return parsed_body


def extract_columns(body: Body) -> dict[str, object]:
    """Extract the columns that an entry is found by from its body."""
    names = ("dataset", "seq", "kind", "analyst", "key", "finds", "source")
    epsilon = body.get("stored_epsilon")
    stored_epsilon = None if epsilon is None else format_stored_amount(parse_amount(epsilon))
    return {name: body.get(name) for name in names} | {"epsilon": stored_epsilon}


def build_registration(head: Head, ledger: str, disjoint: bool) -> Body:
    """The body of a registration, under its new head."""
    return _build_body("register", head) | {
        "ledger": ledger,
        "identity": head.identity,
        "disjoint": disjoint,
        "finds": hash_texts("snapshot", head.snapshot),
    }


def build_release(head: Head, what: str, manifest: str) -> Body:
    """The body of a release that no account pays for: what it is in words, and the hash of its manifest."""
    return _build_body("release", head) | {"query": what, "sha256": _sha256(manifest), "finds": RELEASE_KEY}


def build_void(head: Head) -> Body:
    """The body that says that no charge before it which has no answer is answered any more."""
    return _build_body("void", head) | {"query": VOID_QUERY, "finds": VOID_KEY}


def build_cap_change(head: Head, owner: str, before: Terms, after: Terms) -> Body:
    """The body that says under which cap an account goes on; the data set's own has no analyst."""
    change = {"analyst": owner or None, "before": before.to_json(), "terms": after.to_json()}
    return _build_body("cap", head) | change


def build_account_openings(accounts: Mapping[str, Terms]) -> Body:
    """The part of a charge's body that fixes the terms of the accounts that it is the first to debit, by owner."""
    return {"opens": {owner: terms.to_json() for owner, terms in accounts.items()}} if accounts else {}


def build_charge_entry(head: Head, charge: Charge) -> Body:
    """The body of a charge; it can be found once it has an answer."""
    return _build_body("charge", head) | _build_request_fields(charge) | _build_payment_fields(charge)


def build_reuse(head: Head, charge: Charge, source: Body) -> Body:
    """The body of a charge that another analyst's answer serves."""
    payment = {"spend": source["spend"], "part": source["part"]}
    answer = {"source": source["seq"], "finds": build_lookup_key(charge), "stored_epsilon": source["asked_epsilon"]}
    return _build_body("reuse", head) | _build_request_fields(charge) | payment | answer


def build_degradation(head: Head, charge: Charge, source: Body) -> Body:
    """The body of a charge that another analyst's answer serves once noise is added; found once that has an answer."""
    request = _build_request_fields(charge) | _build_payment_fields(charge)
    return _build_body("degrade", head) | request | {"source": source["seq"]}


def build_answer_entry(head: Head, source: Body, answer: str) -> Body:
    """The body that says which answer a charge got."""
    lookup_key = source["question"] if source["kind"] == "charge" else build_degraded_key(source["question"])
    return _build_body("answer", head) | {
        "analyst": source["analyst"],
        "source": source["seq"],
        "finds": lookup_key,
        "stored_epsilon": source["asked_epsilon"],
        "sha256": _sha256(answer),
    }


def build_lookup_key(charge: Charge) -> str:
    """Build the lookup key of a question about a snapshot."""
    return hash_texts(charge.snapshot, charge.model, charge.question)


def build_degraded_key(question: str) -> str:
    """Build the lookup key of a degraded answer, which only its own analyst finds."""
    return hash_texts("degraded", question)


def hash_request(charge: Charge) -> str:
    """Hash all that a retry must repeat."""
    part = ("", "", "") if charge.part is None else (charge.part.kind, charge.part.name, str(charge.part.max_accounts))
    spend = [format_amount(count) for count in _spend_to_units(charge.spend)]
    consent = ("any price",) if charge.any_price else ()
    epsilon = format_amount(round_up_to_units(charge.epsilon))
    return hash_texts(build_lookup_key(charge), epsilon, *spend, *part, str(charge.fresh), *consent)


def parse_spend(body: Body) -> PrivacyCost:
    """Parse the cost that an entry paid."""
    amounts = {name: units_to_fraction(parse_amount(text)) for name, text in body["spend"].items()}
    if not set(amounts) <= set(SPEND_COMPONENTS):
        raise ValueError
    epsilon, rho, other, delta = (amounts.get(name, Fraction(0)) for name in SPEND_COMPONENTS)
    return PrivacyCost(epsilon=epsilon, rho=rho, gaussian_rho=other, delta=delta)


def costs_at_most(body: Body, offer: PrivacyCost) -> bool:
    """Whether what an entry paid is within an offer, component by component, as they are written."""
    return all(paid <= limit for paid, limit in _pair_spend_components(body, offer))


def costs_at_least(body: Body, spend: PrivacyCost) -> bool:
    """Whether what an entry paid is no less than a spend, component by component, as they are written."""
    return all(paid >= amount for paid, amount in _pair_spend_components(body, spend))


def _pair_spend_components(body: Body, spend: PrivacyCost) -> Iterable[tuple[int, int]]:
    return zip((parse_amount(body["spend"][name]) for name in SPEND_COMPONENTS), _spend_to_units(spend), strict=True)


def parse_part(body: Body) -> SubAccount | None:
    """Parse the part that an entry is charged on."""
    document = body["part"]
    if document is None:
        return None
    if set(document) != {"kind", "name", "reach"}:
        raise ValueError
    return SubAccount(kind=document["kind"], name=document["name"], max_accounts=document["reach"])


def is_forgotten(body: Body) -> bool:
    """Whether an entry charges the data set what a restored ledger may have forgotten."""
    return (body["kind"], body["analyst"], body["query"]) == ("charge", RESTORER, FORGOTTEN_QUERY)


def sum_forgotten(bodies: Iterable[Body]) -> PrivacyCost:
    """Sum the costs of all entries that charge forgotten spend."""
    return sum(map(parse_spend, filter(is_forgotten, bodies)), PrivacyCost())


def parse_asked_epsilon(body: Body) -> Fraction:
    """Parse the epsilon that an entry asked for."""
    return units_to_fraction(parse_amount(body["asked_epsilon"]))


def parse_stored_epsilon(body: Body) -> Fraction:
    """The epsilon of the answer that an entry paid for: another analyst's may have a larger one than was asked for."""
    return units_to_fraction(parse_amount(body.get("stored_epsilon") or body["asked_epsilon"]))


def _build_body(kind: str, head: Head) -> Body:
    timestamp = datetime.now(UTC).isoformat(timespec="seconds")
    fields = {"kind": kind, "at": timestamp, "dataset": head.dataset, "seq": head.seq + 1}
    return fields | {"snapshot": head.snapshot, "epoch": head.epoch}


def _build_request_fields(charge: Charge) -> Body:
    return {
        "analyst": charge.analyst,
        "key": charge.key,
        "question": build_lookup_key(charge),
        "query": charge.query,
        "model": charge.model,
        "asked_epsilon": format_amount(round_up_to_units(charge.epsilon)),
        "request": hash_request(charge),
    }


def _build_payment_fields(charge: Charge) -> Body:
    amounts, part = map(format_amount, _spend_to_units(charge.spend)), charge.part
    part_fields = None if part is None else {"kind": part.kind, "name": part.name, "reach": part.max_accounts}
    return {"spend": dict(zip(SPEND_COMPONENTS, amounts, strict=True)), "part": part_fields}


def _spend_to_units(spend: PrivacyCost) -> tuple[int, ...]:
    return tuple(map(round_up_to_units, (spend.epsilon, spend.rho, spend.gaussian_rho, spend.delta)))
