"""Small tables and their neighbours, with every kind of column, for tests of what one unit can change."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from discreet.measurements.additive import AdditiveReading, Estimator
from discreet.planner.plan import Plan
from discreet.schema import Budget, Column, Schema

Row = dict[str, int | str | None]
Units = dict[str, list[Row]]

COLUMNS = (
    Column("age", "integer", lower=-3, upper=4),
    Column("score", "number", lower=0, upper=6, step=Fraction(1, 2), missing=0),
    Column("debt", "number", lower=-4, upper=-1, step=Fraction(1, 4), missing=-1),
    Column("sex", "nominal", lower=0, upper=1, categories=("F", "M")),
    Column("grade", "ordinal", lower=0, upper=2, categories=("low", "middle", "high"), missing=0),
    Column("smoker", "boolean", lower=0, upper=1, categories=("false", "true"), missing=0),
    Column("day", "date", lower=10, upper=14),
    Column("city", "nominal", private_keys=True),
)


def schema(neighbors: str, rows: int, units: int, **options: object) -> Schema:
    """A schema of all kinds of columns, with room for many questions."""
    declared = Schema(
        name="t",
        source="t.csv",
        folder=Path(),
        neighbors="add-remove" if neighbors == "add-remove" else "replace-one",
        columns={column.name: column for column in COLUMNS},
        budget=Budget(Fraction(10**6), Fraction(1, 100)),
        analyst_budget=Budget(Fraction(10**6), Fraction(1, 100)),
        units=units if neighbors == "replace-one" else None,
        unit="pid",
        rows=rows,
        models=("dp", "approx-dp"),
    )
    return replace(declared, **options)  # type: ignore[arg-type]


def random_row(chance: random.Random) -> Row:
    """Ends of the domains are as likely as all the rest together, since it is there that most is moved."""
    row: Row = {}
    for column in COLUMNS:
        if column.private_keys:
            row[column.name] = chance.choice(["Oslo", "Rome", None, f"key {chance.randrange(50)}"])
            continue
        ends = (column.lower, column.upper, chance.randint(column.lower, column.upper))
        row[column.name] = None if column.is_nullable and chance.random() < 0.15 else chance.choice(ends)
    return row


def random_unit(chance: random.Random, rows: int) -> list[Row]:
    """The rows of one unit: often as many as there can be, and often alike."""
    count = rows if chance.random() < 0.6 else chance.randint(1, rows)
    first = random_row(chance)
    return [dict(first) if chance.random() < 0.5 else random_row(chance) for _ in range(count)]


def neighbours_of(units: Units, relation: str, rows: int, chance: random.Random) -> Units:
    """The same units with one added, removed or replaced."""
    other = {name: [dict(row) for row in unit_rows] for name, unit_rows in units.items()}
    name = chance.choice(sorted(other))
    if relation == "replace-one":
        del other[name]
        other[name if chance.random() < 0.5 else "new"] = random_unit(chance, rows)
    elif chance.random() < 0.5:
        del other[name]
    else:
        other["new"] = random_unit(chance, rows)
    return other


def rows_of(units: Units) -> list[Row]:
    """As a snapshot in memory keeps them."""
    return [row | {"#unit": name} for name, unit_rows in units.items() for row in unit_rows]


def get_estimator(planned: Plan, index: int = 0) -> Estimator:
    """What the noisy totals of one aggregate of a plan mean."""
    reading = planned.readings[index]
    assert isinstance(reading, AdditiveReading)
    return reading.estimator


def farthest(planned: Plan, confidence: float) -> float:
    """How far off a plan's one answer may be with that probability, or an end of its interval from it: the larger."""
    return planned.readings[0].bound_error(confidence)
