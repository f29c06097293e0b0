"""A release compared with its original: all measures, a sentence on risk, one on utility, and the thesis's score.

The bars between small, moderate and high are written here, once: a risk is judged by how much is learnt of what chance
leaves open; a loss by the mean change of correlations and of associations, by the greatest move of a distribution, by
how well a model tells the files apart, and by columns of which nothing is left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np

from discreet.errors import InvalidInput
from discreet.formatting import format_decimals, format_number, format_percent
from discreet.json_fields import JsonWritable
from discreet.numeric import as_int
from discreet.priors.posterior import Array
from discreet.sdc import utility
from discreet.sdc.disclosure_risk import Intruder, measure_intersections, read_group_labels
from discreet.sdc.methods.record_distance import Scale
from discreet.sdc.table import ProtectedTable, Table, read_table
from discreet.sdc.utility import BeforeAfter, compute_association_change, compute_propensity, match_tables

RISK_BARS = (0.05, 0.2)
CORRELATION_BARS = (0.02, 0.1)
ASSOCIATION_BARS = (0.02, 0.1)
MARGINAL_BARS = (0.05, 0.2)
PROPENSITY_BARS = (0.05, 0.2)
"""Up to the first it is little, above the second much."""
LOST_COLUMN_BARS = (0.0, 0.5)
"""One column that is gone is much."""

JudgedFigure = tuple[float, tuple[float, float]]
"""A figure and its two bars."""

UNMEASURED_HINT = "give the rows side by side, or name confidential columns"
RISK_GRADES = ("a small risk", "a moderate risk", "a high risk")
LOSS_GRADES = (
    "most analyses will come out much as on the original",
    "broad findings will hold and fine ones may not",
    "findings may well differ from those on the original",
)


def format_risk(comparison: Comparison) -> str:
    """How many of 1,000 people an intruder who knows their quasi-identifiers reaches, and how many by chance.

    It is judged by the confidential column of which he learns most beyond chance, and by the matched records where
    there is none, or one that could not be measured; a match by itself gives away no value that was hidden.
    """
    parts, grades, linkage_grade = [], [0], 0
    unmeasured = ""
    if comparison.unmeasured:
        unmeasured = f"; what is given away of {_format_names(comparison.unmeasured)} could not be measured"
    if comparison.linkage is not None:
        share, by_chance = comparison.linkage / 100, comparison.linkage_by_chance / 100
        parts.append(_format_people_reached("can be matched to their record", share, by_chance))
        linkage_grade = _grade_figure(compute_excess_over_chance(share, by_chance), RISK_BARS)
    if comparison.disclosure_excess:
        column, excess = max(comparison.disclosure_excess.items(), key=lambda entry: entry[1])
        grades.append(_grade_figure(excess, RISK_BARS))
        parts.append(_format_disclosure(comparison, column, excess))
    if not parts:
        return f"The risk could not be measured{unmeasured}: {UNMEASURED_HINT}."
    if comparison.unmeasured or not comparison.disclosure_excess:
        grades.append(linkage_grade)
    # The grade may be of these values alone, where that of the records would be graver.
    note = " for these values, though whose record is whose can be told" if linkage_grade > max(grades) else ""
    subject = "Of 1,000 people whose quasi-identifiers an intruder knows"
    words = f"{RISK_GRADES[max(grades)]}{note}{_format_intersection(comparison)}"
    return f"{subject}, {' and '.join(parts)}{unmeasured}: {words}."


def _format_disclosure(comparison: Comparison, column: str, excess: float) -> str:
    chances = comparison.disclosure[column], comparison.disclosure_by_chance[column]
    value_name = f"a value near their {column[:40]}" if column in comparison.near else f"their {column[:40]}"
    reached = _format_people_reached(f"give away {value_name}", *chances)
    if not excess:
        return reached
    people = _format_people(100, excess)
    return f"{reached}; where it is hidden worst, {people} of every 100 whom chance would miss are found out"


def format_utility(comparison: Comparison) -> str:
    """How far values, correlations and distributions moved, and what that is likely to mean."""
    uncompared = _format_uncompared(comparison)
    if not comparison.marginals:
        verdict = LOSS_GRADES[2] if comparison.gone else "the loss could not be measured"
        return f"No column's values can be compared with those of the original{uncompared}: {verdict}."
    name, greatest_change = max(comparison.marginals.items(), key=lambda entry: entry[1])
    shape = "no distribution changed"
    if greatest_change:
        shape = f"the distribution of {name[:40]} changed most, by {format_percent(greatest_change, 2)}"
    propensity_text = f"a model tells the files apart to {format_percent(comparison.propensity, 2)}"
    mean_changes = _format_mean_changes(comparison)
    start = f"On average {mean_changes}; " if mean_changes else ""
    grades = [_grade_figure(*measured) for measured in collect_losses(comparison).values()]
    worst = max(1 if uncompared else 0, *grades)
    words = f"{start}{shape}, and {propensity_text}{uncompared}: {LOSS_GRADES[worst]}."
    return words[0].upper() + words[1:]


def _format_mean_changes(comparison: Comparison) -> str:
    changes = []
    if comparison.il1s is not None:
        changes.append(("values", f"by {format_number(math.sqrt(2) * comparison.il1s, 2)} standard deviations"))
    if comparison.correlation_change is not None:
        changes.append(("correlations", f"by {format_number(comparison.correlation_change, 2)}"))
    if comparison.association_change is not None:
        changes.append(("associations of categories", f"by {format_number(comparison.association_change, 2)}"))
    phrases = [f"{subject} {'' if place else 'moved '}{amount}" for place, (subject, amount) in enumerate(changes)]
    return " and ".join([", ".join(phrases[:-1]), *phrases[-1:]] if len(phrases) > 1 else phrases)


def collect_losses(comparison: Comparison) -> dict[str, JudgedFigure]:
    """The figures that a loss is judged by, of those that could be measured."""
    figures = {
        "correlations": (comparison.correlation_change, CORRELATION_BARS),
        "associations of categories": (comparison.association_change, ASSOCIATION_BARS),
        "distributions of columns": (max(comparison.marginals.values(), default=1.0), MARGINAL_BARS),
        "how the files are told apart": (comparison.propensity, PROPENSITY_BARS),
        "columns that are gone": (float(len(comparison.gone)), LOST_COLUMN_BARS),
    }
    return {name: (figure, bars) for name, (figure, bars) in figures.items() if figure is not None}


def find_worst_loss(comparison: Comparison) -> tuple[str, float]:
    """The gravest of the losses and how large it is, 1 being where findings may well differ."""
    relative_losses = {name: figure / bars[1] for name, (figure, bars) in collect_losses(comparison).items()}
    return max(relative_losses.items(), key=lambda entry: entry[1])


def _format_uncompared(comparison: Comparison) -> str:
    """The columns that these figures leave out."""
    are = "is" if len(comparison.gone) == 1 else "are"
    text = f"; {_format_names(comparison.gone)} {are} gone (one value in every row)" if comparison.gone else ""
    if comparison.changed:
        text += f"; {_format_names(comparison.changed)} became coarser, which these figures do not count"
    if comparison.apart:
        text += f"; how {_format_names(comparison.apart)} goes with the rest is known only up to groups, if at all"
    return text


def _format_names(names: tuple[str, ...]) -> str:
    return ", ".join(name[:40] for name in names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def format_comparison(comparison: Comparison) -> dict[str, str]:
    """The two sentences and the chief figures, as lines for a screen."""
    lines = {"risk": format_risk(comparison), "utility": format_utility(comparison), "rows": f"{comparison.rows:,}"}
    if comparison.linkage is not None:
        lines["records matched"] = _format_beside_chance(comparison.linkage / 100, comparison.linkage_by_chance / 100)
    for name, share in comparison.disclosure.items():
        by_chance = comparison.disclosure_by_chance[name]
        lines[f"{name[:40]} given away"] = _format_beside_chance(share, by_chance)
        worst = f"{format_percent(comparison.disclosure_excess[name], 3)} of those whom chance would miss"
        lines[f"{name[:40]} given away where hidden worst"] = worst
    before, after = (format_percent(share, 3) for share in comparison.unique)
    lines["unique rows"] = f"{before} before, {after} after"
    if comparison.il1s is not None:
        lines["information loss IL1s"] = format_number(comparison.il1s, 3)
    if comparison.correlation_change is not None:
        lines["correlations change by"] = format_number(comparison.correlation_change, 3)
    if comparison.association_change is not None:
        lines["associations change by"] = format_number(comparison.association_change, 3)
    lines["files told apart"] = f"{format_number(comparison.propensity, 3)} (0 not at all, 1 wholly)"
    return lines


def score(sse_0: float, rl_0: float, sse: float, rl: float) -> float:
    """Compute the thesis's score of a release against a baseline; above 1 the gain outweighs the loss.

    SSE_f = sqrt(SSE_0 / SSE) and RL_f = RL_0 / RL are both better when larger. The thesis prints Score = SSE_f / RL_f,
    but its tables hold the product (Table 6.1, k = 2, epsilon 0.01: 0.014 and 386.92 give 5.37), and so does this.

    Args:
        sse_0: The squared error of the baseline.
        rl_0: The record linkage of the baseline.
        sse: The squared error of the release.
        rl: The record linkage of the release.

    Returns:
        SSE_f times RL_f.

    Raises:
        InvalidInput: A number is below 0, or one of the release is 0.

    Example:
        >>> from discreet.sdc import score
        >>> score(sse_0=4, rl_0=30, sse=16, rl=10)  # half as good in error, three times as good in linkage
        1.5
    """
    figures = (sse_0, rl_0, sse, rl)
    if not all(isinstance(figure, Real) and 0 <= figure < math.inf for figure in figures) or sse == 0 or rl == 0:
        raise InvalidInput("a score needs errors and linkages that are at least 0, and above 0 for the release")
    return math.sqrt(sse_0 / sse) * (rl_0 / rl)


def compute_excess_over_chance(share: float, by_chance: float) -> float:
    """The share learnt of all that chance leaves open; 0 where it leaves nothing."""
    return max(0.0, (share - by_chance) / (1 - by_chance)) if by_chance < 1 else 0.0


def _format_beside_chance(share: float, by_chance: float) -> str:
    return f"{format_percent(share, 3)} ({format_percent(by_chance, 2)} by chance)"


def _format_people_reached(event: str, share: float, by_chance: float) -> str:
    return f"{_format_people(1000, share, 'about ')} {event} ({_format_people(1000, by_chance)} by chance)"


def _format_people(people: int, share: float, about: str = "") -> str:
    count = people * share
    if count == 0:
        return "none"
    if count < 1:
        return "fewer than 1"
    return f"{about if float(count).is_integer() else 'about '}{format_decimals(count, 0)}"


def _format_intersection(comparison: Comparison) -> str:
    """The effect of the worst of the earlier releases."""
    worst = min(comparison.intersection, key=lambda line: line[1], default=None)
    if worst is None:
        return ""
    effect = "leaves somebody alone" if worst[1] == 1 else f"hides somebody among only {worst[1]:,} rows"
    return f"; laid over the release {worst[0][:40]!r} it {effect}"


def _grade_figure(figure: float, bars: tuple[float, float]) -> int:
    return sum(figure > bar for bar in bars)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(JsonWritable):
    """Utility and risk; None where it cannot be measured, as what needs the two files' rows side by side."""

    rows: int
    numeric: tuple[str, ...]
    """The columns that correlations, means, variances and quantiles are of."""
    sse: float | None
    sse_of: Mapping[str, float]
    il1s: float | None
    """The mean change of numbers over sqrt(2) standard deviations; a number in one file only is one deviation off."""
    means: Mapping[str, BeforeAfter]
    variances: Mapping[str, BeforeAfter]
    quantiles: Mapping[str, tuple[tuple[float, float, float], ...]]
    """The level, the quantile before and the one after, for each numeric column."""
    correlations: tuple[Array, Array]
    correlation_change: float | None
    """The mean of |after - before| over the pairs of numeric columns; `correlation_change_sd` is its deviation."""
    correlation_change_sd: float | None
    association_change: float | None
    """The same with every categorical column: the mean change of correlation ratios and of Cramer's V."""
    marginals: Mapping[str, float]
    """Between 0 and 1: the greatest difference of the distribution functions, or half the sum for nominal columns."""
    propensity: float
    """How well a model tells the two files apart: 0 not at all, 1 wholly."""
    linkage: float | None
    """The share of original records, in percent, that the nearest released record leads back to; ties are shared."""
    linkage_by_chance: float
    disclosure: Mapping[str, float]
    """For each confidential column: how likely an intruder who knows all quasi-identifiers comes near its value."""
    disclosure_by_chance: Mapping[str, float]
    disclosure_excess: Mapping[str, float]
    """The share that an intruder learns of what chance leaves open, (disclosure - chance) / (1 - chance): about
    everybody, or about those who hold one value, whichever is most."""
    unique: BeforeAfter
    """The share of rows whose quasi-identifiers nobody else has."""
    knows: Mapping[str, tuple[tuple[int, float], ...]]
    """For each confidential column: j, and the chance that one who knows j others of a group has for the last value."""
    intersection: tuple[tuple[str, int, float], ...]
    """For each earlier release: its name, the least number of rows left in common, the share left with under k."""
    k: int | None = None
    unmeasured: tuple[str, ...] = ()
    """Confidential columns of which nobody can tell what an intruder comes near."""
    changed: tuple[str, ...] = ()
    """Columns in both files whose values cannot be compared one by one, as numbers that became intervals."""
    gone: tuple[str, ...] = ()
    """Columns in both files that varied, and have one value in every released row."""
    apart: tuple[str, ...] = ()
    """Columns that are not on the released rows, as those of Anatomy's other table."""
    near: tuple[str, ...] = ()
    """Confidential numbers: a value near theirs counts as theirs, where of other columns only the same one does."""
    bounded: str | None = None
    """Where the risk is bounded by how the file was made, and so not measured: by what, in a sentence."""

    _json_fields = """rows numeric sse sse_of il1s means variances quantiles correlations correlation_change
        correlation_change_sd association_change marginals propensity linkage linkage_by_chance disclosure
        disclosure_by_chance disclosure_excess unique knows intersection k unmeasured changed gone apart near bounded
        verdict.risk=risk verdict.utility=utility"""

    @property
    def risk(self) -> str:
        """The risk in a plain sentence."""
        return self.bounded or format_risk(self)

    @property
    def utility(self) -> str:
        """The utility in a plain sentence."""
        return format_utility(self)

    @property
    def summary(self) -> dict[str, str]:
        """The chief figures in words."""
        return format_comparison(self)

    def to_json(self) -> dict[str, object]:
        """Machine-readable; null for what is not known."""
        return {name: _to_json_value(value) for name, value in super(Comparison, self).to_json().items()}


