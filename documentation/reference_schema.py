"""The page of the schema file: the keys that its reader knows, each with its words here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

from documentation.markdown import format_code, format_table, join_parts

from discreet.schema import yaml
from discreet.schema.yaml import MappingKeys

PARTS: Mapping[str, tuple[MappingKeys, str]] = {
    "The file": (
        yaml.SCHEMA_KEYS,
        "Paths are from the folder of the file. A key that is not in this table is refused.",
    ),
    "`unit`": (yaml.UNIT_KEYS, "Whom the promise protects, where that is not a row."),
    "`budget` and `analyst_budget`": (yaml.BUDGET_KEYS, "What may be spent for ever, exactly as it is written."),
    "A column": (yaml.COLUMN_KEYS, "A column that is not named under `columns` does not exist for analysts."),
    "An entry of `lookups`": (
        yaml.LOOKUP_KEYS,
        "A public table: its first column is matched with the key, and the others become columns such as "
        "`chapters.chronic`.",
    ),
    "An entry of `published`": (
        yaml.PUBLISHED_KEYS,
        "An exact fact that is public already. It stands on every label, with what it adds to that answer.",
    ),
    "The file of a `taxonomy`": (yaml.TAXONOMY_KEYS, 'JSON, such as `{"parents": {"nurse": "health", "health": []}}`.'),
}
WORDS: Mapping[str, Mapping[str, tuple[str, str, str]]] = {
    "The file": {
        "name": ("the table's name in SQL: letters, digits and `_`", "", "registry"),
        "source": (
            "where the rows are: a CSV or Parquet file, `postgresql://host/db#schema.table`, `spark:table`, "
            "or `memory` for a table that is handed to `Custodian.open(..., source=)`",
            "",
            "registry.csv",
        ),
        "neighbours": (
            "`replace-one`: one unit is replaced, and their number is public; `add-remove`: one comes or goes, and "
            "their number is private",
            "",
            "replace-one",
        ),
        "units": ("how many units there are: declared under `replace-one`, absent under `add-remove`", "none", "50000"),
        "unit": ("whom the promise protects; a mapping, see below", "every row is a unit", "{column: person_id}"),
        "budget": ("for all analysts together, for ever; a mapping, see below", "", "{epsilon: 3, delta: 1e-6}"),
        "analyst_budget": ("for each analyst", "the same as `budget`", "{epsilon: 1}"),
        "models": (
            "which promises may be given: `dp`; `approx-dp`, which needs a delta in both budgets; or `individual-dp`, "
            "which is weaker and says so",
            "`[dp]`",
            "[dp, approx-dp]",
        ),
        "individual_dp_reason": (
            "why the weaker model is allowed: needed where `models` has `individual-dp`",
            "none",
            "a published protocol asks for it",
        ),
        "individual_queries": ("`yes` allows `SELECT x FROM t FOR UNIT 'p17'`", "`no`", "yes"),
        "partition": (
            "a column with public categories: questions about one of its values are counted in parallel",
            "none",
            "hospital",
        ),
        "published": ("exact facts that are public already; a list, see below", "none", "[]"),
        "impossible": (
            "conditions that no row can satisfy; no linked file does",
            "none",
            '["age < 15 AND smoker = true"]',
        ),
        "lookups": (
            "public tables by name; a mapping, see below",
            "none",
            "{chapters: {file: chapters.csv, key: diagnosis}}",
        ),
        "columns": ("what may be asked about, by name; see below", "", "{age: {kind: integer, lower: 17, upper: 90}}"),
    },
    "`unit`": {
        "column": ("the column that names units; it may be one that analysts do not see", "", "person_id"),
        "rows": ("how many rows of each unit are kept, the others are left out", "`1`", "3"),
    },
    "`budget` and `analyst_budget`": {
        "epsilon": ("above 0", "", "3"),
        "delta": ("from 0 to below 1; for `approx-dp`", "`0`", "1e-6"),
        "max_epsilon": (
            "the highest epsilon that the budget may be raised to; all answers together are promised this one. What "
            "counts is what is declared when the first question is answered",
            "epsilon",
            "5",
        ),
    },
    "A column": {
        "kind": ("`integer`, `number`, `date`, `boolean`, `ordinal` or `nominal`", "", "integer"),
        "role": (
            "what a protected file makes of it: `identifier` (never leaves, and is never asked about; needs no kind), "
            "`quasi-identifier`, `confidential` or `other`",
            "`other`",
            "quasi-identifier",
        ),
        "missing": ("the value that a missing one stands for", "it stays missing", "0"),
        "missing_values": ("texts that mean missing", "none", '["?", "n/a"]'),
        "lower": ("the least value, from public knowledge; what is below is moved to it", "", "17"),
        "upper": ("the largest value, in the same way", "", "90"),
        "step": (
            "the grid of the values: needed for `number`, a whole number for `integer`",
            "`1` for `integer`",
            "0.01",
        ),
        "counts": (
            "`rising` or `falling`: each value has no fewer, or no more, rows than the one before; used after the "
            "noise alone",
            "none",
            "falling",
        ),
        "categories": ("the public list of values; in their order for `ordinal`", "", "[F, M]"),
        "taxonomy": (
            "a file of concepts, whose leaves are the values; in place of `categories`",
            "none",
            "diagnosis.json",
        ),
        "keys": ("`private`: there is no public list of values; in place of `categories`", "none", "private"),
    },
    "An entry of `lookups`": {
        "file": ("a CSV file with a header", "", "chapters.csv"),
        "key": ("the column that its first column is matched with", "", "diagnosis"),
    },
    "An entry of `published`": {
        "statistic": ("what it is called", "", "women"),
        "value": ("its exact value", "", "25013"),
        "question": (
            "the question that it answers: its cost for other answers is then computed",
            "none",
            "\"SELECT COUNT(*) FROM registry WHERE sex = 'F'\"",
        ),
    },
    "The file of a `taxonomy`": {
        "parents": ("each concept with its parent, or a list of them; none for the root", "", '{"nurse": "health"}'),
        "mapping": ("values as the data write them, each with the concept it means", "none", '{"RN": "nurse"}'),
        "attribute": ("a remark", "none", "occupation"),
        "source": ("a remark", "none", "made up"),
        "n_concepts": ("a remark", "none", "62"),
    },
}
"""What each key is, what holds unless it is said, and an example."""


def list_undocumented(
    parts: Mapping[str, tuple[MappingKeys, str]], words_by_part: Mapping[str, Mapping[str, tuple[str, str, str]]]
) -> list[str]:
    """Keys of the reader without words, and words about keys that the reader does not know."""
    silent = []
    for name, (known, _) in parts.items():
        described = words_by_part.get(name, {})
        silent += [f"{name}: {key}" for key in known.allowed if not described.get(key, ("",))[0]]
        silent += [f"{name}: {key}, which is no key" for key in described if key not in known.allowed]
    return silent


def format_page() -> str:
    """The whole page."""
    return join_parts(
        "# The schema",
        "A schema is what is public about a table, in one YAML file: `discreet init data.csv` drafts one, `discreet "
        "check` registers the data set by it. [Write a schema](../how-to/write-a-schema.md) tells how; here is every "
        "key.",
        *(_format_part(name, known, words) for name, (known, words) in PARTS.items()),
        "## Which keys a kind has",
        format_table(("kind", "needs", "may have"), [_format_kind(kind) for kind in yaml.KIND_KEYS]),
        "Of a `nominal` column exactly one of `categories`, `taxonomy` and `keys` is given.",
    )


def _format_part(name: str, known: MappingKeys, words: str) -> str:
    rows = []
    for key in known.allowed:
        what, unless, example = WORDS[name][key]
        rows.append(
            (format_code(key), what, "needed" if key in known.required else unless, format_code(f"{key}: {example}"))
        )
    return join_parts(f"## {name}", words, format_table(("key", "what", "unless said", "for example"), rows))


def _format_kind(kind: str) -> tuple[str, str, str]:
    known = yaml.KIND_KEYS[kind]
    optional = [key for key in known.allowed if key not in known.required and key != "kind"]
    return format_code(kind), ", ".join(map(format_code, known.required)), ", ".join(map(format_code, optional))
