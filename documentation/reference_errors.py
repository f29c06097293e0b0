"""The page of errors: the library's classes, and the problems of the service."""

from __future__ import annotations

from documentation.markdown import format_code, format_table, join_parts
from documentation.reference_python import format_docstring

from discreet import errors
from discreet.errors import ERROR_CODES, DiscreetError, InvalidInput, SqlPosition
from discreet.service.problems import EXPLANATIONS, PROBLEM_TYPES, ProblemType
from discreet.suggestions import build_unknown_name_error

EXAMPLE_SQL = "SELECT AVG(incme) FROM registry WHERE smoker"


def _build_example() -> InvalidInput:
    error = build_unknown_name_error("column", "incme", ("age", "income", "smoker"), "unknown-column")
    start = EXAMPLE_SQL.index("incme")
    error.set_position(SqlPosition.locate(EXAMPLE_SQL, start, start + len("incme")))
    return error


def list_kinds() -> list[type[DiscreetError]]:
    """Every class of error, the one they all are last."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DiscreetError)]
    return sorted(kinds, key=lambda kind: (kind is DiscreetError, kind.exit_code))


def list_undocumented(kinds: list[type[DiscreetError]], sorts: tuple[ProblemType, ...] = PROBLEM_TYPES) -> list[str]:
    """Classes that do not say when they come and what to do, and problems that are not explained."""
    silent = [kind.__name__ for kind in kinds if kind.__doc__ is None or "\n\n" not in kind.__doc__]
    return silent + [sort.name for sort in sorts if not EXPLANATIONS.get(sort.name)]


def format_page() -> str:
    """The whole page."""
    kinds, example = list_kinds(), _build_example()
    return join_parts(
        "# Errors",
        "Everything discreet raises on purpose is a `DiscreetError`. A message says what was asked, what is allowed "
        "and what to do; it never quotes the data. The same class is an exit code of the command and a problem of the "
        "service.",
        format_table(("class", "exit code", "HTTP status", "problem"), [_format_line(kind) for kind in kinds]),
        *(_format_section(kind) for kind in kinds),
        "## Codes { #codes }",
        "`error.code` says what went wrong, for programs. A code never changes its meaning, and codes may be added; "
        "sentences are for people and may change in any version. The code is `code` in the command's JSON (`--json`) "
        "and in the service's problems; a problem without a class has its own name there, such as `not-found`.",
        format_table(
            ("code", "what went wrong"), [(format_code(code), meaning) for code, meaning in ERROR_CODES.items()]
        ),
        "## Positions in SQL { #positions }",
        "An error about a place in a question's SQL has a `position`: `line` and `column` from 1, the `length` in "
        "characters, and `text`, the line, or of a long line the part around the place, which begins at `text_column` "
        "of it. `position.mark()`, or `marked` in JSON, writes the line with carets below the place. A traceback and "
        "the command show it below the message, and the console below the SQL. All other errors, and those about a "
        "`Query`, have none.",
        "```text\n" + "\n".join(example.__notes__) + "\n```",
        "A name with a slip of one or two letters gets a suggestion: `" + str(example) + "`. Where no name is "
        "similar, at most ten are listed, and how many more there are.",
        "## Problems of the service",
        "A refusal is `application/problem+json` (RFC 9457). `type` is its address, under which the service explains "
        "it; `kind` and `exit` name the class of the library, where there is one, `code` the code and `position` the "
        "place in the SQL, where the problem is about one.",
        format_table(
            ("problem", "status", "title", "when it comes, what to do"),
            [_format_problem(sort) for sort in PROBLEM_TYPES],
        ),
    )


def _format_line(kind: type[DiscreetError]) -> tuple[str, ...]:
    sorts = [sort for sort in PROBLEM_TYPES if sort.error is kind]
    name = f"[{format_code(kind.__name__)}](#{kind.__name__.lower()})"
    statuses = ", ".join(str(sort.status) for sort in sorts)
    return name, str(kind.exit_code), statuses, ", ".join(format_code(sort.uri) for sort in sorts)


def _format_section(kind: type[DiscreetError]) -> str:
    return join_parts(f"## {format_code(kind.__name__)} {{ #{kind.__name__.lower()} }}", format_docstring(kind))


def _format_problem(sort: ProblemType) -> tuple[str, ...]:
    return format_code(sort.uri), str(sort.status), sort.title, EXPLANATIONS.get(sort.name, "")
