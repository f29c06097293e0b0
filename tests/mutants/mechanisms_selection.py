"""Faults in sensitivities, in choices among values, and in how a column is read."""

from __future__ import annotations

from .fault import Fault

FAULTS = (
    Fault(
        "scores-not-halved",
        "The exponential mechanism weighs by exp(epsilon score / sensitivity), without the 2.",
        "Quantiles, modes and choices of pairs cost twice the epsilon that is charged.",
        "mechanisms/exponential_mechanism.py",
        "symmetric_spread, is_exact = 2 * math.ceil(width / grid), step is None and grid == 1",
        "symmetric_spread, is_exact = math.ceil(width / grid), step is None and grid == 1",
        ("unit/mechanisms/test_exponential_mechanism.py::test_the_mode_of_all_small_tables",),
    ),
    Fault(
        "weights-rounded-against-privacy",
        "The weight kept per step of score is rounded down, and not up.",
        "The loss is above epsilon by a hair: certified bounds are not certified.",
        "mechanisms/exponential_mechanism.py",
        "return exp_above(-self.epsilon / self.spread, RATIO_BITS)",
        "return exp_above(-self.epsilon / self.spread, RATIO_BITS) - Fraction(1, 2**RATIO_BITS)",
        ("unit/mechanisms/test_exponential_mechanism.py::test_scores_that_move_by_the_sensitivity_lose_epsilon",),
    ),
    Fault(
        "permute-and-flip-without-permuting",
        "Of all candidates that show heads the first one is chosen.",
        "Candidates at the front are chosen with certainty where a row ties them.",
        "mechanisms/permute_and_flip.py",
        "return int(heads[sample_below(len(heads), entropy)])",
        "return int(heads[0])",
        ("unit/mechanisms/test_exponential_mechanism.py::test_draws_follow_the_laws",),
    ),
    Fault(
        "replaced-rows-counted-once-in-histograms",
        "A histogram's sensitivity under replace-one is that of add-remove.",
        "A row that moves changes two cells, and the noise is for one.",
        "mechanisms/sensitivity.py",
        'return rows if neighbors == "add-remove" else 2 * rows\n',
        "return rows\n",
        ("unit/mechanisms/test_sensitivity.py::test_additive_answers_move_as_far_as_claimed_and_no_further",),
    ),
    Fault(
        "replaced-values-counted-once-in-sums",
        "A sum's sensitivity under replace-one is the larger bound, and not the width of all it can be.",
        "From -5 to 5 a replaced value moves the sum by 10, and the noise is for 5.",
        "mechanisms/sensitivity.py",
        """if parse_neighbor_relation(neighbors) == "add-remove":
        return rows * max(abs(low), abs(high))""",
        """if parse_neighbor_relation(neighbors) in ("add-remove", "replace-one"):
        return rows * max(abs(low), abs(high))""",
        ("unit/mechanisms/test_sensitivity.py::test_additive_answers_move_as_far_as_claimed_and_no_further",),
    ),
    Fault(
        "replaced-ranks-counted-once",
        "The rank score's sensitivity under replace-one is that of add-remove.",
        "A median under replace-one costs up to twice the epsilon that is charged.",
        "mechanisms/sensitivity.py",
        'return rows * (max(a, b - a) if neighbors == "add-remove" else b)',
        "return rows * max(a, b - a)",
        ("unit/mechanisms/test_quantile.py::test_the_median_of_all_small_tables",),
    ),
    Fault(
        "depths-of-quantiles-not-shared",
        "Each depth of several quantiles gets all of epsilon.",
        "Three quantiles cost twice the epsilon that is charged, seven three times.",
        "mechanisms/quantile.py",
        "return self.epsilon / self.depth / (1",
        "return self.epsilon / (1",
        ("unit/mechanisms/test_quantile.py::test_every_question_of_several_gets_its_share",),
    ),
    Fault(
        "prior-taken-from-data",
        "Where no prior is given, a choice by rank has the counts of the rows themselves as its base measure.",
        "Base measures of neighbours differ without a bound: a value of one row alone is possible or not.",
        "mechanisms/quantile.py",
        """        if self.candidates.prior is not None:
            distribution = self.distribution(counts)""",
        """        if self.candidates.prior is None:
            rows = self.candidates.check_counts(counts)
            seen = Prior(np.maximum(rows, 1), np.arange(len(rows)), self.candidates.grid, None)
            distribution = Exponential(self.selection, seen).distribution(compute_rank_scores(rows, self.q))
            position = distribution.sample_position(get_entropy(entropy))
            return self.candidates.value(int(distribution.prior.index[position]))
        if self.candidates.prior is not None:
            distribution = self.distribution(counts)""",
        ("unit/mechanisms/test_quantile.py::test_answers_are_drawn_by_the_law_that_was_proven",),
    ),
    Fault(
        "ends-of-an-interval-not-shared",
        "Each end of a private interval gets all of epsilon.",
        "An interval about a median costs twice the epsilon that is charged.",
        "mechanisms/quantile.py",
        "return PermuteAndFlip(Selection.of(self.epsilon / 2, sensitivity))",
        "return PermuteAndFlip(Selection.of(self.epsilon, sensitivity))",
        ("unit/mechanisms/test_quantile_bracket.py::test_both_ends_of_all_small_tables_cost_epsilon",),
    ),
    Fault(
        "several-rows-per-unit-forgotten",
        "A largest value is chosen as if every unit had one row.",
        "Someone with five rows is protected by a fifth of epsilon's noise.",
        "mechanisms/quantile.py",
        "return PermuteAndFlip(Selection.of(self.epsilon, self.rows_per_unit))",
        "return PermuteAndFlip(Selection.of(self.epsilon, 1))",
        ("unit/mechanisms/test_extreme.py::test_every_row_that_comes_or_goes_costs_its_share",),
    ),
    Fault(
        "local-instead-of-smooth-sensitivity",
        "The scale follows this table alone, and not the tables around it.",
        "The scale itself jumps between neighbours: no epsilon holds.",
        "mechanisms/order_statistic.py",
        "smooth = compute_log_smooth_sensitivity(padded, rank, compute_smoothness(epsilon))",
        "smooth = compute_log_smooth_sensitivity(padded, rank, 50 * compute_smoothness(epsilon))",
        ("unit/mechanisms/test_order_statistic.py::test_the_loss_is_at_most_epsilon_over_all_neighbours",),
    ),
    Fault(
        "individual-noise-without-its-floor",
        "Individual DP's noise follows the local sensitivity down to nothing.",
        "A table of equal values is answered exactly, and the label's DP does not hold.",
        "mechanisms/individual_dp.py",
        "if total * mechanism.floor > mechanism.epsilon * width:",
        "if total:",
        ("unit/mechanisms/test_individual_dp.py::test_the_label_differential_privacy_holds_over_all_pairs_of_tables",),
    ),
    Fault(
        "individual-label-says-e-alone",
        "The DP beside individual DP is told as E, whatever the scales' ratio.",
        "At a small epsilon the label promises more than is kept.",
        "mechanisms/individual_dp.py",
        "return max(self.floor, len(self.whats) * ln_above(self.floor / self.epsilon) + self.epsilon)",
        "return self.floor",
        ("unit/mechanisms/test_individual_dp.py::test_the_label_differential_privacy_holds_over_all_pairs_of_tables",),
    ),
    Fault(
        "nan-counts-as-the-upper-bound",
        "In an array of floats what is not a number counts as the upper bound, elsewhere as the lower.",
        "How a row is read depends on the types of the others: one row changes all.",
        "mechanisms/order_statistic.py",
        "np.where(np.isnan(quotient), -np.inf, quotient)",
        "np.where(np.isnan(quotient), np.inf, quotient)",
        ("unit/mechanisms/test_sensitivity.py::test_what_is_no_number_counts_as_the_lower_bound",),
    ),
    Fault(
        "numpy-finds-one-type-for-all-rows",
        "A list is handed to numpy, which reads whole numbers as floats where one row is one.",
        "One row changes what the others become, by more than any sensitivity.",
        "mechanisms/order_statistic.py",
        'np.asarray(values) if hasattr(values, "dtype") else _column_from_list(values)',
        "np.asarray(values)",
        ("unit/mechanisms/test_sensitivity.py::test_one_row_never_changes_what_the_others_become",),
    ),
    Fault(
        "values-not-clamped-to-the-grid",
        "Floats beyond the bounds keep their own grid units.",
        "One value without a bound moves an order statistic without a bound.",
        "mechanisms/order_statistic.py",
        "        finite = np.clip(np.where(np.isnan(quotient), -np.inf, quotient), float(self.low), float(self.high))\n"
        "        units = np.floor(finite + np.minimum(4 * np.spacing(np.abs(finite)), 0.25)).astype(np.int64)\n"
        "        clamped: NDArray[np.int64] = np.clip(units, self.low, self.high)\n",
        "        finite = np.clip(np.where(np.isnan(quotient), self.low, quotient), -1e18, 1e18)\n"
        "        clamped = np.floor(finite + np.minimum(4 * np.spacing(np.abs(finite)), 0.25)).astype(np.int64)\n",
        ("unit/mechanisms/test_sensitivity.py::test_values_beyond_the_bounds_are_clamped",),
    ),
)
