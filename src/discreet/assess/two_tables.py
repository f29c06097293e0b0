"""The claims of Anatomy's two tables: that they share nothing but the group, and tell the truth."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from discreet.assess.anonymity import Anonymity, measure_anatomy
from discreet.assess.coding import (
    COUNT,
    GROUP,
    cross_codes,
    encode_together,
    encode_values,
    expand_counts,
    find_classes,
)
from discreet.assess.disclosed import measure_group_disclosure, summarize_disclosures
from discreet.assess.evidence import CheckedClaim, Evidence, format_claim, require_k, require_no_copy
from discreet.errors import ClaimFailed
from discreet.guarantee import Guarantee
from discreet.microdata.table import Attribute, Integers, Table


def check_anatomy_claim(claim: Guarantee, files: Evidence, second: Table) -> CheckedClaim:
    """Probabilistic k-anonymity by groups of k rows or more; beside the original, with the values of their people."""
    anonymity = measure_separate_tables(claim, files, second)
    require_k(claim, anonymity.k, "group")
    words = [
        f"{format_claim(claim)} holds: the smallest group has {anonymity.k} rows, "
        "and beyond how often a group has a value the tables do not tell whose it is."
    ]
    if files.original is not None:
        _require_truth(claim, files, files.original, second)
        words.append("Every group's values are those of its people in the original.")
    values = expand_counts(second)
    groups = encode_values(values[GROUP])[0]
    measured, sentences = summarize_disclosures(
        {name: measure_group_disclosure(groups, values[name]) for name in anonymity.columns}
    )
    return CheckedClaim(claim, True, {"anonymity": anonymity.to_json(), **measured}, (*words, *sentences))


def measure_separate_tables(claim: Guarantee, files: Evidence, second: Table) -> Anonymity:
    """What the two tables measure, where nothing but the group leads from one to the other."""
    for name in files.confidential:
        if name in files.released.attributes:
            raise ClaimFailed(
                f"the release claims {format_claim(claim)}, and its first table shows {name[:40]!r} row by row"
            )
    if files.original is not None:
        require_no_copy(claim, files, files.original, [name for name in files.released if name != GROUP])
    anonymity = measure_anatomy(files.released, second, files.confidential)
    if surplus := [name for name in second if name not in {GROUP, *anonymity.columns, COUNT}]:
        raise ClaimFailed(
            f"the release claims {format_claim(claim)}, and its second table holds {surplus[0][:40]!r} beside "
            f"{GROUP!r}, the confidential columns and {COUNT!r}"
        )
    _require_order(claim, second, (GROUP, *anonymity.columns))
    return anonymity


def _require_order(claim: Guarantee, second: Table, names: tuple[str, ...]) -> None:
    """One row for each group and value, by group and value: an order of the people's would tell whose they are."""
    if len(np.unique(find_classes(second, names))) < second.rows:
        raise ClaimFailed(
            f"the release claims {format_claim(claim)}, and its second table lists a group's value more than once, "
            "which tells people apart; count them in one row"
        )
    is_tied = np.ones(max(second.rows - 1, 0), dtype=np.bool_)
    for name in names:
        places = encode_values(second[name])[0]
        if not _is_ordered(second[name], places, is_tied):
            raise ClaimFailed(
                f"the release claims {format_claim(claim)}, and its second table is not sorted by {name[:40]!r}, "
                "so that the order of its rows may tell whose they are"
            )
        is_tied &= places[1:] == places[:-1]


def _is_ordered(attribute: Attribute, places: Integers, is_tied: NDArray[np.bool_]) -> bool:
    """Whether rows alike so far ascend; names in any one list, since files do not say in which they were declared."""
    before, after = places[:-1][is_tied], places[1:][is_tied]
    if np.all(before <= after):
        return True
    return attribute.kind != "numeric" and _has_common_order(np.column_stack([before, after])[before != after])


def _has_common_order(pairs: Integers) -> bool:
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
    values = expand_counts(second)
    before, after, _ = encode_together(files.released[GROUP], values[GROUP])
    for name in files.confidential:
        original_places, table_places, value_count = encode_together(original[name], values[name])
        crossed_codes, _ = cross_codes(
            np.concatenate([before, after]), np.concatenate([original_places, table_places]), value_count
        )
        before, after = crossed_codes[: len(before)], crossed_codes[len(before) :]
    if not np.array_equal(np.sort(before), np.sort(after)):
        raise ClaimFailed(
            f"the release claims {format_claim(claim)}, and its second table does not hold its groups' values"
        )
