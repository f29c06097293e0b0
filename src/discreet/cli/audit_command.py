"""`discreet audit`: a lower bound on epsilon from draws alone, for our mechanisms, any callable, and any question."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli import terminal
from discreet.cli.terminal import Delta, Json, Model
from discreet.errors import ClaimFailed, InvalidInput
from discreet.formatting import format_cost
from discreet.numeric import format_exact, parse_rational

if TYPE_CHECKING:
    from rich.console import RenderableType

    from discreet.verification.audit import Audit
    from discreet.verification.audit.targets import Target

AuditTarget = Annotated[
    str,
    typer.Argument(
        metavar="MECHANISM|SCHEMA",
        help="A mechanism such as laplace, a callable as module:function, or a schema file with a QUERY.",
        show_default=False,
    ),
]
Query = Annotated[
    str | None, typer.Argument(metavar="QUERY", help="SQL, or JSON, of the schema's table.", show_default=False)
]
Claimed = Annotated[
    str | None, typer.Option("--epsilon", metavar="E", help="The epsilon that is claimed.", show_default=False)
]
Draws = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Draws from each of the two data sets; half of them choose the event. 1,000,000 unless told, fewer where "
        "an answer has many numbers or is drawn one by one.",
        show_default=False,
    ),
]
Confidence = Annotated[str, typer.Option(metavar="C", help="How sure a violation is.")]
Pair = Annotated[tuple[str, str] | None, typer.Option(metavar="D D2", help="Two neighbours for a callable, as JSON.")]
Neighbors = Annotated[
    int | None,
    typer.Option(
        "--neighbours", metavar="N", help="How many pairs of neighbours are made up for a QUERY.", min=1, max=1000
    ),
]
Mechanism = Annotated[
    str | None,
    typer.Option("--mechanism", metavar="M", help="The mechanism that answers a QUERY, by its name in a preview."),
]
Picture = Annotated[
    str | None, typer.Option(metavar="FILE", help="Draw both distributions and the event: .svg, .png or .html.")
]


def run_audit(
    what: AuditTarget,
    query: Query = None,
    epsilon: Claimed = None,
    delta: Delta = None,
    draws: Draws = None,
    confidence: Confidence = "0.999",
    model: Model = None,
    mechanism: Mechanism = None,
    pair: Pair = None,
    neighbors: Neighbors = None,
    picture: Picture = None,
    json: Json = False,
) -> None:
    """Look for a violation of a claimed epsilon; exit code 6 where one is found.

    It finds, and never proves. A question is planned from its schema and asked of made-up neighbours that fit it, on
    tables of at most 24 units: the registered data are not opened, and nothing is charged.
    """
    from discreet.charts import check_picture_path

    if picture is not None:
        check_picture_path(picture)
    confidence_level = _parse_confidence(confidence)
    with terminal.show_stages() as progress:
        progress("planning")
        target = _build_target(what, query, epsilon, delta, model, mechanism, pair, neighbors)
        # The generator of a callable may start anew in every call, so that its draws cannot be counted.
        audited_target = target if pair else target.add_progress(progress)
        result, pair_words = audited_target.audit(draws, confidence_level, progress)
    if json:
        terminal.print_json(_audit_to_json(target, result, pair_words))
    else:
        terminal.print_screen(*_render_audit(target, result, pair_words))
    if picture is not None:
        result.picture(picture)
    if result.violated and json:
        raise typer.Exit(ClaimFailed.exit_code)
    if result.violated:
        raise ClaimFailed(result.sentence())


def _audit_to_json(target: Target, result: Audit, pair_words: tuple[str, str]) -> dict[str, object]:
    pair_fields = dict(zip(("D", "D2"), pair_words, strict=True))
    return {"audited": target.name, "planned": target.note or None, "pair": pair_fields} | result.to_json()


def _parse_confidence(confidence: str) -> Fraction:
    """Refuse a confidence in percent, with how to write it as a share."""
    level = parse_rational(confidence, "--confidence")
    if 1 < level < 100:
        share = f"write {format_exact(level)} % as {format_exact(level / 100)}"
        raise InvalidInput(f"confidence must be between 0 and 1, both excluded, got {format_exact(level)}; {share}")
    return level


def _build_target(
    what: str,
    query: str | None,
    epsilon: str | None,
    delta: str | None,
    model: str | None,
    mechanism: str | None,
    pair: tuple[str, str] | None,
    neighbors: int | None,
) -> Target:
    from discreet.verification.audit import targets

    if pair and pair[1].startswith("--"):
        raise InvalidInput(
            f"--pair takes two neighbours, such as --pair '[0]' '[0, 1]'; after {pair[0][:40]} comes {pair[1][:40]}"
        )
    if epsilon is None:
        raise InvalidInput("say which epsilon is claimed, such as --epsilon 1")
    claimed = parse_rational(epsilon, "epsilon")
    claimed_delta = None if delta is None else parse_rational(delta, "delta")
    if query is not None:
        if what in targets.list_mechanism_names():
            raise InvalidInput(f"{what} is a mechanism and takes no QUERY; leave it out, or name a schema file")
        _refuse_option(pair, "--pair belongs to a callable; neighbours of a schema are made up")
        return targets.build_question_target(what, query, claimed, claimed_delta, model, neighbors, mechanism)
    _refuse_option(model, "--model belongs to a schema and a QUERY")
    _refuse_option(mechanism, "--mechanism belongs to a schema and a QUERY")
    _refuse_option(neighbors, "--neighbours belongs to a schema and a QUERY")
    if what.endswith((".yaml", ".yml")):
        raise InvalidInput("a schema is audited with a question: add one, such as 'SELECT COUNT(*) FROM t'")
    if what.endswith(".py"):
        raise InvalidInput(f"{what[:80]!r} is a file; say which function of it, as {what[:80]}:function")
    if ":" in what:
        return targets.build_callable_target(what, pair, claimed, claimed_delta)
    _refuse_option(pair, "--pair belongs to a callable; our own mechanisms have neighbours of their own")
    return targets.build_named_target(what, claimed, claimed_delta)


def _refuse_option(value: object, sentence: str) -> None:
    if value is not None:
        raise InvalidInput(sentence)


def _render_audit(target: Target, result: Audit, pair_words: tuple[str, str]) -> list[RenderableType]:
    event = result.event
    other = "D2" if event.likelier == "D" else "D"
    delta = f", delta {format_cost(result.delta)}" if result.delta else ""
    fields = {"audited": target.name, "claim": f"epsilon {format_cost(result.epsilon)}{delta}"}
    if target.note:
        fields["planned"] = target.note
    fields |= {"D": pair_words[0], "D2": pair_words[1], "event": event.words}
    fields[f"seen with {event.likelier}"] = f"{event.count:,} of {event.draws:,}"
    fields[f"seen with {other}"] = f"{event.other_count:,} of {event.draws:,}"
    if result.violated:
        fields["epsilon at least"] = result.format_bound()
    headline = [] if result.violated else [terminal.build_text(result.sentence(), "bold")]
    return [*headline, terminal.build_fields_table(fields)]
