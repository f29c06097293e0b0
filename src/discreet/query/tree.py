"""The syntax tree of a SELECT, read into a written question. What is not read by name is refused, never passed over."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from fractions import Fraction

from sqlglot import exp

from discreet.errors import InvalidInput
from discreet.exact import rational_text, whole
from discreet.query.asked import (
    Both,
    Bound,
    Call,
    Compare,
    Condition,
    Constant,
    Either,
    Is,
    Item,
    Join,
    Listed,
    Name,
    Not,
    Place,
    Question,
)
from discreet.query.query import Comparison
from discreet.query.tokens import SHAPE, read_tree

COMPARISONS: Mapping[type[exp.Expression], Comparison] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GTE: ">=",
    exp.GT: ">",
}
MIRRORED: Mapping[Comparison, Comparison] = {"<": ">", "<=": ">=", "=": "=", "<>": "<>", ">=": "<=", ">": "<"}
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


def read_question(text: str) -> Question:
    """A question from SQL text, not yet held against a schema."""
    tree, unit = read_tree(text)
    _only(tree, "expressions", "from_", "joins", "where", "group", "having", "order", "limit")
    source = tree.args.get("from_")
    if source is None:
        raise InvalidInput(f"the question has no FROM; {SHAPE}")
    table, alias = _table(source.this)
    return Question(
        table=table,
        alias=alias,
        items=tuple(_item(node) for node in tree.expressions),
        joins=tuple(_join(node) for node in tree.args.get("joins") or ()),
        where=_where(tree.args.get("where")),
        group=_group(tree.args.get("group")),
        having=_having(tree.args.get("having")),
        order=_order(tree.args.get("order")),
        limit=_limit(tree.args.get("limit")),
        unit=unit,
    )


def _only(node: exp.Expression, *parts: str) -> None:
    """Refuse a node that says more than these parts."""
    further = [name.strip("_") for name, value in node.args.items() if value and name not in parts]
    if further:
        raise InvalidInput(f"{further[0].upper()!r} has no place in a question; {SHAPE}")


def _refused(node: object, wanted: str) -> InvalidInput:
    noun = NOUNS.get(type(node), "something else")  # type: ignore[arg-type]
    return InvalidInput(f"{wanted} is allowed here, not {noun}; {SHAPE}")


def _bare(node: exp.Expression) -> exp.Expression:
    """Without the brackets around it."""
    while isinstance(node, exp.Paren):
        _only(node, "this")
        node = node.this
    return node


def _table(node: exp.Expression) -> tuple[str, str]:
    """The name of a table, and what it is called in the question."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise InvalidInput(f"FROM and JOIN take the table and its lookups by name, nothing else; {SHAPE}")
    _only(node, "this", "alias")
    alias = node.args.get("alias")
    if alias is not None:
        _only(alias, "this")
    return node.this.name, "" if alias is None else alias.name


def _name(node: exp.Expression) -> Name:
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
        raise _refused(node, "a column")
    _only(node, "this", "table")
    return Name(node.name, node.table)


def _item(node: exp.Expression) -> Item:
    if not isinstance(node, exp.Alias):
        return Item(_output(node))
    _only(node, "this", "alias")
    return Item(_output(node.this), node.alias)


def _output(node: exp.Expression) -> Name | Call:
    node = _bare(node)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return _name(node)
    if isinstance(node, exp.Anonymous):
        return _call(node)
    raise _refused(node, "an aggregate, a column or BIN(x, width)")


def _call(node: exp.Anonymous) -> Call:
    """A function of a column, or of *, and numbers."""
    _only(node, "this", "expressions")
    function = str(node.this).upper()
    if not node.expressions:
        raise InvalidInput(f"{function[:40]} needs a column, or * for COUNT")
    first, *rest = node.expressions
    numbers = tuple(_number(part) for part in rest)
    if isinstance(first, exp.Star):
        _only(first)
        return Call(function, None, numbers)
    if isinstance(first, exp.Distinct):
        return _distinct(function, first, numbers)
    return Call(function, _name(_bare(first)), numbers)


def _distinct(function: str, node: exp.Distinct, numbers: tuple[Fraction, ...]) -> Call:
    _only(node, "expressions")
    if function != "COUNT" or len(node.expressions) != 1:
        raise InvalidInput("DISTINCT is for COUNT(DISTINCT unit) only, with the column that names the units")
    return Call("COUNT_DISTINCT", _name(_bare(node.expressions[0])), numbers)


def _join(node: exp.Join) -> Join:
    """[LEFT] JOIN lookup ON one column = another, or USING one column."""
    _only(node, "this", "side", "kind", "on", "using")
    lookup, alias = _table(node.this)
    shape = f"{node.side} {node.kind}".strip().upper()
    on, using = node.args.get("on"), node.args.get("using") or []
    if shape not in {"", "INNER", "LEFT", "LEFT OUTER"} or (on is None) == (len(using) != 1):
        raise InvalidInput("a lookup is joined with JOIN or LEFT JOIN, and ON registry.key = lookup.key or USING (key)")
    names = (Name(using[0].name),) if on is None else _sides(_bare(on))
    return Join(lookup, "left" if "LEFT" in shape else "inner", alias, names)


def _sides(node: exp.Expression) -> tuple[Name, ...]:
    if not isinstance(node, exp.EQ):
        raise InvalidInput("ON takes one equality, such as ON registry.key = lookup.key")
    return _name(_bare(node.this)), _name(_bare(node.expression))


def _where(node: exp.Expression | None) -> Condition:
    return True if node is None else _condition(node.this)


