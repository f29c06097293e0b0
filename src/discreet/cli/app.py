"""The list of commands. Nothing heavy is imported before a command runs, so that help is quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

import discreet
from discreet.cli import token
from discreet.cli.ask import run_ask, run_preview
from discreet.cli.assess import run_assess
from discreet.cli.audit import run_audit
from discreet.cli.budget import run_budget
from discreet.cli.check import run_check
from discreet.cli.examples import format_example
from discreet.cli.history import run_history
from discreet.cli.init import run_init
from discreet.cli.ledger import LEDGER_COMMANDS
from discreet.cli.publish import run_publish
from discreet.cli.serve import run_serve
from discreet.cli.verify import run_verify

COMMANDS: Mapping[str, Callable[..., None]] = {
    "init": run_init,
    "check": run_check,
    "ask": run_ask,
    "preview": run_preview,
    "budget": run_budget,
    "history": run_history,
    "publish": run_publish,
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
app.add_typer(ledger_app, name="ledger")
for name, command in token.TOKEN_COMMANDS.items():
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
        print(f"discreet {discreet.__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())
