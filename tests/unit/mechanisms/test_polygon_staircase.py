"""The polygon staircase: exact law, exact privacy, exact draws, and less noise than the box around it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidInput, Unsupported
from discreet.mechanisms.box_staircase import BoxStaircase
from discreet.mechanisms.noise_order import check_density
from discreet.mechanisms.polygon_staircase import Polygon, PolygonStaircase, _compute_moments
from discreet.verification import assert_fits

Point = tuple[int, int]


def build_symmetric_hull(differences: Sequence[Point]) -> tuple[Point, ...]:
    """The vertices of the least symmetric convex polygon that holds the differences, given in grid units."""
    ordered = sorted({*differences, *((-x, -y) for x, y in differences)})
    return tuple(build_hull_chain(ordered)[:-1] + build_hull_chain(ordered[::-1])[:-1])


def build_hull_chain(points: Sequence[Point]) -> list[Point]:
    """One side of the convex hull (Andrew's monotone chain)."""
    chain: list[Point] = []
    for x, y in points:
        while len(chain) > 1:
            (ax, ay), (bx, by) = chain[-2:]
            if (bx - ax) * (y - ay) > (by - ay) * (x - ax):
                break
            chain.pop()
        chain.append((x, y))
    return chain


HALF = Fraction(1, 2)
MEAN = build_symmetric_hull([(0, 1), (4, 1), (4, 0)])
"""(sum, count) of rows with values in 0..4 when one row is replaced, enters or leaves the selection: a hexagon."""

RINGS = [MEAN, ((2, 3), (-1, 2), (-2, -3), (1, -2)), ((3, 1), (1, 3), (-2, 3), (-3, -1), (-1, -3), (2, -3))]
BASE = 401


def list_plane_points(reach):
    return itertools.product(range(-reach, reach + 1), repeat=2)


def list_differences(polygon):
    reach = max(polygon.half_widths)
    return [point for point in list_plane_points(reach) if polygon.gauge(point) <= 1]


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("core", [None, 1, Fraction(1, 8)])
def test_the_worst_ratio_within_the_polygon_is_exactly_the_step(ring, core):
    """Privacy for every whole difference in the polygon, exactly, and attained."""
    noise = PolygonStaircase(1, ring, core)
    probabilities = {point: noise.probability(point) for point in list_plane_points(9)}
    checked_density = check_density(probabilities, list_differences(noise.polygon), lambda x: max(map(abs, x)) <= 9)
    assert checked_density.worst_ratio == 1 / noise.fall


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("core", [None, 1, Fraction(333, 1000)])
def test_the_sums_are_right(ring, core):
    """Total, variances, errors, tails, usefulness and intervals agree with a plain sum over a wide window."""
    noise = PolygonStaircase(3, ring, core)
    height, fall = float(noise.probability((0, 0))), float(noise.fall)
    probabilities = {point: height * fall ** noise.level(point) for point in list_plane_points(36)}
    assert sum(probabilities.values()) == pytest.approx(1, abs=1e-8)
    for a in range(2):
        assert sum(x[a] ** 2 * p for x, p in probabilities.items()) == pytest.approx(noise.variance()[a], rel=1e-6)
        assert sum(abs(x[a]) * p for x, p in probabilities.items()) == pytest.approx(
            noise.expected_error()[a], rel=1e-6
        )
        tails = [sum(p for x, p in probabilities.items() if abs(x[a]) > k) for k in range(12)]
        assert [noise.tail_units(a, k) for k in range(12)] == pytest.approx(tails, abs=1e-8)
        assert noise.interval(0.9)[a][1] == next(k for k, tail in enumerate(tails) if tail <= 0.1)
    for k in (1, 3, 6):
        missed = sum(p for x, p in probabilities.items() if max(map(abs, x)) > k)
        assert noise.useful(k) == pytest.approx(missed, abs=1e-8)


@given(st.sampled_from(RINGS), st.integers(1, 1000))
@settings(max_examples=30)
def test_counts_and_moments_are_polynomials_in_the_level(ring, thousandths):
    """Ehrhart: along core + i the counts have no fifth differences, so five levels give the infinite sums."""
    table = [_compute_moments(Polygon(ring), Fraction(thousandths, 1000) + i) for i in range(9)]
    for column in zip(*table, strict=True):
        assert not np.diff(np.array(column, dtype=object), 5).any()


@given(st.sampled_from(RINGS), st.integers(20, 4000))
@settings(max_examples=30)
def test_rows_hold_the_points_of_the_stretched_polygon(ring, thousandths):
    """Row by row against the gauge of every point."""
    polygon, stretch = Polygon(ring), Fraction(thousandths, 1000)
    y, left, right = polygon.compute_rows(stretch)
    rows = {(x, int(k)) for k, low, high in zip(y, left, right, strict=True) for x in range(low, high + 1)}
    assert rows == {point for point in list_plane_points(20) if point[1] >= 0 and polygon.gauge(point) <= stretch}


def build_polygon_law(noise):
    height, fall = float(noise.probability((0, 0))), float(noise.fall)
    edges = np.array(noise.polygon.edges)

    def compute_code_probability(code):
        y = (code + BASE // 2) % BASE - BASE // 2
        x = (code - y) // BASE
        if abs(x) + abs(y) < 12:
            return height * fall ** noise.level((x, y))
        gauge = ((edges[:, 0] * x + edges[:, 1] * y) / edges[:, 2]).max()
        return height * fall ** max(0, np.ceil(gauge - float(noise.core) - 1e-12))

    return compute_code_probability


def code_polygon_draws(draws):
    return [int(x) * BASE + int(y) for x, y in draws if abs(y) <= BASE // 2 and abs(x) < 100]


@pytest.mark.parametrize("ring", RINGS)
def test_draws_fit_their_law_and_no_law_a_tenth_off(ring):
    """Two jaws: epsilon a tenth larger or smaller explains the draws worse."""
    noise, small, large = (PolygonStaircase(Fraction(e), ring, HALF) for e in ("2", "2.2", "1.8"))
    assert_fits(
        code_polygon_draws(noise.sample_many(100_000)),
        build_polygon_law(noise),
        build_polygon_law(small),
        build_polygon_law(large),
    )


@pytest.mark.parametrize("count", [3_000, pytest.param(8_000, marks=pytest.mark.soak)])
def test_single_draws_fit_too(count):
    """One at a time is another path with the same law."""
    noise, small, large = (PolygonStaircase(Fraction(e), MEAN) for e in ("2", "2.4", "1.6"))
    assert_fits(
        code_polygon_draws(noise.sample() for _ in range(count)),
        build_polygon_law(noise),
        build_polygon_law(small),
        build_polygon_law(large),
    )


@pytest.mark.parametrize("epsilon", ["2.2", "1.8"])
def test_a_sampler_a_tenth_off_is_caught(epsilon):
    """The trap itself works."""
    claimed, wrong = (PolygonStaircase(Fraction(e), MEAN, HALF) for e in ("2", epsilon))
    with pytest.raises(AssertionError):
        assert_fits(
            code_polygon_draws(wrong.sample_many(100_000)), build_polygon_law(claimed), lambda _: 1e-12, lambda _: 1e-12
        )


def test_a_rectangle_is_the_box_staircase():
    """Where the polygon is a box the two constructions are one law."""
    noise = PolygonStaircase(1, [(4, 2), (-4, 2), (-4, -2), (4, -2)], Fraction(5, 8))
    box = BoxStaircase(1, (4, 2), (Fraction(5, 2), Fraction(3, 2)))
    assert all(noise.probability(point) == box.probability(point) for point in list_plane_points(15))
    assert noise.exact_variance() == box.exact_variance()
    assert noise.interval(0.9) == box.interval(0.9)
    assert noise.expected_error() == pytest.approx(box.expected_error(), rel=1e-9)
    assert noise.useful(7) == pytest.approx(box.useful(7), rel=1e-9)


@pytest.mark.parametrize(("most", "fine"), [(4, 1), (100, 1), (100, 100), (1000, 100)])
def test_the_hexagon_of_a_mean_beats_its_bounding_box(most, fine):
    """Sum and count of a selection under replace-one: a sixth less variance in both, at the same epsilon."""
    ring = build_symmetric_hull([(0, fine), (most, fine), (most, 0)])
    noise, box = PolygonStaircase(1, ring), BoxStaircase(1, (most, fine))
    for mine, theirs in zip(noise.variance(), box.variance(), strict=True):
        assert mine < 0.84 * theirs
    for mine, theirs in zip(noise.expected_error(), box.expected_error(), strict=True):
        assert mine < 0.9 * theirs
    for (_, mine), (_, theirs) in zip(noise.interval(0.95), box.interval(0.95), strict=True):
        assert mine <= theirs


def test_the_core_is_near_the_best():
    """No other tenth of the polygon gives less variance on a fine grid."""
    ring = build_symmetric_hull([(0, 50), (80, 50), (80, 0)])
    best = sum(v / w**2 for v, w in zip(PolygonStaircase(1, ring).variance(), (80, 50), strict=True))
    for tenths in range(1, 11):
        other = PolygonStaircase(1, ring, Fraction(tenths, 10)).variance()
        assert best <= sum(v / w**2 for v, w in zip(other, (80, 50), strict=True)) * 1.0005


def test_around_is_the_symmetric_hull():
    """Inner and repeated differences do not matter; the order is around."""
    assert set(MEAN) == {(0, 1), (4, 1), (4, 0), (0, -1), (-4, -1), (-4, 0)}
    assert build_symmetric_hull([(x, 1) for x in range(5)] + [(x, 0) for x in range(-4, 5)]) == MEAN
    assert Polygon(MEAN).edges == Polygon(build_symmetric_hull([(-4, -1), (0, 1), (-4, 0)])).edges


def test_either_way_around_is_the_same_polygon():
    """Clockwise vertices are turned."""
    assert set(Polygon(MEAN).edges) == set(Polygon(MEAN[::-1]).edges)


@pytest.mark.parametrize(
    ("vertices", "sentence"),
    [
        ([(1, 0), (0, 1), (-1, 0), (0, -2)], "symmetric"),
        ([(1, 0), (-1, 0)], "convex polygon"),
        ([(1, 1), (-1, -1), (-1, 1), (1, -1)], "convex polygon"),
        ([(1, 0), (0, 1), (-1, 0), (0, -1)] * 2, "convex polygon"),
        ([(3, 0), (1, 1), (0, 3), (-3, 0), (-1, -1), (0, -3)], "convex polygon"),
        ([(2**19, 0), (0, 1), (-(2**19), 0), (0, -1)], "coarser step"),
        ([(1.5, 0), (0, 1), (-1.5, 0), (0, -1)], "whole number"),
        ([(1, 0, 0), (0, 1, 0)], "plane"),
    ],
)
def test_what_is_no_such_polygon_is_refused(vertices, sentence):
    """One plain sentence each."""
    with pytest.raises(InvalidInput, match=sentence):
        PolygonStaircase(1, vertices)


@pytest.mark.parametrize("core", [0, Fraction(1001, 1000), Fraction(1, 3)])
def test_a_core_off_its_grid_is_refused(core):
    """A multiple of a thousandth, at most 1."""
    with pytest.raises(InvalidInput):
        PolygonStaircase(1, MEAN, core)


def test_costs_answers_and_steps():
    """A shift to the edge costs epsilon, one beyond it two; steps turn units into values."""
    noise = PolygonStaircase(HALF, MEAN, step=(1, HALF))
    assert [noise.epsilon_at(d) for d in ((0, 0), (4, 1), (4, -1), (0, 3))] == [0, HALF, 1, Fraction(3, 2)]
    assert noise.cost("replace-one").epsilon == HALF
    assert all(isinstance(value, int) for value in noise.answer_units((10, 20)))
    assert Fraction(noise.sample()[1] / HALF).denominator == 1
    assert noise.sample_many(5).dtype == np.float64
    assert noise.sample_many(0).shape == (0, 2)
    units = PolygonStaircase(HALF, MEAN)
    assert noise.variance() == pytest.approx((units.variance()[0], units.variance()[1] / 4))
    assert noise.density_at_zero == pytest.approx(2 * units.density_at_zero)


def test_huge_polygons_draw_in_whole_numbers_and_refuse_long_sums():
    """The exact variance and the draws have no limit within the vertices'; row sums say where theirs is."""
    far = 2**18
    noise = PolygonStaircase(Fraction(1, 1000), build_symmetric_hull([(0, far), (far, far), (far, 0)]))
    assert noise.sample_many(4).shape == (4, 2)
    assert noise.variance()[0] == pytest.approx(noise.variance()[1])
    with pytest.raises(Unsupported, match="row by row"):
        noise.interval(0.9)
