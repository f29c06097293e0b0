"""No code of a caller's runs once rows may have been read: hostile subclasses of everything that is accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet.custodian.custodian as custodian_module
import discreet.custodian.session as session_module
from discreet import (
    AddNoise,
    Custodian,
    DiscreteLaplace,
    Distance,
    Guarantee,
    InvalidInput,
    Prior,
    Refinement,
    Staircase,
    Taxonomy,
    at_least,
    at_most,
    refine,
    total,
)
from discreet.constraints import fixed, linear, nested, same_total
from discreet.estimation.constraint_set import Constraint, copy_constraint
from discreet.mechanisms import Exponential, PermuteAndFlip, Quantile, Quantiles, SmoothOrderStatistic, exponential
from discreet.mechanisms.noise import Noise
from discreet.planner.options import Accuracy
from discreet.priors.distance import (
    ContinuousDistance,
    NominalDistance,
    OrdinalDistance,
    ProductDistance,
    SemanticDistance,
    copy_distance,
)
from discreet.priors.prior import Grid, copy_prior
from discreet.priors.syntax import ShapeMixture, ShapeTerm
from discreet.priors.taxonomy import copy_taxonomy
from discreet.privacy.cost import PrivacyCost, SubAccount
from discreet.query import parse_sql
from discreet.query.query import Query
from discreet.schema import Budget, Column, PublishedStatistic, Schema
from discreet.sdc.methods.partition import Distinct
from discreet.untrusted import copy_exact_number, copy_list, copy_tree, copy_value
from support import temporary_folders
from support.hostile_values import HostileFactory, Log, build_hostile_subclass

SECRET = "tuberculosis"
ILLS = (SECRET, "influenza", "measles", "asthma")
PARENTS = {SECRET: "infection", "influenza": "infection", "measles": "infection", "asthma": "any", "infection": "any"}
SCHEMA = f"""
name: ward
source: ward.csv
neighbours: add-remove
unit: {{column: id, rows: 1}}
individual_queries: yes
budget: {{epsilon: 100000, delta: 1e-3}}
analyst_budget: {{epsilon: 100000, delta: 1e-3}}
models: [dp, approx-dp]
columns:
  id: {{role: identifier}}
  age: {{kind: integer, lower: 0, upper: 99, missing: 0}}
  stage: {{kind: ordinal, categories: [early, middle, late]}}
  ill: {{kind: nominal, categories: [{", ".join(ILLS)}]}}
  admitted: {{kind: date, lower: 2020-01-01, upper: 2020-12-31}}
  town: {{kind: nominal, keys: private}}
