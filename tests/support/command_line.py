"""The `discreet` command in the process of the tests, and data sets to run it on."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from discreet import sample
from discreet.cli.main import run_command_line
from support import temporary_folders
from support.seeded_entropy import cache

ROOT = Path(__file__).parents[2]
PATIENTS = 2000


@dataclass(frozen=True)
class Outcome:
    """What a command did: its exit code, and what it said."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)


def run_discreet(*words: object, typed: bytes = b"") -> Outcome:
    """Run one command, with `typed` on its standard input."""
    out, err = io.StringIO(), io.StringIO()
    stdin = io.TextIOWrapper(io.BytesIO(typed))
    with patch.object(sys, "stdin", stdin), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_command_line([str(word) for word in words])
    return Outcome(code, out.getvalue(), err.getvalue())


def run_successfully(*words: object, typed: bytes = b"") -> Outcome:
    """Run a command that must succeed."""
    outcome = run_discreet(*words, typed=typed)
    assert (outcome.code, outcome.err) == (0, ""), outcome
    return outcome


def write_registry(folder: Path) -> Path:
    """The schema of a small sample registry."""
    return shutil.copytree(_make_registry(), folder, dirs_exist_ok=True) / "registry.yaml"


@cache
def _make_registry() -> Path:
    """A folder with its files, made once."""
    folder = temporary_folders.lasting()
    sample.write_registry(folder, PATIENTS)
    return folder


def digest_files(folder: Path) -> dict[str, str]:
    """A digest of every file below a folder but the ledger, which is compared by its head, and locks."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    compared = (path for path in paths if not path.name.startswith(("ledger.db", "lock")))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in compared}
