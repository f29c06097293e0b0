"""What the README and every page of the documentation show runs, and prints what they say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

import pytest
from _pytest.mark import ParameterSet

from support import external_services, fork_server, run_page

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BRIEFLY = """
```sh
python -m discreet.sample work
discreet ask work/registry.yaml "SELECT COUNT(*) FROM registry WHERE stay > 30" --epsilon 0.1 --analyst ann > told.txt
```

```sh
discreet ask work/registry.yaml "SELECT nothing" --epsilon 0.1     # exit code 2
```
"""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def find_needed_service(page: Path) -> str | None:
    """The service that a page's first lines say it needs: `needs: postgres`."""
    head = re.match(r"---\n(.*?)---\n", page.read_text(), re.DOTALL)
    need = head and re.search(r"^needs: (\w+)$", head[1], re.MULTILINE)
    return need[1] if need else None


@pytest.fixture
def server() -> str:
    """Forks pages, and what they type."""
    return fork_server.start_shared_server()


def shown_pages() -> Iterator[ParameterSet]:
    """Those that need PostgreSQL are run where it runs."""
    for shown in PAGES:
        marks = [pytest.mark.xdist_group("postgres")] if find_needed_service(shown) == "postgres" else []
        yield pytest.param(shown, id=str(shown.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("shown", [*shown_pages()])
def test_every_block_of_every_page_runs(
    shown: Path, server: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """And prints what the page says it prints; `tests/support/run_page.py` says how each kind of block is run.

    With a command that is the one that is installed but for its start.
    """
    environment = typing_in(tmp_path)
    if find_needed_service(shown) == "postgres":
        environment |= libpq(request.getfixturevalue("postgres"))
    elif find_needed_service(shown) == "spark":
        external_services.require(
            "spark", *external_services.list_absent_modules("pyspark"), *external_services.list_absent_programs("java")
        )
        environment["PYSPARK_SUBMIT_ARGS"] = f"--driver-java-options '{external_services.SHORT_LIVED}' pyspark-shell"
    words = [str(ROOT / "tests/support/run_page.py"), str(shown), str(tmp_path)]
    code, output = from_server(server, words, environment, tmp_path)
    assert code == 0, output


@pytest.mark.parametrize(
    "shown", [pytest.param(README, marks=pytest.mark.soak, id="README"), pytest.param(BRIEFLY, id="briefly")]
)
def test_the_commands_that_are_installed_do_what_is_shown(shown: str, tmp_path: Path) -> None:
    """Each a new process: all of the README's, and a few that make a table, ask about it and refuse."""
    (tmp_path / "page.md").write_text(shown)
    words = [str(ROOT / "tests/support/run_page.py"), str(tmp_path / "page.md"), str(tmp_path)]
    code, output = run_page_in_process(words, typing_in(tmp_path), tmp_path)
    assert code == 0, output


def typing_in(folder: Path) -> dict[str, str]:
    """The environment of somebody at home in a folder, with the command installed."""
    return {**os.environ, "HOME": str(folder), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def run_page_in_process(words: list[str], environment: dict[str, str], folder: Path) -> tuple[int, str]:
    """How a page ended and what was said, each of its commands a new process of Python."""
    with (folder / ".said").open("w+") as output:
        running = subprocess.Popen(
            [sys.executable, *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return wait_until_ended(running), read(output)


def from_server(server: str, words: list[str], environment: dict[str, str], folder: Path) -> tuple[int, str]:
    """The same, each of its commands forked."""
    with (
        (folder / ".said").open("w+") as output,
        Path(os.devnull).open() as nothing,
        TemporaryDirectory(prefix="discreet-", dir="/tmp") as commands,
    ):
        files = nothing.fileno(), output.fileno(), output.fileno()
        return wait_until_ended(fork_server.Program(server, [*words, commands], environment, *files)), read(output)


def wait_until_ended(running: subprocess.Popen[bytes] | fork_server.Program) -> int:
    """How it ended, with what it left running, as a service, ended too."""
    try:
        return running.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)


def read(file: TextIO) -> str:
    file.seek(0)
    return file.read()


def shown_by(text: str, server: str, folder: Path) -> tuple[int, str]:
    """How a page of our own ends, its commands forked."""
    (folder / "page.md").write_text(text)
    words = [str(ROOT / "tests/support/run_page.py"), str(folder / "page.md"), str(folder)]
    return from_server(server, words, dict(os.environ), folder)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("```sh\ndiscreet nonsense\n```\n", "ended with 2, not 0"),
        ("```sh\ndiscreet --version     # exit code 3\n```\n", "ended with 0, not 3"),
        ("```sh\ndiscreet --version\n```\n\n```text\ndiscreet 0.0\n```\n", "printed was\ndiscreet 0.1"),
        ("```sh\npython -m discreet.sample | true\n```\n", "ended with 1, not 0"),
        ("```sh\npython -c 'exit(4)'\n```\n", "ended with 4, not 0"),
    ],
)
def test_a_forked_command_that_does_not_do_what_is_shown_is_caught(
    text: str, says: str, server: str, tmp_path: Path
) -> None:
    code, output = shown_by(text, server, tmp_path)
    assert (code, says in output) == (1, True), output


NOISE = """
import os, signal, sys

def draw(records, entropy):
    print(os.environ["COLOUR"], *sys.argv, os.getcwd(), os.urandom(8).hex(), sys.stdin.read(), flush=True)
    print("aside", file=sys.stderr)
    os.kill(os.getpid(), signal.SIGKILL)

def wait(records, entropy):
    open("here", "x").close()
    signal.pause()
"""
TYPED = """
mkdir there; cd there; mv ../noise.py .
for colour in blue red; do
    echo -n heard | COLOUR=$colour discreet audit noise:draw --pair 1 2 --epsilon 1 2>> aside.txt || echo $?
done
cat aside.txt
discreet audit noise:wait --pair 1 2 --epsilon 1 & waiting=$!
until [ -e here ]; do kill -0 $waiting; sleep 0.1; done
kill $waiting
wait $waiting || echo $?
"""


def test_a_forked_command_is_as_one_that_is_started(server: str, tmp_path: Path) -> None:
    """Its words, folder, environment, files and signals are those of who typed it; it draws numbers of its own."""
    (tmp_path / "noise.py").write_text(NOISE)
    code, output = shown_by(f"```sh{TYPED}```\n", server, tmp_path)
    assert code == 0, output
    printed = (tmp_path / ".printed").read_text()
    words = f"{Path(sys.executable).with_name('discreet')} audit noise:draw --pair 1 2 --epsilon 1"
    patterns = [rf"{colour} {words} {tmp_path / 'there'} (\w{{16}}) heard\n137\n" for colour in ("blue", "red")]
    match = re.fullmatch("".join(patterns) + "aside\naside\n143\n", printed)
    assert match, printed
    assert match[1] != match[2]


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
        run_page.run_page(tmp_path / "page.md", tmp_path)


def test_a_page_is_one_program_in_one_folder(tmp_path: Path) -> None:
    """Names and files go from block to block; an example need not be what is printed."""
    text = (
        '```yaml title="told.yaml"\na: 1\n```\n\n```python\nb = 2\n```\n\n```python\nprint(b)\n```\n\n'
        '```text\n2\n```\n\n```sh\ncat told.yaml\n```\n\n```text title="for example"\nanything\n```\n'
    )
    (tmp_path / "page.md").write_text(text)
    run_page.run_page(tmp_path / "page.md", tmp_path)
    assert (tmp_path / ".printed").read_text() == "a: 1\n"


def libpq(dsn: str) -> dict[str, str]:
    """How PostgreSQL's own tools are told where a server is."""
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(dsn)
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
    return {names[key]: str(value) for key, value in parts.items() if key in names}


def test_the_picture_of_the_attack_shows_its_numbers() -> None:
    """The committed picture has the curves and the dots that the script computes, and the limits beside them."""
    from demo import attack

    committed = attack.PICTURE.read_text()
    shapes = [
        re.findall(r'<path aria-label="([^"]*)"[^>]* d="([^"]*)"', text) for text in (committed, attack.draw_picture())
    ]
    assert shapes[0] == shapes[1]
    assert len(shapes[0]) >= len(attack.TIMES) + len(attack.draw_ratios())
    assert [label for label in attack.list_labels() if label not in committed] == []
    assert all(
        abs(dot["ratio"] - attack.compute_log_ratio(dot["x"], attack.DRAWN_TIMES)) < 0.15
        for dot in attack.draw_ratios()
    )
    assert 2.5 < max(dot["ratio"] for dot in attack.draw_ratios()) < attack.compute_bound(attack.DRAWN_TIMES)


def test_the_version_is_that_of_the_package() -> None:
    import discreet

    assert f'version = "{discreet.__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_names_are_found_and_others_are_not() -> None:
    """Public names load when first used; the rest is an AttributeError like anywhere."""
    import discreet

    namespaces = {"constraints", "mechanisms", "sdc", "synthetic", "verification"}
    assert dir(discreet) == sorted([*discreet.__all__, *namespaces, "__version__"])
    assert not namespaces & {*discreet.__all__}
    assert all(getattr(discreet, name) for name in discreet.__all__)
    assert not hasattr(discreet, "secrets_of_the_custodian")


def test_the_excerpts_of_how_to_add_a_mechanism_stand_in_the_source() -> None:
    """The page's titled blocks are lines of the module of that name, in their order."""
    page = (ROOT / "docs/how-to/add-a-mechanism.md").read_text()
    excerpts = [block for block in run_page.find_blocks(page) if block.title not in {None, run_page.EXAMPLE}]
    assert {block.title for block in excerpts} == {"randomized_response.py", "candidates.py"}
    for block in excerpts:
        (module,) = (ROOT / "src/discreet").rglob(str(block.title))
        assert block.text in module.read_text()
