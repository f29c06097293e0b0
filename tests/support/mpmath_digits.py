"""Fifty digits for all that mpmath computes in a module's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mpmath import mp


@pytest.fixture(autouse=True)
def use_fifty_digits() -> Iterator[None]:
    with mp.workdps(50):
        yield
