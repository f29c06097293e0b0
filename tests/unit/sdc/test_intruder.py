"""The rational intruder of thesis 3.2: the formula by enumeration, its three examples, and swapping."""

from __future__ import annotations

import random
import time
from fractions import Fraction
from itertools import permutations
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidInput, Unsupported
from discreet.sdc.intruder import Matrix, probabilistic_k, reidentification, swap_chances

F = Fraction


def enumerate_matchings(chances: list[list[Fraction]]) -> Matrix | None:
    """Every injection of released into external records, one after the other; None where none is possible."""
    people, records = len(chances), len(chances[0])
    weight = {who: prod(chances[i][j] for j, i in enumerate(who)) for who in permutations(range(people), records)}
    total = sum(weight.values())
    if not total:
        return None
    return tuple(
        tuple(sum((w for who, w in weight.items() if who[j] == i), F(0)) / total for j in range(records))
        for i in range(people)
    )


@st.composite
def st_matrices(draw: st.DrawFn) -> list[list[Fraction]]:
    """Small tables of chances, many of them 0 or equal, so that they fall into components."""
    people = draw(st.integers(1, 6))
    records = draw(st.integers(1, people))
    chance = st.sampled_from([F(0), F(0), F(0), F(1, 2), F(1, 3), F(1, 7)])
    return [[draw(chance) for _ in range(records)] for _ in range(people)]


@given(st_matrices())
def test_the_formula_is_what_enumeration_gives(chances: list[list[Fraction]]) -> None:
    """Components, closed form and subsets come to the sums over all injections, exactly."""
    plain = enumerate_matchings(chances)
    if plain is None:
        with pytest.raises(InvalidInput, match="nobody's"):
            reidentification(chances)
    else:
        assert reidentification(chances) == plain


def test_example_1_shares_by_the_chances_of_the_one_released_record() -> None:
    """Two external records and one released: each as likely as the mechanism makes it."""
    assert reidentification([[F(1, 10)], [F(3, 10)]]) == ((F(1, 4),), (F(3, 4),))


def test_example_2_uses_that_who_is_one_record_is_not_the_other() -> None:
    """P(e_1 is x'_1) = ac / (ac + bd): e_2 is then x'_2."""
    a, b, c, d = F(1, 2), F(1, 3), F(1, 5), F(1, 7)
    risk = reidentification([[a, b], [c, d]])
    assert risk[0][0] == risk[1][1] == a * d / (a * d + b * c)
    assert risk[0][1] == risk[1][0] == b * c / (a * d + b * c)


def test_example_3_with_its_ranges_from_1_gives_probabilities() -> None:
    """Every released record is somebody; with the denominator's ranges as printed (from 2) it would be no such sum."""
    chances = [[F(1, i + j + 2) for j in range(3)] for i in range(5)]
    risk = reidentification(chances)
    assert all(sum(row[j] for row in risk) == 1 for j in range(3))
    assert all(0 < sum(row) < 1 for row in risk)
    whole = sum(prod(chances[i][j] for j, i in enumerate(who)) for who in permutations(range(5), 3))
    first = sum(prod(chances[i][j] for j, i in enumerate(who)) for who in permutations(range(5), 3) if who[0] == 0)
    printed = sum(prod(chances[i][j + 1] for j, i in enumerate(who)) for who in permutations(range(5), 2))
    assert risk[0][0] == first / whole
    assert first / printed != first / whole


def test_swapping_in_groups_gives_1_over_the_group() -> None:
    """3.3.1: 1/m inside the group and 0 outside, so that the release is probabilistically k-anonymous."""
    groups = [0, 0, 0, 1, 1, 1, 1, 1]
    risk = reidentification(swap_chances(groups))
    assert risk == tuple(tuple(F(int(a == b), groups.count(a)) for b in groups) for a in groups)
    assert probabilistic_k(swap_chances(groups)) == 3
    assert probabilistic_k(swap_chances([0, 1, 1])) == 1


