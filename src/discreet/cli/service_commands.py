"""`discreet serve` and `token`."""

from __future__ import annotations

import ipaddress
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli import terminal
from discreet.cli.terminal import Json, build_fields_table, build_text, build_warning, escape_unprintable
from discreet.errors import InvalidInput, Unavailable
from discreet.suggestions import build_unknown_name_error

if TYPE_CHECKING:
    from rich.console import RenderableType

    from discreet.service.config import Config
    from discreet.service.store import Store


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
    if any(find_spec(name) is None for name in ("fastapi", "uvicorn", "jinja2")):
        raise Unavailable("the service is not installed; run pip install '.[service]'")
    if config is not None and folder is not None:
        raise InvalidInput("--folder is for the sample; a configuration says itself where things are kept")
    if config is not None:
        # A service with a configuration gets its tokens by `discreet token`.
        _serve_config(Path(config), port, workers, json, lambda _: None)
    else:
        with _open_sample_folder(folder) as sample_folder:
            _serve_config(_write_sample_config(sample_folder), port, workers, json, _create_sample_token)


def _serve_config(
    file: Path, port: int | None, workers: int | None, json: bool, make_token: Callable[[Config], str | None]
) -> None:
    from discreet.service import supervisor
    from discreet.service.config import read_config

    config = read_config(file)
    config = replace(
        config, port=config.port if port is None else port, workers=config.workers if workers is None else workers
    )
    with ExitStack() as stages:
        progress = stages.enter_context(terminal.show_stages())

        def announce(listening: str) -> None:
            stages.close()
            address, token_text = _format_address(config, listening), make_token(config)
            if json:
                document = {"address": address, "console": f"{address}/console/", "token": token_text}
                terminal.print_json(document | {"config": str(file)})
            else:
                terminal.print_screen(*_render_service(file, config, address, token_text))
            sys.stdout.flush()  # who waits for it on a pipe gets it now

        supervisor.run_service(config, announce, progress)


@contextmanager
def _open_sample_folder(path: str | None) -> Iterator[Path]:
    if path is not None:
        yield Path(path)
    else:
        with tempfile.TemporaryDirectory(prefix="discreet-sample-", ignore_cleanup_errors=True) as temporary_folder:
            yield Path(temporary_folder)


def _write_sample_config(folder: Path) -> Path:
    """Write the sample and its configuration where they are not there already."""
    from discreet.sample import write_registry

    file = folder / "service.yaml"
    try:
        with terminal.show_stages() as progress:
            progress("writing a made-up registry")
            if not (folder / "registry.yaml").exists():
                write_registry(folder)
            if not file.exists():
                file.write_text(SAMPLE_CONFIG, encoding="utf-8")
    except OSError:
        raise Unavailable(f"the folder {folder} cannot be written; check its owner and the disk") from None
    return file


def _create_sample_token(config: Config) -> str:
    """Make a token for the custodian of the sample; the one that was shown before is revoked."""
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
    """Where the service listens on every address, others reach it by this machine's name."""
    port = address.rpartition(":")[2]
    return f"{address.partition(':')[0]}://{socket.gethostname()}:{port}" if _is_everywhere(config) else address


def _is_everywhere(config: Config) -> bool:
    """Whether the address stands for every address of this machine."""
    try:
        return ipaddress.ip_address(config.address).is_unspecified
    except ValueError:
        return False


def _render_service(file: Path, config: Config, address: str, token: str | None) -> Iterator[RenderableType]:
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
    from discreet.service.store import Store
    from discreet.service.store.tokens import list_tokens

    with Store.open(config.store) as store:
        return any(token.role == CUSTODIAN and token.is_valid(time.time()) for token in list_tokens(store))


ConfigFile = Annotated[
    str, typer.Option("--config", metavar="FILE", help="The service's configuration.", show_default=False)
]
Analyst = Annotated[
    str, typer.Option(metavar="A", help="Whose token it is; her account has the same name.", show_default=False)
]
Role = Annotated[str, typer.Option(metavar="R", help="analyst or custodian.")]
Days = Annotated[float, typer.Option(metavar="N", help="For how many days it is good, at most 366.")]
GrantedDatasets = Annotated[
    list[str] | None, typer.Option("--dataset", metavar="D", help="A data set that she may ask; repeatable.")
]
TokenId = Annotated[
    str, typer.Argument(metavar="ID", help="The token's id, as listed, or how it begins.", show_default=False)
]
AnalystName = Annotated[str, typer.Argument(metavar="ANALYST", help="Who may ask.", show_default=False)]
DatasetName = Annotated[str, typer.Argument(metavar="DATASET", help="The data set's name.", show_default=False)]

MIN_ID_LENGTH = 8
"""Signs of an id's beginning, at least, that stand for it where no other begins so."""


