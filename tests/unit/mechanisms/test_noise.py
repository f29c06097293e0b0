"""One contract for every noise that draws, two jaws for every sampler, and a trap that bites."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import AddNoise, DiscreteGaussian, DiscreteLaplace, Guarantee, InvalidInput, Staircase, Unsupported
from discreet.mechanisms import BoxStaircase, Gaussian, Laplace
from discreet.mechanisms.continuous_noise import compute_gaussian_delta, compute_laplace_region
from discreet.mechanisms.discrete_gaussian import (
    MAX_EXACT_SQUARE,
    _bound_delta_exactly,
    _bound_delta_smoothly,
    _bound_upper_sum,
    bound_delta,
)
from discreet.mechanisms.entropy import SYSTEM
from discreet.mechanisms.noise import IndependentNoises, Noise, find_least, round_to_grid
from discreet.mechanisms.samplers import build_exponential_chance
from discreet.verification import ScriptedEntropy, assert_fits


@dataclass(frozen=True)
class NoiseCase:
    """A noise, and the same noise with its scale multiplied."""

    scaled: Callable[[Fraction], Noise]

    @property
    def noise(self) -> Noise:
        return self.scaled(Fraction(1))


def build_gaussian_case(square: Fraction, step: Fraction = Fraction(1)) -> NoiseCase:
    return NoiseCase(lambda times: DiscreteGaussian(square * times**2, 1, step))


CASES = {
    "laplace at 1": NoiseCase(lambda times: DiscreteLaplace(1 / times, 1)),
    "laplace at 0.05": NoiseCase(lambda times: DiscreteLaplace(Fraction(1, 20) / times, 1)),
    "laplace of cents": NoiseCase(lambda times: DiscreteLaplace(1 / times, 1, step=0.01)),
    "gaussian of 0.6": build_gaussian_case(Fraction(36, 100)),
    "gaussian of 7": build_gaussian_case(Fraction(49)),
    "gaussian of 40 halves": build_gaussian_case(Fraction(1600), Fraction(1, 2)),
    "staircase at 1": NoiseCase(lambda times: Staircase.least_variance(1, 20 * times, 1)),
    "staircase at 0.3 in tenths": NoiseCase(lambda times: Staircase.least_variance(0.3, times, Fraction(1, 10))),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> NoiseCase:
    return CASES[request.param]


def list_window_points(noise: Noise) -> range:
    edge = find_least(lambda units: noise.tail_units(units) < 1e-13)
    return range(-edge, edge + 1)


def test_probabilities_make_a_symmetric_law(case: NoiseCase) -> None:
    noise = case.noise
    points = list_window_points(noise)
    assert math.fsum(float(noise.probability(k)) for k in points) == pytest.approx(1)
    assert all(noise.probability(k) == noise.probability(-k) for k in points)


def test_moments_are_those_of_the_probabilities(case: NoiseCase) -> None:
    """Variance and expected error as stated are the exact ones."""
    noise, step = case.noise, float(case.noise.step)
    law = {k: float(noise.probability(k)) for k in list_window_points(noise)}
    assert noise.variance() == pytest.approx(math.fsum(p * (k * step) ** 2 for k, p in law.items()), rel=1e-6)
    assert noise.expected_error() == pytest.approx(math.fsum(p * abs(k) * step for k, p in law.items()), rel=1e-6)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_intervals_are_the_shortest_that_hold_enough(case: NoiseCase, confidence: float) -> None:
    """Exact coverage at least the confidence, and one grid step less does not do."""
    noise = case.noise
    low, high = noise.interval(confidence)
    units = round(high / float(noise.step))
    mass_within = math.fsum(float(noise.probability(k)) for k in range(-units, units + 1))
    shorter = math.fsum(float(noise.probability(k)) for k in range(-units + 1, units))
    assert low == -high
    assert mass_within >= confidence - 1e-12
    assert shorter < confidence


def test_usefulness_is_the_tail_of_one_and_of_many(case: NoiseCase) -> None:
    """(alpha, beta) of document 003 for one answer and a set."""
    noise = case.noise
    alpha = float(3 * noise.step)
    miss = 1 - math.fsum(float(noise.probability(k)) for k in range(-3, 4))
    assert noise.useful(alpha) == pytest.approx(miss, abs=1e-9)
    assert noise.useful(alpha, answers=10) == pytest.approx(1 - (1 - miss) ** 10, abs=1e-8)


def test_draws_fit_with_two_jaws(case: NoiseCase) -> None:
    """The claimed scale fits; a tenth less and a tenth more do not."""
    noise, smaller, larger = case.noise, case.scaled(Fraction(9, 10)), case.scaled(Fraction(11, 10))
    units = np.rint(noise.sample_many(200_000).astype(float) / float(noise.step)).astype(int)
    laws = [lambda k, law=law: float(law.probability(int(k))) for law in (noise, smaller, larger)]
    assert_fits(units, *laws)


def test_the_trap_bites(case: NoiseCase) -> None:
    """A sampler whose scale is a tenth off, either way, is caught by the same test."""
    noise, smaller, larger = case.noise, case.scaled(Fraction(9, 10)), case.scaled(Fraction(11, 10))
    laws = [lambda k, law=law: float(law.probability(int(k))) for law in (noise, smaller, larger)]
    for wrong in (smaller, larger):
        units = np.rint(wrong.sample_many(200_000).astype(float) / float(noise.step)).astype(int)
        with pytest.raises(AssertionError):
            assert_fits(units, *laws)


def test_single_draws_fit_too(case: NoiseCase) -> None:
    """One draw takes another way through the code than many."""
    noise, smaller, larger = case.noise, case.scaled(Fraction(9, 10)), case.scaled(Fraction(11, 10))
    laws = [lambda k, law=law: float(law.probability(int(k))) for law in (noise, smaller, larger)]
    draws = [noise.sample() for _ in range(8_000)]
    assert all(Fraction(draw) % noise.step == 0 for draw in draws)
    assert_fits([Fraction(draw) / noise.step for draw in draws], *laws)


def test_the_numbers_of_a_vector_are_drawn_apart() -> None:
    """Each has a draw of its own, by its own law: of two that are alike, differences have twice the variance."""
    alike, wider = DiscreteLaplace(Fraction(1, 10), 1), DiscreteLaplace(Fraction(1, 40), 1)
    samples = IndependentNoises((alike, alike, wider)).sample_units(20_000, SYSTEM).astype(float)
    assert np.var(samples[:, 0] - samples[:, 1]) == pytest.approx(2 * alike.variance(), rel=0.1)
    assert np.abs(np.corrcoef(samples, rowvar=False) - np.eye(3)).max() < 0.05
    assert np.var(samples[:, 2]) == pytest.approx(wider.variance(), rel=0.1)


def test_whole_steps_draw_integers() -> None:
    """Grid points are exact: integers, or fractions of the step."""
    assert isinstance(DiscreteLaplace(1, 1).sample(), int)
    assert isinstance(DiscreteLaplace(1, 1, step=0.01).sample(), Fraction)
    assert DiscreteLaplace(1, 10, step=5).sample_many(100).dtype == np.int64
    assert set(DiscreteLaplace(1, 10, step=5).sample_many(100) % 5) == {0}


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1, 3])
@pytest.mark.parametrize("units", [1, 7])
def test_discrete_laplace_loses_epsilon_at_its_sensitivity(epsilon: float, units: int) -> None:
    """rate times shift is epsilon, as rationals; so for every point the log-ratio is at most epsilon."""
    noise = DiscreteLaplace(epsilon, units)
    assert noise.rate * units == Fraction(str(epsilon))
    assert AddNoise(noise, units).cost() == Guarantee.dp(epsilon) == noise.cost()
    assert AddNoise(noise, Fraction(2 * units), "replace-one").cost() == Guarantee.dp(
        2 * Fraction(str(epsilon)), "replace-one"
    )


def test_a_sensitivity_between_grid_points_is_rounded_up() -> None:
    """Enough also for an answer floored to the grid, whose change is at most the ceiling."""
    assert DiscreteLaplace(1, 0.25, step=0.1).rate == Fraction(1, 3)
    assert AddNoise(DiscreteLaplace(1, 1), Fraction(5, 2), "add-remove").cost().epsilon == 3


def test_adding_noise_keeps_the_exact_part() -> None:
    """The mechanism adds: same draws, shifted, also far beyond 64 bits."""
    mechanism = AddNoise(DiscreteLaplace(50, 1), 1)
    assert {mechanism.answer(2**70) - 2**70 for _ in range(50)} == {0}
    assert mechanism.answer_units(7) == 7
    assert mechanism.answer_many([3, 2**70 + 1]).tolist() == [3, 2**70 + 1]
    assert AddNoise(DiscreteGaussian.concentrated(1), 1).cost() == Guarantee.zcdp(1)
    assert AddNoise(DiscreteGaussian.concentrated(1), 2, "replace-one").cost() == Guarantee.zcdp(4, "replace-one")
    calibrated = DiscreteGaussian.calibrated(1, 1e-6)
    assert AddNoise(calibrated, 1).cost() == Guarantee.approx_dp(1, 1e-6)


def test_answers_are_in_their_own_units_and_on_the_grid() -> None:
    """Steps of ten: the noise of sd 140 is not added to tenths of the answer; and no fraction comes through."""
    mechanism = AddNoise(DiscreteLaplace(1, 100, step=10), 100)
    spread = np.std([mechanism.answer(1000) for _ in range(3000)])
    assert 110 < spread < 175
    for odd in (
        1004.5,
        Fraction(100, 3),
        1e9 + 0.1,
        True,
        float("nan"),
        float("inf"),
        None,
        "x",
        10**400,
        np.array([1]),
    ):
        assert mechanism.answer(odd) % 10 == 0
    cents = AddNoise(DiscreteLaplace(1, 1, step=0.01), 1)
    assert cents.answer(0.305) % Fraction(1, 100) == 0
    assert AddNoise(DiscreteLaplace(5000, 1, step=0.1), 0.1).answer(0.3) == Fraction(3, 10)


def test_answers_a_step_apart_stay_a_step_apart() -> None:
    """Floats as the binary numbers they are, decimals in full: what differs by the sensitivity is not read as more."""
    fine = Fraction(1, 1024)
    assert round_to_grid(49609209235.52344, fine) - round_to_grid(49609209235.52246, fine) == 1
    assert round_to_grid(1e20 + 16384, Fraction(1)) - round_to_grid(1e20, Fraction(1)) == 16384
    assert round_to_grid(np.float64(1e20) + 16384, Fraction(1)) - round_to_grid(1e20, Fraction(1)) == 16384
    for base in (2**53, 10**20 + 8192):
        read = [round_to_grid(Decimal(base + shift), Fraction(1)) - base for shift in range(4)]
        assert read == [0, 1, 2, 3]
    assert round_to_grid(Decimal("1e-999999999"), Fraction(1)) == 0


@given(st.fractions(-100, 100), st.fractions(0, 3), st.sampled_from([Fraction(1), Fraction(1, 7), Fraction(3, 2)]))
def test_rounding_keeps_differences_within_the_ceiling(one: Fraction, change: Fraction, step: Fraction) -> None:
    """Why an answer may be rounded to the grid at no cost."""
    assert 0 <= round_to_grid(one + change, step) - round_to_grid(one, step) <= math.ceil(change / step)


def test_the_type_of_an_answer_follows_what_leaves() -> None:
    """Not the exact answer: both sides of 2^61 give the same type, and fractions of grid units are refused."""
    mechanism = AddNoise(DiscreteLaplace(50, 1), 1)
    assert mechanism.answer_many([2**61 - 1]).dtype == mechanism.answer_many([2**61]).dtype == np.int64
    box = BoxStaircase(1, (1, 1))
    for call in (
        lambda: mechanism.answer_units(0.5),
        lambda: box.answer_units((0.5, 1)),
        lambda: box.answer_units((1, "x")),
    ):
        with pytest.raises(InvalidInput, match="grid units"):
            call()


def test_what_leaves_as_a_float_depends_on_the_sum_alone() -> None:
    """0.2 and 0.3 plus noise of tenths share every value they can: added on the grid, then rounded."""
    mechanism = AddNoise(DiscreteLaplace(1, 1, step=0.1), 1)
    ones, twos = (set(mechanism.answer_many([exact] * 50_000).tolist()) for exact in (0.2, 0.3))
    assert ones <= {k / 10 for k in range(-400, 400)}
    assert len(ones & twos) > 0.7 * len(ones)


def test_large_steps_do_not_wrap() -> None:
    """Multiples of 10^13 beyond 64 bits, and of 10^20."""
    for step in (10**13, 10**20):
        draws = DiscreteLaplace(Fraction(1, 10**6), step, step=step).sample_many(2000)
        assert all(int(draw) % step == 0 for draw in draws)
    assert DiscreteLaplace(1, 1).sample_many(0).tolist() == []


@pytest.mark.parametrize("epsilon", [1e-17, 1e-200])
def test_tiny_epsilons_state_infinite_errors(epsilon: float) -> None:
    """No division by zero: a float that is too large says so."""
    noise = DiscreteLaplace(epsilon, 1)
    assert noise.variance() > 1e30
    assert noise.expected_error() > 1e15
    assert isinstance(noise.sample(), int)


def test_scales_beyond_64_bits_are_drawn_in_full() -> None:
    """A scale of 2^80: Python's integers take over."""
    noise = DiscreteLaplace(1, 2**80)
    draws = noise.sample_many(200)
    assert draws.dtype == object
    assert 2**79 < np.mean(np.abs(draws.astype(float))) < 2**81


