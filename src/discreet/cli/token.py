"""`discreet token`: who may use a service, and which data sets they may ask."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options import Json, escape_unprintable
from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from discreet.service.config import Config
    from discreet.service.store import Store
    from discreet.service.store.tokens import Token

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
    from discreet.cli import show
    from discreet.service.store.tokens import create_token

    with _open_store(config) as (settings, store):
        for name in dataset or ():
            _require_dataset(settings, name)
        token, secret = create_token(store, analyst, role, days, tuple(dataset or ()))
    if json:
        show.print_json(_token_to_json(token) | {"token": secret})
    else:
        print(secret)
        message = f"Token {token.id} of {token.analyst}, {token.role}, is good until {_format_time(token.expires)}."
        print(escape_unprintable(message), "It is shown this once.", file=sys.stderr)


def run_token_list(config: ConfigFile, json: Json = False) -> None:
    """Show every token there ever was, without its secret, and who may ask what."""
    from discreet.cli import show
    from discreet.service.store.tokens import list_grants, list_tokens

    with _open_store(config) as (_, store):
        tokens, grants = list_tokens(store), list_grants(store)
    if json:
        granted = [{"dataset": dataset, "analyst": analyst} for dataset, analyst in grants]
        show.print_json({"tokens": [_token_to_json(token) for token in tokens], "grants": granted})
        return
    token_table = show.build_table("id", "analyst", "role", "created", "good until", "state")
    for token in tokens:
        cells = (
            token.id,
            token.analyst,
            token.role,
            _format_time(token.created),
            _format_time(token.expires),
            _format_state(token),
        )
        token_table.add_row(*map(show.build_text, cells))
    show.print_screen(token_table, "", *(f"{analyst} may ask {dataset}" for dataset, analyst in grants))


def run_token_revoke(token: TokenId, config: ConfigFile) -> None:
    """End a token, and every console session that it opened, at once."""
    from discreet.cli import show
    from discreet.service.store.tokens import revoke_token

    with _open_store(config) as (_, store):
        token_id = _find_token_id(store, token)
        revoke_token(store, token_id)
    show.print_screen(f"Token {token_id} is revoked.")


def run_token_grant(analyst: AnalystName, dataset: DatasetName, config: ConfigFile) -> None:
    """Let an analyst ask a data set."""
    from discreet.cli import show
    from discreet.service.store import tokens

    with _open_store(config) as (settings, store):
        _require_dataset(settings, dataset)
        tokens.grant_dataset(store, dataset, analyst)
        now = time.time()
        has_token = any(token.analyst == analyst and token.is_valid(now) for token in tokens.list_tokens(store))
    show.print_screen(f"{analyst} may ask {dataset}{'' if has_token else ', but has no valid token yet'}.")


def run_token_ungrant(analyst: AnalystName, dataset: DatasetName, config: ConfigFile) -> None:
    """Let an analyst ask a data set no more."""
    from discreet.cli import show
    from discreet.service.store import tokens

    with _open_store(config) as (_, store):
        if (dataset, analyst) not in tokens.list_grants(store):
            raise InvalidInput(f"{analyst[:40]!r} may not ask {dataset[:40]!r} as it is; see: discreet token list")
        tokens.revoke_grant(store, dataset, analyst)
    show.print_screen(f"{analyst} may ask {dataset} no more.")


@contextmanager
def _open_store(file: str) -> Iterator[tuple[Config, Store]]:
    """A service's configuration and its store."""
    from discreet.service.config import read_config
    from discreet.service.store import Store

    config = read_config(file)
    with Store.open(config.store) as store:
        yield config, store


def _find_token_id(store: Store, prefix: str) -> str:
    """The id of the one token that is told of by it, or by how it begins."""
    from discreet.service.store.tokens import list_tokens

    ids = [candidate.id for candidate in list_tokens(store)]
    matches = [
        candidate
        for candidate in ids
        if candidate == prefix or (len(prefix) >= MIN_ID_LENGTH and candidate.startswith(prefix))
    ]
    if len(matches) > 1:
        raise InvalidInput(
            f"{len(matches)} tokens begin with {prefix[:40]!r}; give more of the id: discreet token list"
        )
    if not matches:
        raise InvalidInput(
            f"there is no token {prefix[:40]!r}; give its id, or {MIN_ID_LENGTH} signs or more of its beginning: "
            "discreet token list"
        )
    return matches[0]


def _require_dataset(config: Config, name: str) -> None:
    """The service has such a data set."""
    from discreet.schema import load_schema

    names = [load_schema(dataset.schema).name for dataset in config.datasets]
    if name not in names:
        raise InvalidInput(f"the service has no data set {name[:40]!r}; it has {', '.join(names)}")


def _token_to_json(token: Token) -> dict[str, object]:
    """A token without its secret, as the service tells it."""
    return token.to_json() | {"valid": token.is_valid(time.time())}


def _format_state(token: Token) -> str:
    if token.revoked is not None:
        return f"revoked {_format_time(token.revoked)}"
    return "valid" if token.is_valid(time.time()) else "expired"


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


TOKEN_COMMANDS: Mapping[str, Callable[..., None]] = {
    "create": run_token_create,
    "list": run_token_list,
    "revoke": run_token_revoke,
    "grant": run_token_grant,
    "ungrant": run_token_ungrant,
}
"""By the word they are called with."""
