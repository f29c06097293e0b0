"""What is stored, hashed or told in documents is called by text of its own: no class, field or function names it."""

from __future__ import annotations

import ast
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import typer

from discreet import (
    BudgetExceeded,
    ClaimFailed,
    Custodian,
    Distance,
    Internal,
    InvalidInput,
    Taxonomy,
    Unavailable,
    Unsupported,
    compare_release,
)
from discreet.cli.main import app
from discreet.sdc import Closeness, Distinct, Spread
from discreet.service.api import models
from support.command_line import run_successfully

LONGEST = 80
PACKAGE = Path(__file__).parents[2] / "src" / "discreet"
NAMING = {"__name__", "__qualname__", "__module__", "__slots__", "__dict__", "__annotations__", "__match_args__"}
NAMING |= {"__dataclass_fields__", "_fields", "_asdict", "_mapping", "model_fields"}
LISTING = {"asdict", "astuple", "fields", "vars", "get_type_hints", "signature"}
PICKLING = {"pickle", "shelve", "marshal", "copyreg", "dill", "cloudpickle"}
ENUMS = {"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"}
WRITERS = {"hashlib", "json"}
"""Who imports these may write what it makes of a value; there, `repr` is looked at too."""


def find_derived_text(source: str) -> Iterator[str]:
    """Every statement, but those that raise, in which text may follow from the name of something in Python."""
    tree = ast.parse(source)
    writes = any(_imports(node, WRITERS) for node in ast.walk(tree))
    for statement, node in _within(tree):
        if _imports(node, PICKLING) or _is_enum(node):
            yield _beginning(source, node)
        elif not isinstance(statement, ast.Raise) and (_names(node) or (writes and _shows(node))):
            yield _beginning(source, statement or node)


def _beginning(source: str, node: ast.AST) -> str:
    """How a statement begins, in one line; of a block, its head."""
    written = ast.get_source_segment(source, node) or ""
    first: ast.stmt | None = next(iter(getattr(node, "body", ())), None)
    if first is not None:
        written = "\n".join(source.splitlines()[node.lineno - 1 : max(first.lineno - 1, node.lineno)])  # type: ignore[attr-defined]
    return " ".join(written.split())[:LONGEST]


def _within(tree: ast.AST, statement: ast.AST | None = None) -> Iterator[tuple[ast.AST | None, ast.AST]]:
    """Every node with the smallest statement that it is in; of a block, its head."""
    for child in ast.iter_child_nodes(tree):
        nearest = child if isinstance(child, ast.stmt) else statement
        yield nearest, child
        yield from _within(child, nearest)


def _imports(node: ast.AST, modules: set[str]) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] in modules for alias in node.names)
    return isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in modules


