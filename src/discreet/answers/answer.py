"""An answer: values, guarantee, accuracy, meaning, and how it looks as text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction
from html import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, cast

from discreet.charts import check_picture_path, save_spec
from discreet.errors import InvalidInput
from discreet.formatting import format_day, format_day_ends, format_estimate, format_interval, format_value
from discreet.json_fields import JsonSerializable, JsonWritable, to_json_value
from discreet.numeric import as_number_between, as_plain_number, date_from_days, parse_fraction
from discreet.priors.posterior import Posterior, PosteriorSummary, posterior_from_json, require_95_confidence
from discreet.privacy.guarantee import Guarantee
from discreet.schema.schema import Interval

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

AnswerValue = int | float | bool | str | date | None
Rows = tuple[Mapping[str, AnswerValue], ...]
IntervalRows = tuple[Mapping[str, Interval], ...]
PosteriorRows = tuple[Mapping[str, Posterior | PosteriorSummary | None], ...]
JsonObject = Mapping[str, Any]
MAX_TEXT_ROWS = 50
MAX_JSON_POSTERIORS = 512
"""JSON has the posteriors of so many rows; of more, `posteriors()` has them."""
INTERVAL_HEADING = "95 % interval"
ALL_KEYS = "(all)"
"""Stands in a row of a ROLLUP for a key that it is a total over; also where the key is a date."""
NO_PICTURE = "a picture shows a HISTOGRAM, or one number with a public law or a prior; this question has neither"
NO_RANGES = "ranges are asked of the answer to SELECT HISTOGRAM(column, bins) alone; ask for that"
NO_POPULATION = (
    "an interval for the population is of COUNT, of AVG and of proportions, in the groups of GROUP BY too; not of a "
    "HISTOGRAM or ROLLUP, of medians or of sums"
)
NOT_IN_REPLY = "a stored or copied reply has no ranges and no population; ask the question of the service again"
TOO_MANY_POSTERIORS = (
    f"a reply tells the posteriors of at most {MAX_JSON_POSTERIORS} rows, and this answer has more; ask for fewer"
)


def format_answer_text(answer: Answer) -> str:
    """Format an answer for a terminal."""
    lines = _build_cells(answer)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    first_lines = [answer.missed_accuracy] if answer.missed_accuracy else []
    return "\n".join(line.rstrip() for line in (*first_lines, *table, *_build_footer(answer)))


def format_answer_html(answer: Answer) -> str:
    """Format an answer for a notebook; every value is escaped."""
    head, *rows = _build_cells(answer)
    titles = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    footer = "".join(f"<p>{escape(line)}</p>" for line in _build_footer(answer))
    first_line = f"<p><strong>{escape(answer.missed_accuracy)}</strong></p>" if answer.missed_accuracy else ""
    return f"{first_line}<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>{footer}"


def _build_cells(answer: Answer) -> list[list[str]]:
    """The names of the columns, then each row; numbers beside their intervals where there are any."""
    intervals = answer.intervals(0.95)
    with_interval = {name for row in intervals for name, interval in row.items() if interval is not None}
    headings = ([name, INTERVAL_HEADING] if name in with_interval else [name] for name in answer.columns)
    lines = [[*chain.from_iterable(headings)]]
    for row, row_intervals in list(zip(answer.rows, intervals, strict=True))[:MAX_TEXT_ROWS]:
        line = []
        for name in answer.columns:
            line.append(format_value(row[name], row_intervals.get(name)))
            if name in with_interval:
                line.append(format_answer_interval(row_intervals[name]))
        lines.append(line)
    return lines


def _build_footer(answer: Answer) -> list[str]:
    hidden_rows = len(answer.rows) - MAX_TEXT_ROWS
    hidden_note = f"... and {hidden_rows:,} more; rows has all" if hidden_rows > 0 else ""
    warning = f"Warning: {answer.warning}" if answer.warning else ""
    return [*filter(None, (hidden_note, answer.meaning, answer.prior_use, warning, answer.guarantee.words()))]


def format_answer_interval(interval: Interval) -> str:
    """Format an interval as people read it; nothing where there is none."""
    return "" if interval is None else format_interval(*interval)


def format_posterior(mean: float, median: float, interval: Sequence[float], dates: bool) -> str:
    """Format a posterior over numbers, or over dates as days since 1970-01-01, in a line."""
    if dates:
        mean_text, median_text, (low, high) = format_day(mean), format_day(median), format_day_ends(*interval)
    else:
        mean_text, low, high = format_estimate(mean, *interval)
        median_text = format_estimate(median, *interval)[0]
    return f"mean {mean_text}, median {median_text}, 95 % {low} to {high}"


class IntervalSource(Protocol):
    """Has the intervals of rows, or computes them."""

    def compute_intervals(self, confidence: float) -> IntervalRows:
        """Compute where the exact number of every row lies with at least this probability."""


@dataclass(frozen=True, slots=True)
class IntervalsAt95:
    """The intervals of rows as a reply has them: at 95 % alone."""

    rows: IntervalRows

    def compute_intervals(self, confidence: float) -> IntervalRows:
        """Return the intervals; other confidences are refused."""
        require_95_confidence(confidence)
        return self.rows


class AnswerDetails(ABC):
    """What is computed from an answer when it is asked for: from what was released here, or as a reply has it.

    A plain value: both are public, so that a copy of an answer has all that the answer has.
    """

    __slots__ = ()

    @abstractmethod
    def compute_intervals(self, confidence: float) -> IntervalRows:
        """Compute where the exact number of every row lies with at least this probability."""

    @abstractmethod
    def compute_posteriors(self) -> PosteriorRows:
        """Compute what is known of every number after the answer."""

    @abstractmethod
    def reconcile(self) -> ReconciledRows | None:
        """Make the rows fit what must be true; None where nothing must."""

    @abstractmethod
    def describe_meaning(self) -> str:
        """Say in a sentence what the answer means; nothing where no sentence is made for it."""

    @property
    def has_picture(self) -> bool:
        """Whether there is a picture."""
        return False

    def build_picture_spec(self) -> dict[str, object]:
        """Build the picture in Vega-Lite."""
        raise InvalidInput(NO_PICTURE)

    def count_range(self, low: object, high: object, confidence: float) -> RangeCount:  # noqa: ARG002
        """Count the rows of a histogram from one value to another."""
        raise InvalidInput(NO_RANGES)

    def estimate_population(self, confidence: float, size: object) -> tuple[Mapping[str, PopulationEstimate], ...]:  # noqa: ARG002
        """Estimate the numbers of every row for the population."""
        raise InvalidInput(NO_POPULATION)


@dataclass(frozen=True, slots=True)
class ReconciledRows:
    """The rows of an answer made to fit what is true whatever the data; post-processing, hence free."""

    rows: Rows
    because: tuple[str, ...]
    """What they were made to fit, in words."""
    source: IntervalSource = field(repr=False, compare=False)
    advice: str = ""
    """Which numbers to use for what, where sums of these are worse than sums of the raw ones; else empty."""

    @property
    def use_for_sums(self) -> Literal["raw", "reconciled"]:
        """Which numbers to add up."""
        return "raw" if self.advice else "reconciled"

    def intervals(self, confidence: float) -> IntervalRows:
        """Where the exact numbers lie with at least this probability."""
        return self.source.compute_intervals(confidence)

    def to_json(self) -> dict[str, object]:
        """Machine-readable."""
        payload: dict[str, object] = {"rows": to_json_value(self.rows)}
        payload |= {"intervals_95": to_json_value(self.intervals(0.95)), "because": list(self.because)}
        return payload | {"use_for_sums": self.use_for_sums, "advice": self.advice}

    @classmethod
    def from_json(cls, document: JsonObject, dates: Collection[str] = ()) -> Self:
        """Read what `to_json` wrote; `dates` are the columns of dates."""
        intervals = IntervalsAt95(_intervals_from_json(document["intervals_95"], dates))
        reasons = tuple(map(str, document["because"]))
        return cls(_rows_from_json(document["rows"], dates), reasons, intervals, document.get("advice", ""))


@dataclass(frozen=True, slots=True)
class RangeCount(JsonSerializable):
    """How many rows lie in a range of a histogram's column: what was counted, in whole bins, and its interval."""

    asked: tuple[str, str]
    """The ends as they were asked for."""
    low: AnswerValue
    high: AnswerValue
    value: float
    interval: tuple[float, float]
    confidence: float

    _json_fields = "asked low high value interval confidence"

    @classmethod
    def from_json(cls, document: JsonObject) -> Self:
        """Read a document; the ends are numbers, or dates, which alone are text."""
        ends = {end: _value_from_json(document[end], isinstance(document[end], str)) for end in ("low", "high")}
        return super(RangeCount, cls).from_json({**document, **ends})


