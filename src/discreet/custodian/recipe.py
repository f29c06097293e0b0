"""How a file is to be protected, checked against what is public before a row is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Any, get_args

from discreet.custodian.private_recipe import METHODS as PRIVATE
from discreet.errors import InvalidInput, Unsupported
from discreet.exact import rational, rational_text, shown, whole
from discreet.microdata.diversity import Closeness, Distinct, Diversity, Spread
from discreet.plain import is_a, plain_tree, require_own
from discreet.schema import Column, Schema
from discreet.schema.column import Role

METHODS: Mapping[str, frozenset[str]] = {
    "mdav": frozenset({"weights", "strata", "keep", "grouping"}),
    "generalise": frozenset({"keep", "hierarchies", "loss", "suppress"}),
    "mdav-swap": frozenset({"weights", "strata", "keep", "grouping", "informed", "swap", "ks", "diversity"}),
    "ir-swap": frozenset({"strata", "keep", "ks", "diversity"}),
    "t-closeness": frozenset({"t", "keep", "form", "buckets", "groups_per_bucket"}),
    "anatomy": frozenset({"weights", "strata", "keep", "grouping", "diversity", "partition"}),
}
"""What can be said of each method, besides k."""

NEEDS_QUASI = frozenset({"mdav", "generalise", "mdav-swap", "t-closeness", "anatomy"})
NEEDS_CONFIDENTIAL = frozenset({"mdav-swap", "ir-swap", "t-closeness", "anatomy"})
FLOORS: Mapping[str, Callable[[Any], Diversity]] = {one.stored_name: one for one in (Distinct, Spread, Closeness)}
NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Recipe:
    """One way to protect a table; made by `recipe_of`, which checks it."""

    method: str
    k: int
    quasi: tuple[str, ...]
    confidential: tuple[str, ...]
    keep: tuple[str, ...] = ()
    t: Fraction | None = None
    ks: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    informed: bool = False
    swap: str = "confidential"
    diversity: Diversity | None = None
    weights: str | None = None
    strata: str | None = None
    grouping: str = "mdav"
    hierarchies: Mapping[str, object] | None = None
    loss: str = "ncp"
    suppress: Fraction = Fraction(0)
    form: str = "hidden"
    partition: str = "confidential"
    buckets: int | None = None
    groups_per_bucket: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are released."""
        return tuple(dict.fromkeys((*self.quasi, *self.confidential, *self.keep)))

    def to_json(self) -> dict[str, object]:
        """What may be told of it with the release."""
        said = METHODS[self.method] - {"keep", "hierarchies"}
        told = {name: _plain(value) for name, value in sorted(self._said().items()) if name in said and value}
        roles = {"quasi_identifiers": list(self.quasi), "confidential": list(self.confidential)}
        return {"method": self.method, "k": self.k} | told | roles | {"kept_as_they_are": list(self.keep)}

    def _said(self) -> dict[str, object]:
        """What can be said of a method, by the names that manifests have for it."""
        return {
            "buckets": self.buckets,
            "diversity": self.diversity,
            "form": self.form,
            "grouping": self.grouping,
            "groups_per_bucket": self.groups_per_bucket,
            "informed": self.informed,
            "ks": self.ks,
            "loss": self.loss,
            "partition": self.partition,
            "strata": self.strata,
            "suppress": self.suppress,
            "swap": self.swap,
            "t": self.t,
            "weights": self.weights,
        }


def _plain(value: object) -> object:
    if isinstance(value, Diversity):
        return value.to_text()
    return dict(value) if isinstance(value, Mapping) else str(value) if isinstance(value, Fraction) else value


def plain_said(value: object) -> object:
    """What is said of a method, copied as plain values: it is held against the rows."""
    floors = get_args(Diversity)
    if is_a(value, floors):
        own = require_own(value, floors, "diversity is Distinct, Spread or Closeness")
        return type(own)(*astuple(own))
    return plain_tree(value, "what is said of a method")


def recipe_of(schema: Schema, method: object, k: object, epsilon: object = None, **given: object) -> Recipe:
    """The recipe, or one sentence about what is wrong with it."""
    if method not in METHODS:
        listed = ", ".join((*PRIVATE, *METHODS))
        raise InvalidInput(f"a file is protected by {listed}; {str(method)[:40]!r} is none of them")
    named = str(method)
    if epsilon is not None:
        raise InvalidInput(f"{named} promises no differential privacy and has no epsilon; leave it out")
    said = {name: value for name, value in given.items() if value not in (None, False, (), [], {}, "")}
    for name in sorted(said.keys() - METHODS[named]):
        raise InvalidInput(f"{named} has no {name.replace('_', ' ')}; leave it out, or choose another method")
    if k is None:
        raise InvalidInput(f"{named} needs k, how many people each hides among; give k, such as 10")
    names = {name: _NAMES[name](schema, said.pop(name)) for name in _NAMES if name in said}
    read = {name: _READ[name](value) for name, value in said.items()}
    quasi, confidential = _roles(schema, named)
    roles: dict[str, Any] = {"quasi": quasi, "confidential": confidential}
    recipe = Recipe(named, _at_least_2(k), **roles, **names, **read)
    _check(recipe)
    return recipe


