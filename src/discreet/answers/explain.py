"""An answer explained: a sentence for each number, and how far off it may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import cached_property, partial

import numpy as np

from discreet.answers.answer import (
    Answer,
    AnswerDetails,
    AnswerValue,
    IntervalRows,
    PopulationEstimate,
    PosteriorRows,
    RangeCount,
    ReconciledRows,
    Rows,
)
from discreet.answers.decode import (
    Decoder,
    ShownNumbers,
    decode_result,
)
from discreet.answers.hierarchical_answer import (
    HierarchicalCounts,
    ReleasedBlocks,
    build_histogram_counts,
)
from discreet.answers.population_estimates import estimate_population
from discreet.answers.reconciled_counts import reconcile_or_keep_raw, reconcile_rows
from discreet.charts import DistributionChart, build_picture_spec
from discreet.estimation.constraint_set import StatedConstraint
from discreet.formatting import (
    format_day,
    format_day_ends,
    format_ends,
    format_estimate,
    format_percent,
    format_upper,
    format_value,
)
from discreet.json_fields import JsonSerializable
from discreet.measurements.additive import list_example_rows
from discreet.measurements.base import Reading
from discreet.numeric import EPOCH, format_exact
from discreet.planner.plan import NoisyResult, Plan
from discreet.priors.posterior import Posterior
from discreet.privacy.guarantee import Guarantee
from discreet.schema.schema import Interval

MAX_NAMES = 3
"""So many categories are named in a sentence."""
ROUNDING_TOLERANCE = 1e-9
FREE = Fraction(0)
MAX_CHECKED_ROWS = 512
"""So many rows of a reply are compared with the prior, at most."""


def build_answer(
    plan: Plan,
    noisy_result: NoisyResult,
    question: str,
    paid_epsilon: Fraction,
    entry: int | None,
    spent_epsilon: Mapping[str, Fraction | None],
    constraints: Sequence[StatedConstraint] = (),
) -> Answer:
    """Decode noisy outputs and explain them; `constraints` are what the analyst states of its count."""
    decoded = decode_result(plan, noisy_result, question)
    return explain_result(plan, decoded, question, paid_epsilon, entry, spent_epsilon, constraints)


def explain_result(
    plan: Plan,
    decoded: ShownNumbers | ReleasedBlocks,
    question: str,
    paid_epsilon: Fraction,
    entry: int | None,
    spent_epsilon: Mapping[str, Fraction | None],
    constraints: Sequence[StatedConstraint] = (),
) -> Answer:
    """Say what the rows mean: how accurate they are, what is promised, what was paid, and what to doubt."""
    outputs, shown = plan.query.presentation.outputs, decoded if isinstance(decoded, ShownNumbers) else None
    accuracy, missed_accuracy = _state_accuracy(plan, shown)
    return Answer(
        question=question,
        columns=tuple(output.label for output in outputs),
        numbers=tuple(output.label for output in outputs if output.key is None),
        rows=decoded.rows,
        mechanism=plan.mechanism,
        accuracy=accuracy,
        missed_accuracy=missed_accuracy,
        guarantee=plan.guarantee,
        cost=plan.guarantee if paid_epsilon else Guarantee.dp(0, plan.schema.neighbors, plan.schema.unit_name),
        spent=spent_epsilon,
        stored=paid_epsilon == FREE and not plan.is_free,
        entry=entry,
        warning=None if shown is None else _build_prior_warning(shown),
        shaped=plan.uses_prior,
        prior=plan.prior is not None,
        prior_tail=None if plan.prior_use is None else plan.prior_use.tail,
        prior_use=plan.prior_description,
        joint_coverage=plan.coverage.format_sentence(0.95),
        details=ReleasedCells(decoded, question, tuple(constraints)) if isinstance(decoded, ShownNumbers) else decoded,
    )


def _state_accuracy(plan: Plan, shown: ShownNumbers | None) -> tuple[str, str]:
    """The accuracy of an answer, and by how much it misses the one requested; of blocks it is known beforehand."""
    depends_on_rows = plan.target_accuracy is not None or any(reading.depends_on_rows for reading in plan.readings)
    if shown is None or not depends_on_rows:
        return state_accuracy(plan, plan.confidence), ""
    intervals, is_single = shown.compute_intervals(plan.confidence), len(shown.noisy_result.cells) == 1
    accuracy = state_answer_accuracy(plan, shown.rows, intervals, is_single)
    return accuracy, describe_missed_accuracy(plan, shown.rows, intervals, is_single)


@dataclass(frozen=True, eq=False)
class ReleasedCells(AnswerDetails):
    """What was released of cells that were measured one by one, and which of them are rows of the reply."""

    shown: ShownNumbers
    question: str
    constraints: tuple[StatedConstraint, ...]

    @property
    def rows(self) -> Rows:
        """The rows of the reply."""
        return self.shown.rows

    def compute_intervals(self, confidence: float) -> IntervalRows:
        """Compute where the exact number of every row lies with at least this probability."""
        return self.shown.compute_intervals(confidence)

    def compute_posteriors(self) -> PosteriorRows:
        """Compute what is known of every number to someone who held the prior."""
        return self.shown.compute_posteriors()

    def reconcile(self) -> ReconciledRows | None:
        """Make the counts fit what must be true of them; None where there are none."""
        return self._reconciled if self.shown.has_counts else None

    @cached_property
    def _reconciled(self) -> ReconciledRows | None:
        return reconcile_or_keep_raw(
            self.rows, self.shown, partial(reconcile_rows, self.rows, self.shown, self.constraints)
        )

    @property
    def _single_number(self) -> tuple[str, int] | None:
        """The name of the one number and the measurement it is of; None where there are several, or none was found."""
        labels = self.shown.labels
        is_single = len(labels) == len(self.rows) == 1 and self.rows[0][labels[0][0]] is not None
        return labels[0] if is_single else None

    def describe_meaning(self) -> str:
        """Say what one number means to someone who held the prior, or where it lies."""
        return self._meaning

    @cached_property
    def _meaning(self) -> str:
        if self._single_number is None:
            return ""
        label, index = self._single_number
        (cell,) = self.shown.list_cells()
        return describe_meaning(self.shown.decoder, index, cell[index], self.rows[0][label])

    @cached_property
    def _histogram(self) -> HierarchicalCounts | None:
        return build_histogram_counts(self.shown.decoder.plan, self.shown.noisy_result)

    @property
    def has_picture(self) -> bool:
        """Whether it is a histogram, or one number with a distribution to show."""
        number = self._single_number
        is_plottable = number is not None and self.shown.decoder.plan.readings[number[1]].is_plottable
        return is_plottable or self._histogram is not None

    def build_picture_spec(self) -> dict[str, object]:
        """Build the picture of a histogram, or of prior, noise and posterior of one number."""
        if self._histogram is not None:
            return build_picture_spec(self._histogram.build_histogram_chart(self.question))
        if self._single_number is None:
            return super().build_picture_spec()
        label, index = self._single_number
        (cell,) = self.shown.list_cells()
        raw, titles = self.rows[0][label], (self.question, label)
        return build_picture_spec(
            build_distribution_chart(self.shown.decoder, index, cell[index], raw, *titles, self._meaning)
        )

    def count_range(self, low: object, high: object, confidence: float) -> RangeCount:
        """Count the rows of a histogram from one value to another."""
        if self._histogram is None:
            return super().count_range(low, high, confidence)
        return self._histogram.count_range(low, high, confidence)

    def estimate_population(self, confidence: float, size: object) -> tuple[Mapping[str, PopulationEstimate], ...]:
        """Estimate the numbers of every row for the population."""
        shown = self.shown
        return estimate_population(shown.decoder, shown.noisy_result, shown.order, confidence, size)


def _build_prior_warning(shown: ShownNumbers) -> str | None:
    """Where a raw answer lies in the 1 % tails of what the prior predicts."""
    decoder, cells = shown.decoder, list(shown.list_cells())
    if decoder.plan.prior is None or len(cells) > MAX_CHECKED_ROWS:
        return None
    count = sum(any(decoder.is_surprising(place, outputs) for place, outputs in enumerate(cell)) for cell in cells)
    if not count:
        return None
    subject = "the raw answer lies" if len(cells) == 1 else f"{count} of {len(cells)} raw answers lie"
    return (
        f"{subject} in the 1 % tails of what your prior predicts; the prior may be wrong, so look at the raw answer too"
    )


def build_public_answer(plan: Plan, question: str, spent_epsilon: Mapping[str, Fraction | None]) -> Answer:
    """Build the reply where the schema makes every number public."""
    empty_result = NoisyResult(((),), (tuple(() for _ in plan.readings),))
    return replace(build_answer(plan, empty_result, question, FREE, None, spent_epsilon), stored=False)


def describe_meaning(decoder: Decoder, index: int, outputs: tuple[int, ...], raw: AnswerValue) -> str:
    """Say what the answer means to someone who held the prior; without one, where the exact number lies."""
    prior, posterior = decoder.plan.readings[index].get_stated_distribution(), decoder.compute_posterior(index, outputs)
    if prior is not None and posterior is not None:
        if decoder.plan.prior is None:
            return _describe_without_prior(posterior, is_date(decoder, index))
        if posterior.names is not None:
            return _describe_category_update(prior, posterior, raw)
        return _describe_update(prior, posterior, decoder, index, raw)
    interval = decoder.compute_shown_interval(index, outputs, 0.95)
    if interval is None or interval[0] == interval[1]:
        return ""
    low, high = format_ends(*interval)
    statement = f"The exact value lies between {low} and {high}"
    joint_statement = decoder.plan.coverage.format_sentence(0.95)
    if joint_statement:
        return f"{statement}: {joint_statement[:1].lower()}{joint_statement[1:]}"
    return f"{statement} with a probability of at least 95 %."


def _describe_update(prior: Posterior, posterior: Posterior, decoder: Decoder, index: int, raw: AnswerValue) -> str:
    dates = is_date(decoder, index)
    subject = "the draw, shaped by your prior, is" if decoder.plan.uses_prior else "the private answer is"
    prior_text = _format_distribution(prior, _compute_median, dates)
    answer_text = format_estimate(raw, *posterior.interval(0.95))[0] if isinstance(raw, float) else format_value(raw)
    posterior_text = _format_distribution(posterior, Posterior.mean, dates)
    return (
        f"You believed it to be {prior_text} with a probability of 95 %; {subject} {answer_text}; "
        f"together that makes {posterior_text}."
    )


def _describe_category_update(prior: Posterior, posterior: Posterior, raw: AnswerValue) -> str:
    shares = zip(posterior.names or (), prior.mass, posterior.mass, strict=True)
    changes = ", ".join(
        f"from {format_percent(before)} to {format_percent(after)} for {name}"
        for name, before, after in sorted(shares, key=lambda entry: -entry[2])[:MAX_NAMES]
    )
    return f"The draw, shaped by your prior, is {format_value(raw)}; for you the probability goes {changes}."


def _describe_without_prior(posterior: Posterior, dates: bool) -> str:
    if posterior.names is None:
        posterior_text = f"{_format_distribution(posterior, Posterior.mean, dates)} with a probability of 95 %"
    else:
        posterior_text = _format_likeliest(posterior, "with a probability of ")
    return f"If every value was as likely as any other before, it is now {posterior_text}."


def describe_prior_distribution(prior: Posterior, decoder: Decoder, index: int) -> str:
    """Say what someone believes who states a prior."""
    if prior.names is not None:
        return f"You believe it to be {_format_likeliest(prior, 'with ')}."
    prior_text = _format_distribution(prior, _compute_median, is_date(decoder, index))
    return f"You believe it to be {prior_text} with a probability of 95 %."


def _format_likeliest(distribution: Posterior, link: str) -> str:
    ranked = sorted(distribution.probabilities().items(), key=lambda entry: -entry[1])[:MAX_NAMES]
    return ", ".join(f"{name} {link}{format_percent(share)}" for name, share in ranked)


def _compute_median(distribution: Posterior) -> float:
    """The median, also inside a cell: a prior typed as 25,000 is not repeated as 24,996."""
    if distribution.edges is None or distribution.points is not None:
        return distribution.median()
    return float(np.interp(0.5, np.concatenate(([0.0], np.cumsum(distribution.mass))), distribution.edges))


def _format_distribution(distribution: Posterior, compute_center: Callable[[Posterior], float], dates: bool) -> str:
    """One number for all of it, and where it nearly always is.

    Of what is known now it is the mean, as in every picture; of what was typed its middle, which is what was typed.
    """
    center, interval = compute_center(distribution), distribution.interval(0.95)
    texts = (format_day(center), *format_day_ends(*interval)) if dates else format_estimate(center, *interval)
    return "about {}, between {} and {}".format(*texts)


def build_distribution_chart(
    decoder: Decoder, index: int, outputs: tuple[int, ...], raw: AnswerValue, title: str, axis_title: str, sentence: str
) -> DistributionChart:
    """Build the picture of prior, noise distribution and posterior of one number."""
    prior = decoder.plan.readings[index].get_stated_distribution()
    noise = decoder.plan.readings[index].build_noise_posterior(outputs)
    posterior = decoder.compute_posterior(index, outputs)
    names = None if prior is None else prior.names
    if names is not None:
        spelled = str(raw) if str(raw) in names else str(raw).lower()
        category = spelled if spelled in names else None
        return DistributionChart(title, axis_title, prior, None, posterior, category, None, sentence)
    interval, dates = decoder.compute_shown_interval(index, outputs, 0.95), is_date(decoder, index)
    ends = None if interval is None else (_to_number(interval[0]), _to_number(interval[1]))
    numeric_interval = None if ends is None or ends[0] is None or ends[1] is None else (ends[0], ends[1])
    return DistributionChart(
        title=title,
        axis_title=axis_title,
        prior=prior,
        noise=noise,
        posterior=posterior,
        raw=_to_number(raw),
        interval=numeric_interval,
        sentence=sentence,
        dates=dates,
    )


def _to_number(raw: AnswerValue) -> float | None:
    """A number as a float; a date by its days since 1970-01-01."""
    if isinstance(raw, date):
        return float((raw - EPOCH).days)
    return float(raw) if isinstance(raw, int | float) else None


def is_date(decoder: Decoder, index: int) -> bool:
    """Whether the numbers of an answer are days since 1970-01-01."""
    query = decoder.plan.query
    name = query.column if query.unit is not None else query.aggregates[index].column
    return name is not None and decoder.plan.schema.column(name).kind == "date"


@dataclass(frozen=True, slots=True)
class AccuracyForRows(JsonSerializable):
    """How far off a mean or variance may be where at least so many selected rows have a value."""

    name: str
    rows: int
    within: float

    _json_fields = "name rows within"


def compute_accuracy_by_rows(plan: Plan, confidence: float) -> tuple[AccuracyForRows, ...]:
    """Compute the accuracy of each number that depends on the private number of rows, for some numbers of rows."""
    labels, interval_confidence = _collect_labels(plan), plan.coverage.adjust_confidence(confidence)
    return tuple(
        AccuracyForRows(labels[index], rows, reading.half_width(interval_confidence, rows))
        for index, reading in enumerate(plan.readings)
        if interval_confidence is not None and index in labels and reading.depends_on_rows
        for rows in list_example_rows(plan.max_rows)
    )


def state_accuracy(plan: Plan, confidence: float) -> str:
    """State each number's error before it is drawn; by name where there are several."""
    return _join_statements(plan, [_state_reading(plan, reading, confidence) for reading in plan.readings])


