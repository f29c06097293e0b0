"""Numbers, costs and times as pages tell them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from discreet.formatting import format_cost, format_interval, format_left, format_number


def rough(number: float) -> str:
    """An error, which nobody needs to the last digit."""
    return format_number(number)


def span(ends: list[Any] | None) -> str:
    """An interval."""
    return "" if ends is None else format_interval(*ends)


def exact(text: str | None) -> str:
    """An exact amount, such as 1/10, as a decimal that is never below it."""
    return "unknown" if text is None else format_cost(Fraction(text))


def remaining(text: str) -> str:
    """An exact amount that is left, as a decimal that is never above it."""
    return format_left(Fraction(text))


def amount(cost: Mapping[str, Any]) -> str:
    """What a guarantee costs."""
    if cost.get("rho"):
        return f"rho {exact(cost['rho'])} of zero-concentrated DP"
    delta = f" and delta {exact(cost['delta'])}" if Fraction(cost.get("delta") or 0) else ""
    return f"epsilon {exact(cost.get('epsilon') or '0')}{delta}"


def moment(at: float | str | None) -> str:
    """When, to the minute."""
    return _when(at, "%Y-%m-%d %H:%M")


def instant(at: float | str | None) -> str:
    """When, to the second."""
    return _when(at, "%Y-%m-%d %H:%M:%S")


def _when(at: float | str | None, form: str) -> str:
    if at is None:
        return ""
    when = datetime.fromisoformat(at) if isinstance(at, str) else datetime.fromtimestamp(at, UTC)
    return f"{when.astimezone(UTC):{form}} UTC"


def charged(job: Mapping[str, Any]) -> str:
    """What is known of the cost of a job that failed; "" where its own words tell it."""
    problem = job["problem"]
    if "charged" in problem["detail"]:
        return ""
    refused = {"/problems/budget-exceeded"}
    refused |= {"/problems/invalid-input", "/problems/unsupported"} if job["kind"] == "publish" else set()
    free = job["kind"] == "sweep" or job["rehearsal"] or problem["type"] in refused
    return "Nothing was charged." if free else "It is not known here whether it was charged: look at the log."
