"""`discreet publish`, `assess` and `verify`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer.core import TyperGroup

from discreet.cli import terminal
from discreet.cli.terminal import (
    Json,
    LedgerOption,
    SchemaFile,
    build_fields_table,
    build_table,
    build_text,
    build_warning,
)
from discreet.errors import InvalidInput, Unsupported
from discreet.formatting import format_number
from discreet.numeric import parse_rational
from discreet.release.method_options import Option
from discreet.release.methods import (
    METHODS,
    PROTECTION_METHODS,
    SYNTHETIC_METHODS,
    ReleaseMethod,
    build_method,
    build_synthetic_recipes,
    describe_method,
    list_synthetic_options,
)
from discreet.suggestions import build_unknown_name_error, find_similar_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType
    from typer._click import Context, HelpFormatter

    from discreet.release.manifest import Release
    from discreet.sdc.sweep import SweepResult
    from discreet.synthetic.file_plan import SyntheticPlan


Out = Annotated[str, typer.Option(metavar="FILE", help="File to write: .csv or .parquet.", show_default=False)]
Report = Annotated[str | None, typer.Option(metavar="FILE", help="Report for the custodian: .html or .json.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
SweepRange = Annotated[str, typer.Option(metavar="KS", help="Values of k to compare, e.g. k=3..300 or k=3,5,10.")]
SweptMethods = Annotated[
    list[str] | None,
    typer.Option("--method", metavar="M", help="Method to compare; repeatable. Default: those that a sweep knows."),
]
SweptT = Annotated[str | None, typer.Option("-t", "--t", metavar="T", help="The t of t-closeness. Default: 2.")]
PlannedMethod = Annotated[
    str | None, typer.Option("--method", metavar="M", help="Plan only this method. Default: every one that fits.")
]
LIST_KINDS = frozenset({"columns", "pairs", "sizes"})

NOT_DP_WARNING = "This is not differential privacy: no account counts it, and it does not add up with other releases."
DP_PANEL, WEAKER_PANEL, DRY_RUN_PANEL = (
    "Differential privacy, charged to the budget",
    "Weaker promises, flagged in every total",
    "Without releasing anything",
)


PUBLISH_HELP = """Protect a table and write it to a file, with its promise beside it; for the custodian.

Identifiers are never released. Files with differential privacy have all other columns, or those of --column; the
others have the columns with the roles quasi-identifier and confidential, and those of --keep.
"""


class PublishGroup(TyperGroup):
    """The methods of `discreet publish`, listed by what they promise."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Refuse a schema in the place of the method, and show the right form."""
        if not args or args[0] in {"--help", *self.commands}:
            return super().parse_args(ctx, args)
        if args[0].startswith("-") or args[0].endswith((".yaml", ".yml")):
            example = next((name for name in self.commands if name in args or f"--{name}" in args), "private-linked")
            raise InvalidInput(
                f"the method comes first: discreet publish {example} SCHEMA; see discreet publish --help"
            )
        names = list(self.commands) if find_similar_names(args[0], self.commands) else list(METHODS)
        raise build_unknown_name_error("method", args[0], names)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:  # noqa: ARG002
        """List the commands by panel, as Typer does with Rich alone."""
        for panel in (DP_PANEL, WEAKER_PANEL, DRY_RUN_PANEL):
            commands = [one for one in self.commands.values() if getattr(one, "rich_help_panel", None) == panel]
            with formatter.section(panel):
                formatter.write_dl([(str(one.name), one.get_short_help_str(120)) for one in commands])


def build_publish_app(format_example: Callable[[str], str]) -> typer.Typer:
    """Build `discreet publish`: a command for each release method, and two that release nothing."""
    app = typer.Typer(cls=PublishGroup, rich_markup_mode=None, no_args_is_help=False, help=PUBLISH_HELP)
    commands = [(DP_PANEL, name, _build_method_command(name, method)) for name, method in SYNTHETIC_METHODS.items()]
    commands += [(WEAKER_PANEL, name, _build_method_command(name, item)) for name, item in PROTECTION_METHODS.items()]
    preview = _add_options(run_publish_preview, list_synthetic_options())
    commands += [(DRY_RUN_PANEL, "preview", preview), (DRY_RUN_PANEL, "sweep", run_publish_sweep)]
    for panel, name, command in commands:
        app.command(name, rich_help_panel=panel, epilog=format_example(f"publish {name}"))(command)
    return app


def _build_method_command(name: str, method: type[ReleaseMethod]) -> Callable[..., None]:
    """Make the command of a release method from the options of its dataclass."""

    def run_publish(
        schema: SchemaFile,
        out: Out,
        report: Report = None,
        force: Force = False,
        ledger: LedgerOption = None,
        json: Json = False,
        **words: object,
    ) -> None:
        from discreet.custodian import Custodian
        from discreet.schema import load_schema

        built = build_method(name, _read_options(method.list_options(), words))
        built.resolve(load_schema(schema))  # refused before the table is registered
        with terminal.show_stages() as progress, Custodian.open(schema, ledger, progress=progress) as custodian:
            release = custodian.publish(built, out, report=report, force=force, progress=progress)
        if json:
            terminal.print_json(release.to_json())
        else:
            terminal.print_screen(*_render_release(release))

    run_publish.__doc__ = describe_method(method)
    return _add_options(run_publish, method.list_options())


