"""The OpenAPI document: what FastAPI derives, with refusals, security and the examples of replies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from discreet.ledger.accounts import describe_condition, qualify_promise
from discreet.service.api.models import ProblemDocument
from discreet.service.problems import MEDIA_TYPE, PROBLEM_TYPES, HttpProblem

Example = dict[str, Any]

ANSWER_ID = "8b66be51e35e1055ea4b5287df43bc8a"
SESSION_ID = "0d4462c582b6205dc615ebae73e9b0a6"
SQL = "SELECT COUNT(*) FROM registry WHERE smoker = TRUE"
GUARANTEE: Example = {
    "model": "dp",
    "epsilon": "1/10",
    "neighbours": "replace-one",
    "unit": "unit (person_id)",
    "assumptions": [],
    "words": "Differential privacy with epsilon 0.1 when one unit (person_id) is replaced by any other.",
}
ALL_ANSWERS = "all answers of this account together satisfy differential privacy"
BALANCE: Example = {
    "model": "dp",
    "analyst": "ann",
    "spent": {"epsilon": "1/10", "delta": "0"},
    "cap": {"epsilon": "1", "delta": "1/10000000"},
    "left": "9/10",
    "flags": [],
    "promise": qualify_promise("ann", f"{ALL_ANSWERS} with epsilon 1, {describe_condition('dp')}"),
}
DATASET_BALANCE = BALANCE | {
    "analyst": None,
    "cap": {"epsilon": "3", "delta": "1/1000000"},
    "left": "29/10",
    "promise": f"{ALL_ANSWERS} with epsilon 3, {describe_condition('dp')}",
}
MEANING = (
    "You believed it to be about 12,000, between 10,236 and 13,764 with a probability of 95 %; the private answer is "
    "12,186; together that makes about 12,186, between 12,156 and 12,216."
)
TOKEN_DOCUMENT: Example = {
    "id": "08b27219b3a763b0e34f80f2763817aa",
    "analyst": "ann",
    "role": "analyst",
    "created": 1794839958.28,
    "expires": 1797431958.28,
    "revoked": None,
    "valid": True,
}
PRIOR: Example = {"name": "survey", "text": "normal(12000, 900)", "note": "last year's survey"}
DATASET_LINE: Example = {"name": "registry", "engine": None, "deadline": 1.0, "padding": True, "jobs": False}
JOB: Example = {
    "id": "1841743def9e01339075c489819f12a2",
    "kind": "ask",
    "dataset": "registry",
    "rehearsal": False,
    "analyst": "ann",
    "at": 1794839939.76,
    "state": "done",
    "stage": None,
    "answer": ANSWER_ID,
    "release": None,
    "sweep": None,
    "problem": None,
    "files": [],
}
ENTRY: Example = {
    "entry": 2,
    "kind": "charge",
    "at": "2026-11-16T14:38:30+00:00",
    "snapshot": "1",
    "analyst": "ann",
    "query": SQL,
    "model": "dp",
    "epsilon": "1/10",
    "spend": {"epsilon": "1/10", "rho": "1/200", "other": "0", "delta": "0"},
    "part": None,
    "answers": [ANSWER_ID],
}
PUBLIC_SCHEMA: Example = {
    "name": "registry",
    "neighbours": "replace-one",
    "units": 50_000,
    "columns": {
        "age": {"kind": "integer", "role": "quasi-identifier", "lower": 17, "upper": 90, "step": 1},
        "sex": {"kind": "nominal", "role": "quasi-identifier", "categories": ["F", "M"]},
    },
}
SNAPSHOT: Example = {
    "dataset": "registry",
    "snapshot": "1",
    "engine": "duckdb",
    "made": "2026-11-16T14:38:30+00:00",
    "disjoint": False,
    "units_declared": 50_000,
    "report": {"rows_read": 50_000, "columns": {"age": {"missing": 0, "unreadable": 33, "clipped": 135}}},
}
PLAN: Example = {
    "method": "private-columns",
    "guarantee": GUARANTEE,
    "made": {"age": "cumulative counts of 74 cells: every cell, blocks of 11", "sex": "a count of every category"},
    "expected_error": {"age": 0.00246, "sex": 0.00132},
    "warnings": [],
}
ANSWER_DOCUMENT: Example = {
    "id": ANSWER_ID,
    "at": 1794839910.95,
    "dataset": "registry",
    "analyst": "ann",
    "rehearsal": False,
    "picture": True,
    "request": {"question": "SELECT COUNT(*) FROM registry WHERE smoker", "epsilon": "0.1"},
    "question": SQL,
    "columns": ["COUNT(*)"],
    "numbers": ["COUNT(*)"],
    "dates": [],
    "rows": [{"COUNT(*)": 12_186}],
    "value": 12_186,
    "headline": 12_186,
    "intervals_95": [{"COUNT(*)": [12_156.0, 12_216.0]}],
    "posteriors": [{"COUNT(*)": {"mean": 12_185.95, "median": 12_186.0, "interval_95": [12_156.0, 12_216.0]}}],
    "reconciled": None,
    "shaped_by_prior": False,
    "prior_tail": None,
    "prior_use": "",
    "missed_accuracy": "",
    "warning": None,
    "meaning": MEANING,
    "mechanism": "discrete Laplace",
    "accuracy": "within 30 with a probability of at least 95 %",
    "stored": False,
    "entry": 2,
    "spent_so_far": {"dp": "1/10"},
    "guarantee": GUARANTEE,
    "cost": GUARANTEE,
}

EXAMPLES: Mapping[str, Example] = {
    "AnswerDocument": ANSWER_DOCUMENT,
    "SessionAnswerDocument": ANSWER_DOCUMENT | {"session": SESSION_ID, "left": "2/5"},
    "PreviewDocument": {
        "question": SQL,
        "mechanism": "discrete Laplace",
        "expected_error": 14.14,
        "prior_error": None,
        "reason": "the one that fits what was asked",
        "accuracy": "within 30 with a probability of at least 95 %",
        "accuracy_by_rows": [],
        "candidates": [
            {
                "aggregate": "COUNT(*)",
                "mechanism": "discrete Laplace",
                "expected_error": 14.14,
                "cost": GUARANTEE,
                "chosen": True,
            }
        ],
        "guarantee": GUARANTEE,
        "cost": GUARANTEE,
        "times": 10,
        "warnings": [],
        "stored_epsilon": None,
        "reuse": "",
        "pictured": True,
        "error_of": "of the raw answer",
        "prior_use": "",
        "compared_with_dp": None,
        "budget": [DATASET_BALANCE, BALANCE],
        "rehearsal": False,
    },
    "PictureDocument": {"spec": {"title": {"text": SQL}, "width": 640, "height": 280, "layer": []}},
    "PriorDocument": {
        "numeric": True,
        "points": [9_040.29, 12_000.0, 14_959.71],
        "probabilities": [0.01, 0.98, 0.01],
        "names": None,
        "mean": 12_000.0,
        "interval_95": [10_236.0, 13_764.0],
        "text": "about 12,000, between 10,236 and 13,764 with a probability of 95 %",
    },
    "SavedPriorDocument": PRIOR,
    "SavedPriorsDocument": {"priors": [PRIOR]},
    "SessionDocument": {
        "id": SESSION_ID,
        "dataset": "registry",
        "rehearsal": False,
        "closed": False,
        "noise_scale": "20",
        "epsilon": "1/2",
        "left": "1/2",
    },
    "BudgetDocument": {"dataset": "registry", "analyst": "ann", "budget": [DATASET_BALANCE, BALANCE]},
    "HistoryDocument": {"history": [ENTRY], "next": None},
    "DataSetsDocument": {"datasets": [DATASET_LINE]},
    "DataSetDocument": {
        "name": "registry",
        "rehearsal": False,
        "jobs": False,
        "deadline": 1.0,
        "padding": True,
        "schema": PUBLIC_SCHEMA,
    },
    "MeDocument": {"name": "ann", "role": "analyst", "expires": 1797431904.33, "datasets": ["registry"]},
    "JobDocument": JOB,
    "JobsDocument": {"jobs": [JOB]},
    "NewTokenDocument": TOKEN_DOCUMENT | {"token": "dsc_" + "A" * 43},
    "TokensDocument": {"tokens": [TOKEN_DOCUMENT]},
    "GrantsDocument": {"grants": [{"dataset": "registry", "analyst": "ann"}]},
    "SnapshotsDocument": {"snapshots": [SNAPSHOT]},
    "ChainDocument": {"entries": 6, "head": "b74d659c94f6686de7780580a15c6266" * 2, "verified": True},
    "ExpectedDocument": {"plans": [PLAN], "recommended": "private-columns"},
    "WarningsDocument": {
        "warnings": [{"kind": "overrun", "dataset": "registry", "text": "3 replies were late", "at": 1794839939.76}]
    },
    "HealthDocument": {"status": "ok"},
}


OPEN_PATHS = ("/health",)
REHEARSAL_PATH = "/v1/rehearsal/"
COMMON_STATUSES = (400, 405, 413, 429, 500, 503)
TOKEN_STATUSES = (401, 403, 404)
WRITE_STATUSES = (409, 415, 422)
EXTRA_STATUSES = {"/v1/datasets/{dataset}/ledger": (409,)}
TEXT_SCHEMA = {"schema": {"type": "string"}}
REFUSAL_HEADERS = {
    401: {"WWW-Authenticate": TEXT_SCHEMA | {"description": "Bearer."}},
    405: {"Allow": TEXT_SCHEMA | {"description": "The methods that can be used here."}},
    429: {"Retry-After": TEXT_SCHEMA | {"description": "After how many seconds to send it again."}},
    503: {"Retry-After": TEXT_SCHEMA | {"description": "After how many seconds to send it again."}},
}
TOKEN_SCHEME = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token from the custodian, dsc_ and 43 characters; or, in a browser, the console's own cookie.",
}


def build_operation_id(method: str, path: str) -> str:
    """Name an operation by its method and the words of its path."""
    return "_".join([method.lower(), *re.findall(r"[a-z]+", path.removeprefix("/v1"))])


def get_operation_id(route: APIRoute) -> str:
    """Name the operation of a route."""
    return build_operation_id(min(route.methods or {"GET"}), route.path_format)


def build_link(method: str, path: str, **parameters: str) -> dict[str, Any]:
    """Link a reply to an operation, with where in the request or the reply its parameters stand."""
    return {"operationId": build_operation_id(method, path), "parameters": parameters}


def build_openapi(api: FastAPI) -> dict[str, Any]:
    """Build the whole document."""
    document = get_openapi(
        title=api.title, version=api.version, description=api.description, routes=api.routes, tags=api.openapi_tags
    )
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["ProblemDocument"] = ProblemDocument.model_json_schema()
    for name, example in EXAMPLES.items():
        schemas[name]["examples"] = [example]
    statuses = sorted({problem_type.status for problem_type in PROBLEM_TYPES})
    document["components"]["responses"] = {str(status): _describe_refusal(status) for status in statuses}
    document["components"]["securitySchemes"] = {"token": TOKEN_SCHEME}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for status in ("422", "default"):
                operation["responses"].pop(status, None)
            operation["responses"] = _list_refusals(path, method) | operation["responses"]
            operation["summary"] = operation["description"].split(". ")[0].split("\n")[0].rstrip(".")
            operation["security"] = [] if path in OPEN_PATHS else [{"token": []}]
            if path.startswith(REHEARSAL_PATH):
                _link_to_rehearsals(operation)
    return document


def _link_to_rehearsals(operation: dict[str, Any]) -> None:
    """A route and its rehearsal declare the same links: those of a rehearsal lead to rehearsals."""
    for response in operation["responses"].values():
        for link in response.get("links", {}).values():
            link["operationId"] = re.sub("^([a-z]+)_datasets_", r"\1_rehearsal_datasets_", link["operationId"])


def _list_refusals(path: str, method: str) -> dict[str, Any]:
    statuses = {*COMMON_STATUSES, *EXTRA_STATUSES.get(path, ()), *(() if path in OPEN_PATHS else TOKEN_STATUSES)}
    statuses |= set(() if method == "get" else WRITE_STATUSES)
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)}


def _describe_refusal(status: int) -> dict[str, Any]:
    """A status stands for one or two types of the catalogue."""
    titles = {problem_type.name: problem_type.title for problem_type in PROBLEM_TYPES if problem_type.status == status}
    examples = {name: {"value": HttpProblem(name).to_json()} for name in titles}
    content = {"schema": {"$ref": "#/components/schemas/ProblemDocument"}, "examples": examples}
    response = {"description": "; ".join(titles.values()), "content": {MEDIA_TYPE: content}}
    return response | ({"headers": REFUSAL_HEADERS[status]} if status in REFUSAL_HEADERS else {})
