"""Ladders of ever wider values for a column: given as widths and maps, or from its taxonomy or domain.

On the lowest rung values are as they are; two that are alike on one rung are alike on all above; on the highest all
are. A missing value stays missing up to the highest rung, which it shares.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.exact import as_positive, as_rational, format_exact
from discreet.microdata.intervals import build_intervals, build_round_intervals
from discreet.microdata.table import ABSENT, Attribute, Integers
from discreet.taxonomy import Taxonomy

SUPPRESSED_LABEL = "*"


@dataclass(frozen=True, slots=True, eq=False)
class HierarchyLevel:
    """One rung: where the codes of the rung below go, what the new codes are called, and how wide they are.

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
    label_steps = (
        _build_default_steps(attribute, distinct) if steps is None else _parse_steps(attribute, distinct, steps)
    )
    if label_steps and len(set(label_steps[-1].labels) - {None}) == 1:  # the missing share it
        label = next(label for label in label_steps[-1].labels if label is not None)
        label_steps[-1] = replace(label_steps[-1], labels=[label] * len(distinct))
    elif len(distinct) > 1:
        label_steps.append(_build_suppression_step(distinct))
    return Hierarchy(attribute, codes, _link_levels(len(distinct), label_steps))


@dataclass(frozen=True, slots=True)
class _LabelStep:
    """What each distinct value is called, None where it is missing; and how wide labels are, if it is not by count."""

    labels: list[str | None]
    label_widths: Mapping[str | None, Fraction] | None = None

    def compute_widths(self) -> dict[str | None, Fraction]:
        """As given, 0 where not; or how many of the other values a label does not tell from one, as a share."""
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


def _build_default_steps(attribute: Attribute, distinct: NDArray[Any]) -> list[_LabelStep]:
    if attribute.kind != "numeric":
        return _build_taxonomy_steps(attribute, distinct)
    steps = [_LabelStep(*interval_labels) for interval_labels in build_round_intervals(attribute, distinct)]
    return (
        [*steps, _build_suppression_step(distinct)] if np.isnan(distinct).any() else steps
    )  # what is missing is in no interval


def _build_suppression_step(distinct: NDArray[Any]) -> _LabelStep:
    return _LabelStep([SUPPRESSED_LABEL] * len(distinct), {SUPPRESSED_LABEL: Fraction(1)})


def _build_taxonomy_steps(attribute: Attribute, distinct: NDArray[Any]) -> list[_LabelStep]:
    """The ancestors, on every rung the deepest labels alone a step up, so that a label takes in all that it covers."""
    taxonomy = attribute.taxonomy
    if taxonomy is None:
        return []
    paths = [() if label is None else _build_path(taxonomy, label) for label in _format_values(attribute, distinct)]
    shares, steps = _compute_leaf_shares(taxonomy), []
    for depth in range(max(map(len, paths), default=0) - 1, 0, -1):
        broader_labels = {path[depth - 1] for path in paths if len(path) > depth}
        labels = [path[:depth][-1] if path else None for path in paths]
        steps.append(_LabelStep(labels, {label: shares[label] for label in broader_labels}))
    return steps


def _compute_leaf_shares(taxonomy: Taxonomy) -> dict[str, Fraction]:
    """How many of the other leaves a concept does not tell from one, as a share."""
    leaves = taxonomy.leaves
    leaf_counts = Counter(ancestor for leaf in leaves for ancestor in taxonomy.ancestors[leaf])
    return {concept: Fraction(count - 1, max(len(leaves) - 1, 1)) for concept, count in leaf_counts.items()}


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


def _parse_steps(attribute: Attribute, distinct: NDArray[Any], steps: object) -> list[_LabelStep]:
    name = attribute.name[:40]
    if isinstance(steps, str) or not isinstance(steps, Sequence):
        raise InvalidInput(f"the hierarchy of {name!r} is a list of widths, or of maps such as {{'value': 'wider'}}")
    widths = [as_positive(step, f"a width of {name!r}") for step in steps if not isinstance(step, Mapping)]
    if any(isinstance(step, Mapping) for step in steps[: len(widths)]):
        raise InvalidInput(f"the hierarchy of {name!r} must have its widths before its maps")
    label_steps = _build_width_steps(attribute, distinct, widths) if widths else []
    for step in steps[len(widths) :]:
        label_steps.append(
            _LabelStep(
                _map_labels(name, label_steps[-1].labels if label_steps else _format_values(attribute, distinct), step)
            )
        )
    return label_steps


def _map_labels(name: str, labels: list[str | None], step: Mapping[object, object]) -> list[str | None]:
    names = {str(value): str(broader) for value, broader in step.items()}
    if not {label for label in labels if label is not None} <= set(names):
        raise InvalidInput(f"each map in the hierarchy of {name!r} must name every value below it; add those left out")
    return [None if label is None else names[label] for label in labels]


def _build_width_steps(attribute: Attribute, distinct: NDArray[Any], widths: list[Fraction]) -> list[_LabelStep]:
    name = attribute.name[:40]
    if attribute.kind != "numeric":
        raise InvalidInput(f"the column {name!r} is not numeric, so its hierarchy has maps and no widths")
    if any((wide / narrow).denominator != 1 for narrow, wide in pairwise(widths)):
        raise InvalidInput(f"each width in the hierarchy of {name!r} must be a multiple of the one before")
    if attribute.value_type == "date" and widths[0].denominator != 1:
        raise InvalidInput(f"the widths in the hierarchy of {name!r} must be whole days")
    return [
        _LabelStep(*interval_labels)
        for interval_labels in build_intervals(attribute, distinct, widths, as_rational(attribute.lower))
    ]


def _format_values(attribute: Attribute, distinct: NDArray[Any]) -> list[str | None]:
    """Values as maps name them."""
    return [_format_value(attribute, value) for value in distinct.tolist()]


def _format_value(attribute: Attribute, value: float) -> str | None:
    """A value of the lowest rung as maps name it."""
    if attribute.kind != "numeric":
        return None if value == ABSENT else attribute.categories[int(value)]
    if math.isnan(value):
        return None
    return str(np.datetime64(int(value), "D")) if attribute.value_type == "date" else format_exact(as_rational(value))
