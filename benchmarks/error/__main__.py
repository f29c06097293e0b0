"""Print every table, then every bar; fail where one is missed."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.error import counts_within_budget, coverage, priors, race
from benchmarks.error.by_discreet import Tables
from benchmarks.error.table import People
from benchmarks.measure import report
from benchmarks.results import BenchmarkResult


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.error", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the comparison alone, without priors and intervals")
    return compare() if parser.parse_args().quick else compare_with_priors_and_intervals()


def compare() -> int:
    """discreet beside its peers."""
    people = People.generate()
    with tempfile.TemporaryDirectory(prefix="discreet-") as name:
        folder = Path(name)
        with race.start_peers(people, folder) as collect_peers, Tables(people, folder) as tables:
            results = race.measure_discreet(people, tables) | collect_peers()
    print(*race.format_table(results), "", sep="\n")
    return report(
        lambda: list(race.list_bars(results)), result=BenchmarkResult(tables=list(race.build_tables(results)))
    )


def compare_with_priors_and_intervals() -> int:
    """And what a prior adds, how often intervals hold, and how many counts fit a budget."""
    people = People.generate()
    with tempfile.TemporaryDirectory(prefix="discreet-") as name:
        folder = Path(name)
        with race.start_peers(people, folder) as collect_peers, Tables(people, folder) as tables:
            ours, prior_outcomes = race.measure_discreet(people, tables), dict(priors.run_trials(people, tables))
            coverage_lines, capacity_lines = (
                list(coverage.list_bars(people, tables)),
                list(counts_within_budget.list_bars(people, folder)),
            )
            results = ours | collect_peers()
    print(*race.format_table(results), *priors.format_table(prior_outcomes), "", sep="\n")
    lines = [*race.list_bars(results), *priors.list_bars(prior_outcomes), *coverage_lines, *capacity_lines]
    return report(lambda: lines, result=BenchmarkResult(tables=list(race.build_tables(results))))


if __name__ == "__main__":
    sys.exit(main())
