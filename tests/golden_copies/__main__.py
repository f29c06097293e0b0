"""Compare everything a user can see with the copies in this folder: `python -m tests.golden_copies`.

The recorder runs the package on made-up data, with a random generator that is seeded by names and a clock that stands
still (`support/launcher/fixed_machine.py`). What the package says, writes and stores is compared with `copies`, file by
file. Moving and renaming code changes nothing. Where a change is meant, `python -m tests.golden_copies --write` writes
all copies again; read the difference before you commit it. Areas such as `ask` or `service` select some of them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path

FOLDER = Path(__file__).parent
COPIES = FOLDER / "copies"
RECORDER = FOLDER / "recorder.py"
AREAS: Mapping[str, Sequence[str]] = {
    "commands": ("help", "custody", "ledger", "publish", "audit", "serving", "mistakes"),
    "questions": ("ask",),
    "library and service": ("library", "service"),
}
"""The folders of copies that are compared by one test."""
REWRITE = "if this is meant, write the copies anew and look at the difference: python -m tests.golden_copies --write"
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
"""A process with threads cannot be forked safely, and sums are added up in one order."""
MOST_LINES = 60
"""Of the difference of one file that are told."""


def record(out: Path, areas: Sequence[str] = ()) -> None:
    """Write copies of what there is now into a folder, of some areas or of all."""
    sources = os.pathsep.join([str(FOLDER.parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | ONE_THREAD | {"PYTHONPATH": sources}
    subprocess.run([sys.executable, str(RECORDER), str(out), *areas], env=environment, check=True)


def compare(kept_folder: Path, made_folder: Path, areas: Sequence[str] = ()) -> Iterator[str]:
    """Yield what differs: each file that is new, gone or other, with its difference."""
    names = {path.relative_to(folder) for folder in (kept_folder, made_folder) for path in folder.rglob("*.txt")}
    for name in sorted(names):
        if areas and name.parts[0] not in areas:
            continue
        old, new = (
            (folder / name).read_text() if (folder / name).exists() else None for folder in (kept_folder, made_folder)
        )
        if old != new:
            yield f"{name}: {_tell(name, old, new)}"


def _tell(name: Path, old: str | None, new: str | None) -> str:
    """Return how a file differs, in lines."""
    if old is None or new is None:
        return "it is new, and there is no copy of it" if old is None else "there is a copy of it, and it is no more"
    differences = [
        *unified_diff(old.splitlines(), new.splitlines(), f"tests/golden_copies/copies/{name}", "now", lineterm="", n=2)
    ]
    note = [f"... and {len(differences) - MOST_LINES} lines more"] if len(differences) > MOST_LINES else []
    return "\n".join(["it is another", *differences[:MOST_LINES], *note])


def main() -> int:
    """Write the copies, or print the differences; 1 where there are any."""
    reader = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    reader.add_argument("areas", nargs="*", help="areas such as ask or service; all without any")
    reader.add_argument("--write", action="store_true", help="write the copies anew")
    arguments = reader.parse_args()
    with tempfile.TemporaryDirectory() as name:
        made_folder = Path(name)
        record(made_folder, arguments.areas)
        differences = [*compare(COPIES, made_folder, arguments.areas)]
        if arguments.write:
            for area in arguments.areas or [path.name for path in COPIES.glob("*")]:
                shutil.rmtree(COPIES / area, ignore_errors=True)
            shutil.copytree(made_folder, COPIES, dirs_exist_ok=True)
            print(f"{len(differences)} files were written that differed")
            return 0
    print("\n\n".join([*differences, REWRITE]) if differences else "nothing differs")
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main())
