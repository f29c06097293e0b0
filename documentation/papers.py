"""From the papers to the code: `papers.yaml` read, checked against the outlines, and written as a page.

`python documentation/papers.py` writes docs/papers-to-code.md anew; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
DATA = Path(__file__).with_name("papers.yaml")
PAGE = ROOT / "docs" / "papers-to-code.md"

SECTIONS = {
    "000": "1 1.1 2 3 4 5 5.1 5.2 6 6.1 6.2 7 8",
    "001": "1 1.1-1.2 2 2.1-2.9 3 3.1-3.3 3.3.1-3.3.3 3.4 3.4.1-3.4.2 3.5 4 4.1-4.6 5 5.1-5.4 5.4.1-5.4.2 5.5 "
    "5.5.1-5.5.2 5.6-5.7 6 6.1-6.3 6.3.1-6.3.6 6.4 6.4.1-6.4.4 6.5 7 7.1 7.1.1-7.1.3 7.2 7.2.1-7.2.2 7.3 7.3.1-7.3.2 "
    "7.4 8 8.1-8.3",
    "002": "1-3 3.1-3.2 4 4.1-4.3 5 A",
    "003": "2.1-2.2 2.2.1 2.3 2.3.1-2.3.2 2.4 2.4.1 2.4.1.1 2.4.2 2.4.2.1 2.5",
    "004": "1-2 2.1-2.2 3-4 4.1-4.4 5 5.1-5.2 6 6.1 6.1.1-6.1.4 6.2 6.2.1-6.2.3 6.3 7",
}
"""The numbered sections of each document; 1-3 stands for 1, 2 and 3."""

STATEMENTS: Mapping[str, Mapping[str, str]] = {
    "000": {
        "Definition": "1-3",
        "Example": "1-3",
        "Proposition": "1-4",
        "Corollary": "1",
        "Algorithm": "1",
        "Protocol": "1-2",
        "Table": "1-5",
        "Figure": "1-7",
    },
    "001": {
        "Definition": "1-15",
        "Example": "1-8",
        "Lemma": "1-2",
        "Corollary": "1-2",
        "Theorem": "1-3",
        "Proposition": "1-10",
        "Protocol": "1-2",
        "Algorithm": "2.1 5.1 6.1-6.3 7.1",
        "Table": "3.1-3.11 4.1-4.4 5.1-5.5 6.1-6.5 7.1-7.6",
        "Figure": "3.1 4.1-4.7 5.1-5.7 6.1-6.5 7.1-7.7",
    },
    "002": {"Definition": "1-7", "Theorem": "1-3", "Example": "1"},
    "003": {"Definition": "2.1-2.9", "Theorem": "2.1-2.2", "Table": "2.1-2.3", "Figure": "2.1-2.6"},
    "004": {
        "Definition": "1-6",
        "Theorem": "1-5",
        "Proposition": "1-3",
        "Example": "1-2",
        "Table": "1-2",
        "Figure": "1-2",
    },
}
"""What each document states under a number."""

HEAD = """\
---
hide: [toc]
---
# From the papers to the code

