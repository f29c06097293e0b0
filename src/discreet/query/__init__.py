"""What is asked of a table."""
