"""Combinations of values that no row can have, as the schema declares them: public, whatever the rows are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.query.predicate import AllOf, InRanges, InTexts, Predicate
from discreet.query.released import MISSING_CODE
from discreet.query.sql import parse_sql
from discreet.schema import Schema

CodeArray = NDArray[np.int64]
MAX_KINDS = 2**20
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class StructuralZeros:
    """Predicates that hold of no row; codes are missing where they are MISSING."""

    predicates: tuple[Predicate, ...] = ()

    def restrict_to(self, names: Sequence[str]) -> StructuralZeros:
        """Those that are about these columns alone."""
        return StructuralZeros(
            tuple(predicate for predicate in self.predicates if set(list_predicate_columns(predicate)) <= set(names))
        )

    def find_impossible_rows(self, codes: Mapping[str, CodeArray]) -> BoolArray:
        """Which rows cannot be."""
        predicates = self.restrict_to(tuple(codes)).predicates
        row_count = len(next(iter(codes.values())))
        is_impossible: BoolArray = np.logical_or.reduce(
            [np.zeros(row_count, dtype=np.bool_), *(_evaluate_on_codes(predicate, codes) for predicate in predicates)]
        )
        return is_impossible

    def find_change_points(self, name: str) -> tuple[int, ...]:
        """The codes of a column at which what is possible may change."""
        conditions = [
            condition
            for predicate in self.predicates
            for condition in _list_conditions(predicate)
            if condition.column == name
        ]
        ranges = [
            code_range for condition in conditions if isinstance(condition, InRanges) for code_range in condition.ranges
        ]
        return tuple(sorted({code for low, high in ranges for code in (low, high + 1)}))

    def find_possible_row(self, domains: Mapping[str, CodeArray]) -> dict[str, int]:
        """One code of each column, of those given, that can all be together; refused where there are none.

        Codes that no condition tells apart are alike, so that one of each kind is looked at.
        """
        constrained = [
            name
            for name in domains
            if name in {column for predicate in self.predicates for column in list_predicate_columns(predicate)}
        ]
        kinds = [_select_kinds(self.predicates, name, domains[name]) for name in constrained]
        if math.prod(map(len, kinds)) > MAX_KINDS:
            raise Unsupported(
                "what is declared impossible tells too many kinds of rows apart; declare fewer conditions"
            )
        combinations = (
            [column_codes.ravel() for column_codes in np.meshgrid(*kinds, indexing="ij")] if constrained else []
        )
        is_possible = (
            ~self.find_impossible_rows(dict(zip(constrained, combinations, strict=True)))
            if constrained
            else np.ones(1, dtype=np.bool_)
        )
        if not is_possible.any():
            raise InvalidInput("what is declared impossible leaves no row that can be; correct it in the schema")
        first = int(is_possible.argmax())
        possible_codes = {
            name: int(column_codes[first]) for name, column_codes in zip(constrained, combinations, strict=True)
        }
        return {name: possible_codes.get(name, int(codes[0])) for name, codes in domains.items()}

    def find_empty_cells(
        self, first: tuple[str, Sequence[CodeArray]], second: tuple[str, Sequence[CodeArray]]
    ) -> BoolArray:
        """Which cells of a table of two columns are empty; each column is given with the codes of each of its bins.

        A cell is empty where no two codes of its bins can be together. Codes that no condition tells apart are alike,
        so that one of each kind is looked at.
        """
        names, bins = (first[0], second[0]), (first[1], second[1])
        predicates = self.restrict_to(names).predicates
        is_empty = np.zeros((len(bins[0]), len(bins[1])), dtype=np.bool_)
        if not predicates:
            return is_empty
        kinds = [
            [_select_kinds(predicates, name, codes) for codes in column_bins]
            for name, column_bins in zip(names, bins, strict=True)
        ]
        for i, first_codes in enumerate(kinds[0]):
            for j, second_codes in enumerate(kinds[1]):
                pairs = {
                    names[0]: np.repeat(first_codes, len(second_codes)),
                    names[1]: np.tile(second_codes, len(first_codes)),
                }
                is_empty[i, j] = bool(self.find_impossible_rows(pairs).all())
        return is_empty


def read_structural_zeros(schema: Schema) -> StructuralZeros:
    """What the schema declares, held against its columns."""
    predicates = []
    for text in schema.impossible:
        try:
            query = parse_sql(f"SELECT COUNT(*) FROM {schema.name} WHERE {text}", schema)
        except (InvalidInput, Unsupported) as error:
            raise InvalidInput(f"what is declared impossible, {text[:60]!r}, cannot be read: {error}") from None
        if query.keys or any(schema.column(name).private_keys for name in list_predicate_columns(query.where)):
            raise InvalidInput(
                f"what is declared impossible, {text[:60]!r}, must be a condition on columns with public domains"
            )
        predicates.append(query.where)
    return StructuralZeros(tuple(predicates))


def list_predicate_columns(predicate: Predicate) -> tuple[str, ...]:
    """The columns that a predicate is about."""
    return tuple(dict.fromkeys(condition.column for condition in _list_conditions(predicate)))


def _list_conditions(predicate: Predicate) -> Iterator[InRanges | InTexts]:
    if isinstance(predicate, InRanges | InTexts):
        return iter((predicate,))
    return chain.from_iterable(map(_list_conditions, predicate.parts))


def _select_kinds(predicates: Sequence[Predicate], name: str, codes: CodeArray) -> CodeArray:
    """One code of each kind that the conditions on a column tell apart."""
    conditions = [
        condition for predicate in predicates for condition in _list_conditions(predicate) if condition.column == name
    ]
    outcomes = np.stack(
        [_evaluate_on_codes(condition, {name: codes}) for condition in conditions]
        or [np.zeros(len(codes), dtype=np.bool_)]
    )
    return codes[np.unique(outcomes, axis=1, return_index=True)[1]]


def _evaluate_on_codes(predicate: Predicate, codes: Mapping[str, CodeArray]) -> BoolArray:
    """As `query.predicate.holds`, of many rows."""
    if isinstance(predicate, InRanges):
        column_codes = codes[predicate.column]
        inside: list[BoolArray] = [(column_codes >= low) & (column_codes <= high) for low, high in predicate.ranges]
        is_inside = np.logical_or.reduce([*inside, np.zeros(len(column_codes), dtype=np.bool_)])
        return np.where(column_codes == MISSING_CODE, predicate.null, is_inside)
    if isinstance(predicate, InTexts):
        raise InvalidInput("a condition on texts cannot be declared impossible")
    combine: Callable[..., BoolArray] = np.logical_and.reduce if isinstance(predicate, AllOf) else np.logical_or.reduce
    rows = len(next(iter(codes.values())))
    start = np.full(rows, isinstance(predicate, AllOf))
    return combine([start, *(_evaluate_on_codes(part, codes) for part in predicate.parts)])
