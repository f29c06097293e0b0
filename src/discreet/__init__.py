"""discreet: learn from records about people without learning about any one person.

Import from here and nowhere deeper. Names are loaded when first used, so `import discreet` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from discreet._version import __version__ as __version__

if TYPE_CHECKING:
    from discreet.answers.answer import Answer as Answer
    from discreet.client import Client as Client
    from discreet.custodian import Custodian as Custodian
    from discreet.errors import BudgetExceeded as BudgetExceeded
    from discreet.errors import ClaimFailed as ClaimFailed
    from discreet.errors import DiscreetError as DiscreetError
    from discreet.errors import Internal as Internal
    from discreet.errors import InvalidInput as InvalidInput
    from discreet.errors import Unavailable as Unavailable
    from discreet.errors import Unsupported as Unsupported
    from discreet.estimation.constraint_set import Constraint as Constraint
    from discreet.estimation.constraint_set import at_least as at_least
    from discreet.estimation.constraint_set import at_most as at_most
    from discreet.estimation.constraint_set import decreasing as decreasing
    from discreet.estimation.constraint_set import fixed as fixed
    from discreet.estimation.constraint_set import increasing as increasing
    from discreet.estimation.constraint_set import linear as linear
    from discreet.estimation.constraint_set import nested as nested
    from discreet.estimation.constraint_set import same_total as same_total
    from discreet.estimation.constraint_set import total as total
    from discreet.estimation.linear_refinement import LinearRefinement as LinearRefinement
    from discreet.estimation.linear_refinement import Refined as Refined
    from discreet.estimation.linear_refinement import reconcile as reconcile
    from discreet.estimation.linear_refinement import refine_linear as refine_linear
    from discreet.estimation.refinement_cost import rho as rho
    from discreet.estimation.refinement_cost import scale_for_rho as scale_for_rho
    from discreet.ledger import Ledger as Ledger
    from discreet.mechanisms.box_staircase import BoxStaircase as BoxStaircase
    from discreet.mechanisms.continuous_noise import Gaussian as Gaussian
    from discreet.mechanisms.continuous_noise import Laplace as Laplace
    from discreet.mechanisms.discrete_gaussian import DiscreteGaussian as DiscreteGaussian
    from discreet.mechanisms.discrete_laplace import DiscreteLaplace as DiscreteLaplace
    from discreet.mechanisms.distribution import Distribution as Distribution
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
    from discreet.mechanisms.sensitivity import global_sensitivity as global_sensitivity
    from discreet.mechanisms.staircase import Staircase as Staircase
    from discreet.planner.options import Accuracy as Accuracy
    from discreet.priors.distance import Distance as Distance
    from discreet.priors.posterior import Posterior as Posterior
    from discreet.priors.prior import Prior as Prior
    from discreet.priors.taxonomy import Taxonomy as Taxonomy
    from discreet.privacy.guarantee import Guarantee as Guarantee
    from discreet.release.manifest import Release as Release
    from discreet.schema import Schema as Schema
    from discreet.schema import load_schema as load_schema
    from discreet.sdc.compare import compare_release as compare_release
    from discreet.sdc.intruder import reidentification as reidentification
    from discreet.sdc.methods.anatomy import anatomy as anatomy
    from discreet.sdc.methods.generalize import generalise as generalise
    from discreet.sdc.methods.microaggregate import microaggregate as microaggregate
    from discreet.sdc.methods.partition import Closeness as Closeness
    from discreet.sdc.methods.partition import Distinct as Distinct
    from discreet.sdc.methods.partition import Spread as Spread
    from discreet.sdc.methods.swap import ir_swap as ir_swap
    from discreet.sdc.methods.swap import mdav_id as mdav_id
    from discreet.sdc.methods.swap import mdav_swap as mdav_swap
    from discreet.sdc.methods.t_closeness import t_close as t_close
    from discreet.sdc.verify.anonymity import measure_anonymity as measure_anonymity
    from discreet.sdc.verify.claims import check_claim as check_claim
    from discreet.verification.audit import Audit as Audit
    from discreet.verification.audit import audit_mechanism as audit_mechanism
    from discreet.verification.audit import audit_worst as audit_worst

HOME = {
    "discreet.answers.answer": ("Answer",),
    "discreet.client": ("Client",),
    "discreet.custodian": ("Custodian",),
    "discreet.errors": (
        "BudgetExceeded",
        "ClaimFailed",
        "DiscreetError",
        "Internal",
        "InvalidInput",
        "Unavailable",
        "Unsupported",
    ),
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
    "discreet.ledger": ("Ledger",),
    "discreet.mechanisms.box_staircase": ("BoxStaircase",),
    "discreet.mechanisms.continuous_noise": (
        "Gaussian",
        "Laplace",
    ),
    "discreet.mechanisms.discrete_gaussian": ("DiscreteGaussian",),
    "discreet.mechanisms.discrete_laplace": ("DiscreteLaplace",),
    "discreet.mechanisms.distribution": ("Distribution",),
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
    "discreet.mechanisms.sensitivity": ("global_sensitivity",),
    "discreet.mechanisms.order_statistic": (
        "SmoothOrderStatistic",
        "local_sensitivity",
        "smooth_sensitivity",
    ),
    "discreet.mechanisms.staircase": ("Staircase",),
    "discreet.planner.options": ("Accuracy",),
    "discreet.priors.distance": ("Distance",),
    "discreet.priors.posterior": ("Posterior",),
    "discreet.priors.prior": ("Prior",),
    "discreet.priors.taxonomy": ("Taxonomy",),
    "discreet.privacy.guarantee": ("Guarantee",),
    "discreet.release.manifest": ("Release",),
    "discreet.schema": (
        "Schema",
        "load_schema",
    ),
    "discreet.sdc.compare": ("compare_release",),
    "discreet.sdc.intruder": ("reidentification",),
    "discreet.sdc.methods.anatomy": ("anatomy",),
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
    "discreet.sdc.verify.anonymity": ("measure_anonymity",),
    "discreet.sdc.verify.claims": ("check_claim",),
    "discreet.verification.audit": (
        "Audit",
        "audit_mechanism",
        "audit_worst",
    ),
}
WHERE = {name: module for module, names in HOME.items() for name in names}

__all__ = sorted(WHERE)  # noqa: PLE0605 (a list, made from the one table above)


def __getattr__(name: str) -> object:
    """Load a public name from where it lives."""
    if name not in WHERE:
        raise AttributeError(f"module 'discreet' has no attribute {name!r}")
    value = getattr(import_module(WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
