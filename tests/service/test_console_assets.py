"""What the console is made of, without a browser: all is escaped, nothing is inline, nothing comes from elsewhere."""

from __future__ import annotations

import ast
import json
import math
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from discreet.service.console import analyst_pages, rendering, views
from discreet.service.console.rendering import ASSET_DIR, TEMPLATE_DIR, build_environment, read_own_assets

PAGES = sorted(TEMPLATE_DIR.rglob("*.html"))
SCRIPTS = sorted(ASSET_DIR.glob("*.js"))
NAMESPACE = "http://www.w3.org/2000/svg"
ADDRESS = re.compile(r"""(?:https?:)?//[A-Za-z0-9][^\s"'`)]*""")


class Inline(HTMLParser):
    """Collects what a strict content security policy would refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.sources: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.found += [f"<{tag} {name}>" for name in attributes if name == "style" or name.startswith("on")]
        self.found += [f"<{tag} {name}={attr}>" for name, attr in attrs if (attr or "").startswith("javascript:")]
        self.found += [f"<{tag}>"] if tag in {"style", "iframe", "object", "embed", "base"} else []
        if tag in {"script", "link", "img"}:
            self.sources.append(attributes.get("src") or attributes.get("href") or "inline")
        self._inside = tag if tag == "script" else ""

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 (the parser's own name)
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside and data.strip():
            self.found.append("a script with text")


def parse_page(path: Path) -> Inline:
    page = Inline()
    template = path.read_text(encoding="utf-8").replace("{{ assets }}/", "/console/assets/")
    page.feed(re.sub(r"\{%.*?%\}", "", template, flags=re.S))
    return page


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_has_no_inline_script_style_or_handler(path: Path) -> None:
    page = parse_page(path)
    assert page.found == []
    assert all(source.startswith("/console/assets/") for source in page.sources)
    assert {source.rpartition("/")[2] for source in page.sources} <= set(read_own_assets())


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_escaped_throughout(path: Path) -> None:
    """Autoescaping is on, and nothing in a template turns it off."""
    page_source = path.read_text(encoding="utf-8")
    environment = build_environment()
    assert environment.autoescape is True
    assert not re.search(r"\|\s*(safe|forceescape|xmlattr)\b|autoescape|Markup", page_source)
    # An attribute without quotes could be left by a space.
    assert not re.search(r"\s[a-z-]+=\{\{", page_source)


def test_text_that_looks_like_markup_stays_text() -> None:
    hostile = "\"><script>alert(1)</script>'"
    module = build_environment().get_template("parts.html").module
    for entry in (module.copyable("x", hostile, hostile), module.token(hostile), module.sentence(hostile)):  # type: ignore[attr-defined]
        assert "<script" not in str(entry)
        assert "&lt;script&gt;" in str(entry)


def test_a_name_that_is_not_there_is_an_error() -> None:
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        build_environment().from_string("{{ nothing }}").render()


@pytest.mark.parametrize(
    "path", [*PAGES, *SCRIPTS, *ASSET_DIR.glob("*.css"), *ASSET_DIR.glob("*.svg")], ids=lambda path: path.name
)
def test_nothing_comes_from_elsewhere(path: Path) -> None:
    source = path.read_text(encoding="utf-8").replace(NAMESPACE, "")
    assert ADDRESS.findall(source) == []
    assert "@import" not in source


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_never_makes_markup_or_code_of_text(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "DOMParser"):
        assert way not in source
    assert not re.search(r"setAttribute\(\s*[\"'](style|on)", source)
    assert not re.search(r"setTimeout\(\s*[\"'`]", source)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_imports_only_scripts_that_are_there(path: Path) -> None:
    named = re.findall(r'from "\./([a-z]+\.js)"', path.read_text(encoding="utf-8"))
    assert set(named) <= {one.name for one in SCRIPTS}


def test_every_explanation_has_a_page_and_every_question_mark_an_explanation() -> None:
    assert {path.stem for path in (TEMPLATE_DIR / "explain").glob("*.html")} == set(rendering.TOPICS)
    asked = [one for path in PAGES for one in re.findall(r'why\("([a-z]+)"', path.read_text(encoding="utf-8"))]
    assert set(asked) <= set(rendering.TOPICS)
    assert {"epsilon", "posterior", "guarantee"} <= set(asked)


def test_what_epsilon_buys_is_never_told_too_small() -> None:
    """A bound that is rounded is rounded up."""
    for epsilon, right, factor in rendering.list_epsilon_gains():
        size = float(epsilon)
        exact = math.exp(size) / (1 + math.exp(size))
        assert exact <= float(right.removesuffix(" %")) / 100 <= exact + 0.0011
        assert math.exp(size) <= float(factor.replace(",", "")) <= math.exp(size) * 1.005


def colours() -> dict[str, tuple[str, str]]:
    stylesheet = (ASSET_DIR / "console.css").read_text(encoding="utf-8")
    pairs = re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", stylesheet)
    return {name: (light, dark) for name, light, dark in pairs}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "ground"),
    [(ink, ground) for ink in ("ink", "quiet", "accent", "accent-strong") for ground in ("card", "ground", "sunk")]
    + [
        ("on-accent", "accent"),
        ("on-accent", "accent-strong"),
        ("accent-strong", "accent-soft"),
        ("ink", "accent-soft"),
    ]
    + [(name, f"{name}-soft") for name in ("good", "warn", "bad")]
    + [("bad", "card")],
)
def test_text_can_be_read(ink: str, ground: str, theme: int) -> None:
    """The contrast of every pair that text has is at least 4.5, in both themes."""
    themes = colours()
    one, two = sorted((luminance(themes[ink][theme]), luminance(themes[ground][theme])))
    assert (two + 0.05) / (one + 0.05) >= 4.5


HOSTILE = "SELECT COUNT(*) FROM t WHERE x = 'it''s \\ \"$(rm)` \n\u2028{{7*7}}'"


def test_a_copied_python_call_asks_the_same() -> None:
    asked = {
        "question": HOSTILE,
        "epsilon": "0.1",
        "delta": "1/1000",
        "prior": '{"a": 1}',
        "fresh": True,
        "interval": True,
    }
    code = analyst_pages.format_python_code("http://127.0.0.1:1", "re'gistry", True, asked)
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    (answer,) = [call for call in calls if getattr(call.func, "attr", "") == "answer"]
    assert ast.literal_eval(answer.args[0]) == HOSTILE
    keywords = {one.arg: ast.unparse(one.value) for one in answer.keywords}
    assert keywords == {"epsilon": "0.1", "delta": "Fraction('1/1000')", "prior": "'{\"a\": 1}'", "interval": "True"}
    assert "from fractions import Fraction" in code


def test_a_copied_number_is_only_ever_a_number() -> None:
    code = analyst_pages.format_python_code(
        "http://127.0.0.1:1", "t", False, {"question": "q", "epsilon": "__import__('os')"}
    )
    (answer,) = [
        n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "answer"
    ]
    assert ast.unparse(answer.keywords[0].value) == "Fraction(\"__import__('os')\")"


def test_a_copied_command_asks_the_same_and_pays_for_nothing_fresh() -> None:
    asked = {"question": HOSTILE, "epsilon": "0.1", "fresh": True}
    words = shlex.split(
        analyst_pages.format_curl_command("http://127.0.0.1:1", "/v1/datasets/t", asked).replace("\\\n", " ")
    )
    assert json.loads(words[words.index("--data") + 1]) == {"question": HOSTILE, "epsilon": "0.1"}
    assert "http://127.0.0.1:1/v1/datasets/t/answers" in words


def document(**options: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"columns": ["n"], "rows": [{"n": 5}], "intervals_95": [{"n": [-1.0, 11.0]}]}
    settings |= {"posteriors": [{"n": None}], "reconciled": None, "shaped_by_prior": False, "value": 5, "headline": 5}
    return settings | options


def test_one_number_is_told_with_its_interval() -> None:
    shown = views.build_answer_view(document())["single"]
    assert (shown["headline"], shown["interval"], shown["raw"]) == ("5", "-1 to 11", None)


def test_a_number_shaped_by_the_prior_is_told_beside_the_raw_one() -> None:
    shown = views.build_answer_view(document(shaped_by_prior=True, headline=4.5))["single"]
    assert (shown["headline"], shown["raw"]) == ("4.5", "5")


def test_a_posterior_of_dates_is_told_in_dates() -> None:
    law = {"mean": 18262.2, "median": 18262.0, "interval_95": [18231.0, 18293.0]}
    shown = views.build_answer_view(document(value="2020-01-03", headline="2020-01-03", posteriors=[{"n": law}]))[
        "single"
    ]
    assert shown["posterior"] == "mean 2020-01-01, median 2020-01-01, 95 % 2019-12-01 to 2020-02-01"


def test_bars_reach_from_nought_and_stay_in_the_picture() -> None:
    rows = [{"k": "a", "n": 10}, {"k": "b", "n": -2}, {"k": "c", "n": 0}]
    answer_document = document(
        columns=["k", "n"], rows=rows, intervals_95=[{"n": [row["n"] - 4, row["n"] + 4]} for row in rows]
    )
    del answer_document["value"]
    bars = views.build_answer_view(answer_document)["table"]["bars"]
    ends = [end for bar in bars for end in (bar["x"], bar["x"] + bar["width"], bar["from"], bar["to"])]
    assert min(ends) >= 0
    assert max(ends) <= 100.001
    assert bars[0]["x"] == bars[1]["x"] + bars[1]["width"] == bars[2]["x"]
    assert bars[2]["width"] == 0


def test_names_have_no_bars_and_no_common_line() -> None:
    answer_document = document(value="stroke", headline="stroke", rows=[{"n": "stroke"}], intervals_95=[{"n": None}])
    assert views.build_comparison([answer_document, answer_document]) == []
    assert len(views.build_comparison([document(), document(value=7)])) == 2


def test_a_taxonomy_is_a_tree_from_its_tops() -> None:
    tree = views.build_taxonomy_tree({"all": [], "a": ["all"], "b": ["all"], "c": ["b"]})
    assert [one["name"] for one in tree] == ["all"]
    assert [one["name"] for one in tree[0]["below"]] == ["a", "b"]
    assert tree[0]["below"][1]["below"][0]["name"] == "c"