def compare_release(
    original: object,
    released: object,
    quasi: Sequence[str] = (),
    confidential: Sequence[str] = (),
    groups: object = None,
    aligned: bool = True,
    scale: Scale = "domain",
    tolerance: float = 0.05,
    earlier: object = (),
    k: int | None = None,
    second: object = None,
) -> Comparison:
    """Measure utility and risk of a release on the two files, independently of the method that made it.

    Args:
        original: The original table.
        released: The released table, or a `ProtectedTable`, which brings its own groups and second table.
        quasi: The quasi-identifiers; by default all common columns that are not confidential.
        confidential: The confidential columns.
        groups: The labels of the released rows that hide one another, for all columns or by column.
        aligned: Whether row i of the release was made of row i of the original, of those that were kept; otherwise
            measures that need this are None.
        scale: What columns are divided by before distances are taken, as in `microaggregate`.
        tolerance: The distance in standard deviations within which a number is near another.
        earlier: The groups of earlier releases of the same rows, by name.
        k: The k that intersections of groups are held to.
        second: Anatomy's other table.

    Returns:
        The measures of utility and risk.

    Raises:
        InvalidInput: A table, a column or an option is not valid.

    Example:
        >>> from discreet import compare_release
        >>> from discreet.sdc import mdav_id
        >>> table = {"age": [23, 25, 31, 34, 58, 61], "income": [20, 22, 30, 31, 45, 50]}
        >>> comparison = compare_release(table, mdav_id(table, 3, ["age"]), ["age"], ["income"])
        >>> round(comparison.linkage, 1)  # percent of records that the nearest released record leads back to
        33.3
    """
    tables = match_tables(original, released, aligned)
    min_size = None if k is None else as_int(k, "k")
    confidential_names = _check_names(tables.before, confidential)
    quasi_names = _check_names(tables.before, quasi)
    if not quasi_names:
        quasi_names = tuple(name for name in tables.common if name not in confidential_names)
    if isinstance(released, ProtectedTable):
        groups, second = released.groups if groups is None else groups, released.second
    labels = read_group_labels(groups, tables.after.rows)
    second_table = None if second is None else read_table(second)
    intruder = Intruder(tables, quasi_names, labels, aligned, scale, _check_tolerance(tolerance), second_table)
    intersections = measure_intersections(labels, earlier, tables.after.rows, min_size)
    return _measure_comparison(intruder, confidential_names, intersections, min_size)


