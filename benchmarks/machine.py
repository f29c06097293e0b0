"""What the figures were measured with: this machine, and the versions of everybody."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import version
from pathlib import Path

from benchmarks.results import ROOT

OWN_PACKAGES = ("duckdb", "numpy", "numba", "pyarrow", "pyspark")
PEERS = ("diffprivlib", "opendp", "python-dp", "smartnoise-sql", "smartnoise-synth", "tumult", "anjana", "pycanon")


def describe_machine() -> dict[str, str]:
    """Processor, cores, memory and system, as Linux tells them."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*:\s*(.+)", cpuinfo)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": model[1].strip() if model else platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory:.0f} GB",
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
    }


def list_versions() -> dict[str, str]:
    """Ours as they run, the peers' as they are locked."""
    ours = {"Python": platform.python_version(), "discreet": version("discreet")}
    return (
        ours
        | {name: version(name) for name in OWN_PACKAGES if _is_installed(name)}
        | {peer: _read_locked_version(peer) for peer in PEERS}
    )


def _is_installed(name: str) -> bool:
    try:
        return bool(version(name))
    except ModuleNotFoundError:
        return False


def _read_locked_version(peer: str) -> str:
    text = (ROOT / "benchmarks" / "peers" / f"{peer}.in").read_text()
    match = re.search(r"==([\w.]+)", text)
    return match[1] if match else "any"
