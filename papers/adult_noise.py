"""Tables 6.3 and 6.4 and Figure 6.5 of the thesis, in shape: microaggregation and noise on the Adult file.

The thesis counts 388 pairs of categories and 122 and 127 concepts; the public file and WordNet have others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from math import sqrt

import numpy as np

from discreet.errors import InvalidInput
from discreet.mechanisms.entropy import Entropy, KeyedEntropy
from discreet.mechanisms.exponential_mechanism import Exponential
from discreet.priors.taxonomy import Taxonomy
from discreet.sdc.methods.record_distance import compute_domain_width, compute_semantic_distances
from discreet.sdc.table import Attribute, Floats, Integers, read_table
from discreet.sdc.table import Table as Records
from papers.columns import read_texts
from papers.linkage_curves import build_curve_drawer
from papers.nominal_noise import group_insensitively
from papers.printed_6 import EPSILONS, TABLE_6_3, TABLE_6_4
from papers.release_measures import NOMINAL, ReleaseMeasures, measure_microaggregated
from papers.rows import Row, build_not_reproducible, compare_corrected, compare_equal
from papers.tables import Data, Table

TAXONOMIES = {
    "occupation": "taxonomies/occupation.json",
    "native-country": "taxonomies/native_country.json",
}
NEEDS = ("adult.csv", *TAXONOMIES.values())
KS = (2, 5, 15, 30)
FINE = 50
"""Marginalities are floored to such a part of their sensitivity: enough for the shape."""
OTHERS = "other pairs of categories and other taxonomies than the thesis had"


@cache
def read_pairs(data: Data) -> Records:
    """The two columns of the Adult file, each category as the concept it stands for."""
    columns = read_texts(data, "adult.csv", list(TAXONOMIES))
    taxonomies = {name: _read_taxonomy(data, file) for name, file in TAXONOMIES.items()}
    for name, (synsets, _) in taxonomies.items():
        if unknown := set(columns[name]) - synsets.keys():
            raise InvalidInput(f"{TAXONOMIES[name]} does not say what {min(unknown)[:40]!r} of adult.csv stands for")
    concepts = {
        name: np.array([taxonomies[name][0][each] for each in values], dtype=object) for name, values in columns.items()
    }
    return read_table(concepts, taxonomies={name: taxonomy for name, (_, taxonomy) in taxonomies.items()})


def _read_taxonomy(data: Data, file: str) -> tuple[dict[str, str], Taxonomy]:
    """The concept of every category, and what is above it."""
    path = data.path(file)
    assert path is not None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {name: entry["synset"] for name, entry in content["mapping"].items()}, Taxonomy.of(content["parents"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InvalidInput(f"{file} is not a taxonomy with a mapping and parents") from None


@cache
def measure_without_noise(data: Data, k: int, method: str = "mdav") -> ReleaseMeasures:
    """Microaggregation alone."""
    return measure_microaggregated(read_pairs(data), k, method)


@cache
def measure_with_noise(data: Data, k: int, epsilon: str) -> ReleaseMeasures:
    """One run of Algorithm 6.3, with the full epsilon for every cluster and every attribute, as the thesis has it."""
    table, entropy = read_pairs(data), KeyedEntropy(b"chapter 6", f"adult {k} {epsilon}")
    groups = _group_records(data, k)
    noisy_columns = [_choose_concepts(table[name], groups, float(epsilon), entropy) for name in table]
    return ReleaseMeasures.of(table, table.put(*noisy_columns))


@cache
def _group_records(data: Data, k: int) -> Integers:
    return group_insensitively(read_pairs(data), k)


def _choose_concepts(attribute: Attribute, groups: Integers, epsilon: float, entropy: Entropy) -> Attribute:
    """Every value replaced by a concept that its cluster drew; clusters that hold the same share a law."""
    assert attribute.taxonomy is not None
    concepts = tuple(dict.fromkeys((*attribute.categories, *attribute.taxonomy.ancestors)))
    distances = compute_semantic_distances(attribute.taxonomy, attribute.categories, concepts)
    counts_by_group = np.zeros((int(groups.max()) + 1, len(attribute.categories)), dtype=np.int16)
    np.add.at(counts_by_group, (groups, attribute.values), 1)
    numbers: dict[bytes, int] = {}  # np.unique sorts whole rows, which takes most of the time here
    kind = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in counts_by_group])
    kinds = counts_by_group[np.unique(kind, return_index=True)[1]]
    uniforms = _sample_uniform(len(counts_by_group), entropy)
    chosen = np.empty(len(counts_by_group), dtype=np.int64)
    width = compute_domain_width(attribute)
    mechanism = Exponential.of(epsilon, width, step=width / FINE)
    for number, counts in enumerate(kinds):
        members = np.flatnonzero(kind == number)
        probabilities = mechanism.distribution(-(counts @ distances)).floats()
        chosen[members] = np.searchsorted(np.cumsum(probabilities[:-1]), uniforms[members], side="right")
    return replace(attribute, values=chosen[groups], categories=concepts)


def _sample_uniform(count: int, entropy: Entropy) -> Floats:
    """Numbers between 0 and 1; enough for a table that promises nothing."""
    return np.frombuffer(entropy.take(8 * count), dtype=np.uint64) / 2.0**64


def _compare_table_6_3(data: Data) -> Iterator[Row]:
    for k, (sse, linkages, *factors) in TABLE_6_3.items():
        base, id = measure_without_noise(data, k), f"001.6.3.k{k}"
        obtained_figures: list[object] = [base.sse, base.linkages]
        yield build_not_reproducible(
            f"{id}.mdav", f"MDAV, k = {k}: SSE_0 and RL_0", [sse, linkages], obtained_figures, "data", OTHERS
        )
        for epsilon, (sse_f, rl_f, _) in zip(EPSILONS, factors, strict=True):
            obtained_figures = _compute_factors(base, measure_with_noise(data, k, epsilon))
            cell = f"k = {k}, epsilon {epsilon}: SSE_f and RL_f"
            yield build_not_reproducible(
                f"{id}.eps{epsilon}", cell, [sse_f, rl_f], obtained_figures, "data", f"{OTHERS}; {NOMINAL}"
            )
    yield _compare_tenth()
    falls = [measure_without_noise(data, k).linkages for k in KS]
    rises = [measure_without_noise(data, k).sse for k in KS]
    shape = rises == sorted(rises) and falls == sorted(falls, reverse=True)
    yield compare_equal("001.6.3.shape", "MDAV: SSE rises with k and linkages fall", True, shape, note="the shape")


def _compare_tenth() -> Row:
    """What SSE_0 must be by the printed SSE_f at epsilon 0.01, where SSE is that of Table 6.4."""
    sse, _, *factors = TABLE_6_4["0.01"]
    obtained_sse = [
        float(TABLE_6_3[k][2][0]) ** 2 * float(sse) / float(sse_f) ** 2
        for k, (sse_f, _, _) in zip(KS[1:], factors, strict=True)
    ]
    printed = [TABLE_6_3[k][0] for k in KS[1:]]
    right = [10 * float(each) for each in printed]
    why = "ten times as much by the printed SSE_f beside it and Table 6.4"
    return compare_corrected(
        "001.6.3.tenth", "MDAV, k = 5, 15, 30: SSE_0", printed, obtained_sse, right, "of print", why, 0.04
    )


def _compare_table_6_4(data: Data) -> Iterator[Row]:
    for epsilon, (sse, linkages, *factors) in TABLE_6_4.items():
        base, id = measure_with_noise(data, 1, epsilon), f"001.6.4.eps{epsilon}"
        cell = f"epsilon {epsilon}, k = 1: SSE and RL"
        obtained_figures: list[object] = [base.sse, base.linkages]
        yield build_not_reproducible(
            f"{id}.k1", cell, [sse, linkages], obtained_figures, "data", f"{OTHERS}; {NOMINAL}"
        )
        for k, (sse_f, rl_f, _) in zip(KS[1:], factors, strict=True):
            obtained_figures = _compute_factors(base, measure_with_noise(data, k, epsilon))
            cell = f"epsilon {epsilon}, k = {k}: SSE_f and RL_f"
            yield build_not_reproducible(
                f"{id}.k{k}", cell, [sse_f, rl_f], obtained_figures, "data", f"{OTHERS}; {NOMINAL}"
            )
    gains = {
        epsilon: sqrt(measure_with_noise(data, 1, epsilon).sse / measure_with_noise(data, 30, epsilon).sse)
        for epsilon in EPSILONS
    }
    cell = "with k = 30, nothing is gained at epsilon 0.01, and most at 1 or 10"
    shape = gains["0.01"] < 1.1 and min(gains["1"], gains["10"]) > gains["0.1"] > gains["0.01"]
    yield compare_equal("001.6.4.shape", cell, True, shape, note=f"the shape; {NOMINAL}")


def _compute_factors(base: ReleaseMeasures, measures: ReleaseMeasures) -> list[object]:
    linkages = base.linkages / measures.linkages if measures.linkages else None
    return [sqrt(base.sse / measures.sse), linkages]


def _compare_figure_6_5(data: Data) -> Iterator[Row]:
    for name, method in (("MDAV", "mdav"), ("insensitive", "insensitive")):
        measured = {k: measure_without_noise(data, k, method) for k in KS}
        obtained = {str(k): [run_measures.sse, run_measures.linkages] for k, run_measures in measured.items()}
        id, cell = f"001.figure-6.5.{method}", f"{name}: SSE and RL by k"
        yield build_not_reproducible(id, cell, None, obtained, "drawing", f"a curve over k; {OTHERS}")
    for epsilon in EPSILONS:
        measured = {k: measure_with_noise(data, k, epsilon) for k in (1, *KS)}
        obtained = {str(k): [run_measures.sse, run_measures.linkages] for k, run_measures in measured.items()}
        id, cell = f"001.figure-6.5.eps{epsilon}", f"epsilon {epsilon}: SSE and RL by k"
        yield build_not_reproducible(
            id, cell, None, obtained, "drawing", f"a curve over k, one run; {OTHERS}; {NOMINAL}"
        )


TENFOLD = {k: (10 * float(sse), *others) for k, (sse, *others) in TABLE_6_3.items()}
"""For the picture, as the other columns need it."""
ABOUT = "taxonomies/*.json with a mapping from categories to concepts and the concepts' parents"
TABLES: tuple[Table, ...] = (
    Table(
        "001-6.3", "Table 6.3", f"Noise against MDAV, Adult, in shape; needs {ABOUT}.", _compare_table_6_3, needs=NEEDS
    ),
    Table("001-6.4", "Table 6.4", "Noise after microaggregation, Adult, in shape.", _compare_table_6_4, needs=NEEDS),
    Table(
        "001-figure-6.5",
        "Figure 6.5",
        "SSE and record linkages over k, Adult, in shape.",
        _compare_figure_6_5,
        build_curve_drawer("Figure 6.5", "Adult", TENFOLD, TABLE_6_4),
        NEEDS,
    ),
)
