"""A protected table from a recipe: by the engine where it can, otherwise in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.custodian.recipe import ProtectionRecipe
from discreet.custodian.registering import Progress
from discreet.custodian.rows import Codes, build_code_table, concatenate_originals, rank_rows_by_codes
from discreet.errors import InvalidInput
from discreet.guarantee import Guarantee
from discreet.kernel.entropy import Entropy, KeyedEntropy
from discreet.microdata.checks import check_informative, check_k
from discreet.microdata.protected import ProtectedTable
from discreet.microdata.table import Attribute, Table
from discreet.schema import Schema

if TYPE_CHECKING:
    from discreet.sources.plan import Source


@dataclass(frozen=True, slots=True, eq=False)
class ProtectedRelease:
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


def read_records(schema: Schema, source: Source) -> Table:
    """All rows of the snapshot."""
    return build_code_table(schema, _read_codes(schema, source))


def _read_codes(schema: Schema, source: Source) -> Codes:
    codes = concatenate_originals(source.records())
    if not codes:
        raise InvalidInput(f"{schema.name} has no rows, so there is nothing to release")
    return codes


def protect_in_memory(
    recipe: ProtectionRecipe, schema: Schema, source: Source, key: bytes, progress: Progress
) -> ProtectedRelease:
    """All rows read, protected, and put in an order that tells nothing."""
    codes = _read_codes(schema, source)
    table = build_code_table(schema, codes)
    check_k(recipe.k, table.rows)
    for name in (*recipe.quasi, *recipe.confidential):
        check_informative(table[name])
    progress("protecting")
    protected = protect_table(recipe, table, KeyedEntropy(key, "protect"))
    return shuffle_release(recipe, table, protected, rank_rows_by_codes(codes), key)


def shuffle_release(
    recipe: ProtectionRecipe, table: Table, protected: ProtectedTable, places: NDArray[np.int64], key: bytes
) -> ProtectedRelease:
    """The rows shuffled: where a row stands in the file must not tell whose it is."""
    from discreet.microdata.permuting import permute_within_groups

    order = permute_within_groups(np.zeros(len(protected.source_rows), dtype=np.int64), KeyedEntropy(key, "order"))
    kept_rows = protected.source_rows[order]
    unchanged_columns = {name: table[name].take(protected.source_rows) for name in recipe.keep}
    return ProtectedRelease(
        table.select(recipe.columns).take(kept_rows),
        select_released_columns(recipe, unchanged_columns, protected).take(order),
        {name: labels[order] for name, labels in protected.groups.items()},
        protected.second,
        protected.guarantee,
        protected.facts,
        places[kept_rows],
        table.rows,
    )


def select_released_columns(
    recipe: ProtectionRecipe, records: Mapping[str, Attribute], protected: ProtectedTable
) -> Table:
    """The columns that leave: those of the recipe, and what a method adds, as the number of a group.

    `records` are row for row those that the protected table was made of.
    """
    protected_table, only_used = protected.table, {recipe.weights, recipe.strata} - set(recipe.columns)
    unchanged_columns = {name: records[name] for name in recipe.keep}
    return Table({name: protected_table[name] for name in protected_table if name not in only_used} | unchanged_columns)


def list_used_columns(recipe: ProtectionRecipe) -> tuple[str, ...]:
    """What a method may see: what is released, weights and strata."""
    extra_columns = (name for name in (recipe.weights, recipe.strata) if name is not None)
    return tuple(dict.fromkeys((*recipe.columns, *extra_columns)))


def protect_table(recipe: ProtectionRecipe, records: Table, entropy: Entropy) -> ProtectedTable:
    """The recipe's columns, protected; row for row beside the records but for those left out."""
    table = records.select(list_used_columns(recipe))
    grouping_options: dict[str, Any] = {
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

            protected = mdav_id(table, recipe.k, recipe.quasi, **grouping_options)
        case "mdav-swap":
            from discreet.microdata.swapping import mdav_swap

            intruder = "informed" if recipe.informed else "uninformed"
            protected = mdav_swap(
                table, k, *roles, intruder=intruder, swap=recipe.swap, diversity=recipe.diversity, **grouping_options
            )
        case "ir-swap":
            from discreet.microdata.swapping import ir_swap

            swap_options: dict[str, Any] = {"diversity": recipe.diversity, "strata": recipe.strata, "entropy": entropy}
            protected = ir_swap(table, k, recipe.confidential, **swap_options)
        case "anatomy":
            from discreet.microdata.anatomy import anatomy

            protected = anatomy(
                table, recipe.k, *roles, partition=recipe.partition, diversity=recipe.diversity, **grouping_options
            )
        case "t-closeness":
            from discreet.microdata.t_close import t_close

            closeness_options: dict[str, Any] = {
                "buckets": recipe.buckets,
                "groups_per_bucket": recipe.groups_per_bucket,
                "form": recipe.form,
            }
            protected = t_close(table, recipe.t, recipe.k, *roles, **closeness_options, entropy=entropy)
        case _:
            from discreet.microdata.generalise import generalise

            limits: dict[str, Any] = {"loss": recipe.loss, "suppress": recipe.suppress}
            protected = generalise(
                table, recipe.k, recipe.quasi, recipe.hierarchies, confidential=recipe.confidential, **limits
            )
    return protected
