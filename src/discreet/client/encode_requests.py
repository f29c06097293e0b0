"""Encode questions, recipes and ranges as JSON documents: numbers exactly, by their text; the rest is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import date
from decimal import Decimal
from fractions import Fraction

from discreet.errors import InvalidInput
from discreet.numeric import as_rational
from discreet.planner.options import Accuracy, QueryOptions
from discreet.priors.distance import ContinuousDistance, NominalDistance
from discreet.priors.prior import Prior
from discreet.privacy.cost import require_storable_text
from discreet.release.methods import ReleaseMethod

MAX_KEY_LENGTH = 200
CONSTRAINTS_FORMAT = 'constraints are sent as a list of texts, such as ["total = 1000"]; one that is no text cannot be'


def encode_question(question: object, options: QueryOptions | None = None) -> dict[str, object]:
    """Encode a question with its options; those that were not given, and the key, are left out."""
    if not isinstance(question, str):
        raise InvalidInput(f"a question is SQL text, got {type(question).__name__}")
    body: dict[str, object] = {"question": question}
    for option in fields(QueryOptions) if options is not None else ():
        value = getattr(options, option.name)
        if option.name != "key" and value != option.default:
            body[option.name] = _encode_option(value)
    return body


def _encode_option(value: object) -> object:
    """An option by its type: numbers exactly, by their text."""
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, str | int):
        return value
    if isinstance(value, tuple):
        return _encode_texts(value)
    if isinstance(value, Accuracy):
        return _encode_accuracy(value)
    return _encode_prior(value) if isinstance(value, Prior) else _encode_distance(value)


def make_request_key(key: str | None) -> str:
    """Check the caller's key for a request, or make one that nobody else has."""
    if key is None:
        from discreet.mechanisms.entropy import SYSTEM

        return SYSTEM.take(16).hex()
    key_text = require_storable_text(key, "key", MAX_KEY_LENGTH)
    if not key_text.isascii() or not key_text.isprintable() or key_text != key_text.strip():
        raise InvalidInput("a key is 1 to 200 letters, digits or signs in ASCII, with no space at its ends")
    return key_text


def encode_method(method: ReleaseMethod) -> dict[str, object]:
    """Encode a release method with the options that are not as by default."""
    return {"method": method.stored_name} | encode_recipe(method.list_values())


def encode_recipe(options: Mapping[str, object]) -> dict[str, object]:
    """Encode the options of a release or a sweep; those that were not given are left out."""
    return {name: _encode_value(value) for name, value in options.items() if value is not None and value is not False}


def _encode_value(value: object) -> object:
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


def _encode_prior(prior: Prior) -> str:
    """A prior made of shapes is sent as its text, so that it can be laid on any grid; weights as JSON."""
    if prior.shape:
        return prior.shape
    if any(isinstance(value, tuple) for value in prior.support):
        raise InvalidInput("a prior of several components cannot be sent; state one for one number or name")
    names = [value.isoformat() if isinstance(value, date) else str(value) for value in prior.support]
    return json.dumps(dict(zip(names, prior.mass.tolist(), strict=True)), ensure_ascii=False)


def _encode_distance(distance: object) -> str:
    """A distance is sent by name; the categories and taxonomies are the schema's."""
    if isinstance(distance, ContinuousDistance | NominalDistance):
        return distance.stored_name
    raise InvalidInput(
        "a distance is sent by its name: continuous, nominal, ordinal or semantic, by the schema's own categories"
    )


def _encode_accuracy(accuracy: Accuracy) -> str:
    if Accuracy.parse(str(accuracy)) != accuracy:
        raise InvalidInput("this accuracy has more digits than can be written; round it")
    return str(accuracy)


def _encode_texts(items: tuple[object, ...]) -> list[str]:
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) < len(items):
        raise InvalidInput(CONSTRAINTS_FORMAT)
    return texts
