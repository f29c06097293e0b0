"""What the demo's page says: every section from what was asked, published and audited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from demo import page, pictures
from demo.auditing import DRAWS, Audited
from demo.files import ANONYMOUS, COLUMNS, PRIVATE, one_group, smoking
from demo.questions import ANALYST, Refusal, Step, Told
from demo.registry import PUBLIC, Row, Work, read
from demo.words import answer_of, between_of, exact_of, number, price_of
from demo.workings import WORKINGS
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
class Seen:
    """All that the demo did."""

    work: Work
    rows: list[Row]
    told: Sequence[Told]
    refusals: Sequence[Refusal]
    steps: Sequence[Step]
    balances: Sequence[Balance]
    releases: dict[str, Any]
    verified: VerifiedRelease
    audits: Sequence[Audited]
    commands: Sequence[tuple[str, str]]
    place: str
    """Where the folder is, as the page links to it."""


def whole(seen: Seen) -> Iterator[str]:
    """Every section in its order."""
    yield _registry(seen)
    yield _questions(seen)
    yield from _pictured(seen)
    yield _budget(seen)
    yield _files(seen)
    yield _audits(seen)
    yield page.part("How it works", "Five pictures, computed just now by the code that answers questions.")
    for working in (make() for make in WORKINGS):
        drawn = page.figure(working.picture, working.title, "square" if working.square else "")
        yield page.section(working.title, page.paragraph(working.words), drawn)
    yield _promised()
    yield _next(seen)


def _registry(seen: Seen) -> str:
    left = seen.balances[0]
    facts = {
        "patients, all made up": f"{seen.work.patients:,}",
        "columns that may be asked about": "11",
        "epsilon for everyone together, for ever": format_exact(left.cap.epsilon),
        f"epsilon for {ANALYST}": format_exact(seen.balances[-1].cap.epsilon),
    }
    words = (
        "A registry of hospital patients, made up by a script: the same on every machine, and nobody in it exists. "
        "Some values are missing and a few are wrong, as in real files. The schema says what is public: names, bounds "
        "and categories of columns, and two taxonomies. Analysts may read the schema. No analyst sees a row."
    )
    names = {"the rows (the custodian's alone)": "registry.csv", "the schema": PUBLIC[0]}
    names |= {"occupations": PUBLIC[1], "diagnoses": PUBLIC[2]}
    files = {name: f"{seen.place}/{file}" for name, file in names.items()}
    return page.section("A registry", page.facts(facts), page.paragraph(words), page.links(files))


def _questions(seen: Seen) -> str:
    words = (
        f"An analyst, {ANALYST}, asks in SQL. Every answer is drawn at random, as its epsilon asks for: a small "
        "epsilon costs little and says little. She is told where the exact number lies in 95 of 100 cases. The last "
        "column is the truth. No analyst sees it; here you are the custodian too."
    )
    heads = ("question", "answer", "95 % between", "cost", "truth")
    lines = [(_asked(one), answer_of(one), between_of(one), price_of(one), exact_of(one)) for one in seen.told]
    return page.section("Questions, answers, and what they cost", page.paragraph(words), _table(heads, lines))


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return page.table(heads, lines, numbers=heads[1:])


def _asked(told: Told) -> str:
    prior = f"She knew: {told.question.prior}" if told.question.prior else ""
    return page.asked(told.question.title, told.question.sql, prior)


def _pictured(seen: Seen) -> Iterator[str]:
    """The answers that a picture tells best."""
    _, count, _, mean, _, groups, person = seen.told
    words = (
        "The same noisy count, read by someone who had an idea of it before she asked. Grey is what she believed, "
        "dashed what the noise leaves open, blue what she knows now. The law of the noise is public, so this is Bayes' "
        f"rule and costs nothing. The truth is {number(count.exact)}."
    )
    yield _answer("What you know makes a count better", words, count)
    words = (
        "A mean over a filter is a noisy sum over a noisy count. With what she knows the planner chose the mechanism "
        "with the least expected error. A wrong idea pulls what she knows, until the answer lies so far out that "
        "the heavy tail, which is a tenth of it, lets it go. "
        f"The truth is {number(mean.exact)}."
    )
    yield _answer("A mean, and what it means to you", words, mean)
    yield _groups(groups)
    words = (
        "The custodian of this registry allows questions about one person. The answer is a draw from what she "
        "believed, moved a little towards the truth: whatever the truth is, she cannot learn more than epsilon allows. "
        "Of somebody who is not in the registry she is told a draw from what she believed. "
        f"The truth is {exact_of(person)}."
    )
    yield _answer("One person", words, person)


def _answer(title: str, words: str, told: Told) -> str:
    spec = told.answer.picture_spec()
    drawn = "" if spec is None else page.figure(pictures.of_answer(spec), title)
    warned = "" if told.answer.warning is None else page.quoted(f"Warning: {told.answer.warning}.", "refused")
    said = page.quoted(told.answer.meaning) if told.answer.meaning else ""
    return page.section(title, page.code(told.question.sql), page.paragraph(words), drawn, said, warned)


def _groups(told: Told) -> str:
    name, count = told.answer.columns[0], told.answer.numbers[0]
    rows = [
        {"group": row[name], "answer": row[count], "low": span[count][0], "high": span[count][1]}
        | {"truth": told.exact[str(row[name])]}
        for row, span in zip(told.answer.rows, told.answer.intervals(0.95), strict=True)
        if row[name] is not None and span[count] is not None
    ]
    words = (
        f"One question, {len(rows)} hospitals and those without one, one price: each person is in one group only. Dots "
        "are the answers, bars "
        "where the exact numbers lie in 95 of 100 cases, and the orange marks, which no analyst sees, those numbers."
    )
    drawn = page.figure(pictures.intervals(rows, "smokers"), "smokers in every hospital")
    return page.section("Groups", page.code(told.question.sql), page.paragraph(words), drawn)


def _budget(seen: Seen) -> str:
    cap = seen.balances[-1].cap.epsilon
    words = (
        f"Epsilon adds up. {ANALYST} has {format_exact(cap)} of it, for ever, and every question takes its part "
        "before a row "
        "is read. The same question again is answered from the ledger, for nothing: asking often does not wear the "
        "noise away. The mean with a prior is another question here: the planner took another noise for it, and it "
        "was charged again."
    )
    drawn = page.figure(pictures.account(*_account(seen, cap)), f"what {ANALYST} has left after every question")
    lines = [
        (str(n), step.sql, format_exact(step.cost), format_exact(step.left))
        for n, step in enumerate(seen.steps, start=1)
    ]
    heads = ("", "question, as the ledger has it", "cost", "left")
    table = page.table(heads, lines, numbers=("cost", "left"))
    refused = [
        page.code(f"{one.sql}      -- epsilon {format_exact(one.epsilon)}")
        + page.quoted(f"Refused: {one.words}.", "refused")
        for one in seen.refusals
    ]
    said = page.paragraph("Two questions are refused, and cost nothing. The words are the product's own.")
    return page.section("The budget goes down", page.paragraph(words), drawn, table, page.heading("No"), said, *refused)


def _account(seen: Seen, cap: Fraction) -> tuple[list[dict[str, Any]], float]:
    """The bars of the account, and how high they may stand."""
    rows: list[dict[str, Any]] = [
        {"name": "start", "left": float(cap), "before": float(cap), "told": format_exact(cap)}
    ]
    for at, step in enumerate(seen.steps, start=1):
        told = {"left": float(step.left), "before": float(step.left + step.cost), "told": format_exact(step.left)}
        rows.append({"name": str(at)} | told)
    over = next((one for one in seen.refusals if one.over), None)
    made = [row | {"refused": False, "top": row["before"]} for row in rows]
    if over is not None:
        asked = float(over.epsilon)
        made.append({"name": "refused", "left": asked, "top": asked, "told": f"asks {asked:g}", "refused": True})
    return made, 1.12 * float(cap)


def _files(seen: Seen) -> str:
    words = (
        "Where a table itself must leave, there are two kinds of files, and each says in a manifest beside it what it "
        "promises. The 10-anonymous one is the weaker: it holds against who knows the four columns and no more, and it "
        "does not add up. The reports compare them with the original, and are for the custodian alone."
    )
    both = [(method, seen.releases[method]) for method in (ANONYMOUS, PRIVATE)]
    titles = {ANONYMOUS: "10-anonymous", PRIVATE: "Private, by epsilon 1"}
    cards = [_file(titles[method], release, seen) for method, release in both]
    lines = {
        "the original": smoking(seen.rows),
        "10-anonymous": smoking(read(seen.work.folder / seen.releases[ANONYMOUS]["file"])),
        "private": smoking(read(seen.work.folder / seen.releases[PRIVATE]["file"])),
    }
    drawn = page.figure(pictures.lines(lines, "age", "smokers"), "smokers by age in the original and in both files")
    asked = page.paragraph("One analysis, made on all three: how many smoke at what age.")
    return page.section("Two files", page.paragraph(words), page.side_by_side(*cards), asked, drawn, *_alike(seen))


def _file(title: str, release: dict[str, Any], seen: Seen) -> str:
    files = {"the file": release["file"], "its manifest": release["manifest"], "the report": release["report"]}
    links = page.links({name: f"{seen.place}/{file}" for name, file in files.items()})
    judged = "" if release["risk"] is None else page.paragraph(release["risk"], "soft")
    useful = "" if release["utility"] is None else page.paragraph(release["utility"], "soft")
    return page.heading(title) + page.quoted(release["promise"]) + links + judged + useful


def _alike(seen: Seen) -> Iterator[str]:
    """Some people of one group, and what the claim's own check found."""
    yield page.paragraph(
        "Five people of one group of the 10-anonymous file. What an intruder may know of them (the first four columns) "
        "is the same, so that it leads to all ten; what is confidential is as it was, and that is why this is not "
        "differential privacy: where all ten had the same diagnosis, it would be told."
    )
    alike = one_group(seen.work.folder / seen.releases[ANONYMOUS]["file"], 5)
    yield page.table(SHOWN, [[row[name] or "missing" for name in SHOWN] for row in alike])
    yield page.paragraph("Anybody who has the file can check the claim, from the file alone: discreet verify.")
    yield page.quoted(seen.verified.words)
    columns = ", ".join(COLUMNS)
    yield page.paragraph(
        f"The private file has the columns {columns}. No row of it is copied: rows are drawn from noisy tables. Its "
        "epsilon was paid from the same ledger as every answer. The 10-anonymous file is outside that account, and "
        "every total of the data set says so from now on:"
    )
    yield from map(page.quoted, seen.balances[0].flags)


