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
from discreet.query.asked import MAX_NESTING, MAX_TEXT_LENGTH, MAX_TOKENS, check_question_text

MAX_JOINS = 8
QUESTION_SHAPE = (
    "a question is SELECT ... FROM ..., then JOIN, WHERE, GROUP BY, HAVING, ORDER BY and LIMIT where needed"
)

VALUE_TOKENS = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.STAR, TokenType.DATE}
VALUE_TOKENS |= {TokenType.NULL, TokenType.TRUE, TokenType.FALSE}
COMPARISON_TOKENS = {TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE}
CLAUSE_TOKENS = {TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING}
CLAUSE_TOKENS |= {TokenType.ORDER_BY, TokenType.LIMIT, TokenType.JOIN, TokenType.LEFT, TokenType.INNER, TokenType.OUTER}
CLAUSE_TOKENS |= {TokenType.ON, TokenType.USING, TokenType.ALIAS, TokenType.DISTINCT, TokenType.ASC, TokenType.DESC}
LOGIC_TOKENS = {TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.IN, TokenType.IS, TokenType.BETWEEN}
SIGN_TOKENS = {TokenType.L_PAREN, TokenType.R_PAREN, TokenType.COMMA, TokenType.DOT, TokenType.DASH, TokenType.PLUS}
GRAMMAR_TOKENS = VALUE_TOKENS | COMPARISON_TOKENS | CLAUSE_TOKENS | LOGIC_TOKENS | SIGN_TOKENS
FILTER_TOKENS = [TokenType.FILTER, TokenType.L_PAREN, TokenType.WHERE]
END_TOKENS = VALUE_TOKENS | {TokenType.R_PAREN}
ORDER_TOKENS = {TokenType.ASC, TokenType.DESC}
OPENING_TOKENS = {TokenType.L_PAREN, TokenType.DASH, TokenType.PLUS, TokenType.DOT}
KEYWORD_TOKENS = frozenset(Tokenizer.KEYWORDS.values())
CALL_TOKENS = VALUE_TOKENS | {TokenType.IN, TokenType.USING}
"""A bracket after one of these opens the arguments of a call, or a list."""


