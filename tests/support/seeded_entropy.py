"""A plugin of pytest: every test draws from a stream that follows from its name, and nothing reaches another generator.

For as long as a test runs, `os.urandom` is a seeded stream, in its process and in all below it (`launcher/`); so are
`random` and `numpy.random`. What is made once for several tests, by a fixture of a module or a session or by `cache`,
has a stream of its own, since which test comes first must change nothing. `DISCREET_TEST_SEED` gives all of them other
streams. A test that needs the system's generator says so:

    @pytest.mark.system_entropy(generator=True)  # a test of the generator itself: `os.urandom` is the system's
    @pytest.mark.system_entropy(failure=1e-12)  # draws from a library that has its own and takes no seed, as OpenDP

The latter fails by chance with at most this probability, which is below 1e-9, and which its docstring states. Any other
test fails where it draws from such a library, or starts a process that would not follow.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import mmap
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).with_name("launcher")))
import seeded_generator
from seeded_generator import BOARD, NO_SEED, NUMBER, SAMPLED, SEED, SIZE, TURN, followed, stream_of

SESSION_SEED = "DISCREET_TEST_SEED"
LAUNCHER = seeded_generator.FOLDER
MARKER = "system_entropy"
LIKELIEST = 1e-9
"""A test that may fail where nothing is wrong does so less often than this."""
SAMPLED_BY = "sampled by"
"""Among the properties of a test's report."""
WITHOUT_SITE = set("IES")
"""Options of Python with which it does not look at this launcher."""

Given = ParamSpec("Given")
Made = TypeVar("Made")


class Board:
    """The board of this process, on which it writes whose turn it is."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="discreet-"))
        self.path = str(self.folder / "board")
        Path(self.path).write_bytes(bytes(SIZE))
        self._file = os.open(self.path, os.O_RDWR)
        self._page = mmap.mmap(self._file, SIZE)
        self.write(NO_SEED, 0, b"\0")

    def write(self, seed: bytes, number: int, sampled: bytes) -> None:
        """A new turn."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._page[SEED], self._page[SAMPLED] = seed, sampled
        self._page[NUMBER] = number.to_bytes(8, "big")
        self._page[TURN] = (int.from_bytes(self._page[TURN], "big") + 1).to_bytes(8, "big")
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def read(self) -> tuple[bytes, int, bytes]:
        return self._page[SEED], int.from_bytes(self._page[NUMBER], "big"), self._page[SAMPLED]

    def close(self) -> None:
        os.close(self._file)
        shutil.rmtree(self.folder)


class Seeding:
    """What a run of tests has of all this."""

    def __init__(self) -> None:
        self.board: Board | None = None
        self.process = 0
        self.seeded = False
        self.libraries = False
        """Whether a library may draw from the system's generator."""
        self.offences: list[str] = []

    @property
    def owned(self) -> Board | None:
        """The board, in the process that runs the tests; what is forked from it only follows."""
        return self.board if self.process == os.getpid() else None

    def start(self) -> None:
        """Begin to follow a board of our own, and have all processes follow it."""
        self.board, self.process = Board(), os.getpid()
        os.environ[BOARD] = self.board.path
        others = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one not in ("", LAUNCHER)]
        os.environ["PYTHONPATH"] = os.pathsep.join([LAUNCHER, *others])
        seeded_generator.install(self.board.path)
        self.turn_to("collecting")

    def stop(self) -> None:
        if self.owned:
            self.owned.close()
            self.board = None
            del os.environ[BOARD]

    def turn_to(self, name: str | None) -> None:
        """All draws follow from a name from now on; without one, they are the system's."""
        if board := self.owned:
            seed = NO_SEED if name is None else compute_seed(name)
            board.write(seed, 1, b"\0")
            followed.switch(stream_of(seed, 0))
            self.seeded, self.offences = name is not None, []
            _seed_libraries(seed)

    @property
    def sampled(self) -> bool:
        """Whether anything but names was drawn since, here or below."""
        return self.board is not None and self.board.read()[2] != b"\0"

    @contextmanager
    def apart(self, name: str) -> Iterator[None]:
        """Meanwhile, all draws follow from another name; afterwards they go on where they were."""
        board = self.owned
        if board is None or not self.seeded:
            yield
            return
        seed, _, sampled = board.read()
        stream, states = followed.stream, _library_states()
        own_seed = compute_seed(name)
        board.write(own_seed, 1, b"\0")
        followed.switch(stream_of(own_seed, 0))
        _seed_libraries(own_seed)
        try:
            yield
        finally:
            _, number, also = board.read()
            board.write(seed, number, max(sampled, also))
            followed.switch(stream)
            _restore_libraries(states)

    def refuse(self, offence: str) -> None:
        """Fail the test: here, and at its end, if somebody catches this."""
        if self.owned:
            self.offences.append(offence)
            pytest.fail(offence)


