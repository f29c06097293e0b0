"""What was paid for can be read: no answer is lost to what is told beside it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from discreet import Custodian, InvalidInput
from discreet.answers import reconciled_counts
from discreet.errors import Unsupported

HEAD = "name: t\nsource: t.csv\nneighbours: {relation}\n{units}unit: {{column: id, rows: 1}}\n"
COLUMNS = """
budget: {epsilon: 1e9}
analyst_budget: {epsilon: 1e9}
columns:
  age: {kind: integer, lower: 0, upper: 99, missing: 0}
  sex: {kind: nominal, categories: [F, M]}
  grade: {kind: nominal, categories: [a, b, c, d]}
"""


@pytest.fixture(scope="module", params=["add-remove", "replace-one"])
def grades_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 400 rows of two columns with missing values, registered and never asked."""
    folder = tmp_path_factory.mktemp("registered")
    chance = random.Random(3)
    lines = [f"p{index},{chance.randrange(100)},{chance.choice('FM')},{chance.choice('abcd')}" for index in range(400)]
    (folder / "t.csv").write_text("\n".join(["id,age,sex,grade", *lines]) + "\n")
    units = "units: 400\n" if request.param == "replace-one" else ""
    (folder / "t.yaml").write_text(HEAD.format(relation=request.param, units=units) + COLUMNS)
    Custodian.open(folder / "t.yaml").close()
    return folder


@pytest.fixture
def grades_custodian(grades_folder: Path, tmp_path: Path) -> Iterator[Custodian]:
    """Of a table of one's own."""
    with Custodian.open(shutil.copytree(grades_folder, tmp_path / "own") / "t.yaml") as opened:
        yield opened


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*), COUNT(sex) FROM t WHERE sex IS NULL",
        "SELECT grade, COUNT(*), COUNT(sex) FROM t WHERE sex IS NULL GROUP BY grade",
        "SELECT COUNT(sex), COUNT(grade) FROM t WHERE sex IS NULL AND grade IS NULL",
        "SELECT COUNT(*), COUNT(*) FILTER (WHERE (age < 5 AND sex = 'F' OR age > 9 AND sex = 'M') "
        "AND (age < 5 AND sex = 'M' OR age > 9 AND sex = 'F')) FROM t",
    ],
)
def test_counts_that_can_hold_no_row(grades_custodian: Custodian, text: str) -> None:
    """Beside others they are answered too, or the question is refused before it is paid for."""
    answer = grades_custodian.answer(text, epsilon=1)
    assert answer.to_json()["rows"]
    assert grades_custodian.answer(text, epsilon=1).rows == answer.rows


def test_a_histogram_of_one_bin(grades_custodian: Custodian) -> None:
    """Where the number of rows is public it is refused, and nothing is charged."""
    text = "SELECT HISTOGRAM(age, 1) FROM t"
    if grades_custodian.schema.units is None:
        assert len(grades_custodian.answer(text, epsilon=1).rows) == 1
        return
    with pytest.raises(InvalidInput, match="which is public"):
        grades_custodian.answer(text, epsilon=1)
    assert all(balance.epsilon == 0 for balance in grades_custodian.budget())


@pytest.mark.parametrize("times", [12, pytest.param(40, marks=pytest.mark.soak)])
def test_totals_at_their_ends_do_not_contradict_each_other(grades_custodian: Custodian, times: int) -> None:
    """Noise far beyond the number of units, for counts that include one another: they are put to an end in turn."""
    text = (
        "SELECT grade, COUNT(*) AS n, COUNT(*) FILTER (WHERE grade = 'a' AND sex = 'F') AS a, "
        "COUNT(*) FILTER (WHERE grade = 'd' AND sex = 'M') AS d FROM t WHERE age < 90 GROUP BY grade"
    )
    for _ in range(times):
        reconciled = grades_custodian.answer(text, epsilon=Fraction(3, 1000), fresh=True).reconciled
        assert reconciled is not None
        assert not any("as drawn" in why for why in reconciled.because)
        if grades_custodian.schema.units is not None:
            assert all(sum(int(row[name]) for row in reconciled.rows) <= 400 for name in "nad")  # type: ignore[arg-type]


def test_a_stated_most_of_each_cell_bounds_the_total_too(grades_custodian: Custodian) -> None:
    text = "SELECT BIN(age, 5) AS b, COUNT(*) FROM t WHERE sex = 'F' GROUP BY b"
    reconciled = grades_custodian.answer(text, epsilon=1, constraints=(value for value in ["each <= 3"])).reconciled  # type: ignore[arg-type]
    assert reconciled is not None
    assert "you stated, and it is taken to be true of every data set: each <= 3" in reconciled.because
    assert max(int(row["COUNT(*)"]) for row in reconciled.rows) <= 3  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**9), Fraction(1, 10**6), Fraction(300), Fraction(10**4)])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT HISTOGRAM(age, 100) FROM t",
        "SELECT HISTOGRAM(age, 3) FROM t WHERE sex = 'F'",
        "SELECT grade, sex, COUNT(*) FROM t GROUP BY ROLLUP (grade, sex)",
        "SELECT grade, COUNT(*), COUNT(*) FILTER (WHERE age < 30) FROM t GROUP BY grade",
    ],
)
def test_at_any_epsilon(grades_custodian: Custodian, text: str, epsilon: Fraction) -> None:
    """Noise as large as numbers get, and hardly any."""
    document = grades_custodian.answer(text, epsilon=epsilon).to_json()
    assert document["rows"]
    assert document["reconciled"]["rows"]  # type: ignore[index]


def test_rows_stay_as_drawn_where_nothing_that_fits_is_found(
    grades_custodian: Custodian, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is said why."""

    def refuse_to_solve(*_: object) -> None:
        raise Unsupported("there is no such number")

    monkeypatch.setattr(reconciled_counts, "build_count_rules", refuse_to_solve)
    answer = grades_custodian.answer("SELECT grade, COUNT(*) FROM t GROUP BY grade", epsilon=1)
    assert answer.reconciled is not None
    assert answer.reconciled.rows == answer.rows
    assert answer.reconciled.because == ("as drawn, since nothing that fits was found: there is no such number",)


def test_sessions_refuse_filters_that_no_row_satisfies(grades_custodian: Custodian) -> None:
    with (
        grades_custodian.session(noise_scale=20, epsilon=1) as session,
        pytest.raises(InvalidInput, match="no row can"),
    ):
        session.answer("SELECT COUNT(*) FILTER (WHERE age > 3 AND age < 2) FROM t")
