"""What a replay finds: the inputs of each mechanism on two tables, and the shares of what is declared that they use."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.formatting import format_number
from discreet.measurements.observed_loss import DISALLOWED_SHARE, ZERO, Inputs, ObservedLoss, is_same_input
from discreet.privacy.guarantee import Guarantee

MAX_DENOMINATOR = 10**4
"""The largest denominator that is shown."""
NO_LOSS = ObservedLoss()
MAX_INPUTS_SHOWN = 4
"""How many inputs that differ are shown of one mechanism."""


@dataclass(frozen=True, eq=False, slots=True)
class MechanismReplay:
    """One mechanism of a replay: its inputs on both tables, and the shares of what is declared.

    Args:
        label: What is measured.
        mechanism: The mechanism in words.
        first_inputs: The inputs on the first table, by cell.
        second_inputs: The inputs on the second table, by cell.
        shares: The shares of the declared sensitivity that the change of inputs uses, by name.
        observed_loss: The privacy loss on these two tables.
        note: A remark in words.

    Example:
        >>> from fractions import Fraction
        >>> from discreet.verification import MechanismReplay
        >>> shares = {"changes": Fraction(1, 2)}
        >>> MechanismReplay("COUNT(*)", "discrete Laplace", {"F": 3, "M": 4}, {"F": 3, "M": 5}, shares).changed_cells
        ['M']
    """

    label: str
    mechanism: str
    first_inputs: Inputs
    second_inputs: Inputs
    shares: Mapping[str, Fraction]
    observed_loss: ObservedLoss = NO_LOSS
    note: str = ""

    @property
    def largest_share(self) -> Fraction:
        """The largest share of what is declared."""
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
        """Return label, mechanism, shares and note in one line."""
        shares = [f"{name} {format_share(used)}" for name, used in self.shares.items()]
        return ": ".join(filter(None, (self.label, self.mechanism, ", ".join(filter(None, [*shares, self.note])))))

    def format_inputs(self) -> list[str]:
        """Return the first inputs that differ, one a line."""
        cells, lines = self.changed_cells, []
        for cell in cells[:MAX_INPUTS_SHOWN]:
            pair = self.first_inputs.get(cell), self.second_inputs.get(cell)
            first, second = (value.tolist() if isinstance(value, np.ndarray) else value for value in pair)
            lines.append(f"{cell}: {first} and {second}")
        return lines + ([f"and {len(cells) - MAX_INPUTS_SHOWN} more"] if len(cells) > MAX_INPUTS_SHOWN else [])


@dataclass(frozen=True, eq=False, slots=True)
class Replay:
    """A replay of one question or release on two neighboring tables; `replay` and `assert_private` return it.

    Args:
        question: The question.
        guarantee: The guarantee that is promised.
        mechanisms: What each mechanism was given on both tables.
        totals: The shares that all mechanisms together use of what is promised.

    Example:
        >>> from pathlib import Path
        >>> from discreet import load_schema
        >>> from discreet.sample import write_registry
        >>> from discreet.verification import limit_units, neighbor_rows, replay
        >>> schema = limit_units(load_schema(write_registry(Path("."), patients=100)))
        >>> [(rows, other_rows)] = neighbor_rows(schema, count=1)
        >>> result = replay(schema, "SELECT COUNT(*) FROM registry WHERE smoker", rows, other_rows, epsilon=1)
        >>> result.ok, result.violations
        (True, ())
    """

    question: str
    guarantee: Guarantee
    mechanisms: tuple[MechanismReplay, ...]
    totals: Mapping[str, Fraction]

    @property
    def observed_loss(self) -> ObservedLoss:
        """The loss of all mechanisms together, on these two tables."""
        return ObservedLoss.total(mechanism.observed_loss for mechanism in self.mechanisms)

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
        """A line for each mechanism and total that uses more than is declared."""
        lines = [mechanism.format_line() for mechanism in self.mechanisms if mechanism.largest_share > 1]
        return (*lines, *(self._format_total(name) for name, used in self.totals.items() if used > 1))

    def _format_total(self, name: str) -> str:
        return f"together, {name}: {format_share(self.totals[name])} of what is promised"

    def table(self) -> str:
        """Return the replay as text."""
        lines = [self.question, f"promised: {self.guarantee.words()}"]
        for mechanism in self.mechanisms:
            lines += [f"  {mechanism.format_line()}", *(f"    {line}" for line in mechanism.format_inputs())]
        lines += [f"  {self._format_total(name)}" for name in self.totals]
        verdict = "no more than declared" if self.ok else "MORE THAN DECLARED"
        return "\n".join([*lines, f"worst: {format_share(self.largest_share)}, {verdict} on these two tables"])


def format_share(used: Fraction) -> str:
    """Format a share, never as 100 % where it is more or less than all."""
    if used in (0, 1):
        return f"{int(used) * 100} %"
    if used >= DISALLOWED_SHARE:
        return "far too much"
    number = format_number(100 * used)
    about = "just " + ("above" if used > 1 else "below") + " " if number == "100" else ""
    return f"{about}{number} %" + (f" ({used})" if used.denominator <= MAX_DENOMINATOR else "")
