"""Python programs that start at once, since what they import is imported already: a server forks one for who asks.

A page of the documentation types `discreet` a dozen times, and each time would import for a second. `server()` has
imported the whole package; a `Program` is forked from it, with the words, folder, environment and open files of who
asks, and it ends as any other does. `stand_in()` serves programs that are typed too: it puts a `discreet` and a
`python` before those on the path, and these ask. Any other `python` than `python -m discreet...` is the real one.

What Python itself reads as it starts, as PYTHONPATH, is the server's; but with PYTHONWARNINGS=error, a warning is an
error from when the program begins. SIGINT and SIGTERM are passed on. Where such a program starts one of the processes
of `multiprocessing`, as `discreet serve` does that from which its workers are forked, this is forked too.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import NoReturn

PASSED_ON = (signal.SIGINT, signal.SIGTERM)
PATIENCE = 5
"""Seconds after which a server looks whether it is still needed."""
LAZY_IMPORTS = ("scipy.optimize", "scipy.sparse.csgraph", "scipy.sparse.linalg", "scipy.spatial.distance", "vl_convert")
"""What the package imports only where it is used."""
COMMAND_SCRIPT = """#!{python} -IS
import sys
sys.path.insert(0, {tests!r})
from support.fork_server import run_typed_command
run_typed_command({address!r})
"""


class Program:
    """A program that was forked for us; its words are what one types after `python`: a file or `-m` and a module."""

    def __init__(
        self,
        address: str,
        words: Sequence[str],
        environment: Mapping[str, str],
        *files: int,
        folder: Path | None = None,
    ) -> None:
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(address)
        socket.send_fds(self._server, [b"."], files)
        self._told = self._server.makefile("rw", encoding="utf-8")
        print(json.dumps([words, str(folder or Path.cwd()), dict(environment)]), file=self._told, flush=True)
        self.pid = int(self._told.readline())
        self._code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, as a shell tells it, as often as one likes; an error if it does not end in so many seconds."""
        if self._code is None:
            self._server.settimeout(timeout)
            code = int(self._told.readline())
            self._server.close()
            self._code = code if code >= 0 else 128 - code
        return self._code


