"""Links between pages, as they stand in the repository, made those of the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping

from documentation.notes import ROOT

LINK = re.compile(r"(?P<image>!?)\[(?P<label>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
HELD = "\0"
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#|//")


class Broken(Exception):
    """A link that leads nowhere."""


def rewritten(markdown: str, file: str, page: str, pages: Mapping[str, str]) -> str:
    """The text of a page: `file` is where it stands in the repository, `page` where on the site.

    `pages` are the files outside docs/ that are pages. What is neither becomes plain code; what is not there is
    refused.
    """

    def link(found: re.Match[str]) -> str:
        target, sharp, anchor = found["target"].partition("#")
        if not target or ELSEWHERE.match(found["target"]):
            return found[0]
        place = posixpath.normpath(posixpath.join(posixpath.dirname(file), target))
        there = pages.get(place, place.removeprefix("docs/") if place.startswith("docs/") else None)
        if there is not None:
            near = posixpath.relpath(there, posixpath.dirname(page) or ".")
            return f"{found['image']}[{found['label']}]({near}{sharp}{anchor})"
        if place.startswith("..") or not (ROOT / place).exists():
            raise Broken(f"{file} leads to {found['target']}, which is not in the repository")
        return found["label"] if HELD in found["label"] else f"`{found['label']}`"

    return outside_code(markdown, lambda text: LINK.sub(link, text))


def outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """Change everything but fenced blocks and pieces of code; a label may be one."""
    held: list[str] = []

    def hold(found: re.Match[str]) -> str:
        held.append(found[0])
        return f"{HELD}{len(held) - 1}{HELD}"

    changed = change(CODE.sub(hold, markdown))
    return re.sub(f"{HELD}([0-9]+){HELD}", lambda found: held[int(found[1])], changed)


def repository_file(page: str, pages: Mapping[str, str]) -> str:
    """Where a page of the site stands in the repository."""
    return next((file for file, there in pages.items() if there == page), f"docs/{page}")
