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
from discreet.exact import as_int, parse_rational
from discreet.inference.constraints import Constraint, Equalities, at_least, copy_constraint, decreasing, increasing
from discreet.plain import copy_list, copy_text, has_type
from discreet.planner.plan import Plan
from discreet.planner.structure import CountLimits, StructuralConstraints, find_structural_constraints

StatedConstraint = str | Constraint
CONSTRAINT_PATTERN = re.compile(r"(total|each)\s*(<=|>=|=)\s*(\S+)")
FACT_REFUSED = (
    "a fact taken from the data set tells about its rows, so it is not used in an answer; use the library's reconcile "
    "with accept_facts=True, which says what it costs"
)
STATED_PREFIX = "you stated, and it is taken to be true of every data set: "
CONSTRAINT_SYNTAX = (
    "a constraint is written as: total = 1000, total <= 1000, total >= 10, each <= 50, each >= 1, rising or falling"
)


@dataclass(frozen=True, eq=False, slots=True)
class CountRules:
    """What some counts must fit: the structure, and constraints of the analyst on the cells of the one count."""

    structure: StructuralConstraints
    constraints: tuple[Constraint, ...] = ()
    reasons: tuple[str, ...] = ()


def copy_constraints(constraints: object) -> tuple[StatedConstraint, ...]:
    """What an analyst states, copied as plain values: texts, and constraints that we made."""
    if isinstance(constraints, str):
        raise InvalidInput('constraints are a list, such as ["total = 1000"]')
    return tuple(map(_copy_constraint, copy_list(constraints, "constraints")))


def _copy_constraint(constraint: object) -> StatedConstraint:
    if has_type(constraint, str):
        return copy_text(constraint, "a constraint")
    if has_type(constraint, Constraint):
        return copy_constraint(constraint)
    raise InvalidInput(f"a constraint is a text or a Constraint, got {type(constraint).__name__}; {CONSTRAINT_SYNTAX}")


def build_count_rules(plan: Plan, constraints: Sequence[StatedConstraint] = ()) -> CountRules:
    """What the counts of a plan must fit; refused, from public facts alone, where that is not of one count."""
    count_structure = find_structural_constraints(plan.schema, plan.query, len(plan.list_cells()))
    rules = CountRules(count_structure, (), count_structure.words)
    for constraint in constraints:
        rules = _add_stated(rules, plan, constraint)
    return rules


def require_countable(counts: int, constraints: Sequence[StatedConstraint]) -> None:
    """Constraints are on one count with noise, in cells that are public."""
    if constraints and counts != 1:
        raise InvalidInput(
            "a constraint is of one COUNT with noise, alone or in the groups of GROUP BY; not of several counts, of a "
            "HISTOGRAM or of a ROLLUP, and not where the schema makes the count public"
        )


def _add_stated(rules: CountRules, plan: Plan, constraint: StatedConstraint) -> CountRules:
    """One more thing that was stated."""
    if isinstance(constraint, Constraint):
        return _add_constraint(rules, constraint)
    text = " ".join(constraint.split()).lower()
    if text.startswith("fact"):
        raise InvalidInput(FACT_REFUSED)
    new_rules = replace(rules, reasons=(*rules.reasons, STATED_PREFIX + text))
    if text in {"rising", "falling"}:
        return replace(new_rules, constraints=(*rules.constraints, _build_monotone_constraint(plan, text)))
    match = CONSTRAINT_PATTERN.fullmatch(text)
    if match is None:
        raise InvalidInput(f"{constraint[:40]!r} is not a constraint; {CONSTRAINT_SYNTAX}")
    scope, comparison, number = match.groups()
    value = as_int(
        parse_rational(number, f"the number of {constraint[:40]!r}"), f"the number of {constraint[:40]!r}", minimum=0
    )
    if scope == "each":
        return _add_cell_bound(new_rules, comparison, value)
    return replace(new_rules, structure=_bound_total(rules.structure, comparison, value))


def _add_constraint(rules: CountRules, constraint: Constraint) -> CountRules:
    if not constraint.structural:
        raise InvalidInput(FACT_REFUSED)
    terms = constraint.bind(np.zeros(rules.structure.possible.shape[1]))
    if isinstance(terms, Equalities) and terms.floating:
        raise InvalidInput("a constraint of an answer names its total, such as total(1000); the noisy one may not fit")
    return replace(
        rules, constraints=(*rules.constraints, constraint), reasons=(*rules.reasons, STATED_PREFIX + constraint.name)
    )


def _build_monotone_constraint(plan: Plan, direction: str) -> Constraint:
    """Along the one key, missing values apart."""
    places = [index for index, cell in enumerate(plan.list_cells()) if None not in cell]
    if len(plan.query.keys) != 1:
        raise InvalidInput(
            f"{direction} is along one group key, and this question has {len(plan.query.keys)}; leave it out"
        )
    return increasing(of=places) if direction == "rising" else decreasing(of=places)


def _add_cell_bound(rules: CountRules, comparison: str, value: int) -> CountRules:
    if comparison == ">=":
        return replace(rules, constraints=(*rules.constraints, at_least(value)))
    if comparison == "=":
        raise InvalidInput("that each count is one number leaves nothing to ask; write each <= or each >=")
    (ends,) = rules.structure.limits
    each = value if ends.max_cell is None else min(value, ends.max_cell)
    return replace(rules, structure=replace(rules.structure, limits=(replace(ends, max_cell=each),)))


def _bound_total(structure: StructuralConstraints, comparison: str, value: int) -> StructuralConstraints:
    """With what the cells of the one count add up to."""
    (ends,) = structure.limits
    least = max(ends.min_total, value) if comparison in {"=", ">="} else ends.min_total
    most = ends.max_total
    if comparison in {"=", "<="}:
        most = value if most is None else min(most, value)
    if most is not None and least > most:
        raise InvalidInput(
            f"the counts cannot add up to at least {least:,} and to at most {most:,}; leave out what is not true"
        )
    return replace(structure, limits=(CountLimits(least, most, ends.max_cell),))
