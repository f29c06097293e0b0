"""A first look at discreet, in a few seconds: numbers on the screen, pictures in demo/index.html."""

from __future__ import annotations

import csv
import html
import math
import sys
import tempfile
from collections import Counter
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from demo import crossing, pictures
from discreet import (
    Custodian,
    DiscreteGaussian,
    DiscreteLaplace,
    Distribution,
    Guarantee,
    InvalidInput,
    Laplace,
    Prior,
    Quantile,
    Refinement,
    Staircase,
)
from discreet.sample import write_registry
from discreet.testing import worst_ratio

PAGE = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("index.html")
console = Console(width=110)
Section = tuple[str, str, str]


def registry(progress: Progress) -> list[Section]:
    """A registry of 50,000 synthetic patients, asked in SQL within a budget, without and with a prior."""
    task = progress.add_task("a registry: written, registered, asked", total=3)
    with tempfile.TemporaryDirectory() as folder:
        path = write_registry(Path(folder))
        progress.advance(task)
        with Custodian.open(path) as custodian:
            progress.advance(task)
            rows = _asked(custodian, progress.console)
            informed = _believed(custodian, Path(folder), progress.console)
        with (Path(folder) / "registry.csv").open(encoding="utf-8") as file:
            truth = Counter(patient["hospital"] for patient in csv.DictReader(file) if patient["smoker"] == "true")
    progress.advance(task)
    text = (
        "How many smokers each hospital of a registry of 50,000 synthetic patients has, asked in SQL at epsilon 0.1. "
        "Dots are the answers, bars where the exact numbers lie in 95 of 100 cases, and the black marks, which no "
        "analyst ever sees, those numbers."
    )
    told = [row | {"truth": truth[str(row["group"])]} for row in rows]
    return [("Ask in SQL, within a budget", text, pictures.intervals(told, "smokers")), *informed]


def _asked(custodian: Custodian, screen: Console) -> list[dict[str, object]]:
    """Three questions, one of them twice, and what is left."""
    screen.rule("[bold]1. A registry of 50,000 synthetic patients, asked in SQL")
    for text in (
        "SELECT AVG(income) FROM registry WHERE sex = 'F'",
        "SELECT MEDIAN(age) FROM registry WHERE diagnosis = 'heart failure'",
    ):
        a = custodian.answer(text, epsilon=Fraction(1, 10), analyst="ann")
        screen.print(f"{text}\n    [bold]{a.value:,.10g}[/bold]   {_around(a.interval()) or a.accuracy}")
    groups = "SELECT hospital, COUNT(*) FROM registry WHERE smoker GROUP BY hospital"
    a = custodian.answer(groups, epsilon=Fraction(1, 10), analyst="ann")
    again = custodian.answer(groups, epsilon=Fraction(1, 10), analyst="ann")
    left = custodian.budget("ann")[-1].left
    screen.print(f"{groups}\n    [bold]{len(a.rows)} groups[/bold], {a.accuracy}")
    screen.print(
        f"The same question again: the same answer, cost {again.cost.epsilon}. Left: epsilon {float(left):g}.\n"
    )
    spans = a.intervals(0.95)
    return [
        {"group": row["hospital"], "answer": row["COUNT(*)"], "low": span["COUNT(*)"][0], "high": span["COUNT(*)"][1]}  # type: ignore[index]
        for row, span in zip(a.rows, spans, strict=True)
        if row["hospital"] is not None
    ]


def _believed(custodian: Custodian, folder: Path, screen: Console) -> list[Section]:
    """A count and a mean, asked by someone who knows something already."""
    screen.rule("[bold]2. Prior knowledge in, posterior out")
    count = "SELECT COUNT(*) FROM registry WHERE smoker AND hospital = 'Rowan'"
    mean = "SELECT AVG(income) FROM registry WHERE occupation = 'nurse'"
    told = []
    for question, epsilon, prior in ((count, "0.02", "normal(480, 60)"), (mean, "0.2", "normal(40000, 4000)")):
        plan = custodian.preview(question, Fraction(epsilon), prior, "bob", rows=2000)
        a = custodian.answer(question, Fraction(epsilon), prior, "bob", rows=2000)
        screen.print(f"{question}\n    {plan.mechanism}, expected error {plan.expected_error:,.4g}. {a.meaning}")
        told.append(a.plot(folder / "picture.svg").read_text(encoding="utf-8"))
    screen.print()
    text = (
        "At so small an epsilon a count of few people is mostly noise (dashed). Someone who has an idea of it before "
        "she asks (grey) knows more after the same answer (blue): the noise law is public, so Bayes' rule is free."
    )
    other = (
        "A mean over a filter is told by a noisy sum and a noisy count together, by the one of several mechanisms "
        "with the least expected error; the private count is integrated out. A wrong prior does not ruin an answer: "
        "a tenth of it is a heavy tail, and an answer that it did not expect comes with a warning."
    )
    return [("What you know makes a count better", text, told[0]), ("A mean, and what it means to you", other, told[1])]


