"""Row 19: who knows everybody else in a room asks for the count, and subtracts."""

from __future__ import annotations

from pathlib import Path

import certified_success
import target_faces
import weak_targets
from target_faces import Counts

ROOMS, KNOWN, EPSILON = 500, 6, 1
"""In every room so many whom the attacker knows, and one more by the toss of a coin."""


def attack(curator: Counts, truth: list[bool]) -> int:
    """How many rooms are guessed right; one reply has a count for each, and nobody is in two."""
    reply = curator.ask("SELECT room, COUNT(*) AS n FROM t GROUP BY room", EPSILON)
    counts = {row["room"]: row["n"] for row in reply if row["room"] is not None}
    return sum((counts[room] > KNOWN) == inside for room, inside in enumerate(truth))


def people(truth: list[bool]) -> list[str]:
    return [f"n{room} {at},50,true,Oslo,{room}" for room, inside in enumerate(truth) for at in range(KNOWN + inside)]


def test_it_succeeds_against_the_weak_stand_in(tmp_path: Path) -> None:
    truth = certified_success.toss_coins(ROOMS)
    target_faces.write(tmp_path, people(truth))
    assert attack(weak_targets.SmallCountsSuppressed(tmp_path / "t.csv"), truth) == ROOMS


def test_it_fails_against_discreet(tmp_path: Path) -> None:
    """No more than epsilon allows, though more than chance: the attack is a good one."""
    truth = certified_success.toss_coins(ROOMS)
    with target_faces.ours(tmp_path, people(truth)) as curator:
        right = attack(curator, truth)
    assert right <= certified_success.most_right(ROOMS, certified_success.guessing(EPSILON)) < 0.85 * ROOMS
    assert certified_success.at_most(right, ROOMS) > certified_success.guessing(EPSILON)
