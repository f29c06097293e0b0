"""Smooth-sensitivity noise: the law, the sampler, and the exact loss over all neighbours of tiny tables."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from papers.continuous import (
    compute_admissible_loss,
    compute_heavy_tail_interval,
    compute_heavy_tail_loss,
    compute_largest_alpha,
    find_admissible_range,
)

from discreet.errors import InvalidInput
from discreet.mechanisms.order_statistic import (
    FLOAT_ERROR,
    KAPPA,
    SmoothOrderStatistic,
    _sample_tail,
    compute_center_and_scale,
    compute_dilation,
    compute_log_smooth_sensitivity,
    compute_slide,
    compute_smoothness,
    find_rank,
    local_sensitivity,
    sample_noise_units,
)
from discreet.numeric import exp_below
from discreet.verification import ScriptedEntropy, all_neighbors, all_tables, assert_fits
from support.fixed_streams import Stream
from support.mpmath_digits import use_fifty_digits

__all__ = ["use_fifty_digits"]  # a fixture

ORDERS = ["min", "median", "second max", "max", ("quantile", Fraction(1, 3))]
Probabilities = dict[int, mpf]
DRAWS = [20_000, pytest.param(40_000, marks=pytest.mark.soak)]


def compute_exact_probability(units: int, t: object) -> mpf:
    return t * mp.tanh(mp.pi * t) / (mp.pi * (t * t + units * units))


def compute_noise_probability(units: int, t: float) -> float:
    """P(N = units) = t tanh(pi t) / (pi (t^2 + units^2))."""
    return t * math.tanh(math.pi * t) / (math.pi * (t * t + float(units) ** 2))


def to_mpf(number: Fraction) -> mpf:
    return mpf(number.numerator) / number.denominator


@pytest.mark.parametrize("t", ["0.3", "1", "2", "7.5"])
def test_the_total_of_the_law_is_pi_t_coth_pi_t(t):
    """So the probabilities that the proof uses are those of the law."""
    scale = mpf(t)
    total = 1 + 2 * mp.nsum(lambda k: 1 / (1 + (k / scale) ** 2), [1, mp.inf])
    assert mp.almosteq(total, mp.pi * scale * mp.coth(mp.pi * scale), 1e-20)


@given(st.floats(0.3, 50), st.integers(1, 200))
def test_a_slide_costs_at_most_twice_asinh_of_half_the_distance(t, log_distance):
    """sup over k of ln((t^2 + (k+d)^2) / (t^2 + k^2)) = 2 asinh(d / 2t), which is at most d / t."""
    k = np.arange(-1000, 1000, dtype=np.float64)
    worst = np.log((t * t + (k + log_distance) ** 2) / (t * t + k * k)).max()
    claimed = 2 * math.asinh(log_distance / (2 * t))
    assert worst <= claimed * (1 + 1e-12) <= log_distance / t * (1 + 1e-12)
    best = (-log_distance + math.hypot(log_distance, 2 * t)) / 2
    assert math.log((t**2 + (best + log_distance) ** 2) / (t**2 + best**2)) == pytest.approx(claimed)


def test_kappa_is_large_enough_for_every_scale_of_two_or_more():
    """2 pi t / sinh(2 pi t) falls with t, so t = 2 is the worst."""
    at_two = 4 * mp.pi / mp.sinh(4 * mp.pi)
    assert mpf("0.0000876") < at_two < to_mpf(KAPPA)


@given(st.floats(2, 40), st.floats(0, 5))
def test_a_dilation_costs_its_logarithm_and_hardly_more(t, b):
    """|ln P_t(k) / P_t'(k)| <= b (1 + kappa) for t' = t e^b, t >= 2: at the peak, far out and in between."""
    narrow, wide = mpf(t), mpf(t) * mp.exp(b)
    for k in (0, 1, 2, 5, 30, 1000, 10**9):
        cost = abs(mp.log(compute_exact_probability(k, wide) / compute_exact_probability(k, narrow)))
        assert cost <= b * (1 + to_mpf(KAPPA)) + mpf("1e-40")


def test_below_the_least_scale_a_dilation_would_cost_more():
    """The floor of 2 matters: near 0 a dilation costs almost twice its logarithm."""
    cost = mp.log(compute_exact_probability(0, mpf("0.12")) / compute_exact_probability(0, mpf("0.1")))
    assert abs(
        mp.log(compute_exact_probability(1, mpf("0.12")) / compute_exact_probability(1, mpf("0.1")))
    ) > 1.5 * mp.log("1.2")
    assert cost < 0


def compute_exact_log_smooth(padded: Sequence[int], middle: int, beta: float) -> mpf:
    pairs = ((i, j) for i in range(middle + 1) for j in range(middle, len(padded)) if padded[j] > padded[i])
    return max(mp.log(padded[j] - padded[i]) - mpf(beta) * (j - i - 1) for i, j in pairs)


@given(st.lists(st.integers(0, 2**60), min_size=1, max_size=12), st.sampled_from(ORDERS), st.floats(1e-7, 5))
def test_the_float_error_is_a_small_part_of_its_allowance(values, what, beta):
    """ln S in floats against 50 digits; the proof allows 2^-32 and the error is below 1e-13."""
    padded = [0, *sorted(values), 2**60]
    middle = find_rank(what, len(values))
    error = compute_log_smooth_sensitivity(np.array(padded), middle, beta) - compute_exact_log_smooth(
        padded, middle, beta
    )
    assert abs(error) < 1e-13 < FLOAT_ERROR / 50


@given(
    st.lists(st.integers(0, 5000) | st.sampled_from([0, 5000]), min_size=1, max_size=8),
    st.integers(0, 5000),
    st.sampled_from(ORDERS),
    st.sampled_from(["0.000001", "0.01", "0.5", "1", "4", "30"]),
)
def test_neighbours_scales_and_centres_are_as_close_as_the_proof_needs(values, new, what, epsilon):
    """Exactly: t >= 2, shift <= slide * t for both, t / t' <= e^b; and t is not above S / slide without need."""
    mechanism = SmoothOrderStatistic(what, 0, 5000, Fraction(epsilon))
    center, t = compute_center_and_scale(mechanism, values)
    other, u = compute_center_and_scale(mechanism, [*values[1:], new])
    assert min(t, u) >= 2
    assert abs(center - other) <= compute_slide(mechanism.epsilon) * min(t, u)
    assert max(t, u) / min(t, u) <= exp_below(compute_dilation(mechanism.epsilon), 200)
    padded = [0, *sorted(values), 5000]
    least = mp.exp(
        compute_exact_log_smooth(padded, find_rank(what, len(values)), compute_smoothness(mechanism.epsilon))
    )
    least = max(2, least / to_mpf(compute_slide(mechanism.epsilon)))
    assert least <= to_mpf(t) <= least * mp.exp(mpf(1) / 63)


