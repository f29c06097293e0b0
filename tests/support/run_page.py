"""Run every block of a page of the documentation, in order and in one folder: `python run_page.py PAGE FOLDER`.

With an empty third folder, `discreet` is not started but forked, and this is the first process of a session of its own.

What a block's first line says decides:

- `python`: run; the blocks of a page are one program.
- `sh`: run by bash; a last line that ends in `# exit code 3` must end so. `make` is a rehearsal in the repository.
  Python finds the repository's own packages too, as it would in a clone.
- any language with `title="name"`: a file of that name, written and not run.
- `yaml`, `json`: read.
- `text`: what the block before it prints, to the letter; with `title="for example"` only something like it.

Anything else nobody runs, and is refused.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))
from support import fork_server  # noqa: E402

FENCE = re.compile(r"^```(\w*)(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
TITLE = re.compile(r'title="([^"]+)"')
CODE = re.compile(r"# exit code (\d+)\s*\Z")
EXAMPLE = "for example"
MAKE = f'make() {{ command make --dry-run --directory="{ROOT}" "$@" > /dev/null; }}\n'


@dataclass(frozen=True)
class Block:
    """One fenced block, and the line of its page on which it starts."""

    language: str
    title: str | None
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in their order; one that is indented would be overlooked, and is refused."""
    if hidden := re.search(r"^[ >]+```", page, re.MULTILINE):
        raise SystemExit(f"a block that is not at the left margin: {hidden[0]!r}")
    found = []
    for fence in FENCE.finditer(page):
        title = TITLE.search(fence[2])
        line = page.count("\n", 0, fence.start()) + 2
        found.append(Block(fence[1], title and title[1], fence[3], line))
    return found


def run(page: Path, folder: Path) -> None:
    """Run what a page shows, and compare what it says is printed."""
    names: dict[str, object] = {"__name__": "__main__"}
    said = ""
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language == "text":
            if block.title != EXAMPLE and said.rstrip() != block.text.rstrip():
                raise SystemExit(f"{page}, line {block.line}: printed was\n{said}")
        elif block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
        else:
            said = _done(block, page, folder, names)


def _done(block: Block, page: Path, folder: Path, names: dict[str, object]) -> str:
    if block.language == "python":
        return _python(block, page, names)
    if block.language == "sh":
        return _shell(block, page, folder)
    if block.language in {"yaml", "json"}:
        read = yaml.safe_load if block.language == "yaml" else json.loads
        assert read(block.text), f"{page}, line {block.line}: nothing is in it"
        return ""
    raise SystemExit(f"{page}, line {block.line}: nobody runs a block of {block.language or 'no language'}")


def _python(block: Block, page: Path, names: dict[str, object]) -> str:
    printed = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    with redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


def _shell(block: Block, page: Path, folder: Path) -> str:
    """What is left running holds the file it prints to, and not us."""
    expected = int(code[1]) if (code := CODE.search(block.text)) else 0
    printed = folder / ".printed"
    with printed.open("w", encoding="utf-8") as out:
        told = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", MAKE + block.text], cwd=folder, stdout=out, check=False
        )
    if told.returncode != expected:
        raise SystemExit(f"{page}, line {block.line}: ended with {told.returncode}, not {expected}")
    return printed.read_text(encoding="utf-8")


def main() -> None:
    page, folder, *commands = (Path(given).resolve() for given in sys.argv[1:])
    os.chdir(folder)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
    sys.path.insert(1, str(ROOT))
    if not commands:
        run(page, folder)
        return
    os.setsid()
    with fork_server.stand_in(commands[0]):
        run(page, folder)


if __name__ == "__main__":
    main()
