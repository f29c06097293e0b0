"""What replay catches: every seeded fault on the way from rows to mechanisms; and what a replay says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from discreet import InvalidInput, Unsupported
from discreet.measurements import additive
from discreet.measurements.observed_loss import DISALLOWED_SHARE, compute_share
from discreet.measurements.threshold import Threshold
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.entropy import KeyedEntropy
from discreet.mechanisms.quantile import Quantiles
from discreet.planner import planner
from discreet.planner.session_budget import find_worst_case as worst_of
from discreet.privacy.cost import PrivacyCost
from discreet.query import parse_sql
from discreet.query.predicates import TRUE
from discreet.sources.ingest import memory
from discreet.sources.ingest.values import ParsedValue, parse_with_status
from discreet.sources.memory import MemorySource
from discreet.synthetic.column_methods import NameBlocks, RankBlocks
from discreet.synthetic.columns import PrivacyBudget
from discreet.synthetic.file_plan import list_column_plans
from discreet.synthetic.records import RecordsPlan
from discreet.verification import (
    assert_private,
    assert_private_release,
    assert_private_session,
    neighbor_rows,
    replay,
    replay_release,
)
from discreet.verification.replays.assertions import find_worst_replay
from discreet.verification.replays.replay import plan_replayed_release, replay_release_plan
from discreet.verification.replays.replay_result import format_share
from support.small_tables import schema

Fault = Callable[[pytest.MonkeyPatch], object]


def halve_scale(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(additive, "build_laplace", _double_budget(additive.build_laplace))


def halve_variance(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(planner, "build_gaussian", _double_budget(planner.build_gaussian))


def _double_budget(build: Callable[..., Any]) -> Callable[..., Any]:
    """The noise of twice the budget, at the cost of once."""
    return lambda form, budget: replace(build(form, 2 * budget), privacy_cost=build(form, budget).privacy_cost)


def skip_clipping(patch: pytest.MonkeyPatch) -> None:
    def parse_unclipped(column: Any, raw: object) -> ParsedValue:
        read, beyond = parse_with_status(column, raw), isinstance(raw, float)
        return ParsedValue(round(Fraction(raw) / column.step), "read") if beyond else read  # type: ignore[arg-type]

    patch.setattr(memory, "parse_with_status", parse_unclipped)


def keep_all_rows(patch: pytest.MonkeyPatch) -> None:
    right = memory._bound_contributions
    patch.setattr(memory, "_bound_contributions", lambda schema, *rest: right(replace(schema, rows=99), *rest))


def bound_from_data(patch: pytest.MonkeyPatch) -> None:
    right = MemorySource._amount

    def measure_from_least(source: MemorySource, measure: Any, rows: Any) -> int:
        codes = [row[measure.column] for row in source._rows if measure.column and row[measure.column] is not None]
        return right(source, replace(measure, lower=min(codes, default=0)), rows)

    patch.setattr(MemorySource, "_amount", measure_from_least)


def forget_replacement(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("discreet.measurements.contribution_bounds.ContributionBounds.replace_factor", 1)


def bound_one_row(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("discreet.measurements.contribution_bounds.ContributionBounds.rows_per_unit", 1)


def give_all_shares(patch: pytest.MonkeyPatch) -> None:
    right = planner.propose_measurements

    def propose_with_whole(request: Any) -> Any:
        doubled = right(replace(request, epsilon=2 * request.epsilon))
        return [replace(one, privacy_cost=two.privacy_cost) for one, two in zip(doubled, right(request), strict=False)]

    patch.setattr(planner, "propose_measurements", propose_with_whole)


def charge_less(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(additive, "compute_pure_cost", lambda epsilon: PrivacyCost(epsilon / 2, epsilon**2 / 2))


def lower_threshold(patch: pytest.MonkeyPatch) -> None:
    noise = DiscreteLaplace(Fraction(1, 2), 1)
    patch.setattr(Threshold, "of", lambda *_: Threshold(noise, 8, Fraction(1, 10**6)))


def narrow_choice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("discreet.mechanisms.quantile.rank_score_sensitivity", lambda q, *_: Fraction(q.denominator, 2))


def give_whole_shares(patch: pytest.MonkeyPatch) -> None:
    """Every depth of several quantiles gets all of epsilon."""
    patch.setattr(Quantiles, "depth", 1)


def see_one_side(patch: pytest.MonkeyPatch) -> None:
    """A replaced row is taken for one that only comes, at every split."""
    right = Quantiles.split_distribution

    def score_one_side(choice: Quantiles, *arguments: Any) -> Any:
        return right(replace(choice, neighbors="add-remove"), *arguments)

    patch.setattr(Quantiles, "split_distribution", score_one_side)


def keep_rows_on_both_sides(patch: pytest.MonkeyPatch) -> None:
    """Rows are not parted: each is part of every split, on either side."""
    patch.setattr("discreet.mechanisms.quantile.split_counts", lambda counts, *_: (counts, counts))


MANY = "SELECT COUNT(*), COUNT(age), SUM(age), SUM(score), SUM(debt), AVG(score) FROM t WHERE age > 0"
FAULTS: list[tuple[Fault, str, int, str, dict[str, Any]]] = [
    (halve_scale, "add-remove", 1, "SELECT COUNT(*) FROM t", {}),
    (halve_scale, "replace-one", 1, "SELECT COUNT(*) FROM t WHERE smoker GROUP BY sex", {}),
    (halve_variance, "add-remove", 1, MANY, {"delta": 0.009}),
    (skip_clipping, "add-remove", 1, "SELECT SUM(age) FROM t", {}),
    (skip_clipping, "replace-one", 1, "SELECT AVG(score) FROM t", {}),
    (bound_from_data, "replace-one", 1, "SELECT SUM(age) FROM t WHERE smoker", {}),
    (forget_replacement, "replace-one", 1, "SELECT COUNT(*) FROM t GROUP BY sex", {}),
    (forget_replacement, "replace-one", 2, "SELECT MEDIAN(age) FROM t GROUP BY sex", {}),
    (bound_one_row, "add-remove", 3, "SELECT SUM(score) FROM t", {}),
    (bound_one_row, "add-remove", 3, "SELECT HISTOGRAM(age, 8) FROM t", {}),
    (give_all_shares, "add-remove", 1, "SELECT SUM(age), SUM(score) FROM t", {}),
    (charge_less, "add-remove", 1, "SELECT AVG(age) FROM t", {}),
    (lower_threshold, "add-remove", 1, "SELECT city, COUNT(*) FROM t GROUP BY city", {"delta": 1e-6}),
    (keep_all_rows, "add-remove", 2, "SELECT COUNT(*) FROM t", {}),
    (narrow_choice, "add-remove", 1, "SELECT QUANTILE(age, 0.1) FROM t", {}),
    (give_whole_shares, "add-remove", 1, "SELECT QUANTILE(age, 0.25, 0.5, 0.75) FROM t", {}),
    (give_whole_shares, "replace-one", 1, "SELECT QUANTILE(score, 0.2, 0.4, 0.6, 0.8) FROM t", {}),
    (see_one_side, "replace-one", 1, "SELECT QUANTILE(age, 0.25, 0.5, 0.75) FROM t", {}),
    (keep_rows_on_both_sides, "add-remove", 1, "SELECT QUANTILE(age, 0.25, 0.5, 0.75) FROM t", {}),
]


@pytest.mark.parametrize(("fault", "relation", "rows", "question", "options"), FAULTS)
def test_a_seeded_fault_is_caught(
    monkeypatch: pytest.MonkeyPatch, fault: Fault, relation: str, rows: int, question: str, options: dict[str, Any]
) -> None:
    """Without it the same question passes; with it the question is named, and both tables are shown."""
    declared_schema = schema(relation, rows, units=8)
    assert assert_private(declared_schema, question, 1, count=40, **options).ok
    fault(monkeypatch)
    with pytest.raises(AssertionError, match="not private: ") as caught:
        assert_private(declared_schema, question, 1, count=60, **options)
    message = str(caught.value)
    assert "FROM t" in message
    assert "D has " in message
    assert "D' has " in message
    assert "MORE THAN DECLARED" in message


def test_the_rows_of_others_may_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question about one part of the data is paid for by that part alone, so no other row may enter."""
    declared_schema = schema("add-remove", 1, units=5, partition="sex")
    question = "SELECT COUNT(*) FROM t WHERE sex = 'F' AND age > 0"
    assert assert_private(declared_schema, question, 1, count=60).largest_share == 1
    right = MemorySource.totals
    monkeypatch.setattr(MemorySource, "totals", lambda source, plan: right(source, replace(plan, where=TRUE)))
    with pytest.raises(AssertionError, match="rows of others: far too much of what is promised"):
        assert_private(declared_schema, question, 1, count=60)


