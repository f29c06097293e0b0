"""What a claim about a release is checked on, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

from discreet.assess.coding import GROUP, encode_labels, has_same_values
from discreet.assess.permuted import MIN_DOUBT, Hits
from discreet.errors import ClaimFailed, InvalidInput
from discreet.formatting import format_cost, format_number
from discreet.guarantee import Guarantee
from discreet.microdata.table import Integers, Table

PROVISO = "This is so provided that the permutation was drawn uniformly, which no single file can prove."
RECORDS = "records"
"""The name under which groups are those of all columns."""


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """A claim that the files do not contradict. `shown` says whether they prove it, or only fail to refute it.

    Where values changed places inside groups it is proved provided that the permutation was drawn uniformly, which no
    single file can prove; the words say so. A probabilistic claim checked by groups measures `hits`, the share of rows
    that chance gives a value equal to their own, and `certain`, the share in groups with one value only.
    """

    claim: Guarantee
    shown: bool
    measured: Mapping[str, object]
    words: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """Machine-readable."""
        summary = {"claim": self.claim.to_json(), "shown": self.shown}
        return summary | {"measured": dict(self.measured), "words": list(self.words)}


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What there is to look at. Row i of the release was made of row i of the original, where that is given."""

    released: Table
    quasi: tuple[str, ...]
    confidential: tuple[str, ...]
    original: Table | None = None
    groups: Mapping[str, object] = field(default_factory=dict)
    second: Table | None = None
    kept_columns: tuple[str, ...] = ()
    """Columns that are neither, and are known to be in the release."""

    def __post_init__(self) -> None:
        """There are rows, and as many in the two files."""
        if not self.released.rows:
            raise InvalidInput("the table has no rows, so there is nothing to measure; give one that has")
        if self.original is not None and self.original.rows != self.released.rows:
            raise InvalidInput(
                f"the original has {self.original.rows} rows and the release {self.released.rows}; "
                "give those rows of the original that the release was made of, in its order"
            )

    @property
    def other_columns(self) -> tuple[str, ...]:
        """The released columns that are neither quasi-identifiers nor confidential."""
        role_columns = {*self.quasi, *self.confidential} | (set() if self.second is None else {GROUP})
        return tuple(name for name in self.released if name not in role_columns)

    def get_labels(self, name: str) -> Integers:
        """The groups of a column, or where it has none of its own those of whole records, as numbers from 0."""
        groups = self.groups.get(name, self.groups.get(RECORDS))
        if groups is None:
            raise InvalidInput(f"there are no groups for {name[:40]!r}; give them under its name, or under 'records'")
        return encode_labels(groups, self.released.rows)


def require_k(claim: Guarantee, smallest_size: int, what: str) -> None:
    """No class or group has fewer rows than the claim says."""
    if smallest_size < (claim.k or 1):
        raise ClaimFailed(f"the release claims {format_claim(claim)}, and its smallest {what} has {smallest_size}")


def require_no_copy(claim: Guarantee, files: Evidence, original: Table, columns: Iterable[str]) -> None:
    """None of these released columns is a confidential one of the original, row by row, under another name."""
    for name, secret in product(columns, files.confidential):
        if has_same_values(files.released[name], original[secret]):
            raise ClaimFailed(
                f"the release claims {format_claim(claim)}, and its column {name[:40]!r} holds the original's "
                f"{secret[:40]!r} "
                "row by row"
            )


def require_chance(claim: Guarantee, name: str, hits: Hits) -> None:
    """No more rows carry their own value than a uniform permutation brings there."""
    if hits.excess_bound < MIN_DOUBT:
        raise ClaimFailed(
            f"the release claims {format_claim(claim)}, and {hits.observed} of {hits.rows} rows carry their own "
            "value of "
            f"{name[:40]!r} where a uniform permutation gives {format_number(hits.expected)} on average, "
            "which happens less than once in a billion"
        )


def format_claim(claim: Guarantee) -> str:
    """The claim in short."""
    if claim.model == "t-closeness":
        return f"t-closeness with t {format_cost(claim.t or Fraction(0))} under the {claim.distance} distance"
    return f"{'probabilistic ' if claim.model.startswith('probabilistic') else ''}{claim.k}-anonymity"
