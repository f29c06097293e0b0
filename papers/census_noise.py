"""Tables 6.1, 6.2 and 6.5 and Figure 6.4 of the thesis: microaggregation and noise on the Census file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from math import sqrt

from discreet.mechanisms.entropy import KeyedEntropy
from discreet.sdc.comparison import score
from discreet.sdc.table import Integers, read_table
from discreet.sdc.table import Table as Records
from papers.columns import census
from papers.curves import curves
from papers.noisy import NOMINAL, Measured, Runs, microaggregated
from papers.nominal import nominal_groups, nominal_release
from papers.printed_6 import EPSILONS, TABLE_6_1, TABLE_6_2, TABLE_6_5
from papers.rows import Row, beyond, equal, sampled
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
def four_columns(data: Data) -> Records:
    """With domains from 0 to 1.5 times the greatest value, as the thesis has them: these are data too (erratum 3.1)."""
    columns = census(data)
    chosen = {name: columns[name] for name in NAMES}
    return read_table(chosen, domains={name: (0, 1.5 * float(column.max())) for name, column in chosen.items()})


@cache
def without_noise(data: Data, k: int, method: str = "mdav") -> Measured:
    """Microaggregation alone."""
    return microaggregated(four_columns(data), k, method)


@cache
def with_noise(data: Data, k: int, epsilon: str) -> Runs:
    """The thesis's own noise, which is the same every time."""
    table, entropy = four_columns(data), KeyedEntropy(b"chapter 6", f"{k} {epsilon}")
    runs, groups = RUNS if k in KS else OTHER_RUNS, _groups(data, k)
    made = (nominal_release(table, k, float(epsilon), entropy, groups)[0] for _ in range(runs))
    return Runs(tuple(Measured.of(table, each) for each in made))


@cache
def _groups(data: Data, k: int) -> Integers:
    return nominal_groups(four_columns(data), k)


def _table_6_1(data: Data) -> Iterator[Row]:
    for k, (sse, linkages, *factors) in TABLE_6_1.items():
        base, id = without_noise(data, k), f"001.6.1.k{k}"
        yield equal(f"{id}.mdav", f"MDAV, k = {k}: SSE_0 and RL_0", [sse, linkages], [base.sse, base.linkages])
        for epsilon, (sse_f, rl_f, _) in zip(EPSILONS, factors, strict=True):
            found = with_noise(data, k, epsilon)
            cell = f"k = {k}, epsilon {epsilon}"
            yield _sse_row(f"{id}.eps{epsilon}", cell, sse_f, sqrt(base.sse / found.sse))
            yield _linkage_row(f"{id}.eps{epsilon}", cell, rl_f, base.linkages / found.linkages, found.linkage_error)
        yield score_row(id, f"k = {k}", factors)


def _table_6_2(data: Data) -> Iterator[Row]:
    for epsilon, (sse, linkages, *factors) in TABLE_6_2.items():
        base, id = with_noise(data, 1, epsilon), f"001.6.2.eps{epsilon}"
        note = f"{RUNS} runs beside ten; {NOMINAL}"
        yield sampled(f"{id}.k1.sse", f"epsilon {epsilon}, k = 1: SSE_0", sse, base.sse, 0.04, note)
        cell = f"epsilon {epsilon}, k = 1"
        yield _linkage_row(f"{id}.k1", cell, linkages, base.linkages, base.linkage_error, "RL_0")
        for k, (sse_f, rl_f, _) in zip((5, 15, 30), factors, strict=True):
            found, cell = with_noise(data, k, epsilon), f"epsilon {epsilon}, k = {k}"
            error = sqrt(base.linkage_error**2 + found.linkage_error**2)
            yield _sse_row(f"{id}.k{k}", cell, sse_f, sqrt(base.sse / found.sse))
            yield _linkage_row(f"{id}.k{k}", cell, rl_f, base.linkages / found.linkages, error)
        yield score_row(id, f"epsilon {epsilon}", factors)


def _sse_row(id: str, cell: str, printed: str, obtained: float) -> Row:
    return sampled(f"{id}.sse", f"{cell}: SSE_f", printed, obtained, 0.04, f"{RUNS} runs beside ten; {NOMINAL}")


def _linkage_row(id: str, cell: str, printed: str, obtained: float, error: float, name: str = "RL_f") -> Row:
    """Compared where there are linkages to speak of, with epsilon 10."""
    if "epsilon 10" not in cell:
        return beyond(f"{id}.rl", f"{cell}: {name}", printed, obtained, "single run", f"{BY_CHANCE}; {NOMINAL}")
    note = f"{ERRORS} standard errors of {RUNS} runs beside ten; {NOMINAL}"
    return sampled(f"{id}.rl", f"{cell}: {name}", printed, obtained, ERRORS * error, note)


