"""What the README and every page of the documentation show runs, and prints what they say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import page
import services

ROOT = Path(__file__).parents[1]


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def needed(page: Path) -> str | None:
    """The service that a page's first lines say it needs: `needs: postgres`."""
    head = re.match(r"---\n(.*?)---\n", page.read_text(), re.DOTALL)
    need = head and re.search(r"^needs: (\w+)$", head[1], re.MULTILINE)
    return need[1] if need else None


@pytest.mark.parametrize("shown", PAGES, ids=lambda shown: str(shown.relative_to(ROOT)))
def test_every_block_of_every_page_runs(shown: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """And prints what the page says it prints; `tests/page.py` says how each kind of block is run."""
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    if needed(shown) == "postgres":
        environment |= libpq(request.getfixturevalue("postgres"))
    elif needed(shown) == "spark":
        services.require("spark", *services.absent_modules("pyspark"), *services.absent_programs("java"))
    command = [sys.executable, ROOT / "tests" / "page.py", shown, tmp_path]
    with (
        (tmp_path / ".said").open("w+") as said,
        subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as running,
    ):
        code = running.wait()
        with suppress(ProcessLookupError):  # what a page left running, as a service
            os.killpg(running.pid, signal.SIGKILL)
        said.seek(0)
        assert code == 0, said.read()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "printed was\n1"),
        ("```sh\nexit 3\n```\n", "ended with 3, not 0"),
        ("```sh\ntrue     # exit code 3\n```\n", "ended with 0, not 3"),
        ("```sh\nfalse | true\n```\n", "ended with 1, not 0"),
        ("```toml\na = 1\n```\n", "nobody runs a block of toml"),
        ("```\na\n```\n", "nobody runs a block of no language"),
        ("- so:\n\n  ```python\n  a\n  ```\n", "not at the left margin"),
    ],
)
def test_a_page_that_does_not_do_what_it_shows_is_caught(text: str, says: str, tmp_path: Path) -> None:
    """Another output, another exit code, and blocks that nobody runs."""
    (tmp_path / "page.md").write_text(text)
    with pytest.raises(SystemExit, match=re.escape(says)):
        page.run(tmp_path / "page.md", tmp_path)


def test_a_page_is_one_program_in_one_folder(tmp_path: Path) -> None:
    """Names and files go from block to block; an example need not be what is printed."""
    text = (
        '```yaml title="told.yaml"\na: 1\n```\n\n```python\nb = 2\n```\n\n```python\nprint(b)\n```\n\n'
        '```text\n2\n```\n\n```sh\ncat told.yaml\n```\n\n```text title="for example"\nanything\n```\n'
    )
    (tmp_path / "page.md").write_text(text)
    page.run(tmp_path / "page.md", tmp_path)
    assert (tmp_path / ".printed").read_text() == "a: 1\n"


def libpq(dsn: str) -> dict[str, str]:
    """How PostgreSQL's own tools are told where a server is."""
    from psycopg.conninfo import conninfo_to_dict

    told = conninfo_to_dict(dsn)
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
    return {names[key]: str(value) for key, value in told.items() if key in names}


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


def test_the_version_is_that_of_the_package() -> None:
    import discreet

    assert f'version = "{discreet.__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_names_are_found_and_others_are_not() -> None:
    """Public names load when first used; the rest is an AttributeError like anywhere."""
    import discreet

    assert dir(discreet) == discreet.__all__
    assert all(getattr(discreet, name) for name in discreet.__all__)
    assert not hasattr(discreet, "secrets_of_the_custodian")
