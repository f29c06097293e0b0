"""From SQL text to a syntax tree of our own; everything that is not known by name is refused.

A word outside our grammar is a name, unless it stands right after a name or a value, where it would be read as an
alias: there it is refused, so that FULL JOIN is not read as JOIN. Brackets do not open within a call or a list: on
nested calls the parser takes twice as long with every level.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from functools import wraps
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from sqlglot import ParseError, Parser, Token, Tokenizer, TokenType, exp
from sqlglot.errors import SqlglotError

from discreet.errors import DiscreetError, ErrorCode, InvalidInput
from discreet.numeric import EPOCH, as_int, parse_days, parse_rational
from discreet.query import ast
from discreet.query.query import Comparison, check_question_text
from discreet.query.resolve import CALLABLE_FUNCTIONS, build_unknown_function_error
from discreet.query.scope import locate_errors

Options = ParamSpec("Options")
Node = TypeVar("Node", bound=exp.Expression | None)
Result = TypeVar("Result")
NODE_NOUNS: Mapping[type[exp.Expression], str] = {
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg), "arithmetic"),
    **dict.fromkeys((exp.Select, exp.Subquery, exp.Exists), "a subquery"),
    **dict.fromkeys((exp.Case, exp.If), "CASE"),
    **dict.fromkeys((exp.Like, exp.ILike), "LIKE"),
    exp.Cast: "CAST",
    exp.Window: "a window function",
    exp.Anonymous: "a function",
    exp.Column: "a column",
    exp.Literal: "a constant",
    exp.Star: "*",
    **dict.fromkeys((exp.LT, exp.LTE, exp.EQ, exp.NEQ, exp.GTE, exp.GT), "a comparison"),
    exp.And: "AND",
    exp.Or: "OR",
    exp.Not: "NOT",
    exp.Concat: "two texts in a row",
}


def locate_node(parse: Callable[Concatenate[Node, Options], Result]) -> Callable[Concatenate[Node, Options], Result]:
    """Let the errors of a function that parses a node say where that is, unless they know a smaller part."""

    @wraps(parse)
    def parse_located(node: Node, /, *args: Options.args, **kwargs: Options.kwargs) -> Result:
        try:
            return parse(node, *args, **kwargs)
        except DiscreetError as error:
            error.span = error.span or find_span(node)
            raise

    return parse_located


def find_span(node: object) -> ast.Span | None:
    """Find the characters of the text that a node and all below it were read from."""
    nodes = node.walk() if isinstance(node, exp.Expression) else ()
    spans = [(part.meta["start"], part.meta.get(CLOSE, part.meta["end"]) + 1) for part in nodes if "start" in part.meta]
    return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None


def find_name_span(node: exp.Anonymous) -> ast.Span | None:
    """Find the name of a call, without its arguments."""
    return (node.meta["start"], node.meta["end"] + 1) if "start" in node.meta else None


def check_node_parts(node: exp.Expression, *parts: str) -> None:
    """Refuse a node that says more than these parts."""
    for name, value in node.args.items():
        if value and name not in parts:
            part = name.strip("_")
            with locate_errors(find_span(value)):
                raise build_unsupported_error(PART_NOUNS.get(part, part))


def build_node_error(node: object, expected: str) -> InvalidInput:
    """Build the error for a node of another kind than expected."""
    if isinstance(node, exp.Anonymous) and (word := str(node.this).upper()) not in CALLABLE_FUNCTIONS:
        error = build_unsupported_error(word) if word in SQL_ADVICE else build_unknown_function_error(word)
        error.span = find_name_span(node)
        return error
    noun = NODE_NOUNS.get(type(node), "another expression")  # type: ignore[arg-type]
    if isinstance(node, exp.Literal) and node.is_string:
        noun = "a text"
    hint = ""
    if (expected, noun) == ("a constant", "a column"):
        hint = "; a text is written in single quotes, like 'F', and two columns cannot be compared"
    elif (expected, noun) == ("a column", "a constant"):
        hint = "; a condition compares a column with a constant, like age > 30"
    elif isinstance(node, exp.Star):
        hint = "; rows are never shown, ask for an aggregate such as COUNT(*)"
    elif noun in SQL_ADVICE:
        hint = f"; {SQL_ADVICE[noun]}"
    return InvalidInput(f"{expected} is allowed here, not {noun}{hint}", code="unsupported-sql")


def build_unsupported_error(word: str) -> InvalidInput:
    """Build the refusal of a word of SQL that questions do not have, with what to write in its place."""
    advice = SQL_ADVICE.get(word) or SQL_ADVICE.get(word.upper(), f"a question is {QUESTION_SHAPE}")
    name = word[:40] if word in SQL_ADVICE else word[:40].upper()
    return InvalidInput(f"{name} is not supported here; {advice}", code="unsupported-sql")


def strip_brackets(node: exp.Expression) -> exp.Expression:
    """Strip the brackets around a node."""
    while isinstance(node, exp.Paren):
        check_node_parts(node, "this")
        node = node.this
    return node


@locate_node
def parse_name(node: exp.Expression) -> ast.QualifiedName:
    """Parse a column, with its table or without."""
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
        raise build_node_error(node, "a column")
    check_node_parts(node, "this", "table")
    return ast.QualifiedName(node.name, node.table, find_span(node), find_span(node.args.get("table")))


@locate_node
def parse_output(node: exp.Expression) -> ast.QualifiedName | ast.FunctionCall:
    """Parse an entry of a SELECT list: an aggregate, a column or BIN."""
    node = strip_brackets(node)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return parse_name(node)
    if isinstance(node, exp.Anonymous):
        return _parse_call(node)
    raise build_node_error(node, "an aggregate, a column or BIN(x, width)")


@locate_node
def _parse_call(node: exp.Anonymous) -> ast.FunctionCall:
    """A function of a column, or of *, and numbers."""
    check_node_parts(node, "this", "expressions")
    function = str(node.this).upper()
    if not node.expressions:
        raise InvalidInput(f"{function[:40]} needs a column, such as AVG(age); only COUNT takes *", code="syntax")
    if function not in CALLABLE_FUNCTIONS:
        raise build_node_error(node, "an aggregate")
    first, *arguments = node.expressions
    numbers = tuple(parse_number(part) for part in arguments)
    number_spans = tuple(map(find_span, arguments))
    if isinstance(first, exp.Star):
        check_node_parts(first)
        return ast.FunctionCall(function, None, numbers, span=find_span(node), number_spans=number_spans)
    if isinstance(first, exp.Distinct):
        check_node_parts(first, "expressions")
        if function != "COUNT" or len(first.expressions) != 1:
            raise InvalidInput(
                "DISTINCT stands in COUNT(DISTINCT unit) only, with the column that names the units; leave it out",
                code="unsupported-sql",
            )
        function, first = "COUNT_DISTINCT", first.expressions[0]
    column = parse_name(strip_brackets(first))
    return ast.FunctionCall(function, column, numbers, span=find_span(node), number_spans=number_spans)


@locate_node
def parse_constant(node: exp.Expression) -> ast.Constant:
    """Parse a number, a text, a date, TRUE, FALSE or NULL."""
    node = strip_brackets(node)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    if isinstance(node, exp.Cast):
        return _parse_date(node)
    return parse_number(node, "a constant")


@locate_node
def _parse_date(node: exp.Cast) -> date:
    check_node_parts(node, "this", "to")
    text = node.this
    if not (node.to.this == exp.DataType.Type.DATE and isinstance(text, exp.Literal) and text.is_string):
        raise build_node_error(node, "DATE '2024-02-29'")
    return EPOCH + timedelta(days=parse_days(str(text.this), "a constant after DATE"))


@locate_node
def parse_number(node: exp.Expression, expected: str = "a number") -> Fraction:
    """Parse a number by its digits, with any signs before it."""
    sign = 1
    node = strip_brackets(node)
    while isinstance(node, exp.Neg):
        check_node_parts(node, "this")
        sign, node = -sign, strip_brackets(node.this)
    if not isinstance(node, exp.Literal) or node.is_string:
        raise build_node_error(node, expected)
    return sign * parse_rational(str(node.this))


CLOSE = "close"
"""Of a call's node: where the parenthesis that closes it stands."""
MAX_JOINS = 8
SELECT_PARTS = ("expressions", "from_", "joins", "where", "group", "having", "order", "limit")
QUESTION_SHAPE = "SELECT ... FROM ... [JOIN ...] [WHERE ...] [GROUP BY ...] [HAVING ...] [ORDER BY ...] [LIMIT ...]"
ONE_BY_ONE = "ask the questions one by one"
NO_SUBQUERY = "write one SELECT, and put conditions on rows into WHERE"
FILTER_ADVICE = "count with a condition by COUNT(*) FILTER (WHERE condition)"
SQL_ADVICE: Mapping[str, str] = {
    **dict.fromkeys(("UNION", "INTERSECT", "EXCEPT"), ONE_BY_ONE),
    **dict.fromkeys(("WITH", "EXISTS", "a subquery"), NO_SUBQUERY),
    **dict.fromkeys(("CASE", "WHEN", "THEN", "ELSE", "IF", "IIF"), FILTER_ADVICE),
    **dict.fromkeys(("LIKE", "ILIKE", "RLIKE", "SIMILAR TO", "REGEXP"), "list the values with IN ('a', 'b')"),
    **dict.fromkeys(("OVER", "WINDOW", "QUALIFY", "PARTITION BY", "a window function"), "use GROUP BY"),
    **dict.fromkeys(("FULL", "RIGHT", "CROSS", "NATURAL"), "a lookup is joined with JOIN or LEFT JOIN"),
    **dict.fromkeys(("YEAR", "MONTH", "DAY", "EXTRACT", "DATE_TRUNC"), "compare dates, as in day >= '2024-01-01'"),
    **dict.fromkeys(("CAST", "TRY_CAST", "::"), "numbers are numbers and dates are dates, as the schema declares them"),
    **dict.fromkeys(("/", "%", "||", "arithmetic"), "ask for the aggregates, and compute with their answers"),
    **dict.fromkeys(("&&", "&"), "write AND"),
    **dict.fromkeys(("!",), "write NOT"),
    **dict.fromkeys(("NULLS FIRST", "NULLS LAST"), "leave it out of ORDER BY"),
    **dict.fromkeys(("?", "$", ":", "@"), "write the constant itself"),
    **dict.fromkeys(("FETCH", "TOP"), "write LIMIT at the end"),
    **dict.fromkeys(("ROW_NUMBER", "RANK", "LAG", "LEAD", "NTILE"), "use GROUP BY"),
    **dict.fromkeys(("GROUPING SETS", "CUBE"), "use GROUP BY ROLLUP (a, b)"),
    "DISTINCT": "rows are never listed, so count by the values of a column with GROUP BY",
    "OFFSET": "write LIMIT alone",
    "FOR": "one unit is asked for by FOR UNIT '...' at the end, in single quotes",
    "a comparison": "write AND between two comparisons",
    "two texts in a row": "write one text, with '' for a quote in it",
    "a name before the table's": "write the table's name alone",
    "a list without parentheses": "write IN (1, 2)",
    "EXPLAIN": "`discreet preview` shows what a question would cost",
}
"""By a word of SQL, or by what people call it: what to write in its place."""
PART_NOUNS: Mapping[str, str] = {
    "db": "a name before the table's",
    "catalog": "a name before the table's",
    "query": "a subquery",
    "field": "a list without parentheses",
    "nulls_first": "NULLS FIRST",
    "joins": "a second table",
    "pivots": "PIVOT",
    "laterals": "LATERAL",
}
"""By the parser's names for parts of its nodes: what people call them."""

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
UNIT_TOKENS = [TokenType.FOR, TokenType.VAR, TokenType.STRING]
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


