"""Nothing is undocumented, the site is built without a complaint, and every link of it leads somewhere."""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest
import test_docs
import typer
import yaml
from documentation import (
    hooks,
    links,
    reference_cli,
    reference_errors,
    reference_http,
    reference_python,
    reference_schema,
    reference_settings,
    repository_pages,
)

import discreet
from discreet.errors import DiscreetError
from discreet.schema import yaml as schema_yaml
from discreet.schema.yaml import MappingKeys
from discreet.service import config
from discreet.service.problems import PROBLEM_TYPES, ProblemType

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TOP = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")
VARIABLE = re.compile(r"\bDISCREET_[A-Z]+\b")

# ---- nothing is undocumented ----


def test_every_command_and_option_has_help_and_is_on_its_page() -> None:
    commands = list(reference_cli.list_commands())
    page = reference_cli.format_page()
    assert reference_cli.list_undocumented(commands) == []
    assert len(commands) > 20
    assert [name for name, _ in commands if f"## `{name}` " not in page] == []
    for name, command in commands:
        options = [
            option
            for one in reference_cli.list_shown_parameters(command)
            for option in one.opts
            if option.startswith("-")
        ]
        assert [(name, option) for option in options if not on_section(page, name, option)] == []


def on_section(page: str, name: str, option: str) -> bool:
    _, _, after = page.partition(f"## `{name}` ")
    return re.search(rf"`{re.escape(option)}[ `]", after.partition("\n## ")[0]) is not None


def test_a_command_without_help_is_caught() -> None:
    """And so is an option without it; one that has both is not."""
    app = typer.Typer()

    @app.command()
    def silent(value: str = "") -> None:
        pass

    @app.command()
    def documented(value: str = typer.Option("", help="What is given.")) -> None:
        """Say what was given."""

    commands = list(reference_cli.list_commands(typer.main.get_group(app), "made"))
    assert reference_cli.list_undocumented(commands[1:]) == ["made silent", "made silent --value"]


def test_every_exit_code_is_told() -> None:
    codes = {kind.exit_code for kind in reference_errors.list_kinds()}
    assert set(reference_cli.list_exit_codes()) == {0, 130, *codes}


def test_every_route_and_field_is_described_and_on_its_page() -> None:
    document, allowed = reference_http.build_service_document()
    page = reference_http.format_page()
    operations = list(reference_http.list_operations(document))
    assert reference_http.list_undocumented(document) == []
    assert len(operations) > 40
    assert [
        path for method, path, _ in operations if f"`{path}`" not in page and f"`{method} {path}`" not in page
    ] == []
    assert [(method, path) for method, path, _ in operations if (method, path) not in allowed] == []


def test_a_route_without_words_is_caught() -> None:
    body = {"content": {"application/json": {"schema": {"properties": {"shape": {"type": "string"}}}}}}
    document = {"paths": {"/a": {"get": {"description": "Told."}, "post": {"requestBody": body}}}}
    assert reference_http.list_undocumented(document) == ["POST /a", "POST /a shape"]


def test_who_may_use_a_route_is_read_from_the_route() -> None:
    _, allowed = reference_http.build_service_document()
    assert allowed["GET", "/health"] == "everybody, without a token"
    assert allowed["POST", "/v1/tokens"] == allowed["POST", "/v1/datasets/{dataset}/releases"] == "custodians"
    assert allowed["POST", "/v1/datasets/{dataset}/answers"] == "whoever may ask the data set"
    assert allowed["GET", "/v1/datasets"] == "everybody with a token"


def test_every_key_of_the_schema_is_described() -> None:
    parts_and_words = reference_schema.PARTS, reference_schema.WORDS
    assert reference_schema.list_undocumented(*parts_and_words) == []
    described = {known for known, _ in reference_schema.PARTS.values()}
    assert described == {value for value in vars(schema_yaml).values() if isinstance(value, MappingKeys)}


