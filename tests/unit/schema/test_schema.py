"""Schemas: read by what is declared, closed, refused in one plain sentence; what analysts may see of them."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from discreet import InvalidInput
from discreet.schema import Budget, Column, Schema, SourceAddress, load_schema, schema_from_text, schema_to_public_json
from discreet.schema.schema import MAX_CODE
from discreet.schema.yaml import read_document
from support.published_data import find_shared_data

WHOLE_SCHEMA = """\
name: registry
source: registry.csv
neighbours: replace-one
units: 50000
unit: {column: person_id, rows: 1}
budget: {epsilon: 3, delta: 1e-6}
analyst_budget: {epsilon: 1, delta: 1e-7}
models: [dp, approx-dp]
individual_queries: yes
partition: sex
published:
  - {statistic: "SELECT COUNT(*) FROM registry WHERE sex = 'F'", value: 25013}
lookups:
  icd: {file: icd.csv, key: diagnosis}
columns:
  person_id: {role: identifier}
  age: {kind: integer, lower: 17, upper: 90, role: quasi-identifier}
  income: {kind: number, lower: 0, upper: 500000, step: 0.01, role: confidential, missing: 0}
  admitted: {kind: date, lower: 2015-01-01, upper: 2025-12-31}
  smoker: {kind: boolean}
  sex: {kind: nominal, categories: [F, M], missing_values: ["?"]}
  education: {kind: ordinal, categories: [none, school, degree]}
  occupation: {kind: nominal, taxonomy: occupation.json}
  diagnosis: {kind: nominal, categories: [A1, B2, C3]}
  city: {kind: nominal, keys: private}
"""
SCHEMA_OF_ROWS = "".join(
    line for line in WHOLE_SCHEMA.splitlines(True) if not re.search("lookups|icd|occupation", line)
)
"""The same without other files."""
SMALLEST_SCHEMA = (
    "name: t\nsource: t.csv\nneighbours: add-remove\nbudget: {epsilon: 1}\ncolumns: {x: {kind: boolean}}\n"
)
OCCUPATION = {"parents": {"nurse": "carer", "carer": ["worker"], "cook": "worker", "worker": []}}


@pytest.fixture
def schema_folder(tmp_path: Path) -> Path:
    (tmp_path / "occupation.json").write_text(json.dumps(OCCUPATION))
    (tmp_path / "icd.csv").write_text("code,chapter,severity,site\nB2,skin,3,\nA1,lung,-1,left\nZ9,bone,70,\n")
    (tmp_path / "registry.yaml").write_text(WHOLE_SCHEMA)
    return tmp_path


def load_column(declaration: str, folder: Path = Path("/")) -> Column:
    """The column x of a schema that declares it so."""
    text = SMALLEST_SCHEMA.replace("{kind: boolean}", declaration)
    return schema_from_text(text, folder).columns["x"]


def read_refusal(text: str, folder: Path = Path("/")) -> str:
    """Why a schema is refused."""
    with pytest.raises(InvalidInput) as caught:
        schema_from_text(text, folder)
    return str(caught.value)


def test_a_schema_says_what_its_file_says(schema_folder: Path) -> None:
    schema = load_schema(schema_folder / "registry.yaml")
    assert (schema.name, schema.source, schema.folder) == ("registry", "registry.csv", schema_folder)
    assert (schema.neighbors, schema.units, schema.unit, schema.rows) == ("replace-one", 50000, "person_id", 1)
    assert schema.budget == Budget(Fraction(3), Fraction(1, 10**6))
    assert schema.analyst_budget == Budget(Fraction(1), Fraction(1, 10**7))
    assert (schema.models, schema.individual_queries, schema.partition) == (("dp", "approx-dp"), True, "sex")
    assert schema.lookups == {"icd": "diagnosis"}
    assert [(published_count.statistic[-3:], published_count.value) for published_count in schema.published] == [
        ("'F'", "25013")
    ]
    assert schema.unit_name == "unit (person_id)"


def test_columns_are_codes(schema_folder: Path) -> None:
    """Numbers in steps, dates in days, categories by place; an identifier is not there at all."""
    columns = load_schema(str(schema_folder / "registry.yaml")).columns
    assert "person_id" not in columns
    assert columns["age"] == Column("age", "integer", 17, 90, role="quasi-identifier")
    income = Column("income", "number", 0, 50_000_000, Fraction(1, 100), role="confidential", missing=0)
    assert columns["income"] == income
    assert columns["admitted"] == Column("admitted", "date", 16436, 20453)
    assert columns["smoker"] == Column("smoker", "boolean", 0, 1, categories=("false", "true"))
    assert columns["sex"] == Column("sex", "nominal", 0, 1, categories=("F", "M"), missing_values=("?",))
    assert columns["education"].categories == ("none", "school", "degree")
    assert columns["city"] == Column("city", "nominal", private_keys=True)
    assert (columns["age"].is_nullable, columns["income"].is_nullable) == (True, False)


def test_what_is_left_out_has_its_default() -> None:
    schema = schema_from_text(SMALLEST_SCHEMA, Path("/"))
    assert (schema.units, schema.unit, schema.rows, schema.models) == (None, None, 1, ("dp",))
    assert schema.analyst_budget == schema.budget == Budget(Fraction(1), Fraction(0))
    assert (schema.individual_queries, schema.partition, schema.published, schema.unit_name) == (False, None, (), "row")


@pytest.mark.parametrize(
    "text", ["NO", "yes", "null", "~", "12:30", "1e3", "0x1F", "2015-01-01", ".nan", "0o7", "=", "<<"]
)
def test_a_text_is_never_taken_for_something_else(text: str) -> None:
    """Norway stays NO; YAML's own guesses do not apply."""
    assert load_column(f"{{kind: nominal, categories: [{text}, other]}}").categories == (text, "other")


