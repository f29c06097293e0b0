"""Tokens, grants and console sessions. A secret is told once and never kept: its hash is."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, delete, insert, select, union, update
from sqlalchemy import text as sql

from discreet.custodian.secrets import identifier, secret
from discreet.errors import InvalidInput
from discreet.service.names import check_name, require_apart, skeleton
from discreet.service.store.putting import put_new
from discreet.service.store.store import Store
from discreet.service.store.tables import grants, sessions, tokens
from discreet.spend import text

Role = Literal["analyst", "custodian"]
ROLES: tuple[Role, ...] = ("analyst", "custodian")
PREFIX = "dsc_"
MOST_DAYS = 366
SIGNED_IN = 12 * 3600.0
DAY = 86_400.0
LONGEST_NAME = 100
RELEASES = "custodian"
"""The account that released files are paid from."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token, without its secret."""

    id: str
    analyst: str
    role: Role
    created: float
    expires: float
    revoked: float | None

    def to_json(self) -> dict[str, object]:
        """As it is kept and told."""
        told: dict[str, object] = {"id": self.id, "analyst": self.analyst, "role": self.role, "created": self.created}
        return told | {"expires": self.expires, "revoked": self.revoked}

    def valid(self, now: float) -> bool:
        """Whether it still opens anything."""
        return self.revoked is None and now < self.expires


def create_token(
    store: Store, analyst: str, role: str, days: float = 30, datasets: tuple[str, ...] = (), id: str | None = None
) -> tuple[Token, str]:
    """A new token, and its secret, which nobody can be told again; granted the data sets that are named.

    One form is one token: it gives the token's `id`, and sent again it is refused.
    """
    named = analyst_name(analyst)
    if role not in ROLES:
        raise InvalidInput(f"a role is one of {', '.join(ROLES)}, got {role[:40]!r}")
    if role == "analyst" and skeleton(named) == skeleton(RELEASES):
        raise InvalidInput(f"released files are paid from the account {RELEASES!r}; give the analyst another name")
    if not 0 < days <= MOST_DAYS:
        raise InvalidInput(f"a token is good for more than 0 and at most {MOST_DAYS} days; make a new one after that")
    told = PREFIX + secret(32)
    now = time.time()
    made = Token(id or identifier(), named, role, now, now + days * DAY, None)
    with store.database.writing() as connection:
        _lock(connection)
        _require_apart(connection, named)
        _require_new(connection, made.id)
        _require_role(connection, made)
        connection.execute(insert(tokens), made.to_json() | {"hash": hashed(told)})
        for dataset in sorted(datasets):
            put_new(connection, grants, {"dataset": dataset, "analyst": named})
    return made, told


