"""Engines that make a release by themselves: each follows a plan to the rows and groups of the plain loop."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pytest
from sqlglot import exp
from test_sources import FAR, PEOPLE, WEIRD, assert_silent, row, write_duckdb, write_parquet, write_postgres
from test_sources import schema as wide_schema

from discreet.errors import Unsupported
from discreet.query.scan import (
    MISSING_CODE,
    AnatomyPlan,
    DealRule,
    RankRuns,
    ReleaseBatch,
    ReleasePlan,
    SwapPlan,
    TClosenessPlan,
)
from discreet.schema import Column, Schema
from discreet.sources.duckdb import DuckDBSource
from discreet.sources.memory import MemorySource
from discreet.sources.postgres import PostgresSource
from discreet.sources.protocol import Source
from discreet.sources.spark import SparkSource
from discreet.sources.sql import PlanCompiler
from support import small_tables
from support.seeded_entropy import cache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = small_tables.Row
Opened = Callable[[Schema, Sequence[Row]], Source]
KEY = "a secret of the release's"
RANKED = [column.name for column in small_tables.COLUMNS if not column.private_keys]
ENGINES = [
    "duckdb",
    pytest.param("postgres", marks=pytest.mark.xdist_group("postgres")),
    pytest.param("spark", marks=pytest.mark.xdist_group("spark")),
]


@pytest.fixture(params=ENGINES)
def open_source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """A source of these rows on the engine under test."""
    with ExitStack() as sources:

        def store_rows(schema: Schema, rows: Sequence[Row]) -> Source:
            path = tmp_path / str(len(list(tmp_path.iterdir())))
            match request.param:
                case "duckdb":
                    write_duckdb(schema, rows, 1, path)
                    return DuckDBSource(schema, path)
                case "postgres":
                    dsn = request.getfixturevalue("postgres")
                    write_postgres(schema, rows, 1, dsn, "released")
                    return PostgresSource(schema, dsn, "released")
                case _:
                    write_parquet(schema, rows, 1, path)
                    return SparkSource(schema, request.getfixturevalue("spark"), path)

        yield lambda schema, rows: sources.enter_context(closing(store_rows(schema, rows)))


def gather_batches(batches: Iterable[ReleaseBatch]) -> dict[tuple[str, str], list[int | str | None]]:
    """All rows of all batches, in a form that can be compared."""
    codes: dict[tuple[str, str], list[int | str | None]] = {}
    for batch in batches:
        for part in ("original", "changed", "groups"):
            for name, values in getattr(batch, part).items():
                assert values.dtype in {np.dtype(np.int64), np.dtype(object)}
                codes.setdefault((part, name), []).extend(values.tolist())
    return codes


def random_plan(random: Random, rows: int, kind: int) -> ReleasePlan:
    """One of four kinds, with any k."""
    runs = random.choice([RankRuns.both_ends, RankRuns.low_end])
    if kind == 0:
        chosen = random.sample(RANKED, random.randint(1, 3))
        return SwapPlan(tuple((name, runs(rows, random.randint(2, rows))) for name in chosen))
    if kind == 1:
        return AnatomyPlan(random.choice(RANKED), runs(rows, random.randint(2, rows)))
    cuts = tuple(sorted(random.sample(range(1, rows), random.randrange(min(rows, 6)))))
    return TClosenessPlan(random.choice(RANKED), cuts, random_deals(random, cuts, rows), hidden=kind == 2)


def random_deals(random: Random, cuts: Sequence[int], rows: int) -> tuple[DealRule, ...]:
    """All places of every bucket, in pieces, each dealt from any label in any turn."""
    deals = []
    for bucket, (start, end) in enumerate(zip((0, *cuts), (*cuts, rows), strict=True)):
        ends = {random.randint(1, end - start), end - start}
        first = 0
        for last in sorted(ends):
            groups = random.randint(1, 4)
            deals.append(DealRule(bucket, first, last, random.randrange(5), groups, random.randrange(groups)))
            first = last
    return tuple(deals)


def cases(count: int, plans: int) -> Iterator[tuple[Schema, list[Row], list[ReleasePlan]]]:
    """Tables of all kinds of columns: several rows of a unit, one each, and none named, with many alike."""
    random = Random(6)
    for place in range(count):
        most = (3, 1, 1)[place % 3]
        units = {
            f"{random.choice(WEIRD)} {i}": small_tables.random_unit(random, most) for i in range(random.randint(4, 40))
        }
        rows = small_tables.rows_of(units)
        schema = small_tables.schema("add-remove", most, len(units))
        if place % 3 == 2:
            schema = replace(schema, unit=None)
            rows = [{name: each[name] for name in schema.columns} for each in rows] * 2
        random.shuffle(rows)
        yield schema, rows, [random_plan(random, len(rows), (place + i) % 4) for i in range(plans)]


@pytest.mark.parametrize(
    ("open_source", "count", "each"),
    [
        ("duckdb", 9, 2),
        pytest.param("postgres", 9, 2, marks=pytest.mark.xdist_group("postgres")),
        pytest.param("spark", 3, 1, marks=pytest.mark.xdist_group("spark")),
        pytest.param("duckdb", 200, 8, marks=pytest.mark.soak),
        pytest.param("postgres", 200, 8, marks=[pytest.mark.soak, pytest.mark.xdist_group("postgres")]),
        pytest.param("spark", 9, 8, marks=[pytest.mark.soak, pytest.mark.xdist_group("spark")]),
    ],
    indirect=["open_source"],
)
def test_engines_agree_with_the_plain_loop(open_source: Opened, count: int, each: int) -> None:
    """Whatever the rows, plan and key: the same rows in the same order, with the same values and groups."""
    for schema, rows, plans in cases(count, each):
        source, reference = open_source(schema, rows), MemorySource(schema, rows)
        assert source.count() == reference.count() == len(rows)
        assert gather_batches(source.records()) == gather_batches(reference.records())
        for plan in plans:
            assert gather_batches(source.release_rows(plan, KEY)) == gather_batches(reference.release_rows(plan, KEY))


def test_far_codes_and_odd_texts_are_followed_too(open_source: Opened, request: pytest.FixtureRequest) -> None:
    """No bound of 32 or 64 bits is passed, and no text is taken for anything but itself."""
    odd = [row(name, None, -50, FAR - i, 2**31 - 1 - i, name) for i, name in enumerate(WEIRD)]
    rows, schema = [*PEOPLE, *odd], wide_schema()
    source, reference = open_source(schema, rows), MemorySource(schema, rows)
    few = request.node.callspec.params["open_source"] == "spark"  # each key is a job of a second there
    for key, name in zip(WEIRD[:2] if few else WEIRD, cycle(("far", "edge", "age")), strict=False):
        plan = SwapPlan(((name, RankRuns.low_end(13, 3)),))
        assert gather_batches(source.release_rows(plan, key)) == gather_batches(reference.release_rows(plan, key))


def test_thousands_of_deals_are_one_small_table(open_source: Opened) -> None:
    """Buckets and deals are looked up, however many there are."""
    schema, rows, plan, expected = many_deals()
    assert len(plan.deals) > 3000
    assert gather_batches(open_source(schema, rows).release_rows(plan, KEY)) == expected


@cache
def many_deals() -> tuple[Schema, list[Row], TClosenessPlan, dict[tuple[str, str], list[int | str | None]]]:
    """A table, a plan of thousands of deals, and what the plain loop makes of them: the same for every engine."""
    columns = {"wage": Column("wage", "integer", 0, 10**6)}
    schema = replace(small_tables.schema("add-remove", 1, 1), columns=columns)
    random = Random(1)
    rows: list[Row] = [{"#unit": str(i), "wage": random.randint(0, 10**6)} for i in range(6000)]
    cuts = tuple(range(3, 6000, 3))
    plan = TClosenessPlan("wage", cuts, random_deals(random, cuts, 6000), True)
    return schema, rows, plan, gather_batches(MemorySource(schema, rows).release_rows(plan, KEY))


def test_private_keys_are_not_ranked(open_source: Opened) -> None:
    """They have no public order; that is said before a row is read."""
    schema, rows, _ = next(cases(1, 1))
    runs = RankRuns.low_end(len(rows), 2)
    for source in (open_source(schema, rows), MemorySource(schema, rows)):
        deals = (DealRule(0, 0, len(rows), 0, 1, 0),)
        for plan in (SwapPlan((("city", runs),)), AnatomyPlan("city", runs), TClosenessPlan("city", (), deals, True)):
            with pytest.raises(Unsupported, match="'city', but they are private keys"):
                source.release_rows(plan, KEY)


def test_no_rows_are_no_batches(open_source: Opened) -> None:
    """An empty table is not an error of an engine."""
    schema = small_tables.schema("add-remove", 1, 1)
    source = open_source(schema, [])
    assert source.count() == 0
    assert list(source.records()) == list(source.release_rows(AnatomyPlan("age", RankRuns.low_end(0, 2)), KEY)) == []


def test_replies_do_not_get_in_each_others_way(open_source: Opened) -> None:
    """One that is begun before another has come to its end is still what it would be alone."""
    schema, rows, [plan] = next(cases(1, 1))
    source = open_source(schema, rows)
    begun = [source.records(), source.release_rows(plan, KEY), source.records()]
    first = [[next(each)] for each in begun]
    reference = MemorySource(schema, rows)
    expected = [reference.records(), reference.release_rows(plan, KEY), reference.records()]
    assert [gather_batches([*one, *rest]) for one, rest in zip(first, begun, strict=True)] == list(
        map(gather_batches, expected)
    )


def test_failures_are_told_in_one_sentence(tmp_path: Path) -> None:
    """A file let go of before or between batches: nothing of what DuckDB says."""
    schema, rows, plans = next(cases(1, 1))
    write_duckdb(schema, rows, 1, tmp_path / "snapshot")
    source = DuckDBSource(schema, tmp_path / "snapshot")
    source.close()
    for failing in (source.records, source.count, lambda: source.release_rows(plans[0], KEY)):
        assert_silent(lambda failing=failing: list(failing()))


def test_a_table_that_has_gone_is_told_in_one_sentence(postgres: str) -> None:
    """Nothing of what PostgreSQL says."""
    import psycopg

    schema, rows, plans = next(cases(1, 1))
    write_postgres(schema, rows, 1, postgres, "gone")
    source = PostgresSource(schema, postgres, "gone")
    with psycopg.connect(postgres) as connection:
        connection.execute("DROP TABLE discreet.gone")
    for failing in (source.records, source.count, lambda: source.release_rows(plans[0], KEY)):
        assert_silent(lambda failing=failing: list(failing()))


def test_files_that_have_gone_are_told_in_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing of what Spark says."""
    schema, rows, plans = next(cases(1, 1))
    write_parquet(schema, rows, 1, tmp_path / "gone")
    with closing(SparkSource(schema, spark, tmp_path / "gone")) as source:
        shutil.rmtree(tmp_path / "gone")
        for failing in (source.records, source.count, lambda: source.release_rows(plans[0], KEY)):
            assert_silent(lambda failing=failing: list(failing()))


