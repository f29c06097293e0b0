"""Assertions for tests: privacy on many neighbors, two-jaw noise tests, exact losses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import Protocol, TypeVar, Unpack

from discreet.errors import InvalidInput
from discreet.formatting import format_number
from discreet.measurements.observed_loss import ZERO
from discreet.mechanisms.entropy import Entropy
from discreet.numeric import as_int, as_rational
from discreet.planner.options import QueryKeywords
from discreet.planner.plan import Plan
from discreet.planner.planner import plan
from discreet.query import Question, parse_question
from discreet.query.predicates import AllOf, AnyOf, InRanges, InTexts, Predicate
from discreet.query.query import Query
from discreet.release.methods import SyntheticMethod
from discreet.schema import Schema
from discreet.untrusted import copy_items, require_callable
from discreet.verification.replays.neighbors import (
    TARGET_UNIT,
    Pair,
    PlainRowsCache,
    Value,
    build_source_rows,
    generate_pairs,
    limit_units,
    snapshot,
)
from discreet.verification.replays.replay import (
    list_session_questions,
    plan_replayed_release,
    plan_session,
    replay_plan,
    replay_release_plan,
    replay_session_plans,
)
from discreet.verification.replays.replay_result import Replay

FALSE_ALARM_RATE = 1e-9
"""How often a correct sampler may be accused."""

MIN_SAMPLES = 1000
"""With fewer, a scale 10 % off and the right one look alike."""
DEFAULT_PAIRS = 100
MAX_ROWS_SHOWN = 12
NOTHING_TESTED_ADVICE = "replay more pairs, or ask about rows that there can be"
Outcome = TypeVar("Outcome", bound=Hashable)


class ScriptedEntropy:
    """Entropy that returns given bytes, so that a test can assert the exact output.

    Args:
        script: The bytes, in order.

    Attributes:
        taken: The number of bytes taken so far.

    Raises:
        InvalidInput: The script is not bytes.

    Example:
        >>> from discreet.verification import ScriptedEntropy
        >>> entropy = ScriptedEntropy(b"abcdef")
        >>> entropy.take(2), entropy.take(2), entropy.taken
        (b'ab', b'cd', 4)
    """

    def __init__(self, script: bytes) -> None:
        if not isinstance(script, bytes):
            raise InvalidInput(f"the script must be bytes such as b'abc', got {type(script).__name__}")
        self._script = script
        self.taken = 0

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes of the script; a script that is too short is a mistake in the test."""
        piece = self._script[self.taken : self.taken + count]
        if len(piece) < count:
            raise InvalidInput(f"the script has {len(self._script)} bytes, {self.taken + count} were asked for")
        self.taken += count
        return piece


def assert_fits(
    samples: Iterable[int],
    distribution: Callable[[int], float],
    smaller: Callable[[int], float],
    larger: Callable[[int], float],
) -> None:
    """Assert that samples fit `distribution`, and fit `smaller` and `larger` worse.

    The counts must also pass a chi-square test. At least 1,000 samples are needed; about 100,000 distinguish scales 10
    % apart.

    Args:
        samples: Samples in grid units: use `sample_units`, or a noise of step 1.
        distribution: The claimed probability of a grid point.
        smaller: The same for a slightly smaller scale.
        larger: The same for a slightly larger scale.

    Raises:
        InvalidInput: There are too few samples, they are not whole numbers, or a distribution cannot be called.
        AssertionError: The samples do not fit.

    Example:
        >>> from discreet import DiscreteLaplace
        >>> from discreet.mechanisms import SYSTEM
        >>> from discreet.verification import assert_fits
        >>> claimed, smaller, larger = (DiscreteLaplace(epsilon, 1) for epsilon in (1, 1.2, 0.8))
        >>> samples = claimed.sample_units(100_000, SYSTEM)
        >>> assert_fits(samples, claimed.probability, smaller.probability, larger.probability)
    """
    for law in (distribution, smaller, larger):
        require_callable(law, "a distribution")
    try:
        counts = Counter(map(int, samples))
    except (TypeError, ValueError):
        raise InvalidInput("the samples must be a list of whole numbers, such as those of sample_units") from None
    if counts.total() < MIN_SAMPLES:
        raise InvalidInput(f"a fit needs at least {MIN_SAMPLES} draws, got {counts.total()}; draw more")
    for name, alternative in (("smaller", smaller), ("larger", larger)):
        advantage = sum(
            count * (_log_or_floor(distribution(value)) - _log_or_floor(alternative(value)))
            for value, count in counts.items()
        )
        if advantage <= 0:
            raise AssertionError(
                f"the draws fit the {name} law at least as well as the claimed one ({format_number(advantage)})"
            )
    excess = chi_square_excess(counts, distribution)
    if excess > 0:
        raise AssertionError(
            f"the draws do not fit the claimed law: chi-square is {format_number(excess)} above its limit"
        )


