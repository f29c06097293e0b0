"""Priors: finite, public, exact; refused from themselves alone."""

from __future__ import annotations

import math
import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import InvalidInput, Prior
from discreet.priors.prior import MAX_POINTS, MAX_TOTAL_MASS, Grid


def test_decimal_weights_are_exact() -> None:
    """0.99 and 0.01 are 99 and 1 of 100."""
    assert Prior.weights({0: 0.99, 1: 0.01}).probabilities == (Fraction(99, 100), Fraction(1, 100))


def test_uniform_normal_and_mixtures_have_their_moments() -> None:
    prior = Prior.uniform(0, 9)
    assert prior.support == tuple(range(10))
    assert prior.mean() == pytest.approx(4.5)
    assert prior.variance() == pytest.approx(99 / 12)
    prior = Prior.normal(38, 6, -100, 200)
    assert prior.mean() == pytest.approx(38)
    assert prior.variance() == pytest.approx(36)
    mixed = Prior.parse("0.25 point(3) + 0.75 uniform(0, 1) on [0, 3]")
    assert [float(p) for p in mixed.probabilities] == pytest.approx([0.375, 0.375, 0.25])
    assert mixed.support == (0, 1, 3)


def test_the_written_form() -> None:
    """The grammar, with the grid in the text or beside it."""
    text = Prior.parse("0.9 normal(38, 6) + 0.1 cauchy(38, 6) on [17, 90] step 1")
    assert text.support == tuple(range(17, 91))
    assert text == Prior.parse("  0.9*NORMAL( 38 ,6)+ 0.1 cauchy(38,6)", 17, 90)
    assert Prior.parse("laplace(-1.5, 2e0) on [-5, 5] step 0.5").mean() == pytest.approx(-1.18, abs=0.01)
    assert Prior.parse("uniform() on [1, 3]") == Prior.uniform(1, 3)
    assert Prior.parse("normal(2.5, 1e-3) on [0, 5]").mean() == pytest.approx(2.5)


def test_what_is_possible_stays_possible() -> None:
    """A cell the analyst holds possible keeps a weight of at least 1; one of weight 0 does not exist."""
    far = Prior.normal(0, 1, 0, 1000)
    assert int(far.mass.min()) == 1
    assert Prior.weights({"a": 1, "b": 0, "c": 1}).support == ("a", "c")
    lopsided = Prior.weights({0: 10**30, 1: 1})
    assert lopsided.mass.tolist()[1] == 1
    assert lopsided.total <= 2 * MAX_TOTAL_MASS


@given(
    st.dictionaries(st.fractions(-(10**6), 10**6, max_denominator=20), st.integers(0, 10**6), min_size=1, max_size=30)
)
def test_numbers_lie_on_their_coarsest_grid(weights: dict) -> None:
    """Whatever numbers are named, they come back, in rising order, with their weights."""
    if not any(weights.values()):
        return
    prior = Prior.weights(weights)
    positive = {value: weight for value, weight in weights.items() if weight}
    assert list(prior.support) == sorted(positive)
    total = sum(positive.values())
    assert dict(zip(prior.support, prior.probabilities, strict=True)) == {
        v: Fraction(w, total) for v, w in positive.items()
    }


def test_several_components() -> None:
    """Independent marginals, less what cannot occur together."""
    work = Prior.weights({"employed": 3, "unemployed": 1})
    benefit = Prior.weights({"yes": 1, "no": 1})
    joint = Prior.independent([work, benefit], impossible=[("employed", "yes")])
    assert joint.probabilities == (Fraction(3, 5), Fraction(1, 5), Fraction(1, 5))
    assert ("employed", "yes") not in joint.support
    with pytest.raises(InvalidInput, match="categories"):
        joint.mean()


def test_equal_priors_are_equal() -> None:
    """However they were written; needed to find a stored answer."""
    assert Prior.uniform(0, 3) == Prior.weights({3: 5, 2: 5, 1: 5, 0: 5})
    assert len({Prior.uniform(0, 3), Prior.weights({0: 1, 1: 1, 2: 1, 3: 1}), Prior.uniform(0, 4)}) == 2
    assert Prior.uniform(0, 3) != "uniform"


def test_a_prior_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Prior.uniform(0, 3).mass[0] = 7


def test_a_million_points_are_fine() -> None:
    assert Prior.normal(0, 1000, 0, MAX_POINTS - 1).total > 2**59


