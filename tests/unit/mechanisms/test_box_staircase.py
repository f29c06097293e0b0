"""The box staircase: exact law, exact privacy, exact draws, the published example, and nothing smaller nearby."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from discreet.errors import InvalidInput
from discreet.mechanisms.box_staircase import (
    BoxStaircase,
    NestedBoxes,
    compute_order_odds,
    expand_in_binomials,
    sum_series,
)
from discreet.mechanisms.entropy import SYSTEM
from discreet.mechanisms.noise_order import check_density
from discreet.mechanisms.staircase import Staircase, compute_fall, find_best_core
from discreet.verification import assert_fits

HALF = Fraction(1, 2)
BASE = 401
"""Two coordinates as one whole number: x BASE + y, |y| <= 200."""


def compute_grid(noise, reach):
    points = itertools.product(*(range(-k, k + 1) for k in reach))
    return {point: noise.probability(point) for point in points}


@pytest.mark.parametrize(
    ("epsilon", "widths", "core"),
    [
        (1, (3, 2), None),
        (HALF, (1, 4), (HALF, Fraction(7, 2))),
        (2, (2, 2, 1), (HALF, Fraction(3, 2), HALF)),
        (1, (3,), None),
    ],
)
def test_the_worst_ratio_within_the_box_is_exactly_the_step(epsilon, widths, core):
    """Privacy for every difference inside the box, exactly, and attained."""
    noise = BoxStaircase(epsilon, widths, core)
    reach = tuple(3 * width for width in widths)
    shifts = list(itertools.product(*(range(-w, w + 1) for w in widths)))

    def is_in_reach(point):
        return all(abs(x) <= k for x, k in zip(point, reach, strict=True))

    assert check_density(compute_grid(noise, reach), shifts, is_in_reach).worst_ratio == 1 / noise.boxes.fall


@pytest.mark.parametrize(("epsilon", "widths", "core"), [(2, (3, 2), None), (3, (1, 4), (HALF, Fraction(7, 2)))])
def test_the_closed_forms_are_the_sums(epsilon, widths, core):
    """Total, variances, mean errors, tails and usefulness agree with sums over a wide window."""
    noise = BoxStaircase(epsilon, widths, core)
    probabilities = {x: float(p) for x, p in compute_grid(noise, [20 * w for w in widths]).items()}
    assert sum(probabilities.values()) == pytest.approx(1, abs=1e-12)
    for a in range(2):
        assert sum(x[a] ** 2 * p for x, p in probabilities.items()) == pytest.approx(noise.variance()[a], rel=1e-10)
        assert sum(abs(x[a]) * p for x, p in probabilities.items()) == pytest.approx(
            noise.expected_error()[a], rel=1e-10
        )
        for k in (0, 1, 3, 7, 12):
            assert sum(p for x, p in probabilities.items() if abs(x[a]) > k) == pytest.approx(
                noise.tail_units(a, k), rel=1e-6
            )
    for k in (1, 2, 6, 11):
        missed = sum(p for x, p in probabilities.items() if max(map(abs, x)) > k)
        assert noise.useful(k) == pytest.approx(missed, rel=1e-6)
        assert noise.useful(k, answers=3) == pytest.approx(1 - (1 - missed) ** 3, rel=1e-6)


def test_one_component_is_the_staircase():
    """In one dimension the two constructions are the same law."""
    for points in (1, 2, 4):
        box, line = BoxStaircase(1, [4], [points - HALF]), Staircase(1, 4, points - HALF)
        assert all(box.probability([k]) == line.probability(k) for k in range(-20, 21))
        assert box.exact_variance() == (line.exact_variance(),)
        assert box.expected_error() == (line.expected_error(),)
        assert box.interval(0.9) == (line.interval(0.9),)
        assert box.region(0.9)[1] == pytest.approx(line.confidence_length(0.9), rel=1e-9)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=5), st.integers(0, 12))
@settings(max_examples=60)
def test_a_product_of_lines_is_a_sum_of_binomials_without_minus(factors, i):
    """The mixture over j exists because no coefficient is negative."""
    form = expand_in_binomials(factors)
    assert all(c >= 0 for c in form)
    assert sum(c * math.comb(i, j) for j, c in enumerate(form)) == math.prod(a + b * i for a, b in factors)


def test_the_sum_of_a_series_is_exact():
    """Against a long partial sum whose rest is known to be small."""
    fall = Fraction(1, 3)
    partial = sum(fall**i * (1 + 2 * i) * (5 + i) for i in range(80))
    assert 0 < sum_series([(1, 2), (5, 1)], fall) - partial < Fraction(1, 10**30)


def compute_negative_binomial(total, parts, fall):
    """P(G_1 + ... + G_parts = total) for geometrics."""
    return math.comb(total + parts - 1, total) * fall**total * (1 - fall) ** parts if total >= 0 else 0


@pytest.mark.parametrize(("reaches", "widths"), [((0,), (1,)), ((1, 0), (3, 2)), ((2, 2, 0), (3, 4, 1))])
def test_the_mixture_of_a_draw_is_the_law_of_the_box(reaches, widths):
    """Enumerated: j by the coins, then j + 1 geometrics and j more, is fall^i N_i over its sum, exactly."""
    boxes = NestedBoxes(reaches, widths, compute_fall(Fraction(1)))
    odds = compute_order_odds(boxes)
    assert odds[-1] == 1
    for i in range(12):
        total, left = Fraction(0), Fraction(1)
        for j, chance in enumerate(odds):
            total += left * chance * compute_negative_binomial(i - j, j + 1, boxes.fall)
            left *= 1 - chance
        points = math.prod(2 * (r + i * w) + 1 for r, w in zip(reaches, widths, strict=True))
        assert total == boxes.fall**i * points / boxes.total


def build_box_law(noise):
    """The law on x BASE + y, in floats."""
    height, fall = float(noise.probability((0, 0))), float(noise.boxes.fall)

    def compute_code_probability(code):
        y = (code + BASE // 2) % BASE - BASE // 2
        return height * fall ** noise.level(((code - y) // BASE, y))

    return compute_code_probability


def code_draws(draws):
    return [int(x) * BASE + int(y) for x, y in draws if abs(y) <= BASE // 2 and abs(x) < 100]


def test_draws_fit_their_law_and_no_law_a_tenth_off():
    """Two jaws, many at a time."""
    noise, small, large = (BoxStaircase(Fraction(e), (2, 3), (HALF, Fraction(5, 2))) for e in ("1.5", "1.65", "1.35"))
    assert_fits(
        code_draws(noise.sample_many(150_000)), build_box_law(noise), build_box_law(small), build_box_law(large)
    )


@pytest.mark.parametrize("count", [4_000, pytest.param(15_000, marks=pytest.mark.soak)])
def test_single_draws_fit_too(count):
    """Two jaws, one at a time."""
    noise, small, large = (BoxStaircase(Fraction(e), (2, 1), (Fraction(3, 2), HALF)) for e in ("2", "2.3", "1.7"))
    assert_fits(
        code_draws(noise.sample() for _ in range(count)),
        build_box_law(noise),
        build_box_law(small),
        build_box_law(large),
    )


@pytest.mark.parametrize("epsilon", ["1.65", "1.35"])
def test_a_sampler_a_tenth_off_is_caught(epsilon):
    """The trap itself works."""
    claimed, wrong = (BoxStaircase(Fraction(e), (2, 3), (HALF, Fraction(5, 2))) for e in ("1.5", epsilon))
    with pytest.raises(AssertionError):
        assert_fits(code_draws(wrong.sample_many(150_000)), build_box_law(claimed), lambda _: 1e-12, lambda _: 1e-12)


def test_three_components_and_the_wide_path_have_the_right_variances():
    """Python's integers where 64 bits may not do; the sample variance within eight standard errors."""
    noise = BoxStaircase(1, (2, 3, 1))
    wide = BoxStaircase(1, (2**60, 1))
    for box_noise, size in ((noise, 40_000), (wide, 4_000)):
        draws = box_noise.sample_many(size)
        assert draws.shape == (size, len(box_noise.widths))
        for column, variance in zip(np.asarray(draws, dtype=float).T, box_noise.variance(), strict=True):
            squares = column**2
            assert abs(squares.mean() - variance) < 8 * squares.std() / size**0.5
    assert wide.sample_many(2).dtype == object


