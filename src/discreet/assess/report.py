"""The page a custodian decides from: one file that needs nothing else, with pictures and every figure in words."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from discreet.assess.charts import FILES, MAPPED, column_chart, correlation_charts, sweep_charts
from discreet.assess.comparison import Comparison
from discreet.assess.page import gallery, html_page, listed, percent, said, table, told
from discreet.assess.sweep import Sweep
from discreet.errors import InvalidInput, Unavailable, Unsupported
from discreet.formatting import format_day, format_percent
from discreet.microdata.table import Attribute, Table
from discreet.pictures import MISSING

Facts = Mapping[str, object]
"""What is known of a release before it is measured, in the order in which it is told. `title`, `guarantee` (words),
`assumptions` and `warnings` (sentences) have places of their own on the page; all else is listed."""

PICTURED = 12
KEEP = "For the custodian: this page shows figures of the original records; it is not to be released."
NOT_PROMISED = (
    "The risks on this page were measured against the intruders it names; another intruder may do better.",
    "One who knows some of the people in a group learns more about the others in it.",
    "Where quasi-identifiers stay as they were, records can be matched; hidden is whose confidential value is whose.",
    "Two releases of the same records tell more together than each of them alone.",
    "What was measured as utility says little about uses that look at other things.",
)
BOUNDED = (
    "What is true of many people can be learnt, and may be guessed of one of them who is not in the data at all.",
    "Several releases, and answers, lose their epsilons together: the ledger adds them up.",
    "What was measured as utility says little about uses that look at other things; it was measured on the records.",
)
"""What is not promised where the risk is bounded rather than measured."""
APART = ("title", "guarantee", "assumptions", "warnings")


def check_report_path(path: str | Path) -> Path:
    """Where a report goes, refused at once where none could be written there."""
    target = Path(path)
    if target.suffix.lower() not in {".html", ".htm"}:
        raise InvalidInput(f"a report's name ends in .html; {target.name[:40]!r} does not")
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder for the report {target.name[:40]!r} does not exist; make it first")
    if find_spec("vl_convert") is None:
        raise Unsupported(MISSING)
    return target


def write_report(
    path: str | Path,
    facts: Facts,
    comparison: Comparison,
    original: Table,
    released: Table,
    sweep: Sweep | None = None,
) -> Path:
    """Write the page, whole or not at all."""
    target = check_report_path(path)
    page = report_html(facts, comparison, original, released, sweep)
    try:
        with tempfile.TemporaryDirectory(prefix=".discreet-", dir=target.parent) as name:
            made = Path(name) / "report"
            made.touch(0o600)  # figures of the original records are not for every user of the machine
            made.write_text(page, encoding="utf-8")
            os.replace(made, target)
    except OSError:
        raise Unavailable(f"the report {target.name[:40]!r} cannot be written there; choose another place") from None
    return target


def report_json(facts: Facts, comparison: Comparison, sweep: Sweep | None = None) -> dict[str, object]:
    """What the page tells, machine-readable."""
    return {
        "notice": KEEP,
        "facts": _plain(facts),
        "verdict": {"risk": comparison.risk, "utility": comparison.utility},
        "measures": comparison.to_json(),
        "sweep": None if sweep is None else sweep.to_json(),
        "not_promised": _not_promised(facts, comparison),
    }


def _not_promised(facts: Facts, comparison: Comparison) -> list[str]:
    return [*_sentences(facts, "assumptions"), *(BOUNDED if comparison.bounded else NOT_PROMISED)]


def _plain(value: object) -> object:
    """A fact as JSON holds it; an exact number, and one that is not finite, by its text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    finite = isinstance(value, float) and math.isfinite(value)
    return value if finite or value is None or isinstance(value, str | int) else told(value)


def _sentences(facts: Facts, name: str) -> list[str]:
    given = facts.get(name) or ()
    return [given] if isinstance(given, str) else [str(each) for each in given]  # type: ignore[attr-defined]


def report_html(
    facts: Facts, comparison: Comparison, original: Table, released: Table, sweep: Sweep | None = None
) -> str:
    """The page as text: verdicts and promise, pictures, tables, what is not promised."""
    title = str(facts.get("title", "A protected release"))
    parts = [
        f'<p class="keep" role="note">{said(KEEP)}</p>',
        f"<h1>{said(title)}</h1>",
        _verdict(facts, comparison),
        _columns(comparison, original, released),
        _correlations(comparison),
        _swept(sweep) if sweep is not None else "",
        "<h2>Utility in figures</h2>",
        *_utility_tables(comparison, original),
        *(() if comparison.bounded else ("<h2>Risk in figures</h2>", *_risk_tables(comparison))),
        "<h2>What is not promised</h2>",
        listed(_not_promised(facts, comparison)),
    ]
    return html_page(title, parts)


def _verdict(facts: Facts, comparison: Comparison) -> str:
    """The two verdicts, the promise in words, the warnings, and what was done."""
    sentences = {"Risk": comparison.risk, "Utility": comparison.utility, "Promise": facts.get("guarantee")}
    judged = "".join(f"<p><strong>{name}.</strong> {said(words)}</p>" for name, words in sentences.items() if words)
    warned = "".join(f'<p class="warning">{said(words)}</p>' for words in _sentences(facts, "warnings"))
    rest = "".join(
        f"<div><dt>{said(name)}</dt><dd>{said(told(value))}</dd></div>"
        for name, value in facts.items()
        if name not in APART and value is not None
    )
    return f'<section class="verdict">{judged}{warned}</section><dl>{rest}</dl>'


