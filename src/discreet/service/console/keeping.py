"""The custodian's pages about data sets: spend, snapshots, the log, the chain, warnings."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from discreet.custodian.document import balance_to_json
from discreet.errors import ClaimFailed, DiscreetError
from discreet.service import watching
from discreet.service.access import Entered, InManaged, InService, Keeper
from discreet.service.console import views
from discreet.service.console.places import Where, where
from discreet.service.console.refusing import PageRoute
from discreet.service.console.rendering import page
from discreet.service.problems import problem_of
from discreet.service.routes.datasets import history
from discreet.service.state import Service
from discreet.service.store.jobs import all_jobs
from discreet.service.store.tokens import RELEASES, all_grants

LINES = (50, 200, 1000)
Lines = Annotated[int, Query(ge=1, le=1000)]


def router() -> APIRouter:
    """The routes."""
    made = APIRouter(prefix="/console/custodian", route_class=PageRoute)

    @made.get("")
    def overview(request: Request, service: InService, _: Keeper) -> Response:
        """Every data set with what was ever spent of it, and what to look at."""
        cards = [_card(service, name) for name in service.holdings.names]
        found = watching.warnings(service)
        return page(request, "overview.html", cards=cards, warnings=found, alerts=watching.ALERTS)

    @made.get("/datasets/{dataset}")
    def dataset(request: Request, entered: InManaged, lines: Lines = LINES[0], verify: str = "") -> Response:
        """One data set: spend by model and analyst, snapshots, log and chain."""
        entries: Any = history(entered, lines)["history"]
        more: dict[str, Any] = {
            "meters": views.meters(balances(entered.service, entered.name)),
            "accounts": _accounts(entered, {one["analyst"] for one in entries}),
            "snapshots": watching.snapshots(entered.schema),
            "deadline": entered.held.told.deadline,
            "chain": _chain(entered) if verify else None,
            "jobs": _jobs_by_entry(entered),
            "payer": RELEASES,
        }
        return page(request, "keeping.html", where=where(entered), entries=entries, lines=lines, choices=LINES, **more)

    return made


def _card(service: Service, name: str) -> dict[str, Any]:
    told: dict[str, Any] = {"where": Where(name, False), "problem": None, "meters": []}
    told["analysts"] = sum(dataset == name for dataset, _ in all_grants(service.store))
    try:
        return told | {"meters": views.meters(balances(service, name))}
    except DiscreetError as refusal:
        return told | {"problem": problem_of(refusal).document()["detail"]}


def balances(service: Service, name: str, analyst: str | None = None) -> list[dict[str, Any]]:
    """The accounts of the data set, or those of one analyst."""
    with service.holdings.custodian(name) as custodian:
        found = custodian.budget(analyst)
    return [balance_to_json(one) for one in found if one.analyst == analyst]


def _accounts(entered: Entered, seen: set[str | None]) -> list[dict[str, Any]]:
    """Every analyst who may ask, or has asked of late, with what is spent."""
    granted = {analyst for dataset, analyst in all_grants(entered.service.store) if dataset == entered.name}
    names = sorted(granted | {one for one in seen if one is not None})
    told = [(name, views.meters(balances(entered.service, entered.name, name))) for name in names]
    return [{"analyst": name, "granted": name in granted, "meters": meters} for name, meters in told]


def _jobs_by_entry(entered: Entered) -> dict[int, str]:
    """The job of every release that was made by one, by its entry of the ledger."""
    jobs = [
        one for one in all_jobs(entered.service.store, None) if (one.dataset, one.kind) == (entered.name, "publish")
    ]
    made = [(one.id, json.loads(one.result)) for one in jobs if one.state == "done" and one.result is not None]
    return {told["release"]["entry"]: job for job, told in made}


def _chain(entered: Entered) -> dict[str, Any]:
    """The chain, recomputed; one that does not hold is told, not refused."""
    try:
        with entered.service.holdings.custodian(entered.name) as custodian:
            return {"problem": None} | watching.chain(custodian)
    except ClaimFailed as refusal:
        return {"problem": str(refusal)}
