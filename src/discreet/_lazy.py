"""Public names that are imported when they are first used, stated once: in the stub beside a namespace."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

IMPORT = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)


def attach(namespace: str) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Read `__init__.pyi` of a namespace and make its `__all__`, `__getattr__` and `__dir__`.

    Type checkers read the same stub. `import discreet` stays light, since nothing is imported before it is used.
    """
    module = sys.modules[namespace]
    homes = {name: home for home, name in IMPORT.findall(Path(str(module.__file__)).with_suffix(".pyi").read_text())}
    names = sorted(name for name in homes if not name.startswith("_"))

    def get_public(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {namespace!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(module, name, value)
        return value

    return names, get_public, lambda: names
