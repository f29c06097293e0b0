"""A plan of a release followed in plain loops: what every engine must agree with."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from discreet.query.released import AnatomyPlan, ReleasePlan, SwapPlan, TClosenessPlan, assign_groups
from discreet.schema import Schema
from discreet.sources.plan import require_rankable

Value = int | str | None
SnapshotRow = Mapping[str, Value]
HashOrder = Callable[[str, Iterable[int]], list[int]]
"""Rows, put in the order of the hash that is for a purpose."""
UNIT_KEY = "#unit"


def sort_snapshot_rows(schema: Schema, rows: Sequence[SnapshotRow]) -> list[SnapshotRow]:
    """The rows by their unit's bytes and then by all codes in the order of the schema, missing ones last."""
    return sorted(rows, key=lambda row: [_make_sort_key(row[name]) for name in _list_row_keys(schema)])


def release_in_memory(plan: ReleasePlan, key: str, schema: Schema, rows: Sequence[SnapshotRow]) -> list[list[Value]]:
    """The codes of every row, those that were changed, and the labels of groups, in the order of a hash."""
    sorted_rows = sort_snapshot_rows(schema, rows)
    texts = _encode_rows(sorted_rows, schema)

    def sort_by_hash(purpose: str, indices: Iterable[int]) -> list[int]:
        return sorted(indices, key=lambda i: sha256(f"{key}|{purpose}|".encode() + texts[i]).digest())

    columns = [[row[name] for row in sorted_rows] for name in schema.columns] + _apply_plan(
        plan, sorted_rows, schema, sort_by_hash
    )
    return [[column[i] for column in columns] for i in sort_by_hash("order", range(len(sorted_rows)))]


def _encode_rows(rows: Sequence[SnapshotRow], schema: Schema) -> list[bytes]:
    """What is hashed of each row: which of the rows like it this is, and the row itself."""
    occurrences: Counter[bytes] = Counter()
    texts = []
    for row in rows:
        text = b"|".join(_encode_value(row[name]) for name in _list_row_keys(schema))
        occurrences[text] += 1
        texts.append(b"%d|%b" % (occurrences[text], text))
    return texts


def _encode_value(value: Value) -> bytes:
    """A text after its length, so that different rows have different joined texts."""
    if isinstance(value, str):
        return b"%d:%b" % (len(_encode_text(value)), _encode_text(value))
    return b"" if value is None else b"%d" % value


def _apply_plan(plan: ReleasePlan, rows: Sequence[SnapshotRow], schema: Schema, order: HashOrder) -> list[list[Value]]:
    match plan:
        case SwapPlan():
            return _swap_columns(plan, rows, schema, order)
        case AnatomyPlan():
            return [plan.runs.compute_labels(_compute_ranks(rows, plan.column, schema)).tolist()]
        case TClosenessPlan():
            return _assign_buckets(plan, rows, schema, order)


def _swap_columns(plan: SwapPlan, rows: Sequence[SnapshotRow], schema: Schema, order: HashOrder) -> list[list[Value]]:
    swapped_columns, labels = [], []
    for name, runs in plan.runs:
        ranks = _compute_ranks(rows, name, schema)
        groups = runs.compute_labels(ranks).tolist()
        purpose = f"swap {list(schema.columns).index(name)}"
        swapped_columns.append(_permute_in_groups([row[name] for row in rows], ranks, groups, purpose, order))
        labels.append(groups)
    return [*swapped_columns, *labels]


def _assign_buckets(
    plan: TClosenessPlan, rows: Sequence[SnapshotRow], schema: Schema, order: HashOrder
) -> list[list[Value]]:
    ranks = _compute_ranks(rows, plan.column, schema)
    buckets = [bisect_right(plan.cuts, rank) for rank in ranks.tolist()]
    places = [0] * len(rows)
    for members in _group_by_label(buckets):
        for place, i in enumerate(order("deal", members)):
            places[i] = place
    groups = assign_groups(plan.deals, np.array(buckets, np.int64), np.array(places, np.int64)).tolist()
    return [_permute_in_groups(buckets, ranks, groups, "swap", order) if plan.hidden else buckets, groups]


def _compute_ranks(rows: Sequence[SnapshotRow], name: str, schema: Schema) -> NDArray[np.int64]:
    """The place of each row by one column's codes; rows alike there stay as they are, in the one order of all rows."""
    require_rankable(schema, name)
    ranks = np.zeros(len(rows), np.int64)
    ranks[sorted(range(len(rows)), key=lambda i: _make_sort_key(rows[i][name]))] = range(len(rows))
    return ranks


def _permute_in_groups(
    values: Sequence[Value], ranks: NDArray[np.int64], groups: Sequence[int], purpose: str, order: HashOrder
) -> list[Value]:
    """The row at each place by hash in its group takes the value of the row at that place by rank."""
    permuted_values: list[Value] = [None] * len(values)
    for members in _group_by_label(groups):
        for i, j in zip(order(purpose, members), sorted(members, key=lambda i: int(ranks[i])), strict=True):
            permuted_values[i] = values[j]
    return permuted_values


def _group_by_label(labels: Sequence[int]) -> Iterable[list[int]]:
    members: dict[int, list[int]] = {}
    for i, label in enumerate(labels):
        members.setdefault(label, []).append(i)
    return members.values()


def _make_sort_key(value: Value) -> tuple[bool, int | bytes]:
    """What a value is sorted by."""
    return value is None, 0 if value is None else _encode_text(value) if isinstance(value, str) else value


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _list_row_keys(schema: Schema) -> list[str]:
    return [*([] if schema.unit is None else [UNIT_KEY]), *schema.columns]
