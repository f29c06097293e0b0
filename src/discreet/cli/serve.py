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

ConfigFile = Annotated[
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
SHOWN = "token.id"
"""The file with the id of the token that was shown last."""
SAMPLE = """\
# The made-up registry, for this machine alone.
store: service.db
datasets:
  - schema: registry.yaml
    deadline: 1
"""


def serve(
    config: ConfigFile = None,
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
        _serve(Path(config), port, workers, json, _no_token)
    else:
        with _folder(folder) as made:
            _serve(_sample(made), port, workers, json, _new_token)


def _serve(
    file: Path, port: int | None, workers: int | None, json: bool, token: Callable[[Config], str | None]
) -> None:
    from discreet.cli import show
    from discreet.service import supervisor

    config = _changed(file, port, workers)
    with ExitStack() as stages:
        progress = stages.enter_context(show.stages())

        def announce(listening: str) -> None:
            stages.close()
            address, told = _named(config, listening), token(config)
            if json:
                show.document(_document(file, address, told))
            else:
                show.screen(*_screen(file, config, address, told))
            sys.stdout.flush()  # who waits for it on a pipe gets it now

        supervisor.run(config, announce, progress)


def _require_service() -> None:
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("fastapi", "uvicorn", "jinja2")):
        raise Unavailable("the service is not installed; run pip install '.[service]'")


@contextmanager
def _folder(named: str | None) -> Iterator[Path]:
    """The folder of the sample: the one that was named, or one that is gone at the end."""
    if named is not None:
        yield Path(named)
    else:
        with tempfile.TemporaryDirectory(prefix="discreet-sample-", ignore_cleanup_errors=True) as made:
            yield Path(made)


def _sample(folder: Path) -> Path:
    """The configuration of the sample, written with it where it is not there already."""
    from discreet.cli import show
    from discreet.sample import write_registry

    file = folder / "service.yaml"
    try:
        with show.stages() as progress:
            progress("writing a made-up registry")
            if not (folder / "registry.yaml").exists():
                write_registry(folder)
            if not file.exists():
                file.write_text(SAMPLE, encoding="utf-8")
    except OSError:
        raise Unavailable(f"the folder {folder} cannot be written; check its owner and the disk") from None
    return file


def _changed(file: Path, port: int | None, workers: int | None) -> Config:
    """The configuration, with what was said on the command line in its place."""
    from dataclasses import replace

    from discreet.service.config import read_config

    read = read_config(file)
    return replace(read, port=read.port if port is None else port, workers=read.workers if workers is None else workers)


def _no_token(config: Config) -> None:
    """Whoever has a configuration makes tokens with `discreet token`."""


def _new_token(config: Config) -> str:
    """A token for the custodian of the sample; the one that a former start showed is revoked."""
    from discreet.service.store import Store
    from discreet.service.store.tokens import create_token, revoke_token

    shown = config.folder / SHOWN
    with Store.open(config.store) as store:
        made, told = create_token(store, CUSTODIAN, CUSTODIAN)
        try:
            if shown.exists():
                revoke_token(store, shown.read_text(encoding="utf-8", errors="replace"))
            shown.write_text(made.id, encoding="utf-8")
        except OSError:
            raise Unavailable(f"{shown} cannot be written; check its owner and the disk") from None
    return told


def _named(config: Config, address: str) -> str:
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


def _document(file: Path, address: str, token: str | None) -> dict[str, str | None]:
    return {"address": address, "console": f"{address}/console/", "token": token, "config": str(file)}


def _screen(file: Path, config: Config, address: str, token: str | None) -> Iterator[RenderableType]:
    from discreet.cli.show import facts, text, warning

    yield text(f"discreet answers at {address}", "bold")
    pairs = {"console": f"{address}/console/", "configuration": str(file)}
    if token is not None:
        pairs["custodian's token"] = token
    yield facts(pairs)
    if _is_everywhere(config):
        yield "It listens on every address of this machine, not by this name alone."
    if token is not None:
        yield "Sign in to the console with the token, which is shown once, or send it: Authorization: Bearer dsc_..."
    elif not _has_custodian(config):
        yield f"There is no custodian yet: discreet token create --config {file} --analyst NAME --role custodian"
    if not config.padding:
        yield warning("padding is off, so that the time of a reply may tell of rows: for tests alone.")
    yield "Stop it with Ctrl-C: requests under way are answered first."


def _has_custodian(config: Config) -> bool:
    import time

    from discreet.service.store import Store
    from discreet.service.store.tokens import all_tokens

    with Store.open(config.store) as store:
        return any(one.role == CUSTODIAN and one.valid(time.time()) for one in all_tokens(store))
