"""What exact counts published before add to an answer: the words on the label, and that their numbers are true."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from test_custodian import PEOPLE_SCHEMA, get_spent_epsilon, write_people

from discreet import Custodian, InvalidInput
from discreet.planner.planner import plan, plan_session_counts
from discreet.planner.public_facts import KindMask, PublishedOverlap, check_published
from discreet.query import parse_sql
from discreet.schema import Column, PublishedStatistic, schema_from_text, schema_to_public_json
from support.small_tables import schema

SEX = Column("sex", "nominal", upper=1, categories=("F", "M"), missing=0)
WOMEN = "SELECT COUNT(*) FROM t WHERE sex = 'F'"
COUNT_ALL = "SELECT COUNT(*) FROM t"
BY_BOTH = "SELECT sex, grade, COUNT(*) FROM t GROUP BY sex, grade"
NONE_APART = "no bound for each number apart, nor for all together"
ALONE = "it is no sum of the counts of this answer, together with others it may be"
UNKNOWN_LOSS = "what it adds to this answer cannot be told"


def format_rho_loss(loss: str) -> str:
    return f"rho {loss} for each number apart, no bound for all together or if cut at 0 as well"


def list_warnings(
    sql: str, *questions: str | None, neighbors: str = "add-remove", rows: int = 1, **options: object
) -> list[str]:
    """What the label says after each statistic, and after all of them."""
    declared_schema = schema(neighbors, rows, 50)
    published = tuple(PublishedStatistic(f"number {place}", "80", question) for place, question in enumerate(questions))
    declared_schema = replace(declared_schema, published=published, columns={**declared_schema.columns, "sex": SEX})
    texts = plan(
        declared_schema, parse_sql(sql, declared_schema), options.pop("epsilon", 0.1), **options
    ).guarantee.assumptions
    assert all(
        text.startswith((f"published exactly before: number {place} = 80; ", "whoever"))
        for place, text in enumerate(texts)
    )
    return [text.partition("; ")[2] or text for text in texts]


def format_refined_loss(loss: str) -> str:
    return f"whoever refines this answer by it linearly: {loss}"


def test_a_total_makes_each_number_cost_twice() -> None:
    """Two cells move together and keep the sum; under replace-one half the noise is for each."""
    by_sex = "SELECT sex, COUNT(*) FROM t GROUP BY sex"
    assert list_warnings(by_sex, COUNT_ALL) == [format_refined_loss(format_rho_loss("0.2"))]
    assert list_warnings(by_sex, COUNT_ALL, rows=3) == [format_refined_loss(format_rho_loss("0.2"))]
    assert list_warnings(by_sex, COUNT_ALL, neighbors="replace-one", rows=2) == [
        format_refined_loss(format_rho_loss("0.1"))
    ]
    assert list_warnings(BY_BOTH, WOMEN, epsilon=1.5) == [format_refined_loss(format_rho_loss("3"))]


def test_histograms_and_rollups_are_counts_too() -> None:
    """Of a ROLLUP the totals are told as well: one that is published itself has no bound."""
    histogram = "SELECT HISTOGRAM(age, 8) FROM t"
    assert list_warnings(histogram, COUNT_ALL, WOMEN)[:2] == [format_refined_loss(format_rho_loss("0.2")), ALONE]
    assert list_warnings("SELECT sex, COUNT(*) FROM t GROUP BY ROLLUP (sex)", COUNT_ALL) == [
        format_refined_loss(NONE_APART)
    ]
    by_both = "SELECT grade, sex, COUNT(*) FROM t GROUP BY ROLLUP (grade, sex)"
    assert list_warnings(by_both, WOMEN) == [format_refined_loss(format_rho_loss("0.2"))]
    assert list_warnings(by_both, WOMEN, neighbors="replace-one") == [format_refined_loss(format_rho_loss("0.1"))]


def test_a_number_that_is_published_itself_has_no_bound() -> None:
    assert list_warnings(WOMEN, WOMEN) == [format_refined_loss(NONE_APART)]
    assert list_warnings("SELECT sex, COUNT(*) FROM t GROUP BY sex", WOMEN) == [format_refined_loss(NONE_APART)]


def test_what_is_left_of_a_public_total_is_published_too() -> None:
    """Under replace-one the number of all rows is public: who knows the women knows the men."""
    men = "SELECT COUNT(*) FROM t WHERE sex = 'M'"
    assert list_warnings(men, WOMEN) == [ALONE]
    assert list_warnings(men, WOMEN, neighbors="replace-one") == [format_refined_loss(NONE_APART)]
    assert list_warnings(COUNT_ALL + " WHERE age = 1", COUNT_ALL, neighbors="replace-one") == [
        "it is the same for all neighbours, so it adds nothing"
    ]
    three = "SELECT grade, COUNT(*) FROM t GROUP BY grade"
    two_of_them = "SELECT COUNT(*) FROM t WHERE grade <> 'high'"
    assert list_warnings(three, two_of_them) == [format_refined_loss(format_rho_loss("0.2"))]
    assert list_warnings(three, two_of_them, neighbors="replace-one") == [format_refined_loss(NONE_APART)]


def test_both_margins_of_a_table_make_each_number_cost_four_times() -> None:
    """Four cells must move to keep the sums of rows and of columns."""
    grades = [f"SELECT COUNT(*) FROM t WHERE grade = '{grade}'" for grade in ("low", "middle", "high")]
    texts = list_warnings(BY_BOTH, WOMEN, *grades)
    assert texts[:4] == [format_refined_loss(format_rho_loss("0.2"))] * 4
    assert texts[4] == f"whoever refines this answer by all these counts linearly: {format_rho_loss('0.4')}"
    assert (
        list_warnings(BY_BOTH, WOMEN, COUNT_ALL)[2]
        == f"whoever refines this answer by all these counts linearly: {format_rho_loss('0.2')}"
    )


def test_what_is_no_sum_of_the_cells_is_said_to_be_none() -> None:
    assert list_warnings("SELECT grade, COUNT(*) FROM t GROUP BY grade", WOMEN) == [ALONE]
    assert list_warnings(COUNT_ALL, WOMEN) == [ALONE]
    assert list_warnings("SELECT COUNT(age) FROM t", COUNT_ALL) == [ALONE]


@pytest.mark.parametrize(
    ("sql", "rows", "options"),
    [
        ("SELECT SUM(age) FROM t", 1, {}),
        ("SELECT COUNT(*), AVG(age) FROM t", 1, {}),
        ("SELECT MEDIAN(age) FROM t", 1, {}),
        ("SELECT COUNT(DISTINCT pid) FROM t", 2, {}),
        ("SELECT city, COUNT(*) FROM t GROUP BY city", 1, {"delta": 1e-6}),
        (COUNT_ALL, 1, {"epsilon": None, "noise_scale": 1000, "model": "approx-dp"}),
        (COUNT_ALL, 1, {"prior": "uniform(0, 9)", "distance": "nominal"}),
    ],
)
def test_other_answers_say_that_it_cannot_be_told(sql: str, rows: int, options: dict) -> None:
    """Sums, means, quantiles, units, private keys, Gaussian noise, refined priors: no number is made up."""
    assert list_warnings(sql, COUNT_ALL, None, rows=rows, **options) == [UNKNOWN_LOSS, UNKNOWN_LOSS]


def test_several_counts_are_each_looked_at() -> None:
    """COUNT(*) is refined by a total; where none of them is, a sum over several may be, and that is not told."""
    both = "SELECT sex, COUNT(*), COUNT(age) FROM t GROUP BY sex"
    assert list_warnings(both, COUNT_ALL) == [format_refined_loss(format_rho_loss("0.2"))]
    assert list_warnings(both, "SELECT COUNT(*) FROM t WHERE grade = 'low'") == [UNKNOWN_LOSS]
    assert list_warnings("SELECT COUNT(*), COUNT(age) FROM t WHERE sex = 'F'", WOMEN) == [
        format_refined_loss(NONE_APART)
    ]


def test_what_cuts_the_cells_counts_only_with_others() -> None:
    """Women do not refine grades, and with the total each grade still has rows to exchange."""
    texts = list_warnings("SELECT grade, COUNT(*) FROM t GROUP BY grade", WOMEN, COUNT_ALL)
    assert texts == [
        ALONE,
        format_refined_loss(format_rho_loss("0.2")),
        f"whoever refines this answer by all these counts linearly: {format_rho_loss('0.2')}",
    ]


def test_a_session_says_it_too() -> None:
    declared_schema = replace(schema("add-remove", 1, 0), published=(PublishedStatistic("everyone", "9", COUNT_ALL),))
    query = parse_sql("SELECT grade, COUNT(*) FROM t GROUP BY grade", declared_schema)
    label = plan_session_counts(declared_schema, query, Fraction(50), Fraction(1)).guarantee
    assert label.assumptions == (
        f"published exactly before: everyone = 9; {format_refined_loss(format_rho_loss('0.04'))}",
    )


def compute_log_ratio(weights: tuple[int, ...], step: int, rate: float, reach: int) -> float:
    """The largest |log ratio| of P(weights . noise = x) and P(... = x + step), the noise being discrete Laplace."""
    law = np.exp(-rate * np.abs(np.arange(-reach, reach + 1)))
    total = np.ones(1)
    for weight in weights:
        spread = np.zeros(2 * reach * weight + 1)
        spread[::weight] = law
        total = np.convolve(total, spread)
    middle = len(total) // 2
    near = total[middle - reach // 2 : middle + reach // 2]
    return float(np.abs(np.log(near[step:] / near[:-step])).max())


@pytest.mark.parametrize("cells", [2, 3, 4, 5])
def test_the_number_on_the_label_bounds_whole_noise(cells: int) -> None:
    """k X_1 less all k cells moves by k: k / (k - 1) bounds continuous noise only, twice bounds this."""
    loss = compute_log_ratio((cells - 1, *(1,) * (cells - 1)), cells, 1.0, 60)
    assert loss <= 2
    assert cells == 2 or loss > cells / (cells - 1)


def test_both_margins_of_a_table_of_four_come_near_the_bound() -> None:
    """Refined, a cell moves by a quarter of four noises that must move by 4: more than twice epsilon, at most four."""
    assert 3 < compute_log_ratio((1, 1, 1, 1), 4, 1.0, 60) <= 4


def find_fewest(overlap: PublishedOverlap, places: list[int], number: KindMask, reach: int = 2) -> float:
    """The least sum of |w| over whole w, rows of each kind coming or going, that changes a number by one; all tried."""
    masks = [overlap.published[place] for place in places] + [np.ones_like(number)] * overlap.has_public_rows
    sizes = [
        sum(map(abs, w))
        for w in product(range(-reach, reach + 1), repeat=len(number))
        if np.dot(w, number) == 1 and not any(np.dot(w, region) for region in masks)
    ]
    return min(sizes, default=np.inf)


@pytest.mark.parametrize("seed", range(80))
def test_no_fewer_rows_could_make_up_for_it(seed: int) -> None:
    """Against all exchanges of up to two rows a kind: never below the least, and the least itself up to 2."""
    chance = np.random.default_rng(seed)
    kinds, has_public_rows = int(chance.integers(2, 6)), bool(chance.random() < 0.3)
    counts = [
        chance.integers(0, 5, kinds) if chance.random() < 0.5 else np.arange(1, kinds + 1) for _ in range(1 + seed % 2)
    ]
    regions = tuple(chance.random(kinds) < 0.5 for _ in range(chance.integers(1, 4)))
    overlap, places = PublishedOverlap(tuple(counts), regions, has_public_rows), list(range(len(regions)))
    numbers = [labels == cell for labels in counts for cell in set(labels.tolist()) - {0}]
    least = max((find_fewest(overlap, places, number) for number in numbers), default=1)
    exchanged_rows = overlap.count_exchanged_rows(places)
    if exchanged_rows is None:
        assert least > 2
    else:
        assert least <= exchanged_rows
        assert exchanged_rows == least or least > 2


def test_too_many_to_look_at_are_not_called_bounded() -> None:
    """More sums than fit a word, or more cells than are paired: no bound is named, rather than a wrong one."""

    def build_margins(side: int) -> PublishedOverlap:
        rows, columns = np.divmod(np.arange(side**2), side)
        sums = [rows == place for place in range(side)] + [columns == place for place in range(side)]
        return PublishedOverlap((np.arange(1, side**2 + 1),), tuple(sums), has_public_rows=False)

    assert build_margins(14).count_exchanged_rows(range(28)) == 4
    assert build_margins(15).count_exchanged_rows(range(30)) is None
    assert build_margins(2).count_exchanged_rows([0] * 39) is None
    assert build_margins(2).count_exchanged_rows([0] * 38) == 2


def test_it_takes_no_time() -> None:
    """A thousand cells and more in under 20 ms, best of five."""
    sql = "SELECT age, score, grade, smoker, day, COUNT(*) FROM t GROUP BY age, score, grade, smoker, day"
    declared_schema = schema("add-remove", 1, 0)
    query = parse_sql(sql, declared_schema)
    with_published = replace(
        declared_schema, published=(PublishedStatistic("all", "9", COUNT_ALL), PublishedStatistic("women", "4", WOMEN))
    )

    def measure_time(of: object) -> float:
        times = []
        for _ in range(5):
            start = time.process_time()
            plan(of, query, 1)
            times.append(time.process_time() - start)
        return min(times)

    assert len(plan(declared_schema, query, 1).list_cells()) == 2268
    assert measure_time(with_published) - measure_time(declared_schema) < 0.02


TEXT = "name: t\nsource: t.csv\nneighbours: add-remove\nbudget: {epsilon: 1}\ncolumns: {x: {kind: boolean}}\n"


def test_the_question_stands_in_the_schema() -> None:
    """It may be left out, and is public."""
    entries = (
        '  - {statistic: yes, value: 7, question: "SELECT COUNT(*) FROM t WHERE x"}\n  - {statistic: b, value: 1}\n'
    )
    declared_schema = schema_from_text(f"{TEXT}published:\n{entries}", Path())
    assert declared_schema.published == (
        PublishedStatistic("yes", "7", "SELECT COUNT(*) FROM t WHERE x"),
        PublishedStatistic("b", "1"),
    )
    check_published(declared_schema)
    assert schema_to_public_json(declared_schema)["published"] == [
        {"statistic": "yes", "value": "7", "question": "SELECT COUNT(*) FROM t WHERE x"},
        {"statistic": "b", "value": "1"},
    ]


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ("SELECT COUNT(*) FROM other", "cannot be read: "),
        ("SELECT COUNT(*) FROM people WHERE height > 2", "cannot be read: unknown column 'height'"),
        ("COUNT", "cannot be read: "),
        ("SELECT AVG(age) FROM people", "must be one count of rows, such as SELECT COUNT[(][*][)] FROM people"),
        ("SELECT COUNT(*), COUNT(sex) FROM people", "must be one count of rows"),
        ("SELECT sex, COUNT(*) FROM people GROUP BY sex", "must be one count of rows"),
    ],
)
def test_a_bad_question_is_refused_before_anything_else(question: str, why: str, tmp_path: Path) -> None:
    """One sentence, when the data set is opened or checked; nothing is registered, charged or read."""
    head = f'{PEOPLE_SCHEMA}published: [{{statistic: women, value: 1, question: "{question}"}}]\n'
    file = write_people(tmp_path, head)
    for act in (Custodian.open, Custodian.check):
        with pytest.raises(InvalidInput, match=f"^the question of what is published as 'women' {why}") as refusal:
            act(file)
        assert refusal.value.exit_code == 2
        assert (refusal.value.position is None) == ("must be one count" in why)
    assert {path.name for path in tmp_path.iterdir()} == {"people.csv", "people.yaml"}


def assert_answers_fit(*entries: tuple[str, str, str | None], neighbors: str = "replace-one", rows: int = 1) -> None:
    """Of a table of fifty units, where their number is public."""
    published = tuple(PublishedStatistic(*entry) for entry in entries)
    check_published(schema(neighbors, rows, 50, published=published))


@pytest.mark.parametrize("value", ["many", "-1", "2.5", "51", "1/2", "nan", ""])
def test_a_published_count_is_a_number_that_the_table_can_have(value: str) -> None:
    """Whole, not below 0, and not above all rows where these are public; without a question it is any text."""
    limits = "must be a whole number from 0 to 50, the most rows there can be, got "
    with pytest.raises(
        InvalidInput, match=f"^what is published as 'women' has a question, a count, .* {limits}'{value}'$"
    ):
        assert_answers_fit(("women", value, WOMEN))
    assert_answers_fit(("women", value, None))


def test_how_large_a_published_count_can_be() -> None:
    """All rows of all units; under add-remove there is no most."""
    assert_answers_fit(("women", "150", WOMEN), rows=3)
    assert_answers_fit(("women", "10000", WOMEN), neighbors="add-remove")
    with pytest.raises(InvalidInput, match="from 0 to 150, the most"):
        assert_answers_fit(("women", "151", WOMEN), rows=3)
    with pytest.raises(InvalidInput, match=r"must be a whole number of at least 0, got '-1'$"):
        assert_answers_fit(("women", "-1", WOMEN), neighbors="add-remove")


def test_a_published_count_does_not_contradict_the_schema() -> None:
    """A count of all units is the number of them, one of no row is 0."""
    assert_answers_fit(
        ("all", "50", COUNT_ALL), ("ages", "50.0", "SELECT COUNT(*) FROM t WHERE age < 99 OR age IS NULL")
    )
    with pytest.raises(InvalidInput, match=r"^what is published as 'all' is 50 by the schema, got 49; mend one"):
        assert_answers_fit(("all", "49", COUNT_ALL))
    with pytest.raises(InvalidInput, match=r"^what is published as 'none' is 0 by the schema, got 1; mend one"):
        assert_answers_fit(("none", "1", COUNT_ALL + " WHERE FALSE"), neighbors="add-remove")
    assert_answers_fit(("all", "49", COUNT_ALL), rows=2)
    assert_answers_fit(("all", "49", COUNT_ALL), neighbors="add-remove")


def test_one_question_has_one_value() -> None:
    """However it is written; the same value twice is no contradiction."""
    written = [("a", "SELECT COUNT(age) FROM t"), ("b", "SELECT COUNT(*) FROM t WHERE age IS NOT NULL")]
    assert_answers_fit(*((name, "7", question) for name, question in written))
    two = "^what is published as 'a' and as 'b' is one question with two values; keep the right one$"
    with pytest.raises(InvalidInput, match=two):
        assert_answers_fit(*((name, str(value), question) for value, (name, question) in enumerate(written)))
    assert_answers_fit(("women", "7", WOMEN), ("all", "8", COUNT_ALL), neighbors="add-remove")


def test_an_answer_tells_it(tmp_path: Path) -> None:
    """The whole way: from the file to the label of an answer, and again with a stored one."""
    head = f"{PEOPLE_SCHEMA}published: [{{statistic: everyone, value: 400, question: SELECT COUNT(*) FROM people}}]\n"
    with Custodian.open(write_people(tmp_path, head)) as people:
        for _ in range(2):
            answer = people.answer("SELECT sex, COUNT(*) FROM people GROUP BY sex", epsilon=0.1)
            assert answer.guarantee.assumptions == (
                f"published exactly before: everyone = 400; {format_refined_loss(format_rho_loss('0.2'))}",
            )
        assert get_spent_epsilon(people) == Fraction(1, 10)
