"""`discreet publish`, `assess` and `verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

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

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from rich.console import RenderableType

    from discreet.release.manifest import Release
    from discreet.sdc.sweep import SweepResult
    from discreet.synthetic.file_plan import SyntheticPlan


Method = Annotated[
    str | None,
    typer.Option(
        metavar="M",
        help="private-linked, private-columns or private-records; or the weaker mdav, generalise, mdav-swap, ir-swap, "
        "t-closeness or anatomy.",
        show_default=False,
    ),
]
K = Annotated[
    str | None,
    typer.Option(
        "-k",
        "--k",
        metavar="K",
        help="The least size of a group; of private files how many share a block: a number, or auto (the default).",
        show_default=False,
    ),
]
Epsilon = Annotated[str | None, typer.Option(metavar="E", help="How much a private file may cost.")]
Delta = Annotated[str | None, typer.Option(metavar="D", help="The chance that epsilon fails: less noise for it.")]
Columns = Annotated[
    list[str] | None, typer.Option("--column", metavar="COLUMN", help="Of a private file: only this; repeatable.")
]
Apart = Annotated[bool, typer.Option("--apart", help="private-columns: a folder with a Parquet file for each column.")]
Pairs = Annotated[
    list[str] | None,
    typer.Option("--pair", metavar="A,B", help="private-linked: measure these two columns together; repeatable."),
]
T = Annotated[str | None, typer.Option("-t", metavar="T", help="How far a group may be from the whole: t-closeness.")]
Out = Annotated[
    str | None, typer.Option(metavar="FILE", help="Where the table goes: .csv or .parquet.", show_default=False)
]
Report = Annotated[str | None, typer.Option(metavar="FILE", help="A report for the custodian: .html or .json.")]
SweepRange = Annotated[
    str | None,
    typer.Option("--sweep", metavar="KS", help="Publish nothing; compare methods over k, such as k=3..300."),
]
PreviewOnly = Annotated[
    bool, typer.Option("--preview", help="Make no private file; tell how far off it would be, for nothing.")
]
KeepColumns = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="Release this column as it is too; repeatable.")
]
ColumnKs = Annotated[
    list[str] | None,
    typer.Option("--k-of", metavar="COLUMN=K", help="A k of its own for a confidential column that is swapped."),
]
Informed = Annotated[
    bool, typer.Option("--informed", help="mdav-swap against who knows all a person's values but one.")
]
Swap = Annotated[str | None, typer.Option(metavar="WHAT", help="mdav-swap: confidential (default) or quasi.")]
Diversity = Annotated[
    str | None,
    typer.Option(metavar="D", help="What a swapped group must hold: 'distinct 3', 'spread 1000' or 'closeness 0.2'."),
]
Weights = Annotated[str | None, typer.Option(metavar="COLUMN", help="Weights of the rows, for centroids.")]
Strata = Annotated[str | None, typer.Option(metavar="COLUMN", help="Groups stay inside a value of this column.")]
Grouping = Annotated[str | None, typer.Option(metavar="G", help="mdav, v-mdav, insensitive or random groups.")]
Hierarchies = Annotated[
    str | None, typer.Option(metavar="FILE", help="generalise: a JSON file with the levels of columns.")
]
Loss = Annotated[
    str | None, typer.Option(metavar="L", help="generalise by ncp (default), precision, discernibility or class-size.")
]
Suppress = Annotated[str | None, typer.Option(metavar="S", help="generalise: the share of rows that may be left out.")]
Form = Annotated[str | None, typer.Option(metavar="F", help="t-closeness: groups hidden, or shown as anatomy.")]
Partition = Annotated[str | None, typer.Option(metavar="P", help="anatomy: groups by confidential (default) or quasi.")]
Buckets = Annotated[int | None, typer.Option(metavar="B", help="t-closeness: how many buckets of values.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")]

NOT_DP_WARNING = "This is not differential privacy: no account counts it, and it does not add up with other releases."


def run_publish(
    schema: SchemaFile,
    method: Method = None,
    k: K = None,
    t: T = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    out: Out = None,
    report: Report = None,
    sweep: SweepRange = None,
    column: Columns = None,
    apart: Apart = False,
    pair: Pairs = None,
    preview: PreviewOnly = False,
    keep: KeepColumns = None,
    k_of: ColumnKs = None,
    informed: Informed = False,
    swap: Swap = None,
    diversity: Diversity = None,
    weights: Weights = None,
    strata: Strata = None,
    grouping: Grouping = None,
    hierarchies: Hierarchies = None,
    loss: Loss = None,
    suppress: Suppress = None,
    form: Form = None,
    partition: Partition = None,
    buckets: Buckets = None,
    force: Force = False,
    ledger: LedgerOption = None,
    json: Json = False,
) -> None:
    """Protect a table and write it to a file, with its promise beside it; the custodian's act.

    Differential privacy, paid from the data set's budget: private-linked, private-columns, private-records. Weaker
    promises: the other methods. Identifiers are never released; private files have all other columns, or those of
    --column; the others have the columns with the roles quasi-identifier and confidential, and those of --keep.
    """
    from discreet.custodian import Custodian
    from discreet.release.methods import SYNTHETIC_METHODS as PRIVATE
    from discreet.release.methods import build_synthetic_recipes
    from discreet.schema import load_schema

    options: dict[str, object] = {"keep": tuple(keep or ()), "k-of": k_of, "informed": informed, "swap": swap}
    options |= {"diversity": diversity, "weights": weights, "strata": strata, "grouping": grouping, "loss": loss}
    options |= {"hierarchies": hierarchies, "suppress": suppress, "form": form, "partition": partition}
    options |= {"buckets": buckets, "delta": delta, "column": tuple(column or ()), "apart": apart}
    options["pair"] = tuple(pair or ())
    if sweep is not None:
        for name, value in ({"out": out, "-k": k, "epsilon": epsilon, "preview": preview} | options).items():
            if value:
                flag = name if name.startswith("-") else f"--{name}"
                raise InvalidInput(f"a sweep tries methods over k and releases nothing: it has no {flag}; leave it out")
    elif not preview and (method is None or out is None):
        how = "--method private-linked --epsilon 1 " if method is None else ""
        raise InvalidInput(f"say {'how and ' if how else ''}where to: {how}--out out.parquet; see --help")
    k_value = int(k) if k is not None and k.isdecimal() else k
    if preview or method in PRIVATE:  # refused before the table is registered
        declared, epsilon_value = load_schema(schema), _parse_number(epsilon, "--epsilon")
        build_synthetic_recipes(declared, method, epsilon_value, k_value, {"t": t} | _parse_options(options))
    if preview:
        arguments = {"epsilon": _parse_number(epsilon, "--epsilon"), **_parse_options(options)}
        _show_estimated_errors(schema, ledger, method, k_value, arguments, json)
        return
    t_value = _parse_number(t, "t")
    output_options: dict[str, Any] = {"report": report, "force": force}
    with terminal.show_stages() as progress, Custodian.open(schema, ledger, progress=progress) as custodian:
        if sweep is not None:
            sweep_result = custodian.sweep(sweep, method or (), **output_options, t=t_value, progress=progress)
        else:
            arguments = {"epsilon": _parse_number(epsilon, "--epsilon"), **_parse_options(options)}
            arguments |= {**output_options, "progress": progress}
            release = custodian.publish(method or "", out or "", k_value, t_value, **arguments)
    if sweep is not None and json:
        terminal.print_json(sweep_result.to_json())
    elif sweep is not None:
        terminal.print_screen(*_render_sweep(sweep_result, report))
    elif json:
        terminal.print_json(release.to_json())
    else:
        terminal.print_screen(*_render_release(release))


def _show_estimated_errors(
    schema: str, ledger: str | None, method: str | None, k: int | str | None, arguments: dict[str, Any], json: bool
) -> None:
    from discreet.custodian import Custodian
    from discreet.synthetic.file_plan import recommend_method

    with terminal.show_stages() as progress, Custodian.open(schema, ledger, progress=progress) as custodian:
        progress("planning")
        plans, balances = custodian.estimate_error(method, k, **arguments), custodian.budget()
    choice = recommend_method(plans) if method is None else None
    if json:
        terminal.print_json({"plans": [plan.to_json() for plan in plans], "recommended": choice})
    else:
        left = f"Left: {terminal.format_balances_left(balances)}."
        terminal.print_screen(*_render_plans(plans, choice), build_text(left))


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


def _parse_options(options: dict[str, object]) -> dict[str, Any]:
    parsed: dict[str, Any] = {name: value for name, value in options.items() if name not in {"k-of", "column", "pair"}}
    parsed |= {name: _parse_number(options[name], f"--{name}") for name in ("suppress", "delta")}
    if options["hierarchies"] is not None:
        parsed["hierarchies"] = _read_json(str(options["hierarchies"]))
    parsed |= {"ks": _parse_column_ks(options["k-of"] or []), "columns": options["column"]}
    parsed["pairs"] = [tuple(pair.split(",")) for pair in cast("tuple[str, ...]", options["pair"])]
    return parsed


def _parse_number(text: object, what: str) -> Fraction | None:
    return None if text is None else parse_rational(str(text), what)


def _parse_column_ks(texts: object) -> dict[str, int]:
    pairs = [text.partition("=") for text in cast("list[str]", texts)]
    if not all(equals and number.isdecimal() for _, equals, number in pairs):
        raise InvalidInput("--k-of is a column and its k, such as income=20")
    return {name: int(number) for name, _, number in pairs}


def _read_json(path: str) -> object:
    import json
    from pathlib import Path

    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InvalidInput(f"{path[-40:]!r} cannot be read as JSON; check the file") from None


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
