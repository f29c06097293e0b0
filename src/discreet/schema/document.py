"""A YAML text as texts, lists and mappings. Nothing is guessed from how a text looks.

YAML reads NO as false, 12:30 as 750 and 1e-6 as text; here every scalar stays the text that was written, trimmed.
Anchors, aliases, tags and keys given twice are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from functools import lru_cache
from typing import TYPE_CHECKING

from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from yaml.events import Event

Node = str | list["Node"] | dict[str, "Node"]

MAX_CHARACTERS = 1_000_000
"""In characters."""
MAX_DEPTH = 8
WHITESPACE = " \t\r\n"
UNWRITABLE = re.compile("[\0\ud800-\udfff]")
"""What some engine or encoding cannot write."""
UNDECIDED = "DECIDE"
"""What a draft writes where the custodian must decide."""
MAX_NAMED = 12
REQUIRED_CONTENT = {"schema": "declare name, source, neighbours, budget and columns", "configuration": "list datasets"}


def read_document(text: str, subject: str = "schema") -> Node:
    """The one document of a YAML text; `what` it is, for who made a mistake in it."""
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
    """A text without the space around it, if every engine can write it."""
    if UNWRITABLE.search(text):
        raise InvalidInput(f"{location} has a character that cannot be written, such as NUL; remove it")
    return text.strip(WHITESPACE)


def check_decided(document: Node) -> None:
    """Nothing is left as the draft wrote it."""
    undecided = list(_list_undecided(document, ()))
    if undecided:
        undecided_names = ", ".join(undecided[:MAX_NAMED]) + (", ..." if len(undecided) > MAX_NAMED else "")
        raise InvalidInput(f"the custodian has still to decide, in place of {UNDECIDED}: {undecided_names}")


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
