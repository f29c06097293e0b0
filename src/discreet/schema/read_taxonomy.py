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
from discreet.schema.document import Node, trim_text
from discreet.schema.keys import TAXONOMY_KEYS
from discreet.taxonomy import Taxonomy


def read_taxonomy(node: Node, subject: str, folder: Path) -> Taxonomy:
    """A taxonomy from the file that is named, beside the schema."""
    pairs = expect.expect_closed_mapping(
        _parse_json(expect.read_referenced_file(node, subject, folder), subject), subject, TAXONOMY_KEYS
    )
    tree = expect.expect_mapping(pairs["parents"], f"parents in {subject}", '{"child": "parent"}')
    parents = {
        child: _parse_parents(above, f"the parents of {child[:40]!r} in {subject}") for child, above in tree.items()
    }
    values = expect.expect_mapping(pairs.get("mapping", {}), f"mapping in {subject}", '{"value": "concept"}')
    for value, meaning in values.items():
        concept = _parse_concept(meaning, f"the concept of {value[:40]!r} in {subject}")
        if value != concept and value in parents:
            raise InvalidInput(
                f"{value[:40]!r} in {subject} is a concept and also mapped to another; rename one of them"
            )
        parents.setdefault(value, (concept,))
    try:
        return Taxonomy.of(parents)
    except InvalidInput as error:
        raise InvalidInput(f"{subject} is refused: {error}") from None


def _parse_json(text: str, subject: str) -> Node:
    """JSON with every scalar as text and every key once."""

    def build_mapping(pairs: list[tuple[str, Node]]) -> dict[str, Node]:
        keys = [trim_text(key, subject) for key, _ in pairs]
        if len(set(keys)) < len(keys) or "" in keys:
            raise InvalidInput(f"{subject} has a key that is empty or given twice; give every key once")
        return dict(zip(keys, (value for _, value in pairs), strict=True))

    try:
        document: Node = json.loads(
            text, object_pairs_hook=build_mapping, parse_int=str, parse_float=str, parse_constant=str
        )
    except (json.JSONDecodeError, RecursionError):
        raise InvalidInput(f'{subject} is not valid JSON; write {{"parents": {{"child": "parent"}}}}') from None
    return document


def _parse_parents(parents: Node, subject: str) -> tuple[str, ...]:
    entries = parents if isinstance(parents, list) else [parents]
    return tuple(trim_text(expect.expect_text(name, subject), subject) for name in entries)


def _parse_concept(meaning: Node, subject: str) -> str:
    concept = meaning.get("synset", "") if isinstance(meaning, dict) else meaning
    return trim_text(expect.expect_text(concept, subject), subject)
