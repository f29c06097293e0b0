"""What a call says, as the document that is sent: numbers exactly, by their text; what cannot travel is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet.accuracy import Accuracy
from discreet.errors import InvalidInput
from discreet.exact import between, positive, rational, whole
from discreet.spend import text

if TYPE_CHECKING:
    from discreet.planner.asked import Given

LONGEST_KEY = 200
NO_CONSTRAINT = 'constraints are sent as a list of texts, such as ["total = 1000"]; one that is no text cannot be'


def ask_of(question: object, given: Mapping[str, Any]) -> dict[str, Any]:
    """A question and what goes with it, as a request has it; what was not said is left out."""
    if not isinstance(question, str):
        raise InvalidInput(f"a question is SQL text, got {type(question).__name__}")
    said = {
        name: value for name, value in given.items() if value is not None and (value is not False or name == "tail")
    }
    read = {name: READ[name](value) for name, value in said.items()}
    return {"question": question} | read


def noisy(given: Mapping[str, Any]) -> dict[str, Any]:
    """What goes with a question, if it says how much noise there may be."""
    if all(given[name] is None for name in ("epsilon", "accuracy", "noise_scale")):
        raise InvalidInput("say how much noise there may be: epsilon=0.1 or accuracy='±50 at 95%'")
    return dict(given)


def key_of(key: str | None) -> str:
    """A name for one request: the caller's, or one that nobody else has."""
    if key is None:
        from discreet.kernel.entropy import SYSTEM

        return SYSTEM.take(16).hex()
    short = text(key, "key", LONGEST_KEY)
    if not short.isascii() or not short.isprintable() or short != short.strip():
        raise InvalidInput("a key is 1 to 200 letters, digits or signs in ASCII, with no space at its ends")
    return short


def ends_of(low: object, high: object) -> str:
    """A range as it is written, such as 20000..30000."""
    ends = [end.isoformat() if isinstance(end, date) else str(end).strip() for end in (low, high)]
    if any(not end or ".." in end or len(end) > 100 for end in ends):
        raise InvalidInput("a range has a low and a high end, each a number or a date")
    return "..".join(ends)


def recipe_of(given: Mapping[str, object]) -> dict[str, Any]:
    """What is said of a file to be published; numbers by their text."""
    return {name: _plain(value) for name, value in given.items() if value is not None and value is not False}


def _plain(value: object) -> Any:
    if isinstance(value, str | int | list):
        return value
    if isinstance(value, float | Fraction | Decimal) or hasattr(value, "__index__"):
        number = rational(value, "a number")
        return int(number) if number.denominator == 1 else str(number)
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) else _diversity(value)


def _diversity(value: object) -> str:
    """What a group must hold, as it is written."""
    from discreet.microdata.diversity import Diversity

    if not isinstance(value, Diversity):
        raise InvalidInput(f"a file is described by texts, numbers and lists; a {type(value).__name__} cannot be sent")
    return value.to_text()


def _prior(given: Given) -> str:
    """Text as it is; a prior made of shapes by its text, so that it can be laid on any grid; weights as JSON."""
    from discreet.prior import Prior

    if isinstance(given, str):
        return given
    prior = Prior.weights(given) if isinstance(given, Mapping) else given
    if not isinstance(prior, Prior):
        raise InvalidInput(f"a prior is text, weights or a Prior, got {type(prior).__name__}")
    if prior.shape:
        return prior.shape
    names = [_name(value) for value in prior.support]
    return json.dumps(dict(zip(names, prior.mass.tolist(), strict=True)), ensure_ascii=False)


def _name(value: object) -> str:
    if isinstance(value, tuple):
        raise InvalidInput("a prior of several components cannot be sent; state one for one number or name")
    return value.isoformat() if isinstance(value, date) else str(value)


def _distance(given: object) -> str:
    """By name; a distance with categories or a taxonomy is the schema's own, and named too."""
    from discreet.distance import Continuous, Nominal

    if isinstance(given, str):
        return given
    if isinstance(given, Continuous | Nominal):
        return given.stored_name
    raise InvalidInput(
        "a distance is sent by its name: continuous, nominal, ordinal or semantic, by the schema's own categories"
    )


def _accuracy(given: object) -> str:
    told = given if isinstance(given, str) else str(given)
    if isinstance(given, Accuracy) and Accuracy.parse(told) != given:
        raise InvalidInput("this accuracy has more digits than can be written; round it")
    return told


def _constraints(given: object) -> list[str]:
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else []
    texts = [one for one in listed if isinstance(one, str)]
    if isinstance(given, str) or len(texts) < len(listed):
        raise InvalidInput(NO_CONSTRAINT)
    return texts


def _tail(given: object) -> bool:
    if not isinstance(given, bool):
        raise InvalidInput(f"tail is True, False or left out, got {type(given).__name__}")
    return given


def _reuse(given: object) -> str:
    """As the library reads it."""
    from discreet.custodian.previewing import ANY_PRICE, is_any_price

    is_any_price(given)
    return ANY_PRICE


def _rows(given: object) -> int:
    return whole(given, "the number of rows expected")


READ: Mapping[str, Any] = {
    "epsilon": lambda given: str(positive(given, "epsilon")),
    "delta": lambda given: str(between(given, 0, 1, "delta")),
    "noise_scale": lambda given: str(positive(given, "the noise scale")),
    "accuracy": _accuracy,
    "prior": _prior,
    "distance": _distance,
    "model": str,
    "interval": bool,
    "rows": _rows,
    "tail": _tail,
    "constraints": _constraints,
    "fresh": bool,
    "reuse": _reuse,
}
"""How what goes with a question is read."""
