"""Verify a ledger: a replay of its entries, and its hash chain.

Entries are read in short transactions, so that nobody waits for a long one; what follows from them is compared in the
last, which sees no further entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import reduce

from sqlalchemy import Column, Connection, Row, inspect, select

from discreet.errors import ClaimFailed, DiscreetError
from discreet.ledger import chain, storage
from discreet.ledger.accounts import AMOUNTS, EMPTY_ACCOUNT, PAST_EPOCHS, Account, Terms, compute_debit
from discreet.ledger.budget_check import DATASET_OWNER, complete_terms_from_totals
from discreet.ledger.chain import Body, Head
from discreet.ledger.charge import LedgerVerification, format_stored_amount
from discreet.ledger.storage import Database, accounts, answers, caps, entries, heads, parts
from discreet.privacy.cost import PrivacyCost

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
            return
        epoch = self.head.epoch
        for owner in {key[1] for key in self.spent if key[0] in (PAST_EPOCHS, epoch)}:
            totals = self.spent.get((PAST_EPOCHS, owner, "", ""), EMPTY_ACCOUNT).maximum(self._compute_total(owner))
            self.spent[PAST_EPOCHS, owner, "", ""] = totals
            if not body["disjoint"]:
                self.spent[epoch + 1, owner, "", ""] = totals
        self.head = self.head.with_snapshot(body["snapshot"])

    def _compute_total(self, owner: str) -> Account:
        """The root and, of each kind and component, the largest parts of one unit, in the present epoch."""
        total = self.spent.get((self.head.epoch, owner, "", ""), EMPTY_ACCOUNT)
        for kind, max_accounts in self.head.max_accounts.items():
            part_key = (self.head.epoch, owner, kind)
            amounts = zip(*(account for key, account in self.spent.items() if key[:3] == part_key), strict=True)
            if max_accounts:
                total = total.plus(Account(*(sum(sorted(column)[-max_accounts:]) for column in amounts)))
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
        """The losses of an owner that a restored ledger may have forgotten and has not charged."""
        if owner in {DATASET_OWNER, chain.RESTORER}:
            return PrivacyCost()
        charges = self._forgotten_charges.items()
        return chain.sum_forgotten(body for seq, body in charges if (owner, seq) not in self._reuses)

    def _change_cap(self, body: Body) -> None:
        owner, terms = body["analyst"] or DATASET_OWNER, Terms.from_json(body["terms"])
        before = self.terms[owner]
        _require(Terms.from_json(body["before"]) == before != terms)
        known = before
        if before.models is None and terms.models is not None:
            spent, uncharged = self._sum_charges(owner), self._sum_uncharged(owner)
            known = complete_terms_from_totals(before, spent, uncharged, opening=False)
        _require(terms == known.with_cap(terms.cap, models=terms.models))
        self.terms[owner] = terms

    def _answer(self, body: Body, source: Body, answer: str | None) -> None:
        _require(source["kind"] in {"charge", "degrade"} and source["seq"] not in self.answered_entries)
        _require(answer is not None)
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


VERIFY_BATCH = 500
Progress = Callable[[int, int], None]


def verify_ledger(database: Database, ledger: str, dataset: str | None, progress: Progress) -> LedgerVerification:
    """Verify one data set; or all of them, and that nothing belongs to none."""
    if dataset is not None:
        return _verify_dataset(database, ChainReplay(ledger, dataset), progress)
    with database.begin_read() as connection:
        names = sorted(connection.execute(select(heads.c.dataset)).scalars())  # in one order on every engine
        _check_no_orphans(connection)
    results = {name: _verify_dataset(database, ChainReplay(ledger, name), progress) for name in names}
    dataset_heads = {name: verification.head for name, verification in results.items()}
    entry_count = sum(verification.entries for verification in results.values())
    return LedgerVerification(entry_count, chain.hash_texts(*dataset_heads.values()), dataset_heads)


def _verify_dataset(database: Database, replay: ChainReplay, progress: Progress) -> LedgerVerification:
    name = replay.head.dataset
    while True:
        with database.begin_read() as connection:
            head = storage.require_head(storage.find_head(connection, name), name)
            after = select(entries).where(entries.c.dataset == name, entries.c.seq > replay.head.seq)
            batch = list(connection.execute(after.order_by(entries.c.seq).limit(VERIFY_BATCH)))
            if not batch:
                _check_end(connection, head, replay)
                return LedgerVerification(head.seq, head.hash)
            _replay_batch(connection, batch, replay)
        progress(replay.head.seq, max(replay.head.seq, head.seq))


def _replay_batch(connection: Connection, batch: list[Row[*tuple[object, ...]]], replay: ChainReplay) -> None:
    """Each entry is in its place, with the hash that its body gives, its columns, and a meaning."""
    sources = {row.source for row in batch if row.source is not None}
    bodies = _read_texts(connection, entries.c.body, sources, replay.head.dataset)
    texts = _read_texts(connection, answers.c.answer, sources, replay.head.dataset)
    for row in batch:
        head = replay.head
        if row.seq != head.seq + 1:
            raise _build_entry_error(head, "it is missing")
        if not isinstance(row.body, str) or row.hash != chain.hash_entry(head.hash, row.body):
            raise _build_entry_error(head, "its hash does not follow from its text and the hash before it")
        body = _parse_entry_body(row)
        if body is None:
            raise _build_entry_error(head, "what was copied from its text is something else")
        try:
            replay.apply_entry(row.body, body, bodies.get(row.source), texts.get(row.source))
        except (DiscreetError, AttributeError, KeyError, TypeError, ValueError):
            raise _build_entry_error(head, "it does not follow from the entries before it and its answer") from None


def _read_texts(connection: Connection, column: Column[str], seqs: set[int], dataset: str) -> dict[int, str]:
    table = column.table
    statement = select(table.c.seq, column).where(table.c.dataset == dataset, table.c.seq.in_(seqs))
    return dict(connection.execute(statement).all())


def _parse_entry_body(row: Row[*tuple[object, ...]]) -> Body | None:
    """The body of an entry, if it is in canonical form and the columns are its own."""
    try:
        body = chain.parse_body(row.body)
        copies = chain.extract_columns(body)
    except (DiscreetError, AttributeError):
        return None
    are_copies = all(getattr(row, name) == copy for name, copy in copies.items())
    return body if are_copies and chain.encode_canonical(body) == row.body else None


def _check_end(connection: Connection, head: Head, replay: ChainReplay) -> None:
    """The head, the accounts and the answers are those that the entries lead to."""
    if head.seq > replay.head.seq:
        raise _build_entry_error(replay.head, "it is missing")
    if head != replay.head:
        raise ClaimFailed(
            f"the head of {_format_dataset(head)} does not follow from its entries, after entry {replay.head.seq}"
        )
    condition = answers.c.dataset == head.dataset
    for seq in connection.execute(select(answers.c.seq).where(condition).order_by(answers.c.seq)).scalars():
        if seq not in replay.answered_entries:
            raise ClaimFailed(f"{_format_dataset(head)} has an answer to entry {seq} that no entry tells of")
    spent = dict(replay.spent)
    for key, amounts in _read_amounts(connection, head.dataset):
        if amounts != tuple(map(format_stored_amount, spent.pop(key, ()))):
            raise _build_account_error(head, key)
    if spent:
        raise _build_account_error(head, min(spent))
    expected = {owner: chain.encode_canonical(terms.to_json()) for owner, terms in replay.terms.items()}
    recorded: dict[str, str] = {}
    if inspect(connection).has_table(caps.name):  # which a back-up of an older format has not
        statement = select(caps.c.owner, caps.c.terms).where(caps.c.dataset == head.dataset)
        recorded = dict(map(tuple, connection.execute(statement)))
    wrong = min((owner for owner, _ in expected.items() ^ recorded.items()), default=None)
    if wrong is not None:
        raise ClaimFailed(
            f"{_format_dataset(head)}: the cap recorded for {_describe_owner(wrong)} does not follow from the entries"
        )


def _read_amounts(connection: Connection, dataset: str) -> Iterator[tuple[AccountKey, tuple[str, ...]]]:
    for table in (accounts, parts):
        for row in connection.execute(select(table).where(table.c.dataset == dataset)):
            part = ("", "") if table is accounts else (row.kind, row.part)
            yield (row.epoch, row.owner, *part), tuple(getattr(row, name) for name in AMOUNTS)


def _check_no_orphans(connection: Connection) -> None:
    present = inspect(connection).get_table_names()
    for table in (entries, answers, accounts, parts, *([caps] if caps.name in present else [])):
        orphan = select(table.c.dataset).where(table.c.dataset.not_in(select(heads.c.dataset))).limit(1)
        name = connection.execute(orphan).scalar_one_or_none()
        if name is not None:
            raise ClaimFailed(f"the ledger was changed: it has rows of {str(name)[:40]!r}, which has no head")


def _build_entry_error(before: Head, reason: str) -> ClaimFailed:
    return ClaimFailed(f"entry {before.seq + 1} of {_format_dataset(before)} is not what was written: {reason}")


def _build_account_error(head: Head, key: AccountKey) -> ClaimFailed:
    epoch, owner, kind, part = key
    account = f"{_describe_owner(owner)} on {kind} {part[:40]!r}" if kind else _describe_owner(owner)
    subject = f"the account of {account}, epoch {epoch},"
    return ClaimFailed(f"{_format_dataset(head)}: {subject} does not follow from the entries")


def _describe_owner(owner: str) -> str:
    return f"analyst {owner[:40]!r}" if owner else "the data set"


def _format_dataset(head: Head) -> str:
    return f"data set {head.dataset[:40]!r}"