@dataclass(frozen=True, slots=True)
class PopulationEstimate(JsonWritable):
    """One number as an estimate for the population that the rows are a random sample of."""

    name: str
    value: float
    interval: tuple[float, float]
    confidence: float
    noise: float
    """How far our noise alone may move it, with this confidence."""
    sampling: float
    """How far the drawing of the sample alone may move it."""
    words: str

    _json_fields = "value interval confidence noise sampling words"

    @classmethod
    def from_json(cls, name: str, document: JsonObject) -> Self:
        """Read what `to_json` wrote of the number of this name."""
        low, high = document["interval"]
        details = (document[field] for field in ("confidence", "noise", "sampling", "words"))
        return cls(name, document["value"], (low, high), *details)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one question: private numbers, their accuracy, the guarantee and the cost.

    `Custodian.answer` and `Client.answer` return it.

    Args:
        question: The question.
        columns: The names of the columns.
        numbers: The columns that are answers, not keys of groups.
        rows: The raw private numbers, one mapping for each row.
        mechanism: The mechanism that drew them.
        accuracy: How near they are to the exact numbers, in a sentence.
        guarantee: The guarantee of this answer.
        cost: What was charged now: nothing for a stored answer.
        spent: The epsilon that all answers of the data set have cost so far, in each model.
        stored: Whether it was drawn earlier and stored.
        entry: The number of its entry in the ledger.
        warning: A sentence to read before using the answer.
        missed_accuracy: A sentence where it is less accurate than requested.
        shaped: Whether the mechanism drew from the prior, so that the raw number alone means little.
        prior: Whether a prior was given, so that there may be `posteriors`.
        prior_tail: Whether a tenth of the prior's weight was given to a heavy tail; None where no prior was used.
        prior_use: The same as a sentence, with what is impossible where the prior was used as stated.
        joint_coverage: Where rows were chosen by their noisy numbers: that all 95 % intervals hold at once.
        details: What intervals, posteriors and pictures are computed from.

    Example:
        >>> from pathlib import Path
        >>> from discreet import Custodian
        >>> from discreet.sample import write_registry
        >>> with Custodian.open(write_registry(Path("."), patients=100)) as custodian:
        ...     answer = custodian.answer("SELECT COUNT(*) FROM registry WHERE smoker", epsilon=0.5)
        >>> low, high = answer.interval(0.95)
        >>> low <= answer.value <= high
        True
        >>> answer.cost.epsilon
        Fraction(1, 2)
    """

    question: str
    columns: tuple[str, ...]
    numbers: tuple[str, ...]
    rows: Rows
    mechanism: str
    accuracy: str
    guarantee: Guarantee
    cost: Guarantee
    spent: Mapping[str, Fraction | None]
    stored: bool
    entry: int | None
    warning: str | None = None
    missed_accuracy: str = ""
    """That it is less accurate than was requested, in a sentence; empty where it is as accurate."""
    shaped: bool = False
    prior: bool = False
    """Whether a prior was given, so that `posteriors` may have something to tell."""
    prior_tail: bool | None = None
    """Whether a tenth of the prior's weight was given to a heavy tail; None where no prior was used."""
    prior_use: str = ""
    """The same as a sentence, with what is impossible where the prior was used as stated."""
    joint_coverage: str = field(default="", repr=False, compare=False)
    """Where rows were chosen by their noisy numbers: that all 95 % intervals hold at once; `meaning` has it too."""
    details: AnswerDetails = field(repr=False, compare=False)
    """What intervals, posteriors, reconciled rows, ranges and pictures are computed from."""

    @property
    def single(self) -> bool:
        """Whether it is one number."""
        return len(self.rows) == 1 and len(self.numbers) == 1

    @property
    def value(self) -> AnswerValue:
        """The one number that was asked for, as it was drawn."""
        if not self.single:
            raise InvalidInput("this answer has several numbers; they are in rows")
        return self.rows[0][self.numbers[0]]

    @property
    def posterior(self) -> Posterior | PosteriorSummary | None:
        """What is known after the answer; None without a prior, or where the answer's distribution is not public."""
        if not self.single:
            raise InvalidInput("this answer has several numbers; their posteriors are in posteriors()")
        return self.posteriors()[0][self.numbers[0]]

    @property
    def headline(self) -> AnswerValue:
        """The best single number: the posterior mean where the draw was shaped by the prior, else the raw one."""
        posterior = self.posterior if self.shaped else None
        if posterior is None or not posterior.numeric:
            return self.value
        return date_from_days(posterior.mean()) if isinstance(self.value, date) else posterior.mean()

    @property
    def meaning(self) -> str:
        """One plain sentence: what the answer means to someone who believed the prior, or where its numbers lie."""
        sentence = self.details.describe_meaning() or self._describe_intervals()
        coverage_note = self.joint_coverage if self.has_intervals and self.joint_coverage[1:] not in sentence else ""
        return " ".join(filter(None, (sentence, coverage_note)))

    @property
    def has_intervals(self) -> bool:
        """Whether any number that is shown has an interval."""
        return any(interval is not None for row in self.intervals(0.95) for interval in row.values())

    def _describe_intervals(self) -> str:
        """What is true of each number by itself, where no sentence was made for it."""
        intervals = [interval for row in self.intervals(0.95) for interval in row.values()]
        has_all_intervals = bool(intervals) and None not in intervals
        if has_all_intervals and self.joint_coverage:
            return self.joint_coverage
        if has_all_intervals and not self.single:
            return "Each exact value by itself lies in the interval beside it with a probability of at least 95 %."
        return f"{self.accuracy[:1].upper()}{self.accuracy[1:]}." if self.rows else ""

    def __str__(self) -> str:
        return format_answer_text(self)

    def _repr_html_(self) -> str:
        return format_answer_html(self)

    def interval(self, confidence: float = 0.95) -> Interval | tuple[Mapping[str, Interval], ...]:
        """Where the exact number lies with at least this probability; for several, a mapping for each row.

        Where HAVING, or LIMIT after ORDER BY, chooses rows by their noisy numbers, the intervals of all rows hold at
        once with this probability, also of those not shown. None where nothing can be said in values without looking
        at the rows: see `accuracy`.
        """
        intervals = self.intervals(float(as_number_between(confidence, 0, 1, "confidence")))
        return intervals[0][self.numbers[0]] if self.single else intervals

    def intervals(self, confidence: float = 0.95) -> IntervalRows:
        """As `interval`, a mapping for each row, also where there is one number alone."""
        return self.details.compute_intervals(confidence)

    def posteriors(self) -> PosteriorRows:
        """What is known after the answer of each number of each row; None as `posterior` is."""
        return self.details.compute_posteriors()

    @property
    def reconciled(self) -> ReconciledRows | None:
        """The same numbers made to fit what must be true of every data set; None where nothing must."""
        return self.details.reconcile()

    def range(self, low: object, high: object, confidence: float = 0.95) -> RangeCount:
        """How many rows lie from `low` to `high`, both included, from the answer to one HISTOGRAM; nothing is paid."""
        return self.details.count_range(low, high, float(as_number_between(confidence, 0, 1, "confidence")))

    def population(self, confidence: float = 0.95, size: object = None) -> tuple[Mapping[str, PopulationEstimate], ...]:
        """Each row's counts, means and proportions with noise and sampling error; `size` is that of the population."""
        return self.details.estimate_population(float(as_number_between(confidence, 0, 1, "confidence")), size)

    @property
    def has_picture(self) -> bool:
        """Whether `plot` draws it: a HISTOGRAM, or one number with a public law or a prior."""
        return self.details.has_picture

    def plot(self, path: str | Path) -> Path:
        """Draw prior, noise law and posterior, with the raw answer marked, as .svg, .png or .html."""
        if not self.has_picture:
            raise InvalidInput(NO_PICTURE)
        target = check_picture_path(path)
        return save_spec(self.picture_spec(), target)

    def picture_spec(self) -> dict[str, object] | None:
        """The same picture as data, in Vega-Lite; None where there is none."""
        return self.details.build_picture_spec() if self.has_picture else None

    def with_note(self, note: str | None) -> Answer:
        """The same, with something more to be warned of."""
        return self if note is None else replace(self, warning="; ".join(filter(None, (note, self.warning))))

    def to_json(self) -> dict[str, object]:
        """Machine-readable: the same on the command line, over HTTP and on a page."""
        payload: dict[str, object] = {"question": self.question, "columns": list(self.columns)}
        dates = [name for name in self.columns if any(isinstance(row[name], date) for row in self.rows)]
        payload |= {"numbers": list(self.numbers), "dates": dates, "rows": to_json_value(self.rows)}
        if self.single:
            payload |= {"value": to_json_value(self.value), "headline": to_json_value(self.headline)}
        payload["intervals_95"] = to_json_value(self.intervals(0.95))
        payload["posteriors"] = None
        if len(self.rows) <= MAX_JSON_POSTERIORS:
            payload["posteriors"] = [
                {name: None if posterior is None else posterior.to_json() for name, posterior in row.items()}
                for row in self.posteriors()
            ]
        reconciled = self.reconciled
        payload["reconciled"] = None if reconciled is None else reconciled.to_json()
        payload |= {"shaped_by_prior": self.shaped, "prior_tail": self.prior_tail, "prior_use": self.prior_use}
        payload |= {"missed_accuracy": self.missed_accuracy, "warning": self.warning, "meaning": self.meaning}
        payload |= {"mechanism": self.mechanism, "accuracy": self.accuracy, "stored": self.stored, "entry": self.entry}
        payload["spent_so_far"] = {model: None if total is None else str(total) for model, total in self.spent.items()}
        return payload | {"guarantee": self.guarantee.to_json(), "cost": self.cost.to_json()}

    def to_dict(self) -> dict[str, object]:
        """Return what `to_json` has as plain values: dates as dates, exact amounts as numbers."""
        payload, reconciled = self.to_json(), self.reconciled
        payload |= {"rows": [dict(row) for row in self.rows], "intervals_95": [dict(row) for row in self.intervals()]}
        payload |= {"value": self.value, "headline": self.headline} if self.single else {}
        if reconciled is not None:
            intervals = [dict(row) for row in reconciled.intervals(0.95)]
            payload["reconciled"] = reconciled.to_json() | {"rows": list(reconciled.rows), "intervals_95": intervals}
        payload["spent_so_far"] = {model: as_plain_number(total) for model, total in self.spent.items()}
        return payload | {"guarantee": self.guarantee.to_dict(), "cost": self.cost.to_dict()}

    def to_pandas(self, confidence: float = 0.95) -> pd.DataFrame:
        """Return the rows as a data frame of pandas, each number with the ends of its interval.

        The columns of a number are `<name>`, `<name>_low` and `<name>_high`, and with a prior `<name>_posterior_mean`.
        A key of bins is `<key>_left` and `<key>_right`, both included. In a ROLLUP a key is null in totals over it,
        and `<key>_is_total` says which rows these are.
        """
        from discreet.answers.data_frames import build_frame_columns, build_pandas

        return build_pandas(build_frame_columns(self, confidence))

    def to_polars(self, confidence: float = 0.95) -> pl.DataFrame:
        """Return the rows as a data frame of Polars, in the columns of `to_pandas`."""
        from discreet.answers.data_frames import build_frame_columns, build_polars

        return build_polars(build_frame_columns(self, confidence))

    def to_arrow(self, confidence: float = 0.95) -> pa.Table:
        """Return the rows as a table of Arrow, in the columns of `to_pandas`."""
        from discreet.answers.data_frames import build_arrow, build_frame_columns

        return build_arrow(build_frame_columns(self, confidence))

    @classmethod
    def from_json(cls, document: JsonObject, prior: bool = False) -> Self:
        """Read what `to_json` wrote, which may come from anyone; `prior` says whether one was given with the question.

        Raises:
            LookupError, TypeError or ValueError: It is no such document.
        """
        _check_document(document)
        return cls(
            question=document["question"],
            columns=tuple(document["columns"]),
            numbers=tuple(document["numbers"]),
            rows=_rows_from_json(document["rows"], document["dates"]),
            mechanism=document["mechanism"],
            accuracy=document["accuracy"],
            guarantee=Guarantee.from_json(document["guarantee"]),
            cost=Guarantee.from_json(document["cost"]),
            spent={model: parse_fraction(amount) for model, amount in document["spent_so_far"].items()},
            stored=document["stored"],
            entry=document["entry"],
            warning=document["warning"],
            missed_accuracy=document.get("missed_accuracy", ""),
            shaped=document["shaped_by_prior"],
            prior=prior,
            prior_tail=document.get("prior_tail"),
            prior_use=document.get("prior_use", ""),
            details=ReplyDetails.from_json(document),
        )


