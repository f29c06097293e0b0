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

from discreet.pictures import load_vega_script
from discreet.service.problems import build_not_found

ASSET_DIR = Path(__file__).parent / "assets"
ASSET_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
ASSETS_PATH = "/console/assets"
VEGA_NAME = "vega.js"
CACHE_FOREVER = "public, max-age=31536000, immutable"
CACHE_CHECKED = "no-cache"
BUILD_LOCK = Lock()


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is served; the tag changes with its content."""

    content: bytes
    kind: str
    tag: str


def build_asset(content: bytes, suffix: str) -> Asset:
    """Content with its tag."""
    return Asset(content, ASSET_MEDIA_TYPES[suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')


@cache
def read_own_assets() -> Mapping[str, Asset]:
    """All files of our own, by name."""
    return {
        path.name: build_asset(path.read_bytes(), path.suffix)
        for path in ASSET_DIR.iterdir()
        if path.suffix in ASSET_MEDIA_TYPES
    }


@cache
def compute_asset_version() -> str:
    """What names all assets together, as they are now."""
    tags = [asset.tag for _, asset in sorted(read_own_assets().items())]
    return hashlib.sha256("".join([*tags, version("vl-convert-python")]).encode()).hexdigest()[:16]


def get_assets_path() -> str:
    """Where pages find them."""
    return f"{ASSETS_PATH}/{compute_asset_version()}"


@cache
def _build_vega() -> Asset:
    return build_asset(load_vega_script().encode(), ".js")


def get_vega() -> Asset:
    """Vega, Vega-Lite and Vega-Embed as one module, built once in a process."""
    with BUILD_LOCK:
        return _build_vega()


def build_asset_routes() -> APIRouter:
    """The routes."""
    router = APIRouter(prefix=ASSETS_PATH)

    @router.get("/{name}")
    @router.get("/{named}/{name}")
    def serve_asset(request: Request, name: str, named: str = "") -> Response:
        """A style or a script; nothing in it is about a data set."""
        asset = get_vega() if name == VEGA_NAME else read_own_assets().get(name)
        if asset is None:
            raise build_not_found()
        headers = {
            "ETag": asset.tag,
            "Cache-Control": CACHE_FOREVER if named == compute_asset_version() else CACHE_CHECKED,
        }
        if request.headers.get("if-none-match") == asset.tag:
            return Response(status_code=304, headers=headers)
        return Response(asset.content, headers=headers, media_type=asset.kind)

    return router
