"""Random data sets with a neighbour each, random questions, and every public way to hand one in.

`try_plans` asks each question of both tables in the same way, with all draws decided (`losses`), and compares: the real
loss with what the reply claims and the ledger was charged; the replies, where the same was drawn; refusals, which may
depend on nothing in the rows and come before any charge.
"""

from __future__ import annotations

import csv
import http.client
import json
import math
import random
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode

import uvicorn
import yaml

from discreet import Client, Custodian
from discreet.datasets import dataset_dir
from discreet.errors import BudgetExceeded, DiscreetError, InvalidInput, Unsupported
from discreet.query import parse_question
from discreet.query.predicates import AllOf, AnyOf, InRanges, InTexts
from discreet.query.query import Aggregate, GroupKey, HavingCondition, OutputColumn, Presentation, Query
from discreet.schema import Schema
from discreet.service.app import make_app
from discreet.service.config import Config, DatasetConfig, Limits
from discreet.service.store.tokens import create_token
from support import real_losses
from support.command_line import run_discreet
from support.real_losses import Loss, Recorded, compare_outputs, compute_ratios, recording

Row = dict[str, str]
Document = dict[str, Any]
TOLERANCE = 1e-7
"""How far a ratio computed with floats may be above 1."""
FIRST_DAY = date(2020, 1, 1)
FUNCTIONS = ("count", "count_distinct", "sum", "avg", "var", "stddev", "quantile", "min", "max", "second_max", "mode")


# Data sets.

COLUMNS: dict[str, dict[str, Any]] = {
    "age": {"kind": "integer", "lower": -3, "upper": 4},
    "pay": {"kind": "integer", "lower": 0, "upper": 60},
    "score": {"kind": "number", "lower": 0, "upper": 3, "step": 0.5},
    "debt": {"kind": "number", "lower": -1, "upper": -0.25, "step": 0.25},
    "sex": {"kind": "nominal", "categories": ["F", "M"]},
    "grade": {"kind": "ordinal", "categories": ["low", "middle", "high"]},
    "smoker": {"kind": "boolean"},
    "job": {"kind": "nominal", "taxonomy": "job.json"},
    "day": {"kind": "date", "lower": "2020-01-01", "upper": "2020-01-09"},
    "city": {"kind": "nominal", "keys": "private"},
}
JOBS = {"work": [], "health": "work", "nurse": "health", "medic": "health", "clerk": "work"}
"""Every kind of work and what it is a kind of."""
CATEGORIES = {"grade": ("low", "middle", "high"), "job": ("nurse", "medic", "clerk")}
NUMBERS = ("age", "pay", "score", "debt")
ENDS = {
    "age": ("-3", "4"),
    "pay": ("0", "60"),
    "score": ("0", "3"),
    "debt": ("-1", "-0.25"),
    "sex": ("F", "M"),
    "grade": ("low", "high"),
    "smoker": ("false", "true"),
    "job": ("nurse", "clerk"),
    "day": ("2020-01-01", "2020-01-09"),
    "city": ("Oslo", "Rome"),
}


def generate_schema(chance: random.Random, name: str = "t") -> dict[str, Any]:
    """A schema of some of the columns, under either relation, with a unit of one to three rows."""
    columns = {}
    for name_of_column in sorted(chance.sample(sorted(COLUMNS), chance.randrange(3, 7)), key=list(COLUMNS).index):
        columns[name_of_column] = dict(COLUMNS[name_of_column])
        if name_of_column != "city" and chance.random() < 0.5:
            columns[name_of_column]["missing"] = ENDS[name_of_column][chance.randrange(2)]
    if not set(columns) & set(NUMBERS):
        columns["age"] = dict(COLUMNS["age"])
    is_replace_one, rows = chance.random() < 0.5, chance.choice((1, 1, 1, 2, 3))
    schema: dict[str, Any] = {"name": name, "source": f"{name}.csv", "columns": columns}
    schema |= {"neighbours": "replace-one" if is_replace_one else "add-remove", "unit": {"column": "pid", "rows": rows}}
    if is_replace_one:
        schema["units"] = chance.randrange(1, 8)
    schema["budget"] = {"epsilon": 10**6, "delta": "0.5"}
    model_draw = chance.random()
    if model_draw < 0.5:
        schema["models"] = ["dp", "approx-dp"]
    elif model_draw < 0.75:
        schema |= {"models": ["dp", "individual-dp"], "individual_dp_reason": "a test"}
    schema["individual_queries"] = rows == 1 and chance.random() < 0.6
    public = [name_of_column for name_of_column in ("sex", "grade", "smoker") if name_of_column in columns]
    if public and chance.random() < 0.3:
        schema["partition"] = chance.choice(public)
    if "sex" in columns and schema.get("units", 2) > 1 and chance.random() < 0.2:
        published = {"statistic": "women", "value": "2", "question": f"SELECT COUNT(*) FROM {name} WHERE sex = 'F'"}
        schema["published"] = [published]
    if "age" in columns and chance.random() < 0.15:
        schema["columns"]["age"]["counts"] = "falling"
    if "age" in columns and chance.random() < 0.15:
        schema["impossible"] = ["age < -2"]
    return schema


def generate_value(column: str, declared: Mapping[str, Any], chance: random.Random) -> str:
    """The ends of a domain are as likely as all the rest, and beyond it there is more to be cut."""
    if "missing" not in declared and chance.random() < 0.12:
        return ""
    if chance.random() < 0.5:
        return chance.choice(ENDS[column])
    match column:
        case "age" | "pay":
            return str(chance.randrange(-5, 70 if column == "pay" else 7))
        case "score" | "debt":
            return str(chance.randrange(-8, 20) / 4)
        case "day":
            return (FIRST_DAY + timedelta(days=chance.randrange(9))).isoformat()
        case "city":
            return f"key {chance.randrange(4)}"
    return chance.choice(CATEGORIES.get(column, ENDS[column]))


