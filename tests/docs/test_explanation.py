"""The pages that explain: their pictures are drawn and shown, and their words are the product's."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from documentation.pictures_explanation import FOLDER, draw_pictures

from discreet import Guarantee
from discreet.custodian.rehearsal import REHEARSAL_NOTE

PAGES = sorted((Path(__file__).parents[2] / "docs" / "explanation").glob("*.md"))


def test_every_picture_is_drawn_and_shown() -> None:
    """What the pages show is what is drawn, each an SVG that says in words what is seen."""
    shown = {name for page in PAGES for name in re.findall(rf"\(\.\./({FOLDER}/[^)]+)\)", page.read_text("utf-8"))}
    pictures = draw_pictures()
    assert len(shown) > 5
    assert shown == set(pictures)
    roots = [ElementTree.fromstring(svg) for svg in pictures.values()]
    assert all(root.tag.endswith("svg") and root.attrib["aria-label"] for root in roots)


def test_the_table_of_guarantees_has_the_words_of_the_product() -> None:
    """A row for every model, in its own words."""
    page = next(page for page in PAGES if page.stem == "guarantees").read_text("utf-8")
    promises = (
        Guarantee.dp(0.5, unit="person"),
        Guarantee.approx_dp(0.5, 1e-6, unit="person"),
        Guarantee.zcdp(0.01, unit="person"),
        Guarantee.individual_dp(0.5, pure_epsilon=20),
        Guarantee.k_anonymity(10),
        Guarantee.k_anonymity(10, probabilistic=True),
        Guarantee.t_closeness(1.5, "ratio"),
        Guarantee.nominal(1, "as printed"),
    )
    rows = [f"| `{promise.model}` | {promise.words()} |" for promise in promises]
    assert [row for row in [*rows, f"| *rehearsal* | {REHEARSAL_NOTE} |"] if row not in page] == []
