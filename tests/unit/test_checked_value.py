"""Public values are copied and unpickled as what they were, and through the checks with which they are built."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import pickle
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import discreet
from discreet import (
    Accuracy,
    Answer,
    Audit,
    Distance,
    Guarantee,
    InvalidInput,
    Posterior,
    Prior,
    Release,
    Schema,
    Taxonomy,
)
from discreet import constraints as cn
from discreet import mechanisms as mc
from discreet import synthetic as sy
from discreet.answers.answer import PopulationEstimate, RangeCount
from discreet.answers.explain import build_answer
from discreet.custodian.preview import Preview
from discreet.mechanisms.exponential_mechanism import Selection
from discreet.numeric import exp_below
from discreet.planner.options import QueryOptions
from discreet.planner.plan import NoisyResult
from discreet.planner.planner import plan
from discreet.priors.distance import DISTANCE_CLASSES
from discreet.priors.posterior import PosteriorSummary
from discreet.priors.syntax import parse_shapes
from discreet.privacy.cost import PrivacyCost, SubAccount
from discreet.query import parse_sql
from discreet.release.methods import METHODS, build_method
from discreet.schema import Budget, Column, schema_from_text
from discreet.sdc import Closeness, Distinct, Spread
from discreet.synthetic.column_methods import order_names
from discreet.synthetic.records import CurveAxis
from discreet.untrusted import CheckedValue
from discreet.verification import MechanismReplay, Replay, replay, snapshot

Copier = Callable[[object], object]
NAMESPACES = ("", ".constraints", ".mechanisms", ".sdc", ".synthetic", ".verification")
COPIERS: tuple[Copier, ...] = (copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value)))
HALF = Fraction(1, 2)
TREE = Taxonomy.of({"flu": "ill", "gout": "ill", "ill": "any", "well": "any"})
DECLARED = schema_from_text(
    """
name: ward
source: ward.csv
neighbours: add-remove
unit: {column: id, rows: 2}
budget: {epsilon: 4, delta: 1e-6, max_epsilon: 5}
analyst_budget: {epsilon: 2, delta: 1e-6}
published: [{statistic: beds, value: 80, question: SELECT COUNT(*) FROM ward}]
impossible: [age < 3 AND ill = 'gout']
columns:
  age: {kind: integer, lower: 0, upper: 9, missing: 0}
  ill: {kind: nominal, categories: [flu, gout, well]}
  stage: {kind: ordinal, categories: [early, middle, late], counts: falling}
  town: {kind: nominal, keys: private}
