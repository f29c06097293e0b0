"""Exact samplers: their laws are computed, not only observed."""

from __future__ import annotations

import math
import os
from collections import Counter
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import SYSTEM, get_entropy, sample_bits
from discreet.mechanisms.samplers import (
    Chance,
    Geometric,
    build_exponential_chance,
    build_logistic_chance,
    build_power_chance,
    build_rational_chance,
    flip_coin,
    flip_coins,
    flip_power_coins,
    sample_below,
    sample_weighted_index,
)
from discreet.verification import ScriptedEntropy, assert_fits

st_rates = st.fractions(min_value=Fraction(1, 10**6), max_value=60, max_denominator=10**6).filter(bool)


def to_mpmath(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


@given(st_rates, st.sampled_from([16, 64, 128]))
def test_chances_know_their_digits(x: Fraction, count: int) -> None:
    """A coin compares random digits with these: they must be the true ones."""
    with mpmath.workdps(80):
        wanted = {
            build_exponential_chance(x): mpmath.exp(-to_mpmath(x)),
            build_logistic_chance(x): 1 / (1 + mpmath.exp(to_mpmath(x))),
            build_logistic_chance(x, twice=True): 2 / (1 + mpmath.exp(to_mpmath(x))),
            build_rational_chance(1 / (1 + x)): 1 / (1 + to_mpmath(x)),
        }
        for chance, value in wanted.items():
            assert chance.digits(count) == int(mpmath.floor(value * mpmath.mpf(2) ** count))


@given(st.fractions(min_value=Fraction(1, 100), max_value=1), st.integers(0, 5000))
def test_powers_know_their_digits(ratio: Fraction, power: int) -> None:
    """Coins of permute-and-flip and of staircases."""
    with mpmath.workdps(60):
        value = to_mpmath(ratio) ** power
        assert build_power_chance(ratio, power).digits(32) == int(mpmath.floor(value * 2**32))


@given(st.integers(1, 40), st.integers(0, 2**32))
def test_uniform_numbers_are_the_bits_that_fit(bound: int, seed: int) -> None:
    """Every accepted value has exactly one word: the law is uniform by construction."""
    size = (bound - 1).bit_length()
    word = seed % 2**size if size else 0
    script = ((word << (8 - size) if size else 0).to_bytes(1, "big")) + bytes(8)
    assert sample_below(bound, ScriptedEntropy(script)) == (word if word < bound else 0)


def test_a_choice_follows_its_weights_exactly() -> None:
    """All 16 words of four bits: weights 3, 0, 5 of 8."""
    frequencies = Counter(sample_weighted_index([3, 0, 5], ScriptedEntropy(bytes([word << 5]))) for word in range(8))
    assert frequencies == {0: 3, 2: 5}


def test_a_coin_breaks_ties_with_further_digits() -> None:
    """Once in 2^64: the first 64 digits tie and the next decide."""
    third = build_rational_chance(Fraction(1, 3))
    first = third.digits(64).to_bytes(8, "big")
    rest = third.digits(128) % 2**64
    assert flip_coin(third, ScriptedEntropy(first + (rest - 1).to_bytes(8, "big")))
    assert not flip_coin(third, ScriptedEntropy(first + (rest + 1).to_bytes(8, "big")))


def test_vector_coins_break_ties_too() -> None:
    """16 digits tie often; the same digits decide."""
    third = build_rational_chance(Fraction(1, 3))
    word = third.digits(16).to_bytes(2, "little")
    rest = third.digits(80) % 2**64
    assert flip_coins(third, 1, ScriptedEntropy(word + (rest - 1).to_bytes(8, "big")))[0]
    assert not flip_coins(third, 1, ScriptedEntropy(word + (rest + 1).to_bytes(8, "big")))[0]
    half = Fraction(1, 2)
    tie = (2**14).to_bytes(2, "little")
    assert not flip_power_coins(half, np.array([2]), ScriptedEntropy(tie + (1).to_bytes(8, "big")))[0]
    assert flip_power_coins(half, np.array([0]), ScriptedEntropy(b"\xff\xff"))[0]


@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1), Fraction(7, 2), Fraction(50)])
def test_a_geometric_number_has_independent_digits(rate: Fraction) -> None:
    """The identity the sampler rests on, over all values of its digits: their product is (1 - q) q^k / (1 - q^m)."""
    geometric = Geometric.of(rate)
    with mpmath.workdps(60):
        q = mpmath.exp(-to_mpmath(rate))
        ones = [mpmath.mpf(chance.digits(160)) / mpmath.mpf(2) ** 160 for chance in geometric.digits]
        for value in range(min(2 ** len(ones), 512)):
            digits = [(one if value >> place & 1 else 1 - one) for place, one in enumerate(ones)]
            within = (1 - q) * q**value / (1 - q ** (2 ** len(ones)))
            assert abs(mpmath.fprod(digits) / within - 1) < mpmath.mpf(10) ** -30
        tail = mpmath.mpf(geometric.tail.digits(160)) / mpmath.mpf(2) ** 160
        assert abs(tail - q ** (2 ** len(ones))) < mpmath.mpf(2) ** -150


