"""The options of every release method, checked against what is public."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Any, get_args

from discreet.errors import InvalidInput, Unsupported
from discreet.formatting import format_exact_amount
from discreet.numeric import as_int, as_number_between, as_positive, as_rational, format_exact, parse_rational
from discreet.schema import Column, Schema
from discreet.schema.column import Role
from discreet.sdc.methods.partition import Closeness, Distinct, Diversity, Spread
from discreet.untrusted import copy_tree, has_type, require_exact_class

SYNTHETIC_METHODS = ("private-columns", "private-records", "private-linked")
METHODS_TAKING_K = frozenset({"private-columns", "private-records"})
AUTO = "auto"
MAX_EPSILON = 10_000
COLUMN_LIMITS = {"private-records": (1, 12), "private-linked": (2, 1000)}
"""The least and the most columns of a method."""
METHOD_OF_OPTION = {"apart": "private-columns", "pairs": "private-linked"}
"""The only method that takes an option."""
METHOD_OPTIONS: Mapping[str, frozenset[str]] = {
    "mdav": frozenset({"weights", "strata", "keep", "grouping"}),
    "generalise": frozenset({"keep", "hierarchies", "loss", "suppress"}),
    "mdav-swap": frozenset({"weights", "strata", "keep", "grouping", "informed", "swap", "ks", "diversity"}),
    "ir-swap": frozenset({"strata", "keep", "ks", "diversity"}),
    "t-closeness": frozenset({"t", "keep", "form", "buckets", "groups_per_bucket"}),
    "anatomy": frozenset({"weights", "strata", "keep", "grouping", "diversity", "partition"}),
}
"""The options of each method besides k."""
NEEDS_QUASI = frozenset({"mdav", "generalise", "mdav-swap", "t-closeness", "anatomy"})
NEEDS_CONFIDENTIAL = frozenset({"mdav-swap", "ir-swap", "t-closeness", "anatomy"})
DIVERSITY_KINDS: Mapping[str, Callable[[Any], Diversity]] = {
    kind.stored_name: kind for kind in (Distinct, Spread, Closeness)
}
NO_KS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SyntheticRecipe:
    """One way to make a synthetic file, checked by `build_synthetic_recipe`; without a k, k is chosen."""

    method: str
    columns: tuple[Column, ...]
    rows: int
    epsilon: Fraction
    delta: Fraction | None = None
    k: int | None = None
    apart: bool = False
    """Whether each column goes to a file of its own."""
    pairs: tuple[tuple[str, str], ...] = ()
    """For private-linked: pairs of columns that are measured in any case."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the released columns."""
        return tuple(column.name for column in self.columns)

    def to_json(self) -> dict[str, object]:
        """Return the recipe as JSON for the manifest: all of it is public."""
        payload: dict[str, object] = {"method": self.method, "columns": list(self.names)}
        payload["epsilon"] = format_exact_amount(self.epsilon)
        payload |= {} if self.delta is None else {"delta": format_exact_amount(self.delta)}
        payload |= {"k": self.k or AUTO} if self.method in METHODS_TAKING_K else {}
        payload |= {"pairs": [list(pair) for pair in self.pairs]} if self.pairs else {}
        return payload | ({"apart": True} if self.apart else {})


def build_synthetic_recipes(
    schema: Schema, method: str | None, epsilon: object, k: object, options: Mapping[str, object]
) -> list[SyntheticRecipe]:
    """Build one recipe; without a method, one for each that takes these columns, with those options that it takes."""
    if method is not None:
        return [build_synthetic_recipe(schema, method, epsilon, k=k, **check_synthetic_options(method, options))]
    stated_options = check_synthetic_options("a private file", options)
    recipes = []
    for name in SYNTHETIC_METHODS:
        method_options = {
            option: value for option, value in stated_options.items() if METHOD_OF_OPTION.get(option, name) == name
        }
        method_k = k if name in METHODS_TAKING_K else None
        recipe = build_synthetic_recipe(schema, name, epsilon, k=method_k, **method_options)
        least, most = COLUMN_LIMITS.get(name, (1, len(recipe.columns)))
        if least <= len(recipe.columns) <= most:
            recipes.append(recipe)
    return recipes