def parse_tree(text: str) -> tuple[exp.Select, str | None, ast.Span | None]:
    """Parse one SELECT to its tree, and the unit that FOR UNIT names at its end with the place of that clause."""
    tokens, unit, unit_span = _tokenize(text), None, None
    kinds = [token.token_type for token in tokens[-3:]]
    if len(tokens) > 3 and kinds == UNIT_TOKENS and tokens[-2].text.upper() == "UNIT":
        unit_span = (tokens[-3].start, tokens[-1].end + 1)
        tokens, unit = tokens[:-3], tokens[-1].text
    converted_tokens = list(_convert_words(tokens))
    _check_commas(converted_tokens)
    _check_nesting(converted_tokens)
    if sum(token.token_type == TokenType.JOIN for token in converted_tokens) > MAX_JOINS:
        joins = [token for token in converted_tokens if token.token_type == TokenType.JOIN]
        raise _refuse_token(
            joins[MAX_JOINS], f"a question joins at most {MAX_JOINS} lookups; leave some out", "invalid-input"
        )
    try:
        trees = _SqlParser().parse(converted_tokens, text)
    except ParseError as error:
        raise _build_syntax_error(error, converted_tokens) from None
    except (SqlglotError, RecursionError):
        raise InvalidInput(f"the SQL cannot be read; write {QUESTION_SHAPE}", code="syntax") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Select):
        raise InvalidInput(f"the SQL is not one question; write {QUESTION_SHAPE}", code="syntax")
    _note_places(trees[0], converted_tokens)
    return trees[0], unit, unit_span


