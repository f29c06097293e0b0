"""Faults where rows are read, registered and summed."""

from __future__ import annotations

from dataclasses import replace

from .fault import Fault

UNCLIPPED = Fault(
    "sql-numbers-not-clipped-duckdb",
    "sources",
    "The SQL that registers a table leaves numbers beyond the upper bound as they are; DuckDB's tests look.",
    "One person's value without a bound moves a sum without a bound.",
    "sources/registration/sql.py",
    "ends = [(found <= least, exp.convert(column.lower)), (found >= greatest, exp.convert(column.upper))]\n"
    '    if column.kind == "date":\n'
    "        return when(*ends, otherwise=found)\n"
    "    times, over = reading.grid_of(column.step)\n"
    '    scaled = call("FLOOR", found * double(times) / double(over) + double(0.5))\n'
    "    inside = [(scaled < column.lower, exp.convert(column.lower)), "
    "(scaled > column.upper, exp.convert(column.upper))]\n",
    "ends = [(found <= least, exp.convert(column.lower)), (found > 100 * greatest, exp.convert(column.upper))]\n"
    '    if column.kind == "date":\n'
    "        return when(*ends, otherwise=found)\n"
    "    times, over = reading.grid_of(column.step)\n"
    '    scaled = call("FLOOR", found * double(times) / double(over) + double(0.5))\n'
    "    inside = [(scaled < column.lower, exp.convert(column.lower))]\n",
    ("test_registration.py::test_hard_texts_are_read_alike[arrow]",),
)
UNBOUNDED = Fault(
    "sql-rows-per-unit-not-bounded-duckdb",
    "sources",
    "The SQL that registers a table keeps all rows of a unit; DuckDB's tests look.",
    "Someone with a thousand rows is protected by a thousandth of epsilon's noise.",
    "sources/registration/bounding.py",
    'return over(ranked, columns([*codes, "u"])).where(exp.column("place") <= schema.rows)',
    'return over(ranked, columns([*codes, "u"]))',
    ("test_registration.py::test_units_keep_the_same_rows[arrow]",),
)

