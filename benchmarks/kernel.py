"""Speed of the kernel: `make bench`. Ratios are taken in one run, against a peer or a floor, because machines differ.

Each line is a figure, what it is compared with, and the bar it has to clear.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from fractions import Fraction

import numpy as np
import opendp.prelude as opendp

from benchmarks.measure import Line, best_time, report
from discreet import DiscreteGaussian, DiscreteLaplace, Prior, Refinement, Staircase
from discreet.mechanisms import BoxStaircase, PolygonStaircase, Quantile, smooth_sensitivity

DRAWS = 1_000_000
POINTS = 1_000_000


def measure_sampling() -> list[Line]:
    opendp.enable_features("contrib")
    domain, zeros = opendp.vector_domain(opendp.atom_domain(T="i64")), [0] * 100_000
    lines = []
    for scale in (1, 100):
        ours = DRAWS / best_time(lambda s=scale: DiscreteLaplace(Fraction(1, s), 1).sample_many(DRAWS))
        peer = opendp.m.make_laplace(domain, opendp.l1_distance(T="i64"), scale=float(scale))
        theirs = len(zeros) / best_time(lambda p=peer: p(zeros), 3)
        lines += [
            Line(f"discrete Laplace, scale {scale}, draws a second", ours, "/s", 1e6, True),
            Line(
                f"discrete Laplace, scale {scale}, against opendp", ours / theirs, "times", 5, True, f"{theirs:,.0f}/s"
            ),
        ]
        noise = DiscreteGaussian(Fraction(scale**2), 1, Fraction(1))
        ours = DRAWS / best_time(lambda n=noise: n.sample_many(DRAWS))
        peer = opendp.m.make_gaussian(domain, opendp.l2_distance(T="f64"), scale=float(scale))
        theirs = len(zeros) / best_time(lambda p=peer: p(zeros), 3)
        lines.append(
            Line(
                f"discrete Gaussian, sigma {scale}, against opendp", ours / theirs, "times", 5, True, f"{theirs:,.0f}/s"
            )
        )
    return lines


def measure_refinement() -> list[Line]:
    prior = Prior.normal(5000, 1000, 0, 9999)
    given_seconds = best_time(lambda: Refinement.of(prior, 1, up=1.5).answer(4200), 50)
    choice_seconds = best_time(lambda: Refinement.of(prior, 1).factors, 10)
    floor = best_time(lambda: np.sort(np.abs(prior.index - 4200)), 50)
    return [
        Line(
            "one refined answer, 10,000 points, factors given",
            given_seconds * 1e3,
            "ms",
            5,
            False,
            f"{given_seconds / floor:.0f} sorts",
        ),
        Line("choosing the factors, 10,000 points", choice_seconds * 1e3, "ms", 100, False),
    ]


def measure_order_statistics() -> list[Line]:
    values = np.random.Generator(np.random.PCG64(1)).normal(POINTS / 2, POINTS / 10, POINTS)
    numbers = np.clip(values, 0, POINTS - 1).astype(np.int64)
    lines = []
    for name, prior in (("permute-and-flip", None), ("with a prior", Prior.normal(4e5, 2e5, 0, POINTS - 1))):
        median = Quantile.of(0.5, 0, POINTS - 1, 1, prior=prior)
        counts = median.candidates.count_values(numbers)
        seconds = best_time(lambda m=median, c=counts: m.answer_counts(c), 10)
        lines.append(Line(f"a median over 1,000,000 candidates, {name}", seconds * 1e3, "ms", 50, False))
    floor = best_time(lambda: np.sort(numbers), 3)
    for beta in (0.5, 1e-3):
        seconds = best_time(lambda b=beta: smooth_sensitivity(numbers, "median", 0, POINTS - 1, b), 2)
        beside = f"{seconds / floor:.1f} sorts"
        lines.append(
            Line(f"smooth sensitivity of a median, n = 1,000,000, beta {beta}", seconds, "s", 5, False, beside)
        )
    return lines


def measure_imports() -> list[Line]:
    def cpu(code: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    discreet_seconds, python_seconds = min(cpu("import discreet") for _ in range(5)), min(cpu("pass") for _ in range(5))
    first_draw_seconds = min(
        cpu("from discreet import DiscreteLaplace; DiscreteLaplace(1, 1).sample()") for _ in range(3)
    )
    return [
        Line("import discreet, CPU seconds", discreet_seconds, "s", 0.3, False, f"python alone {python_seconds:.3f}"),
        Line("import and a first draw, CPU seconds", first_draw_seconds, "s", 1, False),
    ]


def measure_timing_leaks() -> list[Line]:
    """Rank correlation of the noise's size with the time its draw took: whoever times the draw learns nothing of it."""
    noises = {
        "discrete Laplace, scale 1": DiscreteLaplace(1, 1),
        "discrete Laplace, scale 1000": DiscreteLaplace(1, 1000),
        "discrete Laplace, in hundredths": DiscreteLaplace(1, 1, Fraction(1, 100)),
        "discrete Gaussian, sigma 20": DiscreteGaussian(Fraction(400), 1, Fraction(1)),
        "staircase, 100 units": Staircase.least_variance(1, 100, 1),
        "staircase, in thousandths": Staircase.least_variance(1, 1, Fraction(1, 1000)),
        "staircase, 10^12 units": Staircase.least_variance(1, 10**12, 1),
        "box staircase": BoxStaircase(1, (1, 10), step=Fraction(1, 10)),
        "polygon staircase": PolygonStaircase(1, [(2, 1), (1, 2), (-1, 1), (-2, -1), (-1, -2), (1, -1)]),
    }
    return [
        Line(f"time follows size, {name}", abs(_correlate_time_with_size(noise)), "rho", 0.05, False)
        for name, noise in noises.items()
    ]


def _correlate_time_with_size(
    noise: DiscreteLaplace | DiscreteGaussian | Staircase | BoxStaircase | PolygonStaircase, count: int = 40_000
) -> float:
    sizes, times = np.empty(count), np.empty(count)
    for _ in range(200):
        noise.sample()
    for i in range(count):
        start = time.perf_counter_ns()
        draw = noise.sample()
        times[i] = time.perf_counter_ns() - start
        sizes[i] = max(map(abs, draw)) if isinstance(draw, tuple) else abs(draw)
    ranks = [np.unique(numbers, return_inverse=True)[1] for numbers in (sizes, times)]
    places = [(np.cumsum(np.bincount(rank)) - np.bincount(rank) / 2)[rank] for rank in ranks]
    return float(np.corrcoef(*places)[0, 1])


def main() -> int:
    """Print every line; fail where a bar is missed."""
    return report(measure_imports, measure_sampling, measure_refinement, measure_order_statistics, measure_timing_leaks)


if __name__ == "__main__":
    sys.exit(main())
