"""What the processes of a service import, imported once in the one that they are forked from.

Nothing that starts a thread, which would not live through a fork; but OpenBLAS, which ends its own before one and
starts them anew. What cannot be imported is left to who needs it, and says so then. Forked processes have one layout of
memory: who learns it from one that crashes knows it of the next, which helps only if an engine has a flaw as well.
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
