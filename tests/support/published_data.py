"""The public files that printed tables were made of; they are not kept with the code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("DISCREET_DATA", Path(__file__).parents[3] / "shared" / "data"))


def find_shared_data(name: str) -> Path:
    """Where the file is; without it the test is skipped."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"{name} is not here; it is expected in {FOLDER}")
    return path
