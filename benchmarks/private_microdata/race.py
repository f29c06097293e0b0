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
from benchmarks.private_microdata.metrics import Distance, accuracy, distance
from benchmarks.private_microdata.peer import MST, Started, started
from benchmarks.private_microdata.tables import Codes, Table
from benchmarks.private_microdata.ways import LINKED, RECORDS, Way, ways

EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(10))
ORIGINAL = "the original itself"
LEARNT = 4
"""A model is learnt from a release of the other rows in one run of so many."""


@dataclass(frozen=True)
class Seen:
    """The means of one way at one epsilon over its runs."""

    distance: Distance
    accuracy: float
    runs: int

    @staticmethod
    def of(table: Table, released: Iterable[Codes], learnt: Iterable[Codes]) -> Seen:
        kept, tested = table.parts()
        each = np.array([astuple(distance(table, codes)) for codes in released])
        right = np.mean([accuracy(kept, codes, tested) for codes in learnt])
        return Seen(Distance(*each.mean(axis=0).tolist()), float(right), len(each))


Peer = tuple[Started, Started]
Results = Mapping[tuple[str, Fraction], Seen]
"""By way and epsilon."""


def raced(table: Table, names: Sequence[str], runs: int, peer: Peer | None) -> Results:
    """The named ways here, and the peer if it was started."""
    kept, _ = table.parts()
    results = {}
    with ways(table) as here, ways(kept) as there:
        for name, epsilon in product(names, EPSILONS):
            released, learnt = _drawn(here[name], epsilon, runs), _drawn(there[name], epsilon, -(-runs // LEARNT))
            results[name, epsilon] = Seen.of(table, released, learnt)
    for epsilon in EPSILONS:
        if peer:
            results[MST, epsilon] = Seen.of(table, *(each.released(epsilon) for each in peer))
        results[ORIGINAL, epsilon] = Seen.of(table, [table.codes], [kept.codes])
    return results


@contextmanager
def peer_on(table: Table, runs: int, folder: Path) -> Iterator[Peer]:
    """Started on the table, and on the part of it that a model is learnt from."""
    kept, _ = table.parts()
    fewer = -(-runs // LEARNT)
    with (
        started(table, EPSILONS, runs, folder / "all") as all_of_it,
        started(kept, EPSILONS, fewer, folder / "kept") as learnt,
    ):
        yield all_of_it, learnt


def _drawn(way: Way, epsilon: Fraction, runs: int) -> Iterator[Codes]:
    return (way(epsilon) for _ in range(runs))


def told(table: Table, results: Results) -> Iterator[str]:
    """A row for each way, a column for each figure."""
    heads = ("W1", "correlation", "worst range", "mean range", "two-way L1", "accuracy", "runs")
    for epsilon in EPSILONS:
        yield f"\n{table.name}, {table.rows:,} x {len(table.fields)}, epsilon {float(epsilon):g}"
        yield f"{'':<26}" + "".join(f"{head:>13}" for head in heads)
        for (name, at), seen in results.items():
            if at == epsilon:
                figures = "".join(f"{figure:>13.4g}" for figure in (*astuple(seen.distance), seen.accuracy))
                yield f"{name:<26}{figures}{seen.runs:>13}"


def better_marginals(table: Table, results: Results, bar: float) -> Line:
    """How many times nearer private columns are at epsilon 1 than noise on every record."""
    ours, plain = (results[name, Fraction(1)].distance.w1 for name in ("private-columns", RECORDS))
    return Line(f"{table.name}: W1, k = 1 over private-columns, epsilon 1", plain / ours, "times", bar, True)


def linked_over_apart(table: Table, results: Results, bar: float) -> Line:
    """Two-way tables of linked records beside those of columns that are not linked, at epsilon 1."""
    ours, apart = (results[name, Fraction(1)].distance.two_way for name in (LINKED, "private-columns"))
    name = f"{table.name}: two-way L1, private-linked over private-columns, epsilon 1"
    return Line(name, ours / apart, "times", bar, False, f"{ours:.4f} beside {apart:.4f}")


def as_good_as_mst(table: Table, results: Results, bar: float = 1.5) -> Iterator[Line]:
    """Two-way tables of linked records beside MST's, at the same (epsilon, delta) and bins."""
    for epsilon in EPSILONS:
        ours, peer = (results[name, epsilon].distance.two_way for name in (LINKED, MST))
        name = f"{table.name}: two-way L1 over MST's, epsilon {float(epsilon):g}"
        yield Line(name, ours / peer, "times", bar, False, f"{ours:.4f} beside {peer:.4f}")
