"""What an answer is read from is the file that was registered: gone, replaced, changed in place, put back, refreshed.

Whatever happens to the file is refused before anything is charged, and mended without hands once it is back.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from discreet import Custodian, Unavailable
from discreet.datasets.dataset_dir import DatasetDir
from discreet.datasets.integrity import IntegrityCheckedSource, TrackedFiles, compute_stamp, hash_contents, stat_files
from discreet.query.scan import Amounts, Cell, TotalsScan
from discreet.schema import load_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
name: people
source: people.csv
neighbours: replace-one
units: 500
budget: {epsilon: 100000}
columns:
  age: {kind: integer, lower: 0, upper: 99, missing: 0, role: quasi-identifier}
  sex: {kind: nominal, categories: [F, M], role: confidential}
"""
WOMEN = "SELECT COUNT(*) FROM people WHERE sex = 'F'"
SURE_EPSILON = 5000
"""An epsilon with which a count is exact but for a chance that no machine sees."""
OTHER_FILE = "is not the file that was registered; put that back, or register a new one: discreet check --refresh"
CHANGED_FILE = "the snapshot '1' of people was changed or taken away since it was opened; open the data set again"


def write_women(folder: Path, women: int) -> Path:
    rows = [f"{number % 100},{'F' if number < women else 'M'}" for number in range(500)]
    (folder / "people.csv").write_text("\n".join(["age,sex", *rows, ""]))
    (folder / "people.yaml").write_text(SCHEMA)
    return folder / "people.yaml"


@dataclass(frozen=True)
class OpenDataset:
    """An open data set of 200 women, its file, a copy of it, and a snapshot of the same schema with 400 women."""

    schema: Path
    custodian: Custodian
    file: Path
    copy: Path
    other: Path

    def list_entries(self) -> list[Any]:
        return [entry.entry for entry in self.custodian.history()]


@pytest.fixture
def dataset(tmp_path: Path) -> Iterator[OpenDataset]:
    (tmp_path / "other").mkdir()
    elsewhere = write_women(tmp_path / "other", women=400)
    Custodian.check(elsewhere)
    schema = write_women(tmp_path, women=200)
    file, copy = tmp_path / "people.discreet" / "snapshot-1.duckdb", tmp_path / "copy"
    with Custodian.open(schema) as custodian:
        shutil.copyfile(file, copy)
        yield OpenDataset(schema, custodian, file, copy, elsewhere.parent / "people.discreet" / file.name)


def take_away(dataset: OpenDataset) -> None:
    dataset.file.unlink()


def replace_file(dataset: OpenDataset) -> None:
    os.replace(dataset.other, dataset.file)


def replace_with_the_same_time(dataset: OpenDataset) -> None:
    """Another inode, which the open engine would not see."""
    before = dataset.file.stat()
    os.replace(dataset.other, dataset.file)
    os.utime(dataset.file, ns=(before.st_atime_ns, before.st_mtime_ns))


def overwrite(dataset: OpenDataset) -> None:
    """In place: the same inode, and blocks that an open engine may mix with its own."""
    shutil.copyfile(dataset.other, dataset.file)


