"""Many generated neighbours of a schema: no mechanism is handed more than declared, or an AssertionError says which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from discreet.custodian.question import Question, parse_question
from discreet.exact import as_int
from discreet.kernel.entropy import Entropy
from discreet.planner.choose import plan
from discreet.planner.plan import Plan
from discreet.query.predicate import AllOf, AnyOf, InRanges, InTexts, Predicate
from discreet.query.query import Query
from discreet.schema import Schema
from discreet.testing.found import PlainRowsCache, build_source_rows
from discreet.testing.generated import TARGET_UNIT, Pair, Value, generate_pairs, limit_units
from discreet.testing.neighbouring import snapshot
from discreet.testing.questions import plan_session, replay_plan, replay_session_plans
from discreet.testing.recorded import ZERO, Replay
from discreet.testing.releases import plan_replayed_release, replay_release_plan

DEFAULT_PAIRS = 100
MAX_ROWS_SHOWN = 12
NOTHING_TESTED_ADVICE = "replay more pairs, or ask about rows that there can be"


def assert_private(
    schema: Schema,
    question: Question,
    *arguments: Any,
    count: int = DEFAULT_PAIRS,
    entropy: Entropy | None = None,
    **options: Any,
) -> Replay:
    """Replay a question on generated neighbours; the worst of them is returned.

    Every other pair is told in plain values, some out of bounds, and read the way registration reads a source. A
    table with a public number of units is replayed as one that declares a few. Nothing found is no proof.
    """
    small_schema = limit_units(schema)
    planned = plan(small_schema, parse_question(question, small_schema), *arguments, **options)
    neighbors = generate_neighbors(planned, entropy)
    pairs = islice(neighbors, as_int(count, "how many pairs"))
    return find_worst_replay(((pair, replay_plan(planned, *pair)) for pair in pairs), public=planned.is_free)


def assert_private_session(
    schema: Schema,
    questions: Sequence[tuple[Question, object]],
    epsilon: object,
    count: int = DEFAULT_PAIRS,
    entropy: Entropy | None = None,
) -> Replay:
    """The same for counting questions, each with its noise scale, that one session answers together."""
    small_schema = limit_units(schema)
    boundary_values = [find_boundary_values(parse_question(question, small_schema)) for question, _ in questions]
    nearby_values = {
        name: [code for values in boundary_values for code in values.get(name, ())] for name in small_schema.columns
    }
    pairs = islice(
        _alternate_pairs(small_schema, [generate_pairs(small_schema, nearby_values, entropy)]),
        as_int(count, "how many pairs"),
    )
    tally, plans = plan_session(small_schema, questions, epsilon)
    return find_worst_replay((pair, replay_session_plans(tally, plans, *pair)) for pair in pairs)


def assert_private_release(
    schema: Schema,
    method: str,
    epsilon: object = 1,
    count: int = DEFAULT_PAIRS,
    entropy: Entropy | None = None,
    **options: Any,
) -> Replay:
    """The same for a private file: private-columns, private-linked or private-records, with what its recipe takes."""
    small_schema = limit_units(schema)
    planned = plan_replayed_release(small_schema, method, epsilon, **options)
    pairs = islice(
        _alternate_pairs(small_schema, [generate_pairs(small_schema, {}, entropy)]), as_int(count, "how many pairs")
    )
    return find_worst_replay((pair, replay_release_plan(small_schema, planned, *pair)) for pair in pairs)


def generate_neighbors(planned: Plan, entropy: Entropy | None = None) -> Iterator[Pair]:
    """Pairs without end for one plan, with values at the ends of what it asks; of one person, with that person."""
    schema, query = planned.schema, planned.query
    names = dict.fromkeys((query.unit or TARGET_UNIT, TARGET_UNIT))
    return _alternate_pairs(
        schema, [generate_pairs(schema, find_boundary_values(query), entropy, name) for name in names]
    )


def _alternate_pairs(schema: Schema, streams: Sequence[Iterator[Pair]]) -> Iterator[Pair]:
    """One pair as it is, the next read again."""
    while True:
        for stream in streams:
            yield next(stream)
            yield register_pair(schema, next(stream))


def register_pair(schema: Schema, pair: Pair) -> Pair:
    """A pair as it comes out of registration, where a source may hold more than fits; an empty one is as it is."""
    if not all(pair):
        return pair
    cache: PlainRowsCache = {}
    first, second = (snapshot(schema, build_source_rows(schema, rows, cache)) for rows in pair)
    return first, second


def find_boundary_values(query: Query) -> dict[str, list[Value]]:
    """The values at the ends of all ranges that a question is about, and the keys that it names."""
    values_by_column: dict[str, list[Value]] = {}
    for predicate in (query.where, *(aggregate.where for aggregate in query.aggregates)):
        for column, values in _iterate_range_ends(predicate):
            values_by_column.setdefault(column, []).extend(values)
    return values_by_column


def _iterate_range_ends(predicate: Predicate) -> Iterator[tuple[str, Sequence[Value]]]:
    match predicate:
        case InRanges(column, ranges):
            yield column, [code for ends in ranges for code in ends]
        case InTexts(column, texts):
            yield column, texts
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from _iterate_range_ends(part)


def find_worst_replay(replays: Iterable[tuple[Pair, Replay]], public: bool = False) -> Replay:
    """The replay that uses most of what is declared; an AssertionError where one uses more than all of it.

    And where nothing was tested: unless the answer is public, some pair has to move what a mechanism is handed.
    """
    worst_replay, largest_use, tested = None, (ZERO, ZERO), public
    for pair, replay in replays:
        used = (
            replay.largest_share,
            replay.observed_loss.epsilon,
        )  # of two that use as much of what is declared, the one that loses more
        if used[0] > 1:
            raise AssertionError(_format_violation(pair, replay))
        tested = tested or any(mechanism.changed_cells for mechanism in replay.mechanisms)
        worst_replay, largest_use = (
            (replay, used) if worst_replay is None or used > largest_use else (worst_replay, largest_use)
        )
    if worst_replay is None:
        raise AssertionError("no pair of tables was replayed")
    if not tested:
        raise AssertionError(
            f"{worst_replay.question}: no pair of neighbours moved any input, so nothing was "
            f"tested; {NOTHING_TESTED_ADVICE}"
        )
    return worst_replay


def _format_violation(pair: Pair, replay: Replay) -> str:
    """The question, what was too much, and the tables: they are made up, so they may be shown."""
    tables = [
        "\n".join([f"{name} has {len(rows)} rows:", *map(str, rows[:MAX_ROWS_SHOWN])])
        for name, rows in zip(("D", "D'"), pair, strict=True)
    ]
    return "\n".join([f"not private: {'; '.join(replay.violations)}", replay.table(), *tables])
