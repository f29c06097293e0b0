"""Spark without a voice: its logs, and those of the bridge to it, may quote rows."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILURE_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""To these, PySpark writes what Spark says of a failed statement, and they write to standard error by themselves."""


def silence_spark(session: SparkSession) -> None:
    """Let neither Spark nor PySpark nor py4j, which writes down every word between Python and Spark, log anything."""
    from pyspark.logger import PySparkLogger

    session.sparkContext.setLogLevel("OFF")
    for logger in (logging.getLogger("py4j"), *map(PySparkLogger.getLogger, FAILURE_LOGGERS)):
        logger.setLevel(logging.CRITICAL + 1)
