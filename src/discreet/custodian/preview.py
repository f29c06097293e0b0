"""Preview a question or a prior: cost and accuracy from plan and ledger, never from a row."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.answers.decode import Decoder
from discreet.answers.explain import (
    AccuracyForRows,
    compute_accuracy_by_rows,
    describe_prior_distribution,
    is_date,
    state_accuracy,
)
from discreet.custodian.validation import (
    DEFAULT_ANALYST,
    build_plan_charge,
    find_max_epsilon,
    is_plan_plottable,
    list_balances,
    validate_question,
)
from discreet.errors import InvalidInput
from discreet.formatting import format_day, format_day_ends, format_number
from discreet.json_fields import JsonSerializable, JsonWritable
from discreet.ledger import Balance, Caps, Charge, Ledger
from discreet.ledger.budget_check import Offer, build_unspent_owners, count_affordable_charges
from discreet.measurements.trimmed_mean import MEAN_OF_RANKS
from discreet.numeric import date_from_days
from discreet.planner.dp_comparison import DpComparison, compare_with_dp
from discreet.planner.options import PriorInput, QueryOptions
from discreet.planner.plan import Candidate, Plan
from discreet.planner.planner import plan
from discreet.planner.workload import compute_mean_errors
from discreet.priors.posterior import Posterior
from discreet.privacy.guarantee import Guarantee
from discreet.query import Question, parse_question, to_sql
from discreet.schema import Schema

if TYPE_CHECKING:
    pass


NO_SNAPSHOT = "none yet"
LITTLE_GAIN_RATIO = 0.95
WEAK_EPSILON_WARNING = "an epsilon above 5 is weak formal protection"
MAX_CELLS = 512
TAIL_MASS = 0.0005
"""Share of a distribution, on either side, that the outermost of that many cells take: else most would be empty."""
NO_PRIOR = "a prior is of one number, or of one person's value; this question has none that a prior could be about"
Reuse = Literal["", "own", "shared", "degraded"]
Array = NDArray[np.float64]
Cells = tuple[Array, Array]
"""Values, and their probabilities."""


@dataclass(frozen=True, slots=True)
class Preview(JsonSerializable):
    """The cost and the expected accuracy of a question. It reads no row and charges nothing.

    `expected_error` is the root mean square error of the refined value, or without a prior of the raw one; None where
    it depends on the rows. `times` is how many more such questions the budgets hold, at most a million.
    """

    question: str
    mechanism: str
    cost: Guarantee
    expected_error: float | None
    candidates: tuple[Candidate, ...]
    accuracy: str
    guarantee: Guarantee
    reason: str = ""
    stored: Fraction | None = None
    """The epsilon of a stored answer that this analyst has paid for, and that would be returned again."""
    reuse: Reuse = ""
    """Which stored answer would be returned: your own, another analyst's, or another's with noise added.

    The data set pays for none of them; you pay for one that is not your own, and `cost` is all that you see of it."""
    warnings: tuple[str, ...] = ()
    prior_error: float | None = None
    """The expected error of not asking: the standard deviation of the prior."""
    pictured: bool = False
    """Whether the answer will have a picture."""
    error_of: str = ""
    """The quantity whose error `expected_error` is; empty if it is 0 or not known."""
    prior_use: str = ""
    """How the prior would be used, in a sentence; empty if there is none."""
    balances: tuple[Balance, ...] = ()
    times: int = 0
    accuracy_by_rows: tuple[AccuracyForRows, ...] = ()
    """How the accuracy of a mean or variance depends on the number of rows selected, where that is not public."""
    compared_with_dp: DpComparison | None = None
    """For an individual-dp question: its error and that of plain differential privacy, and which to prefer."""

    _json_fields = """question mechanism expected_error prior_error reason accuracy accuracy_by_rows candidates
        guarantee cost times warnings stored_epsilon=stored reuse pictured error_of prior_use compared_with_dp
        budget=balances"""


def preview_question(
    schema: Schema,
    question: Question,
    options: QueryOptions,
    analyst: str = DEFAULT_ANALYST,
    ledger: Ledger | None = None,
    snapshot: str = NO_SNAPSHOT,
) -> Preview:
    """Return what a question would cost and be good for; without a ledger, as if nothing had been spent or stored."""
    caps, balances = Caps(schema.budget, schema.analyst_budget, schema.models), list_balances(schema, analyst, ledger)

    def find_offer(planned: Plan) -> Offer | None:
        charge = build_plan_charge(planned, "a question", snapshot, analyst, options)
        return None if ledger is None else ledger.find_offer(charge)

    max_epsilon = find_max_epsilon(options, balances)
    planned = validate_question(
        schema,
        question,
        options,
        max_epsilon=max_epsilon,
        has_stored_answer=lambda candidate: find_offer(candidate) is not None,
    )
    offer = None if planned.is_free else find_offer(planned)
    result = build_preview(planned, to_sql(planned.query, schema))
    charge = build_plan_charge(planned, result.question, snapshot, analyst)
    if ledger is None:
        times = count_affordable_charges(charge, build_unspent_owners(charge, caps))
    else:
        times = _count_affordable_answers(charge, caps, offer, ledger)
    return replace(_apply_offer(result, offer), times=times, balances=balances)


def build_preview(planned: Plan, question: str) -> Preview:
    """Build the preview of a plan, without what the ledger knows."""
    no_cost = Guarantee.dp(0, planned.schema.neighbors, planned.schema.unit_name)
    warnings = [WEAK_EPSILON_WARNING] if planned.guarantee.epsilon is not None and planned.guarantee.epsilon > 5 else []
    prior_error, expected_error = planned.prior_error, planned.expected_error
    if prior_error is not None and expected_error is not None and expected_error > LITTLE_GAIN_RATIO * prior_error:
        # The answer is worse than the prior only by the tail that is mixed into it.
        gain = "the answer would tell you hardly more"
        if expected_error > prior_error:
            gain = "if it is right, it is nearer than the answer, which allows for its being wrong; more epsilon helps"
        warnings.append(f"your prior alone has an expected error of about {format_number(prior_error)}: {gain}")
    return Preview(
        question=question,
        mechanism=planned.mechanism,
        cost=no_cost if planned.is_free else planned.guarantee,
        expected_error=planned.expected_error,
        candidates=planned.candidates,
        accuracy=state_accuracy(planned, planned.confidence),
        accuracy_by_rows=compute_accuracy_by_rows(planned, planned.confidence),
        guarantee=planned.guarantee,
        reason=explain_mechanism(planned),
        warnings=tuple(warnings),
        prior_error=prior_error,
        pictured=is_plan_plottable(planned),
        error_of=describe_error_meaning(planned) if expected_error else "",
        prior_use=planned.prior_description,
        compared_with_dp=compare_with_dp(planned),
    )


def describe_error_meaning(planned: Plan) -> str:
    """Say what the expected error is of: of nested counts it is a mean over all of them."""
    if planned.grid_prior is not None or planned.prior is not None:
        return f"of what you will know: your prior and the answer together{_describe_expected_rows(planned)}"
    if planned.hierarchy is None:
        selection_clause = ", before rows are chosen by it" if planned.coverage.is_selective else ""
        return f"of the raw answer{selection_clause}{_describe_expected_rows(planned)}"
    is_histogram = planned.query.nesting == "ranges"
    return "of a range, on average over all ranges" if is_histogram else "of a count, on average over all rows"


def _describe_expected_rows(planned: Plan) -> str:
    """The number of rows that an expected error is for, if it is not public."""
    if not any(reading.depends_on_rows for reading in planned.readings):
        return ""
    expected = planned.expected_rows
    guess_note = "" if expected.source == "stated" else ", which is only a guess"
    return f", if about {expected.number:,} rows are selected{guess_note}"


def explain_mechanism(planned: Plan) -> str:
    """Say in a sentence why the planner chose this mechanism."""
    if sum(item.chosen for item in planned.candidates) > 1:
        return _explain_joint_mechanism(planned)
    expected_error, reason = planned.expected_error, planned.measurements[0].explain_choice()
    if reason:
        return reason
    digits = None if expected_error is None else format_number(expected_error)
    others = [item for item in planned.candidates if not item.chosen]
    rivals = [item for item in others if item.expected_error is None or format_number(item.expected_error) != digits]
    known_rivals = [item for item in rivals if item.expected_error is not None]
    if digits is None and not known_rivals:
        return "its error depends on the rows, so that it is told in numbers of rows" if planned.candidates else ""
    if digits is None:
        return f"it uses all rows; a {known_rivals[0].mechanism} would tell hardly more than the prior does"
    if not rivals:
        return "the one that fits what was asked"
    if not known_rivals and planned.mechanism.startswith(MEAN_OF_RANKS):
        return f"of so few rows it is nearer than the {rivals[0].mechanism}, if they are spread evenly"
    if not known_rivals:
        return f"its error is known beforehand; that of the {rivals[0].mechanism} depends on the rows"
    nearest = min(known_rivals, key=lambda item: item.expected_error or 0.0)
    nearest_error = format_number(nearest.expected_error or 0.0)
    return f"its expected error is about {digits}, that of the {nearest.mechanism} is about {nearest_error}"


def _explain_joint_mechanism(planned: Plan) -> str:
    """Counts are measured by the strategy with the least mean variance, all else one by one."""
    means = compute_mean_errors(planned.candidates)
    if len(means) < 2:
        return "each number by the mechanism that fits it best"
    (first, least), (second, next_best) = sorted(means.items(), key=lambda pair: pair[1])[:2]
    both = f"about {format_number(least)} by {first}, about {format_number(next_best)} by {second}"
    return f"the counts together have an expected error of {both}"


def _apply_offer(preview: Preview, offer: Offer | None) -> Preview:
    """The preview with a stored answer in it; of another's that is degraded, only that there is one."""
    if offer is None:
        return preview
    if offer.kind == "degraded":
        return replace(preview, reuse=offer.kind)
    price, guarantee = offer.price, preview.guarantee
    if guarantee.model == "zcdp":
        cost = replace(guarantee, rho=price.gaussian_rho)
    elif price.gaussian_rho or price.delta:
        cost = replace(guarantee, epsilon=offer.epsilon)
    else:
        cost = replace(guarantee, model="dp", epsilon=price.epsilon, delta=None)
    stored_epsilon = offer.epsilon if offer.kind == "own" else None
    warnings = preview.warnings
    if price.epsilon > 5 and WEAK_EPSILON_WARNING not in warnings:
        warnings = (*warnings, WEAK_EPSILON_WARNING)
    return replace(preview, stored=stored_epsilon, reuse=offer.kind, cost=cost, warnings=warnings)