def measure_hyperbolic_distance(one: tuple[mpf, mpf], two: tuple[mpf, mpf]) -> mpf:
    """Between two points (centre, scale) of the hyperbolic half-plane."""
    (f, t), (g, u) = one, two
    return mp.acosh(1 + ((f - g) ** 2 + (t - u) ** 2) / (2 * t * u))


@given(st.floats(-9, 9), st.floats(2, 30), st.floats(2, 30))
def test_the_loss_of_two_laws_is_their_hyperbolic_distance(shift, t, u):
    """sup over real y of (t/u) (u^2 + (y-g)^2) / (t^2 + (y-f)^2), found by its stationary points."""
    f, g, t, u = mpf(0), mpf(shift), mpf(t), mpf(u)

    def compute_log_ratio(y: mpf) -> mpf:
        return mp.log(t / u * (u**2 + (y - g) ** 2) / (t**2 + (y - f) ** 2))

    # The derivative vanishes where g y^2 + (t^2 - u^2 - g^2) y - g t^2 = 0, taking f = 0.
    a, b, c = g, t**2 - u**2 - g**2, -g * t**2
    root = mp.sqrt(b * b - 4 * a * c)
    stationary = [(-b + sign * root) / (2 * a) for sign in (1, -1)] if a else [mpf(0)]
    worst = max(abs(compute_log_ratio(y)) for y in stationary) if a else abs(mp.log(t / u))
    assert mp.almosteq(worst, measure_hyperbolic_distance((f, t), (g, u)), 1e-15, 1e-15)


@pytest.mark.parametrize("epsilon", ["0.000001", "0.01", "0.3", "1", "2", "7", "60", "1000"])
def test_the_calibration_stays_within_epsilon_for_every_ratio_of_scales(epsilon):
    """Scales e^v apart, v from 0 to b, the narrower one the least, centres as far apart as allowed; and it is tight."""
    loss_allowed = Fraction(epsilon)
    alpha, b = to_mpf(compute_slide(loss_allowed)), to_mpf(compute_dilation(loss_allowed))
    with mp.workdps(900):
        losses = []
        for step in range(41):
            narrow, wide = mpf(2), 2 * mp.exp(b * step / 40)
            grid_cost = mp.log(mp.tanh(mp.pi * wide) / mp.tanh(mp.pi * narrow))
            losses.append(measure_hyperbolic_distance((mpf(0), narrow), (2 * alpha, wide)) + grid_cost)
        assert max(losses) <= to_mpf(loss_allowed)
        assert max(losses) > to_mpf(loss_allowed) * mpf("0.9998")


