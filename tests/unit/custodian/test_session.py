"""A session: paid once, it counts while the joint sensitivity fits; refusals follow from the questions alone."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest

from discreet import BudgetExceeded, Custodian, DiscreetError, InvalidInput, Ledger, Unavailable, Unsupported
from discreet.custodian.session import (
    JOINT_PROMISE,
    AdmittedQuestion,
    CountingSession,
    SessionLog,
    start_counting_session,
)
from discreet.ledger import Caps
from discreet.query.scan import Amounts, Cell, TotalsScan
from discreet.sample import write_registry
from discreet.schema import Schema
from discreet.service.store.stored_answers import StoredLog
from discreet.sources.memory import MemorySource
from support.small_tables import schema

ADD, REPLACE = schema("add-remove", 1, 0), schema("replace-one", 1, units=40)
SEVERAL = schema("add-remove", 3, 0)
ROWS = [
    {"age": n % 8 - 3, "score": n % 7, "debt": -1, "sex": n % 2, "grade": n % 3, "smoker": 0, "day": 12, "city": "Oslo"}
    for n in range(40)
]
ROWS = [row | {"#unit": str(n), "age": None if n % 10 == 0 else row["age"]} for n, row in enumerate(ROWS)]
WOMEN, MEN = "SELECT COUNT(*) FROM t WHERE sex = 'F'", "SELECT COUNT(*) FROM t WHERE sex = 'M'"


class ForbiddenSource(MemorySource):
    """A source that nobody may look at; how often someone did."""

    looks = 0

    def totals(self, plan: TotalsScan) -> Mapping[Cell, Amounts]:
        ForbiddenSource.looks += 1
        raise AssertionError(f"someone looked: {plan}")


class FailingSource(MemorySource):
    """A source that fails the first time."""

    failed = False

    def totals(self, plan: TotalsScan) -> Mapping[Cell, Amounts]:
        if not self.failed:
            self.failed = True
            raise Unavailable("the source does not answer")
        return super().totals(plan)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "ledger.db") as opened:
        opened.register("t", "t", "s", disjoint=False)
        yield opened


def start_session(
    ledger: Ledger,
    declared_schema: Schema = ADD,
    noise_scale: object = 20,
    epsilon: object = 1,
    key: str | None = None,
    kind: type[MemorySource] = MemorySource,
) -> CountingSession:
    caps = Caps(declared_schema.budget, declared_schema.analyst_budget, declared_schema.models)
    return start_counting_session(
        declared_schema, kind(declared_schema, ROWS), ledger, caps, "s", noise_scale, epsilon, "ann", key
    )


def read_spent_epsilon(ledger: Ledger) -> Fraction | None:
    return ledger.balance("t", Caps(ADD.budget, ADD.analyst_budget, ("dp",)))[0].epsilon


def test_the_whole_session_is_paid_on_opening_and_never_again(ledger: Ledger) -> None:
    """Before the first answer, and no more after many; the history says what it was."""
    with start_session(ledger) as s:
        assert read_spent_epsilon(ledger) == 1
        for age in range(-3, 5):
            s.answer(f"SELECT COUNT(*) FROM t WHERE age = {age}")
    assert read_spent_epsilon(ledger) == 1
    assert ledger.history("t")[0].query == "a session of counting questions with noise scale 20"


def test_an_answer_is_a_count_with_noise_of_the_scale(ledger: Ledger) -> None:
    """Its interval is that of the scale; its label is that of the session; it cost nothing more now."""
    with start_session(ledger, noise_scale=2) as s:
        a = s.answer(WOMEN)
        wide = s.answer("SELECT COUNT(age) FROM t WHERE sex = 'M'", noise_scale=4)
    low, high = a.interval(0.95)  # type: ignore[misc]
    assert low == a.value - 6  # type: ignore[operator]
    assert high == a.value + 6  # type: ignore[operator]
    assert abs(float(a.value) - 20) < 60  # type: ignore[arg-type]
    assert wide.interval(0.95)[1] - wide.value == 12  # type: ignore[index, operator]
    assert a.guarantee.epsilon == 1
    assert a.guarantee.words() == "Differential privacy with epsilon 1 when one unit (pid) is added or removed."
    assert JOINT_PROMISE in a.guarantee.assumptions
    assert a.cost.epsilon == 0
    assert not a.stored
    assert a.spent["dp"] == 1


PEOPLE_SCHEMA = """
name: people
source: people.csv
neighbours: add-remove
budget: {epsilon: 3}
analyst_budget: {epsilon: 1}
columns:
  age: {kind: integer, lower: 0, upper: 99, missing: 0}
