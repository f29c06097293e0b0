"""The entries of a data set done again in memory, one by one: what the ledger should hold after them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import reduce

from discreet.ledger import chain
from discreet.ledger.accounts import EMPTY_ACCOUNT, PAST_EPOCHS, Account, compute_debit
from discreet.ledger.chain import Body, Head
from discreet.ledger.paying import DATASET_OWNER, complete_terms_from_totals
from discreet.ledger.terms import Terms
from discreet.spend import PrivacyCost

AccountKey = tuple[int, str, str, str]
"""Epoch, owner, kind and name of the part; the last two empty for the root."""


class ChainReplay:
    """Where the entries so far lead: the head, accounts with what they spent and their terms, answered charges."""

    def __init__(self, ledger: str, dataset: str) -> None:
        self.head = Head(dataset, "", "")
        self.spent: dict[AccountKey, Account] = {}
        self.terms: dict[str, Terms] = {}
        self.answered_entries: set[int] = set()
        self._ledger = ledger
        self._forgotten_charges: dict[int, Body] = {}
        self._last_void = 0
        self._reuses: set[tuple[str, int]] = set()
        self._degradations: set[tuple[str, int]] = set()
        self._snapshots: set[str] = set()

    def apply_entry(self, text: str, body: Body, source: str | None, answer: str | None) -> None:
        """Do one entry, given the entry it refers to and the answer kept for that; ValueError if it cannot follow."""
        _require(body["dataset"] == self.head.dataset and body["seq"] == self.head.seq + 1)
        match body["kind"]:
            case "register":
                self._register(body)
            case "charge":
                self._charge(body)
            case "reuse":
                self._reuse(body, chain.parse_body(source or ""))
            case "degrade":
                self._degrade(body, chain.parse_body(source or ""))
            case "cap":
                self._change_cap(body)
            case "void":
                _require(self.head.seq > 0 and body == chain.build_void(self.head) | {"at": body["at"]})
                self._last_void = body["seq"]
            case "release":
                _require(body["finds"] == chain.RELEASE_KEY and {"query", "sha256"} <= body.keys())
                self.head = self.head.with_release()
            case "answer":
                self._answer(body, chain.parse_body(source or ""), answer)
            case _:
                _require(False)
        _require((body["snapshot"], body["epoch"]) == (self.head.snapshot, self.head.epoch))
        self.head = self.head.with_entry(text)

    def _register(self, body: Body) -> None:
        first = not self.head.seq
        _require(body["ledger"] == self._ledger and body["snapshot"] not in self._snapshots)
        _require(body["disjoint"] in ((False,) if first else (False, True)))
        _require(first or body["identity"] == self.head.identity)
        self._snapshots.add(body["snapshot"])
        if first:
            self.head = Head(self.head.dataset, body["identity"], body["snapshot"])
        else:
            self._carry_over(body["disjoint"])
            self.head = self.head.with_snapshot(body["snapshot"])

    def _carry_over(self, disjoint: bool) -> None:
        epoch = self.head.epoch
        for owner in {key[1] for key in self.spent if key[0] in (PAST_EPOCHS, epoch)}:
            totals = self.spent.get((PAST_EPOCHS, owner, "", ""), EMPTY_ACCOUNT).maximum(self._compute_total(owner))
            self.spent[PAST_EPOCHS, owner, "", ""] = totals
            if not disjoint:
                self.spent[epoch + 1, owner, "", ""] = totals

    def _compute_total(self, owner: str) -> Account:
        """The root and, of each kind and component, the `reach` largest parts, in the present epoch."""
        owner_accounts = {
            key[2:]: account for key, account in self.spent.items() if key[:2] == (self.head.epoch, owner)
        }
        total = owner_accounts.get(("", ""), EMPTY_ACCOUNT)
        for kind, max_accounts in self.head.max_accounts.items():
            part_accounts = [account for (part_kind, _), account in owner_accounts.items() if part_kind == kind]
            total = total.plus(
                Account(
                    *(
                        sum(sorted(column)[-max_accounts:]) if max_accounts else 0
                        for column in zip(*part_accounts, strict=True)
                    )
                )
            )
        return total

    def _charge(self, body: Body) -> None:
        self.head = self.head.with_charge(body["model"], chain.parse_part(body))
        self._open_accounts(body, (DATASET_OWNER, body["analyst"]))
        _require(not chain.is_forgotten(body) or self._says_unrecorded(body, DATASET_OWNER, body["analyst"]))
        for owner in (DATASET_OWNER, body["analyst"]):
            self._debit(owner, body)
        if chain.is_forgotten(body):
            self._forgotten_charges[body["seq"]] = body
            if "restore" in body:  # before restores were named, a charge from before one could still be answered
                self._last_void = body["seq"]

    def _reuse(self, body: Body, source: Body) -> None:
        _require(source["kind"] == "charge" and source["seq"] in self.answered_entries)
        _require(all(body[name] == source[name] for name in ("question", "model", "spend", "part", "snapshot")))
        _require((body["finds"], body["stored_epsilon"]) == (source["question"], source["asked_epsilon"]))
        _require(chain.parse_asked_epsilon(body) <= chain.parse_asked_epsilon(source))
        self._open_accounts(body, (body["analyst"],))
        _require(not chain.is_forgotten(source) or self._says_unrecorded(body, body["analyst"]))
        self._debit(body["analyst"], body)
        self._reuses.add((body["analyst"], source["seq"]))

    def _degrade(self, body: Body, source: Body) -> None:
        """Less is paid than for the source, and no analyst has two answers of one draw, forgotten ones included."""
        _require(source["kind"] == "charge" and source["seq"] in self.answered_entries)
        _require(all(body[name] == source[name] for name in ("question", "model", "part", "snapshot")))
        _require(chain.parse_asked_epsilon(body) < chain.parse_asked_epsilon(source))
        _require(chain.costs_at_most(body, chain.parse_spend(source)))
        _require((body["analyst"], source["seq"]) not in self._degradations)
        _require(source["seq"] > max(self._forgotten_charges, default=0))
        self._open_accounts(body, (body["analyst"],))
        self._debit(body["analyst"], body)
        self._degradations.add((body["analyst"], source["seq"]))

    def _says_unrecorded(self, body: Body, *payers: str) -> bool:
        """Whether the entry of a forgotten loss says so; before format 4, which recorded no models, it need not."""
        recorded = [self.terms[owner] for owner in payers if owner in self.terms]
        return body.get("unrecorded") is True or all(terms.models is None for terms in recorded)

    def _open_accounts(self, body: Body, payers: tuple[str, ...]) -> None:
        for owner, fields in body.get("opens", {}).items():
            terms = Terms.from_json(fields)
            _require(owner in payers and owner not in self.terms)
            _require(terms.is_unchanged and terms == self._rebuild_opened_terms(owner, terms))
            self.terms[owner] = terms

    def _rebuild_opened_terms(self, owner: str, terms: Terms) -> Terms:
        """The terms as they must be where their account is opened now; before format 4 they had nothing forgotten."""
        bare = replace(terms, has_unrecorded_caps=False, forgotten=Fraction(0), forgotten_delta=Fraction(0))
        forgotten = PrivacyCost() if terms.models is None else self._sum_uncharged(owner)
        return complete_terms_from_totals(bare, self._sum_charges(owner), forgotten, opening=True)

    def _sum_charges(self, owner: str) -> Account:
        """The sum of all that an owner was ever charged: above 0 where its largest totals are."""
        return reduce(Account.plus, (spent for key, spent in self.spent.items() if key[1] == owner), EMPTY_ACCOUNT)

    def _sum_uncharged(self, owner: str) -> PrivacyCost:
        """What a restored ledger may have forgotten of an owner, and has not charged to it."""
        if owner in {DATASET_OWNER, chain.RESTORER}:
            return PrivacyCost()
        return chain.sum_forgotten(
            body for seq, body in self._forgotten_charges.items() if (owner, seq) not in self._reuses
        )

    def _change_cap(self, body: Body) -> None:
        owner, terms = body["analyst"] or DATASET_OWNER, Terms.from_json(body["terms"])
        before = self.terms[owner]
        _require(Terms.from_json(body["before"]) == before != terms)
        known = before
        if before.models is None and terms.models is not None:
            known = complete_terms_from_totals(
                before, self._sum_charges(owner), self._sum_uncharged(owner), opening=False
            )
        _require(terms == known.with_cap(terms.cap, models=terms.models))
        self.terms[owner] = terms

    def _answer(self, body: Body, source: Body, answer: str | None) -> None:
        _require(
            source["kind"] in {"charge", "degrade"}
            and source["seq"] not in self.answered_entries
            and answer is not None
        )
        _require(source["seq"] >= self._last_void)
        expected = chain.build_answer_entry(self.head, source, answer or "")
        _require(body == expected | {"at": body["at"]})
        self.answered_entries.add(source["seq"])

    def _debit(self, owner: str, body: Body) -> None:
        if body.get("unrecorded") is True and owner in self.terms:
            self.terms[owner] = replace(self.terms[owner], has_unrecorded_caps=True)
        part = chain.parse_part(body)
        key = (self.head.epoch, owner, part.kind if part else "", part.name if part else "")
        self.spent[key] = self.spent.get(key, EMPTY_ACCOUNT).plus(compute_debit(body["model"], chain.parse_spend(body)))


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError
