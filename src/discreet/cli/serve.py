"""`discreet serve`: data sets over HTTP, with a console."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options import Json
from discreet.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from discreet.service.config import Config

OptionalConfigFile = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="The service's configuration; without it a sample is served."),
]
Port = Annotated[
    int | None, typer.Option(metavar="N", help="Another port than the configuration's; 0 takes a free one.")
]
Workers = Annotated[int | None, typer.Option(metavar="N", help="How many processes answer.")]
Folder = Annotated[
    str | None, typer.Option(metavar="F", help="Where the sample is kept; without it, it is gone at the end.")
]

CUSTODIAN = "custodian"
TOKEN_ID_FILE = "token.id"
"""The file with the id of the token that was shown last."""
SAMPLE_CONFIG = """\
# The made-up registry, for this machine alone.
store: service.db
datasets:
  - schema: registry.yaml
    deadline: 1
"""


def run_serve(
    config: OptionalConfigFile = None,
    port: Port = None,
    workers: Workers = None,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Serve data sets to many analysts over HTTP, with a console for people, until it is stopped.

    Without a configuration a made-up registry is served, on this machine alone, and a token for its custodian is shown.
    """
    _require_service()
    if config is not None and folder is not None:
        raise InvalidInput("--folder is for the sample; a configuration says itself where things are kept")
    if config is not None:
        _serve_config(Path(config), port, workers, json, _skip_token)
    else:
        with _open_sample_folder(folder) as sample_folder:
            _serve_config(_write_sample_config(sample_folder), port, workers, json, _create_sample_token)


def _serve_config(
    file: Path, port: int | None, workers: int | None, json: bool, make_token: Callable[[Config], str | None]
) -> None:
    from discreet.cli import show
    from discreet.service import supervisor

    config = _read_config(file, port, workers)
    with ExitStack() as stages:
        progress = stages.enter_context(show.show_stages())

        def announce(listening: str) -> None:
            stages.close()
            address, token_text = _format_address(config, listening), make_token(config)
            if json:
                show.print_json(_build_document(file, address, token_text))
            else:
                show.print_screen(*_render_service(file, config, address, token_text))
            sys.stdout.flush()  # who waits for it on a pipe gets it now

        supervisor.run_service(config, announce, progress)


def _require_service() -> None:
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("fastapi", "uvicorn", "jinja2")):
        raise Unavailable("the service is not installed; run pip install '.[service]'")


@contextmanager
def _open_sample_folder(path: str | None) -> Iterator[Path]:
    """The folder of the sample: the one that was named, or one that is gone at the end."""
    if path is not None:
        yield Path(path)
    else:
        with tempfile.TemporaryDirectory(prefix="discreet-sample-", ignore_cleanup_errors=True) as temporary_folder:
            yield Path(temporary_folder)


def _write_sample_config(folder: Path) -> Path:
    """The configuration of the sample, written with it where it is not there already."""
    from discreet.cli import show
    from discreet.sample import write_registry

    file = folder / "service.yaml"
    try:
        with show.show_stages() as progress:
            progress("writing a made-up registry")
            if not (folder / "registry.yaml").exists():
                write_registry(folder)
            if not file.exists():
                file.write_text(SAMPLE_CONFIG, encoding="utf-8")
    except OSError:
        raise Unavailable(f"the folder {folder} cannot be written; check its owner and the disk") from None
    return file


def _read_config(file: Path, port: int | None, workers: int | None) -> Config:
    """The configuration, with what was said on the command line in its place."""
    from dataclasses import replace

    from discreet.service.config import read_config

    config = read_config(file)
    return replace(
        config, port=config.port if port is None else port, workers=config.workers if workers is None else workers
    )


def _skip_token(config: Config) -> None:
    """Whoever has a configuration makes tokens with `discreet token`."""


def _create_sample_token(config: Config) -> str:
    """A token for the custodian of the sample; the one that a former start showed is revoked."""
    from discreet.service.store import Store
    from discreet.service.store.tokens import create_token, revoke_token

    id_file = config.folder / TOKEN_ID_FILE
    with Store.open(config.store) as store:
        token, secret = create_token(store, CUSTODIAN, CUSTODIAN)
        try:
            if id_file.exists():
                revoke_token(store, id_file.read_text(encoding="utf-8", errors="replace"))
            id_file.write_text(token.id, encoding="utf-8")
        except OSError:
            raise Unavailable(f"{id_file} cannot be written; check its owner and the disk") from None
    return secret


def _format_address(config: Config, address: str) -> str:
    """The address as others reach it: by this machine's name where it listens everywhere."""
    import socket

    port = address.rpartition(":")[2]
    return f"{address.partition(':')[0]}://{socket.gethostname()}:{port}" if _is_everywhere(config) else address


def _is_everywhere(config: Config) -> bool:
    """Whether the address stands for every one of this machine."""
    import ipaddress

    try:
        return ipaddress.ip_address(config.address).is_unspecified
    except ValueError:
        return False


def _build_document(file: Path, address: str, token: str | None) -> dict[str, str | None]:
    return {"address": address, "console": f"{address}/console/", "token": token, "config": str(file)}


def _render_service(file: Path, config: Config, address: str, token: str | None) -> Iterator[RenderableType]:
    from discreet.cli.show import build_fields_table, build_text, build_warning

    yield build_text(f"discreet answers at {address}", "bold")
    pairs = {"console": f"{address}/console/", "configuration": str(file)}
    if token is not None:
        pairs["custodian's token"] = token
    yield build_fields_table(pairs)
    if _is_everywhere(config):
        yield "It listens on every address of this machine, not by this name alone."
    if token is not None:
        yield "Sign in to the console with the token, which is shown once, or send it: Authorization: Bearer dsc_..."
    elif not _has_custodian(config):
        yield f"There is no custodian yet: discreet token create --config {file} --analyst NAME --role custodian"
    if not config.padding:
        yield build_warning("padding is off, so that the time of a reply may tell of rows: for tests alone.")
    yield "Stop it with Ctrl-C: requests under way are answered first."


def _has_custodian(config: Config) -> bool:
    import time

    from discreet.service.store import Store
    from discreet.service.store.tokens import list_tokens

    with Store.open(config.store) as store:
        return any(token.role == CUSTODIAN and token.is_valid(time.time()) for token in list_tokens(store))
