"""Public names that are imported when they are first used, stated once: in the stub beside a namespace."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module


def attach(namespace: str) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Make `__all__`, `__getattr__` and `__dir__` of a namespace from the imports in its `__init__.pyi`.

    Type checkers read the same stub. `import discreet` stays light: nothing is imported before it is used, neither the
    modules that define the names, nor regular expressions or `pathlib` to read the stub with. What the stub imports
    from the namespace itself is a module below it, as `discreet.sdc`, and not one of its names.
    """
    module = sys.modules[namespace]
    homes = {}
    with open(os.path.join(os.path.dirname(str(module.__file__)), "__init__.pyi"), encoding="utf-8") as stub:
        for line in stub:  # from discreet.<module> import <name> as <name>
            _, home, _, name, _, _ = line.split()
            homes[name] = home
    names = sorted(name for name, home in homes.items() if home != namespace and not name.startswith("_"))

    def get_public(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {namespace!r} has no attribute {name!r}")
        home = homes[name]
        value = import_module(f"{home}.{name}") if home == namespace else getattr(import_module(home), name)
        setattr(module, name, value)
        return value

    return names, get_public, lambda: sorted(homes)
