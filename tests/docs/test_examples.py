"""Every script of examples/ runs where it is started, and what it prints is true."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import pytest

from support import fork_server
from support.seeded_entropy import BOARD

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, folder: Path, *arguments: str) -> str:
    """What a script prints in a folder of its own, with little in its environment; forked, since imports take long."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder), "PYTHONWARNINGS": "error"}
    environment |= {name: os.environ[name] for name in (BOARD, "PYTHONPATH")}  # what it starts draws from a seed too
    done = fork_server.run_forked([str(EXAMPLES / name), *arguments], folder, environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pandas_in_and_out(tmp_path: Path) -> None:
    """Means near the true ones beside them, and a file whose shares are near the survey's."""
    output = run("pandas_in_and_out.py", tmp_path)
    means = re.findall(r"^(kitchen|office|workshop) +([\d.]+) +\d+ +[\d.]+ to [\d.]+ +([\d.]+)$", output, re.MULTILINE)
    assert [name for name, *_ in means] == ["kitchen", "office", "workshop"]
    assert all(abs(float(answer) - float(true)) < 5 for _, answer, true in means)
    shares = re.findall(r"^(?:kitchen|office|workshop) +(0\.\d+) +(0\.\d+)$", output, re.MULTILINE)
    assert len(shares) == 3
    assert all(abs(float(released) - float(true)) < 0.2 for released, true in shares)
    assert "Left of epsilon 3: 1\n" in output


def test_polars_in_and_out(tmp_path: Path) -> None:
    """Every range lies in its interval, near the truth."""
    output = run("polars_in_and_out.py", tmp_path)
    rows = re.findall(r"\d+ to \d+ +┆ (-?\d+) +┆ (-?\d+) +┆ (\d+) +┆ (\d+)", output)
    assert len(rows) == 4
    for trips, least, most, truth in (map(int, row) for row in rows):
        assert least <= trips <= most
        assert abs(trips - truth) < 300
    assert "Left of epsilon 3: 1\n" in output


def test_class_exercise_on_priors(tmp_path: Path) -> None:
    """The one who is sure and wrong is the farthest off, and the picture has all five."""
    output = run("class_exercise_on_priors.py", tmp_path, "class.svg")
    off = dict(re.findall(r"^(\w+), [\w ]+? +(\d+)$", output, re.MULTILINE))
    assert sorted(off) == ["Ada", "Ben", "Cy", "Dee", "Eve"]
    assert max(off, key=lambda name: int(off[name])) == "Dee"
    assert int(off["Ben"]) < int(off["Eve"])
    assert all(name in (tmp_path / "class.svg").read_text() for name in off)


def test_census_release(tmp_path: Path) -> None:
    """Tables add up, no row of the private file is impossible, and the t-close file's claim is measured."""
    output = run("census_release.py", tmp_path, str(tmp_path))
    rows = [
        [int(n.replace(",", "")) for n in row]
        for row in re.findall(r"^   \S+ +([\d,]+) +([\d,]+) +([\d,]+)$", output, re.M)
    ]
    assert len(rows) == 5
    assert all(women + men == both for women, men, both in rows)
    assert [sum(column) for column in zip(*rows[:-1], strict=True)] == rows[-1]
    assert rows[-1][-1] == 6000
    with (tmp_path / "private.csv").open() as file:
        released = list(csv.DictReader(file))
    assert len(released) == 6000
    assert [row for row in released if row["age"] and int(row["age"]) < 16 and row["work"] not in {"none", ""}] == []
    assert "Spent: 1.5 of 2; the DP total no longer describes all disclosure." in output
    verify = ["-m", "discreet", "verify", "close.csv", "--original", "census.yaml"]
    verified = fork_server.run_forked(verify, tmp_path, os.environ)
    assert "t-closeness with t 2 under the ratio distance holds" in verified.stdout, verified.stderr


@pytest.mark.system_entropy(failure=2e-10)
def test_auditing_another_library(tmp_path: Path) -> None:
    """Both faults are found, what is right is not accused, and an absent library is named.

    OpenDP takes no seed, and an audit accuses what is right as often as its confidence allows: here once in 10^10 runs,
    so that the test fails by chance with less than 2e-10.
    """
    script = (EXAMPLES / "auditing_another_library.py").read_text(encoding="utf-8")
    surer = script.replace("CONFIDENCE = 0.99999\n", "CONFIDENCE = 0.9999999999\n")
    assert surer != script
    (tmp_path / "surer.py").write_text(surer, encoding="utf-8")
    sentences = dict(re.findall(r"^(\S.*)\n    (.*)$", run(str(tmp_path / "surer.py"), tmp_path), re.MULTILINE))
    assert "the answer is not a multiple of 2^-" in sentences["by hand: floating point, the right scale"]
    assert sentences["by hand: whole numbers, half the scale"].startswith("Violated: epsilon is at least 1.")
    assert sentences["by hand: whole numbers, the right scale"].startswith(
        ("No violation above 0.8", "No violation above 0.9")
    )
    assert len(sentences) == 5
    others = [words for name, words in sentences.items() if name.startswith(("opendp", "diffprivlib"))]
    assert all(words.startswith(("No violation", "It is not installed here")) for words in others)


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda script: script.name)
def test_every_script_is_listed_and_tested(script: Path) -> None:
    """One that is not would rot."""
    assert f"examples/{script.name}`" in (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert f"def test_{script.stem}(" in Path(__file__).read_text(encoding="utf-8")