def test_the_key_is_not_in_the_statement() -> None:
    """Databases keep the texts of statements; a key is a parameter, as every text is."""
    schema, _, plans = next(cases(1, 1))
    for dialect in ("duckdb", "postgres", "spark"):
        for plan in plans:
            statement = PlanCompiler(schema, dialect, exp.table_("snapshot")).compile_release(plan, KEY)
            assert "'" not in statement.sql
            assert f"{KEY}|order" in statement.texts


@pytest.mark.parametrize("rows", [5, 13, 29, 30, 31])
def test_values_stay_in_groups_of_k_ranks(rows: int) -> None:
    """A group is a run of ranks, by value, missing ones last, then by unit: at least k rows, whose values it keeps."""
    random = Random(rows)
    table_rows = small_tables.rows_of({str(i): [small_tables.random_row(random)] for i in range(rows)})
    by_rank = sorted(table_rows, key=lambda each: (each["day"] is None, each["day"] or 0, str(each["#unit"]).encode()))
    runs = RankRuns.both_ends(rows, 4)
    plan = SwapPlan((("day", runs),))
    codes = gather_batches(MemorySource(small_tables.schema("add-remove", 1, rows), table_rows).release_rows(plan, KEY))
    labels = codes["groups", "day"]
    assert min(Counter(labels).values()) >= 4
    expected = Counter(
        zip(runs.compute_labels(np.arange(rows)).tolist(), [code(each["day"]) for each in by_rank], strict=True)
    )
    assert Counter(zip(labels, codes["original", "day"], strict=True)) == expected
    assert Counter(zip(labels, codes["changed", "day"], strict=True)) == expected


