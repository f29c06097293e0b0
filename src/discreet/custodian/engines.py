"""Releases that an engine makes by itself, where the rows are: from what is public, and how many rows there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.protecting import Made, released_columns
from discreet.custodian.recipe import Recipe
from discreet.custodian.registering import Progress
from discreet.custodian.rows import Codes, attribute_of, places_in_one_order
from discreet.custodian.spool import Spool
from discreet.kernel.entropy import Entropy, KeyedEntropy
from discreet.microdata.checks import check_informative, check_k
from discreet.microdata.protected import Protected
from discreet.microdata.table import Table
from discreet.query.released import Anatomise, Batch, ReleasePlan, Runs, Swap
from discreet.schema import Column, Schema

if TYPE_CHECKING:
    from discreet.sources.plan import Source

Labels = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    """What an engine gave, on disk: the records in the order they leave in, what it changed, and the groups."""

    table: Table
    changed: Codes
    groups: Labels
    spool: Spool


Way = tuple[Sequence[ReleasePlan], Callable[[Reply, Entropy], Protected]]
"""What the engine is asked for, one statement after another, and how its reply becomes a release."""
MOST_SWAPPED = 6
"""Columns that one statement swaps: engines plan for ever longer where there are many."""


def made_by_engine(
    recipe: Recipe, schema: Schema, source: Source, key: bytes, spool: Spool, progress: Progress
) -> Made | None:
    """The release, made where the rows are, from where it comes in batches; None where an engine cannot make it."""
    columns = [schema.columns[name] for name in recipe.confidential]
    if recipe.method not in WAYS or recipe.strata or recipe.diversity or not all(map(_ranked, columns)):
        return None
    rows = source.count()
    check_k(recipe.k, rows)
    way = WAYS[recipe.method](recipe, schema, rows)
    if way is None:
        return None
    plans, finish = way
    progress("protecting")
    codes, reply = _spooled(recipe, schema, [source.released(plan, key.hex()) for plan in plans], rows, spool)
    for name in (*recipe.quasi, *recipe.confidential):
        check_informative(reply.table[name])
    protected = finish(reply, KeyedEntropy(key, "finish"))
    return Made(
        reply.table,
        released_columns(recipe, reply.table.attributes, protected),
        protected.groups,
        protected.second,
        protected.guarantee,
        protected.facts,
        spool.keep(places_in_one_order(codes)),
        rows,
    )


def _spooled(
    recipe: Recipe, schema: Schema, replies: Sequence[Iterable[Batch]], rows: int, spool: Spool
) -> tuple[Codes, Reply]:
    """All codes, and the reply with the recipe's columns; rows are in the same order in all replies."""
    found: dict[tuple[int, str], NDArray[Any]] = {}
    for batches in replies:
        found |= spool.gathered((_parts(batch, bool(found)) for batch in batches), rows)
    codes, changed, groups = ({name: found[i, name] for i, name in found if i == part} for part in range(3))
    table = Table({name: spool.kept(attribute_of(schema.columns[name], codes[name])) for name in recipe.columns})
    return codes, Reply(table, changed, groups, spool)


def _parts(batch: Batch, again: bool) -> dict[tuple[int, str], NDArray[Any]]:
    """What is kept of a batch, by its part and name; the codes themselves are in the first reply."""
    parts = ({} if again else batch.original, batch.changed, batch.groups)
    return {(part, name): values for part, columns in enumerate(parts) for name, values in columns.items()}


def _ranked(column: Column) -> bool:
    """Whether the order of its codes is that of its values."""
    return column.ordered and column.kind != "boolean"


def _swap(recipe: Recipe, schema: Schema, rows: int) -> Way:
    from discreet.microdata.partition import sizes_told
    from discreet.microdata.swapping import RANKED, swap_promise

    least = {name: check_k(recipe.ks.get(name, recipe.k), rows) for name in recipe.confidential}

    def finish(reply: Reply, _: Entropy) -> Protected:
        swapped = (reply.spool.kept(attribute_of(schema.columns[name], reply.changed[name])) for name in least)
        return Protected(
            reply.table.put(*swapped),
            swap_promise(least, RANKED),
            reply.groups,
            np.arange(rows),
            facts=sizes_told(reply.groups),
        )

    runs = [(name, Runs.both_ends(rows, k)) for name, k in least.items()]
    some = [tuple(runs[first : first + MOST_SWAPPED]) for first in range(0, len(runs), MOST_SWAPPED)]
    return [Swap(each) for each in some], finish


def _anatomise(recipe: Recipe, _: Schema, rows: int) -> Way | None:
    from discreet.microdata.anatomy import anatomised

    if len(recipe.confidential) > 1 or recipe.partition == "quasi":
        return None

    def finish(reply: Reply, entropy: Entropy) -> Protected:
        return anatomised(reply.table, recipe.quasi, recipe.confidential, recipe.k, reply.groups["records"], entropy)

    return [Anatomise(recipe.confidential[0], Runs.both_ends(rows, recipe.k))], finish


def _bucketise(recipe: Recipe, _: Schema, rows: int) -> Way | None:
    from discreet.microdata.arranging import Wish, arranged, bucketise_plan
    from discreet.microdata.bucketing import bucketing, cut_sizes
    from discreet.microdata.t_close import Parted, closed

    if len(recipe.confidential) > 1:
        return None
    many: dict[str, int | None] = {"buckets": recipe.buckets, "groups_per_bucket": recipe.groups_per_bucket}
    wish = Wish.of(recipe.t, recipe.k, **many)
    found = arranged(wish, rows, lambda count: cut_sizes(rows, count))
    plan = bucketise_plan(recipe.confidential[0], rows, recipe.t, recipe.k, **many, form=recipe.form)

    def finish(reply: Reply, entropy: Entropy) -> Protected:
        values = reply.table.select(recipe.confidential)
        carried = reply.changed[recipe.confidential[0]]
        own = bucketing(values)(found.asked) if plan.hidden else carried
        parted = Parted(own, reply.groups["records"], carried if plan.hidden else None)
        return closed(reply.table.select(recipe.quasi), values, wish, found, parted, entropy)

    return [plan], finish


WAYS: Mapping[str, Callable[[Recipe, Schema, int], Way | None]] = {
    "ir-swap": _swap,
    "anatomy": _anatomise,
    "t-closeness": _bucketise,
}
