"""The peers' virtual environments: one each, made from its lock in benchmarks/peers when first needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PIP_INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
FROM_LOCK = ("--no-deps", "--require-hashes", "--requirement")  # a lock has all that is needed


def prepare_interpreter(peer: str) -> Path:
    """The Python of a peer's environment; a changed lock makes it anew."""
    lock, home = ROOT / "benchmarks" / "peers" / f"{peer}.txt", ROOT / ".venv-peers" / peer
    python, installed_lock = home / "bin" / "python", home / "lock.txt"
    if not installed_lock.exists() or installed_lock.read_text() != lock.read_text():
        print(f"making {home.relative_to(ROOT)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        subprocess.run([python, *PIP_INSTALL, *FROM_LOCK, lock], check=True)
        installed_lock.write_text(lock.read_text())
    return python
