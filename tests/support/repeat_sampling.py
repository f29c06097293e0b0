"""Runs all tests that sample many times over, in another order each time: `make chance`.

Which tests sample is seen in a run of all of them, or read from a file that such a run wrote (`--names`). By default
every run has the same seeds, and any failure is a fault: of a test that depends on the order, or on time. With
`--seeds` each run has other seeds. Tests that then fail now and then assert what is only likely; how often they fail is
told, and no more. Two runs go on at a time: tests often wait, for a browser or a disk, and one run alone would leave a
third of the processors idle.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
PYTEST = (sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=no", "--no-header")
PARALLEL = ("-n", "auto", "--dist", "loadgroup")
PASSED, FAILED = 0, 1
"""How pytest ends where tests ran."""


def run_pytest(words: Sequence[str], seed: str | None = None) -> tuple[int, list[str]]:
    """How pytest ended, and the tests that failed."""
    environment = os.environ if seed is None else os.environ | {"DISCREET_TEST_SEED": seed}
    done = subprocess.run([*PYTEST, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    failed = re.findall(r"^(?:FAILED|ERROR) (\S.*?)(?:@\w+)?(?: - .*)?$", done.stdout, re.MULTILINE)
    if done.returncode not in {PASSED, FAILED}:
        raise SystemExit(f"pytest ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    lines = [line for line in done.stdout.splitlines() if line]
    print(f"{f'seed {seed}: ' if seed else ''}{lines[-1]}", flush=True)
    for line in lines:
        if line.startswith(("FAILED", "ERROR")):  # at once, and with its reason
            print(f"  {line}", flush=True)
    return done.returncode, failed


def main(arguments: Sequence[str] | None = None) -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--times", type=int, default=50, help="how many runs (default 50)")
    reader.add_argument("--seeds", action="store_true", help="give every run other seeds")
    reader.add_argument("--names", type=Path, help="a file written by pytest --sampling-to")
    reader.add_argument("--alone", action="store_true", help="run in one process")
    reader.add_argument("--at-once", type=int, default=2, help="how many runs at a time (default 2)")
    reader.add_argument("words", nargs="*", help="further words for pytest, after --")
    options = reader.parse_args(arguments)
    how = [*(() if options.alone else PARALLEL), *options.words]
    with TemporaryDirectory(prefix="discreet-") as folder:
        names = options.names or Path(folder) / "names.txt"
        if options.names is None:
            print("a run of all tests, to see which of them sample", flush=True)
            run_pytest([*how, "--sampling-to", str(names)])
        tests = names.read_text().splitlines()
        files = sorted({test.partition("::")[0] for test in tests})
        print(f"{len(tests)} tests sample, in {len(files)} files", flush=True)
        words = [*how, "--sampling-from", str(names.resolve()), *files]
        seeds = [str(number) if options.seeds else None for number in range(1, options.times + 1)]
        failure_counts: Counter[str] = Counter()
        with ThreadPoolExecutor(options.at_once) as pool:
            for _, failed in pool.map(lambda seed: run_pytest(words, seed), seeds):
                failure_counts.update(set(failed))
    for test, times in failure_counts.most_common():
        print(f"failed in {times} of {options.times} runs: {test}")
    print(f"{len(failure_counts)} of {len(tests)} tests failed in any of {options.times} runs")
    return int(bool(failure_counts) and not options.seeds)


if __name__ == "__main__":
    sys.exit(main())
