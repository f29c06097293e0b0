"""Prior knowledge refinement: a draw from the analyst's prior, moved towards the truth as far as epsilon allows.

Documents 000 and 001 chapter 5, Algorithm 1 corrected. Independent of sensitivity. Proof: refinement.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.formatting import format_lower, format_upper
from discreet.mechanisms.distribution import Distribution, RationalFactors
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.noise import MAX_READABLE
from discreet.mechanisms.refinement_risk import build_bayes_errors, find_best_share
from discreet.numeric import (
    as_int,
    as_positive,
    as_rational,
    exp_below,
    floor_to_bits,
    format_exact,
    is_hashable,
    read_clamped,
)
from discreet.priors.distance import ContinuousDistance, Distance, NominalDistance, copy_distance, parse_distance
from discreet.priors.prior import Prior, copy_prior
from discreet.privacy.guarantee import Guarantee, NeighborRelation, parse_neighbor_relation
from discreet.untrusted import CheckedValue, copy_exact_number, copy_text, require_exact_class, set_fields

RefinementSubject = Literal["statistic", "individual"]
MAX_EPSILON = Fraction(64)
"""A larger epsilon is answered with the factors of this one: more private than asked, and indistinguishable in use."""


@dataclass(frozen=True, slots=True)
class FactorProfile:
    """Factors along the prior mass, nearest first: one up to each of `mass_limits`; and a point mass at the truth."""

    mass_limits: tuple[Fraction, ...]
    step_factors: tuple[Fraction, ...]
    atom: Fraction

    def compute_average(self, start: Fraction, end: Fraction) -> Fraction:
        """The mean factor over an interval of prior mass, which is what points at one distance share."""
        total, previous_limit = Fraction(0), Fraction(0)
        for mass_limit, factor in zip(self.mass_limits, self.step_factors, strict=True):
            total += factor * max(Fraction(0), min(end, mass_limit) - max(start, previous_limit))
            previous_limit = mass_limit
        return total / (end - start)


@dataclass(frozen=True, eq=False)
class Refinement(CheckedValue):
    """Refinement mechanism: a draw from the prior, moved towards the truth as far as epsilon allows.

    Everything but the truth is public and fixed here. One answer is epsilon-DP under `neighbors`, (epsilon, delta)-DP
    if delta is above 0. Make it with `Refinement.of`, which takes plain numbers and has defaults.

    Args:
        prior: What is known before the answer: values and their weights.
        epsilon: Privacy budget of one answer, above 0.
        about: "statistic" for a number of the whole table, "individual" for one person, who may be absent.
        neighbors: The neighbor relation, "add-remove" or "replace-one".
        distance: How far two values are apart: the draw is moved towards values near the truth.
        delta: The delta of (epsilon, delta)-DP; 0 for pure DP.
        up: The factor alpha_u near the truth; None for the best one for this prior.

    Raises:
        InvalidInput: An argument is not valid, or the distance does not measure every value of the prior.

    Example:
        >>> from discreet import Prior, Refinement
        >>> mechanism = Refinement.of(Prior.normal(38, 6, lower=17, upper=90), epsilon=1)
        >>> mechanism.cost().epsilon
        Fraction(1, 1)
        >>> 17 <= mechanism.answer(41) <= 90
        True
    """

    prior: Prior
    epsilon: Fraction
    about: RefinementSubject
    neighbors: NeighborRelation
    distance: Distance
    delta: Fraction
    up: Fraction | None

    @staticmethod
    def of(
        prior: Prior,
        epsilon: object,
        about: str = "statistic",
        neighbors: str = "add-remove",
        distance: Distance | str | None = None,
        delta: object = 0,
        up: object = None,
    ) -> Refinement:
        """From plain numbers and names; numbers by their decimal text."""
        prior = require_exact_class(prior, Prior, "the prior must be a Prior, such as Prior.uniform(0, 9)")
        about = copy_text(about, "about")
        if about not in get_args(RefinementSubject):
            raise InvalidInput(f"about must be 'statistic' or 'individual', got {about!r}")
        exact_epsilon, exact_delta = as_positive(epsilon, "epsilon"), as_rational(delta, "delta")
        if isinstance(distance, Distance):
            chosen_distance = distance  # copied below
        else:
            chosen_distance = choose_default_distance(prior) if distance is None else parse_distance(distance)
        subject: RefinementSubject = "individual" if about == "individual" else "statistic"
        factor, ratio = None if up is None else as_rational(up, "up"), exp_below(min(exact_epsilon, MAX_EPSILON))
        if factor is not None and ratio < factor <= ratio * (1 + Fraction(1, 2**30)):
            factor = ratio  # above e^epsilon by rounding alone
        relation = parse_neighbor_relation(neighbors)
        return Refinement(prior, exact_epsilon, subject, relation, chosen_distance, exact_delta, factor)

    def __post_init__(self) -> None:
        """All that can be refused is refused here, from public facts; what measures the truth is copied."""
        set_fields(self, prior=copy_prior(self.prior), distance=copy_distance(self.distance))
        set_fields(self, epsilon=as_positive(self.epsilon, "epsilon"), delta=as_rational(self.delta, "delta"))
        set_fields(self, up=None if self.up is None else copy_exact_number(self.up, "up"))
        set_fields(self, neighbors=parse_neighbor_relation(self.neighbors))
        if type(self.about) is not str or self.about not in get_args(RefinementSubject):
            raise InvalidInput("about must be 'statistic' or 'individual'")
        if not 0 <= self.delta < 1:
            raise InvalidInput(f"delta must be at least 0 and below 1, got {format_exact(self.delta)}")
        if isinstance(self.distance, ContinuousDistance) and not self.prior.numeric:
            raise InvalidInput("the continuous distance is for numbers; this prior is over categories")
        if not isinstance(self.distance, ContinuousDistance) and not all(map(self.distance.knows, self.prior.support)):
            raise InvalidInput("the distance does not know every value of the prior; give it all of them")
        if self.up is not None and not 1 <= self.up <= self.ratio:
            limits = f"between 1 and e^epsilon = {format_lower(self.ratio, 6)}"
            raise InvalidInput(f"up, the factor alpha_u, must be {limits}, got {format_exact(self.up)}")
        if self.up is not None and not self.against_prior and self.up < self._min_up:
            limit = f"{format_upper(self._min_up, 6)} with delta {format_exact(self.delta)}"
            raise InvalidInput(f"up must be at least {limit}, got {format_exact(self.up)}")

    @property
    def ratio(self) -> Fraction:
        """The greatest multiple of 2^-40 certified to be at most e^epsilon."""
        return exp_below(min(self.epsilon, MAX_EPSILON))

    @property
    def against_prior(self) -> bool:
        """Whether neighbours are only ever the prior itself: one person, who may be absent."""
        return self.about == "individual" and self.neighbors == "add-remove"

    @cached_property
    def factors(self) -> tuple[Fraction, Fraction]:
        """alpha_u and alpha_d, from public facts alone."""
        ratio = self.ratio
        if self.against_prior:
            return self.up or ratio, 1 / ratio
        if self.up is not None:
            return self.up, self.up / ratio
        share = find_best_share(self.prior, self.distance, float(ratio)) if ratio > 1 else 0.5
        up = max(self._min_up, min(ratio, floor_to_bits(Fraction(float(ratio) ** share), 40)))
        return up, up / ratio

    @property
    def _statistic_atom(self) -> Fraction:
        """delta' of the statistical factors."""
        return self.delta / (1 + self.ratio)

    @property
    def _min_up(self) -> Fraction:
        """The least alpha_u that leaves room for the mass delta' takes from the farthest points."""
        return 1 + self._statistic_atom * (self.ratio - 1)

    @cached_property
    def profile(self) -> FactorProfile:
        """The factors along the prior mass around the truth; the same for every data set."""
        up, down = self.factors
        if up == down:
            return FactorProfile((Fraction(1),), (Fraction(1),), Fraction(0))
        if not self.delta:
            return FactorProfile(((1 - down) / (up - down), Fraction(1)), (up, down), Fraction(0))
        if self.against_prior:
            near_mass = (1 - self.delta) * (1 - down) / (up - down)
            return FactorProfile((near_mass, 1 - self.delta, Fraction(1)), (up, down, Fraction(0)), self.delta)
        near_mass, emptied_mass = (1 - down) / (up - down), self._statistic_atom / down
        return FactorProfile((near_mass, 1 - emptied_mass, Fraction(1)), (up, down, Fraction(0)), self._statistic_atom)

    def cost(self) -> Guarantee:
        """What one answer costs."""
        if self.delta:
            return Guarantee.approx_dp(self.epsilon, self.delta, neighbors=self.neighbors)
        return Guarantee.dp(self.epsilon, neighbors=self.neighbors)

    def distribution(self, truth: object) -> Distribution:
        """The refined law given the truth. It never leaves: a draw does.

        Where there is no truth, an absent person or a statistic of nothing, and where the distance does not know it,
        the law is the prior; as much work is done for it. A number is clamped to the range. None of this is reported.
        """
        keys, grid = self._compute_keys(truth), self.prior.grid
        if keys is None:
            first_value = grid.value(int(self.prior.index[0])) if grid else (self.prior.values or (None,))[0]
            stand_in = self._compute_keys(first_value)
        else:
            stand_in = keys
        rings = _group_rings(self.prior.index if stand_in is None else stand_in)
        refined_distribution = self._build_distribution(*rings)
        if keys is None:
            no_blocks = np.zeros(len(self.prior.mass), dtype=np.int64)
            return Distribution(self.prior, no_blocks, RationalFactors((Fraction(1),)))
        return refined_distribution

    def answer(self, truth: object, entropy: Entropy | None = None) -> Hashable:
        """One draw from the refined law."""
        return self.distribution(truth).sample(entropy)

    def expected_error(self) -> float:
        """The mean distance between draw and truth for someone whose prior is right."""
        return build_bayes_errors(self).mean_distance()

    def variance(self) -> float:
        """The mean squared error of the draw for someone whose prior is right; of numbers."""
        return build_bayes_errors(self).mean_square()

    def interval(self, confidence: float) -> tuple[float, float]:
        """The shortest symmetric interval that holds draw less truth with that probability, the prior being right."""
        return build_bayes_errors(self).interval(confidence)

    def useful(self, alpha: object, answers: int = 1) -> float:
        """The beta of (alpha, beta)-usefulness: some of `answers` draws farther than alpha from its truth."""
        miss = build_bayes_errors(self).miss_probability(float(as_positive(alpha, "alpha")))
        return 1 - (1 - miss) ** as_int(answers, "answers")

    def _compute_keys(self, truth: object) -> NDArray[np.int64] | None:
        """Whole numbers in the order of distance from the truth; None where it has no distance."""
        prior, distance = self.prior, self.distance
        if isinstance(distance, ContinuousDistance) and prior.grid is not None:
            place = prior.grid.find_quarter_index(truth, int(prior.index[0]), int(prior.index[-1]))
            return None if place is None else np.abs(4 * prior.index - place)
        if not is_hashable(truth) or not distance.knows(truth):
            return None
        if isinstance(distance, NominalDistance):
            number = read_clamped(truth, -MAX_READABLE, MAX_READABLE) if prior.numeric else None
            places = {value: place for place, value in enumerate(prior.support)}
            truth_index = places.get(truth if number is None else number)
            return None if truth_index is None else (np.arange(len(prior.mass)) != truth_index).astype(np.int64)
        exact = distance.keys(truth, prior.support)
        ranks = {key: rank for rank, key in enumerate(sorted(set(exact)))}
        return np.array([ranks[key] for key in exact], dtype=np.int64)

    def _build_distribution(self, order: NDArray[np.int64], ends: NDArray[np.int64]) -> Distribution:
        """Give every ring the profile's mean over the prior mass it covers: one per step and per ring cut."""
        sums = np.concatenate(([0], np.cumsum(self.prior.mass[order])))
        total, profile = self.prior.total, self.profile
        starts = np.concatenate(([0], ends[:-1]))
        limits = [math.floor(mass_limit * total) for mass_limit in profile.mass_limits[:-1]]
        cut_rings = {int(np.searchsorted(sums[ends], limit, side="right")) for limit in limits}
        if profile.atom:
            cut_rings.add(0)
        steps = np.searchsorted(limits, sums[starts], side="right")
        values = list(profile.step_factors)
        blocks = np.empty(len(order), dtype=np.int64)
        ring_blocks = steps.astype(np.int64)
        for ring in sorted(ring for ring in cut_rings if ring < len(ends)):
            start, end = (Fraction(int(sums[position]), total) for position in (starts[ring], ends[ring]))
            ring_blocks[ring] = len(values)
            values.append(profile.compute_average(start, end) + (profile.atom / (end - start) if ring == 0 else 0))
        blocks[order] = np.repeat(ring_blocks, ends - starts)
        return Distribution(self.prior, blocks, RationalFactors(tuple(values)))


