"""What leaves as a file: where it is, what it promises, and for its custodian what it gives away and is good for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from discreet.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class Release:
    """One release. `manifest` goes with the files; `measured`, `risk` and `utility` are for the custodian alone."""

    name: str
    method: str
    guarantee: Guarantee
    rows: int
    files: tuple[Path, ...]
    manifest: Mapping[str, object]
    manifest_file: Path
    entry: int
    """Where the ledger tells of it."""
    measured: Mapping[str, object]
    """What an independent check of the claim found."""
    report: Path | None = None
    risk: str | None = None
    utility: str | None = None
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Machine-readable, for the custodian."""
        payload: dict[str, object] = {"name": self.name, "method": self.method, "rows": self.rows, "entry": self.entry}
        payload |= {"files": [str(file) for file in self.files], "manifest_file": str(self.manifest_file)}
        payload |= {"guarantee": self.guarantee.to_json(), "measured": dict(self.measured)}
        payload |= {"report": None if self.report is None else str(self.report)}
        return payload | {
            "risk": self.risk,
            "utility": self.utility,
            "warnings": list(self.warnings),
            "manifest": dict(self.manifest),
        }
