"""Document 003, Definition 2.7: the Gaussian mechanism of the book, and the least noise that holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from discreet.mechanisms.continuous_noise import Gaussian, compute_gaussian_delta
from discreet.sdc.report_charts import Chart
from papers.charts import draw_lines
from papers.rows import Row, compare_corrected, compare_derived
from papers.tables import Data, Table

FAILS_ABOVE = {0.01: 7.9064900745, 1e-05: 9.3913214622, 1e-06: 9.7327507173, 1e-10: 10.756740867}
"""For each delta, the epsilon above which the book's sigma is too small."""


def _compare_rows(_: Data) -> Iterator[Row]:
    """The Gaussian mechanism: the book's sigma, the least one, and from where on the book's is too small."""
    for epsilon, least, printed in ((0.1, 30.749566132, 49.408648323), (1.0, 3.7306316348, 4.9408648323)):
        book, least_sigma = Gaussian.of_the_book(epsilon, 1e-5).sigma, Gaussian.calibrated(epsilon, 1e-5).sigma
        setting = f"epsilon {epsilon:g}, delta 1e-5"
        yield compare_derived(f"gauss.book.eps{epsilon:g}", f"sigma of Definition 2.7, {setting}", printed, book)
        yield compare_derived(
            f"gauss.analytic.eps{epsilon:g}", f"least sigma that holds, {setting}", least, least_sigma
        )
    why = "the definition is for every epsilon; above this one its sigma is too small"
    for delta, right in FAILS_ABOVE.items():
        cell = f"largest epsilon for which Definition 2.7 holds, delta {delta:g}"
        epsilon_found = find_failing_epsilon(delta)
        yield compare_corrected(
            f"gauss.book.fails_above.delta{delta:g}", cell, "every one", epsilon_found, right, "7", why
        )
    sigma = Gaussian.of_the_book(20, 1e-5).sigma
    cell = "delta really spent over delta, epsilon 20, delta 1e-5"
    why = "the definition is for every epsilon; at 20 its sigma is too small"
    yield compare_corrected(
        "003.2.7.spent", cell, 1, compute_gaussian_delta(sigma, 20) / 1e-5, "97", "7", why, within=0.0
    )
    noise = Gaussian.of_the_book(1, 1e-5)
    why = "sigma is the standard deviation"
    cell = "variance of the noise, epsilon 1, delta 1e-5"
    yield compare_corrected("003.2.7.variance", cell, noise.sigma, noise.variance(), 24.412145291, "7", why)


def find_failing_epsilon(delta: float) -> float:
    """The epsilon from which the book's sigma no longer keeps its delta, by bisection."""
    low, high = 1.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        holds = compute_gaussian_delta(Gaussian.of_the_book(middle, delta).sigma, middle) <= delta
        low, high = (middle, high) if holds else (low, middle)
    return high


def _draw_pictures(_: Sequence[Row]) -> list[Chart]:
    """Both sigmas over epsilon."""
    places = [10 ** (tenth / 10) for tenth in range(-10, 14)]
    calibrations = {"Definition 2.7": Gaussian.of_the_book, "least that holds": Gaussian.calibrated}
    series = {name: [(x, make(x, 1e-5).sigma) for x in places] for name, make in calibrations.items()}
    sentence = "The standard deviation by the book and the least that is private, delta 1e-5."
    return [draw_lines("Definition 2.7: sigma", sentence, "epsilon", "sigma", series, log="xy")]


TABLE = Table("003-definition-2.7", "Definition 2.7", "The Gaussian mechanism.", _compare_rows, _draw_pictures)
