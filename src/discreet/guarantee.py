"""What is promised: a model, exact parameters, a neighbour relation, a unit. Guarantees add and compare.

Only what is proven is computed: a sum or comparison of unlike promises that no theorem covers is refused
(`Unsupported`) or answered "not implied", never guessed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, get_args

from discreet.errors import InvalidInput, Unsupported
from discreet.exact import between, ln_above, ln_below, positive, rational, shown, whole
from discreet.formatting import format_cost, format_factor, format_upper
from discreet.plain import is_a, plain_exact

Neighbours = Literal["add-remove", "replace-one"]
Model = Literal[
    "dp",
    "approx-dp",
    "zcdp",
    "individual-dp",
    "k-anonymity",
    "probabilistic-k-anonymity",
    "t-closeness",
    "nominal",
]
DIFFERENTIAL: frozenset[Model] = frozenset({"dp", "approx-dp", "zcdp"})
"""The models, and the only ones, that may be called differential privacy."""

NEEDS: Mapping[str, set[str]] = {
    "dp": {"epsilon"},
    "approx-dp": {"epsilon", "delta"},
    "zcdp": {"rho"},
    "individual-dp": {"epsilon", "also"},
    "k-anonymity": {"k"},
    "probabilistic-k-anonymity": {"k"},
    "t-closeness": {"t"},
    "nominal": {"epsilon"},
}

WEAK = 5
"""Above this epsilon a promise is called weak."""

CHANGE = {"add-remove": "is added or removed", "replace-one": "is replaced by any other"}


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One promise. Build it with `Guarantee.dp(...)` and its sisters, which check it; then it is valid."""

    model: Model
    neighbours: Neighbours | None = None
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rho: Fraction | None = None
    also: Fraction | None = None
    k: int | None = None
    t: Fraction | None = None
    distance: str | None = None
    unit: str = "row"
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """A promise has the parameters of its model, none of another, and none below 0."""
        named = {name: getattr(self, name) for name in ("epsilon", "delta", "rho", "also", "k", "t")}
        given = {name for name, value in named.items() if value is not None}
        exact = all(is_a(named[name], (Fraction, int)) and named[name] >= 0 for name in given)
        texts = (self.model, self.unit, *(one for one in (self.neighbours, self.distance) if one is not None))
        if type(self.assumptions) is not tuple or not all(type(one) is str for one in (*texts, *self.assumptions)):
            raise InvalidInput("a guarantee names its model, relation, unit, distance and assumptions as plain text")
        if self.neighbours is not None:
            relation(self.neighbours)
        if self.model not in NEEDS or given != NEEDS[self.model] or not exact:
            raise InvalidInput(
                f"a guarantee of {self.model} has {', '.join(sorted(NEEDS.get(self.model, ())))}, exact, none below 0"
            )
        for name in given:
            own = plain_exact(named[name], name)
            object.__setattr__(self, name, int(own) if name == "k" and own.denominator == 1 else own)
        if self.delta is not None and self.delta >= 1:
            raise InvalidInput("delta must be below 1; a delta of 1 promises nothing")
        if (self.neighbours is None) == (self.model in DIFFERENTIAL | {"individual-dp"}):
            raise InvalidInput(
                f"{self.model} is stated {'with' if self.neighbours is None else 'without'} a neighbour relation"
            )

    @staticmethod
    def dp(epsilon: object, neighbours: str = "add-remove", unit: str = "row") -> Guarantee:
        """Pure differential privacy. Epsilon 0 is the promise of an answer that does not look at the data."""
        return Guarantee("dp", relation(neighbours), epsilon=_at_least_0(epsilon, "epsilon"), unit=unit)

    @staticmethod
    def approx_dp(epsilon: object, delta: object, neighbours: str = "add-remove", unit: str = "row") -> Guarantee:
        """(epsilon, delta)-differential privacy."""
        small = between(delta, 0, 1, "delta")
        return Guarantee(
            "approx-dp", relation(neighbours), epsilon=_at_least_0(epsilon, "epsilon"), delta=small, unit=unit
        )

    @staticmethod
    def zcdp(rho: object, neighbours: str = "add-remove", unit: str = "row") -> Guarantee:
        """Zero-concentrated differential privacy."""
        return Guarantee("zcdp", relation(neighbours), rho=_at_least_0(rho, "rho"), unit=unit)

    @staticmethod
    def individual_dp(epsilon: object, also: object, neighbours: str = "replace-one", unit: str = "row") -> Guarantee:
        """Individual DP at epsilon; `also` is the epsilon of the pure DP that a floor on its noise gives as well."""
        return Guarantee(
            "individual-dp",
            relation(neighbours),
            epsilon=_at_least_0(epsilon, "epsilon"),
            also=positive(also, "E"),
            unit=unit,
        )

    @staticmethod
    def k_anonymity(k: object, *, probabilistic: bool = False, unit: str = "row") -> Guarantee:
        """k-anonymity, or its probabilistic sister."""
        model: Model = "probabilistic-k-anonymity" if probabilistic else "k-anonymity"
        return Guarantee(model, k=whole(k, "k"), unit=unit)

    @staticmethod
    def t_closeness(t: object, distance: str, unit: str = "row") -> Guarantee:
        """t-closeness under the named distance between distributions."""
        return Guarantee("t-closeness", t=positive(t, "t"), distance=distance, unit=unit)

    @staticmethod
    def nominal(epsilon: object, assumption: str) -> Guarantee:
        """A figure that is no proven promise: from a document whose tables are reproduced, or of part of an output."""
        return Guarantee("nominal", epsilon=_at_least_0(epsilon, "epsilon"), assumptions=(assumption,))

    @staticmethod
    def parallel(parts: Iterable[Guarantee], rows_per_unit: object = 1) -> Guarantee:
        """Answers about disjoint accounts (cells, partitions): a unit reaches r of them, 2r when it is replaced.

        Assumed: the accounts are fixed by public facts and their coins are independent. Each part holds for a whole
        unit, all its r = rows_per_unit rows being in that account, at the sensitivity of the whole table; and under
        replace-one it holds also against a row leaving or entering the account, since a replaced row may move from
        one account to another. A unit's r rows then touch at most r accounts, and 2r with those that replace them:
        the r (or 2r) largest parts add up.
        """
        rows = whole(rows_per_unit, "rows per unit")
        alike = _alike(_guarantees(parts))
        reach = rows if alike[0].neighbours == "add-remove" else 2 * rows
        return _added(alike, reach)

    def __add__(self, other: Guarantee) -> Guarantee:
        """Sequential composition, also adaptive: the second question may depend on the first answer."""
        if not isinstance(other, Guarantee):
            return NotImplemented
        return _added(_alike([self, other]), 2)

    def __radd__(self, other: object) -> Guarantee:
        """`sum` starts from 0."""
        return self if type(other) is int and other == 0 else NotImplemented

    def for_group(self, size: object) -> Guarantee:
        """The same promise to a group of `size` units at once; the group is its unit."""
        members = whole(size, "the group's size")
        unit = _grouped(self.unit, members)
        if self.model == "dp" and self.epsilon is not None:
            return replace(self, epsilon=self.epsilon * members, unit=unit)
        if self.model == "zcdp" and self.rho is not None:
            return replace(self, rho=self.rho * members**2, unit=unit)
        if self.model == "approx-dp":
            raise Unsupported("group privacy of approx-dp is not offered; use dp or zcdp")
        raise Unsupported(f"{self.model} promises nothing to groups that follows from its promise to one; use dp")

    def restated(self, neighbours: str) -> Guarantee:
        """The same promise under another neighbour relation.

        Replacing is removing and adding: pure epsilon under add-remove is 2 epsilon under replace-one. Nothing else
        is proven here; from replace-one to add-remove nothing can be, since the number of units is then public.
        """
        wanted = relation(neighbours)
        if wanted == self.neighbours:
            return self
        if self.model != "dp" or self.neighbours != "add-remove" or self.epsilon is None:
            raise Unsupported(
                f"{self.model} under {self.neighbours or 'no relation'} is not restated for {wanted}; "
                "only dp under add-remove is, for replace-one"
            )
        return replace(self, epsilon=2 * self.epsilon, neighbours=wanted)

    def implies(self, other: Guarantee) -> bool:
        """True where a theorem says that whoever keeps this promise keeps the other; False is "not proven"."""
        if not isinstance(other, Guarantee):
            raise InvalidInput(f"a guarantee is compared with a guarantee, got {type(other).__name__}")
        if self.unit != other.unit:
            return False
        if self.model == other.model and self.neighbours == other.neighbours:
            return self._no_weaker(other)
        if self.neighbours != other.neighbours:
            return self._across_relations(other)
        return self._across_models(other)

    def _no_weaker(self, other: Guarantee) -> bool:
        if self.model == "nominal":
            return self == other
        if self.model in {"k-anonymity", "probabilistic-k-anonymity"}:
            return (self.k or 0) >= (other.k or 0)
        if self.distance != other.distance:
            return False
        pairs = [(self.epsilon, other.epsilon), (self.delta, other.delta), (self.rho, other.rho)]
        pairs += [(self.also, other.also), (self.t, other.t)]
        return all(mine is None or theirs is None or mine <= theirs for mine, theirs in pairs)

    def _across_relations(self, other: Guarantee) -> bool:
        if self.model != "dp" or self.neighbours != "add-remove" or other.neighbours != "replace-one":
            return False
        return self.restated("replace-one").implies(other)

    def _across_models(self, other: Guarantee) -> bool:
        if self.model == "dp" and self.epsilon is not None:
            if other.model == "approx-dp":
                return other.epsilon is not None and self.epsilon <= other.epsilon
            if other.model == "zcdp":
                return other.rho is not None and self.epsilon**2 / 2 <= other.rho
            if other.model == "individual-dp":
                return other.epsilon is not None and self.epsilon <= min(other.epsilon, other.also or other.epsilon)
        if self.model == "zcdp" and other.model == "approx-dp" and other.delta is not None:
            mine = self.approximate(other.delta).epsilon
            return mine is not None and other.epsilon is not None and mine <= other.epsilon
        if self.model == "individual-dp" and other.model == "dp":
            return self.also is not None and other.epsilon is not None and self.also <= other.epsilon
        return False

    def concentrated(self) -> Guarantee:
        """Pure epsilon as zCDP: rho = epsilon^2 / 2."""
        if self.model == "zcdp":
            return self
        if self.model != "dp" or self.epsilon is None:
            raise Unsupported(f"{self.model} is not known to imply zcdp; only dp does")
        return replace(self, model="zcdp", epsilon=None, rho=self.epsilon**2 / 2)

    def approximate(self, delta: object) -> Guarantee:
        """zCDP as (epsilon, delta): the least epsilon over a search of orders, rounded up with certainty.

        rho-zCDP gives, for every order a > 1, epsilon = a rho + ln((a-1)/a) - (ln a + ln delta)/(a-1)
        (Canonne, Kamath, Steinke 2020, Proposition 12); floats choose the order, rationals bound the value.
        """
        small = between(delta, 0, 1, "delta")
        if self.model != "zcdp" or self.rho is None:
            raise Unsupported(f"{self.model} is not converted to approx-dp this way; only zcdp is")
        ln_delta = math.log(small.numerator) - math.log(small.denominator)
        order = 1 + Fraction(_best_order(float(min(self.rho, Fraction(10**300))), ln_delta))
        epsilon = epsilon_at_order(order, self.rho, small)
        return Guarantee("approx-dp", self.neighbours, epsilon=max(Fraction(0), epsilon), delta=small, unit=self.unit)

    def __str__(self) -> str:
        return self.words()

    def words(self) -> str:
        """The promise as a sentence that is true: a number too long to be told is rounded up."""
        change = f"when one {self.unit} {CHANGE.get(self.neighbours or '', '')}"
        weak = " This is weak formal protection." if (self.epsilon or 0) > WEAK else ""
        epsilon, delta = format_cost(self.epsilon or Fraction(0)), format_cost(self.delta or Fraction(0))
        sentences = {
            "dp": f"Differential privacy with epsilon {epsilon} {change}.",
            "approx-dp": f"Approximate differential privacy with epsilon {epsilon} and delta {delta} {change}.",
            "zcdp": f"Concentrated differential privacy with rho {format_cost(self.rho or Fraction(0))} {change}.",
            "individual-dp": f"Individual DP with epsilon {epsilon} {change}: weaker, "
            f"not for {'larger ' if self.unit.startswith('group') else ''}groups, its noise follows the data; "
            f"also differential privacy, but only with epsilon "
            f"{format_cost(self.also or Fraction(0))}.",
            "k-anonymity": f"{self.k}-anonymity: every record shares its quasi-identifiers with at least "
            f"{(self.k or 1) - 1} others.",
            "probabilistic-k-anonymity": f"Probabilistic {self.k}-anonymity: which of a group's values came from a "
            f"person is known with probability at most 1/{self.k}; where they are equal, the value is known.",
            "t-closeness": f"t-closeness with t {format_cost(self.t or Fraction(0))} under the "
            f"{self.distance} distance.",
            "nominal": f"No proven promise: {epsilon} is a figure that bounds nothing, and counts in no account.",
        }
        return sentences[self.model] + weak

    def to_json(self) -> dict[str, object]:
        """Machine-readable; numbers as exact text."""
        exact = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho, "also_epsilon": self.also, "t": self.t}
        told: dict[str, object] = {"model": self.model}
        told |= {name: str(value) for name, value in exact.items() if value is not None}
        told |= {"k": self.k} if self.k is not None else {}
        told |= {"distance": self.distance} if self.distance else {}
        told |= {"neighbours": self.neighbours} if self.neighbours else {}
        return told | {"unit": self.unit, "assumptions": list(self.assumptions), "words": self.words()}


