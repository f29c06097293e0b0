"""How far apart two records are: formula 6.7 of the thesis, for numeric, ordinal, nominal and mixed records.

Numbers and places of ordinal values are coordinates; a nominal value is one of a list, with formula 6.6 between any
two (of a list without a taxonomy, any two are as far apart as in `Taxonomy.flat`). Squared distances add up over
attributes, each divided by the square of its scale.

What a missing value means, here and to every method: a missing number or ordinal value stands in the middle of the
domain and, in a coordinate of its own, as far from every present value as the domain is wide, so that distances stay
Euclidean; a missing nominal value is one more category, at 6.6's greatest distance 1 from all others. In rankings it
comes last, after the greatest. Two missing values are alike. The centroid of a group is missing where more than half
of the group's values (by weight) are, and otherwise that of the present ones. Where quasi-identifiers are compared and
in distributions "missing" is one more value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from discreet.errors import InvalidInput
from discreet.formatting import format_number
from discreet.microdata.table import ABSENT, Attribute, Floats, Places, Table
from discreet.taxonomy import Taxonomy

Scale = Literal["domain", "deviation"] | Sequence[float] | None
"""Raw values; divided by the domain's width, as 6.7 asks; by the deviation; or by one number for each attribute."""

FLAT = math.log2(5 / 3)
"""Formula 6.6 between two categories that have only a root in common."""

FARTHEST = 1e150
"""Coordinates beyond this have squares that no float holds."""

MOST_CATEGORIES = 4096
"""A nominal attribute with more is refused: distances between all pairs are held."""


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Records as places between which d²(x, y) = |points_x - points_y|² + Σ_c squares[c][codes_x[c], codes_y[c]]."""

    points: Floats
    codes: Places
    squares: tuple[Floats, ...]

    @property
    def rows(self) -> int:
        """How many records there are."""
        return len(self.points)

    def take(self, rows: Places | slice) -> Space:
        """These records alone, in this order."""
        return Space(self.points[rows], self.codes[rows], self.squares)


def spaces(tables: Sequence[Table], scale: Scale) -> list[Space]:
    """One space for all tables, so that distances between their records make sense; the first one sets the scale.

    The tables have the same columns of the same kinds; nominal values may be any concepts of the taxonomy.
    """
    first = tables[0]
    if any(
        [(a.name, a.kind) for a in _listed(table)] != [(a.name, a.kind) for a in _listed(first)] for table in tables
    ):
        raise InvalidInput("tables can be compared only where they have the same columns of the same kinds")
    scales = _scales(first, scale)
    beside = [[table[name] for table in tables] for name in first]
    lines = [(same, by) for same, by in zip(beside, scales, strict=True) if same[0].kind != "nominal"]
    nominal = [(same, by) for same, by in zip(beside, scales, strict=True) if same[0].kind == "nominal"]
    lists = [_concepts(same) for same, _ in nominal]
    squares = tuple(
        (_with_missing(differences(same[0].taxonomy, listed, listed)) / by) ** 2
        for (same, by), listed in zip(nominal, lists, strict=True)
    )
    return [
        Space(
            _points([(same, same[which], by) for same, by in lines], table.rows),
            _codes([(same[which], listed) for (same, _), listed in zip(nominal, lists, strict=True)], table.rows),
            squares,
        )
        for which, table in enumerate(tables)
    ]


def weighed_spaces(tables: Sequence[Table], scale: Scale) -> tuple[list[Space], Floats]:
    """One space for all tables in which ties are exact, and the weight of each coordinate's squared difference.

    `spaces` divides before anything is subtracted, which rounds, and so parts whole numbers that are as near. Here
    coordinates are divided by powers of two alone; the rest of each scale is in the weights, the first of which is 1,
    so that columns as wide as the first add up without rounding. All distances have one factor that tells nothing.
    """
    scales = _scales(tables[0], scale)
    line = [attribute.kind != "nominal" for attribute in _listed(tables[0])]
    unit = next((math.frexp(by)[0] for by, straight in zip(scales, line, strict=True) if straight), 1.0)
    scales = [by / unit for by in scales]
    powers = [math.ldexp(0.5, math.frexp(by)[1]) if straight else by for by, straight in zip(scales, line, strict=True)]
    weights = [
        (power / by) ** 2
        for name, by, power, straight in zip(tables[0], scales, powers, line, strict=True)
        for _ in range(straight * (2 if any(bool(table[name].missing.any()) for table in tables) else 1))
    ]
    return spaces(tables, powers), np.array(weights)


def differences(taxonomy: Taxonomy | None, ones: Sequence[str], twos: Sequence[str]) -> Floats:
    """Formula 6.6 between each of the ones and each of the twos."""
    if taxonomy is None:
        same = np.array([[one == two for two in twos] for one in ones], dtype=bool).reshape(len(ones), len(twos))
        return np.where(same, 0.0, FLAT)
    known = {concept: place for place, concept in enumerate(taxonomy.ancestors)}
    first, second = _ancestry(taxonomy, known, ones), _ancestry(taxonomy, known, twos)
    common = first @ second.T
    union = first.sum(axis=1)[:, None] + second.sum(axis=1)[None, :] - common
    apart: Floats = np.log2(1 + (union - common) / union)
    return apart


def _ancestry(taxonomy: Taxonomy, known: dict[str, int], concepts: Sequence[str]) -> Floats:
    held = np.zeros((len(concepts), len(known)))
    for row, concept in enumerate(concepts):
        held[row, [known[up] for up in taxonomy.of_concept(concept)]] = 1
    return held


def boundary_places(attribute: Attribute) -> tuple[int, int]:
    """Formulas 6.2 and 6.3: the most marginal category and the one farthest from it, by place; ties to the first."""
    apart = differences(attribute.taxonomy, attribute.categories, attribute.categories)
    first = int(np.argmax([math.fsum(row) for row in apart.tolist()]))
    return first, int(np.argmax(apart[first]))


def width(attribute: Attribute) -> float:
    """How far apart the boundaries of the domain are; 1 where it has one value only."""
    if attribute.kind != "nominal":
        return attribute.upper - attribute.lower or 1.0
    if len(attribute.categories) < 2:
        return 1.0
    low, high = boundary_places(attribute)
    return float(differences(attribute.taxonomy, [attribute.categories[low]], [attribute.categories[high]])[0, 0])


def _deviation(attribute: Attribute) -> float:
    """The standard deviation: the root of half the mean squared distance of two rows; 1 where it is 0."""
    present = attribute.values[~attribute.missing]
    if attribute.kind != "nominal":
        return (float(np.std(present)) if len(present) else 0.0) or 1.0
    shares = np.bincount(present, minlength=len(attribute.categories)) / max(len(present), 1)
    apart = differences(attribute.taxonomy, attribute.categories, attribute.categories)
    return math.sqrt(float(shares @ (apart**2) @ shares) / 2) or 1.0


def _scales(table: Table, scale: Scale) -> list[float]:
    """What each attribute's distance is divided by."""
    attributes = _listed(table)
    for attribute in attributes:
        if attribute.kind == "nominal" and len(attribute.categories) > MOST_CATEGORIES:
            raise InvalidInput(
                f"the column {attribute.name[:40]!r} has {len(attribute.categories)} categories; distances are held "
                f"between at most {MOST_CATEGORIES}: leave it out, or group its values first"
            )
    if scale is None:
        return [1.0] * len(attributes)
    if scale == "domain":
        return [width(attribute) for attribute in attributes]
    if scale == "deviation":
        return [_deviation(attribute) for attribute in attributes]
    return _given(scale, len(attributes))


