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
NOT_ALLOWED = Fraction(10**6)
"""Stands for the share of something where nothing at all is allowed."""
LONGEST = 10**4
"""The largest denominator that is shown."""
MOST_SHOWN = 4
"""How many inputs that differ are shown of one mechanism."""
Inputs = Mapping[Any, Any]
"""By the cell, block or level they belong to."""


@dataclass(frozen=True, slots=True)
class Lost:
    """What a pair of tables loses: as a `Spend`, but of any size, so that what is far too much can be told."""

    epsilon: Fraction = ZERO
    rho: Fraction = ZERO
    other: Fraction = ZERO
    delta: Fraction = ZERO

    def __add__(self, more: Lost) -> Lost:
        epsilon, rho = self.epsilon + more.epsilon, self.rho + more.rho
        return Lost(epsilon, rho, self.other + more.other, self.delta + more.delta)

    @staticmethod
    def pure(epsilon: Fraction) -> Lost:
        """A pure loss, which is epsilon^2 / 2 of zCDP."""
        return Lost(epsilon, epsilon**2 / 2)


def share(used: Fraction | int, allowed: Fraction | int) -> Fraction:
    """Of what is allowed."""
    if not used:
        return ZERO
    return Fraction(used) / allowed if allowed else NOT_ALLOWED


@dataclass(frozen=True, eq=False, slots=True)
class Recorded:
    """One mechanism: what it was handed on either table, the shares of what is declared, by name, and what is lost."""

    what: str
    mechanism: str
    one: Inputs
    two: Inputs
    shares: Mapping[str, Fraction]
    lost: Lost = Lost()
    note: str = ""

    @property
    def share(self) -> Fraction:
        """The largest."""
        return max(self.shares.values(), default=ZERO)

    @property
    def moved(self) -> list[Hashable]:
        """The cells whose inputs differ."""
        return [cell for cell in {**self.one, **self.two} if not same(self.one.get(cell), self.two.get(cell))]

    def words(self) -> str:
        """One line."""
        told = ", ".join([*(f"{name} {percent(own)}" for name, own in self.shares.items()), *filter(None, [self.note])])
        return ": ".join(filter(None, (self.what, self.mechanism, told)))

    def inputs(self) -> list[str]:
        """The first inputs that differ, one a line."""
        cells = self.moved
        lines = [f"{cell}: {plain(self.one.get(cell))} and {plain(self.two.get(cell))}" for cell in cells[:MOST_SHOWN]]
        return lines + ([f"and {len(cells) - MOST_SHOWN} more"] if len(cells) > MOST_SHOWN else [])


@dataclass(frozen=True, eq=False, slots=True)
class Replay:
    """One question or release on two neighbouring tables.

    `totals` are the shares that all mechanisms together use of what is promised.
    """

    question: str
    guarantee: Guarantee
    recorded: tuple[Recorded, ...]
    totals: Mapping[str, Fraction]

    @property
    def lost(self) -> Lost:
        """By all mechanisms together, on these two tables."""
        return sum((one.lost for one in self.recorded), Lost())

    @property
    def worst(self) -> Fraction:
        """The largest share of anything that is declared or promised: at most 1 where all is well."""
        return max((*(one.share for one in self.recorded), *self.totals.values()), default=ZERO)

    @property
    def ok(self) -> bool:
        """Whether nothing moved by more than declared. It is one pair of tables: no proof of anything."""
        return self.worst <= 1

    @property
    def beyond(self) -> tuple[str, ...]:
        """What is more than declared, in words."""
        own = [one.words() for one in self.recorded if one.share > 1]
        return (*own, *(self._together(name) for name, used in self.totals.items() if used > 1))

    def _together(self, name: str) -> str:
        return f"together, {name}: {percent(self.totals[name])} of what is promised"

    def table(self) -> str:
        """All of it, as people read it."""
        lines = [self.question, f"promised: {self.guarantee.words()}"]
        for one in self.recorded:
            lines += [f"  {one.words()}", *(f"    {line}" for line in one.inputs())]
        lines += [f"  {self._together(name)}" for name in self.totals]
        verdict = "no more than declared" if self.ok else "MORE THAN DECLARED"
        return "\n".join([*lines, f"worst: {percent(self.worst)}, {verdict} on these two tables"])


def same(one: object, two: object) -> bool:
    """Whether two inputs are alike, arrays cell by cell."""
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        return bool(np.array_equal(one, two))
    return one is two or (type(one) is type(two) and one == two)


def plain(given: object) -> object:
    """An input as people read it."""
    return given.tolist() if isinstance(given, np.ndarray) else given


def percent(used: Fraction) -> str:
    """A share, never shown as 100 % where it is more or less than all."""
    if used in (0, 1):
        return f"{int(used) * 100} %"
    if used >= NOT_ALLOWED:
        return "far too much"
    told = format_number(100 * used)
    about = "just " + ("above" if used > 1 else "below") + " " if told == "100" else ""
    return f"{about}{told} %" + (f" ({used})" if used.denominator <= LONGEST else "")
