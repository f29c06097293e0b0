"""What a refinement by facts tells: the document's examples, the density itself, and a dual that meets the solver."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, sparse

from discreet import Guarantee, InvalidInput, rho
from discreet.constraints import scale_for_rho
from discreet.estimation.refinement_cost import build_fact_guarantee, compute_rho_apart, shorten_rho

HALVES = [[0.5, -0.5], [-0.5, 0.5]], [[0.5], [0.5]]
"""Example 1: two categories whose sum is known."""
SCHOOL = np.array(
    [[1, 1, 1, 1, 0, -1, 0], [0, 0, 0, 0, 1, 1, -1], [1, 1, 0, 0, 0, 0, 0]],
).T
"""Grades A, B, C, D, F, those who passed, all: two sums that always hold, and A + B = 80."""


def build_least_squares(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least squares, by the formula of document 002."""
    inverse = np.linalg.inv(sums.T @ sums)
    return np.eye(len(sums)) - sums @ inverse @ sums.T, sums @ inverse


def build_appendix_example(k: int) -> tuple[list[list[float]], list[list[float]]]:
    return [[1 / (k + 1), 1 / (k + 1)], [0, 1]], [[1 / (k + 1)], [0]]


def test_two_categories_with_a_known_sum() -> None:
    """The number whose person changed has 2 epsilon, the other 0, and both together no bound."""
    epsilon = 0.3
    assert rho(*HALVES, 1 / epsilon, [1], [1, 0], [0]) == pytest.approx(2 * epsilon, rel=1e-15)
    assert rho(*HALVES, 1 / epsilon, [1], [1, 0], [1]) == 0
    assert rho(*HALVES, 1 / epsilon, [1], [1, 0]) == math.inf
    assert rho(*HALVES, 1 / epsilon, [[1], [1]], [[1, 0], [0, 1]], [1]) == pytest.approx(2 * epsilon, rel=1e-15)


def test_two_categories_reach_it_from_below() -> None:
    """By the density (s + 2|y|) exp(-2|y| / s) / (2 s^2): 1.9 at 10, 1.999 at 1,000, never 2."""
    ratios = [2 + math.log((1 + 2 * (x - 1)) / (1 + 2 * x)) for x in (10, 100, 1000, 10_000)]
    assert ratios[0] == pytest.approx(1.8999165414430175, abs=1e-12)
    assert ratios == sorted(ratios)
    assert 1.9998 < ratios[-1] < rho(*HALVES, 1, [1], [1, 0], [0]) == 2


@pytest.mark.parametrize("k", [1, 2, 5, 10])
def test_the_appendix(k: int) -> None:
    """(k + 1) / 2 epsilon for the first number; with the second, which is not refined, (k + 3) / 2."""
    matrices, epsilon = build_appendix_example(k), 0.7
    assert rho(*matrices, 2 / epsilon, [k + 1], [1, -1], [0]) == pytest.approx((k + 1) / 2 * epsilon, rel=1e-14)
    assert rho(*matrices, 2 / epsilon, [k + 1], [1, -1]) == pytest.approx((k + 3) / 2 * epsilon, rel=1e-12)
    shift, scale = k + 1, 2 / epsilon  # the sum of two Laplace numbers moves by k + 1
    reached = [shift / scale + math.log((scale + x - shift) / (scale + x)) for x in (100, 10_000, 1e6)]
    assert reached == sorted(reached)
    assert 0 < (k + 1) / 2 * epsilon - reached[-1] < 1e-4


def test_the_school() -> None:
    """Two sums that hold always keep epsilon; the third, a fact, leaves all numbers together without a bound."""
    changes = np.array([[1, 0, 0, 0, 0, 1, 1], [0, 0, 1, 0, 0, 1, 1], [0, 0, 0, 0, 1, 0, 1]])
    epsilon = max(np.abs(changes).sum(axis=1)) / 30
    assert rho(*build_least_squares(SCHOOL[:, :2]), 30, np.zeros((3, 2)), changes) <= epsilon
    facts = changes @ SCHOOL
    assert facts.tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 0]]
    assert rho(*build_least_squares(SCHOOL), 30, facts, changes) == math.inf
    assert 0 < compute_rho_apart(*build_least_squares(SCHOOL), 30, facts, changes) < math.inf


