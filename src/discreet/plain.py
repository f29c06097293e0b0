"""Plain copies of the values that callers hand in, so that no code of theirs can ever run on a secret.

A mechanism compares and hashes the values of a prior, a taxonomy or a question with exact values from the rows. If one
of them were an object of a caller's own class, its `__eq__` would receive the truth. So every public entry point copies
what it is given before anything is charged or read. There are two rules:

- An instance of a subclass of a builtin type, such as `numpy.str_` or a member of an `IntEnum`, is copied as that
  builtin type. The copy is made by methods of the builtin type itself, which a subclass cannot override.
- An instance of a subclass of one of our own classes is refused: see `require_own`.

A copy shares nothing that can be changed with the original: what a caller does to a list, a dictionary or an array
after handing it in has no effect.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar, cast

from discreet.errors import InvalidInput

DEEPEST = 32
"""Tuples within tuples."""
ALLOWED = "text, a number, a date, true, false, None, or a tuple of these"
ABOVE, BELOW = (getattr(Fraction, name).__get__ for name in ("_numerator", "_denominator"))
"""The two numbers of a fraction as they are stored, past any property of a subclass."""
Own = TypeVar("Own")
Scalar = None | bool | int | float | Fraction | Decimal | str | bytes | date


def is_a(value: object, kind: type | tuple[type, ...]) -> bool:
    """Whether the real type of a value is a subclass; an object can lie to `isinstance` about its class."""
    return issubclass(type(value), kind)


def is_exactly(value: object, *kinds: type) -> bool:
    """Whether the type of a value is one of these, by identity: a metaclass can claim to equal any class."""
    return any(type(value) is one for one in kinds)


def require_own(value: object, kind: type[Own] | tuple[type[Own], ...], refusal: str) -> Own:
    """The value, if it is of exactly this class of ours; a subclass could be told the truth, and is refused."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not is_exactly(value, *kinds):
        of = "a subclass of it" if is_a(value, kinds) else type(value).__name__
        raise InvalidInput(f"{refusal}, got {of}")
    return value  # type: ignore[return-value]


def plain_text(value: object, what: str) -> str:
    """A text as exactly `str`."""
    if not is_a(value, str):
        raise InvalidInput(f"{what} must be text, got {type(value).__name__}")
    return str.__str__(value)


def plain_fraction(value: Fraction) -> Fraction:
    """A new fraction of two exact ints: those of a Fraction can be assigned to at any time, and of any type."""
    above, below = ABOVE(value), BELOW(value)
    if not (is_a(above, int) and is_a(below, int)) or not int.__int__(below):
        raise InvalidInput("a fraction must have a whole numerator, and a whole denominator other than 0")
    return Fraction(int.__int__(above), int.__int__(below))


def plain_exact(value: object, what: str) -> Fraction:
    """An int or a fraction, of any size, as a new fraction."""
    if is_a(value, Fraction):
        return plain_fraction(value)  # type: ignore[arg-type]
    if not is_a(value, int) or is_a(value, bool):
        raise InvalidInput(f"{what} must be an exact fraction, got {type(value).__name__}; read it with exact.rational")
    return Fraction(int.__int__(value))  # type: ignore[arg-type]


def plain_whole(value: object) -> int:
    """An int, or what stands for one by its `__index__`, as exactly `int`."""
    return int.__int__(value if is_a(value, int) else type(value).__index__(value))  # type: ignore[attr-defined, arg-type]


def plain_value(value: object, what: str, depth: int = 0) -> Any:
    """A single value, such as a category, or a tuple of such, made of exact builtin types alone."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or kind is float or value is None:
        return value
    if issubclass(kind, tuple) and depth < DEEPEST:
        parts: Iterable[object] = tuple.__iter__(cast("tuple[object, ...]", value))
        return tuple(plain_value(part, what, depth + 1) for part in parts)
    return _scalar(value, kind, what)


def _scalar(value: Any, kind: type, what: str) -> Scalar:
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, int):
        return int.__int__(value)
    if issubclass(kind, float):
        return float.__float__(value)
    if issubclass(kind, Fraction):
        return plain_fraction(value)
    if issubclass(kind, Decimal):
        return Decimal(Decimal.__str__(value))
    if issubclass(kind, bytes):
        return bytes.join(b"", [value])
    if issubclass(kind, datetime):
        return _moment(value, what)
    if issubclass(kind, date):
        return date.fromordinal(date.toordinal(value))
    numpy = sys.modules.get("numpy")  # a value of numpy's is only there if numpy is
    if numpy is not None and issubclass(kind, numpy.generic):
        item = numpy.generic.item(value)
        return float(numpy.float64(item)) if issubclass(type(item), numpy.generic) else plain_value(item, what)
    raise InvalidInput(f"{what} must be {ALLOWED}, got {kind.__name__}")


def _moment(value: datetime, what: str) -> datetime:
    """A time without a zone, which would be an object of its own."""
    if datetime.tzinfo.__get__(value) is not None:
        raise InvalidInput(f"{what} must be {ALLOWED}, got a time with a time zone")
    return datetime.fromisoformat(datetime.isoformat(value))


def plain_items(given: object, what: str) -> list[tuple[Any, Any]]:
    """The pairs of a mapping as they are now, keys copied as plain values; the mapping itself is not kept."""
    if is_a(given, dict):
        pairs: list[tuple[Any, Any]] = list(dict.items(cast("dict[Any, Any]", given)))
    elif isinstance(given, Mapping):
        pairs = [(key, given[key]) for key in list(given)]
    else:
        raise InvalidInput(f"{what} must be a mapping, such as {{...}}, got {type(given).__name__}")
    return [(plain_value(key, what), value) for key, value in pairs]


def plain_list(given: object, what: str) -> list[Any]:
    """What a list, a tuple, a set or another iterable has now; of text its letters."""
    if not isinstance(given, Iterable):
        raise InvalidInput(f"{what} must be a list, such as [...], got {type(given).__name__}")
    for kind in (list, tuple, str):
        if is_a(given, kind):
            return list(kind.__iter__(given))  # type: ignore[arg-type]
    return list(given)


def plain_tree(given: object, what: str, depth: int = 0) -> Any:
    """Mappings, lists and values within one another, as dictionaries, lists and plain values."""
    if depth > DEEPEST:
        raise InvalidInput(f"{what} nests at most {DEEPEST} deep")
    if isinstance(given, Mapping):
        return {key: plain_tree(value, what, depth + 1) for key, value in plain_items(given, what)}
    if is_a(given, (list, tuple, set, frozenset)):
        return [plain_tree(part, what, depth + 1) for part in plain_list(given, what)]
    return plain_value(given, what)
