"""Import what the processes of a service need once, in the process that they are forked from.

Nothing here starts a thread, which would not survive a fork, but OpenBLAS, which ends its threads before a fork and
starts them again. A module that cannot be imported fails where it is needed. Forked processes share their layout of
memory: an attacker learns it from one that crashes, which helps only if an engine has a flaw as well.
"""

from __future__ import annotations

import atexit
import gc
from contextlib import suppress
from importlib import import_module

PRELOAD_MODULES = (
    "discreet.service.app",
    "discreet.service.jobs",
    "discreet.sources.duckdb",
    "clarabel",
    "scipy.optimize",
    "scipy.sparse.linalg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.h11_impl",
)

for name in PRELOAD_MODULES:
    with suppress(Exception):
        import_module(name)
gc.freeze()  # who is forked would go through all of it now and then, and so get a copy
atexit.register(gc.unfreeze)  # or libraries take what is frozen for leaks, and say so
