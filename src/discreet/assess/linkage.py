"""Record linkage by distance: how often the nearest record is the right one (thesis 6.4.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.microdata.distances import Space
from discreet.microdata.table import Floats, Places, Table


@dataclass(frozen=True, slots=True, eq=False)
class Distinct:
    """Rows of which some are alike: one of each kind, which kind every row is of, and how many rows are."""

    first: Places
    kind: Places
    many: Places


def distinct(columns: Iterable[NDArray[Any]]) -> Distinct:
    """The distinct rows of some columns; missing values are alike."""
    kind: Places = np.zeros(1, dtype=np.int64)
    for column in columns:
        code = np.unique(column, return_inverse=True)[1]
        kind = np.unique(kind * (int(code.max()) + 1) + code, return_inverse=True)[1]
    _, first, many = np.unique(kind, return_index=True, return_counts=True)
    return Distinct(first, kind, many)


def alike_rows(table: Table) -> Distinct:
    """The distinct rows of a table."""
    return distinct(each.values for each in table.attributes.values())


def kinds(space: Space) -> Distinct:
    """The distinct records of a space."""
    return distinct([*space.points.T, *space.codes.T])


def linked(before: Space, after: Space, weights: Floats | None = None) -> float:
    """The share of records, in percent, whose released record leads back to them: RL of the thesis.

    Row i of one was made of row i of the other. G is the set of original records at the least distance from a
    released one, and the right record is picked with chance 1/|G| where it is in G. Ties are exact; records of the
    same kind are looked up once.
    """
    from discreet.assess.ties import nearest, squared

    known, asked = kinds(before), kinds(after)
    ties = nearest(after.take(asked.first), before.take(known.first), weights)
    sizes = np.add.reduceat(known.many[ties.targets], ties.starts[:-1])
    right = squared(after, before, weights) == ties.squares[asked.kind]
    return 100 * float(np.mean(right / sizes[asked.kind]))


def linked_by_class(after: Distinct) -> float:
    """The same where values were generalised: the originals that a released record can be of are those of its class."""
    return 100 * len(after.first) / len(after.kind)
