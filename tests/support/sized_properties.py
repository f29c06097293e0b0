"""Properties that are tried on a few random examples with every change, and on many as a soak."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

Property = Callable[..., None]


def run_at_two_sizes(few: int, many: int, *strategies: SearchStrategy[Any]) -> Callable[[Property], Property]:
    """Make a test of a property, like `given`, but of two sizes."""

    def decorate(holds: Property) -> Property:
        @pytest.mark.parametrize("examples", [few, pytest.param(many, marks=pytest.mark.soak)])
        def test(examples: int) -> None:
            settings(max_examples=examples)(given(*strategies)(holds))()

        test.__doc__ = holds.__doc__
        return test

    return decorate
