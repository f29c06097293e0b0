"""What a question would cost and be good for: from plan and ledger, never from a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, cast

from discreet.custodian.accuracy import AccuracyForRows, accuracy_by_rows, state_accuracy
from discreet.custodian.question import Question, read
from discreet.custodian.reader import Reader
from discreet.errors import BudgetExceeded, InvalidInput
from discreet.formatting import format_number
from discreet.guarantee import Guarantee
from discreet.ledger import Balance, Caps, Charge, Ledger
from discreet.ledger.refusal import times, untouched
from discreet.ledger.stored import Offer
from discreet.plain import plain_text
from discreet.planner.asked import Asked, Given
from discreet.planner.choose import plan, plan_asked
from discreet.planner.chosen import Chosen
from discreet.planner.compared import ComparedWithDp, compare_with_dp
from discreet.planner.individual import OrderStatistic
from discreet.planner.nested import Nested
from discreet.planner.noisy import Noisy
from discreet.planner.plan import Candidate, Plan
from discreet.planner.ranks import MEAN_OF_RANKS
from discreet.planner.together import mean_errors
from discreet.query import to_sql
from discreet.query.query import Query
from discreet.schema import Schema

if TYPE_CHECKING:
    from discreet.ledger.charge import Model

ANALYST = "analyst"
ANY_PRICE = "any"
HARDLY = 0.95
WEAK = "an epsilon above 5 is weak formal protection"


@dataclass(frozen=True, slots=True)
class Preview:
    """What a question would cost and be good for. It reads no row and charges nothing.

    `expected_error` is the root mean square error of the refined value, or without a prior of the raw one; None where
    it depends on the rows. `times` is how many more such questions the budgets hold, at most a million being told.
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
    """The epsilon of a stored answer that this analyst has paid for, and that would be told instead of a new draw."""
    reuse: Literal["", "own", "shared", "degraded"] = ""
    """Which stored answer would be told: your own, another analyst's, or another's with noise added to your epsilon.

    The data set pays for none of them; you pay for what is not your own, and `cost` is all that is told of it."""
    warnings: tuple[str, ...] = ()
    prior_error: float | None = None
    """The expected error of not asking: the standard deviation of the prior."""
    pictured: bool = False
    error_of: str = ""
    """What `expected_error` is of; empty where it is 0 or not known."""
    prior_use: str = ""
    """How the prior would be used, in a sentence; empty where none would."""
    balances: tuple[Balance, ...] = ()
    times: int = 0
    accuracy_by_rows: tuple[AccuracyForRows, ...] = ()
    """How the accuracy of a mean or variance depends on the number of rows selected, where that is not public."""
    compared_with_dp: ComparedWithDp | None = None
    """Of an individual-dp question: its error and that of plain differential privacy, and which to prefer."""


def charge_of(
    planned: Plan,
    told: str,
    snapshot: str,
    analyst: str,
    key: str | None = None,
    fresh: bool = False,
    any_price: bool = False,
) -> Charge:
    """What a plan asks of the ledger."""
    return Charge(
        dataset=planned.schema.name,
        snapshot=snapshot,
        analyst=analyst,
        question=planned.question(),
        query=told,
        model=cast("Model", planned.account),
        spend=planned.cost,
        epsilon=planned.epsilon,
        part=planned.region(),
        key=key,
        fresh=fresh,
        any_price=any_price,
        degradable=planned.degradable,
    )


def is_any_price(reuse: object) -> bool:
    """Whether an analyst takes another's stored answer at any price; left out, for what she offers at the most."""
    if reuse is None:
        return False
    if plain_text(reuse, "reuse") != ANY_PRICE:
        raise InvalidInput(
            f'reuse is "{ANY_PRICE}", to take another analyst\'s stored answer also if it costs more than you offer; '
            "otherwise leave it out"
        )
    return True


def preview(
    schema: Schema,
    question: Question,
    epsilon: object = None,
    prior: Given = None,
    delta: object = None,
    model: str | None = None,
    **more: Any,
) -> Preview:
    """What a question would cost and be good for, from the schema alone: as if nothing had been spent."""
    most = min(schema.budget.epsilon, schema.analyst_budget.epsilon)
    planned = plan(schema, read(question, schema), epsilon, delta, prior, model, most=most, **more)
    told = previewed(planned, to_sql(planned.query, schema))
    caps = Caps(schema.budget, schema.analyst_budget, schema.models)
    charge = charge_of(planned, told.question, "none yet", ANALYST)
    return replace(told, times=times(charge, untouched(charge, caps)))


def previewed(planned: Plan, question: str) -> Preview:
    """A plan as a preview."""
    nothing = Guarantee.dp(0, planned.schema.neighbours, planned.schema.unit_name)
    weak = [WEAK] if planned.guarantee.epsilon is not None and planned.guarantee.epsilon > 5 else []
    alone, error = planned.prior_error, planned.expected_error
    if alone is not None and error is not None and error > HARDLY * alone:
        weak.append(f"your prior alone has an expected error of about {format_number(alone)}: {_hardly(error > alone)}")
    return Preview(
        question=question,
        mechanism=planned.mechanism,
        cost=nothing if planned.free else planned.guarantee,
        expected_error=planned.expected_error,
        candidates=planned.candidates,
        accuracy=state_accuracy(planned, planned.confidence),
        accuracy_by_rows=accuracy_by_rows(planned, planned.confidence),
        guarantee=planned.guarantee,
        reason=reason(planned),
        warnings=tuple(weak),
        prior_error=alone,
        pictured=pictured(planned),
        error_of=error_of(planned) if error else "",
        prior_use=planned.prior_words,
        compared_with_dp=compare_with_dp(planned),
    )


