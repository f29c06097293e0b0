"""What is decided before a question is charged: its plan, every refusal, and the charge; from public facts alone."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from discreet.answers.answer import NO_PICTURE
from discreet.answers.hierarchical_answer import check_ranges
from discreet.answers.population_estimates import check_population_size
from discreet.answers.reconciled_counts import check_plan_constraints
from discreet.errors import InvalidInput
from discreet.ledger import Balance, Caps, Charge, Ledger
from discreet.ledger.accounts import Terms, qualify_promise
from discreet.planner.options import ANY_PRICE, PlanRequest, QueryOptions, build_plan_request, parse_range
from discreet.planner.plan import Plan
from discreet.planner.planner import plan_question
from discreet.query import Question, parse_question
from discreet.schema import Schema

if TYPE_CHECKING:
    from discreet.ledger.charge import Model

DEFAULT_ANALYST = "analyst"
ZERO = Fraction(0)


def validate_question(
    schema: Schema,
    question: Question,
    options: QueryOptions,
    *,
    max_epsilon: Fraction | None = None,
    has_stored_answer: Callable[[Plan], bool] = lambda _: False,
    plot: bool = False,
) -> Plan:
    """Plan a question, or refuse whatever can be refused before the charge: from public facts, without a row.

    Args:
        schema: The schema of the data set.
        question: The question, as SQL text or a `Query`.
        options: All that the analyst says besides.
        max_epsilon: The largest epsilon that an accuracy may cost.
        has_stored_answer: Whether a plan has a stored answer, which serves an accuracy that would cost more.
        plot: Whether a picture is wanted: refused where the answer has none.
    """
    return validate_request(schema, question, build_plan_request(options, max_epsilon), has_stored_answer, plot)


def validate_request(
    schema: Schema,
    question: Question,
    request: PlanRequest,
    has_stored_answer: Callable[[Plan], bool],
    plot: bool = False,
) -> Plan:
    """Take a question through the stages that come before the charge, and no further."""
    planned = plan_question(schema, parse_question(question, schema), request, has_stored_answer)
    validate_plan(planned, request, plot)
    return planned


def validate_plan(planned: Plan, request: PlanRequest, plot: bool = False) -> None:
    """Refuse what the answer to a plan could not give afterwards: ranges, fitted counts, a population, a picture."""
    if request.ranges:
        check_ranges(planned.schema, planned.query, [parse_range(text) for text in request.ranges])
    if request.constraints:
        check_plan_constraints(planned, request.constraints)
    if request.wants_population:
        check_population_size(planned, request.population_size)
    if plot and not is_plan_plottable(planned):
        raise InvalidInput(NO_PICTURE)


def is_plan_plottable(planned: Plan) -> bool:
    """Whether the answer has a picture: a histogram, or one number with a distribution to show."""
    if planned.query.nesting == "ranges":
        return True
    return not planned.query.keys and len(planned.readings) == 1 and planned.readings[0].is_plottable


def find_max_epsilon(options: QueryOptions, balances: tuple[Balance, ...]) -> Fraction:
    """Find the most that an accuracy may cost: the least that is left to its payers; a pure answer uses all models."""
    is_pure = options.delta is None
    return min((balance.left for balance in balances if is_pure or balance.model == "approx-dp"), default=ZERO)


def build_plan_charge(
    planned: Plan,
    question: str,
    snapshot: str,
    analyst: str,
    options: QueryOptions | None = None,
) -> Charge:
    """Build the charge of a plan; without options, of a first answer to it at its own price."""
    return Charge(
        dataset=planned.schema.name,
        snapshot=snapshot,
        analyst=analyst,
        question=planned.build_question_key(),
        query=question,
        model=cast("Model", planned.account_model),
        spend=planned.cost,
        epsilon=planned.epsilon,
        part=planned.get_sub_account(),
        key=None if options is None else options.key,
        fresh=options is not None and options.fresh,
        any_price=options is not None and options.reuse == ANY_PRICE,
        degradable=planned.is_degradable,
    )


def list_balances(schema: Schema, analyst: str | None = None, ledger: Ledger | None = None) -> tuple[Balance, ...]:
    """List what is spent and left, of the data set and of one analyst; without a ledger all is left."""
    caps, owners = Caps(schema.budget, schema.analyst_budget, schema.models), dict.fromkeys((None, analyst))
    if ledger is None:
        return tuple(_build_full_balance(caps, model, owner) for owner in owners for model in schema.models)
    return tuple(balance for owner in owners for balance in ledger.balance(schema.name, caps, owner))


def _build_full_balance(caps: Caps, model: str, analyst: str | None) -> Balance:
    cap = caps.dataset if analyst is None else caps.analyst
    promise = qualify_promise(analyst, Terms.from_first_cap(cap, caps.models).describe_promise(model))
    return Balance(cast("Model", model), analyst, ZERO, ZERO, cap, cap.epsilon, (), promise)
