"""Protect a table by a method, inside the database where that is possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from numpy.typing import NDArray

from discreet.datasets.integrity import Progress
from discreet.errors import Internal, InvalidInput
from discreet.mechanisms.entropy import Entropy, KeyedEntropy
from discreet.privacy.guarantee import Guarantee
from discreet.query.scan import MISSING_CODE, AnatomyPlan, RankRuns, ReleaseBatch, ReleasePlan, SwapPlan
from discreet.release.files import Spool
from discreet.release.manifest import Labels
from discreet.release.methods import (
    Anatomy,
    Generalize,
    IrSwap,
    Mdav,
    MdavSwap,
    ProtectionRecipe,
    TCloseness,
)
from discreet.schema import Column, Schema
from discreet.sdc.table import (
    ABSENT,
    Attribute,
    Kind,
    ProtectedTable,
    Table,
    ValueType,
    check_informative,
    check_k,
    permute_within_groups,
)

if TYPE_CHECKING:
    from discreet.sources.protocol import Source

MAX_SWAPPED_COLUMNS = 6
"""Columns that one statement swaps: engines plan much longer for more."""


Codes = Mapping[str, NDArray[np.generic]]
"""The codes of the columns of a snapshot, by name."""


def build_code_table(schema: Schema, codes: Codes) -> Table:
    """Build a table from the codes of its columns."""
    return Table({name: build_attribute(schema.columns[name], values) for name, values in codes.items()})


def build_attribute(column: Column, codes: NDArray[np.generic]) -> Attribute:
    """Build one column; the categories of one with private keys are the values that it has."""
    if column.private_keys:
        return _build_text_attribute(column, codes)
    absent = codes == MISSING_CODE
    if column.categories:
        places = np.where(absent, ABSENT, codes).astype(np.int64)
        kind: Kind = "ordinal" if column.kind == "ordinal" else "nominal"
        value_type: ValueType = "truth" if column.kind == "boolean" else "text"
        upper = float(len(column.categories) - 1)
        return Attribute(column.name, kind, places, column.categories, column.taxonomy, 0.0, upper, value_type)
    lower, upper = (float(column.step * end) for end in (column.lower, column.upper))
    values = np.where(absent, np.nan, codes.astype(np.float64))
    numbers = values * column.step.numerator / column.step.denominator
    number_type: ValueType = "integer" if column.step.denominator == 1 else "number"
    value_type = "date" if column.kind == "date" else number_type
    return Attribute(column.name, "numeric", numbers, lower=lower, upper=upper, value_type=value_type)


def _build_text_attribute(column: Column, texts: NDArray[np.generic]) -> Attribute:
    categories = tuple(sorted({text for text in texts.tolist() if text is not None}))
    places: dict[str | None, int] = {text: place for place, text in enumerate(categories)} | {None: ABSENT}
    values = np.array([places[text] for text in texts.tolist()], dtype=np.int64)
    upper = float(max(len(categories) - 1, 0))
    return Attribute(column.name, "nominal", values, categories, None, 0.0, upper, "text")


def sort_rows_by_codes(codes: Codes) -> NDArray[np.int64]:
    """Return the rows sorted by all their codes: an order in which only equal rows can be exchanged."""
    keys: list[NDArray[np.generic]] = []
    for values in codes.values():
        if values.dtype == object:  # texts, or none
            absent = np.array([text is None for text in values], dtype=bool)
            keys += [absent, np.where(absent, "", values).astype(str)]
        else:
            keys.append(values)
    return np.lexsort(keys[::-1])


def rank_rows_by_codes(codes: Codes) -> NDArray[np.int64]:
    """Return the place of every row in the order of `sort_rows_by_codes`."""
    order = sort_rows_by_codes(codes)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


def concatenate_originals(batches: Iterable[ReleaseBatch]) -> dict[str, NDArray[np.generic]]:
    """Concatenate the original codes of batches; no columns at all where there are no rows."""
    parts = [batch.original for batch in batches]
    return {name: np.concatenate([part[name] for part in parts]) for name in (parts[0] if parts else ())}


@dataclass(frozen=True, slots=True, eq=False)
class ProtectedRelease:
    """A release in its final order: row i of `released` was made of row i of `original`.

    `rows` are the places of the rows among all of the snapshot, sorted by their codes.
    """

    original: Table
    released: Table
    groups: Labels
    second: Table | None
    guarantee: Guarantee
    facts: Mapping[str, object]
    rows: NDArray[np.int64]


def read_records(schema: Schema, source: Source) -> Table:
    """Read all rows of the snapshot."""
    return build_code_table(schema, _read_codes(schema, source))


def _read_codes(schema: Schema, source: Source) -> Codes:
    codes = concatenate_originals(source.records())
    if not codes:
        raise InvalidInput(f"{schema.name} has no rows, so there is nothing to release")
    return codes


def protect_in_memory(
    recipe: ProtectionRecipe, schema: Schema, source: Source, key: bytes, progress: Progress
) -> ProtectedRelease:
    """Read all rows, protect them, and put them in random order."""
    codes = _read_codes(schema, source)
    table = build_code_table(schema, codes)
    check_k(recipe.method.k, table.rows)
    for name in (*recipe.quasi, *recipe.confidential):
        check_informative(table[name])
    progress("protecting")
    protected = protect_table(recipe, table, KeyedEntropy(key, "protect"))
    order = permute_within_groups(np.zeros(len(protected.source_rows), dtype=np.int64), KeyedEntropy(key, "order"))
    kept_rows = protected.source_rows[order]
    unchanged_columns = {name: table[name].take(protected.source_rows) for name in recipe.method.keep}
    return ProtectedRelease(
        table.select(recipe.columns).take(kept_rows),
        select_released_columns(recipe, unchanged_columns, protected).take(order),
        {name: labels[order] for name, labels in protected.groups.items()},
        *(protected.second, protected.guarantee, protected.facts),
        rank_rows_by_codes(codes)[kept_rows],
    )


def select_released_columns(
    recipe: ProtectionRecipe, records: Mapping[str, Attribute], protected: ProtectedTable
) -> Table:
    """Select the columns that leave: those of the recipe, and what a method adds, such as the number of a group.

    `records` are row by row those that the protected table was made of.
    """
    protected_table, only_used = protected.table, set(recipe.used_columns) - set(recipe.columns)
    unchanged_columns = {name: records[name] for name in recipe.method.keep}
    return Table({name: protected_table[name] for name in protected_table if name not in only_used} | unchanged_columns)


def protect_table(recipe: ProtectionRecipe, records: Table, entropy: Entropy) -> ProtectedTable:
    """Protect the recipe's columns, row by row those of the records but for rows left out."""
    from discreet.sdc.methods.anatomy import anatomy
    from discreet.sdc.methods.generalize import generalize
    from discreet.sdc.methods.swap import ir_swap, mdav_id, mdav_swap
    from discreet.sdc.methods.t_closeness import t_close

    table = records.select(tuple(dict.fromkeys((*recipe.columns, *recipe.used_columns))))
    roles = (recipe.quasi, recipe.confidential)
    match recipe.method:
        case Mdav(k=k) as method:
            return mdav_id(table, k, recipe.quasi, **_list_grouping_options(method), entropy=entropy)
        case MdavSwap(swap=swap, diversity=diversity) as method:
            sizes, intruder = _get_sizes(recipe, method), "informed" if method.informed else "uninformed"
            grouping = _list_grouping_options(method)
            return mdav_swap(
                table, sizes, *roles, intruder=intruder, swap=swap, diversity=diversity, **grouping, entropy=entropy
            )
        case IrSwap(diversity=diversity, strata=strata) as method:
            sizes = _get_sizes(recipe, method)
            return ir_swap(table, sizes, recipe.confidential, diversity=diversity, strata=strata, entropy=entropy)
        case Anatomy(k=k, partition=partition, diversity=diversity) as method:
            grouping = _list_grouping_options(method)
            return anatomy(table, k, *roles, partition=partition, diversity=diversity, **grouping, entropy=entropy)
        case TCloseness(t=t, k=k, form=form) as method:
            return t_close(table, t, k, *roles, **_list_bucket_options(method), form=form, entropy=entropy)
        case Generalize(k=k, hierarchies=hierarchies, loss=loss, suppress=suppress):
            return generalize(
                table, k, recipe.quasi, hierarchies, loss=loss, suppress=suppress, confidential=recipe.confidential
            )
        case _:
            raise Internal("a method of disclosure control without code")