def test_numbers_are_read_by_their_digits() -> None:
    assert schema_from_text(
        SMALLEST_SCHEMA.replace("epsilon: 1", "epsilon: 0.1, delta: 1e-6"), Path("/")
    ).budget == Budget(Fraction(1, 10), Fraction(1, 10**6))
    assert load_column("{kind: number, lower: -0.3, upper: 1e2, step: 0.1}") == Column(
        "x", "number", -3, 1000, Fraction(1, 10)
    )
    assert load_column("{kind: integer, lower: 010, upper: '1000', step: 5}") == Column(
        "x", "integer", 2, 200, Fraction(5)
    )
    assert load_column("{kind: number, lower: 0, upper: 2, step: 1/3}").decode(4) == Fraction(4, 3)


def test_space_around_a_text_is_trimmed() -> None:
    assert load_column('{kind: ordinal, categories: [" low ", "\\thigh\\r\\n"]}').categories == ("low", "high")


def test_a_missing_value_can_stand_for_one_of_each_kind() -> None:
    for declaration, code in (
        ("{kind: integer, lower: -5, upper: 5, missing: -5}", -5),
        ("{kind: number, lower: 0, upper: 1, step: 0.25, missing: 0.5}", 2),
        ("{kind: date, lower: 1969-12-31, upper: 1970-01-03, missing: 1970-01-02}", 1),
        ("{kind: boolean, missing: True}", 1),
        ("{kind: nominal, categories: [a, b], missing: b}", 1),
    ):
        assert load_column(declaration).missing == code


@given(
    st.fractions(-(10**6), 10**6, max_denominator=1000),
    st.fractions(-(10**6), 10**6, max_denominator=1000),
    st.fractions(Fraction(1, 1000), 1000, max_denominator=1000),
)
def test_bounds_are_codes_or_are_refused(one: Fraction, two: Fraction, step: Fraction) -> None:
    """Bounds on the step give codes that stand for exactly them; any others are refused, never rounded."""
    text = f"{{kind: number, lower: {one}, upper: {two}, step: {step}}}"
    good = one <= two and (one / step).denominator == (two / step).denominator == 1
    if good:
        read = load_column(text)
        assert (read.decode(read.lower), read.decode(read.upper)) == (one, two)
    else:
        with pytest.raises(InvalidInput, match=r"the bounds of x (are reversed|must be multiples of its step)"):
            load_column(text)


@given(st.integers(-MAX_CODE, MAX_CODE), st.integers(0, 10**9), st.sampled_from(["0.01", "1", "2.5", "1/7"]))
def test_bounds_round_trip(lower: int, width: int, step: str) -> None:
    """Any codes within 2^44 of 0 can be declared by the values they stand for."""
    upper = lower + width
    assume(upper <= MAX_CODE)
    read = load_column(
        f"{{kind: number, lower: {lower * Fraction(step)}, upper: {upper * Fraction(step)}, step: {step}}}"
    )
    assert (read.lower, read.upper, read.size) == (lower, upper, width + 1)


@given(st.dates(), st.dates())
def test_dates_are_days(one: date, two: date) -> None:
    text = f"{{kind: date, lower: {one.isoformat()}, upper: {two.isoformat()}}}"
    if one <= two:
        read = load_column(text)
        assert (read.decode(read.lower), read.decode(read.upper)) == (one, two)
    else:
        with pytest.raises(InvalidInput, match=f"the bounds of x are reversed: lower {one}, upper {two}"):
            load_column(text)


PLAIN = "must be a plain number such as 0.5, 3 or 1e-6, got"


