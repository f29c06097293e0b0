"""Refusals of unknown names: the nearest names that are allowed, or a short list of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice

from discreet.errors import ErrorCode, InvalidInput

MAX_LISTED_NAMES = 10
MAX_NAME_LENGTH = 40
"""Of a name in a message: it may be anything that somebody typed."""
MAX_SUGGESTIONS = 3
MAX_COMPARED_NAMES = 10_000
SHORT_NAME_LENGTH = 4
"""A name of at most so many letters may have one slip, a longer one two."""


def build_unknown_name_error(
    kind: str, name: str, known_names: Collection[str], code: ErrorCode = "unknown-name", advice: str = ""
) -> InvalidInput:
    """Build the refusal of a name that is not known.

    Args:
        kind: What the name should be of, such as "column".
        name: The name that was given.
        known_names: The names that are allowed; all of them public.
        code: The code of the error.
        advice: What else could be done, as a clause.
    """
    similar_names = find_similar_names(name, known_names)
    if similar_names:
        hint = f"did you mean {' or '.join(map(repr, similar_names))}?"
    else:
        hint = f"use {'one of ' if len(known_names) > 1 else ''}{list_names(known_names)}" if known_names else ""
    sentence = "; ".join(filter(None, (f"unknown {kind} {name[:MAX_NAME_LENGTH]!r}", hint.rstrip("?"), advice)))
    return InvalidInput(sentence + ("?" if similar_names and not advice else ""), code=code)


def list_names(names: Iterable[str]) -> str:
    """List at most ten names, and say how many more there are."""
    all_names = list(names)
    listed = [name[:MAX_NAME_LENGTH] for name in all_names[:MAX_LISTED_NAMES]]
    rest = len(all_names) - len(listed)
    return ", ".join(listed) + (f" and {rest:,} more" if rest else "")


def find_similar_names(name: str, known_names: Iterable[str]) -> list[str]:
    """Find the names that differ from a name by one or two slips: a letter too many, too few, wrong or exchanged."""
    word = name.casefold()
    max_slips = 1 if len(word) <= SHORT_NAME_LENGTH else 2
    if len(word) < 2 or len(word) > MAX_NAME_LENGTH:
        return []
    slips = (
        (count_slips(word, known.casefold(), max_slips), known) for known in islice(known_names, MAX_COMPARED_NAMES)
    )
    nearest = sorted((count, index, known) for index, (count, known) in enumerate(slips) if count <= max_slips)
    return [known for count, _, known in nearest if count == nearest[0][0]][:MAX_SUGGESTIONS]


def count_slips(word: str, other: str, most: int) -> int:
    """Count the letters inserted, removed, replaced or exchanged with a neighbor; above `most` only that it is above.

    This is the optimal string alignment distance, row by row.
    """
    if abs(len(word) - len(other)) > most:
        return most + 1
    before_last: list[int] = []
    last = list(range(len(other) + 1))
    for i, letter in enumerate(word, 1):
        row = [i]
        for j, other_letter in enumerate(other, 1):
            replaced = last[j - 1] + (letter != other_letter)
            row.append(min(row[-1] + 1, last[j] + 1, replaced))
            if i > 1 and j > 1 and letter == other[j - 2] and word[i - 2] == other_letter:
                row[-1] = min(row[-1], before_last[j - 2] + 1)
        if min(row) > most:
            return most + 1
        before_last, last = last, row
    return last[-1]
