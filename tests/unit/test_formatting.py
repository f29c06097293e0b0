"""Printed numbers: what a person reads is implied by what was computed."""

from __future__ import annotations

import ast
import math
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import playwright
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from discreet import formatting
from discreet.answers.answer import Answer
from discreet.answers.explain import build_answer
from discreet.answers.hierarchical_answer import _build_interval
from discreet.charts import _Mark
from discreet.formatting import (
    EPOCH,
    Number,
    format_budget_left,
    format_cost,
    format_day,
    format_day_ends,
    format_decimals,
    format_ends,
    format_estimate,
    format_exact_amount,
    format_factor,
    format_interval,
    format_lower,
    format_number,
    format_percent,
    format_percent_at_least,
    format_percent_at_most,
    format_upper,
    format_value,
    format_whole_upper,
    round_down,
    round_up,
    widen_interval,
)
from discreet.measurements.additive import AdditiveNoise
from discreet.measurements.hierarchical import compute_half_width
from discreet.mechanisms.entropy import KeyedEntropy
from discreet.numeric import exp_bounds
from discreet.planner.plan import NoisyResult, Plan
from discreet.planner.planner import plan
from discreet.priors.posterior import Posterior
from discreet.privacy.guarantee import Guarantee, format_privacy_bound
from discreet.query import parse_sql, to_sql
from discreet.schema import Column, Schema
from discreet.service.console.rendering import ASSET_DIR
from support.small_tables import schema

INCOME = Column("income", "number", lower=0, upper=10_000_000, step=Fraction(1, 100), missing=0)
DECLARED: Schema = replace(schema("replace-one", 1, 10_000), columns={"income": INCOME})
QUESTION = "SELECT AVG(income) FROM t"
BETWEEN = re.compile(r"between (\S+) and (\S+) with a probability of at least 95 %")
PACKAGE = Path(formatting.__file__).parent
WIDER = Fraction(11, 10)

FLOATS = st.floats(allow_nan=False)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20)
ON_A_DECIMAL = st.builds(lambda count, places: count / 10**places, st.integers(-(10**9), 10**9), st.integers(0, 6))
FRACTIONS = st.fractions() | st.builds(
    lambda count, power: Fraction(count) * Fraction(10) ** power, st.integers(-(10**6), 10**6), st.integers(-40, 40)
)
NUMBERS = st.integers() | FINITE | DECIMALS | ON_A_DECIMAL | FRACTIONS
SHARES = st.fractions(0, 1) | st.floats(0, 1)
AMOUNTS = st.fractions(0, 10**4) | st.builds(
    lambda over, power: Fraction(over, 10**power), st.integers(0, 10**12), st.integers(0, 24)
)


def to_fraction(value: Number) -> Fraction:
    """The number that a value stands for: that of a float is its shortest decimal text, as JSON has it."""
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


def parse_number(text: str) -> Fraction | float:
    """A printed number as a value: its groups of three digits are as they should be, and nothing else is in it."""
    if text.endswith("infinity"):
        return float(text)
    assert re.fullmatch(r"-?(0|[1-9]\d{0,2}(,\d{3})*)(\.\d*[1-9])?(e-?\d+)?", text), text
    assert text != "-0"
    return Fraction(text.replace(",", ""))


def parse_percentage(text: str) -> Fraction | float:
    """A printed percentage as a share."""
    assert text.endswith(" %")
    number = parse_number(text.removesuffix(" %"))
    return number / 100


def is_near(printed: Fraction | float, value: Fraction, digits: int) -> bool:
    """Whether a printed number has at least so many digits of the value."""
    return abs(Fraction(printed) - value) <= abs(value) * Fraction(10) ** (1 - digits)


