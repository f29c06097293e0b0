"""discreet: SQL in, plan, durable charge, rows, noise, durable store, answer out. All of it is timed."""

from __future__ import annotations

from benchmarks.query.contestant import locate_file, serve
from benchmarks.query.questions import EPSILON, QUESTIONS, Question
from discreet import Custodian


def answer_numbers(custodian: Custodian, question: Question, constant: int) -> list[float]:
    """The numbers of a new answer; a stored one would measure nothing."""
    answer = custodian.answer(question.sql(constant), epsilon=EPSILON)
    assert not answer.stored
    return [row[number] for row in answer.rows for number in answer.numbers]


if __name__ == "__main__":
    with Custodian.open(locate_file("yaml")) as custodian:
        serve({question.name: lambda at, q=question: answer_numbers(custodian, q, at) for question in QUESTIONS})
