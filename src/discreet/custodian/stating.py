"""What the counts of a reply are made to fit: what the schema makes true, and what the analyst states.

What an analyst states is a public number that she brings: she could have made the counts fit it herself, so it leaves
the guarantee as it is. A fact taken from the rows would not, and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from discreet.errors import InvalidInput
from discreet.exact import rational_text, whole
from discreet.inference.constraints import Constraint, Equalities, at_least, decreasing, increasing, plain_constraint
from discreet.plain import is_a, plain_list, plain_text
from discreet.planner.plan import Plan
from discreet.planner.structure import Ends, Structure, structure

Stated = str | Constraint
WRITTEN = re.compile(r"(total|each)\s*(<=|>=|=)\s*(\S+)")
FACT = (
    "a fact taken from the data set tells about its rows, so it is not used in an answer; use the library's reconcile "
    "with accept_facts=True, which says what it costs"
)
STATED = "you stated, and it is taken to be true of every data set: "
HOW = "a constraint is written as: total = 1000, total <= 1000, total >= 10, each <= 50, each >= 1, rising or falling"


@dataclass(frozen=True, eq=False, slots=True)
class Rules:
    """What some counts must fit: the structure, and constraints of the analyst on the cells of the one count."""

    structure: Structure
    own: tuple[Constraint, ...] = ()
    words: tuple[str, ...] = ()


def plain_stated(stated: object) -> tuple[Stated, ...]:
    """What an analyst states, copied as plain values: texts, and constraints that we made."""
    if isinstance(stated, str):
        raise InvalidInput('constraints are a list, such as ["total = 1000"]')
    return tuple(map(_stated, plain_list(stated, "constraints")))


def _stated(one: object) -> Stated:
    if is_a(one, str):
        return plain_text(one, "a constraint")
    if is_a(one, Constraint):
        return plain_constraint(one)
    raise InvalidInput(f"a constraint is a text or a Constraint, got {type(one).__name__}; {HOW}")


def rules_of(plan: Plan, stated: Sequence[Stated] = ()) -> Rules:
    """What the counts of a plan must fit; refused, from public facts alone, where that is not of one count."""
    made = structure(plan.schema, plan.query, len(plan.cells()))
    rules = Rules(made, (), made.words)
    for one in stated:
        rules = _with(rules, plan, one)
    return rules


def require_countable(counts: int, stated: Sequence[Stated]) -> None:
    """Constraints are on one count with noise, in cells that are public."""
    if stated and counts != 1:
        raise InvalidInput(
            "a constraint is of one COUNT with noise, alone or in the groups of GROUP BY; not of several counts, of a "
            "HISTOGRAM or of a ROLLUP, and not where the schema makes the count public"
        )


def _with(rules: Rules, plan: Plan, one: Stated) -> Rules:
    """One more thing that was stated."""
    if isinstance(one, Constraint):
        return _with_constraint(rules, one)
    text = " ".join(one.split()).lower()
    if text.startswith("fact"):
        raise InvalidInput(FACT)
    said = replace(rules, words=(*rules.words, STATED + text))
    if text in {"rising", "falling"}:
        return replace(said, own=(*rules.own, _along(plan, text)))
    found = WRITTEN.fullmatch(text)
    if found is None:
        raise InvalidInput(f"{one[:40]!r} is not a constraint; {HOW}")
    what, comparison, number = found.groups()
    value = whole(rational_text(number, f"the number of {one[:40]!r}"), f"the number of {one[:40]!r}", least=0)
    if what == "each":
        return _with_each(said, comparison, value)
    return replace(said, structure=_summed(rules.structure, comparison, value))


def _with_constraint(rules: Rules, one: Constraint) -> Rules:
    if not one.structural:
        raise InvalidInput(FACT)
    terms = one.bind(np.zeros(rules.structure.possible.shape[1]))
    if isinstance(terms, Equalities) and terms.floating:
        raise InvalidInput("a constraint of an answer names its total, such as total(1000); the noisy one may not fit")
    return replace(rules, own=(*rules.own, one), words=(*rules.words, STATED + one.name))


def _along(plan: Plan, text: str) -> Constraint:
    """Along the one key, missing values apart."""
    places = [at for at, cell in enumerate(plan.cells()) if None not in cell]
    if len(plan.query.keys) != 1:
        raise InvalidInput(f"{text} is along one group key, and this question has {len(plan.query.keys)}; leave it out")
    return increasing(of=places) if text == "rising" else decreasing(of=places)


def _with_each(rules: Rules, comparison: str, value: int) -> Rules:
    if comparison == ">=":
        return replace(rules, own=(*rules.own, at_least(value)))
    if comparison == "=":
        raise InvalidInput("that each count is one number leaves nothing to ask; write each <= or each >=")
    (ends,) = rules.structure.ends
    each = value if ends.each is None else min(value, ends.each)
    return replace(rules, structure=replace(rules.structure, ends=(replace(ends, each=each),)))


def _summed(made: Structure, comparison: str, value: int) -> Structure:
    """With what the cells of the one count add up to."""
    (ends,) = made.ends
    least = max(ends.least, value) if comparison in {"=", ">="} else ends.least
    most = ends.most
    if comparison in {"=", "<="}:
        most = value if most is None else min(most, value)
    if most is not None and least > most:
        raise InvalidInput(
            f"the counts cannot add up to at least {least:,} and to at most {most:,}; leave out what is not true"
        )
    return replace(made, ends=(Ends(least, most, ends.each),))
