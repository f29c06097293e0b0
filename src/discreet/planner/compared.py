"""Individual DP beside plain differential privacy at the same epsilon: which of the two is expected to be nearer.

Both errors are computed from public facts: the bounds, the number of rows, epsilon, and the floor under the noise of
individual DP. They hold for rows that are spread evenly over the bounds. The local noise scale is never used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import DiscreetError
from discreet.formatting import format_cost, format_number
from discreet.planner.choose import plan
from discreet.planner.chosen import Chosen
from discreet.planner.coverage import NOT_STATED
from discreet.planner.individual import OrderStatistic
from discreet.planner.plan import Plan
from discreet.planner.ranks import SURE, rank_wanted
from discreet.schema import Column

BY_FLOOR = 1.1
"""An error of individual DP is put down to the floor under its noise if it is at most this many times the floor's."""


@dataclass(frozen=True, slots=True)
class ComparedWithDp:
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


def compare_with_dp(planned: Plan) -> ComparedWithDp | None:
    """Compare an individual-dp plan with the dp plan of the same question and epsilon; None for any other plan."""
    own = planned.measurements[0]
    if not isinstance(own, OrderStatistic):
        return None
    try:
        other = plan(planned.schema, planned.query, planned.epsilon, model="dp")
    except DiscreetError:  # the question has no plain answer to compare with
        return None
    plain = other.measurements[0]
    if not isinstance(plain, Chosen):
        return None
    rank = rank_wanted(planned.query.aggregates[0], own.rows)
    error = plain.error_on_even_rows(rank, own.rows)
    if error is None:
        return None
    share = float(rank) / (own.rows + 1)
    noise = own_error(own, planned.epsilon, share)
    prefer = "dp" if error <= noise else "individual-dp"
    by_floor = noise <= BY_FLOOR * _error(own, [(1.0, _floor(own))], share)
    words = _sentence(own.candidates.column, planned.epsilon, error, noise, by_floor)
    each, likely = planned.coverage.each(planned.confidence), planned.coverage.likely(planned.confidence)
    said = NOT_STATED if each is None else plain.words(each, likely)
    return ComparedWithDp(other.mechanism, said, error, noise, prefer, words)


def own_error(own: OrderStatistic, epsilon: Fraction, share: float = 0.5) -> float:
    """The expected error of individual DP on even rows, for a value at this share of the bounds; answers stay in them.

    The noise has the scale of the local sensitivity, which is one gap between even rows, or that of the floor.
    """
    gaps = [(chance, max(gap / float(epsilon), _floor(own))) for chance, gap in _gaps(own)]
    return _error(own, gaps, min(max(share, 0.0), 1.0))


def _error(own: OrderStatistic, scales: list[tuple[float, float]], share: float) -> float:
    """The root mean square error of noise that has each scale with its probability; answers stay in the bounds.

    For Laplace noise of scale b that is cut at a distance d, E[min(|N|, d)^2] = 2 b^2 - 2 b (b + d) e^(-d/b).
    """
    width = float(max(own.mechanism.vector.grid.width, 1))
    square = sum(
        chance * (scale**2 - scale * (scale + side) * math.exp(-side / scale))
        for chance, scale in scales
        for side in (share * width, (1 - share) * width)
    )
    return math.sqrt(max(square, 0.0)) * own.candidates.width * float(own.candidates.column.step)


def _floor(own: OrderStatistic) -> float:
    """The least scale of the noise, whatever the rows."""
    vector = own.mechanism.vector
    return max(vector.grid.width, 1) / float(vector.floor)


def _gaps(own: OrderStatistic) -> list[tuple[float, int]]:
    """The local sensitivity of even rows with their probabilities: the larger of the two gaps beside a value.

    Even rows lie width / (rows + 1) apart. Rounded to whole numbers, a gap is that number rounded down or up, and up as
    often as its fraction says. Two neighbouring gaps are not both rounded up unless that fraction is above a half.
    """
    gap, rest = divmod(own.mechanism.vector.grid.width, own.rows + 1)
    up = min(2 * rest / (own.rows + 1), 1.0)
    return [(1 - up, gap), (up, gap + 1)]


def _sentence(column: Column, epsilon: Fraction, error: float, noise: float, by_floor: bool) -> str:
    unit = " days" if column.kind == "date" else ""
    plain = "nearly 0" if error < SURE * float(column.step) else f"about {format_number(error)}{unit}"
    own = f"about {format_number(noise)}{unit}"
    why = "by the floor under its noise" if by_floor else "by the gap between two of so few rows"
    even = "if the rows are spread evenly over the bounds"
    at = f"At epsilon {format_cost(epsilon)}"
    if error <= noise:
        return (
            f"{at}, prefer plain differential privacy (model dp): its expected error is {plain}, that of individual-dp "
            f"is {own} {why}, {even}; and its promise is stronger."
        )
    return (
        f"{at}, individual-dp is expected to be nearer: its expected error is {own}, that of plain differential "
        f"privacy (model dp) is {plain}, {even}. Its promise is weaker than differential privacy: prefer dp unless "
        "that is acceptable."
    )
