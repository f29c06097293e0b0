"""The planner's stated expected error is the measured one, and its choice is about the best; on random questions.

Truths are drawn from the prior as stated; noise from the real mechanism; the error is that of the posterior mean.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from discreet.estimation.grid_prior import parse_grid_prior
from discreet.estimation.noise_distributions import ScaledNoise, estimate_posterior_error
from discreet.measurements.additive import ERROR_SHARES, AdditiveNoise
from discreet.measurements.refined_total import RefinedTotal
from discreet.measurements.selection import CandidateSelection, RefinedStatistic
from discreet.measurements.unit_query import UnitQuery
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.entropy import SYSTEM
from discreet.planner.options import PlanRequest
from discreet.planner.plan import Plan
from discreet.planner.planner import plan, plan_query
from discreet.priors.posterior import Posterior
from discreet.query import parse_sql
from discreet.schema import Column, Schema
from support.small_tables import get_estimator, schema

WIDE = (
    Column("income", "number", lower=0, upper=50_000, step=Fraction(10), missing=0),
    Column("bmi", "number", lower=100, upper=700, step=Fraction(1, 10), missing=100),
    Column("heat", "integer", lower=-300, upper=500),
)
TOTALS = ["COUNT(*)", "SUM(income)", "SUM(heat)", "AVG(income)", "AVG(bmi)", "VAR(bmi)", "STDDEV(heat)", "COUNT(heat)"]
CHOICES = ["MAX(bmi)", "MIN(heat)"]
DRAWS = {"COUNT": 6000, "SUM": 6000, "AVG": 800, "VAR": 300, "STDDEV": 300, "MAX": 2000, "MIN": 2000, "FOR": 2000}


@dataclass(frozen=True)
class Case:
    """A question with what comes along."""

    declared: Schema
    text: str
    epsilon: Fraction
    prior: str | None
    rows: int

    def planned(self, like: str | None = None) -> Plan:
        query = parse_sql(self.text, self.declared)
        if like is None:
            return plan(self.declared, query, self.epsilon, prior=self.prior, rows=self.rows)
        asked = PlanRequest(epsilon=self.epsilon, prior=self.prior, rows=self.rows, stored_mechanisms=(like,))
        return plan_query(self.declared, query, asked)

    def __str__(self) -> str:
        return f"{self.text}, {self.declared.neighbors}, epsilon {self.epsilon}, {self.prior}, {self.rows} rows"


def random_case(chance: random.Random) -> Case:
    relation, rows = chance.choice([("add-remove", 1), ("add-remove", 3), ("replace-one", 1), ("replace-one", 2)])
    declared = schema(relation, rows, units=20_000, individual_queries=rows == 1)
    declared = replace(declared, columns={**declared.columns, **{one.name: one for one in WIDE}})
    epsilon = Fraction(chance.choice(["0.1", "0.3", "1", "1", "3"]))
    count = chance.choice([2_000, 8_000])
    kind = chance.random()
    if kind < 0.1 and rows == 1:
        text = "SELECT bmi FROM t FOR UNIT 'p1'"
    elif kind < 0.2:
        text = f"SELECT {chance.choice(CHOICES)} FROM t WHERE age > 0"
    else:
        text = f"SELECT {chance.choice(TOTALS)} FROM t WHERE {chance.choice(['age > 0', 'age < 3'])}"
    case = Case(declared, text, epsilon, None, count)
    needed = any(word in text for word in ("FOR", "MAX", "MIN"))  # without one their law is not public
    return replace(case, prior=random_prior(case, chance)) if needed or chance.random() < 0.85 else case


def random_prior(case: Case, chance: random.Random) -> str:
    """About what the answer could be, from narrow to wide beside the noise."""
    word = case.text.split()[1].split("(")[0]
    if word in {"MAX", "MIN", "bmi"}:
        low, high = (-300, 500) if "heat" in case.text else (10, 70)
        center, spread = chance.uniform(low, high), (high - low) * chance.choice([0.02, 0.1, 0.3])
    else:
        noise = case.planned().expected_error or 1.0
        center = {"COUNT": 5_000.0, "SUM": 4e8 if "income" in case.text else 9e5, "AVG": 0.0, "VAR": 300.0}.get(
            word, 20.0
        )
        if word == "AVG":
            center = chance.choice([90_000, 250_000]) if "income" in case.text else chance.choice([22, 40])
        spread = noise * chance.choice([0.2, 0.5, 1, 2, 5])
        if word in {"VAR", "STDDEV"}:
            center = max({"VAR": 150.0, "STDDEV": 120.0}[word], 6 * spread)
    shape = chance.choice(["normal", "normal", "laplace", "uniform"])
    numbers = (center - 1.7 * spread, center + 1.7 * spread) if shape == "uniform" else (center, spread)
    return f"{shape}({numbers[0]:.4f}, {numbers[1]:.4f})"


def truths(query_plan: Plan, count: int, generator: np.random.Generator) -> np.ndarray:
    """From the prior as stated; without one, at the places that a mean's error is stated for, or anywhere."""
    if query_plan.grid_prior is None:
        return np.resize(places(query_plan), count)
    cells = query_plan.grid_prior.build_cells()
    return generator.choice(cells.values, count, p=cells.stated / cells.stated.sum())