def generate_unit(schema: Mapping[str, Any], chance: random.Random) -> list[Row]:
    """Often as many rows as there can be, now and then more, and often alike."""
    most = schema["unit"]["rows"]
    count = most if chance.random() < 0.6 else chance.randrange(1, most + 2)
    rows: list[Row] = []
    for _ in range(count):
        fresh = {column: generate_value(column, declared, chance) for column, declared in schema["columns"].items()}
        rows.append(dict(rows[0]) if rows and chance.random() < 0.5 else fresh)
    return rows


def build_end_unit(schema: Mapping[str, Any], end: int) -> list[Row]:
    """All of a unit's rows at one end of every domain."""
    return [{column: ENDS[column][end] for column in schema["columns"]} for _ in range(schema["unit"]["rows"])]


def generate_tables(schema: Mapping[str, Any], chance: random.Random) -> tuple[list[Row], list[Row]]:
    """A table, and a neighbour: one unit more, one less, or one in another's place."""
    is_replace_one = schema["neighbours"] == "replace-one"
    size = schema["units"] - 1 if is_replace_one else chance.randrange(1, 5)
    same = chance.randrange(2)
    others = {f"p{at}": generate_unit(schema, chance) for at in range(size)}
    if chance.random() < 0.25:
        others = {name: build_end_unit(schema, same) for name in others}
    far = chance.random() < 0.5
    unit = build_end_unit(schema, chance.randrange(2)) if far else generate_unit(schema, chance)
    other_unit = (
        build_end_unit(schema, chance.randrange(2)) if far and chance.random() < 0.8 else generate_unit(schema, chance)
    )
    first, second = (
        {**others, "one": unit},
        {**others, chance.choice(("one", "new")): other_unit} if is_replace_one else others,
    )
    tables = [[row | {"pid": name} for name, rows in each.items() for row in rows] for each in (first, second)]
    chance.shuffle(tables)
    return tables[0], tables[1]


# Questions.


@dataclass(frozen=True)
class Ask:
    """A question, and what goes with it."""

    sql: str
    options: Mapping[str, Any] = field(default_factory=dict)
    ranges: tuple[tuple[str, str], ...] = ()

    @property
    def exact(self) -> dict[str, Any]:
        """What goes with it, numbers as numbers."""
        sizes = {"epsilon", "delta", "noise_scale"}
        return {name: Fraction(value) if name in sizes else value for name, value in self.options.items()}


Piece = tuple[str, Any]
"""An aggregate or a key in SQL, and what it is of."""