def score_row(id: str, cell: str, factors: Sequence[tuple[str, str, str]]) -> Row:
    """The printed scores from the printed factors."""
    printed = [each for _, _, each in factors]
    found = [score(float(sse_f) ** 2, float(rl_f), 1, 1) for sse_f, rl_f, _ in factors]
    note = "the product of the printed factors, as rounded; the formula beside the table divides"
    return equal(f"{id}.score", f"{cell}: Scores", printed, found, 0.04, note)


def printed_variations(statistic: str, k: int, column: int) -> dict[str, str]:
    """A column of Table 6.5, for a statistic and a k, by attribute."""
    lines = {name: text.split("\n") for (of, name), text in TABLE_6_5.items() if of == statistic}
    return {
        name: next(line.split() for line in text if line.split()[:1] == [str(k)])[column + 1]
        for name, text in lines.items()
    }


def _table_6_5(data: Data) -> Iterator[Row]:
    for statistic in ("means", "variances"):
        for k in KS:
            for at, epsilon in enumerate(EPSILONS):
                for column, printed in printed_variations(statistic, k, at).items():
                    yield _variation_row(data, statistic, column, k, epsilon, printed)
            if k > 1:
                yield from _microaggregated_rows(data, statistic, k)


def _variation_row(data: Data, statistic: str, column: str, k: int, epsilon: str, printed: str) -> Row:
    found, error = with_noise(data, k, epsilon).variation(statistic, column)
    id, cell = f"001.6.5.{statistic}.{column}.k{k}.eps{epsilon}", f"{statistic} of {column}, k = {k}, epsilon {epsilon}"
    little = epsilon == "10" or (epsilon == "1" and k == 30)
    if statistic == "means" and little:
        why = f"what is left of ten draws around nothing; {NOMINAL}"
        return beyond(id, cell, printed, found, "single run", why)
    if statistic == "variances" and little and k > 1:
        return beyond(id, cell, printed, found, "data", f"{CORNERS}; {NOMINAL}")
    within = max(KNOWN[statistic], ERRORS * error)
    if within > MOST:
        why = f"{ERRORS} standard errors of ten runs are {100 * within:.0f} % of it; {NOMINAL}"
        return beyond(id, cell, printed, found, "single run", why)
    told = f"{ERRORS} standard errors of " if within > KNOWN[statistic] else ""
    return sampled(id, cell, printed, found, within, f"{told}{RUNS} runs beside ten; {NOMINAL}")


def _microaggregated_rows(data: Data, statistic: str, k: int) -> Iterator[Row]:
    id, cell = f"001.6.5.{statistic}.k{k}", f"{statistic}, k = {k}"
    for at, (name, method) in enumerate((("insensitive", "insensitive"), ("MDAV", "mdav")), 4):
        printed = printed_variations(statistic, k, at)
        change: dict[str, float] = getattr(without_noise(data, k, method), statistic)
        found = {each: round(change[each], 12) for each in printed}
        if method == "mdav" or statistic == "means":
            yield equal(f"{id}.{method}", f"{cell}, {name}", printed, found)
        else:
            yield beyond(f"{id}.{method}", f"{cell}, {name}", printed, found, "data", CORNERS)


def _figure_6_4(data: Data) -> Iterator[Row]:
    ks = sorted((*KS, *OTHER_KS))
    why = "a curve over k; its printed points are in Tables 6.1 and 6.2"
    for name, method in (("MDAV", "mdav"), ("insensitive", "insensitive")):
        found = {k: without_noise(data, k, method) for k in ks[1:]}
        obtained = {str(k): [one.sse, one.linkages] for k, one in found.items()}
        yield beyond(f"001.figure-6.4.{method}", f"{name}: SSE and RL by k", None, obtained, "drawing", why)
    for epsilon in EPSILONS:
        runs = {k: with_noise(data, k, epsilon) for k in ks}
        obtained = {str(k): [one.sse, one.linkages] for k, one in runs.items()}
        id, cell = f"001.figure-6.4.eps{epsilon}", f"epsilon {epsilon}: SSE and RL by k"
        yield beyond(id, cell, None, obtained, "drawing", f"{why}; {NOMINAL}")
    few = without_noise(data, 20).linkages < 5
    yield equal("001.figure-6.4.twenty", "MDAV with k = 20 leaves less than 5 % of linkages", True, few)


NEEDS = ("census.csv",)
PICTURES = curves("Figure 6.4", "Census", TABLE_6_1, TABLE_6_2)
TABLES: tuple[Table, ...] = (
    Table("001-6.1", "Table 6.1", "Noise after microaggregation against MDAV, Census.", _table_6_1, needs=NEEDS),
    Table("001-6.2", "Table 6.2", "Noise after microaggregation against noise alone, Census.", _table_6_2, needs=NEEDS),
    Table("001-6.5", "Table 6.5", "By how much means and variances change, Census.", _table_6_5, needs=NEEDS),
    Table("001-figure-6.4", "Figure 6.4", "SSE and record linkages over k, Census.", _figure_6_4, PICTURES, NEEDS),
)
