"""One tree of errors. A message says what was asked, what is allowed, what to do; it never quotes the data.

DiscreetError
├── InvalidInput     you can fix it              exit 2
├── BudgetExceeded   the promise would break     exit 3
├── Unsupported      we cannot prove it          exit 4
├── Unavailable      source or ledger, for now   exit 5
├── ClaimFailed      a release is not what it says   exit 6
└── Internal         our bug; no detail leaves   exit 1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from unicodedata import category, east_asian_width

ErrorCode = Literal[
    "invalid-input",
    "syntax",
    "unsupported-sql",
    "unknown-name",
    "unknown-column",
    "unknown-table",
    "unknown-function",
    "unknown-category",
    "wrong-type",
    "budget-exceeded",
    "unsupported",
    "unavailable",
    "claim-failed",
    "internal",
]
"""What went wrong, for programs: a code never changes its meaning, and sentences may change at any time."""
ERROR_CODES: Mapping[ErrorCode, str] = {
    "invalid-input": "A value, an option, a schema or a file is not as it must be; no more specific code applies.",
    "syntax": "The SQL cannot be read; `position` says where.",
    "unsupported-sql": "The SQL is valid, and discreet does not answer this construct.",
    "unknown-name": "No such option, method, mechanism or file.",
    "unknown-column": "No such column, or more than one of that name.",
    "unknown-table": "No such table or lookup.",
    "unknown-function": "No such function.",
    "unknown-category": "The column has no such category.",
    "wrong-type": "A column or a constant is of another type than its place in the SQL needs.",
    "budget-exceeded": "The privacy budget that is left does not pay for the answer.",
    "unsupported": "No proof covers the question for this data set.",
    "unavailable": "A source, the ledger or a file cannot be reached now.",
    "claim-failed": "A file, a ledger or a backup is not what its label says.",
    "internal": "A bug of discreet.",
}
MAX_WIDTH = 74
"""Cells of a terminal: of a longer line of SQL the part around the mistake is shown."""
MAX_POSITION_LENGTH = 200
"""Characters of a line of SQL in a position that somebody else wrote."""


@dataclass(frozen=True, slots=True)
class SqlPosition:
    """The place in a question's SQL that an error is about; lines and columns count from 1.

    `text` is the line, or of a long line the part around the place, with spaces for characters that do not print; the
    place begins at `text_column` of it and has `length` characters.
    """

    line: int
    column: int
    length: int
    text: str
    text_column: int

    @classmethod
    def locate(cls, sql: str, start: int, end: int) -> SqlPosition:
        """Locate the characters from `start` up to `end`; what goes on in the next line is left out."""
        start = min(max(start, 0), len(sql))
        line_start = sql.rfind("\n", 0, start) + 1
        line_end = sql.find("\n", start)
        first, last = _choose_window(sql, line_start, len(sql) if line_end < 0 else line_end, start, end)
        text = _replace_unprintable(sql[first:last])
        length = max(1, min(end, last) - start)
        return cls(sql.count("\n", 0, start) + 1, start - line_start + 1, length, text, start - first + 1)

    def to_json(self) -> dict[str, object]:
        """Write the position as JSON."""
        place = {"line": self.line, "column": self.column, "length": self.length}
        return place | {"text": self.text, "text_column": self.text_column, "marked": self.mark()}

    @classmethod
    def from_json(cls, document: object) -> SqlPosition | None:
        """Read what `to_json` wrote; None where it is something else."""
        if not isinstance(document, Mapping):
            return None
        numbers = [document.get(name) for name in ("line", "column", "length", "text_column")]
        text = document.get("text")
        if not (isinstance(text, str) and len(text) <= MAX_POSITION_LENGTH and all(map(_is_position, numbers))):
            return None
        line, column, length, text_column = (int(str(number)) for number in numbers)
        is_inside = text_column <= len(text) + 1 and length <= max(1, len(text) - text_column + 1)
        return cls(line, column, length, _replace_unprintable(text), text_column) if is_inside else None

    def mark(self) -> str:
        """Write the line, and carets below the place."""
        before, place = self.text[: self.text_column - 1], self.text[self.text_column - 1 :][: self.length]
        dots = "..." if self.text_column < self.column else ""
        carets = "^" * max(1, _measure_width(place))
        return f"{dots}{self.text}\n{' ' * (len(dots) + _measure_width(before))}{carets}"


def _choose_window(sql: str, line_start: int, line_end: int, start: int, end: int) -> tuple[int, int]:
    """Choose which part of a line is shown: all of it, or as much around its mistake as there is room for."""
    first = last = start
    room = MAX_WIDTH
    # The place first, then what stands before it up to half of the room, then what follows, then the rest before it.
    for limit, forward in ((min(end, line_end), True), (line_start, False), (line_end, True), (line_start, False)):
        reserve = MAX_WIDTH // 2 if not forward and last < line_end else 0
        while (last < limit) if forward else (first > limit):
            width = _measure_width(sql[last] if forward else sql[first - 1])
            if width > room - min(reserve, room) and width:
                break
            room -= width
            last, first = (last + 1, first) if forward else (last, first - 1)
            if last - first >= MAX_POSITION_LENGTH:
                return first, last
    return first, last


def _measure_width(text: str) -> int:
    """Count the cells of a terminal that a text fills: two for a wide character, none for an accent on another."""
    return sum(0 if category(char) in {"Mn", "Me"} else 1 + (east_asian_width(char) in "WF") for char in text)


def _replace_unprintable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def _is_position(value: object) -> bool:
    return type(value) is int and 0 < value < 10**9


class DiscreetError(Exception):
    """Base class of every error that discreet raises on purpose.

    Catch it to catch all of them. Each subclass says what to do, and `exit_code` is the exit status of the command. The
    message is one sentence for people, `code` is for programs. An error about a place in a question's SQL has its
    `position`, which a traceback shows below the message.

    Example:
        >>> import discreet
        >>> issubclass(discreet.BudgetExceeded, discreet.DiscreetError)
        True
        >>> discreet.BudgetExceeded.exit_code
        3
    """

    exit_code = 1
    stored_name = "DiscreetError"
    """The name in stored documents: never changed, whatever the class is called."""
    code: ErrorCode = "internal"
    position: SqlPosition | None = None
    span: tuple[int, int] | None = None
    """The characters of the SQL that the error is about, until the text is known that they are of."""

    def __init__(self, message: object = "", *, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code

    def set_position(self, position: SqlPosition) -> None:
        """Say where in the SQL the mistake is."""
        self.position = position
        self.add_note(position.mark())


class InvalidInput(DiscreetError, ValueError):
    """A question, a schema, a prior, a file or an option is not valid.

    The message names what is wrong and what is allowed: change that and try again. Nothing was charged.

    Example:
        >>> from discreet import Guarantee, InvalidInput
        >>> try:
        ...     Guarantee.dp(-1)
        ... except InvalidInput:
        ...     print("a negative epsilon is refused")
        a negative epsilon is refused
    """

    exit_code = 2
    stored_name = "InvalidInput"
    code: ErrorCode = "invalid-input"


class BudgetExceeded(DiscreetError):
    """The remaining budget of the data set or of the analyst does not cover the cost.

    Nothing was charged. Use a smaller epsilon, ask a question whose answer is stored, which is free, or talk to the
    custodian. `budget` shows what is left.

    Example:
        >>> from pathlib import Path
        >>> from discreet import BudgetExceeded, Custodian
        >>> from discreet.sample import write_registry
        >>> with Custodian.open(write_registry(Path("."), patients=100)) as custodian:  # an analyst has epsilon 1
        ...     try:
        ...         custodian.answer("SELECT COUNT(*) FROM registry WHERE smoker", epsilon=2)
        ...     except BudgetExceeded:
        ...         print("refused, and nothing was charged")
        refused, and nothing was charged
    """

    exit_code = 3
    stored_name = "BudgetExceeded"
    code: ErrorCode = "budget-exceeded"


class Unsupported(DiscreetError):
    """No proof covers the question for this data set, so it is not answered.

    The question is well formed. The message says what can be asked instead. Nothing was charged.

    Example:
        >>> from discreet import Unsupported
        >>> from discreet.mechanisms import variance_sensitivity
        >>> try:
        ...     variance_sensitivity(0, 100, rows=50, rows_per_unit=2)
        ... except Unsupported:
        ...     print("ask for the sums of x and of x^2 instead")
        ask for the sums of x and of x^2 instead
    """

    exit_code = 4
    stored_name = "Unsupported"
    code: ErrorCode = "unsupported"


class Unavailable(DiscreetError):
    """A source or the ledger cannot be reached now.

    A file or a database is missing, locked by another process, or not what was registered. Correct that, or wait, and
    try again: with the same key (`key=`, `--key`) a question that was already charged is not charged twice.

    Example:
        >>> from discreet import Ledger, Unavailable
        >>> try:
        ...     Ledger.open("missing/ledger.db")
        ... except Unavailable:
        ...     print("the folder does not exist")
        the folder does not exist
    """

    exit_code = 5
    stored_name = "Unavailable"
    code: ErrorCode = "unavailable"


class ClaimFailed(DiscreetError):
    """A release does not keep the guarantee on its label, or a ledger was changed.

    A file violates its claim, or the ledger or a backup is not what was written. Do not publish the file. Keep the
    ledger as it is and compare it with the last heads that were stored elsewhere.

    Example:
        >>> from discreet import ClaimFailed, Guarantee, check_claim
        >>> table = {"age": [30, 30, 41], "income": [10, 20, 30]}
        >>> try:  # only one row has age 41
        ...     check_claim(Guarantee.k_anonymity(2), table, quasi=["age"], confidential=["income"])
        ... except ClaimFailed:
        ...     print("not 2-anonymous")
        not 2-anonymous
    """

    exit_code = 6
    stored_name = "ClaimFailed"
    code: ErrorCode = "claim-failed"


class Internal(DiscreetError):
    """A bug in discreet.

    The message shows nothing about the data. Try again with the same key, and report the bug with the command or the
    code that led to it, without real data.

    Example:
        >>> from discreet import DiscreetError, Internal
        >>> issubclass(Internal, DiscreetError)
        True
    """

    exit_code = 1
    stored_name = "Internal"
    code: ErrorCode = "internal"


def restate_error(error: DiscreetError, message: str) -> InvalidInput:
    """Build the error that says in other words where another was found, with its code and position."""
    restated = InvalidInput(message, code=error.code)
    if error.position is not None:
        restated.set_position(error.position)
    return restated
