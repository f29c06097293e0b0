"""Reconciliation: the nearest answers under totals, nesting, bounds and order; whole numbers; facts and their label."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain, combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression, linprog, minimize

from discreet import Guarantee, InvalidInput, Unsupported, at_least, at_most, reconcile, total
from discreet.constraints import Constraint, decreasing, fixed, increasing, linear, nested, refine_linear, same_total
from discreet.estimation.constraint_set import ConstraintSet, gather_constraints

Array = NDArray[np.float64]


def measure_violation(values: Array, must: ConstraintSet) -> float:
    """By how much the worst constraint is missed, in parts of the largest value."""
    order = [values[before] - values[after] for places in must.chains for before, after in pairwise(places)]
    gaps = [*np.abs(must.matrix.T @ values - must.constants), *(must.low - values), *(values - must.high), *order]
    return max(0.0, *gaps) / max(1.0, float(np.abs(values).max()))


def measure_distance(values: Array, noisy: Array, variance: Array) -> float:
    return float(((values - noisy) ** 2 / variance).sum() / 2)


def build_dense_constraints(must: ConstraintSet) -> tuple[Array, Array, Array, Array]:
    """Dense rows: equal @ x = right, most @ x <= ceiling."""
    cells = np.eye(len(must.low))
    order = [cells[before] - cells[after] for places in must.chains for before, after in pairwise(places)]
    low, high = np.isfinite(must.low), np.isfinite(must.high)
    most = np.vstack([-cells[low], cells[high], *order])
    ceiling = np.concatenate([-must.low[low], must.high[high], np.zeros(len(order))])
    return must.matrix.toarray().T, must.constants, most, ceiling


def solve_by_enumeration(noisy: Array, variance: Array, must: ConstraintSet) -> float:
    """The least distance: least squares for every choice of inequalities that are met with equality."""
    equal, right, most, ceiling = build_dense_constraints(must)
    best, root = math.inf, np.sqrt(variance)
    for chosen in chain.from_iterable(combinations(range(len(most)), size) for size in range(len(noisy) + 1)):
        rows, sides = np.vstack([equal, most[list(chosen)]]), np.append(right, ceiling[list(chosen)])
        values = noisy + root * np.linalg.lstsq(rows * root, sides - rows @ noisy, rcond=1e-12)[0]
        if measure_violation(values, must) <= 1e-9:
            best = min(best, measure_distance(values, noisy, variance))
    return best


def is_feasible(must: ConstraintSet) -> bool:
    """Whether some answers satisfy all, by scipy's linear programs."""
    equal, right, most, ceiling = build_dense_constraints(must)
    return bool(linprog(np.zeros(len(must.low)), most, ceiling, equal, right, bounds=(None, None)).status == 0)


