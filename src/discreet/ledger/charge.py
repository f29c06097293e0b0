"""Charges, balances and receipts as values, and amounts of privacy as whole numbers.

A sum of fractions grows a denominator with every new prime; a sum of whole numbers does not. What is charged is
rounded up to the next multiple, which is exact for every decimal of up to 19 digits after the point, also squared and
halved. Stored, an amount is 60 digits with leading zeros: its order as text is its order as a number on every engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, get_args

from discreet.errors import InvalidInput, Unavailable
from discreet.json_fields import JsonSerializable
from discreet.privacy.cost import MAX_NAME_LENGTH, PrivacyCost, SubAccount, require_amount, require_storable_text
from discreet.schema import Budget
from discreet.untrusted import require_exact_class

DECIMAL_PLACES = 40
STORED_WIDTH = 60
UNITS_PER_ONE: int = 10**DECIMAL_PLACES
DAMAGED_AMOUNT = (
    "the ledger is damaged: it holds something else where an amount should be; verify it, and restore a copy"
)


def round_up_to_units(value: Fraction) -> int:
    """The least whole number of units that is at least the value."""
    return -(-value.numerator * UNITS_PER_ONE // value.denominator)


def units_to_fraction(count: int) -> Fraction:
    """Convert a number of units to a fraction."""
    return Fraction(count, UNITS_PER_ONE)


def format_stored_amount(count: int) -> str:
    """Format units as the database stores them."""
    return f"{count:0{STORED_WIDTH}d}"


def parse_stored_amount(text: object) -> int:
    """Parse units as the database stores them."""
    if not isinstance(text, str) or len(text) != STORED_WIDTH:
        raise Unavailable(DAMAGED_AMOUNT)
    return _parse_digits(text)


def format_amount(count: int) -> str:
    """Format units as a plain decimal, such as 0.25."""
    return f"{count // UNITS_PER_ONE}.{count % UNITS_PER_ONE:0{DECIMAL_PLACES}d}".rstrip("0").rstrip(".")


def parse_amount(text: str) -> int:
    """Parse units from a plain decimal."""
    integer_digits, _, decimal_digits = text.partition(".")
    if len(integer_digits) > STORED_WIDTH or len(decimal_digits) > DECIMAL_PLACES:
        raise Unavailable(DAMAGED_AMOUNT)
    return _parse_digits(integer_digits) * UNITS_PER_ONE + _parse_digits(decimal_digits.ljust(DECIMAL_PLACES, "0"))


def _parse_digits(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise Unavailable(DAMAGED_AMOUNT)
    return int(text)


Model = Literal["dp", "approx-dp", "individual-dp"]
MODELS: tuple[Model, ...] = get_args(Model)
EntryKind = Literal["register", "charge", "reuse", "degrade", "release", "cap", "void"]
ENTRY_KINDS: tuple[EntryKind, ...] = get_args(EntryKind)

MAX_QUERY_LENGTH = 100_000


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that all analysts together and each of them may spend, in every model that is allowed."""

    dataset: Budget
    analyst: Budget
    models: tuple[str, ...]

    def __post_init__(self) -> None:
        """The budgets are amounts and the models are known."""
        for budget in (self.dataset, self.analyst):
            require_exact_class(budget, Budget, "the budgets must be Budgets")
            require_amount(budget.epsilon, "the epsilon of a budget")
            require_amount(budget.delta, "the delta of a budget")
            require_amount(budget.ceiling, "the max_epsilon of a budget")
        if not self.models or not set(self.models) <= set(MODELS):
            raise InvalidInput(f"the models of a budget are some of {', '.join(MODELS)}")


