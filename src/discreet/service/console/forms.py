"""Forms that a browser sends, and the addresses of pages."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs, quote

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError

from discreet.datasets.dataset_dir import generate_identifier
from discreet.errors import InvalidInput
from discreet.service.api.dependencies import DatasetContext, enter_dataset, get_principal
from discreet.service.middleware.auth import check_form_token
from discreet.service.problems import HttpProblem
from discreet.service.store.stored_answers import canonicalize_request

REHEARSAL_PREFIX = "/console/rehearsal/"


@dataclass(frozen=True, slots=True)
class DatasetUrls:
    """A data set's addresses."""

    dataset: str
    rehearsal: bool

    @property
    def pages(self) -> str:
        """Its pages for analysts."""
        return f"/console{self._part}/datasets/{self._name}"

    @property
    def api(self) -> str:
        """Its routes."""
        return f"/v1{self._part}/datasets/{self._name}"

    @property
    def keeping(self) -> str:
        """Its pages for custodians."""
        return f"/console/custodian/datasets/{self._name}"

    @property
    def other(self) -> str:
        """The same page in rehearsal, or for real again."""
        return DatasetUrls(self.dataset, not self.rehearsal).pages

    @property
    def _name(self) -> str:
        return quote(self.dataset, safe="")

    @property
    def _part(self) -> str:
        return "/rehearsal" if self.rehearsal else ""


def get_dataset_urls(context: DatasetContext) -> DatasetUrls:
    """The addresses of a data set that was entered."""
    return DatasetUrls(context.name, context.rehearsal)


def get_page_context(request: Request, dataset: str) -> DatasetContext:
    """The data set of a page, if it is granted."""
    return enter_dataset(request, dataset, request.url.path.startswith(REHEARSAL_PREFIX))


PageDataset = Annotated[DatasetContext, Depends(get_page_context)]


FORM_MEDIA_TYPE = "application/x-www-form-urlencoded"
MAX_FIELDS = 2000
NOISE_FIELDS = ("epsilon", "accuracy", "noise_scale")
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ConsoleForm:
    """The fields that were filled in."""

    fields: Mapping[str, list[str]]

    def get_text(self, name: str) -> str:
        """A field, without spaces at its ends; "" where it is empty."""
        return self.fields.get(name, [""])[0].strip()

    def get_values(self, name: str) -> list[str]:
        """Every value of a field that may be there several times."""
        return [value.strip() for value in self.fields.get(name, []) if value.strip()]

    def get_lines(self, name: str) -> list[str]:
        """The lines of a field."""
        return [line.strip() for line in self.get_text(name).splitlines() if line.strip()]

    def is_ticked(self, name: str) -> bool:
        """Whether a box is ticked."""
        return bool(self.get_text(name))


async def read_form(request: Request) -> ConsoleForm:
    """The fields of a request's body."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_MEDIA_TYPE:
        raise HttpProblem("unsupported-media-type", "send a form of this console")
    try:
        fields = parse_qs((await request.body()).decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise InvalidInput("the form cannot be read; load the page again") from None
    return ConsoleForm(fields)


async def read_own_form(request: Request) -> ConsoleForm:
    """The fields of a form, which must have come from a page of ours."""
    principal = get_principal(request)
    form = await read_form(request)
    check_form_token(principal, form.get_text("form_token"))
    return form


AnyForm = Annotated[ConsoleForm, Depends(read_form)]
OwnForm = Annotated[ConsoleForm, Depends(read_own_form)]


def validate_body(model: type[Model], fields: Mapping[str, Any]) -> dict[str, Any]:
    """What was said, as a body of the API; refused as there."""
    try:
        return model.model_validate(dict(fields)).model_dump(exclude_unset=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        location = " ".join(str(part)[:40] for part in first["loc"][:1]) or "the form"
        raise InvalidInput(f"{location}: {first['msg'][:1].lower()}{first['msg'][1:200]}") from None


def read_question_fields(form: ConsoleForm) -> dict[str, Any]:
    """A question as the form has it; what only an answer takes is left out where it is empty."""
    fields: dict[str, Any] = {"question": form.get_text("question")}
    how = form.get_text("how") or "epsilon"
    if how not in NOISE_FIELDS:
        raise InvalidInput(f"say how much noise there may be by one of {', '.join(NOISE_FIELDS)}, not {how[:40]!r}")
    fields |= {how: form.get_text("size")}
    fields |= {name: form.get_text(name) for name in ("prior", "delta", "distance", "model")}
    fields |= {"rows": parse_optional_integer(form.get_text("rows"), "rows"), "interval": form.is_ticked("interval")}
    fields |= {"reuse": "any" if form.is_ticked("reuse") else ""}
    return _drop_empty(fields) | _read_tail(form.get_text("tail"))


def read_answer_fields(form: ConsoleForm) -> dict[str, Any]:
    """What an answer takes besides a preview."""
    fields = {name: form.get_lines(name) for name in ("constraints", "ranges")}
    boxes = {name: form.is_ticked(name) for name in ("fresh", "population")}
    return _drop_empty(fields | boxes | {"population_size": form.get_text("population_size")})


def _read_tail(text: str) -> dict[str, bool]:
    """Whether a heavy tail is mixed into the prior; nothing where that is left open."""
    if text not in {"", "true", "false"}:
        raise InvalidInput(f"tail is true, false or left out, not {text[:40]!r}")
    return {"tail": text == "true"} if text else {}


def compute_form_key(form: ConsoleForm, body: Mapping[str, Any]) -> str:
    """One key for one form and what it says: sent twice it is the same, changed it is another."""
    return hashlib.sha256(
        f"{form.get_text('key') or generate_identifier()} {canonicalize_request(dict(body))}".encode()
    ).hexdigest()


def parse_optional_integer(text: str, name: str) -> int | None:
    """A whole number, or none."""
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise InvalidInput(f"{name} must be a whole number, got {text[:40]!r}")
    return int(text)


def _drop_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in ("", None, False, [])}