@dataclass(frozen=True)
class ReplyDetails(AnswerDetails):
    """What a reply has of an answer: intervals at 95 %, and posteriors of not too many rows."""

    intervals: IntervalsAt95
    posteriors: PosteriorRows | None
    reconciled: ReconciledRows | None
    meaning: str

    @classmethod
    def from_json(cls, document: JsonObject) -> Self:
        """Read what `Answer.to_json` wrote."""
        dates, posteriors, reconciled = document["dates"], document["posteriors"], document["reconciled"]
        return cls(
            intervals=IntervalsAt95(_intervals_from_json(document["intervals_95"], dates)),
            posteriors=None if posteriors is None else tuple(map(_posteriors_from_json, posteriors)),
            reconciled=None if reconciled is None else ReconciledRows.from_json(reconciled, dates),
            meaning=document["meaning"],
        )

    def compute_intervals(self, confidence: float) -> IntervalRows:
        """Return the intervals; other confidences are refused."""
        return self.intervals.compute_intervals(confidence)

    def compute_posteriors(self) -> PosteriorRows:
        """Return the posteriors, if the reply has them."""
        if self.posteriors is None:
            raise InvalidInput(TOO_MANY_POSTERIORS)
        return self.posteriors

    def reconcile(self) -> ReconciledRows | None:
        """Return the reconciled rows."""
        return self.reconciled

    def describe_meaning(self) -> str:
        """Return the sentence."""
        return self.meaning

    def count_range(self, low: object, high: object, confidence: float) -> RangeCount:  # noqa: ARG002
        """Refused: a reply has no ranges."""
        raise InvalidInput(NOT_IN_REPLY)

    def estimate_population(self, confidence: float, size: object) -> tuple[Mapping[str, PopulationEstimate], ...]:  # noqa: ARG002
        """Refused: a reply has no estimates."""
        raise InvalidInput(NOT_IN_REPLY)


