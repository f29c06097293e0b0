"""Encode questions, recipes and ranges as JSON documents: numbers exactly, by their text; the rest is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidInput
from discreet.numeric import as_int, as_number_between, as_positive, as_rational
from discreet.planner.options import Accuracy
from discreet.privacy.cost import require_storable_text

if TYPE_CHECKING:
    from discreet.planner.options import PriorInput
    from discreet.release.methods import ReleaseMethod

MAX_KEY_LENGTH = 200
CONSTRAINTS_FORMAT = 'constraints are sent as a list of texts, such as ["total = 1000"]; one that is no text cannot be'


def encode_question(question: object, options: Mapping[str, Any]) -> dict[str, Any]:
    """Encode a question with its options; those that were not given are left out."""
    if not isinstance(question, str):
        raise InvalidInput(f"a question is SQL text, got {type(question).__name__}")
    stated = {
        name: value for name, value in options.items() if value is not None and (value is not False or name == "tail")
    }
    return {"question": question} | {name: OPTION_ENCODERS[name](value) for name, value in stated.items()}


def encode_noisy_question(question: object, options: Mapping[str, Any]) -> dict[str, Any]:
    """Encode a question whose options must say how much noise there may be."""
    if all(options[name] is None for name in ("epsilon", "accuracy", "noise_scale")):
        raise InvalidInput("say how much noise there may be: epsilon=0.1 or accuracy='±50 at 95%'")
    return encode_question(question, options)


def make_request_key(key: str | None) -> str:
    """Check the caller's key for a request, or make one that nobody else has."""
    if key is None:
        from discreet.mechanisms.entropy import SYSTEM

        return SYSTEM.take(16).hex()
    key_text = require_storable_text(key, "key", MAX_KEY_LENGTH)
    if not key_text.isascii() or not key_text.isprintable() or key_text != key_text.strip():
        raise InvalidInput("a key is 1 to 200 letters, digits or signs in ASCII, with no space at its ends")
    return key_text


def encode_range(low: object, high: object) -> str:
    """Write a range as text, such as 20000..30000."""
    ends = [end.isoformat() if isinstance(end, date) else str(end).strip() for end in (low, high)]
    if any(not end or ".." in end or len(end) > 100 for end in ends):
        raise InvalidInput("a range has a low and a high end, each a number or a date")
    return "..".join(ends)


def parse_range(text: str) -> tuple[str, str]:
    """Read both ends of a range that is written as text."""
    low, dots, high = (part.strip() for part in text.partition(".."))
    if not (low and dots and high):
        raise InvalidInput(f"a range is written with two ends, such as 20000..30000, got {text[:40]!r}")
    return low, high


def encode_method(method: ReleaseMethod) -> dict[str, Any]:
    """Encode a release method with the options that are not as by default."""
    return {"method": method.stored_name} | encode_recipe(method.list_values())


def encode_recipe(options: Mapping[str, object]) -> dict[str, Any]:
    """Encode the options of a release or a sweep; those that were not given are left out."""
    return {name: _encode_value(value) for name, value in options.items() if value is not None and value is not False}


def _encode_value(value: object) -> Any:
    if isinstance(value, str | int | list):
        return value
    if isinstance(value, float | Fraction | Decimal) or hasattr(value, "__index__"):
        number = as_rational(value, "a number")
        return int(number) if number.denominator == 1 else str(number)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    from discreet.sdc.methods.partition import Diversity

    if not isinstance(value, Diversity):
        raise InvalidInput(f"a file is described by texts, numbers and lists; a {type(value).__name__} cannot be sent")
    return value.to_text()


def _encode_prior(prior_input: PriorInput) -> str:
    """A prior made of shapes is sent as its text, so that it can be laid on any grid; weights as JSON."""
    from discreet.priors.prior import Prior

    if isinstance(prior_input, str):
        return prior_input
    prior = Prior.weights(prior_input) if isinstance(prior_input, Mapping) else prior_input
    if not isinstance(prior, Prior):
        raise InvalidInput(f"a prior is text, weights or a Prior, got {type(prior).__name__}")
    if prior.shape:
        return prior.shape
    if any(isinstance(value, tuple) for value in prior.support):
        raise InvalidInput("a prior of several components cannot be sent; state one for one number or name")
    names = [value.isoformat() if isinstance(value, date) else str(value) for value in prior.support]
    return json.dumps(dict(zip(names, prior.mass.tolist(), strict=True)), ensure_ascii=False)


def _encode_distance(distance: object) -> str:
    """A distance is sent by name; the categories and taxonomies are the schema's."""
    from discreet.priors.distance import ContinuousDistance, NominalDistance

    if isinstance(distance, str):
        return distance
    if isinstance(distance, ContinuousDistance | NominalDistance):
        return distance.stored_name
    raise InvalidInput(
        "a distance is sent by its name: continuous, nominal, ordinal or semantic, by the schema's own categories"
    )


def _encode_accuracy(accuracy: object) -> str:
    accuracy_text = accuracy if isinstance(accuracy, str) else str(accuracy)
    if isinstance(accuracy, Accuracy) and Accuracy.parse(accuracy_text) != accuracy:
        raise InvalidInput("this accuracy has more digits than can be written; round it")
    return accuracy_text


def _encode_constraints(constraints: object) -> list[str]:
    items = list(constraints) if isinstance(constraints, Iterable) and not isinstance(constraints, str) else []
    texts = [item for item in items if isinstance(item, str)]
    if isinstance(constraints, str) or len(texts) < len(items):
        raise InvalidInput(CONSTRAINTS_FORMAT)
    return texts


def _encode_tail(tail: object) -> bool:
    if not isinstance(tail, bool):
        raise InvalidInput(f"tail is True, False or left out, got {type(tail).__name__}")
    return tail


def _encode_reuse(reuse: object) -> str:
    from discreet.custodian.preview import ANY_PRICE, is_any_price

    is_any_price(reuse)
    return ANY_PRICE


OPTION_ENCODERS: Mapping[str, Any] = {
    "epsilon": lambda epsilon: str(as_positive(epsilon, "epsilon")),
    "delta": lambda delta: str(as_number_between(delta, 0, 1, "delta")),
    "noise_scale": lambda scale: str(as_positive(scale, "the noise scale")),
    "accuracy": _encode_accuracy,
    "prior": _encode_prior,
    "distance": _encode_distance,
    "model": str,
    "interval": bool,
    "rows": lambda rows: as_int(rows, "the number of rows expected"),
    "tail": _encode_tail,
    "constraints": _encode_constraints,
    "fresh": bool,
    "reuse": _encode_reuse,
}
"""How each option of a question is encoded."""
