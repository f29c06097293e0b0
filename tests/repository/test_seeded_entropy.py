"""No test fails by chance: all draw from streams that follow from their names, and what does not is found."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from seeded_generator import BOARD, SYSTEM

from support import repeat_sampling
from support.seeded_entropy import cache, explain_unfollowing, find_marker_fault, get_item_name, seeding

TESTS = Path(__file__).parents[1]
WITHOUT_A_SEED = {"Random", "random.Random", "seed", "random.seed"}
"""What Python seeds from the system, without a call of `os.urandom`, where it is given nothing."""
SYSTEMS = re.compile(r"\bos\.getrandom\b|/dev/u?random\b")

SAMPLING = "tests/unit/mechanisms/test_exponential_mechanism.py::test_costs"
"""A quick test that samples."""

FOLLOWING = """
import json, os, random, secrets, subprocess, sys, uuid
import pytest
from support.seeded_entropy import cache

@pytest.fixture(scope="module")
def once():
    return os.urandom(8).hex(), random.random()

@pytest.fixture(scope="module", params=["a", "b"])
def each(request):
    return os.urandom(8).hex()

@cache
def made(number):
    return os.urandom(number).hex(), random.random()

def tell(name, *drawn):
    assert len(set(drawn)) == len(drawn)
    with open(os.environ["TOLD"], "a") as file:
        print(json.dumps([name, drawn]), file=file)

def test_first(once):
    tell("first", once, made(8), made(9), os.urandom(8).hex(), os.urandom(5000).hex(), random.random())

def test_second(once):
    tell("second", made(8), os.urandom(8).hex(), once, made(9), random.random())

@pytest.mark.parametrize("number", [1, 2])
def test_numbered(number):
    import numpy
    drawn = numpy.random.default_rng().random(), numpy.random.random()
    tell(f"numbered {number}", *drawn, secrets.token_hex(), uuid.uuid4().hex)

def test_each(each, request):
    tell(request.node.name, each, os.urandom(8).hex())

