"""Where rows live: a snapshot of whole numbers on DuckDB, PostgreSQL or Spark, and plain totals of it."""
