"""The propensity score: how well a model tells the released file from the original."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice

import numpy as np

from discreet.assess.beside import MatchedTables
from discreet.assess.utility import standardize
from discreet.microdata.table import Attribute, Floats, Integers

MAX_ROWS = 5_000
"""Of a longer file this many evenly spaced rows stand for all."""

MAX_TERMS = 100
"""The model has at most so many terms, and at most one for every 20 rows; at most half of them are of one column."""

MAX_LEVELS = 20
"""The categories that have a term of their own: the most frequent."""

MAX_CROSSED_LEVELS = 3
"""Of these, the ones that have products with other columns."""

MAX_STEPS = 50
"""More are never needed to fit the model."""

MIN_GAIN = 1e-6
"""A step that wins less likelihood than this is the last; the model is then fitted to its square."""

RIDGE = 1e-6
"""Keeps a model finite that tells every row."""

MIN_DIRECTION_VARIANCE = 1e-9
"""A direction in which the terms have less variance than this, or than this share of the most, is none."""


def compute_propensity(tables: MatchedTables) -> float:
    """From 0, the model cannot tell the files apart, to 1, it tells every row (Woo et al. 2009, Snoke et al. 2018).

    A logistic regression of "is released" on standardised columns and categories, then on squares and products of two
    columns, taken in turn from all columns and all pairs of them.
    pMSE is the mean of (p - c)^2 over the rows of both files, c being the share of released rows; it is c (1 - c) where
    every row is told. What r independent terms give by chance where the release is drawn anew from the original's own
    law, r c (1 - c)^2 / N, is taken off both; below 0 is 0. Where no column can be compared it is 1.
    """
    if not tables.comparable:
        return 1.0
    rows = _select_spaced_rows(tables.before.rows), _select_spaced_rows(tables.after.rows)
    pairs = [(before.take(rows[0]), after.take(rows[1])) for _, before, after in tables.iterate_pairs()]
    released = np.repeat([0.0, 1.0], [len(rows[0]), len(rows[1])])
    bound = max(1, min(MAX_TERMS, len(released) // 20))
    simple = [*islice(_interleave_terms([_build_single_terms(*pair) for pair in pairs]), max(1, bound // 2))]
    independent_terms = _find_independent_terms(
        np.column_stack([*simple, *islice(_build_product_terms(pairs), bound - len(simple))])
    )
    share = len(rows[1]) / len(released)
    by_chance = independent_terms.shape[1] * share * (1 - share) ** 2 / len(released)
    score = float(np.mean((_fit_chances(independent_terms, released) - share) ** 2))
    return float(max(0.0, score - by_chance) / (share * (1 - share) - by_chance))


def _select_spaced_rows(rows: int) -> Integers:
    return np.linspace(0, rows - 1, min(rows, MAX_ROWS)).round().astype(np.int64)


def _interleave_terms(lists: Sequence[Iterator[Floats]]) -> Iterator[Floats]:
    """The first of each, then the second of each, and so on."""
    active = list(lists)
    while active:
        continuing = []
        for terms in active:
            if (term := next(terms, None)) is not None:
                continuing.append(terms)
                yield term
        active = continuing


def _build_single_terms(before: Attribute, after: Attribute) -> Iterator[Floats]:
    """The terms of one column, for the rows of the one file, then of the other: its values, what is missing."""
    if before.kind == "nominal":
        yield from _build_category_terms(before, after, MAX_LEVELS)
        return
    yield _build_number_term(before, after)
    absent = np.concatenate([before.missing, after.missing])
    if absent.any():
        yield absent.astype(np.float64)


def _build_product_terms(pairs: Sequence[tuple[Attribute, Attribute]]) -> Iterator[Floats]:
    """Each column's square and its products with the columns before it, in turn."""

    @cache
    def build_factors(place: int) -> list[Floats]:
        nominal = pairs[place][0].kind == "nominal"
        return (
            [*_build_category_terms(*pairs[place], MAX_CROSSED_LEVELS)]
            if nominal
            else [_build_number_term(*pairs[place])]
        )

    def multiply_factors(place: int, other: int) -> Iterator[Floats]:
        if place != other:
            yield from (term * other_term for term in build_factors(place) for other_term in build_factors(other))
        elif pairs[place][0].kind != "nominal":
            yield build_factors(place)[0] ** 2

    return _interleave_terms(
        [multiply_factors(place, other) for place in range(len(pairs)) for other in range(place, -1, -1)]
    )


def _build_number_term(before: Attribute, after: Attribute) -> Floats:
    values = np.concatenate([before.values, after.values])
    return standardize(np.where(np.concatenate([before.missing, after.missing]), np.nan, values))


def _build_category_terms(before: Attribute, after: Attribute, max_terms: int) -> Iterator[Floats]:
    """One term for each of the most frequent, but for the last of all: the others tell it."""
    values = np.concatenate([before.values, after.values])
    codes, counts = np.unique(values, return_counts=True)
    frequent = codes[np.argsort(-counts, kind="stable")][: max(1, min(max_terms, len(codes) - 1))]
    return ((values == code).astype(np.float64) for code in frequent)


def _find_independent_terms(terms: Floats) -> Floats:
    """The directions in which the terms vary, each with mean 0 and deviation 1."""
    centred = terms - terms.mean(axis=0)
    widths, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    is_retained = widths > MIN_DIRECTION_VARIANCE * max(float(widths[-1]), 1.0)
    return np.asarray(centred @ (directions[:, is_retained] / np.sqrt(widths[is_retained])))


def _fit_chances(terms: Floats, released: Floats) -> Floats:
    """What the fitted model says of each row, being released: Newton's steps, halved where they go too far."""
    from scipy.linalg import solve
    from scipy.special import expit

    design = np.column_stack([np.ones(len(terms)), terms])

    def compute_loss(slopes: Floats) -> float:
        odds = design @ slopes
        return float(np.mean(np.logaddexp(0, odds) - released * odds) + RIDGE / 2 * slopes @ slopes)

    slopes = 4 * design.T @ (released - 0.5) / len(design)  # the first step, since these terms are independent
    for _ in range(MAX_STEPS):
        chance = expit(design @ slopes)
        gradient = design.T @ (chance - released) / len(design) + RIDGE * slopes
        weighed = design * np.sqrt(chance * (1 - chance) / len(design))[:, None]
        step = solve(weighed.T @ weighed + RIDGE * np.eye(len(slopes)), gradient, assume_a="pos")
        before, wins = compute_loss(slopes), float(gradient @ step)
        while compute_loss(slopes - step) > before and wins > MIN_GAIN:
            step, wins = step / 2, wins / 2
        slopes = slopes - step
        if wins <= MIN_GAIN:
            break
    return np.asarray(expit(design @ slopes))
