"""Rows, plan and ledger together: charge, draw, store, reply; and what happens when anything is odd."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from discreet import BudgetExceeded, Custodian, InvalidInput, Ledger, Prior, Unavailable, Unsupported
from discreet.custodian.measure import ExactInputs, sample_noisy_outputs
from discreet.planner.plan import NoisyResult, Plan
from discreet.sample import write_registry
from support import temporary_folders
from support.seeded_entropy import cache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PEOPLE_SCHEMA = """
name: people
source: people.csv
neighbours: add-remove
budget: {epsilon: 5, delta: 1e-5}
analyst_budget: {epsilon: 2, delta: 1e-5}
models: [dp, approx-dp]
"""
COLUMNS = """
columns:
  age: {kind: integer, lower: 0, upper: 99, missing: 0}
  sex: {kind: nominal, categories: [F, M]}
  town: {kind: nominal, keys: private}
"""


def write_people(folder: Path, head: str = PEOPLE_SCHEMA, rows: int = 400, seed: int = 1) -> Path:
    """A small table: half women, two towns that many live in and some where one does."""
    chance = random.Random(seed)
    lines = ["id,age,sex,town"]
    for number in range(rows):
        town = "Oslo" if number % 2 else "Rome" if number % 4 else f"hamlet {number}"
        lines.append(f"p{number},{chance.randrange(100)},{'F' if number % 2 else 'M'},{town}")
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    (folder / "people.yaml").write_text(head + COLUMNS)
    return folder / "people.yaml"


@cache
def register_people() -> Path:
    """A folder with that table, registered and never asked; made once."""
    folder = temporary_folders.lasting()
    Custodian.open(write_people(folder)).close()
    return folder


@pytest.fixture
def people_custodian(tmp_path: Path) -> Iterator[Custodian]:
    shutil.copytree(register_people(), tmp_path, dirs_exist_ok=True)
    with Custodian.open(tmp_path / "people.yaml") as custodian:
        yield custodian


def get_spent_epsilon(custodian: Custodian, analyst: str | None = None) -> Fraction | None:
    return next(
        balance.epsilon for balance in custodian.budget(analyst) if balance.model == "dp" and balance.analyst == analyst
    )


COUNT = "SELECT COUNT(*) FROM people WHERE sex = 'F'"


def test_an_answer_says_what_it_is(people_custodian: Custodian) -> None:
    a = people_custodian.answer(COUNT, epsilon=1, analyst="ann")
    assert abs(float(a.value) - 200) < 40  # type: ignore[arg-type]
    low, high = a.interval(0.95)  # type: ignore[misc]
    assert low == a.value - 3  # type: ignore[operator]
    assert high == a.value + 3  # type: ignore[operator]
    assert a.mechanism == "discrete Laplace"
    assert a.guarantee.words() == "Differential privacy with epsilon 1 when one row is added or removed."
    assert a.cost == a.guarantee
    assert a.to_json()["value"] == a.value


def test_the_same_question_is_the_same_answer_for_nothing(people_custodian: Custodian) -> None:
    """Averaging is no attack: equal questions, however written, are recognised."""
    first = people_custodian.answer(COUNT, epsilon=1, analyst="ann")
    second = people_custodian.answer(
        "SELECT count(*) AS women FROM people WHERE NOT sex <> 'F'", epsilon=0.5, analyst="ann"
    )
    assert second.value == first.value
    assert second.rows[0] == {"women": first.value}
    assert second.stored
    assert second.cost.epsilon == 0
    assert second.guarantee.epsilon == 1
    assert get_spent_epsilon(people_custodian) == get_spent_epsilon(people_custodian, "ann") == 1


def test_another_analyst_pays_for_a_stored_answer_on_her_own_account(people_custodian: Custodian) -> None:
    first = people_custodian.answer(COUNT, epsilon=1, analyst="ann")
    other = people_custodian.answer(COUNT, epsilon=1, analyst="bob")
    assert other.value == first.value
    assert other.cost.epsilon == 1
    assert (get_spent_epsilon(people_custodian), get_spent_epsilon(people_custodian, "bob")) == (1, 1)


def test_a_dearer_stored_answer_is_degraded_to_the_offer(people_custodian: Custodian) -> None:
    """She pays what she offered, and the data set nothing; the answer has the noise and the label of her epsilon."""
    people_custodian.answer(COUNT, epsilon=1, analyst="ann")
    offer = people_custodian.preview(COUNT, epsilon=0.5, analyst="bob")
    assert (offer.reuse, offer.stored, offer.cost.epsilon) == ("degraded", None, Fraction(1, 2))
    other = people_custodian.answer(COUNT, epsilon=0.5, analyst="bob")
    assert other.guarantee.epsilon == other.cost.epsilon == Fraction(1, 2)
    assert other.interval() == tuple(people_custodian.answer(COUNT, epsilon=0.5, analyst="bob").interval() or ())
    assert (get_spent_epsilon(people_custodian), get_spent_epsilon(people_custodian, "bob")) == (1, Fraction(1, 2))
    assert [entry.kind for entry in people_custodian.history("bob")] == ["degrade"]
    preview = people_custodian.preview(COUNT, epsilon=0.4, analyst="bob")
    assert (preview.reuse, preview.stored, preview.cost.epsilon) == ("own", Fraction(1, 2), 0)
    people_custodian.verify()


def test_a_dearer_stored_answer_of_another_law_is_drawn_anew_or_taken_by_consent(people_custodian: Custodian) -> None:
    median = "SELECT MEDIAN(age) FROM people"
    first = people_custodian.answer(median, epsilon=Fraction(1, 2), analyst="ann")
    anew = people_custodian.answer(median, epsilon=Fraction(1, 10), analyst="bob")
    assert anew.cost.epsilon == Fraction(1, 10)
    assert (get_spent_epsilon(people_custodian), get_spent_epsilon(people_custodian, "bob")) == (
        Fraction(6, 10),
        Fraction(1, 10),
    )
    offer = people_custodian.preview(median, epsilon=Fraction(1, 5), analyst="cat", reuse="any")
    assert (offer.reuse, offer.stored, offer.cost.epsilon) == ("shared", None, Fraction(1, 2))
    taken = people_custodian.answer(median, epsilon=Fraction(1, 5), analyst="cat", reuse="any")
    assert (taken.value, taken.cost.epsilon) == (first.value, Fraction(1, 2))
    assert get_spent_epsilon(people_custodian) == Fraction(6, 10)
    with pytest.raises(InvalidInput, match='reuse is "any"'):
        people_custodian.answer(median, epsilon=Fraction(1, 5), analyst="cat", reuse="all")


def test_a_larger_epsilon_or_fresh_draws_anew(people_custodian: Custodian) -> None:
    people_custodian.answer(COUNT, epsilon=Fraction(1, 10), analyst="ann")
    people_custodian.answer(COUNT, epsilon=Fraction(2, 10), analyst="ann")
    people_custodian.answer(COUNT, epsilon=Fraction(1, 10), analyst="ann", fresh=True)
    assert get_spent_epsilon(people_custodian) == Fraction(4, 10)


def test_a_key_pays_once(people_custodian: Custodian) -> None:
    first = people_custodian.answer(COUNT, epsilon=1, analyst="ann", key="k", fresh=True)
    second = people_custodian.answer(COUNT, epsilon=1, analyst="ann", key="k", fresh=True)
    assert second.rows == first.rows
    assert get_spent_epsilon(people_custodian) == 1
    with pytest.raises(InvalidInput, match="used for another request"):
        people_custodian.answer(COUNT, epsilon=Fraction(1, 2), analyst="ann", key="k", fresh=True)


def test_a_budget_ends(people_custodian: Custodian) -> None:
    """Per analyst and over all of them; the refusal says what is left and what would fit."""
    people_custodian.answer(COUNT, epsilon=1.5, analyst="ann")
    with pytest.raises(BudgetExceeded, match=r"at most 0\.5"):
        people_custodian.answer(COUNT, epsilon=1.6, analyst="ann")
    people_custodian.answer(COUNT, epsilon=1.6, analyst="bob")
    people_custodian.answer(COUNT, epsilon=1.7, analyst="cy")
    with pytest.raises(BudgetExceeded, match=r"at most 0\.2"):
        people_custodian.answer(COUNT, epsilon=1.9, analyst="dan")
    assert get_spent_epsilon(people_custodian) == Fraction(48, 10)


def test_groups_hold_every_cell_of_the_schema(people_custodian: Custodian) -> None:
    a = people_custodian.answer("SELECT sex, COUNT(*) FROM people GROUP BY sex", epsilon=1)
    assert [row["sex"] for row in a.rows] == ["F", "M", None]
    with pytest.raises(InvalidInput, match="several"):
        _ = a.value
    assert len(a.interval()) == 3  # type: ignore[arg-type]


def test_layout_is_free(people_custodian: Custodian) -> None:
    people_custodian.answer("SELECT sex, COUNT(*) FROM people GROUP BY sex", epsilon=1)
    a = people_custodian.answer(
        "SELECT COUNT(*) AS n, sex FROM people GROUP BY sex HAVING COUNT(*) > 100 ORDER BY n LIMIT 1", epsilon=1
    )
    assert a.stored
    assert len(a.rows) == 1
    assert a.columns == ("n", "sex")


def test_keys_that_are_not_public_are_shown_over_a_threshold(people_custodian: Custodian) -> None:
    """Two hundred people of Oslo are seen, one of a hamlet is not."""
    a = people_custodian.answer(
        "SELECT town, COUNT(*) FROM people GROUP BY town ORDER BY 2 DESC", epsilon=1, delta=1e-6
    )
    assert [row["town"] for row in a.rows] == ["Oslo", "Rome"]
    assert a.guarantee.model == "approx-dp"
    with_age = people_custodian.answer(
        "SELECT town, COUNT(*), AVG(age) FROM people GROUP BY town", epsilon=1, delta=1e-6
    )
    assert {row["town"] for row in with_age.rows} == {"Oslo", "Rome"}
    flags = [balance.flags for balance in people_custodian.budget() if balance.model == "dp"]
    assert flags == [("the DP total no longer describes all disclosure",)]


def test_gaussian_noise_is_charged_as_rho(tmp_path: Path) -> None:
    """Where it is the lesser noise: a unit may be in many groups, and once in each."""
    with Custodian.open(write_people(tmp_path, PEOPLE_SCHEMA + "unit: {column: id, rows: 40}\n")) as custodian:
        a = custodian.answer("SELECT sex, COUNT(DISTINCT id) FROM people GROUP BY sex", epsilon=1, delta=1e-6)
        assert a.mechanism == "discrete Gaussian"
        assert a.guarantee.model == "approx-dp"
        last = custodian.history()[0]
        assert last.spend is not None
        assert last.spend.gaussian_rho > 0
        assert last.spend.epsilon == 0


def test_one_person(tmp_path: Path) -> None:
    """Where it is allowed; an absent person is answered from the prior, and each person has an account."""
    head = PEOPLE_SCHEMA + "unit: {column: id, rows: 1}\nindividual_queries: yes\n"
    with Custodian.open(write_people(tmp_path, head)) as custodian:
        for person in ("p1", "p2", "nobody"):
            a = custodian.answer(f"SELECT sex FROM people FOR UNIT '{person}'", epsilon=1, analyst=person)
            assert a.value in {"F", "M"}
            assert a.guarantee.unit == "unit (id)"
        assert get_spent_epsilon(custodian) == 1
        b = custodian.answer("SELECT age FROM people FOR UNIT 'p1'", epsilon=1, analyst="x", prior="point(44)")
        assert b.posterior is not None  # a tenth of what is used for a prior lies in its tails, so no draw is certain
        assert b.posterior.median() == 44
        assert get_spent_epsilon(custodian) == 2


def test_one_person_is_refused_where_it_is_not_allowed(people_custodian: Custodian) -> None:
    with pytest.raises(InvalidInput, match="not allowed"):
        people_custodian.answer("SELECT sex FROM people FOR UNIT 'p1'", epsilon=1)


def test_individual_dp_has_its_own_label_and_account(tmp_path: Path) -> None:
    head = PEOPLE_SCHEMA.replace("[dp, approx-dp]", "[dp, individual-dp]\nindividual_dp_reason: a test")
    head = head.replace("add-remove", "replace-one\nunits: 400")
    with Custodian.open(write_people(tmp_path, head)) as custodian:
        a = custodian.answer("SELECT MEDIAN(age) FROM people", epsilon=1, model="individual-dp")
        assert "weaker" in a.guarantee.words()
        balances = {balance.model: balance for balance in custodian.budget()}
        assert balances["dp"].epsilon == 0
        assert balances["dp"].flags
        assert balances["individual-dp"].epsilon == 1
        custodian.answer("SELECT SUM(age) FROM people", epsilon=1)
        assert next(balance for balance in custodian.budget() if balance.model == "individual-dp").epsilon == 2
        with pytest.raises(Unsupported, match="public number"):
            custodian.answer("SELECT MEDIAN(age) FROM people WHERE sex = 'F'", epsilon=1, model="individual-dp")


def test_the_declared_number_is_used_and_never_a_counted_one(tmp_path: Path) -> None:
    """A mismatch is told to the custodian alone: in the manifest, not in an answer."""
    head = PEOPLE_SCHEMA.replace("add-remove", "replace-one\nunits: 1000")
    path = write_people(tmp_path, head)
    snapshot = Custodian.check(path)
    assert snapshot.report["units"] == 400
    with Custodian.open(path) as custodian:
        a = custodian.answer("SELECT COUNT(*) FROM people", epsilon=1)
        assert a.value == 1000
        assert a.cost.epsilon == 0
        assert "public" in a.mechanism
        assert get_spent_epsilon(custodian) == 0


def test_partitions_are_counted_in_parallel(tmp_path: Path) -> None:
    with Custodian.open(write_people(tmp_path, PEOPLE_SCHEMA + "partition: sex\n")) as custodian:
        custodian.answer("SELECT SUM(age) FROM people WHERE sex = 'F'", epsilon=1, analyst="ann")
        custodian.answer("SELECT SUM(age) FROM people WHERE sex = 'M' AND age > 3", epsilon=1, analyst="ann")
        assert get_spent_epsilon(custodian) == 1
        custodian.answer("SELECT SUM(age) FROM people", epsilon=1, analyst="ann")
        assert get_spent_epsilon(custodian) == 2


def test_a_refreshed_data_set_keeps_what_was_spent(tmp_path: Path) -> None:
    path = write_people(tmp_path)
    with Custodian.open(path) as custodian:
        first = custodian.answer(COUNT, epsilon=1)
    write_people(tmp_path, rows=800)
    Custodian.check(path, name="spring")
    with Custodian.open(path) as custodian:
        assert get_spent_epsilon(custodian) == 1
        second = custodian.answer(COUNT, epsilon=1, analyst="bob")
        assert float(second.value) > float(first.value) + 100  # type: ignore[arg-type]
        assert get_spent_epsilon(custodian) == 2
    Custodian.check(path, name="summer", disjoint=True)
    with Custodian.open(path) as custodian:
        assert get_spent_epsilon(custodian) == 0


def test_a_changed_schema_needs_a_new_snapshot(tmp_path: Path) -> None:
    path = write_people(tmp_path)
    Custodian.open(path).close()
    path.write_text(path.read_text().replace("upper: 99", "upper: 90"))
    with pytest.raises(InvalidInput, match="changed since snapshot"):
        Custodian.open(path)
    Custodian.check(path)
    Custodian.open(path).close()


def test_what_was_promised_to_whom_does_not_change(tmp_path: Path) -> None:
    """Epsilons of rows and of persons, or of two relations, do not add up: another promise is another data set."""
    path = write_people(tmp_path)
    Custodian.open(path).close()
    for old, new in (("add-remove", "replace-one\nunits: 400"), ("models", "unit: {column: id}\nmodels")):
        text = path.read_text()
        path.write_text(text.replace(old, new))
        with pytest.raises(InvalidInput, match="was promised for row under add-remove"):
            Custodian.open(path)
        with pytest.raises(InvalidInput, match="was promised for row under add-remove"):
            Custodian.check(path)
        path.write_text(text)


def test_a_stored_answer_is_read_by_the_plan_that_drew_it(tmp_path: Path) -> None:
    """A sum too wide for Gaussian noise at a small epsilon is pure there, and stays so when a stored one serves."""
    path = write_people(tmp_path)
    path.write_text(path.read_text().replace("upper: 99", f"upper: {2**38}"))
    with Custodian.open(path) as custodian:
        first = custodian.answer("SELECT SUM(age) FROM people", epsilon=2, analyst="ann")
        second = custodian.answer("SELECT SUM(age) FROM people", epsilon=1, delta=1e-6, analyst="ann")
        assert second.value == first.value
        assert second.mechanism == "staircase"
        assert second.guarantee == first.guarantee


def test_spend_is_kept_in_one_ledger(tmp_path: Path) -> None:
    """An empty ledger in its place would be a new budget; so would another data set's."""
    path = write_people(tmp_path)
    Custodian.open(path, ledger=tmp_path / "one.db").close()
    with pytest.raises(InvalidInput, match="no ledger"):
        Custodian.open(path, ledger=tmp_path / "two.db")
    assert not list(tmp_path.glob("two.db*"))
    Ledger.open(tmp_path / "two.db").close()
    with pytest.raises(InvalidInput, match="another ledger"):
        Custodian.open(path, ledger=tmp_path / "two.db")
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(InvalidInput, match="another data set"):
        Custodian.open(write_people(other), ledger=tmp_path / "one.db")


