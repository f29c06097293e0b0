"""Row 7: read the answer, then break the connection, and have the charge taken back."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Protocol

import target_faces
import weak_targets
from target_faces import Refused, crowd

EACH, CAP = 0.5, 1


class Sender(Protocol):
    """Who sends an answer over a connection, and keeps an account."""

    def deliver(self, question: str, epsilon: float, send: target_faces.Send) -> None: ...

    def spent(self) -> Fraction | float: ...


def attack(sender: Sender) -> float:
    """The epsilon of all that was read, beyond what the account says."""
    read: list[str] = []

    def read_and_hang_up(text: str) -> None:
        read.append(text)
        raise BrokenPipeError

    for room in range(8):
        try:
            sender.deliver(f"SELECT COUNT(*) AS n FROM t WHERE room = {room}", EACH, read_and_hang_up)
        except Refused:
            break
    assert read, "no answer was made"
    return EACH * len(read) - float(sender.spent())


def test_it_succeeds_against_the_weak_stand_in(tmp_path: Path) -> None:
    """Who did not get the answer gets the money back: as many as are asked for."""
    target_faces.write(tmp_path, crowd())
    assert attack(weak_targets.Naive(tmp_path / "t.csv", budget=CAP)) == 8 * EACH


def test_it_fails_against_discreet(tmp_path: Path) -> None:
    """A charge is durable before a row is read, and is never taken back."""
    with target_faces.over_http(tmp_path, crowd(), budget=CAP) as service:
        assert attack(service) == 0
        assert service.spent() == CAP
