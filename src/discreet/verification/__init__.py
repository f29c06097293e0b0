"""For your tests and ours: scripted entropy, noise tests with two jaws, neighbours, exact losses, replay.

from discreet.verification import ScriptedEntropy, assert_fits, all_neighbours, assert_private, worst_ratio
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discreet.verification.audit.audit import Audit as Audit
    from discreet.verification.audit.audit import audit_mechanism as audit_mechanism
    from discreet.verification.audit.audit import audit_worst as audit_worst
    from discreet.verification.replays.assertions import ScriptedEntropy as ScriptedEntropy
    from discreet.verification.replays.assertions import assert_fits as assert_fits
    from discreet.verification.replays.assertions import assert_private as assert_private
    from discreet.verification.replays.assertions import assert_private_release as assert_private_release
    from discreet.verification.replays.assertions import assert_private_session as assert_private_session
    from discreet.verification.replays.assertions import chi_square_excess as chi_square_excess
    from discreet.verification.replays.assertions import exact_delta as exact_delta
    from discreet.verification.replays.assertions import worst_ratio as worst_ratio
    from discreet.verification.replays.neighbors import all_neighbours as all_neighbours
    from discreet.verification.replays.neighbors import all_tables as all_tables
    from discreet.verification.replays.neighbors import generated_pairs as generated_pairs
    from discreet.verification.replays.neighbors import limit_units as limit_units
    from discreet.verification.replays.neighbors import neighbour_rows as neighbour_rows
    from discreet.verification.replays.neighbors import neighbour_tables as neighbour_tables
    from discreet.verification.replays.neighbors import snapshot as snapshot
    from discreet.verification.replays.observed_loss import MechanismReplay as MechanismReplay
    from discreet.verification.replays.observed_loss import Replay as Replay
    from discreet.verification.replays.replay import replay as replay
    from discreet.verification.replays.replay import replay_plan as replay_plan
    from discreet.verification.replays.replay import replay_release as replay_release
    from discreet.verification.replays.replay import replay_session as replay_session

HOME = {
    "discreet.verification.audit.audit": ("Audit", "audit_mechanism", "audit_worst"),
    "discreet.verification.replays.assertions": (
        "ScriptedEntropy",
        "assert_fits",
        "assert_private",
        "assert_private_release",
        "assert_private_session",
        "chi_square_excess",
        "exact_delta",
        "worst_ratio",
    ),
    "discreet.verification.replays.neighbors": (
        "all_neighbours",
        "all_tables",
        "generated_pairs",
        "neighbour_rows",
        "neighbour_tables",
        "limit_units",
        "snapshot",
    ),
    "discreet.verification.replays.observed_loss": (
        "MechanismReplay",
        "Replay",
    ),
    "discreet.verification.replays.replay": (
        "replay",
        "replay_plan",
        "replay_release",
        "replay_session",
    ),
}
WHERE = {name: module for module, names in HOME.items() for name in names}

__all__ = sorted(WHERE)  # noqa: PLE0605 (a list, made from the one table above)


def __getattr__(name: str) -> object:
    """Load a name from where it lives."""
    if name not in WHERE:
        raise AttributeError(f"module 'discreet.verification' has no attribute {name!r}")
    value = getattr(import_module(WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
