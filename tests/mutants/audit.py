"""Faults in audits: events that are not looked at, and a confidence that does not hold."""

from __future__ import annotations

from .fault import Fault

FAULTS = (
    Fault(
        "audit-types-of-any-array-of-objects",
        "An array of objects tells the type of each draw, though a test draw may have made it one.",
        "A rare answer such as None changes how all others are read, after they were to be fixed.",
        "verification/audit/read_outputs.py",
        "return np.array(raw[TRAINING].tolist()).dtype == object",
        "return True",
        (
            "unit/verification/test_audit_types.py::test_one_test_draw_that_changes_the_type_of_an_array_changes_how_no_other_is_read",
        ),
    ),
    Fault(
        "audit-whole-numbers-by-test-draws",
        "Numbers of an array are read as whole ones only if those of the test are whole too.",
        "A rare answer that is not whole changes how all others are read, after they were to be fixed.",
        "verification/audit/read_outputs.py",
        "if not all(bool(mask[TRAINING].all()) for mask in is_integer):",
        "if not all(bool(mask.all()) for mask in is_integer):",
        (
            "unit/verification/test_audit_types.py::test_one_test_draw_that_changes_the_type_of_an_array_changes_how_no_other_is_read",
        ),
    ),
    Fault(
        "audit-zeros-after-digits",
        "Zeros at the end of a text are taken off only after it was tried as a number.",
        "Digits with zeros are a number in an array of texts and a text in one of objects: a rare None decides which.",
        "verification/audit/output_values.py",
        'return _normalize_text((value if isinstance(value, str) else value.decode("latin-1")).rstrip("\\0"))',
        """text = value if isinstance(value, str) else value.decode("latin-1")
            return text.rstrip("\\0") if _parse_numpy_text(text) is None else _normalize_text(text)""",
        (
            "unit/verification/test_audit_types.py::test_two_test_draws_that_change_the_type_of_an_array_change_how_no_other_is_read[digits]",
        ),
    ),
    Fault(
        "audit-moments-as-python-has-them",
        "A moment in nanoseconds is the whole number that Python makes of it, and one in days a date.",
        "A rare draw in nanoseconds changes how all other moments are read, and honest mechanisms are accused.",
        "verification/audit/output_values.py",
        "return _convert_ticks(parse_moment(value))",
        "return value.tolist() if isinstance(value, np.datetime64) else _convert_ticks(parse_moment(value))",
        (
            "unit/verification/test_audit_types.py::test_two_test_draws_that_change_the_type_of_an_array_change_how_no_other_is_read[days]",
        ),
    ),
    Fault(
        "audit-masked-entries-as-objects",
        "A masked training draw counts as an object that made an array one of objects.",
        "A rare answer such as None changes how all others of a masked array are read.",
        "verification/audit/read_outputs.py",
        "if raw.dtype != object or not isinstance(outputs, np.ndarray) or _is_masked(raw):",
        "if raw.dtype != object or not isinstance(outputs, np.ndarray):",
        ("unit/verification/test_audit_types.py::test_masked_entries_and_fields_are_read_by_value",),
    ),
    Fault(
        "audit-event-chosen-by-test-draws",
        "The event is chosen by all draws, and tested on half of them.",
        "Of thousands of events some look unlikely by chance: honest mechanisms are accused.",
        "verification/audit/audit.py",
        """candidate = choose_event(
        sample.take_every(0, 2), sample2.take_every(0, 2), float(claim.delta), float(claim.confidence)
    )""",
        "candidate = choose_event(sample, sample2, float(claim.delta), float(claim.confidence))",
        ("laws/test_audit_leaks.py::test_many_events_tried_cost_no_confidence",),
    ),
    Fault(
        "audit-residues-dropped",
        "Remainders after division are no events.",
        "Noise in steps of two shows whether a count is even, and the audit finds nothing.",
        "verification/audit/features.py",
        "return [build_residue_feature(scaled, modulus) for modulus in dict.fromkeys(moduli)]",
        "return []",
        ("laws/test_audit_leaks.py::test_a_leak_under_wide_noise_is_found[even or odd]",),
    ),
    Fault(
        "audit-common-steps-of-one",
        "Of the common divisors of differences only 1 is kept.",
        "Noise in steps of 1,009 shows a count, and the audit finds nothing.",
        "verification/audit/features.py",
        "if divisors[index] > 1 and counts[index] >= MIN_ALIKE",
        "if divisors[index] == 1 and counts[index] >= MIN_ALIKE",
        ("laws/test_audit_leaks.py::test_a_leak_under_wide_noise_is_found[steps of 1,009]",),
    ),
    Fault(
        "audit-one-scale-for-all-columns",
        "All columns are measured by the widest one.",
        "One draw used in two narrow columns beside wide ones is not found.",
        "verification/audit/combined_features.py",
        "scale = np.where(high > low, high - low, 1.0)",
        "scale = np.full(len(low), max(float((high - low).max()), 1.0))",
        ("laws/test_audit_leaks.py::test_a_leak_under_wide_noise_is_found[beside wide columns]",),
    ),
    Fault(
        "audit-first-columns-only",
        "Of many columns the first twelve are looked at, and not those that differ most.",
        "A leak in a later column is not found.",
        "verification/audit/combined_features.py",
        "return sorted(sorted(range(width), key=lambda index: -differences[index])[:MAX_COLUMNS])",
        "return sorted(sorted(range(width), key=lambda index: 0 * differences[index])[:MAX_COLUMNS])",
        ("laws/test_audit_leaks.py::test_a_leak_under_wide_noise_is_found[column 21 of 30]",),
    ),
)