def test_very_small_noise_is_no_trouble() -> None:
    """epsilon 5000: always zero, and the statements say so."""
    noise = DiscreteLaplace(5000, 1)
    assert (noise.variance(), noise.expected_error(), noise.interval(0.95)) == (0, 0, (0, 0))
    assert set(noise.sample_many(50)) == {0}


def compute_exact_gaussian_delta(square: Fraction, shift: int, epsilon: Fraction) -> mpmath.mpf:
    """Sum over all points of (p(k) - e^epsilon p(k - shift)) where positive: the definition, to 60 digits."""
    with mpmath.workdps(60):
        width = mpmath.mpf(square.numerator) / square.denominator
        ratio = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        edge = int(mpmath.sqrt(width) * 18) + 20 + shift
        bell = {k: mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * width)) for k in range(-edge - shift, edge + shift + 1)}
        total = mpmath.fsum(bell.values())
        return mpmath.fsum(max(0, bell[k] - ratio * bell[k - shift]) for k in range(-edge, edge + 1)) / total


@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-9])
@pytest.mark.parametrize("epsilon", [0.1, 1, 3, 8])
def test_the_calibrated_discrete_gaussian_keeps_its_delta(epsilon: float, delta: float) -> None:
    """The exact delta is at most the claim, and the claim is not paid for twice over."""
    noise = DiscreteGaussian.calibrated(epsilon, delta)
    real = compute_exact_gaussian_delta(noise.square, 1, Fraction(str(epsilon)))
    assert real <= mpmath.mpf(repr(delta))
    assert real >= mpmath.mpf(repr(delta)) * 0.99
    assert noise.cost() == Guarantee.approx_dp(epsilon, delta)