def test_the_signs_of_a_decomposition_change_nothing() -> None:
    """Theorem 2 as printed depends on them; rho does not."""
    sums = np.array([[1.0, 1, 0], [0, 1, 1]]).T
    matrix, constants = build_least_squares(sums)
    left, values, right = np.linalg.svd(matrix)
    losses = set()
    for signs in np.ndindex(2, 2, 2):
        flip = 1 - 2 * np.array(signs)
        flipped = (left * flip) @ np.diag(values) @ (right.T * flip).T
        losses.add(round(rho(flipped, constants, 2, [1, 1], [0, 1, 0], [0, 2]), 12))
        assert rho(flipped, constants, 2, [1, 1], [0, 1, 0]) == math.inf
    assert len(losses) == 1


st_sizes = st.integers(1, 4)
st_entries = st.floats(-3, 3).map(lambda x: round(x, 3))


@settings(max_examples=60, deadline=None)
@given(st.data(), st_sizes, st_sizes, st_sizes)
def test_the_same_constants_cost_no_more_than_the_answers(
    data: st.DataObject, n: int, m: int, answer_count: int
) -> None:
    """Post-processing: rho is at most the sum of |change| / scale, whatever A and D."""
    matrix = np.array(
        data.draw(st.lists(st.lists(st_entries, min_size=n, max_size=n), min_size=answer_count, max_size=answer_count))
    )
    constants = np.array(
        data.draw(st.lists(st.lists(st_entries, min_size=m, max_size=m), min_size=answer_count, max_size=answer_count))
    )
    change = np.array(data.draw(st.lists(st_entries, min_size=n, max_size=n)))
    scales = np.array(data.draw(st.lists(st.floats(0.1, 10), min_size=n, max_size=n)))
    epsilon = np.abs(change / scales).sum()
    assert rho(matrix, constants, scales, np.zeros(m), change) <= epsilon * (1 + 1e-12)
    assert compute_rho_apart(matrix, constants, scales, np.zeros(m), change) <= epsilon * (1 + 1e-12)


def bound_cost_below(matrix: np.ndarray, scales: np.ndarray, step: np.ndarray) -> float:
    """A lower bound on rho: step' y for a y with |T' y| <= 1 / scale, made exactly so."""
    limits = np.tile(1 / scales, 2)
    solved = optimize.linprog(-step, A_ub=np.vstack((matrix.T, -matrix.T)), b_ub=limits, bounds=(-1e3, 1e3))
    return float(step @ solved.x / max(1, (np.abs(matrix.T @ solved.x) * scales).max()))


@pytest.mark.parametrize("seed", range(40))
def test_the_dual_meets_it(seed: int) -> None:
    """No y shows rho to be more than is returned, and the best shows it to be no less: 1e-9 is the gap."""
    chance = np.random.default_rng(seed)
    rows, width = chance.integers(2, 5), chance.integers(5, 9)
    matrix, scales = chance.normal(size=(rows, width)), chance.uniform(0.5, 3, width)
    constants, moved = chance.normal(size=(rows, 2)), chance.normal(size=2)
    change = chance.normal(size=width)
    least = bound_cost_below(matrix, scales, matrix @ change + constants @ moved)
    cost = rho(matrix, constants, scales, moved, change)
    assert least <= cost * (1 + 1e-12)
    assert cost <= least * (1 + 1e-9)


@pytest.mark.parametrize(("weights", "scales"), [((1, 0.5), (1, 1)), ((0.5, -0.5), (1, 3)), ((2, 1), (0.2, 1))])
def test_it_is_the_largest_log_ratio_of_the_densities(weights: tuple, scales: tuple) -> None:
    """The density of two weighted noises by quadrature: never above rho, and at it in the tail."""

    def compute_density(y: float) -> float:
        (one, two), (first, second) = weights, scales
        kinks = sorted({0.0, y / one})
        reach = 60 * max(scales) * max(1, abs(two / one)) + abs(y / one)

        def compute_joint_density(x: float) -> float:
            return math.exp(-abs(x) / first - abs((y - one * x) / two) / second)

        ends = [-reach, *kinks, reach]
        return sum(
            integrate.quad(compute_joint_density, low, high, epsabs=0, epsrel=1e-11, limit=200)[0]
            for low, high in pairwise(ends)
        )

    step = 0.8
    bound = rho([weights], [[1]], scales, [step], [0, 0])
    ratios = [math.log(compute_density(y) / compute_density(y + step)) for y in np.linspace(-12, 12, 25)]
    assert max(ratios) <= bound + 1e-8
    assert max(ratios) == pytest.approx(bound, rel=2e-3)


