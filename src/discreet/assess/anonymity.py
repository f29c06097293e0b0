"""How well rows hide one another: k, l and t as measured on a table, whoever made it.

A class is a set of rows that an intruder cannot tell apart: those with equal quasi-identifiers, or those of one group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.assess.coding import (
    COUNT,
    GROUP,
    check_column_names,
    encode_labels,
    encode_together,
    encode_values,
    expand_counts,
    find_classes,
)
from discreet.assess.variety import ClassDiversity, Ratio, format_ratio, measure_diversity
from discreet.errors import ClaimFailed, InvalidInput
from discreet.exact import as_int
from discreet.microdata.reading import read_table
from discreet.microdata.table import Integers, Table


@dataclass(frozen=True, slots=True)
class Anonymity:
    """What was measured on a table; l and t are those of the worst confidential column, None where there is none."""

    rows: int
    classes: int
    k: int
    """The size of the smallest class."""
    median: float
    greatest: int
    alone: int
    """How many rows are a class of their own."""
    columns: Mapping[str, ClassDiversity]
    together: ClassDiversity | None = None
    """All confidential columns as one nominal value, where they are several: the joint t_ratio is never the smaller."""
    recursive_l: int = 2

    @property
    def l(self) -> int | None:  # noqa: E743  the measure's name is l
        """Distinct l-diversity."""
        return min((diversity.distinct for diversity in self.columns.values()), default=None)

    @property
    def l_entropy(self) -> float | None:
        """Entropy l-diversity."""
        return min((diversity.entropy for diversity in self.columns.values()), default=None)

    @property
    def recursive(self) -> Ratio | None:
        """Recursive (c, l)-diversity, with l = `recursive_l`, holds for every c above this."""
        return max((diversity.recursive for diversity in self.columns.values()), default=None)

    @property
    def t_ratio(self) -> Ratio | None:
        """t under the ratio distance of Definition 15."""
        return max((diversity.t_ratio for diversity in self.columns.values()), default=None)

    @property
    def t_emd(self) -> Fraction | None:
        """t under the earth mover's distance."""
        return max((diversity.t_emd for diversity in self.columns.values()), default=None)

    @property
    def linkage(self) -> Fraction:
        """The share of rows that one who always finds a person's class picks right inside it: the mean of 1/size."""
        return Fraction(self.classes, self.rows)

    def to_json(self) -> dict[str, object]:
        """Machine-readable; Fractions as exact text."""
        sizes = {"least": self.k, "median": self.median, "greatest": self.greatest, "alone": self.alone}
        summary: dict[str, object] = {"rows": self.rows, "classes": self.classes, "k": self.k, "class_sizes": sizes}
        if self.columns:
            summary |= {"l": self.l, "l_entropy": self.l_entropy}
            summary |= {"recursive_c": format_ratio(self.recursive), "recursive_l": self.recursive_l}
            summary |= {"t_ratio": format_ratio(self.t_ratio), "t_emd": format_ratio(self.t_emd)}
        summary["columns"] = {name: diversity.to_json() for name, diversity in self.columns.items()}
        return summary | ({"together": self.together.to_json()} if self.together else {})


def measure_anonymity(
    table: object, quasi: Sequence[str], confidential: Sequence[str] = (), *, recursive_l: int = 2
) -> Anonymity:
    """k, l and t of any table, whoever made it.

    The measures with classes of equal quasi-identifiers; recursive diversity is that of (c, recursive_l).
    """
    original = read_table(table)
    return _measure_classes(
        find_classes(original, check_column_names(quasi, "quasi-identifiers")), original, confidential, recursive_l
    )


def measure_groups(
    groups: object, table: object, confidential: Sequence[str] = (), *, recursive_l: int = 2
) -> Anonymity:
    """The measures with classes given as labels, one for each row: for groups that the table does not show."""
    original = read_table(table)
    return _measure_classes(encode_labels(groups, original.rows), original, confidential, recursive_l)


def measure_anatomy(
    first: object, second: object, confidential: Sequence[str] = (), *, recursive_l: int = 2
) -> Anonymity:
    """The measures of Anatomy's two tables: a `group` for each row, and each `group`'s values with their `count`.

    Without `confidential` all columns of the second table are.
    """
    rows, values = read_table(first)[GROUP], expand_counts(read_table(second))
    first_places, second_places, _ = encode_together(rows, values[GROUP])
    if rows.missing.any() or not np.array_equal(np.sort(first_places), np.sort(second_places)):
        raise ClaimFailed("the two tables do not tell the same number of rows for each group; neither can be relied on")
    confidential_names = confidential or list(values.drop((GROUP, COUNT)))
    return _measure_classes(encode_labels(second_places, values.rows), values, confidential_names, recursive_l)


def _measure_classes(classes: Integers, table: Table, confidential: Sequence[str], recursive_l: int) -> Anonymity:
    l = as_int(recursive_l, "recursive_l", 2)  # noqa: E741  the measure's name is l
    if not table.rows:
        raise InvalidInput("the table has no rows, so there is nothing to measure; give one that has")
    names = check_column_names(confidential, "confidential columns") if confidential else ()
    sizes = np.bincount(classes)
    columns = {name: measure_diversity(classes, *encode_values(table[name]), table[name].kind, l) for name in names}
    joint = find_classes(table, names) if len(names) > 1 else None
    return Anonymity(
        table.rows,
        len(sizes),
        int(sizes.min()),
        float(np.median(sizes)),
        int(sizes.max()),
        int(np.count_nonzero(sizes == 1)),
        columns,
        None if joint is None else measure_diversity(classes, joint, int(joint.max()) + 1, "nominal", l),
        l,
    )
