"""One dataclass for each release method, with its own options and checks against what is public.

Commands, requests, forms and clients are made from the options that these classes list.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from discreet.errors import InvalidInput
from discreet.formatting import format_exact_amount
from discreet.release.method_columns import choose_columns, get_column_roles, get_public_row_count
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
    drop_unset_options,
    parse_auto,
    parse_column_names,
    parse_delta,
    parse_epsilon,
    require_known_options,
    to_json_value,
)
from discreet.suggestions import build_unknown_name_error
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
        rows = get_public_row_count(schema)
        if self.delta is not None and "approx-dp" not in schema.models:
            raise InvalidInput(
                f"{schema.name} allows no delta; leave it out, or add approx-dp to the models of the schema"
            )
        self._check_columns(schema)
        recipe = SyntheticRecipe(self, choose_columns(schema, self.columns), rows)
        if recipe.k is not None and recipe.k > rows:
            raise InvalidInput(f"k must be at most the number of rows, {rows}; got {recipe.k}")
        if not {name for pair in recipe.pairs for name in pair} <= set(recipe.names):
            raise InvalidInput("a pair is two different columns of the file, such as age,bmi")
        return recipe


@dataclass(frozen=True, kw_only=True)
class PrivateColumns(SyntheticMethod):
    """DP synthetic data, column by column: the smallest error per column, and values of a row are not linked.

    DP under replace-one: the file costs epsilon, or (epsilon, delta), of the data set's budget.

    Args:
        epsilon: Privacy budget of the file, charged to the data set.
        delta: The probability that epsilon does not hold; less noise.
        columns: The columns to release; by default all but identifiers and columns that follow from others.
        k: The records that share a block: a number, or "auto" (default).
        apart: Whether to write a folder with one Parquet file for each column.

    Raises:
        InvalidInput: An option is not valid.

    Example:
        >>> from discreet.synthetic import PrivateColumns
        >>> method = PrivateColumns(epsilon=1, columns=["age", "bmi"])  # for custodian.publish(method, "out.csv")
        >>> method.columns
        ('age', 'bmi')
    """

    stored_name: ClassVar[str] = "private-columns"
    k: int | Literal["auto"] | None = field(default=None, metadata=BLOCK_K.metadata)
    apart: bool = field(default=False, metadata=APART.metadata)

    @property
    def is_apart(self) -> bool:
        """Whether each column is a file of its own, in a folder."""
        return self.apart


@dataclass(frozen=True, kw_only=True)
class PrivateRecords(SyntheticMethod):
    """DP synthetic data of whole records: centroids of clusters of similar records, for at most 12 columns.

    DP under replace-one: the file costs epsilon, or (epsilon, delta), of the data set's budget.

    Args:
        epsilon: Privacy budget of the file, charged to the data set.
        delta: The probability that epsilon does not hold; less noise.
        columns: The columns to release; by default all but identifiers and columns that follow from others.
        k: The records that share a block: a number, or "auto" (default).

    Raises:
        InvalidInput: An option is not valid.

    Example:
        >>> from discreet.synthetic import PrivateRecords
        >>> method = PrivateRecords(epsilon=1, columns=["age", "bmi"])  # for custodian.publish(method, "out.csv")
        >>> method.columns
        ('age', 'bmi')
    """

    stored_name: ClassVar[str] = "private-records"
    column_limits: ClassVar[tuple[int, int]] = (1, 12)
    k: int | Literal["auto"] | None = field(default=None, metadata=BLOCK_K.metadata)


@dataclass(frozen=True, kw_only=True)
class PrivateLinked(SyntheticMethod):
    """DP synthetic data whose columns keep their relations: rows sampled from noisy tables of pairs of columns.

    DP under replace-one: the file costs epsilon, or (epsilon, delta), of the data set's budget.

    Args:
        epsilon: Privacy budget of the file, charged to the data set.
        delta: The probability that epsilon does not hold; less noise.
        columns: The columns to release; by default all but identifiers and columns that follow from others.
        pairs: Pairs of columns whose joint distribution is always measured.

    Raises:
        InvalidInput: An option is not valid.

    Example:
        >>> from discreet.synthetic import PrivateLinked
        >>> method = PrivateLinked(epsilon=1, columns=["sex", "smoker"])  # for custodian.publish(method, "out.csv")
        >>> method.columns
        ('sex', 'smoker')
    """

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
    """k-anonymity by microaggregation: quasi-identifiers become centroids of groups of at least k similar records.

    Args:
        k: The minimum group size.
        keep: Columns without a role to release unchanged as well.
        grouping: The algorithm that forms the groups: "mdav", "v-mdav", "insensitive" or "random".
        weights: The column with the weights of the rows in centroids.
        strata: The column whose values no group may mix.

    Raises:
        InvalidInput: An option is not valid.

    Example:
        >>> from discreet.sdc import Mdav
        >>> method = Mdav(k=10)  # for custodian.publish(method, "out.csv")
        >>> method.list_values()
        {'k': 10}
    """

    stored_name: ClassVar[str] = "mdav"
    needed_roles: ClassVar[frozenset[Role]] = frozenset({"quasi-identifier"})
    grouping: str = field(default="mdav", metadata=GROUPING.metadata)
    weights: str | None = field(default=None, metadata=WEIGHTS.metadata)
    strata: str | None = field(default=None, metadata=STRATA.metadata)


@dataclass(frozen=True, kw_only=True)
class Generalize(ProtectionMethod):
    """k-anonymity by generalization: quasi-identifiers become ranges or categories that at least k records share.

    Args:
        k: The minimum group size.
        keep: Columns without a role to release unchanged as well.
        hierarchies: The generalization levels of some columns.
        loss: The information loss to minimize: "precision", "discernibility", "class-size" or "ncp".
        suppress: The maximum share of rows to leave out.

    Raises:
        InvalidInput: An option is not valid.

    Example:
        >>> from discreet.sdc import Generalize
        >>> method = Generalize(k=5, suppress=0.05)  # for custodian.publish(method, "out.csv")
        >>> method.suppress
        Fraction(1, 20)
    """

    stored_name: ClassVar[str] = "generalise"
    needed_roles: ClassVar[frozenset[Role]] = frozenset({"quasi-identifier"})
    hierarchies: Mapping[str, object] | None = field(default=None, metadata=HIERARCHIES.metadata)
    loss: str = field(default="ncp", metadata=LOSS.metadata)
    suppress: Amount = field(default=0.0, metadata=SUPPRESS.metadata)


@dataclass(frozen=True, kw_only=True)
class MdavSwap(ProtectionMethod):
    """Probabilistic k-anonymity: swap values inside groups of at least k records with similar quasi-identifiers.

    Args:
        k: The minimum group size.
        keep: Columns without a role to release unchanged as well.
        swap: The columns to swap: "confidential" or "quasi".
        ks: A separate k for some confidential columns.
        informed: Whether to protect against an intruder who knows all but one of a person's values.
        diversity: Diversity of the confidential values of each group: "distinct 3", "spread 1000" or "closeness 0.2".
        grouping: The algorithm that forms the groups: "mdav", "v-mdav", "insensitive" or "random".
        weights: The column with the weights of the rows in centroids.
        strata: The column whose values no group may mix.

    Raises:
        InvalidInput: An option is not valid.

    Example:
        >>> from discreet.sdc import MdavSwap
        >>> method = MdavSwap(k=10)  # for custodian.publish(method, "out.csv")
        >>> method.list_values()
        {'k': 10}
    """

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
    """Probabilistic k-anonymity: swap each confidential column on its own, inside runs of at least k of its ranks.

    Args:
        k: The minimum group size.
        keep: Columns without a role to release unchanged as well.
        ks: A separate k for some confidential columns.
        diversity: Diversity of the confidential values of each group: "distinct 3", "spread 1000" or "closeness 0.2".
        strata: The column whose values no group may mix.

    Raises:
        InvalidInput: An option is not valid.

    Example:
        >>> from discreet.sdc import IrSwap
        >>> method = IrSwap(k=10)  # for custodian.publish(method, "out.csv")
        >>> method.list_values()
        {'k': 10}
    """

    stored_name: ClassVar[str] = "ir-swap"
    needed_roles: ClassVar[frozenset[Role]] = frozenset({"confidential"})
    ks: Mapping[str, int] | None = field(default=None, metadata=SIZES.metadata)
    diversity: Diversity | str | None = field(default=None, metadata=DIVERSITY.metadata)
    strata: str | None = field(default=None, metadata=STRATA.metadata)


@dataclass(frozen=True, kw_only=True)
class TCloseness(ProtectionMethod):
    """t-closeness: confidential values in buckets, in groups whose distribution is close to that of the table.

    Args:
        k: The minimum group size.
        keep: Columns without a role to release unchanged as well.
        t: How far a group may be from the whole table: a ratio of at least 1.
        form: "hidden" in buckets, or "anatomy", listed by group.
        buckets: The number of buckets of values.
        groups_per_bucket: The number of groups that each bucket serves.

    Raises:
        InvalidInput: An option is not valid.

    Example:
        >>> from discreet.sdc import TCloseness
        >>> method = TCloseness(k=10, t=2)  # for custodian.publish(method, "out.csv")
        >>> method.form
        'hidden'
    """

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
    """Probabilistic k-anonymity: quasi-identifiers and confidential values in two tables, linked by group only.

    Args:
        k: The minimum group size.
        keep: Columns without a role to release unchanged as well.
        partition: The columns that groups are formed by: "confidential" or "quasi".
        diversity: Diversity of the confidential values of each group: "distinct 3", "spread 1000" or "closeness 0.2".
        grouping: The algorithm that forms the groups: "mdav", "v-mdav", "insensitive" or "random".
        weights: The column with the weights of the rows in centroids.
        strata: The column whose values no group may mix.

    Raises:
        InvalidInput: An option is not valid.

    Example:
        >>> from discreet.sdc import Anatomy
        >>> method = Anatomy(k=10)  # for custodian.publish(method, "out.csv")
        >>> method.has_second_table
        True
    """

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


def describe_method(method: type[ReleaseMethod]) -> str:
    """Return what a method does: the first paragraph of its docstring, which commands and forms show."""
    return inspect.cleandoc(method.__doc__ or "").partition("\n\n")[0]


def build_method(method: ReleaseMethod | str, options: Mapping[str, object]) -> ReleaseMethod:
    """Build a method from its name and options, or copy one that is built; refuse what it does not have."""
    stated = drop_unset_options(options)
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
    require_known_options(name, stated, known)
    for option, _ in known.values():
        if option.missing and option.name not in stated:
            raise InvalidInput(f"{name} {option.missing}")
    return METHODS[name](**stated)


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
    stated = drop_unset_options(options)
    require_known_options("a private file", stated, list_synthetic_options())
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
        options = {name: to_json_value(value) for name, value in values.items() if value}
        roles = {"quasi_identifiers": list(self.quasi), "confidential": list(self.confidential)}
        payload = {"method": self.method.stored_name, "k": self.method.k} | options | roles
        return payload | {"kept_as_they_are": list(self.method.keep)}


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
