"""The tests' own tools: two jaws that bite, neighbours that are neighbours, losses that are exact."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet.verification
from discreet import DiscreteLaplace, InvalidInput, Prior, refine
from discreet.mechanisms.entropy import get_entropy
from discreet.verification import (
    ScriptedEntropy,
    all_neighbors,
    all_tables,
    assert_fits,
    chi_square_excess,
    exact_delta,
    neighbor_tables,
    worst_ratio,
)

Probability = Callable[[int], float]
SCALE = 3.0


def build_laplace(scale: float) -> Probability:
    """The discrete Laplace law of that scale."""
    ratio = math.exp(-1 / scale)
    return lambda k: (1 - ratio) / (1 + ratio) * ratio ** abs(k)


def draw_expected(law: Probability, total: int = 100_000) -> list[int]:
    """Draws in exactly the law's proportions: a sampler without luck."""
    return [k for k in range(-200, 201) for _ in range(round(total * law(k)))]


CLAIM = (build_laplace(SCALE), build_laplace(SCALE * 0.9), build_laplace(SCALE * 1.1))


def test_a_right_sampler_fits() -> None:
    assert_fits(draw_expected(build_laplace(SCALE)), *CLAIM)
    noise = DiscreteLaplace(1 / Fraction(3), 1)
    assert_fits(noise.sample_units(100_000, get_entropy(None)), *CLAIM)
    assert_fits(iter(noise.sample_many(100_000)), *CLAIM)


def test_the_smaller_jaw_bites() -> None:
    with pytest.raises(AssertionError, match="fit the smaller law at least as well"):
        assert_fits(draw_expected(build_laplace(SCALE * 0.9)), *CLAIM)


def test_the_larger_jaw_bites() -> None:
    with pytest.raises(AssertionError, match="fit the larger law at least as well"):
        assert_fits(draw_expected(build_laplace(SCALE * 1.1)), *CLAIM)


def test_a_scale_ten_percent_off_is_caught_by_chi_square_alone() -> None:
    """Even where the jaws are no use."""
    useless = (build_laplace(SCALE), lambda _: 1e-12, lambda _: 1e-12)
    for scale in (SCALE * 0.9, SCALE * 1.1):
        with pytest.raises(AssertionError, match="chi-square"):
            assert_fits(draw_expected(build_laplace(scale)), *useless)


def test_a_wrong_shape_of_the_right_scale_is_caught() -> None:
    """Every tenth draw of 2 and -2 moved to the even neighbours: both jaws stay open, the shape does not fit."""
    law = build_laplace(SCALE)
    moved = {-2: 0.9, 2: 0.9, -1: 1 + 0.05 * law(2) / law(1), 1: 1 + 0.05 * law(2) / law(1)}
    moved |= {3: 1 + 0.05 * law(2) / law(3), -3: 1 + 0.05 * law(2) / law(3)}
    draws = draw_expected(lambda k: law(k) * moved.get(k, 1.0), 1_000_000)
    assert sum(map(abs, draws)) / len(draws) == pytest.approx(sum(abs(k) * law(k) for k in range(-200, 201)), rel=1e-3)
    with pytest.raises(AssertionError, match="chi-square"):
        assert_fits(draws, *CLAIM)


def test_draws_where_nothing_can_be_are_caught() -> None:
    """Also beyond the cells that are counted one by one."""
    counts = Counter(draw_expected(build_laplace(SCALE)))
    counts[1000] += 300
    assert chi_square_excess(counts, build_laplace(SCALE)) > 0
    certain = Counter({0: 1000, 7: 100})
    assert chi_square_excess(certain, lambda k: float(k == 0)) > 0
    assert chi_square_excess(Counter({0: 1000}), lambda k: float(k == 0)) <= 0


def test_a_value_never_drawn_counts() -> None:
    """Also where a tail drawn too often makes up for it."""
    counts = {0: 8000} | dict.fromkeys(range(2, 1002), 2)
    assert chi_square_excess(counts, lambda k: {0: 0.8, 1: 0.1}.get(k, 0.0001)) > 0


@pytest.mark.parametrize("draws", [[], [0] * 999])
def test_too_few_draws_accuse_nobody(draws: list[int]) -> None:
    with pytest.raises(InvalidInput, match=f"at least 1000 draws, got {len(draws)}"):
        assert_fits(draws, *CLAIM)


def test_no_draws_have_no_chi_square() -> None:
    with pytest.raises(InvalidInput, match="needs draws"):
        chi_square_excess({}, build_laplace(1))


def test_scripted_entropy_says_what_it_is_told() -> None:
    entropy = ScriptedEntropy(b"abcdef")
    assert [entropy.take(2), entropy.take(3), entropy.taken] == [b"ab", b"cde", 5]
    with pytest.raises(InvalidInput, match="has 6 bytes, 7 were asked for"):
        entropy.take(2)
    with pytest.raises(InvalidInput, match="must be bytes"):
        ScriptedEntropy("abc")


@pytest.mark.parametrize(("values", "size"), [(1, 3), (2, 0), (3, 2), (4, 3)])
def test_all_tables_are_all(values: int, size: int) -> None:
    """As many as multisets, each once."""
    tables = list(all_tables(range(values), size))
    assert len(tables) == len(set(tables)) == math.comb(values + size - 1, size)
    assert {tuple(sorted(table)) for table in product(range(values), repeat=size)} == set(tables)


