"""From training draws to the one event that will be tested."""

from __future__ import annotations

from statistics import NormalDist

from discreet.audit.combinations import build_derived_features, select_telling_columns
from discreet.audit.draws import OutputSample
from discreet.audit.events import CandidateEvent, find_best_event, is_better
from discreet.audit.features import build_simple_features
from discreet.audit.scores import learn_features

MAX_SPANS = 3


def choose_event(sample: OutputSample, sample2: OutputSample, delta: float, confidence: float) -> CandidateEvent:
    """The most promising event of all features: half of the draws shape the candidates, the other half choose."""
    shape, select = ((sample.take_every(start, 2), sample2.take_every(start, 2)) for start in (0, 1))
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    best: CandidateEvent | None = None
    columns = select_telling_columns(*shape)
    for feature in [
        *build_simple_features(sample, columns),
        *build_derived_features(columns, *shape),
        *learn_features(*shape),
    ]:
        keys = [(feature.keys(first), feature.keys(second)) for first, second in (shape, select)]
        candidate = find_best_event(feature, keys[0], keys[1], delta, z)
        if best is None or is_better(candidate.estimated_bound, best.estimated_bound):
            best = candidate
    assert best is not None  # there is a feature of whatever was read
    return best


def format_event(event: CandidateEvent) -> str:
    """An event as people say it."""
    spans = event.list_spans()
    descriptions = list(dict.fromkeys(event.feature.describe(span) for span in spans))
    first_few = " or ".join(descriptions[:MAX_SPANS]) or "nothing at all"
    return first_few if len(descriptions) <= MAX_SPANS else f"{first_few} or {len(descriptions) - MAX_SPANS} more such"
