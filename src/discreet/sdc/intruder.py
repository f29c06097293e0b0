"""The knowledge of a rational intruder about who is who, for any mechanism (thesis 3.2, Examples 1 to 3).

The intruder has N external records e_1 .. e_N, among them all people of the release, which has M <= N records
x'_1 .. x'_M; and she knows the mechanism: `chances[i][j]` is P(X'(qi_i^E) = qi'_j | M), or a density. Every x'_j came
of another e_i; before looking, each choice of who they are is as likely as any other, and records are perturbed
independently. So each injection of the released records into the external ones weighs the product of its chances, and

    P(e_i is x'_j | T', E, M) = weight of the injections that send j to i / weight of all injections.

Example 1 is M = 1, Example 2 is M = N = 2. In Example 3 the thesis prints the denominator's ranges as r_2 < ... < r_m
and {s_2, ..., s_M} = {2, ..., M}; they must run from 1, as here, or the quotient is no probability.

A permutation is not independent from record to record, but a uniform one inside groups gives every injection that
respects the groups the same weight, also of a sample, and that is all that the quotient needs.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction

from discreet.errors import InvalidInput, Unsupported
from discreet.numeric import as_int, as_rational
from discreet.untrusted import copy_list

MAX_WORK = 8_000_000
"""Steps that one component may cost; 18 records released of 18 are within."""

Matrix = tuple[tuple[Fraction, ...], ...]


def reidentification(chances: Sequence[Sequence[object]]) -> Matrix:
    """Compute the re-identification probabilities of a rational intruder: P(e_i is x'_j | T', E, M), exactly.

    Injections factor over the connected components of the chances above 0. A component whose chances are all equal, as
    when values are swapped in a group, has 1 over the number of its external records; of others the sums (permanents)
    are found record by record over subsets of the released records.

    Args:
        chances: For each external record, the chance that the method made each released record of it.

    Returns:
        The probability of each link, as exact fractions.

    Raises:
        InvalidInput: The chances are not a table of numbers of at least 0, or it has more columns than rows.
        Unsupported: A component is too large for the exact sums.

    Example:
        >>> from discreet.sdc import reidentification
        >>> reidentification([[0.5, 0.5], [0.5, 0.5]])[0]
        (Fraction(1, 2), Fraction(1, 2))
    """
    matrix = _read_chances(chances)
    probabilities: dict[tuple[int, int], Fraction] = {}
    for people, records in _find_components(matrix):
        probabilities |= _solve_component(matrix, people, records)
    none = Fraction(0)
    return tuple(tuple(probabilities.get((i, j), none) for j in range(len(matrix[0]))) for i in range(len(matrix)))


def probabilistic_k(chances: Sequence[Sequence[object]]) -> int:
    """Compute the largest k for which a release is probabilistically k-anonymous: no link is more likely than 1/k.

    Args:
        chances: For each external record, the chance that the method made each released record of it.

    Returns:
        The largest k.

    Raises:
        InvalidInput: The chances are not a table of numbers of at least 0, or it has more columns than rows.
        Unsupported: A component is too large for the exact sums.

    Example:
        >>> from discreet.sdc import probabilistic_k, swap_chances
        >>> probabilistic_k(swap_chances([0, 0, 0, 1, 1]))  # the smallest group has two rows
        2
    """
    return math.floor(1 / max(max(row) for row in reidentification(chances)))


def swap_chances(groups: Iterable[int], kept: Iterable[int] | None = None) -> Matrix:
    """Compute the probability that each row's value goes to each released row, under a uniform permutation inside
    groups.

    Args:
        groups: The group of each row.
        kept: The rows that are released; all by default.

    Returns:
        A row for each original row and a column for each released one, as exact fractions.

    Raises:
        InvalidInput: A group is not a whole number, or a kept row does not exist or is named twice.

    Example:
        >>> from discreet.sdc import swap_chances
        >>> swap_chances([0, 0, 1])[0]
        (Fraction(1, 2), Fraction(1, 2), Fraction(0, 1))
    """
    labels = [as_int(label, "a group", minimum=0) for label in copy_list(groups, "the groups")]
    numbers = range(len(labels)) if kept is None else copy_list(kept, "the rows kept")
    rows = [as_int(row, "a row", minimum=0) for row in numbers]
    if len(set(rows)) < len(rows) or not set(rows) <= set(range(len(labels))):
        raise InvalidInput(f"the rows kept are numbers from 0 to {len(labels) - 1}, each at most once")
    share = {label: Fraction(1, size) for label, size in Counter(labels).items()}
    return tuple(tuple(share[group] if group == labels[row] else Fraction(0) for row in rows) for group in labels)


def _read_chances(chances: Sequence[Sequence[object]]) -> Matrix:
    matrix = tuple(
        tuple(chance if isinstance(chance, Fraction) else as_rational(chance, "a chance") for chance in row)
        for row in (copy_list(row, "a row of chances") for row in copy_list(chances, "the chances"))
    )
    widths = {len(row) for row in matrix}
    if len(widths) != 1 or not 1 <= min(widths) <= len(matrix):
        raise InvalidInput(
            "chances are a table of numbers: a row for each external record, a column for each released one, "
            "and no more columns than rows"
        )
    if any(chance < 0 for row in matrix for chance in row):
        raise InvalidInput("a chance is at least 0")
    return matrix


def _find_components(matrix: Matrix) -> list[tuple[list[int], list[int]]]:
    """External and released records that are joined by chances above 0."""
    positive_columns = [[j for j, chance in enumerate(row) if chance] for row in matrix]
    holders: dict[int, list[int]] = defaultdict(list)
    for i, columns in enumerate(positive_columns):
        for j in columns:
            holders[j].append(i)
    components, visited = [], set[int]()
    for start in range(len(matrix[0])):
        if start in visited:
            continue
        people, records, waiting = set[int](), {start}, [start]
        while waiting:
            for i in holders[waiting.pop()]:
                if i not in people:
                    people.add(i)
                    fresh = set(positive_columns[i]) - records
                    records |= fresh
                    waiting.extend(fresh)
        visited |= records
        components.append((sorted(people), sorted(records)))
    return components


def _solve_component(matrix: Matrix, people: list[int], records: list[int]) -> dict[tuple[int, int], Fraction]:
    m = len(records)
    if m <= len(people) and len({matrix[i][j] for i in people for j in records}) == 1:
        return {(i, j): Fraction(1, len(people)) for i in people for j in records}
    if (len(people) - m + 1) * m * 2**m > MAX_WORK:
        raise Unsupported(
            f"{m} released records could be any of {len(people)} people, each with chances of their own, which is more "
            "than can be counted exactly; give chances in smaller blocks, or of about 18 records"
        )
    # Each person's chances above 0 as (record, whole number): every injection uses a column once, so scales cancel.
    scales = [math.lcm(*(matrix[i][j].denominator for i in people)) for j in records]
    weights = [
        [(place, int(matrix[i][j] * scales[place])) for place, j in enumerate(records) if matrix[i][j]] for i in people
    ]
    # After each person: for every set of records, as bits, the weight of giving just these to the people so far.
    ways = [{0: 1}]
    for i, row in enumerate(weights):
        ways.append(_add_person(ways[-1], row, m - (len(weights) - i - 1)))
    total = ways[-1].get(2**m - 1, 0)
    if not total:
        raise InvalidInput("under these chances the released records can be nobody's; check the chances that are 0")
    shares = _compute_shares(weights, ways, m)
    return {(people[i], records[j]): Fraction(share, total) for (i, j), share in shares.items()}


def _add_person(ways: dict[int, int], row: list[tuple[int, int]], min_records: int) -> dict[int, int]:
    """The weights of sets of records with one more person.

    Sets of fewer than `min_records` are left out: too few people are left.
    """
    extended_ways: dict[int, int] = defaultdict(int)
    for taken, weight in ways.items():
        size = taken.bit_count()
        if size >= min_records:
            extended_ways[taken] += weight  # this person is none of the records
        if size + 1 >= min_records:
            for place, chance in row:
                if not taken >> place & 1:
                    extended_ways[taken | 1 << place] += weight * chance
    return dict(extended_ways)


def _compute_shares(
    weights: list[list[tuple[int, int]]], ways: list[dict[int, int]], m: int
) -> dict[tuple[int, int], int]:
    """For every person and record: the weight of the injections that join them, going back from the last person."""
    shares: dict[tuple[int, int], int] = {}
    later_ways = {0: 1}
    for i in range(len(weights) - 1, -1, -1):
        for place, chance in weights[i]:
            others = (2**m - 1) ^ (1 << place)
            shares[i, place] = chance * sum(
                weight * later_ways.get(others ^ taken, 0)
                for taken, weight in ways[i].items()
                if not taken >> place & 1
            )
        later_ways = _add_person(later_ways, weights[i], m - i)
    return shares
