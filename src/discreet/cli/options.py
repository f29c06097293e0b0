"""The words that several commands share, and what is read from them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

import typer

from discreet.errors import InvalidInput
from discreet.exact import parse_rational

MAX_QUESTION_BYTES = 1_000_000
"""In bytes, of what is read from standard input at all; a question may have far fewer characters."""

SchemaFile = Annotated[
    str, typer.Argument(metavar="SCHEMA", help="The schema file of the data set.", show_default=False)
]
Question = Annotated[
    str,
    typer.Argument(metavar="QUESTION", help="SQL, or - to read it from standard input.", show_default=False),
]
Epsilon = Annotated[
    str | None,
    typer.Option(
        metavar="E",
        help="Privacy budget for this answer, such as 0.1. It is never exceeded, but with --reuse any.",
        show_default=False,
    ),
]
Delta = Annotated[str | None, typer.Option(metavar="D", help="The delta of approx-dp, such as 1e-9.")]
Accuracy = Annotated[
    str | None,
    typer.Option(metavar="A", help="How near it should be, such as '±50 at 95%', instead of an epsilon."),
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
Model = Annotated[str | None, typer.Option(metavar="M", help="dp, approx-dp or individual-dp.")]
Analyst = Annotated[str, typer.Option(metavar="A", help="Who asks.")]
OneAnalyst = Annotated[str | None, typer.Option(metavar="A", help="One analyst.")]
LedgerOption = Annotated[
    str | None,
    typer.Option("--ledger", metavar="L", help="The ledger's file or database address, if not the data set's own."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A question and its numbers, by their decimal text."""

    question: str
    epsilon: Fraction | None
    delta: Fraction | None
    noise_scale: Fraction | None
    accuracy: str | None
    rows: int | None


def parse_query_request(
    question: str,
    epsilon: str | None,
    delta: str | None,
    noise_scale: str | None = None,
    accuracy: str | None = None,
    rows: str | None = None,
) -> QueryRequest:
    """A question, from standard input where it is -, and its numbers by their decimal text."""
    text = _read_standard_input() if question == "-" else question
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput("the question is not text in UTF-8; write it in UTF-8") from None
    if (epsilon, noise_scale, accuracy) == (None, None, None):
        raise InvalidInput("say how much noise there may be: --epsilon 0.1 or --accuracy '±50 at 95%'; see --help")
    count = None if rows is None else parse_rational(rows, "--rows")
    if count is not None and count.denominator != 1:
        raise InvalidInput("--rows is a whole number, such as 5000")
    return QueryRequest(
        text,
        None if epsilon is None else parse_rational(epsilon, "epsilon"),
        None if delta is None else parse_rational(delta, "delta"),
        None if noise_scale is None else parse_rational(noise_scale, "the noise scale"),
        accuracy,
        None if count is None else int(count),
    )


def _read_standard_input() -> str:
    content = sys.stdin.buffer.read(MAX_QUESTION_BYTES + 1)
    if len(content) > MAX_QUESTION_BYTES:
        raise InvalidInput(f"the question is longer than {MAX_QUESTION_BYTES} bytes; ask a shorter one")
    return content.decode(errors="surrogateescape")


def escape_unprintable(text: str) -> str:
    """A text that cannot move the cursor, change colours or ring: what does not print is written as its code."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )
