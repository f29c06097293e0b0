"""What the demo's page says: every section from what was asked, published and audited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from demo import page, pictures
from demo.answer_texts import format_answer, format_figure, format_interval, format_price, format_truth
from demo.auditing import DRAWS, NamedAudit
from demo.explanations import EXPLANATIONS
from demo.files import ANONYMOUS, COLUMNS, PRIVATE, compute_smoking_shares, find_one_group
from demo.questions import ANALYST, AnsweredQuestion, Refusal, Step
from demo.registry import PUBLIC, Row, Work, read_rows
from discreet import DiscreteLaplace
from discreet.ledger import Balance
from discreet.numeric import format_exact
from discreet.release.assess import VerifiedRelease

LEAD = (
    "Learn from records about people without learning about any one person. This page was written by make demo, on "
    "your machine, from what it asked, published and audited here."
)
SHOWN = ("age", "sex", "education", "occupation", "diagnosis", "smoker")


@dataclass(frozen=True)
class DemoResults:
    """All that the demo did."""

    work: Work
    rows: list[Row]
    answers: Sequence[AnsweredQuestion]
    refusals: Sequence[Refusal]
    steps: Sequence[Step]
    balances: Sequence[Balance]
    releases: dict[str, Any]
    verified: VerifiedRelease
    audits: Sequence[NamedAudit]
    commands: Sequence[tuple[str, str]]
    place: str
    """Where the folder is, as the page links to it."""


def format_sections(results: DemoResults) -> Iterator[str]:
    """Every section in its order."""
    yield _format_registry(results)
    yield _format_questions(results)
    yield from _format_pictures(results)
    yield _format_budget(results)
    yield _format_files(results)
    yield _format_audits(results)
    yield page.format_part("How it works", "Five pictures, computed just now by the code that answers questions.")
    for working in (make() for make in EXPLANATIONS):
        figure = page.format_figure(working.picture, working.title, "square" if working.square else "")
        yield page.format_section(working.title, page.format_paragraph(working.words), figure)
    yield _format_promises()
    yield _format_next(results)


def _format_registry(results: DemoResults) -> str:
    left = results.balances[0]
    facts = {
        "patients, all made up": f"{results.work.patients:,}",
        "columns that may be asked about": "11",
        "epsilon for everyone together, for ever": format_exact(left.cap.epsilon),
        f"epsilon for {ANALYST}": format_exact(results.balances[-1].cap.epsilon),
    }
    words = (
        "A registry of hospital patients, made up by a script: the same on every machine, and nobody in it exists. "
        "Some values are missing and a few are wrong, as in real files. The schema says what is public: names, bounds "
        "and categories of columns, and two taxonomies. Analysts may read the schema. No analyst sees a row."
    )
    names = {"the rows (the custodian's alone)": "registry.csv", "the schema": PUBLIC[0]}
    names |= {"occupations": PUBLIC[1], "diagnoses": PUBLIC[2]}
    files = {name: f"{results.place}/{file}" for name, file in names.items()}
    return page.format_section(
        "A registry", page.format_facts(facts), page.format_paragraph(words), page.format_links(files)
    )


def _format_questions(results: DemoResults) -> str:
    words = (
        f"An analyst, {ANALYST}, asks in SQL. Every answer is drawn at random, as its epsilon asks for: a small "
        "epsilon costs little and says little. The answer comes with a 95 % confidence interval. The last "
        "column is the truth. No analyst sees it; here you are the custodian too."
    )
    heads = ("question", "answer", "95 % between", "cost", "truth")
    lines = [
        (_format_question(one), format_answer(one), format_interval(one), format_price(one), format_truth(one))
        for one in results.answers
    ]
    return page.format_section(
        "Questions, answers, and what they cost", page.format_paragraph(words), _format_table(heads, lines)
    )


def _format_table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return page.format_table(heads, lines, numbers=heads[1:])


def _format_question(answered: AnsweredQuestion) -> str:
    prior = f"She knew: {answered.question.prior}" if answered.question.prior else ""
    return page.format_question(answered.question.title, answered.question.sql, prior)


def _format_pictures(results: DemoResults) -> Iterator[str]:
    """The answers that a picture tells best."""
    _, count, _, mean, _, groups, person = results.answers
    words = (
        "The same noisy count, read by someone who had an idea of it before she asked. Grey is what she believed, "
        "dashed what the noise leaves open, blue what she knows now. The law of the noise is public, so this is Bayes' "
        f"rule and costs nothing. The truth is {format_figure(count.exact)}."
    )
    yield _format_answer("What you know makes a count better", words, count)
    words = (
        "A mean over a filter is a noisy sum over a noisy count. With what she knows the planner chose the mechanism "
        "with the least expected error. A wrong idea pulls what she knows, until the answer lies so far out that "
        "the heavy tail, which is a tenth of it, lets it go. "
        f"The truth is {format_figure(mean.exact)}."
    )
    yield _format_answer("A mean, and what it means to you", words, mean)
    yield _format_groups(groups)
    words = (
        "The custodian of this registry allows questions about one person. The answer is a draw from what she "
        "believed, moved a little towards the truth: whatever the truth is, she cannot learn more than epsilon allows. "
        "About a person who is not in the registry the answer is a draw from what she believed. "
        f"The truth is {format_truth(person)}."
    )
    yield _format_answer("One person", words, person)


def _format_answer(title: str, words: str, answered: AnsweredQuestion) -> str:
    spec = answered.answer.picture_spec()
    figure = "" if spec is None else page.format_figure(pictures.draw_answer(spec), title)
    warning_quote = (
        "" if answered.answer.warning is None else page.format_quote(f"Warning: {answered.answer.warning}.", "refused")
    )
    meaning = page.format_quote(answered.answer.meaning) if answered.answer.meaning else ""
    return page.format_section(
        title, page.format_code(answered.question.sql), page.format_paragraph(words), figure, meaning, warning_quote
    )


def _format_groups(answered: AnsweredQuestion) -> str:
    name, count = answered.answer.columns[0], answered.answer.numbers[0]
    rows = [
        {"group": row[name], "answer": row[count], "low": span[count][0], "high": span[count][1]}
        | {"truth": answered.exact[str(row[name])]}
        for row, span in zip(answered.answer.rows, answered.answer.intervals(0.95), strict=True)
        if row[name] is not None and span[count] is not None
    ]
    words = (
        f"One question, {len(rows)} hospitals and those without one, one price: each person is in one group only. Dots "
        "are the answers, bars "
        "where the exact numbers lie in 95 of 100 cases, and the orange marks, which no analyst sees, those numbers."
    )
    figure = page.format_figure(pictures.draw_intervals(rows, "smokers"), "smokers in every hospital")
    return page.format_section("Groups", page.format_code(answered.question.sql), page.format_paragraph(words), figure)


def _format_budget(results: DemoResults) -> str:
    cap = results.balances[-1].cap.epsilon
    words = (
        f"Epsilon adds up. {ANALYST} has {format_exact(cap)} of it, for ever, and every question takes its part "
        "before a row "
        "is read. The same question again is answered from the ledger, at no cost: asking often does not wear the "
        "noise away. The mean with a prior is another question here: the planner took another noise for it, and it "
        "was charged again."
    )
    figure = page.format_figure(
        pictures.draw_account(*_list_account_bars(results, cap)), f"what {ANALYST} has left after every question"
    )
    lines = [
        (str(n), step.sql, format_exact(step.cost), format_exact(step.left))
        for n, step in enumerate(results.steps, start=1)
    ]
    heads = ("", "question, as the ledger has it", "cost", "left")
    table = page.format_table(heads, lines, numbers=("cost", "left"))
    refused = [
        page.format_code(f"{one.sql}      -- epsilon {format_exact(one.epsilon)}")
        + page.format_quote(f"Refused: {one.words}.", "refused")
        for one in results.refusals
    ]
    meaning = page.format_paragraph("Two questions are refused, and cost nothing. The words are the product's own.")
    return page.format_section(
        "The budget goes down",
        page.format_paragraph(words),
        figure,
        table,
        page.format_heading("No"),
        meaning,
        *refused,
    )


def _list_account_bars(results: DemoResults, cap: Fraction) -> tuple[list[dict[str, Any]], float]:
    """The bars of the account, and how high they may stand."""
    rows: list[dict[str, Any]] = [
        {"name": "start", "left": float(cap), "before": float(cap), "told": format_exact(cap)}
    ]
    for number, step in enumerate(results.steps, start=1):
        heights = {"left": float(step.left), "before": float(step.left + step.cost), "told": format_exact(step.left)}
        rows.append({"name": str(number)} | heights)
    over = next((one for one in results.refusals if one.over), None)
    bars = [row | {"refused": False, "top": row["before"]} for row in rows]
    if over is not None:
        asked = float(over.epsilon)
        bars.append({"name": "refused", "left": asked, "top": asked, "told": f"asks {asked:g}", "refused": True})
    return bars, 1.12 * float(cap)


def _format_files(results: DemoResults) -> str:
    words = (
        "Where a table itself must leave, there are two kinds of files, and each says in a manifest beside it what it "
        "promises. The 10-anonymous one is the weaker: it holds against who knows the four columns and no more, and it "
        "does not add up. The reports compare them with the original, and are for the custodian alone."
    )
    both = [(method, results.releases[method]) for method in (ANONYMOUS, PRIVATE)]
    titles = {ANONYMOUS: "10-anonymous", PRIVATE: "Private, by epsilon 1"}
    cards = [_format_file(titles[method], release, results) for method, release in both]
    lines = {
        "the original": compute_smoking_shares(results.rows),
        "10-anonymous": compute_smoking_shares(read_rows(results.work.folder / results.releases[ANONYMOUS]["file"])),
        "private": compute_smoking_shares(read_rows(results.work.folder / results.releases[PRIVATE]["file"])),
    }
    figure = page.format_figure(
        pictures.draw_lines(lines, "age", "smokers"), "smokers by age in the original and in both files"
    )
    asked = page.format_paragraph("One analysis, made on all three: how many smoke at what age.")
    return page.format_section(
        "Two files",
        page.format_paragraph(words),
        page.format_side_by_side(*cards),
        asked,
        figure,
        *_format_alike(results),
    )


def _format_file(title: str, release: dict[str, Any], results: DemoResults) -> str:
    files = {"the file": release["file"], "its manifest": release["manifest"], "the report": release["report"]}
    links = page.format_links({name: f"{results.place}/{file}" for name, file in files.items()})
    risk = "" if release["risk"] is None else page.format_paragraph(release["risk"], "soft")
    utility = "" if release["utility"] is None else page.format_paragraph(release["utility"], "soft")
    return page.format_heading(title) + page.format_quote(release["promise"]) + links + risk + utility


def _format_alike(results: DemoResults) -> Iterator[str]:
    """Some people of one group, and what the claim's own check found."""
    yield page.format_paragraph(
        "Five people of one group of the 10-anonymous file. What an intruder may know of them (the first four columns) "
        "is the same, so that it leads to all ten; what is confidential is as it was, and that is why this is not "
        "differential privacy: where all ten had the same diagnosis, it would be told."
    )
    rows = find_one_group(results.work.folder / results.releases[ANONYMOUS]["file"], 5)
    yield page.format_table(SHOWN, [[row[name] or "missing" for name in SHOWN] for row in rows])
    yield page.format_paragraph("Anybody who has the file can check the claim, from the file alone: discreet verify.")
    yield page.format_quote(results.verified.words)
    columns = ", ".join(COLUMNS)
    yield page.format_paragraph(
        f"The private file has the columns {columns}. No row of it is copied: rows are drawn from noisy tables. Its "
        "epsilon was paid from the same ledger as every answer. The 10-anonymous file is outside that account, and "
        "every total of the data set says so from now on:"
    )
    yield from map(page.format_quote, results.balances[0].flags)