def _measure_comparison(
    intruder: Intruder, confidential: tuple[str, ...], intersections: tuple[tuple[str, int, float], ...], k: int | None
) -> Comparison:
    tables, disclosures = intruder.tables, intruder.measure_disclosures(confidential)
    errors = utility.compute_squared_errors(tables) if intruder.aligned else {}
    before, after = (utility.compute_correlations(table, tables.numeric) for table in (tables.before, tables.after))
    change, deviation = utility.compute_correlation_change(before, after) if len(tables.numeric) > 1 else (None, None)
    gone = [name for name in tables.common if tables.after[name].is_constant and not tables.before[name].is_constant]
    has_associations = len(tables.comparable) > max(1, len(tables.numeric))
    return Comparison(
        rows=tables.after.rows,
        numeric=tables.numeric,
        sse=math.fsum(errors.values()) if errors else None,
        sse_of=errors,
        il1s=utility.compute_il1s(tables) if intruder.aligned else None,
        means=utility.compare_columns(tables, utility.compute_mean),
        variances=utility.compare_columns(tables, utility.compute_variance),
        quantiles=utility.compute_quantiles(tables),
        correlations=(before, after),
        correlation_change=change,
        correlation_change_sd=deviation,
        association_change=compute_association_change(tables) if has_associations else None,
        marginals=utility.measure_marginal_changes(tables),
        propensity=compute_propensity(tables),
        linkage=intruder.measure_linkage(),
        linkage_by_chance=100 / tables.before.rows,
        disclosure={name: disclosure.share for name, disclosure in disclosures.items()},
        disclosure_by_chance={name: disclosure.by_chance for name, disclosure in disclosures.items()},
        disclosure_excess={name: disclosure.compute_excess() for name, disclosure in disclosures.items()},
        unique=intruder.measure_unique_shares(),
        knows=intruder.measure_knowledge(confidential),
        intersection=intersections,
        k=k,
        unmeasured=tuple(name for name in confidential if name not in disclosures),
        changed=tuple(name for name in tables.common if name not in tables.comparable and name not in gone),
        gone=tuple(gone),
        apart=tuple(name for name in tables.before if name not in tables.common),
        near=tuple(name for name in disclosures if tables.before[name].kind == "numeric"),
    )


def _check_names(table: Table, names: object) -> tuple[str, ...]:
    listed = (names,) if isinstance(names, str) else names
    if not isinstance(listed, Sequence) or not all(isinstance(name, str) for name in listed):
        raise InvalidInput("quasi-identifiers and confidential columns are given as lists of names of columns")
    return tuple(table.select(listed)) if listed else ()


def _check_tolerance(tolerance: object) -> float:
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < math.inf:
        raise InvalidInput("tolerance must be a number of standard deviations, 0 or more, such as 0.05")
    return float(tolerance)


def _to_json_value(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _to_json_value(entry) for name, entry in value.items()}
    if isinstance(value, np.ndarray):
        return _to_json_value(value.tolist())
    if isinstance(value, list | tuple):
        return [_to_json_value(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
