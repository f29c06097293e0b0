"""The report a custodian decides from: one HTML file that needs nothing else."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from html import escape
from importlib.util import find_spec
from pathlib import Path

from discreet.charts import BLUE, INK, MISSING_PACKAGES, ORANGE, clean_text
from discreet.errors import InvalidInput, Unavailable, Unsupported
from discreet.formatting import format_day, format_number, format_percent
from discreet.sdc.comparison import Comparison
from discreet.sdc.report_charts import (
    FILES,
    MAX_MAPPED_COLUMNS,
    Chart,
    build_column_chart,
    build_correlation_charts,
    build_sweep_charts,
)
from discreet.sdc.sweep import SweepResult
from discreet.sdc.table import Attribute, Table


def build_html_page(title: str, parts: Iterable[str]) -> str:
    """The whole page; its parts are HTML already."""
    body = "\n".join(part for part in parts if part)
    return PAGE_TEMPLATE.format(title=escape_text(title), body=body, ink=INK, blue=BLUE, orange=ORANGE)


def escape_text(text: object) -> str:
    """Text that cannot be read as markup."""
    return escape(clean_text(str(text), 2000))


def format_report_value(value: object) -> str:
    """A value as people write it."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {format_report_value(entry)}" for name, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(format_report_value, value))
    if isinstance(value, int | float | Fraction):
        return format_number(value)
    return str(value)


def format_report_share(share: float) -> str:
    """A share of 1 in percent."""
    return format_percent(share, 3)


def format_gallery(charts: Iterable[Chart]) -> str:
    """Pictures side by side where there is room."""
    return f'<div class="gallery">{"".join(f"<figure>{chart.to_svg()}</figure>" for chart in charts)}</div>'


def format_html_list(sentences: Iterable[str]) -> str:
    """A list with one sentence below the other."""
    return f"<ul>{''.join(f'<li>{escape_text(sentence)}</li>' for sentence in sentences)}</ul>"


def format_html_table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table that scrolls by itself where it is too wide; nothing where it has no rows."""
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape_text(name)}</th>' for name in heads)
    body = ""
    for first, *rest in rows:
        cells = "".join(f"<td>{escape_text(format_report_value(value))}</td>" for value in rest)
        body += f'<tr><th scope="row">{escape_text(format_report_value(first))}</th>{cells}</tr>'
    caption = escape_text(caption)
    table = f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide" role="region" aria-label="{caption}" tabindex="0">{table}</div>'


PAGE_TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{title}</title>
<style>
:root {{ color-scheme: light }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: {ink}; margin: 0 auto; padding: 1rem; max-width: 68rem }}
h1 {{ font-size: 1.6rem; line-height: 1.2; overflow-wrap: anywhere }}
h2 {{ font-size: 1.2rem; margin: 2rem 0 .5rem }}
.keep {{ border: 2px solid {ink}; padding: .5rem .75rem; font-weight: 600 }}
.verdict {{ border-left: 4px solid {blue}; padding-left: 1rem }}
.warning {{ border-left: 4px solid {orange}; padding-left: .6rem }}
dl {{ display: flex; flex-wrap: wrap; gap: .5rem 2rem }}
dt {{ font-size: .85rem; color: #4b5563 }}
dd {{ margin: 0; overflow-wrap: anywhere }}
.gallery {{ display: flex; flex-wrap: wrap; gap: 1rem }}
figure {{ margin: 0; break-inside: avoid }}
svg {{ max-width: 100%; height: auto; overflow: visible }}
.wide {{
  overflow-x: auto; margin: 1rem 0;
  background: /* a shadow at each side where there is more to see */
    linear-gradient(to right, white 40%, transparent) left / 3rem 100% local,
    linear-gradient(to left, white 40%, transparent) right / 3rem 100% local,
    linear-gradient(to right, #9ca3af, transparent) left / 1rem 98% scroll,
    linear-gradient(to left, #9ca3af, transparent) right / 1rem 98% scroll;
  background-repeat: no-repeat;
}}
table {{ border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums }}
caption {{ text-align: left; font-weight: 600 }}
th, td {{ padding: .2rem .7rem .2rem 0; text-align: right; border-bottom: 1px solid #d1d5db; font-weight: normal }}
td {{ white-space: nowrap }}
th:first-child {{ text-align: left }}
thead th {{ vertical-align: bottom; color: #4b5563 }}
@media print {{
  body {{ font-size: 11px; padding: 0 }}
  .wide {{ overflow: visible; background: none }}
  td {{ white-space: normal }}
  h2 {{ break-after: avoid }}
  tr {{ break-inside: avoid }}
}}
</style>
</head>
<body>
{body}
</body>
</html>
"""


