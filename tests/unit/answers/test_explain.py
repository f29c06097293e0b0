"""What an answer means, in one plain sentence for someone who believed the prior."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import pytest

from discreet.answers.decode import Decoder
from discreet.answers.explain import build_distribution_chart, describe_meaning
from discreet.planner.planner import plan
from discreet.query import parse_sql
from support.small_tables import schema

DECLARED = replace(schema("replace-one", 1, 10_000), individual_queries=True)
OLDER_COUNT = "SELECT COUNT(*) FROM t WHERE age > 0"
SCORE, SEX, DAY = (f"SELECT {column} FROM t FOR UNIT 'p1'" for column in ("score", "sex", "day"))


def build_decoder(question: str, prior: str | None = None, epsilon: object = 1, **options: object) -> Decoder:
    return Decoder(plan(DECLARED, parse_sql(question, DECLARED), epsilon, prior=prior, **options))  # type: ignore[arg-type]


def describe_answer(question: str, code: int, prior: str | None = None, epsilon: object = 1, **options: object) -> str:
    decoder = build_decoder(question, prior, epsilon, **options)
    value = decoder.decode_values(0, (code,))[0]
    return describe_meaning(decoder, 0, (code,), float(value) if isinstance(value, Fraction) else value)


def test_without_a_prior_it_says_where_the_number_lies() -> None:
    assert (
        describe_answer(OLDER_COUNT, 1234)
        == "The exact value lies between 1,231 and 1,237 with a probability of at least 95 %."
    )


def test_what_was_believed_is_told_as_it_was_stated() -> None:
    """The prior's own middle, not that of a cell it is held on; then the answer, then both together."""
    text = describe_answer(OLDER_COUNT, 1000, "normal(2000, 100)", Fraction(1, 100))
    assert text.startswith("You believed it to be about 2,000, between 1,803 and 2,197 with a probability of 95 %; ")
    assert "the private answer is 1,000; together that makes about 1," in text


def test_who_typed_a_middle_is_told_of_that_one() -> None:
    """Also where the law is held on cells that it is not the middle of."""
    wide = replace(schema("replace-one", 1, 20_000), individual_queries=True)
    decoder = Decoder(plan(wide, parse_sql(OLDER_COUNT, wide), Fraction(1, 10), prior="normal(12000, 900)"))
    before = decoder.plan.readings[0].get_stated_distribution()
    assert before is not None
    assert before.median() != 12_000
    assert describe_meaning(decoder, 0, (12_186,), 12_186).startswith(
        "You believed it to be about 12,000, between 10,236 and "
    )


def test_how_near_a_median_with_a_prior_is_needs_no_manual() -> None:
    words = build_decoder("SELECT MEDIAN(age) FROM t", "normal(3, 2)").plan.measurements[0].describe_accuracy(0.95)
    assert re.fullmatch(
        r"fewer than \d+ rows lie between it and the exact value with a probability of at least 95 %; where your prior "
        "holds that value impossible, the rows up to the nearest possible one come on top",
        words,
    )


def test_a_prior_that_is_sure_and_right_is_hardly_moved() -> None:
    text = describe_answer(OLDER_COUNT, 2010, "normal(2000, 1)", Fraction(1, 100))
    assert "together that makes about 2,000, between 1,998 and 2,00" in text


def test_a_refinement_is_called_a_draw_shaped_by_the_prior() -> None:
    text = describe_answer(OLDER_COUNT, 20, "normal(2000, 100)", distance="continuous")
    assert "; the draw, shaped by your prior, is " in text
    assert "the private answer" not in text


def test_categories_are_told_by_their_probabilities() -> None:
    """The likeliest first, before and after."""
    text = describe_answer(SEX, 1, '{"F": 99, "M": 1}')
    assert text.startswith("The draw, shaped by your prior, is M; for you the probability goes from ")
    decoder = build_decoder(SEX, '{"F": 99, "M": 1}')
    after = decoder.compute_posterior(0, (1,))
    assert after is not None
    assert after.probability("M") / 0.01 <= 2.7183  # one answer at epsilon 1 moves it by no more
    assert f"from 1 % to {100 * after.probability('M'):.4g} % for M" in text


def test_who_said_nothing_did_not_believe_anything() -> None:
    """An even prior is the mechanism's, not hers."""
    assert describe_answer(SEX, 1) == (
        "If every value was as likely as any other before, it is now M with a probability of 73.1 %, "
        "F with a probability of 26.9 %."
    )
    text = describe_answer(SCORE, 4)
    assert text.startswith("If every value was as likely as any other before, it is now about ")
    assert text.endswith(" with a probability of 95 %.")
    assert "believed" not in text


def test_days_are_told_as_dates() -> None:
    """Positions are days from 1970-01-11 on."""
    text = describe_answer(DAY, 1, "normal(1970-01-13, 1)")
    assert text.startswith("You believed it to be about 1970-01-13, between 1970-01-11 and 1970-01-15 ")
    assert "is 1970-01-12; together that makes about 1970-01-1" in text


def test_a_median_says_nothing_in_values() -> None:
    """Its law depends on all rows."""
    assert describe_answer("SELECT MEDIAN(age) FROM t", 3) == ""
    assert describe_answer("SELECT MEDIAN(age) FROM t", 3, "normal(1, 1)") == ""


@pytest.mark.parametrize("question", [OLDER_COUNT, SCORE, SEX, DAY])
def test_a_picture_shows_what_the_sentence_says(question: str) -> None:
    """Prior and posterior of the same kind; the noise only where its law is public."""
    prior = {SEX: '{"F": 3, "M": 1}', DAY: "normal(1970-01-12, 2)"}.get(question, "normal(3, 2)")
    decoder = build_decoder(question, prior)
    value = decoder.decode_values(0, (1,))[0]
    chart = build_distribution_chart(
        decoder, 0, (1,), float(value) if isinstance(value, Fraction) else value, "t", "x", "said"
    )
    assert chart.prior is not None
    assert chart.posterior is not None
    assert (chart.noise is None) == (question != OLDER_COUNT)
    assert chart.raw == {OLDER_COUNT: 1, SCORE: 0.5, SEX: "M", DAY: 11}[question]
