"""Real losses against claims: the law of every output from the output itself, through every way to hand in a question.

Nothing here uses the package's own account of what a mechanism costs. `losses` decides all draws, reads off the output
which law it has on a table and on a neighbour, and computes the loss with formulas of its own; `plans` makes up data
sets, neighbours and questions. A plan passes if the loss is within the label of the reply and the charge in the ledger,
if the replies are the same where the same was drawn, and if what is refused is refused alike and before any charge.

Ways: SQL text, a `Query` as it was read and one with a field changed, the command, HTTP, the
client, the console's form, sessions of several questions, and files. The soak prints how many plans went through each;
`DISCREET_PLANS` sets how many are tried; about two in three are answered.

A preview is of every question that was handed in one by one; it may read no row, and is not counted as a plan.

The formulas are compared with the samplers themselves: coins by their thresholds, found by bisection on the bits that a
sampler is given, and small choices bit by bit, both certain to 2^-56; the rest by counting draws of seeded bits.
"""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from scipy.stats import beta

import discreet.custodian.custodian as custodian_module
from discreet.custodian.validation import build_plan_charge
from discreet.errors import InvalidInput
from discreet.measurements.additive import AdditiveNoise
from discreet.measurements.contribution_bounds import ContributionBounds
from discreet.measurements.threshold import Threshold
from discreet.mechanisms.box_staircase import BoxStaircase
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.exponential_mechanism import Exponential, Selection
from discreet.mechanisms.permute_and_flip import PermuteAndFlip
from discreet.mechanisms.polygon_staircase import PolygonStaircase
from discreet.mechanisms.quantile import _build_split_selection
from discreet.mechanisms.refinement import Refinement
from discreet.mechanisms.staircase import Staircase
from discreet.priors.prior import Prior
from discreet.query import parse_question
from discreet.query.query import Aggregate
from support.random_questions import Ask, Pair, TrialResults, ask_by_sql, change_query, open_pair, try_plan, try_plans
from support.real_losses import (
    Boxes,
    Corners,
    Gauss,
    Laplace,
    Profile,
    SeededEntropy,
    Stairs,
    compute_flip_logs,
    compute_weighted_logs,
    get_law,
)

PLANS = int(os.environ.get("DISCREET_PLANS", "3200"))
RARE = 1e-10


# Random plans.


def test_no_random_plan_loses_more_than_it_claims(tmp_path: Path) -> None:
    """A few plans through every way; all draws are decided by a seed."""
    tried = try_plans(tmp_path, seed=23, pairs=2, each=30, served=2)
    assert not tried.faults, "\n".join([*tried.faults, tried.format_table()])
    assert tried.ratio > 0.99, tried.format_table()


@pytest.mark.soak
def test_thousands_of_random_plans(tmp_path: Path) -> None:
    """The same, of many; which were answered, and by which mechanisms, is printed."""
    each = 40
    tried = try_plans(
        tmp_path, seed=int(os.environ.get("DISCREET_SEED", "2024")), pairs=PLANS // each, each=each, served=2
    )
    print(tried.format_table())
    assert not tried.faults, "\n".join([*tried.faults, tried.format_table()])
    assert tried.ratio > 0.99
    missing = [name for name in MECHANISMS if not any(name in mechanism for mechanism in tried.mechanisms)]
    assert not missing, missing


MECHANISMS = (
    "discrete Laplace",
    "discrete Gaussian",
    "staircase",
    "box staircase",
    "polygon staircase",
    "permute-and-flip on ranks",
    "permute-and-flip on counts",
    "exponential mechanism on ranks",
    "exponential mechanism on counts",
    "extreme by rank",
    "mean of ranks",
    "two bracketing quantiles",
    "refinement of your prior",
    "refinement of an even prior",
    "over a threshold",
    "local sensitivity",
    "levels weighted",
    "atoms",
    "public by the schema",
    "private-columns",
    "private-records",
    "private-linked",
)


# What the check must find.

