"""Generalisation: no class is below k, no levels lose less, and ladders only ever widen."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidInput
from discreet.priors.taxonomy import Taxonomy
from discreet.sdc.methods.generalize import (
    INFORMATION_LOSSES,
    EquivalenceClasses,
    GeneralizationTask,
    compute_row_keys,
    generalize,
    merge_equal_rows,
)
from discreet.sdc.methods.hierarchies import build_hierarchy, find_parent
from discreet.sdc.table import ABSENT, Attribute, read_table
from support.published_data import find_shared_data
from support.sized_properties import run_at_two_sizes

PLACES = Taxonomy.of(
    {"Reus": "coast", "Vic": "inland", "Olot": "hills", "hills": "inland", "coast": "all", "inland": "all"}
)
STEPS = {"age": [5, 10, 20], "grade": [{"1": "low", "2": "low", "3": "high", "4": "high"}]}

DEEP = [{"f": "p", "m": "p"}, *[{"p": "p"}] * 2999]

st_records = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 30)),
        st.sampled_from(["Reus", "Vic", "Olot", None]),
        st.sampled_from(["1", "2", "3", "4"]),
    ),
    min_size=6,
    max_size=40,
)


def build_table(rows: list[tuple[int | None, str | None, str]]) -> dict[str, np.ndarray]:
    age, place, grade = (np.array(column, dtype=object) for column in zip(*rows, strict=True))
    return {"age": age, "place": place, "grade": grade, "pay": np.arange(len(rows))}


def describe_rows(rows: list[tuple[int | None, str | None, str]]) -> dict[str, object]:
    numbers = any(row[0] is not None for row in rows)
    return {
        "kinds": {"age": "numeric"} if numbers else {},
        "taxonomies": {"place": PLACES},
        "domains": {"age": (0, 40)} if numbers else {},
    }


@run_at_two_sizes(
    40,
    120,
    st_records,
    st.integers(2, 5),
    st.sampled_from(sorted(INFORMATION_LOSSES)),
    st.sampled_from([0, Fraction(1, 10), Fraction(1, 3)]),
    st.sampled_from([None, STEPS["age"]]),
)
def test_no_class_is_below_k_and_no_levels_lose_less(
    rows: list[tuple[int | None, str | None, str]], k: int, loss: str, suppress: Fraction, ages: list[int] | None
) -> None:
    """As many rows are left out as are allowed at most, and of all levels that do it these lose least."""
    steps = {"grade": STEPS["grade"], **({"age": ages} if ages and any(row[0] is not None for row in rows) else {})}
    released = generalize(
        build_table(rows),
        k,
        ["age", "place", "grade"],
        steps,
        loss=loss,
        suppress=suppress,
        keep="pay",
        **describe_rows(rows),
    )
    records = list(zip(*(map(str, released[name]) for name in ("age", "place", "grade")), strict=True))
    assert min(Counter(records).values()) >= k
    assert len(rows) - len(records) == released.facts["suppressed"] <= suppress * len(rows)
    assert released["pay"].tolist() == released.source_rows.tolist()
    assert len(set(zip(records, released.groups["records"].tolist(), strict=True))) == len(set(records))
    table = read_table(build_table(rows), **describe_rows(rows))  # type: ignore[arg-type]
    ladders = tuple(build_hierarchy(table[name], steps.get(name)) for name in ("age", "place", "grade"))
    task = GeneralizationTask(ladders, len(rows), k, int(suppress * len(rows)))
    levels = tuple(each["level"] for each in released.facts["levels"].values())  # type: ignore[attr-defined]
    assert (released.facts["loss"]["value"], levels) == search_all_levels(task, loss)  # type: ignore[index]


def search_all_levels(task: GeneralizationTask, loss: str) -> tuple[float, tuple[int, ...]]:
    candidates = []
    for levels in itertools.product(*(range(top + 1) for top in task.top_levels)):
        columns = [each.get_codes(level) for each, level in zip(task.hierarchies, levels, strict=True)]
        codes, counts = merge_equal_rows(np.column_stack(columns), np.ones(task.rows, dtype=np.int64))
        classes = EquivalenceClasses(codes, counts, counts >= task.k)
        if classes.suppressed_rows <= task.max_suppressed:
            candidates.append((INFORMATION_LOSSES[loss](task, levels, classes), sum(levels), levels))
    best = min(candidates)
    return float(best[0]), best[2]


@given(rows=st_records)
def test_ladders_only_ever_widen(rows: list[tuple[int | None, str | None, str]]) -> None:
    """Rows alike on one rung are alike above it, on the highest all are, and no label covers less than one below it."""
    table = read_table(build_table(rows), **describe_rows(rows))  # type: ignore[arg-type]
    steps = {"grade": STEPS["grade"], **({"age": STEPS["age"]} if table["age"].kind == "numeric" else {})}
    for name in ("age", "place", "grade"):
        rungs = build_hierarchy(table[name], steps.get(name))
        codes = [rungs.get_codes(level) for level in range(len(rungs.levels) + 1)]
        for low, high in itertools.pairwise(codes):
            assert len(set(zip(low.tolist(), high.tolist(), strict=True))) == len(set(low.tolist()))
        assert set(codes[-1].tolist()) == {0}
        widths = [
            np.array([0.0] * len(rows)),
            *(np.array(r.widths, float)[c] for r, c in zip(rungs.levels, codes[1:], strict=True)),
        ]
        assert all((low <= high).all() for low, high in itertools.pairwise(widths))


@given(
    values=st.lists(
        st.one_of(st.just(np.nan), st.floats(-1e290, 1e290), st.integers(-99, 99)), min_size=2, max_size=20
    ),
    decimals=st.sampled_from([0, 2, 6]),
)
def test_round_intervals_of_numbers(values: list[float], decimals: int) -> None:
    """A value is in its interval; up to five rungs widen below "*", from a 32nd of the domain to half of it."""
    number = read_table({"x": np.array(values, dtype=float).round(decimals)})["x"]
    rungs = build_hierarchy(number)
    codes = [rungs.get_codes(level).tolist() for level in range(len(rungs.levels) + 1)]
    for low, high in itertools.pairwise(codes):
        assert len(set(zip(low, high, strict=True))) == len(set(low))
    assert set(codes[-1]) == {0}
    middle = [level for level, rung in enumerate(rungs.levels, start=1) if rung.labels != ("*",)]
    assert len(middle) <= 5
    for level in middle:
        labels = rungs.generalize_to(level).to_array().tolist()
        assert [label is None for label in labels] == np.isnan(number.values).tolist()
        for value, label in zip(number.values.tolist(), labels, strict=True):
            low, high = (float(end) for end in (label or "[-inf, inf)")[1:-1].split(", "))
            assert label is None or low <= value <= high
            assert label is None or high - low >= (number.upper - number.lower) / 32.01
            assert label is None or high - low <= (number.upper - number.lower + 1) / 1.99


def list_rungs(values: object, domain: tuple[float, float] | None = None) -> list[str]:
    """What the first value is called on each rung where no steps are given."""
    rungs = build_hierarchy(read_table({"c": np.asarray(values)}, domains={"c": domain} if domain else {})["c"])
    return [rungs.generalize_to(level).to_array().tolist()[0] for level in range(1, len(rungs.levels) + 1)]


def test_numbers_have_round_intervals_where_none_are_given() -> None:
    """Widths double from 1, 2 or 5 of a power of ten; ends are round whatever the least value is; whole numbers
    are never cut finer than two by two."""
    assert list_rungs([23, 90], (0, 99)) == ["[20, 25)", "[20, 30)", "[20, 40)", "[0, 40)", "*"]
    assert list_rungs([17, 90]) == ["[15, 20)", "[10, 20)", "[0, 20)", "*"]
    assert list_rungs([0.3, 0.7], (0, 1)) == ["[0.3, 0.35)", "[0.3, 0.4)", "[0.2, 0.4)", "[0, 0.4)", "*"]
    assert list_rungs([-3.7, 8.1]) == ["[-4, -3.5)", "[-4, -3)", "[-4, -2)", "[-4, 0)", "*"]
    assert list_rungs([3, 0, 1, 2]) == ["[2, 4)", "*"]
    assert list_rungs([1.0, np.nan, 4.0], (0, 9)) == ["[0, 2)", "[0, 4)", "*"]
    assert list_rungs([0, 1]) == ["*"]
    assert list_rungs([0, 1e305]) == ["*"]
    assert list_rungs([10**15, 10**15 + 9]) == [f"[{10**15}, {10**15 + 2})", f"[{10**15}, {10**15 + 4})", "*"]


@pytest.mark.parametrize(
    ("first", "last", "rungs"),
    [
        ("2020-01-09", "2020-01-20", []),
        ("2020-01-09", "2020-02-09", ["[2020-01-06, 2020-01-13)", "[2020-01-06, 2020-01-20)"]),
        ("2020-02-09", "2020-12-09", ["[2020-02-01, 2020-03-01)", "[2020-01-01, 2020-04-01)"]),
        (
            "1967-02-03",
            "1973-01-01",
            ["[1967-02-01, 1967-03-01)", "[1967-01-01, 1967-04-01)", "[1967-01-01, 1968-01-01)"],
        ),
        (
            "1904-12-31",
            "2020-12-31",
            [
                "[1904-01-01, 1905-01-01)",
                "[1900-01-01, 1905-01-01)",
                "[1900-01-01, 1910-01-01)",
                "[1900-01-01, 1950-01-01)",
            ],
        ),
        ("0101-01-01", "9999-12-31", ["[0100-01-01, 0200-01-01)"]),
    ],
)
def test_dates_have_the_calendar_where_none_is_given(first: str, last: str, rungs: list[str]) -> None:
    """Weeks from Monday where there are few days, else months, quarters, years and round numbers of years."""
    assert list_rungs(np.array([first, last], dtype="datetime64[D]")) == [*rungs, "*"]


def test_the_months_of_a_date_are_as_wide_as_they_are_long() -> None:
    """A share of the domain, so that February costs less than March."""
    day = read_table({"day": np.array(["2021-02-01", "2021-03-05", "2022-01-01"], dtype="datetime64[D]")})["day"]
    assert build_hierarchy(day).levels[0].widths == (Fraction(28, 334), Fraction(31, 334), Fraction(31, 334))


def test_what_is_missing_is_in_no_interval() -> None:
    """Also where all that is there is in one."""
    age = read_table({"age": np.array([3, None, 4], dtype=object)}, domains={"age": (0, 99)})["age"]
    labels = [build_hierarchy(age).generalize_to(level).to_array().tolist() for level in (1, 4, 5)]
    assert labels == [["[0, 5)", None, "[0, 5)"], ["[0, 40)", None, "[0, 40)"], ["*"] * 3]


def test_something_of_a_number_and_a_date_is_left() -> None:
    """Where values as they are would be too fine, they become intervals, and what became "*" is told."""
    days = np.datetime64("2020-01-01") + np.arange(360)
    table = {"age": np.arange(360) % 60, "day": days, "name": np.arange(360).astype(str).astype(object)}
    released = generalize(table, 5, list(table), domains={"age": (0, 99)})
    assert set(released["age"][:5]) == {"[0, 5)"}
    assert set(released["day"][:31]) == {"[2020-01-01, 2020-04-01)"}
    assert released.facts["gone"] == ["name"]
    flat = generalize(table, 5, list(table), {"age": [], "day": []})
    assert flat.facts["gone"] == ["day", "name"]


def test_numbers_become_intervals_of_the_domain() -> None:
    """Intervals start at the lower end of the domain and are exact, also for decimals and dates."""
    age = read_table({"age": np.array([20, 24, 25, 39])}, domains={"age": (0, 100)})["age"]
    assert build_hierarchy(age, [5, 20]).generalize_to(1).to_array().tolist() == [
        "[20, 25)",
        "[20, 25)",
        "[25, 30)",
        "[35, 40)",
    ]
    assert build_hierarchy(age, [5, 20]).generalize_to(2).to_array().tolist() == ["[20, 40)"] * 4
    price = read_table({"price": np.array([0.1, 0.3, 0.7])}, domains={"price": (0, 1)})["price"]
    assert build_hierarchy(price, [0.1]).generalize_to(1).to_array().tolist() == [
        "[0.1, 0.2)",
        "[0.3, 0.4)",
        "[0.7, 0.8)",
    ]
    day = read_table({"day": np.array(["2020-01-01", "2020-01-09"], dtype="datetime64[D]")})["day"]
    assert build_hierarchy(day, [7]).generalize_to(1).to_array().tolist() == [
        "[2020-01-01, 2020-01-08)",
        "[2020-01-08, 2020-01-15)",
    ]


def test_a_taxonomy_is_a_ladder() -> None:
    """The deepest labels alone go up on each rung, and what is missing joins on the highest."""
    place = read_table({"p": np.array(["Reus", "Vic", "Olot", None], dtype=object)}, taxonomies={"p": PLACES})["p"]
    rungs = build_hierarchy(place)
    assert rungs.generalize_to(0) is place
    assert rungs.generalize_to(1).to_array().tolist() == ["Reus", "Vic", "hills", None]
    assert rungs.generalize_to(2).to_array().tolist() == ["coast", "inland", "inland", None]
    assert rungs.generalize_to(3).to_array().tolist() == ["all"] * 4
    assert rungs.generalize_to(3).taxonomy is PLACES
    assert (rungs.generalize_to(1).values == ABSENT).tolist() == [False, False, False, True]


def test_an_unbalanced_taxonomy_is_climbed_by_depth() -> None:
    """All that is under B becomes B on one rung, however deep it is."""
    uneven = Taxonomy.of({"A": "root", "B": "root", "a1": "A", "b1": "B", "b3": "B", "b31": "b3", "b32": "b3"})
    rungs = build_hierarchy(build_nominal_attribute(["a1", "b1", "b31", "b32"], uneven))
    assert [rungs.generalize_to(level).to_array().tolist() for level in range(1, len(rungs.levels) + 1)] == [
        ["a1", "b1", "b3", "b3"],
        ["A", "B", "B", "B"],
        ["root"] * 4,
    ]


@given(st.data())
def test_a_label_takes_in_all_that_it_covers(data: st.DataObject) -> None:
    """In any tree, with values at any height: who is under a label that took something in has that label."""
    up = [data.draw(st.integers(0, child - 1)) for child in range(1, data.draw(st.integers(3, 14)))]
    tree = Taxonomy.of({str(child): str(above) for child, above in enumerate(up, start=1)})
    values = data.draw(st.lists(st.sampled_from(sorted(tree.ancestors)), min_size=2, max_size=8, unique=True))
    rungs = build_hierarchy(build_nominal_attribute(values, tree))
    for level, rung in enumerate(rungs.levels[:-1], start=1):
        labels = rungs.generalize_to(level).to_array().tolist()
        assert all(label in tree.ancestors[value] for value, label in zip(values, labels, strict=True))
        for label in set(labels) - {value for value, called in zip(values, labels, strict=True) if value == called}:
            assert {labels[row] for row, value in enumerate(values) if label in tree.ancestors[value]} == {label}
        covered = {name: {leaf for leaf in tree.leaves if name in tree.ancestors[leaf]} for name in labels}
        for label, width in zip(rung.labels, rung.widths, strict=True):
            as_it_is = [value for value, called in zip(values, labels, strict=True) if called == label] == [label]
            share = Fraction(len(covered[label]) - 1, max(len(tree.leaves) - 1, 1))
            assert width == (0 if as_it_is else share)


def test_a_label_is_as_wide_as_the_leaves_that_it_covers() -> None:
    """Not as those of them that are in the table; a value as it is has no width."""
    cities = {"Paris": "France", "Lyon": "France", "Nice": "France", "Rome": "Italy", "Vatican": "Europe"}
    europe = Taxonomy.of({**cities, "France": "Europe", "Italy": "Europe"})
    rungs = build_hierarchy(build_nominal_attribute(["Paris", "Rome", "Vatican"], europe))
    assert [dict(zip(rung.labels, rung.widths, strict=True)) for rung in rungs.levels] == [
        {"France": Fraction(1, 2), "Italy": 0, "Vatican": 0},
        {"Europe": 1},
    ]
    task = GeneralizationTask(
        (build_hierarchy(build_nominal_attribute(["Paris", "Paris", "Rome", "Rome"], europe)),), 4, 2, 0
    )
    whole = EquivalenceClasses(np.array([[0], [1]]), np.array([2, 2]), np.array([True, True]))
    assert INFORMATION_LOSSES["ncp"](task, (1,), whole) == Fraction(1, 4)


def build_nominal_attribute(values: Sequence[str], taxonomy: Taxonomy) -> Attribute:
    return read_table({"c": np.array(values, dtype=object)}, taxonomies={"c": taxonomy})["c"]


def test_a_concept_with_several_parents_has_one_path() -> None:
    """The parent with the most ancestors, then the first by name: never a grandparent."""
    several = Taxonomy.of({"x": ["b", "c", "root"], "b": "root", "c": "d", "d": "root"})
    assert [find_parent(several, concept) for concept in ("x", "c", "b", "root")] == ["c", "d", "root", "root"]


def test_maps_go_on_from_the_rung_below_and_a_star_ends_them() -> None:
    """Widths come first, then maps from their labels; several labels on the last rung become one more rung."""
    age = read_table({"age": np.array([3, 12, 17])}, domains={"age": (0, 20)})["age"]
    rungs = build_hierarchy(age, [10, {"[0, 10)": "child", "[10, 20)": "youth"}])
    assert [rungs.generalize_to(level).to_array().tolist() for level in (2, 3)] == [
        ["child", "youth", "youth"],
        ["*"] * 3,
    ]
    assert [[float(width) for width in rung.widths] for rung in rungs.levels] == [[0.5, 0.5], [0.5, 0.5], [1.0]]


def test_one_value_beside_missing_ones_still_meets_at_the_top() -> None:
    """A column with one value and gaps is two values, and has a rung where it is one."""
    gaps = read_table({"c": np.array(["a", None, "a"], dtype=object)})["c"]
    assert build_hierarchy(gaps).generalize_to(1).to_array().tolist() == ["*"] * 3
    released = generalize({"c": np.array(["a", None, "a"], dtype=object)}, 3, "c")
    assert released["c"].tolist() == ["*"] * 3


def test_leaving_out_one_row_spares_the_others() -> None:
    """A row that is like no other costs a level, or itself where that is allowed."""
    table = {"c": np.array(["a"] * 5 + ["b"] * 5 + ["odd"], dtype=object), "pay": np.arange(11)}
    assert set(generalize(table, 3, "c")["c"]) == {"*"}
    released = generalize(table, 3, "c", suppress=0.1, confidential="pay")
    assert Counter(released["c"]) == {"a": 5, "b": 5}
    assert released.source_rows.tolist() == list(range(10))
    assert released.facts["suppressed"] == 1
    assert released.facts["gone"] == []
    assert json.loads(json.dumps(dict(released.facts))) == dict(released.facts)
    assert (released.guarantee.model, released.guarantee.k) == ("k-anonymity", 3)


def test_columns_that_nobody_names_are_left_out() -> None:
    """What is released is the quasi-identifiers and what was said to stay."""
    table = {"c": np.array(["a", "a", "b"], dtype=object), "x": np.arange(3), "y": np.arange(3), "z": np.arange(3)}
    assert list(generalize(table, 2, "c", confidential="x", keep=["z"])) == ["c", "x", "z"]


def test_row_keys_tell_rows_apart_beyond_64_bits() -> None:
    """Columns with more combinations than a whole number holds are told apart all the same."""
    once = np.random.default_rng(1).integers(0, 2**21, (300, 5))
    other = once + np.array([0, 0, 0, 0, 1])
    codes = np.vstack([once, other, once])
    assert len(np.unique(compute_row_keys(codes))) == len({tuple(row) for row in codes.tolist()})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 1}, "k must be a whole number of at least 2"),
        ({"k": 5}, "only 4 rows"),
        ({"quasi": "what"}, "unknown column 'what'"),
        ({"quasi": ()}, "quasi must list at least one column"),
        ({"loss": "much"}, "loss must be one of precision, discernibility, class-size, ncp"),
        ({"suppress": 1}, "from 0 to below 1"),
        ({"keep": "age"}, "is a quasi-identifier and in keep"),
        ({"hierarchies": {"pay": [5]}}, "which is not a quasi-identifier"),
        ({"hierarchies": {"age": 5}}, "is a list of widths"),
        ({"hierarchies": {"age": [{"1": "x"}]}}, "must name every value below it"),
        ({"hierarchies": {"age": [2, 5]}}, "must be a multiple of the one before"),
        ({"hierarchies": {"age": [0]}}, "must be above 0"),
        ({"hierarchies": {"age": [{"1": "x"}, 5]}}, "widths before its maps"),
        ({"hierarchies": {"sex": [5]}}, "is not numeric"),
        ({"hierarchies": {"age": [2**power for power in range(70)], "sex": DEEP}}, "at most 200000"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(change: dict[str, object], words: str) -> None:
    """Each says what is allowed, and none quotes a value of a row."""
    table = {"age": np.arange(1, 5), "sex": np.array(["f", "m"] * 2, dtype=object), "pay": np.arange(4)}
    options = {"k": 2, "quasi": ["age", "sex"], "hierarchies": None} | change
    with pytest.raises(InvalidInput, match=re.escape(words)):
        generalize(table, **options)  # type: ignore[arg-type]


def test_many_columns_are_refused_unless_they_have_fewer_levels() -> None:
    """Eight numbers have too many combinations of round intervals, and not too many without."""
    table = {str(column): np.arange(100) for column in range(8)}
    with pytest.raises(InvalidInput, match="at most 200000 are searched; give hierarchies with fewer levels"):
        generalize(table, 2, list(table))
    assert generalize(table, 2, list(table), {name: [] for name in table}).facts["gone"] == list(table)


def test_whole_days_only() -> None:
    """An interval of dates is not half a day wide."""
    day = read_table({"day": np.array(["2020-01-01", "2020-01-09"], dtype="datetime64[D]")})["day"]
    with pytest.raises(InvalidInput, match="whole days"):
        build_hierarchy(day, [0.5])


def test_least_loss_of_a_real_file() -> None:
    """Eight columns of the Adult file: 10-anonymity with at most 2 % of the rows left out, in seconds."""
    import duckdb

    path = find_shared_data("adult.csv")
    relation = duckdb.sql(f"select * from read_csv('{path}')")
    names = ["age", "sex", "race", "marital-status", "education", "workclass", "occupation", "hours-per-week"]
    steps = {"age": [5, 10, 20, 40], "hours-per-week": [10, 20, 40]}
    domains = {"age": (0, 100), "hours-per-week": (0, 100)}
    released = generalize(relation, 10, names, steps, suppress=0.02, loss="ncp", domains=domains)
    classes = Counter(zip(*(released[name].tolist() for name in names), strict=True))
    assert min(classes.values()) >= 10
    assert released.facts["suppressed"] <= 0.02 * 30162
