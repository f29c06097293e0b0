"""A sweep over methods and values of k: each release compared with the original, and one recommended.

It recommends, among the points whose risk is at most the limit and whose loss is at most `MAX_LOSS`, of those that
lose no more than `LOSS_TOLERANCE` above the least, the one with the least risk; where there is none, the nearest to
both bounds is named and not advised. Methods that hide by chance are tried once for each k, so two sweeps may differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from discreet.errors import InvalidInput
from discreet.formatting import format_number, format_percent_at_most
from discreet.json_fields import JsonSerializable
from discreet.mechanisms.entropy import Entropy
from discreet.numeric import as_int
from discreet.sdc.comparison import Comparison, compare_release, find_worst_loss, score
from discreet.sdc.table import ProtectedTable, Table, check_roles
from discreet.suggestions import build_unknown_name_error

DEFAULT_METHODS = ("mdav", "mdav-swap", "ir-swap")
"""The methods that are tried by default: those of thesis 3.4."""
SWEEP_METHODS = (*DEFAULT_METHODS, "t-closeness")
"""The methods that can be tried. Generalised values and Anatomy's two tables have no correlations to compare."""
LOSS_TOLERANCE = 0.05
"""Losses that differ by no more are held equal: so much, or more, is chance."""
RISK_LIMIT = 0.05
"""The greatest risk above chance that is called small."""
MAX_LOSS = 1.0
"""A greater loss is of the worst grade: findings may well differ."""
MIN_RISK_LIMIT = 1e-9
"""A smaller limit divides a risk as this one does."""
MAX_KS = 12

RANGE_PATTERN = re.compile(r"([0-9]{1,9})\.\.([0-9]{1,9})")
LIST_PATTERN = re.compile(r"\s*[0-9]{1,9}(\s*,\s*[0-9]{1,9})*")

Names = Sequence[str]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class SweepPoint(JsonSerializable):
    """One method at one k: its loss and its risk, in the units of `Comparison`."""

    method: str
    k: int
    loss: float
    """The worst of the losses that a verdict on utility judges by, each over its upper bar."""
    risk: float
    """How much an intruder learns of what chance leaves open about a confidential value, in the worst column."""
    il1s: float | None
    linkage: float | None
    score: float | None
    """The thesis's Score (6.4) against the same method at its least k: above 1, more safety was won than use lost."""
    lost: str = "correlations"
    """The measure that the loss is of."""

    _json_fields = "method k loss risk il1s linkage score lost"


@dataclass(frozen=True, slots=True)
class SweepResult(JsonSerializable):
    """The points that could be tried, by method and k, and the one to take, or the nearest where none is useful."""

    points: tuple[SweepPoint, ...]
    recommended: SweepPoint
    limit: float
    left_out: tuple[str, ...] = ()
    """The points that could not be tried, a sentence each."""

    @property
    def useful(self) -> bool:
        """Whether the point is one to take: both its risk and its loss are within their bounds."""
        return _is_within_limits(self.recommended, self.limit)

    @property
    def words(self) -> str:
        """The recommendation and its reason."""
        best, limit = self.recommended, f"a risk of at most {format_percent_at_most(self.limit)} above chance"
        point_text, risk_text = f"{best.method} with k = {best.k:,}", format_percent_at_most(best.risk, 3)
        loss_note = f"most of it in {best.lost}"
        if self.useful:
            lowest = f"none loses clearly less than its {format_number(best.loss, 3)}"
            reason = f"of all points with {limit} (its own is {risk_text}) {lowest}"
            return f"Take {point_text}: {reason}, {loss_note}."
        bounds = f"safe ({limit}) and useful (a loss of at most {format_number(MAX_LOSS)})"
        nearest = f"{point_text} (risk {risk_text}, loss {format_number(best.loss, 3)}, {loss_note})"
        gives_away = "it gives away too much" if best.risk > self.limit else ""
        differs = "findings may well differ from those on the original" if best.loss > MAX_LOSS else ""
        advice = f"{' and '.join(filter(None, (gives_away, differs)))}, so try other k, other methods or fewer columns"
        return f"No point is both {bounds}: nearest is {nearest}; {advice}."

    _json_fields = "points recommended useful limit words left_out"


def parse_ks(text: str) -> tuple[int, ...]:
    """The k of "k=3..300", evenly by their ratios, or of "k=3,5,10"; at most twelve, ascending."""
    plain = text.strip().removeprefix("k=")
    if ends := RANGE_PATTERN.fullmatch(plain):
        low, high = int(ends[1]), int(ends[2])
        if low > high:
            raise InvalidInput(f"a sweep goes upwards, like k=3..300; {low} is above {high}")
        if high - low < MAX_KS:
            return check_ks(range(low, high + 1))
        return check_ks([round(low * (high / max(low, 1)) ** (step / (MAX_KS - 1))) for step in range(MAX_KS)])
    if LIST_PATTERN.fullmatch(plain):
        return check_ks([int(k) for k in plain.split(",")])
    raise InvalidInput(f"a sweep is written k=3..300 or k=3,5,10, got {text[:40]!r}")