def code(value: int | str | None) -> int | str:
    return MISSING_CODE if value is None else value


def test_the_order_is_that_of_a_hash_that_anyone_with_the_key_can_check() -> None:
    """Of the key, the purpose, which of the rows alike, the unit and the codes, texts after their lengths."""
    schema = wide_schema(rows=1)
    people = [row("ann", 30, -5, None, 7, "東京"), row("bob", None, 0, FAR, 8, None), row("cyd", 1, 2, 3, 4, "")]
    texts = [
        f"{KEY}|order|1|3:ann|30|-5||7|6:東京",
        f"{KEY}|order|1|3:bob||0|{FAR}|8|",
        f"{KEY}|order|1|3:cyd|1|2|3|4|0:",
    ]
    edges = {hashlib.sha256(text.encode()).hexdigest(): each["edge"] for text, each in zip(texts, people, strict=True)}
    codes = gather_batches(MemorySource(schema, people).release_rows(AnatomyPlan("age", RankRuns.low_end(3, 3)), KEY))
    assert codes["original", "edge"] == [edges[each] for each in sorted(edges)]


ONE = replace(small_tables.schema("add-remove", 1, 1), unit=None, columns={"a": Column("a", "integer", 0, 9)})


def test_rows_alike_have_orders_of_their_own() -> None:
    """Of A, A and B, B's row keeps its value in a third of the releases; in half, were the two A's not told apart."""
    source, plan = MemorySource(ONE, [{"a": 1}, {"a": 1}, {"a": 2}]), SwapPlan((("a", RankRuns.low_end(3, 3)),))
    coincidences = 0
    for key in range(2000):
        codes = gather_batches(source.release_rows(plan, str(key)))
        coincidences += (2, 2) in zip(codes["original", "a"], codes["changed", "a"], strict=True)
    assert abs(coincidences - 2000 / 3) < 4 * (2000 * 2 / 9) ** 0.5


