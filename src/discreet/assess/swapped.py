"""The claim of probabilistic k-anonymity, checked on files: is a person's value on their own row at most 1/k likely?

Proved it is only with the groups and the original: every group has k rows or more and holds what it held, so that each
of its rows is as likely as any other to have got a person's value, provided the permutation was uniform; counts of
values that came back to their own rows look for permutations that were not. Record linkage and what a group tells of a
value, all of it where its values are one, are measured beside, and bounded by nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.assess.coding import cross_codes, encode_together, find_classes, has_same_values
from discreet.assess.disclosed import measure_group_disclosure, summarize_disclosures
from discreet.assess.evidence import (
    PROVISO,
    RECORDS,
    CheckedClaim,
    Evidence,
    format_claim,
    require_chance,
    require_k,
    require_no_copy,
)
from discreet.assess.nearest import bound_linkage
from discreet.assess.permuted import (
    SUSPICIOUS_DEVIATIONS,
    Hits,
    count_disturbed_groups,
    count_unique_hits,
    measure_group_width,
)
from discreet.assess.two_tables import check_anatomy_claim
from discreet.assess.uniform import require_uniform
from discreet.assess.variety import format_ratio
from discreet.errors import ClaimFailed, InvalidInput, Unsupported
from discreet.formatting import format_number, format_percent_at_most, format_upper
from discreet.guarantee import Guarantee
from discreet.microdata.table import Integers, Table


@dataclass(frozen=True, slots=True, eq=False)
class _PermutedColumn:
    """What was permuted: a column, or several as one, with the places of its values before and after."""

    name: str
    before: Integers
    after: Integers
    m: int


@dataclass(frozen=True, slots=True)
class _MeasuredColumn:
    """What was measured of it, and in words."""

    name: str
    measured: dict[str, object]
    words: str


def check_probabilistic_claim(claim: Guarantee, files: Evidence) -> CheckedClaim:
    """By the two tables of Anatomy, by equal quasi-identifiers, by the original, or by groups alone."""
    if files.second is not None:
        return check_anatomy_claim(claim, files, files.second)
    classes = find_classes(files.released, files.quasi)
    k = int(np.bincount(classes).min())
    if files.quasi and k >= (claim.k or 1) and _is_unpermuted(files):
        return _check_by_classes(claim, files, classes, k)
    if files.original is not None:
        return _check_by_original(claim, files, files.original)
    if files.groups:
        return _check_by_groups(claim, files)
    raise Unsupported(
        f"the file alone does not show {format_claim(claim)}; give the original in the release's order, and the groups"
    )


def _is_unpermuted(files: Evidence) -> bool:
    """Whether no confidential value is seen to have moved."""
    original = files.original
    return original is None or all(has_same_values(original[name], files.released[name]) for name in files.confidential)


def _check_by_classes(claim: Guarantee, files: Evidence, classes: Integers, k: int) -> CheckedClaim:
    """k-anonymity is the stronger promise; swapping among rows that are alike gives it too, and changes nothing."""
    words = (
        f"{format_claim(claim)} holds, because every row shares its quasi-identifiers with {k - 1} others or more, "
        "among whom no swap would change anything."
    )
    measured, sentences = summarize_disclosures(
        {name: measure_group_disclosure(classes, files.released[name]) for name in files.confidential}
    )
    return CheckedClaim(claim, True, {"k": k, **measured}, (words, *sentences))


def _check_by_groups(claim: Guarantee, files: Evidence) -> CheckedClaim:
    sizes = {name: int(np.bincount(files.get_labels(name)).min()) for name in files.groups}
    for name, size in sizes.items():
        require_k(claim, size, _format_group(name))
    words = f"No group is smaller than {min(sizes.values())}; without the original nothing shows what was permuted."
    measured, sentences = _measure_disclosures(files)
    return CheckedClaim(claim, False, {"groups": sizes, **measured}, (words, *sentences))


def _measure_disclosures(files: Evidence) -> tuple[dict[str, object], list[str]]:
    """What the groups tell of each confidential column, whichever columns moved inside them."""
    if not files.groups:
        return {}, []
    return summarize_disclosures(
        {name: measure_group_disclosure(files.get_labels(name), files.released[name]) for name in files.confidential}
    )


def _check_by_original(claim: Guarantee, files: Evidence, original: Table) -> CheckedClaim:
    measured_columns = [
        _check_within_groups(claim, files, original, permuted)
        if files.groups
        else _check_without_groups(claim, permuted)
        for permuted in _list_permuted(files, original)
    ]
    if not _is_unpermuted(files):
        require_no_copy(claim, files, original, files.other_columns)
    disclosures, sentences = _measure_disclosures(files)
    linkage = bound_linkage(original, files.released, files.quasi) if files.quasi else None
    columns = {column.name: column.measured for column in measured_columns}
    measured = {
        "columns": columns,
        **disclosures,
        "linkage_by_distance": format_ratio(linkage),
        **_measure_alone_by_ranks(files),
    }
    words = [*(column.words for column in measured_columns), *([PROVISO] if files.groups else []), *sentences]
    if linkage is not None:
        words.append(
            f"Beside the claim, and not bounded by it: rows link to {format_percent_at_most(linkage)} of the people."
        )
    return CheckedClaim(claim, bool(files.groups), measured, tuple(words))


def _list_permuted(files: Evidence, original: Table) -> list[_PermutedColumn]:
    """Each confidential column; or the quasi-identifiers as one, where they moved and no confidential value did."""
    if not files.confidential:
        raise InvalidInput("probabilistic k-anonymity is of confidential columns; name them")
    blocks = [_build_permuted_column(files, original, (name,)) for name in files.confidential]
    if files.quasi and all(np.array_equal(block.before, block.after) for block in blocks):
        quasi = _build_permuted_column(files, original, files.quasi)
        return blocks if np.array_equal(quasi.before, quasi.after) else [quasi]
    return blocks


def _build_permuted_column(files: Evidence, original: Table, names: tuple[str, ...]) -> _PermutedColumn:
    rows = original.rows
    codes, m = np.zeros(2 * rows, dtype=np.int64), 1
    for name in names:
        before, after, value_count = encode_together(original[name], files.released[name])
        codes, m = cross_codes(codes, np.concatenate([before, after]), value_count)
    return _PermutedColumn(names[0] if len(names) == 1 else RECORDS, codes[:rows], codes[rows:], m)


def _check_within_groups(
    claim: Guarantee, files: Evidence, original: Table, permuted: _PermutedColumn
) -> _MeasuredColumn:
    """Groups of k or more that hold what they held, with as many values on their own rows as chance brings there."""
    groups = files.get_labels(permuted.name)
    smallest_size = int(np.bincount(groups).min())
    require_k(claim, smallest_size, _format_group(permuted.name))
    disturbed_groups = count_disturbed_groups(permuted.before, permuted.after, permuted.m, groups)
    if disturbed_groups:
        raise ClaimFailed(
            f"the release claims {format_claim(claim)}, and {disturbed_groups} groups of {permuted.name[:40]!r} "
            "do not hold the values that "
            "they hold in the original, so it is no permutation inside them"
        )
    hits = require_uniform(claim, permuted.name, permuted.before, permuted.after, permuted.m, groups)
    words = (
        f"{permuted.name[:40]!r}: a value is on its own row with probability at most 1/{smallest_size}; with "
        "duplicates "
        f"{hits.observed} of {hits.rows} rows carry a value equal to their own, where chance gives "
        f"{format_number(hits.expected)} ± {format_number(hits.deviation)}{_format_suspicion(hits)}."
    )
    width = measure_group_width(original[permuted.name], groups) if permuted.name in original.attributes else None
    return _MeasuredColumn(
        permuted.name, {"least_group": smallest_size, "hits": hits.to_json(), "rank_group_width": width}, words
    )


def _check_without_groups(claim: Guarantee, permuted: _PermutedColumn) -> _MeasuredColumn:
    """Without groups: the column is a permutation, and of the values nobody else has not too many stayed."""
    if not np.array_equal(np.sort(permuted.before), np.sort(permuted.after)):
        raise Unsupported(
            f"{permuted.name[:40]!r} does not hold the original's values in another order, so no permutation can be "
            f"checked; give the groups, or claim another model than {format_claim(claim)}"
        )
    hits = count_unique_hits(permuted.before, permuted.after, claim.k or 1)
    if not hits.rows:
        raise Unsupported(
            f"no value of {permuted.name[:40]!r} is one person's alone, so that nothing shows "
            "whose it is; give the groups"
        )
    require_chance(claim, permuted.name, hits)
    own_values = int(np.count_nonzero(permuted.before == permuted.after))
    words = (
        f"{permuted.name[:40]!r}: not refuted: of {hits.rows} values that are one person's alone "
        f"{hits.observed} are on "
        f"their own rows, where the claim gives {format_upper(hits.expected)} or fewer on "
        f"average{_format_suspicion(hits)}; "
        f"with duplicates {own_values} of {len(permuted.before)} rows carry a value equal to their own."
    )
    measured = {"hits_of_unique": hits.to_json(), "own_value": own_values, "rows": len(permuted.before)}
    return _MeasuredColumn(permuted.name, measured, words)


def _format_suspicion(hits: Hits) -> str:
    return (
        f", which is suspicious: {format_number(hits.deviations_above, 2)} deviations above"
        if hits.deviations_above > SUSPICIOUS_DEVIATIONS
        else ""
    )


def _measure_alone_by_ranks(files: Evidence) -> dict[str, object]:
    """The share of rows that nobody shares all their rank groups with: who knows the groups links these rows."""
    rank_groups = [files.get_labels(name) for name in files.groups if name != RECORDS]
    if not rank_groups:
        return {}
    classes = np.zeros(files.released.rows, dtype=np.int64)
    for labels in rank_groups:
        classes, _ = cross_codes(classes, labels, int(labels.max()) + 1)
    return {"alone_by_rank_groups": float(np.mean(np.bincount(classes)[classes] == 1))}


def _format_group(name: str) -> str:
    return "group" if name == RECORDS else f"group of {name[:40]!r}"
