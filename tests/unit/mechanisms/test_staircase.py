"""The staircase: exact law, exact privacy, exact draws, and nothing smaller or of less variance exists."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import SYSTEM
from discreet.mechanisms.noise_order import check_density
from discreet.mechanisms.staircase import (
    Staircase,
    _build_odds,
    _compute_half_width,
    build_digit_chance,
    build_fall_geometric,
    compute_fall,
    compute_laplace_core,
    sample_uniform_array,
    sample_uniform_int,
)
from discreet.numeric import exp_above
from discreet.verification import ScriptedEntropy, assert_fits

HALF = Fraction(1, 2)
CASES = [(1, 5, Fraction(5, 2)), (HALF, 4, Fraction(9, 4)), (2, 1, HALF), (1, 7, Fraction(13, 2)), (3, 6, HALF)]


def compute_window(noise, reach):
    return {k: noise.probability(k) for k in range(-reach, reach + 1)}


@given(st.sampled_from([Fraction(1, 5), Fraction(1), Fraction(5, 2)]), st.integers(1, 9), st.fractions(0, 1))
@settings(max_examples=40)
def test_the_worst_ratio_within_the_sensitivity_is_exactly_the_step(epsilon, units, share):
    """Privacy: over all shifts within the sensitivity the exact ratio reaches 1/fall <= e^epsilon and no more."""
    noise = Staircase(epsilon, units, HALF + share * (units - 1))
    reach = 4 * units + 2
    checked_density = check_density(
        compute_window(noise, reach), range(-units, units + 1), lambda x: abs(x[0]) <= reach
    )
    assert checked_density.worst_ratio == 1 / noise.fall
    assert checked_density.skipped_pairs == units * (units + 1)
    assert 1 / noise.fall <= exp_above(epsilon)


@pytest.mark.parametrize(("epsilon", "sensitivity", "core"), CASES)
def test_the_closed_forms_are_the_sums(epsilon, sensitivity, core):
    """Total, variance, mean error and tail agree with sums over a window so wide that the rest is below 1e-15."""
    noise, reach = Staircase(epsilon, sensitivity, core), 400
    law = compute_window(noise, reach)
    assert float(sum(law.values())) == pytest.approx(1, abs=1e-14)
    assert float(sum(k * k * p for k, p in law.items())) == pytest.approx(noise.variance(), rel=1e-12)
    assert float(sum(abs(k) * p for k, p in law.items())) == pytest.approx(noise.expected_error(), rel=1e-12)
    for k in range(60):
        rest = 1 - sum(law[j] for j in range(-k, k + 1))
        assert noise.tail_units(k) == pytest.approx(float(rest), rel=1e-11)
    assert noise.tail_units(-1) == 1


@pytest.mark.parametrize(("epsilon", "sensitivity", "core"), CASES)
def test_the_chances_of_a_draw_multiply_out_to_the_law(epsilon, sensitivity, core):
    """The law of the draw, enumerated from the very coins it uses, to 100 binary digits."""
    noise = Staircase(epsilon, sensitivity, core)
    odds = _build_odds(noise.units, noise.fall, noise.points, noise.part)

    def compute_coin_value(coin_chance):
        return Fraction(coin_chance.digits(128), 2**128)

    def compute_level_probability(number):
        bits = ((number >> i) & 1 for i in range(len(odds.level.digits)))
        each = (
            compute_coin_value(c) if bit else 1 - compute_coin_value(c)
            for bit, c in zip(bits, odds.level.digits, strict=True)
        )
        return math.prod(each) * (1 - compute_coin_value(odds.level.tail))

    for distance in range(3 * noise.units):
        total = Fraction(0)
        for wider, share in ((0, 1 - compute_coin_value(odds.wider)), (1, compute_coin_value(odds.wider))):
            reach, inside = noise.points + wider, compute_coin_value(odds.inside[wider])
            if distance < reach:
                total += share * inside / (2 * reach - 1)
            else:
                total += (
                    share
                    * (1 - inside)
                    * compute_level_probability((distance - reach) // noise.units)
                    / (2 * noise.units)
                )
        assert abs(total - noise.probability(distance)) < Fraction(1, 2**100)


def test_the_digits_of_the_geometric_are_exact():
    """Digit i is 1 with probability v/(1+v), v = fall^(2^i): also where that chance is a whole number of 64ths."""
    for fall in (compute_fall(Fraction(1)), Fraction(1, 3), Fraction(1, 2), Fraction(3, 5), Fraction(9, 10)):
        for index in range(6):
            power = fall ** (2**index)
            assert build_digit_chance(fall, index).digits(64) == math.floor(2**64 * power / (1 + power))
        count = len(build_fall_geometric(fall).digits)
        assert build_fall_geometric(fall).tail.digits(64) == math.floor(2**64 * fall ** (2**count)) == 0


@cache
def compute_noise_chance(noise, k):
    return float(noise.probability(k))


@pytest.mark.parametrize("core", [Fraction(5, 2), Fraction(9, 4), Fraction(9, 2)])
def test_draws_fit_their_law_and_no_law_a_tenth_off(core):
    """Two jaws: epsilon a tenth larger or smaller explains the draws worse."""
    noise = Staircase(1, 5, core)
    jaws = [Staircase(Fraction(epsilon), 5, core) for epsilon in ("1.1", "0.9")]
    draws = noise.sample_many(200_000).tolist()
    assert_fits(draws, *(lambda k, law=law: compute_noise_chance(law, k) for law in (noise, *jaws)))


@pytest.mark.parametrize("count", [5_000, pytest.param(30_000, marks=pytest.mark.soak)])
def test_single_draws_fit_too(count):
    """The path of one draw at a time is another piece of code with the same law."""
    noise = Staircase(1, 3, Fraction(7, 4))
    jaws = [Staircase(epsilon, 3, Fraction(7, 4)) for epsilon in (Fraction(5, 4), Fraction(3, 4))]
    draws = [noise.sample() for _ in range(count)]
    assert_fits(draws, *(lambda k, law=law: compute_noise_chance(law, k) for law in (noise, *jaws)))


@pytest.mark.parametrize("epsilon", ["1.1", "0.9"])
def test_a_sampler_a_tenth_off_is_caught(epsilon):
    """The trap itself works: noise of another epsilon does not pass for this one."""
    claimed, wrong = Staircase(1, 5, Fraction(5, 2)), Staircase(Fraction(epsilon), 5, Fraction(5, 2))
    draws = wrong.sample_many(200_000).tolist()
    with pytest.raises(AssertionError):
        assert_fits(draws, lambda k: compute_noise_chance(claimed, k), lambda _: 1e-9, lambda _: 1e-9)


def test_a_scripted_draw_comes_out_as_the_note_says():
    """Not wider, not inside, place 7 of 10 (left, offset 2), geometric 1: -(points + units + 2)."""
    noise = Staircase(1, 5, Fraction(5, 2))
    digits = len(build_fall_geometric(noise.fall).digits)
    level = bytes(2) + b"\xff" * 2 * (digits - 1) + b"\xff" * 2
    script = b"\xff" * 6 + (7).to_bytes(8, "little") + level
    entropy = ScriptedEntropy(script)
    assert noise.sample(entropy) == -(3 + 5 + 2)
    assert entropy.taken == len(script)


def test_uniform_words_that_would_favour_small_numbers_are_drawn_again():
    """2^64 is one more than a multiple of 3, so the last word is not used."""
    entropy = ScriptedEntropy(b"\xff" * 8 + (5).to_bytes(8, "little"))
    assert sample_uniform_array(np.array([3]), entropy).tolist() == [2]
    assert entropy.taken == 16


def test_every_draw_takes_the_same_entropy():
    """How much is drawn does not follow what comes out."""

    class Counting:
        def __init__(self):
            self.taken = []

        def take(self, count):
            self.taken.append(count)
            return SYSTEM.take(count)

    noise, amounts = Staircase(1, 5, Fraction(9, 4)), Counter()
    for _ in range(300):
        entropy = Counting()
        noise.sample(entropy)
        amounts[sum(entropy.taken)] += 1
    # A tie in 16 digits, once in thousands of draws, takes eight bytes more.
    usual = min(amounts)
    assert amounts[usual] > 280
    assert all((amount - usual) % 8 == 0 for amount in amounts)


def test_uniform_draws_are_uniform_and_in_range():
    """Rejection on words: the script's last 2^64 mod bound words are refused, the rest taken modulo the bound."""
    script = (2**64 - 1).to_bytes(8, "little") + (23).to_bytes(8, "little") + (5).to_bytes(8, "little")
    assert sample_uniform_array(np.array([10, 10]), ScriptedEntropy(script)).tolist() == [5, 3]
    counts = np.bincount(sample_uniform_array(np.full(60_000, 6), SYSTEM), minlength=6)
    assert len(counts) == 6
    assert (abs(counts - 10_000) < 700).all()
    assert sample_uniform_int(10, ScriptedEntropy(b"\xff" * 16 + (57).to_bytes(16, "big"))) == 7


