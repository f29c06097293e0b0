"""DP synthetic files: exact totals on public grids, noise once, and everything else from what is noisy.

Names are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discreet.synthetic.column_methods import CategoryCounts as CategoryCounts
    from discreet.synthetic.column_methods import CumulativeCounts as CumulativeCounts
    from discreet.synthetic.column_methods import NameBlocks as NameBlocks
    from discreet.synthetic.column_methods import RankBlocks as RankBlocks
    from discreet.synthetic.columns import ColumnGrid as ColumnGrid
    from discreet.synthetic.columns import ColumnPlan as ColumnPlan
    from discreet.synthetic.columns import PrivacyBudget as PrivacyBudget
    from discreet.synthetic.marginals import MarginalsPlan as MarginalsPlan
    from discreet.synthetic.marginals import NoisyMarginals as NoisyMarginals
    from discreet.synthetic.records import RecordsPlan as RecordsPlan

HOME = {
    "discreet.synthetic.column_methods": (
        "CategoryCounts",
        "CumulativeCounts",
        "NameBlocks",
        "RankBlocks",
    ),
    "discreet.synthetic.columns": (
        "ColumnGrid",
        "ColumnPlan",
        "PrivacyBudget",
    ),
    "discreet.synthetic.marginals": (
        "MarginalsPlan",
        "NoisyMarginals",
    ),
    "discreet.synthetic.records": ("RecordsPlan",),
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
