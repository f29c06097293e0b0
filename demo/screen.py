"""What the demo says on the screen: short, and readable at 80 characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from demo.auditing import DRAWS, Audited
from demo.files import ANONYMOUS, PRIVATE
from demo.questions import ANALYST, Refusal, Step, Told
from demo.registry import NEW, Work
from demo.words import answer_of, between_of, exact_of, number
from discreet.ledger import Balance
from discreet.numeric import format_exact
from discreet.release.assess import VerifiedRelease

LINE = "  {:<14}{:<20}{:<20}{}"
"""Answer, interval, cost and truth."""


def registry(console: Console, work: Work) -> None:
    """Where the rows are, and whether they were there already."""
    _title(console, "A registry")
    console.print(f"{work.patients:,} made-up patients, in {work.folder}")
    if work.found:
        console.print("Found again: what was asked before is answered from its ledger, for nothing.")
    elif work.why != NEW:
        console.print(f"Made anew: {work.why}.")


def questions(console: Console, asked: Iterable[Told]) -> list[Told]:
    """Every question as it is answered."""
    _title(console, f"{ANALYST} asks: without and with what she knows already")
    console.print(Text(LINE.format("answer", "95 % between", "cost", "truth").rstrip(), "dim"))
    told: list[Told] = []
    for one in asked:
        if not told or told[-1].question.sql != one.question.sql:
            console.print(Text(one.question.sql, "cyan"))
        if one.question.prior:
            console.print(Text(f"  knowing {one.question.prior}:", "dim"))
        truth = exact_of(one) if one.answer.single else ""
        console.print(LINE.format(answer_of(one), between_of(one), _cost(one), truth).rstrip())
        told.append(one)
    console.print(Text("The truth is for you, who are the custodian here too: no analyst sees it.", "dim"))
    return told


def _cost(one: Told) -> str:
    """What it cost now, and what it cost before."""
    if one.paid:
        return format_exact(one.paid)
    return f"0 (before: {format_exact(one.price)})" if one.price else "0 (the same draw)"


def refusals(console: Console, refused: Iterable[Refusal]) -> list[Refusal]:
    """What was not answered, in the product's own words."""
    _title(console, "Two refusals, which cost nothing")
    told = []
    for one in refused:
        told.append(one)
        console.print(Text(one.sql, "cyan") + Text(f"   epsilon {format_exact(one.epsilon)}", "dim"))
        console.print(Padding(Text(one.words, "red"), (0, 0, 0, 2), expand=False))
    return told


def account(console: Console, steps: Sequence[Step], balances: Sequence[Balance]) -> None:
    """The budget going down."""
    cap = balances[-1].cap.epsilon
    _title(console, f"The budget of {ANALYST}: epsilon {format_exact(cap)}")
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("cost", "left", ""):
        made.add_column(name, justify="right" if name else "left")
    for step in steps:
        bar = "█" * round(30 * step.left / cap)
        made.add_row(
            format_exact(step.cost), format_exact(step.left), Text(bar, "blue") + Text("░" * (30 - len(bar)), "dim")
        )
    console.print(made)
    console.print(
        f"The data set has {format_exact(balances[0].left)} of "
        f"{format_exact(balances[0].cap.epsilon)} left, for everyone."
    )


def files(console: Console, work: Work, releases: dict[str, Any], verified: VerifiedRelease) -> None:
    """The two files, what each promises, and what a check of the first found."""
    _title(console, "Two files leave, each with a manifest, and a report for you")
    for method in (ANONYMOUS, PRIVATE):
        told = releases[method]
        console.print(Text(str(work.folder / told["file"]), "bold") + Text(f"   {number(told['rows'])} rows"))
        console.print(Padding(Text(told["promise"]), (0, 0, 0, 2), expand=False))
    console.print(Text("Checked from the file alone: ", "bold") + Text(verified.words.split(", and even")[0] + "."))


def audits(console: Console, audited: Iterable[Audited]) -> list[Audited]:
    """What was found."""
    _title(console, f"An audit: {DRAWS:,} answers of each of two neighbours, epsilon 1 claimed")
    told = []
    for one in audited:
        told.append(one)
        sentence = one.audit.sentence().split(" Seen ")[0]
        found = Text(sentence, "red" if one.audit.violated else "green")
        console.print(Text(f"{one.title}: ", "bold") + found)
    return told


def ending(console: Console, written: Path, commands: Iterable[tuple[str, str]]) -> None:
    """Where the page is, and what to try."""
    _title(console, "What next")
    console.print(Text("Open it in a browser: ") + Text(str(written), "bold"))
    for words, command in commands:
        console.print(words)
        console.print(Text(f"  {command}", "cyan"), soft_wrap=True)


def _title(console: Console, words: str) -> None:
    console.print()
    console.print(Text(words, "bold"))