def _lock(connection: Connection) -> None:
    """Let nobody else make or revoke tokens until the transaction ends; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sql("LOCK TABLE service_tokens IN SHARE ROW EXCLUSIVE MODE"))


def _require_apart(connection: Connection, named: str) -> None:
    """Refuse a new name that looks like one that has, or had, a token or a grant, or that is hard to read."""
    others = set(connection.execute(union(select(tokens.c.analyst), select(grants.c.analyst))).scalars())
    if named not in others:
        check_name(named, "the analyst's name")
        require_apart(named, sorted(others), "the analyst's name")


def _require_new(connection: Connection, made: str) -> None:
    if connection.execute(select(tokens.c.id).where(tokens.c.id == made)).one_or_none() is not None:
        raise InvalidInput("this token was made already, and its secret is shown only once; make another if it is lost")


def _require_role(connection: Connection, made: Token) -> None:
    """A name has one role for good: what is whose is told by names."""
    others = select(tokens.c.id).where(tokens.c.analyst == made.analyst, tokens.c.role != made.role)
    if connection.execute(others.limit(1)).one_or_none() is not None:
        has = next(role for role in ROLES if role != made.role)
        raise InvalidInput(
            f"{made.analyst[:40]!r} has, or had, a token as {has}, and a name has one role; use another name"
        )


def analyst_name(name: str) -> str:
    """A name that an account can have."""
    text(name, "the analyst's name", LONGEST_NAME)
    if not name.isprintable() or name != name.strip() or "/" in name:
        raise InvalidInput("an analyst's name is printable, without a / and without spaces at its ends")
    return name


def all_tokens(store: Store) -> list[Token]:
    """Every token there ever was, the newest first."""
    with store.database.reading() as connection:
        found = connection.execute(select(tokens).order_by(tokens.c.created.desc(), tokens.c.id)).all()
    return [_token(row) for row in found]


def revoke_token(store: Store, token: str, spare_last: bool = False) -> bool:
    """End a token, and every console session it opened, at once; False where there is no such token.

    With `spare_last` the last valid token of a custodian is refused: nobody could make another over HTTP.
    """
    with store.database.writing() as connection:
        if spare_last:
            _lock(connection)
            _require_other(connection, token)
        connection.execute(delete(sessions).where(sessions.c.token == token))
        found = connection.execute(select(tokens.c.id).where(tokens.c.id == token)).one_or_none()
        ending = update(tokens).where(tokens.c.id == token, tokens.c.revoked.is_(None))
        connection.execute(ending, {"revoked": time.time()})
    return found is not None


def _require_other(connection: Connection, token: str) -> None:
    """Refuse where no custodian would have a valid token left."""
    keepers = tokens.c.role == "custodian", tokens.c.revoked.is_(None), tokens.c.expires > time.time()
    if list(connection.execute(select(tokens.c.id).where(*keepers)).scalars()) == [token]:
        raise InvalidInput("this is the last custodian's token; make another first")


def token_of(store: Store, told: str) -> Token | None:
    """The valid token that a secret belongs to."""
    with store.database.reading() as connection:
        row = connection.execute(select(tokens).where(tokens.c.hash == hashed(told))).one_or_none()
    return _if_valid(row)


def token_in_session(store: Store, cookie: str) -> Token | None:
    """The valid token that a browser signed in with."""
    now = time.time()
    joined = select(tokens).join(sessions, sessions.c.token == tokens.c.id)
    with store.database.reading() as connection:
        asked = joined.where(sessions.c.hash == hashed(cookie), sessions.c.expires > now)
        row = connection.execute(asked).one_or_none()
    return _if_valid(row)


def sign_in(store: Store, token: Token) -> str:
    """A new console session; the secret for its cookie."""
    told, now = secret(32), time.time()
    with store.database.writing() as connection:
        connection.execute(delete(sessions).where(sessions.c.expires < now))
        ends = min(token.expires, now + SIGNED_IN)
        connection.execute(insert(sessions), {"hash": hashed(told), "token": token.id, "expires": ends})
    return told


def sign_out(store: Store, cookie: str) -> None:
    """End a console session."""
    with store.database.writing() as connection:
        connection.execute(delete(sessions).where(sessions.c.hash == hashed(cookie)))


def grant(store: Store, dataset: str, analyst: str) -> None:
    """Let an analyst ask a data set; once more changes nothing."""
    named = analyst_name(analyst)
    with store.database.writing() as connection:
        _lock(connection)
        _require_apart(connection, named)
        put_new(connection, grants, {"dataset": dataset, "analyst": named})


def ungrant(store: Store, dataset: str, analyst: str) -> None:
    """Let an analyst ask a data set no more."""
    named = analyst_name(analyst)
    with store.database.writing() as connection:
        connection.execute(delete(grants).where(grants.c.dataset == dataset, grants.c.analyst == named))


def all_grants(store: Store) -> list[tuple[str, str]]:
    """Every data set with every analyst who may ask it."""
    with store.database.reading() as connection:
        found = connection.execute(select(grants.c.dataset, grants.c.analyst)).all()
    return sorted((row.dataset, row.analyst) for row in found)


def granted(store: Store, analyst: str) -> frozenset[str]:
    """The data sets that an analyst may ask."""
    with store.database.reading() as connection:
        return frozenset(connection.execute(select(grants.c.dataset).where(grants.c.analyst == analyst)).scalars())


def hashed(told: str) -> str:
    """What is kept of a secret of 256 bits, which no dictionary has."""
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def form_token(cookie: str) -> str:
    """What a page of ours must send back beside the cookie; no other site can know it."""
    return hashlib.sha256(b"form\0" + cookie.encode("utf-8", "surrogatepass")).hexdigest()


def _if_valid(row: Row[Any] | None) -> Token | None:
    found = None if row is None else _token(row)
    return found if found is not None and found.valid(time.time()) else None


def _token(row: Row[Any]) -> Token:
    return Token(row.id, row.analyst, row.role, row.created, row.expires, row.revoked)