@dataclass(frozen=True)
class Asker:
    """Makes up questions about the columns of a schema."""

    declared: Mapping[str, Any]
    chance: random.Random

    def any(self) -> Ask:
        """A question of any kind."""
        kinds = [
            self.ask_totals,
            self.ask_totals,
            self.ask_grouped,
            self.ask_grouped,
            self.ask_choice,
            self.ask_choice,
            self.ask_counts,
            self.bins,
        ]
        kinds += [self.ask_rollup, self.ask_many]
        if self.declared["individual_queries"] or self.chance.random() < 0.05:
            kinds += [self.ask_person, self.ask_person]
        if "city" in self.declared["columns"] and ("approx-dp" in self.models or self.chance.random() < 0.1):
            kinds += [self.ask_keyed, self.ask_keyed]
        if self.declared["neighbours"] == "replace-one":
            kinds += [self.ask_mean_of_some]
        if self.complete and self.declared["neighbours"] == "replace-one" and self.declared["unit"]["rows"] == 1:
            kinds += [self.ask_ranks, self.ask_ranks]
        return self.chance.choice(kinds)()

    @property
    def complete(self) -> Sequence[str]:
        """Numbers of which none is missing: under replace-one, how many there are is public."""
        return [
            name for name in self.declared["columns"] if name in NUMBERS and "missing" in self.declared["columns"][name]
        ]

    @property
    def models(self) -> Sequence[str]:
        """What the schema allows."""
        return list(self.declared.get("models", ["dp"]))

    def ask_counting(self) -> Ask:
        """A question of counts alone, for sessions."""
        return replace(
            self.chance.choice([self.ask_counts, self.bins, self.ask_one_count, self.ask_one_count])(), options={}
        )

    def ask_fitting(self) -> Ask:
        """One count, alone or in groups, or a histogram with a range."""
        question = self.chance.choice(
            (self.ask_one_count, self.bins, lambda: self.ask([("COUNT(*)", {"count": "*"})], [self.key()]))
        )()
        return replace(question, ranges=question.ranges or ((ENDS["age"],) if "HISTOGRAM(age" in question.sql else ()))

    def ask_totals(self) -> Ask:
        functions = [self.total() for _ in range(self.chance.choice((1, 1, 1, 2)))]
        prior = self.pick_prior(functions[0]) if len(functions) == 1 and self.chance.random() < 0.4 else None
        return self.ask([one[1] for one in functions], prior=prior, distance=prior and self.distance())

    def ask_grouped(self) -> Ask:
        keys = [self.key() for _ in range(self.chance.choice((1, 1, 2)))]
        pieces = [self.chance.choice([self.total, self.total, self.pick_selection])()[1]]
        if self.chance.random() < 0.3:
            pieces.append(self.total()[1])
        keys = list({json.dumps(key[1]): key for key in keys}.values())
        return self.ask(pieces, keys)

    def ask_keyed(self) -> Ask:
        """By a key whose values are not public."""
        pick = self.chance.choice(
            [self.total, self.total, self.pick_selection, lambda: ("count", ("COUNT(DISTINCT pid)", None))]
        )
        name, piece = pick()
        if piece[1] is None:
            piece = ("COUNT(DISTINCT pid)", {"count_distinct": "pid"})
        del name
        return self.ask([piece], [("city", "city")], delta=self.chance.choice(("0.01", "0.001", "1e-5")))

    def ask_choice(self) -> Ask:
        functions = [self.pick_selection() for _ in range(self.chance.choice((1, 1, 1, 2)))]
        one = len(functions) == 1
        prior = self.pick_prior(functions[0]) if one and self.chance.random() < 0.5 else None
        interval = one and functions[0][0].startswith("quantile") and self.chance.random() < 0.3
        distance = self.distance() if one and not interval and self.chance.random() < 0.3 else None
        options: dict[str, Any] = {"prior": prior, "interval": interval, "distance": distance}
        return self.ask([each[1] for each in functions], sized=self.chance.random() < 0.05, **options)

    def ask_counts(self) -> Ask:
        """Several counts with filters, planned together."""
        pieces: list[Piece] = []
        for at in range(self.chance.randrange(1, 4)):
            pieces.append((f"COUNT(*) FILTER (WHERE {self.write_condition()}) AS n{at}", {"count": "*"}))
        if self.chance.random() < 0.5:
            pieces.append(("COUNT(*)", {"count": "*"}))
        return self.ask(pieces)

    def ask_many(self) -> Ask:
        """So many totals that Gaussian noise is the lesser, where a delta allows it."""
        pieces = [self.total()[1] for _ in range(self.chance.randrange(3, 7))]
        pieces = list({sql: (sql, document) for sql, document in pieces}.values())
        keys = [self.key()] if self.chance.random() < 0.3 else []
        return self.ask(pieces, keys, delta="0.005" if "approx-dp" in self.models else None)

    def ask_one_count(self) -> Ask:
        return self.ask([("COUNT(*)", {"count": "*"})])

    def bins(self) -> Ask:
        column, bins = self.number(dates=True), self.chance.choice((2, 3, 4, 8))
        question = self.ask([(f"HISTOGRAM({column}, {bins})", {"histogram": column, "bins": bins})])
        return replace(question, ranges=(ENDS[column],) if self.chance.random() < 0.5 else ())

    def ask_mean_of_some(self) -> Ask:
        """How many rows it is of is not public, so a sum and a count are told together."""
        column, name, sql = self.number(), self.declared["name"], self.write_condition()
        return Ask(f"SELECT AVG({column}) FROM {name} WHERE {sql}", {"epsilon": self.epsilon()})

    def ask_ranks(self) -> Ask:
        """What needs a public number of values: means of ranks, and individual DP where the schema allows it."""
        column, share = self.chance.choice(self.complete), self.chance.choice(("0.05", "0.2", "0.4"))
        sql = f"TRIMMED_MEAN({column}, {share})"
        noise_options = {"epsilon": self.chance.choice(("1", "3.7", "8"))}
        if "individual-dp" in self.models and self.chance.random() < 0.7:
            kind = self.chance.choice(("median", "min", "max", "second_max"))
            sql = f"{kind.upper()}({column})"
            noise_options["model"] = "individual-dp"
        name = self.declared["name"]
        return Ask(f"SELECT {sql} FROM {name}", noise_options)

    def ask_rollup(self) -> Ask:
        keys = list({json.dumps(key[1]): key for key in (self.key(), self.key())}.values())
        return self.ask([("COUNT(*)", {"count": "*"})], keys, rollup=True)

    def ask_person(self) -> Ask:
        column = self.chance.choice([name for name in self.declared["columns"] if name != "city"])
        unit = self.chance.choice(("one", "one", "new", "p0", "nobody"))
        prior = self.pick_prior(("value", ("", {"value": column}))) if self.chance.random() < 0.5 else None
        name = self.declared["name"]
        wanted = {"prior": prior, "distance": self.distance() if self.chance.random() < 0.3 else None}
        options = {"epsilon": self.epsilon()} | {name: value for name, value in wanted.items() if value}
        return Ask(f"SELECT {column} FROM {name} FOR UNIT '{unit}'", options)

    def total(self) -> tuple[str, Piece]:
        column, kind = (
            self.number(),
            self.chance.choice(("count", "rows", "distinct", "sum", "avg", "var", "stddev")),
        )
        match kind:
            case "rows":
                return "count", ("COUNT(*)", {"count": "*"})
            case "distinct":
                return "count", ("COUNT(DISTINCT pid)", {"count_distinct": "pid"})
            case "avg" if self.chance.random() < 0.2 and "smoker" in self.declared["columns"]:
                return "share", ("AVG(smoker)", {"avg": "smoker"})
            case "count":
                other = self.chance.choice([name for name in self.declared["columns"] if name != "city"])
                return "count", (f"COUNT({other})", {"count": other})
            case "sum" if self.chance.random() < (0.4 if self.declared["neighbours"] == "replace-one" else 0.02):
                share = self.chance.choice(("0.05", "0.2", "0.4"))
                return "avg", (f"TRIMMED_MEAN({column}, {share})", {"trimmed_mean": column, "share": share})
        return kind, (f"{kind.upper()}({column})", {kind: column})

    def pick_selection(self) -> tuple[str, Piece]:
        column = self.number(dates=True)
        kind = self.chance.choice(("median", "quantile", "quantiles", "min", "max", "second_max", "mode"))
        match kind:
            case "quantile":
                q = self.chance.choice(("0.1", "0.25", "0.5", "0.9"))
                return "quantile", (f"QUANTILE({column}, {q})", {"quantile": column, "orders": [q]})
            case "quantiles":
                qs = self.chance.choice((("0.25", "0.75"), ("0.25", "0.5", "0.75"), ("0.1", "0.4", "0.6", "0.9")))
                return "several", (f"QUANTILE({column}, {', '.join(qs)})", {"quantile": column, "orders": list(qs)})
            case "mode":
                column = self.chance.choice([name for name in self.declared["columns"] if name != "city"])
            case "median":
                return "quantile", (f"MEDIAN({column})", {"median": column})
        return kind, (f"{kind.upper()}({column})", {kind: column})

    def number(self, dates: bool = False) -> str:
        able = [name for name in self.declared["columns"] if name in NUMBERS or (dates and name == "day")]
        return self.chance.choice(able)

    def key(self) -> Piece:
        able = [name for name in self.declared["columns"] if name not in ("pay", "city")]
        column = self.chance.choice(able)
        if column in (*NUMBERS, "day") and self.chance.random() < 0.6:
            width = self.chance.choice((1, 2, 3)) if column in ("age", "day") else self.chance.choice((0.5, 1))
            return f"BIN({column}, {width})", {"bin": column, "width": width}
        return column, column

    def write_condition(self, deep: int = 1) -> str:
        """What rows must satisfy."""
        if deep and self.chance.random() < 0.3:
            first, second = self.write_condition(deep - 1), self.write_condition(deep - 1)
            joined = f"({first}) {self.chance.choice(('AND', 'OR'))} ({second})"
            return f"NOT ({joined})" if self.chance.random() < 0.3 else joined
        column = self.chance.choice(list(self.declared["columns"]))
        value = self.chance.choice((*ENDS[column], *["health"] * (column == "job")))
        literal = value if column in NUMBERS or column == "smoker" else f"'{value}'"
        if self.chance.random() < 0.15:
            return f"{column} IS NULL"
        if column in (*NUMBERS, "day", "grade") and self.chance.random() < 0.6:
            return f"{column} {self.chance.choice(('<', '<=', '>', '>=', '<>'))} {literal}"
        if column in NUMBERS and self.chance.random() < 0.3:
            low, high = ENDS[column]
            return f"{column} BETWEEN {low} AND {high}"
        if column != "smoker" and self.chance.random() < 0.3:
            return f"{column} IN ({literal})"
        return f"{column} = {literal}"

    def pick_prior(self, of: tuple[str, Piece]) -> str | None:
        """What an analyst might believe of it."""
        kind, (_, document) = of
        column = next(iter(document.values())) if kind != "count" else None
        if kind == "count":
            return self.chance.choice(("normal(3, 2)", "uniform(0, 9)", "0.9 normal(4, 1) + 0.1 cauchy(4, 1)"))
        if column in ("sex", "smoker", "grade", "job") and kind != "share":
            weights = {value: self.chance.randrange(1, 9) for value in ENDS[column]}
            return json.dumps(weights)
        if column == "day":
            return self.chance.choice(("normal(2020-01-03, 2)", "uniform(2020-01-01, 2020-01-06)"))
        if column not in ENDS:
            return None
        low, high = (float(end) for end in ENDS[column]) if column in NUMBERS else (0.0, 1.0)
        middle, spread = low + (high - low) * self.chance.random(), max((high - low) * self.chance.random(), 0.1)
        if kind in ("var", "stddev"):
            middle, spread = abs(spread), spread / 2 + 0.1
        return self.chance.choice(
            (
                f"normal({middle:.3f}, {spread:.3f})",
                f"uniform({low:g}, {high:g})" if kind not in ("sum", "var", "stddev") else f"normal({middle:.3f}, 1)",
                f"0.8 normal({middle:.3f}, {spread:.3f}) + 0.2 cauchy({middle:.3f}, {spread:.3f})",
            )
        )

    def distance(self) -> str | None:
        return self.chance.choice((None, None, "continuous", "nominal", "ordinal", "semantic"))

    def epsilon(self) -> str:
        return self.chance.choice(("0.1", "0.5", "1", "1", "2", "3.7"))

    def ask(
        self,
        pieces: Sequence[Piece],
        keys: Sequence[Piece] = (),
        rollup: bool = False,
        sized: bool = True,
        **options: Any,
    ) -> Ask:
        """A question about some or all rows, and how much noise it may have."""
        name = self.declared["name"]
        shown = [*keys, *pieces]
        sql = f"SELECT {', '.join(one for one, _ in shown)} FROM {name}"
        if self.chance.random() < 0.4:
            sql = f"{sql} WHERE {self.write_condition()}"
        if keys:
            listed = ", ".join(one for one, _ in keys)
            sql += f" GROUP BY ROLLUP ({listed})" if rollup else f" GROUP BY {listed}"
        stated = {key: value for key, value in options.items() if value}
        return Ask(sql, stated | self.noise(stated, sized))

    def noise(self, options: Mapping[str, Any], sized: bool) -> dict[str, Any]:
        """How much noise there may be: mostly by an epsilon."""
        model, models = self.chance.random(), self.models
        if "delta" in options:
            return {"epsilon": self.epsilon()}
        if model < 0.1 and sized and not options.get("interval"):
            return {"noise_scale": self.chance.choice(("2", "7.5", "40"))}
        if model < 0.2 and sized and not options.get("interval"):
            return {"accuracy": self.chance.choice(("±5 at 95%", "±20 at 90%"))}
        if model < 0.4 and "approx-dp" in models:
            if not options and self.chance.random() < 0.4:
                return {"noise_scale": self.chance.choice(("2", "9")), "model": "approx-dp"}
            return {"epsilon": self.epsilon(), "delta": self.chance.choice(("1e-6", "1e-3"))}
        if model < 0.6 and "individual-dp" in models and not options:
            return {"epsilon": self.epsilon(), "model": "individual-dp"}
        row_option = {"rows": 5} if self.chance.random() < 0.1 else {}
        return {"epsilon": self.epsilon()} | row_option


