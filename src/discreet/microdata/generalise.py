"""k-anonymity by wider values for whole columns, and by leaving out rows (thesis 2.8)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

import numpy as np

from discreet.errors import InvalidInput
from discreet.exact import as_rational, format_exact
from discreet.guarantee import Guarantee
from discreet.microdata.checks import TableReadOptions, check_columns, check_k
from discreet.microdata.hierarchies import Hierarchy, build_hierarchy
from discreet.microdata.lattice import INFORMATION_LOSSES, GeneralizationTask, find_least_loss, label_classes
from discreet.microdata.protected import ProtectedTable
from discreet.microdata.reading import read_table
from discreet.microdata.table import Table

MAX_NODES = 200_000
"""More combinations of levels than this are not searched."""

ASSUMPTIONS = (
    "intruders know no column but those that were generalised; what else is in the table is as it was",
    "the confidential values of a class may be alike, and are then disclosed with nobody identified",
)


def generalise(
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
    """The table with one level of generalisation for each quasi-identifier, so that every class has at least k rows.

    Of all levels that leave at most the share `suppress` of the rows out, those with the least `loss`: "precision",
    "discernibility", "class-size" or "ncp" (lattice.py); of several the lowest together, then the first in order.
    `hierarchies` has the steps of some columns (hierarchies.py). Columns in `confidential` and `keep` stay as they
    are, and all others are left out. Of the facts, "gone" lists the columns that became "*".
    """
    original = read_table(table, **reading)
    min_size, quasi_names = check_k(k, original.rows), check_columns(original, quasi, "quasi")
    unchanged_columns = [
        *_check_other_columns(original, confidential, "confidential", quasi_names),
        *_check_other_columns(original, keep, "keep", quasi_names),
    ]
    if loss not in INFORMATION_LOSSES:
        raise InvalidInput(f"loss is one of {', '.join(INFORMATION_LOSSES)}, got {str(loss)[:40]!r}")
    task = GeneralizationTask(
        _build_hierarchies(original.select(quasi_names), hierarchies or {}),
        original.rows,
        min_size,
        _compute_max_suppressed(suppress, original),
    )
    loss_value, levels = find_least_loss(task, INFORMATION_LOSSES[loss])
    generalized_table = Table(
        {
            hierarchy.attribute.name: hierarchy.generalize_to(level)
            for hierarchy, level in zip(task.hierarchies, levels, strict=True)
        }
    )
    classes = label_classes(task, levels)
    kept_rows = np.flatnonzero(np.bincount(classes)[classes] >= min_size)
    released = (
        original.select([*quasi_names, *dict.fromkeys(unchanged_columns)])
        .put(*generalized_table.attributes.values())
        .take(kept_rows)
    )
    facts = {
        "levels": {
            name: {"level": level, "of": top}
            for name, level, top in zip(quasi_names, levels, task.top_levels, strict=True)
        },
        "gone": [
            hierarchy.attribute.name
            for hierarchy, level in zip(task.hierarchies, levels, strict=True)
            if hierarchy.is_suppressed(level)
        ],
        "loss": {"name": loss, "value": float(loss_value)},
        "suppressed": original.rows - len(kept_rows),
    }
    guarantee = replace(Guarantee.k_anonymity(min_size), assumptions=ASSUMPTIONS)
    groups = np.unique(classes[kept_rows], return_inverse=True)[1]
    return ProtectedTable(released, guarantee, {"records": groups}, kept_rows, facts=facts)


def _check_other_columns(table: Table, names: object, role: str, quasi: tuple[str, ...]) -> tuple[str, ...]:
    """Columns that are not quasi-identifiers; there may be none."""
    checked_names = () if names == () else check_columns(table, names, role)
    for name in set(checked_names) & set(quasi):
        raise InvalidInput(f"the column {name[:40]!r} is a quasi-identifier and in {role}; give it one role")
    return checked_names


def _build_hierarchies(table: Table, hierarchies: Mapping[str, object]) -> tuple[Hierarchy, ...]:
    for name in set(hierarchies) - set(table):
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
    """How many rows may be left out."""
    share = as_rational(suppress, "suppress")
    if not 0 <= share < 1:
        raise InvalidInput(
            f"suppress is the share of rows that may be left out, from 0 to below 1, got {format_exact(share)}"
        )
    return math.floor(share * table.rows)