@given(NUMBERS, st.integers(1, 15))
@example(0, 4)
@example(-0.0, 4)
@example(49_961.86, 4)
@example(1e308, 4)
@example(5e-324, 4)
@example(0.30000000000000004, 4)
@example(Fraction(1483, 25_000), 2)
@example(Decimal("999.99999"), 4)
def test_bounds_are_printed_on_their_side(value: Number, digits: int) -> None:
    """Upper bounds never below, lower bounds never above, and both near the value."""
    exact_value = to_fraction(value)
    upper, lower = parse_number(format_upper(value, digits)), parse_number(format_lower(value, digits))
    assert lower <= exact_value <= upper
    assert is_near(upper, exact_value, digits)
    assert is_near(lower, exact_value, digits)
    assert round_down(value, digits) <= exact_value <= round_up(value, digits)
    assert float(format_upper(value, digits).replace(",", "")) >= float(exact_value)
    assert (
        abs(parse_number(format_number(value, digits)) - exact_value) <= min(upper - exact_value, exact_value - lower)
        or upper == lower
    )


@given(NUMBERS)
def test_numbers_of_few_digits_are_printed_exactly(value: Number) -> None:
    """On either side and to the nearest alike; thousands are grouped, and an exponent is for tiny and huge ones."""
    text = format_upper(round_up(value, 4))
    assert parse_number(text) == round_up(value, 4)
    assert text == format_lower(round_up(value, 4)) == format_number(round_up(value, 4))
    assert ("e" in text) == (bool(parse_number(text)) and not Fraction(1, 10_000) <= abs(parse_number(text)) < 10**15)


@pytest.mark.parametrize("value", [math.inf, -math.inf, Decimal("Infinity"), Decimal("-Infinity")])
def test_what_is_not_finite_is_called_so(value: float | Decimal) -> None:
    printed = (format_upper(value), format_lower(value), format_number(value), format_value(value))
    assert {float(text) for text in (*printed, format_whole_upper(value), format_decimals(value, 2))} == {float(value)}
    assert format_upper(math.nan) == format_value(math.nan) == "unknown"


@given(NUMBERS, NUMBERS)
@example(49_961.845211, 49_961.864401)
@example(49_961.86, 49_961.86)
@example(0.7, 1.1)
@example(-0.0, 0.0)
@example(0, 1e-300)
@example(-1e308, 1e308)
@example(1e15, 1e15 + 1)
@example(Fraction(1, 3), Fraction(1, 3))
@example(999.96, 1000.04)
def test_a_printed_interval_holds_the_computed_one(one: Number, two: Number) -> None:
    """It is hardly wider, and a point is printed as one only where that is exact."""
    low, high = sorted((one, two), key=to_fraction)
    least, most = map(parse_number, format_ends(low, high))
    assert least <= to_fraction(low) <= to_fraction(high) <= most
    assert format_interval(low, high) == " to ".join(format_ends(low, high))
    width = to_fraction(high) - to_fraction(low)
    if width:
        assert most - least <= WIDER * width
    else:
        assert least == most or is_near(least, to_fraction(low), 6)
    if least == most:
        assert least == to_fraction(low)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_an_estimate_has_the_decimals_of_its_interval(one: Number, two: Number, three: Number) -> None:
    """It is never printed outside an interval that holds it, nor is a value beside its interval."""
    low, middle, high = sorted((one, two, three), key=to_fraction)
    about, least, most = map(parse_number, format_estimate(middle, low, high))
    assert least <= about <= most
    assert (least, most) == tuple(map(parse_number, format_ends(low, high)))
    printed = parse_number(format_value(middle, (low, high)))
    assert least <= printed <= most


@given(FINITE, st.sampled_from([math.inf, -math.inf]))
def test_an_interval_without_an_end_says_so(end: float, beyond: float) -> None:
    low, high = sorted((end, beyond))
    least, most = map(parse_number, format_ends(low, high))
    assert least <= low <= high <= most or (least <= to_fraction(end) <= most)
    assert beyond in (least, most)


def test_what_is_no_number_is_printed_as_it_is() -> None:
    assert format_ends(date(2024, 2, 29), date(2024, 3, 1)) == ("2024-02-29", "2024-03-01")
    assert format_interval("low", "high") == "low to high"
    assert [format_value(value) for value in (None, True, False, "F", date(2024, 2, 29))] == [
        "missing",
        "true",
        "false",
        "F",
        "2024-02-29",
    ]
    assert [format_value(value) for value in (1_234_567, 1_234.5678, Fraction(1, 3), -0.5, Decimal("0.1"))] == [
        "1,234,567",
        "1,234.57",
        "0.333333",
        "-0.5",
        "0.1",
    ]
    assert format_value(3.14159, ("low", "high")) == "3.14159"


