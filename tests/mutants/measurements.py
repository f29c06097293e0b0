"""Faults of ways to measure a question that stand by themselves: a module with its registry entry.

Those of the noises, choices and bounds that the planner weighs against each other are in planner.py.
"""

from __future__ import annotations

from .fault import Fault

FAULTS = (
    Fault(
        "randomized-response-flips-too-rarely",
        "A unit's truth is flipped with the chance that belongs to twice the epsilon.",
        "A yes or no costs twice the epsilon that is charged.",
        "measurements/randomized_response.py",
        "flip_coins(build_logistic_chance(self.epsilon), ",
        "flip_coins(build_logistic_chance(2 * self.epsilon), ",
        ("unit/measurements/test_randomized_response.py::test_draws_have_two_jaws",),
    ),
    Fault(
        "randomized-response-shares-its-coins",
        "All units are flipped by the same coin.",
        "The number of reported yeses is the true one, or that of the noes.",
        "measurements/randomized_response.py",
        "reports = (np.arange(self.units) < counts) != coins.reshape(-1, self.units)",
        "reports = (np.arange(self.units) < counts) != coins.reshape(-1, self.units)[:, :1]",
        ("unit/measurements/test_randomized_response.py::test_draws_have_two_jaws",),
    ),
    Fault(
        "randomized-response-halves-its-miss",
        "Either tail of an interval may have all of the miss.",
        "An interval of 95 % holds with 90 %.",
        "measurements/randomized_response.py",
        "outputs[0], (1 - confidence) / 2)",
        "outputs[0], 1 - confidence)",
        ("unit/measurements/test_randomized_response.py::test_an_interval_holds_at_least_as_often_as_stated",),
    ),
)
