"""The `discreet` command: every command parses, asks the custodian once, and prints."""

from __future__ import annotations


def main() -> None:
    """Run the command that was typed, and leave with its exit code."""
    import signal
    import sys
    import warnings

    from discreet.cli.main import handle_signal, run_command_line

    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # of libraries: stderr is for one sentence of ours
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle_signal)
    sys.exit(run_command_line(sys.argv[1:]))
