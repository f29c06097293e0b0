"""Check the claims of a release on its files, without trusting the method that made it.

Groups that the file hides protect only where their values changed places. The original shows whether they did: as many
rows carry the value nearest to their own as a uniform permutation brings there. A file alone never refutes the claim,
since the groups it hides need not be its classes.

Only the groups and the original prove it: every group has k rows or more and holds what it held, so that each of its
rows is as likely as any other to have got a person's value, provided the permutation was uniform; counts of values that
came back to their own rows look for permutations that were not. Record linkage and what a group tells of a value, all
of it where its values are one, are measured too, and bounded by nothing.

A claim that the files contradict raises `ClaimFailed`, one that they cannot show `Unsupported`, which says what to add.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

import numpy as np

from discreet.errors import InvalidInput, Unsupported
from discreet.formatting import format_cost, format_number, format_percent, format_percent_at_most, format_upper
from discreet.json_fields import JsonWritable
from discreet.privacy.guarantee import Guarantee
from discreet.sdc.table import Attribute, Integers, Table, read_table
from discreet.sdc.verify.anonymity import (
    Anonymity,
    Ratio,
    format_ratio,
    measure_anatomy,
    measure_anonymity,
    measure_groups,
)
from discreet.sdc.verify.evidence import (
    COUNT,
    GROUP,
    PROVISO,
    RECORDS,
    SUSPICIOUS_DEVIATIONS,
    CheckedClaim,
    Evidence,
    Hits,
    bound_linkage,
    build_failure,
    check_column_names,
    count_disturbed_groups,
    count_unique_hits,
    cross_codes,
    encode_together,
    encode_values,
    expand_counts,
    find_classes,
    find_nearest_values,
    format_claim,
    has_same_values,
    measure_group_width,
    require_chance,
    require_k,
    require_no_copy,
    require_uniform,
)
from discreet.untrusted import require_exact_class


@dataclass(frozen=True, slots=True)
class GroupDisclosure(JsonWritable):
    """The disclosure of one confidential column by groups."""

    rows: int
    hits: float
    """The share of rows that chance gives a value equal to their own."""
    alone: int
    """How many rows are in groups with one value only."""

    @property
    def certain(self) -> float:
        """The share of rows in groups with one value only."""
        return self.alone / self.rows

    _json_fields = "hits certain certain_rows=alone"


def measure_group_disclosure(groups: Integers, values: Attribute) -> GroupDisclosure:
    """The disclosure of a column by groups, its values being among those of the row's group."""
    places, m = encode_values(values)
    keys, count = np.unique(groups * m + places, return_counts=True)
    sizes = np.bincount(groups)[keys // m]
    return GroupDisclosure(len(places), float((count**2 / sizes).sum()) / len(places), int(count[count == sizes].sum()))


def summarize_disclosures(groups: Mapping[str, Integers], values: Table) -> tuple[dict[str, object], list[str]]:
    """The disclosure of each column by its groups: the figures of all and of the worst, and a sentence for each."""
    columns = {name: measure_group_disclosure(labels, values[name]) for name, labels in groups.items()}
    if not columns:
        return {}, []
    measured: dict[str, object] = {
        "hits": max(disclosure.hits for disclosure in columns.values()),
        "certain": max(disclosure.certain for disclosure in columns.values()),
        "disclosed": {name: disclosure.to_json() for name, disclosure in columns.items()},
    }
    sentences = []
    for name, disclosure in columns.items():
        certain = "no group has one value only"
        if disclosure.alone:
            people = f"of {disclosure.rows} rows {disclosure.alone}"
            certain = f"{people} are in groups with one value: for them the value is certain"
        sentences.append(
            f"{name[:40]!r}: one of the group's values, drawn at random, is equal to their own for "
            f"{format_percent(disclosure.hits)} of the people; {certain}."
        )
    return measured, sentences


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
    measured, sentences = summarize_disclosures(dict.fromkeys(anonymity.columns, groups), values)
    return CheckedClaim(claim, True, {"anonymity": anonymity.to_json(), **measured}, (*words, *sentences))


def measure_separate_tables(claim: Guarantee, files: Evidence, second: Table) -> Anonymity:
    """Measure the two tables, where nothing but the group leads from one to the other."""
    for name in files.confidential:
        if name in files.released.attributes:
            raise build_failure(claim, f"its first table shows {name[:40]!r} row by row")
    if files.original is not None:
        require_no_copy(claim, files, files.original, [name for name in files.released if name != GROUP])
    anonymity = measure_anatomy(files.released, second, files.confidential)
    if surplus := [name for name in second if name not in {GROUP, *anonymity.columns, COUNT}]:
        raise build_failure(
            claim,
            f"its second table holds {surplus[0][:40]!r} beside {GROUP!r}, the confidential columns and {COUNT!r}",
        )
    _require_order(claim, second, (GROUP, *anonymity.columns))
    return anonymity


def _require_order(claim: Guarantee, second: Table, names: tuple[str, ...]) -> None:
    """One row for each group and value, by group and value: an order of the people's would tell whose they are."""
    if len(np.unique(find_classes(second, names))) < second.rows:
        raise build_failure(
            claim,
            "its second table lists a group's value more than once, which tells people apart; count them in one row",
        )
    is_tied = np.ones(max(second.rows - 1, 0), dtype=np.bool_)
    for name in names:
        places = encode_values(second[name])[0]
        before, after = places[:-1][is_tied], places[1:][is_tied]
        # Names may be in any one list, since files do not say in which they were declared.
        if not np.all(before <= after) and (
            second[name].kind == "numeric" or not _has_common_order(np.column_stack([before, after])[before != after])
        ):
            finding = f"its second table is not sorted by {name[:40]!r}"
            raise build_failure(claim, f"{finding}, so that the order of its rows may tell whose they are")
        is_tied &= places[1:] == places[:-1]


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
        raise build_failure(claim, "its second table does not hold its groups' values")


def check_closeness_claim(claim: Guarantee, files: Evidence) -> CheckedClaim:
    """The measured t is at most the claimed one, exactly."""
    if not files.confidential:
        raise InvalidInput("t-closeness is of confidential columns; name them")
    if files.second is not None:
        return _check_measured_t(claim, measure_separate_tables(claim, files, files.second), "group")
    if files.groups:
        return _check_hidden_groups(claim, files)
    anonymity = measure_anonymity(files.released, files.quasi, files.confidential)
    figure = _get_measured_t(claim, anonymity)
    if figure > (claim.t or 0):
        raise Unsupported(
            f"the file alone does not show {format_claim(claim)}: {_format_figure(figure, 'class')} was measured over "
            "every class of equal quasi-identifiers, and its groups may be others that it hides; give the groups or "
            "Anatomy's second table"
        )
    return _check_measured_t(claim, anonymity, "class")


def _check_hidden_groups(claim: Guarantee, files: Evidence) -> CheckedClaim:
    groups = files.get_labels(files.confidential[0] if len(files.confidential) == 1 else RECORDS)
    checked_claim = _check_measured_t(claim, measure_groups(groups, files.released, files.confidential), "group")
    if files.original is None:
        unproved = "Without the original nothing shows that values changed places inside the groups."
        words = (*checked_claim.words, unproved)
        return CheckedClaim(claim, False, checked_claim.measured, words)
    require_no_copy(claim, files, files.original, files.other_columns)
    hits = {}
    for name in files.confidential:
        places = find_nearest_values(files.original[name], files.released[name])
        hits[name] = require_uniform(claim, name, *places, groups).to_json()
    sentence = "As many values are near those of their own rows as changing places brings there."
    words = (*checked_claim.words, sentence, PROVISO)
    return CheckedClaim(claim, True, {**checked_claim.measured, "hits": hits}, words)


def _check_measured_t(claim: Guarantee, anonymity: Anonymity, group_kind: str) -> CheckedClaim:
    figure = _get_measured_t(claim, anonymity)
    if figure > (claim.t or 0):
        raise build_failure(claim, f"{_format_figure(figure, group_kind)} was measured over every {group_kind}")
    words = (
        f"{format_claim(claim)} holds: {format_cost(figure)} was measured over every {group_kind}, "
        f"the smallest of which has {anonymity.k} rows."
    )
    return CheckedClaim(claim, True, {"anonymity": anonymity.to_json(), "t": format_ratio(figure)}, (words,))


def _format_figure(figure: Ratio, group_kind: str) -> str:
    return f"infinite, since a {group_kind} lacks a value," if figure == math.inf else format_cost(figure)


def _get_measured_t(claim: Guarantee, anonymity: Anonymity) -> Ratio:
    """The measured t under the claim's distance; several columns together, which is never the smaller for ratios."""
    if claim.distance == "ratio":
        worst = anonymity.together.t_ratio if anonymity.together else anonymity.t_ratio
    elif claim.distance in {"emd", "earth mover's"}:
        worst = anonymity.t_emd
    else:
        raise Unsupported(f"t-closeness is measured under ratio or emd, not under {str(claim.distance)[:40]!r}")
    return math.inf if worst is None else worst


@dataclass(frozen=True, slots=True, eq=False)
class _PermutedColumn:
    """A permuted column, or several as one, with the places of its values before and after."""

    name: str
    before: Integers
    after: Integers
    m: int


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
    measured, sentences = summarize_disclosures(dict.fromkeys(files.confidential, classes), files.released)
    return CheckedClaim(claim, True, {"k": k, **measured}, (words, *sentences))


def _check_by_groups(claim: Guarantee, files: Evidence) -> CheckedClaim:
    sizes = {name: int(np.bincount(files.get_labels(name)).min()) for name in files.groups}
    for name, size in sizes.items():
        require_k(claim, size, _format_group(name))
    words = f"No group is smaller than {min(sizes.values())}; without the original nothing shows what was permuted."
    measured, sentences = _measure_disclosures(files)
    return CheckedClaim(claim, False, {"groups": sizes, **measured}, (words, *sentences))


def _measure_disclosures(files: Evidence) -> tuple[dict[str, object], list[str]]:
    """The disclosure of each confidential column by the groups, whichever columns moved inside them."""
    labels = {name: files.get_labels(name) for name in files.confidential} if files.groups else {}
    return summarize_disclosures(labels, files.released)


def _check_by_original(claim: Guarantee, files: Evidence, original: Table) -> CheckedClaim:
    columns: dict[str, object] = {}
    words = []
    for permuted in _list_permuted(files, original):
        if files.groups:
            columns[permuted.name], sentence = _check_within_groups(claim, files, original, permuted)
        else:
            columns[permuted.name], sentence = _check_without_groups(claim, permuted)
        words.append(sentence)
    if not _is_unpermuted(files):
        require_no_copy(claim, files, original, files.other_columns)
    disclosures, sentences = _measure_disclosures(files)
    linkage = bound_linkage(original, files.released, files.quasi) if files.quasi else None
    measured = {
        "columns": columns,
        **disclosures,
        "linkage_by_distance": format_ratio(linkage),
        **_measure_alone_by_ranks(files),
    }
    words += [*([PROVISO] if files.groups else []), *sentences]
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
) -> tuple[dict[str, object], str]:
    """Groups of k or more that hold what they held, with as many values on their own rows as chance brings there."""
    groups = files.get_labels(permuted.name)
    smallest_size = int(np.bincount(groups).min())
    require_k(claim, smallest_size, _format_group(permuted.name))
    disturbed_groups = count_disturbed_groups(permuted.before, permuted.after, permuted.m, groups)
    if disturbed_groups:
        raise build_failure(
            claim,
            f"{disturbed_groups} groups of {permuted.name[:40]!r} do not hold the values that they hold in the "
            "original, so it is no permutation inside them",
        )
    hits = require_uniform(claim, permuted.name, permuted.before, permuted.after, permuted.m, groups)
    words = (
        f"{permuted.name[:40]!r}: a value is on its own row with probability at most 1/{smallest_size}; with "
        f"duplicates {hits.observed} of {hits.rows} rows carry a value equal to their own, where chance gives "
        f"{format_number(hits.expected)} ± {format_number(hits.deviation)}{_format_suspicion(hits)}."
    )
    width = measure_group_width(original[permuted.name], groups) if permuted.name in original.attributes else None
    return {"least_group": smallest_size, "hits": hits.to_json(), "rank_group_width": width}, words