def test_the_tail_of_a_geometric_number_is_geometric() -> None:
    """Reached once in e^48 draws, so only a script gets there."""
    geometric = Geometric.of(Fraction(50))
    assert geometric.digits == ()
    assert geometric.sample(ScriptedEntropy(bytes(32) + b"\xff" * 8)) == 2
    assert geometric.sample_many(1, ScriptedEntropy(bytes(10) + b"\xff" * 8))[0] == 1


@pytest.mark.parametrize("rate", [Fraction(1, 20), Fraction(2)])
def test_scalar_and_vector_geometric_draws_fit(rate: Fraction) -> None:
    """Two jaws of ten per cent."""

    def build_law(scale: float):
        q = math.exp(-float(rate) / scale)
        return lambda k: (1 - q) * q**k if k >= 0 else 0.0

    geometric = Geometric.of(rate)
    assert_fits(geometric.sample_many(100_000, SYSTEM), build_law(1), build_law(0.9), build_law(1.1))
    assert_fits([geometric.sample(SYSTEM) for _ in range(20_000)], build_law(1), build_law(0.9), build_law(1.1))


def test_every_geometric_draw_takes_the_same_entropy() -> None:
    """What a draw does must not follow its size; timing is measured in the benchmarks."""

    class Counting:
        taken = 0

        def take(self, count: int) -> bytes:
            self.taken += count
            return os.urandom(count)

    geometric, sizes = Geometric.of(Fraction(1, 100)), set()
    for _ in range(500):
        entropy = Counting()
        geometric.sample(entropy)
        sizes.add(entropy.taken)
    assert len(sizes) == 1


def test_bits_come_from_the_front() -> None:
    assert sample_bits(3, ScriptedEntropy(b"\xa0")) == 5
    assert sample_bits(0, ScriptedEntropy(b"")) == 0
    assert get_entropy(None) is SYSTEM


@pytest.mark.system_entropy(generator=True)
def test_forked_workers_draw_apart() -> None:
    """Nothing is buffered, so parent and child share no bits."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, SYSTEM.take(16))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 16) != SYSTEM.take(16)
    os.close(read)
    os.close(write)


def test_impossible_draws_are_refused() -> None:
    with pytest.raises(InvalidInput):
        sample_below(0, SYSTEM)
    with pytest.raises(InvalidInput):
        build_rational_chance(Fraction(3, 2))


def test_a_chance_that_lies_on_a_digit_still_settles() -> None:
    """A dyadic probability ties forever only if the random digits do."""
    half = build_rational_chance(Fraction(1, 2))
    assert isinstance(half, Chance)
    heads = [
        flip_coin(half, ScriptedEntropy(bytes([first, 0, 0, 0, 0, 0, 0, second]) + b"\x01" * 8))
        for first, second in product((0, 127, 128, 255), (0, 1))
    ]
    assert heads == [True, True, True, True, False, False, False, False]
