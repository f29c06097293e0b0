"""Row 20: who knows a person's quasi-identifiers looks for them in the released file."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from discreet import Custodian
from discreet.sample import write_registry

PATIENTS, K = 220, 5
KNOWN = ("age", "sex", "education", "occupation")
SECRET = ("income", "diagnosis", "smoker", "bmi")
Record = dict[str, str]


def nearest(person: Record, released: list[Record]) -> list[Record]:
    """The released rows that are most like what is known of a person."""

    def unlike(row: Record) -> float:
        ages = [float(record["age"] or 0) for record in (person, row)]
        return abs(ages[0] - ages[1]) / 73 + sum(person[name] != row[name] for name in KNOWN[1:])

    apart = [unlike(row) for row in released]
    return [row for row, distance in zip(released, apart, strict=True) if distance <= min(apart) + 1e-12]


def same(one: Record, other: Record, names: tuple[str, ...]) -> bool:
    return all(one[name] == other[name] for name in names)


def attack(people: list[Record], released: list[Record]) -> float:
    """How likely a row that is taken from the nearest ones is the person's own, which the secrets tell."""
    matches = [(person, nearest(person, released)) for person in people]
    return sum(sum(same(person, row, SECRET) for row in rows) / len(rows) for person, rows in matches) / len(people)


def attack_on_values(people: list[Record], released: list[Record]) -> float:
    """How often the income on a person's own row is the person's: where rows can be linked, what does it tell."""
    return sum(same(person, nearest(person, released)[0], ("income",)) for person in people) / len(people)


def rows_of(file: Path) -> list[Record]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def unlike_others(people: list[Record]) -> list[Record]:
    """Those whom nobody else is like, neither in what is known nor in what is secret: the easiest to find."""
    known, secret = (Counter(tuple(one[name] for name in names) for one in people) for names in (KNOWN, ("income",)))
    return [one for one in people if known[tuple(one[name] for name in KNOWN)] == secret[(one["income"],)] == 1]


@dataclass(frozen=True)
class Files:
    """People whom the attacker knows, and the files that were released about them."""

    people: list[Record]
    without_names: list[Record]
    mdav: list[Record]
    swapped: list[Record]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("linkage")
    with Custodian.open(write_registry(folder, PATIENTS)) as custodian:
        for method in ("mdav", "mdav-swap"):
            custodian.publish(method, folder / f"{method}.csv", k=K)
    table, mdav, swapped = (rows_of(folder / f"{name}.csv") for name in ("registry", "mdav", "mdav-swap"))
    return Files(unlike_others(table), without_names(table), mdav, swapped)


def without_names(table: list[Record]) -> list[Record]:
    """The weak stand-in: a file is anonymous once the names are gone."""
    return [{name: row[name] for name in KNOWN + SECRET} for row in table]


def test_it_succeeds_against_the_weak_stand_in(files: Files) -> None:
    assert len(files.people) > 100
    assert attack(files.people, files.without_names) == attack_on_values(files.people, files.without_names) == 1


def test_it_fails_against_discreet(files: Files) -> None:
    """k-anonymity: whoever is found has at least k - 1 others who look the same."""
    assert min(Counter(tuple(row[name] for name in KNOWN) for row in files.mdav).values()) >= K
    assert 0 < attack(files.people, files.mdav) <= 1 / K


def test_swapped_rows_are_found_and_tell_little(files: Files) -> None:
    """Probabilistic k-anonymity: rows keep their quasi-identifiers, and a value is one's own one time in k.

    The bound is six deviations above that: the number of those who keep their value varies by about its mean.
    """
    expected = len(files.people) / K
    assert attack_on_values(files.people, files.swapped) * len(files.people) <= expected + 6 * expected**0.5