def test_delta_holds_for_smaller_shifts_too() -> None:
    """A sensitivity of five covers changes of one to four: delta rises with the shift."""
    noise = DiscreteGaussian.calibrated(1, 1e-5, sensitivity=5)
    deltas = [compute_exact_gaussian_delta(noise.square, shift, Fraction(1)) for shift in range(1, 6)]
    assert deltas == sorted(deltas)
    assert deltas[-1] <= mpmath.mpf("1e-5")


def test_the_continuous_sigma_is_not_enough() -> None:
    """Why it is calibrated on its own sum: at the analytic sigma delta is three times over at (8, 1e-6)."""
    sigma = Fraction(Gaussian.calibrated(8, 1e-6).sigma)
    assert compute_exact_gaussian_delta(sigma**2, 1, Fraction(8)) > 3e-6


@pytest.mark.parametrize(("sigma", "shift", "epsilon"), [(3000, 700, 1.0), (2500, 300, 0.1), (3500, 4000, 2.0)])
def test_long_sums_agree_with_exact_ones(sigma: int, shift: int, epsilon: float) -> None:
    """Euler-Maclaurin with its remainder is above the certified sum, by less than a millionth of it."""
    square, loss = Fraction(sigma**2), Fraction(str(epsilon))
    assert square <= MAX_EXACT_SQUARE
    last = math.ceil(Fraction(shift, 2) - loss * square / shift) - 1
    exact = _bound_delta_exactly(square, shift, loss, last)
    smooth = _bound_delta_smoothly(float(square), shift, epsilon, last)
    assert exact * (1 + Fraction(1, 2**31)) <= smooth <= exact * (1 + Fraction(1, 10**5))


