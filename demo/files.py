"""The demo's two files, one 10-anonymous and one differentially private, and what becomes of an analysis on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from demo.registry import Row, Work, read_rows
from discreet import Custodian, Release
from discreet.release.assess import VerifiedRelease, verify_release

COLUMNS = ("age", "sex", "smoker", "diagnosis")
ANONYMOUS, PRIVATE = "mdav", "private-linked"
RECIPES: dict[str, tuple[str, dict[str, Any]]] = {
    ANONYMOUS: ("ten-anonymous", {"k": 10}),
    PRIVATE: ("private", {"epsilon": 1, "columns": COLUMNS}),
}


def publish(custodian: Custodian, work: Work, method: str, show: Callable[[str], None]) -> dict[str, Any]:
    """Make one file, its manifest and its report; their description, for the folder's mark file."""
    name, options = RECIPES[method]
    out, report = work.folder / f"{name}.csv", work.folder / f"{name}-report.html"
    release = custodian.publish(method, out, report=report, progress=show, **options)
    return _describe_release(release)


def _describe_release(release: Release) -> dict[str, Any]:
    words = {"promise": release.guarantee.words(), "assumes": list(release.guarantee.assumptions)}
    judgements = {
        "risk": release.risk,
        "utility": release.utility,
        "warnings": list(release.warnings),
        "rows": release.rows,
    }
    report = "" if release.report is None else release.report.name
    return (
        words | judgements | {"file": release.files[0].name, "manifest": release.manifest_file.name, "report": report}
    )


def verify(work: Work, release: dict[str, Any]) -> VerifiedRelease:
    """The claim of a file, measured from the file alone; raises where it does not hold."""
    return verify_release(work.folder / release["file"])


def compute_smoking_shares(rows: Iterable[Row]) -> dict[int, float]:
    """The share of smokers in every ten years of age, by the first of them."""
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        if row["age"] and row["smoker"] in {"true", "false"}:
            tally = counts[min(int(float(row["age"])) // 10, 8) * 10]
            tally[0] += row["smoker"] == "true"
            tally[1] += 1
    return {age: yes / both for age, (yes, both) in sorted(counts.items()) if both}


def find_one_group(file: Path, limit: int) -> list[Row]:
    """Some people of one group, those who share all that an intruder is taken to know; the first with no gap in it."""
    known = ("age", "sex", "education", "occupation")
    every = list(read_rows(file))
    first = next((row for row in every if all(row.values())), every[0])
    return [row for row in every if all(row[name] == first[name] for name in known)][:limit]
