"""From SQL text to a syntax tree of our own; everything that is not known by name is refused.

A word outside our grammar is a name, unless it stands right after a name or a value, where it would be read as an
alias: there it is refused, so that FULL JOIN is not read as JOIN. Brackets do not open within a call or a list: on
nested calls the parser takes twice as long with every level.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from typing import Any, ClassVar

from sqlglot import ParseError, Parser, Token, Tokenizer, TokenType, exp
from sqlglot.errors import SqlglotError

from discreet.errors import InvalidInput
from discreet.numeric import EPOCH, as_int, parse_days, parse_rational
from discreet.query import ast
from discreet.query.query import Comparison, check_question_text
from discreet.query.resolve import CALLABLE_FUNCTIONS, build_unknown_function_error

NODE_NOUNS: Mapping[type[exp.Expression], str] = {
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Neg), "arithmetic"),
    **dict.fromkeys((exp.Select, exp.Subquery), "a question within a question"),
    exp.Anonymous: "a function",
    exp.Column: "a column",
    exp.Literal: "a constant",
    exp.Star: "*",
}


def check_node_parts(node: exp.Expression, *parts: str) -> None:
    """Refuse a node that says more than these parts."""
    extra_parts = [name.strip("_") for name, value in node.args.items() if value and name not in parts]
    if extra_parts:
        raise InvalidInput(f"{extra_parts[0].upper()!r} has no place in a question; {QUESTION_SHAPE}")


def build_node_error(node: object, expected: str) -> InvalidInput:
    """Build the error for a node of another kind than expected."""
    noun = NODE_NOUNS.get(type(node), "something else")  # type: ignore[arg-type]
    if isinstance(node, exp.Literal) and node.is_string:
        noun = "a text"
    is_unquoted = (expected, noun) == ("a constant", "a column")
    hint = "a text is written in single quotes, like 'F'" if is_unquoted else QUESTION_SHAPE
    return InvalidInput(f"{expected} is allowed here, not {noun}; {hint}")


def strip_brackets(node: exp.Expression) -> exp.Expression:
    """Strip the brackets around a node."""
    while isinstance(node, exp.Paren):
        check_node_parts(node, "this")
        node = node.this
    return node


def parse_name(node: exp.Expression) -> ast.QualifiedName:
    """Parse a column, with its table or without."""
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
        raise build_node_error(node, "a column")
    check_node_parts(node, "this", "table")
    return ast.QualifiedName(node.name, node.table)


def parse_output(node: exp.Expression) -> ast.QualifiedName | ast.FunctionCall:
    """Parse an entry of a SELECT list: an aggregate, a column or BIN."""
    node = strip_brackets(node)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return parse_name(node)
    if isinstance(node, exp.Anonymous):
        return _parse_call(node)
    raise build_node_error(node, "an aggregate, a column or BIN(x, width)")


def _parse_call(node: exp.Anonymous) -> ast.FunctionCall:
    """A function of a column, or of *, and numbers."""
    check_node_parts(node, "this", "expressions")
    function = str(node.this).upper()
    if not node.expressions:
        raise InvalidInput(f"{function[:40]!r} needs a column, or * for COUNT")
    if function not in CALLABLE_FUNCTIONS:
        raise build_unknown_function_error(function)
    first, *arguments = node.expressions
    numbers = tuple(parse_number(part) for part in arguments)
    if isinstance(first, exp.Star):
        check_node_parts(first)
        return ast.FunctionCall(function, None, numbers)
    if isinstance(first, exp.Distinct):
        check_node_parts(first, "expressions")
        if function != "COUNT" or len(first.expressions) != 1:
            raise InvalidInput("DISTINCT is for COUNT(DISTINCT unit) only, with the column that names the units")
        function, first = "COUNT_DISTINCT", first.expressions[0]
    return ast.FunctionCall(function, parse_name(strip_brackets(first)), numbers)


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


def _parse_date(node: exp.Cast) -> date:
    check_node_parts(node, "this", "to")
    text = node.this
    if not (node.to.this == exp.DataType.Type.DATE and isinstance(text, exp.Literal) and text.is_string):
        raise build_node_error(node, "DATE '2024-02-29'")
    return EPOCH + timedelta(days=parse_days(str(text.this), "a constant after DATE"))


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


MAX_JOINS = 8
SELECT_PARTS = ("expressions", "from_", "joins", "where", "group", "having", "order", "limit")
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


def parse_tree(text: str) -> tuple[exp.Select, str | None]:
    """Parse one SELECT to its tree, and the unit that FOR UNIT names at its end."""
    tokens, unit = _tokenize(text), None
    kinds = [token.token_type for token in tokens[-3:]]
    if len(tokens) > 3 and kinds == UNIT_TOKENS and tokens[-2].text.upper() == "UNIT":
        tokens, unit = tokens[:-3], tokens[-1].text
    converted_tokens = list(_convert_words(tokens))
    _check_commas(converted_tokens)
    _check_nesting(converted_tokens)
    if sum(token.token_type == TokenType.JOIN for token in converted_tokens) > MAX_JOINS:
        raise InvalidInput(f"a question joins at most {MAX_JOINS} lookups")
    try:
        trees = _SqlParser().parse(converted_tokens, text)
    except ParseError as error:  # where the parser stopped; its own words stay inside
        details = error.errors[0] if error.errors else {}
        highlight = str(details.get("highlight") or "")
        where = f" near {highlight[:40]!r}, line {details.get('line')}" if highlight else ""
        raise InvalidInput(f"the SQL cannot be read{where}; {QUESTION_SHAPE}") from None
    except (SqlglotError, RecursionError):
        raise InvalidInput(f"the SQL cannot be read; {QUESTION_SHAPE}") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Select):
        raise InvalidInput(f"the SQL cannot be read as one question; {QUESTION_SHAPE}")
    return trees[0], unit


def _tokenize(text: str) -> list[Token]:
    """The tokens of one statement that begins with SELECT."""
    if len(text) > ast.MAX_TEXT_LENGTH:
        raise InvalidInput(f"a question has at most {ast.MAX_TEXT_LENGTH} characters, got {len(text)}; shorten it")
    check_question_text(text)
    try:
        tokens = Tokenizer().tokenize(text)
    except SqlglotError:
        raise InvalidInput("the SQL has a quote or a comment that is not closed; close it") from None
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if len(tokens) > ast.MAX_TOKENS:
        raise InvalidInput(f"a question has at most {ast.MAX_TOKENS} words and signs, got {len(tokens)}; shorten it")
    if not tokens or tokens[0].token_type != TokenType.SELECT:
        raise InvalidInput(f"a question begins with SELECT; {QUESTION_SHAPE}")
    if any(token.token_type == TokenType.SEMICOLON for token in tokens):
        raise InvalidInput("there are two statements; ask one question at a time")
    return tokens


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
        is_between = previous_kind in END_TOKENS | ORDER_TOKENS and next_kind in VALUE_TOKENS | OPENING_TOKENS
        if kind == TokenType.COMMA and not is_between:
            raise InvalidInput(f"a comma has no entry before or after it; {QUESTION_SHAPE}")


def _check_nesting(tokens: Sequence[Token]) -> None:
    """What stands before a value nests too: NOT NOT x, and - - 1."""
    floors, calls, depth, previous_kind, word = [0], [False], 0, TokenType.SELECT, ""
    for token in tokens:
        kind = token.token_type
        if kind == TokenType.L_PAREN:
            if calls[-1]:
                where = f"at line {token.line}"
                raise InvalidInput(f"a bracket cannot open within a call or a list, {where}; {QUESTION_SHAPE}")
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
        if depth > ast.MAX_NESTING:
            raise InvalidInput(f"brackets, NOT and minus nest at most {ast.MAX_NESTING} deep; flatten the question")
        previous_kind, word = kind, token.text.upper()


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
    tree, unit = parse_tree(text)
    check_node_parts(tree, *SELECT_PARTS)
    source = tree.args.get("from_")
    if source is None:
        raise InvalidInput(f"the question has no FROM; {QUESTION_SHAPE}")
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
        unit=unit,
    )


def _parse_table(node: exp.Expression) -> tuple[str, str]:
    """The name of a table, and what it is called in the question."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise InvalidInput(f"FROM and JOIN take the table and its lookups by name, nothing else; {QUESTION_SHAPE}")
    check_node_parts(node, "this", "alias")
    alias = node.args.get("alias")
    if alias is not None:
        check_node_parts(alias, "this")
    return node.this.name, "" if alias is None else alias.name


