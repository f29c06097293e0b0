"""What a claim about a release is checked on, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from discreet.assess.coding import labels_of
from discreet.assess.permuted import DOUBT, Hits
from discreet.errors import ClaimFailed, InvalidInput
from discreet.exact import shown
from discreet.guarantee import Guarantee
from discreet.microdata.table import Places, Table

RECORDS = "records"
"""The name under which groups are those of all columns."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A claim that the files do not contradict. `shown` says whether they prove it, or only fail to refute it."""

    claim: Guarantee
    shown: bool
    measured: Mapping[str, object]
    words: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """Machine-readable."""
        told_of = {"claim": self.claim.to_json(), "shown": self.shown}
        return told_of | {"measured": dict(self.measured), "words": list(self.words)}


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What there is to look at. Row i of the release was made of row i of the original, where that is given."""

    released: Table
    quasi: tuple[str, ...]
    confidential: tuple[str, ...]
    original: Table | None = None
    groups: Mapping[str, object] = field(default_factory=dict)
    second: Table | None = None

    def __post_init__(self) -> None:
        """The two files have as many rows."""
        if self.original is not None and self.original.rows != self.released.rows:
            raise InvalidInput(
                f"the original has {self.original.rows} rows and the release {self.released.rows}; "
                "give those rows of the original that the release was made of, in its order"
            )

    def labels(self, name: str) -> Places:
        """The groups of a column, or where it has none of its own those of whole records, as numbers from 0."""
        found = self.groups.get(name, self.groups.get(RECORDS))
        if found is None:
            raise InvalidInput(f"there are no groups for {name[:40]!r}; give them under its name, or under 'records'")
        return labels_of(found, self.released.rows)


def require_k(claim: Guarantee, found: int, what: str) -> None:
    """No class or group has fewer rows than the claim says."""
    if found < (claim.k or 1):
        raise ClaimFailed(f"the release claims {named(claim)}, and its smallest {what} has {found}")


def require_apart(claim: Guarantee, files: Evidence) -> None:
    """Anatomy's first table holds no confidential column."""
    both = [name for name in files.confidential if name in files.released.attributes]
    if both:
        raise ClaimFailed(f"the release claims {named(claim)}, and its first table shows {both[0][:40]!r} row by row")


def require_chance(claim: Guarantee, name: str, hits: Hits) -> None:
    """No more rows carry their own value than a uniform permutation brings there."""
    if hits.doubt < DOUBT:
        raise ClaimFailed(
            f"the release claims {named(claim)}, and {hits.observed} of {hits.rows} rows carry their own value of "
            f"{name[:40]!r} where a uniform permutation gives {hits.expected:.1f} on average, "
            "which happens less than once in a billion"
        )


def named(claim: Guarantee) -> str:
    """The claim in short."""
    if claim.model == "t-closeness":
        return f"t-closeness with t {shown(claim.t or Fraction(0))} under the {claim.distance} distance"
    return f"{'probabilistic ' if claim.model.startswith('probabilistic') else ''}{claim.k}-anonymity"
