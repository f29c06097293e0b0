"""The console's own style and scripts, and Vega's, which an installed package brings.

They are read once, and served under an address that changes with them, so that a browser may keep them for good.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import Lock

from fastapi import APIRouter, Request
from starlette.responses import Response

from discreet.pictures import library
from discreet.service.problems import not_found

FOLDER = Path(__file__).parent / "assets"
KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
HOME = "/console/assets"
VEGA = "vega.js"
LONG = "public, max-age=31536000, immutable"
CHECKED = "no-cache"
BUILDING = Lock()


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is served; the tag changes with its content."""

    content: bytes
    kind: str
    tag: str


def asset(content: bytes, suffix: str) -> Asset:
    """Content with its tag."""
    return Asset(content, KINDS[suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')


@cache
def own() -> Mapping[str, Asset]:
    """All files of our own, by name."""
    return {path.name: asset(path.read_bytes(), path.suffix) for path in FOLDER.iterdir() if path.suffix in KINDS}


@cache
def current() -> str:
    """What names all assets together, as they are now."""
    tags = [one.tag for _, one in sorted(own().items())]
    return hashlib.sha256("".join([*tags, version("vl-convert-python")]).encode()).hexdigest()[:16]


def address() -> str:
    """Where pages find them."""
    return f"{HOME}/{current()}"


@cache
def _vega() -> Asset:
    return asset(library().encode(), ".js")


def vega() -> Asset:
    """Vega, Vega-Lite and Vega-Embed as one module, built once in a process."""
    with BUILDING:
        return _vega()


def router() -> APIRouter:
    """The routes."""
    made = APIRouter(prefix=HOME)

    @made.get("/{name}")
    @made.get("/{named}/{name}")
    def served(request: Request, name: str, named: str = "") -> Response:
        """A style or a script; nothing in it is about a data set."""
        found = vega() if name == VEGA else own().get(name)
        if found is None:
            raise not_found()
        headers = {"ETag": found.tag, "Cache-Control": LONG if named == current() else CHECKED}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        return Response(found.content, headers=headers, media_type=found.kind)

    return made
