"""Numbers, costs and times as pages tell them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from discreet.formatting import format_budget_left, format_cost, format_interval, format_number


def format_rough_error(number: float) -> str:
    """An error, which nobody needs to the last digit."""
    return format_number(number)


def format_page_interval(ends: list[Any] | None) -> str:
    """An interval."""
    return "" if ends is None else format_interval(*ends)


def format_exact_cost(text: str | None) -> str:
    """An exact amount, such as 1/10, as a decimal that is never below it."""
    return "unknown" if text is None else format_cost(Fraction(text))


def format_remaining(text: str) -> str:
    """An exact amount that is left, as a decimal that is never above it."""
    return format_budget_left(Fraction(text))


def format_guarantee_cost(cost: Mapping[str, Any]) -> str:
    """What a guarantee costs."""
    if cost.get("rho"):
        return f"rho {format_exact_cost(cost['rho'])} of zero-concentrated DP"
    delta = f" and delta {format_exact_cost(cost['delta'])}" if Fraction(cost.get("delta") or 0) else ""
    return f"epsilon {format_exact_cost(cost.get('epsilon') or '0')}{delta}"


def format_minute(timestamp: float | str | None) -> str:
    """When, to the minute."""
    return _format_time(timestamp, "%Y-%m-%d %H:%M")


def format_second(timestamp: float | str | None) -> str:
    """When, to the second."""
    return _format_time(timestamp, "%Y-%m-%d %H:%M:%S")


def _format_time(timestamp: float | str | None, pattern: str) -> str:
    if timestamp is None:
        return ""
    date_time = (
        datetime.fromisoformat(timestamp) if isinstance(timestamp, str) else datetime.fromtimestamp(timestamp, UTC)
    )
    return f"{date_time.astimezone(UTC):{pattern}} UTC"


def describe_charge(job: Mapping[str, Any]) -> str:
    """What is known of the cost of a job that failed; "" where its own words tell it."""
    problem = job["problem"]
    if "charged" in problem["detail"]:
        return ""
    free_problems = {"/problems/budget-exceeded"}
    free_problems |= {"/problems/invalid-input", "/problems/unsupported"} if job["kind"] == "publish" else set()
    is_free = job["kind"] == "sweep" or job["rehearsal"] or problem["type"] in free_problems
    return "Nothing was charged." if is_free else "It is not known here whether it was charged: look at the log."
