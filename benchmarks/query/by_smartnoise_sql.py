"""smartnoise-sql: a pandas frame, which it keeps in SQLite; the SQL is its own dialect of everybody's questions.

Its epsilon is for each noisy column, and a mean has two: it is given the share with which the whole question costs what
everybody's does. Keys are public, so none is censored. It has no quantiles.
"""

from __future__ import annotations

import pandas as pd
from snsql import Privacy, from_df

from benchmarks.query.contestant import Answers, locate_file, serve
from benchmarks.query.questions import EPSILON, GREATEST_AGE, GREATEST_INCOME, LEAST_AGE, QUESTIONS, TABLE, Question

DELTA = 1e-9
"""It wants one to make a reader; without censoring nothing uses it."""
COLUMNS = {
    "age": {"type": "int", "lower": LEAST_AGE, "upper": GREATEST_AGE},
    "income": {"type": "float", "lower": 0.0, "upper": float(GREATEST_INCOME)},
    "region": {"type": "string"},
}
ROWS = {"row_privacy": True, "censor_dims": False, "clamp_counts": False}


def build_metadata(rows: int) -> dict[str, object]:
    return {"": {TABLE: {TABLE: ROWS | {"rows": rows} | COLUMNS}}}


class Reader:
    """A frame in its SQLite; what a question costs of epsilon is found out once for each kind, untimed."""

    def __init__(self, frame: pd.DataFrame, epsilon: float) -> None:
        self._private = from_df(
            frame, privacy=Privacy(epsilon=epsilon, delta=DELTA), metadata=build_metadata(len(frame))
        )
        self._epsilon = epsilon

    def find_epsilon_share(self, sql: str) -> float:
        """The epsilon for each column with which a question like this costs the epsilon of all; 0 where it cannot."""
        self._private.privacy.epsilon = self._epsilon
        try:
            return self._epsilon**2 / float(self._private.get_privacy_cost(sql)[0])
        except ValueError:
            return 0.0

    def answer_numbers(self, sql: str, share: float) -> list[float]:
        self._private.privacy.epsilon = share or self._epsilon
        return [float(row[-1]) for row in self._private.execute(sql)[1:]]


def translate_question(question: Question, constant: int) -> str:
    """In its dialect: a name for every number, and the table with its schema."""
    text = question.sql(constant).replace(f"FROM {TABLE}", f"FROM {TABLE}.{TABLE}")
    return text.replace(f" FROM {TABLE}.", f" AS answer FROM {TABLE}.")


def build_answers(reader: Reader) -> Answers:
    shares = {each: reader.find_epsilon_share(translate_question(each, each.constant(0))) for each in QUESTIONS}
    return {
        each.name: lambda at, q=each: reader.answer_numbers(translate_question(q, at), shares[q]) for each in QUESTIONS
    }


if __name__ == "__main__":
    serve(build_answers(Reader(pd.read_parquet(locate_file("parquet"), columns=["age", "income", "region"]), EPSILON)))