"""


@pytest.fixture(scope="module")
def ward_custodian() -> Iterator[Custodian]:
    folder = temporary_folders.lasting()
    lines = [f"p{index},{index % 90},late,{SECRET},2020-02-{1 + index % 28:02},Xanadu" for index in range(30)]
    (folder / "ward.csv").write_text("\n".join(["id,age,stage,ill,admitted,town", *lines, ""]))
    (folder / "ward.yaml").write_text(SCHEMA)
    with Custodian.open(folder / "ward.yaml") as opened:
        yield opened


@pytest.fixture
def hostile_kit(monkeypatch: pytest.MonkeyPatch) -> HostileFactory:
    """Its log counts every call from the moment that rows are read on."""
    hostile_values = HostileFactory()

    def arm(method: Callable[..., Any]) -> Callable[..., Any]:
        def record_drawing(*arguments: Any) -> Any:
            hostile_values.log.armed = True
            return method(*arguments)

        return record_drawing

    for module, name in ((custodian_module, "scan_rows"), (session_module, "measure_plan")):
        monkeypatch.setattr(module, name, arm(getattr(module, name)))
    return hostile_values


def is_leak_free(log: Log) -> bool:
    """Whether rows were read, no call was made since, and no call was ever given a secret."""
    return (
        log.armed
        and not log.late_calls
        and not any(type(value) is str and value == SECRET for value in log.seen_values)
    )


ILL_OF_ONE = "SELECT ill FROM ward FOR UNIT 'p1'"
STAGE_OF_ONE = "SELECT stage FROM ward FOR UNIT 'p1'"
AGE_OF_ONE = "SELECT age FROM ward FOR UNIT 'p1'"
COUNT = "SELECT COUNT(*) FROM ward WHERE age > 20"
GROUPED = "SELECT stage, COUNT(*) FROM ward GROUP BY stage"
WEIGHTS = {"influenza": 3, "measles": Fraction(1, 2), "asthma": 0.5, "tuberculosis": 1}
ANSWERS: dict[str, Callable[[HostileFactory], dict[str, Any]]] = {
    "SQL": lambda h: {"question": h.copy_as_hostile(COUNT), "epsilon": 1},
    "epsilon as a fraction": lambda h: {"question": COUNT, "epsilon": h.copy_as_hostile(Fraction(1, 3))},
    "epsilon as a float": lambda h: {"question": COUNT, "epsilon": h.copy_as_hostile(0.25)},
    "epsilon as a decimal": lambda h: {"question": COUNT, "epsilon": h.copy_as_hostile(Decimal("0.5"))},
    "epsilon of numpy": lambda h: {"question": COUNT, "epsilon": h.copy_as_hostile(np.float64(0.75))},
    "epsilon and delta": lambda h: {
        "question": COUNT,
        "epsilon": h.copy_as_hostile(2),
        "delta": h.copy_as_hostile(Decimal("1e-9")),
    },
    "a noise scale": lambda h: {"question": COUNT, "noise_scale": h.copy_as_hostile(Fraction(7, 2))},
    "an accuracy": lambda h: {"question": COUNT, "accuracy": h.copy_as_hostile("±50 at 95%")},
    "rows and a model": lambda h: {
        "question": COUNT,
        "epsilon": 3,
        "rows": h.copy_as_hostile(20),
        "model": h.copy_as_hostile("dp"),
    },
    "an interval": lambda h: {
        "question": "SELECT MEDIAN(age) FROM ward",
        "epsilon": 3,
        "interval": h.copy_as_hostile(1),
    },
    "an analyst and a key": lambda h: {
        "question": COUNT,
        "epsilon": 4,
        "analyst": h.copy_as_hostile("ann"),
        "key": h.copy_as_hostile("k1"),
    },
    "fresh": lambda h: {"question": COUNT, "epsilon": 4, "fresh": h.copy_as_hostile(1)},
    "a prior as text": lambda h: {
        "question": COUNT,
        "epsilon": 1,
        "prior": h.copy_as_hostile("normal(20, 5)"),
        "fresh": True,
    },
    "a prior of one as text": lambda h: {
        "question": AGE_OF_ONE,
        "epsilon": 1,
        "prior": h.copy_as_hostile("normal(20, 5)"),
    },
    "weights in a dictionary": lambda h: {"question": ILL_OF_ONE, "epsilon": 1, "prior": h.copy_as_hostile(WEIGHTS)},
    "weights in a mapping": lambda h: {
        "question": ILL_OF_ONE,
        "epsilon": 1,
        "prior": h.build_mapping(WEIGHTS),
        "fresh": True,
    },
    "weights of numpy's texts": lambda h: {
        "question": ILL_OF_ONE,
        "epsilon": 2,
        "prior": {h.copy_as_hostile(np.str_(name)): h.copy_as_hostile(np.int64(1)) for name in ILLS},
    },
    "a Prior of names": lambda h: {
        "question": ILL_OF_ONE,
        "epsilon": 3,
        "prior": Prior.weights(h.copy_as_hostile(WEIGHTS)),
    },
    "a Prior of dates": lambda h: {
        "question": "SELECT admitted FROM ward FOR UNIT 'p1'",
        "epsilon": 1,
        "prior": Prior.weights(
            {h.copy_as_hostile(date(2020, 2, 3)): 1, h.copy_as_hostile(date(2020, 5, 5)): h.copy_as_hostile(2)}
        ),
    },
    "a Prior made by hand": lambda h: {"question": ILL_OF_ONE, "epsilon": 4, "prior": build_prior_by_hand(h)},
    "a Prior changed by hand": lambda h: {
        "question": ILL_OF_ONE,
        "epsilon": 4,
        "prior": change_prior(h),
        "fresh": True,
    },
    "a Prior of numbers": lambda h: {
        "question": AGE_OF_ONE,
        "epsilon": 3,
        "prior": Prior(
            h.build_array([1, 2, 1]),
            h.build_array([0, 1, 2]),
            Grid(h.copy_as_hostile(Fraction(20)), h.copy_as_hostile(Fraction(5))),
            None,
        ),
    },
    "a distance by its name": lambda h: {
        "question": ILL_OF_ONE,
        "epsilon": 5,
        "distance": h.copy_as_hostile("nominal"),
    },
    "a taxonomy": lambda h: {
        "question": ILL_OF_ONE,
        "epsilon": 6,
        "distance": Distance.semantic(Taxonomy.of(h.copy_as_hostile(PARENTS))),
    },
    "a taxonomy of a mapping": lambda h: {
        "question": ILL_OF_ONE,
        "epsilon": 7,
        "distance": Distance.semantic(Taxonomy.of(h.build_mapping(PARENTS))),
    },
    "a taxonomy made by hand": lambda h: {
        "question": ILL_OF_ONE,
        "epsilon": 8,
        "distance": SemanticDistance(build_taxonomy_by_hand(h)),
    },
    "a flat taxonomy": lambda h: {
        "question": ILL_OF_ONE,
        "epsilon": 9,
        "distance": Distance.semantic(Taxonomy.flat(h.copy_as_hostile(list(ILLS)), h.copy_as_hostile("any"))),
    },
    "a semantic distance changed by hand": lambda h: {
        "question": ILL_OF_ONE,
        "epsilon": 10,
        "distance": tamper_distance(h),
    },
    "an ordinal distance": lambda h: {
        "question": STAGE_OF_ONE,
        "epsilon": 11,
        "distance": Distance.ordinal(h.copy_as_hostile(["late", "middle", "early"])),
    },
    "a continuous distance": lambda h: {
        "question": "SELECT MEDIAN(age) FROM ward",
        "epsilon": 12,
        "distance": h.copy_as_hostile("continuous"),
        "prior": h.copy_as_hostile("uniform(0, 99)"),
    },
    "constraints as text": lambda h: {
        "question": GROUPED,
        "epsilon": 1,
        "constraints": h.copy_as_hostile(["total = 30", "each <= 30", "rising"]),
    },
    "constraints": lambda h: {
        "question": GROUPED,
        "epsilon": 2,
        "constraints": h.kinds[list](
            [
                total(h.copy_as_hostile(30)),
                at_least(h.copy_as_hostile([0, 0, 0, 0])),
                at_most(h.copy_as_hostile(40), h.copy_as_hostile([0, 1, 2])),
                fixed(h.copy_as_hostile(0), h.copy_as_hostile([0])),
            ]
        ),
    },
    "a linear constraint": lambda h: {
        "question": GROUPED,
        "epsilon": 3,
        "constraints": [linear(h.build_array([1, 1, 1, 1]).reshape(4, 1), h.copy_as_hostile([30]))],
    },
    "a ready-made query": lambda h: {"question": relabel_query(h), "epsilon": 1},
}


def build_prior_by_hand(h: HostileFactory) -> Prior:
    return Prior(h.build_array([1, 2, 3, 4]), h.build_array([0, 1, 2, 3]), None, h.copy_as_hostile(ILLS))


def change_prior(h: HostileFactory) -> Prior:
    """The same, after the values and what was computed from them were replaced."""
    prior = Prior.weights(WEIGHTS)
    for name, value in (
        ("values", h.copy_as_hostile(ILLS)),
        ("support", h.copy_as_hostile(ILLS)),
        ("mass", h.build_array([1, 2, 3, 4])),
    ):
        prior.__dict__[name] = value
    return prior


def build_taxonomy_by_hand(h: HostileFactory) -> Taxonomy:
    plain = Taxonomy.of(PARENTS)
    return Taxonomy(
        h.build_mapping({name: tuple(ups) for name, ups in plain.ancestors.items()}), h.copy_as_hostile(plain.root)
    )


def tamper_distance(h: HostileFactory) -> Distance:
    distance = Distance.semantic(Taxonomy.of(PARENTS))
    ancestors = distance.taxonomy.ancestors  # type: ignore[attr-defined]
    object.__setattr__(
        distance.taxonomy, "ancestors", h.build_mapping({name: tuple(ups) for name, ups in ancestors.items()})
    )  # type: ignore[attr-defined]
    return distance


def relabel_query(h: HostileFactory) -> Query:
    """A query whose fields are as they were, of builtin types; hostile ones are refused, as another test shows."""
    return parse_sql(h.copy_as_hostile(COUNT.replace("COUNT(*)", "COUNT(*) AS people")), parse_ward_schema())


def parse_ward_schema() -> Schema:
    from discreet.schema import schema_from_text

    return schema_from_text(SCHEMA, Path())


@pytest.mark.parametrize("build_options", ANSWERS.values(), ids=ANSWERS)
def test_no_code_of_a_caller_runs_once_rows_are_read(
    build_options: Callable[[HostileFactory], dict[str, Any]], ward_custodian: Custodian, hostile_kit: HostileFactory
) -> None:
    answer = ward_custodian.answer(**({"fresh": True} | build_options(hostile_kit)))
    answer.to_json()
    str(answer)
    assert is_leak_free(hostile_kit.log), (hostile_kit.log.armed, hostile_kit.log.late_calls[:3])


@pytest.mark.parametrize("build_options", ANSWERS.values(), ids=ANSWERS)
def test_previews_take_the_same(
    build_options: Callable[[HostileFactory], dict[str, Any]], ward_custodian: Custodian, hostile_kit: HostileFactory
) -> None:
    options = {
        name: value for name, value in build_options(hostile_kit).items() if name not in ("constraints", "key", "fresh")
    }
    assert ward_custodian.preview(**options).question


def test_no_code_of_a_caller_runs_in_a_session(ward_custodian: Custodian, hostile_kit: HostileFactory) -> None:
    with ward_custodian.session(
        hostile_kit.copy_as_hostile(Fraction(20)),
        hostile_kit.copy_as_hostile(0.5),
        hostile_kit.copy_as_hostile("ann"),
        hostile_kit.copy_as_hostile("s1"),
    ) as session:
        session.answer(hostile_kit.copy_as_hostile(COUNT), hostile_kit.copy_as_hostile(400)).to_json()
    assert is_leak_free(hostile_kit.log), hostile_kit.log.late_calls[:3]


def test_subclasses_of_our_classes_are_refused_at_every_door(ward_custodian: Custodian) -> None:
    """Also one that hides behind another `__class__`."""
    log = Log()
    prior, tree = Prior.weights(WEIGHTS), Taxonomy.of(PARENTS)
    mine = {
        kind: remake(build_hostile_subclass(kind, log), value) for kind, value in list_our_values(prior, tree).items()
    }
    before = ward_custodian.budget()
    doors: list[Callable[[], object]] = [
        lambda: ward_custodian.answer(ILL_OF_ONE, 1, prior=mine[Prior]),
        lambda: ward_custodian.preview(ILL_OF_ONE, 1, prior=mine[Prior]),
        lambda: Prior.independent([mine[Prior], prior]),
        lambda: Refinement.of(mine[Prior], 1),
        lambda: refine(mine[Prior], SECRET, 1),
        lambda: Exponential.of(1, 1, mine[Prior]),
        lambda: exponential([1, 2, 3, 4], 1, 1, mine[Prior]),
        lambda: Quantile.of(0.5, 0, 9, 1, prior=mine[Prior]),
        lambda: Quantiles.of([0.5, 0.6], 0, 9, 1, prior=mine[Prior]),
        lambda: Prior(prior.mass, prior.index, mine[Grid], None),
        lambda: Distance.semantic(mine[Taxonomy]),
        lambda: SemanticDistance(mine[Taxonomy]),
        *(lambda kind=kind: ward_custodian.answer(ILL_OF_ONE, 1, distance=mine[kind]) for kind in DISTANCES),
        *(lambda kind=kind: Refinement.of(prior, 1, distance=mine[kind]) for kind in DISTANCES),
        *(lambda kind=kind: Distance.product([mine[kind]]) for kind in DISTANCES),
        lambda: replace(Refinement.of(prior, 1), distance=mine[NominalDistance]),
        lambda: ward_custodian.answer(COUNT, accuracy=mine[Accuracy]),
        lambda: ward_custodian.answer(GROUPED, 1, constraints=[mine[Constraint]]),
        lambda: AddNoise(mine[DiscreteLaplace], 1),
        lambda: ward_custodian.answer(mine[Query], 1),
        lambda: ward_custodian.publish("mdav-swap", "out.csv", k=2, diversity=mine[Distinct]),
        lambda: ward_custodian.answer(FalseClass(Query), 1),  # type: ignore[arg-type]
        lambda: ward_custodian.answer(FalseClass(str), 1),  # type: ignore[arg-type]
        lambda: ward_custodian.answer(ILL_OF_ONE, 1, prior=FalseClass(str)),  # type: ignore[arg-type]
        lambda: ward_custodian.answer(ILL_OF_ONE, 1, prior=FalseClass(Prior)),  # type: ignore[arg-type]
        lambda: ward_custodian.answer(ILL_OF_ONE, 1, distance=FalseClass(NominalDistance)),  # type: ignore[arg-type]
        lambda: Refinement.of(prior, 1, distance=FalseClass(NominalDistance)),  # type: ignore[arg-type]
        lambda: ward_custodian.answer(ILL_OF_ONE, FalseClass(Fraction)),
        lambda: ward_custodian.answer(COUNT, 1, analyst=FalseClass(str)),  # type: ignore[arg-type]
        lambda: ward_custodian.answer(COUNT, 1, key=FalseClass(str)),  # type: ignore[arg-type]
        lambda: ward_custodian.answer(GROUPED, 1, constraints=[FalseClass(Constraint)]),  # type: ignore[list-item]
    ]
    for index, door in enumerate(doors):
        with pytest.raises(InvalidInput) as refusal:
            door()
        assert "\n" not in str(refusal.value), index
    assert ward_custodian.budget() == before


DISTANCES = (ContinuousDistance, NominalDistance, OrdinalDistance, SemanticDistance, ProductDistance)


def list_our_values(prior: Prior, tree: Taxonomy) -> dict[type, Any]:
    values: list[Any] = [
        prior,
        Grid(Fraction(0), Fraction(1)),
        tree,
        ContinuousDistance(),
        NominalDistance(),
        OrdinalDistance(ILLS),
    ]
    values += [
        SemanticDistance(tree),
        ProductDistance((NominalDistance(),), (Fraction(1),)),
        Accuracy.parse("±50"),
        total(30),
        Distinct(2),
    ]
    values += [DiscreteLaplace(1, 1), parse_sql(COUNT, parse_ward_schema())]
    return {type(value): value for value in values}


class FalseClass:
    """Says that it is of another class."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    @property
    def __class__(self) -> Any:
        return self._kind