def _format_audits(results: DemoResults) -> str:
    words = (
        f"An audit takes {DRAWS:,} answers from each of two tables that differ in one person, and looks for an event "
        "that one of them makes likelier than epsilon allows. It can find a fault; it never proves that there is none. "
        "Here it looks at a mechanism of ours, and at two that are broken on purpose. All claim epsilon 1."
    )
    cards = [
        page.format_heading(one.title)
        + page.format_paragraph(one.words)
        + page.format_quote(one.audit.sentence(), _kind(one))
        for one in results.audits
    ]
    halved = next(one for one in results.audits if one.title == "Half the noise")
    laws = {name: DiscreteLaplace(epsilon, 1) for name, epsilon in (("claimed", 1), ("drawn", 2))}
    both = {name: {k: law.probability(k) for k in range(-6, 7)} for name, law in laws.items()}
    figure = page.format_figure(
        pictures.draw_comparison(both, "noise"), "the noise that was claimed, and the noise that was drawn"
    )
    shown_what = page.format_paragraph(
        f"Half the noise: what was claimed, and what was drawn. {halved.audit.event}.", "soft"
    )
    return page.format_section("An audit", page.format_paragraph(words), *cards, figure, shown_what)


def _kind(one: NamedAudit) -> str:
    return "refused" if one.audit.violated else ""


def _format_promises() -> str:
    does = (
        "An answer with epsilon: whatever you were told, it would have been at most e^epsilon times as likely had one "
        "person's record been another. That holds for every analyst, whatever they know, and for all answers together "
        "with the sum of their epsilons.",
        "The ledger is written before a row is read. No crash, race or collusion of analysts overdraws it.",
        "Whether a question is refused depends on the question, the schema and the ledger, and never on a row.",
    )
    does_not = (
        "That an answer is near the truth: it says how far off it may be, 95 of 100 times.",
        "That nothing can be learnt about groups: smoking harms, whether or not you are in the table.",
        "That a 10-anonymous file is differential privacy. It is not, and from then on every total of the data set "
        "says so.",
        "Anything against someone who holds the custodian's machine or files.",
    )
    yes = page.format_heading("It does") + page.format_list(does)
    no = page.format_heading("It does not") + page.format_list(does_not)
    return page.format_section("What is promised", page.format_side_by_side(yes, no))


def _format_next(results: DemoResults) -> str:
    items = [page.format_paragraph(words) + page.format_code(command) for words, command in results.commands]
    return page.format_section("What to try next", *items)
