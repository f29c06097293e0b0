"""What is not the same in every run is masked here, by as few patterns as there can be; nothing else may differ.

Ids, tokens, times, hashes and the chain of a ledger are not masked: the generator and the clock are replaced instead
(`support/launcher/fixed_machine.py`), so that they are the same in every run, and a change of what is stored is seen.
"""

from __future__ import annotations

import re

LONG_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d{7,}(?:e[-+]?\d+)?(?![\w.])|(?<![\w.])-?\d(?:\.\d+)?e-?\d+(?![\w.])")
"""A number with so many places that its last ones are those of a binary fraction, as a processor computed it."""
ERROR = re.compile(r'("(?:expected_error|prior_error)": )(\d+\.\d+)')
"""An error that is expected, found by a search that ends where the processor sees no more difference."""
ERROR_DIGITS = 4
SPACES = re.compile(r" {3,}$", re.MULTILINE)
"""What fills up a column of a table to its width, up to the end of the line."""
SET = re.compile(r"frozenset\(\{([^{}]*)\}\)")
"""A set as Python shows it: in an order that changes with every process."""
DIGITS = 9
"""How many digits of such a number are kept: processors differ in the sixteenth, and sums of them earlier."""


def mask(text: str, folder: str) -> str:
    """Return what a run said, without what differs between runs."""
    # The folder that a run is in, which has another name each time; the length of its name is always the same.
    text = text.replace(folder, "{folder}").replace(folder.rpartition("/")[2], "{folder's name}")
    # What is in a set is put in order.
    text = SET.sub(lambda match: f"frozenset({{{', '.join(sorted(match[1].split(', ')))}}})", text)
    # Numbers as the processor has them are rounded.
    text = LONG_NUMBER.sub(_round, text)
    # Errors that are expected are rounded more, to as many digits as the screen shows.
    text = ERROR.sub(lambda match: f"{match[1]}{_write(float(match[2]), ERROR_DIGITS)}", text)
    # Spaces at the end of a line are counted, so that no editor takes them away unseen.
    return SPACES.sub(lambda match: f" ␠{len(match[0])}", text)


def _round(match: re.Match[str]) -> str:
    """Return a number with fewer digits."""
    return _write(float(match[0]), DIGITS)


def _write(number: float, digits: int) -> str:
    """Return a number as JSON has it, with so many digits."""
    text = f"{number:.{digits}g}"
    return text if "." in text or "e" in text else f"{text}.0"
