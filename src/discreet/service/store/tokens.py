"""Tokens, grants and console sessions, and the check that names cannot be confused.

Grants and charges belong to names, so a name that looks like another's would get that person's grants or blame.
"""

from __future__ import annotations

import hashlib
import time
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, Row, delete, insert, select, union, update
from sqlalchemy import text as sql

from discreet.datasets.dataset_dir import generate_identifier, generate_secret
from discreet.errors import InvalidInput
from discreet.json_fields import JsonWritable
from discreet.privacy.cost import require_storable_text
from discreet.service.store.store import Store, console_sessions, grants, insert_if_absent, tokens
from discreet.suggestions import build_choice_error

BLANK_CHARACTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | set(map(chr, range(0xFE00, 0xFE10)))
"""Letters and marks that are drawn as nothing; control and format characters have categories of their own."""
INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
COMPATIBLE_SCRIPTS = ({"CJK", "HIRAGANA", "KATAKANA"}, {"CJK", "HANGUL"}, {"CJK", "BOPOMOFO"})
"""Scripts that one language writes side by side."""
LOOKALIKES = str.maketrans(
    "01|" + "авезіјкмнорсԁтухѕһԛԝӏ" + "αβεικνοργτυχκ",
    "ol" + "l" + "abe3ijkmhopcdtyxshqwl" + "abeiknopytuxk",
)
"""Digits and letters of other scripts that are drawn as a Latin letter, after case folding."""
Role = Literal["analyst", "custodian"]
ROLES: tuple[Role, ...] = ("analyst", "custodian")
TOKEN_PREFIX = "dsc_"
MAX_TOKEN_DAYS = 366
SIGN_IN_SECONDS = 12 * 3600.0
SECONDS_PER_DAY = 86_400.0
MAX_NAME_LENGTH = 100
RELEASE_ACCOUNT = "custodian"
"""The account that released files are paid from."""
TOKEN_EXISTS = "this token was made already, and its secret is shown only once; make another if it is lost"


def check_readable_name(name: str, what: str) -> None:
    """Refuse a name with invisible characters, or with letters of several scripts."""
    if any(
        character in BLANK_CHARACTERS or unicodedata.category(character) in INVISIBLE_CATEGORIES for character in name
    ):
        raise InvalidInput(
            f"{what} holds a character that cannot be seen; use letters, digits, spaces and punctuation, and type the "
            "name instead of copying it"
        )
    scripts = {
        unicodedata.name(character, "").partition(" ")[0]
        for character in unicodedata.normalize("NFKC", name)
        if unicodedata.category(character) in {"Lu", "Ll", "Lt", "Lo"}
    }
    if len(scripts) > 1 and not any(scripts <= script_set for script_set in COMPATIBLE_SCRIPTS):
        script_names = " and ".join(sorted(script.capitalize() for script in scripts))
        raise InvalidInput(
            f"{what} mixes letters of {script_names}; use the letters of one script, as the person writes it"
        )


def compute_name_skeleton(name: str) -> str:
    """Reduce a name to what it looks like: without case, width, accents, invisible characters and lookalikes."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    visible_text = "".join(
        str(unicodedata.digit(character, character))
        for character in plain
        if character not in BLANK_CHARACTERS
        and unicodedata.category(character) not in INVISIBLE_CATEGORIES
        and not unicodedata.combining(character)
    )
    return " ".join(visible_text.translate(LOOKALIKES).split())


def require_distinct_name(name: str, others: Iterable[str], what: str) -> None:
    """Refuse a name that looks like another one; the same name is allowed."""
    own_skeleton = compute_name_skeleton(name)
    lookalike = next(
        (other for other in others if other != name and compute_name_skeleton(other) == own_skeleton), None
    )
    if lookalike is not None:
        raise InvalidInput(
            f"{what} {name[:40]!r} looks like {lookalike[:40]!r}, which there is already; use that spelling if it is "
            "the same, else a name that differs in more than case, accents or letters that look alike"
        )


@dataclass(frozen=True, slots=True)
class Token(JsonWritable):
    """One token, without its secret."""

    id: str
    analyst: str
    role: Role
    created: float
    expires: float
    revoked: float | None

    _json_fields = "id analyst role created expires revoked"

    def is_valid(self, now: float) -> bool:
        """Whether it still opens anything."""
        return self.revoked is None and now < self.expires


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request by a token; `cookie` where a browser is signed in."""

    token: Token
    cookie: str | None = None

    @property
    def name(self) -> str:
        """The account that pays."""
        return self.token.analyst

    @property
    def is_custodian(self) -> bool:
        """Whether the sender may use the custodian's routes."""
        return self.token.role == "custodian"


