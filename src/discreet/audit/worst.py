"""The worst of several pairs of neighbours: a few draws with each say which one is audited."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from discreet.audit.auditing import Audit, Claim, Mechanism, audit_mechanism, sample_output_pair
from discreet.audit.choosing import choose_event
from discreet.errors import InvalidInput

SEARCH_SHARE = 4
"""All pairs together are looked at with a quarter of the draws."""
MIN_SEARCH_DRAWS = 400


def audit_worst(
    mechanism: Mechanism,
    pairs: Iterable[tuple[Any, Any]],
    epsilon: object,
    delta: object = 0,
    draws: object = 1_000_000,
    confidence: object = 0.999,
    progress: Callable[[str], None] | None = None,
) -> Audit:
    """Audit the pair of neighbours that promises most, with fresh draws, so that looking at many costs no confidence.

    `draws` are those of the audit; to choose the pair a quarter as many are drawn besides, over all pairs.
    """
    claim, show = Claim.of(epsilon, delta, draws, confidence), progress or (lambda _: None)
    pair_list = _check_pairs(pairs)
    worst = pair_list[find_worst_pair(mechanism, pair_list, claim, show)]
    return audit_mechanism(
        mechanism, *worst, claim.epsilon, claim.delta, claim.draws, claim.confidence, progress=progress
    )


def _check_pairs(pairs: object) -> list[tuple[Any, Any]]:
    """The pairs, or what is wrong with them."""
    if not isinstance(pairs, Iterable) or isinstance(pairs, str | bytes):
        raise InvalidInput(f"the pairs of neighbours are a list of (D, D2); got {type(pairs).__name__}")
    pair_list = list(pairs)
    for number, pair in enumerate(pair_list, start=1):
        if not isinstance(pair, tuple | list):
            raise InvalidInput(f"a pair is two data sets (D, D2); pair {number} is {type(pair).__name__}")
        if len(pair) != 2:
            raise InvalidInput(f"a pair is two data sets (D, D2); pair {number} has {len(pair)}")
    if not pair_list:
        raise InvalidInput("an audit needs at least one pair of neighbours, got none")
    return pair_list


def find_worst_pair(
    mechanism: Mechanism, pairs: Sequence[tuple[Any, Any]], claim: Claim, show: Callable[[str], None]
) -> int:
    """The place of the pair whose best event promises most; nothing is drawn where there is one pair."""
    if len(pairs) == 1:
        return 0
    count = max(claim.draws // (SEARCH_SHARE * len(pairs)), MIN_SEARCH_DRAWS)
    best, most = 0, -math.inf
    for index, pair in enumerate(pairs):
        show(f"looking at pairs: {index} of {len(pairs)}")
        sample, sample2 = sample_output_pair(mechanism, pair, count, lambda _: None)
        promise = choose_event(sample, sample2, float(claim.delta), float(claim.confidence)).estimated_bound
        if promise > most:
            best, most = index, promise
    return best
