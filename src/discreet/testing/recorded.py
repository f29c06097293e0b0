"""What mechanisms were handed on two neighbouring tables, and how much of what is declared that uses up."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.formatting import format_number
from discreet.guarantee import Guarantee

ZERO = Fraction(0)
DISALLOWED_SHARE = Fraction(10**6)
"""Stands for the share of something where nothing at all is allowed."""
MAX_DENOMINATOR = 10**4
"""The largest denominator that is shown."""
MAX_INPUTS_SHOWN = 4
"""How many inputs that differ are shown of one mechanism."""
Inputs = Mapping[Any, Any]
"""By the cell, block or level they belong to."""


@dataclass(frozen=True, slots=True)
class ObservedLoss:
    """What a pair of tables loses: as a `Spend`, but of any size, so that what is far too much can be told."""

    epsilon: Fraction = ZERO
    rho: Fraction = ZERO
    gaussian_rho: Fraction = ZERO
    delta: Fraction = ZERO

    def __add__(self, other: ObservedLoss) -> ObservedLoss:
        epsilon, rho = self.epsilon + other.epsilon, self.rho + other.rho
        return ObservedLoss(epsilon, rho, self.gaussian_rho + other.gaussian_rho, self.delta + other.delta)

    @staticmethod
    def pure(epsilon: Fraction) -> ObservedLoss:
        """A pure loss, which is epsilon^2 / 2 of zCDP."""
        return ObservedLoss(epsilon, epsilon**2 / 2)


def compute_share(used: Fraction | int, allowed: Fraction | int) -> Fraction:
    """Of what is allowed."""
    if not used:
        return ZERO
    return Fraction(used) / allowed if allowed else DISALLOWED_SHARE


@dataclass(frozen=True, eq=False, slots=True)
class MechanismReplay:
    """One mechanism: what it was handed on either table, the shares of what is declared, by name, and what is lost."""

    label: str
    mechanism: str
    first_inputs: Inputs
    second_inputs: Inputs
    shares: Mapping[str, Fraction]
    observed_loss: ObservedLoss = ObservedLoss()
    note: str = ""

    @property
    def largest_share(self) -> Fraction:
        """The largest."""
        return max(self.shares.values(), default=ZERO)

    @property
    def changed_cells(self) -> list[Hashable]:
        """The cells whose inputs differ."""
        return [
            cell
            for cell in {**self.first_inputs, **self.second_inputs}
            if not is_same_input(self.first_inputs.get(cell), self.second_inputs.get(cell))
        ]

    def format_line(self) -> str:
        """One line."""
        details = ", ".join(
            [*(f"{name} {format_share(used)}" for name, used in self.shares.items()), *filter(None, [self.note])]
        )
        return ": ".join(filter(None, (self.label, self.mechanism, details)))

    def format_inputs(self) -> list[str]:
        """The first inputs that differ, one a line."""
        cells = self.changed_cells
        lines = [
            f"{cell}: {convert_input(self.first_inputs.get(cell))} and {convert_input(self.second_inputs.get(cell))}"
            for cell in cells[:MAX_INPUTS_SHOWN]
        ]
        return lines + ([f"and {len(cells) - MAX_INPUTS_SHOWN} more"] if len(cells) > MAX_INPUTS_SHOWN else [])


@dataclass(frozen=True, eq=False, slots=True)
class Replay:
    """One question or release on two neighbouring tables.

    `totals` are the shares that all mechanisms together use of what is promised.
    """

    question: str
    guarantee: Guarantee
    mechanisms: tuple[MechanismReplay, ...]
    totals: Mapping[str, Fraction]

    @property
    def observed_loss(self) -> ObservedLoss:
        """By all mechanisms together, on these two tables."""
        return sum((mechanism.observed_loss for mechanism in self.mechanisms), ObservedLoss())

    @property
    def largest_share(self) -> Fraction:
        """The largest share of anything that is declared or promised: at most 1 where all is well."""
        return max((*(mechanism.largest_share for mechanism in self.mechanisms), *self.totals.values()), default=ZERO)

    @property
    def ok(self) -> bool:
        """Whether nothing moved by more than declared. It is one pair of tables: no proof of anything."""
        return self.largest_share <= 1

    @property
    def violations(self) -> tuple[str, ...]:
        """What is more than declared, in words."""
        lines = [mechanism.format_line() for mechanism in self.mechanisms if mechanism.largest_share > 1]
        return (*lines, *(self._format_total(name) for name, used in self.totals.items() if used > 1))

    def _format_total(self, name: str) -> str:
        return f"together, {name}: {format_share(self.totals[name])} of what is promised"

    def table(self) -> str:
        """All of it, as people read it."""
        lines = [self.question, f"promised: {self.guarantee.words()}"]
        for mechanism in self.mechanisms:
            lines += [f"  {mechanism.format_line()}", *(f"    {line}" for line in mechanism.format_inputs())]
        lines += [f"  {self._format_total(name)}" for name in self.totals]
        verdict = "no more than declared" if self.ok else "MORE THAN DECLARED"
        return "\n".join([*lines, f"worst: {format_share(self.largest_share)}, {verdict} on these two tables"])


def is_same_input(value: object, other: object) -> bool:
    """Whether two inputs are alike, arrays cell by cell."""
    if isinstance(value, np.ndarray) and isinstance(other, np.ndarray):
        return bool(np.array_equal(value, other))
    return value is other or (type(value) is type(other) and value == other)


def convert_input(value: object) -> object:
    """An input as people read it."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def format_share(used: Fraction) -> str:
    """A share, never shown as 100 % where it is more or less than all."""
    if used in (0, 1):
        return f"{int(used) * 100} %"
    if used >= DISALLOWED_SHARE:
        return "far too much"
    number = format_number(100 * used)
    about = "just " + ("above" if used > 1 else "below") + " " if number == "100" else ""
    return f"{about}{number} %" + (f" ({used})" if used.denominator <= MAX_DENOMINATOR else "")
