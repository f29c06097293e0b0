"""The memory of a question is bounded by its text and the schema, and a process gives it back afterwards."""

from __future__ import annotations

import gc
import math
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_joint_sensitivity import build_wide_schema

from discreet import Answer, Custodian
from discreet.answers.explain import explain_result
from discreet.custodian.measure import read_exact_inputs
from discreet.ledger import Receipt
from discreet.planner import domain_partition
from discreet.planner.domain_partition import (
    LARGE_GRID_CELLS,
    LARGE_REPLY_NUMBERS,
    MAX_LABEL_BYTES,
    MAX_LARGE_ANSWERS,
    CountQuery,
    DomainGrid,
    Labels,
    find_distinct_cells,
    serialize_large_steps,
)
from discreet.planner.plan import Plan
from discreet.planner.planner import plan
from discreet.planner.structural_constraints import find_structural_constraints
from discreet.query.predicates import TRUE, AllOf, AnyOf, InRanges
from discreet.query.query import GroupKey
from discreet.query.resolve import parse_sql
from discreet.sample import write_registry
from discreet.schema import Column, Schema, load_schema
from discreet.service import requests
from discreet.service.api.models import Ask
from discreet.service.config import Limits
from discreet.service.store import Store
from discreet.service.store.stored_answers import StoredAnswer
from support.served_processes import start_service
from support.service_load import Line, analyst, write_config
from support.worst_questions import MILLION, SHAPES

MB = 2**20
MOST = 160 * MB
"""Of one question, beside what is loaded: solvers and the engine that reads its rows included."""
LARGE = "SELECT admitted, COUNT(*) FROM registry GROUP BY admitted"
FRESH = {"fresh": True}
QUICK = ("many filters that cut a million cells", "medians by date")
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
LINUX = pytest.mark.skipif(not CLEAR.exists(), reason="the memory of a process is read as Linux tells it")
PROCESS = """
import os
import numpy as np
from discreet.service import worker
def get_process_memory():
    return int(worker.STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
worker.TRIM_INTERVAL = 0.05
worker.enable_memory_trimming()
before = get_process_memory()
held = [np.ones(8192) for _ in range(4000)]
grown, last = get_process_memory(), held[-1]
del held
for _ in range(600):
    sum(range(10**6))
    if get_process_memory() < before + (grown - before) / 4:
        break
print(grown - before > 200 * 2**20, get_process_memory() < before + (grown - before) / 4)
"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Custodian]:
    """A rehearsal, which has asked all kinds of questions, so that what they need is loaded."""
    folder = tmp_path_factory.mktemp("memory")
    with Custodian.rehearse(write_registry(folder, 100), folder / "rehearsal") as custodian:
        for question in ("HISTOGRAM(income, 20)", "MEDIAN(income)", "COUNT(*), COUNT(*) FILTER (WHERE smoker) AS c"):
            custodian.answer(f"SELECT {question} FROM registry", 1).to_json()
        yield custodian


def peak_of(custodian: Custodian, question: str) -> int:
    """By how many bytes the process grows, at most, for a question, from its text to its document."""
    CLEAR.write_text("5")  # the peak begins anew
    before = read_memory_figure("VmRSS")
    custodian.answer(question, 1, fresh=True).to_json()
    return read_memory_figure("VmHWM") - before


def read_memory_figure(name: str) -> int:
    """A figure of this process's memory, in bytes."""
    return 1024 * next(int(line.split()[1]) for line in STATUS.read_text().splitlines() if line.startswith(name))


@LINUX
@pytest.mark.parametrize("shape", QUICK)
def test_the_memory_of_a_question_is_bounded(registry: Custodian, shape: str) -> None:
    """With 110 filters and a million cells it was 1.2 GB."""
    assert peak_of(registry, SHAPES[shape]) < MOST


@LINUX
@pytest.mark.soak
@pytest.mark.parametrize("shape", [name for name in SHAPES if name not in QUICK])
def test_the_memory_of_a_question_of_any_shape_is_bounded(registry: Custodian, shape: str) -> None:
    """Small version: the test above."""
    assert peak_of(registry, SHAPES[shape]) < MOST


def large() -> tuple[Schema, list[CountQuery]]:
    """Three columns with a thousand codes, and counts that depend on all of them."""
    columns = {f"x{at}": Column(f"x{at}", "integer", lower=0, upper=999, missing=0) for at in range(3)}
    ends = [[InRanges(name, ((0, 10 * at + shift),)) for shift, name in enumerate(columns)] for at in range(90)]
    return replace(build_wide_schema(1), columns=columns), [CountQuery(AnyOf(tuple(one)), Fraction(1)) for one in ends]


def test_labels_are_kept_in_the_smallest_type() -> None:
    """Those of a count without keys as bits: a grid of 729,000 cells and 90 counts has 65 million labels."""
    schema, counts = large()
    grid = DomainGrid(schema, counts)
    assert (grid.cells or 0) > 700_000
    tracemalloc.start()
    try:
        atoms = grid.build_atoms()
        kept_bytes, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    labels = sum(one.values.nbytes for one in atoms.packed_labels)
    assert 7 * MB < labels < 90 * 760_000 / 8
    assert kept_bytes < labels + 6 * MB
    assert peak < 40 * MB
    assert {atoms.get_labels(at).dtype for at in range(3)} == {np.dtype(np.uint8)}
    assert atoms.get_labels(0).max() == 1


