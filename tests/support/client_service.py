"""A scripted service that a test's client talks to, as a fixture."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.scripted_service import Scripted, scripted


@pytest.fixture
def service() -> Iterator[Scripted]:
    with scripted() as script:
        yield script