def _check_document(document: JsonObject) -> None:
    """Refuse texts that are none, and rows that do not have what the columns say."""
    texts = [document[name] for name in ("question", "mechanism", "accuracy", "meaning")]
    texts += [document.get(name, "") for name in ("missed_accuracy", "prior_use")]
    texts += [document["warning"] or "", *document["columns"], *document["numbers"], *document["dates"]]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("an answer has texts")
    columns, numbers, posteriors = {*document["columns"]}, {*document["numbers"]}, document["posteriors"]
    rows = [(document["rows"], columns), (document["intervals_95"], numbers)]
    rows += [] if posteriors is None else [(posteriors, numbers)]
    has_all = all(len(part) == len(document["rows"]) and all({*row} == names for row in part) for part, names in rows)
    if not has_all or not numbers <= columns:
        raise ValueError("each row of an answer has all of its columns")


def _value_from_json(value: AnswerValue, is_date: bool) -> AnswerValue:
    return date.fromisoformat(value) if is_date and isinstance(value, str) and value != ALL_KEYS else value


def _rows_from_json(documents: Sequence[JsonObject], dates: Collection[str]) -> Rows:
    return tuple({name: _value_from_json(value, name in dates) for name, value in row.items()} for row in documents)


def _intervals_from_json(documents: Sequence[JsonObject], dates: Collection[str]) -> IntervalRows:
    def read_interval(ends: Sequence[AnswerValue] | None, are_dates: bool) -> Interval:
        if ends is None:
            return None
        low, high = (_value_from_json(end, are_dates) for end in ends)
        return cast(Interval, (low, high))

    return tuple({name: read_interval(ends, name in dates) for name, ends in row.items()} for row in documents)


def _posteriors_from_json(document: JsonObject) -> Mapping[str, Posterior | PosteriorSummary | None]:
    return {name: None if posterior is None else posterior_from_json(posterior) for name, posterior in document.items()}
