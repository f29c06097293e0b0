"""Residues and steps: noise that moves in steps shows what it was added to, however wide it is.

`D + 2 * noise` is even if and only if D is. No interval of values shows that; the remainder after division by 2 does.
Moduli are found from the shape draws: small ones by comparing the residues of both data sets, large ones as the
greatest common divisor of differences between draws with one data set.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.audit.draws import Columns, Draws, Keys, ordered_keys, values_of
from discreet.audit.features import Feature, Number, Numbers, Span, between
from discreet.formatting import format_number

TABLES = (
    *(2**4 * 3**2 * 5 * 7, 11 * 13 * 17, 19 * 23 * 29, 31 * 37 * 41, 43 * 47 * 53, 59 * 61),
    *(2**6 * 3 * 5 * 7, 2**3 * 3**3 * 5 * 7, 2**4 * 3 * 5**2 * 7, 2**3 * 3**3 * 5**2, 2**10, 10**3),
)
"""A table of counts modulo each of these gives the counts modulo its divisors, by adding up."""
LARGEST_MODULUS, LARGEST_AT_FIRST = 1000, 32
"""Divisors up to here are tried; the second for a first look at many numbers."""
IN_A_CLASS = 8
"""Draws of each data set in a residue class that are needed for a modulus to be tried."""
KEPT_MODULI, KEPT_STEPS = 3, 2
NOTABLE = 4.0
"""A modulus is looked at closer if its residues differ by so many standard deviations of chi-square."""
QUADRUPLES, MOST_TURNS, FEWEST_ALIKE = 8192, 8, 8
COMPARED = 65_536
"""Draws of each data set whose residues are compared at most."""
MOST_DECIMALS, CHECKED = 6, 1000
WHOLE_BELOW = 2.0**51
NO_NUMBER, NO_RESIDUE = -(2**63), -1
"""In place of a float that is no whole number, and of its remainder."""
SMALLEST_STEP = 2.0**-40
"""A step between floats is at least 4,096 times this share of the largest difference; finer ones are rounding."""


def _moduli() -> dict[int, list[int]]:
    """The divisors of each table's size up to the largest modulus, each once."""
    found: dict[int, list[int]] = {}
    for size in TABLES:
        known = set().union(*found.values())
        found[size] = [each for each in range(2, LARGEST_MODULUS + 1) if size % each == 0 and each not in known]
    return found


MODULI = _moduli()
"""All that are tried, 120 of them: larger ones, and others, only as common divisors of differences."""


def lattice_features(number: Number, one: Draws, two: Draws) -> list[Feature]:
    """The remainders of a number that differ between the data sets, or that one of them has alone."""
    raw = number.of(one), number.of(two)
    decimals = count_decimals(*raw) if number.floating else 0
    if decimals is None:
        steps = {step for column in raw for step in _float_steps(column)}
        return [phase(number, step) for step in sorted(steps)]
    scaled = number if not number.floating else _times_power_of_ten(number, decimals)
    whole = scaled.of(one), scaled.of(two)
    fitting = tuple(column[column != NO_NUMBER] for column in whole)
    moduli = [*telling_moduli(*fitting), *(step for column in fitting for step in common_steps(column))]
    return [residue(scaled, modulus) for modulus in dict.fromkeys(moduli)]


def residue(number: Number, modulus: int) -> Feature:
    """What remains of a whole number after division by the modulus."""

    def keys(draws: Draws) -> Keys:
        column = number.of(draws)
        return cast("Keys", np.where(column == NO_NUMBER, NO_RESIDUE, column % modulus))

    def tell(span: Span) -> str:
        low, high = max(span[0] or 0, 0), modulus if span[1] is None else min(span[1], modulus)
        if span[0] is None and high <= 0:
            return f"{number.name} is no whole number"
        if high <= low:
            return f"{number.name} modulo {modulus} is one of those seldom seen"
        if modulus == 2 and high == low + 1:
            return f"{number.name} is {('even', 'odd')[low]}"
        if high == low + 1:
            return (
                f"{number.name} is a multiple of {modulus}" if not low else f"{number.name} modulo {modulus} is {low}"
            )
        return f"{number.name} modulo {modulus} is from {low} to {high - 1}"

    return Feature(f"{number.name} modulo {modulus}", keys, tell)


def phase(number: Number, step: float) -> Feature:
    """How far a float is from the nearest multiple of a step."""

    def keys(draws: Draws) -> Keys:
        column = number.of(draws)
        with np.errstate(invalid="ignore"):
            return ordered_keys(cast("Columns", column - step * np.rint(column / step)))

    name = f"{number.name} less the nearest multiple of {format_number(step, 9)}"
    return Feature(name, keys, lambda span: f"{name} {between(span, True)}", values_of)


def telling_moduli(one: Columns, two: Columns) -> list[int]:
    """The moduli whose residues differ most between the data sets, the most telling first."""
    told = compare_residues(one, two)
    return [modulus for modulus in sorted(told, key=lambda each: -told[each])[:KEPT_MODULI] if told[modulus] > NOTABLE]


