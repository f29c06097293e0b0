"""A release beside its original: every measure of utility and of risk."""

from __future__ import annotations

import math
from collections.abc import Sequence

from discreet.assess import utility
from discreet.assess.association import compute_association_change
from discreet.assess.beside import match_tables
from discreet.assess.comparison import Comparison
from discreet.assess.intersection import measure_intersections, read_group_labels
from discreet.assess.propensity import compute_propensity
from discreet.assess.risk import Intruder
from discreet.errors import InvalidInput
from discreet.exact import as_int
from discreet.microdata.distances import Scale
from discreet.microdata.protected import ProtectedTable
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
    tables = match_tables(original, released, aligned)
    min_size = None if k is None else as_int(k, "k")
    confidential_names = _check_names(tables.before, confidential)
    quasi_names = _check_names(tables.before, quasi) or tuple(
        name for name in tables.common if name not in confidential_names
    )
    if isinstance(released, ProtectedTable):
        groups, second = released.groups if groups is None else groups, released.second
    labels = read_group_labels(groups, tables.after.rows)
    other = None if second is None else read_table(second)
    intruder = Intruder(tables, quasi_names, labels, aligned, scale, _check_tolerance(tolerance), other)
    errors = utility.compute_squared_errors(tables) if aligned else {}
    before, after = (utility.compute_correlations(table, tables.numeric) for table in (tables.before, tables.after))
    change, deviation = utility.compute_correlation_change(before, after) if len(tables.numeric) > 1 else (None, None)
    gone = tuple(
        name for name in tables.common if tables.after[name].is_constant and not tables.before[name].is_constant
    )
    disclosures = intruder.measure_disclosures(confidential_names)
    return Comparison(
        rows=tables.after.rows,
        numeric=tables.numeric,
        sse=math.fsum(errors.values()) if errors else None,
        sse_of=errors,
        il1s=utility.compute_il1s(tables) if aligned else None,
        means=utility.compute_means(tables),
        variances=utility.compute_variances(tables),
        quantiles=utility.compute_quantiles(tables),
        correlations=(before, after),
        correlation_change=change,
        correlation_change_sd=deviation,
        association_change=compute_association_change(tables)
        if len(tables.comparable) > max(1, len(tables.numeric))
        else None,
        marginals=utility.measure_marginal_changes(tables),
        propensity=compute_propensity(tables),
        linkage=intruder.measure_linkage(),
        linkage_by_chance=100 / tables.before.rows,
        disclosure={name: disclosure.share for name, disclosure in disclosures.items()},
        disclosure_by_chance={name: disclosure.by_chance for name, disclosure in disclosures.items()},
        disclosure_excess={name: disclosure.compute_excess() for name, disclosure in disclosures.items()},
        unique=intruder.measure_unique_shares(),
        knows=intruder.measure_knowledge(confidential_names),
        intersection=measure_intersections(labels, earlier, tables.after.rows, min_size),
        k=min_size,
        unmeasured=tuple(name for name in confidential_names if name not in disclosures),
        changed=tuple(name for name in tables.common if name not in tables.comparable and name not in gone),
        gone=gone,
        apart=tuple(name for name in tables.before if name not in tables.common),
        near=tuple(name for name in disclosures if tables.before[name].kind == "numeric"),
    )


def _check_names(table: Table, names: object) -> tuple[str, ...]:
    given_names = (names,) if isinstance(names, str) else names
    if not isinstance(given_names, Sequence) or not all(isinstance(name, str) for name in given_names):
        raise InvalidInput("quasi-identifiers and confidential columns are given as lists of names of columns")
    return tuple(table.select(given_names)) if given_names else ()


def _check_tolerance(tolerance: object) -> float:
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < math.inf:
        raise InvalidInput("tolerance must be a number of standard deviations, 0 or more, such as 0.05")
    return float(tolerance)
