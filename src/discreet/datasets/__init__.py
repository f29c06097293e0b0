"""A data set on disk: its folder, snapshots, registration, integrity, and the ledger it is bound to."""
