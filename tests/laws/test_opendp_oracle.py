"""OpenDP as an oracle: its discrete Laplace, discrete Gaussian and permute-and-flip follow our laws, and ours do.

OpenDP takes no seed. What is asserted of its draws is bounded, draw by draw, without an approximation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial

import opendp.prelude as opendp
import pytest

from discreet import DiscreteGaussian, DiscreteLaplace
from discreet.mechanisms import PermuteAndFlip
from discreet.mechanisms.entropy import SYSTEM
from discreet.mechanisms.exponential_mechanism import Selection
from discreet.verification import assert_fits, chi_square_excess

opendp.enable_features("contrib")
INTEGERS = opendp.vector_domain(opendp.atom_domain(T="i64"))
FAILURE = 1e-11
COUNTS = [40_000, pytest.param(100_000, marks=pytest.mark.soak)]


def laws(scaled: Callable[[Fraction], object]) -> list[Callable[[int], float]]:
    """The claimed law, and the same a tenth narrower and a tenth wider."""
    return [partial(_probability, scaled(Fraction(times, 10))) for times in (10, 9, 11)]


def _probability(law: object, units: int) -> float:
    return law.probability(int(units))


def assert_surely_fits(draws: Iterable[int], points: Sequence[int], law: Callable[[int], float]) -> None:
    """The share of every point, and of all up to it, is what the law says: correct draws fail with at most FAILURE.

    For each share, by Chernoff's inequality, P(n KL(share, p) > x) <= 2 e^-x; x is such that all of them together fail
    with FAILURE at most. Points are all where the law is not negligible; that no draw lies beyond is one share more.
    """
    counts = Counter(int(draw) for draw in draws)
    total, up_to, cumulative = counts.total(), 0.0, 0
    shares = [(total - sum(counts[point] for point in points), 1 - math.fsum(law(point) for point in points))]
    for point in points:
        up_to, cumulative = up_to + law(point), cumulative + counts[point]
        shares += [(counts[point], law(point)), (cumulative, up_to)]
    limit = math.log(2 * len(shares) / FAILURE)
    off = {
        (cumulative, p): far for cumulative, p in shares if (far := total * divergence(cumulative / total, p)) > limit
    }
    assert not off, off


def divergence(share: float, p: float) -> float:
    """That of Kullback and Leibler, of two shares; p is off by what a sum of floats is."""
    p = min(max(p, 1e-12), 1 - 1e-12)
    return sum(x * math.log(x / y) for x, y in ((share, p), (1 - share, 1 - p)) if x > 0)


def affinity(law: Callable[[int], float], other: Callable[[int], float], points: Iterable[int]) -> float:
    """The sum of sqrt(p q): n draws from p are likelier under q with probability at most its n-th power."""
    return math.fsum(math.sqrt(law(point) * other(point)) for point in points)


def assert_both_fit(
    theirs: Sequence[int], ours: Iterable[int], points: Sequence[int], laws: Sequence[Callable[[int], float]]
) -> None:
    """Theirs surely, ours from a seed; no jaw fits theirs as well, but for a chance that is less than FAILURE / 1e6."""
    assert_fits(ours, *laws)
    assert_surely_fits(theirs, points, laws[0])
    for jaw in laws[1:]:
        assert affinity(laws[0], jaw, points) ** len(theirs) < FAILURE / 1e6
        assert sum(math.log(laws[0](one)) - math.log(jaw(one)) for one in theirs) > 0


@pytest.mark.system_entropy(failure=2e-11)
@pytest.mark.parametrize("scale", [1, 25])
@pytest.mark.parametrize("count", COUNTS)
def test_opendp_draws_our_discrete_laplace(scale: int, count: int) -> None:
    """The same law on both sides, two jaws each. By chance it fails with at most 2e-11: FAILURE, and the jaws."""
    theirs = opendp.m.make_laplace(INTEGERS, opendp.l1_distance(T="i64"), scale=float(scale))([0] * count)
    ours = DiscreteLaplace(Fraction(1, scale), 1).sample_many(count)
    our_distributions = laws(lambda times: DiscreteLaplace(1 / (scale * times), 1))
    assert_both_fit(theirs, ours, range(-40 * scale, 40 * scale + 1), our_distributions)


@pytest.mark.system_entropy(failure=2e-11)
@pytest.mark.parametrize("sigma", [1, 12])
@pytest.mark.parametrize("count", COUNTS)
def test_opendp_draws_our_discrete_gaussian(sigma: int, count: int) -> None:
    """As for Laplace noise: by chance it fails with at most 2e-11."""
    theirs = opendp.m.make_gaussian(INTEGERS, opendp.l2_distance(T="f64"), scale=float(sigma))([0] * count)
    ours = DiscreteGaussian(Fraction(sigma**2), 1, Fraction(1)).sample_many(count)
    our_distributions = laws(lambda times: DiscreteGaussian((sigma * times) ** 2, 1, Fraction(1)))
    assert_both_fit(theirs, ours, range(-12 * sigma, 12 * sigma + 1), our_distributions)


@pytest.mark.parametrize("scale", [Fraction(9, 10), Fraction(11, 10)])
def test_a_law_that_is_off_by_a_tenth_surely_does_not_fit(scale: Fraction) -> None:
    """The check of OpenDP's draws, on draws that are wrong."""
    claimed = partial(_probability, DiscreteLaplace(1, 1))
    assert_surely_fits(DiscreteLaplace(1, 1).sample_many(40_000), range(-40, 41), claimed)
    with pytest.raises(AssertionError):
        assert_surely_fits(DiscreteLaplace(1 / scale, 1).sample_many(40_000), range(-40, 41), claimed)


def test_opendp_charges_what_we_charge() -> None:
    """epsilon = sensitivity / scale; rho = sensitivity^2 / (2 sigma^2)."""
    laplace = opendp.m.make_laplace(INTEGERS, opendp.l1_distance(T="i64"), scale=4.0)
    assert laplace.map(2) == pytest.approx(float(DiscreteLaplace(0.25, 1).guarantee(2, "add-remove").epsilon))
    gaussian = opendp.m.make_gaussian(INTEGERS, opendp.l2_distance(T="f64"), scale=4.0)
    assert gaussian.map(2.0) == pytest.approx(float(DiscreteGaussian(Fraction(16), 2, Fraction(1)).rho))


@pytest.mark.system_entropy(failure=1e-11)
@pytest.mark.parametrize("count", [8_000, pytest.param(20_000, marks=pytest.mark.soak)])
def test_opendp_permutes_and_flips_as_we_do(count: int) -> None:
    """Its noisy max under pure DP is permute-and-flip: scale 2 is our epsilon 1 at sensitivity 1.

    By chance it fails with at most 1e-11, which is FAILURE.
    """
    scores = [3, 1, 0, 3]
    ours = PermuteAndFlip(Selection.of(1, 1))
    exact = [float(p) for p in ours.probabilities(scores)]
    noisy_max = opendp.m.make_noisy_max(INTEGERS, opendp.linf_distance(T="i64"), opendp.max_divergence(), scale=2.0)
    levels = ours.compute_levels(scores)
    mine = Counter(ours.sample_position(levels, SYSTEM) for _ in range(count))
    assert chi_square_excess(mine, lambda place: exact[place] if 0 <= place < 4 else 0) <= 0
    assert_surely_fits([noisy_max(scores) for _ in range(count)], range(4), lambda place: exact[place])
