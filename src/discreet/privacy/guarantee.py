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
from discreet.formatting import format_cost, format_factor, format_upper
from discreet.json_fields import JsonSerializable
from discreet.numeric import (
    as_int,
    as_number_between,
    as_plain_number,
    as_positive,
    as_rational,
    format_exact,
    ln_above,
    ln_below,
)
from discreet.untrusted import CheckedValue, copy_exact_number, has_type

NeighborRelation = Literal["add-remove", "replace-one"]
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
MODELS: tuple[Model, ...] = get_args(Model)
DP_MODELS: frozenset[Model] = frozenset({"dp", "approx-dp", "zcdp"})
"""The models, and the only ones, that may be called differential privacy."""
MODEL_PARAMETERS: Mapping[str, set[str]] = {
    "dp": {"epsilon"},
    "approx-dp": {"epsilon", "delta"},
    "zcdp": {"rho"},
    "individual-dp": {"epsilon", "pure_epsilon"},
    "k-anonymity": {"k"},
    "probabilistic-k-anonymity": {"k"},
    "t-closeness": {"t"},
    "nominal": {"epsilon"},
}

WEAK_EPSILON = 5
"""Above this epsilon a promise is called weak."""
CHANGE_WORDS = {"add-remove": "is added or removed", "replace-one": "is replaced by any other"}