@pytest.mark.parametrize(
    ("declaration", "sentence"),
    [
        ("{kind: integer, upper: 9}", "column x of kind integer needs lower; add it as lower: ..."),
        ("{kind: date, lower: 2015-01-01}", "column x of kind date needs upper; add it as upper: ..."),
        ("{kind: number, lower: 0, upper: 9}", "column x of kind number needs step; add it as step: ..."),
        (
            "{kind: integer, lower:, upper: 9}",
            "the lower bound of x is empty; write a value, or leave it out where it is optional",
        ),
        (
            "{kind: integer, lower: [1], upper: 9}",
            "the lower bound of x must be a single value, not a list or a mapping",
        ),
        ("{kind: integer, lower: 9, upper: 1}", "the bounds of x are reversed: lower 9, upper 1"),
        ("{kind: integer, lower: .nan, upper: 9}", f"the lower bound of x {PLAIN} '.nan'"),
        ("{kind: integer, lower: 0, upper: inf}", f"the upper bound of x {PLAIN} 'inf'"),
        ("{kind: integer, lower: 0, upper: 1e400}", f"the upper bound of x {PLAIN} '1e400'"),
        ("{kind: integer, lower: young, upper: 9}", f"the lower bound of x {PLAIN} 'young'"),
        (
            "{kind: integer, lower: 0.5, upper: 9}",
            "the bounds of x must be multiples of its step 1; the nearest are 0 and 9",
        ),
        (
            "{kind: number, lower: 0, upper: 9, step: 1e-13}",
            "x has more than 2^44 steps between 0 and a bound; declare a coarser step",
        ),
        ("{kind: number, lower: 0, upper: 9, step: 0}", "the step of x must be above 0, got 0"),
        (
            "{kind: integer, lower: 0, upper: 9, step: 0.5}",
            "the step of x must be a whole number of at least 1, got 0.5",
        ),
        (
            "{kind: number, lower: 0, upper: 1e-290, step: 1e-300}",
            "the step of x must be a ratio of whole numbers of at most 2^53, such as 0.01",
        ),
        (
            "{kind: date, lower: 2015-02-29, upper: 2016-01-01}",
            "the lower bound of x is a date such as 2024-02-29, got '2015-02-29'",
        ),
        (
            "{kind: date, lower: 2015-01-01, upper: 20160101}",
            "the upper bound of x is a date such as 2024-02-29, got '20160101'",
        ),
        ("{kind: ordinal}", "column x of kind ordinal needs categories; add it as categories: ..."),
        ("{kind: ordinal, categories: []}", "x must have 1 to 100000 categories, got 0"),
        ("{kind: ordinal, categories: a}", "the categories of x must be a list such as [a, b]"),
        (
            '{kind: ordinal, categories: [a, " "]}',
            "an entry of the categories of x is empty; write a value, or leave it out where it is optional",
        ),
        ("{kind: ordinal, categories: [a, b, a]}", "the categories of x have 'a' twice; list each once"),
        (
            "{kind: nominal, categories: [a, NA], missing_values: [NA]}",
            "'NA' is a category of x and also among its missing_values; choose one",
        ),
        (
            "{kind: nominal}",
            "column x needs exactly one of categories, taxonomy and keys: private, for its values",
        ),
        (
            "{kind: nominal, categories: [a], keys: private}",
            "column x needs exactly one of categories, taxonomy and keys: private, for its values",
        ),
        (
            "{kind: integr, lower: 0, upper: 9}",
            "the kind of x must be one of integer, number, boolean, date, ordinal, nominal, got 'integr'; "
            "did you mean 'integer'?",
        ),
        ("{kind: nominal, keys: public}", "keys of x must be one of private, got 'public'"),
        (
            "{kind: nominal, keys: private, missing: a}",
            "missing of x cannot be declared, since its keys are private; leave it out",
        ),
        ("{kind: nominal, categories: [a, b], missing: c}", "unknown category 'c' of column x; use one of a, b"),
        (
            "{kind: integer, lower: 0, upper: 9, missing: 10}",
            "missing of x must be one of its values, within its bounds and on its step, got '10'",
        ),
        (
            "{kind: integer, lower: 0, upper: 9, missing: 1.5}",
            "missing of x must be one of its values, within its bounds and on its step, got '1.5'",
        ),
        ("{lower: 0, upper: 9}", "column x needs kind; add it as kind: ..."),
        (
            "{kind: float, lower: 0, upper: 9}",
            "the kind of x must be one of integer, number, boolean, date, ordinal, nominal, got 'float'",
        ),
        (
            "{kind: boolean, role: secret}",
            "the role of x must be one of identifier, quasi-identifier, confidential, other, got 'secret'",
        ),
        (
            "{kind: boolean, lower: 0}",
            "unknown key 'lower' of column x of kind boolean; use one of kind, role, missing, missing_values",
        ),
        (
            "{kind: integer, lowest: 0, upper: 9}",
            "unknown key 'lowest' of column x; did you mean 'lower'?",
        ),
        (
            "{kind: integer, minimum: 0, upper: 9}",
            "unknown key 'minimum' of column x; use one of kind, role, missing, missing_values, lower, upper, step, "
            "counts, categories, taxonomy and 1 more",
        ),
        ("integer", "column x must be a mapping such as {kind: ...}"),
        (
            "{kind: nominal, taxonomy: absent.json}",
            "the taxonomy of x, 'absent.json', cannot be read; check that the file is there and may be read",
        ),
        ("{role: identifier}", "columns must declare at least one column that is not an identifier"),
    ],
)
def test_a_column_is_refused_in_one_sentence(declaration: str, sentence: str) -> None:
    assert read_refusal(SMALLEST_SCHEMA.replace("{kind: boolean}", declaration)) == sentence


