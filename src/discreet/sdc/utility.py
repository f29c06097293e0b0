"""Utility of a release: squared errors, moments, quantiles, associations, propensity score.

Each measure takes a `MatchedTables`, made by `match_tables`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, islice, product

import numpy as np

from discreet.errors import InvalidInput
from discreet.sdc.methods.record_distance import FLAT_DISTANCE, build_spaces
from discreet.sdc.table import ABSENT, Attribute, Floats, Integers, ProtectedTable, Table, read_table

BeforeAfter = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class MatchedTables:
    """Two tables, the columns that both have, and those of them whose values can be compared."""

    before: Table
    after: Table
    common: tuple[str, ...]
    comparable: tuple[str, ...]

    @property
    def numeric(self) -> tuple[str, ...]:
        """The comparable columns that are numeric."""
        return tuple(name for name in self.comparable if self.before[name].kind == "numeric")

    def iterate_pairs(self) -> Iterable[tuple[str, Attribute, Attribute]]:
        """Every column that can be compared: its name, before, after."""
        return ((name, self.before[name], self.after[name]) for name in self.comparable)


def match_tables(original: object, released: object, aligned: bool) -> MatchedTables:
    """The two as tables; rows that a protected table left out of the original are left out of both."""
    before = read_table(original)
    after = _read_as_original(before, released.table if isinstance(released, ProtectedTable) else read_table(released))
    if isinstance(released, ProtectedTable) and aligned and len(released.source_rows) < before.rows:
        before = before.take(released.source_rows)
    if not before.rows or not after.rows:
        raise InvalidInput("there is nothing to compare in a table without rows; give both tables at least one row")
    if aligned and before.rows != after.rows:
        raise InvalidInput(
            f"the original has {before.rows} rows and the release {after.rows}; "
            "give the rows side by side, or say aligned=False"
        )
    common = tuple(name for name in before if name in after.attributes)
    if not common:
        raise InvalidInput("the two tables have no column in common; compare a release with its own original")
    matched_pairs = [match_attributes(before[name], after[name]) for name in common]
    originals = [pair[0] for pair in matched_pairs if pair is not None]
    counterparts = [pair[1] for pair in matched_pairs if pair is not None]
    comparable = tuple(attribute.name for attribute in originals)
    return MatchedTables(before.put(*originals), after.put(*counterparts), common, comparable)


def _read_as_original(before: Table, after: Table) -> Table:
    """The release with columns that the original reads as categories read so too, though they look like numbers."""
    kinds = {name: before[name].kind for name in after if name in before.attributes and after[name].kind == "numeric"}
    kinds = {name: kind for name, kind in kinds.items() if kind != "numeric"}
    if not kinds:
        return after
    categorical = read_table(after.select(tuple(kinds)).to_arrays(), kinds=kinds)
    return after.put(*categorical.attributes.values())


def match_attributes(before: Attribute, after: Attribute) -> tuple[Attribute, Attribute] | None:
    """The two with one domain or one list of categories; None where no distance is known between their values.

    None is known from numbers to intervals, nor from categories to labels that are neither among them nor concepts of
    their taxonomy.
    """
    if (before.kind == "numeric") != (after.kind == "numeric"):
        return None
    if before.kind == "numeric":
        return before, replace(after, lower=before.lower, upper=before.upper)
    taxonomy = before.taxonomy if before.kind == "nominal" else None
    released_labels = {after.categories[place] for place in np.unique(after.values) if place != ABSENT}
    extra = tuple(sorted(released_labels - set(before.categories)))
    if extra and (taxonomy is None or not set(extra) <= set(taxonomy.ancestors)):
        return None
    places = {name: place for place, name in enumerate((*before.categories, *extra))}
    new_places: Integers = np.array([*(places.get(name, ABSENT) for name in after.categories), ABSENT], dtype=np.int64)
    matched_before = replace(before, categories=tuple(places))
    return matched_before, replace(matched_before, values=new_places[after.values])


QUANTILE_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)

MIN_VARIANCE = 1e-12
"""A standardised column with less variance than this, in the rows that count, does not vary there."""


def compute_squared_errors(tables: MatchedTables) -> dict[str, float]:
    """The sum of squared distances between original and released values of each column (thesis 6.4.2).

    Numbers are in their own units, ordered categories in places, nominal ones by the semantic distance (6.6); a missing
    value is as far from a present one as `sdc/methods/record_distance.py` says.
    """
    return {name: _compute_squared_error(before, after) for name, before, after in tables.iterate_pairs()}


def _compute_squared_error(before: Attribute, after: Attribute) -> float:
    from discreet.sdc.linkage import compute_squared_distances

    if before.kind == "nominal" and before.taxonomy is None:  # of any number of categories
        is_changed = before.values != after.values
        is_one_missing = is_changed & (before.missing | after.missing)
        return float(is_one_missing.sum() + FLAT_DISTANCE**2 * (is_changed & ~is_one_missing).sum())
    space_before, space_after = build_spaces([Table({before.name: before}), Table({after.name: after})], None)
    return math.fsum(compute_squared_distances(space_before, space_after))


def compute_il1s(tables: MatchedTables) -> float | None:
    """IL1s of Yancey, Winkler and Creecy: the mean of |x - x'| / (sqrt(2) S) over the cells of numeric columns.

    S is the column's standard deviation in the original. A cell with a value in one file only counts as S off. Columns
    without any S and cells without any value are left out; None where nothing is left.
    """
    total, cells = 0.0, 0
    for name in tables.numeric:
        before, after = tables.before[name].values, tables.after[name].values
        if (deviation := compute_deviation(before)) > 0:
            change = np.where(np.isnan(before) == np.isnan(after), np.abs(after - before), deviation)
            total += math.fsum(drop_missing(change)) / (math.sqrt(2) * deviation)
            cells += len(drop_missing(change))
    return total / cells if cells else None


def drop_missing(values: Floats) -> Floats:
    """The values without the missing ones."""
    return values[~np.isnan(values)]


def compute_mean(values: Floats) -> float:
    """The mean without missing values; NaN of none."""
    present_values = drop_missing(values)
    return math.fsum(present_values) / len(present_values) if len(present_values) else math.nan


def compute_variance(values: Floats) -> float:
    """The sample variance without missing values; NaN of fewer than two."""
    present_values = drop_missing(values)
    if len(present_values) < 2:
        return math.nan
    if present_values.min() == present_values.max():  # whatever its mean is rounded to
        return 0.0
    return math.fsum((present_values - compute_mean(present_values)) ** 2) / (len(present_values) - 1)


def compute_deviation(values: Floats) -> float:
    """The standard deviation; 0 where there is none to speak of."""
    square = compute_variance(values)
    return math.sqrt(square) if square > 0 else 0.0


def compare_columns(tables: MatchedTables, compute: Callable[[Floats], float]) -> dict[str, BeforeAfter]:
    """A number of each numeric column, before and after."""
    return {name: (compute(tables.before[name].values), compute(tables.after[name].values)) for name in tables.numeric}


def compute_quantiles(tables: MatchedTables) -> dict[str, tuple[tuple[float, float, float], ...]]:
    """Each level with the quantiles of each numeric column before and after."""
    quantiles = {}
    for name in tables.numeric:
        before, after = _compute_levels(tables.before[name].values), _compute_levels(tables.after[name].values)
        quantiles[name] = tuple(zip(QUANTILE_LEVELS, before, after, strict=True))
    return quantiles


def _compute_levels(values: Floats) -> list[float]:
    present_values = drop_missing(values)
    if not len(present_values):
        return [math.nan] * len(QUANTILE_LEVELS)
    return [float(level) for level in np.quantile(present_values, QUANTILE_LEVELS)]


def compute_correlations(table: Table, names: tuple[str, ...]) -> Floats:
    """Pearson's, over the rows where both columns have a value; 0 with a column that does not vary there."""
    if not names:
        return np.zeros((0, 0))
    is_present = np.column_stack([~table[name].missing for name in names]).astype(np.float64)
    values = np.column_stack([standardize(table[name].values) for name in names])
    pair_counts = np.maximum(is_present.T @ is_present, 1)
    sums = values.T @ is_present
    products = values.T @ values - sums * sums.T / pair_counts
    squares = (values**2).T @ is_present - sums**2 / pair_counts
    lengths = np.sqrt(np.maximum(squares, 0) * np.maximum(squares.T, 0))
    coefficients = np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > MIN_VARIANCE * pair_counts)
    np.fill_diagonal(coefficients, 1.0)
    return np.asarray(np.clip(coefficients, -1, 1))


