"""Print what was seen of every table, then every bar; fail where one is missed."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Line, report
from benchmarks.private_microdata import million
from benchmarks.private_microdata.race import (
    Peer,
    Results,
    as_good_as_mst,
    better_marginals,
    linked_over_apart,
    peer_on,
    raced,
    told,
)
from benchmarks.private_microdata.tables import EIGHT, HEAPED, NUMBERS, Table, adult, census
from benchmarks.private_microdata.ways import LINKED, METHODS, RECORDS, TREES

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
        return report(lambda: _lines(runs, peer_runs, Path(folder)), million.bars)


def _lines(runs: int, peer_runs: int, folder: Path) -> list[Line]:
    small, large = census(), adult()
    numbers = large.select("adult's numbers", tuple(NUMBERS), "hours_per_week", 40)
    eight = large.select("adult", EIGHT, large.target, large.above)
    heaped = large.select("adult's heaps", HEAPED, large.target, large.above)
    with (
        peer_on(small, peer_runs, folder / "census") as on_small,
        peer_on(eight, peer_runs, folder / "adult") as on_eight,
    ):
        marginal = _seen(numbers, ("private-columns", RECORDS, TREES), runs, None)
        links = _seen(heaped, ("private-columns", LINKED), runs, None)
        of_small, of_eight = _seen(small, EVERY, runs, on_small), _seen(eight, EVERY, runs, on_eight)
    lines = [better_marginals(small, of_small, CENSUS_BAR), better_marginals(numbers, marginal, ADULT_BAR)]
    lines.append(linked_over_apart(heaped, links, HEAPS_BAR))
    return [*lines, *as_good_as_mst(small, of_small), *as_good_as_mst(eight, of_eight)]


def _seen(table: Table, names: Sequence[str], runs: int, peer: Peer | None) -> Results:
    results = raced(table, names, runs, peer)
    print(*told(table, results), "", sep="\n", flush=True)
    return results


if __name__ == "__main__":
    sys.exit(main())
