"""What the ledger is asked and what it tells: values, valid once they exist."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from discreet.errors import InvalidInput
from discreet.ledger.amounts import amount
from discreet.schema import Budget

Model = Literal["dp", "approx-dp", "individual-dp"]
Kind = Literal["partition", "individual"]
MODELS: tuple[Model, ...] = get_args(Model)
KINDS: tuple[Kind, ...] = get_args(Kind)

LONGEST_NAME = 200
LONGEST_QUERY = 100_000
ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class Spend:
    """What one answer costs.

    `epsilon` is its pure loss and `rho` the zCDP of that same loss (epsilon^2/2, or epsilon^2/8 for the exponential
    mechanism); `other` the zCDP of what is not pure, as of Gaussian noise; `delta` the chance that all this fails.
    """

    epsilon: Fraction = ZERO
    rho: Fraction = ZERO
    other: Fraction = ZERO
    delta: Fraction = ZERO

    def __post_init__(self) -> None:
        """Every part is an amount, and delta below 1."""
        for name in ("epsilon", "rho", "other", "delta"):
            amount(getattr(self, name), name)
        if self.delta >= 1:
            raise InvalidInput("delta must be below 1; a delta of 1 promises nothing")


@dataclass(frozen=True, slots=True)
class Part:
    """An account of its own for one partition or one individual; one unit touches at most `reach` of a kind.

    `name` is in one spelling: two names are two accounts.
    """

    kind: Kind
    name: str
    reach: int

    def __post_init__(self) -> None:
        """The kind is known, the name is text, and a unit reaches at least one account."""
        if self.kind not in KINDS:
            raise InvalidInput(f"a part is a partition or an individual, got {self.kind!r:.40}")
        text(self.name, "a part's name")
        if type(self.reach) is not int or self.reach < 1:
            raise InvalidInput("a part's reach must be a whole number of at least 1")


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that all analysts together and each of them may spend, in every model that is allowed."""

    dataset: Budget
    analyst: Budget
    models: tuple[str, ...]

    def __post_init__(self) -> None:
        """The budgets are amounts and the models are known."""
        for budget in (self.dataset, self.analyst):
            amount(budget.epsilon, "the epsilon of a budget")
            amount(budget.delta, "the delta of a budget")
        if not self.models or not set(self.models) <= set(MODELS):
            raise InvalidInput(f"the models of a budget are some of {', '.join(MODELS)}")


@dataclass(frozen=True, slots=True)
class Charge:
    """One request. Two with the same `question` may share an answer; `epsilon` says which answer is more accurate.

    `question` names the canonical query, the mechanism, its parameters but epsilon, and the prior where one is used;
    `query` is what people read in the history. A `key` makes a retry safe; `fresh` asks for a new draw.
    """

    dataset: str
    snapshot: str
    analyst: str
    question: str
    query: str
    model: Model
    spend: Spend
    epsilon: Fraction
    part: Part | None = None
    key: str | None = None
    fresh: bool = False

    def __post_init__(self) -> None:
        """Names are text; the spend is one that the model can have."""
        for name in ("dataset", "snapshot", "analyst"):
            text(getattr(self, name), name)
        text(self.question, "question", longest=None)
        text(self.query, "query", longest=LONGEST_QUERY)
        if self.key is not None:
            text(self.key, "key")
        if self.model not in MODELS:
            raise InvalidInput(f"a charge is in one of {', '.join(MODELS)}, got {self.model!r:.40}")
        if not amount(self.epsilon, "epsilon"):
            raise InvalidInput("the epsilon asked for must be above 0")
        self._check_spend()

    def _check_spend(self) -> None:
        spend = self.spend
        if self.model != "approx-dp" and (spend.other or spend.delta):
            raise InvalidInput(f"{self.model} is charged in epsilon alone; a loss with delta is approx-dp")
        if self.model != "individual-dp" and (spend.epsilon > 0) != (spend.rho > 0):
            raise InvalidInput("a pure loss has both an epsilon and a rho above 0, or neither")


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a charge: the entry that paid, what it paid, and whether this very call paid it.

    `answer` is the stored answer; where there is none, whoever holds the receipt draws one and stores it.
    """

    entry: int
    answer: str | None
    paid: Spend
    charged: bool


@dataclass(frozen=True, slots=True)
class Balance:
    """One account against its cap. `epsilon` is never below what was spent, and None where no such number exists."""

    model: Model
    analyst: str | None
    epsilon: Fraction | None
    delta: Fraction
    cap: Budget
    left: Fraction
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the history; a registration has no analyst, query, model or spend."""

    entry: int
    kind: Literal["register", "charge", "reuse"]
    at: str
    snapshot: str
    analyst: str | None = None
    query: str | None = None
    model: Model | None = None
    spend: Spend | None = None
    epsilon: Fraction | None = None
    part: Part | None = None


@dataclass(frozen=True, slots=True)
class Verified:
    """How many entries were recomputed, and the hash that stands for all of them: keep it elsewhere to compare."""

    entries: int
    head: str


def text(value: object, name: str, longest: int | None = LONGEST_NAME) -> str:
    """Text that every engine keeps as it is: not empty, valid Unicode, without the character 0."""
    if not isinstance(value, str) or not value or (longest is not None and len(value) > longest):
        limit = f" of at most {longest} characters" if longest is not None else ""
        raise InvalidInput(f"{name} must be text{limit}, and not empty")
    if "\0" in value or not _encodes(value):
        raise InvalidInput(f"{name} must be plain text: no character 0, no half of a character")
    return value


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
