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
SURE = 5000
"""An epsilon with which a count is exact but for a chance that no machine sees."""
OTHER = "is not the file that was registered; put that back, or register a new one: discreet check --refresh"
CHANGED = "the snapshot '1' of people was changed or taken away since it was opened; open the data set again"


def write_people(folder: Path, women: int) -> Path:
    rows = [f"{number % 100},{'F' if number < women else 'M'}" for number in range(500)]
    (folder / "people.csv").write_text("\n".join(["age,sex", *rows, ""]))
    (folder / "people.yaml").write_text(SCHEMA)
    return folder / "people.yaml"


@dataclass(frozen=True)
class Held:
    """An open data set of 200 women, its file, a copy of it, and a snapshot of the same schema with 400 women."""

    schema: Path
    custodian: Custodian
    file: Path
    copy: Path
    other: Path

    def spent(self) -> list[Any]:
        return [entry.entry for entry in self.custodian.history()]


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    (tmp_path / "other").mkdir()
    elsewhere = write_people(tmp_path / "other", women=400)
    Custodian.check(elsewhere)
    schema = write_people(tmp_path, women=200)
    file, copy = tmp_path / "people.discreet" / "snapshot-1.duckdb", tmp_path / "copy"
    with Custodian.open(schema) as custodian:
        shutil.copyfile(file, copy)
        yield Held(schema, custodian, file, copy, elsewhere.parent / "people.discreet" / file.name)


def take_away(held: Held) -> None:
    held.file.unlink()


def replace(held: Held) -> None:
    os.replace(held.other, held.file)


def replace_with_the_same_time(held: Held) -> None:
    """Another inode, which the open engine would not see."""
    before = held.file.stat()
    os.replace(held.other, held.file)
    os.utime(held.file, ns=(before.st_atime_ns, before.st_mtime_ns))


def overwrite(held: Held) -> None:
    """In place: the same inode, and blocks that an open engine may mix with its own."""
    shutil.copyfile(held.other, held.file)


