"""The propensity score: how well a model tells the released file from the original."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from discreet.assess.beside import Beside
from discreet.assess.utility import standard
from discreet.microdata.table import Attribute, Floats, Places

ROWS = 10_000
"""Of a longer file this many evenly spaced rows stand for all."""

TERMS = 100
"""The model has at most so many terms, and at most one for every 20 rows."""

LEVELS = 20
"""The categories that have a term of their own: the most frequent."""

SHRINK = 1e-6
"""Keeps a model finite that tells every row."""

ALIKE = 1e-9
"""A direction in which the terms have less variance than this, or than this share of the most, is none."""


def propensity(both: Beside) -> float:
    """From 0, the model cannot tell the files apart, to 1, it tells every row (Woo et al. 2009, Snoke et al. 2018).

    A logistic regression of "is released" on standardised columns, categories, squares and products of two columns.
    pMSE is the mean of (p - c)^2 over the rows of both files, c being the share of released rows; it is c (1 - c) where
    every row is told. What r independent terms give by chance where the release is drawn anew from the original's own
    law, r c (1 - c)^2 / N, is taken off both; below 0 is 0. Where no column can be compared it is 1.
    """
    if not both.alike:
        return 1.0
    rows = _spaced(both.before.rows), _spaced(both.after.rows)
    pairs = [(before.take(rows[0]), after.take(rows[1])) for _, before, after in both.pairs()]
    released = np.repeat([0.0, 1.0], [len(rows[0]), len(rows[1])])
    bound = max(1, min(TERMS, len(released) // 20))
    free = _independent(np.column_stack([*islice(_terms(pairs), bound)]))
    share = len(rows[1]) / len(released)
    by_chance = free.shape[1] * share * (1 - share) ** 2 / len(released)
    score = float(np.mean((_chances(free, released) - share) ** 2))
    return float(max(0.0, score - by_chance) / (share * (1 - share) - by_chance))


def _spaced(rows: int) -> Places:
    return np.linspace(0, rows - 1, min(rows, ROWS)).round().astype(np.int64)


def _terms(pairs: Sequence[tuple[Attribute, Attribute]]) -> Iterator[Floats]:
    """Columns, what is missing, categories, squares, products: for the rows of the one file, then of the other."""
    numbers = []
    for before, after in pairs:
        absent = np.concatenate([before.missing, after.missing])
        values = np.concatenate([before.values, after.values])
        if before.kind == "nominal":
            yield from _categories(values)
            continue
        numbers.append(standard(np.where(absent, np.nan, values)))
        yield numbers[-1]
        if absent.any():
            yield absent.astype(np.float64)
    yield from (number**2 for number in numbers)
    yield from (one * two for place, one in enumerate(numbers) for two in numbers[:place])


def _categories(values: Places) -> Iterator[Floats]:
    seen, many = np.unique(values, return_counts=True)
    return ((values == code).astype(np.float64) for code in seen[np.argsort(-many, kind="stable")][:LEVELS])


def _independent(terms: Floats) -> Floats:
    """The directions in which the terms vary, each with mean 0 and deviation 1."""
    centred = terms - terms.mean(axis=0)
    widths, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    kept = widths > ALIKE * max(float(widths[-1]), 1.0)
    return np.asarray(centred @ (directions[:, kept] / np.sqrt(widths[kept])))


def _chances(terms: Floats, released: Floats) -> Floats:
    """What the fitted model says of each row, being released."""
    from scipy.optimize import minimize
    from scipy.special import expit

    design = np.column_stack([np.ones(len(terms)), terms])

    def loss(slopes: Floats) -> float:
        odds = design @ slopes
        return float(np.mean(np.logaddexp(0, odds) - released * odds) + SHRINK / 2 * slopes @ slopes)

    def gradient(slopes: Floats) -> Floats:
        return np.asarray(design.T @ (expit(design @ slopes) - released) / len(design) + SHRINK * slopes)

    def curvature(slopes: Floats) -> Floats:
        chance = expit(design @ slopes)
        weighed = design * (chance * (1 - chance) / len(design))[:, None]
        return np.asarray(weighed.T @ design + SHRINK * np.eye(design.shape[1]))

    start = np.zeros(design.shape[1])
    best = minimize(loss, start, jac=gradient, hess=curvature, method="trust-exact", options={"gtol": 1e-7}).x
    return np.asarray(expit(design @ best))
