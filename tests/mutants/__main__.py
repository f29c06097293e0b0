"""python -m tests.mutants [NAME...]: each fault in a copy of the package, and whether a test notices it.

Without names all of them. Exits with 1 where one survives, or could not be tried as it should. --docs writes the list
into docs/mutants.md and runs nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from .fault import Fault
from .faults import FAULTS, PACKAGES
from .page import write
from .run_faults import WORKERS, Outcome, Verdict, check

VERDICTS: tuple[Verdict, ...] = ("killed", "survived", "not tried", "broken")


def main(words: Sequence[str]) -> int:
    """Run the check, and tell how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a fault, or a package: mechanisms, ledger, ...")
    parser.add_argument("--docs", action="store_true", help="write the list into docs/mutants.md, and run nothing")
    parser.add_argument("--workers", type=int, default=WORKERS, help="how many run at once")
    options = parser.parse_args(words)
    if options.docs:
        write()
        return 0
    unknown = sorted({*options.names} - {*PACKAGES} - {fault.name for fault in FAULTS})
    if unknown:
        parser.error(f"there is no fault and no package of the name {unknown[0]!r}; docs/mutants.md lists them")
    outcomes = check(_find_faults(options.names), _say, options.workers)
    _say(summary(outcomes))
    return 1 if any(one.verdict in {"survived", "broken"} for one in outcomes) else 0


def _find_faults(names: Sequence[str]) -> list[Fault]:
    return [fault for fault in FAULTS if not names or fault.name in names or fault.package in names]


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many of each package were killed, and every fault that was not."""
    counted = Counter((one.fault.package, one.verdict) for one in outcomes)
    lines = ["", f"{'package':<14}" + "".join(f"{verdict:>11}" for verdict in VERDICTS)]
    for package in PACKAGES:
        if any(counted[package, verdict] for verdict in VERDICTS):
            lines.append(f"{package:<14}" + "".join(f"{counted[package, verdict]:>11}" for verdict in VERDICTS))
    alive = [one.line() for one in outcomes if one.verdict != "killed"]
    killed = sum(one.verdict == "killed" for one in outcomes)
    return "\n".join([*lines, "", *alive, f"{killed} of {len(outcomes)} faults killed"])


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
