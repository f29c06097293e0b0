"""The claim of probabilistic k-anonymity, checked on files: is a person's value on their own row at most 1/k likely?

Proved it is only with the groups and the original: every group has k rows or more and holds what it held, so that each
of its rows is as likely as any other to have got a person's value, provided the permutation was uniform; counts of
values that came back to their own rows look for permutations that were not. Record linkage and what a group tells of a
value, all of it where its values are one, are measured beside, and bounded by nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.assess.coding import alike, classes_of, crossed, same_values
from discreet.assess.disclosed import disclosed, told_of
from discreet.assess.evidence import (
    PROVISO,
    RECORDS,
    Checked,
    Evidence,
    named,
    require_chance,
    require_k,
    require_no_copy,
)
from discreet.assess.nearest import linkage_at_most
from discreet.assess.permuted import FAR, Hits, disturbed, hits_of_unique, width_in_groups
from discreet.assess.two_tables import anatomy_claim
from discreet.assess.uniform import require_uniform
from discreet.assess.variety import told
from discreet.errors import ClaimFailed, InvalidInput, Unsupported
from discreet.formatting import format_number, format_percent_at_most, format_upper
from discreet.guarantee import Guarantee
from discreet.microdata.table import Places, Table


@dataclass(frozen=True, slots=True, eq=False)
class _Moved:
    """What was permuted: a column, or several as one, with the places of its values before and after."""

    name: str
    before: Places
    after: Places
    m: int


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was measured of it, and in words."""

    name: str
    measured: dict[str, object]
    words: str


def probabilistic_claim(claim: Guarantee, files: Evidence) -> Checked:
    """By the two tables of Anatomy, by equal quasi-identifiers, by the original, or by groups alone."""
    if files.second is not None:
        return anatomy_claim(claim, files, files.second)
    classes = classes_of(files.released, files.quasi)
    k = int(np.bincount(classes).min())
    if files.quasi and k >= (claim.k or 1) and _stayed(files):
        return _by_classes(claim, files, classes, k)
    if files.original is not None:
        return _by_original(claim, files, files.original)
    if files.groups:
        return _by_groups(claim, files)
    raise Unsupported(
        f"the file alone does not show {named(claim)}; give the original in the release's order, and the groups"
    )


def _stayed(files: Evidence) -> bool:
    """Whether no confidential value is seen to have moved."""
    original = files.original
    return original is None or all(same_values(original[name], files.released[name]) for name in files.confidential)


def _by_classes(claim: Guarantee, files: Evidence, classes: Places, k: int) -> Checked:
    """k-anonymity is the stronger promise; swapping among rows that are alike gives it too, and changes nothing."""
    words = (
        f"{named(claim)} holds, because every row shares its quasi-identifiers with {k - 1} others or more, "
        "among whom no swap would change anything."
    )
    measured, more = told_of({name: disclosed(classes, files.released[name]) for name in files.confidential})
    return Checked(claim, True, {"k": k, **measured}, (words, *more))


def _by_groups(claim: Guarantee, files: Evidence) -> Checked:
    sizes = {name: int(np.bincount(files.labels(name)).min()) for name in files.groups}
    for name, size in sizes.items():
        require_k(claim, size, _group(name))
    words = f"No group is smaller than {min(sizes.values())}; without the original nothing shows what was permuted."
    measured, more = _disclosed(files)
    return Checked(claim, False, {"groups": sizes, **measured}, (words, *more))


def _disclosed(files: Evidence) -> tuple[dict[str, object], list[str]]:
    """What the groups tell of each confidential column, whichever columns moved inside them."""
    if not files.groups:
        return {}, []
    return told_of({name: disclosed(files.labels(name), files.released[name]) for name in files.confidential})


def _by_original(claim: Guarantee, files: Evidence, original: Table) -> Checked:
    checked = [
        _inside(claim, files, original, moved) if files.groups else _outside(claim, moved)
        for moved in _moved(files, original)
    ]
    if not _stayed(files):
        require_no_copy(claim, files, original, files.beside)
    told_too, more = _disclosed(files)
    linkage = linkage_at_most(original, files.released, files.quasi) if files.quasi else None
    columns = {each.name: each.measured for each in checked}
    measured = {"columns": columns, **told_too, "linkage_by_distance": told(linkage), **_alone(files)}
    words = [*(each.words for each in checked), *([PROVISO] if files.groups else []), *more]
    if linkage is not None:
        words.append(
            f"Beside the claim, and not bounded by it: rows link to {format_percent_at_most(linkage)} of the people."
        )
    return Checked(claim, bool(files.groups), measured, tuple(words))


