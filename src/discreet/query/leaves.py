"""The leaves of a syntax tree: names, calls and constants. What is not read by name is refused, never passed over."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from fractions import Fraction

from sqlglot import exp

from discreet.errors import InvalidInput
from discreet.exact import EPOCH, parse_days, parse_rational
from discreet.query.asked import Constant, FunctionCall, QualifiedName
from discreet.query.selected import CALLABLE_FUNCTIONS, build_unknown_function_error
from discreet.query.tokens import QUESTION_SHAPE

NODE_NOUNS: Mapping[type[exp.Expression], str] = {
    exp.Add: "arithmetic",
    exp.Sub: "arithmetic",
    exp.Mul: "arithmetic",
    exp.Neg: "arithmetic",
    exp.Select: "a question within a question",
    exp.Subquery: "a question within a question",
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
    """What to say where another kind of node was wanted."""
    noun = NODE_NOUNS.get(type(node), "something else")  # type: ignore[arg-type]
    if isinstance(node, exp.Literal) and node.is_string:
        noun = "a text"
    hint = (
        "a text is written in single quotes, like 'F'"
        if (expected, noun) == ("a constant", "a column")
        else QUESTION_SHAPE
    )
    return InvalidInput(f"{expected} is allowed here, not {noun}; {hint}")


def strip_brackets(node: exp.Expression) -> exp.Expression:
    """Without the brackets around it."""
    while isinstance(node, exp.Paren):
        check_node_parts(node, "this")
        node = node.this
    return node


def parse_name(node: exp.Expression) -> QualifiedName:
    """A column, with its table or without."""
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
        raise build_node_error(node, "a column")
    check_node_parts(node, "this", "table")
    return QualifiedName(node.name, node.table)


def parse_output(node: exp.Expression) -> QualifiedName | FunctionCall:
    """What can stand in a SELECT list."""
    node = strip_brackets(node)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return parse_name(node)
    if isinstance(node, exp.Anonymous):
        return _parse_call(node)
    raise build_node_error(node, "an aggregate, a column or BIN(x, width)")


def _parse_call(node: exp.Anonymous) -> FunctionCall:
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
        return FunctionCall(function, None, numbers)
    if isinstance(first, exp.Distinct):
        return _parse_distinct(function, first, numbers)
    return FunctionCall(function, parse_name(strip_brackets(first)), numbers)


def _parse_distinct(function: str, node: exp.Distinct, numbers: tuple[Fraction, ...]) -> FunctionCall:
    check_node_parts(node, "expressions")
    if function != "COUNT" or len(node.expressions) != 1:
        raise InvalidInput("DISTINCT is for COUNT(DISTINCT unit) only, with the column that names the units")
    return FunctionCall("COUNT_DISTINCT", parse_name(strip_brackets(node.expressions[0])), numbers)


def parse_constant(node: exp.Expression) -> Constant:
    """A number, a text, a date, TRUE, FALSE or NULL."""
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
    """DATE '2024-02-29'."""
    check_node_parts(node, "this", "to")
    text = node.this
    if not (node.to.this == exp.DataType.Type.DATE and isinstance(text, exp.Literal) and text.is_string):
        raise build_node_error(node, "DATE '2024-02-29'")
    return EPOCH + timedelta(days=parse_days(str(text.this), "a constant after DATE"))


def parse_number(node: exp.Expression, expected: str = "a number") -> Fraction:
    """A number by its digits, with any signs before it."""
    sign = 1
    node = strip_brackets(node)
    while isinstance(node, exp.Neg):
        check_node_parts(node, "this")
        sign, node = -sign, strip_brackets(node.this)
    if not isinstance(node, exp.Literal) or node.is_string:
        raise build_node_error(node, expected)
    return sign * parse_rational(str(node.this))
