"""A prior that an answer is drawn from is used as stated: what lies beyond its ends is never returned.

Every test that samples here holds for every draw there can be, so that it cannot fail by chance.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from discreet import Custodian, InvalidInput, Prior
from discreet.custodian.draw import exact, release
from discreet.custodian.reader import Reader
from discreet.errors import Unsupported
from discreet.planner.choose import plan
from discreet.planner.plan import Plan
from discreet.planner.refined import RefinedTotal, on_grid
from discreet.inference.belief import believed
from discreet.query import parse_sql
from discreet.sample import write_registry
from discreet.schema import Column, Schema
from discreet.schema.column import EPOCH, Value
from discreet.sources.memory import UNIT, MemorySource
from tables import schema

COLUMNS = (
    Column("age", "integer", lower=17, upper=90, missing=17),
    Column("income", "integer", lower=0, upper=1_000_000, missing=0),
    Column("height", "number", lower=600, upper=880, step=Fraction(1, 4), missing=600),
    Column("born", "date", lower=0, upper=200_000, missing=0),
    Column("grade", "ordinal", upper=400, categories=tuple(f"g{at}" for at in range(401)), missing=0),
    Column("sex", "nominal", upper=1, categories=("F", "M"), missing=0),
)
BY_NAME = {column.name: column for column in COLUMNS}
Numbers = tuple[Fraction, Fraction]


def declared(number: int, neighbours: str = "replace-one") -> Schema:
    return schema(neighbours, 1, number, columns=BY_NAME, individual_queries=True)


def rows(chance: random.Random, number: int) -> list[dict[str, int | str | None]]:
    return [
        {UNIT: f"p{at}"} | {column.name: chance.randint(column.lower, column.upper) for column in COLUMNS}
        for at in range(number)
    ]


def draws(planned: Plan, source: MemorySource, count: int) -> list[Value]:
    """What so many replies to one question would tell, as they are read from what is released."""
    cells = planned.cells()
    secret, reader = exact(planned, source, cells, planned.query.where), Reader(planned)
    return [
        value
        for _ in range(count)
        for numbers in release(planned, secret, [0] * len(cells)).numbers
        for value in reader.values(0, numbers[0])
    ]


def test_answers_about_one_person_stay_within_a_uniform_prior() -> None:
    """An absent person's too."""
    own = declared(10)
    planned = plan(own, parse_sql("SELECT age FROM t FOR UNIT 'p1'", own), 1, None, "uniform(20, 30)")
    for age in (18, 25, 90, None):
        source = MemorySource(own, [] if age is None else [{UNIT: "p1", "age": age}])
        assert all(20 <= value <= 30 for value in draws(planned, source, 150))  # type: ignore[operator]


