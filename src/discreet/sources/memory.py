"""A snapshot in memory: the plain loops that every engine must agree with."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from discreet.query import scan
from discreet.query.predicates import TRUE, Predicate, is_satisfied
from discreet.schema import Schema
from discreet.sources.ingest.memory import UNIT_KEY
from discreet.sources.protocol import BatchShape, require_one_row_each, require_rankable

Value = int | str | None
SnapshotRow = Mapping[str, Value]
HashOrder = Callable[[str, Iterable[int]], list[int]]
"""Rows, put in the order of the hash that is for a purpose."""


def sort_snapshot_rows(schema: Schema, rows: Sequence[SnapshotRow]) -> list[SnapshotRow]:
    """The rows by their unit's bytes and then by all codes in the order of the schema, missing ones last."""
    return sorted(rows, key=lambda row: [_make_sort_key(row[name]) for name in _list_row_keys(schema)])


def release_in_memory(
    plan: scan.ReleasePlan, key: str, schema: Schema, rows: Sequence[SnapshotRow]
) -> list[list[Value]]:
    """The codes of every row, those that were changed, and the labels of groups, in the order of a hash."""
    sorted_rows = sort_snapshot_rows(schema, rows)
    texts = _encode_rows(sorted_rows, schema)

    def sort_by_hash(purpose: str, indices: Iterable[int]) -> list[int]:
        return sorted(indices, key=lambda i: sha256(f"{key}|{purpose}|".encode() + texts[i]).digest())

    columns = [[row[name] for row in sorted_rows] for name in schema.columns]
    columns += _apply_plan(plan, sorted_rows, schema, sort_by_hash)
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


def _apply_plan(
    plan: scan.ReleasePlan, rows: Sequence[SnapshotRow], schema: Schema, order: HashOrder
) -> list[list[Value]]:
    match plan:
        case scan.SwapPlan():
            return _swap_columns(plan, rows, schema, order)
        case scan.AnatomyPlan():
            return [plan.runs.compute_labels(_compute_ranks(rows, plan.column, schema)).tolist()]
        case scan.TClosenessPlan():
            return _assign_buckets(plan, rows, schema, order)


def _swap_columns(
    plan: scan.SwapPlan, rows: Sequence[SnapshotRow], schema: Schema, order: HashOrder
) -> list[list[Value]]:
    swapped_columns, labels = [], []
    for name, runs in plan.runs:
        ranks = _compute_ranks(rows, name, schema)
        groups = runs.compute_labels(ranks).tolist()
        purpose = f"swap {list(schema.columns).index(name)}"
        swapped_columns.append(_permute_in_groups([row[name] for row in rows], ranks, groups, purpose, order))
        labels.append(groups)
    return [*swapped_columns, *labels]


def _assign_buckets(
    plan: scan.TClosenessPlan, rows: Sequence[SnapshotRow], schema: Schema, order: HashOrder
) -> list[list[Value]]:
    ranks = _compute_ranks(rows, plan.column, schema)
    buckets = [bisect_right(plan.cuts, rank) for rank in ranks.tolist()]
    places = [0] * len(rows)
    for members in _group_by_label(buckets):
        for place, i in enumerate(order("deal", members)):
            places[i] = place
    groups = scan.assign_groups(plan.deals, np.array(buckets, np.int64), np.array(places, np.int64)).tolist()
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
    return value is None, 0 if value is None else _encode_text(value) if isinstance(value, str) else value


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _list_row_keys(schema: Schema) -> list[str]:
    return [*([] if schema.unit is None else [UNIT_KEY]), *schema.columns]


class MemorySource:
    """A `Source` of rows by column name; the unit's name, where the schema has units, under `#unit`."""

    def __init__(self, schema: Schema, rows: Sequence[SnapshotRow]) -> None:
        self._schema = schema
        self._rows = rows

    def totals(self, plan: scan.TotalsScan) -> Mapping[scan.Cell, scan.Amounts]:
        cells = self._group_rows(plan.keys, plan.where)
        return {cell: tuple(self._amount(measure, rows) for measure in plan.measures) for cell, rows in cells.items()}

    def histogram(self, plan: scan.HistogramScan) -> Mapping[scan.Cell, NDArray[np.int64]]:
        histograms = {}
        for cell, rows in self._group_rows(plan.keys, plan.where).items():
            histograms[cell] = counts = np.zeros(plan.count, np.int64)
            for row in rows:
                bin_index = _compute_key(plan.bins, row)
                if isinstance(bin_index, int) and 0 <= bin_index < plan.count:
                    counts[bin_index] += 1
        return histograms

    def individual(self, column: str, unit: str) -> int | None:
        require_one_row_each(self._schema)
        codes = [row[column] for row in self._rows if row[UNIT_KEY] == unit]
        return next((code for code in codes if isinstance(code, int)), None)

    def count(self) -> int:
        return len(self._rows)

    def records(self) -> Iterator[scan.ReleaseBatch]:
        rows = sort_snapshot_rows(self._schema, self._rows)
        value_rows = [[row[name] for name in self._schema.columns] for row in rows]
        return BatchShape.for_records(self._schema).build_batches(iter([value_rows]))

    def release_rows(self, plan: scan.ReleasePlan, key: str) -> Iterator[scan.ReleaseBatch]:
        value_rows = release_in_memory(plan, key, self._schema, self._rows)
        return BatchShape.for_release(plan, self._schema).build_batches(iter([value_rows]))

    def close(self) -> None:
        """There is nothing to let go of."""

    def _group_rows(self, keys: Sequence[scan.ScanKey], where: Predicate) -> dict[scan.Cell, list[SnapshotRow]]:
        cells: dict[scan.Cell, list[SnapshotRow]] = {} if keys else {(): []}
        for row in _filter_rows(self._rows, where):
            cells.setdefault(tuple(_compute_key(key, row) for key in keys), []).append(row)
        return cells

    def _amount(self, measure: scan.ScanMeasure, cell_rows: Sequence[SnapshotRow]) -> int:
        rows = _filter_rows(cell_rows, measure.where)
        values = [row[measure.column] for row in rows] if measure.column else []
        codes = [value - measure.lower for value in values if isinstance(value, int)]
        match measure.what:
            case "rows":
                return len(rows)
            case "units":
                has_several_rows = self._schema.unit is not None and self._schema.rows > 1
                return len({row[UNIT_KEY] for row in rows}) if has_several_rows else len(rows)
            case "present":
                return sum(value is not None for value in values)
            case "sum":
                return sum(codes)
            case "squares":
                return sum(code * code for code in codes)


def _filter_rows(rows: Sequence[SnapshotRow], where: Predicate) -> Sequence[SnapshotRow]:
    return rows if where == TRUE else [row for row in rows if is_satisfied(where, row)]


def _compute_key(key: scan.ScanKey, row: SnapshotRow) -> int | str | None:
    value = row[key.column]
    if isinstance(key, scan.TextKey) or not isinstance(value, int):
        return value
    return sum(cut <= value for cut in key.cuts) if isinstance(key, scan.CutKey) else (value - key.lower) // key.width