def test_nobody_else_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question about one person that reads another row is caught."""
    declared_schema = schema("replace-one", 1, units=5, individual_queries=True)
    question = "SELECT score FROM t FOR UNIT 'p1'"
    assert assert_private(declared_schema, question, 1).largest_share == 1
    monkeypatch.setattr(MemorySource, "individual", lambda source, column, _: source._rows[0][column])
    with pytest.raises(AssertionError, match="rows of others"):
        assert_private(declared_schema, question, 1)


def test_a_session_that_forgets_a_count_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    declared_schema = schema("add-remove", 1, units=5)
    questions = [("SELECT COUNT(*) FROM t WHERE age > 0", 2), ("SELECT COUNT(*) FROM t WHERE age > 1", 2)]
    assert assert_private_session(declared_schema, questions, 1).largest_share == 1
    monkeypatch.setattr(
        "discreet.planner.session_budget.SessionBudget._find_worst_case",
        lambda tally, counts: worst_of(tally.schema, counts, "add-remove", 1),
    )
    with pytest.raises(AssertionError, match="together, tally: 200 %"):
        assert_private_session(declared_schema, questions, 1)


NUMBERS = ["age", "score", "debt", "grade", "day"]
COLUMNS = [*NUMBERS, "sex", "smoker"]
RELEASES: list[tuple[str, dict[str, Any], str]] = [
    ("private-columns", {"epsilon": 1}, "cumulative counts"),
    ("private-columns", {"epsilon": 1, "k": 3}, "rank blocks of 3"),
    ("private-columns", {"epsilon": 0.5, "delta": 0.009}, ""),
    ("private-linked", {"epsilon": 1}, "all 21 pairs"),
    ("private-linked", {"epsilon": 50, "pairs": [("age", "sex")]}, "5 choices by the exponential mechanism"),
    ("private-linked", {"epsilon": 0.5, "delta": 1e-6}, "pairs of columns"),
    ("private-records", {"epsilon": 1}, "box staircase noise"),
    ("private-records", {"epsilon": 1, "k": 2, "columns": ["age"]}, "Laplace noise"),
    ("private-records", {"epsilon": 1, "k": 2, "columns": ["sex"]}, "exponential mechanism"),
]


@pytest.mark.parametrize(("method", "options", "by"), RELEASES)
def test_releases_are_handed_no_more_than_declared(method: str, options: dict[str, Any], by: str) -> None:
    """And some neighbours use up all that a part of the file may lose."""
    replay_result = assert_private_release(
        schema("replace-one", 1, units=12), method, count=24, **({"columns": COLUMNS} | options)
    )
    assert replay_result.largest_share == 1
    assert by in "; ".join(mechanism.mechanism for mechanism in replay_result.mechanisms)
    assert replay_result.question == f"a release by {method}"


@pytest.mark.parametrize("loss", [PrivacyBudget(epsilon=Fraction(1)), PrivacyBudget(rho=Fraction(1, 8))])
def test_blocks_of_names_are_replayed_too(loss: PrivacyBudget) -> None:
    """Rarely the best way to tell a column, so here it is chosen by hand; with a spread too small it is caught."""
    declared_schema = schema("replace-one", 1, units=9)
    plan = plan_replayed_release(declared_schema, "private-columns", {"columns": ["sex"]})
    [block_plan] = [
        column_plan
        for column_plan in list_column_plans(declared_schema.column("sex"), 9, loss, 3)
        if isinstance(column_plan, NameBlocks)
    ]
    names = replace(
        block_plan.name_order, length=block_plan.name_order.length // 2, diameter=block_plan.name_order.diameter // 4
    )
    pairs, shares = neighbor_rows(declared_schema, 60), []
    for column_plan in (block_plan, replace(block_plan, name_order=names)):
        blocks = replace(plan, method_plan=(column_plan,), budget=loss)
        shares.append(
            max(replay_release_plan(declared_schema, blocks, *pair).mechanisms[0].largest_share for pair in pairs)
        )
    assert Fraction(1, 5) < shares[0] <= 1 < shares[1]


def thin_noise(patch: pytest.MonkeyPatch) -> None:
    right = PrivacyBudget.build_noise
    patch.setattr(PrivacyBudget, "build_noise", lambda loss, l1, squares: right(loss, -(-l1 // 2), -(-squares // 2)))


def shift_blocks(patch: pytest.MonkeyPatch) -> None:
    """Blocks from as many rows as have a value above the lowest."""
    right = RankBlocks.compute_totals

    def shift_by_data(plan: RankBlocks, counts: Any) -> Any:
        return right(plan, counts) * (1 + int(counts[-1]) % 2)

    patch.setattr(RankBlocks, "compute_totals", shift_by_data)


def shorten_chains(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("discreet.synthetic.records.bound_joint_chain", lambda *_: 1)
    patch.setattr("discreet.synthetic.records_plan.bound_joint_chain", lambda *_: 1)


def sharpen_choice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RecordsPlan, "bound_name_scores", lambda *_: 1)


RELEASE_FAULTS: list[tuple[Fault, str, dict[str, Any]]] = [
    (thin_noise, "private-columns", {"columns": COLUMNS}),
    (thin_noise, "private-linked", {"columns": COLUMNS}),
    (shift_blocks, "private-columns", {"columns": ["score"], "k": 3}),
    (shorten_chains, "private-records", {"columns": ["age"], "k": 2}),
    (sharpen_choice, "private-records", {"columns": ["sex"], "k": 2}),
]


@pytest.mark.parametrize(("fault", "method", "options"), RELEASE_FAULTS)
def test_a_seeded_fault_of_a_release_is_caught(
    monkeypatch: pytest.MonkeyPatch, fault: Fault, method: str, options: dict[str, Any]
) -> None:
    fault(monkeypatch)
    with pytest.raises(AssertionError, match=f"not private: [^$]*a release by {method}"):
        assert_private_release(schema("replace-one", 1, units=9), method, count=30, **options)


def test_linked_records_are_the_same_every_time_unless_entropy_is_given() -> None:
    """The columns that bins come from are drawn; the same key draws the same."""
    declared_schema = schema("replace-one", 1, units=9)
    pair = neighbor_rows(declared_schema, 1)[0]
    options = {"epsilon": 5, "columns": COLUMNS}
    one, two = (replay_release(declared_schema, "private-linked", *pair, **options).table() for _ in range(2))
    assert one == two
    others = {
        replay_release(
            declared_schema, "private-linked", *pair, entropy=KeyedEntropy(bytes([key]), "a test"), **options
        ).table()
        for key in range(4)
    }
    assert len(others) > 1


def test_a_replay_tells_what_it_saw() -> None:
    declared_schema = schema("add-remove", 1, units=5)
    one, two = neighbor_rows(declared_schema, 2)[1]
    replay_result = replay(declared_schema, "SELECT SUM(age) FROM t", one, two, epsilon=1)
    assert replay_result.ok
    assert replay_result.largest_share == 1
    assert replay_result.violations == ()
    assert replay_result.observed_loss.epsilon == 1
    assert replay_result.mechanisms[0].changed_cells == [()]
    assert replay_result.table().splitlines() == [
        "SELECT SUM(age) FROM t",
        "promised: Differential privacy with epsilon 1 when one unit (pid) is added or removed.",
        "  SUM(age): staircase: changes 100 %, squares 100 %",
        "    (): (0,) and (4,)",
        "  together, epsilon charged: 100 % of what is promised",
        "  together, zCDP of it: 100 % of what is promised",
        "  together, epsilon of the label: 100 % of what is promised",
        "worst: 100 %, no more than declared on these two tables",
    ]


def test_tables_that_are_no_neighbours_are_refused() -> None:
    declared_schema = schema("add-remove", 1, units=5)
    rows = neighbor_rows(declared_schema, 12)[-1][0]
    with pytest.raises(InvalidInput, match="no neighbours"):
        replay(declared_schema, "SELECT SUM(age) FROM t", rows, [], epsilon=1)
    with pytest.raises(Unsupported, match="add-remove"):
        assert_private_release(declared_schema, "private-columns")
    with pytest.raises(InvalidInput, match="how many pairs"):
        assert_private(declared_schema, "SELECT SUM(age) FROM t", 1, count=0)
    with pytest.raises(AssertionError, match="no pair of tables was replayed"):
        find_worst_replay([])


def test_a_run_that_tests_nothing_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too few pairs, no question, or a source that reads nothing; only what is public may stay as it is."""
    declared_schema, question = schema("add-remove", 1, units=5), "SELECT COUNT(*) FROM t WHERE age > 0"
    with pytest.raises(AssertionError, match="age >= 1: no pair of neighbours moved any input, so nothing was tested"):
        assert_private(declared_schema, question, 1, count=1)
    with pytest.raises(AssertionError, match="nothing was tested; replay more pairs"):
        assert_private_session(declared_schema, [], 1, count=2)
    assert assert_private(declared_schema, question, 1, count=12).largest_share == 1
    monkeypatch.setattr(MemorySource, "totals", lambda *_: {})
    with pytest.raises(AssertionError, match="nothing was tested"):
        assert_private(declared_schema, question, 1, count=12)
    public = assert_private(schema("replace-one", 1, units=5), "SELECT COUNT(*) FROM t", 1, count=12)
    assert public.largest_share == 0


def test_a_loss_is_computed_from_the_noise_and_not_from_what_is_declared() -> None:
    """A measurement that claims to cost nothing, or to be moved by less, loses as much as before."""
    declared_schema = schema("add-remove", 1, units=5)
    query_plan = planner.plan(declared_schema, parse_sql("SELECT COUNT(*) FROM t", declared_schema), 1)
    count = replace(query_plan.measurements[0], privacy_cost=PrivacyCost())
    change = count.compare_inputs({(): (0,)}, {(): (1,)}, declared_schema)
    assert (change.observed_loss.epsilon, change.shares["changes"]) == (1, 1)


def test_shares_are_never_rounded_to_all() -> None:
    assert [format_share(Fraction(value)) for value in (0, 1, 2)] == ["0 %", "100 %", "200 % (2)"]
    assert format_share(Fraction(10**7 + 1, 10**7)) != format_share(Fraction(1))
    assert format_share(DISALLOWED_SHARE) == "far too much"
    assert [compute_share(0, 0), compute_share(1, 0), compute_share(1, 2)] == [0, DISALLOWED_SHARE, Fraction(1, 2)]