@dataclass(frozen=True, slots=True)
class Charge:
    """One request. Two with the same `question` may share an answer; `epsilon` says which answer is more accurate.

    `question` names the canonical query, the mechanism, its parameters but epsilon, and the prior where one is used;
    `query` is what people read in the history. A `key` makes a retry safe; `fresh` asks for a new draw.
    `any_price` takes another analyst's stored answer also where it costs more than `spend`; without it, nobody pays
    more. `degradable` says that a stored answer of a larger epsilon can be turned into one of this epsilon, which is
    so for Laplace noise alone: its spend has neither a delta nor a Gaussian rho.
    """

    dataset: str
    snapshot: str
    analyst: str
    question: str
    query: str
    model: Model
    spend: PrivacyCost
    epsilon: Fraction
    part: SubAccount | None = None
    key: str | None = None
    fresh: bool = False
    any_price: bool = False
    degradable: bool = False

    def __post_init__(self) -> None:
        """Names are text; the spend is one that the model can have."""
        max_lengths = {"question": None, "query": MAX_QUERY_LENGTH}
        for name in ("dataset", "snapshot", "analyst", "question", "query", "key"):
            if name != "key" or self.key is not None:
                value = require_storable_text(getattr(self, name), name, max_lengths.get(name, MAX_NAME_LENGTH))
                object.__setattr__(self, name, value)
        if type(self.model) is not str or self.model not in MODELS:
            raise InvalidInput(f"a charge is in one of {', '.join(MODELS)}, got {self.model!r:.40}")
        require_exact_class(self.spend, PrivacyCost, "the spend of a charge must be a PrivacyCost")
        if self.part is not None:
            require_exact_class(self.part, SubAccount, "the part of a charge must be a SubAccount")
        object.__setattr__(self, "epsilon", require_amount(self.epsilon, "epsilon"))
        for name in ("fresh", "any_price", "degradable"):
            object.__setattr__(self, name, bool(getattr(self, name)))
        if not self.epsilon:
            raise InvalidInput("the epsilon asked for must be above 0")
        spend = self.spend
        if self.model != "approx-dp" and (spend.gaussian_rho or spend.delta):
            raise InvalidInput(f"{self.model} is charged in epsilon alone; a loss with delta is approx-dp")
        if self.model != "individual-dp" and (spend.epsilon > 0) != (spend.rho > 0):
            raise InvalidInput("a pure loss has both an epsilon and a rho above 0, or neither")
        if self.degradable and (spend.gaussian_rho or spend.delta or not spend.epsilon):
            raise InvalidInput("only a charge in epsilon alone can be degradable: degradation adds Laplace noise")


@dataclass(frozen=True, slots=True)
class Receipt:
    """The outcome of a charge: the entry that paid, what it paid, and whether this very call paid it.

    `answer` is the stored answer; where there is none, whoever holds the receipt makes one and stores it: from
    `answer_to_degrade`, a stored answer of a larger epsilon that noise is added to, or else by a new draw.
    """

    entry: int
    answer: str | None
    paid: PrivacyCost
    charged: bool
    answer_to_degrade: str | None = None


@dataclass(frozen=True, slots=True)
class Balance(JsonSerializable):
    """One account against its cap; without an analyst it is the data set's.

    `epsilon` is never below what was spent, and None where no such number exists. `promise` says what holds for all
    answers of the account together, also where the cap is raised or was.
    """

    model: Model
    analyst: str | None
    epsilon: Fraction | None
    delta: Fraction
    cap: Budget
    left: Fraction
    flags: tuple[str, ...]
    promise: str = ""

    _json_fields = "model analyst spent.epsilon=epsilon spent.delta=delta cap left flags promise"


@dataclass(frozen=True, slots=True)
class Entry(JsonSerializable):
    """One line of the history; a registration has no analyst, query, model or spend, a release a query alone.

    The `query` of a cap that was changed says from what to what.
    """

    entry: int
    kind: EntryKind
    at: str
    snapshot: str
    analyst: str | None = None
    query: str | None = None
    model: Model | None = None
    spend: PrivacyCost | None = None
    epsilon: Fraction | None = None
    part: SubAccount | None = None

    _json_fields = "entry kind at snapshot analyst query model epsilon spend part"


@dataclass(frozen=True, slots=True)
class LedgerVerification(JsonSerializable):
    """How many entries were recomputed, and the hash that stands for all of them.

    Of a whole ledger `heads` has the head of each data set: keep those elsewhere, since `Ledger.find_head_entry` finds
    them later.
    """

    entries: int
    head: str
    heads: Mapping[str, str] = field(default_factory=dict)

    _json_fields = "entries head"  # of the chain of one data set


@dataclass(frozen=True, slots=True)
class HeadEntry:
    """The entry that a head was kept at."""

    dataset: str
    entry: int


@dataclass(frozen=True, slots=True)
class LedgerRestore:
    """A back-up as it was, and the ledger now: another where something was forgotten, and is entered."""

    backup: LedgerVerification
    ledger: LedgerVerification
