"""A strict YAML reader: closed mappings, and values only where they are declared.

YAML reads NO as false, 12:30 as 750 and 1e-6 as text; here every scalar stays the text that was written, trimmed.
Anchors, aliases, tags and keys given twice are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from discreet import numeric
from discreet.errors import InvalidInput
from discreet.suggestions import build_choice_error, build_missing_file_error, build_unknown_name_error, list_names

if TYPE_CHECKING:
    from yaml.events import Event


Node = str | list["Node"] | dict[str, "Node"]
Reader = Callable[[Node, str], Any]
"""Reads a node, which errors call by the name that is handed in."""
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class MappingKeys:
    """The keys of one mapping of the file, in the order in which errors list them."""

    allowed: tuple[str, ...]
    required: tuple[str, ...] = ()

    @staticmethod
    def of(text: str) -> MappingKeys:
        """Make them of their names; one with a question mark may be left out."""
        names = text.split()
        required = tuple(name for name in names if not name.endswith("?"))
        return MappingKeys(tuple(name.rstrip("?") for name in names), required)


SCHEMA_KEYS = MappingKeys.of(
    """name source neighbours units? unit? budget analyst_budget? models? individual_dp_reason? individual_queries?
    partition? published? impossible? lookups? columns"""
)
UNIT_KEYS = MappingKeys.of("column rows?")
BUDGET_KEYS = MappingKeys.of("epsilon delta? max_epsilon?")
PUBLISHED_KEYS = MappingKeys.of("statistic value question?")
LOOKUP_KEYS = MappingKeys.of("file key")
TAXONOMY_KEYS = MappingKeys.of("parents mapping? attribute? source? n_concepts?")
COMMON_COLUMN_KEYS = "role? missing? missing_values?"
COLUMN_KEYS = MappingKeys.of(f"kind {COMMON_COLUMN_KEYS} lower? upper? step? counts? categories? taxonomy? keys?")
KIND_KEYS: Mapping[str, MappingKeys] = {
    kind: MappingKeys.of(f"kind? {COMMON_COLUMN_KEYS} {keys}")
    for kind, keys in {
        "integer": "lower upper step? counts?",
        "number": "lower upper step counts?",
        "date": "lower upper counts?",
        "boolean": "",
        "ordinal": "categories counts?",
        "nominal": "categories? taxonomy? keys?",
    }.items()
}
NOMINAL_KEYS = ("categories", "taxonomy", "keys")
"""A nominal column has exactly one of them."""

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 8
WHITESPACE = " \t\r\n"
UNWRITABLE = re.compile("[\0\ud800-\udfff]")
"""What some engine or encoding cannot write."""
UNDECIDED = "DECIDE"
"""What a draft writes where the custodian must decide."""
MAX_NAMED = 12
REQUIRED_CONTENT = {"schema": "declare name, source, neighbours, budget and columns", "configuration": "list datasets"}


def read_document(text: str, subject: str = "schema") -> Node:
    """Read the one document of a YAML text; errors call it by `subject`."""
    if len(text) > MAX_CHARACTERS:
        raise InvalidInput(
            f"a {subject} has at most {MAX_CHARACTERS} characters, this text has {len(text)}; use taxonomy files"
        )
    return deepcopy(_parse_cached(text, subject))


@lru_cache(maxsize=4)
def _parse_cached(text: str, subject: str) -> Node:
    """Kept for a while: one command reads its schema several times."""
    import yaml

    try:
        return _build_document(yaml.parse(text, Loader=yaml.BaseLoader), subject)
    except InvalidInput:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: from escapes of no character
        mark = getattr(error, "problem_mark", None)
        location = f" at line {mark.line + 1}" if mark else ""
        raise InvalidInput(f"the {subject} is not valid YAML{location}; write key: value, one key to a line") from None


def _build_document(events: Iterator[Event], subject: str) -> Node:
    from yaml.events import NodeEvent

    document: Node | None = None
    for event in events:
        if not isinstance(event, NodeEvent):
            continue
        if document is not None:
            raise InvalidInput(f"a {subject} is one YAML document; remove the second line --- and what follows it")
        document = _build_node(event, events, 0, subject)
    if not document:
        raise InvalidInput(f"the {subject} is empty; {REQUIRED_CONTENT[subject]}")
    return document


def _build_node(event: Event, events: Iterator[Event], depth: int, subject: str) -> Node:
    from yaml.events import ScalarEvent, SequenceStartEvent

    location = _format_line(event, subject)
    if getattr(event, "anchor", None) is not None or getattr(event, "tag", None) is not None:
        raise InvalidInput(
            f"{location} has an anchor (&), an alias (*) or a tag (!); write the value out, "
            "or in quotes if it is a text"
        )
    if isinstance(event, ScalarEvent):
        return trim_text(event.value, location)
    if depth == MAX_DEPTH:
        raise InvalidInput(f"{location} is nested more than {MAX_DEPTH} deep; a {subject} needs at most 4")
    if isinstance(event, SequenceStartEvent):
        return [_build_node(inner, events, depth + 1, subject) for inner in _iterate_until_end(events)]
    return _build_mapping(events, depth + 1, subject)


def _build_mapping(events: Iterator[Event], depth: int, subject: str) -> dict[str, Node]:
    pairs: dict[str, Node] = {}
    for event in _iterate_until_end(events):
        key = _build_node(event, events, depth, subject)
        if not isinstance(key, str):
            raise InvalidInput(f"{_format_line(event, subject)} has a key that is not text; write key: value")
        if key in pairs:
            raise InvalidInput(f"{_format_line(event, subject)} gives {key[:40]!r} again; give every key once")
        pairs[key] = _build_node(next(events), events, depth, subject)
    return pairs


def _iterate_until_end(events: Iterator[Event]) -> Iterator[Event]:
    from yaml.events import CollectionEndEvent

    for event in events:
        if isinstance(event, CollectionEndEvent):
            return
        yield event


def _format_line(event: Event, subject: str) -> str:
    line = event.start_mark.line + 1 if event.start_mark else "?"
    return f"line {line} of the {subject}"


def trim_text(text: str, location: str) -> str:
    """Strip the space around a text; refuse what some engine cannot write."""
    if UNWRITABLE.search(text):
        raise InvalidInput(f"{location} has a character that cannot be written, such as NUL; remove it")
    return text.strip(WHITESPACE)


def check_decided(document: Node) -> None:
    """Refuse a document that still has what the draft left to the custodian."""
    undecided = list(_list_undecided(document, ()))
    if undecided:
        raise InvalidInput(f"the custodian has still to decide, in place of {UNDECIDED}: {list_names(undecided)}")


def _list_undecided(node: Node, path: tuple[str, ...]) -> Iterator[str]:
    """What is undecided, in words: the lower of column age."""
    if node == UNDECIDED:
        yield " of ".join(reversed(path))
    elif isinstance(node, dict):
        for key, inner in node.items():
            yield from _list_undecided(inner, (f"column {key[:40]}",) if path == ("columns",) else (*path, key[:40]))
    elif isinstance(node, list):
        for inner in node:
            yield from _list_undecided(inner, path)


SQL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
BOOLEANS = {"yes": True, "true": True, "no": False, "false": False}
MAX_FILE_BYTES = 16_000_000
"""In bytes, of a public table or a taxonomy."""
UNREADABLE_ADVICE = "check that the file is there and may be read"


def expect_closed_mapping(node: Node, subject: str, keys: MappingKeys) -> dict[str, Node]:
    """Require a mapping with these keys and no others."""
    example = ", ".join(f"{key}: ..." for key in (keys.required or keys.allowed[:1]))
    pairs = expect_mapping(node, subject, f"{{{example}}}")
    for key in pairs:
        if key not in keys.allowed:
            raise build_unknown_name_error("key", key, keys.allowed, place=f"of {subject}")
    for key in keys.required:
        if key not in pairs:
            raise InvalidInput(f"{subject} needs {key}; add it as {key}: ...")
    return pairs


def list_keys(kind: Any) -> MappingKeys:
    """List the keys of a dataclass whose fields say how they are read; those without a default are required."""
    required = tuple(field.name for field in fields(kind) if field.default is field.default_factory)
    return MappingKeys(tuple(field.name for field in fields(kind)), required)


def read_values(kind: Any, node: Node, subject: str) -> dict[str, Any]:
    """Read the fields that are there, each by the reader that its type is annotated with."""
    pairs, hints = expect_closed_mapping(node, subject, list_keys(kind)), get_type_hints(kind, include_extras=True)
    return {name: hints[name].__metadata__[0](inner, name) for name, inner in pairs.items()}


def read_fields(kind: Callable[..., Value], node: Node, subject: str) -> Value:
    """Read a dataclass whose fields say how they are read."""
    return kind(**read_values(kind, node, subject))


def expect_mapping(node: Node, subject: str, example: str) -> dict[str, Node]:
    """Require a mapping."""
    if not isinstance(node, dict):
        raise InvalidInput(f"{subject} must be a mapping such as {example}")
    return node


def expect_list(node: Node, subject: str) -> list[Node]:
    """Require a list."""
    if not isinstance(node, list):
        raise InvalidInput(f"{subject} must be a list such as [a, b]")
    return node


def expect_text(node: Node, subject: str) -> str:
    """Require a text that is not empty."""
    if not isinstance(node, str):
        raise InvalidInput(f"{subject} must be a single value, not a list or a mapping")
    if not node:
        raise InvalidInput(f"{subject} is empty; write a value, or leave it out where it is optional")
    return node


def expect_texts(node: Node, subject: str) -> tuple[str, ...]:
    """Require a list of texts."""
    return tuple(expect_text(entry, f"an entry of {subject}") for entry in expect_list(node, subject))


def expect_name(node: Node, subject: str) -> str:
    """Require a name that SQL can use as it is."""
    value = expect_text(node, subject)
    if not SQL_NAME.fullmatch(value):
        raise InvalidInput(f"{subject} must be 1 to 63 letters, digits and _, no digit first, got {value[:40]!r}")
    return value


def expect_one_of(node: Node, subject: str, allowed: Sequence[str]) -> str:
    """Require one of a few words."""
    value = expect_text(node, subject)
    if value not in allowed:
        raise build_choice_error(subject, value, allowed)
    return value


def expect_number(node: Node, subject: str) -> Fraction:
    """Require a finite number, and read it exactly as it is written."""
    return numeric.parse_rational(expect_text(node, subject), subject)


def expect_positive_integer(node: Node, subject: str) -> int:
    """Require a whole number of at least 1."""
    return numeric.as_int(expect_number(node, subject), subject)


def expect_boolean(node: Node, subject: str) -> bool:
    """Require yes, no, true or false, in any case."""
    return BOOLEANS[expect_one_of(expect_text(node, subject).lower(), subject, tuple(BOOLEANS))]


def read_referenced_file(node: Node, subject: str, folder: Path) -> str:
    """Read the text of a file beside the schema."""
    return read_text_file(folder / expect_text(node, subject), subject, MAX_FILE_BYTES)


def read_text_file(path: Path, subject: str, max_bytes: int) -> str:
    """Read the text of a file in UTF-8, with or without a byte order mark."""
    description = f"{subject}, {path.name[:40]!r},"
    try:
        with path.open("rb") as stream:
            content = stream.read(max_bytes + 1)
    except IsADirectoryError:
        raise InvalidInput(f"{description} is a folder; name the file in it") from None
    except FileNotFoundError:
        raise build_missing_file_error(f"{description} cannot be read", path, UNREADABLE_ADVICE) from None
    except (OSError, ValueError):
        raise InvalidInput(f"{description} cannot be read; {UNREADABLE_ADVICE}") from None
    if len(content) > max_bytes:
        raise InvalidInput(f"{description} is larger than {max_bytes} bytes, the most that is read")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"{description} is not text in UTF-8; save it as UTF-8") from None