"""


def test_a_custodian_opens_sessions_on_what_it_holds(tmp_path: Path) -> None:
    """On a table of its own, within the analyst's budget: a second session is one too many."""
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(str(age % 100) for age in range(1000)))
    (tmp_path / "people.yaml").write_text(PEOPLE_SCHEMA)
    with Custodian.open(tmp_path / "people.yaml") as people:
        with people.session(noise_scale=4, epsilon=1) as s:
            assert abs(float(s.answer("SELECT COUNT(*) FROM people WHERE age < 50").value) - 500) < 100  # type: ignore[arg-type]
        with pytest.raises(BudgetExceeded):
            people.session(noise_scale=4, epsilon=1)
        assert people.budget("analyst")[-1].left == 0


def test_the_mean_of_many_sessions_is_the_count(ledger: Ledger) -> None:
    """The count of the rows asked for, with a value where one is asked for, and by cells."""
    values_and_intervals = []
    for _ in range(30):
        with start_session(ledger, noise_scale=Fraction(1, 4), epsilon=12) as s:
            women = s.answer("SELECT COUNT(age) FROM t WHERE sex = 'F'").value
            cells = s.answer("SELECT sex, COUNT(DISTINCT pid) AS n FROM t GROUP BY sex ORDER BY n").rows
            values_and_intervals.append((women, {row["sex"]: row["n"] for row in cells}))
    assert round(sum(float(one) for one, _ in values_and_intervals) / 30) == 16  # type: ignore[arg-type]
    assert round(sum(float(cells["M"]) for _, cells in values_and_intervals) / 30) == 20  # type: ignore[arg-type]
    assert round(sum(float(cells[None]) for _, cells in values_and_intervals) / 30) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(("declared_schema", "together"), [(ADD, Fraction(1, 20)), (REPLACE, Fraction(1, 10))])
def test_disjoint_questions_cost_together_what_the_relation_says(
    ledger: Ledger, declared_schema: Schema, together: Fraction
) -> None:
    """Once under add-remove; twice where a row may move from one to the other."""
    with start_session(ledger, declared_schema) as s:
        s.answer(WOMEN)
        assert s.left == 1 - Fraction(1, 20)
        s.answer(MEN)
        assert s.left == 1 - together
        s.answer("SELECT grade, COUNT(*) FROM t GROUP BY grade")
        assert s.left == 1 - 2 * together


def test_a_count_of_values_is_of_the_rows_that_have_one(ledger: Ledger) -> None:
    """So it can change where the number of rows cannot, and has nothing in common with the rows that have none."""
    with start_session(ledger, REPLACE) as s:
        s.answer("SELECT COUNT(age) FROM t")
        assert s.left == Fraction(19, 20)
    with start_session(ledger) as s:
        s.answer("SELECT COUNT(age) FROM t")
        s.answer("SELECT COUNT(*) FROM t WHERE age IS NULL")
        assert s.left == Fraction(19, 20)


def test_it_refuses_what_does_not_fit_and_says_what_would(ledger: Ledger) -> None:
    """The scale it names is answered, a slightly smaller one is not; refusals change nothing."""
    with start_session(ledger, noise_scale=2) as s:
        s.answer(WOMEN)
        s.answer("SELECT COUNT(*) FROM t WHERE sex = 'F' AND age > 0", noise_scale=3)
        left = s.left
        assert left == Fraction(1, 6)
        with pytest.raises(BudgetExceeded) as refusal:
            s.answer("SELECT COUNT(*) FROM t WHERE age > 1")
        assert str(refusal.value) == (
            "with this question the answers of the session come to epsilon 1.334 together, and it has 1; "
            "ask it with a noise scale of at least 6"
        )
        with pytest.raises(BudgetExceeded):
            s.answer("SELECT COUNT(*) FROM t WHERE age > 1", noise_scale=Fraction(599, 100))
        assert s.left == left
        s.answer("SELECT COUNT(*) FROM t WHERE age > 1", noise_scale=6)
        assert s.left == 0
        s.answer(MEN, noise_scale=2)
        with pytest.raises(BudgetExceeded, match="fits at no noise scale"):
            s.answer("SELECT COUNT(*) FROM t")


