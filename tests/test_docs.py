"""What the README shows runs, and so does the demo."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_screen_of_code_runs() -> None:
    """Every Python block of the README, as it stands."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        assert "Differential privacy with epsilon " in run("-c", block)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_every_page_runs_and_prints_what_it_says(page: Path) -> None:
    """Every Python block, as it stands; where a block of text follows, that is what it prints."""
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", page.read_text(), re.DOTALL)
    assert blocks
    for block, printed in blocks:
        said = run("-c", block)
        assert said == (printed or said)


def test_the_picture_of_the_attack_shows_its_numbers() -> None:
    """The committed picture has the curves and the dots that the script computes, and the limits beside them."""
    from demo import attack

    committed = attack.PICTURE.read_text()
    shapes = [
        re.findall(r'<path aria-label="([^"]*)"[^>]* d="([^"]*)"', text) for text in (committed, attack.picture())
    ]
    assert shapes[0] == shapes[1]
    assert len(shapes[0]) >= len(attack.TIMES) + len(attack.drawn())
    assert [label for label in attack.labels() if label not in committed] == []
    assert all(abs(dot["ratio"] - attack.log_ratio(dot["x"], attack.DRAWN)) < 0.15 for dot in attack.drawn())
    assert 2.5 < max(dot["ratio"] for dot in attack.drawn()) < attack.bound(attack.DRAWN)


def test_the_demo_shows_what_it_says(tmp_path: Path) -> None:
    """Nine pictures on a page that fetches nothing, and the promise held on the screen."""
    said = run("-m", "demo", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 9
    assert not re.search(r"(src|href)=.?(https?:)?//", page)
    assert "Three answers at 0.1 cost 3/10 exactly" in said
    assert "The answer is yes, at epsilon 1: 0.4% of times by refinement, 19% by Laplace noise." in said
    assert "refinement is better up to a range of 1.4" in said


def test_every_public_name_is_in_the_readme() -> None:
    """A name nobody can find is not public; errors aside, which the errors module lists."""
    import discreet

    readme = (ROOT / "README.md").read_text()
    errors = {name for name in discreet.__all__ if discreet.WHERE[name] == "discreet.errors"}
    assert [name for name in discreet.__all__ if f"`{name}`" not in readme and name not in errors] == []


def test_the_version_is_that_of_the_package() -> None:
    import discreet

    assert f'version = "{discreet.__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_names_are_found_and_others_are_not() -> None:
    """Public names load when first used; the rest is an AttributeError like anywhere."""
    import discreet

    assert dir(discreet) == discreet.__all__
    assert all(getattr(discreet, name) for name in discreet.__all__)
    assert not hasattr(discreet, "secrets_of_the_custodian")
