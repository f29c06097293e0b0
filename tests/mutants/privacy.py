"""Faults in what a promise says, and in how promises add up."""

from __future__ import annotations

from .fault import Fault

FAULTS = (
    Fault(
        "conversion-rounded-down",
        "The epsilon that a rho implies is rounded down.",
        "Labels and totals promise more than is kept, by a hair.",
        "privacy/guarantee.py",
        "return order * rho + ln_above((order - 1) / order, bits) - subtrahend",
        "return order * rho - ln_above(order / (order - 1), bits) - subtrahend",
        ("unit/privacy/test_guarantee.py::test_the_conversion_rounds_up_at_every_order",),
    ),
    Fault(
        "conversion-at-half-of-rho",
        "A rho is converted as if it were half of it.",
        "Totals of Gaussian answers are told far too low.",
        "privacy/guarantee.py",
        "epsilon = compute_epsilon_at_order(order, self.rho, exact_delta)",
        "epsilon = compute_epsilon_at_order(order, self.rho / 2, exact_delta)",
        ("unit/privacy/test_guarantee.py::test_concentrated_becomes_approximate_on_the_safe_side",),
    ),
    Fault(
        "replaced-rows-in-one-partition",
        "Under replace-one a row counts in one of several disjoint accounts, and not in the two that it changes.",
        "Questions about disjoint parts cost up to twice what is told.",
        "privacy/guarantee.py",
        'max_accounts = rows if guarantees[0].neighbors == "add-remove" else 2 * rows',
        "max_accounts = rows",
        ("unit/privacy/test_guarantee.py::test_parallel_counts_the_largest_accounts_a_unit_can_reach",),
    ),
    Fault(
        "weaker-is-called-differential-privacy",
        "k-anonymity calls itself differential privacy.",
        "People trust a file with what it does not promise.",
        "privacy/guarantee.py",
        'f"{self.k}-anonymity: every record',
        'f"Differential privacy by {self.k}-anonymity: every record',
        ("unit/privacy/test_guarantee.py::test_words_never_call_anything_weaker_differential_privacy",),
    ),
    Fault(
        "high-ends-rounded-to-the-nearest",
        "The high end of a printed interval is rounded to the nearest, and not up.",
        "A sentence that promises the exact value in 95 of 100 cases holds in none where the noise is narrow.",
        "formatting.py",
        "_format_nonfinite(high) if exact_high is None else _format_decimal(exact_high, places, math.ceil),",
        "_format_nonfinite(high) if exact_high is None else _format_decimal(exact_high, places, _round_nearest),",
        ("unit/test_formatting.py::test_a_printed_interval_holds_the_computed_one",),
    ),
    Fault(
        "factors-rounded-to-the-nearest",
        "The factor of 'at most so many times as likely' is rounded to the nearest.",
        "A file's sentence promises a smaller factor than e^epsilon.",
        "formatting.py",
        "max(0, 2 - _compute_magnitude(factor - 1)), math.ceil)",
        "max(0, 2 - _compute_magnitude(factor - 1)), _round_nearest)",
        ("unit/test_formatting.py::test_at_most_so_many_times_as_likely_is_never_too_little",),
    ),
    Fault(
        "costs-rounded-down",
        "An epsilon, delta or rho of more than twelve digits is printed rounded down.",
        "A delta, a cost and a spent total are told as less than they are.",
        "formatting.py",
        "return format_upper(amount, AMOUNT_DIGITS)",
        "return format_lower(amount, AMOUNT_DIGITS)",
        ("unit/test_formatting.py::test_the_sentence_of_a_guarantee_promises_no_more_than_it",),
    ),
)
