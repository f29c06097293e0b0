"""Releases that an engine makes by itself, where the rows are: from what is public, and how many rows there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.protecting import ProtectedRelease, select_released_columns
from discreet.custodian.recipe import ProtectionRecipe
from discreet.custodian.registering import Progress
from discreet.custodian.rows import Codes, build_attribute, rank_rows_by_codes
from discreet.custodian.spool import Spool
from discreet.kernel.entropy import Entropy, KeyedEntropy
from discreet.microdata.checks import check_informative, check_k
from discreet.microdata.protected import ProtectedTable
from discreet.microdata.table import Table
from discreet.query.released import AnatomyPlan, RankRuns, ReleaseBatch, ReleasePlan, SwapPlan
from discreet.schema import Column, Schema

if TYPE_CHECKING:
    from discreet.sources.plan import Source

Labels = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class EngineReply:
    """What an engine gave, on disk: the records in the order they leave in, what it changed, and the groups."""

    table: Table
    changed: Codes
    groups: Labels
    spool: Spool


EngineMethod = tuple[Sequence[ReleasePlan], Callable[[EngineReply, Entropy], ProtectedTable]]
"""What the engine is asked for, one statement after another, and how its reply becomes a release."""
MAX_SWAPPED_COLUMNS = 6
"""Columns that one statement swaps: engines plan for ever longer where there are many."""


def protect_in_engine(
    recipe: ProtectionRecipe, schema: Schema, source: Source, key: bytes, spool: Spool, progress: Progress
) -> ProtectedRelease | None:
    """The release, made where the rows are, from where it comes in batches; None where an engine cannot make it."""
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
        protected.groups,
        protected.second,
        protected.guarantee,
        protected.facts,
        spool.store_array(rank_rows_by_codes(codes)),
        rows,
    )


def _spool_replies(
    recipe: ProtectionRecipe, schema: Schema, replies: Sequence[Iterable[ReleaseBatch]], rows: int, spool: Spool
) -> tuple[Codes, EngineReply]:
    """All codes, and the reply with the recipe's columns; rows are in the same order in all replies."""
    arrays: dict[tuple[int, str], NDArray[Any]] = {}
    for batches in replies:
        arrays |= spool.gather_columns((_split_batch(batch, bool(arrays)) for batch in batches), rows)
    codes, changed, groups = ({name: arrays[i, name] for i, name in arrays if i == part} for part in range(3))
    table = Table(
        {name: spool.store_attribute(build_attribute(schema.columns[name], codes[name])) for name in recipe.columns}
    )
    return codes, EngineReply(table, changed, groups, spool)


def _split_batch(batch: ReleaseBatch, is_repeated: bool) -> dict[tuple[int, str], NDArray[Any]]:
    """What is kept of a batch, by its part and name; the codes themselves are in the first reply."""
    parts = ({} if is_repeated else batch.original, batch.changed, batch.groups)
    return {(part, name): values for part, columns in enumerate(parts) for name, values in columns.items()}


def _is_ordered(column: Column) -> bool:
    """Whether the order of its codes is that of its values."""
    return column.is_ordered and column.kind != "boolean"


def _plan_swap(recipe: ProtectionRecipe, schema: Schema, rows: int) -> EngineMethod:
    from discreet.microdata.partition import summarize_group_sizes
    from discreet.microdata.swapping import RANK_ASSUMPTION, build_swap_guarantee

    min_sizes = {name: check_k(recipe.ks.get(name, recipe.k), rows) for name in recipe.confidential}

    def finish(reply: EngineReply, _: Entropy) -> ProtectedTable:
        swapped_columns = (
            reply.spool.store_attribute(build_attribute(schema.columns[name], reply.changed[name]))
            for name in min_sizes
        )
        return ProtectedTable(
            reply.table.put(*swapped_columns),
            build_swap_guarantee(min_sizes, RANK_ASSUMPTION),
            reply.groups,
            np.arange(rows),
            facts=summarize_group_sizes(reply.groups),
        )

    runs = [(name, RankRuns.both_ends(rows, k)) for name, k in min_sizes.items()]
    chunks = [tuple(runs[first : first + MAX_SWAPPED_COLUMNS]) for first in range(0, len(runs), MAX_SWAPPED_COLUMNS)]
    return [SwapPlan(chunk) for chunk in chunks], finish


def _plan_anatomy(recipe: ProtectionRecipe, _: Schema, rows: int) -> EngineMethod | None:
    from discreet.microdata.anatomy import anatomize_groups

    if len(recipe.confidential) > 1 or recipe.partition == "quasi":
        return None

    def finish(reply: EngineReply, entropy: Entropy) -> ProtectedTable:
        return anatomize_groups(
            reply.table, recipe.quasi, recipe.confidential, recipe.k, reply.groups["records"], entropy
        )

    return [AnatomyPlan(recipe.confidential[0], RankRuns.both_ends(rows, recipe.k))], finish


def _plan_buckets(recipe: ProtectionRecipe, _: Schema, rows: int) -> EngineMethod | None:
    from discreet.microdata.arranging import ClosenessRequest, plan_bucketization, plan_buckets
    from discreet.microdata.bucketing import choose_bucketing, compute_cut_sizes
    from discreet.microdata.t_close import GroupAssignment, build_t_close_release

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
