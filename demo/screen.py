"""What the demo says on the screen: short, and readable at 80 characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from demo.answer_texts import format_answer, format_figure, format_interval, format_truth
from demo.auditing import DRAWS, NamedAudit
from demo.files import ANONYMOUS, PRIVATE
from demo.questions import ANALYST, AnsweredQuestion, Refusal, Step
from demo.registry import NEW, Work
from discreet.ledger import Balance
from discreet.numeric import format_exact
from discreet.release.assess import VerifiedRelease

LINE = "  {:<14}{:<20}{:<20}{}"
"""Answer, interval, cost and truth."""


def show_registry(console: Console, work: Work) -> None:
    """Where the rows are, and whether they were there already."""
    _print_title(console, "A registry")
    console.print(f"{work.patients:,} made-up patients, in {work.folder}")
    if work.is_complete:
        console.print("Found again: earlier questions are answered from its ledger, at no cost.")
    elif work.why != NEW:
        console.print(f"Made anew: {work.why}.")


def show_questions(console: Console, questions: Iterable[AnsweredQuestion]) -> list[AnsweredQuestion]:
    """Every question as it is answered."""
    _print_title(console, f"{ANALYST} asks: without and with what she knows already")
    console.print(Text(LINE.format("answer", "95 % between", "cost", "truth").rstrip(), "dim"))
    answers: list[AnsweredQuestion] = []
    for one in questions:
        if not answers or answers[-1].question.sql != one.question.sql:
            console.print(Text(one.question.sql, "cyan"))
        if one.question.prior:
            console.print(Text(f"  knowing {one.question.prior}:", "dim"))
        truth = format_truth(one) if one.answer.single else ""
        console.print(LINE.format(format_answer(one), format_interval(one), _format_cost(one), truth).rstrip())
        answers.append(one)
    console.print(Text("The truth is for you, who are the custodian here too: no analyst sees it.", "dim"))
    return answers


def _format_cost(one: AnsweredQuestion) -> str:
    """What it cost now, and what it cost before."""
    if one.cost_paid:
        return format_exact(one.cost_paid)
    return f"0 (before: {format_exact(one.price)})" if one.price else "0 (the same draw)"


def show_refusals(console: Console, refused: Iterable[Refusal]) -> list[Refusal]:
    """What was not answered, in the product's own words."""
    _print_title(console, "Two refusals, which cost nothing")
    refusals = []
    for one in refused:
        refusals.append(one)
        console.print(Text(one.sql, "cyan") + Text(f"   epsilon {format_exact(one.epsilon)}", "dim"))
        console.print(Padding(Text(one.words, "red"), (0, 0, 0, 2), expand=False))
    return refusals


def show_account(console: Console, steps: Sequence[Step], balances: Sequence[Balance]) -> None:
    """The budget going down."""
    cap = balances[-1].cap.epsilon
    _print_title(console, f"The budget of {ANALYST}: epsilon {format_exact(cap)}")
    budget_table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("cost", "left", ""):
        budget_table.add_column(name, justify="right" if name else "left")
    for step in steps:
        bar = "█" * round(30 * step.left / cap)
        budget_table.add_row(
            format_exact(step.cost), format_exact(step.left), Text(bar, "blue") + Text("░" * (30 - len(bar)), "dim")
        )
    console.print(budget_table)
    console.print(
        f"The data set has {format_exact(balances[0].left)} of "
        f"{format_exact(balances[0].cap.epsilon)} left, for everyone."
    )


def show_files(console: Console, work: Work, releases: dict[str, Any], verified: VerifiedRelease) -> None:
    """The two files, what each promises, and what a check of the first found."""
    _print_title(console, "Two files leave, each with a manifest, and a report for you")
    for method in (ANONYMOUS, PRIVATE):
        release = releases[method]
        console.print(
            Text(str(work.folder / release["file"]), "bold") + Text(f"   {format_figure(release['rows'])} rows")
        )
        console.print(Padding(Text(release["promise"]), (0, 0, 0, 2), expand=False))
    console.print(Text("Checked from the file alone: ", "bold") + Text(verified.words.split(", and even")[0] + "."))


def show_audits(console: Console, audits: Iterable[NamedAudit]) -> list[NamedAudit]:
    """What was found."""
    _print_title(console, f"An audit: {DRAWS:,} answers of each of two neighbours, epsilon 1 claimed")
    audits_shown = []
    for one in audits:
        audits_shown.append(one)
        sentence = one.audit.sentence().split(" Seen ")[0]
        verdict = Text(sentence, "red" if one.audit.violated else "green")
        console.print(Text(f"{one.title}: ", "bold") + verdict)
    return audits_shown


def show_ending(console: Console, written: Path, commands: Iterable[tuple[str, str]]) -> None:
    """Where the page is, and what to try."""
    _print_title(console, "What next")
    console.print(Text("Open it in a browser: ") + Text(str(written), "bold"))
    for words, command in commands:
        console.print(words)
        console.print(Text(f"  {command}", "cyan"), soft_wrap=True)


def _print_title(console: Console, words: str) -> None:
    console.print()
    console.print(Text(words, "bold"))