def count_differences(one: tuple | list, two: tuple | list) -> tuple[int, int]:
    """How many records only the one and only the other has."""
    return (Counter(one) - Counter(two)).total(), (Counter(two) - Counter(one)).total()


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_all_neighbours_are_all(neighbors: str) -> None:
    """Against the definition over every table of about the size."""
    domain, added = range(3), neighbors == "add-remove"
    for table in (table for size in range(4) for table in all_tables(domain, size)):
        neighbor_tables = list(all_neighbors(table, domain, neighbors))
        assert len(neighbor_tables) == (len(table) + 3 if added else len(table) * 3)
        sizes = {len(table) - 1, len(table) + 1} if added else {len(table)}
        others = (other for size in sizes if size >= 0 for other in all_tables(domain, size))
        near = {(1, 0), (0, 1)} if added else {(1, 1), (0, 0)} if table else set()
        assert {tuple(sorted(table)) for table in neighbor_tables} == {
            other for other in others if count_differences(table, other) in near
        }


def test_an_unknown_relation_is_refused() -> None:
    with pytest.raises(InvalidInput):
        list(all_neighbors([1], [1, 2], "substitute"))
    with pytest.raises(InvalidInput):
        neighbor_tables(st.integers(), "substitute")
    with pytest.raises(InvalidInput, match="must be a Hypothesis strategy"):
        neighbor_tables([1, 2])


@given(neighbor_tables(st.integers(0, 3), "add-remove", max_size=5))
def test_pairs_that_differ_by_a_row_more(pair: tuple[list[int], list[int]]) -> None:
    assert count_differences(*pair) in {(1, 0), (0, 1)}
    assert min(map(len, pair)) <= 5


@given(neighbor_tables(st.integers(0, 3), "replace-one", max_size=5))
def test_pairs_that_differ_by_a_row_replaced(pair: tuple[list[int], list[int]]) -> None:
    """In one place, the others in the same order."""
    one, two = pair
    assert len(one) == len(two)
    assert sum(a != b for a, b in zip(one, two, strict=True)) <= 1


@pytest.mark.parametrize("wanted", [(1, 0), (0, 1)])
def test_pairs_go_both_ways(wanted: tuple[int, int]) -> None:
    from hypothesis import find

    find(neighbor_tables(st.integers(0, 3)), lambda pair: count_differences(*pair) == wanted)


THIRD = Fraction(1, 3)
ONE, TWO = {"a": THIRD, "b": 2 * THIRD}, {"a": 2 * THIRD, "b": THIRD}


def test_the_worst_ratio_is_exact_either_way() -> None:
    assert worst_ratio(ONE, TWO) == worst_ratio(TWO, ONE) == 2
    assert worst_ratio(ONE, ONE) == 1
    skew = {"a": Fraction(1, 10), "b": Fraction(9, 10)}
    assert worst_ratio(skew, ONE) == worst_ratio(ONE, skew) == Fraction(10, 3)
    assert worst_ratio(ONE, {"a": Fraction(1)}) is None
    assert worst_ratio({"a": Fraction(1)}, ONE) is None
    assert worst_ratio({"a": Fraction(1), "b": Fraction(0)}, {"a": Fraction(1)}) == 1


@given(st.lists(st.integers(0, 9), min_size=4, max_size=4), st.lists(st.integers(0, 9), min_size=4, max_size=4))
def test_the_exact_delta_is_the_worst_event(one: list[int], two: list[int]) -> None:
    """Over all sixteen events of four outcomes."""
    if not sum(one) or not sum(two):
        return
    p, q = ({k: Fraction(w, sum(law)) for k, w in enumerate(law) if w} for law in (one, two))
    events = [[k for k in range(4) if event >> k & 1] for event in range(16)]
    for ratio in (Fraction(1), Fraction(3, 2)):
        sums = [(sum(p.get(k, 0) for k in event), sum(q.get(k, 0) for k in event)) for event in events]
        assert exact_delta(p, q, ratio) == max(max(a - ratio * b, b - ratio * a) for a, b in sums)


def test_losses_are_also_those_of_distributions() -> None:
    """Whatever has a law."""
    prior = Prior.weights({0: 1, 1: 1})
    one, two = refine(prior, 0, 1), refine(prior, 1, 1)
    assert worst_ratio(one, two) == worst_ratio(one.law(), two.law()) == worst_ratio(one, two.law())
    assert exact_delta(one, two, Fraction(1)) == exact_delta(one.law(), two.law(), Fraction(1)) > 0
    with pytest.raises(InvalidInput, match="a law is a mapping"):
        worst_ratio(one, [1, 2])
    with pytest.raises(InvalidInput, match="a law is a mapping"):
        exact_delta(5, two, Fraction(1))


def test_the_public_names_are_there_and_hypothesis_is_not_needed_for_them() -> None:
    assert all(callable(getattr(discreet.verification, name)) for name in discreet.verification.__all__)
    command = [sys.executable, "-c", "import discreet.verification, sys; print(*sys.modules)"]
    assert "hypothesis" not in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