UNIT = Grid(Fraction(0), Fraction(1))
ONES, PLACES = np.ones(3, dtype=np.int64), np.arange(3)
TWO = [Prior.uniform(0, 1), Prior.weights({"a": 1, "b": 1})]
BAD_PRIORS = {
    "empty": lambda: Prior.weights({}),
    "negative": lambda: Prior.weights({1: -1, 2: 3}),
    "not a number": lambda: Prior.weights({1: math.nan}),
    "infinite weight": lambda: Prior.weights({1: math.inf}),
    "all zero": lambda: Prior.weights({1: 0, 2: 0.0}),
    "off its own grid": lambda: Prior.uniform(0, 1, step=0.3),
    "ten million points": lambda: Prior.uniform(0, 10**7),
    "ten million weights": lambda: Prior.weights(dict.fromkeys(range(MAX_POINTS + 1), 1)),
    "reversed": lambda: Prior.uniform(3, 1),
    "infinite end": lambda: Prior.uniform(0, math.inf),
    "text for a number": lambda: Prior.uniform("0", 1),
    "no step": lambda: Prior.uniform(0, 1, step=0),
    "no spread": lambda: Prior.normal(0, 0, 0, 1),
    "infinite value": lambda: Prior.weights({math.inf: 1}),
    "too far apart": lambda: Prior.weights({0: 1, 1e-250: 1, 1: 1}),
    "too many combinations": lambda: Prior.independent([Prior.uniform(0, 2000), Prior.uniform(0, 2000)]),
    "no component": lambda: Prior.independent([]),
    "components that are not priors": lambda: Prior.independent([1, 2]),
    "one component": lambda: Prior.independent(Prior.uniform(0, 1)),
    "an impossible combination that does not exist": lambda: Prior.independent(TWO, impossible=[(0, "z")]),
    "an impossible combination too short": lambda: Prior.independent(TWO, impossible=[(0,)]),
    "an impossible value": lambda: Prior.independent(TWO, impossible=[0]),
    "an impossible list": lambda: Prior.independent(TWO, impossible=[[0, "a"]]),
    "impossible is not a list": lambda: Prior.independent(TWO, impossible=7),
    "a list of weights": lambda: Prior.weights([1, 2, 3]),
    "no weights": lambda: Prior.weights(None),
    "huge weight": lambda: Prior.parse("1e400 normal(0, 1) on [0, 10]"),
    "huge mean": lambda: Prior.parse("normal(1e400, 1) on [0, 10]"),
    "huge end": lambda: Prior.parse("uniform on [0, 1e400]"),
    "three ends": lambda: Prior.parse("uniform on [0, 1, 2]"),
    "a number missing": lambda: Prior.parse("normal(1, , 2) on [0, 10]"),
    "shape missing": lambda: Prior.parse("uniform() + on [0, 10]"),
    "raw lists": lambda: Prior([1], [2], None, None),
    "no kind": lambda: Prior(ONES, PLACES, None, None),
    "both kinds": lambda: Prior(ONES, PLACES, UNIT, ("a", "b", "c")),
    "floats for masses": lambda: Prior(ONES.astype(np.float64), PLACES, UNIT, None),
    "a mass of 0": lambda: Prior(np.array([1, 0, 1]), PLACES, UNIT, None),
    "a negative mass": lambda: Prior(np.array([1, -1, 1]), PLACES, UNIT, None),
    "too heavy": lambda: Prior(np.array([2**61, 2**61 - 1, 1]), PLACES, UNIT, None),
    "so heavy that 64 bits wrap": lambda: Prior(np.full(4, 2**62), np.arange(4), UNIT, None),
    "lengths apart": lambda: Prior(ONES, np.arange(2), UNIT, None),
    "too few values": lambda: Prior(ONES, PLACES, None, ("a", "b")),
    "falling": lambda: Prior(ONES, np.array([0, 2, 1]), UNIT, None),
    "twice": lambda: Prior(ONES, np.array([0, 1, 1]), UNIT, None),
    "no points": lambda: Prior(np.arange(0), np.arange(0), UNIT, None),
    "a table": lambda: Prior(np.ones((1, 1), dtype=np.int64), np.zeros((1, 1), dtype=np.int64), UNIT, None),
    "unreadable": lambda: Prior.parse("about forty"),
    "unclosed": lambda: Prior.parse("normal(38, 6 on [0, 1]"),
    "unknown shape": lambda: Prior.parse("gamma(1, 2) on [0, 1]"),
    "too few numbers": lambda: Prior.parse("normal(38) on [0, 90]"),
    "no grid": lambda: Prior.parse("normal(38, 6)"),
    "negative share": lambda: Prior.parse("-0.5 normal(3, 1) + normal(2, 1) on [0, 9]"),
    "zero shares": lambda: Prior.parse("0 normal(3, 1) on [0, 9]"),
    "huge number": lambda: Prior.parse("normal(1e999, 1) on [0, 9]"),
    "empty block": lambda: Prior.parse("uniform(20, 30) on [0, 9]"),
    "long text": lambda: Prior.parse("normal(1, 1) + " * 10_000),
    "not text": lambda: Prior.parse(17),
}


