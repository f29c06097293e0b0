"""Whether values inside groups moved as if every order were equally likely: one file refutes that, and proves it never.

Three looks, each of which a uniform permutation fails less than once in a billion: at all hits, too many or too few; at
how many groups have one hit or more, two or more and so on, too many or too few; and at groups that kept everything.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.assess.evidence import format_claim, require_chance
from discreet.assess.permuted import MIN_DOUBT, Hits, build_value_cells, count_hits_in_groups
from discreet.errors import ClaimFailed
from discreet.formatting import format_number
from discreet.guarantee import Guarantee
from discreet.microdata.table import Floats, Integers

MAX_HITS = 20
"""Groups are counted by their hits up to so many."""
RARE_CHANCES = tuple(10.0**-power for power in range(0, 20, 2))
"""Groups that kept everything are counted where the chance of that is at most this."""
INCLUSION_COEFFICIENTS = np.array(
    [[(-1) ** (i + h) * math.comb(i - 1, h - 1) for h in range(1, MAX_HITS + 1)] for i in range(1, 2 * MAX_HITS + 1)],
    dtype=np.float64,
)
"""How the i-th factorial moment over i! enters the chance of h hits or more, by inclusion and exclusion."""


def require_uniform(claim: Guarantee, name: str, before: Integers, after: Integers, m: int, groups: Integers) -> Hits:
    """The hits of a permutation that nothing refutes."""
    hits = count_hits_in_groups(before, after, m, groups)
    require_chance(claim, name, hits)
    if hits.lack_bound < MIN_DOUBT:
        raise ClaimFailed(
            f"the release claims {format_claim(claim)}, and only {hits.observed} of {hits.rows} rows carry "
            "their own value of "
            f"{name[:40]!r} where a uniform permutation gives {format_number(hits.expected)} on average: so few "
            "come of a rule, not of chance"
        )
    if bound_irregularity(before, after, m, groups) < MIN_DOUBT:
        raise ClaimFailed(
            f"the release claims {format_claim(claim)}, and its groups keep values of {name[:40]!r} on their "
            "own rows so "
            "often or so evenly as a uniform permutation does less than once in a billion"
        )
    return hits


def bound_irregularity(before: Integers, after: Integers, m: int, groups: Integers) -> float:
    """A bound on the chance that uniform permutations give groups as odd as these; at most 1."""
    cells = build_value_cells(before, after, m, groups)
    sizes, has_own_value = np.bincount(groups), before == after
    is_single = (cells.owned == 1) & (cells.carried == 1)
    single_counts = np.bincount(cells.owner, is_single).astype(np.int64)
    hits = np.bincount(groups, has_own_value & is_single[cells.places])
    kept_everything = np.bincount(groups, has_own_value) == sizes
    chances = [
        *_bound_by_hits(sizes, single_counts, hits),
        *_bound_by_whole_groups(_compute_keep_chances(cells.owner, cells.owned, sizes), kept_everything),
    ]
    return min(1.0, 2 * len(chances) * min(chances, default=1.0))  # every look is above and below


def _bound_by_hits(sizes: Integers, single_counts: Integers, hits: Integers) -> list[float]:
    """For each h, how likely as few or as many groups have h hits or more among values that only one row has."""
    kinds, place = np.unique(np.column_stack([sizes, single_counts]), axis=0, return_inverse=True)
    tails = compute_hit_tails(kinds[:, 0], kinds[:, 1])
    kind_counts = np.bincount(place.ravel(), minlength=len(kinds))
    bounds = []
    for h in range(1, min(MAX_HITS, int(single_counts.max())) + 1):
        is_able = kinds[:, 1] >= h
        observed, mean = int(np.count_nonzero(hits >= h)), float(kind_counts[is_able] @ tails[is_able, h - 1])
        bounds.append(_bound_deviation(observed, int(kind_counts[is_able].sum()), mean))
    return bounds


def compute_hit_tails(sizes: Integers, single_counts: Integers) -> Floats:
    """The chance of h = 1, 2, ... hits or more among `alone` values in a group of `sizes`; a row for each pair.

    The mean of (hits choose i) is (alone choose i) (size - i)! / size!, at most 1/i!, so that 40 of them will do.
    """
    step = np.arange(2 * MAX_HITS)
    factors = np.maximum(single_counts[:, None] - step, 0) / np.maximum(sizes[:, None] - step, 1) / (step + 1)
    tails: Floats = np.cumprod(factors, axis=1) @ INCLUSION_COEFFICIENTS
    return np.clip(tails, 0.0, 1.0)


def _compute_keep_chances(owner: Integers, owned: Floats, sizes: Integers) -> Floats:
    """The chance that every row of a group gets its own value: the product of the values' a! over n!."""
    from scipy.special import gammaln

    chance: Floats = np.exp(np.bincount(owner, gammaln(owned + 1)) - gammaln(sizes + 1))
    return chance


def _bound_by_whole_groups(chance: Floats, kept_everything: Integers) -> list[float]:
    """How likely as many groups, of those that can hardly do so, keep everything."""
    bounds = []
    for limit in RARE_CHANCES:
        is_able = chance <= limit * (1 - 1e-9)  # never those with one value
        observed, mean = int(np.count_nonzero(kept_everything & is_able)), float(chance[is_able].sum())
        bounds.append(_bound_deviation(observed, int(np.count_nonzero(is_able)), mean) if observed > mean else 1.0)
    return bounds


def _bound_deviation(observed: int, trials: int, mean: float) -> float:
    """Hoeffding (1963, Theorem 1): `of` independent events, `mean` of them expected, so few or so many seen."""
    from scipy.special import rel_entr

    share, expected_share = observed / trials if trials else 0.0, min(1.0, mean / trials) if trials else 0.0
    return math.exp(-trials * float(rel_entr(share, expected_share) + rel_entr(1 - share, 1 - expected_share)))
