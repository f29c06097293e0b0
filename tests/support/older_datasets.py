"""What was made before all was moved, `fixtures/before_move`: unpacked to a place of one's own, and asked as it was."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet import Answer, Custodian, Distance, Prior, Taxonomy

FOLDER = Path(__file__).parents[1] / "fixtures" / "before_move"
FILES = FOLDER / "files.tar.xz"
RECORD_FILE = FOLDER / "asked.json"
PRIORS = {"weights": Prior.weights, "parse": Prior.parse}
DISTANCES = {"ordinal": Distance.ordinal, "semantic": lambda parents: Distance.semantic(Taxonomy.of(parents))}
NUMBERS = ("epsilon", "delta", "noise_scale")
COMPARED_FIELDS = ("columns", "rows", "intervals_95", "mechanism", "entry", "stored", "shaped_by_prior", "prior_tail")
"""What an answer's document must tell again, besides its guarantee and its cost."""


def unpack(folder: Path) -> Path:
    """The files in another folder than they were made in, with their times and their rights."""
    with tarfile.open(FILES) as files:
        files.extractall(folder, filter="tar")
    return folder


def read_record() -> Any:
    """What was written down of them when they were made."""
    return json.loads(RECORD_FILE.read_text(encoding="utf-8"))


def parse_options(written_options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a question, from how they are written down."""
    return {name: _parse_option(name, value) for name, value in written_options.items()}


def _parse_option(name: str, value: Any) -> Any:
    if name in NUMBERS:
        return Fraction(value)
    if not isinstance(value, dict):
        return value
    if name == "prior" and "of" in value:
        (kind, arguments), *_ = value["of"].items()
        return PRIORS[kind](arguments) if kind in PRIORS else getattr(Prior, kind)(*arguments)
    if name == "distance":
        (kind, arguments), *_ = value.items()
        return DISTANCES[kind](arguments) if arguments else getattr(Distance, kind)()
    return value


def ask_again(custodian: Custodian, recorded_question: Mapping[str, Any], **options: Any) -> Answer:
    """A question as it was asked, or with something said otherwise."""
    return custodian.answer(
        recorded_question["question"],
        **{**parse_options(recorded_question["options"]), "analyst": recorded_question["analyst"], **options},
    )


def describe_answer(answer: Answer) -> dict[str, Any]:
    """What a stored answer must tell again, as JSON has it."""
    document = json.loads(json.dumps(answer.to_json()))
    label = {name: document["guarantee"].get(name) for name in ("model", "epsilon", "delta", "rho")}
    return {name: document[name] for name in COMPARED_FIELDS} | {
        "guarantee": label,
        "cost": document["cost"].get("epsilon"),
    }
