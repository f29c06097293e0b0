"""Document 000, prior knowledge refinement: its tables and examples; the figures are in modules of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import combinations

from discreet.mechanisms.continuous_noise import Laplace
from discreet.mechanisms.refinement import Refinement
from discreet.priors.prior import Prior
from discreet.verification import worst_ratio
from papers import crossover, refinement_delta, refinement_figures
from papers.rows import Row, compare_corrected, compare_cut, compare_derived, compare_equal
from papers.tables import Data, Table
from papers.unit_interval import EPSILON, build_refinement, compute_clamped_error, compute_squared_error

FACTORS = "alpha_u is the greatest multiple of 2^-40 certified to be at most e^epsilon"
TABLE_5 = {
    "laplace_var": ("200", "4.16", "2", "0.5"),
    "laplace_in01": ("0.476", "0.549", "0.607", "0.684"),
    "kr_var": ("0.077", "0.046", "0.034", "0.012"),
    "kr_size": ("0.475", "0.333", "0.269", "0.119"),
    "kr_P": ("0.525", "0.667", "0.731", "0.881"),
}
COLUMNS = {
    "laplace_var": "variance with Laplace noise",
    "laplace_in01": "P(answer in [0, 1]) with Laplace noise",
    "kr_var": "variance of the refined answer",
    "kr_size": "size of U_u",
    "kr_P": "P(refined answer in U_u)",
}
INSIDE = {"0.1": 0.0487705754993, "ln2": 0.2928932188135, "1": 0.3934693402874, "2": 0.6321205588286}
"""The probability that f(D) = 1/2 and Laplace noise of scale 1/epsilon give an answer in [0, 1], by quadrature."""


def compare_table_5(_: Data) -> Iterator[Row]:
    """Every cell; then what the comparison leaves out."""
    for place, name in enumerate(EPSILON):
        obtained = _compute_table_5(name)
        for column, printed in TABLE_5.items():
            id, cell = f"t5.{column}.{name}", f"{COLUMNS[column]}, epsilon {name}"
            if column == "laplace_in01":
                why = "the whole column is wrong; it is 1 - e^(-epsilon/2)"
                yield compare_corrected(id, cell, printed[place], obtained[column], INSIDE[name], "1.7", why)
            else:
                yield compare_equal(id, cell, printed[place], obtained[column])
    yield from _compare_fairer()


def _compute_table_5(name: str) -> dict[str, float]:
    laplace, mechanism = Laplace(EPSILON[name]), build_refinement(name)
    near = float(mechanism.profile.mass_limits[0])
    return {
        "laplace_var": laplace.variance(),
        "laplace_in01": 1 - laplace.tail(0.5),
        "kr_var": mechanism.distribution(0.5).variance(),
        "kr_size": near,
        "kr_P": near * float(mechanism.factors[0]),
    }


def _compare_fairer() -> Iterator[Row]:
    """Errors at epsilon 1 where both answers are kept in [0, 1], at the kindest truth and at an end."""
    wide, narrow, mechanism = Laplace(1), Laplace(1, 0.5), build_refinement("1")
    obtained = (
        ("wide.f0.5", "clamped Laplace(1), f(D) = 1/2", "0.180", compute_clamped_error(wide, 0.5)),
        ("narrow.f0.5", "clamped Laplace(1/2), f(D) = 1/2", "0.132", compute_clamped_error(narrow, 0.5)),
        ("refined.f0.5", "refinement, f(D) = 1/2", "0.034", compute_squared_error(mechanism.distribution(0.5), 0.5)),
        ("narrow.f0", "clamped Laplace(1/2), f(D) = 0", "0.1485", compute_clamped_error(narrow, 0)),
        ("refined.f0", "refinement, f(D) = 0", "0.138", compute_squared_error(mechanism.distribution(0), 0)),
    )
    note = "answers clamped, and an absent person answered by 1/2, as in 6.1 (erratum 1.8)"
    for short, cell, right, error in obtained:
        yield compare_derived(
            f"000.table-5.mse.{short}", f"mean squared error, {cell}, epsilon 1", right, error, 0.0, note
        )


def compare_algorithm_1(_: Data) -> Iterator[Row]:
    """The masses of U_u and U_d at epsilon 1, and the factor between them where a point is cut."""
    mechanism = Refinement.of(Prior.uniform(0, 1), 1, about="individual")
    up, down = map(float, mechanism.factors)
    near = float(mechanism.profile.mass_limits[0])
    swapped = (up - 1) / (up - down)
    why = "p_u and p_d are printed in each other's place"
    yield compare_corrected("alg1.p_u", "P(U_u) of step (2a), epsilon 1", swapped, near, 0.2689414213700, "1.1", why)
    yield compare_corrected(
        "alg1.p_d", "P(U_d) of step (2b), epsilon 1", 1 - swapped, 1 - near, 0.7310585786300, "1.1", why
    )
    yield compare_derived(
        "alg1.mass_printed",
        "total probability with the printed p_u, epsilon 1",
        2.0861612696305,
        up * swapped + down * (1 - swapped),
        note="it is to be 1 (erratum 1.1)",
    )
    laws = _compute_rare_laws()
    for truth, right in ((0, 1.0063850561498), (1, 0.9826436178944)):
        yield compare_corrected(
            f"bool.kr.alpha_ud.f{truth}",
            f"alpha_ud of step (iv) for the Boolean of 6.1, f(D) = {truth}",
            "0/0",
            float(laws[truth][0] / Fraction(99, 100)),
            right,
            "1.2",
            "as printed, with p_u and p_d for P(U'_u) and P(U'_d), it is 0/0",
        )


def compare_proposition_2(_: Data) -> Iterator[Row]:
    """The loss of an individual question, in units of epsilon, over truths at both ends of many points."""
    mechanism = Refinement.of(Prior.uniform(0, 40), 1, about="individual")
    present, absent = [mechanism.distribution(truth) for truth in (0, 20, 40)], mechanism.distribution(None)
    losses = {
        "addremove": max(math.log(worst_ratio(law, absent) or 0) for law in present),
        "replace": max(math.log(worst_ratio(one, two) or 0) for one, two in combinations(present, 2)),
    }
    yield compare_equal(
        "kr.individual.addremove",
        "worst loss over epsilon, one person added or removed",
        1.0,
        losses["addremove"],
        within=1e-9,
        note=FACTORS,
    )
    why = "the proposition holds where the person is absent from the neighbour; replaced, it is twice epsilon"
    cell = "worst loss over epsilon, one person replaced"
    yield compare_corrected("kr.individual.replace", cell, 1.0, losses["replace"], 2.0, "1.3", why)


def compare_boolean(_: Data) -> Iterator[Row]:
    """Section 6.1: a Boolean that is 1 once in a hundred, at epsilon 1."""
    wrong, laws = Laplace(1, 0.5).tail(0.5) / 2, _compute_rare_laws()
    noisy = {0: {0: 1 - wrong, 1: wrong}, 1: {0: wrong, 1: 1 - wrong}}
    yield compare_equal("bool.lap.f0", "P(K = 1 | f(D) = 0) with Laplace noise", "0.184", noisy[0][1])
    yield compare_equal("bool.lap.f1", "P(K = 1 | f(D) = 1) with Laplace noise", "0.816", noisy[1][1])
    yield compare_equal("bool.lap.marg", "P(K = 1) with Laplace noise", "0.19", _compute_answer_probability(noisy, 1))
    yield compare_cut("bool.kr.10", "P(K = 1 | f(D) = 0), refined", "0.003678", float(laws[0][1]))
    yield compare_corrected(
        "bool.kr.00",
        "P(K = 0 | f(D) = 0), refined",
        "0.9963222",
        float(laws[0][0]),
        0.9963212055883,
        "1.9",
        "reckoned from .003678, which was cut off",
        within=1e-9,
    )
    yield compare_cut("bool.kr.11", "P(K = 1 | f(D) = 1), refined", "0.027182", float(laws[1][1]))
    yield compare_equal("bool.kr.01", "P(K = 0 | f(D) = 1), refined", "0.972817", float(laws[1][0]))
    why = "reckoned from .003678 and .02182, a misprint of .027182"
    yield compare_corrected(
        "bool.kr.marg",
        "P(K = 1), refined",
        "0.003912",
        _compute_answer_probability(laws, 1),
        0.0039138346504,
        "1.9",
        why,
        within=1e-9,
    )
    yield from _compare_information({"Laplace noise": noisy, "refinement": laws})


Laws = Mapping[int, Mapping[int, float | Fraction]]
"""The law of the answer for each truth."""


def _compute_rare_laws() -> Laws:
    mechanism = Refinement.of(Prior.weights({0: 0.99, 1: 0.01}), 1, about="individual")
    return {truth: {int(str(k)): p for k, p in mechanism.distribution(truth).law().items()} for truth in (0, 1)}


def _compute_answer_probability(laws: Laws, answer: int) -> float:
    """How often the answer comes, the Boolean being 1 once in a hundred."""
    return 0.99 * float(laws[0][answer]) + 0.01 * float(laws[1][answer])


def _compare_information(mechanisms: Mapping[str, Laws]) -> Iterator[Row]:
    """What an answer tells, beside how near its marginal is to that of the Boolean."""
    rights = {"Laplace noise": ("0.01340", "0.0023", "1.49"), "refinement": ("0.00044", "0.0098", "2.00")}
    bits = {name: _compute_bits(laws) for name, laws in mechanisms.items()}
    for name, laws in mechanisms.items():
        right_bits, after, right_loss = rights[name]
        short, note = name.split(maxsplit=1)[0].lower(), "erratum 1.10"
        loss = max(math.log(laws[one][k] / laws[1 - one][k]) for one in (0, 1) for k in (0, 1))
        posterior = 0.01 * float(laws[1][0]) / _compute_answer_probability(laws, 0)
        yield compare_derived(
            f"000.boolean.bits.{short}", f"bits that {name} tells of B", right_bits, bits[name], 0.0, note
        )
        yield compare_derived(f"000.boolean.after-0.{short}", f"P(B = 1 | K = 0), {name}", after, posterior, 0.0, note)
        cell = f"loss where one person is replaced, {name}"
        yield compare_derived(f"000.boolean.replaced.{short}", cell, right_loss, loss, 0.0, note)
    yield compare_corrected(
        "000.boolean.better",
        "which of the two tells more of B",
        "refinement",
        max(bits, key=lambda name: bits[name]),
        "Laplace noise",
        "1.10",
        "an answer whose marginal is near that of B need not say anything of B",
    )


def _compute_bits(laws: Laws) -> float:
    """The mutual information of B and the answer."""
    prior = {0: 0.99, 1: 0.01}
    return sum(
        prior[truth] * float(p) * math.log2(float(p) / _compute_answer_probability(laws, answer))
        for truth, law in laws.items()
        for answer, p in law.items()
    )


def compare_table_3(_: Data) -> Iterator[Row]:
    """Example 3: two people whose Boolean is 0, asked at epsilon 1; printed in alpha_d, which is 1/e."""
    down, laws = math.exp(-1), _compute_example_3()
    yield compare_equal("ex3.p1_0", "P(K = 1 | f(D) = 0)", "0.1839", laws[0][1])
    yield compare_equal("ex3.p1_1", "P(K = 1 | f(D) = 1)", "0.8161", laws[1][1])
    no, yes = 1 - down / 2, down / 2
    printed = [[no * no, no * yes], [no * yes, down * down / 4]]
    cell = "Table 3, rows K_f2 = 0, 1, columns K_f1 = 0, 1"
    yield compare_equal("ex3.table3", cell, printed, _compute_joint(laws[0], laws[0]), within=1e-11, note=SYMBOLS)


def compare_table_4(_: Data) -> Iterator[Row]:
    """The same where one of the two is missing, and how far that is from Table 3."""
    down, laws = math.exp(-1), _compute_example_3()
    no, yes = (1 - down / 2) / 2, down / 4
    both, first, second = (
        _compute_joint(*pair) for pair in ((laws[0], laws[0]), (laws[None], laws[0]), (laws[0], laws[None]))
    )
    yield compare_equal(
        "ex3.table4.top", "individual 1 missing", [[no, no], [yes, yes]], first, within=1e-11, note=SYMBOLS
    )
    yield compare_equal(
        "ex3.table4.bottom", "individual 2 missing", [[no, yes]] * 2, second, within=1e-11, note=SYMBOLS
    )
    ratios = {both[row][column] / first[row][column] for row in (0, 1) for column in (0, 1)}
    different = sorted({round(ratio, 13) for ratio in ratios})
    yield compare_equal(
        "ex3.ratios", "Table 3 over Table 4, its values", [down, 2 - down], different, within=1e-11, note=SYMBOLS
    )


SYMBOLS = f"printed in alpha_d = 1/e; {FACTORS}"


def _compute_example_3() -> dict[int | None, list[float]]:
    """The law of the answer about a person with 0, with 1, and absent."""
    mechanism = Refinement.of(Prior.weights({0: 1, 1: 1}), 1, about="individual")
    return {truth: [float(p) for p in mechanism.distribution(truth).probabilities] for truth in (0, 1, None)}


def _compute_joint(first: list[float], second: list[float]) -> list[list[float]]:
    return [[first[column] * second[row] for column in (0, 1)] for row in (0, 1)]


TABLES: tuple[Table, ...] = (
    Table(
        "000-algorithm-1", "Algorithm 1", "How much prior mass is raised and lowered, epsilon 1.", compare_algorithm_1
    ),
    Table("000-proposition-2", "Proposition 2", "The loss of a question about one person.", compare_proposition_2),
    Table("000-table-3", "Table 3", "Two questions about two people, both answered at epsilon 1.", compare_table_3),
    Table("000-table-4", "Table 4", "The same where one of the two people is missing.", compare_table_4),
    Table(
        "000-boolean", "The Boolean of section 6.1", "Noise and refinement for a rare yes, epsilon 1.", compare_boolean
    ),
    Table("000-table-5", "Table 5", "Noise and refinement for an answer of 1/2 in [0, 1].", compare_table_5),
    *sorted((*refinement_figures.TABLES, *refinement_delta.TABLES), key=lambda table: table.name),
    crossover.TABLE,
)