def test_draws_come_near_it_and_not_above() -> None:
    """One of three cells with a known sum, 200,000 draws on each side: 1.5 is nearly reached."""
    chance = np.random.default_rng(7)
    matrix, constants = build_least_squares(np.ones((3, 1)))
    bound = rho(matrix, constants, 1, [1], [1, 0, 0], [0])
    assert bound == pytest.approx(1.5, rel=1e-12)
    one, two = (matrix[0] @ chance.laplace(size=(3, 200_000)) + shift for shift in (1, 0))
    counts = [np.histogram(side, bins=np.linspace(-4, 5, 37))[0] for side in (one, two)]
    full = np.minimum(*counts) >= 400
    ratios = np.abs(np.log(counts[0][full] / counts[1][full]))
    assert 1.3 < ratios.max() < bound + 4 * math.sqrt(2 / 400)


def test_dense_and_sparse_agree() -> None:
    chance = random.Random(3)
    matrix = np.array([[chance.choice([0, 0, 1, -0.5]) for _ in range(6)] for _ in range(6)])
    constants, change = np.eye(6)[:, :2], [1, 0, 0, 0, -1, 0]
    for places in (None, [1], [4, 0], np.array([2, 3, 5])):
        dense = rho(matrix, constants, 2, [0.25, 0], change, places)
        assert rho(sparse.csr_array(matrix), sparse.coo_array(constants), 2, [0.25, 0], change, places) == dense


def test_the_worst_pair_counts() -> None:
    """Several pairs of neighbours; one vector stands beside all rows of the other."""
    pairs = [[1, 0], [0, 3], [1, 1]]
    apart = [rho([[1, 0], [0, 1]], [[0], [0]], 1, [0], pair) for pair in pairs]
    assert apart == [1, 3, 2]
    assert rho([[1, 0], [0, 1]], [[0], [0]], 1, [0], pairs) == 3


def test_rounding_is_no_way_out() -> None:
    """A cell that is known tells nothing of its noise: its row of A is 0 but for rounding, and there is no bound."""
    third = 1 / 3
    almost_zero = 1 - (third + third + third)
    assert rho([[almost_zero + 2**-54]], [[1]], 1, [1], [1]) == math.inf
    assert rho([[2**-54, 0], [0, 1]], [[1], [0]], 1, [1], [1, 0]) == math.inf
    assert rho([[2**-54]], [[0]], 1, [1], [1]) == 0
    assert rho([[1, 0], [0, 1e-8]], [[0], [0]], 1, [0], [1, 1]) == 2
    sums = np.vander(np.linspace(1, 2, 12), 4)
    matrix, constants = build_least_squares(sums)
    assert rho(matrix, constants, 1, np.ones(4), np.zeros(12)) == math.inf
    assert rho(matrix, constants, 1, np.ones(4) * 0, np.eye(12)) <= 1


