"""A census, released three ways: tables whose totals add up, a private file, and a t-close file; which is worth what?

Run it: `python examples/census_release.py [FOLDER]`. The people are made up here. The released files, their manifests
and the reports for the custodian go to the folder, or to a temporary one.
"""

from __future__ import annotations

import csv
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np

from discreet import Answer, Custodian, Release

PEOPLE = 6000
REGIONS = ("coast", "hills", "plain", "town")
ALL = "(all)"
LINES = {"width": 100, "initial_indent": "   ", "subsequent_indent": "   "}
WORK = ("farm", "factory", "office", "shop", "none")
SCHEMA = f"""
name: census
source: census.csv
neighbours: replace-one
units: {PEOPLE}             # how many were counted is public
unit: {{column: person, rows: 1}}
budget: {{epsilon: 2}}
models: [dp]
impossible: ["age < 16 AND work IN ('farm', 'factory', 'office', 'shop')"]
columns:                    # what is missing stands for a value, so that no cell of a table is for what is missing
  person: {{role: identifier}}
  region: {{kind: nominal, categories: [{", ".join(REGIONS)}], missing: town, role: quasi-identifier}}
  sex: {{kind: nominal, categories: [F, M], missing: F, role: quasi-identifier}}
  age: {{kind: integer, lower: 0, upper: 100, role: quasi-identifier}}
  work: {{kind: nominal, categories: [{", ".join(WORK)}]}}
  income: {{kind: integer, lower: 0, upper: 100000, role: confidential}}
"""


def write_census(file: Path) -> None:
    """Everybody once; who works where depends on the region, and incomes on both."""
    chance = np.random.default_rng(1801)
    weights = {"coast": (1, 2, 3, 3), "hills": (5, 1, 1, 1), "plain": (4, 3, 1, 2), "town": (0, 3, 5, 3)}
    pay = {"farm": 18, "factory": 26, "office": 38, "shop": 22, "none": 6}
    with file.open("w", encoding="utf-8", newline="") as out:
        write = csv.writer(out).writerow
        write(["person", "region", "sex", "age", "work", "income"])
        for number in range(PEOPLE):
            region = str(chance.choice(REGIONS, p=[0.25, 0.15, 0.25, 0.35]))
            age = int(min(100, chance.gamma(4, 10)))
            chances = np.array(weights[region]) / sum(weights[region])
            working = 16 <= age < 66 and chance.random() < 0.8
            work = str(chance.choice(WORK[:4], p=chances)) if working else "none"
            income = 0 if age < 16 else int(min(100_000, 1000 * pay[work] * chance.lognormal(0, 0.4)))
            write([f"c{number}", region, chance.choice(["F", "M"]), age, work, income])


def ask_for_tables(custodian: Custodian) -> Answer:
    """People by region and sex with all their totals, in one question."""
    return custodian.answer("SELECT region, sex, COUNT(*) FROM census GROUP BY ROLLUP (region, sex)", epsilon=0.5)


def show_tables(answer: Answer) -> None:
    """As they are released: whole numbers, none below 0, parts that add up to their totals."""
    if answer.reconciled is None:
        raise SystemExit("there is nothing that these counts must fit")
    counts = {(row["region"], row["sex"]): row["COUNT(*)"] for row in answer.reconciled.rows}
    print(f"1. Tables. {answer.guarantee.words()}")
    print(f"   {'':<8}{'F':>7}{'M':>7}{'both':>7}")
    for region in (*REGIONS, ALL):
        across = [counts.get((region, sex), sum(counts[one, sex] for one in REGIONS)) for sex in ("F", "M", ALL)]
        print(f"   {region:<8}" + "".join(f"{count:>7,}" for count in across))
    print(textwrap.fill(f"Made to fit: {'; '.join(answer.reconciled.because)}.", **LINES))


def show_release(title: str, release: Release) -> None:
    """What it promises, what it is worth and what it gives away."""
    print(f"\n{title} {release.guarantee.words()}")
    for name, words in (("utility", release.utility), ("risk", release.risk)):
        print(textwrap.fill(f"{name}: {words}", **LINES))


def main() -> None:
    """Three releases of one census, from one account."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    write_census(folder / "census.csv")
    schema = folder / "census.yaml"
    schema.write_text(SCHEMA, encoding="utf-8")
    with Custodian.open(schema) as custodian:
        show_tables(ask_for_tables(custodian))
        private = custodian.publish("private-linked", folder / "private.csv", epsilon=1, report=folder / "private.html")
        show_release("2. A private file.", private)
        close = custodian.publish("t-closeness", folder / "close.csv", k=20, t=2, report=folder / "close.html")
        show_release("3. A t-close file: weaker, and not differential privacy.", close)
        spent = custodian.budget()[0]
    print(f"\nSpent: {float(spent.epsilon):g} of {float(spent.cap.epsilon):g}; {'; '.join(spent.flags)}.")
    print(f"The files and, for the custodian alone, the reports are in {folder}")


if __name__ == "__main__":
    main()
