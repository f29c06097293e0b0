"""Scripted entropy, and a noise test with two jaws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from discreet.errors import InvalidInput
from discreet.formatting import format_number

FALSE_ALARM = 1e-9
"""How often a correct sampler may be accused."""

FEWEST_DRAWS = 1000
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
    draws: Iterable[int],
    law: Callable[[int], float],
    smaller: Callable[[int], float],
    larger: Callable[[int], float],
) -> None:
    """The draws fit `law`, and both jaws close: they fit neither the smaller nor the larger one as well.

    Draws and laws are both in grid units: draw with `draw_units`, or with a noise of step 1. Each law gives the
    probability of a grid point. A law with a slightly smaller (larger) scale must explain the draws clearly worse, and
    the counts must pass a chi-square test against the claimed law. At least 1,000 draws are needed; some 100,000 tell
    scales 10 % apart for certain.
    """
    counts = Counter(int(draw) for draw in draws)
    if counts.total() < FEWEST_DRAWS:
        raise InvalidInput(f"a fit needs at least {FEWEST_DRAWS} draws, got {counts.total()}; draw more")
    for name, jaw in (("smaller", smaller), ("larger", larger)):
        advantage = sum(count * (_log(law(value)) - _log(jaw(value))) for value, count in counts.items())
        if advantage <= 0:
            raise AssertionError(
                f"the draws fit the {name} law at least as well as the claimed one ({format_number(advantage)})"
            )
    excess = chi_square_excess(counts, law)
    if excess > 0:
        raise AssertionError(
            f"the draws do not fit the claimed law: chi-square is {format_number(excess)} above its limit"
        )


def chi_square_excess(counts: Mapping[int, int], law: Callable[[int], float]) -> float:
    """How far chi-square is above the value that a correct sampler exceeds once in 1 / FALSE_ALARM."""
    total = sum(counts.values())
    if not total:
        raise InvalidInput("a chi-square test needs draws, got none")
    statistic, cells, inside, seen = 0.0, 0, 0.0, 0
    for value in _by_probability(counts, law):
        expected = total * law(value)
        if expected < 20:
            break
        statistic += (counts.get(value, 0) - expected) ** 2 / expected
        cells, inside, seen = cells + 1, inside + law(value), seen + counts.get(value, 0)
    rest = total * max(1 - inside, 0.0)
    if rest > 5:
        statistic, cells = statistic + (total - seen - rest) ** 2 / rest, cells + 1
    elif total - seen > rest + 60:
        return math.inf
    return statistic - _chi_square_limit(max(cells - 1, 1))


def _by_probability(counts: Mapping[int, int], law: Callable[[int], float]) -> list[int]:
    """Every grid point between the draws' ends, likeliest first, not only those that were drawn."""
    low, high = min(counts), max(counts)
    points = range(low, high + 1) if high - low < 100_000 else sorted(counts)
    return sorted(points, key=law, reverse=True)


def _chi_square_limit(freedom: int) -> float:
    """An upper bound on the quantile: Laurent and Massart 2000, P(X > d + 2 sqrt(d x) + 2 x) <= e^-x."""
    x = -math.log(FALSE_ALARM)
    return freedom + 2 * math.sqrt(freedom * x) + 2 * x


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else -1e6
