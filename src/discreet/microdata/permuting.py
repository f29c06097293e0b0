"""Uniform random permutations inside groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.kernel.entropy import Entropy, get_entropy


def permute_within_groups(groups: NDArray[np.int64], entropy: Entropy | None) -> NDArray[np.int64]:
    """p, where the value of row p[i] goes to row i: uniform over the permutations that keep every group, exactly.

    Every row draws 64 bits and the rows of a group go by them. The rows' draws are alike and independent, so given
    that no two in a group are equal all orders are equally likely; where two are equal all is drawn again.
    """
    generator = get_entropy(entropy)
    members = np.argsort(groups, kind="stable")
    while True:
        bits = np.frombuffer(generator.take(8 * len(groups)), dtype="<u8")
        order = np.lexsort((bits, groups))
        equal = (bits[order[1:]] == bits[order[:-1]]) & (groups[order[1:]] == groups[order[:-1]])
        if not equal.any():
            permutation = np.empty(len(groups), dtype=np.int64)
            permutation[members] = order
            return permutation
