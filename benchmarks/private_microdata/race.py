"""Every way on one table at every epsilon: what was seen, as lines of text, and the bars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.measure import Line
from benchmarks.private_microdata.metrics import Distance, measure_accuracy, measure_distance
from benchmarks.private_microdata.mst_process import MST, MstProcess, start_mst
from benchmarks.private_microdata.release_methods import LINKED, RECORDS, ReleaseMethod, open_release_methods
from benchmarks.private_microdata.tables import Codes, Table

EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(10))
ORIGINAL = "the original itself"
LEARNING_SHARE = 4
"""A model is learnt from a release of the other rows in one run of so many."""


@dataclass(frozen=True)
class MethodResult:
    """The means of one way at one epsilon over its runs."""

    distance: Distance
    accuracy: float
    runs: int

    @staticmethod
    def of(table: Table, released: Iterable[Codes], learnt: Iterable[Codes]) -> MethodResult:
        learning_table, test_table = table.split_for_learning()
        each = np.array([astuple(measure_distance(table, codes)) for codes in released])
        accuracies = np.mean([measure_accuracy(learning_table, codes, test_table) for codes in learnt])
        return MethodResult(Distance(*each.mean(axis=0).tolist()), float(accuracies), len(each))


Peer = tuple[MstProcess, MstProcess]
Results = Mapping[tuple[str, Fraction], MethodResult]
"""By way and epsilon."""


def run_methods(table: Table, names: Sequence[str], runs: int, peer: Peer | None) -> Results:
    """The named ways here, and the peer if it was started."""
    learning_table, _ = table.split_for_learning()
    results = {}
    with open_release_methods(table) as on_all, open_release_methods(learning_table) as on_learning:
        for name, epsilon in product(names, EPSILONS):
            released, learnt = (
                _draw_releases(on_all[name], epsilon, runs),
                _draw_releases(on_learning[name], epsilon, -(-runs // LEARNING_SHARE)),
            )
            results[name, epsilon] = MethodResult.of(table, released, learnt)
    for epsilon in EPSILONS:
        if peer:
            results[MST, epsilon] = MethodResult.of(table, *(each.released(epsilon) for each in peer))
        results[ORIGINAL, epsilon] = MethodResult.of(table, [table.codes], [learning_table.codes])
    return results


@contextmanager
def start_peer(table: Table, runs: int, folder: Path) -> Iterator[Peer]:
    """Started on the table, and on the part of it that a model is learnt from."""
    learning_table, _ = table.split_for_learning()
    fewer = -(-runs // LEARNING_SHARE)
    with (
        start_mst(table, EPSILONS, runs, folder / "all") as all_of_it,
        start_mst(learning_table, EPSILONS, fewer, folder / "kept") as learnt,
    ):
        yield all_of_it, learnt


def _draw_releases(method: ReleaseMethod, epsilon: Fraction, runs: int) -> Iterator[Codes]:
    return (method(epsilon) for _ in range(runs))


def format_table(table: Table, results: Results) -> Iterator[str]:
    """A row for each way, a column for each figure."""
    heads = ("W1", "correlation", "worst range", "mean range", "two-way L1", "accuracy", "runs")
    for epsilon in EPSILONS:
        yield f"\n{table.name}, {table.rows:,} x {len(table.fields)}, epsilon {float(epsilon):g}"
        yield f"{'':<26}" + "".join(f"{head:>13}" for head in heads)
        for (name, method_epsilon), result in results.items():
            if method_epsilon == epsilon:
                figures = "".join(f"{figure:>13.4g}" for figure in (*astuple(result.distance), result.accuracy))
                yield f"{name:<26}{figures}{result.runs:>13}"


def compare_marginals(table: Table, results: Results, bar: float) -> Line:
    """How many times nearer private columns are at epsilon 1 than noise on every record."""
    ours, plain = (results[name, Fraction(1)].distance.w1 for name in ("private-columns", RECORDS))
    return Line(f"{table.name}: W1, k = 1 over private-columns, epsilon 1", plain / ours, "times", bar, True)


def compare_linked(table: Table, results: Results, bar: float) -> Line:
    """Two-way tables of linked records beside those of columns that are not linked, at epsilon 1."""
    ours, apart = (results[name, Fraction(1)].distance.two_way for name in (LINKED, "private-columns"))
    name = f"{table.name}: two-way L1, private-linked over private-columns, epsilon 1"
    return Line(name, ours / apart, "times", bar, False, f"{ours:.4f} beside {apart:.4f}")


def compare_with_mst(table: Table, results: Results, bar: float = 1.5) -> Iterator[Line]:
    """Two-way tables of linked records beside MST's, at the same (epsilon, delta) and bins."""
    for epsilon in EPSILONS:
        ours, peer = (results[name, epsilon].distance.two_way for name in (LINKED, MST))
        name = f"{table.name}: two-way L1 over MST's, epsilon {float(epsilon):g}"
        yield Line(name, ours / peer, "times", bar, False, f"{ours:.4f} beside {peer:.4f}")
