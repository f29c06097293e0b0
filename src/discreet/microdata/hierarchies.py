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
from discreet.exact import positive, rational, shown
from discreet.microdata.intervals import intervals, round_intervals
from discreet.microdata.table import ABSENT, Attribute, Places
from discreet.taxonomy import Taxonomy

ANYTHING = "*"


@dataclass(frozen=True, slots=True, eq=False)
class Rung:
    """One rung: where the codes of the rung below go, what the new codes are called, and how wide they are.

    A width is a share of the column's domain: 0 for a value as it is, 1 for anything.
    """

    up: Places
    labels: tuple[str | None, ...]
    widths: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """A column's rungs above the lowest, and the code of every row on the lowest."""

    attribute: Attribute
    codes: Places
    rungs: tuple[Rung, ...]

    def codes_at(self, level: int) -> Places:
        """The code of every row on a rung."""
        codes = self.codes
        for rung in self.rungs[:level]:
            codes = rung.up[codes]
        return codes

    def gone(self, level: int) -> bool:
        """Whether nothing of the column is left on a rung."""
        return level > 0 and self.rungs[level - 1].labels == (ANYTHING,)

    def at(self, level: int) -> Attribute:
        """The column on a rung; above the lowest it is a list of labels."""
        if level == 0:
            return self.attribute
        labels = self.rungs[level - 1].labels
        present = tuple(label for label in labels if label is not None)
        places = np.array([ABSENT if label is None else present.index(label) for label in labels], dtype=np.int64)
        taxonomy = self.attribute.taxonomy
        known = taxonomy is not None and set(present) <= set(taxonomy.ancestors)
        return Attribute(
            self.attribute.name,
            "nominal",
            places[self.codes_at(level)],
            present,
            taxonomy if known else None,
            upper=float(max(len(present) - 1, 0)),
            look="text",
        )


def ladder(attribute: Attribute, steps: object = None) -> Ladder:
    """The column's ladder.

    `steps` are widths of intervals that start at the lower end of the domain, each a multiple of the one before (in
    days for dates), and then maps from what a value is called on the rung below to its wider name. Without steps the
    rungs are round intervals of numbers or dates, or the ancestors in the taxonomy, on each the deepest labels a step
    up; without a taxonomy, and with an empty list of steps, all goes at once. Where the last step leaves several
    labels, one more rung makes them "*".
    """
    distinct, codes = np.unique(attribute.values, return_inverse=True)
    rungs = _by_default(attribute, distinct) if steps is None else _given(attribute, distinct, steps)
    if rungs and len(set(rungs[-1].labels) - {None}) == 1:  # the missing share it
        label = next(label for label in rungs[-1].labels if label is not None)
        rungs[-1] = replace(rungs[-1], labels=[label] * len(distinct))
    elif len(distinct) > 1:
        rungs.append(_anything(distinct))
    return Ladder(attribute, codes, _linked(len(distinct), rungs))


@dataclass(frozen=True, slots=True)
class _Step:
    """What each distinct value is called, None where it is missing; and how wide labels are, if it is not by count."""

    labels: list[str | None]
    wide: Mapping[str | None, Fraction] | None = None

    def widths(self) -> dict[str | None, Fraction]:
        """As given, 0 where not; or how many of the other values a label does not tell from one, as a share."""
        others, counts = max(len(self.labels) - 1, 1), Counter(self.labels)
        if self.wide is not None:
            return {label: self.wide.get(label, Fraction(0)) for label in counts}
        return {label: Fraction(count - 1, others) for label, count in counts.items()}


def _linked(values: int, steps: Sequence[_Step]) -> tuple[Rung, ...]:
    """Rungs by codes; a label is at least as wide as all that it takes in."""
    rungs, below, narrow = [], np.arange(values), [Fraction(0)] * values
    for step in steps:
        listed = {label: code for code, label in enumerate(dict.fromkeys(step.labels))}
        codes = np.array([listed[label] for label in step.labels], dtype=np.int64)
        up = np.zeros(len(narrow), dtype=np.int64)
        up[below] = codes
        widths = step.widths()
        wide = [widths[label] for label in listed]
        for width, code in zip(narrow, up.tolist(), strict=True):
            wide[code] = max(wide[code], width)
        rungs.append(Rung(up, tuple(listed), tuple(wide)))
        below, narrow = codes, wide
    return tuple(rungs)


