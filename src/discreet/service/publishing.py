"""Releases and sweeps as a request tells of them: read, refused early, carried out by a custodian."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet.custodian import Custodian
from discreet.custodian.place import DatasetDir
from discreet.custodian.private_recipe import SYNTHETIC_METHODS as PRIVATE
from discreet.custodian.private_recipe import (
    SyntheticRecipe,
    build_synthetic_recipe,
    build_synthetic_recipes,
    check_synthetic_options,
)
from discreet.custodian.recipe import build_protection_recipe
from discreet.custodian.releases import find_next_release_number
from discreet.errors import BudgetExceeded
from discreet.formatting import format_budget_left, format_cost
from discreet.schema import Schema
from discreet.service.asking import parse_request_number

EXACT_FIELDS = ("t", "epsilon", "delta", "suppress")
SERVICE_FIELDS = ("method", "format", "report")


def check_release_request(custodian: Custodian, body: Mapping[str, Any]) -> None:
    """Refuse at once what the schema and the budget alone show to be impossible."""
    recipe = parse_release_request(custodian.schema, body)
    if recipe is not None and recipe.delta is None:  # with a delta, what it costs is known once it is planned
        _check_budget(custodian, recipe.epsilon)


def parse_release_request(schema: Schema, body: Mapping[str, Any]) -> SyntheticRecipe | None:
    """The recipe of a private file, None of another; refused where the schema shows it to be wrong."""
    method, options = body["method"], _parse_release_options(body)
    k, t, epsilon = (options.pop(name, None) for name in ("k", "t", "epsilon"))
    if method in PRIVATE:
        return build_synthetic_recipe(
            schema, method, epsilon, k=k, **check_synthetic_options(method, {"t": t} | options)
        )
    build_protection_recipe(schema, method, k, epsilon, t=t, **options)
    return None


def _check_budget(custodian: Custodian, epsilon: Fraction) -> None:
    """A pure loss adds up, so what is left of that account tells whether it fits; others are told by the ledger."""
    left = next((balance.left for balance in custodian.budget() if balance.model == "dp"), epsilon)
    if epsilon > left:
        advice = f"ask for at most {format_budget_left(left)}" if left else "no other file can be paid for"
        raise BudgetExceeded(
            f"epsilon {format_cost(epsilon)} was asked, and the data set's budget has {format_budget_left(left)} left; "
            f"{advice}"
        )


def publish_in_folder(
    custodian: Custodian, body: Mapping[str, Any], folder: Path, progress: Callable[[str], None], key: str
) -> dict[str, object]:
    """Make the release in a folder; the JSON of it, with names instead of places."""
    name = f"{custodian.schema.name}-{find_next_release_number(DatasetDir(custodian.schema))}"
    output = folder / ("columns" if body.get("apart") else f"{name}.{body.get('format', 'csv')}")
    report = folder / f"{name}-report.html" if body.get("report", True) else None
    release = custodian.publish(
        body["method"], output, report=report, progress=progress, key=key, **_parse_release_options(body)
    )
    document = release.to_json()
    document["files"] = [str(file.relative_to(folder)) for file in release.files]
    document["manifest_file"] = str(release.manifest_file.relative_to(folder))
    return document | {"report": None if release.report is None else str(release.report.relative_to(folder))}


def sweep_in_folder(
    custodian: Custodian, body: Mapping[str, Any], folder: Path, progress: Callable[[str], None]
) -> dict[str, object]:
    """Compare methods over k; the JSON of it."""
    options = {name: value for name, value in _parse_release_options(body).items() if name in {"methods", "t"}}
    sweep_result = custodian.sweep(
        body.get("ks", "k=3..300"), report=folder / "sweep.html", progress=progress, **options
    )
    return sweep_result.to_json()


def estimate_requested_release(custodian: Custodian, body: Mapping[str, Any]) -> dict[str, object]:
    """What private files would promise and how far off they would be."""
    from discreet.planner.private_release import recommend_method

    method, options = body.get("method"), _parse_release_options(body)
    k, epsilon = options.pop("k", None), options.pop("epsilon", None)
    build_synthetic_recipes(custodian.schema, method, epsilon, k, options)
    plans = custodian.estimate_error(method, k, epsilon, **options)
    return {
        "plans": [plan.to_json() for plan in plans],
        "recommended": recommend_method(plans) if method is None else None,
    }


def _parse_release_options(body: Mapping[str, Any]) -> dict[str, Any]:
    """What was said, numbers by their decimal text, as `Custodian.publish` takes it."""
    options = {name: value for name, value in body.items() if name not in SERVICE_FIELDS and value is not None}
    for name in EXACT_FIELDS:
        if name in options:
            options[name] = parse_request_number(options[name], name)
    for name in ("keep", "columns", "methods"):
        if name in options:
            options[name] = tuple(options[name])
    if "pairs" in options:
        options["pairs"] = [tuple(pair) for pair in options["pairs"]]
    return options