def test_a_source_that_is_gone_is_unavailable(tmp_path: Path) -> None:
    path = write_people(tmp_path)
    Custodian.open(path).close()
    next((tmp_path / "people.discreet").glob("*.duckdb")).unlink()
    with pytest.raises(Unavailable, match="gone"):
        Custodian.open(path)


def test_what_fails_while_rows_are_read_stays_charged(
    people_custodian: Custodian, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No refund: who can make a source fail would learn from that for nothing. A retry with the key is free."""

    def fail_to_read(*_: object) -> None:
        raise Unavailable("the source did not answer")

    with monkeypatch.context() as while_away:
        while_away.setattr("discreet.custodian.custodian.scan_rows", fail_to_read)
        with pytest.raises(Unavailable, match="what was charged stays charged"):
            people_custodian.answer(COUNT, epsilon=1, analyst="ann", key="k")
        assert get_spent_epsilon(people_custodian) == get_spent_epsilon(people_custodian, "ann") == 1
    people_custodian.answer(COUNT, epsilon=1, analyst="ann", key="k")
    assert get_spent_epsilon(people_custodian) == get_spent_epsilon(people_custodian, "ann") == 1
    assert people_custodian.verify().entries == 3


def test_every_cell_is_drawn_apart(people_custodian: Custodian) -> None:
    """The same draw for two cells would make their difference exact."""
    numbers_by_draw = []
    for _ in range(20):
        rows = people_custodian.answer("SELECT sex, SUM(age) FROM people GROUP BY sex", epsilon=0.01, fresh=True).rows
        numbers_by_draw.append({row["sex"]: row["SUM(age)"] for row in rows})
    assert len({numbers["F"] - numbers["M"] for numbers in numbers_by_draw}) > 10


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_tables_in_memory_are_sources(tmp_path: Path, library: str) -> None:
    columns = {"age": [30, 40, 50], "sex": ["F", "M", None], "town": ["a", "b", "c"]}
    if library == "pandas":
        import pandas

        table: object = pandas.DataFrame(columns)
    elif library == "polars":
        import polars

        table = polars.DataFrame(columns)
    else:
        import pyarrow

        table = pyarrow.table(columns)
    path = write_people(tmp_path)
    with Custodian.open(path, source=table) as custodian:
        a = custodian.answer("SELECT COUNT(*) FROM people", epsilon=2)
        assert abs(float(a.value) - 3) < 25  # type: ignore[arg-type]
    paths = sorted(tmp_path.rglob("*"))
    (path.with_suffix(".discreet") / ".again-killed").mkdir()  # what a process left that was killed goes
    with Custodian.open(path, source=table) as custodian:  # a notebook's cell, run again
        assert custodian.answer("SELECT COUNT(*) FROM people", epsilon=2).value == a.value
    with pytest.raises(InvalidInput, match="registered already, of another table"):
        Custodian.open(path, source=table[:2])  # type: ignore[index]
    assert sorted(tmp_path.rglob("*")) == paths


def test_a_schema_for_a_table_in_memory(tmp_path: Path) -> None:
    """Its table is handed over once; until then there is nothing to ask."""
    import pandas

    path = write_people(tmp_path, PEOPLE_SCHEMA.replace("people.csv", "memory"))
    with pytest.raises(InvalidInput, match="the source of people is memory: hand the table over with source=, once"):
        Custodian.open(path)
    table = pandas.DataFrame({"id": ["a"], "age": [30], "sex": ["F"], "town": ["Oslo"]})
    for source in (table, None):
        with Custodian.open(path, source=source) as custodian:
            assert custodian.schema.source == "memory"


def test_a_table_of_postgres(tmp_path: Path, postgres: str) -> None:
    """Rows stay in PostgreSQL, and so may the ledger."""
    import psycopg

    address = f"postgresql:///postgres?{postgres.replace(' ', '&')}" if "://" not in postgres else postgres
    with psycopg.connect(postgres) as connection:
        connection.execute(
            "DROP TABLE IF EXISTS people_here; CREATE TABLE people_here (id text, age int, sex text, town text)"
        )
        connection.execute(
            "INSERT INTO people_here SELECT 'p' || i, i % 100, 'F', 'Oslo' FROM generate_series(1, 500) i"
        )
    path = write_people(tmp_path, PEOPLE_SCHEMA.replace("people.csv", f'"{address}#public.people_here"'))
    with Custodian.open(path, ledger=address) as custodian:
        a = custodian.answer(COUNT, epsilon=1)
        assert abs(float(a.value) - 500) < 25  # type: ignore[arg-type]
        assert custodian.answer(COUNT, epsilon=1).stored


def test_a_table_of_spark(tmp_path: Path, spark: SparkSession) -> None:
    rows = [(f"p{number}", number % 100, "F", "Oslo") for number in range(300)]
    spark.createDataFrame(rows, ["id", "age", "sex", "town"]).createOrReplaceTempView("people_there")
    path = write_people(tmp_path, PEOPLE_SCHEMA.replace("people.csv", "spark:people_there"))
    with Custodian.open(path) as custodian:
        a = custodian.answer(COUNT, epsilon=1)
        assert abs(float(a.value) - 300) < 25  # type: ignore[arg-type]


MEAN = "SELECT AVG(age) FROM people WHERE age > 50"


def test_neighbours_see_the_same_charges_and_words(tmp_path: Path) -> None:
    """All that is not drawn is the same on two tables that differ in everything: labels, costs, refusals.

    The accuracy of a mean is computed from the noisy mean: its words are compared without the distance. The next test
    compares it with the distance, given the same noisy totals.
    """
    questions: list[tuple[str, dict[str, Any]]] = [
        (COUNT, {}),
        (MEAN, {}),
        ("SELECT MEDIAN(age) FROM people", {"prior": "normal(40, 9)"}),
        ("SELECT sex, SUM(age) FROM people GROUP BY sex", {}),
        ("SELECT MAX(age), MIN(age), MODE(sex) FROM people", {}),
        ("SELECT sex, COUNT(*) FROM people GROUP BY sex", {"delta": 1e-6}),
        ("SELECT MEDIAN(height) FROM people", {}),
        ("SELECT COUNT(*) FROM people WHERE sex = 'X'", {}),
        ("SELECT SUM(age) FROM people", {"epsilon": 9}),
        (MEAN, {"epsilon": None, "accuracy": "±30"}),
    ]
    outcomes = []
    for number, rows in enumerate((1, 400)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Custodian.open(write_people(folder, rows=rows, seed=number)) as custodian:
            outcomes.append([_describe_answer(custodian, text, options) for text, options in questions])
            outcomes[-1].append(custodian.budget("ann"))
    assert outcomes[0] == outcomes[1]


def _describe_answer(custodian: Custodian, text: str, options: dict[str, Any]) -> object:
    try:
        a = custodian.answer(text, **({"epsilon": Fraction(1, 10), "analyst": "ann"} | options))
    except (InvalidInput, BudgetExceeded) as refusal:
        return type(refusal), str(refusal)
    document = a.to_json()
    rows = [sorted(row) for row in document.pop("rows")]  # type: ignore[attr-defined]
    if text == MEAN:
        document["accuracy"] = re.sub(r"(?<=^within )[0-9,.]+", "#", a.accuracy)
    return rows, {
        name: document[name] for name in ("columns", "mechanism", "accuracy", "guarantee", "cost", "entry", "stored")
    }


def test_a_reply_is_a_function_of_the_noisy_totals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the same noisy totals, two tables that differ in everything get the same reply, to the byte.

    Also in how accurate it says it is, and in whether it says that it misses the accuracy that was requested.
    """
    questions: list[tuple[str, dict[str, Any]]] = [
        (MEAN, {"epsilon": Fraction(1, 10)}),
        (MEAN, {"accuracy": "±30", "rows": 100}),
        ("SELECT sex, AVG(age) FROM people GROUP BY sex", {"accuracy": "±40", "rows": 100}),
        ("SELECT STDDEV(age), COUNT(*) FROM people WHERE sex = 'F'", {"epsilon": Fraction(1, 2)}),
        (MEAN, {"epsilon": Fraction(1, 4), "prior": "normal(60, 9)"}),
    ]
    real, recorded_outputs, unmatched_plans = sample_noisy_outputs, list[NoisyResult](), []

    def record_totals(query_plan: Plan, exact_inputs: ExactInputs) -> NoisyResult:
        recorded_outputs.append(real(query_plan, exact_inputs))
        return recorded_outputs[-1]

    def replay_totals(query_plan: Plan, exact_inputs: ExactInputs) -> NoisyResult:
        real(query_plan, exact_inputs)
        return recorded_outputs.pop(0)

    for first in (1, 400):  # fewer rows than were expected, and as many
        documents = []
        for rows, draw in ((first, record_totals), (401 - first, replay_totals)):
            monkeypatch.setattr("discreet.custodian.custodian.sample_noisy_outputs", draw)
            folder = tmp_path / f"{first} {rows}"
            folder.mkdir()
            head = PEOPLE_SCHEMA.replace("epsilon: 5", "epsilon: 20").replace("epsilon: 2,", "epsilon: 20,")
            with Custodian.open(write_people(folder, head, rows=rows, seed=rows)) as custodian:
                answers = [custodian.answer(text, **options) for text, options in questions]
            documents.append([(a.to_json(), str(a)) for a in answers])
        assert documents[0] == documents[1]
        unmatched_plans.append([bool(a.missed_accuracy) for a in answers])
    assert unmatched_plans == [
        [False, True, True, False, False],
        [False, False, True, False, False],
    ]  # nobody is of no sex


def test_processes_share_one_data_set(tmp_path: Path) -> None:
    """Two processes open it for the first time at once: one registers, both answer, one budget."""
    path = write_people(tmp_path)
    script = (
        "import sys; from discreet import Custodian\n"
        "with Custodian.open(sys.argv[1]) as custodian:\n"
        "    custodian.answer(sys.argv[2], epsilon=0.25, analyst=sys.argv[3], fresh=True)"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", script, str(path), COUNT, f"a{number}"], stdout=subprocess.PIPE)
        for number in range(4)
    ]
    assert all(child.wait() == 0 for child in children)
    for child in children:
        child.communicate()
    with Custodian.open(path) as custodian:
        assert get_spent_epsilon(custodian) == 1


def test_the_sample_registry_is_answered(tmp_path: Path) -> None:
    """A question of every form, against the synthetic truth."""
    with Custodian.open(write_registry(tmp_path, patients=3000)) as custodian:
        texts = [
            "SELECT AVG(income) FROM registry WHERE sex = 'F'",
            "SELECT hospital, COUNT(*) FROM registry GROUP BY hospital",
            "SELECT QUANTILE(bmi, 0.25, 0.5, 0.75) FROM registry",
            "SELECT HISTOGRAM(age, 8) FROM registry",
            "SELECT chapters.chapter, COUNT(*) FROM registry JOIN chapters USING (diagnosis) GROUP BY 1",
            "SELECT MAX(admitted), MIN(stay) FROM registry WHERE smoker",
        ]
        for number, text in enumerate(texts):
            a = custodian.answer(text, epsilon=Fraction(1, 3), analyst=f"a{number}")
            assert a.rows
            assert all(name in row for row in a.rows for name in a.columns)


def test_questions_of_another_kind_are_refused(people_custodian: Custodian) -> None:
    with pytest.raises(InvalidInput, match="SQL text"):
        people_custodian.answer(17, epsilon=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="over numbers"):
        people_custodian.answer("SELECT MEDIAN(age) FROM people", epsilon=1, prior=Prior.weights({"a": 1}))
    assert get_spent_epsilon(people_custodian) == 0


def test_a_preview_costs_nothing(people_custodian: Custodian) -> None:
    preview = people_custodian.preview(COUNT, epsilon=1, analyst="ann")
    assert preview.guarantee.epsilon == 1
    assert "within 3" in preview.accuracy
    assert get_spent_epsilon(people_custodian) == 0
    assert [entry.kind for entry in people_custodian.history()] == ["register"]
