"""The list of commands; run the one that was typed, and turn its errors into messages and exit codes."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated

import typer

from discreet._version import __version__
from discreet.cli import service_commands
from discreet.cli.audit_command import run_audit
from discreet.cli.dataset_commands import run_check, run_init
from discreet.cli.ledger_commands import LEDGER_COMMANDS
from discreet.cli.query_commands import run_ask, run_budget, run_history, run_preview
from discreet.cli.release_commands import build_publish_app, run_assess, run_verify
from discreet.cli.service_commands import run_serve
from discreet.cli.terminal import escape_unprintable
from discreet.errors import DiscreetError, ErrorCode, Internal, InvalidInput

EXAMPLE_HINT = "work/ is made by: python -m discreet.sample work"
EXAMPLE_LEDGER = "work/registry.discreet/ledger.db"
EXAMPLES = {
    "init": "discreet init work/registry.csv --output draft.yaml",
    "check": "discreet check work/registry.yaml",
    "ask": 'discreet ask work/registry.yaml "SELECT AVG(age) FROM registry WHERE smoker" --epsilon 0.1',
    "preview": 'discreet preview work/registry.yaml "SELECT MEDIAN(income) FROM registry" --epsilon 0.1',
    "budget": "discreet budget work/registry.yaml",
    "history": "discreet history work/registry.yaml --limit 5",
    "publish private-columns": "discreet publish private-columns work/registry.yaml --epsilon 0.5 --out columns.csv",
    "publish private-records": "discreet publish private-records work/registry.yaml --epsilon 0.5 --column age "
    "--column sex --out records.csv",
    "publish private-linked": "discreet publish private-linked work/registry.yaml --epsilon 0.5 --out linked.csv",
    "publish mdav": "discreet publish mdav work/registry.yaml -k 10 --out protected.csv",
    "publish generalise": "discreet publish generalise work/registry.yaml -k 10 --suppress 0.05 --out ranges.csv",
    "publish mdav-swap": "discreet publish mdav-swap work/registry.yaml -k 10 --out swapped.csv",
    "publish ir-swap": "discreet publish ir-swap work/registry.yaml -k 10 --out ranks.csv",
    "publish t-closeness": "discreet publish t-closeness work/registry.yaml -k 10 -t 2 --out close.csv",
    "publish anatomy": "discreet publish anatomy work/registry.yaml -k 10 --out groups.csv",
    "publish preview": "discreet publish preview work/registry.yaml --epsilon 1 --column age --column sex",
    "publish sweep": "discreet publish sweep work/registry.yaml --ks k=3,10 --method mdav",
    "verify": "discreet verify protected.csv",
    "assess": "discreet assess work/registry.yaml protected.csv",
    "serve": "discreet serve --port 8080",
    "audit": "discreet audit laplace --epsilon 1 --draws 100000",
    "ledger verify": f"discreet ledger verify {EXAMPLE_LEDGER}",
    "ledger backup": f"discreet ledger backup {EXAMPLE_LEDGER} ledger.bak",
    "ledger restore": "discreet ledger restore ledger.bak restored.db --forgotten 0.5",
    "ledger upgrade": f"discreet ledger upgrade {EXAMPLE_LEDGER}",
    "token create": "discreet token create --config service.yaml --analyst ann --dataset registry",
    "token list": "discreet token list --config service.yaml",
    "token revoke": "discreet token revoke 3f9a --config service.yaml",
    "token grant": "discreet token grant ann registry --config service.yaml",
    "token ungrant": "discreet token ungrant ann registry --config service.yaml",
}


def format_example(command: str) -> str:
    """Write the example that stands below the options of a command."""
    command_line = EXAMPLES[command]
    hint = f"  ({EXAMPLE_HINT})" if "work/" in command_line else ""
    return f"\b\nFor example:\n  {command_line}\n{hint}"


INTERRUPTED_EXIT = 130
CHARGING_COMMANDS = ("ask", "publish")
PAID_NOTE = "nothing is left half written, and what was charged by then stays charged, as 'discreet history' tells"
UNREAD_EXIT = 1
MAX_MESSAGE_LENGTH = 300
"""Of a message about the arguments of a command, which may hold anything."""
received_signals: list[int] = []
"""The signals that were received: a library may turn the exit that they ask for into an error of its own."""
COMMANDS: Mapping[str, Callable[..., None]] = {
    "init": run_init,
    "check": run_check,
    "ask": run_ask,
    "preview": run_preview,
    "budget": run_budget,
    "history": run_history,
    "verify": run_verify,
    "assess": run_assess,
    "serve": run_serve,
    "audit": run_audit,
}

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
ledger_app = typer.Typer(rich_markup_mode=None, no_args_is_help=False, help="Look after a ledger.")
token_app = typer.Typer(rich_markup_mode=None, no_args_is_help=False, help="Say who may use a service, and ask what.")
for name, command in COMMANDS.items():
    app.command(name, epilog=format_example(name))(command)
for name, command in LEDGER_COMMANDS.items():
    ledger_app.command(name, epilog=format_example(f"ledger {name}"))(command)
app.add_typer(build_publish_app(format_example), name="publish")
app.add_typer(ledger_app, name="ledger")
for name, command in service_commands.TOKEN_COMMANDS.items():
    token_app.command(name, epilog=format_example(f"token {name}"))(command)
app.add_typer(token_app, name="token")


@app.callback(invoke_without_command=True)
def print_version_or_help(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Answer questions about records of people without telling of any one person.

    A custodian writes a schema (init, check); analysts ask (preview, ask); a ledger keeps what was promised (budget,
    history) and is looked after (ledger verify, backup, restore, upgrade). Protected files are made (publish), checked
    (verify) and weighed (assess). Many analysts ask over HTTP (serve, token). Promises are put to the test (audit).
    Exit codes: 0 done, 1 our fault, 2 your input, 3 the budget, 4 not supported, 5 not available, 6 a claim that does
    not hold, 130 stopped by Ctrl-C.
    """
    if version:
        print(f"discreet {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Run the command that was typed, and leave with its exit code."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # of libraries: stderr is for one sentence of ours
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle_signal)
    sys.exit(run_command_line(sys.argv[1:]))


