"""Print every table, then every bar; fail where one is missed."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.error import coverage, many, priors, race
from benchmarks.error.ours import Tables
from benchmarks.error.table import People
from benchmarks.measure import report


def main() -> int:
    people = People.made()
    with tempfile.TemporaryDirectory(prefix="discreet-") as name:
        folder = Path(name)
        with Tables(people, folder) as tables:
            results = race.race(people, tables, folder)
            print(*race.table(results), sep="\n", flush=True)
            found = dict(priors.outcomes(people, tables))
            print(*priors.table(found), "", sep="\n", flush=True)
            return report(
                lambda: list(race.bars(results)),
                lambda: list(priors.bars(found)),
                lambda: list(coverage.bars(people, tables)),
                lambda: list(many.bars(people, folder)),
            )


if __name__ == "__main__":
    sys.exit(main())
