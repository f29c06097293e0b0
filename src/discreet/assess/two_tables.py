"""The claims of Anatomy's two tables: that they share nothing but the group, and tell the truth."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from discreet.assess.anonymity import Anonymity, measure_anatomy
from discreet.assess.coding import COUNT, GROUP, alike, classes_of, counted_out, crossed, places_of
from discreet.assess.disclosed import disclosed, told_of
from discreet.assess.evidence import Checked, Evidence, named, require_k, require_no_copy
from discreet.errors import ClaimFailed
from discreet.guarantee import Guarantee
from discreet.microdata.table import Attribute, Places, Table


def anatomy_claim(claim: Guarantee, files: Evidence, second: Table) -> Checked:
    """Probabilistic k-anonymity by groups of k rows or more; beside the original, with the values of their people."""
    found = measure_apart(claim, files, second)
    require_k(claim, found.k, "group")
    words = [
        f"{named(claim)} holds: the smallest group has {found.k} rows, "
        "and beyond how often a group has a value the tables do not tell whose it is."
    ]
    if files.original is not None:
        _require_truth(claim, files, files.original, second)
        words.append("Every group's values are those of its people in the original.")
    values = counted_out(second)
    groups = places_of(values[GROUP])[0]
    measured, more = told_of({name: disclosed(groups, values[name]) for name in found.columns})
    return Checked(claim, True, {"anonymity": found.to_json(), **measured}, (*words, *more))


def measure_apart(claim: Guarantee, files: Evidence, second: Table) -> Anonymity:
    """What the two tables measure, where nothing but the group leads from one to the other."""
    for name in files.confidential:
        if name in files.released.attributes:
            raise ClaimFailed(f"the release claims {named(claim)}, and its first table shows {name[:40]!r} row by row")
    if files.original is not None:
        require_no_copy(claim, files, files.original, [name for name in files.released if name != GROUP])
    found = measure_anatomy(files.released, second, files.confidential)
    if surplus := [name for name in second if name not in {GROUP, *found.columns, COUNT}]:
        raise ClaimFailed(
            f"the release claims {named(claim)}, and its second table holds {surplus[0][:40]!r} beside "
            f"{GROUP!r}, the confidential columns and {COUNT!r}"
        )
    _require_order(claim, second, (GROUP, *found.columns))
    return found


def _require_order(claim: Guarantee, second: Table, names: tuple[str, ...]) -> None:
    """One row for each group and value, by group and value: an order of the people's would tell whose they are."""
    if len(np.unique(classes_of(second, names))) < second.rows:
        raise ClaimFailed(
            f"the release claims {named(claim)}, and its second table lists a group's value more than once, "
            "which tells people apart; count them in one row"
        )
    together = np.ones(max(second.rows - 1, 0), dtype=np.bool_)
    for name in names:
        places = places_of(second[name])[0]
        if not _in_order(second[name], places, together):
            raise ClaimFailed(
                f"the release claims {named(claim)}, and its second table is not sorted by {name[:40]!r}, "
                "so that the order of its rows may tell whose they are"
            )
        together &= places[1:] == places[:-1]


def _in_order(attribute: Attribute, places: Places, together: NDArray[np.bool_]) -> bool:
    """Whether rows alike so far ascend; names in any one list, since files do not say in which they were declared."""
    before, after = places[:-1][together], places[1:][together]
    if np.all(before <= after):
        return True
    return attribute.kind != "numeric" and _one_list(np.column_stack([before, after])[before != after])


def _one_list(pairs: Places) -> bool:
    """Whether there is a list in which the first of each pair comes before the second."""
    order: TopologicalSorter[int] = TopologicalSorter()
    for first, second in np.unique(pairs, axis=0).tolist():
        order.add(second, first)
    try:
        order.prepare()
    except CycleError:
        return False
    return True


def _require_truth(claim: Guarantee, files: Evidence, original: Table, second: Table) -> None:
    """Every group's values, all columns as one, are those that its people have in the original."""
    values = counted_out(second)
    before, after, _ = alike(files.released[GROUP], values[GROUP])
    for name in files.confidential:
        ours, theirs, more = alike(original[name], values[name])
        both, _ = crossed(np.concatenate([before, after]), np.concatenate([ours, theirs]), more)
        before, after = both[: len(before)], both[len(before) :]
    if not np.array_equal(np.sort(before), np.sort(after)):
        raise ClaimFailed(f"the release claims {named(claim)}, and its second table does not hold its groups' values")
