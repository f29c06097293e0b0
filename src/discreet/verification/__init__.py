"""Tools for tests: scripted entropy, noise tests with two jaws, neighboring tables, exact losses, replays, audits.

from discreet.verification import ScriptedEntropy, assert_fits, all_neighbors, assert_private, worst_ratio
"""

from discreet._lazy import attach

__all__, __getattr__, __dir__ = attach(__name__)
