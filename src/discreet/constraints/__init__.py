"""Constraints that answers must satisfy: an analyst states them, `reconcile` or `Custodian.answer` enforces them.

    from discreet.constraints import at_least, total

A constraint is structural if it is true of every table that the schema allows. A fact about the present data costs
privacy, which `rho` computes.
"""

from discreet._lazy import attach

__all__, __getattr__, __dir__ = attach(__name__)
