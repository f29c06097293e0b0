"""Pages that are files of the repository: proof notes, what changed, security, how to work on it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

from documentation.markdown import format_code, format_table, join_parts

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/discreet")
FILES = {
    "CHANGELOG.md": "reference/changes.md",
    "SECURITY.md": "reference/security.md",
    "CONTRIBUTING.md": "reference/contributing.md",
}
GROUPS = {
    "Mechanisms": ("mechanisms",),
    "What one unit can change": ("measurements", "planner"),
    "What is made of answers": ("estimation",),
    "Files": ("sdc", "synthetic"),
    "The account": ("ledger",),
    "Audits": ("verification",),
}
"""The parts of the package that have proofs."""
LIST = re.compile(r"^((?![-*] |[|>#]|\s).+)\n(?=[-*] )", re.MULTILINE)
INDEX = re.compile(r"\]\([^)]*\)|(?<=\S)_(?=\S)")
LEADS = re.compile(r"( (Proofs?|Note)\b[^.]*: \w+\.md\.| \(\w+\.md\)|; [^;]* in \w+\.md)")
"""How a module leads to its note, which the reader of the page has already."""


def list_proofs() -> dict[str, str]:
    """Every proof note of the package, with the page that it becomes."""
    paths = sorted(path.relative_to(ROOT / PACKAGE) for path in (ROOT / PACKAGE).rglob("*.md"))
    return {(PACKAGE / path).as_posix(): f"reference/proofs/{path.as_posix()}" for path in paths}


def list_pages() -> dict[str, str]:
    """Every file of the repository that is a page of the site."""
    return FILES | list_proofs()


def read_title(note: str) -> str:
    """The first heading of a note."""
    match = re.match(r"# (.+)\n", (ROOT / note).read_text(encoding="utf-8"))
    return match[1] if match else ""


def read_summary(note: str) -> str:
    """What the module that a note stands beside says of itself first; where it has several notes, of this one."""
    path = find_module(note)
    if path is None:
        return ""
    paragraphs = _read_paragraphs(path)
    return LEADS.sub(
        "", paragraphs[0] if path.stem == Path(note).stem else next(filter(_build_lead_check(note), paragraphs))
    )


def find_module(note: str) -> Path | None:
    """The module that a note stands beside: that of the same name, or else the one that leads to it first."""
    same_name = (ROOT / note).with_suffix(".py")
    others = (
        path
        for path in sorted(same_name.parent.glob("*.py"))
        if any(map(_build_lead_check(note), _read_paragraphs(path)))
    )
    return same_name if same_name.exists() else next(others, None)


def _build_lead_check(note: str) -> Callable[[str], bool]:
    name = re.compile(rf"\b{re.escape(Path(note).name)}")
    return lambda paragraph: any(name.search(found[0]) for found in LEADS.finditer(paragraph))


def _read_paragraphs(module: Path) -> list[str]:
    """What a module says of itself."""
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return [" ".join(paragraph.split()) for paragraph in docstring.split("\n\n")]


def escape_for_site(markdown: str) -> str:
    """As the repository's host reads it: a list may follow a line at once, and an index, as in α_u, is no emphasis."""
    spaced = LIST.sub(r"\1\n\n", markdown)
    return INDEX.sub(lambda found: found[0] if found[0] != "_" else r"\_", spaced)


def list_undocumented(notes: list[str]) -> list[str]:
    """Notes without a heading, or beside no module that says what it does."""
    return [note for note in notes if not (read_title(note) and read_summary(note))]


def format_page() -> str:
    """The page that leads to every proof."""
    return join_parts(
        "# Proof notes",
        "Each stands beside the code it proves, and travels with the package. Numbers such as 001 are those of "
        "[the documents](../papers-to-code.md#the-documents).",
        *(_format_group(name, parts) for name, parts in GROUPS.items()),
    )


def _format_group(name: str, parts: tuple[str, ...]) -> str:
    rows = []
    for note, to in list_proofs().items():
        inside = Path(note).relative_to(PACKAGE)
        if inside.parts[0] in parts:
            link = f"[{read_title(note)}]({Path(to).relative_to('reference').as_posix()})"
            rows.append((link, format_code(_format_module_place(note)), read_summary(note)))
    return join_parts(f"## {name}", format_table(("proof", "of", "which does"), rows))


def _format_module_place(note: str) -> str:
    """The module that a note is of, as its place in the package."""
    return (find_module(note) or ROOT / note).relative_to(ROOT / PACKAGE).with_suffix("").as_posix()
