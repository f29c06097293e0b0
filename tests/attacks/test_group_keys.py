"""Row 14: a key that is in the reply, or a person who is not, tells who is in the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import target_faces
import weak_targets
from target_faces import Curator, Refused


def by_keys(curator: Curator) -> list[str]:
    """The towns that a reply names."""
    return sorted(str(row["town"]) for row in curator.ask("SELECT town, COUNT(*) AS n FROM t GROUP BY town", 0.5))


def by_existence(curator: Curator) -> str:
    """Whether one who is asked about is told of at all."""
    try:
        return f"{len(curator.about('p37'))} rows"
    except Refused as refusal:
        return str(refusal)


Signal = Callable[[Curator], object]
SIGNALS: list[Signal] = [by_keys, by_existence]


def attack(signal: Signal, inside: Curator, outside: Curator) -> bool:
    """Whether the two tables are told apart."""
    return signal(inside) != signal(outside)


@pytest.mark.parametrize("signal", SIGNALS)
def test_it_succeeds_against_the_weak_stand_in(tmp_path: Path, signal: Signal) -> None:
    assert attack(signal, *weak_targets.both(tmp_path))


@pytest.mark.parametrize("signal", SIGNALS)
def test_it_fails_against_discreet(tmp_path: Path, signal: Signal) -> None:
    """Keys are those of the schema; who is absent is answered for too."""
    with target_faces.both(target_faces.ours, tmp_path) as curators:
        assert not attack(signal, *curators)
        assert "Hammerfest" in by_keys(curators[1])
