"""Faults in protected files, and in the verifier that looks at them."""

from __future__ import annotations

from .fault import Fault

FAULTS = (
    Fault(
        "insensitive-groups-follow-the-data",
        "Insensitive microaggregation starts from a corner that depends on the records.",
        "One record changes many groups by more than a record: Proposition 7 does not hold.",
        "sdc/methods/microaggregate.py",
        "corner = label % len(places)",
        "corner = (label + int(groups.argmin())) % len(places)",
        ("unit/sdc/test_microaggregate.py::test_insensitive_groups_change_by_one_record",),
    ),
    Fault(
        "groups-of-k-less-one",
        "MDAV goes on until 2k - 1 records are left, so that the last group may have k - 1.",
        "A group is smaller than the k of its label.",
        "sdc/methods/mdav.py",
        "while remaining >= 2 * k:",
        "while remaining >= 2 * k - 1:",
        ("unit/sdc/test_microaggregate.py::test_no_group_has_fewer_than_k_rows",),
    ),
    Fault(
        "runs-of-k-less-one",
        "A run from the low end is taken until 2k - 1 ranks are left.",
        "The middle run of a swap has k - 1 rows: a value is its own with more than 1/k.",
        "query/scan.py",
        "return RankRuns(rows, k, rounds + (1 if left >= 2 * k else 0), rounds)",
        "return RankRuns(rows, k, rounds + (1 if left >= 2 * k - 1 else 0), rounds)",
        ("unit/sdc/test_methods.py::test_runs_come_from_both_ends",),
    ),
    Fault(
        "swap-without-permutation",
        "Values inside a group stay where they are.",
        "The file is the original, and says that it is not.",
        "sdc/table.py",
        "permutation[members] = order",
        "permutation[members] = members",
        ("unit/sdc/test_methods.py::test_every_order_of_draws_gives_another_permutation",),
    ),
    Fault(
        "swap-by-rotation",
        "Values inside a group move one place on, and are not permuted at random.",
        "Who knows the rule undoes it.",
        "sdc/table.py",
        "order = np.lexsort((bits, groups))",
        "order = np.lexsort((np.roll(np.arange(len(groups)), 1), groups))",
        ("unit/sdc/test_methods.py::test_permutations_fit_the_uniform_law_and_a_known_bias_does_not",),
    ),
    Fault(
        "t-not-kept-from-below",
        "A group may hold less of a bucket than t allows: the bound is rounded down.",
        "A bucket becomes more than t times less likely.",
        "sdc/methods/bucket_feasibility.py",
        "return lambda due, rows: (-(-due * denominator // (rows * numerator)), due * numerator // (rows * "
        "denominator))",
        "return lambda due, rows: (max(1, due * denominator // (rows * numerator)), due * numerator // (rows * "
        "denominator))",
        ("unit/sdc/test_t_closeness.py::test_deals_make_groups_of_the_right_sizes",),
    ),
    Fault(
        "closeness-one-way",
        "The ratio of a group to the whole is measured upwards only.",
        "A bucket that hardly occurs in a group, which tells as much, is called close.",
        "sdc/methods/bucket_feasibility.py",
        "max(max(a / b, b / a) for a, b in pairs)",
        "max(a / b for a, b in pairs)",
        ("unit/sdc/test_t_closeness.py::test_the_smallest_t_is_that_of_all_tables",),
    ),
    Fault(
        "verifier-counts-groups-loosely",
        "The verifier lets a class be one row smaller than the claim.",
        "A file that is not k-anonymous is certified.",
        "sdc/verify/evidence.py",
        "if smallest_size < (claim.k or 1):",
        "if smallest_size < (claim.k or 1) - 1:",
        ("unit/sdc/test_claims.py::test_a_greater_k_than_there_is_does_not_hold",),
    ),
    Fault(
        "verifier-does-not-look-whether-values-moved",
        "The verifier does not ask whether more values are on their own rows than chance brings there.",
        "A swap that moved nothing is certified.",
        "sdc/verify/evidence.py",
        """    if hits.excess_bound < MIN_DOUBT:
""",
        """    if hits.excess_bound < 0:
""",
        ("unit/sdc/test_claims.py::test_values_that_never_moved_break_the_claim",),
    ),
)