def cut_short(dataset: OpenDataset) -> None:
    os.truncate(dataset.file, dataset.file.stat().st_size // 2)


FILE_CHANGES = [take_away, replace_file, overwrite, cut_short]


@pytest.mark.parametrize("happen", [*FILE_CHANGES, replace_with_the_same_time])
def test_nothing_is_charged_for_what_is_not_there_any_more(
    dataset: OpenDataset, happen: Callable[[OpenDataset], None]
) -> None:
    dataset.custodian.answer(WOMEN, epsilon=1)
    before = dataset.list_entries()
    happen(dataset)
    asks: list[Callable[[], object]] = [
        lambda: dataset.custodian.answer(WOMEN, epsilon=1, fresh=True),
        lambda: dataset.custodian.answer(WOMEN, epsilon=1),
        lambda: dataset.custodian.session(noise_scale=10, epsilon=1),
        lambda: dataset.custodian.publish("private-columns", dataset.schema.parent / "a.csv", epsilon=1),
        lambda: dataset.custodian.publish("mdav", dataset.schema.parent / "b.csv", k=5),
        lambda: dataset.custodian.sweep([5], ["mdav"]),
    ]
    for ask in asks:
        with pytest.raises(Unavailable) as refusal:
            ask()
        assert str(refusal.value) == CHANGED_FILE
    assert dataset.custodian.is_stale()
    assert dataset.list_entries() == before
    assert not list(dataset.schema.parent.glob("[ab].csv*"))


@pytest.mark.parametrize("happen", FILE_CHANGES)
def test_another_file_is_not_opened_and_the_right_one_is_found_again(
    dataset: OpenDataset, happen: Callable[[OpenDataset], None]
) -> None:
    """Also in a process in which the data set is still open, and with another time than it had."""
    happen(dataset)
    message = "the snapshot '1' of people is gone; register a new one" if happen is take_away else OTHER_FILE
    with pytest.raises(Unavailable) as refusal:
        Custodian.open(dataset.schema)
    assert str(refusal.value).endswith(message)
    assert dataset.list_entries() == [1]  # the registration
    dataset.file.unlink(missing_ok=True)
    shutil.copyfile(dataset.copy, dataset.file)
    assert dataset.custodian.is_stale()
    with Custodian.open(dataset.schema) as reopened:
        assert not reopened.is_stale()
        assert reopened.answer(WOMEN, epsilon=SURE_EPSILON).value == 200
    assert dataset.list_entries() == [2, 1]


def test_a_file_that_took_anothers_place_is_read_although_that_is_still_open(dataset: OpenDataset) -> None:
    """One DuckDB in a process would otherwise read the old file for the new one."""
    assert dataset.custodian.answer(WOMEN, epsilon=SURE_EPSILON).value == 200
    dataset.custodian.session(noise_scale=1, epsilon=1)
    shutil.rmtree(dataset.file.parent)
    with Custodian.open(write_women(dataset.schema.parent, women=300)) as anew:
        assert anew.answer(WOMEN, epsilon=SURE_EPSILON).value == 300


def test_a_file_with_another_time_only_is_opened_again(dataset: OpenDataset) -> None:
    os.utime(dataset.file)
    assert dataset.custodian.is_stale()
    with Custodian.open(dataset.schema) as reopened:
        assert not reopened.is_stale()


def test_a_newer_snapshot_ends_the_answers_of_the_one_before(dataset: OpenDataset) -> None:
    written = dataset.schema.stat().st_mtime_ns
    write_women(dataset.schema.parent, women=300)
    os.utime(dataset.schema, ns=(written, written))  # of the schema nothing is new
    assert not dataset.custodian.is_stale()
    Custodian.check(dataset.schema)
    assert dataset.custodian.is_stale()
    with pytest.raises(Unavailable, match=r"^people has another snapshot by now; open the data set again$"):
        dataset.custodian.answer(WOMEN, epsilon=SURE_EPSILON)
    with Custodian.open(dataset.schema) as reopened:
        assert dataset.list_entries() == [2, 1]  # two registrations
        assert not reopened.is_stale()
        assert reopened.answer(WOMEN, epsilon=SURE_EPSILON).value == 300


def test_a_folder_that_is_gone_is_stale(dataset: OpenDataset) -> None:
    manifest = dataset.file.with_name("manifest.json")
    text = manifest.read_text()
    manifest.unlink()
    assert dataset.custodian.is_stale()
    manifest.write_text("{")
    assert dataset.custodian.is_stale()
    manifest.write_text(text)
    assert not dataset.custodian.is_stale()


def test_rows_that_are_opened_later_are_opened_before_a_charge(dataset: OpenDataset) -> None:
    """Whether they are there is asked when it matters, and not before."""
    with Custodian.open(dataset.schema, reading=False) as later:
        take_away(dataset)
        assert not later.is_stale()
        asks: list[Callable[[], object]] = [
            lambda: later.answer(WOMEN, epsilon=1),
            lambda: later.session(noise_scale=10, epsilon=1),
            lambda: later.publish("private-columns", dataset.schema.parent / "a.csv", epsilon=1),
        ]
        for ask in asks:
            with pytest.raises(Unavailable, match="is gone"):
                ask()
        assert dataset.list_entries() == [1]
        shutil.copyfile(dataset.copy, dataset.file)
        assert later.answer(WOMEN, epsilon=SURE_EPSILON).value == 200
        overwrite(dataset)
        assert later.is_stale()


@dataclass
class DisturbedSource:
    """A source whose file is changed in place while it is read."""

    source: Any
    file: Path

    def totals(self, plan: TotalsScan) -> dict[Cell, Amounts]:
        amounts: dict[Cell, Amounts] = self.source.totals(plan)
        os.utime(self.file, ns=(0, 0))
        return amounts


def test_what_was_read_while_the_file_changed_is_not_told(dataset: OpenDataset) -> None:
    """The charge stands; the right to the draw is kept for when the file is back."""
    watched: Any = dataset.custodian._source
    dataset.custodian._source = IntegrityCheckedSource(DisturbedSource(watched.source, dataset.file), watched.files)  # type: ignore[arg-type]
    with pytest.raises(Unavailable) as refusal:
        dataset.custodian.answer(WOMEN, epsilon=SURE_EPSILON, key="mine")
    assert str(refusal.value).endswith("what was charged stays charged, and a retry with the same key is free")
    dataset.custodian._source = watched
    with Custodian.open(dataset.schema) as reopened:
        before = reopened.budget()
        answer = reopened.answer(WOMEN, epsilon=SURE_EPSILON, key="mine")
        assert (answer.value, answer.stored) == (200, True)
        assert reopened.budget() == before


def test_rows_that_were_read_while_the_file_changed_are_not_told(dataset: OpenDataset) -> None:
    watched: Any = dataset.custodian._source
    rows = watched.records()
    next(rows)
    os.utime(dataset.file, ns=(0, 0))
    with pytest.raises(Unavailable, match="changed or taken away"):
        list(rows)


def test_a_manifest_from_before_digests_were_kept_is_read(dataset: OpenDataset) -> None:
    manifest = dataset.file.with_name("manifest.json")
    document = json.loads(manifest.read_text())
    for snapshot in document["snapshots"]:
        assert snapshot.pop("sha256") == hash_contents(dataset.copy)
        assert snapshot.pop("stamp")
    manifest.write_text(json.dumps(document))
    with Custodian.open(dataset.schema) as reopened:
        assert reopened.answer(WOMEN, epsilon=SURE_EPSILON).value == 200
        take_away(dataset)
        assert reopened.is_stale()


def test_no_file_is_read_again_as_long_as_it_looks_the_same(
    dataset: OpenDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large one would take minutes each time; one that was put back is read once."""
    read: list[Path] = []

    def read_contents(path: Path) -> str:
        read.append(path)
        return hash_contents(path)

    monkeypatch.setattr("discreet.datasets.integrity.hash_contents", read_contents)
    shutil.copy2(dataset.file, dataset.file.with_name("aside"))
    os.replace(dataset.file.with_name("aside"), dataset.file)
    Custodian.open(dataset.schema).close()
    assert read == []
    os.replace(dataset.copy, dataset.file)
    for _ in range(2):
        Custodian.open(dataset.schema).close()
        assert read == [dataset.file]


@pytest.fixture
def partitioned_snapshot(tmp_path: Path) -> Path:
    """A snapshot in several files."""
    snapshot_file = tmp_path / "snapshot-1.parquet"
    (snapshot_file / "sex=F").mkdir(parents=True)
    for name in ("part-0.parquet", "part-1.parquet", "sex=F/part-2.parquet", "_SUCCESS", ".part-0.parquet.crc"):
        (snapshot_file / name).write_text(name)
    return snapshot_file


def test_a_folder_is_all_its_files_of_rows(partitioned_snapshot: Path) -> None:
    before, glance = hash_contents(partitioned_snapshot), stat_files(partitioned_snapshot)
    assert [entry.name for entry in glance] == ["part-0.parquet", "part-1.parquet", "sex=F/part-2.parquet"]
    (partitioned_snapshot / "_SUCCESS").unlink()
    assert (hash_contents(partitioned_snapshot), stat_files(partitioned_snapshot)) == (before, glance)
    os.utime(partitioned_snapshot / "part-1.parquet", ns=(0, 0))
    assert hash_contents(partitioned_snapshot) == before
    assert compute_stamp(stat_files(partitioned_snapshot)) != compute_stamp(glance)
    os.rename(partitioned_snapshot / "part-1.parquet", partitioned_snapshot / "part-3.parquet")
    assert hash_contents(partitioned_snapshot) != before
    shutil.rmtree(partitioned_snapshot)
    assert stat_files(partitioned_snapshot) == ()


def test_one_file_of_a_folder_that_another_took_the_place_of_is_seen(partitioned_snapshot: Path) -> None:
    """Of the same size and time, and older than its neighbours."""
    files = TrackedFiles("it", partitioned_snapshot, stat_files(partitioned_snapshot))
    assert files.is_unchanged
    part = partitioned_snapshot / "part-0.parquet"
    before = part.stat()
    (partitioned_snapshot.parent / "part").write_text("part-9.parquet")
    os.replace(partitioned_snapshot.parent / "part", part)
    os.utime(part, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not files.is_unchanged
    with pytest.raises(Unavailable, match=r"^it is not the file that was registered"):
        files.require_contents("0")
    shutil.rmtree(partitioned_snapshot)
    with pytest.raises(Unavailable, match=r"^it cannot be read; check its files and the disk$"):
        files.require_contents("0")


def test_a_snapshot_of_spark_is_watched_too(tmp_path: Path, spark: SparkSession) -> None:
    schema = write_women(tmp_path, women=200)
    schema.write_text(schema.read_text().replace("people.csv", "spark:people_watched"))
    rows = [(number % 100, "F" if number < 200 else "M") for number in range(500)]
    spark.createDataFrame(rows, ["age", "sex"]).createOrReplaceTempView("people_watched")
    with Custodian.open(schema) as custodian:
        assert not custodian.is_stale()
        snapshot_path = DatasetDir(load_schema(schema)).folder / "snapshot-1.parquet"
        part = max(snapshot_path.glob("part-*"), key=lambda file: file.stat().st_size)
        backup_file = shutil.copyfile(part, tmp_path / "aside")
        os.truncate(part, 10)
        with pytest.raises(Unavailable, match=CHANGED_FILE):
            custodian.answer(WOMEN, epsilon=1)
        with pytest.raises(Unavailable, match=OTHER_FILE):
            Custodian.open(schema)
        shutil.copyfile(backup_file, part)
        with Custodian.open(schema) as reopened:
            assert reopened.answer(WOMEN, epsilon=SURE_EPSILON).value == 200
