"""How it works, in five pictures: a belief refined, noise or refinement, noise drawn exactly, the promise checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from demo import pictures
from discreet import DiscreteLaplace, Prior, Refinement
from discreet.mechanisms import Laplace
from discreet.verification import worst_ratio
from papers import crossover

DRAWS = 200_000
LOW, HIGH = 17, 90


@dataclass(frozen=True)
class Explanation:
    """One picture with its words."""

    title: str
    words: str
    picture: str
    square: bool = False


def explain_belief() -> Explanation:
    """One person's age: what was believed, and what one private answer is drawn from."""
    prior, truth = Prior.parse("0.9 normal(38, 6) + 0.1 cauchy(38, 6) on [17, 90] step 1"), 52
    laws = {"what she believed": _to_floats(prior.support, prior.probabilities)}
    for epsilon in (1, 2):
        law = Refinement.of(prior, epsilon, about="individual").distribution(truth)
        laws[f"answers are drawn from this, epsilon {epsilon}"] = _to_floats(law.support, law.probabilities)
    noise = Laplace(1, Fraction(HIGH - LOW, 2))  # an absent person answered by the middle of the range
    missed = noise.tail(HIGH - truth) / 2 + noise.tail(truth - LOW) / 2
    words = (
        "Asked about one person, the answer is a draw from what the analyst believed, moved towards the truth (the "
        "dashed line) as far as epsilon allows. What cannot be true is never answered. Laplace noise at epsilon 1 "
        f"would fall outside {LOW} to {HIGH} in {missed:.0%} of all cases."
    )
    return Explanation("A belief, moved towards the truth", words, pictures.draw_laws(laws, "age", truth))


def explain_yes_or_no() -> Explanation:
    """A yes that is held for likely once in a hundred: section 6.1 of document 000."""
    mechanism = Refinement.of(Prior.weights({"true": 1, "false": 99}), 1, about="individual")
    if_true, if_false = (float(mechanism.distribution(truth).law()["true"]) for truth in ("true", "false"))
    refined = 0.01 * if_true + 0.99 * if_false
    wrong = Laplace(1, Fraction(1, 2)).tail(0.5) / 2  # an absent person answered by a half
    noisy = 0.01 * (1 - wrong) + 0.99 * wrong
    noisy_bits, refined_bits = _compute_bits(1 - wrong, wrong), _compute_bits(if_true, if_false)
    words = (
        "A yes or no about one person, which the analyst holds for a yes once in a hundred, asked at epsilon 1. "
        f"Laplace noise rounded to yes or no says yes {noisy:.0%} of the time, nearly always wrongly; refinement "
        f"{refined:.1%}. A yes of it raises what she believes to {0.01 * if_true / refined:.1%}. That it says yes as "
        f"seldom as she expects does not make it tell more: the noisy answer tells {noisy_bits:.4f} bit "
        f"about this person and the refined one {refined_bits:.4f}. A draw from the prior looks like "
        "the prior."
    )
    shares = {"she believes": 0.01, "refinement says": refined, "Laplace noise says": noisy}
    return Explanation("One person's yes or no", words, pictures.draw_shares(shares, "how often it says yes"))


def _compute_bits(if_true: float, if_false: float) -> float:
    """How much an answer reveals about a yes with a prior probability of one in a hundred, by how often it says yes."""
    yes = 0.01 * if_true + 0.99 * if_false
    cases = [(0.01, if_true, yes), (0.99, if_false, yes), (0.01, 1 - if_true, 1 - yes), (0.99, 1 - if_false, 1 - yes)]
    return sum(prior * likelihood * math.log2(likelihood / in_all) for prior, likelihood, in_all in cases)


def explain_refinement_or_noise() -> Explanation:
    """From which range over sensitivity on noise is better."""
    rows = []
    for half in range(-4, 11):
        width = Fraction(round(1024 * 2 ** (half / 2)), 1024)
        alone = crossover.compute_prior_error(width)
        ways = {
            "refinement": crossover.compute_refinement_error(width, Fraction(1)),
            "noise": crossover.compute_noise_error(width, Fraction(1)),
        }
        rows += [{"x": float(width), "way": way, "share": error / alone} for way, error in ways.items()]
    crosses = crossover.find_crossing(Fraction(1))
    words = (
        "A total that one person can move by 1, known to lie somewhere in a range: how much of her uncertainty is "
        f"left after an answer at epsilon 1. Refinement is better up to a range of {crosses:.2f}, noise beyond. So "
        "one person's value is refined, and counts and sums get noise, to which what she knows is added afterwards."
    )
    return Explanation("Refinement or noise", words, pictures.crossing(rows, crosses))


def explain_noise() -> Explanation:
    """Draws beside their law."""
    law = DiscreteLaplace(1, 1)
    draws = law.sample_many(DRAWS)
    counts = {k: int((draws == k).sum()) for k in range(-5, 6)}
    expected = {k: round(DRAWS * law.probability(k)) for k in counts}
    words = (
        "Whole numbers, drawn with whole numbers from the operating system's generator: there are no floating-point "
        f"digits that could give the truth away. {DRAWS:,} draws just now, beside what the law says."
    )
    return Explanation(
        "Noise, drawn exactly", words, pictures.draw_draws({"drawn": counts, "the law": expected}, "noise")
    )


def explain_promise() -> Explanation:
    """The promise of a refined answer, for every two truths, with exact fractions."""
    mechanism = Refinement.of(Prior.normal(38, 6, LOW, HIGH - 1, step=2), 1)
    laws = {truth: mechanism.distribution(truth).law() for truth in range(LOW, HIGH, 2)}
    rows, worst = [], Fraction(1)
    for (one, law), (two, other) in product(laws.items(), repeat=2):
        ratio = worst_ratio(law, other) or Fraction(0)
        worst = max(worst, ratio)
        rows.append({"one": one, "two": two, "loss": math.log(ratio)})
    words = (
        f"Differential privacy says: whatever the truth is, no answer is more than e^epsilon times as likely as with "
        f"another truth. Here are all {len(rows):,} pairs of truths, with exact fractions: the largest ratio is "
        f"{float(worst):.12f}, and e^1 is {math.e:.12f}."
    )
    return Explanation("The promise, checked", words, pictures.draw_heat(rows, 1.0), square=True)


def _to_floats(support: tuple[object, ...], probabilities: tuple[Fraction, ...]) -> dict[float, float]:
    return {float(str(x)): float(p) for x, p in zip(support, probabilities, strict=True)}


EXPLANATIONS = (explain_belief, explain_yes_or_no, explain_refinement_or_noise, explain_noise, explain_promise)
