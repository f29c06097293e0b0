"""How many counts of one noise fit a budget, where the ledger adds them up by their squares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.error.by_discreet import format_schema, register_people
from benchmarks.error.jobs import ADD, TABLE
from benchmarks.error.table import People
from benchmarks.measure import Line
from discreet import BudgetExceeded

EPSILON, DELTA = 3, 1e-6
DEVIATION = 20
MOST = 1_000
BUDGET = f"budget: {{epsilon: {EPSILON}, delta: {DELTA}}}\nmodels: [dp, approx-dp]"


def list_bars(people: People, folder: Path) -> Iterator[Line]:
    """Ask for one count after another, each with the same noise, until the ledger refuses."""
    with register_people(people, folder / "many", format_schema(ADD, BUDGET)) as custodian:
        for count in range(MOST):
            question = f"SELECT COUNT(*) FROM {TABLE} WHERE income > {10 * count}"
            try:
                custodian.answer(question, noise_scale=DEVIATION, delta=DELTA)
            except BudgetExceeded:
                break
    name = f"counts of noise sd {DEVIATION} within ({EPSILON}, {DELTA:g})"
    yield Line(name, count, "", 100, True)