def test_every_value_goes_everywhere_and_columns_go_apart() -> None:
    """Over keys, each of five rows gets each value alike often, whatever it gets in another column with the groups."""
    both = replace(ONE, columns={name: Column(name, "integer", 0, 9) for name in ("a", "b")})
    source = MemorySource(both, [{"a": i, "b": i} for i in range(5)])
    plan = SwapPlan((("a", RankRuns.low_end(5, 5)), ("b", RankRuns.low_end(5, 5))))
    outcomes: Counter[tuple[object, ...]] = Counter()
    for key in range(2000):
        codes = gather_batches(source.release_rows(plan, str(key)))
        outcomes.update(zip(codes["original", "a"], codes["changed", "a"], codes["changed", "b"], strict=True))
    for value in range(5):
        counts = np.array([outcomes[value, a, b] for a in range(5) for b in range(5)])
        assert counts.sum() == 2000
        assert ((counts - 80) ** 2 / 80).sum() < 59  # chi-square of 24 degrees, 1 in 10,000


def test_the_order_of_the_file_tells_nothing_of_the_swap() -> None:
    """Over keys, the place of a row in the file and the value it gets have nothing to do with each other."""
    source, plan = MemorySource(ONE, [{"a": i} for i in range(4)]), SwapPlan((("a", RankRuns.low_end(4, 4)),))
    outcomes: Counter[tuple[object, ...]] = Counter()
    for key in range(2000):
        codes = gather_batches(source.release_rows(plan, str(key)))
        outcomes.update(enumerate(codes["changed", "a"]))
    counts = np.array([outcomes[place, value] for place in range(4) for value in range(4)])
    assert ((counts - 500) ** 2 / 500).sum() < 42  # chi-square of at most 15 degrees, 1 in 5,000


