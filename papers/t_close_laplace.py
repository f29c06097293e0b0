"""What section 8.3 of the thesis announces: t-close releases against Laplace noise, on the Census file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from discreet.mechanisms.continuous_noise import Laplace
from discreet.mechanisms.entropy import KeyedEntropy
from discreet.schema import Column
from discreet.sdc.methods.t_closeness import t_close
from discreet.sdc.report_charts import Chart
from discreet.sdc.table import Floats, ProtectedTable, read_table
from discreet.synthetic.column_methods import RankBlocks, choose_block_size
from discreet.synthetic.columns import ColumnGrid, PrivacyBudget
from papers import charts
from papers.columns import QUASI, read_census
from papers.correlations import Columns
from papers.nominal_noise import release_nominally
from papers.rows import Row, build_not_reproducible, compare_equal
from papers.tables import Data, Table

NAME, TOP, K = "TAXINC", 200_000, 30
"""The confidential column, a bound of it that is no datum, and the least size of a t-close group."""
EPSILONS = (0.5, 1, 2)
T_CLOSE, LAPLACE, BLOCKS = "t-close, t = exp(epsilon)", "Laplace on every record", "rank blocks"
WHY = "announced, nothing is printed; t-closeness is not differential privacy for any epsilon (erratum 4)"


def _compare_rows(data: Data) -> Iterator[Row]:
    table = read_census(data)
    for epsilon in EPSILONS:
        id, cell = f"001.8.3.eps{epsilon}", f"epsilon {epsilon}"
        released = release_t_close(table, epsilon)
        close = float(str(released.facts["t_ratio"])) <= math.exp(epsilon)
        yield compare_equal(f"{id}.close", f"{cell}: the release is exp(epsilon)-close", True, close)
        values = np.asarray(released[NAME])
        inside = table[NAME].min() <= values.min() and values.max() <= table[NAME].max()
        yield compare_equal(f"{id}.range", f"{cell}: t-close values are in the range of the data", True, bool(inside))
        cell_off = f"{cell}: share of values that Laplace noise takes out of the domain"
        yield build_not_reproducible(
            f"{id}.off-range", cell_off, None, compute_off_range_share(table[NAME], epsilon), "data", WHY
        )
        kinds = {T_CLOSE: values, LAPLACE: add_laplace(table, epsilon), BLOCKS: estimate_by_blocks(table, epsilon)}
        original = table[NAME]
        rows = {
            name: float(np.abs(each - original).mean() / original.std())
            for name, each in kinds.items()
            if name != BLOCKS
        }
        shape = {
            name: float(np.abs(np.sort(each) - np.sort(original)).mean() / original.std())
            for name, each in kinds.items()
        }
        links = {name: compute_correlation_change(table, each) for name, each in kinds.items() if name != BLOCKS}
        unit = "in standard deviations"
        yield build_not_reproducible(
            f"{id}.rows", f"{cell}: mean error of a row's value, {unit}", None, rows, "data", WHY
        )
        yield build_not_reproducible(
            f"{id}.shape", f"{cell}: mean error of sorted values, {unit}", None, shape, "data", WHY
        )
        yield build_not_reproducible(f"{id}.links", f"{cell}: mean change of correlations", None, links, "data", WHY)


def release_t_close(table: Columns, epsilon: float) -> ProtectedTable:
    """Quasi-identifiers as they are, and the confidential column in buckets that are exp(epsilon)-close."""
    close = Fraction(math.floor(math.exp(epsilon) * 1000), 1000)
    entropy = KeyedEntropy(b"section 8.3", f"t-close {epsilon}")
    return t_close(dict(table), close, K, list(QUASI), NAME, entropy=entropy)


def add_laplace(table: Columns, epsilon: float) -> Floats:
    """Noise of the domain's width over epsilon on every record, clipped: what stands for a row is epsilon-private."""
    column = read_table({NAME: table[NAME]}, domains={NAME: (0, TOP)})
    entropy = KeyedEntropy(b"section 8.3", f"Laplace {epsilon}")
    return np.asarray(release_nominally(column, 1, epsilon, entropy)[0][NAME].values, dtype=np.float64)


def estimate_by_blocks(table: Columns, epsilon: float) -> Floats:
    """The column alone, by noisy sums of blocks of ranks: epsilon-differentially private, without its rows."""
    original, loss = table[NAME], PrivacyBudget(Fraction(str(epsilon)))
    plan = RankBlocks(
        ColumnGrid.of(Column(NAME, "integer", 0, TOP, missing=0)),
        len(original),
        choose_block_size(len(original), loss),
        loss,
    )
    counts = np.bincount(np.clip(original, 0, TOP).astype(np.int64), minlength=TOP + 1)
    measured = plan.measure(counts, KeyedEntropy(b"section 8.3", f"blocks {epsilon}"))
    return np.repeat(np.arange(TOP + 1, dtype=np.float64), plan.estimate_counts(measured))


def compute_off_range_share(original: Floats, epsilon: float) -> float:
    """The expected share, before anything is clipped."""
    noise = Laplace(epsilon, TOP)
    return float(np.mean([(noise.tail(float(x)) + noise.tail(float(TOP - x))) / 2 for x in original]))


def compute_correlation_change(table: Columns, values: Floats) -> float:
    """The mean of |after - before| over the six quasi-identifiers."""
    before, after = ([np.corrcoef(table[name], each)[0, 1] for name in QUASI] for each in (table[NAME], values))
    return float(np.mean(np.abs(np.array(after) - np.array(before))))


def _draw_pictures(rows: Sequence[Row]) -> list[Chart]:
    pictures = []
    for part, up in (("rows", "error of a row's value"), ("links", "change of correlations")):
        series: dict[str, dict[str, float]] = {T_CLOSE: {}, LAPLACE: {}}
        for row in rows:
            if row.id.endswith(part) and isinstance(row.obtained, dict):
                for name, value in row.obtained.items():
                    series[name][row.cell.partition(":")[0]] = value
        sentence = f"The {up} by t-close releases and by Laplace noise; the first are not differentially private."
        pictures.append(charts.draw_bars(f"Section 8.3: {up}", sentence, "", up, series))
    return pictures


TABLES: tuple[Table, ...] = (
    Table(
        "001-8.3",
        "Section 8.3",
        "t-close releases against Laplace noise, which the thesis announces.",
        _compare_rows,
        _draw_pictures,
        ("census.csv",),
    ),
)