Every section of the five documents, what became of it, the code, the tests that hold it, and what had to be corrected:
[000](#000-prior-knowledge-refinement), [001, the thesis](#001-the-thesis), [002](#002-linear-refinement),
[003](#003-the-book), [004](#004-individual-differential-privacy); [the end of this page](#the-documents) lists them.
Sections that need no code say so; what is not implemented says why. Figures are names for `python -m papers`, which
computes them anew ([more](reproduce.md)). Modules are in `src/discreet`, but those of `papers/`; tests in `tests`.

```python
import discreet

print(discreet.Refinement.__module__, discreet.Staircase.__module__, discreet.t_close.__module__)
```

```text
discreet.mechanisms.refinement discreet.mechanisms.staircase discreet.sdc.methods.t_closeness
```
"""

TAIL = """\
## The documents

- 000: J. Soria-Comas, J. Domingo-Ferrer, *Sensitivity-independent differential privacy via prior knowledge
  refinement*, 2012.
- 001: J. Soria-Comas, *Improving data utility in differential privacy and k-anonymity* (the thesis), 2013.
- 002: X. Ying, X. Wu, Y. Wang, *On linear refinement of differential privacy-preserving query answering*.
- 003: T. Zhu, G. Li, W. Zhou, P. S. Yu, *Differential privacy and applications*, chapter 2, 2017.
- 004: J. Soria-Comas, J. Domingo-Ferrer, D. Sánchez, D. Megías, *Individual differential privacy: a utility-preserving
  formulation of differential privacy guarantees*.
"""


def get_repository_path(file: str) -> str:
    """Where a file of `code` is, from the root of the repository."""
    return file if file.startswith("papers/") else f"src/discreet/{file}"


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a document, and what became of it."""

    at: str
    title: str
    here: str
    holds: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    errata: tuple[str, ...] = ()
    reproduced: tuple[str, ...] = ()

    @property
    def statements(self) -> list[str]:
        """What it holds, one by one: Definition 1, Definition 2."""
        parts = (held.rsplit(" ", 1) for held in self.holds)
        return [f"{kind} {number}" for kind, numbers in parts for number in expand_numbers(numbers)]

    @property
    def names(self) -> list[tuple[str, tuple[str, ...]]]:
        """Files under src/discreet, or of papers/, each with the names that are meant in it."""
        return [(file, tuple(names)) for file, *names in (code.split() for code in self.code)]

    def format_row(self) -> str:
        """The section as a row of its table."""
        statements = f"<br>{', '.join(self.holds).replace('-', '–')}" if self.holds else ""
        figures = ", ".join(f"`{name}`" for name in self.reproduced)
        notes = [("Corrected", self._format_errata()), ("Figures", figures)]
        here = "<br>".join([self.here, *(f"{what}: {words}" for what, words in notes if words)])
        return f"| **{self.at}** {self.title}{statements} | {here} | {self._format_code()} | {self._format_tests()} |"

    def _format_code(self) -> str:
        links = ((f"[{file.removesuffix('.py')}](../{get_repository_path(file)})", names) for file, names in self.names)
        return "<br>".join(
            f"{link}: {', '.join(f'`{name}`' for name in names)}" if names else link for link, names in links
        )

    def _format_tests(self) -> str:
        files = dict.fromkeys(test.split("::")[0] for test in self.tests)
        return "<br>".join(f"[{Path(file).stem}](../tests/{file})" for file in files)

    def _format_errata(self) -> str:
        return ", ".join(
            f"[{number}](errata.md#{list_errata_anchors()[number.split('.')[0]]})" for number in self.errata
        )


def read_documents() -> dict[str, tuple[str, list[Section]]]:
    """The title and the sections of each document."""
    outlines = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    return {
        number: (outline["title"], [_build_section(one) for one in outline["sections"]])
        for number, outline in outlines.items()
    }


def _build_section(entry: Mapping[str, object]) -> Section:
    return Section(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})  # type: ignore[arg-type]


def expand_numbers(text: str) -> Iterator[str]:
    """Numbers one by one: of "3.1-3.3 5" 3.1, 3.2, 3.3 and 5."""
    for part in text.split():
        first, _, last = part.partition("-")
        head, _, start = first.rpartition(".")
        ends = range(int(start), int(last.rpartition(".")[2]) + 1) if last else (start,)
        yield from (f"{head}.{end}" if head else str(end) for end in ends)


def list_errata_anchors() -> dict[str, str]:
    """The anchors of the page of errata by the numbers of its headings, as the site makes them."""
    text = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    heads = re.findall(r"^## ((\d+)\. .*)$", text, re.MULTILINE)
    return {number: re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", head.lower())).strip("-") for head, number in heads}


def format_page() -> str:
    """The page: a table for each document."""
    return "\n".join([HEAD, *(_format_table(number, *document) for number, document in read_documents().items()), TAIL])


def _format_table(number: str, title: str, sections: Sequence[Section]) -> str:
    head = "| section | what became of it | code | tests |\n|---|---|---|---|\n"
    return f"## {number}: {title}\n\n{head}" + "\n".join(section.format_row() for section in sections) + "\n"


if __name__ == "__main__":
    PAGE.write_text(format_page(), encoding="utf-8")
