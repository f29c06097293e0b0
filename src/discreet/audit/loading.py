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

CALL_HINT = "it is called as mechanism(D, n)"
MAX_MESSAGE_LENGTH = 200


def load_mechanism(place: str) -> Mechanism:
    """The callable at module:function, or at file.py:function; whatever it raises is told in a sentence."""
    home, _, name = place.rpartition(":")
    module = _load_module(home)
    function = getattr(module, name, None)
    if not callable(function):
        raise InvalidInput(f"there is no function at {place[:80]!r}; {CALL_HINT}")
    return _guard_mechanism(function, place, module.__file__)


def _load_module(home: str) -> ModuleType:
    try:
        return _import_file(Path(home)) if home.endswith(".py") else _import_named_module(home)
    except (DiscreetError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also SystemExit, in somebody else's code
        raise InvalidInput(f"{home[:80]!r} could not be loaded: {_explain_load_error(error, home)}") from None


def _explain_load_error(error: BaseException, home: str) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"it imports {error.name[:80]!r}, which is not installed"
    if isinstance(error, SyntaxError):
        return f"SyntaxError at line {error.lineno}: {_take_first_line(error.msg)}"
    return f"it failed{_explain_error(error, str(Path(home).absolute()))}"


def _build_absent_error(home: str) -> InvalidInput:
    return InvalidInput(f"there is no {home[:80]!r} to load; write module:function or file.py:function")


def _import_named_module(name: str) -> ModuleType:
    """A module, also one in this folder."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise _build_absent_error(name)
    if "" not in sys.path:
        sys.path.append("")  # at the end, so that no file here stands in for a library
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if f"{name}.".startswith(f"{error.name}."):
            raise _build_absent_error(name) from None
        raise


def _import_file(path: Path) -> ModuleType:
    """A file, as a module of a name that no library has; a dataclass in it looks itself up by that."""
    spec = importlib.util.spec_from_file_location(f"audited {path.stem}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise _build_absent_error(str(path))
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _guard_mechanism(mechanism: Callable[..., object], place: str, file: str | None) -> Mechanism:
    """The same, but that it failed is an error of the caller's."""

    def sample(data: Any, n: int) -> object:
        try:
            outputs = mechanism(data, n)
            return list(outputs) if isinstance(outputs, Iterator) else outputs
        except (DiscreetError, KeyboardInterrupt):
            raise
        except BaseException as error:  # also SystemExit, in somebody else's code
            raise InvalidInput(f"{place[:80]!r} failed{_explain_error(error, file)}; {CALL_HINT}") from None

    return sample


def _explain_error(error: BaseException, file: str | None) -> str:
    """Where in a file something failed, and what it said."""
    line = _find_line(error, file)
    where, message = f" at line {line}" if line else "", _take_first_line(str(error))
    return f"{where} with {type(error).__name__}" + (f": {message}" if message else "")


def _find_line(error: BaseException, file: str | None) -> int | None:
    """The innermost line of this file that the error passed."""
    line, traceback = None, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == file:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _take_first_line(message: str) -> str:
    first = message.strip().partition("\n")[0]
    return "".join(character if character.isprintable() else " " for character in first)[:MAX_MESSAGE_LENGTH]
