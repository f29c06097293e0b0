"""What MDAV-ID, MDAV-SWAP and IR-SWAP do to correlations, as chapter 3 of the thesis measures it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.mechanisms.entropy import KeyedEntropy
from discreet.sdc.methods.swap import ir_swap, mdav_id, mdav_swap
from discreet.sdc.table import Floats

Columns = Mapping[str, Floats]
METHODS = ("MDAV-ID", "MDAV-SWAP", "IR-SWAP")


def compute_correlations(table: Mapping[str, Any]) -> Floats:
    """Between all columns."""
    return np.atleast_2d(np.corrcoef([np.asarray(table[name], dtype=np.float64) for name in table]))


def protect(table: Columns, method: str, k: int, quasi: int, entropy: KeyedEntropy) -> Mapping[str, Any]:
    """The table after one run, in raw units; the first columns are the quasi-identifiers, the others confidential."""
    names = list(table)
    known, secret = names[:quasi], names[quasi:]
    if method == "MDAV-ID":
        return mdav_id(table, k, names, scale=None)
    if method == "MDAV-SWAP":
        return mdav_swap(table, k, known, secret, intruder="informed", scale=None, entropy=entropy)
    return ir_swap(table, k, secret, entropy=entropy)


def run_method(table: Columns, method: str, k: int, quasi: int, count: int) -> list[Floats]:
    """The correlations after each of so many runs, which are the same every time; MDAV-ID has no chance in it."""
    entropy = KeyedEntropy(b"chapter 3", f"{method} {k}")
    return [
        compute_correlations(protect(table, method, k, quasi, entropy))
        for _ in range(1 if method == "MDAV-ID" else count)
    ]


@dataclass(frozen=True, slots=True)
class Change:
    """The mean and the deviation of |after - before|, over all pairs of columns of all runs, as the thesis has them.

    `spreads` are the deviations from run to run of what one run gives of either.
    """

    figures: tuple[float, float]
    spreads: tuple[float, float]


def measure_change(table: Columns, method: str, k: int, quasi: int, count: int) -> Change:
    """Pairs of quasi-identifiers count as unchanged: 15 of the 78 pairs of the Census file."""
    before, after = compute_correlations(table), run_method(table, method, k, quasi, count)
    one, two = np.triu_indices(len(table), 1)
    changes = np.array([np.where(two < quasi, 0.0, np.abs(each - before)[one, two]) for each in after])
    per_run = np.std([changes.mean(axis=1), changes.std(axis=1)], axis=1, ddof=1) if len(changes) > 1 else (0.0, 0.0)
    return Change((float(changes.mean()), float(changes.std())), (float(per_run[0]), float(per_run[1])))
