"""When one noise is better than another, decided exactly on finite laws. Proof: noise_order.md.

A law is a mapping from grid points (whole numbers, or tuples of them) to exact probabilities; mass that is not
listed lies farther out than every listed point.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise

from discreet.errors import InvalidInput
from discreet.mechanisms.noise import compute_grid_units
from discreet.mechanisms.staircase import Staircase
from discreet.numeric import as_rational
from discreet.untrusted import copy_items, copy_list, copy_value

Point = tuple[int, ...]
GridDistribution = Mapping[int, Fraction] | Mapping[Point, Fraction]
ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class DensityCheck:
    """The result of a check of the density condition.

    `worst_ratio` is the greatest p(x)/p(x + d), None where p(x + d) is 0 and p(x) is not; `skipped_pairs` left the
    window and were not compared.
    """

    worst_ratio: Fraction | None
    compared_pairs: int
    skipped_pairs: int


def check_density(
    distribution: GridDistribution, differences: Iterable[int | Point], inside: Callable[[Point], bool] = lambda _: True
) -> DensityCheck:
    """Condition (4.2) on a grid: p(x) against p(x + d) for all listed x and all differences d.

    A law given on a window only is compared where x + d is `inside` it; a point inside and not listed has
    probability 0.
    """
    probabilities = _as_points(distribution)
    shifts = [_as_point(shift) for shift in copy_list(differences, "the differences")]
    worst_ratio: Fraction | None = Fraction(1)
    compared_pairs = skipped_pairs = 0
    for x, p in probabilities.items():
        for shift in shifts:
            shifted_point = tuple(a + b for a, b in zip(x, shift, strict=True))
            if not inside(shifted_point):
                skipped_pairs += 1
                continue
            compared_pairs += 1
            q = probabilities.get(shifted_point, ZERO)
            if p:
                worst_ratio = None if worst_ratio is None or not q else max(worst_ratio, p / q)
    return DensityCheck(worst_ratio, compared_pairs, skipped_pairs)


def satisfies_density(
    distribution: GridDistribution,
    differences: Iterable[int | Point],
    ratio: Fraction,
    inside: Callable[[Point], bool] = lambda _: True,
) -> bool:
    """Check whether noise on a grid is private: p(x) <= ratio p(x + d) for all listed x and all differences d.

    Args:
        distribution: The probability of each grid point.
        differences: The differences of answers between neighbors, in grid steps.
        ratio: The bound, e^epsilon for epsilon-DP.
        inside: Limits the check to points x + d where this is true.

    Returns:
        Whether the bound holds everywhere.

    Raises:
        InvalidInput: The distribution or the ratio is not valid.

    Example:
        >>> from fractions import Fraction
        >>> from discreet.mechanisms import satisfies_density
        >>> noise = {-1: Fraction(1, 4), 0: Fraction(1, 2), 1: Fraction(1, 4)}
        >>> satisfies_density(noise, [-1, 1], 2, inside=lambda point: abs(point[0]) <= 1)
        True
        >>> satisfies_density(noise, [-1, 1], 2)  # -2 and 2 have probability 0
        False
    """
    worst_ratio = check_density(distribution, differences, inside).worst_ratio
    return worst_ratio is not None and worst_ratio <= as_rational(ratio, "the ratio")


def smaller(first: GridDistribution, second: GridDistribution) -> bool:
    """Compare two noises: check whether the first is at least as likely in every set closed towards 0 (Definition 7).

    Definition 6 looks at 0..a and -b..0 separately: the same where 0 has no mass, but on a grid it counts 0 twice; on
    the line the sets here are all -b..a (noise_order.md). In more dimensions it holds exactly where moving mass of the
    second towards 0, component by component, can make the first (Strassen); a maximum flow decides that.

    Args:
        first: The probability of each grid point under the first noise.
        second: The same for the second noise.

    Returns:
        Whether the first noise is smaller than the second, or equal.

    Raises:
        InvalidInput: A distribution is not valid.

    Example:
        >>> from fractions import Fraction
        >>> from discreet.mechanisms import smaller
        >>> narrow = {-1: Fraction(1, 4), 0: Fraction(1, 2), 1: Fraction(1, 4)}
        >>> wide = {-2: Fraction(1, 4), 0: Fraction(1, 2), 2: Fraction(1, 4)}
        >>> smaller(narrow, wide), smaller(wide, narrow)
        (True, False)
    """
    sources, sinks = _as_points(second), _as_points(first)
    if all(len(point) == 1 for point in (*sources, *sinks)):
        return _is_smaller_on_line(sinks, sources)
    scale = math.lcm(*(p.denominator for p in (*sources.values(), *sinks.values())))
    supply = [int(p * scale) for p in sources.values()]
    demand = [int(p * scale) for p in sinks.values()]

    def is_towards_zero(x: Point, y: Point) -> bool:
        """Whether x lies in the box spanned by 0 and y."""
        return all(0 <= a <= b or b <= a <= 0 for a, b in zip(x, y, strict=True))

    reachable_sinks = [[j for j, x in enumerate(sinks) if is_towards_zero(x, y)] for y in sources]
    return compute_max_flow(supply, demand, reachable_sinks) == sum(supply)


def _is_smaller_on_line(first: Mapping[Point, Fraction], second: Mapping[Point, Fraction]) -> bool:
    """The closed sets are -b..a: the gain at 0, the worst on some 1..a and the worst on some -b..-1 decide."""
    gain = {x: first.get((x,), ZERO) - second.get((x,), ZERO) for (x,) in {*first, *second}}
    right, left = ([gain[x * side] for x in sorted(x * side for x in gain if x * side > 0)] for side in (1, -1))
    return gain.get(0, ZERO) + min(accumulate(right, initial=ZERO)) + min(accumulate(left, initial=ZERO)) >= 0


def compute_max_flow(supply: Sequence[int], demand: Sequence[int], reachable_sinks: Sequence[Sequence[int]]) -> int:
    """The most that can be moved from sources to the sinks each reaches: augmenting paths, shortest first."""
    open_supply, open_demand = list(supply), list(demand)
    flow: list[dict[int, int]] = [{} for _ in demand]
    total = 0
    while path := _find_augmenting_path(open_supply, open_demand, reachable_sinks, flow):
        amount = min(open_supply[path[0][0]], open_demand[path[-1][1]])
        amount = min([amount, *(flow[sink][next_source] for (_, sink), (next_source, _) in pairwise(path))])
        for (source, sink), (next_source, _) in zip(path, [*path[1:], (-1, -1)], strict=True):
            flow[sink][source] = flow[sink].get(source, 0) + amount
            if next_source >= 0:
                flow[sink][next_source] -= amount
        open_supply[path[0][0]] -= amount
        open_demand[path[-1][1]] -= amount
        total += amount
    return total


def _find_augmenting_path(
    open_supply: Sequence[int],
    open_demand: Sequence[int],
    reachable_sinks: Sequence[Sequence[int]],
    flow: Sequence[Mapping[int, int]],
) -> list[tuple[int, int]]:
    """The shortest path from a source with something to spare to a sink that wants more, as (source, sink) pairs.

    From a sink the path goes on to a source that already sends there, and could send elsewhere instead.
    """
    predecessors: dict[int, tuple[int, int] | None] = {s: None for s, spare in enumerate(open_supply) if spare}
    visited_sinks: set[int] = set()
    queue = deque(predecessors)
    while queue:
        source = queue.popleft()
        for sink in reachable_sinks[source]:
            if sink in visited_sinks:
                continue
            visited_sinks.add(sink)
            if open_demand[sink]:
                path = [(source, sink)]
                while (previous_pair := predecessors[path[0][0]]) is not None:
                    path.insert(0, previous_pair)
                return path
            new_sources = [other for other, amount in flow[sink].items() if amount and other not in predecessors]
            predecessors |= dict.fromkeys(new_sources, (source, sink))
            queue.extend(new_sources)
    return []


def staircase_from(half: Sequence[Fraction], epsilon: object, sensitivity: object, step: object = 1) -> Staircase:
    """Build a staircase that is smaller than the given private noise (Theorem 1).

    The noise is symmetric. Beyond the last probability given, it falls by the staircase's own factor every `units`
    points, units the sensitivity in grid steps.

    Args:
        half: p(0), p(1), ..., p(n) up to a common factor, n at least `units`.
        epsilon: The epsilon of the noise, above 0.
        sensitivity: The most that one privacy unit changes the answer.
        step: The distance of two points of the grid.

    Returns:
        The staircase, epsilon-DP like the given noise.

    Raises:
        InvalidInput: Too few probabilities are given, or the noise is not private.

    Example:
        >>> from discreet.mechanisms import staircase_from
        >>> staircase = staircase_from([4, 3, 3, 2, 2], epsilon=1, sensitivity=2)
        >>> staircase.cost().epsilon
        Fraction(1, 1)
    """
    _, grid, units = compute_grid_units(sensitivity, step)
    half = [as_rational(p, "a probability") for p in copy_list(half, "the probabilities")]
    fall = Staircase(epsilon, sensitivity, grid / 2, step).fall
    if len(half) <= units or min(half) <= 0:
        raise InvalidInput(f"give p(0) to p({units}) at least, all above 0")
    # The density condition on the window and one period more; beyond it every pair is a smaller copy of one here.
    end, extended_half = len(half) + units, [*half, *(fall * p for p in half[-units:])]
    window = {k: extended_half[abs(k)] for k in range(1 - end, end)}
    if not satisfies_density(window, range(-units, units + 1), 1 / fall, lambda point: abs(point[0]) < end):
        raise InvalidInput("the noise given is not private: two points within the sensitivity differ too much")
    period = fold_distribution(half, units, fall)
    mass = (period[0] + period[-1]) / 2 + sum(period[1:-1])
    top = min(min(period) / fall, mass / (Fraction(1, 2) + fall * (units - Fraction(1, 2))))
    core = (mass - fall * top * units) / (top * (1 - fall))
    return Staircase(epsilon, sensitivity, core * grid, step)


def fold_distribution(half: Sequence[Fraction], units: int, fall: Fraction) -> list[Fraction]:
    """The sums over i of p(k + i units), for k = 0..units: the period of the geometric law in the same place.

    Cell 0 and cell `units` count by half, the outer half of the one and the inner half of the other.
    """
    chains = [half[k::units] for k in range(units + 1)]
    return [sum(chain, ZERO) + chain[-1] * fall / (1 - fall) for chain in chains]


def _as_points(distribution: GridDistribution) -> dict[Point, Fraction]:
    pairs = copy_items(distribution, "a distribution")
    return {_as_point(point): as_rational(p, "a probability") for point, p in pairs}


def _as_point(point: object) -> Point:
    plain_point = copy_value(point, "a point")
    coordinates = plain_point if isinstance(plain_point, tuple) else (plain_point,)
    whole_numbers = tuple(coordinate for coordinate in coordinates if type(coordinate) is int)
    if len(whole_numbers) < len(coordinates):
        raise InvalidInput("a point of a grid must be a whole number or a tuple of whole numbers")
    return whole_numbers
