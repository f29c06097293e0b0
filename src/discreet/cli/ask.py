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
    LedgerPlace,
    Model,
    NoiseScale,
    PopulationSize,
    PopulationToo,
    Prior,
    Question,
    Request,
    Reuse,
    Rows,
    SchemaFile,
    Tail,
    read_request,
)

if TYPE_CHECKING:
    from discreet.answer import InRange, Population

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


def ask(
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
    population: PopulationToo = False,
    population_size: PopulationSize = None,
    analyst: Analyst = "analyst",
    ledger: LedgerPlace = None,
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
    from discreet.cli.answers import answer_screen
    from discreet.custodian import Custodian, looking
    from discreet.custodian.previewing import is_any_price
    from discreet.errors import InvalidInput
    from discreet.exact import rational_text
    from discreet.pictures import check_path
    from discreet.schema import load_schema

    request = read_request(question, epsilon, delta, noise_scale, accuracy, rows)
    more = _more(request, distance, interval, tail)
    if plot is not None:
        check_path(plot)
    declared = load_schema(schema)
    asked_ranges = [_ends(one) for one in ranges or ()]
    size = None if population_size is None else rational_text(population_size, "--population-size")
    to_population = population or size is not None
    # Whatever is refused is refused before anything is registered or charged.
    is_any_price(reuse)
    custodian.check_ranges(declared, request.question, asked_ranges)
    asked = request.epsilon, request.delta, prior, model
    custodian.check_constraints(declared, request.question, constraint or (), *asked, **more)
    if to_population:
        custodian.check_population(declared, request.question, size, *asked, **more)
    if plot is not None or looking.current_snapshot(declared) is None:
        told = custodian.preview(declared, request.question, request.epsilon, prior, request.delta, model, **more)
        if plot is not None and not told.pictured:
            raise InvalidInput(NO_PICTURE)
    with show.stages() as progress, Custodian.open(schema, ledger, None, progress, wait) as opened:
        progress("answering")
        numbers = (request.epsilon, prior, analyst, key, request.delta, model, fresh)
        answer = opened.answer(request.question, *numbers, **more, constraints=constraint or (), reuse=reuse)
        balances = opened.budget(analyst)
    drawn = None if plot is None else answer.plot(plot)
    counted = [answer.range(low, high) for low, high in asked_ranges]
    people = answer.population(size=size) if to_population else None
    if json:
        show.document(answer.to_json() | _beside(counted, people))
    else:
        show.screen(*answer_screen(answer, balances, drawn, counted, people or ()))


def preview(
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
    ledger: LedgerPlace = None,
    model: Model = None,
    reuse: Reuse = None,
    json: Json = False,
) -> None:
    """Say what a question would cost and how good its answer would be. It reads no row and charges nothing."""
    from discreet.cli import show
    from discreet.cli.answers import preview_screen
    from discreet.custodian import looking
    from discreet.custodian.document import preview_to_json
    from discreet.schema import load_schema

    request = read_request(question, epsilon, delta, noise_scale, accuracy, rows)
    declared = load_schema(schema)
    numbers = (request.epsilon, prior, request.delta, model)
    more = _more(request, distance, interval, tail)
    planned = looking.preview(declared, ledger, analyst, request.question, *numbers, reuse=reuse, **more)
    if json:
        show.document(preview_to_json(planned))
    else:
        show.screen(*preview_screen(planned))


def _beside(counted: Sequence[InRange], people: Sequence[Mapping[str, Population]] | None) -> dict[str, Any]:
    """What was asked for beside the answer, for JSON."""
    told: dict[str, Any] = {"ranges": [one.to_json() for one in counted]} if counted else {}
    if people is not None:
        told["population"] = [{name: one.to_json() for name, one in row.items()} for row in people]
    return told


def _ends(text: str) -> tuple[str, str]:
    """Both ends of a range."""
    from discreet.errors import InvalidInput

    low, dots, high = (part.strip() for part in text.partition(".."))
    if not (low and dots and high):
        raise InvalidInput(f"a range is written with two ends, such as 20000..30000, got {text[:40]!r}")
    return low, high


def _more(request: Request, distance: str | None, interval: bool, tail: bool | None) -> dict[str, Any]:
    """What else goes with a question."""
    told: dict[str, Any] = {"accuracy": request.accuracy, "noise_scale": request.noise_scale, "rows": request.rows}
    return told | {"distance": distance, "interval": interval, "tail": tail}
