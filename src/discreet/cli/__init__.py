"""The `discreet` command: every command parses, asks the custodian once, and prints."""
