"""Plain copies of the values that callers hand in, so that no code of theirs can ever run on a secret.

A mechanism compares and hashes the values of a prior, a taxonomy or a question with exact values from the rows. If one
of them were an object of a caller's own class, its `__eq__` would receive the truth. So every public entry point copies
what it is given before anything is charged or read. There are two rules:

- An instance of a subclass of a builtin type, such as `numpy.str_` or a member of an `IntEnum`, is copied as that
  builtin type. The copy is made by methods of the builtin type itself, which a subclass cannot override.
- An instance of a subclass of one of our own classes is refused: see `require_exact_class`.

A copy shares nothing that can be changed with the original: what a caller does to a list, a dictionary or an array
after handing it in has no effect.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from inspect import signature
from types import MappingProxyType
from typing import TypeGuard, TypeVar, overload

from discreet.errors import InvalidInput

MAX_DEPTH = 32
"""Tuples within tuples."""
ALLOWED_VALUES = "text, a number, a date, true, false, None, or a tuple of these"
GET_NUMERATOR, GET_DENOMINATOR = (getattr(Fraction, name).__get__ for name in ("_numerator", "_denominator"))
"""The two numbers of a fraction as they are stored, past any property of a subclass."""
T = TypeVar("T")
Key = TypeVar("Key")
Plain = None | bool | int | float | Fraction | Decimal | str | bytes | date | tuple["Plain", ...]
PlainTree = Plain | list["PlainTree"] | dict[Plain, "PlainTree"]


def has_type(value: object, kind: type[T] | tuple[type[T], ...]) -> TypeGuard[T]:
    """Whether the real type of a value is a subclass; an object can lie to `isinstance` about its class."""
    return issubclass(type(value), kind)


def has_exact_type(value: object, *kinds: type[T]) -> TypeGuard[T]:
    """Whether the type of a value is one of these, by identity: a metaclass can claim to equal any class."""
    return any(type(value) is kind for kind in kinds)


def require_exact_class(value: object, kind: type[T] | tuple[type[T], ...], refusal: str) -> T:
    """Return a value of exactly this class of ours; refuse a subclass, which could receive the truth."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not has_exact_type(value, *kinds):
        actual_type = "a subclass of it" if has_type(value, kinds) else type(value).__name__
        raise InvalidInput(f"{refusal}, got {actual_type}")
    return value


def require_callable(value: object, subject: str) -> None:
    """Refuse what cannot be called."""
    if not callable(value):
        raise InvalidInput(f"{subject} must be a function, got {type(value).__name__}")


def set_fields(instance: object, **fields: object) -> None:
    """Set fields of a frozen dataclass while it is made: to checked copies of what the caller handed in."""
    for name, value in fields.items():
        object.__setattr__(instance, name, value)


