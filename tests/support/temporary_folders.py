"""A folder for what is made once, and copied by the tests that need it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path


def lasting() -> Path:
    """A new folder, which is there until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="discreet-"))
    atexit.register(shutil.rmtree, folder)
    return folder
