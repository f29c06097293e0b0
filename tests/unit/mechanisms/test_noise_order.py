"""The order of noises: Definitions 6 and 7 exactly, the density condition, and Theorem 1 on random private laws."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidInput
from discreet.mechanisms.noise_order import (
    check_density,
    compute_max_flow,
    fold_distribution,
    satisfies_density,
    smaller,
    staircase_from,
)
from discreet.mechanisms.staircase import Staircase, compute_laplace_core, compute_rate

HALF = Fraction(1, 2)
F = Fraction


def st_laws(points):
    """Laws on given points, of mass at most 1."""
    sizes = st.lists(st.integers(0, 6), min_size=len(points), max_size=len(points))
    return sizes.filter(any).map(lambda w: {p: F(v, max(sum(w), 8)) for p, v in zip(points, w, strict=True)})


def list_closed_sets(points):
    """All sets of points that hold, with a point, every point of the box it spans with 0."""
    for chosen in itertools.product([False, True], repeat=len(points)):
        subset = {p for p, take in zip(points, chosen, strict=True) if take}
        if all(q in subset for p in subset for q in points if is_nearer(q, p)):
            yield subset


def is_nearer(q, p):
    return all(0 <= a <= b or b <= a <= 0 for a, b in zip(q, p, strict=True))


def is_obviously_smaller(one, two, points):
    return all(
        sum(one.get(p, 0) for p in subset) >= sum(two.get(p, 0) for p in subset) for subset in list_closed_sets(points)
    )


LINE = [-2, -1, 0, 1, 2]
PLANE = [(0, 0), (1, 0), (0, 1), (1, 1), (-1, 0), (-1, 1), (2, 1)]


@given(st_laws(LINE), st_laws(LINE))
@settings(max_examples=150)
def test_on_the_line_every_interval_around_zero_counts(one, two):
    """The closed sets of the line are -b..a; the shortcut says what enumerating them says."""
    points = [(k,) for k in LINE]
    lifted = [{(k,): p for k, p in law.items()} for law in (one, two)]
    assert smaller(one, two) == smaller(*lifted) == is_obviously_smaller(*lifted, points)


def test_definition_6_taken_literally_would_count_zero_twice():
    """Half the mass moved from -1 and 1 to 0 and half away to 2: each side alone gains, the noise is not smaller."""
    one, two = {0: HALF, 2: HALF}, {-1: HALF, 1: HALF}
    for side in (1, -1):
        for a in (0, 1, 2):
            assert sum(one.get(k * side, 0) for k in range(a + 1)) >= sum(two.get(k * side, 0) for k in range(a + 1))
    assert not smaller(one, two)


@given(st_laws(PLANE), st_laws(PLANE))
@settings(max_examples=150)
def test_definition_7_by_flow_is_the_order_of_all_closed_sets(one, two):
    """Strassen: the flow decides what enumerating every closed set decides, unequal masses included."""
    assert smaller(one, two) == is_obviously_smaller(one, two, PLANE)


@given(st_laws(PLANE))
@settings(max_examples=30)
def test_moving_mass_towards_zero_makes_a_law_smaller(law):
    """Half of the mass of (2, 1) moved to (1, 0): smaller, and where there was mass, not the other way round."""
    moved = dict(law)
    part = moved[(2, 1)] / 2
    moved[(2, 1)] -= part
    moved[(1, 0)] += part
    assert smaller(moved, law)
    assert smaller(law, moved) == (part == 0)


def test_a_known_greatest_flow():
    """A path that must send back: the first source takes the sink that only the second can use."""
    assert compute_max_flow([1, 1], [1, 1], [[0, 1], [0]]) == 2
    assert compute_max_flow([3, 2], [2, 2], [[0], [0, 1]]) == 4
    assert compute_max_flow([3], [], [[]]) == 0


def test_the_density_condition_reports_its_window():
    """A finite law is private for no shift that leaves its support, unless the window says it was cut there."""
    law = {k: F(1, 2) ** abs(k) for k in range(-4, 5)}
    assert check_density(law, [1, -1]).worst_ratio is None
    assert not satisfies_density(law, [1, -1], F(100))
    checked_density = check_density(law, [1, -1], lambda x: abs(x[0]) <= 4)
    assert (checked_density.worst_ratio, checked_density.compared_pairs, checked_density.skipped_pairs) == (2, 16, 2)
    assert satisfies_density(law, [1, -1], F(2), lambda x: abs(x[0]) <= 4)
    assert not satisfies_density(law, [2], F(2), lambda x: abs(x[0]) <= 4)


def draw_private_law(draw, units, fall, periods):
    """The least private law above random weights, symmetric; its tail is geometric. Seldom monotone.

    p(x) = max over y of w(|y|) fall^ceil(|x - y| / units).
    """
    last = units * periods
    weights = [F(draw(st.integers(1, 60))) * fall ** draw(st.integers(0, 3)) for _ in range(last + 1)]
    return [
        max(weights[abs(y)] * fall ** -(-abs(x - y) // units) for y in range(-last, last + 1))
        for x in range(last + 2 * units + 1)
    ]


def draw_mixed_law(draw, units, fall, periods):
    """Mixtures of private laws with a geometric tail are private too, and less extreme."""
    one, two = draw_private_law(draw, units, fall, periods), draw_private_law(draw, units, fall, periods)
    share = F(draw(st.integers(0, 4)), 4)
    return [share * a + (1 - share) * b for a, b in zip(one, two, strict=True)]


def compute_law_window(half, units, fall, reach):
    """The law on -reach..reach, its tail written out and its total made 1."""
    total = half[0] + 2 * sum(half[1:]) + 2 * sum(half[-units:]) * fall / (1 - fall)
    longer = list(half)
    while len(longer) <= reach:
        longer.append(fall * longer[-units])
    return {k: longer[abs(k)] / total for k in range(-reach, reach + 1)}


@given(st.data(), st.sampled_from([1, 2, 3, 5]), st.sampled_from([F(1, 4), F(1), F(2)]), st.integers(1, 2))
@settings(max_examples=60)
def test_theorem_1_finds_a_smaller_staircase(data, units, epsilon, periods):
    """For random private noise, monotone or not: the staircase is smaller on a window, and so everywhere.

    Beyond the window both tails fall by the same factor every `units` points.
    """
    fall = Staircase(epsilon, units, HALF).fall
    half = draw_mixed_law(data.draw, units, fall, periods)
    noise = staircase_from(half, epsilon, units)
    law = compute_law_window(half, units, fall, len(half) + 2 * units)
    mine = {k: noise.probability(k) for k in law}
    assert smaller(mine, law)
    assert noise.exact_variance() <= compute_tail_variance(half, units, fall)


def compute_tail_variance(half, units, fall):
    """The variance of a law with a geometric tail: the sum over i >= 1 of fall^i (k + i units)^2 in closed form."""
    up = fall / (1 - fall)
    tail = sum(
        p * (k * k * up + 2 * k * units * up * (1 + up) + units**2 * up * (1 + up) * (1 + 2 * up))
        for k, p in list(enumerate(half))[-units:]
    )
    total = half[0] + 2 * sum(half[1:]) + 2 * sum(half[-units:]) * up
    return 2 * (sum(k * k * p for k, p in enumerate(half)) + tail) / total


def test_theorem_1_leaves_a_staircase_as_it_is():
    """A staircase is its own improvement: there is nothing smaller."""
    for units, core in ((1, HALF), (3, F(3, 2)), (4, F(9, 4)), (5, F(9, 2))):
        noise = Staircase(1, units, core)
        assert staircase_from([noise.probability(k) for k in range(3 * units)], 1, units) == noise


def test_theorem_1_on_laplace_noise_comes_to_the_core_of_the_thesis():
    """Thesis 4.3: m = Delta/(e (1-q)) (1 - q - e q); the grid's core tends to it as the grid gets finer."""
    gaps = []
    for units in (5, 20, 80):
        fall = Staircase(1, units, HALF).fall
        half = [F(round(2**60 * math.exp(-compute_rate(fall) * k / units)), 2**60) for k in range(units)] + [fall]
        noise = staircase_from(half, 1, units)
        gaps.append(abs(float(noise.core) / units - compute_laplace_core(1, 1)))
        law = compute_law_window(half, units, fall, 4 * units)
        assert smaller({k: noise.probability(k) for k in law}, law)
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]
    assert gaps[2] < 2e-5


def test_the_fold_is_private_although_the_chain_through_zero_would_not_be():
    """Cells 0 and units count by half: a fold of whole cells would give 0 too much and break the ratio."""
    units, fall = 2, Staircase(1, 2, HALF).fall
    half = [F(1), fall, F(1), fall, F(1), fall, fall, fall**2, fall**2]
    period = fold_distribution(half, units, fall)
    assert max(period) <= min(period) / fall
    chain = (period[0] + period[-1]) / (1 + fall)
    assert chain > period[1] / fall
    law = compute_law_window(half, units, fall, 20)
    noise = staircase_from(half, 1, units)
    assert smaller({k: noise.probability(k) for k in law}, law)


def test_noise_that_is_not_private_is_refused():
    """Theorem 1 is about private noise; anything else gets one sentence."""
    with pytest.raises(InvalidInput, match="not private"):
        staircase_from([F(1), F(1, 100), F(1, 100)], 1, 2)
    with pytest.raises(InvalidInput, match="at least"):
        staircase_from([F(1)], 1, 2)
