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
WINDOW = 80
"""Of a long line of SQL this many characters are shown."""


@dataclass(frozen=True, slots=True)
class SqlPosition:
    """The place in a question's SQL that an error is about; lines and columns count from 1."""

    line: int
    column: int
    length: int
    line_text: str

    @classmethod
    def locate(cls, text: str, start: int, end: int) -> SqlPosition:
        """Locate the characters from `start` up to `end`; what goes on in the next line is left out."""
        start = min(max(start, 0), len(text))
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", start)
        line_text = text[line_start : len(text) if line_end < 0 else line_end]
        length = max(1, min(end, line_start + len(line_text)) - start)
        return cls(text.count("\n", 0, start) + 1, start - line_start + 1, length, line_text)

    def to_json(self) -> dict[str, object]:
        """Machine-readable."""
        return {"line": self.line, "column": self.column, "length": self.length, "text": self.line_text}

    @classmethod
    def from_json(cls, document: object) -> SqlPosition | None:
        """Read what `to_json` wrote; None where it is something else."""
        if not isinstance(document, Mapping):
            return None
        line, column, length, text = (document.get(name) for name in ("line", "column", "length", "text"))
        if not (
            isinstance(line, int) and isinstance(column, int) and isinstance(length, int) and isinstance(text, str)
        ):
            return None
        return cls(line, column, length, text) if line > 0 and length > 0 and 0 < column <= len(text) + 1 else None

    def mark(self) -> str:
        """Write the line, and carets below the place."""
        cut = max(0, self.column - 1 - WINDOW // 2) if len(self.line_text) > WINDOW else 0
        shown = "".join(char if char.isprintable() else " " for char in self.line_text[cut : cut + WINDOW])
        carets = "^" * max(1, min(self.length, len(shown) - (self.column - 1 - cut)))
        return f"{shown}\n{' ' * (self.column - 1 - cut)}{carets}"


class DiscreetError(Exception):
    """Everything discreet raises on purpose.

    Catch it to catch them all; each kind below says what to do. The message is one sentence for people, `code` is for
    programs. An error about a place in a question's SQL has its `position`, which a traceback shows below the message.
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
    """The caller can mend it.

    A question, a schema, a prior, a file or an option is not as it must be. The message names what is wrong and what is
    allowed: change that and try again. Nothing was charged.
    """

    exit_code = 2
    stored_name = "InvalidInput"
    code: ErrorCode = "invalid-input"


class BudgetExceeded(DiscreetError):
    """Answering would break the promise.

    What is left of the data set's budget, or of the analyst's, does not pay for it; nothing was charged. Ask for less
    (a smaller epsilon), ask what is stored already, which is free, or talk to the custodian. `budget` shows what is
    left.
    """

    exit_code = 3
    stored_name = "BudgetExceeded"
    code: ErrorCode = "budget-exceeded"


class Unsupported(DiscreetError):
    """We cannot prove it, so we do not do it.

    The question is well formed, and no proof covers it for this data set. The message says what can be asked instead.
    Nothing was charged.
    """

    exit_code = 4
    stored_name = "Unsupported"
    code: ErrorCode = "unsupported"


class Unavailable(DiscreetError):
    """A source or the ledger does not answer now.

    A file or a database is away, locked by somebody, or not what was registered. Mend that, or wait, and try again:
    with the same key (`key=`, `--key`) a question that was charged already is not paid for twice.
    """

    exit_code = 5
    stored_name = "Unavailable"
    code: ErrorCode = "unavailable"


class ClaimFailed(DiscreetError):
    """A release is not what its label says.

    A file does not keep its claim, or the ledger or a back-up is not what was written. Do not hand the file out; keep
    the ledger as it is and look at the last heads that were kept elsewhere.
    """

    exit_code = 6
    stored_name = "ClaimFailed"
    code: ErrorCode = "claim-failed"


class Internal(DiscreetError):
    """Our bug.

    Nothing about the data is shown. Try again with the same key, and report it with the command or the code that led to
    it, without real data.
    """

    exit_code = 1
    stored_name = "Internal"
    code: ErrorCode = "internal"
