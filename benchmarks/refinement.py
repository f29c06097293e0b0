"""Speed of refining 100,000 answers by what must be true of them: `make bench`. The noise is made up."""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.measure import Line, best_time, report
from discreet import at_least, reconcile, total
from discreet.constraints import increasing, nested, refine_linear

CELLS = 100_000


def build_tree(branching: int) -> dict[int, range]:
    """Cell i has the parts branching * i + 1, ..., as far as there are cells."""
    return {
        cell: range(branching * cell + 1, min(branching * cell + branching + 1, CELLS))
        for cell in range((CELLS - 2) // branching + 1)
    }


def measure_trees() -> list[Line]:
    lines, noisy = [], np.random.default_rng(1).laplace(scale=10, size=CELLS)
    for branching in (2, 10):
        name, constraint = f"a tree of {CELLS:,} cells, {branching} parts each", nested(build_tree(branching))
        sums = constraint.bind(noisy)
        zero = np.zeros(sums.matrix.shape[1])
        seconds = best_time(lambda sums=sums, zero=zero: refine_linear(noisy, sums.matrix, zero, 200), 3)
        lines.append(Line(f"{name}: values", seconds, "s", 1, False))
        seconds = best_time(lambda sums=sums, zero=zero: refine_linear(noisy, sums.matrix, zero, 200).variances(), 3)
        lines.append(Line(f"{name}: values and variances", seconds, "s", 3, False))
        seconds = best_time(lambda constraint=constraint: reconcile(noisy, [constraint, at_least(0)], 200), 1)
        lines.append(Line(f"{name}: none negative", seconds, "s", 5, False))
    return lines


def measure_lists() -> list[Line]:
    noisy = np.arange(CELLS) * 0.01 + np.random.default_rng(2).laplace(scale=10, size=CELLS)
    constraint_sets = {
        "in order": [increasing()],
        "none negative, with a total": [at_least(0), total(50_000_000)],
        "in order, with a total": [increasing(), total(50_000_000)],
    }
    return [
        Line(
            f"{CELLS:,} cells, {name}",
            best_time(lambda constraints=constraints: reconcile(noisy, constraints), 1),
            "s",
            bar,
            False,
        )
        for (name, constraints), bar in zip(constraint_sets.items(), (1, 1, 10), strict=True)
    ]


def main() -> int:
    """Print every line; fail where a bar is missed."""
    return report(measure_trees, measure_lists)


if __name__ == "__main__":
    sys.exit(main())
