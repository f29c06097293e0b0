"""Runs what is copied: every step in a process of its own, forked from one that has imported everything already."""

from __future__ import annotations

import atexit
import gc
import hashlib
import html
import json
import os
import pkgutil
import re
import shlex
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import fixed_machine

from fold_json import fold_output
from masks import mask
from package_places import find

LATER = ("scipy.optimize", "scipy.sparse.csgraph", "scipy.sparse.linalg", "scipy.spatial.distance", "vl_convert")
"""Libraries that are imported only where they are used; imported before the first fork, they are imported once."""
PASSED_ON = ("PATH", "TZ", "LANG", "LC_ALL")
"""Of the environment; TZ and the language are to make no difference."""
FIXED = {"COLUMNS": "100", "LINES": "40", "TERM": "dumb"}
LONGEST_PAGE = 20_000
"""Characters of a page of HTML that is copied whole."""


class Case:
    """One file of copies: commands, calls and files, one below the other, in a folder of its own."""

    def __init__(self, name: str, start: Path | None = None) -> None:
        self.name, self.parts, self._steps = name, list[str](), 0
        # Always in /tmp, so that the name is always as long: a table is as wide as what stands in it.
        self.folder = Path(tempfile.mkdtemp(prefix="discreet-copy-", dir="/tmp"))
        if start is not None:
            shutil.copytree(start, self.folder, dirs_exist_ok=True)

    def run(self, *words: str, typed: str = "", shown: str | None = None) -> str:
        """Copy what a command says on both streams, and its exit code; return its standard output."""
        input_text = f" < {typed!r}" if typed else ""
        return self._step(
            f"$ discreet {shown or shlex.join(words)}{input_text}", lambda: run_command(words), typed, coded=True
        )

    def run_all(self, *commands: Sequence[str]) -> None:
        """Copy what several commands say that one process runs one after the other, which is quicker."""
        self._steps += 1
        name = f"{self.name} {self._steps}"
        code, out, err = fork(name, lambda: _run_commands(name, commands), self.folder)
        assert code == 0, err
        for words, (ended, output, complained) in zip(commands, json.loads(out), strict=True):
            self._add_step(f"$ discreet {shlex.join(words)}", ended, output, complained, coded=True)

    def call(self, title: str, work: Callable[[], None]) -> str:
        """Copy what a function prints in a process of its own; return it."""
        return self._step(title, work)

    def show(self, *names: str) -> None:
        """Copy files as they are; of a long page only what can be read, and a hash of all."""
        for name in names:
            path = self.folder / name
            text = path.read_text() if path.exists() else "(there is no such file)\n"
            self.add(
                f"== {name}", _shorten(mask(text, str(self.folder))) if name.endswith(".html") else fold_output(text)
            )

    def show_tables(self, name: str, tables: Sequence[str] = ()) -> None:
        """Copy the rows of a SQLite database, of all tables with what they are made of or of some in short."""
        if (self.folder / name).exists():
            self.add(f"== tables of {name}", "".join(f"{line}\n" for line in dump(self.folder / name, tables)))

    def write(self, name: str, text: str) -> None:
        """Write a file for what comes next."""
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def change(self, name: str, *changes: tuple[str, str]) -> None:
        """Replace text in a file, all of which must be there."""
        text = (self.folder / name).read_text()
        for old, new in changes:
            assert old in text, (self.name, old)
            text = text.replace(old, new)
        (self.folder / name).write_text(text)

    def add(self, title: str, text: str) -> None:
        """Add a part to the copy."""
        body = text if text.endswith("\n") or not text else f"{text}\n(no line end)\n"
        self.parts.append(mask(f"{title}\n{body}", str(self.folder)))

    def finish(self, out: Path) -> None:
        """Write the copy, and take the folder away."""
        path = out / f"{self.name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(self.parts))
        shutil.rmtree(self.folder)

    def _step(self, title: str, work: Callable[[], None], typed: str = "", coded: bool = False) -> str:
        """Run something in a process of its own, whose chance follows from the case and the step's number."""
        self._steps += 1
        code, out, err = fork(f"{self.name} {self._steps}", work, self.folder, typed)
        self._add_step(title, code, out, err, coded)
        return out

    def _add_step(self, title: str, code: int, out: str, err: str, coded: bool) -> None:
        """Add what was said on both streams, and how it ended."""
        text = fold_output(out) if out.endswith("\n") or not out else f"{out}\n(no line end)\n"
        if err:
            text += f"[stderr]\n{err}"
        self.add(title, f"{text}[exit {code}]\n" if coded or code else text)