@given(st.floats(-700_000, 2_900_000), st.floats(-700_000, 2_900_000))
@example(-0.5, 0.5)
@example(18_000.0, 18_000.0)
def test_printed_dates_hold_the_computed_days(one: float, two: float) -> None:
    """The day on which the low end lies, and the first day that is not before the high end."""
    low, high = sorted((one, two))
    least, most = ((date.fromisoformat(text) - EPOCH).days for text in format_day_ends(low, high))
    assert least <= low <= high <= most
    assert most - least < to_fraction(high) - to_fraction(low) + 2
    assert abs((date.fromisoformat(format_day(low)) - EPOCH) - timedelta(days=low)) <= timedelta(days=0.5)


@pytest.mark.parametrize(("days", "text"), [(1e9, "infinity"), (-1e9, "-infinity"), (math.inf, "infinity")])
def test_days_beyond_all_dates_have_no_date(days: float, text: str) -> None:
    assert format_day(days) == text
    assert text in format_day_ends(min(days, 0.0), max(days, 0.0))
    assert format_day_ends(1e9, 2e9) == ("9999-12-31", "infinity")
    assert format_day_ends(-2e9, -1e9) == ("-infinity", "0001-01-01")


@given(SHARES)
@example(0.975)
@example(0.9999999)
@example(Fraction(999_999, 1_000_000))
@example(0.0)
@example(1)
def test_percentages_are_printed_on_their_side(share: Number) -> None:
    """A probability that is promised never above what it is, a risk never below; nearly all is not all."""
    exact_value = to_fraction(share)
    assert (
        parse_percentage(format_percent_at_least(share))
        <= exact_value
        <= parse_percentage(format_percent_at_most(share))
    )
    about = format_percent(share)
    if about[0] in "<>":
        limit = parse_percentage(about[2:])
        assert 0 < exact_value < limit if about[0] == "<" else limit < exact_value < 1
    else:
        assert abs(parse_percentage(about) - exact_value) <= Fraction(1, 10_000)
        assert (parse_percentage(about) in (0, 1)) == (exact_value in (0, 1))


@given(AMOUNTS)
def test_amounts_of_a_budget_are_printed_on_their_side(amount: Fraction) -> None:
    """Costs rounded up, what is left rounded down, in the twelfth digit; for programs exactly."""
    cost, left = parse_number(format_cost(amount)), parse_number(format_budget_left(amount))
    assert left <= amount <= cost
    assert is_near(cost, amount, 12)
    assert is_near(left, amount, 12)
    assert Fraction(format_exact_amount(amount)) == amount


@given(st.fractions(0, 25))
@example(Fraction(0))
@example(Fraction(1))
@example(Fraction(20))
def test_at_most_so_many_times_as_likely_is_never_too_little(epsilon: Fraction) -> None:
    text = format_factor(epsilon)
    if text.startswith("e^"):
        assert parse_number(text[2:]) >= epsilon > 20
        return
    low, high = (Fraction(end, 2**60) for end in exp_bounds(epsilon, 60))
    assert high <= parse_number(text) or epsilon == 0
    assert (
        parse_number(text) - low <= max((low - 1) / 100, Fraction(1, 2**39))
        if low < 100
        else parse_number(text) - low <= 1
    )


@given(st.fractions(Fraction(1, 100), 25), st.fractions(Fraction(1, 10**9), Fraction(1, 2)))
@example(Fraction(1), Fraction(123_456, 10**12))
def test_the_sentence_of_a_guarantee_promises_no_more_than_it(epsilon: Fraction, delta: Fraction) -> None:
    """The factor, the delta and the epsilon that are printed are at least those that hold."""
    promise = Guarantee.approx_dp(epsilon, delta, "replace-one")
    match = re.search(r"at most (\S+) times .* but for a chance of (\S+)\.$", format_privacy_bound(promise))
    assert match is not None
    assert parse_number(match[2]) >= delta
    factor = match[1]
    assert parse_number(factor[2:]) >= epsilon if factor.startswith("e^") else parse_number(factor) >= math.exp(epsilon)
    numbers_match = re.search(r"epsilon (\S+) and delta (\S+) when", promise.words())
    assert numbers_match is not None
    assert parse_number(numbers_match[1]) >= epsilon
    assert parse_number(numbers_match[2]) >= delta
    assert Fraction(str(promise.to_json()["epsilon"])) == epsilon


