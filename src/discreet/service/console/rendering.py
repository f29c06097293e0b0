"""From a template to a reply. Everything that is put in is escaped; a name that is not there is an error, not a gap."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from discreet.formatting import format_value
from discreet.service.access import service_of
from discreet.service.console import telling
from discreet.service.console.static import address
from discreet.service.console.topics import TOPICS
from discreet.service.gate import Principal
from discreet.service.store.tokens import form_token

TEMPLATES = Path(__file__).parent / "templates"


@cache
def environment() -> Environment:
    """The templates of this package."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "value": format_value,
        "rough": telling.rough,
        "span": telling.span,
        "exact": telling.exact,
        "amount": telling.amount,
        "moment": telling.moment,
        "instant": telling.instant,
        "charged": telling.charged,
    }
    made.globals |= {"topics": TOPICS, "assets": address()}
    return made


def page(request: Request, template: str, status: int = 200, **more: Any) -> HTMLResponse:
    """One page for whoever asks for it."""
    principal: Principal | None = getattr(request.state, "principal", None)
    cookie = None if principal is None else principal.cookie
    frame = {
        "principal": principal,
        "form_token": "" if cookie is None else form_token(cookie),
        "padding": service_of(request).config.padding,
        "path": request.url.path,
        "rehearsal": False,
        "alert": None,
    }
    return HTMLResponse(environment().get_template(template).render(frame | more), status)
