"""What every way to measure a question offers, and what planner, custodian, answers and verification ask of it.

A `Measurement` answers one or more aggregates of a question together: it says what it reads, what it costs for all of
them, how it is randomized, and what two tables lose. For each aggregate it hands out a `Reading`: what the noisy
outputs say, to someone who knows the schema, the question and perhaps a prior. No other module tells kinds apart.

How an answer comes about, and who calls what:

1. planner: a factory of the registry in planner/candidates.py proposes measurements for an `AggregateRequest`; those
   are read without outputs (`read`, then `expected_error` and `bound_error`), and one of them is chosen.
2. custodian: `scan` says what to read; `compute_inputs` makes the exact inputs of it; `measure` draws the outputs.
3. answers: `read` again, and then `values`, `interval`, `posterior` and the rest, of the outputs alone.
4. ledger: `cache_key` names the stored answer, `privacy_cost` is charged.
5. verification: `compare_inputs` says what two tables lose; an audit calls `measure` many times.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from operator import add
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Internal, Unsupported
from discreet.estimation.grid_prior import GridPrior
from discreet.estimation.noise_distributions import AnswerNoise
from discreet.estimation.noisy_totals import NoisyRatio
from discreet.measurements.contribution_bounds import (
    NOT_STATED,
    ONE_ROW,
    PLAIN_COVERAGE,
    ContributionBounds,
    Coverage,
    ExpectedRows,
)
from discreet.measurements.observed_loss import InputChange, Inputs
from discreet.mechanisms.discrete_laplace import DiscreteLaplace, LaplaceDegradation
from discreet.mechanisms.entropy import Entropy
from discreet.mechanisms.noise import Noise
from discreet.priors.distance import Distance
from discreet.priors.posterior import Posterior
from discreet.priors.prior import Prior, PriorUse
from discreet.privacy.cost import MAX_AMOUNT, PrivacyCost
from discreet.query.query import Aggregate
from discreet.query.scan import BinKey, ScanMeasure
from discreet.schema import Column, Schema
from discreet.schema.schema import Interval, Value

if TYPE_CHECKING:
    from discreet.measurements.hierarchical import BlockCounts

NoisyOutputs = tuple[int, ...]
"""What is released of one measurement in one cell."""
ExactInput = tuple[int, ...] | NDArray[np.int64] | int | None
"""What is randomized in one cell. Secret."""
UNPRICED = PrivacyCost(Fraction(MAX_AMOUNT))
"""The cost of a measurement whose builder has not stated it yet: no budget has so much."""
NoiseSampler = Callable[[int, Entropy], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class TotalsRequest:
    """Totals of each cell; those of all measurements are read in one scan.

    Scanned: a tuple of whole numbers for each cell, in the order of `measures`; all 0 where the cell has no row.
    """

    measures: tuple[ScanMeasure, ...]


@dataclass(frozen=True, slots=True)
class HistogramRequest:
    """How many rows of each cell are in each of `count` bins.

    Scanned: an array of `count` int64 for each cell. A row that the filter leaves out, or without a value, is in no
    bin.
    """

    bins: BinKey
    count: int


@dataclass(frozen=True, slots=True)
class UnitRequest:
    """The code of one column of the unit that the question names.

    Scanned: the code for the only cell; None where the unit is absent or has no value.
    """

    column: str


@dataclass(frozen=True, slots=True)
class KeyUnitsRequest:
    """The noisy number of units by which each cell was chosen: nothing more is read.

    Scanned: that number for each cell.
    """


ScanRequest = TotalsRequest | HistogramRequest | UnitRequest | KeyUnitsRequest | None
"""What a measurement reads; None where it reads nothing, and then what is scanned is None for each cell."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ReadingContext:
    """What the reader of noisy outputs knows: schema, question, prior, about how many rows; and what is covered."""

    schema: Schema
    has_groups: bool = False
    grid_prior: GridPrior | None = None
    expected_rows: ExpectedRows = ONE_ROW
    coverage: Coverage = PLAIN_COVERAGE

    @property
    def max_rows(self) -> float:
        """The most rows there can be."""
        return math.inf if self.schema.units is None else float(self.schema.units * self.schema.rows)


