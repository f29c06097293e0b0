"""Counts, means and proportions of a noisy sample, told for the population it was drawn from."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
from streams import Stream
from tables import schema

from discreet import Custodian, InvalidInput, Unsupported
from discreet.answer import Population
from discreet.custodian.draw import Released
from discreet.custodian.population import generalised
from discreet.custodian.reader import Reader
from discreet.inference.sampling import Sampled, binomial, hypergeometric, poisson, silent
from discreet.planner.choose import plan
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Plan
from discreet.query import parse_sql
from discreet.schema import Column, Schema

COLUMNS = (
    Column("smoker", "boolean", lower=0, upper=1, categories=("false", "true"), missing=0),
    Column("days", "integer", lower=0, upper=100, missing=0),
)
Drawn = Callable[[random.Random], int]


def declared(units: int | None, rows: int = 1) -> Schema:
    """A table with a truth value and a number; the number of units is public where it is given."""
    relation = "add-remove" if units is None else "replace-one"
    own = schema(relation, rows, units or 0)
    return replace(own, columns={column.name: column for column in COLUMNS})


def planned(question: str, units: int | None, epsilon: object) -> Plan:
    own = declared(units)
    return plan(own, parse_sql(question, own), epsilon)


def drawn(planned: Plan, samples: Sequence[Sequence[int]], column: str, seed: int) -> list[Released]:
    """What the noise makes of each sample of codes; a count WHERE smoker is of the true ones."""
    entropy, parts = Stream(seed), []
    for one in planned.measurements:
        assert isinstance(one, Noisy)
        noises = one.noise.draw_units(len(samples), entropy)
        inputs = [one.inputs([_amount(measure.what, sample) for measure in one.form.measures]) for sample in samples]
        parts.append([tuple(int(x + n) for x, n in zip(*pair, strict=True)) for pair in zip(inputs, noises, strict=True)])
    return [Released(((),), (tuple(row),)) for row in zip(*parts, strict=True)]


def _amount(what: str, sample: Sequence[int]) -> int:
    sums = {"rows": sum(sample), "present": len(sample), "sum": sum(sample), "squares": sum(x * x for x in sample)}
    return sums[what]


def coverage(
    question: str,
    truth: float,
    samples: Sequence[Sequence[int]],
    epsilon: object,
    units: int | None,
    size: int | None = None,
    seed: int = 1,
) -> float:
    """How often the 95 % interval of the first number holds the truth."""
    own = planned(question, units, epsilon)
    reader = Reader(own)

    @cache
    def told(numbers: tuple[tuple[int, ...], ...]) -> tuple[float, float]:
        row = generalised(reader, Released(((),), (numbers,)), (0,), 0.95, size)[0]
        return next(iter(row.values())).interval

    spans = [told(one.numbers[0]) for one in drawn(own, samples, "days", seed)]
    return sum(low <= truth <= high for low, high in spans) / len(spans)
