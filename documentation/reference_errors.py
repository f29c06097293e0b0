"""The page of errors: the library's classes, and the problems of the service."""

from __future__ import annotations

import inspect

from documentation.markdown import code, page, table

from discreet import errors
from discreet.errors import DiscreetError
from discreet.service.problems import EXPLANATIONS, PROBLEM_TYPES, ProblemType


def kinds() -> list[type[DiscreetError]]:
    """Every class of error, the one they all are last."""
    found = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DiscreetError)]
    return sorted(found, key=lambda kind: (kind is DiscreetError, kind.exit_code))


def undocumented(found: list[type[DiscreetError]], sorts: tuple[ProblemType, ...] = PROBLEM_TYPES) -> list[str]:
    """Classes that do not say when they come and what to do, and problems that are not explained."""
    silent = [kind.__name__ for kind in found if kind.__doc__ is None or "\n\n" not in kind.__doc__]
    return silent + [sort.name for sort in sorts if not EXPLANATIONS.get(sort.name)]


def text() -> str:
    """The whole page."""
    found = kinds()
    return page(
        "# Errors",
        "Everything discreet raises on purpose is a `DiscreetError`. A message says what was asked, what is allowed "
        "and what to do; it never quotes the data. The same class is an exit code of the command and a problem of the "
        "service.",
        table(("class", "exit code", "HTTP status", "problem"), [_line(kind) for kind in found]),
        *(_section(kind) for kind in found),
        "## Problems of the service",
        "A refusal is `application/problem+json` (RFC 9457). `type` is its address, under which the service explains "
        "it; `kind` and `exit` name the class of the library, where there is one.",
        table(("problem", "status", "title", "when it comes, what to do"), [_problem(sort) for sort in PROBLEM_TYPES]),
    )


def _line(kind: type[DiscreetError]) -> tuple[str, ...]:
    sorts = [sort for sort in PROBLEM_TYPES if sort.error is kind]
    name = f"[{code(kind.__name__)}](#{kind.__name__.lower()})"
    statuses = ", ".join(str(sort.status) for sort in sorts)
    return name, str(kind.exit_code), statuses, ", ".join(code(sort.uri) for sort in sorts)


def _section(kind: type[DiscreetError]) -> str:
    return page(f"## {code(kind.__name__)} {{ #{kind.__name__.lower()} }}", inspect.cleandoc(kind.__doc__ or ""))


def _problem(sort: ProblemType) -> tuple[str, ...]:
    return code(sort.uri), str(sort.status), sort.title, EXPLANATIONS.get(sort.name, "")