seeding = Seeding()


def compute_seed(name: str) -> bytes:
    """The seed of a test, or of what is made once."""
    return hashlib.sha256(f"{os.environ.get(SESSION_SEED, '')}\n{name}".encode()).hexdigest().encode()


def cache(make: Callable[Given, Made]) -> Callable[Given, Made]:
    """As `functools.cache`; but what it draws follows from what is made, and not from the test that is the first."""

    @functools.cache
    @functools.wraps(make)
    def draw_and_cache(*args: Given.args, **kwargs: Given.kwargs) -> Made:
        key_parts = [repr(one) for one in (*args, *kwargs.values()) if isinstance(one, str | int | float)]
        with seeding.apart(" ".join([make.__module__, make.__qualname__, *key_parts])):
            return make(*args, **kwargs)

    return draw_and_cache


def _seed_libraries(seed: bytes) -> None:
    """What `random` and `numpy.random` draw where they are not asked for a generator."""
    random.seed(seed)
    np.random.seed(None if seed == NO_SEED else int(seed[:8], 16))


def _library_states() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state()


def _restore_libraries(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])


def get_item_name(item: pytest.Item) -> str:
    """A test's name, whoever runs it: without the group that pytest-xdist adds."""
    group = item.get_closest_marker("xdist_group")
    return item.nodeid.removesuffix(f"@{group.args[0]}") if group and group.args else item.nodeid


def strip_place(name: str) -> str:
    """The name without its file's folder, so that a test that moves draws as before; no two test files share a name."""
    file, colons, test = name.partition("::")
    return f"tests/{Path(file).name}{colons}{test}" if file.endswith(".py") else name


def find_marker_fault(marker: pytest.Mark, docstring: str) -> str | None:
    """What a marker lacks, if anything."""
    if marker.kwargs == {"generator": True} and not marker.args:
        return None
    failure = marker.kwargs.get("failure")
    if marker.args or set(marker.kwargs) != {"failure"} or not isinstance(failure, float):
        return f"@pytest.mark.{MARKER} needs failure=..., how likely it fails by chance, or generator=True"
    if not 0 < failure < LIKELIEST:
        return f"it may fail by chance with probability {failure:g}; less than {LIKELIEST:g} is allowed"
    return None if f"{failure:g}" in docstring else f"its docstring must state the probability, {failure:g}"


def explain_unfollowing(args: object, environment: Mapping[str, str]) -> str | None:
    """Why a process that is started so would not follow, if it would not."""
    launched = LAUNCHER in environment.get("PYTHONPATH", "").split(os.pathsep)
    if environment.get(BOARD) != os.environ.get(BOARD) or not launched:
        return f"its environment lacks {BOARD}, or {LAUNCHER} on PYTHONPATH: start from os.environ, and keep both"
    words = [str(one) for one in args] if isinstance(args, Sequence) and not isinstance(args, str | bytes) else []
    if words and Path(words[0]).name.startswith("python"):
        for word in words[1:]:
            if not word.startswith("-") or word in {"-c", "-m"}:
                break
            if word[1:2] not in {"-", "X", "W"} and WITHOUT_SITE & set(word[1:]):
                return f"Python with {word} does not look at {LAUNCHER}"
    return None


