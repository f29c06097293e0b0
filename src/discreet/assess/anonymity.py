"""How well rows hide one another: k, l and t as measured on a table, whoever made it.

A class is a set of rows that an intruder cannot tell apart: those with equal quasi-identifiers, or those of one group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.assess.coding import COUNT, GROUP, alike, classes_of, counted_out, labels_of, names_of, places_of
from discreet.assess.variety import Ratio, Variety, told, variety
from discreet.errors import ClaimFailed, InvalidInput
from discreet.exact import whole
from discreet.microdata.reading import read_table
from discreet.microdata.table import Places, Table


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
    columns: Mapping[str, Variety]
    together: Variety | None = None
    """All confidential columns as one nominal value, where they are several: the joint t_ratio is never the smaller."""
    recursive_l: int = 2

    @property
    def l(self) -> int | None:  # noqa: E743  the measure's name is l
        """Distinct l-diversity."""
        return min((each.distinct for each in self.columns.values()), default=None)

    @property
    def l_entropy(self) -> float | None:
        """Entropy l-diversity."""
        return min((each.entropy for each in self.columns.values()), default=None)

    @property
    def recursive(self) -> Ratio | None:
        """Recursive (c, l)-diversity, with l = `recursive_l`, holds for every c above this."""
        return max((each.recursive for each in self.columns.values()), default=None)

    @property
    def t_ratio(self) -> Ratio | None:
        """t under the ratio distance of Definition 15."""
        return max((each.t_ratio for each in self.columns.values()), default=None)

    @property
    def t_emd(self) -> Fraction | None:
        """t under the earth mover's distance."""
        return max((each.t_emd for each in self.columns.values()), default=None)

    @property
    def linkage(self) -> Fraction:
        """The share of rows that one who always finds a person's class picks right inside it: the mean of 1/size."""
        return Fraction(self.classes, self.rows)

    def to_json(self) -> dict[str, object]:
        """Machine-readable; Fractions as exact text."""
        sizes = {"least": self.k, "median": self.median, "greatest": self.greatest, "alone": self.alone}
        told_of: dict[str, object] = {"rows": self.rows, "classes": self.classes, "k": self.k, "class_sizes": sizes}
        if self.columns:
            told_of |= {"l": self.l, "l_entropy": self.l_entropy}
            told_of |= {"recursive_c": told(self.recursive), "recursive_l": self.recursive_l}
            told_of |= {"t_ratio": told(self.t_ratio), "t_emd": told(self.t_emd)}
        told_of["columns"] = {name: each.to_json() for name, each in self.columns.items()}
        return told_of | ({"together": self.together.to_json()} if self.together else {})


def measure_anonymity(
    table: object, quasi: Sequence[str], confidential: Sequence[str] = (), *, recursive_l: int = 2
) -> Anonymity:
    """k, l and t of any table, whoever made it.

    The measures with classes of equal quasi-identifiers; recursive diversity is that of (c, recursive_l).
    """
    read = read_table(table)
    return _measured(classes_of(read, names_of(quasi, "quasi-identifiers")), read, confidential, recursive_l)


def measure_groups(
    groups: object, table: object, confidential: Sequence[str] = (), *, recursive_l: int = 2
) -> Anonymity:
    """The measures with classes given as labels, one for each row: for groups that the table does not show."""
    read = read_table(table)
    return _measured(labels_of(groups, read.rows), read, confidential, recursive_l)


def measure_anatomy(
    first: object, second: object, confidential: Sequence[str] = (), *, recursive_l: int = 2
) -> Anonymity:
    """The measures of Anatomy's two tables: a `group` for each row, and each `group`'s values with their `count`.

    Without `confidential` all columns of the second table are.
    """
    rows, values = read_table(first)[GROUP], counted_out(read_table(second))
    ours, theirs, _ = alike(rows, values[GROUP])
    if rows.missing.any() or not np.array_equal(np.sort(ours), np.sort(theirs)):
        raise ClaimFailed("the two tables do not tell the same number of rows for each group; neither can be relied on")
    secret = confidential or list(values.without((GROUP, COUNT)))
    return _measured(labels_of(theirs, values.rows), values, secret, recursive_l)


def _measured(classes: Places, table: Table, confidential: Sequence[str], recursive_l: int) -> Anonymity:
    l = whole(recursive_l, "recursive_l", 2)  # noqa: E741  the measure's name is l
    if not table.rows:
        raise InvalidInput("the table has no rows, so there is nothing to measure; give one that has")
    names = names_of(confidential, "confidential columns") if confidential else ()
    sizes = np.bincount(classes)
    columns = {name: variety(classes, *places_of(table[name]), table[name].kind, l) for name in names}
    joint = classes_of(table, names) if len(names) > 1 else None
    return Anonymity(
        table.rows,
        len(sizes),
        int(sizes.min()),
        float(np.median(sizes)),
        int(sizes.max()),
        int(np.count_nonzero(sizes == 1)),
        columns,
        None if joint is None else variety(classes, joint, int(joint.max()) + 1, "nominal", l),
        l,
    )
