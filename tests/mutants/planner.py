"""Faults where a question becomes a plan: what one unit moves, and how much noise that takes."""

from __future__ import annotations

from .fault import Fault

REPLAYED = "unit/verification/test_replay.py::test_one_unit_moves_the_inputs_by_no_more_than_declared"
LOST = "unit/verification/test_replay.py::test_every_noise_that_could_be_chosen_loses_at_most_epsilon"

FAULTS = (
    Fault(
        "planner-halves-laplace-scales",
        "Totals get Laplace noise of half the scale.",
        "Every count, sum and mean costs twice the epsilon that is charged.",
        "measurements/additive.py",
        "DiscreteLaplace(epsilon * s.denominator, s.numerator)",
        "DiscreteLaplace(2 * epsilon * s.denominator, s.numerator)",
        (f"{LOST}[33--add-remove-1]",),
    ),
    Fault(
        "planner-halves-gaussian-variances",
        "Totals get Gaussian noise of half the variance.",
        "A concentrated account is charged half of what is lost.",
        "measurements/additive.py",
        "squares = (component.l2_sensitivity_sq / (2 * rho) for component in linear_query.components)",
        "squares = (component.l2_sensitivity_sq / (4 * rho) for component in linear_query.components)",
        ("unit/planner/test_planner.py::test_gaussian_noise_with_a_delta",),
    ),
    Fault(
        "wrong-neighbours-in-groups",
        "A replaced row is counted in one of the cells shown, and not in the two that it changes.",
        "Histograms under replace-one cost twice the epsilon that is charged.",
        "measurements/contribution_bounds.py",
        "return 2 if self.is_replace_one and self.is_grouped else 1",
        "return 1",
        (f"{REPLAYED}[GROUP BY sex-replace-one-1]",),
    ),
    Fault(
        "wrong-neighbours-in-sums",
        "A replaced value moves a sum by the larger bound, and not by the width of all it can be.",
        "From -5 to 5 a replaced value moves the sum by 10, and the noise is for 5.",
        "measurements/total_sensitivity.py",
        "component = _build_component((low, 1), rows * (spread if bounds.is_replace_one else largest))",
        "component = _build_component((low, 1), rows * largest)",
        (f"{REPLAYED}[WHERE sex = 'F' OR NOT smoker-replace-one-1]",),
    ),
    Fault(
        "rows-per-unit-forgotten-in-counts",
        "A count moves by one row, however many a unit may have.",
        "Someone with three rows is protected by a third of epsilon's noise.",
        "measurements/total_sensitivity.py",
        "l1_bound = bounds.rows_per_unit * bounds.replace_factor",
        "l1_bound = bounds.replace_factor",
        (f"{REPLAYED}[-add-remove-3]",),
    ),
    Fault(
        "boxes-of-cells-not-shared",
        "Each of the cells that a unit may change has all of epsilon for its staircase.",
        "Someone in several groups is protected by a part of epsilon's noise.",
        "measurements/additive.py",
        "share, box = epsilon / linear_query.max_contributions, linear_query.linf_box\n",
        "share, box = epsilon, linear_query.linf_box\n",
        (f"{LOST}[33-GROUP BY sex-replace-one-1]",),
    ),
    Fault(
        "variance-of-any-number-of-rows",
        "The sum over pairs is told also where the table has another number of rows than declared.",
        "More rows than declared move it by more than its scale.",
        "measurements/total_sensitivity.py",
        "return self.paired_rows * squares - total**2 if rows == self.paired_rows else 0",
        "return self.paired_rows * squares - total**2",
        ("unit/verification/test_replay.py::test_a_variance_of_pairs_holds_whatever_number_was_declared",),
    ),
    Fault(
        "number-of-rows-taken-for-public",
        "The declared number of units is taken for the number of rows that count, also with a filter.",
        "The number of rows that pass a filter is secret, and is told without noise.",
        "measurements/contribution_bounds.py",
        "has_every_row = self.is_replace_one and self.rows_per_unit == 1 and self.where == TRUE and not "
        "self.is_grouped",
        "has_every_row = self.is_replace_one and self.rows_per_unit == 1 and not self.is_grouped",
        (f"{REPLAYED}[WHERE age > 0-replace-one-1]",),
    ),
    Fault(
        "aggregates-do-not-share-epsilon",
        "Every aggregate of a question gets all of epsilon.",
        "Three aggregates cost three times the epsilon that is charged.",
        "planner/planner.py",
        "share = epsilon / max(1, len(private))",
        "share = epsilon",
        ("unit/planner/test_planner.py::test_epsilon_is_shared_among_the_aggregates_that_cost",),
    ),
    Fault(
        "levels-of-a-histogram-do-not-share-epsilon",
        "Every level of nested counts gets all of epsilon.",
        "A histogram of ten levels costs ten times the epsilon that is charged.",
        "planner/hierarchy_plan.py",
        "return DiscreteLaplace(self.epsilon * share, part.l1_sensitivity // sides)",
        "return DiscreteLaplace(self.epsilon, part.l1_sensitivity // sides)",
        ("unit/planner/test_hierarchy_plan.py::test_neighbours_lose_at_most_epsilon",),
    ),
    Fault(
        "cells-of-a-choice-do-not-share-epsilon",
        "A quantile of every group gets all of epsilon, also where a unit is in several groups.",
        "Medians by group cost several times the epsilon that is charged.",
        "measurements/selection.py",
        "share, rows = (epsilon / bounds.l0_bound, 1) if bounds.is_grouped else (epsilon, bounds.rows_per_unit)",
        "share, rows = (epsilon, 1) if bounds.is_grouped else (epsilon, bounds.rows_per_unit)",
        ("unit/measurements/test_selection.py::test_an_interval_in_groups_pays_by_the_row",),
    ),
    Fault(
        "point-and-interval-do-not-share-epsilon",
        "A median and the interval about it get all of epsilon each.",
        "The two cost twice the epsilon that is charged.",
        "measurements/selection.py",
        "point_selection = _build_quantile(aggregate, candidates, share / 2, neighbors, rows, position_prior)",
        "point_selection = _build_quantile(aggregate, candidates, share, neighbors, rows, position_prior)",
        ("unit/measurements/test_selection.py::test_an_interval_spends_half_on_the_point_and_half_on_its_ends",),
    ),
    Fault(
        "a-replaced-person-is-refined-as-an-added-one",
        "One person's value is refined as if only being there or not had to be hidden.",
        "Where a person is replaced, the answer costs twice the epsilon that is charged.",
        "measurements/unit_query.py",
        """"individual", schema.neighbors, column_distance
    )""",
        '"individual", "add-remove", column_distance)',
        ("laws/test_real_losses.py::test_an_honest_mechanism_keeps_its_claim",),
    ),
    Fault(
        "threshold-one-too-low",
        "The threshold forgets that a key of one unit starts at 1.",
        "A private key that one person has is shown with more than delta.",
        "measurements/threshold.py",
        "return Threshold(noise, 1 + find_rare_count(noise.rate, delta / bounds.rows_per_unit), delta)",
        "return Threshold(noise, find_rare_count(noise.rate, delta / bounds.rows_per_unit), delta)",
        ("unit/planner/test_planner.py::test_keys_that_one_unit_has_alone_are_shown_with_delta_together",),
    ),
    Fault(
        "threshold-for-one-key-per-unit",
        "The threshold does not share delta among the keys that a unit may be alone in.",
        "Someone with three rows in three rare keys is shown with three times delta.",
        "measurements/threshold.py",
        "delta / bounds.rows_per_unit), delta)",
        "delta), delta)",
        ("unit/planner/test_planner.py::test_keys_that_one_unit_has_alone_are_shown_with_delta_together",),
    ),
    Fault(
        "sessions-count-one-relation-only",
        "Joint sensitivity is that of add-remove, whatever the schema says.",
        "A session under replace-one answers up to twice what it has paid for.",
        "planner/session_budget.py",
        """if neighbors == "add-remove":
        heaviest_labels""",
        """if neighbors:
        heaviest_labels""",
        ("unit/planner/test_joint_sensitivity.py::test_known_cases",),
    ),
    Fault(
        "sessions-do-not-add-up",
        "A session lets in every question that would fit alone.",
        "Averaging: as many questions as one likes for one epsilon.",
        "planner/session_budget.py",
        """        if joint_epsilon <= self.epsilon:
            return replace""",
        """        if joint_epsilon <= self.epsilon or self.counts:
            return replace""",
        ("laws/test_protocols.py::test_protocol_1_keeps_its_promise_on_every_transcript",),
    ),
    Fault(
        "individual-dp-sees-all-rows",
        "Individual DP takes the rows that are there, and not as many as declared.",
        "Where there are more, a question fails: an error tells how many rows there are.",
        "measurements/unit_query.py",
        "present = np.repeat(np.arange(self.candidates.count), counts)[: self.rows]",
        "present = np.repeat(np.arange(self.candidates.count), counts)",
        ("unit/verification/test_replay.py::test_individual_dp_sees_as_many_rows_as_declared",),
        dies_of="ValueError",
    ),
    Fault(
        "bound-from-data",
        "Individual DP's bounds are the least and the greatest value that a row has.",
        "The widest noise follows one person's value; its label does not hold.",
        "measurements/unit_query.py",
        "        return [(int(self.mechanism.answer(self.pad_positions(counts), entropy)),) for counts in inputs]",
        """        rows, vector = self.pad_positions(inputs[0]), self.mechanism.vector
        ends = int(rows.min()), max(int(rows.max()), int(rows.min()) + 1)
        return [(int(IndividualOrderStatistic(vector.whats[0], *ends, vector.epsilon).answer(rows)),)]""",
        ("unit/planner/test_planner.py::test_individual_dp_is_clamped_to_the_public_bounds",),
    ),
    Fault(
        "columns-do-not-share-epsilon",
        "Every column of a private file gets all of epsilon.",
        "A file of ten columns costs ten times the epsilon that is charged.",
        "synthetic/file_plan.py",
        """tuple(
            (select_column_plan(column, rows, budget.take_share(share), k), share)""",
        "tuple((select_column_plan(column, rows, budget, k), share)",
        ("unit/synthetic/test_columns.py::test_shares_add_up_and_are_better_than_even_ones",),
    ),
    Fault(
        "queries-as-they-come",
        "A query is planned as whoever handed it in has made it.",
        "A histogram of variances has the noise of counts: what is sold as an epsilon of 1 is a loss of thousands.",
        "query/validate.py",
        """    copied_query = _copy_part(require_exact_class(query, Query, "a query must be a Query"), 0)
""",
        """    copied_query = query
    return query
""",
        ("unit/query/test_validate.py::test_what_no_text_means_is_refused_at_every_door",),
    ),
    Fault(
        "plans-of-unchecked-queries",
        "Only the custodian checks a query that was made by hand, not the planner.",
        "Any caller of the planner who forgets to check gives a promise that does not hold.",
        "planner/planner.py",
        "return _plan_once(schema, validate_query(query, schema), request)",
        "return _plan_once(schema, CheckedQuery(query), request)",
        ("unit/query/test_validate.py::test_what_no_text_means_is_refused_at_every_door",),
    ),
    Fault(
        "nested-cells-of-anything",
        "The noise of nested counts is added to whatever is asked in the cells.",
        "Sums and squares of a histogram get noise made for counts.",
        "planner/hierarchy_plan.py",
        """    if [query_aggregate.function for query_aggregate in query.aggregates] != ["count"]:
""",
        "    if not query.aggregates:\n",
        ("unit/query/test_validate.py::test_nested_cells_are_planned_for_counts_alone",),
    ),
    Fault(
        "tail-mixed-into-priors-with-ends",
        "A heavy tail is mixed into a prior with ends also where the answer is drawn from it.",
        "With uniform(20, 30) one answer in eighty about a person lies outside: an impossible value is returned.",
        "priors/prior.py",
        """    return not (is_sampled and is_bounded) if tail is None else tail
""",
        "    return tail is not False\n",
        ("laws/test_within_prior.py::test_answers_about_one_person_stay_within_a_uniform_prior",),
    ),
    Fault(
        "impossible-values-get-a-mass",
        "Values beyond the ends of a prior are held possible, so that their mass of 0 is raised to 1.",
        "What the prior excludes can be drawn: once in 2^58 draws, which no sampling finds.",
        "measurements/prior_on_grid.py",
        "    if not exclude:\n",
        """    if len(distribution):
""",
        ("laws/test_within_prior.py::test_a_total_is_drawn_from_the_values_between_the_ends",),
    ),
    Fault(
        "bins-stand-for-their-middles",
        "A bin of several values stands for the one in its middle, whatever the prior holds possible.",
        "With point(123456) of an income in bins of sixteen another income is told.",
        "measurements/candidate_grid.py",
        """        codes[positions] = position_prior.codes
""",
        "",
        ("laws/test_within_prior.py::test_a_single_possible_value_is_always_the_answer",),
    ),
    Fault(
        "bins-of-several-values-are-atoms",
        "A bin that holds several possible values is told as if it held one.",
        "An interval said to hold with 95 % holds the truth one time in fifteen.",
        "priors/posterior.py",
        "    if (spans == 1).all() and ends is None:\n",
        "    if ends is None:\n",
        ("laws/test_within_prior.py::test_a_bin_of_several_possible_values_is_no_single_value",),
    ),
    Fault(
        "extremes-pass-over-a-prior-with-ends",
        "An extreme is chosen by rank wherever a draw would hardly tell more than the prior, whatever that excludes.",
        "With uniform(100000, 100010) a MAX of 490743 is returned.",
        "measurements/selection.py",
        "if refines or _has_excluded_values(candidates, position_prior):",
        "if refines:",
        ("laws/test_within_prior.py::test_an_extreme_is_within_a_prior_with_ends_also_where_a_draw_hardly_tells_more",),
    ),
    Fault(
        "points-of-a-total-are-atoms",
        "A point that a refined total is drawn at, and that stands for many values, is told as if it were alone.",
        "An interval of a sum said to hold with 95 % holds the truth one time in fourteen.",
        "measurements/refined_total.py",
        "    if (widths == 1).all():\n",
        "    if len(widths):\n",
        ("laws/test_within_prior.py::test_an_interval_of_a_refined_total_holds_the_truth_as_often_as_it_says[normal]",),
    ),
    Fault(
        "error-of-a-total-among-points-alone",
        "The expected error of a refined total leaves out what one point stands for.",
        "1.9 is stated where the error is 14, and that decides which mechanism answers.",
        "estimation/refinement_posterior.py",
        """    return math.hypot(error, step * math.sqrt(truths.compute_blur(prior.index)))
""",
        "    return error if step else 0.0\n",
        ("laws/test_within_prior.py::test_the_stated_error_of_a_refined_total_is_the_real_one",),
    ),
    Fault(
        "one-name-with-and-without-a-tail",
        "Where numbers of a prior are no values of the column, a stored answer has one name with a tail and without.",
        "With values outside 22 to 30 impossible, a stored 60 is told.",
        "priors/prior.py",
        "        return 4 if tail else 3\n",
        "        return 3\n",
        ("laws/test_within_prior.py::test_an_answer_with_a_tail_is_not_told_to_who_asks_without_one",),
    ),
    Fault(
        "one-name-for-two-laws-of-a-heavy-prior",
        "A heavy prior whose numbers are no values of the column has the name that another law had before.",
        "An answer drawn by the other law is told, with a posterior that is not its own.",
        "priors/prior.py",
        """        return 5 if has_moved_values else 1
""",
        """        return 2 if has_moved_values else 1
""",
        ("laws/test_within_prior.py::test_stored_answers_of_another_law_have_another_name",),
    ),
    Fault(
        "weights-of-no-count",
        "Weights of numbers that a count or a sum cannot be are kept.",
        "A count of 5/2 is told.",
        "estimation/grid_prior.py",
        """    if dense:
        return PointGridPrior(""",
        """    if not dense or dense:
        return PointGridPrior(""",
        ("laws/test_within_prior.py::test_a_weight_of_a_number_that_a_total_cannot_be_goes_to_no_other",),
    ),
    Fault(
        "individual-dp-without-its-floor",
        "The error of individual DP is stated without the floor under its noise.",
        "A preview recommends a median that is 250 times worse than that of plain differential privacy.",
        "planner/dp_comparison.py",
        "return max(vector.grid.width, 1) / float(vector.floor)",
        "return 1 / float(vector.floor)",
        ("unit/planner/test_dp_comparison.py::test_a_median_hundreds_of_times_worse_is_said_to_be_so",),
    ),
    Fault(
        "gaps-of-rows-rounded-down",
        "The gap between even rows is rounded down to a whole number.",
        "A preview states an error of 7 where it is 24, and recommends the weaker model where dp is nearer.",
        "planner/dp_comparison.py",
        """    up = min(2 * remainder / (statistic.rows + 1), 1.0)
""",
        """    up = 0.0 * remainder
""",
        ("unit/planner/test_dp_comparison.py::test_the_model_preferred_has_about_the_smaller_error[150-100-1/20]",),
    ),
    Fault(
        "advised-accuracy-unchecked",
        "A refusal advises an accuracy without asking whether the budget reaches it.",
        "An analyst who follows the advice is refused again, with the same advice.",
        "planner/calibrate.py",
        """        needed_epsilon = _find_needed_epsilon(half_width_at, distance)
""",
        """        needed_epsilon = MIN_QUERY_EPSILON
""",
        (
            "unit/planner/test_accuracy.py::test_the_accuracy_that_a_refusal_advises_is_not_refused[replace-one-SUM(age)-0.0037-99]",
        ),
        dies_of="BudgetExceeded",
    ),
    Fault(
        "the-weaker-model-preferred",
        "A preview recommends individual DP wherever plain differential privacy is nearer, and the other way.",
        "The analyst takes a weaker promise and a worse answer.",
        "planner/dp_comparison.py",
        """    prefer = "dp" if error <= individual_error else "individual-dp"
""",
        """    prefer = "individual-dp" if error <= individual_error else "dp"
""",
        ("unit/planner/test_dp_comparison.py::test_a_median_hundreds_of_times_worse_is_said_to_be_so",),
    ),
    Fault(
        "individual-dp-previewed-alone",
        "The preview of an individual-dp question says nothing of plain differential privacy.",
        "The analyst does not learn that the stronger promise has the better answer.",
        "custodian/preview.py",
        "        compared_with_dp=compare_with_dp(planned),\n",
        "",
        ("unit/planner/test_dp_comparison.py::test_library_and_commands_show_both",),
    ),
    Fault(
        "shapes-kept-on-the-points-of-their-grid",
        "A prior made of a shape on whole numbers gives a mean no other values than whole numbers.",
        "A posterior of an average is a single whole number, and an interval of 95 % hardly ever holds the truth.",
        "estimation/grid_prior.py",
        """    if prior.shape and (is_between_steps or not finer):
""",
        "    if not prior:\n",
        (
            "unit/measurements/test_prior_on_values.py::test_an_interval_of_a_refined_mean_holds_the_means_between_the_points_exactly"
            "[5-prior0-ends0]",
        ),
    ),
    Fault(
        "shapes-kept-on-points-of-a-column",
        "A prior made of a shape on whole numbers gives a median of quarters no other values than whole numbers.",
        "Three of four values are impossible that nobody called impossible.",
        "measurements/prior_on_grid.py",
        """    if prior.shape and not _has_all_codes(column, grid):
""",
        "    if not prior:\n",
        ("unit/measurements/test_prior_on_values.py::test_a_shape_on_any_grid_is_laid_on_the_values_of_a_column",),
    ),
    Fault(
        "one-name-for-shapes-and-points",
        "An answer drawn from a shape has the name of one that was drawn from the points of its grid.",
        "A stored answer of another law is told, and its posterior is that of this one.",
        "priors/prior.py",
        """    return COARSE_GRID_RULES[tail]
""",
        "    return 1 if tail else 2\n",
        ("unit/measurements/test_prior_on_values.py::test_an_answer_drawn_from_the_points_is_not_told_for_the_shape",),
    ),
    Fault(
        "two-shapes-of-one-name",
        "The name of a stored answer has the points of a prior, and not the shape that it was drawn from.",
        "Two shapes with the same weights on whole numbers are told one another's answers.",
        "planner/plan.py",
        """    if rule in COARSE_GRID_RULES:
""",
        "    if rule < 0:\n",
        ("unit/measurements/test_prior_on_values.py::test_two_shapes_of_the_same_points_have_two_names",),
    ),
    Fault(
        "posterior-without-the-bins",
        "A posterior of a trimmed mean leaves out that each value is told by the middle of its bin.",
        "An interval of 95 % holds one truth in eight where the noise is smaller than a bin.",
        "measurements/additive.py",
        "noise = RoundedNoise(noise, float(estimate.rounding_error))",
        "pass",
        (
            "unit/measurements/test_prior_on_values.py::test_a_posterior_interval_holds_truths_between_the_points_of_the_prior"
            "[replace-one-TRIMMED_MEAN(income, 0.1)-60-prior4-None-list_equal_rows-mean]",
        ),
    ),
    Fault(
        "means-counted-from-the-end-of-a-prior",
        "The grid of a mean of a public number of rows begins at the prior's own end, as if any number were a mean.",
        "A mean at the upper end of the prior is in no interval: one said to hold with 95 % holds 19 % of the time.",
        "planner/candidates.py",
        """ and mean_step is None
    return parse_grid_prior(""",
        """
    return parse_grid_prior(""",
        ("laws/test_within_prior.py::test_an_interval_of_a_refined_mean_holds_any_mean_between_the_ends_of_the_prior",),
    ),
    Fault(
        "one-name-for-means-and-for-what-lies-between",
        "An answer drawn from the means has the name of one that was drawn from numbers between them.",
        "A stored answer of another law is told, and its posterior is that of this one.",
        "estimation/grid_prior.py",
        "            return replace(use, rule=7 if use.tail else 6)\n",
        """            return use
""",
        ("laws/test_within_prior.py::test_a_mean_whose_law_was_another_once_has_another_name",),
    ),
    Fault(
        "weights-dropped-beside-a-cut-column",
        "A prior is laid anew on the column cut to it, so that what went to its lowest value from below is dropped.",
        "A prior with 96 % of its weight on one value is used as if all ten were alike, and told as used as stated.",
        "measurements/prior_on_grid.py",
        """    if position_prior.points is None:
""",
        "    if width:\n",
        ("laws/test_within_prior.py::test_a_column_cut_to_a_prior_keeps_the_weights_that_went_into_it",),
    ),
    Fault(
        "planner-guesses-rows-for-an-accuracy",
        "The accuracy of a filtered mean is promised for a guessed number of rows.",
        "An answer misses the accuracy that was paid for, and the analyst was not asked how many rows there are.",
        "planner/calibrate.py",
        "if request.expected_rows is None and Estimator(build_laplace(linear_query, Fraction(1)), "
        "1.0).depends_on_rows:",
        "if False:",
        ("unit/planner/test_accuracy.py::test_the_accuracy_of_a_mean_needs_the_number_of_rows[AVG(score)-add-remove]",),
    ),
    Fault(
        "stated-errors-of-means-halved",
        "The stated error of a mean is half of what its noise makes it.",
        "A preview promises an accuracy that most answers do not have.",
        "estimation/noisy_totals.py",
        "return self._bound_mean_distance(1 - (1 - part) * miss, rows)",
        "return self._bound_mean_distance(1 - (1 - part) * miss, 2 * rows)",
        ("laws/test_stated_accuracy.py::test_the_bound_of_a_mean_holds_and_is_near[add-remove-40-0.0]",),
    ),
    Fault(
        "custodian-hides-missed-accuracies",
        "An answer that is less accurate than was requested does not say so.",
        "The analyst relies on an accuracy that the answer does not have.",
        "answers/explain.py",
        "missed_errors = [error for error in known_errors if error > allowed_error]",
        "missed_errors = [error for error in known_errors if error < 0]",
        ("laws/test_stated_accuracy.py::test_an_answer_that_misses_its_accuracy_says_so_first",),
    ),
    Fault(
        "custodian-states-a-probability-of-the-largest-mean",
        "Of a row that was chosen among several groups the accuracy of a single one is stated.",
        "What is said of all groups at once is computed from the one that is shown.",
        "answers/explain.py",
        "is_single = shown.compute_intervals(plan.confidence), len(shown.noisy_result.cells) == 1",
        "is_single = shown.compute_intervals(plan.confidence), len(shown.rows) == 1",
        ("laws/test_stated_accuracy.py::test_of_several_means_the_accuracy_of_one_is_not_stated",),
    ),
    Fault(
        "planner-takes-chosen-rows-one-by-one",
        "The intervals of rows that are chosen by their noisy numbers are those of rows that were not chosen.",
        "The largest of a hundred equal counts is said to lie where it does in 95 of 100 draws, and does in 30.",
        "measurements/contribution_bounds.py",
        "(1 - confidence) / (self.rows * self.numbers_per_row)",
        "1 - confidence",
        (
            "unit/answers/test_selected_rows.py::test_what_is_printed_of_rows_chosen_by_their_numbers_holds[largest count]",
        ),
    ),
    Fault(
        "custodian-states-a-preview-as-an-answer",
        "With the answer of a filtered mean the accuracy of its preview is stated, whatever the answer shows.",
        "An answer that may be off by half the domain says that it is near.",
        "answers/explain.py",
        'statements.append(f"within {format_upper(max_error)} {probability_text}")',
        "statements.append(_state_measurement(plan, measurement, plan.confidence))",
        ("laws/test_stated_accuracy.py::test_an_answer_that_misses_its_accuracy_says_so_first",),
    ),
    Fault(
        "planner-hides-that-rows-are-guessed",
        "The number of rows that a condition suggests is taken for one that the analyst has stated.",
        "A preview promises the accuracy of a guess, and nothing says that it is one.",
        "measurements/contribution_bounds.py",
        'int(units * share / (bounds.cells or 1))), "guess", _format_assumption(bounds))',
        'int(units * share / (bounds.cells or 1))), "stated", _format_assumption(bounds))',
        ("laws/test_stated_accuracy.py::test_a_preview_of_a_filtered_mean_says_how_it_depends_on_the_rows",),
    ),
    Fault(
        "custodian-counts-rows-without-a-value",
        "The accuracy of a mean is stated for the selected rows, also those without a value.",
        "An analyst who counts all rows is promised an accuracy that the mean of a few values does not have.",
        "measurements/additive.py",
        "        if any(column.is_nullable for column in columns):\n",
        "        if not any(columns):\n",
        ("laws/test_stated_accuracy.py::test_rows_without_a_value_do_not_count",),
    ),
    Fault(
        "rows-taken-for-noisy-rows",
        "The bound of an interval forgets that the number of rows is noisy.",
        "An answer by its accuracy has a wider interval than was paid for.",
        "estimation/noisy_totals.py",
        """        fewest = self._bound_noisy_rows(rows, EXCESS_PROBABILITY)
""",
        """        fewest = rows
""",
        ("laws/test_stated_accuracy.py::test_no_interval_is_wider_than_its_bound[add-remove-AVG(score)-60-0.0]",),
    ),
    Fault(
        "interval-of-everything-at-a-bound",
        "Where noise goes far beyond a bound of the column, its means are all in the interval.",
        "An answer by its accuracy misses it by chance, however many rows there are.",
        "estimation/noisy_totals.py",
        """        inside += [estimate] if is_inside(estimate) else []
""",
        """        inside += [estimate] if is_inside(estimate) else []
        if beyond:
            return self.lower, self.upper
""",
        ("laws/test_stated_accuracy.py::test_noise_far_beyond_a_bound_of_the_column_makes_no_interval_of_all_means",),
    ),
    Fault(
        "small-polygons-by-their-area",
        "The tails of a polygon staircase are those of its area, also where it has three lines of points.",
        "With a large epsilon an interval said to hold with 95 % holds with 85 %.",
        "estimation/noise_distributions.py",
        """MAX_SUMMED_LINES = 32
""",
        """MAX_SUMMED_LINES = 0
""",
        ("unit/estimation/test_grid_prior.py::test_the_points_of_a_small_polygon_are_counted[8-1-weights0]",),
    ),
    Fault(
        "planner-allocates-before-limits",
        "The labels of a question's conditions are laid out however many there are.",
        "One small question takes the memory of a worker.",
        "planner/domain_partition.py",
        """                > MAX_LABEL_BYTES
""",
        """                > math.inf
""",
        ("service/test_memory.py::test_a_limit_is_looked_at_before_anything_is_allocated[points of a column]",),
    ),
    Fault(
        "planner-keeps-labels-unbounded",
        "The memory of the labels that a grid keeps is not looked at.",
        "Grouped counts of many filters take the memory of a worker.",
        "planner/domain_partition.py",
        """            and self._count_bytes(sizes) <= MAX_LABEL_BYTES
""",
        "",
        ("service/test_memory.py::test_a_limit_is_looked_at_before_anything_is_allocated[bytes of labels]",),
    ),
    Fault(
        "planner-keeps-labels-in-words",
        "Labels are kept in 64 bits each, as they were.",
        "A question of 110 filters takes 1.2 GB.",
        "planner/domain_partition.py",
        "return _PackedLabels(labels if has_keys else np.packbits(labels), labels.shape, not has_keys)",
        "return _PackedLabels(labels.astype(np.int64), labels.shape, False)",
        ("service/test_memory.py::test_labels_are_kept_in_the_smallest_type",),
    ),
    Fault(
        "planner-lays-out-large-grids-at-once",
        "Parallel questions lay out their large grids at the same time.",
        "The memory of 32 questions adds up in one worker.",
        "planner/domain_partition.py",
        "with _large_step_lock if is_large else nullcontext():",
        "with nullcontext():",
        ("service/test_memory.py::test_large_steps_are_taken_one_at_a_time",),
    ),
    Fault(
        "custodian-counts-all-cells-at-once",
        "The counts of all candidates are made for all cells before the first is drawn.",
        "32 questions of medians by day take more than a gigabyte.",
        "custodian/measure.py",
        "return _CellHistograms(histograms, cells, request.count)",
        "return [*_CellHistograms(histograms, cells, request.count)]",
        ("service/test_memory.py::test_counts_of_a_cell_are_made_when_it_is_its_turn",),
    ),
    Fault(
        "service-keeps-freed-memory",
        "A process never gives memory back to the system.",
        "One large question leaves a worker large until it is restarted.",
        "service/worker.py",
        "                library.malloc_trim(0)\n",
        "",
        ("service/test_memory.py::test_a_process_gives_memory_back",),
    ),
)
