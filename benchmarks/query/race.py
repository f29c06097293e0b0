"""All contestants on one table: each a process, each asked the same question in turn before anyone hears the next.

So a machine that is slow for a while is slow for all of them.
"""

from __future__ import annotations

import json
import math
import select
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.query.environments import ROOT, interpreter
from benchmarks.query.questions import QUESTIONS, Question

# Name, module, and its environment where that is not our own.
CONTESTANTS = (
    ("DuckDB", "by_duckdb", None),
    ("discreet", "by_discreet", None),
    ("opendp", "by_opendp", "opendp"),
    ("opendp, scaled", "by_opendp_scaled", "opendp"),
    ("python-dp", "by_python_dp", "python-dp"),
    ("diffprivlib", "by_diffprivlib", "diffprivlib"),
)
WARM, TIMED = 2, 7
LOADING, ANSWERING = 600, 60
NEAR = 0.1
Reply = Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """What one contestant did with one question: its times, or why there are none."""

    seconds: tuple[float, ...] = ()
    failure: str = ""

    @property
    def milliseconds(self) -> float:
        """The median; endless where there is no answer."""
        return statistics.median(self.seconds) * 1e3 if self.seconds else math.inf


@dataclass(frozen=True)
class Race:
    """One table: results by contestant and question, and the most memory of each contestant, in megabytes."""

    rows: int
    results: Mapping[tuple[str, str], Result]
    peaks: Mapping[str, float]
    registration: Reply


class Contestant:
    """A process that is asked one question at a time; once it has gone, it fails them all."""

    def __init__(self, module: str, peer: str | None, folder: Path) -> None:
        python = interpreter(peer) if peer else Path(sys.executable)
        command = [python, "-m", f"benchmarks.query.{module}", folder]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
        self._gone = ""
        self.peak = 0.0
        self._hear(LOADING)

    def ask(self, question: Question, constant: int) -> Reply:
        """Its reply, or its failure."""
        if self._gone:
            return {"failure": self._gone}
        print(json.dumps([question.name, constant]), file=self._process.stdin, flush=True)
        reply = self._hear(ANSWERING)
        self.peak = reply.get("peak", self.peak)
        return reply

    def _hear(self, limit: int) -> Reply:
        ready, _, _ = select.select([self._process.stdout], [], [], limit)
        line = self._process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        self._process.kill()
        self._gone = "it ended" if ready else f"nothing in {limit} s"
        return {"failure": self._gone}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()


def race(rows: int, folder: Path) -> Race:
    """Make the table, register it, and ask everybody everything."""
    run("table", folder, rows)
    registration = json.loads(run("register", folder))
    results = {}
    with ExitStack() as stack:
        entered = {name: stack.enter_context(Contestant(module, peer, folder)) for name, module, peer in CONTESTANTS}
        for question in QUESTIONS:
            results |= {(name, question.name): result for name, result in in_turn(question, entered).items()}
            print(f"{rows:,} rows, {question.name}", flush=True)
        return Race(rows, results, {name: contestant.peak for name, contestant in entered.items()}, registration)


def run(module: str, *arguments: object) -> str:
    """What a module of this package prints, in a process of its own."""
    command = [sys.executable, "-m", f"benchmarks.query.{module}", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def in_turn(question: Question, entered: Mapping[str, Contestant]) -> Mapping[str, Result]:
    """Every contestant's result on one question."""
    turns = []
    for turn in range(WARM + TIMED):
        constant = question.constant(turn)
        turns.append({name: contestant.ask(question, constant) for name, contestant in entered.items()})
    return {name: _result([turn[name] for turn in turns], turns[0]["DuckDB"]) for name in entered}


def _result(replies: Sequence[Reply], exact: Reply) -> Result:
    failures = [reply["failure"] for reply in replies if "failure" in reply]
    if not failures and not agree(replies[0]["numbers"], exact["numbers"]):
        failures = ["it answered another question"]
    return Result(failure=failures[0]) if failures else Result(tuple(reply["seconds"] for reply in replies[WARM:]))


def agree(private: Sequence[float], exact: Sequence[float]) -> bool:
    """Whether an answer is about what it should be; the first constant leaves most rows in, so noise is small."""
    mean = statistics.fmean(exact)
    return len(private) == len(exact) and abs(statistics.fmean(private) - mean) <= NEAR * mean