@given(FINITE.filter(lambda value: abs(value) < 1e300), st.floats(0, 1e6), st.integers(0, 6))
def test_intervals_for_programs_are_rounded_outwards(low: float, width: float, places: int) -> None:
    ends = widen_interval(low, low + width, places)
    assert ends[0] <= low <= low + width <= ends[1]


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_intervals_of_nested_counts_are_rounded_outwards(count: float, variance: float) -> None:
    off = compute_half_width(variance, 0.95)
    low, high = _build_interval(count, off)
    assert low <= count - off <= count + off <= high


def test_a_posterior_is_shown_with_an_interval_that_holds_its_own() -> None:
    import numpy as np

    law = Posterior(np.full(4, 0.25), np.array([49_961.1, 49_961.2, 49_961.3, 49_961.4, 49_961.5]))
    match = re.fullmatch(r"Posterior\(mean (\S+), 95 % between (\S+) and (\S+)\)", repr(law))
    assert match is not None
    low, high = law.interval(0.95)
    assert (
        parse_number(match[2])
        <= to_fraction(low)
        <= parse_number(match[1])
        <= to_fraction(high)
        <= parse_number(match[3])
    )
    assert parse_number(match[3]) - parse_number(match[2]) <= WIDER * (to_fraction(high) - to_fraction(low))


@pytest.mark.parametrize("dates", [False, True])
def test_a_mark_in_a_picture_has_an_interval_that_holds_its_own(dates: bool) -> None:
    """Also where the line that is shown is much wider than it."""
    low, middle, high = -49_961.864401, -49_961.854806, -49_961.845211
    words = (
        _Mark("raw answer", middle, (low, high), {}, dates)
        .format_label((-60_000.0, 0.0))
        .replace("\N{MINUS SIGN}", "-")
    )
    match = re.fullmatch(r"raw answer (\S+) \(95 %: (\S+) to (\S+)\)", words)
    assert match is not None
    if dates:
        assert match[2] <= match[1] <= match[3]
        assert format_day_ends(low, high) == (match[2], match[3])
    else:
        assert (
            parse_number(match[2])
            <= to_fraction(low)
            <= parse_number(match[1])
            <= to_fraction(high)
            <= parse_number(match[3])
        )


def test_the_console_prints_amounts_as_the_service_does() -> None:
    """The same text from the same exact amount, by the script that previews run in a browser."""
    amounts = [Fraction(0), Fraction(1, 10), Fraction(1483, 25_000), Fraction(10**15) - Fraction(1, 7)]
    amounts += [Fraction(over, under) for over in (1, 7, 999_999_999_999, 10**20) for under in (1, 3, 10**4, 10**9 + 7)]
    script = (ASSET_DIR / "formatting.js").read_text(encoding="utf-8").replace("export ", "")
    listed = ", ".join(f'"{amount}"' for amount in amounts)
    script += f"for (const one of [{listed}]) console.log(`${{costWords(one)}} ${{leftWords(one)}}`);"
    node = Path(playwright.__file__).parent / "driver" / "node"
    lines = subprocess.run([node, "--eval", script], check=True, capture_output=True, text=True).stdout.splitlines()
    assert lines == [f"{format_cost(amount)} {format_budget_left(amount)}" for amount in amounts]


def answer_mean(total: int, entropy: KeyedEntropy, query_plan: Plan) -> Answer:
    """The reply to a mean of 10,000 incomes whose sum is so many hundredths."""
    measurement = query_plan.measurements[0]
    assert isinstance(measurement, AdditiveNoise)
    assert measurement.single_noise is not None
    noisy_totals = (total + int(measurement.single_noise.sample(entropy)),)
    question = to_sql(query_plan.query, query_plan.schema)
    return build_answer(
        query_plan, NoisyResult(((),), ((noisy_totals,),)), question, Fraction(1), 1, {"dp": Fraction(1)}
    )


