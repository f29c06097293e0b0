"""Quantiles, extremes and modes: a choice among public candidates, by counts. Proofs: selection.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.formatting import format_confidence, format_whole_upper
from discreet.measurements.base import (
    UNPRICED,
    AggregateRequest,
    HistogramRequest,
    NoisyOutputs,
    SelfReading,
    to_float_interval,
)
from discreet.measurements.candidate_grid import MAX_CANDIDATES, CandidateGrid, PositionRefinement
from discreet.measurements.contribution_bounds import ContributionBounds
from discreet.measurements.observed_loss import (
    InputChange,
    Inputs,
    ObservedLoss,
    compute_noise_loss,
    compute_refinement_change,
    compute_selection_loss,
    compute_share,
    count_max_changes,
    follow_splits,
    pair_inputs,
)
from discreet.measurements.prior_on_grid import PositionPrior, build_even_prior, place_prior
from discreet.measurements.trimmed_mean import MAX_RANKED_ROWS, RankMean, compute_rank_error, select_rank_mean
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.exponential_mechanism import Exponential, Selection
from discreet.mechanisms.permute_and_flip import PermuteAndFlip, choose_position
from discreet.mechanisms.quantile import Bracket, BracketEnd, Extreme, Quantile, Quantiles, compute_rank_scores
from discreet.priors.distance import ContinuousDistance, Distance, NominalDistance, OrdinalDistance, SemanticDistance
from discreet.priors.posterior import Posterior
from discreet.priors.prior import Prior, PriorUse
from discreet.privacy.cost import PrivacyCost
from discreet.query.query import Aggregate
from discreet.schema import Column, Schema
from discreet.schema.schema import Interval, Value
from discreet.untrusted import has_exact_type

BRACKET_CONFIDENCE = 0.95
FEW_SPLITS_NOTE = "over a few of the ways in which the rows may be parted"
INTERVAL_ENDS: tuple[BracketEnd, BracketEnd] = ("low", "high")
MAX_COUNTS = 2**22
MIN_CANDIDATES = 256
"""Over many cells the candidates are fewer, so that all counts together stay within memory."""
MAX_REFINED_ERROR_RATIO = 0.95
PRIOR_UNHELPFUL = "a draw from it would hardly tell more than it does, and a choice by rank uses all rows"
EXTREME_PLACES: dict[str, tuple[int, Literal["top", "bottom"]]] = {"max": (1, "top"), "second_max": (2, "top")}
EXTREME_PLACES |= {"min": (1, "bottom")}
CandidateCounts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Mode:
    """The most frequent candidate: permute-and-flip on counts, or the exponential mechanism with a prior."""

    selection: Selection
    count: int
    prior: Prior | None

    def answer_counts(self, counts: CandidateCounts, entropy: Entropy) -> int:
        """The position of one candidate."""
        if self.prior is None:
            return choose_position(PermuteAndFlip(self.selection), counts, entropy)
        return int(cast(int, Exponential(self.selection, self.prior).answer(counts[self.prior.index], entropy)))

    def score_bound(self, confidence: float) -> float:
        """How many rows fewer than the most frequent one the chosen value may have."""
        share = 1 / self.count if self.prior is None else int(self.prior.mass.min()) / self.prior.total
        return self.selection.compute_score_bound(confidence, share)


@dataclass(frozen=True, eq=False, slots=True)
class RefinedStatistic:
    """A quantile, an extreme or a mode refined from a prior: independent of sensitivity."""

    aggregate: Aggregate
    position_refinement: PositionRefinement
    is_even_prior: bool

    def find_truth(self, counts: CandidateCounts) -> int | None:
        """The position of the statistic itself; None where there are too few rows. Secret."""
        if self.aggregate.function == "mode":
            return int(counts.argmax()) if counts.any() else None
        if self.aggregate.function == "quantile":
            q = self.aggregate.orders[0]
            place, end = max(1, -(-q.numerator * int(counts.sum()) // q.denominator)), "bottom"
        else:
            place, end = EXTREME_PLACES[self.aggregate.function]
        cumulative = np.cumsum(counts[::-1])[::-1] if end == "top" else np.cumsum(counts)
        positions = np.flatnonzero(cumulative >= place)
        if not len(positions):
            return None
        return int(positions[-1] if end == "top" else positions[0])

    def answer_counts(self, counts: CandidateCounts, entropy: Entropy) -> int:
        """The position of one draw."""
        return self.position_refinement.sample(self.find_truth(counts), entropy)


SelectionMechanism = Quantile | Quantiles | Extreme | Mode | RefinedStatistic | RankMean


@dataclass(frozen=True, eq=False, slots=True)
class CandidateSelection(SelfReading):
    """A choice among candidates, from how many rows each has; with a bracket mechanism, an interval drawn about it."""

    candidates: CandidateGrid
    mechanism: SelectionMechanism
    name: str
    bracket_mechanism: Bracket | None = None
    stated_prior: Prior | None = None
    rival: CandidateSelection | None = None
    """What was weighed beside it: for an extreme with a prior, and where a mean of ranks could stand for one rank."""
    prior_use: PriorUse | None = None
    """How the analyst's prior was used; None where there is none, or the mechanism does not use it."""
    prior_unused_reason: str = ""
    """Why the analyst's prior was not used, where there is one that was not."""
    privacy_cost: PrivacyCost = field(default=UNPRICED, kw_only=True)

    @property
    def uses_prior(self) -> bool:
        """Whether the mechanism itself used the analyst's prior, so that the answer is shaped by it."""
        if isinstance(self.mechanism, RefinedStatistic):
            return not self.mechanism.is_even_prior
        return self._base_prior is not None

    @property
    def distance_name(self) -> str | None:
        """The distance that shaped the answer, for its name in the store."""
        return None if self._position_refinement is None else self._position_refinement.distance_name

    @property
    def _position_refinement(self) -> PositionRefinement | None:
        return self.mechanism.position_refinement if isinstance(self.mechanism, RefinedStatistic) else None

    @property
    def _base_prior(self) -> Prior | None:
        """The prior over positions that a choice by score has as its base measure."""
        match self.mechanism:
            case Quantile() | Quantiles():
                return self.mechanism.candidates.prior
            case Mode():
                return self.mechanism.prior
        return None

    @property
    def rivals(self) -> tuple[tuple[str, float | None], ...]:
        if self.rival is None:
            return ()
        # The error of a mean of ranks depends on the rows, as that of a choice by rank.
        is_mean = isinstance(self.rival.mechanism, RankMean)
        return ((self.rival.name, None if is_mean else self.rival.expected_error()),)

    @property
    def is_exponential(self) -> bool:
        """Whether it is one choice by the exponential mechanism: its losses span epsilon only (selection.md)."""
        return self.bracket_mechanism is None and self._base_prior is not None

    @property
    def is_plottable(self) -> bool:
        return self.get_stated_distribution() is not None

    def scan(self) -> HistogramRequest:
        return HistogramRequest(self.candidates.bins, self.candidates.count)

    def measure(self, inputs: Sequence[CandidateCounts], entropy: Entropy) -> list[NoisyOutputs]:
        """Positions, one per order, then the two ends of the interval; of a mean of ranks the noisy sum of them."""
        return [self._sample_positions(counts, entropy) for counts in inputs]

    def _sample_positions(self, counts: CandidateCounts, entropy: Entropy) -> NoisyOutputs:
        sample = self.mechanism.answer_counts(counts, entropy)
        ends = () if self.bracket_mechanism is None else self.bracket_mechanism.answer_counts(counts, entropy)
        return (*(int(position) for position in (sample if isinstance(sample, list) else [sample])), *ends)

    def cache_key(self) -> list[object]:
        return [self.name, self.candidates.width, self.candidates.count, self.distance_name]

    def compare_inputs(self, inputs: Inputs, other_inputs: Inputs, schema: Schema) -> InputChange:
        """The rows of one unit move, or of two where it is replaced; scores follow from these counts."""
        pairs = pair_inputs(inputs, other_inputs, np.zeros(self.candidates.count, np.int64))
        total_change = sum(int(np.abs(counts - other_counts).sum()) for counts, other_counts in pairs)
        loss = ObservedLoss.total(self._compute_loss(*pair) for pair in pairs)
        loss = ObservedLoss(loss.epsilon, loss.rho / 4) if self.is_exponential else loss
        note = FEW_SPLITS_NOTE if isinstance(self.mechanism, Quantiles) else ""
        return InputChange({"rows": compute_share(total_change, count_max_changes(schema))}, loss, note)

    def _compute_loss(self, counts: CandidateCounts, other_counts: CandidateCounts) -> ObservedLoss:
        """The loss in one cell: of the choice itself, and of the two ends sampled around it."""
        bracket, loss = self.bracket_mechanism, _compute_choice_loss(self.mechanism, counts, other_counts)
        if bracket is None:
            return loss
        for end in INTERVAL_ENDS:
            scores = bracket.scores(counts, end), bracket.scores(other_counts, end)
            loss += compute_selection_loss(bracket.mechanism.selection, *scores)
        return loss

    def values(self, outputs: Sequence[int]) -> tuple[Value, ...]:
        """What the positions of the orders, or the sum, stand for."""
        if isinstance(self.mechanism, RankMean):
            return (self.mechanism.value(outputs[0]),)
        positions = outputs if self.bracket_mechanism is None else outputs[:1]
        return tuple(self.candidates.get_value(position) for position in positions)

    def bracket_values(self, outputs: Sequence[int]) -> tuple[Value, Value] | None:
        """The values that the quantile lies between, from end to end of their bins; never without the point itself."""
        if self.bracket_mechanism is None:
            return None
        codes = [code for position in outputs for code in self.candidates.get_code_range(position)]
        return self.candidates.column.decode(min(codes)), self.candidates.column.decode(max(codes))

    def interval(self, outputs: Sequence[int], confidence: float) -> Interval:
        """The two values that were drawn about a quantile, where they hold with that probability."""
        return to_float_interval(self.bracket_values(outputs)) if confidence <= BRACKET_CONFIDENCE else None

    def expected_error(self) -> float | None:
        """The root mean square error of the refined value, the prior being right; None where it depends on the rows.

        Of a mean of ranks, for rows that are spread evenly.
        """
        if isinstance(self.mechanism, RankMean):
            return self.mechanism.expected_error()
        return None if self._position_refinement is None else self._position_refinement.expected_error()

    def compute_even_row_error(self, target_rank: int, rows: int) -> float | None:
        """The expected error for the value of one rank, if so many rows are spread evenly; None where it is no rank."""
        if isinstance(self.mechanism, RankMean):
            return self.mechanism.expected_error()
        if not isinstance(self.mechanism, Quantile | Extreme):
            return None
        within = (self.candidates.width - 1) * float(self.candidates.column.step) / math.sqrt(12)
        rule = _get_selection_rule(self.mechanism)
        return math.hypot(compute_rank_error(self.candidates, target_rank, rows, *rule), within)

    def explain_choice(self) -> str:
        """Why not the mean of ranks that was weighed beside a choice by rank; nothing where none was."""
        rank_mean = None if self.rival is None else self.rival.mechanism
        if not isinstance(rank_mean, RankMean) or not isinstance(self.mechanism, Quantile | Extreme):
            return ""
        return rank_mean.explain_rejection(*_get_selection_rule(self.mechanism))

    def get_stated_distribution(self) -> Posterior | None:
        """The prior in units of the answer, where there is one."""
        if self._position_refinement is not None:
            return self._position_refinement.get_stated_distribution()
        prior = self.stated_prior or self._base_prior
        return None if prior is None else self.candidates.build_distribution(prior.index, prior.mass / prior.total)

    def is_surprising(self, outputs: Sequence[int], tail: float) -> bool:
        """Whether a value chosen by score lies in the tails, so small on either side, of what was stated."""
        prior = self.stated_prior
        if prior is None or isinstance(self.mechanism, RefinedStatistic) or self.candidates.column.categories:
            return False
        share = prior.mass / prior.total
        below, above = (float(share[side].sum()) for side in (prior.index <= outputs[0], prior.index >= outputs[0]))
        return min(below, above) < tail

    def posterior(self, outputs: Sequence[int]) -> Posterior | None:
        """What is known after a refinement's draw; None for the other choices, whose laws depend on all rows."""
        return None if self._position_refinement is None else self._position_refinement.posterior(outputs[0])

    def describe_accuracy(self, confidence: float, likely: str = "") -> str:
        """What may be said of its accuracy without looking, and with which probability."""
        description = self._describe_mechanism_accuracy(confidence, likely or format_confidence(confidence))
        if self.bracket_mechanism is None:
            return description
        if confidence > self.bracket_mechanism.confidence:
            return f"{description}; the two values are not shown, since they are drawn for one group by itself"
        probability = likely or format_confidence(self.bracket_mechanism.confidence)
        return f"{description}; it lies between the two values {probability}"

    def _describe_mechanism_accuracy(self, confidence: float, likely: str) -> str:
        subject = "it" if self.candidates.width == 1 else f"a value of its bin, {self.candidates.width_text} wide,"
        match self.mechanism:
            case Quantile() | Extreme():
                rows = f"{format_whole_upper(self.mechanism.rank_bound(confidence))} rows"
                statement = f"{subject} has a rank that is off by less than {rows} {likely}"
                if isinstance(self.mechanism, Extreme):
                    return f"{statement}; it may lie beyond all rows where the bounds do"
                if not self.uses_prior:
                    return statement
                condition = "where your prior holds that value impossible, the rows up to the nearest possible one"
                return f"fewer than {rows} lie between {subject} and the exact value {likely}; {condition} come on top"
            case Mode():
                off = format_whole_upper(self.mechanism.score_bound(confidence))
                most = f"the most frequent value{' that your prior holds possible' if self.uses_prior else ''}"
                return f"it has fewer rows than {most} by less than {off} {likely}"
            case RefinedStatistic(is_even_prior=is_even):
                return f"a draw shaped by {describe_prior_owner(is_even)} prior"
            case RankMean():
                return self.mechanism.describe_accuracy(likely, confidence)
        return "how far it is off in values depends on the rows and is not told"


