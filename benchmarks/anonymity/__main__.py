"""Make the table, let everybody release it, measure every release with one yardstick and with both measures."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from benchmarks.anonymity.information_loss import Loss, measure_loss, read_rows
from benchmarks.anonymity.task import QUASI, ROW, SECRET, SUPPRESSED, K, T
from benchmarks.measure import Line, report
from benchmarks.query.environments import prepare_interpreter
from benchmarks.query.table import generate_people
from benchmarks.results import ROOT, BenchmarkResult, Row, Table

MAKERS = {
    "generalise": ("discreet", "by_discreet", ("generalise",)),
    "mdav_id": ("discreet", "by_discreet", ("mdav_id",)),
    "anjana k": ("anjana", "by_anjana", ("k",)),
    "anjana t": ("anjana", "by_anjana", ("t",)),
}
"""By the name of the release: whose environment, which module, and with what words."""
TITLES = {
    "generalise": "discreet, generalise",
    "mdav_id": "discreet, mdav_id",
    "anjana k": "anjana",
    "anjana t": "t-close",
}
CLOSE = 1e-9
Facts = Mapping[str, Any]


def write_people(rows: int, folder: Path) -> None:
    """The people of the other comparisons, income as a decile, and a number for every row."""
    table = generate_people(rows)
    rank = pc.rank(table["income"], sort_keys="ascending", tiebreaker="first")
    table = table.append_column(SECRET, pc.divide(pc.multiply(pc.subtract(rank, 1), 10), rows).cast("int64"))
    table = table.append_column(ROW, pc.subtract(pc.rank(table["income"], tiebreaker="first"), 1).cast("int64"))
    pa_csv.write_csv(table.select([*QUASI, SECRET, ROW]), folder / "people.csv")


def run_contestant(environment: str, module: str, *words: object) -> Any:
    python = sys.executable if environment == "discreet" else prepare_interpreter(environment)
    command = [python, "-m", f"benchmarks.anonymity.{module}", *map(str, words)]
    process = subprocess.run(
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    return json.loads(process.stdout.strip().splitlines()[-1])


def build_tables(rows: int, times: Mapping[str, Facts], losses: Mapping[str, Loss]) -> Iterator[Table]:
    """What each took and lost, one opponent at a time."""
    for ours, columns in (("generalise", ("generalise", "anjana k")), ("mdav_id", ("mdav_id", "anjana k"))):
        heads = tuple(TITLES[name] for name in columns)
        figures = (
            Row("time on the processor, s", tuple(times[name]["processor"] for name in columns)),
            Row("most memory, MB", tuple(times[name]["peak"] for name in columns)),
            Row("rows left out", tuple(losses[name].suppressed for name in columns)),
            Row("information lost (spread in a class)", tuple(losses[name].spread for name in columns)),
            Row("SSE of ages over SST", tuple(losses[name].ages for name in columns)),
            Row("rows alike, for the average row", tuple(losses[name].discernibility for name in columns)),
        )
        title = f"{rows:,} rows to k = {K}, at most {SUPPRESSED:.0%} left out: {ours} beside anjana"
        yield Table(title, heads, figures, heads[0])


def build_measures_table(ours: Mapping[str, Facts], theirs: Mapping[str, Facts]) -> Table:
    """k, l and t of every release by both, and what measuring took."""
    rows = []
    for name in ours:
        rows += [Row(f"{name}: {each}", (ours[name][each], theirs[name][each]), "") for each in ("k", "l", "t")]
        rows.append(Row(f"{name}: seconds to measure", (ours[name]["seconds"], theirs[name]["seconds"])))
    return Table("the same releases, measured by both", ("discreet", "pycanon"), tuple(rows), "discreet")


def list_bars(ours: Mapping[str, Facts], theirs: Mapping[str, Facts]) -> list[Line]:
    """Both agree; what is claimed is so."""
    differences = [abs(ours[name][each] - theirs[name][each]) for name in ours for each in ("k", "l", "t")]
    least_k = min(each["k"] for each in ours.values())
    return [
        Line(
            "k, l and t: the greatest difference from pycanon",
            max(differences),
            "",
            CLOSE,
            False,
            f"{len(differences)} measures",
        ),
        Line("the least k of all releases", least_k, "", K, True),
        Line("anjana's t-close table: t of the earth mover's distance", ours["anjana t"]["t"], "", T, False),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.anonymity", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory(prefix="discreet-") as name:
        folder = Path(name)
        write_people(rows, folder)
        times = {
            each: run_contestant(environment, module, folder, *words)
            for each, (environment, module, words) in MAKERS.items()
        }
        original = read_rows(folder / "people.csv")
        losses = {each: measure_loss(original, read_rows(folder / f"{each}.csv")) for each in MAKERS}
        ours = run_contestant("discreet", "by_discreet", folder, "measure", *MAKERS)
        theirs = run_contestant("pycanon", "by_pycanon", folder, *MAKERS)
    result = BenchmarkResult([*build_tables(rows, times, losses), build_measures_table(ours, theirs)])
    return report(lambda: list_bars(ours, theirs), result=result)


if __name__ == "__main__":
    sys.exit(main())
