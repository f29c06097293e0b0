"""What each part of a schema must be: a closed mapping, a name, a number by its digits, a file beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from discreet import exact
from discreet.errors import InvalidInput
from discreet.schema.document import Node
from discreet.schema.keys import Keys

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
TRUTHS = {"yes": True, "true": True, "no": False, "false": False}
LARGEST = 16_000_000
"""In bytes, of a public table or a taxonomy."""


def closed(node: Node, what: str, keys: Keys) -> dict[str, Node]:
    """A mapping with these keys and no others."""
    pairs = mapping(node, what, f"{{{', '.join(f'{key}: ...' for key in (keys.needed or keys.allowed[:1]))}}}")
    for key in pairs:
        if key not in keys.allowed:
            raise InvalidInput(f"{what} has no key {key[:40]!r}; it may have {', '.join(keys.allowed)}")
    for key in keys.needed:
        if key not in pairs:
            raise InvalidInput(f"{what} needs {key}; add it as {key}: ...")
    return pairs


def mapping(node: Node, what: str, such_as: str) -> dict[str, Node]:
    """A mapping."""
    if not isinstance(node, dict):
        raise InvalidInput(f"{what} must be a mapping such as {such_as}")
    return node


def entries(node: Node, what: str) -> list[Node]:
    """A list."""
    if not isinstance(node, list):
        raise InvalidInput(f"{what} must be a list such as [a, b]")
    return node


def text(node: Node, what: str) -> str:
    """A text that is not empty."""
    if not isinstance(node, str):
        raise InvalidInput(f"{what} must be a single value, not a list or a mapping")
    if not node:
        raise InvalidInput(f"{what} is empty; write a value, or leave it out where it is optional")
    return node


def texts(node: Node, what: str) -> tuple[str, ...]:
    """A list of texts."""
    return tuple(text(entry, f"an entry of {what}") for entry in entries(node, what))


def name(node: Node, what: str) -> str:
    """A name that SQL can use as it is."""
    given = text(node, what)
    if not NAME.fullmatch(given):
        raise InvalidInput(f"{what} must be 1 to 63 letters, digits and _, no digit first, got {given[:40]!r}")
    return given


def one_of(node: Node, what: str, allowed: Sequence[str]) -> str:
    """One of a few words."""
    given = text(node, what)
    if given not in allowed:
        raise InvalidInput(f"{what} must be one of {', '.join(allowed)}, got {given[:40]!r}")
    return given


def number(node: Node, what: str) -> Fraction:
    """A finite number, exactly as it is written."""
    return exact.rational_text(text(node, what), what)


def whole(node: Node, what: str) -> int:
    """A whole number of at least 1."""
    return exact.whole(number(node, what), what)


def truth(node: Node, what: str) -> bool:
    """Yes or no, in any case."""
    return TRUTHS[one_of(text(node, what).lower(), what, tuple(TRUTHS))]


def file(node: Node, what: str, folder: Path) -> str:
    """The text of a file beside the schema."""
    return contents(folder / text(node, what), what, LARGEST)


def contents(path: Path, what: str, largest: int) -> str:
    """The text of a file in UTF-8, with or without a byte order mark."""
    called = f"{what}, {path.name[:40]!r},"
    try:
        with path.open("rb") as stream:
            read = stream.read(largest + 1)
    except IsADirectoryError:
        raise InvalidInput(f"{called} is a folder; name the file in it") from None
    except (OSError, ValueError):
        raise InvalidInput(f"{called} cannot be read; check that the file is there and may be read") from None
    if len(read) > largest:
        raise InvalidInput(f"{called} is larger than {largest} bytes, the most that is read")
    try:
        return read.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"{called} is not text in UTF-8; save it as UTF-8") from None