def chi_square_excess(counts: Mapping[int, int], distribution: Callable[[int], float]) -> float:
    """Compute how far chi-square lies above the value that a correct sampler exceeds with probability
    `FALSE_ALARM_RATE`.

    Args:
        counts: How often each value was drawn.
        distribution: The claimed probability of a value.

    Returns:
        The excess; above 0 the counts do not fit.

    Raises:
        InvalidInput: The counts are not whole numbers with counts, there are none, or the distribution cannot be
            called.

    Example:
        >>> from discreet.verification import chi_square_excess
        >>> def fair_coin(value):
        ...     return 0.5 if value in (0, 1) else 0.0
        >>> chi_square_excess({0: 5030, 1: 4970}, fair_coin) > 0
        False
        >>> chi_square_excess({0: 6000, 1: 4000}, fair_coin) > 0
        True
    """
    counts = dict(copy_items(counts, "the counts"))
    if not all(type(value) is int for value in counts):
        raise InvalidInput("the counts must be a dictionary from whole numbers to counts, such as {0: 7, 1: 3}")
    require_callable(distribution, "the distribution")
    total = sum(counts.values())
    if not total:
        raise InvalidInput("a chi-square test needs draws, got none")
    statistic, cells, inside, inside_count = 0.0, 0, 0.0, 0
    for value in _sort_by_probability(counts, distribution):
        expected = total * distribution(value)
        if expected < 20:
            break
        statistic += (counts.get(value, 0) - expected) ** 2 / expected
        cells, inside, inside_count = cells + 1, inside + distribution(value), inside_count + counts.get(value, 0)
    tail_expected = total * max(1 - inside, 0.0)
    if tail_expected > 5:
        statistic, cells = statistic + (total - inside_count - tail_expected) ** 2 / tail_expected, cells + 1
    elif total - inside_count > tail_expected + 60:
        return math.inf
    # An upper bound on the quantile (Laurent and Massart 2000): P(X > d + 2 sqrt(d x) + 2 x) <= e^-x.
    freedom, x = max(cells - 1, 1), -math.log(FALSE_ALARM_RATE)
    return statistic - (freedom + 2 * math.sqrt(freedom * x) + 2 * x)


def _sort_by_probability(counts: Mapping[int, int], distribution: Callable[[int], float]) -> list[int]:
    """All grid points between the smallest and the largest sample, likeliest first."""
    low, high = min(counts), max(counts)
    points = range(low, high + 1) if high - low < 100_000 else sorted(counts)
    return sorted(points, key=distribution, reverse=True)


def _log_or_floor(probability: float) -> float:
    return math.log(probability) if probability > 0 else -1e6


class FiniteDistribution(Protocol):
    """An object that knows its exact probabilities."""

    def law(self) -> Mapping[Hashable, Fraction]:
        """Return the exact probability of every outcome."""
        ...


def worst_ratio(
    distribution: Mapping[Outcome, Fraction] | FiniteDistribution,
    other: Mapping[Outcome, Fraction] | FiniteDistribution,
) -> Fraction | None:
    """Compute the largest ratio of two distributions, in either direction: e^epsilon, exactly.

    Args:
        distribution: A mapping from outcomes to exact probabilities, or what `refine` returns.
        other: The other distribution, in the same form.

    Returns:
        The ratio; None if one excludes an outcome that the other allows.

    Raises:
        InvalidInput: A distribution is not valid.

    Example:
        >>> from fractions import Fraction
        >>> from discreet.verification import worst_ratio
        >>> worst_ratio({0: Fraction(3, 4), 1: Fraction(1, 4)}, {0: Fraction(1, 4), 1: Fraction(3, 4)})
        Fraction(3, 1)
    """
    worst = Fraction(1)
    for p, q in _pair_probabilities(distribution, other):
        if (p == 0) != (q == 0):
            return None
        if p:
            worst = max(worst, p / q, q / p)
    return worst


