"""Audit a mechanism: half of its draws choose an event, the other half test it. Proof: confidence_bound.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np

from discreet import charts
from discreet.charts import BLUE, GRAY, INK, ORANGE, Layer, build_layer
from discreet.errors import InvalidInput
from discreet.formatting import (
    EXACT_DIGITS,
    format_budget_left,
    format_cost,
    format_lower,
    format_percent_at_least,
    format_upper,
    round_down,
)
from discreet.json_fields import JsonWritable
from discreet.numeric import as_number_between, as_rational, format_exact
from discreet.untrusted import require_callable
from discreet.verification.audit.combined_features import build_derived_features, learn_features, select_telling_columns
from discreet.verification.audit.events import (
    CandidateEvent,
    compute_clopper_pearson,
    compute_epsilon_bound,
    find_best_event,
    is_better,
)
from discreet.verification.audit.features import Numbers, build_simple_features
from discreet.verification.audit.output_values import Keys, OutputSample
from discreet.verification.audit.read_outputs import read_output_pair

MAX_SPANS = 3
MIN_DRAWS, MAX_DRAWS = 1000, 100_000_000
SEARCH_SHARE = 4
"""A quarter of the draws is used to compare all pairs together."""
MIN_SEARCH_DRAWS = 400
DATA_SETS = ("D", "D2")
MAX_CONFIDENCE = 1 - Fraction(1, 10**12)
MIN_DIGITS, MAX_DIGITS = 4, 17
BINS = 60
TAIL = 0.001
MAX_SHADED = 200
DATA_SET_STYLES = {"D": (BLUE, [1, 0]), "D2": (ORANGE, [6, 4])}
"""Color and dash: the dash also for readers and printers without colors."""
PERCENT_AXIS = {"tickCount": 5, "labelExpr": "format(100 * datum.value, '.3~r') + ' %'"}


def choose_event(sample: OutputSample, sample2: OutputSample, delta: float, confidence: float) -> CandidateEvent:
    """Return the most promising event of all features: half of the draws shape candidates, the other half choose."""
    shape, select = ((sample.take_every(start, 2), sample2.take_every(start, 2)) for start in (0, 1))
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    best: CandidateEvent | None = None
    columns = select_telling_columns(*shape)
    features = [*build_simple_features(sample, columns), *build_derived_features(columns, *shape)]
    for feature in [*features, *learn_features(*shape)]:
        keys = [(feature.keys(first), feature.keys(second)) for first, second in (shape, select)]
        candidate = find_best_event(feature, keys[0], keys[1], delta, z)
        if best is None or is_better(candidate.estimated_bound, best.estimated_bound):
            best = candidate
    assert best is not None  # there is a feature of whatever was read
    return best


def format_event(event: CandidateEvent) -> str:
    """Format an event in words."""
    descriptions = list(dict.fromkeys(event.feature.describe(span) for span in event.list_spans()))
    first_few = " or ".join(descriptions[:MAX_SPANS]) or "nothing at all"
    return first_few if len(descriptions) <= MAX_SPANS else f"{first_few} or {len(descriptions) - MAX_SPANS} more such"


class Mechanism(Protocol):
    """Any callable that returns n independent draws: an array, with a row for each, or a list."""

    def __call__(self, data: Any, n: int, /) -> object: ...


@dataclass(frozen=True, slots=True)
class Event(JsonWritable):
    """The event of the test, and how often it occurred among the test draws."""

    words: str
    likelier: str
    """The data set that makes it likelier: D or D2."""
    count: int
    other_count: int
    draws: int
    """How many test draws there were with each data set."""

    _json_fields = "words likelier p q count other_count draws"

    @property
    def p(self) -> float:
        """The share of the test draws in the event, with the data set that makes it likelier."""
        return self.count / self.draws

    @property
    def q(self) -> float:
        """The share of the test draws in the event, with the other data set."""
        return self.other_count / self.draws

    def __str__(self) -> str:
        other = DATA_SETS[self.likelier == DATA_SETS[0]]
        counts = f"{self.count:,} of {self.draws:,} times with {self.likelier} and {self.other_count:,} with {other}"
        return f"Seen {counts}: {self.words}"


@dataclass(frozen=True, slots=True)
class Audit(JsonWritable):
    """The result of an audit: with this confidence, no epsilon below `lower_bound` holds.

    `audit_mechanism` returns it. An audit can refute a claim and never proves one.

    Args:
        lower_bound: The lower bound on epsilon.
        event: The event whose probabilities differ most.
        epsilon: The claimed epsilon.
        delta: The claimed delta.
        draws: The draws from each data set; half of them chose the event.
        confidence: The probability that the bound is right.
        evidence: The draws that tested the event, for the picture.

    Example:
        >>> from discreet import audit_mechanism
        >>> def leak(D, n):  # no noise at all
        ...     return [sum(D)] * n
        >>> audit = audit_mechanism(leak, D=[1, 1], D2=[1], epsilon=1, draws=4000)
        >>> audit.violated, audit.lower_bound > 1
        (True, True)
    """

    lower_bound: float
    event: Event
    epsilon: Fraction
    delta: Fraction
    draws: int
    """From each data set; half of them chose the event."""
    confidence: Fraction
    evidence: AuditEvidence = field(repr=False)
    """The test draws as keys of the event's feature, for the picture."""

    _json_fields = "sentence violated lower_bound epsilon delta draws confidence event"

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.lower_bound > self.epsilon

    def sentence(self) -> str:
        """Say what was found, in a sentence: never that a mechanism is private."""
        level = format_percent_at_least(self.confidence, EXACT_DIGITS)
        if not self.lower_bound:
            little = "the two data sets were not told apart, so this audit says little"
            return f"No violation found with {self.draws:,} draws at {level}; {little}."
        if not self.violated:
            return f"No violation above {format_upper(self.lower_bound)} found with {self.draws:,} draws at {level}."
        delta = f" with delta {format_cost(self.delta)}" if self.delta else ""
        claim = f"{format_budget_left(self.epsilon)} was claimed"
        return f"Violated: epsilon{delta} is at least {self.format_bound()} at {level}, and {claim}. {self.event}."

    def format_bound(self) -> str:
        """Format the bound, rounded down, with enough digits to show that it is above a refuted claim."""
        for digits in range(MIN_DIGITS, MAX_DIGITS):
            if not self.violated or round_down(self.lower_bound, digits) > self.epsilon:
                return format_lower(self.lower_bound, digits)
        return format_lower(self.lower_bound, MAX_DIGITS)

    def picture(self, path: str | Path) -> Path:
        """Draw both output distributions and the event to an .svg, .png or .html file, whole or not at all."""
        charts.check_picture_path(path)
        return charts.save_spec(build_audit_picture(self), path)


