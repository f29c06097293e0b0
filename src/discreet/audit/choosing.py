"""From training draws to the one event that will be tested."""

from __future__ import annotations

from statistics import NormalDist

from discreet.audit.combinations import derived_features, telling_columns
from discreet.audit.draws import Draws
from discreet.audit.events import Found, beats, best_event
from discreet.audit.features import features
from discreet.audit.scores import learned

MOST_SPANS = 3


def choose(one: Draws, two: Draws, delta: float, confidence: float) -> Found:
    """The most promising event of all features: half of the draws shape the candidates, the other half choose."""
    shape, select = ((one.part(start, 2), two.part(start, 2)) for start in (0, 1))
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    best: Found | None = None
    columns = telling_columns(*shape)
    for feature in [*features(one, columns), *derived_features(columns, *shape), *learned(*shape)]:
        keys = [(feature.keys(first), feature.keys(second)) for first, second in (shape, select)]
        found = best_event(feature, keys[0], keys[1], delta, z)
        if best is None or beats(found.promise, best.promise):
            best = found
    assert best is not None  # there is a feature of whatever was read
    return best


def words(found: Found) -> str:
    """An event as people say it."""
    spans = found.spans()
    told = list(dict.fromkeys(found.feature.tell(span) for span in spans))
    few = " or ".join(told[:MOST_SPANS]) or "nothing at all"
    return few if len(told) <= MOST_SPANS else f"{few} or {len(told) - MOST_SPANS} more such"
