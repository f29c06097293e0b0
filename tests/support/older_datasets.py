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
ASKED = FOLDER / "asked.json"
PRIORS = {"weights": Prior.weights, "parse": Prior.parse}
DISTANCES = {"ordinal": Distance.ordinal, "semantic": lambda parents: Distance.semantic(Taxonomy.of(parents))}
NUMBERS = ("epsilon", "delta", "noise_scale")
TOLD = ("columns", "rows", "intervals_95", "mechanism", "entry", "stored", "shaped_by_prior", "prior_tail")
"""What an answer's document must tell again, besides its guarantee and its cost."""


def unpack(folder: Path) -> Path:
    """The files in another folder than they were made in, with their times and their rights."""
    with tarfile.open(FILES) as files:
        files.extractall(folder, filter="tar")
    return folder


def recorded() -> Any:
    """What was written down of them when they were made."""
    return json.loads(ASKED.read_text(encoding="utf-8"))


def options_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a question, from how they are written down."""
    return {name: _option(name, value) for name, value in said.items()}


def _option(name: str, value: Any) -> Any:
    if name in NUMBERS:
        return Fraction(value)
    if not isinstance(value, dict):
        return value
    if name == "prior" and "of" in value:
        (kind, given), *_ = value["of"].items()
        return PRIORS[kind](given) if kind in PRIORS else getattr(Prior, kind)(*given)
    if name == "distance":
        (kind, given), *_ = value.items()
        return DISTANCES[kind](given) if given else getattr(Distance, kind)()
    return value


def ask(custodian: Custodian, one: Mapping[str, Any], **more: Any) -> Answer:
    """A question as it was asked, or with something said otherwise."""
    return custodian.answer(one["question"], **{**options_of(one["options"]), "analyst": one["analyst"], **more})


def told(answer: Answer) -> dict[str, Any]:
    """What a stored answer must tell again, as JSON has it."""
    document = json.loads(json.dumps(answer.to_json()))
    label = {name: document["guarantee"].get(name) for name in ("model", "epsilon", "delta", "rho")}
    return {name: document[name] for name in TOLD} | {"guarantee": label, "cost": document["cost"].get("epsilon")}
