"""Links between pages, as they stand in the repository, made those of the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping

from documentation.repository_pages import ROOT

LINK = re.compile(r"(?P<image>!?)\[(?P<label>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
PLACEHOLDER = "\0"
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#|//")


class BrokenLink(Exception):
    """A link that leads nowhere."""


def rewrite_links(markdown: str, file: str, page: str, pages: Mapping[str, str]) -> str:
    """The text of a page: `file` is where it stands in the repository, `page` where on the site.

    `pages` are the files outside docs/ that are pages. What is neither becomes plain code; what is not there is
    refused.
    """

    def rewrite_link(match: re.Match[str]) -> str:
        target, sharp, anchor = match["target"].partition("#")
        if not target or ELSEWHERE.match(match["target"]):
            return match[0]
        place = posixpath.normpath(posixpath.join(posixpath.dirname(file), target))
        page_place = pages.get(place, place.removeprefix("docs/") if place.startswith("docs/") else None)
        if page_place is not None:
            near = posixpath.relpath(page_place, posixpath.dirname(page) or ".")
            return f"{match['image']}[{match['label']}]({near}{sharp}{anchor})"
        if place.startswith("..") or not (ROOT / place).exists():
            raise BrokenLink(f"{file} leads to {match['target']}, which is not in the repository")
        return match["label"] if PLACEHOLDER in match["label"] else f"`{match['label']}`"

    return change_outside_code(markdown, lambda text: LINK.sub(rewrite_link, text))


def change_outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """Change everything but fenced blocks and pieces of code; a label may be one."""
    code_parts: list[str] = []

    def take_out(match: re.Match[str]) -> str:
        code_parts.append(match[0])
        return f"{PLACEHOLDER}{len(code_parts) - 1}{PLACEHOLDER}"

    changed_text = change(CODE.sub(take_out, markdown))
    return re.sub(f"{PLACEHOLDER}([0-9]+){PLACEHOLDER}", lambda match: code_parts[int(match[1])], changed_text)


def find_repository_file(page: str, pages: Mapping[str, str]) -> str:
    """Where a page of the site stands in the repository."""
    return next((file for file, page_place in pages.items() if page_place == page), f"docs/{page}")