def _add_options(run: Callable[..., None], options: Mapping[str, tuple[Option, object]]) -> Callable[..., None]:
    """Give a command, after its first argument, the options of a method in the place of `**words`."""
    first, *others = (
        item for item in signature(run, eval_str=True).parameters.values() if item.kind != item.VAR_KEYWORD
    )
    chosen = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default or None, annotation=_build_annotation(option))
        for name, (option, default) in options.items()
    ]
    parameters = [item.replace(kind=Parameter.KEYWORD_ONLY) for item in (first, *chosen, *others)]
    run.__annotations__ = {item.name: item.annotation for item in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def _build_annotation(option: Option) -> object:
    """Describe an option as Typer reads it."""
    kinds: Mapping[str, object] = {"integer": int | None, "boolean": bool, "choice": Literal[option.choices]}
    value_type = list[str] | None if option.kind in LIST_KINDS else kinds.get(option.kind, str | None)
    flags = option.flags or (f"--{option.name.replace('_', '-')}",)
    note = " Repeatable." if option.kind in LIST_KINDS else " [required]" if option.missing else ""
    return Annotated[value_type, typer.Option(*flags, metavar=option.metavar or None, help=f"{option.help}{note}")]


def _read_options(options: Mapping[str, tuple[Option, object]], words: Mapping[str, object]) -> dict[str, object]:
    """The options as a method takes them; one that is a file is read."""
    files = {name for name, (option, _) in options.items() if option.kind == "levels" and words[name] is not None}
    return {name: _read_text(str(word)) if name in files else word for name, word in words.items()}


def _read_text(path: str) -> str:
    from pathlib import Path

    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise InvalidInput(f"{path[-40:]!r} cannot be read as JSON; check the file") from None


def run_publish_preview(
    schema: SchemaFile,
    method: PlannedMethod = None,
    ledger: LedgerOption = None,
    json: Json = False,
    **words: object,
) -> None:
    """Dry run: report the promise and expected error of DP synthetic files without spending budget."""
    from discreet.custodian import Custodian
    from discreet.schema import load_schema
    from discreet.synthetic.file_plan import recommend_method

    options = _read_options(list_synthetic_options(), words)
    build_synthetic_recipes(load_schema(schema), method, options)  # refused before the table is registered
    with terminal.show_stages() as progress, Custodian.open(schema, ledger, progress=progress) as custodian:
        progress("planning")
        plans, balances = custodian.estimate_error(method, **options), custodian.budget()
    choice = recommend_method(plans) if method is None else None
    if json:
        terminal.print_json({"plans": [plan.to_json() for plan in plans], "recommended": choice})
    else:
        left = f"Left: {terminal.format_balances_left(balances)}."
        terminal.print_screen(*_render_plans(plans, choice), build_text(left))


def run_publish_sweep(
    schema: SchemaFile,
    ks: SweepRange = "k=3..300",
    method: SweptMethods = None,
    t: SweptT = None,
    report: Report = None,
    force: Force = False,
    ledger: LedgerOption = None,
    json: Json = False,
) -> None:
    """Compare risk and utility of the weaker methods over k, and recommend one; nothing is released."""
    from discreet.custodian import Custodian

    t_value = None if t is None else parse_rational(t, "t")
    with terminal.show_stages() as progress, Custodian.open(schema, ledger, progress=progress) as custodian:
        sweep = custodian.sweep(ks, method or (), report, t=t_value, force=force, progress=progress)
    if json:
        terminal.print_json(sweep.to_json())
    else:
        terminal.print_screen(*_render_sweep(sweep, report))


def _render_plans(plans: Sequence[SyntheticPlan], choice: str | None) -> Iterator[RenderableType]:
    for index, plan in enumerate(plans):
        if index:
            yield ""
        yield build_text(plan.method, "bold")
        yield build_fields_table({"promise": plan.guarantee.words()})
        error_table = build_table("column", "expected error", "made as", right=("expected error",))
        for name, error in plan.errors.items():
            made_as = plan.column_methods.get(name, "together")
            error_table.add_row(build_text(name), format_number(error, 2), build_text(made_as))
        yield error_table
        if "records" in plan.column_methods:
            yield build_text(f"together: {plan.column_methods['records']}")
        yield from map(build_warning, plan.warnings)
    yield build_text(
        "Errors are of whole distributions: of numbers in widths of the domain, of names and pairs in shares of rows."
    )
    yield build_text(f"{choice + ' ' if choice else ''}Nothing was charged.", "bold")


def _render_release(release: Release) -> Iterator[RenderableType]:
    from discreet.privacy.guarantee import DP_MODELS

    yield build_text(f"{release.name} is released: {release.rows:,} rows by {release.method}.", "bold")
    pairs = {"file": ", ".join(str(file) for file in release.files), "manifest": str(release.manifest_file)}
    pairs |= {} if release.report is None else {"report": f"{release.report} (for you alone)"}
    rows_are = release.manifest.get("rows_are")
    pairs |= {} if rows_are is None else {"rows are": str(rows_are)}
    yield build_fields_table(pairs | {"promise": release.guarantee.words()})
    for sentence in release.guarantee.assumptions:
        yield build_text(f"  {sentence}")
    if isinstance(errors := release.manifest.get("expected_error"), dict):
        error_text = ", ".join(f"{name} {format_number(error, 2)}" for name, error in errors.items())
        yield build_fields_table({"expected error": error_text})
    verdicts = {"risk": release.risk, "utility": release.utility}
    yield build_fields_table({name: verdict for name, verdict in verdicts.items() if verdict is not None})
    weaker = () if release.guarantee.model in DP_MODELS else (NOT_DP_WARNING,)
    yield from map(build_warning, (*release.warnings, *weaker))


def _render_sweep(sweep: SweepResult, report: str | None) -> Iterator[RenderableType]:
    numbers = ("k", "risk", "loss")
    sweep_table = build_table("method", *numbers, "", right=numbers)
    for point in sweep.points:
        chosen = ("recommended" if sweep.useful else "nearest") if point == sweep.recommended else ""
        cells = (str(point.k), format_number(point.risk), format_number(point.loss))
        sweep_table.add_row(build_text(point.method), *cells, chosen)
    yield sweep_table
    yield build_text(sweep.words, "bold")
    for sentence in sweep.left_out:
        yield build_text(f"Not tried: {sentence}")
    if report is not None:
        yield build_text(f"The curve is in {report}, for you alone; nothing was released.")


Original = Annotated[
    str,
    typer.Argument(metavar="ORIGINAL", help="The schema of the data set, or its rows in a file.", show_default=False),
]
Released = Annotated[
    str, typer.Argument(metavar="RELEASED", help="A released table, .csv or .parquet.", show_default=False)
]
Aligned = Annotated[bool, typer.Option("--aligned", help="Row i of the one file was made of row i of the other.")]
Quasi = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="A quasi-identifier, without a manifest.")]
Confidential = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="A confidential column, without a manifest.")
]
AssessmentReport = Annotated[str | None, typer.Option(metavar="FILE", help="Write a report too: .html or .json.")]
OverwriteReport = Annotated[bool, typer.Option("--force", help="Overwrite the report if it is there.")]