def test_the_same_question_is_the_same_answer_for_nothing(ledger: Ledger) -> None:
    """However it is written and laid out; at another scale it is another question, and is paid for."""
    with start_session(ledger) as s:
        first = s.answer(WOMEN)
        second = s.answer("SELECT count(*) AS women FROM t WHERE NOT sex <> 'F' AND sex IS NOT NULL", noise_scale=20.0)
        assert second.rows == ({"women": first.value},)
        assert second.stored
        assert s.left == Fraction(19, 20)
        s.answer(WOMEN, noise_scale=40)
        assert s.left == Fraction(37, 40)


def test_what_the_schema_says_is_free(ledger: Ledger) -> None:
    """The number of rows is public under replace-one; its label spends nothing."""
    with start_session(ledger, REPLACE, kind=ForbiddenSource) as s:
        a = s.answer("SELECT COUNT(*) FROM t")
        assert a.value == 40
        assert a.guarantee.epsilon == 0
        assert s.left == 1


def test_refusals_and_public_answers_look_at_nothing(ledger: Ledger) -> None:
    """Whatever is refused, at opening or later, is refused by a source that cannot be read."""
    ForbiddenSource.looks = 0
    with start_session(ledger, REPLACE, noise_scale=1, kind=ForbiddenSource) as s:
        refused_questions = (
            "SELECT COUNT(*) FROM t GROUP BY sex",
            "SELECT COUNT(*), COUNT(age) FROM t WHERE sex = 'F'",
            "SELECT SUM(age) FROM t",
            "SELECT city, COUNT(*) FROM t GROUP BY city",
            "SELECT age FROM t FOR UNIT '3'",
            "SELECT COUNT(*) FROM t WHERE age > 3 AND age < 2",
            "SELECT COUNT(*) FROM nowhere",
            "nonsense",
        )
        for question in refused_questions:
            with pytest.raises(DiscreetError):
                s.answer(question)
        s.answer("SELECT COUNT(*) FROM t")
        assert s.left == 1
    assert ForbiddenSource.looks == 0


