"""A made-up registry of hospital patients, the same on every machine: `python -m discreet.sample FOLDER`.

Every draw is one `random()` of a seeded generator, which Python promises to keep, followed by products and sums alone;
no logarithm, whose last digit differs between machines. Some values are missing, and a few are wrong, as in real files.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import accumulate, product
from pathlib import Path
from random import Random
from typing import Generic, TypeVar

Value = TypeVar("Value")

SEED = 20150101
HEADER = "person_id,age,sex,education,occupation,income,hospital,diagnosis,smoker,bmi,stay,admitted"
HOSPITALS = {"Alder": 22, "Birch": 18, "Cedar": 15, "Elm": 13, "Hazel": 11, "Linden": 9, "Maple": 7, "Rowan": 5}
AGES = {(17, 29): 11, (30, 44): 17, (45, 59): 23, (60, 74): 29, (75, 84): 15, (85, 90): 5}
DAYS = [date(2015, 1, 1) + timedelta(days=day) for day in range(4018)]
WINTER_DAYS = [day for day in DAYS if day.month in {12, 1, 2}]
EDUCATION = ("none", "primary", "secondary", "vocational", "bachelor", "master", "doctorate")
EDUCATION_WEIGHTS = {24: (2, 6, 50, 22, 18, 2, 0), 44: (1, 4, 24, 26, 28, 14, 3), 64: (3, 10, 32, 30, 15, 8, 2)}
EDUCATION_WEIGHTS |= {90: (9, 28, 33, 19, 7, 3, 1)}
"""Weights of each education up to an age."""

# group / kind / occupation: weights with little, middling and much education; yearly income
OCCUPATIONS = """
professional / health / physician: 0 0 5; 98000
professional / health / pharmacist: 0 0 3; 64000
professional / health / psychologist: 0 0 3; 56000
professional / teaching / school teacher: 0 1 9; 49000
professional / teaching / lecturer: 0 0 4; 61000
professional / science / engineer: 0 1 9; 67000
professional / science / programmer: 0 3 9; 70000
professional / science / chemist: 0 0 3; 62000
professional / law / lawyer: 0 0 4; 88000
professional / law / notary: 0 0 1; 105000
management / executive / director: 0 1 4; 120000
management / executive / manager: 1 4 8; 76000
management / own business / shopkeeper: 3 4 2; 38000
technical / care / nurse: 0 9 6; 42000
technical / care / midwife: 0 1 1; 44000
technical / care / carer: 6 6 1; 27000
technical / craft / electrician: 2 6 0; 39000
technical / craft / carpenter: 3 5 0; 36000
technical / craft / plumber: 3 4 0; 38000
technical / craft / mechanic: 3 6 0; 36000
clerical / office / secretary: 2 7 2; 33000
clerical / office / accountant: 0 6 6; 47000
clerical / office / civil servant: 2 6 7; 43000
service / sales / shop assistant: 9 8 1; 25000
service / hospitality / cook: 6 5 0; 26000
service / hospitality / waiter: 7 4 1; 23000
service / protection / police officer: 0 4 2; 44000
service / protection / firefighter: 0 3 1; 42000
manual / transport / driver: 8 5 0; 31000
manual / transport / porter: 6 2 0; 26000
manual / land / farmer: 6 3 1; 29000
manual / land / gardener: 5 2 0; 25000
manual / building / builder: 9 4 0; 31000
manual / building / cleaner: 10 2 0; 21000
not working / learning / student: 0 0 0; 6000
not working / at home / homemaker: 7 4 2; 0
not working / at home / unemployed: 10 6 3; 0
not working / at home / retired: 0 0 0; 22000
"""

# chapter / block / diagnosis: weights when young, middle-aged, old; of women, of men; chronic; typical days in hospital
DIAGNOSES = """
circulatory / heart / myocardial infarction: 1 9 20; 2 4; 0; 6
circulatory / heart / heart failure: 0 4 26; 3 3; 1; 8
circulatory / heart / atrial fibrillation: 1 5 17; 3 3; 1; 4
circulatory / vessels / stroke: 1 5 20; 3 3; 0; 11
circulatory / vessels / hypertension: 1 8 10; 3 3; 1; 3
circulatory / vessels / varicose veins: 1 5 4; 4 2; 1; 2
respiratory / infection / pneumonia: 5 6 19; 3 3; 0; 7
respiratory / infection / influenza: 6 4 6; 3 3; 0; 4
respiratory / airways / asthma: 8 4 3; 4 3; 1; 3
respiratory / airways / chronic bronchitis: 0 5 13; 2 4; 1; 7
digestive / bowel / appendicitis: 13 5 2; 3 3; 0; 4
digestive / bowel / hernia: 3 8 8; 1 5; 0; 2
digestive / bowel / colitis: 6 5 3; 3 3; 1; 6
digestive / liver and bile / gallstones: 4 10 8; 5 2; 0; 4
digestive / liver and bile / cirrhosis: 1 6 4; 2 4; 1; 9
injury / fracture / hip fracture: 1 2 17; 5 2; 0; 12
injury / fracture / wrist fracture: 7 5 7; 4 3; 0; 1
injury / fracture / ankle fracture: 8 6 4; 3 3; 0; 3
injury / head / concussion: 12 4 5; 2 4; 0; 2
injury / skin / burn: 4 3 1; 3 3; 0; 8
cancer / solid / breast cancer: 1 9 8; 6 0; 1; 6
cancer / solid / prostate cancer: 0 5 12; 0 6; 1; 6
cancer / solid / lung cancer: 0 6 10; 2 4; 1; 9
cancer / solid / bowel cancer: 0 6 10; 3 3; 1; 9
cancer / blood / leukaemia: 2 3 4; 3 3; 1; 15
cancer / blood / lymphoma: 2 3 4; 3 3; 1; 12
mental / mood / depression: 13 9 4; 5 3; 1; 18
mental / mood / bipolar disorder: 6 4 1; 3 3; 1; 20
mental / psychosis / schizophrenia: 6 4 1; 2 4; 1; 26
mental / addiction / alcohol dependence: 6 8 2; 1 4; 1; 10
birth / labour / delivery: 40 0 0; 6 0; 0; 3
birth / labour / caesarean section: 12 0 0; 6 0; 0; 5
birth / pregnancy / miscarriage: 6 0 0; 6 0; 0; 1
metabolic / sugar / type 1 diabetes: 6 2 1; 3 3; 1; 4
metabolic / sugar / type 2 diabetes: 1 8 9; 3 4; 1; 5
metabolic / thyroid / overactive thyroid: 3 4 3; 5 1; 1; 4
kidney / stones / kidney stones: 4 8 5; 2 4; 0; 3
kidney / failure / kidney failure: 1 3 11; 3 4; 1; 9
joints / wear / worn hip: 0 4 15; 4 3; 1; 7
joints / wear / worn knee: 0 5 14; 4 3; 1; 6
joints / back / slipped disc: 5 11 4; 3 3; 0; 5
"""

SCHEMA = """\
# The public side of a made-up registry: one row for each patient. Analysts may read all of it but the source.
name: registry
source: registry.csv
neighbours: replace-one    # that there are {patients} patients is public
units: {patients}
unit: {{column: person_id, rows: 1}}
budget: {{epsilon: 3, delta: 1e-6}}
analyst_budget: {{epsilon: 1, delta: 1e-7}}
models: [dp]
individual_queries: no
partition: hospital
impossible: ["sex = 'F' AND diagnosis = 'prostate cancer'", "sex = 'M' AND diagnosis = 'delivery'"]