# Values that no text leads to.


def change_query(query: Query, schema: Schema, chance: random.Random) -> Query:
    """A question with some of its fields replaced by others of the right type, sensible or not."""
    names = list(schema.columns)
    for _ in range(chance.choice((1, 1, 2, 3))):
        name = chance.choice(("aggregates", "aggregates", "keys", "where", "nesting", "unit", "column", "presentation"))
        query = replace(query, **{name: _pick_field_value(name, query, names, chance)})
    return query


def _pick_field_value(name: str, query: Query, names: Sequence[str], chance: random.Random) -> Any:
    match name:
        case "aggregates":
            count = chance.choice((0, 1, 1, 1, 2, 3))
            return (
                tuple(_pick_aggregate(names, chance) for _ in range(count))
                if chance.random() < 0.8
                else query.aggregates * 2
            )
        case "keys":
            keys = [
                GroupKey(chance.choice(names), chance.choice((1, 1, 2, 5, 100))) for _ in range(chance.randrange(3))
            ]
            return tuple(keys) if chance.random() < 0.8 else query.keys * 2
        case "where":
            return _pick_predicate(names, chance)
        case "nesting":
            return chance.choice(("", "ranges", "rollup"))
        case "unit":
            return chance.choice((None, "one", "p0"))
        case "column":
            return chance.choice((None, *names))
    outputs = [
        OutputColumn(f"o{at}", *chance.choice(((None, 0, 0), (None, 1, 0), (0, None, 0), (None, 0, 1))))
        for at in range(2)
    ]
    having = (HavingCondition(0, ">", Fraction(2)),) if chance.random() < 0.3 else ()
    return Presentation(tuple(outputs[: chance.randrange(1, 3)]), having, limit=chance.choice((None, 1)))


