"""An audit reads answers of any kind: numbers wherever there are some, and never by the draws that test."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discreet import audit_mechanism
from discreet.verification.audit.events import find_best_event
from discreet.verification.audit.features import Feature
from discreet.verification.audit.read_outputs import read_output_pair
from support.numpy_generators import build_generator

Mechanism = Callable[[Any, int], object]

LARGEST = float(np.finfo(np.float64).max)


# --- by training draws alone


def test_labels_follow_from_the_draws_that_make_candidates_alone() -> None:
    """Every fourth draw is such a one; any other value is one of all others."""
    one, two = read_output_pair(list("xaybzaxa"), list("xaxawaxa"), 8)
    answer, second_answer = one.attributes[0], two.attributes[0]
    assert answer.values == second_answer.values == ("'x'", "'z'", "'w'")
    assert answer.keys.tolist() == [0, -1, -1, -1, 1, -1, 0, -1]
    assert second_answer.keys.tolist() == [0, -1, 0, -1, 2, -1, 0, -1]


@pytest.mark.parametrize("strange", [2**70, "x", None, ("x", 2), 0.5, math.nan])
def test_how_draws_are_read_does_not_follow_from_those_that_test(strange: object) -> None:
    """One strange value among test draws is a value of its own, and changes nothing else."""
    one_plain, two_plain = list[object](range(20)), list[object](range(5, 25))
    odd, even = list(one_plain), list(one_plain)
    odd[7], even[8] = strange, strange
    usual, other = read_output_pair(one_plain, two_plain, 20), read_output_pair(odd, two_plain, 20)
    for one, two in zip(usual, other, strict=True):
        assert one.titles == two.titles
        assert [attribute.name for attribute in one.attributes] == [attribute.name for attribute in two.attributes]
        assert one.columns.dtype == two.columns.dtype == np.int64  # type: ignore[union-attr]
        assert (one.columns[::2] == two.columns[::2]).all()  # type: ignore[index]
        assert [attribute.values for attribute in one.attributes] == [attribute.values for attribute in two.attributes]
    assert other[0].columns[7].tolist() == [-(2**63)]  # type: ignore[index]
    trained = read_output_pair(even, two_plain, 20)[0]
    assert trained.columns.dtype == np.float64  # type: ignore[union-attr]


def test_how_rows_are_read_does_not_follow_from_those_that_test() -> None:
    rows: list[object] = [(index, -index) for index in range(20)]
    for strange in (("x", 0.5, 2), "x", 3.5):
        odd = [*rows[:7], strange, *rows[8:]]
        read = read_output_pair(odd, rows, 20)[0]
        assert read.columns is not None
        assert read.columns.dtype == np.int64
        assert read.columns.shape == (20, 2)
        assert read.columns[7].tolist() == [-(2**63)] * 2
        assert [attribute.name for attribute in read.attributes] == ["the answer", "the kind of the answer"]


def test_values_without_an_order_that_do_not_recur_are_in_an_event_together() -> None:
    """Between two of them lie only such as were numbered later, and by which data set they came from."""
    feature = Feature("it", lambda draws: draws.attributes[0].keys, str)
    shape = np.repeat(np.arange(0, 40, 4), 10), np.repeat(np.arange(2, 42, 4), 10)
    seldom = np.arange(100, 160), np.arange(1, 61, 2)
    keys = np.concatenate([shape[0], seldom[0]]), np.concatenate([shape[1], seldom[1]])
    best_event = find_best_event(feature, keys, keys, 0.0, 2.0)
    others = best_event.contains(np.array([-5, 1, 3, 17, 39, 77, 100, 159, 2**40]))
    assert len(set(others.tolist())) == 1
    assert best_event.contains(shape[best_event.direction]).all()
    assert not best_event.contains(shape[1 - best_event.direction]).any()


def test_numbers_without_a_sign_are_read_by_training_draws() -> None:
    numbers = np.array([1, 2**64 - 1, 3, 4], dtype=np.uint64)
    assert read_output_pair(numbers, numbers, 4)[0].columns.tolist() == [[1], [-(2**63)], [3], [4]]  # type: ignore[union-attr]
    beyond = read_output_pair(numbers[::-1], numbers, 4)[0]
    assert beyond.columns is not None
    assert beyond.columns.tolist() == [[4.0], [3.0], [2.0**64], [1.0]]


def build_scaled_geometric(seed: int, dress: Callable[[int], object]) -> Mechanism:
    """Epsilon is exactly 1 for 7 and 8, and numpy is left to choose the type of the array."""
    generator = build_generator(seed)

    def sample_output(data: int, n: int) -> object:
        noise = generator.geometric(1 - math.exp(-1), n) - generator.geometric(1 - math.exp(-1), n)
        return np.array([dress(data + int(each)) for each in noise])

    return sample_output


@pytest.mark.parametrize(
    "dress",
    [
        lambda v: v << 59,
        lambda v: v if v < 14 else math.nan,
        lambda v: v if v < 14 else None,
        lambda v: v if v < 14 else "many",
        lambda v: v if v < 14 else 1j,
        lambda v: "x" * max(v, 0),
        lambda v: np.datetime64("2020-01-01T00") + (np.timedelta64(v, "h") if v < 14 else np.timedelta64(v, "s")),
    ],
    ids=["large", "nan", "none", "text", "complex", "width", "unit"],
)
@pytest.mark.parametrize("audits", [8, pytest.param(40, marks=pytest.mark.soak)])
def test_an_honest_mechanism_is_not_accused_by_the_type_of_its_array(
    dress: Callable[[int], object], audits: int
) -> None:
    """The seeds are fixed; with numbers times 2^59, 19 of 40 were accused when the type of the array was read."""
    assert not any(
        audit_mechanism(build_scaled_geometric(index, dress), 7, 8, 1, draws=2000).violated for index in range(audits)
    )


def test_the_width_of_a_type_and_the_type_of_an_array_tell_nothing() -> None:
    types = [np.int8, np.int64, np.uint64, np.float32, np.float64, np.complex128, bool, str, object]
    for other in types:
        audit = audit_mechanism(
            lambda data, n, t=other: np.ones(n, bool).astype((np.int16, t)[data]), 0, 1, 1, draws=1000
        )
        assert audit.lower_bound == 0


def test_an_array_of_objects_tells_types_where_training_draws_make_it_one() -> None:
    """A whole number that no array of numbers holds is exact, and a type that each draw has is its own."""
    assert audit_mechanism(lambda data, n: np.array([2**70 + data] * n), 0, 1, 1, draws=1000).violated
    mixed = [None, 1, 2.0, 3]
    attributes = read_output_pair(np.array(mixed * 4), np.array(mixed * 4), 16)[0].attributes
    assert [attribute.name for attribute in attributes][:2] == ["the answer", "the kind of the answer"]


# --- answers of any kind


def build_spread(reply_of: Callable[[float], object], width: float = 0.01) -> Mechanism:
    """Noise at epsilon 1 / width, in any dress."""
    generator = build_generator(8)
    return lambda data, n: [reply_of(float(x)) for x in data + generator.laplace(scale=width, size=n)]


@pytest.mark.parametrize(
    "reply_of",
    [
        lambda x: Decimal(repr(x)),
        lambda x: ("avg", x),
        lambda x: [None, [x]],
        lambda x: None if hash(x) % 100 == 0 else x,
        lambda x: "failed" if hash(x) % 100 == 0 else Fraction(x) / 3,
        lambda x: complex(0, x),
        lambda x: datetime(2020, 1, 1, 12, tzinfo=UTC) + timedelta(seconds=x),
        lambda x: datetime(2020, 1, 1, tzinfo=UTC).date() + timedelta(days=round(1000 * x)),
        lambda x: time(1, 1, 30 + math.floor(9 * x), math.floor(x * 10**5) % 10**5),
        lambda x: timedelta(seconds=x),
        repr,
        np.float32,
        lambda x: round(x * 10**9) + 2**120,
        lambda x: "y" * (40 + math.floor(x * 20)) + repr(x),
    ],
    ids=range(14),
)
def test_a_gross_leak_is_found_in_answers_of_any_kind(reply_of: Callable[[float], object]) -> None:
    assert audit_mechanism(build_spread(reply_of), 0, 1, 1, draws=4000).lower_bound > 3


@pytest.mark.parametrize(
    "answer",
    [
        lambda data, g, n: g.normal(size=(n, 3 + data)),
        lambda data, g, n: [g.normal(size=3 + 6 * data + int(shift)) for shift in g.integers(0, 2, n)],
        lambda data, g, n: [(float, Fraction)[data](x) for x in g.normal(size=n)],
        lambda data, _, n: [(True, 1)[data]] * n,
        lambda data, _, n: [(1, 1.0)[data]] * n,
        lambda data, _, n: [("1", 1)[data]] * n,
        lambda data, _, n: np.array([None, *[(1, 1.0)[data]] * (n - 1)], dtype=object),
        lambda data, g, n: g.normal(size=n) + (0j, 9j)[data],
        lambda data, g, n: np.datetime64("2020-01-01T00:00:00") + (g.integers(0, 9, n) + 9 * data).astype("m8[s]"),
        lambda data, g, n: np.ma.masked_array(g.normal(size=n), g.random(n) < 0.1 + 0.8 * data),
        lambda data, g, n: [(("yes", "no")[data], float(x)) for x in g.normal(size=n)],
        lambda data, g, n: [(1.0, 2, 1, 2.0)[int(offset) + 2 * data] for offset in g.integers(0, 2, n)],
    ],
    ids=range(12),
)
def test_a_shape_a_length_a_type_and_an_entry_are_told_apart(answer: Callable[[int, Any, int], object]) -> None:
    generator = build_generator(9)
    audit = audit_mechanism(lambda data, n: answer(data, generator, n), 0, 1, 1, draws=2000)
    assert audit.lower_bound > 1.5
    assert audit.event.words


def test_a_length_is_told_as_such_and_up_to_the_next_one_that_was_seen() -> None:
    generator = build_generator(12)

    def sample_output(data: int, n: int) -> object:
        return [generator.normal(size=3 + 6 * data + int(shift)) for shift in generator.integers(0, 2, n)]

    words = audit_mechanism(sample_output, 0, 1, 1, draws=2000).event.words
    assert words in {"the number of entries is below 9", "the number of entries is at least 5"}


@pytest.mark.parametrize("reply_of", [lambda v: v + 2**70, str, lambda v: f"v{v}"], ids=["large", "text", "word"])
@pytest.mark.parametrize("draws", [20_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_values_without_an_order_keep_what_they_promise(reply_of: Callable[[int], object], draws: int) -> None:
    """Thousands of values, each seldom seen: epsilon is 3, and the event that promises most must keep it."""
    generator = build_generator(10)

    def sample_output(data: int, n: int) -> object:
        return [reply_of(int(v)) for v in data + np.round(generator.laplace(scale=1 / 3, size=n) * 1000)]

    audit = audit_mechanism(sample_output, 0, 1000, 1, draws=draws)
    assert 1 < audit.lower_bound < 3
    assert audit.lower_bound > audit.evidence.candidate.estimated_bound - 0.6


def test_huge_and_infinite_numbers_are_no_obstacle() -> None:
    generator = build_generator(11)

    def sample_output(data: int, n: int) -> object:
        rows = generator.laplace(size=(n, 3)) + data
        rows[generator.random(n) < 0.1, 0] = math.inf
        rows[generator.random(n) < 0.1, 1] = math.nan
        rows[generator.random(n) < 0.1, 2] = -1e300
        return rows

    assert audit_mechanism(sample_output, 0, 5, 1, draws=4000).lower_bound > 2
    far = [Decimal("-1e-999"), Decimal("1e1000000"), Decimal("-1e1000000"), Decimal("inf")]
    columns = read_output_pair(far, far, 4)[0].columns
    assert columns is not None
    assert columns[:, 0].tolist() == [0, LARGEST, -LARGEST, math.inf]
    assert audit_mechanism(lambda data, n: [2**5000 + data] * n, 0, 1, 1, draws=1000).violated
