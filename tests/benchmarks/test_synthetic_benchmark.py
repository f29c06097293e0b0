"""The benchmark of private files measures what it says: figures of tables small enough to count by hand are right."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from benchmarks.private_microdata import metrics, release_methods
from benchmarks.private_microdata.tables import Field, Table

DRAW = np.random.Generator(np.random.PCG64(7))
NAMED = Field("colour", 0, 2, ("red", "green", "it's"))


def table(rows: int = 400) -> Table:
    """Two numbers that go together, and a name that tells which half they are in."""
    one = np.arange(rows) % 100
    return Table(
        "small", (Field("a", 0, 99), Field("b", 0, 999), NAMED), np.stack([one, 10 * one, one // 50]), "colour", 0
    )


def test_the_original_is_at_no_distance_from_itself() -> None:
    assert metrics.measure_distance(table(), table().codes) == metrics.Distance(0, pytest.approx(0), 0, 0, 0)


def test_w1_is_in_widths_of_the_numbers() -> None:
    """Every a moved by 9 of a width of 99, no b: half of 1/11; the order of the rows does not matter."""
    small = Table("small", (Field("a", 0, 99), Field("b", 0, 9)), np.array([[0, 50, 90], [1, 2, 3]]), "b", 2)
    assert metrics.compute_w1(small, np.array([[99, 59, 9], [3, 1, 2]])) == pytest.approx(1 / 22)


def test_a_correlation_turned_round_changes_by_two_and_a_constant_has_none() -> None:
    small = Table("small", (Field("a", 0, 9), Field("b", 0, 9)), np.array([[0, 1, 2], [0, 1, 2]]), "b", 0)
    assert metrics.compute_correlation_change(small, np.array([[0, 1, 2], [2, 1, 0]])) == pytest.approx(2)
    assert metrics.compute_correlation_change(small, np.array([[0, 1, 2], [5, 5, 5]])) == pytest.approx(1)


def test_two_way_tables_are_twice_the_total_variation() -> None:
    """One row of four moved to another cell of the one table: a quarter leaves a cell and enters another."""
    small = Table("small", (Field("a", 0, 1), Field("b", 0, 1)), np.array([[0, 0, 1, 1], [0, 1, 0, 1]]), "b", 0)
    assert metrics.compute_two_way(small, np.array([[0, 0, 1, 1], [0, 1, 0, 0]])) == pytest.approx(0.5)
    assert metrics.compute_two_way(small, small.codes[:, ::-1]) == 0


def test_numbers_are_binned_evenly_and_spread_within_their_bin() -> None:
    field = Field("a", 17, 90)
    codes = np.arange(17, 91)
    assert np.bincount(field.to_bins(codes)).tolist() == [len(part) for part in np.split(codes, _starts(field, codes))]
    assert (field.to_bins(field.spread(field.to_bins(codes), DRAW)) == field.to_bins(codes)).all()
    assert (NAMED.spread(np.array([0, 1, 2]), DRAW) == [0, 1, 2]).all()


def _starts(field: Field, codes: np.ndarray) -> list[int]:
    return [int(np.argmax(field.to_bins(codes) == each)) for each in range(1, field.bins)]


def test_ranges_see_an_emptied_column() -> None:
    """All rows in one corner: the range that had the most rows loses them, and no error is over 1."""
    errors = metrics.compute_range_errors(table(), np.zeros_like(table().codes))
    assert len(errors) == metrics.RANGES
    assert 0.5 < errors.max() <= 1


def test_a_model_is_learnt_from_the_release_and_tested_on_other_rows() -> None:
    """From the original it is right, and from a release with the names exchanged it is wrong."""
    learning, tested = table().split_for_learning()
    assert learning.rows + tested.rows == table().rows
    exchanged = np.stack([*learning.codes[:2], 1 - learning.codes[2]])
    assert metrics.measure_accuracy(learning, learning.codes, tested) > 0.9
    assert metrics.measure_accuracy(learning, exchanged, tested) < 0.1


@pytest.mark.parametrize("way", [release_methods.noisy_records, release_methods.trees])
def test_simple_ways_keep_to_the_domain_and_come_near_without_noise(way: object) -> None:
    released = way(table(), DRAW, Fraction(1000))
    assert metrics.compute_w1(table(), released) < 0.01
    noisy = way(table(), DRAW, Fraction(1, 100))
    assert noisy.shape == table().codes.shape
    for field, codes in zip(table().fields, noisy, strict=True):
        assert field.lower <= codes.min() <= codes.max() <= field.upper
    assert metrics.compute_w1(table(), noisy) > 10 * metrics.compute_w1(table(), released)


def test_counts_are_whole_and_add_up_whatever_the_noise() -> None:
    for weights in ([-3.0, 0.4, 7.2, -0.1], [-1.0, -2.0], [0.0, 0.0, 0.0]):
        counts = release_methods.round_to_total(np.array(weights), 10)
        assert counts.sum() == 10
        assert counts.min() >= 0


def test_a_table_is_registered_and_its_release_read_back() -> None:
    """Names with a quote in them too; what is published has the rows and the domains of the table."""
    with release_methods.open_release_methods(table()) as methods:
        released = methods["private-columns"](Fraction(1000))
    assert released.shape == table().codes.shape
    assert metrics.compute_w1(table(), released) < 0.02


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    table().write(tmp_path / "one")
    assert (table().read(tmp_path / "one" / "table.parquet") == table().codes).all()
