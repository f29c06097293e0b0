"""Speed of the ledger: `python -m benchmarks.ledger [postgresql://...]`. Every charge is on the disk when it counts.

Sixteen clients charge one data set at once: how many charges a second, and how long the one that waited longest did.
Then a ledger of a million entries, written with a true chain, is charged beside an empty one, and verified.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert

from benchmarks.measure import Line, report
from discreet.ledger import Caps, Charge, Ledger, chain, storage
from discreet.ledger.accounts import EMPTY_ACCOUNT, compute_debit
from discreet.ledger.budget_check import DATASET_OWNER
from discreet.ledger.chain import Head
from discreet.ledger.storage import answers, entries
from discreet.privacy.cost import PrivacyCost
from discreet.schema import Budget

CLIENTS, CHARGES = 16, 100
MILLION = 1_000_000
BATCH = 20_000
BUDGET = Budget(Fraction(10**6), Fraction(1, 10**6))
CAPS = Caps(BUDGET, BUDGET, ("dp", "approx-dp"))
COST = PrivacyCost(Fraction(1, 1000), Fraction(1, 2 * 10**6))
processes = multiprocessing.get_context("forkserver")


def build_charge(number: object, analyst: str = "ann") -> Charge:
    question = f"count where age = {number}"
    return Charge("census", "s1", analyst, question, f"SELECT {question}", "dp", COST, COST.epsilon)


def open_ledger(where: str) -> Ledger:
    ledger = Ledger.open(where)
    ledger.register("census", "0f", "s1", disjoint=False)
    return ledger


def charge_repeatedly(where: str, start: Any, results: Any) -> None:
    """Charge again and again; when it began and ended, and its longest wait."""
    with open_ledger(where) as ledger:
        ledger.charge(build_charge(f"first of {os.getpid()}"), CAPS)
        start.wait()
        times = [time.monotonic()]
        for number in range(CHARGES):
            ledger.charge(build_charge(f"{os.getpid()} {number}", f"analyst {os.getpid()}"), CAPS)
            times.append(time.monotonic())
    waits = [after - before for before, after in pairwise(times)]
    results.put((times[0], times[-1], max(waits)))


def measure_concurrency(where: str, engine: str, least: float, longest: float) -> list[Line]:
    """Sixteen clients at once."""
    open_ledger(where).close()
    start, results = processes.Barrier(CLIENTS), processes.Queue()
    clients = [processes.Process(target=charge_repeatedly, args=(where, start, results)) for _ in range(CLIENTS)]
    for process in clients:
        process.start()
    intervals = [results.get(timeout=600) for _ in clients]
    for process in clients:
        process.join()
    seconds = max(end for _, end, _ in intervals) - min(begin for begin, _, _ in intervals)
    with Ledger.open(where) as ledger:
        assert ledger.verify().entries == 1 + CLIENTS * (CHARGES + 1)
    return [
        Line(f"{engine}, {CLIENTS} clients, durable charges a second", CLIENTS * CHARGES / seconds, "/s", least, True),
        Line(
            f"{engine}, {CLIENTS} clients, the longest wait", max(wait for _, _, wait in intervals), "s", longest, False
        ),
    ]


def measure_size(folder: Path) -> list[Line]:
    """A million entries beside none."""
    with open_ledger(str(folder / "empty.db")) as empty, open_ledger(str(folder / "full.db")) as full:
        with full._database.begin_write() as connection:
            fill_ledger(connection)
        paces = [(measure_pace(empty, turn), measure_pace(full, turn)) for turn in range(5)]
        few, many = (max(column) for column in zip(*paces, strict=True))
        start = time.monotonic()
        entry_count = full.verify().entries
        seconds = time.monotonic() - start
    bytes_per_entry = sum(each.stat().st_size for each in folder.glob("full.db*")) / entry_count
    assert entry_count == MILLION + 5 * CHARGES
    return [
        Line("a million entries, charges against an empty ledger", many / few, "times", 0.5, True, f"{many:,.0f}/s"),
        Line("a million entries, verified", entry_count / seconds, "/s", 2000, True, f"{seconds:.0f} s"),
        Line(
            "a million entries, bytes each",
            bytes_per_entry,
            "bytes",
            2000,
            False,
            "every second one with an empty answer",
        ),
    ]


def measure_pace(ledger: Ledger, turn: int) -> float:
    """Charges a second of one client."""
    start = time.perf_counter()
    for number in range(CHARGES):
        ledger.charge(build_charge(f"new {turn} {number}"), CAPS)
    return CHARGES / (time.perf_counter() - start)


def fill_ledger(connection: Connection) -> None:
    """Write charges and their answers as `charge` and `store` would have, but many at once."""
    head = storage.require_head(storage.lock_head(connection, "census"), "census")
    batches = generate_chain(head)
    while batch := list(islice(batches, BATCH)):
        connection.execute(insert(entries), [entry for entry, _, _ in batch])
        stored_answers = [{"dataset": "census", "seq": seq, "answer": "{}"} for _, _, seq in batch if seq]
        connection.execute(insert(answers), stored_answers)
        head = batch[-1][1]
    connection.execute(storage.UPDATE_HEAD, {"by_dataset": "census", "seq": head.seq, "hash": head.hash})
    account = EMPTY_ACCOUNT
    for _ in range(MILLION // 2):
        account = account.plus(compute_debit("dp", COST))
    for owner in (DATASET_OWNER, "ann"):
        storage.save_account(connection, head, owner, None, account)


def generate_chain(head: Head) -> Iterator[tuple[dict[str, Any], Head, int]]:
    """Entries of a true chain, the head after each, and which charge it answers, if any."""
    while head.seq < MILLION:
        charge = chain.build_charge_entry(head, build_charge(head.seq))
        head, entry = append_to_chain(head, charge)
        yield entry, head, 0
        if head.seq < MILLION:
            head, entry = append_to_chain(head, chain.build_answer_entry(head, charge, "{}"))
            yield entry, head, charge["seq"]


def append_to_chain(head: Head, body: chain.Body) -> tuple[Head, dict[str, Any]]:
    text = chain.encode_canonical(body)
    after = head.with_entry(text)
    return after, chain.extract_columns(body) | {"body": text, "hash": after.hash}


def main() -> int:
    """Print every line; fail where a bar is missed."""
    with tempfile.TemporaryDirectory(prefix="discreet-") as name:
        folder = Path(name)
        parts = [
            partial(measure_concurrency, str(folder / "crowd.db"), "SQLite", 200, 1),
            partial(measure_size, folder),
        ]
        # For information: the server's disk is the server's.
        parts += [partial(measure_concurrency, address, "PostgreSQL", 0, 10) for address in sys.argv[1:]]
        return report(*parts)


if __name__ == "__main__":
    sys.exit(main())