def state_answer_accuracy(
    plan: Plan, rows: Sequence[Mapping[str, AnswerValue]], intervals: Sequence[Mapping[str, Interval]], single: bool
) -> str:
    """State the accuracy of an answer: where the number of rows matters, only what the answer itself supports.

    `single` says that there was one cell: one of several groups has the interval beside it. It is computed from the
    noisy answer and its interval alone, and from nothing else that was read.
    """
    labels, coverage = _collect_labels(plan), plan.coverage
    probability_text = coverage.format_probability(plan.confidence)
    statements = []
    for index, reading in enumerate(plan.readings):
        if index not in labels or not reading.depends_on_rows or coverage.adjust_confidence(plan.confidence) is None:
            statements.append(_state_reading(plan, reading, plan.confidence))
            continue
        max_error = _compute_max_error(rows[0][labels[index]], intervals[0][labels[index]]) if single and rows else None
        joint_statement = coverage.format_sentence(plan.confidence).rstrip(".")
        if max_error is not None:
            statements.append(f"within {format_upper(max_error)} {probability_text}")
        elif joint_statement:
            statements.append(f"{joint_statement[:1].lower()}{joint_statement[1:]}")
        else:
            statements.append(f"each group has its own interval, which holds {probability_text}")
    return _join_statements(plan, statements)


