"""One number known up to noise of a public law: the posterior, how surprising it is, and how good it will be.

Everything is in units of the answer: a noise drawn in grid units enters with the size of a unit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.inference.belief import COARSE_RESOLUTION, GridPrior
from discreet.inference.laws import (
    LOG_CUTOFF,
    VectorNoise,
    compute_log_probability,
    compute_sum_deviation,
    compute_sum_tail,
    compute_upper_tail,
)
from discreet.kernel.noise import Noise
from discreet.posterior import Posterior

FloatArray = NDArray[np.float64]
PLACES_PER_DEVIATION = 6
MIN_PROBABILITY = 1e-250
MAX_PLACES = 500
"""So many places of an answer are weighed to say how good it will be; where more would be needed the prior is so wide
that it says nearly nothing."""


@dataclass(frozen=True, slots=True)
class ScaledNoise:
    """How far an answer falls from the truth: a noise of whole grid units, `unit` apart in units of the answer."""

    noise: Noise
    unit: float

    @property
    def sd(self) -> float:
        """Its standard deviation."""
        return math.sqrt(self.noise.variance()) / float(self.noise.step) * self.unit

    def compute_log_probability(self, distances: FloatArray) -> FloatArray:
        """How likely a distance is, but for a constant."""
        return compute_log_probability(self.noise, distances / self.unit)

    def compute_upper_tail(self, distances: FloatArray) -> FloatArray:
        """The chance of at least this distance, upwards."""
        return compute_upper_tail(self.noise, np.round(distances / self.unit))


@dataclass(frozen=True, slots=True)
class SummedNoise:
    """The same for a weighted sum of several noises, tabulated."""

    sd: float
    distances: FloatArray
    tail_probabilities: FloatArray

    @staticmethod
    def of(noise: VectorNoise, weights: tuple[float, ...]) -> SummedNoise:
        """From its tail."""
        sd = compute_sum_deviation(noise, weights)
        distances = sd * np.sinh(np.linspace(0, math.asinh(LOG_CUTOFF), 160)) / 1.5
        return SummedNoise(sd, distances, compute_sum_tail(noise, weights, distances))

    @property
    def unit(self) -> float:
        """It is smooth: places as near as one likes."""
        return 0.0

    def compute_log_probability(self, offsets: FloatArray) -> FloatArray:
        density = np.maximum(-np.diff(self.tail_probabilities), 1e-300) / np.diff(self.distances)
        middle = (self.distances[1:] + self.distances[:-1]) / 2
        logs = np.interp(np.abs(offsets), middle, np.log(density))
        return np.where(np.abs(offsets) > middle[-1], -600 - np.abs(offsets) / self.sd, logs)

    def compute_upper_tail(self, offsets: FloatArray) -> FloatArray:
        half = np.interp(np.abs(offsets), self.distances, self.tail_probabilities, right=0.0) / 2
        return np.where(offsets >= 0, half, 1 - half)


@dataclass(frozen=True, slots=True)
class RoundedNoise:
    """The same for a noise and a rounding to bins, of at most `blur` and taken to be even, in units of the answer."""

    noise: ScaledNoise
    blur: float

    @property
    def sd(self) -> float:
        """Of both together."""
        return math.hypot(self.noise.sd, self.blur / math.sqrt(3))

    @property
    def unit(self) -> float:
        """Of the noise."""
        return self.noise.unit

    def compute_log_probability(self, distances: FloatArray) -> FloatArray:
        far = np.abs(distances)
        probability = self.noise.compute_upper_tail(far - self.blur) - self.noise.compute_upper_tail(
            far + self.blur + self.unit
        )
        return np.where(
            probability > MIN_PROBABILITY, np.log(np.maximum(probability, MIN_PROBABILITY)), -600 - far / self.sd
        )

    def compute_upper_tail(self, distances: FloatArray) -> FloatArray:
        return (
            self.noise.compute_upper_tail(distances - self.blur) + self.noise.compute_upper_tail(distances + self.blur)
        ) / 2


AnswerNoise = ScaledNoise | SummedNoise | RoundedNoise


def update_grid_prior(prior: GridPrior, noise: AnswerNoise, raw: float) -> Posterior:
    """What someone who held the belief knows after the raw answer."""
    cells = prior.build_cells([(raw, noise.sd)])
    return cells.posterior(noise.compute_log_probability(raw - cells.values))


def build_flat_posterior(noise: AnswerNoise, raw: float, unit: float) -> Posterior:
    """The noise law about the raw answer: what it says by itself, all values being alike."""
    offsets = max(noise.sd, unit) * np.sinh(np.linspace(0, math.asinh(20), 200))
    step = max(unit, noise.sd * 1e-6)
    edges = np.unique(np.round(np.concatenate((-offsets, offsets)) / step)) * step
    places = np.concatenate((edges - step / 2, [edges[-1] + step / 2]))
    values = (places[1:] + places[:-1]) / 2
    weight = np.exp(noise.compute_log_probability(values)) * np.diff(places)
    return Posterior(weight / weight.sum(), raw + places)


def compute_surprise(prior: GridPrior, noise: AnswerNoise, raw: float) -> float:
    """The chance, for someone whose stated prior is right, of a raw answer at least as far out on its side."""
    cells = prior.build_cells([(raw, noise.sd)])
    above = float(cells.stated @ noise.compute_upper_tail(raw - cells.values))
    below = float(cells.stated @ noise.compute_upper_tail(cells.values - raw))
    return min(above, below)


def estimate_posterior_error(prior: GridPrior | None, noise: AnswerNoise) -> float:
    """The root mean square error of the posterior mean for someone whose stated prior is right.

    Without a prior it is that of the raw answer.
    """
    if prior is None or not noise.sd:
        return noise.sd
    places = _list_answer_places(prior, noise)
    if places is None:
        return noise.sd
    mean, sd = prior.moments
    gap = max(min(noise.sd, max(sd, noise.sd / 40)) / 5, prior.step)
    cells = prior.build_cells([], COARSE_RESOLUTION, np.arange(mean - 8 * sd, mean + 8 * sd + gap, gap))
    chance = np.exp(noise.compute_log_probability(places[None, :] - cells.values[:, None]))
    evidence = cells.used @ chance
    guess = np.divide(
        (cells.used * cells.values) @ chance, evidence, out=np.full(len(places), mean), where=evidence > 0
    )
    rows = chance.sum(axis=1)
    square = ((guess[None, :] - cells.values[:, None]) ** 2 * chance).sum(axis=1)
    is_covered = rows > 0.5 * rows.max()
    weight = np.where(is_covered, cells.stated, 0.0)
    error = np.divide(square, rows, out=np.zeros(len(rows)), where=is_covered)
    return math.sqrt(float(weight @ error) / float(weight.sum()))


def _list_answer_places(prior: GridPrior, noise: AnswerNoise) -> FloatArray | None:
    """Where an answer may fall if the prior is right, near enough to show the noise; None where that is too many."""
    stated = prior.build_cells().get_stated_distribution()
    low, high = stated.quantile(2e-4) - 12 * noise.sd, stated.quantile(1 - 2e-4) + 12 * noise.sd
    gap = noise.sd / PLACES_PER_DEVIATION
    if noise.unit:
        gap = max(round(gap / noise.unit), 1) * noise.unit
    count = math.ceil((high - low) / gap)
    if count > MAX_PLACES:
        return None
    origin = round(low / noise.unit) * noise.unit if noise.unit else low
    return origin + gap * np.arange(count + 1, dtype=np.float64)