COLUMNS = {
    "x": {"kind": "integer", "lower": 0, "upper": 9, "missing": 0},
    "sex": {"kind": "nominal", "categories": ["F", "M"], "missing": "F"},
    "city": {"kind": "nominal", "keys": "private"},
}
BUDGET = {"epsilon": 10**6, "delta": "0.01"}


def small(folder: Path, neighbors: str, **options: Any) -> AbstractContextManager[Pair]:
    """Three people, and a fourth who is at one end or at the other, or there or not."""
    schema = {"name": "t", "source": "t.csv", "neighbours": neighbors, "unit": {"column": "pid", "rows": 1}}
    schema |= {"budget": BUDGET, "models": ["dp", "approx-dp"], "individual_queries": True, "columns": COLUMNS}
    schema |= {"units": 4} if neighbors == "replace-one" else {}
    others = [{"pid": f"p{at}", "x": str(3 * at), "sex": "FMF"[at], "city": "Oslo"} for at in range(3)]
    low, high = (
        {"pid": "one", "x": x, "sex": sex, "city": city} for x, sex, city in (("0", "F", "Oslo"), ("9", "M", "Rome"))
    )
    tables = ([*others, low], [*others, high]) if neighbors == "replace-one" else (others, [*others, high])
    return open_pair(folder, schema | options, tables)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Pair]]:
    one, two = (tmp_path_factory.mktemp(name) for name in ("added", "replaced"))
    with small(one, "add-remove") as added, small(two, "replace-one") as replaced:
        yield {"add-remove": added, "replace-one": replaced}


def try_question(pair: Pair, sql: str, way: Callable[..., Any] = ask_by_sql, **options: Any) -> TrialResults:
    """One question on a pair."""
    results, ask = TrialResults(), Ask(sql, {"epsilon": "1"} | options)
    try_plan(pair, "SQL text", lambda side: way(side, ask), sql, results, seed=7)
    assert results.plans or results.faults, results
    return results


MANY = ", ".join(f"COUNT(*) FILTER (WHERE x > {end}) AS n{end}" for end in range(2, 9))
QUESTIONS: list[tuple[str, str, dict[str, str]]] = [
    ("add-remove", "SELECT COUNT(*) FROM t", {}),
    ("add-remove", "SELECT SUM(x) FROM t", {}),
    ("add-remove", "SELECT sex, AVG(x) FROM t GROUP BY sex", {}),
    ("add-remove", f"SELECT {MANY} FROM t", {"delta": "0.005"}),
    ("add-remove", "SELECT city, COUNT(DISTINCT pid) FROM t GROUP BY city", {"delta": "1e-3"}),
    ("add-remove", "SELECT x FROM t FOR UNIT 'one'", {}),
    ("replace-one", "SELECT sex, COUNT(*) FROM t GROUP BY sex", {}),
    ("replace-one", "SELECT VAR(x) FROM t WHERE sex = 'M'", {}),
    ("replace-one", "SELECT MEDIAN(x) FROM t WHERE sex = 'M'", {}),
    ("replace-one", "SELECT QUANTILE(x, 0.25, 0.5, 0.75) FROM t", {}),
    ("replace-one", "SELECT MODE(sex) FROM t", {}),
    ("replace-one", "SELECT x FROM t FOR UNIT 'one'", {"prior": "normal(4, 2)"}),
]


@pytest.mark.parametrize(("relation", "sql", "options"), QUESTIONS, ids=[f"{q[1][7:30]}-{q[0]}" for q in QUESTIONS])
def test_an_honest_mechanism_keeps_its_claim(
    pairs: dict[str, Pair], relation: str, sql: str, options: dict[str, str]
) -> None:
    assert try_question(pairs[relation], sql, **options).faults == []


def half_the_scale() -> Any:
    """Noise of half the scale that epsilon asks for."""
    return patch("discreet.measurements.additive.DiscreteLaplace", lambda loss, width: DiscreteLaplace(2 * loss, width))


def half_the_variance() -> Any:
    return patch(
        "discreet.measurements.additive.DiscreteGaussian", lambda square, *rest: DiscreteGaussian(square / 2, *rest)
    )


