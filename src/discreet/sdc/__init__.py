"""Statistical disclosure control: methods that protect a file, and measures of what a file is worth and gives away.

Names are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discreet.priors.distance import boundary as boundary
    from discreet.priors.distance import diameter as diameter
    from discreet.priors.distance import marginality as marginality
    from discreet.sdc.compare import compare_release as compare_release
    from discreet.sdc.comparison import score as score
    from discreet.sdc.intruder import probabilistic_k as probabilistic_k
    from discreet.sdc.intruder import reidentification as reidentification
    from discreet.sdc.intruder import swap_chances as swap_chances
    from discreet.sdc.methods.anatomy import anatomy as anatomy
    from discreet.sdc.methods.bucket_feasibility import groups_apart as groups_apart
    from discreet.sdc.methods.generalize import generalise as generalise
    from discreet.sdc.methods.microaggregate import microaggregate as microaggregate
    from discreet.sdc.methods.partition import Closeness as Closeness
    from discreet.sdc.methods.partition import Distinct as Distinct
    from discreet.sdc.methods.partition import Spread as Spread
    from discreet.sdc.methods.swap import ir_swap as ir_swap
    from discreet.sdc.methods.swap import mdav_id as mdav_id
    from discreet.sdc.methods.swap import mdav_swap as mdav_swap
    from discreet.sdc.methods.t_closeness import t_close as t_close
    from discreet.sdc.verify.anonymity import counterexample as counterexample
    from discreet.sdc.verify.anonymity import measure_anonymity as measure_anonymity
    from discreet.sdc.verify.claims import check_claim as check_claim

HOME = {
    "discreet.priors.distance": (
        "boundary",
        "diameter",
        "marginality",
    ),
    "discreet.sdc.compare": ("compare_release",),
    "discreet.sdc.comparison": ("score",),
    "discreet.sdc.intruder": (
        "probabilistic_k",
        "reidentification",
        "swap_chances",
    ),
    "discreet.sdc.methods.anatomy": ("anatomy",),
    "discreet.sdc.methods.bucket_feasibility": ("groups_apart",),
    "discreet.sdc.methods.generalize": ("generalise",),
    "discreet.sdc.methods.microaggregate": ("microaggregate",),
    "discreet.sdc.methods.partition": (
        "Closeness",
        "Distinct",
        "Spread",
    ),
    "discreet.sdc.methods.swap": (
        "ir_swap",
        "mdav_id",
        "mdav_swap",
    ),
    "discreet.sdc.methods.t_closeness": ("t_close",),
    "discreet.sdc.verify.anonymity": (
        "counterexample",
        "measure_anonymity",
    ),
    "discreet.sdc.verify.claims": ("check_claim",),
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
