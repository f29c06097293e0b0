"""The one list of where things are in the package: when a module moves, mend it here and nowhere else."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PLACES = {
    "command": tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["discreet"],
    "write_registry": "discreet.sample:write_registry",
    "read_config": "discreet.service.config:read_config",
    "make_app": "discreet.service.app:make_app",
    "run_next": "discreet.service.jobs:run_next_job",
}
"""Module and name of all that is called otherwise than as `discreet.NAME`; the command as it is installed."""


def find(name: str) -> Any:
    """Return what has a name in the list above."""
    module, _, attribute = PLACES[name].partition(":")
    return getattr(import_module(module), attribute)
