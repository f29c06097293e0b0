"""One printed figure beside the one that comes out, and what is to be said of the two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Verdict = Literal["equal", "equal within sampling error", "corrected", "not reproducible", "differs"]
Reason = Literal["single run", "drawing", "data", "settings"]
VERDICTS: tuple[str, ...] = get_args(Verdict)

DIFFERS = "what comes out is not what was expected; this is a fault of the program"


@dataclass(frozen=True, slots=True)
class Row:
    """A cell of a table: numbers, lists or texts, as JSON has them."""

    id: str
    cell: str
    published: object
    obtained: object
    verdict: Verdict
    note: str = ""


def equal(id: str, cell: str, published: object, obtained: object, within: float = 0.0, note: str = "") -> Row:
    """The same to the digits printed, which a text such as ".0110" shows; or within a share of it that is told."""
    said = _joined(note, f"within {100 * within:.3g} %" if within else "")
    return _judged(id, cell, published, obtained, "equal", fits(obtained, published, within), said)


def cut(id: str, cell: str, published: str, obtained: float, note: str = "") -> Row:
    """The same digits as far as they are printed, cut off there where rounding would have raised the last."""
    said = _joined("cut off, not rounded", note)
    return _judged(id, cell, published, obtained, "equal", truncated(obtained, published), said)


def sampled(id: str, cell: str, published: object, obtained: object, within: float, note: str = "") -> Row:
    """The mean of random runs, within a share of the printed mean of other random runs."""
    said = _joined(note, f"within {100 * within:.3g} %")
    return _judged(
        id, cell, published, obtained, "equal within sampling error", fits(obtained, published, within), said
    )


def derived(id: str, cell: str, right: object, obtained: object, within: float = 1e-9, note: str = "") -> Row:
    """Nothing is printed; what comes out is what follows from the document by another way of reckoning."""
    said = _joined("nothing is printed; reckoned twice", note)
    return _judged(id, cell, None, obtained, "equal", fits(obtained, right, within), said)


def corrected(
    id: str,
    cell: str,
    published: object,
    obtained: object,
    right: object,
    erratum: str,
    why: str,
    within: float = 1e-6,
) -> Row:
    """The document is wrong: what is right, known in another way, comes out; `erratum` as "1.7" or "3.1"."""
    wrong = not fits(obtained, published, 0.0)
    return _judged(
        id,
        cell,
        published,
        obtained,
        "corrected",
        wrong and fits(obtained, right, within),
        f"{why} (erratum {erratum})",
    )


def near(id: str, cell: str, published: object, obtained: object, within: float, why: str) -> Row:
    """Not the printed figure, for want of a setting that the document does not tell; but within a share of it."""
    note = f"settings: within {100 * within:.3g} %; {why}"
    return _judged(id, cell, published, obtained, "not reproducible", fits(obtained, published, within), note)


def beyond(id: str, cell: str, published: object, obtained: object, reason: Reason, why: str) -> Row:
    """Not to be had again; `obtained` is the nearest there is, or nothing."""
    return Row(id, cell, _plain(published), _plain(obtained), "not reproducible", f"{reason}: {why}")


def fits(obtained: object, expected: object, within: float) -> bool:
    """Whether they are the same to the digits of the expected, each part of it; or within a share of it."""
    if isinstance(expected, Mapping):
        return (
            isinstance(obtained, Mapping)
            and expected.keys() == obtained.keys()
            and all(fits(obtained[name], each, within) for name, each in expected.items())
        )
    if isinstance(expected, list | tuple):
        return (
            isinstance(obtained, list | tuple)
            and len(obtained) == len(expected)
            and all(fits(one, two, within) for one, two in zip(obtained, expected, strict=True))
        )
    number, printed = _number(obtained), _number(expected)
    if number is None or printed is None:
        return type(obtained) is type(expected) and obtained == expected
    if number == printed or abs(number - printed) <= max(max(within, 1e-12) * abs(printed), 1e-15):
        return True
    return isinstance(expected, str) and not within and _digits_agree(number, expected)


def truncated(obtained: float, printed: str) -> bool:
    """Whether the printed digits are those of the number, cut off where rounding would have raised the last."""
    unit = last_digit(printed)
    return math.trunc(obtained / unit + math.copysign(1e-9, obtained)) == round(float(printed) / unit)


def _digits_agree(number: float, printed: str) -> bool:
    """Rounded at the last digit that is printed; a half may go either way."""
    return abs(number - float(printed)) <= 0.5 * last_digit(printed) * (1 + 1e-9)


def last_digit(printed: str) -> float:
    """The worth of the last digit that is printed: .001 of ".476", 1e7 of "3.07e9"."""
    mantissa, _, exponent = printed.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals)


def _judged(id: str, cell: str, published: object, obtained: object, verdict: Verdict, good: bool, note: str) -> Row:
    if good:
        return Row(id, cell, _plain(published), _plain(obtained), verdict, note)
    return Row(id, cell, _plain(published), _plain(obtained), "differs", _joined(DIFFERS, note))


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _number(value: object) -> float | None:
    """What is a number, or a text that reads as one."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def _plain(value: object) -> object:
    """As JSON has it: printed digits as the number they are, what is infinite as a word."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    number = _number(value)
    if number is None:
        return value
    if not math.isfinite(number):
        return "infinite" if number > 0 else str(number)
    return int(number) if isinstance(value, int) else number