def _pick_aggregate(names: Sequence[str], chance: random.Random) -> Aggregate:
    orders = {"quantile": (Fraction(1, 2),), "trimmed_mean": (Fraction(1, 5),)}
    function: Any = chance.choice((*FUNCTIONS, "trimmed_mean"))
    column = chance.choice((None, *names, *names))
    orders_asked = (
        orders.get(function, ()) if chance.random() < 0.8 else chance.choice(((), (Fraction(1, 4), Fraction(3, 4))))
    )
    return Aggregate(
        function, column, orders_asked, _pick_predicate(names, chance) if chance.random() < 0.3 else AllOf()
    )


def _pick_predicate(names: Sequence[str], chance: random.Random, deep: int = 1) -> Any:
    if deep and chance.random() < 0.3:
        parts = tuple(_pick_predicate(names, chance, deep - 1) for _ in range(2))
        return chance.choice((AllOf, AnyOf))(parts)
    column = chance.choice(list(names))
    if chance.random() < 0.2:
        return InTexts(column, ("Oslo",), chance.random() < 0.5, chance.random() < 0.5)
    low = chance.randrange(-4, 5)
    return InRanges(column, ((low, low + chance.randrange(0, 9)),), chance.random() < 0.3)


# A data set and its neighbour, each in a folder of its own.


@dataclass
class Side:
    """One table: its schema's file, its custodian, and a service of it once one is needed."""

    schema: Path
    custodian: Custodian
    web: Web | None = None

    def charges(self, after: int = 0) -> list[Any]:
        """The latest charges after an entry of the ledger, the latest first."""
        return [one for one in self.custodian.history(limit=12) if one.kind == "charge" and one.entry > after]

    @property
    def last(self) -> int:
        """The last entry of the ledger."""
        return max(one.entry for one in self.custodian.history(limit=1))


@dataclass
class Pair:
    """Two neighbouring tables, and what all answers about them have lost so far."""

    declared: Mapping[str, Any]
    tables: tuple[list[Row], list[Row]]
    sides: tuple[Side, Side]
    lost: dict[str, list[Loss]] = field(default_factory=dict)


@contextmanager
def open_pair(folder: Path, schema_document: Mapping[str, Any], tables: tuple[list[Row], list[Row]]) -> Iterator[Pair]:
    """Both tables registered, with the same secret key, so that the same rows of a unit are kept."""
    with ExitStack() as stack:
        sides = []
        for at, rows in enumerate(tables):
            side_folder = folder / str(at)
            side_folder.mkdir()
            with (side_folder / schema_document["source"]).open("w", newline="") as file:
                writer = csv.DictWriter(file, ["pid", *schema_document["columns"]])
                writer.writeheader()
                writer.writerows(rows)
            (side_folder / "job.json").write_text(json.dumps({"parents": JOBS}))
            schema = side_folder / f"{schema_document['name']}.yaml"
            schema.write_text(yaml.safe_dump({**schema_document}, sort_keys=False))
            with patch.object(dataset_dir, "SYSTEM", real_losses.SeededEntropy(b"a data set")):
                sides.append(Side(schema, stack.enter_context(Custodian.open(schema))))
        yield Pair(schema_document, tables, (sides[0], sides[1]))


@contextmanager
def serve_pair(pair: Pair) -> Iterator[None]:
    """A service for each table, each listening on a port of its own."""
    with ExitStack() as stack:
        for side in pair.sides:
            side.web = stack.enter_context(_run_listening_service(side.schema, pair.declared["name"]))
        yield
    for side in pair.sides:
        side.web = None


