"""The analyst's prior on a column's positions: placed, given a tail, or refused from the prior alone."""

from __future__ import annotations

import json
import math
import time
from datetime import date, datetime
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import InvalidInput, Prior, Unsupported
from discreet.measurements.prior_on_grid import mix_cauchy_tail, place_prior
from discreet.priors.prior import MAX_POINTS, Grid
from discreet.schema import Column

AGE = Column("age", "integer", 17, 90)
HEIGHT = Column("height", "number", 150, 200, Fraction(1, 100))
BORN = Column("born", "date", 0, 20_000)
SEX = Column("sex", "nominal", 0, 2, categories=("F", "M", "other"))
ILL = Column("ill", "boolean", 0, 1, categories=("false", "true"))
WIDE = Column("income", "integer", 0, 10**9)
POSITIONS = Grid(Fraction(0), Fraction(1))


def place_prior_on_column(column: Column, prior: str | Prior, width: int = 1, tail: bool | None = None) -> Prior:
    return place_prior(column, width, -(-column.size // width), prior, tail).used_prior


def compute_probabilities(prior: Prior, size: int) -> np.ndarray:
    law = np.zeros(size)
    law[prior.index] = prior.mass / prior.total
    return law


def add_heavy_tail(law: np.ndarray, support: np.ndarray) -> np.ndarray:
    """The rule, written out: nine tenths of it, one tenth of a Cauchy of its mean and sd."""
    positions = np.arange(len(law))
    mean = law @ positions
    sd = max(1.0, math.sqrt(law @ (positions - mean) ** 2))
    cauchy = np.where(support, 1 / (1 + ((positions - mean) / sd) ** 2), 0)
    return 0.9 * law + 0.1 * cauchy / cauchy.sum()


def test_a_text_prior_is_on_every_position_with_a_tail() -> None:
    """The probability of a position is that of its cell, cut to the range."""
    prior = place_prior_on_column(AGE, "normal(38, 6)")
    assert prior.grid == POSITIONS
    assert prior.index.tolist() == list(range(74))
    cells = np.diff([math.erf((x - 38) / 6 / math.sqrt(2)) for x in np.arange(17, 92) - 0.5])
    assert compute_probabilities(prior, 74) == pytest.approx(
        add_heavy_tail(cells / cells.sum(), np.ones(74, bool)), rel=1e-9
    )


def test_a_text_that_has_a_heavy_tail_is_taken_as_it_is() -> None:
    grid_prior = place_prior_on_column(AGE, "cauchy(38, 6)")
    cells = np.diff(np.arctan((np.arange(17, 92) - 0.5 - 38) / 6))
    assert compute_probabilities(grid_prior, 74) == pytest.approx(cells / cells.sum(), rel=1e-9)
    assert place_prior_on_column(AGE, "0.9 normal(38, 6) + 0.1 cauchy(38, 6)") != place_prior_on_column(
        AGE, "normal(38, 6)"
    )


@pytest.mark.parametrize("text", ["point(40)", "uniform(40, 40)", "normal(40, 1e-300)", "laplace(40, 1e-300)"])
def test_a_point_with_a_tail_keeps_nine_tenths_and_a_little(text: str) -> None:
    """The tail has a scale of one step there, and reaches every position."""
    prior = place_prior_on_column(AGE, text, tail=True)
    law = np.zeros(74)
    law[23] = 1
    assert compute_probabilities(prior, 74) == pytest.approx(add_heavy_tail(law, np.ones(74, bool)), rel=1e-6)


def test_a_text_with_ends_stays_between_them() -> None:
    prior = place_prior_on_column(AGE, "uniform on [20.5, 24]")
    assert prior.index.tolist() == [4, 5, 6, 7]
    assert place_prior_on_column(AGE, "normal(38, 6) on [0, 200]") == place_prior_on_column(AGE, "normal(38, 6)")
    assert place_prior_on_column(AGE, "normal(38, 6) on [30, 1e300]").index.tolist() == list(range(13, 74))


def test_a_text_with_a_step_is_on_the_values_of_the_column() -> None:
    """A step that is coarser than the column's is not used: a shape is no list of points. Finer values are gathered."""
    assert place_prior_on_column(AGE, "normal(40, 9) on [20, 60] step 10") == place_prior_on_column(
        AGE, "normal(40, 9) on [20, 60]"
    )
    fine = place_prior_on_column(AGE, "normal(40, 9) on [17, 90] step 0.01")
    assert compute_probabilities(fine, 74)[1:-1] == pytest.approx(
        compute_probabilities(place_prior_on_column(AGE, "normal(40, 9)"), 74)[1:-1], rel=2e-2
    )
    assert place_prior_on_column(AGE, "point(41) on [20, 60] step 10", tail=True).index.tolist() == list(range(3, 44))
    assert place_prior_on_column(AGE, "uniform(30, 45) on [20, 60] step 10").index.tolist() == list(range(13, 29))
    assert place_prior_on_column(AGE, "normal(40, 9) step 73") == place_prior_on_column(AGE, "normal(40, 9)")
    assert place_prior_on_column(AGE, '{"30": 1, "40": 2}').index.tolist() == [
        13,
        23,
    ]  # points only where they are stated


def test_a_prior_object_keeps_to_its_own_points() -> None:
    prior = place_prior_on_column(AGE, Prior.weights({20: 1, 30: 2, 90: 1}))
    law = np.zeros(74)
    law[[3, 13, 73]] = 0.25, 0.5, 0.25
    assert prior.index.tolist() == [3, 13, 73]
    assert compute_probabilities(prior, 74) == pytest.approx(law, rel=1e-12)
    assert place_prior_on_column(AGE, '{"20": 1, "30": 2, "90": 1}') == prior
    with_one = place_prior_on_column(AGE, Prior.weights({20: 1, 30: 2, 90: 1}), tail=True)
    assert compute_probabilities(with_one, 74) == pytest.approx(add_heavy_tail(law, law > 0), rel=1e-12)


def test_a_number_that_is_no_value_of_the_column_is_impossible() -> None:
    """Rounding it would make another value possible, which the prior excludes."""
    assert place_prior_on_column(AGE, Prior.weights({17.4: 1, 18: 1, 90.4: 1, 91: 1, 16: 1})).index.tolist() == [1]
    assert place_prior_on_column(HEIGHT, Prior.weights({1.5: 1, 1.514: 1, 2: 1})).index.tolist() == [0, 50]
    assert place_prior_on_column(AGE, "0.5 point(40.4) + 0.5 uniform(41.5, 43.9)").index.tolist() == [25, 26]
    for prior in ("point(40.4)", "uniform(40.2, 40.9)", Prior.weights({40.4: 1}), "uniform on [40.2, 40.9]"):
        with pytest.raises(InvalidInput, match="holds none of its values possible, which are 1 apart; widen it"):
            place_prior_on_column(AGE, prior)
    lenient = place_prior_on_column(AGE, "point(40.4)", tail=True)
    assert lenient.index[np.argmax(lenient.mass)] == 23


def test_points_of_a_fine_grid_are_rounded_between_the_ends_of_their_run() -> None:
    """They stand for all between them; a run without a value of the column is left out."""
    assert place_prior_on_column(AGE, Prior.uniform(20.5, 23.4, 0.1)).index.tolist() == [4, 5, 6]
    assert compute_probabilities(place_prior_on_column(AGE, Prior.uniform(20.5, 23.4, 0.1)), 74)[
        [4, 5, 6]
    ] == pytest.approx([1 / 3] * 3)
    two = place_prior_on_column(AGE, "0.5 uniform(20, 21.7) + 0.5 uniform(30.3, 33) on [17, 90] step 0.1")
    assert two.index.tolist() == [3, 4, 14, 15, 16]
    assert place_prior_on_column(AGE, "cauchy(30, 2) on [20.6, 40.6] step 1").index.tolist() == list(range(4, 24))


@given(
    st.integers(1, 9),
    st.dictionaries(st.fractions(-60, 60, max_denominator=8), st.integers(1, 99), min_size=1, max_size=12),
    st.fractions(Fraction(1, 9), 5, max_denominator=9),
)
def test_placing_is_rounding_to_codes(width: int, weights: dict[Fraction, int], step: Fraction) -> None:
    """Compared with exact arithmetic, one value at a time; the total stays, but for what is outside."""
    column = Column("x", "number", -20, 13, step)
    prior = Prior.weights(weights)
    expected: dict[int, Fraction] = {}
    codes: dict[int, set[int]] = {}
    for value, weight in weights.items():
        low, high = find_run(value, sorted(weights), prior.grid.step, step)  # type: ignore[union-attr]
        nearest = math.floor(value / step + Fraction(1, 2))
        least, most = max(-20, math.ceil(low / step)), min(13, math.floor(high / step))
        if -20 <= nearest <= 13 and least <= most:
            code = min(max(nearest, least), most)
            expected[(code + 20) // width] = expected.get((code + 20) // width, Fraction(0)) + weight
            codes.setdefault((code + 20) // width, set()).add(code)
    if sum(expected.values()) * 1000 < sum(weights.values()):
        with pytest.raises(InvalidInput, match=r"outside its bounds|none of its values possible"):
            place_prior_on_column(column, prior, width)
        return
    law = np.array([float(expected.get(position, 0)) for position in range(-(-34 // width))])
    grid_prior = place_prior(column, width, len(law), prior)
    assert compute_probabilities(grid_prior.used_prior, len(law)) == pytest.approx(law / law.sum(), rel=1e-9)
    assert all(
        int(code) in codes[int(position)]
        for position, code in zip(grid_prior.used_prior.index, grid_prior.codes, strict=True)
    )
    with_one = place_prior(column, width, len(law), prior, tail=True).used_prior
    assert compute_probabilities(with_one, len(law)) == pytest.approx(
        add_heavy_tail(law / law.sum(), law > 0), rel=1e-9
    )


def find_run(value: Fraction, values: list[Fraction], apart: Fraction, step: Fraction) -> tuple[Fraction, Fraction]:
    """The ends of the points that follow one another on a grid as fine as the column's; else the point itself."""
    if apart > step:
        return value, value
    low = high = value
    while low - apart in values:
        low -= apart
    while high + apart in values:
        high += apart
    return low, high


def test_bins_hold_the_probability_of_their_codes() -> None:
    """A bin's is the sum of those of its codes, whatever the shape."""
    for text in ("0.3 uniform(21, 67) + 0.7 cauchy(38, 2)", "cauchy(90, 4)", "0.9 point(33) + 0.1 cauchy(20, 1)"):
        fine, coarse = (
            compute_probabilities(place_prior_on_column(AGE, text), 77),
            compute_probabilities(place_prior_on_column(AGE, text, 7), 11),
        )
        assert coarse == pytest.approx(fine.reshape(11, 7).sum(axis=1), rel=1e-9)


def test_every_shape_counts_by_its_weight_and_one_far_away_not_at_all() -> None:
    prior = place_prior_on_column(AGE, "0.5 uniform(20, 29) + 0.5 cauchy(38, 1)")
    assert compute_probabilities(prior, 74)[3] == pytest.approx(0.05, rel=0.05)
    far = place_prior_on_column(AGE, "0.5 normal(38, 6) + 0.5 normal(1e300, 1)")
    assert compute_probabilities(far, 74) == pytest.approx(
        compute_probabilities(place_prior_on_column(AGE, "normal(38, 6)"), 74)
    )


def test_dates_by_text_by_date_and_by_day() -> None:
    """All three say the same."""
    text = place_prior_on_column(BORN, '{"1970-01-02": 1, "1970-01-05": 3}')
    assert text.index.tolist() == [1, 4]
    assert text == place_prior_on_column(BORN, Prior.weights({date(1970, 1, 2): 1, date(1970, 1, 5): 3}))
    assert text == place_prior_on_column(BORN, Prior.weights({"1970-01-02": 1, datetime(1970, 1, 5, 9): 3}))
    assert text == place_prior_on_column(BORN, Prior.weights({1: 1, 4: 3}))
    shaped = place_prior_on_column(BORN, "normal(1990-06-15, 400)")
    assert int(np.argmax(shaped.mass)) == (date(1990, 6, 15) - date(1970, 1, 1)).days
    assert len(place_prior_on_column(BORN, "uniform on [1970-02-01, 1970-02-10]")) == 10


def test_categories_by_text_and_by_weights() -> None:
    """No tail there: what the analyst excludes is excluded."""
    assert place_prior_on_column(SEX, '{"M": 1, "F": 3}') == Prior(np.array([3, 1]), np.arange(2), POSITIONS, None)
    assert place_prior_on_column(SEX, Prior.weights({"other": 5, "F": 1})).index.tolist() == [0, 2]
    assert place_prior_on_column(SEX, '{"M": 1, "F": 3, "other": 2}', width=2).mass.tolist() == [4, 2]


@pytest.mark.parametrize(
    "prior",
    [
        '{"true": 0.01, "false": 0.99}',
        '{"True": 1, "False": 99}',
        Prior.weights({True: 1, False: 99}),
        Prior.weights({"true": 0.01, "false": 0.99}),
    ],
)
def test_a_boolean_is_spelled_as_people_spell_it(prior: str | Prior) -> None:
    assert place_prior_on_column(ILL, prior) == Prior(np.array([99, 1]), np.arange(2), POSITIONS, None)


BAD_PRIORS = {
    "outside": (AGE, "normal(1000, 10)", "the prior of age lies outside its bounds, 17 to 90; "),
    "outside, heavy": (AGE, "cauchy(1e6, 1)", "outside its bounds"),
    "outside, a point": (AGE, "point(91)", "outside its bounds"),
    "outside, its own ends": (AGE, "normal(38, 6) on [91, 99]", "outside its bounds"),
    "outside, its own grid": (AGE, "normal(38, 6) on [91, 99] step 1", "outside its bounds"),
    "far from its own ends": (AGE, "normal(1000, 1) on [17, 90]", "outside its bounds"),
    "far from its own grid": (AGE, "normal(1000, 1) on [17, 90] step 1", "outside its bounds"),
    "too wide": (AGE, "uniform on [0, 1e9]", "outside its bounds"),
    "too wide, normal": (AGE, "normal(38, 1e300)", "outside its bounds"),
    "too far": (AGE, "normal(1e300, 1)", "outside its bounds"),
    "outside, an object": (AGE, Prior.weights({91: 1}), "outside its bounds"),
    "nearly outside": (AGE, Prior.weights({40: 1, 100: 2000}), "outside its bounds"),
    "outside, numbers": (HEIGHT, "point(3)", "of height lies outside its bounds, 1.5 to 2;"),
    "outside, dates": (BORN, "point(2050-01-01)", "of born lies outside its bounds, 1970-01-01 to 2024-10-04;"),
    "numbers for categories": (SEX, "normal(38, 6)", 'weights to its categories, such as {"F": 1, "other": 3}'),
    "numbers for categories, an object": (SEX, Prior.uniform(0, 2), "weights to its categories"),
    "numbers for a boolean": (ILL, Prior.weights({0: 1, 1: 2}), "weights to its categories"),
    "a strange category": (SEX, '{"X": 1}', "unknown category 'X' in the prior of sex"),
    "several components": (SEX, Prior.weights({("F", 1): 1}), "unknown category"),
    "a category twice": (ILL, Prior.weights({True: 1, "true": 1}), "same value twice"),
    "categories for numbers": (AGE, Prior.weights({"a": 1}), "age is a number; its prior must be over numbers"),
    "categories for numbers, text": (AGE, '{"yes": 1}', "age is a number; its prior must be over numbers"),
    "dates for numbers": (AGE, "normal(2024-02-29, 6)", "plain number"),
    "numbers for dates": (BORN, "normal(38, 6)", "is a date such as 2024-02-29, got '38'"),
    "numbers for dates, weights": (BORN, '{"17": 1}', "born is a date; a value of its prior is a date such as"),
    "names for dates": (BORN, Prior.weights({"x": 1}), "born is a date"),
    "a date twice": (BORN, Prior.weights({"1970-01-02": 1, date(1970, 1, 2): 1}), "same value twice"),
    "unreadable": (AGE, "about forty", "a prior is written like"),
    "empty": (AGE, "", "a prior is written like"),
    "empty weights": (AGE, "{", "a prior is written like"),
    "long": (AGE, "x" * 10_001, "a prior is written like"),
    "no prior": (AGE, 17, "a prior is text or a Prior, got int"),
    "off its own grid": (AGE, "uniform step 5", "off its own grid"),
    "ten million points": (WIDE, "uniform step 1", "at most 1048576 points"),
}


@pytest.mark.parametrize("case", BAD_PRIORS)
def test_a_prior_that_cannot_be_used_is_refused_in_one_sentence(case: str) -> None:
    column, prior, words = BAD_PRIORS[case]
    with pytest.raises(InvalidInput) as refusal:
        place_prior_on_column(column, prior)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 500


def test_a_column_without_a_public_domain_has_no_prior() -> None:
    with pytest.raises(Unsupported, match="no public domain"):
        place_prior(Column("name", "nominal", private_keys=True), 1, 1, '{"a": 1}')


def test_a_tail_is_of_numbers() -> None:
    with pytest.raises(InvalidInput, match="a heavy tail is of numbers, and sex is not one; leave out tail"):
        place_prior_on_column(SEX, '{"M": 1}', tail=True)
    assert place_prior_on_column(SEX, '{"M": 1}', tail=False).index.tolist() == [1]


HOSTILE = {
    "a point mass": Prior.weights({40: 1}),
    "two far atoms": Prior.weights({40: 1, 10**15: 1}),
    "two atoms on both sides": Prior.weights({-(10**300): 1, 38: 5}),
    "a tiny step": Prior.weights({40: 1, 40 + Fraction(1, 10**17): 1}),
    "two to the twenty points": Prior.uniform(0, MAX_POINTS - 1, 1),
    "points at a fine step": Prior.uniform(17, 17 + Fraction(MAX_POINTS - 1, 2**14), Fraction(1, 2**14)),
    "a tiny scale": "normal(38, 1e-300)",
    "between two values": "normal(38.5, 1e-400)",
    "a huge scale": "cauchy(38, 1e4)",
    "a tiny weight": "1e-400 point(20) + normal(40, 1)",
    "many points": " + ".join(f"point({17 + index % 70})" for index in range(800)),
    "many uniforms": " + ".join(["uniform(17, 90)"] * 500),
    "many weights": json.dumps({str(17 + index / 20): index + 1 for index in range(700)}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_priors_work_or_are_refused(case: str) -> None:
    start = time.process_time()
    if case == "two to the twenty points":
        with pytest.raises(InvalidInput, match="outside its bounds"):
            place_prior_on_column(AGE, HOSTILE[case])
    else:
        prior = place_prior_on_column(AGE, HOSTILE[case])
        assert 0 <= prior.index[0] <= prior.index[-1] < 74
        assert prior.total >= 2**59
    assert time.process_time() - start < 1


def test_atoms_far_away_do_not_move_the_near_one() -> None:
    assert place_prior_on_column(AGE, HOSTILE["two atoms on both sides"]).index.tolist() == [21]
    assert place_prior_on_column(AGE, HOSTILE["two far atoms"]).index.tolist() == [23]


@pytest.mark.parametrize("text", ["normal(5e8, 1e8)", "laplace(5e8, 1e3)", "uniform(1, 5e8)", "point(77)"])
@pytest.mark.parametrize(("width", "most"), [(1000, 0.7), (100_000, 0.01)])
def test_placing_is_quick(text: str, width: int, most: float) -> None:
    """A million positions in well under a second, ten thousand within 10 ms."""
    place_prior_on_column(WIDE, text, width)
    times = []
    for tail in (None, True, None, True):
        start = time.process_time()
        assert (
            len(place_prior_on_column(WIDE, text, width, tail))
            == {"u": 5 * 10**8 // width, "p": 0}.get(text[0] if tail is None else "", 10**9 // width) + 1
        )
        times.append(time.process_time() - start)
    assert min(times) < most


def test_a_million_points_of_a_prior_are_placed_quickly() -> None:
    prior = Prior.normal(5 * 10**5, 10**4, 0, MAX_POINTS - 1)
    start = time.process_time()
    assert len(place_prior_on_column(Column("x", "integer", 0, 10**6), prior, 20)) == 50_001
    assert time.process_time() - start < 0.7


def test_the_tail_is_on_the_support_and_at_least_a_step_wide() -> None:
    prior = mix_cauchy_tail(Prior.weights({0: 1, 5: 1, 10: 2}))
    assert prior.support == (0, 5, 10)
    assert compute_probabilities(prior, 3) == pytest.approx(
        add_heavy_tail(np.array([0.25, 0.25, 0.5]), np.ones(3, bool))
    )
    with pytest.raises(InvalidInput, match="of numbers"):
        mix_cauchy_tail(Prior.weights({"a": 1}))


def test_half_way_between_two_codes_is_the_upper_one() -> None:
    """Also where floats fall just short of it."""
    for parts in (2, 6, 10, 14, 22, 26, 34, 1000):
        law = compute_probabilities(place_prior_on_column(AGE, Prior.uniform(20, 21, Fraction(1, parts))), 74)
        assert law[[3, 4]] == pytest.approx([parts / 2 / (parts + 1), (parts / 2 + 1) / (parts + 1)], rel=1e-12)


def test_a_wide_bin_stands_for_a_value_that_the_prior_holds_possible() -> None:
    """The code in its middle may lie beyond an end, or between two shapes; names too."""

    def list_weighted_bins(column: Column, prior: str | Prior, width: int) -> list[tuple[int, int, int]]:
        grid_prior = place_prior(column, width, -(-column.size // width), prior)
        return [
            *zip(
                grid_prior.used_prior.index.tolist(),
                grid_prior.codes.tolist(),
                grid_prior.code_counts.tolist(),
                strict=True,
            )
        ]

    assert list_weighted_bins(AGE, "point(40)", 10) == [(2, 40, 1)]
    assert list_weighted_bins(AGE, "uniform(25, 48)", 10) == [(0, 25, 2), (1, 31, 10), (2, 41, 10), (3, 48, 2)]
    assert list_weighted_bins(AGE, "0.5 point(40) + 0.5 point(46)", 10) == [(2, 40, 7)]
    assert list_weighted_bins(AGE, Prior.weights({38: 1, 45: 9, 90: 1}), 10) == [(2, 38, 8), (7, 90, 1)]
    assert list_weighted_bins(AGE, "normal(40, 9) on [34, 39]", 10) == [(1, 34, 3), (2, 39, 3)]
    assert list_weighted_bins(AGE, "triangular(26, 30, 30)", 10) == [(0, 26, 1), (1, 30, 4)]
    assert list_weighted_bins(SEX, '{"other": 1, "M": 1}', 2) == [(0, 1, 1), (1, 2, 1)]
    blurred = place_prior(AGE, 10, 8, "uniform(25, 48)")
    assert blurred.bin_variance == pytest.approx((2 * 2 * (4 - 1) + 2 * 10 * (100 - 1)) / 24 / 12)
