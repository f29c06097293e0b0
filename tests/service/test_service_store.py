"""The service's store: its tables, its tokens, and what it keeps once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import create_engine, insert, inspect, select, update

from discreet.errors import InvalidInput, Unavailable
from discreet.ledger.connect import RecordedHead
from discreet.service.store import Store
from discreet.service.store import store as tables
from discreet.service.store.job_queue import (
    DEAD_AFTER,
    Job,
    abandon_job,
    add_job,
    find_job_by_id,
    finish_job,
    list_dead_jobs,
    renew_job,
    requeue_job,
    take_job,
)
from discreet.service.store.store import (
    METADATA,
    VERSION_TABLE,
    CounterBuffer,
    StoreHeads,
    acquire_advisory_lock,
    insert_if_absent,
    jobs,
    read_counters,
    tokens,
)
from discreet.service.store.stored_answers import (
    SavedPrior,
    StoredAnswer,
    find_answer_by_key,
    keep_answer,
    list_saved_priors,
    save_prior,
)
from discreet.service.store.tokens import (
    create_token,
    find_session_token,
    find_token,
    grant_dataset,
    list_granted_datasets,
    list_tokens,
    revoke_grant,
    revoke_token,
    sign_in,
    sign_out,
)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address with no store yet."""
    if request.param == "sqlite":
        return str(tmp_path / "service.db")
    return _fresh_database(request.getfixturevalue("postgres"), tmp_path.name)


@pytest.fixture
def store(where: str) -> Iterator[Store]:
    with Store.open(where) as opened:
        yield opened


def _fresh_database(dsn: str, name: str) -> str:
    import psycopg

    parts = dict(part.split("=", 1) for part in dsn.split())
    signs = "".join(sign for sign in name if sign.isalnum()).lower()[-40:]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE store_{signs}")
    return f"postgresql:///store_{signs}?host={parts['host']}&user={parts['user']}"


def test_what_fails_is_called_by_its_name(tmp_path: Path) -> None:
    """It is no ledger: whoever reads the refusal looks in the right place."""
    (tmp_path / "other.db").write_text("not a database, but long enough to be looked at" * 30)
    with pytest.raises(Unavailable, match="the service's store is damaged"):
        Store.open(tmp_path / "other.db")
    with pytest.raises(Unavailable, match="the service's store cannot be opened"):
        Store.open(tmp_path / "nowhere" / "service.db")
    with Store.open(tmp_path / "one.db", timeout=0.1) as store:
        locked = pytest.raises(Unavailable, match="the service's store stays locked")
        with store.database.begin_write(), locked, store.non_durable.begin_write():
            pass
        with pytest.raises(Unavailable, match="the source is away"), store.database.begin_read():
            raise Unavailable("the source is away")


def test_the_versions_lead_to_the_tables_that_are_used(store: Store) -> None:
    """What Alembic's versions make, and what the code expects, are the same: columns, keys, indices."""
    with store.database.begin_read() as connection:
        inspector = inspect(connection)
        assert set(inspector.get_table_names()) - {VERSION_TABLE} == set(METADATA.tables)
        for name, table in METADATA.tables.items():
            columns = {one["name"]: (str(one["type"]), one["nullable"]) for one in inspector.get_columns(name)}
            types = {one.name: (str(one.type.compile(connection.dialect)), one.nullable) for one in table.columns}
            assert columns == types, name
            assert inspector.get_pk_constraint(name)["constrained_columns"] == [one.name for one in table.primary_key]
            ours = {(str(one.name), tuple(column.name for column in one.columns), one.unique) for one in table.indexes}
            theirs = {
                (str(one["name"]), tuple(one["column_names"]), bool(one["unique"]))
                for one in inspector.get_indexes(name)
            }
            assert ours <= theirs, name


def test_a_second_opening_changes_nothing(store: Store, where: str) -> None:
    token, _ = create_token(store, "ann", "analyst")
    with Store.open(where) as again:
        assert list_tokens(again) == [token]