def test_a_refined_trimmed_mean_stays_within_a_uniform_prior() -> None:
    own = declared(10)
    query = parse_sql("SELECT TRIMMED_MEAN(age, 0.1) FROM t", own)
    planned = plan(own, query, 1, None, "uniform(20, 30)", distance="continuous")
    source = MemorySource(own, [{"age": code} for code in (17, 20, 20, 21, 22, 23, 24, 25, 26, 90)])
    assert all(20 <= value <= 30 for value in draws(planned, source, 500))  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A random prior with ends, and what it holds possible, decided here and not by the package."""

    given: str | Prior
    possible: Callable[[Fraction], bool]
    hull: Numbers


def within(parts: list[Numbers], hull: Numbers) -> Callable[[Fraction], bool]:
    return lambda value: hull[0] <= value <= hull[1] and any(low <= value <= high for low, high in parts)


def random_prior(chance: random.Random, low: Fraction, high: Fraction, step: Fraction, dates: bool) -> Drawn:
    """Somewhere between low and high, and beyond; its ends often lie between two values."""

    def place() -> Fraction:
        grain = chance.choice([step, step, step / 7, Fraction(1, 10)])
        if dates:
            grain = Fraction(1)
        wide = high - low
        return low + Fraction(round((wide * Fraction(chance.random() * 1.1 - 0.05)) / grain)) * grain

    def told(number: Fraction) -> str:
        return date.fromordinal(EPOCH.toordinal() + int(number)).isoformat() if dates else str(number)

    def shape() -> tuple[str, Numbers]:
        one, two, three = sorted(place() for _ in range(3))
        if chance.random() < 0.4:  # narrow ones
            two = three = one + step * chance.randrange(9)
        kind = chance.choice(["uniform", "uniform", "triangular", "point"])
        if kind == "point":
            return f"{chance.randint(1, 9)} point({told(two)})", (two, two)
        middle = f"{told(two)}, " if kind == "triangular" else ""
        return f"{chance.randint(1, 9)} {kind}({told(one)}, {middle}{told(three)})", (one, three)

    kind = chance.choice(["shapes", "shapes", "shapes", "cut", "bare", "weights", "object"])
    if kind == "weights" and not dates:
        numbers = sorted({low + step * chance.randrange(int((high - low) / step) + 1) for _ in range(4)})
        support = {Fraction(number) for number in numbers}
        text = json.dumps({str(float(number)): at + 1 for at, number in enumerate(numbers)})
        return Drawn(text, support.__contains__, (numbers[0], numbers[-1]))
    first, last = sorted((place(), place()))
    if kind == "object" and not dates:
        fine = step / chance.choice([1, 1, 3])
        start = low + fine * chance.randrange(int((high - low) / fine))
        end = start + fine * chance.randrange(1, 4000)
        made = chance.choice(
            [Prior.uniform(start, end, fine), Prior.normal(start, (end - start) / 3, start, end, fine)]
        )
        return Drawn(made, within([(start, end)], (start, end)), (start, end))
    if kind == "bare":
        return Drawn(f"uniform on [{told(first)}, {told(last)}]", within([(first, last)], (first, last)), (first, last))
    if kind == "cut":
        spread = chance.choice(["normal", "laplace", "cauchy"])
        text = f"{spread}({told(place())}, {float(high - low) / 5}) on [{told(first)}, {told(last)}]"
        return Drawn(text, within([(first, last)], (first, last)), (first, last))
    shapes = [shape() for _ in range(chance.choice([1, 1, 2, 3]))]
    parts = [part for _, part in shapes]
    hull = min(part[0] for part in parts), max(part[1] for part in parts)
    text = " + ".join(one for one, _ in shapes)
    if chance.random() < 0.3:
        hull = max(hull[0], first), min(hull[1], last)
        text += f" on [{told(first)}, {told(last)}]"
    return Drawn(text, within(parts, hull), hull)


def number_of(value: object) -> Fraction:
    return Fraction(value.toordinal() - EPOCH.toordinal()) if isinstance(value, date) else Fraction(value)  # type: ignore[arg-type]


CHOICES = ("MEDIAN({})", "QUANTILE({}, 0.1)", "MIN({})", "MAX({})", "SECOND_MAX({})", "MODE({})", "QUANTILES")
TOTALS = ("COUNT(*)", "SUM({})", "AVG({})", "VAR({})", "STDDEV({})", "TRIMMED_MEAN({}, 0.1)")


def one_round(chance: random.Random, count: int) -> int:
    """A random question with a random prior with ends; how many numbers were drawn from the prior, all possible."""
    own = declared(number := chance.choice([9, 60]), chance.choice(["add-remove", "replace-one"]))
    column = BY_NAME[chance.choice(["age", "income", "height", "born", "grade"])]
    low, high, step = column.lower * column.step, column.upper * column.step, column.step
    text, more = chance.choice(["about", *CHOICES, *TOTALS]), {}
    if text in TOTALS:
        column = BY_NAME[chance.choice(["age", "height"])]
        low, high, step = column.lower * column.step, column.upper * column.step, column.step
        if text == "COUNT(*)":
            low, high, step = Fraction(0), Fraction(number), Fraction(1)
        if text.startswith("SUM"):
            low, high = number * low, number * high
        if text[:3] in ("VAR", "STD"):
            low, high = Fraction(0), (high - low) ** 2 / 4 if text[0] == "V" else (high - low) / 2
        more["distance"] = chance.choice(["continuous", "continuous", "nominal"])
        if text == "TRIMMED_MEAN({}, 0.1)":
            own = declared(number)
    elif chance.random() < 0.3 and text != "QUANTILES":
        more["distance"] = "nominal" if column.categories else "continuous"
    elif text[:2] in ("ME", "QU") and text != "QUANTILES" and chance.random() < 0.2:
        more["interval"] = True
    asked = "QUANTILE({0}, 0.25, 0.5, 0.9)" if text == "QUANTILES" else text
    group = " GROUP BY sex" if text in CHOICES and chance.random() < 0.2 else ""
    selected = f"SELECT {column.name} FROM t FOR UNIT 'p1'" if text == "about" else f"SELECT {asked} FROM t{group}"
    drawn = random_prior(chance, low, high, step, column.kind == "date")
    if column.categories:
        names = chance.sample(column.categories, chance.randint(1, 5))
        drawn = Drawn(json.dumps({name: at + 1 for at, name in enumerate(names)}), lambda _: False, drawn.hull)
    epsilon = chance.choice([Fraction(1, 10), 1, 8])
    try:
        planned = plan(own, parse_sql(selected.format(column.name), own), epsilon, None, drawn.given, **more)
    except (InvalidInput, Unsupported):
        return 0  # no value of the column is possible, or no such question
    if not planned.uses_prior:
        return 0
    assert planned.prior_use is not None
    source = MemorySource(own, rows(chance, number))
    found = draws(planned, source, count)
    if column.categories:
        assert set(found) <= set(names)
        return len(found)
    numbers = [number_of(value) for value in found]
    assert all(map(drawn.possible, numbers)), (selected, drawn.given, more)
    one = planned.measurements[0]
    before = Reader(planned).before(0)
    for law in (
        before,
        one.posterior(
            release(
                planned, exact(planned, source, planned.cells(), planned.query.where), [0] * len(planned.cells())
            ).numbers[0][0]
        ),
    ):  # type: ignore[union-attr]
        if law is not None:
            told = (law.mean(), *law.interval(0.95))
            slack = 1e-9 * (1 + abs(float(drawn.hull[0])) + abs(float(drawn.hull[1])))
            assert all(drawn.hull[0] - slack <= end <= drawn.hull[1] + slack for end in told), (selected, drawn.given)
    return len(found)


def soaked(seed: int, wanted: int, count: int) -> int:
    chance, found = random.Random(seed), 0
    while found < wanted:
        found += one_round(chance, count)
    return found


def test_a_few_hundred_answers_from_random_priors_with_ends_are_possible() -> None:
    assert soaked(1, 600, 8) >= 600


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_a_hundred_thousand_answers_from_random_priors_with_ends_are_possible(seed: int) -> None:
    assert soaked(1000 + seed, 10_000, 25) >= 10_000
