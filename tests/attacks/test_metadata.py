"""Row 15: bounds, sizes and categories that were taken from the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import target_faces
import weak_targets
from target_faces import crowd

OUTLIER = "p37,99,true,Hammerfest,1999"
TABLES = ([*crowd(), OUTLIER], crowd())


class Described(Protocol):
    """Who tells what the table is like."""

    def describe(self) -> str: ...


def attack(inside: Described, outside: Described) -> bool:
    """Whether any byte of what is told of the table follows from one record."""
    return inside.describe() != outside.describe()


def test_it_succeeds_against_the_weak_stand_in(tmp_path: Path) -> None:
    """The least, the largest and the number of values of every column."""
    assert attack(*weak_targets.both(tmp_path, TABLES))


def test_it_fails_against_discreet(tmp_path: Path) -> None:
    """All of it is from the schema, also what an answer would cost and how far off it would be."""
    with target_faces.both(target_faces.over_http, tmp_path, TABLES) as services:
        assert not attack(*services)
        assert "accuracy" in services[0].replies[-1]
