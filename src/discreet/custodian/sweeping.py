"""Which k and which method: tried on the records, weighed, and recommended; nothing leaves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.custodian.protecting import read_records
from discreet.custodian.publishing import DatasetHandle
from discreet.custodian.recipe import get_column_roles
from discreet.custodian.registering import Progress
from discreet.custodian.writing import check_report_target, write_private_json
from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from discreet.assess.sweep import SweepResult, SweepTrial


def run_sweep(
    handle: DatasetHandle,
    ks: str | Sequence[int],
    methods: str | Sequence[str],
    t: object,
    report: str | Path | None,
    force: bool,
    progress: Progress,
) -> SweepResult:
    """Every method at every k; with a report, the page shows the recommended one."""
    from discreet.assess.sweep import DEFAULT_METHODS, SweepTrial, check_ks, check_methods, parse_ks, sweep_parameters

    method_names = check_methods((methods,) if isinstance(methods, str) else tuple(methods) or DEFAULT_METHODS)
    k_values = parse_ks(ks) if isinstance(ks, str) else check_ks(ks)
    quasi, confidential = get_column_roles(handle.schema)
    if not quasi or not confidential:
        raise InvalidInput("a sweep needs columns with the roles quasi-identifier and confidential; add role: to some")
    report_path = None if report is None else check_report_target(report, force)
    progress("reading")
    table = read_records(handle.schema, handle.source).select((*quasi, *confidential))
    sweep_result = sweep_parameters(
        table,
        quasi,
        confidential,
        k_values,
        method_names,
        t=t,
        progress=lambda done, of: progress(f"trying: {done} of {of}"),
    )
    if report_path is not None:
        _write_sweep(report_path, sweep_result, SweepTrial(table, quasi, confidential, "domain", t, None))
    return sweep_result


def _write_sweep(path: Path, sweep_result: SweepResult, trial: SweepTrial) -> None:
    """The page shows the recommended point, made once more."""
    from discreet.assess.report import build_report_json, write_report

    best = sweep_result.recommended
    protected = trial.protect(best.method, best.k)
    comparison = trial.compare(protected, best.k)
    verdict = "recommended" if sweep_result.useful else "nearest to safe and useful"
    title = f"{best.method} with k = {best.k}, {verdict}; nothing was released"
    facts: dict[str, object] = {"title": title, "method": best.method}
    facts |= {"guarantee": protected.guarantee.words(), "assumptions": protected.guarantee.assumptions}
    if path.suffix.lower() == ".json":
        write_private_json(path, build_report_json(facts, comparison, sweep_result))
    else:
        write_report(path, facts, comparison, trial.table.take(protected.source_rows), protected.table, sweep_result)