def boolean() -> Section:
    """A yes or no about one person, known to be yes once in a hundred: section 6.1 of document 000."""
    mechanism = Refinement.of(Prior.weights({"true": 1, "false": 99}), 1, about="individual")
    if_true, if_false = (_yes(mechanism.law(truth)) for truth in ("true", "false"))
    yes = 0.01 * if_true + 0.99 * if_false
    wrong = Laplace(1, Fraction(1, 2)).tail(0.5) / 2  # an absent person answered by a half
    by_noise = 0.01 * (1 - wrong) + 0.99 * wrong
    with tempfile.TemporaryDirectory() as folder:
        path = write_registry(Path(folder), 500)
        own = path.read_text().replace("individual_queries: no", "individual_queries: yes")
        path.write_text(own.replace("neighbours: replace-one", "neighbours: add-remove").replace("units: 500\n", ""))
        with Custodian.open(path) as custodian:
            a = custodian.answer("SELECT smoker FROM registry FOR UNIT 'p17'", 1, '{"true": 1, "false": 99}')
            picture = a.plot(Path(folder) / "picture.svg").read_text(encoding="utf-8")
    console.rule("[bold]4. One person's yes or no, known to be yes once in a hundred")
    console.print(
        f"The answer is yes, at epsilon 1: {yes:.1%} of times by refinement, {by_noise:.0%} by Laplace noise."
    )
    console.print(f"{a.meaning}\n")
    text = (
        "Whether one patient smokes, asked at epsilon 1 by someone who holds it for likely once in a hundred. Laplace "
        f"noise rounded to yes or no says yes {by_noise:.0%} of the time, nearly always wrongly; the refined answer "
        f"{yes:.1%}. Even a yes raises what she believes only to {0.01 * if_true / yes:.1%}."
    )
    return "One person's yes or no", text, picture


def _yes(law: Distribution) -> float:
    return float(law.law()["true"])


def refinement_or_noise() -> Section:
    """From which range over sensitivity refinement wins."""
    one, tenth = Fraction(1), Fraction(1, 10)
    rows: list[dict[str, object]] = []
    for half in range(-4, 13):
        width = Fraction(round(1024 * 2 ** (half / 2)), 1024)
        for epsilon in (one, tenth):
            at = {"x": float(width), "epsilon": f"epsilon {float(epsilon):g}"}
            errors = {"refinement": crossing.by_refinement(width, epsilon), "noise": crossing.by_noise(width, epsilon)}
            errors["the prior alone"] = crossing.alone(width)
            rows += [at | {"way": way, "share": error / crossing.alone(width)} for way, error in errors.items()]
    crosses = crossing.crossing(one), crossing.crossing(tenth)
    console.rule("[bold]5. Refinement or noise")
    console.print(
        f"A total that one unit moves by 1, known to lie in a range: refinement is better up to a range of "
        f"[bold]{crosses[0]:.2f}[/bold] at epsilon 1 and {crosses[1]:.2f} at 0.1, noise beyond.\n"
    )
    text = (
        "A total that one unit can move by 1, known to lie evenly in a range: the error of the best estimate after "
        "the answer, as a share of that before. What refinement gains depends on epsilon alone; what noise gains "
        f"grows with the range. They cross where the range is {crosses[0]:.2f} times the sensitivity at epsilon 1 "
        f"(dotted), and {crosses[1]:.2f} times at 0.1, where both gain less than a thousandth. Refinement is for what "
        "lies left of it, as one person's value or the largest one; counts and sums take noise."
    )
    return "Refinement or noise", text, pictures.crossing(rows, crosses[0])


def _around(interval: object) -> str:
    return "95 % between {:,.0f} and {:,.0f}".format(*interval) if isinstance(interval, tuple) else ""