@cache
def compute_chances(most: int, t: Fraction) -> tuple[list[mpf], list[mpf]]:
    """Of 0, 1, ... units, and their running sums; the law's constant is worked out once."""
    scale = to_mpf(t)
    top = compute_exact_probability(0, scale) * scale * scale
    chances = [top / (scale * scale + k * k) for k in range(most + 1)]
    return chances, list(accumulate(chances))


def compute_clamped_law(center: int, t: Fraction, low: int, high: int) -> Probabilities:
    """The exact law of the clamped answer; the atoms at the bounds from the finite sums between them."""
    chances, sums = compute_chances(high - low, t)
    law = {k: chances[abs(k - center)] for k in range(low + 1, high)}
    for bound in (low, high):
        reach = abs(bound - center)
        inner = 2 * sums[max(reach - 1, 0)] - chances[0]
        law[bound] = (1 - inner) / 2 if reach else (1 + chances[0]) / 2
    return law


def compute_worst_smooth_loss(
    state: Callable[[tuple[int, ...]], tuple[int, Fraction]], domain: Sequence[int], sizes: Iterable[int]
) -> mpf:
    """The largest log ratio of answers, over all tables and all their replace-one neighbours."""
    low, high = min(domain), max(domain)
    pairs = {
        (state(table), state(tuple(sorted(other))))
        for size in sizes
        for table in all_tables(domain, size)
        for other in all_neighbors(table, domain, "replace-one")
    }
    laws = {
        center_and_scale: compute_clamped_law(*center_and_scale, low, high)
        for pair in pairs
        for center_and_scale in pair
    }
    # Floats find where the largest ratio is, up to their error; among what is as large all digits decide.
    floats = {
        center_and_scale: np.array([float(law[k]) for k in range(low, high + 1)])
        for center_and_scale, law in laws.items()
    }
    ratios = {(one, two): floats[one] / floats[two] for one, two in pairs}
    near = max(ratio.max() for ratio in ratios.values()) * (1 - 1e-9)
    places = (
        (one, two, low + int(k))
        for (one, two), ratios_of_pair in ratios.items()
        for k in np.flatnonzero(ratios_of_pair >= near)
    )
    return mp.log(max(laws[one][k] / laws[two][k] for one, two, k in places))


@pytest.mark.parametrize("epsilon", ["0.1", "1", "3", "10"])
@pytest.mark.parametrize("what", ["median", "max", ("quantile", Fraction(1, 3))])
@pytest.mark.parametrize("domain", [(0, 1, 2, 3, 4), (0, 1, 9, 50)])
def test_the_loss_is_at_most_epsilon_over_all_neighbours(what, epsilon, domain):
    """Every table of 3 and 4 values, every neighbour, every answer, the clamped atoms included; 50 digits."""
    mechanism = SmoothOrderStatistic(what, min(domain), max(domain), Fraction(epsilon))
    states = {t: compute_center_and_scale(mechanism, t) for size in (3, 4) for t in all_tables(domain, size)}
    assert compute_worst_smooth_loss(states.__getitem__, domain, (3, 4)) <= to_mpf(mechanism.epsilon)


def test_the_loss_is_close_to_epsilon():
    """The calibration is not wasteful: some pair of neighbours uses nearly all of epsilon."""
    domain = (0, 1, 9, 50)
    mechanism = SmoothOrderStatistic("median", 0, 50, 3)
    states = {t: compute_center_and_scale(mechanism, t) for t in all_tables(domain, 3)}
    assert compute_worst_smooth_loss(states.__getitem__, domain, (3,)) > 2.9


@pytest.mark.parametrize("wrong", ["local sensitivity", "9/10 of the scale"])
def test_the_check_catches_noise_that_is_not_private(wrong):
    """Scales that follow the local sensitivity, or a tenth less noise, are seen to lose more than epsilon."""
    domain = (0, 1, 9, 50)
    epsilon = 1 if wrong == "local sensitivity" else 3
    mechanism = SmoothOrderStatistic("median", 0, 50, epsilon)

    def state(table: tuple[int, ...]) -> tuple[int, Fraction]:
        center, t = compute_center_and_scale(mechanism, table)
        local = Fraction(local_sensitivity(table, "median", 0, 50)) / compute_slide(mechanism.epsilon)
        return center, max(local, Fraction(2)) if wrong == "local sensitivity" else t * Fraction(9, 10)

    assert compute_worst_smooth_loss(state, domain, (3,)) > epsilon * mpf("1.02")