def compare_residues(one: Columns, two: Columns, largest: int = LARGEST_MODULUS) -> dict[int, float]:
    """By how much the residues of both differ, for each modulus: chi-square less its mean, in standard deviations."""
    few = [column[:: max(len(column) // COMPARED, 1)] for column in (one, two)]
    least = min(map(len, few))
    most, told = min(largest, least // IN_A_CLASS), dict[int, float]()
    for size, moduli in MODULI.items():
        if wanted := [modulus for modulus in moduli if modulus <= most]:
            tables = np.stack([np.bincount(column[:least] % size, minlength=size) for column in few])
            told |= {modulus: _difference(tables.reshape(2, -1, modulus).sum(axis=1)) for modulus in wanted}
    return told


def _difference(counts: Keys) -> float:
    """The chi-square of two rows of counts with one sum."""
    total, apart = counts[0] + counts[1], counts[0] - counts[1]
    freedom = max(int(np.count_nonzero(total)) - 1, 1)
    chi_square = float(((apart * apart) / np.maximum(total, 1)).sum())
    return (chi_square - freedom) / math.sqrt(2 * freedom)


def common_steps(column: Keys) -> list[int]:
    """Common divisors of differences that occur more often than among whole numbers at random.

    Two random multiples of s have s as their greatest common divisor with probability 0.61. So s stands out even if a
    part of the draws is off the lattice, where one greatest common divisor of all differences would be 1.
    """
    first, second = _differences(column)
    divisors, counts = np.unique(np.gcd(first, second), return_counts=True)
    usual = 0.61 * len(first) / divisors.astype(np.float64) ** 2
    surprise = (counts - usual) / np.sqrt(usual + 1)
    order = np.argsort(-surprise, kind="stable")[:KEPT_STEPS]
    return [int(divisors[at]) for at in order if divisors[at] > 1 and counts[at] >= FEWEST_ALIKE and surprise[at] > 4]


def _float_steps(column: Columns) -> list[float]:
    """The same for floats, up to rounding."""
    first, second = (np.abs(each) for each in _differences(column[np.isfinite(column)]))
    if not len(first):
        return []
    tiny = SMALLEST_STEP * float(max(first.max(), second.max()))
    found = _approximate_divisors(first, second, tiny)
    places, inverse, counts = np.unique(np.rint(np.log(found) * 1e4), return_inverse=True, return_counts=True)
    often = int(np.argmax(counts)) if len(places) else 0
    if not len(places) or counts[often] < max(FEWEST_ALIKE, len(first) // 20):
        return []
    step = float(np.median(found[inverse == often]))
    return [_refined(step, np.sort(first))] if step > 4096 * tiny else []


def _approximate_divisors(one: Numbers, two: Numbers, tiny: float) -> Numbers:
    """Euclid's algorithm with least absolute remainders, which ends where what remains is rounding."""
    larger, smaller = np.maximum(one, two), np.minimum(one, two)
    for _ in range(64):
        going = smaller > tiny
        if not going.any():
            break
        divided = np.where(going, smaller, 1.0)
        remains = np.abs(larger - divided * np.rint(larger / divided))
        larger, smaller = np.where(going, smaller, larger), np.where(going, remains, smaller)
    return cast("Numbers", larger[larger > tiny])


def _refined(step: float, differences: Numbers) -> float:
    """The step to more digits, by ever larger differences that are multiples of it."""
    for difference in differences[:: max(len(differences) // 64, 1)].tolist():
        times = round(difference / step)
        if times and abs(difference / step - times) < 0.02:
            step = difference / times
    return step


def _differences(column: Columns) -> tuple[Columns, Columns]:
    """Two differences from each of some thousand fours of draws, far apart in the order in which they came."""
    quarter = len(column) // 4
    places = np.arange(0, quarter, max(quarter // QUADRUPLES, 1))
    parts = [column[places + at * quarter] for at in range(4)]
    turns = range(min(-(-QUADRUPLES // max(quarter, 1)), MOST_TURNS))
    first = np.concatenate([parts[0] - np.roll(parts[2], turn) for turn in turns])
    second = np.concatenate([parts[1] - np.roll(parts[3], 3 * turn) for turn in turns])
    moved = (first != 0) & (second != 0)
    return first[moved], second[moved]


def count_decimals(*columns: Columns) -> int | None:
    """With how many decimals most of these floats are whole numbers; None where they are none with at most six."""
    finite = np.concatenate([column[np.isfinite(column)][:CHECKED] for column in columns])
    finite = finite[np.abs(finite) < WHOLE_BELOW]
    for decimals in range(MOST_DECIMALS + 1):
        if len(finite) and 2 * np.count_nonzero(_is_whole(finite * 10.0**decimals)) > len(finite):
            return decimals
    return None


def _is_whole(column: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    near: NDArray[np.bool_] = np.abs(column - np.rint(column)) <= 1e-6
    small: NDArray[np.bool_] = np.abs(column) < WHOLE_BELOW
    return near & small


def _times_power_of_ten(number: Number, decimals: int) -> Number:
    """A float with some decimals as a whole number."""

    def of(draws: Draws) -> Columns:
        with np.errstate(invalid="ignore", over="ignore"):
            column = number.of(draws) * 10.0**decimals
            fits = _is_whole(column)
        return cast("Columns", np.where(fits, np.rint(np.where(fits, column, 0)).astype(np.int64), NO_NUMBER))

    return Number(f"{10**decimals} times {number.name}" if decimals else number.name, of, False)