def _compute_choice_loss(
    choice: SelectionMechanism, counts: CandidateCounts, other_counts: CandidateCounts
) -> ObservedLoss:
    match choice:
        case Quantile():
            base = slice(None) if choice.candidates.prior is None else choice.candidates.prior.index
            scores = [compute_rank_scores(table_counts, choice.q)[base] for table_counts in (counts, other_counts)]
            return compute_selection_loss(choice.selection, *scores)
        case Extreme():
            scores = [choice.scores(counts), choice.scores(other_counts)]
            return compute_selection_loss(choice.mechanism.selection, *scores)
        case Mode():
            base = slice(None) if choice.prior is None else choice.prior.index
            return compute_selection_loss(choice.selection, counts[base], other_counts[base])
        case RefinedStatistic():
            truths = choice.find_truth(counts), choice.find_truth(other_counts)
            epsilon = choice.position_refinement.refinement.cost().epsilon
            return compute_refinement_change([truths], epsilon).observed_loss
        case RankMean():
            move = choice.ranks.sum_positions(counts) - choice.ranks.sum_positions(other_counts)
            return compute_noise_loss(choice.noise, [move])
        case Quantiles():  # the losses of all choices add up; the worst of a few ways in which they come out
            losses = [
                ObservedLoss.total(
                    compute_selection_loss(split.selection, split.scores, other_split.scores)
                    for split, other_split in splits
                )
                for splits in follow_splits(choice, counts, other_counts)
            ]
            return max(losses, key=lambda loss: loss.epsilon)