@contextmanager
def run_server() -> Iterator[str]:
    """A server for as long as it is needed; yields its address."""
    with TemporaryDirectory(prefix="discreet-", dir="/tmp") as folder:
        address = f"{folder}/server"
        with subprocess.Popen([sys.executable, __file__, address], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            try:
                yield address
            finally:
                process.kill()


@cache
def start_shared_server() -> str:
    """The address of one server for all tests of this process, until it ends."""
    until_the_end = ExitStack()
    atexit.register(until_the_end.close)
    return until_the_end.enter_context(run_server())


def run_forked(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` does it: how a program ended that is forked in a folder, and what it said."""
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err, Path(os.devnull).open() as nothing:
        files = nothing.fileno(), out.fileno(), err.fileno()
        code = Program(start_shared_server(), words, environment, *files, folder=folder).wait()
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), err.read())


@contextmanager
def stand_in_for_commands(folder: Path) -> Iterator[None]:
    """Meanwhile, what is typed as `discreet` is forked from this process as it is now."""
    address = str(folder / "server")
    text = COMMAND_SCRIPT.format(python=sys.executable, tests=str(Path(__file__).parents[1]), address=address)
    for name in ("discreet", "python"):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    listener = _listen(address)
    if (server_pid := os.fork()) == 0:
        _run(_serve(listener))
    listener.close()
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
    try:
        yield
    finally:
        os.kill(server_pid, signal.SIGKILL)
        os.waitpid(server_pid, 0)


def run_typed_command(address: str) -> None:
    """Be the command that was typed."""
    name, *words = Path(sys.argv[0]).name, *sys.argv[1:]
    if name == "discreet":
        words = [str(Path(sys.executable).with_name("discreet")), *words]
    elif words[:1] != ["-m"] or not words[1].startswith("discreet"):
        os.execv(sys.executable, [sys.executable, *words])
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    program = Program(address, words, os.environ, 0, 1, 2)
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: os.kill(program.pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    os._exit(program.wait())


def _listen(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    listener.settimeout(PATIENCE)
    return listener


def _serve(listener: socket.socket) -> list[str]:
    """Fork for everyone who asks, while there is somebody; returns in the forked, with the words that it is to run."""
    parent = os.getppid()
    keepers: set[int] = set()
    while os.getppid() == parent:
        keepers -= {keeper for keeper in keepers if os.waitpid(keeper, os.WNOHANG)[0]}
        try:
            request_socket, _ = listener.accept()
        except TimeoutError:
            continue
        if (keeper := os.fork()) == 0:
            listener.close()
            return _fork_twice(request_socket)
        keepers.add(keeper)
        request_socket.close()
    os._exit(0)


def _fork_twice(request_socket: socket.socket) -> list[str]:
    """Fork once more: one is the program, the other, its keeper, waits for it and tells how it ended."""
    _, files, _, _ = socket.recv_fds(request_socket, 1, 3)
    channel = request_socket.makefile("rw", encoding="utf-8")
    words, folder, environment = json.loads(channel.readline())
    if program := os.fork():
        for file in files:
            os.close(file)
        print(program, file=channel, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]), file=channel, flush=True)
        os._exit(0)
    channel.close()
    request_socket.close()
    _take_over(folder, environment, files)
    return list(words)


def _take_over(folder: str, environment: Mapping[str, str], files: Sequence[int]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for standard, file in enumerate(files):
        os.dup2(file, standard)
        os.close(file)


def _run(words: Sequence[str]) -> NoReturn:
    """Run a module or a file as Python would, and end; but all that was imported is not taken down piece by piece."""
    import runpy

    code: object = 0
    _fork_helpers()
    if os.environ.get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")
    try:
        if words[0] == "-m":
            sys.argv, sys.path[0] = [*words[1:]], os.getcwd()
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv, sys.path[0] = [*words], str(Path(words[0]).parent)
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as exit_request:
        code = exit_request.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _fork_helpers() -> None:
    """A process that `multiprocessing` starts for itself is forked, and need not import all of this once more.

    It has the files, the folder and the name for modules that it would have; a process with threads starts it as ever.
    That what is installed imports all it needs is shown by those that are not forked: the sample that is served without
    a configuration, and the service on a full disk.
    """
    from multiprocessing import util

    start = util.spawnv_passfds

    def fork(path: bytes, words: Sequence[str], files: Sequence[int]) -> int:
        if words[-2] != "-c" or len([*Path("/proc/self/task").iterdir()]) > 1:
            return start(path, words, files)
        if child := os.fork():
            return child
        try:
            _close_all_but({0, 1, 2, *files})
            if "PYTHONSAFEPATH" in os.environ:
                del sys.path[0]
            exec(words[-1], {"__name__": "__main__"})
        except Exception:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(0)  # and nothing closes a file again whose number is another's by now

    util.spawnv_passfds = fork


def _close_all_but(kept_files: set[int]) -> None:
    for file in {int(one.name) for one in Path("/proc/self/fd").iterdir()} - kept_files:
        with suppress(OSError):  # that of the folder itself
            os.close(file)


def _import_all() -> None:
    """All of the package, but what is only ever run; a thread would not live through a fork."""
    import pkgutil
    from importlib import import_module

    import discreet
    from discreet.sdc.methods.microaggregate import microaggregate

    for module in pkgutil.walk_packages(discreet.__path__, "discreet."):
        if not module.name.endswith(("__main__", "discreet.sample", "service.health")):
            import_module(module.name)
    for name in LAZY_IMPORTS:
        import_module(name)
    microaggregate([1, 2, 3, 4], 2)  # loads what Numba compiled
    threads = Path("/proc/self/task")
    assert not threads.is_dir() or len([*threads.iterdir()]) == 1
    gc.collect()
    gc.freeze()  # or whoever is forked goes through all of this again, and gets a copy of it


if __name__ == "__main__":
    waiting = _listen(sys.argv[1])
    _import_all()
    print("ready", flush=True)
    _run(_serve(waiting))
