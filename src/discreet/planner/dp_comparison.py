"""Individual DP beside plain differential privacy at the same epsilon: which of the two is expected to be nearer.

Both errors are computed from public facts: the bounds, the number of rows, epsilon, and the floor under the noise of
individual DP. They hold for rows that are spread evenly over the bounds. The local noise scale is never used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from discreet.errors import DiscreetError
from discreet.formatting import format_cost, format_number
from discreet.json_fields import JsonSerializable
from discreet.measurements.contribution_bounds import NOT_STATED
from discreet.measurements.trimmed_mean import SURE_ERROR, find_target_rank
from discreet.measurements.unit_query import OrderStatistic
from discreet.planner.plan import Plan
from discreet.planner.planner import plan
from discreet.schema import Column

MAX_FLOOR_RATIO = 1.1
"""An error of individual DP is put down to the floor under its noise if it is at most this many times the floor's."""


@dataclass(frozen=True, slots=True)
class DpComparison(JsonSerializable):
    """What an individual-dp question would be as a dp question of the same epsilon, and which of the two to prefer."""

    mechanism: str
    """The mechanism that plain differential privacy would use."""
    accuracy: str
    """Its stated accuracy, in ranks."""
    expected_error: float
    """Its expected error, if the rows are spread evenly over the bounds."""
    own_error: float
    """The expected error of individual DP on the same rows: at least that of the floor under its noise."""
    prefer: str
    """The model with the smaller expected error; dp where both are the same."""
    words: str
    """One sentence that says which to prefer, and why."""

    _json_fields = "mechanism accuracy expected_error own_error prefer words"


def compare_with_dp(individual_plan: Plan) -> DpComparison | None:
    """Compare an individual-dp plan with the dp plan of the same question and epsilon; None for any other plan."""
    if individual_plan.guarantee.model != "individual-dp":
        return None
    statistic = cast(OrderStatistic, individual_plan.measurements[0])  # all that this model answers
    try:
        dp_plan = plan(individual_plan.schema, individual_plan.query, individual_plan.epsilon, model="dp")
    except DiscreetError:  # the question has no plain answer to compare with
        return None
    selection = dp_plan.measurements[0]
    rank = find_target_rank(individual_plan.query.aggregates[0], statistic.rows)
    error = selection.compute_even_row_error(rank, statistic.rows)
    if error is None:
        return None
    share = float(rank) / (statistic.rows + 1)
    individual_error = estimate_individual_error(statistic, individual_plan.epsilon, share)
    prefer = "dp" if error <= individual_error else "individual-dp"
    floor_error = _compute_error(statistic, [(1.0, _find_noise_floor(statistic))], share)
    by_floor = individual_error <= MAX_FLOOR_RATIO * floor_error
    words = _format_comparison(statistic.candidates.column, individual_plan.epsilon, error, individual_error, by_floor)
    coverage = individual_plan.coverage
    confidence = coverage.adjust_confidence(individual_plan.confidence)
    likely = coverage.format_probability(individual_plan.confidence)
    accuracy = NOT_STATED if confidence is None else dp_plan.readings[0].describe_accuracy(confidence, likely)
    return DpComparison(dp_plan.mechanism, accuracy, error, individual_error, prefer, words)


def estimate_individual_error(statistic: OrderStatistic, epsilon: Fraction, share: float = 0.5) -> float:
    """The expected error of individual DP on even rows, for a value at this share of the bounds; answers stay in them.

    The noise has the scale of the local sensitivity, which is one gap between even rows, or that of the floor.
    """
    gaps = [(chance, max(gap / float(epsilon), _find_noise_floor(statistic))) for chance, gap in _list_gaps(statistic)]
    return _compute_error(statistic, gaps, min(max(share, 0.0), 1.0))


def _compute_error(statistic: OrderStatistic, scales: list[tuple[float, float]], share: float) -> float:
    """The root mean square error of noise that has each scale with its probability; answers stay in the bounds.

    For Laplace noise of scale b that is cut at a distance d, E[min(|N|, d)^2] = 2 b^2 - 2 b (b + d) e^(-d/b).
    """
    width = float(max(statistic.mechanism.vector.grid.width, 1))
    square = sum(
        chance * (scale**2 - scale * (scale + side) * math.exp(-side / scale))
        for chance, scale in scales
        for side in (share * width, (1 - share) * width)
    )
    return math.sqrt(max(square, 0.0)) * statistic.candidates.width * float(statistic.candidates.column.step)


def _find_noise_floor(statistic: OrderStatistic) -> float:
    vector = statistic.mechanism.vector
    return max(vector.grid.width, 1) / float(vector.floor)


def _list_gaps(statistic: OrderStatistic) -> list[tuple[float, int]]:
    """The local sensitivity of even rows with their probabilities: the larger of the two gaps beside a value.

    Even rows lie width / (rows + 1) apart. Rounded to whole numbers, a gap is that number rounded down or up, and up as
    often as its fraction says. Two neighbouring gaps are not both rounded up unless that fraction is above a half.
    """
    gap, remainder = divmod(statistic.mechanism.vector.grid.width, statistic.rows + 1)
    up = min(2 * remainder / (statistic.rows + 1), 1.0)
    return [(1 - up, gap), (up, gap + 1)]


def _format_comparison(column: Column, epsilon: Fraction, error: float, individual_error: float, by_floor: bool) -> str:
    unit = " days" if column.kind == "date" else ""
    dp_words = "nearly 0" if error < SURE_ERROR * float(column.step) else f"about {format_number(error)}{unit}"
    individual_words = f"about {format_number(individual_error)}{unit}"
    reason = "by the floor under its noise" if by_floor else "by the gap between two of so few rows"
    condition = "if the rows are spread evenly over the bounds"
    opening = f"At epsilon {format_cost(epsilon)}"
    if error <= individual_error:
        return (
            f"{opening}, prefer plain differential privacy (model dp): its expected error is {dp_words}, that of "
            f"individual-dp is {individual_words} {reason}, {condition}; and its promise is stronger."
        )
    return (
        f"{opening}, individual-dp is expected to be nearer: its expected error is {individual_words}, that of plain "
        f"differential privacy (model dp) is {dp_words}, {condition}. Its promise is weaker than differential privacy: "
        "prefer dp unless that is acceptable."
    )