ReleaseFacts = Mapping[str, object]
"""The facts about a release before it is measured, in the order in which they are shown. `title`, `guarantee` (words),
`assumptions` and `warnings` (sentences) have places of their own on the page; all else is listed."""

MAX_PICTURES = 12
CUSTODIAN_NOTICE = "For the custodian: this page shows figures of the original records; it is not to be released."
NOT_PROMISED = (
    "The risks on this page were measured against the intruders it names; another intruder may do better.",
    "One who knows some of the people in a group learns more about the others in it.",
    "Where quasi-identifiers stay as they were, records can be matched; hidden is whose confidential value is whose.",
    "Two releases of the same records tell more together than each of them alone.",
    "What was measured as utility says little about uses that look at other things.",
)
NOT_PROMISED_IF_BOUNDED = (
    "What is true of many people can be learnt, and may be guessed of one of them who is not in the data at all.",
    "Several releases, and answers, lose their epsilons together: the ledger adds them up.",
    "What was measured as utility says little about uses that look at other things; it was measured on the records.",
)
"""The caveats where the risk is bounded rather than measured."""
FEATURED_FACTS = ("title", "guarantee", "assumptions", "warnings")


def check_report_file(path: str | Path) -> Path:
    """The file for a report, refused at once where none could be written there."""
    target = Path(path)
    if target.suffix.lower() not in {".html", ".htm"}:
        raise InvalidInput(f"a report's name ends in .html; {target.name[:40]!r} does not")
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder for the report {target.name[:40]!r} does not exist; make it first")
    if find_spec("vl_convert") is None:
        raise Unsupported(MISSING_PACKAGES)
    return target


def write_report(
    path: str | Path,
    facts: ReleaseFacts,
    comparison: Comparison,
    original: Table,
    released: Table,
    sweep: SweepResult | None = None,
) -> Path:
    """Write the page, whole or not at all."""
    target = check_report_file(path)
    page = build_report_html(facts, comparison, original, released, sweep)
    try:
        with tempfile.TemporaryDirectory(prefix=".discreet-", dir=target.parent) as name:
            temporary = Path(name) / "report"
            temporary.touch(0o600)  # figures of the original records are not for every user of the machine
            temporary.write_text(page, encoding="utf-8")
            os.replace(temporary, target)
    except OSError:
        raise Unavailable(f"the report {target.name[:40]!r} cannot be written there; choose another place") from None
    return target


def build_report_json(
    facts: ReleaseFacts, comparison: Comparison, sweep: SweepResult | None = None
) -> dict[str, object]:
    """The content of the page, machine-readable."""
    return {
        "notice": CUSTODIAN_NOTICE,
        "facts": _to_json_value(facts),
        "verdict": {"risk": comparison.risk, "utility": comparison.utility},
        "measures": comparison.to_json(),
        "sweep": None if sweep is None else sweep.to_json(),
        "not_promised": _list_caveats(facts, comparison),
    }


def _list_caveats(facts: ReleaseFacts, comparison: Comparison) -> list[str]:
    return [*_list_sentences(facts, "assumptions"), *(NOT_PROMISED_IF_BOUNDED if comparison.bounded else NOT_PROMISED)]


