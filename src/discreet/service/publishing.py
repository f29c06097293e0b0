"""Releases and sweeps as a request tells of them: read, refused early, carried out by a custodian."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet.custodian import Custodian
from discreet.custodian.place import Place
from discreet.custodian.private_recipe import METHODS as PRIVATE
from discreet.custodian.private_recipe import PrivateRecipe, private_recipe_of, recipes_of, said_of
from discreet.custodian.recipe import recipe_of
from discreet.custodian.releases import next_number
from discreet.errors import BudgetExceeded
from discreet.formatting import format_cost, format_left
from discreet.schema import Schema
from discreet.service.asking import exact

EXACT = ("t", "epsilon", "delta", "suppress")
OURS = ("method", "format", "report")


def check(custodian: Custodian, said: Mapping[str, Any]) -> None:
    """Refuse at once what the schema and the budget alone show to be impossible."""
    recipe = checked(custodian.schema, said)
    if recipe is not None and recipe.delta is None:  # with a delta, what it costs is known once it is planned
        _check_budget(custodian, recipe.epsilon)


def checked(schema: Schema, said: Mapping[str, Any]) -> PrivateRecipe | None:
    """The recipe of a private file, None of another; refused where the schema shows it to be wrong."""
    method, given = said["method"], _read(said)
    k, t, epsilon = (given.pop(name, None) for name in ("k", "t", "epsilon"))
    if method in PRIVATE:
        return private_recipe_of(schema, method, epsilon, k=k, **said_of(method, {"t": t} | given))
    recipe_of(schema, method, k, epsilon, t=t, **given)
    return None


def _check_budget(custodian: Custodian, epsilon: Fraction) -> None:
    """A pure loss adds up, so what is left of that account tells whether it fits; others are told by the ledger."""
    left = next((one.left for one in custodian.budget() if one.model == "dp"), epsilon)
    if epsilon > left:
        advice = f"ask for at most {format_left(left)}" if left else "no other file can be paid for"
        raise BudgetExceeded(
            f"epsilon {format_cost(epsilon)} was asked, and the data set's budget has {format_left(left)} left; "
            f"{advice}"
        )


def publish(
    custodian: Custodian, said: Mapping[str, Any], folder: Path, progress: Callable[[str], None], key: str
) -> dict[str, object]:
    """Make the release in a folder; the JSON of it, with names instead of places."""
    name = f"{custodian.schema.name}-{next_number(Place(custodian.schema))}"
    out = folder / ("columns" if said.get("apart") else f"{name}.{said.get('format', 'csv')}")
    report = folder / f"{name}-report.html" if said.get("report", True) else None
    made = custodian.publish(said["method"], out, report=report, progress=progress, key=key, **_read(said))
    told = made.to_json()
    told["files"] = [str(file.relative_to(folder)) for file in made.files]
    told["manifest_file"] = str(made.manifest_file.relative_to(folder))
    return told | {"report": None if made.report is None else str(made.report.relative_to(folder))}


def sweep(
    custodian: Custodian, said: Mapping[str, Any], folder: Path, progress: Callable[[str], None]
) -> dict[str, object]:
    """Compare methods over k; the JSON of it."""
    given = {name: value for name, value in _read(said).items() if name in {"methods", "t"}}
    made = custodian.sweep(said.get("ks", "k=3..300"), report=folder / "sweep.html", progress=progress, **given)
    return made.to_json()


def expected(custodian: Custodian, said: Mapping[str, Any]) -> dict[str, object]:
    """What private files would promise and how far off they would be."""
    from discreet.planner.private_release import recommended

    method, given = said.get("method"), _read(said)
    k, epsilon = given.pop("k", None), given.pop("epsilon", None)
    recipes_of(custodian.schema, method, epsilon, k, given)
    plans = custodian.expected(method, k, epsilon, **given)
    return {"plans": [plan.to_json() for plan in plans], "recommended": recommended(plans) if method is None else None}


def _read(said: Mapping[str, Any]) -> dict[str, Any]:
    """What was said, numbers by their decimal text, as `Custodian.publish` takes it."""
    given = {name: value for name, value in said.items() if name not in OURS and value is not None}
    for name in EXACT:
        if name in given:
            given[name] = exact(given[name], name)
    for name in ("keep", "columns", "methods"):
        if name in given:
            given[name] = tuple(given[name])
    if "pairs" in given:
        given["pairs"] = [tuple(pair) for pair in given["pairs"]]
    return given
