"""The `discreet` command: every command parses, asks the custodian once, and prints."""

from __future__ import annotations


def main() -> None:
    """Run the command that was typed, and leave with its exit code."""
    import signal
    import sys
    import warnings

    from discreet.cli.run import run

    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # of libraries: stderr is for one sentence of ours
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what is half made is taken away
    sys.exit(run(sys.argv[1:]))
