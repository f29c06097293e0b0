"""Row 19: enough counts of random crowds, however noisy, and a linear fit has everybody (Dinur and Nissim 2003)."""

from __future__ import annotations

import secrets
from pathlib import Path

import numpy as np

import certified_success
import target_faces
import weak_targets
from target_faces import Curator, NothingLeft

PEOPLE, QUESTIONS = 200, 400
BUDGET = 0.5
Truth = list[bool]


def attack(curator: Curator, truth: Truth, epsilon: float) -> float:
    """The share of people of whom it is guessed right whether they are in the table: each has a room alone."""
    chance = np.random.default_rng(7)
    crowds, answers = [], []
    for number in range(QUESTIONS):
        crowd = chance.random(PEOPLE) < 0.5
        rooms = ", ".join(str(room) for room in np.flatnonzero(crowd))
        try:
            reply = curator.ask(f"SELECT COUNT(*) AS n FROM t WHERE room IN ({rooms})", epsilon, f"analyst {number}")
        except NothingLeft:
            break
        crowds.append(crowd)
        answers.append(float(reply[0]["n"]))
    centered = np.array(crowds) - 0.5
    total = 2 * np.mean(answers)
    fitted = np.linalg.lstsq(centered, np.array(answers) - total / 2, rcond=None)[0]
    return float(np.mean((fitted > 0.5) == truth))


def toss_coins() -> Truth:
    return [bool(secrets.randbelow(2)) for _ in range(PEOPLE)]


def people(truth: Truth) -> list[str]:
    return [f"p{room},50,true,Oslo,{room}" for room, inside in enumerate(truth) if inside]


def test_it_succeeds_against_the_weak_stand_in(tmp_path: Path) -> None:
    """Every analyst keeps to a budget of her own, and every answer has its noise."""
    truth = toss_coins()
    target_faces.write(tmp_path, people(truth))
    assert attack(weak_targets.Naive(tmp_path / "t.csv", budget=1), truth, 1) >= 0.95


def test_it_fails_against_discreet(tmp_path: Path) -> None:
    """The budget of the data set ends it; what was learned is within what it allows, in many answers or in few."""
    truth = toss_coins()
    most = certified_success.most_right(PEOPLE, certified_success.guessing(BUDGET)) / PEOPLE
    assert most < 0.85
    for answers in (5, 50):
        with target_faces.ours(tmp_path / str(answers), people(truth), budget=BUDGET) as curator:
            assert attack(curator, truth, BUDGET / answers) <= most
            assert curator.spent() == BUDGET
