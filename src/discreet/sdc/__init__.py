"""TRUSTED: groups of records, and files that hide each record in its group."""