@pytest.mark.parametrize(("sigma", "shift", "epsilon"), [(1, 1, 1.0), (1.5, 1, 2.0), (1, 5, 0.1), (2, 3, 0.5)])
def test_the_remainder_of_long_sums_is_needed_and_enough(sigma: float, shift: int, epsilon: float) -> None:
    """On grids so coarse that Euler-Maclaurin alone falls short, its remainder still covers the exact sum."""
    square, loss = Fraction(sigma) ** 2, Fraction(str(epsilon))
    last = math.ceil(Fraction(shift, 2) - loss * square / shift) - 1
    assert _bound_delta_smoothly(float(square), shift, epsilon, last) >= _bound_delta_exactly(square, shift, loss, last)


def test_close_coins_of_the_gaussian_are_decided_exactly() -> None:
    """A uniform number that agrees with the chance in 64 digits: the next 64 decide, and floats could not."""
    noise = DiscreteGaussian(Fraction(7, 3), 1, Fraction(1))
    chance = build_exponential_chance((1 - noise.square / 2) ** 2 / (2 * noise.square))
    word, rest = chance.digits(64).to_bytes(8, "little"), chance.digits(128) % 2**64
    for shift, is_kept in ((-1, True), (1, False)):
        entropy = ScriptedEntropy(word + (rest + shift).to_bytes(8, "big"))
        assert noise._accept_candidates(np.array([1]), 2, entropy).tolist() == [is_kept]


