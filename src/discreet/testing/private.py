"""Many generated neighbours of a schema: no mechanism is handed more than declared, or an AssertionError says which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from discreet.custodian.question import Question, read
from discreet.exact import whole
from discreet.kernel.entropy import Entropy
from discreet.planner.choose import plan
from discreet.planner.plan import Plan
from discreet.query.predicate import All, OneOf, Predicate, Some, Within
from discreet.query.query import Query
from discreet.schema import Schema
from discreet.testing.found import Known, as_found
from discreet.testing.generated import ONE, Pair, Value, of_fewer_units, pairs_near
from discreet.testing.neighbouring import snapshot
from discreet.testing.questions import admitted, replay_admitted, replay_plan
from discreet.testing.recorded import ZERO, Replay
from discreet.testing.releases import planned_release, replay_release_plan

PAIRS = 100
MOST_ROWS_SHOWN = 12
MORE = "replay more pairs, or ask about rows that there can be"


def assert_private(
    schema: Schema, question: Question, *given: Any, count: int = PAIRS, entropy: Entropy | None = None, **more: Any
) -> Replay:
    """Replay a question on generated neighbours; the worst of them is returned.

    Every other pair is told in plain values, some out of bounds, and read the way registration reads a source. A
    table with a public number of units is replayed as one that declares a few. Nothing found is no proof.
    """
    own = of_fewer_units(schema)
    planned = plan(own, read(question, own), *given, **more)
    found = neighbours_for(planned, entropy)
    pairs = islice(found, whole(count, "how many pairs"))
    return worst(((pair, replay_plan(planned, *pair)) for pair in pairs), public=planned.free)


def assert_private_session(
    schema: Schema,
    questions: Sequence[tuple[Question, object]],
    epsilon: object,
    count: int = PAIRS,
    entropy: Entropy | None = None,
) -> Replay:
    """The same for counting questions, each with its noise scale, that one session answers together."""
    own = of_fewer_units(schema)
    asked = [near(read(question, own)) for question, _ in questions]
    tried = {name: [code for one in asked for code in one.get(name, ())] for name in own.columns}
    found = islice(_alternating(own, [pairs_near(own, tried, entropy)]), whole(count, "how many pairs"))
    tally, plans = admitted(own, questions, epsilon)
    return worst((pair, replay_admitted(tally, plans, *pair)) for pair in found)


def assert_private_release(
    schema: Schema,
    method: str,
    epsilon: object = 1,
    count: int = PAIRS,
    entropy: Entropy | None = None,
    **more: Any,
) -> Replay:
    """The same for a private file: private-columns, private-linked or private-records, with what its recipe takes."""
    own = of_fewer_units(schema)
    planned = planned_release(own, method, epsilon, **more)
    found = islice(_alternating(own, [pairs_near(own, {}, entropy)]), whole(count, "how many pairs"))
    return worst((pair, replay_release_plan(own, planned, *pair)) for pair in found)


def neighbours_for(planned: Plan, entropy: Entropy | None = None) -> Iterator[Pair]:
    """Pairs without end for one plan, with values at the ends of what it asks; of one person, with that person."""
    schema, query = planned.schema, planned.query
    names = dict.fromkeys((query.unit or ONE, ONE))
    return _alternating(schema, [pairs_near(schema, near(query), entropy, one) for one in names])


def _alternating(schema: Schema, streams: Sequence[Iterator[Pair]]) -> Iterator[Pair]:
    """One pair as it is, the next read again."""
    while True:
        for stream in streams:
            yield next(stream)
            yield read_again(schema, next(stream))


def read_again(schema: Schema, pair: Pair) -> Pair:
    """A pair as it comes out of registration, where a source may hold more than fits; an empty one is as it is."""
    if not all(pair):
        return pair
    known: Known = {}
    one, two = (snapshot(schema, as_found(schema, rows, known)) for rows in pair)
    return one, two


def near(query: Query) -> dict[str, list[Value]]:
    """The values at the ends of all ranges that a question is about, and the keys that it names."""
    found: dict[str, list[Value]] = {}
    for predicate in (query.where, *(one.where for one in query.aggregates)):
        for column, values in _ends(predicate):
            found.setdefault(column, []).extend(values)
    return found


def _ends(predicate: Predicate) -> Iterator[tuple[str, Sequence[Value]]]:
    match predicate:
        case Within(column, ranges):
            yield column, [code for ends in ranges for code in ends]
        case OneOf(column, texts):
            yield column, texts
        case All(parts) | Some(parts):
            for part in parts:
                yield from _ends(part)


def worst(replays: Iterable[tuple[Pair, Replay]], public: bool = False) -> Replay:
    """The replay that uses most of what is declared; an AssertionError where one uses more than all of it.

    And where nothing was tested: unless the answer is public, some pair has to move what a mechanism is handed.
    """
    found, most, tested = None, (ZERO, ZERO), public
    for pair, one in replays:
        used = one.worst, one.lost.epsilon  # of two that use as much of what is declared, the one that loses more
        if used[0] > 1:
            raise AssertionError(_accused(pair, one))
        tested = tested or any(own.moved for own in one.recorded)
        found, most = (one, used) if found is None or used > most else (found, most)
    if found is None:
        raise AssertionError("no pair of tables was replayed")
    if not tested:
        raise AssertionError(f"{found.question}: no pair of neighbours moved any input, so nothing was tested; {MORE}")
    return found


def _accused(pair: Pair, one: Replay) -> str:
    """The question, what was too much, and the tables: they are made up, so they may be shown."""
    tables = [
        "\n".join([f"{name} has {len(rows)} rows:", *map(str, rows[:MOST_ROWS_SHOWN])])
        for name, rows in zip(("D", "D'"), pair, strict=True)
    ]
    return "\n".join([f"not private: {'; '.join(one.beyond)}", one.table(), *tables])
