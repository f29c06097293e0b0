"""Answers as data frames of pandas, Polars and Arrow: one row for each row of an answer, with typed columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from discreet.answers.answer import ALL_KEYS, Answer, AnswerValue, ReplyDetails
from discreet.errors import InvalidInput, Unsupported
from discreet.numeric import date_from_days, parse_days
from discreet.query.ast import FunctionCall
from discreet.query.sql_parser import parse_select
from discreet.schema.schema import Interval

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Kind = Literal["boolean", "integer", "number", "date", "text"]
Library = Literal["pandas", "polars", "pyarrow"]
BIN_FUNCTIONS = {"BIN", "HISTOGRAM"}
COUNT_FUNCTIONS = {"COUNT", "COUNT_DISTINCT"}
ENDS, SIDES = ("low", "high"), ("left", "right")


@dataclass(frozen=True, slots=True)
class FrameColumn:
    """One column of a data frame: its name, its values and what they are."""

    name: str
    values: Sequence[AnswerValue]
    kind: Kind

    @property
    def categories(self) -> list[str]:
        """The texts, each once, in the order of the rows."""
        return list(dict.fromkeys(str(value) for value in self.values if value is not None))


def build_frame_columns(answer: Answer, confidence: float) -> list[FrameColumn]:
    """Lay an answer out in columns: each key, and each number with the ends of its interval.

    Counts are integers but where they are refined so that they add up. All other numbers are floats, since whether
    they are whole may be up to chance.
    """
    parsed = parse_select(answer.question)
    expressions = dict(zip(answer.columns, (item.expression for item in parsed.items), strict=False))
    intervals, posteriors = answer.intervals(confidence), _list_posterior_means(answer)
    columns: list[FrameColumn] = []
    for name in answer.columns:
        values, expression = [row[name] for row in answer.rows], expressions.get(name)
        function = expression.function if isinstance(expression, FunctionCall) else ""
        if name not in answer.numbers:
            columns += _build_key(name, values, function in BIN_FUNCTIONS, parsed.rollup)
            continue
        number = _build_column(name, values, is_whole=function in COUNT_FUNCTIONS and not parsed.rollup)
        columns.append(number)
        if number.kind in {"text", "boolean"}:
            continue
        columns += _build_ends(number, [row[name] for row in intervals])
        if posteriors is not None:
            columns.append(_build_column(f"{name}_posterior_mean", [row[name] for row in posteriors]))
    return _require_distinct_names(columns)


def _build_ends(number: FrameColumn, intervals: Sequence[Interval]) -> Iterator[FrameColumn]:
    """The ends of the intervals of a number."""
    pairs = [(None, None) if interval is None else interval for interval in intervals]
    for place, end in enumerate(ENDS):
        kind: Kind = "date" if number.kind == "date" else "number"
        yield FrameColumn(f"{number.name}_{end}", [pair[place] for pair in pairs], kind)


def _build_key(name: str, values: list[AnswerValue], has_bins: bool, is_rollup: bool) -> list[FrameColumn]:
    """A group key: of bins the first and the last value, and of a ROLLUP whether the row is a total over it."""
    totals = [is_rollup and value == ALL_KEYS for value in values]
    keys = [None if is_total else value for value, is_total in zip(values, totals, strict=True)]
    flags = [FrameColumn(f"{name}_is_total", totals, "boolean")] if is_rollup else []
    if not has_bins or not all(isinstance(value, str | None) for value in keys):
        return [_build_column(name, keys, is_whole=True), *flags]
    ends = [(None, None) if value is None else tuple(map(_parse_end, str(value).split(" to "))) for value in keys]
    sides = [_build_column(f"{name}_{side}", [end[i] for end in ends], is_whole=True) for i, side in enumerate(SIDES)]
    return [*sides, *flags]


def _parse_end(text: str) -> AnswerValue:
    """An end of a bin as it is written: a date, or a number."""
    if text[4:5] == text[7:8] == "-":
        return date_from_days(parse_days(text, "the end of a bin"))
    number = Fraction(text)
    return int(number) if number.denominator == 1 else float(number)


def _list_posterior_means(answer: Answer) -> list[dict[str, AnswerValue]] | None:
    """The posterior mean of every number of every row; None without a prior, or where a reply does not have them."""
    is_left_out = isinstance(answer.details, ReplyDetails) and answer.details.posteriors is None
    if not answer.prior or is_left_out:
        return None
    pairs = zip(answer.rows, answer.posteriors(), strict=True)
    return [
        {name: None if law is None or not law.numeric else _match(law.mean(), row[name]) for name, law in laws.items()}
        for row, laws in pairs
    ]


def _match(mean: float, value: AnswerValue) -> AnswerValue:
    return date_from_days(mean) if isinstance(value, date) else mean


def _build_column(name: str, values: Sequence[AnswerValue], is_whole: bool = False) -> FrameColumn:
    """A column of the kind that its values have; of no values it is one of numbers."""
    known_types = {type(value) for value in values if value is not None}
    kinds: dict[type, Kind] = {bool: "boolean", int: "integer" if is_whole else "number", date: "date", str: "text"}
    return FrameColumn(name, values, kinds.get(known_types.pop(), "number") if len(known_types) == 1 else "number")


def _require_distinct_names(columns: list[FrameColumn]) -> list[FrameColumn]:
    names = [column.name for column in columns]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise InvalidInput(f"two columns of the data frame would be named {repeated[0]!r}; name the outputs with AS")
    return columns


def build_pandas(columns: Sequence[FrameColumn]) -> pd.DataFrame:
    """Build a data frame of pandas: nullable booleans and integers, categoricals and dates."""
    pandas = _import_library("pandas")
    dtypes = {"boolean": "boolean", "integer": "Int64", "number": "float64", "date": "datetime64[s]"}
    return pandas.DataFrame(
        {
            column.name: pandas.Series(
                pandas.Categorical(column.values, column.categories)
                if column.kind == "text"
                else pandas.array(column.values, dtype=dtypes[column.kind])
            )
            for column in columns
        }
    )


def build_polars(columns: Sequence[FrameColumn]) -> pl.DataFrame:
    """Build a data frame of Polars."""
    polars = _import_library("polars")
    dtypes = {"boolean": polars.Boolean, "integer": polars.Int64, "number": polars.Float64, "date": polars.Date}
    series = (
        polars.Series(column.name, column.values, dtypes.get(column.kind) or polars.Enum(column.categories))
        for column in columns
    )
    frame: pl.DataFrame = polars.DataFrame(list(series))
    return frame


def build_arrow(columns: Sequence[FrameColumn]) -> pa.Table:
    """Build a table of Arrow; texts are dictionaries."""
    arrow = _import_library("pyarrow")
    types = {"boolean": arrow.bool_(), "integer": arrow.int64(), "number": arrow.float64(), "date": arrow.date32()}
    text = arrow.dictionary(arrow.int32(), arrow.string())
    return arrow.table({column.name: arrow.array(column.values, types.get(column.kind, text)) for column in columns})


def _import_library(name: Library) -> ModuleType:
    try:
        return import_module(name)
    except ImportError:
        raise Unsupported(f"this needs {name}, which is not installed here; run pip install {name}") from None
