"""Which measurements can answer which aggregate. A new kind is a module of its own and its entry here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from discreet.measurements.additive import TOTAL_FUNCTIONS, propose_noises
from discreet.measurements.base import AggregateRequest, Factory, Measurement
from discreet.measurements.randomized_response import propose_randomized_response
from discreet.measurements.refined_total import propose_refinement
from discreet.measurements.selection import SELECTION_FUNCTIONS, propose_selection

FACTORIES: Mapping[Factory, frozenset[str]] = {
    propose_noises: TOTAL_FUNCTIONS,
    propose_refinement: TOTAL_FUNCTIONS,
    propose_selection: SELECTION_FUNCTIONS,
    propose_randomized_response: frozenset({"count"}),
}
"""Each factory with the functions that it may have measurements for, in the order in which they are weighed."""


def propose_measurements(request: AggregateRequest) -> list[Measurement]:
    """List the measurements of an aggregate, from public facts; with a mechanism asked for, all that could be meant."""
    function: str = request.aggregate.function
    proposals: list[Sequence[Measurement]] = [
        propose(request) for propose, functions in FACTORIES.items() if function in functions
    ]
    return [measurement for proposed in proposals for measurement in proposed]