def _columns(comparison: Comparison, original: Table, released: Table) -> str:
    """Pictures of the columns whose distributions changed most, and where the others are, in words."""
    common = [name for name in original if name in released.attributes]
    changed = sorted(common, key=lambda name: -comparison.marginals.get(name, 0.0))[:PICTURED]
    drawn = {name: column_chart(original[name], released[name]) for name in common if name in changed}
    unseen = [name for name in common if drawn.get(name) is None]
    notes = {
        "Not pictured, but in the tables": [name for name in unseen if name in comparison.marginals],
        "Gone, with one value in every row": comparison.gone,
        "Now values of another kind, and not compared": [name for name in unseen if name in comparison.changed],
        "Not in the released table": [name for name in original if name not in released.attributes],
    }
    words = "".join(f"<p>{said(note)}: {said(', '.join(names))}.</p>" for note, names in notes.items() if names)
    return "<h2>Columns before and after</h2>" + gallery(chart for chart in drawn.values() if chart) + words


def _correlations(comparison: Comparison) -> str:
    maps = correlation_charts(comparison.numeric, *comparison.correlations)
    some = f"<p>Of the first {MAPPED} numeric columns.</p>" if len(comparison.numeric) > MAPPED else ""
    return f"<h2>Correlations, in hundredths</h2>{some}{gallery(maps)}" if maps else ""


def _swept(sweep: Sweep) -> str:
    heads = ("method", "k", "risk above chance", "loss", "linkage, %", "IL1s", "score")
    rows = [
        (point.method, point.k, percent(point.risk), point.loss, point.linkage, point.il1s, point.score)
        for point in sweep.points
    ]
    chosen = f"<h2>Choice of k</h2><p>{said(sweep.words)} It is ringed.</p>{gallery(sweep_charts(sweep))}"
    left_out = listed(["Left out: " + why for why in sweep.left_out]) if sweep.left_out else ""
    return chosen + table("Every method at every k", heads, rows) + left_out


def _utility_tables(comparison: Comparison, original: Table) -> Iterator[str]:
    whole = [
        ("rows", comparison.rows),
        ("columns with values that can be compared", f"{len(comparison.marginals)} of {len(original.attributes)}"),
        ("information loss IL1s", comparison.il1s),
        ("sum of squared errors", comparison.sse if comparison.numeric or comparison.sse else None),
        ("mean change of correlations", comparison.correlation_change),
        ("standard deviation of that change", comparison.correlation_change_sd),
        ("mean change of the associations of categories", comparison.association_change),
        ("how well a model tells the two files apart, 0 to 1", comparison.propensity),
    ]
    yield table("All columns together", ("measure", "value"), whole)
    columns = [
        (name, distance, comparison.sse_of.get(name), *_moments(comparison, original[name]))
        for name, distance in comparison.marginals.items()
    ]
    moments = [f"{of} {file}" for of in ("mean", "deviation") for file in FILES]
    yield table("Each column", ("column", "distance of distributions", "squared errors", *moments), columns)
    lines = [
        (name, *(f"{_read(before, original[name])} → {_read(after, original[name])}" for _, before, after in levels))
        for name, levels in comparison.quantiles.items()
    ]
    levels = next(iter(comparison.quantiles.values()), ())
    yield table("Quantiles, before → after", ("column", *(format_percent(level) for level, *_ in levels)), lines)


def _moments(comparison: Comparison, column: Attribute) -> list[object]:
    if column.name not in comparison.means:
        return [None] * 4
    means = [_read(mean, column) for mean in comparison.means[column.name]]
    return [*means, *map(math.sqrt, comparison.variances[column.name])]


def _read(value: float, column: Attribute) -> str:
    """A number of this column, a date where its values are."""
    return format_day(value) if column.look == "date" and math.isfinite(value) else told(value)


def _risk_tables(comparison: Comparison) -> Iterator[str]:
    unique = [f"{percent(share)} {file}" for share, file in zip(comparison.unique, FILES, strict=True)]
    linked = None if comparison.linkage is None else percent(comparison.linkage / 100)
    whole = [
        ("records that lead back to their own", linked),
        ("the same by chance", percent(comparison.linkage_by_chance / 100)),
        ("rows whose quasi-identifiers nobody else has", ", ".join(unique)),
    ]
    yield table("Records", ("measure", "value"), whole)
    near = [
        (name, *map(percent, (share, comparison.disclosure_by_chance[name], comparison.disclosure_excess[name])))
        for name, share in comparison.disclosure.items()
    ]
    heads = ("column", "given away", "the same by chance", "hidden worst: of those whom chance would miss")
    yield table("Confidential values, to one who knows all quasi-identifiers", heads, near)
    known = [(name, j, percent(chance)) for name, line in comparison.knows.items() for j, chance in line]
    yield table("To one who knows others of the group", ("column", "others known", "chance of the value"), known)
    earlier = [(name, least, percent(share)) for name, least, share in comparison.intersection]
    yield table("Beside earlier releases", ("release", "least rows in common", "rows with fewer than k"), earlier)