def exact_delta(
    distribution: Mapping[Outcome, Fraction] | FiniteDistribution,
    other: Mapping[Outcome, Fraction] | FiniteDistribution,
    ratio: Fraction,
) -> Fraction:
    """Compute the least delta with P(S) <= ratio Q(S) + delta for all events S, and with P and Q exchanged.

    Args:
        distribution: P, as a mapping from outcomes to exact probabilities, or what `refine` returns.
        other: Q, in the same form.
        ratio: The bound, e^epsilon for (epsilon, delta)-DP.

    Returns:
        The exact delta.

    Raises:
        InvalidInput: A distribution or the ratio is not valid.

    Example:
        >>> from fractions import Fraction
        >>> from discreet.verification import exact_delta
        >>> p, q = {0: Fraction(3, 4), 1: Fraction(1, 4)}, {0: Fraction(1, 4), 1: Fraction(3, 4)}
        >>> exact_delta(p, q, ratio=2)
        Fraction(1, 4)
    """
    pairs, ratio = _pair_probabilities(distribution, other), as_rational(ratio, "the ratio")
    delta = sum((max(ZERO, p - ratio * q) for p, q in pairs), ZERO)
    return max(delta, sum((max(ZERO, q - ratio * p) for p, q in pairs), ZERO))


def _pair_probabilities(distribution: object, other: object) -> list[tuple[Fraction, Fraction]]:
    """The two probabilities of every outcome of either."""
    first, second = _read_probabilities(distribution), _read_probabilities(other)
    return [(first.get(outcome, ZERO), second.get(outcome, ZERO)) for outcome in {*first, *second}]


def _read_probabilities(distribution: object) -> Mapping[Hashable, Fraction]:
    probabilities = distribution.law() if hasattr(distribution, "law") else distribution
    if not isinstance(probabilities, Mapping):
        raise InvalidInput(f"a law is a mapping from outcomes to probabilities, got {type(distribution).__name__}")
    return probabilities


def assert_private(
    schema: Schema,
    question: Question,
    epsilon: object = None,
    *,
    count: int = DEFAULT_PAIRS,
    entropy: Entropy | None = None,
    **options: Unpack[QueryKeywords],
) -> Replay:
    """Replay a question on generated neighbors, and assert that none loses more than what is charged.

    Every other pair is turned into plain values, some out of bounds, and registered again as a source would be. A table
    with a public number of units is replayed with a few units. A replay that finds nothing is no proof.

    Args:
        schema: The schema of the table.
        question: The question, as SQL text.
        epsilon: Privacy budget of the answer; `accuracy` or `noise_scale` may be given instead.
        count: The number of pairs of neighbors.
        entropy: What pairs are generated from; by default they are the same every time.
        **options: The other fields of `QueryOptions`.

    Returns:
        The replay that uses the largest share of what is declared.

    Raises:
        InvalidInput: An argument is not valid.
        AssertionError: A replay loses too much.

    Example:
        >>> from pathlib import Path
        >>> from discreet import load_schema
        >>> from discreet.sample import write_registry
        >>> from discreet.verification import assert_private
        >>> schema = load_schema(write_registry(Path("."), patients=100))
        >>> assert_private(schema, "SELECT COUNT(*) FROM registry WHERE smoker", epsilon=1, count=10).largest_share
        Fraction(1, 1)
    """
    small_schema = limit_units(schema)
    planned = plan(small_schema, parse_question(question, small_schema), epsilon, **options)
    pairs = islice(generate_neighbors(planned, entropy), as_int(count, "how many pairs"))
    return find_worst_replay(((pair, replay_plan(planned, *pair)) for pair in pairs), public=planned.is_free)


def assert_private_session(
    schema: Schema,
    questions: Sequence[tuple[Question, object]],
    epsilon: object,
    count: int = DEFAULT_PAIRS,
    entropy: Entropy | None = None,
) -> Replay:
    """Replay one session of counting questions on generated neighbors, and assert that none loses more than what is
    charged.

    Args:
        schema: The schema of the table.
        questions: The questions, each with its noise scale.
        epsilon: Privacy budget of the session.
        count: The number of pairs of neighbors.
        entropy: What pairs are generated from; by default they are the same every time.

    Returns:
        The replay that uses the largest share of what is declared.

    Raises:
        InvalidInput: An argument is not valid.
        AssertionError: A replay loses too much.

    Example:
        >>> from pathlib import Path
        >>> from discreet import load_schema
        >>> from discreet.sample import write_registry
        >>> from discreet.verification import assert_private_session
        >>> schema = load_schema(write_registry(Path("."), patients=100))
        >>> questions = [("SELECT COUNT(*) FROM registry WHERE smoker", 10)]
        >>> assert_private_session(schema, questions, epsilon=1, count=4).ok
        True
    """
    small_schema, questions = limit_units(schema), list_session_questions(questions)
    boundary_values = [find_boundary_values(parse_question(question, small_schema)) for question, _ in questions]
    nearby_values = {
        name: [code for values in boundary_values for code in values.get(name, ())] for name in small_schema.columns
    }
    neighbors = _alternate_pairs(small_schema, [generate_pairs(small_schema, nearby_values, entropy)])
    pairs = islice(neighbors, as_int(count, "how many pairs"))
    tally, plans = plan_session(small_schema, questions, epsilon)
    return find_worst_replay((pair, replay_session_plans(tally, plans, *pair)) for pair in pairs)


