"""Generalization hierarchies: intervals, maps and taxonomies.

On the lowest rung values are as they are; two that are alike on one rung are alike on all above; on the highest all
are. A missing value stays missing up to the highest rung, which it shares.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np

from discreet.errors import InvalidInput
from discreet.numeric import MAX_EXPONENT, as_positive, as_rational, format_exact
from discreet.priors.taxonomy import Taxonomy
from discreet.sdc.table import ABSENT, Attribute, Column, Floats, Integers

IntervalLabels = tuple[list[str | None], dict[str | None, Fraction]]
"""The label of each value, None where it is missing; and the width of every label, as a share of the domain."""

MIN_INTERVAL_SHARE = Fraction(1, 32)
"""No round interval of numbers is a smaller share of the domain than this."""
MIN_DATE_INTERVAL_SHARE = Fraction(1, 128)
"""The least share for months and years, whose rungs are further apart: years of birth are of use."""
MAX_DAYS_BY_WEEK = 184
"""Dates of no more days than this go by weeks."""
MONTH_MULTIPLES = (1, 3, 12, 60, 120, 600, 1200)
DAYS_PER_MONTH = Fraction(146097, 4800)
"""The mean length of one, in days."""
MONTHS_BEFORE_1970 = 1970 * 12
"""How many months after the year 0 numpy's calendar starts; counted from there, years go by round numbers."""
MAX_EXACT_INTEGER = 2**53
"""Below it every whole number is a float."""


def build_intervals(
    attribute: Attribute, distinct: Floats | Integers, widths: list[Fraction], start: Fraction
) -> list[IntervalLabels]:
    """Intervals of each width, a multiple of the one before; of every width one begins at `start`."""
    narrowest = widths[0]
    places = [None if math.isnan(value) else (as_rational(value) - start) // narrowest for value in distinct.tolist()]
    multiples = [int(width / narrowest) for width in widths]
    return _join_intervals(attribute, places, multiples, lambda place: start + place * narrowest)


def build_round_intervals(attribute: Attribute, distinct: Floats) -> list[IntervalLabels]:
    """Intervals that people would choose, at most five times over; each time at least two fit into the domain.

    They begin at multiples of the widest, not at the lowest value, which they would disclose.
    """
    if attribute.value_type == "date":
        return _build_calendar_intervals(attribute, distinct)
    if max(abs(attribute.lower), abs(attribute.upper)) >= 10.0**MAX_EXPONENT:
        return []
    present = distinct[~np.isnan(distinct)]
    is_whole = bool(np.all(present == np.floor(present)))
    span = as_rational(attribute.upper) - as_rational(attribute.lower) + is_whole
    width = span * MIN_INTERVAL_SHARE
    if width > 0:  # rounded up to one, two or five times a power of ten
        power = Fraction(10) ** (Decimal(width.numerator) / width.denominator).adjusted()
        width = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= width)
    widths = _list_doubled_widths(max(width, Fraction(2)) if is_whole else width, span)
    if not widths:
        return []
    return build_intervals(attribute, distinct, widths, _floor_to_multiple(attribute.lower, widths[-1]))


def _list_doubled_widths(width: Fraction, span: Fraction) -> list[Fraction]:
    """The width and its doubles, as long as two fit into the span."""
    return [width, *_list_doubled_widths(2 * width, span)] if 0 < 2 * width <= span else []


def _floor_to_multiple(value: float, unit: Fraction) -> Fraction:
    """The greatest multiple of the unit that is not above the value."""
    return as_rational(value) // unit * unit


def _build_calendar_intervals(attribute: Attribute, distinct: Floats) -> list[IntervalLabels]:
    """Weeks from Mondays, and their doubles; or months, quarters, years and round numbers of years."""
    span = as_rational(attribute.upper) - as_rational(attribute.lower) + 1
    if span <= MAX_DAYS_BY_WEEK:
        monday = _floor_to_multiple(attribute.lower + 3, Fraction(7)) - 3  # the first day of 1970 was a Thursday
        widths = _list_doubled_widths(Fraction(7), span)
        return build_intervals(attribute, distinct, widths, monday) if widths else []
    min_months, max_months = span * MIN_DATE_INTERVAL_SHARE / DAYS_PER_MONTH, span / 2 / DAYS_PER_MONTH
    multiples = [months for months in MONTH_MULTIPLES if min_months <= months <= max_months]
    places = [None if math.isnan(day) else _find_month(math.floor(day)) for day in distinct.tolist()]
    return _join_intervals(attribute, places, multiples, _find_first_day)


def _find_month(day: int) -> int:
    return int(np.datetime64(day, "D").astype("datetime64[M]").astype(np.int64)) + MONTHS_BEFORE_1970


def _find_first_day(month: int) -> Fraction:
    return Fraction(int(np.datetime64(month - MONTHS_BEFORE_1970, "M").astype("datetime64[D]").astype(np.int64)))