@dataclass(frozen=True, eq=False, slots=True)
class AuditEvidence:
    """The keys of the test draws with D and with D2, and the event that was found."""

    keys: tuple[Keys, Keys]
    candidate: CandidateEvent


@dataclass(frozen=True, slots=True)
class Claim:
    """A checked claim, with the number of draws and the confidence of its audit."""

    epsilon: Fraction
    delta: Fraction
    draws: int
    confidence: Fraction

    @staticmethod
    def of(epsilon: object, delta: object, draws: object, confidence: object) -> Claim:
        """Check a claim, or refuse it."""
        exact_epsilon, exact_delta = as_rational(epsilon, "epsilon"), as_rational(delta, "delta")
        if exact_epsilon < 0 or not 0 <= exact_delta < 1:
            raise InvalidInput("a claim has an epsilon of at least 0 and a delta of at least 0 and below 1")
        exact_confidence = as_number_between(confidence, 0, 1, "confidence")
        if exact_confidence > MAX_CONFIDENCE:
            raise InvalidInput("confidence must be at most 1 - 10^-12: the limits are computed to about twelve digits")
        count = as_rational(draws, "draws")
        if count.denominator != 1 or not MIN_DRAWS <= count <= MAX_DRAWS:
            allowed = f"a whole number from {MIN_DRAWS:,} to {MAX_DRAWS:,}"
            raise InvalidInput(f"draws must be {allowed}; got {format_exact(count)}")
        return Claim(exact_epsilon, exact_delta, int(count), exact_confidence)