def token_to_json(token: Token) -> dict[str, object]:
    """Write a token as JSON, with whether it is valid now, without its secret."""
    return token.to_json() | {"valid": token.is_valid(time.time())}


def create_token(
    store: Store, analyst: str, role: str, days: float = 30, datasets: tuple[str, ...] = (), id: str | None = None
) -> tuple[Token, str]:
    """Make a token and its secret, which is shown only once, and grant the data sets that are named.

    A form gives the token's `id`, so that the same form sent again is refused.
    """
    account_name = check_analyst_name(analyst)
    if role not in ROLES:
        raise build_choice_error("the role", role, ROLES)
    if role == "analyst" and compute_name_skeleton(account_name) == compute_name_skeleton(RELEASE_ACCOUNT):
        raise InvalidInput(
            f"released files are paid from the account {RELEASE_ACCOUNT!r}; give the analyst another name"
        )
    if not 0 < days <= MAX_TOKEN_DAYS:
        raise InvalidInput(
            f"a token is good for more than 0 and at most {MAX_TOKEN_DAYS} days; make a new one after that"
        )
    token_secret = TOKEN_PREFIX + generate_secret(32)
    now = time.time()
    token = Token(id or generate_identifier(), account_name, role, now, now + days * SECONDS_PER_DAY, None)
    with store.database.begin_write() as connection:
        _lock_tokens(connection)
        _require_distinct_analyst(connection, account_name)
        if connection.execute(select(tokens.c.id).where(tokens.c.id == token.id)).one_or_none() is not None:
            raise InvalidInput(TOKEN_EXISTS)
        _require_role(connection, token)
        connection.execute(insert(tokens), token.to_json() | {"hash": hash_secret(token_secret)})
        for dataset in sorted(datasets):
            insert_if_absent(connection, grants, {"dataset": dataset, "analyst": account_name})
    return token, token_secret


