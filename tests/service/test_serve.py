"""`discreet serve` and `discreet token`: a service that starts, stops, comes back, and says plainly what is wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import takewhile
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from discreet.ledger import Ledger
from discreet.service.config import Config, DatasetConfig, read_config
from discreet.service.middleware.auth import MAX_HEAD_BYTES
from discreet.service.openapi import NewTokenDocument, TokenDocument
from discreet.service.store import Store
from discreet.service.store.tokens import create_token, find_token
from discreet.service.supervisor import (
    INTERRUPT,
    MAX_PAUSE,
    MIN_PAUSE,
    STABLE_AFTER,
    STOP,
    SupervisedProcess,
    compute_next_pause,
    stop_processes,
)
from support import stubborn_process
from support.command_line import Outcome, run_discreet, run_successfully, write_registry
from support.served_processes import (
    SupervisedService,
    create_service_token,
    is_running,
    list_children,
    start_process,
    start_service,
    wait_for,
)
from support.tls_certificates import write_certificate

HEAVY = {"duckdb", "fastapi", "jinja2", "rich", "sqlalchemy", "sqlglot", "starlette", "uvicorn", "yaml"}
DATA = "/v1/datasets/registry"
WAITS = 30.0


@pytest.fixture(scope="module")
def registered_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data set that is registered and was never asked."""
    folder = tmp_path_factory.mktemp("registered")
    run_successfully("check", write_registry(folder))
    return folder


@pytest.fixture
def folder(registered_folder: Path, tmp_path: Path) -> Path:
    """The same, one's own."""
    return shutil.copytree(registered_folder, tmp_path / "own")


def write_config_beside(data_folder: Path, **keys: str) -> Path:
    """A configuration of the data set in a folder, on a free port, with one worker."""
    settings = {"port": "0", "workers": "1"} | keys
    config_text = (
        "".join(f"{key}: {value}\n" for key, value in settings.items()) + "datasets:\n  - schema: registry.yaml\n"
    )
    (data_folder / "service.yaml").write_text(config_text)
    return data_folder / "service.yaml"


