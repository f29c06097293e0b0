"""Protect a table by a method, inside the database where that is possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.datasets.registration import Progress
from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import Entropy, KeyedEntropy
from discreet.privacy.guarantee import Guarantee
from discreet.query.scan import AnatomyPlan, RankRuns, ReleaseBatch, ReleasePlan, SwapPlan
from discreet.release.files import Spool
from discreet.release.manifest import Labels
from discreet.release.methods import ProtectionRecipe
from discreet.release.original_records import (
    Codes,
    build_attribute,
    build_code_table,
    concatenate_originals,
    rank_rows_by_codes,
)
from discreet.schema import Column, Schema
from discreet.sdc.table import Attribute, ProtectedTable, Table, check_informative, check_k, permute_within_groups

if TYPE_CHECKING:
    from discreet.sources.protocol import Source

MAX_SWAPPED_COLUMNS = 6
"""Columns that one statement swaps: engines plan much longer for more."""


@dataclass(frozen=True, slots=True, eq=False)
class ProtectedRelease:
    """A release in its final order: row i of `released` was made of row i of `original`.

    `rows` are the places of the rows among all `snapshot_rows` of the snapshot, sorted by their codes.
    """

    original: Table
    released: Table
    groups: Labels
    second: Table | None
    guarantee: Guarantee
    facts: Mapping[str, object]
    rows: NDArray[np.int64]
    snapshot_rows: int


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
    check_k(recipe.k, table.rows)
    for name in (*recipe.quasi, *recipe.confidential):
        check_informative(table[name])
    progress("protecting")
    protected = protect_table(recipe, table, KeyedEntropy(key, "protect"))
    order = permute_within_groups(np.zeros(len(protected.source_rows), dtype=np.int64), KeyedEntropy(key, "order"))
    kept_rows = protected.source_rows[order]
    unchanged_columns = {name: table[name].take(protected.source_rows) for name in recipe.keep}
    return ProtectedRelease(
        table.select(recipe.columns).take(kept_rows),
        select_released_columns(recipe, unchanged_columns, protected).take(order),
        {name: labels[order] for name, labels in protected.groups.items()},
        *(protected.second, protected.guarantee, protected.facts),
        rank_rows_by_codes(codes)[kept_rows],
        table.rows,
    )


def select_released_columns(
    recipe: ProtectionRecipe, records: Mapping[str, Attribute], protected: ProtectedTable
) -> Table:
    """Select the columns that leave: those of the recipe, and what a method adds, such as the number of a group.

    `records` are row by row those that the protected table was made of.
    """
    protected_table, only_used = protected.table, {recipe.weights, recipe.strata} - set(recipe.columns)
    unchanged_columns = {name: records[name] for name in recipe.keep}
    return Table({name: protected_table[name] for name in protected_table if name not in only_used} | unchanged_columns)


def protect_table(recipe: ProtectionRecipe, records: Table, entropy: Entropy) -> ProtectedTable:
    """Protect the recipe's columns, row by row those of the records but for rows left out."""
    extra_columns = (name for name in (recipe.weights, recipe.strata) if name is not None)
    table = records.select(tuple(dict.fromkeys((*recipe.columns, *extra_columns))))
    random_options: dict[str, Any] = {"strata": recipe.strata, "entropy": entropy}
    grouping_options = random_options | {"method": recipe.grouping, "weights": recipe.weights}
    k: int | dict[str, int] = recipe.k
    if recipe.ks:
        k = {name: recipe.ks.get(name, recipe.k) for name in recipe.confidential}
    roles = recipe.quasi, recipe.confidential
    match recipe.method:
        case "mdav":
            from discreet.sdc.methods.swap import mdav_id

            return mdav_id(table, recipe.k, recipe.quasi, **grouping_options)
        case "mdav-swap":
            from discreet.sdc.methods.swap import mdav_swap

            intruder = "informed" if recipe.informed else "uninformed"
            grouping_options |= {"intruder": intruder, "swap": recipe.swap, "diversity": recipe.diversity}
            return mdav_swap(table, k, *roles, **grouping_options)
        case "ir-swap":
            from discreet.sdc.methods.swap import ir_swap

            return ir_swap(table, k, recipe.confidential, diversity=recipe.diversity, **random_options)
        case "anatomy":
            from discreet.sdc.methods.anatomy import anatomy

            grouping_options |= {"partition": recipe.partition, "diversity": recipe.diversity}
            return anatomy(table, recipe.k, *roles, **grouping_options)
        case "t-closeness":
            from discreet.sdc.methods.t_closeness import t_close

            buckets: dict[str, Any] = {"buckets": recipe.buckets, "groups_per_bucket": recipe.groups_per_bucket}
            return t_close(table, recipe.t, recipe.k, *roles, **buckets, form=recipe.form, entropy=entropy)
        case _:
            from discreet.sdc.methods.generalize import generalize

            limits: dict[str, Any] = {"loss": recipe.loss, "suppress": recipe.suppress}
            limits["confidential"] = recipe.confidential
            return generalize(table, recipe.k, recipe.quasi, recipe.hierarchies, **limits)


@dataclass(frozen=True, slots=True, eq=False)
class EngineReply:
    """What an engine returned, spooled: the records in their final order, the changed columns, and the groups."""

    table: Table
    changed: Codes
    groups: Labels
    spool: Spool


