"""The tables of a service's store, the same on SQLite and PostgreSQL. Nothing in them was taken from a row."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, MetaData, Table, Text

METADATA = MetaData()

# `hash` is the SHA-256 of a secret of 256 bits, which is nowhere kept. Times are seconds since 1970.
tokens = Table(
    "service_tokens",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("analyst", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Column("revoked", Double),
)

grants = Table(
    "service_grants",
    METADATA,
    Column("dataset", Text, primary_key=True),
    Column("analyst", Text, primary_key=True),
)

# Who is signed in to the console: the hash of a secret that only the browser has.
console_sessions = Table(
    "service_sessions",
    METADATA,
    Column("hash", Text, primary_key=True),
    Column("token", Text, nullable=False),
    Column("expires", Double, nullable=False),
)

priors = Table(
    "service_priors",
    METADATA,
    Column("analyst", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("text", Text, nullable=False),
    Column("note", Text, nullable=False),
)

answers = Table(
    "service_answers",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("dataset", Text, nullable=False),
    Column("rehearsal", Boolean, nullable=False),
    Column("analyst", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("asked", Text, nullable=False),
    Column("entry", BigInteger),
    Column("at", Double, nullable=False),
    Column("document", Text, nullable=False),
    Column("picture", Text),
)

jobs = Table(
    "service_jobs",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("rehearsal", Boolean, nullable=False),
    Column("analyst", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("asked", Text, nullable=False),
    Column("deadline", Double, nullable=False),
    Column("at", Double, nullable=False),
    Column("state", Text, nullable=False),
    Column("runner", Text),
    Column("beat", Double),
    Column("finished", Double),
    Column("stage", Text),
    Column("result", Text),
    Column("attempts", Integer, nullable=False),
)

# Sessions of protocol 1: paid for on opening, and what was admitted in each, by place.
counting_sessions = Table(
    "service_counting",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("dataset", Text, nullable=False),
    Column("rehearsal", Boolean, nullable=False),
    Column("analyst", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("noise_scale", Text, nullable=False),
    Column("epsilon", Text, nullable=False),
    Column("closed", Boolean, nullable=False),
)

counted_questions = Table(
    "service_counted",
    METADATA,
    Column("session", Text, primary_key=True),
    Column("place", BigInteger, primary_key=True, autoincrement=False),
    Column("question", Text, nullable=False),
    Column("scale", Text, nullable=False),
    Column("released", Text),
)

# The last head of each data set's ledger that was seen; `restores` is a JSON list of hashes.
heads = Table(
    "service_heads",
    METADATA,
    Column("dataset", Text, primary_key=True),
    Column("ledger", Text, nullable=False),
    Column("entry", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("restores", Text, nullable=False),
    Column("at", Double, nullable=False),
)

counters = Table(
    "service_counters",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("label", Text, primary_key=True),
    Column("value", Double, nullable=False),
    Column("last", Double),
)

INDICES = (
    Index("service_answer_key", *(answers.c[at] for at in ("dataset", "rehearsal", "analyst", "key")), unique=True),
    Index("service_answer_entry", *(answers.c[at] for at in ("dataset", "rehearsal", "entry"))),
    Index("service_job_key", *(jobs.c[at] for at in ("dataset", "rehearsal", "analyst", "key", "kind")), unique=True),
    Index(
        "service_counting_key",
        *(counting_sessions.c[at] for at in ("dataset", "rehearsal", "analyst", "key")),
        unique=True,
    ),
    Index("service_job_state", jobs.c.state, jobs.c.at),
)
