"""OpenDP's Polars context without its search: measurements are made with a scale known beforehand.

No guide says so, but it is the fastest way to an answer of OpenDP's.
"""

from __future__ import annotations

import opendp.prelude as dp

from benchmarks.query.by_opendp import Plan, build_plans, list_numbers, open_context
from benchmarks.query.contestant import serve
from benchmarks.query.questions import EPSILON

# In units of each part's sensitivity; a mean has two parts, and a median's scores change by two.
PARTS = {"count": 1, "sum": 1, "mean": 2, "median": 2, "count by region": 1, "mean by region": 2}


def answer_scaled(context: dp.Context, name: str, plan: Plan, constant: int) -> list[float]:
    accountant = context.accountant
    measurement = dp.m.make_private_lazyframe(
        accountant.input_domain,
        accountant.input_metric,
        accountant.output_measure,
        plan(context, constant).polars_plan,
        global_scale=PARTS[name] / EPSILON,
    )
    assert measurement.check(1, EPSILON)
    return list_numbers(context(measurement).collect())


if __name__ == "__main__":
    context = open_context()
    serve({name: lambda at, n=name, p=plan: answer_scaled(context, n, p, at) for name, plan in build_plans().items()})
