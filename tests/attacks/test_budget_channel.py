"""Row 5: what a question costs, or whether it costs anything, tells whether somebody is in the table."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

import target_faces
import weak_targets
from attack_questions import HARMLESS, HOSTILE
from target_faces import Curator, Refused


def attack(inside: Curator, outside: Curator) -> list[str]:
    """The questions after which two tables that differ in one person have spent another amount."""
    return [
        question
        for question in [*HARMLESS, *HOSTILE]
        if measure_paid(inside, question) != measure_paid(outside, question)
    ]


def measure_paid(curator: Curator, question: str) -> float:
    before = curator.spent()
    with suppress(Refused):
        curator.ask(question, 0.5)
    return float(curator.spent() - before)


def test_it_succeeds_against_the_weak_stand_in(tmp_path: Path) -> None:
    """What fails on the target's row costs nothing."""
    assert set(attack(*weak_targets.both(tmp_path))) == set(HOSTILE)


@pytest.mark.parametrize("opened", [target_faces.ours, target_faces.over_http])
def test_it_fails_against_discreet(tmp_path: Path, opened: target_faces.Opened) -> None:
    """The cost follows from question and schema, and no row can make a question fail."""
    with target_faces.both(opened, tmp_path) as curators:
        assert attack(*curators) == []
        assert curators[0].spent() == 0.5 * len(HARMLESS)
