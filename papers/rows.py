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


def compare_equal(id: str, cell: str, published: object, obtained: object, within: float = 0.0, note: str = "") -> Row:
    """The same to the digits printed, which a text such as ".0110" shows; or within a share of it that is told."""
    note_text = _join_notes(note, f"within {100 * within:.3g} %" if within else "")
    return _build_row(id, cell, published, obtained, "equal", is_equal_within(obtained, published, within), note_text)


def compare_cut(id: str, cell: str, published: str, obtained: float, note: str = "") -> Row:
    """The same digits as far as they are printed, cut off there where rounding would have raised the last."""
    note_text = _join_notes("cut off, not rounded", note)
    return _build_row(id, cell, published, obtained, "equal", is_cut_to(obtained, published), note_text)


def compare_sampled(id: str, cell: str, published: object, obtained: object, within: float, note: str = "") -> Row:
    """The mean of random runs, within a share of the printed mean of other random runs."""
    note_text = _join_notes(note, f"within {100 * within:.3g} %")
    return _build_row(
        id,
        cell,
        published,
        obtained,
        "equal within sampling error",
        is_equal_within(obtained, published, within),
        note_text,
    )


def compare_derived(id: str, cell: str, right: object, obtained: object, within: float = 1e-9, note: str = "") -> Row:
    """Nothing is printed; what comes out is what follows from the document by another way of reckoning."""
    note_text = _join_notes("nothing is printed; reckoned twice", note)
    return _build_row(id, cell, None, obtained, "equal", is_equal_within(obtained, right, within), note_text)


def compare_corrected(
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
    is_print_wrong = not is_equal_within(obtained, published, 0.0)
    return _build_row(
        id,
        cell,
        published,
        obtained,
        "corrected",
        is_print_wrong and is_equal_within(obtained, right, within),
        f"{why} (erratum {erratum})",
    )


def compare_near(id: str, cell: str, published: object, obtained: object, within: float, why: str) -> Row:
    """Not the printed figure, for want of a setting that the document does not tell; but within a share of it."""
    note = f"settings: within {100 * within:.3g} %; {why}"
    return _build_row(
        id, cell, published, obtained, "not reproducible", is_equal_within(obtained, published, within), note
    )


def build_not_reproducible(id: str, cell: str, published: object, obtained: object, reason: Reason, why: str) -> Row:
    """Not to be had again; `obtained` is the nearest there is, or nothing."""
    return Row(id, cell, _to_plain(published), _to_plain(obtained), "not reproducible", f"{reason}: {why}")


def is_equal_within(obtained: object, expected: object, within: float) -> bool:
    """Whether they are the same to the digits of the expected, each part of it; or within a share of it."""
    if isinstance(expected, Mapping):
        return (
            isinstance(obtained, Mapping)
            and expected.keys() == obtained.keys()
            and all(is_equal_within(obtained[name], each, within) for name, each in expected.items())
        )
    if isinstance(expected, list | tuple):
        return (
            isinstance(obtained, list | tuple)
            and len(obtained) == len(expected)
            and all(is_equal_within(one, two, within) for one, two in zip(obtained, expected, strict=True))
        )
    number, printed = _parse_number(obtained), _parse_number(expected)
    if number is None or printed is None:
        return type(obtained) is type(expected) and obtained == expected
    if number == printed or abs(number - printed) <= max(max(within, 1e-12) * abs(printed), 1e-15):
        return True
    return isinstance(expected, str) and not within and _do_digits_agree(number, expected)


def is_cut_to(obtained: float, printed: str) -> bool:
    """Whether the printed digits are those of the number, cut off where rounding would have raised the last."""
    unit = get_last_digit_unit(printed)
    return math.trunc(obtained / unit + math.copysign(1e-9, obtained)) == round(float(printed) / unit)


def _do_digits_agree(number: float, printed: str) -> bool:
    """Rounded at the last digit that is printed; a half may go either way."""
    return abs(number - float(printed)) <= 0.5 * get_last_digit_unit(printed) * (1 + 1e-9)


def get_last_digit_unit(printed: str) -> float:
    """The worth of the last digit that is printed: .001 of ".476", 1e7 of "3.07e9"."""
    mantissa, _, exponent = printed.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals)


def _build_row(
    id: str, cell: str, published: object, obtained: object, verdict: Verdict, is_as_expected: bool, note: str
) -> Row:
    if is_as_expected:
        return Row(id, cell, _to_plain(published), _to_plain(obtained), verdict, note)
    return Row(id, cell, _to_plain(published), _to_plain(obtained), "differs", _join_notes(DIFFERS, note))


def _join_notes(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _parse_number(value: object) -> float | None:
    """What is a number, or a text that reads as one."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def _to_plain(value: object) -> object:
    """As JSON has it: printed digits as the number they are, what is infinite as a word."""
    if isinstance(value, Mapping):
        return {str(name): _to_plain(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_to_plain(each) for each in value]
    number = _parse_number(value)
    if number is None:
        return value
    if not math.isfinite(number):
        return "infinite" if number > 0 else str(number)
    return int(number) if isinstance(value, int) else number
