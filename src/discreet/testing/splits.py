"""Several quantiles: the choices that are made on two tables, one after the other, where all of them come out alike.

That is what adaptive composition compares. The mechanism parts the rows itself; only what it draws is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from discreet.kernel.entropy import Entropy
from discreet.kernel.quantile import SLOTS, Quantiles, SplitLaw

Whole = NDArray[np.int64]
Known = dict[tuple[bytes, tuple[int, int], Fraction], SplitLaw]
"""By the rows that are parted, the points among which, and the share that goes left."""
Rule = Callable[[SplitLaw, Whole], int]
"""Which candidate comes out, from the choice on the first table and the points where the tables differ."""


def _first(_: SplitLaw, __: Whole) -> int:
    """As many rows as can be go right."""
    return 0


def _last(law: SplitLaw, _: Whole) -> int:
    """As many rows as can be go left."""
    return len(law.scores) - 1


def _best(law: SplitLaw, _: Whole) -> int:
    """The likeliest."""
    return int(law.scores.argmax())


def _between(law: SplitLaw, differ: Whole) -> int:
    """In the middle of the rows at a point where the tables differ, or next to it."""
    at = np.searchsorted(law.places, differ[len(differ) // 2])
    return int(min(at, len(law.places) - 1)) * (SLOTS + 1) + SLOTS // 2


RULES: tuple[Rule, ...] = (_first, _last, _best, _between)


def followed(choice: Quantiles, one: Whole, two: Whole) -> Iterator[list[tuple[SplitLaw, SplitLaw]]]:
    """All choices on both tables, for each of a few ways in which they may come out.

    One rule decides the first choice and another all that follow; the last ones of all decide nothing more.
    """
    differ = np.flatnonzero(one != two)
    known: Known = {}
    for first, later in product(RULES, RULES if choice.depth > 2 else RULES[:1]):
        walk = _Walk(differ, (first, later), [], [], known)
        laws = [_laws(choice, counts, walk) for counts in (one, two)]
        yield list(zip(*laws, strict=True))


@dataclass(frozen=True, eq=False, slots=True)
class _Walk:
    """What came out on the first table comes out on the second too."""

    differ: Whole
    rules: tuple[Rule, Rule]
    drawn: list[tuple[int, int]]
    laws: list[SplitLaw]
    known: Known
    """The choices between the same rows, which several ways come to."""

    def step(self, law: SplitLaw) -> tuple[int, int]:
        """What comes out next."""
        at = len(self.laws)
        self.laws.append(law)
        if at == len(self.drawn):
            self.drawn.append(law.cell(self.rules[at > 0](law, self.differ)))
        return self.drawn[at]


def _laws(choice: Quantiles, counts: Whole, walk: _Walk) -> list[SplitLaw]:
    """The choices on one table, in the order in which they are made."""
    own = _Followed(**{field.name: getattr(choice, field.name) for field in fields(Quantiles)}, walk=walk)
    own.answer_counts(counts)
    made = walk.laws[:]
    walk.laws.clear()
    return made


@dataclass(frozen=True, eq=False)
class _Followed(Quantiles):
    """The mechanism itself, but that its draws are decided."""

    walk: _Walk

    def split_law(self, counts: Whole, span: tuple[int, int], q: Fraction) -> SplitLaw:
        asked = (counts.tobytes(), span, q)
        law = self.walk.known.get(asked) or self.walk.known.setdefault(asked, super().split_law(counts, span, q))
        return _Decided(law.places, law.scores, law.selection, law.base, self.walk)


@dataclass(frozen=True, eq=False)
class _Decided(SplitLaw):
    """One of its choices."""

    walk: _Walk

    def draw(self, _: Entropy) -> tuple[int, int]:
        return self.walk.step(self)
