"""The law of a weighted sum of discrete Laplace noises, of any number and weights, by its Fourier transform."""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.inference.laws import FARTHEST
from discreet.inference.line import Combined
from discreet.kernel.discrete_laplace import DiscreteLaplace
from discreet.kernel.noise import Independent

Array = NDArray[np.float64]
Parts = tuple[tuple[float, float, int], ...]
"""Rates and weights of noises, and how often each."""
PLACES = 2**15
FAR, STEPS = 54.0, 8.0
"""The law is tabulated to so many of its deviations, and of its longest steps, from 0."""
LARGEST = 300.0
"""A noise of a larger rate is never anything but 0."""
BLUR, WITHIN = 1.5, 4.0
"""It is blurred by a normal number of so many places, which stays within so many of its deviations."""


def combined(noise: Independent, weights: tuple[float, ...]) -> Combined:
    """The noise of the sum, for inference on a line."""
    gap, beyond = _law(_parts(noise, weights))
    sd = math.sqrt(sum(weight**2 * one.variance() for one, weight in zip(noise.noises, weights, strict=True)))
    at = sd * np.sinh(np.linspace(0, math.asinh(FARTHEST), 160)) / 1.5
    return Combined(sd, at, np.interp(at / gap, np.arange(PLACES), beyond))


def reach(noise: Independent, weights: tuple[float, ...], confidence: float) -> float:
    """A distance, to four digits and hardly more than the least, that the sum stays within with this probability."""
    return reach_of_parts(_parts(noise, weights), confidence)


def reach_of_parts(parts: Parts, confidence: float) -> float:
    """The same, of as many noises as there are of each rate and weight."""
    gap, beyond = _law(parts)
    outside = np.flatnonzero(beyond > 1 - confidence)  # near 0 the blurred law swings by 2e-7, and may dip
    place = int(outside[-1]) + 1 if len(outside) else 0
    off = (place + BLUR * WITHIN) * gap
    digit = 10.0 ** (math.floor(math.log10(off)) - 3)
    return math.ceil(off / digit) * digit


def _parts(noise: Independent, weights: tuple[float, ...]) -> Parts:
    """The rates and weights there are, and how often each."""
    rates = [float(one.rate) if isinstance(one, DiscreteLaplace) else math.nan for one in noise.noises]
    pairs = Counter((rate, abs(weight)) for rate, weight in zip(rates, weights, strict=True) if weight)
    return tuple((rate, weight, count) for (rate, weight), count in sorted(pairs.items()))


@lru_cache(maxsize=64)
def _law(parts: Parts) -> tuple[float, Array]:
    """The gap between places, and P(|blurred sum| > place) at each.

    E exp(i t w N) = 1 / (1 + (sin(t w / 2) / sinh(rate / 2))^2): exact, whatever rate and weight.
    """
    halves = [math.sinh(min(rate / 2, LARGEST)) for rate, _, _ in parts]
    own = zip(parts, halves, strict=True)
    sd = math.sqrt(sum(count * weight**2 / (2 * half**2) for (_, weight, count), half in own))
    gap = (FAR * sd + STEPS * max(weight for _, weight, _ in parts)) / PLACES
    places = np.arange(PLACES + 1) * math.pi / PLACES
    transform = np.exp(-((BLUR * places) ** 2) / 2)
    for (_, weight, count), half in zip(parts, halves, strict=True):
        transform *= np.exp(-count * np.log1p((np.sin(places * weight / gap / 2) / half) ** 2))
    mass = np.fft.irfft(transform)[:PLACES]
    return gap, np.append(2 * np.cumsum(mass[:0:-1])[::-1], 0.0)
