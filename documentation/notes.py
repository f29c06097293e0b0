"""Pages that are files of the repository: proof notes, what changed, security, how to work on it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

from documentation.markdown import code, page, table

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


def proofs() -> dict[str, str]:
    """Every proof note of the package, with the page that it becomes."""
    found = sorted(path.relative_to(ROOT / PACKAGE) for path in (ROOT / PACKAGE).rglob("*.md"))
    return {(PACKAGE / path).as_posix(): f"reference/proofs/{path.as_posix()}" for path in found}


def pages() -> dict[str, str]:
    """Every file of the repository that is a page of the site."""
    return FILES | proofs()


def title(note: str) -> str:
    """The first heading of a note."""
    found = re.match(r"# (.+)\n", (ROOT / note).read_text(encoding="utf-8"))
    return found[1] if found else ""


def summary(note: str) -> str:
    """What the module that a note stands beside says of itself first; where it has several notes, of this one."""
    path = module(note)
    if path is None:
        return ""
    said = _paragraphs(path)
    return LEADS.sub("", said[0] if path.stem == Path(note).stem else next(filter(_leads_to(note), said)))


def module(note: str) -> Path | None:
    """The module that a note stands beside: that of the same name, or else the one that leads to it first."""
    named = (ROOT / note).with_suffix(".py")
    others = (path for path in sorted(named.parent.glob("*.py")) if any(map(_leads_to(note), _paragraphs(path))))
    return named if named.exists() else next(others, None)


def _leads_to(note: str) -> Callable[[str], bool]:
    name = re.compile(rf"\b{re.escape(Path(note).name)}")
    return lambda said: any(name.search(found[0]) for found in LEADS.finditer(said))


def _paragraphs(module: Path) -> list[str]:
    """What a module says of itself."""
    said = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return [" ".join(paragraph.split()) for paragraph in said.split("\n\n")]


def readable(markdown: str) -> str:
    """As the repository's host reads it: a list may follow a line at once, and an index, as in α_u, is no emphasis."""
    apart = LIST.sub(r"\1\n\n", markdown)
    return INDEX.sub(lambda found: found[0] if found[0] != "_" else r"\_", apart)


def undocumented(notes: list[str]) -> list[str]:
    """Notes without a heading, or beside no module that says what it does."""
    return [note for note in notes if not (title(note) and summary(note))]


def text() -> str:
    """The page that leads to every proof."""
    return page(
        "# Proof notes",
        "Each stands beside the code it proves, and travels with the package. Numbers such as 001 are those of "
        "[the documents](../papers-to-code.md#the-documents).",
        *(_group(name, parts) for name, parts in GROUPS.items()),
    )


def _group(name: str, parts: tuple[str, ...]) -> str:
    rows = []
    for note, to in proofs().items():
        inside = Path(note).relative_to(PACKAGE)
        if inside.parts[0] in parts:
            linked = f"[{title(note)}]({Path(to).relative_to('reference').as_posix()})"
            rows.append((linked, code(_place(note)), summary(note)))
    return page(f"## {name}", table(("proof", "of", "which does"), rows))


def _place(note: str) -> str:
    """The module that a note is of, as its place in the package."""
    return (module(note) or ROOT / note).relative_to(ROOT / PACKAGE).with_suffix("").as_posix()
