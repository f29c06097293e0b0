"""anjana: `... FOLDER k` or `... FOLDER t`. Hierarchies are its own form: for each level, the value of every row."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from anjana.anonymity import k_anonymity, t_closeness

from benchmarks.anonymity.task import (
    ANYTHING,
    MAPS,
    QUASI,
    SECRET,
    SUPPRESSED,
    WIDTHS,
    K,
    T,
    locate_release,
    locate_table,
    time_call,
)


def build_hierarchies(frame: pd.DataFrame) -> dict[str, dict[int, np.ndarray]]:
    """The ages' intervals start at multiples of their width, as discreet's do."""
    ages = frame["age"]
    levels_by_column = {"age": [ages.to_numpy(), *(format_intervals(ages, width) for width in WIDTHS)]}
    for name, maps in MAPS.items():
        levels = [frame[name].to_numpy(dtype=object)]
        for each in maps:
            levels.append(np.array([each[value] for value in levels[-1]], dtype=object))
        levels_by_column[name] = levels
    anything = np.full(len(frame), ANYTHING, dtype=object)
    return {name: dict(enumerate([*levels, anything])) for name, levels in levels_by_column.items()}


def format_intervals(ages: pd.Series, width: int) -> np.ndarray:
    low = ages // width * width
    return (low.astype(str) + "-" + (low + width - 1).astype(str)).to_numpy(dtype=object)


def main(which: str) -> None:
    frame = pd.read_csv(locate_table())
    levels, quasi, most = build_hierarchies(frame), list(QUASI), 100 * SUPPRESSED
    if which == "k":
        release = time_call(lambda: k_anonymity(frame, [], quasi, K, most, levels))
    else:
        release = time_call(lambda: t_closeness(frame, [], quasi, SECRET, K, T, most, levels))
    release.to_csv(locate_release(f"anjana {which}"), index=False)


if __name__ == "__main__":
    main(sys.argv[2])
