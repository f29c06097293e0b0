"""The OpenAPI document: what FastAPI derives, with the models and examples of replies, refusals and security.

The JSON of replies is that of the command line.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import reduce
from inspect import getsource
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, create_model

from discreet.answers.explain import AccuracyForRows
from discreet.custodian.preview import Preview, StatedPrior
from discreet.json_fields import JsonWritable, list_json_fields
from discreet.ledger.charge import Balance, Entry
from discreet.planner.dp_comparison import DpComparison
from discreet.planner.plan import Candidate
from discreet.privacy.cost import PrivacyCost, SubAccount
from discreet.privacy.guarantee import Guarantee
from discreet.schema import Budget
from discreet.service.problems import MEDIA_TYPE, PROBLEM_TYPES, HttpProblem, ProblemDocument
from discreet.service.store.stored_answers import SavedPrior
from discreet.service.store.tokens import Token

OpenApiObject = dict[str, Any]
"""A part of the document, as FastAPI takes and returns it."""
Cell = int | float | bool | str | None


def _build_document(name: str, words: str, /, **types: object) -> type[BaseModel]:
    """Build the model of a reply that is no more than its fields."""
    fields: dict[str, Any] = {field: kind if type(kind) is tuple else (kind, ...) for field, kind in types.items()}
    return create_model(name, __doc__=words, **fields)


class SessionDocument(BaseModel):
    """A session, and how much of its epsilon no answer uses yet."""

    id: str
    dataset: str
    rehearsal: bool
    closed: bool
    noise_scale: str
    epsilon: str
    left: str


def _describe_reply(kind: type[JsonWritable], name: str, sentence: str = "", /, **more: object) -> type[BaseModel]:
    """Build the model of a reply that is a value as JSON, and more; its fields are described by their docstrings."""
    fields: dict[str, object] = {}
    hints, words = get_type_hints(kind), _list_docstrings(kind)
    for item in list_json_fields(cast(type, kind)):
        member = getattr(kind, item.attribute)
        function = member.fget if isinstance(member, property) else member
        hint = get_type_hints(function)["return"] if callable(function) else hints[item.attribute]
        default = Field(None if item.skips_empty else ..., description=words.get(item.attribute))
        json_type: Any = _get_json_type(hint)
        fields.setdefault(item.path[0], (dict[str, json_type] if item.path[1:] else json_type, default))
    return _build_document(name, sentence or (kind.__doc__ or "").split("\n")[0], **fields, **more)


def _list_docstrings(kind: type) -> dict[str, str]:
    """The docstrings of fields and properties, by their names."""
    (definition,) = ast.parse(getsource(kind)).body
    body = cast(ast.ClassDef, definition).body
    words = {}
    for statement, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        if isinstance(statement, ast.FunctionDef):
            words[statement.name] = ast.get_docstring(statement)
        elif isinstance(statement, ast.AnnAssign) and isinstance(after, ast.Expr):
            words[ast.unparse(statement.target)] = ast.literal_eval(after.value)
    return {name: " ".join(text.split()) for name, text in words.items() if text}


def _get_json_type(hint: Any) -> Any:
    """The type that values of a type have as JSON."""
    origin, parts = get_origin(hint), tuple(map(_get_json_type, get_args(hint)))
    if hint in (Fraction, Path):
        return str
    if isinstance(hint, type) and issubclass(hint, JsonWritable):
        return VALUE_DOCUMENTS[hint]
    if origin in (Union, UnionType):
        return reduce(or_, parts)
    if origin is tuple:
        entry: Any = reduce(or_, (part for part in parts if part is not ...))
        return list[entry]
    return dict[str, parts[1]] if origin is Mapping else hint  # type: ignore[valid-type]


VALUE_DOCUMENTS: dict[type[JsonWritable], type[BaseModel]] = {
    Guarantee: _describe_reply(Guarantee, "GuaranteeDocument", "What is promised, to whom.")
}
"""The models of values that are parts of others."""
for value_kind, value_name in {
    Budget: "CapDocument",
    Balance: "BalanceDocument",
    PrivacyCost: "SpendDocument",
    SubAccount: "PartDocument",
    Candidate: "CandidateDocument",
    AccuracyForRows: "AccuracyForRowsDocument",
    DpComparison: "ComparedWithDpDocument",
}.items():
    VALUE_DOCUMENTS[value_kind] = _describe_reply(value_kind, value_name)
GuaranteeDocument, BalanceDocument = VALUE_DOCUMENTS[Guarantee], VALUE_DOCUMENTS[Balance]


class AnswerDocument(BaseModel):
    """An answer: the JSON of `discreet ask --json`, and where it is kept."""

    model_config = ConfigDict(extra="allow")
    id: str
    at: float
    dataset: str
    analyst: str
    rehearsal: bool
    picture: bool
    request: dict[str, Any]
    question: str
    columns: list[str]
    numbers: list[str] = Field(description="The columns that were drawn.")
    dates: list[str] = Field(description="Those of them that are dates.")
    rows: list[dict[str, Cell]]
    value: Cell = Field(None, description="The one number there is, where there is one.")
    headline: Cell = Field(None, description="The same, as near as it can be told.")
    intervals_95: list[dict[str, list[Cell] | None]]
    posteriors: list[dict[str, dict[str, Any] | None]] | None
    reconciled: dict[str, Any] | None = Field(
        description="The counts made to fit what must be true. use_for_sums says whether to add up these or the raw "
        "rows, and advice says why; advice is empty where the reconciled ones serve for sums too."
    )
    shaped_by_prior: bool
    prior_tail: bool | None = Field(description="Whether a tail was mixed into the prior; null where none was used.")
    prior_use: str = Field(description="How the prior was used, in a sentence.")
    missed_accuracy: str = Field(
        "", description="That the answer is less accurate than was requested, in a sentence; empty where it is not."
    )
    warning: str | None
    meaning: str
    mechanism: str
    accuracy: str
    stored: bool
    entry: int | None
    spent_so_far: dict[str, str | None]
    guarantee: GuaranteeDocument  # type: ignore[valid-type]
    cost: GuaranteeDocument  # type: ignore[valid-type]
    ranges: list[dict[str, Any]] = Field(default_factory=list, description="The counts of ranges that were asked for.")
    population: list[dict[str, Any]] = Field(default_factory=list, description="The same for the population.")


class SessionAnswerDocument(AnswerDocument):
    """An answer in a session, and how much of the session's epsilon no answer uses yet."""

    session: str
    left: str