def _given(scale: object, count: int) -> list[float]:
    wrong = InvalidInput(f"scale is None, 'domain', 'deviation' or {count} positive numbers, one for each column")
    if isinstance(scale, str):
        raise wrong
    try:
        numbers = [float(number) for number in scale]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise wrong from None
    if len(numbers) != count or not all(0 < number < math.inf for number in numbers):
        raise wrong
    return numbers


def _listed(table: Table) -> list[Attribute]:
    return [table[name] for name in table]


def _points(lines: Sequence[tuple[Sequence[Attribute], Attribute, float]], rows: int) -> Floats:
    """The coordinates; a second one for an attribute of which any table misses a value."""
    second = [any(bool(each.missing.any()) for each in same) for same, _, _ in lines]
    points = np.empty((rows, len(lines) + sum(second)))
    column = 0
    for (same, attribute, by), missing in zip(lines, second, strict=True):
        _place(points[:, column], attribute, by)
        if np.abs(points[:, column]).max(initial=0) > FARTHEST:
            raise InvalidInput(
                f"the column {attribute.name[:40]!r} holds numbers beyond {format_number(FARTHEST)}; scale them down"
            )
        column += 1
        if missing:
            points[:, column] = np.where(attribute.missing, width(same[0]) / by, 0.0)
            column += 1
    return points


def _place(column: Floats, attribute: Attribute, by: float) -> None:
    """Fill a column of coordinates."""
    np.divide(attribute.values, by, out=column)
    absent = attribute.missing
    if absent.any():
        column[absent] = (attribute.lower + attribute.upper) / 2 / by


def _concepts(same: Sequence[Attribute]) -> tuple[str, ...]:
    """Everything that a nominal attribute can be: its categories, then the taxonomy's other concepts."""
    also = [name for each in same[1:] for name in each.categories]
    taxonomy = same[0].taxonomy
    return tuple(dict.fromkeys((*same[0].categories, *(taxonomy.ancestors if taxonomy is not None else also))))


def _with_missing(apart: Floats) -> Floats:
    """One more category, at distance 1 from the others."""
    wider = np.ones((len(apart) + 1, len(apart) + 1))
    wider[:-1, :-1] = apart
    wider[-1, -1] = 0.0
    return wider


def _codes(nominal: Sequence[tuple[Attribute, Sequence[str]]], rows: int) -> Places:
    codes = np.empty((rows, len(nominal)), dtype=np.int64)
    for column, (attribute, listed) in enumerate(nominal):
        places = {name: place for place, name in enumerate(listed)}
        if not set(attribute.categories) <= set(places):
            raise InvalidInput(f"the column {attribute.name[:40]!r} has categories that its taxonomy does not")
        # The place -1 of a missing value picks the last entry.
        lookup = np.array([*(places[name] for name in attribute.categories), len(listed)], dtype=np.int64)
        codes[:, column] = lookup[np.where(attribute.values == ABSENT, -1, attribute.values)]
    return codes
