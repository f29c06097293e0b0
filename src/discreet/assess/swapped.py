"""The claim of probabilistic k-anonymity, checked on files: is a person's value on their own row at most 1/k likely?

Proved it is only with the groups and the original: every group has k rows or more and holds what it held, so that each
of its rows is as likely as any other to have got a person's value, provided the permutation was uniform; a count of
values that came back to their own rows looks for permutations that were not. Record linkage and what a rank group tells
of a value are measured beside, and bounded by nothing: swapping leaves the quasi-identifiers as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.assess.anonymity import measure_anatomy, measure_anonymity
from discreet.assess.coding import GROUP, alike, counted_out, crossed
from discreet.assess.evidence import RECORDS, Checked, Evidence, named, require_apart, require_chance, require_k
from discreet.assess.nearest import linkage_at_most
from discreet.assess.permuted import FAR, Hits, disturbed, hits_in_groups, hits_of_unique, width_in_groups
from discreet.assess.variety import told
from discreet.errors import ClaimFailed, InvalidInput, Unsupported
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
    """By the two tables of Anatomy, by groups and original, by the original alone, or by what the file itself shows."""
    if files.second is not None:
        return _by_anatomy(claim, files, files.second)
    if files.original is not None:
        return _by_original(claim, files, files.original)
    if files.groups:
        return _by_groups(claim, files)
    k = measure_anonymity(files.released, files.quasi).k if files.quasi else 1
    if k >= (claim.k or 1):
        words = f"{named(claim)} holds, because every row shares its quasi-identifiers with {k - 1} others or more."
        return Checked(claim, True, {"k": k}, (words,))
    raise Unsupported(
        f"the file alone does not show {named(claim)}; give the original in the release's order, and the groups"
    )


def _by_anatomy(claim: Guarantee, files: Evidence, second: Table) -> Checked:
    require_apart(claim, files)
    found = measure_anatomy(files.released, second, files.confidential)
    require_k(claim, found.k, "group")
    words = [f"{named(claim)} holds: the smallest group has {found.k} rows, and nothing says which value is whose."]
    if files.original is not None:
        _require_truth(claim, files, files.original, second)
        words.append("Every group's values are those of its people in the original.")
    return Checked(claim, True, {"anonymity": found.to_json()}, tuple(words))


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


def _by_groups(claim: Guarantee, files: Evidence) -> Checked:
    sizes = {name: int(np.bincount(files.labels(name)).min()) for name in files.groups}
    for name, size in sizes.items():
        require_k(claim, size, _group(name))
    words = f"No group is smaller than {min(sizes.values())}; without the original nothing shows what was permuted."
    return Checked(claim, False, {"groups": sizes}, (words,))


def _by_original(claim: Guarantee, files: Evidence, original: Table) -> Checked:
    checked = [
        _inside(claim, files, original, moved) if files.groups else _outside(claim, moved)
        for moved in _moved(files, original)
    ]
    columns = {each.name: each.measured for each in checked}
    words = [each.words for each in checked]
    linkage = linkage_at_most(original, files.released, files.quasi) if files.quasi else None
    measured = {"columns": columns, "linkage_by_distance": told(linkage), **_alone(files)}
    if linkage is not None:
        words.append(f"Beside the claim, and not bounded by it: rows link to {float(linkage):.2%} of the people.")
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
    """Groups of k or more that hold what they held, and no more values on their own rows than chance brings there."""
    groups = files.labels(moved.name)
    least = int(np.bincount(groups).min())
    require_k(claim, least, _group(moved.name))
    lost = disturbed(moved.before, moved.after, moved.m, groups)
    if lost:
        raise ClaimFailed(
            f"the release claims {named(claim)}, and {lost} groups of {moved.name[:40]!r} do not hold the values that "
            "they hold in the original, so it is no permutation inside them"
        )
    hits = hits_in_groups(moved.before, moved.after, moved.m, groups)
    require_chance(claim, moved.name, hits)
    words = (
        f"{moved.name[:40]!r}: a value is on its own row with probability at most 1/{least}; with duplicates "
        f"{hits.observed} of {hits.rows} rows carry a value equal to their own, where chance gives "
        f"{hits.expected:.1f} ± {hits.deviation:.1f}{_pointed(hits)}."
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
        f"their own rows, where the claim gives {hits.expected:.1f} or fewer on average{_pointed(hits)}; with "
        f"duplicates {shared} of {len(moved.before)} rows carry a value equal to their own."
    )
    measured = {"hits_of_unique": hits.to_json(), "own_value": shared, "rows": len(moved.before)}
    return _Seen(moved.name, measured, words)


def _pointed(hits: Hits) -> str:
    return f", which is suspicious: {hits.away:.1f} deviations above" if hits.away > FAR else ""


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
