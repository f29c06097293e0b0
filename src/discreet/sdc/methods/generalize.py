"""k-anonymity by generalization of columns and suppression of rows (thesis 2.8): an exact search of the lattice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol, Unpack

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Internal, InvalidInput
from discreet.numeric import as_rational, format_exact
from discreet.privacy.guarantee import Guarantee
from discreet.sdc.methods.hierarchies import Hierarchy, build_hierarchy
from discreet.sdc.table import Integers, ProtectedTable, Table, TableReadOptions, check_columns, check_k, read_table
from discreet.suggestions import build_choice_error
from discreet.untrusted import copy_items, has_type

Levels = tuple[int, ...]

WIDTH_UNITS = 2**30
"""Widths of labels are counted in units of 1/WIDTH_UNITS, so that sums are exact."""


@dataclass(frozen=True, slots=True, eq=False)
class EquivalenceClasses:
    """Distinct records at some levels: their codes, how many rows are alike, and which classes stay in the release."""

    codes: Integers
    counts: Integers
    is_released: NDArray[np.bool_]

    @property
    def suppressed_rows(self) -> int:
        """The number of rows that are left out."""
        return int(self.counts[~self.is_released].sum())


@dataclass(frozen=True, slots=True, eq=False)
class GeneralizationTask:
    """Ladders for all columns, the least size of a class, and how many rows may be left out."""

    hierarchies: tuple[Hierarchy, ...]
    rows: int
    k: int
    max_suppressed: int

    @property
    def top_levels(self) -> Levels:
        return tuple(len(hierarchy.levels) for hierarchy in self.hierarchies)


class InformationLoss(Protocol):
    """The loss of a release. With all classes released it is least, and it does not fall as levels rise."""

    def __call__(self, task: GeneralizationTask, levels: Levels, classes: EquivalenceClasses) -> Fraction: ...


def compute_precision_loss(task: GeneralizationTask, levels: Levels, classes: EquivalenceClasses) -> Fraction:
    """The mean height of the cells on their ladders, as a share of the whole height; 1 for a cell that is left out."""
    pairs = zip(levels, task.top_levels, strict=True)
    heights = sum((Fraction(level, top) for level, top in pairs if top), Fraction(0))
    return (heights * (task.rows - classes.suppressed_rows) / len(levels) + classes.suppressed_rows) / task.rows


def compute_discernibility(task: GeneralizationTask, levels: Levels, classes: EquivalenceClasses) -> Fraction:  # noqa: ARG001 - every loss is called alike
    """How many rows each row is not told from, summed: all of them for one that is left out."""
    return Fraction(int((classes.counts[classes.is_released] ** 2).sum()) + classes.suppressed_rows * task.rows)


def compute_class_size_loss(task: GeneralizationTask, levels: Levels, classes: EquivalenceClasses) -> Fraction:  # noqa: ARG001 - every loss is called alike
    """Rows, with those left out, for each class that is kept, in units of k."""
    return Fraction(task.rows, task.k * max(int(classes.is_released.sum()), 1))


def compute_ncp(task: GeneralizationTask, levels: Levels, classes: EquivalenceClasses) -> Fraction:
    """Normalised certainty penalty: the mean share of its domain that a cell covers; 1 for a cell that is left out."""
    released_counts = classes.counts[classes.is_released]
    covered = 0
    for column, (hierarchy, level) in enumerate(zip(task.hierarchies, levels, strict=True)):
        if level:
            widths = np.array([round(width * WIDTH_UNITS) for width in hierarchy.levels[level - 1].widths])
            covered += int((widths[classes.codes[classes.is_released, column]] * released_counts).sum())
    return Fraction(
        covered + WIDTH_UNITS * classes.suppressed_rows * len(levels), WIDTH_UNITS * task.rows * len(levels)
    )


INFORMATION_LOSSES: Mapping[str, InformationLoss] = {
    "precision": compute_precision_loss,
    "discernibility": compute_discernibility,
    "class-size": compute_class_size_loss,
    "ncp": compute_ncp,
}


@dataclass(slots=True)
class LatticeSearch:
    """A walk through the lattice, one column after the other, that turns back where nothing better can follow.

    With some columns' levels set, classes by these columns alone are those with all others at their tops: where they
    fall short, so do all below, as classes only grow with levels. And with all others at the bottom and no row left
    out the loss is the least that can follow.
    """

    task: GeneralizationTask
    loss: InformationLoss
    best: tuple[Fraction, int, Levels] | None = None

    def walk(self, levels: Levels, codes: Integers, counts: Integers) -> None:
        column = len(levels)
        if column == codes.shape[1]:
            classes = EquivalenceClasses(codes, counts, counts >= self.task.k)
            candidate = self.loss(self.task, levels, classes), sum(levels), levels
            self.best = candidate if self.best is None else min(self.best, candidate)
            return
        for level in range(self.task.top_levels[column] + 1):
            if level:
                parents = self.task.hierarchies[column].levels[level - 1].parents
                codes = codes.copy()
                codes[:, column] = parents[codes[:, column]]
                codes, counts = merge_equal_rows(codes, counts)
            if self._cannot_improve((*levels, level), codes, counts):
                break
            sizes = merge_equal_rows(codes[:, : column + 1], counts)[1]
            if int(sizes[sizes < self.task.k].sum()) <= self.task.max_suppressed:
                self.walk((*levels, level), codes, counts)

    def _cannot_improve(self, levels: Levels, codes: Integers, counts: Integers) -> bool:
        if self.best is None:
            return False
        all_levels = levels + (0,) * (codes.shape[1] - len(levels))
        all_classes = EquivalenceClasses(codes, counts, np.ones(len(counts), dtype=np.bool_))
        return self.loss(self.task, all_levels, all_classes) > self.best[0]


def find_least_loss(task: GeneralizationTask, loss: InformationLoss) -> tuple[Fraction, Levels]:
    """The least loss, and the levels that have it: ties to the lowest levels together and then in order.

    With k rows or more there is always one, as all rows are alike at the top.
    """
    codes, counts = merge_equal_rows(
        np.column_stack([hierarchy.codes for hierarchy in task.hierarchies]), np.ones(task.rows, dtype=np.int64)
    )
    search = LatticeSearch(task, loss)
    search.walk((), codes, counts)
    if search.best is None:
        raise Internal("no levels were found where the highest would do")
    return search.best[0], search.best[2]


def label_classes(task: GeneralizationTask, levels: Levels) -> Integers:
    """The class of every row at these levels."""
    columns = [hierarchy.get_codes(level) for hierarchy, level in zip(task.hierarchies, levels, strict=True)]
    return np.unique(compute_row_keys(np.column_stack(columns)), return_inverse=True)[1]


def merge_equal_rows(codes: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Equal rows of codes once, with their counts added."""
    key = compute_row_keys(codes)
    first, inverse = np.unique(key, return_index=True, return_inverse=True)[1:]
    return codes[first], np.bincount(inverse, counts).astype(np.int64)


