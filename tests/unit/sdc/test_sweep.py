"""The choice of k: what a sweep tries, what it recommends, what it refuses."""

from __future__ import annotations

import json
from itertools import pairwise

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import KeyedEntropy
from discreet.sdc.comparison import compare_release
from discreet.sdc.methods.swap import mdav_id
from discreet.sdc.sweep import (
    MAX_KS,
    SweepPoint,
    SweepResult,
    check_methods,
    parse_ks,
    recommend_point,
    sweep_parameters,
)
from discreet.sdc.table import Table, read_table
from support.published_data import find_shared_data

QUASI, CONFIDENTIAL = ("age", "height", "sex"), ("income", "debt")


def build_people_table(rows: int = 120, key: int = 7) -> Table:
    """People whose income follows their age, with some values missing."""
    draw = np.random.default_rng(key)
    age = draw.integers(18, 90, rows)
    height = draw.normal(170, 10, rows)
    height[::17] = np.nan
    income = 500.0 * age + draw.normal(0, 5000, rows)
    debt = draw.exponential(2000, rows)
    return read_table(
        {"age": age, "height": height, "sex": draw.choice(["f", "m"], rows), "income": income, "debt": debt}
    )


def build_points(*triples: tuple[str, int, float, float]) -> list[SweepPoint]:
    return [SweepPoint(method, k, loss, risk, None, None, None) for method, k, loss, risk in triples]


def test_a_range_of_k_is_geometric_with_both_ends() -> None:
    """k=3..300 is twelve whole k with like ratios between them."""
    ks = parse_ks("k=3..300")
    assert len(ks) == MAX_KS
    assert ks[0] == 3
    assert ks[-1] == 300
    ratios = [after / before for before, after in pairwise(ks[3:])]
    assert max(ratios) / min(ratios) < 1.25


@given(st.integers(2, 10**6), st.integers(0, 10**6))
def test_any_range_gives_ascending_k_with_both_ends(low: int, extent: int) -> None:
    """At most twelve, each once, the ends among them."""
    ks = parse_ks(f"k={low}..{low + extent}")
    assert ks[0] == low
    assert ks[-1] == low + extent
    assert len(ks) <= MAX_KS
    assert list(ks) == sorted(set(ks))
    assert extent >= MAX_KS or ks == tuple(range(low, low + extent + 1))


def test_a_list_of_k_is_taken_as_it_is() -> None:
    """In any order, with or without its name, each once."""
    assert parse_ks("k=3,5,10") == parse_ks(" 10, 5,3,5 ") == (3, 5, 10)
    assert parse_ks("7") == (7,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k=300..3", "upwards"),
        ("k=1..9", "at least 2"),
        ("k=0..900", "at least 2"),
        ("k=2,3,4,5,6,7,8,9,10,11,12,13,14", "one to 12"),
        ("k=3..", "k=3..300"),
        ("k=3.5", "k=3..300"),
        ("k=-3..5", "k=3..300"),
        ("", "k=3..300"),
        ("k=3..99999999999", "k=3..300"),
    ],
)
def test_what_is_no_sweep_is_refused(text: str, message: str) -> None:
    """One sentence says how a sweep is written."""
    with pytest.raises(InvalidInput, match=message):
        parse_ks(text)


def test_the_least_loss_within_the_limit_is_recommended() -> None:
    """A point that loses less but gives away more than the limit is not taken."""
    tried = build_points(("a", 3, 0.1, 0.2), ("a", 9, 0.4, 0.05), ("b", 9, 0.3, 0.01), ("b", 27, 2, 0.0))
    assert recommend_point(tried, 0.05) is tried[2]
    assert recommend_point(tried, 0.3) is tried[0]


def test_losses_alike_are_told_apart_by_their_risk() -> None:
    """Where nothing is lost either way, the greater safety is recommended."""
    tried = build_points(("a", 3, 0.001, 0.04), ("a", 9, 0.04, 0.01), ("a", 27, 0.06, 0.0))
    assert recommend_point(tried, 0.05) is tried[1]


