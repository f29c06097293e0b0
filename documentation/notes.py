"""Pages that are files of the repository: proof notes, what changed, security, how to work on it."""

from __future__ import annotations

import re
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
    "kernel": "Mechanisms",
    "planner": "What one unit can change",
    "inference": "What is made of answers",
    "microdata": "Files",
    "ledger": "The account",
    "audit": "Audits",
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
    """The first sentence of the module that a note stands beside."""
    module = (ROOT / note).with_suffix(".py")
    found = (
        re.match(r'"""(.+?)(?:\n\n|""")', module.read_text(encoding="utf-8"), re.DOTALL) if module.exists() else None
    )
    return LEADS.sub("", " ".join(found[1].split())) if found else ""


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
        "Each stands beside the code it proves, under the same name, and travels with the package. Numbers such as 001 "
        "are those of [the documents](../papers-to-code.md#the-documents).",
        *(_group(part, name) for part, name in GROUPS.items()),
    )


def _group(part: str, name: str) -> str:
    rows = []
    for note, to in proofs().items():
        inside = Path(note).relative_to(PACKAGE)
        if inside.parts[0] == part:
            linked = f"[{title(note)}]({Path(to).relative_to('reference').as_posix()})"
            rows.append((linked, code(inside.with_suffix("").as_posix()), summary(note)))
    return page(f"## {name}", table(("proof", "of", "which does"), rows))
