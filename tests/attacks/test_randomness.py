"""Row 13: two workers that were forked draw the same noise, and their answers differ by what is exact."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FORK = """
import os, sys
sys.path.insert(0, sys.argv[1])
{draw}
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, str([draw() for _ in range(20)]).encode())
    os._exit(0)
os.wait()
print([draw() for _ in range(20)] == eval(os.read(read, 10_000).decode()))
"""
WEAK = "import numpy; chance = numpy.random.default_rng()\ndef draw(): return float(chance.laplace(scale=100))"
OURS = "from discreet import DiscreteLaplace; noise = DiscreteLaplace(0.01, 1)\ndef draw(): return int(noise.sample())"


def attack(draw: str) -> bool:
    """Whether a parent and its child draw the same."""
    command = [sys.executable, "-c", FORK.format(draw=draw), str(HERE)]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout == "True\n"


def test_it_succeeds_against_the_weak_stand_in() -> None:
    """A generator with a state: whoever has a copy of it draws the same."""
    assert attack(WEAK)


@pytest.mark.system_entropy(generator=True)
def test_it_fails_against_discreet() -> None:
    """Every bit comes from the operating system when it is needed; there is no state to copy, and no seed."""
    assert not attack(OURS)
