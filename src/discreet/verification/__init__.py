"""For your tests and ours: scripted entropy, noise tests with two jaws, neighbours, exact losses, replay.

from discreet.verification import ScriptedEntropy, assert_fits, all_neighbours, assert_private, worst_ratio
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discreet.verification.replay.assertions import ScriptedEntropy as ScriptedEntropy
    from discreet.verification.replay.assertions import assert_fits as assert_fits
    from discreet.verification.replay.assertions import assert_private as assert_private
    from discreet.verification.replay.assertions import assert_private_release as assert_private_release
    from discreet.verification.replay.assertions import assert_private_session as assert_private_session
    from discreet.verification.replay.assertions import chi_square_excess as chi_square_excess
    from discreet.verification.replay.assertions import exact_delta as exact_delta
    from discreet.verification.replay.assertions import worst_ratio as worst_ratio
    from discreet.verification.replay.neighbors import all_neighbours as all_neighbours
    from discreet.verification.replay.neighbors import all_tables as all_tables
    from discreet.verification.replay.neighbors import generated_pairs as generated_pairs
    from discreet.verification.replay.neighbors import limit_units as limit_units
    from discreet.verification.replay.neighbors import neighbour_rows as neighbour_rows
    from discreet.verification.replay.neighbors import neighbour_tables as neighbour_tables
    from discreet.verification.replay.neighbors import snapshot as snapshot
    from discreet.verification.replay.observed_loss import MechanismReplay as MechanismReplay
    from discreet.verification.replay.observed_loss import Replay as Replay
    from discreet.verification.replay.replay import replay as replay
    from discreet.verification.replay.replay import replay_plan as replay_plan
    from discreet.verification.replay.replay import replay_release as replay_release
    from discreet.verification.replay.replay import replay_session as replay_session

HOME = {
    "discreet.verification.replay.assertions": (
        "ScriptedEntropy",
        "assert_fits",
        "assert_private",
        "assert_private_release",
        "assert_private_session",
        "chi_square_excess",
        "exact_delta",
        "worst_ratio",
    ),
    "discreet.verification.replay.neighbors": (
        "all_neighbours",
        "all_tables",
        "generated_pairs",
        "neighbour_rows",
        "neighbour_tables",
        "limit_units",
        "snapshot",
    ),
    "discreet.verification.replay.observed_loss": (
        "MechanismReplay",
        "Replay",
    ),
    "discreet.verification.replay.replay": (
        "replay",
        "replay_plan",
        "replay_release",
        "replay_session",
    ),
}
WHERE = {name: module for module, names in HOME.items() for name in names}

__all__ = sorted(WHERE)  # noqa: PLE0605 (a list, made from the one table above)

# The package has the function's name: loaded first, and taken out, no later import puts it in the function's place.
import_module("discreet.verification.replay")
del globals()["replay"]


def __getattr__(name: str) -> object:
    """Load a name from where it lives."""
    if name not in WHERE:
        raise AttributeError(f"module 'discreet.verification' has no attribute {name!r}")
    value = getattr(import_module(WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
