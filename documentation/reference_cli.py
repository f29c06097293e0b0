"""The page of commands: the tree of `discreet`, as `--help` knows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import typer
from documentation.markdown import format_block, format_code, format_table, get_first_paragraph, join_parts
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from discreet import errors
from discreet.cli.main import EXAMPLES, INTERRUPTED_EXIT, app

Parameter = TyperArgument | TyperOption
DONE = "Done."


def list_commands(group: TyperGroup | None = None, name: str = "discreet") -> Iterator[tuple[str, TyperCommand]]:
    """Every command by its full name, a group before its own commands."""
    current_group = typer.main.get_group(app) if group is None else group
    yield name, current_group
    for part, command in current_group.commands.items():
        if isinstance(command, TyperGroup):
            yield from list_commands(command, f"{name} {part}")
        else:
            yield f"{name} {part}", command


def list_undocumented(commands: Sequence[tuple[str, TyperCommand]]) -> list[str]:
    """Commands without help, and arguments and options without it."""
    silent = [name for name, command in commands if not (command.help or "").strip()]
    return silent + [
        f"{name} {parameter.opts[0]}"
        for name, command in commands
        for parameter in list_shown_parameters(command)
        if not parameter.help
    ]


def list_shown_parameters(command: TyperCommand) -> list[Parameter]:
    """The arguments and options that `--help` lists, but for itself."""
    return [
        parameter
        for parameter in command.params
        if not getattr(parameter, "hidden", False) and parameter.name != "help"
    ]


def list_exit_codes() -> dict[int, str]:
    """What every exit code means, from the errors themselves."""
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.DiscreetError) and kind is not errors.DiscreetError
    ]
    words_by_code = {
        kind.exit_code: f"{get_first_paragraph(kind.__doc__ or '')} {format_code(kind.__name__)}" for kind in kinds
    }
    return dict(sorted(({0: DONE, INTERRUPTED_EXIT: "Stopped by Ctrl-C."} | words_by_code).items()))


def format_page() -> str:
    """The whole page."""
    commands = list(list_commands())
    lines = [
        (f"[{format_code(name)}](#{name.replace(' ', '-')})", get_first_paragraph(told.help or ""))
        for name, told in commands
    ]
    codes = [(format_code(number), told) for number, told in list_exit_codes().items()]
    return join_parts(
        "# The command line",
        "Every command of `discreet`, as its own `--help` tells it. With `--json` a command prints one JSON document, "
        "also where it fails.",
        format_table(("command", "what it does"), lines),
        "## Exit codes",
        "Whatever goes wrong is one sentence on stderr and one of these codes; [errors](errors.md) says what to do.",
        format_table(("code", "means"), codes),
        *(_format_section(name, command) for name, command in commands),
    )


def _format_section(name: str, command: TyperCommand) -> str:
    context = typer.Context(command, info_name=name)
    usage = command.get_usage(context).removeprefix("Usage: ").replace("{", "").replace("}", "")
    parameters = list_shown_parameters(command)
    arguments = [_format_row(parameter) for parameter in parameters if isinstance(parameter, TyperArgument)]
    options = [_format_row(parameter) for parameter in parameters if isinstance(parameter, TyperOption)]
    return join_parts(
        f"## {format_code(name)} {{ #{name.replace(' ', '-')} }}",
        format_block(" ".join(usage.split()), "text"),
        command.help or "",
        format_table(("argument", "what", "unless said"), arguments),
        format_table(("option", "what", "unless said"), options),
        *_format_example(name),
    )


def _format_example(name: str) -> Iterator[str]:
    example = EXAMPLES.get(name.removeprefix("discreet "))
    if example is not None:
        yield format_block(example, "sh")


def _format_row(parameter: Parameter) -> tuple[str, str, str]:
    flag = getattr(parameter, "is_flag", False)
    names = (
        [parameter.metavar or parameter.name]
        if isinstance(parameter, TyperArgument)
        else [*parameter.opts, *parameter.secondary_opts]
    )
    value = "" if flag or isinstance(parameter, TyperArgument) else f" {parameter.metavar or parameter.name.upper()}"
    return (
        ", ".join(format_code(f"{name}{value}") for name in names),
        parameter.help or "",
        _format_default(parameter, flag),
    )


def _format_default(parameter: Parameter, flag: bool) -> str:
    if parameter.required:
        return "needed"
    if parameter.default in (None, False, (), []):
        return "" if not flag or parameter.default is None else "no"
    return "yes" if parameter.default is True else format_code(parameter.default)
