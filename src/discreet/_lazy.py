"""Public names that are imported when they are first used, stated once: in the stub beside a namespace."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module


def attach(namespace: str) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Make `__all__`, `__getattr__` and `__dir__` of a namespace from the imports in its `__init__.pyi`.

    Type checkers read the same stub. `import discreet` stays light: nothing is imported before it is used, neither the
    modules that define the names, nor regular expressions or `pathlib` to read the stub with.
    """
    module = sys.modules[namespace]
    homes = {}
    with open(os.path.join(os.path.dirname(str(module.__file__)), "__init__.pyi"), encoding="utf-8") as stub:
        for line in stub:  # from discreet.<module> import <name> as <name>
            _, home, _, name, _, _ = line.split()
            if not name.startswith("_"):
                homes[name] = home
    names = sorted(homes)

    def get_public(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {namespace!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(module, name, value)
        return value

    return names, get_public, lambda: names
