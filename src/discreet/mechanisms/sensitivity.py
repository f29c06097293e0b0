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
    """Compute the sensitivity of a count: r, the rows that are kept of a unit, under both neighbor relations.

    Args:
        neighbors: The neighbor relation, "add-remove" or "replace-one".
        rows_per_unit: The most rows of one privacy unit.

    Returns:
        The most that one unit can change the count.

    Raises:
        InvalidInput: The relation is unknown, or the number of rows is not a whole number of at least 1.

    Example:
        >>> from discreet.mechanisms import count_sensitivity
        >>> count_sensitivity("add-remove", rows_per_unit=3)
        Fraction(3, 1)
    """
    parse_neighbor_relation(neighbors)
    return Fraction(as_int(rows_per_unit, "rows per unit"))


def distinct_sensitivity(neighbors: str = "add-remove") -> Fraction:
    """Compute the sensitivity of the number of units with a row that passes the filter: 1 under both relations.

    Args:
        neighbors: The neighbor relation, "add-remove" or "replace-one".

    Returns:
        1, as an exact number.

    Raises:
        InvalidInput: The relation is unknown.

    Example:
        >>> from discreet.mechanisms import distinct_sensitivity
        >>> distinct_sensitivity("replace-one")
        Fraction(1, 1)
    """
    parse_neighbor_relation(neighbors)
    return Fraction(1)


def sum_sensitivity(
    lower: object, upper: object, neighbors: str = "add-remove", rows_per_unit: object = 1, every_row: bool = False
) -> Fraction:
    """Compute the sensitivity of a sum of values clamped to [L, U].

    A unit has up to r rows, any of which a filter or a missing value may drop, so it adds a number between r min(L, 0)
    and r max(U, 0): add-remove r max(|L|, |U|), replace-one the width of that range.

    Args:
        lower: The lower bound L.
        upper: The upper bound U.
        neighbors: The neighbor relation, "add-remove" or "replace-one".
        rows_per_unit: The most rows r of one privacy unit.
        every_row: Whether, under replace-one, each unit is exactly one row that always counts; the width is then U - L.

    Returns:
        The most that one unit can change the sum.

    Raises:
        InvalidInput: The bounds are not two numbers in order, or another argument is not valid.

    Example:
        >>> from discreet.mechanisms import sum_sensitivity
        >>> sum_sensitivity(17, 90)
        Fraction(90, 1)
        >>> sum_sensitivity(17, 90, "replace-one", every_row=True)
        Fraction(73, 1)
    """
    low, high = parse_bounds(lower, upper)
    rows = as_int(rows_per_unit, "rows per unit")
    if parse_neighbor_relation(neighbors) == "add-remove":
        return rows * max(abs(low), abs(high))
    if every_row and rows == 1:
        return high - low
    return rows * (max(high, Fraction(0)) - min(low, Fraction(0)))


def histogram_sensitivity(neighbors: str = "add-remove", rows_per_unit: object = 1) -> Fraction:
    """Compute the l1 sensitivity of the counts of disjoint cells.

    It is r, and 2r under replace-one, where r rows leave some cells and r rows enter others.

    Args:
        neighbors: The neighbor relation, "add-remove" or "replace-one".
        rows_per_unit: The most rows of one privacy unit.

    Returns:
        The most that one unit can change the counts, summed over the cells.

    Raises:
        InvalidInput: The relation is unknown, or the number of rows is not a whole number of at least 1.

    Example:
        >>> from discreet.mechanisms import histogram_sensitivity
        >>> histogram_sensitivity("replace-one", rows_per_unit=3)
        Fraction(6, 1)
    """
    rows = count_sensitivity(neighbors, rows_per_unit)
    return rows if neighbors == "add-remove" else 2 * rows


def histogram_sensitivity_squared(neighbors: str = "add-remove", rows_per_unit: object = 1) -> Fraction:
    """Compute the square of the l2 sensitivity of the counts of disjoint cells.

    It is r^2, and 2 r^2 under replace-one; the worst case has all r rows of a unit in one cell.

    Args:
        neighbors: The neighbor relation, "add-remove" or "replace-one".
        rows_per_unit: The most rows of one privacy unit.

    Returns:
        The squared l2 sensitivity, which Gaussian noise needs.

    Raises:
        InvalidInput: The relation is unknown, or the number of rows is not a whole number of at least 1.

    Example:
        >>> from discreet.mechanisms import histogram_sensitivity_squared
        >>> histogram_sensitivity_squared("replace-one", rows_per_unit=3)
        Fraction(18, 1)
    """
    rows = count_sensitivity(neighbors, rows_per_unit)
    return rows**2 if neighbors == "add-remove" else 2 * rows**2


