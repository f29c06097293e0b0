"""The words that several commands share, and what is read from them."""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Annotated

import typer

from discreet.errors import InvalidInput
from discreet.exact import rational_text

LONGEST_QUESTION = 1_000_000
"""In bytes, of what is read from standard input at all; a question may have far fewer characters."""

SchemaFile = Annotated[
    str, typer.Argument(metavar="SCHEMA", help="The schema file of the data set.", show_default=False)
]
Question = Annotated[
    str,
    typer.Argument(metavar="QUESTION", help="SQL, or JSON, or - to read it from standard input.", show_default=False),
]
Epsilon = Annotated[
    str,
    typer.Option(
        metavar="E",
        help="What a new answer costs, such as 0.1; another analyst's stored one costs what it cost.",
        show_default=False,
    ),
]
Delta = Annotated[str | None, typer.Option(metavar="D", help="The delta of approx-dp, such as 1e-9.")]
Prior = Annotated[
    str | None, typer.Option(metavar="P", help="What you know already, such as 'normal(38, 6) on [17, 90]'.")
]
Model = Annotated[str | None, typer.Option(metavar="M", help="dp, approx-dp or individual-dp.")]
Analyst = Annotated[str, typer.Option(metavar="A", help="Who asks.")]
OneAnalyst = Annotated[str | None, typer.Option(metavar="A", help="One analyst.")]
LedgerPlace = Annotated[
    str | None,
    typer.Option("--ledger", metavar="L", help="The ledger's file or database address, if not the data set's own."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def read_request(question: str, epsilon: str, delta: str | None) -> tuple[str, Fraction, Fraction | None]:
    """A question, from standard input where it is -, and its numbers by their decimal text."""
    text = _standard_input() if question == "-" else question
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput("the question is not text in UTF-8; write it in UTF-8") from None
    slack = None if delta is None else rational_text(delta, "delta")
    return text, rational_text(epsilon, "epsilon"), slack


def _standard_input() -> str:
    read = sys.stdin.buffer.read(LONGEST_QUESTION + 1)
    if len(read) > LONGEST_QUESTION:
        raise InvalidInput(f"the question is longer than {LONGEST_QUESTION} bytes; ask a shorter one")
    return read.decode(errors="surrogateescape")


def printable(text: str) -> str:
    """A text that cannot move the cursor, change colours or ring: what does not print is written as its code."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