def test_tiny_and_huge_epsilon():
    """Wide draws go to Python's integers; no epsilon makes a staircase flat or fills the memory."""
    wide = Staircase.least_variance(1e-9, 10**12)
    assert wide.sample_many(3).dtype == object
    assert isinstance(wide.sample(), int)
    assert Staircase.least_variance(10**6, 10).sample_many(50).tolist() == [0] * 50
    with pytest.raises(InvalidInput, match="too small for a staircase"):
        Staircase.least_variance(1e-13, 1)


@pytest.mark.parametrize("core", [Fraction(1, 4), 5, 0, -1])
def test_a_core_outside_its_range_is_refused(core):
    """Half a step to the sensitivity less half a step."""
    with pytest.raises(InvalidInput):
        Staircase(1, 5, core)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), HALF, 1, 3])
@pytest.mark.parametrize("units", [1, 2, 7, 40])
def test_least_variance_is_the_best_core_of_all(epsilon, units):
    """The search finds what trying every whole core finds; a fractional core is never better."""
    best = Staircase.least_variance(epsilon, units).exact_variance()
    cores = [Staircase(epsilon, units, points - HALF) for points in range(1, units + 1)]
    assert best == min(noise.exact_variance() for noise in cores)
    between = [Staircase(epsilon, units, points - Fraction(1, 4)) for points in range(1, units)]
    assert all(noise.exact_variance() >= best for noise in between)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), HALF, 1, 3])
