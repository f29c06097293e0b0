"""Many at once: exactly as many are answered as there is room for, and a key pays once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import pytest

from discreet import BudgetExceeded
from discreet.ledger import Caps, Charge, Ledger
from discreet.ledger.accounts import Account, Terms, is_under_cap
from discreet.ledger.charge import round_up_to_units
from discreet.privacy.cost import PrivacyCost
from support.ledger_stores import DATASET, ask, caps, processes, spent_of, where

__all__ = ["where"]  # a fixture

PROCESSES, THREADS, ROOM = 8, 25, 10


def run_in_processes(work: Callable[..., object], *arguments: object) -> list[Any]:
    """What the work returns in each of several processes that start it at the same moment."""
    start, results = processes.Barrier(PROCESSES), processes.Queue()
    running = [
        processes.Process(target=_run_worker, args=(work, number, start, results, *arguments))
        for number in range(PROCESSES)
    ]
    for process in running:
        process.start()
    done = [results.get(timeout=120) for _ in running]
    for process in running:
        process.join()
    return done


def _run_worker(work: Callable[..., object], number: int, start: Any, results: Any, *arguments: object) -> None:
    results.put(work(number, start, *arguments))


def count_paid_requests(number: int, start: Any, where: str, limits: Caps, pattern: Charge) -> int:
    """How many of this process's requests were paid; each from a thread of its own."""

    def request_once(thread: int) -> bool:
        question = f"{number} {thread}"
        charge = ask(question, pattern.epsilon, f"analyst {thread % 3}", pattern.model, pattern.spend)
        try:
            return ledger.charge(charge, limits).charged
        except BudgetExceeded:
            return False

    with Ledger.open(where, timeout=60) as ledger, ThreadPoolExecutor(THREADS) as threads:
        start.wait()
        return sum(threads.map(request_once, range(THREADS)))


def test_two_hundred_requests_with_room_for_ten(where: str) -> None:
    limits = caps(1)
    with Ledger.open(where) as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        assert sum(run_in_processes(count_paid_requests, where, limits, ask(epsilon="0.1"))) == ROOM
        assert spent_of(ledger, limits) == {"dp": 1}
        assert ledger.verify().entries == 1 + ROOM


def test_two_hundred_gaussian_requests_with_room_for_ten(where: str) -> None:
    limits = caps(1, delta="1e-6", models=("dp", "approx-dp"))
    rho = Fraction(1, 500)
    for count, fine in ((ROOM, True), (ROOM + 1, False)):
        assert (
            is_under_cap(
                Account(other=round_up_to_units(rho * count)), "approx-dp", Terms.from_first_cap(limits.dataset)
            )
            == fine
        )
    with Ledger.open(where) as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        pattern = ask(epsilon="0.3", model="approx-dp", spend=PrivacyCost(gaussian_rho=rho))
        assert sum(run_in_processes(count_paid_requests, where, limits, pattern)) == ROOM
        assert ledger.verify().entries == 1 + ROOM


def answer_once(number: int, start: Any, where: str) -> tuple[int, str]:
    """Charge under the common key, draw, store; the entry and what would be released."""
    with Ledger.open(where, timeout=60) as ledger:
        start.wait()
        receipt = ledger.charge(ask(key="the same"), caps(1))
        return receipt.entry, receipt.answer or ledger.store(DATASET, receipt.entry, f"drawn by {number}")


def test_the_same_key_from_many_processes_is_one_charge_and_one_answer(where: str) -> None:
    with Ledger.open(where) as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        assert len(set(run_in_processes(answer_once, where))) == 1
        assert spent_of(ledger, caps(1)) == {"dp": Fraction(1, 10)}
        assert ledger.verify().entries == 3


def register_dataset(number: int, start: Any, where: str) -> str:
    start.wait()
    with Ledger.open(where, timeout=60) as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        ledger.charge(ask(number), caps(1))
        return ledger.id


def test_many_may_open_a_new_ledger_at_once(where: str) -> None:
    """It is made once, and its data set registered once."""
    assert len(set(run_in_processes(register_dataset, where))) == 1
    with Ledger.open(where) as ledger:
        assert ledger.verify().entries == 1 + PROCESSES


@pytest.mark.soak
def test_the_race_again_and_again(where: str) -> None:
    """With room for ten more every time."""
    with Ledger.open(where) as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        for cap in range(1, 21):
            assert sum(run_in_processes(count_paid_requests, where, caps(cap), ask(epsilon="0.1"))) == ROOM
        ledger.verify()