def run_assess(
    original: Original,
    released: Released,
    aligned: Aligned = False,
    quasi: Quasi = None,
    confidential: Confidential = None,
    report: AssessmentReport = None,
    force: OverwriteReport = False,
    json: Json = False,
) -> None:
    """Measure utility and risk of a released file beside its original; for the custodian alone."""
    from discreet.release.assess import assess_release

    with terminal.show_stages() as progress:
        roles = tuple(quasi or ()), tuple(confidential or ())
        assessment = assess_release(original, released, aligned, *roles, report, force, progress)
    if json:
        terminal.print_json(assessment.to_json())
    else:
        notice = build_text("For you alone: these are figures of the original records.")
        terminal.print_screen(build_fields_table(dict(assessment.summary)), notice)


ReleasedTable = Annotated[
    str, typer.Argument(metavar="OUT", help="A released table, .csv or .parquet.", show_default=False)
]
OriginalSchema = Annotated[
    str | None,
    typer.Option(metavar="SCHEMA", help="The schema of the data set it was made of; for the custodian alone."),
]
ClaimedK = Annotated[int | None, typer.Option("-k", metavar="K", help="The k-anonymity to check, without a manifest.")]
ClaimedT = Annotated[str | None, typer.Option("-t", metavar="T", help="The t-closeness to check, without a manifest.")]


def run_verify(
    out: ReleasedTable,
    original: OriginalSchema = None,
    quasi: Quasi = None,
    confidential: Confidential = None,
    k: ClaimedK = None,
    t: ClaimedT = None,
    json: Json = False,
) -> None:
    """Measure a released file and check its claim; exit code 6 where it does not hold, 4 where nothing shows it.

    The claim and the columns come from the manifest beside the file, or from the options.
    """
    from discreet.release.assess import verify_release

    with terminal.show_stages() as progress:
        result = verify_release(out, original, tuple(quasi or ()), tuple(confidential or ()), k, t, progress)
    if json:
        terminal.print_json(result.to_json())
        if result.unshown is not None:
            raise typer.Exit(Unsupported.exit_code)
        return
    terminal.print_screen(build_text(result.words, "bold"), build_fields_table(result.measured_texts))
    if result.unshown is not None:
        raise Unsupported(result.unshown)
