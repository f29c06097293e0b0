"""One dataclass for each release method, with its own options and checks against what is public.

Commands, requests, forms and clients are made from the options that these classes list.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from discreet.errors import InvalidInput, Unsupported
from discreet.formatting import format_exact_amount
from discreet.release.method_options import (
    APART,
    AUTO,
    BLOCK_K,
    BUCKETS,
    COLUMNS,
    DELTA,
    DIVERSITY,
    EPSILON,
    FORM,
    GROUPING,
    GROUPS_PER_BUCKET,
    HIERARCHIES,
    INFORMED,
    KEEP,
    LOSS,
    OPTION,
    PAIRS,
    PARTITION,
    SIZES,
    STRATA,
    SUPPRESS,
    SWAP,
    WEIGHTS,
    Amount,
    K,
    Option,
    T,
    parse_auto,
    parse_column_names,
    parse_delta,
    parse_epsilon,
)
from discreet.suggestions import build_unknown_name_error, find_similar_names
from discreet.untrusted import CheckedValue, copy_text, has_type, require_exact_class, set_fields

if TYPE_CHECKING:
    from discreet.schema import Column, Schema
    from discreet.schema.schema import Role
    from discreet.sdc.methods.partition import Diversity


@dataclass(frozen=True, kw_only=True)
class ReleaseMethod(CheckedValue, ABC):
    """A release method with its options; every option is copied as plain data, since it meets the rows."""

    stored_name: ClassVar[str]

    def __post_init__(self) -> None:
        for item in fields(self):
            if (value := getattr(self, item.name)) is not item.default:
                set_fields(self, **{item.name: item.metadata[OPTION].parse(value)})

    @classmethod
    def list_options(cls) -> Mapping[str, tuple[Option, object]]:
        """List the options with their defaults, by name; an option that is needed has None."""
        options: list[tuple[Option, object]] = [
            (item.metadata[OPTION], None if item.default is MISSING else item.default) for item in fields(cls)
        ]
        return {option.name: (option, default) for option, default in options}

    def list_values(self) -> dict[str, object]:
        """List the values of the options that are set, by name."""
        values = {name: (getattr(self, name), default) for name, (_, default) in self.list_options().items()}
        return {name: value for name, (value, default) in values.items() if value != default}

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return partial(type(self), **self.list_values()), ()

    @property
    def is_apart(self) -> bool:
        """Whether each column is a file of its own, in a folder."""
        return False

    @abstractmethod
    def resolve(self, schema: Schema) -> SyntheticRecipe | ProtectionRecipe:
        """Apply the method to a table, or refuse with one sentence about what does not fit."""

    def _check_columns(self, schema: Schema) -> None:
        """Refuse columns that do not fit their option."""
        for name, (option, _) in self.list_options().items():
            if option.check is not None:
                for column in parse_column_names(getattr(self, name) or ()):
                    option.check(schema, column)


@dataclass(frozen=True, kw_only=True)
class SyntheticMethod(ReleaseMethod):
    """A method that makes a differentially private synthetic file."""

    column_limits: ClassVar[tuple[int, int]] = (1, 1000)
    """The fewest and the most columns that it takes."""
    epsilon: Amount = field(metadata=EPSILON.metadata)
    delta: Amount | None = field(default=None, metadata=DELTA.metadata)
    columns: Sequence[str] = field(default=(), metadata=COLUMNS.metadata)

    def resolve(self, schema: Schema) -> SyntheticRecipe:
        """Apply the method to a table, or refuse with one sentence about what does not fit."""
        rows = _get_public_row_count(schema)
        if self.delta is not None and "approx-dp" not in schema.models:
            raise InvalidInput(
                f"{schema.name} allows no delta; leave it out, or add approx-dp to the models of the schema"
            )
        self._check_columns(schema)
        recipe = SyntheticRecipe(self, _choose_columns(schema, self.columns), rows)
        if recipe.k is not None and recipe.k > rows:
            raise InvalidInput(f"k must be at most the number of rows, {rows}; got {recipe.k}")
        if not {name for pair in recipe.pairs for name in pair} <= set(recipe.names):
            raise InvalidInput("a pair is two different columns of the file, such as age,bmi")
        return recipe


@dataclass(frozen=True, kw_only=True)
class PrivateColumns(SyntheticMethod):
    """DP synthetic data, column by column: the smallest error per column, and values of a row are not linked."""

    stored_name: ClassVar[str] = "private-columns"
    k: int | Literal["auto"] | None = field(default=None, metadata=BLOCK_K.metadata)
    apart: bool = field(default=False, metadata=APART.metadata)

    @property
    def is_apart(self) -> bool:
        """Whether each column is a file of its own, in a folder."""
        return self.apart


@dataclass(frozen=True, kw_only=True)
class PrivateRecords(SyntheticMethod):
    """DP synthetic data of whole records: centroids of clusters of similar records, for at most 12 columns."""

    stored_name: ClassVar[str] = "private-records"
    column_limits: ClassVar[tuple[int, int]] = (1, 12)
    k: int | Literal["auto"] | None = field(default=None, metadata=BLOCK_K.metadata)


@dataclass(frozen=True, kw_only=True)
class PrivateLinked(SyntheticMethod):
    """DP synthetic data whose columns keep their relations: rows sampled from noisy tables of pairs of columns."""

    stored_name: ClassVar[str] = "private-linked"
    column_limits: ClassVar[tuple[int, int]] = (2, 1000)
    pairs: Sequence[Sequence[str]] = field(default=(), metadata=PAIRS.metadata)


@dataclass(frozen=True, kw_only=True)
class ProtectionMethod(ReleaseMethod):
    """A method of disclosure control; its promise is weaker than differential privacy."""

    needed_roles: ClassVar[frozenset[Role]] = frozenset({"quasi-identifier", "confidential"})
    k: int = field(metadata=K.metadata)
    keep: Sequence[str] = field(default=(), metadata=KEEP.metadata)

    @property
    def has_second_table(self) -> bool:
        """Whether the release is two tables that a group number links."""
        return False

    def resolve(self, schema: Schema) -> ProtectionRecipe:
        """Apply the method to a table, or refuse with one sentence about what does not fit."""
        self._check_columns(schema)
        quasi, confidential = get_column_roles(schema)
        roles: dict[Role, tuple[str, ...]] = {"quasi-identifier": quasi, "confidential": confidential}
        for role, names in roles.items():
            if role in self.needed_roles and not names:
                raise InvalidInput(
                    f"{self.stored_name} needs a column with the role {role} and {schema.name} declares none; "
                    f"add role: {role}"
                )
        recipe = ProtectionRecipe(self, quasi, confidential)
        _check_recipe(recipe)
        return recipe


@dataclass(frozen=True, kw_only=True)
class Mdav(ProtectionMethod):
    """k-anonymity by microaggregation: quasi-identifiers become centroids of groups of at least k similar records."""

    stored_name: ClassVar[str] = "mdav"
    needed_roles: ClassVar[frozenset[Role]] = frozenset({"quasi-identifier"})
    grouping: str = field(default="mdav", metadata=GROUPING.metadata)
    weights: str | None = field(default=None, metadata=WEIGHTS.metadata)
    strata: str | None = field(default=None, metadata=STRATA.metadata)


@dataclass(frozen=True, kw_only=True)
class Generalize(ProtectionMethod):
    """k-anonymity by generalization: quasi-identifiers become ranges or categories that at least k records share."""

    stored_name: ClassVar[str] = "generalise"
    needed_roles: ClassVar[frozenset[Role]] = frozenset({"quasi-identifier"})
    hierarchies: Mapping[str, object] | None = field(default=None, metadata=HIERARCHIES.metadata)
    loss: str = field(default="ncp", metadata=LOSS.metadata)
    suppress: Amount = field(default=0.0, metadata=SUPPRESS.metadata)


@dataclass(frozen=True, kw_only=True)
class MdavSwap(ProtectionMethod):
    """Probabilistic k-anonymity: swap values inside groups of at least k records with similar quasi-identifiers."""

    stored_name: ClassVar[str] = "mdav-swap"
    swap: str = field(default="confidential", metadata=SWAP.metadata)
    ks: Mapping[str, int] | None = field(default=None, metadata=SIZES.metadata)
    informed: bool = field(default=False, metadata=INFORMED.metadata)
    diversity: Diversity | str | None = field(default=None, metadata=DIVERSITY.metadata)
    grouping: str = field(default="mdav", metadata=GROUPING.metadata)
    weights: str | None = field(default=None, metadata=WEIGHTS.metadata)
    strata: str | None = field(default=None, metadata=STRATA.metadata)


@dataclass(frozen=True, kw_only=True)
class IrSwap(ProtectionMethod):
    """Probabilistic k-anonymity: swap each confidential column on its own, inside runs of at least k of its ranks."""

    stored_name: ClassVar[str] = "ir-swap"
    needed_roles: ClassVar[frozenset[Role]] = frozenset({"confidential"})
    ks: Mapping[str, int] | None = field(default=None, metadata=SIZES.metadata)
    diversity: Diversity | str | None = field(default=None, metadata=DIVERSITY.metadata)
    strata: str | None = field(default=None, metadata=STRATA.metadata)


@dataclass(frozen=True, kw_only=True)
class TCloseness(ProtectionMethod):
    """t-closeness: confidential values in buckets, in groups whose distribution is close to that of the table."""

    stored_name: ClassVar[str] = "t-closeness"
    t: Amount = field(metadata=T.metadata)
    form: str = field(default="hidden", metadata=FORM.metadata)
    buckets: int | None = field(default=None, metadata=BUCKETS.metadata)
    groups_per_bucket: int | None = field(default=None, metadata=GROUPS_PER_BUCKET.metadata)

    @property
    def has_second_table(self) -> bool:
        """Whether the groups are shown as in Anatomy."""
        return self.form == "anatomy"


@dataclass(frozen=True, kw_only=True)
class Anatomy(ProtectionMethod):
    """Probabilistic k-anonymity: quasi-identifiers and confidential values in two tables, linked by group only."""

    stored_name: ClassVar[str] = "anatomy"
    partition: str = field(default="confidential", metadata=PARTITION.metadata)
    diversity: Diversity | str | None = field(default=None, metadata=DIVERSITY.metadata)
    grouping: str = field(default="mdav", metadata=GROUPING.metadata)
    weights: str | None = field(default=None, metadata=WEIGHTS.metadata)
    strata: str | None = field(default=None, metadata=STRATA.metadata)

    @property
    def has_second_table(self) -> bool:
        """Whether there is a second table; there always is."""
        return True


SYNTHETIC_METHODS: Mapping[str, type[SyntheticMethod]] = {
    method.stored_name: method for method in (PrivateColumns, PrivateRecords, PrivateLinked)
}
PROTECTION_METHODS: Mapping[str, type[ProtectionMethod]] = {
    method.stored_name: method for method in (Mdav, Generalize, MdavSwap, IrSwap, TCloseness, Anatomy)
}
METHODS: Mapping[str, type[ReleaseMethod]] = {**SYNTHETIC_METHODS, **PROTECTION_METHODS}


def build_method(method: ReleaseMethod | str, options: Mapping[str, object]) -> ReleaseMethod:
    """Build a method from its name and options, or copy one that is built; refuse what it does not have."""
    stated = _drop_unset(options)
    if has_type(method, ReleaseMethod):
        refusal = "a method is one of those of discreet.sdc and discreet.synthetic"
        built = require_exact_class(method, tuple(METHODS.values()), refusal)
        for name in stated:
            raise InvalidInput(f"give {name} to the method itself, as in Mdav(k=5), and not beside it")
        return replace(built)
    name = copy_text(method, "a method")
    if name not in METHODS:
        raise build_unknown_name_error("method", name, METHODS)
    if name in PROTECTION_METHODS and "epsilon" in stated:
        raise InvalidInput(f"{name} promises no differential privacy and has no epsilon; leave it out")
    known = METHODS[name].list_options()
    _require_known(name, stated, known)
    for option, _ in known.values():
        if option.missing and option.name not in stated:
            raise InvalidInput(f"{name} {option.missing}")
    return METHODS[name](**stated)


def _drop_unset(options: Mapping[str, object]) -> dict[str, object]:
    """The options that are set; an empty value is as if it were left out."""
    return {
        name: value
        for name, value in options.items()
        if not (value is None or value is False or (isinstance(value, str | list | tuple | dict) and not value))
    }


def _require_known(subject: str, stated: Mapping[str, object], known: Mapping[str, object]) -> None:
    for name in sorted(stated.keys() - known.keys()):
        similar_names = [option.replace("_", " ") for option in find_similar_names(name, known)]
        hint = (
            f"did you mean {' or '.join(similar_names)}?" if similar_names else "leave it out, or choose another method"
        )
        raise InvalidInput(f"{subject} has no {name[:40].replace('_', ' ')}; {hint}", code="unknown-name")


def build_synthetic_method(method: SyntheticMethod | str, options: Mapping[str, object]) -> SyntheticMethod:
    """Build a synthetic method as `build_method` does; other methods are refused."""
    name = str(getattr(method, "stored_name", method))
    if name not in SYNTHETIC_METHODS:
        raise build_unknown_name_error("method", name, SYNTHETIC_METHODS, place="of a private file")
    return cast("SyntheticMethod", build_method(method, options))


def build_synthetic_recipes(
    schema: Schema, method: SyntheticMethod | str | None, options: Mapping[str, object]
) -> list[SyntheticRecipe]:
    """Build one recipe; without a method, one for each that takes these columns, with those options that it has."""
    if method is not None:
        return [build_synthetic_method(method, options).resolve(schema)]
    stated = _drop_unset(options)
    _require_known("a private file", stated, list_synthetic_options())
    recipes = []
    for name, method_class in SYNTHETIC_METHODS.items():
        own_options = {option: value for option, value in stated.items() if option in method_class.list_options()}
        recipe = build_synthetic_method(name, own_options).resolve(schema)
        least, most = method_class.column_limits
        if least <= len(recipe.columns) <= most:
            recipes.append(recipe)
    return recipes


def list_synthetic_options() -> dict[str, tuple[Option, object]]:
    """List the options of all synthetic methods, with their defaults."""
    return {name: item for method in SYNTHETIC_METHODS.values() for name, item in method.list_options().items()}


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


def _choose_columns(schema: Schema, names: Sequence[str]) -> tuple[Column, ...]:
    """The named columns; else all but those that follow from others."""
    all_columns = [column for column in schema.columns.values() if column.derived is None]
    chosen_columns = [schema.column(name) for name in names] or all_columns
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
class SyntheticRecipe:
    """A synthetic method and the columns and rows of the file that it makes of one table."""

    method: SyntheticMethod
    columns: tuple[Column, ...]
    rows: int

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the released columns."""
        return tuple(column.name for column in self.columns)

    @property
    def epsilon(self) -> Fraction:
        """Its privacy budget, exactly."""
        return parse_epsilon(self.method.epsilon)

    @property
    def delta(self) -> Fraction | None:
        """Its delta, exactly; None for pure differential privacy."""
        return parse_delta(self.method.delta)

    @property
    def k(self) -> int | None:
        """The k of blocks of records; None where it is chosen, or the method has none."""
        return parse_auto(self.method.k, "k") if isinstance(self.method, PrivateColumns | PrivateRecords) else None

    @property
    def is_apart(self) -> bool:
        """Whether each column goes to a file of its own."""
        return self.method.is_apart

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Pairs of columns that are measured in any case."""
        pairs = self.method.pairs if isinstance(self.method, PrivateLinked) else ()
        return tuple((first, second) for first, second in pairs)

    def to_json(self) -> dict[str, object]:
        """Return the recipe as JSON for the manifest: all of it is public."""
        payload: dict[str, object] = {"method": self.method.stored_name, "columns": list(self.names)}
        payload["epsilon"] = format_exact_amount(self.epsilon)
        payload |= {} if self.delta is None else {"delta": format_exact_amount(self.delta)}
        payload |= {"k": self.k or AUTO} if isinstance(self.method, PrivateColumns | PrivateRecords) else {}
        payload |= {"pairs": [list(pair) for pair in self.pairs]} if self.pairs else {}
        return payload | ({"apart": True} if self.is_apart else {})


@dataclass(frozen=True, slots=True)
class ProtectionRecipe:
    """A method of disclosure control and the columns of one table that it protects."""

    method: ProtectionMethod
    quasi: tuple[str, ...]
    confidential: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the released columns."""
        return tuple(dict.fromkeys((*self.quasi, *self.confidential, *self.method.keep)))

    @property
    def used_columns(self) -> tuple[str, ...]:
        """The names of the columns that the method reads to form groups: weights and strata."""
        options = self.method.list_options()
        return tuple(
            str(value) for name, value in self.method.list_values().items() if options[name][0].kind == "column"
        )

    def to_json(self) -> dict[str, object]:
        """Return the public part of the recipe as JSON for the manifest."""
        hidden = {"k", "keep", "hierarchies"}
        names = sorted(self.method.list_options().keys() - hidden)
        values = {name: getattr(self.method, name) for name in names}
        options = {name: _to_json_value(value) for name, value in values.items() if value}
        roles = {"quasi_identifiers": list(self.quasi), "confidential": list(self.confidential)}
        payload = {"method": self.method.stored_name, "k": self.method.k} | options | roles
        return payload | {"kept_as_they_are": list(self.method.keep)}


def _to_json_value(value: object) -> object:
    if isinstance(value, str | int):
        return value
    if isinstance(value, Fraction):
        return str(value)
    return dict(value) if isinstance(value, Mapping) else cast("Diversity", value).to_text()


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


def _check_recipe(recipe: ProtectionRecipe) -> None:
    method = recipe.method
    protected_names = sorted(set(method.keep) & {*recipe.quasi, *recipe.confidential})
    if protected_names:
        raise InvalidInput(
            f"{protected_names[0]} is a quasi-identifier or confidential and is not kept as it is; leave it out"
        )
    reserved_names = sorted(name for name in recipe.columns if name.lower() in {"group", "count"})
    if reserved_names and method.has_second_table:
        raise InvalidInput(f"Anatomy writes a column {reserved_names[0]!r} of its own; rename that of the table")
    ks = method.ks if isinstance(method, MdavSwap | IrSwap) else None
    unknown_names = sorted(set(ks or ()) - set(recipe.confidential))
    if unknown_names:
        raise InvalidInput(f"a k of its own is for a confidential column; {unknown_names[0][:40]!r} is none")