@pytest.mark.parametrize("kind", ["cells", "labels", "bytes of labels", "points of a column"])
def test_a_limit_is_looked_at_before_anything_is_allocated(kind: str) -> None:
    """What is too large is known from the sizes of the axes; nothing of that size was there before."""
    schema, counts = large()
    one = replace(schema.columns["x0"], upper=9_999)
    if kind == "cells":
        counts = [
            CountQuery(InRanges(f"x{at}", ((low, low),)), Fraction(1)) for at in range(3) for low in range(0, 999, 2)
        ]
    elif kind == "labels":
        counts = [replace(count, scale=Fraction(at + 1)) for at in range(5) for count in counts]
    elif kind == "bytes of labels":
        counts = [replace(count, keys=(GroupKey("x0", 500),)) for count in counts]
    else:
        schema = replace(schema, columns={**schema.columns, "x0": one})
        keyed = CountQuery(TRUE, Fraction(1), (GroupKey("x0"),))
        low = [InRanges("x0", ((at, at + 1),)) for at in range(4_000)]
        counts = [keyed, CountQuery(AnyOf(tuple(AllOf((at, InRanges("x1", ((0, 1),)))) for at in low)), Fraction(1))]
    tracemalloc.start()
    try:
        assert DomainGrid(schema, counts).cells is None
        assert tracemalloc.get_traced_memory()[1] < 24 * MB
    finally:
        tracemalloc.stop()


def test_what_counts_are_made_of_is_known_of_a_large_grid(tmp_path: Path) -> None:
    """Limits of memory change nothing of what is known: nested counts are found to be nested, in a million cells."""
    schema = load_schema(write_registry(tmp_path, 10))
    constraints = find_structural_constraints(schema, parse_sql(MILLION, schema), 1)
    assert constraints.possible.all()
    nested = find_structural_constraints(
        schema, parse_sql("SELECT COUNT(*) FILTER (WHERE age > 30) AS a, COUNT(*) AS b FROM registry", schema), 1
    )
    assert nested.ordered_pairs == ((0, 1),) or nested.parts is not None


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 3), min_size=12, max_size=12), st.sampled_from([1, 2**20])),
        min_size=1,
        max_size=9,
    )
)
def test_atoms_come_in_the_order_of_their_labels(runs: list[tuple[list[int], int]]) -> None:
    """By the last label first, and of equal ones the first place: draws that are stored were made in this order."""
    labels: list[Labels] = [np.array(values, dtype=np.uint32) * times for values, times in runs]
    order = np.lexsort(labels)
    rows = np.stack(labels, axis=1)[order]
    first = np.concatenate(([True], (rows[1:] != rows[:-1]).any(axis=1)))
    assert find_distinct_cells(labels, (12,)).tolist() == order[first].tolist()