def places(query_plan: Plan) -> list[float]:
    aggregate = query_plan.query.aggregates[0]
    if aggregate.function not in {"avg", "var", "stddev"}:
        return [1000.0]
    column = query_plan.schema.column(aggregate.column or "")
    low, high = float(column.lower * column.step), float(column.upper * column.step)
    if aggregate.function == "avg":
        return [low + share * (high - low) for share in ERROR_SHARES]
    spread = (high - low) / math.sqrt(12)
    return [spread**2 if aggregate.function == "var" else spread]


def errors(query_plan: Plan, count: int, generator: np.random.Generator) -> np.ndarray:
    """Of the posterior mean, or without a prior of the raw value."""
    one = query_plan.measurements[0]
    if isinstance(one, AdditiveNoise):
        return of_noise(query_plan, one, truths(query_plan, count, generator))
    if isinstance(one, RefinedTotal):
        grid, runs = one.refinement.prior.grid, one.refinement_prior.truths
        assert grid is not None
        indices = generator.choice(len(runs.lows), count, p=runs.stated / runs.stated.sum())
        places = runs.lows[indices] + generator.integers(0, runs.spans[indices])
        values = [float(grid.value(int(place))) for place in places]
        return np.array([mean(one.posterior(list_released(one, value))) - value for value in values])
    assert isinstance(one, CandidateSelection | UnitQuery)
    refined = (
        one.mechanism.position_refinement
        if isinstance(one, CandidateSelection) and isinstance(one.mechanism, RefinedStatistic)
        else None
    )
    own_refined = refined if refined is not None else one.position_refinement  # type: ignore[union-attr]
    places = generator.choice(
        len(own_refined.positions), count, p=own_refined.stated_mass / own_refined.stated_mass.sum()
    )
    column = own_refined.candidates.column
    posterior_errors = []
    for place in own_refined.positions[places]:
        code = column.lower + int(place) * own_refined.candidates.width
        posterior_errors.append(mean(own_refined.posterior(own_refined.sample(int(place)))) - float(code * column.step))
    return np.array(posterior_errors)


def list_released(one: RefinedTotal, value: float) -> tuple[int, ...]:
    grid = one.refinement.prior.grid
    assert grid is not None
    released = one.refinement.answer(Fraction(value))
    return (round((float(released) - float(grid.origin)) / float(grid.step)),)  # type: ignore[arg-type]


def mean(law: Posterior | None) -> float:
    assert law is not None
    return law.mean()


def of_noise(query_plan: Plan, one: AdditiveNoise, wanted: np.ndarray) -> np.ndarray:
    meaning = get_estimator(query_plan)
    noise = one.noise.sample_units(len(wanted), SYSTEM)
    squared = []
    for truth, shift in zip(wanted, noise, strict=True):
        exact = totals(query_plan, one, float(truth))
        noisy = tuple(x + int(n) for x, n in zip(exact, shift, strict=True))
        squared_errors = (
            float(meaning.raw_value(noisy, None))
            if query_plan.grid_prior is None
            else meaning.posterior(query_plan.grid_prior, noisy).mean()
        )
        squared.append(squared_errors - truth)
    return np.array(squared)


