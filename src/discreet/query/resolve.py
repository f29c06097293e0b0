"""A written question held against a schema: it comes out in canonical form, or not at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from discreet.errors import InvalidInput
from discreet.exact import whole
from discreet.query.asked import Bound, Call, Item, Name, Place, Question
from discreet.query.canonical import in_order
from discreet.query.conditions import rows_asked
from discreet.query.query import Aggregate, Having, Key, Nesting, Output, Presentation, Query
from discreet.query.scope import Scope
from discreet.query.selected import Meant, meant
from discreet.schema import Schema

MOST_CELLS = 100_000


def resolve(question: Question, schema: Schema) -> Query:
    """The question as the planner reads it."""
    scope = Scope.of(question, schema)
    if question.unit is not None:
        return _about_one(question, scope)
    scope = replace(scope, where=rows_asked(question, scope))
    selected = _selected(question, scope)
    keys = _keys(question, selected, scope)
    aggregates = _merged(selected)
    presentation = Presentation(
        outputs=tuple(_output(one, keys, aggregates) for one in selected),
        having=tuple(_having(bound, selected, scope) for bound in question.having),
        order=tuple((_place(place, selected, scope), falling) for place, falling in question.order),
        limit=None if question.limit is None else whole(question.limit, "LIMIT"),
    )
    return Query(schema.name, aggregates, presentation, scope.where, keys, nesting=_nesting(question, keys, aggregates))


def _nesting(question: Question, keys: Sequence[Key], aggregates: Sequence[Aggregate]) -> Nesting:
    if _is_histogram(question.items[0]):
        return "ranges"
    if not question.rollup:
        return ""
    if not keys or len(aggregates) != 1 or aggregates[0].function != "count":
        raise InvalidInput(
            "ROLLUP (a, b) gives one count of rows, COUNT(*) or COUNT(x), and its totals; "
            "ask for anything else with GROUP BY a, b"
        )
    return "rollup"


def _about_one(question: Question, scope: Scope) -> Query:
    """One column of one unit."""
    schema = scope.schema
    if not schema.individual_queries:
        raise InvalidInput(f"the custodian of {schema.name} has not allowed questions about one unit; ask an aggregate")
    plain = replace(question, items=(), unit=None) == Question(question.table, (), question.alias)
    what = question.items[0].what if len(question.items) == 1 else None
    if not (plain and isinstance(what, Name)):
        raise InvalidInput(f"a question about one unit is SELECT column FROM {schema.name} FOR UNIT '...', no more")
    column = scope.column(what)
    if column.private_keys:
        raise InvalidInput(f"the values of {column.name} are not public, so one unit's cannot be asked for")
    outputs = (Output(_label(question.items[0].alias or column.name)),)
    return Query(schema.name, (), Presentation(outputs), unit=question.unit, column=column.name)


def _selected(question: Question, scope: Scope) -> list[Meant]:
    """The columns of the reply, each with a name of its own."""
    if not question.items:
        raise InvalidInput("the SELECT list is empty; ask for an aggregate such as COUNT(*)")
    if any(_is_histogram(item) for item in question.items) and (len(question.items) > 1 or question.group):
        raise InvalidInput("HISTOGRAM stands alone in a question; beside others use GROUP BY BIN(x, width)")
    selected = [one for item in question.items for one in _named(item, meant(item.what, scope))]
    seen: set[str] = set()
    for one in selected:
        if one.label.casefold() in seen:
            raise InvalidInput(f"two columns of the reply are called {one.label[:40]!r}; name one with AS")
        seen.add(one.label.casefold())
    if all(isinstance(one.what, Key) for one in selected):
        raise InvalidInput("nothing is counted or measured; ask for an aggregate such as COUNT(*)")
    return selected


def _is_histogram(item: Item) -> bool:
    return isinstance(item.what, Call) and item.what.function == "HISTOGRAM"


def _named(item: Item, found: list[Meant]) -> list[Meant]:
    if item.alias and len(found) > 1:
        raise InvalidInput("AS names one column, and this gives several; ask for each by itself to name it")
    return [replace(one, label=_label(item.alias)) if item.alias else one for one in found]


def _label(text: str) -> str:
    if not text.isprintable() or len(text) > 200:
        raise InvalidInput("a column of the reply is named with at most 200 printable characters")
    return text


def _keys(question: Question, selected: Sequence[Meant], scope: Scope) -> tuple[Key, ...]:
    """The group keys in the order of the schema's columns, or of a ROLLUP; every key selected is one of them."""
    found = dict.fromkeys(_key(place, selected, scope) for place in question.group)
    if question.rollup and len(found) < len(question.group):
        raise InvalidInput("ROLLUP names a key twice; name each once")
    if _is_histogram(question.items[0]):
        found = dict.fromkeys(one.what for one in selected if isinstance(one.what, Key))
        _check_bins(next(iter(found)), scope.schema)
    for one in selected:
        if isinstance(one.what, Key) and one.what not in found:
            raise InvalidInput(f"{one.label[:40]!r} is neither an aggregate nor a group key; add it to GROUP BY")
    places = {column: place for place, column in enumerate(scope.schema.columns)}
    keys = tuple(found) if question.rollup else tuple(sorted(found, key=lambda key: places[key.column]))
    _check_cells(keys, scope.schema)
    return keys


