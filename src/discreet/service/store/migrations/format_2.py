"""Format 2: the last head of each data set's ledger."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Double, Text

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "service_heads",
        Column("dataset", Text, primary_key=True),
        Column("ledger", Text, nullable=False),
        Column("entry", BigInteger, nullable=False),
        Column("hash", Text, nullable=False),
        Column("restores", Text, nullable=False),
        Column("at", Double, nullable=False),
    )