def bound_in_words(promise: Guarantee) -> str:
    """What differential privacy bounds, as a sentence about one file."""
    epsilon = promise.epsilon or Fraction(0)
    but = f", but for a chance of {format_upper(promise.delta, 3)}" if promise.delta else ""
    times = format_factor(epsilon)
    return f"Any file is at most {times} times as likely with a person's record as with any other in its place{but}."


def relation(neighbours: object) -> Neighbours:
    """One of the two neighbour relations."""
    if neighbours not in get_args(Neighbours):
        raise InvalidInput(f"neighbours must be add-remove or replace-one, got {neighbours!r}")
    return "add-remove" if neighbours == "add-remove" else "replace-one"


def _at_least_0(number: object, name: str) -> Fraction:
    value = rational(number, name)
    if value < 0:
        raise InvalidInput(f"{name} must be at least 0, got {shown(value)}")
    return value


def _alike(parts: Sequence[Guarantee]) -> list[Guarantee]:
    """The same promises in one model, where every one implies its translation."""
    first = parts[0]
    if any((part.neighbours, part.unit) != (first.neighbours, first.unit) for part in parts):
        raise Unsupported(
            "guarantees with different neighbour relations or units do not add; "
            "restate them first, dp under add-remove with .restated('replace-one')"
        )
    models = {part.model for part in parts}
    if len(models) == 1:
        return list(parts)
    if models == {"dp", "zcdp"}:
        return [part.concentrated() for part in parts]
    if models == {"dp", "approx-dp"}:
        return [replace(part, model="approx-dp", delta=part.delta or Fraction(0)) for part in parts]
    if models == {"dp", "individual-dp"}:
        return [replace(part, model="individual-dp", also=part.also or part.epsilon) for part in parts]
    raise Unsupported(f"no theorem we use adds {' and '.join(sorted(models))}; convert them to one model first")


