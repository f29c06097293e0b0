"""Where a table is: a file, a table of PostgreSQL or Spark, or the memory of whoever opens it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from discreet.errors import InvalidInput

TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*){0,2}")


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """`place` is the path of a file or the address of a server; `table` is named within its engine."""

    engine: Literal["csv", "parquet", "postgres", "spark", "memory"]
    location: str = ""
    table: str = ""

    @staticmethod
    def of(text: str) -> SourceAddress:
        """Read data.csv, data.parquet, postgresql://host/db#schema.table, spark:catalog.table or memory.

        A refusal does not repeat the address, which may hold a password.
        """
        server, _, table = text.rpartition("#")
        is_table = TABLE_NAME.fullmatch(table)
        if server.startswith("postgresql://") and is_table and table.count(".") < 2:
            return SourceAddress("postgres", server, table)
        if text.startswith("spark:") and TABLE_NAME.fullmatch(text[6:]):
            return SourceAddress("spark", table=text[6:])
        if text == "memory":
            return SourceAddress("memory")
        if "://" not in text and text.lower().endswith(".csv"):
            return SourceAddress("csv", text)
        if "://" not in text and text.lower().endswith(".parquet"):
            return SourceAddress("parquet", text)
        raise InvalidInput(
            "a source must be a .csv or .parquet file, postgresql://host/db#schema.table, spark:catalog.table, "
            "or memory where a table is handed to Custodian.open"
        )
