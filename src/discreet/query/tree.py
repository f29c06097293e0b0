"""The syntax tree of a SELECT, read into a written question. What is not read by name is refused, never passed over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from discreet.errors import InvalidInput
from discreet.exact import as_int
from discreet.query.asked import (
    And,
    Compare,
    Condition,
    Constant,
    FunctionCall,
    HavingBound,
    InList,
    IsCheck,
    Join,
    Not,
    Or,
    OutputReference,
    ParsedQuestion,
    QualifiedName,
    SelectItem,
)
from discreet.query.leaves import (
    build_node_error,
    check_node_parts,
    parse_constant,
    parse_name,
    parse_number,
    parse_output,
    strip_brackets,
)
from discreet.query.query import Comparison
from discreet.query.tokens import QUESTION_SHAPE, parse_tree

COMPARISON_OPERATORS: Mapping[type[exp.Expression], Comparison] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GTE: ">=",
    exp.GT: ">",
}
MIRRORED_COMPARISONS: Mapping[Comparison, Comparison] = {
    "<": ">",
    "<=": ">=",
    "=": "=",
    "<>": "<>",
    ">=": "<=",
    ">": "<",
}


def parse_select(text: str) -> ParsedQuestion:
    """A question from SQL text, not yet held against a schema."""
    tree, unit = parse_tree(text)
    check_node_parts(tree, "expressions", "from_", "joins", "where", "group", "having", "order", "limit")
    source = tree.args.get("from_")
    if source is None:
        raise InvalidInput(f"the question has no FROM; {QUESTION_SHAPE}")
    check_node_parts(source, "this")
    table, alias = _parse_table(source.this)
    return ParsedQuestion(
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


def _parse_item(node: exp.Expression) -> SelectItem:
    if not isinstance(node, exp.Alias):
        return SelectItem(_parse_filtered_output(node))
    check_node_parts(node, "this", "alias")
    return SelectItem(_parse_filtered_output(node.this), node.alias)


def _parse_filtered_output(node: exp.Expression) -> QualifiedName | FunctionCall:
    """What can stand in a SELECT list; a call may have a FILTER (WHERE ...)."""
    node = strip_brackets(node)
    if not isinstance(node, exp.Filter):
        return parse_output(node)
    check_node_parts(node, "this", "expression")
    call = parse_output(node.this)
    if not isinstance(call, FunctionCall):
        raise InvalidInput("FILTER (WHERE ...) stands after a count, such as COUNT(*)")
    return replace(call, where=_parse_where(node.expression))


def _parse_join(node: exp.Join) -> Join:
    """[LEFT] JOIN lookup ON one column = another, or USING one column."""
    check_node_parts(node, "this", "side", "kind", "on", "using")
    lookup, alias = _parse_table(node.this)
    shape = f"{node.side} {node.kind}".strip().upper()
    on, using = node.args.get("on"), node.args.get("using") or []
    if shape not in {"", "INNER", "LEFT", "LEFT OUTER"} or (on is None) == (len(using) != 1):
        raise InvalidInput("a lookup is joined with JOIN or LEFT JOIN, and ON registry.key = lookup.key or USING (key)")
    names = (QualifiedName(using[0].name),) if on is None else _parse_join_sides(strip_brackets(on))
    return Join(lookup, "left" if "LEFT" in shape else "inner", alias, names)


def _parse_join_sides(node: exp.Expression) -> tuple[QualifiedName, ...]:
    if not isinstance(node, exp.EQ):
        raise InvalidInput("ON takes one equality, such as ON registry.key = lookup.key")
    return parse_name(strip_brackets(node.this)), parse_name(strip_brackets(node.expression))


def _parse_where(node: exp.Expression | None) -> Condition:
    if node is None:
        return True
    check_node_parts(node, "this")
    return _parse_condition(node.this)


def _parse_condition(node: exp.Expression) -> Condition:
    """A condition; chains of AND and OR are walked, not descended, so the depth is that of the brackets."""
    node = strip_brackets(node)
    match node:
        case exp.And():
            return And(tuple(_parse_condition(part) for part in _list_chain(node)))
        case exp.Or():
            return Or(tuple(_parse_condition(part) for part in _list_chain(node)))
        case exp.Not():
            check_node_parts(node, "this")
            return Not(_parse_condition(node.this))
        case exp.Boolean():
            return bool(node.this)
        case exp.Null():
            return None
        case exp.Between():
            check_node_parts(node, "this", "low", "high")
            column = parse_name(strip_brackets(node.this))
            low, high = (parse_constant(node.args[end]) for end in ("low", "high"))
            return And((Compare(column, ">=", low), Compare(column, "<=", high)))
        case exp.In():
            return _parse_in(node)
        case exp.Is():
            return _parse_is(node)
        case exp.Column():
            return Compare(parse_name(node), "=", True)
    if type(node) not in COMPARISON_OPERATORS:
        raise build_node_error(node, "a comparison of a column with a constant")
    return Compare(*_parse_comparison(node))


def _list_chain(node: exp.Expression) -> list[exp.Expression]:
    """The parts of a chain of one connective, in order."""
    kind, parts = type(node), []
    while type(node) is kind:
        check_node_parts(node, "this", "expression")
        parts.append(node.expression)
        node = node.this
    return [node, *reversed(parts)]


def _parse_in(node: exp.In) -> Condition:
    check_node_parts(node, "this", "expressions")
    if not node.expressions:
        raise InvalidInput("IN takes a list of at least one constant, such as x IN (1, 2)")
    return InList(parse_name(strip_brackets(node.this)), tuple(parse_constant(part) for part in node.expressions))


def _parse_is(node: exp.Is) -> Condition:
    check_node_parts(node, "this", "expression")
    value = node.expression
    if not isinstance(value, exp.Null | exp.Boolean):
        raise InvalidInput("IS takes NULL, TRUE or FALSE, or NOT and one of them")
    return IsCheck(parse_name(strip_brackets(node.this)), None if isinstance(value, exp.Null) else bool(value.this))


def _parse_comparison(node: exp.Expression) -> tuple[QualifiedName, Comparison, Constant]:
    """A column, what it is compared by and with what; a constant on the left is turned round."""
    check_node_parts(node, "this", "expression")
    comparison = COMPARISON_OPERATORS[type(node)]
    left, right = strip_brackets(node.this), strip_brackets(node.expression)
    if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
        return parse_name(right), MIRRORED_COMPARISONS[comparison], parse_constant(left)
    return parse_name(left), comparison, parse_constant(right)


def _parse_output_reference(node: exp.Expression) -> OutputReference:
    """An output, by its place from 1, its name or its expression."""
    if isinstance(node, exp.Literal):
        return as_int(parse_number(node), "a place in the SELECT list")
    return _parse_filtered_output(node)


def _parse_group(node: exp.Expression | None) -> tuple[OutputReference, ...]:
    if node is None:
        return ()
    check_node_parts(node, "expressions")
    parts = node.expressions[0].expressions if _is_rollup(node) else node.expressions
    return tuple(_parse_output_reference(strip_brackets(part)) for part in parts)


def _is_rollup(node: exp.Expression | None) -> bool:
    """GROUP BY ROLLUP (a, b), and nothing beside it."""
    parts = [] if node is None else node.expressions
    return len(parts) == 1 and isinstance(parts[0], exp.Anonymous) and str(parts[0].this).upper() == "ROLLUP"


def _parse_having(node: exp.Expression | None) -> tuple[HavingBound, ...]:
    """Comparisons of outputs with numbers, joined by AND."""
    if node is None:
        return ()
    check_node_parts(node, "this")
    parts = [strip_brackets(node.this)]
    having_bounds: list[HavingBound] = []
    while parts:
        part = parts.pop()
        if isinstance(part, exp.And):
            parts += [strip_brackets(inner) for inner in reversed(_list_chain(part))]
        else:
            having_bounds.append(_parse_bound(part))
    return tuple(having_bounds)


def _parse_bound(node: exp.Expression) -> HavingBound:
    if type(node) not in COMPARISON_OPERATORS:
        raise build_node_error(node, "a comparison of an aggregate with a number, and AND between several,")
    check_node_parts(node, "this", "expression")
    comparison = COMPARISON_OPERATORS[type(node)]
    left, right = strip_brackets(node.this), strip_brackets(node.expression)
    if isinstance(left, exp.Column | exp.Anonymous | exp.Filter):
        return HavingBound(_parse_filtered_output(left), comparison, parse_number(right))
    return HavingBound(_parse_filtered_output(right), MIRRORED_COMPARISONS[comparison], parse_number(left))


def _parse_order_by(node: exp.Expression | None) -> tuple[tuple[OutputReference, bool], ...]:
    if node is None:
        return ()
    check_node_parts(node, "expressions")
    return tuple(_parse_order_item(part) for part in node.expressions)


def _parse_order_item(node: exp.Expression) -> tuple[OutputReference, bool]:
    check_node_parts(node, "this", "desc", "nulls_first")
    is_descending = bool(node.args.get("desc"))
    # The parser fills in nulls_first; only what was written otherwise differs from this.
    if bool(node.args.get("nulls_first")) is is_descending:
        raise InvalidInput("NULLS FIRST and NULLS LAST have no place in ORDER BY; leave them out")
    return _parse_output_reference(strip_brackets(node.this)), is_descending


def _parse_limit(node: exp.Expression | None) -> Fraction | None:
    if node is None:
        return None
    check_node_parts(node, "expression")
    return parse_number(node.expression)
