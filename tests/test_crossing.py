"""Refinement is for where one unit moves a total by about as much as is unknown of it; beyond, noise is better."""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module
from typing import Any

import pytest

from commands import ROOT

ONE, TENTH = Fraction(1), Fraction(1, 10)


@pytest.fixture(scope="module")
def crossing() -> Any:
    """What the demo draws; it lies beside the tests, not in the package."""
    with pytest.MonkeyPatch.context() as changed:
        changed.syspath_prepend(ROOT)
        return import_module("demo.crossing")


@pytest.mark.parametrize("epsilon", [ONE, TENTH])
@pytest.mark.parametrize("width", ["0.25", "0.5", "1", "1.25"])
def test_refinement_wins_where_sensitivity_is_of_the_order_of_the_range(
    crossing: Any, width: str, epsilon: Fraction
) -> None:
    errors = [how(Fraction(width), epsilon) for how in (crossing.by_refinement, crossing.by_noise)]
    assert errors[0] < errors[1] <= crossing.alone(Fraction(width))


@pytest.mark.parametrize("epsilon", [ONE, TENTH])
@pytest.mark.parametrize("width", ["1.75", "4", "16", "64"])
def test_noise_wins_on_wider_ranges(crossing: Any, width: str, epsilon: Fraction) -> None:
    errors = [how(Fraction(width), epsilon) for how in (crossing.by_noise, crossing.by_refinement)]
    assert errors[0] < errors[1] < crossing.alone(Fraction(width))


def test_the_lines_cross_between_one_and_a_quarter_and_one_and_a_half(crossing: Any) -> None:
    """Nearly wherever epsilon is: both gain by its square."""
    found = crossing.crossing(ONE), crossing.crossing(TENTH)
    assert found[0] == pytest.approx(1.43, abs=0.03)
    assert found[1] == pytest.approx(1.38, abs=0.03)


@pytest.mark.parametrize("width", ["0.25", "4", "64"])
def test_what_refinement_gains_depends_on_epsilon_alone(crossing: Any, width: str) -> None:
    """A fourteenth of the prior's own error at epsilon 1, a thousandth at 0.1, however wide the range."""
    shares = [
        crossing.by_refinement(Fraction(width), epsilon) / crossing.alone(Fraction(width)) for epsilon in (ONE, TENTH)
    ]
    assert shares == pytest.approx([0.9286, 0.9992], abs=2e-4)


def test_noise_on_a_wide_range_is_as_good_as_its_own_error(crossing: Any) -> None:
    """The range says nothing more: the staircase's standard deviation is left."""
    from discreet import Staircase

    own = Staircase.least_variance(1, 1, crossing.FINE).variance() ** 0.5
    assert crossing.by_noise(Fraction(64), ONE) == pytest.approx(own, rel=0.03)