def test_a_token_is_kept_as_its_hash_alone(store: Store) -> None:
    _, secret = create_token(store, "ann", "analyst")
    with store.database.begin_read() as connection:
        rows = [str(row) for table in METADATA.tables.values() for row in connection.execute(select(table))]
    assert not [row for row in rows if secret in row or secret.removeprefix("dsc_") in row]
    token = find_token(store, secret)
    assert token is not None
    assert (token.analyst, token.role) == ("ann", "analyst")


def test_unknown_expired_and_revoked_tokens_open_nothing(store: Store) -> None:
    first, secret = create_token(store, "ann", "analyst")
    _, other = create_token(store, "bob", "analyst")
    assert find_token(store, secret + "x") is None
    assert revoke_token(store, first.id)
    assert find_token(store, secret) is None
    with store.database.begin_write() as connection:
        connection.execute(update(tokens).values(expires=time.time() - 1))
    assert find_token(store, other) is None
    assert not revoke_token(store, "none")


def test_a_console_session_ends_with_its_token(store: Store) -> None:
    token, _ = create_token(store, "ann", "analyst")
    cookies = [sign_in(store, token) for _ in range(2)]
    assert [find_session_token(store, one) == token for one in cookies] == [True, True]
    sign_out(store, cookies[0])
    assert find_session_token(store, cookies[0]) is None
    revoke_token(store, token.id)
    assert find_session_token(store, cookies[1]) is None


def test_grants(store: Store) -> None:
    for _ in range(2):
        grant_dataset(store, "registry", "ann")
    assert list_granted_datasets(store, "ann") == {"registry"}
    revoke_grant(store, "registry", "ann")
    assert list_granted_datasets(store, "ann") == frozenset()


@pytest.mark.parametrize("name", ["", " ann", "a/b", "a\nb", "x" * 101])
def test_names_that_no_account_can_have_are_refused(tmp_path: Path, name: str) -> None:
    with Store.open(tmp_path / "s.db") as store, pytest.raises(InvalidInput):
        create_token(store, name, "analyst")


def test_the_first_answer_under_a_key_wins(store: Store) -> None:
    items = [StoredAnswer(str(at), "registry", False, "ann", "k", "{}", 1, 1.0, "{}", None) for at in range(2)]
    assert [keep_answer(store, one).id for one in items] == ["0", "0"]
    stored_answer = find_answer_by_key(store, "registry", False, "ann", "k")
    assert stored_answer == items[0]
    assert find_answer_by_key(store, "registry", True, "ann", "k") is None
    assert find_answer_by_key(store, "registry", False, "bob", "k") is None