def check_synthetic_options(method: str, options: Mapping[str, object]) -> dict[str, Any]:
    """Return the options of a synthetic method that are set; those of other methods are refused."""
    return _select_stated_options(method, options, frozenset({"delta", "columns", "apart", "pairs"}))


def _select_stated_options(method: str, options: Mapping[str, object], allowed: frozenset[str]) -> dict[str, Any]:
    stated_options = {name: value for name, value in options.items() if value not in (None, False, (), [], {}, "")}
    for name in sorted(stated_options.keys() - allowed):
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
    """Build a recipe, or refuse with one sentence about what is wrong with it."""
    if method not in SYNTHETIC_METHODS:
        raise InvalidInput(f"private files are {', '.join(SYNTHETIC_METHODS)}; {str(method)[:40]!r} is none of them")
    rows = _get_public_row_count(schema)
    if epsilon is None:
        raise InvalidInput(f"{method} needs an epsilon, how much may be lost; give one, such as --epsilon 1")
    if apart and method != "private-columns":
        raise InvalidInput(f"{method} keeps the values of a row together; only private-columns has them apart")
    if pairs and method != "private-linked":
        raise InvalidInput(f"{method} measures no pairs of columns; only private-linked does")
    chosen_columns = _parse_columns(schema, columns)
    amounts = _parse_epsilon(epsilon), _parse_delta(delta, schema), _parse_k(k, method, rows)
    parsed_pairs = _parse_pairs(pairs, [column.name for column in chosen_columns])
    return SyntheticRecipe(method, chosen_columns, rows, *amounts, apart, parsed_pairs)


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
    """The number of rows that all neighbours have."""
    if schema.neighbors != "replace-one" or schema.units is None:
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


def _list_names(value: object) -> tuple[Any, ...]:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Sequence) else ()


def _parse_columns(schema: Schema, value: object) -> tuple[Column, ...]:
    """The named columns; else all but those that follow from others."""
    listed = _list_names(value)
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


@dataclass(frozen=True, slots=True)
class ProtectionRecipe:
    """One way to protect a table, checked by `build_protection_recipe`."""

    method: str
    k: int
    quasi: tuple[str, ...]
    confidential: tuple[str, ...]
    keep: tuple[str, ...] = ()
    t: Fraction | None = None
    ks: Mapping[str, int] = field(default_factory=lambda: NO_KS)
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
        """The names of the released columns."""
        return tuple(dict.fromkeys((*self.quasi, *self.confidential, *self.keep)))

    def to_json(self) -> dict[str, object]:
        """Return the public part of the recipe as JSON for the manifest."""
        stated_options = self._list_options()
        option_names = METHOD_OPTIONS[self.method] - {"keep", "hierarchies"}
        options = {name: _to_json_value(stated_options[name]) for name in sorted(option_names) if stated_options[name]}
        roles = {"quasi_identifiers": list(self.quasi), "confidential": list(self.confidential)}
        return {"method": self.method, "k": self.k} | options | roles | {"kept_as_they_are": list(self.keep)}

    def _list_options(self) -> dict[str, object]:
        """The options by the names that manifests have for them."""
        grouping = {"grouping": self.grouping, "weights": self.weights, "strata": self.strata}
        swapping = {"ks": self.ks, "informed": self.informed, "swap": self.swap, "diversity": self.diversity}
        generalizing = {"loss": self.loss, "suppress": self.suppress}
        buckets = {"t": self.t, "buckets": self.buckets, "groups_per_bucket": self.groups_per_bucket}
        return {**grouping, **swapping, **generalizing, **buckets, "form": self.form, "partition": self.partition}


def _to_json_value(value: object) -> object:
    if isinstance(value, Diversity):
        return value.to_text()
    return dict(value) if isinstance(value, Mapping) else str(value) if isinstance(value, Fraction) else value


