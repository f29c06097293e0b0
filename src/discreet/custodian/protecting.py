"""A protected table from a recipe: by the engine where it can, otherwise in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.recipe import Recipe
from discreet.custodian.registering import Progress
from discreet.custodian.rows import Codes, originals, places_in_one_order, table_of
from discreet.errors import InvalidInput
from discreet.guarantee import Guarantee
from discreet.kernel.entropy import Entropy, KeyedEntropy
from discreet.microdata.checks import check_informative, check_k
from discreet.microdata.protected import Protected
from discreet.microdata.table import Attribute, Table
from discreet.schema import Schema

if TYPE_CHECKING:
    from discreet.sources.plan import Source


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A release in the order it leaves in: row i of `released` was made of row i of `original`.

    `rows` are the places of the rows among all of the snapshot sorted by their codes, of which there are
    `snapshot_rows`.
    """

    original: Table
    released: Table
    groups: Mapping[str, NDArray[np.int64]]
    second: Table | None
    guarantee: Guarantee
    facts: Mapping[str, object]
    rows: NDArray[np.int64]
    snapshot_rows: int


def records_of(schema: Schema, source: Source) -> Table:
    """All rows of the snapshot."""
    return table_of(schema, _codes(schema, source))


def _codes(schema: Schema, source: Source) -> Codes:
    codes = originals(source.records())
    if not codes:
        raise InvalidInput(f"{schema.name} has no rows, so there is nothing to release")
    return codes


def made_in_memory(recipe: Recipe, schema: Schema, source: Source, key: bytes, progress: Progress) -> Made:
    """All rows read, protected, and put in an order that tells nothing."""
    codes = _codes(schema, source)
    table = table_of(schema, codes)
    check_k(recipe.k, table.rows)
    for name in (*recipe.quasi, *recipe.confidential):
        check_informative(table[name])
    progress("protecting")
    protected = protect(recipe, table, KeyedEntropy(key, "protect"))
    return in_random_order(recipe, table, protected, places_in_one_order(codes), key)


def in_random_order(recipe: Recipe, table: Table, protected: Protected, places: NDArray[np.int64], key: bytes) -> Made:
    """The rows shuffled: where a row stands in the file must not tell whose it is."""
    from discreet.microdata.permuting import permuted_inside

    order = permuted_inside(np.zeros(len(protected.kept), dtype=np.int64), KeyedEntropy(key, "order"))
    kept = protected.kept[order]
    kept_as_they_are = {name: table[name].take(protected.kept) for name in recipe.keep}
    return Made(
        table.select(recipe.columns).take(kept),
        released_columns(recipe, kept_as_they_are, protected).take(order),
        {name: labels[order] for name, labels in protected.groups.items()},
        protected.second,
        protected.guarantee,
        protected.facts,
        places[kept],
        table.rows,
    )


def released_columns(recipe: Recipe, records: Mapping[str, Attribute], protected: Protected) -> Table:
    """The columns that leave: those of the recipe, and what a method adds, as the number of a group.

    `records` are row for row those that the protected table was made of.
    """
    made, only_used = protected.table, {recipe.weights, recipe.strata} - set(recipe.columns)
    kept = {name: records[name] for name in recipe.keep}
    return Table({name: made[name] for name in made if name not in only_used} | kept)


def used_columns(recipe: Recipe) -> tuple[str, ...]:
    """What a method may see: what is released, weights and strata."""
    more = (name for name in (recipe.weights, recipe.strata) if name is not None)
    return tuple(dict.fromkeys((*recipe.columns, *more)))


def protect(recipe: Recipe, records: Table, entropy: Entropy) -> Protected:
    """The recipe's columns, protected; row for row beside the records but for those left out."""
    table = records.select(used_columns(recipe))
    near: dict[str, Any] = {
        "method": recipe.grouping,
        "weights": recipe.weights,
        "strata": recipe.strata,
        "entropy": entropy,
    }
    k: int | dict[str, int] = (
        {name: recipe.ks.get(name, recipe.k) for name in recipe.confidential} if recipe.ks else recipe.k
    )
    roles = recipe.quasi, recipe.confidential
    match recipe.method:
        case "mdav":
            from discreet.microdata.mdav_id import mdav_id

            made = mdav_id(table, recipe.k, recipe.quasi, **near)
        case "mdav-swap":
            from discreet.microdata.swapping import mdav_swap

            intruder = "informed" if recipe.informed else "uninformed"
            made = mdav_swap(table, k, *roles, intruder=intruder, swap=recipe.swap, diversity=recipe.diversity, **near)
        case "ir-swap":
            from discreet.microdata.swapping import ir_swap

            swapping: dict[str, Any] = {"diversity": recipe.diversity, "strata": recipe.strata, "entropy": entropy}
            made = ir_swap(table, k, recipe.confidential, **swapping)
        case "anatomy":
            from discreet.microdata.anatomy import anatomy

            made = anatomy(table, recipe.k, *roles, partition=recipe.partition, diversity=recipe.diversity, **near)
        case "t-closeness":
            from discreet.microdata.t_close import t_close

            more: dict[str, Any] = {
                "buckets": recipe.buckets,
                "groups_per_bucket": recipe.groups_per_bucket,
                "form": recipe.form,
            }
            made = t_close(table, recipe.t, recipe.k, *roles, **more, entropy=entropy)
        case _:
            from discreet.microdata.generalise import generalise

            limits: dict[str, Any] = {"loss": recipe.loss, "suppress": recipe.suppress}
            made = generalise(
                table, recipe.k, recipe.quasi, recipe.hierarchies, confidential=recipe.confidential, **limits
            )
    return made
