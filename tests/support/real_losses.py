"""Real privacy losses of what was released, from the laws of its output: our own formulas, not the package's account.

`recording()` puts stand-ins for the samplers of the kernel. What is drawn is then decided here, and the custodian runs
as it always does: rows are read, noise is "drawn", numbers are stored and told. From runs of that kind the law of the
numbers follows, as anyone could find it who sees the output and decides the coins:

- a number that moves with a draw of noise, one for one, is its place where all noise is 0, plus that noise. Every draw
  is given a power of a huge number, so each output says which draws are in it, and how often;
- a draw that is in two numbers is one draw: what the two have apart is then told exactly, and the loss is infinite
  where it differs between two tables;
- a choice has the law that follows from what the sampler is handed; where later choices follow from earlier ones, ways
  in which both tables come out alike are followed;
- a key that is not public is shown from some least noise on, which is found by bisection.

Of two tables the laws are then compared: the largest log ratio, what exceeds a stated epsilon, the Renyi divergences.
The test module says which mechanisms are compared with their own samplers, driven bit by bit.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, reduce
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.measure import measure_plan as draw_in_earnest
from discreet.mechanisms.box_staircase import BoxStaircase
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.distribution import Distribution, RationalFactors
from discreet.mechanisms.permute_and_flip import PermuteAndFlip
from discreet.mechanisms.polygon_staircase import PolygonStaircase
from discreet.mechanisms.staircase import Staircase
from discreet.planner.plan import NoisyResult
from discreet.synthetic import column_methods, marginals
from discreet.synthetic.records import RecordsPlan

Floats = NDArray[np.float64]
HUGE = 1 << 160
"""Farther than any total: the noise of draw k is HUGE^(k + 1) where draws are told apart."""
ORDERS = np.concatenate(([1 + 1e-6], 1 + np.geomspace(1e-3, 1e4, 60)))
"""Of Renyi divergences."""
GRID = 2**15
"""So many steps has a grid on which losses are added; they are rounded down."""


# What two laws lose against each other.


@dataclass(frozen=True)
class Profile:
    """Losses ln P/Q of the outcomes with their masses under P, and the mass that Q holds impossible."""

    loss: Floats
    mass: Floats
    lost: float = 0.0

    @staticmethod
    def of(draw_one: Floats, two: Floats) -> Profile:
        """Two laws by the logarithms of their masses, outcome by outcome."""
        is_possible = draw_one > -np.inf
        is_lost = is_possible & (two == -np.inf)
        is_shared = is_possible & ~is_lost
        return Profile(
            draw_one[is_shared] - two[is_shared], np.exp(draw_one[is_shared]), float(np.exp(draw_one[is_lost]).sum())
        )

    @property
    def pure(self) -> float:
        """The largest loss."""
        return math.inf if self.lost else float(self.loss.max(initial=0.0))

    def renyi(self) -> Floats:
        """The divergences at all orders."""
        if self.lost:
            return np.full(len(ORDERS), math.inf)
        rising = np.outer(ORDERS - 1, self.loss) + np.log(np.maximum(self.mass, 1e-300))
        top = rising.max(axis=1)
        return (top + np.log(np.exp(rising - top[:, None]).sum(axis=1))) / (ORDERS - 1)

    @property
    def rho(self) -> float:
        """The least rho for all orders; where that is too small for floats, what bounded losses have at most.

        Losses of at most e are e^2 / 2 of zCDP (Bun and Steinke 2016), and those in an interval of length r are r^2 / 8
        (by Hoeffding's lemma).
        """
        if self.lost:
            return math.inf
        both = float(np.abs(self.loss).max(initial=0.0)) ** 2 / 2, float(np.ptp(self.loss)) ** 2 / 8
        return min(float((self.renyi() / ORDERS).max()), *both)

    def beyond(self, epsilon: float) -> float:
        """The hockey-stick divergence: the least delta at this epsilon."""
        over = self.loss > epsilon
        return self.lost + float((self.mass[over] * -np.expm1(epsilon - self.loss[over])).sum())

    def __mul__(self, other: Profile) -> Profile:
        """Independent outcomes side by side."""
        lost = self.lost + other.lost - self.lost * other.lost
        if len(self.loss) * len(other.loss) <= 2_000_000:
            loss = np.add.outer(self.loss, other.loss).ravel()
            return Profile(loss, np.outer(self.mass, other.mass).ravel(), lost)
        return _add_on_one_grid(self, other, lost)

    def thinned(self) -> Profile:
        """The same with fewer outcomes: rare ones left out, losses rounded down; no more is found than there is."""
        if len(self.loss) <= 5000:
            return self
        is_likely = self.mass > 1e-18
        loss, mass = self.loss[is_likely], self.mass[is_likely]
        step = float(np.ptp(loss)) / GRID or 1.0
        places = np.floor(loss / step).astype(np.int64)
        first = int(places.min())
        masses = np.bincount(places - first, weights=mass)
        occupied = np.flatnonzero(masses)
        return Profile((first + occupied) * step, masses[occupied], self.lost)


NOTHING = Profile(np.zeros(1), np.ones(1))


def _add_on_one_grid(draw_one: Profile, two: Profile, lost: float) -> Profile:
    """Losses added on a grid, rounded down."""
    step = sum(float(np.ptp(each.loss)) for each in (draw_one, two)) / GRID
    places = [np.floor(each.loss / step).astype(np.int64) for each in (draw_one, two)]
    first = [int(each.min()) for each in places]
    size = 2 ** (GRID + 4).bit_length()
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    for each, places_of_one, start in zip((draw_one, two), places, first, strict=True):
        product *= np.fft.rfft(np.bincount(places_of_one - start, weights=each.mass), size)
    mass = np.fft.irfft(product, size)
    occupied = np.flatnonzero(mass > 1e-16)
    return Profile((sum(first) + occupied) * step, mass[occupied], lost)


# The laws of noise, by formulas of our own.


@dataclass(frozen=True)
class Laplace:
    """P(k) in proportion to exp(-rate |k|)."""

    rate: Fraction

    def pure(self, move: Sequence[int]) -> float:
        return float(self.rate * abs(move[0]))

    def logs(self, points: NDArray[np.int64]) -> Floats:
        rate = float(self.rate)
        return math.log(math.tanh(rate / 2)) - rate * np.abs(points)

    def below(self, least: int) -> float:
        """ln P(N < least)."""
        rate = float(self.rate)
        above = -math.log1p(math.exp(-rate)) - rate * (least if least > 0 else 1 - least)
        return math.log1p(-math.exp(above)) if least > 0 else above

    def at_least(self, least: int) -> float:
        """ln P(N >= least)."""
        return self.below(1 - least)

    def profile(self, move: Sequence[int]) -> Profile:
        """Left of both centres and right of both the loss is the same; between them it falls from one to the other."""
        far, rate = abs(move[0]), float(self.rate)
        inner = np.arange(1, far) if far <= 200_000 else np.unique(np.geomspace(1, far - 1, 100_000).astype(np.int64))
        sure = -math.log1p(math.exp(-rate))
        ends = np.append(inner, far)
        logs = math.log(math.tanh(rate / 2)) if rate else 0.0
        width = -np.expm1(-rate * np.diff(ends)) / -math.expm1(-rate) if len(inner) else np.zeros(0)
        loss = np.concatenate(([rate * far], rate * (far - 2 * (ends[1:] - 1)), [-rate * far]))
        mass = np.concatenate(([math.exp(sure)], np.exp(logs - rate * inner) * width, [math.exp(sure - rate * far)]))
        return Profile(loss, mass)


@dataclass(frozen=True)
class Gauss:
    """P(k) in proportion to exp(-k^2 / (2 square))."""

    square: Fraction

    def pure(self, move: Sequence[int]) -> float:
        return math.inf if move[0] else 0.0

    def rho(self, move: int) -> float:
        """The Renyi divergence of order a is a move^2 / (2 square), for whole moves: both are sums over one grid."""
        return float(Fraction(move**2) / (2 * self.square))

    def logs(self, points: NDArray[np.int64]) -> Floats:
        square = float(self.square)
        reach = math.ceil(40 * math.sqrt(square)) + 2
        mass = float(np.exp(-(np.arange(-reach, reach + 1, dtype=float) ** 2) / (2 * square)).sum())
        return -(points.astype(float) ** 2) / (2 * square) - math.log(mass)

    def profile(self, move: Sequence[int]) -> Profile:
        reach = math.ceil(14 * math.sqrt(self.square)) + abs(move[0]) + 2
        points = np.arange(-reach, reach + 1)
        logs_of_one = self.logs(points)
        far = abs(move[0])
        loss = (far**2 - 2 * far * points) / (2 * float(self.square))
        return Profile(loss.astype(float), np.exp(logs_of_one))


@dataclass(frozen=True)
class Stairs:
    """P(k) in proportion to fall^level, level 0 for |k| < points, each later one `units` wide; a part one wider."""

    units: int
    points: int
    part: Fraction
    fall: Fraction

    def heights(self, points: NDArray[np.int64]) -> Floats:
        """ln of what P(k) is in proportion to."""
        rate = -_compute_log(self.fall)
        log_chances = []
        for core, share in ((self.points, 1 - self.part), (self.points + 1, self.part)):
            level = np.where(np.abs(points) < core, 0, 1 + (np.abs(points) - core) // self.units)
            log_chances.append((_compute_log(share) if share else -np.inf) - rate * level)
        return np.logaddexp(*log_chances)

    def window(self, move: int) -> NDArray[np.int64]:
        """Far enough: from there on every level is as those before it, but lower."""
        reach = self.points + 3 * self.units + 2 * abs(move) + 2
        if reach <= 400_000:
            return np.arange(-reach, reach + 1)
        ends = [self.points + level * self.units for level in range(4 + abs(move) // self.units)]
        near = [sign * end + shift + extra for sign in (1, -1) for end in ends for shift in (0, move, -move)
                for extra in range(-3, 4)]  # fmt: skip
        return np.unique(np.array([*near, *(move - draw_one for draw_one in near)]))

    def pure(self, move: Sequence[int]) -> float:
        if not move[0]:
            return 0.0
        points = self.window(move[0])
        return float(np.abs(self.heights(points) - self.heights(points + move[0])).max())

    def logs(self, points: NDArray[np.int64]) -> Floats:
        fall = float(self.fall)
        near, far = (2 * core - 1 + 2 * self.units * fall / (1 - fall) for core in (self.points, self.points + 1))
        part = float(self.part)
        return self.heights(points) - math.log((1 - part) * near + part * far)

    def profile(self, move: Sequence[int]) -> Profile:
        return _build_worst_profile(self.pure(move))


@dataclass(frozen=True)
class Boxes:
    """P(x) in proportion to fall^level, the level of the first of ever larger boxes that holds x."""

    reaches: tuple[int, ...]
    widths: tuple[int, ...]
    fall: Fraction

    def level(self, point: Sequence[int]) -> int:
        sides = zip(point, self.reaches, self.widths, strict=True)
        return max(max(0, -((reach - abs(x)) // width)) for x, reach, width in sides)

    def pure(self, move: Sequence[int]) -> float:
        """All but one number at the centre, that one at the edge of the first box, or of the one it leads to."""
        worst = 0
        for at, (step, reach) in enumerate(zip(move, self.reaches, strict=True)):
            for start in (reach, -reach, 0, -step, reach - step, -reach - step):
                point = [0] * len(move)
                point[at] = start
                there = [x + y for x, y in zip(point, move, strict=True)]
                alone = [0] * len(move)
                alone[at] = start + step
                worst = max(
                    worst, abs(self.level(there) - self.level(point)), abs(self.level(alone) - self.level(point))
                )
        return -_compute_log(self.fall) * worst

    def profile(self, move: Sequence[int]) -> Profile:
        return _build_worst_profile(self.pure(move))


@dataclass(frozen=True)
class Corners:
    """P(x) in proportion to fall^level, the level by how far a polygon must be stretched to reach x."""

    vertices: tuple[tuple[int, int], ...]
    core: Fraction
    fall: Fraction

    def stretch(self, point: Sequence[int]) -> Fraction:
        """Of the triangles from 0 to two neighbouring corners one holds the point: its two shares add up to this."""
        ring = self.vertices
        for (ax, ay), (bx, by) in zip(ring, ring[1:] + ring[:1], strict=True):
            whole = ax * by - ay * bx
            draw_one, two = (
                Fraction(point[0] * by - point[1] * bx, whole),
                Fraction(ax * point[1] - ay * point[0], whole),
            )
            if draw_one >= 0 and two >= 0:
                return draw_one + two
        raise AssertionError("a polygon round 0 reaches every point")

    def level(self, point: Sequence[int]) -> int:
        return max(0, math.ceil(self.stretch(point) - self.core))

    def pure(self, move: Sequence[int]) -> float:
        return -_compute_log(self.fall) * math.ceil(self.stretch(move)) if any(move) else 0.0

    def profile(self, move: Sequence[int]) -> Profile:
        return _build_worst_profile(self.pure(move))


Law = Laplace | Gauss | Stairs | Boxes | Corners


def _build_worst_profile(loss: float) -> Profile:
    """The worst law that never loses more: Renyi divergences of any other such law are at most its own."""
    high = -math.log1p(math.exp(-loss))
    return Profile(np.array([loss, -loss]), np.array([math.exp(high), math.exp(high - loss)]))


def get_law(noise: Any) -> Law:
    """The law that a noise of the kernel says it draws from, by its parameters."""
    match noise:
        case DiscreteLaplace():
            return Laplace(noise.rate)
        case DiscreteGaussian():
            return Gauss(noise.square)
        case Staircase():
            return Stairs(noise.units, noise.points, noise.part, noise.fall)
        case BoxStaircase():
            return Boxes(noise.boxes.half_widths, noise.boxes.widths, noise.boxes.fall)
        case PolygonStaircase():
            return Corners(noise.polygon.vertices, noise.core, noise.fall)
    raise AssertionError(f"no formula for {type(noise).__name__}")


def compute_flip_logs(levels: NDArray[np.int64], ratio: Fraction) -> Floats:
    """Permute-and-flip, ln P: p_c times the integral over t in [0, 1] of the product over others of 1 - p + p t.

    One of the heads is taken evenly, so the mean of 1/(1 + heads) counts: that integral, exact by Gauss-Legendre nodes.
    """
    return _compute_flip_logs(levels.astype(np.int64).tobytes(), ratio)


@lru_cache(maxsize=4096)
def _compute_flip_logs(level_bytes: bytes, ratio: Fraction) -> Floats:
    levels = np.frombuffer(level_bytes, dtype=np.int64)
    logs = levels * _compute_log(ratio)
    chances = np.exp(logs)
    nodes, weights = _compute_nodes(len(levels) // 2 + 1)
    spread = (nodes + 1) / 2
    factors = np.log1p(np.outer(spread - 1, chances) + 1e-300)
    others = factors.sum(axis=1)[:, None] - factors
    top = others.max(axis=0)
    return logs + top + np.log((np.exp(others - top) * (weights / 2)[:, None]).sum(axis=0))


@lru_cache(maxsize=512)
def _compute_nodes(count: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights


def compute_weighted_logs(law: Distribution) -> Floats:
    """A weight for every outcome times a factor of its block, ln P."""
    if isinstance(law.factors, RationalFactors):
        factors = np.array([_compute_log(draw_one) if draw_one else -np.inf for draw_one in law.factors.values])
    else:
        factors = np.array(law.factors.levels, dtype=float) * _compute_log(law.factors.ratio)
    logs = np.log(law.prior.mass.astype(float)) + factors[law.blocks]
    top = float(logs.max())
    return logs - top - math.log(float(np.exp(logs - top).sum()))


def _compute_log(number: Fraction) -> float:
    """To the last digits also near 1."""
    near = number - 1
    return math.log1p(float(near)) if abs(near) < Fraction(1, 2) else math.log(number)


# What the stand-ins say, and what they were asked.


@dataclass(frozen=True)
class NoiseDraw:
    """A draw of noise: so many rows of so many numbers of a law; the number of the first."""

    law: Law
    rows: int
    width: int
    first: int


@dataclass
class Script:
    """Decides every draw of one run, and keeps what was asked."""

    noise: Callable[[int], int]
    choices: Sequence[int] = ()
    choose: Callable[[Floats], int] = lambda _: 0
    noised: list[NoiseDraw] = field(default_factory=list)
    picked: list[Floats] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    numbers: int = 0

    def draw(self, law: Law, row_count: int, width: int = 1) -> NDArray[np.object_]:
        """Rows of numbers."""
        self.noised.append(NoiseDraw(law, row_count, width, self.numbers))
        samples = np.empty((row_count, width), dtype=np.object_)
        for at in range(row_count * width):
            samples[at // width, at % width] = self.noise(self.numbers + at)
        self.numbers += row_count * width
        return samples

    def pick(self, logs: Floats) -> int:
        """One outcome, by its place."""
        at = len(self.picked)
        self.picked.append(logs)
        choice = min(self.choices[at], len(logs) - 1) if at < len(self.choices) else self.choose(logs)
        self.taken.append(choice)
        return choice


DECIDING: list[Script] = []
"""Whose turn it is."""


def _compute_huge_power(number: int) -> int:
    return HUGE ** (number + 1)


@dataclass
class Tap:
    """Where the stand-ins ask; and the laws of all that was drawn, in order."""

    chance: random.Random
    repeat: Sequence[Recorded] | None = None
    """Of the other table: what came out there is to come out here."""
    found: list[Recorded] = field(default_factory=list)

    def draw(self, planned: Any, source: Any) -> NoisyResult:
        """In place of the custodian's: find the law of what would be released, and release one outcome."""
        cached = CachedSource(source)

        def run(script: Script) -> NoisyResult:
            DECIDING.append(script)
            try:
                return draw_in_earnest(planned, cached)  # type: ignore[arg-type]
            finally:
                DECIDING.pop()

        output = explore_law(run, planned.threshold is not None)
        before = self._before
        script = output.by_chance(self.chance) if before is None else output.like(before)
        released = run(script)
        self.found.append(Recorded(output, released, tuple(script.taken)))
        return released

    @property
    def _before(self) -> Recorded | None:
        """What came out on the other table at this place."""
        at = len(self.found)
        return self.repeat[at] if self.repeat is not None and at < len(self.repeat) else None

    def add(self, totals: Any, noise: Any, width: int = 1) -> NDArray[np.int64]:
        """In place of adding noise to the totals of a private file."""
        values = [int(total) for total in np.asarray(totals).ravel()]
        noised = NoiseDraw(get_law(noise), len(values) // width, width, 0)
        output, before = Output([noised], [(x, {at: 1}) for at, x in enumerate(values)], []), self._before
        released = [x + self.chance.randrange(-3, 4) for x in values] if before is None else before.released
        self.found.append(Recorded(output, released))
        return np.array(released, dtype=np.int64).reshape(np.shape(totals))

    def pick(self, logs: Floats) -> int:
        """A choice: of a question by its script; of a private file, as on the other table, or by chance."""
        if DECIDING:
            return DECIDING[-1].pick(logs)
        before = self._before
        taken = _pick_at_random(logs, self.chance) if before is None else before.released
        self.found.append(Recorded(Output([], [], [logs]), taken))
        return int(taken)

    def noise(self, law: Law, row_count: int, width: int = 1) -> NDArray[np.object_]:
        assert DECIDING, "noise was drawn where nothing is recorded"
        return DECIDING[-1].draw(law, row_count, width)


def _pick_at_random(logs: Floats, chance: random.Random) -> int:
    return chance.choices(range(len(logs)), np.exp(logs - logs.max()).tolist())[0]


@contextmanager
def recording(chance: random.Random, repeat: Sequence[Recorded] | None = None) -> Iterator[Tap]:
    """All draws of the custodian are decided, and their laws found; of a second table, what came out on the first."""
    tap = Tap(chance, repeat)
    asked, counted, published = (
        import_module(f"discreet.{name}")
        for name in ("custodian.custodian", "custodian.session", "release.publish_synthetic")
    )

    def draw_column(noise: Any, size: int, _: object) -> NDArray[np.object_]:
        return tap.noise(get_law(noise), size)[:, 0]

    def draw_several(noise: Any, size: int, _: object) -> NDArray[np.object_]:
        law = get_law(noise)
        return tap.noise(law, size, len(law.widths) if isinstance(law, Boxes) else 2)

    def draw_one(noise: Any, entropy: object) -> int:
        return int(draw_column(noise, 1, entropy)[0])

    def choose_by_flip(choice: PermuteAndFlip, levels: NDArray[np.int64], _: object) -> int:
        return tap.pick(compute_flip_logs(levels, choice.selection.ratio))

    def choose_position(law: Distribution, _: object) -> int:
        return tap.pick(compute_weighted_logs(law))

    def add_noise(totals: Any, noise: Any, _: object) -> Any:
        return tap.add(totals, noise)

    def add_noise_to_rows(plan: RecordsPlan, sums: Any, _: object) -> Any:
        return tap.add(sums, plan.noise, np.shape(sums)[1] if isinstance(plan.noise, BoxStaircase) else 1)

    places: list[tuple[Any, str, Any]] = [
        (DiscreteLaplace, "sample_units", draw_column),
        (DiscreteLaplace, "sample_unit", draw_one),
        (DiscreteGaussian, "sample_units", draw_column),
        (Staircase, "sample_units", draw_column),
        (BoxStaircase, "sample_units", draw_several),
        (PolygonStaircase, "sample_units", draw_several),
        (PermuteAndFlip, "sample_position", choose_by_flip),
        (Distribution, "sample_position", choose_position),
        (asked, "scan_rows", lambda _, source: source),
        (asked, "sample_noisy_outputs", tap.draw),
        (counted, "measure_plan", tap.draw),
        (published, "SYSTEM", SeededEntropy(b"a file")),
        (RecordsPlan, "_add_noise", add_noise_to_rows),
        *((module, "add_noise_to_totals", add_noise) for module in (column_methods, marginals)),
    ]
    with ExitStack() as stack:
        for owner, name, stand_in in places:
            stack.enter_context(patch.object(owner, name, stand_in))
        yield tap


class SeededEntropy:
    """Bytes that follow from a seed, for what is not noise."""

    def __init__(self, seed: bytes) -> None:
        self._chance = random.Random(seed)

    def take(self, count: int) -> bytes:
        return self._chance.randbytes(count)


class CachedSource:
    """A source that is read once for each thing that is asked of it."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._known: dict[tuple[str, str], Any] = {}

    def _once(self, name: str, *args: Any) -> Any:
        call = name, repr(args)
        if call not in self._known:
            self._known[call] = getattr(self._source, name)(*args)
        return self._known[call]

    def totals(self, plan: Any) -> Any:
        return self._once("totals", plan)

    def histogram(self, plan: Any) -> Any:
        return self._once("histogram", plan)

    def individual(self, draw_column: str, unit: str) -> Any:
        return self._once("individual", draw_column, unit)


# The law of an output.


Placed = tuple[int, Mapping[int, int]]
"""A number where all noise is 0, and how often each draw is in it."""


@dataclass(frozen=True)
class ShownKey:
    """A key that is not public: the draw that decides on it, the least noise it is shown at, and what is told then."""

    number: int
    law: Laplace
    least: int
    counted: bool
    """Whether the noisy number itself is told."""
    noises: tuple[tuple[Law, tuple[int, ...]], ...]
    picks: tuple[Floats, ...]


@dataclass(frozen=True)
class Output:
    """The law of what is released about one table."""

    noised: list[NoiseDraw]
    numbers: list[Placed]
    picks: list[Floats]
    cells: tuple[Any, ...] = ()
    run: Callable[[Script], NoisyResult] | None = None
    ends: tuple[int, int] | None = None
    """The one number is cut to these."""
    keys: Mapping[str, ShownKey] | None = None
    adaptive: bool = False

    def by_chance(self, chance: random.Random) -> Script:
        """Some outcome; keys are often shown."""
        shown: dict[int, int] = {}
        if self.keys is not None and chance.random() < 0.5:
            shown = {key.number: key.least + chance.randrange(-2, 6) for key in self.keys.values()}
        return Script(
            lambda at: shown.get(at, chance.randrange(-4, 5)), choose=lambda logs: _pick_at_random(logs, chance)
        )

    def like(self, before: Recorded) -> Script:
        """The outcome that another table had, where it can be had."""
        if self.keys is not None:
            return Script(self._noise_of_keys(before.released), before.taken)
        moved = {
            number: value - place
            for value, (place, draws) in zip(flatten(before.released), self.numbers, strict=False)
            for number in draws
        }
        return Script(lambda number: moved.get(number, 0), before.taken)

    def _noise_of_keys(self, wanted: NoisyResult) -> Callable[[int], int]:
        """The keys that are shown come first; then, draw by draw, what is measured of those that are."""
        keys = self.keys or {}
        values_by_key = {
            cell[0]: [x for part in placed for x in part]
            for cell, placed in zip(wanted.cells, wanted.numbers, strict=True)
        }
        noise_by_draw = {key.number: key.least if name in values_by_key else -HUGE for name, key in keys.items()}
        places = {cell[0]: at for at, cell in enumerate(self.cells)}
        shown = sorted(set(values_by_key) & set(places))
        for row, name in enumerate(shown):
            width = len(self.numbers) // len(self.cells)
            placed = self.numbers[places[name] * width : (places[name] + 1) * width]
            for value, (place, draws) in zip(values_by_key[name], placed, strict=True):
                for number in draws:
                    noise_by_draw[self._number(number, row, len(shown))] = value - place
        return lambda number: noise_by_draw.get(number, 0)

    def _number(self, number: int, row: int, row_count: int) -> int:
        """Which draw it is where only so many keys are shown, and this one is in that row."""
        keys = len(self.keys or {})
        first = keys
        for draw_one in self.noised[1:]:
            if draw_one.first <= number < draw_one.first + draw_one.rows * draw_one.width:
                return first + row * draw_one.width + (number - draw_one.first) % draw_one.width
            first += row_count * draw_one.width
        return number


@dataclass(frozen=True)
class Recorded:
    """The law of an output, and what came out."""

    output: Output
    released: Any
    taken: tuple[int, ...] = ()


def flatten(released: NoisyResult) -> list[int]:
    """All numbers, cell by cell."""
    return [int(x) for cell in released.numbers for part in cell for x in part]


def explore_law(run: Callable[[Script], NoisyResult], keyed: bool) -> Output:
    """The law of what a run releases."""
    if keyed:
        return _explore_keys(run)
    zero = Script(lambda _: 0)
    plain = run(zero)
    telling_script = Script(_compute_huge_power)
    numbers = _find_placed(flatten(plain), flatten(run(telling_script)))
    adaptive = _is_adaptive(run, zero)
    ends = None
    if numbers is None or _explore_cut(run, plain, numbers, zero.numbers):
        assert zero.numbers == 1, "numbers that are cut come one at a time"
        ends = min(flatten(run(Script(lambda _: -HUGE)))), max(flatten(run(Script(lambda _: HUGE))))
        numbers = [(flatten(plain)[0], {0: 1})]
        for shift in (-1, 1):
            wanted = min(max(numbers[0][0] + shift, ends[0]), ends[1])
            assert flatten(run(Script(lambda _, shift=shift: shift))) == [wanted]
    return Output(zero.noised, numbers, zero.picked, plain.cells, run, ends, adaptive=adaptive)


def _explore_cut(
    run: Callable[[Script], NoisyResult], plain: NoisyResult, numbers: Sequence[Placed], place: int
) -> bool:
    """Whether the one number is at its upper end already, so that only noise below 0 moves it."""
    return place == len(numbers) == 1 and not numbers[0][1] and flatten(run(Script(lambda _: -HUGE))) != flatten(plain)


def _find_placed(plain: Sequence[int], telling: Sequence[int]) -> list[Placed] | None:
    """Every number as its place and the draws in it; None where it is no sum of both."""
    placed: list[Placed] = []
    for place, value in zip(plain, telling, strict=True):
        left, draws, number = value - place, {}, -1
        while left:
            digit = (left + HUGE // 2) % HUGE - HUGE // 2
            if digit and (number < 0 or abs(digit) > 1000):
                return None
            if digit:
                draws[number] = digit
            left, number = (left - digit) // HUGE, number + 1
        placed.append((place, draws))
    return placed


def _is_adaptive(run: Callable[[Script], NoisyResult], base: Script) -> bool:
    """Whether a later choice follows from how an earlier one comes out."""
    if len(base.picked) < 2:
        return False
    for other in (-1, len(base.picked[0]) // 2):
        script = Script(lambda _: 0, [len(base.picked[0]) - 1 if other < 0 else other])
        run(script)
        later = zip(script.picked[1:], base.picked[1:], strict=False)
        if len(script.picked) != len(base.picked) or any(not _is_same(draw_one, two) for draw_one, two in later):
            return True
    return False


def _is_same(draw_one: Floats, two: Floats) -> bool:
    return len(draw_one) == len(two) and bool(np.array_equal(draw_one, two))


def _explore_keys(run: Callable[[Script], NoisyResult]) -> Output:
    """Keys over a threshold: every one by itself, and what is told of it."""
    telling_script = Script(_compute_huge_power)
    everything = run(telling_script)
    if not telling_script.noised or not telling_script.noised[0].rows:
        return Output([], [], [], run=run, keys={})
    count, law = telling_script.noised[0].rows, telling_script.noised[0].law
    assert isinstance(law, Laplace)
    names = [cell[0] for cell in everything.cells]
    numbers = _find_signed(flatten(everything))
    width, keys = len(numbers) // len(names), {}
    for number in range(count):
        left = {cell[0] for cell in run(Script(lambda at, number=number: -HUGE if at == number else HUGE)).cells}
        [name] = set(names) - left
        at = names.index(name)
        placed = numbers[at * width : (at + 1) * width]
        counted = any(number in draws for _, draws in placed)
        picks = telling_script.picked
        each = len(picks) // len(names)
        chosen = tuple(picks[at * each : (at + 1) * each])
        keys[name] = ShownKey(
            number, law, _find_least(run, number), counted, _list_noises(telling_script, placed, count), chosen
        )
    return Output(telling_script.noised, numbers, telling_script.picked, everything.cells, run, keys=keys)


def _find_signed(values: Sequence[int]) -> list[Placed]:
    """Places and draws where the place itself is not known from a run without noise."""
    placed: list[Placed] = []
    for value in values:
        place = (value + HUGE // 2) % HUGE - HUGE // 2
        rest = _find_placed([place], [value])
        assert rest is not None, "a number of a key is a place and draws"
        placed.append(rest[0])
    return placed


def _list_noises(script: Script, placed: Sequence[Placed], first: int) -> tuple[tuple[Law, tuple[int, ...]], ...]:
    """The laws of what is measured of one key, each with its places."""
    places_by_draw: dict[tuple[int, int], tuple[Law, dict[int, int]]] = {}
    for place, draws in placed:
        for number in draws:
            if number >= first:
                at, draw_one = next(
                    (at, draw_one)
                    for at, draw_one in enumerate(script.noised)
                    if 0 <= number - draw_one.first < draw_one.rows * draw_one.width
                )
                row, draw_column = divmod(number - draw_one.first, draw_one.width)
                places_by_draw.setdefault((at, row), (draw_one.law, {}))[1][draw_column] = place
    return tuple(
        (law, tuple(places[draw_column] for draw_column in sorted(places))) for law, places in places_by_draw.values()
    )


def _find_least(run: Callable[[Script], NoisyResult], number: int) -> int:
    """The least noise of one key at which it is shown, the others hidden."""

    def is_shown(noise: int) -> bool:
        return bool(run(Script(lambda at: noise if at == number else -HUGE)).cells)

    low, high = -1, 1
    while is_shown(low):
        low *= 4
    while not is_shown(high):
        high *= 4
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_shown(middle) else (middle, high)
    return high


# Two tables.


@dataclass(frozen=True)
class Loss:
    """What two outputs lose against each other: of noise and choices that are pure, of Gaussian noise, of keys."""

    pure: float = 0.0
    """The sum of all pure losses; infinite where something is told exactly."""
    rho: float = 0.0
    """zCDP of the pure part: the least rho for all orders, of both directions."""
    gauss: float = 0.0
    """The zCDP of Gaussian noise."""
    delta: float = 0.0
    """The chance that a key is shown that the other table does not have."""
    profiles: tuple[Profile, ...] = ()
    backwards: tuple[Profile, ...] = ()
    follows: float = 0.0
    """Where noise follows the rows: the loss under the wider noise of either table alone, of individual DP."""

    def __add__(self, other: Loss) -> Loss:
        return Loss(
            self.pure + other.pure,
            self.rho + other.rho,
            self.gauss + other.gauss,
            self.delta + other.delta,
            self.profiles + other.profiles,
            self.backwards + other.backwards,
            self.follows + other.follows,
        )

    @property
    def largest(self) -> float:
        """The largest loss of all; infinite with Gaussian noise, or a key of one table."""
        return math.inf if self.gauss or self.delta else self.pure

    def beyond(self, epsilon: float) -> float:
        """The least delta at an epsilon, of both directions; what is rounded is rounded down."""
        if self.pure == math.inf:
            return 1.0
        if self.largest <= epsilon:
            return 0.0
        return max(_multiply(parts).beyond(epsilon) for parts in (self.profiles, self.backwards))


def _multiply(parts: Sequence[Profile]) -> Profile:
    return reduce(lambda draw_one, two: (draw_one * two).thinned(), (part.thinned() for part in parts), NOTHING)


TOLD_EXACTLY = Loss(math.inf, math.inf)
"""Something is told exactly."""


def compare_outputs(draw_one: Output, two: Output, chance: random.Random) -> Loss:
    """What the outputs of two tables lose against each other; choices that follow from others are run again."""
    with recording(chance):
        return _compare_outputs(draw_one, two, chance)


def _compare_outputs(draw_one: Output, two: Output, chance: random.Random) -> Loss:
    if draw_one.keys is not None and two.keys is not None:
        return _compute_keys_loss(draw_one.keys, two.keys)
    if draw_one.cells != two.cells or [(x.rows, x.width) for x in draw_one.noised] != [
        (x.rows, x.width) for x in two.noised
    ]:
        return TOLD_EXACTLY
    if draw_one.ends is not None or two.ends is not None:
        return _compute_cut_loss(draw_one, two)
    if [x.law for x in draw_one.noised] != [x.law for x in two.noised] or len(draw_one.numbers) != len(two.numbers):
        return TOLD_EXACTLY
    lost = _compute_noise_loss(draw_one, two)
    if draw_one.adaptive or two.adaptive:
        return lost + _follow_choices(draw_one, two, chance)
    if [len(x) for x in draw_one.picks] != [len(x) for x in two.picks]:
        return TOLD_EXACTLY
    return sum((compute_pick_loss(x, y) for x, y in zip(draw_one.picks, two.picks, strict=True)), lost)


def compute_pick_loss(draw_one: Floats, two: Floats) -> Loss:
    """A choice by two laws."""
    if np.array_equal(draw_one, two):
        return Loss()
    there, back = Profile.of(draw_one, two), Profile.of(two, draw_one)
    rho = max(there.rho, back.rho)
    return Loss(max(there.pure, back.pure), rho, profiles=(there,), backwards=(back,))


def compute_noise_loss(law: Law, move: Sequence[int]) -> Loss:
    """Noise that has its centre moved: the same both ways, since it is symmetric."""
    if not any(move):
        return Loss()
    profile = law.profile(move)
    if isinstance(law, Gauss):
        return Loss(gauss=law.rho(move[0]), profiles=(profile,), backwards=(profile,))
    return Loss(law.pure(move), profile.rho, profiles=(profile,), backwards=(profile,))


def _compute_noise_loss(draw_one: Output, two: Output) -> Loss:
    """How far every draw must move so that the same comes out; where none does, all is told."""
    moves: dict[int, Fraction] = {}
    for (x, draws), (y, others) in zip(draw_one.numbers, two.numbers, strict=True):
        if draws != others or len(draws) > 1:
            return TOLD_EXACTLY
        if not draws:
            if x != y:
                return TOLD_EXACTLY
            continue
        [(number, times)] = draws.items()
        move = Fraction(x - y, times)
        if moves.setdefault(number, move) != move or move.denominator != 1:
            return TOLD_EXACTLY
    lost = Loss()
    for each in draw_one.noised:
        for row in range(each.rows):
            start = each.first + row * each.width
            lost = lost + compute_noise_loss(each.law, [int(moves.get(start + at, 0)) for at in range(each.width)])
    return lost


def _compute_cut_loss(draw_one: Output, two: Output) -> Loss:
    """One number that is cut to public ends, its noise by either table's own law."""
    if draw_one.ends != two.ends or draw_one.ends is None:
        return TOLD_EXACTLY
    low, high = draw_one.ends
    laws, rates = [], []
    for each in (draw_one, two):
        law, (place, _) = each.noised[0].law, each.numbers[0]
        assert isinstance(law, Laplace)
        inner = law.logs(np.arange(low + 1, high) - place)
        laws.append(np.concatenate(([law.below(low + 1 - place)], inner, [law.at_least(high - place)])))
        rates.append(law.rate)
    lost = compute_pick_loss(laws[0], laws[1])
    apart = abs(draw_one.numbers[0][0] - two.numbers[0][0])
    # Under its own noise each table is protected from the other: the worse of the two counts.
    return Loss(lost.pure, lost.rho, profiles=lost.profiles, backwards=lost.backwards,
                follows=float(max(rates) * apart))  # fmt: skip


MOST_OUTCOMES, MOST_PICKS = 90, 4
"""Of a first choice among so few, with so few choices in all, every way is followed; else so many of them:"""
MOST_WAYS = 16
MOST_TURNS = 6


def _follow_choices(draw_one: Output, two: Output, chance: random.Random) -> Loss:
    """Choices one after the other: the first comes out in some ways, the others then in the worst way at each turn."""
    assert draw_one.run is not None
    assert two.run is not None
    worst = Loss()
    first = [each.picks[0] for each in (draw_one, two)]
    if len(first[0]) != len(first[1]):
        return TOLD_EXACTLY
    ratio = first[0] - first[1]
    ways = set(range(len(ratio)))
    if len(ratio) > MOST_OUTCOMES or len(draw_one.picks) > MOST_PICKS:
        ranked = np.argsort(ratio)
        ways = {*ranked[-MOST_WAYS // 4 :].tolist(), *ranked[: MOST_WAYS // 4].tolist()}
        ways |= {chance.randrange(len(ratio)) for _ in range(MOST_WAYS // 2)}
    for mine, other in ((draw_one, two), (two, draw_one)):
        worst = max((worst, *(_follow_one_way(mine, other, way) for way in ways)), key=lambda each: each.pure)
    return worst


def _follow_one_way(draw_one: Output, two: Output, first: int) -> Loss:
    """The loss of one way: every choice after the first is made to have the largest ratio, given those before it.

    Which one that is depends on those before; a few turns are enough until nothing changes, one for each depth.
    """
    taken = [first]
    for _ in range(MOST_TURNS):
        scripts = [Script(lambda _: 0, taken) for _ in range(2)]
        for each, script in zip((draw_one, two), scripts, strict=True):
            assert each.run is not None
            each.run(script)
        pairs = list(zip(*(script.picked for script in scripts), strict=True))
        if any(len(mine) != len(theirs) for mine, theirs in pairs):
            return TOLD_EXACTLY
        choices = [first, *(int(np.argmax(mine - theirs)) for mine, theirs in pairs[1:])]
        if scripts[0].taken == choices:
            break
        taken = choices
    took = scripts[0].taken
    total = sum(float(mine[at] - theirs[at]) for at, (mine, theirs) in zip(took, pairs, strict=True))
    rho = sum(compute_pick_loss(mine, theirs).rho for mine, theirs in pairs)
    unchanged = Profile(np.array([total]), np.ones(1))
    return Loss(total, rho, profiles=(unchanged,), backwards=(unchanged,))


def _compute_keys_loss(draw_one: Mapping[str, ShownKey], two: Mapping[str, ShownKey]) -> Loss:
    """Every key by itself: hidden, or shown with what is told of it."""
    lost = Loss()
    for name in sorted({*draw_one, *two}):
        mine, theirs = draw_one.get(name), two.get(name)
        if mine is None or theirs is None:
            lost = lost + _compute_lone_key_loss(mine or theirs, mine is not None)  # type: ignore[arg-type]
        else:
            lost = lost + _compute_shown_loss(mine, theirs)
    # Two tables whose keys differ: the worse direction is what is lost, not both together.
    alone = [
        sum(math.exp(k.law.at_least(k.least)) for n, k in a.items() if n not in b)
        for a, b in ((draw_one, two), (two, draw_one))
    ]
    return Loss(lost.pure, lost.rho, lost.gauss, max(alone), lost.profiles, lost.backwards)


def _compute_lone_key_loss(key: ShownKey, forwards: bool) -> Loss:
    """A key of one table: shown now and then there, never on the other."""
    shown, hidden = key.law.at_least(key.least), key.law.below(key.least)
    there = Profile(np.array([hidden]), np.array([math.exp(hidden)]), math.exp(shown))
    back = Profile(np.array([-hidden]), np.ones(1))
    pair = (there, back) if forwards else (back, there)
    return Loss(delta=math.exp(shown), profiles=(pair[0],), backwards=(pair[1],))


def _compute_shown_loss(draw_one: ShownKey, two: ShownKey) -> Loss:
    """A key of both tables."""
    if (
        draw_one.counted != two.counted
        or [x[0] for x in draw_one.noises] != [x[0] for x in two.noises]
        or draw_one.law != two.law
    ):
        return TOLD_EXACTLY
    inner = Loss()
    for (law, mine), (_, theirs) in zip(draw_one.noises, two.noises, strict=True):
        inner = inner + compute_noise_loss(law, [x - y for x, y in zip(mine, theirs, strict=True)])
    for mine_law, their_law in zip(draw_one.picks, two.picks, strict=True):
        inner = inner + compute_pick_loss(mine_law, their_law)
    hidden = [key.law.below(key.least) for key in (draw_one, two)]
    shown = [key.law.at_least(key.least) for key in (draw_one, two)]
    if draw_one.counted:
        reach = math.ceil(60 / float(draw_one.law.rate)) + abs(draw_one.least) + abs(two.least)
        steps = np.arange(min(reach, 200_000))
        logs = [key.law.logs(key.least + steps) for key in (draw_one, two)]
    else:
        logs = [np.array([each]) for each in shown]
    ways = []
    for mine, theirs, parts in ((0, 1, inner.profiles), (1, 0, inner.backwards)):
        first = Profile.of(np.array([hidden[mine]]), np.array([hidden[theirs]]))
        second = _multiply((Profile.of(logs[mine], logs[theirs]), *parts))
        loss, mass = np.concatenate((first.loss, second.loss)), np.concatenate((first.mass, second.mass))
        ways.append(Profile(loss, mass, second.lost))
    counts = max(float(np.abs(logs[0] - logs[1]).max()), 0.0)
    pure = max(abs(hidden[0] - hidden[1]), counts + inner.pure)
    rho = pure**2 / 2 if inner.gauss else max(each.rho for each in ways)
    return Loss(pure, rho, inner.gauss, profiles=(ways[0],), backwards=(ways[1],))


# What is claimed.


def compute_ratios(lost: Loss, claim: Mapping[str, Any], spend: Any = None, charged: bool = True) -> dict[str, float]:
    """The real loss over each thing that is claimed of it: by the label of the reply, and by the ledger's entry."""
    model = claim["model"]
    claimed_numbers = {
        name: Fraction(claim[name]) for name in ("epsilon", "delta", "rho", "also_epsilon") if name in claim
    }
    ratios: dict[str, float] = {}
    match model:
        case "dp":
            ratios["epsilon of the label"] = _compute_ratio(lost.largest, claimed_numbers["epsilon"])
        case "approx-dp":
            epsilon, delta = claimed_numbers["epsilon"], claimed_numbers["delta"]
            ratios["delta of the label"] = _compute_ratio(lost.beyond(float(epsilon) * (1 + 1e-9)), delta)
        case "zcdp":
            ratios["rho of the label"] = _compute_ratio(lost.rho + lost.gauss, claimed_numbers["rho"])
        case "individual-dp":
            ratios["epsilon of individual DP"] = _compute_ratio(lost.follows, claimed_numbers["epsilon"])
            ratios["epsilon of DP beside it"] = _compute_ratio(lost.pure, claimed_numbers["also_epsilon"])
        case _:
            raise AssertionError(f"no check of {model}")
    if spend is not None and charged and model != "individual-dp":
        if spend.epsilon:
            ratios["epsilon charged"] = _compute_ratio(lost.pure, spend.epsilon)
            ratios["rho charged"] = _compute_ratio(lost.rho, spend.rho)
            ratios["zCDP charged"] = _compute_ratio(lost.gauss, spend.gaussian_rho)
        else:  # nothing is charged as pure: what is pure is charged by its zCDP too
            ratios["zCDP charged"] = _compute_ratio(lost.rho + lost.gauss, spend.gaussian_rho)
        ratios["delta charged"] = _compute_ratio(lost.delta, spend.delta)
    if spend is not None and charged and model == "individual-dp":
        ratios["epsilon charged"] = _compute_ratio(lost.follows, spend.epsilon)
    return ratios


def _compute_ratio(real: float, claimed: Fraction) -> float:
    if real <= 1e-12:
        return 0.0
    return real / float(claimed) if claimed else math.inf
