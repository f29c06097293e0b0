"""`discreet ask`, `preview`, `budget` and `history`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli import terminal
from discreet.cli.terminal import (
    Accuracy,
    Analyst,
    Constraints,
    Delta,
    DistanceName,
    Epsilon,
    Interval,
    Json,
    LedgerOption,
    Model,
    NoiseScale,
    OneAnalyst,
    PopulationSize,
    Prior,
    QueryRequest,
    Question,
    Reuse,
    Rows,
    SchemaFile,
    Tail,
    WithPopulation,
    build_bar,
    build_table,
    build_text,
    build_warning,
    format_owner,
    parse_query_request,
)
from discreet.errors import InvalidInput
from discreet.formatting import VALUE_DIGITS, format_budget_left, format_cost, format_upper
from discreet.numeric import parse_rational

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from discreet.answers.answer import PopulationEstimate, RangeCount
    from discreet.ledger import Balance, Entry


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
    constraint: Constraints = None,
    plot: Plot = None,
    ranges: Ranges = None,
    population: WithPopulation = False,
    population_size: PopulationSize = None,
    analyst: Analyst = "analyst",
    ledger: LedgerOption = None,
    key: Key = None,
    model: Model = None,
    fresh: Fresh = False,
    reuse: Reuse = None,
    wait: Wait = 10,
    json: Json = False,
) -> None:
    """Answer a question. The same question again is answered from what is stored, and free."""
    from discreet import custodian
    from discreet.answers.answer import NO_PICTURE
    from discreet.charts import check_picture_path
    from discreet.cli.screens import render_answer
    from discreet.client.encode_requests import parse_range
    from discreet.custodian import Custodian, status
    from discreet.custodian.preview import is_any_price
    from discreet.schema import load_schema

    request = parse_query_request(question, epsilon, delta, noise_scale, accuracy, rows)
    options = _build_options(request, distance, interval, tail)
    if plot is not None:
        check_picture_path(plot)
    declared = load_schema(schema)
    range_ends = [parse_range(text) for text in ranges or ()]
    size = None if population_size is None else parse_rational(population_size, "--population-size")
    with_population = population or size is not None
    # Whatever is refused is refused before anything is registered or charged.
    is_any_price(reuse)
    custodian.check_ranges(declared, request.question, range_ends)
    noise = request.epsilon, request.delta, prior, model
    custodian.check_constraints(declared, request.question, constraint or (), *noise, **options)
    if with_population:
        custodian.check_population(declared, request.question, size, *noise, **options)
    if plot is not None or status.find_current_snapshot(declared) is None:
        preview = custodian.preview_from_schema(
            declared, request.question, request.epsilon, prior, request.delta, model, **options
        )
        if plot is not None and not preview.pictured:
            raise InvalidInput(NO_PICTURE)
    with terminal.show_stages() as progress, Custodian.open(schema, ledger, None, progress, wait) as open_custodian:
        progress("answering")
        arguments = (request.epsilon, prior, analyst, key, request.delta, model, fresh)
        options |= {"constraints": constraint or (), "reuse": reuse}
        answer = open_custodian.answer(request.question, *arguments, **options)
        balances = open_custodian.budget(analyst)
    picture_path = None if plot is None else answer.plot(plot)
    range_estimates = [answer.range(low, high) for low, high in range_ends]
    estimates = answer.population(size=size) if with_population else None
    if json:
        terminal.print_json(answer.to_json() | _build_extra_fields(range_estimates, estimates))
    else:
        terminal.print_screen(*render_answer(answer, balances, picture_path, range_estimates, estimates or ()))


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
    reuse: Reuse = None,
    json: Json = False,
) -> None:
    """Say what a question would cost and how good its answer would be. It reads no row and charges nothing."""
    from discreet.cli.screens import render_preview
    from discreet.custodian import status
    from discreet.schema import load_schema

    request = parse_query_request(question, epsilon, delta, noise_scale, accuracy, rows)
    declared = load_schema(schema)
    noise = (request.epsilon, prior, request.delta, model)
    options = _build_options(request, distance, interval, tail)
    preview = status.preview_with_ledger(declared, ledger, analyst, request.question, *noise, reuse=reuse, **options)
    if json:
        terminal.print_json(status.preview_to_json(preview))
    else:
        terminal.print_screen(*render_preview(preview))


def _build_extra_fields(
    ranges: Sequence[RangeCount], population: Sequence[Mapping[str, PopulationEstimate]] | None
) -> dict[str, Any]:
    fields: dict[str, Any] = {"ranges": [estimate.to_json() for estimate in ranges]} if ranges else {}
    if population is not None:
        fields["population"] = [{name: estimate.to_json() for name, estimate in row.items()} for row in population]
    return fields


def _build_options(request: QueryRequest, distance: str | None, interval: bool, tail: bool | None) -> dict[str, Any]:
    options: dict[str, Any] = {"accuracy": request.accuracy, "noise_scale": request.noise_scale, "rows": request.rows}
    return options | {"distance": distance, "interval": interval, "tail": tail}


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
        documents = [status.balance_to_json(balance) for balance in balances]
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
        terminal.print_json([status.entry_to_json(entry) for entry in entries])
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
