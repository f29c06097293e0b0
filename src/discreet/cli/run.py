"""From what was typed to an exit code. Whatever goes wrong is one sentence on stderr, and never a traceback."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from functools import cache

import typer

from discreet.cli.app import app
from discreet.cli.options import printable
from discreet.errors import DiscreetError, Internal, InvalidInput

INTERRUPTED = 130
CHARGING = ("ask", "publish")
PAID = "nothing is left half written, and what was charged by then stays charged, as 'discreet history' tells"
UNREAD = 1
LONGEST = 300
"""Of what is said about the words of a command, which may be anything."""
stopping: list[int] = []
"""The signals that came: a library may turn the exit that they ask for into an error of its own."""


def stop(number: int, frame: object) -> None:  # noqa: ARG001
    """End at once, by an exception, so that what is half made is taken away."""
    stopping.append(number)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def run(words: Sequence[str]) -> int:
    """Run one command; its exit code."""
    _never_fail_on_a_character()
    stopping.clear()
    try:
        code = _attempt(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _interrupted(words)
    except BrokenPipeError:
        return _unread()


def _attempt(words: Sequence[str]) -> int:
    try:
        code = _command()(args=list(words), prog_name="discreet", standalone_mode=False)
    except Exception as error:  # the outermost boundary: what is not ours is told without its text
        if stopping:
            return _interrupted(words) if stopping[-1] == signal.SIGINT else 128 + stopping[-1]
        return _failed(_ours(error), words)
    return code if isinstance(code, int) else 0


def _interrupted(words: Sequence[str]) -> int:
    """Whoever stopped a command knows it, but not whether it had been paid for by then."""
    if words and words[0] in CHARGING:
        print(f"discreet: stopped before it was done; {PAID}", file=sys.stderr, flush=True)
    return INTERRUPTED


@cache
def _command() -> typer.core.TyperGroup:
    """All commands, made once: who runs several in one process waits for that once."""
    return typer.main.get_group(app)


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
        message = error.format_message().rstrip(".")[:LONGEST]
        return InvalidInput(f"{message} See --help" if message.endswith("?") else f"{message}; see --help")
    if isinstance(error, DiscreetError) and not isinstance(error, Internal):
        return error
    return Internal("an internal error; nothing about the data is shown")


def _failed(error: DiscreetError, words: Sequence[str]) -> int:
    sentence = printable(" ".join(str(error).split()))
    print(f"discreet: {sentence}", file=sys.stderr, flush=True)
    if "--json" in words:
        told = {"kind": error.stored_name, "exit": error.exit_code, "message": sentence}
        print(json.dumps({"error": told}, indent=2))
    return error.exit_code
