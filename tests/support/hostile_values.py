"""Values of a caller's own classes that write down every call of their methods, and what the calls were given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

UNTOUCHED_NAMES = {
    "__new__",
    "__init__",
    "__class__",
    "__init_subclass__",
    "__subclasshook__",
    "__dict__",
    "__getattribute__",
}
UNTOUCHED_NAMES |= {
    "__slots__",
    "__doc__",
    "__module__",
    "__getnewargs__",
    "__setattr__",
    "__delattr__",
    "__weakref__",
    "__dir__",
}
UNTOUCHED_NAMES |= {
    "__match_args__",
    "__dataclass_fields__",
    "__dataclass_params__",
    "__abstractmethods__",
    "__class_getitem__",
}
UNTOUCHED_NAMES |= {
    "__array_finalize__",
    "__array_struct__",
    "__array_interface__",
    "__array_priority__",
    "__annotations__",
}
UNTOUCHED_NAMES |= {
    "__orig_bases__",
    "__parameters__",
    "__static_attributes__",
    "__firstlineno__",
    "__replace__",
    "__post_init__",
}


class Log:
    """The calls that were made since rows may have been read, and all arguments of calls at any time."""

    def __init__(self) -> None:
        self.armed = False
        self.late_calls: list[str] = []
        self.seen_values: list[object] = []

    def write(self, name: str, args: tuple[object, ...]) -> None:
        self.seen_values += args
        if self.armed:
            self.late_calls.append(name)


def build_hostile_subclass(kind: type, log: Log) -> type:
    """A subclass whose methods, operators and properties all write down that they were called, then do the same."""
    body: dict[str, object] = {}
    for name in dir(kind):
        attribute = getattr(kind, name)
        if name in UNTOUCHED_NAMES:
            continue
        if isinstance(attribute, property):
            body[name] = property(_log_calls(log, f"{kind.__name__}.{name}", attribute.fget))
        elif callable(attribute) and not isinstance(kind.__dict__.get(name), staticmethod | classmethod):
            body[name] = _log_calls(log, f"{kind.__name__}.{name}", attribute)
    return type(f"Hostile{kind.__name__.title()}", (kind,), body)


def _log_calls(log: Log, name: str, function: Any) -> Callable[..., object]:
    def method(self: object, *args: object, **kwargs: object) -> object:
        log.write(name, (*args, *kwargs.values()))
        return function(self, *args, **kwargs)

    return method


class HostileFactory:
    """Makes hostile values, all of which write to one log."""

    def __init__(self) -> None:
        self.log = Log()
        kinds = (str, int, float, Fraction, Decimal, tuple, list, dict, date, bytes, np.float64, np.int64, np.str_)
        self.kinds = {kind: build_hostile_subclass(kind, self.log) for kind in kinds}

    def copy_as_hostile(self, value: Any) -> Any:
        """A hostile copy of a value, and of all that is in it."""
        kind = type(value)
        if kind is dict:
            return self.kinds[dict](
                {self.copy_as_hostile(key): self.copy_as_hostile(part) for key, part in value.items()}
            )
        if kind in (list, tuple):
            return self.kinds[kind]([self.copy_as_hostile(part) for part in value])
        if kind is date:
            return self.kinds[date](value.year, value.month, value.day)
        return self.kinds[kind](value) if kind in self.kinds else value

    def build_mapping(self, pairs: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """A mapping of a class of its own, with hostile keys and values."""
        log, inside = self.log, {self.copy_as_hostile(key): self.copy_as_hostile(value) for key, value in pairs.items()}

        class HostileClass(Mapping[Any, Any]):
            def __getitem__(self, key: object) -> object:
                log.write("Mapping.__getitem__", (key,))
                return inside[key]

            def __iter__(self) -> Any:
                log.write("Mapping.__iter__", ())
                return iter(inside)

            def __len__(self) -> int:
                log.write("Mapping.__len__", ())
                return len(inside)

        return HostileClass()

    def build_array(self, values: list[int]) -> Any:
        """An array of a class of its own."""
        log = self.log

        class HostileClass(np.ndarray[Any, Any]):
            def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
                log.write("ndarray.__array_ufunc__", args)
                plain = [np.asarray(one) for one in args]
                return getattr(ufunc, method)(*plain, **kwargs)

            def __getitem__(self, at: Any) -> Any:
                log.write("ndarray.__getitem__", (at,))
                return np.asarray(self)[at]

        return np.array(values, dtype=np.int64).view(HostileClass)