def _moved(files: Evidence, original: Table) -> list[_Moved]:
    """Each confidential column; or the quasi-identifiers as one, where they moved and no confidential value did."""
    if not files.confidential:
        raise InvalidInput("probabilistic k-anonymity is of confidential columns; name them")
    blocks = [_block(files, original, (name,)) for name in files.confidential]
    if files.quasi and all(np.array_equal(block.before, block.after) for block in blocks):
        quasi = _block(files, original, files.quasi)
        return blocks if np.array_equal(quasi.before, quasi.after) else [quasi]
    return blocks


def _block(files: Evidence, original: Table, names: tuple[str, ...]) -> _Moved:
    rows = original.rows
    both, m = np.zeros(2 * rows, dtype=np.int64), 1
    for name in names:
        before, after, more = alike(original[name], files.released[name])
        both, m = crossed(both, np.concatenate([before, after]), more)
    return _Moved(names[0] if len(names) == 1 else RECORDS, both[:rows], both[rows:], m)


def _inside(claim: Guarantee, files: Evidence, original: Table, moved: _Moved) -> _Seen:
    """Groups of k or more that hold what they held, with as many values on their own rows as chance brings there."""
    groups = files.labels(moved.name)
    least = int(np.bincount(groups).min())
    require_k(claim, least, _group(moved.name))
    lost = disturbed(moved.before, moved.after, moved.m, groups)
    if lost:
        raise ClaimFailed(
            f"the release claims {named(claim)}, and {lost} groups of {moved.name[:40]!r} do not hold the values that "
            "they hold in the original, so it is no permutation inside them"
        )
    hits = require_uniform(claim, moved.name, moved.before, moved.after, moved.m, groups)
    words = (
        f"{moved.name[:40]!r}: a value is on its own row with probability at most 1/{least}; with duplicates "
        f"{hits.observed} of {hits.rows} rows carry a value equal to their own, where chance gives "
        f"{format_number(hits.expected)} ± {format_number(hits.deviation)}{_pointed(hits)}."
    )
    width = width_in_groups(original[moved.name], groups) if moved.name in original.attributes else None
    return _Seen(moved.name, {"least_group": least, "hits": hits.to_json(), "rank_group_width": width}, words)


def _outside(claim: Guarantee, moved: _Moved) -> _Seen:
    """Without groups: the column is a permutation, and of the values nobody else has not too many stayed."""
    if not np.array_equal(np.sort(moved.before), np.sort(moved.after)):
        raise Unsupported(
            f"{moved.name[:40]!r} does not hold the original's values in another order, so no permutation can be "
            f"checked; give the groups, or claim another model than {named(claim)}"
        )
    hits = hits_of_unique(moved.before, moved.after, claim.k or 1)
    if not hits.rows:
        raise Unsupported(
            f"no value of {moved.name[:40]!r} is one person's alone, so that nothing shows whose it is; give the groups"
        )
    require_chance(claim, moved.name, hits)
    shared = int(np.count_nonzero(moved.before == moved.after))
    words = (
        f"{moved.name[:40]!r}: not refuted: of {hits.rows} values that are one person's alone {hits.observed} are on "
        f"their own rows, where the claim gives {format_upper(hits.expected)} or fewer on average{_pointed(hits)}; "
        f"with duplicates {shared} of {len(moved.before)} rows carry a value equal to their own."
    )
    measured = {"hits_of_unique": hits.to_json(), "own_value": shared, "rows": len(moved.before)}
    return _Seen(moved.name, measured, words)


def _pointed(hits: Hits) -> str:
    return f", which is suspicious: {format_number(hits.away, 2)} deviations above" if hits.away > FAR else ""


def _alone(files: Evidence) -> dict[str, object]:
    """The share of rows that nobody shares all their rank groups with: who knows the groups links these rows."""
    own = [files.labels(name) for name in files.groups if name != RECORDS]
    if not own:
        return {}
    classes = np.zeros(files.released.rows, dtype=np.int64)
    for labels in own:
        classes, _ = crossed(classes, labels, int(labels.max()) + 1)
    return {"alone_by_rank_groups": float(np.mean(np.bincount(classes)[classes] == 1))}


def _group(name: str) -> str:
    return "group" if name == RECORDS else f"group of {name[:40]!r}"