SELECTION_FUNCTIONS = frozenset({"quantile", "mode", *EXTREME_PLACES})


def propose_selection(request: AggregateRequest) -> tuple[CandidateSelection, ...]:
    """Propose the one mechanism that fits, chosen by its own rules, with what it was weighed against."""
    return () if request.column is None else (build_selection(request, request.column),)


def build_selection(request: AggregateRequest, column: Column) -> CandidateSelection:
    """The choice of mechanism for a quantile, an extreme or a mode of a column; with a distance, refinement by it."""
    selection, epsilon = _select_mechanism(request, column), request.epsilon
    rho = epsilon**2 / (8 if selection.is_exponential else 2)
    return replace(selection, privacy_cost=PrivacyCost(epsilon, rho))


def _select_mechanism(request: AggregateRequest, column: Column) -> CandidateSelection:
    aggregate, bounds, epsilon = request.aggregate, request.bounds, request.epsilon
    prior, tail, distance, interval = request.prior, request.tail, request.distance, request.interval
    if interval and (aggregate.function != "quantile" or len(aggregate.orders) != 1 or distance is not None):
        raise InvalidInput("interval=True is for MEDIAN or QUANTILE with one order and no distance; leave it out here")
    candidates = CandidateGrid.of(column, max(MIN_CANDIDATES, min(MAX_CANDIDATES, MAX_COUNTS // (bounds.cells or 1))))
    position_prior = None if prior is None else place_prior(column, candidates.width, candidates.count, prior, tail)
    # Side by side, every row that comes to a cell or goes from one pays its own share (selection.md).
    share, rows = (epsilon / bounds.l0_bound, 1) if bounds.is_grouped else (epsilon, bounds.rows_per_unit)
    neighbors = "add-remove" if bounds.is_grouped else bounds.schema.neighbors
    if aggregate.function == "mode" and candidates.width > 1:
        raise Unsupported(f"MODE is of at most {MAX_CANDIDATES:,} values; ask for a histogram with BIN instead")
    if distance is not None:
        return _build_refinement(aggregate, candidates, share, neighbors, position_prior, distance)
    if position_prior is not None and aggregate.function in EXTREME_PLACES:
        refinement_selection = _build_refinement(aggregate, candidates, share, neighbors, position_prior, None)
        rank_selection = _build_rank_selection(aggregate, candidates, share, rows)
        return _weigh_refinement(refinement_selection, rank_selection, candidates, position_prior, request.mechanism)
    match aggregate.function:
        case "quantile" if interval:
            return _build_bracketed_quantile(aggregate, candidates, share, neighbors, rows, position_prior)
        case "quantile":
            rank_selection = _build_quantile(aggregate, candidates, share, neighbors, rows, position_prior)
            if prior is not None:
                return rank_selection
            return _weigh_rank_mean(aggregate, rank_selection, bounds, epsilon, request.mechanism)
        case "mode":
            return _build_mode(candidates, share, neighbors, rows, position_prior)
        case "max" | "second_max" | "min":
            rank_selection = _build_rank_selection(aggregate, candidates, share, rows)
            return _weigh_rank_mean(aggregate, rank_selection, bounds, epsilon, request.mechanism)
    raise InvalidInput(f"{aggregate.function} is not a choice among values")


def _weigh_refinement(
    refinement_selection: CandidateSelection,
    rank_selection: CandidateSelection,
    candidates: CandidateGrid,
    position_prior: PositionPrior,
    stored_mechanism: str,
) -> CandidateSelection:
    """Refinement where the prior tells more than ranks do, or leaves values out; the other is its rival."""
    refines = _is_informative(refinement_selection)
    if stored_mechanism in (refinement_selection.name, rank_selection.name):
        refines = stored_mechanism == refinement_selection.name
    if refines or _has_excluded_values(candidates, position_prior):
        return replace(refinement_selection, rival=rank_selection)
    return replace(rank_selection, rival=refinement_selection, prior_unused_reason=PRIOR_UNHELPFUL)


def _build_bracketed_quantile(
    aggregate: Aggregate,
    candidates: CandidateGrid,
    share: Fraction,
    neighbors: str,
    rows: int,
    position_prior: PositionPrior | None,
) -> CandidateSelection:
    """A quantile and two values around it, each for half of epsilon."""
    point_selection = _build_quantile(aggregate, candidates, share / 2, neighbors, rows, position_prior)
    bracket = Bracket.of(aggregate.orders[0], candidates.count, share / 2, neighbors, rows)
    name = f"{point_selection.name}, and two bracketing quantiles"
    return replace(point_selection, name=name, bracket_mechanism=bracket)


def resolve_distance(column: Column, distance: Distance | str) -> Distance:
    """The distance that was named or brought, where it can measure the column's values."""
    resolved_distance = _find_named_distance(column, distance) if isinstance(distance, str) else distance
    # Only our own: another's would be handed the truth.
    classes = (OrdinalDistance, SemanticDistance) if column.categories else (ContinuousDistance,)
    if resolved_distance is None or not has_exact_type(resolved_distance, NominalDistance, *classes):
        got = f"{distance[:40]!r}" if isinstance(distance, str) else type(distance).__name__
        raise InvalidInput(f"the distance of {column.name} is {_format_offered_distances(column)}, got {got}")
    if not all(map(resolved_distance.knows, column.categories)):
        raise InvalidInput(f"the distance does not know every category of {column.name}; give it all of them")
    return resolved_distance


def select_column_distance(column: Column) -> Distance:
    """How near values are if nobody says otherwise: by number or place, by taxonomy, or equal or not."""
    if not column.categories:
        return ContinuousDistance()
    if column.is_ordered:
        return Distance.ordinal(column.categories)
    return NominalDistance() if column.taxonomy is None else Distance.semantic(column.taxonomy)


def describe_prior_owner(is_even: bool) -> str:
    """Whether a prior is the analyst's."""
    return "an even" if is_even else "your"


def format_refinement_name(is_even: bool, distance: Distance | str | None) -> str:
    """A refinement as people call it; with the distance, if one was brought."""
    name = f"refinement of {describe_prior_owner(is_even)} prior"
    if distance is None:
        return name
    return f"{name}, {distance if isinstance(distance, str) else distance.stored_name} distance"


def _find_named_distance(column: Column, name: str) -> Distance | None:
    """A distance by its name, where the column has what it takes."""
    match name:
        case "continuous":
            return ContinuousDistance()
        case "nominal":
            return NominalDistance()
        case "ordinal" if column.categories and column.is_ordered:
            return Distance.ordinal(column.categories)
        case "semantic" if column.taxonomy is not None:
            return Distance.semantic(column.taxonomy)
    return None


def _format_offered_distances(column: Column) -> str:
    if not column.categories:
        return "'continuous' or 'nominal'"
    if column.is_ordered:
        return "'ordinal' or 'nominal'"
    return "'nominal', since it has no taxonomy" if column.taxonomy is None else "'semantic' or 'nominal'"


def _build_quantile(
    aggregate: Aggregate,
    candidates: CandidateGrid,
    epsilon: Fraction,
    neighbors: str,
    rows: int,
    position_prior: PositionPrior | None,
) -> CandidateSelection:
    prior = None if position_prior is None else position_prior.used_prior
    arguments = (0, candidates.count - 1, epsilon, 1, neighbors, prior, rows)
    if len(aggregate.orders) == 1:
        return _build_choice(candidates, Quantile.of(aggregate.orders[0], *arguments), "ranks", position_prior)
    return _build_choice(candidates, Quantiles.of(aggregate.orders, *arguments), "ranks", position_prior)


def _build_choice(
    candidates: CandidateGrid, mechanism: Quantile | Quantiles | Mode, scores: str, position_prior: PositionPrior | None
) -> CandidateSelection:
    """A choice by score, with the prior that is its base measure, if there is one."""
    if position_prior is None:
        return CandidateSelection(candidates, mechanism, f"permute-and-flip on {scores}")
    return CandidateSelection(
        candidates.restrict_to_prior(position_prior),
        mechanism,
        f"exponential mechanism on {scores}",
        stated_prior=position_prior.stated_prior,
        prior_use=position_prior.prior_use,
    )


def _has_excluded_values(candidates: CandidateGrid, position_prior: PositionPrior) -> bool:
    """Whether a prior holds a value impossible that a choice by rank could return."""
    has_gaps = len(position_prior.used_prior) < candidates.count
    return has_gaps or candidates.restrict_to_prior(position_prior) is not candidates


def _is_informative(selection: CandidateSelection) -> bool:
    """Whether a refinement would leave clearly less open than its prior; by rank an extreme uses all rows instead."""
    stated_distribution, error = selection.get_stated_distribution(), selection.expected_error()
    if stated_distribution is None or error is None or not stated_distribution.numeric:
        return True
    return error**2 < MAX_REFINED_ERROR_RATIO**2 * stated_distribution.variance()


def _build_rank_selection(
    aggregate: Aggregate, candidates: CandidateGrid, epsilon: Fraction, rows: int
) -> CandidateSelection:
    place, end = EXTREME_PLACES[aggregate.function]
    extreme = Extreme.of(place, candidates.count, epsilon, rows, end)
    return CandidateSelection(candidates, extreme, "extreme by rank")


def _weigh_rank_mean(
    aggregate: Aggregate,
    rank_selection: CandidateSelection,
    bounds: ContributionBounds,
    epsilon: Fraction,
    mechanism: str,
) -> CandidateSelection:
    """A choice by rank with the mean of the ranks round it as its rival; where that mean is nearer, the other way."""
    candidates, public_rows = rank_selection.candidates, bounds.get_public_rows(rank_selection.candidates.column)
    if public_rows is None or public_rows > MAX_RANKED_ROWS or aggregate.function == "second_max":
        return rank_selection
    if not isinstance(rank_selection.mechanism, Quantile | Extreme):
        return rank_selection
    mean = select_rank_mean(aggregate, candidates, public_rows, epsilon, mechanism)
    rival = CandidateSelection(candidates, mean, mean.name)
    if mechanism:
        prefers_mean = mechanism == mean.name
    else:
        prefers_mean = mean.is_better(*_get_selection_rule(rank_selection.mechanism))
    return replace(rival, rival=rank_selection) if prefers_mean else replace(rank_selection, rival=rival)


def _get_selection_rule(mechanism: Quantile | Extreme) -> tuple[Selection, int]:
    """The selection by which a choice by rank is drawn, and how much one row counts in its scores."""
    if isinstance(mechanism, Extreme):
        return mechanism.mechanism.selection, 1
    return mechanism.selection, mechanism.q.denominator


def _build_refinement(
    aggregate: Aggregate,
    candidates: CandidateGrid,
    epsilon: Fraction,
    neighbors: str,
    position_prior: PositionPrior | None,
    distance: Distance | str | None,
) -> CandidateSelection:
    if len(aggregate.orders) > 1:
        raise InvalidInput("a distance is for one quantile at a time; ask for each order in a question of its own")
    column = candidates.column
    base_prior = position_prior or build_even_prior(column, candidates.width, candidates.count)
    column_distance = select_column_distance(column) if distance is None else resolve_distance(column, distance)
    refinement = PositionRefinement.of(candidates, base_prior, epsilon, "statistic", neighbors, column_distance)
    statistic = RefinedStatistic(aggregate, refinement, position_prior is None)
    name = format_refinement_name(position_prior is None, distance)
    prior_use = None if position_prior is None else position_prior.prior_use
    return CandidateSelection(refinement.candidates, statistic, name, prior_use=prior_use)


def _build_mode(
    candidates: CandidateGrid, epsilon: Fraction, neighbors: str, rows: int, position_prior: PositionPrior | None
) -> CandidateSelection:
    # Rows that come only raise counts, so no two counts move apart by more than r.
    bounded_range = rows if neighbors == "add-remove" else 2 * rows
    prior = None if position_prior is None else position_prior.used_prior
    mode = Mode(Selection.of(epsilon, rows, bounded_range), candidates.count, prior)
    return _build_choice(candidates, mode, "counts", position_prior)