def refinement() -> Section:
    """One person's age: what the analyst believed, and what one private answer is drawn from."""
    prior = Prior.parse("0.9 normal(38, 6) + 0.1 cauchy(38, 6) on [17, 90] step 1")
    truth, shown = 52, {"what she believed (the prior)": _floats(prior.support, prior.probabilities)}
    for epsilon in (1, 2):
        law = Refinement.of(prior, epsilon, about="individual").law(truth)
        shown[f"her answer is drawn from this, epsilon {epsilon}"] = _floats(law.support, law.probabilities)
    laplace = Laplace(1, Fraction(73, 2))  # an absent person answered by the middle of the range
    missed = laplace.tail(90 - truth) / 2 + laplace.tail(truth - 17) / 2
    draws = [Refinement.of(prior, 1, about="individual").answer(truth) for _ in range(8)]
    console.rule("[bold]3. A question about one person, with what the analyst already knows")
    console.print(
        f"Prior: 0.9 normal(38, 6) + 0.1 cauchy(38, 6) on [17, 90].  The truth, which she never sees: {truth}."
    )
    console.print(f"Eight possible answers at epsilon 1: {draws}   (never outside what can be true)")
    console.print(f"Laplace noise at the same epsilon falls outside 17 to 90 in {missed:.0%} of all cases.\n")
    text = (
        "The analyst says what she believes; the answer is a draw from that belief, moved towards the truth (dashed) "
        "as far as epsilon allows. No sensitivity is needed, and impossible values stay impossible. Laplace noise for "
        f"the same question falls outside the range {missed:.0%} of the time."
    )
    picture = pictures.laws(shown, (pictures.GREY, pictures.BLUE, pictures.ORANGE), "age", truth)
    return "Prior knowledge about one person", text, picture


def noise() -> Section:
    """The same epsilon, different laws."""
    table = Table(title="Noise for one count, sensitivity 1", title_justify="left")
    for column in ("law", "promise", "sd", "95 % within"):
        table.add_column(column)
    gaussian = DiscreteGaussian.calibrated(1, 1e-6)
    laws = {
        "discrete Laplace": (DiscreteLaplace(1, 1), Guarantee.dp(1)),
        "discrete Laplace, in hundredths": (DiscreteLaplace(1, 1, Fraction(1, 100)), Guarantee.dp(1)),
        "staircase, in hundredths": (Staircase.least_variance(1, 1, Fraction(1, 100)), Guarantee.dp(1)),
        "discrete Gaussian": (gaussian, gaussian.cost()),
    }
    for name, (law, promise) in laws.items():
        table.add_row(
            name, promise.words().split(" when ")[0], f"{math.sqrt(law.variance()):.3f}", f"±{law.interval(0.95)[1]:g}"
        )
    console.rule("[bold]6. Noise, drawn exactly")
    console.print(table)
    draws = DiscreteLaplace(1, 1).draw_many(200_000)
    counts = {int(k): int((draws == k).sum()) for k in range(-5, 6)}
    expected = {k: round(200_000 * DiscreteLaplace(1, 1).probability(k)) for k in counts}
    beside = ", ".join(f"{k}: {counts[k]:,} of {expected[k]:,}" for k in range(-2, 3))
    console.print(f"200,000 exact draws, seen of expected: {beside}\n")
    text = (
        "Integers drawn with integer arithmetic from the operating system's generator: no floating point whose last "
        "bits could tell the truth. 200,000 draws of discrete Laplace noise beside what the law says."
    )
    both = {"drawn": counts, "the law": expected}
    picture = pictures.histogram(both, (pictures.BLUE, pictures.GREY), "noise")
    return "Noise that cannot be read backwards", text, picture


