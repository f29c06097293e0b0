"""The picture of an answer: what it shows, what it refuses, and that no text in it can do harm."""

from __future__ import annotations

import builtins
import json
import re
import struct
import xml.etree.ElementTree as ET
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet import charts
from discreet.charts import DistributionChart, build_picture_spec, save_spec
from discreet.errors import InvalidInput, Unavailable, Unsupported
from discreet.formatting import format_estimate
from discreet.priors.posterior import Posterior

SENTENCE = "You believed about 500; after this answer the count lies between 494 and 542 with probability 95 %."
BLUE, ORANGE, GREY = charts.BLUE, charts.ORANGE, charts.GRAY


def build_posterior(density: np.ndarray, edges: np.ndarray) -> Posterior:
    mass = density * np.diff(edges)
    return Posterior(mass / mass.sum(), edges)


def chart_count(raw: float = 530.0, center: float = 500.0) -> DistributionChart:
    """A count of about 500 people, with Laplace noise of scale 10."""
    edges = np.arange(2002) - 0.5
    x = np.arange(2001)
    prior, noise = np.exp(-(((x - center) / 20) ** 2) / 2), np.exp(-abs(x - raw) / 10)
    laws = build_posterior(prior, edges), build_posterior(noise, edges), build_posterior(prior * noise, edges)
    return DistributionChart("COUNT(*) of registry", "people", *laws, raw, (raw - 30, raw + 30), SENTENCE)


def chart_truth() -> DistributionChart:
    """One person's Boolean, believed true in 1 of 100 cases."""
    names = ("false", "true")
    prior, posterior = (Posterior(np.array(mass), names=names) for mass in ([0.99, 0.01], [0.9733, 0.0267]))
    return DistributionChart("smoker, one person", "smoker", prior, None, posterior, "true", None, SENTENCE)


def chart_many() -> DistributionChart:
    """More names than stand level."""
    mass = np.arange(1.0, 13.0)
    law_of_many = Posterior(mass / mass.sum(), names=tuple(f"a long name of a category {index}" for index in range(12)))
    return DistributionChart("ward, one person", "ward", law_of_many, None, law_of_many, None, None, SENTENCE)


def save_svg(drawing: DistributionChart, folder: Path) -> ET.Element:
    return ET.parse(save_spec(build_picture_spec(drawing), folder / "picture.svg")).getroot()


def read_words(root: ET.Element) -> str:
    return " ".join("".join(text.itertext()) for text in root.findall(".//{*}text"))


def read_colours(root: ET.Element) -> set[str]:
    return {element.get(key, "") for element in root.iter() for key in ("fill", "stroke")}


class LoadedPage(HTMLParser):
    """What a page loads, how many scripts it has, and its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts, self.loads, self.labels = 0, [], []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.loads += [(tag, value) for name, value in attrs if name in {"src", "href", "srcset", "data"}]
        self.labels += [value for name, value in attrs if name == "aria-label"]


def test_an_svg_shows_the_laws_the_raw_answer_the_posterior_and_the_sentence(tmp_path: Path) -> None:
    """The SVG is XML; its text tells the numbers, and the sentence stands below and as its label."""
    root = save_svg(chart_count(), tmp_path)
    text = read_words(root)
    for part in ("COUNT(*) of registry", "people", "prior", "noise about the raw answer", "posterior"):
        assert part in text
    assert "raw answer 530 (95 %: 500 to 560)" in text
    posterior = chart_count().posterior
    assert posterior is not None
    mean, low, high = format_estimate(posterior.mean(), *posterior.interval(0.95))
    assert f"posterior mean {mean} (95 %: {low} to {high})" in text
    assert {BLUE, ORANGE, GREY} <= read_colours(root)
    assert root.get("aria-label") == SENTENCE
    assert SENTENCE in text
    assert [path.name for path in tmp_path.iterdir()] == ["picture.svg"]


def test_a_png_is_twice_as_dense_as_the_svg(tmp_path: Path) -> None:
    """A PNG has its signature and the size of the SVG times two."""
    content = save_spec(build_picture_spec(chart_count()), tmp_path / "picture.PNG").read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    root = save_svg(chart_count(), tmp_path)
    assert (width, height) == pytest.approx((2 * float(root.get("width", 0)), 2 * float(root.get("height", 0))), abs=4)


def test_a_page_loads_nothing_and_tells_the_sentence(tmp_path: Path) -> None:
    """The HTML works offline: no tag loads anything, the policy forbids it, the sentence is text and label."""
    text = save_spec(build_picture_spec(chart_count()), str(tmp_path / "picture.html")).read_text(encoding="utf-8")
    page = LoadedPage(text)
    assert page.loads == []
    assert page.scripts == 2
    assert page.labels == [SENTENCE]
    assert "default-src 'none'" in text
    assert f"<figcaption>{SENTENCE}</figcaption>" in text


def test_categories_stand_side_by_side(tmp_path: Path) -> None:
    """A Boolean shows both probabilities of both categories, and which one the raw answer is."""
    text = read_words(save_svg(chart_truth(), tmp_path))
    for part in ("false", "true", "99 %", "97.3 %", "1 %", "2.67 %", "raw answer", SENTENCE):
        assert part in text


def test_of_many_categories_the_raw_answer_is_always_shown() -> None:
    """Beyond what has room the likeliest stay, the rest is one bar, and no probability is lost."""
    names = tuple(f"{'long ' * 20}{n}" for n in range(100))
    mass = np.arange(100, 0, -1) / 5050
    categories = charts._group_categories(
        DistributionChart("t", "a", Posterior(mass, names=names), None, None, names[99], None, "")
    )
    assert len(categories) == charts.MAX_CATEGORIES
    assert [99] in categories.values()
    assert sorted(cell for cells in categories.values() for cell in cells) == list(range(100))
    assert "85 others" in categories


def test_without_a_prior_only_the_noise_is_drawn(tmp_path: Path) -> None:
    """An answer without a prior shows the noise law and the interval, and nothing of a posterior."""
    root = save_svg(replace(chart_count(), prior=None, posterior=None), tmp_path)
    assert "posterior" not in read_words(root)
    assert BLUE not in read_colours(root)
    assert ORANGE in read_colours(root)


def test_the_line_is_cut_to_where_something_happens() -> None:
    """The far ends of the line are left out; every law's bulk, the raw answer and the intervals are in."""
    low, high = charts._find_visible_range(chart_count())
    assert 400 < low < 450
    assert 560 < high < 600
    low, high = charts._find_visible_range(chart_count(raw=900.0))
    assert low < 450
    assert high > 930