def audit_mechanism(
    mechanism: Mechanism,
    D: object,  # noqa: N803 (as in the literature)
    D2: object,  # noqa: N803
    epsilon: object,
    delta: object = 0,
    draws: object = 1_000_000,
    confidence: object = 0.999,
    progress: Callable[[str], None] | None = None,
) -> Audit:
    """Compute a lower bound on the epsilon of a mechanism, from independent draws with each of two neighbors.

    A mechanism that keeps its claim on D and D2 is accused with probability at most 1 - confidence. An audit can refute
    a claim and never proves one.

    Args:
        mechanism: `mechanism(D, n)` returns n draws: an array of numbers, truth values or strings, an array with a row
            for each, or a list of numbers, texts, moments, rows of these, or anything that can be hashed. In an array
            numbers are compared as 64-bit floats; a list keeps all digits and types.
        D: A data set.
        D2: A neighbor of it.
        epsilon: The claimed epsilon.
        delta: The claimed delta.
        draws: How many draws to take with each of the two.
        confidence: The probability that the bound is right.
        progress: Called with a line about each step.

    Returns:
        The bound, the event that gives it, and whether the claim is refuted.

    Raises:
        InvalidInput: The claim or the mechanism's output is not valid.

    Example:
        >>> from discreet import DiscreteLaplace, audit_mechanism
        >>> from discreet.mechanisms import SYSTEM
        >>> noise = DiscreteLaplace(epsilon=1, sensitivity=1)
        >>> def count(D, n):
        ...     return len(D) + noise.sample_units(n, SYSTEM)
        >>> audit_mechanism(count, D=[1, 2, 3], D2=[1, 2], epsilon=1, draws=20_000, confidence=0.999999).violated
        False
    """
    claim = Claim.of(epsilon, delta, draws, confidence)
    show = progress or _ignore_progress
    require_callable(show, "progress")
    sample, sample2 = sample_output_pair(mechanism, (D, D2), claim.draws, show)
    show("choosing an event: 2 of 4")
    candidate = choose_event(
        sample.take_every(0, 2), sample2.take_every(0, 2), float(claim.delta), float(claim.confidence)
    )
    show("testing it: 3 of 4")
    return measure_event(candidate, sample.take_every(1, 2), sample2.take_every(1, 2), claim)


def sample_output_pair(
    mechanism: Mechanism, data: tuple[object, object], count: int, show: Callable[[str], None]
) -> tuple[OutputSample, OutputSample]:
    """Sample with both data sets, each in one call, so that a generator seeded in the mechanism repeats nothing."""
    if not callable(mechanism):
        raise InvalidInput(f"a mechanism is called as mechanism(D, n); got {type(mechanism).__name__}")
    show("drawing with D: 0 of 4")
    outputs = mechanism(data[0], count)
    show("drawing with D2: 1 of 4")
    return read_output_pair(outputs, mechanism(data[1], count), count)


def measure_event(candidate: CandidateEvent, sample: OutputSample, sample2: OutputSample, claim: Claim) -> Audit:
    """Compute the bound from draws that had no part in choosing the event.

    One event is tested, however many were tried: the confidence needs no other correction (see confidence_bound.md).
    """
    keys = candidate.feature.keys(sample), candidate.feature.keys(sample2)
    counts = [int(candidate.contains(sample_keys).sum()) for sample_keys in keys]
    count, other, draws = counts[candidate.direction], counts[1 - candidate.direction], min(len(sample), len(sample2))
    bound = compute_epsilon_bound(count, other, draws, float(claim.delta), float(claim.confidence))
    event = Event(format_event(candidate), DATA_SETS[candidate.direction], count, other, draws)
    terms = claim.epsilon, claim.delta, claim.draws, claim.confidence
    return Audit(bound, event, *terms, AuditEvidence(keys, candidate))


def _ignore_progress(_: str) -> None:
    return None


def audit_worst(
    mechanism: Mechanism,
    pairs: Iterable[tuple[object, object]],
    epsilon: object,
    delta: object = 0,
    draws: object = 1_000_000,
    confidence: object = 0.999,
    progress: Callable[[str], None] | None = None,
) -> Audit:
    """Audit the most promising pair of neighbors with fresh draws, so that choosing among many costs no confidence.

    Args:
        mechanism: `mechanism(D, n)` returns n draws, as for `audit_mechanism`.
        pairs: Pairs of neighboring data sets.
        epsilon: The claimed epsilon.
        delta: The claimed delta.
        draws: The draws of the audit with each data set; to choose the pair, a quarter as many are drawn in addition,
            over all pairs.
        confidence: The probability that the bound is right.
        progress: Called with a line about each step.

    Returns:
        The audit of the pair that looked worst.

    Raises:
        InvalidInput: The claim, the pairs or the mechanism's output are not valid.

    Example:
        >>> from discreet.verification import audit_worst
        >>> def leak(D, n):  # counts without noise
        ...     return [len(D)] * n
        >>> audit_worst(leak, [([1], [1, 2]), ([], [1])], epsilon=1, draws=4000).violated
        True
    """
    claim = Claim.of(epsilon, delta, draws, confidence)
    pair_list = _check_pairs(pairs)
    require_callable(progress or _ignore_progress, "progress")
    worst = pair_list[find_worst_pair(mechanism, pair_list, claim, progress or _ignore_progress)]
    terms = claim.epsilon, claim.delta, claim.draws, claim.confidence
    return audit_mechanism(mechanism, *worst, *terms, progress=progress)


