"""Values that are written as JSON and read again: each class lists its names in JSON once, and both follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import date
from fractions import Fraction
from functools import cache, partial
from pathlib import PurePath
from types import UnionType
from typing import Any, ClassVar, Literal, Self, Union, cast, get_args, get_origin, get_type_hints

from discreet.numeric import parse_exact

Reader = Callable[[Any], Any]
PLAIN_TYPES = {str, int, float, bool, type(None)}
CHECKED_TYPES = (str, int, bool)


@dataclass(frozen=True, slots=True)
class JsonField:
    """One name of a document, a path in it, and the attribute of the value."""

    path: tuple[str, ...]
    attribute: str
    skips_empty: bool


class JsonWritable:
    """A value whose JSON has the names of `_json_fields`, in this order.

    `name` is the attribute of that name, `name=attribute` another one, `a.b` the name b in an object a, and a name with
    a question mark is left out where the value is None or empty. An exact number is written as text.
    """

    __slots__ = ()
    _json_fields: ClassVar[str]

    def to_json(self) -> dict[str, object]:
        """Return the document."""
        return self._build_json(str)

    def _build_json(self, exact: Callable[[Fraction], object]) -> dict[str, object]:
        document: dict[str, Any] = {}
        for item in list_json_fields(cast(type, type(self))):
            value = getattr(self, item.attribute)
            if item.skips_empty and value in (None, "", ()):
                continue
            place = document
            for name in item.path[:-1]:
                place = place.setdefault(name, {})
            place[item.path[-1]] = to_json_value(value() if callable(value) else value, exact)
        return document


class JsonSerializable(JsonWritable):
    """A dataclass that is read from its JSON too, by the types of its fields; what is no field is not read.

    A name that is missing stands for the default of its field.
    """

    __slots__ = ()
    _refuses_unknown_names: ClassVar[bool] = False
    """For what is stored: a later version may have written a name that this one would lose."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read a document; LookupError, TypeError or ValueError where it is none."""
        values, listed = {}, list_json_fields(cast(type, cls))
        if cls._refuses_unknown_names and not set(document) <= {item.path[0] for item in listed}:
            raise ValueError
        own_fields, readers = {field.name: field for field in fields(cast(Any, cls))}, _find_readers(cast(type, cls))
        for item in listed:
            if item.attribute in own_fields:
                field, place = own_fields[item.attribute], document
                for name in item.path[:-1]:
                    place = place[name]
                if field.default is field.default_factory or item.path[-1] in place:  # both are missing
                    values[item.attribute] = readers[item.attribute](place[item.path[-1]])
        return cls(**values)


def to_json_value(value: object, exact: Callable[[Fraction], object] = str) -> object:
    """Return a value as JSON has it: dates and paths as text, exact numbers as `exact` writes them."""
    if type(value) in PLAIN_TYPES:
        return value
    if isinstance(value, JsonWritable):
        return value.to_json() if exact is str else value._build_json(exact)
    if isinstance(value, Mapping):
        return {name: to_json_value(entry, exact) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(entry, exact) for entry in value]
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Fraction):
        return exact(value)
    return str(value) if isinstance(value, PurePath) else value


@cache
def list_json_fields(kind: Any) -> tuple[JsonField, ...]:
    """List the names of a class in JSON, in their order."""
    listed = []
    for entry in kind._json_fields.split():
        path, _, attribute = entry.removesuffix("?").partition("=")
        listed.append(JsonField(tuple(path.split(".")), attribute or path, entry.endswith("?")))
    return tuple(listed)


@cache
def _find_readers(kind: Any) -> Mapping[str, Reader]:
    return {name: _build_reader(hint) for name, hint in get_type_hints(kind).items()}


def _build_reader(hint: Any) -> Reader:
    """How a value of a type is read; one of a type that JSON has itself is taken as it is."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType) and len(parts) == 2 and type(None) in parts:
        return partial(_read_optional, _build_reader(parts[0]))
    if origin is tuple and parts[-1] is Ellipsis:
        read_part = _build_reader(parts[0])
        return lambda values: tuple(map(read_part, values))
    if origin is tuple:
        readers = tuple(map(_build_reader, parts))
        return lambda values: tuple(read(value) for read, value in zip(readers, values, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        read_entry = _build_reader(parts[1])
        return lambda entries: {name: read_entry(entry) for name, entry in entries.items()}
    if isinstance(hint, type) and issubclass(hint, JsonSerializable):
        return hint.from_json
    if hint in CHECKED_TYPES:
        return partial(_require_type, hint)
    if get_origin(hint) is Literal:
        return partial(_require_one_of, parts)
    if hint is float:
        return _require_number
    return parse_exact if hint is Fraction else lambda value: value


def _read_optional(read: Reader, value: object) -> object:
    return None if value is None else read(value)


def _require_one_of(choices: tuple[object, ...], value: object) -> object:
    if value not in choices:
        raise ValueError
    return value


def _require_number(value: object) -> object:
    if type(value) not in (int, float):
        raise TypeError
    return value


def _require_type(kind: type, value: object) -> object:
    if type(value) is not kind:
        raise TypeError
    return value
