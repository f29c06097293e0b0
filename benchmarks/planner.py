"""Speed of planning and of posteriors, on a made-up registry's schema: `make bench`. No row is there to be read."""

from __future__ import annotations

import sys
import tempfile
from fractions import Fraction
from pathlib import Path

from benchmarks.measure import Line, best_time, report
from discreet import Prior, Schema, load_schema
from discreet.custodian import preview_question
from discreet.estimation import noise_distributions
from discreet.estimation.grid_prior import parse_grid_prior
from discreet.estimation.noise_distributions import ScaledNoise
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.planner.options import build_query_options
from discreet.sample import write_registry

EVERY_50 = Prior.weights({50 * place: 1 + place % 7 for place in range(10_000)})
QUESTIONS = {
    "a count, normal": ("SELECT COUNT(*) FROM registry WHERE sex = 'F'", "normal(25000, 100)"),
    "a count, 10,000 points": ("SELECT COUNT(*) FROM registry WHERE sex = 'F'", Prior.normal(5000, 90, 0, 9999)),
    "a sum, normal": ("SELECT SUM(income) FROM registry WHERE sex = 'F'", "normal(1.5e9, 3e5)"),
    "a sum, 10,000 points": ("SELECT SUM(stay) FROM registry", Prior.normal(300_000, 300, 295_000, 304_999)),
    "a filtered mean, normal": ("SELECT AVG(income) FROM registry WHERE sex = 'F'", "normal(30000, 400)"),
    "a filtered mean, 10,000 points": ("SELECT AVG(income) FROM registry WHERE sex = 'F'", EVERY_50),
    "a variance, normal": ("SELECT VAR(bmi) FROM registry WHERE sex = 'F'", "normal(30, 1)"),
    "a median, 10,000 points": ("SELECT MEDIAN(income) FROM registry", EVERY_50),
    "a maximum, 10,000 points": ("SELECT MAX(income) FROM registry", EVERY_50),
}


def measure_planning() -> list[Line]:
    with tempfile.TemporaryDirectory() as folder:
        path = write_registry(Path(folder), 100)
        path.write_text(path.read_text().replace("units: 100", "units: 50000"))
        schema = load_schema(path)
    return [
        Line(f"planning {name}", _time_preview(schema, *arguments) * 1e3, "ms", 50, False)
        for name, arguments in QUESTIONS.items()
    ]


def _time_preview(schema: Schema, question: str, prior: str | Prior) -> float:
    return best_time(lambda: preview_question(schema, question, build_query_options(0.5, prior=prior)), 7)


def measure_posteriors() -> list[Line]:
    noise = ScaledNoise(DiscreteLaplace(Fraction(1, 10), 1), 1.0)
    lines = []
    for name, prior in (("normal", "normal(5000, 20)"), ("10,000 points", Prior.normal(5000, 900, 0, 9999))):
        grid_prior = parse_grid_prior(prior, Fraction(0), Fraction(10**6), Fraction(1), "COUNT")
        seconds = best_time(lambda b=grid_prior: noise_distributions.update_grid_prior(b, noise, 5012.0), 20)
        lines.append(Line(f"a posterior of a count, {name}", seconds * 1e3, "ms", 20, False))
    return lines


def main() -> int:
    """Print every line; fail where a bar is missed."""
    return report(measure_planning, measure_posteriors)


if __name__ == "__main__":
    sys.exit(main())
