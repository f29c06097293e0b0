"""The races measure what they say: patience, agreement, exponents, whole families of processes, one yardstick."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks.anonymity.information_loss import measure_loss
from benchmarks.query import contestant
from benchmarks.query.race import FLOOR, OURS, PATIENCE, Race, Result, is_close_to_exact, should_ask_again
from benchmarks.query.table import AT_ONCE, generate_people, write_people
from benchmarks.spark import is_same

from benchmarks import growth
from discreet.custodian.measure import ExactInputs

ASKED = [question.name for question in growth.GROWTH_QUESTIONS]


def race(rows: int, loading: float, seconds: float) -> Race:
    results = {(name, asked): Result((seconds,)) for name in (FLOOR, OURS) for asked in ASKED}
    both = {FLOOR: 1.0, OURS: 1.0}
    registration = {"seconds": rows / 1e6, "floor": 1.0, "peak": 2.0, "bytes": 10 * rows, "read": 5 * rows}
    return Race(rows, results, both, registration, {FLOOR: loading, OURS: loading})


def test_the_slow_are_asked_less_often_but_once_warm() -> None:
    slow, fast = {"seconds": 1.1 * PATIENCE}, {"seconds": PATIENCE / 100}
    assert should_ask_again([slow])
    assert not should_ask_again([slow, slow])
    assert should_ask_again([fast] * 8)
    assert not should_ask_again([{"failure": "it ended"}])


def test_another_question_is_not_an_answer() -> None:
    assert is_close_to_exact([101.0, 99.0], [100.0, 100.0])
    assert not is_close_to_exact([150.0, 150.0], [100.0, 100.0])
    assert not is_close_to_exact([100.0], [100.0, 100.0])


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_exponents_are_those_of_the_curve(power: float) -> None:
    sizes = [10, 100, 1000]
    assert growth.fit_exponent(sizes, [7 * rows**power for rows in sizes]) == pytest.approx(power)
    assert growth.fit_last_step(sizes, [None, *(rows**power for rows in sizes[1:])]) == pytest.approx(power)
    assert growth.fit_exponent(sizes, [None, None, 1.0]) is None


def test_faster_growth_than_the_rows_misses_the_bar() -> None:
    facts = growth.collect_curves([race(1000, 1, 0.001), race(10_000, 1, 0.02)])
    lines = {line.name: line.cleared for line in growth.list_bars(facts)}
    assert not lines["count: exponent of the rows"]
    assert lines["registration: exponent of the rows"]


def test_whoever_takes_too_long_is_left_out_with_the_reason() -> None:
    """By what the last step added: what takes long however few the rows, as a start of Spark, is no reason."""
    first = race(1000, 15, 3)
    assert growth.explain_too_slow([first], OURS) == ""
    assert growth.explain_too_slow([first, race(10_000, 16, 3.1)], OURS) == ""
    assert "30 s to load" in growth.explain_too_slow([first, race(10_000, 30, 3.1)], OURS)
    assert "9 s to answer" in growth.explain_too_slow([first, race(10_000, 15, 9)], OURS)


def test_what_a_process_starts_counts() -> None:
    """A child that works has its time and its memory counted; Spark's engine is such a one."""
    busy = "held = bytearray(80_000_000)\nwhile True: pass"
    own_megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with subprocess.Popen([sys.executable, "-c", busy]) as child:
        try:
            assert child.pid in contestant.list_processes()
            while contestant.measure_child_seconds() < 0.1:
                time.sleep(0.01)
            assert contestant.measure_peak_megabytes() > own_megabytes + 70
        finally:
            child.kill()
    assert child.pid not in contestant.list_processes()


def test_the_table_is_the_same_however_long(tmp_path: Path) -> None:
    """Rows within the first part do not depend on how many follow; every part has a seed of its own."""
    import pyarrow.parquet as pq

    write_people(50, tmp_path / "t.parquet")
    assert pq.read_table(tmp_path / "t.parquet").equals(generate_people(50))
    assert AT_ONCE >= 10_000_000
    assert not generate_people(50, 2).equals(generate_people(50))


def rows(*ages: int, town: str = "x") -> list[dict[str, str]]:
    each = {"sex": "m", "region": town, "education": "none"}
    return [each | {"age": str(age), "row": str(place)} for place, age in enumerate(ages)]


def test_the_yardstick_by_hand() -> None:
    """Ages 0, 10, 20 and 100 in classes {0, 10} and {20}, 100 left out: widths 0.1 and 0 of one column of four."""
    original = rows(0, 10, 20, 100)
    original[3]["sex"], original[3]["region"], original[3]["education"] = "f", "y", "much"
    release = [each | {"age": "0-10" if place < 2 else "20"} for place, each in enumerate(original[:3])]
    loss = measure_loss(original, release)
    assert (loss.suppressed, loss.classes) == (1, 2)
    assert loss.spread == pytest.approx((2 * 0.1 / 4 + 1) / 4)
    assert loss.ages == pytest.approx(50 / 200)
    assert loss.discernibility == pytest.approx((4 + 1 + 4) / 4)


def test_engines_are_equal_only_to_the_last_integer() -> None:
    one = ExactInputs([()], [[(5, 7), np.array([1, 2])]])
    assert is_same(one, ExactInputs([()], [[(5, 7), np.array([1, 2])]]))
    assert not is_same(one, ExactInputs([()], [[(5, 8), np.array([1, 2])]]))
    assert not is_same(one, ExactInputs([()], [[(5, 7), np.array([1, 3])]]))
    assert not is_same(one, ExactInputs([(1,)], [[(5, 7), np.array([1, 2])]]))
