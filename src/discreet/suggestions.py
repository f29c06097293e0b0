"""Refusals of unknown names: the nearest names that are allowed, or a short list of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from itertools import islice
from pathlib import Path

from discreet.errors import ErrorCode, InvalidInput

MAX_LISTED_NAMES = 10
MAX_NAME_LENGTH = 40
"""Of a name in a message: it may be anything that somebody typed."""
MAX_SUGGESTIONS = 3
MAX_COMPARED_NAMES = 10_000
SHORT_NAME_LENGTH = 4
"""A name of at most so many letters may have one slip, a longer one two."""


def build_unknown_name_error(
    kind: str,
    name: str,
    known_names: Collection[str],
    code: ErrorCode = "unknown-name",
    *,
    place: str = "",
    advice: str = "",
) -> InvalidInput:
    """Build the refusal of a name that is not known.

    Args:
        kind: What the name should be of, such as "column".
        name: The name that was given.
        known_names: The names that are allowed; the asker may see all of them.
        code: The code of the error.
        place: Where the name was given, such as "in the schema".
        advice: What else could be done, as a clause.
    """
    similar_names = find_similar_names(name, known_names)
    hint = f"did you mean {' or '.join(map(repr, similar_names))}" if similar_names else _describe_choice(known_names)
    sentence = " ".join(filter(None, (f"unknown {kind} {name[:MAX_NAME_LENGTH]!r}", place)))
    sentence = "; ".join(filter(None, (sentence, f"{hint}?" if similar_names and not advice else hint, advice)))
    return InvalidInput(sentence, code=code)


def _describe_choice(known_names: Collection[str]) -> str:
    if not known_names:
        return ""
    return f"use {'one of ' if len(known_names) > 1 else ''}{list_names(known_names)}"


def list_names(names: Iterable[str]) -> str:
    """List at most ten names, and say how many more there are."""
    all_names = list(names)
    listed = ", ".join(name[:MAX_NAME_LENGTH] for name in all_names[:MAX_LISTED_NAMES])
    return listed + (f" and {len(all_names) - MAX_LISTED_NAMES:,} more" if len(all_names) > MAX_LISTED_NAMES else "")


def find_similar_names(name: str, known_names: Iterable[str]) -> list[str]:
    """Find the names that differ from a name by one or two slips: a letter too many, too few, wrong or exchanged."""
    word = name.casefold()
    max_slips = 1 if len(word) <= SHORT_NAME_LENGTH else 2
    if not 2 <= len(word) <= MAX_NAME_LENGTH:
        return []
    slips = (
        (count_slips(word, known.casefold(), max_slips), known) for known in islice(known_names, MAX_COMPARED_NAMES)
    )
    nearest = sorted((count, index, known) for index, (count, known) in enumerate(slips) if count <= max_slips)
    return [known for count, _, known in nearest if count == nearest[0][0]][:MAX_SUGGESTIONS]


def count_slips(word: str, other: str, most: int) -> int:
    """Count the letters inserted, removed, replaced or exchanged with a neighbor; `most + 1` where there are more.

    This is the optimal string alignment distance, row by row; only cells within `most` of the diagonal matter.
    """
    if abs(len(word) - len(other)) > most:
        return most + 1
    word, other = _strip_common_ends(word, other)
    above = most + 1
    before_last: list[int] = []
    last = [j if j <= most else above for j in range(len(other) + 1)]
    for i, letter in enumerate(word, 1):
        row = [i if i <= most else above] + [above] * len(other)
        for j in range(max(1, i - most), min(len(other), i + most) + 1):
            slips = min(row[j - 1] + 1, last[j] + 1, last[j - 1] + (letter != other[j - 1]))
            if i > 1 and j > 1 and letter == other[j - 2] and word[i - 2] == other[j - 1]:
                slips = min(slips, before_last[j - 2] + 1)
            row[j] = min(slips, above)
        if min(row) > most:
            return above
        before_last, last = last, row
    return last[-1]


def _strip_common_ends(word: str, other: str) -> tuple[str, str]:
    """Strip what both begin and end with, which has no slips; most names of a long list differ in few letters."""
    shorter = min(len(word), len(other))
    start = next((i for i in range(shorter) if word[i] != other[i]), shorter)
    word, other, shorter = word[start:], other[start:], shorter - start
    end = next((i for i in range(shorter) if word[-1 - i] != other[-1 - i]), shorter)
    return word[: len(word) - end], other[: len(other) - end]


def build_choice_error(subject: str, value: object, choices: Collection[str], other: str = "") -> InvalidInput:
    """Build the refusal of a value that must be one of a few words, or something else that `other` describes."""
    name = value if type(value) is str else repr(value)
    similar_names = find_similar_names(name, choices)
    hint = f"; did you mean {' or '.join(map(repr, similar_names))}?" if similar_names else ""
    message = f"{subject} must be one of {list_names(choices)}{other}, got {name[:MAX_NAME_LENGTH]!r}{hint}"
    return InvalidInput(message, code="unknown-name")


def build_missing_file_error(problem: str, path: Path, advice: str) -> InvalidInput:
    """Build the refusal of a file that is not there, with the files beside it whose names are similar, or advice."""
    try:
        with os.scandir(path.parent) as entries:
            names = sorted(entry.name for entry in islice(entries, MAX_COMPARED_NAMES))
    except (OSError, ValueError):
        names = []
    similar_names = find_similar_names(path.name, [name for name in names if name.isprintable()])
    hint = f"did you mean {' or '.join(map(repr, similar_names))}?" if similar_names else advice
    return InvalidInput(f"{problem}; {hint}", code="unknown-name")