@dataclass(frozen=True, slots=True)
class Guarantee(CheckedValue, JsonSerializable):
    """A privacy guarantee: model, parameters, neighbor relation, privacy unit and assumptions.

    Make it with `Guarantee.dp`, `.approx_dp`, `.zcdp`, `.k_anonymity` and the other static methods. Every guarantee
    that exists is valid.

    Args:
        model: "dp", "approx-dp", "zcdp", "individual-dp", "k-anonymity", "probabilistic-k-anonymity", "t-closeness" or
            "nominal".
        neighbors: "add-remove" or "replace-one", for differential privacy and individual DP.
        epsilon: The privacy loss, for the models that have one.
        delta: The delta of approx-dp, below 1.
        rho: The rho of zCDP.
        pure_epsilon: For individual DP, the epsilon of the pure DP that the floor on its noise gives as well.
        k: The k of k-anonymity.
        t: The t of t-closeness.
        distance: The distance between distributions, for t-closeness.
        unit: The privacy unit that is protected.
        assumptions: What must be true for the guarantee to hold.

    Raises:
        InvalidInput: A parameter of the model is missing, belongs to another model, or is below 0.

    Example:
        >>> from discreet import Guarantee
        >>> guarantee = Guarantee.dp(0.5)
        >>> guarantee.restated("replace-one").epsilon  # replacing is removing and adding
        Fraction(1, 1)
        >>> guarantee.implies(Guarantee.dp(1))
        True
    """

    model: Model
    neighbors: NeighborRelation | None = None
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rho: Fraction | None = None
    pure_epsilon: Fraction | None = None
    k: int | None = None
    t: Fraction | None = None
    distance: str | None = None
    unit: str = "row"
    assumptions: tuple[str, ...] = ()

    _json_fields = """model epsilon? delta? rho? also_epsilon=pure_epsilon? t? k? distance? neighbours=neighbors? unit
        assumptions words"""

    def __post_init__(self) -> None:
        """A promise has the parameters of its model, none of another, and none below 0."""
        parameters = {name: getattr(self, name) for name in ("epsilon", "delta", "rho", "pure_epsilon", "k", "t")}
        present_names = {name for name, value in parameters.items() if value is not None}
        exact = all(has_type(parameters[name], (Fraction, int)) and parameters[name] >= 0 for name in present_names)
        texts = (self.model, self.unit, *(text for text in (self.neighbors, self.distance) if text is not None))
        if type(self.assumptions) is not tuple or not all(type(text) is str for text in (*texts, *self.assumptions)):
            raise InvalidInput("a guarantee names its model, relation, unit, distance and assumptions as plain text")
        if self.neighbors is not None:
            parse_neighbor_relation(self.neighbors)
        if self.model not in MODEL_PARAMETERS or present_names != MODEL_PARAMETERS[self.model] or not exact:
            needed_names = ", ".join(sorted(MODEL_PARAMETERS.get(self.model, ())))
            raise InvalidInput(f"a guarantee of {self.model} has {needed_names}, exact, none below 0")
        for name in present_names:
            value = copy_exact_number(parameters[name], name)
            object.__setattr__(self, name, int(value) if name == "k" and value.denominator == 1 else value)
        if self.delta is not None and self.delta >= 1:
            raise InvalidInput("delta must be below 1; a delta of 1 promises nothing")
        if (self.neighbors is None) == (self.model in DP_MODELS | {"individual-dp"}):
            rule = "with" if self.neighbors is None else "without"
            raise InvalidInput(f"{self.model} is stated {rule} a neighbour relation")

    @staticmethod
    def dp(epsilon: object, neighbors: str = "add-remove", unit: str = "row") -> Guarantee:
        """Pure differential privacy. Epsilon 0 is the promise of an answer that does not look at the data."""
        relation = parse_neighbor_relation(neighbors)
        return Guarantee("dp", relation, _require_nonnegative(epsilon, "epsilon"), unit=unit)

    @staticmethod
    def approx_dp(epsilon: object, delta: object, neighbors: str = "add-remove", unit: str = "row") -> Guarantee:
        """(epsilon, delta)-differential privacy."""
        exact_delta, relation = as_number_between(delta, 0, 1, "delta"), parse_neighbor_relation(neighbors)
        return Guarantee("approx-dp", relation, _require_nonnegative(epsilon, "epsilon"), exact_delta, unit=unit)

    @staticmethod
    def zcdp(rho: object, neighbors: str = "add-remove", unit: str = "row") -> Guarantee:
        """Zero-concentrated differential privacy."""
        return Guarantee("zcdp", parse_neighbor_relation(neighbors), rho=_require_nonnegative(rho, "rho"), unit=unit)

    @staticmethod
    def individual_dp(
        epsilon: object, pure_epsilon: object, neighbors: str = "replace-one", unit: str = "row"
    ) -> Guarantee:
        """Individual DP at epsilon; `pure_epsilon` is that of the pure DP that a floor on its noise gives as well."""
        relation, exact_epsilon = parse_neighbor_relation(neighbors), _require_nonnegative(epsilon, "epsilon")
        floor = as_positive(pure_epsilon, "E")
        return Guarantee("individual-dp", relation, exact_epsilon, pure_epsilon=floor, unit=unit)

    @staticmethod
    def k_anonymity(k: object, *, probabilistic: bool = False, unit: str = "row") -> Guarantee:
        """k-anonymity, or its probabilistic sister."""
        model: Model = "probabilistic-k-anonymity" if probabilistic else "k-anonymity"
        return Guarantee(model, k=as_int(k, "k"), unit=unit)

    @staticmethod
    def t_closeness(t: object, distance: str, unit: str = "row") -> Guarantee:
        """t-closeness under the named distance between distributions."""
        return Guarantee("t-closeness", t=as_positive(t, "t"), distance=distance, unit=unit)

    @staticmethod
    def nominal(epsilon: object, assumption: str) -> Guarantee:
        """A figure that is no proven promise: from a document whose tables are reproduced, or of part of an output."""
        return Guarantee("nominal", epsilon=_require_nonnegative(epsilon, "epsilon"), assumptions=(assumption,))

    @staticmethod
    def parallel(parts: Iterable[Guarantee], rows_per_unit: object = 1) -> Guarantee:
        """Answers about disjoint accounts (cells, partitions): a unit reaches r of them, 2r when it is replaced.

        Assumed: the accounts are fixed by public facts and their coins are independent. Each part holds for a whole
        unit, all its r = rows_per_unit rows being in that account, at the sensitivity of the whole table; and under
        replace-one it holds also against a row leaving or entering the account, since a replaced row may move from
        one account to another. A unit's r rows then touch at most r accounts, and 2r with those that replace them:
        the r (or 2r) largest parts add up.
        """
        rows = as_int(rows_per_unit, "rows per unit")
        guarantees = _convert_to_one_model(_require_guarantees(parts))
        max_accounts = rows if guarantees[0].neighbors == "add-remove" else 2 * rows
        return _compose_largest(guarantees, max_accounts)

    def __add__(self, other: Guarantee) -> Guarantee:
        """Sequential composition, also adaptive: the second question may depend on the first answer."""
        if not isinstance(other, Guarantee):
            return NotImplemented
        return _compose_largest(_convert_to_one_model([self, other]), 2)

    def __radd__(self, other: object) -> Guarantee:
        """`sum` starts from 0."""
        return self if type(other) is int and other == 0 else NotImplemented

    def for_group(self, size: object) -> Guarantee:
        """The same promise to a group of `size` units at once; the group is its unit."""
        members = as_int(size, "the group's size")
        unit = _format_group(self.unit, members)
        if self.model == "dp" and self.epsilon is not None:
            return replace(self, epsilon=self.epsilon * members, unit=unit)
        if self.model == "zcdp" and self.rho is not None:
            return replace(self, rho=self.rho * members**2, unit=unit)
        if self.model == "approx-dp":
            raise Unsupported("group privacy of approx-dp is not offered; use dp or zcdp")
        raise Unsupported(f"{self.model} promises nothing to groups that follows from its promise to one; use dp")

    def restated(self, neighbors: str) -> Guarantee:
        """The same promise under another neighbour relation.

        Replacing is removing and adding: pure epsilon under add-remove is 2 epsilon under replace-one. Nothing else
        is proven here; from replace-one to add-remove nothing can be, since the number of units is then public.
        """
        target_relation = parse_neighbor_relation(neighbors)
        if target_relation == self.neighbors:
            return self
        if self.model != "dp" or self.neighbors != "add-remove" or self.epsilon is None:
            raise Unsupported(
                f"{self.model} under {self.neighbors or 'no relation'} is not restated for {target_relation}; "
                "only dp under add-remove is, for replace-one"
            )
        return replace(self, epsilon=2 * self.epsilon, neighbors=target_relation)

    def implies(self, other: Guarantee) -> bool:
        """True where a theorem says that whoever keeps this promise keeps the other; False is "not proven"."""
        if not isinstance(other, Guarantee):
            raise InvalidInput(f"a guarantee is compared with a guarantee, got {type(other).__name__}")
        if self.unit != other.unit:
            return False
        if self.model == other.model and self.neighbors == other.neighbors:
            return self._is_no_weaker(other)
        if self.neighbors != other.neighbors:
            is_restated = self.model == "dp" and self.neighbors == "add-remove" and other.neighbors == "replace-one"
            return is_restated and self.restated("replace-one").implies(other)
        return self._implies_across_models(other)

    def _is_no_weaker(self, other: Guarantee) -> bool:
        if self.model == "nominal":
            return self == other
        if self.model in {"k-anonymity", "probabilistic-k-anonymity"}:
            return (self.k or 0) >= (other.k or 0)
        if self.distance != other.distance:
            return False
        pairs = [(self.epsilon, other.epsilon), (self.delta, other.delta), (self.rho, other.rho)]
        pairs += [(self.pure_epsilon, other.pure_epsilon), (self.t, other.t)]
        return all(value is None or bound is None or value <= bound for value, bound in pairs)

    def _implies_across_models(self, other: Guarantee) -> bool:
        if self.model == "dp" and self.epsilon is not None:
            if other.model == "approx-dp":
                return other.epsilon is not None and self.epsilon <= other.epsilon
            if other.model == "zcdp":
                return other.rho is not None and self.epsilon**2 / 2 <= other.rho
            if other.model == "individual-dp" and other.epsilon is not None:
                return self.epsilon <= min(other.epsilon, other.pure_epsilon or other.epsilon)
        if self.model == "zcdp" and other.model == "approx-dp" and other.delta is not None:
            converted_epsilon = self.approximate(other.delta).epsilon
            return converted_epsilon is not None and other.epsilon is not None and converted_epsilon <= other.epsilon
        if self.model == "individual-dp" and other.model == "dp":
            return self.pure_epsilon is not None and other.epsilon is not None and self.pure_epsilon <= other.epsilon
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
        exact_delta = as_number_between(delta, 0, 1, "delta")
        if self.model != "zcdp" or self.rho is None:
            raise Unsupported(f"{self.model} is not converted to approx-dp this way; only zcdp is")
        ln_delta = math.log(exact_delta.numerator) - math.log(exact_delta.denominator)
        order = 1 + Fraction(_find_best_order(float(min(self.rho, Fraction(10**300))), ln_delta))
        epsilon = compute_epsilon_at_order(order, self.rho, exact_delta)
        return Guarantee("approx-dp", self.neighbors, max(Fraction(0), epsilon), exact_delta, unit=self.unit)

    def __str__(self) -> str:
        return self.words()

    def words(self) -> str:
        """The promise as a sentence that is true: a number too long to be told is rounded up."""
        change = f"when one {self.unit} {CHANGE_WORDS.get(self.neighbors or '', '')}"
        weak = " This is weak formal protection." if (self.epsilon or 0) > WEAK_EPSILON else ""
        epsilon, delta = format_cost(self.epsilon or Fraction(0)), format_cost(self.delta or Fraction(0))
        sentences = {
            "dp": f"Differential privacy with epsilon {epsilon} {change}.",
            "approx-dp": f"Approximate differential privacy with epsilon {epsilon} and delta {delta} {change}.",
            "zcdp": f"Concentrated differential privacy with rho {format_cost(self.rho or Fraction(0))} {change}.",
            "individual-dp": f"Individual DP with epsilon {epsilon} {change}: weaker, "
            f"not for {'larger ' if self.unit.startswith('group') else ''}groups, its noise follows the data; "
            f"also differential privacy, but only with epsilon "
            f"{format_cost(self.pure_epsilon or Fraction(0))}.",
            "k-anonymity": f"{self.k}-anonymity: every record shares its quasi-identifiers with at least "
            f"{(self.k or 1) - 1} others.",
            "probabilistic-k-anonymity": f"Probabilistic {self.k}-anonymity: which of a group's values came from a "
            f"person is known with probability at most 1/{self.k}; where they are equal, the value is known.",
            "t-closeness": f"t-closeness with t {format_cost(self.t or Fraction(0))} under the "
            f"{self.distance} distance.",
            "nominal": f"No proven promise: {epsilon} is a figure that bounds nothing, and counts in no account.",
        }
        return sentences[self.model] + weak

    def to_dict(self) -> dict[str, object]:
        """Return what `to_json` has as plain values, numbers as numbers."""
        return self._build_json(as_plain_number)


