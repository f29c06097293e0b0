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
    """Everything discreet raises on purpose."""

    exit_code = 1


class InvalidInput(DiscreetError, ValueError):
    """The caller can mend it."""

    exit_code = 2


class BudgetExceeded(DiscreetError):
    """Answering would break the promise."""

    exit_code = 3


class Unsupported(DiscreetError):
    """We cannot prove it, so we do not do it."""

    exit_code = 4


class Unavailable(DiscreetError):
    """A source or the ledger does not answer now."""

    exit_code = 5


class ClaimFailed(DiscreetError):
    """A release is not what its label says."""

    exit_code = 6


class Internal(DiscreetError):
    """Our bug."""

    exit_code = 1