def standardize(values: Floats) -> Floats:
    """The values with mean 0 and deviation 1, missing values as 0."""
    deviation = compute_deviation(values) or 1.0
    return np.where(np.isnan(values), 0.0, (values - compute_mean(values)) / deviation)


def compute_correlation_change(before: Floats, after: Floats) -> BeforeAfter:
    """The mean and the deviation of |after - before| over the pairs of columns; 0 of no pair."""
    change = np.abs(after - before)[np.triu_indices(len(before), 1)]
    return (float(change.mean()), float(change.std())) if len(change) else (0.0, 0.0)


def measure_marginal_changes(tables: MatchedTables) -> dict[str, float]:
    """How far the distribution of each column moved, from 0 to 1; "missing" is one more value, after the greatest.

    Numbers and ordered categories: the greatest difference of the distribution functions. Nominal: half the sum of the
    differences.
    """
    return {name: _measure_distribution_change(before, after) for name, before, after in tables.iterate_pairs()}


def _measure_distribution_change(before: Attribute, after: Attribute) -> float:
    values_before, values_after = fill_missing_last(before), fill_missing_last(after)
    points, places = np.unique(np.concatenate([values_before, values_after]), return_inverse=True)
    shares_before = np.bincount(places[: len(values_before)], minlength=len(points)) / len(values_before)
    shares_after = np.bincount(places[len(values_before) :], minlength=len(points)) / len(values_after)
    if before.kind == "nominal":
        return float(np.abs(shares_before - shares_after).sum() / 2)
    return float(np.abs(np.cumsum(shares_before) - np.cumsum(shares_after)).max())


