"""What a browser sends: the fields of a form of ours, read as the API's own requests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError

from discreet.custodian.secrets import identifier
from discreet.errors import InvalidInput
from discreet.service.access import principal_of
from discreet.service.gate import check_form
from discreet.service.problems import Problem
from discreet.service.store.answers import canonical

KIND = "application/x-www-form-urlencoded"
MOST_FIELDS = 2000
NOISE = ("epsilon", "accuracy", "noise_scale")
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Form:
    """The fields that were filled in."""

    fields: Mapping[str, list[str]]

    def text(self, name: str) -> str:
        """A field, without spaces at its ends; "" where it is empty."""
        return self.fields.get(name, [""])[0].strip()

    def all(self, name: str) -> list[str]:
        """Every value of a field that may be there several times."""
        return [one.strip() for one in self.fields.get(name, []) if one.strip()]

    def lines(self, name: str) -> list[str]:
        """The lines of a field."""
        return [line.strip() for line in self.text(name).splitlines() if line.strip()]

    def ticked(self, name: str) -> bool:
        """Whether a box is ticked."""
        return bool(self.text(name))


async def read_form(request: Request) -> Form:
    """The fields of a request's body."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != KIND:
        raise Problem("unsupported-media-type", "send a form of this console")
    try:
        fields = parse_qs((await request.body()).decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise InvalidInput("the form cannot be read; load the page again") from None
    return Form(fields)


async def sent(request: Request) -> Form:
    """The fields of a form, which must have come from a page of ours."""
    principal = principal_of(request)
    form = await read_form(request)
    check_form(principal, form.text("form_token"))
    return form


Filled = Annotated[Form, Depends(read_form)]
Sent = Annotated[Form, Depends(sent)]


def as_request(model: type[Model], said: Mapping[str, Any]) -> dict[str, Any]:
    """What was said, as a body of the API; refused as there."""
    try:
        return model.model_validate(dict(said)).model_dump(exclude_unset=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = " ".join(str(part)[:40] for part in first["loc"][:1]) or "the form"
        raise InvalidInput(f"{place}: {first['msg'][:1].lower()}{first['msg'][1:200]}") from None


def asked(form: Form) -> dict[str, Any]:
    """A question as the form has it; what only an answer takes is left out where it is empty."""
    said: dict[str, Any] = {"question": form.text("question")}
    how = form.text("how") or "epsilon"
    if how not in NOISE:
        raise InvalidInput(f"say how much noise there may be by one of {', '.join(NOISE)}, not {how[:40]!r}")
    said |= {how: form.text("size")}
    said |= {name: form.text(name) for name in ("prior", "delta", "distance", "model")}
    said |= {"rows": whole(form.text("rows"), "rows"), "interval": form.ticked("interval")}
    said |= {"reuse": "any" if form.ticked("reuse") else ""}
    return _given(said) | _tail(form.text("tail"))


def asked_beside(form: Form) -> dict[str, Any]:
    """What an answer takes besides a preview."""
    said = {name: form.lines(name) for name in ("constraints", "ranges")}
    ticked = {name: form.ticked(name) for name in ("fresh", "population")}
    return _given(said | ticked | {"population_size": form.text("population_size")})


def _tail(text: str) -> dict[str, bool]:
    """Whether a heavy tail is mixed into the prior; nothing where that is left open."""
    if text not in {"", "true", "false"}:
        raise InvalidInput(f"tail is true, false or left out, not {text[:40]!r}")
    return {"tail": text == "true"} if text else {}


def key_of(form: Form, said: Mapping[str, Any]) -> str:
    """One key for one form and what it says: sent twice it is the same, changed it is another."""
    return hashlib.sha256(f"{form.text('key') or identifier()} {canonical(dict(said))}".encode()).hexdigest()


def whole(text: str, name: str) -> int | None:
    """A whole number, or none."""
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise InvalidInput(f"{name} must be a whole number, got {text[:40]!r}")
    return int(text)


def _given(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if value not in ("", None, False, [])}
