"""Row 8: many requests at once, each of which sees that there is room."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import weak_targets
from discreet import BudgetExceeded, Ledger
from support.ledger_stores import DATASET, build_caps, build_charge

TOGETHER, ROOM = 40, 10


def attack(charge: Callable[[int], bool]) -> int:
    """How many of many at once were paid."""
    start = Barrier(TOGETHER)

    def request(number: int) -> bool:
        start.wait()
        return charge(number)

    with ThreadPoolExecutor(TOGETHER) as threads:
        return sum(threads.map(request, range(TOGETHER)))


def test_it_succeeds_against_the_weak_stand_in(tmp_path: Path) -> None:
    assert attack(weak_targets.LooksThenWrites(tmp_path / "spent", ROOM).charge) > ROOM


def test_it_fails_against_discreet(tmp_path: Path) -> None:
    """Two ledgers on one file, as of two processes; a charge is one transaction."""
    with Ledger.open(tmp_path / "ledger.db", 60) as one, Ledger.open(tmp_path / "ledger.db", 60) as other:
        one.register(DATASET, "0f", "s1", disjoint=False)

        def charge(number: int) -> bool:
            try:
                return (one, other)[number % 2].charge(build_charge(number, "0.1"), build_caps(1)).charged
            except BudgetExceeded:
                return False

        assert attack(charge) == ROOM
