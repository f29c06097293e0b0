"""The rules of the repository: who imports whom, what is public, where randomness enters, what is stored."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import pytest

import discreet

Node = TypeVar("Node", bound=ast.AST)

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "discreet"

PUBLIC = [
    "Accuracy",
    "AddNoise",
    "Answer",
    "Audit",
    "BudgetExceeded",
    "ClaimFailed",
    "Client",
    "Custodian",
    "DiscreetError",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Distance",
    "Guarantee",
    "Internal",
    "InvalidInput",
    "Ledger",
    "Posterior",
    "Prior",
    "QueryOptions",
    "Refinement",
    "Release",
    "Schema",
    "Staircase",
    "Taxonomy",
    "Unavailable",
    "Unsupported",
    "at_least",
    "at_most",
    "audit_mechanism",
    "check_claim",
    "compare_release",
    "generalize",
    "global_sensitivity",
    "load_schema",
    "mdav_swap",
    "measure_anonymity",
    "microaggregate",
    "reconcile",
    "refine",
    "rho",
    "t_close",
    "total",
]

HEAVY = {"altair", "duckdb", "fastapi", "hypothesis", "mpmath", "numba"}
HEAVY |= {"pandas", "polars", "psycopg", "pyarrow", "pyspark", "rich", "scipy"}
HEAVY |= {"sqlalchemy", "sqlglot", "typer", "yaml"}

# Modules of `mechanisms` that are not mechanisms; every other one has its proof note beside it.
NOT_MECHANISMS = {"__init__", "distribution", "entropy", "noise", "refinement_risk", "samplers"}
NOT_MECHANISMS |= {"sensitivity", "continuous_noise"}
# Notes beside the one of their module, where it has several mechanisms.
FURTHER_NOTES = {
    "degradation": "discrete_laplace",
    "quantile_bracket": "quantile",
    "extreme_value": "quantile",
}

DOOR_TO_RANDOMNESS = "discreet.mechanisms.entropy"
# A table that is made up, the same on every machine: no answer and no secret is drawn there.
MADE_UP = "discreet.sample"
GENERATORS = re.compile(r"(random|secrets|(numpy|np)\.random|os\.(u|get)random)\b")

# The parts of the package from the innermost outwards: a part may import itself and what stands in a line above it.
LAYERS = (
    ("errors", "_version", "_lazy"),
    ("untrusted", "suggestions"),
    ("numeric",),
    ("json_fields",),
    ("formatting",),
    ("privacy",),
    ("priors",),
    ("schema",),
    ("charts",),
    ("query",),
    ("mechanisms", "sources"),
    ("estimation",),
    ("constraints",),
    ("measurements",),
    ("planner", "ledger"),
    ("datasets",),
    ("answers",),
    ("sdc",),
    ("synthetic",),
    ("release",),
    ("custodian",),
    ("verification", "client"),
    ("sample",),
    ("service",),
    ("cli",),
    ("__init__", "__main__"),
)
NEVER = {
    "estimation": {"sources"},
    "measurements": {"sources"},
    "planner": {"sources"},
    "service": {"mechanisms", "sources"},
    "cli": {"mechanisms", "sources"},
    "sample": {"custodian", "service", "release", "planner", "mechanisms"},
}
"""What a part may not import though it stands above: planning reads no rows, and a face draws nothing."""
MAY_IMPORT = {
    part: {inner for line in LAYERS[:depth] for inner in line} - NEVER.get(part, set())
    for depth, layer in enumerate(LAYERS)
    for part in layer
}
ENTROPY = "discreet.mechanisms.entropy"
NEVER_ENTROPY = {"estimation", "planner", "answers"}
HANDED_ENTROPY = {"measurements"}
"""Draws from what it is handed: it may name the type, and reach no generator."""


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


@cache
def list_imports(module: str, source: str) -> tuple[str, ...]:
    """Name all that a module imports, in full: `from os import urandom` gives os and os.urandom."""
    return tuple(_find_imports(module, source))


def _find_imports(module: str, source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*home, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def outward_imports(module: str, source: str) -> list[str]:
    """List the imports that point outwards."""
    part = module.split(".")[1]
    allowed = MAY_IMPORT[part]
    wrong = []
    for name in list_imports(module, source):
        top, _, rest = name.partition(".")
        target = rest.split(".")[0]
        # `from discreet import x` also names discreet itself, which is no part.
        if top != "discreet" or target in {"", part}:
            continue
        # The class Entropy is as forbidden as its module, but for who is handed one.
        is_entropy = rest.lower().startswith("mechanisms.entropy")
        is_type = f"{ENTROPY}.Entropy" in list_imports(module, source) and name in {ENTROPY, f"{ENTROPY}.Entropy"}
        entropy = is_entropy and (part in NEVER_ENTROPY or (part in HANDED_ENTROPY and not is_type))
        if entropy or target not in allowed:
            wrong.append(name)
    return wrong


def randomness(module: str, source: str) -> list[str]:
    """List what a module uses of the generators that only the one door may use."""
    if module in {DOOR_TO_RANDOMNESS, MADE_UP}:
        return []
    names = [*list_imports(module, source), *map(ast.unparse, nodes(source, ast.Attribute))]
    return [name for name in names if GENERATORS.match(name)]


def nodes(source: str, kind: type[Node]) -> list[Node]:
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, kind)]


def without_notes(modules: set[str], notes: set[str]) -> set[str]:
    """Name the mechanisms without a proof note, and the notes without a mechanism."""
    further = {note for note, module in FURTHER_NOTES.items() if module in modules}
    return (modules - NOT_MECHANISMS) ^ (notes - further)


def stored_files() -> list[Path]:
    """List the files that are, or would be, committed."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    git = ["git", "-c", "safe.directory=*"]  # whoever owns the checkout
    command = [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for name in names.split("\0") if name and (path := ROOT / name).is_file()]


