"""What is to be audited: a mechanism of ours by name, any Python callable by its place, or a question to a schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np

from discreet.audit.auditing import Audit, Claim, Mechanism, audit_mechanism
from discreet.audit.worst import find_worst_pair
from discreet.errors import InvalidInput, Unavailable, Unsupported

PROGRESS_PARTS = 20
MIN_SPLIT_DRAWS = 1000
"""Fewer draws are made in one go."""
DEFAULT_DRAWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Target:
    """A mechanism, pairs of neighbours, the claim, and how many draws are made unless told."""

    name: str
    mechanism: Mechanism
    pairs: tuple[tuple[Any, Any], ...]
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    draws: int = DEFAULT_DRAWS
    note: str = ""
    """What has to be said of it besides."""
    pair_descriptions: tuple[tuple[str, str], ...] = field(kw_only=True)
    """Each of the pairs, in a few words."""

    def audit(
        self, draws: int | None, confidence: Fraction, show: Callable[[str], None]
    ) -> tuple[Audit, tuple[str, str]]:
        """Audit the worst of the pairs; which one that is, in words, comes second."""
        count = self.draws if draws is None else draws
        claim = Claim.of(self.epsilon, self.delta, count, confidence)
        claim_terms = self.epsilon, self.delta, count, confidence
        try:
            worst_pair = find_worst_pair(self.mechanism, self.pairs, claim, show)
            return audit_mechanism(
                self.mechanism, *self.pairs[worst_pair], *claim_terms, progress=show
            ), self.pair_descriptions[worst_pair]
        except MemoryError:
            raise Unavailable(f"{count:,} draws do not fit in the memory of this machine; ask for fewer") from None

    def add_progress(self, show: Callable[[str], None]) -> Target:
        """The same, telling how many draws are done; for what draws afresh in every call."""
        return replace(self, mechanism=split_into_parts(self.mechanism, show))


def list_mechanism_names() -> tuple[str, ...]:
    """The mechanisms of ours."""
    from discreet.audit.named import MECHANISM_BUILDERS

    return tuple(MECHANISM_BUILDERS)


def build_named_target(name: str, epsilon: Fraction, delta: Fraction | None) -> Target:
    """A mechanism of ours with neighbours of its own."""
    from discreet.audit.named import get_known_mechanism
    from discreet.audit.telling import describe_inputs

    known_mechanism = get_known_mechanism(name, epsilon, delta)
    words = (describe_inputs(known_mechanism.pair),)
    return Target(
        name,
        known_mechanism.mechanism,
        (known_mechanism.inputs,),
        epsilon,
        known_mechanism.delta,
        known_mechanism.draws,
        pair_descriptions=words,
    )


def build_callable_target(
    place: str, pair: tuple[str, str] | None, epsilon: Fraction, delta: Fraction | None
) -> Target:
    """A callable in a module, or in a file, as module:function; its data sets are given as JSON."""
    from discreet.audit.loading import load_mechanism
    from discreet.audit.telling import describe_inputs

    if pair is None:
        raise InvalidInput("a callable needs two neighbours, as JSON: --pair 0 1, or --pair '[1, 2]' '[1, 2, 3]'")
    data = _parse_data(pair[0]), _parse_data(pair[1])
    words = describe_inputs(data)
    if json.dumps(data[0]) == json.dumps(data[1]):
        raise InvalidInput("D and D2 are the same; give two neighbours")
    return Target(place, load_mechanism(place), (data,), epsilon, delta or Fraction(0), pair_descriptions=(words,))


def build_question_target(
    schema: str,
    question: str,
    epsilon: Fraction,
    delta: Fraction | None,
    model: str | None = None,
    pairs: int | None = None,
) -> Target:
    """A question as it would be answered, on generated neighbours: the data are not opened and nothing is charged."""
    from discreet.audit.question import DEFAULT_PAIRS, AuditedQuestion
    from discreet.audit.telling import describe_tables
    from discreet.schema import load_schema

    audited_question = AuditedQuestion.of(
        load_schema(schema), question, epsilon, delta, model, DEFAULT_PAIRS if pairs is None else pairs
    )
    if audited_question.plan.is_free:
        raise Unsupported("nothing is drawn: this answer is public by the schema; there is nothing to audit")
    promised = audited_question.plan.guarantee
    note = f"{audited_question.plan.mechanism}; {promised.words()}"
    claimed = promised.epsilon or epsilon, promised.delta or Fraction(0)
    words = tuple(describe_tables(audited_question.plan, pair) for pair in audited_question.pairs)
    return Target(
        question,
        audited_question.build_mechanism(),
        audited_question.pairs,
        *claimed,
        audited_question.default_draws,
        note,
        pair_descriptions=words,
    )


def split_into_parts(mechanism: Mechanism, show: Callable[[str], None]) -> Mechanism:
    """The same draws in twenty calls, so that a bar can fill."""

    def sample(data: Any, n: int) -> object:
        if n < MIN_SPLIT_DRAWS:
            return mechanism(data, n)
        parts = []
        for index in range(PROGRESS_PARTS):
            show(f"drawing: {index} of {PROGRESS_PARTS}")
            parts.append(mechanism(data, (index + 1) * n // PROGRESS_PARTS - index * n // PROGRESS_PARTS))
        arrays = [part for part in parts if isinstance(part, np.ndarray)]
        if len(arrays) == PROGRESS_PARTS:
            return np.concatenate(arrays)
        return [output for part in parts for output in cast("list[object]", part)]

    return sample


def _parse_data(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        raise InvalidInput(f"a data set is given as JSON, such as 0 or '[1, 2]', got {text[:40]!r}") from None
