"""discreet: learn from records about people without learning about any one person.

Import from here and nowhere deeper. Names are loaded when first used, so `import discreet` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discreet.accuracy import Accuracy as Accuracy
    from discreet.answer import Answer as Answer
    from discreet.assess.anonymity import measure_anonymity as measure_anonymity
    from discreet.assess.claims import check_claim as check_claim
    from discreet.assess.compare import compare_release as compare_release
    from discreet.assess.intruder import reidentification as reidentification
    from discreet.audit import Audit as Audit
    from discreet.audit import audit_mechanism as audit_mechanism
    from discreet.audit import audit_worst as audit_worst
    from discreet.client import Client as Client
    from discreet.custodian import Custodian as Custodian
    from discreet.distance import Distance as Distance
    from discreet.errors import BudgetExceeded as BudgetExceeded
    from discreet.errors import ClaimFailed as ClaimFailed
    from discreet.errors import DiscreetError as DiscreetError
    from discreet.errors import Internal as Internal
    from discreet.errors import InvalidInput as InvalidInput
    from discreet.errors import Unavailable as Unavailable
    from discreet.errors import Unsupported as Unsupported
    from discreet.guarantee import Guarantee as Guarantee
    from discreet.inference.constraints import Constraint as Constraint
    from discreet.inference.constraints import at_least as at_least
    from discreet.inference.constraints import at_most as at_most
    from discreet.inference.constraints import decreasing as decreasing
    from discreet.inference.constraints import fixed as fixed
    from discreet.inference.constraints import increasing as increasing
    from discreet.inference.constraints import linear as linear
    from discreet.inference.constraints import nested as nested
    from discreet.inference.constraints import same_total as same_total
    from discreet.inference.constraints import total as total
    from discreet.inference.linear import LinearRefinement as LinearRefinement
    from discreet.inference.linear import refine_linear as refine_linear
    from discreet.inference.reconcile import reconcile as reconcile
    from discreet.inference.refined import Refined as Refined
    from discreet.inference.rho import rho as rho
    from discreet.inference.rho import scale_for_rho as scale_for_rho
    from discreet.kernel.box_staircase import BoxStaircase as BoxStaircase
    from discreet.kernel.bracket import Bracket as Bracket
    from discreet.kernel.discrete_gaussian import DiscreteGaussian as DiscreteGaussian
    from discreet.kernel.discrete_laplace import DiscreteLaplace as DiscreteLaplace
    from discreet.kernel.distribution import Distribution as Distribution
    from discreet.kernel.exponential import Exponential as Exponential
    from discreet.kernel.exponential import exponential as exponential
    from discreet.kernel.extreme import Extreme as Extreme
    from discreet.kernel.gaussian import Gaussian as Gaussian
    from discreet.kernel.individual import IndividualOrderStatistic as IndividualOrderStatistic
    from discreet.kernel.individual import IndividualVector as IndividualVector
    from discreet.kernel.individual import TruncatedRangeCount as TruncatedRangeCount
    from discreet.kernel.laplace import Laplace as Laplace
    from discreet.kernel.noise import AddNoise as AddNoise
    from discreet.kernel.order import satisfies_density as satisfies_density
    from discreet.kernel.order import smaller as smaller
    from discreet.kernel.order import staircase_from as staircase_from
    from discreet.kernel.order_statistic import local_sensitivity as local_sensitivity
    from discreet.kernel.order_statistic import smooth_sensitivity as smooth_sensitivity
    from discreet.kernel.permute_and_flip import PermuteAndFlip as PermuteAndFlip
    from discreet.kernel.polygon_staircase import PolygonStaircase as PolygonStaircase
    from discreet.kernel.quantile import Quantile as Quantile
    from discreet.kernel.quantile import Quantiles as Quantiles
    from discreet.kernel.refinement import Refinement as Refinement
    from discreet.kernel.refinement import refine as refine
    from discreet.kernel.sensitivity import global_sensitivity as global_sensitivity
    from discreet.kernel.smooth import SmoothOrderStatistic as SmoothOrderStatistic
    from discreet.kernel.staircase import Staircase as Staircase
    from discreet.ledger import Ledger as Ledger
    from discreet.microdata.anatomy import anatomy as anatomy
    from discreet.microdata.diversity import Closeness as Closeness
    from discreet.microdata.diversity import Distinct as Distinct
    from discreet.microdata.diversity import Spread as Spread
    from discreet.microdata.generalise import generalise as generalise
    from discreet.microdata.mdav_id import mdav_id as mdav_id
    from discreet.microdata.microaggregate import microaggregate as microaggregate
    from discreet.microdata.swapping import ir_swap as ir_swap
    from discreet.microdata.swapping import mdav_swap as mdav_swap
    from discreet.microdata.t_close import t_close as t_close
    from discreet.posterior import Posterior as Posterior
    from discreet.prior import Prior as Prior
    from discreet.release import Release as Release
    from discreet.schema import Schema as Schema
    from discreet.schema import load_schema as load_schema
    from discreet.taxonomy import Taxonomy as Taxonomy

HOME = {
    "discreet.accuracy": ("Accuracy",),
    "discreet.answer": ("Answer",),
    "discreet.audit": ("Audit", "audit_mechanism", "audit_worst"),
    "discreet.client": ("Client",),
    "discreet.custodian": ("Custodian",),
    "discreet.distance": ("Distance",),
    "discreet.errors": (
        "BudgetExceeded",
        "ClaimFailed",
        "DiscreetError",
        "Internal",
        "InvalidInput",
        "Unavailable",
        "Unsupported",
    ),
    "discreet.guarantee": ("Guarantee",),
    "discreet.inference.constraints": (
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
    "discreet.inference.linear": ("LinearRefinement", "refine_linear"),
    "discreet.inference.reconcile": ("reconcile",),
    "discreet.inference.refined": ("Refined",),
    "discreet.inference.rho": ("rho", "scale_for_rho"),
    "discreet.kernel.box_staircase": ("BoxStaircase",),
    "discreet.kernel.bracket": ("Bracket",),
    "discreet.kernel.discrete_gaussian": ("DiscreteGaussian",),
    "discreet.kernel.discrete_laplace": ("DiscreteLaplace",),
    "discreet.kernel.distribution": ("Distribution",),
    "discreet.kernel.exponential": ("Exponential", "exponential"),
    "discreet.kernel.extreme": ("Extreme",),
    "discreet.kernel.gaussian": ("Gaussian",),
    "discreet.kernel.individual": ("IndividualOrderStatistic", "IndividualVector", "TruncatedRangeCount"),
    "discreet.kernel.laplace": ("Laplace",),
    "discreet.kernel.noise": ("AddNoise",),
    "discreet.kernel.permute_and_flip": ("PermuteAndFlip",),
    "discreet.kernel.polygon_staircase": ("PolygonStaircase",),
    "discreet.kernel.quantile": ("Quantile", "Quantiles"),
    "discreet.kernel.refinement": ("Refinement", "refine"),
    "discreet.kernel.order": ("satisfies_density", "smaller", "staircase_from"),
    "discreet.kernel.order_statistic": ("local_sensitivity", "smooth_sensitivity"),
    "discreet.kernel.sensitivity": ("global_sensitivity",),
    "discreet.kernel.smooth": ("SmoothOrderStatistic",),
    "discreet.kernel.staircase": ("Staircase",),
    "discreet.ledger": ("Ledger",),
    "discreet.posterior": ("Posterior",),
    "discreet.prior": ("Prior",),
    "discreet.schema": ("Schema", "load_schema"),
    "discreet.taxonomy": ("Taxonomy",),
    "discreet.assess.anonymity": ("measure_anonymity",),
    "discreet.assess.claims": ("check_claim",),
    "discreet.assess.compare": ("compare_release",),
    "discreet.assess.intruder": ("reidentification",),
    "discreet.microdata.anatomy": ("anatomy",),
    "discreet.microdata.diversity": (
        "Closeness",
        "Distinct",
        "Spread",
    ),
    "discreet.microdata.generalise": ("generalise",),
    "discreet.microdata.mdav_id": ("mdav_id",),
    "discreet.microdata.microaggregate": ("microaggregate",),
    "discreet.microdata.swapping": (
        "ir_swap",
        "mdav_swap",
    ),
    "discreet.microdata.t_close": ("t_close",),
    "discreet.release": ("Release",),
}
__version__ = "0.1.0"
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
