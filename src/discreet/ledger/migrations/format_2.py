"""Format 2: an index of all entries but answers, for the custodian's log of questions. No entry changes."""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Add the index, and say so."""
    asked = text("kind != 'answer'")
    op.create_index("ledger_log", "ledger_entries", ["dataset", "seq"], sqlite_where=asked, postgresql_where=asked)
    op.execute("UPDATE ledger_about SET version = 2")
