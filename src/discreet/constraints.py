"""Constraints that answers must satisfy: what an analyst states, and `reconcile` or `Custodian.answer` keeps.

    from discreet.constraints import at_least, total

A constraint is structural where it is true of every table that the schema allows; a fact of these data costs privacy,
which `rho` tells. Names are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discreet.estimation.constraint_set import Constraint as Constraint  # noqa: PLC0414
    from discreet.estimation.constraint_set import at_least as at_least  # noqa: PLC0414
    from discreet.estimation.constraint_set import at_most as at_most  # noqa: PLC0414
    from discreet.estimation.constraint_set import decreasing as decreasing  # noqa: PLC0414
    from discreet.estimation.constraint_set import fixed as fixed  # noqa: PLC0414
    from discreet.estimation.constraint_set import increasing as increasing  # noqa: PLC0414
    from discreet.estimation.constraint_set import linear as linear  # noqa: PLC0414
    from discreet.estimation.constraint_set import nested as nested  # noqa: PLC0414
    from discreet.estimation.constraint_set import same_total as same_total  # noqa: PLC0414
    from discreet.estimation.constraint_set import total as total  # noqa: PLC0414
    from discreet.estimation.linear_refinement import LinearRefinement as LinearRefinement  # noqa: PLC0414
    from discreet.estimation.linear_refinement import Refined as Refined  # noqa: PLC0414
    from discreet.estimation.linear_refinement import reconcile as reconcile  # noqa: PLC0414
    from discreet.estimation.linear_refinement import refine_linear as refine_linear  # noqa: PLC0414
    from discreet.estimation.refinement_cost import rho as rho  # noqa: PLC0414
    from discreet.estimation.refinement_cost import scale_for_rho as scale_for_rho  # noqa: PLC0414

HOME = {
    "discreet.estimation.constraint_set": (
        "Constraint",
        "at_least",
        "at_most",
        "decreasing",
        "fixed",
        "increasing",
        "linear",
        "nested",
        "same_total",
        "total",
    ),
    "discreet.estimation.linear_refinement": (
        "LinearRefinement",
        "Refined",
        "reconcile",
        "refine_linear",
    ),
    "discreet.estimation.refinement_cost": (
        "rho",
        "scale_for_rho",
    ),
}
WHERE = {name: module for module, names in HOME.items() for name in names}

__all__ = sorted(WHERE)  # noqa: PLE0605 (a list, made from the one table above)


def __getattr__(name: str) -> object:
    """Load a public name from where it lives."""
    if name not in WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