def run_token_create(
    config: ConfigFile,
    analyst: Analyst,
    role: Role = "analyst",
    days: Days = 30,
    dataset: GrantedDatasets = None,
    json: Json = False,
) -> None:
    """Make a token and print it: this once, for only its hash is kept."""
    from discreet.service.store.tokens import create_token, token_to_json

    with _open_store(config) as (settings, store):
        for name in dataset or ():
            _require_dataset(settings, name)
        token, secret = create_token(store, analyst, role, days, tuple(dataset or ()))
    if json:
        terminal.print_json(token_to_json(token) | {"token": secret})
    else:
        print(secret)
        message = f"Token {token.id} of {token.analyst}, {token.role}, is good until {_format_time(token.expires)}."
        print(escape_unprintable(message), "It is shown this once.", file=sys.stderr)


def run_token_list(config: ConfigFile, json: Json = False) -> None:
    """Show every token there ever was, without its secret, and who may ask what."""
    from discreet.service.store.tokens import list_grants, list_tokens, token_to_json

    with _open_store(config) as (_, store):
        tokens, grants = list_tokens(store), list_grants(store)
    if json:
        granted = [{"dataset": dataset, "analyst": analyst} for dataset, analyst in grants]
        terminal.print_json({"tokens": [token_to_json(token) for token in tokens], "grants": granted})
        return
    token_table = terminal.build_table("id", "analyst", "role", "created", "good until", "state")
    for token in tokens:
        state = "valid" if token.is_valid(time.time()) else "expired"
        if token.revoked is not None:
            state = f"revoked {_format_time(token.revoked)}"
        times = (_format_time(token.created), _format_time(token.expires))
        token_table.add_row(*map(build_text, (token.id, token.analyst, token.role, *times, state)))
    terminal.print_screen(token_table, "", *(f"{analyst} may ask {dataset}" for dataset, analyst in grants))


def run_token_revoke(token: TokenId, config: ConfigFile) -> None:
    """End a token, and every console session that it opened, at once."""
    from discreet.service.store.tokens import revoke_token

    with _open_store(config) as (_, store):
        token_id = _find_token_id(store, token)
        revoke_token(store, token_id)
    terminal.print_screen(f"Token {token_id} is revoked.")


def run_token_grant(analyst: AnalystName, dataset: DatasetName, config: ConfigFile) -> None:
    """Let an analyst ask a data set."""
    from discreet.service.store import tokens

    with _open_store(config) as (settings, store):
        _require_dataset(settings, dataset)
        tokens.grant_dataset(store, dataset, analyst)
        now = time.time()
        has_token = any(token.analyst == analyst and token.is_valid(now) for token in tokens.list_tokens(store))
    terminal.print_screen(f"{analyst} may ask {dataset}{'' if has_token else ', but has no valid token yet'}.")


def run_token_ungrant(analyst: AnalystName, dataset: DatasetName, config: ConfigFile) -> None:
    """Let an analyst ask a data set no more."""
    from discreet.service.store import tokens

    with _open_store(config) as (_, store):
        if (dataset, analyst) not in tokens.list_grants(store):
            raise InvalidInput(f"{analyst[:40]!r} may not ask {dataset[:40]!r} as it is; see: discreet token list")
        tokens.revoke_grant(store, dataset, analyst)
    terminal.print_screen(f"{analyst} may ask {dataset} no more.")


@contextmanager
def _open_store(file: str) -> Iterator[tuple[Config, Store]]:
    from discreet.service.config import read_config
    from discreet.service.store import Store

    config = read_config(file)
    with Store.open(config.store) as store:
        yield config, store


def _find_token_id(store: Store, prefix: str) -> str:
    """The id of the one token that has this id, or one that begins so."""
    from discreet.service.store.tokens import list_tokens

    ids = [token.id for token in list_tokens(store)]
    is_long = len(prefix) >= MIN_ID_LENGTH
    matches = [token_id for token_id in ids if token_id == prefix or (is_long and token_id.startswith(prefix))]
    if len(matches) == 1:
        return matches[0]
    problem = f"{len(matches)} tokens begin with {prefix[:40]!r}; give more of the id"
    if not matches:
        length = f"{MIN_ID_LENGTH} signs or more of its beginning"
        problem = f"there is no token {prefix[:40]!r}; give its id, or {length}"
    raise InvalidInput(f"{problem}: discreet token list")


def _require_dataset(config: Config, name: str) -> None:
    from discreet.schema import load_schema

    names = [load_schema(dataset.schema).name for dataset in config.datasets]
    if name not in names:
        raise build_unknown_name_error("data set", name, names, place="of the service")


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


TOKEN_COMMANDS: Mapping[str, Callable[..., None]] = {
    "create": run_token_create,
    "list": run_token_list,
    "revoke": run_token_revoke,
    "grant": run_token_grant,
    "ungrant": run_token_ungrant,
}