KEYS = (
    "name, source, neighbours, units, unit, budget, analyst_budget, models, individual_dp_reason, individual_queries "
    "and 5 more"
)
FIRST_63 = "must be 1 to 63 letters, digits and _, no digit first, got"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("budget: {", "buget: {", "unknown key 'buget' of the schema; did you mean 'budget'?"),
        ("budget: {", "cap: {", f"unknown key 'cap' of the schema; use one of {KEYS}"),
        ("budget: {epsilon: 1}\n", "", "the schema needs budget; add it as budget: ..."),
        ("name: t", "name: my table", f"name {FIRST_63} 'my table'"),
        ("name: t", "name: 1t", f"name {FIRST_63} '1t'"),
        ("name: t", f"name: {'t' * 64}", f"name {FIRST_63} '{'t' * 40}'"),
        ("{x:", "{x-y:", f"a column's name {FIRST_63} 'x-y'"),
        ("{x:", "{X: {kind: boolean}, x:", "the names X and x are the same to SQL; rename one"),
        ("{x:", "{naïve:", f"a column's name {FIRST_63} 'naïve'"),
        (
            "t.csv",
            "t.xlsx",
            "a source must be a .csv or .parquet file, postgresql://host/db#schema.table, spark:catalog.table, or "
            "memory where a table is handed to Custodian.open",
        ),
        ("add-remove", "replace", "neighbours must be one of add-remove, replace-one, got 'replace'"),
        (
            "add-remove",
            "replace-one",
            "units, the public number of units, must be given under replace-one and left out under add-remove",
        ),
        (
            "add-remove",
            "add-remove\nunits: 5",
            "units, the public number of units, must be given under replace-one and left out under add-remove",
        ),
        ("add-remove", "replace-one\nunits: 2.5", "units must be a whole number of at least 1, got 2.5"),
        ("epsilon: 1", "epsilon: 0", "the epsilon of budget must be above 0, got 0"),
        ("epsilon: 1", "epsilon: -inf", f"the epsilon of budget {PLAIN} '-inf'"),
        (
            "epsilon: 1",
            "epsilon: 1, max_epsilon: 0.5",
            "the max_epsilon of budget must be at least its epsilon, which is 1, got 0.5",
        ),
        (
            "epsilon: 1",
            "epsilon: 1, max_epsilon: much",
            "the max_epsilon of budget must be a plain number such as 0.5, 3 or 1e-6, got 'much'",
        ),
        ("epsilon: 1", "epsilon: 1, delta: 1", "the delta of budget must be at least 0 and below 1, got 1"),
        ("epsilon: 1", "epsilon: 1, delta: -1e-9", "the delta of budget must be at least 0 and below 1, got -1e-09"),
        ("{epsilon: 1}", "{delta: 0.1}", "budget needs epsilon; add it as epsilon: ..."),
        ("{epsilon: 1}", "1", "budget must be a mapping such as {epsilon: ...}"),
        ("name: t", "name: t\nunit: person", "unit must be a mapping such as {column: ...}"),
        ("name: t", "name: t\nunit: {column: p, rows: 0}", "rows must be a whole number of at least 1, got 0"),
        (
            "name: t",
            "name: t\nunit: {column: x}",
            "x names the units, so it cannot be asked about; give it the role identifier or leave it out",
        ),
        ("name: t", "name: t\nunit: {column: X}", "the names x and X are the same to SQL; rename one"),
        (
            "name: t",
            "name: t\nindividual_queries: yes",
            "individual_queries needs a unit column with rows: 1, so that one row answers",
        ),
        (
            "name: t",
            "name: t\nunit: {column: p, rows: 2}\nindividual_queries: true",
            "individual_queries needs a unit column with rows: 1, so that one row answers",
        ),
        (
            "name: t",
            "name: t\nindividual_queries: 1",
            "individual_queries must be one of yes, true, no, false, got '1'",
        ),
        ("name: t", "name: t\nmodels: dp", "models must be a list such as [a, b]"),
        ("name: t", "name: t\nmodels: []", "models must list one or more of dp, approx-dp, individual-dp, each once"),
        (
            "name: t",
            "name: t\nmodels: [zcdp]",
            "models must list one or more of dp, approx-dp, individual-dp, each once",
        ),
        (
            "name: t",
            "name: t\nmodels: [dp, dp]",
            "models must list one or more of dp, approx-dp, individual-dp, each once",
        ),
        (
            "name: t",
            "name: t\nmodels: [approx-dp]",
            "the model approx-dp needs a delta above 0 in budget and in analyst_budget",
        ),
        (
            "epsilon: 1}",
            "epsilon: 1, delta: 0.1}\nanalyst_budget: {epsilon: 1}\nmodels: [approx-dp]",
            "the model approx-dp needs a delta above 0 in budget and in analyst_budget",
        ),
        (
            "name: t",
            "name: t\nmodels: [dp, individual-dp]",
            "the model individual-dp is weaker; say why it is allowed in individual_dp_reason",
        ),
        (
            "epsilon: 1}",
            "epsilon: 1, delta: 0.1}\nmodels: [approx-dp, individual-dp]\nindividual_dp_reason: a study",
            "the models approx-dp and individual-dp cannot stand together; choose one",
        ),
        ("name: t", "name: t\npartition: y", "unknown column 'y'; use x"),
        (
            "{kind: boolean}}",
            "{kind: integer, lower: 0, upper: 1}}\npartition: x",
            "partition must name a column with public categories; x has none",
        ),
        (
            "{kind: boolean}}",
            "{kind: nominal, keys: private}}\npartition: x",
            "partition must name a column with public categories; x has none",
        ),
        ("name: t", "name: t\npublished: [{statistic: s}]", "an entry of published needs value; add it as value: ..."),
        ("name: t", "name: t\npublished: s", "published must be a list such as [a, b]"),
        (
            "{x: {kind: boolean}}",
            "[x]",
            "columns must be a mapping such as {age: {kind: integer, lower: 0, upper: 120}}",
        ),
        ("name: t", "name: t\nlookups: {T: {file: f, key: x}}", "the names t and T are the same to SQL; rename one"),
        ("name: t", "name: t\nlookups: {t: {file: f, key: x}}", "the names t and t are the same to SQL; rename one"),
        ("name: t", "name: t\nlookups: {a b: {file: f, key: x}}", f"a lookup's name {FIRST_63} 'a b'"),
        ("name: t", "name: t\nlookups: {l: {file: f}}", "lookup l needs key; add it as key: ..."),
    ],
)
def test_a_schema_is_refused_in_one_sentence(old: str, new: str, sentence: str) -> None:
    assert old in SMALLEST_SCHEMA
    assert read_refusal(SMALLEST_SCHEMA.replace(old, new)) == sentence


