"""Format 6: entries of a further kind, for charges that a restore makes void. No table changes."""

from __future__ import annotations

from alembic import op

revision = "6"
down_revision = "5"


def upgrade() -> None:
    """Say so: a discreet that knows format 5 alone would answer such charges, and take such entries for damaged."""
    op.execute("UPDATE ledger_about SET version = 6")
