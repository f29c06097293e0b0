"""A pandas data frame in; private answers and a private file out, as data frames.

Run it: `python examples/pandas_in_and_out.py`. The survey is made up here; all files go to a temporary folder.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from discreet import Custodian

# What is public about the table. The bounds are what is known of any such survey; they are not taken from the answers.
SCHEMA = """
name: survey
source: memory              # the data frame is handed over below
neighbours: replace-one
units: 4000                 # how many took part is public
unit: {column: person, rows: 1}
budget: {epsilon: 3}
models: [dp]
columns:
  person: {role: identifier}
  team: {kind: nominal, categories: [kitchen, office, workshop]}
  hours: {kind: integer, lower: 0, upper: 80}
  content: {kind: boolean}
"""


def make_survey(people: int = 4000) -> pd.DataFrame:
    """What 4,000 people might say about their week."""
    chance = np.random.default_rng(7)
    team = chance.choice(["kitchen", "office", "workshop"], people, p=[0.2, 0.5, 0.3])
    usual = pd.Series(team).map({"kitchen": 44, "office": 37, "workshop": 40}).to_numpy()
    hours = np.clip(chance.normal(usual, 6), 0, 80).round().astype(int)
    content = chance.random(people) < 1.1 - hours / 80
    return pd.DataFrame({"person": [f"p{n}" for n in range(people)], "team": team, "hours": hours, "content": content})


def ask_for_answers(custodian: Custodian) -> pd.DataFrame:
    """One question, its groups as rows; the interval of every number beside it."""
    answer = custodian.answer("SELECT team, AVG(hours), COUNT(*) FROM survey GROUP BY team", epsilon=1)
    frame = pd.DataFrame(answer.rows).set_index("team")
    spans = pd.DataFrame(answer.intervals(0.95), index=frame.index)
    frame["hours lie in"] = [f"{low:.1f} to {high:.1f}" for low, high in spans["AVG(hours)"]]
    print(answer.guarantee.words())
    return frame[frame.index.notna()]  # the last group is of those whose team is missing


def publish_private_file(custodian: Custodian, folder: Path) -> pd.DataFrame:
    """A file that may leave, read back. It costs epsilon like a question, and no row of it is copied from anybody's."""
    release = custodian.publish(
        "private-linked", folder / "survey.parquet", epsilon=1, columns=["team", "hours", "content"]
    )
    print(release.guarantee.words())
    return pd.read_parquet(release.files[0])


def main() -> None:
    """In, out, and beside the truth, which only the custodian sees."""
    people = make_survey()
    folder = Path(tempfile.mkdtemp())
    (folder / "survey.yaml").write_text(SCHEMA, encoding="utf-8")
    with Custodian.open(folder / "survey.yaml", source=people) as custodian:
        frame = ask_for_answers(custodian)
        frame["true mean"] = people.groupby("team")["hours"].mean()
        print(frame.round(1).to_string(), end="\n\n")

        private_rows = publish_private_file(custodian, folder)
        both = pd.DataFrame(
            {
                "in the private file": private_rows.groupby("team")["content"].mean(),
                "in the survey": people.groupby("team")["content"].mean(),
            }
        )
        print("Share of those who are content:", both.round(2).to_string(), sep="\n")
        print(f"Left of epsilon 3: {float(custodian.budget()[0].left):g}")


if __name__ == "__main__":
    main()