@pytest.mark.parametrize("t", [Fraction(1, 3), Fraction(2), Fraction(17, 5), Fraction(40)])
@pytest.mark.parametrize("size", DRAWS)
def test_draws_follow_the_law_and_no_law_10_percent_off(t, size):
    """Two jaws: neither a narrower nor a wider scale explains the draws as well."""
    entropy = Stream(11)
    draws = [sample_noise_units(t, entropy) for _ in range(size)]
    laws = [lambda k, s=float(t) * factor: compute_noise_probability(k, s) for factor in (1, 0.9, 1.1)]
    assert_fits(draws, *laws)


@pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)])
@pytest.mark.parametrize("size", DRAWS)
def test_a_sampler_10_percent_off_is_caught(factor, size):
    """The trap itself works."""
    t, entropy = Fraction(17, 5), Stream(12)
    draws = [sample_noise_units(t * factor, entropy) for _ in range(size)]
    laws = [lambda k, s=float(t) * f: compute_noise_probability(k, s) for f in (1, 0.9, 1.1)]
    with pytest.raises(AssertionError, match="fit"):
        assert_fits(draws, *laws)


@pytest.mark.parametrize("size", DRAWS)
def test_far_tails_have_the_laws_weight(size):
    """A heavy tail is the point: beyond 50 scales lie 2 / (50 pi) of the draws, and both signs alike."""
    entropy = Stream(13)
    draws = np.array([sample_noise_units(Fraction(3), entropy) for _ in range(size)], dtype=np.float64)
    beyond = np.abs(draws) > 150
    expected = 1 - sum(compute_noise_probability(k, 3) for k in range(-150, 151))
    assert abs(beyond.mean() - expected) < 6 * math.sqrt(expected / size)
    assert abs((draws[beyond] > 0).mean() - 0.5) < 6 * 0.5 / math.sqrt(beyond.sum())


