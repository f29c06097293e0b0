"""A service in the test's own process, and its tokens."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from discreet import Custodian
from discreet.sample import write_registry
from discreet.service.app import MiddlewareStack, make_app
from discreet.service.config import Config, DatasetConfig, Limits
from discreet.service.store.tokens import create_token
from support import temporary_folders
from support.seeded_entropy import cache

PATIENTS = 500
COUNT = {"question": "SELECT COUNT(*) FROM registry WHERE smoker", "epsilon": "0.1"}
HOME = "/v1/datasets/registry"


@dataclass(frozen=True)
class InProcessService:
    """A service and who may use it: ann has the registry, bob has nothing, cus is the custodian."""

    app: MiddlewareStack
    client: TestClient
    config: Config
    tokens: dict[str, str]

    def call(self, holder: str | None, method: str, path: str, body: object = None, **headers: str) -> Any:
        """One request of somebody, by a token's holder's name."""
        sent_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if holder is not None:
            sent_headers["Authorization"] = f"Bearer {self.tokens[holder]}"
        body_argument = {} if body is None else {"json": body}
        return self.client.request(method, path, headers=sent_headers, **body_argument)

    def get(self, holder: str | None, path: str) -> Any:
        return self.call(holder, "GET", path)

    def post(self, holder: str | None, path: str, body: object, **headers: str) -> Any:
        return self.call(holder, "POST", path, body, **headers)


@cache
def register_folder(patients: int) -> Path:
    """A folder with a registry that is registered and was never asked, made once."""
    folder = temporary_folders.lasting()
    Custodian.open(write_registry(folder, patients)).close()
    return folder


def build_config(folder: Path, patients: int = PATIENTS, **changes: Any) -> Config:
    """A configuration without padding, for the made-up registry, which is registered already."""
    shutil.copytree(register_folder(patients), folder, dirs_exist_ok=True)
    schema = folder / "registry.yaml"
    limits = Limits(rate=100_000, burst=100_000, together=100_000, previews=100_000)
    places = {"folder": folder / "service", "store": str(folder / "service.db")}
    return replace(Config((DatasetConfig(schema, 0.05),), **places, padding=False, limits=limits), **changes)


@contextmanager
def run_service(config: Config, life: str | None = None) -> Iterator[InProcessService]:
    """Run a service until the test is over; a worker of another one where its life is given."""
    app = make_app(config, life)
    store = app.service.store
    tokens = {
        "ann": create_token(store, "ann", "analyst", 30, ("registry",))[1],
        "bob": create_token(store, "bob", "analyst", 30)[1],
        "cus": create_token(store, "cus", "custodian", 30)[1],
    }
    with TestClient(app, raise_server_exceptions=False) as client:
        yield InProcessService(app, client, config, tokens)
