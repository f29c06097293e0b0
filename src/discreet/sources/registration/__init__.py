"""Registration: from the rows of a source, dirty as they are, to a snapshot of whole numbers."""

from discreet.sources.registration.duckdb import register_duckdb
from discreet.sources.registration.memory import register_memory
from discreet.sources.registration.postgres import register_postgres
from discreet.sources.registration.report import ColumnReport, RegistrationReport
from discreet.sources.registration.spark import register_spark

__all__ = [
    "ColumnReport",
    "RegistrationReport",
    "register_duckdb",
    "register_memory",
    "register_postgres",
    "register_spark",
]
