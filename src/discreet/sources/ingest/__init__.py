"""Registration: from the rows of a source, dirty as they are, to a snapshot of whole numbers."""

from discreet.sources.ingest.duckdb import register_duckdb
from discreet.sources.ingest.memory import register_memory
from discreet.sources.ingest.postgres import register_postgres
from discreet.sources.ingest.registration_report import ColumnReport, RegistrationReport
from discreet.sources.ingest.spark import register_spark

__all__ = [
    "ColumnReport",
    "RegistrationReport",
    "register_duckdb",
    "register_memory",
    "register_postgres",
    "register_spark",
]
