"""Row 6: an error that quotes a row, or the words of the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

import target_faces
import weak_targets
from attack_questions import HARMLESS, HOSTILE
from target_faces import Curator, Refused, crowd

SECRETS = ("k4w9z2mm1c", "zq81xkd0v7")
"""The target's name and town, which nobody could guess."""
PEOPLE = [*crowd(), f"{SECRETS[0]},37,true,{SECRETS[1]},7"]
ENGINE = (
    "Conversion Error",
    "Invalid Input Error",
    "Out of Range Error",
    "Binder Error",
    "LINE 1",
    "Traceback",
    "duckdb",
)


def attack(curator: Curator) -> list[str]:
    """The secrets, and the engine's own words, that any reply shows."""
    replies = [read_error(curator, question) for question in [*HARMLESS, *HOSTILE, "SELECT", "SELECT nonsense FROM t"]]
    replies += getattr(curator, "replies", [])
    return [word for word in SECRETS + ENGINE if any(word in text for text in replies)]


def read_error(curator: Curator, question: str) -> str:
    try:
        return str(curator.ask(question, 0.5))
    except Refused as refusal:
        return str(refusal)


def test_it_succeeds_against_the_weak_stand_in(tmp_path: Path) -> None:
    target_faces.write(tmp_path, PEOPLE)
    assert set(SECRETS) < set(attack(weak_targets.Naive(tmp_path / "t.csv")))


@pytest.mark.parametrize("opened", [target_faces.ours, target_faces.over_http])
def test_it_fails_against_discreet(tmp_path: Path, opened: target_faces.Opened) -> None:
    """Refusals come from question and schema alone, in words of our own; every byte of every reply is looked at."""
    with opened(tmp_path, PEOPLE) as curator:
        assert attack(curator) == []