class GroupingKeywords(TypedDict):
    """How the methods that form groups of near rows are told to."""

    method: str
    weights: str | None
    strata: str | None


class BucketKeywords(TypedDict):
    """How the buckets of t-closeness are counted, where that is stated."""

    buckets: int | None
    groups_per_bucket: int | None


def _list_grouping_options(method: Mdav | MdavSwap | Anatomy) -> GroupingKeywords:
    return {"method": method.grouping, "weights": method.weights, "strata": method.strata}


def _list_bucket_options(method: TCloseness) -> BucketKeywords:
    return {"buckets": method.buckets, "groups_per_bucket": method.groups_per_bucket}


def _get_sizes(recipe: ProtectionRecipe, method: MdavSwap | IrSwap) -> int | dict[str, int]:
    """The k of each confidential column, where some have their own."""
    return {name: method.ks.get(name, method.k) for name in recipe.confidential} if method.ks else method.k


@dataclass(frozen=True, slots=True, eq=False)
class EngineReply:
    """What an engine returned, spooled: the records in their final order, the changed columns, and the groups."""

    table: Table
    changed: Labels
    groups: Labels
    spool: Spool


EngineMethod = tuple[Sequence[ReleasePlan], Callable[[EngineReply, Entropy], ProtectedTable]]
"""The statements for the engine, one after another, and how its reply becomes a release."""


