"""What MkDocs calls: adds the pages and pictures that are made from the code, and sets links right."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:  # MkDocs loads this file by its path alone
    sys.path.insert(0, str(ROOT))

from documentation import links, repository_pages  # noqa: E402
from mkdocs.exceptions import PluginError  # noqa: E402 (after the path)
from mkdocs.structure.files import File  # noqa: E402

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

REFERENCE = ("cli", "http", "python", "schema", "settings", "errors")
PICTURES = "pictures_*.py"


def build_generated_files() -> dict[str, str | bytes]:
    """Every page and picture that is not a file of docs/, by its place on the site."""
    contents_by_place: dict[str, str | bytes] = {}
    for name in REFERENCE:
        contents_by_place[f"reference/{name}.md"] = import_module(f"documentation.reference_{name}").format_page()
    contents_by_place["reference/proofs.md"] = repository_pages.format_page()
    for file, page in repository_pages.list_pages().items():
        contents_by_place[page] = (ROOT / file).read_text(encoding="utf-8")
    for name in ("site.css", "iframe-worker.js"):
        contents_by_place[name] = Path(__file__).with_name(name).read_bytes()
    for module in sorted(Path(__file__).parent.glob(PICTURES)):
        contents_by_place |= import_module(f"documentation.{module.stem}").draw_pictures()
    return contents_by_place


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add them."""
    for place, content in build_generated_files().items():
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 (MkDocs names them)
    """Set the links of a page right; one that leads nowhere stops the build."""
    place, pages = page.file.src_uri, repository_pages.list_pages()
    try:
        linked_markdown = links.rewrite_links(markdown, links.find_repository_file(place, pages), place, pages)
    except links.BrokenLink as broken:
        raise PluginError(str(broken)) from None
    return (
        links.change_outside_code(linked_markdown, repository_pages.escape_for_site)
        if place in pages.values()
        else linked_markdown
    )