def compute_row_keys(codes: Integers) -> Integers:
    """A number for each row of codes, equal where rows are."""
    key, span = codes[:, 0], int(codes[:, 0].max(initial=0)) + 1
    for column in codes.T[1:]:
        code_count = int(column.max(initial=0)) + 1
        if span * code_count >= 2**62:
            key = np.unique(key, return_inverse=True)[1]
            span = len(codes)
        key, span = key * code_count + column, span * code_count
    return key


MAX_NODES = 200_000
"""More combinations of levels than this are not searched."""

ASSUMPTIONS = (
    "intruders know no column but those that were generalised; what else is in the table is as it was",
    "the confidential values of a class may be alike, and are then disclosed with nobody identified",
)


def generalize(
    table: object,
    k: int,
    quasi: object,
    hierarchies: Mapping[str, object] | None = None,
    *,
    loss: str = "precision",
    suppress: object = 0,
    confidential: object = (),
    keep: object = (),
    **reading: Unpack[TableReadOptions],
) -> ProtectedTable:
    """Generalize each quasi-identifier to one level of its hierarchy, so that every class has at least k rows.

    The result is k-anonymous. Of all choices of levels that leave out at most the share `suppress` of the rows, it
    takes the one of least loss; of several the lowest together, then the first in order.

    Args:
        table: The original table.
        k: The minimum size of a class of rows with equal quasi-identifiers.
        quasi: The quasi-identifiers.
        hierarchies: The generalization levels of some columns; the others have default ones.
        loss: The information loss to minimize: "precision", "discernibility", "class-size" or "ncp".
        suppress: The maximum share of rows to leave out.
        confidential: Columns that stay unchanged.
        keep: More columns that stay unchanged. All others are left out.
        **reading: How columns are read: `kinds`, `categories`, `taxonomies` and `domains`, each a mapping by column.

    Returns:
        The protected table with its guarantee, groups and facts; the fact "gone" lists the columns that became "*".

    Raises:
        InvalidInput: A column, k or another option is not valid.

    Example:
        >>> from discreet import generalize
        >>> table = {"sex": ["F", "M", "F", "M"], "town": ["A", "A", "A", "B"], "income": [20, 22, 30, 31]}
        >>> protected = generalize(table, k=2, quasi=["sex", "town"], confidential=["income"])
        >>> protected["sex"].tolist(), protected["town"].tolist()  # the town is generalized away
        (['F', 'M', 'F', 'M'], ['*', '*', '*', '*'])
    """
    original = read_table(table, **reading)
    min_size, quasi_names = check_k(k, original.rows), check_columns(original, quasi, "quasi")
    unchanged_columns = _check_other_columns(original, confidential, "confidential", quasi_names)
    unchanged_columns += _check_other_columns(original, keep, "keep", quasi_names)
    if not has_type(loss, str) or loss not in INFORMATION_LOSSES:
        raise build_choice_error("loss", loss, INFORMATION_LOSSES)
    column_hierarchies = _build_hierarchies(original.select(quasi_names), hierarchies or {})
    max_suppressed = _compute_max_suppressed(suppress, original)
    task = GeneralizationTask(column_hierarchies, original.rows, min_size, max_suppressed)
    loss_value, levels = find_least_loss(task, INFORMATION_LOSSES[loss])
    chosen_levels = list(zip(column_hierarchies, levels, strict=True))
    classes = label_classes(task, levels)
    kept_rows = np.flatnonzero(np.bincount(classes)[classes] >= min_size)
    released = original.select([*quasi_names, *dict.fromkeys(unchanged_columns)])
    released = released.put(*(hierarchy.generalize_to(level) for hierarchy, level in chosen_levels)).take(kept_rows)
    lost = {"name": loss, "value": float(loss_value)}
    facts = _collect_level_facts(chosen_levels) | {"loss": lost, "suppressed": original.rows - len(kept_rows)}
    guarantee = replace(Guarantee.k_anonymity(min_size), assumptions=ASSUMPTIONS)
    groups = np.unique(classes[kept_rows], return_inverse=True)[1]
    return ProtectedTable(released, guarantee, {"records": groups}, kept_rows, facts=facts)


