"""Which k and which method: tried on the records, weighed, and recommended; nothing leaves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.custodian.protecting import records_of
from discreet.custodian.publishing import Holding
from discreet.custodian.recipe import roles_of
from discreet.custodian.registering import Progress
from discreet.custodian.writing import check_report, write_for_custodian
from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from discreet.assess.sweep import Sweep, Trial


def swept(
    holding: Holding,
    ks: str | Sequence[int],
    methods: str | Sequence[str],
    t: object,
    report: str | Path | None,
    force: bool,
    progress: Progress,
) -> Sweep:
    """Every method at every k; with a report, the page shows the recommended one."""
    from discreet.assess.sweep import METHODS, Trial, check_ks, check_methods, read_ks, sweep

    tried = check_methods((methods,) if isinstance(methods, str) else tuple(methods) or METHODS)
    listed = read_ks(ks) if isinstance(ks, str) else check_ks(ks)
    quasi, confidential = roles_of(holding.schema)
    if not quasi or not confidential:
        raise InvalidInput("a sweep needs columns with the roles quasi-identifier and confidential; add role: to some")
    page = None if report is None else check_report(report, force)
    progress("reading")
    table = records_of(holding.schema, holding.source).select((*quasi, *confidential))
    found = sweep(
        table, quasi, confidential, listed, tried, t=t, progress=lambda done, of: progress(f"trying: {done} of {of}")
    )
    if page is not None:
        _write(page, found, Trial(table, quasi, confidential, "domain", t, None))
    return found


def _write(page: Path, found: Sweep, trial: Trial) -> None:
    """The page shows the recommended point, made once more."""
    from discreet.assess.report import report_json, write_report

    best = found.recommended
    protected = trial.protect(best.method, best.k)
    comparison = trial.compare(protected, best.k)
    chosen = "recommended" if found.useful else "nearest to safe and useful"
    title = f"{best.method} with k = {best.k}, {chosen}; nothing was released"
    facts: dict[str, object] = {"title": title, "method": best.method}
    facts |= {"guarantee": protected.guarantee.words(), "assumptions": protected.guarantee.assumptions}
    if page.suffix.lower() == ".json":
        write_for_custodian(page, report_json(facts, comparison, found))
    else:
        write_report(page, facts, comparison, trial.table.take(protected.kept), protected.table, found)
