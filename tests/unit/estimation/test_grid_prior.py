"""Posteriors, intervals and tails against the plain sums they stand for."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from discreet import DiscreteGaussian, DiscreteLaplace, InvalidInput, Prior, Staircase
from discreet.estimation import noise_distributions
from discreet.estimation.grid_prior import PriorCells, ShapedGridPrior, parse_grid_prior
from discreet.estimation.noise_distributions import (
    ScaledNoise,
    SummedNoise,
    compute_joint_log_probability,
    compute_log_probability,
    compute_sum_deviation,
    compute_sum_quantile,
    compute_sum_tail,
    compute_upper_tail,
)
from discreet.estimation.noisy_totals import NoisyRatio, NoisyVariance
from discreet.mechanisms import BoxStaircase, PolygonStaircase
from discreet.mechanisms.entropy import SYSTEM
from discreet.mechanisms.noise import IndependentNoises, Noise

HEXAGON = ((8, 0), (4, 1), (-4, 1), (-8, 0), (-4, -1), (4, -1))
NOISES = [
    DiscreteLaplace(Fraction(1, 3), 1),
    DiscreteGaussian(Fraction(9), 1, Fraction(1)),
    Staircase.least_variance(1, 5),
    Staircase(1, 4, Fraction(7, 4)),
]


def compute_noise_probability(noise: Noise, units: int) -> float:
    return float(noise.probability(units))  # type: ignore[attr-defined]


@pytest.mark.parametrize("noise", NOISES)
def test_laws_as_arrays_are_the_noises_own(noise: Noise) -> None:
    k = np.arange(-30, 31)
    exact = np.array([compute_noise_probability(noise, int(unit_count)) for unit_count in k])
    law = np.exp(compute_log_probability(noise, k.astype(float)))
    np.testing.assert_allclose(law / law.sum(), exact / exact.sum(), rtol=1e-6)
    wide = np.arange(-400, 401)
    whole = np.array([compute_noise_probability(noise, int(unit_count)) for unit_count in wide])
    above = [float(whole[wide >= unit_count].sum()) for unit_count in k]
    np.testing.assert_allclose(compute_upper_tail(noise, k.astype(float)), above, atol=1e-6)


PAIRS = [
    IndependentNoises((DiscreteLaplace(Fraction(1, 20), 1), DiscreteLaplace(Fraction(1, 8), 1))),
    IndependentNoises(
        (DiscreteGaussian(Fraction(400), 1, Fraction(1)), DiscreteGaussian(Fraction(100), 1, Fraction(1)))
    ),
    BoxStaircase(1, (20, 6)),
    PolygonStaircase(1, tuple((5 * x, 5 * y) for x, y in HEXAGON)),
]


@pytest.mark.parametrize("noise", PAIRS)
@pytest.mark.parametrize("weights", [(1.0, -2.5), (0.3, 1.0), (1.0, 0.0)])
def test_the_tail_of_a_weighted_sum(noise: object, weights: tuple[float, float]) -> None:
    """Against the sum over all points of the plane, but for what spreading a point over its cell may move."""
    x, y = (np.arange(-size, size + 1, dtype=float) for size in (500, 260))
    logs = compute_joint_log_probability(noise, (x[:, None] + 0 * y[None, :], y[None, :] + 0 * x[:, None]))  # type: ignore[arg-type]
    law = np.exp(logs - logs.max())
    law /= law.sum()
    sums = np.abs(weights[0] * x[:, None] + weights[1] * y[None, :])
    assert compute_sum_deviation(noise, weights) == pytest.approx(math.sqrt(float((law * sums**2).sum())), rel=0.02)  # type: ignore[arg-type]
    distances = compute_sum_deviation(noise, weights) * np.array([0.5, 1.0, 2.0, 3.5])  # type: ignore[arg-type]
    exact = np.array([float(law[sums > c].sum()) for c in distances])
    np.testing.assert_allclose(compute_sum_tail(noise, weights, distances), exact, atol=0.02)  # type: ignore[arg-type]


@pytest.mark.parametrize("noise", PAIRS)
def test_the_bound_of_a_weighted_sum_holds(noise: object) -> None:
    """With half a unit for each weight it is reached with at least 95 %, and not much more."""
    x, y = (np.arange(-size, size + 1, dtype=float) for size in (500, 260))
    logs = compute_joint_log_probability(noise, (x[:, None] + 0 * y[None, :], y[None, :] + 0 * x[:, None]))  # type: ignore[arg-type]
    law = np.exp(logs - logs.max())
    law /= law.sum()
    for weights in ((1.0, -3.0), (1.0, 0.5), (1.0, 4.0)):
        bound = compute_sum_quantile(noise, weights, 0.95) + sum(map(abs, weights)) / 2  # type: ignore[arg-type]
        inside = float(law[np.abs(weights[0] * x[:, None] + weights[1] * y[None, :]) <= bound].sum())
        assert 0.949 <= inside <= 0.975


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("raw", [12, 40, 95])
@pytest.mark.parametrize("prior", ["normal(30, 6)", "uniform(10, 20)", "0.5 point(12) + laplace(60, 4)", None])
def test_the_posterior_of_a_total_is_bayes_rule(noise: Noise, raw: int, prior: str | None) -> None:
    """Nine tenths of what was stated and one tenth of a Cauchy law of its mean and sd, times the law of the noise."""
    column_prior = prior or Prior.weights({3: 1, 40: 2, 90: 1})
    belief = parse_grid_prior(column_prior, Fraction(0), Fraction(100), Fraction(1), "COUNT")
    values = np.arange(101.0)
    stated = np.zeros(101)
    cells = belief.build_cells()
    stated[np.round(cells.values).astype(int)] = cells.stated
    mean = float(stated @ values)
    tail_law = np.diff(np.arctan((np.arange(102) - 0.5 - mean) / math.sqrt(float(stated @ (values - mean) ** 2))))
    if prior is None:
        tail_law = np.where(stated > 0, 1 / (1 + (values - mean) ** 2 / float(stated @ (values - mean) ** 2)), 0)
    used = 0.9 * stated + 0.1 * tail_law / tail_law.sum()
    weight = used * np.array([compute_noise_probability(noise, int(raw - v)) for v in values])
    exact = weight / weight.sum()
    posterior = noise_distributions.update_grid_prior(belief, ScaledNoise(noise, 1.0), float(raw))
    assert posterior.mean() == pytest.approx(float(exact @ values), rel=1e-3)
    assert posterior.variance() == pytest.approx(float(exact @ (values - float(exact @ values)) ** 2), rel=1e-2)


def test_a_prior_with_a_heavy_tail_of_its_own_is_taken_as_it_is() -> None:
    cells = parse_grid_prior("cauchy(5, 1)", Fraction(0), Fraction(10), Fraction(1), "COUNT").build_cells()
    np.testing.assert_array_equal(cells.stated, cells.used)
    cells = parse_grid_prior("normal(5, 1)", Fraction(0), Fraction(10), Fraction(1), "COUNT").build_cells()
    assert cells.used[0] > 100 * cells.stated[0]


def build_spread_at(width: float):  # type: ignore[no-untyped-def]
    return lambda share: ((2 * share - 1) * width, np.ones(len(share)))


@pytest.mark.parametrize("noise", [PAIRS[0], PAIRS[2], PAIRS[3]])
@pytest.mark.parametrize("released", [(60, 40), (-300, 25), (10, -3), (900, 30)])
def test_the_posterior_of_a_mean_sums_over_the_rows(noise: object, released: tuple[int, int]) -> None:
    """Against the plain double sum over means on a fine grid and every number of rows."""
    ratio = NoisyRatio(noise, 0.0, 20.0, build_spread_at(20.0))  # type: ignore[arg-type]
    belief = parse_grid_prior("normal(11, 2)", Fraction(0), Fraction(20), Fraction(1, 50), "AVG")
    posterior = ratio.posterior(belief, released, math.inf)
    cells = belief.build_cells()
    rows = np.arange(1.0, 900.0)[:, None]
    shift = released[0] - rows * (2 * cells.values[None, :] / 20 - 1) * 20
    logs = compute_joint_log_probability(noise, (shift, released[1] - rows + 0 * shift))  # type: ignore[arg-type]
    weight = cells.used * np.exp(logs - logs.max()).sum(axis=0)
    exact = weight / weight.sum()
    assert posterior.mean() == pytest.approx(float(exact @ cells.values), abs=0.05)
    assert math.sqrt(posterior.variance()) == pytest.approx(
        math.sqrt(float(exact @ (cells.values - float(exact @ cells.values)) ** 2)), rel=0.05
    )


@pytest.mark.parametrize("away", [0, 2000, 4000, 8000])
def test_the_posterior_of_a_mean_of_many_rows_is_that_of_its_sum(away: int) -> None:
    """Where the count is far from 0 only the law of the sum by itself matters: here in closed form, at the middle."""
    noise = BoxStaircase(1, (600, 1))
    ratio = NoisyRatio(noise, 10.0, 70.0, build_spread_at(600.0))
    belief = parse_grid_prior("laplace(40, 0.007)", Fraction(10), Fraction(70), Fraction(60, 2**24), "AVG")
    cells = belief.build_cells([(40 + away / 40_000, 0.03)])
    fall, reach = float(noise.boxes.fall), noise.boxes.half_widths[0]
    level = np.maximum(np.ceil((np.abs(away - (cells.values - 40) * 40_000) - reach - 0.5) / 600), 0)
    weight = cells.used * fall**level * (2 * level + 1 + 2 * fall / (1 - fall))
    exact = float((weight * cells.values).sum() / weight.sum())
    assert ratio.posterior(belief, (away, 2000), math.inf).mean() == pytest.approx(
        exact, abs=1e-3 + 0.01 * abs(exact - 40)
    )


@pytest.mark.parametrize("public_rows", [None, 60.0])
def test_the_posterior_of_a_variance_sums_over_rows_and_means(public_rows: float | None) -> None:
    """Against the plain sum over variances, means and numbers of rows."""
    noises = tuple(DiscreteLaplace(Fraction(1, scale), 1) for scale in (4, 80, 1600))
    noise = IndependentNoises(noises if public_rows is None else noises[1:])
    squares = NoisyVariance(noise, 20.0, 1.0, public_rows, is_standard_deviation=False)
    belief = parse_grid_prior("normal(30, 10)", Fraction(0), Fraction(200), Fraction(1, 4), "VAR")
    noisy_totals = (60, 200, -2000)
    released = noisy_totals if public_rows is None else noisy_totals[1:]
    posterior = squares.posterior(belief, released, 40.0, math.inf)
    cells = belief.build_cells((), 160)
    weight = np.zeros(len(cells.values))
    for n in [60] if public_rows is not None else range(20, 101):
        middles = np.linspace(-20, 20, 401)[:, None]
        spread = 4 * cells.values[None, :] * (n - 1) / n
        parts = [noisy_totals[1] - n * middles + 0 * spread, noisy_totals[2] - n * (2 * (spread + middles**2) - 400)]
        logs = compute_joint_log_probability(
            noise, parts if public_rows is not None else [noisy_totals[0] - n + 0 * parts[1], *parts]
        )
        weight += np.where(spread + middles**2 <= 400, np.exp(logs), 0).sum(axis=0)
    exact = cells.used * weight / (cells.used * weight).sum()
    assert posterior.mean() == pytest.approx(float(exact @ cells.values), rel=0.03)


def test_how_good_a_correct_prior_is_and_a_wrong_one() -> None:
    """The bars: sd 1 at most 0.75 of the raw error, 0.5 at most 0.5; off by 3 at most 2; off by 10 at most 1.2 or 3."""
    for epsilon in (Fraction(1), Fraction(1, 10)):
        spread = ScaledNoise(DiscreteLaplace(epsilon, 1), 1.0)
        for share, right, three, ten in ((1.0, 0.75, 2.0, 1.2), (0.5, 0.5, 2.0, 3.0), (2.0, 1.0, 2.0, 1.2)):
            sd = share * spread.sd
            belief = parse_grid_prior(f"normal(5000, {sd:.6f})", Fraction(0), Fraction(2**40), Fraction(1), "COUNT")
            assert noise_distributions.estimate_posterior_error(belief, spread) <= right * spread.sd
            for off, bar in ((3, three), (10, ten)):
                assert compute_error_at(belief, spread, round(5000 + off * sd)) <= bar * spread.sd


def compute_error_at(belief: object, spread: ScaledNoise, truth: int) -> float:
    """The root mean square error of the posterior mean where the truth is this."""
    reach = int(16 * spread.sd)
    noise = np.arange(-reach, reach + 1, max(1, int(spread.sd / 8)))
    chance = np.exp(spread.compute_log_probability(noise.astype(float)))
    means = np.array([noise_distributions.update_grid_prior(belief, spread, float(truth + n)).mean() for n in noise])  # type: ignore[arg-type]
    return math.sqrt(float((chance * (means - truth) ** 2).sum() / chance.sum()))


def test_warnings_are_rare_where_the_prior_is_right_and_common_where_it_is_not() -> None:
    """Exactly, over truths and noise: at most 1 %; at least 90 % where it is off by 10 of its sd."""
    spread = ScaledNoise(DiscreteLaplace(1, 1), 1.0)
    for share in (0.5, 1.0, 2.0):
        sd = share * spread.sd
        belief = parse_grid_prior(f"normal(500, {sd:.6f})", Fraction(0), Fraction(1000), Fraction(1), "COUNT")
        answers = np.arange(400, 601)
        warned = np.array([noise_distributions.compute_surprise(belief, spread, float(y)) < 0.005 for y in answers])
        cells = belief.build_cells()
        law = np.exp(spread.compute_log_probability(answers[None, :] - cells.values[:, None]))
        law /= law.sum(axis=1, keepdims=True)
        assert float(cells.stated @ law @ warned) <= 0.01
        far = np.exp(spread.compute_log_probability((answers - round(500 + 10 * sd)).astype(float)))
        assert float((far * warned).sum() / far.sum()) >= 0.9


def test_the_interval_of_a_mean_is_reached_as_often_as_claimed() -> None:
    """The set of means that are not surprising holds the true one exactly where its own bound holds: summed exactly."""
    noise = PAIRS[0]
    ratio = NoisyRatio(noise, 0.0, 20.0, build_spread_at(20.0))
    limits = ratio.get_limits(0.95)
    for place, share in enumerate(np.linspace(0, 1, len(limits))):
        weights = ratio.compute_weights(float(share))
        x, y = (np.arange(-size, size + 1, dtype=float) for size in (600, 300))
        law = np.exp(compute_joint_log_probability(noise, (x[:, None] + 0 * y[None, :], y[None, :] + 0 * x[:, None])))
        law /= law.sum()
        inside = float(law[np.abs(weights[0] * x[:, None] + weights[1] * y[None, :]) <= limits[place]].sum())
        assert 0.95 <= inside <= 0.97
    low, high = ratio.interval((0, 100), 0.95)
    assert low < 10 < high
    assert ratio.interval((0, -50), 0.95) == (0.0, 20.0)


@pytest.mark.parametrize("weights", [(1.0, 0.0), (1.0, 80.0), (0.0, 1.0)])
@pytest.mark.parametrize(("epsilon", "rows"), [(1, 1), (8, 1), (8, 3), (16, 2)])
def test_the_points_of_a_small_polygon_are_counted(epsilon: int, rows: int, weights: tuple[float, float]) -> None:
    """A hexagon with one line of points above 0 and one below has little in common with its area."""
    far, near = 160 * rows, 80 * rows
    corners = ((far, 0), (near, rows), (-near, rows), (-far, 0), (-near, -rows), (near, -rows))
    noise, draws = PolygonStaircase(epsilon, corners), 4000
    sums = np.abs(noise.sample_units(draws, SYSTEM) @ np.array(weights))
    for confidence in (0.9, 0.99):
        bound = compute_sum_quantile(noise, weights, confidence) + sum(weights) / 2
        misses = int((sums > bound).sum())
        assert binom.sf(misses - 1, draws, 1 - confidence) > 1e-8


@pytest.mark.parametrize("weights", [(1.0, 0.0), (1.0, 1.0), (1.0, 0.3), (0.2, 1.0)])
@pytest.mark.parametrize("epsilon", [8, 12, 16, 20])
def test_a_quantile_of_narrow_noise_is_far_enough(epsilon: int, weights: tuple[float, float]) -> None:
    """One step is more than 64 standard deviations there, and some steps are likelier than the chance to miss."""
    noise = BoxStaircase(epsilon, (1, 3))
    one, two = np.meshgrid(*[np.arange(-8.0, 9.0)] * 2, indexing="ij")
    law = np.exp(compute_joint_log_probability(noise, (one, two)))
    law /= law.sum()
    for miss in (1e-3, 5e-6, 1e-8):
        bound = compute_sum_quantile(noise, weights, 1 - miss) + sum(weights) / 2
        assert law[np.abs(weights[0] * one + weights[1] * two) > bound + 1e-9].sum() <= miss


def test_a_smooth_law_tabulated() -> None:
    law = SummedNoise.of(PAIRS[0], (1.0, -1.0))
    points = np.array([-60.0, -10.0, 0.0, 10.0, 60.0])
    np.testing.assert_allclose(law.compute_upper_tail(points) + law.compute_upper_tail(-points), 1.0)
    np.testing.assert_allclose(law.compute_log_probability(points), law.compute_log_probability(-points))


@pytest.mark.parametrize(
    "prior",
    [
        "normal(-500, 3)",
        "normal(50, 1e300)",
        "normal(1e250, 1e251)",
        "uniform(200, 300)",
        "point(-1)",
        "normal(50, 5) on [200, 300]",
        Prior.weights({-3: 1, 900: 2}),
    ],
)
def test_a_prior_outside_what_is_possible_is_refused(prior: str | Prior) -> None:
    with pytest.raises(InvalidInput, match="lies outside what COUNT can be, 0 to 100"):
        parse_grid_prior(prior, Fraction(0), Fraction(100), Fraction(1), "COUNT")


@pytest.mark.parametrize(
    "prior",
    [
        "point(40)",
        "0.5 point(3) + 0.5 point(97)",
        "normal(50, 1e-300)",
        "normal(50, 1e4)",
        "uniform",
        "cauchy(50, 1e-9)",
        Prior.weights({40: 1}),
        Prior.uniform(0, 100, Fraction(1, 10_000)),
    ],
)
def test_hostile_priors_give_numbers(prior: str | Prior) -> None:
    """Whatever is believed, the posterior is a law on what is possible, and the expected error a number."""
    spread = ScaledNoise(DiscreteLaplace(Fraction(1, 3), 1), 1.0)
    belief = parse_grid_prior(prior, Fraction(0), Fraction(100), Fraction(1), "COUNT")
    for raw in (-(10**6), 0, 40, 10**6):
        posterior = noise_distributions.update_grid_prior(belief, spread, float(raw))
        assert 0 <= posterior.mean() <= 100
        assert np.isfinite(posterior.mass).all()
        assert 0 <= noise_distributions.compute_surprise(belief, spread, float(raw)) <= 1
    assert 0 <= noise_distributions.estimate_posterior_error(belief, spread) <= 1.01 * spread.sd


def test_error_with_a_rare_far_tail_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deviation of such a prior is far above the noise's, and cells as narrow as that would be millions."""
    high, noise = Fraction(2**32), noise_distributions.ScaledNoise(DiscreteLaplace(Fraction(1), 1), 1.0)
    belief = parse_grid_prior("0.9 normal(4, 1) + 0.1 cauchy(4, 1)", Fraction(0), high, Fraction(1), "COUNT")
    assert belief.sd > 1000 * noise.sd
    sizes, build_cells = [], ShapedGridPrior.build_cells

    def build_and_count(self: ShapedGridPrior, *args: Any) -> PriorCells:
        cells = build_cells(self, *args)
        sizes.append(len(cells.values))
        return cells

    monkeypatch.setattr(ShapedGridPrior, "build_cells", build_and_count)
    error = noise_distributions.estimate_posterior_error(belief, noise)
    assert max(sizes) < 2**15
    monkeypatch.setattr(noise_distributions, "MAX_EDGES", math.inf)
    assert error == pytest.approx(noise_distributions.estimate_posterior_error(belief, noise), rel=1e-5)