def fork(name: str, work: Callable[[], None], folder: Path, typed: str = "") -> tuple[int, str, str]:
    """Run a function in a new process in a folder; return its exit code and what it said on both streams."""
    with tempfile.TemporaryFile() as entered, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        entered.write(typed.encode())
        entered.seek(0)
        if (process := os.fork()) == 0:
            _become(name, folder, [entered.fileno(), out.fileno(), err.fileno()])
            _work_and_end(work)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        lines = []
        for stream in (out, err):
            stream.seek(0)
            lines.append(stream.read().decode())
    return code, lines[0], lines[1]


def _become(name: str, folder: Path, files: Sequence[int]) -> None:
    """Be a process with this folder, these files, a small environment, and chance that follows from a name."""
    os.chdir(folder)
    passed_on = {key: os.environ[key] for key in PASSED_ON if key in os.environ}
    os.environ.clear()
    os.environ.update(passed_on | FIXED | {"HOME": str(folder)})
    for standard, file in enumerate(files):
        os.dup2(file, standard)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    fixed_machine.begin(name)


def _work_and_end(work: Callable[[], None]) -> None:
    """Run a function, and end the process as Python would."""
    code: object = 0
    try:
        work()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        with suppress(Exception):
            atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def run_command(words: Sequence[str]) -> None:
    """Run the command as it is installed."""
    sys.argv = ["discreet", *words]
    find("command")()


def _run_commands(name: str, commands: Sequence[Sequence[str]]) -> None:
    """Run commands one after the other, each with streams and chance of its own; print how each ended as JSON."""
    ended = []
    saved_files = os.dup(1), os.dup(2)
    for number, words in enumerate(commands):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            fixed_machine.begin(f"{name} {number}")
            code: object = 0
            try:
                run_command(words)
            except SystemExit as end:
                code = end.code
            sys.stdout.flush()
            sys.stderr.flush()
            results = []
            for stream in (out, err):
                stream.seek(0)
                results.append(stream.read().decode())
            ended.append([code, *results])
    os.dup2(saved_files[0], 1)
    os.dup2(saved_files[1], 2)
    print(json.dumps(ended))


def import_all() -> None:
    """Import all of the package and what it imports later, so that no forked process has to."""
    import discreet

    for module in pkgutil.walk_packages(discreet.__path__, "discreet."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for name in LATER:
        import_module(name)
    discreet.microaggregate([1, 2, 3, 4], 2)  # loads what was compiled
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "a thread does not live through a fork"
    gc.collect()
    gc.freeze()


def dump(path: Path, tables: Sequence[str] = ()) -> Iterable[str]:
    """Yield the rows of a database in order; of all tables with the words that made them, or of some."""
    connection = sqlite3.connect(path)
    statements = connection.execute("SELECT name, type, sql FROM sqlite_master ORDER BY type DESC, name").fetchall()
    for name, kind, sql in statements:
        if tables and name not in tables:
            continue
        if not tables and sql:
            yield " ".join(sql.split())
        if kind == "table":
            yield from _dump_table(connection, name, bool(tables))
    connection.close()


def _dump_table(connection: sqlite3.Connection, name: str, short: bool) -> Iterable[str]:
    """Yield a line for each value of a table."""
    cursor = connection.execute(f'SELECT * FROM "{name}"')
    columns = [column[0] for column in cursor.description]
    rows = [[_format_value(value) for value in row] for row in cursor]
    if short:  # the terms of an account take up most of an entry; they are copied where all tables are
        rows = [[re.sub(r'"opens":{.*?},"part"', '"opens":{...},"part"', one) for one in row] for row in rows]
        rows = [row for row in rows if "register" not in row]
    rows.sort(key=lambda row: [_in_order(value) for value in row])
    for number, row in enumerate(rows, 1):
        yield f"-- {name} {number}"
        for column, value in zip(columns, row, strict=True):
            if not (short and (value == "null" or column == "dataset")):
                yield f"{column}: {value}"


def _format_value(value: object) -> str:
    """Return a value of a database as text."""
    return value.hex() if isinstance(value, bytes) else json.dumps(value) if not isinstance(value, str) else value


def _in_order(value: str) -> tuple[int, str]:
    """Return what sorts numbers as numbers."""
    return (int(value), "") if value.isdecimal() and len(value) < 10 else (0, value)


def _shorten(page: str) -> str:
    """Return a page, or of a long one what can be read and a hash of all."""
    if len(page) <= LONGEST_PAGE:
        return page
    visible = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    lines = [" ".join(html.unescape(line).split()) for line in re.sub(r"<[^>]*>", "\n", visible).splitlines()]
    rest = hashlib.sha256(page.encode()).hexdigest()
    return "\n".join([*filter(None, lines), f"[a page of {len(page)} characters, SHA-256 {rest}]", ""])
