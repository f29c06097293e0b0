"""Every benchmark in turn, and the page of what they saw: `python -m benchmarks [--only NAME ...] [--small] [--page]`.

What each saw is kept in build/benchmarks, and all of it in benchmarks/results.json, from which docs/benchmarks.md
and docs/past-one-machine.md are written; nothing there is typed by hand. With --only, the others'
figures stay as they were seen before.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any

from benchmarks import capacity_plan, page
from benchmarks.machine import describe_machine, list_versions
from benchmarks.programs import PROGRAMS, Program
from benchmarks.results import FOLDER, ROOT

RESULTS = ROOT / "benchmarks" / "results.json"


def run_program(program: Program, small: bool) -> dict[str, Any] | None:
    """What a benchmark saw; None where it broke off, and then what was seen before stays."""
    output = FOLDER / f"{program.name}.json"
    output.unlink(missing_ok=True)
    command, load, start = program.command(small), os.getloadavg()[0], time.perf_counter()
    print(f"\n== python {' '.join(command)}", flush=True)
    code = subprocess.run([sys.executable, *command], cwd=ROOT, check=False).returncode
    if not output.exists():
        print(f"{program.name} broke off with {code}", file=sys.stderr)
        return None
    result: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    run_facts = {"command": " ".join(["python", *command]), "seconds": time.perf_counter() - start, "when": when}
    return run_facts | {"load": load, "machine": describe_machine(), "versions": list_versions()} | result


def load_results() -> dict[str, Any]:
    """All that was seen so far."""
    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return results


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[each.name for each in PROGRAMS], metavar="NAME", default=[])
    parser.add_argument("--small", action="store_true", help="smaller tables, in a few minutes")
    parser.add_argument("--page", action="store_true", help="write the page again, and measure nothing")
    options = parser.parse_args()
    broken = 0
    for program in PROGRAMS if not options.page else ():
        if not options.only or program.name in options.only:
            result = run_program(program, options.small)
            broken += result is None
            results = load_results() | ({program.name: result} if result else {})
            RESULTS.write_text(page.format_results(results) + "\n", encoding="utf-8")
    page.write_page(load_results())
    capacity_plan.write_page(load_results())
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
