"""Row 12: an analyst's own code fails on one row, and that it fails is the answer."""

from __future__ import annotations

from pathlib import Path

import facing
import weak
from facing import Curator, Refused
from questions import HARMLESS, HOSTILE


def attack(inside: Curator, outside: Curator) -> list[str]:
    """The questions that are answered on one table and not on its neighbour."""
    return [question for question in [*HARMLESS, *HOSTILE] if answers(inside, question) != answers(outside, question)]


def answers(curator: Curator, question: str) -> bool:
    try:
        return bool(curator.ask(question, 0.5))
    except Refused:
        return False


def test_it_succeeds_against_the_weak_stand_in(tmp_path: Path) -> None:
    assert set(attack(*weak.both(tmp_path))) == set(HOSTILE)


def test_it_fails_against_discreet(tmp_path: Path) -> None:
    """Predicates compare a column with constants, which no row can make fail; all else is refused unread."""
    with facing.both(facing.ours, tmp_path) as curators:
        assert attack(*curators) == []
        assert all(answers(curators[0], question) for question in HARMLESS)
        assert not any(answers(curators[0], question) for question in HOSTILE)
