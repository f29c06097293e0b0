"""The mechanisms: entropy, exact samplers, one mechanism per module with its proof note beside it. TRUSTED.

Names are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discreet.mechanisms.box_staircase import BoxStaircase as BoxStaircase
    from discreet.mechanisms.continuous_noise import Gaussian as Gaussian
    from discreet.mechanisms.continuous_noise import Laplace as Laplace
    from discreet.mechanisms.discrete_gaussian import DiscreteGaussian as DiscreteGaussian
    from discreet.mechanisms.discrete_laplace import DiscreteLaplace as DiscreteLaplace
    from discreet.mechanisms.discrete_laplace import LaplaceDegradation as LaplaceDegradation
    from discreet.mechanisms.distribution import Distribution as Distribution
    from discreet.mechanisms.entropy import SYSTEM as SYSTEM
    from discreet.mechanisms.entropy import Entropy as Entropy
    from discreet.mechanisms.entropy import KeyedEntropy as KeyedEntropy
    from discreet.mechanisms.entropy import SystemEntropy as SystemEntropy
    from discreet.mechanisms.exponential_mechanism import Exponential as Exponential
    from discreet.mechanisms.exponential_mechanism import exponential as exponential
    from discreet.mechanisms.individual_dp import IndividualOrderStatistic as IndividualOrderStatistic
    from discreet.mechanisms.individual_dp import IndividualVector as IndividualVector
    from discreet.mechanisms.individual_dp import TruncatedRangeCount as TruncatedRangeCount
    from discreet.mechanisms.noise import AddNoise as AddNoise
    from discreet.mechanisms.noise_order import satisfies_density as satisfies_density
    from discreet.mechanisms.noise_order import smaller as smaller
    from discreet.mechanisms.noise_order import staircase_from as staircase_from
    from discreet.mechanisms.order_statistic import SmoothOrderStatistic as SmoothOrderStatistic
    from discreet.mechanisms.order_statistic import local_sensitivity as local_sensitivity
    from discreet.mechanisms.order_statistic import smooth_sensitivity as smooth_sensitivity
    from discreet.mechanisms.permute_and_flip import PermuteAndFlip as PermuteAndFlip
    from discreet.mechanisms.polygon_staircase import PolygonStaircase as PolygonStaircase
    from discreet.mechanisms.quantile import Bracket as Bracket
    from discreet.mechanisms.quantile import Extreme as Extreme
    from discreet.mechanisms.quantile import Quantile as Quantile
    from discreet.mechanisms.quantile import Quantiles as Quantiles
    from discreet.mechanisms.refinement import Refinement as Refinement
    from discreet.mechanisms.refinement import refine as refine
    from discreet.mechanisms.sensitivity import count_sensitivity as count_sensitivity
    from discreet.mechanisms.sensitivity import distinct_sensitivity as distinct_sensitivity
    from discreet.mechanisms.sensitivity import global_sensitivity as global_sensitivity
    from discreet.mechanisms.sensitivity import histogram_sensitivity as histogram_sensitivity
    from discreet.mechanisms.sensitivity import histogram_sensitivity_squared as histogram_sensitivity_squared
    from discreet.mechanisms.sensitivity import mean_sensitivity as mean_sensitivity
    from discreet.mechanisms.sensitivity import order_sensitivity as order_sensitivity
    from discreet.mechanisms.sensitivity import rank_score_sensitivity as rank_score_sensitivity
    from discreet.mechanisms.sensitivity import sum_sensitivity as sum_sensitivity
    from discreet.mechanisms.sensitivity import variance_sensitivity as variance_sensitivity
    from discreet.mechanisms.staircase import Staircase as Staircase

HOME = {
    "discreet.mechanisms.box_staircase": ("BoxStaircase",),
    "discreet.mechanisms.continuous_noise": (
        "Gaussian",
        "Laplace",
    ),
    "discreet.mechanisms.discrete_gaussian": ("DiscreteGaussian",),
    "discreet.mechanisms.discrete_laplace": (
        "DiscreteLaplace",
        "LaplaceDegradation",
    ),
    "discreet.mechanisms.distribution": ("Distribution",),
    "discreet.mechanisms.entropy": (
        "Entropy",
        "KeyedEntropy",
        "SYSTEM",
        "SystemEntropy",
    ),
    "discreet.mechanisms.exponential_mechanism": (
        "Exponential",
        "exponential",
    ),
    "discreet.mechanisms.individual_dp": (
        "IndividualOrderStatistic",
        "IndividualVector",
        "TruncatedRangeCount",
    ),
    "discreet.mechanisms.noise": ("AddNoise",),
    "discreet.mechanisms.noise_order": (
        "satisfies_density",
        "smaller",
        "staircase_from",
    ),
    "discreet.mechanisms.order_statistic": (
        "SmoothOrderStatistic",
        "local_sensitivity",
        "smooth_sensitivity",
    ),
    "discreet.mechanisms.permute_and_flip": ("PermuteAndFlip",),
    "discreet.mechanisms.polygon_staircase": ("PolygonStaircase",),
    "discreet.mechanisms.quantile": (
        "Bracket",
        "Extreme",
        "Quantile",
        "Quantiles",
    ),
    "discreet.mechanisms.refinement": (
        "Refinement",
        "refine",
    ),
    "discreet.mechanisms.sensitivity": (
        "count_sensitivity",
        "distinct_sensitivity",
        "global_sensitivity",
        "histogram_sensitivity",
        "histogram_sensitivity_squared",
        "mean_sensitivity",
        "order_sensitivity",
        "rank_score_sensitivity",
        "sum_sensitivity",
        "variance_sensitivity",
    ),
    "discreet.mechanisms.staircase": ("Staircase",),
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