@pytest.mark.parametrize("units", [1, 2, 7, 40])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_least_interval_is_the_best_whole_core(epsilon, units, confidence):
    """The same for the interpolated length; and the closed form used in the search is that length."""
    best = Staircase.least_interval(epsilon, units, confidence)
    lengths = [Staircase(epsilon, units, p - HALF).confidence_length(confidence) for p in range(1, units + 1)]
    assert best.confidence_length(confidence) == pytest.approx(min(lengths), rel=1e-9)
    closed = 2 * _compute_half_width(units, best.fall, best.points, 1 - confidence)
    assert closed == pytest.approx(best.confidence_length(confidence), rel=1e-9)


def test_the_interval_holds_what_it_says_and_the_next_smaller_does_not():
    """The grid interval is the shortest of at least the confidence; the interpolated one lies within a cell of it."""
    for epsilon, units, core in CASES:
        noise = Staircase(epsilon, units, core)
        for confidence in (0.05, 0.5, 0.9, 0.99):
            low, high = noise.interval(confidence)
            law = compute_window(noise, int(high))
            assert low == -high
            assert sum(law.values()) >= confidence
            assert high == 0 or sum(p for k, p in law.items() if abs(k) < high) < confidence
            assert abs(noise.confidence_length(confidence) - 2 * high) <= 1


GOLDEN = {
    "0.1": (0.49166687608780923, 199.91668056105925, 59.910497782260315, 0.955245, 0.4916680552249556),
    "1": (0.41673743525361695, 1.9181035312355248, 5.986525909880213, 0.99326, 0.41802329313067355),
}


@pytest.mark.parametrize("epsilon", ["0.1", "1"])
@pytest.mark.parametrize("units", [10**6, 10**7])
def test_a_fine_grid_gives_the_published_figures(epsilon, units):
    """Thesis tables 4.1 and 4.2, Delta = 1, within the grid's own error."""
    core, variance, length, widest, laplace = GOLDEN[epsilon]
    step = Fraction(1, units)
    noise = Staircase.least_variance(Fraction(epsilon), 1, step)
    assert float(noise.core) == pytest.approx(core, abs=2e-6)
    assert noise.variance() == pytest.approx(variance, rel=1e-8)
    shortest = Staircase.least_interval(Fraction(epsilon), 1, 0.95, step)
    assert shortest.confidence_length(0.95) == pytest.approx(length, abs=1e-5)
    assert float(shortest.core) == pytest.approx(widest, abs=2e-4)
    assert compute_laplace_core(Fraction(epsilon), 1) == pytest.approx(laplace, abs=1e-12)
    if epsilon == "1":
        assert noise.density_at_zero == pytest.approx(0.5006437567181753, abs=1e-7)


def test_the_grid_of_a_hundred_points():
    """Golden dp.stair.grid: core 42, variance 1.9180982 Delta^2."""
    noise = Staircase.least_variance(1, 100)
    assert noise.points == 42
    assert noise.variance() / 100**2 == pytest.approx(1.918098220001306, abs=1e-6)