TAGGED = "has an anchor (&), an alias (*) or a tag (!); write the value out, or in quotes if it is a text"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the schema is empty; declare name, source, neighbours, budget and columns"),
        ("# nothing", "the schema is empty; declare name, source, neighbours, budget and columns"),
        (
            "[a]",
            "the schema must be a mapping such as {name: ..., source: ..., neighbours: ..., budget: ..., columns: ...}",
        ),
        (SMALLEST_SCHEMA + "name: u\n", "line 6 of the schema gives 'name' again; give every key once"),
        (
            SMALLEST_SCHEMA + "--- \na: b\n",
            "a schema is one YAML document; remove the second line --- and what follows it",
        ),
        ("a: &x 1\nb: 2", f"line 1 of the schema {TAGGED}"),
        ("a: 1\nb: *x", f"line 2 of the schema {TAGGED}"),
        ("a: !!python/object:os.system {}", f"line 1 of the schema {TAGGED}"),
        ("a: !!str 1", f"line 1 of the schema {TAGGED}"),
        ("? [a]\n: b", "line 1 of the schema has a key that is not text; write key: value"),
        ("a: " + "[" * 9 + "]" * 9, "line 1 of the schema is nested more than 8 deep; a schema needs at most 4"),
        ("a: " + "[" * 400_000, "line 1 of the schema is nested more than 8 deep; a schema needs at most 4"),
        ("a: [1", "the schema is not valid YAML at line 1; write key: value, one key to a line"),
        ("a: b: c", "the schema is not valid YAML at line 1; write key: value, one key to a line"),
        ("a: \x01", "the schema is not valid YAML; write key: value, one key to a line"),
        ('a: "\\UFFFFFFFF"', "the schema is not valid YAML; write key: value, one key to a line"),
        ('a: "\\0"', "line 1 of the schema has a character that cannot be written, such as NUL; remove it"),
        ('a: "\\ud800"', "line 1 of the schema has a character that cannot be written, such as NUL; remove it"),
        ("a" * 1_000_001, "a schema has at most 1000000 characters, this text has 1000001; use taxonomy files"),
    ],
)
def test_a_text_that_is_no_plain_yaml_is_refused(text: str, sentence: str) -> None:
    """No objects, no references, nothing that repeats or nests without end."""
    assert read_refusal(text) == sentence


def test_what_is_read_is_called_by_its_name() -> None:
    """A configuration is no schema."""
    for text, says in (
        ("a: 1\na: 2", "line 2 of the configuration gives 'a' again; give every key once"),
        ("a: " + "[" * 9 + "]" * 9, "line 1 of the configuration is nested more than 8 deep; a configuration needs at"),
        ("a: !x 1", f"line 1 of the configuration {TAGGED}"),
    ):
        with pytest.raises(InvalidInput, match=re.escape(says)):
            read_document(text, "configuration")


def test_what_is_undecided_is_named() -> None:
    text = SMALLEST_SCHEMA.replace("add-remove", "DECIDE").replace("epsilon: 1", "epsilon: DECIDE")
    text = text.replace(
        "{kind: boolean}", "{kind: integer, lower: DECIDE, upper: 9}, y: {kind: nominal, categories: [DECIDE]}"
    )
    assert read_refusal(text) == (
        "the custodian has still to decide, in place of DECIDE: "
        "neighbours, epsilon of budget, lower of column x, categories of column y"
    )
    many = ", ".join(f"x{place}: DECIDE" for place in range(20))
    assert read_refusal(SMALLEST_SCHEMA.replace("x: {kind: boolean}", many)).endswith("column x9 and 10 more")


@given(st.text(max_size=200))
def test_any_text_is_refused_plainly(text: str) -> None:
    """Whatever comes, nothing but a plain refusal comes out."""
    sentence = read_refusal(text)
    assert sentence
    assert "\n" not in sentence
    assert len(sentence) < 400


