"""The custodian's pages about data sets: spend, snapshots, the log, the chain, warnings."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from discreet.custodian.document import balance_to_json
from discreet.errors import ClaimFailed, DiscreetError
from discreet.service import watching
from discreet.service.access import CurrentCustodian, CurrentService, DatasetContext, ManagedDataset
from discreet.service.console import views
from discreet.service.console.places import DatasetUrls, get_dataset_urls
from discreet.service.console.refusing import PageRoute
from discreet.service.console.rendering import render_page
from discreet.service.problems import problem_from_error
from discreet.service.routes.datasets import get_history_document
from discreet.service.state import Service
from discreet.service.store.jobs import list_jobs
from discreet.service.store.tokens import RELEASE_ACCOUNT, list_grants

LINE_CHOICES = (50, 200, 1000)
Lines = Annotated[int, Query(ge=1, le=1000)]


def build_overview_pages() -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/console/custodian", route_class=PageRoute)

    @router.get("")
    def overview(request: Request, service: CurrentService, _: CurrentCustodian) -> Response:
        """Every data set with what was ever spent of it, and what to look at."""
        cards = [_build_card(service, name) for name in service.registry.names]
        warnings = watching.list_warnings(service)
        return render_page(request, "overview.html", cards=cards, warnings=warnings, alerts=watching.ALERT_KINDS)

    @router.get("/datasets/{dataset}")
    def dataset(
        request: Request, entered: ManagedDataset, lines: Lines = LINE_CHOICES[0], verify: str = ""
    ) -> Response:
        """One data set: spend by model and analyst, snapshots, log and chain."""
        entries: Any = get_history_document(entered, lines)["history"]
        variables: dict[str, Any] = {
            "meters": views.build_meters(list_account_balances(entered.service, entered.name)),
            "accounts": _list_accounts(entered, {entry["analyst"] for entry in entries}),
            "snapshots": watching.snapshots_to_json(entered.schema),
            "deadline": entered.dataset.config.deadline,
            "chain": _verify_chain(entered) if verify else None,
            "jobs": _find_jobs_by_entry(entered),
            "payer": RELEASE_ACCOUNT,
        }
        return render_page(
            request,
            "keeping.html",
            where=get_dataset_urls(entered),
            entries=entries,
            lines=lines,
            choices=LINE_CHOICES,
            **variables,
        )

    return router


def _build_card(service: Service, name: str) -> dict[str, Any]:
    card: dict[str, Any] = {"where": DatasetUrls(name, False), "problem": None, "meters": []}
    card["analysts"] = sum(dataset == name for dataset, _ in list_grants(service.store))
    try:
        return card | {"meters": views.build_meters(list_account_balances(service, name))}
    except DiscreetError as refusal:
        return card | {"problem": problem_from_error(refusal).to_json()["detail"]}


def list_account_balances(service: Service, name: str, analyst: str | None = None) -> list[dict[str, Any]]:
    """The accounts of the data set, or those of one analyst."""
    with service.registry.lease_custodian(name) as custodian:
        all_balances = custodian.budget(analyst)
    return [balance_to_json(balance) for balance in all_balances if balance.analyst == analyst]


def _list_accounts(context: DatasetContext, active_names: set[str | None]) -> list[dict[str, Any]]:
    """Every analyst who may ask, or has asked of late, with what is spent."""
    granted_names = {analyst for dataset, analyst in list_grants(context.service.store) if dataset == context.name}
    names = sorted(granted_names | {active_name for active_name in active_names if active_name is not None})
    accounts = [
        (name, views.build_meters(list_account_balances(context.service, context.name, name))) for name in names
    ]
    return [{"analyst": name, "granted": name in granted_names, "meters": meters} for name, meters in accounts]


def _find_jobs_by_entry(context: DatasetContext) -> dict[int, str]:
    """The job of every release that was made by one, by its entry of the ledger."""
    jobs = [
        release_job
        for release_job in list_jobs(context.service.store, None)
        if (release_job.dataset, release_job.kind) == (context.name, "publish")
    ]
    results = [
        (release_job.id, json.loads(release_job.result))
        for release_job in jobs
        if release_job.state == "done" and release_job.result is not None
    ]
    return {result["release"]["entry"]: job for job, result in results}


def _verify_chain(context: DatasetContext) -> dict[str, Any]:
    """The chain, recomputed; one that does not hold is told, not refused."""
    try:
        with context.service.registry.lease_custodian(context.name) as custodian:
            return {"problem": None} | watching.verify_dataset_chain(custodian)
    except ClaimFailed as refusal:
        return {"problem": str(refusal)}
