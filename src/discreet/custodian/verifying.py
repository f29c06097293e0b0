"""Whether a released file is what it says: measured from the file alone, or beside the records it was made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.custodian.beside import AlignedOriginal, align_original
from discreet.custodian.files import (
    ReleaseManifest,
    check_table_file,
    read_manifest,
    read_released_table,
    read_second_table,
    read_table_file,
    require_matching_files,
)
from discreet.custodian.recipe import get_column_roles
from discreet.custodian.registering import Progress, ignore_stage
from discreet.custodian.writing import get_manifest_path, hash_file
from discreet.errors import ClaimFailed, InvalidInput, Unsupported
from discreet.exact import as_int, format_exact, parse_rational
from discreet.formatting import format_value
from discreet.guarantee import DP_MODELS, Guarantee
from discreet.microdata.table import Table

if TYPE_CHECKING:
    from discreet.assess.anonymity import Anonymity
    from discreet.assess.evidence import CheckedClaim

RoleColumns = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class VerifiedRelease:
    """What was claimed and what was measured; a claim that does not hold has been raised."""

    claims: tuple[CheckedClaim, ...]
    measured: Anonymity | None
    roles: tuple[RoleColumns, RoleColumns]
    """The columns taken as known to an intruder, and as confidential."""
    unshown: str | None = None
    """Why a claim can be neither shown nor refuted from what is there, and what to add."""

    @property
    def words(self) -> str:
        """What was found, in a sentence or two."""
        text = " ".join(sentence for claim in self.claims for sentence in claim.words)
        reason = "No claim was made" if self.unshown is None else "The claim could not be checked"
        return text or f"{reason}; this was measured:"

    @property
    def measured_texts(self) -> dict[str, str]:
        """What was measured, for people to read."""
        measured = self.measured
        named_columns = {"taken as known": ", ".join(self.roles[0]), "confidential": ", ".join(self.roles[1])}
        if measured is None:
            return named_columns
        values: dict[str, object] = {
            "k": measured.k,
            "classes": measured.classes,
            "l (distinct)": measured.l,
            "l (entropy)": measured.l_entropy,
        }
        values |= {
            "recursive (c, 2)": measured.recursive,
            "t (ratio)": measured.t_ratio,
            "t (earth mover's)": measured.t_emd,
        }
        return named_columns | {name: _format_measure(value) for name, value in values.items() if value is not None}

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
    quasi: RoleColumns = (),
    confidential: RoleColumns = (),
    k: object = None,
    t: str | None = None,
    progress: Progress = ignore_stage,
) -> VerifiedRelease:
    """Measure a released table and check what its manifest claims, or what is claimed here; ClaimFailed if not so."""
    file = check_table_file(out)
    manifest = read_manifest(file)
    progress("reading")
    if manifest is not None:
        require_matching_files(file, manifest)
        _refuse_differential(manifest)
    aligned_original = None if original is None else align_original(original, file, progress)
    if (
        aligned_original is not None
        and manifest is not None
        and hash_file(get_manifest_path(file)) != aligned_original.record.manifest
    ):
        raise ClaimFailed("the manifest is not the one that was written with this release; get the release again")
    roles = _choose_roles(manifest, aligned_original, quasi, confidential)
    claims = _list_claims(manifest, k, t)
    released = read_table_file(file) if manifest is None else read_released_table(file, manifest.columns)
    second = read_second_table(file, manifest)
    progress("measuring")
    measured = _measure_release(released, second, roles)
    unchanged_columns = () if manifest is None else manifest.unchanged
    try:
        checked_claims = tuple(
            _check_single_claim(claim, released, second, roles, aligned_original, unchanged_columns) for claim in claims
        )
    except Unsupported as error:
        if aligned_original is not None:
            raise
        reason = f"{error}; the custodian can, with --original and the schema"
        return VerifiedRelease((), measured, roles, reason)
    if manifest is not None and manifest.guarantee in claims:
        _require_k(manifest, checked_claims)
    return VerifiedRelease(checked_claims, measured, roles)


def _refuse_differential(manifest: ReleaseManifest) -> None:
    if manifest.guarantee.model in DP_MODELS:
        raise Unsupported(
            f"{manifest.release} is as it was written, and claims differential privacy: that lies in how it was made, "
            "which no file shows; its custodian's ledger has the charge, as discreet history tells"
        )


def _choose_roles(
    manifest: ReleaseManifest | None,
    aligned_original: AlignedOriginal | None,
    quasi: RoleColumns,
    confidential: RoleColumns,
) -> tuple[RoleColumns, RoleColumns]:
    """Which columns are taken as known and as confidential: as said, as in the manifest, or as in the schema."""
    declared_roles: tuple[RoleColumns, RoleColumns] = ((), ())
    if manifest is not None:
        declared_roles = manifest.quasi, manifest.confidential
    elif aligned_original is not None:
        declared_roles = get_column_roles(aligned_original.schema)
    roles = quasi or declared_roles[0], confidential or declared_roles[1]
    if not roles[0] and manifest is None:
        raise InvalidInput("there is no manifest beside the file; say which columns are known: --quasi age --quasi sex")
    return roles


def _require_k(manifest: ReleaseManifest, checked_claims: tuple[CheckedClaim, ...]) -> None:
    """The groups of t-closeness have at least the k that the release was made with."""
    for claim in checked_claims:
        anonymity = claim.measured.get("anonymity")
        k = anonymity.get("k") if isinstance(anonymity, dict) else None
        if isinstance(k, int) and k < manifest.k:
            raise ClaimFailed(f"the release was made with groups of at least {manifest.k}, and its smallest has {k}")


def _list_claims(manifest: ReleaseManifest | None, k: object, t: str | None) -> list[Guarantee]:
    """What is to be checked: what is asked for, and what the file says of itself."""
    claims = [Guarantee.k_anonymity(as_int(k, "k", 2))] if k is not None else []
    if t is not None:
        t_value = parse_rational(t, "t")
        if t_value < 1:
            raise InvalidInput(f"t must be at least 1, got {format_exact(t_value)}; at 1 every group is like the whole")
        claims.append(Guarantee.t_closeness(t_value, "ratio"))
    return claims + ([] if manifest is None else [manifest.guarantee])


def _check_single_claim(
    claim: Guarantee,
    released: Table,
    second: Table | None,
    roles: tuple[RoleColumns, RoleColumns],
    aligned_original: AlignedOriginal | None,
    unchanged_columns: RoleColumns,
) -> CheckedClaim:
    from discreet.assess.claims import check_claim

    original = None if aligned_original is None else aligned_original.original
    groups = None if aligned_original is None else aligned_original.groups
    return check_claim(claim, released, *roles, original=original, groups=groups, second=second, kept=unchanged_columns)


def _measure_release(released: Table, second: Table | None, roles: tuple[RoleColumns, RoleColumns]) -> Anonymity | None:
    from discreet.assess.anonymity import measure_anatomy, measure_anonymity

    if second is not None:
        return measure_anatomy(released, second)
    present_roles = [tuple(name for name in names if name in released.attributes) for names in roles]
    return measure_anonymity(released, *present_roles) if present_roles[0] else None


def _format_measure(value: object) -> str:
    return format_value(value)