def test_the_scale_brings_it_down() -> None:
    scale = scale_for_rho(0.1, *HALVES, [1], [1, 0], [0])
    assert scale == pytest.approx(20, rel=1e-13)
    assert rho(*HALVES, scale, [1], [1, 0], [0]) <= 0.1
    assert scale_for_rho(0.1, *HALVES, [1], [1, 0], [1]) == 0
    with pytest.raises(InvalidInput, match="no noise scale bounds what these refined numbers tell"):
        scale_for_rho(0.1, *HALVES, [1], [1, 0])
    with pytest.raises(InvalidInput, match="epsilon must be above 0"):
        scale_for_rho(0, *HALVES, [1], [1, 0], [0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [[1]], 1, [1], [1]), "A must be a matrix"),
        (([[]], [[1]], 1, [1], [1]), "A must be a matrix"),
        (([[1, 2], [3]], [[1]], 1, [1], [1]), "A must be a matrix"),
        (([["x", 2]], [[1]], 1, [1], [1, 1]), "A must hold finite numbers"),
        (([[math.nan, 2]], [[1]], 1, [1], [1, 1]), "A must hold finite numbers"),
        (([[1, 2]], [[1], [2]], 1, [1], [1, 1]), "D must have a row for each of the 1 rows of A, got 2"),
        (([[1, 2]], [1], 1, [1], [1, 1]), "D must be a matrix"),
        (([[1, 2]], [[1]], 0, [1], [1, 1]), "noise_scale must be a number above 0, or one for each of the 2 answers"),
        (([[1, 2]], [[1]], [1, 2, 3], [1], [1, 1]), "noise_scale must be"),
        (([[1, 2]], [[1]], math.inf, [1], [1, 1]), "noise_scale must hold finite"),
        (([[1, 2]], [[1]], 1, [1, 1], [1, 1]), "constants_change must be 1 numbers"),
        (([[1, 2]], [[1]], 1, [1], [1]), "answers_change must be 2 numbers"),
        (([[1, 2]], [[1]], 1, [1], np.zeros((0, 2))), "answers_change must be 2 numbers"),
        (([[1, 2]], [[1]], 1, [[1], [2]], [[1, 1]] * 3), "a row for each pair of neighbours, got 2 and 3"),
        (([[1, 2]], [[1]], 1, [1], [1, 1], [1]), "components must be places among the 1 refined numbers"),
        (([[1, 2]], [[1]], 1, [1], [1, 1], []), "components must be places"),
        (([[1, 2]], [[1]], 1, [1], [1, 1], [0, 0]), "components must be places"),
        (([[1, 2]], [[1]], 1, [1], [1, 1], "0"), "components must be places"),
        ((sparse.eye_array(6000), np.zeros((6000, 1)), 1, [1], np.zeros(6000)), "at most 25,000,000 entries of A"),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refusal:
        rho(*arguments)
    assert "\n" not in str(refusal.value)


def test_a_refinement_by_facts_is_not_called_differential_privacy() -> None:
    """The label says which facts, that all numbers together have no bound, and what each has."""
    before = Guarantee.dp(0.1, unit="unit (pid)")
    label = build_fact_guarantee(before, ["women = 80", "A + B = 12"], 0.2)
    assert (label.model, label.epsilon, label.unit) == ("nominal", Fraction(1, 5), "unit (pid)")
    assert label.words() == "No proven promise: 0.2 is a figure that bounds nothing, and counts in no account."
    assert label.assumptions == (
        "the refinement used facts of this data set: women = 80; A + B = 12",
        "all refined numbers together have no bound",
        "each refined number apart has rho 0.2 by continuous Laplace noise, and may be more by noise on whole numbers",
        f"the answers before the refinement keep their own promise: {before.words()}",
    )
    assert not label.implies(before)
    unbounded = build_fact_guarantee(before, ["women = 80"], math.inf)
    assert (unbounded.epsilon, unbounded.assumptions[2]) == (Fraction(1, 10), "each refined number apart has no bound")


def test_a_label_by_facts_needs_facts() -> None:
    with pytest.raises(InvalidInput, match="names at least one fact"):
        build_fact_guarantee(Guarantee.dp(1), [], 1)
    with pytest.raises(InvalidInput, match="a rho of at least 0"):
        build_fact_guarantee(Guarantee.dp(1), ["x"], math.nan)
    with pytest.raises(InvalidInput, match="which is dp, got zcdp"):
        build_fact_guarantee(Guarantee.zcdp(1), ["x"], 1)


def test_a_loss_is_told_short_or_rounded_up() -> None:
    """2 for what a solver makes of 2; else no digit too low."""
    assert [shorten_rho(x) for x in (2.000000000000007, 0.3, 0.0)] == [2, Fraction(3, 10), 0]
    assert shorten_rho(1 / 3) == Fraction("0.333334")
    assert shorten_rho(math.pi) == Fraction("3.1416")
    assert shorten_rho(123456789.5) == 123457000
