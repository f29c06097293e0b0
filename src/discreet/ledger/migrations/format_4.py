"""Format 4: terms of accounts have the models that their cap holds for. No table and no entry changes.

Terms that are recorded already stay as they are; what the entries show is added with the next charge of their account.
"""

from __future__ import annotations

from alembic import op

revision = "4"
down_revision = "3"


def upgrade() -> None:
    """Say so: a discreet that knows format 3 alone would take such terms for damaged."""
    op.execute("UPDATE ledger_about SET version = 4")
