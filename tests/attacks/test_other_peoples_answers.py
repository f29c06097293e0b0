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

    def fetch_answer(number: str) -> str:
        try:
            return read(number)
        except Refused as refusal:
            return str(refusal)

    nothing = fetch_answer(NOWHERE)
    return [number for number in numbers if fetch_answer(number) != nothing]


def test_it_succeeds_against_the_weak_stand_in() -> None:
    book = weak_targets.NoteBook()
    number = book.keep("ann's answer")
    assert attack(book.read, map(str, range(10))) == [number]


def test_it_fails_against_discreet(tmp_path: Path) -> None:
    """Eve may ask about the same data set, and knows the very number."""
    with target_faces.over_http(tmp_path, crowd()) as service:
        asked = {"question": "SELECT COUNT(*) FROM t", "epsilon": "1"}
        answer_id = service.call("ada", "POST", "/answers", asked).json()["id"]
        assert service.call("ada", "GET", f"/answers/{answer_id}").status_code == 200
        assert (
            attack(lambda number: str(service.call("eve", "GET", f"/answers/{number}").text), [answer_id, "f" * 32])
            == []
        )