def _condition(node: exp.Expression) -> Condition:
    """A condition; chains of AND and OR are walked, not descended, so the depth is that of the brackets."""
    node = _bare(node)
    match node:
        case exp.And():
            return Both(tuple(_condition(part) for part in _chain(node)))
        case exp.Or():
            return Either(tuple(_condition(part) for part in _chain(node)))
        case exp.Not():
            _only(node, "this")
            return Not(_condition(node.this))
        case exp.Boolean():
            return bool(node.this)
        case exp.Null():
            return None
        case exp.Between():
            _only(node, "this", "low", "high")
            column = _name(_bare(node.this))
            low, high = (_constant(node.args[end]) for end in ("low", "high"))
            return Both((Compare(column, ">=", low), Compare(column, "<=", high)))
        case exp.In():
            return _in(node)
        case exp.Is():
            return _is(node)
        case exp.Column():
            return Compare(_name(node), "=", True)
    if type(node) not in COMPARISONS:
        raise _refused(node, "a comparison of a column with a constant")
    return Compare(*_compared(node))


def _chain(node: exp.Expression) -> list[exp.Expression]:
    """The parts of a chain of one connective, in order."""
    kind, parts = type(node), []
    while type(node) is kind:
        _only(node, "this", "expression")
        parts.append(node.expression)
        node = node.this
    return [node, *reversed(parts)]


def _in(node: exp.In) -> Condition:
    _only(node, "this", "expressions")
    if not node.expressions:
        raise InvalidInput("IN takes a list of at least one constant, such as x IN (1, 2)")
    return Listed(_name(_bare(node.this)), tuple(_constant(part) for part in node.expressions))


def _is(node: exp.Is) -> Condition:
    _only(node, "this", "expression")
    value = node.expression
    if not isinstance(value, exp.Null | exp.Boolean):
        raise InvalidInput("IS takes NULL, TRUE or FALSE, or NOT and one of them")
    return Is(_name(_bare(node.this)), None if isinstance(value, exp.Null) else bool(value.this))


def _compared(node: exp.Expression) -> tuple[Name, Comparison, Constant]:
    """A column, what it is compared by and with what; a constant on the left is turned round."""
    _only(node, "this", "expression")
    comparison = COMPARISONS[type(node)]
    left, right = _bare(node.this), _bare(node.expression)
    if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
        return _name(right), MIRRORED[comparison], _constant(left)
    return _name(left), comparison, _constant(right)


def _constant(node: exp.Expression) -> Constant:
    node = _bare(node)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    if isinstance(node, exp.Cast):
        return _date(node)
    return _number(node)


def _date(node: exp.Cast) -> date:
    """DATE '2024-02-29'."""
    _only(node, "this", "to")
    text = node.this
    if not (node.to.this == exp.DataType.Type.DATE and isinstance(text, exp.Literal) and text.is_string):
        raise _refused(node, "DATE '2024-02-29'")
    try:
        return date.fromisoformat(text.this)
    except ValueError:
        raise InvalidInput(f"a date is written DATE '2024-02-29', got {str(text.this)[:40]!r}") from None


def _number(node: exp.Expression) -> Fraction:
    sign = 1
    node = _bare(node)
    while isinstance(node, exp.Neg):
        _only(node, "this")
        sign, node = -sign, _bare(node.this)
    if not isinstance(node, exp.Literal) or node.is_string:
        raise _refused(node, "a constant")
    return sign * rational_text(str(node.this))


def _place(node: exp.Expression) -> Place:
    """An output, by its place from 1, its name or its expression."""
    if isinstance(node, exp.Literal):
        return whole(_number(node), "a place in the SELECT list")
    return _output(node)


def _group(node: exp.Expression | None) -> tuple[Place, ...]:
    if node is None:
        return ()
    _only(node, "expressions")
    return tuple(_place(_bare(part)) for part in node.expressions)


def _having(node: exp.Expression | None) -> tuple[Bound, ...]:
    """Comparisons of outputs with numbers, joined by AND."""
    if node is None:
        return ()
    parts = [_bare(node.this)]
    found: list[Bound] = []
    while parts:
        part = parts.pop()
        if isinstance(part, exp.And):
            parts += [_bare(inner) for inner in reversed(_chain(part))]
        else:
            found.append(_bound(part))
    return tuple(found)


def _bound(node: exp.Expression) -> Bound:
    if type(node) not in COMPARISONS:
        raise _refused(node, "a comparison of an aggregate with a number, and AND between several,")
    _only(node, "this", "expression")
    comparison = COMPARISONS[type(node)]
    left, right = _bare(node.this), _bare(node.expression)
    if isinstance(left, exp.Column | exp.Anonymous):
        return Bound(_output(left), comparison, _number(right))
    return Bound(_output(right), MIRRORED[comparison], _number(left))


def _order(node: exp.Expression | None) -> tuple[tuple[Place, bool], ...]:
    if node is None:
        return ()
    _only(node, "expressions")
    return tuple(_ordered(part) for part in node.expressions)


def _ordered(node: exp.Expression) -> tuple[Place, bool]:
    _only(node, "this", "desc", "nulls_first")
    falling = bool(node.args.get("desc"))
    # The parser fills in nulls_first; only what was written otherwise differs from this.
    if bool(node.args.get("nulls_first")) is falling:
        raise InvalidInput("NULLS FIRST and NULLS LAST have no place in ORDER BY; leave them out")
    return _place(_bare(node.this)), falling


def _limit(node: exp.Expression | None) -> Fraction | None:
    if node is None:
        return None
    _only(node, "expression")
    return _number(node.expression)