@dataclass
class Web:
    """A service that listens: requests with a token, pages with a cookie, and the package's own client."""

    port: int
    token: str
    client: Client
    name: str
    cookie: str = ""

    def request(self, method: str, path: str, body: str = "", **headers: str) -> tuple[int, Mapping[str, str], str]:
        """Status, headers and text of a reply."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            line.request(method, path, body or None, {name.replace("_", "-"): value for name, value in headers.items()})
            reply = line.getresponse()
            return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read().decode()
        finally:
            line.close()

    def api(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Document:
        """A document, or a refusal."""
        sent = "" if body is None else json.dumps(dict(body))
        headers = {"Authorization": f"Bearer {self.token}", "Content_Type": "application/json"}
        status, _, text = self.request(method, f"/v1/datasets/{self.name}{path}", sent, **headers)
        document = json.loads(text)
        if status >= 400:
            raise _build_refusal(status, str(document.get("detail")))
        return dict(document)

    def page(self, path: str, form: Mapping[str, str] | None = None) -> tuple[int, str, str]:
        """Status, where it leads to, and text of a page; a form is sent where there is one."""
        kind = {} if form is None else {"Content_Type": "application/x-www-form-urlencoded"}
        method, sent = ("GET", "") if form is None else ("POST", urlencode(dict(form)))
        status, headers, text = self.request(method, path, sent, Cookie=self.cookie, **kind)
        if "set-cookie" in headers:
            self.cookie = headers["set-cookie"].partition(";")[0]
        return status, headers.get("location", ""), text


def _build_refusal(status: int, detail: str) -> Exception:
    """What a service refuses, as the error it stands for; what it fails at is no refusal."""
    if status >= 500:
        return RuntimeError(f"the service failed: {status} {detail}")
    return InvalidInput(detail)


@contextmanager
def _run_listening_service(schema: Path, name: str) -> Iterator[Web]:
    folder = schema.parent / "service"
    limits = Limits(rate=100_000, burst=100_000, together=100_000, previews=100_000)
    app = make_app(
        Config(
            (DatasetConfig(schema, 0.05),),
            folder=folder,
            store=str(schema.parent / "service.db"),
            padding=False,
            limits=limits,
        )
    )
    token = create_token(app.service.store, "ann", "analyst", 1, (name,))[1]
    server = uvicorn.Server(uvicorn.Config(app, lifespan="on", ws="none", log_config=None, access_log=False))
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        try:
            while not server.started:
                time.sleep(0.005)
            with Client(f"http://127.0.0.1:{port}", token, name, pause=0.01) as client:
                web = Web(port, token, client, name)
                web.page("/console/sign-in", {"token": token})
                yield web
        finally:
            server.should_exit = True
            thread.join()


# Every way to hand in a question: from a side and a question to the document of a reply.

Entrance = Callable[[Side, Ask], list[Document]]


def ask_by_sql(side: Side, ask: Ask) -> list[Document]:
    return [side.custodian.answer(ask.sql, fresh=True, **ask.exact).to_json()]


def ask_by_value(side: Side, ask: Ask) -> list[Document]:
    return [side.custodian.answer(parse_question(ask.sql, side.custodian.schema), fresh=True, **ask.exact).to_json()]


def ask_by_changed_value(side: Side, ask: Ask) -> list[Document]:
    """A value that no text leads to, the same on both sides."""
    schema = side.custodian.schema
    query = change_query(parse_question(ask.sql, schema), schema, random.Random(ask.sql + str(ask.options)))
    return [side.custodian.answer(query, fresh=True, **ask.exact).to_json()]


def ask_for_stored(side: Side, ask: Ask) -> list[Document]:
    """Asked, asked again and asked by another: one draw in all."""
    first = side.custodian.answer(ask.sql, key=f"{ask.sql} {dict(ask.options)}"[:200], **ask.exact).to_json()
    again = side.custodian.answer(ask.sql, **ask.exact).to_json()
    return [first, again, side.custodian.answer(ask.sql, analyst="bob", **ask.exact).to_json()]


def ask_with_constraints(side: Side, ask: Ask) -> list[Document]:
    """With constraints, ranges and the population."""
    stated = [] if ask.ranges else ["total <= 9", "each >= 0"]
    answer = side.custodian.answer(ask.sql, fresh=True, **ask.exact, constraints=stated)
    document = answer.to_json() | {"ranges": [answer.range(*ends).to_json() for ends in ask.ranges]}
    with suppress(InvalidInput, Unsupported):
        people = answer.population()
        document["population"] = [{name: one.to_json() for name, one in row.items()} for row in people]
    return [document]


def ask_by_command(side: Side, ask: Ask) -> list[Document]:
    words = ["ask", side.schema, ask.sql, "--json", "--fresh"]
    for name, value in ask.options.items():
        option = f"--{name.replace('_', '-')}"
        words += [option] if value is True else [option, value]
    for low, high in ask.ranges:
        words += ["--range", f"{low}..{high}"]
    outcome = run_discreet(*words)
    if outcome.code in (1, 6):
        raise RuntimeError(f"the command failed: {outcome.err}")
    if outcome.code:
        raise InvalidInput(outcome.err)
    return [outcome.document]


def ask_by_http(side: Side, ask: Ask) -> list[Document]:
    assert side.web is not None
    ranges = [f"{low}..{high}" for low, high in ask.ranges]
    return [
        side.web.api("POST", "/answers", {"question": ask.sql, "fresh": True, "ranges": ranges} | dict(ask.options))
    ]


def ask_by_client(side: Side, ask: Ask) -> list[Document]:
    assert side.web is not None
    return [side.web.client.answer(ask.sql, fresh=True, **ask.exact).to_json()]


def ask_by_console(side: Side, ask: Ask) -> list[Document]:
    """The form of a page, filled in; then the document behind the page it leads to."""
    assert side.web is not None
    area = f"/console/datasets/{side.web.name}"
    _, _, page = side.web.page(area)
    how = next(name for name in ("epsilon", "accuracy", "noise_scale") if name in ask.options)
    sent = {"question": ask.sql, "fresh": "yes", "how": how, "size": str(ask.options[how])}
    sent |= {"form_token": _find_group('name="form-token" content="([^"]*)"', page)}
    sent |= {"key": _find_group('name="key" value="([^"]*)"', page)}
    sent |= {name: str(value) for name, value in ask.options.items() if name != how}
    status, where, text = side.web.page(f"{area}/ask", sent)
    if status != 303:
        raise _build_refusal(status, _find_group(r'role="alert"[^>]*><p>(.*?)</p>', text))
    assert side.web.page(where)[0] == 200
    return [side.web.api("GET", where.removeprefix(area))]


def _find_group(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.S)
    return match[1] if match else ""


def ask_in_session(side: Side, asks: Sequence[Ask], schema: Schema) -> list[Document]:
    """Counts in one session: as text, as JSON and as values, some of them changed."""
    documents = []
    with side.custodian.session(noise_scale=6, epsilon=1) as session:
        for at, ask in enumerate(asks):
            with suppress(InvalidInput, Unsupported, BudgetExceeded):
                documents.append(session.answer(_hand_in(ask, at, schema), noise_scale=None if at % 3 else 9).to_json())
    return documents


def _hand_in(ask: Ask, at: int, schema: Schema) -> Any:
    """The same question as text, as a value and as a changed one, by turns."""
    if at % 3 == 0:
        return ask.sql
    value = parse_question(ask.sql, schema)
    return value if at % 3 == 1 else change_query(value, schema, random.Random(ask.sql))


def ask_in_http_session(side: Side, asks: Sequence[Ask], _: Schema) -> list[Document]:
    assert side.web is not None
    documents = []
    session_id = side.web.api("POST", "/sessions", {"noise_scale": "6", "epsilon": "1"})["id"]
    for ask in asks:
        with suppress(InvalidInput):
            documents.append(side.web.api("POST", f"/sessions/{session_id}/answers", {"question": ask.sql}))
    return documents


def ask_in_client_session(side: Side, asks: Sequence[Ask], _: Schema) -> list[Document]:
    assert side.web is not None
    documents = []
    with side.web.client.session(6, 1) as session:
        for ask in asks:
            with suppress(InvalidInput, Unsupported, BudgetExceeded):
                documents.append(session.answer(ask.sql).to_json())
    return documents


ENTRANCES: dict[str, Entrance] = {
    "SQL text": ask_by_sql,
    "Query value": ask_by_value,
    "Query value, changed": ask_by_changed_value,
    "stored answer": ask_for_stored,
    "constraints and ranges": ask_with_constraints,
    "discreet ask": ask_by_command,
}
WEB_ENTRANCES: dict[str, Entrance] = {"HTTP": ask_by_http, "Client": ask_by_client, "console": ask_by_console}
SESSIONS = {"session": ask_in_session}
WEB_SESSIONS = {"HTTP session": ask_in_http_session, "Client session": ask_in_client_session}
FILES = ("publish", "discreet publish")
OWN_FIELDS = {"entry", "id", "at", "key", "made", "session", "spent_so_far", "left"}
"""What a document has of its own, whatever was drawn."""


# The check.


@dataclass
class TrialResults:
    """How many plans went through each way, how many were refused, and how near the real losses came to the claims."""

    plans: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    mechanisms: Counter[str] = field(default_factory=Counter)
    worst: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    previews: int = 0
    compared: int = 0
    """Replies that were the same on both tables, since the same was drawn."""

    @property
    def ratio(self) -> float:
        """The largest of all."""
        return max(self.worst.values(), default=0.0)

    def note(self, ratios_by_name: Mapping[str, float], what: str) -> None:
        for name, ratio in ratios_by_name.items():
            self.worst[name] = max(self.worst.get(name, 0.0), ratio)
            if not ratio <= 1 + TOLERANCE:
                self.faults.append(f"{ratio:.6g} times the {name}: {what}")

    def format_table(self) -> str:
        """As people read it."""
        summary = f"{sum(self.plans.values())} plans, {sum(self.refused.values())} refused, {self.previews} previews"
        lines = [f"{summary}, {self.compared} replies compared, worst ratio {self.ratio:.9f}"]
        lines += [
            f"  {way}: {count} answered, {self.refused[way]} refused" for way, count in sorted(self.plans.items())
        ]
        lines += [f"  {name}: at most {ratio:.9f}" for name, ratio in sorted(self.worst.items())]
        return "\n".join([*lines, *(f"  {name}: {count}" for name, count in self.mechanisms.most_common())])


@dataclass
class Attempt:
    """One way on one table: documents or a refusal, what was drawn, and what was charged."""

    documents: list[Document]
    refusal: str
    failure: str
    found: list[Recorded]
    charges: list[Any]


def make_attempt(
    side: Side, hand_in: Callable[[Side], list[Document]], seed: int, repeat: Sequence[Recorded] | None
) -> Attempt:
    """Hand something in, with all draws decided."""
    before = side.last
    documents: list[Document] = []
    refusal = failure = ""
    with recording(random.Random(seed), repeat) as tap:
        try:
            documents = hand_in(side)
        except (InvalidInput, Unsupported, BudgetExceeded) as error:
            refusal = f"{type(error).__name__}: {error}"
        except DiscreetError as error:
            failure = f"{type(error).__name__}: {error}"
        except Exception as error:  # the very thing that is looked for
            failure = f"{type(error).__name__}: {error}"
    return Attempt(documents, refusal, failure, tap.found, side.charges(before))


def try_plan(
    pair: Pair,
    way: str,
    hand_in: Callable[[Side], list[Document]],
    what: str,
    results: TrialResults,
    seed: int,
    session: bool = False,
) -> None:
    """One question, or the questions of one session, on both tables."""
    one = make_attempt(pair.sides[0], hand_in, seed, None)
    two = make_attempt(pair.sides[1], hand_in, seed, one.found)
    what = f"{way}: {what}; {_describe_pair(pair)}"
    fault = _find_fault(one, two)
    if fault:
        results.faults.append(f"{fault}: {what}")
        if one.found and two.found and one.charges:  # what was drawn is stored, whatever became of the reply
            claim = {"model": "dp", "epsilon": one.charges[-1].epsilon}
            _weigh_losses(
                pair, replace(one, documents=[{"guarantee": claim, "mechanism": "no reply"}]), two, what, results, seed
            )
    elif one.refusal or (session and not one.documents):
        results.refused[way] += 1
        results.reasons[one.refusal[:90]] += 1
    else:
        results.plans[way] += 1
        _weigh_losses(pair, one, two, what, results, seed, session)


def _find_fault(one: Attempt, two: Attempt) -> str:
    """What is wrong whatever the losses are."""
    for each in (one, two):
        if each.failure:
            return f"no refusal but a failure, {each.failure}, with {len(each.charges)} charges"
    if (one.refusal, [c.spend for c in one.charges]) != (two.refusal, [c.spend for c in two.charges]):
        return f"refusals or charges differ: {one.refusal!r} and {two.refusal!r}"
    if one.refusal and (one.charges or one.found):
        return f"refused after a charge or a draw: {one.refusal}"
    if len(one.found) != len(two.found) or (one.found and not one.charges):
        return f"drawn {len(one.found)} and {len(two.found)} times for {len(one.charges)} charges"
    return ""


def _weigh_losses(
    pair: Pair, one: Attempt, two: Attempt, what: str, results: TrialResults, seed: int, session: bool = False
) -> None:
    """The real loss against the labels and the ledger; and the replies, where the same was drawn."""
    both, chance = list(zip(one.found, two.found, strict=False)), random.Random(seed)
    total_loss = sum((compare_outputs(x.output, y.output, chance) for x, y in both), Loss())
    # What another analyst pays for a stored answer is hers; the first charge is the data set's.
    charge = one.charges[-1] if one.charges else None
    for document in one.documents:
        claim = document["guarantee"]
        results.mechanisms[f"{claim['model']}, {document['mechanism']}"] += 1
        if not session or claim["epsilon"] != "0":  # in a session an answer that is public claims nothing
            results.note(compute_ratios(total_loss, claim, None if charge is None else charge.spend), what)
    if charge is not None:
        pair.lost.setdefault(charge.model, []).append(total_loss)
    if len(one.documents) == len(two.documents) and all(x.released == y.released for x, y in both):
        results.compared += 1
        if _drop_own_fields(one.documents) != _drop_own_fields(two.documents):
            results.faults.append(f"the same was drawn, and the replies differ: {what}")


def _drop_own_fields(documents: Any) -> Any:
    """Documents without what is their own."""
    if isinstance(documents, Mapping):
        return {name: _drop_own_fields(value) for name, value in documents.items() if name not in OWN_FIELDS}
    return [_drop_own_fields(one) for one in documents] if isinstance(documents, list) else documents


def _describe_pair(pair: Pair) -> str:
    shown_schema = {name: value for name, value in pair.declared.items() if name not in ("name", "source", "budget")}
    return f"schema {json.dumps(shown_schema)}, tables {json.dumps(pair.tables[0])} and {json.dumps(pair.tables[1])}"


class UnreadableSource:
    """A source that must not be read."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was read")


