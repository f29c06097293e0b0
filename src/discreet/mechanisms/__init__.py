"""TRUSTED: entropy, exact samplers, one mechanism per file with its proof note beside it."""