PreviewDocument = _describe_reply(
    Preview, "PreviewDocument", "A preview: the JSON of `discreet preview --json`.", rehearsal=bool
)
PictureDocument = _build_document(
    "PictureDocument", "Prior, noise and posterior as a Vega-Lite specification.", spec=dict[str, Any]
)


PriorDocument = _describe_reply(StatedPrior, "PriorDocument")
SavedPriorDocument = _describe_reply(SavedPrior, "SavedPriorDocument")
SavedPriorsDocument = _build_document(
    "SavedPriorsDocument",
    "All priors that you keep.",
    priors=list[SavedPriorDocument],  # type: ignore[valid-type]
)


BudgetDocument = _build_document(
    "BudgetDocument",
    "What is spent and left.",
    dataset=str,
    analyst=str | None,
    budget=list[BalanceDocument],  # type: ignore[valid-type]
)


EntryDocument = _describe_reply(
    Entry, "EntryDocument", "One line of the history, and the ids of the answers that belong to it.", answers=list[str]
)
HistoryDocument = _build_document(
    "HistoryDocument",
    "A page of what was asked, the latest first; `next`, if there is more, is `before` for the page after it.",
    history=list[EntryDocument],  # type: ignore[valid-type]
    next=int | None,
)


class DataSetLine(BaseModel):
    """One data set that you may ask."""

    name: str
    engine: str | None
    deadline: float
    padding: bool
    jobs: bool


DataSetsDocument = _build_document("DataSetsDocument", "The data sets that you may ask.", datasets=list[DataSetLine])


class DataSetDocument(BaseModel):
    """All that is public about a data set, and its clock."""

    name: str
    rehearsal: bool
    public: dict[str, Any] = Field(alias="schema")
    deadline: float
    padding: bool
    jobs: bool