def _hardly(worse: bool) -> str:
    """What an answer is worth beside a prior that is nearly as good; worse only by the tail mixed into the prior."""
    if not worse:
        return "the answer would tell you hardly more"
    return "if it is right, it is nearer than the answer, which allows for its being wrong; more epsilon helps"


def error_of(planned: Plan) -> str:
    """What the expected error is of: of nested counts it is a mean over all that they tell."""
    if planned.belief is not None or planned.prior is not None:
        return f"of what you will know: your prior and the answer together{_for_rows(planned)}"
    if not isinstance(planned.measurements[0], Nested):
        chosen = ", before rows are chosen by it" if planned.coverage.chosen else ""
        return f"of the raw answer{chosen}{_for_rows(planned)}"
    ranges = planned.query.nesting == "ranges"
    return "of a range, on average over all ranges" if ranges else "of a count, on average over all rows"


def _for_rows(planned: Plan) -> str:
    """The number of rows that an expected error is for, where it is not public."""
    noisy = [one for one in planned.measurements if isinstance(one, Noisy)]
    if not any(planned.meaning(one).depends_on_rows for one in noisy):
        return ""
    expected = planned.expected_rows
    guess = "" if expected.source == "stated" else ", which is only a guess"
    return f", if about {expected.number:,} rows are selected{guess}"


def pictured(planned: Plan) -> bool:
    """Whether the answer can be drawn: a histogram, or one number with a law to show."""
    if planned.query.nesting == "ranges":
        return True
    return not planned.query.keys and len(planned.measurements) == 1 and Reader(planned).pictured(0)


def reason(planned: Plan) -> str:
    """Why this mechanism."""
    if sum(one.chosen for one in planned.candidates) > 1:
        return _reason_of_several(planned)
    own, one = planned.expected_error, planned.measurements[0]
    if isinstance(one, OrderStatistic):
        return "the one that individual-dp has for order statistics"
    by_rank = one.why_by_rank() if isinstance(one, Chosen) else ""
    if by_rank:
        return by_rank
    rivals = [one for one in planned.candidates if not (one.chosen or _looks_alike(one.expected_error, own))]
    known = [one for one in rivals if one.expected_error is not None]
    if own is None and not known:
        return "its error depends on the rows, so that it is told in numbers of rows" if planned.candidates else ""
    if own is None:
        return f"it uses all rows; a {known[0].mechanism} would tell hardly more than the prior does"
    if not rivals:
        return "the one that fits what was asked"
    if not known and planned.mechanism.startswith(MEAN_OF_RANKS):
        return f"of so few rows it is nearer than the {rivals[0].mechanism}, if they are spread evenly"
    if not known:
        return f"its error is known beforehand; that of the {rivals[0].mechanism} depends on the rows"
    nearest = min(known, key=lambda one: one.expected_error or 0.0)
    other = format_number(nearest.expected_error or 0.0)
    return f"its expected error is about {format_number(own)}, that of the {nearest.mechanism} is about {other}"


def _looks_alike(one: float | None, two: float | None) -> bool:
    """Whether two errors are told by the same digits."""
    return one is not None and two is not None and format_number(one) == format_number(two)


def _reason_of_several(planned: Plan) -> str:
    """Counts are measured by the strategy with the least mean variance, all else one by one."""
    means = mean_errors(planned.candidates)
    if len(means) < 2:
        return "each number by the mechanism that fits it best"
    (first, least), (second, next_best) = sorted(means.items(), key=lambda one: one[1])[:2]
    both = f"about {format_number(least)} by {first}, about {format_number(next_best)} by {second}"
    return f"the counts together have an expected error of {both}"


def with_offer(told: Preview, offer: Offer | None) -> Preview:
    """A preview that knows of a stored answer; of another's that is degraded, only that there is one."""
    if offer is None:
        return told
    if offer.kind == "degraded":
        return replace(told, reuse=offer.kind)
    price, label = offer.price, told.guarantee
    if label.model == "zcdp":
        cost = replace(label, rho=price.other)
    elif price.other or price.delta:
        cost = replace(label, epsilon=offer.epsilon)
    else:
        cost = replace(label, model="dp", epsilon=price.epsilon, delta=None)
    own = offer.epsilon if offer.kind == "own" else None
    weak = (WEAK,) if price.epsilon > 5 and WEAK not in told.warnings else ()
    return replace(told, stored=own, reuse=offer.kind, cost=cost, warnings=(*told.warnings, *weak))


def count_more(charge: Charge, caps: Caps, offer: Offer | None, ledger: Ledger) -> int:
    """How many more new answers of the same cost the budgets hold; this one at least, where the analyst can pay it."""
    if offer is None or offer.kind == "own":
        return ledger.times(charge, caps)
    priced = replace(charge, spend=offer.price)
    return max(ledger.times(priced, caps), min(1, ledger.times(priced, caps, alone=True)))


def plan_or_stored(schema: Schema, query: Query, request: Asked, offer: Callable[[Plan], Offer | None]) -> Plan:
    """A plan; of an accuracy that what is left cannot reach, only where a stored answer has it."""
    try:
        return plan_asked(schema, query, request)
    except BudgetExceeded as refusal:
        try:
            dear = plan_asked(schema, query, replace(request, most=None))
        except BudgetExceeded:  # no epsilon reaches it; only the first refusal says what is left
            raise refusal from None
        if offer(dear) is None:
            raise
        return dear


def least_left(balances: tuple[Balance, ...], model: str) -> Fraction:
    """The least that is left among the accounts that an answer in a model is paid from: a pure one from all."""
    return min((one.left for one in balances if model in ("dp", one.model)), default=Fraction(0))
