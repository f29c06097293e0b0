"""Every public function refuses a value of a wrong type in one plain sentence: no error of Python's own comes out."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import discreet
from discreet import (
    AddNoise,
    Custodian,
    DiscreetError,
    DiscreteLaplace,
    Distance,
    Guarantee,
    InvalidInput,
    Ledger,
    Posterior,
    Prior,
    Refinement,
    Staircase,
    Taxonomy,
    sdc,
)
from discreet import constraints as cn
from discreet import mechanisms as mc
from discreet import synthetic as sy
from discreet import verification as ve
from discreet.planner.planner import plan
from discreet.query import parse_question
from discreet.schema import schema_from_text

Case = tuple[Callable[..., object], dict[str, Any]]
NAMESPACES = ("", ".constraints", ".mechanisms", ".sdc", ".synthetic", ".verification")
WRONG_VALUES = ("registry.yaml", None, -1, 3.5, b"x", {"a": 1}, ["a"], object())
HALF, QUESTION = Fraction(1, 2), "SELECT COUNT(*) FROM ward"
SCHEMA = schema_from_text(
    """
name: ward
source: ward.csv
neighbours: add-remove
budget: {epsilon: 4}
columns:
  age: {kind: integer, lower: 0, upper: 9, missing: 0}
""",
    Path("."),
)
PLAN = plan(SCHEMA, parse_question(QUESTION, SCHEMA), 1)
TABLE = {"age": [1, 2, 3, 4, 5, 6], "ill": ["a", "b", "a", "b", "a", "b"]}
SQUARE, ONES = [[1, 0], [0, 1]], [[1], [1]]
ROWS = [{"age": 5}]
COIN, PEAK = {0: HALF, 1: HALF}, {0: HALF, 1: Fraction(1, 4), -1: Fraction(1, 4)}
EQUAL_CHANCES = [[HALF, HALF], [HALF, HALF]]


def compute_geometric(value: int) -> float:
    return 0.5 ** abs(value) / 3


def return_zeros(_: object, count: int) -> object:
    return np.zeros(count)


def list_constraint_cases() -> list[Case]:
    equations = {"A": SQUARE, "D": ONES, "constants_change": [1], "answers_change": [1, 1], "components": None}
    return [
        (cn.at_least, {"low": 1, "of": [0]}),
        (cn.at_most, {"high": 1, "of": [0]}),
        (cn.total, {"value": 3, "of": [0, 1]}),
        *((rule, {"of": [0, 1]}) for rule in (cn.decreasing, cn.increasing, cn.same_total)),
        (cn.fixed, {"value": 3, "of": [0]}),
        (cn.linear, {"B": ONES, "c": [2]}),
        (cn.nested, {"parent": 0, "parts": [1, 2]}),
        (cn.refine_linear, {"noisy": [1, 2], "B": ONES, "c": [3], "variance": 1}),
        (cn.reconcile, {"noisy": [1, 2], "constraints": [cn.total(3)], "variance": 1, "guarantee": None}),
        (cn.rho, {**equations, "noise_scale": 1}),
        (cn.scale_for_rho, {**equations, "epsilon": 1}),
        (cn.LinearRefinement, {"A": [[1]], "D": [[1]], "h": None}),
        (cn.LinearRefinement.best, {"B": ONES, "variance": 1}),
        (cn.Constraint, {"name": "x", "rule": "total", "arguments": (None, 1.0)}),
    ]


def list_mechanism_cases() -> list[Case]:
    bounds = {"lower": 0, "upper": 9}
    relation = {"neighbors": "replace-one", "rows_per_unit": 1}
    order = {"what": "median", **bounds}
    quantile = {**bounds, "epsilon": 1, "step": 1, **relation, "prior": None}
    refinement = {"prior": Prior.uniform(0, 9), "epsilon": 1, "about": "statistic", "distance": None, "delta": 0}
    individual = {**bounds, "epsilon": 1, "step": 1, "group": 1, "pure_epsilon": 20}
    unit_relation = (mc.count_sensitivity, mc.histogram_sensitivity, mc.histogram_sensitivity_squared)
    return [
        (discreet.global_sensitivity, {"what": "sum", **bounds, **relation, "rows": None, "every_row": False}),
        *((sensitivity, relation) for sensitivity in unit_relation),
        (mc.distinct_sensitivity, {"neighbors": "add-remove"}),
        *((rule, {**bounds, **relation, "rows": 10}) for rule in (mc.mean_sensitivity, mc.variance_sensitivity)),
        (mc.sum_sensitivity, {**bounds, **relation, "every_row": False}),
        (mc.order_sensitivity, order),
        (mc.rank_score_sensitivity, {"q": 0.5, **relation}),
        (mc.local_sensitivity, {"values": [1, 2, 3], **order, "group": 1}),
        (mc.smooth_sensitivity, {"values": [1, 2, 3], **order, "beta": 1}),
        (mc.exponential, {"scores": [1, 2], "sensitivity": 1, "epsilon": 1, "prior": None, "step": None}),
        (mc.satisfies_density, {"distribution": PEAK, "differences": [0], "ratio": HALF}),
        (mc.smaller, {"first": PEAK, "second": PEAK}),
        (mc.staircase_from, {"half": [HALF, Fraction(1, 4)], "epsilon": 1, "sensitivity": 1, "step": 1}),
        (discreet.refine, {**refinement, "truth": 3, "up": None}),
        (Refinement.of, {**refinement, "up": None}),
        (DiscreteLaplace, {"epsilon": 1, "sensitivity": 1, "step": 1}),
        (Staircase, {"epsilon": 1, "sensitivity": 3, "core": Fraction(3, 2), "step": 1}),
        (AddNoise, {"noise": DiscreteLaplace(1, 1), "sensitivity": 1, "neighbors": "add-remove"}),
        (mc.LaplaceDegradation, {"present_noise": DiscreteLaplace(2, 1), "target_noise": DiscreteLaplace(1, 1)}),
        (mc.BoxStaircase, {"epsilon": 1, "widths": [1, 2], "core": None, "step": 1}),
        (mc.PolygonStaircase, {"epsilon": 1, "vertices": [(2, 1), (-1, 2), (-2, -1), (1, -2)], "core": None}),
        (mc.Quantile.of, {"q": 0.5, **quantile}),
        (mc.Quantiles.of, {"orders": [0.5], **quantile}),
        (mc.Bracket.of, {"q": 0.5, "count": 10, "epsilon": 1, **relation, "confidence": 0.9}),
        (mc.Extreme.of, {"place": 1, "count": 10, "epsilon": 1, "rows_per_unit": 1, "end": "top"}),
        (mc.SmoothOrderStatistic, {**order, "epsilon": 1, "step": 1}),
        (mc.IndividualVector, {"whats": ["median"], **individual}),
        (mc.IndividualOrderStatistic, {"what": "median", **individual}),
        (mc.KeyedEntropy, {"key": b"x", "purpose": "p"}),
        (sy.PrivacyBudget, {"epsilon": HALF, "rho": Fraction(0)}),
    ]


def list_disclosure_cases() -> list[Case]:
    roles: dict[str, Any] = {"quasi": ["age"], "confidential": ["ill"]}
    grouping = {"method": "mdav", "scale": "domain", "weights": None, "strata": None, "entropy": None}
    release = {"original": TABLE, "released": TABLE, "groups": None, "second": None, **roles}
    distance = {"distance": Distance.continuous(), "values": [1, 2]}
    labels = np.array([0, 0, 1, 1])
    return [
        (sdc.check_claim, {"guarantee": Guarantee.k_anonymity(1), **release, "kept": ()}),
        (
            sdc.compare_release,
            {**release, "aligned": True, "scale": "domain", "tolerance": 0.05, "earlier": (), "k": 2},
        ),
        (
            sdc.generalize,
            {"table": TABLE, "k": 2, **roles, "hierarchies": None, "loss": "ncp", "suppress": 0, "keep": ()},
        ),
        (sdc.mdav_swap, {"table": TABLE, "k": 2, **roles, **grouping, "diversity": None, "swap": "confidential"}),
        (sdc.anatomy, {"table": TABLE, "k": 2, **roles, **grouping, "diversity": None, "partition": "confidential"}),
        (sdc.ir_swap, {"table": TABLE, "k": 2, "confidential": ["age"], "diversity": None, "strata": None}),
        (sdc.mdav_id, {"table": TABLE, "k": 2, "columns": ["age"], **grouping}),
        (sdc.microaggregate, {"X": TABLE, "k": 2, **grouping, "domains": None, "taxonomies": None}),
        (sdc.t_close, {"table": TABLE, "t": 0.9, "k": 2, **roles, "buckets": None, "form": "hidden", "entropy": None}),
        (sdc.measure_anonymity, {"table": TABLE, **roles, "recursive_l": 2}),
        (sdc.boundary, distance),
        (sdc.diameter, distance),
        (sdc.marginality, {**distance, "candidate": 1}),
        (sdc.counterexample, {"method": group_alone, "records": [(1,), (2,)], "k": 1, "replacements": [(5,)]}),
        (sdc.groups_apart, {"groups": labels, "bucket": labels[[0, 2, 1, 3]]}),
        (sdc.probabilistic_k, {"chances": EQUAL_CHANCES}),
        (sdc.reidentification, {"chances": EQUAL_CHANCES}),
        (sdc.score, {"sse_0": 1.0, "rl_0": 1.0, "sse": 1.0, "rl": 1.0}),
        (sdc.swap_chances, {"groups": [0, 0, 1, 1], "kept": None}),
        (sdc.Closeness, {"t": 0.1}),
        (sdc.Distinct, {"values": 2}),
        (sdc.Spread, {"width": 1}),
    ]


def group_alone(records: list[object], _: int) -> list[int]:
    return list(range(len(records)))


def list_verification_cases() -> list[Case]:
    audit = {"mechanism": return_zeros, "epsilon": 1, "delta": 0, "draws": 1000, "confidence": 0.9, "progress": None}
    tables, pairs = {"rows": ROWS, "other_rows": []}, {"count": 2, "entropy": None}
    session = {"schema": SCHEMA, "questions": [(QUESTION, 10)], "epsilon": 1}
    laws = {"distribution": compute_geometric, "smaller": np.sinc, "larger": np.sinc}
    coins = {"distribution": COIN, "other": COIN}
    return [
        (ve.audit_mechanism, {**audit, "D": 0, "D2": 1}),
        (ve.audit_worst, {**audit, "pairs": [(0, 1)]}),
        (ve.assert_fits, {"samples": [0] * 999 + [1], **laws}),
        (ve.assert_private, {"schema": SCHEMA, "question": QUESTION, "epsilon": 1, **pairs}),
        (ve.assert_private_session, {**session, **pairs}),
        (ve.chi_square_excess, {"counts": {0: 500, 1: 250, -1: 250}, "distribution": compute_geometric}),
        (ve.exact_delta, {**coins, "ratio": Fraction(1)}),
        (ve.worst_ratio, coins),
        (ve.all_neighbors, {"table": [1], "domain": [1, 2], "neighbors": "add-remove"}),
        (ve.all_tables, {"domain": [1, 2], "size": 2}),
        (ve.generated_pairs, {"schema": SCHEMA}),
        (ve.limit_units, {"schema": SCHEMA}),
        (ve.neighbor_rows, {"schema": SCHEMA, "count": 1, "entropy": None}),
        (ve.neighbor_tables, {"records": st.integers(), "neighbors": "add-remove"}),
        (ve.replay, {"schema": SCHEMA, "question": QUESTION, **tables, "epsilon": 1}),
        (ve.replay_plan, {"planned": PLAN, **tables}),
        (ve.replay_session, {**session, **tables}),
        (ve.snapshot, {"schema": SCHEMA, "rows": ROWS, "key": "k"}),
    ]


def list_value_cases() -> list[Case]:
    promise = {"neighbors": "add-remove", "unit": "row"}
    bounds = {"lower": 0, "upper": 9, "step": 1}
    return [
        (Guarantee.dp, {"epsilon": 1, **promise}),
        (Guarantee.approx_dp, {"epsilon": 1, "delta": 0.1, **promise}),
        (Guarantee.zcdp, {"rho": 1, **promise}),
        (Guarantee.individual_dp, {"epsilon": 1, "pure_epsilon": 2, **promise}),
        (Guarantee.k_anonymity, {"k": 2, "unit": "row"}),
        (Guarantee.t_closeness, {"t": 0.1, "distance": "emd", "unit": "row"}),
        (Guarantee.nominal, {"epsilon": 1, "assumption": "x"}),
        (Guarantee.parallel, {"parts": [Guarantee.dp(1)], "rows_per_unit": 1}),
        (Prior.uniform, bounds),
        (Prior.normal, {"mean": 5, "sd": 1, **bounds}),
        (Prior.weights, {"weights": {"a": 1}}),
        (Prior.independent, {"parts": [Prior.uniform(0, 1)], "impossible": ()}),
        (Prior.parse, {"text": "uniform(0, 9)", **bounds}),
        (Posterior, {"mass": np.array([0.5, 0.5]), "names": ("a", "b")}),
        (Taxonomy.of, {"parents": {"a": "b"}}),
        (Taxonomy.flat, {"categories": ["a", "b"], "root": "any"}),
        (Distance.ordinal, {"categories": ["a"]}),
        (Distance.semantic, {"taxonomy": Taxonomy.flat(["a", "b"])}),
        (Distance.product, {"parts": [Distance.nominal()], "weights": [1]}),
        (discreet.Accuracy.parse, {"text": "±5"}),
        (discreet.load_schema, {"path": "missing.yaml"}),
        (Custodian.open, {"schema": "missing.yaml"}),
        (Ledger.open, {"where": "folder/missing/ledger.db", "timeout": 1}),
    ]


def list_release_cases() -> list[Case]:
    release = {"schema": SCHEMA, "method": "private-columns", "epsilon": 1}
    return [
        (ve.assert_private_release, {**release, "count": 1, "entropy": None}),
        (ve.replay_release, {**release, "rows": ROWS, "other_rows": [], "entropy": None}),
    ]


CASES = [
    *list_constraint_cases(),
    *list_mechanism_cases(),
    *list_disclosure_cases(),
    *list_verification_cases(),
    *list_value_cases(),
    *list_release_cases(),
]


def catch(function: Callable[..., object], arguments: dict[str, Any]) -> Exception | None:
    try:
        parameters = inspect.signature(function).parameters.values()
        by_place = [item.name for item in parameters if item.kind is item.POSITIONAL_ONLY]
        by_name = {name: value for name, value in arguments.items() if name not in by_place}
        result = function(*(arguments[name] for name in by_place), **by_name)
        if isinstance(result, Iterator):
            list(result)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize(("function", "arguments"), CASES, ids=[function.__qualname__ for function, _ in CASES])
def test_a_wrong_type_is_refused_in_one_sentence(
    function: Callable[..., object], arguments: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in arguments:
        for wrong_value in WRONG_VALUES:
            error = catch(function, {**arguments, name: wrong_value})
            may_fail = function.__name__.startswith("assert_") and isinstance(error, AssertionError)
            assert error is None or may_fail or isinstance(error, DiscreetError), (name, wrong_value, error)
            assert may_fail or "\n" not in str(error), (name, wrong_value)


def test_every_public_function_is_called_above() -> None:
    namespaces = [importlib.import_module(f"discreet{name}") for name in NAMESPACES]
    public = {getattr(namespace, name) for namespace in namespaces for name in namespace.__all__}
    functions = {function for function in public if isinstance(function, FunctionType)}
    assert functions <= {function for function, _ in CASES}


@pytest.mark.parametrize(("function", "arguments"), CASES, ids=[function.__qualname__ for function, _ in CASES])
def test_every_argument_above_has_a_parameter(function: Callable[..., object], arguments: dict[str, Any]) -> None:
    parameters = inspect.signature(function).parameters
    assert arguments.keys() <= parameters.keys() or "arguments" in parameters or "options" in parameters


@pytest.mark.parametrize("schema", ["registry.yaml", None, 3, {"name": "registry"}])
def test_assert_private_tells_what_a_schema_is(schema: Any) -> None:
    with pytest.raises(InvalidInput, match=r"must be a Schema, as load_schema\('registry.yaml'\) returns it, got"):
        ve.assert_private(schema, QUESTION, 1)
