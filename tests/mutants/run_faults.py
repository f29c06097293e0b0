"""Runs tests against a copy of the package that has a fault in it; the package itself is never touched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Literal

from .copied_package import COPY, DIED, PROFILE, SKIPPED
from .fault import ROOT, SOURCE, Fault

WORKERS = 2
MOST_SECONDS = 600
PASSED, FAILED = 0, 1
"""Exit codes of pytest: all tests passed, some failed. Any other says that they did not run as they should."""
COMPILED = re.compile(r"^@(inner|inlined|outer|njit)\b", re.MULTILINE)
PLUGIN = f"{__package__}.copied_package"
QUIETLY = ("-q", "-x", "--no-header", "--tb=no", "-p", "no:randomly", "-n", "0", "-p", "no:cacheprovider")
LOOKED_FOR = {"AssertionError", "Failed"}
"""What a test fails of that looks for something and does not find it, also where nothing is raised that should be."""
MOMENTS = count(1)
"""Times of change for files with a fault, never the same: Python and Numba know by them that a file is another."""

Verdict = Literal["killed", "survived", "not tried", "broken"]
Told = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Run:
    """How pytest ended, the test that failed, and of which exception."""

    code: int
    failed: str = ""
    died: str = ""
    last_line: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a fault: killed by a test, or not; `why` where it is neither killed nor survived."""

    fault: Fault
    verdict: Verdict
    by: str = ""
    why: str = ""
    seconds: float = 0.0

    def line(self) -> str:
        """It in a line."""
        return f"{self.verdict:<9}  {self.fault.name}  {self.by or self.why}  ({self.seconds:.0f} s)"


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the package in a folder of its own, with what Python and Numba compile of it."""

    folder: Path

    @staticmethod
    def of(source: Path, folder: Path) -> Copy:
        """A fresh copy; nothing compiled comes along."""
        shutil.copytree(source, folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        return Copy(folder)

    @contextmanager
    def broken_by(self, fault: Fault) -> Iterator[None]:
        """The copy with a fault in it, and whole again afterwards."""
        path = self.folder / "src" / fault.path
        whole, when = path.read_text(), path.stat()
        broken = fault.apply_to(whole)
        try:
            path.write_text(broken)
            os.utime(path, (moment := next(MOMENTS), moment))
            yield
        finally:
            path.write_text(whole)
            os.utime(path, ns=(when.st_atime_ns, when.st_mtime_ns))

    def run(self, tests: Sequence[str], numba: str = "numba") -> Run:
        """Run tests of the repository on the copy; `numba` is the folder that Numba keeps its own in."""
        command = [sys.executable, "-m", "pytest", *QUIETLY, "-p", PLUGIN, f"--hypothesis-profile={PROFILE}"]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(self.folder / "src"), os.environ.get("PYTHONPATH")])),
            "NUMBA_CACHE_DIR": str(self.folder / numba),
            COPY: str(self.folder / "src"),
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        try:
            done = subprocess.run(
                [*command, *(f"tests/{test}" for test in tests)],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=MOST_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return Run(-1, last_line=f"did not end in {MOST_SECONDS} s")
        failed = re.search(r"^(?:FAILED|ERROR) tests/(.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
        died = re.search(rf"^{DIED}(\w+)$", done.stdout, re.MULTILINE)
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        last_line = lines[-1] if lines else ""
        return Run(done.returncode, failed[1] if failed else "", died[1] if died else "", last_line)


def check(faults: Sequence[Fault], report: Told, workers: int = WORKERS) -> list[Outcome]:
    """Try every fault: first its tests must pass on the package as it is, then they must fail on the one with it."""
    with TemporaryDirectory(prefix="discreet-mutants-") as folder, ThreadPoolExecutor(workers) as pool:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(workers):
            copies.put(Copy.of(SOURCE, Path(folder) / str(number)))
        tests = _by_file(faults)
        report(f"the tests of {len(faults)} faults, in {len(tests)} files, on the package as it is")
        runs = pool.map(lambda tests_of_file: _with(copies, lambda copy: copy.run(tests_of_file)), tests.values())
        before = dict(zip(tests, runs, strict=True))
        report("each fault")
        return list(pool.map(lambda fault: _try_fault(copies, fault, before, report), faults))


def _by_file(faults: Iterable[Fault]) -> dict[str, list[str]]:
    """The tests of all faults, each once, by their files."""
    tests_by_file: dict[str, dict[str, None]] = {}
    for fault in faults:
        for test in fault.killers:
            tests_by_file.setdefault(file_of(test), {})[test] = None
    return {file: list(tests) for file, tests in tests_by_file.items()}


def file_of(test: str) -> str:
    """The file that a test is in."""
    return test.partition("::")[0]


def _try_fault(copies: SimpleQueue[Copy], fault: Fault, before: Mapping[str, Run], report: Told) -> Outcome:
    base_runs = [before[file_of(test)] for test in fault.killers]
    wrong = next((run for run in base_runs if run.code not in {PASSED, SKIPPED}), None)
    if wrong is None:
        begun = time.monotonic()
        run = _with(copies, lambda copy: _run_with(copy, fault))
        outcome = _judge_run(fault, run, time.monotonic() - begun)
    else:
        outcome = Outcome(fault, "broken", why=f"its tests do not pass without it: {wrong.failed or wrong.last_line}")
    report(outcome.line())
    return outcome


def _run_with(copy: Copy, fault: Fault) -> Run:
    """What Numba compiled of one file may hold code of another, so that a fault in compiled code is compiled anew."""
    compiled = COMPILED.search((copy.folder / "src" / fault.path).read_text())
    with copy.broken_by(fault):
        return copy.run(fault.killers, f"numba-{fault.name}" if compiled else "numba")


def _judge_run(fault: Fault, run: Run, seconds: float) -> Outcome:
    if run.code == FAILED and run.died not in {*LOOKED_FOR, fault.dies_of}:
        return Outcome(
            fault, "broken", why=f"{run.failed} died of {run.died}, which it did not look for", seconds=seconds
        )
    if run.code == FAILED:
        return Outcome(fault, "killed", by=run.failed, seconds=seconds)
    if run.code == PASSED:
        return Outcome(fault, "survived", why="all its tests pass", seconds=seconds)
    if run.code == SKIPPED:
        return Outcome(fault, "not tried", why="its tests are skipped here: what they need is absent", seconds=seconds)
    return Outcome(fault, "broken", why=f"pytest ended with {run.code}: {run.last_line}", seconds=seconds)


def _with(copies: SimpleQueue[Copy], do: Callable[[Copy], Run]) -> Run:
    """Do something with a copy that nobody else uses meanwhile."""
    copy = copies.get()
    try:
        return do(copy)
    finally:
        copies.put(copy)