def test_what_only_says_that_it_is_a_truth_is_refused(ward_custodian: Custodian) -> None:
    for door in (ward_custodian.answer, ward_custodian.preview):
        with pytest.raises(InvalidInput, match="tail is True, False or left out, got FalseClass"):
            door(COUNT, epsilon=1, prior="normal(20, 5)", tail=FalseClass(bool))


def remake(kind: type, original: Any) -> Any:
    copy = object.__new__(kind)
    for field in fields(original):
        object.__setattr__(copy, field.name, getattr(original, field.name))
    return copy


def test_mechanisms_hand_the_truth_to_nobody(hostile_kit: HostileFactory) -> None:
    """All that they are made from is copied when they are made; scores and entropy are the custodian's own."""
    h = hostile_kit
    weights, tree = Prior.weights(h.copy_as_hostile(WEIGHTS)), Taxonomy.of(h.copy_as_hostile(PARENTS))
    pairs = Prior.independent(
        [weights, Prior.uniform(h.copy_as_hostile(0), h.copy_as_hostile(9))], [h.copy_as_hostile(("asthma", 3))]
    )
    both = Distance.product(
        h.kinds[list]([Distance.semantic(tree), Distance.continuous()]), h.copy_as_hostile([1, Fraction(1, 81)])
    )
    mechanisms: list[tuple[Any, object]] = [
        (Refinement.of(weights, h.copy_as_hostile(1), distance=Distance.semantic(tree)), SECRET),
        (
            Refinement.of(
                weights,
                h.copy_as_hostile(0.5),
                h.copy_as_hostile("individual"),
                h.copy_as_hostile("replace-one"),
                h.copy_as_hostile("nominal"),
            ),
            SECRET,
        ),
        (
            Refinement.of(
                weights, h.copy_as_hostile(Fraction(1)), distance=Distance.ordinal(h.copy_as_hostile(list(ILLS)))
            ),
            SECRET,
        ),
        (Refinement.of(build_prior_by_hand(h), 1, up=h.copy_as_hostile(Fraction(3, 2))), SECRET),
        (Refinement.of(change_prior(h), 1), SECRET),
        (Refinement.of(weights, 1, distance=tamper_distance(h)), SECRET),
        (Refinement.of(pairs, h.copy_as_hostile(2), distance=both), (SECRET, 4)),
        (
            Refinement.of(
                Prior.uniform(h.copy_as_hostile(0), h.copy_as_hostile(9.0), h.copy_as_hostile(Decimal("0.5"))),
                h.copy_as_hostile(1),
            ),
            4,
        ),
        (
            Exponential.of(h.copy_as_hostile(1), h.copy_as_hostile(1), weights, h.copy_as_hostile(1)),
            dict.fromkeys(ILLS, 3),
        ),
        (
            PermuteAndFlip.of(h.copy_as_hostile(1), h.copy_as_hostile(Fraction(1)), step=h.copy_as_hostile(0.5)),
            [1, 2, 3],
        ),
        (
            Quantile.of(
                h.copy_as_hostile(0.5),
                h.copy_as_hostile(0),
                h.copy_as_hostile(99),
                h.copy_as_hostile(1),
                h.copy_as_hostile(1),
            ),
            [7, 8, 9],
        ),
        (Quantiles.of(h.copy_as_hostile([0.25, 0.5]), 0, 99, h.copy_as_hostile(1)), [7, 8, 9]),
        (
            AddNoise(
                DiscreteLaplace(h.copy_as_hostile(1), h.copy_as_hostile(2), h.copy_as_hostile(0.5)),
                h.copy_as_hostile(Fraction(2)),
            ),
            77,
        ),
        (
            AddNoise(
                Staircase.least_variance(h.copy_as_hostile(1), h.copy_as_hostile(2)),
                h.copy_as_hostile(2),
                h.copy_as_hostile("replace-one"),
            ),
            77,
        ),
        (
            SmoothOrderStatistic(
                h.copy_as_hostile("median"), h.copy_as_hostile(0), h.copy_as_hostile(9), h.copy_as_hostile(1)
            ),
            [1, 2, 3],
        ),
    ]
    hostile_kit.log.armed = True
    for mechanism, truth in mechanisms:
        mechanism.answer(truth)
        assert is_leak_free(hostile_kit.log), (mechanism, hostile_kit.log.late_calls[:3])


