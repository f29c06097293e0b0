"""Tables 6.1, 6.2 and 6.5 and Figure 6.4 of the thesis: microaggregation and noise on the Census file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from math import sqrt

from discreet.mechanisms.entropy import KeyedEntropy
from discreet.sdc.comparison import score
from discreet.sdc.table import Integers, read_table
from discreet.sdc.table import Table as Records
from papers.columns import read_census
from papers.linkage_curves import build_curve_drawer
from papers.nominal_noise import group_insensitively, release_nominally
from papers.printed_6 import EPSILONS, TABLE_6_1, TABLE_6_2, TABLE_6_5
from papers.release_measures import NOMINAL, ReleaseMeasures, RunMeasures, measure_microaggregated
from papers.rows import Row, build_not_reproducible, compare_equal, compare_sampled
from papers.tables import Data, Table

NAMES = ("FICA", "FEDTAX", "INTVAL", "POTHVAL")
KS = (1, 2, 5, 15, 30)
OTHER_KS = (10, 50, 100)
RUNS, OTHER_RUNS = 30, 5
ERRORS, MOST = 4, 0.5  # a figure that chance may halve says nothing
"""Where no tolerance is known, so many standard errors of ten printed runs beside ours."""
KNOWN = {"means": 0.1, "variances": 0.04}
"""How near Table 6.5 comes where noise is most of it; more where ten printed runs tell less than that."""
BY_CHANCE = "a linkage or two by chance in ten runs of 1,080 records"
CORNERS = "it hangs on the order of the corners, which the thesis does not tell"


@cache
def read_four_columns(data: Data) -> Records:
    """With domains from 0 to 1.5 times the greatest value, as the thesis has them: these are data too (erratum 3.1)."""
    columns = read_census(data)
    selected = {name: columns[name] for name in NAMES}
    return read_table(selected, domains={name: (0, 1.5 * float(column.max())) for name, column in selected.items()})


@cache
def measure_without_noise(data: Data, k: int, method: str = "mdav") -> ReleaseMeasures:
    """Microaggregation alone."""
    return measure_microaggregated(read_four_columns(data), k, method)


@cache
def measure_with_noise(data: Data, k: int, epsilon: str) -> RunMeasures:
    """The thesis's own noise, which is the same every time."""
    table, entropy = read_four_columns(data), KeyedEntropy(b"chapter 6", f"{k} {epsilon}")
    runs, groups = RUNS if k in KS else OTHER_RUNS, _group_records(data, k)
    releases = (release_nominally(table, k, float(epsilon), entropy, groups)[0] for _ in range(runs))
    return RunMeasures(tuple(ReleaseMeasures.of(table, each) for each in releases))


@cache
def _group_records(data: Data, k: int) -> Integers:
    return group_insensitively(read_four_columns(data), k)


def _compare_table_6_1(data: Data) -> Iterator[Row]:
    for k, (sse, linkages, *factors) in TABLE_6_1.items():
        base, id = measure_without_noise(data, k), f"001.6.1.k{k}"
        yield compare_equal(f"{id}.mdav", f"MDAV, k = {k}: SSE_0 and RL_0", [sse, linkages], [base.sse, base.linkages])
        for epsilon, (sse_f, rl_f, _) in zip(EPSILONS, factors, strict=True):
            noisy = measure_with_noise(data, k, epsilon)
            cell = f"k = {k}, epsilon {epsilon}"
            yield _compare_sse(f"{id}.eps{epsilon}", cell, sse_f, sqrt(base.sse / noisy.sse))
            yield _compare_linkages(
                f"{id}.eps{epsilon}", cell, rl_f, base.linkages / noisy.linkages, noisy.linkage_error
            )
        yield compare_scores(id, f"k = {k}", factors)


def _compare_table_6_2(data: Data) -> Iterator[Row]:
    for epsilon, (sse, linkages, *factors) in TABLE_6_2.items():
        base, id = measure_with_noise(data, 1, epsilon), f"001.6.2.eps{epsilon}"
        note = f"{RUNS} runs beside ten; {NOMINAL}"
        yield compare_sampled(f"{id}.k1.sse", f"epsilon {epsilon}, k = 1: SSE_0", sse, base.sse, 0.04, note)
        cell = f"epsilon {epsilon}, k = 1"
        yield _compare_linkages(f"{id}.k1", cell, linkages, base.linkages, base.linkage_error, "RL_0")
        for k, (sse_f, rl_f, _) in zip((5, 15, 30), factors, strict=True):
            noisy, cell = measure_with_noise(data, k, epsilon), f"epsilon {epsilon}, k = {k}"
            error = sqrt(base.linkage_error**2 + noisy.linkage_error**2)
            yield _compare_sse(f"{id}.k{k}", cell, sse_f, sqrt(base.sse / noisy.sse))
            yield _compare_linkages(f"{id}.k{k}", cell, rl_f, base.linkages / noisy.linkages, error)
        yield compare_scores(id, f"epsilon {epsilon}", factors)


def _compare_sse(id: str, cell: str, printed: str, obtained: float) -> Row:
    return compare_sampled(f"{id}.sse", f"{cell}: SSE_f", printed, obtained, 0.04, f"{RUNS} runs beside ten; {NOMINAL}")


def _compare_linkages(id: str, cell: str, printed: str, obtained: float, error: float, name: str = "RL_f") -> Row:
    """Compared where there are linkages to speak of, with epsilon 10."""
    if "epsilon 10" not in cell:
        return build_not_reproducible(
            f"{id}.rl", f"{cell}: {name}", printed, obtained, "single run", f"{BY_CHANCE}; {NOMINAL}"
        )
    note = f"{ERRORS} standard errors of {RUNS} runs beside ten; {NOMINAL}"
    return compare_sampled(f"{id}.rl", f"{cell}: {name}", printed, obtained, ERRORS * error, note)


