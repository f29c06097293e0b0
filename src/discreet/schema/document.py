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

LONGEST = 1_000_000
"""In characters."""
DEEPEST = 8
SPACE = " \t\r\n"
UNWRITABLE = re.compile("[\0\ud800-\udfff]")
"""What some engine or encoding cannot write."""
UNDECIDED = "DECIDE"
"""What a draft writes where the custodian must decide."""
MOST_NAMED = 12
NEEDED = {"schema": "declare name, source, neighbours, budget and columns", "configuration": "list datasets"}


def read_document(text: str, what: str = "schema") -> Node:
    """The one document of a YAML text; `what` it is, for who made a mistake in it."""
    if len(text) > LONGEST:
        raise InvalidInput(f"a {what} has at most {LONGEST} characters, this text has {len(text)}; use taxonomy files")
    return deepcopy(_read(text, what))


@lru_cache(maxsize=4)
def _read(text: str, what: str) -> Node:
    """Kept for a while: one command reads its schema several times."""
    import yaml

    try:
        return _document(yaml.parse(text, Loader=yaml.BaseLoader), what)
    except InvalidInput:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: from escapes of no character
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise InvalidInput(f"the {what} is not valid YAML{where}; write key: value, one key to a line") from None


def _document(events: Iterator[Event], what: str) -> Node:
    from yaml.events import NodeEvent

    document: Node | None = None
    for event in events:
        if not isinstance(event, NodeEvent):
            continue
        if document is not None:
            raise InvalidInput(f"a {what} is one YAML document; remove the second line --- and what follows it")
        document = _node(event, events, 0, what)
    if not document:
        raise InvalidInput(f"the {what} is empty; {NEEDED[what]}")
    return document


def _node(event: Event, events: Iterator[Event], depth: int, what: str) -> Node:
    from yaml.events import ScalarEvent, SequenceStartEvent

    where = _line(event, what)
    if getattr(event, "anchor", None) is not None or getattr(event, "tag", None) is not None:
        raise InvalidInput(
            f"{where} has an anchor (&), an alias (*) or a tag (!); write the value out, or in quotes if it is a text"
        )
    if isinstance(event, ScalarEvent):
        return trimmed(event.value, where)
    if depth == DEEPEST:
        raise InvalidInput(f"{where} is nested more than {DEEPEST} deep; a {what} needs at most 4")
    if isinstance(event, SequenceStartEvent):
        return [_node(inner, events, depth + 1, what) for inner in _until_end(events)]
    return _pairs(events, depth + 1, what)


def _pairs(events: Iterator[Event], depth: int, what: str) -> dict[str, Node]:
    pairs: dict[str, Node] = {}
    for event in _until_end(events):
        key = _node(event, events, depth, what)
        if not isinstance(key, str):
            raise InvalidInput(f"{_line(event, what)} has a key that is not text; write key: value")
        if key in pairs:
            raise InvalidInput(f"{_line(event, what)} gives {key[:40]!r} again; give every key once")
        pairs[key] = _node(next(events), events, depth, what)
    return pairs


def _until_end(events: Iterator[Event]) -> Iterator[Event]:
    from yaml.events import CollectionEndEvent

    for event in events:
        if isinstance(event, CollectionEndEvent):
            return
        yield event


def _line(event: Event, what: str) -> str:
    line = event.start_mark.line + 1 if event.start_mark else "?"
    return f"line {line} of the {what}"


def trimmed(text: str, where: str) -> str:
    """A text without the space around it, if every engine can write it."""
    if UNWRITABLE.search(text):
        raise InvalidInput(f"{where} has a character that cannot be written, such as NUL; remove it")
    return text.strip(SPACE)


def check_decided(document: Node) -> None:
    """Nothing is left as the draft wrote it."""
    undecided = list(_undecided(document, ()))
    if undecided:
        named = ", ".join(undecided[:MOST_NAMED]) + (", ..." if len(undecided) > MOST_NAMED else "")
        raise InvalidInput(f"the custodian has still to decide, in place of {UNDECIDED}: {named}")


def _undecided(node: Node, path: tuple[str, ...]) -> Iterator[str]:
    """What is undecided, in words: the lower of column age."""
    if node == UNDECIDED:
        yield " of ".join(reversed(path))
    elif isinstance(node, dict):
        for key, inner in node.items():
            yield from _undecided(inner, (f"column {key[:40]}",) if path == ("columns",) else (*path, key[:40]))
    elif isinstance(node, list):
        for inner in node:
            yield from _undecided(inner, path)
