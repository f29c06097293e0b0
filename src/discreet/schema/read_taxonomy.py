"""A taxonomy from its file.

The file is JSON: {"parents": {"nurse": "health worker", "health worker": ["worker"], "worker": []}, "mapping": {...}}.
`parents` gives each concept its parent or a list of parents, none for the root. `mapping`, where there is one, lists
values as the data write them, each with the concept it means, as text or as the "synset" of an object; such a value
becomes a leaf under its concept. `attribute`, `source` and `n_concepts` are remarks.
"""

from __future__ import annotations

import json
from pathlib import Path

from discreet.errors import InvalidInput
from discreet.schema import expect
from discreet.schema.document import Node, trimmed
from discreet.schema.keys import TAXONOMY
from discreet.taxonomy import Taxonomy


def read_taxonomy(node: Node, what: str, folder: Path) -> Taxonomy:
    """A taxonomy from the file that is named, beside the schema."""
    pairs = expect.closed(_json(expect.file(node, what, folder), what), what, TAXONOMY)
    tree = expect.mapping(pairs["parents"], f"parents in {what}", '{"child": "parent"}')
    parents = {child: _parents(above, f"the parents of {child[:40]!r} in {what}") for child, above in tree.items()}
    values = expect.mapping(pairs.get("mapping", {}), f"mapping in {what}", '{"value": "concept"}')
    for value, meaning in values.items():
        concept = _concept(meaning, f"the concept of {value[:40]!r} in {what}")
        if value != concept and value in parents:
            raise InvalidInput(f"{value[:40]!r} in {what} is a concept and also mapped to another; rename one of them")
        parents.setdefault(value, (concept,))
    try:
        return Taxonomy.of(parents)
    except InvalidInput as error:
        raise InvalidInput(f"{what} is refused: {error}") from None


def _json(text: str, what: str) -> Node:
    """JSON with every scalar as text and every key once."""

    def once(pairs: list[tuple[str, Node]]) -> dict[str, Node]:
        keys = [trimmed(key, what) for key, _ in pairs]
        if len(set(keys)) < len(keys) or "" in keys:
            raise InvalidInput(f"{what} has a key that is empty or given twice; give every key once")
        return dict(zip(keys, (value for _, value in pairs), strict=True))

    try:
        document: Node = json.loads(text, object_pairs_hook=once, parse_int=str, parse_float=str, parse_constant=str)
    except (json.JSONDecodeError, RecursionError):
        raise InvalidInput(f'{what} is not valid JSON; write {{"parents": {{"child": "parent"}}}}') from None
    return document


def _parents(above: Node, what: str) -> tuple[str, ...]:
    listed = above if isinstance(above, list) else [above]
    return tuple(trimmed(expect.text(name, what), what) for name in listed)


def _concept(meaning: Node, what: str) -> str:
    concept = meaning.get("synset", "") if isinstance(meaning, dict) else meaning
    return trimmed(expect.text(concept, what), what)
