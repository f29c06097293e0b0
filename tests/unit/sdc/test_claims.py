"""The verifier: claims that hold are shown, and every claim can fail on a release that was tampered with."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from discreet.errors import ClaimFailed, InvalidInput, Unsupported
from discreet.mechanisms.entropy import KeyedEntropy
from discreet.privacy.guarantee import Guarantee
from discreet.sdc.table import ProtectedTable, read_table
from discreet.sdc.verify.claims import check_claim
from discreet.sdc.verify.evidence import (
    MIN_DOUBT,
    CheckedClaim,
    Hits,
    bound_irregularity,
    bound_linkage,
    compute_hit_tails,
    count_hits_in_groups,
    count_unique_hits,
)

Arrays = dict[str, NDArray[Any]]
ROWS, K = 300, 10
GROUPS = np.arange(ROWS) // K
ANONYMOUS = Guarantee.k_anonymity(K)
PROBABLY_ANONYMOUS = Guarantee.k_anonymity(K, probabilistic=True)


def build_people() -> Arrays:
    """Ages in order, so that groups of neighbours are runs; incomes that nobody shares; jobs that many do."""
    draw = random.Random(7)
    return {
        "age": np.sort(np.array([draw.uniform(18, 90) for _ in range(ROWS)])),
        "income": np.array([draw.gauss(0, 1) for _ in range(ROWS)]),
        "job": np.array([draw.choice(["a", "b", "c"]) for _ in range(ROWS)]),
    }


def average_ages(table: Mapping[str, NDArray[Any]]) -> Arrays:
    """Microaggregated ages."""
    means = np.bincount(GROUPS, table["age"]) / np.bincount(GROUPS)
    return {**table, "age": means[GROUPS]}


def permute_in_groups(groups: NDArray[Any], seed: int) -> NDArray[np.int64]:
    """A permutation inside groups."""
    draw, order = random.Random(seed), np.arange(len(groups))
    for label in set(groups.tolist()):
        mine = np.flatnonzero(groups == label)
        order[mine] = draw.sample(mine.tolist(), len(mine))
    return order


def swap_columns(
    table: Mapping[str, NDArray[Any]], *names: str, groups: NDArray[Any] = GROUPS, seed: int = 1
) -> Arrays:
    """The same table with these columns moved, together, inside groups."""
    order = permute_in_groups(groups, seed)
    return {**table, **{name: table[name][order] for name in names}}


def test_a_microaggregated_table_is_k_anonymous_and_links_at_most_1_in_k() -> None:
    """From the file alone, and beside the original, where record linkage is at most 1/k."""
    original = build_people()
    alone = check_claim(ANONYMOUS, average_ages(original), ["age"], ["income"])
    compared = check_claim(ANONYMOUS, average_ages(original), ["age"], ["income"], original=original)
    assert alone.shown
    assert alone.measured["linkage_at_most"] == "1/10"
    assert Fraction(str(compared.measured["linkage_by_distance"])) <= Fraction(1, K)
    assert "10-anonymity holds" in alone.words[0]
    assert json.loads(json.dumps(compared.to_json(), allow_nan=False))["shown"] is True


def test_one_row_that_keeps_its_age_breaks_k_anonymity() -> None:
    """A single tampered cell makes a class of one."""
    released = average_ages(build_people())
    released["age"][17] += 0.001
    with pytest.raises(ClaimFailed, match=r"claims 10-anonymity, and its smallest class .* has 1"):
        check_claim(ANONYMOUS, released, ["age"])


def test_a_greater_k_than_there_is_does_not_hold() -> None:
    """The claim is compared with what is measured, not with what was asked for."""
    with pytest.raises(ClaimFailed, match=r"claims 11-anonymity, and its smallest class .* has 10"):
        check_claim(Guarantee.k_anonymity(11), average_ages(build_people()), ["age"])


def test_values_swapped_in_their_groups_are_shown_with_groups_and_original() -> None:
    """Groups of k, what they held, and hits within chance; linkage and rank groups are told beside."""
    original = build_people()
    checked = check_claim(
        PROBABLY_ANONYMOUS, swap_columns(original, "income", "job"), ["age"], ["income", "job"], original=original,
        groups={"records": GROUPS},
    )  # fmt: skip
    assert checked.shown
    columns: Any = checked.measured["columns"]
    assert columns["income"]["least_group"] == K
    assert columns["income"]["hits"]["expected"] == pytest.approx(ROWS / K)
    assert columns["job"]["hits"]["expected"] > ROWS / 3
    assert columns["job"]["rank_group_width"] is None
    assert checked.measured["linkage_by_distance"] == "1"
    assert "alone_by_rank_groups" not in checked.measured
    json.dumps(checked.to_json(), allow_nan=False)


def test_swapped_quasi_identifiers_are_shown_too() -> None:
    """The other way round: the quasi-identifiers of a record move as one and the confidential values stay."""
    original = {**build_people(), "place": np.arange(ROWS)}
    checked = check_claim(
        PROBABLY_ANONYMOUS, swap_columns(original, "age", "place"), ["age", "place"], ["income"], original=original,
        groups={"records": GROUPS},
    )  # fmt: skip
    assert checked.shown
    assert list(checked.measured["columns"]) == ["records"]  # type: ignore[call-overload]
    apart = swap_columns(swap_columns(original, "age"), "place", seed=2)
    with pytest.raises(ClaimFailed, match="30 groups of 'records' do not hold"):
        check_claim(
            PROBABLY_ANONYMOUS, apart, ["age", "place"], ["income"], original=original, groups={"records": GROUPS}
        )


def test_files_read_apart_are_compared_by_their_names() -> None:
    """Categories in another order, and missing values, are the same values all the same."""
    words = np.array(["b", "a", None, "c"] * 75, dtype=object)
    original = {"age": build_people()["age"], "word": words}
    before = read_table(original, categories={"word": ["a", "b", "c"]})
    after = read_table(swap_columns(original, "word"), categories={"word": ["c", "b", "a", "z"]})
    checked = check_claim(PROBABLY_ANONYMOUS, after, ["age"], ["word"], original=before, groups={"records": GROUPS})
    expected = 15 * (9 + 9 + 4 + 4) / 10 + 15 * (4 + 4 + 9 + 9) / 10
    assert checked.measured["columns"]["word"]["hits"]["expected"] == pytest.approx(expected)  # type: ignore[index]
    lost = swap_columns(original, "word")
    lost["word"] = np.where(lost["word"] == None, "a", lost["word"])  # noqa: E711  element by element
    with pytest.raises(ClaimFailed, match="30 groups of 'word' do not hold"):
        check_claim(PROBABLY_ANONYMOUS, lost, ["age"], ["word"], original=original, groups={"records": GROUPS})


def test_each_column_may_have_its_own_groups() -> None:
    """IR-SWAP: rank groups differ by column, and tell a value up to their width, which is told and not bounded."""
    original = {name: build_people()[name] for name in ("age", "income")}
    groups = {name: np.argsort(np.argsort(values)) // K for name, values in original.items()}
    released = {name: swap_columns(original, name, groups=groups[name])[name] for name in original}
    checked = check_claim(PROBABLY_ANONYMOUS, released, [], ["age", "income"], original=original, groups=groups)
    columns: Any = checked.measured["columns"]
    assert 0 < columns["income"]["rank_group_width"] < 0.5
    assert 0.5 < checked.measured["alone_by_rank_groups"] <= 1  # type: ignore[operator]
    with pytest.raises(InvalidInput, match="no groups for 'income'"):
        check_claim(
            PROBABLY_ANONYMOUS, released, [], ["age", "income"], original=original, groups={"age": groups["age"]}
        )


def test_a_group_below_k_breaks_probabilistic_k_anonymity() -> None:
    """With the original and without."""
    original, small = build_people(), GROUPS.copy()
    small[0] = 1
    for given_too in ({"original": original}, {}):
        with pytest.raises(ClaimFailed, match=r"probabilistic 10-anonymity, and its smallest group.* has 9"):
            check_claim(
                PROBABLY_ANONYMOUS,
                swap_columns(original, "income"),
                ["age"],
                ["income"],
                groups={"records": small},
                **given_too,
            )


def test_a_value_from_outside_its_group_breaks_the_claim() -> None:
    """Two groups no longer hold what they held, so that nothing follows from their sizes."""
    original = build_people()
    released = swap_columns(original, "income")
    released["income"][[0, 15]] = released["income"][[15, 0]]
    with pytest.raises(ClaimFailed, match="2 groups of 'income' do not hold the values"):
        check_claim(PROBABLY_ANONYMOUS, released, ["age"], ["income"], original=original, groups={"records": GROUPS})


@pytest.mark.parametrize("with_groups", [True, False])
def test_values_that_never_moved_break_the_claim(with_groups: bool) -> None:
    """The original itself, or one with half of the values at home, is not what a uniform permutation gives."""
    original = build_people()
    given_too: Any = {"groups": {"records": GROUPS}} if with_groups else {}
    half = {**original, "income": np.where(GROUPS % 2, original["income"], swap_columns(original, "income")["income"])}
    for released in (original, half):
        with pytest.raises(ClaimFailed, match=r"carry their own value of 'income' .* less than once in a billion"):
            check_claim(PROBABLY_ANONYMOUS, released, ["age"], ["income"], original=original, **given_too)


def order_by_rule(rule: str, rows: int) -> NDArray[np.int64]:
    """Orders inside tens that are not drawn: what a row gets is known to who knows the rule."""
    order = np.arange(rows)
    if rule == "exchanged in pairs":
        return order ^ 1
    if rule == "turned but for the first":
        return np.where(order % K == 0, order, np.where(order % K == K - 1, order - K + 2, order + 1))
    moved = permute_in_groups(order // K, 6)
    return np.where(order < rows // 500, order, moved)  # a few groups are left as they were


@pytest.mark.parametrize(
    ("rule", "rows", "words"),
    [
        ("exchanged in pairs", ROWS, "groups keep values of 'income' .* so often or so evenly"),
        ("exchanged in pairs", 4 * ROWS, "only 0 of 1200 rows carry their own value"),
        ("turned but for the first", 1000, "groups keep values of 'income' .* so often or so evenly"),
        ("left alone here and there", 20_000, "groups keep values of 'income' .* so often or so evenly"),
    ],
)
def test_values_moved_by_a_rule_break_the_claim(rule: str, rows: int, words: str) -> None:
    """Too few of their own, as many in every group, or some groups left as they were, while the mean looks right."""
    original = {"age": np.arange(rows), "income": np.arange(rows) * 7 % rows}
    released = {**original, "income": original["income"][order_by_rule(rule, rows)]}
    with pytest.raises(ClaimFailed, match=words):
        check_claim(
            PROBABLY_ANONYMOUS,
            released,
            ["age"],
            ["income"],
            original=original,
            groups={"records": np.arange(rows) // K},
        )


def test_groups_left_as_they_were_are_found_among_duplicates() -> None:
    """Of two values, five each in tens: a group keeps all once in 252 times, and not 160 of 2,000 do."""
    rows = 20_000
    income, order = np.arange(rows) % 2, permute_in_groups(np.arange(rows) // K, 8)
    order[:1600] = np.arange(1600)
    bound = bound_irregularity(income, income[order], 2, np.arange(rows) // K)
    assert (
        bound
        < MIN_DOUBT
        < bound_irregularity(income, income[permute_in_groups(np.arange(rows) // K, 8)], 2, np.arange(rows) // K)
    )


@pytest.mark.parametrize(("size", "alone"), [(2, 2), (5, 5), (7, 7), (7, 4), (6, 1)])
def test_the_chance_of_hits_is_that_of_all_permutations(size: int, alone: int) -> None:
    """h or more of some values on their own rows, by enumeration."""
    ways = [sum(way[i] == i for i in range(alone)) for way in permutations(range(size))]
    tails = compute_hit_tails(np.array([size]), np.array([alone]))[0]
    for h in range(1, 10):
        assert tails[h - 1] == pytest.approx(sum(hits >= h for hits in ways) / len(ways), abs=1e-15)


def test_what_was_drawn_is_shown_with_a_proviso() -> None:
    """No single file proves that a permutation was drawn uniformly, and the words say so."""
    original = build_people()
    checked = check_claim(
        PROBABLY_ANONYMOUS,
        swap_columns(original, "income"),
        ["age"],
        ["income"],
        original=original,
        groups={"records": GROUPS},
    )
    assert checked.shown
    assert any("uniformly, which no single file can prove" in words for words in checked.words)


def test_a_swap_that_changes_nothing_is_told_with_what_it_discloses() -> None:
    """Rank groups of a column with three values: nearly all rows keep theirs, and for them it is certain."""
    from discreet.sdc.methods.swap import ir_swap

    table = {"age": np.arange(ROWS), "job": np.repeat(["a", "b", "c"], ROWS // 3)}
    release = ir_swap(table, K, ["job"], entropy=KeyedEntropy(b"claims", "nothing"))
    checked = check_claim(release.guarantee, release, ["age"], ["job"], original=table, groups=release.groups)
    assert checked.measured["certain"] == checked.measured["hits"] == 1
    assert any("of 300 rows 300 are in groups with one value" in words for words in checked.words)


def test_moving_quasi_identifiers_that_are_alike_changes_nothing_and_holds() -> None:
    """Groups alike in the quasi-identifiers are k-anonymous; so is a microaggregated file, beside the original too."""
    from discreet.sdc.methods.swap import mdav_swap

    table = {"sex": np.array(["F", "M"] * 100), "income": np.arange(200)}
    release = mdav_swap(table, 5, ["sex"], ["income"], swap="quasi", entropy=KeyedEntropy(b"claims", "alike"))
    checked = check_claim(release.guarantee, release, ["sex"], ["income"], original=table, groups=release.groups)
    assert checked.shown
    assert "among whom no swap would change anything" in checked.words[0]
    original = build_people()
    assert check_claim(PROBABLY_ANONYMOUS, average_ages(original), ["age"], ["income"], original=original).shown


def test_quasi_identifiers_that_hardly_moved_break_the_claim() -> None:
    """Two swapped rows among 300 hide nobody else."""
    original = build_people()
    order = np.arange(ROWS)
    order[[3, 4]] = [4, 3]
    with pytest.raises(ClaimFailed, match="298 of 300 rows carry their own value of 'age'"):
        check_claim(
            PROBABLY_ANONYMOUS, {**original, "age": original["age"][order]}, ["age"], ["income"], original=original
        )


def test_without_groups_a_swap_is_not_refuted_and_not_shown() -> None:
    """Only values that are one person's alone count; duplicates are told."""
    original = build_people()
    checked = check_claim(PROBABLY_ANONYMOUS, swap_columns(original, "income"), ["age"], ["income"], original=original)
    assert not checked.shown
    assert "not refuted" in checked.words[0]
    assert checked.measured["columns"]["income"]["hits_of_unique"]["expected"] == 30  # type: ignore[index]