def one_draw_for_all_cells() -> Any:
    """The first cell's noise is every cell's."""

    def measure(self: Any, inputs: Any, entropy: Any) -> Any:
        noise = self.noise.sample_units(1, entropy)[0]
        return [tuple(x + int(n) for x, n in zip(row, noise, strict=True)) for row in inputs]

    return patch.object(AdditiveNoise, "measure", measure)


def no_noise_on_one_cell() -> Any:
    def measure(self: Any, inputs: Any, entropy: Any) -> Any:
        return [*real(self, inputs, entropy)[:-1], inputs[-1]]

    real = AdditiveNoise.measure
    return patch.object(AdditiveNoise, "measure", measure)


def one_side_of_a_replacement() -> Any:
    """A row that is replaced leaves one cell and is held to enter none."""
    return patch.object(ContributionBounds, "replace_factor", property(lambda _: 1))


@contextmanager
def half_the_spread_of_scores() -> Iterator[None]:
    _build_split_selection.cache_clear()
    with patch("discreet.mechanisms.quantile.Selection.of", _narrow):
        yield
    _build_split_selection.cache_clear()


_ready_selection = Selection.of


def _narrow(loss: object, width: Fraction, *args: Any) -> Selection:
    selection = _ready_selection(loss, width, *args)
    return replace(selection, spread=max(1, selection.spread // 2))


def one_side_of_a_refinement() -> Any:
    """A replaced person's value is held to have the prior as its only neighbour."""
    return patch.object(Refinement, "against_prior", property(lambda _: True))


def a_low_threshold() -> Any:
    real = Threshold.of

    def of(*args: Any) -> Threshold:
        threshold = real(*args)
        return replace(threshold, min_count=threshold.min_count - 2)

    return patch.object(Threshold, "of", of)


def scale_from_the_rows() -> Any:
    """The noise is as wide as the total asks for."""

    def measure(_: Any, inputs: Any, entropy: Any) -> Any:
        noise = DiscreteLaplace(1, max(1, *(abs(x) for row in inputs for x in row)))
        return [tuple(x + noise.sample_unit(entropy) for x in row) for row in inputs]

    return patch.object(AdditiveNoise, "measure", measure)


def half_the_charge() -> Any:
    def charge(planned: Any, *args: Any) -> Any:
        plan_charge = build_plan_charge(planned, *args)
        return replace(plan_charge, spend=replace(plan_charge.spend, epsilon=plan_charge.spend.epsilon / 2))

    return patch.object(custodian_module, "build_plan_charge", charge)


def rows_in_a_warning() -> Any:
    """The reply says how many rows the source has."""
    real = custodian_module.Custodian._make_outputs

    def draw(self: Any, planned: Any, receipt: Any) -> str:
        self._note = f"{self._source.count()} rows were read"
        return real(self, planned, receipt)

    return patch.object(custodian_module.Custodian, "_make_outputs", draw)


WRONG: list[tuple[Callable[[], Any], int, float, str]] = [
    (half_the_scale, 0, 2, "epsilon of the label"),
    (half_the_variance, 3, 2, "zCDP charged"),
    (half_the_variance, 3, 1.5, "delta of the label"),
    (one_draw_for_all_cells, 6, math.inf, "epsilon of the label"),
    (no_noise_on_one_cell, 2, math.inf, "epsilon of the label"),
    (one_side_of_a_replacement, 6, 2, "epsilon of the label"),
    (half_the_spread_of_scores, 9, 1.1, "epsilon of the label"),
    (one_side_of_a_refinement, 11, 1.9, "epsilon of the label"),
    (a_low_threshold, 4, 2, "delta of the label"),
    (a_low_threshold, 4, 2, "delta charged"),
    (scale_from_the_rows, 1, math.inf, "epsilon of the label"),
    (half_the_charge, 0, 2, "epsilon charged"),
]


@pytest.mark.parametrize(("wrong", "place", "least", "name"), WRONG, ids=[f"{w[0].__name__}-{w[3]}" for w in WRONG])
def test_a_wrong_mechanism_is_found(
    pairs: dict[str, Pair], wrong: Callable[[], Any], place: int, least: float, name: str
) -> None:
    relation, sql, options = QUESTIONS[place]
    with wrong():
        results = try_question(pairs[relation], sql, **options)
    assert results.faults
    assert results.worst[name] >= least * (1 - 1e-9), results.worst


def test_a_reply_that_tells_of_the_rows_is_found(tmp_path: Path) -> None:
    with small(tmp_path, "add-remove") as pair, rows_in_a_warning():
        results = try_question(pair, "SELECT COUNT(*) FROM t")
    assert [fault.partition(":")[0] for fault in results.faults] == ["the same was drawn, and the replies differ"]


def test_a_refusal_that_follows_the_rows_is_found(tmp_path: Path) -> None:
    def answer(side: Any, _: Ask) -> Any:
        raise InvalidInput(f"there are {side.custodian._source.count()} rows")

    with small(tmp_path, "add-remove") as pair:
        results = try_question(pair, "SELECT COUNT(*) FROM t", answer)
    assert results.faults[0].startswith("refusals or charges differ")


def test_a_value_that_no_text_leads_to_is_refused_or_keeps_its_claim(pairs: dict[str, Pair]) -> None:
    """A variance planned as if it were a count of one cell loses thousands of times what it claims."""
    pair, results = pairs["add-remove"], TrialResults()

    def ask_by_value_without_text(side: Any) -> list[dict[str, Any]]:
        question = parse_question("SELECT HISTOGRAM(x, 3) FROM t", side.custodian.schema)
        reply = side.custodian.answer(replace(question, aggregates=(Aggregate("var", "x"),)), epsilon=1)
        return [{"guarantee": reply.guarantee.to_json(), "mechanism": reply.mechanism}]

    try_plan(pair, "Query value", ask_by_value_without_text, "a variance in a histogram", results, seed=1)
    assert results.faults == []
    assert results.refused


def test_values_are_changed_in_every_field(pairs: dict[str, Pair]) -> None:
    """Those that are handed in changed: what the check tries is not what a text leads to."""
    schema = pairs["add-remove"].sides[0].custodian.schema
    start = parse_question("SELECT sex, COUNT(*) FROM t GROUP BY sex", schema)
    question, refused = [], 0
    for seed in range(200):
        try:
            question.append(change_query(start, schema, random.Random(seed)))
        except InvalidInput:  # a value that cannot be built cannot be handed in
            refused += 1
    for name in ("aggregates", "keys", "where", "nesting", "unit", "column", "presentation"):
        assert refused + sum(getattr(one, name) != getattr(start, name) for one in question) > 10, name


# The formulas against the samplers.


class Dial:
    """Bits of our choosing: coin by coin, each a number between 0 and 1; more bits of the same coin where it ties."""

    def __init__(self, coins: dict[int, int], turned: int, width: int) -> None:
        self.coins, self.turned, self.width = coins, turned, width
        self.at, self.used = -1, 0

    def take(self, count: int) -> bytes:
        """So many bytes of the coins that are thrown now; 8 more go on with the one that is turned, since it ties."""
        if count == 8 and self.width != 8 and self.at >= self.turned:
            self.used += 1
            left = PLACES - 8 * self.width - 64 * self.used
            return (self.coins[self.turned] >> left & (2**64 - 1)).to_bytes(8, "big")
        taken = b""
        for _ in range(count // self.width):
            self.at += 1
            taken += (self.coins.get(self.at, TAILS) >> (PLACES - 8 * self.width)).to_bytes(self.width, "little")
        return taken


PLACES = 16 + 3 * 64
HEADS, TAILS = 0, 2**PLACES - 1
NO_TIE = 0x5555555555555555
"""So little that no chance is moved by it, and a number that is no chance of ours."""


def threshold(falls: Callable[[int], bool]) -> Fraction:
    """The chance of heads: where a coin turns from heads to tails, to 56 binary digits."""
    low, high = 0, 2**PLACES
    while high - low > 2 ** (PLACES - 56):
        middle = (low + high) // 2
        low, high = (middle, high) if falls(middle + NO_TIE) else (low, middle)
    return Fraction(low, 2**PLACES)


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(2), Fraction(7, 10)])
@pytest.mark.parametrize("together", [True, False])
def test_the_coins_of_discrete_laplace_noise_make_the_law_of_the_formula(rate: Fraction, together: bool) -> None:
    """Every coin's chance from the output alone, and the law that follows from them."""
    noise, width = DiscreteLaplace(rate, 1), 2 if together else 8
    digits = len(law_coins(noise))

    def sample_outputs(coins: dict[int, int], turned: int, to: int) -> int:
        dial = Dial(coins | {turned: to}, turned, width)
        return int(noise.sample_units(1, dial)[0]) if together else int(noise.sample_unit(dial))

    sign, nonzero = digits + 1, digits + 2
    shown = {sign: HEADS, nonzero: HEADS}
    chances = [threshold(lambda u, at=at: sample_outputs(shown, at, u) == 1 + 2**at) for at in range(digits)]
    some = threshold(lambda u: sample_outputs(shown, nonzero, u) == 1)
    assert float(threshold(lambda u: sample_outputs(shown, sign, u) > 0)) == pytest.approx(1 / 2, rel=1e-15)
    law = get_law(noise)
    points = np.arange(0, 20)
    for size in points[1:]:
        bits = [(chance if size - 1 >> at & 1 else 1 - chance) for at, chance in enumerate(chances)]
        assert float(some / 2 * math.prod(bits)) == pytest.approx(math.exp(law.logs(points)[size]), rel=1e-9)
    assert float(1 - some) == pytest.approx(math.exp(law.logs(points)[0]), rel=1e-12)


def law_coins(noise: DiscreteLaplace) -> list[int]:
    """How many coins a draw throws for the digits of its size: as many as change it."""
    return list(range(next(n for n in range(64) if noise.rate * 2**n >= 48)))


@pytest.mark.parametrize("levels", [(0, 1, 2, 5), (0, 3), (0, 7, 2)])
def test_the_coins_of_permute_and_flip_make_the_law_of_the_formula(levels: tuple[int, ...]) -> None:
    """Every candidate's coin from the output alone: heads with all others tails, and it is chosen of two."""
    choice = PermuteAndFlip.of(Fraction(3, 4), 1)
    level_array = np.array(levels)

    class Last(Dial):
        def take(self, count: int) -> bytes:
            return b"\xff" if count == 1 else super().take(count)

    def sample_outputs(turned: int, to: int) -> int:
        return choice.sample_position(level_array, Last({turned: to}, turned, 2))

    chances = []
    for at, level in enumerate(levels):
        chances.append(Fraction(1) if not level else threshold(lambda u, at=at: sample_outputs(at, u) == at))
    law = [Fraction(0)] * len(levels)
    for heads in range(2 ** len(levels)):
        shown = [at for at in range(len(levels)) if heads >> at & 1]
        p = math.prod((c if at in shown else 1 - c) for at, c in enumerate(chances))
        for at in shown:
            law[at] += p / len(shown)
    assert np.exp(compute_flip_logs(level_array, choice.selection.ratio)) == pytest.approx(
        [float(p) for p in law], rel=1e-12
    )


def steps(sample_outputs: Callable[[int], int], words: int) -> dict[int, int]:
    """How many words lead to each outcome, for outcomes that rise or fall with the word: ends found by bisection."""
    ends: Counter[int] = Counter()

    def between(low: int, high: int) -> None:
        if sample_outputs(low) == sample_outputs(high - 1):
            ends[sample_outputs(low)] += high - low
        else:
            middle = (low + high) // 2
            between(low, middle)
            between(middle, high)

    between(0, words)
    return ends


class Words:
    """Two whole numbers, given out one after the other; a third is asked for where one was too large."""

    def __init__(self, *words: int) -> None:
        self.words, self.sizes = list(words), []

    def take(self, count: int) -> bytes:
        self.sizes.append(count)
        if not self.words:
            raise Again
        return self.words.pop(0).to_bytes(count, "big")


class Again(Exception):
    """The draw begins again."""


@pytest.mark.parametrize("truth", [0, 3, 7])
def test_a_refinement_bit_by_bit(truth: int) -> None:
    """The block is chosen by one whole number and the outcome in it by another: every word is accounted for."""
    law = Refinement.of(Prior.uniform(0, 7), 1).distribution(truth)

    def sample_outputs(first: int, second: int) -> int:
        try:
            return law.sample_position(Words(first, second))
        except Again:
            return -1

    sizes = Words(0, 0)
    law.sample_position(sizes)
    words = [2 ** (8 * size) for size in sizes.sizes]
    blocks = steps(lambda word: sample_outputs(word, 0), words[0])
    accepted = sum(count for outcome, count in blocks.items() if outcome >= 0)
    chances: dict[int, Fraction] = {}
    for outcome, count in blocks.items():
        if outcome < 0:
            continue
        start = next(word for word in _starts(sample_outputs, words[0], outcome))
        size = Words(start, 0)
        law.sample_position(size)
        if len(size.sizes) == 1:  # the block has one outcome
            chances[outcome] = Fraction(count, accepted)
            continue
        inside = steps(lambda word, start=start: sample_outputs(start, word), 2 ** (8 * size.sizes[1]))
        whole = sum(mass for each, mass in inside.items() if each >= 0)
        for each, mass in inside.items():
            if each >= 0:
                chances[each] = Fraction(count, accepted) * Fraction(mass, whole)
    masses = [float(chances[at]) for at in range(8)]
    assert np.exp(compute_weighted_logs(law)) == pytest.approx(masses, rel=1e-12)


def _starts(sample_outputs: Callable[[int, int], int], words: int, outcome: int) -> Iterator[int]:
    """A word that leads to the block of an outcome: some parts of the range are tried, finer and finer."""
    parts = 2
    while True:
        yield from (at for at in (words * part // parts for part in range(parts)) if sample_outputs(at, 0) == outcome)
        parts *= 2


def assert_drawn_as_often(draws: np.ndarray, chances: dict[Any, float]) -> None:
    """Every outcome is drawn as often as its chance says: Clopper-Pearson, at RARE for each.

    The bits are seeded, so that the test passes or fails for good.
    """
    counts, total = Counter(map(tuple, draws.reshape(len(draws), -1).tolist())), len(draws)
    for point, chance in chances.items():
        count = counts[point if isinstance(point, tuple) else (point,)]
        low = beta.ppf(RARE, count, total - count + 1) if count else 0.0
        high = beta.ppf(1 - RARE, count + 1, total - count) if count < total else 1.0
        assert low <= chance <= high, (point, chance, count / total)


NOISES = [
    DiscreteLaplace(Fraction(1, 2), 3),
    DiscreteGaussian(Fraction(29, 4), 1, Fraction(1)),
    Staircase.least_variance(1, 5),
    Staircase(2, 4, Fraction(7, 3)),
]


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_draws_have_the_law_of_the_formula(noise: Any) -> None:
    points = np.arange(-12, 13)
    chances = dict(zip(points.tolist(), np.exp(get_law(noise).logs(points)).tolist(), strict=True))
    assert_drawn_as_often(noise.sample_units(60_000, SeededEntropy(b"noise")), chances)


@pytest.mark.parametrize(
    "noise",
    [BoxStaircase(1, (2, 3)), PolygonStaircase(1, ((4, 0), (2, 1), (-2, 1), (-4, 0), (-2, -1), (2, -1)))],
    ids=["box", "polygon"],
)
def test_draws_of_two_numbers_have_the_law_of_the_formula(noise: Any) -> None:
    law = get_law(noise)
    assert isinstance(law, Boxes | Corners)
    heights = {(x, y): float(law.fall) ** law.level((x, y)) for x in range(-60, 61) for y in range(-60, 61)}
    mass = sum(heights.values())
    near = {point: height / mass for point, height in heights.items() if max(map(abs, point)) <= 5}
    assert_drawn_as_often(noise.sample_units(60_000, SeededEntropy(b"pairs")), near)


def test_draws_of_the_exponential_mechanism_have_the_law_of_the_formula() -> None:
    law = Exponential.of(1, 1, Prior.weights({0: 1, 1: 2, 2: 3})).distribution([0, 2, 1])
    bits = SeededEntropy(b"choices")
    draws = np.array([law.sample_position(bits) for _ in range(20_000)])
    assert_drawn_as_often(draws, dict(enumerate(np.exp(compute_weighted_logs(law)).tolist())))


# The formulas against plain sums.


def brute(heights: Callable[[tuple[int, ...]], float], move: tuple[int, ...], reach: int) -> float:
    """The largest log ratio over a window."""
    grid = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * len(move)), axis=-1).reshape(-1, len(move))
    return max(abs(heights(tuple(p)) - heights(tuple(p + np.array(move)))) for p in grid)


@pytest.mark.parametrize("move", [(1, 0), (2, 3), (-5, 1), (0, 4)])
def test_the_loss_of_a_box_is_the_largest_of_all_ratios(move: tuple[int, int]) -> None:
    law = get_law(BoxStaircase(1, (2, 3)))
    assert isinstance(law, Boxes)
    rate = -math.log(law.fall)
    assert law.pure(move) == pytest.approx(brute(lambda p: rate * law.level(p), move, 9))


@pytest.mark.parametrize("move", [(4, 0), (1, 1), (2, -1), (6, 1)])
def test_the_loss_of_a_polygon_is_the_largest_of_all_ratios(move: tuple[int, int]) -> None:
    law = get_law(PolygonStaircase(1, ((4, 0), (2, 1), (-2, 1), (-4, 0), (-2, -1), (2, -1))))
    assert isinstance(law, Corners)
    rate = -math.log(law.fall)
    assert brute(lambda p: rate * law.level(p), move, 14) <= law.pure(move) * (1 + 1e-12)


@pytest.mark.parametrize(
    "law", [Laplace(Fraction(1, 3)), Gauss(Fraction(29, 4)), Stairs(5, 2, Fraction(1, 3), Fraction(3, 8))]
)
@pytest.mark.parametrize("move", [1, 4, 13])
def test_profiles_are_those_of_the_masses(law: Any, move: int) -> None:
    """Losses, Renyi divergences and deltas of a moved law, from its masses over a wide window."""
    points = np.arange(-400, 401)
    plain = Profile.of(law.logs(points), law.logs(points - move))
    profile = law.profile([move])
    assert plain.mass.sum() == pytest.approx(1, abs=1e-9)
    if not isinstance(law, Gauss):
        assert law.pure([move]) == pytest.approx(plain.pure)
    else:
        assert law.rho(move) == pytest.approx(float(plain.renyi()[20] / own_order(20)), rel=1e-6)
    for epsilon in (0.0, 0.3, 1.0):
        assert profile.beyond(epsilon) >= plain.beyond(epsilon) - 1e-9
        if not isinstance(law, Stairs):  # of stairs the worst law is taken that loses as much
            assert profile.beyond(epsilon) == pytest.approx(plain.beyond(epsilon), abs=1e-9)


def own_order(at: int) -> float:
    from support.real_losses import ORDERS

    return float(ORDERS[at])


def test_a_product_of_profiles_is_that_of_all_pairs() -> None:
    one, two = Laplace(Fraction(1, 3)).profile([4]), Gauss(Fraction(9)).profile([2])
    both = one * two
    for epsilon in (0.1, 1.0, 1.7):
        pairs = [
            max(0.0, p * q * -math.expm1(epsilon - x - y))
            for x, p in zip(one.loss, one.mass, strict=True)
            for y, q in zip(two.loss, two.mass, strict=True)
        ]
        assert both.beyond(epsilon) == pytest.approx(sum(pairs), rel=1e-9)