def _guard_processes() -> None:
    """A process that would not follow is not started."""
    start = subprocess.Popen.__init__

    @functools.wraps(start)
    def start_guarded(self: Any, args: Any, *args_more: Any, **named: Any) -> None:
        environment = named.get("env")
        why = explain_unfollowing(args, os.environ if environment is None else environment)
        if why and seeding.seeded:
            seeding.refuse(f"a process would draw from the system's generator: {why}")
        start(self, args, *args_more, **named)

    subprocess.Popen.__init__ = start_guarded  # type: ignore[method-assign]


def _guard_opendp() -> bool:
    """It has a generator of its own, in Rust, without a seed; whether it was imported since."""
    measurement = getattr(sys.modules.get("opendp.mod"), "Measurement", None)
    if measurement is None or hasattr(measurement.__call__, "__wrapped__"):
        return False
    invoke = measurement.__call__

    @functools.wraps(invoke)
    def invoke_guarded(self: Any, *args: Any, **named: Any) -> Any:
        if not seeding.libraries:
            seeding.refuse(f"OpenDP draws from the system's generator: mark the test with {MARKER}(failure=...)")
        return invoke(self, *args, **named)

    measurement.__call__ = invoke_guarded
    return True


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("chance")
    group.addoption("--sampling-to", metavar="FILE", help="write the names of all tests that sampled to a file")
    group.addoption("--sampling-from", metavar="FILE", help="run only the tests that such a file names")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}(failure, generator): may draw from the system's generator")
    config.option.randomly_reset_seed = False  # pytest-randomly shuffles; its seed is another in every run
    if config.getoption("sampling_to") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailureReport(Path(config.getoption("sampling_to"))))
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        seeding.start()
        config.add_cleanup(seeding.stop)
        _guard_processes()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if named := config.getoption("sampling_from"):
        wanted = set(Path(named).read_text().splitlines())
        left = [item for item in items if get_item_name(item) not in wanted]
        items[:] = [item for item in items if get_item_name(item) in wanted]
        config.hook.pytest_deselected(items=left)


def pytest_collection_finish() -> None:
    if seeding.sampled:
        raise pytest.UsageError(f"{followed.sampler} draws as it is imported: draw in a test, or in what is made once")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _guard_opendp()
    marker = item.get_closest_marker(MARKER)
    seeding.libraries = marker is not None
    seeding.turn_to(None if marker and "generator" in marker.kwargs else strip_place(get_item_name(item)))
    try:
        return (yield)
    finally:
        seeding.libraries = True
        seeding.turn_to(f"after {item.nodeid}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    docstring = getattr(getattr(item, "function", None), "__doc__", None) or ""
    for marker in item.iter_markers(MARKER):
        if why := find_marker_fault(marker, docstring):
            pytest.fail(why, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    result = yield
    if _guard_opendp() and not seeding.libraries:
        seeding.offences.append(f"OpenDP was imported: import it with the module, or mark the test with {MARKER}")
    if seeding.offences:
        pytest.fail("\n".join(seeding.offences), pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    try:
        return (yield)
    finally:
        if seeding.sampled or item.get_closest_marker(MARKER):
            item.user_properties.append((SAMPLED_BY, get_item_name(item)))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    if fixturedef.scope == "function":
        return (yield)
    with seeding.apart(f"{strip_place(fixturedef.baseid)} {fixturedef.argname} {getattr(request, 'param_index', 0)}"):
        return (yield)


class FailureReport:
    """Writes which tests sampled."""

    def __init__(self, file: Path) -> None:
        self._file, self._names = file, set[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._names |= {str(name) for key, name in report.user_properties if key == SAMPLED_BY}

    def pytest_sessionfinish(self) -> None:
        self._file.write_text("".join(f"{name}\n" for name in sorted(self._names)))
