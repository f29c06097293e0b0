"""The service on PostgreSQL and Spark: the same questions, Spark's by jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from discreet import Custodian
from discreet.datasets.integrity import LazySource
from discreet.service.config import Config, DatasetConfig, Limits
from discreet.service.dataset_registry import Service
from discreet.service.jobs import run_next_job
from support.inprocess_service import run_service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """\
name: registry
source: spark:patients_there
neighbours: add-remove
unit: {column: id}
budget: {epsilon: 1}
columns:
  age: {kind: integer, lower: 0, upper: 99}
"""
ASKED = {"question": "SELECT COUNT(*) FROM registry WHERE age >= 50", "epsilon": "0.5"}
HOME = "/v1/datasets/registry"


def config_on(folder: Path, schema: str) -> Config:
    path = folder / "registry.yaml"
    path.write_text(schema, encoding="utf-8")
    limits = Limits(rate=1e5, burst=10**5)
    return Config(
        (DatasetConfig(path, 0.05),),
        folder=folder / "service",
        store=str(folder / "service.db"),
        padding=False,
        limits=limits,
    )


def test_on_spark_questions_run_as_jobs_and_only_their_runner_opens_spark(tmp_path: Path, spark: SparkSession) -> None:
    rows = [(f"p{number}", number % 100) for number in range(400)]
    spark.createDataFrame(rows, ["id", "age"]).createOrReplaceTempView("patients_there")
    config = config_on(tmp_path, SCHEMA)
    Custodian.open(config.datasets[0].schema).close()
    with run_service(config) as service:
        queued = service.post("ann", f"{HOME}/answers", ASKED)
        assert (queued.status_code, queued.json()["state"]) == (202, "running")
        assert service.post("ann", f"{HOME}/previews", ASKED).json()["times"] == 2
        with service.app.service.registry.lease_custodian("registry") as custodian:
            assert isinstance(custodian._source, LazySource)
            assert custodian._source._source is None
        runner = Service.open(config, runs_jobs=True)
        try:
            assert run_next_job(runner, "runner")
        finally:
            runner.close()
        done = service.get("ann", f"/v1/jobs/{queued.json()['id']}").json()
        document = service.get("ann", f"{HOME}/answers/{done['answer']}").json()
    assert done["state"] == "done"
    assert abs(document["value"] - 200) < 100


@pytest.mark.parametrize("shared", [False, True])
def test_rows_ledger_and_store_in_postgresql(tmp_path: Path, postgres: str, shared: bool) -> None:
    import psycopg

    parts = dict(part.split("=", 1) for part in postgres.split())
    name = f"service_{int(shared)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    address = f"postgresql:///{name}?host={parts['host']}&user={parts['user']}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE patients (id text, age int)")
        connection.execute("INSERT INTO patients SELECT 'p' || n, n % 100 FROM generate_series(0, 399) AS n")
    schema = SCHEMA.replace("spark:patients_there", f"{address}#patients")
    config = config_on(tmp_path, schema)
    if shared:
        from dataclasses import replace

        config = replace(config, ledger=address, store=address)
    with run_service(config) as service:
        reply = service.post("ann", f"{HOME}/answers", ASKED)
        assert reply.status_code == 201
        assert abs(reply.json()["value"] - 200) < 100
        assert service.get("cus", f"{HOME}/ledger").json()["verified"] is True
        assert service.post("ann", f"{HOME}/answers", ASKED | {"epsilon": "0.6"}).status_code == 403
