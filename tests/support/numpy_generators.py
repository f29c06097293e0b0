"""NumPy's generators with a seed, for mechanisms that are audited."""

from __future__ import annotations

import numpy as np


def build_generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))