EngineMethod = tuple[Sequence[ReleasePlan], Callable[[EngineReply, Entropy], ProtectedTable]]
"""The statements for the engine, one after another, and how its reply becomes a release."""


def protect_in_engine(
    recipe: ProtectionRecipe, schema: Schema, source: Source, key: bytes, spool: Spool, progress: Progress
) -> ProtectedRelease | None:
    """Make the release inside the engine, which returns it in batches; None if an engine cannot make it."""
    columns = [schema.columns[name] for name in recipe.confidential]
    if recipe.method not in ENGINE_METHODS or recipe.strata or recipe.diversity or not all(map(_is_ordered, columns)):
        return None
    rows = source.count()
    check_k(recipe.k, rows)
    engine_method = ENGINE_METHODS[recipe.method](recipe, schema, rows)
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
        rows,
    )


def _spool_replies(
    recipe: ProtectionRecipe, schema: Schema, replies: Sequence[Iterable[ReleaseBatch]], rows: int, spool: Spool
) -> tuple[Codes, EngineReply]:
    """All codes, and the reply with the recipe's columns; rows are in the same order in all replies."""
    arrays: dict[tuple[int, str], NDArray[Any]] = {}

    def split_batch(batch: ReleaseBatch) -> dict[tuple[int, str], NDArray[Any]]:
        """The columns by part and name; the original codes are taken from the first reply."""
        parts = ({} if arrays else batch.original, batch.changed, batch.groups)
        return {(part, name): values for part, columns in enumerate(parts) for name, values in columns.items()}

    for batches in replies:
        arrays |= spool.gather_columns(map(split_batch, batches), rows)
    codes, changed, groups = ({name: arrays[i, name] for i, name in arrays if i == part} for part in range(3))
    attributes = (build_attribute(schema.columns[name], codes[name]) for name in recipe.columns)
    table = Table({attribute.name: spool.store_attribute(attribute) for attribute in attributes})
    return codes, EngineReply(table, changed, groups, spool)


def _is_ordered(column: Column) -> bool:
    """Whether the order of its codes is that of its values."""
    return column.is_ordered and column.kind != "boolean"


def _plan_swap(recipe: ProtectionRecipe, schema: Schema, rows: int) -> EngineMethod:
    from discreet.sdc.methods.partition import summarize_group_sizes
    from discreet.sdc.methods.swap import RANK_ASSUMPTION, build_swap_guarantee

    min_sizes = {name: check_k(recipe.ks.get(name, recipe.k), rows) for name in recipe.confidential}

    def finish(reply: EngineReply, _: Entropy) -> ProtectedTable:
        attributes = (build_attribute(schema.columns[name], reply.changed[name]) for name in min_sizes)
        table = reply.table.put(*map(reply.spool.store_attribute, attributes))
        guarantee, facts = build_swap_guarantee(min_sizes, RANK_ASSUMPTION), summarize_group_sizes(reply.groups)
        return ProtectedTable(table, guarantee, reply.groups, np.arange(rows), facts=facts)

    runs = [(name, RankRuns.both_ends(rows, k)) for name, k in min_sizes.items()]
    chunks = [tuple(runs[first : first + MAX_SWAPPED_COLUMNS]) for first in range(0, len(runs), MAX_SWAPPED_COLUMNS)]
    return [SwapPlan(chunk) for chunk in chunks], finish


def _plan_anatomy(recipe: ProtectionRecipe, _: Schema, rows: int) -> EngineMethod | None:
    from discreet.sdc.methods.anatomy import anatomize_groups

    if len(recipe.confidential) > 1 or recipe.partition == "quasi":
        return None

    def finish(reply: EngineReply, entropy: Entropy) -> ProtectedTable:
        groups = reply.groups["records"]
        return anatomize_groups(reply.table, recipe.quasi, recipe.confidential, recipe.k, groups, entropy)

    return [AnatomyPlan(recipe.confidential[0], RankRuns.both_ends(rows, recipe.k))], finish


def _plan_buckets(recipe: ProtectionRecipe, _: Schema, rows: int) -> EngineMethod | None:
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
    bucket_options: dict[str, int | None] = {"buckets": recipe.buckets, "groups_per_bucket": recipe.groups_per_bucket}
    wish = ClosenessRequest.of(recipe.t, recipe.k, **bucket_options)
    arrangement = plan_buckets(wish, rows, lambda count: compute_cut_sizes(rows, count))
    plan = plan_bucketization(recipe.confidential[0], rows, recipe.t, recipe.k, **bucket_options, form=recipe.form)

    def finish(reply: EngineReply, entropy: Entropy) -> ProtectedTable:
        values = reply.table.select(recipe.confidential)
        carried = reply.changed[recipe.confidential[0]]
        bucket_labels = choose_bucketing(values)(arrangement.requested_buckets) if plan.hidden else carried
        partition = GroupAssignment(bucket_labels, reply.groups["records"], carried if plan.hidden else None)
        return build_t_close_release(reply.table.select(recipe.quasi), values, wish, arrangement, partition, entropy)

    return [plan], finish


ENGINE_METHODS: Mapping[str, Callable[[ProtectionRecipe, Schema, int], EngineMethod | None]] = {
    "ir-swap": _plan_swap,
    "anatomy": _plan_anatomy,
    "t-closeness": _plan_buckets,
}
