"""`discreet token`: who may use a service, and which data sets they may ask."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options import Json, printable
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
Granted = Annotated[
    list[str] | None, typer.Option("--dataset", metavar="D", help="A data set that she may ask; repeatable.")
]
TokenId = Annotated[
    str, typer.Argument(metavar="ID", help="The token's id, as listed, or how it begins.", show_default=False)
]
Whose = Annotated[str, typer.Argument(metavar="ANALYST", help="Who may ask.", show_default=False)]
What = Annotated[str, typer.Argument(metavar="DATASET", help="The data set's name.", show_default=False)]

SHORTEST_ID = 8
"""Signs of an id's beginning, at least, that stand for it where no other begins so."""


def create(
    config: ConfigFile,
    analyst: Analyst,
    role: Role = "analyst",
    days: Days = 30,
    dataset: Granted = None,
    json: Json = False,
) -> None:
    """Make a token and print it: this once, for only its hash is kept."""
    from discreet.cli import show
    from discreet.service.store.tokens import create_token

    with _opened(config) as (read, store):
        for name in dataset or ():
            _require(read, name)
        made, told = create_token(store, analyst, role, days, tuple(dataset or ()))
    if json:
        show.document(_to_json(made) | {"token": told})
    else:
        print(told)
        said = f"Token {made.id} of {made.analyst}, {made.role}, is good until {_day(made.expires)}."
        print(printable(said), "It is shown this once.", file=sys.stderr)


def listing(config: ConfigFile, json: Json = False) -> None:
    """Show every token there ever was, without its secret, and who may ask what."""
    from discreet.cli import show
    from discreet.service.store.tokens import all_grants, all_tokens

    with _opened(config) as (_, store):
        tokens, grants = all_tokens(store), all_grants(store)
    if json:
        granted = [{"dataset": dataset, "analyst": analyst} for dataset, analyst in grants]
        show.document({"tokens": [_to_json(one) for one in tokens], "grants": granted})
        return
    made = show.table("id", "analyst", "role", "created", "good until", "state")
    for one in tokens:
        cells = one.id, one.analyst, one.role, _day(one.created), _day(one.expires), _state(one)
        made.add_row(*map(show.text, cells))
    show.screen(made, "", *(f"{analyst} may ask {dataset}" for dataset, analyst in grants))


def revoke(token: TokenId, config: ConfigFile) -> None:
    """End a token, and every console session that it opened, at once."""
    from discreet.cli import show
    from discreet.service.store.tokens import revoke_token

    with _opened(config) as (_, store):
        found = _begun(store, token)
        revoke_token(store, found)
    show.screen(f"Token {found} is revoked.")


def grant(analyst: Whose, dataset: What, config: ConfigFile) -> None:
    """Let an analyst ask a data set."""
    from discreet.cli import show
    from discreet.service.store import tokens

    with _opened(config) as (read, store):
        _require(read, dataset)
        tokens.grant(store, dataset, analyst)
        now = time.time()
        known = any(one.analyst == analyst and one.valid(now) for one in tokens.all_tokens(store))
    show.screen(f"{analyst} may ask {dataset}{'' if known else ', but has no valid token yet'}.")


def ungrant(analyst: Whose, dataset: What, config: ConfigFile) -> None:
    """Let an analyst ask a data set no more."""
    from discreet.cli import show
    from discreet.service.store import tokens

    with _opened(config) as (_, store):
        if (dataset, analyst) not in tokens.all_grants(store):
            raise InvalidInput(f"{analyst[:40]!r} may not ask {dataset[:40]!r} as it is; see: discreet token list")
        tokens.ungrant(store, dataset, analyst)
    show.screen(f"{analyst} may ask {dataset} no more.")


@contextmanager
def _opened(file: str) -> Iterator[tuple[Config, Store]]:
    """A service's configuration and its store."""
    from discreet.service.config import read_config
    from discreet.service.store import Store

    config = read_config(file)
    with Store.open(config.store) as store:
        yield config, store


def _begun(store: Store, told: str) -> str:
    """The id of the one token that is told of by it, or by how it begins."""
    from discreet.service.store.tokens import all_tokens

    ids = [one.id for one in all_tokens(store)]
    found = [one for one in ids if one == told or (len(told) >= SHORTEST_ID and one.startswith(told))]
    if len(found) > 1:
        raise InvalidInput(f"{len(found)} tokens begin with {told[:40]!r}; give more of the id: discreet token list")
    if not found:
        raise InvalidInput(
            f"there is no token {told[:40]!r}; give its id, or {SHORTEST_ID} signs or more of its beginning: "
            "discreet token list"
        )
    return found[0]


def _require(config: Config, name: str) -> None:
    """The service has such a data set."""
    from discreet.schema import load_schema

    names = [load_schema(one.schema).name for one in config.datasets]
    if name not in names:
        raise InvalidInput(f"the service has no data set {name[:40]!r}; it has {', '.join(names)}")


def _to_json(token: Token) -> dict[str, object]:
    """A token without its secret, as the service tells it."""
    return token.to_json() | {"valid": token.valid(time.time())}


def _state(token: Token) -> str:
    if token.revoked is not None:
        return f"revoked {_day(token.revoked)}"
    return "valid" if token.valid(time.time()) else "expired"


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


COMMANDS: Mapping[str, Callable[..., None]] = {
    "create": create,
    "list": listing,
    "revoke": revoke,
    "grant": grant,
    "ungrant": ungrant,
}
"""By the word they are called with."""
