"""MDAV-ID, and MDAV-SWAP and IR-SWAP: probabilistic k-anonymity by values that change places in groups (swap.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import Entropy
from discreet.privacy.guarantee import Guarantee
from discreet.sdc.methods.partition import (
    Floors,
    Groups,
    group_by_nearness,
    group_by_rank,
    parse_floors,
    read_grouping_options,
    summarize_group_sizes,
)
from discreet.sdc.methods.record_distance import Scale, compute_centroids
from discreet.sdc.table import (
    ProtectedTable,
    Table,
    TableReadOptions,
    check_columns,
    check_informative,
    check_k,
    check_roles,
    permute_within_groups,
    read_table,
)

ASSUMPTIONS = (
    "intruders know no column but those that were microaggregated; what else is in the table is as it was",
    "the confidential values of a group may be alike, and are then disclosed with nobody identified",
)


def mdav_id(
    table: object,
    k: int,
    columns: object,
    *,
    method: str = "mdav",
    scale: Scale = "domain",
    weights: object = None,
    strata: object = None,
    entropy: Entropy | None = None,
    **reading: Unpack[TableReadOptions],
) -> ProtectedTable:
    """Replace columns by the centroids of groups of at least k similar rows; other columns stay unchanged.

    The result is k-anonymous with these columns as quasi-identifiers (thesis 2.8).

    Args:
        table: The original table.
        k: The minimum size of a group.
        columns: The quasi-identifiers.
        method: The algorithm that forms the groups, as in `microaggregate`.
        scale: What columns are divided by before distances are taken, as in `microaggregate`.
        weights: The weight of each row in centroids, as an array or the name of a column.
        strata: Labels that no group may mix, as an array or the name of a column.
        entropy: The source of random bytes; the system's generator by default.
        **reading: How columns are read: `kinds`, `categories`, `taxonomies` and `domains`, each a mapping by column.

    Returns:
        The protected table with its guarantee and groups. Row i was made of row i of the original: change the order
        before you release it, as `Custodian.publish` does.

    Raises:
        InvalidInput: A column, k or another option is not valid.

    Example:
        >>> from discreet.sdc import mdav_id
        >>> table = {"age": [23, 25, 31, 34, 58, 61], "income": [20, 22, 30, 31, 45, 50]}
        >>> protected = mdav_id(table, k=3, columns=["age"])
        >>> protected["age"].round(1).tolist()
        [26.3, 26.3, 26.3, 51.0, 51.0, 51.0]
        >>> protected.guarantee.k
        3
    """
    original = read_table(table, **reading)
    min_size, names = check_k(k, original.rows), check_columns(original, columns, "columns")
    for name in names:
        check_informative(original[name])
    options = read_grouping_options(original, method, scale, weights, strata, entropy)
    groups = {"records": group_by_nearness(original, min_size, names, options)}
    released = original.put(*(compute_centroids(original[name], groups["records"], options.weights) for name in names))
    guarantee = replace(Guarantee.k_anonymity(min_size), assumptions=ASSUMPTIONS)
    return ProtectedTable(released, guarantee, groups, np.arange(original.rows), facts=summarize_group_sizes(groups))


ALIKE_ASSUMPTION = (
    "1/k is over the coins of the permutation, and after the file is seen for one who holds the members of a group "
    "alike; who knows the values of all others in a group knows the last"
)
VISIBLE_ASSUMPTION = (
    "rows can be linked by the columns that stay, and a value is disclosed up to the values of its group"
)
DUPLICATE_ASSUMPTION = "a row may carry a value equal to its own that came from another row"
RANK_ASSUMPTION = "a value is disclosed up to a run of at least k of its ranks, whatever else is known"


def mdav_swap(
    table: object,
    k: int | Mapping[str, int],
    quasi: object,
    confidential: object,
    *,
    intruder: str = "uninformed",
    swap: str = "confidential",
    method: str = "mdav",
    scale: Scale = "domain",
    diversity: object = None,
    weights: object = None,
    strata: object = None,
    entropy: Entropy | None = None,
    **reading: Unpack[TableReadOptions],
) -> ProtectedTable:
    """Swap values inside groups of at least k rows that are similar by what an intruder knows.

    The result is probabilistically k-anonymous (thesis 3.3.1 and 3.3.2). Against uninformed intruders, groups are
    similar by the quasi-identifiers. Against informed ones, who know all of a row but one confidential value, each
    confidential column in turn is swapped inside groups that are similar by all the other columns, as they are by then.

    Args:
        table: The original table.
        k: The minimum size of a group; or a size for each confidential column.
        quasi: The quasi-identifiers.
        confidential: The confidential columns.
        intruder: "uninformed" or "informed".
        swap: Against uninformed intruders, "confidential" moves all confidential values of a row together, columns with
            different k apart; "quasi" moves its quasi-identifiers.
        method: The algorithm that forms the groups, as in `microaggregate`.
        scale: What columns are divided by before distances are taken, as in `microaggregate`.
        diversity: A `Distinct`, `Spread` or `Closeness` that the confidential values of each group must have; or one
            for each confidential column.
        weights: The weight of each row in centroids, as an array or the name of a column.
        strata: Labels that no group may mix, as an array or the name of a column.
        entropy: The source of random bytes; the system's generator by default.
        **reading: How columns are read: `kinds`, `categories`, `taxonomies` and `domains`, each a mapping by column.

    Returns:
        The protected table with its guarantee and groups. Row i was made of row i of the original: change the order
        before you release it, as `Custodian.publish` does.

    Raises:
        InvalidInput: A column, k or another option is not valid.

    Example:
        >>> from discreet import mdav_swap
        >>> table = {"age": [23, 25, 31, 34, 58, 61], "income": [20, 22, 30, 31, 45, 50]}
        >>> protected = mdav_swap(table, k=3, quasi=["age"], confidential=["income"])
        >>> sorted(protected["income"].tolist())  # the same values, on other rows
        [20, 22, 30, 31, 45, 50]
        >>> protected.guarantee.model
        'probabilistic-k-anonymity'
    """
    original = read_table(table, **reading)
    quasi_names, confidential_names = check_roles(original, quasi, confidential, intruder == "informed")
    min_sizes = _read_min_sizes(k, confidential_names, original.rows)
    for name in dict.fromkeys((*quasi_names, *confidential_names)):
        check_informative(original[name])
    steps = _plan_steps(intruder, swap, quasi_names, confidential_names, min_sizes)
    options = read_grouping_options(original, method, scale, weights, strata, entropy)
    floors = parse_floors(diversity, confidential_names)

    def form_groups(current: Table, step: SwapStep) -> Groups:
        return group_by_nearness(current, step.k, step.near_columns, options, step.select_floors(floors))

    return _apply_steps(original, steps, form_groups, min_sizes, entropy)


def ir_swap(
    table: object,
    k: int | Mapping[str, int],
    confidential: object,
    *,
    diversity: object = None,
    strata: object = None,
    entropy: Entropy | None = None,
    **reading: Unpack[TableReadOptions],
) -> ProtectedTable:
    """Swap each confidential column on its own, inside runs of at least k of its ranks.

    The result is probabilistically k-anonymous against linkage by exact values (thesis 3.3.3); each value moves only
    among near ranks, so it is disclosed up to that. Equal values are ranked by their row, missing ones last, nominal
    ones in the depth-first order of the taxonomy.

    Args:
        table: The original table.
        k: The minimum size of a group; or a size for each confidential column.
        confidential: The confidential columns.
        diversity: A `Distinct`, `Spread` or `Closeness` that the confidential values of each group must have; or one
            for each confidential column.
        strata: Labels that no group may mix, as an array or the name of a column.
        entropy: The source of random bytes; the system's generator by default.
        **reading: How columns are read: `kinds`, `categories`, `taxonomies` and `domains`, each a mapping by column.

    Returns:
        The protected table with its guarantee and groups. Row i was made of row i of the original: change the order
        before you release it, as `Custodian.publish` does.

    Raises:
        InvalidInput: A column, k or another option is not valid.

    Example:
        >>> from discreet.sdc import ir_swap
        >>> table = {"age": [23, 25, 31, 34, 58, 61], "income": [20, 22, 30, 31, 45, 50]}
        >>> protected = ir_swap(table, k=3, confidential=["income"])
        >>> sorted(protected["income"][:3].tolist())  # the three lowest incomes stay together
        [20, 22, 30]
    """
    original = read_table(table, **reading)
    confidential_names = check_columns(original, confidential, "confidential")
    min_sizes = _read_min_sizes(k, confidential_names, original.rows)
    for name in confidential_names:
        check_informative(original[name])
    options, floors = read_grouping_options(original, strata=strata), parse_floors(diversity, confidential_names)

    def form_groups(current: Table, step: SwapStep) -> Groups:
        return group_by_rank(current, step.k, step.guarded_columns[0], options, step.select_floors(floors))

    steps = [SwapStep(min_sizes[name], (), (name,), (name,), (name,)) for name in confidential_names]
    protected = _apply_steps(original, steps, form_groups, min_sizes, entropy)
    return replace(protected, guarantee=build_swap_guarantee(min_sizes, RANK_ASSUMPTION))


@dataclass(frozen=True, slots=True)
class SwapStep:
    """One permutation."""

    k: int
    near_columns: tuple[str, ...]
    """The columns by which the rows of a group are near."""
    moved_columns: tuple[str, ...]
    guarded_columns: tuple[str, ...]
    """The confidential columns whose values are hidden by it."""
    group_names: tuple[str, ...]
    """The names of its groups: "records", or the columns that move in them alone."""

    def select_floors(self, floors: Floors) -> Floors:
        """The floors of the columns it guards."""
        return {name: floor for name, floor in floors.items() if name in self.guarded_columns}


def _plan_steps(
    intruder: str, swap: str, quasi: tuple[str, ...], confidential: tuple[str, ...], min_sizes: Mapping[str, int]
) -> list[SwapStep]:
    if intruder == "uninformed" and swap == "confidential":
        blocks = {k: tuple(name for name in confidential if min_sizes[name] == k) for k in min_sizes.values()}
        names = {k: ("records",) if len(blocks) == 1 else block for k, block in blocks.items()}
        return [SwapStep(k, quasi, block, block, names[k]) for k, block in blocks.items()]
    if intruder == "uninformed" and swap == "quasi" and len(set(min_sizes.values())) == 1:
        return [SwapStep(min_sizes[confidential[0]], quasi, quasi, confidential, ("records",))]
    if intruder == "informed" and swap == "confidential":
        known_columns = dict.fromkeys((*quasi, *confidential))
        if len(known_columns) < 2:
            raise InvalidInput("an informed intruder knows another column than the one that is swapped; list it too")
        others = {name: tuple(other for other in known_columns if other != name) for name in confidential}
        return [SwapStep(min_sizes[name], others[name], (name,), (name,), (name,)) for name in confidential]
    raise InvalidInput(
        "intruder is 'uninformed' or 'informed', and swap is 'confidential' "
        "or, for uninformed intruders and one k, 'quasi'"
    )


def _read_min_sizes(k: object, confidential: Sequence[str], rows: int) -> dict[str, int]:
    sizes = k if isinstance(k, Mapping) else dict.fromkeys(confidential, k)
    if set(sizes) != set(confidential):
        raise InvalidInput("k must be one whole number, or one for each confidential column")
    return {name: check_k(sizes[name], rows) for name in confidential}


def _apply_steps(
    original: Table,
    steps: Sequence[SwapStep],
    form_groups: Callable[[Table, SwapStep], Groups],
    min_sizes: Mapping[str, int],
    entropy: Entropy | None,
) -> ProtectedTable:
    """One step after the other, each on what those before it left."""
    table = original
    groups: dict[str, Groups] = {}
    for step in steps:
        labels = form_groups(table, step)
        permutation = permute_within_groups(labels, entropy)
        table = table.put(*(table[name].take(permutation) for name in step.moved_columns))
        groups |= dict.fromkeys(step.group_names, labels)
    guarantee, facts = build_swap_guarantee(min_sizes), summarize_group_sizes(groups)
    return ProtectedTable(table, guarantee, groups, np.arange(original.rows), facts=facts)


def build_swap_guarantee(min_sizes: Mapping[str, int], *extra_assumptions: str) -> Guarantee:
    """The guarantee of swapping where each confidential column has its own least size of a group."""
    guarantee = Guarantee.k_anonymity(min(min_sizes.values()), probabilistic=True)
    assumptions = (ALIKE_ASSUMPTION, VISIBLE_ASSUMPTION, DUPLICATE_ASSUMPTION, *extra_assumptions)
    return replace(guarantee, assumptions=assumptions)
