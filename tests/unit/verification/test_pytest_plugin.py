"""The pytest plugin: it is found where discreet is installed, its fixtures pass and fail tests, and it is light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from test_repo import HEAVY

TESTS = '''
from discreet.schema import schema_from_text
from pathlib import Path

from dataclasses import replace

import discreet.measurements.additive as totals

SCHEMA = """
name: school
source: school.csv
neighbours: replace-one
units: 12
columns:
  age: {kind: integer, lower: 5, upper: 18, missing: 5}
  sex: {kind: nominal, categories: [F, M]}
budget: {epsilon: 4}
"""


def schema():
    return schema_from_text(SCHEMA, Path())


def test_a_question(discreet_replay):
    found = discreet_replay(schema(), "SELECT AVG(age) FROM school WHERE sex = 'F'", epsilon=1, count=30)
    assert found.largest_share == 1


def test_a_schema_by_its_path(discreet_replay, tmp_path):
    path = tmp_path / "school.yaml"
    path.write_text(SCHEMA)
    assert discreet_replay(path, "SELECT COUNT(*) FROM school WHERE age > 9", epsilon=1, count=30).ok


def test_a_release(discreet_replay_release):
    assert discreet_replay_release(schema(), "private-columns", epsilon=1, count=20).ok


def test_neighbours(discreet_neighbors):
    assert len(discreet_neighbors(schema(), 7)) == 7


def test_half_the_noise(discreet_replay, monkeypatch):
    right = totals.build_laplace
    cheap = lambda form, epsilon: replace(right(form, 2 * epsilon), privacy_cost=right(form, epsilon).privacy_cost)
    monkeypatch.setattr(totals, "build_laplace", cheap)
    discreet_replay(schema(), "SELECT COUNT(*) FROM school WHERE sex = 'F'", epsilon=1)
'''


def test_users_take_it_as_it_is(tmp_path: Path) -> None:
    """Four tests pass, and the one with half the noise fails and says why."""
    (tmp_path / "test_school.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    assert "1 failed" in done.stdout
    assert "test_half_the_noise" in done.stdout
    assert "epsilon charged: 200 % (2) of what is promised" in done.stdout
    assert "SELECT COUNT(*) FROM school WHERE sex = 'F'" in done.stdout
    assert "warning" not in done.stdout.lower()


def test_loading_it_is_light() -> None:
    """It is loaded into every run of pytest."""
    plugin = "discreet.verification.pytest_plugin"
    code = f"import pytest, sys; old = set(sys.modules); import {plugin}; print(*set(sys.modules) - old)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "discreet.verification.pytest_plugin" in loaded
    assert {name.partition(".")[0] for name in loaded} & (HEAVY | {"numpy"}) == set()
    assert len(loaded) < 20
