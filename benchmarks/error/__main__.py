"""Print every table, then every bar; fail where one is missed."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.error import coverage, many, priors, race
from benchmarks.error.ours import Tables
from benchmarks.error.table import People
from benchmarks.measure import report
from benchmarks.seen import Seen


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.error", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the comparison alone, without priors and intervals")
    return compare() if parser.parse_args().quick else everything()


def compare() -> int:
    """discreet beside its peers."""
    people = People.made()
    with tempfile.TemporaryDirectory(prefix="discreet-") as name:
        folder = Path(name)
        with race.peers(people, folder) as peers, Tables(people, folder) as tables:
            results = race.own(people, tables) | peers()
    print(*race.table(results), "", sep="\n")
    return report(lambda: list(race.bars(results)), seen=Seen(tables=list(race.tables(results))))


def everything() -> int:
    """And what a prior adds, how often intervals hold, and how many counts fit a budget."""
    people = People.made()
    with tempfile.TemporaryDirectory(prefix="discreet-") as name:
        folder = Path(name)
        with race.peers(people, folder) as peers, Tables(people, folder) as tables:
            own, found = race.own(people, tables), dict(priors.outcomes(people, tables))
            covered, fitting = list(coverage.bars(people, tables)), list(many.bars(people, folder))
            results = own | peers()
    print(*race.table(results), *priors.table(found), "", sep="\n")
    lines = [*race.bars(results), *priors.bars(found), *covered, *fitting]
    return report(lambda: lines, seen=Seen(tables=list(race.tables(results))))


if __name__ == "__main__":
    sys.exit(main())