def _check_without_groups(claim: Guarantee, permuted: _PermutedColumn) -> tuple[dict[str, object], str]:
    """The column is a permutation, and not too many values that one person alone has stayed in their rows."""
    if not np.array_equal(np.sort(permuted.before), np.sort(permuted.after)):
        raise Unsupported(
            f"{permuted.name[:40]!r} does not hold the original's values in another order, so no permutation can be "
            f"checked; give the groups, or claim another model than {format_claim(claim)}"
        )
    hits = count_unique_hits(permuted.before, permuted.after, claim.k or 1)
    if not hits.rows:
        raise Unsupported(
            f"no value of {permuted.name[:40]!r} is one person's alone, so that nothing shows whose it is; "
            "give the groups"
        )
    require_chance(claim, permuted.name, hits)
    own_values = int(np.count_nonzero(permuted.before == permuted.after))
    words = (
        f"{permuted.name[:40]!r}: not refuted: of {hits.rows} values that are one person's alone {hits.observed} are "
        f"on their own rows, where the claim gives {format_upper(hits.expected)} or fewer on "
        f"average{_format_suspicion(hits)}; with duplicates {own_values} of {len(permuted.before)} rows carry a value "
        "equal to their own."
    )
    return {"hits_of_unique": hits.to_json(), "own_value": own_values, "rows": len(permuted.before)}, words