def _by_default(attribute: Attribute, distinct: NDArray[Any]) -> list[_Step]:
    if attribute.kind != "numeric":
        return _from_taxonomy(attribute, distinct)
    steps = [_Step(*each) for each in round_intervals(attribute, distinct)]
    return [*steps, _anything(distinct)] if np.isnan(distinct).any() else steps  # what is missing is in no interval


def _anything(distinct: NDArray[Any]) -> _Step:
    return _Step([ANYTHING] * len(distinct), {ANYTHING: Fraction(1)})


def _from_taxonomy(attribute: Attribute, distinct: NDArray[Any]) -> list[_Step]:
    """The ancestors, on every rung the deepest labels alone a step up, so that a label takes in all that it covers."""
    taxonomy = attribute.taxonomy
    if taxonomy is None:
        return []
    paths = [() if label is None else _path(taxonomy, label) for label in _texts(attribute, distinct)]
    shares, steps = _shares(taxonomy), []
    for depth in range(max(map(len, paths), default=0) - 1, 0, -1):
        wider = {path[depth - 1] for path in paths if len(path) > depth}
        labels = [path[:depth][-1] if path else None for path in paths]
        steps.append(_Step(labels, {label: shares[label] for label in wider}))
    return steps


def _shares(taxonomy: Taxonomy) -> dict[str, Fraction]:
    """How many of the other leaves a concept does not tell from one, as a share."""
    leaves = taxonomy.leaves
    under = Counter(above for leaf in leaves for above in taxonomy.ancestors[leaf])
    return {concept: Fraction(count - 1, max(len(leaves) - 1, 1)) for concept, count in under.items()}


def _path(taxonomy: Taxonomy, concept: str) -> tuple[str, ...]:
    """The concepts from the root down to this one."""
    path = [concept]
    while (above := parent(taxonomy, path[-1])) != path[-1]:
        path.append(above)
    return tuple(reversed(path))


def parent(taxonomy: Taxonomy, concept: str) -> str:
    """The concept right above: of several the one with the most ancestors, then by name; the root is above itself."""
    above = taxonomy.of_concept(concept) - {concept}
    return max(sorted(above), key=lambda up: len(taxonomy.of_concept(up)), default=concept)


def _given(attribute: Attribute, distinct: NDArray[Any], steps: object) -> list[_Step]:
    name = attribute.name[:40]
    if isinstance(steps, str) or not isinstance(steps, Sequence):
        raise InvalidInput(f"the hierarchy of {name!r} is a list of widths, or of maps such as {{'value': 'wider'}}")
    widths = [positive(step, f"a width of {name!r}") for step in steps if not isinstance(step, Mapping)]
    if any(isinstance(step, Mapping) for step in steps[: len(widths)]):
        raise InvalidInput(f"the hierarchy of {name!r} must have its widths before its maps")
    found = _given_widths(attribute, distinct, widths) if widths else []
    for step in steps[len(widths) :]:
        found.append(_Step(_mapped(name, found[-1].labels if found else _texts(attribute, distinct), step)))
    return found


def _mapped(name: str, labels: list[str | None], step: Mapping[object, object]) -> list[str | None]:
    names = {str(value): str(wider) for value, wider in step.items()}
    if not {label for label in labels if label is not None} <= set(names):
        raise InvalidInput(f"each map in the hierarchy of {name!r} must name every value below it; add those left out")
    return [None if label is None else names[label] for label in labels]


def _given_widths(attribute: Attribute, distinct: NDArray[Any], widths: list[Fraction]) -> list[_Step]:
    name = attribute.name[:40]
    if attribute.kind != "numeric":
        raise InvalidInput(f"the column {name!r} is not numeric, so its hierarchy has maps and no widths")
    if any((wide / narrow).denominator != 1 for narrow, wide in pairwise(widths)):
        raise InvalidInput(f"each width in the hierarchy of {name!r} must be a multiple of the one before")
    if attribute.look == "date" and widths[0].denominator != 1:
        raise InvalidInput(f"the widths in the hierarchy of {name!r} must be whole days")
    return [_Step(*each) for each in intervals(attribute, distinct, widths, rational(attribute.lower))]


def _texts(attribute: Attribute, distinct: NDArray[Any]) -> list[str | None]:
    """Values as maps name them."""
    return [_text(attribute, value) for value in distinct.tolist()]


def _text(attribute: Attribute, value: float) -> str | None:
    """A value of the lowest rung as maps name it."""
    if attribute.kind != "numeric":
        return None if value == ABSENT else attribute.categories[int(value)]
    if math.isnan(value):
        return None
    return str(np.datetime64(int(value), "D")) if attribute.look == "date" else shown(rational(value))