def test_a_flat_prior_does_not_make_the_answer_a_needle() -> None:
    """A prior a thousand times wider than the answer does not set the width of the picture."""
    noise = chart_count().noise
    flat = Posterior(np.array([1.0]), np.array([0.0, 1e6]))
    low, high = charts._find_visible_range(replace(chart_count(), prior=flat, posterior=noise))
    assert high - low < 200


@pytest.mark.parametrize("cells", [20, 300, 50_000])
def test_a_curve_keeps_its_area_and_its_peak(cells: int) -> None:
    """Few cells or many, alike or not: a few hundred points with the same area and nearly the same peak."""
    edges = np.cumsum(np.linspace(1, 5, cells + 1))
    edges = (edges - edges[0]) / (edges[-1] - edges[0]) * 100
    centres = (edges[1:] + edges[:-1]) / 2
    smooth = build_posterior(np.exp(-(((centres - 50) / 10) ** 2) / 2), edges)
    x, y, joined = charts._compute_line(smooth, (0.0, 100.0), 1.0)
    assert len(x) <= charts.WIDTH + 2
    area = np.sum(np.diff(x) * (y[:-1] if joined == "step-after" else (y[1:] + y[:-1]) / 2))
    assert area == pytest.approx(1, abs=0.002)
    assert y.max() == pytest.approx(1 / (10 * np.sqrt(2 * np.pi)), rel=0.05)


def test_a_peak_thinner_than_a_pixel_is_not_lost() -> None:
    """A law that is nearly certain, on a wide line, still rises above everything else."""
    edges = np.array([0, 500.0001, 500.0002, 1000])
    x, heights, _ = charts._compute_line(Posterior(np.array([0.05, 0.9, 0.05]), edges), (0.0, 1000.0), 1.0)
    assert heights.max() > 0.5 > 100 * heights[0]
    assert x[heights.argmax()] == pytest.approx(500, abs=1000 / charts.WIDTH)


def test_heights_are_probabilities_only_where_all_cells_are_alike() -> None:
    """Counts show probabilities; cells of different widths show densities."""
    alike = chart_count()
    assert charts._find_common_width(alike) == 1
    assert (
        charts._find_common_width(replace(alike, prior=Posterior(np.array([0.5, 0.5]), np.array([0.0, 1, 3])))) is None
    )


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(1234567.4, 0, "1,234,567"), (521.50, 1, "521.5"), (530.0, 1, "530"), (-0.01, 1, "0"), (-12.5, 1, "−12.5")],
)
def test_numbers_are_written_as_people_write_them(value: float, digits: int, text: str) -> None:
    """Thousands are parted, no zeros trail, no exponent."""
    assert charts._format_value(value, digits) == text