@pytest.mark.parametrize("case", BAD_PRIORS)
def test_a_bad_prior_is_refused_in_one_sentence(case: str) -> None:
    """From the prior alone, before anything else happens."""
    with pytest.raises(InvalidInput) as refusal:
        BAD_PRIORS[case]()
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("shape", ["normal", "laplace", "cauchy"])
@pytest.mark.parametrize("scale", ["1e-320", "1e-200", "1e-7", "1", "1e150", "1e300"])
@pytest.mark.parametrize("center", ["-1e299", "-1e9", "-3", "5.5", "1e20", "1e299"])
def test_no_centre_is_too_far_and_no_scale_too_small(shape: str, scale: str, center: str) -> None:
    """Masses of at least 1 that fall away from the centre; no NaN, no warning."""
    for prior in (
        Prior.parse(f"{shape}({center}, {scale}) on [0, 10]"),
        Prior.parse(f"{shape}({center}, {scale}) on [1e-300, 2e-300] step 1e-300"),
    ):
        masses = prior.mass.tolist()
        assert min(masses) >= 1
        assert 2**59 < prior.total < 2**62
        far = [abs(value - Fraction(center)) for value in prior.support]
        ranked = [mass for _, mass in sorted(zip(far, masses, strict=True))]
        assert ranked == sorted(ranked, reverse=True)


def test_a_narrow_normal_law_is_on_its_nearest_points() -> None:
    for sd in (1e-200, 1e-320):
        assert [mass for mass in Prior.normal(5.5, sd, 0, 10).mass.tolist() if mass > 1] == [2**59, 2**59]
    assert Prior.normal(1e299, 1, 0, 10).mass.tolist()[:-1] == [1] * 10
    assert Prior.normal(1e299, 1e300, 0, 10).variance() == pytest.approx(10)


@pytest.mark.parametrize(("mean", "sd"), [(38, 6), (-20, 9), (150, 30), (17.3, 0.2)])
def test_shapes_are_their_densities(mean: float, sd: float) -> None:
    """On the grid, inside the range and beyond it."""
    x = np.arange(10, 91) / 2 + 10
    z = (x - mean) / sd
    for shape, log in (("normal", -(z**2) / 2), ("laplace", -np.abs(z)), ("cauchy", -np.log(1 + z**2))):
        density = np.exp(log - log.max())
        prior = Prior.parse(f"{shape}({mean}, {sd}) on [15, 55] step 0.5")
        assert [float(p) for p in prior.probabilities] == pytest.approx(density / density.sum(), rel=1e-9, abs=1e-15)


def test_the_heaviest_prior_there_is() -> None:
    assert Prior(np.array([2**61, 2**61 - 2, 1]), PLACES, UNIT, None).total == 2**62 - 1


UNREADABLE_TEXTS = {
    "": "nothing does",
    "   ": "nothing does",
    "normal(38, 6) on [17, 90] step 1 banana": "the step .* got '1 banana'",
    "normal(38, 6) on 17..90": "read at 'normal.38, 6. on 17..90'",
    "on 17..90": "read at 'on 17..90'",
    "a: 1, b: 2": "read at 'a: 1, b: 2'",
    "normal(38, 6) on [x, 90]": "the lower end .* got 'x'",
    "normal(38) on [0, 90]": "normal takes 2 numbers, got 1",
    "point on [0, 90]": "point takes 1 number, got 0",
    "uniform(3) on [0, 90]": "uniform takes 0 or 2 numbers, got 1",
    "gamma(1, 2)": "'gamma' is not a shape",
    "normal(38, 6) step 2": "needs a lower end",
    "uniform": "needs a lower end",
}


