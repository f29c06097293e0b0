"""The questions that take most memory, one for each shape there is; all are within the limits of a service."""

from __future__ import annotations

from collections.abc import Callable

TABLE = "registry"


def build_filtered_counts(many: int, condition: Callable[[int], str]) -> str:
    """A question of many filtered counts."""
    counts = ", ".join(f"COUNT(*) FILTER (WHERE {condition(at)}) AS c{at}" for at in range(many))
    return f"SELECT {counts} FROM {TABLE}"


def build_grouped_counts(key: str, many: int, condition: Callable[[int], str]) -> str:
    """The same in each cell of a key."""
    counts = ", ".join(f"COUNT(*) FILTER (WHERE {condition(at)}) AS c{at}" for at in range(many))
    return f"SELECT {key}, {counts} FROM {TABLE} GROUP BY {key}"


def format_date(at: int) -> str:
    return f"'{2015 + at // 300}-{1 + at % 12:02d}-{1 + at % 28:02d}'"


ORDERS = ", ".join(f"0.{order:02d}" for order in range(1, 100))
MILLION = build_filtered_counts(
    110, lambda at: f"age > {17 + at % 60} AND stay > {at} OR bmi > {10 + at % 55} OR NOT smoker"
)
SHAPES = {
    "many filters that cut a million cells": MILLION,
    "many filters on three columns": build_filtered_counts(
        100, lambda at: f"age > {18 + at % 70} OR stay > {at} OR income > {at}"
    ),
    "many disjoint filters": build_filtered_counts(110, lambda at: f"age = {17 + at % 74} AND stay = {at}"),
    "groups with many filters": build_grouped_counts("age", 50, lambda at: f"stay > {at * 7} OR bmi > {10 + at}"),
    "many groups with filters": build_grouped_counts(
        "stay", 11, lambda at: f"age > {18 + at * 6} OR bmi > {10 + at * 5}"
    ),
    "many conditions by date": build_grouped_counts(
        "admitted", 1, lambda _: " OR ".join(f"(stay = {at} AND admitted >= {format_date(at)})" for at in range(300))
    ),
    "many conditions": f"SELECT COUNT(*) FROM {TABLE} WHERE "
    + " OR ".join(f"(age = {17 + at % 70} AND stay = {at} AND bmi < {11 + at % 50})" for at in range(230)),
    "a long list": f"SELECT COUNT(*) FROM {TABLE} WHERE income IN ({','.join(str(2 * at) for at in range(1900))})",
    "histogram": f"SELECT HISTOGRAM(income, 4000) FROM {TABLE}",
    "rollup": f"SELECT age, education, sex, COUNT(*) FROM {TABLE} GROUP BY ROLLUP (age, education, sex)",
    "means of groups": f"SELECT stay, AVG(income), VAR(bmi), SUM(age) FROM {TABLE} GROUP BY stay",
    "many quantiles": f"SELECT QUANTILE(income, {ORDERS}) FROM {TABLE}",
    "quantiles of groups": f"SELECT stay, QUANTILE(income, 0.1, 0.3, 0.5, 0.7, 0.9) FROM {TABLE} GROUP BY stay",
    "medians by date": f"SELECT admitted, MEDIAN(income) FROM {TABLE} GROUP BY admitted",
    "modes of groups": f"SELECT stay, MODE(admitted) FROM {TABLE} GROUP BY stay",
}
