"""Questions from JSON, which says what SQL says.

    {"from": "registry", "join": ["icd"], "left_join": [],
     "select": ["sex", {"count": "*"}, {"avg": "income", "as": "mean"}, {"quantile": "age", "orders": ["0.25", "0.5"]},
                {"trimmed_mean": "income", "share": "0.05"},
                {"bin": "age", "width": 10}, {"column": "icd.chapter", "as": "chapter"},
                {"count": "*", "where": {"age": {"<": 18}}, "as": "minors"}],
     "where": {"and": [{"age": {">=": 30, "<": 40}}, {"sex": {"in": ["F"]}}, {"not": {"income": {"is": null}}}]},
     "group_by": ["sex", {"bin": "age", "width": 10}, "chapter"],
     "having": [{"of": "mean", ">": 1000}], "order_by": [2, {"by": {"count": "*"}, "descending": true}], "limit": 10}

or {"select": "income", "from": "registry", "unit": "p17"}. Beside <, <=, =, <>, >=, > and in, a column can be
{"between": [1, 2]}, {"is": null} and {"is_not": true}. Numbers are read by their digits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from fractions import Fraction
from typing import Any, cast, get_args

from discreet.errors import InvalidInput
from discreet.exact import rational, rational_text, whole
from discreet.plain import is_a, plain_items, plain_list, plain_text, plain_value
from discreet.query.asked import (
    DEEPEST,
    LONGEST,
    MOST_PARTS,
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
    check_text,
)
from discreet.query.query import Comparison, Query
from discreet.query.resolve import resolve
from discreet.schema import Schema

Object = Mapping[str, object]

CLAUSES = ("from", "select", "join", "left_join", "where", "group_by", "rollup", "having", "order_by", "limit", "unit")
COMPARISONS: tuple[str, ...] = get_args(Comparison)
TESTS = (*COMPARISONS, "in", "between", "is", "is_not")
NUMBERS = {"quantile": "orders", "bin": "width", "histogram": "bins", "trimmed_mean": "share"}
"""What the numbers of a function are called."""
TOO_LONG = f"a question has at most {MOST_PARTS} values and {LONGEST} characters; shorten it"


class _Digits(str):
    """A number of a JSON text, as it was written."""

    __slots__ = ()


def parse_json(document: str | Object, schema: Schema) -> Query:
    """The question that a JSON text or mapping asks of a table, in canonical form."""
    read = _read(plain_text(document, "a question")) if is_a(document, str) else document
    if not isinstance(read, Mapping):
        raise InvalidInput(f"a question in JSON is an object with the keys {', '.join(CLAUSES)}")
    own = _Copying().copied(read, 1)
    return resolve(_question(own), schema)


def _read(text: str) -> object:
    if len(text) > LONGEST:
        raise InvalidInput(f"a question has at most {LONGEST} characters, got {len(text)}; shorten it")
    try:
        return json.loads(
            text, parse_int=_Digits, parse_float=_Digits, parse_constant=_no_number, object_pairs_hook=_unique
        )
    except json.JSONDecodeError as error:
        raise InvalidInput(f"the JSON cannot be read at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise InvalidInput(f"JSON nests at most {DEEPEST} deep; flatten the question") from None


def _no_number(text: str) -> object:
    raise InvalidInput(f"{text} is not a number a question can use; write a finite one")


def _unique(pairs: list[tuple[str, object]]) -> Object:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidInput("an object of the question has a key twice; keep one")
    return found


class _Copying:
    """Copies a question as plain dictionaries, lists and values, within limits on depth, parts and text.

    The texts of a question are compared with those of the rows, so none of a caller's own class may be among them. A
    mapping may even hold itself.
    """

    def __init__(self) -> None:
        self.parts = self.length = 0

    def copied(self, value: object, depth: int) -> Any:
        self.parts += 1
        if type(value) is _Digits:
            return value
        if isinstance(value, Mapping):
            pairs = self._opened(plain_items(value, "a question"), 2, depth)
            return {self._key(key): self.copied(part, depth + 1) for key, part in pairs}
        if is_a(value, (list, tuple)):
            return [self.copied(part, depth + 1) for part in self._opened(plain_list(value, "a question"), 1, depth)]
        own = plain_value(value, "a value of a question")
        if isinstance(own, str):
            self._count(own)
        return own

    def _opened(self, inside: list[Any], each: int, depth: int) -> list[Any]:
        if depth > DEEPEST and inside:
            raise InvalidInput(f"JSON nests at most {DEEPEST} deep; flatten the question")
        if self.parts + each * len(inside) > MOST_PARTS:
            raise InvalidInput(TOO_LONG)
        return inside

    def _key(self, key: object) -> str:
        if not isinstance(key, str):
            raise InvalidInput("the keys of a question are texts")
        self.parts += 1
        self._count(key)
        return key

    def _count(self, text: str) -> None:
        check_text(text)
        self.length += len(text)
        if self.length > LONGEST or self.parts > MOST_PARTS:
            raise InvalidInput(TOO_LONG)


def _question(document: Object) -> Question:
    _closed(document, CLAUSES, "a question")
    if "from" not in document or "select" not in document:
        raise InvalidInput('a question needs "from" and "select"')
    limit, unit = document.get("limit"), document.get("unit")
    joins = [Join(_text(name, "a lookup"), "inner") for name in _list(document.get("join", []), "join")]
    joins += [Join(_text(name, "a lookup"), "left") for name in _list(document.get("left_join", []), "left_join")]
    selected = document["select"]
    if "group_by" in document and "rollup" in document:
        raise InvalidInput("a question has group_by or rollup, not both")
    grouping = "rollup" if "rollup" in document else "group_by"
    return Question(
        table=_text(document["from"], "from"),
        items=tuple(_item(item) for item in (_list(selected, "select") if _is_list(selected) else [selected])),
        joins=tuple(joins),
        where=_condition(document.get("where", True)),
        group=tuple(_place(place) for place in _list(document.get(grouping, []), grouping)),
        rollup=grouping == "rollup",
        having=tuple(bound for entry in _list(document.get("having", []), "having") for bound in _bounds(entry)),
        order=tuple(_ordered(entry) for entry in _list(document.get("order_by", []), "order_by")),
        limit=None if limit is None else _number(limit, "limit"),
        unit=None if unit is None else _text(unit, "unit"),
    )


def _item(value: object) -> Item:
    if not isinstance(value, Mapping):
        return Item(_name(value))
    alias = _text(value["as"], "as") if "as" in value else ""
    rest = {key: part for key, part in value.items() if key != "as"}
    return Item(_name(rest["column"]) if set(rest) == {"column"} else _call(rest), alias)


def _call(value: Object) -> Call:
    """{"count": "*"}, {"avg": "income"}, {"quantile": "age", "orders": ["0.5"]}."""
    functions = [key for key in value if key not in {*NUMBERS.values(), "where"}]
    if len(functions) != 1:
        raise InvalidInput(
            'an output is a column or one function, such as {"avg": "income"}; beside the function may stand "where" '
            'for a count, its "orders", "width", "bins" or "share", and in select "as"'
        )
    function = functions[0]
    said = NUMBERS.get(function.lower(), "")
    _closed(value, (function, said, "where"), f"{function[:40]!r}")
    given = value.get(said, [])
    numbers = tuple(_number(one, said) for one in (_list(given, said) if _is_list(given) else [given]))
    column = value[function]
    where = _condition(value.get("where", True))
    return Call(function.upper(), None if column == "*" else _name(column), numbers, where)


def _output(value: object) -> Name | Call:
    return _call(value) if isinstance(value, Mapping) else _name(value)


def _place(value: object) -> Place:
    return whole(_number(value, "a place"), "a place in select") if _is_number(value) else _output(value)


def _bounds(value: object) -> list[Bound]:
    """{"of": "mean", ">": 1000}: every comparison in it."""
    bounds = _object(value, 'an entry of having is an object such as {"of": {"count": "*"}, ">": 5}')
    _closed(bounds, ("of", *COMPARISONS), "an entry of having")
    if "of" not in bounds or len(bounds) < 2:
        raise InvalidInput('an entry of having needs "of" and a comparison, such as ">": 5')
    of = _output(bounds["of"])
    return [Bound(of, _comparison(sign), _number(one, "having")) for sign, one in bounds.items() if sign != "of"]


def _ordered(value: object) -> tuple[Place, bool]:
    if not (isinstance(value, Mapping) and "by" in value):
        return _place(value), False
    _closed(value, ("by", "descending"), "an entry of order_by")
    falling = value.get("descending", False)
    if not isinstance(falling, bool):
        raise InvalidInput("descending is true or false")
    return _place(value["by"]), falling


def _condition(value: object) -> Condition:
    if value is None or isinstance(value, bool):
        return value
    condition = _object(value, 'a condition is an object such as {"age": {">=": 30}}, or true or false')
    if len(condition) != 1:
        raise InvalidInput('a condition is about one column; join several with {"and": [...]} or {"or": [...]}')
    ((key, inside),) = condition.items()
    if key == "not":
        return Not(_condition(inside))
    if key in {"and", "or"}:
        parts = tuple(_condition(part) for part in _list(inside, key))
        if not parts:
            raise InvalidInput(f"{key} joins at least one condition")
        return Both(parts) if key == "and" else Either(parts)
    return _tests(_name(key), inside)


def _tests(column: Name, value: object) -> Condition:
    """All tests of one column."""
    tests = _object(value, f'a column is tested by an object such as {{">=": 30}}, here {str(column)[:40]!r}')
    if not tests:
        raise InvalidInput(f"{str(column)[:40]!r} has no test; it may have {', '.join(TESTS)}")
    _closed(tests, TESTS, f"a test of {str(column)[:40]!r}")
    return Both(tuple(_test(column, kind, against) for kind, against in tests.items()))


def _test(column: Name, kind: str, value: object) -> Condition:
    if kind in {"is", "is_not"}:
        if not (value is None or isinstance(value, bool)):
            raise InvalidInput(f"{kind} takes null, true or false")
        return Is(column, value) if kind == "is" else Not(Is(column, value))
    if kind == "in":
        constants = tuple(_constant(one) for one in _list(value, "in"))
        if not constants:
            raise InvalidInput("in takes a list of at least one constant")
        return Listed(column, constants)
    if kind == "between":
        ends = _list(value, "between")
        if len(ends) != 2:
            raise InvalidInput("between takes a list of two constants")
        return Both((Compare(column, ">=", _constant(ends[0])), Compare(column, "<=", _constant(ends[1]))))
    return Compare(column, _comparison(kind), _constant(value))


def _constant(value: object) -> Constant:
    if _is_number(value):
        return _number(value, "a constant")
    if value is None or isinstance(value, bool | str) or type(value) is date:
        return value
    raise InvalidInput("a constant is a number, a text, true, false or null")


def _comparison(sign: str) -> Comparison:
    return cast(Comparison, sign)


def _is_number(value: object) -> bool:
    return isinstance(value, _Digits) or not isinstance(value, str | bool | Mapping | list | tuple | date | None)


def _number(value: object, what: str) -> Fraction:
    return rational_text(value, what) if isinstance(value, str) else rational(value, what)


def _name(value: object) -> Name:
    table, dot, name = _text(value, "a column").partition(".")
    return Name(name, table) if dot else Name(table)


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or isinstance(value, _Digits):
        raise InvalidInput(f"{what} must be a text in quotes")
    return value


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _list(value: object, what: str) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"{what} must be a list, such as [...]")
    return value


def _object(value: object, what: str) -> Object:
    if not isinstance(value, Mapping):
        raise InvalidInput(what)
    return value


def _closed(value: Object, allowed: Sequence[str], what: str) -> None:
    for key in value:
        if key not in allowed:
            known = ", ".join(one for one in allowed if one)
            raise InvalidInput(f"{what} has no key {str(key)[:40]!r}; it may have {known}")