def pins(lock: str) -> dict[str, str]:
    """Read a lock: each requirement without its hashes, and its hashes."""
    text = (ROOT / "locks" / f"{lock}.txt").read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.partition("--hash")[0].strip(): line for line in lines}


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
LOCKS = ("base", "dev", "spark")
PEERS = ("../benchmarks/peers/diffprivlib", "../benchmarks/peers/opendp", "../benchmarks/peers/python-dp")
PEERS += ("../benchmarks/peers/smartnoise-synth", "../benchmarks/peers/smartnoise-sql", "../benchmarks/peers/tumult")
PEERS += ("../benchmarks/peers/anjana", "../benchmarks/peers/pycanon")


def test_imports_point_inwards() -> None:
    outward = [(module, one) for module in MODULES for one in outward_imports(module, MODULES[module].read_text())]
    assert outward == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("discreet.numeric", "import discreet.schema"),
        ("discreet.privacy.guarantee", "from discreet import mechanisms"),
        ("discreet.mechanisms.noise", "from ..planner import plan"),
        ("discreet.mechanisms.__init__", "from ..sources import memory"),
        ("discreet.estimation.posterior", "from discreet.mechanisms.entropy import SystemEntropy"),
        ("discreet.estimation.posterior", "from discreet.mechanisms import Entropy"),
        ("discreet.measurements.additive", "from discreet.mechanisms.entropy import SYSTEM, Entropy"),
        ("discreet.measurements.additive", "import discreet.mechanisms.entropy"),
        ("discreet.planner", "def plan():\n    from .kernel import entropy"),
        ("discreet.planner", "import discreet.sources.memory"),
        ("discreet.ledger.store", "from discreet.planner import plan"),
        ("discreet.service.api", "from discreet.mechanisms import noise"),
        ("discreet.cli.main", "from discreet.sources import memory"),
    ],
)
def test_an_outward_import_is_caught(module: str, source: str) -> None:
    assert outward_imports(module, source) != []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("discreet.numeric", "import fractions\nfrom .errors import InvalidInput"),
        ("discreet.mechanisms.noise", "from ..privacy.guarantee import Guarantee\nfrom . import entropy"),
        ("discreet.mechanisms.noise", "from discreet.mechanisms.entropy import Entropy"),
        ("discreet.estimation.posterior", "from discreet.mechanisms import noise"),
        ("discreet.measurements.additive", "from discreet.mechanisms.entropy import Entropy"),
        ("discreet.__init__", "from .custodian import Custodian"),
    ],
)
def test_an_inward_import_is_not(module: str, source: str) -> None:
    assert outward_imports(module, source) == []


def test_importing_discreet_is_light() -> None:
    """Heavy libraries are loaded by what needs them, not by `import discreet`."""
    command = [sys.executable, "-c", "import discreet, sys; print(*sys.modules)"]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert "discreet" in loaded
    assert HEAVY & set(loaded) == set()


def test_public_names_change_only_on_purpose() -> None:
    assert sorted(discreet.__all__) == sorted(PUBLIC)