def _parse_item(node: exp.Expression) -> ast.SelectItem:
    if not isinstance(node, exp.Alias):
        return ast.SelectItem(_parse_filtered_output(node))
    check_node_parts(node, "this", "alias")
    return ast.SelectItem(_parse_filtered_output(node.this), node.alias)


def _parse_filtered_output(node: exp.Expression) -> ast.QualifiedName | ast.FunctionCall:
    """What can stand in a SELECT list; a call may have a FILTER (WHERE ...)."""
    node = strip_brackets(node)
    if not isinstance(node, exp.Filter):
        return parse_output(node)
    check_node_parts(node, "this", "expression")
    call = parse_output(node.this)
    if not isinstance(call, ast.FunctionCall):
        raise InvalidInput("FILTER (WHERE ...) stands after a count, such as COUNT(*)")
    return replace(call, where=_parse_where(node.expression))


def _parse_join(node: exp.Join) -> ast.Join:
    """[LEFT] JOIN lookup ON one column = another, or USING one column."""
    check_node_parts(node, "this", "side", "kind", "on", "using")
    lookup, alias = _parse_table(node.this)
    shape = f"{node.side} {node.kind}".strip().upper()
    on, using = node.args.get("on"), node.args.get("using") or []
    if shape not in {"", "INNER", "LEFT", "LEFT OUTER"} or (on is None) == (len(using) != 1):
        raise InvalidInput("a lookup is joined with JOIN or LEFT JOIN, and ON registry.key = lookup.key or USING (key)")
    if on is None:
        names = [ast.QualifiedName(using[0].name)]
    elif isinstance(equality := strip_brackets(on), exp.EQ):
        names = [parse_name(strip_brackets(side)) for side in (equality.this, equality.expression)]
    else:
        raise InvalidInput("ON takes one equality, such as ON registry.key = lookup.key")
    return ast.Join(lookup, "left" if "LEFT" in shape else "inner", alias, tuple(names))


