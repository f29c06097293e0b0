"""OpenDP as an oracle: its discrete Laplace, discrete Gaussian and permute-and-flip follow our laws, and ours do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import opendp.prelude as opendp
import pytest

from discreet import DiscreteGaussian, DiscreteLaplace, PermuteAndFlip
from discreet.kernel.entropy import SYSTEM
from discreet.kernel.scores import Selection
from discreet.testing import assert_fits, chi_square_excess

opendp.enable_features("contrib")
INTEGERS = opendp.vector_domain(opendp.atom_domain(T="i64"))
COUNTS = [40_000, pytest.param(100_000, marks=pytest.mark.soak)]


def laws(scaled: Callable[[Fraction], object]) -> list[Callable[[int], float]]:
    """The claimed law, and the same a tenth narrower and a tenth wider."""
    return [partial(_probability, scaled(Fraction(times, 10))) for times in (10, 9, 11)]


def _probability(law: object, units: int) -> float:
    return law.probability(int(units))


@pytest.mark.parametrize("scale", [1, 25])
@pytest.mark.parametrize("count", COUNTS)
def test_opendp_draws_our_discrete_laplace(scale: int, count: int) -> None:
    """The same law on both sides, two jaws each."""
    theirs = opendp.m.make_laplace(INTEGERS, opendp.l1_distance(T="i64"), scale=float(scale))([0] * count)
    ours = DiscreteLaplace(Fraction(1, scale), 1).draw_many(count)
    for draws in (theirs, ours):
        assert_fits(draws, *laws(lambda times: DiscreteLaplace(1 / (scale * times), 1)))


@pytest.mark.parametrize("sigma", [1, 12])
@pytest.mark.parametrize("count", COUNTS)
def test_opendp_draws_our_discrete_gaussian(sigma: int, count: int) -> None:
    theirs = opendp.m.make_gaussian(INTEGERS, opendp.l2_distance(T="f64"), scale=float(sigma))([0] * count)
    ours = DiscreteGaussian(Fraction(sigma**2), 1, Fraction(1)).draw_many(count)
    for draws in (theirs, ours):
        assert_fits(draws, *laws(lambda times: DiscreteGaussian((sigma * times) ** 2, 1, Fraction(1))))


def test_opendp_charges_what_we_charge() -> None:
    """epsilon = sensitivity / scale; rho = sensitivity^2 / (2 sigma^2)."""
    laplace = opendp.m.make_laplace(INTEGERS, opendp.l1_distance(T="i64"), scale=4.0)
    assert laplace.map(2) == pytest.approx(float(DiscreteLaplace(0.25, 1).guarantee(2, "add-remove").epsilon))
    gaussian = opendp.m.make_gaussian(INTEGERS, opendp.l2_distance(T="f64"), scale=4.0)
    assert gaussian.map(2.0) == pytest.approx(float(DiscreteGaussian(Fraction(16), 2, Fraction(1)).rho))


@pytest.mark.parametrize("count", [8_000, pytest.param(20_000, marks=pytest.mark.soak)])
def test_opendp_permutes_and_flips_as_we_do(count: int) -> None:
    """Its noisy max under pure DP is permute-and-flip: scale 2 is our epsilon 1 at sensitivity 1."""
    scores = [3, 1, 0, 3]
    ours = PermuteAndFlip(Selection.of(1, 1))
    exact = [float(p) for p in ours.probabilities(scores)]
    noisy_max = opendp.m.make_noisy_max(INTEGERS, opendp.linf_distance(T="i64"), opendp.max_divergence(), scale=2.0)
    theirs = Counter(noisy_max(scores) for _ in range(count))
    levels = ours.levels(scores)
    mine = Counter(ours.draw_position(levels, SYSTEM) for _ in range(count))
    for counts in (theirs, mine):
        assert chi_square_excess(counts, lambda place: exact[place] if 0 <= place < 4 else 0) <= 0
