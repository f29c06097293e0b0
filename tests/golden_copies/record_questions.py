"""Questions on the command line: each previewed and asked, on the screen and as JSON, and what the ledger keeps."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from run_steps import Case

FROM = "FROM registry"
COUNT = f"SELECT COUNT(*) {FROM} WHERE age >= 40"
STORED = ("ledger_entries", "ledger_answers", "ledger_parts")
COLUMNS = ("age", "sex", "education", "occupation", "income", "diagnosis", "smoker", "bmi", "stay", "admitted")
MANY = (
    ", ".join(f"COUNT({name})" for name in COLUMNS) + ", SUM(age), SUM(stay), SUM(bmi), AVG(age), AVG(stay), AVG(bmi)"
)
"""So many totals at once that Gaussian noise is the lesser."""

Asked = tuple[str, str, str]
"""A question, options of preview and ask, and options of ask alone."""

PLAIN: dict[str, Asked] = {
    # Additive noise.
    "count": (COUNT, "--epsilon 0.5", ""),
    "count-of-a-column": (f"SELECT COUNT(income) {FROM}", "--epsilon 0.5", ""),
    "count-of-units": (f"SELECT COUNT(DISTINCT person_id) {FROM} WHERE stay > 3", "--epsilon 0.5", ""),
    "count-of-a-concept": (f"SELECT COUNT(*) {FROM} WHERE diagnosis = 'circulatory'", "--epsilon 0.5", ""),
    "count-of-dates": (
        f"SELECT COUNT(*) {FROM} WHERE admitted BETWEEN '2018-01-01' AND '2020-12-31'",
        "--epsilon 0.5",
        "",
    ),
    "count-by-lookup": (
        f"SELECT COUNT(*) {FROM} JOIN chapters ON registry.diagnosis = chapters.diagnosis WHERE chapters.chronic = 1",
        "--epsilon 0.5",
        "",
    ),
    "count-in-a-part": (f"SELECT COUNT(*) {FROM} WHERE hospital = 'Alder' AND smoker", "--epsilon 0.5", ""),
    "count-not-null": (
        f"SELECT COUNT(*) {FROM} WHERE NOT (sex IS NULL OR education IN ('none', 'primary'))",
        "--epsilon 0.5",
        "",
    ),
    "public-count": (f"SELECT COUNT(*) {FROM}", "--epsilon 0.5", ""),
    "impossible-count": (
        f"SELECT COUNT(*) {FROM} WHERE sex = 'F' AND diagnosis = 'prostate cancer'",
        "--epsilon 0.5",
        "",
    ),
    "sum": (f"SELECT SUM(stay) {FROM}", "--epsilon 0.5", ""),
    "mean": (f"SELECT AVG(age) {FROM} WHERE smoker", "--epsilon 0.5", ""),
    "mean-of-expected-rows": (f"SELECT AVG(age) {FROM} WHERE smoker", "--epsilon 0.5 --rows 100", ""),
    "mean-and-population": (f"SELECT AVG(smoker) {FROM}", "--epsilon 0.5", "--population"),
    "count-and-population": (COUNT, "--epsilon 0.5", "--population-size 20000"),
    "variance": (f"SELECT VAR(age) {FROM}", "--epsilon 1", ""),
    "deviation": (f"SELECT STDDEV(bmi) {FROM} WHERE sex = 'F'", "--epsilon 1", ""),
    # Selection.
    "median": (f"SELECT MEDIAN(age) {FROM}", "--epsilon 0.5", ""),
    "median-of-dates": (f"SELECT MEDIAN(admitted) {FROM}", "--epsilon 0.5", ""),
    "median-with-interval": (f"SELECT MEDIAN(age) {FROM}", "--epsilon 0.5 --interval", ""),
    "median-with-prior": (f"SELECT MEDIAN(age) {FROM}", "--epsilon 0.5 --prior 'normal(55, 10)'", ""),
    "median-with-tail": (f"SELECT MEDIAN(age) {FROM}", "--epsilon 0.5 --prior 'uniform(40, 60)' --tail", ""),
    "quantile": (f"SELECT QUANTILE(income, 0.9) {FROM}", "--epsilon 0.5", ""),
    "quantiles": (f"SELECT QUANTILE(income, 0.25, 0.5, 0.75) {FROM}", "--epsilon 0.5", ""),
    "trimmed-mean-refused": (f"SELECT TRIMMED_MEAN(income, 0.1) {FROM}", "--epsilon 1", ""),
    "least": (f"SELECT MIN(age) {FROM}", "--epsilon 0.5", ""),
    "largest": (f"SELECT MAX(stay) {FROM}", "--epsilon 0.5", ""),
    "second-largest": (f"SELECT SECOND_MAX(stay) {FROM}", "--epsilon 0.5", ""),
    "mode": (f"SELECT MODE(diagnosis) {FROM}", "--epsilon 0.5", ""),
    "mode-of-ordered": (f"SELECT MODE(education) {FROM} WHERE age < 60", "--epsilon 0.5", ""),
    "mode-with-prior": (
        f"SELECT MODE(hospital) {FROM}",
        """--epsilon 0.5 --prior '{"Alder": 3, "Birch": 2, "Elm": 1}'""",
        "",
    ),
    # Groups, and counts that belong together.
    "groups": (f"SELECT hospital, COUNT(*) {FROM} GROUP BY hospital", "--epsilon 0.5", ""),
    "groups-of-two": (f"SELECT sex, smoker, COUNT(*) {FROM} GROUP BY sex, smoker", "--epsilon 0.7", ""),
    "groups-of-means": (f"SELECT hospital, AVG(stay), MEDIAN(age) {FROM} GROUP BY hospital", "--epsilon 1", ""),
    "bins": (f"SELECT BIN(age, 20), COUNT(*) AS many {FROM} GROUP BY BIN(age, 20)", "--epsilon 0.5", ""),
    "having": (
        f"SELECT hospital, COUNT(*) AS n {FROM} GROUP BY hospital HAVING COUNT(*) > 50 ORDER BY n DESC",
        "--epsilon 0.5",
        "",
    ),
    "limit": (
        f"SELECT education, COUNT(*) {FROM} GROUP BY education ORDER BY COUNT(*) DESC LIMIT 3",
        "--epsilon 0.5",
        "",
    ),
    "ordered": (f"SELECT hospital, SUM(stay) {FROM} GROUP BY hospital ORDER BY hospital DESC", "--epsilon 0.5", ""),
    "rollup": (f"SELECT hospital, sex, COUNT(*) {FROM} GROUP BY ROLLUP (hospital, sex)", "--epsilon 0.7", ""),
    "histogram": (f"SELECT HISTOGRAM(income, 32) {FROM}", "--epsilon 0.5", "--range 20000..60000 --range 0..10000"),
    "small-histogram": (f"SELECT HISTOGRAM(age, 4) {FROM} WHERE smoker", "--epsilon 0.5", ""),
    "several-counts": (
        f"SELECT COUNT(*) FILTER (WHERE age < 40), COUNT(*) FILTER (WHERE age < 65), COUNT(*) {FROM}",
        "--epsilon 0.5",
        "",
    ),
    "several-aggregates": (f"SELECT AVG(age) AS mean, COUNT(*), MAX(stay) {FROM} WHERE stay > 3", "--epsilon 1", ""),
    # What must be true.
    "constraints": (
        f"SELECT education, COUNT(*) {FROM} WHERE smoker GROUP BY education",
        "--epsilon 0.5",
        "--constraint 'total <= 200' --constraint 'each <= 90'",
    ),
    "rising": (
        f"SELECT BIN(stay, 60), COUNT(*) {FROM} GROUP BY BIN(stay, 60)",
        "--epsilon 0.5",
        "--constraint falling",
    ),
    # What is known already.
    "prior": (COUNT, "--epsilon 0.2 --prior 'normal(390, 8)'", ""),
    "prior-far-off": (COUNT, "--epsilon 0.5 --prior 'normal(100, 5)'", ""),
    "prior-mixture": (
        f"SELECT AVG(income) {FROM} WHERE sex = 'F'",
        "--epsilon 0.3 --prior '0.9 normal(30000, 4000) + 0.1 cauchy(30000, 4000) on [0, 500000]'",
        "",
    ),
    "prior-triangular": (f"SELECT SUM(stay) {FROM}", "--epsilon 0.3 --prior 'triangular(2000, 4000, 9000)'", ""),
    "prior-without-tail": (COUNT, "--epsilon 0.2 --prior 'laplace(390, 8)' --no-tail", ""),
    "refinement-of-a-count": (COUNT, "--epsilon 0.5 --prior 'uniform(300, 450)' --distance continuous", ""),
    "refinement-of-a-largest": (f"SELECT MAX(age) {FROM}", """--epsilon 0.75 --prior '{"60": 1, "89": 1}'""", ""),
    # How near it should be.
    "accuracy": (f"SELECT COUNT(*) {FROM} WHERE age >= 50", "--accuracy '±50 at 95%'", ""),
    "accuracy-of-a-mean": (f"SELECT AVG(age) {FROM} WHERE smoker", "--accuracy '±10 at 90%' --rows 100", ""),
    "noise-scale": (COUNT, "--noise-scale 20", ""),
}
ONE_PERSON: dict[str, Asked] = {
    "one-nominal": ("SELECT sex FROM registry FOR UNIT 'p17'", "--epsilon 1", ""),
    "one-ordinal": ("SELECT education FROM registry FOR UNIT 'p17'", "--epsilon 1 --distance ordinal", ""),
    "one-semantic": ("SELECT diagnosis FROM registry FOR UNIT 'p17'", "--epsilon 1 --distance semantic", ""),
    "one-truth": (
        "SELECT smoker FROM registry FOR UNIT 'p17'",
        """--epsilon 1 --prior '{"true": 1, "false": 9}'""",
        "",
    ),
    "one-number": ("SELECT age FROM registry FOR UNIT 'p17'", "--epsilon 1 --prior 'normal(50, 20)'", ""),
    "one-date": ("SELECT admitted FROM registry FOR UNIT 'p17'", "--epsilon 0.5 --prior 'normal(2020-01-01, 300)'", ""),
    "one-absent": (
        "SELECT age FROM registry FOR UNIT 'nobody'",
        "--epsilon 1 --prior 'normal(50, 20)' --distance nominal",
        "",
    ),
}
APPROXIMATE: dict[str, Asked] = {
    "gaussian-totals": (f"SELECT {MANY} {FROM}", "--epsilon 0.9 --delta 1e-3", ""),
    "gaussian-noise-scale": (
        f"SELECT COUNT(*) {FROM} WHERE age >= 40",
        "--noise-scale 20 --model approx-dp --delta 1e-3",
        "",
    ),
    "gaussian-histogram": (f"SELECT HISTOGRAM(age, 16) {FROM}", "--epsilon 0.5 --delta 1e-3", ""),
}
INDIVIDUAL: dict[str, Asked] = {
    "trimmed-mean": (f"SELECT TRIMMED_MEAN(age, 0.1) {FROM}", "--epsilon 1", ""),
    "individual-median": (f"SELECT MEDIAN(age) {FROM}", "--epsilon 0.5 --model individual-dp", ""),
    "individual-quantile": (f"SELECT QUANTILE(age, 0.25) {FROM}", "--epsilon 0.5 --model individual-dp", ""),
    "individual-largest": (f"SELECT MAX(age) {FROM}", "--epsilon 0.5 --model individual-dp", ""),
    "individual-second": (f"SELECT SECOND_MAX(age) {FROM}", "--epsilon 0.5 --model individual-dp", ""),
    "individual-mean-refused": (f"SELECT AVG(age) {FROM}", "--epsilon 0.5 --model individual-dp", ""),
}
PUBLISHED: dict[str, Asked] = {
    "published": (f"SELECT COUNT(*) {FROM} WHERE sex = 'F' AND smoker", "--epsilon 0.5", ""),
    "published-itself": (f"SELECT sex, COUNT(*) {FROM} GROUP BY sex", "--epsilon 0.5", ""),
}
VISITS: dict[str, Asked] = {
    "visits-count": ("SELECT COUNT(*) FROM visits", "--epsilon 0.5", ""),
    "visits-units": ("SELECT COUNT(DISTINCT who) FROM visits WHERE cost > 20", "--epsilon 0.5", ""),
    "visits-sum": ("SELECT SUM(cost) FROM visits", "--epsilon 0.5", ""),
    "visits-mean": ("SELECT AVG(cost), COUNT(*) FROM visits WHERE day >= '2024-06-01'", "--epsilon 1", ""),
    "visits-falling": ("SELECT number, COUNT(*) FROM visits GROUP BY number", "--epsilon 1", ""),
    "visits-groups-gaussian": (
        "SELECT number, COUNT(*), SUM(cost) FROM visits GROUP BY number",
        "--epsilon 1 --delta 1e-3",
        "",
    ),
    "visits-private-keys": (
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward",
        "--epsilon 2 --delta 1e-2 --model approx-dp",
        "",
    ),
    "visits-private-keys-limit": (
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 2",
        "--epsilon 2 --delta 1e-2 --model approx-dp",
        "",
    ),
    "visits-private-keys-mean": (
        "SELECT ward, AVG(cost) FROM visits GROUP BY ward",
        "--epsilon 2 --delta 1e-2 --model approx-dp",
        "",
    ),
    "visits-median": ("SELECT MEDIAN(cost) FROM visits", "--epsilon 1", ""),
    "visits-population": ("SELECT COUNT(*) FROM visits WHERE paid", "--epsilon 1", "--population"),
}
GROUPS = {"one-person": ONE_PERSON, "approximate": APPROXIMATE, "individual": INDIVIDUAL, "published": PUBLISHED}
CHANGES = {
    "one-person": [("individual_queries: no", "individual_queries: yes")],
    "approximate": [
        ("models: [dp]", "models: [dp, approx-dp]"),
        ("epsilon: 3, delta: 1e-6", "epsilon: 3, delta: 0.01"),
        ("epsilon: 1, delta: 1e-7", "epsilon: 1, delta: 0.01"),
    ],
    "individual": [
        ("models: [dp]", "models: [dp, individual-dp]\nindividual_dp_reason: a published protocol asks for it"),
        ("lower: 17, upper: 90,", "lower: 17, upper: 90, missing: 40,"),
    ],
    "published": [
        (
            "partition: hospital",
            "published: [{statistic: women, value: 248, question: \"SELECT COUNT(*) FROM registry WHERE sex = 'F'\"}, "
            "{statistic: beds, value: 700}]",
        )
    ],
}
"""What the schema of each group says otherwise than that of the made-up registry."""
ANEW = {"individual", "published"}
"""Groups whose schema has other columns, or another partition, than the one that is registered."""
VISITS_SCHEMA = """\
name: visits
source: visits.csv
neighbours: add-remove
unit: {column: who, rows: 3}
budget: {epsilon: 5, delta: 0.05, max_epsilon: 8}
models: [dp, approx-dp]
columns:
  number: {kind: integer, lower: 1, upper: 4, counts: falling}
  ward: {kind: nominal, keys: private}
  cost: {kind: number, lower: 0, upper: 100, step: 0.5}
  day: {kind: date, lower: 2024-01-01, upper: 2024-12-31}
  paid: {kind: boolean}