def below():
    command = [sys.executable, "-c", "import os; print(os.urandom(8).hex())"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout

def forked():
    read, write = os.pipe()
    if not os.fork():
        os.write(write, os.urandom(8))
        os._exit(0)
    os.wait()
    drawn = os.read(read, 8).hex()
    os.close(read)
    os.close(write)
    return drawn

def test_below():
    tell("below", below(), os.urandom(8).hex(), below(), forked(), below(), forked(), os.urandom(8).hex())

@pytest.mark.system_entropy(generator=True)
def test_generator():
    tell("generator", os.urandom(8).hex(), below(), forked())
"""
NAMES = "first", "second", "numbered", "each", "below", "generator"

OFFENDING = """
import os, subprocess, sys
import pytest

DRAW = "import os; os.urandom(8)"

def test_a_process_with_an_environment_of_its_own():
    subprocess.run([sys.executable, "-c", DRAW], env={"PATH": "/usr/bin"})

def test_a_process_with_another_path():
    subprocess.run([sys.executable, "-c", DRAW], env=os.environ | {"PYTHONPATH": "/tmp"})

def test_a_process_without_the_environment():
    subprocess.Popen([sys.executable, "-IB", "-c", DRAW])

def test_one_who_catches_it():
    try:
        subprocess.run([sys.executable, "-c", DRAW], env={})
    except BaseException:
        pass

def test_opendp_imported_meanwhile():
    import opendp.prelude as opendp
    opendp.enable_features("contrib")
    space = opendp.atom_domain(T=int), opendp.absolute_distance(T=int)
    opendp.m.make_laplace(*space, scale=1.0)(0)

def test_opendp():
    import opendp.prelude as opendp
    space = opendp.atom_domain(T=int), opendp.absolute_distance(T=int)
    opendp.m.make_laplace(*space, scale=1.0)(0)

@pytest.mark.system_entropy
def test_a_marker_that_says_nothing():
    pass

@pytest.mark.system_entropy(failure=1e-6)
def test_too_likely():
    '''It fails with 1e-06.'''

@pytest.mark.system_entropy(failure=1e-12)
def test_not_stated():
    '''It hardly ever fails.'''
"""
FINE = """
import os, subprocess, sys
import pytest

@pytest.mark.system_entropy(failure=1e-12)
def test_stated():
    '''It fails with at most 1e-12.'''

@pytest.mark.system_entropy(generator=True)
def test_of_the_generator():
    subprocess.run([sys.executable, "-I", "-c", "import os; os.urandom(8)"], env={}, check=True)

def test_from_a_stream():
    subprocess.run([sys.executable, "-c", "import os; os.urandom(8)"], env=os.environ | {"A": "b"}, check=True)
"""


def pytest_run(folder: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """How pytest ends in a folder, with this plugin and no other."""
    path = os.pathsep.join([os.environ["PYTHONPATH"], str(TESTS)])
    environment = os.environ | {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **settings}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "support.seeded_entropy",
        "-p",
        "no:cacheprovider",
        "-q",
        "--rootdir",
        str(folder),
    ]
    return subprocess.run([*command, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def run_in_order(folder: Path, names: tuple[str, ...], **settings: str) -> dict[str, list[object]]:
    """What tests drew that ran in an order."""
    (folder / "test_following.py").write_text(FOLLOWING)
    results_folder = folder / "told"
    results_folder.unlink(missing_ok=True)
    words = [f"test_following.py::test_{name}" for name in names]
    done = pytest_run(folder, *words, TOLD=str(results_folder), **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(line) for line in results_folder.read_text().splitlines())


def test_what_is_drawn_follows_from_the_names_of_tests_and_from_one_seed(tmp_path: Path) -> None:
    """In any order the same, in every process; with another seed nothing is. A test of the generator has its own."""
    one, two = run_in_order(tmp_path, NAMES), run_in_order(tmp_path, NAMES[::-1])
    assert (len(one), one.keys()) == (8, two.keys())
    assert [name for name in one if one[name] != two[name]] == ["generator"]
    every = [repr(part) for parts in one.values() for part in parts]
    assert len(every) - len(set(every)) == 3  # what two tests have of `once` and `made`
    other = run_in_order(tmp_path, NAMES, DISCREET_TEST_SEED="another")
    assert not set(every) & {repr(part) for parts in other.values() for part in parts}


def test_tests_that_reach_the_systems_generator_are_found(tmp_path: Path) -> None:
    """All of them, and no other."""
    (tmp_path / "test_offending.py").write_text(OFFENDING)
    (tmp_path / "test_fine.py").write_text(FINE)
    done = pytest_run(tmp_path, "-rfE", "--tb=short")
    failed = re.findall(r"^(?:FAILED|ERROR) test_offending\.py::(\w+)", done.stdout, re.MULTILINE)
    assert sorted(failed) == sorted(re.findall(r"def (test_\w+)", OFFENDING)), done.stdout
    assert ", 3 passed" in done.stdout
    for message in (
        "-IB does not look",
        "OpenDP draws from",
        "OpenDP was imported",
        "failure=..., how likely",
        "1e-06; less than",
        "state the",
    ):
        assert message in done.stdout


def test_a_module_that_draws_as_it_is_imported_is_found(tmp_path: Path) -> None:
    (tmp_path / "test_early.py").write_text("import os\nKEY = os.urandom(8)\ndef test_nothing(): pass\n")
    done = pytest_run(tmp_path)
    assert (done.returncode, "test_early.py:2 draws as it is imported" in done.stderr) == (4, True), done


def test_the_tests_that_sample_are_told_and_can_be_run_alone(tmp_path: Path) -> None:
    """Those that draw more than names; a ledger that is opened draws a name."""
    text = "import os, sys, subprocess\nfrom discreet.ledger import Ledger\n"
    below = "subprocess.run([sys.executable, '-c', 'import os; os.urandom(8)'], check=True)"
    names = "Ledger.open('ledger.db').close()"
    does = {"draws": "os.urandom(8)", "draws_below": below, "names": names, "draws_nothing": "1"}
    (tmp_path / "test_some.py").write_text(text + "".join(f"def test_{name}(): {do}\n" for name, do in does.items()))
    file = tmp_path / "names.txt"
    assert pytest_run(tmp_path, "--sampling-to", str(file)).returncode == 0
    assert file.read_text() == "test_some.py::test_draws\ntest_some.py::test_draws_below\n"
    assert "2 passed, 2 deselected" in pytest_run(tmp_path, "--sampling-from", str(file)).stdout


def test_all_that_sample_are_run_again_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "names.txt"
    file.write_text(f"{SAMPLING}\n")
    assert repeat_sampling.main(["--times", "1", "--alone", "--names", str(file)]) == 0
    assert "0 of 1 tests failed in any of 1 runs" in capsys.readouterr().out


def find_unseeded(source: str) -> list[str]:
    """Calls and names in a source that a seed does not reach."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    bare = [ast.unparse(call) for call in calls if not call.args and not call.keywords]
    return [call for call in bare if call.removesuffix("()") in WITHOUT_A_SEED] + SYSTEMS.findall(source)


def test_no_test_has_a_generator_that_a_seed_does_not_reach() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py") if path != Path(__file__)}
    assert {path.name: unseeded for path, source in sources.items() if (unseeded := find_unseeded(source))} == {}


@pytest.mark.parametrize(
    "source", ["import random\nrandom.Random()", "from random import Random\nRandom()", "os.getrandom(8)"]
)
def test_generators_that_a_seed_does_not_reach_are_found(source: str) -> None:
    assert find_unseeded(source)
    assert not find_unseeded("import random\nrandom.Random(1).random()")


def test_nobody_has_kept_the_systems_generator_itself() -> None:
    """Whoever imported it by its name before it was replaced would draw from it still."""
    holders = {name for name, module in [*sys.modules.items()] if SYSTEM in _values(module)}
    assert holders == {"seeded_generator", "posix", __name__}


def _values(module: object) -> list[object]:
    return [value for value in vars(module).values() if type(value) is type(SYSTEM)]


def test_the_stream_is_that_of_the_test(request: pytest.FixtureRequest) -> None:
    """In this very run, as in those above."""
    assert os.environ[BOARD] == getattr(seeding.owned, "path", None)
    assert explain_unfollowing([sys.executable], os.environ) is None
    assert get_item_name(request.node).endswith("::test_the_stream_is_that_of_the_test")
    assert os.urandom is not SYSTEM


def test_what_is_made_once_is_made_once() -> None:
    numbers: list[int] = []

    @cache
    def make(number: int) -> int:
        numbers.append(number)
        return number

    assert [make(1), make(2), make(1)] == [1, 2, 1]
    assert numbers == [1, 2]


@pytest.mark.parametrize(
    ("marker", "docstring", "fine"),
    [
        (pytest.mark.system_entropy(generator=True), "", True),
        (pytest.mark.system_entropy(generator=False), "", False),
        (pytest.mark.system_entropy(failure=2e-10), "at most 2e-10", True),
        (pytest.mark.system_entropy(failure=1e-9), "at most 1e-09", False),
        (pytest.mark.system_entropy(failure=0.0), "0", False),
        (pytest.mark.system_entropy(failure=2e-10, generator=True), "at most 2e-10", False),
        (pytest.mark.system_entropy(1e-10), "1e-10", False),
    ],
)
def test_a_marker_says_why(marker: pytest.MarkDecorator, docstring: str, fine: bool) -> None:
    assert (find_marker_fault(marker.mark, docstring) is None) is fine