def copy_option(value: object) -> object:
    """Copy an option of a method as plain values, since it meets the rows."""
    diversity_kinds = get_args(Diversity)
    if has_type(value, diversity_kinds):
        diversity = require_exact_class(value, diversity_kinds, "diversity is Distinct, Spread or Closeness")
        return type(diversity)(*astuple(diversity))
    return copy_tree(value, "what is said of a method")


def build_protection_recipe(
    schema: Schema, method: object, k: object, epsilon: object = None, **options: Any
) -> ProtectionRecipe:
    """Build a recipe, or refuse with one sentence about what is wrong with it."""
    if method not in METHOD_OPTIONS:
        listed = ", ".join((*SYNTHETIC_METHODS, *METHOD_OPTIONS))
        raise InvalidInput(f"a file is protected by {listed}; {str(method)[:40]!r} is none of them")
    method_name = str(method)
    if epsilon is not None:
        raise InvalidInput(f"{method_name} promises no differential privacy and has no epsilon; leave it out")
    stated_options = _select_stated_options(method_name, options, METHOD_OPTIONS[method_name])
    if k is None:
        raise InvalidInput(f"{method_name} needs k, how many people each hides among; give k, such as 10")
    options = {
        name: parse(schema, stated_options.pop(name))
        for name, parse in _COLUMN_PARSERS.items()
        if name in stated_options
    }
    options |= {name: _OPTION_PARSERS[name](value) for name, value in stated_options.items()}
    roles = _require_roles(schema, method_name)
    recipe = ProtectionRecipe(method_name, _parse_at_least_two(k), *roles, **options)
    _check_recipe(recipe)
    return recipe


