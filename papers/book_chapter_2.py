"""Document 003, the book's second chapter: its example, and the figures of its sections 2.1 to 2.3."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from discreet.mechanisms.continuous_noise import Laplace
from discreet.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.mechanisms.entropy import KeyedEntropy
from discreet.mechanisms.exponential_mechanism import exponential
from discreet.mechanisms.order_statistic import local_sensitivity, smooth_sensitivity
from discreet.mechanisms.sensitivity import global_sensitivity
from discreet.privacy.guarantee import Guarantee
from discreet.sdc.report_charts import Chart
from papers import book_gaussian
from papers.charts import draw_bars, draw_lines
from papers.rows import Row, build_not_reproducible, compare_corrected, compare_equal
from papers.tables import Data, Table

RECORDS = ("Flu", "HIV", "Hepatitis", "HIV", "Diabetes", "Flu")
"""The diseases of Table 2.2; the records between the fifth and the last are left out there."""
PEOPLE = {"Diabetes": 24, "Hepatitis": 8, "Flu": 28, "HIV": 5}
OUTPUT = {
    "0": ["0.25", "0.25", "0.25", "0.25"],
    "0.1": ["0.32", "0.15", "0.40", "0.13"],
    "1": ["0.12", "4e-5", "0.88", "8.9e-6"],
}
ROWS, BETA = 21, 0.2
"""Of Figure 2.6, which has no scale: the median of so many values of 0 or 1."""
CURVE = "the picture has no figures"


def compare_table_2_2(_: Data) -> Iterator[Row]:
    """The example that goes with the table: how many people have HIV, at epsilon 1."""
    count = sum(disease == "HIV" for disease in RECORDS)
    why = "six records are printed and the others left out"
    yield build_not_reproducible("003.2.2.count", "people with HIV", PEOPLE["HIV"], count, "data", why)
    yield compare_equal("003.2.2.sensitivity", "sensitivity of the count", 1, global_sensitivity("count"))
    yield compare_equal(
        "003.2.2.scale", "scale of the noise, epsilon 1", 1, Laplace(1, global_sensitivity("count")).scale
    )
    noisy_count = 10 + DiscreteLaplace(1, 1).sample_unit(KeyedEntropy(b"the book, Table 2.2", "a noisy count"))
    why = "printed as what might come out; this is one draw of ours"
    yield build_not_reproducible(
        "003.2.2.answer", "noisy answer where the true one is 10", 11, noisy_count, "single run", why
    )


def compare_table_2_3(_: Data) -> Iterator[Row]:
    """The exponential mechanism over four diseases."""
    cell = f"probabilities of {', '.join(PEOPLE)}, epsilon "
    note = "epsilon 0 promises nothing to choose by; computed at 1e-30"
    yield compare_equal("book.t23.eps0", f"{cell}0", OUTPUT["0"], _compute_choice_probabilities(1e-30), note=note)
    yield compare_corrected(
        "book.t23.eps0.1",
        f"{cell}0.1",
        OUTPUT["0.1"],
        _compute_choice_probabilities(0.1),
        [0.3270675107067, 0.1469609057822, 0.3994811596817, 0.1264904238294],
        "7",
        "Diabetes is .327, printed .32; the others are as printed",
        within=1e-9,
    )
    yield compare_equal("book.t23.eps1", f"{cell}1", OUTPUT["1"], _compute_choice_probabilities(1))


def _compute_choice_probabilities(epsilon: float) -> list[float]:
    return [float(p) for p in exponential(list(PEOPLE.values()), 1, epsilon).probabilities]


def draw_table_2_3(_: Sequence[Row]) -> list[Chart]:
    """The three columns side by side."""
    columns = {f"epsilon {name}": _compute_choice_probabilities(float(name) or 1e-30) for name in OUTPUT}
    series = {name: dict(zip(PEOPLE, column, strict=True)) for name, column in columns.items()}
    sentence = "How likely each disease is chosen as the most common one, at three epsilons."
    return [draw_bars("Table 2.3: the exponential mechanism", sentence, "disease", "probability", series)]


def compare_figure_2_3(_: Data) -> Iterator[Row]:
    """The answers' laws on two neighbours, a count of 10 and one of 9, at epsilon 1."""
    noise = DiscreteLaplace(1, 1)
    same = [noise.probability(10 - count) for count in (10, 9)]
    why = f"{CURVE}; counts of 10 and 9 at epsilon 1 are our choice"
    yield build_not_reproducible(
        "003.figure-2.3", "probability of the answer 10 on D and on D'", None, same, "drawing", why
    )