def median(progress: Progress) -> Section:
    """A median, a thousand times, without and with a prior."""
    people = np.random.Generator(np.random.PCG64(2026)).normal(41, 13, 250)
    ages = np.clip(people, 17, 90).astype(int)
    informed = "with a prior normal(38, 6)"
    ways = {
        "permute-and-flip": Quantile.of(0.5, 17, 90, 0.1, neighbours="replace-one"),
        informed: Quantile.of(0.5, 17, 90, 0.1, neighbours="replace-one", prior=Prior.normal(38, 6, 17, 90)),
    }
    answers: dict[str, Counter[float]] = {name: Counter() for name in ways}
    task = progress.add_task("2,000 private medians", total=2000)
    for name, way in ways.items():
        counts = way.candidates.counts(ages)
        for _ in range(1000):
            answers[name][float(way.answer_counts(counts))] += 1
            progress.advance(task)
    true = int(np.median(ages))
    off = {name: math.sqrt(sum(n * (x - true) ** 2 for x, n in own.items()) / 1000) for name, own in answers.items()}
    progress.console.rule("[bold]7. A median of 250 people at epsilon 0.1")
    for name, years in off.items():
        progress.console.print(f"{name:<28} typically {years:.1f} years off (root mean square)")
    bound = ways["permute-and-flip"].rank_bound(0.95)
    progress.console.print(f"What may be said of it without looking: within {bound:.0f} ranks in 95 % of cases.\n")
    window = {name: {x: own.get(float(x), 0) for x in range(true - 14, true + 15)} for name, own in answers.items()}
    text = (
        f"A small table and a small epsilon. The true median is {true}. What the analyst already knows makes the same "
        f"epsilon go further: {off[informed]:.1f} instead of {off['permute-and-flip']:.1f} years off."
    )
    return "A median", text, pictures.histogram(window, (pictures.GREY, pictures.BLUE), "answer")


def proof() -> Section:
    """The promise, checked for every pair of truths with exact fractions."""
    prior = Prior.normal(38, 6, 17, 90)
    mechanism = Refinement.of(prior, 1)
    laws = {truth: mechanism.law(truth).law() for truth in range(17, 91)}
    rows, worst = [], Fraction(1)
    for (one, law), (two, other) in product(laws.items(), repeat=2):
        ratio = worst_ratio(law, other) or Fraction(0)
        worst = max(worst, ratio)
        rows.append({"one": one, "two": two, "loss": math.log(ratio)})
    console.rule("[bold]8. The promise, checked")
    console.print(
        f"{len(rows):,} pairs of data sets, every answer, exact fractions: the largest ratio of probabilities is "
        f"[bold]{float(worst):.12f}[/bold], and e^1 is 2.718281828459."
    )
    console.print(mechanism.cost().words())
    spent = Guarantee.dp(0.1) + Guarantee.dp(0.1) + Guarantee.dp(0.1)
    console.print(f"Three answers at 0.1 cost {spent.epsilon} exactly, not {0.1 + 0.1 + 0.1}.")
    try:
        Refinement.of(prior, 0)
    except InvalidInput as refusal:
        console.print(f"Asking with epsilon 0: [italic]{refusal}[/italic]\n")
    text = (
        "For every two ages that the truth could be, the largest loss over all answers, computed with exact fractions. "
        "Nowhere is it above epsilon = 1. That is the whole promise, and here it is checked rather than claimed."
    )
    return "The promise, checked", text, pictures.heat(rows, 1.0, "one truth")


def page(sections: list[Section]) -> str:
    """One page that needs nothing from outside."""
    parts = "".join(
        f"<section><h2>{html.escape(title)}</h2><p>{html.escape(text)}</p>{picture}</section>"
        for title, text, picture in sections
    )
    style = (
        "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#1f2933;"
        "background:#fff}h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2.2rem}svg{max-width:100%;height:auto}"
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>discreet: a first look</title><style>{style}</style><h1>discreet: a first look</h1>"
        f"<p>Learn from records about people without learning about any one person.</p>{parts}</html>"
    )


def _floats(support: tuple[object, ...], probabilities: tuple[Fraction, ...]) -> dict[float, float]:
    return {float(x): float(p) for x, p in zip(support, probabilities, strict=True)}  # type: ignore[arg-type]


def main() -> int:
    """Show, draw, and say what to try next."""
    with Progress(console=console, transient=True) as progress:
        sections = registry(progress)
    sections += [refinement(), boolean(), refinement_or_noise(), noise()]
    with Progress(console=console, transient=True) as progress:
        sections.append(median(progress))
    sections.append(proof())
    PAGE.write_text(page(sections), encoding="utf-8")
    console.rule("[bold]What next")
    console.print(f"Pictures: [bold]{PAGE}[/bold] (open it in a browser)")
    console.print("Try: [bold].venv-demo/bin/python -m discreet.sample work[/bold]")
    console.print("then [bold].venv-demo/bin/discreet check work/registry.yaml[/bold], and ask as README.md shows.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
