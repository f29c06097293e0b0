"""How far an answer can move when one unit changes, over all tables: public, and exact. Proofs in the docstrings."""

from __future__ import annotations

from fractions import Fraction

from discreet.errors import InvalidInput, Unsupported
from discreet.mechanisms.order_statistic import OrderStatisticName, find_rank, parse_bounds
from discreet.numeric import as_int, as_number_between
from discreet.privacy.guarantee import parse_neighbor_relation
from discreet.suggestions import build_choice_error

AGGREGATE_NAMES = ("count", "distinct", "sum", "histogram", "mean", "variance")
ORDER_STATISTIC_NAMES = ("median", "max", "min", "second max")


def count_sensitivity(neighbors: str = "add-remove", rows_per_unit: object = 1) -> Fraction:
    """r under both relations: a unit moves the count by its rows that pass the filter, 0 to r before and after."""
    parse_neighbor_relation(neighbors)
    return Fraction(as_int(rows_per_unit, "rows per unit"))


def distinct_sensitivity(neighbors: str = "add-remove") -> Fraction:
    """1 under both relations, for the number of units with a row that passes the filter."""
    parse_neighbor_relation(neighbors)
    return Fraction(1)


def sum_sensitivity(
    lower: object, upper: object, neighbors: str = "add-remove", rows_per_unit: object = 1, every_row: bool = False
) -> Fraction:
    """Rows clamped to [L, U], up to r of them per unit, any of which a filter or a gap may drop.

    A unit adds a number in r [min(L, 0), max(U, 0)]: add-remove r max(|L|, |U|), replace-one the width of that range.
    `every_row`: under replace-one a unit is always exactly one row that counts, so the width is U - L.
    """
    low, high = parse_bounds(lower, upper)
    rows = as_int(rows_per_unit, "rows per unit")
    if parse_neighbor_relation(neighbors) == "add-remove":
        return rows * max(abs(low), abs(high))
    if every_row and rows == 1:
        return high - low
    return rows * (max(high, Fraction(0)) - min(low, Fraction(0)))


def histogram_sensitivity(neighbors: str = "add-remove", rows_per_unit: object = 1) -> Fraction:
    """In the l1 norm over disjoint cells: r, and 2r where r rows leave some cells and r enter others."""
    rows = count_sensitivity(neighbors, rows_per_unit)
    return rows if neighbors == "add-remove" else 2 * rows


def histogram_sensitivity_squared(neighbors: str = "add-remove", rows_per_unit: object = 1) -> Fraction:
    """The square of the l2 sensitivity: r^2, and 2 r^2 under replace-one; worst when all r rows share a cell."""
    rows = count_sensitivity(neighbors, rows_per_unit)
    return rows**2 if neighbors == "add-remove" else 2 * rows**2


def mean_sensitivity(
    lower: object, upper: object, rows: object, neighbors: str = "replace-one", rows_per_unit: object = 1
) -> Fraction:
    """r (U - L) / n, n the public number of rows, every one counted; a unit of up to r rows keeps their number."""
    low, high = parse_bounds(lower, upper)
    total = _require_public_rows(rows, neighbors, "mean")
    return min(as_int(rows_per_unit, "rows per unit"), total) * (high - low) / total


def variance_sensitivity(
    lower: object, upper: object, rows: object, neighbors: str = "replace-one", rows_per_unit: object = 1
) -> Fraction:
    """(U - L)^2 (n - 1) / n^2, for the population variance of n rows, n public, one row per unit.

    The variance is the sum of (x_i - x_j)^2 over pairs, divided by n^2. One row is in n - 1 pairs, each between 0 and
    (U - L)^2. Reached when all rows are at L and one goes to U.
    """
    low, high = parse_bounds(lower, upper)
    total = _require_public_rows(rows, neighbors, "variance")
    if as_int(rows_per_unit, "rows per unit") != 1:
        raise Unsupported("the variance is proven for one row per unit; ask for the sums of x and of x^2 instead")
    return (high - low) ** 2 * Fraction(total - 1, total**2)


def order_sensitivity(what: OrderStatisticName, lower: object, upper: object) -> Fraction:
    """U - L for every order statistic, relation and number of rows per unit: no better than knowing nothing."""
    find_rank(what, 1)
    low, high = parse_bounds(lower, upper)
    return high - low


def rank_score_sensitivity(q: object, neighbors: str = "add-remove", rows_per_unit: object = 1) -> Fraction:
    """r max(a, b-a), and r b under replace-one, for the rank score (`compute_rank_scores`) of every candidate.

    A row adds b-a or -a to one argument of the max, -(b-a) or a to the other; replacing it changes each by at most b.
    """
    share = as_number_between(q, 0, 1, "q")
    rows = count_sensitivity(neighbors, rows_per_unit)
    a, b = share.numerator, share.denominator
    return rows * (max(a, b - a) if neighbors == "add-remove" else b)


def global_sensitivity(
    what: OrderStatisticName,
    lower: object = None,
    upper: object = None,
    neighbors: str = "add-remove",
    rows_per_unit: object = 1,
    rows: object = None,
    every_row: bool = False,
) -> Fraction:
    """The most that one unit can move the answer, over all tables; in the l1 norm for a histogram. Public.

    what: count, distinct, sum, histogram, mean, variance, median, max, min, second max or ("quantile", q).
    """
    match what:
        case "count":
            return count_sensitivity(neighbors, rows_per_unit)
        case "distinct":
            return distinct_sensitivity(neighbors)
        case "histogram":
            return histogram_sensitivity(neighbors, rows_per_unit)
        case "sum":
            return sum_sensitivity(lower, upper, neighbors, rows_per_unit, every_row)
        case "mean":
            return mean_sensitivity(lower, upper, rows, neighbors, rows_per_unit)
        case "variance":
            return variance_sensitivity(lower, upper, rows, neighbors, rows_per_unit)
    parse_neighbor_relation(neighbors)
    if isinstance(what, str) and what not in ORDER_STATISTIC_NAMES:
        raise build_choice_error("what", what, (*AGGREGATE_NAMES, *ORDER_STATISTIC_NAMES), " or ('quantile', q)")
    return order_sensitivity(what, lower, upper)


def _require_public_rows(rows: object, neighbors: str, what: str) -> int:
    if parse_neighbor_relation(neighbors) != "replace-one" or rows is None:
        raise InvalidInput(f"the {what} needs a public number of rows and replace-one; else ask for sum and count")
    return as_int(rows, "rows")
