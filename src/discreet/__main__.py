"""`python -m discreet` is the `discreet` command."""

from discreet.cli.main import main

main()
