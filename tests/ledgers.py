"""What the tests of the ledger share: a place for one on each engine, and requests that are quick to write."""

from __future__ import annotations

import multiprocessing
import uuid
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from urllib.parse import quote

import pytest

from discreet.ledger import Caps, Charge, Ledger, Receipt
from discreet.ledger.charge import Model
from discreet.schema import Budget
from discreet.spend import Part, Spend

DATASET = "census"
EVERY = ("dp", "approx-dp", "individual-dp")
ENGINES = ["sqlite", pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))]

processes = multiprocessing.get_context("forkserver")  # a plain fork would copy the threads' locks of this process
processes.set_forkserver_preload(["discreet.ledger", "psycopg", "pytest", "sqlalchemy.dialects.sqlite.pysqlite"])


@pytest.fixture(params=ENGINES)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new, empty ledger."""
    return str(tmp_path / "ledger.db") if request.param == "sqlite" else schema_of(request.getfixturevalue("postgres"))


@pytest.fixture
def ledger(where: str) -> Iterator[Ledger]:
    """A ledger with one data set."""
    with Ledger.open(where) as opened:
        opened.register(DATASET, "0f", "s1", disjoint=False)
        yield opened


def schema_of(dsn: str) -> str:
    """The address of a new schema in a PostgreSQL."""
    import psycopg

    name = f"ledger_{uuid.uuid4().hex}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    told = dict(word.split("=", 1) for word in dsn.split())
    option = quote(f"-csearch_path={name}")
    return f"postgresql://{told['user']}@/{told['dbname']}?host={quote(told['host'], safe='')}&options={option}"


def caps(epsilon: object = 1, analyst: object = None, delta: object = 0, models: tuple[str, ...] = ("dp",)) -> Caps:
    """Caps of a data set and, where it is smaller, of every analyst."""
    whole = Fraction(str(epsilon))
    own = whole if analyst is None else Fraction(str(analyst))
    return Caps(Budget(whole, Fraction(str(delta))), Budget(own, Fraction(str(delta))), models)


def pure(epsilon: object) -> Spend:
    """What noise with a pure promise costs."""
    exact = Fraction(str(epsilon))
    return Spend(exact, exact**2 / 2)


def ask(
    question: object = "q",
    epsilon: object = "0.1",
    analyst: str = "ann",
    model: Model = "dp",
    spend: Spend | None = None,
    part: Part | None = None,
    key: str | None = None,
    fresh: bool = False,
    snapshot: str = "s1",
) -> Charge:
    """A request; a pure one unless it says otherwise."""
    cost = pure(epsilon) if spend is None else spend
    asked = Fraction(str(epsilon))
    return Charge(DATASET, snapshot, analyst, str(question), f"SELECT {question}", model, cost, asked, part, key, fresh)


def answered(ledger: Ledger, charge: Charge, limits: Caps, text: str) -> Receipt:
    """Pay for a draw and store it."""
    receipt = ledger.charge(charge, limits)
    ledger.store(DATASET, receipt.entry, text)
    return receipt


def spent_of(ledger: Ledger, limits: Caps, analyst: str | None = None) -> dict[str, Fraction | None]:
    """The epsilon spent in every model."""
    return {balance.model: balance.epsilon for balance in ledger.balance(DATASET, limits, analyst)}
