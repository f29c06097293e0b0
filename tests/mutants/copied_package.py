"""A plugin of pytest for one run: the package that is tested is the copy, and examples are the same in every run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings

COPY = "DISCREET_COPY"
"""The variable that says which folder the package must come from."""
ELSEWHERE = 30
"""Told as the exit code where it came from another."""
SKIPPED = 31
"""And where no test ran, all being skipped."""
PROFILE = "mutants"

# Nothing is remembered from run to run, and a failure is enough: it need not be made small.
settings.register_profile(
    PROFILE, deadline=None, derandomize=True, database=None, phases=(Phase.explicit, Phase.generate)
)

DIED = "died of "
"""Begins the line that names the exception of a test that failed."""

passed: list[str] = []
died: list[str] = []


def pytest_sessionstart() -> None:
    """Stop where the package that was imported is not the copy."""
    import discreet

    if not Path(discreet.__file__).is_relative_to(os.environ[COPY]):
        pytest.exit(f"discreet was imported from {discreet.__file__}", returncode=ELSEWHERE)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember what has passed."""
    if report.when == "call" and report.passed:
        passed.append(report.nodeid)


def pytest_exception_interact(call: pytest.CallInfo[object]) -> None:
    """Remember what a test failed of: an assertion, or something that it did not look for."""
    if call.excinfo is not None:
        died.append(call.excinfo.typename)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell the first of them."""
    if died:
        terminalreporter.write_line(f"{DIED}{died[0]}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Tell a run that only skipped from one that passed."""
    if exitstatus == pytest.ExitCode.OK and not passed:
        session.exitstatus = SKIPPED
