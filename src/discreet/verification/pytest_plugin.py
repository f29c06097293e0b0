"""A pytest plugin: fixtures that replay questions and releases on generated neighbors of a schema.

It is active wherever discreet is installed, and loads nothing until a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from discreet.schema import Schema
    from discreet.verification.replays.neighbors import Pair
    from discreet.verification.replays.replay_result import Replay


@pytest.fixture
def discreet_replay() -> Callable[..., Replay]:
    """`discreet_replay(schema, question, epsilon=1)`: as `assert_private`, with a schema or the path of one."""
    from discreet.verification.replays.assertions import assert_private

    return lambda schema, *arguments, **options: assert_private(_load_schema(schema), *arguments, **options)


@pytest.fixture
def discreet_replay_release() -> Callable[..., Replay]:
    """`discreet_replay_release(schema, method, epsilon=1)`: as `assert_private_release`, likewise."""
    from discreet.verification.replays.assertions import assert_private_release

    return lambda schema, *arguments, **options: assert_private_release(_load_schema(schema), *arguments, **options)


@pytest.fixture
def discreet_neighbors() -> Callable[..., list[Pair]]:
    """`discreet_neighbors(schema, count)`: pairs of neighboring tables, as from `neighbor_rows`."""
    from discreet.verification.replays.neighbors import neighbor_rows

    return lambda schema, *arguments, **options: neighbor_rows(_load_schema(schema), *arguments, **options)


def _load_schema(schema_or_path: Schema | str | Path) -> Schema:
    """A schema as it is, or read from its file; nothing else is opened."""
    from discreet.schema import load_schema

    return load_schema(schema_or_path) if isinstance(schema_or_path, str | Path) else schema_or_path
