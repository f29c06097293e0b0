"""Forms that a browser sends, and the addresses of pages."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar
from urllib.parse import parse_qs, quote

from fastapi import Depends, Request

from discreet.datasets.dataset_dir import generate_identifier
from discreet.errors import InvalidInput
from discreet.planner.options import NOISE_OPTIONS, OPTION_READERS
from discreet.service.api.dependencies import DatasetContext, get_principal
from discreet.service.api.models import FormField, QuestionModel, RequestModel, parse_fields
from discreet.service.middleware.auth import check_form_token
from discreet.service.problems import HttpProblem
from discreet.service.store.stored_answers import canonicalize_request
from discreet.suggestions import build_choice_error

FORM_MEDIA_TYPE = "application/x-www-form-urlencoded"
MAX_FIELDS = 2000
Question = TypeVar("Question", bound=QuestionModel)


@dataclass(frozen=True, slots=True)
class DatasetUrls:
    """The addresses of a data set."""

    dataset: str
    rehearsal: bool

    @property
    def pages(self) -> str:
        """The address of its pages for analysts."""
        return f"/console{self._part}/datasets/{self._name}"

    @property
    def api(self) -> str:
        """The address of its routes."""
        return f"/v1{self._part}/datasets/{self._name}"

    @property
    def admin(self) -> str:
        """The address of its pages for custodians."""
        return f"/console/custodian/datasets/{self._name}"

    @property
    def other(self) -> str:
        """The address of its pages in rehearsal; in rehearsal, of the real ones."""
        return DatasetUrls(self.dataset, not self.rehearsal).pages

    @property
    def _name(self) -> str:
        return quote(self.dataset, safe="")

    @property
    def _part(self) -> str:
        return "/rehearsal" if self.rehearsal else ""


def get_dataset_urls(context: DatasetContext) -> DatasetUrls:
    """Build the addresses of the data set of a page."""
    return DatasetUrls(context.name, context.rehearsal)


@dataclass(frozen=True, slots=True)
class ConsoleForm:
    """The fields of a form."""

    fields: Mapping[str, list[str]]

    def get_text(self, name: str) -> str:
        """Get a field without spaces at its ends; "" where it is empty."""
        return self.fields.get(name, [""])[0].strip()

    def get_values(self, name: str) -> list[str]:
        """Get every value of a field that may be there several times."""
        return [value.strip() for value in self.fields.get(name, []) if value.strip()]

    def get_lines(self, name: str) -> list[str]:
        """Get the lines of a field."""
        return [line.strip() for line in self.get_text(name).splitlines() if line.strip()]

    def is_ticked(self, name: str) -> bool:
        """Whether a box is ticked."""
        return bool(self.get_text(name))


async def read_form(request: Request) -> ConsoleForm:
    """Read the form in the body of a request."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_MEDIA_TYPE:
        raise HttpProblem("unsupported-media-type", "send a form of this console")
    try:
        fields = parse_qs((await request.body()).decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise InvalidInput("the form cannot be read; load the page again") from None
    return ConsoleForm(fields)


async def read_own_form(request: Request) -> ConsoleForm:
    """Read a form that must come from a page of ours."""
    principal = get_principal(request)
    form = await read_form(request)
    check_form_token(principal, form.get_text("form_token"))
    return form


AnyForm = Annotated[ConsoleForm, Depends(read_form)]
OwnForm = Annotated[ConsoleForm, Depends(read_own_form)]


def list_form_fields(model: type[QuestionModel]) -> dict[str, FormField]:
    """List the options of a question that the form shows, in their order."""
    options = {name: model.model_fields[name] for name in OPTION_READERS if name in model.model_fields}
    shown = ((name, item) for name, option in options.items() for item in option.metadata)
    return {name: item for name, item in shown if isinstance(item, FormField)}


def read_question(form: ConsoleForm, model: type[Question]) -> Question:
    """Read a question and the options that a model has; empty fields are left out."""
    how = form.get_text("how") or "epsilon"
    if how not in NOISE_OPTIONS:
        raise build_choice_error("the way to say how much noise there may be", how, NOISE_OPTIONS)
    values: dict[str, object] = {"question": form.get_text("question") or None, how: form.get_text("size") or None}
    for name, shown in list_form_fields(model).items():
        if shown.kind != "noise":
            values[name] = _read_field(form, name, shown)
    return parse_fields(model, {name: value for name, value in values.items() if value is not None})


def _read_field(form: ConsoleForm, name: str, shown: FormField) -> object:
    text = form.get_text(name)
    if shown.kind == "box":
        return shown.ticked if text else None
    if shown.kind == "lines":
        return form.get_lines(name) or None
    if shown.kind == "integer":
        return parse_optional_integer(text, name)
    if shown.kind == "choice":
        if text not in {"", "true", "false"}:
            raise InvalidInput(f"{name} is true, false or left out, not {text[:40]!r}")
        return text == "true" if text else None
    return text or None


def compute_form_key(form: ConsoleForm, body: RequestModel) -> str:
    """Compute the idempotency key of a form and its body: sent twice it is the same, changed it is another."""
    key_text = f"{form.get_text('key') or generate_identifier()} {canonicalize_request(body.list_sent())}"
    return hashlib.sha256(key_text.encode()).hexdigest()


def parse_optional_integer(text: str, name: str) -> int | None:
    """Parse a whole number; None where the field is empty."""
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise InvalidInput(f"{name} must be a whole number, got {text[:40]!r}")
    return int(text)
