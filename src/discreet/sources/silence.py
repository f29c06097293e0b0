"""Spark without a voice: its logs, and those of the bridge to it, may quote rows."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def silence(session: SparkSession) -> None:
    """Let neither Spark nor py4j, which writes down every word between Python and Spark, log anything."""
    session.sparkContext.setLogLevel("OFF")
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