def compare_figure_2_4(_: Data) -> Iterator[Row]:
    """The ratio that epsilon bounds."""
    noise = DiscreteLaplace(1, 1)
    ratios = [noise.probability(place - 10) / noise.probability(place - 9) for place in range(20)]
    worst = max(max(ratio, 1 / ratio) for ratio in ratios)
    cell = "largest ratio of the two probabilities over e^epsilon, epsilon 1"
    yield compare_equal("003.figure-2.4", cell, 1, worst / math.e, within=1e-9, note="printed as at most e^epsilon")


def draw_figure_2_3(_: Sequence[Row]) -> list[Chart]:
    """Two laws over one axis."""
    noise = DiscreteLaplace(1, 1)
    series = {
        name: {str(place): noise.probability(place - count) for place in range(4, 16)}
        for name, count in (("D, count 10", 10), ("D', count 9", 9))
    }
    sentence = "The law of a noisy count on two neighbours, epsilon 1."
    return [draw_bars("Figure 2.3: answers on D and D'", sentence, "answer", "probability", series)]


def draw_figure_2_4(_: Sequence[Row]) -> list[Chart]:
    """The ratio of the two at every answer, between its bounds."""
    noise, places = DiscreteLaplace(1, 1), range(4, 16)
    series = {
        "ratio": [(place, noise.probability(place - 10) / noise.probability(place - 9)) for place in places],
        "e^epsilon": [(place, math.e) for place in places],
        "e^-epsilon": [(place, 1 / math.e) for place in places],
    }
    sentence = "How much likelier an answer is on D than on D', counts of 10 and 9 at epsilon 1."
    return [draw_lines("Figure 2.4: D against D'", sentence, "answer", "ratio of probabilities", series, log="y")]


def compare_figure_2_5(_: Data) -> Iterator[Row]:
    """Several answers about all records, and about disjoint ones."""
    parts = {relation: [Guarantee.dp(each, relation) for each in (0.1, 0.2, 0.3)] for relation in RELATIONS}
    sequential = sum(parts["add-remove"][1:], parts["add-remove"][0])
    parallel = {relation: Guarantee.parallel(each) for relation, each in parts.items()}
    yield compare_equal("003.figure-2.5.sequential", "0.1, 0.2 and 0.3 on all records", "0.6", _get_epsilon(sequential))
    cell = "0.1, 0.2 and 0.3 on disjoint records, one record {}"
    epsilons = {relation: _get_epsilon(each) for relation, each in parallel.items()}
    yield compare_equal("003.figure-2.5.parallel", cell.format("added or removed"), "0.3", epsilons["add-remove"])
    why = "a replaced record may leave one part and enter another: the two largest add up"
    id = "003.figure-2.5.parallel.replaced"
    yield compare_corrected(id, cell.format("replaced"), "0.3", epsilons["replace-one"], 0.5, "7", why)


RELATIONS = ("add-remove", "replace-one")


def _get_epsilon(promise: Guarantee) -> float:
    return float(promise.epsilon or 0)


