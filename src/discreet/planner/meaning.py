"""What noisy totals mean: how far off they will be, intervals, and the posterior of someone who held a prior.

Post-processing and public facts alone. A mean of a private number of rows is told for about so many rows beforehand;
afterwards the number of rows is summed out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet.inference import line, sums
from discreet.inference.belief import Belief
from discreet.inference.laws import deviation
from discreet.inference.line import Combined, LineNoise, Rounded, Spread
from discreet.inference.mean import Ratio, Squares
from discreet.kernel.noise import Independent, Noise
from discreet.planner.estimates import Linear, MeanFromCentre, MeanOfPair, Variance, Weighted
from discreet.planner.noisy import Noisy
from discreet.posterior import Posterior

Array = NDArray[np.float64]
SHARES = (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)


@dataclass(frozen=True, eq=False)
class Meaning:
    """A noisy measurement, about how many rows it is of, and at most how many there can be."""

    noisy: Noisy
    rows: float
    most: float = math.inf

    @cached_property
    def ratio(self) -> Ratio | None:
        """For a mean of a private number of rows."""
        estimate = self.noisy.form.estimate
        if not isinstance(estimate, MeanOfPair | MeanFromCentre):
            return None
        low, high = (float(end * estimate.step) for end in (estimate.lower, estimate.upper))
        width = float(max(estimate.upper - estimate.lower, 1))
        slopes = _pair_slopes(width) if isinstance(estimate, MeanOfPair) else _centre_slopes(width / estimate.grain)
        return Ratio(self.noisy.noise, low, high, slopes)

    @cached_property
    def squares(self) -> Squares | None:
        """For a variance."""
        estimate = self.noisy.form.estimate
        if not isinstance(estimate, Variance):
            return None
        known = None if estimate.rows is None else float(estimate.rows)
        return Squares(self.noisy.noise, float(max(estimate.width, 1)), float(estimate.step), known, estimate.root)

    def expected_error(self, belief: Belief | None) -> float:
        """The root mean square error of the refined value, or without a prior of the raw one."""
        if belief is None and isinstance(self.noisy.form.estimate, Weighted):
            return deviation(self.noisy.noise, self._weights)
        if self.ratio is not None:
            if belief is not None:
                return line.expected_error(belief, self.ratio.line(self.ratio.share(belief.mean), self.rows))
            errors = [self.ratio.sd(share, self.rows) for share in SHARES]
            return min(math.sqrt(sum(error**2 for error in errors) / len(errors)), self.ratio.width)
        return math.hypot(line.expected_error(belief, self.line(belief.mean if belief else None)), self._rounding)

    def line(self, about: float | None = None, rows: float | None = None) -> LineNoise:
        """How far the answer falls from the truth; of a mean or variance, near a value and for so many rows."""
        estimate = self.noisy.form.estimate
        if isinstance(estimate, Linear):
            return Spread(cast(Noise, self.noisy.single), abs(float(estimate.slope)))
        if isinstance(estimate, Weighted):
            if self._alone is not None:
                return Spread(*self._alone)
            return sums.combined(cast(Independent, self.noisy.noise), self._weights)
        if self.ratio is not None:
            share = 0.5 if about is None else self.ratio.share(about)
            return self.ratio.line(share, self.rows if rows is None else rows)
        return Combined.of(self.noisy.noise, self._variance_weights(about, rows))

    @property
    def _rounding(self) -> float:
        """The standard deviation of rounding to bins, whose values are taken to be even."""
        estimate = self.noisy.form.estimate
        return float(estimate.blur) / math.sqrt(3) if isinstance(estimate, Linear) else 0.0

    @property
    def _weights(self) -> tuple[float, ...]:
        """Of the totals in a weighted sum."""
        return tuple(map(float, cast(Weighted, self.noisy.form.estimate).weights))

    @property
    def _alone(self) -> tuple[Noise, float] | None:
        """The one noise in a weighted sum, and its weight, where it is one."""
        pairs = zip(cast(Independent, self.noisy.noise).noises, self._weights, strict=True)
        used = [(noise, abs(weight)) for noise, weight in pairs if weight]
        return used[0] if len(used) == 1 else None

    def _variance_weights(self, about: float | None, rows: float | None) -> tuple[float, ...]:
        """What each total adds to the answer, to first order, where the mean is near the middle."""
        own = cast(Squares, self.squares)
        count = own.rows or max(rows or self.rows, 2.0)
        spread = own.width**2 / 3 if about is None else float(own.spread(np.array([about]))[0])
        scale = own.unit**2 / 4 / count
        if own.root:
            scale /= max(2 * math.sqrt(spread) * own.unit / 2, 1e-12)
        weights = (scale * (own.width**2 / 2 - spread), 0.0, scale / 2)
        return weights[1:] if own.rows is not None else weights

    @property
    def depends_on_rows(self) -> bool:
        """Whether how far off it may be depends on how many rows are selected, and that number is not public."""
        return self.ratio is not None or (self.squares is not None and self.squares.rows is None)

    def reach(self, confidence: float, rows: float | None = None) -> float:
        """How far off the answer may be with this probability; of a mean, where at least so many rows have a value."""
        estimate = self.noisy.form.estimate
        if isinstance(estimate, Linear):
            off = float(cast(Noise, self.noisy.single).interval(confidence)[1]) * abs(float(estimate.slope))
            return off + float(estimate.blur)
        if isinstance(estimate, Weighted):
            if self._alone is not None:
                noise, weight = self._alone
                return noise.interval(confidence)[1] * weight
            off = sums.reach(cast(Independent, self.noisy.noise), self._weights, confidence)
            whole = all(one.denominator == 1 for one in estimate.weights)
            return float(math.floor(off)) if whole else off
        told = self.ratio or cast(Squares, self.squares)
        return told.error_bound(confidence, self.rows if rows is None else rows)

    def interval_bound(self, confidence: float) -> float:
        """Bound the distance from the answer to either end of its interval; of a mean it holds but once in a million.

        Half the interval is no longer than that.
        """
        if self.ratio is not None:
            return self.ratio.interval_bound(confidence, self.rows)
        if self.squares is not None:
            return self.squares.interval_bound([float(off) for off in self._reach_once(confidence)], self.rows)
        return self.reach(confidence)

    def interval(self, released: Sequence[int], confidence: float) -> tuple[float, float]:
        """Where the exact number lies with at least this probability."""
        if self.ratio is not None:
            return self.ratio.interval(released, confidence)
        off = self._reach_once(confidence)
        if isinstance(self.noisy.form.estimate, Weighted):
            middle = float(self.noisy.value(released))
            return middle - float(off[0]), middle + float(off[0])
        low, high = self.noisy.span_within(released, off)
        return float(low), float(high)

    @cached_property
    def _reaches(self) -> dict[float, list[Fraction]]:
        return {}

    def _reach_once(self, confidence: float) -> list[Fraction]:
        """How far the noises go, or of a weighted sum how far it goes: the same in every cell, so worked out once."""
        if confidence not in self._reaches:
            summed = isinstance(self.noisy.form.estimate, Weighted)
            own = [Fraction(self.reach(confidence))] if summed else self.noisy.reach(confidence)
            self._reaches[confidence] = own
        return self._reaches[confidence]

    def raw(self, released: Sequence[int], belief: Belief | None) -> Fraction:
        """The number asked for; where nearly nothing was counted, the prior mean or the middle of the bounds."""
        if self.ratio is not None and belief is not None and self._rows(released) < 1:
            return Fraction(belief.mean)
        return self.noisy.value(released)

    def _rows(self, released: Sequence[int]) -> float:
        """The noisy number of rows."""
        estimate = self.noisy.form.estimate
        if isinstance(estimate, MeanOfPair):
            return sum(max(total, 0) for total in released) / max(estimate.upper - estimate.lower, 1)
        return float(released[1] if isinstance(estimate, MeanFromCentre) else released[0])

    def posterior(self, belief: Belief, released: Sequence[int]) -> Posterior:
        """What is known after the answer."""
        if self.ratio is not None:
            return self.ratio.posterior(belief, released, self.most)
        if self.squares is not None:
            return self.squares.posterior(belief, released, float(self.noisy.value(released)), self.most)
        return line.posterior(belief, self._rounded(self.line()), self._unclipped(released))

    def _rounded(self, noise: LineNoise) -> LineNoise:
        """With the rounding to bins, where values are told by the middle of theirs."""
        estimate = self.noisy.form.estimate
        blur = float(estimate.blur) if isinstance(estimate, Linear) else 0.0
        return Rounded(noise, blur) if blur and isinstance(noise, Spread) else noise

    def _unclipped(self, released: Sequence[int]) -> float:
        """A total as it was drawn, also beyond what is possible: that tells something too."""
        estimate = self.noisy.form.estimate
        if not isinstance(estimate, Linear):
            return float(self.noisy.value(released))
        return float(estimate.slope * released[0] + estimate.offset)

    def around(self, released: Sequence[int]) -> Posterior:
        """The noise law about the raw answer."""
        raw, noise = self._told(released)
        return line.around(noise, raw, noise.unit)

    def surprise(self, belief: Belief, released: Sequence[int]) -> float:
        """The chance of an answer at least as far out, for someone whose prior is right."""
        raw, noise = self._told(released)
        return line.surprise(belief, noise, raw)

    def _told(self, released: Sequence[int]) -> tuple[float, LineNoise]:
        """The raw answer, and how far it falls from the truth for as many rows as were told."""
        if isinstance(self.noisy.form.estimate, Linear | Weighted):
            return self._unclipped(released), self.line()
        raw = float(self.noisy.value(released))
        return raw, self.line(raw, max(self._rows(released), 1.0))


def _pair_slopes(width: float) -> Callable[[Array], tuple[Array, Array]]:
    return lambda share: (share * width, (1 - share) * width)


def _centre_slopes(width: float) -> Callable[[Array], tuple[Array, Array]]:
    return lambda share: ((2 * share - 1) * width, np.ones(len(share)))
