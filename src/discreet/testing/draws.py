"""Scripted entropy, and a noise test with two jaws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from discreet.errors import InvalidInput
from discreet.formatting import format_number

FALSE_ALARM_RATE = 1e-9
"""How often a correct sampler may be accused."""

MIN_SAMPLES = 1000
"""With fewer, a scale 10 % off and the right one look alike."""


class ScriptedEntropy:
    """Entropy that says what it is told, so that a test can assert the exact output."""

    def __init__(self, script: bytes) -> None:
        if not isinstance(script, bytes):
            raise InvalidInput(f"the script must be bytes such as b'abc', got {type(script).__name__}")
        self._script = script
        self.taken = 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes of the script; a script that is too short is a mistake in the test."""
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
    """The draws fit `law`, and both jaws close: they fit neither the smaller nor the larger one as well.

    Draws and laws are both in grid units: draw with `draw_units`, or with a noise of step 1. Each law gives the
    probability of a grid point. A law with a slightly smaller (larger) scale must explain the draws clearly worse, and
    the counts must pass a chi-square test against the claimed law. At least 1,000 draws are needed; some 100,000 tell
    scales 10 % apart for certain.
    """
    counts = Counter(int(sample) for sample in samples)
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
    """How far chi-square is above the value that a correct sampler exceeds once in 1 / FALSE_ALARM."""
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
    return statistic - _compute_chi_square_limit(max(cells - 1, 1))


def _sort_by_probability(counts: Mapping[int, int], distribution: Callable[[int], float]) -> list[int]:
    """Every grid point between the draws' ends, likeliest first, not only those that were drawn."""
    low, high = min(counts), max(counts)
    points = range(low, high + 1) if high - low < 100_000 else sorted(counts)
    return sorted(points, key=distribution, reverse=True)


def _compute_chi_square_limit(freedom: int) -> float:
    """An upper bound on the quantile: Laurent and Massart 2000, P(X > d + 2 sqrt(d x) + 2 x) <= e^-x."""
    x = -math.log(FALSE_ALARM_RATE)
    return freedom + 2 * math.sqrt(freedom * x) + 2 * x


def _log_or_floor(probability: float) -> float:
    return math.log(probability) if probability > 0 else -1e6