def get_column_roles(schema: Schema) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the quasi-identifiers and the confidential columns; a file hides rows, so a row must be a unit."""
    if schema.rows > 1:
        raise Unsupported(
            f"a file hides each row among k rows, and {schema.name} keeps up to {schema.rows} rows of one unit, which "
            "could be all of them; publish a table with one row for each unit"
        )
    quasi = tuple(name for name, column in schema.columns.items() if column.role == "quasi-identifier")
    confidential = tuple(name for name, column in schema.columns.items() if column.role == "confidential")
    return quasi, confidential


def _require_roles(schema: Schema, method: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    quasi, confidential = get_column_roles(schema)
    needs = (NEEDS_QUASI, quasi, "quasi-identifier"), (NEEDS_CONFIDENTIAL, confidential, "confidential")
    for methods, names, role in needs:
        if method in methods and not names:
            raise InvalidInput(
                f"{method} needs a column with the role {role} and {schema.name} declares none; add role: {role}"
            )
    return quasi, confidential


def _check_recipe(recipe: ProtectionRecipe) -> None:
    if recipe.method == "t-closeness" and recipe.t is None:
        raise InvalidInput("t-closeness needs t, how far a group may be from the whole; give t, such as 2")
    protected_names = sorted(set(recipe.keep) & {*recipe.quasi, *recipe.confidential})
    if protected_names:
        raise InvalidInput(
            f"{protected_names[0]} is a quasi-identifier or confidential and is not kept as it is; leave it out"
        )
    reserved_names = sorted(name for name in recipe.columns if name.lower() in {"group", "count"})
    if reserved_names and (recipe.method == "anatomy" or recipe.form == "anatomy"):
        raise InvalidInput(f"Anatomy writes a column {reserved_names[0]!r} of its own; rename that of the table")
    unknown_names = sorted(set(recipe.ks) - set(recipe.confidential))
    if unknown_names:
        raise InvalidInput(f"a k of its own is for a confidential column; {unknown_names[0][:40]!r} is none")


def _parse_at_least_two(value: object, name: str = "k") -> int:
    return as_int(value, name, 2)


def _parse_t(value: object) -> Fraction:
    t = as_rational(value, "t")
    if t < 1:
        raise InvalidInput(f"t must be at least 1, got {format_exact(t)}; at 1 every group is like the whole")
    return t


def _parse_ks(value: object) -> Mapping[str, int]:
    if not isinstance(value, Mapping):
        raise InvalidInput("a k for each column is a mapping such as {'income': 20}")
    ks = {str(name): _parse_at_least_two(k, f"the k of {str(name)[:40]!r}") for name, k in value.items()}
    return MappingProxyType(ks)


def _parse_diversity(value: object) -> Diversity:
    if isinstance(value, Diversity):
        return value
    name, _, amount = str(value).strip().partition(" ")
    if name not in DIVERSITY_KINDS or not amount:
        raise InvalidInput(f"diversity is 'distinct 3', 'spread 1000' or 'closeness 0.2'; got {str(value)[:40]!r}")
    return DIVERSITY_KINDS[name](parse_rational(amount.strip(), f"the amount of {name}"))


def _parse_hierarchies(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidInput("hierarchies are a mapping such as {'age': [5, 10], 'sex': [{'F': 'any', 'M': 'any'}]}")
    return MappingProxyType(dict(value))


def _parse_suppress(value: object) -> Fraction:
    share = as_rational(value, "suppress")
    if not 0 <= share < 1:
        raise InvalidInput(
            f"suppress, the share of rows that may be left out, is at least 0 and below 1; got {format_exact(share)}"
        )
    return share


def _make_choice_parser(what: str, *allowed: str) -> Callable[[object], str]:
    def parse_choice(value: object) -> str:
        if value not in allowed:
            raise InvalidInput(f"{what} is {' or '.join(allowed)}; got {str(value)[:40]!r}")
        return str(value)

    return parse_choice


def _parse_keep(schema: Schema, value: object) -> tuple[str, ...]:
    columns = [schema.column(str(name)) for name in _list_names(value)]
    for column in columns:
        if column.derived is not None and _get_role(schema, column) != "other":
            raise InvalidInput(
                f"{column.name} follows from {column.derived.key}, which is protected; kept, it would undo that"
            )
    return tuple(column.name for column in columns)


def _get_role(schema: Schema, column: Column) -> Role:
    """The role of a column, or of the one it follows from."""
    return column.role if column.derived is None else schema.columns[column.derived.key].role


def _require_not_confidential(schema: Schema, name: object, what: str) -> Column:
    column = schema.column(str(name))
    if _get_role(schema, column) == "confidential":
        raise InvalidInput(f"{what} cannot come from {column.name}, which is confidential: groups would give it away")
    return column


def _parse_weights(schema: Schema, value: object) -> str:
    column = _require_not_confidential(schema, value, "weights")
    if not column.is_numeric or column.lower <= 0 or (column.is_nullable and column.private_keys):
        raise InvalidInput(
            f"weights are numbers above 0; {column.name} is not declared so, by its kind and lower bound"
        )
    return column.name


_COLUMN_PARSERS: Mapping[str, Callable[[Schema, object], Any]] = {
    "keep": _parse_keep,
    "weights": _parse_weights,
    "strata": lambda schema, value: _require_not_confidential(schema, value, "strata").name,
}
_OPTION_PARSERS: Mapping[str, Callable[[object], Any]] = {
    "t": _parse_t,
    "ks": _parse_ks,
    "informed": bool,
    "swap": _make_choice_parser("swap", "confidential", "quasi"),
    "diversity": _parse_diversity,
    "grouping": _make_choice_parser("grouping", "mdav", "v-mdav", "insensitive", "random"),
    "hierarchies": _parse_hierarchies,
    "loss": _make_choice_parser("loss", "precision", "discernibility", "class-size", "ncp"),
    "suppress": _parse_suppress,
    "form": _make_choice_parser("form", "hidden", "anatomy"),
    "partition": _make_choice_parser("partition", "confidential", "quasi"),
    "buckets": partial(_parse_at_least_two, name="buckets"),
    "groups_per_bucket": partial(as_int, name="groups per bucket"),
}
"""How the value of each option is read."""
