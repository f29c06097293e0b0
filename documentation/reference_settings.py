"""The page of settings: the service's configuration, with the defaults that the code has, and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from fractions import Fraction

from documentation.markdown import format_code, format_table, join_parts

from discreet.schema.yaml import MappingKeys, list_keys
from discreet.service import config
from discreet.service.config import TLS, Config, DatasetConfig, Limits

PARTS: Mapping[str, tuple[MappingKeys, type | None, str]] = {
    "The configuration": (
        list_keys(Config),
        Config,
        "One YAML file, for `discreet serve --config`. Paths are from its own folder. A key that is not here is "
        "refused.",
    ),
    "An entry of `datasets`": (list_keys(DatasetConfig), DatasetConfig, "One data set that is served."),
    "`tls`": (list_keys(TLS), None, "Needed to listen beyond this machine, unless a proxy has it."),
    "`limits`": (
        list_keys(Limits),
        Limits,
        "The most that one request may be, and how many a token may send. Requests without a token are counted by "
        "address.",
    ),
}
WORDS: Mapping[str, Mapping[str, str]] = {
    "The configuration": {
        "datasets": "a list of data sets; see below",
        "address": "where it listens; beyond this machine only with `tls` or with `insecure: yes`",
        "port": "0 takes a free one; `--port` goes before it",
        "workers": f"processes that answer, 1 to {config.MAX_WORKERS}; `--workers` goes before it",
        "store": "where tokens, grants, jobs and answers by id are kept: a file, or `postgresql://...`",
        "ledger": "one ledger for all data sets: a file, or `postgresql://...`",
        "folder": "released files, tables to rehearse with, files of the running service",
        "url": "the address that analysts reach it at, such as `https://discreet.example.org`; the console shows it in "
        "code. Set it behind a proxy",
        "tls": "a certificate and its key; see below",
        "insecure": "`yes`: beyond this machine without TLS, where a proxy has it",
        "deadline": f"seconds after which replies leave that are about no data set; {config.MIN_DEADLINE:g} to "
        f"{config.MAX_DEADLINE:g}",
        "padding": "`no`: replies leave when they are ready. For tests and benchmarks alone; a warning stays on every "
        "page",
        "hung": "seconds without a sign of life after which a process is killed and replaced; "
        f"{config.MIN_HUNG:g} to {config.MAX_DEADLINE:g}",
        "limits": "see below",
    },
    "An entry of `datasets`": {
        "schema": "its schema file",
        "deadline": "seconds after which every reply about it leaves",
        "jobs": "`yes`: every question runs as a job that is polled",
    },
    "`tls`": {"certificate": "a PEM file", "key": "a PEM file, without a password"},
    "`limits`": {
        "body": "bytes of a request",
        "prior": "weights of a prior",
        "bins": "numbers of an answer: its groups or bins, times the numbers in each",
        "rate": "requests a second of one token",
        "burst": "as many of them in a row",
        "together": "requests of one token that a worker has at work at once; of those in rehearsal 4",
        "previews": "seconds of processor time that previews of one token, and looks at its priors, may take in a "
        "minute on one machine",
        "least": "the least epsilon of a question or a session; of a question with a delta its square root, since "
        "losses add up by squares there",
    },
}
INSTEAD: Mapping[str, str] = {
    "folder": "`service`",
    "store": "`service.db`",
    "ledger": "each data set's own",
    "url": "where a request was received",
    "tls": "none",
    "jobs": "as its engine needs: `yes` on Spark",
    "An entry of `datasets`: deadline": "the service's",
    "limits": "as below",
}
"""What holds unless it is said, where no value of the code shows it."""
VARIABLES: Mapping[str, tuple[str, str]] = {
    "DISCREET_DATA": ("`python -m papers`", "the folder of the papers' own tables; `--data` goes before it"),
    "DISCREET_TOKEN": (
        "scripts that the console shows",
        "the token, so that it is in no script; read by the script itself",
    ),
    "DISCREET_CA": ("the client's page", "the file that vouches for a certificate; read by the script itself"),
    "DISCREET_REQUIRE": (
        "`make test`",
        "services that must be there: `postgres,spark,chromium`; absent ones are skipped otherwise",
    ),
}
"""Every variable of the environment that has our name, who reads it, what it is."""


def list_undocumented(
    parts: Mapping[str, tuple[MappingKeys, type | None, str]], words_by_part: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """Settings without words, and words about what is no setting."""
    silent = []
    for name, (known, _, _) in parts.items():
        described = words_by_part.get(name, {})
        silent += [f"{name}: {key}" for key in known.allowed if not described.get(key)]
        silent += [f"{name}: {key}, which is no setting" for key in described if key not in known.allowed]
    return silent


def format_page() -> str:
    """The whole page."""
    variables = [(format_code(name), who, what) for name, (who, what) in VARIABLES.items()]
    return join_parts(
        "# Settings",
        "The library and the command have no settings but their arguments. The service has one file; "
        "[operate the service](../operation.md) tells what to choose.",
        *(_format_part(name, *part) for name, part in PARTS.items()),
        "## The environment",
        "PostgreSQL and Spark read their own variables, such as `PGHOST`. Ours:",
        format_table(("variable", "for", "what"), variables),
    )


def _format_part(name: str, known: MappingKeys, kind: type | None, words: str) -> str:
    rows = [(format_code(key), WORDS[name][key], format_default(name, key, known, kind)) for key in known.allowed]
    return join_parts(f"## {name}", words, format_table(("key", "what", "unless said"), rows))


def format_default(part: str, key: str, known: MappingKeys, kind: type | None) -> str:
    """What holds where a key is not given: from the code, where it is a value."""
    if key in known.required:
        return "needed"
    instead = INSTEAD.get(f"{part}: {key}", INSTEAD.get(key))
    if instead is not None:
        return instead
    values = {} if kind is None else {one.name: one.default for one in fields(kind) if one.default is not MISSING}
    return format_code(_format_value(values[key]))


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{float(value):g}" if isinstance(value, float | Fraction) else str(value)
