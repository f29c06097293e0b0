"""A plan of a release followed in plain loops: what every engine must agree with."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from discreet.query.released import Anatomise, Bucketise, ReleasePlan, Swap, dealt
from discreet.schema import Schema
from discreet.sources.plan import require_ranked

Value = int | str | None
Row = Mapping[str, Value]
Order = Callable[[str, Iterable[int]], list[int]]
"""Rows, put in the order of the hash that is for a purpose."""
UNIT = "#unit"


def in_order(schema: Schema, rows: Sequence[Row]) -> list[Row]:
    """The rows by their unit's bytes and then by all codes in the order of the schema, missing ones last."""
    return sorted(rows, key=lambda row: [_place(row[name]) for name in _names(schema)])


def released(plan: ReleasePlan, key: str, schema: Schema, rows: Sequence[Row]) -> list[list[Value]]:
    """The codes of every row, those that were changed, and the labels of groups, in the order of a hash."""
    own = in_order(schema, rows)
    texts = _texts(own, schema)

    def order(purpose: str, some: Iterable[int]) -> list[int]:
        return sorted(some, key=lambda i: sha256(f"{key}|{purpose}|".encode() + texts[i]).digest())

    columns = [[row[name] for row in own] for name in schema.columns] + _made(plan, own, schema, order)
    return [[column[i] for column in columns] for i in order("order", range(len(own)))]


def _texts(rows: Sequence[Row], schema: Schema) -> list[bytes]:
    """What is hashed of each row: which of the rows like it this is, and the row itself."""
    seen: Counter[bytes] = Counter()
    texts = []
    for row in rows:
        text = b"|".join(_part(row[name]) for name in _names(schema))
        seen[text] += 1
        texts.append(b"%d|%b" % (seen[text], text))
    return texts


def _part(value: Value) -> bytes:
    """A text after its length, so that different rows have different joined texts."""
    if isinstance(value, str):
        return b"%d:%b" % (len(_bytes(value)), _bytes(value))
    return b"" if value is None else b"%d" % value


def _made(plan: ReleasePlan, rows: Sequence[Row], schema: Schema, order: Order) -> list[list[Value]]:
    match plan:
        case Swap():
            return _swapped(plan, rows, schema, order)
        case Anatomise():
            return [plan.runs.label(_ranks(rows, plan.column, schema)).tolist()]
        case Bucketise():
            return _bucketised(plan, rows, schema, order)


def _swapped(plan: Swap, rows: Sequence[Row], schema: Schema, order: Order) -> list[list[Value]]:
    swapped, labels = [], []
    for name, runs in plan.runs:
        ranks = _ranks(rows, name, schema)
        groups = runs.label(ranks).tolist()
        purpose = f"swap {list(schema.columns).index(name)}"
        swapped.append(_permuted([row[name] for row in rows], ranks, groups, purpose, order))
        labels.append(groups)
    return [*swapped, *labels]


def _bucketised(plan: Bucketise, rows: Sequence[Row], schema: Schema, order: Order) -> list[list[Value]]:
    ranks = _ranks(rows, plan.column, schema)
    buckets = [bisect_right(plan.cuts, rank) for rank in ranks.tolist()]
    places = [0] * len(rows)
    for members in _members(buckets):
        for place, i in enumerate(order("deal", members)):
            places[i] = place
    groups = dealt(plan.deals, np.array(buckets, np.int64), np.array(places, np.int64)).tolist()
    return [_permuted(buckets, ranks, groups, "swap", order) if plan.hidden else buckets, groups]


def _ranks(rows: Sequence[Row], name: str, schema: Schema) -> NDArray[np.int64]:
    """The place of each row by one column's codes; rows alike there stay as they are, in the one order of all rows."""
    require_ranked(schema, name)
    ranks = np.zeros(len(rows), np.int64)
    ranks[sorted(range(len(rows)), key=lambda i: _place(rows[i][name]))] = range(len(rows))
    return ranks


def _permuted(
    values: Sequence[Value], ranks: NDArray[np.int64], groups: Sequence[int], purpose: str, order: Order
) -> list[Value]:
    """The row at each place by hash in its group takes the value of the row at that place by rank."""
    permuted: list[Value] = [None] * len(values)
    for members in _members(groups):
        for i, j in zip(order(purpose, members), sorted(members, key=lambda i: int(ranks[i])), strict=True):
            permuted[i] = values[j]
    return permuted


def _members(labels: Sequence[int]) -> Iterable[list[int]]:
    members: dict[int, list[int]] = {}
    for i, label in enumerate(labels):
        members.setdefault(label, []).append(i)
    return members.values()


def _place(value: Value) -> tuple[bool, int | bytes]:
    """What a value is sorted by."""
    return value is None, 0 if value is None else _bytes(value) if isinstance(value, str) else value


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _names(schema: Schema) -> list[str]:
    return [*([] if schema.unit is None else [UNIT]), *schema.columns]