class _SqlParser(Parser):
    """Without functions of its own: every call is kept as it was written, with all its arguments."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {}


def parse_tree(text: str) -> tuple[exp.Select, str | None]:
    """The tree of one SELECT, and the unit that FOR UNIT names at its end."""
    tokens, unit = _split_unit(_tokenize(text))
    converted_tokens = list(_convert_words(tokens))
    _check_commas(converted_tokens)
    _check_nesting(converted_tokens)
    if sum(token.token_type == TokenType.JOIN for token in converted_tokens) > MAX_JOINS:
        raise InvalidInput(f"a question joins at most {MAX_JOINS} lookups")
    try:
        trees = _SqlParser().parse(converted_tokens, text)
    except ParseError as error:
        raise InvalidInput(_explain_parse_error(error)) from None
    except (SqlglotError, RecursionError):
        raise InvalidInput(f"the SQL cannot be read; {QUESTION_SHAPE}") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Select):
        raise InvalidInput(f"the SQL cannot be read as one question; {QUESTION_SHAPE}")
    return trees[0], unit


def _tokenize(text: str) -> list[Token]:
    """The tokens of one statement that begins with SELECT."""
    if len(text) > MAX_TEXT_LENGTH:
        raise InvalidInput(f"a question has at most {MAX_TEXT_LENGTH} characters, got {len(text)}; shorten it")
    check_question_text(text)
    try:
        tokens = Tokenizer().tokenize(text)
    except SqlglotError:
        raise InvalidInput("the SQL has a quote or a comment that is not closed; close it") from None
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if len(tokens) > MAX_TOKENS:
        raise InvalidInput(f"a question has at most {MAX_TOKENS} words and signs, got {len(tokens)}; shorten it")
    if not tokens or tokens[0].token_type != TokenType.SELECT:
        raise InvalidInput(f"a question begins with SELECT; {QUESTION_SHAPE}")
    if any(token.token_type == TokenType.SEMICOLON for token in tokens):
        raise InvalidInput("there are two statements; ask one question at a time")
    return tokens


def _split_unit(tokens: list[Token]) -> tuple[list[Token], str | None]:
    """FOR UNIT 'name' at the end, taken off."""
    if len(tokens) > 3:
        first, second, last = tokens[-3:]
        kinds = first.token_type, second.token_type, last.token_type
        if kinds == (TokenType.FOR, TokenType.VAR, TokenType.STRING) and second.text.upper() == "UNIT":
            return tokens[:-3], last.text
    return tokens, None


def _convert_words(tokens: Sequence[Token]) -> Iterator[Token]:
    """Words outside the grammar become names where a name can stand; signs outside it are refused."""
    previous_kind = TokenType.SELECT
    kinds = [token.token_type for token in tokens]
    for index, token in enumerate(tokens):
        kind = token.token_type
        is_filter = previous_kind == TokenType.R_PAREN and kinds[index : index + 3] == FILTER_TOKENS
        if kind not in GRAMMAR_TOKENS and not is_filter:
            if previous_kind in END_TOKENS or kind not in KEYWORD_TOKENS or not token.text.isidentifier():
                where = f"line {token.line}, column {token.col - len(token.text) + 1}"
                if kind == TokenType.FILTER:
                    raise InvalidInput(f"FILTER, at {where}, is written FILTER (WHERE condition), right after a count")
                raise InvalidInput(f"{token.text[:40]!r} has no place at {where}; {QUESTION_SHAPE}")
            kind = TokenType.VAR
        yield Token(kind, token.text, token.line, token.col, token.start, token.end)
        previous_kind = kind


def _check_commas(tokens: Sequence[Token]) -> None:
    """A comma stands between two entries; the parser would pass over an entry that is not there."""
    kinds = [token.token_type for token in tokens]
    for previous_kind, kind, next_kind in zip(kinds, kinds[1:], [*kinds[2:], TokenType.FROM], strict=False):
        if kind == TokenType.COMMA and (
            previous_kind not in END_TOKENS | ORDER_TOKENS or next_kind not in VALUE_TOKENS | OPENING_TOKENS
        ):
            raise InvalidInput(f"a comma has no entry before or after it; {QUESTION_SHAPE}")


def _check_nesting(tokens: Sequence[Token]) -> None:
    """What stands before a value nests too: NOT NOT x, and - - 1."""
    floors, calls, depth, previous_kind, word = [0], [False], 0, TokenType.SELECT, ""
    for token in tokens:
        kind = token.token_type
        if kind == TokenType.L_PAREN:
            if calls[-1]:
                raise InvalidInput(
                    f"a bracket cannot open within a call or a list, at line {token.line}; {QUESTION_SHAPE}"
                )
            depth += 1
            floors.append(depth)
            calls.append(previous_kind in CALL_TOKENS and word != "ROLLUP")
        elif kind == TokenType.FILTER and depth:
            raise InvalidInput("FILTER (WHERE ...) stands right after a count, outside all other brackets")
        elif kind == TokenType.R_PAREN and len(floors) > 1:
            floors.pop()
            calls.pop()
            depth = floors[-1]
        else:
            depth = floors[-1] if kind in VALUE_TOKENS or previous_kind in END_TOKENS else depth + 1
        if depth > MAX_NESTING:
            raise InvalidInput(f"brackets, NOT and minus nest at most {MAX_NESTING} deep; flatten the question")
        previous_kind, word = kind, token.text.upper()


def _explain_parse_error(error: ParseError) -> str:
    """Where the parser stopped; its own words stay inside."""
    first = error.errors[0] if error.errors else {}
    highlight, line = str(first.get("highlight") or ""), first.get("line")
    where = f" near {highlight[:40]!r}, line {line}" if highlight else ""
    return f"the SQL cannot be read{where}; {QUESTION_SHAPE}"