def _lock_tokens(connection: Connection) -> None:
    """Let nobody else make or revoke tokens until the transaction ends; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sql("LOCK TABLE service_tokens IN SHARE ROW EXCLUSIVE MODE"))


def _require_distinct_analyst(connection: Connection, account_name: str) -> None:
    """Refuse a new name that looks like one that has, or had, a token or a grant, or that is hard to read."""
    others = set(connection.execute(union(select(tokens.c.analyst), select(grants.c.analyst))).scalars())
    if account_name not in others:
        check_readable_name(account_name, "the analyst's name")
        require_distinct_name(account_name, sorted(others), "the analyst's name")


def _require_role(connection: Connection, token: Token) -> None:
    """A name has one role for good, since grants and charges belong to names."""
    others = select(tokens.c.id).where(tokens.c.analyst == token.analyst, tokens.c.role != token.role)
    if connection.execute(others.limit(1)).one_or_none() is not None:
        other_role = next(role for role in ROLES if role != token.role)
        raise InvalidInput(
            f"{token.analyst[:40]!r} has, or had, a token as {other_role}, and a name has one role; use another name"
        )


def check_analyst_name(name: str) -> str:
    """Refuse a name that no account can have."""
    require_storable_text(name, "the analyst's name", MAX_NAME_LENGTH)
    if not name.isprintable() or name != name.strip() or "/" in name:
        raise InvalidInput("an analyst's name is printable, without a / and without spaces at its ends")
    return name


def list_tokens(store: Store) -> list[Token]:
    """List every token there ever was, the newest first."""
    with store.database.begin_read() as connection:
        rows = connection.execute(select(tokens).order_by(tokens.c.created.desc(), tokens.c.id)).all()
    return [_token_from_row(row) for row in rows]


def revoke_token(store: Store, token_id: str, spare_last: bool = False) -> bool:
    """Revoke a token, and end every console session it opened, at once; False where there is no such token.

    With `spare_last` the last valid token of a custodian is refused: nobody could make another over HTTP.
    """
    with store.database.begin_write() as connection:
        if spare_last:
            _lock_tokens(connection)
            _require_other_custodian(connection, token_id)
        connection.execute(delete(console_sessions).where(console_sessions.c.token == token_id))
        row = connection.execute(select(tokens.c.id).where(tokens.c.id == token_id)).one_or_none()
        revocation = update(tokens).where(tokens.c.id == token_id, tokens.c.revoked.is_(None))
        connection.execute(revocation, {"revoked": time.time()})
    return row is not None


def _require_other_custodian(connection: Connection, token_id: str) -> None:
    valid_custodian = tokens.c.role == "custodian", tokens.c.revoked.is_(None), tokens.c.expires > time.time()
    if list(connection.execute(select(tokens.c.id).where(*valid_custodian)).scalars()) == [token_id]:
        raise InvalidInput("this is the last custodian's token; make another first")


def find_token(store: Store, token_secret: str) -> Token | None:
    """Find the valid token that a secret belongs to."""
    with store.database.begin_read() as connection:
        row = connection.execute(select(tokens).where(tokens.c.hash == hash_secret(token_secret))).one_or_none()
    return _read_valid_token(row)


def find_session_token(store: Store, cookie: str) -> Token | None:
    """Find the valid token that a browser signed in with."""
    now = time.time()
    joined = select(tokens).join(console_sessions, console_sessions.c.token == tokens.c.id)
    with store.database.begin_read() as connection:
        query = joined.where(console_sessions.c.hash == hash_secret(cookie), console_sessions.c.expires > now)
        row = connection.execute(query).one_or_none()
    return _read_valid_token(row)


def sign_in(store: Store, token: Token) -> str:
    """Open a console session; return the secret for its cookie."""
    cookie, now = generate_secret(32), time.time()
    with store.database.begin_write() as connection:
        connection.execute(delete(console_sessions).where(console_sessions.c.expires < now))
        ends = min(token.expires, now + SIGN_IN_SECONDS)
        connection.execute(insert(console_sessions), {"hash": hash_secret(cookie), "token": token.id, "expires": ends})
    return cookie


def sign_out(store: Store, cookie: str) -> None:
    """End a console session."""
    with store.database.begin_write() as connection:
        connection.execute(delete(console_sessions).where(console_sessions.c.hash == hash_secret(cookie)))


def grant_dataset(store: Store, dataset: str, analyst: str) -> None:
    """Let an analyst ask a data set; a second time changes nothing."""
    account_name = check_analyst_name(analyst)
    with store.database.begin_write() as connection:
        _lock_tokens(connection)
        _require_distinct_analyst(connection, account_name)
        insert_if_absent(connection, grants, {"dataset": dataset, "analyst": account_name})


def revoke_grant(store: Store, dataset: str, analyst: str) -> None:
    """Let an analyst ask a data set no more."""
    account_name = check_analyst_name(analyst)
    with store.database.begin_write() as connection:
        connection.execute(delete(grants).where(grants.c.dataset == dataset, grants.c.analyst == account_name))


def list_grants(store: Store) -> list[tuple[str, str]]:
    """List every data set with every analyst who may ask it."""
    with store.database.begin_read() as connection:
        rows = connection.execute(select(grants.c.dataset, grants.c.analyst)).all()
    return sorted((row.dataset, row.analyst) for row in rows)


def list_granted_datasets(store: Store, analyst: str) -> frozenset[str]:
    """List the data sets that an analyst may ask."""
    with store.database.begin_read() as connection:
        return frozenset(connection.execute(select(grants.c.dataset).where(grants.c.analyst == analyst)).scalars())


def hash_secret(token_secret: str) -> str:
    """Hash a secret; plain SHA-256 is enough for 256 random bits, which no dictionary has."""
    return hashlib.sha256(token_secret.encode("utf-8", "surrogatepass")).hexdigest()


def derive_form_token(cookie: str) -> str:
    """Derive what a page of ours must send back beside the cookie; no other site can know it."""
    return hashlib.sha256(b"form\0" + cookie.encode("utf-8", "surrogatepass")).hexdigest()


def _read_valid_token(row: Row[tuple[object, ...]] | None) -> Token | None:
    token = None if row is None else _token_from_row(row)
    return token if token is not None and token.is_valid(time.time()) else None


def _token_from_row(row: Row[tuple[object, ...]]) -> Token:
    return Token(row.id, row.analyst, row.role, row.created, row.expires, row.revoked)
