"""Faults in what is made of answers."""

from __future__ import annotations

from .fault import Fault

FAULTS = (
    Fault(
        "sums-of-lifted-counts-praised",
        "inference",
        "Reconciled counts of a sparse histogram are said to be good for sums.",
        "A sum of 2,400 is read as 5,500, with better numbers beside it.",
        "custodian/reconciling.py",
        "        if not self.worse:\n",
        "        if not self.worse or self.worse:\n",
        (
            "test_reconciled_sums.py::test_a_sparse_histogram_says_to_add_up_the_raw_counts"
            "[SELECT HISTOGRAM(pay, 96) FROM t WHERE sex = 'F'-epsilon0]",
        ),
    ),
    Fault(
        "bars-of-lifted-counts",
        "inference",
        "The picture of a sparse histogram shows reconciled counts, each bar a sum of bins.",
        "All bars are too high where most bins are empty.",
        "custodian/nested.py",
        "        raw = self.sums.worse  # a bar is a sum of bins\n",
        "        raw = False\n",
        ("test_reconciled_sums.py::test_the_picture_shows_the_better_counts",),
    ),
    Fault(
        "impossible-sums-recommended",
        "inference",
        "A reconciled sum is called worse because it was moved from an impossible number to a possible one.",
        "The analyst is told to use a total below 0, or one above the public number of rows.",
        "custodian/reconciling.py",
        "        return abs(self.made - nearest) > ",
        "        return abs(self.made - self.raw + 0 * nearest) > ",
        ("test_reconciled_sums.py::test_a_sum_that_is_moved_to_what_is_possible_is_not_worse",),
    ),
    Fault(
        "facts-keep-the-promise",
        "inference",
        "Answers made to fit a fact of the data keep the label that they had.",
        "An exact total beside noisy parts tells what the noise hid, and the label does not say so.",
        "inference/reconcile.py",
        "    return fact_guarantee(guarantee, must.facts, _each(must, variance, changes))",
        "    fact_guarantee(guarantee, must.facts, _each(must, variance, changes))\n    return guarantee",
        ("test_reconcile.py::test_a_fact_needs_a_word_and_takes_the_promise_away",),
    ),
    Fault(
        "facts-without-a-word",
        "inference",
        "Facts of the data are used without asking whether their cost is accepted.",
        "An analyst is told less than nothing of what it costs.",
        "inference/reconcile.py",
        "    if not accept_facts:\n",
        "    if accept_facts is None:\n",
        ("test_reconcile.py::test_a_fact_needs_a_word_and_takes_the_promise_away",),
    ),
    Fault(
        "loss-of-facts-halved",
        "inference",
        "What one number that was made to fit facts tells of a person is told as half of it.",
        "The label of such a number promises twice what is kept.",
        "inference/rho.py",
        "return float(loss / self.scale)",
        "return float(loss / self.scale) / 2",
        ("test_rho.py::test_two_categories_with_a_known_sum",),
    ),
    Fault(
        "weights-spend-more-than-there-is",
        "inference",
        "The shares of the levels of a histogram add up to more than 1.",
        "All levels together lose more than epsilon.",
        "inference/shares.py",
        "return (*coarse, 1 - sum(coarse))",
        "return (*coarse, max(1 - sum(coarse), 0.5))",
        ("test_nested.py::test_weights_spend_what_there_is",),
    ),
    Fault(
        "posterior-ignores-the-prior",
        "inference",
        "What a draw means is told without the prior that it was drawn from.",
        "A posterior that the analyst never held: she is told to be surer than she may.",
        "inference/drawn.py",
        "mass = prior.mass / prior.total * likelihood",
        "mass = likelihood",
        ("test_drawn.py::test_numbers_follow_bayes_rule",),
    ),
)