def draw_figure_2_5(rows: Sequence[Row]) -> list[Chart]:
    """What the three answers cost together, as printed and as it is."""
    names = ("all records", "disjoint", "replaced")
    series = {
        "printed": {name: float(str(row.published)) for name, row in zip(names, rows, strict=True)},
        "obtained": {name: float(str(row.obtained)) for name, row in zip(names, rows, strict=True)},
    }
    sentence = (
        "Answers at epsilon 0.1, 0.2 and 0.3 together: on all records, on disjoint ones, and where one is replaced."
    )
    return [draw_bars("Figure 2.5: composition", sentence, "records asked about", "epsilon", series)]


def compare_figure_2_6(_: Data) -> Iterator[Row]:
    """The median of 21 values in {0, 1}, by how many of them are 1."""
    local, smooth = ([measure(ones) for ones in range(ROWS + 1)] for measure in (_compute_local, _compute_smooth))
    whole = float(global_sensitivity("median", 0, 1))
    note = "(2.4), and at most the global one"
    is_above = all(low <= bound <= whole for low, bound in zip(local, smooth, strict=True))
    yield compare_equal(
        "003.figure-2.6.above",
        "the smooth bound is at least the local sensitivity",
        "yes",
        _format_yes_no(is_above),
        0,
        note,
    )
    why = f"{CURVE}; the median of {ROWS} values of 0 or 1 at beta {BETA:g} is our choice"
    near = {"local": local[8:13], "smooth": [round(each, 6) for each in smooth[8:13]], "global": whole}
    yield build_not_reproducible("003.figure-2.6.values", "sensitivities with 8 to 12 ones", None, near, "drawing", why)
    steps = max(abs(math.log(smooth[ones + 1] / smooth[ones])) for ones in range(ROWS)) / BETA
    cell = "largest ln B(D) / B(D') over beta, {}"
    yield compare_equal("003.figure-2.6.neighbours", cell.format("neighbours"), 1, steps, within=1e-9, note="(2.5)")
    widest = math.log(max(smooth) / min(smooth)) / BETA
    why = "(2.5) is printed for all D and D'; it is for neighbours"
    yield compare_corrected("003.figure-2.6.all", cell.format("all data sets"), 1, widest, 10, "7", why)


def _format_yes_no(holds: bool) -> str:
    return "yes" if holds else "no"


def _build_values(ones: int) -> list[int]:
    return [0] * (ROWS - ones) + [1] * ones


def _compute_local(ones: int) -> float:
    return float(local_sensitivity(_build_values(ones), "median", 0, 1))


def _compute_smooth(ones: int) -> float:
    return smooth_sensitivity(_build_values(ones), "median", 0, 1, BETA)


def draw_figure_2_6(_: Sequence[Row]) -> list[Chart]:
    """Three lines over the data sets."""
    places = range(ROWS + 1)
    whole = float(global_sensitivity("median", 0, 1))
    series = {
        "local": [(ones, _compute_local(ones)) for ones in places],
        "smooth bound": [(ones, _compute_smooth(ones)) for ones in places],
        "global": [(ones, whole) for ones in places],
    }
    sentence = f"Sensitivities of the median of {ROWS} values of 0 or 1, by how many are 1; beta {BETA:g}."
    return [draw_lines("Figure 2.6: sensitivities of a median", sentence, "values that are 1", "sensitivity", series)]


TABLES: tuple[Table, ...] = (
    Table("003-2.2", "Table 2.2", "The medical records and a noisy count of them.", compare_table_2_2),
    Table("003-2.3", "Table 2.3", "The exponential mechanism over four diseases.", compare_table_2_3, draw_table_2_3),
    Table("003-figure-2.3", "Figure 2.3", "The answers on two neighbours.", compare_figure_2_3, draw_figure_2_3),
    Table("003-figure-2.4", "Figure 2.4", "Their ratio, bounded by e^epsilon.", compare_figure_2_4, draw_figure_2_4),
    Table("003-figure-2.5", "Figure 2.5", "Sequential and parallel composition.", compare_figure_2_5, draw_figure_2_5),
    Table("003-figure-2.6", "Figure 2.6", "Local sensitivity and smooth bound.", compare_figure_2_6, draw_figure_2_6),
    book_gaussian.TABLE,
)