def _count_affordable_answers(charge: Charge, caps: Caps, offer: Offer | None, ledger: Ledger) -> int:
    """How many more answers of this cost the budgets hold; at least this one, if the analyst can pay it."""
    if offer is None or offer.kind == "own":
        return ledger.count_affordable(charge, caps)
    priced_charge = replace(charge, spend=offer.price)
    is_affordable = min(1, ledger.count_affordable(priced_charge, caps, analyst_only=True))
    return max(ledger.count_affordable(priced_charge, caps), is_affordable)


@dataclass(frozen=True, slots=True)
class StatedPrior(JsonWritable):
    """A prior over numbers, or over names: `points` are the middles of even cells, or the values there are.

    Dates are text such as 2024-02-29. `text` says in words what is believed.
    """

    points: tuple[float, ...] | tuple[str, ...]
    probabilities: tuple[float, ...]
    names: tuple[str, ...] | None
    mean: float | str | None
    interval_95: tuple[float, float] | tuple[str, str] | None
    text: str

    @property
    def numeric(self) -> bool:
        """Whether it is over numbers, or over dates."""
        return self.names is None

    _json_fields = "numeric points probabilities names mean interval_95 text"


def build_stated_prior(schema: Schema, question: Question, prior: PriorInput) -> StatedPrior:
    """Return what someone with this prior believes of the answer, whatever the noise; in groups, of each group."""
    if prior is None:
        raise InvalidInput("a prior is wanted, such as normal(500, 20)")
    planned = plan(schema, parse_question(question, schema), epsilon=1, prior=prior)
    decoder = Decoder(planned)
    distribution = planned.readings[0].get_stated_distribution()
    if distribution is None:
        raise InvalidInput(NO_PRIOR)
    description = describe_prior_distribution(distribution, decoder, 0)
    if distribution.names is not None:
        return _build_category_prior(distribution, description)
    return _build_numeric_prior(distribution, description, is_date(decoder, 0))