lookups:
  chapters: {{file: chapters.csv, key: diagnosis}}

columns:
  person_id: {{role: identifier}}
  age: {{kind: integer, lower: 17, upper: 90, role: quasi-identifier}}
  sex: {{kind: nominal, categories: [F, M], missing_values: ["?"], role: quasi-identifier}}
  education: {{kind: ordinal, categories: [{education}], role: quasi-identifier}}
  occupation: {{kind: nominal, taxonomy: occupation.json, role: quasi-identifier}}
  income: {{kind: number, lower: 0, upper: 500000, step: 0.01, missing_values: [n/a], role: confidential}}
  hospital: {{kind: nominal, categories: [{hospitals}]}}
  diagnosis: {{kind: nominal, taxonomy: diagnosis.json, role: confidential}}
  smoker: {{kind: boolean, role: confidential}}
  bmi: {{kind: number, lower: 10, upper: 70, step: 0.1, role: confidential}}
  stay: {{kind: integer, lower: 0, upper: 365}}    # days in hospital
  admitted: {{kind: date, lower: 2015-01-01, upper: 2025-12-31}}
"""


@dataclass(frozen=True, slots=True)
class TaxonomyLeaf:
    """A line of a table above: its place in the taxonomy, and its numbers."""

    group: str
    kind: str
    name: str
    numbers: tuple[tuple[int, ...], ...]

    @staticmethod
    def parse_table(text: str) -> tuple[TaxonomyLeaf, ...]:
        """Parse all lines of a table."""
        leaves = []
        for line in text.strip().splitlines():
            names, _, numbers = line.partition(": ")
            parts = tuple(tuple(map(int, part.split())) for part in numbers.split("; "))
            group, kind, name = names.split(" / ")
            leaves.append(TaxonomyLeaf(group, kind, name, parts))
        return tuple(leaves)


@dataclass(frozen=True, slots=True)
class WeightedChoice(Generic[Value]):
    """Values with whole weights."""

    values: tuple[Value, ...]
    bounds: tuple[int, ...]

    @staticmethod
    def of(weights: Mapping[Value, int]) -> WeightedChoice[Value]:
        """Build a choice from the weight of each value."""
        return WeightedChoice(tuple(weights), tuple(accumulate(weights.values())))

    def sample(self, generator: Random) -> Value:
        """Sample a value."""
        return self.values[bisect(self.bounds, int(generator.random() * self.bounds[-1]))]


OCCUPATION_LEAVES = {leaf.name: leaf for leaf in TaxonomyLeaf.parse_table(OCCUPATIONS)}
DIAGNOSIS_LEAVES = {leaf.name: leaf for leaf in TaxonomyLeaf.parse_table(DIAGNOSES)}
AGE_CHOICE = WeightedChoice.of(AGES)
HOSPITAL_CHOICE = WeightedChoice.of(HOSPITALS)
EDUCATION_CHOICES = {age: WeightedChoice.of(dict(enumerate(weights))) for age, weights in EDUCATION_WEIGHTS.items()}
OCCUPATION_CHOICES = [
    WeightedChoice.of({name: leaf.numbers[0][tier] for name, leaf in OCCUPATION_LEAVES.items()}) for tier in range(3)
]
DIAGNOSIS_CHOICES = {
    (stage, sex): WeightedChoice.of(
        {name: leaf.numbers[0][stage] * leaf.numbers[1][sex] for name, leaf in DIAGNOSIS_LEAVES.items()}
    )
    for stage, sex in product(range(3), range(2))
}
CELL_ERRORS = (
    (1, 0.003, ("0", "117", "999", "-1", "?")),
    (2, 0.006, ("?",)),
    (3, 0.025, ("",)),
    (4, 0.015, ("", "", "", "unknown")),
    (5, 0.04, ("", "", "n/a")),
    (7, 0.006, ("",)),
    (8, 0.03, ("",)),
    (9, 0.05, ("", "", "", "", "0.0")),
    (10, 0.004, ("",)),
    (11, 0.003, ("", "not known")),
)
"""A column, the share of its cells with errors, and the errors."""


def write_registry(folder: Path, patients: int = 50_000) -> Path:
    """Write the table, its schema and the public files beside it, and return the path of the schema."""
    generator = Random(SEED)
    rows = [",".join(_generate_row(number, generator)) for number in range(1, patients + 1)]
    chapters = [f"{name},{leaf.group},{leaf.numbers[2][0]}" for name, leaf in DIAGNOSIS_LEAVES.items()]
    names = {"education": ", ".join(EDUCATION), "hospitals": ", ".join(HOSPITALS)}
    texts = {
        "registry.csv": "\n".join([HEADER, *rows, ""]),
        "registry.yaml": SCHEMA.format(patients=patients, **names),
        "occupation.json": _format_taxonomy("occupation", OCCUPATION_LEAVES.values()),
        "diagnosis.json": _format_taxonomy("diagnosis", DIAGNOSIS_LEAVES.values()),
        "chapters.csv": "\n".join(["diagnosis,chapter,chronic", *chapters, ""]),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_bytes(text.encode())
    return folder / "registry.yaml"


def _format_taxonomy(root: str, leaves: Iterable[TaxonomyLeaf]) -> str:
    parents: dict[str, list[str]] = {root: []}
    for leaf in leaves:
        parents |= {leaf.group: [root], leaf.kind: [leaf.group], leaf.name: [leaf.kind]}
    return json.dumps({"attribute": root, "parents": parents}, indent=1) + "\n"


def _generate_row(number: int, generator: Random) -> list[str]:
    """The row of a patient as it was typed in, with some errors."""
    row = _generate_patient(number, generator)
    for column, share, replacements in CELL_ERRORS:
        if generator.random() < share:
            row[column] = _choose_value(replacements, generator)
    return row


def _generate_patient(number: int, generator: Random) -> list[str]:
    first, last = AGE_CHOICE.sample(generator)
    age = first + int(generator.random() * (last - first + 1))
    sex = int(generator.random() < 0.485)
    education = EDUCATION_CHOICES[next(limit for limit in EDUCATION_CHOICES if age <= limit)].sample(generator)
    job = _sample_job(age, education, generator)
    illness = DIAGNOSIS_CHOICES[(age >= 40) + (age >= 65), sex].sample(generator)
    smoking_chance = 0.32 + 0.06 * sex - 0.04 * education - 0.1 * (age >= 75)
    smoking_chance += 0.45 * (illness in {"lung cancer", "chronic bronchitis"})
    smokes = generator.random() < smoking_chance
    return [
        f"p{number}",
        str(age),
        "FM"[sex],
        EDUCATION[education],
        job,
        _sample_income(OCCUPATION_LEAVES[job].numbers[1][0], age, generator),
        HOSPITAL_CHOICE.sample(generator),
        illness,
        "true" if smokes else "false",
        _sample_bmi(age, illness, generator),
        str(int(DIAGNOSIS_LEAVES[illness].numbers[3][0] * (3 + age / 45) * generator.random() * generator.random())),
        _choose_value(WINTER_DAYS if illness == "influenza" else DAYS, generator).isoformat(),
    ]


def _sample_job(age: int, education: int, generator: Random) -> str:
    chance = generator.random()
    if age < 24 and chance < 0.5:
        return "student"
    if (age >= 60 and chance < 0.3) or (age >= 67 and chance < 0.95):
        return "retired"
    return OCCUPATION_CHOICES[(education >= 2) + (education >= 4)].sample(generator)


def _sample_income(usual_income: int, age: int, generator: Random) -> str:
    """A product of uniform factors: skewed like incomes."""
    factor = 0.6 + 0.4 * (min(age, 50) - 17) / 33
    for _ in range(4):
        factor *= 0.7 + 0.6 * generator.random()
    if generator.random() < 0.02:
        factor *= 3
    cents = int(100 * usual_income * factor)
    return f"{cents // 100}.{cents % 100:02}"


def _sample_bmi(age: int, illness: str, generator: Random) -> str:
    # Added one by one: sum() rounds otherwise from Python 3.12 on.
    spread = generator.random() + generator.random() + generator.random() + generator.random()
    tenths = 165 + int(45 * spread) + min(age, 70) // 3 + 35 * (illness == "type 2 diabetes")
    return f"{tenths // 10}.{tenths % 10}"


def _choose_value(values: Sequence[Value], generator: Random) -> Value:
    return values[int(generator.random() * len(values))]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m discreet.sample FOLDER")
    print(write_registry(Path(sys.argv[1])))
