"""How the tables of a store came about, one file for each format; Alembic reads them. What is here never changes."""