def test_hidden_buckets_are_permuted_in_their_group() -> None:
    """Over keys, each row of a group carries each of its buckets alike often; without hiding always its own."""
    source = MemorySource(ONE, [{"a": i} for i in range(6)])
    deals = tuple(DealRule(bucket, 0, 2, 0, 2, 0) for bucket in range(3))
    shown = gather_batches(source.release_rows(TClosenessPlan("a", (2, 4), deals, False), KEY))
    assert shown["changed", "a"] == [value // 2 for value in shown["original", "a"]]
    outcomes: Counter[tuple[object, ...]] = Counter()
    for key in range(2000):
        codes = gather_batches(source.release_rows(TClosenessPlan("a", (2, 4), deals, True), str(key)))
        rows = list(zip(codes["groups", "records"], codes["changed", "a"], strict=True))
        assert sorted(rows) == [(group, bucket) for group in range(2) for bucket in range(3)]
        outcomes.update(zip(codes["original", "a"], codes["changed", "a"], strict=True))
    counts = np.array([outcomes[value, bucket] for value in range(6) for bucket in range(3)])
    assert ((counts - 2000 / 3) ** 2 / (2000 / 3)).sum() < 42


def million(path: Path, rows: int) -> Schema:
    """A snapshot of so many rows of which many are alike in a column."""
    columns = [
        Column("age", "integer", 0, 80),
        Column("wage", "integer", 0, 3_000_000),
        Column("x", "integer", 0, 10**6),
    ]
    with duckdb.connect(path) as connection:
        statement = (
            f"hash(i) % 81, floor(exp(hash(i + {rows}) % 10000 / 1250.0) * 1000), hash(i + {2 * rows}) % 1000000"
        )
        casts = ", ".join(f"CAST({each} AS INTEGER) AS c{i}" for i, each in enumerate(statement.split(", ")))
        connection.execute(f"CREATE TABLE snapshot AS SELECT {casts}, 'p' || i AS u FROM range({rows}) t(i)")
    return replace(small_tables.schema("add-remove", 1, 1), columns={column.name: column for column in columns})


@pytest.mark.parametrize("rows", [250_003, pytest.param(10_000_000, marks=pytest.mark.soak)])
def test_a_large_table_comes_in_batches(rows: int, tmp_path: Path) -> None:
    """No batch is larger than 100,000 rows; together they are all rows, and every group has k or a few more."""
    with closing(DuckDBSource(million(tmp_path / "snapshot", rows), tmp_path / "snapshot")) as source:
        groups = np.zeros(rows // 10, np.int64)
        moved = np.zeros(2, object)
        for batch in source.release_rows(SwapPlan((("wage", RankRuns.low_end(rows, 10)),)), KEY):
            assert len(batch.groups["wage"]) <= 100_000
            groups += np.bincount(batch.groups["wage"], minlength=len(groups))
            moved += [int(batch.original["wage"].sum()), int(batch.changed["wage"].sum())]
        assert groups.min() == 10
        assert groups.sum() == rows
        assert moved[0] == moved[1]
        assert sum(len(batch.original["x"]) for batch in source.records()) == rows
