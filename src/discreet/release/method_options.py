"""The options of release methods: how each is read and checked against the schema, and its help."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, cast

from discreet.errors import InvalidInput
from discreet.numeric import as_int, as_number_between, as_positive, as_rational, format_exact, parse_rational
from discreet.suggestions import find_similar_names
from discreet.untrusted import copy_text, copy_tree, has_type, require_exact_class

if TYPE_CHECKING:  # help lists the options, and needs neither schemas nor arrays
    from discreet.schema import Column, Schema
    from discreet.schema.schema import Role
    from discreet.sdc.methods.partition import Diversity

AUTO = "auto"
MAX_EPSILON = 10_000
OPTION = "option"
"""The entry of a field's metadata that holds its `Option`."""
Amount = Fraction | float | str
"""A number as callers write it; decimal text is read exactly."""
OptionKind = Literal[
    "integer", "auto", "number", "boolean", "choice", "text", "column", "columns", "pairs", "sizes", "levels"
]
"""The form of a value; `auto` is an integer or "auto", `sizes` has an integer for each of some columns."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a release method: its name in requests and manifests, its help, and how its value is read."""

    name: str
    kind: OptionKind
    parse: Callable[[object], object]
    help: str
    metavar: str = ""
    flags: tuple[str, ...] = ()
    """Its names on the command line where they are not --name."""
    choices: tuple[str, ...] = ()
    missing: str = ""
    """For an option that is needed: the refusal where it is left out."""
    check: Callable[[Schema, str], object] | None = None
    """A check of each column that it names."""

    @property
    def metadata(self) -> Mapping[str, Option]:
        """Return the metadata of a field for this option."""
        return {OPTION: self}


def _parse_number(value: object, name: str) -> Fraction:
    return parse_rational(value, name) if has_type(value, str) else as_rational(value, name)


def _parse_integer(value: object, name: str, minimum: int = 2) -> int:
    is_text = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16
    return as_int(int(str(value)) if is_text else value, name, minimum)


def parse_auto(value: object, name: str) -> int | None:
    if value is None or value == AUTO:
        return None
    if isinstance(value, str) and not value.isdecimal():
        raise InvalidInput(f"{name} is a whole number of at least 2, or auto; got {value[:40]!r}")
    return _parse_integer(value, name)


def parse_epsilon(value: object) -> Fraction:
    epsilon = as_positive(_parse_number(value, "epsilon"), "epsilon")
    if epsilon > MAX_EPSILON:
        raise InvalidInput(f"epsilon must be at most {MAX_EPSILON:,}, beyond which nothing is protected at all")
    return epsilon


def parse_delta(value: object) -> Fraction | None:
    delta = Fraction(0) if value is None else _parse_number(value, "delta")
    return as_number_between(delta, 0, 1, "delta") if delta else None


def parse_column_names(value: object) -> tuple[str, ...]:
    names = copy_tree(value, "columns")
    listed = [names] if isinstance(names, str) else names
    texts = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    if not isinstance(listed, list) or len(texts) < len(listed):
        raise InvalidInput("columns are named by a list of texts, such as ['age', 'sex']")
    return tuple(texts)


def _parse_released_columns(value: object) -> tuple[str, ...]:
    names = parse_column_names(value)
    if len(set(names)) < len(names):
        raise InvalidInput("a column is released once; name each once")
    return names


def _parse_pairs(value: object) -> tuple[tuple[str, ...], ...]:
    listed = copy_tree(value, "pairs")
    parts = [pair.split(",") if isinstance(pair, str) else pair for pair in listed] if isinstance(listed, list) else []
    pairs = tuple(parse_column_names(pair) for pair in parts)
    if not isinstance(listed, list) or any(len(pair) != 2 or len(set(pair)) != 2 for pair in pairs):
        raise InvalidInput("a pair is two different columns of the file, such as age,bmi")
    return pairs


def _parse_sizes(value: object) -> Mapping[str, int]:
    sizes = copy_tree(value, "a k for each column")
    parts = [str(text).partition("=") for text in sizes] if isinstance(sizes, list) else []
    if not isinstance(sizes, dict | list) or not all(equals for _, equals, _ in parts):
        raise InvalidInput("a separate k is a column and its k, such as income=20, or a mapping such as {'income': 20}")
    items = sizes.items() if isinstance(sizes, dict) else [(name, k) for name, _, k in parts]
    return MappingProxyType({str(name): _parse_integer(k, f"the k of {str(name)[:40]!r}") for name, k in items})