def try_preview(pair: Pair, ask: Ask, results: TrialResults) -> None:
    """A preview reads nothing and charges nothing, and is the same on both tables."""
    previews = []
    for side in pair.sides:
        before = side.last
        with patch.object(side.custodian, "_source", UnreadableSource()):
            try:
                preview = side.custodian.preview(ask.sql, **ask.exact)
                previews.append((preview.guarantee, preview.mechanism, preview.accuracy))
            except (InvalidInput, Unsupported, BudgetExceeded) as error:
                previews.append((type(error), str(error), ""))
        if side.last != before:
            results.faults.append(f"a preview was charged: {ask}")
    if previews[0] != previews[1]:
        results.faults.append(f"previews differ: {previews}: {ask}")
    results.previews += 1


def try_file(pair: Pair, way: str, chance: random.Random, results: TrialResults, seed: int) -> None:
    """A private file of both tables."""
    method = chance.choice(("private-columns", "private-records", "private-linked"))
    columns = [name for name in pair.declared["columns"] if name not in ("city", "pay")]
    options: dict[str, Any] = {"epsilon": chance.choice(("0.5", "1", "3"))}
    if chance.random() < 0.3 and "approx-dp" in pair.declared.get("models", []):
        options["delta"] = "1e-3"
    if method != "private-linked" and chance.random() < 0.5:
        options["k"] = chance.choice((1, 2))

    exact = {name: Fraction(value) for name, value in options.items()}

    def hand_in(side: Side) -> list[Document]:
        out = side.schema.parent / f"file-{seed}.csv"
        if way == "publish":
            release = side.custodian.publish(method, out, columns=columns, **exact)
            label: Any = release.guarantee.to_json()
        else:
            words = ["publish", method, side.schema, "--out", out, "--json"]
            for name in columns:
                words += ["--column", name]
            for name, value in options.items():
                words += [f"--{name}", value]
            outcome = run_discreet(*words)
            if outcome.code in (1, 6):
                raise RuntimeError(f"the command failed: {outcome.err}")
            if outcome.code:
                raise InvalidInput(outcome.err)
            label = outcome.document["guarantee"]
        return [{"guarantee": label, "mechanism": method, "file": out.read_text()}]

    try_plan(pair, way, hand_in, f"{method} of {columns} with {options}", results, seed)