def test_what_a_caller_changes_later_has_no_effect() -> None:
    """Between the check and the use, or between two uses."""
    parents, weights, order = dict(PARENTS), dict(WEIGHTS), list(ILLS)
    mass, index = np.array([1, 2], dtype=np.int64), np.array([0, 1], dtype=np.int64)
    tree, prior, ordinal = Taxonomy.of(parents), Prior.weights(weights), Distance.ordinal(order)
    arrays, numbers = Prior(mass, index, None, ("a", "b")), np.array([1.0, 2.0, 3.0])
    bound, epsilon = at_least(numbers), Fraction(1, 2)
    spend, noise = PrivacyCost(epsilon, Fraction(1, 8)), DiscreteLaplace(epsilon, 1)
    parents.clear(), weights.clear(), order.clear()
    mass[:], index[:], numbers[:], epsilon._numerator = 9, 9, 9, 1000  # type: ignore[attr-defined]
    assert tree.get_ancestors(SECRET) == {SECRET, "infection", "any"}
    assert prior == Prior.weights(WEIGHTS)
    assert ordinal == OrdinalDistance(ILLS)
    assert (arrays.mass.tolist(), arrays.index.tolist()) == ([1, 2], [0, 1])
    assert bound.bind(np.zeros(3)).low.tolist() == [1, 2, 3]  # type: ignore[union-attr]
    assert (spend.epsilon, noise.epsilon, noise.rate) == (Fraction(1, 2),) * 3
    with pytest.raises(ValueError, match="read-only"):
        prior.mass[0] = 7
    with pytest.raises(TypeError):
        tree.ancestors["x"] = frozenset()  # type: ignore[index]


