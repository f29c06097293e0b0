"""What can be explained at a click: a title, a few words for where the number stands, and a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from discreet.exact import exp_below
from discreet.formatting import format_cost, format_factor, format_percent_at_most


@dataclass(frozen=True, slots=True)
class Topic:
    """One explanation; the page itself is a template of the same name."""

    title: str
    words: str


TOPICS: Mapping[str, Topic] = {
    "epsilon": Topic(
        "What epsilon buys",
        "Epsilon bounds how much all that you are told can change anyone's mind about one person. Smaller is more "
        "private, and noisier. Epsilons of several answers add up.",
    ),
    "guarantee": Topic(
        "What the guarantee covers, and what not",
        "It bounds what is learnt from a person's own record being in the table. It does not stop conclusions that "
        "would hold without that record, and it holds for the model, the unit and the neighbours that it names.",
    ),
    "budget": Topic(
        "Budget and cost",
        "Every new answer is paid for from two accounts: yours, and the data set's, which all analysts share. What is "
        "spent never comes back. The same question again is free.",
    ),
    "prior": Topic(
        "A prior",
        "What you believe before you ask, as weights of possible values. It changes no charge. It is used to choose a "
        "mechanism and to say what the answer means to you.",
    ),
    "posterior": Topic(
        "The posterior",
        "What someone who held your prior should believe after the answer, by Bayes' rule from the prior and the "
        "public law of the noise. It is made from what was released, so it costs nothing.",
    ),
    "interval": Topic(
        "A 95 % interval",
        "An interval computed from the noise alone: whatever the data are, it holds the exact number in at least 95 of "
        "100 draws. Where HAVING, or LIMIT after ORDER BY, chooses rows by their noisy numbers, the intervals of all "
        "groups hold at once in as many draws, also of those not shown. It says nothing about a wider population.",
    ),
    "error": Topic(
        "The expected error",
        "The root mean square distance between what you will know and the exact number, computed beforehand from "
        "public facts. Where it depends on the rows it is not told.",
    ),
    "reconciled": Topic(
        "Reconciled numbers",
        "The raw numbers made to fit what must be true of every data set: no count below 0, parts that add up to their "
        "total. Made from the raw numbers alone, hence free. Where most cells are nearly empty their sum is too large; "
        "the answer then says to add up the raw numbers.",
    ),
    "rehearsal": Topic(
        "Rehearsal",
        "The same calls on a made-up table of the same shape. Nothing is charged, and nothing in it is true of "
        "anybody.",
    ),
    "time": Topic(
        "Why replies take their time",
        "How long a computation takes can tell about the rows. So every reply about a data set leaves at a deadline "
        "that its custodian sets, refusals included.",
    ),
    "weaker": Topic(
        "Weaker promises",
        "Individual DP, k-anonymity and t-closeness promise less than differential privacy, and do not add up with it. "
        "Once one was used, the totals no longer describe all disclosure.",
    ),
    "chain": Topic(
        "The chain of hashes",
        "Every entry of the ledger holds a hash of the one before. Recomputing it shows whether an entry was changed, "
        "left out or moved; comparing its head with one you kept shows whether the whole was replaced.",
    ),
}

EPSILONS = tuple(map(Fraction, ("0.01", "0.1", "0.5", "1", "2", "5", "10")))


def list_epsilon_gains() -> list[tuple[str, str, str]]:
    """For some epsilons: how often a fifty-fifty guess can be right at most, and the factor on odds, rounded up."""
    return [(format_cost(epsilon), _format_guess_percent(epsilon), format_factor(epsilon)) for epsilon in EPSILONS]


def _format_guess_percent(epsilon: Fraction) -> str:
    share = 1 / (1 + exp_below(-epsilon))
    return format_percent_at_most(share, 3 if share < Fraction(999, 1000) else 5)
