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
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

from benchmarks.query.environments import ROOT, prepare_interpreter
from benchmarks.query.questions import QUESTIONS, Question

# Name, module, and its environment where that is not our own.
CONTESTANTS = (
    ("DuckDB", "by_duckdb", None),
    ("discreet", "by_discreet", None),
    ("opendp", "by_opendp", "opendp"),
    ("opendp, scaled", "by_opendp_scaled", "opendp"),
    ("python-dp", "by_python_dp", "python-dp"),
    ("diffprivlib", "by_diffprivlib", "diffprivlib"),
    ("smartnoise-sql", "by_smartnoise_sql", "smartnoise-sql"),
    ("tumult", "by_tumult", "tumult"),
)
FLOOR, OURS = "DuckDB", "discreet"
WARM, TIMED = 2, 7
PATIENCE = 4.0
"""Seconds: whoever has taken more over a question, with one answer warm, is not asked it again."""
LOADING, ANSWERING = 120, 60
NEAR, FEW = 0.1, 3_000
"""How near an answer must be, as a share; of so few rows noise is as large as the answer."""
Reply = Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """What one contestant did with one question: its times, also on the processor, or why there are none."""

    seconds: tuple[float, ...] = ()
    failure: str = ""
    first: float = math.nan
    processor: float = math.nan

    @property
    def milliseconds(self) -> float:
        """The median; endless where there is no answer."""
        return statistics.median(self.seconds) * 1e3 if self.seconds else math.inf


@dataclass(frozen=True)
class Race:
    """One table: results by contestant and question; of each contestant its most megabytes and its start."""

    rows: int
    results: Mapping[tuple[str, str], Result]
    peaks: Mapping[str, float]
    registration: Reply
    loading: Mapping[str, float]

    @property
    def names(self) -> list[str]:
        return list(self.peaks)


class Contestant:
    """A process that is asked one question at a time; once it has gone, it fails them all."""

    def __init__(self, module: str, peer: str | None, folder: Path) -> None:
        python = prepare_interpreter(peer) if peer else Path(sys.executable)
        command = [python, "-m", f"benchmarks.query.{module}", folder]
        pipe = subprocess.PIPE
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=quiet, text=True)
        self._gone = ""
        self.peak = 0.0
        start = time.perf_counter()
        self._read_reply(LOADING)
        self.loading = time.perf_counter() - start

    def ask(self, question: Question, constant: int) -> Reply:
        """Its reply, or its failure."""
        if self._gone:
            return {"failure": self._gone}
        print(json.dumps([question.name, constant]), file=self._process.stdin, flush=True)
        reply = self._read_reply(ANSWERING)
        self.peak = reply.get("peak", self.peak)
        return reply

    def _read_reply(self, limit: int) -> Reply:
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


def run_race(
    rows: int,
    folder: Path,
    questions: Sequence[Question] = QUESTIONS,
    left_out: Mapping[str, str] = MappingProxyType({}),
    contestant_modules: Sequence[tuple[str, str, str | None]] = CONTESTANTS,
) -> Race:
    """Make the table, register it, and ask everybody everything but those left out, whose failure is the reason."""
    floor = json.loads(run_module("table", folder, rows))
    registration = json.loads(run_module("register", folder)) | {"floor": floor["seconds"]}
    results = {(name, question.name): Result(failure=why) for name, why in left_out.items() for question in questions}
    with ExitStack() as stack:
        contestants = {
            name: stack.enter_context(Contestant(module, peer, folder))
            for name, module, peer in contestant_modules
            if name not in left_out
        }
        for question in questions:
            near = max(NEAR, FEW / rows)
            results |= {
                (name, question.name): result for name, result in ask_in_turn(question, contestants, near).items()
            }
            print(f"{rows:,} rows, {question.name}", flush=True)
        peaks = {name: contestant.peak for name, contestant in contestants.items()}
        return Race(rows, results, peaks, registration, {name: each.loading for name, each in contestants.items()})


def run_module(module: str, *arguments: object) -> str:
    """What a module of this package prints, in a process of its own."""
    command = [sys.executable, "-m", f"benchmarks.query.{module}", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def ask_in_turn(question: Question, contestants: Mapping[str, Contestant], near: float = NEAR) -> Mapping[str, Result]:
    """Every contestant's result on one question; the slow are asked less often."""
    replies_by_name: dict[str, list[Reply]] = {name: [] for name in contestants}
    for turn in range(WARM + TIMED):
        constant = question.constant(turn)
        for name, contestant in contestants.items():
            if should_ask_again(replies_by_name[name]):
                replies_by_name[name].append(contestant.ask(question, constant))
    exact = replies_by_name[FLOOR][0]
    return {name: _summarize_replies(replies, exact, near) for name, replies in replies_by_name.items()}


def should_ask_again(replies: Sequence[Reply]) -> bool:
    """Whether to go on; nobody is asked again what it failed in."""
    if any("failure" in reply for reply in replies):
        return False
    return len(replies) < 2 or sum(reply["seconds"] for reply in replies) < PATIENCE


def _summarize_replies(replies: Sequence[Reply], exact: Reply, near: float) -> Result:
    failures = [reply["failure"] for reply in replies if "failure" in reply]
    if not failures and not is_close_to_exact(replies[0]["numbers"], exact["numbers"], near):
        failures = ["it answered another question"]
    if failures:
        return Result(failure=failures[0])
    warm = replies[min(WARM, len(replies) - 1) :]
    busy = statistics.median(reply["processor"] for reply in warm)
    return Result(tuple(reply["seconds"] for reply in warm), "", replies[0]["seconds"], busy)


def is_close_to_exact(private: Sequence[float], exact: Sequence[float], near: float = NEAR) -> bool:
    """Whether an answer is about what it should be; the first constant leaves most rows in, so noise is small."""
    mean = statistics.fmean(exact)
    return len(private) == len(exact) and abs(statistics.fmean(private) - mean) <= near * mean
