"""The law of a weighted sum of discrete Laplace noises, of any number and weights, by its Fourier transform."""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.inference.laws import LOG_CUTOFF
from discreet.inference.line import SummedNoise
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.kernel.noise import IndependentNoises

RealArray = NDArray[np.float64]
NoiseParts = tuple[tuple[float, float, int], ...]
"""Rates and weights of noises, and how often each."""
TABLE_PLACES = 2**15
MAX_DEVIATIONS, MAX_STEPS = 54.0, 8.0
"""The law is tabulated to so many of its deviations, and of its longest steps, from 0."""
MAX_RATE = 300.0
"""A noise of a larger rate is never anything but 0."""
BLUR_PLACES, BLUR_DEVIATIONS = 1.5, 4.0
"""It is blurred by a normal number of so many places, which stays within so many of its deviations."""


def tabulate_laplace_sum(noise: IndependentNoises, weights: tuple[float, ...]) -> SummedNoise:
    """The noise of the sum, for inference on a line."""
    gap, beyond = _tabulate_distribution(_group_parts(noise, weights))
    sd = math.sqrt(
        sum(weight**2 * component.variance() for component, weight in zip(noise.noises, weights, strict=True))
    )
    distances = sd * np.sinh(np.linspace(0, math.asinh(LOG_CUTOFF), 160)) / 1.5
    return SummedNoise(sd, distances, np.interp(distances / gap, np.arange(TABLE_PLACES), beyond))


def compute_sum_half_width(noise: IndependentNoises, weights: tuple[float, ...], confidence: float) -> float:
    """A distance, to four digits and hardly more than the least, that the sum stays within with this probability."""
    return compute_parts_half_width(_group_parts(noise, weights), confidence)


def compute_parts_half_width(parts: NoiseParts, confidence: float) -> float:
    """The same, of as many noises as there are of each rate and weight."""
    gap, beyond = _tabulate_distribution(parts)
    outside = np.flatnonzero(beyond > 1 - confidence)  # near 0 the blurred law swings by 2e-7, and may dip
    place = int(outside[-1]) + 1 if len(outside) else 0
    half_width = (place + BLUR_PLACES * BLUR_DEVIATIONS) * gap
    digit = 10.0 ** (math.floor(math.log10(half_width)) - 3)
    return math.ceil(half_width / digit) * digit


def _group_parts(noise: IndependentNoises, weights: tuple[float, ...]) -> NoiseParts:
    """The rates and weights there are, and how often each."""
    rates = [
        float(component.rate) if isinstance(component, DiscreteLaplace) else math.nan for component in noise.noises
    ]
    pairs = Counter((rate, abs(weight)) for rate, weight in zip(rates, weights, strict=True) if weight)
    return tuple((rate, weight, count) for (rate, weight), count in sorted(pairs.items()))


@lru_cache(maxsize=64)
def _tabulate_distribution(parts: NoiseParts) -> tuple[float, RealArray]:
    """The gap between places, and P(|blurred sum| > place) at each.

    E exp(i t w N) = 1 / (1 + (sin(t w / 2) / sinh(rate / 2))^2): exact, whatever rate and weight.
    """
    halves = [math.sinh(min(rate / 2, MAX_RATE)) for rate, _, _ in parts]
    parts_and_halves = zip(parts, halves, strict=True)
    sd = math.sqrt(sum(count * weight**2 / (2 * half**2) for (_, weight, count), half in parts_and_halves))
    gap = (MAX_DEVIATIONS * sd + MAX_STEPS * max(weight for _, weight, _ in parts)) / TABLE_PLACES
    places = np.arange(TABLE_PLACES + 1) * math.pi / TABLE_PLACES
    transform = np.exp(-((BLUR_PLACES * places) ** 2) / 2)
    for (_, weight, count), half in zip(parts, halves, strict=True):
        transform *= np.exp(-count * np.log1p((np.sin(places * weight / gap / 2) / half) ** 2))
    mass = np.fft.irfft(transform)[:TABLE_PLACES]
    return gap, np.append(2 * np.cumsum(mass[:0:-1])[::-1], 0.0)