def _note_places(tree: exp.Select, tokens: Sequence[Token]) -> None:
    """Note where calls end and negative numbers begin: the parser keeps the places of names and constants only."""
    closings: dict[int, int] = {}
    openings: list[int] = []
    for index, token in enumerate(tokens):
        if token.token_type == TokenType.L_PAREN:
            openings.append(index)
        elif token.token_type == TokenType.R_PAREN and openings:
            closings[openings.pop()] = index
    indexes = {token.start: index for index, token in enumerate(tokens)}
    for node in tree.find_all(exp.Anonymous, exp.Literal):
        index = indexes.get(node.meta.get("start", -1), 0)
        before = tokens[index - 1]
        if isinstance(node, exp.Anonymous) and index + 1 in closings:
            closing = closings[index + 1]
            following = [token.token_type for token in tokens[closing + 1 : closing + 4]]
            has_filter = isinstance(node.parent, exp.Filter) and following == FILTER_TOKENS
            node.meta[CLOSE] = tokens[closings.get(closing + 2, closing) if has_filter else closing].end
        elif isinstance(node.parent, exp.Neg) and before.token_type == TokenType.DASH:
            node.meta["start"] = before.start


def _build_syntax_error(error: ParseError, tokens: Sequence[Token]) -> InvalidInput:
    """Say where the parser stopped; its own words stay inside."""
    details = error.errors[0] if error.errors else {}
    place = (details.get("line"), details.get("col"))
    index = next((index for index, token in enumerate(tokens) if (token.line, token.col) == place), len(tokens) - 1)
    token = tokens[index]
    previous_kinds = [previous.token_type for previous in tokens[max(0, index - 3) : index]]
    name = token.text[:40].upper() if token.token_type in KEYWORD_TOKENS - END_TOKENS else repr(token.text[:40])
    if TokenType.BETWEEN in previous_kinds:
        return _refuse_token(token, "BETWEEN takes two constants; write BETWEEN 10 AND 20")
    if index == len(tokens) - 1 and token.token_type not in END_TOKENS:
        return _refuse_token(token, f"the SQL ends too early; write what follows {name}, or remove {name}")
    return _refuse_token(token, f"the SQL cannot be read from {name} on; a question is {QUESTION_SHAPE}")


