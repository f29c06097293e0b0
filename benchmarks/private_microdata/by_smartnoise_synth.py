"""The peer's side: MST of smartnoise-synth, from a file of whole codes to one of synthetic codes.

Two faults of the versions that install are not counted against it. smartnoise-synth 1.0.8 weighs the noisy total of the
rare categories it merges, and forgets to weigh the model's likewise. mbi 1.1.0 deals out the values of a group in the
order of the rows, so that columns become linked which the model does not link; here they are shuffled.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import networkx as nx
import numpy as np
from mbi import Dataset, Domain, LinearMeasurement
from snsynth.mst import MSTSynthesizer

DRAW = np.random.Generator(np.random.PCG64())


class Weighed(MSTSynthesizer):
    """MST whose merged categories are compared as they were weighed."""

    def compress_domain(self, data: Any, measurements: Sequence[Any]) -> tuple[Any, list[Any], Any]:
        smaller, told, undo = super().compress_domain(data, measurements)
        pairs = zip(measurements, told, strict=True)
        return smaller, [now if now is before else _weighed(before, now) for before, now in pairs], undo


def _weighed(before: Any, now: Any) -> Any:
    kept = len(now.noisy_measurement) - 1
    weights = np.append(np.ones(kept), 1 / np.sqrt(len(before.noisy_measurement) - kept + 1))
    return LinearMeasurement(now.noisy_measurement, now.clique, now.stddev, lambda model: model.datavector() * weights)


def rows_of(model: Any, rows: int) -> dict[str, np.ndarray]:
    """Along the tree, from the first column: within every group the child's share, rounded and shuffled."""
    first, tree = model.domain.attrs[0], nx.Graph([pair for pair in model.cliques if len(pair) == 2])
    made = {first: _dealt(model.project([first]).datavector(), rows)}
    for parent, child in nx.bfs_edges(tree, first):
        joint = np.asarray(model.project([parent, child]).datavector(flatten=False))
        made[child] = np.empty(rows, dtype=np.int64)
        for value, weights in enumerate(joint):
            group = np.flatnonzero(made[parent] == value)
            made[child][group] = _dealt(weights, len(group))
    return made


def _dealt(weights: Any, total: int) -> np.ndarray:
    """Values in proportion: the whole parts, the rest by chance of the fractions."""
    share = np.maximum(np.asarray(weights, dtype=float), 1e-9)
    over, counts = np.modf(share * (total / share.sum()))
    counts = counts.astype(np.int64)
    rest = total - counts.sum()
    if rest:
        counts[DRAW.choice(len(share), rest, replace=False, p=over / over.sum())] += 1
    return DRAW.permutation(np.repeat(np.arange(len(share)), counts))


def synthetic(codes: np.ndarray, sizes: Sequence[int], epsilon: float, delta: float) -> np.ndarray:
    """As many rows as there were."""
    names = [f"c{place}" for place in range(len(sizes))]
    mst = Weighed(epsilon, delta)
    mst.MST(Dataset(dict(zip(names, codes, strict=True)), Domain(names, sizes)), epsilon, delta)
    model = mst.synthesizer
    rows = mst.undo_compress_fn(Dataset(rows_of(model, codes.shape[1]), model.domain)).to_dict()
    return np.stack([np.asarray(rows[name], dtype=np.int64) for name in names])


def main(table: str, out: str, asked: str) -> None:
    """Every run at every epsilon: from the table's file to arrays named by epsilon."""
    warnings.simplefilter("ignore")
    told = json.loads(asked)
    with np.load(table) as given:
        codes, sizes = given["codes"], given["sizes"].tolist()
    runs = range(told["runs"])
    made = {str(e): [synthetic(codes, sizes, e, told["delta"]) for _ in runs] for e in told["epsilons"]}
    np.savez(out, **{name: np.stack(each) for name, each in made.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
