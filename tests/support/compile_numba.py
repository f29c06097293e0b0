"""Compile what numba compiles once for all workers; the tests start this script in the background.

In a new checkout it takes most of a minute, and each worker would do it for itself; later its cache is only read.
"""

from __future__ import annotations

import numpy as np

from discreet.sdc.linkage import find_nearest_ties
from discreet.sdc.methods.mdav import mdav, radix_sort_rows, v_mdav
from discreet.sdc.methods.record_distance import RecordSpace


def compile_all() -> None:
    """Call each function of the package that is compiled for Python to call; the longest to compile comes first."""
    mdav(build_space(), 3)  # a space of its own: it is used up
    find_nearest_ties(build_space(), build_space())
    v_mdav(build_space(), 3)
    radix_sort_rows(np.arange(20, dtype=np.uint64))


def build_space() -> RecordSpace:
    return RecordSpace(np.arange(40.0).reshape(20, 2), np.zeros((20, 0), dtype=np.int64), ())


if __name__ == "__main__":
    compile_all()
