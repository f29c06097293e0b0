"""The leaves of a syntax tree: names, calls and constants. What is not read by name is refused, never passed over."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from fractions import Fraction

from sqlglot import exp

from discreet.errors import InvalidInput
from discreet.exact import rational_text
from discreet.query.asked import Call, Constant, Name
from discreet.query.selected import FUNCTIONS, unknown
from discreet.query.tokens import SHAPE
from discreet.schema.column import EPOCH, days

NOUNS: Mapping[type[exp.Expression], str] = {
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


def only(node: exp.Expression, *parts: str) -> None:
    """Refuse a node that says more than these parts."""
    further = [name.strip("_") for name, value in node.args.items() if value and name not in parts]
    if further:
        raise InvalidInput(f"{further[0].upper()!r} has no place in a question; {SHAPE}")


def refused(node: object, wanted: str) -> InvalidInput:
    """What to say where another kind of node was wanted."""
    noun = NOUNS.get(type(node), "something else")  # type: ignore[arg-type]
    if isinstance(node, exp.Literal) and node.is_string:
        noun = "a text"
    hint = "a text is written in single quotes, like 'F'" if (wanted, noun) == ("a constant", "a column") else SHAPE
    return InvalidInput(f"{wanted} is allowed here, not {noun}; {hint}")


def bare(node: exp.Expression) -> exp.Expression:
    """Without the brackets around it."""
    while isinstance(node, exp.Paren):
        only(node, "this")
        node = node.this
    return node


def name(node: exp.Expression) -> Name:
    """A column, with its table or without."""
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
        raise refused(node, "a column")
    only(node, "this", "table")
    return Name(node.name, node.table)


def output(node: exp.Expression) -> Name | Call:
    """What can stand in a SELECT list."""
    node = bare(node)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return name(node)
    if isinstance(node, exp.Anonymous):
        return _call(node)
    raise refused(node, "an aggregate, a column or BIN(x, width)")


def _call(node: exp.Anonymous) -> Call:
    """A function of a column, or of *, and numbers."""
    only(node, "this", "expressions")
    function = str(node.this).upper()
    if not node.expressions:
        raise InvalidInput(f"{function[:40]!r} needs a column, or * for COUNT")
    if function not in FUNCTIONS:
        raise unknown(function)
    first, *rest = node.expressions
    numbers = tuple(number(part) for part in rest)
    if isinstance(first, exp.Star):
        only(first)
        return Call(function, None, numbers)
    if isinstance(first, exp.Distinct):
        return _distinct(function, first, numbers)
    return Call(function, name(bare(first)), numbers)


def _distinct(function: str, node: exp.Distinct, numbers: tuple[Fraction, ...]) -> Call:
    only(node, "expressions")
    if function != "COUNT" or len(node.expressions) != 1:
        raise InvalidInput("DISTINCT is for COUNT(DISTINCT unit) only, with the column that names the units")
    return Call("COUNT_DISTINCT", name(bare(node.expressions[0])), numbers)


def constant(node: exp.Expression) -> Constant:
    """A number, a text, a date, TRUE, FALSE or NULL."""
    node = bare(node)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    if isinstance(node, exp.Cast):
        return _date(node)
    return number(node, "a constant")


def _date(node: exp.Cast) -> date:
    """DATE '2024-02-29'."""
    only(node, "this", "to")
    text = node.this
    if not (node.to.this == exp.DataType.Type.DATE and isinstance(text, exp.Literal) and text.is_string):
        raise refused(node, "DATE '2024-02-29'")
    return EPOCH + timedelta(days=days(str(text.this), "a constant after DATE"))


def number(node: exp.Expression, wanted: str = "a number") -> Fraction:
    """A number by its digits, with any signs before it."""
    sign = 1
    node = bare(node)
    while isinstance(node, exp.Neg):
        only(node, "this")
        sign, node = -sign, bare(node.this)
    if not isinstance(node, exp.Literal) or node.is_string:
        raise refused(node, wanted)
    return sign * rational_text(str(node.this))