def test_every_single_draw_takes_the_same_entropy():
    """How much is drawn does not follow what comes out."""

    class Counting:
        taken = 0

        def take(self, count):
            self.taken += count
            return SYSTEM.take(count)

    noise, amounts = BoxStaircase(1, (5, 3)), Counter()
    for _ in range(200):
        entropy = Counting()
        noise.sample(entropy)
        amounts[entropy.taken] += 1
    # A tie in 16 digits, once in thousands of draws, takes eight bytes more.
    assert amounts[min(amounts)] > 180
    assert all((amount - min(amounts)) % 8 == 0 for amount in amounts)


STEP = Fraction(2, 10) / 20001


def test_example_5_of_the_thesis():
    """S_f = [-1,1] x [-10,10], S_0 a tenth of it, epsilon 1: the density, the variances, the corrected regions."""
    noise = BoxStaircase(1, (1, 10), (Fraction(1, 10), 1), (STEP, 10 * STEP))
    assert noise.boxes.widths == (100005, 100005)
    assert noise.density_at_zero == pytest.approx(0.018040566152309426, abs=1e-12)
    assert noise.variance()[0] == pytest.approx(4.033804798848805, abs=1e-8)
    assert noise.variance()[1] == pytest.approx(403.3804798848804, abs=1e-6)
    for confidence, beta, size in (
        (0.99, 6.588547839911127, 1789.4668882711917),
        (0.95, 4.688, 916.89),
        (0.9, 3.808395380052418, 611.0221778726034),
    ):
        loose = confidence == 0.95
        assert noise.region(confidence)[0] == pytest.approx(beta, abs=5e-4 if loose else 1e-6)
        assert noise.region(confidence)[1] == pytest.approx(size, abs=5e-3 if loose else 1e-3)


