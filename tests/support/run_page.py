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


def find_blocks(page: str) -> list[Block]:
    """The blocks of a page, in their order; one that is indented would be overlooked, and is refused."""
    if hidden := re.search(r"^[ >]+```", page, re.MULTILINE):
        raise SystemExit(f"a block that is not at the left margin: {hidden[0]!r}")
    blocks = []
    for fence in FENCE.finditer(page):
        title = TITLE.search(fence[2])
        line = page.count("\n", 0, fence.start()) + 2
        blocks.append(Block(fence[1], title and title[1], fence[3], line))
    return blocks


def run_page(page: Path, folder: Path) -> None:
    """Run what a page shows, and compare what it says is printed."""
    names: dict[str, object] = {"__name__": "__main__"}
    output = ""
    for block in find_blocks(page.read_text(encoding="utf-8")):
        if block.language == "text":
            if block.title != EXAMPLE and output.rstrip() != block.text.rstrip():
                raise SystemExit(f"{page}, line {block.line}: printed was\n{output}")
        elif block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
        else:
            output = _run_block(block, page, folder, names)


def _run_block(block: Block, page: Path, folder: Path, names: dict[str, object]) -> str:
    if block.language == "python":
        return _run_python(block, page, names)
    if block.language == "sh":
        return _run_shell(block, page, folder)
    if block.language in {"yaml", "json"}:
        read = yaml.safe_load if block.language == "yaml" else json.loads
        assert read(block.text), f"{page}, line {block.line}: nothing is in it"
        return ""
    raise SystemExit(f"{page}, line {block.line}: nobody runs a block of {block.language or 'no language'}")


def _run_python(block: Block, page: Path, names: dict[str, object]) -> str:
    printed = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    with redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


def _run_shell(block: Block, page: Path, folder: Path) -> str:
    """What is left running holds the file it prints to, and not us."""
    expected = int(code[1]) if (code := CODE.search(block.text)) else 0
    printed = folder / ".printed"
    with printed.open("w", encoding="utf-8") as out:
        process = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", MAKE + block.text], cwd=folder, stdout=out, check=False
        )
    if process.returncode != expected:
        raise SystemExit(f"{page}, line {block.line}: ended with {process.returncode}, not {expected}")
    return printed.read_text(encoding="utf-8")


def main() -> None:
    page, folder, *commands = (Path(argument).resolve() for argument in sys.argv[1:])
    os.chdir(folder)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
    sys.path.insert(1, str(ROOT))
    if not commands:
        run_page(page, folder)
        return
    os.setsid()
    with fork_server.stand_in_for_commands(commands[0]):
        run_page(page, folder)


if __name__ == "__main__":
    main()
