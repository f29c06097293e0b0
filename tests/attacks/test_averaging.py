"""Row 10: ask again and again, and average the noise away."""

from __future__ import annotations

from pathlib import Path

import target_faces
import weak_targets
from target_faces import Curator, crowd

FORMS = ("ill", "NOT NOT ill", "ill = TRUE", "NOT (ill = FALSE)", "ill AND (age >= 0 OR age < 0)")
EPSILON, TIMES = 0.1, 10


def attack(curator: Curator) -> float:
    """How many draws are had for the price of one."""
    asked = [f"SELECT COUNT(*) AS n FROM t WHERE {form}" for form in FORMS] * TIMES
    draws = {curator.ask(question, EPSILON)[0]["n"] for question in asked}
    return len(draws) * EPSILON / float(curator.spent())


def test_it_succeeds_against_the_weak_stand_in(tmp_path: Path) -> None:
    """A question is paid for once, and drawn every time."""
    target_faces.write(tmp_path, crowd())
    assert attack(weak_targets.Naive(tmp_path / "t.csv")) > TIMES - 1


def test_it_fails_against_discreet(tmp_path: Path) -> None:
    """The same question, however it is put, has the same answer; where it is drawn again it is paid again."""
    with target_faces.ours(tmp_path, crowd()) as curator:
        assert attack(curator) <= 1