def assert_private_release(
    schema: Schema,
    method: SyntheticMethod | str,
    count: int = DEFAULT_PAIRS,
    entropy: Entropy | None = None,
    **options: object,
) -> Replay:
    """Replay a differentially private file on generated neighbors, and assert that none loses more than what is
    charged.

    Args:
        schema: The schema of the table.
        method: A method of `discreet.synthetic`, or its name: private-columns, private-linked or private-records.
        count: The number of pairs of neighbors.
        entropy: What pairs are generated from; by default they are the same every time.
        **options: The options of the method, where its name is given.

    Returns:
        The replay that uses the largest share of what is declared.

    Raises:
        InvalidInput: An argument is not valid.
        AssertionError: A replay loses too much.

    Example:
        >>> from pathlib import Path
        >>> from discreet import load_schema
        >>> from discreet.sample import write_registry
        >>> from discreet.synthetic import PrivateColumns
        >>> from discreet.verification import assert_private_release
        >>> schema = load_schema(write_registry(Path("."), patients=100))
        >>> assert_private_release(schema, PrivateColumns(epsilon=1, columns=["age"]), count=4).ok
        True
    """
    small_schema = limit_units(schema)
    planned = plan_replayed_release(small_schema, method, options)
    neighbors = _alternate_pairs(small_schema, [generate_pairs(small_schema, {}, entropy)])
    pairs = islice(neighbors, as_int(count, "how many pairs"))
    return find_worst_replay((pair, replay_release_plan(small_schema, planned, *pair)) for pair in pairs)


def generate_neighbors(planned: Plan, entropy: Entropy | None = None) -> Iterator[Pair]:
    """Yield pairs without end for a plan, with values at the ends of its ranges, and the person it is about."""
    schema, query = planned.schema, planned.query
    units, boundary_values = dict.fromkeys((query.unit or TARGET_UNIT, TARGET_UNIT)), find_boundary_values(query)
    return _alternate_pairs(schema, [generate_pairs(schema, boundary_values, entropy, unit) for unit in units])


def _alternate_pairs(schema: Schema, streams: Sequence[Iterator[Pair]]) -> Iterator[Pair]:
    """One pair as it is, the next one registered again."""
    while True:
        for stream in streams:
            yield next(stream)
            yield register_pair(schema, next(stream))


def register_pair(schema: Schema, pair: Pair) -> Pair:
    """Register a pair again, from plain values that may lie beyond the bounds; a pair with an empty table stays."""
    if not all(pair):
        return pair
    cache: PlainRowsCache = {}
    first, second = (snapshot(schema, build_source_rows(schema, rows, cache)) for rows in pair)
    return first, second


def find_boundary_values(query: Query) -> dict[str, list[Value]]:
    """Return the values at the ends of all ranges of a question, and the keys that it names."""
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
    """Return the replay that uses most of what is declared, or raise AssertionError if one uses more than all of it.

    It is raised too if nothing was tested: unless the answer is public, some pair must change a mechanism's input.
    """
    worst_replay, largest_use, tested = None, (ZERO, ZERO), public
    for pair, replay in replays:
        used = replay.largest_share, replay.observed_loss.epsilon  # the loss decides between equal shares
        if used[0] > 1:
            tables = [
                "\n".join([f"{name} has {len(rows)} rows:", *map(str, rows[:MAX_ROWS_SHOWN])])
                for name, rows in zip(("D", "D'"), pair, strict=True)
            ]  # they are made up, so they may be shown
            violations = f"not private: {'; '.join(replay.violations)}"
            raise AssertionError("\n".join([violations, replay.table(), *tables]))
        tested = tested or any(mechanism.changed_cells for mechanism in replay.mechanisms)
        if worst_replay is None or used > largest_use:
            worst_replay, largest_use = replay, used
    if worst_replay is None:
        raise AssertionError("no pair of tables was replayed")
    if not tested:
        problem = "no pair of neighbours moved any input, so nothing was tested"
        raise AssertionError(f"{worst_replay.question}: {problem}; {NOTHING_TESTED_ADVICE}")
    return worst_replay