def _key(place: Place, selected: Sequence[Meant], scope: Scope) -> Key:
    """A key by expression, by its place in the SELECT list or, where no column is called so, by its name there."""
    if isinstance(place, int) or (isinstance(place, Name) and not scope.has(place) and _labelled(place, selected)):
        found = [selected[_place(place, selected, scope)]]
    else:
        found = meant(place, scope)
    if len(found) > 1 or not isinstance(found[0].what, Key):
        raise InvalidInput("GROUP BY takes columns and BIN(x, width), not aggregates")
    return found[0].what


def _check_bins(key: Key, schema: Schema) -> None:
    """A missing value is a cell of its own beside the bins."""
    column = schema.column(key.column)
    most = MOST_CELLS - column.nullable
    if -(-column.size // key.width) > most:
        raise InvalidInput(f"this histogram has too many bins; ask for at most {most:,} bins of {column.name}")


def _check_cells(keys: Sequence[Key], schema: Schema) -> None:
    columns = [schema.column(key.column) for key in keys]
    if len({column.name for column in columns}) < len(columns):
        raise InvalidInput("a column is grouped by in two ways; group by it once")
    private = [column.name for column in columns if column.private_keys]
    if private and len(columns) > 1:
        raise InvalidInput(f"the values of {private[0]} are not public, so it must be the only group key")
    sizes = [-(-column.size // key.width) + column.nullable for column, key in zip(columns, keys, strict=True)]
    if math.prod(sizes) > MOST_CELLS:
        most = f"more than {MOST_CELLS} cells"
        raise InvalidInput(f"GROUP BY would make {most}; use fewer keys, or wider ones with BIN(x, width)")


def _merged(selected: Sequence[Meant]) -> tuple[Aggregate, ...]:
    """Each aggregate once, in order; the quantiles of one column together."""
    found: dict[Aggregate, set[Aggregate]] = {}
    for one in selected:
        if isinstance(one.what, Aggregate):
            found.setdefault(_bare(one.what), set()).add(one.what)
    merged = (
        replace(bare, orders=tuple(sorted(order for one in same for order in one.orders)))
        for bare, same in found.items()
    )
    return in_order(merged)


def _bare(aggregate: Aggregate) -> Aggregate:
    """What is measured at once: quantiles of all orders, but every trimmed mean by itself."""
    return replace(aggregate, orders=()) if aggregate.function == "quantile" else aggregate


def _output(one: Meant, keys: Sequence[Key], aggregates: Sequence[Aggregate]) -> Output:
    if isinstance(one.what, Key):
        return Output(one.label, key=keys.index(one.what))
    bare = _bare(one.what)
    place = next(at for at, merged in enumerate(aggregates) if _bare(merged) == bare)
    order = aggregates[place].orders.index(one.what.orders[0]) if one.what.orders else 0
    return Output(one.label, aggregate=place, order=order)


def _having(bound: Bound, selected: Sequence[Meant], scope: Scope) -> Having:
    place = _place(bound.of, selected, scope)
    what = selected[place].what
    if isinstance(what, Key):
        raise InvalidInput("HAVING compares aggregates with numbers; put a condition on a column into WHERE")
    column = None if what.column is None else scope.schema.column(what.column)
    if what.function not in {"count", "avg"} and column is not None and not column.numeric:
        raise InvalidInput(f"HAVING compares with a number; the values of {column.name} are not numbers")
    return Having(place, bound.comparison, bound.constant)


def _place(place: Place, selected: Sequence[Meant], scope: Scope) -> int:
    """Which column of the reply is meant, from 0: by its place, its name or its expression."""
    if isinstance(place, int):
        if not 1 <= place <= len(selected):
            raise InvalidInput(f"the SELECT list has places 1 to {len(selected)}, got {str(place)[:40]}")
        return place - 1
    if isinstance(place, Name) and (found := _labelled(place, selected)):
        return found[0]
    wanted = [one.what for one in meant(place, scope)]
    for at, one in enumerate(selected):
        if wanted == [one.what]:
            return at
    raise InvalidInput("HAVING and ORDER BY use what is selected; add that to the SELECT list, and name it with AS")


def _labelled(name: Name, selected: Sequence[Meant]) -> list[int]:
    return [at for at, one in enumerate(selected) if str(name).casefold() == one.label.casefold()]
