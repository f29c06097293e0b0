"""Faults in prior knowledge refinement."""

from __future__ import annotations

from .fault import Fault

FAULTS = (
    Fault(
        "refinement-factors-swapped",
        "The mass near the truth gets the lower factor and the rest the higher one.",
        "The draw avoids the truth: who knows that learns it, at a loss nobody computed.",
        "mechanisms/refinement.py",
        "(1 - down) / (up - down), Fraction(1)), (up, down), Fraction(0))",
        "(1 - down) / (up - down), Fraction(1)), (down, up), Fraction(0))",
        ("unit/mechanisms/test_refinement.py::test_the_blocks_agree_with_the_algorithm_point_by_point",),
    ),
    Fault(
        "factors-follow-the-truth",
        "The factors are larger where the truth is a value of the prior.",
        "alpha taken from the data: two tables' laws differ by more than e^epsilon.",
        "mechanisms/refinement.py",
        """        return refined_distribution
""",
        """        bolder = Refinement.of(self.prior, 2 * self.epsilon, self.about, self.neighbors, self.distance)
        return refined_distribution if keys.min() else bolder._build_distribution(*_group_rings(keys))
""",
        ("unit/mechanisms/test_refinement.py::test_statistics_lose_epsilon_between_any_two_data_sets",),
    ),
    Fault(
        "statistics-refined-like-individuals",
        "A statistic gets the factors that are right only where a neighbour is the prior itself.",
        "Between two data sets the loss is twice epsilon.",
        "mechanisms/refinement.py",
        'return self.about == "individual" and self.neighbors == "add-remove"',
        "return True",
        ("unit/mechanisms/test_refinement.py::test_statistics_lose_epsilon_between_any_two_data_sets",),
    ),
    Fault(
        "replaced-individuals-refined-against-the-prior",
        "A person who is replaced is treated as one who comes or goes.",
        "Under replace-one the loss is twice epsilon.",
        "mechanisms/refinement.py",
        'return self.about == "individual" and self.neighbors == "add-remove"',
        'return self.about == "individual"',
        ("unit/mechanisms/test_refinement.py::test_individuals_lose_epsilon_when_they_come_and_go",),
    ),
    Fault(
        "half-of-delta-at-the-truth",
        "delta' of the statistical factors is delta / 2, as printed, and not delta / (1 + e^epsilon).",
        "The atom at the truth leaks with more than delta.",
        "mechanisms/refinement.py",
        "return self.delta / (1 + self.ratio)",
        "return self.delta / 2",
        ("unit/mechanisms/test_refinement.py::test_delta_of_statistics_is_what_was_asked",),
    ),
    Fault(
        "an-absent-person-is-an-error",
        "Where there is no truth an error is raised, and not the prior drawn from.",
        "Whether someone is in the table is told by the error, for nothing.",
        "mechanisms/refinement.py",
        "            return Distribution(self.prior, no_blocks, RationalFactors((Fraction(1),)))",
        '            raise InvalidInput("absent")',
        ("unit/mechanisms/test_refinement.py::test_no_truth_whatever_raises_an_error",),
        dies_of="InvalidInput",
    ),
    Fault(
        "distances-as-they-come",
        "A distance is kept as the object that the analyst made.",
        "It is asked how far the truth is from every value, and so is told the truth.",
        "priors/distance.py",
        """    original = require_exact_class(
        distance, DISTANCE_CLASSES, "a distance is""",
        """    if isinstance(distance, Distance):
        return distance
    original = require_exact_class(
        distance, DISTANCE_CLASSES, "a distance is""",
        ("unit/test_untrusted.py::test_subclasses_of_our_classes_are_refused_at_every_door",),
    ),
    Fault(
        "priors-as-they-come",
        "The values of a prior are kept as objects of the caller's own class.",
        "They are compared with the truth, and their comparison tells it to whoever wrote it.",
        "priors/prior.py",
        'tuple(copy_value(value, "a value of a prior") for value in values)',
        "tuple(values)",
        ("unit/test_untrusted.py::test_mechanisms_hand_the_truth_to_nobody",),
    ),
)
