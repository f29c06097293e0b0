"""For your tests and ours: scripted entropy, noise tests with two jaws, neighbours, exact losses, replay.

from discreet.testing import ScriptedEntropy, assert_fits, all_neighbours, assert_private, worst_ratio
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discreet.testing.draws import ScriptedEntropy as ScriptedEntropy
    from discreet.testing.draws import assert_fits as assert_fits
    from discreet.testing.draws import chi_square_excess as chi_square_excess
    from discreet.testing.generated import generated_pairs as generated_pairs
    from discreet.testing.generated import limit_units as limit_units
    from discreet.testing.generated import neighbour_rows as neighbour_rows
    from discreet.testing.losses import exact_delta as exact_delta
    from discreet.testing.losses import worst_ratio as worst_ratio
    from discreet.testing.neighbouring import snapshot as snapshot
    from discreet.testing.private import assert_private as assert_private
    from discreet.testing.private import assert_private_release as assert_private_release
    from discreet.testing.private import assert_private_session as assert_private_session
    from discreet.testing.questions import replay as replay
    from discreet.testing.questions import replay_plan as replay_plan
    from discreet.testing.questions import replay_session as replay_session
    from discreet.testing.recorded import MechanismReplay as MechanismReplay
    from discreet.testing.recorded import Replay as Replay
    from discreet.testing.releases import replay_release as replay_release
    from discreet.testing.tables import all_neighbours as all_neighbours
    from discreet.testing.tables import all_tables as all_tables
    from discreet.testing.tables import neighbour_tables as neighbour_tables

HOME = {
    "discreet.testing.draws": ("ScriptedEntropy", "assert_fits", "chi_square_excess"),
    "discreet.testing.generated": ("generated_pairs", "neighbour_rows", "of_fewer_units"),
    "discreet.testing.losses": ("exact_delta", "worst_ratio"),
    "discreet.testing.neighbouring": ("snapshot",),
    "discreet.testing.private": ("assert_private", "assert_private_release", "assert_private_session"),
    "discreet.testing.recorded": ("Recorded", "Replay"),
    "discreet.testing.releases": ("replay_release",),
    "discreet.testing.questions": ("replay", "replay_plan", "replay_session"),
    "discreet.testing.tables": ("all_neighbours", "all_tables", "neighbour_tables"),
}
WHERE = {name: module for module, names in HOME.items() for name in names}

__all__ = sorted(WHERE)  # noqa: PLE0605 (a list, made from the one table above)


def __getattr__(name: str) -> object:
    """Load a name from where it lives."""
    if name not in WHERE:
        raise AttributeError(f"module 'discreet.testing' has no attribute {name!r}")
    value = getattr(import_module(WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