def _to_json_value(value: object) -> object:
    """A fact as JSON holds it; an exact number, and one that is not finite, by its text."""
    if isinstance(value, Mapping):
        return {str(name): _to_json_value(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_value(entry) for entry in value]
    finite = isinstance(value, float) and math.isfinite(value)
    return value if finite or value is None or isinstance(value, str | int) else format_report_value(value)


def _list_sentences(facts: ReleaseFacts, name: str) -> list[str]:
    sentences = facts.get(name) or ()
    return [sentences] if isinstance(sentences, str) else [str(sentence) for sentence in sentences]  # type: ignore[attr-defined]


def build_report_html(
    facts: ReleaseFacts, comparison: Comparison, original: Table, released: Table, sweep: SweepResult | None = None
) -> str:
    """The page as text: verdicts and promise, pictures, tables, what is not promised."""
    title = str(facts.get("title", "A protected release"))
    parts = [
        f'<p class="keep" role="note">{escape_text(CUSTODIAN_NOTICE)}</p>',
        f"<h1>{escape_text(title)}</h1>",
        _format_verdict(facts, comparison),
        _format_columns(comparison, original, released),
        _format_correlations(comparison),
        _format_sweep(sweep) if sweep is not None else "",
        "<h2>Utility in figures</h2>",
        *_build_utility_tables(comparison, original),
        *(() if comparison.bounded else ("<h2>Risk in figures</h2>", *_build_risk_tables(comparison))),
        "<h2>What is not promised</h2>",
        format_html_list(_list_caveats(facts, comparison)),
    ]
    return build_html_page(title, parts)


def _format_verdict(facts: ReleaseFacts, comparison: Comparison) -> str:
    """The two verdicts, the promise in words, the warnings, and what was done."""
    sentences = {"Risk": comparison.risk, "Utility": comparison.utility, "Promise": facts.get("guarantee")}
    verdicts = "".join(
        f"<p><strong>{name}.</strong> {escape_text(words)}</p>" for name, words in sentences.items() if words
    )
    warnings = "".join(f'<p class="warning">{escape_text(words)}</p>' for words in _list_sentences(facts, "warnings"))
    details = "".join(
        f"<div><dt>{escape_text(name)}</dt><dd>{escape_text(format_report_value(value))}</dd></div>"
        for name, value in facts.items()
        if name not in FEATURED_FACTS and value is not None
    )
    return f'<section class="verdict">{verdicts}{warnings}</section><dl>{details}</dl>'


def _format_columns(comparison: Comparison, original: Table, released: Table) -> str:
    """Pictures of the columns whose distributions changed most, and where the others are, in words."""
    common = [name for name in original if name in released.attributes]
    most_changed = sorted(common, key=lambda name: -comparison.marginals.get(name, 0.0))[:MAX_PICTURES]
    charts = {name: build_column_chart(original[name], released[name]) for name in common if name in most_changed}
    unpictured = [name for name in common if charts.get(name) is None]
    notes = {
        "Not pictured, but in the tables": [name for name in unpictured if name in comparison.marginals],
        "Gone, with one value in every row": comparison.gone,
        "Now values of another kind, and not compared": [name for name in unpictured if name in comparison.changed],
        "Not in the released table": [name for name in original if name not in released.attributes],
    }
    words = "".join(
        f"<p>{escape_text(note)}: {escape_text(', '.join(names))}.</p>" for note, names in notes.items() if names
    )
    return "<h2>Columns before and after</h2>" + format_gallery(chart for chart in charts.values() if chart) + words


def _format_correlations(comparison: Comparison) -> str:
    maps = build_correlation_charts(comparison.numeric, *comparison.correlations)
    has_more = len(comparison.numeric) > MAX_MAPPED_COLUMNS
    note = f"<p>Of the first {MAX_MAPPED_COLUMNS} numeric columns.</p>" if has_more else ""
    return f"<h2>Correlations, in hundredths</h2>{note}{format_gallery(maps)}" if maps else ""


def _format_sweep(sweep: SweepResult) -> str:
    heads = ("method", "k", "risk above chance", "loss", "linkage, %", "IL1s", "score")
    rows = [
        (point.method, point.k, format_report_share(point.risk), point.loss, point.linkage, point.il1s, point.score)
        for point in sweep.points
    ]
    charts = format_gallery(build_sweep_charts(sweep))
    recommendation = f"<h2>Choice of k</h2><p>{escape_text(sweep.words)} It is ringed.</p>{charts}"
    left_out = format_html_list(["Left out: " + reason for reason in sweep.left_out]) if sweep.left_out else ""
    return recommendation + format_html_table("Every method at every k", heads, rows) + left_out


def _build_utility_tables(comparison: Comparison, original: Table) -> Iterator[str]:
    summary = [
        ("rows", comparison.rows),
        ("columns with values that can be compared", f"{len(comparison.marginals)} of {len(original.attributes)}"),
        ("information loss IL1s", comparison.il1s),
        ("sum of squared errors", comparison.sse if comparison.numeric or comparison.sse else None),
        ("mean change of correlations", comparison.correlation_change),
        ("standard deviation of that change", comparison.correlation_change_sd),
        ("mean change of the associations of categories", comparison.association_change),
        ("how well a model tells the two files apart, 0 to 1", comparison.propensity),
    ]
    yield format_html_table("All columns together", ("measure", "value"), summary)
    columns = [
        (name, distance, comparison.sse_of.get(name), *_format_moments(comparison, original[name]))
        for name, distance in comparison.marginals.items()
    ]
    moments = [f"{moment} {file}" for moment in ("mean", "deviation") for file in FILES]
    yield format_html_table("Each column", ("column", "distance of distributions", "squared errors", *moments), columns)
    lines = []
    for name, levels in comparison.quantiles.items():
        column = original[name]
        pairs = [[_format_number_or_date(value, column) for value in (before, after)] for _, before, after in levels]
        lines.append((name, *(" → ".join(pair) for pair in pairs)))
    levels = next(iter(comparison.quantiles.values()), ())
    heads = ("column", *(format_percent(level) for level, *_ in levels))
    yield format_html_table("Quantiles, before → after", heads, lines)


def _format_moments(comparison: Comparison, column: Attribute) -> list[object]:
    if column.name not in comparison.means:
        return [None] * 4
    means = [_format_number_or_date(mean, column) for mean in comparison.means[column.name]]
    return [*means, *map(math.sqrt, comparison.variances[column.name])]


def _format_number_or_date(value: float, column: Attribute) -> str:
    """A number of this column, a date where its values are."""
    return format_day(value) if column.value_type == "date" and math.isfinite(value) else format_report_value(value)


def _build_risk_tables(comparison: Comparison) -> Iterator[str]:
    unique = [f"{format_report_share(share)} {file}" for share, file in zip(comparison.unique, FILES, strict=True)]
    linkage_share = None if comparison.linkage is None else format_report_share(comparison.linkage / 100)
    summary = [
        ("records that lead back to their own", linkage_share),
        ("the same by chance", format_report_share(comparison.linkage_by_chance / 100)),
        ("rows whose quasi-identifiers nobody else has", ", ".join(unique)),
    ]
    yield format_html_table("Records", ("measure", "value"), summary)
    disclosures = []
    for name, share in comparison.disclosure.items():
        shares = share, comparison.disclosure_by_chance[name], comparison.disclosure_excess[name]
        disclosures.append((name, *map(format_report_share, shares)))
    heads: tuple[str, ...] = (
        "column",
        "given away",
        "the same by chance",
        "hidden worst: of those whom chance would miss",
    )
    yield format_html_table("Confidential values, to one who knows all quasi-identifiers", heads, disclosures)
    knowledge = [
        (name, j, format_report_share(chance)) for name, line in comparison.knows.items() for j, chance in line
    ]
    heads = ("column", "others known", "chance of the value")
    yield format_html_table("To one who knows others of the group", heads, knowledge)
    earlier = [(name, fewest, format_report_share(share)) for name, fewest, share in comparison.intersection]
    heads = ("release", "least rows in common", "rows with fewer than k")
    yield format_html_table("Beside earlier releases", heads, earlier)
