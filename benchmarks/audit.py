"""Speed of an audit: `make bench`. Beside the seconds stands how often the draws could have been sorted meanwhile."""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.measure import Line, best_time, report
from discreet import DiscreteLaplace, audit_mechanism
from discreet.mechanisms.entropy import SYSTEM

DRAWS = 1_000_000
FINE = 1000
BAR = 5


def time_audits() -> list[Line]:
    """A million draws with each of two neighbours: of one number, of three, and of floats with their last digits."""
    return [
        _time_audit("whole numbers", lambda data, n: _build_noise(1).sample_units(n, SYSTEM) + FINE * data),
        _time_audit("three numbers a row", lambda data, n: _sample_triples(n) + FINE * data),
        _time_audit("floats", lambda data, n: (_build_noise(1).sample_units(n, SYSTEM) + FINE * data) / FINE),
    ]


def _time_audit(name: str, mechanism: Any) -> Line:
    audit_mechanism(mechanism, 0, 1, 1, draws=10_000)
    seconds = best_time(lambda: audit_mechanism(mechanism, 0, 1, 1, draws=DRAWS), 3)
    floor = best_time(lambda: [np.sort(mechanism(data, DRAWS), axis=0) for data in (0, 1)], 3)
    return Line(
        f"an audit of 1,000,000 draws, {name}", seconds, "s", BAR, False, f"{seconds / floor:.1f} draws and sorts"
    )


def _build_noise(share: int) -> DiscreteLaplace:
    return DiscreteLaplace(Fraction(1, share), 1, Fraction(1, FINE))


def _sample_triples(count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.stack([_build_noise(3).sample_units(count, SYSTEM) for _ in range(3)], axis=1)


def main() -> int:
    """Print every line; fail where a bar is missed."""
    return report(time_audits)


if __name__ == "__main__":
    sys.exit(main())
