"""How a differentially private file is to be made, checked against what is public before anything is charged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.errors import InvalidInput, Unsupported
from discreet.exact import between, positive, rational, whole
from discreet.formatting import format_exact
from discreet.schema import Column, Schema

METHODS = ("private-columns", "private-records", "private-linked")
TAKES_K = frozenset({"private-columns", "private-records"})
AUTO = "auto"
MOST_EPSILON = 10_000
MOST = {"private-records": (1, 12), "private-linked": (2, 1000)}
"""The least and the most columns of a method."""
OWN = {"apart": "private-columns", "pairs": "private-linked"}
"""What one method alone takes."""


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
    pairs: tuple[tuple[str, str], ...] = ()
    """Of linked records: pairs of columns that are measured in any case."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are released."""
        return tuple(column.name for column in self.columns)

    def to_json(self) -> dict[str, object]:
        """What may be told of it with the release: all of it."""
        told: dict[str, object] = {
            "method": self.method,
            "columns": list(self.names),
            "epsilon": format_exact(self.epsilon),
        }
        told |= {} if self.delta is None else {"delta": format_exact(self.delta)}
        told |= {"k": self.k or AUTO} if self.method in TAKES_K else {}
        told |= {"pairs": [list(pair) for pair in self.pairs]} if self.pairs else {}
        return told | ({"apart": True} if self.apart else {})


def recipes_of(
    schema: Schema, method: str | None, epsilon: object, k: object, more: Mapping[str, object]
) -> list[PrivateRecipe]:
    """One recipe; without a method, one for each that takes these columns, with what it takes of all that was said."""
    if method is not None:
        return [private_recipe_of(schema, method, epsilon, k=k, **said_of(method, more))]
    said = said_of("a private file", more)
    found = []
    for each in METHODS:
        own = {name: value for name, value in said.items() if OWN.get(name, each) == each}
        recipe = private_recipe_of(schema, each, epsilon, k=k if each in TAKES_K else None, **own)
        least, most = MOST.get(each, (1, len(recipe.columns)))
        if least <= len(recipe.columns) <= most:
            found.append(recipe)
    return found


def said_of(method: str, given: Mapping[str, object]) -> dict[str, Any]:
    """What was said of a private method; refused where another method's was."""
    said = {name: value for name, value in given.items() if value not in (None, False, (), [], {}, "")}
    for name in sorted(said.keys() - {"delta", "columns", "apart", "pairs"}):
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
    pairs: object = (),
) -> PrivateRecipe:
    """The recipe, or one sentence about what is wrong with it."""
    if method not in METHODS:
        raise InvalidInput(f"private files are {', '.join(METHODS)}; {method[:40]!r} is none of them")
    rows = _public_rows(schema)
    if epsilon is None:
        raise InvalidInput(f"{method} needs an epsilon, how much may be lost; give one, such as --epsilon 1")
    if apart and method != "private-columns":
        raise InvalidInput(f"{method} keeps the values of a row together; only private-columns has them apart")
    if pairs and method != "private-linked":
        raise InvalidInput(f"{method} measures no pairs of columns; only private-linked does")
    chosen = _columns(schema, columns)
    return PrivateRecipe(
        method,
        chosen,
        rows,
        _epsilon(epsilon),
        _delta(delta, schema),
        _k(k, method, rows),
        apart,
        _pairs(pairs, [column.name for column in chosen]),
    )


def _epsilon(given: object) -> Fraction:
    epsilon = positive(given, "epsilon")
    if epsilon > MOST_EPSILON:
        raise InvalidInput(f"epsilon must be at most {MOST_EPSILON:,}, beyond which nothing is protected at all")
    return epsilon


def _delta(given: object, schema: Schema) -> Fraction | None:
    if given is None or not rational(given, "delta"):
        return None
    if "approx-dp" not in schema.models:
        raise InvalidInput(f"{schema.name} allows no delta; leave it out, or add approx-dp to the models of the schema")
    return between(given, 0, 1, "delta")


def _k(given: object, method: str, rows: int) -> int | None:
    if given in (None, AUTO):
        return None
    if method not in TAKES_K:
        raise InvalidInput(f"{method} has no k; leave it out")
    if isinstance(given, str):
        raise InvalidInput(f"k is a whole number of at least 2, or auto; got {given[:40]!r}")
    k = whole(given, "k", 2)
    if k > rows:
        raise InvalidInput(f"k must be at most the number of rows, {rows}; got {k}")
    return k


def _pairs(given: object, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    listed = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else ()
    found = [tuple(map(str, pair)) for pair in listed if not isinstance(pair, str)]
    if len(found) < len(listed) or any(len(set(pair)) != 2 or not set(pair) <= set(names) for pair in found):
        raise InvalidInput("a pair is two different columns of the file, such as age,bmi")
    return tuple((one, other) for one, other in found)


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