def _audits(seen: Seen) -> str:
    words = (
        f"An audit takes {DRAWS:,} answers from each of two tables that differ in one person, and looks for an event "
        "that one of them makes likelier than epsilon allows. It can find a fault; it never proves that there is none. "
        "Here it looks at a mechanism of ours, and at two that are broken on purpose. All claim epsilon 1."
    )
    cards = [
        page.heading(one.title) + page.paragraph(one.words) + page.quoted(one.audit.sentence(), _kind(one))
        for one in seen.audits
    ]
    halved = next(one for one in seen.audits if one.title == "Half the noise")
    laws = {name: DiscreteLaplace(epsilon, 1) for name, epsilon in (("claimed", 1), ("drawn", 2))}
    both = {name: {k: law.probability(k) for k in range(-6, 7)} for name, law in laws.items()}
    drawn = page.figure(pictures.compared(both, "noise"), "the noise that was claimed, and the noise that was drawn")
    shown_what = page.paragraph(f"Half the noise: what was claimed, and what was drawn. {halved.audit.event}.", "soft")
    return page.section("An audit", page.paragraph(words), *cards, drawn, shown_what)


def _kind(one: Audited) -> str:
    return "refused" if one.audit.violated else ""


def _promised() -> str:
    does = (
        "An answer with epsilon: whatever you were told, it would have been at most e^epsilon times as likely had one "
        "person's record been another. That holds whoever asks, whatever they know, and for all answers together with "
        "the sum of their epsilons.",
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
    yes = page.heading("It does") + page.listed(does)
    no = page.heading("It does not") + page.listed(does_not)
    return page.section("What is promised", page.side_by_side(yes, no))


def _next(seen: Seen) -> str:
    told = [page.paragraph(words) + page.code(command) for words, command in seen.commands]
    return page.section("What to try next", *told)
