"""Protocols 1 and 2 of document 000, checked exactly: every transcript of two adaptive rounds, refusals included.

What an adversary may ask second is everything, after every first answer; so each strategy is among what is checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet import BudgetExceeded, Ledger
from discreet.ledger import Caps, Charge
from discreet.mechanisms.refinement import Refinement, RefinementSubject
from discreet.numeric import exp_below
from discreet.planner.domain_partition import CountQuery
from discreet.planner.session_budget import SessionBudget
from discreet.priors.distance import Distance
from discreet.priors.prior import Prior
from discreet.privacy.cost import PrivacyCost, SubAccount
from discreet.privacy.guarantee import NeighborRelation
from discreet.query.predicates import InRanges, build_ranges
from discreet.query.query import GroupKey
from discreet.schema import Budget, Column, Schema

VALUES = range(4)
RELATIONS: tuple[NeighborRelation, ...] = ("add-remove", "replace-one")
MOST_ROWS = 3
WINDOW = range(-1, MOST_ROWS + 2)
"""Counts are from 0 to 3: beyond, |y - f(D)| - |y - f(D')| stays what it is at the end, so no other output is worse."""
Table = tuple[int, ...]
Losses = NDArray[np.int64]


def one_column(neighbors: NeighborRelation) -> Schema:
    budget = Budget(Fraction(1))
    column = Column("x", "integer", lower=0, upper=3, missing=0)
    units = MOST_ROWS if neighbors == "replace-one" else None
    return Schema("t", "t.csv", Path(), neighbors, {"x": column}, budget, budget, units)


@cache
def neighbouring(neighbors: NeighborRelation) -> tuple[tuple[Table, Table], ...]:
    """All pairs of neighbours of at most three rows, both ways round."""
    tables = [table for size in range(MOST_ROWS + 1) for table in combinations_with_replacement(VALUES, size)]
    if neighbors == "add-remove":
        pairs = {
            (table, tuple(sorted((*table, value)))) for table in tables if len(table) < MOST_ROWS for value in VALUES
        }
    else:
        moved = ((table, at, value) for table in tables for at in range(len(table)) for value in VALUES)
        pairs = {(table, tuple(sorted((*table[:at], value, *table[at + 1 :])))) for table, at, value in moved}
    return tuple(pairs | {(two, one) for one, two in pairs})


@dataclass(frozen=True)
class Asked:
    """A question of Protocol 1: the rows with these values, in groups of this width or in none, and the noise."""

    values: tuple[int, ...]
    scale: Fraction
    width: int = 0

    def count(self) -> CountQuery:
        keys = (GroupKey("x", self.width),) if self.width else ()
        return CountQuery(InRanges("x", build_ranges(self.values)), self.scale, keys)

    def cells(self) -> list[list[int]]:
        """The values that each shown number counts."""
        if not self.width:
            return [list(self.values)]
        return [[x for x in self.values if x // self.width == cell] for cell in range(math.ceil(4 / self.width))]


UNIT = 12
"""Losses are whole numbers of 1/12: every scale below divides 12."""


@cache
def losses(asked: Asked, pairs: tuple[tuple[Table, Table], ...]) -> Losses:
    """ln P(y | D) - ln P(y | D') in 1/12, for every pair and every output of the window: rates times whole distances.

    The discrete Laplace law is proportional to e^(-|y - f| / scale); what it is divided by does not depend on the data.
    """
    each = int(UNIT / asked.scale)
    assert each == UNIT / asked.scale
    total = np.zeros((len(pairs), 1), dtype=np.int64)
    for values in asked.cells():
        counts = np.array([[sum(x in values for x in table) for table in pair] for pair in pairs])
        apart = np.abs(np.array(WINDOW) - counts[:, :, None])
        loss = each * (apart[:, 1] - apart[:, 0])
        total = (total[:, :, None] + loss[:, None, :]).reshape(len(pairs), -1)
    return total


Rule = Callable[[SessionBudget, Asked], SessionBudget | None]


def joint(tally: SessionBudget, asked: Asked) -> SessionBudget | None:
    """The session's own rule; None is a refusal."""
    try:
        return tally.add_counts([asked.count()])
    except BudgetExceeded:
        return None


def worst_transcript(neighbors: NeighborRelation, first: Asked, seconds: Sequence[Asked], rule: Rule) -> Fraction:
    """The largest loss of any transcript, whichever second question follows whichever first answer.

    At a fixed transcript the questions are fixed, so losses add; a refusal is the same on both tables and adds nothing.
    Any two outputs can follow each other, so for a pair of tables the largest sum is the sum of the largest.
    """
    pairs = neighbouring(neighbors)
    start = SessionBudget(one_column(neighbors), Fraction(1))
    answered = rule(start, first)
    one = losses(first, pairs).max(axis=1) if answered else np.zeros(len(pairs), dtype=np.int64)
    worst = int(one.max())
    for second in seconds:
        if rule(answered or start, second) is not None:
            worst = max(worst, int((one + losses(second, pairs).max(axis=1)).max()))
    return Fraction(worst, UNIT)


SUBSETS = [tuple(x for x in VALUES if bits >> x & 1) for bits in range(1, 16)]
SCALES = (Fraction(1), Fraction(3, 2), Fraction(2), Fraction(3), Fraction(4))
PLAIN = [Asked(values, scale) for values in SUBSETS for scale in SCALES]
GROUPED = [Asked(values, scale, width) for values in ((0, 1, 2, 3), (1, 3)) for scale in (2, 4) for width in (1, 2)]
GROUPED = [replace(one, scale=Fraction(one.scale)) for one in GROUPED]


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_protocol_1_keeps_its_promise_on_every_transcript(neighbors: NeighborRelation) -> None:
    """Any first question and answer, any second question and answer, or refusal: at most epsilon, which is reached."""
    firsts = [Asked(values, scale) for values in ((0,), (0, 1), (0, 1, 2), (0, 1, 2, 3)) for scale in SCALES]
    worst_losses = [worst_transcript(neighbors, first, PLAIN, joint) for first in firsts]
    assert max(worst_losses) == 1


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_protocol_1_keeps_its_promise_with_groups(neighbors: NeighborRelation) -> None:
    """Cells shown side by side, first or second, are counts like others."""
    for first in (*GROUPED, Asked((0, 1), Fraction(2))):
        assert worst_transcript(neighbors, first, GROUPED, joint) <= 1
    whole = Asked((0, 1, 2, 3), Fraction(2), 1)
    assert worst_transcript(neighbors, whole, [], joint) == (Fraction(1, 2) if neighbors == "add-remove" else 1)


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_protocol_1_refuses_and_goes_on(neighbors: NeighborRelation) -> None:
    """An adversary who runs into a refusal may ask again: the transcripts hold refusals, and answers after them."""
    tally = SessionBudget(one_column(neighbors), Fraction(1))
    too_much = Asked((0, 1), Fraction(1, 2))
    assert joint(tally, too_much) is None
    assert worst_transcript(neighbors, too_much, PLAIN, joint) == 1
    answered = tally.add_counts([Asked((0, 1), Fraction(1)).count()])
    assert joint(answered, Asked((1,), Fraction(4))) is None
    apart = joint(answered, Asked((2, 3), Fraction(1)))
    assert (apart is None) == (neighbors == "replace-one")


def strategies() -> Iterator[Callable[[int], Asked]]:
    """How a second question may follow from a first answer."""
    yield lambda y: Asked((0, 1), Fraction(2)) if y > 1 else Asked((2, 3), Fraction(2))
    yield lambda y: Asked(SUBSETS[y % 15], SCALES[y % 5])
    yield lambda y: Asked((0,), Fraction(1)) if y == 2 else Asked((0, 1, 2), Fraction(4))


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_protocol_1_against_given_strategies(neighbors: NeighborRelation) -> None:
    """The same with the second question fixed by the first answer, written out; some answers lead to a refusal."""
    pairs = neighbouring(neighbors)
    first = Asked((0, 1), Fraction(2))
    refused = 0
    for strategy in strategies():
        answered = SessionBudget(one_column(neighbors), Fraction(1)).add_counts([first.count()])
        for place, y in enumerate(WINDOW):
            second = strategy(y)
            after = losses(first, pairs)[:, place, None]
            if joint(answered, second) is None:
                refused += 1
            else:
                after = after + losses(second, pairs)
            assert after.max() <= UNIT
    assert refused


def largest(tally: SessionBudget, asked: Asked) -> SessionBudget | None:
    """A wrong rule: each question against epsilon by itself."""
    alone = joint(SessionBudget(tally.schema, tally.epsilon), asked)
    return None if alone is None else replace(tally, counts=(*tally.counts, asked.count()))


def of_the_other_relation(tally: SessionBudget, asked: Asked) -> SessionBudget | None:
    """A wrong rule: what add-remove allows, under replace-one."""
    other_relation = joint(replace(tally, schema=one_column("add-remove")), asked)
    return None if other_relation is None else replace(other_relation, schema=tally.schema)


@pytest.mark.parametrize(
    ("neighbors", "rule"), [("add-remove", largest), ("replace-one", largest), ("replace-one", of_the_other_relation)]
)
def test_a_wrong_rule_is_caught(neighbors: NeighborRelation, rule: Rule) -> None:
    """The test can fail: two answers of epsilon 1 each come to 2."""
    assert worst_transcript(neighbors, Asked((0, 1), Fraction(1)), PLAIN, rule) == 2


PEOPLE = ("ann", "bob")
Persons = tuple[tuple[str, int], ...]
BUDGET = Fraction(1)


@dataclass(frozen=True)
class Refined:
    """A question of Protocol 2, all of it the analyst's choice: what, prior, distance and epsilon."""

    what: str
    prior: Prior
    epsilon: Fraction
    distance: str | Distance | None = None

    @property
    def about(self) -> RefinementSubject:
        return "individual" if self.what in PEOPLE else "statistic"

    def law(self, table: Persons, neighbors: NeighborRelation) -> dict[object, Fraction]:
        """The exact law of the answer."""
        values = [value for _, value in table]
        if self.about == "individual":
            return refined_law(self, dict(table).get(self.what), neighbors)
        if self.what == "count":
            return refined_law(self, len(table), neighbors)
        return refined_law(
            self, max(values, key=values.count if self.what == "mode" else None, default=None), neighbors
        )

    def charge(self, neighbors: NeighborRelation, at: int) -> Charge:
        reach = 2 if neighbors == "replace-one" else 1
        part = SubAccount("individual", self.what, reach) if self.about == "individual" else None
        spend = PrivacyCost(self.epsilon, self.epsilon**2 / 2)
        return Charge("t", "s", "eve", f"{at} {self.what}", self.what, "dp", spend, self.epsilon, part)


@cache
def refined_law(asked: Refined, truth: int | None, neighbors: NeighborRelation) -> dict[object, Fraction]:
    mechanism = Refinement.of(asked.prior, asked.epsilon, asked.about, neighbors, asked.distance)
    return dict(mechanism.distribution(truth).law())


@cache
def persons(neighbors: NeighborRelation) -> list[tuple[Persons, Persons]]:
    """All pairs of neighbours: up to two people with values 0, 1 or 2; one comes, goes, or is replaced by anyone."""
    tables_of_persons: list[Persons] = [()]
    for who in PEOPLE:
        tables_of_persons += [(*table, (who, value)) for table in tables_of_persons for value in range(3)]
    pairs = []
    for one, two in product(tables_of_persons, tables_of_persons):
        size = max(len(one), len(two)) - len(set(one) & set(two))
        alike = len(one) == len(two) if neighbors == "replace-one" else abs(len(one) - len(two)) == 1
        if alike and size == 1:
            pairs.append((one, two))
    return pairs


REFUSED: dict[object, Fraction] = {"refused": Fraction(1)}
Decide = Callable[[NeighborRelation, Sequence[Refined]], list[bool]]


def by_the_ledger(folder: Path) -> Decide:
    """The ledger's own rule, on a new ledger each time."""
    numbers = iter(range(10**6))

    def decide(neighbors: NeighborRelation, asked: Sequence[Refined]) -> list[bool]:
        with Ledger.open(folder / f"{next(numbers)}.db") as ledger:
            ledger.register("t", "t", "s", disjoint=False)
            return [_affords(ledger, one.charge(neighbors, at)) for at, one in enumerate(asked)]

    return decide


def _affords(ledger: Ledger, charge: Charge) -> bool:
    try:
        ledger.charge(charge, Caps(Budget(BUDGET), Budget(BUDGET), ("dp",)))
    except BudgetExceeded:
        return False
    return True


def by_the_largest(_: NeighborRelation, asked: Sequence[Refined]) -> list[bool]:
    """A wrong rule: each epsilon against the budget by itself."""
    return [one.epsilon <= BUDGET for one in asked]


Strategy = tuple[Refined, Callable[[object], Refined]]
FLAT, SKEWED = Prior.uniform(0, 2), Prior.weights({0: 1, 1: 5, 2: 2})
LONELY = Prior.weights({0: 1000, 2: 1})
HALF = Fraction(1, 2)
STRATEGIES: tuple[Strategy, ...] = (
    (Refined("max", FLAT, HALF), lambda y: Refined("count", SKEWED, HALF) if y else Refined("max", LONELY, HALF)),
    (Refined("max", SKEWED, HALF, "nominal"), lambda y: Refined("mode", FLAT, HALF if y == 1 else 2 * HALF)),
    (
        Refined("ann", LONELY, HALF),
        lambda y: Refined("ann", FLAT, HALF, "nominal") if y else Refined("max", FLAT, HALF),
    ),
    (Refined("ann", FLAT, BUDGET), lambda y: Refined("bob", SKEWED, BUDGET if y == 2 else HALF)),
    (Refined("count", FLAT, Fraction(3, 2)), lambda _: Refined("max", FLAT, BUDGET)),
    (Refined("count", FLAT, Fraction(1, 3)), lambda y: Refined("bob", FLAT, Fraction(1, 3 if y else 1))),
)


def transcripts(
    table: Persons, neighbors: NeighborRelation, strategy: Strategy, decide: dict[object, list[bool]]
) -> dict[tuple[object, object], Fraction]:
    """The exact law of first answer and second, refusals among them."""
    first, then = strategy
    law: dict[tuple[object, object], Fraction] = {}
    ones = first.law(table, neighbors) if decide[None][0] else REFUSED
    for one, chance in ones.items():
        twos = then(one).law(table, neighbors) if decide[one][1] else REFUSED
        law |= {(one, two): chance * second_chance for two, second_chance in twos.items()}
    return law


def worst_ratio(neighbors: NeighborRelation, strategy: Strategy, rule: Decide) -> Fraction:
    """The largest P(transcript | D) / P(transcript | D'), an exact rational."""
    first, then = strategy
    decided: dict[object, list[bool]] = {None: rule(neighbors, [first])}
    outputs = first.prior.support if decided[None][0] else ("refused",)
    decided |= {one: rule(neighbors, [first, then(one)]) for one in outputs}
    worst = Fraction(0)
    for one, two in persons(neighbors):
        laws = [transcripts(table, neighbors, strategy, decided) for table in (one, two)]
        assert sum(laws[0].values()) == 1
        assert laws[0].keys() == laws[1].keys()
        worst = max(worst, *(laws[0][key] / laws[1][key] for key in laws[0]))
    return worst


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_protocol_2_keeps_its_promise_on_every_transcript(
    neighbors: NeighborRelation, strategy: Strategy, tmp_path: Path
) -> None:
    """At most e^epsilon, by a bound from below of 200 bits, whatever priors, distances and epsilons are chosen."""
    assert 1 < worst_ratio(neighbors, strategy, by_the_ledger(tmp_path)) <= exp_below(BUDGET, bits=200)


def test_protocol_2_spends_all_of_its_budget_and_refuses(tmp_path: Path) -> None:
    """Some strategy comes within a thousandth of e^epsilon; some meet a refusal, after an answer or at once."""
    rule = by_the_ledger(tmp_path)
    worst = max(worst_ratio("replace-one", strategy, rule) for strategy in STRATEGIES)
    assert worst > exp_below(BUDGET) * Fraction(999, 1000)
    assert rule("add-remove", [STRATEGIES[1][0], STRATEGIES[1][1](0)]) == [True, False]
    assert rule("add-remove", [STRATEGIES[4][0], STRATEGIES[4][1](0)]) == [False, True]
    two_people = [Refined("ann", FLAT, BUDGET), Refined("bob", FLAT, BUDGET)]
    assert rule("add-remove", two_people) == [True, True]
    assert rule("replace-one", two_people) == [True, False]


def test_a_wrong_rule_of_protocol_2_is_caught() -> None:
    """The test can fail: the largest epsilon in place of the sum."""
    twice = Refined("max", FLAT, BUDGET), lambda _: Refined("max", SKEWED, BUDGET)
    assert worst_ratio("add-remove", twice, by_the_largest) > exp_below(BUDGET, bits=200) ** 2 * Fraction(9, 10)
