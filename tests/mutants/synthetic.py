"""Faults in private files."""

from __future__ import annotations

from .fault import Fault

COLUMNS = "unit/synthetic/test_columns.py"
RECORDS = "unit/synthetic/test_records.py"
LINKED = "unit/synthetic/test_marginals.py"
NEIGHBOURS = f"{COLUMNS}::test_no_pair_of_neighbours_loses_more_and_some_pair_loses_all"

FAULTS = (
    Fault(
        "rank-blocks-with-halved-noise",
        "Sums of rank blocks get noise for half the width of the domain.",
        "A private column costs twice the epsilon that is charged.",
        "synthetic/column_methods.py",
        "return self.budget.build_noise(width, width**2)",
        "return self.budget.build_noise(-(-width // 2), -(-(width**2) // 4))",
        (NEIGHBOURS,),
    ),
    Fault(
        "noise-for-one-block",
        "Sums of rank blocks get the noise of a mean of k, as in the thesis: for one block, and not for all together.",
        "One person shifts every block after her own: the loss is many times epsilon.",
        "synthetic/column_methods.py",
        """width = self.grid.cell_count - 1
""",
        """width = max(1, (self.grid.cell_count - 1) // self.k)
""",
        (NEIGHBOURS,),
    ),
    Fault(
        "rank-blocks-off-by-one",
        "Every block of ranks ends one rank too late.",
        "One rank is in two sums: a person moves both.",
        "synthetic/column_methods.py",
        "return np.diff(_sum_first_ranks(cells, np.asarray(counts, dtype=np.int64), self.edges))",
        """ends = np.minimum(self.edges[1:] + 1, self.rows)
        return _sum_first_ranks(cells, counts, ends) - _sum_first_ranks(cells, counts, self.edges[:-1])""",
        (NEIGHBOURS,),
    ),
    Fault(
        "ranks-of-the-rows-that-are-there",
        "Blocks end where the rows end, and not at the declared number.",
        "How many rows there are is told by the noisy sums' number of terms.",
        "synthetic/column_methods.py",
        "rank_sums: NDArray[np.int64] = sums[indices] + cells[indices] * (ranks - cumulative_counts[indices])",
        "rank_sums: NDArray[np.int64] = sums[indices] + cells[indices] * (np.minimum(ranks, "
        "cumulative_counts[-1]) - cumulative_counts[indices])",
        (f"{COLUMNS}::test_a_table_with_other_rows_than_declared_is_drawn_all_the_same",),
    ),
    Fault(
        "cumulative-counts-for-one-cell",
        "Noise of cumulative counts is for one cell of a level, and not for the two that a replaced row changes.",
        "A private column costs twice the epsilon that is charged.",
        "synthetic/column_methods.py",
        "return tuple(self.budget.take_share(share).build_noise(2, 2) for share in self.shares)",
        "return tuple(self.budget.take_share(share).build_noise(1, 1) for share in self.shares)",
        (NEIGHBOURS,),
    ),
    Fault(
        "levels-do-not-share-the-loss",
        "Every level of cumulative counts gets all of the loss.",
        "A private column costs as many times epsilon as it has levels.",
        "synthetic/column_methods.py",
        "return tuple(self.budget.take_share(share).build_noise(2, 2) for share in self.shares)",
        "return tuple(self.budget.build_noise(2, 2) for share in self.shares)",
        (f"{COLUMNS}::test_the_levels_of_a_tree_lose_together_what_was_asked",),
    ),
    Fault(
        "categories-for-one-cell",
        "Counts of categories get noise for one cell, and not for the two that a replaced row changes.",
        "A private column costs twice the epsilon that is charged.",
        "synthetic/column_methods.py",
        "changed_counts = min(self.measured_count, 2) or 1",
        "changed_counts = 1",
        (NEIGHBOURS,),
    ),
    Fault(
        "boxes-of-records-not-shared",
        "Every block of records gets all of epsilon for its centroid.",
        "One person moves records across all blocks: the loss is many times epsilon.",
        "synthetic/records.py",
        "return BoxStaircase(sums_budget.epsilon / self.block_count, [side_length] * len(self.ordered_axes))",
        "return BoxStaircase(sums_budget.epsilon, [side_length] * len(self.ordered_axes))",
        (f"{RECORDS}::test_a_move_may_fill_the_box",),
    ),
    Fault(
        "records-blocked-by-the-data",
        "Records are ordered by how many are alike, and not along the fixed curve.",
        "As with MDAV, one record moves many others to other blocks: no bound holds.",
        "synthetic/records.py",
        "order = np.lexsort((*crowded, compute_curve_places(places, self.bits)))",
        "order = np.lexsort((*crowded, compute_curve_places(places, self.bits), -counts))",
        (f"{RECORDS}::test_every_pair_of_neighbours_keeps_to_the_calibration",),
    ),
    Fault(
        "names-chosen-block-by-block",
        "Names are chosen with the sensitivity of one block.",
        "One person moves the scores of many blocks: the loss is many times epsilon.",
        "synthetic/records.py",
        "return Selection(epsilon, Fraction(1), bound, True)",
        "return Selection(epsilon, Fraction(1), max_change, True)",
        (f"{RECORDS}::test_names_of_every_pair_of_neighbours",),
    ),
    Fault(
        "chains-one-step-short",
        "The bound of a chain along the curve is that of one step less.",
        "Someone whose move shifts every block loses more than epsilon.",
        "synthetic/hilbert.py",
        """    nested = side * _find_longest_chain(dimensions, coarse, steps, weights) + steps * axes * (side - 1)
""",
        """    steps = max(1, steps - 1)
    nested = side * _find_longest_chain(dimensions, coarse, steps, weights) + steps * axes * (side - 1)
""",
        (f"{RECORDS}::test_golden_chains",),
    ),
    Fault(
        "tables-of-pairs-for-one-cell",
        "Tables of two columns get noise for one cell, and not for the two that a replaced row changes.",
        "Linked records cost nearly twice the epsilon that is charged.",
        "synthetic/marginals.py",
        """L1_SENSITIVITY, SQUARED_L2_SENSITIVITY = 2, 2
""",
        """L1_SENSITIVITY, SQUARED_L2_SENSITIVITY = 1, 1
""",
        (f"{LINKED}::test_no_neighbours_move_the_tables_by_more_than_the_noise_is_for",),
    ),
    Fault(
        "tables-do-not-share-the-loss",
        "Every table of two columns gets all of the loss.",
        "Linked records cost as many times epsilon as there are tables.",
        "synthetic/marginals.py",
        """return [
        budget.take_share(share).build_noise(L1_SENSITIVITY, SQUARED_L2_SENSITIVITY)
        for share in compute_table_shares(sizes, budget)
    ]""",
        "return [budget.build_noise(L1_SENSITIVITY, SQUARED_L2_SENSITIVITY) for share in "
        "compute_table_shares(sizes, budget)]",
        (f"{LINKED}::test_no_neighbours_move_the_tables_by_more_than_the_noise_is_for",),
    ),
    Fault(
        "pairs-chosen-too-sharply",
        "Which pairs of columns are measured is chosen as if a row moved their scores by half of what it does.",
        "The choice of pairs costs twice its share of epsilon.",
        "synthetic/marginals.py",
        """PAIR_SENSITIVITY = 2
""",
        """PAIR_SENSITIVITY = 1
""",
        (f"{LINKED}::test_choices_together_lose_what_they_may_and_scores_move_as_far_as_that",),
    ),
    Fault(
        "choice-of-zcdp-not-converted",
        "A rho buys a choice of epsilon root 32 rho, and not root 8 rho.",
        "Names and pairs under a delta cost four times their rho.",
        "synthetic/columns.py",
        "math.floor(8 * self.rho * RHO_ROOT_UNITS**2)",
        "math.floor(32 * self.rho * RHO_ROOT_UNITS**2)",
        (f"{RECORDS}::test_names_under_zcdp",),
    ),
)
