"""A prior as the planner reads it: the law it plans with, in few cells, told before anything is asked."""

from __future__ import annotations

import json
from collections.abc import Hashable
from itertools import pairwise
from pathlib import Path

import pytest

from discreet import Custodian, InvalidInput, Prior, Schema, Unsupported, load_schema
from discreet.custodian import preview_question
from discreet.custodian.preview import MAX_CELLS, StatedPrior, build_stated_prior
from discreet.planner.options import PriorInput, build_query_options

WARDS_SCHEMA = """
name: t
source: nowhere.csv
neighbours: replace-one
units: 50000
unit: {column: id, rows: 1}
budget: {epsilon: 100}
individual_queries: yes
columns:
  id: {role: identifier}
  age: {kind: integer, lower: 17, upper: 90}
  income: {kind: number, lower: 0, upper: 500000, step: 0.01}
  smoker: {kind: boolean}
  seen: {kind: date, lower: 2015-01-01, upper: 2025-12-31}
  ward: {kind: nominal, categories: [a, b, c]}
  town: {kind: nominal, keys: private}
"""
WOMEN = "SELECT COUNT(*) FROM t WHERE ward = 'a'"


@pytest.fixture
def wards_schema(tmp_path: Path) -> Schema:
    (tmp_path / "t.yaml").write_text(WARDS_SCHEMA)
    return load_schema(tmp_path / "t.yaml")


def has_even_cells(stated: StatedPrior) -> bool:
    """Whether all cells have one width, so that heights can be compared."""
    gaps = [two - one for one, two in pairwise(map(float, stated.points))]
    return max(gaps) == pytest.approx(min(gaps))


NUMBERS: list[tuple[str, PriorInput, float, tuple[float, float]]] = [
    (WOMEN, "normal(25000, 900)", 25_000, (23_236, 26_764)),
    (WOMEN, "cauchy(25000, 900)", 25_000, (17_050, 32_950)),
    (WOMEN, "uniform(0, 50000)", 25_000, (1250, 48_750)),
    (WOMEN, "0.5*normal(10000, 10) + 0.5*normal(40000, 10)", 25_000, (9984, 40_016)),
    ("SELECT ward, COUNT(*) FROM t GROUP BY ward", "normal(16000, 500)", 16_000, (15_020, 16_980)),
    ("SELECT HISTOGRAM(age, 10) FROM t", "normal(5000, 500)", 5000, (4020, 5980)),
    ("SELECT SUM(income) FROM t", "normal(1.5e9, 3e5)", 1.5e9, (1.499412e9, 1.500588e9)),
    ("SELECT AVG(income) FROM t WHERE ward = 'a'", "normal(30000, 400)", 30_000, (29_216, 30_784)),
    ("SELECT AVG(smoker) FROM t", "normal(0.3, 0.01)", 0.3, (0.2804, 0.3196)),
    ("SELECT STDDEV(age) FROM t WHERE ward = 'a'", "normal(15, 1)", 15, (13.04, 16.96)),
    ("SELECT MEDIAN(age) FROM t", "normal(55, 6)", 55, (43, 67)),
    ("SELECT MEDIAN(income) FROM t", "normal(30000, 400)", 30_000, (29_216, 30_784)),
    ("SELECT MAX(income) FROM t", "normal(400000, 4000)", 400_000, (392_160, 407_840)),
    ("SELECT age FROM t FOR UNIT '7'", "normal(40, 5)", 40, (30, 50)),
    (WOMEN, Prior.normal(5000, 90, 0, 9999), 5000, (4824, 5176)),
]


@pytest.mark.parametrize(("question", "prior", "mean", "interval"), NUMBERS)
def test_numbers(
    wards_schema: Schema, question: str, prior: PriorInput, mean: float, interval: tuple[float, float]
) -> None:
    """Even cells, no more than can be drawn, with all of the probability; mean and interval are of the whole law."""
    stated = build_stated_prior(wards_schema, question, prior)
    assert stated.numeric
    assert stated.mean == pytest.approx(mean, rel=5e-3)
    assert stated.interval_95 == pytest.approx(interval, rel=5e-3)
    assert 50 < len(stated.points) == len(stated.probabilities) <= MAX_CELLS
    assert sum(stated.probabilities) == pytest.approx(1)
    assert min(stated.probabilities) >= 0
    shown_mean = sum(float(x) * p for x, p in zip(stated.points, stated.probabilities, strict=True))
    assert shown_mean == pytest.approx(mean, rel=5e-3)
    if isinstance(prior, str):
        assert has_even_cells(stated)


def test_it_is_the_law_that_the_planner_weighs_mechanisms_by(wards_schema: Schema) -> None:
    """The expected error of not asking is its standard deviation, however much noise there will be."""
    for epsilon in (0.001, 1, 100):
        planned = preview_question(wards_schema, WOMEN, build_query_options(epsilon, prior="normal(25000, 900)"))
        stated = build_stated_prior(wards_schema, WOMEN, "normal(25000, 900)")
        pairs = [(float(x), p) for x, p in zip(stated.points, stated.probabilities, strict=True)]
        sd = sum(p * (x - 25_000) ** 2 for x, p in pairs) ** 0.5
        assert planned.prior_error == pytest.approx(sd, rel=0.01)


def test_a_preview_says_where_the_prior_alone_is_as_good(wards_schema: Schema) -> None:
    """With a tail for being wrong, much noise is worse than not to ask, for who is right."""
    previews = {
        epsilon: preview_question(wards_schema, WOMEN, build_query_options(epsilon, prior="normal(25000, 900)"))
        for epsilon in (0.0001, 0.0006, 0.1)
    }
    assert [preview.expected_error > preview.prior_error for preview in previews.values()] == [True, False, False]
    worse, hardly, better = (" ".join(preview.warnings) for preview in previews.values())
    assert "it is nearer than the answer, which allows for its being wrong" in worse
    assert "hardly more" in hardly
    assert not better


