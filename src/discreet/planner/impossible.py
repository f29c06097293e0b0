"""Combinations of values that no row can have, as the schema declares them: public, whatever the rows are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput, Unsupported
from discreet.query.predicate import All, OneOf, Predicate, Within
from discreet.query.released import MISSING
from discreet.query.sql import parse_sql
from discreet.schema import Schema

Codes = NDArray[np.int64]
MOST_KINDS = 2**20
Truths = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Impossible:
    """Predicates that hold of no row; codes are missing where they are MISSING."""

    predicates: tuple[Predicate, ...] = ()

    def among(self, names: Sequence[str]) -> Impossible:
        """Those that are about these columns alone."""
        return Impossible(tuple(one for one in self.predicates if set(columns_of(one)) <= set(names)))

    def rows(self, codes: Mapping[str, Codes]) -> Truths:
        """Which rows cannot be."""
        among = self.among(tuple(codes)).predicates
        rows = len(next(iter(codes.values())))
        found: Truths = np.logical_or.reduce([np.zeros(rows, dtype=np.bool_), *(_holds(one, codes) for one in among)])
        return found

    def turns(self, name: str) -> tuple[int, ...]:
        """The codes of a column at which what is possible may change."""
        own = [one for predicate in self.predicates for one in _conditions(predicate) if one.column == name]
        ranges = [each for one in own if isinstance(one, Within) for each in one.ranges]
        return tuple(sorted({turn for low, high in ranges for turn in (low, high + 1)}))

    def spare(self, domains: Mapping[str, Codes]) -> dict[str, int]:
        """One code of each column, of those given, that can all be together; refused where there are none.

        Codes that no condition tells apart are alike, so that one of each kind is looked at.
        """
        about = [name for name in domains if name in {own for one in self.predicates for own in columns_of(one)}]
        kinds = [_kinds(self.predicates, name, domains[name]) for name in about]
        if math.prod(map(len, kinds)) > MOST_KINDS:
            raise Unsupported(
                "what is declared impossible tells too many kinds of rows apart; declare fewer conditions"
            )
        every = [each.ravel() for each in np.meshgrid(*kinds, indexing="ij")] if about else []
        able = ~self.rows(dict(zip(about, every, strict=True))) if about else np.ones(1, dtype=np.bool_)
        if not able.any():
            raise InvalidInput("what is declared impossible leaves no row that can be; correct it in the schema")
        first = int(able.argmax())
        found = {name: int(each[first]) for name, each in zip(about, every, strict=True)}
        return {name: found.get(name, int(codes[0])) for name, codes in domains.items()}

    def table(self, first: tuple[str, Sequence[Codes]], second: tuple[str, Sequence[Codes]]) -> Truths:
        """Which cells of a table of two columns are empty; each column is given with the codes of each of its bins.

        A cell is empty where no two codes of its bins can be together. Codes that no condition tells apart are alike,
        so that one of each kind is looked at.
        """
        names, bins = (first[0], second[0]), (first[1], second[1])
        among = self.among(names).predicates
        found = np.zeros((len(bins[0]), len(bins[1])), dtype=np.bool_)
        if not among:
            return found
        kinds = [[_kinds(among, name, codes) for codes in own] for name, own in zip(names, bins, strict=True)]
        for i, one in enumerate(kinds[0]):
            for j, other in enumerate(kinds[1]):
                pairs = {names[0]: np.repeat(one, len(other)), names[1]: np.tile(other, len(one))}
                found[i, j] = bool(self.rows(pairs).all())
        return found


def impossible(schema: Schema) -> Impossible:
    """What the schema declares, held against its columns."""
    found = []
    for text in schema.impossible:
        try:
            query = parse_sql(f"SELECT COUNT(*) FROM {schema.name} WHERE {text}", schema)
        except (InvalidInput, Unsupported) as refused:
            raise InvalidInput(f"what is declared impossible, {text[:60]!r}, cannot be read: {refused}") from None
        if query.keys or any(schema.column(name).private_keys for name in columns_of(query.where)):
            raise InvalidInput(
                f"what is declared impossible, {text[:60]!r}, must be a condition on columns with public domains"
            )
        found.append(query.where)
    return Impossible(tuple(found))


def columns_of(predicate: Predicate) -> tuple[str, ...]:
    """The columns that a predicate is about."""
    return tuple(dict.fromkeys(one.column for one in _conditions(predicate)))


def _conditions(predicate: Predicate) -> Iterator[Within | OneOf]:
    if isinstance(predicate, Within | OneOf):
        return iter((predicate,))
    return chain.from_iterable(map(_conditions, predicate.parts))


def _kinds(predicates: Sequence[Predicate], name: str, codes: Codes) -> Codes:
    """One code of each kind that the conditions on a column tell apart."""
    own = [one for predicate in predicates for one in _conditions(predicate) if one.column == name]
    told = np.stack([_holds(one, {name: codes}) for one in own] or [np.zeros(len(codes), dtype=np.bool_)])
    return codes[np.unique(told, axis=1, return_index=True)[1]]


def _holds(predicate: Predicate, codes: Mapping[str, Codes]) -> Truths:
    """As `query.predicate.holds`, of many rows."""
    if isinstance(predicate, Within):
        own = codes[predicate.column]
        inside: list[Truths] = [(own >= low) & (own <= high) for low, high in predicate.ranges]
        found = np.logical_or.reduce([*inside, np.zeros(len(own), dtype=np.bool_)])
        return np.where(own == MISSING, predicate.null, found)
    if isinstance(predicate, OneOf):
        raise InvalidInput("a condition on texts cannot be declared impossible")
    joined: Callable[..., Truths] = np.logical_and.reduce if isinstance(predicate, All) else np.logical_or.reduce
    rows = len(next(iter(codes.values())))
    start = np.full(rows, isinstance(predicate, All))
    return joined([start, *(_holds(part, codes) for part in predicate.parts)])