FAULTS = (
    Fault(
        "numbers-not-clipped",
        "sources",
        "A number above the upper bound keeps its own code.",
        "One person's value without a bound moves a sum without a bound.",
        "sources/reading.py",
        'return Reading(column.upper, "clipped" if number > greatest else "read")',
        'return Reading(int(min(number, 1e15)), "clipped" if number > greatest else "read")',
        ("test_reading.py::test_nothing_fails_and_every_code_is_in_the_domain",),
    ),
    Fault(
        "dates-not-clipped",
        "sources",
        "A date outside the bounds keeps its own day.",
        "One person's date moves an oldest day, or a mean, without a bound.",
        "sources/reading.py",
        "code = min(max(days, column.lower), column.upper)",
        "code = days",
        ("test_reading.py::test_nothing_fails_and_every_code_is_in_the_domain",),
    ),
    UNCLIPPED,
    replace(
        UNCLIPPED,
        name="sql-numbers-not-clipped-postgres",
        does="The same; PostgreSQL's tests look.",
        killers=("test_registration.py::test_hard_texts_are_read_alike[postgres]",),
    ),
    replace(
        UNCLIPPED,
        name="sql-numbers-not-clipped-spark",
        does="The same; Spark's tests look.",
        killers=("test_registration.py::test_hard_texts_are_read_alike[spark]",),
    ),
    Fault(
        "sql-dates-not-clipped",
        "sources",
        "The SQL that registers a table leaves dates outside the bounds as they are.",
        "One person's date moves a mean day without a bound.",
        "sources/registration/sql.py",
        "return when(*ends, otherwise=found)",
        "return found",
        ("test_registration.py::test_hard_texts_are_read_alike[arrow]",),
    ),
    Fault(
        "sql-missing-values-stay-missing",
        "sources",
        "The SQL that registers a table does not put the declared value where one is missing.",
        "Whether a value is missing changes how many rows count, which the schema says is public.",
        "sources/registration/sql.py",
        "    if column.missing is not None:\n        code = call",
        "    if column.missing is not None and column.private_keys:\n        code = call",
        ("test_registration.py::test_hard_texts_are_read_alike[arrow]",),
    ),
    Fault(
        "unknown-names-become-categories",
        "sources",
        "A name that the schema does not list gets a code of its own.",
        "Categories come from the data: that someone wrote a rare name is told by the layout.",
        "sources/reading.py",
        "return column.categories.index(name) if name in column.categories else None",
        "return column.categories.index(name) if name in column.categories else len(column.categories)",
        ("test_reading.py::test_nothing_fails_and_every_code_is_in_the_domain",),
    ),
    UNBOUNDED,
    replace(
        UNBOUNDED,
        name="sql-rows-per-unit-not-bounded-postgres",
        does="The same; PostgreSQL's tests look.",
        killers=("test_registration.py::test_units_keep_the_same_rows[postgres]",),
    ),
    Fault(
        "one-row-too-many-per-unit",
        "sources",
        "In memory a unit keeps one row more than the schema allows.",
        "Every noise is for one row less than a person has.",
        "sources/registration/memory.py",
        "key=lambda each: mark(key, each))[: schema.rows]]",
        "key=lambda each: mark(key, each))[: schema.rows + 1]]",
        ("test_registration.py::test_a_person_keeps_as_many_rows_as_allowed_in_any_order",),
    ),
    Fault(
        "missing-matches-every-condition",
        "sources",
        "In SQL a row with a missing value satisfies every condition on it.",
        "Counts are of other rows than the plan's, whose sensitivity was worked out.",
        "sources/conditions.py",
        "return _joined(exp.Or, [missing, present]) if predicate.null else present",
        "return _joined(exp.Or, [missing, present])",
        ("test_agreement.py::test_duckdb_agrees_with_the_plain_loop[500-20]",),
    ),
    Fault(
        "sums-in-floats",
        "sources",
        "DuckDB sums floats, and not whole numbers.",
        "Beyond 2^53 one row moves a sum by more, or less, than its value (Casacuberta and others 2022).",
        "sources/compile.py",
        'if dialect == "duckdb" or farthest * MOST_ROWS < BIGINT:\n        return exp.Sum(this=term)',
        'if dialect == "duckdb" or farthest * MOST_ROWS < BIGINT:\n        return exp.Sum(this=_cast(term, "DOUBLE"))',
        ("test_sources.py::test_sums_of_far_codes_do_not_overflow[duckdb-1]",),
    ),
    Fault(
        "sums-that-wrap",
        "sources",
        "PostgreSQL squares in 64 bits whatever the bounds.",
        "A sum that wraps moves by 2^64 with one row; one that fails tells of a row by its error.",
        "sources/compile.py",
        'return _cast(code, "BIGINT" if square < BIGINT else WIDE[dialect])',
        'return _cast(code, "BIGINT")',
        ("test_sources.py::test_sums_that_no_test_can_overflow_are_wide_enough",),
    ),
    Fault(
        "units-counted-by-rows",
        "sources",
        "In SQL a count of units is a count of rows.",
        "Someone with several rows moves it by as many, and the noise is for one.",
        "sources/compile.py",
        "return exp.Count(this=exp.Distinct(expressions=[_chosen(layout.unit(), measure, layout)]))",
        "return exp.Count(this=_chosen(layout.unit(), measure, layout))",
        ("test_agreement.py::test_duckdb_agrees_with_the_plain_loop[500-20]",),
    ),
    Fault(
        "sums-not-shifted",
        "sources",
        "What a plan wants subtracted from every value is not subtracted.",
        "A sum of value less lower bound has another sensitivity than the plan says.",
        "sources/cells.py",
        "return total - measure.lower * present",
        "return total",
        ("test_sources.py::test_every_measure_is_a_whole_number_of_python[duckdb]",),
    ),
    Fault(
        "bins-off-by-one",
        "sources",
        "Bins of an engine start one code too late.",
        "Values at an edge fall into the neighbouring bin, or out of all of them.",
        "sources/cells.py",
        "column.lower - (column.lower - bins.lower) % bins.width",
        "column.lower - (column.lower - bins.lower) % bins.width + 1",
        ("test_sources.py::test_keys_are_bins_counted_from_their_lower_end[duckdb]",),
    ),
    Fault(
        "an-absent-unit-is-no-row",
        "sources",
        "Asked for a unit that is not there, SQL returns no row, and the reader fails.",
        "The error tells whether someone is in the table, for nothing.",
        "sources/compile.py",
        "exp.select(exp.Max(this=self._layout.column(column)))",
        "exp.select(self._layout.column(column))",
        ("test_sources.py::test_one_unit_is_found_by_its_name[duckdb]",),
        dies_of="ValueError",
    ),
    Fault(
        "rows-released-in-their-order",
        "sources",
        "An engine's release leaves rows in whatever order they come.",
        "The order of the file tells whose row is whose.",
        "sources/release.py",
        'return query.order_by(*ordered([release.hash("order")]))',
        "return query",
        ("test_released.py::test_engines_agree_with_the_plain_loop[duckdb-9-2]",),
    ),
)