def client(served: SupervisedService, secret: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {secret}"}
    return httpx.Client(base_url=served.address, headers=headers, timeout=WAITS)


def question(number: int) -> dict[str, Any]:
    return {"question": f"SELECT COUNT(*) FROM registry WHERE age >= {20 + number}", "epsilon": "0.01"}


@contextmanager
def on_screen(*words: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`discreet serve` as people see it: the process, and what it said when it was ready."""
    command = [sys.executable, "-m", "discreet", "serve", *map(str, words)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, start_new_session=True, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        try:
            lines = list(takewhile(lambda line: not line.startswith("Stop it"), process.stdout))
            yield process, "".join(lines)
        finally:
            process.terminate()


# --- without a configuration


def test_without_a_configuration_a_sample_is_served_on_this_machine_alone() -> None:
    """It prints where it is and a token that opens it; an interrupt at the terminal ends it, and the sample is gone."""
    with on_screen("--port", 0, "--workers", 1) as (process, text):
        words = text.split()
        address = words[words.index("at") + 1]
        secret = next(word for word in words if word.startswith("dsc_") and len(word) == 47)
        with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {secret}"}, timeout=WAITS) as asked:
            me = asked.get("/v1/me").json()
            answer = asked.post(f"{DATA}/answers", json=question(20))
            assert asked.get("/v1/me", headers={"Authorization": "Bearer dsc_"}).status_code == 401
        file = next(Path(word) for word in words if word.endswith("service.yaml"))
        sample = DatasetConfig(file.with_name("registry.yaml"), 1.0)
        assert read_config(file) == Config(
            (sample,), folder=file.parent / "service", store=str(file.with_name("service.db"))
        )
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all at once
        _, log = process.communicate()
    assert address.startswith("http://127.0.0.1:")
    assert (me["role"], me["datasets"]) == ("custodian", ["registry"])
    assert answer.status_code == 201
    assert process.returncode == 0
    assert secret not in log
    assert all(line.startswith('{"at"') for line in log.splitlines()), log
    assert not file.parent.exists()


@contextmanager
def announced_service(monkeypatch: pytest.MonkeyPatch, address: str) -> Iterator[None]:
    """A service that says that it is ready and ends."""

    def run(config: Config, announce: Callable[[str], None], _: object) -> None:
        config.folder.mkdir(exist_ok=True)
        announce(address)

    with monkeypatch.context() as patched:
        patched.setattr("discreet.service.supervisor.run_service", run)
        yield


def test_a_second_start_of_the_sample_revokes_the_token_of_the_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that somebody made stay as they are."""
    with announced_service(monkeypatch, "http://127.0.0.1:8000"):
        first = run_successfully("serve", "--folder", folder, "--json").document
        own_token = done_token(Path(first["config"]), "--analyst", "custodian", "--role", "custodian")
        second = run_successfully("serve", "--folder", folder, "--json").document
        third = run_successfully("serve", "--folder", folder, "--json").document
    with Store.open(read_config(first["config"]).store) as store:
        valid = [
            find_token(store, one) is not None for one in (first["token"], own_token, second["token"], third["token"])
        ]
    assert valid == [False, True, False, True]


@pytest.mark.parametrize(
    ("address", "url"), [("0.0.0.0", "https://0.0.0.0:8443"), ("'::'", "https://[::]:8443")], ids=["IPv4", "IPv6"]
)
def test_a_service_that_listens_everywhere_is_named_by_its_machine(
    folder: Path, monkeypatch: pytest.MonkeyPatch, address: str, url: str
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "ward")
    config = write_config_beside(folder, address=address, insecure="yes")
    with announced_service(monkeypatch, url):
        screen = run_successfully("serve", "--config", config).out
        document = run_successfully("serve", "--config", config, "--json").document
    assert "discreet answers at https://ward:8443\n" in screen
    assert "https://ward:8443/console/" in screen
    assert "listens on every address of this machine" in screen
    assert (document["address"], document["console"]) == ("https://ward:8443", "https://ward:8443/console/")


def test_a_service_at_one_address_is_named_by_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with announced_service(monkeypatch, "http://127.0.0.1:8000"):
        screen = run_successfully("serve", "--config", write_config_beside(folder)).out
    assert "discreet answers at http://127.0.0.1:8000\n" in screen
    assert "every address" not in screen


# --- stopping and coming back


def test_what_is_under_way_is_answered_when_it_is_told_to_stop(folder: Path) -> None:
    """A service without a custodian says first how to make one."""
    config = write_config_beside(folder, deadline="3")
    with start_process(folder, "--config", config) as (process, out, log):
        screen = "".join(takewhile(lambda line: not line.startswith("Stop it"), out))
        assert f"There is no custodian yet: discreet token create --config {config} --analyst NAME --role" in screen
        address = screen.split()[3]
        headers = {"Authorization": f"Bearer {done_token(config, '--analyst', 'ann', '--dataset', 'registry')}"}
        with httpx.Client(base_url=address, headers=headers, timeout=WAITS) as asked:
            assert asked.get("/v1/me").json()["datasets"] == ["registry"]
            replies: list[httpx.Response] = []
            preview = threading.Thread(target=lambda: replies.append(asked.post(f"{DATA}/previews", json=question(1))))
            preview.start()
            time.sleep(1)  # it is read by then, and its reply leaves only at the deadline
            os.kill(process.pid, signal.SIGTERM)
            code = process.wait(WAITS)
            preview.join()
    assert [reply.status_code for reply in replies] == [200]
    assert code == 0
    children = [json.loads(line)["process"] for line in log.read_text().splitlines() if '"started"' in line]
    assert len(children) == 2
    assert not any(map(is_running, children))


def test_what_is_killed_comes_back_and_nothing_is_lost_or_paid_twice(folder: Path) -> None:
    """Workers are killed under load; then the supervisor is, which takes all with it and frees the port."""
    config = write_config_beside(folder, workers="2", deadline="0.05", limits="{rate: 1000, burst: 1000}")
    secret = create_service_token(config)
    with start_service(folder, "--folder", folder) as served:  # what is in it already is kept as it is
        assert served.announcement["config"] == str(config)
        asked = Asking(served, secret)
        for kill in range(2):
            asked.wait_for(5 * (kill + 1))
            worker = wait_for(
                lambda: next(filter(is_running, [e["process"] for e in served.events("started", "worker")]), 0)
            )
            os.kill(worker, signal.SIGKILL)
            wait_for(lambda worker=worker: worker in [line["process"] for line in served.events("died")])
        asked.wait_for(20)
        answered = asked.stop()
        assert [line["status"] for line in served.events("died")] == [-signal.SIGKILL] * 2
        wait_for(lambda: len(served.events("started", "worker")) == 4)
        assert httpx.get(f"{served.address}/health", timeout=WAITS).json() == {"status": "ok"}
        served.stop(signal.SIGKILL)
        wait_for(lambda: not any(map(is_running, served.children())))
        with socket.create_server(("127.0.0.1", served.port)):
            pass
    with Ledger.open(folder / "registry.discreet" / "ledger.db") as ledger:
        ledger.verify()
        charges = [entry for entry in ledger.history("registry", limit=1000) if entry.kind == "charge"]
    assert len({entry.query for entry in charges}) == len(charges)
    assert len(answered) <= len(charges) <= len(answered) + asked.CLIENTS
    assert {entry.epsilon for entry in charges} == {Fraction(1, 100)}


class Asking:
    """Clients that ask one question after another, each again under its key until it is answered."""

    CLIENTS = 2

    def __init__(self, served: SupervisedService, secret: str) -> None:
        self._served, self._secret = served, secret
        self._answers: dict[int, dict[str, Any]] = {}
        self._over = threading.Event()
        self._clients = [threading.Thread(target=self._ask, args=(first,)) for first in range(self.CLIENTS)]
        for one in self._clients:
            one.start()

    def wait_for(self, count: int) -> None:
        wait_for(lambda: len(self._answers) >= count)

    def stop(self) -> dict[int, dict[str, Any]]:
        """All that was answered."""
        self._over.set()
        for one in self._clients:
            one.join()
        return self._answers

    def _ask(self, first: int) -> None:
        number = first
        while not self._over.is_set() and number < 60:
            try:
                with client(self._served, self._secret) as asked:
                    key = {"Idempotency-Key": f"ask-{number}"}
                    reply = asked.post(f"{DATA}/answers", json=question(number), headers=key)
            except httpx.TransportError:
                continue
            assert reply.status_code == 201, reply.text
            self._answers[number] = reply.json()
            number += self.CLIENTS


def test_the_process_that_forks_may_be_killed(folder: Path) -> None:
    """Those that were forked from it end what they do, and others take their place."""
    with start_service(folder, "--config", write_config_beside(folder)) as served:
        *_, forks = list_children(served.process.pid)
        first = served.children()
        assert set(list_children(forks)) == set(first)
        os.kill(forks, signal.SIGKILL)
        wait_for(lambda: len(served.children()) == 2 * len(first))
        wait_for(lambda: not any(map(is_running, first)))
        assert httpx.get(f"{served.address}/health", timeout=WAITS).json() == {"status": "ok"}
        assert served.stop() == 0
    assert not any(map(is_running, served.children()))


@pytest.mark.parametrize(
    ("error", "deaths"), [(EOFError(), 1), (ConnectionRefusedError(), 1), (BlockingIOError(), 0)], ids=str
)
def test_a_process_that_forks_and_dies_is_counted(
    error: Exception, deaths: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a service that can never be ready would be tried for ever; one without memory waits for some."""

    def start(_: object) -> None:
        raise error

    monkeypatch.setattr("discreet.service.supervisor.PROCESS_CONTEXT.Process.start", start)
    post = SupervisedProcess("stubborn", stubborn_process.stay, ())
    post.keep_running(0)
    assert (post.deaths, post.process, post.restart_at) == (deaths, None, MIN_PAUSE)


def test_what_is_imported_before_a_fork_is_there_and_starts_no_thread() -> None:
    """A thread would not live through it; and what failed to be imported would be imported by every process again."""
    code = "import sys; from discreet.service.preload import PRELOAD_MODULES; from pathlib import Path\n"
    code += "print(set(PRELOAD_MODULES) <= set(sys.modules), len([*Path('/proc/self/task').iterdir()]))"
    alone = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # its threads it ends itself before a fork
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=alone)
    assert shown.stdout.split() == ["True", "1"]


def test_nothing_is_imported_from_the_folder_that_it_is_started_in(folder: Path, tmp_path: Path) -> None:
    """As where that is the folder of the data, which others may write."""
    decoy, trace = tmp_path / "sqlglot.py", tmp_path / "seen"
    decoy.write_text(f"open({str(trace)!r}, 'w').close()")
    command = [str(Path(sys.executable).with_name("discreet")), "serve", "--config", str(write_config_beside(folder))]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, text=True, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert any(line.startswith("Stop it") for line in process.stdout)
        process.terminate()
        process.communicate()
    assert process.returncode == 0
    assert not trace.exists()


def test_a_folder_for_temporary_files_that_will_not_do_is_told(folder: Path, tmp_path: Path) -> None:
    """The process that forks listens at a socket in it, whose name the system limits."""
    deep = tmp_path / ("x" * 90)
    deep.mkdir()
    command = [sys.executable, "-m", "discreet", "serve", "--config", str(write_config_beside(folder))]
    settings = os.environ | {"TMPDIR": str(deep)}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=settings, timeout=600)
    assert (ended.returncode, ended.stdout) == (5, "")
    assert "short name: set TMPDIR" in ended.stderr
    assert str(deep) not in ended.stderr


def test_workers_that_cannot_start_are_told_of_without_the_words_of_what_failed(folder: Path, tmp_path: Path) -> None:
    """The supervisor gives up before it was ever ready, rather than try for ever."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "h11.py").write_text("raise RuntimeError('of a row')")
    words = ["serve", "--config", str(write_config_beside(folder))]
    settings = os.environ | {"PYTHONPATH": os.pathsep.join([str(broken), os.environ["PYTHONPATH"]])}
    command = [sys.executable, "-m", "discreet", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=settings, timeout=600)
    assert (ended.returncode, ended.stdout) == (5, "")
    assert ended.stderr.splitlines()[-1].startswith("discreet: the workers end as soon as they start")
    assert "RuntimeError at " in ended.stderr
    assert "of a row" not in ended.stderr


@pytest.mark.parametrize(
    ("before", "lived", "then"),
    [
        (0.0, 1.0, MIN_PAUSE),
        (MIN_PAUSE, 1.0, 2 * MIN_PAUSE),
        (MAX_PAUSE, 1.0, MAX_PAUSE),
        (MAX_PAUSE, STABLE_AFTER, MIN_PAUSE),
    ],
)
def test_the_pause_before_a_start_grows_while_processes_die_young(before: float, lived: float, then: float) -> None:
    assert compute_next_pause(before, lived) == then


@pytest.mark.parametrize(("signal_bytes", "limit"), [(STOP, 0.5), (INTERRUPT, 600)], ids=["after a while", "at once"])
def test_what_does_not_stop_is_killed(signal_bytes: bytes, limit: float) -> None:
    """After the limit, or as soon as somebody interrupts who will not wait."""
    post = SupervisedProcess("stubborn", stubborn_process.stay, ())
    post.keep_running(0)
    assert post.process is not None
    reading_end, tell = socket.socketpair()
    with reading_end, tell:
        tell.send(signal_bytes)
        stop_processes([post], reading_end, limit)
    assert post.process.exitcode == -signal.SIGKILL


def test_under_tls_it_answers_and_tells_browsers_to_stay_there(folder: Path) -> None:
    """Whoever looks after it can ask how it is; a request's head without end is refused."""
    own_certificate = write_certificate(folder)
    known = ssl.create_default_context(cafile=own_certificate.certificate)
    config = write_config_beside(
        folder, tls=f"{{certificate: {own_certificate.certificate.name}, key: {own_certificate.key.name}}}"
    )
    headers = {"Authorization": f"Bearer {create_service_token(config)}"}
    with start_service(folder, "--config", config) as served:
        assert served.address.startswith("https://127.0.0.1:")
        reply = httpx.get(f"{served.address}/v1/me", headers=headers, verify=known, timeout=WAITS)
        assert reply.json()["name"] == "ann"
        assert "max-age" in reply.headers["Strict-Transport-Security"]
        assert "Server" not in reply.headers
        endless = (
            b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * MAX_HEAD_BYTES
        )  # all of it is read before the refusal
        plain = socket.create_connection(("127.0.0.1", served.port), timeout=WAITS)
        with plain, known.wrap_socket(plain, server_hostname="localhost") as line:
            line.sendall(endless)
            assert line.recv(100).startswith(b"HTTP/1.1 400 ")
        look = [sys.executable, "-m", "discreet.service.health", str(folder / "seen.yaml")]
        (folder / "seen.yaml").write_text(config.read_text().replace("port: 0", f"port: {served.port}"))
        assert subprocess.run(look, check=False).returncode == 0
        assert served.stop() == 0
    assert subprocess.run(look, check=False).returncode == 1


# --- what is wrong is told at once, in one sentence


def test_a_port_that_is_taken_is_told(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = run_discreet("serve", "--config", write_config_beside(folder), "--port", port)
    assert (refused.code, refused.out) == (5, "")
    assert refused.err == f"discreet: port {port} is taken; stop what listens there, or choose another with --port\n"


BAD = [
    ({"address": "0.0.0.0"}, 2, "tokens would travel in the clear"),
    ({"address": "'::'"}, 2, "tokens would travel in the clear"),
    ({"address": "192.0.2.1", "insecure": "yes"}, 2, "'192.0.2.1' is no address of this machine"),
    ({"address": "no.such.name.invalid", "insecure": "yes"}, 2, "is no address of this machine"),
    ({"port": "70000"}, 2, "a port is a number from 0 to 65535"),
    ({"port": "-1"}, 2, "a port is a number from 0 to 65535"),
    ({"port": "many"}, 2, "port must be a whole number such as 8443, got 'many'"),
    ({"port": "0.5"}, 2, "port must be a whole number such as 8443, got '0.5'"),
    ({"workers": "0"}, 2, "workers"),
    ({"deadline": "0"}, 2, "deadline"),
    ({"colour": "blue"}, 2, "colour"),
    ({"tls": "{certificate: none.pem, key: none.pem}"}, 2, "the certificate and the key of tls cannot be read"),
    (
        {"tls": "{certificate: registry.yaml, key: registry.yaml}"},
        2,
        "the certificate and the key of tls cannot be read",
    ),
    ({"store": "none/service.db"}, 5, "cannot be opened"),
    ({"folder": "registry.yaml"}, 5, "cannot be written"),
]


@pytest.mark.parametrize(("keys", "code", "message"), BAD, ids=lambda one: str(one)[:40])
def test_a_mistake_in_the_configuration_is_told_before_it_listens(
    folder: Path, keys: dict[str, str], code: int, message: str
) -> None:
    refused = run_discreet("serve", "--config", write_config_beside(folder, **keys))
    assert (refused.code, refused.out) == (code, "")
    assert message in refused.err
    assert refused.err.count("\n") == 1


def test_a_mistake_in_a_data_set_is_told_before_it_listens(folder: Path) -> None:
    """Its schema, its snapshot, its ledger."""
    config = write_config_beside(folder)
    place = folder / "registry.discreet"
    (place / "snapshot-1.duckdb").rename(folder / "aside")
    assert run_discreet("serve", "--config", config).code == 5
    (folder / "aside").rename(place / "snapshot-1.duckdb")
    run_successfully("ask", folder / "registry.yaml", "SELECT COUNT(*) FROM registry", "--epsilon", "0.1")
    refused = run_discreet("serve", "--config", write_config_beside(folder, ledger="another.db"))
    assert refused.code == 2
    assert "ledger" in refused.err
    (folder / "registry.yaml").unlink()
    refused = run_discreet("serve", "--config", config)
    assert refused.code == 2
    assert "registry.yaml" in refused.err


def test_words_that_do_not_go_together_are_refused(folder: Path) -> None:
    config = write_config_beside(folder)
    assert run_discreet("serve", "--config", config, "--folder", folder).code == 2
    assert run_discreet("serve", "--config", folder / "none.yaml").code == 2
    assert run_discreet("serve", "--config", config, "--workers", 0).code == 2
    assert run_discreet("serve", "--config", config, "--port", "many").code == 2


@pytest.mark.parametrize("words", [["serve"], ["token"], ["token", "create"], ["token", "list"]], ids=" ".join)
def test_help_is_quick(words: list[str]) -> None:
    """No library that takes long to load is loaded to show help."""
    code = f"import sys; sys.argv = ['discreet', *{words!r}, '--help']\nfrom discreet.cli.main import main\n"
    code += "try:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith(f"Usage: discreet {' '.join(words)}")
    assert HEAVY & set(shown.stderr.split()) == set()


# --- tokens


def done_token(config: Path, *words: object) -> str:
    """A new token, alone on standard output."""
    outcome = run_discreet("token", "create", "--config", config, *words)
    assert outcome.code == 0, outcome.err
    assert "shown this once" in outcome.err
    assert outcome.out.strip() not in outcome.err
    return outcome.out.strip()


def test_a_token_is_shown_once_and_kept_as_a_hash(folder: Path) -> None:
    config = write_config_beside(folder)
    secret = done_token(config, "--analyst", "ann", "--dataset", "registry", "--days", 7)
    assert secret.startswith("dsc_")
    with Store.open(read_config(config).store) as store:
        stored = find_token(store, secret)
    assert stored is not None
    assert (stored.analyst, stored.role, round(stored.expires - stored.created)) == ("ann", "analyst", 7 * 86400)
    assert secret.encode() not in b"".join(path.read_bytes() for path in folder.glob("service.db*"))
    listed = run_successfully("token", "list", "--config", config).out
    assert stored.id in listed
    assert "ann may ask registry" in listed
    assert secret not in listed


def test_tokens_are_told_in_json_as_the_service_tells_them(folder: Path) -> None:
    config = write_config_beside(folder)
    document = run_successfully(
        "token", "create", "--config", config, "--analyst", "cara", "--role", "custodian", "--json"
    ).document
    assert set(document) == set(NewTokenDocument.model_fields)
    listed = run_successfully("token", "list", "--config", config, "--json").document
    assert [set(one) for one in listed["tokens"]] == [set(TokenDocument.model_fields)]
    assert listed["tokens"][0]["valid"] is True
    assert listed["grants"] == []


def test_a_revoked_token_opens_nothing_and_a_grant_can_be_taken_back(folder: Path) -> None:
    config = write_config_beside(folder)
    document = run_successfully("token", "create", "--config", config, "--analyst", "ann", "--json").document
    run_successfully("token", "grant", "ann", "registry", "--config", config)
    assert run_successfully("token", "list", "--config", config, "--json").document["grants"] == [
        {"dataset": "registry", "analyst": "ann"}
    ]
    run_successfully("token", "ungrant", "ann", "registry", "--config", config)
    run_successfully("token", "revoke", document["id"], "--config", config)
    payload = run_successfully("token", "list", "--config", config, "--json").document
    assert payload["grants"] == []
    assert payload["tokens"][0]["valid"] is False
    assert "revoked" in run_successfully("token", "list", "--config", config).out
    with Store.open(read_config(config).store) as store:
        assert find_token(store, document["token"]) is None


def test_a_grant_to_somebody_without_a_valid_token_says_so(folder: Path) -> None:
    config = write_config_beside(folder)
    grant = ("token", "grant", "ann", "registry", "--config", config)
    assert run_successfully(*grant).out == "ann may ask registry, but has no valid token yet.\n"
    document = run_successfully("token", "create", "--config", config, "--analyst", "ann", "--json").document
    assert run_successfully(*grant).out == "ann may ask registry.\n"
    run_successfully("token", "revoke", document["id"], "--config", config)
    assert "no valid token" in run_successfully(*grant).out


def test_a_token_is_revoked_by_how_its_id_begins(folder: Path) -> None:
    """Where no other begins so; the whole id always does."""
    config = write_config_beside(folder)
    ids = ["0123456789abcdef" * 2, "0123456789abcdee" * 2, "fedcba98" * 4]
    with Store.open(read_config(config).store) as store:
        for one in ids:
            create_token(store, "ann", "analyst", id=one)

    def revoke(begun: str) -> Outcome:
        return run_discreet("token", "revoke", begun, "--config", config)

    for begun, message in ((ids[0][:8], "2 tokens begin with '01234567'"), (ids[2][:7], "there is no token 'fedcba9'")):
        refused = revoke(begun)
        assert (refused.code, refused.out) == (2, "")
        assert message in refused.err
    for begun, whole in ((ids[2][:8], ids[2]), (ids[0], ids[0]), (ids[1][:16], ids[1])):
        assert revoke(begun).out == f"Token {whole} is revoked.\n"
    document = run_successfully("token", "list", "--config", config, "--json").document
    assert [one["valid"] for one in document["tokens"]] == [False] * 3


@pytest.mark.parametrize(
    "words",
    [
        ["create", "--analyst", "ann", "--role", "queen"],
        ["create", "--analyst", "ann", "--days", "0"],
        ["create", "--analyst", "ann", "--days", "nan"],
        ["create", "--analyst", "ann", "--days", "367"],
        ["create", "--analyst", " ann"],
        ["create", "--analyst", "a/b"],
        ["create", "--analyst", ""],
        ["create", "--analyst", "ann", "--dataset", "none"],
        ["create"],
        ["revoke", "none"],
        ["grant", "ann", "none"],
        ["grant", "a\nb", "registry"],
        ["ungrant", "ann", "registry"],
    ],
    ids=" ".join,
)
def test_a_mistake_about_tokens_is_told_and_changes_nothing(folder: Path, words: list[str]) -> None:
    config = write_config_beside(folder)
    refused = run_discreet("token", *words, "--config", config)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.count("\n") == 1
    assert run_successfully("token", "list", "--config", config, "--json").document == {"tokens": [], "grants": []}