def test_a_key_without_words_is_caught() -> None:
    """And so are words about a key that is gone."""
    parts = {"The file": (MappingKeys(("name", "colour")), "")}
    words = {"The file": {"name": ("what it is called", "", "a"), "size": ("how large", "", "1")}}
    assert reference_schema.list_undocumented(parts, words) == ["The file: colour", "The file: size, which is no key"]


def test_every_example_of_the_schema_is_one() -> None:
    """Each is what YAML reads as a mapping of that key."""
    examples = re.findall(r"`(\w+: [^`]+)` \|$", reference_schema.format_page(), re.MULTILINE)
    assert len(examples) > 30
    assert [one for one in examples if list(yaml.safe_load(one)) != [one.partition(":")[0]]] == []


def test_every_setting_is_described() -> None:
    assert reference_settings.list_undocumented(reference_settings.PARTS, reference_settings.WORDS) == []
    described = {known for known, _, _ in reference_settings.PARTS.values()}
    kinds = [kind for kind in vars(config).values() if isinstance(kind, type) and is_dataclass(kind)]
    assert len(kinds) == 4
    assert described == {schema_yaml.list_keys(kind) for kind in kinds}


def test_a_setting_without_words_is_caught() -> None:
    parts = {"limits": (MappingKeys(("rate", "height")), None, "")}
    faults = reference_settings.list_undocumented(parts, {"limits": {"rate": "a second", "depth": "gone"}})
    assert faults == ["limits: height", "limits: depth, which is no setting"]


def test_every_variable_of_the_environment_is_described() -> None:
    """Those that have our name, wherever a file of the repository reads or names them; tests have some of their own."""
    files = [ROOT / name for name in ("Makefile", ".ci/run", *TOP)]
    files += [path for part in ("src", "docs", "demo", "benchmarks") for path in (ROOT / part).rglob("*.*")]
    texts = [path.read_bytes().decode(errors="ignore") for path in files if path.is_file() and path.suffix != ".pyc"]
    used = {name for text in texts for name in VARIABLE.findall(text)}
    assert used == set(reference_settings.VARIABLES)


def test_every_error_is_described() -> None:
    page = reference_errors.format_page()
    names = {name for name in discreet.__all__ if getattr(discreet, name).__module__ == "discreet.errors"}
    assert reference_errors.list_undocumented(reference_errors.list_kinds()) == []
    assert {kind.__name__ for kind in reference_errors.list_kinds()} == names
    assert [name for name in names if f"## `{name}` " not in page] == []
    assert [sort.name for sort in PROBLEM_TYPES if f"`{sort.uri}`" not in page] == []


def test_an_error_that_does_not_say_what_to_do_is_caught() -> None:
    class Terse(DiscreetError):
        """It went wrong."""

    strange = ProblemType("strange", 418, "Strange")
    assert reference_errors.list_undocumented([Terse], (strange,)) == ["Terse", "strange"]


def test_every_public_name_is_on_its_page_once() -> None:
    grouped = [name for names in reference_python.GROUPS.values() for name in names]
    assert sorted(grouped) == discreet.__all__
    everything = reference_python.collect_names()
    page = reference_python.format_page()
    assert reference_python.list_undocumented(everything) == []
    assert [name for name in everything if page.count(f"### `{name}` ") != 1] == []


def test_a_name_without_words_is_caught() -> None:
    """And so is a method; one that a class of ours hands down counts as its own."""

    class Silent:
        def speak(self) -> None:
            pass

        def _whisper(self) -> None:
            pass

    class Told(Silent):
        """Says so."""

    Silent.__module__ = Told.__module__ = "discreet.made_up"
    silent_names = reference_python.list_undocumented({"Silent": Silent, "Told": Told})
    assert silent_names == ["Silent", "Silent.speak", "Told.speak"]


def test_a_long_signature_has_a_line_for_each_parameter() -> None:
    def long(first: int, *, second: str = "x" * 50, third: str = "y" * 50) -> list[int]:
        raise NotImplementedError

    signature = reference_python.format_signature("long", long)
    parts = ["    first: int,", "    *,", f"    second: str = '{'x' * 50}',", f"    third: str = '{'y' * 50}',"]
    assert signature.splitlines() == ["long(", *parts, ") -> list[int]"]


