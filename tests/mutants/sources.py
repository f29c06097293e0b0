"""Faults where rows are read, registered and summed."""

from __future__ import annotations

from dataclasses import replace

from .fault import Fault

UNCLIPPED = Fault(
    "sql-numbers-not-clipped-duckdb",
    "The SQL that registers a table leaves numbers beyond the upper bound as they are; DuckDB's tests look.",
    "One person's value without a bound moves a sum without a bound.",
    "sources/ingest/clamp_and_bound.py",
    """end_cases = [
        (typed_value <= lower_bound, exp.convert(column.lower)),
        (typed_value >= upper_bound, exp.convert(column.upper)),
    ]
    if column.kind == "date":
        return build_case(*end_cases, otherwise=typed_value)
    multiplier, divisor = values.get_grid_factors(column.step)
    scaled = build_call("FLOOR", typed_value * build_double(multiplier) / build_double(divisor) + build_double(0.5))
    inner_cases = [
        (scaled < column.lower, exp.convert(column.lower)),
        (scaled > column.upper, exp.convert(column.upper)),
    ]""",
    """end_cases = [(typed_value <= lower_bound, exp.convert(column.lower)), (typed_value > 100 * upper_bound, exp.convert(column.upper))]
    if column.kind == "date":
        return build_case(*end_cases, otherwise=typed_value)
    multiplier, divisor = values.get_grid_factors(column.step)
    scaled = build_call("FLOOR", typed_value * build_double(multiplier) / build_double(divisor) + build_double(0.5))
    inner_cases = [(scaled < column.lower, exp.convert(column.lower))]
""",
    ("engines/test_registration.py::test_hard_texts_are_read_alike[arrow]",),
)
UNBOUNDED = Fault(
    "sql-rows-per-unit-not-bounded-duckdb",
    "The SQL that registers a table keeps all rows of a unit; DuckDB's tests look.",
    "Someone with a thousand rows is protected by a thousandth of epsilon's noise.",
    "sources/ingest/clamp_and_bound.py",
    'return select_from_query(numbered_rows, build_columns([*codes, "u"])).where(exp.column("place") <= schema.rows)',
    'return select_from_query(numbered_rows, build_columns([*codes, "u"]))',
    ("engines/test_registration.py::test_units_keep_the_same_rows[arrow]",),
)