def roles_of(schema: Schema) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The quasi-identifiers and the confidential columns; a file hides rows, so a row must be a unit."""
    if schema.rows > 1:
        raise Unsupported(
            f"a file hides each row among k rows, and {schema.name} keeps up to {schema.rows} rows of one unit, which "
            "could be all of them; publish a table with one row for each unit"
        )
    quasi = tuple(name for name, column in schema.columns.items() if column.role == "quasi-identifier")
    confidential = tuple(name for name, column in schema.columns.items() if column.role == "confidential")
    return quasi, confidential


def _roles(schema: Schema, method: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    quasi, confidential = roles_of(schema)
    for needed, names, role in (
        (NEEDS_QUASI, quasi, "quasi-identifier"),
        (NEEDS_CONFIDENTIAL, confidential, "confidential"),
    ):
        if method in needed and not names:
            raise InvalidInput(
                f"{method} needs a column with the role {role} and {schema.name} declares none; add role: {role}"
            )
    return quasi, confidential


def _check(recipe: Recipe) -> None:
    if recipe.method == "t-closeness" and recipe.t is None:
        raise InvalidInput("t-closeness needs t, how far a group may be from the whole; give t, such as 2")
    both = sorted(set(recipe.keep) & {*recipe.quasi, *recipe.confidential})
    if both:
        raise InvalidInput(f"{both[0]} is a quasi-identifier or confidential and is not kept as it is; leave it out")
    taken = sorted(name for name in recipe.columns if name.lower() in {"group", "count"})
    if taken and (recipe.method == "anatomy" or recipe.form == "anatomy"):
        raise InvalidInput(f"Anatomy writes a column {taken[0]!r} of its own; rename that of the table")
    strange = sorted(set(recipe.ks) - set(recipe.confidential))
    if strange:
        raise InvalidInput(f"a k of its own is for a confidential column; {strange[0][:40]!r} is none")


def _at_least_2(value: object, name: str = "k") -> int:
    return whole(value, name, 2)


def _t(value: object) -> Fraction:
    t = rational(value, "t")
    if t < 1:
        raise InvalidInput(f"t must be at least 1, got {shown(t)}; at 1 every group is like the whole")
    return t


def _ks(value: object) -> Mapping[str, int]:
    if not isinstance(value, Mapping):
        raise InvalidInput("a k for each column is a mapping such as {'income': 20}")
    return MappingProxyType({str(name): _at_least_2(k, f"the k of {str(name)[:40]!r}") for name, k in value.items()})


def _diversity(value: object) -> Diversity:
    if isinstance(value, Diversity):
        return value
    name, _, amount = str(value).strip().partition(" ")
    if name not in FLOORS or not amount:
        raise InvalidInput(f"diversity is 'distinct 3', 'spread 1000' or 'closeness 0.2'; got {str(value)[:40]!r}")
    return FLOORS[name](rational_text(amount.strip(), f"the amount of {name}"))


def _hierarchies(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidInput("hierarchies are a mapping such as {'age': [5, 10], 'sex': [{'F': 'any', 'M': 'any'}]}")
    return MappingProxyType(dict(value))


def _share(value: object) -> Fraction:
    share = rational(value, "suppress")
    if not 0 <= share < 1:
        raise InvalidInput(
            f"suppress, the share of rows that may be left out, is at least 0 and below 1; got {shown(share)}"
        )
    return share


def _one_of(what: str, *allowed: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in allowed:
            raise InvalidInput(f"{what} is {' or '.join(allowed)}; got {str(value)[:40]!r}")
        return str(value)

    return read


def _kept(schema: Schema, value: object) -> tuple[str, ...]:
    listed = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Sequence) else ()
    columns = [schema.column(str(name)) for name in listed]
    for column in columns:
        if column.derived is not None and _role(schema, column) != "other":
            raise InvalidInput(
                f"{column.name} follows from {column.derived.key}, which is protected; kept, it would undo that"
            )
    return tuple(column.name for column in columns)


def _role(schema: Schema, column: Column) -> Role:
    """The role of a column, or of the one it follows from."""
    return column.role if column.derived is None else schema.columns[column.derived.key].role


def _not_confidential(schema: Schema, name: object, what: str) -> Column:
    column = schema.column(str(name))
    if _role(schema, column) == "confidential":
        raise InvalidInput(f"{what} cannot come from {column.name}, which is confidential: groups would give it away")
    return column


def _strata(schema: Schema, value: object) -> str:
    return _not_confidential(schema, value, "strata").name


def _weights(schema: Schema, value: object) -> str:
    column = _not_confidential(schema, value, "weights")
    if not column.numeric or column.lower <= 0 or (column.nullable and column.private_keys):
        raise InvalidInput(
            f"weights are numbers above 0; {column.name} is not declared so, by its kind and lower bound"
        )
    return column.name


_NAMES: Mapping[str, Callable[[Schema, object], Any]] = {"keep": _kept, "weights": _weights, "strata": _strata}
_READ: Mapping[str, Callable[[object], Any]] = {
    "t": _t,
    "ks": _ks,
    "informed": bool,
    "swap": _one_of("swap", "confidential", "quasi"),
    "diversity": _diversity,
    "grouping": _one_of("grouping", "mdav", "v-mdav", "insensitive", "random"),
    "hierarchies": _hierarchies,
    "loss": _one_of("loss", "precision", "discernibility", "class-size", "ncp"),
    "suppress": _share,
    "form": _one_of("form", "hidden", "anatomy"),
    "partition": _one_of("partition", "confidential", "quasi"),
    "buckets": partial(_at_least_2, name="buckets"),
    "groups_per_bucket": partial(whole, name="groups per bucket"),
}
"""How what is said of a method is read."""