def _is_enum(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(ast.unparse(base).split(".")[-1] in ENUMS for base in node.bases)


def _names(node: ast.AST) -> bool:
    """Whether names of classes, functions or fields are read here, or given by what was read."""
    if isinstance(node, ast.Attribute):
        return node.attr in NAMING
    if not isinstance(node, ast.Call):
        return False
    called = ast.unparse(node.func).split(".")[-1]
    spread = called[:1].isupper() and any(one.arg is None for one in node.keywords)
    looked_up = called == "getattr" and not isinstance(node.args[1], ast.Constant)
    return called in LISTING or spread or looked_up


def _shows(node: ast.AST) -> bool:
    """Whether a value is told as Python shows it; what is cut to a length is a text."""
    if isinstance(node, ast.FormattedValue):
        return node.conversion == ord("r") and not isinstance(node.value, ast.Subscript)
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "repr"


READS_ATTRIBUTES = "looks up an attribute by a name that is written here, and fails at once where it was renamed"
NOT_OURS = "looks at a class of another library, or of the caller"
MESSAGE = "part of a message to people, which is not kept"
LOG = "a line of the log, which says in which class of error something ended"
COPIES = "copies a value of ours, field by field; no name leaves"
LOADS = "loads a name of ours from where it lives"
OPTIONS = "options of another library"
CODE = "code for people to copy, of texts alone"
IN_MEMORY = "tells pairs of one run apart, and is not kept"
OPTION_NAMES = (
    "sends options of a question by the names of the wire model, which SENT repeats; test_options.py compares"
)
SETTINGS = "keys of a service's configuration, which the example in packaging/ and its tests repeat"
BUILTIN = "texts, numbers and lists of Python's own, whose form it keeps"
ALLOWED: dict[str, tuple[str, int]] = {
    'value = import_module(f"{home}.{name}") if home == namespace else getattr(import': (LOADS, 1),
    "function = getattr(module, name, None)": (NOT_OURS, 1),
    'return NAN if value is None or type(value).__name__ == "NAType" else value': (NOT_OURS, 1),
    "return type(value).__name__": (NOT_OURS, 1),
    'elif has_type(number, (float, Decimal)) or type(number).__name__.startswith("flo': (NOT_OURS, 1),
    'if isinstance(value, float) or type(value).__name__.startswith(("float", "longdo': (NOT_OURS, 1),
    'is_boolean = isinstance(value, bool) or type(value).__name__ in {"bool", "bool_"': (NOT_OURS, 1),
    'if kind.__name__ == "csc_array":': (NOT_OURS, 1),
    'GET_NUMERATOR, GET_DENOMINATOR = (getattr(Fraction, name).__get__ for name in ("': (NOT_OURS, 1),
    'return f"{where} with {type(error).__name__}" + (f": {message}" if message else ': (MESSAGE, 1),
    'description = f"the snapshot {snapshot.name!r} of {schema.name}"': (MESSAGE, 1),
    'actual_type = "a subclass of it" if has_type(value, kinds) else type(value).__na': (MESSAGE, 1),
    'got = f"{distance[:40]!r}" if isinstance(distance, str) else type(distance).__na': (MESSAGE, 1),
    'name = repr(raw[:40]) if isinstance(raw, str) else "of these rows"': (MESSAGE, 1),
    'return str(column.decode(code)) if column.kind in {"integer", "date"} else repr(': (BUILTIN, 1),
    "content = [_grid_text(prior.grid), repr(prior.values), repr(prior.index.tolist()": (BUILTIN, 3),
    "content.append(repr(prior.shape))": (BUILTIN, 1),
    "if differing := { repr(inputs): pair for pair in islice(neighbors, count) if (in": (IN_MEMORY, 1),
    "return type(diversity)(*astuple(diversity))": (COPIES, 1),
    "values = {name: getattr(self, name) for name in signature(type(self)).parameters": (COPIES, 2),
    "details = RemoteDetails(**vars(answer.details), dataset=dataset, body=body, docu": (COPIES, 2),
    "parameters = {field.name: getattr(choice, field.name) for field in fields(Quanti": (COPIES, 2),
    "first, *others = ( item for item in signature(run, eval_str=True).parameters.val": (OPTIONS, 1),
    "run.__annotations__ = {item.name: item.annotation for item in parameters}": (OPTIONS, 1),
    "return METHODS[name](**stated)": (READS_ATTRIBUTES, 1),
    "for item in fields(self):": (COPIES, 1),
    "if (value := getattr(self, item.name)) is not item.default:": (COPIES, 1),
    "options: list[tuple[Option, object]] = [ (item.metadata[OPTION], None if item.de": (COPIES, 1),
    "values = {name: (getattr(self, name), default) for name, (_, default) in self.li": (READS_ATTRIBUTES, 1),
    "for column in parse_column_names(getattr(self, name) or ()):": (READS_ATTRIBUTES, 1),
    "values = {name: getattr(self.method, name) for name in names}": (READS_ATTRIBUTES, 1),
    'parameters = {name: getattr(self, name) for name in ("epsilon", "delta", "rho", ': (READS_ATTRIBUTES, 1),
    "value = require_storable_text(getattr(self, name), name, max_lengths.get(name, M": (READS_ATTRIBUTES, 1),
    "object.__setattr__(self, name, bool(getattr(self, name)))": (READS_ATTRIBUTES, 1),
    "return {column.name: getattr(record, column.name) for column in table.columns}": (READS_ATTRIBUTES, 1),
    "are_copies = all(getattr(row, name) == copy for name, copy in copies.items())": (READS_ATTRIBUTES, 1),
    "yield (row.epoch, row.owner, *part), tuple(getattr(row, name) for name in AMOUNT": (READS_ATTRIBUTES, 1),
    "return None if row is None else Head(**{name: getattr(row, name) for name in HEA": (READS_ATTRIBUTES, 2),
    "return {name: getattr(head, name) for name in HEAD_COLUMNS}": (READS_ATTRIBUTES, 1),
    "for option in fields(QueryOptions) if options is not None else ():": (OPTION_NAMES, 1),
    "value = getattr(options, option.name)": (OPTION_NAMES, 1),
    "options = {name: model.model_fields[name] for name in OPTION_READERS if name in ": (OPTION_NAMES, 2),
    "for option in fields(self):": (COPIES, 1),
    "value = getattr(self, option.name)": (COPIES, 1),
    "return PlanRequest(**{name: getattr(original, name) for name in OPTION_READERS},": (COPIES, 2),
    "return tuple(getattr(self, name) for name in NOISE_OPTIONS)": (READS_ATTRIBUTES, 1),
    "hints = get_type_hints(kind, include_extras=True)": (READS_ATTRIBUTES, 1),
    "return {option.name: hints[option.name].__metadata__[0] for option in fields(kin": (READS_ATTRIBUTES, 1),
    "return kind(*[_copy_part(getattr(value, field.name), depth + 1) for field in fie": (READS_ATTRIBUTES, 2),
    "value = getattr(self, item.attribute)": (READS_ATTRIBUTES, 1),
    "own_fields, readers = {field.name: field for field in fields(cast(Any, cls))}, _": (READS_ATTRIBUTES, 1),
    "return {name: _build_reader(hint) for name, hint in get_type_hints(kind).items()": (READS_ATTRIBUTES, 1),
    "hints, words = get_type_hints(kind), _list_docstrings(kind)": (READS_ATTRIBUTES, 1),
    "member = getattr(kind, item.attribute)": (READS_ATTRIBUTES, 1),
    'hint = get_type_hints(function)["return"] if callable(function) else hints[item.': (READS_ATTRIBUTES, 1),
    "required = tuple(field.name for field in fields(kind) if field.default is field.": (SETTINGS, 1),
    "return MappingKeys(tuple(field.name for field in fields(kind)), required)": (SETTINGS, 1),
    "pairs, hints = expect_closed_mapping(node, subject, list_keys(kind)), get_type_h": (SETTINGS, 1),
    'datasets = tuple(DatasetConfig(**common | entry | {"schema": folder / entry["sch': (SETTINGS, 1),
    'config = Config(**values | {"datasets": datasets})': (SETTINGS, 1),
    'return exp.Div(**parts, typed=True) if dialect == "postgres" else exp.IntDiv(**p': (OPTIONS, 2),
    'return ( f"import os\\n{fractions}\\nfrom discreet import Client\\n\\n" f\'with Clien': (CODE, 2),
    'return value if DECIMAL_PATTERN.fullmatch(value) else f"Fraction({value!r})"': (CODE, 1),
    "return repr(value)": (CODE, 1),
    'monitoring.write_event("closed", dataset=dataset.schema.name, where=type(mistake': (LOG, 1),
    "return f\"{type(error).__name__} at {' > '.join(lines)}\"": (LOG, 1),
}
"""Every other place, by how its statement begins, why no stored text follows from a name there, and how often."""


def test_nothing_stored_follows_from_a_name_in_python() -> None:
    """A new place is mended by writing the text out, or listed above with the reason why nothing of it is stored."""
    every = [(text, path) for path in sorted(PACKAGE.rglob("*.py")) for text in find_derived_text(path.read_text())]
    assert [(text, str(path.relative_to(PACKAGE))) for text, path in every if text not in ALLOWED] == []
    assert Counter(text for text, _ in every) == {text: times for text, (_, times) in ALLOWED.items()}


@pytest.mark.parametrize(
    "source",
    [
        "name = type(distance).__name__.lower()",
        "def name(self):\n    return self.__class__.__qualname__",
        "told = asdict(head)",
        "told = dataclasses.asdict(head)",
        "told = {one.name: 1 for one in fields(head)}",
        "values = {name: getattr(job, name) for name in Job.__slots__}",
        "columns = [Column(name) for name in Account._fields]",
        "made = Head(**row._mapping)",
        "made = Snapshot(**told)",
        "told = vars(head)",
        "import pickle",
        "class Kind(StrEnum):\n    ASK = 'ask'",
        "import hashlib\nname = hashlib.sha256(repr(prior).encode())",
        "import json\nname = json.dumps(f'{prior!r}')",
        "if type(one).__name__ == 'Hamming':\n    pass",
    ],
)
def test_a_derived_name_is_caught(source: str) -> None:
    assert list(find_derived_text(source)) != []


@pytest.mark.parametrize(
    "source",
    [
        "raise InvalidInput(f'a prior is text, got {type(given).__name__}')",
        "told = {'epsilon': head.epsilon}",
        "made = Head(dataset=row.dataset, epoch=row.epoch)",
        "import json\nsaid = f'{name[:40]!r}'",
        "name = getattr(module, 'answer')",
    ],
)
def test_what_is_no_derived_name_is_not(source: str) -> None:
    assert list(find_derived_text(source)) == []


# The texts themselves: whoever changes one makes what was stored before unreadable, or asks for payment again.

SEXES = {"F": "person", "M": "person", "person": []}
LEDGER = {
    "ledger_about": "one id version",
    "ledger_accounts": "dataset epoch owner dp epsilon rho other delta individual",
    "ledger_answers": "dataset seq answer",
    "ledger_caps": "dataset owner terms",
    "ledger_entries": "dataset seq kind analyst key finds epsilon source body hash",
    "ledger_heads": "dataset identity snapshot epoch seq hash partition_reach individual_reach weaker",
    "ledger_parts": "dataset epoch owner kind part dp epsilon rho other delta individual",
    "ledger_version": "version_num",
}
STORE = {
    "service_answers": "id dataset rehearsal analyst key asked entry at document picture",
    "service_counted": "session place question scale released",
    "service_counters": "name label value last",
    "service_counting": "id dataset rehearsal analyst key noise_scale epsilon closed",
    "service_grants": "dataset analyst",
    "service_heads": "dataset ledger entry hash restores at",
    "service_jobs": """id kind dataset rehearsal analyst key asked deadline at
        state runner beat finished stage result attempts""",
    "service_priors": "analyst name text note",
    "service_sessions": "hash token expires",
    "service_tokens": "id hash analyst role created expires revoked",
    "service_version": "version_num",
}
EVERY = "at dataset epoch kind seq snapshot"
CHARGE = f"{EVERY} analyst asked_epsilon key model part query question request spend"
BODIES = {
    "register": f"{EVERY} disjoint finds identity ledger",
    "charge": CHARGE,
    "answer": f"{EVERY} analyst finds sha256 source stored_epsilon",
    "degrade": f"{CHARGE} source",
    "reuse": f"{CHARGE} finds source stored_epsilon",
    "release": f"{EVERY} finds query sha256",
    "cap": f"{EVERY} analyst before terms",
}
TERMS = "cap ceiling delta held highest late late_delta models orders"
COMPARISON = """
rows numeric sse sse_of il1s means variances quantiles correlations correlation_change correlation_change_sd
association_change marginals propensity linkage linkage_by_chance disclosure disclosure_by_chance disclosure_excess
unique knows intersection k unmeasured changed gone apart near bounded verdict
"""
QUESTION = "question epsilon delta noise_scale accuracy prior distance model mechanism interval rows tail reuse"
SENT = {
    "Ask": f"{QUESTION} constraints fresh stored_only ranges population population_size",
    "PreviewAsk": QUESTION,
    "Publish": """method k t epsilon delta format report columns pairs keep apart ks informed swap diversity weights
        strata grouping hierarchies loss suppress form partition buckets groups_per_bucket""",
    "Sweep": "ks methods t",
    "OpenSession": "noise_scale epsilon",
    "SessionAsk": "question noise_scale",
    "SavePrior": "text note",
    "NewToken": "analyst role days datasets",
}
"""What is sent to a service, and kept there with the key that it was sent under."""
SCHEMA = """\
name: people
source: people.csv
neighbours: replace-one
units: 24
budget: {epsilon: 50, max_epsilon: 100}
models: [dp, individual-dp]
individual_dp_reason: a test
partition: sex
columns:
  age: {kind: integer, lower: 0, upper: 99, missing: 0, role: quasi-identifier}
  sex: {kind: nominal, categories: [F, M], missing: F, role: quasi-identifier}
  cost: {kind: integer, lower: 0, upper: 99, missing: 0, role: confidential}
"""
COUNT = "SELECT COUNT(*) FROM people WHERE age > 10"


@pytest.fixture(scope="module")
def asked_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set that was asked in all ways that make entries of their own, and released once."""
    folder = tmp_path_factory.mktemp("made")
    rows = [f"{3 * number},{'FM'[number % 2]},{(7 * number) % 50}" for number in range(24)]
    (folder / "people.csv").write_text("\n".join(["age,sex,cost", *rows, ""]))
    (folder / "people.yaml").write_text(SCHEMA)
    with Custodian.open(folder / "people.yaml") as custodian:
        custodian.answer(COUNT, epsilon=1, analyst="ann")
        custodian.answer(COUNT, epsilon=1, analyst="bob")
        custodian.answer(COUNT, epsilon=0.5, analyst="cid")
        custodian.answer(f"{COUNT} AND sex = 'F'", epsilon=1, analyst="ann")
        custodian.publish("mdav", folder / "out.csv", k=3)
    (folder / "people.yaml").write_text(SCHEMA.replace("epsilon: 50", "epsilon: 60"))
    with Custodian.open(folder / "people.yaml") as custodian:
        custodian.answer(f"{COUNT} AND age < 50", epsilon=1, analyst="ann")
    return folder


def tables(file: Path) -> dict[str, str]:
    """The columns of every table of an SQLite file."""
    with closing(sqlite3.connect(file)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {name: connection.execute(f"PRAGMA table_info({name})").fetchall() for name in names}
    return {name: " ".join(str(row[1]) for row in rows) for name, rows in columns.items()}


def read(file: Path) -> Any:
    return json.loads(file.read_text())


def test_distances_floors_and_errors_have_names_of_their_own() -> None:
    distances = [
        Distance.continuous(),
        Distance.nominal(),
        Distance.ordinal("ab"),
        Distance.semantic(Taxonomy.of(SEXES)),
    ]
    assert [one.stored_name for one in distances] == ["continuous", "nominal", "ordinal", "semantic"]
    assert Distance.product(distances[:1]).stored_name == "product"
    floors = [Distinct(2).to_text(), Spread(0.5).to_text(), Closeness(0.25).to_text()]
    assert floors == ["distinct 2", "spread 1/2", "closeness 1/4"]
    kinds = [InvalidInput, BudgetExceeded, Unsupported, Unavailable, ClaimFailed, Internal]
    names = "InvalidInput BudgetExceeded Unsupported Unavailable ClaimFailed Internal"
    assert [one.stored_name for one in kinds] == names.split()


def test_a_ledger_has_these_tables_and_entries(asked_dataset: Path) -> None:
    assert tables(asked_dataset / "people.discreet" / "ledger.db") == LEDGER
    with closing(sqlite3.connect(asked_dataset / "people.discreet" / "ledger.db")) as connection:
        bodies = [json.loads(body) for (body,) in connection.execute("SELECT body FROM ledger_entries")]
        terms = [json.loads(text) for (text,) in connection.execute("SELECT terms FROM ledger_caps ORDER BY owner")]
        answers = [json.loads(text) for (text,) in connection.execute("SELECT answer FROM ledger_answers")]
    assert {body["kind"] for body in bodies} == set(BODIES)
    for body in bodies:
        assert set(body) - {"opens"} == set(BODIES[body["kind"]].split())
    parts = [body["part"] for body in bodies if body.get("part")]
    assert parts == [{"kind": "partition", "name": "F", "reach": 2}]
    spends = [" ".join(body["spend"]) for body in bodies if "spend" in body]
    assert set(spends) == {"delta epsilon other rho"}
    assert [set(one) for one in terms] == [set(TERMS.split())] * 4
    assert terms[0]["cap"] == {"delta": "0", "epsilon": "60", "max_epsilon": "100"}
    assert {" ".join(one) for one in answers} == {"epsilon cells numbers"}


def test_a_data_sets_folder_has_these_files(asked_dataset: Path) -> None:
    folder = asked_dataset / "people.discreet"
    manifest = read(folder / "manifest.json")
    assert " ".join(manifest) == "identity key promise ledger snapshots"
    (snapshot,) = manifest["snapshots"]
    assert " ".join(snapshot) == "name engine target layout made disjoint report sha256 stamp"
    assert " ".join(snapshot["report"]) == "rows_read rows_kept without_unit units fingerprint columns"
    assert " ".join(snapshot["report"]["columns"]["age"]) == "missing unreadable clipped"
    assert " ".join(read(folder / "ledger-head.json")) == "dataset ledger entry hash restores"
    assert " ".join(read(folder / "releases" / "1.json")) == "number name snapshot method k sha256 manifest"
    with np.load(folder / "releases" / "1.npz") as alignment:
        assert alignment.files == ["rows", "group records"]


def test_a_manifest_of_a_file_has_these_names(asked_dataset: Path) -> None:
    manifest = read(asked_dataset / "out.csv.manifest.json")
    names = "format release dataset made_by guarantee recipe measured columns second_columns files"
    assert " ".join(manifest) == names
    assert " ".join(manifest["recipe"]) == "method k grouping quasi_identifiers confidential kept_as_they_are"


def test_a_service_has_these_tables_and_takes_these_bodies(asked_dataset: Path, tmp_path: Path) -> None:
    config = tmp_path / "service.yaml"
    config.write_text(f"datasets:\n  - schema: {asked_dataset / 'people.yaml'}\n")
    token = run_successfully("token", "create", "--config", config, "--analyst", "ann", "--json").document
    assert " ".join(token) == "id analyst role created expires revoked valid token"
    assert tables(tmp_path / "service.db") == {name: " ".join(columns.split()) for name, columns in STORE.items()}
    kinds = {name: [getattr(models, name)] for name in SENT} | {"Publish": models.RELEASE_MODELS.values()}
    bodies = {name: {field for model in kinds[name] for field in model.model_fields} for name in SENT}
    assert bodies == {name: set(names.split()) for name, names in SENT.items()}


def test_documents_have_these_names(asked_dataset: Path) -> None:
    schema = asked_dataset / "people.yaml"
    (entry, *_) = run_successfully("history", schema, "--json").document
    assert " ".join(entry) == "entry kind at snapshot analyst query model epsilon spend part"
    assert " ".join(entry["spend"]) == "epsilon rho other delta"
    words = ("--epsilon", 1, "--model", "individual-dp", "--json")
    preview = run_successfully("preview", schema, "SELECT MEDIAN(age) FROM people", *words).document
    assert " ".join(preview["compared_with_dp"]) == "mechanism accuracy expected_error own_error prefer words"
    mean = run_successfully(
        "preview", schema, "SELECT AVG(cost) FROM people WHERE age > 10", "--epsilon", 1, "--json"
    ).document
    assert " ".join(mean["accuracy_by_rows"][0]) == "name rows within"
    with Custodian.open(schema) as custodian:
        swept = json.loads(json.dumps(custodian.sweep("k=3", ["mdav"]).to_json()))
    assert " ".join(swept) == "points recommended useful limit words left_out"
    assert " ".join(swept["recommended"]) == "method k loss risk il1s linkage score lost"
    table = pandas.DataFrame({"age": [1, 2, 3, 4], "cost": [5, 6, 7, 9]})
    assert " ".join(compare_release(table, table, ["age"], ["cost"]).to_json()) == " ".join(COMPARISON.split())


def test_commands_have_these_names() -> None:
    group: Any = typer.main.get_command(app)
    names = "init check ask preview budget history publish verify assess serve audit ledger token"
    assert set(group.commands) == set(names.split())
    assert set(group.commands["ledger"].commands) == {"verify", "backup", "restore", "upgrade"}
    assert set(group.commands["token"].commands) == {"create", "list", "revoke", "grant", "ungrant"}
