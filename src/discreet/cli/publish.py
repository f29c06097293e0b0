"""`discreet publish`: a protected file, what it promises, and a report for its custodian."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from discreet.cli.options import Json, LedgerPlace, SchemaFile
from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from rich.console import RenderableType

    from discreet.assess.sweep import Sweep
    from discreet.planner.private_release import PrivatePlan
    from discreet.release import Release

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
Sweeping = Annotated[
    str | None,
    typer.Option("--sweep", metavar="KS", help="Publish nothing; compare methods over k, such as k=3..300."),
]
Preview = Annotated[
    bool, typer.Option("--preview", help="Make no private file; tell how far off it would be, for nothing.")
]
Keep = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Release this column as it is too; repeatable.")]
KOf = Annotated[
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

NOT_DP = "This is not differential privacy: no account counts it, and it does not add up with other releases."


def publish(
    schema: SchemaFile,
    method: Method = None,
    k: K = None,
    t: T = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    out: Out = None,
    report: Report = None,
    sweep: Sweeping = None,
    column: Columns = None,
    apart: Apart = False,
    pair: Pairs = None,
    preview: Preview = False,
    keep: Keep = None,
    k_of: KOf = None,
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
    ledger: LedgerPlace = None,
    json: Json = False,
) -> None:
    """Protect a table and write it to a file, with its promise beside it; the custodian's act.

    Differential privacy, paid from the data set's budget: private-linked, private-columns, private-records. Weaker
    promises: the other methods. Identifiers are never released; private files have all other columns, or those of
    --column; the others have the columns with the roles quasi-identifier and confidential, and those of --keep.
    """
    from discreet.cli import show
    from discreet.custodian import Custodian
    from discreet.custodian.private_recipe import METHODS as PRIVATE
    from discreet.custodian.private_recipe import recipes_of
    from discreet.schema import load_schema

    said: dict[str, object] = {"keep": tuple(keep or ()), "k-of": k_of, "informed": informed, "swap": swap}
    said |= {"diversity": diversity, "weights": weights, "strata": strata, "grouping": grouping, "loss": loss}
    said |= {"hierarchies": hierarchies, "suppress": suppress, "form": form, "partition": partition, "buckets": buckets}
    said |= {"delta": delta, "column": tuple(column or ()), "apart": apart, "pair": tuple(pair or ())}
    if sweep is not None:
        _refuse({"out": out, "-k": k, "epsilon": epsilon, "preview": preview} | said)
    elif not preview and (method is None or out is None):
        how = "--method private-linked --epsilon 1 " if method is None else ""
        raise InvalidInput(f"say {'how and ' if how else ''}where to: {how}--out out.parquet; see --help")
    if preview or method in PRIVATE:  # refused before the table is registered
        recipes_of(load_schema(schema), method, _number(epsilon, "--epsilon"), _k(k), {"t": t} | _read(said))
    if preview:
        _show_expected(schema, ledger, method, _k(k), {"epsilon": _number(epsilon, "--epsilon"), **_read(said)}, json)
        return
    close = _number(t, "t")
    more: dict[str, Any] = {"report": report, "force": force}
    with show.stages() as progress, Custodian.open(schema, ledger, progress=progress) as custodian:
        if sweep is not None:
            swept = custodian.sweep(sweep, method or (), **more, t=close, progress=progress)
        else:
            given = {"epsilon": _number(epsilon, "--epsilon"), **_read(said), **more, "progress": progress}
            made = custodian.publish(method or "", out or "", _k(k), close, **given)
    if sweep is not None:
        show.document(swept.to_json()) if json else show.screen(*_swept(swept, report))
    elif json:
        show.document(made.to_json())
    else:
        show.screen(*_screen(made))


def _show_expected(
    schema: str, ledger: str | None, method: str | None, k: int | str | None, given: dict[str, Any], json: bool
) -> None:
    from discreet.cli import show
    from discreet.custodian import Custodian
    from discreet.planner.private_release import recommended

    with show.stages() as progress, Custodian.open(schema, ledger, progress=progress) as custodian:
        progress("planning")
        plans, balances = custodian.expected(method, k, **given), custodian.budget()
    choice = recommended(plans) if method is None else None
    if json:
        show.document({"plans": [plan.to_json() for plan in plans], "recommended": choice})
    else:
        show.screen(*_expected(plans, choice), show.text(f"Left: {show.left(balances)}."))


def _expected(plans: Sequence[PrivatePlan], choice: str | None) -> Iterator[RenderableType]:
    from discreet.cli.show import facts, table, text, warning
    from discreet.formatting import format_number

    for place, plan in enumerate(plans):
        yield from [""] * bool(place)
        yield text(plan.method, "bold")
        yield facts({"promise": plan.guarantee.words()})
        told = table("column", "expected error", "made as", right=("expected error",))
        for name, error in plan.errors.items():
            told.add_row(text(name), format_number(error, 2), text(plan.ways.get(name, "together")))
        yield told
        if "records" in plan.ways:
            yield text(f"together: {plan.ways['records']}")
        yield from map(warning, plan.warnings)
    yield text(
        "Errors are of whole distributions: of numbers in widths of the domain, of names and pairs in shares of rows."
    )
    yield text(f"{choice + ' ' if choice else ''}Nothing was charged.", "bold")


def _refuse(said: dict[str, object]) -> None:
    for name, value in said.items():
        if value:
            option = name if name.startswith("-") else f"--{name}"
            raise InvalidInput(f"a sweep tries methods over k and releases nothing: it has no {option}; leave it out")


def _read(said: dict[str, object]) -> dict[str, Any]:
    """Options as `Custodian.publish` takes them."""
    read = {"suppress": _number(said["suppress"], "--suppress"), "delta": _number(said["delta"], "--delta")}
    hierarchies = None if said["hierarchies"] is None else _read_json(str(said["hierarchies"]))
    given = said | read | {"hierarchies": hierarchies, "ks": _own_ks(said["k-of"] or []), "columns": said["column"]}
    given |= {"pairs": [tuple(pair.split(",")) for pair in cast("tuple[str, ...]", said["pair"])]}
    return {name: value for name, value in given.items() if name not in {"k-of", "column", "pair"}}


def _number(text: object, what: str) -> Fraction | None:
    from discreet.exact import rational_text

    return None if text is None else rational_text(str(text), what)


def _k(text: str | None) -> int | str | None:
    """A whole number, or auto."""
    return int(text) if text is not None and text.isdecimal() else text


def _own_ks(given: object) -> dict[str, int]:
    pairs = [one.partition("=") for one in cast("list[str]", given)]
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


def _screen(made: Release) -> Iterator[RenderableType]:
    from discreet.cli.show import facts, text, warning
    from discreet.formatting import format_number
    from discreet.guarantee import DIFFERENTIAL

    yield text(f"{made.name} is released: {made.rows:,} rows by {made.method}.", "bold")
    pairs = {"file": ", ".join(str(file) for file in made.files), "manifest": str(made.manifest_file)}
    pairs |= {} if made.report is None else {"report": f"{made.report} (for you alone)"}
    told = made.manifest.get("rows_are")
    yield facts(pairs | ({} if told is None else {"rows are": str(told)}) | {"promise": made.guarantee.words()})
    for sentence in made.guarantee.assumptions:
        yield text(f"  {sentence}")
    if isinstance(errors := made.manifest.get("expected_error"), dict):
        yield facts(
            {"expected error": ", ".join(f"{name} {format_number(error, 2)}" for name, error in errors.items())}
        )
    judged = {"risk": made.risk, "utility": made.utility}
    yield facts({name: said for name, said in judged.items() if said is not None})
    weaker = () if made.guarantee.model in DIFFERENTIAL else (NOT_DP,)
    yield from map(warning, (*made.warnings, *weaker))


def _swept(swept: Sweep, report: str | None) -> Iterator[RenderableType]:
    from discreet.cli.show import table, text
    from discreet.formatting import format_number

    numbers = ("k", "risk", "loss")
    made = table("method", *numbers, "", right=numbers)
    for point in swept.points:
        chosen = ("recommended" if swept.useful else "nearest") if point == swept.recommended else ""
        made.add_row(text(point.method), str(point.k), format_number(point.risk), format_number(point.loss), chosen)
    yield made
    yield text(swept.words, "bold")
    for sentence in swept.left_out:
        yield text(f"Not tried: {sentence}")
    if report is not None:
        yield text(f"The curve is in {report}, for you alone; nothing was released.")