def _format_suspicion(hits: Hits) -> str:
    if hits.deviations_above <= SUSPICIOUS_DEVIATIONS:
        return ""
    return f", which is suspicious: {format_number(hits.deviations_above, 2)} deviations above"


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


def check_claim(
    guarantee: Guarantee,
    released: object,
    quasi: Sequence[str] = (),
    confidential: Sequence[str] = (),
    *,
    original: object | None = None,
    groups: Mapping[str, object] | None = None,
    second: object | None = None,
    kept: Sequence[str] = (),
) -> CheckedClaim:
    """Check the guarantee of a release on its files, independently of the method that made them.

    Args:
        guarantee: The claim, such as Guarantee.k_anonymity(5).
        released: The released table.
        quasi: The quasi-identifiers.
        confidential: The confidential columns.
        original: The rows that the release was made of, in the release's order.
        groups: The labels of the groups that hide rows, under "records" or the name of a confidential column.
        second: Anatomy's other table.
        kept: Columns that were released unchanged; other columns without a role are named in the result.

    Returns:
        The checked claim: whether the files prove it, and what was measured.

    Raises:
        InvalidInput: A table, a column or the guarantee is not valid.
        ClaimFailed: The files violate the claim.

    Example:
        >>> from discreet import Guarantee, check_claim
        >>> table = {"age": [30, 30, 41, 41], "income": [1, 2, 3, 4]}
        >>> check_claim(Guarantee.k_anonymity(2), table, quasi=["age"], confidential=["income"]).shown
        True
    """
    require_exact_class(guarantee, Guarantee, "the claim must be a Guarantee, such as Guarantee.k_anonymity(5)")
    files = Evidence(
        read_table(released),
        check_column_names(quasi, "quasi-identifiers") if quasi else (),
        check_column_names(confidential, "confidential columns") if confidential else (),
        None if original is None else read_table(original),
        groups or {},
        None if second is None else read_table(second),
        check_column_names(kept, "kept columns") if kept else (),
    )
    checked = _check_by_model(guarantee, files)
    # With the columns that no claim is about: who knows them may tell people apart by them.
    others = [name for name in files.other_columns if name not in files.kept_columns]
    listed_names = ", ".join(repr(name[:40]) for name in others)
    words = [f"Beside the columns that the claim is about the file holds: {listed_names}."] if others else []
    measured = {**checked.measured, "other_columns": others}
    return replace(checked, measured=measured, words=(*checked.words, *words))