def handle_signal(number: int, frame: object) -> None:  # noqa: ARG001
    """End at once, by an exception, so that half-written files are removed."""
    received_signals.append(number)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def run_command_line(words: Sequence[str]) -> int:
    """Run one command; return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    received_signals.clear()
    try:
        code = _run_command(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _report_interrupt(words)
    except BrokenPipeError:  # nobody reads any more: say nothing, not even when Python closes the stream
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD_EXIT


def _run_command(words: Sequence[str]) -> int:
    try:
        code = _build_command()(args=list(words), prog_name="discreet", standalone_mode=False)
    except Exception as error:  # the outermost boundary: what is not ours is told without its text
        if received_signals:
            return _report_interrupt(words) if received_signals[-1] == signal.SIGINT else 128 + received_signals[-1]
        return _report_failure(_convert_error(error), words)
    return code if isinstance(code, int) else 0


def _report_interrupt(words: Sequence[str]) -> int:
    """Who stopped a command knows that it stopped, but not whether it had been paid for by then."""
    if words and words[0] in CHARGING_COMMANDS:
        print(f"discreet: stopped before it was done; {PAID_NOTE}", file=sys.stderr, flush=True)
    return INTERRUPTED_EXIT


@cache
def _build_command() -> typer.core.TyperGroup:
    return typer.main.get_group(app)


def _convert_error(error: Exception) -> DiscreetError:
    """Turn any error into one of ours, with nothing in it that may come from the data."""
    if isinstance(error, typer.TyperException):
        message = error.format_message().rstrip(".")[:MAX_MESSAGE_LENGTH]
        code: ErrorCode = "unknown-name" if message.startswith("No such") else "invalid-input"
        return InvalidInput(f"{message} See --help" if message.endswith("?") else f"{message}; see --help", code=code)
    if isinstance(error, DiscreetError) and not isinstance(error, Internal):
        return error
    return Internal("an internal error; nothing about the data is shown")


def _report_failure(error: DiscreetError, words: Sequence[str]) -> int:
    sentence = escape_unprintable(" ".join(str(error).split()))
    print(f"discreet: {sentence}", file=sys.stderr, flush=True)
    if error.position is not None:
        for line in error.position.mark().splitlines():
            print(f"  {escape_unprintable(line)}", file=sys.stderr, flush=True)
    if "--json" in words:
        problem = {"kind": error.stored_name, "code": error.code, "exit": error.exit_code, "message": sentence}
        problem["position"] = error.position and error.position.to_json()
        print(json.dumps({"error": problem}, indent=2))
    return error.exit_code
