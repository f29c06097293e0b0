"""`discreet ask` and `discreet preview`: a question, answered or only planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.options import (
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
    PopulationSize,
    Prior,
    QueryRequest,
    Question,
    Reuse,
    Rows,
    SchemaFile,
    Tail,
    WithPopulation,
    parse_query_request,
)

if TYPE_CHECKING:
    from discreet.answer import PopulationEstimate, RangeCount

Key = Annotated[
    str | None, typer.Option(metavar="K", help="A name for this request: a retry with it never pays twice.")
]
Wait = Annotated[
    float, typer.Option(metavar="SECONDS", help="How long to wait for a ledger that others hold.", min=0.1)
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Pay for a new draw even if an answer is stored.")]


Plot = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Draw prior, noise and posterior into a .svg, .png or .html file."),
]


Ranges = Annotated[
    list[str] | None,
    typer.Option("--range", metavar="A..B", help="Count a range of a HISTOGRAM too, such as 20000..30000; it is free."),
]


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
    from discreet.answer import NO_PICTURE
    from discreet.cli import show
    from discreet.cli.answers import render_answer
    from discreet.custodian import Custodian, looking
    from discreet.custodian.previewing import is_any_price
    from discreet.errors import InvalidInput
    from discreet.exact import parse_rational
    from discreet.pictures import check_picture_path
    from discreet.schema import load_schema

    request = parse_query_request(question, epsilon, delta, noise_scale, accuracy, rows)
    options = _build_options(request, distance, interval, tail)
    if plot is not None:
        check_picture_path(plot)
    declared = load_schema(schema)
    asked_ranges = [_parse_range(range_text) for range_text in ranges or ()]
    size = None if population_size is None else parse_rational(population_size, "--population-size")
    with_population = population or size is not None
    # Whatever is refused is refused before anything is registered or charged.
    is_any_price(reuse)
    custodian.check_ranges(declared, request.question, asked_ranges)
    arguments = request.epsilon, request.delta, prior, model
    custodian.check_constraints(declared, request.question, constraint or (), *arguments, **options)
    if with_population:
        custodian.check_population(declared, request.question, size, *arguments, **options)
    if plot is not None or looking.find_current_snapshot(declared) is None:
        preview_result = custodian.preview_from_schema(
            declared, request.question, request.epsilon, prior, request.delta, model, **options
        )
        if plot is not None and not preview_result.pictured:
            raise InvalidInput(NO_PICTURE)
    with show.show_stages() as progress, Custodian.open(schema, ledger, None, progress, wait) as open_custodian:
        progress("answering")
        numbers = (request.epsilon, prior, analyst, key, request.delta, model, fresh)
        answer = open_custodian.answer(request.question, *numbers, **options, constraints=constraint or (), reuse=reuse)
        balances = open_custodian.budget(analyst)
    picture_path = None if plot is None else answer.plot(plot)
    range_estimates = [answer.range(low, high) for low, high in asked_ranges]
    population_estimates = answer.population(size=size) if with_population else None
    if json:
        show.print_json(answer.to_json() | _build_extra_fields(range_estimates, population_estimates))
    else:
        show.print_screen(*render_answer(answer, balances, picture_path, range_estimates, population_estimates or ()))


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
    from discreet.cli import show
    from discreet.cli.answers import render_preview
    from discreet.custodian import looking
    from discreet.custodian.document import preview_to_json
    from discreet.schema import load_schema

    request = parse_query_request(question, epsilon, delta, noise_scale, accuracy, rows)
    declared = load_schema(schema)
    numbers = (request.epsilon, prior, request.delta, model)
    options = _build_options(request, distance, interval, tail)
    planned = looking.preview_with_ledger(declared, ledger, analyst, request.question, *numbers, reuse=reuse, **options)
    if json:
        show.print_json(preview_to_json(planned))
    else:
        show.print_screen(*render_preview(planned))


def _build_extra_fields(
    range_estimates: Sequence[RangeCount], population_estimates: Sequence[Mapping[str, PopulationEstimate]] | None
) -> dict[str, Any]:
    """What was asked for beside the answer, for JSON."""
    fields: dict[str, Any] = {"ranges": [estimate.to_json() for estimate in range_estimates]} if range_estimates else {}
    if population_estimates is not None:
        fields["population"] = [
            {name: estimate.to_json() for name, estimate in row.items()} for row in population_estimates
        ]
    return fields


def _parse_range(text: str) -> tuple[str, str]:
    """Both ends of a range."""
    from discreet.errors import InvalidInput

    low, dots, high = (part.strip() for part in text.partition(".."))
    if not (low and dots and high):
        raise InvalidInput(f"a range is written with two ends, such as 20000..30000, got {text[:40]!r}")
    return low, high


def _build_options(request: QueryRequest, distance: str | None, interval: bool, tail: bool | None) -> dict[str, Any]:
    """What else goes with a question."""
    options: dict[str, Any] = {"accuracy": request.accuracy, "noise_scale": request.noise_scale, "rows": request.rows}
    return options | {"distance": distance, "interval": interval, "tail": tail}
