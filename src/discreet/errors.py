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
    """Everything discreet raises on purpose.

    Catch it to catch them all; each kind below says what to do.
    """

    exit_code = 1
    stored_name = "DiscreetError"
    """The name in stored documents: never changed, whatever the class is called."""


class InvalidInput(DiscreetError, ValueError):
    """The caller can mend it.

    A question, a schema, a prior, a file or an option is not as it must be. The message names what is wrong and what is
    allowed: change that and try again. Nothing was charged.
    """

    exit_code = 2
    stored_name = "InvalidInput"


class BudgetExceeded(DiscreetError):
    """Answering would break the promise.

    What is left of the data set's budget, or of the analyst's, does not pay for it; nothing was charged. Ask for less
    (a smaller epsilon), ask what is stored already, which is free, or talk to the custodian. `budget` shows what is
    left.
    """

    exit_code = 3
    stored_name = "BudgetExceeded"


class Unsupported(DiscreetError):
    """We cannot prove it, so we do not do it.

    The question is well formed, and no proof covers it for this data set. The message says what can be asked instead.
    Nothing was charged.
    """

    exit_code = 4
    stored_name = "Unsupported"


class Unavailable(DiscreetError):
    """A source or the ledger does not answer now.

    A file or a database is away, locked by somebody, or not what was registered. Mend that, or wait, and try again:
    with the same key (`key=`, `--key`) a question that was charged already is not paid for twice.
    """

    exit_code = 5
    stored_name = "Unavailable"


class ClaimFailed(DiscreetError):
    """A release is not what its label says.

    A file does not keep its claim, or the ledger or a back-up is not what was written. Do not hand the file out; keep
    the ledger as it is and look at the last heads that were kept elsewhere.
    """

    exit_code = 6
    stored_name = "ClaimFailed"


class Internal(DiscreetError):
    """Our bug.

    Nothing about the data is shown. Try again with the same key, and report it with the command or the code that led to
    it, without real data.
    """

    exit_code = 1
    stored_name = "Internal"
