"""A release beside its original: every measure of utility and of risk."""

from __future__ import annotations

import math
from collections.abc import Sequence

from discreet.assess import utility
from discreet.assess.association import association_change
from discreet.assess.beside import beside
from discreet.assess.comparison import Comparison
from discreet.assess.intersection import group_labels, intersections
from discreet.assess.propensity import propensity
from discreet.assess.risk import Intruder
from discreet.errors import InvalidInput
from discreet.exact import whole
from discreet.microdata.distances import Scale
from discreet.microdata.protected import Protected
from discreet.microdata.reading import read_table
from discreet.microdata.table import Table


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
    """Utility and risk of a release, measured on the two files and not by the method that made it.

    `aligned`: row i of the release was made of row i of the original, of those that were kept; otherwise what needs
    that is None. Without quasi-identifiers all columns that both have, and that are not confidential, are. `groups` are
    labels of the released rows that hide one another, for all columns or by column; a protected table brings its own.
    `earlier` are such labels of earlier releases of the same rows, by name; `k` is what they are held to. Distances are
    divided by `scale`; a number is near another within `tolerance` standard deviations. `second` is Anatomy's other
    table, which a protected table brings too.
    """
    both = beside(original, released, aligned)
    least = None if k is None else whole(k, "k")
    secret = _names(both.before, confidential)
    known = _names(both.before, quasi) or tuple(name for name in both.common if name not in secret)
    if isinstance(released, Protected):
        groups, second = released.groups if groups is None else groups, released.second
    labels = group_labels(groups, both.after.rows)
    other = None if second is None else read_table(second)
    intruder = Intruder(both, known, labels, aligned, scale, _tolerance(tolerance), other)
    errors = utility.squared_errors(both) if aligned else {}
    before, after = (utility.correlations(table, both.numeric) for table in (both.before, both.after))
    change, deviation = utility.correlation_change(before, after) if len(both.numeric) > 1 else (None, None)
    gone = tuple(name for name in both.common if both.after[name].constant and not both.before[name].constant)
    found = intruder.disclosures(secret)
    return Comparison(
        rows=both.after.rows,
        numeric=both.numeric,
        sse=math.fsum(errors.values()) if errors else None,
        sse_of=errors,
        il1s=utility.il1s(both) if aligned else None,
        means=utility.means(both),
        variances=utility.variances(both),
        quantiles=utility.quantiles(both),
        correlations=(before, after),
        correlation_change=change,
        correlation_change_sd=deviation,
        association_change=association_change(both) if len(both.alike) > max(1, len(both.numeric)) else None,
        marginals=utility.marginals(both),
        propensity=propensity(both),
        linkage=intruder.linkage(),
        linkage_by_chance=100 / both.before.rows,
        disclosure={name: each.share for name, each in found.items()},
        disclosure_by_chance={name: each.by_chance for name, each in found.items()},
        disclosure_excess={name: each.excess() for name, each in found.items()},
        unique=intruder.unique(),
        knows=intruder.knows(secret),
        intersection=intersections(labels, earlier, both.after.rows, least),
        k=least,
        unmeasured=tuple(name for name in secret if name not in found),
        changed=tuple(name for name in both.common if name not in both.alike and name not in gone),
        gone=gone,
        apart=tuple(name for name in both.before if name not in both.common),
        near=tuple(name for name in found if both.before[name].kind == "numeric"),
    )


def _names(table: Table, names: object) -> tuple[str, ...]:
    listed = (names,) if isinstance(names, str) else names
    if not isinstance(listed, Sequence) or not all(isinstance(name, str) for name in listed):
        raise InvalidInput("quasi-identifiers and confidential columns are given as lists of names of columns")
    return tuple(table.select(listed)) if listed else ()


def _tolerance(tolerance: object) -> float:
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < math.inf:
        raise InvalidInput("tolerance must be a number of standard deviations, 0 or more, such as 0.05")
    return float(tolerance)