def protect_in_engine(
    recipe: ProtectionRecipe, schema: Schema, source: Source, key: bytes, spool: Spool, progress: Progress
) -> ProtectedRelease | None:
    """Make the release inside the engine, which returns it in batches; None if an engine cannot make it."""
    columns = [schema.columns[name] for name in recipe.confidential]
    plan_method = _choose_planner(recipe)
    if plan_method is None or not all(map(_is_ordered, columns)):
        return None
    rows = source.count()
    check_k(recipe.method.k, rows)
    engine_method = plan_method(schema, rows)
    if engine_method is None:
        return None
    plans, finish = engine_method
    progress("protecting")
    codes, reply = _spool_replies(recipe, schema, [source.release_rows(plan, key.hex()) for plan in plans], rows, spool)
    for name in (*recipe.quasi, *recipe.confidential):
        check_informative(reply.table[name])
    protected = finish(reply, KeyedEntropy(key, "finish"))
    return ProtectedRelease(
        reply.table,
        select_released_columns(recipe, reply.table.attributes, protected),
        *(protected.groups, protected.second, protected.guarantee, protected.facts),
        spool.store_array(rank_rows_by_codes(codes)),
    )


def _spool_replies(
    recipe: ProtectionRecipe, schema: Schema, replies: Sequence[Iterable[ReleaseBatch]], rows: int, spool: Spool
) -> tuple[Codes, EngineReply]:
    """All codes, and the reply with the recipe's columns; rows are in the same order in all replies."""
    arrays: dict[tuple[int, str], NDArray[np.generic]] = {}

    def split_batch(batch: ReleaseBatch) -> dict[tuple[int, str], NDArray[np.generic]]:
        """The columns by part and name; the original codes are taken from the first reply."""
        parts = ({} if arrays else batch.original, batch.changed, batch.groups)
        return {(part, name): values for part, columns in enumerate(parts) for name, values in columns.items()}

    for batches in replies:
        arrays |= spool.gather_columns(map(split_batch, batches), rows)
    codes, *numbers = ({name: arrays[i, name] for i, name in arrays if i == part} for part in range(3))
    changed, groups = (
        {name: values.astype(np.int64, copy=False) for name, values in columns.items()} for columns in numbers
    )
    attributes = (build_attribute(schema.columns[name], codes[name]) for name in recipe.columns)
    table = Table({attribute.name: spool.store_attribute(attribute) for attribute in attributes})
    return codes, EngineReply(table, changed, groups, spool)