"""


def write_visits(folder: Path) -> Path:
    """Write a made-up table of visits, several of each person, with its schema."""
    wards = ("north", "south", "east", "west")
    lines = ["who,number,ward,cost,day,paid"]
    for person in range(1, 121):
        for number in range(1, 2 + person % 4):
            ward = "attic" if person == 50 else wards[(person * person + number) % 7 % 4]
            cost, month, day = (person * 37 + number * 11) % 190 / 2, (person + number) % 12 + 1, person % 28 + 1
            lines.append(f"v{person},{number},{ward},{cost},2024-{month:02}-{day:02},{'yes' if person % 3 else 'no'}")
    (folder / "visits.csv").write_text("\n".join([*lines, ""]))
    (folder / "visits.yaml").write_text(VISITS_SCHEMA)
    return folder / "visits.yaml"


def make(registered: Path) -> Iterator[Case]:
    """Yield a case for each question, and those about several answers."""
    for name, asked in PLAIN.items():
        yield _ask(Case(f"ask/{name}", registered), "registry", asked)
    for group, questions in GROUPS.items():
        for name, asked in questions.items():
            case = Case(f"ask/{name}", registered)
            case.change("registry.yaml", *CHANGES[group])
            if group in ANEW:
                shutil.rmtree(case.folder / "registry.discreet")
            yield _ask(case, "registry", asked)
    for name, asked in VISITS.items():
        case = Case(f"ask/{name}")
        write_visits(case.folder)
        yield _ask(case, "visits", asked)
    yield from _make_again(registered)


def _ask(case: Case, schema: str, asked: Asked) -> Case:
    """Preview a question and ask it, both twice; the second answer is the stored one."""
    question, options, further_options = asked
    words, further_words = shlex.split(options), shlex.split(further_options)
    preview, ask = (
        ("preview", f"{schema}.yaml", question, *words),
        ("ask", f"{schema}.yaml", question, *words, *further_words),
    )
    # As JSON too where more was said than an epsilon: the others say little that the answer does not say.
    commands = [preview, (*preview, "--json")] if words[2:] or words[0] != "--epsilon" else [preview]
    case.run_all(*commands, ask, (*ask, "--json"))
    case.show_tables(f"{schema}.discreet/ledger.db", STORED)
    return case


def _make_again(registered: Path) -> Iterator[Case]:
    """Yield cases about answers that are stored, taken from others, or asked for in another form."""
    file, half = "registry.yaml", ("--epsilon", "0.5")
    case = Case("ask/again-fresh-and-keyed", registered)
    case.run("ask", file, COUNT, *half, "--json")
    case.run("ask", file, f"SELECT COUNT(*) {FROM} WHERE NOT age < 40", *half)
    case.run("preview", file, COUNT, *half)
    case.run("ask", file, COUNT, "--epsilon", "0.2", "--fresh", "--json")
    for _ in range(2):
        case.run("ask", file, COUNT, "--epsilon", "0.1", "--fresh", "--key", "k1", "--json")
    case.run("ask", file, COUNT, "--epsilon", "0.2", "--fresh", "--key", "k1")
    case.run("ask", file, COUNT, "--accuracy", "±50 at 95%", "--json")
    case.run("budget", file, "--analyst", "analyst")
    case.run("history", file)
    case.show_tables("registry.discreet/ledger.db")
    yield case
    case = Case("ask/degraded-and-shared", registered)
    case.run("ask", file, COUNT, *half, "--analyst", "ann")
    for who, reuse in (("bob", ()), ("cat", ("--reuse", "any")), ("dan", ("--reuse", "all"))):
        offer = ("--epsilon", "0.1", "--analyst", who, *reuse)
        case.run("preview", file, COUNT, *offer)
        case.run("preview", file, COUNT, *offer, "--json")
        case.run("ask", file, COUNT, *offer)
        case.run("ask", file, COUNT, *offer, "--json")
    case.run("budget", file, "--analyst", "bob", "--json")
    case.run("history", file, "--json")
    case.show_tables("registry.discreet/ledger.db")
    yield case
    case = Case("ask/standard-input", registered)
    case.run("ask", file, COUNT, *half)
    case.run("ask", file, "-", *half, "--json", typed=COUNT)
    case.show_tables("registry.discreet/ledger.db", STORED)
    yield case
    case = Case("ask/picture", registered)
    case.run("ask", file, COUNT, *half, "--prior", "normal(390, 8)", "--plot", "out.html")
    case.show("out.html")
    case.run("ask", file, f"SELECT HISTOGRAM(age, 4) {FROM}", *half, "--plot", "bars.html", "--json")
    case.show("bars.html")
    yield case
    case = Case("ask/used-up", registered)
    case.run("ask", file, COUNT, "--epsilon", "0.8")
    case.run("ask", file, f"SELECT AVG(age) {FROM}", *half)
    case.run("ask", file, f"SELECT AVG(age) {FROM}", *half, "--json")
    case.run("preview", file, f"SELECT AVG(age) {FROM}", *half)
    case.run("ask", file, f"SELECT COUNT(*) {FROM} WHERE smoker", "--accuracy", "±2 at 95%")
    case.run("ask", file, COUNT, "--noise-scale", "1", "--fresh")
    yield case
