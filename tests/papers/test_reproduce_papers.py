"""Documents 000, 002, 003 and 004 computed anew: every golden number, no row that differs, pictures of all figures."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from fractions import Fraction
from html import unescape
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from papers.rows import Row, compare_cut
from papers.tables import Data, ReproducedTable, reproduce
from papers.unit_interval import EPSILON, compute_clamped_error, compute_density, list_steps

from discreet import DiscreteLaplace, Refinement, rho
from discreet.mechanisms import Gaussian, Laplace
from papers import book_chapter_2, book_gaussian, individual_privacy, linear_refinement, refinement, refinement_delta

TABLES = refinement.TABLES + linear_refinement.TABLES + book_chapter_2.TABLES + individual_privacy.TABLES
FAMILIES = {"t5", "alg1", "bool", "ex3", "kr", "ed", "lin", "book", "gauss", "idp"}
ENTRIES = json.loads((Path(__file__).parents[1] / "golden.json").read_text())
GOLDEN = {entry["id"]: entry for entry in ENTRIES if entry["id"].split(".")[0] in FAMILIES}
FORMULAS = {"ex3.table3", "ex3.table4.top", "ex3.table4.bottom", "ex3.ratios"}
PRINTED = {
    name: entry["published"]
    for name, entry in GOLDEN.items()
    if entry["published"] is not None and name not in FORMULAS
}
LIST = (Path(__file__).parents[2] / "docs" / "errata.md").read_text(encoding="utf-8")
ERRATA = set(re.findall(r"^(?:\| |## )(\d(?:\.\d+)?)", LIST, re.MULTILINE))
FIGURES = {f"000-figure-{number}" for number in range(1, 8)} | {f"003-figure-2.{number}" for number in range(3, 7)}
FIGURES |= {"004-figure-1", "004-figure-2", "000-section-7"}
NAMED = {"000-table-3", "000-table-4", "000-table-5", "000-boolean", "002-example-1", "002-school", "002-appendix"}
NAMED |= {"003-2.2", "003-2.3", "004-table-1", "004-table-2"}


@pytest.fixture(scope="module")
def reproduce_all() -> list[ReproducedTable]:
    return reproduce(TABLES, Data(None), lambda _: None)


@pytest.fixture(scope="module")
def rows(reproduce_all: list[ReproducedTable]) -> dict[str, Row]:
    return {row.id: row for each in reproduce_all for row in each.rows}


@pytest.mark.parametrize("name", GOLDEN)
def test_every_golden_number_is_a_row(rows: dict[str, Row], name: str) -> None:
    """To the tolerance the entry states."""
    entry = GOLDEN[name]
    assert near(rows[name].obtained, entry["expected"], entry["tolerance"]), rows[name]


@pytest.mark.parametrize("name", PRINTED)
def test_what_is_printed_was_copied_rightly(rows: dict[str, Row], name: str) -> None:
    """The two lists were typed apart; one has a digit more of one number."""
    assert near(rows[name].published, PRINTED[name], 1e-6)


def near(got: object, expected: object, tolerance: float) -> bool:
    if isinstance(expected, list):
        assert isinstance(got, Sequence)
        return len(got) == len(expected) and all(near(a, b, tolerance) for a, b in zip(got, expected, strict=True))
    return abs(float(str(got)) - float(str(expected))) <= tolerance


def test_nothing_differs_and_every_row_has_an_id_of_its_own(reproduce_all: list[ReproducedTable]) -> None:
    every = [row for each in reproduce_all for row in each.rows]
    assert [row for row in every if row.verdict == "differs"] == []
    assert len({row.id for row in every}) == len(every)
    for each in reproduce_all:
        assert len({row.cell for row in each.rows}) == len(each.rows) > 0
        json.dumps(each.to_json(), allow_nan=False)


def test_every_correction_names_its_erratum(rows: dict[str, Row]) -> None:
    corrected = [row for row in rows.values() if row.verdict == "corrected"]
    named = [re.search(r"\(erratum (\S+)\)$", row.note) for row in corrected]
    assert all(each and each[1] in ERRATA for each in named)
    assert {name for name, entry in GOLDEN.items() if entry["status"] == "corrected"} <= {row.id for row in corrected}


def test_all_that_was_asked_for_is_there() -> None:
    names = [table.name for table in TABLES]
    assert set(names) >= NAMED | FIGURES
    assert len(set(names)) == len(names)
    assert {table.name for table in TABLES if table.pictures} >= FIGURES


@pytest.mark.parametrize("name", [table.name for table in TABLES if table.pictures])
def test_pictures_are_drawn(reproduce_all: list[ReproducedTable], name: str) -> None:
    """Each with a title that is not cut, and with lines or bars."""
    each = next(each for each in reproduce_all if each.table.name == name)
    assert each.table.pictures is not None
    charts = each.table.pictures(each.rows)
    assert charts
    for chart in charts:
        svg = chart.to_svg()
        assert f">{chart.title}<" in unescape(svg)
        assert "NaN" not in svg
        assert "mark-line" in svg or "mark-rect" in svg


# --- a fault is seen


def verdicts(rows: object) -> dict[str, str]:
    assert hasattr(rows, "__iter__")
    return {row.id: row.verdict for row in rows}


def test_a_wrong_law_gives_rows_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Laplace, "variance", lambda law: law.scale**2)
    monkeypatch.setattr(Laplace, "tail", lambda law, distance: math.exp(-2 * float(distance) / law.scale))
    verdicts_by_id = verdicts(refinement.compare_table_5(Data(None)))
    assert {name for name, verdict in verdicts_by_id.items() if verdict == "differs"} >= {
        *(f"t5.{column}.{epsilon}" for column in ("laplace_var", "laplace_in01") for epsilon in EPSILON)
    }
    assert verdicts_by_id["t5.kr_var.1"] == "equal"


def test_the_printed_versions_in_place_of_the_sound_ones_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    real = refinement_delta.build_versions

    def swap_versions(about: str) -> dict[str, Refinement]:
        versions = real(about)
        return versions | {"sound": versions["printed"], "printed": versions["sound"]}

    monkeypatch.setattr(refinement_delta, "build_versions", swap_versions)
    verdicts_by_id = verdicts(refinement_delta.compare_figure_2(Data(None))) | verdicts(
        refinement_delta.compare_figure_3(Data(None))
    )
    wrong = {"ed.ind.published_delta", "000.figure-2.sound.delta", "000.figure-2.sound.near"}
    wrong |= {"ed.stat.published_delta", "ed.stat.delta_prime", "000.figure-3.sound.delta"}
    assert {name for name, verdict in verdicts_by_id.items() if verdict == "differs"} == wrong


def test_a_wrong_loss_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_refinement, "rho", lambda *arguments: 1.01 * rho(*arguments))
    assert set(verdicts(linear_refinement.compare_appendix(Data(None))).values()) == {"differs", "corrected"}


def test_the_books_sigma_in_place_of_the_least_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gaussian, "calibrated", Gaussian.of_the_book)
    verdicts_by_id = verdicts(book_gaussian.TABLE.rows(Data(None)))
    assert {name for name, verdict in verdicts_by_id.items() if verdict == "differs"} == {
        "gauss.analytic.eps0.1",
        "gauss.analytic.eps1",
    }


def test_the_documents_median_in_place_of_ours_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(individual_privacy, "local_sensitivity", lambda *_: 2)
    assert verdicts(individual_privacy.compare_local_sensitivities(Data(None)))["idp.median.LS"] == "differs"


def test_digits_that_are_cut_off_are_told_from_wrong_ones() -> None:
    assert compare_cut("a", "b", "0.003678", 0.0036788).verdict == "equal"
    assert compare_cut("a", "b", "0.003678", 0.0036795).verdict == "differs"
    assert compare_cut("a", "b", "0.003678", 0.0036779).verdict == "differs"


# --- what the figures are made of


@pytest.mark.parametrize("truth", [0.0, 0.5, 1 / 6, 5 / 6, 1.0])
@pytest.mark.parametrize("about", ["individual", "statistic"])
@pytest.mark.parametrize("version", ["pure", "printed", "sound"])
def test_the_drawn_density_is_that_of_the_law(about: str, version: str, truth: float) -> None:
    """Cell by cell, but for those that an edge cuts and the one that holds the truth."""
    mechanism = refinement_delta.build_versions(about, 603)[version]
    law = mechanism.distribution(Fraction(truth).limit_denominator(6)).floats() * 603
    line = list_steps(mechanism.profile, truth)
    edges, heights = np.array([x for x, _ in line]), np.array([y for _, y in line])
    middles = (np.arange(603) + 0.5) / 603
    density = heights[np.searchsorted(edges, middles, side="right") - 1]
    assert np.count_nonzero(np.abs(law - density) > 1e-6) <= 5
    mass = sum(height * (right - left) for (left, height), (right, _) in pairwise(line))
    assert mass + float(mechanism.profile.atom) == pytest.approx(1, abs=1e-9)
    assert line[-1] == (1.0, line[-2][1])


def test_the_drawn_noise_has_its_variance() -> None:
    places = np.linspace(-30, 31, 100_001)
    heights = np.array([y for _, y in compute_density(Laplace(1, 0.5), 0.5, places.tolist())])
    assert np.trapezoid(heights, places) == pytest.approx(1, abs=1e-6)
    assert np.trapezoid(heights * (places - 0.5) ** 2, places) == pytest.approx(Laplace(1, 0.5).variance(), rel=1e-5)


@pytest.mark.parametrize("truth", [0.0, 0.3, 0.5])
def test_a_clamped_error_is_that_of_many_small_cells(truth: float) -> None:
    noise = DiscreteLaplace(1, 1, Fraction(1, 500))
    cells = np.arange(-15_000, 15_001)
    chances = np.array([noise.probability(int(cell)) for cell in cells])
    errors = np.clip(truth + cells / 500, 0, 1) - truth
    assert compute_clamped_error(Laplace(1), truth) == pytest.approx(float(chances @ errors**2), rel=1e-3)


def test_the_refined_density_of_example_1_is_that_of_half_a_difference() -> None:
    """By adding up all pairs of two noises on a fine grid."""
    noise = DiscreteLaplace(1, 1, Fraction(1, 100))
    chances = np.array([noise.probability(cell) for cell in range(-4000, 4001)])
    apart = np.correlate(chances, chances, "full")
    middle = len(chances) - 1
    ratio = math.log(apart[middle + 2 * 100 * 4] / apart[middle + 2 * 100 * 5])
    assert linear_refinement.compute_log_ratio(5) == pytest.approx(ratio, abs=1e-4)


def test_the_printed_versions_are_laws() -> None:
    """Their fault is the delta they spend, not their total."""
    for about in ("individual", "statistic"):
        profile = refinement_delta.build_versions(about)["printed"].profile
        widths = [until - left for left, until in pairwise((Fraction(0), *profile.mass_limits))]
        total = sum(width * factor for width, factor in zip(widths, profile.step_factors, strict=True))
        assert total + profile.atom == 1


def test_the_density_of_figure_1_is_the_laws_own() -> None:
    """004: the widths that hold shares give the density 1 / (1 + |x / s|^gamma)."""
    width = individual_privacy._list_noises()["gamma 2"]
    for x, y in individual_privacy._compute_density(width):
        assert y == pytest.approx(1 / (8 * math.pi * (1 + (x / 8) ** 2)), rel=0.02)