def test_few_values_stay_as_they_are(wards_schema: Schema) -> None:
    stated = build_stated_prior(wards_schema, WOMEN, '{"20000": 3, "30000": 1, "70000": 2}')
    assert stated.points == (20_000, 30_000)  # there are 50,000 people
    assert stated.probabilities == pytest.approx((0.75, 0.25))
    assert stated.mean == 22_500
    assert stated.text == "You believe it to be about 20,000, between 20,000 and 30,000 with a probability of 95 %."


def test_many_values_are_gathered_and_their_tails_kept(wards_schema: Schema) -> None:
    """Ten thousand of them, nearly all of no weight; the outermost that are shown hold what lies beyond."""
    stated = build_stated_prior(
        wards_schema, WOMEN, {10 * index: 10**6 if 2000 <= index < 3000 else 1 for index in range(5000)}
    )
    assert len(stated.points) == 500
    assert (stated.points[0], stated.points[-1]) == pytest.approx((20_000, 29_990), abs=20)
    assert sum(stated.probabilities) == pytest.approx(1)


def test_dates_are_told_as_dates(wards_schema: Schema) -> None:
    stated = build_stated_prior(wards_schema, "SELECT MEDIAN(seen) FROM t", "normal(2020-01-01, 10)")
    assert stated.mean == "2020-01-01"
    assert stated.interval_95 == ("2019-12-12", "2020-01-21")
    assert "2020-01-01" in stated.points
    assert len(set(stated.points)) == len(stated.points)
    assert stated.text.startswith("You believe it to be about 2020-01-01, between 2019-12-12 and 2020-01-21")
    wide = build_stated_prior(wards_schema, "SELECT MEDIAN(seen) FROM t", "uniform(2015-01-01, 2025-12-31)")
    assert len(wide.points) == MAX_CELLS


@pytest.mark.parametrize("question", ["SELECT MODE(ward) FROM t", "SELECT ward FROM t FOR UNIT '7'"])
def test_names(wards_schema: Schema, question: str) -> None:
    stated = build_stated_prior(wards_schema, question, '{"a": 3, "c": 1}')
    assert (stated.numeric, stated.points, stated.mean, stated.interval_95) == (False, (), None, None)
    assert stated.names == ("a", "c")
    assert stated.probabilities == pytest.approx((0.75, 0.25))
    assert stated.text == "You believe it to be a with 75 %, c with 25 %."


def test_names_beyond_what_can_be_shown_stand_together(tmp_path: Path) -> None:
    many = [f"w{index}" for index in range(2000)]
    (tmp_path / "t.yaml").write_text(WARDS_SCHEMA.replace("[a, b, c]", f"[{', '.join(many)}]"))
    weights: dict[Hashable, object] = dict.fromkeys(many, 1) | {"w1999": 1000}
    stated = build_stated_prior(load_schema(tmp_path / "t.yaml"), "SELECT MODE(ward) FROM t", weights)
    assert stated.names is not None
    assert len(stated.names) == MAX_CELLS
    assert stated.names[-2:] == ("w1999", "1,489 others")
    assert stated.probabilities[-2:] == pytest.approx((1000 / 2999, 1489 / 2999))


def test_it_is_json(wards_schema: Schema) -> None:
    for question, prior in ((WOMEN, "normal(25000, 900)"), ("SELECT MODE(ward) FROM t", '{"a": 1}')):
        document = json.loads(json.dumps(build_stated_prior(wards_schema, question, prior).to_json()))
        assert list(document) == ["numeric", "points", "probabilities", "names", "mean", "interval_95", "text"]


@pytest.mark.parametrize(
    ("question", "prior"),
    [
        (WOMEN, "normal(25000, 0)"),
        (WOMEN, "normal(900000, 10)"),
        (WOMEN, '{"a": 1}'),
        (WOMEN, "tail(3)"),
        ("SELECT MODE(ward) FROM t", '{"x": 1}'),
        ("SELECT MODE(ward) FROM t", "normal(3, 1)"),
        ("SELECT COUNT(*), AVG(age) FROM t", "normal(3, 1)"),
        ("SELECT MODE(town) FROM t", '{"x": 1}'),
        ("SELECT nothing FROM t", "normal(3, 1)"),
    ],
)
def test_it_is_refused_as_in_planning(wards_schema: Schema, question: str, prior: str) -> None:
    with pytest.raises((InvalidInput, Unsupported)) as planning:
        preview_question(wards_schema, question, build_query_options(1, prior=prior))
    with pytest.raises(type(planning.value)) as refusal:
        build_stated_prior(wards_schema, question, prior)
    assert str(refusal.value) == str(planning.value)


def test_a_question_without_anything_to_believe_is_refused(wards_schema: Schema) -> None:
    with pytest.raises(InvalidInput, match="a prior is of one number"):
        build_stated_prior(wards_schema, "SELECT COUNT(*) FROM t", "normal(50000, 1)")
    with pytest.raises(InvalidInput, match="a prior is wanted"):
        build_stated_prior(wards_schema, WOMEN, None)


def test_no_row_is_there_to_be_read(wards_schema: Schema) -> None:
    """The source does not exist, and nothing was registered for it."""
    build_stated_prior(wards_schema, WOMEN, "normal(25000, 900)")
    assert [path.name for path in wards_schema.folder.iterdir()] == ["t.yaml"]
    with pytest.raises(InvalidInput, match="no file"):
        Custodian.open(wards_schema.folder / "t.yaml")
