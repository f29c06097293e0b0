"""OpenDP's Polars context as its guide has it, one row added or removed; each measurement is made once and run often.

Over a public number of rows: its transformations on a domain of known size, where a changed row is two steps of the
symmetric distance. Its quantiles are a noisy max over candidates, here every value of the grid.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import opendp.prelude as dp
import polars as pl

from benchmarks.error.contestant import Draw, Make, serve
from benchmarks.error.jobs import GREATEST_AGE, GREATEST_INCOME, LEAST_AGE, OLD, QUARTILES, REGIONS, RICH, ROWS, STEP
from benchmarks.error.table import People

CATEGORIES = pl.Enum(REGIONS)
INCOMES = (0.0, float(GREATEST_INCOME))
AGES = list(range(LEAST_AGE, GREATEST_AGE + 1))
GRID = [float(value) for value in range(0, GREATEST_INCOME + 1, STEP)]
KEYS = pl.LazyFrame({"region": pl.Series(REGIONS, dtype=CATEGORIES)})
LONGEST = 2 * ROWS


def build_frame(people: People) -> pl.LazyFrame:
    region = pl.Series([REGIONS[at] for at in people.region], dtype=CATEGORIES)
    return pl.LazyFrame({"age": people.age, "income": people.income, "region": region})


def open_context(rows: pl.LazyFrame) -> dp.Context:
    """A compositor that no measurement is charged to; OpenDP wants a public bound on the number of rows."""
    domain = dp.lazyframe_domain(
        [
            dp.series_domain("age", dp.atom_domain(T=dp.i64)),
            dp.series_domain("income", dp.atom_domain(T=dp.f64, nan=False)),
            dp.series_domain("region", dp.enum_domain(pl.Series(REGIONS))),
        ]
    )
    margins = [
        dp.polars.Margin(max_length=LONGEST),
        dp.polars.Margin(by=["region"], max_length=LONGEST, max_groups=len(REGIONS)),
    ]
    unit, loss = dp.unit_of(contributions=1), dp.loss_of(epsilon=5.0)
    return dp.Context.compositor(data=rows, domain=domain, privacy_unit=unit, privacy_loss=loss, margins=margins)


def build_jobs(people: People) -> dict[str, Make]:
    rows = build_frame(people)
    context = open_context(rows)
    age, income = pl.col("age"), pl.col("income")

    def build_selection(condition: pl.Expr, *what: pl.Expr) -> Make:
        def make(epsilon: float) -> Draw:
            measurement = context.query(epsilon=epsilon).filter(condition).select(*what).resolve()
            return lambda: measurement(rows).collect().row(0)

        return make

    def build_by_region(condition: pl.Expr, what: pl.Expr) -> Make:
        def make(epsilon: float) -> Draw:
            query = context.query(epsilon=epsilon).filter(condition).group_by("region").agg(what).with_keys(KEYS)
            measurement = query.resolve()
            return lambda: measurement(rows).collect().sort("region").to_series(-1).to_list()

        return make

    rich, old = income > RICH, age > OLD
    quartiles = [income.dp.quantile(order, GRID).alias(str(order)) for order in QUARTILES]
    return {
        "count": build_selection(rich, dp.len(signed=True)),
        "sum": build_selection(old, income.dp.sum(INCOMES)),
        "mean": build_selection(old, income.dp.mean(INCOMES)),
        "count by region": build_by_region(rich, dp.len(signed=True)),
        "mean by region": build_by_region(old, income.dp.mean(INCOMES)),
        "median of age": build_selection(rich, age.dp.median(AGES)),
        "median of income": build_selection(old, income.dp.median(GRID)),
        "quartiles of income": build_selection(old, *quartiles),
        "least age": build_selection(rich, age.dp.quantile(0.0, AGES)),
        "greatest age": build_selection(rich, age.dp.quantile(1.0, AGES)),
        "least income": build_selection(old, income.dp.quantile(0.0, GRID)),
        "greatest income": build_selection(old, income.dp.quantile(1.0, GRID)),
    } | build_jobs_over_all(people.income.tolist())


def build_jobs_over_all(incomes: list[float]) -> dict[str, Make]:
    """What its transformations do where the number of rows is public."""
    bounded = dp.vector_domain(dp.atom_domain(bounds=INCOMES, nan=False), size=ROWS)
    plain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=ROWS)
    metric, loss = dp.symmetric_distance(), dp.max_divergence()

    def add_laplace(total: dp.Transformation) -> Make:
        return search_scale(lambda scale: total >> dp.m.then_laplace(scale))

    def search_scale(chain: Callable[[float], dp.Measurement]) -> Make:
        def make(epsilon: float) -> Draw:
            measurement = dp.binary_search_chain(chain, d_in=2, d_out=epsilon)
            return lambda: [measurement(incomes)]

        return make

    return {
        "mean of all": add_laplace(dp.t.make_mean(bounded, metric)),
        "variance of all": add_laplace(dp.t.make_variance(bounded, metric)),
        "median of all incomes": search_scale(
            lambda scale: dp.m.make_private_quantile(plain, metric, loss, GRID, 0.5, scale)
        ),
    }


if __name__ == "__main__":
    dp.enable_features("contrib")
    serve(build_jobs(People.read(sys.argv[1])))