def test_what_files_cannot_show_is_said_with_what_to_add() -> None:
    """A swapped file alone; a column without values of one's own; values that are no permutation; another model."""
    original = build_people()
    with pytest.raises(Unsupported, match="give the original in the release's order, and the groups"):
        check_claim(PROBABLY_ANONYMOUS, swap_columns(original, "income"), ["age"], ["income"])
    with pytest.raises(Unsupported, match="no value of 'job' is one person's alone"):
        check_claim(PROBABLY_ANONYMOUS, swap_columns(original, "job"), ["age"], ["job"], original=original)
    noisy = {**original, "income": original["income"] + 1}
    with pytest.raises(Unsupported, match="does not hold the original's values in another order"):
        check_claim(PROBABLY_ANONYMOUS, noisy, ["age"], ["income"], original=original)
    with pytest.raises(Unsupported, match="no file shows whether dp holds"):
        check_claim(Guarantee.dp(1), original, ["age"])


def test_k_anonymity_shows_probabilistic_k_anonymity_and_groups_alone_do_not() -> None:
    """Definition 5 follows from Definition 2; sizes of groups say nothing about what was done in them."""
    original = build_people()
    assert check_claim(PROBABLY_ANONYMOUS, average_ages(original), ["age"], ["income"]).shown
    assert not check_claim(PROBABLY_ANONYMOUS, original, ["age"], ["income"], groups={"records": GROUPS}).shown


