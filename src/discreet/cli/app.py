"""The list of commands. Nothing heavy is imported before a command runs, so that help is quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

import discreet
from discreet.cli import token
from discreet.cli.ask import ask, preview
from discreet.cli.assess import assess
from discreet.cli.audit import audit
from discreet.cli.budget import budget
from discreet.cli.check import check
from discreet.cli.examples import example
from discreet.cli.history import history
from discreet.cli.init import init
from discreet.cli.ledger import COMMANDS as LEDGER_COMMANDS
from discreet.cli.publish import publish
from discreet.cli.serve import serve
from discreet.cli.verify import verify

COMMANDS: Mapping[str, Callable[..., None]] = {
    "init": init,
    "check": check,
    "ask": ask,
    "preview": preview,
    "budget": budget,
    "history": history,
    "publish": publish,
    "verify": verify,
    "assess": assess,
    "serve": serve,
    "audit": audit,
}

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
ledger = typer.Typer(rich_markup_mode=None, no_args_is_help=False, help="Look after a ledger.")
tokens = typer.Typer(rich_markup_mode=None, no_args_is_help=False, help="Say who may use a service, and ask what.")
for name, command in COMMANDS.items():
    app.command(name, epilog=example(name))(command)
for name, command in LEDGER_COMMANDS.items():
    ledger.command(name, epilog=example(f"ledger {name}"))(command)
app.add_typer(ledger, name="ledger")
for name, command in token.COMMANDS.items():
    tokens.command(name, epilog=example(f"token {name}"))(command)
app.add_typer(tokens, name="token")


@app.callback(invoke_without_command=True)
def start(
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