def fill_missing_last(attribute: Attribute) -> Floats:
    """The values as numbers; missing ones after the greatest."""
    return np.where(attribute.missing, np.inf, attribute.values.astype(np.float64))


MAX_FREQUENT_CATEGORIES = 20
"""The categories that count by themselves: the most frequent in both files. All others are one together."""


def compute_association_change(tables: MatchedTables) -> float:
    """The mean change of association over the pairs of columns of which one at least is not numeric; 0 of no pair.

    With numbers it is the change of the correlation ratio, otherwise that of Cramer's V, both from 0 to 1; "missing" is
    one more category.
    """
    codes = [_encode_frequent(before, after) for _, before, after in tables.iterate_pairs() if before.kind != "numeric"]
    if not codes:
        return 0.0
    tables_by_file = zip((tables.before, tables.after), zip(*codes, strict=True), strict=True)
    before, after = (_compute_associations(table, tables.numeric, file) for table, file in tables_by_file)
    return float(np.mean(np.abs(after - before))) if len(before) else 0.0


def _encode_frequent(before: Attribute, after: Attribute) -> tuple[Integers, Integers]:
    """The categories of each file, numbered from the most frequent on."""
    codes = np.unique(np.concatenate([before.values, after.values]), return_inverse=True)[1]
    places = np.argsort(np.argsort(-np.bincount(codes), kind="stable"))
    frequent_codes = np.minimum(places, MAX_FREQUENT_CATEGORIES)[codes]
    return frequent_codes[: len(before.values)], frequent_codes[len(before.values) :]


def _compute_associations(table: Table, numeric: tuple[str, ...], codes: tuple[Integers, ...]) -> Floats:
    numbers = [(standardize(table[name].values), (~table[name].missing).astype(np.float64)) for name in numeric]
    ratios = [compute_correlation_ratio(column_codes, *number) for column_codes, number in product(codes, numbers)]
    return np.array([*ratios, *(compute_cramers_v(*pair) for pair in combinations(codes, 2))])


def compute_correlation_ratio(codes: Integers, gaps: Floats, is_present: Floats) -> float:
    """The root of the share of the variance that lies between the categories; 0 where the numbers do not vary.

    `gaps` are the standardised numbers, 0 where one is missing.
    """
    total = float(np.sum(gaps * gaps))
    if total <= MIN_VARIANCE * len(gaps):
        return 0.0
    between = float(np.sum(np.bincount(codes, gaps) ** 2 / np.maximum(np.bincount(codes, is_present), 1)))
    return math.sqrt(min(1.0, between / total))