def cut_short(held: Held) -> None:
    os.truncate(held.file, held.file.stat().st_size // 2)


HAPPENINGS = [take_away, replace, overwrite, cut_short]


@pytest.mark.parametrize("happen", [*HAPPENINGS, replace_with_the_same_time])
def test_nothing_is_charged_for_what_is_not_there_any_more(held: Held, happen: Callable[[Held], None]) -> None:
    held.custodian.answer(WOMEN, epsilon=1)
    before = held.spent()
    happen(held)
    asks: list[Callable[[], object]] = [
        lambda: held.custodian.answer(WOMEN, epsilon=1, fresh=True),
        lambda: held.custodian.answer(WOMEN, epsilon=1),
        lambda: held.custodian.session(noise_scale=10, epsilon=1),
        lambda: held.custodian.publish("private-columns", held.schema.parent / "a.csv", epsilon=1),
        lambda: held.custodian.publish("mdav", held.schema.parent / "b.csv", k=5),
        lambda: held.custodian.sweep([5], ["mdav"]),
    ]
    for ask in asks:
        with pytest.raises(Unavailable) as refused:
            ask()
        assert str(refused.value) == CHANGED
    assert held.custodian.is_stale()
    assert held.spent() == before
    assert not list(held.schema.parent.glob("[ab].csv*"))


@pytest.mark.parametrize("happen", HAPPENINGS)
def test_another_file_is_not_opened_and_the_right_one_is_found_again(
    held: Held, happen: Callable[[Held], None]
) -> None:
    """Also in a process in which the data set is still open, and with another time than it had."""
    happen(held)
    message = "the snapshot '1' of people is gone; register a new one" if happen is take_away else OTHER
    with pytest.raises(Unavailable) as refused:
        Custodian.open(held.schema)
    assert str(refused.value).endswith(message)
    assert held.spent() == [1]  # the registration
    held.file.unlink(missing_ok=True)
    shutil.copyfile(held.copy, held.file)
    assert held.custodian.is_stale()
    with Custodian.open(held.schema) as again:
        assert not again.is_stale()
        assert again.answer(WOMEN, epsilon=SURE).value == 200
    assert held.spent() == [2, 1]


def test_a_file_that_took_anothers_place_is_read_although_that_is_still_open(held: Held) -> None:
    """One DuckDB in a process would otherwise read the old file for the new one."""
    assert held.custodian.answer(WOMEN, epsilon=SURE).value == 200
    held.custodian.session(noise_scale=1, epsilon=1)
    shutil.rmtree(held.file.parent)
    with Custodian.open(write_people(held.schema.parent, women=300)) as anew:
        assert anew.answer(WOMEN, epsilon=SURE).value == 300


def test_a_file_with_another_time_only_is_opened_again(held: Held) -> None:
    os.utime(held.file)
    assert held.custodian.is_stale()
    with Custodian.open(held.schema) as again:
        assert not again.is_stale()


def test_a_newer_snapshot_ends_the_answers_of_the_one_before(held: Held) -> None:
    written = held.schema.stat().st_mtime_ns
    write_people(held.schema.parent, women=300)
    os.utime(held.schema, ns=(written, written))  # of the schema nothing is new
    assert not held.custodian.is_stale()
    Custodian.check(held.schema)
    assert held.custodian.is_stale()
    with pytest.raises(Unavailable, match=r"^people has another snapshot by now; open the data set again$"):
        held.custodian.answer(WOMEN, epsilon=SURE)
    with Custodian.open(held.schema) as again:
        assert held.spent() == [2, 1]  # two registrations
        assert not again.is_stale()
        assert again.answer(WOMEN, epsilon=SURE).value == 300


def test_a_folder_that_is_gone_is_stale(held: Held) -> None:
    manifest = held.file.with_name("manifest.json")
    text = manifest.read_text()
    manifest.unlink()
    assert held.custodian.is_stale()
    manifest.write_text("{")
    assert held.custodian.is_stale()
    manifest.write_text(text)
    assert not held.custodian.is_stale()


def test_rows_that_are_opened_later_are_opened_before_a_charge(held: Held) -> None:
    """Whether they are there is asked when it matters, and not before."""
    with Custodian.open(held.schema, reading=False) as later:
        take_away(held)
        assert not later.is_stale()
        asks: list[Callable[[], object]] = [
            lambda: later.answer(WOMEN, epsilon=1),
            lambda: later.session(noise_scale=10, epsilon=1),
            lambda: later.publish("private-columns", held.schema.parent / "a.csv", epsilon=1),
        ]
        for ask in asks:
            with pytest.raises(Unavailable, match="is gone"):
                ask()
        assert held.spent() == [1]
        shutil.copyfile(held.copy, held.file)
        assert later.answer(WOMEN, epsilon=SURE).value == 200
        overwrite(held)
        assert later.is_stale()


@dataclass
class Disturbed:
    """A source whose file is changed in place while it is read."""

    source: Any
    file: Path

    def totals(self, plan: TotalsScan) -> dict[Cell, Amounts]:
        found: dict[Cell, Amounts] = self.source.totals(plan)
        os.utime(self.file, ns=(0, 0))
        return found


def test_what_was_read_while_the_file_changed_is_not_told(held: Held) -> None:
    """The charge stands; the right to the draw is kept for when the file is back."""
    watched: Any = held.custodian._source
    held.custodian._source = IntegrityCheckedSource(Disturbed(watched.source, held.file), watched.files)  # type: ignore[arg-type]
    with pytest.raises(Unavailable) as refused:
        held.custodian.answer(WOMEN, epsilon=SURE, key="mine")
    assert str(refused.value).endswith("what was charged stays charged, and a retry with the same key is free")
    held.custodian._source = watched
    with Custodian.open(held.schema) as again:
        before = again.budget()
        answer = again.answer(WOMEN, epsilon=SURE, key="mine")
        assert (answer.value, answer.stored) == (200, True)
        assert again.budget() == before


def test_rows_that_were_read_while_the_file_changed_are_not_told(held: Held) -> None:
    watched: Any = held.custodian._source
    rows = watched.records()
    next(rows)
    os.utime(held.file, ns=(0, 0))
    with pytest.raises(Unavailable, match="changed or taken away"):
        list(rows)


def test_a_manifest_from_before_digests_were_kept_is_read(held: Held) -> None:
    manifest = held.file.with_name("manifest.json")
    document = json.loads(manifest.read_text())
    for snapshot in document["snapshots"]:
        assert snapshot.pop("sha256") == hash_contents(held.copy)
        assert snapshot.pop("stamp")
    manifest.write_text(json.dumps(document))
    with Custodian.open(held.schema) as again:
        assert again.answer(WOMEN, epsilon=SURE).value == 200
        take_away(held)
        assert again.is_stale()


def test_no_file_is_read_again_as_long_as_it_looks_the_same(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one would take minutes each time; one that was put back is read once."""
    read: list[Path] = []

    def contents_of(path: Path) -> str:
        read.append(path)
        return hash_contents(path)

    monkeypatch.setattr("discreet.datasets.integrity.hash_contents", contents_of)
    shutil.copy2(held.file, held.file.with_name("aside"))
    os.replace(held.file.with_name("aside"), held.file)
    Custodian.open(held.schema).close()
    assert read == []
    os.replace(held.copy, held.file)
    for _ in range(2):
        Custodian.open(held.schema).close()
        assert read == [held.file]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A snapshot in several files."""
    snapshot_file = tmp_path / "snapshot-1.parquet"
    (snapshot_file / "sex=F").mkdir(parents=True)
    for name in ("part-0.parquet", "part-1.parquet", "sex=F/part-2.parquet", "_SUCCESS", ".part-0.parquet.crc"):
        (snapshot_file / name).write_text(name)
    return snapshot_file


def test_a_folder_is_all_its_files_of_rows(folder: Path) -> None:
    before, glance = hash_contents(folder), stat_files(folder)
    assert [one.name for one in glance] == ["part-0.parquet", "part-1.parquet", "sex=F/part-2.parquet"]
    (folder / "_SUCCESS").unlink()
    assert (hash_contents(folder), stat_files(folder)) == (before, glance)
    os.utime(folder / "part-1.parquet", ns=(0, 0))
    assert hash_contents(folder) == before
    assert compute_stamp(stat_files(folder)) != compute_stamp(glance)
    os.rename(folder / "part-1.parquet", folder / "part-3.parquet")
    assert hash_contents(folder) != before
    shutil.rmtree(folder)
    assert stat_files(folder) == ()


def test_one_file_of_a_folder_that_another_took_the_place_of_is_seen(folder: Path) -> None:
    """Of the same size and time, and older than its neighbours."""
    files = TrackedFiles("it", folder, stat_files(folder))
    assert files.is_unchanged
    part = folder / "part-0.parquet"
    before = part.stat()
    (folder.parent / "part").write_text("part-9.parquet")
    os.replace(folder.parent / "part", part)
    os.utime(part, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not files.is_unchanged
    with pytest.raises(Unavailable, match=r"^it is not the file that was registered"):
        files.require_contents("0")
    shutil.rmtree(folder)
    with pytest.raises(Unavailable, match=r"^it cannot be read; check its files and the disk$"):
        files.require_contents("0")


def test_a_snapshot_of_spark_is_watched_too(tmp_path: Path, spark: SparkSession) -> None:
    schema = write_people(tmp_path, women=200)
    schema.write_text(schema.read_text().replace("people.csv", "spark:people_watched"))
    rows = [(number % 100, "F" if number < 200 else "M") for number in range(500)]
    spark.createDataFrame(rows, ["age", "sex"]).createOrReplaceTempView("people_watched")
    with Custodian.open(schema) as custodian:
        assert not custodian.is_stale()
        folder = DatasetDir(load_schema(schema)).folder / "snapshot-1.parquet"
        part = max(folder.glob("part-*"), key=lambda file: file.stat().st_size)
        backup_file = shutil.copyfile(part, tmp_path / "aside")
        os.truncate(part, 10)
        with pytest.raises(Unavailable, match=CHANGED):
            custodian.answer(WOMEN, epsilon=1)
        with pytest.raises(Unavailable, match=OTHER):
            Custodian.open(schema)
        shutil.copyfile(backup_file, part)
        with Custodian.open(schema) as again:
            assert again.answer(WOMEN, epsilon=SURE).value == 200