def _guarantees(parts: object) -> list[Guarantee]:
    listed = list(parts) if isinstance(parts, Iterable) else []
    if not listed or not all(isinstance(part, Guarantee) for part in listed):
        raise InvalidInput("parallel composition needs a list of at least one guarantee, and of nothing else")
    return listed


def _added(alike: Sequence[Guarantee], reach: int) -> Guarantee:
    """The promise of those `reach` parts that promise least, each parameter on its own."""
    first = alike[0]
    if first.model not in DIFFERENTIAL | {"individual-dp"}:
        raise Unsupported(f"{first.model} does not compose; only dp, approx-dp, zcdp and individual-dp do")
    delta = _largest([part.delta for part in alike], reach)
    if delta is not None and delta >= 1:
        raise Unsupported(
            "the deltas add up to 1 or more, which promises nothing; ask fewer questions or smaller deltas"
        )
    return replace(
        first,
        epsilon=_largest([part.epsilon for part in alike], reach),
        delta=delta,
        rho=_largest([part.rho for part in alike], reach),
        also=_largest([part.also for part in alike], reach),
    )


def _grouped(unit: str, members: int) -> str:
    """A group of units in words; a group of groups is a larger group."""
    if members == 1:
        return unit
    found = re.fullmatch(r"group of ([0-9]+) (.+)", unit)
    return f"group of {members * int(found[1])} {found[2]}" if found else f"group of {members} {unit}s"


def _largest(values: Sequence[Fraction | None], count: int) -> Fraction | None:
    present = sorted((value for value in values if value is not None), reverse=True)
    return sum(present[:count], Fraction(0)) if present else None


def epsilon_at_order(order: Fraction, rho: Fraction, delta: Fraction, bits: int = 40) -> Fraction:
    """The epsilon that rho-zCDP gives at this order, never below it: what is subtracted is rounded down."""
    less = (ln_below(order, bits) + ln_below(delta, bits)) / (order - 1)
    return order * rho + ln_above((order - 1) / order, bits) - less


def _best_order(rho: float, ln_delta: float) -> float:
    """The order less one, by golden-section search on its logarithm; any value is sound, this one is near the best."""

    def epsilon(log_excess: float) -> float:
        excess = math.exp(log_excess)
        return (1 + excess) * rho - math.log1p(1 / excess) - (math.log1p(excess) + ln_delta) / excess

    low, high = -12.0, 40.0
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(120):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if epsilon(left) <= epsilon(right) else (left, high)
    return math.exp((low + high) / 2)
