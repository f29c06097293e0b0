"""Somebody else's callable: found by its place, called, and what goes wrong in it told by its line and its words."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from discreet.audit.auditing import Mechanism
from discreet.errors import DiscreetError, InvalidInput

CALLED = "it is called as mechanism(D, n)"
LONGEST = 200


def load(place: str) -> Mechanism:
    """The callable at module:function, or at file.py:function; whatever it raises is told in a sentence."""
    home, _, name = place.rpartition(":")
    module = _loaded(home)
    found = getattr(module, name, None)
    if not callable(found):
        raise InvalidInput(f"there is no function at {place[:80]!r}; {CALLED}")
    return _guarded(found, place, module.__file__)


def _loaded(home: str) -> ModuleType:
    try:
        return _file(Path(home)) if home.endswith(".py") else _module(home)
    except (DiscreetError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also SystemExit, in somebody else's code
        raise InvalidInput(f"{home[:80]!r} could not be loaded: {_on_loading(error, home)}") from None


def _on_loading(error: BaseException, home: str) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"it imports {error.name[:80]!r}, which is not installed"
    if isinstance(error, SyntaxError):
        return f"SyntaxError at line {error.lineno}: {_first_line(error.msg)}"
    return f"it failed{_why(error, str(Path(home).absolute()))}"


def _absent(home: str) -> InvalidInput:
    return InvalidInput(f"there is no {home[:80]!r} to load; write module:function or file.py:function")


def _module(name: str) -> ModuleType:
    """A module, also one in this folder."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise _absent(name)
    if "" not in sys.path:
        sys.path.append("")  # at the end, so that no file here stands in for a library
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if f"{name}.".startswith(f"{error.name}."):
            raise _absent(name) from None
        raise


def _file(path: Path) -> ModuleType:
    """A file, as a module of a name that no library has; a dataclass in it looks itself up by that."""
    spec = importlib.util.spec_from_file_location(f"audited {path.stem}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise _absent(str(path))
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _guarded(mechanism: Callable[..., object], place: str, file: str | None) -> Mechanism:
    """The same, but that it failed is an error of the caller's."""

    def draw(data: Any, n: int) -> object:
        try:
            made = mechanism(data, n)
            return list(made) if isinstance(made, Iterator) else made
        except (DiscreetError, KeyboardInterrupt):
            raise
        except BaseException as error:  # also SystemExit, in somebody else's code
            raise InvalidInput(f"{place[:80]!r} failed{_why(error, file)}; {CALLED}") from None

    return draw


def _why(error: BaseException, file: str | None) -> str:
    """Where in a file something failed, and what it said."""
    line = _line(error, file)
    where, said = f" at line {line}" if line else "", _first_line(str(error))
    return f"{where} with {type(error).__name__}" + (f": {said}" if said else "")


def _line(error: BaseException, file: str | None) -> int | None:
    """The innermost line of this file that the error passed."""
    found, at = None, error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == file:
            found = at.tb_lineno
        at = at.tb_next
    return found


def _first_line(said: str) -> str:
    first = said.strip().partition("\n")[0]
    return "".join(sign if sign.isprintable() else " " for sign in first)[:LONGEST]