def _join_intervals(
    attribute: Attribute, places: list[int | None], multiples: list[int], edge: Callable[[int], Fraction]
) -> list[IntervalLabels]:
    """For each multiple, intervals of so many places; a place lasts from its edge to that of the next."""
    span, steps = as_rational(attribute.upper) - as_rational(attribute.lower), []
    for multiple in multiples:
        wider_places = [None if place is None else place // multiple for place in places]
        label_of_place: dict[int | None, str | None] = {None: None}
        shares: dict[str | None, Fraction] = {}
        for place in {place for place in wider_places if place is not None}:
            start, end = edge(place * multiple), edge((place + 1) * multiple)
            label = label_of_place[place] = f"[{_format_edge(attribute, start)}, {_format_edge(attribute, end)})"
            shares[label] = min(Fraction(1), (end - start) / span) if span else Fraction(1)
        steps.append(([label_of_place[place] for place in wider_places], shares))
    return steps


def _format_edge(attribute: Attribute, edge: Fraction) -> str:
    """Exact enough that two intervals with a float in each are called differently."""
    if attribute.value_type == "date":
        return str(np.datetime64(int(edge), "D"))
    return str(edge.numerator) if edge.denominator == 1 and abs(edge) < MAX_EXACT_INTEGER else repr(float(edge))


SUPPRESSED_LABEL = "*"


@dataclass(frozen=True, slots=True, eq=False)
class HierarchyLevel:
    """One rung: the new code of each code of the rung below, and the labels and widths of the new codes.

    A width is a share of the column's domain: 0 for a value as it is, 1 for anything.
    """

    parents: Integers
    labels: tuple[str | None, ...]
    widths: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Hierarchy:
    """A column's rungs above the lowest, and the code of every row on the lowest."""

    attribute: Attribute
    codes: Integers
    levels: tuple[HierarchyLevel, ...]

    def get_codes(self, level: int) -> Integers:
        """The code of every row on a rung."""
        codes = self.codes
        for hierarchy_level in self.levels[:level]:
            codes = hierarchy_level.parents[codes]
        return codes

    def is_suppressed(self, level: int) -> bool:
        """Whether nothing of the column is left on a rung."""
        return level > 0 and self.levels[level - 1].labels == (SUPPRESSED_LABEL,)

    def generalize_to(self, level: int) -> Attribute:
        """The column on a rung; above the lowest it is a list of labels."""
        if level == 0:
            return self.attribute
        labels = self.levels[level - 1].labels
        present = tuple(label for label in labels if label is not None)
        places = np.array([ABSENT if label is None else present.index(label) for label in labels], dtype=np.int64)
        taxonomy = self.attribute.taxonomy
        is_known = taxonomy is not None and set(present) <= set(taxonomy.ancestors)
        return Attribute(
            self.attribute.name,
            "nominal",
            places[self.get_codes(level)],
            present,
            taxonomy if is_known else None,
            upper=float(max(len(present) - 1, 0)),
            value_type="text",
        )


def build_hierarchy(attribute: Attribute, steps: object = None) -> Hierarchy:
    """The column's ladder.

    `steps` are widths of intervals that start at the lower end of the domain, each a multiple of the one before (in
    days for dates), and then maps from what a value is called on the rung below to its wider name. Without steps the
    rungs are round intervals of numbers or dates, or the ancestors in the taxonomy, on each the deepest labels a step
    up; without a taxonomy, and with an empty list of steps, all goes at once. Where the last step leaves several
    labels, one more rung makes them "*".
    """
    distinct, codes = np.unique(attribute.values, return_inverse=True)
    if steps is not None:
        label_steps = _parse_steps(attribute, distinct, steps)
    elif attribute.kind != "numeric":
        label_steps = _build_taxonomy_steps(attribute, distinct)
    else:
        label_steps = [_LabelStep(*labels) for labels in build_round_intervals(attribute, distinct)]
        if np.isnan(distinct).any():  # what is missing is in no interval
            label_steps.append(_build_suppression_step(distinct))
    if label_steps and len(set(label_steps[-1].labels) - {None}) == 1:  # the missing share it
        label = next(label for label in label_steps[-1].labels if label is not None)
        label_steps[-1] = replace(label_steps[-1], labels=[label] * len(distinct))
    elif len(distinct) > 1:
        label_steps.append(_build_suppression_step(distinct))
    return Hierarchy(attribute, codes, _link_levels(len(distinct), label_steps))


@dataclass(frozen=True, slots=True)
class _LabelStep:
    """The label of each distinct value, None where it is missing; and the labels' widths, if they are not by count."""

    labels: list[str | None]
    label_widths: Mapping[str | None, Fraction] | None = None

    def compute_widths(self) -> dict[str | None, Fraction]:
        """The given widths, 0 where none is; or the share of the other values that a label does not tell from one."""
        others, counts = max(len(self.labels) - 1, 1), Counter(self.labels)
        if self.label_widths is not None:
            return {label: self.label_widths.get(label, Fraction(0)) for label in counts}
        return {label: Fraction(count - 1, others) for label, count in counts.items()}


def _link_levels(values: int, steps: Sequence[_LabelStep]) -> tuple[HierarchyLevel, ...]:
    """Rungs by codes; a label is at least as wide as all that it takes in."""
    levels, codes_below, widths_below = [], np.arange(values), [Fraction(0)] * values
    for step in steps:
        code_of_label = {label: code for code, label in enumerate(dict.fromkeys(step.labels))}
        codes = np.array([code_of_label[label] for label in step.labels], dtype=np.int64)
        parents = np.zeros(len(widths_below), dtype=np.int64)
        parents[codes_below] = codes
        widths = step.compute_widths()
        level_widths = [widths[label] for label in code_of_label]
        for width, code in zip(widths_below, parents.tolist(), strict=True):
            level_widths[code] = max(level_widths[code], width)
        levels.append(HierarchyLevel(parents, tuple(code_of_label), tuple(level_widths)))
        codes_below, widths_below = codes, level_widths
    return tuple(levels)


def _build_suppression_step(distinct: Column) -> _LabelStep:
    return _LabelStep([SUPPRESSED_LABEL] * len(distinct), {SUPPRESSED_LABEL: Fraction(1)})


def _build_taxonomy_steps(attribute: Attribute, distinct: Integers) -> list[_LabelStep]:
    """The ancestors, on every rung the deepest labels alone a step up, so that a label takes in all that it covers."""
    taxonomy = attribute.taxonomy
    if taxonomy is None:
        return []
    paths = [() if label is None else _build_path(taxonomy, label) for label in _format_values(attribute, distinct)]
    leaves, steps = taxonomy.leaves, []
    leaf_counts = Counter(ancestor for leaf in leaves for ancestor in taxonomy.ancestors[leaf])
    # The share of the other leaves that a concept does not tell from one.
    shares = {concept: Fraction(count - 1, max(len(leaves) - 1, 1)) for concept, count in leaf_counts.items()}
    for depth in range(max(map(len, paths), default=0) - 1, 0, -1):
        broader_labels = {path[depth - 1] for path in paths if len(path) > depth}
        labels = [path[:depth][-1] if path else None for path in paths]
        steps.append(_LabelStep(labels, {label: shares[label] for label in broader_labels}))
    return steps


def _build_path(taxonomy: Taxonomy, concept: str) -> tuple[str, ...]:
    """The concepts from the root down to this one."""
    path = [concept]
    while (broader := find_parent(taxonomy, path[-1])) != path[-1]:
        path.append(broader)
    return tuple(reversed(path))


def find_parent(taxonomy: Taxonomy, concept: str) -> str:
    """The concept right above: of several the one with the most ancestors, then by name; the root is above itself."""
    ancestors = taxonomy.get_ancestors(concept) - {concept}
    return max(sorted(ancestors), key=lambda ancestor: len(taxonomy.get_ancestors(ancestor)), default=concept)


def _parse_steps(attribute: Attribute, distinct: Floats | Integers, steps: object) -> list[_LabelStep]:
    name = attribute.name[:40]
    if isinstance(steps, str) or not isinstance(steps, Sequence):
        raise InvalidInput(f"the hierarchy of {name!r} is a list of widths, or of maps such as {{'value': 'wider'}}")
    widths = [as_positive(step, f"a width of {name!r}") for step in steps if not isinstance(step, Mapping)]
    if any(isinstance(step, Mapping) for step in steps[: len(widths)]):
        raise InvalidInput(f"the hierarchy of {name!r} must have its widths before its maps")
    label_steps = _build_width_steps(attribute, distinct, widths) if widths else []
    for step in steps[len(widths) :]:
        labels = label_steps[-1].labels if label_steps else _format_values(attribute, distinct)
        names = {str(value): str(broader) for value, broader in step.items()}
        if not {label for label in labels if label is not None} <= set(names):
            raise InvalidInput(
                f"each map in the hierarchy of {name!r} must name every value below it; add those left out"
            )
        label_steps.append(_LabelStep([None if label is None else names[label] for label in labels]))
    return label_steps


def _build_width_steps(attribute: Attribute, distinct: Floats | Integers, widths: list[Fraction]) -> list[_LabelStep]:
    name = attribute.name[:40]
    if attribute.kind != "numeric":
        raise InvalidInput(f"the column {name!r} is not numeric, so its hierarchy has maps and no widths")
    if any((wide / narrow).denominator != 1 for narrow, wide in pairwise(widths)):
        raise InvalidInput(f"each width in the hierarchy of {name!r} must be a multiple of the one before")
    if attribute.value_type == "date" and widths[0].denominator != 1:
        raise InvalidInput(f"the widths in the hierarchy of {name!r} must be whole days")
    start = as_rational(attribute.lower)
    return [_LabelStep(*labels) for labels in build_intervals(attribute, distinct, widths, start)]


def _format_values(attribute: Attribute, distinct: Floats | Integers) -> list[str | None]:
    """The values of the lowest rung as maps name them."""
    values = distinct.tolist()
    if attribute.kind != "numeric":
        return [None if value == ABSENT else attribute.categories[int(value)] for value in values]
    if attribute.value_type == "date":
        return [None if math.isnan(value) else str(np.datetime64(int(value), "D")) for value in values]
    return [None if math.isnan(value) else format_exact(as_rational(value)) for value in values]