@given(st.integers(0, len(SCHEMA_OF_ROWS)), st.integers(0, 12), st.text("{}[]:,&*!?-|>'\"#%@`\n\\ aN0.", max_size=6))
def test_a_damaged_schema_is_read_or_refused(place: int, cut: int, put: str) -> None:
    """A slip of the finger gives another schema or a refusal, never another error."""
    assert schema_from_text(SCHEMA_OF_ROWS, Path("/")).units == 50000
    with suppress(InvalidInput):
        schema_from_text(SCHEMA_OF_ROWS[:place] + put + SCHEMA_OF_ROWS[place + cut :], Path("/"))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\xff\xfe", "the schema, 's.yaml', is not text in UTF-8; save it as UTF-8"),
        (b"#" * 1_000_001, "the schema, 's.yaml', is larger than 1000000 bytes, the most that is read"),
        (None, "the schema, 's.yaml', cannot be read; check that the file is there and may be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    if content is not None:
        (tmp_path / "s.yaml").write_bytes(content)
    with pytest.raises(InvalidInput) as caught:
        load_schema(tmp_path / "s.yaml")
    assert str(caught.value) == sentence


def test_what_is_no_file_of_a_schema_is_told_apart(tmp_path: Path) -> None:
    """A folder, and the table itself."""
    (tmp_path / "s").mkdir()
    with pytest.raises(InvalidInput, match=r"^the schema, 's', is a folder; name the file in it$"):
        load_schema(tmp_path / "s")
    with pytest.raises(InvalidInput, match=r"^'t.CSV' is a table, not its schema; name that, or draft one by"):
        load_schema(tmp_path / "t.CSV")


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_bytes(b"\xef\xbb\xbf" + SMALLEST_SCHEMA.encode())
    assert load_schema(tmp_path / "s.yaml").name == "t"


def test_a_taxonomy_gives_categories_and_concepts(schema_folder: Path) -> None:
    occupation = load_schema(schema_folder / "registry.yaml").columns["occupation"]
    assert occupation.categories == ("cook", "nurse")
    assert occupation.find_codes("carer") == (1,)
    assert occupation.find_codes("worker") == (0, 1)


def test_mapped_values_are_leaves_under_their_concepts(tmp_path: Path) -> None:
    """Values as the data write them, each under the concept it means; a value may be a concept of its own name."""
    mapping = {"Nursing": {"synset": "nurse", "gloss": "..."}, "Wards": "carer", "cook": "cook"}
    (tmp_path / "t.json").write_text(json.dumps(OCCUPATION | {"mapping": mapping, "n_concepts": 4}))
    occupation = load_column("{kind: nominal, taxonomy: t.json}", tmp_path)
    assert occupation.categories == ("Nursing", "Wards", "cook")
    assert occupation.find_codes("nurse") == (0,)
    assert occupation.find_codes("carer") == (0, 1)


@pytest.mark.parametrize(
    ("name", "leaves"), [("occupation", 14), ("native_country", 41), ("occupation_uant_labels", 14)]
)
def test_wordnet_extracts_are_read(name: str, leaves: int) -> None:
    taxonomies = find_shared_data("taxonomies")
    mapping = json.loads((taxonomies / f"{name}.json").read_text())["mapping"]
    read = load_column(f"{{kind: nominal, taxonomy: {name}.json}}", taxonomies)
    assert read.categories == tuple(sorted(mapping))
    assert len(read.categories) == leaves
    assert read.find_codes("entity.n.00001740") == tuple(range(leaves))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", 'the taxonomy of x is not valid JSON; write {"parents": {"child": "parent"}}'),
        ("[" * 100_000, 'the taxonomy of x is not valid JSON; write {"parents": {"child": "parent"}}'),
        (
            '{"a": "b"}',
            "unknown key 'a' of the taxonomy of x; use one of parents, mapping, attribute, source, n_concepts",
        ),
        ("[]", "the taxonomy of x must be a mapping such as {parents: ...}"),
        ('{"parents": []}', 'parents in the taxonomy of x must be a mapping such as {"child": "parent"}'),
        (
            '{"parents": {"a": "b", "a ": "c"}}',
            "the taxonomy of x has a key that is empty or given twice; give every key once",
        ),
        (
            '{"parents": {"a": {}}}',
            "the parents of 'a' in the taxonomy of x must be a single value, not a list or a mapping",
        ),
        (
            '{"parents": {"a": "b", "c": "d"}}',
            "the taxonomy of x is refused: a taxonomy has exactly one root, this one has 2; "
            "give every other concept a parent",
        ),
        (
            '{"parents": {"a": "b", "b": "a", "c": "d"}}',
            "the taxonomy of x is refused: the taxonomy goes round in a circle through 'a'",
        ),
        (
            '{"parents": {"a": "b"}, "mapping": {"a": "b"}}',
            "'a' in the taxonomy of x is a concept and also mapped to another; rename one of them",
        ),
        (
            '{"parents": {"a": "b"}, "mapping": {"v": {"lemma": "b"}}}',
            "the concept of 'v' in the taxonomy of x is empty; write a value, or leave it out where it is optional",
        ),
    ],
)
def test_a_taxonomy_is_refused_in_one_sentence(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "t.json").write_text(content)
    assert (
        read_refusal(SMALLEST_SCHEMA.replace("kind: boolean", "kind: nominal, taxonomy: t.json"), tmp_path) == sentence
    )


def test_a_lookup_becomes_columns(schema_folder: Path) -> None:
    """Known from the key's code: texts as they first appear, whole numbers as such; missing where there is no row."""
    columns = load_schema(schema_folder / "registry.yaml").columns
    assert list(columns)[-3:] == ["icd.chapter", "icd.severity", "icd.site"]
    chapter, severity, site = (columns[f"icd.{name}"] for name in ("chapter", "severity", "site"))
    assert (chapter.kind, chapter.categories, chapter.derived.codes) == ("nominal", ("skin", "lung"), (1, 0, None))
    assert (severity.kind, severity.lower, severity.upper) == ("integer", -1, 3)
    assert severity.derived.codes == (-1, 3, None)
    assert (site.categories, site.derived.codes, site.derived.key) == (("left",), (0, None, None), "diagnosis")
    assert chapter.is_nullable


def load_with_lookup(table: str, key: str, tmp_path: Path) -> str:
    """A schema with a lookup l on the column x."""
    (tmp_path / "l.csv").write_text(table)
    return SMALLEST_SCHEMA.replace("{kind: boolean}", key) + "lookups: {l: {file: l.csv, key: x}}\n"


