"""Linear refinement: least squares by a sparse factor, its covariance and intervals, and any other (A, D, h)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from discreet import InvalidInput
from discreet.constraints import LinearRefinement, refine_linear
from discreet.estimation.least_squares import compute_selected_inverse
from discreet.estimation.linear_refinement import compute_worst_quantile

Array = NDArray[np.float64]


def build_tree(cells: int, branching: int) -> sparse.csc_array:
    """Cell i has the parts branching * i + 1, ..., branching * i + branching."""
    every = np.arange(cells)
    parent = (every - 1) // branching
    inner = np.arange(parent[-1] + 1)
    rows, columns = np.concatenate([every[1:], inner]), np.concatenate([parent[1:], inner])
    signs = np.concatenate([np.ones(cells - 1), -np.ones(len(inner))])
    return sparse.csc_array((signs, (rows, columns)), shape=(cells, len(inner)))


def refine_densely(noisy: Array, B: Array, c: Array, variance: Array) -> tuple[Array, Array]:  # noqa: N803
    """The same by dense matrices: the shortest change in units of the noise, and what noise is left of it."""
    root = np.sqrt(variance)
    scaled = root[:, None] * B
    moved = np.linalg.lstsq(scaled.T, c - B.T @ noisy, rcond=1e-11)[0]
    left, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
    span = left[:, sizes > 1e-11 * sizes.max(initial=0)]
    return noisy + root * moved, np.diag(variance) - np.outer(root, root) * (span @ span.T)


def draw_problem(rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """Answers, constraints that some answers satisfy, one in three times with redundant ones, and variances."""
    cells = int(rng.integers(1, 30))
    B = rng.normal(size=(cells, rng.integers(0, cells + 1)))  # noqa: N806
    if rng.random() < 0.5:
        B = np.round(B)  # noqa: N806
    if rng.random() < 0.3 and B.shape[1]:
        B = np.hstack([B, B @ rng.integers(-2, 3, size=(B.shape[1], 2))])  # noqa: N806
    exact = rng.normal(size=cells) * 10
    return exact + rng.laplace(size=cells), B, B.T @ exact, rng.uniform(0.1, 10, cells)


@pytest.mark.parametrize("problems", [300, pytest.param(5000, marks=pytest.mark.soak)])
def test_least_squares_equals_a_dense_reference_on_random_problems(problems: int) -> None:
    """Values and variances, with dense and with sparse constraints, independent or not."""
    rng = np.random.default_rng(5)
    for _ in range(problems):
        noisy, B, c, variance = draw_problem(rng)  # noqa: N806
        values, covariance = refine_densely(noisy, B, c, variance)
        refined = refine_linear(noisy, sparse.csr_array(B) if rng.random() < 0.5 else B, c, variance)
        scale = max(1.0, np.abs(values).max())
        assert np.abs(refined.values - values).max() <= 1e-9 * scale
        assert np.abs(refined.variances() - np.diag(covariance)).max() <= 1e-9 * variance.max()
        assert np.abs(refined.covariance() - covariance).max() <= 1e-9 * variance.max()
        assert len(refined.dropped) == B.shape[1] - np.linalg.matrix_rank(B)


@pytest.mark.parametrize("branching", [2, 3, 10])
def test_a_tree_of_totals_equals_a_dense_reference(branching: int) -> None:
    """Also with a root that is known, and another noise at every node."""
    B, rng = build_tree(255, branching), np.random.default_rng(branching)  # noqa: N806
    known_root = sparse.hstack([B, sparse.csc_array(([1.0], ([0], [0])), shape=(255, 1))])
    noisy, variance = rng.normal(size=255) * 10, rng.uniform(0.1, 10, 255)
    c = np.append(np.zeros(B.shape[1]), 40.0)
    refined = refine_linear(noisy, known_root, c, variance)
    values, covariance = refine_densely(noisy, known_root.toarray(), c, variance)
    assert np.abs(refined.values - values).max() <= 1e-9
    assert np.abs(refined.variances() - np.diag(covariance)).max() <= 1e-9
    assert refined.variances()[0] == pytest.approx(0, abs=1e-12)


def build_chain(cells: int) -> sparse.csc_array:
    return sparse.diags_array(
        [np.ones(cells - 1), -np.ones(cells - 1)], offsets=[0, -1], shape=(cells, cells - 1)
    ).tocsc()


def build_crossed_totals(side: int) -> sparse.csc_array:
    """Row and column totals of a square table, but for the last column."""
    rows = sparse.kron(sparse.eye_array(side), np.ones((side, 1)))
    columns = sparse.kron(np.ones((side, 1)), sparse.eye_array(side))
    return sparse.hstack([rows, columns.tocsc()[:, :-1]]).tocsc()


def build_orthogonal(pairs: int) -> sparse.csc_array:
    """Sums and differences of the same cells, whose products are 0, tied to each other by totals of four cells."""
    both = sparse.kron(sparse.eye_array(pairs), np.array([[1.0, 1.0], [1.0, -1.0]]))
    ties = sparse.kron(sparse.eye_array(pairs // 4), np.tile([[1.0], [0.0]], (4, 1)))
    return sparse.hstack([both.tocsc()[:, : pairs * 2 - pairs // 2], ties]).tocsc()


@pytest.mark.parametrize(
    "B", [build_tree(2001, 2), build_tree(1500, 3), build_chain(700), build_crossed_totals(30), build_orthogonal(400)]
)
def test_selected_entries_of_the_inverse_are_the_inverse_s(B: sparse.csc_array) -> None:  # noqa: N803
    """Whatever the shape of the factor, and where products of constraints cancel to 0."""
    variance = np.random.default_rng(0).uniform(0.5, 2, B.shape[0])
    refined = refine_linear(np.zeros(B.shape[0]), B, np.zeros(B.shape[1]), variance)
    normal = refined.spread.equations
    inverse, picked = np.linalg.inv(normal.gram.toarray()), compute_selected_inverse(normal.gram, normal.factor)
    shared = (np.abs(normal.unit).T @ np.abs(normal.unit)).toarray() > 0
    assert np.abs(np.where(shared, picked.toarray() - inverse, 0)).max() <= 1e-9 * np.abs(inverse).max()
    gained = (normal.unit.toarray() @ inverse * normal.unit.toarray()).sum(axis=1)
    assert np.abs(refined.variances() - variance * (1 - gained)).max() <= 1e-9


@given(st.integers(0, 2**32))
def test_refined_variance_never_exceeds_raw_variance(seed: int) -> None:
    """Constraints that are true cost nothing."""
    noisy, B, c, variance = draw_problem(np.random.default_rng(seed))  # noqa: N806
    assert (refine_linear(noisy, B, c, variance).variances() <= variance * (1 + 1e-12)).all()


@pytest.mark.parametrize("branching", [2, 10])
def test_100000_cells_in_a_tree_of_totals(branching: int) -> None:
    """They add up to the last digits, and no matrix of cells by cells is formed for the variances."""
    B = build_tree(100_000, branching)  # noqa: N806
    noisy = np.random.default_rng(1).laplace(scale=10, size=100_000)
    refined = refine_linear(noisy, B, np.zeros(B.shape[1]), 200)
    assert np.abs(B.T @ refined.values).max() <= 1e-9
    assert (refined.variances() < 200).all()
    with pytest.raises(InvalidInput, match=r"too large to write out, at most 5000 fit; use \.variances\(\)"):
        refined.covariance()


def test_a_total_of_all_leaves_beside_their_tree_is_found_redundant() -> None:
    """Although it is a combination of 50,000 constraints; and a contradiction in it is found too."""
    B = build_tree(100_000, 2)  # noqa: N806
    leaves = np.where(np.arange(100_000) >= B.shape[1], 1.0, 0.0)
    root = np.where(np.arange(100_000) == 0, 1.0, 0.0)
    both = sparse.hstack([B, np.column_stack([leaves, root])])
    c, noisy = np.zeros(both.shape[1]), np.random.default_rng(1).normal(size=100_000)
    c[-2:] = 5
    refined = refine_linear(noisy, both, c)
    assert len(refined.dropped) == 1
    assert np.abs(both.T @ refined.values - c).max() <= 1e-9
    c[-1] = 6
    with pytest.raises(InvalidInput, match="contradict each other"):
        refine_linear(noisy, both, c)


def test_everything_said_twice_is_dropped_once() -> None:
    B = build_tree(2001, 2)  # noqa: N806
    noisy = np.random.default_rng(1).normal(size=2001)
    twice = refine_linear(noisy, sparse.hstack([B, B]), np.zeros(2000))
    assert len(twice.dropped) == 1000
    assert twice.values == pytest.approx(refine_linear(noisy, B, np.zeros(1000)).values, abs=1e-9)


def test_redundant_constraints_are_dropped_and_said() -> None:
    """One of the three that say the same twice."""
    refined = refine_linear([1, 2, 3], [[1, 0, 1], [1, 0, 1], [0, 1, 1]], [5, 2, 7])
    assert len(refined.dropped) == 1
    assert refined.dropped[0] in {"constraint 0", "constraint 1", "constraint 2"}
    assert refined.values == pytest.approx([2, 3, 2])


def test_inconsistent_constraints_are_named_and_others_are_not() -> None:
    B = [[1, 0, 1, 0], [1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]  # noqa: N806
    with pytest.raises(InvalidInput) as refusal:
        refine_linear([1, 2, 3, 4], B, [5, 2, 8, 1])
    assert all(f"constraint {column}" in str(refusal.value) for column in (0, 1, 2))
    assert "constraint 3" not in str(refusal.value)


def test_a_constraint_on_no_cell_is_redundant_or_cannot_hold() -> None:
    assert refine_linear([1, 2], [[1, 0], [1, 0]], [3, 0]).dropped == ("constraint 1",)
    with pytest.raises(InvalidInput, match="no answers can satisfy this constraint: constraint 1; change it"):
        refine_linear([1, 2], [[1, 0], [1, 0]], [3, 1])


def test_a_constraint_that_only_a_precise_answer_tells_apart_is_kept() -> None:
    """Two totals that differ by one cell, whose noise is a millionth of the others'."""
    B = np.array([[1, 1], [1, 1], [1, 0]])  # noqa: N806
    refined = refine_linear([1, 2, 3], B, [10, 4], [1, 1, 1e-12])
    assert refined.dropped == ()
    assert refined.values == pytest.approx([1.5, 2.5, 6])


