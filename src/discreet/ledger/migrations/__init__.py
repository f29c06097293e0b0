"""How the tables of a ledger came about, one file for each format; Alembic reads them. What is here never changes."""
