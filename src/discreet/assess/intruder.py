"""What a rational intruder knows about who is who, for any mechanism (thesis 3.2, Examples 1 to 3).

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
from discreet.exact import rational

MOST_WORK = 8_000_000
"""Steps that one component may cost; 18 records released of 18 are within."""

Matrix = tuple[tuple[Fraction, ...], ...]


def reidentification(chances: Sequence[Sequence[object]]) -> Matrix:
    """What a rational intruder finds in a released table.

    P(e_i is x'_j | T', E, M) for every i and j, exactly.

    Injections factor over the connected components of the chances above 0. A component whose chances are all equal, as
    when values are swapped in a group, has 1 over the number of its external records; of another the sums (permanents)
    are found record by record over subsets of its released records.
    """
    given = _read(chances)
    found: dict[tuple[int, int], Fraction] = {}
    for people, records in _components(given):
        found |= _within(given, people, records)
    none = Fraction(0)
    return tuple(tuple(found.get((i, j), none) for j in range(len(given[0]))) for i in range(len(given)))


def probabilistic_k(chances: Sequence[Sequence[object]]) -> int:
    """The greatest k for which the release is probabilistically k-anonymous: no linkage is likelier than 1/k."""
    return math.floor(1 / max(max(row) for row in reidentification(chances)))


def swap_chances(groups: Iterable[int], kept: Iterable[int] | None = None) -> Matrix:
    """The chances of a uniform permutation inside groups; of a sample, only the released rows `kept`."""
    labels = [int(label) for label in groups]
    rows = list(range(len(labels))) if kept is None else [int(row) for row in kept]
    if len(set(rows)) < len(rows) or not set(rows) <= set(range(len(labels))):
        raise InvalidInput(f"the rows kept are numbers from 0 to {len(labels) - 1}, each at most once")
    share = {label: Fraction(1, size) for label, size in Counter(labels).items()}
    return tuple(tuple(share[mine] if mine == labels[row] else Fraction(0) for row in rows) for mine in labels)


def _read(chances: Sequence[Sequence[object]]) -> Matrix:
    given = tuple(tuple(_chance(chance) for chance in row) for row in chances)
    widths = {len(row) for row in given}
    if len(widths) != 1 or not 1 <= min(widths) <= len(given):
        raise InvalidInput(
            "chances are a table of numbers: a row for each external record, a column for each released one, "
            "and no more columns than rows"
        )
    if any(chance < 0 for row in given for chance in row):
        raise InvalidInput("a chance is at least 0")
    return given


def _chance(chance: object) -> Fraction:
    return chance if isinstance(chance, Fraction) else rational(chance, "a chance")


def _components(given: Matrix) -> list[tuple[list[int], list[int]]]:
    """External and released records that are joined by chances above 0."""
    above = [[j for j, chance in enumerate(row) if chance] for row in given]
    holders: dict[int, list[int]] = defaultdict(list)
    for i, columns in enumerate(above):
        for j in columns:
            holders[j].append(i)
    found, seen = [], set[int]()
    for start in range(len(given[0])):
        if start not in seen:
            people, records = _reached(start, above, holders)
            seen |= records
            found.append((sorted(people), sorted(records)))
    return found


def _reached(start: int, above: list[list[int]], holders: dict[int, list[int]]) -> tuple[set[int], set[int]]:
    people, records, waiting = set[int](), {start}, [start]
    while waiting:
        for i in holders[waiting.pop()]:
            if i not in people:
                people.add(i)
                fresh = set(above[i]) - records
                records |= fresh
                waiting.extend(fresh)
    return people, records


def _within(given: Matrix, people: list[int], records: list[int]) -> dict[tuple[int, int], Fraction]:
    """The probabilities inside one component."""
    m = len(records)
    if m <= len(people) and len({given[i][j] for i in people for j in records}) == 1:
        return {(i, j): Fraction(1, len(people)) for i in people for j in records}
    if (len(people) - m + 1) * m * 2**m > MOST_WORK:
        raise Unsupported(
            f"{m} released records could be any of {len(people)} people, each with chances of their own, which is more "
            "than can be counted exactly; give chances in smaller blocks, or of about 18 records"
        )
    weights = _whole(given, people, records)
    ways = _ways(weights, m)
    total = ways[-1].get(2**m - 1, 0)
    if not total:
        raise InvalidInput("under these chances the released records can be nobody's; check the chances that are 0")
    shares = _shares(weights, ways, m)
    return {(people[i], records[j]): Fraction(share, total) for (i, j), share in shares.items()}


def _whole(given: Matrix, people: list[int], records: list[int]) -> list[list[tuple[int, int]]]:
    """Each person's chances above 0 as (record, whole number): every injection uses a column once, so scales cancel."""
    scales = [math.lcm(*(given[i][j].denominator for i in people)) for j in records]
    return [
        [(place, int(given[i][j] * scales[place])) for place, j in enumerate(records) if given[i][j]] for i in people
    ]


def _ways(weights: list[list[tuple[int, int]]], m: int) -> list[dict[int, int]]:
    """After each person: for every set of records, as bits, the weight of giving just these to the people so far."""
    ways = [{0: 1}]
    for i, row in enumerate(weights):
        ways.append(_one_more(ways[-1], row, m - (len(weights) - i - 1)))
    return ways


def _one_more(ways: dict[int, int], row: list[tuple[int, int]], least: int) -> dict[int, int]:
    """The same with one more person; sets of fewer than `least` records are left out: too few people are left."""
    further: dict[int, int] = defaultdict(int)
    for taken, weight in ways.items():
        size = taken.bit_count()
        if size >= least:
            further[taken] += weight  # this person is none of the records
        if size + 1 >= least:
            for place, chance in row:
                if not taken >> place & 1:
                    further[taken | 1 << place] += weight * chance
    return dict(further)


def _shares(weights: list[list[tuple[int, int]]], ways: list[dict[int, int]], m: int) -> dict[tuple[int, int], int]:
    """For every person and record: the weight of the injections that join them, going back from the last person."""
    shares: dict[tuple[int, int], int] = {}
    rest = {0: 1}
    for i in range(len(weights) - 1, -1, -1):
        for place, chance in weights[i]:
            others = (2**m - 1) ^ (1 << place)
            shares[i, place] = chance * sum(
                weight * rest.get(others ^ taken, 0) for taken, weight in ways[i].items() if not taken >> place & 1
            )
        rest = _one_more(rest, weights[i], m - i)
    return shares
