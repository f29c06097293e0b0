"""Values of replies as people read them."""

from __future__ import annotations

import math

DIGITS = 6


def value(told: object) -> str:
    """A value of a reply as people read it, floats in six digits."""
    if told is None:
        return "missing"
    if isinstance(told, bool):
        return "true" if told else "false"
    if isinstance(told, int):
        return f"{told:,}"
    return _rounded(told) if isinstance(told, float) else str(told)


def percent(share: float) -> str:
    """A share as people read it, in four digits."""
    return f"{100 * share:.4g} %"


def _rounded(number: float) -> str:
    if not math.isfinite(number) or 0 < abs(number) < 1e-4:
        return f"{number:.{DIGITS}g}"
    places = max(0, DIGITS - len(str(int(abs(number)))))
    told = f"{number:,.{places}f}"
    return told.rstrip("0").rstrip(".") if places else told
