"""A service of its own process for as long as it is needed."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CONFIG = """\
port: {port}
workers: {workers}
deadline: {deadline}
padding: {padding}
limits: {{rate: 100000, burst: 100000, together: 100000}}
datasets:
  - schema: {schema}
"""
PATIENCE = 120.0


@dataclass(frozen=True)
class RunningService:
    """Where a service is, a token that may ask, and the process."""

    port: int
    token: str
    config: Path
    process: subprocess.Popen[bytes]


@contextmanager
def run_service(
    schema: Path, workers: int = 2, padding: bool = False, deadline: float = 1.0
) -> Iterator[RunningService]:
    """Start `discreet serve`, wait until it is well, and stop it."""
    config, port = schema.parent / "service.yaml", find_free_port()
    yes = "yes" if padding else "no"
    config.write_text(
        CONFIG.format(port=port, workers=workers, deadline=deadline, padding=yes, schema=schema.name), encoding="utf-8"
    )
    name = schema.stem
    token = _run_discreet("token", "create", "--config", str(config), "--analyst", "ann", "--dataset", name, "--json")
    command = [sys.executable, "-m", "discreet", "serve", "--config", str(config)]
    with (schema.parent / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_until_healthy(port, process)
        yield RunningService(port, json.loads(token)["token"], config, process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def _run_discreet(*words: str) -> bytes:
    return subprocess.run([sys.executable, "-m", "discreet", *words], check=True, capture_output=True).stdout


def find_free_port() -> int:
    """A port that nobody listens on now."""
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_until_healthy(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.1)
        finally:
            connection.close()
    raise RuntimeError("the service did not start; its log is beside its configuration")
