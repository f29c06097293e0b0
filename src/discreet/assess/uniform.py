"""Whether values inside groups moved as if every order were equally likely: one file refutes that, and proves it never.

Three looks, each of which a uniform permutation fails less than once in a billion: at all hits, too many or too few; at
how many groups have one hit or more, two or more and so on, too many or too few; and at groups that kept everything.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.assess.evidence import named, require_chance
from discreet.assess.permuted import DOUBT, Hits, cells_of, hits_in_groups
from discreet.errors import ClaimFailed
from discreet.formatting import format_number
from discreet.guarantee import Guarantee
from discreet.microdata.table import Floats, Places

MOST = 20
"""Groups are counted by their hits up to so many."""
RARE = tuple(10.0**-power for power in range(0, 20, 2))
"""Groups that kept everything are counted where the chance of that is at most this."""
CHOSEN = np.array(
    [[(-1) ** (i + h) * math.comb(i - 1, h - 1) for h in range(1, MOST + 1)] for i in range(1, 2 * MOST + 1)],
    dtype=np.float64,
)
"""How the i-th factorial moment over i! enters the chance of h hits or more, by inclusion and exclusion."""


def require_uniform(claim: Guarantee, name: str, own: Places, after: Places, m: int, groups: Places) -> Hits:
    """The hits of a permutation that nothing refutes."""
    hits = hits_in_groups(own, after, m, groups)
    require_chance(claim, name, hits)
    if hits.lack < DOUBT:
        raise ClaimFailed(
            f"the release claims {named(claim)}, and only {hits.observed} of {hits.rows} rows carry their own value of "
            f"{name[:40]!r} where a uniform permutation gives {format_number(hits.expected)} on average: so few "
            "come of a rule, not of chance"
        )
    if irregular(own, after, m, groups) < DOUBT:
        raise ClaimFailed(
            f"the release claims {named(claim)}, and its groups keep values of {name[:40]!r} on their own rows so "
            "often or so evenly as a uniform permutation does less than once in a billion"
        )
    return hits


def irregular(own: Places, after: Places, m: int, groups: Places) -> float:
    """A bound on the chance that uniform permutations give groups as odd as these; at most 1."""
    cells = cells_of(own, after, m, groups)
    sizes, stayed = np.bincount(groups), own == after
    lone = (cells.owned == 1) & (cells.carried == 1)
    alone = np.bincount(cells.owner, lone).astype(np.int64)
    hits = np.bincount(groups, stayed & lone[cells.places])
    kept = np.bincount(groups, stayed) == sizes
    chances = [*_by_hits(sizes, alone, hits), *_by_whole_groups(_to_keep_all(cells.owner, cells.owned, sizes), kept)]
    return min(1.0, 2 * len(chances) * min(chances, default=1.0))  # every look is above and below


def _by_hits(sizes: Places, alone: Places, hits: Places) -> list[float]:
    """For each h, how likely as few or as many groups have h hits or more among values that only one row has."""
    kinds, place = np.unique(np.column_stack([sizes, alone]), axis=0, return_inverse=True)
    tails = at_least(kinds[:, 0], kinds[:, 1])
    often = np.bincount(place.ravel(), minlength=len(kinds))
    found = []
    for h in range(1, min(MOST, int(alone.max())) + 1):
        able = kinds[:, 1] >= h
        seen, mean = int(np.count_nonzero(hits >= h)), float(often[able] @ tails[able, h - 1])
        found.append(_apart(seen, int(often[able].sum()), mean))
    return found


def at_least(sizes: Places, alone: Places) -> Floats:
    """The chance of h = 1, 2, ... hits or more among `alone` values in a group of `sizes`; a row for each pair.

    The mean of (hits choose i) is (alone choose i) (size - i)! / size!, at most 1/i!, so that 40 of them will do.
    """
    step = np.arange(2 * MOST)
    factors = np.maximum(alone[:, None] - step, 0) / np.maximum(sizes[:, None] - step, 1) / (step + 1)
    tails: Floats = np.cumprod(factors, axis=1) @ CHOSEN
    return np.clip(tails, 0.0, 1.0)


def _to_keep_all(owner: Places, owned: Floats, sizes: Places) -> Floats:
    """The chance that every row of a group gets its own value: the product of the values' a! over n!."""
    from scipy.special import gammaln

    chance: Floats = np.exp(np.bincount(owner, gammaln(owned + 1)) - gammaln(sizes + 1))
    return chance


def _by_whole_groups(chance: Floats, kept: Places) -> list[float]:
    """How likely as many groups, of those that can hardly do so, keep everything."""
    found = []
    for limit in RARE:
        able = chance <= limit * (1 - 1e-9)  # never those with one value
        seen, mean = int(np.count_nonzero(kept & able)), float(chance[able].sum())
        found.append(_apart(seen, int(np.count_nonzero(able)), mean) if seen > mean else 1.0)
    return found


def _apart(seen: int, of: int, mean: float) -> float:
    """Hoeffding (1963, Theorem 1): `of` independent events, `mean` of them expected, so few or so many seen."""
    from scipy.special import rel_entr

    share, even = seen / of if of else 0.0, min(1.0, mean / of) if of else 0.0
    return math.exp(-of * float(rel_entr(share, even) + rel_entr(1 - share, 1 - even)))