@pytest.mark.parametrize("epsilon", [20, *(pytest.param(each, marks=pytest.mark.soak) for each in (5, 10))])
def test_the_sentence_of_a_narrow_answer_is_true_whenever_its_interval_is(epsilon: int) -> None:
    """2,000 seeded answers with an interval of 2.9, 0.5 or 0.02 about 49,961.86, in the sentence and in the table."""
    query_plan = plan(DECLARED, parse_sql(QUESTION, DECLARED), epsilon)
    entropy = KeyedEntropy(b"narrow", f"answers at {epsilon}")
    truth = Fraction(4_996_186, 100)
    computed = printed = 0
    for _ in range(2000):
        answer = answer_mean(4_996_186 * 10_000, entropy, query_plan)
        low, high = answer.interval()  # type: ignore[misc]
        match = BETWEEN.search(answer.meaning)
        assert match is not None
        least, most = parse_number(match[1]), parse_number(match[2])
        assert least <= to_fraction(low) <= to_fraction(high) <= most
        assert most - least <= WIDER * (to_fraction(high) - to_fraction(low))
        computed += to_fraction(low) <= truth <= to_fraction(high)
        printed += least <= truth <= most
    assert f"{match[1]} to {match[2]}" in str(answer)
    assert printed >= computed >= 1870


# Where a number may be rounded without the formatters, and why.
EXCEPTIONS = {
    "numeric.py": "echoes an argument in a refusal, and is below the formatters in the order of imports",
    "service/monitoring.py": "counters for Prometheus, in full",
    "service/console/views.py": "places in a picture, and the round numbers along its axis",
    "answers/hierarchical_answer.py": "the noisy count itself, to the hundredth",
}
ROUNDS = re.compile(r"\.\d|\.\{|[eEfFgG%n]$")
TEMPLATE = re.compile(r"\{\w*:[-+ 0-9,]*(\.\d+)?[eEfFgG%]\}|%[-+ 0]*\d*\.\d+[eEfFgG]")


def list_roundings(source: str) -> Iterator[str]:
    """Everything in a module that rounds a number as it prints it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None and node.conversion == -1:
            spec = ast.unparse(node.format_spec)[2:-1]
            if ROUNDS.search(spec):
                yield f"line {node.lineno}: :{spec}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
            if node.func.id in {"round", "format"}:
                yield f"line {node.lineno}: {node.func.id}()"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and TEMPLATE.search(node.value):
            yield f"line {node.lineno}: {node.value[:40]!r}"


def test_numbers_are_rounded_for_people_in_one_module() -> None:
    roundings: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        place = name if name in EXCEPTIONS else name.split("/")[0]
        if path != Path(formatting.__file__) and (rounded := [*list_roundings(path.read_text(encoding="utf-8"))]):
            roundings.setdefault(place, []).extend(f"{name}, {rounding}" for rounding in rounded)
    assert {place: rounded for place, rounded in roundings.items() if place not in EXCEPTIONS} == {}
    assert set(EXCEPTIONS) == set(roundings), "an exception that nothing needs"


@pytest.mark.parametrize(
    "source",
    [
        'f"{x:.3g}"',
        'f"{x:,.0f}"',
        'f"{x:.{digits}f}"',
        'f"{x:g}"',
        'f"{x:.0%}"',
        "round(x, 2)",
        'format(x, ".2f")',
        '"{:.3g}".format(x)',
        '"%.2f" % x',
    ],
)
def test_a_number_that_is_rounded_elsewhere_is_caught(source: str) -> None:
    assert [*list_roundings(source)] != []


@pytest.mark.parametrize(
    "source", ['f"{x:,}"', 'f"{x!r:.40}"', 'f"{x:032x}"', 'f"{x:04d}"', "round(x)", "format_upper(x)"]
)
def test_what_rounds_nothing_is_not(source: str) -> None:
    assert [*list_roundings(source)] == []


def test_no_help_says_as_is() -> None:
    """It would be read as *released unprotected*; what is taken by default is called so."""
    pages = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.html"), *PACKAGE.rglob("*.js")]
    assert [path for path in pages if "(as is)" in path.read_text(encoding="utf-8")] == []
