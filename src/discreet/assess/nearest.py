"""Record linkage by distance, as the verifier does it: how often the released rows nearest to a person hold their own.

Independent of the measure in a report: rows with equal quasi-identifiers are one class, a person is led to the nearest
class, and picks one of its rows. Where several classes are as near, the person's own is taken, so that the share is
never below that with ties shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from discreet.assess.coding import encode_together, find_classes
from discreet.microdata.table import Attribute, Floats, Integers, Table

MAX_DIMENSIONS = 12
"""Beyond, a search tree is slower than looking at all classes."""
DISTANCES_PER_BATCH = 2**24
"""How many distances are held at a time."""


def bound_linkage(original: Table, released: Table, quasi: Sequence[str]) -> Fraction | None:
    """The share of people led to their own row, row i being of person i; None where no column can be compared.

    Numbers and ordinal values are measured over the width of the original's domain, and names as equal or not. A column
    of numbers that became text, as intervals do, is left out: no distance is defined between the two.
    """
    columns = [(original[name], released[name]) for name in quasi if _is_comparable(original[name], released[name])]
    if not columns:
        return None
    classes = find_classes(released, [after.name for _, after in columns])
    own_distances = np.sqrt(sum(_compute_squared_changes(before, after) for before, after in columns))
    is_right = own_distances <= 1e-12
    changed_rows = np.flatnonzero(~is_right)  # nothing is nearer than what did not move
    if len(changed_rows):
        pairs = [_build_points(*pair, changed_rows, np.unique(classes, return_index=True)[1]) for pair in columns]
        nearest = _find_least_distances(np.hstack([pair[0] for pair in pairs]), np.hstack([pair[1] for pair in pairs]))
        is_right[changed_rows] = own_distances[changed_rows] <= nearest * (1 + 1e-9) + 1e-12
    sizes, counts = np.unique(np.bincount(classes)[classes[is_right]], return_counts=True)
    return sum((Fraction(int(c), int(s)) for s, c in zip(sizes, counts, strict=True)), Fraction(0)) / len(classes)


def find_nearest_values(original: Attribute, released: Attribute) -> tuple[Integers, Integers, int]:
    """For each row the released value nearest to its own, and the one it carries, as places in one list.

    Nearest among the distinct values of the release, which no permutation changes; of names only the same one is near.
    """
    if not (original.kind == "numeric" or _has_same_order(original, released)) or released.kind != original.kind:
        return encode_together(original, released)
    distinct_values, carried = np.unique(np.where(released.missing, np.inf, released.values), return_inverse=True)
    ends = (
        distinct_values[1:] + distinct_values[:-1]
    ) / 2  # beyond the last middle where something is missing: that is infinite
    return (
        np.searchsorted(ends, np.where(original.missing, np.inf, original.values), side="right"),
        carried,
        len(distinct_values),
    )


def _has_same_order(original: Attribute, released: Attribute) -> bool:
    return original.kind == released.kind == "ordinal" and original.categories == released.categories


def _is_comparable(before: Attribute, after: Attribute) -> bool:
    return (before.kind == "numeric") == (after.kind == "numeric")


def _compute_squared_changes(before: Attribute, after: Attribute) -> Floats:
    """The square of each row's distance from itself."""
    if before.kind == "numeric" or _has_same_order(before, after):
        points_before, points_after = _scale_columns(before, after)
        squares: Floats = ((points_before - points_after) ** 2).sum(axis=1)
        return squares
    codes_before, codes_after, _ = encode_together(before, after)
    changed: Floats = (codes_before != codes_after).astype(np.float64)
    return changed


def _build_points(before: Attribute, after: Attribute, people: Integers, rows: Integers) -> tuple[Floats, Floats]:
    """Coordinates of these people before and of these rows after, as far apart as `_apart` says."""
    if before.kind == "numeric" or _has_same_order(before, after):
        points_before, points_after = _scale_columns(before, after)
        return points_before[people], points_after[rows]
    codes_before, codes_after, m = encode_together(before, after)
    corners = np.eye(m) / np.sqrt(2)
    return corners[codes_before[people]], corners[codes_after[rows]]


def _scale_columns(*columns: Attribute) -> list[Floats]:
    """In widths of the first one's domain; a missing value is as far from every other as the domain is wide."""
    lower, upper = columns[0].lower, columns[0].upper
    present = [
        np.where(column.missing, (upper + lower) / 2, column.values) / (upper - lower or 1.0) for column in columns
    ]
    return [np.column_stack([values, column.missing]) for values, column in zip(present, columns, strict=True)]


def _find_least_distances(people: Floats, classes: Floats) -> Floats:
    """Every person's distance from the nearest class."""
    from scipy.spatial import cKDTree
    from scipy.spatial.distance import cdist

    if people.shape[1] <= MAX_DIMENSIONS:
        distances: Floats = cKDTree(classes).query(people)[0]
        return distances
    step = max(1, DISTANCES_PER_BATCH // len(classes))
    batches = (people[start : start + step] for start in range(0, len(people), step))
    return np.concatenate([cdist(batch, classes).min(axis=1) for batch in batches])