""",
    Path("."),
)
ILL = dataclasses.replace(DECLARED.columns["ill"], taxonomy=TREE)
SCHEMA = dataclasses.replace(DECLARED, columns={**DECLARED.columns, "ill": ILL})
QUESTION = """SELECT stage, COUNT(*) AS n, QUANTILE(age, 0.5) FROM ward
    WHERE (age > 3 OR age IS NULL) AND town <> 'Ghent' GROUP BY stage HAVING n > 2 ORDER BY n DESC LIMIT 3"""


def build_synthetic_values() -> list[object]:
    columns = [Column("x", "integer", upper=9, missing=0), Column("y", "integer", upper=4, missing=0)]
    names = Column("z", "nominal", upper=2, categories=("flu", "gout", "well"), taxonomy=TREE, missing=0)
    grids = tuple(map(sy.ColumnGrid.of, columns))
    pure, concentrated = sy.PrivacyBudget(HALF), sy.PrivacyBudget(rho=HALF)
    return [
        grids[0],
        pure,
        sy.RankBlocks(grids[0], 20, 5, pure),
        sy.CategoryCounts(grids[0], 20, concentrated),
        sy.CumulativeCounts(grids[0], 20, 3, pure),
        sy.NameBlocks(sy.ColumnGrid.of(names), 20, 5, pure, order_names(names)),
        sy.MarginalsPlan(20, grids, 4, pure, pure, None, ((0, 1),)),
        sy.NoisyMarginals((), ((0, 1),), (np.arange(4),), (1.5,)),
        sy.RecordsPlan(tuple(CurveAxis.of(column, 3) for column in columns), 3, 20, 5, pure, (HALF,)),
    ]


def build_mechanisms() -> list[object]:
    noise, grid = mc.DiscreteLaplace(HALF, 2, HALF), Prior.uniform(0, 9)
    refinement = mc.Refinement.of(grid, 1, delta=1e-6, up=exp_below(Fraction(1)))
    return [
        mc.AddNoise(noise, 2, "replace-one"),
        mc.DiscreteGaussian(Fraction(9, 4), 1, HALF),
        noise,
        mc.LaplaceDegradation(mc.DiscreteLaplace(1, 2, HALF), noise),
        mc.Staircase(HALF, 3, Fraction(5, 3)),
        mc.BoxStaircase(1, [3, 2], [2, HALF], [1, HALF]),
        mc.BoxStaircase(HALF, [3, 5]),
        mc.PolygonStaircase(1, [(2, 1), (-1, 2), (-2, -1), (1, -2)], step=[HALF, 1]),
        mc.Gaussian(1.5),
        mc.Laplace(HALF, 3),
        refinement,
        refinement.distribution(4),
        mc.Exponential(Selection.of(1, 1), Prior.weights({"a": 1, "b": 2})),
        mc.PermuteAndFlip(Selection.of(HALF, 3)),
        mc.Quantile.of(HALF, 0, 9, 1, prior=grid),
        mc.Quantiles.of([Fraction(1, 4), HALF], 0, 9, 1),
        mc.Bracket.of(HALF, 10, 1),
        mc.Extreme.of(1, 10, 1),
        mc.SmoothOrderStatistic("median", 0, 5, HALF, Fraction(1, 4)),
        mc.IndividualVector(["median", "max"], 0, 9, HALF, group=2),
        mc.IndividualOrderStatistic("max", 0, 9, HALF, pure_epsilon=7),
        mc.TruncatedRangeCount(HALF),
    ]


def build_answer_values() -> Iterator[object]:
    planned = plan(SCHEMA, parse_sql("SELECT COUNT(*) FROM ward", SCHEMA), epsilon=1)
    answer = build_answer(planned, NoisyResult(((),), (((3,),),)), "SELECT COUNT(*) FROM ward", HALF, 1, {"dp": HALF})
    yield from [answer, answer.reconciled, Answer.from_json(answer.to_json())]
    yield PosteriorSummary(1.0, 1.0, (0.0, 2.0))
    yield RangeCount(("1", "2"), 1, 2, 3.5, (0.0, 9.0), 0.95)
    yield PopulationEstimate("n", 3.0, (0.0, 9.0), 0.95, 1.0, 2.0, "an estimate")
    yield Preview("SELECT 1", "none", answer.cost, None, planned.candidates, "exact", answer.guarantee)


def build_values() -> Iterator[object]:
    """At least one of every public class of values, and of the classes that they are made of."""
    yield from build_mechanisms()
    yield from build_synthetic_values()
    distances = [Distance.continuous(), Distance.nominal(), Distance.ordinal("abc"), Distance.semantic(TREE)]
    yield from [*distances, Distance.product(distances, [1, 2, HALF, 3]), TREE, SCHEMA, *SCHEMA.columns.values()]
    needed = {"epsilon": 1, "k": 3, "t": 2, "diversity": "distinct 3"}
    for name, method in METHODS.items():
        yield build_method(name, {option: needed[option] for option in needed if option in method.list_options()})
    yield from [Distinct(3), Spread(HALF), Closeness(HALF), Accuracy.parse("±50 at 90%"), Budget(HALF, HALF)]
    yield from [Prior.normal(5, 2, 0, 9), Prior.weights({"a": 1, (1, HALF): 3}), parse_shapes("normal(5, 2) on [0, 9]")]
    yield from [Guarantee.dp(HALF), Guarantee.individual_dp(HALF, 3), Guarantee.t_closeness(HALF, "emd")]
    yield from [PrivacyCost(HALF, delta=HALF), SubAccount("partition", "x", 2), parse_sql(QUESTION, SCHEMA)]
    yield QueryOptions(epsilon=HALF, prior=Prior.uniform(0, 9), distance=Distance.continuous())
    yield InvalidInput("no such column")
    yield from [cn.total(10), cn.nested({0: [1, 2]}), cn.linear([[1], [-1]], [0]), cn.at_least([1, 2], of=[0, 1])]
    yield from [cn.LinearRefinement.best([[1.0], [1.0]]), discreet.reconcile([3, 4], [cn.total(8)], 2)]
    yield Posterior(np.array([HALF, HALF], dtype=np.float64), names=("a", "b"))
    yield Release("a", "mdav", Guarantee.k_anonymity(3), 9, (Path("a.csv"),), {"k": 3}, Path("a.json"), 4, {"k": [3]})
    yield from build_answer_values()
    row = {"id": "p1", "age": 5, "ill": "flu", "stage": "late", "town": "Ghent"}
    yield replay(SCHEMA, "SELECT COUNT(*) FROM ward", snapshot(SCHEMA, [row]), [], 1)


VALUES = list(build_values())


def describe(value: object) -> object:
    """A value as its type and all its parts, so that two of a class without equality can be compared."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return type(value), {name: describe(getattr(value, name)) for name in names}
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tolist()
    if isinstance(value, Mapping):
        return type(value), [(key, describe(part)) for key, part in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [describe(part) for part in value]
    if sparse.issparse(value):
        return type(value), value.toarray().tolist()
    return (type(value), repr(value)) if isinstance(value, Exception | float) else value


def list_parts(value: object) -> Iterator[object]:
    """The value itself and all that it is made of."""
    yield value
    if dataclasses.is_dataclass(value):
        parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
    else:
        parts = [*value.values()] if isinstance(value, Mapping) else [*value] if isinstance(value, list | tuple) else []
    for part in parts:
        yield from list_parts(part)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_copy_is_the_same_value(value: object) -> None:
    for copier in COPIERS:
        assert describe(copier(value)) == describe(value)


@pytest.mark.parametrize("kind", [Answer, Schema, Taxonomy])
def test_a_copy_equals_what_it_was_made_from(kind: type) -> None:
    originals = [value for value in VALUES if type(value) is kind]
    assert originals
    for copier in COPIERS:
        assert [copier(value) for value in originals] == originals


def test_taxonomies_are_equal_by_what_they_say() -> None:
    """In whatever order it was said; so are the distances that are made of them."""
    turned = Taxonomy(dict(reversed(TREE.ancestors.items())), TREE.root)
    assert (turned, hash(turned), turned.leaves) == (TREE, hash(TREE), TREE.leaves)
    assert Distance.semantic(turned) == Distance.semantic(TREE)
    assert Taxonomy.of({"flu": "ill", "gout": "any", "ill": "any", "well": "any"}) != TREE
    assert Taxonomy.flat("ab") != Taxonomy.flat("ab", root="all")


def test_a_pickled_taxonomy_that_was_changed_is_refused() -> None:
    """Gout is ill and ill is anything; that gout itself is nothing does not fit."""
    build, _ = TREE.__reduce__()
    with pytest.raises(InvalidInput, match="the ancestors of 'gout' are not itself"):
        build(ancestors={**TREE.ancestors, "gout": frozenset({"gout", "ill"})})


def test_every_public_class_of_values_is_copied_above() -> None:
    names = [(importlib.import_module(f"discreet{name}"), name) for name in NAMESPACES]
    public = {getattr(namespace, name) for namespace, _ in names for name in namespace.__all__}
    classes = {kind for kind in public if isinstance(kind, type) and dataclasses.is_dataclass(kind)}
    copied = {type(part) for value in VALUES for part in list_parts(value)}
    assert classes - copied == {Audit}  # it holds callables, for what is drawn later
    assert {Schema, Replay, MechanismReplay, *DISTANCE_CLASSES} <= copied


CHECKED = {type(part): part for value in VALUES for part in list_parts(value) if hasattr(part, "__post_init__")}


@pytest.mark.parametrize("value", CHECKED.values(), ids=lambda value: type(value).__name__)
def test_copies_are_built_through_the_checks_of_their_class(
    value: CheckedValue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise InvalidInput("checked")

    pickled = pickle.dumps(value)
    monkeypatch.setattr(type(value), "__post_init__", refuse)
    for copier in (copy.copy, copy.deepcopy, lambda _: pickle.loads(pickled)):
        with pytest.raises(InvalidInput, match="checked"):
            copier(value)


def test_a_pickle_that_was_changed_is_refused() -> None:
    pickled = pickle.dumps(Distinct(12345))
    assert pickled.count(b"M90") == 1
    with pytest.raises(InvalidInput, match="at least 2"):
        pickle.loads(pickled.replace(b"M90", b"M\0\0"))


def test_an_unpickled_prior_cannot_be_changed() -> None:
    for copier in COPIERS:
        prior = copier(Prior.uniform(0, 9))
        assert isinstance(prior, Prior)
        assert not prior.mass.flags.writeable
        assert not prior.index.flags.writeable