def test_sums_are_bounded_with_what_they_leave_out() -> None:
    """The upper end covers the terms that were not added, the lower end does without them."""
    for square, first in ((Fraction(9), 1), (Fraction(400), 60), (Fraction(1, 4), 1)):
        low, high = _bound_upper_sum(square, first)
        with mpmath.workdps(140):
            width = mpmath.mpf(square.numerator) / square.denominator
            exact = mpmath.fsum(mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * width)) for k in range(first, first + 900))
            assert low <= exact * mpmath.mpf(2) ** 256 <= high


def test_wide_grids_are_calibrated_at_once() -> None:
    """A billion grid steps of sensitivity: the same sigma as in the limit."""
    noise = DiscreteGaussian.calibrated(1, 1e-6, sensitivity=10**9)
    assert noise.sigma / 10**9 == pytest.approx(Gaussian.calibrated(1, 1e-6).sigma, rel=1e-5)
    with pytest.raises(Unsupported, match="coarser step"):
        DiscreteGaussian.calibrated(1, 1e-6, sensitivity=1, step=1e-15)


def test_concentrated_cost_is_exact() -> None:
    """rho = units^2 / (2 s^2), rational."""
    noise = DiscreteGaussian.concentrated(Fraction(1, 800))
    assert noise.cost() == Guarantee.zcdp(Fraction(1, 800))
    assert noise.square == 400
    assert noise.sigma == 20
    assert DiscreteGaussian.concentrated(0.5, sensitivity=3, step=0.5).rho == Fraction(1, 2)