def _collect_level_facts(chosen_levels: Sequence[tuple[Hierarchy, int]]) -> dict[str, object]:
    named_levels = {hierarchy.attribute.name: (hierarchy, level) for hierarchy, level in chosen_levels}
    return {
        "levels": {name: {"level": level, "of": len(one.levels)} for name, (one, level) in named_levels.items()},
        "gone": [name for name, (one, level) in named_levels.items() if one.is_suppressed(level)],
    }


def _check_other_columns(table: Table, names: object, role: str, quasi: tuple[str, ...]) -> tuple[str, ...]:
    """Columns that are not quasi-identifiers; there may be none."""
    checked_names = () if names == () else check_columns(table, names, role)
    for name in set(checked_names) & set(quasi):
        raise InvalidInput(f"the column {name[:40]!r} is a quasi-identifier and in {role}; give it one role")
    return checked_names


def _build_hierarchies(table: Table, hierarchies: Mapping[str, object]) -> tuple[Hierarchy, ...]:
    for name in dict(copy_items(hierarchies, "the hierarchies")).keys() - set(table):
        raise InvalidInput(f"there is a hierarchy for {str(name)[:40]!r}, which is not a quasi-identifier")
    column_hierarchies = tuple(
        build_hierarchy(attribute, hierarchies.get(name)) for name, attribute in table.attributes.items()
    )
    nodes = math.prod(len(attribute.levels) + 1 for attribute in column_hierarchies)
    if nodes > MAX_NODES:
        raise InvalidInput(
            f"there are {nodes} combinations of levels and at most {MAX_NODES} are searched; "
            "give hierarchies with fewer levels ([] has only '*'), or fewer quasi-identifiers"
        )
    return column_hierarchies


def _compute_max_suppressed(suppress: object, table: Table) -> int:
    share = as_rational(suppress, "suppress")
    if not 0 <= share < 1:
        raise InvalidInput(
            f"suppress is the share of rows that may be left out, from 0 to below 1, got {format_exact(share)}"
        )
    return math.floor(share * table.rows)
