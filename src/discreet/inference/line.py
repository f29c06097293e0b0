"""One number known up to noise of a public law: the posterior, how surprising it is, and how good it will be.

Everything is in units of the answer: a noise drawn in grid units enters with the size of a unit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.inference.belief import COARSE, Belief
from discreet.inference.laws import FARTHEST, Vector, deviation, log_chance, tail, upper
from discreet.kernel.noise import Noise
from discreet.posterior import Posterior

Array = NDArray[np.float64]
PER_DEVIATION = 6
LEAST_HELD = 1e-250
MOST_PLACES = 500
"""So many places of an answer are weighed to say how good it will be; where more would be needed the prior is so wide
that it says nearly nothing."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How far an answer falls from the truth: a noise of whole grid units, `unit` apart in units of the answer."""

    noise: Noise
    unit: float

    @property
    def sd(self) -> float:
        """Its standard deviation."""
        return math.sqrt(self.noise.variance()) / float(self.noise.step) * self.unit

    def log_chance(self, away: Array) -> Array:
        """How likely a distance is, but for a constant."""
        return log_chance(self.noise, away / self.unit)

    def above(self, away: Array) -> Array:
        """The chance of at least this distance, upwards."""
        return upper(self.noise, np.round(away / self.unit))


@dataclass(frozen=True, slots=True)
class Combined:
    """The same for a weighted sum of several noises, tabulated."""

    sd: float
    at: Array
    beyond: Array

    @staticmethod
    def of(noise: Vector, weights: tuple[float, ...]) -> Combined:
        """From its tail."""
        sd = deviation(noise, weights)
        at = sd * np.sinh(np.linspace(0, math.asinh(FARTHEST), 160)) / 1.5
        return Combined(sd, at, tail(noise, weights, at))

    @property
    def unit(self) -> float:
        """It is smooth: places as near as one likes."""
        return 0.0

    def log_chance(self, away: Array) -> Array:
        density = np.maximum(-np.diff(self.beyond), 1e-300) / np.diff(self.at)
        middle = (self.at[1:] + self.at[:-1]) / 2
        logs = np.interp(np.abs(away), middle, np.log(density))
        return np.where(np.abs(away) > middle[-1], -600 - np.abs(away) / self.sd, logs)

    def above(self, away: Array) -> Array:
        half = np.interp(np.abs(away), self.at, self.beyond, right=0.0) / 2
        return np.where(away >= 0, half, 1 - half)


@dataclass(frozen=True, slots=True)
class Rounded:
    """The same for a noise and a rounding to bins, of at most `blur` and taken to be even, in units of the answer."""

    noise: Spread
    blur: float

    @property
    def sd(self) -> float:
        """Of both together."""
        return math.hypot(self.noise.sd, self.blur / math.sqrt(3))

    @property
    def unit(self) -> float:
        """Of the noise."""
        return self.noise.unit

    def log_chance(self, away: Array) -> Array:
        far = np.abs(away)
        held = self.noise.above(far - self.blur) - self.noise.above(far + self.blur + self.unit)
        return np.where(held > LEAST_HELD, np.log(np.maximum(held, LEAST_HELD)), -600 - far / self.sd)

    def above(self, away: Array) -> Array:
        return (self.noise.above(away - self.blur) + self.noise.above(away + self.blur)) / 2


LineNoise = Spread | Combined | Rounded


def posterior(belief: Belief, noise: LineNoise, raw: float) -> Posterior:
    """What someone who held the belief knows after the raw answer."""
    cells = belief.cells([(raw, noise.sd)])
    return cells.posterior(noise.log_chance(raw - cells.values))


def around(noise: LineNoise, raw: float, unit: float) -> Posterior:
    """The noise law about the raw answer: what it says by itself, all values being alike."""
    away = max(noise.sd, unit) * np.sinh(np.linspace(0, math.asinh(20), 200))
    step = max(unit, noise.sd * 1e-6)
    edges = np.unique(np.round(np.concatenate((-away, away)) / step)) * step
    places = np.concatenate((edges - step / 2, [edges[-1] + step / 2]))
    values = (places[1:] + places[:-1]) / 2
    weight = np.exp(noise.log_chance(values)) * np.diff(places)
    return Posterior(weight / weight.sum(), raw + places)


def surprise(belief: Belief, noise: LineNoise, raw: float) -> float:
    """The chance, for someone whose stated prior is right, of a raw answer at least as far out on its side."""
    cells = belief.cells([(raw, noise.sd)])
    above = float(cells.stated @ noise.above(raw - cells.values))
    below = float(cells.stated @ noise.above(cells.values - raw))
    return min(above, below)


def expected_error(belief: Belief | None, noise: LineNoise) -> float:
    """The root mean square error of the posterior mean for someone whose stated prior is right.

    Without a prior it is that of the raw answer.
    """
    if belief is None or not noise.sd:
        return noise.sd
    places = _places(belief, noise)
    if places is None:
        return noise.sd
    mean, sd = belief.moments
    gap = max(min(noise.sd, max(sd, noise.sd / 40)) / 5, belief.step)
    cells = belief.cells([], COARSE, np.arange(mean - 8 * sd, mean + 8 * sd + gap, gap))
    chance = np.exp(noise.log_chance(places[None, :] - cells.values[:, None]))
    held = cells.used @ chance
    guess = np.divide((cells.used * cells.values) @ chance, held, out=np.full(len(places), mean), where=held > 0)
    rows = chance.sum(axis=1)
    square = ((guess[None, :] - cells.values[:, None]) ** 2 * chance).sum(axis=1)
    right = rows > 0.5 * rows.max()
    weight = np.where(right, cells.stated, 0.0)
    error = np.divide(square, rows, out=np.zeros(len(rows)), where=right)
    return math.sqrt(float(weight @ error) / float(weight.sum()))


def _places(belief: Belief, noise: LineNoise) -> Array | None:
    """Where an answer may fall if the prior is right, near enough to show the noise; None where that is too many."""
    before = belief.cells().before()
    low, high = before.quantile(2e-4) - 12 * noise.sd, before.quantile(1 - 2e-4) + 12 * noise.sd
    gap = noise.sd / PER_DEVIATION
    if noise.unit:
        gap = max(round(gap / noise.unit), 1) * noise.unit
    count = math.ceil((high - low) / gap)
    if count > MOST_PLACES:
        return None
    origin = round(low / noise.unit) * noise.unit if noise.unit else low
    return origin + gap * np.arange(count + 1, dtype=np.float64)