@pytest.mark.parametrize("edge", [2, 3, 10, 1000])
@pytest.mark.parametrize("zeros", [0, 9, 20])
def test_the_tail_is_one_plus_the_floor_of_its_quotient(edge, zeros):
    """1 + floor((edge - 1) / U) for a scripted U, however small; digits are added until the floor is certain."""
    first = 64 + 2 * edge.bit_length()
    for seed in range(60):
        script = bytes(zeros) + random.Random(seed).randbytes(250)
        entropy = ScriptedEntropy(script)
        tail_sample = _sample_tail(edge, entropy)
        digits = [script[: -(-first // 8)], script[-(-first // 8) : entropy.taken]]
        head = int.from_bytes(digits[0], "big") >> (-first % 8)
        u = Fraction(head, 2**first) + Fraction(int.from_bytes(digits[1], "big"), 2 ** (first + 8 * len(digits[1])))
        last = Fraction(1, 2 ** (first + 8 * len(digits[1])))
        assert tail_sample == 1 + math.floor((edge - 1) / (u + last / 2))
        assert tail_sample == 1 + math.floor((edge - 1) / (u + last)) >= edge


def test_very_wide_noise_is_drawn_as_easily():
    """Scales of 10^24 units, whole numbers throughout."""
    entropy = Stream(14)
    draws = [abs(sample_noise_units(Fraction(10**24, 3), entropy)) for _ in range(2000)]
    assert all(isinstance(draw, int) for draw in draws)
    assert sorted(draws)[1000] / (10**24 / 3) == pytest.approx(1, abs=0.25)


@given(
    st.lists(st.floats() | st.integers() | st.none() | st.text(max_size=2), min_size=1, max_size=6),
    st.sampled_from(ORDERS),
    st.sampled_from([1, Fraction(1, 4), Fraction(3, 7)]),
)
def test_answers_lie_on_the_grid_within_the_bounds_whatever_the_data(values, what, step):
    """Nothing in the data raises, and every answer is a public grid point."""
    mechanism = SmoothOrderStatistic(what, Fraction(-21, 10), 10, 1, step=step)
    answer = mechanism.answer(values, Stream(len(values)))
    assert Fraction(-21, 10) <= answer <= 10
    assert Fraction(answer) % step == 0


def test_it_says_what_it_promises():
    """Pure DP when one value is replaced; an error bound from public facts only; whole steps give ints."""
    mechanism = SmoothOrderStatistic("median", 0, 100, 0.5)
    assert mechanism.cost().words() == "Differential privacy with epsilon 0.5 when one row is replaced by any other."
    assert mechanism.error_bound() == 100
    assert isinstance(mechanism.answer([1, 2, 3]), int)
    assert isinstance(SmoothOrderStatistic("max", 0, 1, 1, step=0.1).answer([0.5]), Fraction)


def test_a_large_table_with_a_clear_median_is_answered_well():
    """The point of it: noise of two steps where the global sensitivity is 100,000 steps."""
    values = np.random.default_rng(3).normal(500, 10, 20_001)
    mechanism = SmoothOrderStatistic("median", 0, 1000, 1, step=0.01)
    entropy = Stream(15)
    errors = [abs(float(mechanism.answer(values, entropy)) - np.median(values)) for _ in range(101)]
    assert sorted(errors)[50] < 0.2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mode", 0, 1, 1), "what must be median"),
        (("median", 1, 0, 1), "lower must be below upper"),
        (("median", 0, 1, 0), "epsilon must be above 0"),
        (("median", 0, 1, 1e-9), "epsilon must be between 0.000001 and 1000"),
        (("median", 0, 1, 2000), "epsilon must be between 0.000001 and 1000"),
        (("median", 0, 1, 1, 3), "step must leave"),
    ],
)
def test_bad_input_is_named_in_one_sentence(arguments, message):
    """The caller learns what to mend."""
    with pytest.raises(InvalidInput, match=message):
        SmoothOrderStatistic(*arguments)


def test_document_004_table_1_and_its_corrections():
    """The intervals of the continuous law, the loss of the document's calibration, and where it is proven."""
    assert compute_heavy_tail_interval(2, 8, 0.95) == pytest.approx(101.64963788938788, abs=1e-5)
    assert compute_heavy_tail_interval(3, 12, 0.95) == pytest.approx(34.21786490413762, abs=1e-5)
    assert [compute_admissible_loss(2), compute_admissible_loss(3)] == pytest.approx(
        [0.625, 0.7989500876640167], abs=1e-9
    )
    assert find_admissible_range() == pytest.approx((1.1916661739905308, 6.217404715604147), abs=1e-6)
    assert compute_largest_alpha(2, 0.5) == pytest.approx(0.5, abs=1e-12)
    assert compute_heavy_tail_loss(2, 0.5, 0.5) == pytest.approx(1)
    assert compute_heavy_tail_interval(2, 2, 0.95) == pytest.approx(25.41, abs=0.01)


@pytest.mark.parametrize("gamma", [1.3, 2, 2.5, 6])
@pytest.mark.parametrize("confidence", [0.1, 0.5, 0.95, 0.999])
def test_intervals_of_the_heavy_tail_agree_with_quadrature(gamma, confidence):
    """mpmath's integral over the interval, as a share of the whole."""
    width = mpf(compute_heavy_tail_interval(gamma, 1, confidence))
    half = (mp.pi / gamma) / mp.sin(mp.pi / gamma)
    outside = mp.quad(lambda x: 1 / (1 + x**gamma), [width, 10 * width, 1000 * width, mp.inf])
    assert float(1 - outside / half) == pytest.approx(confidence, abs=1e-7)


def test_a_law_without_a_total_is_refused():
    """gamma must be above 1."""
    with pytest.raises(InvalidInput, match="gamma must be above 1"):
        compute_admissible_loss(1)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5)])
def test_smoothness_leaves_room_for_the_float(epsilon):
    """beta is b less the rounding of a scale and two float errors, never more."""
    assert Fraction(compute_smoothness(epsilon)) <= compute_dilation(epsilon) - 2 * FLOAT_ERROR - Fraction(1, 2**60)


@pytest.mark.parametrize("tables", [1000, pytest.param(3000, marks=pytest.mark.soak)])
def test_smooth_sensitivity_of_many_tables(tables):
    """Against all windows: tables with ties, gaps and bounds far off, at slow and fast decay."""
    generator = random.Random(11)
    for _ in range(tables):
        size, beta = generator.randint(1, 30), generator.choice([0.01, 0.05, 0.2, 0.7, 2.0])
        near = generator.choice([1, 3, 40])
        table = sorted(min(max(500 + round(generator.gauss(0, near)), 0), 1000) for _ in range(size))
        padded = np.array([0, *table, 1000])
        middle = generator.randint(1, size)
        worst = max(
            math.log(padded[j] - padded[i]) - beta * (j - i - 1)
            for i in range(middle + 1)
            for j in range(middle, size + 2)
            if padded[j] > padded[i]
        )
        assert compute_log_smooth_sensitivity(padded, middle, beta) == pytest.approx(worst, abs=1e-12)
