"""The entries of a data set done again in memory, one by one: what the ledger should hold after them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import reduce

from discreet.ledger import chain
from discreet.ledger.accounts import NOTHING, PAST, Account, cost
from discreet.ledger.chain import Body, Head
from discreet.ledger.paying import DATASET, recalled
from discreet.ledger.terms import Terms
from discreet.spend import Spend

Key = tuple[int, str, str, str]
"""Epoch, owner, kind and name of the part; the last two empty for the root."""


class Replay:
    """Where the entries so far lead: the head, accounts with what they spent and their terms, answered charges."""

    def __init__(self, ledger: str, dataset: str) -> None:
        self.head = Head(dataset, "", "")
        self.spent: dict[Key, Account] = {}
        self.terms: dict[str, Terms] = {}
        self.answered: set[int] = set()
        self._ledger = ledger
        self._forgotten: dict[int, Body] = {}
        self._voided = 0
        self._reused: set[tuple[str, int]] = set()
        self._degraded: set[tuple[str, int]] = set()
        self._snapshots: set[str] = set()

    def follow(self, text: str, body: Body, source: str | None, answer: str | None) -> None:
        """Do one entry, given the entry it refers to and the answer kept for that; ValueError if it cannot follow."""
        _must(body["dataset"] == self.head.dataset and body["seq"] == self.head.seq + 1)
        match body["kind"]:
            case "register":
                self._register(body)
            case "charge":
                self._charge(body)
            case "reuse":
                self._reuse(body, chain.read(source or ""))
            case "degrade":
                self._degrade(body, chain.read(source or ""))
            case "cap":
                self._change_cap(body)
            case "void":
                _must(self.head.seq > 0 and body == chain.voided(self.head) | {"at": body["at"]})
                self._voided = body["seq"]
            case "release":
                _must(body["finds"] == chain.RELEASED and {"query", "sha256"} <= body.keys())
                self.head = self.head.released()
            case "answer":
                self._answer(body, chain.read(source or ""), answer)
            case _:
                _must(False)
        _must((body["snapshot"], body["epoch"]) == (self.head.snapshot, self.head.epoch))
        self.head = self.head.followed(text)

    def _register(self, body: Body) -> None:
        first = not self.head.seq
        _must(body["ledger"] == self._ledger and body["snapshot"] not in self._snapshots)
        _must(body["disjoint"] in ((False,) if first else (False, True)))
        _must(first or body["identity"] == self.head.identity)
        self._snapshots.add(body["snapshot"])
        if first:
            self.head = Head(self.head.dataset, body["identity"], body["snapshot"])
        else:
            self._carry_over(body["disjoint"])
            self.head = self.head.refreshed(body["snapshot"])

    def _carry_over(self, disjoint: bool) -> None:
        epoch = self.head.epoch
        for owner in {key[1] for key in self.spent if key[0] in (PAST, epoch)}:
            most = self.spent.get((PAST, owner, "", ""), NOTHING).most(self._total(owner))
            self.spent[PAST, owner, "", ""] = most
            if not disjoint:
                self.spent[epoch + 1, owner, "", ""] = most

    def _total(self, owner: str) -> Account:
        """The root and, of each kind and component, the `reach` largest parts, in the present epoch."""
        here = {key[2:]: account for key, account in self.spent.items() if key[:2] == (self.head.epoch, owner)}
        total = here.get(("", ""), NOTHING)
        for kind, reach in self.head.reach.items():
            own = [account for (found, _), account in here.items() if found == kind]
            total = total.plus(
                Account(*(sum(sorted(column)[-reach:]) if reach else 0 for column in zip(*own, strict=True)))
            )
        return total

    def _charge(self, body: Body) -> None:
        self.head = self.head.drawn(body["model"], chain.part_of(body))
        self._open_accounts(body, (DATASET, body["analyst"]))
        _must(not chain.is_forgotten(body) or self._says_unrecorded(body, DATASET, body["analyst"]))
        for owner in (DATASET, body["analyst"]):
            self._debit(owner, body)
        if chain.is_forgotten(body):
            self._forgotten[body["seq"]] = body
            if "restore" in body:  # before restores were named, a charge from before one could still be answered
                self._voided = body["seq"]

    def _reuse(self, body: Body, source: Body) -> None:
        _must(source["kind"] == "charge" and source["seq"] in self.answered)
        _must(all(body[name] == source[name] for name in ("question", "model", "spend", "part", "snapshot")))
        _must((body["finds"], body["stored_epsilon"]) == (source["question"], source["asked_epsilon"]))
        _must(chain.asked_epsilon(body) <= chain.asked_epsilon(source))
        self._open_accounts(body, (body["analyst"],))
        _must(not chain.is_forgotten(source) or self._says_unrecorded(body, body["analyst"]))
        self._debit(body["analyst"], body)
        self._reused.add((body["analyst"], source["seq"]))

    def _degrade(self, body: Body, source: Body) -> None:
        """Less is paid than for the source, and no analyst has two answers of one draw, forgotten ones included."""
        _must(source["kind"] == "charge" and source["seq"] in self.answered)
        _must(all(body[name] == source[name] for name in ("question", "model", "part", "snapshot")))
        _must(chain.asked_epsilon(body) < chain.asked_epsilon(source))
        _must(chain.costs_at_most(body, chain.spend_of(source)))
        _must((body["analyst"], source["seq"]) not in self._degraded)
        _must(source["seq"] > max(self._forgotten, default=0))
        self._open_accounts(body, (body["analyst"],))
        self._debit(body["analyst"], body)
        self._degraded.add((body["analyst"], source["seq"]))

    def _says_unrecorded(self, body: Body, *payers: str) -> bool:
        """Whether the entry of a forgotten loss says so; before format 4, which recorded no models, it need not."""
        recorded = [self.terms[owner] for owner in payers if owner in self.terms]
        return body.get("unrecorded") is True or all(terms.models is None for terms in recorded)

    def _open_accounts(self, body: Body, payers: tuple[str, ...]) -> None:
        for owner, told in body.get("opens", {}).items():
            terms = Terms.from_json(told)
            _must(owner in payers and owner not in self.terms)
            _must(terms.unchanged and terms == self._opened(owner, terms))
            self.terms[owner] = terms

    def _opened(self, owner: str, terms: Terms) -> Terms:
        """The terms as they must be where their account is opened now; before format 4 they had nothing forgotten."""
        bare = replace(terms, late=False, forgotten=Fraction(0), forgotten_delta=Fraction(0))
        forgotten = Spend() if terms.models is None else self._uncharged(owner)
        return recalled(bare, self._charged(owner), forgotten, opening=True)

    def _charged(self, owner: str) -> Account:
        """The sum of all that an owner was ever charged: above 0 where its largest totals are."""
        return reduce(Account.plus, (spent for key, spent in self.spent.items() if key[1] == owner), NOTHING)

    def _uncharged(self, owner: str) -> Spend:
        """What a restored ledger may have forgotten of an owner, and has not charged to it."""
        if owner in {DATASET, chain.RESTORER}:
            return Spend()
        return chain.sum_forgotten(body for seq, body in self._forgotten.items() if (owner, seq) not in self._reused)

    def _change_cap(self, body: Body) -> None:
        owner, terms = body["analyst"] or DATASET, Terms.from_json(body["terms"])
        before = self.terms[owner]
        _must(Terms.from_json(body["before"]) == before != terms)
        known = before
        if before.models is None and terms.models is not None:
            known = recalled(before, self._charged(owner), self._uncharged(owner), opening=False)
        _must(terms == known.under(terms.cap, models=terms.models))
        self.terms[owner] = terms

    def _answer(self, body: Body, source: Body, answer: str | None) -> None:
        _must(source["kind"] in {"charge", "degrade"} and source["seq"] not in self.answered and answer is not None)
        _must(source["seq"] >= self._voided)
        expected = chain.answered(self.head, source, answer or "")
        _must(body == expected | {"at": body["at"]})
        self.answered.add(source["seq"])

    def _debit(self, owner: str, body: Body) -> None:
        if body.get("unrecorded") is True and owner in self.terms:
            self.terms[owner] = replace(self.terms[owner], late=True)
        part = chain.part_of(body)
        key = (self.head.epoch, owner, part.kind if part else "", part.name if part else "")
        self.spent[key] = self.spent.get(key, NOTHING).plus(cost(body["model"], chain.spend_of(body)))


def _must(holds: bool) -> None:
    if not holds:
        raise ValueError
