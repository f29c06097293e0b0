"""What MkDocs calls: adds the pages and pictures that are made from the code, and sets links right."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:  # MkDocs loads this file by its path alone
    sys.path.insert(0, str(ROOT))

from documentation import links, notes  # noqa: E402
from mkdocs.exceptions import PluginError  # noqa: E402 (after the path)
from mkdocs.structure.files import File  # noqa: E402

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

REFERENCE = ("cli", "http", "python", "schema", "settings", "errors")
PICTURES = "pictures_*.py"


def generated() -> dict[str, str | bytes]:
    """Every page and picture that is not a file of docs/, by its place on the site."""
    made: dict[str, str | bytes] = {}
    for name in REFERENCE:
        made[f"reference/{name}.md"] = import_module(f"documentation.reference_{name}").text()
    made["reference/proofs.md"] = notes.text()
    for file, page in notes.pages().items():
        made[page] = (ROOT / file).read_text(encoding="utf-8")
    made["site.css"] = Path(__file__).with_name("site.css").read_bytes()
    for module in sorted(Path(__file__).parent.glob(PICTURES)):
        made |= import_module(f"documentation.{module.stem}").pictures()
    return made


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add them."""
    for place, content in generated().items():
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 (MkDocs names them)
    """Set the links of a page right; one that leads nowhere stops the build."""
    place, pages = page.file.src_uri, notes.pages()
    try:
        linked = links.rewritten(markdown, links.repository_file(place, pages), place, pages)
    except links.Broken as broken:
        raise PluginError(str(broken)) from None
    return links.outside_code(linked, notes.readable) if place in pages.values() else linked
