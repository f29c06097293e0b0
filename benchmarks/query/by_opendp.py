"""OpenDP's Polars context as its guide has it: epsilon is named with each question, and OpenDP searches for the scale.

The frame is in memory, without columns nobody asks for; text is an Enum, and the domain says that nothing is missing:
each of these is faster than the other way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import opendp.prelude as dp
import polars as pl

from benchmarks.query.contestant import locate_file, serve
from benchmarks.query.questions import EPSILON, GREATEST_AGE, GREATEST_INCOME, LEAST_AGE, REGIONS

BUDGET = 100 * EPSILON
CATEGORIES = pl.Enum(REGIONS)
INCOMES = (0.0, float(GREATEST_INCOME))
AGES = list(range(LEAST_AGE, GREATEST_AGE + 1))
KEYS = pl.LazyFrame({"region": pl.Series(REGIONS, dtype=CATEGORIES)})
Plan = Callable[[dp.Context, int], dp.polars.LazyFrameQuery]


def open_context() -> dp.Context:
    """A compositor over the frame; OpenDP wants a public bound on its length, and twice the length is one."""
    dp.enable_features("contrib")
    frame = pl.read_parquet(locate_file("parquet"), columns=["age", "income", "region"])
    frame = frame.with_columns(pl.col("region").cast(CATEGORIES))
    longest = 2 * len(frame)
    return dp.Context.compositor(
        data=frame.lazy(),
        domain=build_domain(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=BUDGET),
        margins=[
            dp.polars.Margin(max_length=longest),
            dp.polars.Margin(by=["region"], max_length=longest, max_groups=len(REGIONS)),
        ],
    )


def build_domain() -> dp.Domain:
    return dp.lazyframe_domain(
        [
            dp.series_domain("age", dp.atom_domain(T=dp.i32)),
            dp.series_domain("income", dp.atom_domain(T=dp.f64, nan=False)),
            dp.series_domain("region", dp.enum_domain(pl.Series(REGIONS))),
        ]
    )


def build_plans() -> Mapping[str, Plan]:
    age, income = pl.col("age"), pl.col("income")

    def filter_rows(context: dp.Context, rows: pl.Expr) -> dp.polars.LazyFrameQuery:
        return context.query(epsilon=EPSILON).filter(rows)

    def by_region(context: dp.Context, rows: pl.Expr, what: pl.Expr) -> dp.polars.LazyFrameQuery:
        return filter_rows(context, rows).group_by("region").agg(what).with_keys(KEYS)

    return {
        "count": lambda context, constant: filter_rows(context, income > constant).select(dp.len(signed=True)),
        "sum": lambda context, constant: filter_rows(context, age > constant).select(income.dp.sum(INCOMES)),
        "mean": lambda context, constant: filter_rows(context, age > constant).select(income.dp.mean(INCOMES)),
        "median": lambda context, constant: filter_rows(context, age > constant).select(age.dp.median(AGES)),
        "count by region": lambda context, constant: by_region(context, income > constant, dp.len(signed=True)),
        "mean by region": lambda context, constant: by_region(context, age > constant, income.dp.mean(INCOMES)),
    }


def list_numbers(frame: pl.DataFrame) -> list[float]:
    return frame.to_series(-1).to_list()


if __name__ == "__main__":
    context = open_context()
    serve(
        {
            name: lambda constant, plan=plan: list_numbers(plan(context, constant).release().collect())
            for name, plan in build_plans().items()
        }
    )