def compare_scores(id: str, cell: str, factors: Sequence[tuple[str, str, str]]) -> Row:
    """The printed scores from the printed factors."""
    printed = [each for _, _, each in factors]
    scores = [score(float(sse_f) ** 2, float(rl_f), 1, 1) for sse_f, rl_f, _ in factors]
    note = "the product of the printed factors, as rounded; the formula beside the table divides"
    return compare_equal(f"{id}.score", f"{cell}: Scores", printed, scores, 0.04, note)


def find_printed_variations(statistic: str, k: int, column: int) -> dict[str, str]:
    """A column of Table 6.5, for a statistic and a k, by attribute."""
    lines = {name: text.split("\n") for (of, name), text in TABLE_6_5.items() if of == statistic}
    return {
        name: next(line.split() for line in text if line.split()[:1] == [str(k)])[column + 1]
        for name, text in lines.items()
    }


def _compare_table_6_5(data: Data) -> Iterator[Row]:
    for statistic in ("means", "variances"):
        for k in KS:
            for place, epsilon in enumerate(EPSILONS):
                for column, printed in find_printed_variations(statistic, k, place).items():
                    yield _compare_variation(data, statistic, column, k, epsilon, printed)
            if k > 1:
                yield from _compare_microaggregated(data, statistic, k)


def _compare_variation(data: Data, statistic: str, column: str, k: int, epsilon: str, printed: str) -> Row:
    variation, error = measure_with_noise(data, k, epsilon).variation(statistic, column)
    id, cell = f"001.6.5.{statistic}.{column}.k{k}.eps{epsilon}", f"{statistic} of {column}, k = {k}, epsilon {epsilon}"
    is_little = epsilon == "10" or (epsilon == "1" and k == 30)
    if statistic == "means" and is_little:
        why = f"what is left of ten draws around nothing; {NOMINAL}"
        return build_not_reproducible(id, cell, printed, variation, "single run", why)
    if statistic == "variances" and is_little and k > 1:
        return build_not_reproducible(id, cell, printed, variation, "data", f"{CORNERS}; {NOMINAL}")
    within = max(KNOWN[statistic], ERRORS * error)
    if within > MOST:
        why = f"{ERRORS} standard errors of ten runs are {100 * within:.0f} % of it; {NOMINAL}"
        return build_not_reproducible(id, cell, printed, variation, "single run", why)
    margin_text = f"{ERRORS} standard errors of " if within > KNOWN[statistic] else ""
    return compare_sampled(id, cell, printed, variation, within, f"{margin_text}{RUNS} runs beside ten; {NOMINAL}")


def _compare_microaggregated(data: Data, statistic: str, k: int) -> Iterator[Row]:
    id, cell = f"001.6.5.{statistic}.k{k}", f"{statistic}, k = {k}"
    for place, (name, method) in enumerate((("insensitive", "insensitive"), ("MDAV", "mdav")), 4):
        printed = find_printed_variations(statistic, k, place)
        change: dict[str, float] = getattr(measure_without_noise(data, k, method), statistic)
        variations = {each: round(change[each], 12) for each in printed}
        if method == "mdav" or statistic == "means":
            yield compare_equal(f"{id}.{method}", f"{cell}, {name}", printed, variations)
        else:
            yield build_not_reproducible(f"{id}.{method}", f"{cell}, {name}", printed, variations, "data", CORNERS)


def _compare_figure_6_4(data: Data) -> Iterator[Row]:
    ks = sorted((*KS, *OTHER_KS))
    why = "a curve over k; its printed points are in Tables 6.1 and 6.2"
    for name, method in (("MDAV", "mdav"), ("insensitive", "insensitive")):
        measures = {k: measure_without_noise(data, k, method) for k in ks[1:]}
        obtained = {str(k): [measures_at_k.sse, measures_at_k.linkages] for k, measures_at_k in measures.items()}
        yield build_not_reproducible(
            f"001.figure-6.4.{method}", f"{name}: SSE and RL by k", None, obtained, "drawing", why
        )
    for epsilon in EPSILONS:
        runs = {k: measure_with_noise(data, k, epsilon) for k in ks}
        obtained = {str(k): [measures_at_k.sse, measures_at_k.linkages] for k, measures_at_k in runs.items()}
        id, cell = f"001.figure-6.4.eps{epsilon}", f"epsilon {epsilon}: SSE and RL by k"
        yield build_not_reproducible(id, cell, None, obtained, "drawing", f"{why}; {NOMINAL}")
    few = measure_without_noise(data, 20).linkages < 5
    yield compare_equal("001.figure-6.4.twenty", "MDAV with k = 20 leaves less than 5 % of linkages", True, few)


NEEDS = ("census.csv",)
PICTURES = build_curve_drawer("Figure 6.4", "Census", TABLE_6_1, TABLE_6_2)
TABLES: tuple[Table, ...] = (
    Table(
        "001-6.1", "Table 6.1", "Noise after microaggregation against MDAV, Census.", _compare_table_6_1, needs=NEEDS
    ),
    Table(
        "001-6.2",
        "Table 6.2",
        "Noise after microaggregation against noise alone, Census.",
        _compare_table_6_2,
        needs=NEEDS,
    ),
    Table("001-6.5", "Table 6.5", "By how much means and variances change, Census.", _compare_table_6_5, needs=NEEDS),
    Table(
        "001-figure-6.4", "Figure 6.4", "SSE and record linkages over k, Census.", _compare_figure_6_4, PICTURES, NEEDS
    ),
)