def try_total(pair: Pair, results: TrialResults) -> None:
    """All answers together against what the ledger says was spent."""
    for model, parts in pair.lost.items():
        together = sum(parts, Loss())
        for balance in pair.sides[0].custodian.budget():
            if balance.model == model == "dp" and balance.epsilon is not None:
                results.note(
                    {"epsilon spent in all": _compute_share(together.pure, balance.epsilon)},
                    f"all dp; {_describe_pair(pair)}",
                )
    everything = sum((one for model, parts in pair.lost.items() if model != "individual-dp" for one in parts), Loss())
    for balance in pair.sides[0].custodian.budget():
        if balance.model == "approx-dp" and balance.epsilon is not None and "approx-dp" in pair.lost:
            beyond = everything.beyond(float(balance.epsilon))
            results.note(
                {"delta spent in all": _compute_share(beyond, balance.cap.delta)},
                f"all answers; {_describe_pair(pair)}",
            )


def _compute_share(real: float, claimed: Fraction) -> float:
    return real / float(claimed) if real > 1e-12 and claimed else (math.inf if real > 1e-12 else 0.0)


def try_plans(folder: Path, seed: int, pairs: int, each: int, served: int = 1) -> TrialResults:
    """Random data sets, so many questions about each; a service for one in so many of them, or for none."""
    chance, results = random.Random(seed), TrialResults()
    for at in range(pairs):
        pair_folder = folder / f"pair-{seed}-{at}"
        pair_folder.mkdir()
        schema = generate_schema(chance)
        with open_pair(pair_folder, schema, generate_tables(schema, chance)) as pair, ExitStack() as stack:
            public = schema["neighbours"] == "replace-one" and schema["unit"]["rows"] == 1
            ways = [*ENTRANCES, *SESSIONS, *(FILES if public else FILES[: at % 4 == 0])]
            if served and at % served == 0:
                stack.enter_context(serve_pair(pair))
                ways += [*WEB_ENTRANCES, *WEB_SESSIONS] * 2
            asker = Asker(schema, chance)
            for number in range(each):
                _try_one(pair, ways[number % len(ways)], asker, chance, results)
            try_total(pair, results)
    return results


def _try_one(pair: Pair, way: str, asker: Asker, chance: random.Random, results: TrialResults) -> None:
    seed = chance.randrange(2**40)
    if way in FILES:
        try_file(pair, way, chance, results, seed)
    elif way in SESSIONS or way in WEB_SESSIONS:
        ask_in = (SESSIONS | WEB_SESSIONS)[way]
        asks = [asker.ask_counting() for _ in range(4)]
        schema = pair.sides[0].custodian.schema
        words = " | ".join(ask.sql for ask in asks)
        try_plan(pair, way, lambda side: ask_in(side, asks, schema), words, results, seed, session=True)
    else:
        ask_by = (ENTRANCES | WEB_ENTRANCES)[way]
        ask = asker.ask_fitting() if ask_by is ask_with_constraints else asker.any()
        try_plan(pair, way, lambda side: ask_by(side, ask), f"{ask.sql} {dict(ask.options)}", results, seed)
        try_preview(pair, ask, results)
