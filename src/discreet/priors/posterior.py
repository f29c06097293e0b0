"""What is known after an answer: a law over values, for someone who held a prior. Made from public facts alone.

Floats, because it describes and decides nothing: what carries privacy was drawn before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import NoneType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.formatting import format_estimate
from discreet.json_fields import JsonSerializable
from discreet.numeric import as_number_between
from discreet.priors.prior import Grid
from discreet.untrusted import CheckedValue, has_type

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
NOT_IN_SUMMARY = "a reply tells the mean, the median and the 95 % interval of a posterior, and no more of its law"
ONLY_95 = "a reply tells intervals at 95 % and at no other confidence; leave it at 0.95"


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(CheckedValue):
    """The distribution of the exact value after an answer: probabilities of cells of numbers, or of names.

    `Answer.posterior` returns it.

    Args:
        mass: The probability of each cell.
        edges: The rising edges of the cells, one more than cells, for numbers.
        names: The categories, for names.
        points: The values that the cells stand for, where these are not their middles.
        grid: The grid of the values, if it is known: a cell then holds the values at whole steps from half a step after
            its lower edge.
        ends: The least and the greatest possible value: a cell then also holds what lies between two of its values,
            between the last and the first of the next cell, and from the outermost ones to the ends.

    Raises:
        InvalidInput: It is neither over numbers nor over names, or the probabilities do not add up to 1.

    Example:
        >>> import numpy as np
        >>> from discreet import Posterior
        >>> posterior = Posterior(np.array([0.25, 0.5, 0.25]), edges=np.array([0.0, 10.0, 20.0, 30.0]))
        >>> posterior.mean()
        15.0
    """

    mass: Array
    edges: Array | None = None
    names: tuple[str, ...] | None = None
    points: Array | None = None
    grid: Grid | None = None
    ends: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if (self.edges is None) == (self.names is None):
            raise InvalidInput("a posterior is over numbers or over names")
        if not has_type(self.mass, np.ndarray) or not has_type(self.names, (tuple, NoneType)):
            raise InvalidInput("a posterior has an array of probabilities, and its names are a tuple")
        cells = len(self.names) if self.names is not None else len(self.edges) - 1 if self.edges is not None else 0
        if cells < 1 or self.mass.shape != (cells,) or not abs(float(self.mass.sum()) - 1) < 1e-9:
            raise InvalidInput("a posterior has one probability for each of its cells, and they add up to 1")

    @property
    def numeric(self) -> bool:
        """Whether it is over numbers."""
        return self.edges is not None

    @cached_property
    def step(self) -> float | None:
        """How far apart values are, where that is known."""
        return None if self.grid is None else float(self.grid.step)

    @cached_property
    def centers(self) -> Array:
        """The value that every cell stands for."""
        edges = self._require_edges()
        return (edges[1:] + edges[:-1]) / 2 if self.points is None else self.points

    def mean(self) -> float:
        """The mean: the estimate with the least expected square error."""
        return float(self.mass @ self.centers)

    def variance(self) -> float:
        """How uncertain it leaves one; with the spread of even values within a cell, where their step is known."""
        within_variance = 0.0
        if self.step is not None and self.points is None:
            squares = np.diff(self._require_edges()) ** 2 - self.step**2
            within_variance = float(self.mass @ np.maximum(squares, 0.0)) / 12
        return float(self.mass @ (self.centers - self.mean()) ** 2) + within_variance

    def median(self) -> float:
        """As likely below as above."""
        return self.quantile(0.5)

    def quantile(self, order: float) -> float:
        """The value below which a share of the probability lies; inside a cell of many values, as far along it."""
        cell, cell_share = self._find_cell(order)
        edges, widths = self._require_edges(), np.diff(self._require_edges())
        value_width = float(widths.min()) if self.step is None else self.step
        if self.points is not None or self.mass[cell] <= 0 or widths[cell] < 1.5 * value_width:
            return self._snap_to_grid(float(self.centers[cell]))
        if self.step is None:
            return float(edges[cell] + widths[cell] * cell_share)
        count = round(float(widths[cell]) / self.step)
        place = min(max(math.ceil(cell_share * count), 1), count)
        return self._snap_to_grid(float(edges[cell]) + self.step * (place - 0.5))

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """The central interval that holds it with at least that probability.

        Where the step of the values is known it ends at the first value of one cell and the last of another, so that it
        holds however the values within a cell are distributed.
        """
        miss = (1 - float(as_number_between(confidence, 0, 1, "confidence"))) / 2
        if self.step is None or self.points is not None:
            return self.quantile(miss), self.quantile(1 - miss)
        (first, _), (last, _) = self._find_cell(miss), self._find_cell(1 - miss)
        return self._find_end(first, first - 1), self._find_end(last, last + 1)

    def _find_end(self, cell: int, neighbor: int) -> float:
        """The first or the last that a cell holds, on the side of the cell beside it."""
        edges, half, is_upper = self._require_edges(), (self.step or 0.0) / 2, neighbor > cell
        edge = float(edges[cell + is_upper])
        if self.ends is not None and not 0 <= neighbor < len(self.mass):
            return self.ends[is_upper]
        if self.ends is not None and self.mass[neighbor] > 0:
            return edge
        return self._snap_to_grid(edge - half if is_upper else edge + half)

    def _snap_to_grid(self, number: float) -> float:
        """The value that a number is, but for what floats make of it: to the last digit, as the truth is read."""
        if self.grid is None:
            return number
        return float(self.grid.value(round((Fraction(number) - self.grid.origin) / self.grid.step)))

    def probability(self, name: str) -> float:
        """The probability of a category."""
        if self.names is None or name not in self.names:
            raise InvalidInput(f"this posterior has no category {str(name)[:40]!r}")
        return float(self.mass[self.names.index(name)])

    def probabilities(self) -> Mapping[str, float]:
        """Every category with its probability."""
        return dict(zip(self.names or (), map(float, self.mass), strict=True))

    def to_json(self) -> dict[str, object]:
        """What a program needs of it."""
        if self.names is not None:
            return {"probabilities": dict(self.probabilities())}
        return PosteriorSummary(self.mean(), self.median(), self.interval(0.95)).to_json()

    def _find_cell(self, order: float) -> tuple[int, float]:
        """The cell where the probability from the lowest value on reaches a share, and how far along it."""
        sums = np.cumsum(self.mass)
        target_mass = order * float(sums[-1]) * (1 - 1e-12)
        cell = min(int(np.searchsorted(sums, target_mass, side="left")), len(self.mass) - 1)
        cell_mass, excess = float(self.mass[cell]), float(sums[cell]) - target_mass
        return cell, min(max((cell_mass - excess) / cell_mass, 0.0), 1.0) if cell_mass > 0 else 0.0

    def _require_edges(self) -> Array:
        if self.edges is None:
            raise InvalidInput("the mean, median and interval are of numbers; this posterior is over categories")
        return self.edges

    def __repr__(self) -> str:
        if self.names is not None:
            likeliest = self.names[int(np.argmax(self.mass))]
            return f"Posterior({len(self.names)} categories, {likeliest} the likeliest)"
        return _format_posterior(self)


@dataclass(frozen=True, repr=False)
class PosteriorSummary(JsonSerializable):
    """A posterior over numbers as a reply has it; all that needs more of its distribution is refused."""

    center: float
    middle: float
    interval_95: tuple[float, float]
    _json_fields = "mean=center median=middle interval_95"
    names: ClassVar[None] = None
    numeric: ClassVar[bool] = True

    def mean(self) -> float:
        """The mean."""
        return self.center

    def median(self) -> float:
        """The median."""
        return self.middle

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """The central interval that holds it with a probability of at least 95 %; others are refused."""
        require_95_confidence(float(as_number_between(confidence, 0, 1, "confidence")))
        return self.interval_95

    def quantile(self, order: float) -> float:
        """The median or an end of the interval; others are refused."""
        quantiles = {0.025: self.interval_95[0], 0.5: self.middle, 0.975: self.interval_95[1]}
        if order not in quantiles:
            raise InvalidInput(NOT_IN_SUMMARY)
        return quantiles[order]

    def variance(self) -> float:
        """Refused: a reply does not have it."""
        raise InvalidInput(NOT_IN_SUMMARY)

    @property
    def mass(self) -> Array:
        """Refused: a reply does not have it."""
        raise InvalidInput(NOT_IN_SUMMARY)

    def __repr__(self) -> str:
        return _format_posterior(self)


def _format_posterior(posterior: Posterior | PosteriorSummary) -> str:
    mean, low, high = format_estimate(posterior.mean(), *posterior.interval(0.95))
    return f"Posterior(mean {mean}, 95 % between {low} and {high})"


def posterior_from_json(document: Mapping[str, Any]) -> Posterior | PosteriorSummary:
    """Read what `to_json` wrote: over names it has every probability, over numbers a summary."""
    if "probabilities" in document:
        names, probabilities = zip(*document["probabilities"].items(), strict=True)
        return Posterior(np.array(probabilities, dtype=np.float64), names=names)
    return PosteriorSummary.from_json(document)


def require_95_confidence(confidence: float) -> None:
    """Refuse every confidence but 0.95, the only one that replies have."""
    if confidence != 0.95:
        raise InvalidInput(ONLY_95)


def distribution_from_runs(
    lows: Integers, spans: Integers, mass: Array, grid: Grid, ends: tuple[float, float] | None = None
) -> Posterior:
    """A law over runs of places on a grid, each from its low over its span; what lies between two runs is impossible.

    Only where every run is a single place, and there are no ends that values lie anywhere between, are these places all
    there is: a run of several is no atom.
    """
    origin, step = float(grid.origin), float(grid.step)
    if (spans == 1).all() and ends is None:
        places = lows.astype(np.float64)
        middles = (places[1:] + places[:-1]) / 2
        edges = np.concatenate(([places[0] - 0.5], middles, [places[-1] + 0.5]))
        return Posterior(mass, origin + step * edges, None, origin + step * places, grid)
    edges = np.unique(np.concatenate((lows, lows + spans)))
    cells = np.zeros(len(edges) - 1)
    cells[np.searchsorted(edges, lows)] = mass
    return Posterior(cells, origin + step * (edges - 0.5), None, None, grid, ends)