@pytest.mark.parametrize(
    ("key", "table", "codes"),
    [
        ("{kind: integer, lower: -10, upper: 10, step: 10}", "k,v\n-10,a\n10,b\n5,c\n010,d\n99,e\n", (0, None, 1)),
        ("{kind: boolean}", "k,v\nTrue,a\nfalse,b\n", (1, 0)),
        ("{kind: nominal, categories: [p, q]}", 'k,v\n q ,"a, b"\n\np,c\n', (1, 0)),
        ("{kind: nominal, categories: [p, q]}", "k,v\np,007\nq,008\n", (0, 1)),
    ],
)
def test_a_lookup_is_matched_with_the_values_of_its_key(
    tmp_path: Path, key: str, table: str, codes: tuple[int | None, ...]
) -> None:
    derived = schema_from_text(load_with_lookup(table, key, tmp_path), tmp_path).columns["l.v"]
    assert derived.kind == "nominal"
    assert derived.derived.codes == codes


FITTING = "a column with categories, or an integer or boolean one, of at most 100000 values, got 'x'"


@pytest.mark.parametrize(
    ("key", "table", "sentence"),
    [
        (
            "{kind: boolean}",
            "k,v\ntrue,a\nfalse,b\nTRUE,c\n",
            "lookup l has the key 'TRUE' twice; it would multiply rows, so keep one",
        ),
        (
            "{kind: boolean}",
            "k,v\ntrue,a\nz,b\nz,c\n",
            "lookup l has the key 'z' twice; it would multiply rows, so keep one",
        ),
        ("{kind: boolean}", "k,v\nT,a\n", "lookup l has no key that is a value of x; check its first column"),
        ("{kind: boolean}", "k\ntrue\n", "lookup l must have a header, a key column, a further column and rows"),
        ("{kind: boolean}", "k,v\n", "lookup l must have a header, a key column, a further column and rows"),
        ("{kind: boolean}", "", "lookup l must have a header, a key column, a further column and rows"),
        ("{kind: boolean}", "k,v,V\ntrue,a,b\n", "lookup l has two columns of the same name, in any case; rename one"),
        ("{kind: boolean}", "k,v w\ntrue,a\n", f"a column's name in lookup l {FIRST_63} 'v w'"),
        (
            "{kind: boolean}",
            "k,v\ntrue\n",
            "lookup l has rows that are longer or shorter than its header; make them alike",
        ),
        ("{kind: boolean}", 'k,v\ntrue,"a" b\n', "line 2 of lookup l is not CSV; quote cells that hold a comma"),
        ("{kind: boolean}", "k,v\ntrue,\n", "l.v has no value for any value of x; fill it or remove it"),
        (
            "{kind: boolean}",
            "k,v\ntrue,900000000000000\n",
            "l.v has more than 2^44 steps between 0 and a bound; declare a coarser step",
        ),
        ("{kind: integer, lower: 1, upper: 100001}", "k,v\n1,a\n", f"the key of lookup l must be {FITTING}"),
        ("{kind: number, lower: 0, upper: 1, step: 1}", "k,v\n1,a\n", f"the key of lookup l must be {FITTING}"),
        ("{kind: date, lower: 2015-01-01, upper: 2015-01-02}", "k,v\n1,a\n", f"the key of lookup l must be {FITTING}"),
        ("{kind: nominal, keys: private}", "k,v\n1,a\n", f"the key of lookup l must be {FITTING}"),
    ],
)
def test_a_lookup_is_refused_in_one_sentence(tmp_path: Path, key: str, table: str, sentence: str) -> None:
    assert read_refusal(load_with_lookup(table, key, tmp_path), tmp_path) == sentence


def test_a_lookup_cannot_be_looked_up_in(tmp_path: Path) -> None:
    """The key is a column of the table itself."""
    text = load_with_lookup("k,v\ntrue,a\n", "{kind: boolean}", tmp_path)
    chained = text.replace("key: x}}", "key: x}, m: {file: l.csv, key: l.v}}")
    assert read_refusal(chained, tmp_path).endswith("of at most 100000 values, got 'l.v'")


def test_a_large_domain_is_read_in_time(tmp_path: Path) -> None:
    """A hundred thousand values, with a lookup, in seconds."""
    names = [f"v{place}" for place in range(100_000)]
    (tmp_path / "t.json").write_text(json.dumps({"parents": dict.fromkeys(names, "any")}))
    table = "k,v\n" + "".join(f"{name},{name[-1]}\n" for name in names)
    schema = schema_from_text(load_with_lookup(table, "{kind: nominal, taxonomy: t.json}", tmp_path), tmp_path)
    assert schema.columns["x"].size == 100_000
    assert schema.columns["l.v"].kind == "integer"
    (tmp_path / "t.json").write_text(json.dumps({"parents": dict.fromkeys([*names, "w"], "any")}))
    assert "must have 1 to 100000 categories, got 100001" in read_refusal(
        SMALLEST_SCHEMA.replace("kind: boolean", "kind: nominal, taxonomy: t.json"), tmp_path
    )


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("a b/Data.CSV", SourceAddress("csv", "a b/Data.CSV")),
        ("/x/t.parquet", SourceAddress("parquet", "/x/t.parquet")),
        (
            "postgresql://u:p%23@h:1/db?host=/tmp#s.t",
            SourceAddress("postgres", "postgresql://u:p%23@h:1/db?host=/tmp", "s.t"),
        ),
        ("postgresql://h/db#t", SourceAddress("postgres", "postgresql://h/db", "t")),
        ("spark:a.b.c", SourceAddress("spark", "", "a.b.c")),
    ],
)
def test_a_source_is_a_file_or_a_table(text: str, address: SourceAddress) -> None:
    assert SourceAddress.of(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "t",
        "t.txt",
        "https://h/t.csv",
        "postgresql://u:secret@h/db",
        "postgresql://h/db#a.b.c",
        "spark:",
        "spark:a;b",
    ],
)
def test_no_other_source_is_read(text: str) -> None:
    """The refusal does not repeat an address, which may hold a password."""
    with pytest.raises(InvalidInput, match=r"^a source must be a \.csv or \.parquet file") as caught:
        SourceAddress.of(text)
    assert "secret" not in str(caught.value)


