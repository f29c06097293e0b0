"""Writes a copy of everything that a user can see into a folder: `python recorder.py FOLDER [AREA...]`."""

from __future__ import annotations

# ruff: noqa: E402
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support", "launcher"))
import fixed_machine

fixed_machine.install()  # before anything else is imported, so that nothing keeps the true clock or generator

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import record_commands
import record_library
import record_mistakes
import record_questions
import record_service
from package_places import find
from run_steps import Case, fork, import_all, run_command

PATIENTS = 500
AREAS: dict[str, Callable[[Path], Iterator[Case]]] = {
    "ask": record_questions.make,
    "help": record_commands.make_help,
    "custody": record_commands.make_custody,
    "ledger": record_commands.make_ledger,
    "publish": record_commands.make_publish,
    "audit": record_commands.make_audit,
    "serving": record_commands.make_serving,
    "mistakes": record_mistakes.make,
    "library": record_library.make,
    "service": record_service.make,
}


def record(out: Path, areas: Sequence[str]) -> None:
    """Write all copies of some areas."""
    import_all()
    # Not a TemporaryDirectory, which every forked process would take away as it ends.
    registered = Path(tempfile.mkdtemp(prefix="discreet-copy-", dir="/tmp"))
    try:
        find("write_registry")(registered, PATIENTS)
        code, _, err = fork("registering", lambda: run_command(["check", "registry.yaml"]), registered)
        assert code == 0, err
        for area in areas:
            start = os.times()
            for case in AREAS[area](registered):
                case.finish(out)
            spent = sum(os.times()[:4]) - sum(start[:4])
            if "COPIES_TIMED" in os.environ:
                print(f"{area}: {spent:.1f} seconds of the processor", file=sys.stderr)
    finally:
        shutil.rmtree(registered)


if __name__ == "__main__":
    record(Path(sys.argv[1]), sys.argv[2:] or tuple(AREAS))
