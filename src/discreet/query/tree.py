"""The syntax tree of a SELECT, read into a written question. What is not read by name is refused, never passed over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from discreet.errors import InvalidInput
from discreet.exact import whole
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
from discreet.query.leaves import bare, constant, name, number, only, output, refused
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


def read_question(text: str) -> Question:
    """A question from SQL text, not yet held against a schema."""
    tree, unit = read_tree(text)
    only(tree, "expressions", "from_", "joins", "where", "group", "having", "order", "limit")
    source = tree.args.get("from_")
    if source is None:
        raise InvalidInput(f"the question has no FROM; {SHAPE}")
    only(source, "this")
    table, alias = _table(source.this)
    return Question(
        table=table,
        alias=alias,
        items=tuple(_item(node) for node in tree.expressions),
        joins=tuple(_join(node) for node in tree.args.get("joins") or ()),
        where=_where(tree.args.get("where")),
        group=_group(tree.args.get("group")),
        rollup=_is_rollup(tree.args.get("group")),
        having=_having(tree.args.get("having")),
        order=_order(tree.args.get("order")),
        limit=_limit(tree.args.get("limit")),
        unit=unit,
    )


def _table(node: exp.Expression) -> tuple[str, str]:
    """The name of a table, and what it is called in the question."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise InvalidInput(f"FROM and JOIN take the table and its lookups by name, nothing else; {SHAPE}")
    only(node, "this", "alias")
    alias = node.args.get("alias")
    if alias is not None:
        only(alias, "this")
    return node.this.name, "" if alias is None else alias.name


def _item(node: exp.Expression) -> Item:
    if not isinstance(node, exp.Alias):
        return Item(_output(node))
    only(node, "this", "alias")
    return Item(_output(node.this), node.alias)


def _output(node: exp.Expression) -> Name | Call:
    """What can stand in a SELECT list; a call may have a FILTER (WHERE ...)."""
    node = bare(node)
    if not isinstance(node, exp.Filter):
        return output(node)
    only(node, "this", "expression")
    call = output(node.this)
    if not isinstance(call, Call):
        raise InvalidInput("FILTER (WHERE ...) stands after a count, such as COUNT(*)")
    return replace(call, where=_where(node.expression))


def _join(node: exp.Join) -> Join:
    """[LEFT] JOIN lookup ON one column = another, or USING one column."""
    only(node, "this", "side", "kind", "on", "using")
    lookup, alias = _table(node.this)
    shape = f"{node.side} {node.kind}".strip().upper()
    on, using = node.args.get("on"), node.args.get("using") or []
    if shape not in {"", "INNER", "LEFT", "LEFT OUTER"} or (on is None) == (len(using) != 1):
        raise InvalidInput("a lookup is joined with JOIN or LEFT JOIN, and ON registry.key = lookup.key or USING (key)")
    names = (Name(using[0].name),) if on is None else _sides(bare(on))
    return Join(lookup, "left" if "LEFT" in shape else "inner", alias, names)


def _sides(node: exp.Expression) -> tuple[Name, ...]:
    if not isinstance(node, exp.EQ):
        raise InvalidInput("ON takes one equality, such as ON registry.key = lookup.key")
    return name(bare(node.this)), name(bare(node.expression))


def _where(node: exp.Expression | None) -> Condition:
    if node is None:
        return True
    only(node, "this")
    return _condition(node.this)


def _condition(node: exp.Expression) -> Condition:
    """A condition; chains of AND and OR are walked, not descended, so the depth is that of the brackets."""
    node = bare(node)
    match node:
        case exp.And():
            return Both(tuple(_condition(part) for part in _chain(node)))
        case exp.Or():
            return Either(tuple(_condition(part) for part in _chain(node)))
        case exp.Not():
            only(node, "this")
            return Not(_condition(node.this))
        case exp.Boolean():
            return bool(node.this)
        case exp.Null():
            return None
        case exp.Between():
            only(node, "this", "low", "high")
            column = name(bare(node.this))
            low, high = (constant(node.args[end]) for end in ("low", "high"))
            return Both((Compare(column, ">=", low), Compare(column, "<=", high)))
        case exp.In():
            return _in(node)
        case exp.Is():
            return _is(node)
        case exp.Column():
            return Compare(name(node), "=", True)
    if type(node) not in COMPARISONS:
        raise refused(node, "a comparison of a column with a constant")
    return Compare(*_compared(node))


