"""The written form of a prior: shapes read without a grid, their laws, and weights by name."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import numpy as np
import pytest

from discreet import InvalidInput, Prior
from discreet.priors.syntax import GRAMMAR, MAX_SPREAD_TERMS, ShapeMixture, ShapeTerm, parse_shapes, parse_weights

SPREAD = ("normal", "laplace", "cauchy")


def parse_one_shape(text: str) -> ShapeTerm:
    return parse_shapes(text).terms[0]


def test_shapes_are_read_without_a_grid() -> None:
    """The ends and the step stay open where the text is silent."""
    shapes = parse_shapes("0.9 normal(38, 6) + 0.1 cauchy(38, 6)")
    assert shapes.terms == (
        ShapeTerm(Fraction(9, 10), "normal", (Fraction(38), Fraction(6))),
        ShapeTerm(Fraction(1, 10), "cauchy", (Fraction(38), Fraction(6))),
    )
    assert (shapes.ends, shapes.step) == (None, None)
    closed = parse_shapes("uniform on [17, 90] step 0.5")
    assert (closed.ends, closed.step) == ((17, 90), Fraction(1, 2))


def test_a_bare_uniform_waits_for_its_ends() -> None:
    bare = parse_shapes("uniform + point(3)")
    with pytest.raises(InvalidInput, match="two ends"):
        bare.terms[0].compute_cdf(np.zeros(1))
    filled = bare.fill_uniform_ends(Fraction(0), Fraction(10))
    assert filled.terms[0].numbers == (0, 10)
    assert filled.terms[1].numbers == (3,)
    assert filled.build_prior(0, 10) == bare.build_prior(0, 10) == Prior.parse("uniform(0, 10) + point(3) on [0, 10]")


def test_centre_and_scale() -> None:
    """The scale is the standard deviation, but for laplace and cauchy its own parameter."""
    assert [
        (term.center, term.scale)
        for term in map(parse_one_shape, ("normal(38, 6)", "laplace(1, 2)", "cauchy(-3, 0.5)"))
    ] == [
        (38, 6),
        (1, 2),
        (-3, 0.5),
    ]
    assert (parse_one_shape("uniform(2, 8)").center, parse_one_shape("uniform(2, 8)").scale) == (5, 6 / math.sqrt(12))
    assert (parse_one_shape("point(4)").center, parse_one_shape("point(4)").scale) == (4, 0)


def test_only_a_cauchy_of_positive_weight_is_heavy() -> None:
    assert parse_shapes("normal(0, 1) + 0.1 cauchy(0, 1)").is_heavy_tailed
    assert not parse_shapes("normal(0, 1) + 0 cauchy(0, 1)").is_heavy_tailed
    assert not parse_shapes("laplace(0, 1)").is_heavy_tailed


def test_cumulative_laws_agree_with_scipy() -> None:
    """To the last digits, far out on both sides as well."""
    stats = pytest.importorskip("scipy.stats")
    z = np.array([-30.0, -8.0, -1.5, 0.0, 0.3, 4.0, 30.0])
    x = 38 + 6 * z
    for name, law in (("normal", stats.norm), ("laplace", stats.laplace), ("cauchy", stats.cauchy)):
        term = parse_one_shape(f"{name}(38, 6)")
        assert term.compute_cdf(x) == pytest.approx(law.cdf(z), rel=1e-12)
        upper = term.compute_cell_masses(np.append(x, 1e300))
        assert upper[:-1][:3] == pytest.approx(np.diff(law.cdf(z))[:3], rel=1e-10)
        assert upper[3:] == pytest.approx(-np.diff(np.append(law.sf(z[3:]), 0)), rel=1e-10)


def test_uniform_and_point_are_what_they_say() -> None:
    x = np.array([1.0, 2.0, 3.5, 5.0, 9.0])
    assert parse_one_shape("uniform(2, 5)").compute_cdf(x).tolist() == [0, 0, 0.5, 1, 1]
    assert parse_one_shape("uniform(2, 2)").compute_cdf(x).tolist() == [0, 1, 1, 1, 1]
    assert parse_one_shape("point(3.5)").compute_cdf(x).tolist() == [0, 0, 1, 1, 1]
    assert parse_one_shape("point(3.5)").compute_cell_masses(x).tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("name", SPREAD)
@pytest.mark.parametrize("scale", ["1e-400", "1e-300", "1", "1e300"])
@pytest.mark.parametrize("center", ["-1e300", "0.5", "1e300"])
def test_no_number_breaks_a_law(name: str, scale: str, center: str) -> None:
    """Probabilities from 0 to 1 that rise; no NaN, no warning."""
    term = parse_one_shape(f"{name}({center}, {scale})")
    x = np.array([-1e300, -5, 0, 0.5, 1, 1e6, 1e300])
    below, between = term.compute_cdf(x), term.compute_cell_masses(x)
    assert (np.diff(below) >= 0).all()
    assert 0 <= below[0] <= below[-1] <= 1
    assert (between >= 0).all()
    assert between.sum() == pytest.approx(below[-1] - below[0], abs=1e-12)


def test_dates_stand_for_days() -> None:
    """Where a location stands; a scale and a step are numbers of days."""
    shapes = parse_shapes("normal(1970-01-31, 7) + point(1969-12-31) on [1970-01-01, 2024-02-29] step 1", dates=True)
    assert shapes.terms[0].numbers == (30, 7)
    assert shapes.terms[1].numbers == (-1,)
    assert shapes.ends == (0, 19782)
    assert parse_shapes("uniform(1970-01-01, 1970-01-02)", dates=True).terms[0].numbers == (0, 1)


@pytest.mark.parametrize(
    "text", ["normal(38, 6)", "normal(2024-02-30, 6)", "point(20240229)", "uniform on [0, 9]", "normal(2024-01-01, 1x)"]
)
def test_a_number_is_no_date(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"is a date such as 2024-02-29|plain number"):
        parse_shapes(text, dates=True)


def test_a_date_is_no_number() -> None:
    with pytest.raises(InvalidInput, match="a place in normal must be a plain number"):
        parse_shapes("normal(2024-02-29, 6)")


BAD_SHAPES = {
    "uniform(9, 3)": "from low to high, got 9 and 3",
    "uniform on [9, 3]": "lower end 9 is above the upper end 3",
    "normal(0, 0)": "the scale of normal must be above 0",
    "normal(1, 2, 3)": "normal takes 2 numbers, got 3",
    " + ".join(["cauchy(0, 1)"] * (MAX_SPREAD_TERMS + 1)): "at most 64 of normal",
    "": "nothing does",
    "x" * 10_001: "at most 10000 letters",
}


@pytest.mark.parametrize("text", BAD_SHAPES)
def test_bad_shapes_are_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(InvalidInput, match=BAD_SHAPES[text]) as refusal:
        parse_shapes(text)
    assert len(str(refusal.value)) < 450


def test_a_shape_is_valid_at_birth() -> None:
    for name, numbers in (("gamma", (1,)), ("point", ()), ("normal", (0, -1))):
        with pytest.raises(InvalidInput):
            ShapeTerm(Fraction(1), name, tuple(map(Fraction, numbers)))
    with pytest.raises(InvalidInput, match="more than 0"):
        ShapeMixture(())


def test_many_points_are_quick_on_many_places() -> None:
    """Each costs what it covers, not the whole grid."""
    text = " + ".join(f"point({index})" for index in range(700))
    start = time.process_time()
    assert len(parse_shapes(text).build_prior(0, 2**20 - 1)) == 700
    assert time.process_time() - start < 1


def test_weights_are_read_by_their_decimal_text() -> None:
    assert parse_weights(' {"yes": 0.1, "no": 99e-2} ') == {"yes": Fraction(1, 10), "no": Fraction(99, 100)}
    prior = Prior.parse('{"yes": 1, "no": 99}')
    assert prior == Prior.weights({"yes": 1, "no": 99})
    assert Prior.parse('{"true": 0.01, "false": 0.99}').probabilities == (Fraction(1, 100), Fraction(99, 100))


def test_weights_of_numbers_are_numbers() -> None:
    """Where all names are numbers; the ends given do not matter, as the text has its own points."""
    assert Prior.parse('{"17": 1, "18.5": 3}', 0, 5) == Prior.weights({17: 1, Fraction(37, 2): 3})
    assert not Prior.parse('{"17": 1, "many": 3}').numeric
    assert Prior.parse('{"a": 0, "b": 1}').support == ("b",)


BAD_WEIGHTS = {
    '{"a": 1, "a": 2}': "the same value twice",
    '{"17": 1, "17.0": 2}': "the same number twice",
    '{"a": {"b": 1}}': "the weight of 'a' in the prior must be a number",
    '{"a": [1]}': "must be a number",
    '{"a": "1"}': "must be a number",
    '{"a": true}': "must be a number",
    '{"a": null}': "must be a number",
    '{"a": NaN}': "finite number, got NaN",
    '{"a": -Infinity}': "finite number, got -Infinity",
    '{"a": -1}': "at least 0, got -1",
    '{"a": 0, "b": 0.0}': "at least one value of positive weight",
    "{}": "at least one value of positive weight",
    '{"a": 1e999}': "plain number",
    '{"a": ' + "9" * 5000 + "}": "plain number",
    '{"a": 1': "could not be read",
    "{'a': 1}": "could not be read",
    "{": "could not be read",
    '{"a":' * 1900: "could not be read",
    '{"a": ' + "[" * 9000: "could not be read",
    '{"a": 1' + " " * 10_000 + "}": "at most 10000 letters",
}


@pytest.mark.parametrize("text", BAD_WEIGHTS)
def test_bad_weights_are_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(InvalidInput, match=BAD_WEIGHTS[text]) as refusal:
        Prior.parse(text)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 450


@pytest.mark.parametrize("text", ["5", "[1]", '[["a", 1]]', "", "null"])
def test_weights_are_an_object(text: str) -> None:
    with pytest.raises(InvalidInput, match="could not be read"):
        parse_weights(text)


def test_the_grammar_is_one_sentence_that_reads_itself() -> None:
    """Both examples in it are priors."""
    assert "." not in GRAMMAR.replace("0.9", "").replace("0.1", "")
    shapes, weights = (part for part in GRAMMAR.split("'") if part.startswith(("0.9", "{")))
    assert len(Prior.parse(shapes)) == 74
    assert Prior.parse(weights).support == ("yes", "no")
