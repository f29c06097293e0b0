"""Refinement is for where one unit moves a total by about as much as is unknown of it; beyond, noise is better."""

from __future__ import annotations

from fractions import Fraction

import pytest
from papers.crossover import (
    FINE,
    ONE,
    TENTH,
    compute_noise_error,
    compute_prior_error,
    compute_refinement_error,
    find_crossing,
)

from discreet import Staircase


@pytest.mark.parametrize("epsilon", [ONE, TENTH])
@pytest.mark.parametrize("width", ["0.25", "0.5", "1", "1.25"])
def test_refinement_wins_where_sensitivity_is_of_the_order_of_the_range(width: str, epsilon: Fraction) -> None:
    errors = [how(Fraction(width), epsilon) for how in (compute_refinement_error, compute_noise_error)]
    assert errors[0] < errors[1] <= compute_prior_error(Fraction(width))


@pytest.mark.parametrize("epsilon", [ONE, TENTH])
@pytest.mark.parametrize("width", ["1.75", "4", "16", "64"])
def test_noise_wins_on_wider_ranges(width: str, epsilon: Fraction) -> None:
    errors = [how(Fraction(width), epsilon) for how in (compute_noise_error, compute_refinement_error)]
    assert errors[0] < errors[1] < compute_prior_error(Fraction(width))


def test_the_lines_cross_between_one_and_a_quarter_and_one_and_a_half() -> None:
    """Nearly wherever epsilon is: both gain by its square."""
    crossings = find_crossing(ONE), find_crossing(TENTH)
    assert crossings[0] == pytest.approx(1.43, abs=0.03)
    assert crossings[1] == pytest.approx(1.38, abs=0.03)


@pytest.mark.parametrize("width", ["0.25", "4", "64"])
def test_what_refinement_gains_depends_on_epsilon_alone(width: str) -> None:
    """A fourteenth of the prior's own error at epsilon 1, a thousandth at 0.1, however wide the range."""
    shares = [
        compute_refinement_error(Fraction(width), epsilon) / compute_prior_error(Fraction(width))
        for epsilon in (ONE, TENTH)
    ]
    assert shares == pytest.approx([0.9286, 0.9992], abs=2e-4)


def test_noise_on_a_wide_range_is_as_good_as_its_own_error() -> None:
    """The range says nothing more: the staircase's standard deviation is left."""
    noise_error = Staircase.least_variance(1, 1, FINE).variance() ** 0.5
    assert compute_noise_error(Fraction(64), ONE) == pytest.approx(noise_error, rel=0.03)
