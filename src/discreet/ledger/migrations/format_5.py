"""Format 5: entries of a further kind, for stored answers that are told with noise added. No table changes."""

from __future__ import annotations

from alembic import op

revision = "5"
down_revision = "4"


def upgrade() -> None:
    """Say so: a discreet that knows format 4 alone would take such entries for damaged."""
    op.execute("UPDATE ledger_about SET version = 5")