class Reading(ABC):
    """What the noisy outputs of a measurement say of one aggregate. Post-processing: it sees no row.

    A method without `outputs` is asked before anything is drawn. All but two have a default, which is "not known".
    """

    __slots__ = ()

    @property
    def is_public(self) -> bool:
        """Whether the number is public already."""
        return False

    @property
    def is_plottable(self) -> bool:
        """Whether there is a distribution to show."""
        return False

    @property
    def depends_on_rows(self) -> bool:
        """Whether the error depends on how many rows are selected, and that number is not public."""
        return False

    @property
    def prior_use(self) -> PriorUse | None:
        """How the analyst's prior is used; None where there is none, or nothing of the answer depends on it.

        A kind that answers where there is a prior has either this or `prior_unused_reason`.
        """
        return None

    @property
    def prior_unused_reason(self) -> str:
        """Why the analyst's prior is not used, where there is one that is not.

        A clause that ends the sentence "The prior is not used for this answer: ...", without a full stop.
        """
        return ""

    @property
    def answer_noise(self) -> AnswerNoise | None:
        """How far the answer falls from the truth, where noise of a public distribution was added to it; else None."""
        return None

    @property
    def has_plain_noise(self) -> bool:
        """Whether the answer is one total with Laplace or Gaussian noise, which is what a refined interval assumes."""
        return False

    @property
    def ratio(self) -> NoisyRatio | None:
        """The ratio of two noisy totals that the answer is; None where it is none."""
        return None

    @abstractmethod
    def values(self, outputs: NoisyOutputs) -> Sequence[Value]:
        """The value, or for several quantiles the values."""

    def interval(self, outputs: NoisyOutputs, confidence: float) -> Interval:  # noqa: ARG002
        """Where the exact number lies with at least this probability; None where there is no interval in values."""
        return None

    def half_width(self, confidence: float, rows: float | None = None) -> float:  # noqa: ARG002
        """How far the value may be from the exact one with this probability; infinite where that is not known.

        `rows` is for a kind that `depends_on_rows`: the least number of rows that have a value.
        """
        return math.inf

    def bound_error(self, confidence: float) -> float:  # noqa: ARG002
        """The larger of `half_width` and the distance from the value to either end of its `interval`; or infinite.

        It holds whatever the prior and the outputs are. An accuracy that is asked for finds its epsilon by it, so that
        where it is infinite the answer can be asked for by an epsilon alone.
        """
        return math.inf

    def is_clear_of_threshold(self, outputs: NoisyOutputs, confidence: float) -> bool:  # noqa: ARG002
        """Whether the number would have been shown without its noise."""
        return True

    def posterior(self, outputs: NoisyOutputs) -> Posterior | None:  # noqa: ARG002
        """What is known to someone who held the prior; None without one, or where no law of the outputs is public."""
        return None

    def get_stated_distribution(self) -> Posterior | None:
        """The prior as it was stated, in units of the answer."""
        return None

    def build_noise_posterior(self, outputs: NoisyOutputs) -> Posterior | None:  # noqa: ARG002
        """The noise distribution about the raw answer."""
        return None

    def is_surprising(self, outputs: NoisyOutputs, tail: float) -> bool:  # noqa: ARG002
        """Whether the raw answer lies in the tails, so small on either side, of what the prior predicts."""
        return False

    def expected_error(self) -> float | None:
        """The root mean square error of the refined value, or without a prior of the raw one; None if not known.

        The planner chooses the least; one that is not known is chosen last. It may be an upper bound, and decides
        nothing but which measurement is chosen and what a preview says.
        """
        return None

    @abstractmethod
    def describe_accuracy(self, confidence: float, likely: str = "") -> str:
        """State the accuracy before anything is drawn, and with which probability it holds.

        A clause such as "within 3 with a probability of at least 95 %". `likely` is the probability in words.
        """

    def describe_selected_accuracy(self) -> str:
        """State the accuracy where rows are chosen by noisy numbers among so many that no probability is known."""
        return NOT_STATED


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Measurement(ABC):
    """One way to answer one or more aggregates of a question: what it reads, costs and draws, and what comes out."""

    privacy_cost: PrivacyCost
    """The cost of all its aggregates together; the factory states it, as `compute_pure_cost(epsilon)` does."""
    aggregates: tuple[int, ...] = (0,)
    """The aggregates of the question that it answers, by their places. A factory leaves it: the planner sets it."""

    if TYPE_CHECKING:  # a field in some kinds, computed in others

        @property
        def name(self) -> str:
            """What people call it; stored in the names of answers, so that it never changes.

            It is more than a label: people ask for a mechanism by it, a stored answer is planned again by it alone, and
            the planner looks for the names of some kinds in it. So the name of a new kind contains none of the others.
            """

    @property
    def is_public(self) -> bool:
        """Whether its value is public already: it reads nothing and costs nothing."""
        return False

    @property
    def uses_prior(self) -> bool:
        """Whether it draws from the analyst's prior, so that the outputs are shaped by it."""
        return False

    @property
    def is_batched(self) -> bool:
        """Whether the noise of many cells is drawn at once; an audit then draws a million answers, else 10,000."""
        return False

    @property
    def hierarchy(self) -> BlockCounts | None:
        """The nested blocks of cells that it counts, which are read together; None where there are none."""
        return None

    @property
    def rivals(self) -> tuple[tuple[str, float | None], ...]:
        """What its factory weighed beside it: names and expected errors, None where these depend on the rows."""
        return ()

    @property
    def independent_noises(self) -> tuple[Noise, ...]:
        """The noises that are drawn one by one, of each total or of each level; none where there are no such.

        Only for a kind that adds noise to totals. The planner counts several such counts of one question together, in
        the place of these; and where all are discrete Laplace a stored answer is made less accurate by adding noise.
        """
        return ()

    @property
    def is_degradable(self) -> bool:
        """Whether stored outputs of a larger epsilon become these by adding noise: degradation.md.

        All its noises are discrete Laplace, and their rates are in proportion to epsilon.
        """
        noises = self.independent_noises
        return bool(noises) and all(type(noise) is DiscreteLaplace for noise in noises)

    @abstractmethod
    def scan(self) -> ScanRequest:
        """What it reads."""

    def compute_inputs(self, scanned: Sequence[Any]) -> Sequence[ExactInput]:
        """What is randomized in every cell, from what was read of it (see the class of its `scan`). Secret.

        Nothing here may fail on a row, or take a time that depends on one.
        """
        return scanned

    @abstractmethod
    def measure(self, inputs: Sequence[Any], entropy: Entropy) -> list[NoisyOutputs]:
        """Draw the outputs of every cell: as many numbers in each, which alone are stored and shown.

        Every random byte comes from `entropy`, and as many are taken whatever the inputs. Nothing here may fail on a
        row.
        """

    def degrade(self, outputs: Sequence[NoisyOutputs], rate_factor: Fraction, entropy: Entropy) -> list[NoisyOutputs]:
        """Add noise to outputs that were drawn with so many times the rates, so that they have these distributions."""
        degradations = []
        for noise in self.independent_noises:
            if not isinstance(noise, DiscreteLaplace):
                raise Internal("a stored answer without discrete Laplace noise was to be degraded")
            stored_noise = DiscreteLaplace(noise.epsilon * rate_factor, noise.sensitivity, noise.step)
            degradations.append(LaplaceDegradation(stored_noise, noise))
        if not degradations:
            return list(outputs)
        added_noise = self._draw_noises([degradation.sample_units for degradation in degradations], outputs, entropy)
        return [tuple(map(add, *pair)) for pair in zip(outputs, added_noise, strict=True)]

    def _draw_noises(
        self, samplers: Sequence[NoiseSampler], cells: Sequence[object], entropy: Entropy
    ) -> list[tuple[int, ...]]:
        """The noise of every cell, from a sampler for each of the independent noises: one number of each."""
        columns = [sample(len(cells), entropy) for sample in samplers]
        return [tuple(map(int, row)) for row in zip(*columns, strict=True)]

    @abstractmethod
    def cache_key(self) -> list[object]:
        """Its name and what else makes two draws the same question, but for epsilon and the prior; never to change."""

    @abstractmethod
    def compare_inputs(self, inputs: Inputs, other_inputs: Inputs, schema: Schema) -> InputChange:
        """What two tables lose, from the exact inputs and the noise; and the shares of what is declared, by name.

        Inputs are those of `compute_inputs` by cell: `pair_inputs` lists the cells in which they differ. The loss is
        computed from how far they differ and from the noise itself, never from `privacy_cost`, which it is compared
        with; it is exact, or rounded up to no more than what is proved.
        """

    @abstractmethod
    def read(self, context: ReadingContext) -> tuple[Reading, ...]:
        """A reading for each of its aggregates."""

    def compute_even_row_error(self, target_rank: int, rows: int) -> float | None:  # noqa: ARG002
        """The expected error for the value of one rank, if so many rows are spread evenly; None where it is no rank."""
        return None

    def explain_choice(self) -> str:
        """Why it was chosen, where that is more than its expected error."""
        return ""

    def check_usefulness(self, expected_error: float | None) -> None:  # noqa: B027
        """Refuse where a guess from public facts would be as near."""