def _build_category_prior(distribution: Posterior, description: str) -> StatedPrior:
    """The likeliest names in their order; if there are too many, all others together."""
    names, mass = list(distribution.names or ()), distribution.mass.tolist()
    if len(names) > MAX_CELLS:
        indices = sorted(np.argsort(-distribution.mass, kind="stable")[: MAX_CELLS - 1].tolist())
        other_mass = 1 - float(distribution.mass[indices].sum())
        names = [names[index] for index in indices] + [f"{len(names) - len(indices):,} others"]
        mass = [mass[index] for index in indices] + [max(other_mass, 0.0)]
    return StatedPrior((), tuple(mass), tuple(names), None, None, description)


def _build_numeric_prior(distribution: Posterior, description: str, dates: bool) -> StatedPrior:
    values, mass = _summarize_cells(distribution)
    low, high = distribution.interval(0.95)
    probabilities = tuple(mass.tolist())
    mean = distribution.mean()
    if dates:
        days = tuple(date_from_days(value).isoformat() for value in values.tolist())
        return StatedPrior(days, probabilities, None, format_day(mean), format_day_ends(low, high), description)
    return StatedPrior(tuple(values.tolist()), probabilities, None, mean, (low, high), description)


def _summarize_cells(distribution: Posterior) -> Cells:
    """The values of a distribution that has few; even cells over nearly all of one that has many, or has cells."""
    if distribution.points is None:
        return _regrid_evenly(distribution)
    if len(distribution.points) <= MAX_CELLS:
        return distribution.points, distribution.mass
    return _group_neighbors(*_clip_tails(distribution))