def test_laplace_core_is_smooth_where_the_series_takes_over():
    """Either side of 0.01, and near the limit 1/2."""
    assert compute_laplace_core(0.00999999, 3) == pytest.approx(compute_laplace_core(0.01, 3), abs=1e-8)
    assert compute_laplace_core(1e-12, 1) == pytest.approx(0.5, abs=1e-12)


def test_what_a_group_pays():
    """A shift of up to n sensitivities costs n epsilon."""
    noise = Staircase.least_variance(HALF, 10)
    costs = [noise.guarantee(k, "add-remove").epsilon for k in (0, 1, 10, 11, 25)]
    assert costs == [0, HALF, HALF, 1, Fraction(3, 2)]


class StaircaseProgram:
    """The symmetric private laws on a grid whose tail falls by `fall` every `units` points, as a linear programme."""

    def __init__(self, units, fall, periods=3):
        self.units, self.fall, self.last = units, float(fall), periods * units

    def compute_tail_weights(self, of):
        """The sum over the grid of of(k) p(k), as weights of p(0), ..., p(last)."""
        weights = np.zeros(self.last + 1)
        for k in range(self.last + 1 + 60 * self.units * max(1, round(1 / -math.log(self.fall)))):
            periods = max(0, -(-(k - self.last) // self.units))
            weights[k - periods * self.units] += (2 if k else 1) * of(k) * self.fall**periods
        return weights

    def list_privacy_rows(self):
        """Rows of fall p(x) - p(y) <= 0 for all x, y within the sensitivity."""
        rows = []
        for x, shift in itertools.product(range(self.last + 1), range(-self.units, self.units + 1)):
            y = abs(x + shift)
            for a, b in ((x, y), (y, x)):
                row = np.zeros(self.last + 1)
                for place, sign in ((a, self.fall), (b, -1)):
                    beyond = place > self.last
                    row[place - beyond * self.units] += sign * (self.fall if beyond else 1)
                rows.append(row)
        return np.array(rows)

    def list_concentration_rows(self):
        """Rows of P(|N| <= k), k = 0..last."""
        rows = np.tril(np.full((self.last + 1, self.last + 1), 2.0))
        rows[:, 0] = 1
        return rows

    def solve(self, cost, constraint=None, limits=None):
        rows = self.list_privacy_rows()
        left = rows if constraint is None else np.vstack([rows, constraint])
        right = np.zeros(len(rows)) if limits is None else np.concatenate([np.zeros(len(rows)), limits])
        total = self.compute_tail_weights(lambda _: 1)[None, :]
        return linprog(cost, A_ub=left, b_ub=right, A_eq=total, b_eq=[1], bounds=(0, None), method="highs")


@pytest.mark.parametrize("epsilon", [HALF, 1, 2])
@pytest.mark.parametrize(("units", "core"), [(1, "0.5"), (2, "0.75"), (3, "1.5"), (4, "3.5"), (5, "2.2"), (6, "0.5")])
def test_no_private_law_is_smaller(epsilon, units, core):
    """Theorem 2 on the grid: of the laws at least as concentrated, the most concentrated gains nothing."""
    noise = Staircase(epsilon, units, Fraction(core))
    programme = StaircaseProgram(units, noise.fall)
    inner = programme.list_concentration_rows()
    smallest_cost = inner @ np.array([float(noise.probability(k)) for k in range(programme.last + 1)])
    best = programme.solve(-inner.sum(axis=0), -inner, -smallest_cost + 1e-12)
    assert best.status == 0
    assert -best.fun - smallest_cost.sum() == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize("epsilon", [HALF, 1, 2])
@pytest.mark.parametrize("units", [1, 2, 3, 5, 8])
def test_no_private_law_has_less_variance(epsilon, units):
    """The linear programme that minimises the variance finds least_variance."""
    noise = Staircase.least_variance(epsilon, units)
    programme = StaircaseProgram(units, noise.fall)
    best = programme.solve(programme.compute_tail_weights(lambda k: k * k))
    assert best.status == 0
    assert best.fun == pytest.approx(noise.variance(), rel=1e-7)


def test_the_programme_does_find_something_smaller_where_there_is():
    """The trap works: Laplace noise on the grid is not the least, and the programme says so."""
    units, fall = 4, compute_fall(Fraction(1))
    programme = StaircaseProgram(units, fall)
    law = np.array([float(fall) ** (k / units) for k in range(programme.last + 1)])
    law /= programme.compute_tail_weights(lambda _: 1) @ law
    inner = programme.list_concentration_rows()
    best = programme.solve(-inner.sum(axis=0), -inner, -(inner @ law) + 1e-12)
    assert -best.fun - (inner @ law).sum() > 0.01
