"""`discreet ask`, `preview`, `budget` and `history`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli import terminal
from discreet.cli.terminal import (
    Delta,
    Json,
    LedgerOption,
    Model,
    SchemaFile,
    build_bar,
    build_table,
    build_text,
    build_warning,
    format_owner,
)
from discreet.errors import InvalidInput
from discreet.formatting import VALUE_DIGITS, format_budget_left, format_cost, format_upper
from discreet.numeric import parse_rational

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from discreet.answers.answer import Answer
    from discreet.ledger import Balance, Entry
    from discreet.planner.options import QueryOptions
    from discreet.schema import Schema


MAX_QUESTION_BYTES = 1_000_000
"""The most that is read from standard input; a question may have far fewer characters."""
Question = Annotated[
    str, typer.Argument(metavar="QUESTION", help="SQL, or - to read it from standard input.", show_default=False)
]
Epsilon = Annotated[
    str | None,
    typer.Option(
        metavar="E",
        help="Privacy budget for this answer, such as 0.1. It is never exceeded, but with --reuse any.",
        show_default=False,
    ),
]
Accuracy = Annotated[
    str | None, typer.Option(metavar="A", help="How near it should be, such as '±50 at 95%', instead of an epsilon.")
]
NoiseScale = Annotated[
    str | None,
    typer.Option(metavar="S", help="The scale of Laplace noise instead of an epsilon; the sd with --model approx-dp."),
]
Prior = Annotated[
    str | None,
    typer.Option(
        metavar="P",
        help="What you know already, such as 'normal(38, 6) on [17, 90]', or '{\"true\": 1, \"false\": 99}'.",
    ),
]
DistanceName = Annotated[
    str | None,
    typer.Option(
        "--distance", metavar="D", help="Refine the prior by this distance: continuous, nominal, ordinal, semantic."
    ),
]
Interval = Annotated[
    bool, typer.Option("--interval", help="Spend half of epsilon on two values around a quantile or median.")
]
Tail = Annotated[
    bool | None,
    typer.Option(
        "--tail/--no-tail",
        help="Give a tenth of the prior's weight to a heavy (Cauchy) tail, or none. Default: a tail, unless the answer "
        "is drawn from a prior with ends.",
        show_default=False,
    ),
]
Rows = Annotated[
    str | None,
    typer.Option(metavar="N", help="Fewest rows you expect to be selected; states the accuracy of a mean for it."),
]
Reuse = Annotated[
    str | None,
    typer.Option(
        metavar="any",
        help="Take another analyst's stored answer also if it costs more than --epsilon. Default: add noise to it, or "
        "draw anew.",
        show_default=False,
    ),
]
Constraints = Annotated[
    list[str] | None,
    typer.Option(
        "--constraint",
        metavar="C",
        help="What you know to be true of a count's rows, such as 'total = 1000', 'each <= 50', 'rising'; repeatable.",
    ),
]
WithPopulation = Annotated[
    bool,
    typer.Option("--population", help="Tell counts, means and proportions for the population of a random sample too."),
]
PopulationSize = Annotated[
    str | None, typer.Option(metavar="N", help="The same, for a population of so many units; where theirs is public.")
]
Mechanism = Annotated[str | None, typer.Option(metavar="M", help="The mechanism, by its name in a preview.")]
Analyst = Annotated[str, typer.Option(metavar="A", help="Who asks.")]
OneAnalyst = Annotated[str | None, typer.Option(metavar="A", help="One analyst.")]
Key = Annotated[
    str | None, typer.Option(metavar="K", help="A name for this request: a retry with it never pays twice.")
]
Wait = Annotated[
    float, typer.Option(metavar="SECONDS", help="How long to wait for a ledger that others hold.", min=0.1)
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Pay for a new draw even if an answer is stored.")]
Plot = Annotated[
    str | None, typer.Option(metavar="FILE", help="Draw prior, noise and posterior into a .svg, .png or .html file.")
]
Ranges = Annotated[
    list[str] | None,
    typer.Option("--range", metavar="A..B", help="Count a range of a HISTOGRAM too, such as 20000..30000; it is free."),
]
Tight = Annotated[bool, typer.Option("--tight", help="Add a tighter total for approx-dp, for display alone.")]
Limit = Annotated[int, typer.Option(min=1, metavar="N", help="How many entries at most, the latest first.")]


def run_ask(
    schema: SchemaFile,
    question: Question,
    epsilon: Epsilon = None,
    delta: Delta = None,
    prior: Prior = None,
    distance: DistanceName = None,
    accuracy: Accuracy = None,
    noise_scale: NoiseScale = None,
    interval: Interval = False,
    rows: Rows = None,
    tail: Tail = None,
    constraints: Constraints = None,
    plot: Plot = None,
    ranges: Ranges = None,
    population: WithPopulation = False,
    population_size: PopulationSize = None,
    analyst: Analyst = "analyst",
    ledger: LedgerOption = None,
    key: Key = None,
    model: Model = None,
    mechanism: Mechanism = None,
    fresh: Fresh = False,
    reuse: Reuse = None,
    wait: Wait = 10,
    json: Json = False,
) -> None:
    """Answer a question. The same question again is answered from what is stored, and free."""
    options = _parse_flags(locals())
    answer, balances = _answer_question(schema, _read_question(question), options, analyst, ledger, wait, plot)
    _print_answer(answer, balances, options, plot, json)


def _answer_question(
    schema: str, text: str, options: QueryOptions, analyst: str, ledger: str | None, wait: float, plot: str | None
) -> tuple[Answer, tuple[Balance, ...]]:
    """Open the data set and ask; whatever is refused is refused before anything is registered."""
    from discreet.charts import check_picture_path
    from discreet.custodian import Custodian
    from discreet.custodian.validation import find_max_epsilon, list_balances, validate_question

    def refuse_early(declared: Schema) -> None:
        max_epsilon = find_max_epsilon(options, list_balances(declared, analyst))
        validate_question(declared, text, options, max_epsilon=max_epsilon, plot=plot is not None)

    if plot is not None:
        check_picture_path(plot)
    with (
        terminal.show_stages() as progress,
        Custodian._open(schema, ledger, None, progress, wait, before_registering=refuse_early) as open_custodian,
    ):
        progress("answering")
        answer = open_custodian._charge_and_measure(text, options, analyst, plot is not None)()
        return answer, open_custodian.budget(analyst)


def _print_answer(
    answer: Answer, balances: tuple[Balance, ...], options: QueryOptions, plot: str | None, json: bool
) -> None:
    """Draw the picture, and print the answer with the ranges and the population that were asked for with it."""
    from discreet.cli.screens import render_answer
    from discreet.planner.options import parse_range

    picture_path = None if plot is None else answer.plot(plot)
    if json:
        from discreet.custodian.status import additions_to_json

        terminal.print_json(answer.to_json() | additions_to_json(answer, options))
        return
    range_estimates = [answer.range(*parse_range(ends)) for ends in options.ranges]
    estimates = answer.population(size=options.population_size) if options.wants_population else ()
    terminal.print_screen(*render_answer(answer, balances, picture_path, range_estimates, estimates))


def run_preview(
    schema: SchemaFile,
    question: Question,
    epsilon: Epsilon = None,
    delta: Delta = None,
    prior: Prior = None,
    distance: DistanceName = None,
    accuracy: Accuracy = None,
    noise_scale: NoiseScale = None,
    interval: Interval = False,
    rows: Rows = None,
    tail: Tail = None,
    analyst: Analyst = "analyst",
    ledger: LedgerOption = None,
    model: Model = None,
    mechanism: Mechanism = None,
    reuse: Reuse = None,
    json: Json = False,
) -> None:
    """Say what a question would cost and how good its answer would be. It reads no row and charges nothing."""
    options = _parse_flags(locals())
    from discreet.cli.screens import render_preview
    from discreet.custodian import preview_question, status
    from discreet.custodian.preview import NO_SNAPSHOT
    from discreet.datasets.integrity import find_current_snapshot
    from discreet.schema import load_schema

    text, declared = _read_question(question), load_schema(schema)
    snapshot = find_current_snapshot(declared)
    snapshot_name = NO_SNAPSHOT if snapshot is None else snapshot.name
    with status.open_own_ledger(declared, ledger) as open_ledger:
        preview = preview_question(declared, text, options, analyst, open_ledger, snapshot_name)
    if json:
        terminal.print_json(preview.to_json())
    else:
        terminal.print_screen(*render_preview(preview))


def _read_question(question: str) -> str:
    """Read a question, from standard input where it is -."""
    text = _read_standard_input() if question == "-" else question
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput("the question is not text in UTF-8; write it in UTF-8") from None
    return text


def _parse_flags(flags: Mapping[str, object]) -> QueryOptions:
    """Parse the options of a question from the flags of a command, which have their names."""
    from discreet.planner.options import NOISE_OPTIONS, OPTION_READERS, read_query_options

    if all(flags[name] is None for name in NOISE_OPTIONS):
        raise InvalidInput("say how much noise there may be: --epsilon 0.1 or --accuracy '±50 at 95%'; see --help")
    values = {name: flags[name] for name in OPTION_READERS if name in flags}
    numbers = {name: value for name, value in values.items() if isinstance(value, str) and OPTION_READERS[name].number}
    return read_query_options(values | {name: _parse_number_flag(name, text) for name, text in numbers.items()})


def _parse_number_flag(name: str, text: str) -> Fraction:
    from discreet.planner.options import OPTION_READERS

    reader, flag = OPTION_READERS[name], f"--{name.replace('_', '-')}"
    if reader.number == "exact":
        return parse_rational(text, reader.subject)
    count = parse_rational(text, flag)
    if count.denominator != 1:
        raise InvalidInput(f"{flag} is a whole number, such as 5000")
    return count


def _read_standard_input() -> str:
    content = sys.stdin.buffer.read(MAX_QUESTION_BYTES + 1)
    if len(content) > MAX_QUESTION_BYTES:
        raise InvalidInput(f"the question is longer than {MAX_QUESTION_BYTES} bytes; ask a shorter one")
    return content.decode(errors="surrogateescape")


def run_budget(
    schema: SchemaFile,
    analyst: OneAnalyst = None,
    ledger: LedgerOption = None,
    tight: Tight = False,
    json: Json = False,
) -> None:
    """Show what is spent and left in every model."""
    from discreet.custodian import status
    from discreet.schema import load_schema

    declared = load_schema(schema)
    balances = status.get_balances(declared, ledger, analyst)
    owners = dict.fromkeys(balance.analyst for balance in balances) if tight else {}
    tighter = {owner: status.compute_tighter_epsilon(declared, ledger, owner) for owner in owners}
    if json:
        documents = [balance.to_json() for balance in balances]
        for document, balance in zip(documents, balances, strict=True):
            if balance.model == "approx-dp" and balance.analyst in tighter:
                document["tighter_epsilon"] = tighter[balance.analyst]
        terminal.print_json(documents)
    else:
        terminal.print_screen(*_render_balances(balances, tighter))


def _render_balances(balances: Sequence[Balance], tighter: Mapping[str | None, float]) -> Iterator[RenderableType]:
    numbers = ("spent", "cap", "left")
    balance_table = build_table("whose", "model", *numbers, "", right=numbers)
    for balance in balances:
        cap, left = balance.cap.epsilon, balance.left
        spent = "no epsilon" if balance.epsilon is None else format_cost(balance.epsilon)
        amounts = (spent, format_cost(cap), format_budget_left(left))
        owner = build_text(format_owner(balance.analyst))
        balance_table.add_row(owner, balance.model, *amounts, build_bar(cap - left, cap))
    yield balance_table
    for analyst, epsilon in tighter.items():
        total = format_upper(epsilon, VALUE_DIGITS)
        yield f"A tighter total in approx-dp, for display alone: {total} for {format_owner(analyst)}"
    for balance in balances:
        yield build_text(f"{format_owner(balance.analyst)}, {balance.model}: {balance.promise}.")
    yield from map(build_warning, dict.fromkeys(flag for balance in balances for flag in balance.flags))


def run_history(
    schema: SchemaFile, analyst: OneAnalyst = None, limit: Limit = 20, ledger: LedgerOption = None, json: Json = False
) -> None:
    """Show what was asked, the latest first."""
    from discreet.custodian import status
    from discreet.schema import load_schema

    entries = status.list_history(load_schema(schema), ledger, analyst, limit)
    if json:
        terminal.print_json([entry.to_json() for entry in entries])
    elif entries:
        terminal.print_screen(_build_history_table(entries))
    else:
        terminal.print_screen("Nothing was asked yet.")


def _build_history_table(entries: list[Entry]) -> Table:
    history_table = build_table("entry", "at (UTC)", "who", "what", "cost", right=("entry",))
    for entry in entries:
        timestamp = entry.at.removesuffix("+00:00").replace("T", " ")
        query = f"snapshot {entry.snapshot} registered" if entry.query is None else entry.query
        cells = (entry.analyst or "the custodian", query, _format_entry_cost(entry))
        history_table.add_row(str(entry.entry), timestamp, *map(build_text, cells))
    return history_table


def _format_entry_cost(entry: Entry) -> str:
    if entry.epsilon is None:
        return "outside the account" if entry.kind == "release" else ""
    model = "" if entry.model == "dp" else f" {entry.model}"
    part = "" if entry.part is None else f" in {entry.part.kind} {entry.part.name}"
    if entry.kind != "reuse":
        degraded = ", a stored answer with noise added" if entry.kind == "degrade" else ""
        return f"{format_cost(entry.epsilon)}{model}{part}{degraded}"
    paid = entry.spend.epsilon if entry.spend is not None and entry.model == "dp" else entry.epsilon
    asked_note = "" if paid == entry.epsilon else f" ({format_cost(entry.epsilon)} was asked)"
    return f"{format_cost(paid)}{model}{part}, reused{asked_note}"