def _parse_t(value: object) -> Fraction:
    t = _parse_number(value, "t")
    if t < 1:
        raise InvalidInput(f"t must be at least 1, got {format_exact(t)}; at 1 every group is like the whole")
    return t


def _parse_diversity(value: object) -> Diversity:
    from discreet.sdc.methods.partition import Closeness, Distinct, Spread

    kinds: tuple[type[Diversity], ...] = (Distinct, Spread, Closeness)
    if has_type(value, kinds):
        diversity = require_exact_class(value, kinds, "diversity is Distinct, Spread or Closeness")
        return type(diversity)(*astuple(diversity))
    text = copy_text(value, "diversity")
    name, _, amount = text.strip().partition(" ")
    kinds_by_name = {kind.stored_name: kind for kind in kinds}
    if name not in kinds_by_name or not amount:
        raise InvalidInput(f"diversity is 'distinct 3', 'spread 1000' or 'closeness 0.2'; got {text[:40]!r}")
    build: Callable[[Fraction], Diversity] = cast("Callable[[Fraction], Diversity]", kinds_by_name[name])
    return build(parse_rational(amount.strip(), f"the amount of {name}"))


def _parse_hierarchies(value: object) -> Mapping[str, object]:
    levels = copy_tree(value, "hierarchies")
    if isinstance(levels, str):
        try:
            levels = json.loads(levels)
        except ValueError:
            raise InvalidInput("hierarchies cannot be read as JSON; check the brackets and quotes") from None
    if not isinstance(levels, dict):
        raise InvalidInput("hierarchies are a mapping such as {'age': [5, 10], 'sex': [{'F': 'any', 'M': 'any'}]}")
    return MappingProxyType({str(name): level for name, level in levels.items()})


def _parse_suppress(value: object) -> Fraction:
    share = _parse_number(value, "suppress")
    if not 0 <= share < 1:
        raise InvalidInput(
            f"suppress, the share of rows that may be left out, is at least 0 and below 1; got {format_exact(share)}"
        )
    return share


def _parse_choice(value: object, name: str, choices: tuple[str, ...]) -> str:
    text = copy_text(value, name)
    if text not in choices:
        raise InvalidInput(f"{name} is {' or '.join(choices)}; got {text[:40]!r}")
    return text


def _define_choice(name: str, help: str, *choices: str) -> Option:
    return Option(name, "choice", partial(_parse_choice, name=name, choices=choices), help, choices=choices)


def _get_role(schema: Schema, column: Column) -> Role:
    """The role of a column, or of the one it follows from."""
    return column.role if column.derived is None else schema.columns[column.derived.key].role


def _check_kept(schema: Schema, name: str) -> None:
    column = schema.column(name)
    if column.derived is not None and _get_role(schema, column) != "other":
        raise InvalidInput(
            f"{column.name} follows from {column.derived.key}, which is protected; kept, it would undo that"
        )


def _check_not_confidential(schema: Schema, name: str, what: str) -> Column:
    column = schema.column(name)
    if _get_role(schema, column) == "confidential":
        raise InvalidInput(f"{what} cannot come from {column.name}, which is confidential: groups would give it away")
    return column


def _check_weights(schema: Schema, name: str) -> None:
    column = _check_not_confidential(schema, name, "weights")
    if not column.is_numeric or column.lower <= 0 or (column.is_nullable and column.private_keys):
        raise InvalidInput(
            f"weights are numbers above 0; {column.name} is not declared so, by its kind and lower bound"
        )


def _check_released(schema: Schema, name: str) -> None:
    column = schema.column(name)
    if column.derived is not None:
        raise InvalidInput(f"{column.name} follows from {column.derived.key}; release that, and look it up again")


