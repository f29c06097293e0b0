"""Names that people tell apart by looking: no two that look alike, nothing invisible, one script each.

What is whose is told by names, so a name that looks like another's would get that person's grants or blame.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from discreet.errors import InvalidInput

BLANK_CHARACTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    chr(at) for at in range(0xFE00, 0xFE10)
}
"""Letters and marks that are drawn as nothing; control and format characters have categories of their own."""
INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
COMPATIBLE_SCRIPTS = ({"CJK", "HIRAGANA", "KATAKANA"}, {"CJK", "HANGUL"}, {"CJK", "BOPOMOFO"})
"""Scripts that one language writes side by side."""
LOOKALIKES = str.maketrans(
    "01|" + "авезіјкмнорсԁтухѕһԛԝӏ" + "αβεικνοργτυχκ",
    "ol" + "l" + "abe3ijkmhopcdtyxshqwl" + "abeiknopytuxk",
)
"""Digits and letters of other scripts that are drawn as a Latin letter, after case folding."""


def check_readable_name(name: str, what: str) -> None:
    """Refuse a name with invisible characters, or with letters of several scripts."""
    if any(
        character in BLANK_CHARACTERS or unicodedata.category(character) in INVISIBLE_CATEGORIES for character in name
    ):
        raise InvalidInput(
            f"{what} holds a character that cannot be seen; use letters, digits, spaces and punctuation, and type the "
            "name instead of copying it"
        )
    scripts = {
        unicodedata.name(character, "").partition(" ")[0]
        for character in unicodedata.normalize("NFKC", name)
        if unicodedata.category(character) in {"Lu", "Ll", "Lt", "Lo"}
    }
    if len(scripts) > 1 and not any(scripts <= script_set for script_set in COMPATIBLE_SCRIPTS):
        script_names = " and ".join(sorted(script.capitalize() for script in scripts))
        raise InvalidInput(
            f"{what} mixes letters of {script_names}; use the letters of one script, as the person writes it"
        )


def compute_name_skeleton(name: str) -> str:
    """What a name looks like: without case, width, accents, invisible characters, or letters that are drawn alike."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    visible_text = "".join(
        str(unicodedata.digit(character, character))
        for character in plain
        if character not in BLANK_CHARACTERS
        and unicodedata.category(character) not in INVISIBLE_CATEGORIES
        and not unicodedata.combining(character)
    )
    return " ".join(visible_text.translate(LOOKALIKES).split())


def require_distinct_name(name: str, others: Iterable[str], what: str) -> None:
    """Refuse a name that looks like another one there is; the same name is no other one."""
    own_skeleton = compute_name_skeleton(name)
    lookalike = next(
        (other for other in others if other != name and compute_name_skeleton(other) == own_skeleton), None
    )
    if lookalike is not None:
        raise InvalidInput(
            f"{what} {name[:40]!r} looks like {lookalike[:40]!r}, which there is already; use that spelling if "
            "it is the "
            "same, else a name that differs in more than case, accents or letters that look alike"
        )
