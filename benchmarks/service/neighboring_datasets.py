"""Two data sets that differ in one person, served by one service, so that whoever asks either cannot tell by when."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from benchmarks.service.running_service import PATIENCE, RunningService, find_free_port
from discreet.service.health import is_healthy

ROOT = Path(__file__).parents[2]
PRESENT, ABSENT = "present", "absent"
CONFIG = """\
port: {port}
deadline: {deadline}
padding: {padding}
limits: {{rate: 100000, burst: 100000}}
datasets: [{{schema: present.yaml}}, {{schema: absent.yaml}}]
"""
SCHEMA = """\
name: {name}
source: {name}.parquet
neighbours: add-remove
budget: {{epsilon: 1000000, delta: 0.5}}
models: [dp, approx-dp]
columns:
  age: {{kind: integer, lower: 0, upper: 99}}
  income: {{kind: integer, lower: 0, upper: 200000}}
  town: {{kind: nominal, keys: private}}
"""
# The one person is older and richer than all others, and the only one of a town: where there is nobody of that age,
# an engine that keeps the extremes of each block of rows need not read any.
MAKE = """\
COPY (
    SELECT hash(i) % 90 AS age, hash(i + 1000000000) % 150001 AS income, concat('T', hash(i + 2000000000) % 50) AS town
    FROM range({rows}) AS r(i)
    {more}
) TO '{path}' (FORMAT parquet)
"""
PERSON = "UNION ALL SELECT 99, 200000, 'Nowhere'"
ROWS = 120_000


def write_datasets(folder: Path) -> None:
    """Both tables and their schemas in a folder."""
    for name, person_row in ((PRESENT, PERSON), (ABSENT, "")):
        duckdb.connect().execute(MAKE.format(rows=ROWS, more=person_row, path=folder / f"{name}.parquet"))
        (folder / f"{name}.yaml").write_text(SCHEMA.format(name=name), encoding="utf-8")


@contextmanager
def serve_datasets(folder: Path, deadline: float | None, delay: float | None = None) -> Iterator[RunningService]:
    """Serve both with a deadline, or without padding; with `planted`, by a service that gives the person away."""
    config, port = folder / "service.yaml", find_free_port()
    padding = {"deadline": deadline or 1.0, "padding": "no" if deadline is None else "yes"}
    config.write_text(CONFIG.format(port=port, **padding), encoding="utf-8")
    token_options = ["--analyst", "ann", "--dataset", PRESENT, "--dataset", ABSENT]
    words = ["token", "create", "--config", config, *token_options, "--json"]
    token = subprocess.run([sys.executable, "-m", "discreet", *words], check=True, stdout=subprocess.PIPE).stdout
    serve = ["discreet", "serve", "--config", config]
    module = serve if delay is None else ["benchmarks.service.leaking_service", config, str(delay)]
    command = [sys.executable, "-m", *module]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, cwd=ROOT)
    try:
        _wait_until_healthy(port, process)
        yield RunningService(port, json.loads(token)["token"], config, process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def _wait_until_healthy(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_healthy("127.0.0.1", port, False):
        if time.monotonic() > end or process.poll() is not None:
            raise RuntimeError("the service did not start; its log is beside its configuration")
        time.sleep(0.1)