def totals(query_plan: Plan, one: AdditiveNoise, truth: float) -> list[int]:
    """Exact totals of a table whose answer is about the truth, values in the middle of what that allows."""
    meaning, rows = get_estimator(query_plan), float(query_plan.expected_rows.number)
    if meaning.ratio is not None:
        slopes = meaning.ratio.slopes(np.array([meaning.ratio.compute_share(truth)]))
        return [round(rows * float(slope[0])) for slope in slopes]
    if meaning.squares is not None:
        squares = meaning.squares
        spread = float(squares.compute_variance(np.array([truth]))[0]) * (rows - 1) / rows
        parts = [round(rows), 0, round(rows * (2 * spread - squares.width**2))]
        return parts if squares.rows is None else parts[1:]
    estimate = one.linear_query.estimate
    return [round((truth - float(estimate.offset)) / float(estimate.slope))]  # type: ignore[attr-defined]


def check(case: Case, generator: np.random.Generator, scale: int = 1) -> tuple[float, float, float]:
    """The worst ratio of stated and measured error over the candidates, and how much worse the choice is than the best.

    The ratio as it is, and both less what so many draws leave in doubt.
    """
    query_plan = case.planned()
    word = case.text.split()[1].split("(")[0]
    count = DRAWS.get(word if word in DRAWS else "FOR", 1000) // scale
    worst, sure, measured, most_doubt = 1.0, 1.0, {}, 0.0
    for candidate in query_plan.candidates:
        if candidate.expected_error is None:
            continue
        if word in {"MAX", "MIN"} and not candidate.chosen:
            continue
        alone = (
            case.planned(candidate.mechanism)
            if len(query_plan.candidates) > 1 and word not in {"MAX", "MIN"}
            else query_plan
        )
        samples = errors(alone, count, generator)
        square = float((samples**2).mean())
        doubt = 3.5 * float((samples**2).std()) / math.sqrt(count) / square / 2
        measured[candidate.mechanism], most_doubt = math.sqrt(square), max(most_doubt, doubt)
        ratio = math.sqrt(square) / candidate.expected_error
        off = max(ratio, 1 / ratio)
        worst, sure = max(worst, off), max(sure, off / (1 + doubt))
    if not measured:
        return worst, sure, 1.0
    best = min(measured.values())
    worse = next(measured[one.mechanism] for one in query_plan.candidates if one.chosen) / best
    return worst, sure, worse / (1 + most_doubt)


def test_stated_errors_are_measured_ones() -> None:
    """Within 10 %, as far as so many draws can tell; where few leave it in doubt, more decide.

    Of nine random questions the last of each function; all kinds are among the fifty.
    """
    chance, generator = random.Random(5), np.random.default_rng(5)
    cases = [random_case(chance) for _ in range(9)]
    for case in {case.text.split("(")[0]: case for case in cases}.values():
        _, sure, _ = check(case, generator, scale=5)
        if sure > 1.1:
            _, sure, _ = check(case, generator)
        assert sure <= 1.1, str(case)


@pytest.mark.soak
def test_stated_errors_are_measured_ones_on_fifty_questions() -> None:
    """Within 10 % for every mechanism with a public law; the choice at most 5 % worse than the best one measured."""
    chance, generator = random.Random(2026), np.random.default_rng(2026)
    for number in range(50):
        case = random_case(chance)
        worst, sure, worse = check(case, generator)
        print(f"{number}: {case}: stated against measured {worst:.3f}, choice against best {worse:.3f}", flush=True)
        assert sure <= 1.1, str(case)
        assert worse <= 1.05, str(case)


def test_noise_far_finer_than_what_is_counted_is_weighed_too() -> None:
    """A count with hardly any noise: the line is cut no finer than whole numbers, or it would not fit into memory."""
    belief = parse_grid_prior("normal(80, 20)", Fraction(0), Fraction(1200), Fraction(1), "COUNT")
    noise = ScaledNoise(DiscreteLaplace(100, 1), 1.0)
    assert 0 <= estimate_posterior_error(belief, noise) < 1e-6
