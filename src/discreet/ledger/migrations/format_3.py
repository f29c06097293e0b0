"""Format 3: the caps of accounts, with the orders that were fixed for each. No entry changes."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Text

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Add the table, empty: an account gets its terms with the first charge from now on."""
    op.create_table(
        "ledger_caps",
        Column("dataset", Text, primary_key=True),
        Column("owner", Text, primary_key=True),
        Column("terms", Text, nullable=False),
    )
    op.execute("UPDATE ledger_about SET version = 3")