def check_ks(ks: Sequence[object]) -> tuple[int, ...]:
    """Whole k of at least 2, each once, ascending."""
    ks_in_order = tuple(sorted({as_int(k, "k", 2) for k in ks}))
    if not 1 <= len(ks_in_order) <= MAX_KS:
        raise InvalidInput(
            f"a sweep tries one to {MAX_KS} different k, got {len(ks_in_order)}; name fewer, or a range like k=3..300"
        )
    return ks_in_order


def check_methods(methods: Names) -> tuple[str, ...]:
    """Methods that can be tried, each once."""
    for method in methods:
        if method not in SWEEP_METHODS:
            raise build_unknown_name_error("method", str(method), SWEEP_METHODS, place="of a sweep")
    if not methods:
        raise InvalidInput(f"a sweep tries at least one method; name one of {', '.join(SWEEP_METHODS)}")
    return tuple(dict.fromkeys(methods))


@dataclass(frozen=True, slots=True, eq=False)
class SweepTrial:
    """The part of a sweep that stays the same: the records, their roles, and all options but k."""

    table: Table
    quasi: tuple[str, ...]
    confidential: tuple[str, ...]
    t: object
    entropy: Entropy | None

    def protect(self, method: str, k: int) -> ProtectedTable:
        """The records under one method at one k."""
        from discreet.sdc.methods.swap import ir_swap, mdav_id, mdav_swap
        from discreet.sdc.methods.t_closeness import t_close

        table, quasi, confidential, entropy = self.table, self.quasi, self.confidential, self.entropy
        if method == "mdav":
            return mdav_id(table, k, quasi, entropy=entropy)
        if method == "mdav-swap":
            return mdav_swap(table, k, quasi, confidential, entropy=entropy)
        if method == "ir-swap":
            return ir_swap(table, k, confidential, entropy=entropy)
        return t_close(table, self.t, k, quasi, confidential, entropy=entropy)

    def compare(self, protected: ProtectedTable, k: int) -> Comparison:
        """The protected records compared with the originals."""
        return compare_release(self.table, protected, self.quasi, self.confidential, k=k)


def _build_point(method: str, k: int, comparison: Comparison, baseline: Comparison) -> SweepPoint:
    lost_measure, loss = find_worst_loss(comparison)
    risk = max(comparison.disclosure_excess.values(), default=0.0)
    relative_score = None
    if baseline.sse is not None and baseline.linkage is not None and comparison.sse and comparison.linkage:
        relative_score = score(baseline.sse, baseline.linkage, comparison.sse, comparison.linkage)
    return SweepPoint(method, k, loss, risk, comparison.il1s, comparison.linkage, relative_score, lost_measure)


def sweep_parameters(
    table: Table,
    quasi: Names,
    confidential: Names,
    ks: Sequence[int],
    methods: Names = DEFAULT_METHODS,
    *,
    entropy: Entropy | None = None,
    progress: Progress | None = None,
    t: object = 2,
) -> SweepResult:
    """Try every method at every k and recommend; t-closeness is tried at `t`. `progress(done, of)` follows each try."""
    quasi, confidential = check_roles(table, quasi, confidential, informed=False)
    tries = [(method, k) for method in check_methods(methods) for k in check_ks(ks)]
    trial = SweepTrial(table.select((*quasi, *confidential)), quasi, confidential, t, entropy)
    points: list[SweepPoint] = []
    baselines: dict[str, Comparison] = {}
    refused: dict[str, list[int]] = {}
    for done, (method, k) in enumerate(tries, 1):
        try:
            comparison = trial.compare(trial.protect(method, k), k)
            points.append(_build_point(method, k, comparison, baselines.setdefault(method, comparison)))
        except InvalidInput as refusal:
            refused.setdefault(f"{method}: {refusal}", []).append(k)
        if progress is not None:
            progress(done, len(tries))
    if not points:
        raise InvalidInput(f"nothing could be tried; {next(iter(refused))}")
    left_out = tuple(f"{reason} (k = {', '.join(map(str, refused_ks))})" for reason, refused_ks in refused.items())
    return SweepResult(tuple(points), recommend_point(points, RISK_LIMIT), RISK_LIMIT, left_out)


def recommend_point(points: Sequence[SweepPoint], limit: float) -> SweepPoint:
    """The point to take, by the rule at the top of this module."""
    eligible = [point for point in points if _is_within_limits(point, limit)]
    if not eligible:
        return min(points, key=lambda point: max(point.risk / max(limit, MIN_RISK_LIMIT), point.loss / MAX_LOSS))
    least_loss = min(point.loss for point in eligible)
    alike = [point for point in eligible if point.loss <= least_loss + LOSS_TOLERANCE]
    return min(alike, key=lambda point: (point.risk, point.loss))


def _is_within_limits(point: SweepPoint, limit: float) -> bool:
    return point.risk <= limit and point.loss <= MAX_LOSS