def test_priors_are_their_analysts_own_and_not_endless(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.service.store.stored_answers.MAX_PRIORS", 2)
    for name in ("a", "b", "a"):
        save_prior(store, "ann", SavedPrior(name, "normal(1, 2)", ""))
    with pytest.raises(InvalidInput):
        save_prior(store, "ann", SavedPrior("c", "normal(1, 2)", ""))
    assert [one.name for one in list_saved_priors(store, "ann")] == ["a", "b"]
    assert list_saved_priors(store, "bob") == []


def test_counts_of_several_workers_add_up(store: Store) -> None:
    workers = [CounterBuffer(store) for _ in range(2)]
    for worker in workers:
        worker.add("requests", "GET /health 200")
        worker.add("requests", "GET /health 200")
        worker.write()
        worker.write()
    assert read_counters(store)["requests", "GET /health 200"][0] == 4


def test_a_job_is_run_once_and_by_another_where_its_runner_died(store: Store) -> None:
    job = Job("j", "ask", "registry", False, "ann", "k", "{}", 0.5, time.time())
    assert add_job(store, job) == add_job(store, job) == job
    taken = take_job(store, "one")
    assert taken is not None
    assert take_job(store, "two") is None
    assert list_dead_jobs(store) == []
    with store.database.begin_write() as connection:
        connection.execute(update(jobs).values(beat=time.time() - 2 * DEAD_AFTER))
    (dead,) = list_dead_jobs(store)
    requeue_job(store, dead)
    again = take_job(store, "two")
    assert again is not None
    finish_job(store, "j", "one", "done", "{}")  # whom nobody believes any more
    running = find_job_by_id(store, "j")
    assert running is not None
    assert running.state == "running"
    finish_job(store, "j", "two", "done", "{}")
    abandon_job(store, dead, "{}")
    done = find_job_by_id(store, "j")
    assert done is not None
    assert done.state == "done"


def test_a_head_is_recorded_only_if_nobody_holds_the_store(store: Store, where: str) -> None:
    """The charge stands by then: its answer neither waits long for the record nor is lost for it."""
    heads = StoreHeads(store)
    first, second = RecordedHead("a", 3, "03"), RecordedHead("a", 5, "05")
    heads.accept("d", first, None)
    with Store.open(where) as other, other.database.begin_write() as connection:
        connection.execute(update(tables.heads).values(at=0.0))
        before = time.monotonic()
        heads.advance("d", second)
        assert time.monotonic() - before < 8  # not the ten seconds that others are waited for
    assert heads.read("d") == first
    heads.advance("d", second)
    assert heads.read("d") == second
    heads.advance("d", first)
    assert heads.read("d") == second


def waiting(analyst: str, name: str, at: float) -> Job:
    return Job(f"{analyst} {name}", "ask", "registry", False, analyst, name, "{}", 0.5, at)


def test_jobs_are_taken_in_turn_over_analysts(store: Store) -> None:
    """Of 22 jobs of one analyst and two of another that came later, the other's are the second and the fourth."""
    for at in range(22):
        add_job(store, waiting("ann", f"{at:02d}", at))
    for at in range(2):
        add_job(store, waiting("bob", f"{at:02d}", 100 + at))
    order = []
    for at in range(6):
        taken = take_job(store, "runner")
        assert taken is not None
        order.append(taken.id)
        with store.database.begin_write() as connection:  # whatever the clock shows meanwhile
            connection.execute(update(jobs).where(jobs.c.id == taken.id).values(beat=1000.0 + at))
        finish_job(store, taken.id, "runner", "done", "{}")
    assert order == ["ann 00", "bob 00", "ann 01", "bob 01", "ann 02", "ann 03"]


def test_of_jobs_that_come_at_once_no_more_are_taken_than_there_may_be(store: Store) -> None:
    """22 were accepted of 20: they were counted before they were added, each in a transaction of its own."""
    start = threading.Barrier(30)

    def add(number: int) -> bool:
        start.wait(60)
        return add_job(store, waiting("ann", str(number), number), max_open=20) is not None

    with ThreadPoolExecutor(30) as threads:
        assert sum(threads.map(add, range(30))) == 20
    assert add_job(store, waiting("ann", "one more", 0), max_open=20) is None
    assert add_job(store, waiting("bob", "one", 0), max_open=20) is not None


def test_who_counts_jobs_waits_for_who_adds_one(store: Store, where: str) -> None:
    """Or both would take the last place."""
    with ThreadPoolExecutor(1) as threads:
        with Store.open(where) as other, other.database.begin_write() as connection:
            acquire_advisory_lock(connection, "jobs of ann")
            second = threads.submit(add_job, store, waiting("ann", "second", 0), max_open=1)
            with pytest.raises(TimeoutError):
                second.result(0.5)
            values = {name: getattr(waiting("ann", "first", 0), name) for name in Job.__slots__}
            insert_if_absent(connection, jobs, values)
        assert second.result(30) is None


def test_a_job_that_is_queued_again_needs_a_place_too(store: Store) -> None:
    add_job(store, waiting("ann", "first", 0))
    taken = take_job(store, "runner")
    assert taken is not None
    finish_job(store, taken.id, "runner", "failed", "{}")
    ended = find_job_by_id(store, taken.id)
    assert ended is not None
    add_job(store, waiting("ann", "second", 1), max_open=1)
    assert renew_job(store, ended, max_open=1) is None
    again = renew_job(store, ended, max_open=2)
    assert again is not None
    assert again.state == "waiting"
    assert renew_job(store, ended, max_open=2) == again  # who comes second has the same job


def test_what_is_damaged_is_told_plainly(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    Store.open(path).close()
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.execute(insert(METADATA.tables["service_grants"]), {"dataset": "d", "analyst": "a"})
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '99'")
    engine.dispose()
    with pytest.raises(InvalidInput, match="update discreet"):
        Store.open(path)
