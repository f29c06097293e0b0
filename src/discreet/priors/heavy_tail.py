"""The heavy tail that is mixed into a prior, and when it is not.

A prior that is wrong must not ruin an answer. Where a prior only weighs noise afterwards, nine tenths of it are used as
stated and one tenth is spread over a Cauchy distribution with the prior's center and scale, so that an answer far out
still counts. Where the answer is drawn from the prior, a prior with ends is used as stated: values beyond its ends are
impossible and never returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from discreet.formatting import format_ends

TAIL_WEIGHT = 0.1
COARSE_GRID_RULES = (8, 9)
"""The rules of `PriorUse` for shapes that were given on a coarser grid, without and with a tail."""
ONLY_POINTS = (
    "Only the values that it gives a weight to are possible, but {} can lie between them; "
    "to allow that, state a shape such as normal(mean, sd) or uniform(low, high) instead of weights."
)


def should_mix_tail(tail: bool | None, heavy: bool, is_bounded: bool, is_sampled: bool) -> bool:
    """Whether a tail is mixed into a prior: never into one that is heavy already, else as the analyst says.

    Where she does not say it is mixed in, but for one with ends that the answer is drawn from or chosen by.
    """
    if heavy:
        return False
    return not (is_sampled and is_bounded) if tail is None else tail


def get_prior_rule(tail: bool, heavy: bool, has_moved_values: bool) -> int:
    """The rule of `PriorUse` that a law was made by: another one for every law that a prior may lead to.

    `tail` is whether one was mixed in, `has_moved_values` whether numbers went elsewhere than to the nearest values.
    """
    if heavy:  # no tail is ever mixed in
        return 5 if has_moved_values else 1
    if has_moved_values:
        return 4 if tail else 3
    return 1 if tail else 2


def get_coarse_grid_rule(tail: bool) -> int:
    """The rule of `PriorUse` for shapes that were given on a coarser grid than the values have."""
    return COARSE_GRID_RULES[tail]


@dataclass(frozen=True, slots=True)
class PriorUse:
    """How a prior was used: with a tenth of its weight in a heavy tail, or as stated; and the ends it stays within."""

    tail: bool
    ends: tuple[str, str] | None = None
    excludes: bool = False
    """Whether names have no weight, so that they are impossible; of a prior over names."""
    rule: int = 1
    """How the law that answers are drawn from follows from what was stated, for the names of stored answers.

    By rule 1 numbers go to the nearest values there are, and a tail is mixed in unless there is one. By rule 2 there is
    none beside what was stated. By rules 3 and 4, without and with a tail, some numbers are no values there are, and go
    to other values between the ends or are left out; rule 5 is the same of a prior that is heavy itself. These were
    called 2 once, so no answer of them is found by 2. By rules 6 and 7, without and with a tail mixed in, a mean of a
    public number of rows has its own values; answers were drawn once from places counted from the prior's own ends. By
    rules 8 and 9, without and with a tail, shapes that were given on a coarser grid are laid on the values themselves;
    answers were drawn once from the points of that grid.
    """
    quantity_between: str = ""
    """The number that may lie between the values of the prior, which alone are possible, such as "AVG of age"."""

    @property
    def words(self) -> str:
        """One sentence; a second where the number may lie between the values that the prior names."""
        return f"{self._usage} {ONLY_POINTS.format(self.quantity_between)}" if self.quantity_between else self._usage

    @property
    def _usage(self) -> str:
        if self.tail:
            within = "" if self.ends is None else f", between {self.ends[0]} and {self.ends[1]}"
            return f"A tenth of the prior's weight is given to a heavy tail{within}."
        if self.ends is None and not self.excludes:
            return "The prior is used as stated."
        what = "values without a weight" if self.ends is None else f"values outside {self.ends[0]} to {self.ends[1]}"
        return f"The prior is used as stated: {what} are impossible, also if the truth is one of them."


def format_prior_ends(hull: tuple[Fraction, Fraction] | None, low: Fraction, high: Fraction) -> tuple[str, str] | None:
    """The ends of a prior as people read them, rounded outwards, as far as they lie between low and high."""
    return None if hull is None else format_ends(max(hull[0], low), min(hull[1], high))
