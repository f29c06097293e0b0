"""Format 1: tokens, grants, sessions, priors, answers, jobs, counts."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, Text
from sqlalchemy.schema import SchemaItem

revision = "1"
down_revision = None


def upgrade() -> None:
    """Make the tables and their indices."""
    _make_access()
    _make_answers()
    _make_jobs()
    key_columns = ["dataset", "rehearsal", "analyst", "key"]
    op.create_index("service_answer_key", "service_answers", key_columns, unique=True)
    op.create_index("service_answer_entry", "service_answers", ["dataset", "rehearsal", "entry"])
    op.create_index("service_job_key", "service_jobs", [*key_columns, "kind"], unique=True)
    op.create_index("service_job_state", "service_jobs", ["state", "at"])
    op.create_index("service_counting_key", "service_counting", key_columns, unique=True)


def _make_access() -> None:
    op.create_table(
        "service_tokens",
        _name("id"),
        Column("hash", Text, nullable=False, unique=True),
        *_texts("analyst", "role"),
        *_times("created", "expires"),
        Column("revoked", Double),
    )
    op.create_table("service_grants", _name("dataset"), _name("analyst"))
    op.create_table("service_sessions", _name("hash"), *_texts("token"), *_times("expires"))
    op.create_table("service_priors", _name("analyst"), _name("name"), *_texts("text", "note"))


def _make_answers() -> None:
    op.create_table(
        "service_answers",
        *(
            _name("id"),
            *_texts("dataset"),
            Column("rehearsal", Boolean, nullable=False),
            *_texts("analyst", "key", "asked"),
            Column("entry", BigInteger),
            *_times("at"),
            *_texts("document"),
            Column("picture", Text),
        ),
    )
    op.create_table(
        "service_counting",
        _name("id"),
        *_texts("dataset"),
        Column("rehearsal", Boolean, nullable=False),
        *_texts("analyst", "key", "noise_scale", "epsilon"),
        Column("closed", Boolean, nullable=False),
    )
    op.create_table(
        "service_counted",
        _name("session"),
        Column("place", BigInteger, primary_key=True, autoincrement=False),
        *_texts("question", "scale"),
        Column("released", Text),
    )


def _make_jobs() -> None:
    op.create_table(
        "service_jobs",
        *(
            _name("id"),
            *_texts("kind", "dataset"),
            Column("rehearsal", Boolean, nullable=False),
            *_texts("analyst", "key", "asked"),
            *_times("deadline", "at"),
            *_texts("state"),
            Column("runner", Text),
            Column("beat", Double),
            Column("finished", Double),
            Column("stage", Text),
            Column("result", Text),
            Column("attempts", Integer, nullable=False),
        ),
    )
    op.create_table("service_counters", _name("name"), _name("label"), *_times("value"), Column("last", Double))


def _name(name: str) -> Column[str]:
    return Column(name, Text, primary_key=True)


def _texts(*names: str) -> tuple[SchemaItem, ...]:
    return tuple(Column(name, Text, nullable=False) for name in names)


def _times(*names: str) -> tuple[SchemaItem, ...]:
    return tuple(Column(name, Double, nullable=False) for name in names)
