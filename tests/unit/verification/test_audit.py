"""An audit of any callable: what it finds, in which words, and that it accuses nobody else."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet import Audit, InvalidInput, audit_mechanism
from discreet.verification import audit_worst
from discreet.verification.audit.output_values import compute_ordered_keys, decode_keys
from support.numpy_generators import build_generator

Mechanism = Callable[[Any, int], object]


def build_geometric(epsilon: float, seed: int = 1) -> Mechanism:
    """Exact two-sided geometric noise on whole numbers, by a generator that may be played again."""
    generator = build_generator(seed)
    fall = 1 - math.exp(-epsilon)
    return lambda data, n: data + generator.geometric(fall, n) - generator.geometric(fall, n)


def build_randomized_response(epsilon: float, seed: int = 1) -> Mechanism:
    """Randomized response: the bit, or the other one with a chance of 1 / (1 + e^epsilon)."""
    generator = build_generator(seed)
    return lambda data, n: (generator.random(n) < 1 / (1 + math.exp(epsilon))) ^ bool(data)


# --- what is promised


def test_a_tight_claim_is_approached_and_not_passed() -> None:
    audit = audit_mechanism(build_geometric(1), 0, 1, 1, draws=100_000)
    assert not audit.violated
    assert 0.93 < audit.lower_bound < 1
    assert audit.sentence() == f"No violation above {math.ceil(10_000 * audit.lower_bound) / 10_000} found with " + (
        "100,000 draws at 99.9 %."
    )


@pytest.mark.parametrize("claim", [1, 3])
def test_a_claim_a_fifth_too_small_is_caught(claim: int) -> None:
    audit = audit_mechanism(build_geometric(1.2 * claim), 0, 1, claim, draws=60_000)
    assert audit.violated
    assert claim < audit.lower_bound < 1.2 * claim
    assert audit.sentence().startswith(f"Violated: epsilon is at least {math.floor(1000 * audit.lower_bound) / 1000} ")
    assert f"and {claim} was claimed. Seen {audit.event.count:,} of 30,000 times with" in audit.sentence()


def test_an_exact_claim_is_accused_as_seldom_as_the_confidence_says() -> None:
    """At 80 % one in five may be; choosing the event by the draws that test it accuses more than that."""
    alarms = sum(
        audit_mechanism(build_randomized_response(1, seed), 0, 1, 1, draws=1000, confidence=0.8).violated
        for seed in range(300)
    )
    assert alarms <= 60
    low = audit_mechanism(build_randomized_response(1), 0, 1, 1, draws=1000, confidence=0.8).lower_bound
    assert low > audit_mechanism(build_randomized_response(1), 0, 1, 1, draws=1000, confidence=0.999).lower_bound


def test_no_pattern_is_found_in_noise() -> None:
    """Fifty continuous mechanisms whose answers do not depend on the data, with every kind of bin: none is accused."""
    for seed in range(50):
        generator = build_generator(seed)
        audit = audit_mechanism(lambda _, n, source=generator: source.normal(size=(n, 2)), 0, 1, 0, draws=4000)
        assert not audit.violated


def test_a_generator_that_starts_anew_in_every_call_is_no_violation() -> None:
    """All draws of a data set come from one call: else the draws that test would be those that chose."""

    def sample_seeded(_: object, n: int) -> object:
        assert n == 4000
        return build_generator(7).normal(size=n)

    assert audit_mechanism(sample_seeded, 0, 1, 0, draws=4000).lower_bound == 0


def test_what_only_test_draws_show_chooses_nothing() -> None:
    """The draws that train are the same with both data sets; the others would tell them apart for certain."""

    def sample_output(data: int, n: int) -> object:
        places = np.arange(n) // 2
        return np.where(np.arange(n) % 2, places % 5 + 5 * data, places // 2 % 10)

    audit = audit_mechanism(sample_output, 0, 1, 0, draws=4000)
    assert audit.lower_bound == 0


def test_draws_in_order_are_in_both_halves_alike() -> None:
    mechanism = build_geometric(1)
    assert not audit_mechanism(lambda data, n: np.sort(mechanism(data, n)), 0, 1, 1, draws=20_000).violated  # type: ignore[call-overload]


def test_the_event_is_tested_on_draws_that_did_not_choose_it() -> None:
    """Half of the draws, the odd ones; its counts can be counted again."""
    outputs: list[np.ndarray[Any, np.dtype[np.int64]]] = []
    mechanism = build_geometric(2)

    def replay_output(data: int, n: int) -> object:
        outputs.append(mechanism(data, n))  # type: ignore[arg-type]
        return outputs[-1]

    event = audit_mechanism(replay_output, 0, 1, 1, draws=10_001).event
    assert event.draws == 5000
    limit = int(event.words.rsplit(" ", 1)[1])
    below = event.words.startswith("the answer is below")
    one, two = (draws[1::2] < limit if below else draws[1::2] >= limit for draws in outputs)
    counts = (one.sum(), two.sum()) if event.likelier == "D" else (two.sum(), one.sum())
    assert (event.count, event.other_count) == counts
    assert (event.p, event.q) == (counts[0] / 5000, counts[1] / 5000)


# --- delta


def test_delta_explains_a_rare_leak_and_no_more() -> None:
    generator = build_generator(3)

    def sample_leak(data: int, n: int) -> object:
        return np.where(generator.random(n) < 0.01, 1000 + data, generator.integers(0, 4, n))

    assert audit_mechanism(sample_leak, 0, 1, 1, draws=40_000).lower_bound > 2
    assert not audit_mechanism(sample_leak, 0, 1, 1, delta=0.012, draws=40_000).violated
    caught = audit_mechanism(sample_leak, 0, 1, 1, delta=0.001, draws=40_000)
    assert caught.violated
    assert "epsilon with delta 0.001 is at least" in caught.sentence()


# --- what may come out


def build_rare_leak(value: object, other: object) -> Mechanism:
    """Nine times in ten the same, else what tells the data sets apart."""

    def sample_output(data: int, n: int) -> object:
        flags = build_generator(data).random(n) < 0.1
        return [(other if data else value) if tells else 0 for tells in flags]

    return sample_output


@pytest.mark.parametrize(
    ("value", "other"),
    [
        ("yes", "no"),
        (None, "none"),
        (math.nan, 1.5),
        (math.inf, -math.inf),
        (2**70, 2**70 + 1),
        (Fraction(1, 3), Fraction(1, 3) + Fraction(1, 10**40)),
        (2**53, 2**53 + 1),
        ((1, "a"), (1, "b")),
        (True, 1.5),
    ],
)
def test_values_of_any_kind_are_told_apart(value: object, other: object) -> None:
    audit = audit_mechanism(build_rare_leak(value, other), 0, 1, 1, draws=4000)
    assert audit.lower_bound > 2
    assert audit.event.other_count == 0


def test_zeros_of_different_signs_are_told_apart() -> None:
    """They are equal, and still tell what was asked of them."""
    assert audit_mechanism(lambda data, n: np.full(n, -0.0 if data else 0.0), 0, 1, 1, draws=1000).violated


def test_a_label_is_told_by_its_name() -> None:
    assert audit_mechanism(build_rare_leak("yes", "no"), 0, 1, 1, draws=4000).event.words in (
        "the answer is 'yes'",
        "the answer is 'no'",
    )


def test_arrays_of_any_kind_are_read() -> None:
    for dtype in (bool, np.int8, np.uint64, np.float16, np.float32, np.int64, str, object):
        generator = build_generator(4)
        tables = [np.array([0, 1, 1, 1]).astype(dtype), np.array([0, 0, 0, 1]).astype(dtype)]
        audit = audit_mechanism(
            lambda data, n, tables_of=tables, g=generator: g.choice(tables_of[data], n), 0, 1, 1, draws=4000
        )
        assert (audit.event.p, audit.event.q) == pytest.approx((0.75, 0.25), abs=0.05), dtype
    assert audit_mechanism(lambda data, n: [data] * n, 0, 1, 1, draws=1000).violated
    assert audit_mechanism(lambda data, n: (data for _ in range(n)), 0, 1, 1, draws=1000).violated


def test_another_shape_or_kind_of_answer_is_a_violation() -> None:
    """Three numbers against two, and numbers against text."""
    assert audit_mechanism(lambda data, n: np.zeros((n, 2 + data)), 0, 1, 1, draws=1000).violated
    assert audit_mechanism(lambda data, n: ["0"] * n if data else [0.0] * n, 0, 1, 1, draws=1000).violated


def test_numbers_are_ordered_to_the_last_bit() -> None:
    """From the least float to the greatest, -0 before 0; and back."""
    numbers = np.array([-math.inf, -1e300, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, math.inf])
    keys = compute_ordered_keys(numbers)
    assert (np.diff(keys) > 0).all()
    assert keys[5] - keys[4] == keys[6] - keys[5] == 1
    assert decode_keys(keys).tobytes() == numbers.tobytes()


# --- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": -1}, "epsilon of at least 0"),
        ({"epsilon": math.nan}, "finite"),
        ({"epsilon": math.inf}, "finite"),
        ({"epsilon": "1"}, "number"),
        ({"delta": 1}, "below 1"),
        ({"delta": -0.1}, "at least 0"),
        ({"draws": 999}, "from 1,000 to"),
        ({"draws": 1000.5}, "whole number"),
        ({"confidence": 1}, "between 0 and 1"),
        ({"confidence": 0}, "between 0 and 1"),
        ({"confidence": 1 - Fraction(1, 10**17)}, "at most 1 - 10"),
        ({"mechanism": 3}, "called as mechanism"),
        ({"mechanism": lambda _, n: np.zeros(n + 1)}, "asked for 1,000"),
        ({"mechanism": lambda _, __: np.zeros(())}, "asked for 1,000"),
        ({"mechanism": lambda _, __: 3}, "array or a list; got int"),
        ({"mechanism": lambda _, n: [{}] * n}, "hashed"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(options: dict[str, Any], message: str) -> None:
    arguments = {"mechanism": build_geometric(1), "epsilon": 1, "draws": 1000} | options
    with pytest.raises(InvalidInput, match=message):
        audit_mechanism(D=0, D2=1, **arguments)


def test_no_pair_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one pair"):
        audit_worst(build_geometric(1), [], 1)


# --- the worst pair, and what is told


def test_what_was_not_told_apart_is_said_so() -> None:
    audit = audit_mechanism(lambda _, n: np.zeros(n), 0, 1, 1, draws=1000)
    message = (
        "No violation found with 1,000 draws at 99.9 %; the two data sets were not told apart, so this audit says "
    )
    assert audit.sentence() == f"{message}little."


def test_a_bound_has_as_many_digits_as_it_takes() -> None:
    """1.0004 is above 1, and 1.000 is not; a bound that is not above the claim has four."""
    audit = replace(audit_mechanism(build_geometric(1), 0, 1, 1, draws=1000), lower_bound=1.0004)
    assert "epsilon is at least 1.0004 at" in audit.sentence()
    assert replace(audit, lower_bound=1 + 2**-52).format_bound() == "1.0000000000000002"
    assert replace(audit, lower_bound=1.25999, epsilon=Fraction(1)).format_bound() == "1.259"
    assert replace(audit, lower_bound=0.98765).format_bound() == "0.9876"


def test_the_worst_of_many_pairs_is_audited() -> None:
    """A mechanism that leaks on one pair of twenty; the draws that look for it are not those that test."""
    counted: list[int] = []
    generator = build_generator(5)

    def sample_output(data: int, n: int) -> object:
        counted.append(n)
        return generator.integers(0, 5, n) + 3 * (data == 13)

    pairs = [(place, place + 100) for place in range(20)]
    audit = audit_worst(sample_output, pairs, 1, draws=20_000)
    assert audit.lower_bound > 3
    assert counted == [400] * 40 + [20_000] * 2
    assert not audit_worst(sample_output, pairs[:13], 1, draws=20_000).violated


def test_progress_is_told_in_stages() -> None:
    stages: list[str] = []
    audit_worst(build_geometric(1), [(0, 1), (1, 2)], 1, draws=1000, progress=stages.append)
    assert stages[0] == "looking at pairs: 0 of 2"
    assert stages[-1] == "testing it: 3 of 4"


def test_an_audit_is_told_to_machines() -> None:
    audit = audit_mechanism(build_geometric(1), 0, 1, Fraction(1, 3), delta=0.001, draws=5000)
    document = audit.to_json()
    assert (document["epsilon"], document["delta"], document["draws"], document["confidence"]) == (
        "1/3",
        "1/1000",
        5000,
        "999/1000",
    )
    assert document["violated"] is True
    assert document["sentence"] == audit.sentence()
    assert document["event"]["count"] == audit.event.count
    assert "seen" not in repr(audit)


@pytest.mark.parametrize("suffix", ["svg", "png", "html"])
def test_a_picture_shows_both_distributions_and_the_event(tmp_path: Path, suffix: str) -> None:
    audit = audit_mechanism(build_geometric(2), 0, 1, 1, draws=5000)
    path = audit.picture(tmp_path / f"audit.{suffix}")
    assert path.stat().st_size > 1000
    if suffix == "svg":
        picture = path.read_text()
        assert audit.event.words in picture
        assert "D2" in picture
        assert 'stroke-dasharray="6,4"' in picture


def test_the_event_is_shaded_where_it_is() -> None:
    from discreet.verification.audit.audit import build_audit_picture

    generator = build_generator(2)
    audit = audit_mechanism(lambda data, n: generator.integers(0, 4, n) + 4 * data, 0, 1, 1, draws=4000)
    shade, lines = build_audit_picture(audit)["layer"]
    assert audit.event.words == "the answer is below 4"
    assert shade["data"]["values"] == [{"from": -0.5, "to": 3.5}]
    shares = {row["data"]: 0.0 for row in lines["data"]["values"]}
    for row in lines["data"]["values"]:
        shares[row["data"]] += row["share"]
    assert shares == pytest.approx({"D": 1, "D2": 1})


@pytest.mark.parametrize(
    "mechanism",
    [
        lambda data, n: [("a", "b")[(index + data) % 3 == 0] for index in range(n)],
        lambda _, n: np.full(n, math.nan),
        lambda _, n: np.full(n, 2.5),
        lambda data, n: np.full(n, 1e300 * (data + 1)),
    ],
)
def test_whatever_comes_out_has_a_picture(mechanism: Mechanism, tmp_path: Path) -> None:
    """Labels as bars; one value, none that is finite, and huge ones along a line all the same."""
    audit: Audit = audit_mechanism(mechanism, 0, 1, 1, draws=1000)
    assert audit.picture(tmp_path / "audit.svg").stat().st_size > 500