def format_privacy_bound(guarantee: Guarantee) -> str:
    """What differential privacy bounds, as a sentence about one file."""
    exception = f", but for a chance of {format_upper(guarantee.delta, 3)}" if guarantee.delta else ""
    bound = f"at most {format_factor(guarantee.epsilon or Fraction(0))} times as likely"
    return f"Any file is {bound} with a person's record as with any other in its place{exception}."


def parse_neighbor_relation(neighbors: object) -> NeighborRelation:
    """One of the two neighbour relations."""
    if neighbors not in get_args(NeighborRelation):
        raise InvalidInput(f"neighbors must be add-remove or replace-one, got {neighbors!r}")
    return "add-remove" if neighbors == "add-remove" else "replace-one"


def _require_nonnegative(number: object, name: str) -> Fraction:
    value = as_rational(number, name)
    if value < 0:
        raise InvalidInput(f"{name} must be at least 0, got {format_exact(value)}")
    return value


def _convert_to_one_model(parts: Sequence[Guarantee]) -> list[Guarantee]:
    """The same promises in one model, where every one implies its translation."""
    first = parts[0]
    if any((part.neighbors, part.unit) != (first.neighbors, first.unit) for part in parts):
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
        return [replace(part, model="individual-dp", pure_epsilon=part.pure_epsilon or part.epsilon) for part in parts]
    raise Unsupported(f"no theorem we use adds {' and '.join(sorted(models))}; convert them to one model first")