def mean_sensitivity(
    lower: object, upper: object, rows: object, neighbors: str = "replace-one", rows_per_unit: object = 1
) -> Fraction:
    """Compute the sensitivity of the mean of n values clamped to [L, U], where n is public.

    Args:
        lower: The lower bound L.
        upper: The upper bound U.
        rows: The public number of rows n.
        neighbors: The neighbor relation; only "replace-one" keeps n public.
        rows_per_unit: The most rows r of one privacy unit.

    Returns:
        min(r, n) (U - L) / n.

    Raises:
        InvalidInput: An argument is not valid; under add-remove the number of rows is not public.

    Example:
        >>> from discreet.mechanisms import mean_sensitivity
        >>> mean_sensitivity(0, 100, rows=50)
        Fraction(2, 1)
    """
    low, high = parse_bounds(lower, upper)
    total = _require_public_rows(rows, neighbors, "mean")
    return min(as_int(rows_per_unit, "rows per unit"), total) * (high - low) / total


def variance_sensitivity(
    lower: object, upper: object, rows: object, neighbors: str = "replace-one", rows_per_unit: object = 1
) -> Fraction:
    """Compute the sensitivity of the population variance of n values clamped to [L, U]: (U - L)^2 (n - 1) / n^2.

    The number of rows n is public, and each unit has one row. The variance is the sum of (x_i - x_j)^2 over pairs,
    divided by n^2. One row is in n - 1 pairs, each between 0 and (U - L)^2. The bound is reached when all rows are at L
    and one goes to U.

    Args:
        lower: The lower bound L.
        upper: The upper bound U.
        rows: The public number of rows n.
        neighbors: The neighbor relation; only "replace-one" keeps n public.
        rows_per_unit: Must be 1.

    Returns:
        The most that one unit can change the variance.

    Raises:
        InvalidInput: An argument is not valid; under add-remove the number of rows is not public.
        Unsupported: A unit may have several rows.

    Example:
        >>> from discreet.mechanisms import variance_sensitivity
        >>> variance_sensitivity(0, 10, rows=5)
        Fraction(16, 1)
    """
    low, high = parse_bounds(lower, upper)
    total = _require_public_rows(rows, neighbors, "variance")
    if as_int(rows_per_unit, "rows per unit") != 1:
        raise Unsupported("the variance is proven for one row per unit; ask for the sums of x and of x^2 instead")
    return (high - low) ** 2 * Fraction(total - 1, total**2)


def order_sensitivity(what: OrderStatisticName, lower: object, upper: object) -> Fraction:
    """Compute the global sensitivity of an order statistic: the width of the bounds.

    Args:
        what: "median", "max", "min", "second max" or ("quantile", q).
        lower: The lower bound of the values.
        upper: The upper bound of the values.

    Returns:
        upper - lower.

    Raises:
        InvalidInput: The statistic is unknown, or the bounds are not two numbers in order.

    Example:
        >>> from discreet.mechanisms import order_sensitivity
        >>> order_sensitivity("median", 17, 90)
        Fraction(73, 1)
    """
    find_rank(what, 1)
    low, high = parse_bounds(lower, upper)
    return high - low


def rank_score_sensitivity(q: object, neighbors: str = "add-remove", rows_per_unit: object = 1) -> Fraction:
    """Compute the sensitivity of the rank score by which a q-quantile is chosen, q = a/b.

    It is r max(a, b-a), and r b under replace-one, for every candidate. A row adds b-a or -a to one argument of the max
    in the score and -(b-a) or a to the other; replacing it changes each by at most b.

    Args:
        q: The order of the quantile, between 0 and 1.
        neighbors: The neighbor relation, "add-remove" or "replace-one".
        rows_per_unit: The most rows r of one privacy unit.

    Returns:
        The most that one unit can change a score.

    Raises:
        InvalidInput: An argument is not valid.

    Example:
        >>> from discreet.mechanisms import rank_score_sensitivity
        >>> rank_score_sensitivity(0.9)
        Fraction(9, 1)
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
    """Compute the most that one privacy unit can change an answer, over all tables.

    It depends on public facts only, so it may be published.

    Args:
        what: "count", "distinct", "sum", "histogram" (in the l1 norm), "mean", "variance", "median", "max", "min",
            "second max" or ("quantile", q).
        lower: The lower bound of the values, where they matter.
        upper: The upper bound of the values, where they matter.
        neighbors: The neighbor relation, "add-remove" or "replace-one".
        rows_per_unit: The most rows of one privacy unit.
        rows: The public number of rows, for a mean or a variance.
        every_row: Whether each unit is exactly one row that always counts, for a sum under replace-one.

    Returns:
        The exact sensitivity.

    Raises:
        InvalidInput: The statistic is unknown, or another argument is not valid.
        Unsupported: Nothing is proven for a variance with several rows of a unit.

    Example:
        >>> from discreet import global_sensitivity
        >>> global_sensitivity("sum", lower=0, upper=100, rows_per_unit=2)
        Fraction(200, 1)
        >>> global_sensitivity("mean", lower=0, upper=100, neighbors="replace-one", rows=1000)
        Fraction(1, 10)
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
