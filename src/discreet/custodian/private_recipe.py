"""How a differentially private file is to be made, checked against what is public before anything is charged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.errors import InvalidInput, Unsupported
from discreet.exact import between, positive, rational, shown, whole
from discreet.schema import Column, Schema

METHODS = ("private-columns", "private-records", "private-linked")
TAKES_K = frozenset({"private-columns", "private-records"})
AUTO = "auto"
MOST = {"private-records": (1, 12), "private-linked": (2, 1000)}
"""The least and the most columns of a method."""


@dataclass(frozen=True, slots=True)
class PrivateRecipe:
    """One way to make a private file; made by `private_recipe_of`, which checks it. Without a k it is chosen."""

    method: str
    columns: tuple[Column, ...]
    rows: int
    epsilon: Fraction
    delta: Fraction | None = None
    k: int | None = None
    apart: bool = False
    """Whether each column goes to a file of its own."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are released."""
        return tuple(column.name for column in self.columns)

    def to_json(self) -> dict[str, object]:
        """What may be told of it with the release: all of it."""
        told: dict[str, object] = {"method": self.method, "columns": list(self.names), "epsilon": shown(self.epsilon)}
        told |= {} if self.delta is None else {"delta": shown(self.delta)}
        told |= {"k": self.k or AUTO} if self.method in TAKES_K else {}
        return told | ({"apart": True} if self.apart else {})


def fits(recipe: PrivateRecipe) -> bool:
    """Whether a method takes so many columns."""
    return recipe.method == "private-columns" or MOST[recipe.method][0] <= len(recipe.columns) <= MOST[recipe.method][1]


def said_of(method: str, given: Mapping[str, object]) -> dict[str, Any]:
    """What was said of a private method; refused where another method's was."""
    said = {name: value for name, value in given.items() if value not in (None, False, (), [], {}, "")}
    for name in sorted(said.keys() - {"delta", "columns", "apart"}):
        raise InvalidInput(f"{method} has no {name.replace('_', ' ')}; leave it out, or choose another method")
    return said


def private_recipe_of(
    schema: Schema,
    method: str,
    epsilon: object,
    delta: object = None,
    k: object = None,
    columns: object = (),
    apart: bool = False,
) -> PrivateRecipe:
    """The recipe, or one sentence about what is wrong with it."""
    rows = _public_rows(schema)
    if epsilon is None:
        raise InvalidInput(f"{method} needs an epsilon, how much may be lost; give one, such as --epsilon 1")
    if apart and method != "private-columns":
        raise InvalidInput(f"{method} keeps the values of a row together; only private-columns has them apart")
    if k not in (None, AUTO) and method not in TAKES_K:
        raise InvalidInput(f"{method} has no k; leave it out")
    if k not in (None, AUTO):
        most = whole(k, "k", 2)
        if most > rows:
            raise InvalidInput(f"k must be at most the number of rows, {rows}; got {most}")
    return PrivateRecipe(
        method,
        _columns(schema, columns),
        rows,
        positive(epsilon, "epsilon"),
        None if delta is None or not rational(delta, "delta") else between(delta, 0, 1, "delta"),
        None if k in (None, AUTO) else whole(k, "k", 2),
        apart,
    )


def _public_rows(schema: Schema) -> int:
    """How many rows every neighbour has."""
    if schema.neighbours != "replace-one" or schema.units is None:
        raise Unsupported(
            f"a private file tells how many rows there are, and under add-remove {schema.name} keeps that number "
            "secret, which no fixed layout does; declare neighbours: replace-one and units, if the number is public"
        )
    if schema.rows > 1:
        raise Unsupported(
            f"a private file is proven for one row of each unit, and {schema.name} keeps up to {schema.rows}; "
            "publish a table with one row for each unit"
        )
    return schema.units


def _columns(schema: Schema, given: object) -> tuple[Column, ...]:
    """Those that were named; else all with a public domain but those that follow from others."""
    listed = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Sequence) else ()
    if len(set(listed)) < len(listed):
        raise InvalidInput("a column is released once; name each once")
    named = [schema.column(str(name)) for name in listed]
    for column in named:
        if column.derived is not None:
            raise InvalidInput(f"{column.name} follows from {column.derived.key}; release that, and look it up again")
    chosen = named or [column for column in schema.columns.values() if column.derived is None]
    for column in chosen:
        if column.private_keys:
            raise InvalidInput(
                f"{column.name} has no public domain, so noise cannot cover what may be in it; list its categories in "
                "the schema, or name the columns to release without it"
            )
        if column.size < 2 and not column.nullable:
            raise InvalidInput(f"{column.name} has one possible value, so there is nothing to release; leave it out")
    return tuple(chosen)
