"""The benchmark of errors measures what it says: the truths are the table's, and a worse contestant is seen as one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from benchmarks.error.by_discreet import Tables
from benchmarks.error.jobs import ADD, GREATEST_AGE, GREATEST_INCOME, JOBS, LEAST_AGE, ROWS, STEP, Job
from benchmarks.error.priors import ImaginarySource, Outcome, Truth
from benchmarks.error.race import OURS, Errors, compare_with_peer
from benchmarks.error.table import People

from discreet.query.scan import ScanMeasure, TotalsScan

PEOPLE = People.generate()
NO_NOISE = 5000
# MIN and MAX aim inside whatever epsilon is.
AIMED = [job for job in JOBS if not job.what.startswith(("MIN", "MAX"))]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    with Tables(PEOPLE, tmp_path_factory.mktemp("error")) as opened:
        yield opened


def test_the_table_lies_within_what_all_are_told() -> None:
    assert len(PEOPLE.age) == ROWS
    assert LEAST_AGE <= PEOPLE.age.min() <= PEOPLE.age.max() <= GREATEST_AGE
    assert 0 <= PEOPLE.income.min() <= PEOPLE.income.max() <= GREATEST_INCOME
    assert not (PEOPLE.income % STEP).any()


@pytest.mark.parametrize("job", AIMED, ids=lambda job: f"{job.name}, {job.neighbors}")
def test_without_noise_every_job_has_its_exact_answer(tables: Tables, job: Job) -> None:
    """So the error that is measured is noise, and not another question; between two rows a quantile may be either."""
    answer, exact = tables.plan_question(job.sql, job.neighbors, NO_NOISE).answer_numbers(), PEOPLE.exact()[job.name]
    assert answer == pytest.approx(exact.tolist(), rel=2e-3)


@pytest.mark.parametrize("name", ["count", "mean by region", "median of income"])
def test_what_is_measured_is_what_the_custodian_answers(tables: Tables, name: str) -> None:
    """The same mechanism, label and, without noise, numbers: leaving out ledger and store changes none of them."""
    job = next(job for job in JOBS if job.name == name)
    planned, answer = (
        tables.plan_question(job.sql, ADD, NO_NOISE).draw_answer(),
        tables.custodians[ADD].answer(job.sql, epsilon=NO_NOISE),
    )
    assert (planned.mechanism, planned.guarantee, planned.columns) == (
        answer.mechanism,
        answer.guarantee,
        answer.columns,
    )
    for one, two in zip(planned.rows, answer.rows, strict=True):
        assert [one[number] for number in planned.numbers] == pytest.approx(
            [two[number] for number in planned.numbers], 2e-3
        )


def test_the_worse_contestant_misses_the_bar() -> None:
    """A tenth more noise in every answer shows; the same noise does not."""
    draw = np.random.Generator(np.random.PCG64(3))
    ours, peer = draw.laplace(0, 1, (2, 20_000, 1))
    for times, cleared in ((1.0, True), (1.1, False)):
        results = {(OURS, "count", 1.0): Errors.of(times * ours, np.zeros(1))}
        results["peer", "count", 1.0] = Errors.of(peer, np.zeros(1))
        assert compare_with_peer(results, "count", 1.0, "peer").cleared is cleared


def test_errors_of_cells_are_taken_together() -> None:
    assert Errors.of([[3, 4], [3, 4]], np.array([0, 0])).root == pytest.approx(12.5**0.5)


@pytest.mark.parametrize(("question", "asked", "near"), [("count", 970.4, 970), ("mean", 44_210, 44_210)])
def test_a_truth_drawn_from_a_prior_is_one_that_a_table_can_have(
    tables: Tables, question: str, asked: float, near: float
) -> None:
    job = next(job for job in JOBS if job.name == question)
    truth = Truth(question, 0, int(PEOPLE.is_old.sum())).nearest(asked)
    assert truth.value == pytest.approx(near, abs=STEP)
    ready = tables.plan_question(job.sql, ADD, NO_NOISE).over_source(truth.source)
    assert ready.answer_numbers() == pytest.approx([truth.value], rel=1e-4)


def test_imagined_rows_add_up_from_any_lowest_code() -> None:
    measures = ScanMeasure("present", "income"), ScanMeasure("sum", "income", 2)
    assert ImaginarySource(3, 12).totals(TotalsScan(measures)) == {(): (3, 6)}


def test_a_prior_is_judged_by_both_errors() -> None:
    outcome = Outcome(np.array([[2.0, 1.0], [-2.0, -1.0]]), np.array([[0.0], [1.0]]))
    assert outcome.ratio == 0.5
    assert outcome.warning_share == 0.5
