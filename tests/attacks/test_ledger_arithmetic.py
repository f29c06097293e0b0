"""Row 9: amounts that are no amounts, and amounts too small for a float to notice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import pytest

import target_faces
import weak_targets
from target_faces import Refused, crowd

CAP = 1
HOSTILE: Sequence[object] = (math.nan, "nan", -math.inf, -1, -1e308, "-0.5", -0.5)
TINY: Sequence[object] = (0, -0.0, 1e-17, 1e-320, "1e-320")
Pay = Callable[[object], bool]


def attack(pay: Pay, before: Sequence[object], after: Sequence[object]) -> int:
    """How many answers are had besides the two that are paid for by halves."""
    hostile = sum(pay(amount) for amount in before)
    halves = sum(pay(0.5) for _ in range(6))
    tiny = sum(pay(amount) for amount in after for _ in range(5))
    assert halves >= 2, "what is there cannot be spent"
    return hostile + halves - 2 + tiny


@pytest.mark.parametrize("amount", HOSTILE)
def test_it_succeeds_against_the_weak_stand_in(amount: object) -> None:
    """Not a number is never above the cap; less than nothing makes room."""
    assert attack(weak_targets.FloatLedger(CAP).pay, [amount], []) > 1


@pytest.mark.parametrize("amount", TINY)
def test_it_succeeds_with_amounts_that_a_float_does_not_notice(amount: object) -> None:
    assert attack(weak_targets.FloatLedger(CAP).pay, [], [amount]) == 5


def test_it_fails_against_discreet(tmp_path: Path) -> None:
    """Refused, and nothing changed; then exactly what is there can be spent, and nothing more."""
    rooms = count()
    with target_faces.ours(tmp_path, crowd(), budget=CAP) as curator:

        def pay(amount: object) -> bool:
            before = curator.spent()
            try:
                curator.ask(f"SELECT COUNT(*) AS n FROM t WHERE room = {next(rooms)}", amount)
            except Refused:
                assert curator.spent() == before
                return False
            return True

        assert attack(pay, [*HOSTILE, *TINY, math.inf, 1e308], [*TINY, *HOSTILE, 1e-9]) == 0
        assert curator.spent() == CAP