@pytest.mark.parametrize("name", ["", ".constraints", ".mechanisms", ".sdc", ".synthetic", ".verification"])
def test_every_public_name_is_there_and_seen_by_type_checkers(name: str) -> None:
    """No name of a namespace is that of a module below it, which would take its place once it is imported."""
    namespace = importlib.import_module(f"discreet{name}")
    loaded = {public: getattr(namespace, public) for public in namespace.__all__}
    assert [public for public, value in loaded.items() if isinstance(value, ModuleType)] == []
    stub = ast.parse(Path(str(namespace.__file__)).with_suffix(".pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom) and node.module != namespace.__name__]
    assert {alias.asname for node in imports for alias in node.names} - {"__version__"} == set(loaded)


@pytest.mark.parametrize("name", ["", ".constraints", ".mechanisms", ".sdc", ".synthetic", ".verification"])
def test_every_method_of_a_public_class_says_what_it_does(name: str) -> None:
    """Itself, also where it stands for one of a class above."""
    namespace = importlib.import_module(f"discreet{name}")
    public = [getattr(namespace, public) for public in namespace.__all__]
    classes = {base for kind in public if isinstance(kind, type) for base in kind.__mro__}
    silent = [
        f"{kind.__name__}.{part}"
        for kind in classes
        if kind.__module__.startswith("discreet.")
        for part, member in vars(kind).items()
        if not part.startswith("_") and callable(function := getattr(member, "fget", member)) and not function.__doc__
    ]
    assert silent == []


def test_public_namespaces_are_there_without_an_import() -> None:
    """`import discreet` is enough for `discreet.sdc`; `dir` shows the namespaces, and names that were never used."""
    code = "import discreet; print(discreet.sdc.swap_chances.__name__, *dir(discreet), *discreet.__all__, sep=chr(10))"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert shown[0] == "swap_chances"
    assert {"constraints", "mechanisms", "sdc", "synthetic", "verification", "Prior", "__version__"} <= set(shown)
    assert sorted(discreet.__all__) == shown[-len(discreet.__all__) :]


def test_randomness_enters_by_one_door() -> None:
    assert [(module, name) for module in MODULES for name in randomness(module, MODULES[module].read_text())] == []


def test_only_faces_import_the_made_up_table() -> None:
    """Its seeded generator is out of reach of all that answers."""
    users = {name for name, path in MODULES.items() if MADE_UP in set(list_imports(name, path.read_text()))}
    assert {name.split(".")[1] for name in users} <= {"service", "cli"}
    for name in users:
        at_once = [node for node in ast.parse(MODULES[name].read_text()).body if isinstance(node, ast.ImportFrom)]
        assert MADE_UP not in {node.module for node in at_once}, f"{name}: only where it is used"


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "import secrets",
        "from random import SystemRandom",
        "from os import urandom",
        "import os\nos.getrandom(8)",
        "import os\nos.urandom(8)",
        "from numpy import random",
        "from numpy.random import default_rng",
        "import numpy as np\nnp.random.default_rng()",
    ],
)
def test_another_door_is_caught(source: str) -> None:
    assert randomness("discreet.mechanisms.noise", source) != []
    assert randomness(DOOR_TO_RANDOMNESS, source) == []


def test_every_mechanism_has_its_proof_beside_it() -> None:
    files = list((PACKAGE / "mechanisms").rglob("*"))
    modules = {path.stem for path in files if path.suffix == ".py"}
    assert "discrete_laplace" in modules
    assert without_notes(modules, {path.stem for path in files if path.suffix == ".md"}) == set()


def test_a_missing_proof_is_caught() -> None:
    assert without_notes({"entropy", "refinement", "staircase"}, {"refinement"}) == {"staircase"}


def test_no_file_is_large() -> None:
    assert [path for path in stored_files() if path.stat().st_size > 1_000_000] == []


def test_no_file_names_a_registry_or_leaves_work_undone() -> None:
    # The brackets keep the pattern from finding itself.
    pattern = re.compile(rb"py[p]i|python[h]osted|file[:]//|TO[D]O|FIX[M]E")
    assert [path for path in stored_files() if pattern.search(path.read_bytes())] == []


def test_no_handler_catches_everything() -> None:
    """A bare `except:` swallows even KeyboardInterrupt."""
    written = re.compile(r"except[\s\\]*:")  # in a string, perhaps: only where it is, the source is parsed
    for path in stored_files():
        if path.suffix == ".py" and written.search(text := path.read_text()):
            assert all(handler.type for handler in nodes(text, ast.ExceptHandler)), path


@pytest.mark.parametrize("lock", [*LOCKS, *PEERS])
def test_locks_pin_by_hash_and_name_no_address(lock: str) -> None:
    for line in pins(lock).values():
        assert re.fullmatch(r"[\w.-]+==[\w.]+( ; [^;]+?)?( +--hash=sha256:[0-9a-f]{64})+", line), line


def test_locks_agree() -> None:
    """Each lock adds to the one before, so that one can be installed over another."""
    base, dev, spark = ({pin.partition(";")[0].strip() for pin in pins(lock)} for lock in LOCKS)
    assert base < dev < spark


def test_locks_have_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = project["project"]["dependencies"]
    for extra in (project["project"]["optional-dependencies"], project["dependency-groups"]):
        asked = [*asked, *(name for names in extra.values() for name in names)]
    names = {re.split(r"[^\w-]", requirement)[0] for requirement in asked}
    assert names <= {pin.partition("==")[0] for pin in pins("spark")}