def test_large_steps_are_taken_one_at_a_time() -> None:
    """Small ones do not wait for them, and a large step may have another within it."""
    counting, together, most = threading.Lock(), 0, 0
    inside, leave = threading.Event(), threading.Event()

    def large_step() -> None:
        nonlocal together, most
        with serialize_large_steps(True), serialize_large_steps(True):
            with counting:
                together, most = together + 1, max(most, together + 1)
            inside.set()
            leave.wait(60)
            with counting:
                together -= 1

    threads = [threading.Thread(target=large_step) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert inside.wait(60)
    with serialize_large_steps(False):
        time.sleep(0.05)
    leave.set()
    for thread in threads:
        thread.join(60)
    assert most == 1


def test_few_large_answers_are_drawn_at_once(registry: Custodian, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a small one does not wait for them: 32 medians of 4,000 days took 60 MB, of which little came back."""
    counting, together, most = threading.Lock(), 0, 0
    full, leave = threading.Event(), threading.Event()
    draw = Custodian._make_outputs

    def watch(self: Custodian, planned: Plan, receipt: Receipt) -> str:
        nonlocal together, most
        if len(planned.list_cells()) > LARGE_REPLY_NUMBERS:
            with counting:
                together, most = together + 1, max(most, together + 1)
                if together >= MAX_LARGE_ANSWERS:
                    full.set()
            leave.wait(60)
            with counting:
                together -= 1
        return draw(self, planned, receipt)

    monkeypatch.setattr(Custodian, "_make_outputs", watch)
    threads = [
        threading.Thread(target=registry.answer, args=(LARGE, 1), kwargs=FRESH) for _ in range(MAX_LARGE_ANSWERS + 2)
    ]
    for thread in threads:
        thread.start()
    assert full.wait(60)
    registry.answer("SELECT COUNT(*) FROM registry WHERE smoker", 1, fresh=True)
    time.sleep(0.1)
    leave.set()
    for thread in threads:
        thread.join(60)
    assert most == MAX_LARGE_ANSWERS


def test_a_large_answer_is_built_and_written_in_its_turn(registry: Custodian, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is built when no other is, and gone when the next one is: an answer has ten times the size of its document."""
    inside = 0

    @contextmanager
    def watch(large: bool) -> Iterator[None]:
        nonlocal inside
        inside += large
        yield
        inside -= large

    def build(*arguments: Any) -> Answer:
        built.append(inside)
        answer = explain_result(*arguments)
        alive.append(id(answer))
        return answer

    def keep(_: Store, stored: StoredAnswer) -> StoredAnswer:
        gone.append(not any(isinstance(one, Answer) and id(one) == alive[-1] for one in gc.get_objects()))
        return stored

    built: list[int] = []
    alive: list[int] = []
    gone: list[bool] = []
    monkeypatch.setattr(requests, "serialize_large_steps", watch)
    monkeypatch.setattr(requests, "keep_answer", keep)
    monkeypatch.setattr("discreet.custodian.custodian.explain_result", build)
    service: Any = SimpleNamespace(config=SimpleNamespace(limits=Limits()), store=None)
    for question in (LARGE, "SELECT COUNT(*) FROM registry WHERE smoker"):
        requests.answer_request(service, registry, True, "ann", question[:20], Ask(**asked(question)), 0.0)
    assert (built, gone) == ([1, 0], [True, True])


def test_a_large_grid_is_laid_out_under_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a small one is not: it is what most questions have."""
    schema, counts = large()
    asked: list[bool] = []

    def watch(large: bool) -> AbstractContextManager[None]:
        asked.append(large)
        return serialize_large_steps(large)

    monkeypatch.setattr(domain_partition, "serialize_large_steps", watch)
    for entry in (counts[:45], counts[:3]):
        with domain_partition.lay_out_atoms(DomainGrid(schema, entry)) as atoms:
            assert (math.prod(atoms.shape) > LARGE_GRID_CELLS) is asked[-1]
    assert asked == [True, False]


def test_counts_of_a_cell_are_made_when_it_is_its_turn(registry: Custodian) -> None:
    """All at once they are four million numbers, 32 MB."""
    planned = plan(registry.schema, parse_sql(SHAPES["medians by date"], registry.schema), 1)
    tracemalloc.start()
    try:
        secret = read_exact_inputs(planned, registry._source, planned.list_cells(), TRUE)
        kept_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept_bytes < 8 * MB
    assert len(secret.inputs[0]) == len(planned.list_cells()) > 4_000
    assert sum(int(np.sum(counts)) for counts in secret.inputs[0][:20]) >= 0  # type: ignore[misc, arg-type]


@LINUX
def test_a_process_gives_memory_back() -> None:
    """Blocks of 64 KB, of which one that was allocated last stays: without being told, the C library keeps them all."""
    done = subprocess.run([sys.executable, "-c", PROCESS], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["True", "True"], done.stderr


@LINUX
@pytest.mark.soak
@pytest.mark.parametrize(
    "shape", ["many filters that cut a million cells", "groups with many filters", "medians by date"]
)
def test_a_worker_gives_back_the_memory_of_32_questions_at_once(tmp_path: Path, shape: str) -> None:
    """At most 1 GB at any time, and within 1.3 times the start a minute later."""
    schema = write_registry(tmp_path)
    schema.write_text(schema.read_text().replace("budget: {epsilon: 3,", "budget: {epsilon: 900,"))
    schema.write_text(schema.read_text().replace("budget: {epsilon: 1,", "budget: {epsilon: 900,"))
    config = write_config(tmp_path, ["registry"], workers=1)
    with start_service(tmp_path, "--config", config) as running:
        token, path = analyst(config, "registry"), "/v1/datasets/registry/answers"
        replies: list[int] = []

        def ask(question: str) -> None:
            with closing(Line(running.port, token, patience=30 * 60)) as line:  # on a slow machine they take minutes
                replies.append(line.must("POST", path, asked(question)).status)

        ask("SELECT COUNT(*) FROM registry")
        [worker] = [line["process"] for line in running.events("started", "worker")]
        start, most = resident(worker), 0
        threads = [threading.Thread(target=ask, args=(SHAPES[shape],), daemon=True) for _ in range(32)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            most = max(most, resident(worker))
            time.sleep(0.02)
        assert replies == [201] * 33
        assert most < 1024 * MB, (start, most)
        end = time.monotonic() + 60
        while resident(worker) > 1.3 * start and time.monotonic() < end:
            time.sleep(1)
        print(f"{shape}: {start // MB} MB before, {most // MB} MB at the most, {resident(worker) // MB} MB after")
        assert resident(worker) <= 1.3 * start


def asked(question: str) -> dict[str, Any]:
    return {"question": question, "epsilon": "1", "fresh": True}


def resident(process: int) -> int:
    """The memory of another process, in bytes."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_the_bound_of_memory_holds_for_the_largest_grid() -> None:
    """A million cells and some hundred counts are exactly what fits."""
    assert MAX_LABEL_BYTES * 8 == domain_partition.MAX_LABELS
