"""Small tables and their neighbours: all of them, or some for Hypothesis."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, TypeVar

from discreet.errors import InvalidInput
from discreet.guarantee import parse_neighbor_relation

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Record = TypeVar("Record", bound=Hashable)


def all_tables(domain: Sequence[Record], size: int) -> Iterator[tuple[Record, ...]]:
    """Every table of `size` records, order aside."""
    return combinations_with_replacement(domain, size)


def all_neighbours(
    table: Sequence[Record], domain: Sequence[Record], neighbours: str = "add-remove"
) -> Iterator[tuple[Record, ...]]:
    """Every neighbour of a small table."""
    rows = tuple(table)
    shorter = [rows[:index] + rows[index + 1 :] for index in range(len(rows))]
    if parse_neighbor_relation(neighbours) == "add-remove":
        yield from shorter
        yield from ((*rows, record) for record in domain)
    else:
        yield from ((*shorter_rows, record) for shorter_rows in shorter for record in domain)


def neighbour_tables(
    records: SearchStrategy[Record], neighbours: str = "add-remove", max_size: int = 20
) -> SearchStrategy[tuple[list[Record], list[Record]]]:
    """A Hypothesis strategy for pairs of neighbouring tables."""
    from hypothesis import strategies as st

    if not isinstance(records, st.SearchStrategy):
        raise InvalidInput(
            f"records must be a Hypothesis strategy such as st.integers(0, 9), got {type(records).__name__}"
        )
    is_replace_one = parse_neighbor_relation(neighbours) == "replace-one"

    def build_pair(rows: list[Record], place: int, old: Record, new: Record) -> tuple[list[Record], list[Record]]:
        position = place % (len(rows) + 1)
        with_old, with_new = [*rows[:position], old, *rows[position:]], [*rows[:position], new, *rows[position:]]
        if is_replace_one:
            return with_old, with_new
        return (with_old, rows) if place % 2 else (rows, with_old)

    return st.builds(build_pair, st.lists(records, max_size=max_size), st.integers(0, 10**6), records, records)