def test_where_no_point_is_safe_and_useful_the_nearest_is_named() -> None:
    """By how far its worse figure is over its bound; it is not advised, and the words say what is wrong with it."""
    tried = build_points(("a", 3, 0.2, 0.5), ("b", 9, 1.5, 0.04), ("b", 27, 3.0, 0.01), ("c", 9, 1.2, 0.08))
    best = recommend_point(tried, 0.05)
    assert best is tried[1]
    sweep = SweepResult(tuple(tried), best, 0.05)
    assert not sweep.useful
    assert sweep.to_json()["useful"] is False
    assert sweep.words == (
        "No point is both safe (a risk of at most 5 % above chance) and useful (a loss of at most 1): nearest is b "
        "with k = 9 (risk 4 %, loss 1.5, most of it in correlations); findings may well differ from those on the "
        "original, so try other k, other methods or fewer columns."
    )
    risky = SweepResult(tuple(tried), recommend_point(tried[:1], 0.05), 0.05)
    assert "; it gives away too much, so try other k" in risky.words
    neither = SweepResult(tuple(tried), recommend_point(tried[3:], 0.05), 0.05)
    assert "; it gives away too much and findings may well differ from" in neither.words


def test_a_useful_point_goes_before_a_safer_one_that_is_not() -> None:
    """At the bounds themselves a point is still safe and useful; with a limit of 0 only one without any risk is."""
    tried = build_points(("a", 3, 1.01, 0.0), ("a", 9, 1.0, 0.05))
    assert recommend_point(tried, 0.05) is tried[1]
    assert SweepResult(tuple(tried), tried[1], 0.05).useful
    assert recommend_point(tried, 0) is tried[0]


def test_a_sweep_tries_every_method_at_every_k() -> None:
    """In order, following its progress, and with figures that JSON holds."""
    stages: list[tuple[int, int]] = []
    sweep = sweep_parameters(
        build_people_table(),
        QUASI,
        CONFIDENTIAL,
        (3, 10),
        entropy=KeyedEntropy(b"key", "sweep"),
        progress=lambda done, of: stages.append((done, of)),
    )
    assert [(point.method, point.k) for point in sweep.points] == [
        (method, k) for method in ("mdav", "mdav-swap", "ir-swap") for k in (3, 10)
    ]
    assert stages == [(done, 6) for done in range(1, 7)]
    assert sweep.recommended in sweep.points
    assert sweep.left_out == ()
    assert json.loads(json.dumps(sweep.to_json(), allow_nan=False))["recommended"]["k"] == sweep.recommended.k


def test_a_sweep_with_the_same_entropy_comes_out_the_same() -> None:
    """Chance enters by the one door."""
    one, two = (
        sweep_parameters(
            build_people_table(), QUASI, CONFIDENTIAL, (4,), entropy=KeyedEntropy(b"key", "sweep")
        ).to_json()
        for _ in range(2)
    )
    assert one == two


def test_a_k_above_the_rows_is_left_out_and_said() -> None:
    """The others are tried all the same."""
    sweep = sweep_parameters(build_people_table(30), QUASI, CONFIDENTIAL, (3, 31), ("mdav", "ir-swap"))
    assert {point.k for point in sweep.points} == {3}
    assert len(sweep.left_out) == 2
    assert all("k = 31" in why for why in sweep.left_out)


def test_a_sweep_that_can_try_nothing_is_refused() -> None:
    """With the reason of the first refusal."""
    with pytest.raises(InvalidInput, match="rows"):
        sweep_parameters(build_people_table(30), QUASI, CONFIDENTIAL, (31, 40))


def test_t_closeness_can_be_tried_too() -> None:
    """At the t that is given."""
    sweep = sweep_parameters(build_people_table(), QUASI, ("income",), (5,), ("t-closeness",), t=2)
    assert sweep.recommended.method == "t-closeness"


@pytest.mark.parametrize("methods", [(), ("mdav", "anatomy"), ("noise",)])
def test_only_comparable_methods_are_tried(methods: tuple[str, ...]) -> None:
    """The refusal lists them."""
    with pytest.raises(InvalidInput, match="mdav, mdav-swap, ir-swap"):
        check_methods(methods)


def test_a_wrong_role_is_refused_at_once() -> None:
    """Not once for each try."""
    with pytest.raises(InvalidInput, match="wage"):
        sweep_parameters(build_people_table(), QUASI, ("wage",), (3,))


