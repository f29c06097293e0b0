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


class WeighedSynthesizer(MSTSynthesizer):
    """MST whose merged categories are compared as they were weighed."""

    def compress_domain(self, data: Any, measurements: Sequence[Any]) -> tuple[Any, list[Any], Any]:
        smaller, compressed, undo = super().compress_domain(data, measurements)
        pairs = zip(measurements, compressed, strict=True)
        return smaller, [now if now is before else _weigh_measurement(before, now) for before, now in pairs], undo


def _weigh_measurement(before: Any, now: Any) -> Any:
    kept_count = len(now.noisy_measurement) - 1
    weights = np.append(np.ones(kept_count), 1 / np.sqrt(len(before.noisy_measurement) - kept_count + 1))
    return LinearMeasurement(now.noisy_measurement, now.clique, now.stddev, lambda model: model.datavector() * weights)


def sample_rows(model: Any, rows: int) -> dict[str, np.ndarray]:
    """Along the tree, from the first column: within every group the child's share, rounded and shuffled."""
    first, tree = model.domain.attrs[0], nx.Graph([pair for pair in model.cliques if len(pair) == 2])
    columns = {first: _sample_in_proportion(model.project([first]).datavector(), rows)}
    for parent, child in nx.bfs_edges(tree, first):
        joint = np.asarray(model.project([parent, child]).datavector(flatten=False))
        columns[child] = np.empty(rows, dtype=np.int64)
        for value, weights in enumerate(joint):
            group = np.flatnonzero(columns[parent] == value)
            columns[child][group] = _sample_in_proportion(weights, len(group))
    return columns


def _sample_in_proportion(weights: Any, total: int) -> np.ndarray:
    """Values in proportion: the whole parts, the rest by chance of the fractions."""
    share = np.maximum(np.asarray(weights, dtype=float), 1e-9)
    over, counts = np.modf(share * (total / share.sum()))
    counts = counts.astype(np.int64)
    rest = total - counts.sum()
    if rest:
        counts[DRAW.choice(len(share), rest, replace=False, p=over / over.sum())] += 1
    return DRAW.permutation(np.repeat(np.arange(len(share)), counts))


def synthesize(codes: np.ndarray, sizes: Sequence[int], epsilon: float, delta: float) -> np.ndarray:
    """As many rows as there were."""
    names = [f"c{place}" for place in range(len(sizes))]
    mst = WeighedSynthesizer(epsilon, delta)
    mst.MST(Dataset(dict(zip(names, codes, strict=True)), Domain(names, sizes)), epsilon, delta)
    model = mst.synthesizer
    rows = mst.undo_compress_fn(Dataset(sample_rows(model, codes.shape[1]), model.domain)).to_dict()
    return np.stack([np.asarray(rows[name], dtype=np.int64) for name in names])


def main(table: str, out: str, settings_json: str) -> None:
    """Every run at every epsilon: from the table's file to arrays named by epsilon."""
    warnings.simplefilter("ignore")
    settings = json.loads(settings_json)
    with np.load(table) as arrays:
        codes, sizes = arrays["codes"], arrays["sizes"].tolist()
    runs = range(settings["runs"])
    runs_by_epsilon = {
        str(e): [synthesize(codes, sizes, e, settings["delta"]) for _ in runs] for e in settings["epsilons"]
    }
    np.savez(out, **{name: np.stack(each) for name, each in runs_by_epsilon.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