def _clip_tails(distribution: Posterior) -> Cells:
    """The values between the tails, and in the outermost of them the tails."""
    first, last = (
        int(np.searchsorted(distribution.centers, distribution.quantile(order))) for order in (TAIL_MASS, 1 - TAIL_MASS)
    )
    mass = distribution.mass[first : last + 1].copy()
    mass[0] += distribution.mass[:first].sum()
    mass[-1] += distribution.mass[last + 1 :].sum()
    return distribution.centers[first : last + 1], mass


def _group_neighbors(values: Array, mass: Array) -> Cells:
    """Neighbouring values merged, each group at its mean."""
    firsts = np.arange(0, len(values), math.ceil(len(values) / MAX_CELLS))
    shares, moments = np.add.reduceat(mass, firsts), np.add.reduceat(mass * values, firsts)
    divisors = np.where(shares > 0, shares, 1.0)
    return np.where(shares > 0, moments / divisors, values[firsts]), shares


def _regrid_evenly(distribution: Posterior) -> Cells:
    """Cells of one width, no narrower than the distribution's own, so that a taller one is a likelier value."""
    edges = np.asarray(distribution.edges)
    narrowest = float(np.diff(edges).min())
    low, high = float(edges[0]), float(edges[-1])
    if round((high - low) / narrowest) > MAX_CELLS:  # without the tails
        first = int(np.searchsorted(edges, distribution.quantile(TAIL_MASS), side="right")) - 1
        last = int(np.searchsorted(edges, distribution.quantile(1 - TAIL_MASS), side="left"))
        low, high = float(edges[max(first, 0)]), float(edges[min(last, len(edges) - 1)])
    count = min(max(round((high - low) / narrowest), 1), MAX_CELLS)
    cuts = np.linspace(low, high, count + 1)
    sums = np.interp(cuts, edges, np.concatenate(([0.0], np.cumsum(distribution.mass))))
    sums[0], sums[-1] = 0.0, 1.0
    return (cuts[1:] + cuts[:-1]) / 2, np.diff(sums)
