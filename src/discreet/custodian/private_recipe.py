"""How a differentially private file is to be made, checked against what is public before anything is charged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.errors import InvalidInput, Unsupported
from discreet.exact import as_int, as_number_between, as_positive, as_rational
from discreet.formatting import format_exact_amount
from discreet.schema import Column, Schema

SYNTHETIC_METHODS = ("private-columns", "private-records", "private-linked")
METHODS_TAKING_K = frozenset({"private-columns", "private-records"})
AUTO = "auto"
MAX_EPSILON = 10_000
COLUMN_LIMITS = {"private-records": (1, 12), "private-linked": (2, 1000)}
"""The least and the most columns of a method."""
METHOD_OF_OPTION = {"apart": "private-columns", "pairs": "private-linked"}
"""What one method alone takes."""


@dataclass(frozen=True, slots=True)
class SyntheticRecipe:
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
        payload: dict[str, object] = {
            "method": self.method,
            "columns": list(self.names),
            "epsilon": format_exact_amount(self.epsilon),
        }
        payload |= {} if self.delta is None else {"delta": format_exact_amount(self.delta)}
        payload |= {"k": self.k or AUTO} if self.method in METHODS_TAKING_K else {}
        payload |= {"pairs": [list(pair) for pair in self.pairs]} if self.pairs else {}
        return payload | ({"apart": True} if self.apart else {})


def build_synthetic_recipes(
    schema: Schema, method: str | None, epsilon: object, k: object, options: Mapping[str, object]
) -> list[SyntheticRecipe]:
    """One recipe; without a method, one for each that takes these columns, with what it takes of all that was said."""
    if method is not None:
        return [build_synthetic_recipe(schema, method, epsilon, k=k, **check_synthetic_options(method, options))]
    stated_options = check_synthetic_options("a private file", options)
    recipes = []
    for each_method in SYNTHETIC_METHODS:
        method_options = {
            name: value
            for name, value in stated_options.items()
            if METHOD_OF_OPTION.get(name, each_method) == each_method
        }
        recipe = build_synthetic_recipe(
            schema, each_method, epsilon, k=k if each_method in METHODS_TAKING_K else None, **method_options
        )
        least, most = COLUMN_LIMITS.get(each_method, (1, len(recipe.columns)))
        if least <= len(recipe.columns) <= most:
            recipes.append(recipe)
    return recipes


def check_synthetic_options(method: str, options: Mapping[str, object]) -> dict[str, Any]:
    """What was said of a private method; refused where another method's was."""
    stated_options = {name: value for name, value in options.items() if value not in (None, False, (), [], {}, "")}
    for name in sorted(stated_options.keys() - {"delta", "columns", "apart", "pairs"}):
        raise InvalidInput(f"{method} has no {name.replace('_', ' ')}; leave it out, or choose another method")
    return stated_options


def build_synthetic_recipe(
    schema: Schema,
    method: str,
    epsilon: object,
    delta: object = None,
    k: object = None,
    columns: object = (),
    apart: bool = False,
    pairs: object = (),
) -> SyntheticRecipe:
    """The recipe, or one sentence about what is wrong with it."""
    if method not in SYNTHETIC_METHODS:
        raise InvalidInput(f"private files are {', '.join(SYNTHETIC_METHODS)}; {method[:40]!r} is none of them")
    rows = _get_public_row_count(schema)
    if epsilon is None:
        raise InvalidInput(f"{method} needs an epsilon, how much may be lost; give one, such as --epsilon 1")
    if apart and method != "private-columns":
        raise InvalidInput(f"{method} keeps the values of a row together; only private-columns has them apart")
    if pairs and method != "private-linked":
        raise InvalidInput(f"{method} measures no pairs of columns; only private-linked does")
    chosen_columns = _parse_columns(schema, columns)
    return SyntheticRecipe(
        method,
        chosen_columns,
        rows,
        _parse_epsilon(epsilon),
        _parse_delta(delta, schema),
        _parse_k(k, method, rows),
        apart,
        _parse_pairs(pairs, [column.name for column in chosen_columns]),
    )


def _parse_epsilon(value: object) -> Fraction:
    epsilon = as_positive(value, "epsilon")
    if epsilon > MAX_EPSILON:
        raise InvalidInput(f"epsilon must be at most {MAX_EPSILON:,}, beyond which nothing is protected at all")
    return epsilon


def _parse_delta(value: object, schema: Schema) -> Fraction | None:
    if value is None or not as_rational(value, "delta"):
        return None
    if "approx-dp" not in schema.models:
        raise InvalidInput(f"{schema.name} allows no delta; leave it out, or add approx-dp to the models of the schema")
    return as_number_between(value, 0, 1, "delta")


def _parse_k(value: object, method: str, rows: int) -> int | None:
    if value in (None, AUTO):
        return None
    if method not in METHODS_TAKING_K:
        raise InvalidInput(f"{method} has no k; leave it out")
    if isinstance(value, str):
        raise InvalidInput(f"k is a whole number of at least 2, or auto; got {value[:40]!r}")
    k = as_int(value, "k", 2)
    if k > rows:
        raise InvalidInput(f"k must be at most the number of rows, {rows}; got {k}")
    return k


def _parse_pairs(value: object, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    listed = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    pairs = [tuple(map(str, pair)) for pair in listed if not isinstance(pair, str)]
    if len(pairs) < len(listed) or any(len(set(pair)) != 2 or not set(pair) <= set(names) for pair in pairs):
        raise InvalidInput("a pair is two different columns of the file, such as age,bmi")
    return tuple((first, second) for first, second in pairs)


def _get_public_row_count(schema: Schema) -> int:
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


def _parse_columns(schema: Schema, value: object) -> tuple[Column, ...]:
    """Those that were named; else all with a public domain but those that follow from others."""
    listed = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Sequence) else ()
    if len(set(listed)) < len(listed):
        raise InvalidInput("a column is released once; name each once")
    named_columns = [schema.column(str(name)) for name in listed]
    for column in named_columns:
        if column.derived is not None:
            raise InvalidInput(f"{column.name} follows from {column.derived.key}; release that, and look it up again")
    chosen_columns = named_columns or [column for column in schema.columns.values() if column.derived is None]
    for column in chosen_columns:
        if column.private_keys:
            raise InvalidInput(
                f"{column.name} has no public domain, so noise cannot cover what may be in it; list its categories in "
                "the schema, or name the columns to release without it"
            )
        if column.size < 2 and not column.is_nullable:
            raise InvalidInput(f"{column.name} has one possible value, so there is nothing to release; leave it out")
    return tuple(chosen_columns)