def compute_cramers_v(first_codes: Integers, second_codes: Integers) -> float:
    """The root of chi-squared over the most that it can be; 0 where one of the two does not vary."""
    shape = int(first_codes.max()) + 1, int(second_codes.max()) + 1
    table = np.bincount(first_codes * shape[1] + second_codes, minlength=math.prod(shape)).reshape(shape)
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    if min(table.shape) == 1:
        return 0.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / len(first_codes)
    chi = float(np.sum((table - expected) ** 2 / expected))
    return math.sqrt(min(1.0, chi / (len(first_codes) * (min(table.shape) - 1))))


MAX_ROWS = 5_000
"""This many evenly spaced rows stand for all of a longer file."""

MAX_TERMS = 100
"""The model has at most this many terms, and at most one for every 20 rows; at most half of them are of one column."""

MAX_LEVELS = 20
"""The categories that have a term of their own: the most frequent."""

MAX_CROSSED_LEVELS = 3
"""The most frequent of these, which have products with other columns."""

MAX_STEPS = 50
"""More are never needed to fit the model."""

MIN_GAIN = 1e-6
"""A step that wins less likelihood than this is the last; the model is then fitted to its square."""

RIDGE = 1e-6
"""Keeps a model finite that separates the files row by row."""

MIN_DIRECTION_VARIANCE = 1e-9
"""A direction in which the terms have less variance than this, or than this share of the most, is none."""


def compute_propensity(tables: MatchedTables) -> float:
    """The propensity score: from 0, the model cannot tell the files apart, to 1, it tells every row.


    The model is a logistic regression (Woo et al. 2009, Snoke et al. 2018) of "is released" on standardised columns and
    categories, then on squares and products of two columns, taken in turn from all columns and all pairs of them.
    pMSE is the mean of (p - c)^2 over the rows of both files, c being the share of released rows; it is c (1 - c) where
    every row is told. What r independent terms give by chance where the release is sampled anew from the original's own
    distribution, r c (1 - c)^2 / N, is taken off both; below 0 is 0. Where no column can be compared it is 1.
    """
    if not tables.comparable:
        return 1.0
    rows = _select_spaced_rows(tables.before.rows), _select_spaced_rows(tables.after.rows)
    pairs = [(before.take(rows[0]), after.take(rows[1])) for _, before, after in tables.iterate_pairs()]
    released = np.repeat([0.0, 1.0], [len(rows[0]), len(rows[1])])
    bound = max(1, min(MAX_TERMS, len(released) // 20))
    simple = [*islice(_interleave_terms([_build_single_terms(*pair) for pair in pairs]), max(1, bound // 2))]
    terms = np.column_stack([*simple, *islice(_build_product_terms(pairs), bound - len(simple))])
    independent_terms = _find_independent_terms(terms)
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
        if pairs[place][0].kind == "nominal":
            return [*_build_category_terms(*pairs[place], MAX_CROSSED_LEVELS)]
        return [_build_number_term(*pairs[place])]

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
    """One term for each of the most frequent, but for the last of all, which follows from the others."""
    values = np.concatenate([before.values, after.values])
    codes, counts = np.unique(values, return_counts=True)
    frequent = codes[np.argsort(-counts, kind="stable")][: max(1, min(max_terms, len(codes) - 1))]
    return ((values == code).astype(np.float64) for code in frequent)


def _find_independent_terms(terms: Floats) -> Floats:
    """The directions in which the terms vary, each with mean 0 and deviation 1."""
    centered = terms - terms.mean(axis=0)
    widths, directions = np.linalg.eigh(centered.T @ centered / len(centered))
    is_retained = widths > MIN_DIRECTION_VARIANCE * max(float(widths[-1]), 1.0)
    return np.asarray(centered @ (directions[:, is_retained] / np.sqrt(widths[is_retained])))


def _fit_chances(terms: Floats, released: Floats) -> Floats:
    """Each row's chance of being released under the fitted model: Newton's steps, halved where they go too far."""
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
