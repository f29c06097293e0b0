"""From a template to a reply. Everything that is put in is escaped; a name that is not there is an error, not a gap."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from discreet.formatting import format_value
from discreet.service.access import get_service
from discreet.service.console import telling
from discreet.service.console.static import get_assets_path
from discreet.service.console.topics import TOPICS
from discreet.service.gate import Principal
from discreet.service.store.tokens import derive_form_token

TEMPLATE_DIR = Path(__file__).parent / "templates"


@cache
def build_environment() -> Environment:
    """The templates of this package."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATE_DIR),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "value": format_value,
        "rough": telling.format_rough_error,
        "span": telling.format_page_interval,
        "exact": telling.format_exact_cost,
        "amount": telling.format_guarantee_cost,
        "moment": telling.format_minute,
        "instant": telling.format_second,
        "charged": telling.describe_charge,
    }
    environment.globals |= {"topics": TOPICS, "assets": get_assets_path()}
    return environment


def render_page(request: Request, template: str, status: int = 200, **variables: Any) -> HTMLResponse:
    """One page for whoever asks for it."""
    principal: Principal | None = getattr(request.state, "principal", None)
    cookie = None if principal is None else principal.cookie
    frame = {
        "principal": principal,
        "form_token": "" if cookie is None else derive_form_token(cookie),
        "padding": get_service(request).config.padding,
        "path": request.url.path,
        "rehearsal": False,
        "alert": None,
    }
    return HTMLResponse(build_environment().get_template(template).render(frame | variables), status)