class SelfReading(Measurement, Reading):
    """A measurement of one aggregate that is its own reading, since it needs neither schema nor prior to be read.

    It has `values` and `describe_accuracy` of a `Reading` besides the methods of a `Measurement`.
    """

    __slots__ = ()

    @property
    def is_public(self) -> bool:
        """Whether its value is public already."""
        return False

    def read(self, context: ReadingContext) -> tuple[Reading, ...]:  # noqa: ARG002
        """Itself."""
        return (self,)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class AggregateRequest:
    """What a factory is asked for: one aggregate with its share of epsilon, and what the analyst stated."""

    aggregate: Aggregate
    bounds: ContributionBounds
    epsilon: Fraction
    prior: str | Prior | None = None
    grid_prior: GridPrior | None = None
    """The prior over the number, where the aggregate is one."""
    distance: Distance | str | None = None
    interval: bool = False
    tail: bool | None = None
    mechanism: str = ""
    """The mechanism by name: of a stored answer, or as it was asked for; empty where the best is taken.

    It may be the name of another kind. The planner takes those of this name from what is proposed, and lists the names
    of all in a refusal where there is none.
    """

    def should_propose_by_name(self, name: str, fits: bool, requirements: str) -> bool:
        """Whether to propose a kind that is never chosen unless a mechanism is asked for by its name.

        Where any is asked for, it is proposed if it fits, so that a refusal can list it. Where its own name is asked
        for and it does not fit, that is refused with what it requires.
        """
        if self.mechanism == name and not fits:
            raise Unsupported(requirements)
        return fits and bool(self.mechanism)

    @property
    def column(self) -> Column | None:
        """The column of the aggregate, if it has one."""
        return None if self.aggregate.column is None else self.bounds.schema.column(self.aggregate.column)


Factory = Callable[[AggregateRequest], Sequence[Measurement]]
"""Proposes measurements of an aggregate, from public facts: none where it has none."""


def to_float_interval(ends: tuple[Value, Value] | None) -> Interval:
    """Two ends as they are shown: numbers as floats, the rest as it is."""
    if ends is None:
        return None
    low, high = ends
    if isinstance(low, str | date) or isinstance(high, str | date):
        return cast("Interval", ends)
    return float(low), float(high)
