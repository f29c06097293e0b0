"""Names that people tell apart by looking: no two that look alike, nothing invisible, one script each.

What is whose is told by names, so a name that looks like another's would get that person's grants or blame.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from discreet.errors import InvalidInput

BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {chr(at) for at in range(0xFE00, 0xFE10)}
"""Letters and marks that are drawn as nothing; control and format characters have categories of their own."""
INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
TOGETHER = ({"CJK", "HIRAGANA", "KATAKANA"}, {"CJK", "HANGUL"}, {"CJK", "BOPOMOFO"})
"""Scripts that one language writes side by side."""
LIKE = str.maketrans(
    "01|" + "авезіјкмнорсԁтухѕһԛԝӏ" + "αβεικνοργτυχκ",
    "ol" + "l" + "abe3ijkmhopcdtyxshqwl" + "abeiknopytuxk",
)
"""Digits and letters of other scripts that are drawn as a Latin letter, after case folding."""


def check_name(name: str, what: str) -> None:
    """Refuse a name with invisible characters, or with letters of several scripts."""
    if any(sign in BLANK or unicodedata.category(sign) in INVISIBLE for sign in name):
        raise InvalidInput(
            f"{what} holds a character that cannot be seen; use letters, digits, spaces and punctuation, and type the "
            "name instead of copying it"
        )
    scripts = {
        unicodedata.name(sign, "").partition(" ")[0]
        for sign in unicodedata.normalize("NFKC", name)
        if unicodedata.category(sign) in {"Lu", "Ll", "Lt", "Lo"}
    }
    if len(scripts) > 1 and not any(scripts <= allowed for allowed in TOGETHER):
        told = " and ".join(sorted(script.capitalize() for script in scripts))
        raise InvalidInput(f"{what} mixes letters of {told}; use the letters of one script, as the person writes it")


def skeleton(name: str) -> str:
    """What a name looks like: without case, width, accents, invisible characters, or letters that are drawn alike."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    seen = "".join(
        str(unicodedata.digit(sign, sign))
        for sign in plain
        if sign not in BLANK and unicodedata.category(sign) not in INVISIBLE and not unicodedata.combining(sign)
    )
    return " ".join(seen.translate(LIKE).split())


def require_apart(name: str, others: Iterable[str], what: str) -> None:
    """Refuse a name that looks like another one there is; the same name is no other one."""
    own = skeleton(name)
    alike = next((other for other in others if other != name and skeleton(other) == own), None)
    if alike is not None:
        raise InvalidInput(
            f"{what} {name[:40]!r} looks like {alike[:40]!r}, which there is already; use that spelling if it is the "
            "same, else a name that differs in more than case, accents or letters that look alike"
        )
