"""Print what was seen of every table, then every bar; fail where one is missed."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Line, report
from benchmarks.private_microdata import million_rows
from benchmarks.private_microdata.race import (
    Peer,
    Results,
    compare_linked,
    compare_marginals,
    compare_with_mst,
    format_table,
    run_methods,
    start_peer,
)
from benchmarks.private_microdata.release_methods import LINKED, METHODS, RECORDS, TREES
from benchmarks.private_microdata.tables import EIGHT, HEAPED, NUMBERS, Table, read_adult, read_census

RUNS, PEER_RUNS = 20, 5
"""MST takes its time, so it has fewer runs; the table says how many."""
QUICK_RUNS, QUICK_PEER_RUNS = 4, 1
CENSUS_BAR, ADULT_BAR, HEAPS_BAR = 15, 100, 0.7
EVERY = (*METHODS, RECORDS, TREES)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.private_microdata", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few runs of each")
    quick = parser.parse_args().quick
    runs, peer_runs = (QUICK_RUNS, QUICK_PEER_RUNS) if quick else (RUNS, PEER_RUNS)
    with tempfile.TemporaryDirectory(prefix="discreet-") as folder:
        return report(lambda: _measure_lines(runs, peer_runs, Path(folder)), million_rows.list_bars)


def _measure_lines(runs: int, peer_runs: int, folder: Path) -> list[Line]:
    small, large = read_census(), read_adult()
    numbers = large.select("adult's numbers", tuple(NUMBERS), "hours_per_week", 40)
    eight = large.select("adult", EIGHT, large.target, large.above)
    heaped = large.select("adult's heaps", HEAPED, large.target, large.above)
    with (
        start_peer(small, peer_runs, folder / "census") as on_small,
        start_peer(eight, peer_runs, folder / "adult") as on_eight,
    ):
        marginal = _run_and_print(numbers, ("private-columns", RECORDS, TREES), runs, None)
        links = _run_and_print(heaped, ("private-columns", LINKED), runs, None)
        of_small, of_eight = _run_and_print(small, EVERY, runs, on_small), _run_and_print(eight, EVERY, runs, on_eight)
    lines = [compare_marginals(small, of_small, CENSUS_BAR), compare_marginals(numbers, marginal, ADULT_BAR)]
    lines.append(compare_linked(heaped, links, HEAPS_BAR))
    return [*lines, *compare_with_mst(small, of_small), *compare_with_mst(eight, of_eight)]


def _run_and_print(table: Table, names: Sequence[str], runs: int, peer: Peer | None) -> Results:
    results = run_methods(table, names, runs, peer)
    print(*format_table(table, results), "", sep="\n", flush=True)
    return results


if __name__ == "__main__":
    sys.exit(main())