def _require_guarantees(parts: object) -> list[Guarantee]:
    guarantees = list(parts) if isinstance(parts, Iterable) else []
    if not guarantees or not all(isinstance(part, Guarantee) for part in guarantees):
        raise InvalidInput("parallel composition needs a list of at least one guarantee, and of nothing else")
    return guarantees


def _compose_largest(guarantees: Sequence[Guarantee], max_accounts: int) -> Guarantee:
    """The promise of those `max_accounts` parts that promise least, each parameter on its own."""
    first = guarantees[0]
    if first.model not in DP_MODELS | {"individual-dp"}:
        raise Unsupported(f"{first.model} does not compose; only dp, approx-dp, zcdp and individual-dp do")

    def sum_largest(values: Iterable[Fraction | None]) -> Fraction | None:
        present = sorted((value for value in values if value is not None), reverse=True)
        return sum(present[:max_accounts], Fraction(0)) if present else None

    epsilon, delta = sum_largest(part.epsilon for part in guarantees), sum_largest(part.delta for part in guarantees)
    if delta is not None and delta >= 1:
        raise Unsupported(
            "the deltas add up to 1 or more, which promises nothing; ask fewer questions or smaller deltas"
        )
    rho, pure_epsilon = (sum_largest(part.rho for part in guarantees), sum_largest(p.pure_epsilon for p in guarantees))
    return replace(first, epsilon=epsilon, delta=delta, rho=rho, pure_epsilon=pure_epsilon)


def _format_group(unit: str, members: int) -> str:
    """In words; a group of groups is a larger group."""
    if members == 1:
        return unit
    match = re.fullmatch(r"group of ([0-9]+) (.+)", unit)
    return f"group of {members * int(match[1])} {match[2]}" if match else f"group of {members} {unit}s"


def compute_epsilon_at_order(order: Fraction, rho: Fraction, delta: Fraction, bits: int = 40) -> Fraction:
    """The epsilon that rho-zCDP gives at this order, never below it: what is subtracted is rounded down."""
    subtrahend = (ln_below(order, bits) + ln_below(delta, bits)) / (order - 1)
    return order * rho + ln_above((order - 1) / order, bits) - subtrahend


def _find_best_order(rho: float, ln_delta: float) -> float:
    """The order less one, by golden-section search on its logarithm; any value is sound, this one is near the best."""

    def compute_epsilon(log_excess: float) -> float:
        excess = math.exp(log_excess)
        return (1 + excess) * rho - math.log1p(1 / excess) - (math.log1p(excess) + ln_delta) / excess

    low, high = -12.0, 40.0
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(120):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if compute_epsilon(left) <= compute_epsilon(right) else (left, high)
    return math.exp((low + high) / 2)