def refine(
    prior: Prior,
    truth: object,
    epsilon: object,
    about: str = "statistic",
    neighbors: str = "add-remove",
    distance: Distance | str | None = None,
    delta: object = 0,
    up: object = None,
) -> Distribution:
    """Refine a prior towards the truth: compute the output distribution of the refinement mechanism.

    Draw from it once and release the draw: that is epsilon-DP under `neighbors`, (epsilon, delta)-DP with a delta. The
    distribution itself discloses the truth and is secret.

    Args:
        prior: What is known before the answer: values and their weights.
        truth: The exact answer. Secret.
        epsilon: Privacy budget of one answer, above 0.
        about: "statistic" for a number of the whole table, "individual" for one person, who may be absent.
        neighbors: The neighbor relation, "add-remove" or "replace-one".
        distance: How far two values are apart: a Distance or its name; by default the one that fits the prior.
        delta: The delta of (epsilon, delta)-DP; 0 for pure DP.
        up: The factor alpha_u near the truth; by default the best one for this prior.

    Returns:
        The refined distribution.

    Raises:
        InvalidInput: An argument is not valid, or the distance does not measure every value of the prior.

    Example:
        >>> from discreet import Prior, refine
        >>> prior = Prior.weights({"no": 99, "yes": 1})
        >>> refined = refine(prior, truth="yes", epsilon=1, about="individual")
        >>> float(refined.law()["yes"]) <= 2.7183 * 0.01  # at most e^epsilon times the prior
        True
    """
    return Refinement.of(prior, epsilon, about, neighbors, distance, delta, up).distribution(truth)


def _group_rings(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions from nearest to farthest, and where each set of equally distant ones ends."""
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]) + 1, len(keys))
    return order, ends


def choose_default_distance(prior: Prior) -> Distance:
    """|x - y| for numbers; equal or not for all else."""
    return ContinuousDistance() if prior.numeric else NominalDistance()