def _refuse_token(token: Token, message: str, code: ErrorCode = "syntax") -> InvalidInput:
    """Build a refusal about one token of the text."""
    refusal = InvalidInput(message, code=code)
    refusal.span = (token.start, token.end + 1)
    return refusal


def _tokenize(text: str) -> list[Token]:
    """The tokens of one statement that begins with SELECT."""
    if len(text) > ast.MAX_TEXT_LENGTH:
        raise InvalidInput(f"a question has at most {ast.MAX_TEXT_LENGTH} characters, got {len(text)}; shorten it")
    unwritable = re.search("[\0\ud800-\udfff]", text)
    with locate_errors(None if unwritable is None else unwritable.span()):
        check_question_text(text)
    try:
        tokens = Tokenizer().tokenize(text)
    except SqlglotError:
        refusal = InvalidInput("a quote or a comment is not closed; close it", code="syntax")
        refusal.span = (_find_open_quote(text), len(text))
        raise refusal from None
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if len(tokens) > ast.MAX_TOKENS:
        raise InvalidInput(f"a question has at most {ast.MAX_TOKENS} words and signs, got {len(tokens)}; shorten it")
    if not tokens:
        raise InvalidInput(f"the question is empty; write {QUESTION_SHAPE}", code="syntax")
    if tokens[0].token_type != TokenType.SELECT:
        word = tokens[0].text.upper()
        advice = SQL_ADVICE.get(word, f"write {QUESTION_SHAPE}")
        raise _refuse_token(tokens[0], f"a question begins with SELECT, not with {word[:40]!r}; {advice}")
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            raise _refuse_token(token, f"there are two statements; {ONE_BY_ONE}")
    return tokens