@pytest.mark.parametrize(
    ("scale", "epsilon", "words"),
    [
        (0, 1, "noise_scale must be above 0"),
        ("20", 1, "noise_scale must be a number"),
        (1e12, 1, "noise_scale must be between 0.0001 and 1e9"),
        (20, -1, "epsilon must be above 0"),
        (20, 10**6, "epsilon must be between 1e-9 and 10000, got 1000000"),
        (20, Fraction(1, 10), "needs a noise scale of at least 30 to answer one question, got 20"),
    ],
)
def test_a_session_that_makes_no_sense_is_refused_and_nothing_is_charged(
    ledger: Ledger, scale: object, epsilon: object, words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        start_session(ledger, SEVERAL, noise_scale=scale, epsilon=epsilon)
    assert read_spent_epsilon(ledger) == 0


def test_units_are_not_counted_where_they_have_several_rows(ledger: Ledger) -> None:
    """One unit's rows move a count of rows by three, and the session knows."""
    with start_session(ledger, SEVERAL) as s:
        with pytest.raises(Unsupported, match="several rows of one unit"):
            s.answer("SELECT COUNT(DISTINCT pid) FROM t")
        s.answer("SELECT COUNT(*) FROM t")
        assert s.left == 1 - Fraction(3, 20)


def test_a_closed_session_answers_nothing(ledger: Ledger) -> None:
    """Not even what it has answered before."""
    with start_session(ledger) as s:
        s.answer(WOMEN)
    with pytest.raises(InvalidInput, match="closed"):
        s.answer(WOMEN)


def test_a_retry_with_the_same_key_pays_once_and_one_session_answers(ledger: Ledger) -> None:
    """Else one charge would buy two sessions; a key of another session is refused."""
    lost, retried = start_session(ledger, key="k"), start_session(ledger, key="k")
    assert read_spent_epsilon(ledger) == 1
    retried.answer(WOMEN)
    retried.answer(MEN)
    for late in (lost, start_session(ledger, key="k")):
        with pytest.raises(InvalidInput, match="same key"):
            late.answer(WOMEN)
    with pytest.raises(InvalidInput, match="another request"):
        start_session(ledger, noise_scale=30, key="k")
    assert read_spent_epsilon(ledger) == 1


def test_a_session_from_before_a_restore_does_not_answer_again(ledger: Ledger, tmp_path: Path) -> None:
    """It may have answered after the back-up; and one that was opened before the restore does not go on."""
    opened = start_session(ledger, key="k")
    Ledger.backup(tmp_path / "ledger.db", tmp_path / "backup.db")
    opened.answer(WOMEN)
    Ledger.restore(tmp_path / "backup.db", tmp_path / "restored.db", forgotten=Fraction(1, 1000))
    with Ledger.existing(tmp_path / "restored.db") as restored:
        with pytest.raises(InvalidInput, match=r"before the ledger was restored.*a new session"):
            start_session(restored, key="k")
        assert start_session(restored, key="new").answer(WOMEN).guarantee.epsilon == 1
        restored.verify()


def test_a_forked_copy_answers_nothing(ledger: Ledger) -> None:
    """Two copies that count apart would answer twice what was paid for."""
    with start_session(ledger) as s:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons advise against it; this is why
            child = os.fork()
        if not child:
            try:
                s.answer(WOMEN)
            except InvalidInput:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_question_that_could_not_be_read_is_not_paid_twice(ledger: Ledger) -> None:
    """It stays admitted while the source is away, and is drawn when it is back."""
    with start_session(ledger, kind=FailingSource) as s:
        with pytest.raises(Unavailable, match="costs nothing more"):
            s.answer(WOMEN)
        assert s.left == Fraction(19, 20)
        assert not s.answer(WOMEN).stored
        assert s.left == Fraction(19, 20)


def test_threads_cannot_overdraw_a_session(ledger: Ledger) -> None:
    """Room for four of six nested questions: four are answered, whichever come first."""
    with start_session(ledger, noise_scale=4) as s:

        def ask_session(number: int) -> bool:
            try:
                s.answer(f"SELECT COUNT(*) FROM t WHERE age = 0 AND score >= {number / 2}")
            except BudgetExceeded:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            answered = list(pool.map(ask_session, range(1, 7)))
        assert s.left == 0
    assert sum(answered) == 4


class ForgetfulLog:
    """A log with one name for all sessions that keeps nothing of what was answered in them."""

    mark = "mine"

    def __init__(self) -> None:
        self._all: list[AdmittedQuestion] = []

    def read_since(self, place: int) -> list[AdmittedQuestion]:
        return self._all[place:]

    def admit(self, place: int, admitted: AdmittedQuestion) -> bool:
        self._all.insert(place, admitted)
        return True

    def store_outputs(self, _: int, released: str) -> str:
        return released


class ForgetfulStoredLog(StoredLog):
    def __init__(self) -> None:
        self.mark = "mine"

    read_since, admit, store_outputs = ForgetfulLog.read_since, ForgetfulLog.admit, ForgetfulLog.store_outputs  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [ForgetfulLog, ForgetfulStoredLog])
def test_a_log_of_a_caller_s_own_opens_no_session(tmp_path: Path, kind: type[SessionLog]) -> None:
    """With one that forgets, one charge bought as many draws as anyone liked."""
    with Custodian.open(write_registry(tmp_path, patients=40)) as custodian:
        with pytest.raises(InvalidInput, match="the log of a session must be the one that the service keeps"):
            custodian._open_shared_session(10, 0.1, "ann", "k", kind())
        assert custodian.budget()[0].epsilon == 0


def test_no_public_name_takes_a_log_or_what_is_called_before_a_draw_is_stored() -> None:
    """Either decides whether a question is drawn again; a wait that fails leaves what was drawn unstored."""
    public = {
        name: inspect.signature(call).parameters
        for kind in (Custodian, CountingSession)
        for name, call in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }
    assert not {"open_shared_session", "with_release_barrier"} & public.keys()
    assert not [name for name, taken in public.items() if "log" in taken]
    assert not {"log", "release_barrier"} & set(CountingSession.__slots__)
