"""Independent draws as arrays, and whole numbers in the order of the values."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]
Columns = NDArray[np.int64] | NDArray[np.float64]

SIGN_MASK = np.int64(2**63 - 1)


@dataclass(frozen=True, eq=False, slots=True)
class OutputAttribute:
    """A whole number for each draw that is no column: which of some values it has, or how long it is."""

    name: str
    keys: Keys
    values: tuple[str, ...] | None = None
    """What the numbers 0, 1, 2... stand for; None where the number speaks for itself."""
    is_first: bool = False
    """Whether it is looked at before the numbers are."""


@dataclass(frozen=True, eq=False, slots=True)
class OutputSample:
    """Independent draws: `columns` has a row of numbers for each, `told` what else there is to say of it.

    `shape` is that of one draw: () for a number, (3,) for three, (4, 2) for a table of four rows.
    """

    count: int
    columns: Columns | None = None
    titles: tuple[str, ...] = ()
    """What each column is, in words."""
    attributes: tuple[OutputAttribute, ...] = ()
    shape: tuple[int, ...] = ()

    def __len__(self) -> int:
        return self.count

    def take_every(self, start: int, step: int) -> OutputSample:
        """Every step-th draw: so that draws that came in some order are in all parts alike."""
        columns = None if self.columns is None else self.columns[start::step]
        attributes = tuple(replace(attribute, keys=attribute.keys[start::step]) for attribute in self.attributes)
        return replace(self, count=len(range(start, self.count, step)), columns=columns, attributes=attributes)


def compute_ordered_keys(column: Columns) -> Keys:
    """Whole numbers in the order of the values, one for each bit pattern: -0 is below 0, and NaN at an end."""
    if column.dtype.kind != "f":
        return column.astype(np.int64, copy=False)
    bits = np.ascontiguousarray(column).view(np.int64)
    return bits ^ ((bits >> 63) & SIGN_MASK)


def decode_key(key: int, floating: bool) -> float | int:
    """The number that has this key."""
    if not floating:
        return key
    return float(decode_keys(np.array([key]))[0])


def decode_keys(keys: Keys) -> NDArray[np.float64]:
    """The floats that have these keys."""
    bits: Keys = keys ^ ((keys >> 63) & SIGN_MASK)
    return bits.view(np.float64)