@pytest.mark.parametrize("text", UNREADABLE_TEXTS)
def test_a_text_that_cannot_be_read_is_told_where(text: str) -> None:
    """A missing grid is missed only where all else reads."""
    with pytest.raises(InvalidInput, match=UNREADABLE_TEXTS[text]):
        Prior.parse(text)


def test_the_written_form_takes_fractions_and_a_bare_uniform() -> None:
    assert Prior.parse("uniform on [0, 10]") == Prior.uniform(0, 10)
    assert Prior.parse("UNIFORM + uniform on [0, 10]") == Prior.uniform(0, 10)
    thirds = Prior.parse("1/3 point(1/3) + 2/3 * point(2/3) on [0, 3/3] step 1/3")
    assert thirds.support == (Fraction(1, 3), Fraction(2, 3))
    assert [float(p) for p in thirds.probabilities] == pytest.approx([1 / 3, 2 / 3])
    assert Prior.parse("normal(3, 1)on[0, 9]step 1") == Prior.normal(3, 1, 0, 9)
    assert Prior.parse("1e-400 point(0) + point(1) on [0, 2]").support == (0, 1)


@pytest.mark.parametrize(
    "text",
    [
        " " * 9000 + "x",
        "x" + " " * 9000 + "x",
        "normal(1, 1)" + " " * 9000 + "x",
        "1" * 9000 + " x",
        "1e" + "1" * 9000,
        "step " * 1900,
        "on [" * 2400,
        "uniform" + " " * 9000 + "on [1",
        "normal(" + " " * 9000,
        ")" * 9000,
    ],
)
def test_a_long_text_is_refused_at_once(text: str) -> None:
    """Reading takes time in proportion to the length: milliseconds, where it once took minutes."""
    start = time.process_time()
    with pytest.raises(InvalidInput):
        Prior.parse(text)
    assert time.process_time() - start < 0.2


def test_decimals_are_numbers() -> None:
    assert Prior.weights({Decimal("0.1"): 1, Decimal("0.3"): 1}) == Prior.weights({0.1: 1, 0.3: 1})


def test_an_impossible_combination_is_found_however_its_numbers_are_written() -> None:
    """A float in it means the decimal, as everywhere."""
    parts = [Prior.weights({0.1: 1, 0.2: 1}), Prior.weights({0.1: 1, "x": 1})]
    for tenth in (0.1, Decimal("0.1"), Fraction(1, 10)):
        left = Prior.independent(parts, impossible=[(tenth, "x"), (tenth, "x")])
        assert len(left) == 3
        assert (Fraction(1, 10), "x") not in left.support
    assert Prior.independent(iter(TWO)).support == ((0, "a"), (0, "b"), (1, "a"), (1, "b"))


@pytest.mark.parametrize("step", [1, Fraction(1, 3), 0.1])
def test_quarters_order_the_grid_by_distance(step: object) -> None:
    """Ties included, clamped, whatever kind of number it is."""
    grid = Prior.uniform(0, 30 * Fraction(str(step)), step).grid
    for value in (0, 1, True, 0.1, 0.15, Fraction(1, 3), Decimal("0.25"), 2, -5, 10**400, math.inf, -math.inf, 1e308):
        m = grid.find_quarter_index(value, 0, 30)
        clamped = min(max(value, 0), grid.value(30))
        exact = Fraction(str(clamped)) if isinstance(clamped, float) else Fraction(clamped)
        keys, far = [abs(4 * index - m) for index in range(31)], [abs(grid.value(index) - exact) for index in range(31)]
        assert all((keys[a] < keys[b]) == (far[a] < far[b]) for a in range(31) for b in range(31))


@pytest.mark.parametrize("value", [math.nan, "3", b"3", None, [1], (1,), {}, 1j, object(), np.array([1, 2])])
def test_what_is_no_number_has_no_quarters(value: object) -> None:
    """It is not reported either: the truth may be anything."""
    assert UNIT.find_quarter_index(value, 0, 10) is None


def test_priors_say_what_they_are_in_a_line() -> None:
    assert len(Prior.uniform(17, 90)) == 74
    assert repr(Prior.uniform(17, 90)) == "Prior(74 values from 17 to 90)"
    assert repr(Prior.weights({"a": 1, "b": 2, "c": 3})) == "Prior(3 values: 'a', 'b', 'c')"
    assert repr(Prior.weights(dict.fromkeys("abcdefg", 1))) == "Prior(7 values: 'a', 'b', 'c', 'd', 'e', ...)"
    assert repr(Prior.weights({2.5: 1})) == "Prior(1 value: 2.5)"