MeDocument = _build_document("MeDocument", "Who you are here.", name=str, role=str, expires=float, datasets=list[str])


class JobDocument(BaseModel):
    """Long work: seen as done at the doublings of the data set's deadline."""

    id: str
    kind: Literal["ask", "publish", "sweep"]
    dataset: str
    rehearsal: bool
    analyst: str
    at: float
    state: Literal["waiting", "running", "done", "failed"]
    stage: str | None
    answer: str | None
    release: dict[str, Any] | None
    sweep: dict[str, Any] | None
    problem: ProblemDocument | None
    files: list[str]


JobsDocument = _build_document("JobsDocument", "The latest jobs.", jobs=list[JobDocument])


TokenDocument = _describe_reply(Token, "TokenDocument", valid=bool)
NewTokenDocument = _describe_reply(
    Token, "NewTokenDocument", "A token with its secret, which is told this once.", valid=bool, token=str
)
TokensDocument = _build_document("TokensDocument", "Every token there ever was.", tokens=list[TokenDocument])  # type: ignore[valid-type]


class GrantDocument(BaseModel):
    """An analyst who may ask a data set."""

    dataset: str
    analyst: str


GrantsDocument = _build_document("GrantsDocument", "Who may ask what.", grants=list[GrantDocument])


SnapshotsDocument = _build_document(
    "SnapshotsDocument",
    "Every registration of a data set, and what was seen then: for the custodian alone.",
    snapshots=list[dict[str, Any]],
)


ChainDocument = _build_document(
    "ChainDocument",
    "A chain of hashes that was recomputed and holds; keep the head elsewhere.",
    entries=int,
    head=str,
    verified=Literal[True],
)


ExpectedDocument = _build_document(
    "ExpectedDocument",
    "What private files would promise and how far off they would be.",
    plans=list[dict[str, Any]],
    recommended=str | None,
)


class WarningLine(BaseModel):
    """Something a custodian should look at."""

    kind: str
    dataset: str | None
    text: str
    at: str | float | None


WarningsDocument = _build_document(
    "WarningsDocument", "All that a custodian should look at.", warnings=list[WarningLine]
)


class HealthDocument(BaseModel):
    """Whether the service can answer."""

    status: Literal["ok", "unavailable"]
    failing: list[Literal["store", "ledger", "disk"]] | None = None
    """Which checks fail; left out where none does."""


EXAMPLES: Mapping[str, dict[str, object]] = json.loads(
    (Path(__file__).parent / "api" / "examples.json").read_text(encoding="utf-8")
)
"""An example of every document that is a reply, by the name of its model."""
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


def build_link(method: str, path: str, **parameters: str) -> dict[str, object]:
    """Link a reply to an operation, with where in the request or the reply its parameters stand."""
    return {"operationId": build_operation_id(method, path), "parameters": parameters}


def build_openapi(api: FastAPI) -> OpenApiObject:
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


def _link_to_rehearsals(operation: OpenApiObject) -> None:
    """A route and its rehearsal declare the same links: those of a rehearsal lead to rehearsals."""
    for response in operation["responses"].values():
        for link in response.get("links", {}).values():
            link["operationId"] = re.sub("^([a-z]+)_datasets_", r"\1_rehearsal_datasets_", link["operationId"])


def _list_refusals(path: str, method: str) -> dict[str, object]:
    statuses = {*COMMON_STATUSES, *EXTRA_STATUSES.get(path, ()), *(() if path in OPEN_PATHS else TOKEN_STATUSES)}
    statuses |= set(() if method == "get" else WRITE_STATUSES)
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)}


def _describe_refusal(status: int) -> dict[str, object]:
    """A status stands for one or two types of the catalogue."""
    titles = {problem_type.name: problem_type.title for problem_type in PROBLEM_TYPES if problem_type.status == status}
    examples = {name: {"value": HttpProblem(name).to_json()} for name in titles}
    content = {"schema": {"$ref": "#/components/schemas/ProblemDocument"}, "examples": examples}
    response: dict[str, object] = {"description": "; ".join(titles.values()), "content": {MEDIA_TYPE: content}}
    return response | ({"headers": REFUSAL_HEADERS[status]} if status in REFUSAL_HEADERS else {})
