"""Read the fields of a JSON document, each as the type that it must have.

A field that is missing is a KeyError and one of another type a TypeError. Who reads a document catches both, and says
in whose words it cannot be read: those of a file, a ledger or a reply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

JsonDocument = Mapping[str, object]
"""A JSON object before its fields are read."""
T = TypeVar("T")


def read_field(document: JsonDocument, name: str, kind: type[T]) -> T:
    """Read a field of this type."""
    return _require_kind(document[name], kind)


def read_optional(document: JsonDocument, name: str, kind: type[T]) -> T | None:
    """Read a field of this type, None where it is null or missing."""
    value = document.get(name)
    return None if value is None else _require_kind(value, kind)


def read_number(document: JsonDocument, name: str) -> float:
    """Read a number."""
    return _require_number(document[name])


def read_optional_number(document: JsonDocument, name: str) -> float | None:
    """Read a number, None where it is null or missing."""
    value = document.get(name)
    return None if value is None else _require_number(value)


def read_fraction(document: JsonDocument, name: str) -> Fraction:
    """Read an exact number, which is stored as text."""
    return Fraction(read_field(document, name, str))


def read_optional_fraction(document: JsonDocument, name: str) -> Fraction | None:
    """Read an exact number, None where it is null or missing."""
    text = read_optional(document, name, str)
    return None if text is None else Fraction(text)


def read_choice(document: JsonDocument, name: str, choices: Sequence[T]) -> T:
    """Read a field that has one of these values; ValueError where it has another."""
    for choice in choices:
        if choice == document[name]:
            return choice
    raise ValueError(f"{name} has a value that is not known")


def read_inner_document(document: JsonDocument, name: str) -> JsonDocument:
    """Read a field that is a document itself."""
    return require_document(document[name])


def read_optional_document(document: JsonDocument, name: str) -> JsonDocument | None:
    """Read a field that is a document itself, None where it is null or missing."""
    value = document.get(name)
    return None if value is None else require_document(value)


def read_list(document: JsonDocument, name: str, kind: type[T]) -> tuple[T, ...]:
    """Read a list of values of this type."""
    return tuple(_require_kind(item, kind) for item in _require_list(document[name]))


def read_optional_list(document: JsonDocument, name: str, kind: type[T]) -> tuple[T, ...]:
    """Read a list of values of this type, empty where it is missing."""
    return read_list(document, name, kind) if name in document else ()


def read_numbers(document: JsonDocument, name: str) -> tuple[float, ...]:
    """Read a list of numbers."""
    return tuple(map(_require_number, _require_list(document[name])))


def read_documents(document: JsonDocument, name: str) -> tuple[JsonDocument, ...]:
    """Read a list of documents."""
    return tuple(map(require_document, _require_list(document[name])))


def require_document(value: object) -> JsonDocument:
    """Return a value that is a document; TypeError where it is none."""
    if not isinstance(value, Mapping):
        raise TypeError(f"a document was expected, got {type(value).__name__}")
    return value


def _require_list(value: object) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"a list was expected, got {type(value).__name__}")
    return value


def _require_kind(value: object, kind: type[T]) -> T:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{kind.__name__} was expected, got {type(value).__name__}")
    return value


def _require_number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"a number was expected, got {type(value).__name__}")
    return value
