"""Which k, and which method: every pair of them tried on the records, and the one to take.

The rule, in one sentence: among the points whose risk is at most the limit and whose loss is at most `GRAVE` take, of
those that lose no more than `ALIKE` above the least, the one with the least risk; where there is none, the nearest to
both bounds is named and not advised. Methods that hide by chance are tried once for each k, and two sweeps differ by
that much.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from discreet.errors import InvalidInput
from discreet.exact import whole
from discreet.formatting import format_number, format_percent_at_most

if TYPE_CHECKING:
    from discreet.assess.comparison import Comparison
    from discreet.kernel.entropy import Entropy
    from discreet.microdata.distances import Scale
    from discreet.microdata.protected import Protected
    from discreet.microdata.table import Table

METHODS = ("mdav", "mdav-swap", "ir-swap")
"""What is tried unless said otherwise: the methods of thesis 3.4."""
TRIED = (*METHODS, "t-closeness")
"""What can be tried. Generalised values and Anatomy's two tables have no correlations to compare with these."""
ALIKE = 0.05
"""Losses that differ by no more are held alike: so much, or more, is chance."""
LIMIT = 0.05
"""The greatest risk above chance that is called small."""
GRAVE = 1.0
"""A greater loss is of the worst grade: findings may well differ."""
TINY = 1e-9
"""A smaller limit measures how far off a risk is as this one does."""
MOST = 12
"""How many k there is room for."""

RANGE = re.compile(r"([0-9]{1,9})\.\.([0-9]{1,9})")
LIST = re.compile(r"\s*[0-9]{1,9}(\s*,\s*[0-9]{1,9})*")

Names = Sequence[str]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Point:
    """One method at one k: what it costs and what it gives away, in the units of `Comparison`."""

    method: str
    k: int
    loss: float
    """The worst of all that a verdict on utility judges by (thesis 3.4: correlations), each over its upper bar."""
    risk: float
    """How much an intruder learns of what chance leaves open about a confidential value, in the worst column."""
    il1s: float | None
    linkage: float | None
    score: float | None
    """The thesis's Score (6.4) against the same method at its least k: above 1, more safety was won than use lost."""
    lost: str = "correlations"
    """What the loss is of."""

    def to_json(self) -> dict[str, object]:
        """Machine-readable."""
        told: dict[str, object] = {"method": self.method, "k": self.k, "loss": self.loss, "risk": self.risk}
        return told | {"il1s": self.il1s, "linkage": self.linkage, "score": self.score, "lost": self.lost}


@dataclass(frozen=True, slots=True)
class Sweep:
    """The points that could be tried, by method and k, and the one to take, or the nearest where none is useful."""

    points: tuple[Point, ...]
    recommended: Point
    limit: float
    left_out: tuple[str, ...] = ()
    """What could not be tried, a sentence each."""

    @property
    def useful(self) -> bool:
        """Whether the point is one to take: both its risk and its loss are within their bounds."""
        return _within(self.recommended, self.limit)

    @property
    def words(self) -> str:
        """The recommendation and its reason."""
        best, limit = self.recommended, f"a risk of at most {format_percent_at_most(self.limit)} above chance"
        told, own = f"{best.method} with k = {best.k:,}", format_percent_at_most(best.risk, 3)
        lost = f"most of it in {best.lost}"
        if self.useful:
            lowest = f"none loses clearly less than its {format_number(best.loss, 3)}"
            why = f"of all points with {limit} (its own is {own}) {lowest}"
            return f"Take {told}: {why}, {lost}."
        bounds = f"safe ({limit}) and useful (a loss of at most {format_number(GRAVE)})"
        nearest = f"{told} (risk {own}, loss {format_number(best.loss, 3)}, {lost})"
        return f"No point is both {bounds}: nearest is {nearest}; {self._short()}."

    def _short(self) -> str:
        """What is wrong with the nearest point, and what may help."""
        gives_away = "it gives away too much" if self.recommended.risk > self.limit else ""
        differs = "findings may well differ from those on the original" if self.recommended.loss > GRAVE else ""
        return f"{' and '.join(filter(None, (gives_away, differs)))}, so try other k, other methods or fewer columns"

    def to_json(self) -> dict[str, object]:
        """Machine-readable."""
        points = [point.to_json() for point in self.points]
        told = {"useful": self.useful, "limit": self.limit, "words": self.words, "left_out": list(self.left_out)}
        return {"points": points, "recommended": self.recommended.to_json(), **told}


def read_ks(text: str) -> tuple[int, ...]:
    """The k of "k=3..300", evenly by their ratios, or of "k=3,5,10"; at most twelve, ascending."""
    plain = text.strip().removeprefix("k=")
    if ends := RANGE.fullmatch(plain):
        return check_ks(_geometric(int(ends[1]), int(ends[2])))
    if LIST.fullmatch(plain):
        return check_ks([int(k) for k in plain.split(",")])
    raise InvalidInput(f"a sweep is written k=3..300 or k=3,5,10, got {text[:40]!r}")


