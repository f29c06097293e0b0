"""SQL text to a syntax tree, within limits that keep the parser quick: it is sqlglot's, on few kinds of tokens.

A word outside our grammar is a name, unless it stands right after a name or a value, where it would be read as an
alias: there it is refused, so that FULL JOIN is not read as JOIN. Brackets do not open within a call or a list: on
nested calls the parser takes twice as long with every level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from sqlglot import ParseError, Parser, Token, Tokenizer, TokenType, exp
from sqlglot.errors import SqlglotError

from discreet.errors import InvalidInput
from discreet.query.asked import DEEPEST, LONGEST, MOST_PARTS, check_text

MOST_JOINS = 8
SHAPE = "a question is SELECT ... FROM ..., then JOIN, WHERE, GROUP BY, HAVING, ORDER BY and LIMIT where needed"

VALUES = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.STAR, TokenType.DATE}
VALUES |= {TokenType.NULL, TokenType.TRUE, TokenType.FALSE}
COMPARISONS = {TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE}
CLAUSES = {TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING}
CLAUSES |= {TokenType.ORDER_BY, TokenType.LIMIT, TokenType.JOIN, TokenType.LEFT, TokenType.INNER, TokenType.OUTER}
CLAUSES |= {TokenType.ON, TokenType.USING, TokenType.ALIAS, TokenType.DISTINCT, TokenType.ASC, TokenType.DESC}
LOGIC = {TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.IN, TokenType.IS, TokenType.BETWEEN}
SIGNS = {TokenType.L_PAREN, TokenType.R_PAREN, TokenType.COMMA, TokenType.DOT, TokenType.DASH, TokenType.PLUS}
GRAMMAR = VALUES | COMPARISONS | CLAUSES | LOGIC | SIGNS
FILTER = [TokenType.FILTER, TokenType.L_PAREN, TokenType.WHERE]
ENDS = VALUES | {TokenType.R_PAREN}
ORDERS = {TokenType.ASC, TokenType.DESC}
OPENS = {TokenType.L_PAREN, TokenType.DASH, TokenType.PLUS, TokenType.DOT}
WORDS = frozenset(Tokenizer.KEYWORDS.values())
CALLS = VALUES | {TokenType.IN, TokenType.USING}
"""A bracket after one of these opens the arguments of a call, or a list."""


class _Parser(Parser):
    """Without functions of its own: every call is kept as it was written, with all its arguments."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {}


def read_tree(text: str) -> tuple[exp.Select, str | None]:
    """The tree of one SELECT, and the unit that FOR UNIT names at its end."""
    tokens, unit = _unit(_tokens(text))
    named = list(_names(tokens))
    _check_commas(named)
    _check_nesting(named)
    if sum(token.token_type == TokenType.JOIN for token in named) > MOST_JOINS:
        raise InvalidInput(f"a question joins at most {MOST_JOINS} lookups")
    try:
        trees = _Parser().parse(named, text)
    except ParseError as error:
        raise InvalidInput(_unread(error)) from None
    except (SqlglotError, RecursionError):
        raise InvalidInput(f"the SQL cannot be read; {SHAPE}") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Select):
        raise InvalidInput(f"the SQL cannot be read as one question; {SHAPE}")
    return trees[0], unit


def _tokens(text: str) -> list[Token]:
    """The tokens of one statement that begins with SELECT."""
    if len(text) > LONGEST:
        raise InvalidInput(f"a question has at most {LONGEST} characters, got {len(text)}; shorten it")
    check_text(text)
    try:
        tokens = Tokenizer().tokenize(text)
    except SqlglotError:
        raise InvalidInput("the SQL has a quote or a comment that is not closed; close it") from None
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if len(tokens) > MOST_PARTS:
        raise InvalidInput(f"a question has at most {MOST_PARTS} words and signs, got {len(tokens)}; shorten it")
    if not tokens or tokens[0].token_type != TokenType.SELECT:
        raise InvalidInput(f"a question begins with SELECT; {SHAPE}")
    if any(token.token_type == TokenType.SEMICOLON for token in tokens):
        raise InvalidInput("there are two statements; ask one question at a time")
    return tokens


def _unit(tokens: list[Token]) -> tuple[list[Token], str | None]:
    """FOR UNIT 'name' at the end, taken off."""
    if len(tokens) > 3:
        first, second, last = tokens[-3:]
        kinds = first.token_type, second.token_type, last.token_type
        if kinds == (TokenType.FOR, TokenType.VAR, TokenType.STRING) and second.text.upper() == "UNIT":
            return tokens[:-3], last.text
    return tokens, None


def _names(tokens: Sequence[Token]) -> Iterator[Token]:
    """Words outside the grammar become names where a name can stand; signs outside it are refused."""
    before = TokenType.SELECT
    kinds = [token.token_type for token in tokens]
    for at, token in enumerate(tokens):
        kind = token.token_type
        filters = before == TokenType.R_PAREN and kinds[at : at + 3] == FILTER
        if kind not in GRAMMAR and not filters:
            if before in ENDS or kind not in WORDS or not token.text.isidentifier():
                where = f"line {token.line}, column {token.col - len(token.text) + 1}"
                if kind == TokenType.FILTER:
                    raise InvalidInput(f"FILTER, at {where}, is written FILTER (WHERE condition), right after a count")
                raise InvalidInput(f"{token.text[:40]!r} has no place at {where}; {SHAPE}")
            kind = TokenType.VAR
        yield Token(kind, token.text, token.line, token.col, token.start, token.end)
        before = kind


def _check_commas(tokens: Sequence[Token]) -> None:
    """A comma stands between two entries; the parser would pass over an entry that is not there."""
    kinds = [token.token_type for token in tokens]
    for before, kind, after in zip(kinds, kinds[1:], [*kinds[2:], TokenType.FROM], strict=False):
        if kind == TokenType.COMMA and (before not in ENDS | ORDERS or after not in VALUES | OPENS):
            raise InvalidInput(f"a comma has no entry before or after it; {SHAPE}")


def _check_nesting(tokens: Sequence[Token]) -> None:
    """What stands before a value nests too: NOT NOT x, and - - 1."""
    floors, calls, here, before, word = [0], [False], 0, TokenType.SELECT, ""
    for token in tokens:
        kind = token.token_type
        if kind == TokenType.L_PAREN:
            if calls[-1]:
                raise InvalidInput(f"a bracket cannot open within a call or a list, at line {token.line}; {SHAPE}")
            here += 1
            floors.append(here)
            calls.append(before in CALLS and word != "ROLLUP")
        elif kind == TokenType.FILTER and here:
            raise InvalidInput("FILTER (WHERE ...) stands right after a count, outside all other brackets")
        elif kind == TokenType.R_PAREN and len(floors) > 1:
            floors.pop()
            calls.pop()
            here = floors[-1]
        else:
            here = floors[-1] if kind in VALUES or before in ENDS else here + 1
        if here > DEEPEST:
            raise InvalidInput(f"brackets, NOT and minus nest at most {DEEPEST} deep; flatten the question")
        before, word = kind, token.text.upper()


def _unread(error: ParseError) -> str:
    """Where the parser stopped; its own words stay inside."""
    first = error.errors[0] if error.errors else {}
    near, line = str(first.get("highlight") or ""), first.get("line")
    where = f" near {near[:40]!r}, line {line}" if near else ""
    return f"the SQL cannot be read{where}; {SHAPE}"
