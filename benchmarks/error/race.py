"""All contestants on one table: the peers each in a process and an environment of its own, discreet in this one.

Runs are counted by processor time, so it does no harm that all go at once.
"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.error.by_discreet import Tables
from benchmarks.error.contestant import collect_runs
from benchmarks.error.jobs import EPSILONS, JOBS, Job
from benchmarks.error.table import Numbers, People
from benchmarks.measure import Line
from benchmarks.query.environments import ROOT, prepare_interpreter
from benchmarks.results import Cell, Row, Table

OURS = "discreet"
PEERS = ("opendp", "python-dp", "diffprivlib", "smartnoise-sql", "tumult")
NAMES = (OURS, *PEERS)
DEVIATIONS = 4
"""How many standard errors of the difference chance is allowed: few enough that half the noise again would show."""


@dataclass(frozen=True, eq=False)
class Errors:
    """The mean square error of every run of one contestant on one job."""

    squares: Numbers

    @staticmethod
    def of(answers: Sequence[Sequence[float]], exact: Numbers) -> Errors:
        return Errors(((np.array(answers, dtype=float) - exact) ** 2).mean(axis=1))

    @property
    def square(self) -> float:
        return float(self.squares.mean())

    @property
    def root(self) -> float:
        return math.sqrt(self.square)

    @property
    def deviation(self) -> float:
        """The standard error of the mean square."""
        return float(self.squares.std(ddof=1)) / math.sqrt(len(self.squares))

    @property
    def doubt(self) -> float:
        """The standard error of the root, as a share of it."""
        return self.deviation / (2 * self.square) if self.square else 0.0


Results = Mapping[tuple[str, str, float], Errors]
"""By contestant, job and epsilon; what is absent could not be done."""


@contextmanager
def start_peers(people: People, folder: Path) -> Iterator[Callable[[], Results]]:
    """All peers at once, each a process; what is handed out waits for them and tells what they did."""
    people.write(folder / "people.npz")
    with ExitStack() as stack:
        processes = {peer: stack.enter_context(_start_peer(peer, folder)) for peer in PEERS}
        yield lambda: {
            key: errors for peer in PEERS for key, errors in _read_results(peer, processes[peer], people, folder)
        }


def _start_peer(peer: str, folder: Path) -> subprocess.Popen[bytes]:
    command = [prepare_interpreter(peer), "-m", f"benchmarks.error.by_{peer.replace('-', '_')}", folder / "people.npz"]
    with (folder / f"{peer}.json").open("wb") as output:
        return subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.DEVNULL)


def _read_results(
    peer: str, process: subprocess.Popen[bytes], people: People, folder: Path
) -> Iterator[tuple[tuple[str, str, float], Errors]]:
    if process.wait():
        raise SystemExit(f"{peer} ended with {process.returncode}")
    exact = people.exact()
    for name, by_epsilon in json.loads((folder / f"{peer}.json").read_text()).items():
        for epsilon, answers in by_epsilon.items():
            if isinstance(answers, str):
                raise SystemExit(f"{peer}, {name} at epsilon {epsilon}: {answers}")
            yield (peer, name, float(epsilon)), Errors.of(answers, exact[name])


def measure_discreet(people: People, tables: Tables) -> Results:
    """discreet's errors, on every job."""
    exact, results = people.exact(), {}
    for job in JOBS:
        build_draw = tables.build_draw(job.sql, job.neighbors)
        results |= {
            (OURS, job.name, epsilon): Errors.of(collect_runs(build_draw(epsilon)), exact[job.name])
            for epsilon in EPSILONS
        }
    return results


def format_table(results: Results) -> Iterator[str]:
    """A row for each job, a column for each contestant."""
    names = NAMES
    for epsilon in EPSILONS:
        yield f"\nepsilon {epsilon:g}: root mean square error (runs)"
        yield f"{'':<28}{'neighbours':<13}" + "".join(f"{name:>22}" for name in names)
        for job in JOBS:
            cells = "".join(f"{_format_errors(results.get((name, job.name, epsilon))):>22}" for name in names)
            yield f"{job.name:<28}{job.neighbors:<13}{cells}"


def build_tables(results: Results) -> Iterator[Table]:
    """The same as plain values, and how many runs each has."""
    for epsilon in EPSILONS:
        rows = tuple(_build_row(results, job, epsilon) for job in JOBS)
        yield Table(f"epsilon {epsilon:g}, root mean square error", NAMES, rows, OURS)
    least = {name: min(len(errors.squares) for (by, _, _), errors in results.items() if by == name) for name in NAMES}
    yield Table("runs, at least", NAMES, (Row("of each question", tuple(float(n) for n in least.values()), ""),))


def _build_row(results: Results, job: Job, epsilon: float) -> Row:
    """Level is who is nearer to the best peer than three standard errors of both."""
    cells = tuple(_find_root(results, name, job.name, epsilon) for name in NAMES)
    peer_errors = [errors for peer in PEERS if (errors := results.get((peer, job.name, epsilon)))]
    both = [results[OURS, job.name, epsilon], *sorted(peer_errors, key=lambda one: one.root)[:1]]
    chance = 3 * math.hypot(*(one.doubt for one in both))
    return Row(f"{job.name} ({job.neighbors})", cells, level=1 + chance)


def _find_root(results: Results, name: str, job: str, epsilon: float) -> Cell:
    if (name, job, epsilon) in results:
        return results[name, job, epsilon].root
    return "not run" if any((name, job, other) in results for other in EPSILONS) else "not asked"


def _format_errors(errors: Errors | None) -> str:
    return "cannot" if errors is None else f"{errors.root:,.4g} ({len(errors.squares):,})"


def list_bars(results: Results) -> Iterator[Line]:
    """On every job that a peer can do, no more than the best one's, but for chance."""
    for job in JOBS:
        for epsilon in EPSILONS:
            able_peers = [peer for peer in PEERS if (peer, job.name, epsilon) in results]
            best = min(able_peers, key=lambda peer: results[peer, job.name, epsilon].square)
            yield compare_with_peer(results, job.name, epsilon, best)
            if best != "opendp" and job.name.startswith("median") and "opendp" in able_peers:
                yield compare_with_peer(results, job.name, epsilon, "opendp")


def compare_with_peer(results: Results, job: str, epsilon: float, peer: str) -> Line:
    """Ours beside one peer's; the bar is the peer's own with the room that chance needs."""
    ours, best = results[OURS, job, epsilon], results[peer, job, epsilon]
    room = DEVIATIONS * math.hypot(ours.deviation, best.deviation)
    return Line(
        f"{job}, epsilon {epsilon:g}", ours.root, "", math.sqrt(best.square + room), False, f"{peer} {best.root:,.4g}"
    )
