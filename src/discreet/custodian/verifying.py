"""Whether a released file is what it says: measured from the file alone, or beside the records it was made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.custodian.beside import Beside, beside
from discreet.custodian.files import (
    Manifest,
    read_file,
    read_manifest,
    read_released,
    read_second,
    require_untouched,
    table_file,
)
from discreet.custodian.recipe import roles_of
from discreet.custodian.registering import Progress, silent
from discreet.custodian.writing import digest, manifest_of
from discreet.errors import ClaimFailed, InvalidInput, Unsupported
from discreet.exact import rational_text, shown, whole
from discreet.formatting import format_value
from discreet.guarantee import DIFFERENTIAL, Guarantee
from discreet.microdata.table import Table

if TYPE_CHECKING:
    from discreet.assess.anonymity import Anonymity
    from discreet.assess.evidence import Checked

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class VerifiedRelease:
    """What was claimed and what was measured; a claim that does not hold has been raised."""

    claims: tuple[Checked, ...]
    measured: Anonymity | None
    roles: tuple[Names, Names]
    """The columns taken as known to an intruder, and as confidential."""
    unshown: str | None = None
    """Why a claim can be neither shown nor refuted from what is there, and what to add."""

    @property
    def words(self) -> str:
        """What was found, in a sentence or two."""
        found = " ".join(words for claim in self.claims for words in claim.words)
        said = "No claim was made" if self.unshown is None else "The claim could not be checked"
        return found or f"{said}; this was measured:"

    @property
    def told(self) -> dict[str, str]:
        """What was measured, for people to read."""
        found = self.measured
        named_columns = {"taken as known": ", ".join(self.roles[0]), "confidential": ", ".join(self.roles[1])}
        if found is None:
            return named_columns
        named: dict[str, object] = {
            "k": found.k,
            "classes": found.classes,
            "l (distinct)": found.l,
            "l (entropy)": found.l_entropy,
        }
        named |= {"recursive (c, 2)": found.recursive, "t (ratio)": found.t_ratio, "t (earth mover's)": found.t_emd}
        return named_columns | {name: _shown(value) for name, value in named.items() if value is not None}

    def to_json(self) -> dict[str, object]:
        """Machine-readable."""
        measured = None if self.measured is None else self.measured.to_json()
        return {
            "claims": [claim.to_json() for claim in self.claims],
            "measured": measured,
            "words": self.words,
            "quasi_identifiers": list(self.roles[0]),
            "confidential": list(self.roles[1]),
            "unshown": self.unshown,
        }


def verify_release(
    out: str | Path,
    original: str | Path | None = None,
    quasi: Names = (),
    confidential: Names = (),
    k: object = None,
    t: str | None = None,
    progress: Progress = silent,
) -> VerifiedRelease:
    """Measure a released table and check what its manifest claims, or what is claimed here; ClaimFailed if not so."""
    file = table_file(out)
    manifest = read_manifest(file)
    progress("reading")
    if manifest is not None:
        require_untouched(file, manifest)
        _refuse_differential(manifest)
    known = None if original is None else beside(original, file, progress)
    if known is not None and manifest is not None and digest(manifest_of(file)) != known.kept.manifest:
        raise ClaimFailed("the manifest is not the one that was written with this release; get the release again")
    roles = _roles(manifest, known, quasi, confidential)
    claims = _claims(manifest, k, t)
    released = read_file(file) if manifest is None else read_released(file, manifest.columns)
    second = read_second(file, manifest)
    progress("measuring")
    measured = _measured(released, second, roles)
    kept = () if manifest is None else manifest.kept
    try:
        checked = tuple(_checked(claim, released, second, roles, known, kept) for claim in claims)
    except Unsupported as unseen:
        if known is not None:
            raise
        why = f"{unseen}; the custodian can, with --original and the schema"
        return VerifiedRelease((), measured, roles, why)
    if manifest is not None and manifest.guarantee in claims:
        _require_k(manifest, checked)
    return VerifiedRelease(checked, measured, roles)


def _refuse_differential(manifest: Manifest) -> None:
    if manifest.guarantee.model in DIFFERENTIAL:
        raise Unsupported(
            f"{manifest.release} is as it was written, and claims differential privacy: that lies in how it was made, "
            "which no file shows; its custodian's ledger has the charge, as discreet history tells"
        )


def _roles(manifest: Manifest | None, known: Beside | None, quasi: Names, confidential: Names) -> tuple[Names, Names]:
    """Which columns are taken as known and as confidential: as said, as in the manifest, or as in the schema."""
    told: tuple[Names, Names] = ((), ())
    if manifest is not None:
        told = manifest.quasi, manifest.confidential
    elif known is not None:
        told = roles_of(known.schema)
    roles = quasi or told[0], confidential or told[1]
    if not roles[0] and manifest is None:
        raise InvalidInput("there is no manifest beside the file; say which columns are known: --quasi age --quasi sex")
    return roles


def _require_k(manifest: Manifest, checked: tuple[Checked, ...]) -> None:
    """The groups of t-closeness have at least the k that the release was made with."""
    for each in checked:
        found = each.measured.get("anonymity")
        k = found.get("k") if isinstance(found, dict) else None
        if isinstance(k, int) and k < manifest.k:
            raise ClaimFailed(f"the release was made with groups of at least {manifest.k}, and its smallest has {k}")


def _claims(manifest: Manifest | None, k: object, t: str | None) -> list[Guarantee]:
    """What is to be checked: what is asked for, and what the file says of itself."""
    asked = [Guarantee.k_anonymity(whole(k, "k", 2))] if k is not None else []
    if t is not None:
        close = rational_text(t, "t")
        if close < 1:
            raise InvalidInput(f"t must be at least 1, got {shown(close)}; at 1 every group is like the whole")
        asked.append(Guarantee.t_closeness(close, "ratio"))
    return asked + ([] if manifest is None else [manifest.guarantee])


def _checked(
    claim: Guarantee,
    released: Table,
    second: Table | None,
    roles: tuple[Names, Names],
    known: Beside | None,
    kept: Names,
) -> Checked:
    from discreet.assess.claims import check_claim

    original = None if known is None else known.original
    groups = None if known is None else known.groups
    return check_claim(claim, released, *roles, original=original, groups=groups, second=second, kept=kept)


def _measured(released: Table, second: Table | None, roles: tuple[Names, Names]) -> Anonymity | None:
    from discreet.assess.anonymity import measure_anatomy, measure_anonymity

    if second is not None:
        return measure_anatomy(released, second)
    here = [tuple(name for name in names if name in released.attributes) for names in roles]
    return measure_anonymity(released, *here) if here[0] else None


def _shown(value: object) -> str:
    return format_value(value)
