"""JSON with as many values on a line as fit, so that copies are short and a difference is one line."""

from __future__ import annotations

import json

WIDTH = 240
INDENTED = "(JSON, indented by 2)"


def fold_output(text: str) -> str:
    """Return what a command printed; a document that is indented by two, and ends with its line, is folded."""
    try:
        document = json.loads(text)
    except ValueError:
        return text
    return f"{INDENTED}\n{fold(document)}\n" if json.dumps(document, indent=2) + "\n" == text else text


def fold(value: object, indent: int = 0) -> str:
    """Return a value as JSON, on one line where it fits there."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= WIDTH or not isinstance(value, dict | list) or not value:
        return flat
    space = " " * (indent + 1)
    if isinstance(value, dict):
        parts = [f"{space}{json.dumps(key, ensure_ascii=False)}: {fold(one, indent + 1)}" for key, one in value.items()]
        return "\n".join(["{", ",\n".join(parts), f"{' ' * indent}}}"])
    parts = [f"{space}{fold(one, indent + 1)}" for one in value]
    return "\n".join(["[", ",\n".join(parts), f"{' ' * indent}]"])