def _is_ordered(column: Column) -> bool:
    """Whether the order of its codes is that of its values."""
    return column.is_ordered and column.kind != "boolean"


def _plan_swap(recipe: ProtectionRecipe, method: IrSwap, schema: Schema, rows: int) -> EngineMethod:
    from discreet.sdc.methods.partition import summarize_group_sizes
    from discreet.sdc.methods.swap import RANK_ASSUMPTION, build_swap_guarantee

    min_sizes = {name: check_k((method.ks or {}).get(name, method.k), rows) for name in recipe.confidential}

    def finish(reply: EngineReply, _: Entropy) -> ProtectedTable:
        attributes = (build_attribute(schema.columns[name], reply.changed[name]) for name in min_sizes)
        table = reply.table.put(*map(reply.spool.store_attribute, attributes))
        guarantee, facts = build_swap_guarantee(min_sizes, RANK_ASSUMPTION), summarize_group_sizes(reply.groups)
        return ProtectedTable(table, guarantee, reply.groups, np.arange(rows), facts=facts)

    runs = [(name, RankRuns.both_ends(rows, k)) for name, k in min_sizes.items()]
    chunks = [tuple(runs[first : first + MAX_SWAPPED_COLUMNS]) for first in range(0, len(runs), MAX_SWAPPED_COLUMNS)]
    return [SwapPlan(chunk) for chunk in chunks], finish


def _plan_anatomy(recipe: ProtectionRecipe, method: Anatomy, _: Schema, rows: int) -> EngineMethod | None:
    from discreet.sdc.methods.anatomy import anatomize_groups

    if len(recipe.confidential) > 1 or method.partition == "quasi":
        return None

    def finish(reply: EngineReply, entropy: Entropy) -> ProtectedTable:
        groups = reply.groups["records"]
        return anatomize_groups(reply.table, recipe.quasi, recipe.confidential, method.k, groups, entropy)

    return [AnatomyPlan(recipe.confidential[0], RankRuns.both_ends(rows, method.k))], finish


def _plan_buckets(recipe: ProtectionRecipe, method: TCloseness, _: Schema, rows: int) -> EngineMethod | None:
    from discreet.sdc.methods.bucket_feasibility import choose_bucketing, compute_cut_sizes
    from discreet.sdc.methods.t_closeness import (
        ClosenessRequest,
        GroupAssignment,
        build_t_close_release,
        plan_bucketization,
        plan_buckets,
    )

    if len(recipe.confidential) > 1:
        return None
    bucket_options = _list_bucket_options(method)
    wish = ClosenessRequest.of(method.t, method.k, **bucket_options)
    arrangement = plan_buckets(wish, rows, lambda count: compute_cut_sizes(rows, count))
    plan = plan_bucketization(recipe.confidential[0], rows, method.t, method.k, **bucket_options, form=method.form)

    def finish(reply: EngineReply, entropy: Entropy) -> ProtectedTable:
        values = reply.table.select(recipe.confidential)
        carried = reply.changed[recipe.confidential[0]]
        bucket_labels = choose_bucketing(values)(arrangement.requested_buckets) if plan.hidden else carried
        partition = GroupAssignment(bucket_labels, reply.groups["records"], carried if plan.hidden else None)
        return build_t_close_release(reply.table.select(recipe.quasi), values, wish, arrangement, partition, entropy)

    return [plan], finish


def _choose_planner(recipe: ProtectionRecipe) -> Callable[[Schema, int], EngineMethod | None] | None:
    """The planner of the statements, if engines know the method."""
    match recipe.method:
        case IrSwap(strata=None, diversity=None) as method:
            return partial(_plan_swap, recipe, method)
        case Anatomy(strata=None, diversity=None) as method:
            return partial(_plan_anatomy, recipe, method)
        case TCloseness() as method:
            return partial(_plan_buckets, recipe, method)
        case _:
            return None
