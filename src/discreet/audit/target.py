"""What is to be audited: a mechanism of ours by name, any Python callable by its place, or a question to a schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np

from discreet.audit.auditing import Audit, Claim, Mechanism, audit_mechanism
from discreet.audit.worst import worst_place
from discreet.errors import InvalidInput, Unavailable, Unsupported

PARTS = 20
FEWEST = 1000
"""Fewer draws are made in one go."""
DRAWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Target:
    """A mechanism, pairs of neighbours, the claim, and how many draws are made unless told."""

    name: str
    mechanism: Mechanism
    pairs: tuple[tuple[Any, Any], ...]
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    draws: int = DRAWS
    told: str = ""
    """What has to be said of it besides."""
    in_words: tuple[tuple[str, str], ...] = field(kw_only=True)
    """Each of the pairs, in a few words."""

    def audit(
        self, draws: int | None, confidence: Fraction, show: Callable[[str], None]
    ) -> tuple[Audit, tuple[str, str]]:
        """Audit the worst of the pairs; which one that is, in words, comes second."""
        count = self.draws if draws is None else draws
        claim = Claim.of(self.epsilon, self.delta, count, confidence)
        given = self.epsilon, self.delta, count, confidence
        try:
            at = worst_place(self.mechanism, self.pairs, claim, show)
            return audit_mechanism(self.mechanism, *self.pairs[at], *given, progress=show), self.in_words[at]
        except MemoryError:
            raise Unavailable(f"{count:,} draws do not fit in the memory of this machine; ask for fewer") from None

    def shown(self, show: Callable[[str], None]) -> Target:
        """The same, telling how many draws are done; for what draws afresh in every call."""
        return replace(self, mechanism=in_parts(self.mechanism, show))


def names() -> tuple[str, ...]:
    """The mechanisms of ours."""
    from discreet.audit.named import MAKERS

    return tuple(MAKERS)


def of_name(name: str, epsilon: Fraction, delta: Fraction | None) -> Target:
    """A mechanism of ours with neighbours of its own."""
    from discreet.audit.named import named
    from discreet.audit.telling import inputs_in_words

    own = named(name, epsilon, delta)
    words = (inputs_in_words(own.pair),)
    return Target(name, own.mechanism, (own.made,), epsilon, own.delta, own.draws, in_words=words)


def of_place(place: str, pair: tuple[str, str] | None, epsilon: Fraction, delta: Fraction | None) -> Target:
    """A callable in a module, or in a file, as module:function; its data sets are given as JSON."""
    from discreet.audit.loading import load
    from discreet.audit.telling import inputs_in_words

    if pair is None:
        raise InvalidInput("a callable needs two neighbours, as JSON: --pair 0 1, or --pair '[1, 2]' '[1, 2, 3]'")
    data = _data(pair[0]), _data(pair[1])
    words = inputs_in_words(data)
    if json.dumps(data[0]) == json.dumps(data[1]):
        raise InvalidInput("D and D2 are the same; give two neighbours")
    return Target(place, load(place), (data,), epsilon, delta or Fraction(0), in_words=(words,))


def of_question(
    schema: str,
    question: str,
    epsilon: Fraction,
    delta: Fraction | None,
    model: str | None = None,
    pairs: int | None = None,
) -> Target:
    """A question as it would be answered, on generated neighbours: the data are not opened and nothing is charged."""
    from discreet.audit.question import PAIRS, Asked
    from discreet.audit.telling import tables_in_words
    from discreet.schema import load_schema

    asked = Asked.of(load_schema(schema), question, epsilon, delta, model, PAIRS if pairs is None else pairs)
    if asked.plan.free:
        raise Unsupported("nothing is drawn: this answer is public by the schema; there is nothing to audit")
    promised = asked.plan.guarantee
    told = f"{asked.plan.mechanism}; {promised.words()}"
    claimed = promised.epsilon or epsilon, promised.delta or Fraction(0)
    words = tuple(tables_in_words(asked.plan, pair) for pair in asked.pairs)
    return Target(question, asked.mechanism(), asked.pairs, *claimed, asked.default_draws, told, in_words=words)


def in_parts(mechanism: Mechanism, show: Callable[[str], None]) -> Mechanism:
    """The same draws in twenty calls, so that a bar can fill."""

    def draw(data: Any, n: int) -> object:
        if n < FEWEST:
            return mechanism(data, n)
        made = []
        for at in range(PARTS):
            show(f"drawing: {at} of {PARTS}")
            made.append(mechanism(data, (at + 1) * n // PARTS - at * n // PARTS))
        arrays = [part for part in made if isinstance(part, np.ndarray)]
        if len(arrays) == PARTS:
            return np.concatenate(arrays)
        return [each for part in made for each in cast("list[object]", part)]

    return draw


def _data(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        raise InvalidInput(f"a data set is given as JSON, such as 0 or '[1, 2]', got {text[:40]!r}") from None