class CheckedValue:
    """A frozen value whose copies, also unpickled ones, are made by its constructor, through all its checks.

    For each parameter of the constructor it has a field of that name; a class that has not overrides `__reduce__`.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        values = {name: getattr(self, name) for name in signature(type(self)).parameters}
        plain_values = {
            name: dict(value) if type(value) is MappingProxyType else value for name, value in values.items()
        }
        return partial(type(self), **plain_values), ()


def copy_text(value: object, subject: str) -> str:
    """Copy a text as exactly `str`."""
    if not has_type(value, str):
        raise InvalidInput(f"{subject} must be text, got {type(value).__name__}")
    return str.__str__(value)


def copy_fraction(value: Fraction) -> Fraction:
    """Copy a fraction as one of two exact ints: those of a Fraction can be assigned to at any time, and of any type."""
    numerator, denominator = GET_NUMERATOR(value), GET_DENOMINATOR(value)
    if not (has_type(numerator, int) and has_type(denominator, int)) or not int.__int__(denominator):
        raise InvalidInput("a fraction must have a whole numerator, and a whole denominator other than 0")
    return Fraction(int.__int__(numerator), int.__int__(denominator))


def copy_exact_number(value: object, subject: str) -> Fraction:
    """Copy an int or a fraction, of any size, as a new fraction."""
    if has_type(value, Fraction):
        return copy_fraction(value)
    if not has_type(value, int) or has_type(value, bool):
        raise InvalidInput(f"{subject} must be an exact fraction, got {type(value).__name__}; give a Fraction")
    return Fraction(int.__int__(value))


def copy_int(value: object) -> int:
    """Copy an int, or what stands for one by its `__index__`, as exactly `int`."""
    return int.__int__(value if has_type(value, int) else type(value).__index__(value))  # type: ignore[attr-defined]


def copy_value(value: object, subject: str, depth: int = 0) -> Plain:
    """Copy a single value, such as a category, or a tuple of such, as exact builtin types alone."""
    if value is None or type(value) is bool:
        return value
    if has_type(value, tuple) and depth < MAX_DEPTH:
        return tuple(copy_value(part, subject, depth + 1) for part in tuple.__iter__(value))
    return _copy_scalar(value, subject)


def _copy_scalar(value: object, subject: str) -> Plain:
    if has_type(value, str):
        return str.__str__(value)
    if has_type(value, int):
        return int.__int__(value)
    if has_type(value, float):
        return float.__float__(value)
    if has_type(value, Fraction):
        return copy_fraction(value)
    if has_type(value, Decimal):
        return Decimal(Decimal.__str__(value))
    if has_type(value, bytes):
        return bytes.join(b"", [value])
    if has_type(value, datetime):
        return _copy_datetime(value, subject)
    if has_type(value, date):
        return date.fromordinal(date.toordinal(value))
    numpy = sys.modules.get("numpy")  # a value of numpy's is only there if numpy is
    if numpy is not None and has_type(value, numpy.generic):
        item = numpy.generic.item(value)
        return float(numpy.float64(item)) if has_type(item, numpy.generic) else copy_value(item, subject)
    raise InvalidInput(f"{subject} must be {ALLOWED_VALUES}, got {type(value).__name__}")


def _copy_datetime(value: datetime, subject: str) -> datetime:
    """A time without a zone, which would be an object of its own."""
    if datetime.tzinfo.__get__(value) is not None:
        raise InvalidInput(f"{subject} must be {ALLOWED_VALUES}, got a time with a time zone")
    return datetime.fromisoformat(datetime.isoformat(value))


@overload
def copy_items(mapping: Mapping[Key, T], subject: str) -> list[tuple[Key, T]]: ...
@overload
def copy_items(mapping: object, subject: str) -> list[tuple[object, object]]: ...
def copy_items(mapping: Mapping[Key, T] | object, subject: str) -> list[tuple[Key, T]] | list[tuple[object, object]]:
    """Copy the pairs of a mapping as they are now, keys as plain values; the mapping itself is not kept."""
    if has_type(mapping, dict):
        pairs = list(dict.items(mapping))
    elif isinstance(mapping, Mapping):
        pairs = [(key, mapping[key]) for key in list(mapping)]
    else:
        raise InvalidInput(f"{subject} must be a mapping, such as {{...}}, got {type(mapping).__name__}")
    items: list[tuple[object, object]] = [(copy_value(key, subject), value) for key, value in pairs]
    return items


@overload
def copy_list(iterable: Iterable[T], subject: str) -> list[T]: ...
@overload
def copy_list(iterable: object, subject: str) -> list[object]: ...
def copy_list(iterable: Iterable[T] | object, subject: str) -> list[T] | list[object]:
    """Copy the present members of a list, a tuple, a set or another iterable; of text its letters."""
    if not isinstance(iterable, Iterable):
        raise InvalidInput(f"{subject} must be a list, such as [...], got {type(iterable).__name__}")
    if has_type(iterable, list):
        return list(list.__iter__(iterable))
    if has_type(iterable, tuple):
        return list(tuple.__iter__(iterable))
    return list(str.__iter__(iterable) if has_type(iterable, str) else iterable)


def copy_tree(tree: object, subject: str, depth: int = 0) -> PlainTree:
    """Copy mappings, lists and values within one another as dictionaries, lists and plain values."""
    if depth > MAX_DEPTH:
        raise InvalidInput(f"{subject} nests at most {MAX_DEPTH} deep")
    if isinstance(tree, Mapping):
        return {key: copy_tree(value, subject, depth + 1) for key, value in copy_items(tree, subject)}
    if has_type(tree, (list, tuple, set, frozenset)):
        return [copy_tree(part, subject, depth + 1) for part in copy_list(tree, subject)]
    return copy_value(tree, subject)