@pytest.mark.parametrize(
    ("noisy", "B", "c", "variance", "message"),
    [
        ([1, 2], [[1], [1], [1]], [3], None, "such as [[1], [-1]]; here it must have 2 rows, got 3"),
        ([1, 2], [1, 1], [3], None, "B has a row for each cell and a column for each constraint, such as"),
        ([1, 2], [[1], [1]], [3, 4], None, "B has 1 columns, a constraint each, so c must have 1 numbers, got 2"),
        (
            [1, math.nan],
            [[1], [1]],
            [3],
            None,
            "the noisy answers must be finite numbers of at most 10^100; take out or mend",
        ),
        ([1, 2], [[1], [math.inf]], [3], None, "B must hold finite numbers of at most 10^100; take out or mend"),
        (
            [1, 2],
            [[1], [1]],
            [math.nan],
            None,
            "the constants c must be finite numbers of at most 10^100; take out or mend",
        ),
        ([1, 2], [[1], [1]], [3], [1, 0], "above 0, else the weights are singular; state an answer that is known"),
        ([1, 2], [[1], [1]], [3], -1, "every variance must be a finite number above 0"),
        ([1, 2], [[1], [1]], [3], [1, math.inf], "every variance must be a finite number above 0"),
        ([1, 2], [[1], [1]], [3], [1, 1, 1], "one number or one for each of the 2 answers, got shape"),
        ([1, 1e200], [[1], [1]], [3], None, "NaN, infinite or larger"),
        ([], [[1], [1]], [3], None, "the noisy answers must be a list of numbers, at least one"),
        (["a", "b"], [[1], [1]], [3], None, "the noisy answers must be numbers"),
        ([[1, 2], [3]], [[1], [1]], [3], None, "the noisy answers must be numbers"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(
    noisy: object,
    B: object,  # noqa: N803
    c: object,
    variance: object,
    message: str,
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        refine_linear(noisy, B, c, variance)
    assert message in str(refusal.value)


def test_what_was_given_stays_as_it_is_and_what_is_told_cannot_be_changed() -> None:
    noisy = np.array([3.0, 5.0])
    refined = refine_linear(noisy, [[1], [1]], 10)
    assert noisy.tolist() == [3, 5]
    with pytest.raises(ValueError, match="read-only"):
        refined.values[0] = 7


def test_no_constraint_changes_nothing() -> None:
    refined = refine_linear([3, 5], np.zeros((2, 0)), [], [2, 3])
    assert refined.values.tolist() == [3, 5]
    assert refined.variances().tolist() == [2, 3]


def measure_tree_coverage(noise: Array, scale: Array, step: float = 0) -> float:
    """How often the 95 % intervals of a refined tree of 31 cells hold the truth, which is 0, over rows of noise."""
    rows = len(noise)
    B = sparse.kron(sparse.eye_array(rows), build_tree(31, 2)).tocsc()  # noqa: N806 - a tree for each row, apart from the others
    refined = refine_linear((noise * scale).ravel(), B, np.zeros(15 * rows), np.tile(2 * scale**2, rows))
    low, high = refined.intervals(0.95, step).T
    return float(((low <= 1e-9) & (high >= -1e-9)).mean())


def test_95_percent_intervals_cover_93_to_97_percent() -> None:
    """Laplace and Gaussian noise, with another scale at each level of a tree."""
    rng, scale = np.random.default_rng(9), np.repeat([1.0, 2.0, 1.5, 0.7, 3.0], [1, 2, 4, 8, 16])
    assert 0.93 <= measure_tree_coverage(rng.laplace(size=(300, 31)), scale) <= 0.97
    assert 0.93 <= measure_tree_coverage(math.sqrt(2) * rng.normal(size=(300, 31)), scale) <= 0.97


def test_intervals_a_fifth_too_short_would_be_noticed() -> None:
    """The bar above tells a deviation that is a fifth too small from the right one."""
    rng = np.random.default_rng(9)
    assert measure_tree_coverage(1.25 * rng.laplace(size=(300, 31)), np.ones(31)) < 0.93


def test_whole_number_noise_is_covered_with_its_step() -> None:
    """Discrete Laplace noise at epsilon 1, alone: half a step on both sides makes up for the gaps between values."""
    p = math.exp(-1)
    variance = 2 * p / (1 - p) ** 2
    low, high = refine_linear([0.0], np.zeros((1, 0)), [], variance).intervals(0.95, 1)[0]
    beyond = 2 * p ** (math.floor(high) + 1) / (1 + p)
    assert low == -high
    assert 0.949 <= 1 - beyond <= 0.99
    short = refine_linear([0.0], np.zeros((1, 0)), [], variance).intervals(0.95)[0][1]
    assert 1 - 2 * p ** (math.floor(short) + 1) / (1 + p) < 0.93


def compute_tail_probability(weights: Array, gaussian: float, threshold: float) -> float:
    """P(|S| > at) for a weighted sum S, of variance 1, of Laplace noises and a Gaussian: by its characteristic law."""
    weights = weights / math.sqrt(2 * float(weights @ weights) / (1 - gaussian))
    t = np.linspace(1e-6, 300, 60_001)
    law = np.exp(-gaussian * t**2 / 2 - np.log1p(np.outer(weights**2, t**2)).sum(axis=0))
    return float(1 - 2 / math.pi * (np.trapezoid(law * np.sin(t * threshold) / t, t) + 1e-6 * threshold))


def list_mixtures() -> list[tuple[Array, float]]:
    """Equal weights, one large and many small ones, drawn ones; each alone and beside Gaussian noise."""
    rng = np.random.default_rng(3)
    mixtures = [np.ones(count) for count in (1, 2, 3, 5, 10, 30)]
    mixtures += [np.append(1, np.full(count, small)) for count in (1, 5) for small in (0.2, 0.5, 0.8)]
    mixtures += [rng.exponential(size=rng.integers(2, 7)) for _ in range(5)]
    return [(weights, gaussian) for weights in mixtures for gaussian in (0, 0.2, 0.6)]


@pytest.mark.parametrize("confidence", [0.5, 0.7, 0.8, 0.88, 0.9, 0.905, 0.91, 0.92, 0.95, 0.99, 0.999])
def test_the_quantile_covers_every_weighted_sum_of_laplace_and_gaussian_noises(confidence: float) -> None:
    """And is met by one of the two ends, so none shorter would do."""
    quantile = compute_worst_quantile(confidence)
    chances = [compute_tail_probability(weights, gaussian, quantile) for weights, gaussian in list_mixtures()]
    chances.append(math.erfc(quantile / math.sqrt(2)))
    assert max(chances) == pytest.approx(1 - confidence, rel=2e-3, abs=2e-6)


@pytest.mark.parametrize("confidence", [0, 1, 95, "0.95", math.nan])
def test_a_confidence_is_between_0_and_1(confidence: object) -> None:
    with pytest.raises(InvalidInput, match="the confidence"):
        refine_linear([3, 5], [[1], [1]], 10, 2).intervals(confidence)


def test_without_a_variance_there_are_no_intervals() -> None:
    """No variance is invented: values need none, variances and covariance are in units of the common one."""
    refined = refine_linear([3, 5], [[1], [1]], 10)
    assert refined.values.tolist() == [4, 6]
    assert refined.variances() == pytest.approx([0.5, 0.5])
    assert refined.covariance() == pytest.approx(np.array([[0.5, -0.5], [-0.5, 0.5]]))
    with pytest.raises(InvalidInput, match=r"^say the variance of the noise, such as variance=200, to have intervals$"):
        refined.intervals()
    assert refine_linear([3, 5], [[1], [1]], 10, 1).intervals().shape == (2, 2)


def test_the_best_refinement_is_constrained_unbiased_and_what_least_squares_gives() -> None:
    rng = np.random.default_rng(2)
    B, variance = rng.normal(size=(6, 2)), rng.uniform(0.5, 3, 6)  # noqa: N806
    best, noisy, c = LinearRefinement.best(B, variance), rng.normal(size=6), [1.0, -2.0]
    refined = refine_linear(noisy, B, c, variance)
    assert best.is_constrained(B)
    assert best.is_unbiased(B)
    assert best.apply(noisy, c) == pytest.approx(refined.values)
    assert best.covariance(variance) == pytest.approx(refined.covariance())


def test_no_other_constrained_and_unbiased_refinement_has_less_variance() -> None:
    """Weights that are not those of the noise give one that is as right, and worse."""
    rng = np.random.default_rng(4)
    B, variance = rng.normal(size=(6, 2)), rng.uniform(0.5, 3, 6)  # noqa: N806
    other = LinearRefinement.best(B, rng.uniform(0.1, 10, 6))
    assert other.is_constrained(B)
    assert other.is_unbiased(B)
    excess = other.covariance(variance) - LinearRefinement.best(B, variance).covariance(variance)
    assert np.linalg.eigvalsh(excess).min() >= -1e-9
    assert np.trace(excess) > 0.01


@pytest.mark.parametrize("k", [1, 2, 5, 10])
def test_the_appendix_s_refinement_is_unbiased_but_not_constrained(k: int) -> None:
    """Document 002, (17) and (18): X1 = (X1 + X2 + c)/(k + 1) and X2 left alone do not give k X1 - X2 = c."""
    B = [[k], [-1]]  # noqa: N806
    printed = LinearRefinement([[1 / (k + 1), 1 / (k + 1)], [0, 1]], [[1 / (k + 1)], [0]])
    assert printed.is_unbiased(B)
    assert not printed.is_constrained(B)
    first, second = printed.apply([4, 9], [k])
    assert first == pytest.approx((4 + 9 + k) / (k + 1))
    assert second == 9
    assert k * first - second != pytest.approx(k)


def test_a_shift_makes_a_refinement_biased() -> None:
    best = LinearRefinement.best([[1], [1]])
    shifted = LinearRefinement(best.A, best.D, [1, -1])
    assert shifted.is_constrained([[1], [1]])
    assert not shifted.is_unbiased([[1], [1]])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LinearRefinement([[1, 0]], [[1]]), "A must be square, with a row for each of at most 5000 answers"),
        (lambda: LinearRefinement([[1]], [[1], [1]]), "here it must have 1 row, got 2"),
        (lambda: LinearRefinement([[1]], [[1]], [1, 2]), "h must have a number for each of the 1 answers, got 2"),
        (lambda: LinearRefinement.best([[1]]).apply([1, 2], 3), "this refinement is of 1 answers, got 2"),
        (lambda: LinearRefinement.best([[1, 2], [1, 2]]), "the other constraints imply constraint"),
        (lambda: LinearRefinement.best([[1], [1]]).is_unbiased([[1]]), "here it must have 2 rows, got 1"),
    ],
)
def test_a_refinement_whose_shapes_do_not_fit_is_refused(build: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        build()