def check_ks(ks: Sequence[object]) -> tuple[int, ...]:
    """Whole k of at least 2, each once, ascending."""
    read = tuple(sorted({whole(k, "k", 2) for k in ks}))
    if not 1 <= len(read) <= MOST:
        raise InvalidInput(
            f"a sweep tries one to {MOST} different k, got {len(read)}; name fewer, or a range like k=3..300"
        )
    return read


def _geometric(low: int, high: int) -> tuple[int, ...]:
    if low > high:
        raise InvalidInput(f"a sweep goes upwards, like k=3..300; {low} is above {high}")
    if high - low < MOST:
        return tuple(range(low, high + 1))
    return tuple(round(low * (high / max(low, 1)) ** (step / (MOST - 1))) for step in range(MOST))


def check_methods(methods: Names) -> tuple[str, ...]:
    """Methods that can be tried, each once."""
    for method in methods:
        if method not in TRIED:
            raise InvalidInput(f"a sweep tries {', '.join(TRIED)}; {str(method)[:40]!r} is none of them")
    if not methods:
        raise InvalidInput(f"a sweep tries at least one method; name one of {', '.join(TRIED)}")
    return tuple(dict.fromkeys(methods))


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """What is tried again and again: the records, their roles, and all that is not k."""

    table: Table
    quasi: tuple[str, ...]
    confidential: tuple[str, ...]
    scale: Scale
    t: object
    entropy: Entropy | None

    def protect(self, method: str, k: int) -> Protected:
        """The records under one method at one k."""
        from discreet.microdata.mdav_id import mdav_id
        from discreet.microdata.swapping import ir_swap, mdav_swap
        from discreet.microdata.t_close import t_close

        if method == "mdav":
            return mdav_id(self.table, k, self.quasi, scale=self.scale, entropy=self.entropy)
        if method == "mdav-swap":
            return mdav_swap(self.table, k, self.quasi, self.confidential, scale=self.scale, entropy=self.entropy)
        if method == "ir-swap":
            return ir_swap(self.table, k, self.confidential, entropy=self.entropy)
        return t_close(self.table, self.t, k, self.quasi, self.confidential, entropy=self.entropy)

    def compare(self, protected: Protected, k: int) -> Comparison:
        """What the protected records cost and give away."""
        from discreet.assess.compare import compare_release

        return compare_release(self.table, protected, self.quasi, self.confidential, scale=self.scale, k=k)


def _point(method: str, k: int, found: Comparison, first: Comparison) -> Point:
    from discreet.assess.verdict import worst_loss

    lost, loss = worst_loss(found)
    risk = max(found.disclosure_excess.values(), default=0.0)
    return Point(method, k, loss, risk, found.il1s, found.linkage, _score(found, first), lost)


def _score(found: Comparison, first: Comparison) -> float | None:
    """None where a factor is not measured, or nothing is left to divide by."""
    from discreet.assess.verdict import score

    if first.sse is None or first.linkage is None or not found.sse or not found.linkage:
        return None
    return score(first.sse, first.linkage, found.sse, found.linkage)


def sweep(
    table: Table,
    quasi: Names,
    confidential: Names,
    ks: Sequence[int],
    methods: Names = METHODS,
    *,
    entropy: Entropy | None = None,
    progress: Progress | None = None,
    scale: Scale = "domain",
    t: object = 2,
    limit: float = LIMIT,
) -> Sweep:
    """Try every method at every k and recommend; t-closeness is tried at `t`. `progress(done, of)` follows each try."""
    from discreet.microdata.checks import check_roles

    quasi, confidential = check_roles(table, quasi, confidential, informed=False)
    tries = [(method, k) for method in check_methods(methods) for k in check_ks(ks)]
    trial = Trial(table.select((*quasi, *confidential)), quasi, confidential, scale, t, entropy)
    points: list[Point] = []
    first: dict[str, Comparison] = {}
    refused: dict[str, list[int]] = {}
    for done, (method, k) in enumerate(tries, 1):
        try:
            found = trial.compare(trial.protect(method, k), k)
            points.append(_point(method, k, found, first.setdefault(method, found)))
        except InvalidInput as refusal:
            refused.setdefault(f"{method}: {refusal}", []).append(k)
        if progress is not None:
            progress(done, len(tries))
    if not points:
        raise InvalidInput(f"nothing could be tried; {next(iter(refused))}")
    left_out = tuple(f"{why} (k = {', '.join(map(str, of))})" for why, of in refused.items())
    return Sweep(tuple(points), recommend(points, limit), limit, left_out)


def recommend(points: Sequence[Point], limit: float) -> Point:
    """The point to take, by the rule above."""
    within = [point for point in points if _within(point, limit)]
    if not within:
        return min(points, key=lambda point: max(point.risk / max(limit, TINY), point.loss / GRAVE))
    least = min(point.loss for point in within)
    return min((point for point in within if point.loss <= least + ALIKE), key=lambda point: (point.risk, point.loss))


def _within(point: Point, limit: float) -> bool:
    return point.risk <= limit and point.loss <= GRAVE
