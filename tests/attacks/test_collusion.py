"""Row 11: many analysts, each within the budget, put together what they learn."""

from __future__ import annotations

from pathlib import Path

import target_faces
import weak_targets
from target_faces import Curator, NothingLeft, crowd

EACH, ALL, ANALYSTS = 1, 3, 10


def attack(curator: Curator) -> float:
    """The epsilon of all that the analysts have learned together."""
    learned = 0.0
    for number in range(ANALYSTS):
        try:
            curator.ask(f"SELECT COUNT(*) AS n FROM t WHERE age > {number}", EACH, f"analyst {number}")
        except NothingLeft:
            continue
        learned += EACH
    return learned


def test_it_succeeds_against_the_weak_stand_in(tmp_path: Path) -> None:
    target_faces.write(tmp_path, crowd())
    assert attack(weak_targets.Naive(tmp_path / "t.csv", budget=EACH)) == ANALYSTS * EACH


def test_it_fails_against_discreet(tmp_path: Path) -> None:
    """The data set has a cap of its own, over all analysts."""
    with target_faces.ours(tmp_path, crowd(), budget=ALL, each=EACH) as curator:
        assert attack(curator) == ALL
        assert curator.spent() == ALL