def _parse_where(node: exp.Expression | None) -> ast.Condition:
    if node is None:
        return True
    check_node_parts(node, "this")
    return _parse_condition(node.this)


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
            low, high = (parse_constant(node.args[end]) for end in ("low", "high"))
            return ast.And((ast.Compare(column, ">=", low), ast.Compare(column, "<=", high)))
        case exp.In():
            return _parse_in(node)
        case exp.Is():
            return _parse_is(node)
        case exp.Column():
            return ast.Compare(parse_name(node), "=", True)
    if type(node) not in COMPARISONS:
        raise build_node_error(node, "a comparison of a column with a constant")
    left, right, comparison, mirrored = _split_comparison(node)
    if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
        return ast.Compare(parse_name(right), mirrored, parse_constant(left))
    return ast.Compare(parse_name(left), comparison, parse_constant(right))


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


def _parse_in(node: exp.In) -> ast.Condition:
    check_node_parts(node, "this", "expressions")
    if not node.expressions:
        raise InvalidInput("IN takes a list of at least one constant, such as x IN (1, 2)")
    return ast.InList(parse_name(strip_brackets(node.this)), tuple(parse_constant(part) for part in node.expressions))


def _parse_is(node: exp.Is) -> ast.Condition:
    check_node_parts(node, "this", "expression")
    value = node.expression
    if not isinstance(value, exp.Null | exp.Boolean):
        raise InvalidInput("IS takes NULL, TRUE or FALSE, or NOT and one of them")
    return ast.IsCheck(parse_name(strip_brackets(node.this)), None if isinstance(value, exp.Null) else bool(value.this))


def _parse_output_reference(node: exp.Expression) -> ast.OutputReference:
    """An output, by its place from 1, its name or its expression."""
    if isinstance(node, exp.Literal):
        return as_int(parse_number(node), "a place in the SELECT list")
    return _parse_filtered_output(node)


def _parse_group(node: exp.Expression | None) -> tuple[ast.OutputReference, ...]:
    if node is None:
        return ()
    check_node_parts(node, "expressions")
    parts = node.expressions[0].expressions if _is_rollup(node) else node.expressions
    return tuple(_parse_output_reference(strip_brackets(part)) for part in parts)


def _is_rollup(node: exp.Expression | None) -> bool:
    """GROUP BY ROLLUP (a, b), and nothing beside it."""
    parts = [] if node is None else node.expressions
    return len(parts) == 1 and isinstance(parts[0], exp.Anonymous) and str(parts[0].this).upper() == "ROLLUP"


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


def _parse_bound(node: exp.Expression) -> ast.HavingBound:
    if type(node) not in COMPARISONS:
        raise build_node_error(node, "a comparison of an aggregate with a number, and AND between several,")
    left, right, comparison, mirrored = _split_comparison(node)
    if isinstance(left, exp.Column | exp.Anonymous | exp.Filter):
        return ast.HavingBound(_parse_filtered_output(left), comparison, parse_number(right))
    return ast.HavingBound(_parse_filtered_output(right), mirrored, parse_number(left))


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
            raise InvalidInput("NULLS FIRST and NULLS LAST have no place in ORDER BY; leave them out")
        order.append((_parse_output_reference(strip_brackets(item.this)), is_descending))
    return tuple(order)


def _parse_limit(node: exp.Expression | None) -> Fraction | None:
    if node is None:
        return None
    check_node_parts(node, "expression")
    return parse_number(node.expression)
