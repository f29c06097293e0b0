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
from discreet.cli.options import escape_unprintable
from discreet.errors import DiscreetError, Internal, InvalidInput

INTERRUPTED_EXIT = 130
CHARGING_COMMANDS = ("ask", "publish")
PAID_NOTE = "nothing is left half written, and what was charged by then stays charged, as 'discreet history' tells"
UNREAD_EXIT = 1
MAX_MESSAGE_LENGTH = 300
"""Of what is said about the words of a command, which may be anything."""
received_signals: list[int] = []
"""The signals that came: a library may turn the exit that they ask for into an error of its own."""


def handle_signal(number: int, frame: object) -> None:  # noqa: ARG001
    """End at once, by an exception, so that what is half made is taken away."""
    received_signals.append(number)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def run_command_line(words: Sequence[str]) -> int:
    """Run one command; its exit code."""
    _replace_encoding_errors()
    received_signals.clear()
    try:
        code = _run_command(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _report_interrupt(words)
    except BrokenPipeError:
        return _silence_stdout()


def _run_command(words: Sequence[str]) -> int:
    try:
        code = _build_command()(args=list(words), prog_name="discreet", standalone_mode=False)
    except Exception as error:  # the outermost boundary: what is not ours is told without its text
        if received_signals:
            return _report_interrupt(words) if received_signals[-1] == signal.SIGINT else 128 + received_signals[-1]
        return _report_failure(_convert_error(error), words)
    return code if isinstance(code, int) else 0


def _report_interrupt(words: Sequence[str]) -> int:
    """Whoever stopped a command knows it, but not whether it had been paid for by then."""
    if words and words[0] in CHARGING_COMMANDS:
        print(f"discreet: stopped before it was done; {PAID_NOTE}", file=sys.stderr, flush=True)
    return INTERRUPTED_EXIT


@cache
def _build_command() -> typer.core.TyperGroup:
    """All commands, made once: who runs several in one process waits for that once."""
    return typer.main.get_group(app)


def _replace_encoding_errors() -> None:
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _silence_stdout() -> int:
    """Nobody reads any more: say nothing, not even when Python closes the stream."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return UNREAD_EXIT


def _convert_error(error: Exception) -> DiscreetError:
    """Any failure as one of our kinds, with nothing in it that may come from the data."""
    if isinstance(error, typer.TyperException):
        message = error.format_message().rstrip(".")[:MAX_MESSAGE_LENGTH]
        return InvalidInput(f"{message} See --help" if message.endswith("?") else f"{message}; see --help")
    if isinstance(error, DiscreetError) and not isinstance(error, Internal):
        return error
    return Internal("an internal error; nothing about the data is shown")


def _report_failure(error: DiscreetError, words: Sequence[str]) -> int:
    sentence = escape_unprintable(" ".join(str(error).split()))
    print(f"discreet: {sentence}", file=sys.stderr, flush=True)
    if "--json" in words:
        problem = {"kind": error.stored_name, "exit": error.exit_code, "message": sentence}
        print(json.dumps({"error": problem}, indent=2))
    return error.exit_code
