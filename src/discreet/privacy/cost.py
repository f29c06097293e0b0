"""What an answer costs, the part of the data it is about, and a tighter total for display."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from importlib.util import find_spec
from itertools import starmap
from typing import Literal, get_args

from discreet.errors import InvalidInput, Unsupported
from discreet.json_fields import JsonSerializable
from discreet.numeric import as_number_between, format_exact
from discreet.privacy.guarantee import Guarantee
from discreet.untrusted import CheckedValue, copy_exact_number, copy_text, has_type, set_fields

AccountKind = Literal["partition", "individual"]
ACCOUNT_KINDS: tuple[AccountKind, ...] = get_args(AccountKind)
ZERO = Fraction(0)
MIN_AMOUNT = Fraction(1, 10**40)
MAX_AMOUNT = 10**9
"""The most one amount may be; totals have eleven digits more."""
MAX_NAME_LENGTH = 200
EPSILON_DECIMALS = 9
MIN_EPSILON, MIN_DELTA = Fraction(1, 10**EPSILON_DECIMALS), Fraction(1, 10**30)
"""The least that may be asked for: a refusal advises nothing below it."""


@dataclass(frozen=True, slots=True)
class PrivacyCost(CheckedValue, JsonSerializable):
    """What one answer costs.

    `epsilon` is its pure loss and `rho` the zCDP of that same loss (epsilon^2/2, or epsilon^2/8 for the exponential
    mechanism); `gaussian_rho` the zCDP of what is not pure, as of Gaussian noise; `delta` the chance that all this
    fails.
    """

    epsilon: Fraction = ZERO
    rho: Fraction = ZERO
    gaussian_rho: Fraction = ZERO
    delta: Fraction = ZERO

    _json_fields = "epsilon rho other=gaussian_rho delta"

    def __post_init__(self) -> None:
        set_fields(self, epsilon=require_amount(self.epsilon, "epsilon"), rho=require_amount(self.rho, "rho"))
        gaussian_rho, delta = require_amount(self.gaussian_rho, "gaussian_rho"), require_amount(self.delta, "delta")
        set_fields(self, gaussian_rho=gaussian_rho, delta=delta)
        if self.delta >= 1:
            raise InvalidInput("delta must be below 1; a delta of 1 promises nothing")

    def __add__(self, other: PrivacyCost) -> PrivacyCost:
        """Sequential composition."""
        epsilon, rho = self.epsilon + other.epsilon, self.rho + other.rho
        return PrivacyCost(epsilon, rho, self.gaussian_rho + other.gaussian_rho, self.delta + other.delta)


def compute_pure_cost(epsilon: Fraction) -> PrivacyCost:
    """The cost of a pure loss, which is epsilon^2 / 2 of zCDP."""
    return PrivacyCost(epsilon, epsilon**2 / 2)


@dataclass(frozen=True, slots=True)
class SubAccount(CheckedValue, JsonSerializable):
    """An account of its own for one partition or one individual; one unit touches at most `max_accounts` of a kind.

    `name` is in one spelling: two names are two accounts.
    """

    kind: AccountKind
    name: str
    max_accounts: int

    _json_fields = "kind name reach=max_accounts"

    def __post_init__(self) -> None:
        if type(self.kind) is not str or self.kind not in ACCOUNT_KINDS:
            raise InvalidInput(f"a part is a partition or an individual, got {self.kind!r:.40}")
        set_fields(self, name=require_storable_text(self.name, "a part's name"))
        if type(self.max_accounts) is not int or self.max_accounts < 1:
            raise InvalidInput("a part's reach must be a whole number of at least 1")


def require_amount(value: object, name: str) -> Fraction:
    """An exact number that can be charged: 0, or between 10^-40 and 10^9."""
    exact_amount = copy_exact_number(value, name)
    if exact_amount < 0 or exact_amount > MAX_AMOUNT or 0 < exact_amount < MIN_AMOUNT:
        raise InvalidInput(f"{name} must be 0 or between 10^-40 and 10^9, got {format_exact(exact_amount)}")
    return exact_amount


def require_storable_text(value: object, name: str, max_length: int | None = MAX_NAME_LENGTH) -> str:
    """Text that every engine keeps as it is: not empty, valid Unicode, without the character 0."""
    plain_value = copy_text(value, name) if has_type(value, str) else ""
    if not plain_value or (max_length is not None and len(plain_value) > max_length):
        limit = f" of at most {max_length} characters" if max_length is not None else ""
        raise InvalidInput(f"{name} must be text{limit}, and not empty")
    if "\0" in plain_value or plain_value.encode(errors="ignore").decode() != plain_value:
        raise InvalidInput(f"{name} must be plain text: no character 0, no half of a character")
    return plain_value


FLOAT_ERROR = 1e-13
"""Taken off delta: the Fourier transforms below add errors twenty times smaller."""
MESH_COUNT = 100_000
"""Losses are rounded up to so many parts of their sum."""


def compute_pld_epsilon(costs: Iterable[PrivacyCost], delta: object) -> float:
    """An epsilon that holds with delta for all these answers together, had their costs been fixed beforehand.

    Pure losses are composed as their worst pairs at half of the delta that is left. What is not pure is added as zCDP
    at the other half: the distribution of continuous Gaussian noise is no bound for noise on a grid. That the two add
    although their questions alternate is the concurrent composition of interactive mechanisms (Lyu 2022).
    """
    costs = list(costs)
    used_delta, rho = sum(cost.delta for cost in costs), sum(cost.gaussian_rho for cost in costs)
    remaining_delta = as_number_between(delta, 0, 1, "delta") - used_delta
    if remaining_delta <= 0:
        used = format_exact(Fraction(used_delta))
        raise Unsupported(f"the deltas of these answers alone add up to {used}; give a larger delta")
    pure = Counter(cost.epsilon for cost in costs if cost.epsilon)
    share = remaining_delta / 2 if rho and pure else remaining_delta
    zcdp_epsilon = Guarantee.zcdp(rho).approximate(share).epsilon if rho else None
    pure_epsilon = _compute_pure_epsilon(pure, float(share))
    return pure_epsilon if not zcdp_epsilon else math.nextafter(float(zcdp_epsilon + Fraction(pure_epsilon)), math.inf)


def _compute_pure_epsilon(pure: Counter[Fraction], delta: float) -> float:
    """The worst pair of each loss, composed as often as it occurs; never more than the plain sum."""
    epsilon_sum = math.nextafter(float(sum(epsilon * count for epsilon, count in pure.items())), math.inf)
    if not pure or delta <= FLOAT_ERROR:
        return epsilon_sum if pure else 0.0
    if find_spec("dp_accounting") is None:
        raise Unsupported("the tighter total needs dp-accounting; run pip install '.[accounting]'")
    from dp_accounting.pld import common, privacy_loss_distribution

    def compose_pure(epsilon: Fraction, count: int) -> privacy_loss_distribution.PrivacyLossDistribution:
        worst = common.DifferentialPrivacyParameters(math.nextafter(float(epsilon), math.inf))
        return privacy_loss_distribution.from_privacy_parameters(worst, epsilon_sum / MESH_COUNT).self_compose(count)

    total = reduce(lambda first, second: first.compose(second), starmap(compose_pure, sorted(pure.items())))
    return min(epsilon_sum, float(total.get_epsilon_for_delta(delta - FLOAT_ERROR)))
