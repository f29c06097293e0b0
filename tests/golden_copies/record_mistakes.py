"""Mistakes on purpose: what is said of each, and the exit code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from run_steps import Case

FILE, FROM = "registry.yaml", "FROM registry"
COUNT = f"SELECT COUNT(*) {FROM} WHERE age >= 40"
QUESTIONS = (
    "",
    "nonsense",
    f"SELECT COUNT(* {FROM}",
    f"SELECT COUNT(*) {FROM}; DROP TABLE registry",
    f"DELETE {FROM}",
    f"SELECT * {FROM}",
    f"SELECT age {FROM}",
    "SELECT COUNT(*)",
    "SELECT COUNT(*) FROM patients",
    "SELECT COUNT(*) FROM (SELECT * FROM registry)",
    f"SELECT COUNT(*) {FROM} WHERE age > (SELECT AVG(age) FROM registry)",
    f"SELECT COUNT(*) {FROM} WHERE ABS(age) > 30",
    f"SELECT COUNT(*) {FROM} WHERE age = 'old'",
    f"SELECT COUNT(*) {FROM} WHERE sex = 'X'",
    f"SELECT COUNT(*) {FROM} WHERE income > 1e400",
    f"SELECT COUNT(*) {FROM} WHERE admitted > '2020-13-01'",
    f"SELECT COUNT(*) {FROM} WHERE {'(' * 60}age > 30{')' * 60}",
    f"SELECT COUNT(*) {FROM} JOIN patients ON registry.person_id = patients.person_id",
    f"SELECT AVG(salary) {FROM}",
    f"SELECT AVG(person_id) {FROM}",
    f"SELECT AVG(sex) {FROM}",
    f"SELECT COUNT(DISTINCT age) {FROM}",
    f"SELECT QUANTILE(age, 1.5) {FROM}",
    f"SELECT QUANTILE(age) {FROM}",
    f"SELECT TRIMMED_MEAN(age, 0.7) {FROM}",
    f"SELECT HISTOGRAM(age, 0) {FROM}",
    f"SELECT HISTOGRAM(sex, 4) {FROM}",
    f"SELECT BIN(age, 0), COUNT(*) {FROM} GROUP BY BIN(age, 0)",
    f"SELECT income, COUNT(*) {FROM} GROUP BY income",
    f"SELECT hospital, COUNT(*) {FROM} GROUP BY sex",
    f"SELECT hospital, COUNT(*) {FROM} GROUP BY hospital LIMIT -1",
    f"SELECT hospital, COUNT(*) {FROM} GROUP BY hospital ORDER BY income",
    f"SELECT hospital, COUNT(*) {FROM} GROUP BY hospital HAVING AVG(age) > 3",
    f"SELECT COUNT(*) {FROM} WINDOW w AS (PARTITION BY sex)",
    "SELECT age FROM registry FOR UNIT 'p17'",
    f"SELECT CORR(age, bmi) {FROM}",
    f"SELECT SUM(age * 2) {FROM}",
    '{"from": "registry"',
)
OPTIONS: tuple[tuple[str, ...], ...] = (
    (),
    ("--epsilon", "0"),
    ("--epsilon", "-1"),
    ("--epsilon", "many"),
    ("--epsilon", "50"),
    ("--epsilon", "1e-30"),
    ("--epsilon", "0.1", "--delta", "0.1"),
    ("--epsilon", "0.1", "--accuracy", "±5 at 95%"),
    ("--accuracy", "near"),
    ("--accuracy", "±5 at 200%"),
    ("--noise-scale", "0"),
    ("--epsilon", "0.1", "--prior", "normal(1)"),
    ("--epsilon", "0.1", "--prior", "unknown(1, 2)"),
    ("--epsilon", "0.1", "--prior", "normal(1, -2)"),
    ("--epsilon", "0.1", "--prior", '{"x": -1}'),
    ("--epsilon", "0.1", "--distance", "continuous"),
    ("--epsilon", "0.1", "--prior", "normal(390, 8)", "--distance", "far"),
    ("--epsilon", "0.1", "--model", "approx-dp"),
    ("--epsilon", "0.1", "--model", "best"),
    ("--epsilon", "0.1", "--model", "individual-dp"),
    ("--epsilon", "0.1", "--interval"),
    ("--epsilon", "0.1", "--tail"),
    ("--epsilon", "0.1", "--rows", "1.5"),
    ("--epsilon", "0.1", "--range", "1..2"),
    ("--epsilon", "0.1", "--range", "1"),
    ("--epsilon", "0.1", "--constraint", "nonsense"),
    ("--epsilon", "0.1", "--constraint", "total = 9999"),
    ("--epsilon", "0.1", "--constraint", "fact: total = 80"),
    ("--epsilon", "0.1", "--population-size", "3"),
    ("--epsilon", "0.1", "--plot", "out.txt"),
    ("--epsilon", "0.1", "--reuse", "all"),
    ("--epsilon", "0.1", "--wait", "0"),
    ("--epsilon", "0.1", "--analyst", ""),
    ("--epsilon", "0.1", "--key", ""),
    ("--epsilon", "0.1", "--ledger", "nowhere/ledger.db"),
    ("--epsilon", "0.1", "--unknown"),
    ("--epsilon", "0.1", "more"),
)
SCHEMAS = (
    ("name: registry", "name: my registry"),
    ("name: registry\n", ""),
    ("source: registry.csv", "source: none.csv"),
    ("source: registry.csv", "source: registry.txt"),
    ("replace-one ", "replace-all "),
    ("units: 500", "units: -5"),
    ("units: 500\n", ""),
    ("epsilon: 3", "epsilon: 0"),
    ("delta: 1e-6", "delta: 2"),
    ("models: [dp]", "models: [dq]"),
    ("models: [dp]", "models: [individual-dp]"),
    ("partition: hospital", "partition: age"),
    ("partition: hospital", "colour: blue"),
    ("lower: 17, upper: 90", "lower: 90, upper: 17"),
    ("kind: ordinal", "kind: ordered"),
    ("categories: [F, M]", "categories: [F, F]"),
    ("taxonomy: diagnosis.json", "taxonomy: none.json"),
    ("role: quasi-identifier", "role: quasi"),
    ("file: chapters.csv", "file: none.csv"),
    ("columns:", "columns: {"),
    ("sex = 'F' AND diagnosis", "sex = 'Q' AND diagnosis"),
    ("step: 0.01", "step: 0"),
)
WORDS: tuple[tuple[str, ...], ...] = (
    ("verfy",),
    ("ledger",),
    ("token",),
    ("ask",),
    ("ask", FILE),
    ("history", FILE, "--limit", "0"),
    ("history", FILE, "--limit"),
    ("budget", "none.yaml"),
    ("budget", FILE, "--tight"),
    ("check", "."),
    ("init", "none.csv"),
    ("init", "diagnosis.json"),
    ("publish", FILE),
    ("publish", "magic", FILE, "--out", "out.csv"),
    ("publish", "mdav", FILE, "-k", "1", "--out", "out.csv"),
    ("publish", "mdav", FILE, "-k", "9999", "--out", "out.csv"),
    ("publish", "mdav", FILE, "-k", "10", "--out", "out.txt"),
    ("publish", "mdav", FILE, "-k", "10", "--out", "out.csv", "--epsilon", "1"),
    ("publish", "mdav", FILE, "-k", "10", "--out", "nowhere/out.csv"),
    ("publish", "private-linked", FILE, "--out", "out.csv"),
    ("publish", "private-linked", FILE, "--epsilon", "9", "--out", "out.csv"),
    ("publish", "private-columns", FILE, "--epsilon", "1", "--column", "salary", "--out", "out.csv"),
    ("publish", "t-closeness", FILE, "-k", "10", "--out", "out.csv"),
    ("publish", "mdav-swap", FILE, "-k", "10", "--k-of", "income", "--out", "out.csv"),
    ("publish", "generalise", FILE, "-k", "10", "--hierarchies", "none.json", "--out", "out.csv"),
    ("publish", FILE, "--method", "mdav", "-k", "10", "--out", "out.csv"),
    ("publish", "sweep", FILE, "--ks", "k=3", "--out", "out.csv"),
    ("publish", "sweep", FILE, "--ks", "many"),
    ("verify", "none.csv"),
    ("assess", FILE, "none.csv"),
    ("audit", "laplace"),
    ("audit", "laplace", "--epsilon", "1", "--draws", "3"),
    ("audit", "laplace", "--epsilon", "1", "--confidence", "95"),
    ("audit", "laplace", "--epsilon", "1", "--pair", "0", "1"),
    ("audit", FILE, "--epsilon", "1"),
    ("token", "list", "--config", "none.yaml"),
    ("ledger", "restore", "none.db", "new.db", "--forgotten", "0"),
    ("ledger", "restore", "none.db", "new.db"),
)


def make(registered: Path) -> Iterator[Case]:
    """Yield a case for each kind of mistake."""
    case = Case("mistakes/questions", registered)
    case.run_all(*(("ask", FILE, question, "--epsilon", "0.1") for question in QUESTIONS))
    case.run("ask", FILE, QUESTIONS[1], "--epsilon", "0.1", "--json")
    case.run("ask", FILE, "-", "--epsilon", "0.1", typed="SELECT")
    yield case
    case = Case("mistakes/options", registered)
    case.run_all(*(("ask", FILE, COUNT, *options) for options in OPTIONS))
    yield case
    case = Case("mistakes/schemas", registered)
    text = (case.folder / FILE).read_text()
    for number, (old, new) in enumerate(SCHEMAS):
        case.write(f"changed{number}.yaml", text)
        case.change(f"changed{number}.yaml", (old, new))
        case.add(f"== in changed{number}.yaml {old!r} is {new!r}", "")
    case.run_all(*(("check", f"changed{number}.yaml") for number in range(len(SCHEMAS))))
    broken = {"empty": "", "list": "[1, 2]\n", "broken": "a: [\n", "binary": "\0\1\n"}
    for name, content in broken.items():
        case.write(f"{name}.yaml", content)
    case.run_all(*(("check", f"{name}.yaml") for name in broken))
    yield case
    case = Case("mistakes/words-and-files", registered)
    case.run_all(*WORDS)
    case.run("verfy", "--json")
    yield case
    case = Case("mistakes/damaged", registered)
    for name in ("manifest.json", "ledger.db", "snapshot-1.duckdb"):
        path = case.folder / "registry.discreet" / name
        original = path.read_bytes()
        path.write_bytes(b"spoilt" * 100)
        case.add(f"== registry.discreet/{name} is spoilt", "")
        case.run("ask", FILE, COUNT, "--epsilon", "0.1")
        case.run("budget", FILE)
        path.unlink()
        case.add(f"== registry.discreet/{name} is gone", "")
        case.run("ask", FILE, COUNT, "--epsilon", "0.1")
        path.write_bytes(original)
    yield case
