"""Registration with Spark: from a table or DataFrame to a folder of Parquet files.

The folder is on a disk that all of Spark's machines share under one name; so are the files made on the way.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from discreet.errors import DiscreetError, InvalidInput, Unavailable
from discreet.schema.schema import Schema
from discreet.sources.registration.bounding import counts, snapshot, summary
from discreet.sources.registration.refusals import (
    needed,
    refuse_columns,
    refuse_existing,
    refuse_found,
    refuse_kinds,
    refuse_schema,
)
from discreet.sources.registration.report import Found, Progress, Report, found, report, silent
from discreet.sources.registration.sql import lookups, staged
from discreet.sources.registration.words import SPARK, Origin, SourceKind
from discreet.sources.silence import silence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS: dict[str, SourceKind] = {
    "boolean": "boolean",
    "date": "date",
    "timestamp_ntz": "timestamp",
    "timestamp": "instant",
    "string": "text",
    "char": "text",
    "varchar": "text",
    "decimal": "decimal",
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "integer"),
    **dict.fromkeys(("float", "double"), "float"),
}


def register_spark(
    schema: Schema, session: SparkSession, raw: str | DataFrame, target: Path, key: str, progress: Progress = silent
) -> Report:
    """Write the snapshot of a table, by its name or as a DataFrame, to a new folder. Spark's loggers are silenced."""
    refuse_schema(schema, key)
    refuse_existing(target)
    try:
        silence(session)
        with _workplace(session, target.absolute().parent) as place:
            progress("reading")
            origins = _opened(place, schema, raw)
            refuse_kinds(schema, origins)
            progress("normalising")
            before = _stage(place, schema, origins)
            refuse_found(schema, before)
            progress("bounding")
            made = _table(place, "snapshot", place.run(snapshot(schema, key, place.table("staged"), SPARK)))
            progress("writing")
            after = _one_row(place, summary(schema, key, place.table("snapshot"), SPARK))
            made.chmod(0o700)
            os.rename(made, target)
            return report(before, after)
    except DiscreetError:
        raise
    except Exception:  # the boundary to Spark, which fails in its own ways, its bridge's and its socket's
        raise Unavailable("Spark did not do it; check that it can read the table and has room on disk") from None


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where one registration works: a session, a folder that will be deleted, and a name before those of its views."""

    session: SparkSession
    folder: Path
    prefix: str
    views: list[str] = field(default_factory=list)

    def table(self, name: str) -> exp.Table:
        """One of its views."""
        return exp.table_(self.prefix + name)

    def show(self, name: str, frame: DataFrame) -> None:
        """Make a view."""
        frame.createTempView(self.prefix + name)
        self.views.append(self.prefix + name)

    def run(self, query: exp.Select) -> DataFrame:
        """What a query gives."""
        return self.session.sql(query.sql("spark"))


@contextmanager
def _workplace(session: SparkSession, home: Path) -> Iterator[Workplace]:
    with tempfile.TemporaryDirectory(prefix=".discreet_", dir=home) as name:
        place = Workplace(session, Path(name), f"{Path(name).name[1:]}_")
        try:
            yield place
        finally:
            for view in place.views:
                session.catalog.dropTempView(view)


def _opened(place: Workplace, schema: Schema, raw: str | DataFrame) -> dict[str, Origin]:
    """Make the view `raw`, its columns named by their places; say which holds each needed column, and of which kind."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        frame = place.session.table(raw) if isinstance(raw, str) else raw
        columns = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    except (AnalysisException, ParseException):
        name = repr(raw[:40]) if isinstance(raw, str) else "of these rows"
        raise InvalidInput(f"there is no table {name} that Spark can read; name it as catalog.schema.table") from None
    names = [name for name, _ in columns]
    refuse_columns(schema, names)
    place.show("raw", frame.toDF(*(f"r{i}" for i in range(len(names)))))
    return {name: Origin(f"r{names.index(name)}", _kind(columns[names.index(name)][1])) for name in needed(schema)}


def _kind(simple: str) -> SourceKind:
    """By the first word of a type such as decimal(10,2) or string collate unicode."""
    return KINDS.get(re.split("[^a-z_]", simple, maxsplit=1)[0], "other")


def _stage(place: Workplace, schema: Schema, origins: dict[str, Origin]) -> Found:
    for lookup in lookups(schema):
        lines = (json.dumps({"label": label, "code": code}) + "\n" for label, code in lookup.pairs)
        file = place.folder / f"{lookup.name}.json"
        file.write_text("".join(lines), encoding="ascii")
        kinds = f"label {'string' if lookup.of_texts else 'bigint'}, code bigint"
        place.show(lookup.name, place.session.read.schema(kinds).json(file.as_uri()))
    _table(place, "staged", place.run(staged(schema, origins, place.table("raw"), SPARK, place.prefix)))
    return found(schema, _one_row(place, counts(schema, place.table("staged"))))


def _table(place: Workplace, name: str, frame: DataFrame) -> Path:
    """Write Parquet files, and make a view of them, so that nothing is worked out twice."""
    folder = place.folder / name
    frame.write.parquet(folder.as_uri())
    place.show(name, place.session.read.parquet(folder.as_uri()))
    return folder


def _one_row(place: Workplace, query: exp.Select) -> Sequence[int]:
    return tuple(place.run(query).collect()[0])