@given(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_a_sample_of_a_swapped_table_is_no_less_anonymous(groups: list[int], draw: random.Random) -> None:
    """3.3.1: where T' is a sample of T, the chances are still 1/m for the records that are released."""
    sample = draw.sample(range(len(groups)), draw.randint(1, len(groups)))
    chances = swap_chances(groups, sample)
    risk = reidentification(chances)
    assert risk == enumerate_matchings([list(row) for row in chances])
    assert risk == tuple(tuple(F(int(mine == groups[row]), groups.count(mine)) for row in sample) for mine in groups)
    assert probabilistic_k(chances) >= probabilistic_k(swap_chances(groups))


def test_sampling_does_not_help_an_intruder_who_knows_a_mechanism_without_zeros() -> None:
    """Randomised response with 3 records: one released record is as likely to be linked as its chance says."""
    stay, go = F(1, 2), F(1, 4)
    whole = [[stay if i == j else go for j in range(3)] for i in range(3)]
    assert reidentification([[row[0]] for row in whole]) == ((F(1, 2),), (F(1, 4),), (F(1, 4),))
    assert reidentification(whole)[0][0] == F(1, 2) * (F(1, 4) + F(1, 16)) / (F(1, 8) + 2 * F(1, 64) + 3 * F(1, 32))


def test_numbers_of_any_kind_are_read_exactly() -> None:
    """Decimals by their text, whole numbers as they are; only their proportions count, column by column."""
    assert reidentification([[0.1], [0.3]]) == reidentification([[1], [3]]) == ((F(1, 4),), (F(3, 4),))


def test_k_is_rounded_down() -> None:
    """A linkage with probability 2/5 is more than 1/3: only 2-anonymity holds."""
    assert probabilistic_k([[F(2, 5)], [F(2, 5)], [F(1, 5)]]) == 2


def test_records_with_chances_of_their_own_are_within_reach() -> None:
    """14 of 14 in one component: rows and columns sum to 1, exactly."""
    draw = random.Random(3)
    chances = [[F(draw.randint(1, 9), 9) for _ in range(14)] for _ in range(14)]
    risk = reidentification(chances)
    assert all(sum(row[j] for row in risk) == 1 for j in range(14))
    assert all(sum(row) == 1 for row in risk)


def test_many_groups_are_fast_in_closed_form() -> None:
    """600 records swapped in groups of 12: no permanent is computed."""
    started = time.perf_counter()
    assert probabilistic_k(swap_chances([row // 12 for row in range(600)])) == 12
    assert time.perf_counter() - started < 10


def test_what_cannot_be_counted_is_refused() -> None:
    """Forty records that could be anybody are too many to be exact about."""
    chances = [[F(1 + (i * j) % 3, 9) for j in range(40)] for i in range(40)]
    with pytest.raises(Unsupported, match="40 released records could be any of 40 people"):
        reidentification(chances)


@pytest.mark.parametrize(
    ("chances", "words"),
    [
        ([], "a row for each external record"),
        ([[]], "a row for each external record"),
        ([[1, 1]], "no more columns than rows"),
        ([[1], [1, 1]], "a table of numbers"),
        ([[-1], [1]], "at least 0"),
        ([["x"]], "must be a number"),
        ([[0], [0]], "nobody's"),
        ([[1, 1], [0, 0]], "nobody's"),
    ],
)
def test_bad_chances_are_refused_in_one_sentence(chances: list[list[object]], words: str) -> None:
    """Tables with gaps, negative numbers, and mechanisms that cannot have made the release."""
    with pytest.raises(InvalidInput, match=words):
        reidentification(chances)


def test_a_row_cannot_be_kept_twice() -> None:
    """A sample has each row at most once, and only rows there are."""
    for rows in ([0, 0], [2]):
        with pytest.raises(InvalidInput, match="rows kept are numbers from 0 to 1"):
            swap_chances([0, 0], rows)
