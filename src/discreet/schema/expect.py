"""What each part of a schema must be: a closed mapping, a name, a number by its digits, a file beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from discreet import exact
from discreet.errors import InvalidInput
from discreet.schema.document import Node
from discreet.schema.keys import MappingKeys

SQL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
BOOLEANS = {"yes": True, "true": True, "no": False, "false": False}
MAX_FILE_BYTES = 16_000_000
"""In bytes, of a public table or a taxonomy."""


def expect_closed_mapping(node: Node, subject: str, keys: MappingKeys) -> dict[str, Node]:
    """A mapping with these keys and no others."""
    pairs = expect_mapping(
        node, subject, f"{{{', '.join(f'{key}: ...' for key in (keys.required or keys.allowed[:1]))}}}"
    )
    for key in pairs:
        if key not in keys.allowed:
            raise InvalidInput(f"{subject} has no key {key[:40]!r}; it may have {', '.join(keys.allowed)}")
    for key in keys.required:
        if key not in pairs:
            raise InvalidInput(f"{subject} needs {key}; add it as {key}: ...")
    return pairs


def expect_mapping(node: Node, subject: str, example: str) -> dict[str, Node]:
    """A mapping."""
    if not isinstance(node, dict):
        raise InvalidInput(f"{subject} must be a mapping such as {example}")
    return node


def expect_list(node: Node, subject: str) -> list[Node]:
    """A list."""
    if not isinstance(node, list):
        raise InvalidInput(f"{subject} must be a list such as [a, b]")
    return node


def expect_text(node: Node, subject: str) -> str:
    """A text that is not empty."""
    if not isinstance(node, str):
        raise InvalidInput(f"{subject} must be a single value, not a list or a mapping")
    if not node:
        raise InvalidInput(f"{subject} is empty; write a value, or leave it out where it is optional")
    return node


def expect_texts(node: Node, subject: str) -> tuple[str, ...]:
    """A list of texts."""
    return tuple(expect_text(entry, f"an entry of {subject}") for entry in expect_list(node, subject))


def expect_name(node: Node, subject: str) -> str:
    """A name that SQL can use as it is."""
    value = expect_text(node, subject)
    if not SQL_NAME.fullmatch(value):
        raise InvalidInput(f"{subject} must be 1 to 63 letters, digits and _, no digit first, got {value[:40]!r}")
    return value


def expect_one_of(node: Node, subject: str, allowed: Sequence[str]) -> str:
    """One of a few words."""
    value = expect_text(node, subject)
    if value not in allowed:
        raise InvalidInput(f"{subject} must be one of {', '.join(allowed)}, got {value[:40]!r}")
    return value


def expect_number(node: Node, subject: str) -> Fraction:
    """A finite number, exactly as it is written."""
    return exact.parse_rational(expect_text(node, subject), subject)


def expect_positive_integer(node: Node, subject: str) -> int:
    """A whole number of at least 1."""
    return exact.as_int(expect_number(node, subject), subject)


def expect_boolean(node: Node, subject: str) -> bool:
    """Yes or no, in any case."""
    return BOOLEANS[expect_one_of(expect_text(node, subject).lower(), subject, tuple(BOOLEANS))]


def read_referenced_file(node: Node, subject: str, folder: Path) -> str:
    """The text of a file beside the schema."""
    return read_text_file(folder / expect_text(node, subject), subject, MAX_FILE_BYTES)


def read_text_file(path: Path, subject: str, max_bytes: int) -> str:
    """The text of a file in UTF-8, with or without a byte order mark."""
    description = f"{subject}, {path.name[:40]!r},"
    try:
        with path.open("rb") as stream:
            content = stream.read(max_bytes + 1)
    except IsADirectoryError:
        raise InvalidInput(f"{description} is a folder; name the file in it") from None
    except (OSError, ValueError):
        raise InvalidInput(f"{description} cannot be read; check that the file is there and may be read") from None
    if len(content) > max_bytes:
        raise InvalidInput(f"{description} is larger than {max_bytes} bytes, the most that is read")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"{description} is not text in UTF-8; save it as UTF-8") from None
