"""Releases that an engine makes by itself, wherever the rows are: a plan from what is public and how many rows there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discreet.custodian.protecting import Made
from discreet.custodian.recipe import Recipe
from discreet.custodian.registering import Progress
from discreet.schema import Schema

if TYPE_CHECKING:
    from discreet.sources.plan import Source


def made_by_engine(recipe: Recipe, schema: Schema, source: Source, key: bytes, progress: Progress) -> Made | None:
    return None
