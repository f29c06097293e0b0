"""What everybody is asked, and what all may know of the table. Only the standard library: peers import it too."""

from __future__ import annotations

from dataclasses import dataclass

TABLE = "people"
EPSILON = 0.1
LEAST_AGE, GREATEST_AGE = 17, 90
GREATEST_INCOME = 500_000
REGIONS = tuple(f"region {letter}" for letter in "ABCDEFGHIJ")
SEXES = ("female", "male")
EDUCATIONS = ("none", "primary", "secondary", "first degree", "higher degree")


@dataclass(frozen=True)
class Question:
    """One question with a hole in it, and the constants that fill it: `first`, then every `stride`."""

    name: str
    text: str
    first: int
    stride: int

    def sql(self, constant: int) -> str:
        return self.text.format(constant)

    def constant(self, turn: int) -> int:
        return self.first + self.stride * turn


QUESTIONS = (
    Question("count", f"SELECT COUNT(*) FROM {TABLE} WHERE income > {{}}", 20_000, 1_000),
    Question("sum", f"SELECT SUM(income) FROM {TABLE} WHERE age > {{}}", 18, 4),
    Question("mean", f"SELECT AVG(income) FROM {TABLE} WHERE age > {{}}", 19, 4),
    Question("median", f"SELECT MEDIAN(age) FROM {TABLE} WHERE age > {{}}", 20, 4),
    Question(
        "count by region",
        f"SELECT region, COUNT(*) FROM {TABLE} WHERE income > {{}} GROUP BY region",
        20_500,
        1_000,
    ),
    Question("mean by region", f"SELECT region, AVG(income) FROM {TABLE} WHERE age > {{}} GROUP BY region", 21, 4),
)
BY_NAME = {question.name: question for question in QUESTIONS}