@pytest.mark.parametrize("suffix", [".svg", ".html"])
def test_hostile_text_is_escaped_and_cut(suffix: str, tmp_path: Path) -> None:
    """No text becomes markup or ends a script; control signs are dropped and long text is cut."""
    bad = "</script><script>alert(1)</script><!--\x00\x1b\ud800]]>\"'&{}" + "x" * 5000
    both = Posterior(np.array([0.5, 0.5]), names=(bad, bad + "y"))
    drawing = DistributionChart(bad, bad, both, None, both, bad, None, bad)
    text = save_spec(build_picture_spec(drawing), tmp_path / f"picture{suffix}").read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "x" * 1000 not in text
    assert "</script><script>alert(1)" in unescape(text.replace("\\u003c", "<"))
    if suffix == ".svg":
        ET.fromstring(text)
    else:
        assert LoadedPage(text).scripts == 2


@pytest.mark.parametrize("name", ["picture.pdf", "picture", "picture.svg.exe", ".svg"])
def test_another_suffix_is_refused_and_nothing_written(name: str, tmp_path: Path) -> None:
    """Only .svg, .png and .html are drawn."""
    with pytest.raises(InvalidInput, match=r"\.svg, \.png or \.html"):
        save_spec(build_picture_spec(chart_count()), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_told_in_one_sentence(tmp_path: Path) -> None:
    """No folder is made on the way."""
    with pytest.raises(InvalidInput, match="does not exist"):
        save_spec(build_picture_spec(chart_count()), tmp_path / "missing" / "picture.svg")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_keeps_what_it_had(tmp_path: Path) -> None:
    """A failed write leaves no part of a picture behind, and no text of the system in the message."""
    place = tmp_path / "picture.svg"
    (place / "kept").mkdir(parents=True)
    with pytest.raises(Unavailable, match="cannot be written") as failure:
        save_spec(build_picture_spec(chart_truth()), place)
    assert "Errno" not in str(failure.value)
    assert [path.name for path in tmp_path.rglob("*")] == ["picture.svg", "kept"]


@pytest.mark.parametrize("suffix", [".svg", ".png", ".html"])
def test_a_missing_extra_says_what_to_install(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra packages there is one sentence and no file."""
    real = builtins.__import__

    def fail_to_import(name: str, *rest: Any, **options: Any) -> Any:
        if name in {"altair", "vl_convert"}:
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(
        charts, "load_vega_script", charts.load_vega_script.__wrapped__
    )  # as if no page had been made yet
    monkeypatch.setattr(builtins, "__import__", fail_to_import)
    with pytest.raises(Unsupported, match=re.escape("pip install '.[pictures]'")):
        save_spec(build_picture_spec(chart_count()), tmp_path / f"picture{suffix}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [
        {"prior": None, "noise": None, "posterior": None},
        {"prior": chart_truth().prior},
        {"raw": "true"},
        {"raw": float("nan")},
        {"interval": (1.0, float("inf"))},
        {"interval": (2.0, 1.0)},
    ],
)
def test_a_drawing_that_makes_no_sense_is_refused_at_birth(change: dict[str, Any]) -> None:
    """Nothing to draw, kinds that do not match, or numbers that are none."""
    with pytest.raises(InvalidInput):
        replace(chart_count(), **change)


@pytest.mark.parametrize("change", [{"raw": "maybe"}, {"raw": 1.0}, {"interval": (0.0, 1.0)}])
def test_a_drawing_of_names_has_no_numbers(change: dict[str, Any]) -> None:
    """Over categories the raw answer is one of them, without an interval."""
    with pytest.raises(InvalidInput):
        replace(chart_truth(), **change)


@pytest.mark.parametrize("drawing", [chart_count(), chart_truth(), chart_many()])
def test_a_picture_as_data_is_the_picture(drawing: DistributionChart, tmp_path: Path) -> None:
    """It survives JSON, needs no package to be made, and is drawn the same elsewhere."""
    spec = charts.build_picture_spec(drawing)
    reloaded = json.loads(json.dumps(spec))
    assert spec["description"] == SENTENCE
    assert SENTENCE not in json.dumps(spec["layer"])
    for suffix in (".svg", ".png", ".html"):
        one, two = (
            save_spec(build_picture_spec(drawing), tmp_path / f"a{suffix}"),
            save_spec(reloaded, tmp_path / f"b{suffix}"),
        )
        assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    "spec",
    [None, [], "x", {}, {"layer": 3}, {"layer": [{"mark": 5}]}, {"layer": [{"mark": "no"}]}],
)
def test_what_is_no_picture_is_refused(spec: object, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no picture of an answer"):
        save_spec(spec, tmp_path / "picture.svg")
    assert list(tmp_path.iterdir()) == []


def test_a_picture_from_elsewhere_fetches_nothing(tmp_path: Path) -> None:
    """Not even a file of this machine."""
    (tmp_path / "rows.csv").write_text("x\n1\n")
    spec = charts.build_picture_spec(chart_count())
    layer = {"data": {"url": str(tmp_path / "rows.csv")}, "mark": "point", "encoding": {"x": {"field": "x"}}}
    with pytest.raises(InvalidInput, match="no picture of an answer"):
        save_spec(spec | {"layer": [layer]}, tmp_path / "picture.svg")
