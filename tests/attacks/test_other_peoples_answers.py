"""Row 21: read what is another's by its number, or learn that it is there (OWASP API 1: broken object-level access)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import target_faces
import weak_targets
from target_faces import Refused, crowd

NOWHERE = "0" * 32


def attack(read: Callable[[str], str], numbers: Iterable[str]) -> list[str]:
    """The numbers under which something else is said than under one that nothing is kept under."""

    def told(number: str) -> str:
        try:
            return read(number)
        except Refused as refusal:
            return str(refusal)

    nothing = told(NOWHERE)
    return [number for number in numbers if told(number) != nothing]


def test_it_succeeds_against_the_weak_stand_in() -> None:
    book = weak_targets.NoteBook()
    kept = book.keep("ann's answer")
    assert attack(book.read, map(str, range(10))) == [kept]


def test_it_fails_against_discreet(tmp_path: Path) -> None:
    """Eve may ask about the same data set, and knows the very number."""
    with target_faces.over_http(tmp_path, crowd()) as service:
        asked = {"question": "SELECT COUNT(*) FROM t", "epsilon": "1"}
        made = service.call("ada", "POST", "/answers", asked).json()["id"]
        assert service.call("ada", "GET", f"/answers/{made}").status_code == 200
        assert attack(lambda number: str(service.call("eve", "GET", f"/answers/{number}").text), [made, "f" * 32]) == []
