"""Row 18: priors that are made to be refused, or to buy a smaller noise."""

from __future__ import annotations

from pathlib import Path

import target_faces
import weak_targets
from target_faces import Curator, Refused

QUESTION = "SELECT COUNT(*) AS n FROM t WHERE age = 37"
POINTS = tuple(f"point({count})" for count in (0, 1, 2, 60))
HOSTILE: tuple[str, ...] = ("point(inf)", "point(nan)", "point(1e308)", "point(-1)", "uniform(9, 1)", "normal(1, -1)")
HOSTILE += ("normal(nan, 1)", "", "no such law(3)", "uniform(0, 1e18)", "point(" * 50)


def attack(inside: Curator, outside: Curator) -> list[str]:
    """The priors after which refusal, words or price differ between two tables that differ in one person."""
    return [prior for prior in POINTS + HOSTILE if observe(inside, prior) != observe(outside, prior)]


def observe(curator: Curator, prior: str) -> tuple[str, object]:
    try:
        curator.ask(QUESTION, 0.5, prior=prior)
    except Refused as refusal:
        return str(refusal), curator.spent()
    return "answered", curator.spent()


def test_it_succeeds_against_the_weak_stand_in(tmp_path: Path) -> None:
    """The one prior that is not refused is the exact answer."""
    assert {"point(0)", "point(1)"} <= set(attack(*weak_targets.both(tmp_path)))


def test_it_fails_against_discreet(tmp_path: Path) -> None:
    """A prior is read without the rows, and makes nothing cheaper."""
    with target_faces.both(target_faces.ours, tmp_path) as curators:
        assert attack(*curators) == []
        for prior in HOSTILE:
            assert observe(curators[0], prior)[0] != "answered", prior
        before = curators[0].spent()
        curators[0].ask("SELECT SUM(age) AS n FROM t", 0.5, prior="point(37)")
        assert curators[0].spent() == before + 1 / 2
