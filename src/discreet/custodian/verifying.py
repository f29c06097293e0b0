"""Whether a released file is what it says: measured from the file alone, or beside the records it was made of."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.custodian.beside import Beside, beside
from discreet.custodian.files import Manifest, read_file, read_manifest, require_untouched, table_file
from discreet.custodian.registering import Progress, silent
from discreet.errors import InvalidInput, Unsupported
from discreet.exact import rational_text
from discreet.guarantee import Guarantee
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
    unshown: str | None = None
    """Why a claim can be neither shown nor refuted from what is there, and what to add."""

    @property
    def words(self) -> str:
        """What was found, in a sentence or two."""
        return (
            " ".join(words for claim in self.claims for words in claim.words) or "No claim was made; this was measured."
        )

    @property
    def told(self) -> dict[str, str]:
        """What was measured, for people to read."""
        found = self.measured
        if found is None:
            return {}
        named: dict[str, object] = {
            "k": found.k,
            "classes": found.classes,
            "l (distinct)": found.l,
            "l (entropy)": found.l_entropy,
        }
        named |= {"recursive (c, 2)": found.recursive, "t (ratio)": found.t_ratio, "t (earth mover's)": found.t_emd}
        return {name: _shown(value) for name, value in named.items() if value is not None}

    def to_json(self) -> dict[str, object]:
        """Machine-readable."""
        measured = None if self.measured is None else self.measured.to_json()
        return {
            "claims": [claim.to_json() for claim in self.claims],
            "measured": measured,
            "words": self.words,
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
    roles = (quasi or (manifest.quasi if manifest else ()), confidential or (manifest.confidential if manifest else ()))
    claims = _claims(manifest, k, t)
    if not roles[0] and manifest is None:
        raise InvalidInput("there is no manifest beside the file; say which columns are known: --quasi age --quasi sex")
    released = read_file(file, manifest)
    second = None if manifest is None or manifest.second is None else read_file(file.with_name(manifest.second))
    known = None if original is None else beside(original, file, progress)
    progress("measuring")
    measured = _measured(released, second, roles)
    try:
        return VerifiedRelease(tuple(_checked(claim, released, second, roles, known) for claim in claims), measured)
    except Unsupported as unseen:
        if known is not None:
            raise
        return VerifiedRelease((), measured, f"{unseen}; the custodian can, with --original and the schema")


def _claims(manifest: Manifest | None, k: object, t: str | None) -> list[Guarantee]:
    asked = [Guarantee.k_anonymity(k)] if k is not None else []
    asked += [Guarantee.t_closeness(rational_text(t, "t"), "ratio")] if t is not None else []
    return asked or ([] if manifest is None else [manifest.guarantee])


def _checked(
    claim: Guarantee, released: Table, second: Table | None, roles: tuple[Names, Names], known: Beside | None
) -> Checked:
    from discreet.assess.claims import check_claim

    original = None if known is None else known.original
    groups = None if known is None else known.groups
    return check_claim(claim, released, *roles, original=original, groups=groups, second=second)


def _measured(released: Table, second: Table | None, roles: tuple[Names, Names]) -> Anonymity | None:
    from discreet.assess.anonymity import measure_anatomy, measure_anonymity

    if second is not None:
        return measure_anatomy(released, second)
    here = [tuple(name for name in names if name in released.attributes) for names in roles]
    return measure_anonymity(released, *here) if here[0] else None


def _shown(value: object) -> str:
    return f"{float(value):.6g}" if isinstance(value, Fraction | float) else str(value)
