"""A Polars data frame in; a histogram, its ranges and a private file out, as data frames.

Run it: `python examples/polars_in_and_out.py`. The trips are made up here; all files go to a temporary folder.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from discreet import Custodian

# What is public about the table: the last trip of each of 6,000 riders. The bounds are not taken from the trips.
SCHEMA = """
name: trips
source: memory              # the data frame is handed over below
neighbours: replace-one
units: 6000
unit: {column: rider, rows: 1}
budget: {epsilon: 3}
models: [dp]
columns:
  rider: {role: identifier}
  minutes: {kind: integer, lower: 0, upper: 119}
  rain: {kind: boolean}
"""
RANGES = ((0, 9), (10, 29), (30, 59), (60, 119))


def make_trips(riders: int = 6000) -> pl.DataFrame:
    """How long each rode, by bicycle, and whether it rained."""
    chance = np.random.default_rng(11)
    rain = chance.random(riders) < 0.3
    minutes = np.clip(chance.gamma(4, 6, riders) - 4 * rain, 1, 119).astype(int)
    return pl.DataFrame({"rider": [f"r{n}" for n in range(riders)], "minutes": minutes, "rain": rain})


def ask_for_ranges(custodian: Custodian) -> pl.DataFrame:
    """One histogram in 24 bins of five minutes, and any number of ranges of it for nothing more."""
    bars = custodian.answer("SELECT HISTOGRAM(minutes, 24) FROM trips", epsilon=0.5)
    found = [bars.range(low, high) for low, high in RANGES]
    return pl.DataFrame(
        {
            "minutes": [f"{low} to {high}" for low, high in RANGES],
            "trips": [round(one.value) for one in found],
            "at least": [round(one.interval[0]) for one in found],
            "at most": [round(one.interval[1]) for one in found],
        }
    )


def main() -> None:
    """In, out, and beside the truth, which only the custodian sees."""
    table = make_trips()
    folder = Path(tempfile.mkdtemp())
    (folder / "trips.yaml").write_text(SCHEMA, encoding="utf-8")
    with Custodian.open(folder / "trips.yaml", source=table) as custodian:
        answer = custodian.answer("SELECT rain, AVG(minutes) FROM trips GROUP BY rain", epsilon=0.5)
        print(answer.guarantee.words())
        print(pl.DataFrame(answer.rows).drop_nulls("rain"))  # one group is of those of whom that is missing

        exact = [table.filter(pl.col("minutes").is_between(low, high)).height for low, high in RANGES]
        print(ask_for_ranges(custodian).with_columns(pl.Series("truth", exact)))

        release = custodian.publish("private-linked", folder / "trips.parquet", epsilon=1, columns=["minutes", "rain"])
        released_trips = pl.read_parquet(release.files[0])
        print("From the private file, of which no row is copied from anybody's:")
        print(released_trips.group_by("rain").agg(pl.len().alias("trips"), pl.col("minutes").mean()).sort("rain"))
        print(f"Left of epsilon 3: {float(custodian.budget()[0].left):g}")


if __name__ == "__main__":
    main()
