"""`discreet ask` and `discreet preview`: a question, answered or only planned."""

from __future__ import annotations

from typing import Annotated

import typer

from discreet.cli.options import (
    Analyst,
    Delta,
    Epsilon,
    Json,
    LedgerPlace,
    Model,
    Prior,
    Question,
    SchemaFile,
    read_request,
)

Key = Annotated[
    str | None, typer.Option(metavar="K", help="A name for this request: a retry with it never pays twice.")
]
Wait = Annotated[
    float, typer.Option(metavar="SECONDS", help="How long to wait for a ledger that others hold.", min=0.1)
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Pay for a new draw even if an answer is stored.")]


def ask(
    schema: SchemaFile,
    question: Question,
    epsilon: Epsilon,
    delta: Delta = None,
    prior: Prior = None,
    analyst: Analyst = "analyst",
    ledger: LedgerPlace = None,
    key: Key = None,
    model: Model = None,
    fresh: Fresh = False,
    wait: Wait = 10,
    json: Json = False,
) -> None:
    """Answer a question. The same question again is answered from what is stored, and free."""
    from discreet import custodian
    from discreet.cli import show
    from discreet.cli.answers import answer_screen
    from discreet.custodian import Custodian, looking
    from discreet.schema import load_schema

    asked, loss, slack = read_request(question, epsilon, delta)
    declared = load_schema(schema)
    if looking.current_snapshot(declared) is None:
        custodian.preview(declared, asked, loss, prior, slack, model)  # refuse before anything is registered
    with show.stages() as progress, Custodian.open(schema, ledger, None, progress, wait) as opened:
        progress("answering")
        answer = opened.answer(asked, loss, prior, analyst, key, slack, model, fresh)
        balances = opened.budget(analyst)
    if json:
        show.document(answer.to_json())
    else:
        show.screen(*answer_screen(answer, balances))


def preview(
    schema: SchemaFile,
    question: Question,
    epsilon: Epsilon,
    delta: Delta = None,
    prior: Prior = None,
    analyst: Analyst = "analyst",
    ledger: LedgerPlace = None,
    model: Model = None,
    json: Json = False,
) -> None:
    """Say what a question would cost and how good its answer would be. It reads no row and charges nothing."""
    from dataclasses import replace

    from discreet import custodian
    from discreet.cli import show
    from discreet.cli.answers import preview_screen
    from discreet.custodian import looking
    from discreet.custodian.document import preview_to_json
    from discreet.schema import load_schema

    asked, loss, slack = read_request(question, epsilon, delta)
    declared = load_schema(schema)
    planned = custodian.preview(declared, asked, loss, prior, slack, model)
    planned = replace(planned, balances=looking.budget(declared, ledger, analyst))
    if json:
        show.document(preview_to_json(planned))
    else:
        show.screen(*preview_screen(planned))
