"""What is measured of a release beside its original, all in one value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from discreet.posterior import Array

BeforeAfter = tuple[float, float]
"""Before and after."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Utility and risk; None where it cannot be measured, as what needs the two files' rows side by side."""

    rows: int
    numeric: tuple[str, ...]
    """The columns that correlations, means, variances and quantiles are of."""
    sse: float | None
    sse_of: Mapping[str, float]
    il1s: float | None
    """The mean change of numbers over sqrt(2) standard deviations; a number in one file only is one deviation off."""
    means: Mapping[str, BeforeAfter]
    variances: Mapping[str, BeforeAfter]
    quantiles: Mapping[str, tuple[tuple[float, float, float], ...]]
    """Of each numeric column: the level, before, after."""
    correlations: tuple[Array, Array]
    correlation_change: float | None
    """The mean of |after - before| over the pairs of numeric columns; `correlation_change_sd` is its deviation."""
    correlation_change_sd: float | None
    association_change: float | None
    """The same with every categorical column: the mean change of correlation ratios and of Cramer's V."""
    marginals: Mapping[str, float]
    """Between 0 and 1: the greatest difference of the distribution functions, or half the sum for nominal columns."""
    propensity: float
    """How well a model tells the two files apart: 0 not at all, 1 wholly."""
    linkage: float | None
    """The share of original records, in percent, that the nearest released record leads back to; ties are shared."""
    linkage_by_chance: float
    disclosure: Mapping[str, float]
    """For each confidential column: how likely an intruder who knows all quasi-identifiers comes near its value."""
    disclosure_by_chance: Mapping[str, float]
    disclosure_excess: Mapping[str, float]
    """Of what chance leaves open, the share that he learns, (disclosure - chance) / (1 - chance): of everybody, or of
    those who hold one value, whichever is most."""
    unique: BeforeAfter
    """The share of rows whose quasi-identifiers nobody else has."""
    knows: Mapping[str, tuple[tuple[int, float], ...]]
    """For each confidential column: j, and the chance that one who knows j others of a group has for the last value."""
    intersection: tuple[tuple[str, int, float], ...]
    """For each earlier release: its name, the least number of rows left in common, the share left with under k."""
    k: int | None = None
    unmeasured: tuple[str, ...] = ()
    """Confidential columns of which nobody can tell what an intruder comes near."""
    changed: tuple[str, ...] = ()
    """Columns in both files whose values cannot be compared one by one, as numbers that became intervals."""
    gone: tuple[str, ...] = ()
    """Columns in both files that varied, and have one value in every released row."""
    apart: tuple[str, ...] = ()
    """Columns that are not on the released rows, as those of Anatomy's other table."""
    near: tuple[str, ...] = ()
    """Confidential numbers: a value near theirs counts as theirs, where of other columns only the same one does."""
    bounded: str | None = None
    """Where the risk is bounded by how the file was made, and so not measured: by what, in a sentence."""

    @property
    def risk(self) -> str:
        """One plain sentence."""
        from discreet.assess.verdict import format_risk

        return self.bounded or format_risk(self)

    @property
    def utility(self) -> str:
        """One plain sentence."""
        from discreet.assess.verdict import format_utility

        return format_utility(self)

    @property
    def summary(self) -> dict[str, str]:
        """The chief figures in words."""
        from discreet.assess.verdict import format_comparison

        return format_comparison(self)

    def to_json(self) -> dict[str, object]:
        """Machine-readable; null for what is not known."""
        measured = {
            "rows": self.rows,
            "numeric": self.numeric,
            "sse": self.sse,
            "sse_of": self.sse_of,
            "il1s": self.il1s,
            "means": self.means,
            "variances": self.variances,
            "quantiles": self.quantiles,
            "correlations": self.correlations,
            "correlation_change": self.correlation_change,
            "correlation_change_sd": self.correlation_change_sd,
            "association_change": self.association_change,
            "marginals": self.marginals,
            "propensity": self.propensity,
            "linkage": self.linkage,
            "linkage_by_chance": self.linkage_by_chance,
            "disclosure": self.disclosure,
            "disclosure_by_chance": self.disclosure_by_chance,
            "disclosure_excess": self.disclosure_excess,
            "unique": self.unique,
            "knows": self.knows,
            "intersection": self.intersection,
            "k": self.k,
            "unmeasured": self.unmeasured,
            "changed": self.changed,
            "gone": self.gone,
            "apart": self.apart,
            "near": self.near,
            "bounded": self.bounded,
        }
        document = {name: _to_json_value(value) for name, value in measured.items()}
        return {**document, "verdict": {"risk": self.risk, "utility": self.utility}}


def _to_json_value(value: object) -> object:
    """As JSON holds it."""
    if isinstance(value, Mapping):
        return {str(name): _to_json_value(entry) for name, entry in value.items()}
    if isinstance(value, np.ndarray):
        return _to_json_value(value.tolist())
    if isinstance(value, list | tuple):
        return [_to_json_value(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
