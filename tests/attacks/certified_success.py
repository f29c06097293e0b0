"""What can be said for certain of an attack's success: Clopper-Pearson, wrong once in a million."""

from __future__ import annotations

import math
import secrets

FALSE_ALARM = 1e-6


def at_least(hits: int, trials: int) -> float:
    """The chance of a hit is no less than this."""
    from scipy.stats import beta

    return 0.0 if hits == 0 else float(beta.ppf(FALSE_ALARM, hits, trials - hits + 1))


def at_most(hits: int, trials: int) -> float:
    """The chance of a hit is no more than this."""
    from scipy.stats import beta

    return 1.0 if hits == trials else float(beta.ppf(1 - FALSE_ALARM, hits + 1, trials - hits))


def epsilon(hits: int, other_hits: int, trials: int) -> float:
    """The least epsilon with which an event may be seen so often on one table and so often on its neighbour."""
    low, high = at_least(hits, trials), at_most(other_hits, trials)
    return max(0.0, math.log(low / high)) if low > 0 else 0.0


def guessing(epsilon_spent: float) -> float:
    """The best chance to guess one secret bit, as likely 0 as 1, that epsilon-differential privacy leaves."""
    return 1 / (1 + math.exp(-epsilon_spent))


def most_right(guesses: int, chance: float) -> int:
    """So many right guesses or fewer, but once in a million.

    The right guesses of independent bits are no more than those of as many coins of this chance (Steinke, Nasr and
    Jagielski 2023), whatever the guesses have to do with each other.
    """
    from scipy.stats import binom

    return int(binom.isf(FALSE_ALARM, guesses, chance))


def toss_coins(count: int) -> list[bool]:
    """So many fair coins: what an attack is to guess."""
    return [bool(secrets.randbelow(2)) for _ in range(count)]
