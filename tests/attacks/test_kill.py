"""Row 7: kill the process the moment that rows were read, or an answer drawn, and start it again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import target_faces
from discreet import Custodian
from target_faces import crowd

KILLED = """
import os, signal, sys
from pathlib import Path
import {module} as there

right = there.{function}

def done_and_dead(*given):
    right(*given)
    os.write(1, b"done")
    os.kill(os.getpid(), signal.SIGKILL)

there.{function} = done_and_dead
"""
WEAK = "there.draws_then_pays(*map(Path, sys.argv[1:]))"
OURS = """
from discreet import Custodian
Custodian.open(sys.argv[1]).answer("SELECT COUNT(*) FROM t", 1)
"""


def attack(module: str, function: str, asking: str, places: list[Path], is_charged: Callable[[], bool]) -> bool:
    """Whether the work of a function was done that nobody has paid for when the process starts again."""
    program = KILLED.format(module=module, function=function) + asking
    known = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, *map(str, places)]
    ended = subprocess.run(command, env=known, capture_output=True, check=False)
    assert (ended.returncode, ended.stdout) == (-9, b"done"), ended.stderr
    return not is_charged()


def test_it_succeeds_against_the_weak_stand_in(tmp_path: Path) -> None:
    """An answer, and no charge."""
    target_faces.write(tmp_path, crowd())
    account = tmp_path / "account"
    assert attack("weak_targets", "noisy_count", WEAK, [tmp_path / "t.csv", account], account.exists)


@pytest.mark.parametrize("function", ["scan_rows", "sample_noisy_outputs"])
def test_it_fails_against_discreet(tmp_path: Path, function: str) -> None:
    """First the charge: it is there when the first row was read, and when the answer was drawn."""
    schema = target_faces.write(tmp_path, crowd())

    def is_charged() -> bool:
        with Custodian.open(schema) as custodian:
            return custodian.budget()[0].epsilon == 1

    assert not is_charged()
    assert not attack("discreet.custodian.custodian", function, OURS, [schema], is_charged)