def test_copies_are_of_builtin_types() -> None:
    h = HostileFactory()

    class Town(StrEnum):
        OSLO = "Oslo"

    class Place(IntEnum):
        FIRST = 1

    expected: list[tuple[object, object]] = [
        (h.copy_as_hostile(value), value) for value in ("a", 7, 0.5, Fraction(1, 3), b"x")
    ]
    expected += [
        (h.copy_as_hostile(Decimal("1.50")), Decimal("1.50")),
        (h.copy_as_hostile(date(2020, 1, 2)), date(2020, 1, 2)),
    ]
    expected += [(Town.OSLO, "Oslo"), (Place.FIRST, 1), (np.str_("b"), "b"), (np.float32(0.5), 0.5)]
    expected += [(np.int8(3), 3), (np.bool_(True), True), (np.longdouble(0.25), 0.25), (None, None), (True, True)]
    expected += [(h.copy_as_hostile(("a", (1, 2))), ("a", (1, 2))), (datetime(2020, 1, 1, 5), datetime(2020, 1, 1, 5))]
    for value, wanted in expected:
        copy = copy_value(value, "it")
        assert copy == wanted
        assert type(copy) is type(wanted)
    tree = copy_tree(h.copy_as_hostile({"a": [1, {"b": ("c", 2)}]}), "it")
    assert tree == {"a": [1, {"b": ["c", 2]}]}
    assert type(tree) is dict
    assert copy_list("abc", "it") == ["a", "b", "c"]


