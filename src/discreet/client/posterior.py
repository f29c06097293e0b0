"""A posterior over numbers as far as a reply tells it: mean, median, 95 % interval. The law stays with the service."""

from __future__ import annotations

from discreet.errors import InvalidInput
from discreet.exact import as_number_between
from discreet.posterior import Array, Posterior

NOT_IN_REPLY = "a reply tells the mean, the median and the 95 % interval of a posterior, and no more of its law"
ONLY_95 = "a reply tells intervals at 95 % and at no other confidence; leave it at 0.95"


class SummaryPosterior(Posterior):
    """What is known after an answer, summed up; what would need the law itself is refused."""

    def __init__(self, mean: float, median: float, interval: tuple[float, float]) -> None:
        self._mean, self._median, self._interval = mean, median, interval

    @property
    def mass(self) -> Array:
        """Not told."""
        raise InvalidInput(NOT_IN_REPLY)

    @property
    def numeric(self) -> bool:
        """It is: of names a reply tells every probability."""
        return True

    def mean(self) -> float:
        """The mean."""
        return self._mean

    def median(self) -> float:
        """As likely below as above."""
        return self._median

    def variance(self) -> float:
        """Not told."""
        raise InvalidInput(NOT_IN_REPLY)

    def quantile(self, order: float) -> float:
        """The median and both ends of the interval are told; no others."""
        quantiles = {0.025: self._interval[0], 0.5: self._median, 0.975: self._interval[1]}
        if order not in quantiles:
            raise InvalidInput(NOT_IN_REPLY)
        return quantiles[order]

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """The central interval that holds it with a probability of at least 95 %."""
        require_95_confidence(float(as_number_between(confidence, 0, 1, "confidence")))
        return self._interval

    def _line(self) -> Array:
        raise InvalidInput(NOT_IN_REPLY)


def require_95_confidence(confidence: float) -> None:
    """Refuse every other confidence than the one that is told."""
    if confidence != 0.95:
        raise InvalidInput(ONLY_95)