def anatomise_jobs(table: Mapping[str, NDArray[Any]]) -> tuple[Arrays, Arrays]:
    """Two tables that share groups."""
    first = {"age": table["age"], "group": GROUPS}
    order = np.lexsort((table["income"], GROUPS))
    return first, {"group": GROUPS, "income": table["income"][order], "count": np.ones(ROWS, dtype=np.int64)}


def test_anatomy_is_shown_by_its_two_tables_and_beside_the_original() -> None:
    """Groups of k; and every group's values are its people's, or the claim is broken."""
    original = build_people()
    first, second = anatomise_jobs(original)
    assert check_claim(PROBABLY_ANONYMOUS, first, ["age"], ["income"], second=second).shown
    compared = check_claim(PROBABLY_ANONYMOUS, first, ["age"], ["income"], second=second, original=original)
    assert "Every group's values are those of its people in the original." in compared.words
    false = {**second, "income": second["income"] + 1}
    with pytest.raises(ClaimFailed, match="second table does not hold its groups' values"):
        check_claim(PROBABLY_ANONYMOUS, first, ["age"], ["income"], second=false, original=original)
    with pytest.raises(ClaimFailed, match="first table shows 'income' row by row"):
        check_claim(PROBABLY_ANONYMOUS, {**first, "income": original["income"]}, ["age"], ["income"], second=second)
    with pytest.raises(ClaimFailed, match="smallest group has 10"):
        check_claim(replace(PROBABLY_ANONYMOUS, k=11), first, ["age"], ["income"], second=second)
    with pytest.raises(ClaimFailed, match="same number of rows for each group"):
        check_claim(PROBABLY_ANONYMOUS, first, ["age"], ["income"], second={**second, "group": second["group"] // 2})


def test_anatomy_tells_what_is_certain_all_the_same() -> None:
    """Nearly every group of a column with few values has one value only, and the words say what that means."""
    from discreet.sdc.methods.anatomy import anatomy

    draw = random.Random(5)
    table = {"age": np.arange(1000.0), "ill": np.array([draw.choice(["flu", "hiv", "none"]) for _ in range(1000)])}
    release = anatomy(table, K, ["age"], ["ill"], entropy=KeyedEntropy(b"claims", "certain"))
    checked = check_claim(release.guarantee, release, ["age"], ["ill"], second=release.second, original=table)
    certain, hits = checked.measured["certain"], checked.measured["hits"]
    assert isinstance(certain, float)
    assert isinstance(hits, float)
    assert 0.9 < certain <= hits < 1
    assert (
        f"of 1000 rows {round(1000 * certain)} are in groups with one value: for them the value is certain"
        in (checked.words[-1])
    )
    assert not any("whose is whose" in words for words in checked.words)


def test_the_second_table_lists_no_people() -> None:
    """A group's value in two rows, or rows in the order of the people, would tell whose it is; names go by any list."""
    original = build_people()
    first, second = anatomise_jobs(original)

    def check_by_names(names: str, other: Mapping[str, NDArray[Any]]) -> CheckedClaim:
        return check_claim(PROBABLY_ANONYMOUS, first, ["age"], [names], second=other, original=original)

    with pytest.raises(ClaimFailed, match="second table is not sorted by 'income'"):
        check_by_names("income", {**second, "income": original["income"]})
    with pytest.raises(ClaimFailed, match="second table is not sorted by 'group'"):
        check_by_names("income", {name: values[::-1] for name, values in second.items()})
    ones = {"group": GROUPS, "job": original["job"], "count": np.ones(ROWS)}
    with pytest.raises(ClaimFailed, match="lists a group's value more than once"):
        check_by_names("job", ones)
    counts = [[(g, job, int(np.sum(original["job"][g == GROUPS] == job))) for job in "bca"] for g in range(ROWS // K)]
    rows = [[each for each in group if each[2]] for group in counts]
    assert check_by_names("job", _flatten_table(rows)).shown
    rows[4] = rows[4][::-1]
    with pytest.raises(ClaimFailed, match="second table is not sorted by 'job'"):
        check_by_names("job", _flatten_table(rows))


def _flatten_table(rows: list[list[tuple[int, str, int]]]) -> Arrays:
    listed = [each for group in rows for each in group]
    return {name: np.array([each[index] for each in listed]) for index, name in enumerate(("group", "job", "count"))}


@pytest.mark.parametrize("claim", [PROBABLY_ANONYMOUS, Guarantee.t_closeness(10**6, "emd")])
def test_the_two_tables_share_nothing_but_the_group(claim: Guarantee) -> None:
    """A quasi-identifier in the second, or a confidential column in the first under another name, joins them."""
    original = build_people()
    first, second = anatomise_jobs(original)
    with pytest.raises(ClaimFailed, match="second table holds 'age' beside 'group', the confidential columns"):
        check_claim(claim, first, ["age"], ["income"], second={**second, "age": original["age"]})
    copy = {**first, "inc2": original["income"]}
    with pytest.raises(ClaimFailed, match="column 'inc2' holds the original's 'income' row by row"):
        check_claim(claim, copy, ["age"], ["income"], second=second, original=original)


def test_columns_that_no_claim_is_about_are_named() -> None:
    """In words and figures, but for those that are known to be kept; a copy of what was swapped is no release."""
    original = build_people()
    released = {**average_ages(original), "ssn": np.arange(ROWS)}
    checked = check_claim(ANONYMOUS, released, ["age"], ["income"], kept=["job"])
    assert checked.measured["other_columns"] == ["ssn"]
    assert checked.words[-1].endswith("the file holds: 'ssn'.")
    assert check_claim(ANONYMOUS, released, ["age"], ["income"], kept=["job", "ssn"]).measured["other_columns"] == []
    first, second = anatomise_jobs(original)
    assert check_claim(PROBABLY_ANONYMOUS, first, ["age"], ["income"], second=second).measured["other_columns"] == []
    copy = {**swap_columns(original, "income"), "inc2": original["income"]}
    with pytest.raises(ClaimFailed, match="column 'inc2' holds the original's 'income' row by row"):
        check_claim(PROBABLY_ANONYMOUS, copy, ["age"], ["income"], original=original, groups={"records": GROUPS})


BUCKETS = {"q": np.arange(12), "c": np.array([0.0, 0, 1, 2, 0, 1, 1, 2, 0, 1, 2, 2])}
"""Figure 7.5, group by group."""
QUARTETS = {"records": np.arange(12) // 4}


def test_t_closeness_holds_at_1_5_and_not_below() -> None:
    """Figure 7.5 attains 1.5 exactly: at most t, compared as fractions."""
    checked = check_claim(Guarantee.t_closeness(1.5, "ratio"), BUCKETS, ["q"], ["c"], groups=QUARTETS)
    assert checked.measured["t"] == "3/2"
    assert not checked.shown
    assert "Without the original" in checked.words[1]
    with pytest.raises(ClaimFailed, match=r"t 1.49 under the ratio distance, and 1.5 was measured over every group"):
        check_claim(Guarantee.t_closeness(1.49, "ratio"), BUCKETS, ["q"], ["c"], groups=QUARTETS)
    check_claim(Guarantee.t_closeness(0.125, "emd"), BUCKETS, ["q"], ["c"], groups=QUARTETS)
    with pytest.raises(ClaimFailed, match="under the emd distance"):
        check_claim(Guarantee.t_closeness(0.12, "emd"), BUCKETS, ["q"], ["c"], groups=QUARTETS)


def test_one_tampered_value_breaks_t_closeness() -> None:
    """A value that a group lacks makes the ratio infinite."""
    values = BUCKETS["c"].copy()
    values[0] = 9
    with pytest.raises(ClaimFailed, match="infinite, since a group lacks a value, was measured"):
        check_claim(Guarantee.t_closeness(100, "ratio"), {**BUCKETS, "c": values}, ["q"], ["c"], groups=QUARTETS)


def replace_by_bucket_mean(values: NDArray[Any]) -> NDArray[Any]:
    """Every value replaced by the mean of its third."""
    thirds = np.argsort(np.argsort(values)) * 3 // len(values)
    means = np.bincount(thirds, values) / np.bincount(thirds)
    return means[thirds]


@pytest.mark.parametrize("missing", [False, True])
def test_hidden_groups_must_have_changed_places(missing: bool) -> None:
    """Buckets that stay on their own rows hide nothing, however close the groups are."""
    original = build_people()
    if missing:
        original["income"][::7] = np.nan
    close = replace_by_bucket_mean(np.where(np.isnan(original["income"]), 9, original["income"]))
    close = np.where(np.isnan(original["income"]), np.nan, close)
    whole = {"records": np.zeros(ROWS, dtype=np.int64)}
    claim = Guarantee.t_closeness(1, "ratio")
    moved = {**original, "income": close[permute_in_groups(whole["records"], 4)]}
    assert check_claim(claim, moved, ["age"], ["income"], original=original, groups=whole).shown
    with pytest.raises(ClaimFailed, match="rows carry their own value of 'income' where a uniform permutation gives"):
        check_claim(claim, {**original, "income": close}, ["age"], ["income"], original=original, groups=whole)


def test_hidden_names_must_have_changed_places() -> None:
    """A name is near to itself alone."""
    original, whole = build_people(), {"records": np.zeros(ROWS, dtype=np.int64)}
    claim = Guarantee.t_closeness(1, "ratio")
    moved = {**original, "job": original["job"][permute_in_groups(whole["records"], 4)]}
    assert check_claim(claim, moved, ["age"], ["job"], original=original, groups=whole).shown
    with pytest.raises(ClaimFailed, match="300 of 300 rows carry their own value of 'job'"):
        check_claim(claim, original, ["age"], ["job"], original=original, groups=whole)


def test_t_closeness_of_classes_and_of_anatomy() -> None:
    """By equal quasi-identifiers where they are, by the second table where it is; hidden groups must be given."""
    claim = Guarantee.t_closeness(1.5, "ratio")
    classes = {"q": np.arange(12) // 4, "c": BUCKETS["c"]}
    assert "over every class" in check_claim(claim, classes, ["q"], ["c"]).words[0]
    first = {"q": BUCKETS["q"], "group": np.arange(12) // 4}
    second = {
        "group": np.repeat([0, 1, 2], 3),
        "c": np.tile([0.0, 1, 2], 3),
        "count": np.array([2, 1, 1, 1, 2, 1, 1, 1, 2]),
    }
    assert check_claim(claim, first, ["q"], ["c"], second=second).shown
    with pytest.raises(ClaimFailed, match="first table shows 'c' row by row"):
        check_claim(claim, {**first, "c": BUCKETS["c"]}, ["q"], ["c"], second=second)
    with pytest.raises(Unsupported, match="give the groups or Anatomy's second table"):
        check_claim(claim, BUCKETS, ["q"], ["c"])
    with pytest.raises(
        Unsupported, match=r"1\.5 was measured over every class .* its groups may be others that it hides"
    ):
        check_claim(Guarantee.t_closeness(1.4, "ratio"), classes, ["q"], ["c"])
    with pytest.raises(Unsupported, match="under ratio or emd"):
        check_claim(Guarantee.t_closeness(2, "hellinger"), BUCKETS, ["q"], ["c"], groups=QUARTETS)


def test_hidden_t_closeness_is_not_refuted_by_the_file_alone() -> None:
    """Classes of equal ages are not the groups that were dealt: nothing contradicts an honest file."""
    from discreet.sdc.methods.t_closeness import t_close

    draw = random.Random(9)
    table = {"age": np.arange(ROWS) % 30, "income": np.array([draw.random() for _ in range(ROWS)])}
    release = t_close(table, 1.5, 20, ["age"], ["income"], entropy=KeyedEntropy(b"claims", "alone"))
    with pytest.raises(Unsupported, match="its groups may be others that it hides; give the groups"):
        check_claim(release.guarantee, release, ["age"], ["income"])
    assert check_claim(release.guarantee, release, ["age"], ["income"], original=table, groups=release.groups).shown


def test_t_closeness_of_several_columns_is_that_of_their_pairs() -> None:
    """Each column alone is 1-close while the pairs tell the groups apart."""
    table = {"a": np.array([0, 0, 1, 1] * 2), "b": np.array([0, 1, 0, 1, 1, 1, 0, 0])}
    halves = {"records": np.arange(8) // 4}
    check_claim(Guarantee.t_closeness(1, "ratio"), table, [], ["a"], groups=halves)
    with pytest.raises(ClaimFailed, match="infinite"):
        check_claim(Guarantee.t_closeness(3, "ratio"), table, [], ["a", "b"], groups=halves)


def make_protected(method: str) -> ProtectedTable:
    """A release by one of the methods."""
    from discreet.sdc.methods.anatomy import anatomy
    from discreet.sdc.methods.swap import ir_swap, mdav_id, mdav_swap
    from discreet.sdc.methods.t_closeness import t_close

    entropy, (known_columns, confidential_columns) = (
        KeyedEntropy(b"claims", method),
        (["age", "place"], ["income", "job"]),
    )
    table = {**build_people(), "place": np.arange(ROWS) % 17}
    ways: dict[str, Callable[[], ProtectedTable]] = {
        "mdav": lambda: mdav_id(table, K, known_columns),
        "mdav-swap": lambda: mdav_swap(table, K, known_columns, confidential_columns, entropy=entropy),
        "mdav-swap of quasi-identifiers": lambda: mdav_swap(
            table, K, known_columns, confidential_columns, swap="quasi", entropy=entropy
        ),
        "mdav-swap, informed": lambda: mdav_swap(
            table, K, known_columns, confidential_columns, intruder="informed", entropy=entropy
        ),
        "ir-swap": lambda: ir_swap(table, K, confidential_columns, entropy=entropy),
        "anatomy": lambda: anatomy(table, K, known_columns, ["income"], entropy=entropy),
        "t-closeness": lambda: t_close(table, 1.7, K, known_columns, ["income"], entropy=entropy),
        "t-closeness by anatomy": lambda: t_close(
            table, 2, K, known_columns, ["income"], form="anatomy", entropy=entropy
        ),
        "t-closeness of two": lambda: t_close(table, 2, K, known_columns, confidential_columns, entropy=entropy),
    }
    return ways[method]()


@pytest.mark.parametrize(
    "method",
    [
        "mdav", "mdav-swap", "mdav-swap of quasi-identifiers", "mdav-swap, informed", "ir-swap", "anatomy",
        "t-closeness", "t-closeness by anatomy", "t-closeness of two",
    ],
)  # fmt: skip
def test_what_the_methods_make_is_what_they_say(method: str) -> None:
    """The verifier, which shares no code with them, finds every claim shown beside the original."""
    release, known_columns = make_protected(method), ["age", "place"]
    original = read_table({**build_people(), "place": np.arange(ROWS) % 17}).take(release.source_rows)
    confidential = ["income"] if "anatomy" in method or method == "t-closeness" else ["income", "job"]
    checked = check_claim(
        release.guarantee, release.table, known_columns, confidential, original=original,
        groups=release.groups, second=release.second,
    )  # fmt: skip
    assert checked.shown


def test_rows_and_names_are_checked() -> None:
    """An original of another length, columns that are not there, and no confidential column."""
    original = build_people()
    few = {name: values[:5] for name, values in original.items()}
    with pytest.raises(InvalidInput, match="the original has 5 rows and the release 300"):
        check_claim(ANONYMOUS, average_ages(original), ["age"], original=few)
    with pytest.raises(InvalidInput, match="unknown column 'size'"):
        check_claim(ANONYMOUS, original, ["size"])
    for claim in (Guarantee.t_closeness(2, "ratio"), PROBABLY_ANONYMOUS):
        with pytest.raises(InvalidInput, match="of confidential columns; name them"):
            check_claim(claim, original, ["age"], original=original)


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=4), max_size=2))
def test_hits_have_the_mean_and_deviation_of_all_permutations(groups_of_pairs: list[list[tuple[int, int]]]) -> None:
    """By enumeration of every permutation inside every group, duplicates and values of others among them."""
    groups_of_pairs = [*groups_of_pairs, [(0, 0), (1, 0), (0, 1)]]
    groups = np.repeat(np.arange(len(groups_of_pairs)), [len(rows) for rows in groups_of_pairs])
    means, variances = [], []
    for rows in groups_of_pairs:
        before, carried = zip(*rows, strict=True)
        counts = [sum(a == b for a, b in zip(before, way, strict=True)) for way in permutations(carried)]
        means.append(Fraction(sum(counts), len(counts)))
        variances.append(Fraction(sum(c * c for c in counts), len(counts)) - means[-1] ** 2)
    before, after = np.array([row for rows in groups_of_pairs for row in rows]).T
    hits = count_hits_in_groups(before, after, 3, groups)
    assert hits.observed == np.count_nonzero(before == after)
    assert hits.expected == pytest.approx(float(sum(means)))
    assert hits.deviation == pytest.approx(math.sqrt(sum(variances)), abs=1e-7)


@pytest.mark.parametrize(("size", "groups"), [(2, 1), (5, 1), (7, 1), (3, 2), (4, 2)])
def test_the_bound_on_chance_is_never_below_the_chance(size: int, groups: int) -> None:
    """Chatterjee's bound against the exact law of values on their own rows, in one group and in two."""
    ways = [sum(a == b for a, b in enumerate(way)) for way in permutations(range(size))]
    law = {0: Fraction(1)}
    for _ in range(groups):
        law = _convolve(law, ways)
    for observed in range(size * groups + 1):
        hits = Hits(size * groups, observed, float(groups), math.sqrt(groups))
        assert hits.excess_bound >= sum(chance for total, chance in law.items() if total >= observed)
        assert hits.lack_bound >= sum(chance for total, chance in law.items() if total <= observed)


def test_the_bound_on_chance_is_the_theorem_s() -> None:
    """exp(-s^2 / (4 EX + 2 s)) at EX = 1 and s = 30; and nothing where there are no more hits than expected."""
    assert Hits(100, 31, 1.0, 1.0).excess_bound == pytest.approx(math.exp(-900 / 64))
    assert Hits(100, 1, 1.0, 1.0).excess_bound == Hits(100, 1, 1.0, 1.0).lack_bound == 1
    assert Hits(1000, 10, 100.0, 10.0).lack_bound == pytest.approx(math.exp(-8100 / 400))


def _convolve(law: Mapping[int, Fraction], ways: list[int]) -> dict[int, Fraction]:
    total: dict[int, Fraction] = {}
    for sofar, chance in law.items():
        for extension in ways:
            total[sofar + extension] = total.get(sofar + extension, Fraction(0)) + chance / len(ways)
    return total


def test_true_swaps_are_never_called_false() -> None:
    """A thousand honest permutations, with groups and without: none is doubted as far as the verifier asks."""
    values = np.arange(60)
    groups = values // 5
    for seed in range(1000):
        after = values[permute_in_groups(groups, seed)]
        assert count_hits_in_groups(values, after, 60, groups).excess_bound > MIN_DOUBT
        assert count_hits_in_groups(values, after, 60, groups).lack_bound > MIN_DOUBT
        assert bound_irregularity(values, after, 60, groups) > 1e-3
        assert bound_irregularity(values % 5 // 2, after % 5 // 2, 3, groups) > 1e-3
        assert count_unique_hits(values, after, 5).excess_bound > MIN_DOUBT


def compute_linkage(original: Arrays, released: Arrays) -> tuple[Fraction, Fraction]:
    """By loops over people: with ties shared among all nearest rows, and with ties broken towards one's own."""
    x, y = original["x"], released["x"]
    width, middle = np.nanmax(x) - np.nanmin(x), (np.nanmax(x) + np.nanmin(x)) / 2
    shared = own_hits = Fraction(0)
    for i in range(len(x)):
        apart = (np.where(np.isnan(y), middle, y) - (middle if np.isnan(x[i]) else x[i])) / width
        squares = apart**2 + (np.isnan(y) != np.isnan(x[i])) + (released["n"] != original["n"][i])
        near = np.flatnonzero(squares <= squares.min() + 1e-12)
        same = np.count_nonzero(((y == y[i]) | (np.isnan(y) & np.isnan(y[i]))) & (released["n"] == released["n"][i]))
        shared += Fraction(int(i in near), len(near))
        own_hits += Fraction(int(i in near), int(same))
    return shared / len(x), own_hits / len(x)


@pytest.mark.parametrize("names", ["ab", "abcdefghijklmnop"])
def test_linkage_is_that_of_plain_loops_and_never_less_than_with_ties_shared(names: str) -> None:
    """Numbers, names and missing values; few coordinates by a tree, many by looking at all classes."""
    draw = random.Random(11)
    for _ in range(20):
        numbers = np.array([draw.choice([np.nan, draw.random(), draw.random()]) for _ in range(60)])
        original = {"x": numbers, "n": np.array([draw.choice(names) for _ in range(60)])}
        stay = np.array([draw.random() < 0.7 for _ in range(60)])
        released = {"x": np.round(numbers, 1), "n": np.where(stay, original["n"], np.roll(original["n"], 1))}
        shared, own_risk = compute_linkage(original, released)
        assert shared <= own_risk == bound_linkage(read_table(original), read_table(released), ["x", "n"])


def test_intervals_cannot_be_linked_by_distance() -> None:
    """Numbers that became text are left out; where nothing is left, k alone bounds linkage."""
    original = build_people()
    released = {**original, "age": np.array([f"[{int(age) // 20 * 20}, ...)" for age in original["age"]])}
    assert bound_linkage(read_table(original), read_table(released), ["age"]) is None
    checked = check_claim(Guarantee.k_anonymity(2), released, ["age"], original=original)
    assert isinstance(checked, CheckedClaim)
    assert "linkage_by_distance" not in checked.measured