@pytest.mark.parametrize(
    "value",
    [object(), [1], {1: 2}, 1j, lambda: 1, FalseClass(str), datetime(2024, 2, 29, tzinfo=UTC), np.zeros(2)],
    ids=["object", "list", "dict", "complex", "function", "liar", "datetime", "array"],
)
def test_what_is_no_plain_value_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="it must be"):
        copy_value(value, "it")
    with pytest.raises(InvalidInput):
        Prior(np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64), None, (value,))  # type: ignore[arg-type]


def test_values_that_cannot_be_built_wrong() -> None:
    """Of every class that noise, a price or a promise is computed from."""
    whole, fraction, text = Column("x", "integer", upper=9), Fraction(1), HostileFactory().copy_as_hostile("x")
    budget, grid = Budget(fraction), Grid(fraction, fraction)
    declared_schema = parse_ward_schema()
    tree = Taxonomy.of(PARENTS)
    wrong: list[Callable[[], object]] = [
        lambda: Column("x", "integer", lower=5, upper=1),
        lambda: Column("x", "integer", lower=0.5, upper=1),  # type: ignore[arg-type]
        lambda: Column("x", "integer", lower=False, upper=1),
        lambda: Column("x", "integer", upper=9, step=Fraction(-1)),
        lambda: Column("x", "integer", upper=9, step=0.5),  # type: ignore[arg-type]
        lambda: Column("x", "whole", upper=9),  # type: ignore[arg-type]
        lambda: Column(text, "integer", upper=9),
        lambda: Column("x", "nominal", upper=1, categories=(text, "b")),
        lambda: Column("x", "integer", upper=9, private_keys=1),  # type: ignore[arg-type]
        lambda: replace(declared_schema, rows=1.5),  # type: ignore[type-var]
        lambda: replace(declared_schema, rows=True),
        lambda: replace(declared_schema, rows=0),
        lambda: replace(declared_schema, neighbors="none"),  # type: ignore[arg-type]
        lambda: replace(declared_schema, neighbors="replace-one", units=2.5),  # type: ignore[arg-type]
        lambda: replace(declared_schema, columns={"y": whole}),
        lambda: replace(declared_schema, columns={"x": remake(build_hostile_subclass(Column, Log()), whole)}),
        lambda: replace(declared_schema, budget=remake(build_hostile_subclass(Budget, Log()), budget)),
        lambda: replace(declared_schema, published=("n = 1",)),  # type: ignore[arg-type]
        lambda: replace(declared_schema, models=["dp"]),  # type: ignore[arg-type]
        lambda: Budget(0.5),  # type: ignore[arg-type]
        lambda: Budget(Fraction(-1)),
        lambda: PublishedStatistic("n", 1),  # type: ignore[arg-type]
        lambda: PrivacyCost(Fraction(-1)),
        lambda: PrivacyCost(0.5),  # type: ignore[arg-type]
        lambda: SubAccount("table", "x", 1),  # type: ignore[arg-type]
        lambda: SubAccount("partition", "x", True),
        lambda: Guarantee("dp", "add-remove", epsilon=0.5),  # type: ignore[arg-type]
        lambda: Guarantee(text, "add-remove", epsilon=fraction),
        lambda: Guarantee("dp", "none", epsilon=fraction),  # type: ignore[arg-type]
        lambda: Guarantee("dp", "add-remove", epsilon=fraction, assumptions=["x"]),  # type: ignore[arg-type]
        lambda: Accuracy(0.5, Fraction(9, 10)),  # type: ignore[arg-type]
        lambda: Grid(fraction, Fraction(0)),
        lambda: Grid(0.5, fraction),  # type: ignore[arg-type]
        lambda: Prior(np.ones(2, dtype=np.int64), np.arange(2), None, ("a",)),
        lambda: Prior(np.ones(2), np.arange(2), grid, None),  # type: ignore[arg-type]
        lambda: Prior([1, 2], np.arange(2), grid, None),  # type: ignore[arg-type]
        lambda: Taxonomy({}, "any"),
        lambda: Taxonomy({"a": frozenset(), "any": frozenset({"any"})}, "any"),
        lambda: Taxonomy({"a": frozenset({"a", "b", "any"}), "any": frozenset({"any"})}, "any"),
        lambda: Taxonomy({"a": frozenset({"a", "any"}), "any": frozenset({"any"})}, "root"),
        lambda: OrdinalDistance(("a", "a")),
        lambda: ProductDistance((NominalDistance(),), ()),
        lambda: ProductDistance((), ()),
        lambda: ProductDistance((tree,), (fraction,)),  # type: ignore[arg-type]
        lambda: Constraint("x", lambda noisy: noisy, ()),  # type: ignore[arg-type]
        lambda: Constraint("x", "total", ()),
        lambda: Constraint("x", "total", (None, print)),
        lambda: ShapeTerm(fraction, "normal", (fraction, Fraction(0))),
        lambda: ShapeTerm(0.5, "normal", (fraction, fraction)),  # type: ignore[arg-type]
        lambda: ShapeTerm(fraction, text, (fraction, fraction)),
        lambda: ShapeMixture(
            (remake(build_hostile_subclass(ShapeTerm, Log()), ShapeTerm(fraction, "point", (fraction,))),)
        ),
        lambda: ShapeMixture((ShapeTerm(fraction, "point", (fraction,)),), step=Fraction(-1)),
        lambda: copy_exact_number(True, "x"),
        lambda: copy_distance(tree),
        lambda: copy_prior(tree),
        lambda: copy_taxonomy(grid),
        lambda: copy_constraint("total"),
    ]
    for index, build in enumerate(wrong):
        with pytest.raises(InvalidInput) as refusal:
            build()
        assert "\n" not in str(refusal.value), index


def test_all_classes_of_noise_are_known() -> None:
    from discreet.mechanisms.noise import list_noise_classes

    ours = {kind for kind in Noise.__subclasses__() if kind.__module__.startswith("discreet.")}
    assert ours == set(list_noise_classes())


def test_same_total_and_nested_are_data() -> None:
    for value in (same_total(), nested({0: [1, 2]})):
        assert type(copy_constraint(value).rule) is str
