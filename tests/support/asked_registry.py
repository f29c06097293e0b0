"""The sample registry, registered and asked once, for tests that lose, restore and replace its ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command_line import done, write_registry

COUNT = "SELECT COUNT(*) FROM registry WHERE age > {age}"


@pytest.fixture
def registry_path(tmp_path: Path) -> Path:
    """The schema of the sample registry, asked once."""
    path = write_registry(tmp_path)
    done("ask", path, COUNT.format(age=50), "--epsilon", "0.25")
    return path


def remove_ledger(ledger: Path) -> None:
    """Remove a ledger's file and what SQLite keeps beside it."""
    for path in ledger.parent.glob("ledger.db*"):
        path.unlink()