def test_the_loss_is_the_worst_of_what_a_verdict_goes_by() -> None:
    """Each over its upper bar, so that above 1 is where the verdict on utility is the worst; the words say what."""
    table = build_people_table()
    for point in sweep_parameters(table, QUASI, CONFIDENTIAL, (3, 20, 60), ("mdav",)).points:
        comparison = compare_release(table, mdav_id(table, point.k, QUASI, scale="domain"), QUASI, CONFIDENTIAL)
        figures = {
            "correlations": comparison.correlation_change / 0.1,
            "associations of categories": comparison.association_change / 0.1,
            "distributions of columns": max(comparison.marginals.values()) / 0.2,
            "how the files are told apart": comparison.propensity / 0.2,
            "columns that are gone": len(comparison.gone) / 0.5,
        }
        assert point.loss == pytest.approx(max(figures.values()))
        assert figures[point.lost] == max(figures.values())
        assert (point.loss > 1) == ("findings may well differ" in comparison.utility)


def test_the_risk_is_of_what_chance_leaves_open() -> None:
    """A rare value that nothing hides is a risk of 1, however few people it is of."""
    age, ill = np.repeat(np.arange(50), 6), np.repeat(["yes", "no"], [6, 294])
    sweep = sweep_parameters(read_table({"age": age, "ill": ill}), ("age",), ("ill",), (3, 50), ("mdav",))
    assert sweep.points[0].risk == 1
    assert 0 < sweep.points[1].risk < 0.2


def test_what_its_own_verdict_calls_worst_is_not_recommended_where_other_points_are_safe() -> None:
    """Swapping inside groups keeps what averages over hundreds of people destroy."""
    draw = np.random.default_rng(9)
    age = draw.integers(18, 90, 600)
    job = draw.choice([*"abcdefgh"], 600)
    pay = draw.normal(50, 10, 600)
    table = read_table({"age": age, "job": job, "pay": pay, "ill": draw.choice(["yes", "no"], 600, p=[0.1, 0.9])})
    entropy = KeyedEntropy(b"key", "registry")
    sweep = sweep_parameters(table, ("age", "job"), ("pay", "ill"), (10, 100), ("mdav", "mdav-swap"), entropy=entropy)
    assert {point.method: point.loss > 1 for point in sweep.points if point.k == 100} == {
        "mdav": True,
        "mdav-swap": False,
    }
    assert sweep.recommended.loss <= 1


def test_larger_groups_of_the_census_tell_less_and_no_k_is_both_safe_and_useful() -> None:
    """Thesis 3.4 and 7.1.3: by rank, loss grows and risk falls with k, and small k disclose attributes."""
    table = read_table(duckdb.read_csv(str(find_shared_data("census.csv"))))
    quasi, entropy = list(table)[:6], KeyedEntropy(b"key", "census")
    sweep = sweep_parameters(table, quasi, ("TAXINC", "ERNVAL"), (3, 30, 300), ("mdav", "ir-swap"), entropy=entropy)
    ranked = [point for point in sweep.points if point.method == "ir-swap"]
    assert [point.loss for point in ranked] == sorted(point.loss for point in ranked)
    assert [point.risk for point in ranked] == sorted((point.risk for point in ranked), reverse=True)
    assert ranked[0].risk > 0.9
    assert not sweep.useful
    assert (sweep.recommended.method, sweep.recommended.k) == ("mdav", 30)
    grouped = {point.k: point for point in sweep.points if point.method == "mdav"}
    assert grouped[3].loss < grouped[30].loss < grouped[300].loss
    assert all(grouped[k].linkage <= 100 / k + 1e-9 for k in grouped)
    assert all(point.loss < grouped[point.k].loss for point in ranked)


def test_words_tell_the_method_the_k_and_the_figures() -> None:
    """In one sentence."""
    tried = build_points(("mdav", 1500, 0.0123, 0.0456))
    words = SweepResult(tuple(tried), tried[0], 0.05).words
    assert words == (
        "Take mdav with k = 1,500: of all points with a risk of at most 5 % above chance (its own is 4.56 %) "
        "none loses clearly less than its 0.0123, most of it in correlations."
    )
