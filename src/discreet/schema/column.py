"""A column as analysts may know it: its kind, its public domain as whole codes, and what a missing value means.

Every column with a public domain is kept as whole numbers, its codes, from `lower` to `upper`: multiples of the step
for numbers, days since 1970-01-01 for dates, places in the list of categories for the rest (false 0, true 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from types import NoneType
from typing import Literal, get_args

from discreet.errors import InvalidInput
from discreet.numeric import date_from_days, format_exact, parse_days, parse_rational
from discreet.priors.taxonomy import Taxonomy
from discreet.suggestions import build_unknown_name_error
from discreet.untrusted import CheckedValue, copy_exact_number, has_exact_type

Kind = Literal["integer", "number", "boolean", "date", "ordinal", "nominal"]
Role = Literal["identifier", "quasi-identifier", "confidential", "other"]
Trend = Literal["rising", "falling"]
Value = int | Fraction | bool | date | str
Interval = tuple[float, float] | tuple[str, str] | tuple[date, date] | None
"""Where a number lies, or a text or date; None where that is not known."""

MAX_CODE = 2**44
"""No code is farther from 0, so that sums of squares of 2^38 rows fit 126 bits on every engine."""
NUMERIC_KINDS = frozenset({"integer", "number"})
TRENDS = (*get_args(Trend), None)
KINDS_AND_ROLES = {*get_args(Kind), *get_args(Role)}
ORDERED_KINDS = NUMERIC_KINDS | {"date", "ordinal", "boolean"}


@dataclass(frozen=True, slots=True)
class DerivedCodes(CheckedValue):
    """A column of a public lookup table: for each code of the key column, from its lowest, the derived code or none."""

    key: str
    codes: tuple[int | None, ...]

    def __post_init__(self) -> None:
        """Require plain text and whole numbers."""
        if type(self.key) is not str or type(self.codes) is not tuple:
            raise InvalidInput("a derived column has the name of its key, and a tuple of codes")
        if not all(code is None or type(code) is int for code in self.codes):
            raise InvalidInput(f"the codes of a column derived from {self.key[:40]!r} are whole numbers or None")


@dataclass(frozen=True, slots=True)
class Column(CheckedValue):
    """One column. `lower` and `upper` are codes; a column with private keys has no codes but text."""

    name: str
    kind: Kind
    lower: int = 0
    upper: int = 0
    step: Fraction = Fraction(1)
    categories: tuple[str, ...] = ()
    taxonomy: Taxonomy | None = None
    role: Role = "other"
    missing: int | None = None
    missing_values: tuple[str, ...] = ()
    private_keys: bool = False
    derived: DerivedCodes | None = None
    counts: Trend | None = None
    """In every snapshot each value has no fewer (rising) or no more (falling) rows than the one before.

    It only makes answers fit, after the noise: where it is not true they are less accurate, and no less private.
    """

    def __post_init__(self) -> None:
        """The codes are in order and not too far from 0; categories are counted from 0; a missing value is a code."""
        self._check_types()
        if not (-MAX_CODE <= self.lower <= self.upper <= MAX_CODE and self.step > 0):
            raise InvalidInput(
                f"the codes of {self.name} go up by steps above 0, from lower to upper, within 2^44 of 0"
            )
        if self.categories and (self.lower, self.upper) != (0, len(self.categories) - 1):
            raise InvalidInput(f"the codes of {self.name} are the places of its categories, from 0")
        if self.missing is not None and not self.lower <= self.missing <= self.upper:
            raise InvalidInput(f"a missing value of {self.name} must stand for a value between its bounds")
        if self.counts is not None and not self.is_ordered:
            raise InvalidInput(f"the values of {self.name} have no order, so their counts cannot rise or fall with it")

    def _check_types(self) -> None:
        """What is declared is of exactly these types: noise is scaled by it, and rows are compared with it."""
        object.__setattr__(self, "step", copy_exact_number(self.step, "the step of a column"))
        names: tuple[object, ...] = (self.name, self.kind, self.role)
        has_names = all(type(name) is str for name in names) and {self.kind, self.role} <= KINDS_AND_ROLES
        has_codes = type(self.lower) is type(self.upper) is int and has_exact_type(self.missing, int, NoneType)
        lists = (self.categories, self.missing_values)
        has_texts = all(type(entries) is tuple and all(type(text) is str for text in entries) for entries in lists)
        flags: tuple[object, ...] = (self.private_keys, self.counts)
        if not (has_names and has_codes and has_texts and type(flags[0]) is bool and flags[1] in TRENDS):
            raise InvalidInput(f"the column {str(self.name)[:40]!r} must be declared with plain text and whole numbers")
        has_taxonomy = has_exact_type(self.taxonomy, Taxonomy, NoneType)
        if not (has_taxonomy and has_exact_type(self.derived, DerivedCodes, NoneType)):
            raise InvalidInput(
                f"the taxonomy of {self.name[:40]!r} must be a Taxonomy, and what it is derived from DerivedCodes"
            )

    @property
    def is_nullable(self) -> bool:
        """Whether a value may be missing; not where a missing value stands for a code."""
        return self.missing is None

    @property
    def is_numeric(self) -> bool:
        """Whether sums and means make sense."""
        return self.kind in NUMERIC_KINDS

    @property
    def is_ordered(self) -> bool:
        """Whether < and > make sense."""
        return self.kind in ORDERED_KINDS

    @property
    def size(self) -> int:
        """How many codes there are."""
        return self.upper - self.lower + 1

    def decode(self, code: int) -> Value:
        """Return the value that a code stands for."""
        if self.categories:
            return self.categories[code] if self.kind != "boolean" else bool(code)
        if self.kind == "date":
            return date_from_days(code)
        exact = code * self.step
        return int(exact) if self.step.denominator == 1 else exact

    def find_position(self, text: str) -> Fraction:
        """Where a constant of a question stands among the codes, exactly; between two codes for some numbers."""
        if self.kind == "date":
            return Fraction(parse_days(text, f"a value of {self.name}"))
        if self.kind == "boolean":
            return Fraction(self._find_category(text.lower()))
        if self.categories:
            return Fraction(self._find_category(text))
        return parse_rational(text, f"a value of {self.name}") / self.step

    def find_codes(self, text: str) -> tuple[int, ...]:
        """The codes that equal a constant: none, one, or all leaves under a concept of the taxonomy."""
        if self.taxonomy is not None and text not in self.categories and text in self.taxonomy.ancestors:
            ancestors = self.taxonomy.ancestors
            return tuple(code for code, leaf in enumerate(self.categories) if text in ancestors[leaf])
        code = self.find_code(self.find_position(text))
        return () if code is None else (code,)

    def find_code(self, position: Fraction) -> int | None:
        """The code at a position; None between two codes and beyond the bounds."""
        return int(position) if position.denominator == 1 and self.lower <= position <= self.upper else None

    def _find_category(self, text: str) -> int:
        if text not in self.categories:
            place = f"of column {self.name}"
            raise build_unknown_name_error("category", text, self.categories, "unknown-category", place=place)
        return self.categories.index(text)


def encode_bounds(lower: Fraction, upper: Fraction, step: Fraction, name: str) -> tuple[int, int]:
    """Encode two declared bounds: both multiples of the step, in order, not too far from 0."""
    low, high = lower / step, upper / step
    if low > high:
        raise InvalidInput(
            f"the bounds of {name} are reversed: lower {format_exact(lower)}, upper {format_exact(upper)}"
        )
    if low.denominator != 1 or high.denominator != 1:
        near = f"{format_exact(math.floor(low) * step)} and {format_exact(math.ceil(high) * step)}"
        raise InvalidInput(
            f"the bounds of {name} must be multiples of its step {format_exact(step)}; the nearest are {near}"
        )
    if max(abs(low), abs(high)) > MAX_CODE:
        raise InvalidInput(f"{name} has more than 2^44 steps between 0 and a bound; declare a coarser step")
    return int(low), int(high)
