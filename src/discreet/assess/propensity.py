"""The propensity score: how well a model tells the released file from the original."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice

import numpy as np

from discreet.assess.beside import Beside
from discreet.assess.utility import standard
from discreet.microdata.table import Attribute, Floats, Places

ROWS = 5_000
"""Of a longer file this many evenly spaced rows stand for all."""

TERMS = 100
"""The model has at most so many terms, and at most one for every 20 rows; at most half of them are of one column."""

LEVELS = 20
"""The categories that have a term of their own: the most frequent."""

CROSSED = 3
"""Of these, the ones that have products with other columns."""

STEPS = 50
"""More are never needed to fit the model."""

CLOSE = 1e-6
"""A step that wins less likelihood than this is the last; the model is then fitted to its square."""

SHRINK = 1e-6
"""Keeps a model finite that tells every row."""

ALIKE = 1e-9
"""A direction in which the terms have less variance than this, or than this share of the most, is none."""


def propensity(both: Beside) -> float:
    """From 0, the model cannot tell the files apart, to 1, it tells every row (Woo et al. 2009, Snoke et al. 2018).

    A logistic regression of "is released" on standardised columns and categories, then on squares and products of two
    columns, taken in turn from all columns and all pairs of them.
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
    simple = [*islice(_in_turn([_single(*pair) for pair in pairs]), max(1, bound // 2))]
    free = _independent(np.column_stack([*simple, *islice(_products(pairs), bound - len(simple))]))
    share = len(rows[1]) / len(released)
    by_chance = free.shape[1] * share * (1 - share) ** 2 / len(released)
    score = float(np.mean((_chances(free, released) - share) ** 2))
    return float(max(0.0, score - by_chance) / (share * (1 - share) - by_chance))


def _spaced(rows: int) -> Places:
    return np.linspace(0, rows - 1, min(rows, ROWS)).round().astype(np.int64)


def _in_turn(lists: Sequence[Iterator[Floats]]) -> Iterator[Floats]:
    """The first of each, then the second of each, and so on."""
    left = list(lists)
    while left:
        going = []
        for each in left:
            if (term := next(each, None)) is not None:
                going.append(each)
                yield term
        left = going


def _single(before: Attribute, after: Attribute) -> Iterator[Floats]:
    """The terms of one column, for the rows of the one file, then of the other: its values, what is missing."""
    if before.kind == "nominal":
        yield from _categories(before, after, LEVELS)
        return
    yield _numbers(before, after)
    absent = np.concatenate([before.missing, after.missing])
    if absent.any():
        yield absent.astype(np.float64)


def _products(pairs: Sequence[tuple[Attribute, Attribute]]) -> Iterator[Floats]:
    """Each column's square and its products with the columns before it, in turn."""

    @cache
    def factors(place: int) -> list[Floats]:
        nominal = pairs[place][0].kind == "nominal"
        return [*_categories(*pairs[place], CROSSED)] if nominal else [_numbers(*pairs[place])]

    def product(place: int, other: int) -> Iterator[Floats]:
        if place != other:
            yield from (one * two for one in factors(place) for two in factors(other))
        elif pairs[place][0].kind != "nominal":
            yield factors(place)[0] ** 2

    return _in_turn([product(place, other) for place in range(len(pairs)) for other in range(place, -1, -1)])


def _numbers(before: Attribute, after: Attribute) -> Floats:
    values = np.concatenate([before.values, after.values])
    return standard(np.where(np.concatenate([before.missing, after.missing]), np.nan, values))


def _categories(before: Attribute, after: Attribute, most: int) -> Iterator[Floats]:
    """One term for each of the most frequent, but for the last of all: the others tell it."""
    values = np.concatenate([before.values, after.values])
    seen, many = np.unique(values, return_counts=True)
    frequent = seen[np.argsort(-many, kind="stable")][: max(1, min(most, len(seen) - 1))]
    return ((values == code).astype(np.float64) for code in frequent)


def _independent(terms: Floats) -> Floats:
    """The directions in which the terms vary, each with mean 0 and deviation 1."""
    centred = terms - terms.mean(axis=0)
    widths, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    kept = widths > ALIKE * max(float(widths[-1]), 1.0)
    return np.asarray(centred @ (directions[:, kept] / np.sqrt(widths[kept])))


def _chances(terms: Floats, released: Floats) -> Floats:
    """What the fitted model says of each row, being released: Newton's steps, halved where they go too far."""
    from scipy.linalg import solve
    from scipy.special import expit

    design = np.column_stack([np.ones(len(terms)), terms])

    def loss(slopes: Floats) -> float:
        odds = design @ slopes
        return float(np.mean(np.logaddexp(0, odds) - released * odds) + SHRINK / 2 * slopes @ slopes)

    slopes = 4 * design.T @ (released - 0.5) / len(design)  # the first step, since these terms are independent
    for _ in range(STEPS):
        chance = expit(design @ slopes)
        gradient = design.T @ (chance - released) / len(design) + SHRINK * slopes
        weighed = design * np.sqrt(chance * (1 - chance) / len(design))[:, None]
        step = solve(weighed.T @ weighed + SHRINK * np.eye(len(slopes)), gradient, assume_a="pos")
        before, wins = loss(slopes), float(gradient @ step)
        while loss(slopes - step) > before and wins > CLOSE:
            step, wins = step / 2, wins / 2
        slopes = slopes - step
        if wins <= CLOSE:
            break
    return np.asarray(expit(design @ slopes))