def _chain(node: exp.Expression) -> list[exp.Expression]:
    """The parts of a chain of one connective, in order."""
    kind, parts = type(node), []
    while type(node) is kind:
        only(node, "this", "expression")
        parts.append(node.expression)
        node = node.this
    return [node, *reversed(parts)]


def _in(node: exp.In) -> Condition:
    only(node, "this", "expressions")
    if not node.expressions:
        raise InvalidInput("IN takes a list of at least one constant, such as x IN (1, 2)")
    return Listed(name(bare(node.this)), tuple(constant(part) for part in node.expressions))


def _is(node: exp.Is) -> Condition:
    only(node, "this", "expression")
    value = node.expression
    if not isinstance(value, exp.Null | exp.Boolean):
        raise InvalidInput("IS takes NULL, TRUE or FALSE, or NOT and one of them")
    return Is(name(bare(node.this)), None if isinstance(value, exp.Null) else bool(value.this))


def _compared(node: exp.Expression) -> tuple[Name, Comparison, Constant]:
    """A column, what it is compared by and with what; a constant on the left is turned round."""
    only(node, "this", "expression")
    comparison = COMPARISONS[type(node)]
    left, right = bare(node.this), bare(node.expression)
    if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
        return name(right), MIRRORED[comparison], constant(left)
    return name(left), comparison, constant(right)


def _place(node: exp.Expression) -> Place:
    """An output, by its place from 1, its name or its expression."""
    if isinstance(node, exp.Literal):
        return whole(number(node), "a place in the SELECT list")
    return _output(node)


def _group(node: exp.Expression | None) -> tuple[Place, ...]:
    if node is None:
        return ()
    only(node, "expressions")
    parts = node.expressions[0].expressions if _is_rollup(node) else node.expressions
    return tuple(_place(bare(part)) for part in parts)


def _is_rollup(node: exp.Expression | None) -> bool:
    """GROUP BY ROLLUP (a, b), and nothing beside it."""
    parts = [] if node is None else node.expressions
    return len(parts) == 1 and isinstance(parts[0], exp.Anonymous) and str(parts[0].this).upper() == "ROLLUP"


def _having(node: exp.Expression | None) -> tuple[Bound, ...]:
    """Comparisons of outputs with numbers, joined by AND."""
    if node is None:
        return ()
    only(node, "this")
    parts = [bare(node.this)]
    found: list[Bound] = []
    while parts:
        part = parts.pop()
        if isinstance(part, exp.And):
            parts += [bare(inner) for inner in reversed(_chain(part))]
        else:
            found.append(_bound(part))
    return tuple(found)


def _bound(node: exp.Expression) -> Bound:
    if type(node) not in COMPARISONS:
        raise refused(node, "a comparison of an aggregate with a number, and AND between several,")
    only(node, "this", "expression")
    comparison = COMPARISONS[type(node)]
    left, right = bare(node.this), bare(node.expression)
    if isinstance(left, exp.Column | exp.Anonymous | exp.Filter):
        return Bound(_output(left), comparison, number(right))
    return Bound(_output(right), MIRRORED[comparison], number(left))


def _order(node: exp.Expression | None) -> tuple[tuple[Place, bool], ...]:
    if node is None:
        return ()
    only(node, "expressions")
    return tuple(_ordered(part) for part in node.expressions)


def _ordered(node: exp.Expression) -> tuple[Place, bool]:
    only(node, "this", "desc", "nulls_first")
    falling = bool(node.args.get("desc"))
    # The parser fills in nulls_first; only what was written otherwise differs from this.
    if bool(node.args.get("nulls_first")) is falling:
        raise InvalidInput("NULLS FIRST and NULLS LAST have no place in ORDER BY; leave them out")
    return _place(bare(node.this)), falling


def _limit(node: exp.Expression | None) -> Fraction | None:
    if node is None:
        return None
    only(node, "expression")
    return number(node.expression)
