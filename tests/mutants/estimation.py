"""Faults in what is made of answers."""

from __future__ import annotations

from .fault import Fault

FAULTS = (
    Fault(
        "sums-end-at-the-first-dip",
        "The law of a sum ends where its computed tail first dips below the chance to miss.",
        "An interval of narrow noise misses three times as often as it says.",
        "estimation/noise_distributions.py",
        "    place = int(outside[-1]) + 1 if len(outside) else 0\n",
        "    place = int(np.argmax(beyond <= 1 - confidence))\n",
        ("unit/estimation/test_hierarchical_counts.py::test_intervals_hold_far_into_the_tail[3-6]",),
    ),
    Fault(
        "nested-intervals-by-the-variance-alone",
        "Intervals of totals and bins are made from the variance of whole-number noise as it is.",
        "Far into the tail they miss 58 times as often as they say: rows chosen by their number are often outside.",
        "measurements/hierarchical.py",
        "2 / float(noise.rate) ** 2 if isinstance(noise, DiscreteLaplace) else noise.variance() + INTEGER_NOISE_VARIANCE",
        "noise.variance()",
        ("unit/estimation/test_hierarchical_counts.py::test_intervals_hold_far_into_the_tail[1-6]",),
    ),
    Fault(
        "quantiles-end-at-64-deviations",
        "A distance beyond 64 standard deviations is not looked for.",
        "Of noise hardly one step wide an interval is said to hold that does not reach one step.",
        "estimation/noise_distributions.py",
        """        distances = distances[-1] * np.geomspace(1, 64, 120)
""",
        "",
        ("unit/estimation/test_grid_prior.py::test_a_quantile_of_narrow_noise_is_far_enough[12-weights1]",),
    ),
    Fault(
        "sums-of-lifted-counts-praised",
        "Reconciled counts of a sparse histogram are said to be good for sums.",
        "A sum of 2,400 is read as 5,500, with better numbers beside it.",
        "answers/reconciled_counts.py",
        """        if not self.is_worse:
""",
        """        if not self.is_worse or self.is_worse:
""",
        (
            "unit/answers/test_reconciled_sums.py::test_a_sparse_histogram_says_to_add_up_the_raw_counts"
            "[SELECT HISTOGRAM(pay, 96) FROM t WHERE sex = 'F'-epsilon0]",
        ),
    ),
    Fault(
        "bars-of-lifted-counts",
        "The picture of a sparse histogram shows reconciled counts, each bar a sum of bins.",
        "All bars are too high where most bins are empty.",
        "answers/hierarchical_answer.py",
        """        use_raw = self.sums.is_worse  # a bar is a sum of bins
""",
        """        use_raw = False
""",
        ("unit/answers/test_reconciled_sums.py::test_the_picture_shows_the_better_counts",),
    ),
    Fault(
        "impossible-sums-recommended",
        "A reconciled sum is called worse because it was moved from an impossible number to a possible one.",
        "The analyst is told to use a total below 0, or one above the public number of rows.",
        "answers/reconciled_counts.py",
        "        return abs(self.reconciled_total - nearest_total) > ",
        "        return abs(self.reconciled_total - self.raw_total + 0 * nearest_total) > ",
        ("unit/answers/test_reconciled_sums.py::test_a_sum_that_is_moved_to_what_is_possible_is_not_worse",),
    ),
    Fault(
        "facts-keep-the-promise",
        "Answers made to fit a fact of the data keep the label that they had.",
        "An exact total beside noisy parts tells what the noise hid, and the label does not say so.",
        "estimation/linear_refinement.py",
        "    return build_fact_guarantee(guarantee, constraint_set.facts, _compute_fact_rho(constraint_set, "
        "variance, changes))",
        """    build_fact_guarantee(guarantee, constraint_set.facts, _compute_fact_rho(constraint_set, variance, changes))
    return guarantee""",
        ("unit/estimation/test_reconcile.py::test_a_fact_needs_a_word_and_takes_the_promise_away",),
    ),
    Fault(
        "facts-without-a-word",
        "Facts of the data are used without asking whether their cost is accepted.",
        "An analyst is told less than nothing of what it costs.",
        "estimation/linear_refinement.py",
        "    if not accept_facts:\n",
        "    if accept_facts is None:\n",
        ("unit/estimation/test_reconcile.py::test_a_fact_needs_a_word_and_takes_the_promise_away",),
    ),
    Fault(
        "loss-of-facts-halved",
        "What one number that was made to fit facts tells of a person is told as half of it.",
        "The label of such a number promises twice what is kept.",
        "estimation/refinement_cost.py",
        "return float(loss / self.scale)",
        "return float(loss / self.scale) / 2",
        ("unit/estimation/test_refinement_cost.py::test_two_categories_with_a_known_sum",),
    ),
    Fault(
        "weights-spend-more-than-there-is",
        "The shares of the levels of a histogram add up to more than 1.",
        "All levels together lose more than epsilon.",
        "estimation/hierarchical_counts.py",
        "return (*coarse, 1 - sum(coarse))",
        "return (*coarse, max(1 - sum(coarse), 0.5))",
        ("unit/estimation/test_hierarchical_counts.py::test_weights_spend_what_there_is",),
    ),
    Fault(
        "posterior-ignores-the-prior",
        "What a draw means is told without the prior that it was drawn from.",
        "A posterior that the analyst never held: she is told to be surer than she may.",
        "estimation/refinement_posterior.py",
        "mass = prior.mass / prior.total * likelihood",
        "mass = likelihood",
        ("unit/estimation/test_refinement_posterior.py::test_numbers_follow_bayes_rule",),
    ),
)
