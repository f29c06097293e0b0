"""Caps that are raised depending on what was answered: the delta that holds for the cap reached is not passed.

The adversary raises the cap step by step, each time asks for as much Gaussian noise as the ledger admits, and stops
when that pays. The law of the loss and the best rule for stopping are computed here; of the package only the ledger's
decisions are used: which charge it admits under which cap.
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

from discreet import Ledger
from discreet.ledger import Caps
from discreet.schema import Budget
from discreet.spend import Spend
from ledgers import DATASET, ask

Stage = tuple[float, float]
"""The cap in force, and all the rho that was admitted until then."""
NODES, WEIGHTS = hermegauss(81)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def admitted(where: Path, caps: list[Budget]) -> list[Stage]:
    """Raise the cap of a new ledger step by step, and spend what it admits, to a hundredth of what the cap is worth."""
    stages: list[Stage] = []
    spent = Fraction(0)
    with Ledger.open(where) as ledger:
        ledger.register(DATASET, "0f", "s1", disjoint=False)
        for number, cap in enumerate(caps):
            limits = Caps(cap, cap, ("approx-dp",))
            worth = float(cap.epsilon) ** 2 / (4 * (float(cap.epsilon) - math.log(cap.delta)))
            step = Fraction(worth / 100)
            count = ledger.times(ask(number, "0.1", model="approx-dp", spend=Spend(other=step)), limits)
            if count:
                more = Spend(other=step * count)
                ledger.charge(ask(number, "0.1", model="approx-dp", spend=more), limits)
                spent += more.other
                stages.append((float(cap.epsilon), float(spent)))
        ledger.verify()
    return stages


def best_stopping(stages: list[Stage], points: int = 4001) -> float:
    """The largest E[(1 - e^(cap - loss))+] over all rules for stopping, by dynamic programming from the last stage.

    Gaussian noise of rho in all has the loss rho + sqrt(2 rho) Z, and its increments are independent. Integrals are by
    Gauss and Hermite with 81 nodes, on a grid of losses.
    """

    def ahead(losses: np.ndarray, rho: float) -> np.ndarray:
        reached = losses[:, None] + rho + math.sqrt(2 * rho) * NODES[None, :]
        return np.asarray(np.interp(reached, grid, values) @ WEIGHTS)

    grid, values, later = np.array([0.0, 1.0]), np.zeros(2), stages[-1][1]
    for cap, rho in reversed(stages):
        losses = rho + math.sqrt(2 * rho) * np.linspace(-9, 12, points)
        here = np.maximum(0, -np.expm1(np.minimum(cap - losses, 0)))
        values = np.maximum(here, ahead(losses, later - rho)) if later > rho else here
        grid, later = losses, rho
    return float(ahead(np.zeros(1), later)[0])


def raised(first: float, last: float, raises: int, delta: Fraction) -> list[Budget]:
    """Caps from the first to the last, each by the same factor above the one before."""
    return [Budget(Fraction(epsilon), delta) for epsilon in np.geomspace(first, last, raises + 1)]


def test_the_best_stopping_after_one_stage_is_the_known_delta_of_gaussian_noise() -> None:
    """Balle and Wang 2018, Theorem 8, with sensitivity over sigma sqrt(2 rho)."""
    for cap, rho in ((1.0, 0.1), (0.5, 0.1)):
        size = math.sqrt(2 * rho)

        def below(at: float) -> float:
            return math.erfc(-at / math.sqrt(2)) / 2

        known = below(size / 2 - cap / size) - math.exp(cap) * below(-size / 2 - cap / size)
        assert best_stopping([(cap, rho)]) == pytest.approx(known, rel=2e-2)


def test_raising_the_cap_85_times_and_stopping_when_it_pays_stays_within_delta(tmp_path: Path) -> None:
    """With orders that follow the cap it is 1.4 times delta."""
    delta = Fraction(1, 1000)
    stages = admitted(tmp_path / "ledger.db", raised(0.1, 100, 85, delta))
    assert best_stopping(stages) <= delta / 2
