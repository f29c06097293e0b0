"""The page of commands: the tree of `discreet`, as `--help` knows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import typer
from documentation.markdown import block, code, first_sentence, page, table
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from discreet import errors
from discreet.cli.main import EXAMPLES, INTERRUPTED_EXIT, app

Parameter = TyperArgument | TyperOption
DONE = "Done."


def commands(group: TyperGroup | None = None, name: str = "discreet") -> Iterator[tuple[str, TyperCommand]]:
    """Every command by its full name, a group before its own commands."""
    found = typer.main.get_group(app) if group is None else group
    yield name, found
    for part, command in found.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, f"{name} {part}")
        else:
            yield f"{name} {part}", command


def undocumented(found: Sequence[tuple[str, TyperCommand]]) -> list[str]:
    """Commands without help, and arguments and options without it."""
    silent = [name for name, command in found if not (command.help or "").strip()]
    return silent + [f"{name} {one.opts[0]}" for name, command in found for one in shown(command) if not one.help]


def shown(command: TyperCommand) -> list[Parameter]:
    """The arguments and options that `--help` lists, but for itself."""
    return [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]


def exit_codes() -> dict[int, str]:
    """What every exit code means, from the errors themselves."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind is not errors.DiscreetError]
    told = {kind.exit_code: f"{first_sentence(kind.__doc__ or '')} {code(kind.__name__)}" for kind in kinds}
    return dict(sorted(({0: DONE, INTERRUPTED_EXIT: "Stopped by Ctrl-C."} | told).items()))


def text() -> str:
    """The whole page."""
    found = list(commands())
    lines = [(f"[{code(name)}](#{name.replace(' ', '-')})", first_sentence(told.help or "")) for name, told in found]
    codes = [(code(number), told) for number, told in exit_codes().items()]
    return page(
        "# The command line",
        "Every command of `discreet`, as its own `--help` tells it. With `--json` a command prints one JSON document, "
        "also where it fails.",
        table(("command", "what it does"), lines),
        "## Exit codes",
        "Whatever goes wrong is one sentence on stderr and one of these codes; [errors](errors.md) says what to do.",
        table(("code", "means"), codes),
        *(_section(name, command) for name, command in found),
    )


def _section(name: str, command: TyperCommand) -> str:
    context = typer.Context(command, info_name=name)
    usage = command.get_usage(context).removeprefix("Usage: ").replace("{", "").replace("}", "")
    own = shown(command)
    arguments = [_row(one) for one in own if isinstance(one, TyperArgument)]
    options = [_row(one) for one in own if isinstance(one, TyperOption)]
    return page(
        f"## {code(name)} {{ #{name.replace(' ', '-')} }}",
        block(" ".join(usage.split()), "text"),
        command.help or "",
        table(("argument", "what", "unless said"), arguments),
        table(("option", "what", "unless said"), options),
        *_example(name),
    )


def _example(name: str) -> Iterator[str]:
    told = EXAMPLES.get(name.removeprefix("discreet "))
    if told is not None:
        yield block(told, "sh")


def _row(one: Parameter) -> tuple[str, str, str]:
    flag = getattr(one, "is_flag", False)
    names = [one.metavar or one.name] if isinstance(one, TyperArgument) else [*one.opts, *one.secondary_opts]
    value = "" if flag or isinstance(one, TyperArgument) else f" {one.metavar or one.name.upper()}"
    return ", ".join(code(f"{name}{value}") for name in names), one.help or "", _default(one, flag)


def _default(one: Parameter, flag: bool) -> str:
    if one.required:
        return "needed"
    if one.default in (None, False, (), []):
        return "" if not flag or one.default is None else "no"
    return "yes" if one.default is True else code(one.default)