def test_every_proof_note_is_a_page_and_on_the_list() -> None:
    page = repository_pages.format_page()
    assert repository_pages.list_undocumented(list(repository_pages.list_proofs())) == []
    assert len(repository_pages.list_proofs()) > 25
    assert [
        there for there in repository_pages.list_proofs().values() if there.removeprefix("reference/") not in page
    ] == []


def test_a_note_of_another_name_is_of_the_module_that_leads_to_it() -> None:
    note = "src/discreet/mechanisms/degradation.md"
    module = repository_pages.find_module(note)
    assert module is not None
    assert module.name == "discrete_laplace.py"
    assert (
        repository_pages.read_summary(note) == "Turn a discrete Laplace answer into one of a smaller epsilon, exactly."
    )


def test_a_note_beside_no_module_is_caught() -> None:
    assert repository_pages.list_undocumented(["README.md"]) == ["README.md"]


def test_a_note_is_read_as_its_host_reads_it() -> None:
    """Lists need no empty line before them, and underscores in formulas and addresses stay."""
    rewritten = repository_pages.escape_for_site("x'_i <= x_{j} holds:\n- a *b*\n- c\n\n[d](e_f.md)\n")
    assert rewritten == "x'\\_i <= x\\_{j} holds:\n\n- a *b*\n- c\n\n[d](e_f.md)\n"


# ---- links in the repository ----


def test_links_between_files_become_links_between_pages() -> None:
    """A file that is a page is linked; another is plain code; code itself is left alone."""
    pages = {"SECURITY.md": "reference/security.md", "src/discreet/a.md": "reference/proofs/a.md"}
    text = (
        "[see](../SECURITY.md#scope), [`Prior`](../src/discreet/priors/prior.py), [a](https://a.example), `[x](y.md)`"
    )
    rewritten = links.rewrite_links(text, "docs/asking.md", "asking.md", pages)
    assert rewritten == "[see](reference/security.md#scope), `Prior`, [a](https://a.example), `[x](y.md)`"
    back = links.rewrite_links(
        "[ask](docs/asking.md) ![p](docs/attack.svg)", "SECURITY.md", pages["SECURITY.md"], pages
    )
    assert back == "[ask](../asking.md) ![p](../attack.svg)"


@pytest.mark.parametrize("target", ["../src/discreet/nothing.py", "../../elsewhere.md"])
def test_a_link_to_what_is_not_in_the_repository_is_refused(target: str) -> None:
    with pytest.raises(links.BrokenLink, match=re.escape(target)):
        links.rewrite_links(f"[see]({target})", "docs/asking.md", "asking.md", {})


@pytest.mark.parametrize("name", TOP)
def test_every_link_of_the_files_at_the_top_leads_somewhere(name: str) -> None:
    """To a file, and where there is a #, to a heading of it."""
    targets = [link["target"] for link in links.LINK.finditer((ROOT / name).read_text(encoding="utf-8"))]
    inside = [target.partition("#") for target in targets if not re.match("[a-z]+:", target)]
    assert [place for place, _, _ in inside if place and not (ROOT / place).exists()] == []
    assert [anchor for place, _, anchor in inside if anchor and anchor not in headings(ROOT / (place or name))] == []


def headings(file: Path) -> set[str]:
    """The anchors that a host gives to the headings of a file."""
    titles = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in titles}


# ---- the site ----