EPSILON = Option(
    "epsilon",
    "number",
    parse_epsilon,
    "Privacy budget of the file, e.g. 1. It is charged to the data set.",
    "E",
    missing="needs an epsilon, the privacy budget of the file; give one, such as 1",
)
DELTA = Option("delta", "number", parse_delta, "Probability that epsilon does not hold, e.g. 1e-9; less noise.", "D")
COLUMNS = Option(
    "columns",
    "columns",
    _parse_released_columns,
    "Columns to release. Default: all but identifiers and columns that follow from others.",
    "COLUMN",
    ("--column",),
    check=_check_released,
)
BLOCK_K = Option(
    "k",
    "auto",
    partial(parse_auto, name="k"),
    "Records that share a block: a number, or auto (default).",
    "K",
    ("-k", "--k"),
)
APART = Option("apart", "boolean", bool, "Write a folder with one Parquet file for each column.")
PAIRS = Option(
    "pairs", "pairs", _parse_pairs, "Two columns whose joint distribution is always measured.", "A,B", ("--pair",)
)
K = Option(
    "k",
    "integer",
    partial(_parse_integer, name="k"),
    "Minimum group size: each record hides among at least K.",
    "K",
    ("-k", "--k"),
    missing="needs k, how many people each hides among; give k, such as 10",
)
KEEP = Option(
    "keep",
    "columns",
    parse_column_names,
    "Columns without a role to release unchanged as well.",
    "COLUMN",
    check=_check_kept,
)
WEIGHTS = Option(
    "weights",
    "column",
    partial(copy_text, subject="weights"),
    "Column with the weights of the rows in centroids.",
    "COLUMN",
    check=_check_weights,
)
STRATA = Option(
    "strata",
    "column",
    partial(copy_text, subject="strata"),
    "Column whose values no group may mix.",
    "COLUMN",
    check=partial(_check_not_confidential, what="strata"),
)
GROUPING = _define_choice("grouping", "Algorithm that forms the groups.", "mdav", "v-mdav", "insensitive", "random")
SIZES = Option("ks", "sizes", _parse_sizes, "Separate k for a swapped confidential column.", "COLUMN=K", ("--k-of",))
DIVERSITY = Option(
    "diversity",
    "text",
    _parse_diversity,
    "Diversity of the confidential values of each group: 'distinct 3', 'spread 1000' or 'closeness 0.2'.",
    "D",
)
INFORMED = Option(
    "informed", "boolean", bool, "Protect against an intruder who knows all but one of a person's values."
)
SWAP = _define_choice(
    "swap", "Columns to swap: the confidential columns or the quasi-identifiers.", "confidential", "quasi"
)
T = Option(
    "t",
    "number",
    _parse_t,
    "How far a group may be from the whole table: a ratio of at least 1.",
    "T",
    ("-t", "--t"),
    missing="needs t, how far a group may be from the whole; give t, such as 2",
)
FORM = _define_choice(
    "form", "How values are shown: hidden in buckets, or listed by group as in Anatomy.", "hidden", "anatomy"
)
BUCKETS = Option("buckets", "integer", partial(_parse_integer, name="buckets"), "Number of buckets of values.", "B")
GROUPS_PER_BUCKET = Option(
    "groups_per_bucket",
    "integer",
    partial(_parse_integer, name="groups per bucket", minimum=1),
    "Number of groups that each bucket serves.",
    "G",
)
PARTITION = _define_choice("partition", "Columns that groups are formed by.", "confidential", "quasi")
HIERARCHIES = Option(
    "hierarchies", "levels", _parse_hierarchies, "Generalization levels of the columns, in JSON.", "FILE"
)
LOSS = _define_choice("loss", "Information loss to minimize.", "precision", "discernibility", "class-size", "ncp")
SUPPRESS = Option("suppress", "number", _parse_suppress, "Maximum share of rows to leave out, e.g. 0.05.", "S")


def drop_unset_options(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options that are set; an empty value is as if it were left out."""
    return {
        name: value
        for name, value in options.items()
        if not (value is None or value is False or (isinstance(value, str | list | tuple | dict) and not value))
    }


NO_OPTION_ADVICE = "leave it out, or choose another method"


def require_known_options(subject: str, stated: Mapping[str, object], known: Mapping[str, object]) -> None:
    """Refuse options that are not known."""
    for name in sorted(stated.keys() - known.keys()):
        similar_names = [option.replace("_", " ") for option in find_similar_names(name, known)]
        hint = f"did you mean {' or '.join(similar_names)}?" if similar_names else NO_OPTION_ADVICE
        raise InvalidInput(f"{subject} has no {name[:40].replace('_', ' ')}; {hint}", code="unknown-name")


def to_json_value(value: object) -> object:
    """Return the value of an option as JSON."""
    if isinstance(value, str | int):
        return value
    if isinstance(value, Fraction):
        return str(value)
    return dict(value) if isinstance(value, Mapping) else cast("Diversity", value).to_text()
