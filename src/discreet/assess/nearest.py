"""Record linkage by distance, as the verifier does it: how often the released rows nearest to a person hold their own.

Independent of the measure in a report: rows with equal quasi-identifiers are one class, a person is led to the nearest
class, and picks one of its rows. Where several classes are as near, the person's own is taken, so that the share is
never below that with ties shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from discreet.assess.coding import alike, classes_of
from discreet.microdata.table import Attribute, Floats, Places, Table

MOST_DIMENSIONS = 12
"""Beyond, a search tree is slower than looking at all classes."""
AT_ONCE = 2**24
"""How many distances are held at a time."""


def linkage_at_most(original: Table, released: Table, quasi: Sequence[str]) -> Fraction | None:
    """The share of people led to their own row, row i being of person i; None where no column can be compared.

    Numbers and ordinal values are measured over the width of the original's domain, and names as equal or not. A column
    of numbers that became text, as intervals do, is left out: no distance is defined between the two.
    """
    columns = [(original[name], released[name]) for name in quasi if _comparable(original[name], released[name])]
    if not columns:
        return None
    classes = classes_of(released, [after.name for _, after in columns])
    own = np.sqrt(sum(_apart(before, after) for before, after in columns))
    right = own <= 1e-12
    moved = np.flatnonzero(~right)  # nothing is nearer than what did not move
    if len(moved):
        pairs = [_points(*pair, moved, np.unique(classes, return_index=True)[1]) for pair in columns]
        nearest = _least(np.hstack([pair[0] for pair in pairs]), np.hstack([pair[1] for pair in pairs]))
        right[moved] = own[moved] <= nearest * (1 + 1e-9) + 1e-12
    sizes, counts = np.unique(np.bincount(classes)[classes[right]], return_counts=True)
    return sum((Fraction(int(c), int(s)) for s, c in zip(sizes, counts, strict=True)), Fraction(0)) / len(classes)


def nearest_values(original: Attribute, released: Attribute) -> tuple[Places, Places, int]:
    """For each row the released value nearest to its own, and the one it carries, as places in one list.

    Nearest among the distinct values of the release, which no permutation changes; of names only the same one is near.
    """
    if not (original.kind == "numeric" or _same_order(original, released)) or released.kind != original.kind:
        return alike(original, released)
    known, carried = np.unique(np.where(released.missing, np.inf, released.values), return_inverse=True)
    ends = (known[1:] + known[:-1]) / 2  # beyond the last middle where something is missing: that is infinite
    return np.searchsorted(ends, np.where(original.missing, np.inf, original.values), side="right"), carried, len(known)


def _same_order(original: Attribute, released: Attribute) -> bool:
    return original.kind == released.kind == "ordinal" and original.categories == released.categories


def _comparable(before: Attribute, after: Attribute) -> bool:
    return (before.kind == "numeric") == (after.kind == "numeric")


def _apart(before: Attribute, after: Attribute) -> Floats:
    """The square of each row's distance from itself."""
    if before.kind == "numeric" or _same_order(before, after):
        ours, theirs = _scaled(before, after)
        found: Floats = ((ours - theirs) ** 2).sum(axis=1)
        return found
    one, two, _ = alike(before, after)
    changed: Floats = (one != two).astype(np.float64)
    return changed


def _points(before: Attribute, after: Attribute, people: Places, rows: Places) -> tuple[Floats, Floats]:
    """Coordinates of these people before and of these rows after, as far apart as `_apart` says."""
    if before.kind == "numeric" or _same_order(before, after):
        ours, theirs = _scaled(before, after)
        return ours[people], theirs[rows]
    one, two, m = alike(before, after)
    corners = np.eye(m) / np.sqrt(2)
    return corners[one[people]], corners[two[rows]]


def _scaled(*columns: Attribute) -> list[Floats]:
    """In widths of the first one's domain; a missing value is as far from every other as the domain is wide."""
    lower, upper = columns[0].lower, columns[0].upper
    present = [np.where(each.missing, (upper + lower) / 2, each.values) / (upper - lower or 1.0) for each in columns]
    return [np.column_stack([values, each.missing]) for values, each in zip(present, columns, strict=True)]


def _least(people: Floats, classes: Floats) -> Floats:
    """Every person's distance from the nearest class."""
    from scipy.spatial import cKDTree
    from scipy.spatial.distance import cdist

    if people.shape[1] <= MOST_DIMENSIONS:
        found: Floats = cKDTree(classes).query(people)[0]
        return found
    step = max(1, AT_ONCE // len(classes))
    some = (people[start : start + step] for start in range(0, len(people), step))
    return np.concatenate([cdist(each, classes).min(axis=1) for each in some])