def test_the_best_core_of_example_5():
    """Scale .6975 of S_f, variances 3.971 and 397.1: better than the thesis's tenth."""
    noise = BoxStaircase(1, (1, 10), step=(STEP, 10 * STEP))
    assert float(noise.core[0]) == pytest.approx(0.6975, abs=1e-4)
    assert float(noise.core[1]) == pytest.approx(6.975, abs=1e-3)
    assert noise.variance() == pytest.approx((3.971, 397.1), abs=0.05)


@pytest.mark.parametrize("components", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("epsilon", [HALF, 1, 3])
def test_the_best_core_is_no_worse_than_any_other(components, epsilon):
    """A scan of cores finds none better, also where the best lies just above 0 (four components and more)."""
    fall = compute_fall(Fraction(epsilon))

    def compute_spread(core):
        line = [(Fraction(core), 1)]
        return sum_series(line * (components + 2), fall) / sum_series(line * components, fall)

    best = compute_spread(find_best_core(fall, components))
    assert all(float(best) <= float(compute_spread(Fraction(k, 200))) * (1 + 1e-9) for k in range(1, 201))


def test_the_best_core_on_a_coarse_grid():
    """Among all cores of one share of the widths, the exact normalised variance is the least."""
    noise = BoxStaircase(1, (6, 6))
    cores = [BoxStaircase(1, (6, 6), (k + HALF, k + HALF)) for k in range(6)]
    assert sum(noise.exact_variance()) == min(sum(other.exact_variance()) for other in cores)


def test_a_region_holds_what_it_says():
    """Monte Carlo on a fine grid: the box core + beta widths holds the confidence; below 0 it lies in the core."""
    noise = BoxStaircase(1, (1000, 300))
    draws = np.abs(noise.sample_many(100_000).astype(float))
    for confidence in (0.02, 0.5, 0.9):
        beta, size = noise.region(confidence)
        ends = np.array([float(c) + beta * float(w) for c, w in zip(noise.core, noise.widths, strict=True)])
        assert size == pytest.approx(np.prod(2 * ends), rel=1e-9)
        share_inside = (draws <= ends).all(axis=1).mean()
        assert share_inside == pytest.approx(confidence, abs=6 * (confidence / 100_000) ** 0.5 + 0.002)


def test_intervals_hold_what_they_say():
    """Each component's interval is the shortest on the grid."""
    noise = BoxStaircase(1, (5, 2), step=(1, HALF))
    for confidence in (0.1, 0.5, 0.95):
        for a, ((low, high), step) in enumerate(zip(noise.interval(confidence), noise.steps, strict=True)):
            units = int(high / step)
            assert low == -high
            assert noise.tail_units(a, units) <= 1 - confidence
            assert units == 0 or noise.tail_units(a, units - 1) > 1 - confidence


def test_costs_and_answers():
    """A shift of two widths costs two epsilon; one answer costs epsilon; steps turn units into values."""
    noise = BoxStaircase(HALF, (5, 2), step=(1, HALF))
    assert noise.boxes.widths == (5, 4)
    assert [noise.epsilon_at(d) for d in ((0, 0), (5, 4), (6, 0), (0, 12))] == [0, HALF, 1, Fraction(3, 2)]
    assert noise.cost("replace-one").epsilon == HALF
    assert noise.cost("replace-one").neighbors == "replace-one"
    assert len(noise.answer((10, 20))) == 2
    assert all((value / HALF).denominator == 1 for value in map(Fraction, noise.sample()))
    assert noise.sample_many(5).dtype == np.float64


def test_whole_steps_give_whole_multiples():
    """Integers stay integers."""
    draws = BoxStaircase(1, (6, 9), step=(2, 3)).sample_many(50)
    assert draws.dtype == np.int64
    assert (draws % np.array([2, 3]) == 0).all()


@pytest.mark.parametrize(
    ("widths", "core", "step"),
    [
        ((), None, 1),
        ((1, 2), None, (1,)),
        ((2, 2), (HALF,), 1),
        ((2, 2), (HALF, Fraction(5, 2)), 1),
    ],
)
def test_what_makes_no_sense_is_refused(widths, core, step):
    """One plain sentence."""
    with pytest.raises(InvalidInput):
        BoxStaircase(1, widths, core, step)


class QuadrantProgram:
    """Laws symmetric in each component that are private, nearer to 0 than a box staircase, and its multiple far out."""

    def __init__(self, noise, levels):
        self.noise, self.fall = noise, float(noise.boxes.fall)
        ends = [r + levels * w for r, w in zip(noise.boxes.half_widths, noise.boxes.widths, strict=True)]
        self.points = list(itertools.product(*(range(end + 1) for end in ends)))
        self.copies = np.array([math.prod(1 + (x > 0) for x in point) for point in self.points])
        self.law = np.array([float(noise.probability(point)) for point in self.points])
        self.moves = [
            (i, j) for i, y in enumerate(self.points) for j, x in enumerate(self.points) if self.is_below(x, y)
        ]

    @staticmethod
    def is_below(x, y):
        return all(a <= b for a, b in zip(x, y, strict=True))

    def minimize_error(self):
        """Variables: the new law, the multiple far out, the moves, and what far out gives back (to anywhere)."""
        n, m = len(self.points), len(self.moves)
        far = 1 - (self.copies * self.law).sum()
        entries = [(i, n + 1 + k, 1.0) for k, (i, _) in enumerate(self.moves)]
        entries += [(n + j, n + 1 + k, 1.0) for k, (_, j) in enumerate(self.moves)]
        for j in range(n):
            entries += [(n + j, n + 1 + m + j, 1.0), (n + j, j, -self.copies[j]), (2 * n, n + 1 + m + j, 1.0)]
        equal = build_matrix([*entries, (2 * n, n, far)], 2 * n + 1, 2 * n + 1 + m)
        rows = list(self.list_privacy_rows())
        ratio = build_matrix([(r, c, v) for r, row in enumerate(rows) for c, v in row], len(rows), 2 * n + 1 + m)
        near = self.copies * np.array([sum(point) for point in self.points])
        cost = np.concatenate([near, [sum(self.noise.expected_error()) - near @ self.law], np.zeros(n + m)])
        bounds = [(0, None)] * n + [(0, 1)] + [(0, None)] * (n + m)
        right_side = np.concatenate([self.copies * self.law, np.zeros(n), [far]])
        return linprog(cost, ratio, np.zeros(len(rows)), equal, right_side, bounds, method="highs")

    def list_privacy_rows(self):
        place = {point: i for i, point in enumerate(self.points)}
        shifts = list(itertools.product(*(range(-w, w + 1) for w in self.noise.boxes.widths)))
        for i, point in enumerate(self.points):
            for there in {tuple(abs(a + b) for a, b in zip(point, shift, strict=True)) for shift in shifts}:
                column, size = (
                    (place[there], 1.0) if there in place else (len(self.points), self.compute_far_probability(there))
                )
                if column != i:
                    yield [(i, self.fall), (column, -size)]
                    yield [(i, -1.0), (column, self.fall * size)]

    def compute_far_probability(self, point):
        return float(self.noise.probability(point))


def build_matrix(entries, rows, columns):
    places, values = [(r, c) for r, c, _ in entries], [v for *_, v in entries]
    return coo_matrix((values, tuple(zip(*places, strict=True))), shape=(rows, columns)).tocsr()


@pytest.mark.parametrize("epsilon", [HALF, 2])
@pytest.mark.parametrize(
    ("widths", "core", "levels"),
    [((1, 1), (1, 1), 3), ((1, 2), (1, 3), 2), ((2, 2), (3, 3), 2), ((2, 2), (1, 3), 2), ((3, 3), (3, 5), 1)],
)
def test_moving_mass_towards_zero_breaks_privacy(epsilon, widths, core, levels):
    """Theorem 3 on small grids: no private law is smaller, among those that are a multiple of ours far out."""
    noise = BoxStaircase(epsilon, widths, [Fraction(c, 2) for c in core])
    best = QuadrantProgram(noise, levels).minimize_error()
    assert best.status == 0
    assert best.fun == pytest.approx(sum(noise.expected_error()), abs=1e-9)