def test_delta_of_a_certain_difference_is_almost_one() -> None:
    assert bound_delta(Fraction(1, 100), 1, Fraction(1, 10)) > Fraction(99, 100)


def test_continuous_laws_state_and_do_not_draw() -> None:
    """For comparison only."""
    laplace, normal = Laplace(0.5, 2), Gaussian(3.0)
    assert (laplace.scale, laplace.variance(), laplace.expected_error()) == (4, 32, 4)
    assert laplace.tail(laplace.interval(0.9)[1]) == pytest.approx(0.1)
    assert normal.tail(normal.interval(0.9)[1]) == pytest.approx(0.1)
    assert normal.expected_error() == pytest.approx(2.3937, abs=1e-4)
    assert normal.useful(6) == pytest.approx(0.0455, abs=1e-4)
    assert not hasattr(laplace, "sample")
    assert not hasattr(normal, "sample")
    assert compute_laplace_region([2.0], 0.9)[0] == pytest.approx(math.log(10))
    assert compute_gaussian_delta(0.02, 10.0) == pytest.approx(1.0)
    assert compute_gaussian_delta(50.0, 3.0) == 0


BAD_NUMBERS = [0, -1, math.nan, math.inf, "1", None, True]


@pytest.mark.parametrize("number", BAD_NUMBERS)
def test_bad_parameters_get_one_sentence(number: object) -> None:
    """Epsilon, sensitivity, step, delta and rho; nothing is built."""
    for call in (
        lambda: DiscreteLaplace(number, 1),
        lambda: DiscreteLaplace(1, number),
        lambda: DiscreteLaplace(1, 1, step=number),
        lambda: Laplace(number, 1),
        lambda: Laplace(1, number),
        lambda: Gaussian.calibrated(number, 0.1),
        lambda: Gaussian.calibrated(1, number),
        lambda: DiscreteGaussian.calibrated(number, 1e-6),
        lambda: DiscreteGaussian.calibrated(1, number),
        lambda: DiscreteGaussian.calibrated(1, 1e-6, sensitivity=number),
        lambda: DiscreteGaussian.concentrated(number),
        lambda: Staircase.least_variance(number, 1),
        lambda: Staircase.least_variance(1, number),
        lambda: DiscreteLaplace(1, 1).interval(number),
        lambda: DiscreteLaplace(1, 1).useful(number),
        lambda: AddNoise(DiscreteLaplace(1, 1), number),
    ):
        with pytest.raises(InvalidInput) as refusal:
            call()
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: DiscreteLaplace(1, 1).sample_many(-1),
        lambda: DiscreteLaplace(1, 1).sample_many(2.5),
        lambda: DiscreteLaplace(1, 1).sample_many("3"),
        lambda: DiscreteLaplace(1, 1).sample(entropy=42),
        lambda: DiscreteLaplace(1, 1).useful(5, answers=-1),
        lambda: DiscreteLaplace(1, 1).useful(5, answers=1.5),
        lambda: AddNoise(Laplace(1, 1), 1),
        lambda: AddNoise(DiscreteLaplace(1, 1), 1, "any"),
        lambda: Gaussian(-1.0),
        lambda: DiscreteGaussian(Fraction(1, 100), 1, Fraction(1), Fraction(1, 100), Fraction(1, 10**9)),
        lambda: DiscreteGaussian(Fraction(1), 1, Fraction(1), Fraction(1)),
        lambda: DiscreteGaussian(Fraction(-1), 1, Fraction(1)),
        lambda: DiscreteGaussian(Fraction(1), -1, Fraction(1), Fraction(1), Fraction(1, 10**9)),
        lambda: DiscreteGaussian(Fraction(1), 0, Fraction(1)),
        lambda: DiscreteGaussian(Fraction(17), 1, Fraction(1), Fraction(1), Fraction(1, 10**6)),
    ],
)
def test_mistakes_get_one_sentence(call) -> None:
    with pytest.raises(InvalidInput) as refusal:
        call()
    assert "\n" not in str(refusal.value)