def _check_by_model(guarantee: Guarantee, files: Evidence) -> CheckedClaim:
    if guarantee.model == "k-anonymity":
        return _check_k_anonymity(guarantee, files)
    if guarantee.model == "probabilistic-k-anonymity":
        return check_probabilistic_claim(guarantee, files)
    if guarantee.model == "t-closeness":
        return check_closeness_claim(guarantee, files)
    raise Unsupported(
        f"no file shows whether {guarantee.model} holds; only k-anonymity, probabilistic k-anonymity and t-closeness "
        "can be measured on one"
    )


def _check_k_anonymity(claim: Guarantee, files: Evidence) -> CheckedClaim:
    """The least class has k rows or more: then no linkage, by distance or otherwise, is right more often than 1/k."""
    anonymity = measure_anonymity(files.released, files.quasi, files.confidential)
    require_k(claim, anonymity.k, "class of equal quasi-identifiers")
    measured: dict[str, object] = {"anonymity": anonymity.to_json(), "linkage_at_most": format_ratio(anonymity.linkage)}
    words = [
        f"{format_claim(claim)} holds: the smallest class of equal quasi-identifiers has {anonymity.k} rows, "
        "and even who always finds the right class picks the right row for "
        f"{format_percent_at_most(anonymity.linkage)} of the people."
    ]
    linkage = None if files.original is None else bound_linkage(files.original, files.released, files.quasi)
    if linkage is not None:
        measured["linkage_by_distance"] = format_ratio(linkage)
        words.append(
            "The nearest released rows lead to the right one for at most "
            f"{format_percent_at_most(linkage)} of the people."
        )
    return CheckedClaim(claim, True, measured, tuple(words))
