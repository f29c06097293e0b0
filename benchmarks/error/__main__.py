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
        with race.peers(people, folder) as peers, Tables(people, folder) as tables:
            own, found = race.own(people, tables), dict(priors.outcomes(people, tables))
            covered, fitting = list(coverage.bars(people, tables)), list(many.bars(people, folder))
            results = own | peers()
    print(*race.table(results), *priors.table(found), "", sep="\n")
    return report(lambda: [*race.bars(results), *priors.bars(found), *covered, *fitting])


if __name__ == "__main__":
    sys.exit(main())
