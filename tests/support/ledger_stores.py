"""What the tests of the ledger share: a place for one on each engine, and requests that are quick to write."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import inspect, select

from discreet.ledger import Caps, Charge, Ledger, Receipt, accounts, budget_check, storage
from discreet.ledger.accounts import Terms
from discreet.ledger.charge import Model
from discreet.ledger.connect import open_database
from discreet.ledger.storage import METADATA, about
from discreet.ledger.storage import caps as recorded
from discreet.privacy.cost import PrivacyCost, SubAccount
from discreet.schema import Budget

DATASET = "census"
EVERY_MODEL = ("dp", "approx-dp", "individual-dp")
ENGINES = ["sqlite", pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))]

SCHEMAS = count()
"""Numbers of those in a PostgreSQL, none of which is made twice."""

processes = multiprocessing.get_context("forkserver")  # a plain fork would copy the threads' locks of this process
processes.set_forkserver_preload(["discreet.ledger.backup", "psycopg", "pytest", "sqlalchemy.dialects.sqlite.pysqlite"])


@pytest.fixture(params=ENGINES)
def ledger_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new, empty ledger."""
    return (
        str(tmp_path / "ledger.db")
        if request.param == "sqlite"
        else create_postgres_schema(request.getfixturevalue("postgres"))
    )


@pytest.fixture
def ledger(ledger_address: str) -> Iterator[Ledger]:
    """A ledger with one data set."""
    with Ledger.open(ledger_address) as new_ledger:
        new_ledger.register(DATASET, "0f", "s1", disjoint=False)
        yield new_ledger


def create_postgres_schema(dsn: str) -> str:
    """The address of a new schema in a PostgreSQL."""
    import psycopg

    name = f"ledger_{os.getpid()}_{next(SCHEMAS)}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    dsn_parts = dict(word.split("=", 1) for word in dsn.split())
    option = quote(f"-csearch_path={name}")
    host = quote(dsn_parts["host"], safe="")
    return f"postgresql://{dsn_parts['user']}@/{dsn_parts['dbname']}?host={host}&options={option}"


@pytest.fixture
def without_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charges are entered as before format 3: without the caps that they were admitted under."""
    monkeypatch.setattr(budget_check, "_record_terms", lambda _, head, *__: (head, {}))


@pytest.fixture
def without_models(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Terms are recorded as in format 3: without the models that a cap holds for."""
    from_first_cap, with_cap = Terms.from_first_cap, Terms.with_cap
    monkeypatch.setattr(Terms, "from_first_cap", staticmethod(lambda cap, _=None: from_first_cap(cap)))
    monkeypatch.setattr(Terms, "with_cap", lambda terms, cap, owner="", _=None, **__: with_cap(terms, cap, owner))
    monkeypatch.setattr(storage, "find_forgotten", lambda *_: PrivacyCost())
    monkeypatch.setattr(accounts, "find_enforced_models", lambda _: ())
    return monkeypatch


def make_format_3(ledger_address: str) -> None:
    """Give a ledger that was filled with the fixture `without_models` the format that it is in."""
    with Ledger.open(ledger_address) as ledger, ledger._database.begin_write() as connection:
        connection.exec_driver_sql("UPDATE ledger_version SET version_num = '3'")
        connection.exec_driver_sql("UPDATE ledger_about SET version = 3")


def make_format_1(ledger_address: str) -> None:
    """Give a ledger format 1, which knew of no versions or caps and had no index of its log."""
    with Ledger.open(ledger_address) as ledger, ledger._database.begin_write() as connection:
        assert not connection.execute(select(recorded)).all()  # fill it with the fixture `unrecorded`
        connection.exec_driver_sql("DROP TABLE ledger_caps")
        connection.exec_driver_sql("DROP INDEX ledger_log")
        connection.exec_driver_sql("DROP TABLE ledger_version")
        connection.exec_driver_sql("UPDATE ledger_about SET version = 1")


def fill_ledger(ledger: Ledger) -> None:
    """Enter a data set with every kind of entry, account and answer, and one without any."""
    limits = build_caps(10, delta="1e-6", models=EVERY_MODEL)
    ledger.register(DATASET, "0f", "s1", disjoint=False)
    charge_and_store(ledger, build_charge(1, key="k"), limits, '{"value": 7}')
    ledger.charge(build_charge(1, analyst="bob"), limits)
    charge_and_store(ledger, build_charge(1, "0.05", analyst="cat", degradable=True), limits, '{"value": 9}')
    charge_and_store(ledger, build_charge(2, part=SubAccount("partition", "north", 2)), limits, '{"value": "é"}')
    ledger.register(DATASET, "0f", "s2", disjoint=False)
    ledger.charge(build_charge(3, model="individual-dp", snapshot="s2", part=SubAccount("individual", "p1", 1)), limits)
    gaussian = PrivacyCost(gaussian_rho=Fraction(1, 1000), delta=Fraction(1, 10**9))
    ledger.charge(build_charge(4, model="approx-dp", spend=gaussian, snapshot="s2"), limits)
    ledger.release(DATASET, "s2", "a file", "{}")
    ledger.register("empty", "1f", "s1", disjoint=False)


def list_rows(ledger_address: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table of a ledger but what it says of its format."""
    with closing(open_database(ledger_address, 10)) as database, database.begin_read() as connection:
        present = inspect(connection).get_table_names()
        tables = [table for table in METADATA.sorted_tables if table is not about and table.name in present]
        return {table.name: sorted(map(tuple, connection.execute(select(table))), key=repr) for table in tables}


def build_caps(
    epsilon: object = 1, analyst: object = None, delta: object = 0, models: tuple[str, ...] = ("dp",)
) -> Caps:
    """Caps of a data set and, where it is smaller, of every analyst."""
    dataset_epsilon = Fraction(str(epsilon))
    analyst_epsilon = dataset_epsilon if analyst is None else Fraction(str(analyst))
    return Caps(Budget(dataset_epsilon, Fraction(str(delta))), Budget(analyst_epsilon, Fraction(str(delta))), models)


def build_pure_cost(epsilon: object) -> PrivacyCost:
    """What noise with a pure promise costs."""
    exact = Fraction(str(epsilon))
    return PrivacyCost(exact, exact**2 / 2)


def build_charge(
    question: object = "q",
    epsilon: object = "0.1",
    analyst: str = "ann",
    model: Model = "dp",
    spend: PrivacyCost | None = None,
    part: SubAccount | None = None,
    key: str | None = None,
    fresh: bool = False,
    snapshot: str = "s1",
    any_price: bool = False,
    degradable: bool = False,
) -> Charge:
    """A request; a pure one unless it says otherwise."""
    return Charge(
        dataset=DATASET,
        snapshot=snapshot,
        analyst=analyst,
        question=str(question),
        query=f"SELECT {question}",
        model=model,
        spend=build_pure_cost(epsilon) if spend is None else spend,
        epsilon=Fraction(str(epsilon)),
        part=part,
        key=key,
        fresh=fresh,
        any_price=any_price,
        degradable=degradable,
    )


def charge_and_store(ledger: Ledger, charge: Charge, limits: Caps, text: str) -> Receipt:
    """Pay for a draw and store it."""
    receipt = ledger.charge(charge, limits)
    ledger.store(DATASET, receipt.entry, text)
    return receipt


def list_spent(ledger: Ledger, limits: Caps, analyst: str | None = None) -> dict[str, Fraction | None]:
    """The epsilon spent in every model."""
    return {balance.model: balance.epsilon for balance in ledger.balance(DATASET, limits, analyst)}