def test_analysts_see_what_is_public_and_no_more(schema_folder: Path) -> None:
    """Domains, budgets, models, lookups; not the source, its folder, an identifier, or why a model is allowed."""
    schema = load_schema(schema_folder / "registry.yaml")
    weaker = replace(schema, models=("dp", "individual-dp"), individual_dp_reason="a reason of our own")
    public = schema_to_public_json(weaker)
    text = json.dumps(public)
    assert json.loads(text) == public
    assert not [secret for secret in ("registry.csv", str(schema_folder), "a reason of our own") if secret in text]
    assert public["unit"] == {"column": "person_id", "rows": 1}
    assert public["budget"] == {"epsilon": "3", "delta": "1/1000000"}
    columns = public["columns"]
    assert list(columns) == list(schema.columns)
    assert columns["age"] == {"kind": "integer", "role": "quasi-identifier", "lower": 17, "upper": 90, "step": 1}
    assert columns["income"] == {
        "kind": "number", "role": "confidential", "lower": "0", "upper": "500000", "step": "1/100", "missing": "0",
    }  # fmt: skip
    assert columns["admitted"] == {"kind": "date", "role": "other", "lower": "2015-01-01", "upper": "2025-12-31"}
    assert columns["smoker"]["categories"] == [False, True]
    assert columns["sex"]["missing_values"] == ["?"]
    assert columns["city"] == {"kind": "nominal", "role": "other", "keys": "private"}
    assert columns["occupation"]["taxonomy"] == {
        "carer": ["worker"],
        "cook": ["worker"],
        "nurse": ["carer"],
        "worker": [],
    }
    assert columns["icd.chapter"]["derived_from"] == "diagnosis"


def test_two_schemas_that_differ_in_secrets_look_alike(schema_folder: Path) -> None:
    """What is public does not depend on where the rows are."""
    schema = load_schema(schema_folder / "registry.yaml")
    moved = replace(schema, source="elsewhere.parquet", folder=Path("/"))
    assert schema_to_public_json(moved) == schema_to_public_json(schema)


@pytest.mark.parametrize(
    "wrong",
    [
        {"units": None},
        {"rows": 0},
        {"unit": None, "rows": 2, "individual_queries": False},
        {"unit": "age"},
        {"models": ()},
        {"partition": "age"},
    ],
)
def test_a_schema_that_contradicts_itself_cannot_exist(schema_folder: Path, wrong: dict[str, object]) -> None:
    schema = load_schema(schema_folder / "registry.yaml")
    with pytest.raises(InvalidInput):
        replace(schema, **wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lower": 2, "upper": 1},
        {"upper": MAX_CODE + 1},
        {"step": Fraction(0)},
        {"missing": 9, "upper": 8},
        {"categories": ("a", "b"), "upper": 2},
    ],
)
def test_a_column_that_contradicts_itself_cannot_exist(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        Column("x", "integer", **wrong)


@pytest.mark.parametrize(
    "wrong", [(Fraction(-1), Fraction(0)), (Fraction(1), Fraction(1)), (Fraction(1), Fraction(-1))]
)
def test_a_budget_is_a_promise(wrong: tuple[Fraction, Fraction]) -> None:
    with pytest.raises(InvalidInput, match="a budget has an epsilon of at least 0"):
        Budget(*wrong)


def test_a_budget_may_declare_how_far_it_may_be_raised() -> None:
    declared_schema = schema_from_text(SMALLEST_SCHEMA.replace("epsilon: 1", "epsilon: 1, max_epsilon: 2.5"), Path("/"))
    assert declared_schema.budget == declared_schema.analyst_budget == Budget(Fraction(1), Fraction(0), Fraction(5, 2))
    assert declared_schema.budget.ceiling == Fraction(5, 2)
    public = schema_to_public_json(declared_schema)
    assert public["budget"] == {"epsilon": "1", "delta": "0", "max_epsilon": "5/2"}
    assert Budget(Fraction(1)).ceiling == 1
    with pytest.raises(InvalidInput, match="max_epsilon of a budget must be at least its epsilon"):
        Budget(Fraction(1), Fraction(0), Fraction(1, 2))


def test_the_same_text_gives_the_same_schema(schema_folder: Path) -> None:
    first, second = (load_schema(schema_folder / "registry.yaml") for _ in range(2))
    assert isinstance(first, Schema)
    assert schema_to_public_json(first) == schema_to_public_json(second)