def solve_by_slsqp(noisy: Array, variance: Array, must: ConstraintSet) -> float:
    """The least distance that scipy's dense solver finds."""
    equal, right, most, ceiling = build_dense_constraints(must)
    rows = [{"type": "eq", "fun": lambda x: equal @ x - right, "jac": lambda _: equal}] if len(equal) else []
    rows += [{"type": "ineq", "fun": lambda x: ceiling - most @ x, "jac": lambda _: -most}] if len(most) else []
    solution = minimize(
        lambda x: measure_distance(x, noisy, variance),
        np.clip(noisy, must.low, must.high),
        jac=lambda x: (x - noisy) / variance,
        constraints=rows,
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    return float(solution.fun) if solution.success else math.inf


def draw_constrained_answers(rng: np.random.Generator, most: int) -> tuple[Array, Array, list[Constraint]]:
    """Noisy answers, variances and a few constraints of all kinds, which may contradict each other."""
    cells = int(rng.integers(2, most + 1))
    noisy = rng.normal(size=cells) * 10.0 ** rng.integers(-1, 4)
    noisy = np.round(noisy) if rng.random() < 0.5 else noisy

    def draw_cells() -> NDArray[np.int64]:
        return rng.permutation(cells)[: rng.integers(2, cells + 1)]

    offered: list[tuple[float, Callable[[], Constraint]]] = [
        (0.6, lambda: at_least(rng.integers(-3, 1))),
        (0.3, lambda: at_most(2 * np.abs(noisy).max() + 1)),
        (0.5, lambda: total(float(rng.choice([noisy.sum(), np.abs(noisy).sum()])), draw_cells())),
        (0.4, lambda: nested(int((places := draw_cells())[0]), places[1:])),
        (0.4, lambda: increasing(draw_cells())),
        (0.3, lambda: decreasing(draw_cells())),
        (0.2, lambda: fixed(1, int(rng.integers(cells)))),
        (0.2, same_total),
    ]
    return (
        noisy,
        rng.uniform(0.1, 5, cells),
        [build_constraint() for chance, build_constraint in offered if rng.random() < chance],
    )


def check_mixture(rng: np.random.Generator, most: int, reference: Callable[..., float]) -> bool:
    """Check one mixture; False where it was refused, which must be right."""
    noisy, variance, constraints = draw_constrained_answers(rng, most)
    must = gather_constraints(noisy, constraints)
    try:
        values = reconcile(noisy, constraints, variance).values
    except InvalidInput:
        assert not is_feasible(must), [constraint.name for constraint in constraints]
        return False
    assert measure_violation(values, must) <= 1e-9
    least = reference(noisy, variance, must)
    assert measure_distance(values, noisy, variance) <= least + 1e-9 * max(1.0, least), [
        constraint.name for constraint in constraints
    ]
    return True


def test_no_choice_of_active_constraints_is_nearer() -> None:
    """On small problems, where all of them can be tried."""
    rng = np.random.default_rng(1)
    assert sum(check_mixture(rng, 4, solve_by_enumeration) for _ in range(60)) >= 40


def compare_with_slsqp(seed: int, problems: int) -> int:
    rng = np.random.default_rng(seed)
    return sum(check_mixture(rng, 12, solve_by_slsqp) for _ in range(problems))


def test_mixed_constraints_hold_and_a_dense_solver_finds_none_nearer() -> None:
    """Every constraint to 1e-9; and what is refused as a contradiction is one."""
    assert compare_with_slsqp(2, 150) >= 100


@pytest.mark.soak
def test_mixed_constraints_hold_on_many_problems() -> None:
    """The same, longer."""
    assert compare_with_slsqp(3, 5000) >= 3500


def test_only_equalities_are_refined_linearly() -> None:
    refined = reconcile([10, 3, 5], [nested(0, [1, 2]), total(12, [0])], [1, 2, 3])
    linear = refine_linear([10, 3, 5], [[-1, 1], [1, 0], [1, 0]], [0, 12], [1, 2, 3])
    assert refined.values == pytest.approx(linear.values)
    assert refined.covariance() == pytest.approx(linear.covariance())


def test_only_bounds_are_a_clip() -> None:
    assert reconcile([-3, 4, 9], [at_least(0), at_most([1, 5, 6])]).values.tolist() == [0, 4, 6]


@pytest.mark.parametrize("way", [increasing, decreasing])
def test_an_order_alone_is_scipy_s_isotonic_regression(way: Callable[..., Constraint]) -> None:
    """In the order the cells are named, weighed by their noise; other cells stay."""
    rng = np.random.default_rng(6)
    for _ in range(50):
        noisy, variance, places = rng.normal(size=20), rng.uniform(0.1, 5, 20), rng.permutation(20)[:15]
        refined = reconcile(noisy, [way(places)], variance).values
        best = isotonic_regression(noisy[places], weights=1 / variance[places], increasing=way is increasing).x
        others = np.setdiff1d(np.arange(20), places)
        assert np.abs(refined[places] - best).max() <= 1e-12
        assert (refined[others] == noisy[others]).all()


def test_20000_answers_in_order_with_a_known_total() -> None:
    """The sparse solver's answer is exact to 1e-9."""
    rng = np.random.default_rng(8)
    noisy = np.arange(20_000) * 0.01 + rng.laplace(scale=5, size=20_000)
    constraints = [increasing(), total(2_000_000), at_least(np.linspace(-1, 1, 20_000))]
    refined = reconcile(noisy, constraints)
    assert measure_violation(refined.values, gather_constraints(noisy, constraints)) <= 1e-9


def test_a_total_with_bounds_is_exact() -> None:
    """Weights: the noisier cell moves further; a cell at its bound stays there."""
    refined = reconcile([3, 5, -2, 50], [total(12, [0, 1, 2]), at_least(0), at_most(30)], [1, 3, 1, 1])
    assert refined.values == pytest.approx([4, 8, 0, 30])


def test_sparse_histograms_gain_most_from_not_being_negative() -> None:
    """Nineteen of twenty cells empty: the error is less than half, with or without a total that is kept."""
    rng = np.random.default_rng(7)
    exact = np.where(rng.random(1000) < 0.05, rng.integers(1, 1000, 1000), 0)
    noisy = exact + rng.laplace(scale=10, size=1000)
    raw = ((noisy - exact) ** 2).mean()
    assert ((reconcile(noisy, [at_least(0)]).values - exact) ** 2).mean() < 0.6 * raw
    reconciled = reconcile(noisy, [at_least(0), total(int(exact.sum()))])
    assert ((reconciled.values - exact) ** 2).mean() < raw / 2


@given(st.integers(0, 2**32))
def test_refined_answers_are_never_further_from_the_truth(seed: int) -> None:
    """In squares weighed by the noise, whatever the constraints that the truth satisfies."""
    rng = np.random.default_rng(seed)
    parts = np.sort(rng.integers(0, 20, 5)).astype(float)
    exact, variance = np.append(parts, parts.sum()), rng.uniform(0.1, 5, 6)
    noisy = exact + rng.laplace(size=6) * np.sqrt(variance / 2)
    true = [nested(5, range(5)), at_least(0), increasing(range(5)), total(float(parts[:3].sum()), range(3))]
    refined = reconcile(noisy, [constraint for constraint in true if rng.random() < 0.6], variance).values
    assert measure_distance(refined, exact, variance) <= measure_distance(noisy, exact, variance) * (1 + 1e-9) + 1e-12


def test_a_total_that_stays_gives_its_noise_back() -> None:
    """The answers' own total is no more precise than they are: A V A' with the A that is really applied."""
    variance = np.array([1.0, 2.0, 4.0])
    refined = reconcile([3, 5, -9], [same_total(), fixed(0, 2)], variance)
    assert refined.values.sum() == pytest.approx(-1)
    share = variance[:2] / 3
    applied = np.zeros((3, 3))
    applied[:2] = np.eye(3)[:2] + np.outer(share, [0, 0, 1])
    assert refined.covariance() == pytest.approx(applied @ np.diag(variance) @ applied.T)
    assert refined.variances() == pytest.approx(np.diag(refined.covariance()))


def test_95_percent_intervals_cover_at_least_93_percent_with_inequalities() -> None:
    """They are cut to the bounds and hold the refined value; cells at the bound and far from it, in a nested order."""
    rng, parts = np.random.default_rng(10), np.array([0.0, 0.0, 0.0, 1.0, 2.0, 40.0])
    exact = np.append(parts, parts.sum())
    true = [nested(6, range(6)), at_least(0), increasing(range(6)), at_most(40, range(6))]
    hits, cut = [], []
    for _ in range(200):
        refined = reconcile(exact + rng.laplace(scale=3, size=7), true, 18)
        low, high = refined.intervals(0.95).T
        assert ((low <= refined.values) & (refined.values <= high)).all()
        hits.append((low <= exact + 1e-9) & (high >= exact - 1e-9))
        cut.append((low >= 0).all() and (high[:6] <= 40).all())
    assert all(cut)
    assert np.mean(hits) >= 0.93
    assert np.mean(hits, axis=0).min() >= 0.91


@pytest.mark.parametrize(
    ("constraints", "named", "not_named"),
    [
        ([at_most(3), total(100)], ["every cell is at most 3", "all cells add up to 100"], []),
        ([at_least(0), total(-5, [0, 1]), increasing([3, 4])], ["at least 0", "cells 0, 1 add up to -5"], ["fall"]),
        ([total(3), total(4), total(1, [0])], ["add up to 3", "add up to 4"], ["cell 0 adds"]),
        ([at_least(4, [1]), at_most(3), at_most(9)], ["cell 1 is at least 4", "every cell is at most 3"], ["most 9"]),
        ([fixed(2, 0), at_most(1), nested(4, [3])], ["cell 0 is 2", "at most 1"], ["sum"]),
        ([increasing([0, 1]), fixed([2, 1], [0, 1])], ["cell 0 is 2", "cell 1 is 1", "cells 0, 1 do not fall"], []),
        ([nested(0, [1, 2]), fixed(9, 0), at_most(4, [1, 2])], ["cell 0 is the sum of cells 1, 2", "at most 4"], []),
        ([nested(0, [1, 2]), fixed(9, 0), at_least(0), at_most(8)], ["cell 0 is 9", "at most 8"], ["at least", "sum"]),
    ],
)
def test_contradictions_are_named(constraints: list[Constraint], named: list[str], not_named: list[str]) -> None:
    """And constraints that have no part in them are not."""
    with pytest.raises(InvalidInput, match="contradict each other") as refusal:
        reconcile([1, 2, 3, 4, 5], constraints)
    assert [text for text in named if text not in str(refusal.value)] == []
    assert [text for text in not_named if text in str(refusal.value)] == []


def test_redundant_constraints_are_dropped_and_said() -> None:
    refined = reconcile([1, 2, 3], [nested(0, [1, 2]), fixed(4, 0), total(4, [1, 2]), at_least(0)])
    assert len(refined.dropped) == 1
    assert refined.dropped[0] in {"cell 0 is the sum of cells 1, 2", "cell 0 is 4", "cells 1, 2 add up to 4"}


def draw_tree(rng: np.random.Generator, leaves: int) -> tuple[Array, dict[int, list[int]]]:
    """A random tree above some leaves: noisy answers of all nodes, and the parts of each that has some."""
    open_, family, cells = list(range(leaves)), {}, leaves
    while len(open_) > 1:
        taken = [open_.pop(int(rng.integers(len(open_)))) for _ in range(min(len(open_), int(rng.integers(2, 5))))]
        family[cells] = taken
        open_.append(cells)
        cells += 1
    return rng.normal(size=cells) * 20, family


@given(st.integers(0, 2**32))
def test_whole_numbers_keep_totals_nesting_and_bounds(seed: int) -> None:
    """Exactly; and each is less than 1 from what it would be otherwise."""
    rng = np.random.default_rng(seed)
    noisy, family = draw_tree(rng, int(rng.integers(4, 20)))
    root = len(noisy) - 1
    offered = [at_least(0), fixed(100, root), at_most(80, range(3)), at_least([0.5, 0.5], [0, 1]), same_total([root])]
    also = [constraint for constraint in offered[: 4 if rng.random() < 0.5 else 3] if rng.random() < 0.6]
    constraints = [nested(family), *also] if rng.random() < 0.9 else [at_least(0)]
    refined = reconcile(noisy, constraints, whole=True).values
    tight = [at_least(1, [0, 1]) if constraint is offered[3] else constraint for constraint in constraints]
    assert (refined == np.round(refined)).all()
    assert measure_violation(refined, gather_constraints(noisy, tight)) == 0
    assert np.abs(refined - reconcile(noisy, tight).values).max() < 1


@given(st.integers(0, 2**32))
def test_whole_numbers_keep_the_order_of_the_parts_of_a_total(seed: int) -> None:
    """Also where many are equal; and without a total."""
    rng = np.random.default_rng(seed)
    noisy, order = rng.normal(size=12) * 3, rng.permutation(12)
    constraints = [increasing(order[:8]), decreasing(order[7:4:-1]), at_least(-2)]
    constraints += [total(max(int(noisy.sum()), -20))] if rng.random() < 0.7 else []
    refined = reconcile(noisy, constraints, whole=True).values
    assert (refined == np.round(refined)).all()
    assert measure_violation(refined, gather_constraints(noisy, constraints)) == 0


def test_whole_numbers_in_a_large_tree() -> None:
    """Binary, over 4,096 leaves, none negative."""
    family = {node: [2 * node + 1, 2 * node + 2] for node in range(4095)}
    noisy = np.random.default_rng(3).laplace(scale=8, size=8191)
    refined = reconcile(noisy, [nested(family), at_least(0), fixed(500, 0)], whole=True).values
    assert refined[0] == 500
    assert refined[4095:].sum() == 500
    assert refined.min() == 0


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ([linear([[1], [2], [3]], [5])], "each cell is a part of one total at most and all constants are whole"),
        ([total(5, [0, 1]), total(6, [1, 2])], "each cell is a part of one total at most"),
        ([total(5.5)], "all constants are whole"),
        ([nested({0: [1], 1: [0, 2]})], "each cell is a part of one total at most"),
        ([total(5, [0, 1]), increasing([1, 2])], "keep an order among the parts of one total"),
        ([increasing([0, 1]), increasing([1, 0])], "keep an order among the parts of one total"),
    ],
)
def test_whole_numbers_that_cannot_be_kept_are_refused(constraints: list[Constraint], message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        reconcile([1, 2, 3], constraints, whole=True)


def test_whole_numbers_between_two_that_leave_none_are_a_contradiction() -> None:
    with pytest.raises(InvalidInput, match=r"every cell is at least 0\.2; every cell is at most 0\.8"):
        reconcile([1, 2], [at_least(0.2), at_most(0.8)], whole=True)


def test_structural_constraints_leave_the_guarantee_as_it_is() -> None:
    promise = Guarantee.dp(1)
    assert reconcile([3, 5], [total(10), at_least(0)], guarantee=promise).guarantee is promise
    assert reconcile([3, 5], [total(10)]).guarantee is None


def test_a_fact_needs_a_word_and_takes_the_promise_away() -> None:
    """Two categories (document 002, Example 1): each refined count apart has twice epsilon, both no bound."""
    fact = total(10).fact()
    with pytest.raises(InvalidInput, match="this is a fact of one data set, not true of every one: all cells add up"):
        reconcile([3, 5], [fact])
    with pytest.raises(InvalidInput, match="give the guarantee and the variance of the noisy answers"):
        reconcile([3, 5], [fact], accept_facts=True)
    reconciled = reconcile([3, 5], [fact], 2, accept_facts=True, guarantee=Guarantee.dp(1))
    assert reconciled.values == pytest.approx([4, 6])
    assert reconciled.guarantee is not None
    assert reconciled.guarantee.model == "nominal"
    assert reconciled.guarantee.epsilon == 2
    assert any("all cells add up to 10" in text for text in reconciled.guarantee.assumptions)


def test_facts_with_inequalities_or_many_answers_have_no_bound_even_apart() -> None:
    for noisy, further_constraints in (([3, 5], [at_least(0)]), (np.ones(300), [])):
        reconciled = reconcile(
            noisy, [total(10).fact(), *further_constraints], 2, accept_facts=True, guarantee=Guarantee.dp(1)
        )
        assert reconciled.guarantee is not None
        assert any("apart has no bound" in text for text in reconciled.guarantee.assumptions)


def test_changes_between_neighbours_must_keep_what_is_structural() -> None:
    """A row changes a count and the totals it is part of, so neighbours do not differ in one cell alone."""
    noisy, promise = [5, 3, 8], Guarantee.dp(1)
    constraints = [nested(2, [0, 1]), fixed(5, 0).fact()]
    with pytest.raises(InvalidInput, match="a change between neighbours must keep the structural constraints"):
        reconcile(noisy, constraints, 2, accept_facts=True, guarantee=promise)
    changes = [[1, 0, 1], [0, 1, 1]]
    reconciled = reconcile(noisy, constraints, 2, accept_facts=True, guarantee=promise, changes=changes)
    assert reconciled.guarantee is not None
    assert any("apart has no bound" in text for text in reconciled.guarantee.assumptions)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: total(math.nan), "the total must be finite numbers"),
        (lambda: total([1, 2]), "the total must be one number, such as 10, got a list"),
        (lambda: total("5"), "the total must be one number, such as 10, got a text"),
        (lambda: total(5, []), "the cells of a constraint are a list of whole numbers, counted from 0, at least one"),
        (lambda: total(5, [0, 0]), "the cells of a constraint name a cell twice; name each once"),
        (lambda: total(5, [-1]), "counted from 0"),
        (lambda: total(5, [0.5]), "whole numbers"),
        (lambda: total(5, "ab"), "whole numbers"),
        (lambda: at_least(math.nan), "none of them NaN"),
        (lambda: at_least([1, 2], [0]), "a number, or a list with one for each cell"),
        (lambda: at_most("many"), "the greatest value must be numbers"),
        (lambda: at_most([[1], [1, 2]]), "the greatest value must be numbers"),
        (lambda: total(5, [[1], [1, 2]]), "whole numbers"),
        (lambda: nested([0], [1]), "the parents of a nesting are a list of whole numbers"),
        (lambda: fixed(math.inf, [0]), "fixed cells are named and have finite values"),
        (lambda: nested(0, [0, 1]), "a cell cannot be a part of itself"),
        (lambda: nested({}), "with at least one parent"),
        (lambda: nested({0: [1]}, [2]), "with at least one parent"),
        (lambda: linear([[1], [1]], [1, 2]), "B has 1 columns, a constraint each, so c must have 1 numbers, got 2"),
        (lambda: linear([1, -1], 0), "B has a row for each cell and a column for each constraint, such as [[1], [-1]]"),
        (lambda: reconcile([1, 2], guarantee="dp"), "the guarantee must be that of the noisy answers, such as"),
        (lambda: reconcile([1, 2], [total(5, [7])]), "there is no cell 7 among 2 answers, counted from 0"),
        (lambda: reconcile([1, 2], [at_least([1, 2, 3])]), "the bound of 2 cells is one number or one for each, got 3"),
        (lambda: reconcile([1, 2], [linear([[1]], [1])]), "B has 1 rows but there are 2 answers"),
        (lambda: reconcile([1, 2], ["total"]), "constraints are a list of what total, at_least, nested"),
        (lambda: reconcile([1, math.nan], [total(3)]), "the noisy answers must be finite numbers"),
        (lambda: reconcile([1, 2], [total(3)], 0), "every variance must be a finite number above 0"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(build: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        build()
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("whole", [False, True])
def test_without_a_variance_there_are_no_intervals(whole: bool) -> None:
    """As of refine_linear, with inequalities and whole numbers too."""
    rules = [total(10), at_least(0)]
    with pytest.raises(InvalidInput, match=r"^say the variance of the noise, such as variance=200, to have intervals$"):
        reconcile([3, 5], rules, whole=whole).intervals()
    assert reconcile([3, 5], rules, 1, whole=whole).intervals().shape == (2, 2)
    assert reconcile([3, 5], rules, whole=whole).variances() == pytest.approx([0.5, 0.5])


def test_constraints_say_themselves_in_words() -> None:
    assert total(5, [3]).name == "cell 3 adds up to 5"
    assert at_least(0, range(9)).name == "cells 0, 1, 2, 3 and 5 more are at least 0"
    assert nested({0: [1, 2], 3: [4, 5]}).name == "2 cells are the sums of their parts"
    assert total(5).structural
    assert not total(5).fact().structural


def test_where_the_solver_stalls_the_answer_is_still_the_nearest() -> None:
    """Variances of many sizes, an order and a total across it: what is told is no farther than a point that fits."""
    noisy = [8.146, 12.689, 4.946, 16.401, 10.187, -0.003, 20.522, 12.135, -0.683]
    variance = [113.75, 14.21, 2.36, 672.43, 2.07, 0.02, 2.98, 2.2, 266.36]
    rules = [at_least(0), decreasing([6, 3, 1, 7, 0, 4, 2, 8, 5]), total(48, [7, 6, 8, 2, 0, 5])]
    values = reconcile(noisy, rules, variance).values
    assert float(((values - noisy) ** 2 / variance).sum()) / 2 == pytest.approx(0.0197739, abs=1e-6)


def test_variances_too_far_apart_are_refused() -> None:
    """Beyond 10^12 times each other differences drown in rounding, and intervals would be too short."""
    with pytest.raises(InvalidInput, match="10\\^12 times each other"):
        reconcile([0, 1], [total(0)], variance=[1e-8, 1e8])


def test_too_many_constraints_on_one_cell_are_refused() -> None:
    """Rather than take minutes and gigabytes."""
    many = 3_001
    parts = {2 * index + 1: [0, 2 * index + 2] for index in range(many)}
    with pytest.raises(Unsupported, match="do not fit into memory"):
        reconcile([1.0] * (2 * many + 1), [nested(parts)])
