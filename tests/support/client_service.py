"""A scripted service that a test's client talks to, as a fixture."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.scripted_service import ScriptedService, run_scripted_service


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    with run_scripted_service() as script:
        yield script