def _check_pairs(pairs: object) -> list[tuple[object, object]]:
    if not isinstance(pairs, Iterable) or isinstance(pairs, str | bytes):
        raise InvalidInput(f"the pairs of neighbours are a list of (D, D2); got {type(pairs).__name__}")
    pair_list = list(pairs)
    for number, pair in enumerate(pair_list, start=1):
        if not isinstance(pair, tuple | list):
            raise InvalidInput(f"a pair is two data sets (D, D2); pair {number} is {type(pair).__name__}")
        if len(pair) != 2:
            raise InvalidInput(f"a pair is two data sets (D, D2); pair {number} has {len(pair)}")
    if not pair_list:
        raise InvalidInput("an audit needs at least one pair of neighbours, got none")
    return pair_list


def find_worst_pair(
    mechanism: Mechanism, pairs: Sequence[tuple[object, object]], claim: Claim, show: Callable[[str], None]
) -> int:
    """Return the index of the pair whose best event promises most; nothing is drawn if there is one pair."""
    if len(pairs) == 1:
        return 0
    count = max(claim.draws // (SEARCH_SHARE * len(pairs)), MIN_SEARCH_DRAWS)
    best, most = 0, -math.inf
    for index, pair in enumerate(pairs):
        show(f"looking at pairs: {index} of {len(pairs)}")
        sample, sample2 = sample_output_pair(mechanism, pair, count, _ignore_progress)
        promise = choose_event(sample, sample2, float(claim.delta), float(claim.confidence)).estimated_bound
        if promise > most:
            best, most = index, promise
    return best


def build_audit_picture(audit: Audit) -> Layer:
    """Build the picture in Vega-Lite: two outlines with the event shaded, or two bars if keys have no order."""
    axis = audit.evidence.candidate.feature.axis
    sides = [] if axis is None else [axis(keys) for keys in audit.evidence.keys]
    finite = [numbers[np.isfinite(numbers)] for numbers in sides]
    has_outlines = bool(finite) and all(map(len, finite))
    layers, is_shaded = _build_outlines(audit.evidence, *finite) if has_outlines else (_build_bars(audit), False)
    caption = audit.sentence()
    if is_shaded:
        caption += f" Shaded is {'that event' if audit.violated else f'the event: {audit.event.words}'}."
    title = {"text": "Answers with either data set, and the event", "anchor": "start", "frame": "group", "fontSize": 15}
    spec: Layer = {"title": title, "description": caption, "config": charts.CONFIG, "padding": 14}
    return spec | {"width": charts.WIDTH, "height": charts.HEIGHT, "usermeta": {"labels": "level"}, "layer": layers}


def _build_outlines(evidence: AuditEvidence, first: Numbers, second: Numbers) -> tuple[list[Layer], bool]:
    """The histograms of both over the same bins, in front of the event; and whether any of it is shaded."""
    all_numbers = np.concatenate([first, second])
    edges = _build_bin_edges(all_numbers)
    rows = []
    for name, numbers in zip(DATA_SET_STYLES, (first, second), strict=True):
        shares = (np.histogram(numbers, edges)[0] / len(numbers)).tolist()
        outline = [(float(edges[0]), 0.0), *zip(edges.tolist(), [*shares, 0.0], strict=True)]
        rows += [{"x": x, "share": share, "data": name} for x, share in outline]
    span = [float(edges[0]), float(edges[-1])]
    x_axis: Layer = {"type": "quantitative", "title": evidence.candidate.feature.name[:90].rstrip(", ")}
    x_axis |= {"scale": {"domain": span, "nice": False}}
    y_axis: Layer = {"field": "share", "type": "quantitative", "title": "probability", "axis": PERCENT_AXIS}
    line = {"type": "line", "interpolate": "step-after", "strokeWidth": 2}
    places = {"x": x_axis | {"field": "x"}, "y": y_axis, "color": _build_style(0), "strokeDash": _build_style(1)}
    shaded_ranges = _list_shaded_ranges(evidence, span, _are_plotted_whole(all_numbers))
    shade = [{"from": low, "to": high} for low, high in shaded_ranges]
    rect = {"type": "rect", "color": GRAY, "opacity": 0.22}
    band = build_layer(shade, rect, x=x_axis | {"field": "from"}, x2={"field": "to"})
    return [band, build_layer(rows, line, **places)], bool(shade)


def _build_bin_edges(numbers: Numbers) -> Numbers:
    """The edges of common bins without the outermost thousandths; each bin has the same number of whole numbers."""
    low, high = _find_plot_ends(numbers)
    if _are_plotted_whole(numbers):
        width = max(-(-int(high - low + 1) // BINS), 1)
        return np.arange(low - 0.5, high + width + 0.5, width)
    margin = 0.0 if high > low else max(abs(low) / 100, 0.5)
    return np.linspace(low - margin, high + margin, BINS + 1)


def _are_plotted_whole(numbers: Numbers) -> bool:
    """Whether all are whole numbers, and those that are plotted small enough to add a half to them."""
    return bool((numbers == np.floor(numbers)).all()) and max(map(abs, _find_plot_ends(numbers))) < 2**50


def _find_plot_ends(numbers: Numbers) -> tuple[float, float]:
    """The range without the outermost thousandths."""
    low, high = np.quantile(numbers, [TAIL, 1 - TAIL], method="nearest").tolist()
    return low, high


def _list_shaded_ranges(evidence: AuditEvidence, span: list[float], is_whole: bool) -> list[tuple[float, float]]:
    """The event along the line; a whole number t goes from t - 1/2 to t + 1/2, as its bin does."""
    ranges = []
    for low_key, high_key in evidence.candidate.list_spans():
        low = max(_find_limit(evidence, low_key, span[0], is_whole), span[0])
        high = min(_find_limit(evidence, high_key, span[1], is_whole), span[1])
        ranges += [(low, high)] if low < high else []
    return ranges[:MAX_SHADED]


def _find_limit(evidence: AuditEvidence, key: int | None, end: float, is_whole: bool) -> float:
    axis = evidence.candidate.feature.axis
    if key is None or axis is None:
        return end
    position = float(axis(np.array([key]))[0])
    if not np.isfinite(position):
        return end
    return math.ceil(position) - 0.5 if is_whole else position


def _build_bars(audit: Audit) -> list[Layer]:
    """How often the event occurred with either data set, with the limits that the bound is made of."""
    event, miss = audit.event, float(1 - audit.confidence) / 2
    names = (event.likelier, "D2" if event.likelier == "D" else "D")
    rows = []
    for name, count in zip(names, (event.count, event.other_count), strict=True):
        low, high = compute_clopper_pearson(count, event.draws, miss)
        rows.append({"data": name, "share": count / event.draws, "low": low, "high": high})
    x_axis: Layer = {"field": "data", "type": "nominal", "title": None}
    x_axis |= {"sort": list(DATA_SET_STYLES), "axis": {"labelAngle": 0}}
    y_axis: Layer = {"type": "quantitative", "title": "probability of the event", "axis": PERCENT_AXIS}
    color = _build_style(0) | {"legend": None}
    ends: dict[str, Layer] = {"y": y_axis | {"field": "low"}, "y2": {"field": "high"}}
    return [
        build_layer(rows, {"type": "bar", "opacity": 0.6}, x=x_axis, y=y_axis | {"field": "share"}, color=color),
        build_layer(rows, {"type": "rule", "color": INK, "strokeWidth": 2}, x=x_axis, **ends),
    ]


def _build_style(index: int) -> Layer:
    """The color (0) or the dash (1) of each data set, in one legend on top."""
    scale = {"domain": list(DATA_SET_STYLES), "range": [style[index] for style in DATA_SET_STYLES.values()]}
    legend = {"orient": "top", "symbolSize": 250, "symbolStrokeWidth": 2, "offset": 6}
    return {"field": "data", "type": "nominal", "title": None, "scale": scale, "legend": legend}
