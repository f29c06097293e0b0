"""MST in a process and an environment of its own, started early since it takes longest."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.private_microdata.release_methods import DELTA
from benchmarks.private_microdata.tables import Codes, Table
from benchmarks.query.environments import ROOT, prepare_interpreter

PEER = "smartnoise-synth"
MST = "MST"


@dataclass(frozen=True)
class MstProcess:
    """One process, and the file it will leave."""

    table: Table
    process: subprocess.Popen[bytes]
    out: Path

    def released(self, epsilon: Fraction) -> list[Codes]:
        """Every run's synthetic rows, numbers anywhere within their bin; waits for them."""
        if self.process.wait():
            raise SystemExit(f"{PEER} ended with {self.process.returncode} on {self.table.name}")
        draw = np.random.Generator(np.random.PCG64(9))
        with np.load(self.out) as runs:
            return [self._spread(binned, draw) for binned in runs[str(float(epsilon))]]

    def _spread(self, binned: Codes, draw: np.random.Generator) -> Codes:
        return np.stack([field.spread(column, draw) for field, column in zip(self.table.fields, binned, strict=True)])


@contextmanager
def start_mst(table: Table, epsilons: Sequence[Fraction], runs: int, folder: Path) -> Iterator[MstProcess]:
    """It is given the codes of the bins in which its tables are compared; it ends with the one who asked."""
    folder.mkdir(parents=True)
    sizes = [field.bins for field in table.fields]
    np.savez(folder / "table.npz", codes=table.to_bins(table.codes), sizes=sizes)
    settings = json.dumps({"epsilons": [float(epsilon) for epsilon in epsilons], "runs": runs, "delta": float(DELTA)})
    module = "benchmarks.private_microdata.by_smartnoise_synth"
    command = [prepare_interpreter(PEER), "-m", module, folder / "table.npz", folder / "out.npz", settings]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    try:
        yield MstProcess(table, process, folder / "out.npz")
    finally:
        process.kill()
        process.wait()
