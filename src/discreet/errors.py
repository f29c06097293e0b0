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


class DiscreetError(Exception):
    """Base class of every error that discreet raises on purpose.

    Catch it to catch all of them. Each subclass says what to do, and `exit_code` is the exit status of the command.

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
