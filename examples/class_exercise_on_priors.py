"""A class exercise: five students who know different things ask the same question. What does each learn, who is misled?

Run it: `python examples/class_exercise_on_priors.py [PICTURE.svg]`. The patients are made up, so the teacher may show
the truth, and may give a budget that no real table would have. Questions for the class are at the end.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from statistics import mean

import vl_convert

from discreet import Answer, Custodian
from discreet.sample import write_registry

QUESTION = "SELECT COUNT(*) FROM registry WHERE smoker AND age < 30"
EPSILON = 0.05  # the noise is within 60 in 95 of 100 cases
STUDENTS = {
    "Ada, knows nothing": None,
    "Ben, has read a survey": "normal(130, 25)",
    "Cy, has a vague idea": "normal(180, 100)",
    "Dee, is sure and wrong": "normal(300, 15)",
    "Eve, wrong but cautious": "normal(300, 60)",
}
ROUNDS = 40


def write_classroom(folder: Path) -> Path:
    """A registry of 5,000 made-up patients with a budget for a whole term."""
    schema = write_registry(folder, patients=5000)
    text = (
        schema.read_text(encoding="utf-8")
        .replace("epsilon: 3,", "epsilon: 100,")
        .replace("epsilon: 1,", "epsilon: 100,")
    )
    schema.write_text(text, encoding="utf-8")
    return schema


def count_exactly(folder: Path) -> int:
    """What the teacher knows: the rows, read as the schema says."""
    import csv

    with (folder / "registry.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return sum(row["smoker"] == "true" and row["age"].lstrip("-").isdigit() and int(row["age"]) < 30 for row in rows)


def find_span(answer: Answer) -> tuple[float, float]:
    """Where the exact number lies in 95 of 100 cases, for one who holds the prior; or for anybody."""
    low, high = answer.posterior.interval(0.95) if answer.posterior else answer.interval(0.95)
    return max(float(low), 0), float(high)


def find_best(answer: Answer) -> float:
    """One number: the posterior mean, or the raw answer."""
    return answer.posterior.mean() if answer.posterior else float(answer.value)


def hold_lesson(custodian: Custodian, exact: int) -> dict[str, Answer]:
    """Everybody asks once. It is one question: the noise is drawn once, and all read the same raw number."""
    answers = {
        name: custodian.answer(QUESTION, EPSILON, prior=prior, analyst="class") for name, prior in STUDENTS.items()
    }
    raw = next(iter(answers.values())).value
    print(f"{QUESTION}\nepsilon {EPSILON:g}; the raw answer, for all: {raw}; the truth: {exact}\n")
    print(f"{'student':<26}{'now says':>9}{'95 % between':>16}   holds?  warned?")
    for name, answer in answers.items():
        low, high = find_span(answer)
        holds, warned = ("yes" if low <= exact <= high else "NO"), ("yes" if answer.warning else "")
        print(f"{name:<26}{find_best(answer):>9.0f}{f'{low:.0f} to {high:.0f}':>16}   {holds:<8}{warned}")
    return answers


def hold_many_lessons(custodian: Custodian, exact: int) -> None:
    """How far off each student is on average, over many draws of the noise; in every round all read the same one."""
    off: dict[str, list[float]] = {name: [] for name in STUDENTS}
    for _ in range(ROUNDS):
        custodian.answer(QUESTION, EPSILON, analyst="class", fresh=True)
        for name, prior in STUDENTS.items():
            off[name].append(abs(find_best(custodian.answer(QUESTION, EPSILON, prior=prior, analyst="class")) - exact))
    print(f"\nOver {ROUNDS} draws of the noise, on average off by:")
    for name, distances in off.items():
        print(f"{name:<26}{mean(distances):>6.0f}")


def draw_picture(answers: dict[str, Answer], exact: int, file: Path) -> None:
    """Each student's interval and best number, and the truth as a line."""
    rows = [
        {"who": name, "low": find_span(one)[0], "high": find_span(one)[1], "best": find_best(one)}
        for name, one in answers.items()
    ]
    y = {"field": "who", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 220}}
    x = {"field": "low", "type": "quantitative", "title": "young smokers", "scale": {"zero": False}}
    bar = {
        "mark": {"type": "bar", "height": 12, "color": "#9db9dc"},
        "encoding": {"x": x, "x2": {"field": "high"}, "y": y},
    }
    dot = {"mark": {"type": "point", "filled": True, "size": 80, "color": "#0a5fb4", "opacity": 1}}
    dot["encoding"] = {"x": {"field": "best", "type": "quantitative"}, "y": y}
    line = {"data": {"values": [{"truth": exact}]}, "mark": {"type": "rule", "color": "#d55e00", "strokeWidth": 2}}
    line["encoding"] = {"x": {"field": "truth", "type": "quantitative"}}
    spec = {"data": {"values": rows}, "width": 480, "height": 200, "background": "white", "layer": [bar, dot, line]}
    file.write_text(str(vl_convert.vegalite_to_svg(json.dumps(spec))), encoding="utf-8")
    print(f"\nThe picture (orange: the truth) is in {file}")


def main() -> None:
    """One lesson, many lessons, a picture, and questions."""
    folder = Path(tempfile.mkdtemp())
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else folder / "class.svg"
    with Custodian.open(write_classroom(folder)) as custodian:
        exact = count_exactly(folder)
        answers = hold_lesson(custodian, exact)
        hold_many_lessons(custodian, exact)
    draw_picture(answers, exact, file)
    print("\nTo discuss: Who gained most, and what did it cost her? Was Dee warned, and what should she do? Why does")
    print(
        "Eve do better, who believes the same? Would a false prior get more out of the table? (The noise was the same.)"
    )


if __name__ == "__main__":
    main()