@dataclass
class Html(HTMLParser):
    """What a page of the site leads to, loads, and can be led to."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.anchors |= {attributes[name] for name in ("id", "name") if name in attributes}
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        if tag == "link" and attributes.get("rel") not in {"canonical", "next", "prev"}:
            self.loaded.append(attributes.get("href", ""))
        if tag in {"script", "img", "iframe", "source", "video", "object"}:
            self.loaded += [attributes[name] for name in ("src", "data") if name in attributes]


def read(text: str) -> Html:
    page = Html()
    page.feed(text)
    return page


def find_broken_links(pages: Mapping[str, Html], files: set[str]) -> Iterator[tuple[str, str]]:
    """Links and pictures that lead to nothing, and what is fetched from elsewhere."""
    for place, page in pages.items():
        for target in (*page.links, *page.loaded):
            if re.match(r"(https?:)?//|data:", target):
                if target in page.loaded and not target.startswith("data:"):
                    yield place, target
            elif not _leads(place, target, pages, files):
                yield place, target


def _leads(place: str, target: str, pages: Mapping[str, Html], files: set[str]) -> bool:
    path, _, anchor = target.partition("#")
    there = posixpath.normpath(posixpath.join(posixpath.dirname(place), unquote(path))) if path else place
    known = there in files
    return known and (not anchor or there not in pages or unquote(anchor) in pages[there].anchors)


def test_the_checker_of_links_finds_what_is_broken() -> None:
    """A page that is not there, an anchor, a picture, and a script from elsewhere; and nothing else."""
    text = (
        '<h2 id="here"></h2><a href="b.html#there"></a><a href="#here"></a><a href="https://a.example/x"></a>'
        '<a href="b.html#nowhere"></a><a href="c.html"></a><img src="no.svg"><img src="data:x">'
        '<script src="//cdn.example/x.js"></script><link rel="stylesheet" href="https://fonts.example/a.css">'
    )
    pages = {"a.html": read(text), "b.html": read('<a name="there"></a>')}
    broken_links = sorted(target for _, target in find_broken_links(pages, set(pages)))
    expected = ["//cdn.example/x.js", "b.html#nowhere", "c.html", "https://fonts.example/a.css", "no.svg"]
    assert broken_links == expected


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The site, built once; what was said while it was built, and its code."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    pages = {name: read((folder / name).read_text(encoding="utf-8")) for name in files if name.endswith(".html")}
    return SimpleNamespace(
        code=done.returncode, said=done.stderr + done.stdout, files=files, pages=pages, folder=folder
    )


@pytest.mark.xdist_group("site")
def test_the_site_is_built_without_a_complaint(site: Any) -> None:
    complaints = [line for line in site.said.splitlines() if line.strip() and not line.startswith("INFO")]
    assert (site.code, complaints) == (0, [])


@pytest.mark.xdist_group("site")
def test_every_link_of_the_site_leads_somewhere_and_nothing_is_fetched(site: Any) -> None:
    """The page for what is not found is served from anywhere, so its links are absolute."""
    assert len(site.pages) > 60
    pages = {place: page for place, page in site.pages.items() if place != "404.html"}
    assert sorted(find_broken_links(pages, site.files)) == []


@pytest.mark.xdist_group("site")
def test_styles_fetch_nothing_from_elsewhere(site: Any) -> None:
    styles = [(site.folder / name).read_text(encoding="utf-8") for name in site.files if name.endswith(".css")]
    assert styles
    assert [
        address for style in styles for address in re.findall(r"(?:url\(|@import\s)['\"]?(?:https?:)?//[^)]*", style)
    ] == []


def list_navigated_pages(part: object) -> Iterator[str]:
    """Every page that the navigation names."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping | list):
        for one in part.values() if isinstance(part, Mapping) else part:
            yield from list_navigated_pages(one)


def astray(nav: object, there: set[str]) -> set[str]:
    """Pages that the navigation does not name, and names of it that are no page."""
    return set(list_navigated_pages(nav)) ^ there


def test_every_page_is_in_the_navigation_and_run() -> None:
    """Every page of docs/ and every page that is made; but proof notes, which have a list of their own."""
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    generated_pages = {f"reference/{name}.md" for name in (*hooks.REFERENCE, "proofs", "changes")}
    assert astray(nav, written | generated_pages) == set()
    assert {path.relative_to(DOCS).as_posix() for path in test_docs.PAGES[1:]} == written


def test_a_page_outside_the_navigation_is_caught() -> None:
    """And so is a name in it that is no page."""
    nav = ["index.md", {"How to": [{"Ask": "ask.md"}, {"Fly": "fly.md"}]}]
    assert astray(nav, {"index.md", "ask.md", "lost.md"}) == {"fly.md", "lost.md"}
