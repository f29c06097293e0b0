"""A plain sentence on risk and one on utility, and the thesis's balance of the two.

What is called small or high is written here, once: a risk by how much is learnt of what chance leaves open; a loss by
the mean change of correlations and of associations, by the greatest move of a distribution, by how well a model tells
the files apart, and by columns of which nothing is left.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from discreet.errors import InvalidInput
from discreet.formatting import format_decimals, format_number, format_percent

if TYPE_CHECKING:
    from discreet.assess.comparison import Comparison

RISK = (0.05, 0.2)
CORRELATION = (0.02, 0.1)
ASSOCIATION = (0.02, 0.1)
MARGINAL = (0.05, 0.2)
PROPENSITY = (0.05, 0.2)
"""Up to the first it is little, above the second much."""
GONE = (0.0, 0.5)
"""One column that is gone is much."""

Measured = tuple[float, tuple[float, float]]
"""A figure and its two bars."""

UNMEASURED = "give the rows side by side, or name confidential columns"
RISKS = ("a small risk", "a moderate risk", "a high risk")
LOSSES = (
    "most analyses will come out much as on the original",
    "broad findings will hold and fine ones may not",
    "findings may well differ from those on the original",
)


def risk_sentence(found: Comparison) -> str:
    """How many of 1,000 people an intruder who knows their quasi-identifiers reaches, and how many by chance.

    It is judged by the confidential column of which he learns most beyond chance, and by the matched records where
    there is none, or one that could not be measured; a match by itself gives away no value that was hidden.
    """
    told, grades = [], [0]
    if found.linkage is not None:
        told.append(_reached("can be matched to their record", found.linkage / 100, found.linkage_by_chance / 100))
    if found.disclosure_excess:
        column, excess = max(found.disclosure_excess.items(), key=lambda each: each[1])
        grades.append(_grade(excess, RISK))
        told.append(_given_away(found, column, excess))
    if not told:
        return f"The risk could not be measured{_blind(found)}: {UNMEASURED}."
    matched = _matched(found)
    if found.unmeasured or not found.disclosure_excess:
        grades.append(matched)
    words = f"{RISKS[max(grades)]}{_only(matched > max(grades))}"
    who = "Of 1,000 people whose quasi-identifiers an intruder knows"
    return f"{who}, {' and '.join(told)}{_blind(found)}: {words}{_overlaid(found)}."


def _given_away(found: Comparison, column: str, excess: float) -> str:
    chances = found.disclosure[column], found.disclosure_by_chance[column]
    what = f"a value near their {column[:40]}" if column in found.near else f"their {column[:40]}"
    most = f"; where it is hidden worst, {_of(100, excess)} of every 100 whom chance would miss are found out"
    return _reached(f"give away {what}", *chances) + (most if excess else "")


def _matched(found: Comparison) -> int:
    """The grade of the records that are led back to."""
    by_chance = found.linkage_by_chance / 100
    return 0 if found.linkage is None else _grade(excess_of(found.linkage / 100, by_chance), RISK)


def _only(matched: bool) -> str:
    """What the grade is of where that of the records would be graver."""
    return " for these values, though whose record is whose can be told" if matched else ""


def _blind(found: Comparison) -> str:
    """The confidential columns that the figures say nothing of."""
    return f"; what is given away of {_listed(found.unmeasured)} could not be measured" if found.unmeasured else ""


def utility_sentence(found: Comparison) -> str:
    """How far values, correlations and distributions moved, and what that is likely to mean."""
    unseen = _unseen(found)
    if not found.marginals:
        what = LOSSES[2] if found.gone else "the loss could not be measured"
        return f"No column's values can be compared with those of the original{unseen}: {what}."
    name, most = max(found.marginals.items(), key=lambda each: each[1])
    shape = (
        f"the distribution of {name[:40]} changed most, by {format_percent(most, 2)}"
        if most
        else "no distribution changed"
    )
    apart = f"a model tells the files apart to {format_percent(found.propensity, 2)}"
    moved = _moved(found)
    start = f"On average {moved}; " if moved else ""
    worst = max([1 if unseen else 0, *(_grade(*measured) for measured in losses(found).values())])
    words = f"{start}{shape}, and {apart}{unseen}: {LOSSES[worst]}."
    return words[0].upper() + words[1:]


def _moved(found: Comparison) -> str:
    """Mean changes, one after the other."""
    moved = []
    if found.il1s is not None:
        moved.append(("values", f"by {format_number(math.sqrt(2) * found.il1s, 2)} standard deviations"))
    if found.correlation_change is not None:
        moved.append(("correlations", f"by {format_number(found.correlation_change, 2)}"))
    if found.association_change is not None:
        moved.append(("associations of categories", f"by {format_number(found.association_change, 2)}"))
    told = [f"{what} {'' if place else 'moved '}{much}" for place, (what, much) in enumerate(moved)]
    return " and ".join([", ".join(told[:-1]), *told[-1:]] if len(told) > 1 else told)


def losses(found: Comparison) -> dict[str, Measured]:
    """What a loss is judged by, of that which could be measured."""
    figures = {
        "correlations": (found.correlation_change, CORRELATION),
        "associations of categories": (found.association_change, ASSOCIATION),
        "distributions of columns": (max(found.marginals.values(), default=1.0), MARGINAL),
        "how the files are told apart": (found.propensity, PROPENSITY),
        "columns that are gone": (float(len(found.gone)), GONE),
    }
    return {name: (figure, bars) for name, (figure, bars) in figures.items() if figure is not None}


def worst_loss(found: Comparison) -> tuple[str, float]:
    """The gravest of the losses and how large it is, 1 being where findings may well differ."""
    over = {name: figure / bars[1] for name, (figure, bars) in losses(found).items()}
    return max(over.items(), key=lambda each: each[1])


def _unseen(found: Comparison) -> str:
    """What these figures do not see."""
    are = "is" if len(found.gone) == 1 else "are"
    told = f"; {_listed(found.gone)} {are} gone (one value in every row)" if found.gone else ""
    if found.changed:
        told += f"; {_listed(found.changed)} became coarser, which these figures do not count"
    if found.apart:
        told += f"; how {_listed(found.apart)} goes with the rest is known only up to groups, if at all"
    return told


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(name[:40] for name in names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def told(found: Comparison) -> dict[str, str]:
    """The two sentences and the chief figures, as lines for a screen."""
    lines = {"risk": risk_sentence(found), "utility": utility_sentence(found), "rows": f"{found.rows:,}"}
    if found.linkage is not None:
        lines["records matched"] = _beside_chance(found.linkage / 100, found.linkage_by_chance / 100)
    for name, share in found.disclosure.items():
        by_chance = found.disclosure_by_chance[name]
        lines[f"{name[:40]} given away"] = _beside_chance(share, by_chance)
        worst = f"{format_percent(found.disclosure_excess[name], 3)} of those whom chance would miss"
        lines[f"{name[:40]} given away where hidden worst"] = worst
    lines["unique rows"] = f"{format_percent(found.unique[0], 3)} before, {format_percent(found.unique[1], 3)} after"
    if found.il1s is not None:
        lines["information loss IL1s"] = format_number(found.il1s, 3)
    if found.correlation_change is not None:
        lines["correlations change by"] = format_number(found.correlation_change, 3)
    if found.association_change is not None:
        lines["associations change by"] = format_number(found.association_change, 3)
    lines["files told apart"] = f"{format_number(found.propensity, 3)} (0 not at all, 1 wholly)"
    return lines


def score(sse_0: float, rl_0: float, sse: float, rl: float) -> float:
    """The thesis's Score of a release against a baseline: above 1, what is won outweighs what is lost.

    SSE_f = sqrt(SSE_0 / SSE) and RL_f = RL_0 / RL are both better when larger. The thesis prints Score = SSE_f / RL_f,
    but its tables hold the product (Table 6.1, k = 2, epsilon 0.01: 0.014 and 386.92 give 5.37), and so does this.
    """
    if not all(0 <= figure < math.inf for figure in (sse_0, rl_0, sse, rl)) or sse == 0 or rl == 0:
        raise InvalidInput("a score needs errors and linkages that are at least 0, and above 0 for the release")
    return math.sqrt(sse_0 / sse) * (rl_0 / rl)


def excess_of(share: float, by_chance: float) -> float:
    """What is learnt of all that chance leaves open; 0 where it leaves nothing."""
    return max(0.0, (share - by_chance) / (1 - by_chance)) if by_chance < 1 else 0.0


def _beside_chance(share: float, by_chance: float) -> str:
    return f"{format_percent(share, 3)} ({format_percent(by_chance, 2)} by chance)"


def _reached(what: str, share: float, by_chance: float) -> str:
    return f"{_of(1000, share, 'about ')} {what} ({_of(1000, by_chance)} by chance)"


def _of(people: int, share: float, about: str = "") -> str:
    many = people * share
    if many == 0:
        return "none"
    if many < 1:
        return "fewer than 1"
    return f"{about if float(many).is_integer() else 'about '}{format_decimals(many, 0)}"


def _overlaid(found: Comparison) -> str:
    """What the worst of the earlier releases leaves."""
    worst = min(found.intersection, key=lambda line: line[1], default=None)
    if worst is None:
        return ""
    left = "leaves somebody alone" if worst[1] == 1 else f"hides somebody among only {worst[1]:,} rows"
    return f"; laid over the release {worst[0][:40]!r} it {left}"


def _grade(figure: float, bars: tuple[float, float]) -> int:
    return sum(figure > bar for bar in bars)