def describe_missed_accuracy(
    plan: Plan, rows: Sequence[Mapping[str, AnswerValue]], intervals: Sequence[Mapping[str, Interval]], single: bool
) -> str:
    """State that an answer is less accurate than was requested; empty where it is as accurate.

    Like the accuracy of an answer, it follows from the noisy answer alone.
    """
    if plan.target_accuracy is None or plan.is_free:
        return ""
    pairs = zip(rows, intervals, strict=True)
    max_errors = [_compute_max_error(row[name], ends) for row, row_ends in pairs for name, ends in row_ends.items()]
    allowed_error = float(plan.target_accuracy.distance) * (1 + ROUNDING_TOLERANCE)
    known_errors = [error for error in max_errors if error is not None]
    missed_errors = [error for error in known_errors if error > allowed_error]
    if not missed_errors:
        return ""
    subject = f"{len(missed_errors):,} of {len(known_errors):,} numbers are"
    if len(known_errors) == 1:
        subject = "This answer is"
    max_error = format_upper(max(missed_errors))
    statement = f"the widest interval goes {max_error} from its number"
    if single:
        statement = f"it is within {max_error} {plan.coverage.format_probability(plan.confidence)}"
    reason, requested = "", format_exact(plan.target_accuracy.distance)
    if plan.expected_rows.source == "stated":
        reason = f"; fewer rows than the {plan.expected_rows.number:,} you expected seem to have a value"
    return f"{subject} less accurate than the ±{requested} you requested: {statement}{reason}."


def _state_reading(plan: Plan, reading: Reading, confidence: float) -> str:
    interval_confidence = plan.coverage.adjust_confidence(confidence)
    if interval_confidence is None:
        return reading.describe_selected_accuracy()
    return reading.describe_accuracy(interval_confidence, plan.coverage.format_probability(confidence))


def _collect_labels(plan: Plan) -> dict[int, str]:
    outputs = (output for output in plan.query.presentation.outputs if output.key is None)
    return {output.aggregate or 0: output.label for output in outputs if output.order == 0}


def _join_statements(plan: Plan, statements: Sequence[str]) -> str:
    if len(statements) == 1:
        return statements[0]
    labels = _collect_labels(plan)
    return "; ".join(f"{labels[index]}: {statement}" for index, statement in enumerate(statements) if index in labels)


def _compute_max_error(value: AnswerValue, interval: Interval) -> float | None:
    """From a value to the farther end of its interval; None where they are no numbers."""
    if interval is None or not isinstance(value, int | float):
        return None
    low, high = interval
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return None
    return max(float(high) - value, value - float(low))