FAULTS = (
    Fault(
        "numbers-not-clipped",
        "A number above the upper bound keeps its own code.",
        "One person's value without a bound moves a sum without a bound.",
        "sources/ingest/values.py",
        'return ParsedValue(column.upper, "clipped" if number > upper_bound else "read")',
        'return ParsedValue(int(min(number, 1e15)), "clipped" if number > upper_bound else "read")',
        ("unit/sources/test_values.py::test_nothing_fails_and_every_code_is_in_the_domain",),
    ),
    Fault(
        "dates-not-clipped",
        "A date outside the bounds keeps its own day.",
        "One person's date moves an oldest day, or a mean, without a bound.",
        "sources/ingest/values.py",
        "code = min(max(days, column.lower), column.upper)",
        "code = days",
        ("unit/sources/test_values.py::test_nothing_fails_and_every_code_is_in_the_domain",),
    ),
    UNCLIPPED,
    replace(
        UNCLIPPED,
        name="sql-numbers-not-clipped-postgres",
        does="The same; PostgreSQL's tests look.",
        killers=("engines/test_registration.py::test_hard_texts_are_read_alike[postgres]",),
    ),
    replace(
        UNCLIPPED,
        name="sql-numbers-not-clipped-spark",
        does="The same; Spark's tests look.",
        killers=("engines/test_registration.py::test_hard_texts_are_read_alike[spark]",),
    ),
    Fault(
        "sql-dates-not-clipped",
        "The SQL that registers a table leaves dates outside the bounds as they are.",
        "One person's date moves a mean day without a bound.",
        "sources/ingest/clamp_and_bound.py",
        "return build_case(*end_cases, otherwise=typed_value)",
        "return typed_value",
        ("engines/test_registration.py::test_hard_texts_are_read_alike[arrow]",),
    ),
    Fault(
        "sql-missing-values-stay-missing",
        "The SQL that registers a table does not put the declared value where one is missing.",
        "Whether a value is missing changes how many rows count, which the schema says is public.",
        "sources/ingest/clamp_and_bound.py",
        """    if column.missing is not None:
        code = build_call""",
        """    if column.missing is not None and column.private_keys:
        code = build_call""",
        ("engines/test_registration.py::test_hard_texts_are_read_alike[arrow]",),
    ),
    Fault(
        "unknown-names-become-categories",
        "A name that the schema does not list gets a code of its own.",
        "Categories come from the data: that someone wrote a rare name is told by the layout.",
        "sources/ingest/values.py",
        "return column.categories.index(name) if name in column.categories else None",
        "return column.categories.index(name) if name in column.categories else len(column.categories)",
        ("unit/sources/test_values.py::test_nothing_fails_and_every_code_is_in_the_domain",),
    ),
    UNBOUNDED,
    replace(
        UNBOUNDED,
        name="sql-rows-per-unit-not-bounded-postgres",
        does="The same; PostgreSQL's tests look.",
        killers=("engines/test_registration.py::test_units_keep_the_same_rows[postgres]",),
    ),
    Fault(
        "one-row-too-many-per-unit",
        "In memory a unit keeps one row more than the schema allows.",
        "Every noise is for one row less than a person has.",
        "sources/ingest/memory.py",
        """key=lambda unit_row: hash_row(key, unit_row))[: schema.rows]
    ]""",
        "key=lambda unit_row: hash_row(key, unit_row))[: schema.rows + 1]]",
        ("engines/test_registration.py::test_a_person_keeps_as_many_rows_as_allowed_in_any_order",),
    ),
    Fault(
        "missing-matches-every-condition",
        "In SQL a row with a missing value satisfies every condition on it.",
        "Counts are of other rows than the plan's, whose sensitivity was worked out.",
        "sources/sql.py",
        "return _join_conditions(exp.Or, [is_missing, value_condition]) if predicate.null else value_condition",
        "return _join_conditions(exp.Or, [is_missing, value_condition])",
        ("engines/test_agreement.py::test_duckdb_agrees_with_the_plain_loop[500-20]",),
    ),
    Fault(
        "sums-in-floats",
        "DuckDB sums floats, and not whole numbers.",
        "Beyond 2^53 one row moves a sum by more, or less, than its value (Casacuberta and others 2022).",
        "sources/sql.py",
        """if dialect == "duckdb" or max_magnitude * MAX_SNAPSHOT_ROWS < INT64_LIMIT:
        return exp.Sum(this=term)""",
        """if dialect == "duckdb" or max_magnitude * MAX_SNAPSHOT_ROWS < INT64_LIMIT:
        return exp.Sum(this=_cast_term(term, "DOUBLE"))""",
        ("engines/test_sources.py::test_sums_of_far_codes_do_not_overflow[duckdb-1]",),
    ),
    Fault(
        "sums-that-wrap",
        "PostgreSQL squares in 64 bits whatever the bounds.",
        "A sum that wraps moves by 2^64 with one row; one that fails tells of a row by its error.",
        "sources/sql.py",
        'return _cast_term(code, "BIGINT" if square < INT64_LIMIT else WIDE_TYPES[dialect])',
        'return _cast_term(code, "BIGINT")',
        ("engines/test_sources.py::test_sums_that_no_test_can_overflow_are_wide_enough",),
    ),
    Fault(
        "units-counted-by-rows",
        "In SQL a count of units is a count of rows.",
        "Someone with several rows moves it by as many, and the noise is for one.",
        "sources/sql.py",
        "return exp.Count(this=exp.Distinct(expressions=[unit]))",
        "return exp.Count(this=unit)",
        ("engines/test_agreement.py::test_duckdb_agrees_with_the_plain_loop[500-20]",),
    ),
    Fault(
        "spark-keeps-text-that-is-not-unicode",
        "Registration with Spark keeps texts whose bytes are not UTF-8.",
        "Two people whose names Python cannot tell apart look like one, and texts that merge are keys of a snapshot.",
        "sources/sql_dialects.py",
        """    is_unicode=lambda value: build_call("IS_VALID_UTF8", value),
""",
        "",
        ("engines/test_text_encoding.py::test_spark_reads_such_texts_as_memory_does",),
    ),
    Fault(
        "old-spark-snapshots-read-raw",
        "A snapshot that was registered with texts that are not UTF-8 is read as it is.",
        "Keys that Python cannot tell apart come as one, and what is read of them is not what is counted.",
        "sources/spark.py",
        "_blank_invalid_texts(schema, session.read.parquet(_build_folder_uri(path))).createTempView",
        "session.read.parquet(_build_folder_uri(path)).createTempView",
        ("engines/test_text_encoding.py::test_a_snapshot_of_before_that_holds_such_texts_is_read_safely",),
    ),
    Fault(
        "units-added-over-merged-keys",
        "Where an engine returns one key twice, its numbers of units are added.",
        "Someone with several rows counts several times at a key of their own, which is then shown far too often.",
        "sources/sql.py",
        'max if measure.what == "units" else add for measure in measures',
        "add for _ in measures",
        ("engines/test_text_encoding.py::test_one_unit_moves_a_merged_count_by_at_most_one",),
    ),
    Fault(
        "memory-keeps-text-that-is-not-unicode",
        "The reference for all engines takes halves of surrogate pairs for text.",
        "What an engine must not keep agrees with the reference, and no comparison of engines finds it.",
        "sources/ingest/values.py",
        "        return NOT_UNICODE\n",
        "        return text\n",
        ("engines/test_text_encoding.py::test_halves_of_surrogate_pairs_name_nothing_in_memory",),
    ),
    Fault(
        "sums-not-shifted",
        "What a plan wants subtracted from every value is not subtracted.",
        "A sum of value less lower bound has another sensitivity than the plan says.",
        "sources/sql.py",
        "return total - measure.lower * present",
        "return total",
        ("engines/test_sources.py::test_every_measure_is_a_whole_number_of_python[duckdb]",),
    ),
    Fault(
        "bins-off-by-one",
        "Bins of an engine start one code too late.",
        "Values at an edge fall into the neighbouring bin, or out of all of them.",
        "sources/sql.py",
        "column.lower - (column.lower - bins.lower) % bins.width",
        "column.lower - (column.lower - bins.lower) % bins.width + 1",
        ("engines/test_sources.py::test_keys_are_bins_counted_from_their_lower_end[duckdb]",),
    ),
    Fault(
        "an-absent-unit-is-no-row",
        "Asked for a unit that is not there, SQL returns no row, and the reader fails.",
        "The error tells whether someone is in the table, for nothing.",
        "sources/sql.py",
        "exp.select(exp.Max(this=self._layout.get_column(column)))",
        "exp.select(self._layout.get_column(column))",
        ("engines/test_sources.py::test_one_unit_is_found_by_its_name[duckdb]",),
        dies_of="ValueError",
    ),
    Fault(
        "rows-released-in-their-order",
        "An engine's release leaves rows in whatever order they come.",
        "The order of the file tells whose row is whose.",
        "sources/sql_release.py",
        'return query.order_by(*order_nulls_last([release_query.build_hash("order")]))',
        "return query",
        ("engines/test_release_in_database.py::test_engines_agree_with_the_plain_loop[duckdb-9-2]",),
    ),
)
