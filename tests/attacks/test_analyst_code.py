"""Row 12: an analyst's own code fails on one row, and that it fails is the answer."""

from __future__ import annotations

from pathlib import Path

import target_faces
import weak_targets
from attack_questions import HARMLESS, HOSTILE
from target_faces import Curator, Refused


def attack(inside: Curator, outside: Curator) -> list[str]:
    """The questions that are answered on one table and not on its neighbour."""
    return [question for question in [*HARMLESS, *HOSTILE] if answers(inside, question) != answers(outside, question)]


def answers(curator: Curator, question: str) -> bool:
    try:
        return bool(curator.ask(question, 0.5))
    except Refused:
        return False


def test_it_succeeds_against_the_weak_stand_in(tmp_path: Path) -> None:
    assert set(attack(*weak_targets.both(tmp_path))) == set(HOSTILE)


def test_it_fails_against_discreet(tmp_path: Path) -> None:
    """Predicates compare a column with constants, which no row can make fail; all else is refused unread."""
    with target_faces.both(target_faces.ours, tmp_path) as curators:
        assert attack(*curators) == []
        assert all(answers(curators[0], question) for question in HARMLESS)
        assert not any(answers(curators[0], question) for question in HOSTILE)