def _find_open_quote(text: str) -> int:
    """Find the quote or comment that is never closed: the first from which the rest cannot be read."""
    start = 0
    for match in re.finditer(
        r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|(['\"`]|/\*)", text, re.DOTALL
    ):
        if match[1]:
            return match.start()
        start = match.end()
    return start


def _convert_words(tokens: Sequence[Token]) -> Iterator[Token]:
    """Words outside the grammar become names where a name can stand; signs outside it are refused."""
    previous_kind = TokenType.SELECT
    kinds = [token.token_type for token in tokens]
    for index, token in enumerate(tokens):
        kind = token.token_type
        is_filter = previous_kind == TokenType.R_PAREN and kinds[index : index + 3] == FILTER_TOKENS
        _check_known_mistakes(tokens, index)
        if token.text.upper() in {"GROUP", "ORDER"} and kind == TokenType.VAR and previous_kind in END_TOKENS:
            raise _refuse_token(token, f"{token.text.upper()} is written {token.text.upper()} BY")
        if kind not in GRAMMAR_TOKENS and not is_filter:
            if previous_kind in END_TOKENS or kind not in KEYWORD_TOKENS or not token.text.isidentifier():
                if kind == TokenType.FILTER:
                    raise _refuse_token(token, "FILTER is written FILTER (WHERE condition), right after a count")
                raise _refuse_word(tokens, index)
            kind = TokenType.VAR
        yield Token(kind, token.text, token.line, token.col, token.start, token.end)
        previous_kind = kind


def _check_known_mistakes(tokens: Sequence[Token], index: int) -> None:
    """Refuse what the parser would misread, or refuse at another place than where the mistake is."""
    token, previous = tokens[index], tokens[max(0, index - 1)]
    kind, next_kinds = token.token_type, [following.token_type for following in tokens[index + 1 : index + 3]]
    if kind == TokenType.SELECT and index:
        raise _refuse_token(token, str(build_unsupported_error("a subquery")), "unsupported-sql")
    if kind == TokenType.SELECT and next_kinds[:1] == [TokenType.FROM]:
        raise _refuse_token(token, "the SELECT list is empty; ask for an aggregate such as COUNT(*)")
    if kind == TokenType.DISTINCT and previous.token_type == TokenType.SELECT:
        raise _refuse_word(tokens, index)
    if previous.text.upper() == "NULLS" and token.text.upper() in {"FIRST", "LAST"}:
        refusal = build_unsupported_error(f"NULLS {token.text}")
        refusal.span = (previous.start, token.end + 1)
        raise refusal
    if token.text.upper() == "TOP" and previous.token_type == TokenType.SELECT and next_kinds[:1] == [TokenType.NUMBER]:
        raise _refuse_word(tokens, index)
    if kind == TokenType.VAR and previous.token_type == TokenType.NUMBER and previous.end + 1 == token.start:
        number = f"{previous.text}{token.text}"
        refusal = InvalidInput(f"{number[:40]!r} is not a number; write one like 10, -0.5 or 1e3", code="syntax")
        refusal.span = (previous.start, token.end + 1)
        raise refusal
    if kind == TokenType.IN and next_kinds == [TokenType.L_PAREN, TokenType.R_PAREN]:
        refusal = InvalidInput("IN takes a list of at least one constant, such as x IN (1, 2)", code="syntax")
        refusal.span = (tokens[index + 1].start, tokens[index + 2].end + 1)
        raise refusal


def _refuse_word(tokens: Sequence[Token], index: int) -> InvalidInput:
    """Refuse a word outside the grammar; WHEN is found before the CASE that it belongs to."""
    token, word, first = tokens[index], tokens[index].text, tokens[index]
    if word.upper() in {"WHEN", "THEN", "ELSE", "END"}:
        cases = [earlier for earlier in tokens[:index] if earlier.token_type == TokenType.CASE]
        first, word = (cases[-1], "CASE") if cases else (token, word)
    refusal = build_unsupported_error(word)
    refusal.span = (first.start, token.end + 1)
    return refusal


def _check_commas(tokens: Sequence[Token]) -> None:
    """A comma stands between two entries; the parser would pass over an entry that is not there."""
    kinds = [token.token_type for token in tokens]
    following = [*kinds[2:], TokenType.FROM]
    for previous_kind, token, next_kind in zip(kinds, tokens[1:], following, strict=False):
        is_between = previous_kind in END_TOKENS | ORDER_TOKENS and next_kind in VALUE_TOKENS | OPENING_TOKENS
        if token.token_type == TokenType.COMMA and not is_between:
            raise _refuse_token(token, "the comma has no entry before or after it; remove it or add the entry")


def _check_nesting(tokens: Sequence[Token]) -> None:
    """What stands before a value nests too: NOT NOT x, and - - 1."""
    floors, calls, depth, openings, previous = [0], [False], 0, list[Token](), tokens[0]
    for token in tokens:
        kind = token.token_type
        if kind == TokenType.L_PAREN:
            if calls[-1]:
                raise _refuse_inner_call(tokens, openings[-1], token)
            depth += 1
            floors.append(depth)
            calls.append(previous.token_type in CALL_TOKENS and previous.text.upper() != "ROLLUP")
            openings.append(token)
        elif kind == TokenType.FILTER and depth:
            raise _refuse_token(token, "FILTER (WHERE ...) stands right after a count, outside all other parentheses")
        elif kind == TokenType.R_PAREN:
            if not openings:
                raise _refuse_token(token, "this parenthesis closes none; remove it, or add the one that opens")
            openings.pop()
            floors.pop()
            calls.pop()
            depth = floors[-1]
        else:
            is_value = kind in VALUE_TOKENS or previous.token_type in END_TOKENS
            depth = floors[-1] if is_value else depth + 1
        if depth > ast.MAX_NESTING:
            raise _refuse_token(token, f"parentheses, NOT and minus nest at most {ast.MAX_NESTING} deep; flatten them")
        previous = token
    if openings:
        raise _refuse_token(openings[-1], "this parenthesis is not closed; add the one that closes it")


def _refuse_inner_call(tokens: Sequence[Token], opening: Token, inner: Token) -> InvalidInput:
    """Refuse a parenthesis within a call or a list; a call that is never supported is itself the mistake."""
    caller, before = tokens[tokens.index(opening) - 1], tokens[tokens.index(inner) - 1]
    if caller.text.upper() in SQL_ADVICE:
        return _refuse_token(caller, str(build_unsupported_error(caller.text)), "unsupported-sql")
    message = "calls and lists cannot contain parentheses; a call takes a column and numbers"
    refusal = InvalidInput(message, code="unsupported-sql")
    refusal.span = (before.start if before.token_type == TokenType.VAR else inner.start, inner.end + 1)
    return refusal


COMPARISONS: Mapping[type[exp.Expression], tuple[Comparison, Comparison]] = {
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.EQ: ("=", "="),
    exp.NEQ: ("<>", "<>"),
    exp.GTE: (">=", "<="),
    exp.GT: (">", "<"),
}
"""Each comparison as it is written, and with its two sides exchanged."""


def parse_select(text: str) -> ast.ParsedQuestion:
    """Parse a question from SQL text; it is not yet resolved against a schema."""
    tree, unit, unit_span = parse_tree(text)
    check_node_parts(tree, *SELECT_PARTS)
    source = tree.args.get("from_")
    if source is None:
        last = tree.expressions[-1] if tree.expressions else None
        with locate_errors(find_span(last.args["alias"] if isinstance(last, exp.Alias) else last)):
            raise InvalidInput("the question has no FROM; write FROM and the table's name after this", code="syntax")
    check_node_parts(source, "this")
    table, alias = _parse_table(source.this)
    return ast.ParsedQuestion(
        table=table,
        alias=alias,
        items=tuple(_parse_item(node) for node in tree.expressions),
        joins=tuple(_parse_join(node) for node in tree.args.get("joins") or ()),
        where=_parse_where(tree.args.get("where")),
        group=_parse_group(tree.args.get("group")),
        rollup=_is_rollup(tree.args.get("group")),
        having=_parse_having(tree.args.get("having")),
        order=_parse_order_by(tree.args.get("order")),
        limit=_parse_limit(tree.args.get("limit")),
        limit_span=find_span(tree.args.get("limit")),
        unit=unit,
        unit_span=unit_span,
        span=find_span(source),
        item_spans=tuple(map(find_span, tree.expressions)),
        group_spans=tuple(map(find_span, _list_group_parts(tree.args.get("group")))),
        order_spans=tuple(find_span(node) for node in tree.args["order"].expressions) if tree.args.get("order") else (),
    )


@locate_node
def _parse_table(node: exp.Expression) -> tuple[str, str]:
    """The name of a table, and what it is called in the question."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise InvalidInput(
            "FROM and JOIN take the table and its lookups by name, and nothing else", code="unsupported-sql"
        )
    check_node_parts(node, "this", "alias")
    alias = node.args.get("alias")
    if alias is not None:
        check_node_parts(alias, "this")
    return node.this.name, "" if alias is None else alias.name


@locate_node
def _parse_item(node: exp.Expression) -> ast.SelectItem:
    if not isinstance(node, exp.Alias):
        return ast.SelectItem(_parse_filtered_output(node))
    check_node_parts(node, "this", "alias")
    return ast.SelectItem(_parse_filtered_output(node.this), node.alias, find_span(node.args["alias"]))


@locate_node
def _parse_filtered_output(node: exp.Expression) -> ast.QualifiedName | ast.FunctionCall:
    """What can stand in a SELECT list; a call may have a FILTER (WHERE ...)."""
    node = strip_brackets(node)
    if not isinstance(node, exp.Filter):
        return parse_output(node)
    check_node_parts(node, "this", "expression")
    call = parse_output(node.this)
    if not isinstance(call, ast.FunctionCall):
        raise InvalidInput("FILTER (WHERE ...) stands after a count, such as COUNT(*)", code="unsupported-sql")
    return replace(call, where=_parse_where(node.expression))


@locate_node
def _parse_join(node: exp.Join) -> ast.Join:
    """[LEFT] JOIN lookup ON one column = another, or USING one column."""
    check_node_parts(node, "this", "side", "kind", "on", "using")
    lookup, alias = _parse_table(node.this)
    shape = f"{node.side} {node.kind}".strip().upper()
    on, using = node.args.get("on"), node.args.get("using") or []
    if shape not in {"", "INNER", "LEFT", "LEFT OUTER"} or (on is None) == (len(using) != 1):
        message = "a lookup is joined with JOIN or LEFT JOIN, and ON registry.key = lookup.key or USING (key)"
        raise InvalidInput(message, code="unsupported-sql")
    if on is None:
        names = [ast.QualifiedName(using[0].name, span=find_span(using[0]))]
    elif isinstance(equality := strip_brackets(on), exp.EQ):
        names = [parse_name(strip_brackets(side)) for side in (equality.this, equality.expression)]
    else:
        with locate_errors(find_span(on)):
            raise InvalidInput("ON takes one equality, such as ON registry.key = lookup.key", code="unsupported-sql")
    return ast.Join(lookup, "left" if "LEFT" in shape else "inner", alias, tuple(names), find_span(node.this))


@locate_node
def _parse_where(node: exp.Expression | None) -> ast.Condition:
    if node is None:
        return True
    check_node_parts(node, "this")
    return _parse_condition(node.this)


@locate_node
def _parse_condition(node: exp.Expression) -> ast.Condition:
    """A condition; chains of AND and OR are walked, not descended, so the depth is that of the brackets."""
    node = strip_brackets(node)
    match node:
        case exp.And():
            return ast.And(tuple(_parse_condition(part) for part in _list_chain(node)))
        case exp.Or():
            return ast.Or(tuple(_parse_condition(part) for part in _list_chain(node)))
        case exp.Not():
            check_node_parts(node, "this")
            return ast.Not(_parse_condition(node.this))
        case exp.Boolean():
            return bool(node.this)
        case exp.Null():
            return None
        case exp.Between():
            check_node_parts(node, "this", "low", "high")
            column = parse_name(strip_brackets(node.this))
            low, high = node.args["low"], node.args["high"]
            lower_bound = ast.Compare(column, ">=", parse_constant(low), find_span(low))
            return ast.And((lower_bound, ast.Compare(column, "<=", parse_constant(high), find_span(high))))
        case exp.In():
            return _parse_in(node)
        case exp.Is():
            return _parse_is(node)
        case exp.Column():
            return ast.Compare(parse_name(node), "=", True, find_span(node))
    if type(node) not in COMPARISONS:
        raise build_node_error(node, "a comparison of a column with a constant")
    left, right, comparison, mirrored = _split_comparison(node)
    if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
        return ast.Compare(parse_name(right), mirrored, parse_constant(left), find_span(left))
    return ast.Compare(parse_name(left), comparison, parse_constant(right), find_span(right))


def _split_comparison(node: exp.Expression) -> tuple[exp.Expression, exp.Expression, Comparison, Comparison]:
    """Both sides, and what they are compared by from left to right and from right to left."""
    check_node_parts(node, "this", "expression")
    return strip_brackets(node.this), strip_brackets(node.expression), *COMPARISONS[type(node)]


def _list_chain(node: exp.Expression) -> list[exp.Expression]:
    """The parts of a chain of one connective, in order."""
    kind, parts = type(node), []
    while type(node) is kind:
        check_node_parts(node, "this", "expression")
        parts.append(node.expression)
        node = node.this
    return [node, *reversed(parts)]


@locate_node
def _parse_in(node: exp.In) -> ast.Condition:
    check_node_parts(node, "this", "expressions")
    constants = tuple(parse_constant(part) for part in node.expressions)
    return ast.InList(parse_name(strip_brackets(node.this)), constants, tuple(map(find_span, node.expressions)))


@locate_node
def _parse_is(node: exp.Is) -> ast.Condition:
    check_node_parts(node, "this", "expression")
    value = node.expression
    if not isinstance(value, exp.Null | exp.Boolean):
        with locate_errors(find_span(value)):
            raise InvalidInput("IS takes NULL, TRUE or FALSE, or NOT and one of them; compare values with =")
    return ast.IsCheck(parse_name(strip_brackets(node.this)), None if isinstance(value, exp.Null) else bool(value.this))


@locate_node
def _parse_output_reference(node: exp.Expression) -> ast.OutputReference:
    """An output, by its place from 1, its name or its expression."""
    if isinstance(node, exp.Literal):
        return as_int(parse_number(node), "a place in the SELECT list")
    return _parse_filtered_output(node)


@locate_node
def _parse_group(node: exp.Expression | None) -> tuple[ast.OutputReference, ...]:
    if node is None:
        return ()
    check_node_parts(node, "expressions")
    return tuple(_parse_output_reference(strip_brackets(part)) for part in _list_group_parts(node))


def _list_group_parts(node: exp.Expression | None) -> list[exp.Expression]:
    if node is None:
        return []
    return list(node.expressions[0].expressions if _is_rollup(node) else node.expressions)


def _is_rollup(node: exp.Expression | None) -> bool:
    """GROUP BY ROLLUP (a, b), and nothing beside it."""
    parts = [] if node is None else node.expressions
    return len(parts) == 1 and isinstance(parts[0], exp.Anonymous) and str(parts[0].this).upper() == "ROLLUP"


@locate_node
def _parse_having(node: exp.Expression | None) -> tuple[ast.HavingBound, ...]:
    if node is None:
        return ()
    check_node_parts(node, "this")
    parts = [strip_brackets(node.this)]
    having_bounds: list[ast.HavingBound] = []
    while parts:
        part = parts.pop()
        if isinstance(part, exp.And):
            parts += [strip_brackets(inner) for inner in reversed(_list_chain(part))]
        else:
            having_bounds.append(_parse_bound(part))
    return tuple(having_bounds)


@locate_node
def _parse_bound(node: exp.Expression) -> ast.HavingBound:
    if type(node) not in COMPARISONS:
        raise build_node_error(node, "a comparison of an aggregate with a number, and AND between several of them,")
    left, right, comparison, mirrored = _split_comparison(node)
    if isinstance(left, exp.Column | exp.Anonymous | exp.Filter):
        return ast.HavingBound(_parse_filtered_output(left), comparison, parse_number(right))
    return ast.HavingBound(_parse_filtered_output(right), mirrored, parse_number(left))


@locate_node
def _parse_order_by(node: exp.Expression | None) -> tuple[tuple[ast.OutputReference, bool], ...]:
    if node is None:
        return ()
    check_node_parts(node, "expressions")
    order = []
    for item in node.expressions:
        check_node_parts(item, "this", "desc", "nulls_first")
        is_descending = bool(item.args.get("desc"))
        # The parser fills in nulls_first; only what was written otherwise differs from this.
        if bool(item.args.get("nulls_first")) is is_descending:
            raise build_unsupported_error("NULLS FIRST")
        order.append((_parse_output_reference(strip_brackets(item.this)), is_descending))
    return tuple(order)


@locate_node
def _parse_limit(node: exp.Expression | None) -> Fraction | None:
    if node is None:
        return None
    check_node_parts(node, "expression")
    return parse_number(node.expression)
