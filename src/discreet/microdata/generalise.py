"""k-anonymity by wider values for whole columns, and by leaving out rows (thesis 2.8)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

import numpy as np

from discreet.errors import InvalidInput
from discreet.exact import rational, shown
from discreet.guarantee import Guarantee
from discreet.microdata.checks import Reading, check_columns, check_k
from discreet.microdata.hierarchies import Ladder, ladder
from discreet.microdata.lattice import LOSSES, Task, class_labels, least_loss
from discreet.microdata.protected import Protected
from discreet.microdata.reading import read_table
from discreet.microdata.table import Table

MOST_NODES = 200_000
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
    **reading: Unpack[Reading],
) -> Protected:
    """The table with one level of generalisation for each quasi-identifier, so that every class has at least k rows.

    Of all levels that leave at most the share `suppress` of the rows out, those with the least `loss`: "precision",
    "discernibility", "class-size" or "ncp" (lattice.py); of several the lowest together, then the first in order.
    `hierarchies` has the steps of some columns (hierarchies.py). Columns in `confidential` and `keep` stay as they
    are, and all others are left out. Of the facts, "gone" lists the columns that became "*".
    """
    original = read_table(table, **reading)
    least, known = check_k(k, original.rows), check_columns(original, quasi, "quasi")
    stay = [*_others(original, confidential, "confidential", known), *_others(original, keep, "keep", known)]
    if loss not in LOSSES:
        raise InvalidInput(f"loss is one of {', '.join(LOSSES)}, got {str(loss)[:40]!r}")
    task = Task(_ladders(original.select(known), hierarchies or {}), original.rows, least, _limit(suppress, original))
    lost, levels = least_loss(task, LOSSES[loss])
    wider = Table({each.attribute.name: each.at(level) for each, level in zip(task.ladders, levels, strict=True)})
    classes = class_labels(task, levels)
    kept = np.flatnonzero(np.bincount(classes)[classes] >= least)
    released = original.select([*known, *dict.fromkeys(stay)]).put(*wider.attributes.values()).take(kept)
    facts = {
        "levels": {
            name: {"level": level, "of": top} for name, level, top in zip(known, levels, task.tops, strict=True)
        },
        "gone": [each.attribute.name for each, level in zip(task.ladders, levels, strict=True) if each.gone(level)],
        "loss": {"name": loss, "value": float(lost)},
        "suppressed": original.rows - len(kept),
    }
    promise = replace(Guarantee.k_anonymity(least), assumptions=ASSUMPTIONS)
    groups = np.unique(classes[kept], return_inverse=True)[1]
    return Protected(released, promise, {"records": groups}, kept, facts=facts)


def _others(table: Table, names: object, role: str, quasi: tuple[str, ...]) -> tuple[str, ...]:
    """Columns that are not quasi-identifiers; there may be none."""
    listed = () if names == () else check_columns(table, names, role)
    for name in set(listed) & set(quasi):
        raise InvalidInput(f"the column {name[:40]!r} is a quasi-identifier and in {role}; give it one role")
    return listed


def _ladders(table: Table, hierarchies: Mapping[str, object]) -> tuple[Ladder, ...]:
    for name in set(hierarchies) - set(table):
        raise InvalidInput(f"there is a hierarchy for {str(name)[:40]!r}, which is not a quasi-identifier")
    ladders = tuple(ladder(each, hierarchies.get(name)) for name, each in table.attributes.items())
    nodes = math.prod(len(each.rungs) + 1 for each in ladders)
    if nodes > MOST_NODES:
        raise InvalidInput(
            f"there are {nodes} combinations of levels and at most {MOST_NODES} are searched; "
            "give hierarchies with fewer levels ([] has only '*'), or fewer quasi-identifiers"
        )
    return ladders


def _limit(suppress: object, table: Table) -> int:
    """How many rows may be left out."""
    share = rational(suppress, "suppress")
    if not 0 <= share < 1:
        raise InvalidInput(f"suppress is the share of rows that may be left out, from 0 to below 1, got {shown(share)}")
    return math.floor(share * table.rows)
