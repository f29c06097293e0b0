"""Row 19: two counts that differ by one person, each of them large enough to be told."""

from __future__ import annotations

import secrets
from pathlib import Path

import certified_success
import target_faces
import weak_targets
from target_faces import Counts

ROOMS, EPSILON = 500, 0.5
"""In every room some who are ill, nobody knows how many, and one target of 37 years."""
ALL = "SELECT room, COUNT(*) AS n FROM t WHERE ill GROUP BY room"
BUT_ONE = "SELECT room, COUNT(*) AS n FROM t WHERE ill AND age <> 37 GROUP BY room"


def attack(curator: Counts, truth: list[bool]) -> int:
    """Of how many targets it is guessed right whether they are ill."""
    counts = [{row["room"]: row["n"] for row in curator.ask(question, EPSILON)} for question in (ALL, BUT_ONE)]
    return sum((counts[0][room] - counts[1][room] > 0.5) == ill for room, ill in enumerate(truth))


def people(truth: list[bool]) -> list[str]:
    others = [f"n{room} {at},50,true,Oslo,{room}" for room in range(ROOMS) for at in range(5 + secrets.randbelow(4))]
    return others + [f"p{room},37,{'true' if ill else 'false'},Oslo,{room}" for room, ill in enumerate(truth)]


def test_it_succeeds_against_the_weak_stand_in(tmp_path: Path) -> None:
    truth = certified_success.toss_coins(ROOMS)
    target_faces.write(tmp_path, people(truth))
    assert attack(weak_targets.SmallCountsSuppressed(tmp_path / "t.csv"), truth) == ROOMS


def test_it_fails_against_discreet(tmp_path: Path) -> None:
    """Both questions are about the ill alone, and a target is one of them or not: both epsilons together bound it."""
    truth = certified_success.toss_coins(ROOMS)
    with target_faces.ours(tmp_path, people(truth)) as curator:
        right = attack(curator, truth)
    assert right <= certified_success.most_right(ROOMS, certified_success.guessing(2 * EPSILON)) < 0.85 * ROOMS
