"""From what was typed to an exit code. Whatever goes wrong is one sentence on stderr, and never a traceback."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

import typer

from discreet.cli.app import app
from discreet.cli.options import printable
from discreet.errors import DiscreetError, Internal, InvalidInput

INTERRUPTED = 130
UNREAD = 1
LONGEST = 300
"""Of what is said about the words of a command, which may be anything."""


def run(words: Sequence[str]) -> int:
    """Run one command; its exit code."""
    _never_fail_on_a_character()
    try:
        code = _attempt(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _unread()


def _attempt(words: Sequence[str]) -> int:
    try:
        code = app(args=list(words), prog_name="discreet", standalone_mode=False)
    except Exception as error:  # the outermost boundary: what is not ours is told without its text
        return _failed(_ours(error), words)
    return code if isinstance(code, int) else 0


def _never_fail_on_a_character() -> None:
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _unread() -> int:
    """Nobody reads any more: say nothing, not even when Python closes the stream."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return UNREAD


def _ours(error: Exception) -> DiscreetError:
    """Any failure as one of our kinds, with nothing in it that may come from the data."""
    if isinstance(error, typer.TyperException):
        said = error.format_message().strip().rstrip(".")
        return InvalidInput(f"{said[:1].lower()}{said[1:LONGEST]}; see --help")
    if isinstance(error, DiscreetError) and not isinstance(error, Internal):
        return error
    return Internal("an internal error; nothing about the data is shown")


def _failed(error: DiscreetError, words: Sequence[str]) -> int:
    sentence = printable(" ".join(str(error).split()))
    print(f"discreet: {sentence}", file=sys.stderr, flush=True)
    if "--json" in words:
        told = {"kind": type(error).__name__, "exit": error.exit_code, "message": sentence}
        print(json.dumps({"error": told}, indent=2))
    return error.exit_code
