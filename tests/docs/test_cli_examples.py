"""The example in the help of each command is there, and does what it says."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from documentation.reference_cli import list_commands as all_commands
from typer.core import TyperGroup

from discreet.cli.main import EXAMPLES
from support.command_line import run_discreet, run_successfully, write_registry

SERVED = "datasets:\n  - schema: work/registry.yaml\n"
NOT_RUN = {"serve": "until it is stopped", "token revoke": "an id of a token that there is"}


def test_every_command_has_one_and_shows_it() -> None:
    named = {
        name.removeprefix("discreet "): typer_command
        for name, typer_command in all_commands()
        if not isinstance(typer_command, TyperGroup)
    }
    assert set(named) == set(EXAMPLES)
    for name, command in named.items():
        assert f"\n  {EXAMPLES[name]}\n" in (command.epilog or ""), name
        assert EXAMPLES[name].startswith(f"discreet {name}")
        assert f"    {EXAMPLES[name]}" in run_successfully(*name.split(), "--help").out


def test_examples_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the list, as somebody would who tries them all."""
    monkeypatch.chdir(tmp_path)
    write_registry(tmp_path / "work")
    (tmp_path / "service.yaml").write_text(SERVED)
    for name, line in EXAMPLES.items():
        if name not in NOT_RUN:
            outcome = run_discreet(*shlex.split(line)[1:])
            assert outcome.code == 0, (line, outcome)


@pytest.mark.parametrize("name", NOT_RUN)
def test_those_that_are_not_run_are_read(name: str) -> None:
    """With one option more that there is not, which is all that is refused."""
    refused = run_discreet(*shlex.split(EXAMPLES[name])[1:], "--not-there")
    assert refused.code == 2
    assert "--not-there" in refused.err
