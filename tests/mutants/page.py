"""The list of faults as it stands in the docs."""

from __future__ import annotations

from .fault import ROOT, Fault
from .faults import FAULTS

PAGE = ROOT / "docs" / "mutants.md"
HEAD = "| fault | package | what is wrong | what it would let happen | killed by |\n|---|---|---|---|---|\n"


def table() -> str:
    """All faults, a line for each."""
    return HEAD + "".join(_line(fault) for fault in FAULTS)


def _line(fault: Fault) -> str:
    killers = ", ".join(f"`{test}`" for test in fault.killers)
    return f"| `{fault.name}` | {fault.package} | {fault.does} | {fault.lets} | {killers} |\n"


def write() -> None:
    """Put the list in the place of the one that is there: from its head to the end of the page."""
    before, _, _ = PAGE.read_text().partition(HEAD)
    PAGE.write_text(before + table())
