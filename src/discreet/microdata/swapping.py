"""MDAV-SWAP and IR-SWAP: probabilistic k-anonymity, by values that change places inside groups (swapping.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from discreet.errors import InvalidInput
from discreet.guarantee import Guarantee
from discreet.kernel.entropy import Entropy
from discreet.microdata.checks import Reading, check_columns, check_informative, check_k, check_roles
from discreet.microdata.distances import Scale
from discreet.microdata.diversity import Floors, floors_of
from discreet.microdata.partition import Groups, near_groups, ranked_groups, sizes_told, way
from discreet.microdata.permuting import permuted_inside
from discreet.microdata.protected import Protected
from discreet.microdata.reading import read_table
from discreet.microdata.table import Table

ALIKE = (
    "1/k is over the coins of the permutation, and after the file is seen for one who holds the members of a group "
    "alike; who knows the values of all others in a group knows the last"
)
VISIBLE = "rows can be linked by the columns that stay, and a value is disclosed up to the values of its group"
DUPLICATES = "a row may carry a value equal to its own that came from another row"
RANKED = "a value is disclosed up to a run of at least k of its ranks, whatever else is known"

RECORDS = ("records",)


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
    **reading: Unpack[Reading],
) -> Protected:
    """The table with values swapped inside groups of at least k rows that are near by what an intruder knows.

    Against uninformed intruders groups are near by the quasi-identifiers, and either all confidential values of a row
    move together or, with swap="quasi", its quasi-identifiers do; columns with different k move apart. Against
    informed ones, who know all of a row but one confidential value, each confidential column in turn moves inside
    groups that are near by all the others, as they are by then (thesis 3.3.1 and 3.3.2).
    """
    original = read_table(table, **reading)
    known, secret = check_roles(original, quasi, confidential, intruder == "informed")
    least = _least(k, secret, original.rows)
    for name in dict.fromkeys((*known, *secret)):
        check_informative(original[name])
    steps = _steps(intruder, swap, known, secret, least)
    how = way(original, method, scale, weights, strata, entropy)
    floors = floors_of(diversity, secret)

    def grouped(current: Table, step: Step) -> Groups:
        return near_groups(current, step.k, step.near, how, step.of(floors))

    return _swapped(original, steps, grouped, least, entropy)


def ir_swap(
    table: object,
    k: int | Mapping[str, int],
    confidential: object,
    *,
    diversity: object = None,
    strata: object = None,
    entropy: Entropy | None = None,
    **reading: Unpack[Reading],
) -> Protected:
    """The table with each confidential column swapped on its own, inside runs of k of its ranks or more (thesis 3.3.3).

    Ranks are those of `ranked_groups`: equal values by their row, missing ones last, nominal ones in the depth-first
    order of the taxonomy.
    """
    original = read_table(table, **reading)
    secret = check_columns(original, confidential, "confidential")
    least = _least(k, secret, original.rows)
    for name in secret:
        check_informative(original[name])
    how, floors = way(original, strata=strata), floors_of(diversity, secret)

    def grouped(current: Table, step: Step) -> Groups:
        return ranked_groups(current, step.k, step.guards[0], how, step.of(floors))

    steps = [Step(least[name], (), (name,), (name,), (name,)) for name in secret]
    swapped = _swapped(original, steps, grouped, least, entropy)
    return replace(swapped, guarantee=swap_promise(least, RANKED))


@dataclass(frozen=True, slots=True)
class Step:
    """One permutation."""

    k: int
    near: tuple[str, ...]
    """The columns by which the rows of a group are near."""
    moved: tuple[str, ...]
    guards: tuple[str, ...]
    """The confidential columns whose values are hidden by it."""
    named: tuple[str, ...]
    """What its groups are called: "records", or the columns that move in them alone."""

    def of(self, floors: Floors) -> Floors:
        """The floors of the columns it guards."""
        return {name: floor for name, floor in floors.items() if name in self.guards}


def _steps(
    intruder: str, swap: str, quasi: tuple[str, ...], confidential: tuple[str, ...], least: Mapping[str, int]
) -> list[Step]:
    if intruder == "uninformed" and swap == "confidential":
        blocks = {k: tuple(name for name in confidential if least[name] == k) for k in least.values()}
        return [Step(k, quasi, block, block, RECORDS if len(blocks) == 1 else block) for k, block in blocks.items()]
    if intruder == "uninformed" and swap == "quasi" and len(set(least.values())) == 1:
        return [Step(least[confidential[0]], quasi, quasi, confidential, RECORDS)]
    if intruder == "informed" and swap == "confidential":
        everything = dict.fromkeys((*quasi, *confidential))
        others = {name: tuple(each for each in everything if each != name) for name in confidential}
        if len(everything) < 2:
            raise InvalidInput("an informed intruder knows another column than the one that is swapped; list it too")
        return [Step(least[name], others[name], (name,), (name,), (name,)) for name in confidential]
    raise InvalidInput(
        "intruder is 'uninformed' or 'informed', and swap is 'confidential' "
        "or, for uninformed intruders and one k, 'quasi'"
    )


def _least(k: object, confidential: Sequence[str], rows: int) -> dict[str, int]:
    """The k of every confidential column."""
    given = k if isinstance(k, Mapping) else dict.fromkeys(confidential, k)
    if set(given) != set(confidential):
        raise InvalidInput("k must be one whole number, or one for each confidential column")
    return {name: check_k(given[name], rows) for name in confidential}


def _swapped(
    original: Table,
    steps: Sequence[Step],
    grouped: Callable[[Table, Step], Groups],
    least: Mapping[str, int],
    entropy: Entropy | None,
) -> Protected:
    """One step after the other, each on what those before it left."""
    table = original
    groups: dict[str, Groups] = {}
    for step in steps:
        labels = grouped(table, step)
        came_from = permuted_inside(labels, entropy)
        table = table.put(*(table[name].take(came_from) for name in step.moved))
        groups |= dict.fromkeys(step.named, labels)
    return Protected(table, swap_promise(least), groups, np.arange(original.rows), facts=sizes_told(groups))


def swap_promise(least: Mapping[str, int], *more: str) -> Guarantee:
    """What swapping promises where each confidential column has its own least size of a group."""
    promised = Guarantee.k_anonymity(min(least.values()), probabilistic=True)
    return replace(promised, assumptions=(ALIKE, VISIBLE, DUPLICATES, *more))
